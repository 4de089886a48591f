//! What zkit knows of endpoints beyond libzmq: attach strings, port ranges, and the files of
//! `ipc`, which libzmq deletes unasked.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use crate::error::{Errno, Reason};
use crate::socket_type::SocketType;

/// Whether an endpoint without a sign is bound or connected, for
/// [`ZSock::attach`](crate::ZSock::attach).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attach {
    /// Bound, as if it started with `@`.
    Bind,
    /// Connected, as if it started with `>`.
    Connect,
}

/// The endpoints of an attach string such as `@tcp://*:5555,>inproc://a`, and what to do with
/// each.
pub(crate) fn attach_list(
    endpoints: &str,
    default: Attach,
) -> impl Iterator<Item = (Attach, &str)> {
    // Nothing at all is no endpoint; nothing between commas is a mistake and left to fail.
    let list = (!endpoints.is_empty()).then(|| endpoints.split(','));
    list.into_iter().flatten().map(move |endpoint| match endpoint.as_bytes().first() {
        Some(b'@') => (Attach::Bind, &endpoint[1..]),
        Some(b'>') => (Attach::Connect, &endpoint[1..]),
        _ => (default, endpoint),
    })
}

/// The ports to try for `tcp://host:*[first-last]` and `tcp://host:![first-last]`.
pub(crate) struct PortRange<'a> {
    /// The endpoint up to the port.
    pub(crate) host: &'a str,
    pub(crate) ports: RangeInclusive<u16>,
    /// `!`: start anywhere in the range.
    pub(crate) random: bool,
}

/// The ports that IANA leaves to anybody, and CZMQ chooses from.
const DYNAMIC_PORTS: RangeInclusive<u16> = 0xC000..=0xFFFF;

impl<'a> PortRange<'a> {
    /// `None` when the endpoint asks for no range. A bare `*` asks for none: the system chooses.
    pub(crate) fn parse(endpoint: &'a str) -> Option<Result<PortRange<'a>, Reason>> {
        let colon = endpoint.rfind(':').filter(|_| endpoint.starts_with("tcp://"))?;
        let (host, port) = endpoint.split_at(colon + 1);
        let random = match port.as_bytes() {
            [b'*', b'[', ..] => false,
            [b'!', ..] => true,
            _ => return None,
        };
        Some(parse_ports(&port[1..]).map(|ports| PortRange { host, ports, random }))
    }
}

fn parse_ports(range: &str) -> Result<RangeInclusive<u16>, Reason> {
    if range.is_empty() {
        return Ok(DYNAMIC_PORTS);
    }
    let malformed =
        || Reason::new(format!("{range:?} is not a range of ports; write [first-last]"));
    let range = range.strip_prefix('[').and_then(|range| range.strip_suffix(']'));
    let (first, last) = range.and_then(|range| range.split_once('-')).ok_or_else(malformed)?;
    let port = |text: &str, default: u16| match text {
        "" => Ok(default),
        _ => text.parse().ok().filter(|port| *port > 0).ok_or_else(malformed),
    };
    let (first, last) = (port(first, *DYNAMIC_PORTS.start())?, port(last, *DYNAMIC_PORTS.end())?);
    if first > last { Err(malformed()) } else { Ok(first..=last) }
}

/// The endpoint for libzmq, once what libzmq would not explain is ruled out.
pub(crate) fn checked(endpoint: &str) -> Result<CString, Reason> {
    let Some((transport, address)) = endpoint.split_once("://") else {
        return Err(Reason::new(
            "it names no transport; write tcp://host:port, ipc://path or inproc://name",
        ));
    };
    if transport.is_empty() || address.is_empty() {
        return Err(Reason::new("its transport or its address is empty"));
    }
    if matches!(transport, "ws" | "wss") {
        return Err(Reason::new(
            "WebSockets are a draft of libzmq's, which lets peers in without asking an authenticator",
        ));
    }
    CString::new(endpoint).map_err(|_| Reason::new("it contains a NUL character"))
}

/// Where libzmq asks whom to let in, in every context.
pub(crate) const ZAP: &str = "inproc://zeromq.zap.01";

pub(crate) const NOT_TCP: &str =
    "it is not tcp://host:port with a port from 1 to 65535, or * to bind any";

/// Whether a `tcp` endpoint ends in a port. libzmq takes `-1` for 65535 and `5560x` for 5560.
pub(crate) fn check_port(endpoint: &str, attach: Attach) -> Result<(), Reason> {
    let Some(address) = endpoint.strip_prefix("tcp://") else { return Ok(()) };
    let port = address.rsplit_once(':').map_or("", |(_, port)| port);
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(port) if digits && (port > 0 || attach == Attach::Bind) => Ok(()),
        _ if port == "*" && attach == Attach::Bind => Ok(()),
        _ => Err(Reason::explained(Errno(libc::EINVAL), NOT_TCP)),
    }
}

