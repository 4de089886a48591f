//! Ctrl-C. The interrupt belongs to the process, so each case has a process of its own.

#![allow(unsafe_code, reason = "there is no safe way to set a handler or to signal a thread")]

mod common;

use std::os::unix::process::ExitStatusExt;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, hint, panic, ptr};

use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, raise, sigaction};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, alarm, fork, gettid};
use zkit::{Error, Events, SocketType, ZContext, ZMonitor, ZPoller, ZSock, clock, interrupt};

use common::{alone, ended_alone};

const HOUR: Duration = Duration::from_secs(3600);
/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(5);
/// What a loaded machine may take to wake everybody; an idle one needs less than 50 ms.
const PROMPTLY: Duration = Duration::from_millis(500);
/// How long to try for a race that only some attempts can hit.
const SOAK: Duration = Duration::from_millis(1_500);

#[track_caller]
fn dies_of(signal: Signal, case: impl FnOnce()) {
    let case = || {
        // A shell starts what it runs in the background with SIGINT ignored.
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // SAFETY: there is no handler that could be called.
        unsafe { sigaction(signal, &default) }.unwrap();
        case();
    };
    if let Some(status) = ended_alone(case) {
        assert_eq!(status.signal(), Some(signal as i32), "{status}");
    }
}

/// A thread that is in a blocking call.
struct Blocked<T> {
    what: &'static str,
    returned: Receiver<(T, Instant)>,
}

/// Starts a thread that makes `call`, and returns once it sleeps there.
fn blocked<T: Send + 'static>(
    what: &'static str,
    call: impl FnOnce() -> T + Send + 'static,
) -> Blocked<T> {
    let (at_work, started) = mpsc::channel();
    let (done, returned) = mpsc::channel();
    thread::spawn(move || {
        at_work.send(gettid()).unwrap();
        let result = call();
        let _ = done.send((result, Instant::now()));
    });
    let stat = format!("/proc/self/task/{}/stat", started.recv_timeout(LIMIT).unwrap());
    let give_up = Instant::now() + LIMIT;
    // "pid (name) S ...": sleeping.
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") S ")) {
        assert!(Instant::now() < give_up, "{what} does not block");
        thread::yield_now();
    }
    Blocked { what, returned }
}

impl<T> Blocked<T> {
    #[track_caller]
    fn result(self) -> (T, Instant) {
        self.returned.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{} hangs", self.what))
    }

    #[track_caller]
    fn assert_blocks(&self) {
        let returned = self.returned.try_recv().map(drop);
        assert_eq!(returned, Err(TryRecvError::Empty), "{} returned", self.what);
    }
}

/// As Ctrl-C does: to the process, in which any thread may get it.
fn signal_process(signal: Signal) {
    kill(Pid::this(), signal).unwrap();
}

#[track_caller]
fn until(what: &str, condition: impl Fn() -> bool) {
    let give_up = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < give_up, "{what}: not within {LIMIT:?}");
        thread::yield_now();
    }
}

/// Whether the interrupt descriptor is readable.
fn sounds() -> bool {
    let descriptor = interrupt::descriptor().unwrap();
    let mut poller = ZPoller::new();
    poller.set_nonstop(true);
    poller.add_fd((), &descriptor, Events::READABLE).unwrap();
    poller.wait(Some(Duration::ZERO)).unwrap().is_some()
}

/// A PUSH at its high-water mark, and the PULL that does not read.
fn full_push(ctx: &ZContext, name: &str) -> (ZSock, ZSock) {
    let pull = ctx.socket(SocketType::Pull).unwrap();
    pull.set_rcvhwm(Some(1)).unwrap();
    pull.bind(name).unwrap();
    let push = ctx.socket(SocketType::Push).unwrap();
    push.set_sndhwm(Some(1)).unwrap();
    push.connect(name).unwrap();
    while push.try_send("full").is_ok() {}
    (push, pull)
}

