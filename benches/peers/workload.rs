//! What a workload is, and how it is timed.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// One thing that is measured, done in the same way by each peer that can do it.
pub(crate) struct Workload {
    /// Also what the programs of other peers know it by, if they have it.
    pub(crate) name: &'static str,
    /// How many operations make a run of a third of a second or so.
    #[allow(dead_code, reason = "criterion finds out by itself")]
    pub(crate) count: u64,
    /// Whether all its threads share one core, so that waking each other costs what it costs and
    /// not what the system's choice of core makes of it. There is nothing to wait for then, and its
    /// time is taken in CPU time, which other programs on that core do not lengthen.
    pub(crate) pinned: bool,
    pub(crate) zkit: Run,
    pub(crate) raw: Option<Run>,
}

impl Workload {
    #[allow(dead_code, reason = "criterion runs them all alike")]
    pub(crate) fn is_one_of(&self, table: &[Workload]) -> bool {
        table.iter().any(|one| one.name == self.name)
    }
}

/// Does an operation this many times, and says how long that took. What it takes to set up and to
/// clear away does not count.
pub(crate) type Run = fn(u64) -> Time;

/// How long something took on the wall's clock, and how long the process was at work in it.
#[allow(dead_code, reason = "criterion reads the wall's clock only")]
pub(crate) struct Time {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

/// Not inlined: `instructions` counts what is done within it.
#[inline(never)]
pub(crate) fn timed(work: impl FnOnce()) -> Time {
    let (wall, cpu) = (Instant::now(), cpu_time());
    work();
    Time { wall: wall.elapsed(), cpu: cpu_time() - cpu }
}

/// With the CPU time of the thread that calls this, and of no other.
#[allow(dead_code, reason = "only some of the benches have such workloads")]
pub(crate) fn thread_timed(work: impl FnOnce()) -> Time {
    let (wall, cpu) = (Instant::now(), thread_cpu_time());
    work();
    Time { wall: wall.elapsed(), cpu: thread_cpu_time() - cpu }
}

/// Of all threads of this process.
fn cpu_time() -> Duration {
    cpu_time_of(UsageWho::RUSAGE_SELF)
}

#[cfg(target_os = "linux")]
fn thread_cpu_time() -> Duration {
    // A thread's own is as of the last tick, unless the process's has just been brought up to date.
    cpu_time();
    cpu_time_of(UsageWho::RUSAGE_THREAD)
}

#[cfg(not(target_os = "linux"))]
fn thread_cpu_time() -> Duration {
    cpu_time()
}

fn cpu_time_of(who: UsageWho) -> Duration {
    let usage = getrusage(who).expect("getrusage is asked for what it has");
    let micros = (usage.user_time() + usage.system_time()).num_microseconds();
    Duration::from_micros(micros.unsigned_abs())
}

#[cfg(target_os = "linux")]
mod affinity {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;

    /// This thread, and the threads and processes that it starts, on one core until dropped.
    pub(crate) struct Pinned(CpuSet);

    impl Pinned {
        pub(crate) fn new() -> Option<Pinned> {
            let this = Pid::from_raw(0);
            let allowed = sched_getaffinity(this).ok()?;
            // The first core often has the system's interrupts to serve.
            let last = (0..CpuSet::count()).rev().find(|&cpu| allowed.is_set(cpu) == Ok(true))?;
            let mut one = CpuSet::new();
            one.set(last).ok()?;
            sched_setaffinity(this, &one).ok()?;
            Some(Pinned(allowed))
        }
    }

    impl Drop for Pinned {
        fn drop(&mut self) {
            let _ = sched_setaffinity(Pid::from_raw(0), &self.0);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod affinity {
    /// Only Linux lets a process choose its core.
    pub(crate) struct Pinned;

    impl Pinned {
        pub(crate) fn new() -> Pinned {
            Pinned
        }
    }
}

pub(crate) use affinity::Pinned;
