//! Who may talk to whom: certificates, and who is let in.

mod cert;
mod file;
mod store;
mod z85;
mod zpl;

pub use cert::ZCert;
pub use store::ZCertStore;
