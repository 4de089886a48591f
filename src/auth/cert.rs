use std::borrow::Cow;
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use zeroize::{Zeroize, Zeroizing};

use super::file::{self, Staged, faulty};
use super::{z85, zpl};
use crate::engine;
use crate::error::{Error, Result};
use crate::ffi;
use crate::socket::ZSock;

/// As many as a file holds by far.
const MAX_METADATA: usize = 256;

/// The longest that a ZAP reply can carry (RFC 23).
const MAX_NAME: usize = 255;

/// A CURVE certificate: a public key, the secret key that goes with it or none, and metadata about
/// their owner (CZMQ's `zcert`).
///
/// A server has a certificate with its secret key, and its clients have its public key. If it is to
/// know its clients, they have certificates of their own, whose public keys it finds in a
/// [`ZCertStore`](crate::ZCertStore).
///
/// ```
/// use zkit::{ZCert, ZContext};
///
/// # if !zkit::engine().curve {
/// #     return Ok(());
/// # }
/// let ctx = ZContext::new()?;
/// let owner = ZCert::new()?;
///
/// let server = ctx.rep("")?;
/// owner.apply(&server)?;
/// server.set_curve_server(true)?;
/// let endpoint = server.bind("tcp://127.0.0.1:*")?;
///
/// let client = ctx.req("")?;
/// ZCert::new()?.apply(&client)?;
/// client.set_curve_serverkey(owner.public_key())?;
/// client.connect(&endpoint)?;
/// client.send("nobody else reads this")?;
/// assert_eq!(server.recv_str()?, "nobody else reads this");
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # Files
///
/// Two text files in ZPL (RFC 4), which CZMQ and pyzmq read and write too. `path` has the public key
/// and the metadata, for everybody; `path_secret`, its name with `_secret` behind it, has the secret
/// key too, and nobody but its owner may read it:
///
/// ```text
/// metadata
///     name = "Ann Example"
/// curve
///     public-key = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
///     secret-key = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"
/// ```
///
/// Files are replaced as a whole, so that a reader never sees half a certificate. A file with a
/// secret key is readable by its owner alone from its first moment, and is refused when it is read
/// and others have access to it. Symbolic links are followed in reading; writing refuses them.
/// A file that is not regular, is larger than 64 KiB, or has a line of more than 1024 bytes (CZMQ's
/// limit), is refused.
///
/// Beyond what CZMQ looks at, zkit refuses keys that are not Z85 or are all zeros (a CZMQ without
/// CURVE writes such), and names that come twice. A secret key of zeros, as CZMQ writes for none, is
/// none.
///
/// # Secrets
///
/// The secret key is wiped from memory on drop, with what was read and written of it. It is in no
/// `Debug` text, error or log line.
#[derive(Clone)]
#[doc(alias = "zcert")]
pub struct ZCert {
    public: [u8; 32],
    secret: Option<z85::Key>,
    metadata: Vec<(String, String)>,
}

impl ZCert {
    /// A certificate with new keys and no metadata.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the linked libzmq has no CURVE, [`Error::Io`] when it has no
    /// source of random numbers.
    #[doc(alias = "zcert_new")]
    pub fn new() -> Result<ZCert> {
        engine::require(&["curve"], "CURVE")?;
        let (public, secret) = ffi::curve_keypair().map_err(|errno| Error::Io {
            what: "cannot make a CURVE key pair".into(),
            source: io::Error::from_raw_os_error(errno.0),
        })?;
        let key = |text: &[u8; 41]| {
            z85::decode(&text[..z85::TEXT]).ok_or_else(|| refused("libzmq gave no key in Z85"))
        };
        Ok(ZCert { secret: Some(key(&secret)?), ..ZCert::from_public(**key(&public)?) })
    }

    /// A certificate with these keys and no metadata. The caller's copy of the secret key is the
    /// caller's to wipe.
    #[doc(alias = "zcert_new_from")]
    pub fn from_keys(public: [u8; 32], mut secret: [u8; 32]) -> ZCert {
        let kept = Some(Box::new(Zeroizing::new(secret)));
        secret.zeroize();
        ZCert { secret: kept, ..ZCert::from_public(public) }
    }

    /// A certificate with this public key, no secret key and no metadata: somebody else's.
    pub fn from_public(public: [u8; 32]) -> ZCert {
        ZCert { public, secret: None, metadata: Vec::new() }
    }

