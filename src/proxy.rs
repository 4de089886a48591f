use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::actor::{ActorPipe, ZActor};
use crate::context::ZContext;
use crate::error::{Error, Result, SendError};
use crate::frame::ZFrame;
use crate::msg::ZMsg;
use crate::socket::{Moved, ZSock};
use crate::socket_type::SocketType;
use crate::zloop::{HandlerId, Repeat, ZLoop};

/// An actor that passes messages on between two sockets, in both directions as far as their types
/// allow (CZMQ's `zproxy`, libzmq's `zmq_proxy_steerable`).
///
/// ```
/// use zkit::{ZContext, ZProxy};
///
/// let ctx = ZContext::new()?;
/// let proxy = ZProxy::spawn(
///     &ctx,
///     ctx.router("@inproc://clients")?,
///     ctx.dealer("@inproc://workers")?,
/// )?;
/// let client = ctx.req(">inproc://clients")?;
/// let worker = ctx.rep(">inproc://workers")?;
///
/// client.send("Hello")?;
/// assert_eq!(worker.recv_str()?, "Hello");
/// worker.send("World")?;
/// assert_eq!(client.recv_str()?, "World");
///
/// let statistics = proxy.stop()?;
/// assert_eq!(statistics.forward.messages, 1);
/// assert_eq!(statistics.backward.messages, 1);
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// It takes any two sockets that messages can be passed between: ROUTER and DEALER between clients
/// and workers, XSUB and XPUB between publishers and subscribers, PULL and PUSH along a pipeline.
/// Options, linger among them, are set on the sockets before; only
/// [`set_router_mandatory`](ZSock::set_router_mandatory) the proxy sets on a ROUTER itself.
///
/// # When a side is full
///
/// A direction whose receiving side is at its high-water mark stops reading, so that its senders
/// come up against theirs; the other direction goes on. The message in hand is kept. What one peer
/// does not read must not hold up its neighbours, though: a ROUTER that has had no room for a
/// peer's message for a second drops it, and the next ones for that peer at once, until it reads
/// again. That, and what is addressed to a peer that is gone, is counted in
/// [`ProxyStatistics::dropped`] and logged at `debug`. PUB and XPUB drop for slow subscribers by
/// themselves, and do not tell.
///
/// # Security
///
/// Each side has its own: what is set on a socket before it is bound or connected. With a
/// [`ZAuth`](crate::ZAuth) in the context, a frontend with another ZAP domain than the backend has other rules.
///
/// ```
/// use zkit::{SocketType, ZAuth, ZContext, ZProxy};
///
/// let ctx = ZContext::new()?;
/// let auth = ZAuth::new(&ctx)?;
/// auth.plain("clients", [("alice", "secret")])?;
///
/// let frontend = ctx.socket(SocketType::Router)?;
/// frontend.set_zap_domain("clients")?;
/// frontend.set_plain_server(true)?;
/// frontend.bind("tcp://127.0.0.1:*")?;
/// let backend = ctx.dealer("@inproc://workers")?; // this process only
/// let proxy = ZProxy::spawn(&ctx, frontend, backend)?;
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// Who sent a message ([`User-Id`](crate::ZFrame::metadata)) is known where it is received: that is here, and does not
/// go on to the other side.
///
/// # Ending
///
/// As an actor it goes on through Ctrl-C, until [`stop`](ZProxy::stop) or drop, which wait for it.
/// It closes its sockets then. A program that does nothing else waits in
/// [`interrupt::wait`](crate::interrupt::wait).
#[doc(alias("zproxy", "zmq_proxy", "zmq_proxy_steerable"))]
pub struct ZProxy {
    actor: ZActor,
    counters: Arc<Counters>,
    /// How many commands were given.
    commands: Cell<u64>,
}

/// What a proxy has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyStatistics {
    /// From the frontend to the backend.
    pub forward: Traffic,
    /// From the backend to the frontend.
    pub backward: Traffic,
    /// Messages for a peer that is gone or does not read, or that the socket refused.
    pub dropped: u64,
    /// Messages that were passed on and for which the capture had no room.
    pub uncaptured: u64,
}

/// What was passed on in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Whole messages.
    pub messages: u64,
    /// Bytes of their frames, identities included.
    pub bytes: u64,
}

const PAUSE: &str = "PAUSE";
const RESUME: &str = "RESUME";

/// How long a proxy may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

impl ZProxy {
    /// Starts a proxy between two sockets, which it owns from then on.
    ///
    /// # Errors
    /// [`Error::Other`] when nothing can be passed on between their types; as [`ZActor::spawn`].
    pub fn spawn(ctx: &ZContext, frontend: ZSock, backend: ZSock) -> Result<ZProxy> {
        ZProxy::start(ctx, frontend, backend, None)
    }

