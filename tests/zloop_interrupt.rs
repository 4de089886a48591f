//! Ctrl-C and loops. The interrupt belongs to the process, so each case has a process of its own.

#![allow(unsafe_code, reason = "there is no safe way to set a signal handler")]

mod common;

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::unistd::{Pid, gettid};
use zkit::{Exit, Repeat, Result, ZContext, ZLoop, interrupt};

use common::{alone, unique};

const LIMIT: Duration = Duration::from_secs(5);
/// What a loaded machine may take to wake everybody; an idle one needs less than 50 ms.
const PROMPTLY: Duration = Duration::from_millis(500);
const NOW: Option<Duration> = Some(Duration::ZERO);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn this_thread() -> libc::pthread_t {
    // SAFETY: it has no preconditions.
    unsafe { libc::pthread_self() }
}

/// Signals a thread that has not been joined.
fn signal_thread(thread: libc::pthread_t, signal: Signal) {
    // SAFETY: the thread is not joined yet, so its handle is valid.
    let result = unsafe { libc::pthread_kill(thread, signal as libc::c_int) };
    assert_eq!(result, 0);
}

/// Waits until the thread sleeps: "pid (name) S ...".
#[track_caller]
fn until_asleep(thread: Pid) {
    let stat = format!("/proc/self/task/{thread}/stat");
    let give_up = Instant::now() + LIMIT;
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") S ")) {
        assert!(Instant::now() < give_up, "it does not sleep");
        thread::yield_now();
    }
}

fn count(calls: &mut u32, _: &mut ZLoop<'_, u32>) -> Result<()> {
    *calls += 1;
    Ok(())
}

fn stop(_: &mut u32, zloop: &mut ZLoop<'_, u32>) -> Result<()> {
    zloop.stop();
    Ok(())
}

/// A socket to read, a timer that is far away, and one that is not for the third.
fn one_of_three(ctx: &ZContext, index: u32, tell: &mpsc::Sender<Pid>) -> (Exit, Instant) {
    let pull = ctx.pull(&format!("@inproc://{}", unique("three"))).unwrap();
    let mut zloop = ZLoop::<u32>::new().unwrap();
    zloop.reader(&pull, |_, _, _| Ok(())).unwrap();
    zloop.timer(Duration::from_secs(3600), Repeat::ONCE, stop).unwrap();
    if index == 2 {
        zloop.timer(ms(200), Repeat::Forever, count).unwrap();
    }
    zloop.turn(&mut 0, NOW).unwrap();
    tell.send(gettid()).unwrap();
    let exit = zloop.run(&mut 0).unwrap();
    let ended = Instant::now();
    // Interrupted it stays.
    assert_eq!(zloop.run(&mut 0).unwrap(), Exit::Interrupted);
    assert_eq!(zloop.turn(&mut 0, None).unwrap(), Some(Exit::Interrupted));
    (exit, ended)
}

#[test]
fn sigint_ends_the_loops_of_all_threads() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let (tell, told) = mpsc::channel();
        let threads: Vec<_> = (0..3)
            .map(|index| {
                let (ctx, tell) = (ctx.clone(), tell.clone());
                thread::spawn(move || one_of_three(&ctx, index, &tell))
            })
            .collect();
        for _ in 0..3 {
            until_asleep(told.recv_timeout(LIMIT).unwrap());
        }
        let sent = Instant::now();
        kill(Pid::this(), Signal::SIGINT).unwrap();
        let mut last = Duration::ZERO;
        for thread in threads {
            let (exit, ended) = thread.join().unwrap();
            assert_eq!(exit, Exit::Interrupted);
            last = last.max(ended.saturating_duration_since(sent));
        }
        println!("SIGINT to the end of the last of 3 loops: {last:?}");
        assert!(last < PROMPTLY, "{last:?}");
    });
}

static STRAY: AtomicU32 = AtomicU32::new(0);

