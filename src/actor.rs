use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::clock;
use crate::context::ZContext;
use crate::error::{Error, Result, SendError};
use crate::ffi;
use crate::msg::ZMsg;
use crate::socket::ZSock;
use crate::thread::{self, Thread};
use crate::zloop::{HandlerId, Repeat, ZLoop};

/// A thread that serves its owner in messages, is ready before it is used and ends when its owner
/// says so (CZMQ's `zactor`).
///
/// ```
/// use zkit::{Result, ZActor, ZContext};
///
/// let ctx = ZContext::new()?;
/// let counter = ZActor::spawn(&ctx, |_ctx, pipe| {
///     let mut sum = 0;
///     while let Some(mut msg) = pipe.recv()? {
///         sum += msg.pop_u32()?;
///         pipe.send(sum)?;
///     }
///     Ok(sum) // the owner has said that it is over
/// })?;
///
/// counter.send(40_u32)?;
/// assert_eq!(counter.recv()?.pop_u32()?, 40);
/// counter.send(2_u32)?;
/// assert_eq!(counter.recv()?.pop_u32()?, 42);
/// assert_eq!(counter.stop()?, 42);
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # Being ready
///
/// [`spawn`](ZActor::spawn) returns when the actor says that it is [`ready`](ActorPipe::ready), which
/// its first receive says for it: what can fail is done before, and its error comes out of `spawn`.
///
/// ```
/// use zkit::{ZActor, ZContext};
///
/// let ctx = ZContext::new()?;
/// let server = ZActor::spawn(&ctx, |ctx, pipe| {
///     let requests = ctx.pull("@tcp://127.0.0.1:http")?;
///     pipe.ready();
///     Ok(())
/// });
/// let error = server.unwrap_err().to_string();
/// assert!(error.starts_with("cannot bind \"tcp://127.0.0.1:http\""), "{error}");
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # Ending
///
/// The owner ends its actor: [`stop`](ZActor::stop) and dropping send `$TERM`, on which the actor's
/// [`recv`](ActorPipe::recv) returns `None`, and wait for the thread. Ctrl-C does not interrupt an actor's
/// pipe, so that actors end in their owner's order; other sockets of an actor want
/// [`set_nonstop`](ZSock::set_nonstop), if it waits on them, for the same.
///
/// When an actor ends by itself, fails or panics, what it sent before can still be received; then every call of
/// its owner gives [`Error::Ended`] with the reason, those that wait already included.
///
/// # What is guaranteed
///
/// Messages arrive in the order in which they were sent, each way. What was sent before `$TERM` is
/// received before it. Neither end waits for ever for one that is gone. Only so today: the size of
/// the pipe, 1,000 messages at each end; and that a thread is named `zkit`.
///
/// # Beside other sockets
///
/// Both ends have a `reader`: [`ZActor::reader`] for the owner's loop, [`ActorPipe::reader`] for a
/// loop that the actor runs. For a few sockets beside the pipe a [`ZPoller`](crate::ZPoller) will
/// do:
///
/// ```
/// use zkit::{ZActor, ZContext, ZPoller};
///
/// let ctx = ZContext::new()?;
/// let adder = ZActor::spawn(&ctx, |ctx, pipe| {
///     let numbers = ctx.pull("@inproc://numbers")?;
///     pipe.ready(); // nothing can fail any more
///     let mut poller = ZPoller::new();
///     poller.set_nonstop(true); // the owner says when
///     poller.add("pipe", pipe.socket())?;
///     poller.add("numbers", &numbers)?;
///     let mut sum = 0;
///     loop {
///         match poller.wait(None)? {
///             Some("numbers") => {
///                 sum += numbers.recv()?.pop_u32()?;
///                 pipe.send(sum)?;
///             }
///             _ => match pipe.recv()? {
///                 Some(_start_anew) => sum = 0,
///                 None => return Ok(()),
///             },
///         }
///     }
/// })?;
/// ctx.push(">inproc://numbers")?.send(42_u32)?;
/// assert_eq!(adder.recv()?.pop_u32()?, 42);
/// # Ok::<(), zkit::Error>(())
/// ```
#[doc(alias = "zactor")]
pub struct ZActor<T = ()> {
    pipe: ZSock,
    shared: Arc<Shared>,
    /// How many messages were sent.
    sent: Cell<u64>,
    /// Whether the end of the actor was received.
    over: Cell<bool>,
    thread: Thread<T>,
}

