//! Threads that talk to the one that started them in messages.
//!
//! [`spawn`] starts a thread that nobody waits for; [`fork`] starts one that is attached to its
//! caller by a pipe, a pair of connected sockets (CZMQ's and JeroMQ's `zthread`). A thread with a
//! life of its own, which is to be ready before it is used and to end when its owner says so, is
//! a [`ZActor`](crate::ZActor). Threads that borrow from their caller want [`std::thread::scope`].
//!
//! ```
//! use zkit::{ZContext, thread};
//!
//! let ctx = ZContext::new()?;
//! let squarer = thread::fork(&ctx, |_, pipe| {
//!     let number: u32 = pipe.recv()?.pop_u32()?;
//!     pipe.send(number * number)?;
//!     Ok("done")
//! })?;
//! squarer.send(12_u32)?;
//! assert_eq!(squarer.recv()?.pop_u32()?, 144);
//! assert_eq!(squarer.join()?, "done");
//! # Ok::<(), zkit::Error>(())
//! ```
//!
//! # What may cross a thread
//!
//! Messages, by value. A [`ZContext`] as a clone, or by reference. A [`ZSock`] by moving: it is used by
//! one thread at a time, and the compiler sees to that. Reactors and pollers stay where they are;
//! a [`Waker`](crate::Waker) reaches a reactor from elsewhere.
//!
//! # Who ends whom, in which order
//!
//! * Ctrl-C reaches every thread that waits in zkit, those of this module included: its call
//!   returns [`Error::Interrupted`].
//! * [`ZContext::shutdown`] does the same with [`Error::Terminated`], for the threads of one context.
//! * Actors are the exception. They go on through Ctrl-C until their owner ends them, so that they
//!   end in the order in which their owner drops them, which for variables is the reverse of
//!   that in which it made them: whoever logs for the others is made first and is the last to go.
//!   (It receives from them fairly and so not always in their order.)
//! * A thread that waits for a message of one that has ended waits on: a pipe that is closed is not heard.
//!   Where that can be, send a last word, or use an actor.
//! * The process ends when `main` returns, whatever other threads are at: `join` those whose work
//!   matters.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use crate::context::ZContext;
use crate::error::{Error, Result};
use crate::ffi::Generation;
use crate::socket::ZSock;

/// Runs `body` in a thread of its own, detached: nobody waits for it (`zthread_new`).
///
/// If it fails or panics, that is logged; an [orderly end](crate::orderly) is none.
///
/// ```
/// use zkit::{ZContext, thread};
///
/// let ctx = ZContext::new()?;
/// let results = ctx.pull("@inproc://results")?;
/// thread::spawn(&ctx, |ctx| Ok(ctx.push(">inproc://results")?.send("a result")?))?;
/// assert_eq!(results.recv_str()?, "a result");
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # Errors
/// [`Error::Io`] when the system has no thread left.
#[doc(alias = "zthread_new")]
pub fn spawn(
    ctx: &ZContext,
    body: impl FnOnce(&ZContext) -> Result<()> + Send + 'static,
) -> Result<()> {
    let ctx = ctx.clone();
    start(move || log_failure(&catch(|| body(&ctx)))).map(drop)
}

/// Runs `body` in a thread of its own, attached by a pipe, of which the thread and the caller get
/// an end each (`zthread_fork`).
///
/// It does not wait for the thread, and has nothing to do with the system's `fork`. The ends are
/// PAIRs over `inproc`, and interrupted by Ctrl-C as any socket is. The thread's end is its own,
/// and closed when it drops it.
///
/// ```
/// use zkit::{ZContext, thread};
///
/// let ctx = ZContext::new()?;
/// let adder = thread::fork(&ctx, |_ctx, pipe| {
///     let mut sum = 0;
///     loop {
///         let mut msg = pipe.recv()?;
///         if msg == "END".into() {
///             return Ok(sum);
///         }
///         sum += msg.pop_u32()?;
///     }
/// })?;
/// for number in [1_u32, 2, 3] {
///     adder.send(number)?;
/// }
/// adder.send("END")?;
/// assert_eq!(adder.join()?, 6);
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # Errors
/// [`Error::Io`] when the system has no thread left, and as
/// [`ZContext::socket`].
#[doc(alias("zthread_fork", "zsys_create_pipe"))]
pub fn fork<T: Send + 'static>(
    ctx: &ZContext,
    body: impl FnOnce(&ZContext, ZSock) -> Result<T> + Send + 'static,
) -> Result<ZThread<T>> {
    let (pipe, other_end) = pipe(ctx)?;
    let ctx = ctx.clone();
    let left = Arc::new(AtomicBool::new(false));
    let thread_left = Arc::clone(&left);
    let thread = Thread::start(move || {
        let result = catch(|| body(&ctx, other_end));
        // Its handle was dropped: nobody else will look at the result.
        if thread_left.swap(true, Ordering::AcqRel) {
            log_failure(&result);
        }
        result
    })?;
    Ok(ZThread { pipe, thread, left })
}

