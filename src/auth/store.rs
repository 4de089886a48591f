use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::cert::ZCert;
use super::file::{NOT_REGULAR, cannot, faulty};
use crate::error::{Error, Result};

/// More files than this in a store are left out, with a warning.
const MAX_FILES: usize = 10_000;

/// How deep folders in folders are looked into.
const MAX_DEPTH: usize = 8;

/// Longer than the steps in which file systems keep time (FAT's are two seconds). A file that
/// changed within it may change again and look the same.
const UNSETTLED: Duration = Duration::from_secs(3);

/// The certificates of those who may come in, by their public keys (CZMQ's `zcertstore`).
///
/// ```
/// use zkit::{ZCert, ZCertStore};
///
/// let folder = tempfile::tempdir()?;
/// let store = ZCertStore::directory(folder.path())?;
/// let ann = ZCert::from_public([7; 32]);
/// assert!(store.lookup(ann.public_key()).is_none());
///
/// ann.save_public(folder.path().join("ann.cert"))?; // from now on she may come in
/// assert_eq!(store.lookup(ann.public_key()), Some(ann));
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # Directories
///
/// Every file in the directory and the folders in it, up to eight deep, is one certificate. Left out
/// are names that start with a dot or end with `_secret`; symbolic links are followed to files, not
/// to folders. Of two files with the same key the one whose path comes first counts.
///
/// [`lookup`](ZCertStore::lookup) sees what the directory holds at that moment: it asks the system
/// about every file, and reads those that are new or have changed. A file counts as unchanged when its
/// inode, size and times (to the nanosecond) are, and the last change is some seconds ago; until then
/// it is read again, because file systems keep time in steps.
///
/// What cannot be read as a certificate is left out and logged as a warning, once;
/// the others stay. A directory that is absent is an empty one, which may come later. One that cannot
/// be listed lets nobody in. More than 10,000 files are not looked at.
///
/// Who may write in the directory decides who comes in: it should be its owner alone.
///
/// What differs from CZMQ: the certificates come without their secret keys, which CZMQ loads too; a
/// directory that goes away takes its certificates with it; a key that comes twice does not abort the
/// program.
#[doc(alias = "zcertstore")]
pub struct ZCertStore {
    inserted: HashMap<[u8; 32], ZCert>,
    source: Source,
}

enum Source {
    Memory,
    Directory(RefCell<Directory>),
    Callback(Box<Find>),
}

type Find = dyn Fn(&[u8; 32]) -> Option<ZCert> + Send;

impl ZCertStore {
    /// A store with the certificates in the directory `path`, as that is at each lookup. It may be
    /// absent.
    ///
    /// # Errors
    /// [`Error::Io`] when the directory is there and cannot be listed, or is
    /// something else.
    #[doc(alias = "zcertstore_new")]
    pub fn directory(path: impl AsRef<Path>) -> Result<ZCertStore> {
        let path = path.as_ref().to_owned();
        let files = BTreeMap::new();
        let mut directory = Directory { path, files, overfull: false, trouble: None };
        directory.refresh().map_err(|source| {
            let what = format!("cannot list the certificates in {:?}", directory.path).into();
            Error::Io { what, source }
        })?;
        Ok(ZCertStore::with(Source::Directory(RefCell::new(directory))))
    }

    /// A store that asks `find` for the certificate with a public key, at each lookup and in the
    /// thread that looks up, which is a [`ZAuth`](crate::ZAuth)'s own. A certificate with another
    /// key counts as none.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use zkit::{ZCert, ZCertStore};
    ///
    /// let database = HashMap::from([([7; 32], "Ann Example")]);
    /// let store = ZCertStore::callback(move |key| {
    ///     let mut cert = ZCert::from_public(*key);
    ///     cert.set_meta("name", database.get(key)?).ok()?;
    ///     Some(cert)
    /// });
    /// let ann = store.lookup(&[7; 32]).expect("she is in the database");
    /// assert_eq!(ann.meta("name"), Some("Ann Example"));
    /// assert!(store.lookup(&[8; 32]).is_none());
    /// ```
    #[doc(alias = "zcertstore_set_loader")]
    pub fn callback(find: impl Fn(&[u8; 32]) -> Option<ZCert> + Send + 'static) -> ZCertStore {
        ZCertStore::with(Source::Callback(Box::new(find)))
    }