    /// Starts a proxy that also sends a copy of each message that it passes on to `capture`: a PUB,
    /// PUSH, PAIR or DEALER. A capture without room never holds it up: it misses the message, which
    /// is [counted](ProxyStatistics::uncaptured).
    ///
    /// ```
    /// use zkit::{ZContext, ZProxy};
    ///
    /// let ctx = ZContext::new()?;
    /// let log = ctx.pull("@inproc://log")?;
    /// let proxy = ZProxy::spawn_with_capture(
    ///     &ctx,
    ///     ctx.pull("@inproc://tasks")?,
    ///     ctx.push("@inproc://work")?,
    ///     ctx.push(">inproc://log")?,
    /// )?;
    /// ctx.push(">inproc://tasks")?.send("a task")?;
    /// assert_eq!(ctx.pull(">inproc://work")?.recv_str()?, "a task");
    /// assert_eq!(log.recv_str()?, "a task");
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`spawn`](ZProxy::spawn).
    pub fn spawn_with_capture(
        ctx: &ZContext,
        frontend: ZSock,
        backend: ZSock,
        capture: ZSock,
    ) -> Result<ZProxy> {
        ZProxy::start(ctx, frontend, backend, Some(capture))
    }

    fn start(
        ctx: &ZContext,
        frontend: ZSock,
        backend: ZSock,
        capture: Option<ZSock>,
    ) -> Result<ZProxy> {
        let counters = Arc::new(Counters::default());
        let counted = Arc::clone(&counters);
        let actor = ZActor::spawn(ctx, move |_, pipe| {
            Proxy::run(pipe, [frontend, backend], capture, &counted)
        })?;
        Ok(ZProxy { actor, counters, commands: Cell::new(0) })
    }

    /// Stops passing messages on: when this returns, none is until [`resume`](ZProxy::resume). They
    /// wait in the sockets, up to their high-water marks.
    ///
    /// # Errors
    /// [`Error::Ended`] when the proxy is gone, [`Error::Interrupted`], [`Error::Terminated`],
    /// [`Error::Timeout`] when it has not answered for five seconds.
    pub fn pause(&self) -> Result<()> {
        self.tell(PAUSE)
    }

    /// Goes on after a [`pause`](ZProxy::pause).
    ///
    /// # Errors
    /// As [`pause`](ZProxy::pause).
    pub fn resume(&self) -> Result<()> {
        self.tell(RESUME)
    }

    fn tell(&self, command: &'static str) -> Result<()> {
        let number = self.commands.get();
        self.commands.set(number + 1);
        self.actor.send((command, number))?;
        // An interrupt may have left answers to earlier ones.
        while self.actor.recv_timeout(ANSWER)? != number.into() {}
        Ok(())
    }

    /// What the proxy has done so far. It does not wait for the proxy. Messages are counted as they
    /// are passed on, so a peer may have one that is not counted yet.
    pub fn statistics(&self) -> ProxyStatistics {
        self.counters.read()
    }

    /// Whether the proxy is at work. It ends by itself when its context is shut down.
    pub fn is_running(&self) -> bool {
        self.actor.is_running()
    }

    /// Ends the proxy, closes its sockets and returns what it has done. Waits for that, through
    /// Ctrl-C.
    ///
    /// # Errors
    /// What has ended the proxy before.
    pub fn stop(self) -> Result<ProxyStatistics> {
        self.actor.stop()?;
        Ok(self.counters.read())
    }
}

impl fmt::Debug for ZProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZProxy")
            .field("actor", &self.actor)
            .field("statistics", &self.statistics())
            .finish()
    }
}

/// Written by the proxy's thread only.
#[derive(Default)]
struct Counters {
    traffic: [[AtomicU64; 2]; 2],
    dropped: AtomicU64,
    uncaptured: AtomicU64,
}

impl Counters {
    fn add(counter: &AtomicU64, number: u64) {
        counter.store(counter.load(Ordering::Relaxed) + number, Ordering::Relaxed);
    }

    fn read(&self) -> ProxyStatistics {
        let traffic = |side: usize| {
            let [messages, bytes] = &self.traffic[side];
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            Traffic { messages: read(messages), bytes: read(bytes) }
        };
        ProxyStatistics {
            forward: traffic(FRONTEND),
            backward: traffic(BACKEND),
            dropped: self.dropped.load(Ordering::Relaxed),
            uncaptured: self.uncaptured.load(Ordering::Relaxed),
        }
    }
}

