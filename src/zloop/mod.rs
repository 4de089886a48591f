mod ready;
mod timers;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Token};
use slab::Slab;

use crate::error::{Error, Reason, Result, SendError};
use crate::events::Events;
use crate::ffi::{self, lock, retry};
use crate::interrupt::{self, Stop};
use crate::msg::ZMsg;
use crate::socket::ZSock;
use crate::touch::{Touched, Watch};

use ready::{Ready, ReadyQueue};
pub use timers::Repeat;
use timers::Timers;

/// A reactor: calls handlers when sockets have messages, descriptors are ready and time has passed
/// (CZMQ's `zloop`).
///
/// ```
/// use std::time::Duration;
/// use zkit::{Exit, Repeat, Result, ZContext, ZLoop, ZMsg};
///
/// struct Counter {
///     messages: u32,
///     ticks: u32,
/// }
///
/// impl Counter {
///     fn on_message(&mut self, zloop: &mut ZLoop<'_, Self>, msg: ZMsg) -> Result<()> {
///         self.messages += 1;
///         if msg == "END".into() {
///             zloop.stop();
///         }
///         Ok(())
///     }
/// }
///
/// let ctx = ZContext::new()?;
/// let pull = ctx.pull("@inproc://events")?;
/// let push = ctx.push(">inproc://events")?;
///
/// let mut zloop = ZLoop::new()?;
/// zloop.reader(&pull, Counter::on_message)?;
/// zloop.timer(Duration::from_millis(1), Repeat::Times(3), move |counter: &mut Counter, _| {
///     counter.ticks += 1;
///     push.send(if counter.ticks < 3 { "tick" } else { "END" })?;
///     Ok(())
/// })?;
///
/// let mut counter = Counter { messages: 0, ticks: 0 };
/// assert_eq!(zloop.run(&mut counter)?, Exit::Stopped);
/// assert_eq!((counter.ticks, counter.messages), (3, 3));
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # State and handlers
///
/// `run` is given the program's state, `D`, and lends it to each handler, together with the loop
/// itself. A handler may do anything to the loop: add, [`pause`](ZLoop::pause),
/// [`resume`](ZLoop::resume), [`cancel`](ZLoop::cancel) and [`reset`](ZLoop::reset) handlers,
/// itself included. It takes effect at once: a timer that another cancels does not fire, though
/// both are due; a reader that a timer cancels is not called, though its message is there.
///
/// Sockets are lent (`&ZSock`), shared (`Rc<ZSock>`) or given away (`ZSock`), see [`Lend`]. A
/// socket has one handler at most for input and one for output, and is in one loop.
///
/// A handler may call whatever it likes of any socket, those of the loop included: what it receives
/// or leaves is noticed.
///
/// # Which handler for what
///
/// | what | how | the handler |
/// |---|---|---|
/// | messages | [`reader`](ZLoop::reader) | gets each message |
/// | messages, received by the program | [`readable`](ZLoop::readable) | is called while there are some |
/// | room to send | [`writable`](ZLoop::writable) | is called while there is some |
/// | a TCP or UDP socket, a pipe | [`source`](ZLoop::source) | is told once, and goes on until it would block |
/// | any other descriptor | [`fd`](ZLoop::fd) | is called while it is ready |
/// | time | [`timer`](ZLoop::timer) | is called once or repeatedly |
/// | other threads | [`waker`](ZLoop::waker), [`on_wake`](ZLoop::on_wake) | runs in the loop's thread |
/// | the end of a turn | [`on_turn_end`](ZLoop::on_turn_end) | is called once for all that was ready |
///
/// An actor's messages come by [`ZActor::reader`](crate::ZActor::reader) and
/// [`ActorPipe::reader`](crate::ActorPipe::reader), a monitor's events by
/// [`ZMonitor::reader`](crate::ZMonitor::reader).
///
/// # One thread
///
/// A loop stays in the thread that made it, as its handlers do (it is not `Send`), and they hold
/// each other up: what waits or computes for long belongs into an [actor](crate::ZActor). Other
/// threads reach the loop by messages or by its [`Waker`].
///
/// `try_send` and `try_recv` never wait, and they still work after Ctrl-C, when `send` gives
/// [`Error::Interrupted`].
///
/// # Fairness
///
/// Sockets and descriptors that are ready take turns, a message or a call each. After 64 of them, or
/// one of each that is ready, it is the timers' turn. A timer that is added by a handler waits for
/// the next round, so that timers without a delay starve nobody.
///
/// Guaranteed: whatever is ready is served in the end, however busy the others are. Only so today:
/// the 64, and the order among those that are ready.
///
/// # What it costs
///
/// Only what is ready: a socket, timer or descriptor that has nothing to say costs nothing,
/// however many there are. A message that is waiting when its turn comes costs no system call.
///
/// # Tracing
///
/// At `log::trace!` the loop says what woke it and which handlers it calls.
///
/// # Endings
///
/// [`run`](ZLoop::run) comes back with [`Exit::Interrupted`] on Ctrl-C, unless
/// [`set_nonstop`](ZLoop::set_nonstop), and when a handler returned [`Error::Interrupted`]; with
/// [`Exit::Terminated`] when the context of a socket is shut down; with [`Exit::Stopped`] after
/// [`stop`](ZLoop::stop) or [`Waker::stop`]; and with an error that a handler returned. After each of
/// them the loop is usable as before, and so it is after a panic of a handler. What was ready and not
/// served is served by the next run.
///
/// An error that a handler returns ends the loop. So hand up with `?` what the program cannot go on
/// after, and answer or log what is a peer's fault: a request that does not parse must not end a
/// server.
///
/// Dropping the loop drops its handlers, and closes the sockets, sources and descriptors that were
/// given to it. Those that were lent stay open, and may go into another loop.
#[doc(alias = "zloop")]
pub struct ZLoop<'a, D> {
    poll: mio::Poll,
    events: mio::Events,
    handlers: Slab<Handler<'a, D>>,
    sockets: Slab<Watched<'a>>,
    ready: ReadyQueue,
    touched: Arc<Touched>,
    looking: Vec<usize>,
    timers: Timers<Ticker<'a, D>>,
    epoch: Instant,
    /// When the descriptors were last asked.
    polled: u64,
    /// How many messages and calls are left until it is the timers' turn.
    allowance: usize,
    generation: u32,
    waker: LoopsWaker<D>,
    /// The handlers that are called when it was used.
    wakes: Vec<usize>,
    /// The handlers that are called after each turn.
    turn_ends: Vec<usize>,
    /// The place of the one to call next, while they are called.
    next_turn_end: usize,
    stop: Stop,
    stopping: bool,
    /// Whether a handler was paused or cancelled, or the loop stopped, since a reader last looked.
    stirred: bool,
    running: bool,
}

/// Names a handler of a [`ZLoop`], to pause or cancel it.
///
/// An old id never means a newer handler. The ids of one loop are not for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandlerId {
    key: Key,
    generation: u32,
}

/// In which table a handler is, and where there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Timer(u32),
    Handler(u32),
}

/// Why [`ZLoop::run`] came back, when no handler has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// A handler ([`ZLoop::stop`]) or a waker ([`Waker::stop`]) stopped the loop.
    Stopped,
    /// The process was [interrupted](interrupt), or a handler returned [`Error::Interrupted`].
    Interrupted,
    /// The context of a socket was shut down, or a handler returned [`Error::Terminated`].
    Terminated,
}

/// A socket for a loop to watch: lent, shared, or given away.
///
/// A loop's functions take what becomes one.
///
/// ```
/// use std::rc::Rc;
/// use zkit::{ZContext, ZLoop};
///
/// let ctx = ZContext::new()?;
/// let lent = ctx.pull("@inproc://lent")?;
/// let shared = Rc::new(ctx.pull("@inproc://shared")?);
///
/// let mut zloop: ZLoop<'_, ()> = ZLoop::new()?;
/// zloop.reader(&lent, |_, _, _msg| Ok(()))?;
/// zloop.reader(Rc::clone(&shared), |_, _, _msg| Ok(()))?;
/// // Given away: closed when its handler is cancelled or the loop dropped.
/// zloop.timer(std::time::Duration::ZERO, zkit::Repeat::ONCE, move |_, zloop| {
///     let made_here = ctx.pull("@inproc://made-here")?;
///     zloop.reader(made_here, |_, _, _msg| Ok(()))?;
///     zloop.stop();
///     Ok(())
/// })?;
/// zloop.run(&mut ())?;
/// # Ok::<(), zkit::Error>(())
/// ```
pub enum Lend<'a> {
    /// Lent for the life of the loop.
    Lent(&'a ZSock),
    /// Shared with the loop, or its own.
    Shared(Rc<ZSock>),
}