    /// Reads the secret file that goes with `path`, or `path` itself where there is none.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read, [`Error::Certificate`] when it is not a
    /// certificate, with the line at fault, or when it has a secret key and others have access to it.
    #[doc(alias = "zcert_load")]
    pub fn load(path: impl AsRef<Path>) -> Result<ZCert> {
        let path = path.as_ref();
        match ZCert::read(&secret_path(path)) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                ZCert::read(path)
            }
            read => read,
        }
    }

    /// Reads `path` and nothing else, and keeps no secret key: for the certificates of others.
    ///
    /// # Errors
    /// As [`load`](ZCert::load).
    pub fn load_public(path: impl AsRef<Path>) -> Result<ZCert> {
        Ok(ZCert { secret: None, ..ZCert::read(path.as_ref())? })
    }

    fn read(path: &Path) -> Result<ZCert> {
        let content = file::read(path)?;
        let cert = ZCert::decode(content.bytes()).map_err(|error| match error {
            Error::Certificate { line, reason, .. } => {
                Error::Certificate { path: Some(path.to_owned()), line, reason }
            }
            error => error,
        })?;
        if cert.has_secret() && !content.is_private() {
            let reason = format!(
                "it holds a secret key, and others have access to it (mode {:04o}): \
                 chmod 600 it, and if they may have read it make a new one",
                content.mode()
            );
            return Err(faulty(path, reason));
        }
        Ok(cert)
    }

    /// The certificate in the text of a file.
    ///
    /// ```
    /// use zkit::ZCert;
    ///
    /// let mut cert = ZCert::from_public([7; 32]);
    /// cert.set_meta("name", "Ann Example")?;
    /// let copy = ZCert::decode(cert.encode_public().as_bytes())?;
    /// assert_eq!(copy.meta("name"), Some("Ann Example"));
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Certificate`] with the line at fault.
    pub fn decode(text: &[u8]) -> Result<ZCert> {
        let fault = |line, reason| Error::Certificate { path: None, line: Some(line), reason };
        let mut cert = ZCert::from_public([0; 32]);
        let (mut public, mut secret) = (None, None);
        let mut sections = Vec::new();
        for item in zpl::items(text) {
            let item = item.map_err(|found| fault(found.line, found.reason))?;
            match (item.level, sections.last(), item.name) {
                (0, _, name) => {
                    if matches!(name, "metadata" | "curve") && sections.contains(&name) {
                        return Err(fault(item.line, "the section comes twice".into()));
                    }
                    sections.push(name);
                }
                (1, Some(&"metadata"), name) => {
                    let set = match cert.meta(name) {
                        Some(_) => Err("the name comes twice".into()),
                        None => cert.try_set_meta(name, item.value),
                    };
                    set.map_err(|reason| fault(item.line, reason))?;
                }
                (1, Some(&"curve"), "public-key") => read_key(&item, &mut public)?,
                (1, Some(&"curve"), "secret-key") => read_key(&item, &mut secret)?,
                _ => {}
            }
        }
        let Some(public) = public else {
            return Err(refused("it has no public-key in a section curve"));
        };
        cert.public = **public;
        if is_zero(&cert.public) {
            return Err(refused(
                "its public key is all zeros, as a CZMQ without CURVE writes them",
            ));
        }
        cert.secret = secret.filter(|key| !is_zero(key));
        Ok(cert)
    }

    /// Writes the public file `path` and the secret file beside it: both, or neither when the first
    /// of them cannot be written.
    ///
    /// ```
    /// use zkit::ZCert;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("ann.cert");
    /// let ann = ZCert::from_keys([7; 32], [8; 32]); // ZCert::new() makes a pair
    /// ann.save(&path)?; // ann.cert for others, ann.cert_secret for Ann
    /// assert!(ZCert::load(&path)?.has_secret());
    /// assert!(!ZCert::load_public(&path)?.has_secret());
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Certificate`] when there is no secret key, or something other than a regular file is
    /// in the place of one of them; [`Error::Io`] when writing fails.
    #[doc(alias = "zcert_save")]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let secret_path = secret_path(path);
        let secret = self.stage_secret(&secret_path)?;
        let public = self.stage_public(path)?;
        secret.commit()?;
        public.commit()
    }

    /// Writes the public file `path`, which everybody may have.
    ///
    /// # Errors
    /// As [`save`](ZCert::save).
    #[doc(alias = "zcert_save_public")]
    pub fn save_public(&self, path: impl AsRef<Path>) -> Result<()> {
        self.stage_public(path.as_ref())?.commit()
    }

    /// Writes the secret file, as `path` itself.
    ///
    /// # Errors
    /// As [`save`](ZCert::save).
    #[doc(alias = "zcert_save_secret")]
    pub fn save_secret(&self, path: impl AsRef<Path>) -> Result<()> {
        self.stage_secret(path.as_ref())?.commit()
    }

    fn stage_public<'a>(&self, path: &'a Path) -> Result<Staged<'a>> {
        Staged::write(path, &self.encode_public(), 0o666)
    }

    fn stage_secret<'a>(&self, path: &'a Path) -> Result<Staged<'a>> {
        let secret = self.require_secret()?;
        let text = self.encode(
            "#   Secret CURVE certificate of ZeroMQ, written by zkit.\n\
             #   Whoever reads this file can pass for its owner: give it to nobody.\n",
            Some(secret),
        );
        Staged::write(path, &text, 0o600)
    }

    /// The text of the public file.
    pub fn encode_public(&self) -> String {
        let text = self.encode(
            "#   Public CURVE certificate of ZeroMQ, written by zkit.\n\
             #   Everybody may have it. Make sure on the way that nobody changes it.\n",
            None,
        );
        String::clone(&text)
    }

    fn encode(&self, comment: &str, secret: Option<&[u8; 32]>) -> Zeroizing<String> {
        let metadata = self.metadata.iter().map(|(name, value)| metadata_line(name, value));
        let metadata: String = metadata.filter_map(|line| line.ok()).collect();
        let parts = [
            comment,
            "\nmetadata\n",
            &metadata,
            "curve\n    public-key = \"",
            &self.public_text(),
            "\"\n",
            if secret.is_some() { "    secret-key = \"" } else { "" },
            &secret.map(z85::encode).unwrap_or_default(),
            if secret.is_some() { "\"\n" } else { "" },
        ];
        // In one piece: `concat` allocates once.
        Zeroizing::new(parts.concat())
    }

    /// Gives a socket these keys, for connections made from now on.
    ///
    /// A server's socket also needs [`set_curve_server`](ZSock::set_curve_server), a client's the
    /// server's public key by [`set_curve_serverkey`](ZSock::set_curve_serverkey).
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the linked libzmq has no CURVE, [`Error::Certificate`] when there
    /// is no secret key or it is not that of the public key, and otherwise as every option.
    #[doc(alias = "zcert_apply")]
    pub fn apply(&self, socket: &ZSock) -> Result<()> {
        engine::require(&["curve"], "CURVE")?;
        let secret = self.require_secret()?;
        if public_of(secret) != Some(self.public) {
            // Handshakes would fail, and nobody would say why.
            return Err(refused("its keys are not a pair"));
        }
        socket.set_curve_secretkey(secret)?;
        socket.set_curve_publickey(self.public)
    }

    /// The public key.
    #[doc(alias = "zcert_public_key")]
    pub fn public_key(&self) -> &[u8; 32] {
        &self.public
    }

    /// The public key in Z85 (RFC 32), 40 characters.
    #[doc(alias = "zcert_public_txt")]
    pub fn public_text(&self) -> String {
        String::clone(&z85::encode(&self.public))
    }

    /// Whether there is a secret key.
    pub fn has_secret(&self) -> bool {
        self.secret.is_some()
    }

    /// The secret key, to keep it elsewhere than in a file. Copies of it are the caller's to wipe.
    #[doc(alias = "zcert_secret_key")]
    pub fn secret_key(&self) -> Option<&[u8; 32]> {
        self.secret.as_deref().map(|secret| &**secret)
    }

    fn require_secret(&self) -> Result<&[u8; 32]> {
        self.secret_key().ok_or_else(|| {
            refused("it has no secret key: it was made of a public one, or of a public file")
        })
    }

    /// The certificate without its secret key.
    #[must_use]
    pub fn to_public(&self) -> ZCert {
        ZCert { public: self.public, secret: None, metadata: self.metadata.clone() }
    }

    /// What the metadata says under `name`.
    #[doc(alias = "zcert_meta")]
    pub fn meta(&self, name: &str) -> Option<&str> {
        self.metadata().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The metadata, names and values, in the order in which the names were set.
    #[doc(alias = "zcert_meta_keys")]
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Puts `value` under `name` in the metadata, in place of what was there. (CZMQ's `zcert_set_meta`
    /// leaves what is there.)
    ///
    /// # Errors
    /// [`Error::Certificate`] for what a file cannot hold. Names are ASCII letters, digits and
    /// `$-_@.&+/`, with no `/` at the ends, 1 to 255 bytes. Values are one line without control
    /// characters, of which the file's line stays within 1024 bytes; those with both kinds of
    /// quotation marks have no `#`, and neither space nor a mark at their ends. There are at most 256
    /// names, and all lines together stay within 48 KiB.
    #[doc(alias = "zcert_set_meta")]
    pub fn set_meta(&mut self, name: &str, value: &str) -> Result<()> {
        let set = self.try_set_meta(name, value);
        set.map_err(|reason| refused(format!("cannot set {name:?} in the metadata: {reason}")))
    }

    fn try_set_meta(&mut self, name: &str, value: &str) -> Result<(), Cow<'static, str>> {
        const MAX_TEXT: usize = 48 * 1024;
        let line = metadata_line(name, value)?;
        let others = self.metadata().filter(|(known, _)| *known != name);
        let others = others.map(|(name, value)| name.len() + value.len() + 10).collect::<Vec<_>>();
        if others.len() >= MAX_METADATA {
            return Err(format!("there are {MAX_METADATA} names already").into());
        }
        if others.iter().sum::<usize>() + line.len() > MAX_TEXT {
            return Err(format!("all metadata would be larger than {MAX_TEXT} bytes").into());
        }
        match self.metadata.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value.to_owned(),
            None => self.metadata.push((name.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    /// Takes `name` out of the metadata, and returns what was there.
    #[doc(alias = "zcert_unset_meta")]
    pub fn unset_meta(&mut self, name: &str) -> Option<String> {
        let index = self.metadata.iter().position(|(known, _)| known == name)?;
        Some(self.metadata.remove(index).1)
    }
}

/// Equal are certificates with equal keys, whatever their metadata (`zcert_eq`).
impl PartialEq for ZCert {
    fn eq(&self, other: &ZCert) -> bool {
        let secrets_match = match (self.secret_key(), other.secret_key()) {
            // In the same time wherever they differ.
            (Some(one), Some(two)) => one.iter().zip(two).fold(0, |all, (a, b)| all | (a ^ b)) == 0,
            (one, two) => one.is_none() && two.is_none(),
        };
        self.public == other.public && secrets_match
    }
}

impl Eq for ZCert {}

impl fmt::Debug for ZCert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZCert({})", self.public_text())
    }
}