/// Threads in every kind of call that waits.
fn one_thread_in_each_wait(ctx: &ZContext) -> Vec<Blocked<Error>> {
    let pull = ctx.pull("@inproc://pull").unwrap();
    let sub = ctx.sub("tcp://127.0.0.1:9", "").unwrap();
    let rep = ctx.rep("tcp://127.0.0.1:*").unwrap();
    let router = ctx.router("inproc://router").unwrap();
    let dealer = ctx.dealer("inproc://router").unwrap();
    let pair = ctx.pair("@inproc://pair").unwrap();
    let waiting = ctx.pair(">inproc://pair").unwrap();
    let asking = ctx.rep("inproc://rep").unwrap();
    let req = ctx.req("inproc://rep").unwrap();
    req.send("never answered").unwrap();
    let limited = ctx.socket(SocketType::Pull).unwrap();
    limited.set_rcvtimeo(Some(HOUR)).unwrap();
    let lonely = ctx.socket(SocketType::Dealer).unwrap();
    let (full, unread) = full_push(ctx, "inproc://full");
    let (full_timed, unread_timed) = full_push(ctx, "inproc://full-timed");
    let watched = [ctx.pull("@inproc://0").unwrap(), ctx.pull("@inproc://1").unwrap()];
    let watched_all = ctx.pull("@inproc://2").unwrap();
    vec![
        blocked("PULL recv", move || pull.recv().unwrap_err()),
        blocked("SUB recv_frame", move || sub.recv_frame().unwrap_err()),
        blocked("REP recv_str", move || rep.recv_str().unwrap_err()),
        blocked("ROUTER recv", move || router.recv().unwrap_err()),
        blocked("DEALER recv_timeout", move || dealer.recv_timeout(HOUR).unwrap_err()),
        blocked("PAIR recv_timeout, the longest", move || {
            pair.recv_timeout(Duration::MAX).unwrap_err()
        }),
        blocked("PAIR wait for a signal", move || waiting.wait().unwrap_err()),
        blocked("REQ recv", move || (req.recv().unwrap_err(), asking).0),
        blocked("PULL recv with ZMQ_RCVTIMEO", move || limited.recv().unwrap_err()),
        blocked("DEALER send without a peer", move || lonely.send("x").unwrap_err().error),
        blocked("PUSH send", move || (full.send("x").unwrap_err().error, unread).0),
        blocked("PUSH send_timeout", move || {
            (full_timed.send_timeout(("x", "y"), HOUR).unwrap_err().error, unread_timed).0
        }),
        blocked("clock::sleep", || clock::sleep(HOUR).unwrap_err()),
        blocked("ZPoller::wait", move || {
            let mut poller = ZPoller::new();
            poller.add(0, &watched[0]).unwrap();
            poller.add(1, &watched[1]).unwrap();
            poller.wait(None).unwrap_err()
        }),
        blocked("ZPoller::wait_all", move || {
            let mut poller = ZPoller::new();
            poller.add((), &watched_all).unwrap();
            poller.wait_all(Some(HOUR)).unwrap_err()
        }),
    ]
}

fn every_blocked_thread_returns_on(signal: Signal) {
    let ctx = ZContext::builder().linger(Some(Duration::ZERO)).build().unwrap();
    let threads = one_thread_in_each_wait(&ctx);
    let count = threads.len();
    for thread in &threads {
        thread.assert_blocks();
    }

    let sent = Instant::now();
    signal_process(signal);
    let mut last = Duration::ZERO;
    for thread in threads {
        let what = thread.what;
        let (error, returned) = thread.result();
        assert!(error.is_interrupted(), "{what}: {error}");
        last = last.max(returned.saturating_duration_since(sent));
    }
    println!("{signal} to the return of the last of {count} threads: {last:?}");
    assert!(last < PROMPTLY, "{last:?}");
}

#[test]
fn sigint_ends_every_blocked_thread() {
    alone(|| every_blocked_thread_returns_on(Signal::SIGINT));
}

#[test]
fn sigterm_ends_every_blocked_thread() {
    alone(|| every_blocked_thread_returns_on(Signal::SIGTERM));
}

#[test]
fn raise_ends_every_blocked_thread() {
    alone(|| {
        // Without any handler: raising needs none.
        let ctx = ZContext::builder().signals(false).linger(Some(Duration::ZERO)).build().unwrap();
        let threads = one_thread_in_each_wait(&ctx);
        interrupt::raise().unwrap();
        assert!(interrupt::is_interrupted());
        for thread in threads {
            assert!(thread.result().0.is_interrupted());
        }
    });
}

#[test]
fn a_second_sigint_kills() {
    dies_of(Signal::SIGINT, || {
        let _ctx = ZContext::new().unwrap();
        raise(Signal::SIGINT).unwrap();
        assert!(interrupt::is_interrupted());
        raise(Signal::SIGINT).unwrap();
        unreachable!("killed");
    });
}

#[test]
fn a_second_sigterm_kills() {
    dies_of(Signal::SIGTERM, || {
        let _ctx = ZContext::new().unwrap();
        raise(Signal::SIGTERM).unwrap();
        assert!(interrupt::is_interrupted());
        raise(Signal::SIGTERM).unwrap();
        unreachable!("killed");
    });
}

#[test]
fn a_second_sigint_kills_a_program_that_never_looks() {
    dies_of(Signal::SIGINT, || {
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://stubborn").unwrap();
        pull.set_nonstop(true);
        let thread = blocked("a nonstop recv", move || pull.recv());
        signal_process(Signal::SIGINT);
        until("the first SIGINT", interrupt::is_interrupted);
        thread.assert_blocks();
        signal_process(Signal::SIGINT);
        let _ = thread.result();
    });
}