impl<'a> From<&'a ZSock> for Lend<'a> {
    fn from(socket: &'a ZSock) -> Lend<'a> {
        Lend::Lent(socket)
    }
}

impl From<Rc<ZSock>> for Lend<'_> {
    fn from(socket: Rc<ZSock>) -> Self {
        Lend::Shared(socket)
    }
}

impl From<ZSock> for Lend<'_> {
    fn from(socket: ZSock) -> Self {
        Lend::Shared(Rc::new(socket))
    }
}

impl Clone for Lend<'_> {
    fn clone(&self) -> Self {
        match self {
            Lend::Lent(socket) => Lend::Lent(socket),
            Lend::Shared(socket) => Lend::Shared(Rc::clone(socket)),
        }
    }
}

impl Deref for Lend<'_> {
    type Target = ZSock;

    fn deref(&self) -> &ZSock {
        match self {
            Lend::Lent(socket) => socket,
            Lend::Shared(socket) => socket,
        }
    }
}

struct Handler<'a, D> {
    generation: u32,
    paused: bool,
    /// Its place in the ready queue: only sources and descriptors are there by themselves.
    queued: Option<u64>,
    on: On<'a>,
    /// None while it is being called.
    call: Option<Call<'a, D>>,
}

/// The handler of a timer.
struct Ticker<'a, D> {
    generation: u32,
    /// None while it is being called.
    call: Option<Box<PlainCall<'a, D>>>,
}

/// What another handler is called for.
enum On<'a> {
    Input(usize),
    Output(usize),
    Source(Events),
    Descriptor {
        fd: Box<dyn AsFd + 'a>,
        interest: Events,
    },
    /// Whether it is to be called.
    Wake(bool),
    TurnEnd,
}

type SocketCall<'a, D> = dyn FnMut(&mut D, &mut ZLoop<'a, D>, &ZSock) -> Result<()> + 'a;
type EventsCall<'a, D> = dyn FnMut(&mut D, &mut ZLoop<'a, D>, Events) -> Result<()> + 'a;
type PlainCall<'a, D> = dyn FnMut(&mut D, &mut ZLoop<'a, D>) -> Result<()> + 'a;

