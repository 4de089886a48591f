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
//! * The process ends when `main` returns, whatever other threads are at: `join` those whose work
//!   matters.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use crate::context::ZContext;
use crate::error::{Error, Result};
use crate::socket::ZSock;

/// Runs `body` in a thread of its own, detached: nobody waits for it (`zthread_new`). If it fails or
/// panics, that is logged; an [orderly end](crate::orderly) is none.
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
/// # Errors
/// [`Error::Io`] when the system has no thread left, and as
/// [`ZContext::socket`].
pub fn fork<T: Send + 'static>(
    ctx: &ZContext,
    body: impl FnOnce(&ZContext, ZSock) -> Result<T> + Send + 'static,
) -> Result<ZThread<T>> {
    let (pipe, other_end) = pipe(ctx)?;
    let ctx = ctx.clone();
    let awaited = Arc::new(());
    let awaits = Arc::downgrade(&awaited);
    let handle = start(move || {
        let result = catch(|| body(&ctx, other_end));
        if awaits.upgrade().is_none() {
            log_failure(&result);
        }
        result
    })?;
    Ok(ZThread { pipe, handle, _awaited: awaited })
}

/// A thread that was started by [`fork`], and the caller's end of its pipe, which it derefs to.
///
/// Dropping it closes the pipe and lets the thread go on, detached: if it fails, that is logged.
pub struct ZThread<T> {
    pipe: ZSock,
    handle: JoinHandle<Result<T>>,
    /// Tells the thread whether somebody will look at its result.
    _awaited: Arc<()>,
}

impl<T> ZThread<T> {
    /// Waits until the thread has ended, and returns what it returned.
    ///
    /// # Errors
    /// What the thread returned; [`Error::Panicked`].
    pub fn join(self) -> Result<T> {
        join(self.handle)
    }
}

impl<T> Deref for ZThread<T> {
    type Target = ZSock;

    fn deref(&self) -> &ZSock {
        &self.pipe
    }
}

impl<T> fmt::Debug for ZThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZThread").field("pipe", &self.pipe).finish_non_exhaustive()
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

pub(crate) fn join<T>(handle: JoinHandle<Result<T>>) -> Result<T> {
    handle.join().unwrap_or_else(|payload| Err(Error::Panicked { message: text(&*payload) }))
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
