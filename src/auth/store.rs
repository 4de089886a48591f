use std::path::Path;

use crate::auth::ZCert;
use crate::error::Result;

/// The certificates of those who may come in.
#[derive(Debug)]
pub struct ZCertStore;

#[expect(missing_docs, clippy::missing_errors_doc, unused_variables, reason = "in the making")]
impl ZCertStore {
    pub fn directory(path: impl AsRef<Path>) -> Result<ZCertStore> {
        todo!()
    }

    pub fn callback(find: impl FnMut(&[u8; 32]) -> Option<ZCert> + Send + 'static) -> ZCertStore {
        todo!()
    }

    pub fn memory() -> ZCertStore {
        todo!()
    }

    pub fn insert(&mut self, cert: ZCert) {
        todo!()
    }

    pub fn lookup(&mut self, public: &[u8; 32]) -> Option<ZCert> {
        todo!()
    }
}
