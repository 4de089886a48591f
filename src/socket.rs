mod moving;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::clock;
use crate::context::ZContext;
use crate::endpoint::{self, Attach, IpcFile, PortRange};
use crate::error::{Errno, Error, Reason, Result, SendError};
use crate::events::Events;
use crate::ffi::{self, RawMsg, RawSocket, lock, retry};
use crate::frame::ZFrame;
use crate::interrupt::{self, Stop};
use crate::msg::ZMsg;
use crate::socket_type::SocketType;
use crate::touch::Watch;

pub(crate) use moving::Moved;

/// A socket that sends and receives whole messages and closes itself (CZMQ's `zsock`).
///
/// Made by a context ([`ZContext::socket`], [`ZContext::router`] and its like for each type), or
/// in the [global context](ZContext::global) by [`ZSock::router`] and its like. The latter take
/// an [attach string](ZSock::attach): endpoints with commas between, `@` before one to bind and `>`
/// before one to connect; without a sign, what is usual for the type.
///
/// [`SocketType`] says what each type sends and receives, and
/// [the guide](crate::guide::choosing) which to choose.
///
/// ```
/// use zkit::ZSock;
///
/// let server = ZSock::rep("@inproc://greeter")?;
/// let client = ZSock::req(">inproc://greeter")?;
/// client.send("Hello")?;
/// assert_eq!(server.recv_str()?, "Hello");
/// server.send(("World", "with", "frames"))?;
/// assert_eq!(client.recv()?, ("World", "with", "frames").into());
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # One thread
///
/// A socket may move to another thread but not be used by two (it is `Send` and not `Sync`). All
/// operations take `&self`.
///
/// ```compile_fail
/// let socket = zkit::ZSock::push("")?;
/// std::thread::scope(|scope| { scope.spawn(|| socket.send("from another thread")); });
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # Waiting
///
/// Each operation comes in three kinds: `send` and `recv` wait as long as it takes (or as
/// [`ZMQ_SNDTIMEO`](ZSock::set_sndtimeo) and [`ZMQ_RCVTIMEO`](ZSock::set_rcvtimeo) say), `..._timeout`
/// as long as told, and `try_...` not at all. The first two end with [`Error::Interrupted`] when the
/// process is [interrupted](interrupt), the third does not look. All of them end with
/// [`Error::Terminated`] once the context is [shut down](ZContext::shutdown).
///
/// # All or nothing
///
/// A message is sent with all its frames or not at all, and a failed send gives it back in
/// [`SendError`]. What `send` has accepted is libzmq's: it is delivered unless the peer or the
/// process ends first, or a socket type drops it by its nature (a PUB without subscribers, a
/// ROUTER that does not know the peer).
///
/// # Dropping
///
/// Dropping a socket closes it without waiting. What it has sent goes on being delivered for its
/// [linger](ZSock::set_linger), one second unless set otherwise, as long as the context lives;
/// the context's own drop waits for that. Its `inproc` names and `ipc` files are gone when the
/// drop returns.
///
/// Delivered means given to the system. What is on its way over `ipc` when its sender closes, to a
/// peer that is at its receiving high-water mark, is lost: libzmq drops such a connection with
/// what it has not read. Who must be sure waits for a word from its peer.
///
/// # After `fork`
///
/// In the child of a `fork` every call that can fail gives [`Error::Forked`], and dropping does
/// nothing: the socket is the parent's.
#[doc(alias("zsock", "zsocket", "zstr", "zmq_socket"))]
pub struct ZSock {
    raw: RawSocket,
    socket_type: SocketType,
    fd: RawFd,
    /// None for an adopted socket, which holds its own, and for one that outlives its own.
    context: Option<ZContext>,
    attached: RefCell<Attached>,
    /// Whether it ever sent, and so may have something unsent.
    has_sent: Cell<bool>,
    /// Whether peers speak plain TCP, which has no frames.
    plain_tcp: Cell<bool>,
    /// Whether it keeps the last frame alone.
    conflates: Cell<bool>,
    /// Whether a REQ lost its peer in the middle of a request, and needs a delimiter for the next.
    mid_request: Cell<bool>,
    stop: Cell<Stop>,
    timeouts: Timeouts,
    /// The reactor that is told of every operation.
    watch: RefCell<Option<Watch>>,
}

/// What the socket is attached to. libzmq knows, but does not tell.
#[derive(Default)]
struct Attached {
    bound: Vec<Bound>,
    connected: Vec<Connected>,
    /// The identity that the next peer connected to gets.
    next_identity: Option<Vec<u8>>,
    /// The descriptor that the next bind uses.
    handed_in: Option<OwnedFd>,
}

struct Bound {
    /// As it was asked for.
    asked: String,
    /// As libzmq resolved it.
    real: String,
    file: Option<IpcFile>,
}

struct Connected {
    endpoint: String,
    identity: Option<Vec<u8>>,
}

impl fmt::Display for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = self.bound.iter().map(|bound| ("bound to", &bound.real));
        let connected = self.connected.iter().map(|peer| ("connected to", &peer.endpoint));
        let mut attached = bound.chain(connected);
        let Some((how, endpoint)) = attached.next() else { return f.write_str("not attached") };
        write!(f, "{how} {endpoint}")?;
        match attached.count() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident, $socket_type:ident, $attach:ident;)*) => {
        /// # Sockets by type
        ///
        /// Each makes a socket of its type and [attaches](ZSock::attach) it to `endpoints`. One
        /// without a sign is bound or connected as is usual for the type. The empty string leaves
        /// the socket unattached, for options that must be set before
        /// [`bind`](ZSock::bind) or [`connect`](ZSock::connect).
        ///
        /// ```
        /// use zkit::ZContext;
        ///
        /// let ctx = ZContext::new()?;
        /// let frontend = ctx.router("tcp://127.0.0.1:*,@inproc://frontend")?; // binds both
        /// let dealer = ctx.dealer("inproc://frontend")?; // connects
        /// let slow = ctx.pull("")?; // as ctx.socket(SocketType::Pull)
        /// slow.set_rcvhwm(Some(10))?;
        /// slow.bind("inproc://slow")?;
        /// # Ok::<(), zkit::Error>(())
        /// ```
        impl ZContext {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// As [`socket`](ZContext::socket) and [`attach`](ZSock::attach).
            pub fn $name(&self, endpoints: &str) -> Result<ZSock> {
                let socket = self.socket(SocketType::$socket_type)?;
                socket.attach(endpoints, Attach::$attach)?;
                Ok(socket)
            }
        )*}

        /// # Sockets of the global context
        ///
        /// The shorthands of [`ZContext`] by the same names, in [`ZContext::global`].
        impl ZSock {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// As [`ZContext::global`], [`ZContext::socket`] and [`attach`](ZSock::attach).
            pub fn $name(endpoints: &str) -> Result<ZSock> {
                ZContext::global()?.$name(endpoints)
            }
        )*}
    };
}

