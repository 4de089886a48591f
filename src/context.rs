use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::engine;
use crate::error::{Errno, Error, Reason, Result};
use crate::ffi::{self, Generation, RawContext, RawSocket, lock, millis};
use crate::interrupt;

/// Where sockets come from: libzmq's I/O threads, and the names of `inproc` endpoints (libzmq's
/// context, CZMQ's older `zctx`).
///
/// A program needs one. Clones are cheap and stand for the same context; threads get a clone
/// each. Sockets keep their context alive, so it ends when the last clone and the last socket
/// are dropped.
///
/// ```
/// use zkit::ZContext;
///
/// let ctx = ZContext::new()?;
/// let sink = ctx.pull("@inproc://sink")?;
/// let source = ctx.push(">inproc://sink")?;
/// source.send("Hello")?;
/// assert_eq!(sink.recv_str()?, "Hello");
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # How it ends
///
/// Ending waits for what sockets have sent and libzmq has not yet handed to the network, at most
/// as long as each socket's linger (`ZMQ_LINGER`), counted from when the socket was dropped. zkit
/// gives every socket a linger of one second; [`ContextBuilder::linger`] and
/// [`ZSock::set_linger`](crate::ZSock::set_linger) change that. When the end has to wait until a
/// linger runs out, it says with `log::warn!` which socket has lost messages; what libzmq discards
/// in other ways (a linger that runs out while the context lives on, an `inproc` name that is never
/// bound) it does not tell. Only a linger of `None`, which must be asked for, can wait for ever.
///
/// The wait is in the drop of the last clone or socket, and Ctrl-C does not cut it short. A SUB
/// that is connected to nobody waits too: libzmq keeps its subscriptions for a publisher to come.
///
/// [`shutdown`](ZContext::shutdown) ends the work of every socket in every thread before that.
///
/// # Random numbers
///
/// libzmq makes the identities that a ROUTER gives its peers of C's `rand`, and leaves that unseeded.
/// The first context of a process seeds it (`srand`), so that no process repeats another's.
///
/// # After `fork`
///
/// The child of a `fork` has none of libzmq's threads: what it was given of a context and its
/// sockets gives [`Error::Forked`] there, and dropping it does nothing. It makes a new context.
#[derive(Clone)]
#[doc(alias("zctx", "zmq_ctx_new", "zmq_ctx_term"))]
pub struct ZContext {
    inner: Arc<Inner>,
}

impl ZContext {
    /// A context as most programs want it: one I/O thread, a linger of one second, Ctrl-C caught.
    ///
    /// # Errors
    /// [`Error::Context`] when the process has no descriptors left, [`Error::Io`] when signals
    /// cannot be caught.
    pub fn new() -> Result<ZContext> {
        ZContext::builder().build()
    }

    /// A context with other settings.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zkit::ZContext;
    ///
    /// let ctx = ZContext::builder()
    ///     .io_threads(2)
    ///     .max_sockets(10_000)
    ///     .linger(Some(Duration::from_secs(5)))
    ///     .signals(false)
    ///     .build()?;
    /// # Ok::<(), zkit::Error>(())
    /// ```
    pub fn builder() -> ContextBuilder {
        ContextBuilder::default()
    }

    /// The context of [`ZSock`](crate::ZSock)'s own constructors, made as by
    /// [`new`](ZContext::new) when it is first asked for.
    ///
    /// It ends with the process, when `main` returns or by `exit`: it is shut down, threads have a
    /// second to drop what they hold of it, and what was sent has its linger. A process that a
    /// signal kills does none of this.
    ///
    /// # Errors
    /// As [`new`](ZContext::new), and [`Error::Forked`] in the child of a fork.
    pub fn global() -> Result<ZContext> {
        // The child of a fork may find the lock held by a thread that it does not have.
        match GLOBAL_FROM.get().map(|made| made.check()) {
            Some(Err(_)) => return Err(Error::Forked),
            Some(Ok(())) => {}
            None => {
                GLOBAL_FROM.get_or_init(Generation::current);
                ffi::at_exit(end_global);
            }
        }
        let mut global = lock(&GLOBAL);
        match &*global {
            Some(ctx) => Ok(ctx.clone()),
            None => Ok(global.insert(ZContext::new()?).clone()),
        }
    }