enum Call<'a, D> {
    Reader(Box<dyn ReaderCall<'a, D> + 'a>),
    Socket(Box<SocketCall<'a, D>>),
    Events(Box<EventsCall<'a, D>>),
    Plain(Box<PlainCall<'a, D>>),
    Source(Box<dyn SourceCall<'a, D> + 'a>),
}

/// A reader's handler, its type forgotten once per turn and not once per message.
trait ReaderCall<'a, D> {
    /// Takes the next message out of the socket and does what is to be done with it. Whether there was
    /// one.
    fn take(&mut self, data: &mut D, zloop: &mut ZLoop<'a, D>, socket: &ZSock) -> Result<bool>;

    /// Takes a burst of messages, and more if nobody else waits. Whether there may be more.
    ///
    /// It costs system calls to find a socket empty, for its sender too, which then has to wake this
    /// thread. So that is put off: until the others have had their turn, it may be empty no more.
    fn call(
        &mut self,
        data: &mut D,
        zloop: &mut ZLoop<'a, D>,
        socket: &ZSock,
        Turn { id, mut burst }: Turn,
    ) -> Result<bool> {
        loop {
            if !self.take(data, zloop, socket)? {
                return Ok(false);
            }
            if zloop.stirred {
                zloop.stirred = false;
                if zloop.stopping || zloop.find(id).is_none_or(|handler| handler.paused) {
                    return Ok(true);
                }
            }
            burst = burst.saturating_sub(1);
            let others_wait = burst == 0 && !zloop.ready.is_empty();
            if others_wait || zloop.allowance == 0 {
                return Ok(true);
            }
            zloop.allowance -= 1;
        }
    }
}

/// A reader's turn: who it is, and how many messages it may receive while others wait.
struct Turn {
    id: HandlerId,
    burst: usize,
}

/// A handler of whole messages.
struct Receiver<F>(F);

impl<'a, D, F> ReaderCall<'a, D> for Receiver<F>
where
    F: FnMut(&mut D, &mut ZLoop<'a, D>, ZMsg) -> Result<()>,
{
    #[inline(always)] // see recv_watched
    fn take(&mut self, data: &mut D, zloop: &mut ZLoop<'a, D>, socket: &ZSock) -> Result<bool> {
        let mut msg = ZMsg::new();
        if !socket.recv_watched(&mut msg)? {
            return Ok(false);
        }
        self.0(data, zloop, msg)?;
        Ok(true)
    }
}

/// A handler that takes messages out of the socket by itself.
struct Mover<F>(F);

impl<'a, D, F> ReaderCall<'a, D> for Mover<F>
where
    F: FnMut(&mut D, &mut ZLoop<'a, D>, &ZSock) -> Result<bool>,
{
    #[inline]
    fn take(&mut self, data: &mut D, zloop: &mut ZLoop<'a, D>, socket: &ZSock) -> Result<bool> {
        self.0(data, zloop, socket)
    }
}

/// A source and its handler, the source's type forgotten.
trait SourceCall<'a, D> {
    fn call(&mut self, data: &mut D, zloop: &mut ZLoop<'a, D>, events: Events) -> Result<()>;
    fn deregister(&mut self, registry: &mio::Registry) -> io::Result<()>;
}

struct SourceHandler<S, F> {
    source: S,
    handler: F,
}

impl<'a, D, S, F> SourceCall<'a, D> for SourceHandler<S, F>
where
    S: mio::event::Source,
    F: FnMut(&mut D, &mut ZLoop<'a, D>, &mut S, Events) -> Result<()>,
{
    fn call(&mut self, data: &mut D, zloop: &mut ZLoop<'a, D>, events: Events) -> Result<()> {
        (self.handler)(data, zloop, &mut self.source, events)
    }

    fn deregister(&mut self, registry: &mio::Registry) -> io::Result<()> {
        registry.deregister(&mut self.source)
    }
}

/// A socket that the loop watches, with one handler at most for each direction.
struct Watched<'a> {
    socket: Lend<'a>,
    input: Option<usize>,
    output: Option<usize>,
    queued: Option<u64>,
    burst: usize,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.socket.watch().take();
    }
}

/// How many messages and calls are served before it is the timers' turn.
const ALLOWANCE: usize = 64;

/// How long the descriptors are left unasked while sockets keep the loop busy, in nanoseconds: so
/// long that asking costs little, so short that nobody notices.
const UNASKED: u64 = 20_000;

const WAKER: Token = Token(usize::MAX - 1);
const INTERRUPT: Token = Token(usize::MAX - 2);

fn token(ready: Ready) -> Token {
    match ready {
        Ready::Socket(key) => Token(key * 2),
        Ready::Handler(key) => Token(key * 2 + 1),
    }
}

fn cannot(what: &'static str, source: io::Error) -> Error {
    Error::Io { what: what.into(), source }
}

impl<'a, D> ZLoop<'a, D> {
    /// A loop without handlers. Running it waits for a [waker](ZLoop::waker) or an interrupt.
    ///
    /// # Errors
    /// [`Error::Io`] when the process has no descriptors left.
    #[doc(alias = "zloop_new")]
    pub fn new() -> Result<Self> {
        let failed = |error| cannot("cannot make a reactor", error);
        let poll = mio::Poll::new().map_err(failed)?;
        let interrupts = interrupt::descriptor()?.as_raw_fd();
        poll.registry()
            .register(&mut SourceFd(&interrupts), INTERRUPT, Interest::READABLE)
            .map_err(failed)?;
        let bell = mio::Waker::new(poll.registry(), WAKER).map_err(failed)?;
        let shared = Shared {
            bell,
            rung: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            posted: Mutex::default(),
            gone: AtomicBool::new(false),
        };
        Ok(ZLoop {
            poll,
            events: mio::Events::with_capacity(1024),
            handlers: Slab::new(),
            sockets: Slab::new(),
            ready: ReadyQueue::default(),
            touched: Arc::default(),
            looking: Vec::new(),
            timers: Timers::default(),
            epoch: Instant::now(),
            polled: 0,
            allowance: 0,
            generation: 0,
            waker: LoopsWaker(Waker { shared: Arc::new(shared) }),
            wakes: Vec::new(),
            turn_ends: Vec::new(),
            next_turn_end: 0,
            stop: Stop::OnInterrupt,
            stopping: false,
            stirred: false,
            running: false,
        })
    }

    fn now(&self) -> u64 {
        nanos_since(self.epoch)
    }
}

/// # Handlers
impl<'a, D> ZLoop<'a, D> {
    /// Receives the messages of `socket` and calls `handler` with each: the fast way to read.
    ///
    /// ```
    /// use zkit::{Exit, ZContext, ZLoop};
    ///
    /// let ctx = ZContext::new()?;
    /// let server = ctx.router("@inproc://echo")?;
    /// let client = ctx.req(">inproc://echo")?;
    /// client.send("Hello")?;
    ///
    /// let mut zloop = ZLoop::new()?;
    /// zloop.reader(&server, |echoed: &mut u32, zloop, request| {
    ///     *echoed += 1;
    ///     zloop.stop();
    ///     server.send(request)?; // its envelope in front says to whom
    ///     Ok(())
    /// })?;
    /// let mut echoed = 0;
    /// assert_eq!(zloop.run(&mut echoed)?, Exit::Stopped);
    /// assert_eq!(client.recv_str()?, "Hello");
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Wait`] when the socket has a handler for input or belongs to another loop, or is of
    /// a type that only sends; [`Error::Io`] when the system cannot watch one more.
    #[doc(alias = "zloop_reader")]
    pub fn reader(
        &mut self,
        socket: impl Into<Lend<'a>>,
        handler: impl FnMut(&mut D, &mut ZLoop<'a, D>, ZMsg) -> Result<()> + 'a,
    ) -> Result<HandlerId> {
        self.watch(socket.into(), Events::READABLE, Call::Reader(Box::new(Receiver(handler))))
    }

    /// As [`reader`](ZLoop::reader), for a handler that takes a message out of the socket by itself, and
    /// says whether there was one.
    pub(crate) fn mover(
        &mut self,
        socket: Lend<'a>,
        handler: impl FnMut(&mut D, &mut ZLoop<'a, D>, &ZSock) -> Result<bool> + 'a,
    ) -> Result<HandlerId> {
        self.watch(socket, Events::READABLE, Call::Reader(Box::new(Mover(handler))))
    }

    /// Calls `handler` while `socket` has input, for it to receive. What it leaves it is called for
    /// again (the contract of `zloop_reader`), so one that takes nothing keeps the loop busy. It
    /// costs a system call each time, which [`reader`](ZLoop::reader) does not.
    ///
    /// ```
    /// use zkit::{ZContext, ZLoop};
    ///
    /// let ctx = ZContext::new()?;
    /// let pull = ctx.pull("@inproc://readings")?;
    /// let push = ctx.push(">inproc://readings")?;
    /// for reading in [3_u32, 5, 7] {
    ///     push.send(reading)?;
    /// }
    /// let mut zloop = ZLoop::new()?;
    /// zloop.readable(&pull, |latest: &mut u32, zloop, pull| {
    ///     while let Ok(mut msg) = pull.try_recv() {
    ///         *latest = msg.pop_u32()?; // only the last one counts
    ///     }
    ///     zloop.stop();
    ///     Ok(())
    /// })?;
    /// let mut latest = 0;
    /// zloop.run(&mut latest)?;
    /// assert_eq!(latest, 7);
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`reader`](ZLoop::reader).
    pub fn readable(
        &mut self,
        socket: impl Into<Lend<'a>>,
        handler: impl FnMut(&mut D, &mut ZLoop<'a, D>, &ZSock) -> Result<()> + 'a,
    ) -> Result<HandlerId> {
        self.watch(socket.into(), Events::READABLE, Call::Socket(Box::new(handler)))
    }

    /// Calls `handler` while `socket` can take output: pause or cancel it when there is nothing to
    /// send. ROUTER, STREAM, PUB and XPUB can always take some: they do not tell when one of their
    /// peers has no room.
    ///
    /// ```
    /// use zkit::{ZContext, ZLoop};
    ///
    /// let ctx = ZContext::new()?;
    /// let push = ctx.push("@inproc://numbers")?; // waits for its first peer
    /// let pull = ctx.pull(">inproc://numbers")?;
    ///
    /// let mut zloop = ZLoop::new()?;
    /// zloop.writable(&push, |left: &mut Vec<u32>, zloop, push| {
    ///     match left.pop() {
    ///         Some(number) => push.try_send(number)?,
    ///         None => zloop.stop(),
    ///     }
    ///     Ok(())
    /// })?;
    /// zloop.run(&mut vec![1, 2, 3])?;
    /// assert_eq!(pull.recv()?.pop_u32()?, 3);
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Wait`] when the socket has a handler for output or belongs to another loop, or is of
    /// a type that only receives; [`Error::Io`] when the system cannot watch one more.
    #[doc(alias = "zloop_poller")]
    pub fn writable(
        &mut self,
        socket: impl Into<Lend<'a>>,
        handler: impl FnMut(&mut D, &mut ZLoop<'a, D>, &ZSock) -> Result<()> + 'a,
    ) -> Result<HandlerId> {
        self.watch(socket.into(), Events::WRITABLE, Call::Socket(Box::new(handler)))
    }

    /// Calls `handler` on each event of a mio source (`TcpListener`, `TcpStream`, `UdpSocket`, a pipe),
    /// which the loop owns and lends to it. [`cancel`](ZLoop::cancel) drops it, and so closes it.
    ///
    /// # Draining
    ///
    /// An event is told once (edge-triggered): the handler must go on until the source would block,
    /// or have itself [told](ZLoop::tell) again. It may be called with nothing to do.
    ///
    /// ```
    /// use std::io::{ErrorKind, Read, Write};
    /// use mio::Interest;
    /// use mio::net::UnixStream;
    /// use zkit::ZLoop;
    ///
    /// let (mut ours, theirs) = UnixStream::pair()?;
    /// ours.write_all(b"Hello")?;
    /// drop(ours);
    ///
    /// let mut zloop = ZLoop::new()?;
    /// zloop.source(theirs, Interest::READABLE, |text: &mut Vec<u8>, zloop, stream, _events| {
    ///     let mut chunk = [0; 1024];
    ///     loop {
    ///         match stream.read(&mut chunk) {
    ///             Ok(0) => {
    ///                 zloop.stop(); // the other end is closed
    ///                 return Ok(());
    ///             }
    ///             Ok(read) => text.extend_from_slice(&chunk[..read]),
    ///             Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
    ///             Err(error) => return Err(error.into()),
    ///         }
    ///     }
    /// })?;
    /// let mut text = Vec::new();
    /// zloop.run(&mut text)?;
    /// assert_eq!(text, b"Hello");
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] when the source cannot be registered.
    pub fn source<S: mio::event::Source + 'a>(
        &mut self,
        mut source: S,
        interest: Interest,
        handler: impl FnMut(&mut D, &mut ZLoop<'a, D>, &mut S, Events) -> Result<()> + 'a,
    ) -> Result<HandlerId> {
        let key = self.handlers.vacant_key();
        self.poll
            .registry()
            .register(&mut source, token(Ready::Handler(key)), interest)
            .map_err(|error| cannot("cannot watch a source", error))?;
        let call = Call::Source(Box::new(SourceHandler { source, handler }));
        Ok(self.insert(On::Source(Events::NONE), call))
    }

    /// Calls `handler` while a descriptor is ready for any of `interest`, or broken (level-triggered).
    /// It is told what it is ready for, and need not read everything. A descriptor with
    /// [`Events::ERROR`] stays so: cancel its handler.
    ///
    /// The loop keeps `fd`: a reference, or the file itself.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use std::os::unix::net::UnixStream;
    /// use zkit::{Events, ZLoop};
    ///
    /// let (mut ours, theirs) = UnixStream::pair()?;
    /// ours.write_all(b"Hello")?;
    ///
    /// let mut zloop = ZLoop::new()?;
    /// zloop.fd(&theirs, Events::READABLE, |text: &mut String, zloop, _events| {
    ///     let mut byte = [0];
    ///     (&theirs).read_exact(&mut byte)?; // the others can wait
    ///     text.push(byte[0].into());
    ///     if text == "Hello" {
    ///         zloop.stop();
    ///     }
    ///     Ok(())
    /// })?;
    /// let mut text = String::new();
    /// zloop.run(&mut text)?;
    /// assert_eq!(text, "Hello");
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] when the descriptor cannot be polled (a regular file cannot) or is registered
    /// already.
    #[doc(alias("zloop_poller", "zmq_pollitem_t"))]
    pub fn fd(
        &mut self,
        fd: impl AsFd + 'a,
        interest: Events,
        handler: impl FnMut(&mut D, &mut ZLoop<'a, D>, Events) -> Result<()> + 'a,
    ) -> Result<HandlerId> {
        let key = self.handlers.vacant_key();
        let raw = fd.as_fd().as_raw_fd();
        let mio_interest = match (interest.is_readable(), interest.is_writable()) {
            (true, true) => Interest::READABLE | Interest::WRITABLE,
            (false, true) => Interest::WRITABLE,
            _ => Interest::READABLE,
        };
        self.poll
            .registry()
            .register(&mut SourceFd(&raw), token(Ready::Handler(key)), mio_interest)
            .map_err(|error| cannot("cannot watch a descriptor", error))?;
        let on = On::Descriptor { fd: Box::new(fd), interest };
        let id = self.insert(on, Call::Events(Box::new(handler)));
        self.queue(Ready::Handler(key));
        Ok(id)
    }

    /// Calls `handler` when `delay` is over, and again by `repeat`, `delay` after `delay`.
    ///
    /// A repeating timer keeps its beat: when a handler has held the loop up, it fires once for all
    /// the beats that it missed. Milliseconds are what to expect of its precision; it is never
    /// early. Of two that are due at the same time the older is first. After its last firing its id
    /// means nothing, unless the handler has [`reset`](ZLoop::reset) it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zkit::{Repeat, ZLoop};
    ///
    /// let mut zloop = ZLoop::new()?;
    /// let beat = Duration::from_millis(1);
    /// zloop.timer(beat, Repeat::Forever, |beats: &mut u32, _| {
    ///     *beats += 1;
    ///     Ok(())
    /// })?;
    /// zloop.timer(beat * 20, Repeat::ONCE, |_, zloop| {
    ///     zloop.stop();
    ///     Ok(())
    /// })?;
    /// let mut beats = 0;
    /// zloop.run(&mut beats)?;
    /// assert!(beats > 0);
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Wait`] for a timer that repeats without a delay.
    #[doc(alias("zloop_timer", "zloop_ticket"))]
    pub fn timer(
        &mut self,
        delay: Duration,
        repeat: Repeat,
        handler: impl FnMut(&mut D, &mut ZLoop<'a, D>) -> Result<()> + 'a,
    ) -> Result<HandlerId> {
        if delay.is_zero() && !matches!(repeat, Repeat::Times(0 | 1)) {
            let reason = Reason::new("a timer that repeats needs a delay above zero");
            return Err(Error::Wait { reason });
        }
        let delay = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        let generation = self.next_generation();
        let ticker = Ticker { generation, call: Some(Box::new(handler)) };
        let key = self.timers.insert(self.now(), delay, repeat, ticker);
        Ok(HandlerId { key: Key::Timer(key), generation })
    }

    /// Calls `handler` when a [waker](ZLoop::waker) has woken the loop, once for all that did so since
    /// the last call: for what other threads put into a queue.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::thread;
    /// use zkit::ZLoop;
    ///
    /// let (sender, queue) = mpsc::sync_channel(100);
    /// let mut zloop = ZLoop::new()?;
    /// zloop.on_wake(move |sum: &mut u32, zloop| {
    ///     *sum += queue.try_iter().sum::<u32>();
    ///     if *sum == 6 {
    ///         zloop.stop();
    ///     }
    ///     Ok(())
    /// });
    /// let waker = zloop.waker();
    /// thread::spawn(move || {
    ///     for number in [1, 2, 3] {
    ///         sender.send(number).expect("the queue is there");
    ///         waker.wake().expect("the loop can be woken");
    ///     }
    /// });
    /// let mut sum = 0;
    /// zloop.run(&mut sum)?;
    /// assert_eq!(sum, 6);
    /// # Ok::<(), zkit::Error>(())
    /// ```
    pub fn on_wake(
        &mut self,
        handler: impl FnMut(&mut D, &mut ZLoop<'a, D>) -> Result<()> + 'a,
    ) -> HandlerId {
        self.wakes.push(self.handlers.vacant_key());
        self.insert(On::Wake(false), Call::Plain(Box::new(handler)))
    }

    /// Calls `handler` at the end of every turn, before the loop looks for what is ready next: for what
    /// is better done once for many messages, such as waking another thread.
    ///
    /// ```
    /// use zkit::{ZContext, ZLoop};
    ///
    /// #[derive(Default)]
    /// struct Log {
    ///     unwritten: String,
    ///     written: String,
    /// }
    ///
    /// let ctx = ZContext::new()?;
    /// let pull = ctx.pull("@inproc://records")?;
    /// let push = ctx.push(">inproc://records")?;
    /// for record in ["a", "b", "c"] {
    ///     push.send(record)?;
    /// }
    ///
    /// let mut zloop = ZLoop::new()?;
    /// zloop.reader(&pull, |log: &mut Log, _, mut msg| {
    ///     log.unwritten += &msg.pop_str()?;
    ///     Ok(())
    /// })?;
    /// zloop.on_turn_end(|log: &mut Log, zloop| {
    ///     log.written += &std::mem::take(&mut log.unwritten); // once for all of them
    ///     if log.written == "abc" {
    ///         zloop.stop();
    ///     }
    ///     Ok(())
    /// });
    /// let mut log = Log::default();
    /// zloop.run(&mut log)?;
    /// # Ok::<(), zkit::Error>(())
    /// ```
    pub fn on_turn_end(
        &mut self,
        handler: impl FnMut(&mut D, &mut ZLoop<'a, D>) -> Result<()> + 'a,
    ) -> HandlerId {
        self.turn_ends.push(self.handlers.vacant_key());
        self.insert(On::TurnEnd, Call::Plain(Box::new(handler)))
    }

    fn insert(&mut self, on: On<'a>, call: Call<'a, D>) -> HandlerId {
        let generation = self.next_generation();
        let handler = Handler { generation, paused: false, queued: None, on, call: Some(call) };
        HandlerId { key: Key::Handler(self.handlers.insert(handler) as u32), generation }
    }

    fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }

    fn watch(
        &mut self,
        socket: Lend<'a>,
        direction: Events,
        call: Call<'a, D>,
    ) -> Result<HandlerId> {
        let refuse = |why: &'static str| {
            let reason = Reason::new(format!("a {} socket {why}", socket.socket_type()));
            Err(Error::Wait { reason })
        };
        if direction.is_readable() && !socket.socket_type().receives() {
            return refuse("only sends");
        }
        if direction.is_writable() && !socket.socket_type().sends() {
            return refuse("only receives");
        }
        let watched = match &*socket.watch().borrow() {
            Some(watch) => match watch.is_by(&self.touched) {
                Some(key) => Some(key),
                None => return refuse("is watched by another loop"),
            },
            None => None,
        };
        let key = match watched {
            Some(key) => key,
            None => {
                let key = self.sockets.vacant_key();
                let fd = socket.as_raw_fd();
                self.poll
                    .registry()
                    .register(&mut SourceFd(&fd), token(Ready::Socket(key)), Interest::READABLE)
                    .map_err(|error| cannot("cannot watch a socket", error))?;
                *socket.watch().borrow_mut() = Some(Watch::new(Arc::clone(&self.touched), key));
                self.sockets.insert(Watched {
                    socket: socket.clone(),
                    input: None,
                    output: None,
                    queued: None,
                    burst: 1,
                })
            }
        };
        let side = |watched: &mut Watched<'a>| {
            if direction.is_readable() { watched.input } else { watched.output }
        };
        if side(&mut self.sockets[key]).is_some() {
            return refuse("has a handler for this already");
        }
        let watched = &mut self.sockets[key];
        let side = if direction.is_readable() { &mut watched.input } else { &mut watched.output };
        *side = Some(self.handlers.vacant_key());
        self.queue(Ready::Socket(key));
        let on = if direction.is_readable() { On::Input(key) } else { On::Output(key) };
        Ok(self.insert(on, call))
    }

    /// The socket of a handler, which may have been given away to the loop. `None` for a handler
    /// that has none, or that is gone.
    pub fn socket(&self, id: HandlerId) -> Option<&ZSock> {
        match self.find(id)?.on {
            On::Input(key) | On::Output(key) => Some(&self.sockets[key].socket),
            _ => None,
        }
    }

    /// Takes a handler out of the loop, and drops it with what was given to it. Whether there was
    /// such a handler. One that cancels itself is dropped when it returns.
    #[doc(alias("zloop_reader_end", "zloop_timer_end", "zloop_ticket_delete"))]
    pub fn cancel(&mut self, id: HandlerId) -> bool {
        let Some(key) = self.living(id) else { return false };
        log::trace!("cancelling {id:?}");
        self.stirred = true;
        match key {
            Key::Timer(key) => drop(self.timers.remove(key)),
            Key::Handler(key) => self.cancel_handler(key as usize),
        }
        true
    }

    fn cancel_handler(&mut self, id: usize) {
        let mut handler = self.handlers.remove(id);
        match handler.on {
            On::Wake(_) => self.wakes.retain(|&wake| wake != id),
            On::TurnEnd => {
                let place = self.turn_ends.iter().position(|&end| end == id);
                if let Some(place) = place {
                    self.turn_ends.remove(place);
                    self.next_turn_end -= usize::from(place < self.next_turn_end);
                }
            }
            On::Source(_) => {
                if let Some(Call::Source(source)) = &mut handler.call {
                    let _ = source.deregister(self.poll.registry());
                }
            }
            On::Descriptor { fd, .. } => {
                let raw = fd.as_fd().as_raw_fd();
                let _ = self.poll.registry().deregister(&mut SourceFd(&raw));
            }
            On::Input(key) | On::Output(key) => {
                let watched = &mut self.sockets[key];
                for side in [&mut watched.input, &mut watched.output] {
                    if *side == Some(id) {
                        *side = None;
                    }
                }
                if watched.input.is_none() && watched.output.is_none() {
                    let fd = watched.socket.as_raw_fd();
                    let _ = self.poll.registry().deregister(&mut SourceFd(&fd));
                    self.sockets.remove(key);
                }
            }
        }
    }

    /// Leaves a handler uncalled until [`resume`](ZLoop::resume). Messages wait in their socket; a
    /// timer keeps the time that it still had. Whether there is such a handler.
    ///
    /// ```
    /// use zkit::{ZContext, ZLoop};
    ///
    /// let ctx = ZContext::new()?;
    /// let requests = ctx.pull("@inproc://requests")?;
    /// let workers = ctx.pull("@inproc://workers")?;
    /// ctx.push(">inproc://requests")?.send("a request")?;
    /// ctx.push(">inproc://workers")?.send("a worker")?;
    ///
    /// let mut zloop = ZLoop::new()?;
    /// let waiting = zloop.reader(&requests, |log: &mut Vec<String>, zloop, mut request| {
    ///     log.push(request.pop_str()?);
    ///     zloop.stop();
    ///     Ok(())
    /// })?;
    /// zloop.pause(waiting); // until there is a worker
    /// zloop.reader(&workers, move |log: &mut Vec<String>, zloop, mut ready| {
    ///     log.push(ready.pop_str()?);
    ///     zloop.resume(waiting);
    ///     Ok(())
    /// })?;
    /// let mut log = Vec::new();
    /// zloop.run(&mut log)?;
    /// assert_eq!(log, ["a worker", "a request"]);
    /// # Ok::<(), zkit::Error>(())
    /// ```
    pub fn pause(&mut self, id: HandlerId) -> bool {
        match self.living(id) {
            Some(Key::Timer(key)) => self.timers.pause(self.now(), key),
            Some(Key::Handler(key)) => self.handlers[key as usize].paused = true,
            None => return false,
        }
        self.stirred = true;
        true
    }

    /// Lets a paused handler be called again. Whether there is such a handler.
    pub fn resume(&mut self, id: HandlerId) -> bool {
        match self.living(id) {
            Some(Key::Timer(key)) => self.timers.resume(self.now(), key),
            Some(Key::Handler(key)) => {
                let key = key as usize;
                if std::mem::take(&mut self.handlers[key].paused) {
                    self.queue_handler(key);
                }
            }
            None => return false,
        }
        true
    }

    /// Has the handler of a [`source`](ZLoop::source) called with `events`, as if the source had told
    /// them: when there is something new to write, or when the handler has left something for the
    /// sake of others. Its turn comes after those that are ready already. Whether there is such a
    /// source.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use std::time::Duration;
    /// use mio::Interest;
    /// use mio::net::UnixStream;
    /// use zkit::{Events, Repeat, ZLoop};
    ///
    /// let (mut ours, theirs) = UnixStream::pair()?;
    /// let mut zloop = ZLoop::new()?;
    /// let id = zloop.source(theirs, Interest::WRITABLE, |unsent: &mut Vec<u8>, zloop, stream, _| {
    ///     if !unsent.is_empty() {
    ///         let sent = stream.write(unsent)?;
    ///         unsent.drain(..sent);
    ///         zloop.stop();
    ///     }
    ///     Ok(())
    /// })?;
    /// zloop.timer(Duration::from_millis(1), Repeat::ONCE, move |unsent: &mut Vec<u8>, zloop| {
    ///     unsent.extend_from_slice(b"news");
    ///     zloop.tell(id, Events::WRITABLE); // it was writable all the time: nobody else says so
    ///     Ok(())
    /// })?;
    /// zloop.run(&mut Vec::new())?;
    /// let mut news = [0; 4];
    /// ours.read_exact(&mut news)?;
    /// assert_eq!(&news, b"news");
    /// # Ok::<(), zkit::Error>(())
    /// ```
    pub fn tell(&mut self, id: HandlerId, events: Events) -> bool {
        let Some(Key::Handler(key)) = self.living(id) else { return false };
        let On::Source(told) = &mut self.handlers[key as usize].on else { return false };
        *told = *told | events;
        self.queue(Ready::Handler(key as usize));
        true
    }

    /// Starts a timer's delay anew, from now: for what is to happen after so much silence. Whether
    /// there is such a timer.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use zkit::{HandlerId, Repeat, Result, ZLoop, ZMsg};
    /// struct Client {
    ///     gone: HandlerId,
    /// }
    ///
    /// fn on_heartbeat(client: &mut Client, zloop: &mut ZLoop<'_, Client>, _: ZMsg) -> Result<()> {
    ///     zloop.reset(client.gone); // not yet
    ///     Ok(())
    /// }
    ///
    /// let mut zloop: ZLoop<'_, Client> = ZLoop::new()?;
    /// let gone = zloop.timer(Duration::from_secs(3), Repeat::ONCE, |_, zloop| {
    ///     println!("nothing for three seconds");
    ///     Ok(zloop.stop())
    /// })?;
    /// let client = Client { gone };
    /// # let _ = (client, on_heartbeat);
    /// # Ok::<(), zkit::Error>(())
    /// ```
    #[doc(alias = "zloop_ticket_reset")]
    pub fn reset(&mut self, id: HandlerId) -> bool {
        let Some(Key::Timer(key)) = self.living(id) else { return false };
        self.timers.reset(self.now(), key);
        true
    }

    /// Lets a [`reader`](ZLoop::reader) receive up to so many messages in its turn, instead of one,
    /// while others wait; 64 are the most that make a difference. It is faster where all sockets
    /// are busy at once, a proxy's, and less even. Whether there is such a reader.
    pub fn set_burst(&mut self, id: HandlerId, messages: usize) -> bool {
        match self.find(id) {
            Some(&Handler { on: On::Input(key), .. }) => {
                self.sockets[key].burst = messages;
                true
            }
            _ => false,
        }
    }

    /// Where the handler is, if it is still there.
    fn living(&self, id: HandlerId) -> Option<Key> {
        let generation = match id.key {
            Key::Timer(key) => self.timers.get(key)?.generation,
            Key::Handler(key) => self.handlers.get(key as usize)?.generation,
        };
        (generation == id.generation).then_some(id.key)
    }

    fn find(&self, id: HandlerId) -> Option<&Handler<'a, D>> {
        match self.living(id)? {
            Key::Timer(_) => None,
            Key::Handler(key) => self.handlers.get(key as usize),
        }
    }

    /// Has what a handler is called for looked at again.
    fn queue_handler(&mut self, key: usize) {
        match self.handlers[key].on {
            On::Input(key) | On::Output(key) => self.queue(Ready::Socket(key)),
            On::Source(_) | On::Descriptor { .. } | On::Wake(_) => self.queue(Ready::Handler(key)),
            On::TurnEnd => {}
        }
    }

    fn queue(&mut self, ready: Ready) {
        let queued = match ready {
            Ready::Socket(key) => self.sockets.get_mut(key).map(|watched| &mut watched.queued),
            Ready::Handler(key) => self.handlers.get_mut(key).map(|handler| &mut handler.queued),
        };
        if let Some(queued) = queued {
            self.ready.push(ready, queued);
        }
    }
}

