//! Who may talk to whom: certificates, and who is let in.

mod cert;
mod store;

pub use cert::ZCert;
pub use store::ZCertStore;