#[test]
fn sigterm_after_sigint_is_only_noted() {
    dies_of(Signal::SIGTERM, || {
        let _ctx = ZContext::new().unwrap();
        raise(Signal::SIGINT).unwrap();
        raise(Signal::SIGTERM).unwrap();
        assert!(interrupt::is_interrupted());
        println!("alive");
        raise(Signal::SIGTERM).unwrap();
        unreachable!("killed");
    });
}

#[test]
fn after_a_raise_within_the_first_signal_does_not_kill() {
    alone(|| {
        let _ctx = ZContext::new().unwrap();
        interrupt::raise().unwrap();
        raise(Signal::SIGINT).unwrap();
        assert!(interrupt::is_interrupted());
    });
}

#[test]
fn signals_false_leaves_sigint_alone() {
    dies_of(Signal::SIGINT, || {
        let ctx = ZContext::builder().signals(false).build().unwrap();
        let pull = ctx.pull("@inproc://jobs").unwrap();
        assert!(pull.try_recv().unwrap_err().is_would_block());
        raise(Signal::SIGINT).unwrap();
        unreachable!("killed");
    });
}

#[test]
fn signals_false_leaves_sigterm_alone() {
    dies_of(Signal::SIGTERM, || {
        let _ctx = ZContext::builder().signals(false).build().unwrap();
        raise(Signal::SIGTERM).unwrap();
        unreachable!("killed");
    });
}

#[test]
fn catch_makes_up_for_signals_false() {
    alone(|| {
        let ctx = ZContext::builder().signals(false).build().unwrap();
        let pull = ctx.pull("@inproc://jobs").unwrap();
        interrupt::catch().unwrap();
        interrupt::catch().unwrap();
        raise(Signal::SIGINT).unwrap();
        assert!(pull.recv().unwrap_err().is_interrupted());
    });
}

#[test]
fn many_contexts_catch_signals_once() {
    alone(|| {
        let contexts: Vec<_> = (0..10).map(|_| ZContext::new().unwrap()).collect();
        raise(Signal::SIGINT).unwrap();
        assert!(interrupt::is_interrupted());
        drop(contexts);
        interrupt::reset();
        // Handlers stay when the contexts are gone.
        raise(Signal::SIGINT).unwrap();
        assert!(interrupt::is_interrupted());
    });
}

/// Forks a child whose first `catch` has only so many descriptors left. It fails three times with
/// them and is then repeated with all that it wants. Returns how the child ended.
fn repeat_failed_catch(left: usize) -> WaitStatus {
    const ENOUGH: i32 = 1;
    // SAFETY: the child calls nothing that needs its lost threads, and ends with _exit.
    if let ForkResult::Parent { child } = unsafe { fork() }.unwrap() {
        return waitpid(child, None).unwrap();
    }
    alarm::set(10);
    let end = panic::catch_unwind(|| {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 64, hard).unwrap();
        let mut taken = Vec::new();
        while let Ok(file) = fs::File::open("/dev/null") {
            taken.push(file);
        }
        taken.truncate(taken.len() - left);
        for _ in 0..3 {
            match interrupt::catch() {
                Ok(()) => return ENOUGH,
                Err(error) => assert!(matches!(error, Error::Io { .. }), "{error}"),
            }
        }
        let free: Vec<_> = (0..64).map_while(|_| fs::File::open("/dev/null").ok()).collect();
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        interrupt::catch().unwrap();
        raise(Signal::SIGINT).unwrap();
        raise(Signal::SIGTERM).unwrap();
        assert!(interrupt::is_interrupted() && sounds());
        // The two ends of the interrupt descriptor it may have kept, and nothing else.
        assert!(free.len() + 2 >= left, "of {left} descriptors {} were left", free.len());
        0
    });
    // SAFETY: ends this process, whatever its state.
    unsafe { libc::_exit(end.unwrap_or(101)) }
}

#[test]
fn a_catch_that_failed_can_be_repeated() {
    alone(|| {
        let ends: Vec<_> = (0..20)
            .map(repeat_failed_catch)
            .take_while(|end| !matches!(end, WaitStatus::Exited(_, 1)))
            .collect();
        assert!(!ends.is_empty());
        for (left, end) in ends.iter().enumerate() {
            assert!(matches!(end, WaitStatus::Exited(_, 0)), "with {left} left: {end:?}");
        }
    });
}

#[test]
fn a_handler_of_the_program_is_still_called() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn on_signal(_: i32) {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }
    alone(|| {
        let action =
            SigAction::new(SigHandler::Handler(on_signal), SaFlags::empty(), SigSet::empty());
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            // SAFETY: the handler only adds to an atomic.
            unsafe { sigaction(signal, &action) }.unwrap();
        }
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://jobs").unwrap();
        let thread = blocked("recv", move || pull.recv());
        raise(Signal::SIGINT).unwrap();
        assert_eq!(CALLS.load(Ordering::SeqCst), 1);
        assert!(thread.result().0.unwrap_err().is_interrupted());
        raise(Signal::SIGTERM).unwrap();
        assert_eq!(CALLS.load(Ordering::SeqCst), 2);
        interrupt::reset();
        raise(Signal::SIGINT).unwrap();
        assert_eq!(CALLS.load(Ordering::SeqCst), 3);
    });
}

