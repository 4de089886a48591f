//! Certificate files: read with a bound and a look at who may read them, written whole or not at
//! all.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::codec::fill;
use crate::error::{Error, Result};
use crate::ffi;

/// More than any certificate needs.
pub(super) const LIMIT: usize = 64 * 1024;

pub(super) const NOT_REGULAR: &str = "it is not a regular file";

/// A file's content, which wipes itself, and its mode bits.
pub(super) struct Content {
    bytes: Zeroizing<Vec<u8>>,
    len: usize,
    mode: u32,
}

impl Content {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Whether nobody but the file's owner may do anything with it.
    pub(super) fn is_private(&self) -> bool {
        self.mode & 0o077 == 0
    }

    pub(super) fn mode(&self) -> u32 {
        self.mode & 0o777
    }
}

/// Reads a regular file of at most [`LIMIT`] bytes.
pub(super) fn read(path: &Path) -> Result<Content> {
    let cannot = |source| cannot("read", path, source);
    let mut file = open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    if !metadata.is_file() {
        return Err(faulty(path, NOT_REGULAR));
    }
    let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    if size > LIMIT {
        return Err(faulty(path, format!("it is larger than {LIMIT} bytes")));
    }
    // In one piece, because a buffer that grows leaves copies behind.
    let mut bytes = Zeroizing::new(vec![0; size + 1]);
    let len = fill(&mut file, &mut bytes).map_err(cannot)?;
    if len > size {
        return Err(faulty(path, "it grows while it is read"));
    }
    Ok(Content { bytes, len, mode: metadata.mode() })
}

/// Opens what may turn out not to be a regular file.
pub(super) fn open(path: &Path) -> io::Result<File> {
    // A pipe would wait for its writer, and a terminal could become this process's.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// A file that is written beside the one that it is to replace. Gone on drop, unless it has
/// replaced it.
pub(super) struct Staged<'a> {
    written: PathBuf,
    path: &'a Path,
    done: bool,
}

impl Staged<'_> {
    /// Writes `text`, with the permissions `mode` from the first moment.
    pub(super) fn write<'a>(path: &'a Path, text: &str, mode: u32) -> Result<Staged<'a>> {
        match fs::symlink_metadata(path) {
            Ok(there) if there.is_symlink() => {
                let way_out = "it is a symbolic link: save to what it points to, or remove it";
                return Err(faulty(path, way_out));
            }
            Ok(there) if !there.is_file() => {
                return Err(faulty(path, "something that is not a regular file is there"));
            }
            _ => {}
        }
        let cannot = |source| cannot("write", path, source);
        // Stores, CZMQ's too, leave out what ends like this.
        let written = path.with_file_name(format!(".zkit-{:016x}_secret", ffi::random()));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&written)
            .map_err(cannot)?;
        let staged = Staged { written, path, done: false };
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(cannot)?;
        Ok(staged)
    }

    /// Puts the file in its place.
    pub(super) fn commit(mut self) -> Result<()> {
        let cannot = |source| cannot("write", self.path, source);
        fs::rename(&self.written, self.path).map_err(cannot)?;
        self.done = true;
        // So that the new name outlasts a failure of the machine, where the file system can.
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_file(&self.written);
        }
    }
}

pub(super) fn cannot(what: &str, path: &Path, source: io::Error) -> Error {
    Error::Io { what: format!("cannot {what} the certificate {path:?}").into(), source }
}

pub(super) fn faulty(path: &Path, reason: impl Into<Cow<'static, str>>) -> Error {
    Error::Certificate { path: Some(path.to_owned()), line: None, reason: reason.into() }
}