    /// Ends the work of every socket of this context: blocked and later calls in all threads
    /// return [`Error::Terminated`]. It does not wait. Sockets still have to be dropped.
    ///
    /// ```
    /// use std::thread;
    /// use zkit::ZContext;
    ///
    /// let ctx = ZContext::new()?;
    /// let jobs = ctx.pull("@inproc://jobs")?;
    /// let worker = thread::spawn(move || jobs.recv());
    /// ctx.shutdown()?;
    /// let ended = worker.join().expect("the thread ended");
    /// assert!(ended.unwrap_err().is_terminated());
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Forked`] in the child of a fork.
    #[doc(alias("zmq_ctx_shutdown", "zctx_shutdown"))]
    pub fn shutdown(&self) -> Result<()> {
        self.inner.raw().shutdown().map_err(|errno| {
            errno.ending().unwrap_or_else(|| Error::Context { reason: errno.into() })
        })
    }

    /// Opens a libzmq socket and sets what zkit has other defaults for.
    pub(crate) fn open(&self, socket_type: u32) -> Result<RawSocket, Reason> {
        let socket = self.inner.open(socket_type)?;
        socket.set_int(zmq_sys::ZMQ_LINGER, self.inner.linger)?;
        if matches!(socket_type, zmq_sys::ZMQ_SUB | zmq_sys::ZMQ_XSUB) {
            // Each subscription is a message in this queue, and lost without an error when it is full.
            socket.set_int(zmq_sys::ZMQ_SNDHWM, 0)?;
        }
        self.inner.open_sockets.fetch_add(1, Ordering::Relaxed);
        Ok(socket)
    }

    /// A socket of this context is about to be closed.
    pub(crate) fn closed(&self) {
        self.inner.open_sockets.fetch_sub(1, Ordering::Relaxed);
        *lock(&self.inner.last_closed) = Some(Instant::now());
    }

    /// Where `auth` keeps what is to last as long as the context.
    pub(crate) fn auth(&self) -> MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        lock(&self.inner.auth)
    }

    pub(crate) fn default_linger(&self) -> Option<Duration> {
        u64::try_from(self.inner.linger).ok().map(Duration::from_millis)
    }

    /// A socket was dropped that may have sent more than libzmq has passed on.
    pub(crate) fn lingers(&self, socket: String, linger: Option<Duration>) {
        let until = linger.and_then(|linger| Instant::now().checked_add(linger));
        let mut lingering = lock(&self.inner.lingering);
        let now = Instant::now();
        lingering.retain(|one| one.until.is_none_or(|until| until > now));
        if lingering.len() == LINGERING_NAMED {
            lingering.pop_front();
        }
        lingering.push_back(Lingering { socket, until });
    }

    /// Notes that an endpoint is about to be free. libzmq closes it in another thread, soon.
    pub(crate) fn release(&self, endpoint: &str) {
        let mut released = lock(&self.inner.released);
        let now = Instant::now();
        // All are looked at when they might have doubled, which costs little for each.
        if released.len() == released.capacity() {
            released.retain(|_, at| now - *at < RELEASE_TIME);
        }
        released.insert(endpoint.to_owned(), now);
    }

    /// How long it is worth waiting for an endpoint that is in use: until libzmq has had time to
    /// close it, if a socket of this context had it.
    pub(crate) fn free_by(&self, endpoint: &str) -> Option<Instant> {
        lock(&self.inner.released).get(endpoint).map(|at| *at + RELEASE_TIME)
    }
}

impl fmt::Debug for ZContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZContext")
            .field("open_sockets", &self.inner.open_sockets.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

/// Settings of a [`ZContext`] to be, made by [`ZContext::builder`].
#[derive(Debug, Clone)]
#[must_use]
pub struct ContextBuilder {
    io_threads: u32,
    max_sockets: u32,
    linger: Option<Duration>,
    signals: bool,
}

impl Default for ContextBuilder {
    fn default() -> ContextBuilder {
        ContextBuilder {
            io_threads: zmq_sys::ZMQ_IO_THREADS_DFLT,
            max_sockets: zmq_sys::ZMQ_MAX_SOCKETS_DFLT,
            linger: Some(Duration::from_secs(1)),
            signals: true,
        }
    }
}

impl ContextBuilder {
    /// How many threads do libzmq's network work (`ZMQ_IO_THREADS`), 256 at the most. One serves
    /// about a gigabyte a second; a program that only uses `inproc` needs none, and then gets an
    /// error where it binds or connects otherwise. Default 1.
    #[doc(alias("zsys_set_io_threads", "zctx_set_iothreads"))]
    pub fn io_threads(mut self, threads: u32) -> ContextBuilder {
        self.io_threads = threads;
        self
    }

    /// How many sockets may be open at a time (`ZMQ_MAX_SOCKETS`), a million at the most. Each
    /// takes one or two descriptors, of which the system limits the number, too. Default 1023.
    #[doc(alias = "zsys_set_max_sockets")]
    pub fn max_sockets(mut self, sockets: u32) -> ContextBuilder {
        self.max_sockets = sockets;
        self
    }

    /// The linger that sockets start with: how long after a socket's drop its unsent messages are
    /// still worth sending (`ZMQ_LINGER`). `None` is for ever, zero is not at all. Rounded up to
    /// the millisecond. Default one second.
    #[doc(alias("zsys_set_linger", "zctx_set_linger"))]
    pub fn linger(mut self, linger: Option<Duration>) -> ContextBuilder {
        self.linger = linger;
        self
    }

    /// Whether to have SIGINT and SIGTERM caught (see [`interrupt`]). Default
    /// yes. Signal handlers belong to the process: one context that asks for them is enough.
    pub fn signals(mut self, signals: bool) -> ContextBuilder {
        self.signals = signals;
        self
    }

    /// Makes the context.
    ///
    /// # Errors
    /// [`Error::Context`] when a setting is out of range (a linger of more than 24 days is) or the
    /// process has no descriptors left, [`Error::Io`] when signals cannot be caught, [`Error::Unsupported`]
    /// when the linked libzmq is older than 4.3.
    pub fn build(self) -> Result<ZContext> {
        engine::check_version()?;
        let context = |reason: Reason| Error::Context { reason };
        let linger = self.linger.map_or(Ok(-1), millis).map_err(context)?;
        let raw = RawContext::new().map_err(|errno| context(errno.into()))?;
        // Owned from here on, so that an early return terminates it.
        let inner = Inner {
            raw: Some(raw),
            linger,
            max_sockets: self.max_sockets as usize,
            open_sockets: AtomicUsize::new(0),
            last_closed: Mutex::default(),
            released: Mutex::default(),
            lingering: Mutex::default(),
            auth: Mutex::default(),
            started: Mutex::new(false),
        };
        // libzmq allocates by these numbers, and aborts where that fails.
        for (option, name, value, least, most) in [
            (zmq_sys::ZMQ_IO_THREADS, "I/O threads", self.io_threads, 0, 256),
            (zmq_sys::ZMQ_MAX_SOCKETS, "sockets", self.max_sockets, 1, 1_000_000),
        ] {
            if !(least..=most).contains(&value) {
                let reason = format!("{value} {name} are not between {least} and {most}");
                return Err(context(Reason::new(reason)));
            }
            inner.raw().set(option, value as i32).map_err(|errno| context(errno.into()))?;
        }
        if self.signals {
            interrupt::catch()?;
        }
        Ok(ZContext { inner: Arc::new(inner) })
    }
}

struct Inner {
    /// `None` only while it is dropped.
    raw: Option<RawContext>,
    /// Milliseconds, -1 for ever.
    linger: i32,
    max_sockets: usize,
    open_sockets: AtomicUsize,
    last_closed: Mutex<Option<Instant>>,
    released: Mutex<HashMap<String, Instant>>,
    lingering: Mutex<VecDeque<Lingering>>,
    auth: Mutex<Option<Box<dyn Any + Send>>>,
    /// Whether libzmq has its threads, which it starts with the first socket.
    started: Mutex<bool>,
}

/// A dropped socket that libzmq may still be sending for.
struct Lingering {
    socket: String,
    until: Option<Instant>,
}

/// libzmq's timers are of milliseconds.
const CLOCK_ERROR: Duration = Duration::from_millis(2);

/// How many of them are remembered by name.
const LINGERING_NAMED: usize = 16;

/// How long libzmq gets to close an endpoint or a socket in its own threads.
const RELEASE_TIME: Duration = Duration::from_secs(1);

impl Inner {
    fn raw(&self) -> &RawContext {
        self.raw.as_ref().expect("it is taken only in drop")
    }

    /// Opens a socket. Sockets closed a moment ago still count in libzmq until its reaper thread
    /// has been at them, so a full house is worth a short wait if it is not full of open ones.
    fn open(&self, socket_type: u32) -> Result<RawSocket, Reason> {
        self.raw().check_process()?;
        self.reserve_for_threads()?;
        loop {
            let errno = match RawSocket::open(self.raw(), socket_type) {
                Err(errno) if errno.0 == libc::EMFILE => errno,
                opened => return Ok(opened?),
            };
            if self.open_sockets.load(Ordering::Relaxed) >= self.max_sockets {
                let limit = self.max_sockets;
                return Err(Reason::explained(
                    errno,
                    format!(
                        "the context's limit of {limit} sockets is reached; \
                         raise it with ZContext::builder().max_sockets(n)"
                    ),
                ));
            }
            let closing = lock(&self.last_closed).is_some_and(|at| at.elapsed() < RELEASE_TIME);
            if !closing {
                return Err(errno.into());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// libzmq aborts the process if it cannot open what its own threads need.
    fn reserve_for_threads(&self) -> Result<(), Reason> {
        let mut started = lock(&self.started);
        if !*started {
            let threads = self.raw().get(zmq_sys::ZMQ_IO_THREADS).unwrap_or(1) as usize;
            // Each thread and the reaper: an epoll descriptor and a mailbox of up to two; the
            // context has a mailbox of its own.
            let needed = 3 * (threads + 1) + 2;
            let reserved: Result<Vec<File>, _> =
                (0..needed).map(|_| File::open("/dev/null")).collect();
            if let Err(error) = reserved {
                let errno = Errno(error.raw_os_error().unwrap_or(libc::EMFILE));
                return Err(Reason::explained(
                    errno,
                    format!(
                        "libzmq's threads need {needed} descriptors, and the process has no more \
                         left; close some or raise its limit (ulimit -n)"
                    ),
                ));
            }
            *started = true;
        }
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let start = Instant::now();
        if let Some(raw) = self.raw.take() {
            raw.terminate();
        }
        let end = Instant::now() + CLOCK_ERROR;
        // libzmq does not say what it discards. But it waits until a linger runs out only if there
        // is something, so the last that ran out before the end is the one that was waited for.
        let lingering = lock(&self.lingering);
        let ran_out = lingering.iter().filter_map(|one| Some((one.until?, &one.socket)));
        let waited_for = ran_out.filter(|(until, _)| start < *until && *until <= end).max();
        if let Some((_, socket)) = waited_for {
            log::warn!("the linger of {socket} ran out: what it had not sent is lost");
        }
    }
}

/// The context of the shorthand constructors. A static is never dropped: `end_global` does it.
static GLOBAL: Mutex<Option<ZContext>> = Mutex::new(None);

/// The process that asked for it first.
static GLOBAL_FROM: OnceLock<Generation> = OnceLock::new();

/// Gives what was sent on global sockets the time that their linger promises. Threads that the
/// program left running may hold sockets; they get a moment to drop them.
extern "C" fn end_global() {
    if GLOBAL_FROM.get().is_none_or(|made| made.check().is_err()) {
        return; // the context is the parent's of this fork
    }
    let Some(ctx) = lock(&GLOBAL).take() else { return };
    // It fails only when it was shut down before.
    let _ = ctx.shutdown();
    let give_up = Instant::now() + RELEASE_TIME;
    while Arc::strong_count(&ctx.inner) > 1 {
        if Instant::now() > give_up {
            log::warn!(
                "the process ends with {ctx:?} in use by a thread: what it had not sent is lost"
            );
            return std::mem::forget(ctx);
        }
        thread::sleep(Duration::from_millis(1));
    }
}
