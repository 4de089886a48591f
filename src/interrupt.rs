//! Ctrl-C that ends every thread.
//!
//! ```standalone_crate
//! use zkit::{ZContext, interrupt};
//!
//! let ctx = ZContext::new()?; // catches SIGINT and SIGTERM
//! let pull = ctx.pull("@inproc://jobs")?;
//! interrupt::raise()?; // what a signal does
//! assert!(pull.recv().unwrap_err().is_interrupted());
//! interrupt::reset();
//! # Ok::<(), zkit::Error>(())
//! ```
//!
//! # The first signal
//!
//! [`ZContext::new`](crate::ZContext::new) has SIGINT and SIGTERM caught, as CZMQ's contexts do.
//! The first of them interrupts the process: from then on every blocking or timed call of every
//! socket, poller and [`clock::sleep`](crate::clock::sleep), in every thread, those that sleep
//! already included, returns [`Error::Interrupted`]. That lasts until [`reset`]. Calls that do not
//! wait (`try_send`, `try_recv`, `bind`, `connect`) go on working, to say goodbye with.
//!
//! # The second signal
//!
//! The same signal a second time ends the process in the ordinary way, so that a program that
//! never looks can still be stopped.
//!
//! # What goes on
//!
//! A socket, poller or loop can opt out ([`ZSock::set_nonstop`](crate::ZSock::set_nonstop) and its
//! like) when somebody else ends it in order. [Actors](crate::ZActor#ending) have done so, proxies
//! and monitors too. The wait at the [end of a context](crate::ZContext#how-it-ends) is not cut
//! short, and what does not wait in zkit (`std::thread::sleep`, reading a file) knows nothing of
//! it.
//!
//! # What is guaranteed
//!
//! A call that starts after the signal returns the error at once, even when it could
//! have gone on without waiting. A thread that has just begun to wait in a receive may notice up to
//! 5 ms later, all others at once. Only so today: SIGINT and SIGTERM are the two signals; a handler
//! that the program itself had installed for them before is called as well.
//!
//! # In tests
//!
//! An interrupt is the process's: a test that raises one wants a process of its own.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::{Errno, Error, Result};
use crate::ffi::{self, lock};

/// Whether the process was asked to end. Signal handlers set it.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Which signal came, to let its second coming through.
static SIGINT_CAME: AtomicBool = AtomicBool::new(false);
static SIGTERM_CAME: AtomicBool = AtomicBool::new(false);

/// Catches SIGINT and SIGTERM from now on; calling it again changes nothing
/// (`zsys_catch_interrupts`).
///
/// A context does it by itself, unless built [without](crate::ContextBuilder::signals). It cannot
/// be undone.
///
/// # Errors
/// [`Error::Io`] when the process has no descriptors left or may not set signal handlers.
#[doc(alias = "zsys_catch_interrupts")]
pub fn catch() -> Result<()> {
    let doorbell = doorbell()?;
    let Some(rings) = lock(&doorbell.for_signals).take() else { return Ok(()) };
    // One that comes meanwhile waits until all that it has to do is registered.
    ffi::holding_back(&SIGNALS.map(|(signal, _)| signal), || {
        SIGNALS.into_iter().zip(rings).try_for_each(|((signal, came), ring)| {
            catch_one(signal, came, ring)
                .map_err(|source| Error::Io { what: "cannot catch signals".into(), source })
        })
    })
}

const SIGNALS: [(i32, &AtomicBool); 2] = [(SIGINT, &SIGINT_CAME), (SIGTERM, &SIGTERM_CAME)];

/// The actions run in the order of registration: the default action if the signal came before; that
/// it came; the interrupt, after that because [`reset`] takes them back in the other order and must not
/// leave a signal that came and does not interrupt; and last the descriptor, so that who wakes finds
/// the flags set.
fn catch_one(signal: i32, came: &'static AtomicBool, ring: UnixStream) -> io::Result<()> {
    signal_hook::flag::register_conditional_default(signal, came)?;
    signal_hook::flag::register(signal, came)?;
    signal_hook::flag::register(signal, &INTERRUPTED)?;
    signal_hook::low_level::pipe::register(signal, ring)?;
    Ok(())
}

/// Whether the process was interrupted (`zsys_interrupted`).
///
/// It is for threads that compute: waits say so themselves.
///
/// ```
/// use zkit::interrupt;
///
/// let mut sum = 0_u64;
/// for number in 0..1_000_000 {
///     if number % 1_000 == 0 && interrupt::is_interrupted() {
///         break;
///     }
///     sum += number;
/// }
/// ```
#[doc(alias("zsys_interrupted", "zctx_interrupted"))]
#[inline]
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Interrupts the process as a signal does, from within.
///
/// It is to end all threads, or to test that they end. A signal after it is a first one.
///
/// # Errors
/// [`Error::Io`] when the process has no descriptors left.
pub fn raise() -> Result<()> {
    let doorbell = doorbell()?;
    INTERRUPTED.store(true, Ordering::SeqCst);
    doorbell.ring();
    Ok(())
}

/// Forgets the interrupt: blocking calls work again, and the next signal is a first one.
pub fn reset() {
    // In this order: a signal in between is a new one, and its flags stay.
    INTERRUPTED.store(false, Ordering::SeqCst);
    for (_, came) in SIGNALS {
        came.store(false, Ordering::SeqCst);
    }
    if let Some(doorbell) = DOORBELL.get() {
        doorbell.silence();
    }
}