const FRONTEND: usize = 0;
const BACKEND: usize = 1;

/// The state of the proxy's loop.
struct Proxy<'a> {
    sockets: [Rc<ZSock>; 2],
    /// By the side that a direction reads from; `None` where nothing can come from there.
    directions: [Option<Direction>; 2],
    capture: Option<ZSock>,
    counters: &'a Counters,
}

/// One way through the proxy.
struct Direction {
    reader: HandlerId,
    /// Called when the other side may have room again.
    room: HandlerId,
    /// What the other side has no room for, and since when.
    blocked: Option<(ZMsg, Instant)>,
    /// Peers of a ROUTER for which messages were dropped, and which have taken none since.
    hopeless: HashSet<ZFrame>,
}

/// How many messages are passed on in one direction before it is the other's turn: enough to fill
/// what libzmq writes at once.
const BURST: usize = 64;

/// How often a full side is tried that does not tell when it has room.
const TRY_AGAIN: Duration = Duration::from_millis(2);

/// How long a ROUTER's peer may hold up its neighbours.
const PATIENCE: Duration = Duration::from_secs(1);

impl<'a> Proxy<'a> {
    fn run(
        pipe: &ActorPipe,
        sockets: [ZSock; 2],
        capture: Option<ZSock>,
        counters: &'a Counters,
    ) -> Result<()> {
        for socket in &sockets {
            if socket.socket_type() == SocketType::Router {
                // It would drop without a word what it has no room or no peer for.
                socket.set_router_mandatory(true)?;
            }
        }
        let sockets = sockets.map(Rc::new);
        let mut zloop = ZLoop::new()?;
        let forward = Direction::watch(&mut zloop, &sockets, FRONTEND)?;
        let backward = Direction::watch(&mut zloop, &sockets, BACKEND)?;
        if forward.is_none() && backward.is_none() {
            let [frontend, backend] = sockets.map(|socket| socket.socket_type());
            let why = format!("nothing can be passed on between a {frontend} and a {backend}");
            return Err(Error::other(why));
        }
        pipe.reader(&mut zloop, |proxy: &mut Proxy<'_>, zloop, mut command| {
            let paused = command.pop_front().is_some_and(|name| name == PAUSE);
            proxy.set_paused(zloop, paused);
            Ok(pipe.send(command)?)
        })?;
        let directions = [forward, backward];
        let mut proxy = Proxy { sockets, directions, capture, counters };
        zloop.run(&mut proxy)?;
        proxy.give_up_blocked();
        Ok(())
    }

    /// Passes on the next message of `source`, the side `from`. Whether there was one.
    fn pass_on(
        &mut self,
        zloop: &mut ZLoop<'_, Self>,
        from: usize,
        source: &ZSock,
    ) -> Result<bool> {
        let Some(direction) = &self.directions[from] else { return Ok(false) };
        let msg = if self.capture.is_none() && direction.hopeless.is_empty() {
            match source.move_to(&self.sockets[1 - from])? {
                Moved::Nothing => return Ok(false),
                Moved::Sent(bytes) => {
                    self.count(from, bytes);
                    return Ok(true);
                }
                Moved::Unsent(msg) => msg,
            }
        } else {
            let mut msg = ZMsg::new();
            if !source.recv_watched(&mut msg)? {
                return Ok(false);
            }
            msg
        };
        self.pass_on_whole(zloop, from, msg)?;
        Ok(true)
    }

    fn pass_on_whole(&mut self, zloop: &mut ZLoop<'_, Self>, from: usize, msg: ZMsg) -> Result<()> {
        let Some(msg) = self.attempt(from, msg)? else { return Ok(()) };
        let Some(direction) = &mut self.directions[from] else { return Ok(()) };
        if msg.first().is_some_and(|peer| direction.hopeless.contains(peer)) {
            self.drop_message(&Error::WouldBlock);
        } else {
            direction.blocked = Some((msg, Instant::now()));
            zloop.pause(direction.reader);
            zloop.resume(direction.room);
        }
        Ok(())
    }

    /// There may be room for what is blocked.
    fn try_again(&mut self, zloop: &mut ZLoop<'_, Self>, from: usize) -> Result<()> {
        let blocked = self.directions[from].as_mut().and_then(|direction| direction.blocked.take());
        let Some((msg, since)) = blocked else { return Ok(()) };
        let refused = self.attempt(from, msg)?;
        let sink = self.sockets[1 - from].socket_type();
        let has_neighbours = matches!(sink, SocketType::Router | SocketType::Stream);
        let Some(direction) = &mut self.directions[from] else { return Ok(()) };
        match refused {
            Some(msg) if has_neighbours && since.elapsed() > PATIENCE => {
                direction.hopeless.extend(msg.first().cloned());
                self.drop_message(&Error::WouldBlock);
            }
            Some(msg) => {
                direction.blocked = Some((msg, since));
                return Ok(());
            }
            None => {}
        }
        if let Some(direction) = &self.directions[from] {
            zloop.pause(direction.room);
            zloop.resume(direction.reader);
        }
        Ok(())
    }

    /// Sends a message on and counts it. It comes back if there is no room.
    fn attempt(&mut self, from: usize, msg: ZMsg) -> Result<Option<ZMsg>> {
        let Some(direction) = &mut self.directions[from] else { return Ok(None) };
        let bytes = msg.content_size() as u64;
        let copy = self.capture.is_some().then(|| msg.clone());
        let hopeless = msg.first().filter(|_| !direction.hopeless.is_empty()).cloned();
        match self.sockets[1 - from].try_send(msg) {
            Ok(()) => {}
            Err(SendError { error: Error::WouldBlock, message }) => return Ok(Some(message)),
            Err(SendError { error, .. }) if error.is_terminated() => return Err(error),
            Err(SendError { error, .. }) => {
                hopeless.map(|peer| direction.hopeless.remove(&peer));
                self.drop_message(&error);
                return Ok(None);
            }
        }
        hopeless.map(|peer| direction.hopeless.remove(&peer));
        self.count(from, bytes);
        if let Some((capture, copy)) = self.capture.as_ref().zip(copy) {
            if capture.try_send(copy).is_err() {
                Counters::add(&self.counters.uncaptured, 1);
            }
        }
        Ok(None)
    }

    fn count(&self, from: usize, bytes: u64) {
        let [messages, sum] = &self.counters.traffic[from];
        Counters::add(messages, 1);
        Counters::add(sum, bytes);
    }

    fn drop_message(&self, why: &Error) {
        Counters::add(&self.counters.dropped, 1);
        log::debug!("a proxy dropped a message: {why}");
    }

    fn set_paused(&mut self, zloop: &mut ZLoop<'_, Self>, paused: bool) {
        for direction in self.directions.iter_mut().flatten() {
            let active = match &mut direction.blocked {
                Some((_, since)) => {
                    *since = Instant::now(); // a pause tries nobody's patience
                    direction.room
                }
                None => direction.reader,
            };
            if paused {
                zloop.pause(active)
            } else {
                zloop.resume(active)
            };
        }
    }

    /// At the end: what is in hand has its last chance.
    fn give_up_blocked(&mut self) {
        for from in [FRONTEND, BACKEND] {
            let direction = self.directions[from].as_mut();
            let Some((msg, _)) = direction.and_then(|direction| direction.blocked.take()) else {
                continue;
            };
            if !matches!(self.attempt(from, msg), Ok(None)) {
                Counters::add(&self.counters.dropped, 1);
                log::warn!("a proxy ended with a message in hand for which there was no room");
            }
        }
    }
}