static STRAYS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn stray(_: i32) {
    STRAYS.fetch_add(1, Ordering::SeqCst);
}

/// Makes `call` in a thread that gets a signal every half millisecond which is none of zkit's.
fn among_strays<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    // Without SA_RESTART, so that everything that can be broken off is.
    let action = SigAction::new(SigHandler::Handler(stray), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler only adds to an atomic.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.unwrap();
    let (done, result) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        done.send(call()).unwrap();
        // Stays until nobody signals it any more.
        let _ = released.recv();
    });
    let give_up = Instant::now() + LIMIT;
    let result = loop {
        // SAFETY: the thread lives until `release` is dropped.
        unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) };
        match result.recv_timeout(Duration::from_micros(500)) {
            Ok(result) => break result,
            Err(_) => assert!(Instant::now() < give_up, "hangs"),
        }
    };
    drop(release);
    thread.join().unwrap();
    result
}

/// How often a wait must have been broken off for a test to mean something.
fn assert_many_strays() {
    let strays = STRAYS.swap(0, Ordering::SeqCst);
    println!("{strays} stray signals");
    assert!(strays > 3, "{strays}");
    assert!(!interrupt::is_interrupted());
}

#[test]
fn a_stray_signal_ends_no_recv() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://jobs").unwrap();
        let push = ctx.push(">inproc://jobs").unwrap();
        let sender = thread::spawn(move || {
            until("strays", || STRAYS.load(Ordering::SeqCst) > 100);
            push.send(("both", "frames")).unwrap();
        });
        assert_eq!(among_strays(move || pull.recv()).unwrap(), ("both", "frames").into());
        sender.join().unwrap();
        assert_many_strays();
    });
}

#[test]
fn a_stray_signal_ends_no_send() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let (push, pull) = full_push(&ctx, "inproc://full");
        let receiver = thread::spawn(move || {
            until("strays", || STRAYS.load(Ordering::SeqCst) > 100);
            while pull.recv_str_timeout(LIMIT).unwrap() != "after all" {}
        });
        among_strays(move || push.send("after all")).unwrap();
        receiver.join().unwrap();
        assert_many_strays();
    });
}

#[test]
fn a_stray_signal_changes_no_timeout() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let asked = Duration::from_millis(150);
        let timed = |what: &str, call: Box<dyn FnOnce() -> bool + Send>| {
            let taken = among_strays(move || {
                let start = Instant::now();
                assert!(call());
                start.elapsed()
            });
            println!("{what}: {taken:?}");
            assert!(taken >= asked, "{what}: {taken:?}");
            assert!(taken < asked + PROMPTLY, "{what}: {taken:?}");
            assert_many_strays();
        };

        let pull = ctx.pull("@tcp://127.0.0.1:*").unwrap();
        timed("recv_timeout", Box::new(move || pull.recv_timeout(asked).unwrap_err().is_timeout()));
        let pull = ctx.pull("@tcp://127.0.0.1:*").unwrap();
        pull.set_rcvtimeo(Some(asked)).unwrap();
        timed("ZMQ_RCVTIMEO", Box::new(move || pull.recv().unwrap_err().is_timeout()));
        let (push, unread) = full_push(&ctx, "inproc://full");
        timed(
            "send_timeout",
            Box::new(move || push.send_timeout("x", asked).unwrap_err().error.is_timeout()),
        );
        drop(unread);
        timed("clock::sleep", Box::new(move || clock::sleep(asked).is_ok()));
        let pull = ctx.pull("@tcp://127.0.0.1:*").unwrap();
        timed(
            "ZPoller::wait",
            Box::new(move || {
                let mut poller = ZPoller::new();
                poller.add((), &pull).unwrap();
                poller.wait(Some(asked)).unwrap().is_none()
            }),
        );
    });
}

/// Whatever a socket's calls ask of libzmq begins with a look at its mailbox, which a signal may
/// break off.
#[test]
fn a_stray_signal_fails_no_call_that_does_not_wait() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let socket = ctx.socket(SocketType::Pair).unwrap();
        let peer = ctx.pair("@inproc://peer").unwrap();
        among_strays(move || {
            while STRAYS.load(Ordering::SeqCst) < 200 {
                socket.bind("inproc://strays").unwrap();
                socket.unbind("inproc://strays").unwrap();
                socket.connect("inproc://peer").unwrap();
                socket.disconnect("inproc://peer").unwrap();
                drop(ZMonitor::new(&socket).unwrap());
                assert!(peer.try_recv().unwrap_err().is_would_block());
            }
        });
        assert_many_strays();
    });
}