/// Where the secret file beside `path` is.
fn secret_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("_secret");
    name.into()
}

fn refused(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::Certificate { path: None, line: None, reason: reason.into() }
}

fn read_key(item: &zpl::Item<'_>, key: &mut Option<z85::Key>) -> Result<()> {
    let fault = |reason: Cow<'static, str>| {
        Err(Error::Certificate { path: None, line: Some(item.line), reason })
    };
    if key.is_some() {
        return fault("the key comes twice".into());
    }
    *key = z85::decode(item.value.as_bytes());
    if key.is_none() {
        return fault(format!("a key is {} characters of Z85", z85::TEXT).into());
    }
    Ok(())
}

fn is_zero(key: &[u8; 32]) -> bool {
    key.iter().fold(0, |all, byte| all | byte) == 0
}

/// The public key that goes with a secret one.
fn public_of(secret: &[u8; 32]) -> Option<[u8; 32]> {
    let text = Zeroizing::new([z85::encode(secret).as_bytes(), b"\0"].concat());
    let public = ffi::curve_public(CStr::from_bytes_with_nul(&text).ok()?).ok()?;
    z85::decode(&public[..z85::TEXT]).map(|public| **public)
}

/// A line of the metadata as it is written, or why it cannot be.
fn metadata_line(name: &str, value: &str) -> Result<String, Cow<'static, str>> {
    if !zpl::is_name(name) {
        return Err(zpl::NAME.into());
    }
    if name.len() > MAX_NAME {
        return Err(format!("a name has at most {MAX_NAME} bytes").into());
    }
    let line = format!("    {name} = {}\n", zpl::quoted(value)?.concat());
    if line.len() > zpl::LINE {
        return Err(format!("its line would be longer than {} bytes", zpl::LINE).into());
    }
    Ok(line)
}