/// What owner and actor know of each other besides their messages.
struct Shared {
    /// Whether the actor has said that it is ready: one of the three below.
    start: AtomicU8,
    /// How the actor has ended.
    ended: OnceLock<String>,
    /// How many messages the actor has received.
    received: AtomicU64,
    /// Whether the owner waits for the end and does not receive any more.
    leaving: AtomicBool,
    /// What the actor's last message, which wakes its owner, is known by.
    end: u64,
}

const STARTING: u8 = 0;
const READY: u8 = 1;
/// It has failed before it was ready.
const FAILED: u8 = 2;

/// The owner's last message.
const TERM: &[u8] = b"$TERM";

/// How often a send that has to wait looks whether the other side is still there.
const LOOK: Duration = Duration::from_millis(20);

impl<T: Send + 'static> ZActor<T> {
    /// Runs `body` in a thread of its own with an end of a pipe, and waits until it is ready, as
    /// long as that takes: Ctrl-C does not end the wait. One that returns before it has said so is
    /// ready by that.
    ///
    /// It takes two of the context's sockets. What `body` needs moves into it.
    ///
    /// # Errors
    /// What `body` returned before it was ready, [`Error::Panicked`] if it panicked before that,
    /// [`Error::Io`] when the system has no thread left, and as [`ZContext::socket`].
    #[doc(alias = "zactor_new")]
    pub fn spawn(
        ctx: &ZContext,
        body: impl FnOnce(&ZContext, &ActorPipe) -> Result<T> + Send + 'static,
    ) -> Result<ZActor<T>> {
        let (pipe, actors_end) = thread::pipe(ctx)?;
        actors_end.set_nonstop(true);
        let shared = Arc::new(Shared {
            start: AtomicU8::new(STARTING),
            ended: OnceLock::new(),
            received: AtomicU64::new(0),
            leaving: AtomicBool::new(false),
            end: ffi::random(),
        });
        let actors_end = ActorPipe {
            socket: actors_end,
            shared: Arc::clone(&shared),
            owner: std::thread::current(),
            terminated: Cell::new(false),
        };
        let ctx = ctx.clone();
        let thread = Thread::start(move || {
            let result = thread::catch(|| body(&ctx, &actors_end));
            actors_end.end(&result);
            result
        })?;
        let sent = Cell::new(0);
        let mut actor = ZActor { pipe, shared, sent, over: Cell::new(false), thread };
        match actor.shared.wait_for_start() {
            READY => Ok(actor),
            _ => Err(actor.thread.join().err().unwrap_or_else(|| actor.shared.gone())),
        }
    }
}

impl<T> ZActor<T> {
    /// Sends a message to the actor. Waits while the pipe is full (2,000 messages).
    ///
    /// # Errors
    /// [`Error::Ended`] when the actor is gone, [`Error::Interrupted`], [`Error::Terminated`]; the
    /// message comes back with it.
    pub fn send(&self, msg: impl Into<ZMsg>) -> Result<(), SendError<ZMsg>> {
        self.send_until(msg.into(), None)
    }

    /// Sends a message to the actor if the pipe has room.
    ///
    /// # Errors
    /// As [`send`](ZActor::send), and [`Error::WouldBlock`].
    pub fn try_send(&self, msg: impl Into<ZMsg>) -> Result<(), SendError<ZMsg>> {
        let message = msg.into();
        if !self.is_running() {
            return Err(SendError { error: self.shared.gone(), message });
        }
        self.pipe.try_send(message)?;
        self.sent.set(self.sent.get() + 1);
        Ok(())
    }

    /// Sends a message to the actor, waiting for room at most this long.
    ///
    /// # Errors
    /// As [`send`](ZActor::send), and [`Error::Timeout`].
    pub fn send_timeout(
        &self,
        msg: impl Into<ZMsg>,
        timeout: Duration,
    ) -> Result<(), SendError<ZMsg>> {
        self.send_until(msg.into(), clock::deadline(timeout))
    }

    fn send_until(&self, msg: ZMsg, deadline: Option<Instant>) -> Result<(), SendError<ZMsg>> {
        self.send_uncounted(msg, deadline)?;
        self.sent.set(self.sent.get() + 1);
        Ok(())
    }

    fn send_uncounted(&self, msg: ZMsg, deadline: Option<Instant>) -> Result<(), SendError<ZMsg>> {
        let gone = || (!self.is_running()).then(|| self.shared.gone());
        send_unless(gone, &self.pipe, msg, deadline)
    }

    /// Receives a message from the actor. Waits until there is one.
    ///
    /// # Errors
    /// [`Error::Ended`] when the actor is gone, [`Error::Interrupted`], [`Error::Terminated`].
    pub fn recv(&self) -> Result<ZMsg> {
        self.recv_by(ZSock::recv)
    }

