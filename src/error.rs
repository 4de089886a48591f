use std::borrow::Cow;
use std::fmt;
use std::io;
use std::num::{ParseFloatError, ParseIntError};
use std::path::{Path, PathBuf};
use std::str::Utf8Error;
use std::string::FromUtf8Error;
use std::time::SystemTimeError;

/// What zkit's operations return: [`std::result::Result`] with zkit's [`Error`], unless another is
/// given.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong.
///
/// Two of these are not faults but the orderly ways out of a program: [`Error::Interrupted`]
/// (Ctrl-C) and [`Error::Terminated`] ([`ZContext::shutdown`](crate::ZContext::shutdown));
/// [`Error::is_ending`] is true for both.
///
/// `Debug` is the same text as `Display`, so that a `main` that returns an error, or an `unwrap`,
/// prints a sentence.
///
/// ```
/// use zkit::{Error, ZContext};
///
/// let ctx = ZContext::new()?;
/// let error = ctx.rep("@tcp://nowhere:5555").unwrap_err();
/// assert!(error.to_string().starts_with("cannot bind \"tcp://nowhere:5555\": "));
/// assert!(matches!(&error, Error::Bind { endpoint, .. } if endpoint == "tcp://nowhere:5555"));
/// assert!(error.reason().is_some_and(|reason| reason.errno().is_some()));
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # What to do about it
///
/// The operation has not been done, but where its own page says otherwise. After
/// [`WouldBlock`](Error::WouldBlock), [`Timeout`](Error::Timeout) and
/// [`Interrupted`](Error::Interrupted) it may be tried again; after
/// [`Terminated`](Error::Terminated), [`Ended`](Error::Ended) and [`Forked`](Error::Forked) never
/// with success. There are [predicates](Error::is_ending) for the first few:
///
/// ```
/// use std::time::Duration;
/// use zkit::{Result, ZSock};
///
/// fn serve(socket: &ZSock) -> Result<()> {
///     loop {
///         match socket.recv_timeout(Duration::from_secs(1)) {
///             Ok(msg) => println!("{}", msg.dump()),
///             Err(error) if error.is_timeout() => println!("still here"),
///             Err(error) => return Err(error), // Ctrl-C comes out here
///         }
///     }
/// }
/// # let ctx = zkit::ZContext::new()?;
/// # let socket = ctx.pull("")?;
/// # ctx.shutdown()?;
/// # zkit::orderly(serve(&socket))?;
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # Errors of the program's own
///
/// They travel in [`Error::Other`], through handlers and threads. Those of the standard library
/// that are met most often come in by `?`; others by [`Error::other`], or boxed:
///
/// ```
/// use zkit::{Error, Result};
///
/// fn port(text: &str) -> Result<u16> {
///     let port = text.parse()?;
///     if port < 1024 {
///         return Err(Error::other("the port is the system's"));
///     }
///     Ok(port)
/// }
/// assert_eq!(port("x").unwrap_err().to_string(), "invalid digit found in string");
/// assert_eq!(port("80").unwrap_err().to_string(), "the port is the system's");
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A socket could not be bound.
    #[error("cannot bind {endpoint:?}: {reason}")]
    Bind {
        /// The endpoint as it was given.
        endpoint: String,
        /// What stood in the way.
        reason: Reason,
    },
    /// A socket could not be connected.
    #[error("cannot connect to {endpoint:?}: {reason}")]
    Connect {
        /// The endpoint as it was given.
        endpoint: String,
        /// What stood in the way.
        reason: Reason,
    },
    /// A socket could not be unbound.
    #[error("cannot unbind {endpoint:?}: {reason}")]
    Unbind {
        /// The endpoint as it was given.
        endpoint: String,
        /// What stood in the way.
        reason: Reason,
    },
    /// A socket could not be disconnected.
    #[error("cannot disconnect from {endpoint:?}: {reason}")]
    Disconnect {
        /// The endpoint as it was given.
        endpoint: String,
        /// What stood in the way.
        reason: Reason,
    },
    /// A context could not be made.
    #[error("cannot make a context: {reason}")]
    Context {
        /// What stood in the way.
        reason: Reason,
    },
    /// A socket could not be made or adopted.
    #[error("cannot make a {socket_type} socket: {reason}")]
    Socket {
        /// The type asked for, as ZeroMQ spells it.
        socket_type: Cow<'static, str>,
        /// What stood in the way.
        reason: Reason,
    },
    /// A socket option could not be set or read.
    #[error("option {option} of a {socket_type} socket: {reason}")]
    Option {
        /// The option as libzmq names it, such as `ZMQ_LINGER`.
        option: &'static str,
        /// The socket's type, as ZeroMQ spells it.
        socket_type: &'static str,
        /// What stood in the way.
        reason: Reason,
    },
    /// This socket cannot send, or not now.
    #[error("cannot send on a {socket_type} socket: {reason}")]
    Send {
        /// The socket's type, as ZeroMQ spells it.
        socket_type: &'static str,
        /// What stood in the way.
        reason: Reason,
    },
    /// This socket cannot receive, or not now.
    #[error("cannot receive on a {socket_type} socket: {reason}")]
    Receive {
        /// The socket's type, as ZeroMQ spells it.
        socket_type: &'static str,
        /// What stood in the way.
        reason: Reason,
    },
    /// The peer named by the first frame is not connected to this ROUTER
    /// (`ZMQ_ROUTER_MANDATORY` is set) or STREAM socket.
    #[error("no peer with the identity {identity} is connected")]
    HostUnreachable {
        /// The identity in the guide's dump form.
        identity: String,
    },
    /// A `try_` operation had nothing to receive or no room to send.
    #[error("the operation would block")]
    WouldBlock,
    /// The time given, or the socket's `ZMQ_RCVTIMEO` or `ZMQ_SNDTIMEO`, has passed.
    #[error("the operation timed out")]
    Timeout,
    /// SIGINT or SIGTERM came (see [`interrupt`](crate::interrupt)).
    #[error("interrupted by a signal")]
    Interrupted,
    /// The context was shut down.
    #[error("the context was shut down")]
    Terminated,
    /// A context or socket made before `fork` was used in the child.
    #[error(
        "made before fork and used in the child process, which has none of its I/O threads; \
         make a new context in the child"
    )]
    Forked,
    /// Bytes are not an encoded message.
    #[error("not an encoded message, at byte {offset}: {reason}")]
    Decode {
        /// Where the first fault is, in bytes from the start of the input.
        offset: u64,
        /// What is wrong there.
        reason: Cow<'static, str>,
    },
    /// A message cannot be encoded.
    #[error("cannot encode frame {index}: {reason}")]
    Encode {
        /// The frame, counted from 0.
        index: usize,
        /// Why not.
        reason: Cow<'static, str>,
    },
    /// A frame is not what the reader asked for. It is still in its message.
    #[error("frame {index}: {reason}")]
    Frame {
        /// The frame, counted from 0 with those that were taken from the front before.
        index: usize,
        /// What was expected and what was found.
        reason: Cow<'static, str>,
    },
    /// A received message is not of the form that was asked for; it is handed over here.
    #[error("expected {expected}, received {} frame(s)", frames.len())]
    Unexpected {
        /// What the call asked for.
        expected: &'static str,
        /// The content of every frame of the message.
        frames: Vec<Vec<u8>>,
    },
    /// A file or text is not a certificate, or not one to be trusted, or a certificate cannot do
    /// what was asked of it.
    #[error("{}: {reason}", certificate(path.as_deref(), *line))]
    Certificate {
        /// The file, where it is one.
        path: Option<PathBuf>,
        /// The line at fault, counted from 1, where it is one.
        line: Option<usize>,
        /// What is wrong. It quotes nothing of a file, which may hold a secret.
        reason: Cow<'static, str>,
    },
    /// The linked libzmq cannot do this.
    #[error("{what} is not supported by the linked libzmq: {remedy}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// How to get it.
        remedy: &'static str,
    },
    /// A thread panicked.
    #[error("the thread panicked: {message}")]
    Panicked {
        /// What `panic!` was given.
        message: String,
    },
    /// The thread at the other end of an actor's pipe does not receive any more, or what a monitor
    /// waits for is gone.
    #[error("nobody is at the other end of the pipe: {how}")]
    Ended {
        /// How it ended.
        how: String,
    },
    /// A [`ZAuth`](crate::ZAuth) cannot take a rule.
    #[error("cannot {what}: {reason}")]
    Auth {
        /// What it was to do.
        what: String,
        /// What stood in the way.
        reason: Reason,
    },
    /// A poller, a reactor or a monitor cannot wait, or not for what it was given.
    #[error("cannot wait: {reason}")]
    Wait {
        /// What stood in the way.
        reason: Reason,
    },
    /// An operating system call or a file failed.
    #[error("{what}: {}", words(source))]
    Io {
        /// What was being done.
        what: Cow<'static, str>,
        /// The system's answer.
        source: io::Error,
    },
    /// An error of the program's own, on its way through zkit.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Wraps an error of the program's own: a text, or anything that is an error.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Other(error.into())
    }

    /// Whether a `try_` operation found nothing to do.
    pub fn is_would_block(&self) -> bool {
        matches!(self, Error::WouldBlock)
    }

    /// Whether time ran out.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Error::Timeout)
    }

    /// Whether a signal ended the operation.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Error::Interrupted)
    }

    /// Whether the context's shutdown ended the operation.
    pub fn is_terminated(&self) -> bool {
        matches!(self, Error::Terminated)
    }

    /// Whether the program is asked to end: interrupted or terminated. See [`orderly`].
    pub fn is_ending(&self) -> bool {
        self.is_interrupted() || self.is_terminated()
    }

    /// The reason given by libzmq, the system or zkit, for the variants that have one. That of an
    /// [`Error::Io`] is its [`source`](std::error::Error::source).
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Error::Bind { reason, .. }
            | Error::Connect { reason, .. }
            | Error::Unbind { reason, .. }
            | Error::Disconnect { reason, .. }
            | Error::Context { reason }
            | Error::Socket { reason, .. }
            | Error::Option { reason, .. }
            | Error::Send { reason, .. }
            | Error::Receive { reason, .. }
            | Error::Auth { reason, .. }
            | Error::Wait { reason } => Some(reason),
            _ => None,
        }
    }
}