constructors! {
    /// A PAIR, connected by default.
    #[doc(alias = "zsock_new_pair")]
    pair, Pair, Connect;
    /// A PUB, bound by default.
    #[doc(alias = "zsock_new_pub")]
    pub_, Pub, Bind;
    /// A REQ, connected by default.
    #[doc(alias = "zsock_new_req")]
    req, Req, Connect;
    /// A REP, bound by default.
    #[doc(alias = "zsock_new_rep")]
    rep, Rep, Bind;
    /// A DEALER, connected by default.
    #[doc(alias = "zsock_new_dealer")]
    dealer, Dealer, Connect;
    /// A ROUTER, bound by default.
    #[doc(alias = "zsock_new_router")]
    router, Router, Bind;
    /// A PUSH, connected by default.
    #[doc(alias = "zsock_new_push")]
    push, Push, Connect;
    /// A PULL, bound by default.
    #[doc(alias = "zsock_new_pull")]
    pull, Pull, Bind;
    /// An XPUB, bound by default.
    #[doc(alias = "zsock_new_xpub")]
    xpub, XPub, Bind;
    /// An XSUB, connected by default.
    #[doc(alias = "zsock_new_xsub")]
    xsub, XSub, Connect;
    /// A STREAM, connected by default.
    #[doc(alias = "zsock_new_stream")]
    stream, Stream, Connect;
}

impl ZContext {
    /// A SUB, connected by default, subscribed to messages that start with `prefix`; the empty
    /// prefix is all of them. One without a subscription is made by [`socket`](ZContext::socket).
    ///
    /// # Errors
    /// As [`socket`](ZContext::socket) and [`attach`](ZSock::attach).
    #[doc(alias = "zsock_new_sub")]
    pub fn sub(&self, endpoints: &str, prefix: impl AsRef<[u8]>) -> Result<ZSock> {
        let socket = self.socket(SocketType::Sub)?;
        socket.subscribe(prefix)?;
        socket.attach(endpoints, Attach::Connect)?;
        Ok(socket)
    }

    /// A socket that is neither bound nor connected.
    ///
    /// ```
    /// use zkit::{SocketType, ZContext};
    ///
    /// let ctx = ZContext::new()?;
    /// let worker = ctx.socket(SocketType::Dealer)?;
    /// worker.set_identity("A")?;
    /// worker.connect("inproc://routing")?;
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Socket`] when the context's limit of sockets or the process's limit of descriptors
    /// is reached, [`Error::Terminated`] after [`shutdown`](ZContext::shutdown),
    /// [`Error::Forked`] in the child of a fork.
    #[doc(alias("zsock_new", "zmq_socket"))]
    pub fn socket(&self, socket_type: SocketType) -> Result<ZSock> {
        let cannot = |reason: Reason| {
            let ending = reason.ending();
            let socket_type = socket_type.name().into();
            ending.unwrap_or(Error::Socket { socket_type, reason })
        };
        let raw = self.open(socket_type.raw()).map_err(cannot)?;
        let socket = ZSock::assemble(raw, socket_type, Some(self.clone()));
        socket.map_err(|errno| cannot(errno.into()))
    }
}

impl ZSock {
    /// A SUB in the [global context](ZContext::global), connected by default, subscribed to
    /// messages that start with `prefix`; the empty prefix is all of them.
    ///
    /// # Errors
    /// As [`ZContext::global`], [`ZContext::socket`] and [`attach`](ZSock::attach).
    #[doc(alias = "zsock_new_sub")]
    pub fn sub(endpoints: &str, prefix: impl AsRef<[u8]>) -> Result<ZSock> {
        ZContext::global()?.sub(endpoints, prefix)
    }

    /// Takes over a socket of the `zmq` crate, connected as it is, so that a program can move to
    /// zkit one socket at a time. Its options, linger among them, stay as they are, and its
    /// context lives on in it. It cannot have a [`ZMonitor`](crate::ZMonitor).
    ///
    /// ```
    /// use zkit::ZSock;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ctx = zmq::Context::new();
    /// let old = ctx.socket(zmq::PAIR)?;
    /// old.bind("inproc://old-and-new")?;
    /// let new = ctx.socket(zmq::PAIR)?;
    /// new.connect("inproc://old-and-new")?;
    ///
    /// let new = ZSock::adopt(new)?;
    /// new.send(("both", "frames"))?;
    /// assert_eq!(old.recv_multipart(0)?, [b"both".to_vec(), b"frames".to_vec()]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Socket`] when it is of a type that zkit does not know, [`Error::Terminated`] when
    /// its context has ended.
    pub fn adopt(socket: zmq::Socket) -> Result<ZSock> {
        let unknown = |name: String| Error::Socket {
            socket_type: name.into(),
            reason: Reason::new("zkit knows libzmq's stable socket types only"),
        };
        let raw = RawSocket::adopt(socket).ok_or_else(|| unknown("closed".into()))?;
        let failed = |errno: Errno| {
            let socket_type = "adopted".into();
            errno.ending().unwrap_or(Error::Socket { socket_type, reason: errno.into() })
        };
        let number = raw.get_int(zmq_sys::ZMQ_TYPE).map_err(failed)?;
        let socket_type =
            SocketType::from_raw(number).ok_or_else(|| unknown(format!("type {number}")))?;
        ZSock::assemble(raw, socket_type, None).map_err(failed)
    }