/// A thread that was started by [`fork`], and the caller's end of its pipe, which it derefs to.
///
/// Dropping it closes the pipe and lets the thread go on, detached: if it fails, that is logged.
/// [`join`](ZThread::join) waits for it.
pub struct ZThread<T> {
    pipe: ZSock,
    thread: Thread<T>,
    /// Whether one of the two, the thread and its handle, is gone already.
    left: Arc<AtomicBool>,
}

impl<T> ZThread<T> {
    /// Waits until the thread has ended, and returns what it returned. The pipe stays open until
    /// then: a thread that receives from it has to be told that there will be no more. Ctrl-C does
    /// not end this wait by itself, but those of the thread in zkit.
    ///
    /// # Errors
    /// What the thread returned; [`Error::Panicked`]; [`Error::Forked`].
    pub fn join(mut self) -> Result<T> {
        self.thread.join()
    }
}

impl<T> Deref for ZThread<T> {
    type Target = ZSock;

    fn deref(&self) -> &ZSock {
        &self.pipe
    }
}

impl<T> Drop for ZThread<T> {
    fn drop(&mut self) {
        if self.thread.is_joinable() && self.left.swap(true, Ordering::AcqRel) {
            log_failure(&self.thread.join());
        }
    }
}

impl<T> fmt::Debug for ZThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZThread").field("pipe", &self.pipe).finish_non_exhaustive()
    }
}

/// A thread to join once.
pub(crate) struct Thread<T> {
    handle: Option<JoinHandle<Result<T>>>,
    generation: Generation,
}

impl<T: Send + 'static> Thread<T> {
    pub(crate) fn start(body: impl FnOnce() -> Result<T> + Send + 'static) -> Result<Thread<T>> {
        let generation = Generation::current();
        Ok(Thread { handle: Some(start(body)?), generation })
    }
}

impl<T> Thread<T> {
    /// Whether it was not joined yet and is this process's.
    pub(crate) fn is_joinable(&self) -> bool {
        self.handle.is_some() && self.generation.check().is_ok()
    }

    pub(crate) fn join(&mut self) -> Result<T> {
        if !self.is_joinable() {
            return Err(Error::Forked);
        }
        let handle = self.handle.take().ok_or(Error::Forked)?;
        handle.join().unwrap_or_else(|payload| Err(Error::Panicked { message: text(&*payload) }))
    }
}

impl<T> Drop for Thread<T> {
    fn drop(&mut self) {
        // In the child of a fork its number may be that of another thread, which it would detach.
        if self.generation.check().is_err() {
            std::mem::forget(self.handle.take());
        }
    }
}

/// Two connected PAIRs.
pub(crate) fn pipe(ctx: &ZContext) -> Result<(ZSock, ZSock)> {
    static PIPES: AtomicU64 = AtomicU64::new(0);
    let number = PIPES.fetch_add(1, Ordering::Relaxed);
    let endpoint = format!("inproc://zkit.pipe.{number}");
    let (one, other) = (ctx.pair("")?, ctx.pair("")?);
    one.bind(&endpoint)?;
    other.connect(&endpoint)?;
    Ok((one, other))
}

pub(crate) fn start<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let failed = |source| Error::Io { what: "cannot start a thread".into(), source };
    Builder::new().name("zkit".into()).spawn(body).map_err(failed)
}

/// Calls `body` and makes an error of its panic.
pub(crate) fn catch<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    let panicked = |payload: Box<dyn Any + Send>| Err(Error::Panicked { message: text(&*payload) });
    panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(panicked)
}

pub(crate) fn log_failure<T>(result: &Result<T>) {
    match result {
        Err(error) if !error.is_ending() => log::error!("a thread ended: {error}"),
        _ => {}
    }
}

/// What `panic!` was given.
fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("for a reason that is no text").to_owned()
}