/// Takes the orderly ways out, [`Error::Interrupted`] and [`Error::Terminated`], for success: what
/// a `main` does with the result of its work.
///
/// ```
/// fn main() -> zkit::Result<()> {
///     zkit::orderly(serve())
/// }
/// # fn serve() -> zkit::Result<()> { Err(zkit::Error::Interrupted) }
/// ```
///
/// # Errors
/// Every other error, as it is.
pub fn orderly(ended: Result<()>) -> Result<()> {
    match ended {
        Err(error) if error.is_ending() => Ok(()),
        ended => ended,
    }
}

/// Which certificate, and where in it.
fn certificate(path: Option<&Path>, line: Option<usize>) -> String {
    let path = path.map(|path| format!(" {path:?}")).unwrap_or_default();
    let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
    format!("certificate{path}{line}")
}

/// The system's words, or zkit's where there is a way out to tell of.
fn words(source: &io::Error) -> Cow<'static, str> {
    match source.raw_os_error() {
        Some(libc::EMFILE) => NO_DESCRIPTORS.into(),
        _ => source.to_string().into(),
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! from_other {
    ($($error:ty),*) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Error {
                Error::other(error)
            }
        }
    )*};
}

// What handlers most often meet. A general conversion would exclude that `Error` is an error itself.
from_other!(Utf8Error, FromUtf8Error, ParseIntError, ParseFloatError, SystemTimeError, fmt::Error);