    fn assemble(
        raw: RawSocket,
        socket_type: SocketType,
        context: Option<ZContext>,
    ) -> Result<ZSock, Errno> {
        let fd = raw.get_int(zmq_sys::ZMQ_FD)?;
        let timeout = |option| {
            let millis = raw.get_int(option)?;
            Ok(u64::try_from(millis).ok().map(Duration::from_millis))
        };
        let timeouts = Timeouts {
            send: Cell::new(timeout(zmq_sys::ZMQ_SNDTIMEO)?),
            recv: Cell::new(timeout(zmq_sys::ZMQ_RCVTIMEO)?),
        };
        raw.set_int(zmq_sys::ZMQ_RCVTIMEO, PATIENCE.as_millis() as i32)?;
        Ok(ZSock {
            socket_type,
            fd,
            // One of zkit's begins without.
            conflates: Cell::new(context.is_none() && raw.get_int(zmq_sys::ZMQ_CONFLATE)? != 0),
            context,
            attached: RefCell::default(),
            has_sent: Cell::new(false),
            plain_tcp: Cell::new(socket_type == SocketType::Stream),
            mid_request: Cell::new(false),
            stop: Cell::new(Stop::OnInterrupt),
            watch: RefCell::default(),
            timeouts,
            raw,
        })
    }

    pub(crate) fn own_timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// The socket's type (`ZMQ_TYPE`).
    pub fn socket_type(&self) -> SocketType {
        self.socket_type
    }

    /// Whether calls on this socket go on waiting when the process is [interrupted](interrupt),
    /// because somebody else ends it in order: by a message, or by
    /// [`shutdown`](ZContext::shutdown). Default no; acts on calls from now on.
    pub fn set_nonstop(&self, nonstop: bool) {
        self.stop.set(if nonstop { Stop::Never } else { Stop::OnInterrupt });
    }

    /// The socket under this one, to use it in a way that a reactor must hear of.
    pub(crate) fn raw(&self) -> &RawSocket {
        self.touch();
        &self.raw
    }

    #[inline]
    fn touch(&self) {
        if let Some(watch) = &*self.watch.borrow() {
            watch.touch();
        }
    }

    pub(crate) fn context(&self) -> Option<&ZContext> {
        self.context.as_ref()
    }

    /// Lets the context end while this socket is open: it waits then until this is dropped, which is
    /// the caller's to see to.
    pub(crate) fn let_go_of_context(&mut self) {
        self.context = None;
    }

    /// False in the child of a fork.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.raw.check_process().is_ok()
    }

    pub(crate) fn watch(&self) -> &RefCell<Option<Watch>> {
        &self.watch
    }

    pub(crate) fn set_plain_tcp(&self, plain_tcp: bool) {
        self.plain_tcp.set(plain_tcp);
    }

    pub(crate) fn set_conflates(&self, conflates: bool) {
        self.conflates.set(conflates);
    }

    pub(crate) fn has_given(&self, identity: &[u8]) -> bool {
        let connected = &self.attached.borrow().connected;
        connected.iter().any(|peer| peer.identity.as_deref() == Some(identity))
    }

    pub(crate) fn hand_in(&self, descriptor: OwnedFd) {
        self.attached.borrow_mut().handed_in = Some(descriptor);
    }

    pub(crate) fn give_next(&self, identity: &[u8]) {
        self.attached.borrow_mut().next_identity = Some(identity.to_vec());
    }
}