#[test]
fn a_stray_signal_ends_no_drop_of_a_context() {
    alone(|| {
        let linger = Duration::from_millis(150);
        let ctx = ZContext::builder().linger(Some(linger)).build().unwrap();
        let push = ctx.push("tcp://127.0.0.1:9").unwrap();
        push.send("never delivered").unwrap();
        let taken = among_strays(move || {
            let start = Instant::now();
            drop((push, ctx));
            start.elapsed()
        });
        // libzmq, which measures this time, drops fractions of its milliseconds.
        assert!(taken > linger * 9 / 10 && taken < linger + PROMPTLY, "{taken:?}");
        assert_many_strays();
    });
}

#[test]
fn calls_that_would_not_wait_return_interrupted_too() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://jobs").unwrap();
        let push = ctx.push(">inproc://jobs").unwrap();
        push.send("waiting").unwrap();
        raise(Signal::SIGINT).unwrap();

        assert!(pull.recv().unwrap_err().is_interrupted());
        assert!(pull.recv_timeout(HOUR).unwrap_err().is_interrupted());
        assert!(pull.recv_timeout(Duration::ZERO).unwrap_err().is_interrupted());
        assert!(pull.recv_frame().unwrap_err().is_interrupted());
        assert!(pull.recv_frame_timeout(HOUR).unwrap_err().is_interrupted());
        assert!(pull.recv_str().unwrap_err().is_interrupted());
        assert!(pull.recv_str_timeout(HOUR).unwrap_err().is_interrupted());
        assert!(pull.wait().unwrap_err().is_interrupted());
        assert!(push.signal(0).unwrap_err().is_interrupted());
        assert!(push.send("x").unwrap_err().error.is_interrupted());
        let failed = push.send_timeout(("to", "keep"), HOUR).unwrap_err();
        assert!(failed.error.is_interrupted() && failed.error.is_ending());
        assert_eq!(failed.into_message(), ("to", "keep").into());
        assert!(clock::sleep(HOUR).unwrap_err().is_interrupted());
        let mut poller = ZPoller::new();
        poller.add((), &pull).unwrap();
        assert!(poller.wait(None).unwrap_err().is_interrupted());
        assert!(poller.wait(Some(Duration::ZERO)).unwrap_err().is_interrupted());
        assert!(poller.wait_all(Some(HOUR)).unwrap_err().is_interrupted());
        // A socket made afterwards is no exception.
        let late = ctx.pull("@inproc://late").unwrap();
        assert!(late.recv().unwrap_err().is_interrupted());
    });
}

#[test]
fn try_calls_go_on_while_interrupted() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let server = ctx.rep("").unwrap();
        let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
        let client = ctx.req(&endpoint).unwrap();
        raise(Signal::SIGTERM).unwrap();

        let patiently = |socket: &ZSock| {
            until("a message", || socket.events().unwrap().is_readable());
            socket.try_recv_str().unwrap()
        };
        assert!(server.try_recv().unwrap_err().is_would_block());
        client.try_send("goodbye").unwrap();
        assert_eq!(patiently(&server), "goodbye");
        server.try_send("farewell").unwrap();
        assert_eq!(patiently(&client), "farewell");
        assert!(client.try_recv_frame().is_err());
        assert!(interrupt::is_interrupted());
    });
}

#[test]
fn nothing_is_lost_by_an_interrupt() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://jobs").unwrap();
        let push = ctx.push(">inproc://jobs").unwrap();
        for number in 0..10_u32 {
            push.send((number, "body")).unwrap();
        }
        for number in 0..10 {
            raise(Signal::SIGINT).unwrap();
            assert!(pull.recv().unwrap_err().is_interrupted());
            let mut poller = ZPoller::new();
            poller.add((), &pull).unwrap();
            assert!(poller.wait(None).unwrap_err().is_interrupted());
            interrupt::reset();
            assert_eq!(poller.wait(Some(LIMIT)).unwrap(), Some(()));
            let mut msg = pull.recv_timeout(LIMIT).unwrap();
            assert_eq!(msg.len(), 2);
            assert_eq!(msg.pop_u32().unwrap(), number);
        }
        assert!(pull.try_recv().unwrap_err().is_would_block());

        // Sent again after the interrupt, it comes once.
        let (push, pull) = full_push(&ctx, "inproc://full");
        let thread = blocked("send", move || (push.send("precious").unwrap_err(), push));
        raise(Signal::SIGINT).unwrap();
        let (failed, push) = thread.result().0;
        assert!(failed.error.is_interrupted());
        interrupt::reset();
        while pull.recv_str_timeout(Duration::from_millis(20)).is_ok_and(|text| text == "full") {}
        push.send(failed.into_message()).unwrap();
        assert_eq!(pull.recv_str_timeout(LIMIT).unwrap(), "precious");
        assert!(pull.try_recv().unwrap_err().is_would_block());
    });
}