    /// A store of what is [`insert`](ZCertStore::insert)ed and nothing else.
    pub fn memory() -> ZCertStore {
        ZCertStore::with(Source::Memory)
    }

    fn with(source: Source) -> ZCertStore {
        ZCertStore { inserted: HashMap::new(), source }
    }

    /// Adds a certificate, without its secret key, beside those of the directory or callback, and
    /// before them. Returns the one with the same key that was inserted before.
    #[doc(alias = "zcertstore_insert")]
    pub fn insert(&mut self, cert: ZCert) -> Option<ZCert> {
        self.inserted.insert(*cert.public_key(), cert.to_public())
    }

    /// Takes out a certificate that was [`insert`](ZCertStore::insert)ed, and returns it. One in
    /// the directory stays.
    pub fn remove(&mut self, public: &[u8; 32]) -> Option<ZCert> {
        self.inserted.remove(public)
    }

    /// The certificate with this public key, without a secret key; `None` for one that is not known.
    #[doc(alias = "zcertstore_lookup")]
    pub fn lookup(&self, public: &[u8; 32]) -> Option<ZCert> {
        if let Some(cert) = self.inserted.get(public) {
            return Some(cert.clone());
        }
        match &self.source {
            Source::Memory => None,
            Source::Directory(directory) => directory.borrow_mut().lookup(public),
            Source::Callback(find) => {
                let cert = find(public)?;
                (cert.public_key() == public).then(|| cert.to_public())
            }
        }
    }
}

impl fmt::Debug for ZCertStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Memory => write!(f, "ZCertStore({} certificates)", self.inserted.len()),
            Source::Directory(directory) => write!(f, "ZCertStore({:?})", directory.borrow().path),
            Source::Callback(_) => write!(f, "ZCertStore(callback)"),
        }
    }
}

struct Directory {
    path: PathBuf,
    files: BTreeMap<PathBuf, Known>,
    /// Whether it had too many files at the last lookup, which was logged.
    overfull: bool,
    /// Why it could not be listed at the last lookup, which was logged.
    trouble: Option<String>,
}

/// What a file was when it was last read.
struct Known {
    /// `None` when the system would not tell.
    stamp: Option<Stamp>,
    /// Whether it cannot change any more without its stamp.
    settled: bool,
    /// What it holds, or what is wrong with it.
    cert: Result<ZCert, String>,
}

impl Directory {
    fn lookup(&mut self, public: &[u8; 32]) -> Option<ZCert> {
        let trouble = self.refresh().err().map(|error| error.to_string());
        if trouble != self.trouble {
            if let Some(trouble) = &trouble {
                log::warn!("no certificate is accepted: cannot list {:?}: {trouble}", self.path);
            }
            self.trouble = trouble;
        }
        if self.trouble.is_some() {
            return None;
        }
        let mut certs = self.files.values().filter_map(|known| known.cert.as_ref().ok());
        certs.find(|cert| cert.public_key() == public).cloned()
    }

    /// Reads what has changed.
    fn refresh(&mut self) -> io::Result<()> {
        let found = list(&self.path)?;
        let overfull = found.len() >= MAX_FILES;
        if overfull && !self.overfull {
            log::warn!("certificates are left out: {:?} has {MAX_FILES} files", self.path);
        }
        self.overfull = overfull;
        self.files.retain(|path, _| found.contains_key(path));
        for (path, listed) in found {
            match listed {
                Ok(()) => self.look_at(path),
                Err(error) => {
                    let reason = format!("cannot list the folder {path:?}: {error}");
                    self.keep(path, Known { stamp: None, settled: false, cert: Err(reason) });
                }
            }
        }
        Ok(())
    }