extern "C" fn stray(_: libc::c_int) {
    STRAY.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn other_signals_do_not_end_a_loop() {
    alone(|| {
        let action = SigAction::new(SigHandler::Handler(stray), SaFlags::empty(), SigSet::empty());
        for signal in [Signal::SIGALRM, Signal::SIGUSR1, Signal::SIGWINCH] {
            // SAFETY: the handler only adds to an atomic.
            unsafe { sigaction(signal, &action) }.unwrap();
        }
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://stray").unwrap();
        let (tell, told) = mpsc::channel();
        // The loop is in the thread that is signalled, asleep.
        let looping = thread::spawn(move || {
            let mut zloop = ZLoop::<u32>::new().unwrap();
            zloop.reader(pull, count_messages).unwrap();
            tell.send((gettid(), this_thread(), zloop.waker())).unwrap();
            let mut messages = 0;
            let exit = zloop.run(&mut messages).unwrap();
            (exit, messages)
        });
        fn count_messages(n: &mut u32, _: &mut ZLoop<'_, u32>, _: zkit::ZMsg) -> Result<()> {
            *n += 1;
            Ok(())
        }
        let (task, pthread, waker) = told.recv_timeout(LIMIT).unwrap();
        let push = ctx.push(">inproc://stray").unwrap();
        let give_up = Instant::now() + LIMIT;
        for (index, signal) in [Signal::SIGALRM, Signal::SIGUSR1, Signal::SIGWINCH]
            .into_iter()
            .cycle()
            .take(60)
            .enumerate()
        {
            until_asleep(task);
            signal_thread(pthread, signal);
            while STRAY.load(Ordering::Relaxed) < index as u32 + 1 {
                assert!(Instant::now() < give_up, "no signal came");
                thread::yield_now();
            }
            assert!(!looping.is_finished(), "{signal} ended the loop");
        }
        push.send("still there").unwrap();
        until_asleep(task);
        waker.stop().unwrap();
        let (exit, messages) = looping.join().unwrap();
        assert_eq!(exit, Exit::Stopped);
        assert_eq!(messages, 1);
    });
}

/// A stray signal does not prolong a timer either.
#[test]
fn other_signals_do_not_change_when_timers_fire() {
    alone(|| {
        let action = SigAction::new(SigHandler::Handler(stray), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler only adds to an atomic.
        unsafe { sigaction(Signal::SIGUSR1, &action) }.unwrap();
        let (done, ended) = mpsc::channel::<()>();
        let pthread = this_thread();
        let signaller = thread::spawn(move || {
            while ended.recv_timeout(ms(3)).is_err() {
                signal_thread(pthread, Signal::SIGUSR1);
            }
        });
        let mut zloop = ZLoop::<u32>::new().unwrap();
        zloop.timer(ms(100), Repeat::ONCE, stop).unwrap();
        let start = Instant::now();
        assert_eq!(zloop.run(&mut 0).unwrap(), Exit::Stopped);
        let taken = start.elapsed();
        done.send(()).unwrap();
        signaller.join().unwrap();
        assert!(STRAY.load(Ordering::Relaxed) > 3);
        assert!(taken >= ms(100) && taken < ms(1_100), "{taken:?}");
    });
}

#[test]
fn after_a_reset_a_loop_runs_again() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://again").unwrap();
        let push = ctx.push(">inproc://again").unwrap();
        let mut zloop = ZLoop::<u32>::new().unwrap();
        zloop
            .reader(&pull, |calls, zloop, _| {
                count(calls, zloop)?;
                zloop.stop();
                Ok(())
            })
            .unwrap();
        let mut calls = 0;
        for round in 1..=5 {
            push.send("kept").unwrap();
            kill(Pid::this(), Signal::SIGINT).unwrap();
            let give_up = Instant::now() + LIMIT;
            while !interrupt::is_interrupted() {
                assert!(Instant::now() < give_up);
                thread::yield_now();
            }
            assert_eq!(zloop.run(&mut calls).unwrap(), Exit::Interrupted);
            assert_eq!(calls, round - 1, "no handler is called any more");
            interrupt::reset();
            assert_eq!(zloop.run(&mut calls).unwrap(), Exit::Stopped);
            assert_eq!(calls, round);
        }
        // An idle loop is not kept awake by what was.
        let start = Instant::now();
        while start.elapsed() < ms(50) {
            assert_eq!(zloop.turn(&mut calls, Some(ms(60))).unwrap(), None);
        }
    });
}

/// What came with the interrupt, in the same wake, is there for the run after it.
#[test]
fn an_interrupt_loses_neither_a_task_nor_a_stop() {
    alone(|| {
        // Whether one wake tells of both is a matter of luck.
        for stops in [false, true].into_iter().cycle().take(200) {
            let mut zloop = ZLoop::<u32>::new().unwrap();
            let waker = zloop.waker();
            zloop.turn(&mut 0, NOW).unwrap();
            let (tell, told) = mpsc::channel();
            let me = gettid();
            // While the loop sleeps, so that one wake tells of both.
            let other = thread::spawn(move || {
                told.recv_timeout(LIMIT).unwrap();
                until_asleep(me);
                interrupt::raise().unwrap();
                if stops {
                    waker.stop().unwrap();
                } else {
                    waker.post(stop).unwrap();
                }
            });
            tell.send(()).unwrap();
            assert_eq!(zloop.run(&mut 0).unwrap(), Exit::Interrupted);
            other.join().unwrap();
            interrupt::reset();
            let start = Instant::now();
            zloop.timer(ms(2_000), Repeat::ONCE, |_, _| panic!("lost")).unwrap();
            assert_eq!(zloop.run(&mut 0).unwrap(), Exit::Stopped);
            assert!(start.elapsed() < ms(1_900));
        }
    });
}

#[test]
fn a_nonstop_loop_goes_on_until_it_is_stopped() {
    alone(|| {
        let mut zloop = ZLoop::<u32>::new().unwrap();
        zloop.timer(ms(1), Repeat::ONCE, count).unwrap();
        interrupt::raise().unwrap();
        let mut calls = 0;
        assert_eq!(zloop.run(&mut calls).unwrap(), Exit::Interrupted);
        assert_eq!(calls, 0);
        zloop.set_nonstop(true);
        zloop.timer(ms(20), Repeat::ONCE, stop).unwrap();
        let cpu = || fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        let nanos = |stat: String| stat.split(' ').next().unwrap().parse::<u64>().unwrap();
        let before = nanos(cpu());
        assert_eq!(zloop.run(&mut calls).unwrap(), Exit::Stopped);
        assert!(nanos(cpu()) - before < 10_000_000, "the interrupt keeps it awake");
        assert_eq!(calls, 1);
        // A handler may change its mind.
        zloop
            .timer(ms(1), Repeat::ONCE, |_, zloop| {
                zloop.set_nonstop(false);
                Ok(())
            })
            .unwrap();
        assert_eq!(zloop.run(&mut calls).unwrap(), Exit::Interrupted);
    });
}
