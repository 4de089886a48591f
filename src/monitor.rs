use std::cell::Cell;
use std::ffi::CString;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::actor::{self, ActorPipe, ZActor};
use crate::clock;
use crate::error::{Error, Reason, Result, SendError};
use crate::ffi::RawMonitor;
use crate::msg::ZMsg;
use crate::socket::ZSock;
use crate::zloop::{HandlerId, ZLoop};

/// Tells what happens to the connections of a socket (CZMQ's `zmonitor`, `zmq_socket_monitor`).
///
/// ```
/// use std::time::Duration;
/// use zkit::{EventKind, ZContext, ZMonitor};
///
/// let ctx = ZContext::new()?;
/// let publisher = ctx.pub_("")?;
/// let monitor = ZMonitor::new(&publisher)?;
/// let endpoint = publisher.bind("tcp://127.0.0.1:*")?;
/// let event = monitor.recv()?.expect("the socket is open");
/// assert_eq!((event.kind, event.endpoint), (EventKind::Listening, endpoint.clone()));
///
/// let subscriber = ctx.sub(&endpoint, "")?;
/// monitor.wait_for_peers(1, Duration::from_secs(5))?;
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// It tells of what happens after it was made, so it is made before the socket is bound or
/// connected. Connections over `tcp` and `ipc` have events, `inproc` has none. A socket has one
/// monitor at a time: a new one ends the one before.
///
/// # How it ends
///
/// Monitor and socket may be dropped in any order. When the socket is gone, or has another monitor,
/// receiving gives `None` after the last event. Its waits are interrupted by Ctrl-C, but it goes
/// on.
///
/// # What it costs
///
/// The monitor is an actor, so that a program that does not receive its events holds nothing up: it
/// misses those for which the pipe has no room (2,000), and learns [how many](MonitorEvent::missed).
/// It needs four of the context's sockets.
///
/// # In a reactor
///
/// ```
/// use zkit::{EventKind, MonitorEvent, ZContext, ZLoop, ZMonitor};
///
/// let ctx = ZContext::new()?;
/// let server = ctx.rep("")?;
/// let monitor = ZMonitor::new(&server)?;
/// let client = ctx.req(&server.bind("tcp://127.0.0.1:*")?)?;
///
/// let mut zloop = ZLoop::new()?;
/// monitor.reader(&mut zloop, |peers: &mut u32, zloop, event| {
///     match event {
///         Some(MonitorEvent { kind: EventKind::HandshakeSucceeded, .. }) => {
///             *peers += 1;
///             zloop.stop();
///         }
///         Some(event) => println!("{:?} {}", event.kind, event.endpoint),
///         None => println!("the server is gone"),
///     }
///     Ok(())
/// })?;
/// let mut peers = 0;
/// zloop.run(&mut peers)?;
/// assert_eq!(peers, 1);
/// # Ok::<(), zkit::Error>(())
/// ```
#[doc(alias("zmonitor", "zmq_socket_monitor"))]
pub struct ZMonitor {
    actor: ZActor,
    /// As of the event that was received last.
    peers: Cell<usize>,
}

/// What happened to a connection, as [`ZMonitor::recv`] gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MonitorEvent {
    /// What it was.
    pub kind: EventKind,
    /// A file descriptor, an error number, milliseconds or a status, as the kind says.
    pub value: u32,
    /// The socket's endpoint, or the peer's.
    pub endpoint: String,
    /// How many events before this one were missed, because nobody received them in time.
    pub missed: u64,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $raw:ident;)*) => {
        /// The kinds of events, by libzmq's names (`ZMQ_EVENT_CONNECTED` and so on).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum EventKind {
            $($(#[$doc])* $name,)*
            /// One that zkit does not know, by its number.
            Other(u16),
        }

        impl EventKind {
            fn from_raw(raw: u16) -> EventKind {
                match u32::from(raw) {
                    $(zmq_sys::$raw => EventKind::$name,)*
                    _ => EventKind::Other(raw),
                }
            }
        }
    };
}