/// Waits until the process is interrupted: what `main` does while its threads and actors work.
///
/// It returns at once if it is already.
///
/// ```standalone_crate
/// use zkit::{ZContext, ZProxy, interrupt};
///
/// let ctx = ZContext::new()?;
/// let frontend = ctx.router("@inproc://clients")?;
/// let backend = ctx.dealer("@inproc://workers")?;
/// let proxy = ZProxy::spawn(&ctx, frontend, backend)?;
/// # interrupt::raise()?;
/// interrupt::wait()?; // until Ctrl-C
/// println!("{:?}", proxy.stop()?);
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # Errors
/// [`Error::Io`] when the process has no descriptors left.
pub fn wait() -> Result<()> {
    match wait_on(&mut [readable(-1)], None, Stop::OnInterrupt) {
        Err(Error::Interrupted) => Ok(()),
        waited => waited.map(drop),
    }
}

/// A descriptor that is readable while the process is interrupted, for an event loop of one's own.
///
/// Only wait on it: reading from it would take the news from everybody else. It may be readable for
/// a moment longer than that, so look at [`is_interrupted`], and call [`reset`] when it is not.
///
/// ```
/// use mio::{Interest, Poll, Token, unix::SourceFd};
/// use std::os::fd::AsRawFd;
///
/// let poll = Poll::new()?;
/// let interrupts = zkit::interrupt::descriptor()?.as_raw_fd();
/// poll.registry().register(&mut SourceFd(&interrupts), Token(0), Interest::READABLE)?;
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # Errors
/// [`Error::Io`] when the process has no descriptors left.
pub fn descriptor() -> Result<BorrowedFd<'static>> {
    Ok(doorbell()?.sound.as_fd())
}

/// Two connected descriptors: whoever rings at one is heard at the other by all who wait.
struct Doorbell {
    ring: UnixStream,
    sound: UnixStream,
    /// One for each signal's handler, until `catch` gives it away.
    for_signals: Mutex<Option<[UnixStream; 2]>>,
    /// Every descriptor that rings, the handlers' too.
    rings: [RawFd; 3],
}

static DOORBELL: OnceLock<Doorbell> = OnceLock::new();

fn doorbell() -> Result<&'static Doorbell> {
    if let Some(doorbell) = DOORBELL.get() {
        return Ok(doorbell);
    }
    let new = Doorbell::new()
        .map_err(|source| Error::Io { what: "cannot watch for interrupts".into(), source })?;
    Ok(DOORBELL.get_or_init(|| {
        ffi::on_fork(separate_child);
        new
    }))
}

/// Gives the child of a fork a doorbell of its own, under the same numbers: its signals are not
/// its parent's.
extern "C" fn separate_child() {
    if let Some(doorbell) = DOORBELL.get() {
        ffi::replace_pair(doorbell.sound.as_raw_fd(), &doorbell.rings);
        if is_interrupted() {
            doorbell.ring();
        }
    }
}

impl Doorbell {
    fn new() -> io::Result<Doorbell> {
        let (ring, sound) = UnixStream::pair()?;
        ring.set_nonblocking(true)?;
        sound.set_nonblocking(true)?;
        let for_signals = [ring.try_clone()?, ring.try_clone()?];
        let rings = [&ring, &for_signals[0], &for_signals[1]].map(AsRawFd::as_raw_fd);
        Ok(Doorbell { ring, sound, for_signals: Mutex::new(Some(for_signals)), rings })
    }

    fn ring(&self) {
        // It fails only when it is full of earlier rings, and then it sounds already.
        let _ = (&self.ring).write(&[1]);
    }

    fn silence(&self) {
        let mut rings = [0; 64];
        while (&self.sound).read(&mut rings).is_ok_and(|read| read > 0) {}
        // Somebody has rung since the caller found that nobody had.
        if INTERRUPTED.load(Ordering::SeqCst) {
            self.ring();
        }
    }
}

/// Who wakes a wait, besides its descriptors and its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    OnInterrupt,
    Never,
}

/// Waits until one of `slots` is ready. The last slot is not the caller's: it is filled in here
/// with the interrupt descriptor. Returns whether any is ready; `false` means the deadline.
///
/// A signal that is none of ours (SIGALRM, SIGCHLD) does not end the wait.
pub(crate) fn wait_on(
    slots: &mut [libc::pollfd],
    deadline: Option<Instant>,
    stop: Stop,
) -> Result<bool> {
    let doorbell = doorbell()?;
    let Some((last, watched)) = slots.split_last_mut() else { return Ok(false) };
    *last = match stop {
        Stop::OnInterrupt => readable(doorbell.sound.as_raw_fd()),
        Stop::Never => readable(-1),
    };
    let watched = watched.len();
    loop {
        if stop == Stop::OnInterrupt && is_interrupted() {
            return Err(Error::Interrupted);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match ffi::poll(slots, left) {
            Ok(0) if left.is_none_or(|left| left.is_zero()) => return Ok(false),
            Ok(_) if slots[..watched].iter().any(|slot| slot.revents != 0) => return Ok(true),
            // Rung for a flag that `reset` has taken back.
            Ok(1..) if !is_interrupted() => doorbell.silence(),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::Wait { reason: errno.into() }),
        }
    }
}

/// A slot that waits for input on `fd`; a negative one is never ready.
pub(crate) fn readable(fd: i32) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}