/// A loop that has slept for so long looks at its timers and sleeps again.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 3600);

fn nanos_since(epoch: Instant) -> u64 {
    epoch.elapsed().as_nanos() as u64
}

/// # Running
impl<'a, D> ZLoop<'a, D> {
    /// Calls handlers until one of them or a waker stops the loop, the process is interrupted, or
    /// the context of a socket is shut down, and returns which it was. It may be run again after
    /// that.
    ///
    /// # Errors
    /// What a handler returned; what else was ready is served by the next run. [`Error::Wait`] when
    /// a handler runs its own loop, [`Error::Receive`] when a reader's socket fails, [`Error::Io`]
    /// when the system cannot wait.
    ///
    /// [`Error::Interrupted`] and [`Error::Terminated`] of a handler are no errors but an [`Exit`].
    ///
    /// # Panics
    /// When a handler does, with the same payload.
    #[doc(alias = "zloop_start")]
    pub fn run(&mut self, data: &mut D) -> Result<Exit> {
        loop {
            if let Some(exit) = self.turn(data, None)? {
                return Ok(exit);
            }
        }
    }

    /// Calls the handlers of what is ready now; if nothing is, waits for something, at most for
    /// `timeout`. `None` as a timeout is for ever, and as a result means that the loop goes on. It
    /// may come back without having called any handler.
    ///
    /// # In another event loop
    ///
    /// Before every sleep, take turns until the [`timeout`](ZLoop::timeout) is not zero; then sleep
    /// no longer than that, on the loop's descriptor ([`as_fd`](AsFd::as_fd)) and your own:
    ///
    /// ```
    /// use std::time::Duration;
    /// use zkit::{Events, ZContext, ZLoop, ZPoller};
    ///
    /// let ctx = ZContext::new()?;
    /// let pull = ctx.pull("@inproc://inner")?;
    /// ctx.push(">inproc://inner")?.send("for the inner loop")?;
    ///
    /// let mut zloop = ZLoop::new()?;
    /// zloop.reader(&pull, |received: &mut u32, _, _msg| {
    ///     *received += 1;
    ///     Ok(())
    /// })?;
    /// let mut received = 0;
    /// loop {
    ///     while zloop.turn(&mut received, Some(Duration::ZERO))?.is_none() {
    ///         if zloop.timeout() != Some(Duration::ZERO) {
    ///             break;
    ///         }
    ///     }
    ///     if received > 0 {
    ///         break;
    ///     }
    ///     let timeout = zloop.timeout();
    ///     let mut outer = ZPoller::new(); // or any other event loop
    ///     outer.add_fd("inner", &zloop, Events::READABLE)?;
    ///     outer.wait(timeout)?;
    /// }
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](ZLoop::run).
    ///
    /// # Panics
    /// As [`run`](ZLoop::run).
    pub fn turn(&mut self, data: &mut D, timeout: Option<Duration>) -> Result<Option<Exit>> {
        if std::mem::replace(&mut self.running, true) {
            let reason = Reason::new("the loop is running: this is one of its handlers");
            return Err(Error::Wait { reason });
        }
        let turn = || self.wait(timeout).and_then(|now| self.serve(data, now));
        let served = panic::catch_unwind(AssertUnwindSafe(turn));
        self.running = false;
        // Asked for by this turn: the next one is not to end by it.
        let stopping = std::mem::take(&mut self.stopping);
        match served.unwrap_or_else(|panic| panic::resume_unwind(panic)) {
            Err(Error::Interrupted) => Ok(Some(Exit::Interrupted)),
            Err(Error::Terminated) => Ok(Some(Exit::Terminated)),
            Err(error) => Err(error),
            Ok(()) => Ok(stopping.then_some(Exit::Stopped)),
        }
    }

    /// How long [`turn`](ZLoop::turn) would sleep, unless something happens: until the next timer is
    /// due, not at all when there is something to do, for ever (`None`) without timers. For a loop that
    /// lives in another event loop.
    pub fn timeout(&mut self) -> Option<Duration> {
        self.queue_touched();
        // A task that failed, or an interrupt, may have left some whose wake is over.
        let rung = self.waker.0.shared.rung.load(Ordering::Relaxed);
        if !self.ready.is_empty() || self.stopping || rung {
            return Some(Duration::ZERO);
        }
        let due = self.timers.next_deadline()?;
        Some(Duration::from_nanos(due.saturating_sub(self.now())))
    }

    /// Has the loop stop when the handler that calls this returns, or before anything else is done
    /// if it is not running. From another thread there is [`Waker::stop`].
    pub fn stop(&mut self) {
        self.stopping = true;
        self.stirred = true;
    }

    /// Whether to go on when the process is [interrupted](interrupt), because somebody else stops
    /// the loop in order. Default no.
    #[doc(alias = "zloop_set_nonstop")]
    pub fn set_nonstop(&mut self, nonstop: bool) {
        self.stop = if nonstop { Stop::Never } else { Stop::OnInterrupt };
    }

    /// A handle by which other threads wake the loop, stop it and have it do things.
    ///
    /// ```
    /// use std::thread;
    /// use zkit::{Exit, ZLoop};
    ///
    /// let mut zloop: ZLoop<'_, Vec<&str>> = ZLoop::new()?;
    /// let waker = zloop.waker();
    /// thread::spawn(move || {
    ///     waker.post(|names, _zloop| Ok(names.push("from another thread")))?;
    ///     waker.stop()
    /// });
    /// let mut names = Vec::new();
    /// assert_eq!(zloop.run(&mut names)?, Exit::Stopped);
    /// assert_eq!(names, ["from another thread"]);
    /// # Ok::<(), zkit::Error>(())
    /// ```
    pub fn waker(&self) -> Waker<D> {
        self.waker.0.clone()
    }

    fn check_interrupt(&self) -> Result<()> {
        if self.stop == Stop::OnInterrupt && interrupt::is_interrupted() {
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    /// Sleeps, unless something may be ready, and queues what the sleep was ended by. Returns the
    /// time.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<u64> {
        self.check_interrupt()?;
        let timeout = match (self.timeout(), timeout) {
            (Some(due), Some(timeout)) => Some(due.min(timeout)),
            (due, timeout) => due.or(timeout),
        };
        if !self.ready.is_empty() {
            let now = self.now();
            if now - self.polled < UNASKED {
                return Ok(now);
            }
        }
        // Some versions of mio take more milliseconds than an int holds for none at all.
        let timeout = timeout.map(|timeout| timeout.min(LONGEST_SLEEP));
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                return Err(cannot("cannot wait", error));
            }
            _ => {}
        }
        self.polled = self.now();
        log::trace!("woke after {timeout:?}: {} events", self.events.iter().count());
        for event in &self.events {
            let Token(token) = event.token();
            if event.token() == WAKER || event.token() == INTERRUPT {
                continue;
            }
            if token % 2 == 0 {
                let key = token / 2;
                if let Some(watched) = self.sockets.get_mut(key) {
                    self.ready.push(Ready::Socket(key), &mut watched.queued);
                }
            } else if let Some(handler) = self.handlers.get_mut(token / 2) {
                if let On::Source(events) = &mut handler.on {
                    *events = *events | Events::from_mio(event);
                }
                self.ready.push(Ready::Handler(token / 2), &mut handler.queued);
            }
        }
        self.check_interrupt()?;
        Ok(self.polled)
    }

    /// Any operation on a socket may have taken in the news that its descriptor told of.
    fn queue_touched(&mut self) {
        self.touched.take(&mut self.looking);
        for key in self.looking.drain(..) {
            if let Some(watched) = self.sockets.get_mut(key) {
                if let Some(watch) = &*watched.socket.watch().borrow() {
                    watch.looked_at();
                }
                self.ready.push(Ready::Socket(key), &mut watched.queued);
            }
        }
    }

    /// Calls what the waker was given, then the timers that are due at `now`, then who is ready.
    fn serve(&mut self, data: &mut D, now: u64) -> Result<()> {
        if self.stopping {
            return Ok(()); // it was told before this turn
        }
        if self.waker.0.shared.rung.load(Ordering::Relaxed) {
            self.answer_bell(data)?;
        }
        let mark = self.timers.mark();
        while !self.stopping {
            let Some(timer) = self.timers.fire(now, mark) else { break };
            self.serve_timer(data, timer)?;
        }
        self.allowance = ALLOWANCE.max(self.ready.len());
        while !self.stopping && self.allowance > 0 {
            self.allowance -= 1;
            match self.ready.pop() {
                Some((Ready::Socket(key), place)) => self.serve_socket(data, key, place)?,
                Some((Ready::Handler(key), place)) => self.serve_handler(data, key, place)?,
                None => break,
            }
        }
        self.next_turn_end = 0;
        for _ in 0..self.turn_ends.len() {
            // One of them may cancel others, which then have gone from the list.
            let Some(&key) = self.turn_ends.get(self.next_turn_end) else { break };
            self.next_turn_end += 1;
            if let Some(id) = self.unpaused(key) {
                self.call(id, |zloop, call| match call {
                    Call::Plain(call) => call(data, zloop),
                    _ => Ok(()),
                })?;
            }
        }
        Ok(())
    }

    fn answer_bell(&mut self, data: &mut D) -> Result<()> {
        let shared = Arc::clone(&self.waker.0.shared);
        // From here on there is a new wake for what is new.
        shared.rung.swap(false, Ordering::AcqRel);
        for place in 0..self.wakes.len() {
            let key = self.wakes[place];
            if let Some(Handler { on: On::Wake(told), .. }) = self.handlers.get_mut(key) {
                *told = true;
                self.queue(Ready::Handler(key));
            }
        }
        let _unserved = Unserved(&shared);
        // A waker's stop comes after the tasks that were posted before it.
        let stop = shared.stop.load(Ordering::Acquire);
        // The lock is not held while a task is called, which may post another.
        let posted = lock(&shared.posted).len();
        for _ in 0..posted {
            if self.stopping {
                break;
            }
            let Some(task) = lock(&shared.posted).pop_front() else { break };
            task(data, self)?;
        }
        if stop {
            shared.stop.store(false, Ordering::Relaxed);
            self.stopping = true;
        }
        Ok(())
    }

    fn serve_timer(&mut self, data: &mut D, key: u32) -> Result<()> {
        let Some(Ticker { generation, call }) = self.timers.get_mut(key) else { return Ok(()) };
        let id = HandlerId { key: Key::Timer(key), generation: *generation };
        let Some(mut call) = call.take() else { return Ok(()) };
        log::trace!("calling {id:?}");
        let result = panic::catch_unwind(AssertUnwindSafe(|| call(data, self)));
        // Unless its handler has cancelled it, or has reset it at its last firing.
        if self.living(id).is_some() {
            if self.timers.is_done(key) {
                self.timers.remove(key);
            } else if let Some(ticker) = self.timers.get_mut(key) {
                ticker.call = Some(call);
            }
        }
        result.unwrap_or_else(|panic| panic::resume_unwind(panic))
    }

    fn serve_socket(&mut self, data: &mut D, key: usize, place: u64) -> Result<()> {
        let watched = self.sockets.get_mut(key);
        let Some(watched) = watched.filter(|watched| watched.queued == Some(place)) else {
            return Ok(());
        };
        watched.queued = None;
        let (socket, burst) = (watched.socket.clone(), watched.burst);
        let sides = [watched.input, watched.output];
        let [input, output] = sides.map(|side| side.and_then(|key| self.unpaused(key)));
        let again = self.serve_sides(data, &socket, burst, input, output);
        if *again.as_ref().unwrap_or(&true) {
            self.queue(Ready::Socket(key));
        }
        again.map(drop)
    }

    /// Calls the handlers of a socket. Whether to look at it again.
    fn serve_sides(
        &mut self,
        data: &mut D,
        socket: &ZSock,
        burst: usize,
        input: Option<HandlerId>,
        output: Option<HandlerId>,
    ) -> Result<bool> {
        let receives = |id: HandlerId| {
            matches!(self.find(id), Some(Handler { call: Some(Call::Reader(_)), .. }))
        };
        let (reader, input) =
            if input.is_some_and(receives) { (input, None) } else { (None, input) };
        let mut again = match reader {
            Some(id) => self.call(id, |zloop, call| match call {
                Call::Reader(call) => call.call(data, zloop, socket, Turn { id, burst }),
                _ => Ok(false),
            })?,
            None => false,
        };
        if reader.is_some() && output.is_none() {
            return Ok(again);
        }
        // Also when all are paused: the context may be at its end.
        let events = socket.events_watched()?;
        // To ask is to take in the news of what has come since the reader looked.
        again |= reader.is_some() && events.is_readable();
        for (side, ready) in [(input, events.is_readable()), (output, events.is_writable())] {
            let Some(id) = side.filter(|_| ready) else { continue };
            again = true;
            let still = self.find(id).is_some_and(|handler| !handler.paused);
            if self.stopping || !still {
                continue;
            }
            self.once_a_turn();
            self.call(id, |zloop, call| match call {
                Call::Socket(call) => call(data, zloop, socket),
                _ => Ok(()),
            })?;
        }
        Ok(again)
    }

    /// Has the turn end when those who wait now have been served: what a call has not taken is told
    /// again, and not before everything else has been asked.
    fn once_a_turn(&mut self) {
        self.allowance = self.allowance.min(self.ready.len());
    }

    fn unpaused(&self, key: usize) -> Option<HandlerId> {
        let handler = self.handlers.get(key).filter(|handler| !handler.paused)?;
        Some(HandlerId { key: Key::Handler(key as u32), generation: handler.generation })
    }

    fn serve_handler(&mut self, data: &mut D, key: usize, place: u64) -> Result<()> {
        let handler = self.handlers.get_mut(key);
        let Some(handler) = handler.filter(|handler| handler.queued == Some(place)) else {
            return Ok(());
        };
        handler.queued = None;
        if handler.paused {
            return Ok(());
        }
        let events = match &mut handler.on {
            On::Wake(told) => match std::mem::take(told) {
                true => Events::READABLE,
                false => Events::NONE,
            },
            On::Source(events) => std::mem::replace(events, Events::NONE),
            On::Descriptor { fd, interest } => ready_for(fd.as_fd(), *interest)?,
            _ => Events::NONE,
        };
        if events == Events::NONE {
            return Ok(());
        }
        let level = matches!(handler.on, On::Descriptor { .. });
        let id = HandlerId { key: Key::Handler(key as u32), generation: handler.generation };
        self.once_a_turn();
        let result = self.call(id, |zloop, call| match call {
            Call::Events(call) => call(data, zloop, events),
            Call::Source(call) => call.call(data, zloop, events),
            Call::Plain(call) => call(data, zloop),
            Call::Reader(_) | Call::Socket(_) => Ok(()),
        });
        if level {
            self.queue(Ready::Handler(key));
        }
        result
    }

    /// Takes a handler out for the time of its call, so that it can be given the loop, and puts it
    /// back unless it was cancelled meanwhile.
    fn call<R>(
        &mut self,
        id: HandlerId,
        call: impl FnOnce(&mut Self, &mut Call<'a, D>) -> Result<R>,
    ) -> Result<R>
    where
        R: Default,
    {
        let Some(Key::Handler(key)) = self.living(id) else { return Ok(R::default()) };
        let key = key as usize;
        let Some(mut taken) = self.handlers[key].call.take() else { return Ok(R::default()) };
        log::trace!("calling {id:?}");
        let result = panic::catch_unwind(AssertUnwindSafe(|| call(self, &mut taken)));
        if self.living(id).is_some() {
            let handler = &mut self.handlers[key];
            handler.call = Some(taken);
            if result.is_err() {
                if let On::Wake(told) = &mut handler.on {
                    *told = true;
                }
                self.queue_handler(key);
            }
        } else if let Call::Source(source) = &mut taken {
            let _ = source.deregister(self.poll.registry());
        }
        result.unwrap_or_else(|panic| panic::resume_unwind(panic))
    }
}