/// An [`Error::Io`], without a word on what was being done.
impl From<io::Error> for Error {
    fn from(source: io::Error) -> Error {
        Error::Io { what: "input or output failed".into(), source }
    }
}

impl From<Box<dyn std::error::Error + Send + Sync>> for Error {
    /// One of zkit's own comes out of its box.
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Error {
        match error.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => Error::Other(other),
        }
    }
}

/// Why an operation failed: words for people (`Display`), and the error number for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    errno: Option<i32>,
    text: Cow<'static, str>,
}

impl Reason {
    /// A refusal by zkit itself, which has no error number.
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Reason {
        Reason { errno: None, text: text.into() }
    }

    /// libzmq's refusal in zkit's words.
    pub(crate) fn explained(errno: Errno, text: impl Into<Cow<'static, str>>) -> Reason {
        Reason { errno: Some(errno.0), text: text.into() }
    }

    /// The error that it means whatever was being done, if it is such.
    pub(crate) fn ending(&self) -> Option<Error> {
        self.errno.and_then(|errno| Errno(errno).ending())
    }

    /// The `errno` of libzmq or the system (`EADDRINUSE`, `EFSM`, ...); `None` when zkit refused
    /// before asking them.
    #[doc(alias("zmq_errno", "zmq_strerror"))]
    pub fn errno(&self) -> Option<i32> {
        self.errno
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Errno> for Reason {
    fn from(errno: Errno) -> Reason {
        Reason { errno: Some(errno.0), text: errno.text() }
    }
}

/// A failed send: the error, and the whole message back.
///
/// `?` turns it into [`Error`] where the message does not matter.
///
/// ```
/// use zkit::{SocketType, ZContext};
///
/// let ctx = ZContext::new()?;
/// let push = ctx.socket(SocketType::Push)?; // no peer: nowhere to send
/// let failed = push.try_send("precious").unwrap_err();
/// assert!(failed.error.is_would_block());
///
/// let elsewhere = ctx.pull("@inproc://elsewhere")?;
/// ctx.push(">inproc://elsewhere")?.send(failed.into_message())?;
/// assert_eq!(elsewhere.recv_str()?, "precious");
/// # Ok::<(), zkit::Error>(())
/// ```
#[derive(thiserror::Error)]
#[error("{error}")]
pub struct SendError<T> {
    /// Why it was not sent.
    pub error: Error,
    /// What was not sent: all frames as they were given. Only metadata that the last one was
    /// received with is gone, because libzmq takes it off before it refuses.
    pub message: T,
}

impl<T> SendError<T> {
    /// The message, to send it again or elsewhere.
    pub fn into_message(self) -> T {
        self.message
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

/// The error alone: the message is dropped.
impl<T> From<SendError<T>> for Error {
    fn from(failed: SendError<T>) -> Error {
        failed.error
    }
}

const NO_DESCRIPTORS: &str =
    "the process has no descriptors left; close some or raise its limit (ulimit -n)";

/// An error number, read once from libzmq or the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) const AGAIN: Errno = Errno(libc::EAGAIN);
    pub(crate) const INTR: Errno = Errno(libc::EINTR);
    pub(crate) const TERM: Errno = Errno(zmq_sys::errno::ETERM);
    pub(crate) const FSM: Errno = Errno(zmq_sys::errno::EFSM);
    pub(crate) const NOCOMPATPROTO: Errno = Errno(zmq_sys::errno::ENOCOMPATPROTO);
    pub(crate) const MTHREAD: Errno = Errno(zmq_sys::errno::EMTHREAD);
    /// zkit's own: the object belongs to the process before `fork`.
    pub(crate) const FORKED: Errno = Errno(i32::MIN);

    /// libzmq's words for it.
    pub(crate) fn text(self) -> Cow<'static, str> {
        match self {
            Errno::TERM => "the context was shut down".into(),
            Errno::FSM => "out of order for this socket's pattern".into(),
            Errno::NOCOMPATPROTO => "the transport does not go with this socket type".into(),
            Errno::MTHREAD => "the context has no I/O thread".into(),
            Errno::FORKED => Error::Forked.to_string().into(),
            Errno(libc::EMFILE) => NO_DESCRIPTORS.into(),
            Errno(raw) => {
                let text = io::Error::from_raw_os_error(raw).to_string();
                // The standard library appends " (os error N)".
                text.split(" (os error").next().unwrap_or_default().to_lowercase().into()
            }
        }
    }

    /// The errors that mean the same whatever was being done.
    pub(crate) fn ending(self) -> Option<Error> {
        match self {
            Errno::TERM => Some(Error::Terminated),
            Errno::FORKED => Some(Error::Forked),
            Errno::AGAIN => Some(Error::WouldBlock),
            _ => None,
        }
    }
}
