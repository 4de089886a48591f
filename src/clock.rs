//! Time as messaging programs need it (CZMQ's `zclock`).

use std::time::{Duration, Instant};

use crate::error::Result;
use crate::ffi;
use crate::interrupt::{self, Stop};

/// The milliseconds on a clock that never goes back, from a point that all processes of this
/// machine share (`zclock_mono`).
///
/// ```
/// let start = zkit::clock::mono();
/// assert!(zkit::clock::mono() >= start);
/// ```
#[doc(alias = "zclock_mono")]
pub fn mono() -> u64 {
    ffi::monotonic().as_millis() as u64
}

/// The microseconds on the same clock as [`mono`] (`zclock_usecs`).
#[doc(alias = "zclock_usecs")]
pub fn usecs() -> u64 {
    ffi::monotonic().as_micros() as u64
}

/// Sleeps as long as told, but not through an [interrupt] (`zclock_sleep`).
///
/// Other signals do not end it.
///
/// ```
/// use std::time::Duration;
///
/// zkit::clock::sleep(Duration::from_millis(1))?;
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # Errors
/// [`Error::Interrupted`](crate::Error::Interrupted) as soon as the process is interrupted, or at
/// once if it is already; [`Error::Io`](crate::Error::Io) when it has no descriptors left to watch
/// for that.
#[doc(alias = "zclock_sleep")]
pub fn sleep(time: Duration) -> Result<()> {
    interrupt::wait_on(&mut [interrupt::readable(-1)], deadline(time), Stop::OnInterrupt)?;
    Ok(())
}

/// When `time` from now is; `None` for a time so long that it never comes.
pub(crate) fn deadline(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}

/// How long it is until a [`deadline`].
pub(crate) fn left(deadline: Option<Instant>) -> Duration {
    deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()))
}