kinds! {
    /// Connected to a peer; the handshake is still to come. The value is the descriptor.
    Connected = ZMQ_EVENT_CONNECTED;
    /// A connect goes on in the background.
    ConnectDelayed = ZMQ_EVENT_CONNECT_DELAYED;
    /// A connect failed and is tried again. The value is when, in milliseconds.
    ConnectRetried = ZMQ_EVENT_CONNECT_RETRIED;
    /// Bound. The value is the descriptor.
    Listening = ZMQ_EVENT_LISTENING;
    /// Binding failed. The value is the error number.
    BindFailed = ZMQ_EVENT_BIND_FAILED;
    /// A peer has connected; the handshake is still to come. The value is the descriptor.
    Accepted = ZMQ_EVENT_ACCEPTED;
    /// A peer's connection could not be accepted. The value is the error number.
    AcceptFailed = ZMQ_EVENT_ACCEPT_FAILED;
    /// A connection or a bound endpoint was closed. The value is the descriptor.
    Closed = ZMQ_EVENT_CLOSED;
    /// Closing failed. The value is the error number.
    CloseFailed = ZMQ_EVENT_CLOSE_FAILED;
    /// A connection broke. The value is the descriptor.
    Disconnected = ZMQ_EVENT_DISCONNECTED;
    /// The handshake succeeded: messages can flow.
    HandshakeSucceeded = ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    /// The handshake failed in the system. The value is the error number.
    HandshakeFailed = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    /// The peer did not speak the protocol. The value is libzmq's number for what was wrong.
    HandshakeFailedProtocol = ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
    /// The peer was not let in. The value is the status of the authentication: 300, 400 or 500.
    HandshakeFailedAuth = ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
}

impl ZMonitor {
    /// Monitors `socket` from now on, for all [kinds of events](EventKind).
    ///
    /// # Errors
    /// [`Error::Wait`] for a socket that was [adopted](ZSock::adopt), whose context zkit cannot reach;
    /// as [`ZContext::socket`](crate::ZContext::socket) and [`ZActor::spawn`].
    pub fn new(socket: &ZSock) -> Result<ZMonitor> {
        let failed = |reason: Reason| reason.ending().unwrap_or(Error::Wait { reason });
        let ctx = socket.context().ok_or_else(|| {
            failed(Reason::new("an adopted socket cannot be monitored: its context is not zkit's"))
        })?;
        static MONITORS: AtomicU64 = AtomicU64::new(0);
        let number = MONITORS.fetch_add(1, Ordering::Relaxed);
        let endpoint = format!("inproc://zkit.monitor.{number}");
        let events = ctx.pair("")?;
        // libzmq's I/O threads would wait for room.
        events.set_rcvhwm(None)?;
        let name = CString::new(endpoint.as_str()).unwrap_or_default();
        let raw = RawMonitor::start(socket.raw(), &name).map_err(|errno| failed(errno.into()))?;
        events.connect(&endpoint)?;
        let source = Source { _raw: raw, events };
        let actor = ZActor::spawn(ctx, move |_, pipe| source.pass_on(pipe))?;
        Ok(ZMonitor { actor, peers: Cell::new(0) })
    }

    /// The next event. Waits until there is one. `None` when there will be no more.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Terminated`].
    pub fn recv(&self) -> Result<Option<MonitorEvent>> {
        self.received(self.actor.recv())
    }

    /// The next event if there is one. `None` when there will be no more.
    ///
    /// # Errors
    /// As [`recv`](ZMonitor::recv), and [`Error::WouldBlock`].
    pub fn try_recv(&self) -> Result<Option<MonitorEvent>> {
        self.received(self.actor.try_recv())
    }

