use std::path::Path;

use crate::error::Result;
use crate::socket::ZSock;

/// A CURVE certificate: a key pair, or the public half of one, and metadata.
#[derive(Debug, Clone)]
pub struct ZCert {
    public: [u8; 32],
}

#[expect(missing_docs, clippy::missing_errors_doc, unused_variables, reason = "in the making")]
impl ZCert {
    pub fn new() -> Result<ZCert> {
        todo!()
    }

    pub fn from_keys(public: [u8; 32], secret: [u8; 32]) -> ZCert {
        todo!()
    }

    pub fn from_public(public: [u8; 32]) -> ZCert {
        ZCert { public }
    }

    pub fn load(path: impl AsRef<Path>) -> Result<ZCert> {
        todo!()
    }

    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        todo!()
    }

    pub fn save_public(&self, path: impl AsRef<Path>) -> Result<()> {
        todo!()
    }

    pub fn save_secret(&self, path: impl AsRef<Path>) -> Result<()> {
        todo!()
    }

    pub fn apply(&self, socket: &ZSock) -> Result<()> {
        todo!()
    }

    pub fn public_key(&self) -> &[u8; 32] {
        &self.public
    }

    pub fn public_text(&self) -> String {
        todo!()
    }

    pub fn meta(&self, name: &str) -> Option<&str> {
        todo!()
    }

    pub fn set_meta(&mut self, name: &str, value: &str) -> Result<()> {
        todo!()
    }

    pub fn unset_meta(&mut self, name: &str) -> Option<String> {
        todo!()
    }

    pub fn metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        std::iter::empty()
    }
}

impl PartialEq for ZCert {
    fn eq(&self, other: &ZCert) -> bool {
        self.public == other.public
    }
}

impl Eq for ZCert {}