/// # Endpoints
impl ZSock {
    /// Binds and connects to the endpoints of an attach string: commas between them, `@` before
    /// one to bind and `>` before one to connect, `default` for one without. The empty string is
    /// no endpoint.
    ///
    /// ```
    /// use zkit::{Attach, SocketType, ZContext};
    ///
    /// let ctx = ZContext::new()?;
    /// let dealer = ctx.socket(SocketType::Dealer)?;
    /// dealer.set_identity("broker-1")?;
    /// dealer.attach("@inproc://broker-1,inproc://broker-2,inproc://broker-3", Attach::Connect)?;
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`bind`](ZSock::bind) and [`connect`](ZSock::connect), at the first endpoint that fails;
    /// those before it stay attached.
    #[doc(alias = "zsock_attach")]
    pub fn attach(&self, endpoints: &str, default: Attach) -> Result<()> {
        for (attach, endpoint) in endpoint::attach_list(endpoints, default) {
            match attach {
                Attach::Bind => self.bind(endpoint).map(drop)?,
                Attach::Connect => self.connect(endpoint)?,
            }
        }
        Ok(())
    }

    /// Has peers connect here, and returns the endpoint as libzmq resolved it, with the port that
    /// it really got.
    ///
    /// `tcp://127.0.0.1:*` takes a free port of the system's choice, `tcp://127.0.0.1:*[60000-61000]`
    /// the first free one of a range, `tcp://127.0.0.1:![60000-61000]` a random one; a bound that
    /// is left out is 49152 or 65535. `tcp://*:5555` is every address of the machine, and
    /// `tcp://eth0:5555` those of a network interface.
    ///
    /// An `ipc` path at which a live process listens is in use; a socket file that a dead one has
    /// left is taken over; any other file is left alone. An endpoint that a socket of this context
    /// has just let go of is waited for, up to a second.
    ///
    /// ```
    /// use zkit::ZContext;
    ///
    /// let ctx = ZContext::new()?;
    /// let server = ctx.rep("")?;
    /// let endpoint = server.bind("tcp://127.0.0.1:*")?;
    /// let client = ctx.req(&endpoint)?;
    /// client.send("Hello")?;
    /// assert_eq!(server.recv_str()?, "Hello");
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Bind`] with the endpoint and the reason in words, [`Error::Terminated`],
    /// [`Error::Forked`].
    #[doc(alias("zsock_bind", "zmq_bind"))]
    pub fn bind(&self, endpoint: &str) -> Result<String> {
        let bound = match PortRange::parse(endpoint) {
            Some(range) => range.and_then(|range| self.bind_in_range(&range)),
            None => self.bind_one(endpoint),
        };
        let real = bound.map_err(|reason| {
            self.cannot(reason, endpoint, |endpoint, reason| Error::Bind { endpoint, reason })
        })?;
        // A range is unbound by what it was asked for as well.
        if let Some(bound) = self.attached.borrow_mut().bound.last_mut() {
            bound.asked = endpoint.to_owned();
        }
        Ok(real)
    }

    fn bind_in_range(&self, range: &PortRange<'_>) -> Result<String, Reason> {
        let (first, last) = (u32::from(*range.ports.start()), u32::from(*range.ports.end()));
        let count = last - first + 1;
        // A hasher's random keys are as good a die as this needs.
        let leap = if range.random { ffi::random() as u32 } else { 0 };
        for step in 0..count {
            let port = first + (leap % count + step) % count;
            match self.bind_one(&format!("{}{port}", range.host)) {
                Err(reason) if reason.errno() == Some(libc::EADDRINUSE) => {}
                bound => return bound,
            }
        }
        Err(Reason::explained(
            Errno(libc::EADDRINUSE),
            format!("every port from {first} to {last} is in use"),
        ))
    }

    fn bind_one(&self, endpoint: &str) -> Result<String, Reason> {
        let mut pause = Duration::from_micros(100);
        loop {
            match self.try_bind(endpoint) {
                Err(reason) if reason.errno() == Some(libc::EADDRINUSE) => {
                    let free_by = self.context.as_ref().and_then(|ctx| ctx.free_by(endpoint));
                    if free_by.is_none_or(|time| time < Instant::now()) {
                        return Err(reason);
                    }
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
                bound => return bound,
            }
        }
    }

    fn try_bind(&self, endpoint: &str) -> Result<String, Reason> {
        self.raw.check_process()?;
        let name = endpoint::checked(endpoint)?;
        // A descriptor that was handed in listens already, and its file is its maker's.
        let inproc = endpoint.starts_with("inproc://");
        let handed_in = !inproc && self.attached.borrow().handed_in.is_some();
        // Two threads that find a path free must not both take it.
        static BINDING_IPC: Mutex<()> = Mutex::new(());
        let ipc = endpoint.starts_with("ipc://") && !handed_in;
        let _alone = ipc.then(|| lock(&BINDING_IPC));
        if let Some(path) = endpoint::ipc_path(endpoint).filter(|_| ipc) {
            endpoint::check_ipc(path)?;
            endpoint::check_ipc_free(path)?;
        }
        if endpoint.starts_with("tcp://") && !handed_in {
            endpoint::check_descriptors()?;
        }
        endpoint::check_abstract(endpoint)?;
        endpoint::check_port(endpoint, Attach::Bind)?;
        endpoint::check_zap(endpoint, self.socket_type)?;
        self.raw().bind(&name).map_err(|errno| explain(errno, endpoint))?;
        if handed_in {
            // It is libzmq's now, to close it; but libzmq would take it for the next bind as well.
            self.attached.borrow_mut().handed_in.take().map(IntoRawFd::into_raw_fd);
            self.raw.set_int(zmq_sys::ZMQ_USE_FD, -1)?;
        }
        let real = self.last_endpoint().ok().flatten().unwrap_or_else(|| endpoint.to_owned());
        self.attached.borrow_mut().bound.push(Bound {
            asked: endpoint.to_owned(),
            real: real.clone(),
            file: if ipc { IpcFile::of(endpoint, &real) } else { None },
        });
        Ok(real)
    }

    /// Lets go of an endpoint, given as it was bound or as `bind` returned it.
    ///
    /// Over `tcp` and `ipc` the connections that were made there end with it, when what has come by
    /// them is received; over `inproc` they stay. (So it is with libzmq 4.3.4 and 4.3.5.)
    ///
    /// # Errors
    /// [`Error::Unbind`] with the endpoint and the reason in words, [`Error::Terminated`],
    /// [`Error::Forked`].
    #[doc(alias("zsock_unbind", "zmq_unbind"))]
    pub fn unbind(&self, endpoint: &str) -> Result<()> {
        let bound = &mut self.attached.borrow_mut().bound;
        let known = bound.iter().position(|one| one.asked == endpoint || one.real == endpoint);
        let real = known.map_or(endpoint, |index| &bound[index].real);
        let unbound = endpoint::checked(real).and_then(|name| {
            self.raw().unbind(&name).map_err(|errno| not_attached(errno, endpoint))
        });
        unbound.map_err(|reason| {
            self.cannot(reason, endpoint, |endpoint, reason| Error::Unbind { endpoint, reason })
        })?;
        if let Some(index) = known {
            self.released(bound.swap_remove(index));
        }
        Ok(())
    }

    /// Connects to a peer, now or as soon as it is there. It does not wait for that: libzmq goes on
    /// trying, and connects anew when the connection breaks
    /// ([`set_reconnect_ivl`](ZSock::set_reconnect_ivl)).
    ///
    /// ```
    /// use zkit::ZContext;
    ///
    /// let ctx = ZContext::new()?;
    /// let push = ctx.push("")?;
    /// push.connect("inproc://later")?;
    /// push.send("waits in the socket")?;
    /// let pull = ctx.pull("inproc://later")?;
    /// assert_eq!(pull.recv_str()?, "waits in the socket");
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Connect`] with the endpoint and the reason in words, [`Error::Terminated`],
    /// [`Error::Forked`]. A peer that is not there is no error.
    #[doc(alias("zsock_connect", "zmq_connect"))]
    pub fn connect(&self, endpoint: &str) -> Result<()> {
        let connect = || {
            self.raw.check_process()?;
            let name = endpoint::checked(endpoint)?;
            if let Some(path) = endpoint::ipc_path(endpoint) {
                endpoint::check_ipc(path)?;
            }
            endpoint::check_port(endpoint, Attach::Connect)?;
            self.raw().connect(&name).map_err(|errno| explain(errno, endpoint))?;
            let mut attached = self.attached.borrow_mut();
            let identity = attached.next_identity.take();
            attached.connected.push(Connected { endpoint: endpoint.to_owned(), identity });
            Ok(())
        };
        connect().map_err(|reason| {
            self.cannot(reason, endpoint, |endpoint, reason| Error::Connect { endpoint, reason })
        })
    }

    /// Disconnects from an endpoint that the socket is connected to, given as it was connected.
    ///
    /// What was sent there is still delivered, for the [linger](ZSock::set_linger); what has come from
    /// there and was not received is lost.
    ///
    /// # Errors
    /// [`Error::Disconnect`] with the endpoint and the reason in words, [`Error::Terminated`],
    /// [`Error::Forked`].
    #[doc(alias("zsock_disconnect", "zmq_disconnect"))]
    pub fn disconnect(&self, endpoint: &str) -> Result<()> {
        let disconnected = endpoint::checked(endpoint).and_then(|name| {
            self.raw().disconnect(&name).map_err(|errno| not_attached(errno, endpoint))
        });
        disconnected.map_err(|reason| {
            self.cannot(reason, endpoint, |endpoint, reason| Error::Disconnect { endpoint, reason })
        })?;
        self.attached.borrow_mut().connected.retain(|peer| peer.endpoint != endpoint);
        Ok(())
    }

    fn cannot(
        &self,
        reason: Reason,
        endpoint: &str,
        error: impl FnOnce(String, Reason) -> Error,
    ) -> Error {
        let ending = reason.ending();
        ending.unwrap_or_else(|| error(endpoint.to_owned(), reason))
    }

    fn released(&self, bound: Bound) {
        if let Some(file) = bound.file {
            file.remove();
        }
        if let Some(context) = &self.context {
            context.release(&bound.asked);
            context.release(&bound.real);
        }
    }
}

/// libzmq's refusal to let go of an endpoint, in words.
fn not_attached(errno: Errno, endpoint: &str) -> Reason {
    match errno.0 {
        libc::ENOENT => Reason::explained(errno, "the socket is not attached to it"),
        _ => explain(errno, endpoint),
    }
}

/// libzmq's refusal of an endpoint, in words.
fn explain(errno: Errno, endpoint: &str) -> Reason {
    let transport = endpoint.split("://").next().unwrap_or_default();
    let text = match errno.0 {
        libc::EPROTONOSUPPORT => format!(
            "the linked libzmq has no transport {transport:?}; it has tcp, ipc, inproc and others"
        ),
        libc::ENODEV => "no network interface or address of this machine has that name".into(),
        libc::ENOENT => "its directory does not exist".into(),
        libc::EINVAL if transport == "tcp" => endpoint::NOT_TCP.into(),
        libc::EINVAL => format!("libzmq does not understand it as an endpoint of {transport}"),
        _ => return errno.into(),
    };
    Reason::explained(errno, text)
}

/// # Sending
impl ZSock {
    /// Sends a message: anything that becomes a [`ZMsg`], from a string to a tuple of frames.
    ///
    /// Waits while the socket has nowhere to put it: no peer, or all at their [high-water
    /// mark](ZSock::set_sndhwm). [Some types](SocketType) drop it then instead. A message without
    /// frames is not sent, and no error.
    ///
    /// ```
    /// # use zkit::{ZContext, ZFrame};
    /// # let ctx = ZContext::new()?;
    /// # let sink = ctx.pull("@inproc://sink")?;
    /// # let socket = ctx.push(">inproc://sink")?;
    /// # let (name, number) = (String::from("a"), 1);
    /// socket.send("a literal")?;
    /// socket.send(format!("{name} {number}"))?;
    /// socket.send((name, "", vec![0; 1024]))?;
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Borrowed text and bytes
    ///
    /// What is only borrowed, a `&str` or `&[u8]` parameter, does not become a message by itself:
    /// libzmq may read it in its own thread long after `send` has returned, so it would have to
    /// live for ever (the compiler says "must outlive `'static`"). [`ZFrame::new`] copies it:
    ///
    /// ```
    /// use zkit::{Result, ZFrame, ZSock};
    ///
    /// fn publish(socket: &ZSock, topic: &str, body: &[u8]) -> Result<()> {
    ///     socket.send((ZFrame::new(topic), ZFrame::new(body)))?;
    ///     Ok(())
    /// }
    /// # let ctx = zkit::ZContext::new()?;
    /// # publish(&ctx.pub_("inproc://news")?, "weather", b"rain")?;
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError`] with the message: [`Error::Interrupted`], [`Error::Terminated`],
    /// [`Error::Forked`], [`Error::Timeout`] after [`ZMQ_SNDTIMEO`](ZSock::set_sndtimeo),
    /// [`Error::HostUnreachable`] on a STREAM, or a ROUTER under
    /// [`set_router_mandatory`](ZSock::set_router_mandatory), [`Error::Send`] when this
    /// socket cannot send, or not now.
    #[doc(alias("zmsg_send", "zstr_send", "zstr_sendx", "zsock_send", "zframe_send"))]
    pub fn send(&self, msg: impl Into<ZMsg>) -> Result<(), SendError<ZMsg>> {
        self.send_within(
            msg.into(),
            Wait::Until(self.timeouts.send.get().and_then(clock::deadline)),
        )
    }

    /// Sends a message if there is room for it now.
    ///
    /// # Errors
    /// As [`send`](ZSock::send), and [`Error::WouldBlock`] when there is none. It does not look for
    /// interrupts.
    pub fn try_send(&self, msg: impl Into<ZMsg>) -> Result<(), SendError<ZMsg>> {
        self.send_within(msg.into(), Wait::Not)
    }

    /// Sends a message, waiting at most this long.
    ///
    /// # Errors
    /// As [`send`](ZSock::send), and [`Error::Timeout`] when that is over.
    pub fn send_timeout(
        &self,
        msg: impl Into<ZMsg>,
        timeout: Duration,
    ) -> Result<(), SendError<ZMsg>> {
        self.send_within(msg.into(), Wait::Until(clock::deadline(timeout)))
    }

    /// Sends a [signal](ZMsg::signal), for the peer to [`wait`](ZSock::wait) for.
    ///
    /// # Errors
    /// As [`send`](ZSock::send).
    #[doc(alias = "zsock_signal")]
    pub fn signal(&self, status: u8) -> Result<()> {
        Ok(self.send(ZMsg::signal(status))?)
    }

    fn send_within(&self, mut msg: ZMsg, wait: Wait) -> Result<(), SendError<ZMsg>> {
        if let Err(error) = self.check_form(&msg) {
            return Err(SendError { error, message: msg });
        }
        match self.in_time(wait, libc::POLLOUT, || self.send_all(&mut msg)) {
            Ok(()) => Ok(()),
            Err(error) => {
                let error = error.unwrap_or_else(|errno| self.cannot_send(errno, &msg));
                Err(SendError { error, message: msg })
            }
        }
    }

    /// Sends every frame without waiting, or leaves the message as it is.
    ///
    /// All but the last are sent as copies, which share their content: libzmq takes a frame away
    /// when it accepts it, and may still refuse a later one.
    #[inline]
    fn send_all(&self, msg: &mut ZMsg) -> Result<(), Errno> {
        let delimited = self.mid_request.get() && !msg.is_empty();
        if delimited {
            retry(|| self.raw.send(&mut RawMsg::empty(), true))?;
            self.mid_request.set(false);
        }
        let (Some(first), rest) = msg.parts_mut() else { return Ok(()) };
        let sent = match rest.len().checked_sub(1) {
            None => retry(|| self.raw.send(first.raw_mut(), false)).map_err(|errno| (0, errno)),
            Some(last) => {
                let mut copy = RawMsg::empty();
                let mut send_copy = |index: usize, frame: &mut ZFrame| {
                    frame.raw_mut().copy_to(&mut copy);
                    retry(|| self.raw.send(&mut copy, true)).map_err(|errno| (index, errno))
                };
                send_copy(0, first)
                    .and_then(|()| (0..last).try_for_each(|i| send_copy(i + 1, &mut rest[i])))
                    .and_then(|()| {
                        retry(|| self.raw.send(rest[last].raw_mut(), false))
                            .map_err(|errno| (last + 1, errno))
                    })
                    // libzmq has left it empty: there is nothing to close.
                    .map(|()| std::mem::forget(copy))
            }
        };
        match sent {
            Ok(()) => {
                self.has_sent.set(true);
                msg.last_sent();
                Ok(())
            }
            Err((refused, errno)) => self.abandon(msg, refused, delimited, errno),
        }
    }

    /// The peer went away between two frames. libzmq has taken back those that it had accepted, but
    /// not every socket type is ready for a new message then.
    #[cold]
    fn abandon(
        &self,
        msg: &ZMsg,
        refused: usize,
        delimited: bool,
        errno: Errno,
    ) -> Result<(), Errno> {
        let last = msg.len() - 1;
        let is_req = self.socket_type == SocketType::Req;
        let nothing_accepted = refused == 0 && !delimited;
        if nothing_accepted || errno != Errno::AGAIN {
            return Err(errno);
        }
        if refused == last {
            // The REQ still is in the middle of its request, behind the delimiter.
            self.mid_request.set(is_req);
            return Err(errno);
        }
        if is_req || matches!(self.socket_type, SocketType::Push | SocketType::Dealer) {
            // It swallows frames up to the end of a message, so it must get one.
            for (index, frame) in msg.iter().enumerate().skip(refused + 1) {
                let mut copy = frame.clone();
                retry(|| self.raw.send(copy.raw_mut(), index < last))?;
            }
        }
        // A REQ has made its request by now, and lost it as it would in a peer that dies.
        if is_req { Ok(()) } else { Err(errno) }
    }

    /// Whether a message has the form that the socket's type asks for. libzmq drops others without
    /// a word, or sends a part of them.
    fn check_form(&self, msg: &ZMsg) -> Result<(), Error> {
        let plain_tcp = self.plain_tcp.get();
        let reason = match (self.socket_type, msg.len()) {
            (SocketType::Router | SocketType::Stream, 1 | 3..) if plain_tcp => {
                "a message is the identity of its peer and one frame"
            }
            (SocketType::Router, 1) => "a message needs the identity of its peer in front",
            (_, 2..) if self.conflates.get() => {
                "a socket that conflates keeps the last frame, so a message is one frame"
            }
            _ => return Ok(()),
        };
        self.raw.check_process().map_err(|errno| self.cannot_send(errno, msg))?;
        let socket_type = self.socket_type.name();
        Err(Error::Send { socket_type, reason: Reason::new(reason) })
    }

    #[cold]
    fn cannot_send(&self, errno: Errno, msg: &ZMsg) -> Error {
        let socket_type = self.socket_type.name();
        if errno.0 == libc::EHOSTUNREACH {
            let identity = msg.first().map(|frame| format!("{frame:?}")).unwrap_or_default();
            return Error::HostUnreachable { identity };
        }
        errno.ending().unwrap_or_else(|| Error::Send {
            socket_type,
            reason: match errno {
                Errno::FSM if self.socket_type == SocketType::Req => Reason::explained(
                    errno,
                    "the reply to its last request has to be received first \
                     (or set_req_relaxed)",
                ),
                Errno::FSM => Reason::explained(errno, "a request has to be received first, whole"),
                Errno(libc::ENOTSUP) => {
                    Reason::explained(errno, "this type of socket only receives")
                }
                _ => errno.into(),
            },
        })
    }
}

/// # Receiving
impl ZSock {
    /// Receives a whole message, of one frame at least. Waits until there is one.
    ///
    /// [`SocketType`] says what each type puts in front, such as the identity of a ROUTER's peer.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Terminated`], [`Error::Forked`], [`Error::Timeout`] after
    /// [`ZMQ_RCVTIMEO`](ZSock::set_rcvtimeo), [`Error::Receive`] when this socket cannot receive, or
    /// not now.
    #[doc(alias("zmsg_recv", "zstr_recvx", "zsock_recv"))]
    pub fn recv(&self) -> Result<ZMsg> {
        match self.timeouts.recv.get() {
            Some(timeout) => self.recv_timeout(timeout),
            None => self.recv_within(Wait::Forever),
        }
    }

    /// Receives a whole message if there is one. What another thread has just sent may still be on
    /// its way, over inproc too.
    ///
    /// # Errors
    /// As [`recv`](ZSock::recv), and [`Error::WouldBlock`] when there is none. It does not look for
    /// interrupts.
    #[doc(alias("zmsg_recv_nowait", "ZMQ_DONTWAIT"))]
    pub fn try_recv(&self) -> Result<ZMsg> {
        self.recv_within(Wait::Not)
    }

    /// Receives a whole message, waiting at most this long.
    ///
    /// # Errors
    /// As [`recv`](ZSock::recv), and [`Error::Timeout`] when that is over.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<ZMsg> {
        self.recv_within(Wait::Until(clock::deadline(timeout)))
    }

    /// Receives a message of one frame.
    ///
    /// # Errors
    /// As [`recv`](ZSock::recv), and [`Error::Unexpected`], which holds the message, when it has
    /// more frames.
    #[doc(alias = "zframe_recv")]
    pub fn recv_frame(&self) -> Result<ZFrame> {
        self.recv().and_then(one_frame)
    }

    /// Receives a message of one frame if there is one.
    ///
    /// # Errors
    /// As [`try_recv`](ZSock::try_recv) and [`recv_frame`](ZSock::recv_frame).
    pub fn try_recv_frame(&self) -> Result<ZFrame> {
        self.try_recv().and_then(one_frame)
    }

    /// Receives a message of one frame, waiting at most this long.
    ///
    /// # Errors
    /// As [`recv_timeout`](ZSock::recv_timeout) and [`recv_frame`](ZSock::recv_frame).
    pub fn recv_frame_timeout(&self, timeout: Duration) -> Result<ZFrame> {
        self.recv_timeout(timeout).and_then(one_frame)
    }

    /// Receives a message of one frame of text.
    ///
    /// # Errors
    /// As [`recv`](ZSock::recv), and [`Error::Unexpected`], which holds the message, when it has
    /// more frames or is not UTF-8.
    #[doc(alias = "zstr_recv")]
    pub fn recv_str(&self) -> Result<String> {
        self.recv().and_then(one_text)
    }

    /// Receives a message of one frame of text if there is one.
    ///
    /// # Errors
    /// As [`try_recv`](ZSock::try_recv) and [`recv_str`](ZSock::recv_str).
    #[doc(alias = "zstr_recv_nowait")]
    pub fn try_recv_str(&self) -> Result<String> {
        self.try_recv().and_then(one_text)
    }

    /// Receives a message of one frame of text, waiting at most this long.
    ///
    /// # Errors
    /// As [`recv_timeout`](ZSock::recv_timeout) and [`recv_str`](ZSock::recv_str).
    pub fn recv_str_timeout(&self, timeout: Duration) -> Result<String> {
        self.recv_timeout(timeout).and_then(one_text)
    }

    /// Waits for a [signal](ZSock::signal) and returns its status. Other messages that come
    /// before it are dropped, as `zsock_wait` does, and logged.
    ///
    /// ```
    /// use std::thread;
    /// use zkit::ZContext;
    ///
    /// let ctx = ZContext::new()?;
    /// let main = ctx.pair("@inproc://ready")?;
    /// let thread = ctx.pair(">inproc://ready")?;
    /// thread::spawn(move || thread.signal(0));
    /// assert_eq!(main.wait()?, 0);
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`recv`](ZSock::recv).
    #[doc(alias = "zsock_wait")]
    pub fn wait(&self) -> Result<u8> {
        loop {
            let msg = self.recv()?;
            if let Some(status) = msg.signal_status() {
                return Ok(status);
            }
            log::debug!("waiting for a signal, dropped {msg:?}");
        }
    }

    /// Has an XPUB wait until it has received so many subscriptions more than unsubscriptions,
    /// so that what it sends now finds its subscribers. It receives them up to there; other messages
    /// that come before are dropped and logged.
    ///
    /// An XPUB receives the second subscription to the same prefix only with
    /// [`set_xpub_verbose`](ZSock::set_xpub_verbose), which is to be set before it is bound.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zkit::{SocketType, ZContext};
    ///
    /// let ctx = ZContext::new()?;
    /// let publisher = ctx.socket(SocketType::XPub)?;
    /// publisher.set_xpub_verbose(true)?;
    /// publisher.bind("inproc://news")?;
    /// let (one, other) = (ctx.sub("inproc://news", "")?, ctx.sub("inproc://news", "")?);
    ///
    /// publisher.wait_for_subscribers(2, Duration::from_secs(5))?;
    /// publisher.send("extra")?;
    /// assert_eq!(one.recv_str()?, "extra");
    /// assert_eq!(other.recv_str()?, "extra");
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`recv_timeout`](ZSock::recv_timeout), and [`Error::Receive`] for a socket of another type.
    pub fn wait_for_subscribers(&self, count: usize, timeout: Duration) -> Result<()> {
        if self.socket_type != SocketType::XPub {
            let reason = Reason::new("only an XPUB receives subscriptions");
            return Err(Error::Receive { socket_type: self.socket_type.name(), reason });
        }
        let deadline = clock::deadline(timeout);
        let mut subscribers = 0;
        while subscribers < count {
            let msg = self.recv_timeout(clock::left(deadline))?;
            match msg.first().and_then(|frame| frame.first()) {
                Some(1) => subscribers += 1,
                Some(0) => subscribers = subscribers.saturating_sub(1),
                _ => log::debug!("waiting for subscribers, dropped {msg:?}"),
            }
        }
        Ok(())
    }

    fn recv_within(&self, wait: Wait) -> Result<ZMsg> {
        let mut msg = ZMsg::new();
        // The first attempt of an endless wait does the first part of the waiting.
        let mut patient = matches!(wait, Wait::Forever);
        let attempt = || self.recv_all(&mut msg, std::mem::take(&mut patient));
        match self.in_time(wait, libc::POLLIN, attempt) {
            Ok(()) => Ok(msg),
            Err(error) => Err(error.unwrap_or_else(|errno| self.cannot_receive(errno))),
        }
    }

    /// Receives into a new message, without telling the reactor that watches the socket, which is the
    /// caller. Whether there was something to receive.
    #[inline(always)] // all of a reader's turn in one function is 3 % fewer instructions
    pub(crate) fn recv_watched(&self, msg: &mut ZMsg) -> Result<bool> {
        match self.recv_all(msg, false) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            // A REQ or REP whose turn it is to send has nothing to receive. Told so, libzmq has not looked
            // at what its descriptor told of, which may be the end of the context.
            Err(Errno::FSM) => self.events_watched().map(|_| false),
            Err(errno) => Err(self.cannot_receive(errno)),
        }
    }

    /// Receives every frame, without waiting unless `patient`. libzmq passes messages on whole: when
    /// the first frame is there, so are the others. Each is received where it stays: moving what libzmq has
    /// just written stalls the processor.
    #[inline(always)] // see recv_watched
    fn recv_all(&self, msg: &mut ZMsg, patient: bool) -> Result<(), Errno> {
        let first = msg.first_slot().raw_mut();
        match self.raw.recv(first, patient) {
            // A signal: whoever waits on looks whether it was an interrupt.
            Err(Errno::INTR) if patient => return Err(Errno::AGAIN),
            Err(Errno::INTR) => retry(|| self.raw.recv(first, false))?,
            received => received?,
        }
        if first.more_mut() {
            let rest = msg.rest_slots();
            loop {
                rest.push_back(ZFrame::empty());
                let Some(frame) = rest.back_mut().map(ZFrame::raw_mut) else { break };
                retry(|| self.raw.recv(frame, false))?;
                if !frame.more_mut() {
                    break;
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn cannot_receive(&self, errno: Errno) -> Error {
        let socket_type = self.socket_type.name();
        errno.ending().unwrap_or_else(|| Error::Receive {
            socket_type,
            reason: match errno {
                Errno::FSM if self.socket_type == SocketType::Req => {
                    Reason::explained(errno, "a request has to be sent first")
                }
                Errno::FSM => {
                    Reason::explained(errno, "the reply to the last request has to be sent first")
                }
                Errno(libc::ENOTSUP) => Reason::explained(errno, "this type of socket only sends"),
                _ => errno.into(),
            },
        })
    }
}

fn one_frame(mut msg: ZMsg) -> Result<ZFrame> {
    match (msg.pop_front(), msg.is_empty()) {
        (Some(frame), true) => Ok(frame),
        (first, _) => Err(unexpected("one frame", first.into_iter().chain(msg))),
    }
}

fn one_text(msg: ZMsg) -> Result<String> {
    let frame = one_frame(msg)?;
    match frame.as_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(unexpected("one frame of UTF-8 text", [frame])),
    }
}

fn unexpected(expected: &'static str, frames: impl IntoIterator<Item = ZFrame>) -> Error {
    let frames = frames.into_iter().map(|frame| frame.to_vec()).collect();
    Error::Unexpected { expected, frames }
}

/// How long an operation may wait.
#[derive(Clone, Copy)]
enum Wait {
    Not,
    /// `None` is a time that never comes.
    Until(Option<Instant>),
    Forever,
}

/// How long a receive waits inside libzmq before it waits for interrupts as well. What comes within
/// this time costs two system calls less; an interrupt from another thread may be noticed this much
/// later.
const PATIENCE: Duration = Duration::from_millis(5);

/// What `ZMQ_SNDTIMEO` and `ZMQ_RCVTIMEO` are set to. zkit does the waiting: in libzmq the former is
/// not used, and the latter is `PATIENCE`.
#[derive(Default)]
pub(crate) struct Timeouts {
    pub(crate) send: Cell<Option<Duration>>,
    pub(crate) recv: Cell<Option<Duration>>,
}

/// # Waiting
impl ZSock {
    /// What the socket is ready for now (`ZMQ_EVENTS`): a message to receive, room to send, both or
    /// neither. It does not wait.
    ///
    /// # Errors
    /// [`Error::Terminated`], [`Error::Forked`].
    #[doc(alias("zsock_events", "zsock_has_in"))]
    pub fn events(&self) -> Result<Events> {
        self.touch();
        self.events_watched()
    }

    /// As [`events`](ZSock::events), for the reactor that watches the socket.
    pub(crate) fn events_watched(&self) -> Result<Events> {
        let events = retry(|| self.raw.get_int(zmq_sys::ZMQ_EVENTS));
        events.map(Events::from_zmq).map_err(|errno| self.cannot_receive(errno))
    }

    /// Attempts an operation until it does not block, sleeping between attempts on the socket's
    /// descriptor and the interrupt's. An error that the operation gives is left as its number.
    #[inline]
    fn in_time<T>(
        &self,
        wait: Wait,
        direction: i16,
        mut attempt: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Result<Error, Errno>> {
        self.touch();
        let blocking = !matches!(wait, Wait::Not);
        if blocking && self.stop.get() == Stop::OnInterrupt && interrupt::is_interrupted() {
            return Err(Ok(Error::Interrupted));
        }
        let mut done = attempt();
        if matches!(done, Err(Errno::AGAIN)) && direction == libc::POLLOUT {
            self.take_news().map_err(Err)?;
            done = attempt();
        }
        match done {
            Err(Errno::AGAIN) if blocking => self.sleep_and_attempt(wait, direction, attempt),
            done => done.map_err(Err),
        }
    }

    /// A send takes in what libzmq's threads have to tell only once a millisecond. Asking for the
    /// events takes it in always, and quiets the descriptor.
    #[cold]
    fn take_news(&self) -> Result<(), Errno> {
        retry(|| self.raw.get_int(zmq_sys::ZMQ_EVENTS)).map(drop)
    }

    #[cold]
    fn sleep_and_attempt<T>(
        &self,
        wait: Wait,
        direction: i16,
        mut attempt: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Result<Error, Errno>> {
        let deadline = match wait {
            Wait::Not => Some(Instant::now()),
            Wait::Until(deadline) => deadline,
            Wait::Forever => None,
        };
        let mut slots = [interrupt::readable(self.fd); 2];
        loop {
            if !interrupt::wait_on(&mut slots, deadline, self.stop.get()).map_err(Ok)? {
                return Err(Ok(Error::Timeout));
            }
            if direction == libc::POLLOUT {
                self.take_news().map_err(Err)?;
            }
            match attempt() {
                Err(Errno::AGAIN) => {}
                done => return done.map_err(Err),
            }
        }
    }
}

/// The descriptor that libzmq makes readable when the socket may have become ready (`ZMQ_FD`), for
/// an event loop of one's own.
///
/// It is edge-triggered: any operation on the socket can take the edge away, so look at
/// [`events`](ZSock::events) after every operation and before every sleep, and never read from it.
/// [`ZPoller`](crate::ZPoller) and [`ZLoop`](crate::ZLoop) do that for you.
impl AsFd for ZSock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        ffi::borrow_fd(&self.raw, self.fd)
    }
}

/// The same descriptor as [`as_fd`](AsFd::as_fd)'s, by its number: the socket goes on owning it.
impl AsRawFd for ZSock {
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

/// What it is attached to: `ZSock(ROUTER, bound to tcp://127.0.0.1:5555 and 1 more)`.
impl fmt::Debug for ZSock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZSock({}, {})", self.socket_type, self.attached.borrow())
    }
}

impl Drop for ZSock {
    fn drop(&mut self) {
        // In the child of a fork all of this is the parent's.
        if !self.is_of_this_process() {
            return;
        }
        let attached = self.attached.take();
        if let Some(context) = self.context.as_ref().filter(|_| self.has_sent.get()) {
            let linger = self.linger().unwrap_or(context.default_linger());
            context.lingers(format!("a {} socket {attached}", self.socket_type), linger);
        }
        for bound in attached.bound {
            // libzmq frees the name when its reaper thread comes to it: too late for whoever binds
            // it next.
            if bound.real.starts_with("inproc://") {
                let _ = endpoint::checked(&bound.real).map(|name| self.raw.unbind(&name));
            }
            self.released(bound);
        }
        if let Some(context) = &self.context {
            context.closed();
        }
    }
}