    /// The next event, waiting at most this long. `None` when there will be no more.
    ///
    /// # Errors
    /// As [`recv`](ZMonitor::recv), and [`Error::Timeout`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<MonitorEvent>> {
        self.received(self.actor.recv_timeout(timeout))
    }

    /// The end of a pipe by which events come, for a [`ZPoller`](crate::ZPoller). Receive by
    /// [`recv`](ZMonitor::recv) and its like, which know events from messages.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zkit::{EventKind, ZContext, ZMonitor, ZPoller};
    ///
    /// let ctx = ZContext::new()?;
    /// let server = ctx.rep("")?;
    /// let monitor = ZMonitor::new(&server)?;
    /// server.bind("tcp://127.0.0.1:*")?;
    /// let mut poller = ZPoller::new();
    /// poller.add("requests", &server)?;
    /// poller.add("events", monitor.socket())?;
    /// assert_eq!(poller.wait(Some(Duration::from_secs(5)))?, Some("events"));
    /// assert_eq!(monitor.recv()?.expect("an event").kind, EventKind::Listening);
    /// # Ok::<(), zkit::Error>(())
    /// ```
    pub fn socket(&self) -> &ZSock {
        self.actor.socket()
    }

    /// Has a loop call `handler` with each event, and with `None` once when there will be no more.
    ///
    /// # Errors
    /// As [`ZLoop::reader`].
    pub fn reader<'a, D>(
        &'a self,
        zloop: &mut ZLoop<'a, D>,
        mut handler: impl FnMut(&mut D, &mut ZLoop<'a, D>, Option<MonitorEvent>) -> Result<()> + 'a,
    ) -> Result<HandlerId> {
        self.actor.reader(zloop, move |data, zloop, msg| {
            let event = self.received(msg)?;
            handler(data, zloop, event)
        })
    }

    /// Waits until `count` peers are connected and have shaken hands, so that what is sent now
    /// finds them, and at most for `timeout`. It receives the events up to there.
    ///
    /// That a subscriber is connected does not mean yet that its subscription is here: an XPUB can
    /// [wait for that](ZSock::wait_for_subscribers).
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Ended`] when the socket is gone, and as [`recv`](ZMonitor::recv).
    pub fn wait_for_peers(&self, count: usize, timeout: Duration) -> Result<()> {
        let deadline = clock::deadline(timeout);
        while self.peers.get() < count {
            if self.recv_timeout(clock::left(deadline))?.is_none() {
                return Err(Error::Ended { how: "the socket that is monitored is gone".into() });
            }
        }
        Ok(())
    }

    /// How many peers are connected and have shaken hands, as of the event that was received last.
    pub fn peers(&self) -> usize {
        self.peers.get()
    }

    fn received(&self, msg: Result<ZMsg>) -> Result<Option<MonitorEvent>> {
        let mut msg = match msg {
            Ok(msg) => msg,
            Err(Error::Ended { how }) if how == actor::ENDED => return Ok(None),
            Err(error) => return Err(error),
        };
        let (kind, value) = (msg.pop_u32()?, msg.pop_u32()?);
        let endpoint = String::from_utf8_lossy(&msg.pop_front().unwrap_or_default()).into_owned();
        let missed = msg.pop_u64()?;
        self.peers.set(msg.pop_u64()? as usize);
        Ok(Some(MonitorEvent { kind: EventKind::from_raw(kind as u16), value, endpoint, missed }))
    }
}

impl fmt::Debug for ZMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZMonitor").field("peers", &self.peers).finish_non_exhaustive()
    }
}

/// What the actor receives events from. Its fields are dropped in this order: libzmq's threads
/// would wait for the other end of `events` if that went first.
struct Source {
    _raw: RawMonitor,
    events: ZSock,
}

/// What the actor knows of the connections.
#[derive(Default)]
struct Connections {
    open: usize,
    peers: usize,
    /// Those whose handshake failed.
    failed: usize,
    /// How many events nobody had room for.
    missed: u64,
}

impl Source {
    /// Passes events on until the last, or until nobody wants them.
    fn pass_on(self, pipe: &ActorPipe) -> Result<()> {
        let mut zloop = ZLoop::new()?;
        zloop.reader(&self.events, |connections: &mut Connections, zloop, msg| {
            let Some((kind, value)) = number_and_value(&msg) else { return Ok(()) };
            if u32::from(kind) == zmq_sys::ZMQ_EVENT_MONITOR_STOPPED {
                zloop.stop();
                return Ok(());
            }
            connections.count(EventKind::from_raw(kind));
            let endpoint = msg.into_iter().nth(1).unwrap_or_default();
            let Connections { peers, missed, .. } = *connections;
            match pipe.try_send((u32::from(kind), value, endpoint, missed, peers as u64)) {
                Ok(()) => connections.missed = 0,
                Err(SendError { error: Error::WouldBlock, .. }) => connections.missed += 1,
                Err(SendError { error, .. }) => return Err(error),
            }
            Ok(())
        })?;
        pipe.reader(&mut zloop, |_, _, _| Ok(()))?;
        zloop.run(&mut Connections::default())?;
        Ok(())
    }
}

impl Connections {
    fn count(&mut self, kind: EventKind) {
        match kind {
            EventKind::Accepted | EventKind::Connected => self.open += 1,
            EventKind::HandshakeSucceeded => self.peers += 1,
            // A connection may fail twice.
            EventKind::HandshakeFailed
            | EventKind::HandshakeFailedProtocol
            | EventKind::HandshakeFailedAuth => {
                self.failed = (self.failed + 1).min(self.open.saturating_sub(self.peers));
            }
            EventKind::Disconnected => {
                self.open = self.open.saturating_sub(1);
                // One whose handshake failed was no peer.
                let one = if self.failed > 0 { &mut self.failed } else { &mut self.peers };
                *one = one.saturating_sub(1);
            }
            _ => {}
        }
    }
}

/// libzmq's first frame of an event, in the machine's own order of bytes.
fn number_and_value(msg: &ZMsg) -> Option<(u16, u32)> {
    let (&kind, value) = msg.first()?.split_first_chunk()?;
    Some((u16::from_ne_bytes(kind), u32::from_ne_bytes(*value.first_chunk()?)))
}