#[test]
fn after_reset_the_next_signal_is_a_first_one() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://jobs").unwrap();
        let mut pull = Some(pull);
        for signal in [Signal::SIGINT, Signal::SIGINT, Signal::SIGTERM, Signal::SIGTERM] {
            let own = pull.take().unwrap();
            let thread = blocked("recv", move || (own.recv().unwrap_err(), own));
            signal_process(signal);
            let (error, own) = thread.result().0;
            assert!(error.is_interrupted());
            // The descriptor is rung last; only then has all of the signal been handled.
            until("the descriptor", sounds);
            interrupt::reset();
            assert!(!interrupt::is_interrupted());
            assert!(own.recv_timeout(Duration::from_millis(1)).unwrap_err().is_timeout());
            pull = Some(own);
        }
    });
}

#[test]
fn nonstop_sockets_and_pollers_go_on() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://socket").unwrap();
        pull.set_nonstop(true);
        let watched = ctx.pull("@inproc://poller").unwrap();
        watched.set_nonstop(true);
        let (full, reader) = full_push(&ctx, "inproc://full");
        full.set_nonstop(true);
        let stops = ctx.pull("@inproc://stops").unwrap();
        let senders =
            [ctx.push(">inproc://socket").unwrap(), ctx.push(">inproc://poller").unwrap()];

        let nonstop = blocked("nonstop recv", move || pull.recv_str());
        let polling = blocked("nonstop poller", move || {
            let mut poller = ZPoller::new();
            poller.set_nonstop(true);
            poller.add("watched", &watched).unwrap();
            (poller.wait(None).unwrap(), watched.recv_str())
        });
        let sending = blocked("nonstop send", move || full.send("more"));
        let ordinary = blocked("recv", move || stops.recv());

        signal_process(Signal::SIGINT);
        assert!(ordinary.result().0.unwrap_err().is_interrupted());
        nonstop.assert_blocks();
        polling.assert_blocks();
        sending.assert_blocks();

        for sender in &senders {
            sender.try_send("work").unwrap();
        }
        assert_eq!(nonstop.result().0.unwrap(), "work");
        let (key, text) = polling.result().0;
        assert_eq!((key, text.unwrap().as_str()), (Some("watched"), "work"));
        reader.set_nonstop(true);
        while reader.recv_str_timeout(LIMIT).unwrap() != "more" {}
        sending.result().0.unwrap();
    });
}

#[test]
fn nonstop_waits_keep_their_time_while_interrupted() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://quiet").unwrap();
        pull.set_nonstop(true);
        raise(Signal::SIGINT).unwrap();
        let asked = Duration::from_millis(30);
        let start = Instant::now();
        assert!(pull.recv_timeout(asked).unwrap_err().is_timeout());
        assert!(start.elapsed() >= asked);
        let mut poller = ZPoller::new();
        poller.set_nonstop(true);
        poller.add((), &pull).unwrap();
        let start = Instant::now();
        assert_eq!(poller.wait(Some(asked)).unwrap(), None);
        assert!(start.elapsed() >= asked);
        // And back.
        poller.set_nonstop(false);
        pull.set_nonstop(false);
        assert!(poller.wait(Some(asked)).unwrap_err().is_interrupted());
        assert!(pull.recv_timeout(asked).unwrap_err().is_interrupted());
    });
}

#[test]
fn the_descriptor_is_readable_from_the_signal_until_reset() {
    alone(|| {
        assert!(!sounds());
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://jobs").unwrap();
        for _ in 0..3 {
            assert!(!sounds());
            raise(Signal::SIGINT).unwrap();
            assert!(sounds());
            raise(Signal::SIGTERM).unwrap();
            // Whoever was woken leaves it as it is.
            assert!(pull.recv().unwrap_err().is_interrupted());
            assert!(clock::sleep(HOUR).unwrap_err().is_interrupted());
            assert!(sounds());
            interrupt::reset();
            assert!(!sounds());
        }
        interrupt::reset();
        assert!(!sounds());

        let waiting = blocked("an event loop of one's own", || {
            let descriptor = interrupt::descriptor().unwrap();
            let mut poller = ZPoller::new();
            poller.set_nonstop(true);
            poller.add_fd("signal", &descriptor, Events::READABLE).unwrap();
            poller.wait(None).unwrap()
        });
        interrupt::raise().unwrap();
        assert_eq!(waiting.result().0, Some("signal"));
    });
}

#[test]
fn more_signals_than_the_descriptor_holds_do_no_harm() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://jobs").unwrap();
        let start = Instant::now();
        while start.elapsed() < SOAK {
            interrupt::raise().unwrap();
        }
        assert!(pull.recv().unwrap_err().is_interrupted());
        raise(Signal::SIGINT).unwrap();
        assert!(sounds());
        interrupt::reset();
        assert!(!sounds());
        assert!(pull.recv_timeout(Duration::from_millis(1)).unwrap_err().is_timeout());
        raise(Signal::SIGINT).unwrap();
        assert!(sounds());
    });
}