fn ready_for(fd: BorrowedFd<'_>, interest: Events) -> Result<Events> {
    let mut slot = [libc::pollfd { fd: fd.as_raw_fd(), events: interest.to_poll(), revents: 0 }];
    retry(|| ffi::poll(&mut slot, Some(Duration::ZERO)))
        .map_err(|errno| Error::Wait { reason: errno.into() })?;
    Ok(Events::from_poll(slot[0].revents))
}

/// Wakes a [`ZLoop`] from another thread, and has it do things there.
///
/// Made by [`ZLoop::waker`]. It is `Send`, and cheap to clone, a clone for each thread. None of its
/// calls waits for the loop. It may outlive the loop: then its calls are [`Error::Ended`].
///
/// A thread that talks in messages needs none: the loop [reads](ZLoop::reader) its socket, or is told
/// what a [`ZActor`](crate::ZActor::reader) sends.
///
/// If the loop's state borrows something, such as its sockets, the waker is for a scoped thread. The scope
/// waits for that thread, also when the loop has failed, so have it end then:
///
/// ```
/// use std::sync::mpsc;
/// use std::thread;
/// use std::time::Duration;
/// use zkit::{Exit, Result, ZContext, ZLoop, ZSock};
///
/// struct State<'a> {
///     output: &'a ZSock,
/// }
///
/// let ctx = ZContext::new()?;
/// let output = ctx.push("inproc://output")?;
/// let mut zloop = ZLoop::new()?;
/// let waker = zloop.waker();
/// let (running, ended) = mpsc::channel::<()>();
/// let exit = thread::scope(|scope| {
///     let _running = running; // dropped with this closure, whichever way it ends
///     scope.spawn(move || -> Result<()> {
///         while let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(Duration::from_millis(10)) {
///             waker.post(|state: &mut State<'_>, zloop| {
///                 state.output.try_send("from the loop's own thread")?;
///                 zloop.stop();
///                 Ok(())
///             })?;
///         }
///         Ok(())
///     });
///     zloop.run(&mut State { output: &output })
/// })?;
/// assert_eq!(exit, Exit::Stopped);
/// # Ok::<(), zkit::Error>(())
/// ```
pub struct Waker<D> {
    shared: Arc<Shared<D>>,
}