    /// Receives a message from the actor if there is one.
    ///
    /// # Errors
    /// As [`recv`](ZActor::recv), and [`Error::WouldBlock`].
    pub fn try_recv(&self) -> Result<ZMsg> {
        self.recv_by(ZSock::try_recv)
    }

    /// Receives a message from the actor, waiting at most this long.
    ///
    /// # Errors
    /// As [`recv`](ZActor::recv), and [`Error::Timeout`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<ZMsg> {
        self.recv_by(|pipe| pipe.recv_timeout(timeout))
    }

    fn recv_by(&self, recv: impl FnOnce(&ZSock) -> Result<ZMsg>) -> Result<ZMsg> {
        if self.over.get() {
            return Err(self.shared.gone());
        }
        recv(&self.pipe).and_then(|msg| self.received(msg))
    }

    fn received(&self, msg: ZMsg) -> Result<ZMsg> {
        if !self.is_running() && msg == self.shared.end_message() {
            self.over.set(true);
            return Err(self.shared.gone());
        }
        Ok(msg)
    }

    /// Has a loop of the owner call `handler` with each message of the actor, and with
    /// [`Error::Ended`] once when it is gone.
    ///
    /// ```
    /// use zkit::{Exit, ZActor, ZContext, ZLoop};
    ///
    /// let ctx = ZContext::new()?;
    /// let worker = ZActor::spawn(&ctx, |_, pipe| Ok(pipe.send("a result")?))?;
    ///
    /// let mut zloop = ZLoop::new()?;
    /// worker.reader(&mut zloop, |results: &mut Vec<String>, zloop, msg| {
    ///     match msg {
    ///         Ok(mut msg) => results.push(msg.pop_str()?),
    ///         Err(_gone) => zloop.stop(),
    ///     }
    ///     Ok(())
    /// })?;
    /// let mut results = Vec::new();
    /// assert_eq!(zloop.run(&mut results)?, Exit::Stopped);
    /// assert_eq!(results, ["a result"]);
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ZLoop::reader`].
    pub fn reader<'a, D>(
        &'a self,
        zloop: &mut ZLoop<'a, D>,
        mut handler: impl FnMut(&mut D, &mut ZLoop<'a, D>, Result<ZMsg>) -> Result<()> + 'a,
    ) -> Result<HandlerId> {
        if self.over.get() {
            let tell = move |data: &mut D, zloop: &mut ZLoop<'a, D>| {
                handler(data, zloop, Err(self.shared.gone()))
            };
            return zloop.timer(Duration::ZERO, Repeat::ONCE, tell);
        }
        zloop.reader(&self.pipe, move |data, zloop, msg| handler(data, zloop, self.received(msg)))
    }

    /// The owner's end of the pipe, for a [`ZPoller`](crate::ZPoller). Receive by
    /// [`recv`](ZActor::recv) and its like, which know the actor's end from a message.
    #[doc(alias = "zactor_sock")]
    pub fn socket(&self) -> &ZSock {
        &self.pipe
    }

    /// Whether the actor's thread is still at work, and has neither returned nor panicked.
    pub fn is_running(&self) -> bool {
        self.shared.ended.get().is_none()
    }

    /// Tells the actor to end (`zactor_destroy`), waits until it has, and returns what it returned.
    /// What it is sent before that it can still receive. Ctrl-C does not end the wait.
    ///
    /// # Errors
    /// What the actor returned; [`Error::Panicked`]; [`Error::Forked`].
    #[doc(alias = "zactor_destroy")]
    pub fn stop(mut self) -> Result<T> {
        self.terminate();
        self.join_thread()
    }

    /// Waits until the actor has ended by itself, and returns what it returned. What it sends
    /// meanwhile is dropped.
    ///
    /// # Errors
    /// As [`stop`](ZActor::stop), and [`Error::Interrupted`], with which the actor is stopped.
    pub fn join(mut self) -> Result<T> {
        loop {
            match self.recv() {
                Ok(msg) => log::debug!("waiting for the end of an actor, dropped {msg:?}"),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                // It has ended, or will, since the context has.
                Err(_) => return self.join_thread(),
            }
        }
    }

    fn terminate(&self) {
        self.shared.leaving.store(true, Ordering::Release);
        self.pipe.set_nonstop(true);
        // It fails when the actor is gone, or the context, which ends the actor too.
        let _ = self.send_uncounted(TERM.into(), None);
    }

    fn join_thread(&mut self) -> Result<T> {
        let result = self.thread.join();
        let unread = self.sent.get().saturating_sub(self.shared.received.load(Ordering::Acquire));
        if unread > 0 {
            log::warn!("an actor ended with {unread} message(s) of its owner unread");
        }
        result
    }
}

impl<T> Drop for ZActor<T> {
    fn drop(&mut self) {
        if self.thread.is_joinable() {
            self.terminate();
            thread::log_failure(&self.join_thread());
        }
    }
}

impl<T> fmt::Debug for ZActor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = self.shared.ended.get().map_or("running", String::as_str);
        f.debug_struct("ZActor").field("state", &how).finish_non_exhaustive()
    }
}

/// An actor's end of its pipe, which [`ZActor::spawn`] lends to its body.
///
/// Ctrl-C does not interrupt it: the owner ends its actor, and what comes then is `None`.
///
/// ```
/// use std::time::Duration;
/// use zkit::{Error, ZActor, ZContext};
///
/// let ctx = ZContext::new()?;
/// let worker = ZActor::spawn(&ctx, |_ctx, pipe| {
///     pipe.ready(); // spawn returns
///     loop {
///         match pipe.recv_timeout(Duration::from_millis(1)) {
///             Ok(Some(msg)) => pipe.send(msg)?, // a command of the owner
///             Ok(None) => return Ok("done"),    // the owner's last word
///             Err(Error::Timeout) => {}         // something of the actor's own, now and then
///             Err(error) => return Err(error),
///         }
///     }
/// })?;
/// worker.send(("ECHO", 7_u32))?;
/// assert_eq!(worker.recv()?, ("ECHO", 7_u32).into());
/// assert_eq!(worker.stop()?, "done");
/// # Ok::<(), zkit::Error>(())
/// ```
pub struct ActorPipe {
    socket: ZSock,
    shared: Arc<Shared>,
    /// The thread that waits for the start.
    owner: std::thread::Thread,
    /// Whether the owner has said that it is over.
    terminated: Cell<bool>,
}