    fn look_at(&mut self, path: PathBuf) {
        // Before the file is looked at, so that it is not settled too early.
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let metadata = fs::metadata(&path);
        let stamp = metadata.as_ref().ok().map(Stamp::of);
        let known = self.files.get(&path);
        if known.is_some_and(|known| known.settled && known.stamp == stamp) {
            return;
        }
        let read = match metadata {
            Ok(metadata) if !metadata.is_file() => Err(faulty(&path, NOT_REGULAR)),
            // A link to nowhere, or gone since it was listed, which is no fault.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.files.remove(&path);
                return;
            }
            Err(error) => Err(cannot("read", &path, error)),
            Ok(_) => ZCert::load_public(&path),
        };
        let settled = stamp.as_ref().is_some_and(|stamp| stamp.is_settled(now));
        let cert = read.map_err(|error| error.to_string());
        self.keep(path, Known { stamp, settled, cert });
    }

    fn keep(&mut self, path: PathBuf, new: Known) {
        let reason = new.cert.as_ref().err().cloned();
        let old = self.files.insert(path, new);
        if reason != old.and_then(|old| old.cert.err()) {
            if let Some(reason) = reason {
                log::warn!("left out of the certificate store: {reason}");
            }
        }
    }
}

/// Another one says that a file has changed.
#[derive(PartialEq, Eq)]
pub(super) struct Stamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the file has been as it is for so long that a change from now on has another time. That
    /// of a change, unlike that of a modification, nobody can set.
    pub(super) fn is_settled(&self, now: Duration) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let changed = Duration::new(seconds.max(0) as u64, nanoseconds as u32);
        changed + UNSETTLED < now
    }
}

/// The files below `path`, at most [`MAX_FILES`], and the folders that cannot be listed, with the
/// reason. None when there is no `path`.
fn list(path: &Path) -> io::Result<BTreeMap<PathBuf, io::Result<()>>> {
    let mut found = BTreeMap::new();
    match list_into(&mut found, path, MAX_DEPTH) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(found),
        listed => listed.map(|()| found),
    }
}

fn list_into(
    found: &mut BTreeMap<PathBuf, io::Result<()>>,
    folder: &Path,
    depth: usize,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if found.len() >= MAX_FILES {
            break;
        }
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.as_encoded_bytes();
        if name.starts_with(b".") || name.ends_with(b"_secret") {
            continue;
        }
        if !entry.file_type()?.is_dir() {
            found.insert(path, Ok(()));
        } else if depth > 0 {
            match list_into(found, &path, depth - 1) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    found.insert(path, Err(error));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever steps this machine's file system keeps time in.
    #[test]
    fn a_file_with_an_unchanged_stamp_is_read_again_until_it_is_settled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cert");
        let (now, before) = (ZCert::from_public([1; 32]), ZCert::from_public([2; 32]));
        now.save_public(&path).unwrap();
        for settled in [false, true] {
            let stamp = Some(Stamp::of(&fs::metadata(&path).unwrap()));
            let known = Known { stamp, settled, cert: Ok(before.clone()) };
            let files = BTreeMap::from([(path.clone(), known)]);
            let path = folder.path().to_owned();
            let mut directory = Directory { path, files, overfull: false, trouble: None };
            assert_eq!(directory.lookup(now.public_key()).is_some(), !settled);
            assert_eq!(directory.lookup(before.public_key()).is_some(), settled);
        }
    }

    #[test]
    fn a_file_is_settled_some_seconds_after_its_last_change() {
        let stamp = |changed| Stamp { file: (1, 1), size: 1, modified: (0, 0), changed };
        let now = Duration::new(1_000, 0);
        assert!(stamp((996, 999_999_999)).is_settled(now));
        assert!(!stamp((997, 0)).is_settled(now));
        assert!(!stamp((1_000, 0)).is_settled(now));
        // A clock that was set back, or another machine's.
        assert!(!stamp((2_000, 0)).is_settled(now));
        assert!(!stamp((i64::MAX, 999_999_999)).is_settled(now));
        assert!(stamp((-1, 0)).is_settled(now));
    }
}