type Posted<D> = Box<dyn FnOnce(&mut D, &mut ZLoop<'_, D>) -> Result<()> + Send>;

struct Shared<D> {
    bell: mio::Waker,
    /// Whether it was rung and nobody has answered yet.
    rung: AtomicBool,
    stop: AtomicBool,
    posted: Mutex<VecDeque<Posted<D>>>,
    /// Whether the loop is; written while `posted` is locked.
    gone: AtomicBool,
}

/// What a task that fails or panics leaves is for the next turn, whose wake is over.
struct Unserved<'a, D>(&'a Shared<D>);

impl<D> Drop for Unserved<'_, D> {
    fn drop(&mut self) {
        let Unserved(shared) = self;
        if shared.stop.load(Ordering::Relaxed) || !lock(&shared.posted).is_empty() {
            shared.rung.store(true, Ordering::Release);
        }
    }
}

impl<D> Waker<D> {
    /// Has the loop wake up, and call its [`on_wake`](ZLoop::on_wake). It costs next to nothing when
    /// the loop has yet to answer the last wake.
    ///
    /// # Errors
    /// [`Error::Ended`] when the loop is gone, [`Error::Io`] when the system refuses.
    pub fn wake(&self) -> Result<()> {
        if self.shared.gone.load(Ordering::Acquire) {
            return Err(Error::Ended { how: "the loop is gone".into() });
        }
        // The loop lowers the flag before it looks at what it was woken for.
        if self.shared.rung.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.shared.bell.wake().map_err(|error| {
            self.shared.rung.store(false, Ordering::Release);
            cannot("cannot wake a reactor", error)
        })
    }