/// libzmq aborts the process when it asks a socket of another type whom to let in.
pub(crate) fn check_zap(endpoint: &str, socket_type: SocketType) -> Result<(), Reason> {
    match socket_type {
        _ if endpoint != ZAP => Ok(()),
        SocketType::Rep | SocketType::Router => Ok(()),
        _ => Err(Reason::new("only a REP or a ROUTER can be libzmq's authenticator (RFC 27)")),
    }
}

/// The path of an `ipc` endpoint that stands for a file: neither a wildcard nor abstract.
pub(crate) fn ipc_path(endpoint: &str) -> Option<&Path> {
    let path = endpoint.strip_prefix("ipc://")?;
    (!path.starts_with(['*', '@'])).then(|| Path::new(OsStr::from_bytes(path.as_bytes())))
}

/// The longest path of an `ipc` endpoint, which the system's address structure sets.
const IPC_PATH_LIMIT: usize = 107;

/// Whether the file at `path` may become, or is, an `ipc` socket.
pub(crate) fn check_ipc(path: &Path) -> Result<(), Reason> {
    let length = path.as_os_str().len();
    if length > IPC_PATH_LIMIT {
        return Err(Reason::explained(
            Errno(libc::ENAMETOOLONG),
            format!("its path is of {length} bytes, and the system's limit is {IPC_PATH_LIMIT}"),
        ));
    }
    match fs::metadata(path) {
        Ok(file) if file.file_type().is_socket() => Ok(()),
        Ok(file) => {
            let kind = if file.is_dir() { "a directory" } else { "a file that is not a socket" };
            Err(Reason::new(format!("there is {kind} at this path, which zkit leaves alone")))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Reason::from(Errno(error.raw_os_error().unwrap_or(libc::EIO)))),
    }
}

/// Whether a live process listens at `path`. libzmq takes the path over without asking, which is
/// right only for a file that a dead one has left.
pub(crate) fn check_ipc_free(path: &Path) -> Result<(), Reason> {
    // Not waiting: a listener that is alive but stopped has a full queue.
    match mio::net::UnixStream::connect(path) {
        Ok(_) => Err(Errno(libc::EADDRINUSE).into()),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(()),
            io::ErrorKind::WouldBlock => Err(Errno(libc::EADDRINUSE).into()),
            _ => match error.raw_os_error() {
                // A live socket of another kind, such as a logger's.
                Some(libc::EPROTOTYPE) | None => Err(Errno(libc::EADDRINUSE).into()),
                Some(errno) => Err(Errno(errno).into()),
            },
        },
    }
}

/// Whether the process has a descriptor left. Some builds of libzmq need one to find out whether the
/// host of a TCP endpoint is the name of an interface, and abort the process when there is none.
pub(crate) fn check_descriptors() -> Result<(), Reason> {
    match UnixDatagram::unbound() {
        Ok(_) => Ok(()),
        Err(error) => Err(Errno(error.raw_os_error().unwrap_or(libc::EMFILE)).into()),
    }
}

/// Whether libzmq would delete a file when it binds this abstract name, which has no file.
pub(crate) fn check_abstract(endpoint: &str) -> Result<(), Reason> {
    let name = endpoint.strip_prefix("ipc://").filter(|name| name.starts_with('@'));
    match name.map(fs::symlink_metadata) {
        Some(Ok(_)) => Err(Reason::new(
            "there is a file of this name in the current directory, which libzmq would delete",
        )),
        _ => Ok(()),
    }
}

/// The file that a bound `ipc` socket made, to be removed with it: libzmq leaves it behind.
#[derive(Debug)]
pub(crate) struct IpcFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl IpcFile {
    /// The file of a bound endpoint, absolute, so that a change of directory does not matter. Where
    /// libzmq made a directory for a wildcard, with a `socket` in it, it removes both itself.
    pub(crate) fn of(asked: &str, real: &str) -> Option<IpcFile> {
        let path = ipc_path(real)?;
        if asked == "ipc://*" && path.file_name() == Some(OsStr::new("socket")) {
            return None;
        }
        let path = std::path::absolute(path).ok()?;
        let file = fs::symlink_metadata(&path).ok()?;
        Some(IpcFile { device: file.dev(), inode: file.ino(), path })
    }

    /// Removes it, unless the path has become somebody else's.
    pub(crate) fn remove(self) {
        let same = fs::symlink_metadata(&self.path)
            .is_ok_and(|file| (file.dev(), file.ino()) == (self.device, self.inode));
        if same {
            if let Err(error) = fs::remove_file(&self.path) {
                log::warn!("cannot remove {}: {error}", self.path.display());
            }
        }
    }
}