impl Direction {
    /// Has the loop read from the side `from`, if messages can be passed on from there.
    fn watch<'a>(
        zloop: &mut ZLoop<'a, Proxy<'a>>,
        sockets: &[Rc<ZSock>; 2],
        from: usize,
    ) -> Result<Option<Direction>> {
        let (source, sink) = (&sockets[from], &sockets[1 - from]);
        if !source.socket_type().receives() || !sink.socket_type().sends() {
            return Ok(None);
        }
        let pass_on = move |proxy: &mut Proxy<'a>, zloop: &mut ZLoop<'a, _>, source: &ZSock| {
            proxy.pass_on(zloop, from, source)
        };
        let reader = zloop.mover(Rc::clone(source).into(), pass_on)?;
        zloop.set_burst(reader, BURST);
        let room = if sink.socket_type().tells_room() {
            let try_again = move |proxy: &mut Proxy<'a>, zloop: &mut ZLoop<'a, _>, _: &ZSock| {
                proxy.try_again(zloop, from)
            };
            zloop.writable(Rc::clone(sink), try_again)?
        } else {
            let try_again =
                move |proxy: &mut Proxy<'a>, zloop: &mut ZLoop<'a, _>| proxy.try_again(zloop, from);
            zloop.timer(TRY_AGAIN, Repeat::Forever, try_again)?
        };
        zloop.pause(room);
        Ok(Some(Direction { reader, room, blocked: None, hopeless: HashSet::new() }))
    }
}