#[test]
fn a_busy_receiver_ends() {
    alone(|| {
        let ctx = ZContext::builder().linger(Some(Duration::ZERO)).build().unwrap();
        let pull = ctx.pull("@inproc://busy").unwrap();
        let push = ctx.push(">inproc://busy").unwrap();
        let received = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let feeder = thread::spawn({
            let stop = stop.clone();
            // Without looking at the interrupt, so that there is always something to receive.
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let _ = push.try_send("again");
                }
            }
        });
        let (done, ended) = mpsc::channel();
        thread::spawn({
            let received = received.clone();
            move || {
                let error = loop {
                    match pull.recv() {
                        Ok(_) => received.fetch_add(1, Ordering::Relaxed),
                        Err(error) => break error,
                    };
                };
                done.send((error, Instant::now())).unwrap();
            }
        });
        until("traffic", || received.load(Ordering::Relaxed) > 10_000);
        let sent = Instant::now();
        signal_process(Signal::SIGINT);
        let (error, at) = ended.recv_timeout(LIMIT).expect("the receiver ends");
        println!("a busy receiver: {:?}", at.saturating_duration_since(sent));
        assert!(error.is_interrupted());
        assert!(at.saturating_duration_since(sent) < PROMPTLY);
        stop.store(true, Ordering::Relaxed);
        feeder.join().unwrap();
    });
}

#[test]
fn a_busy_publisher_ends() {
    alone(|| {
        let ctx = ZContext::builder().linger(Some(Duration::ZERO)).build().unwrap();
        let publisher = ctx.pub_("@inproc://news").unwrap();
        let _subscriber = ctx.sub(">inproc://news", "").unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let (done, ended) = mpsc::channel();
        thread::spawn({
            let count = count.clone();
            move || {
                let error = loop {
                    match publisher.send("news") {
                        Ok(()) => count.fetch_add(1, Ordering::Relaxed),
                        Err(failed) => break failed.error,
                    };
                };
                done.send((error, Instant::now())).unwrap();
            }
        });
        until("traffic", || count.load(Ordering::Relaxed) > 10_000);
        let sent = Instant::now();
        signal_process(Signal::SIGTERM);
        let (error, at) = ended.recv_timeout(LIMIT).expect("the publisher ends");
        println!("a busy publisher: {:?}", at.saturating_duration_since(sent));
        assert!(error.is_interrupted());
        assert!(at.saturating_duration_since(sent) < PROMPTLY);
    });
}

/// Threads that block anew in every round and count their returns.
struct Waiters {
    threads: usize,
    start: Arc<Barrier>,
    returned: Arc<AtomicUsize>,
}