impl ActorPipe {
    /// Lets the owner's [`spawn`](ZActor::spawn) return, the first time. What fails after it comes
    /// out of the owner's calls as [`Error::Ended`], and of [`stop`](ZActor::stop).
    pub fn ready(&self) {
        self.shared.set_start(READY, &self.owner);
    }

    /// Receives a message from the owner, and says first that the actor is ready. Waits until there
    /// is one. `None` is the end: the owner waits for this thread. It stays `None`.
    ///
    /// # Errors
    /// [`Error::Terminated`].
    pub fn recv(&self) -> Result<Option<ZMsg>> {
        self.recv_by(ZSock::recv)
    }

    /// Receives a message from the owner if there is one. `None` is the end.
    ///
    /// # Errors
    /// As [`recv`](ActorPipe::recv), and [`Error::WouldBlock`].
    pub fn try_recv(&self) -> Result<Option<ZMsg>> {
        self.recv_by(ZSock::try_recv)
    }

    /// Receives a message from the owner, waiting at most this long. `None` is the end.
    ///
    /// # Errors
    /// As [`recv`](ActorPipe::recv), and [`Error::Timeout`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<ZMsg>> {
        self.recv_by(|socket| socket.recv_timeout(timeout))
    }

    fn recv_by(&self, recv: impl FnOnce(&ZSock) -> Result<ZMsg>) -> Result<Option<ZMsg>> {
        self.ready();
        if self.terminated.get() {
            return Ok(None);
        }
        recv(&self.socket).map(|msg| self.received(msg))
    }

    /// The message, or none if it was the owner's last.
    fn received(&self, msg: ZMsg) -> Option<ZMsg> {
        let received = &self.shared.received;
        received.store(received.load(Ordering::Relaxed) + 1, Ordering::Release);
        self.terminated.set(msg.len() == 1 && msg.first().is_some_and(|frame| *frame == TERM));
        (!self.terminated.get()).then_some(msg)
    }

    /// Has a loop of the actor call `handler` with each message of the owner, and stop when the owner
    /// says that it is over. It has the loop ignore Ctrl-C, as the pipe does, and says that the actor
    /// is ready: do before it what may fail.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zkit::{Repeat, ZActor, ZContext, ZLoop};
    ///
    /// let ctx = ZContext::new()?;
    /// let ticker = ZActor::spawn(&ctx, |_, pipe| {
    ///     let mut zloop = ZLoop::new()?;
    ///     zloop.timer(Duration::from_millis(1), Repeat::Forever, |ticks, _| {
    ///         *ticks += 1;
    ///         Ok(())
    ///     })?;
    ///     pipe.reader(&mut zloop, |ticks: &mut u32, _, _how_many| Ok(pipe.send(*ticks)?))?;
    ///     let mut ticks = 0;
    ///     zloop.run(&mut ticks)?;
    ///     Ok(ticks)
    /// })?;
    /// ticker.send("how many?")?;
    /// let ticks = ticker.recv()?.pop_u32()?;
    /// assert!(ticker.stop()? >= ticks);
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ZLoop::reader`].
    pub fn reader<'a, D>(
        &'a self,
        zloop: &mut ZLoop<'a, D>,
        mut handler: impl FnMut(&mut D, &mut ZLoop<'a, D>, ZMsg) -> Result<()> + 'a,
    ) -> Result<HandlerId> {
        let id = zloop.reader(&self.socket, move |data, zloop, msg| match self.received(msg) {
            Some(msg) => handler(data, zloop, msg),
            None => {
                zloop.stop();
                Ok(())
            }
        })?;
        if self.terminated.get() {
            zloop.stop();
        }
        zloop.set_nonstop(true);
        self.ready();
        Ok(id)
    }

    /// Sends a message to the owner. Waits while the pipe is full (2,000 messages), and says first that
    /// the actor is ready, since only the owner makes room.
    ///
    /// # Errors
    /// [`Error::Ended`] when the pipe is full and the owner waits for the actor's end, so that it
    /// will not receive any more; [`Error::Terminated`]. The message comes back with it.
    pub fn send(&self, msg: impl Into<ZMsg>) -> Result<(), SendError<ZMsg>> {
        let left = || self.shared.leaving.load(Ordering::Acquire).then(owner_left);
        match self.socket.try_send(msg) {
            Err(SendError { error: Error::WouldBlock, message }) => {
                // Nobody but the owner makes room, who may still wait for the start.
                self.ready();
                send_unless(left, &self.socket, message, None)
            }
            sent => sent,
        }
    }

    /// Sends a message to the owner if the pipe has room.
    ///
    /// # Errors
    /// [`Error::WouldBlock`], [`Error::Terminated`].
    pub fn try_send(&self, msg: impl Into<ZMsg>) -> Result<(), SendError<ZMsg>> {
        self.socket.try_send(msg)
    }

    /// The socket under it, for a [`ZPoller`](crate::ZPoller). Receive by [`recv`](ActorPipe::recv)
    /// and its like, which know the end from a message.
    pub fn socket(&self) -> &ZSock {
        &self.socket
    }

    /// Tells the owner how the actor has ended.
    fn end<T>(&self, result: &Result<T>) {
        let how = match result {
            Ok(_) => ENDED.into(),
            Err(error) => error.to_string(),
        };
        self.shared.ended.get_or_init(|| how);
        if result.is_ok() {
            self.ready();
        } else if self.shared.set_start(FAILED, &self.owner) {
            return; // Nobody has the other end.
        }
        // It wakes an owner that waits for a message. One that waits for this thread needs no waking.
        if !self.shared.leaving.load(Ordering::Acquire) {
            let _ = self.send(self.shared.end_message());
        }
    }
}

impl fmt::Debug for ActorPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorPipe").field("terminated", &self.terminated).finish_non_exhaustive()
    }
}

impl Shared {
    /// What the start has come to, if nothing is known of it yet. Returns whether that was so.
    fn set_start(&self, start: u8, owner: &std::thread::Thread) -> bool {
        let starting = self.start.load(Ordering::Relaxed) == STARTING
            && self
                .start
                .compare_exchange(STARTING, start, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if starting {
            owner.unpark();
        }
        starting
    }

    /// Waits in the owner's thread.
    fn wait_for_start(&self) -> u8 {
        loop {
            match self.start.load(Ordering::Acquire) {
                STARTING => std::thread::park(),
                start => return start,
            }
        }
    }

    fn gone(&self) -> Error {
        Error::Ended { how: self.ended.get().cloned().unwrap_or_default() }
    }

    fn end_message(&self) -> ZMsg {
        ("$END", self.end).into()
    }
}

/// How an actor ended that did not fail.
pub(crate) const ENDED: &str = "it has ended";

fn owner_left() -> Error {
    Error::Ended { how: "the owner of the actor waits for its end".into() }
}

/// Sends, waiting for room as long as `gone` does not say that nobody will make any.
fn send_unless(
    gone: impl Fn() -> Option<Error>,
    pipe: &ZSock,
    mut message: ZMsg,
    deadline: Option<Instant>,
) -> Result<(), SendError<ZMsg>> {
    loop {
        if let Some(error) = gone() {
            return Err(SendError { error, message });
        }
        let left = clock::left(deadline);
        match pipe.send_timeout(message, left.min(LOOK)) {
            Err(SendError { error: Error::Timeout, message: back }) if left > LOOK => {
                message = back;
            }
            sent => return sent,
        }
    }
}