    /// Has the loop wake up and call `task` once, after those that were posted before. The queue
    /// has no limit. What is not called when the loop is dropped is dropped with it; an error of `task`
    /// comes out of [`run`](ZLoop::run).
    ///
    /// # Errors
    /// As [`wake`](Waker::wake); the task comes back with it.
    pub fn post<F>(&self, task: F) -> Result<(), SendError<F>>
    where
        F: FnOnce(&mut D, &mut ZLoop<'_, D>) -> Result<()> + Send + 'static,
    {
        let mut posted = lock(&self.shared.posted);
        // First, since a task in the queue cannot be had back. The loop waits for the lock.
        if let Err(error) = self.wake() {
            return Err(SendError { error, message: task });
        }
        posted.push_back(Box::new(task));
        Ok(())
    }

    /// Has the loop wake up and stop with [`Exit::Stopped`], after the tasks that were posted
    /// before. One that does not run stops as soon as it does.
    ///
    /// # Errors
    /// As [`wake`](Waker::wake).
    pub fn stop(&self) -> Result<()> {
        self.shared.stop.store(true, Ordering::Release);
        self.wake()
    }
}

/// The loop's own waker, which goes with it.
struct LoopsWaker<D>(Waker<D>);

impl<D> Drop for LoopsWaker<D> {
    fn drop(&mut self) {
        let Shared { posted, gone, .. } = &*self.0.shared;
        let mut posted = lock(posted);
        gone.store(true, Ordering::Release);
        let tasks = std::mem::take(&mut *posted);
        drop(posted);
        // With what they hold: the sender that somebody waits for, or a waker of this very loop.
        drop(tasks);
    }
}

impl<D> Clone for Waker<D> {
    fn clone(&self) -> Self {
        Waker { shared: Arc::clone(&self.shared) }
    }
}

impl<D> fmt::Debug for Waker<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").finish_non_exhaustive()
    }
}

/// The loop's own descriptor, readable when there may be something to do, for it to live in
/// another event loop: before every sleep, call [`turn`](ZLoop::turn) with a timeout of zero until
/// [`timeout`](ZLoop::timeout) is not zero, and sleep no longer than that. `turn` has an example.
impl<D> AsFd for ZLoop<'_, D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        ffi::borrow_fd(&self.poll, self.poll.as_raw_fd())
    }
}

impl<D> fmt::Debug for ZLoop<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZLoop")
            .field("handlers", &self.handlers.len())
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}