impl Waiters {
    fn new(ctx: &ZContext, threads: usize) -> Waiters {
        let start = Arc::new(Barrier::new(threads + 1));
        let returned = Arc::new(AtomicUsize::new(0));
        for index in 0..threads {
            let pull = ctx.pull(&format!("@inproc://waiter-{index}")).unwrap();
            let (start, returned) = (start.clone(), returned.clone());
            thread::spawn(move || {
                loop {
                    start.wait();
                    assert!(pull.recv().unwrap_err().is_interrupted());
                    returned.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        Waiters { threads, start, returned }
    }

    fn start_round(&self) {
        self.returned.store(0, Ordering::SeqCst);
        self.start.wait();
    }

    #[track_caller]
    fn end_round(&self, round: u32) {
        let give_up = Instant::now() + Duration::from_secs(2);
        while self.returned.load(Ordering::SeqCst) < self.threads {
            if Instant::now() > give_up {
                panic!(
                    "round {round}: {} of {} threads hang; interrupted: {}, the descriptor \
                     sounds: {}",
                    self.threads - self.returned.load(Ordering::SeqCst),
                    self.threads,
                    interrupt::is_interrupted(),
                    sounds()
                );
            }
            thread::yield_now();
        }
    }
}

/// Lets a little time pass, so that each round meets the others at another place.
fn linger_a_little(nanos: u64) {
    let until = Instant::now() + Duration::from_nanos(fastrand::u64(0..=nanos));
    while Instant::now() < until {
        hint::spin_loop();
    }
}

/// A thread that is woken by an interrupt that `reset` takes back meanwhile must not silence the
/// next one, for which others still sleep.
#[test]
fn an_interrupt_right_after_reset_stays_heard() {
    alone(|| {
        // Looks again and again, so that it is often woken just then.
        thread::spawn(|| {
            loop {
                let _ = clock::sleep(Duration::ZERO);
            }
        });
        let start = Instant::now();
        while start.elapsed() < SOAK {
            interrupt::raise().unwrap();
            linger_a_little(1_000);
            interrupt::reset();
            interrupt::raise().unwrap();
            linger_a_little(2_000);
            assert!(interrupt::is_interrupted());
            // Silenced for what was taken back, it is rung again at once.
            until("the descriptor of an interrupt", sounds);
            interrupt::reset();
        }
    });
}

#[test]
fn reset_while_a_signal_comes_leaves_no_half_interrupt() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let waiters = Waiters::new(&ctx, 2);
        let (order, orders) = mpsc::channel();
        let (done, handled) = mpsc::channel();
        thread::spawn(move || {
            for signal in orders {
                linger_a_little(10_000);
                raise(signal).unwrap();
                done.send(()).unwrap();
            }
        });
        for round in 0..1_000 {
            let signal = [Signal::SIGINT, Signal::SIGTERM][fastrand::usize(..2)];
            waiters.start_round();
            // Raised, not signalled: two signals without a reset between them would kill.
            interrupt::raise().unwrap();
            order.send(signal).unwrap();
            linger_a_little(15_000);
            interrupt::reset();
            handled.recv_timeout(LIMIT).unwrap();
            if !interrupt::is_interrupted() {
                // Reset has taken the signal back, and all of it: this is not a second one.
                raise(signal).unwrap();
            }
            waiters.end_round(round);
            assert!(interrupt::is_interrupted() && sounds(), "round {round}");
            interrupt::reset();
        }
    });
}

/// A signal that comes in the middle of `reset` is forgotten or not, but not by halves: when it
/// does not interrupt, the next one must not be taken for its repetition.
///
/// The middle is some tens of instructions wide, so `reset` is stepped through, and the signal sent
/// after every few of them.
#[test]
fn a_signal_in_the_middle_of_reset_is_not_half_forgotten() {
    alone(|| {
        interrupt::catch().unwrap();
        let mut steps = 0;
        while let Some(status) = signal_in_reset(steps) {
            if matches!(status, WaitStatus::Exited(_, NOT_TRACED)) {
                return eprintln!("skipped: the system does not let a process be traced");
            }
            assert!(matches!(status, WaitStatus::Exited(_, 0)), "after {steps} steps: {status:?}");
            steps += STRIDE;
        }
        println!("tried after every {STRIDE} of {steps} instructions");
        assert!(steps > 0);
    });
}

/// Each step is a child of its own that takes all the steps before it again.
const STRIDE: usize = 5;

const NOT_TRACED: i32 = 77;

/// Forks a child that calls `reset` and gets SIGINT after so many instructions of it. Returns how
/// it ended, or nothing when `reset` was over before. SIGSTOP marks its beginning and its end.
fn signal_in_reset(steps: usize) -> Option<WaitStatus> {
    let nothing: *mut libc::c_void = ptr::null_mut();
    // SAFETY: the child calls nothing that needs its lost threads, and ends with _exit.
    let child = match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            // SAFETY: asks the parent to trace this process, with no memory involved; or ends it.
            unsafe {
                if libc::ptrace(libc::PTRACE_TRACEME, 0, nothing, nothing) != 0 {
                    libc::_exit(NOT_TRACED);
                }
            }
            raise(Signal::SIGSTOP).unwrap();
            interrupt::reset();
            raise(Signal::SIGSTOP).unwrap();
            if !interrupt::is_interrupted() {
                raise(Signal::SIGINT).unwrap();
            }
            // SAFETY: ends this process, whatever its state.
            unsafe { libc::_exit(i32::from(!interrupt::is_interrupted())) }
        }
    };
    let trace = |request, data: i32| {
        // SAFETY: the child is stopped, and the requests below touch none of this process's memory.
        assert_eq!(unsafe { libc::ptrace(request, child.as_raw(), nothing, data) }, 0);
    };
    let go_on = |request, signal: Option<Signal>| {
        trace(request, signal.map_or(0, |signal| signal as i32));
        waitpid(child, None).unwrap()
    };
    let mut status = waitpid(child, None).unwrap();
    if status != WaitStatus::Stopped(child, Signal::SIGSTOP) {
        return Some(status);
    }
    // It does not outlive this process.
    trace(libc::PTRACE_SETOPTIONS, libc::PTRACE_O_EXITKILL);
    for _ in 0..steps {
        status = go_on(libc::PTRACE_SINGLESTEP, None);
        if status == WaitStatus::Stopped(child, Signal::SIGSTOP) {
            kill(child, Signal::SIGKILL).unwrap();
            waitpid(child, None).unwrap();
            return None;
        }
    }
    status = go_on(libc::PTRACE_CONT, Some(Signal::SIGINT));
    while let WaitStatus::Stopped(_, signal) = status {
        // What it sends to itself it gets, but for the mark.
        status = go_on(libc::PTRACE_CONT, (signal != Signal::SIGSTOP).then_some(signal));
    }
    Some(status)
}
