//! Contexts: their settings, their limits, and how they end.

mod common;

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::{child, child_role, nobody, unique, wait_for_parent, within};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, raise};
use tempfile::{TempDir, tempdir};
use zkit::{Error, SocketType, ZContext, ZSock};

/// More than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);
/// How much later than promised something may happen on a busy machine.
const SLACK: Duration = Duration::from_secs(5);

fn context() -> ZContext {
    ZContext::builder().signals(false).build().expect("a context")
}

fn with_linger(linger: Option<Duration>) -> ZContext {
    ZContext::builder().signals(false).linger(linger).build().expect("a context")
}

fn inproc(name: &str) -> String {
    format!("inproc://{}", unique(name))
}

fn ipc(name: &str) -> (TempDir, String) {
    let dir = tempdir().expect("a directory");
    let endpoint = format!("ipc://{}", dir.path().join(name).display());
    (dir, endpoint)
}

/// How long it takes to drop `value`.
#[track_caller]
fn time_to_drop(value: impl Send + 'static) -> Duration {
    let start = Instant::now();
    within(LONG, "a drop", move || drop(value));
    start.elapsed()
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// The system lists a thread for a moment after it was joined.
#[track_caller]
fn settles_at<T: PartialEq + std::fmt::Debug>(expected: T, now: impl Fn() -> T) {
    let start = Instant::now();
    while now() != expected {
        assert!(start.elapsed() < LONG / 2, "{:?} and not {expected:?}", now());
        thread::yield_now();
    }
}

#[test]
fn contexts_are_shared_between_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<ZContext>();
    let ctx = context();
    let endpoint = inproc("shared");
    let pull = ctx.pull(&endpoint).unwrap();
    thread::scope(|scope| {
        for number in 0..8_u32 {
            let (ctx, endpoint) = (&ctx, &endpoint);
            scope.spawn(move || ctx.push(endpoint).unwrap().send(number).unwrap());
        }
    });
    let mut numbers: Vec<u32> =
        (0..8).map(|_| pull.recv_timeout(LONG).unwrap().pop_u32().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..8).collect::<Vec<_>>());
}

#[test]
fn clones_are_the_same_context() {
    let ctx = context();
    let endpoint = inproc("clones");
    let pull = ctx.clone().pull(&endpoint).unwrap();
    let push = ctx.clone().push(&endpoint).unwrap();
    push.send("hello").unwrap();
    assert_eq!(pull.recv_timeout(LONG).unwrap(), "hello".into());
    // Other contexts have names of their own.
    context().pull(&endpoint).unwrap();
}

#[test]
fn a_context_lives_as_long_as_its_sockets() {
    let ctx = context();
    let endpoint = inproc("lives");
    let pull = ctx.pull(&endpoint).unwrap();
    let push = ctx.push(&endpoint).unwrap();
    assert!(time_to_drop(ctx) < SLACK);
    push.send("still here").unwrap();
    assert_eq!(pull.recv_timeout(LONG).unwrap(), "still here".into());
    let tcp = pull.bind("tcp://127.0.0.1:*").unwrap();
    push.connect(&tcp).unwrap();
    assert!(time_to_drop((push, pull)) < SLACK);
}

#[test]
fn a_setting_out_of_range_is_refused() {
    let build = |change: fn(zkit::ContextBuilder) -> zkit::ContextBuilder| {
        change(ZContext::builder().signals(false)).build()
    };
    for (result, words) in [
        (build(|b| b.io_threads(u32::MAX)), &["4294967295 I/O threads"][..]),
        (build(|b| b.io_threads(257)), &["257 I/O threads"]),
        (build(|b| b.max_sockets(0)), &["0 sockets"]),
        (build(|b| b.max_sockets(u32::MAX)), &["4294967295 sockets"]),
        (build(|b| b.linger(Some(Duration::MAX))), &["longer than libzmq can hold"]),
    ] {
        let error = result.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Context { .. }), "{error:?}");
        assert!(text.starts_with("cannot make a context: "), "{text}");
        for word in words {
            assert!(text.contains(word), "{word:?} in {text:?}");
        }
    }
    build(|b| b.max_sockets(1_000_000).linger(Some(Duration::from_secs(3600)))).unwrap();
}

#[test]
fn io_threads_are_as_many_as_asked_for() {
    const TEST: &str = "io_threads_are_as_many_as_asked_for";
    if child_role().is_some() {
        for count in [0, 1, 3] {
            let before = threads();
            let ctx = ZContext::builder().io_threads(count).signals(false).build().unwrap();
            let pull = ctx.pull("").unwrap();
            assert_eq!(threads(), before + count as usize + 1, "and one to close sockets");
            drop((pull, ctx));
            settles_at(before, threads);
        }
        return;
    }
    // In a process of its own, where there is no other context.
    child(TEST, "child").end(LONG);
}

#[test]
fn without_io_threads_only_inproc_works() {
    let ctx = ZContext::builder().io_threads(0).signals(false).build().unwrap();
    let endpoint = inproc("no-threads");
    let pull = ctx.pull(&endpoint).unwrap();
    let push = ctx.push(&endpoint).unwrap();
    push.send("hello").unwrap();
    assert_eq!(pull.recv_timeout(LONG).unwrap(), "hello".into());
    let error = pull.bind("tcp://127.0.0.1:*").unwrap_err();
    assert!(error.to_string().contains("no I/O thread"), "{error}");
    let error = push.connect("tcp://127.0.0.1:5560").unwrap_err();
    assert!(error.to_string().contains("no I/O thread"), "{error}");
    assert!(time_to_drop((ctx, pull, push)) < SLACK);
}

#[test]
fn signals_are_caught_or_left_alone() {
    const TEST: &str = "signals_are_caught_or_left_alone";
    if let Some(role) = child_role() {
        let ctx = ZContext::builder().signals(role == "caught").build().unwrap();
        let pull = ctx.pull("").unwrap();
        raise(Signal::SIGTERM).unwrap();
        assert!(pull.recv_timeout(LONG).unwrap_err().is_interrupted());
        return;
    }
    child(TEST, "caught").end(LONG);
    let (status, _) = child(TEST, "left alone").outcome(LONG);
    assert_eq!(status.signal(), Some(Signal::SIGTERM as i32));
}

#[test]
fn the_limit_of_sockets_is_an_error_and_no_trap() {
    let ctx = ZContext::builder().max_sockets(3).signals(false).build().unwrap();
    let mut sockets: Vec<ZSock> = (0..3).map(|_| ctx.dealer("").unwrap()).collect();
    for _ in 0..3 {
        let start = Instant::now();
        let error = ctx.router("").unwrap_err();
        assert!(start.elapsed() < Duration::from_millis(900), "there is nothing to wait for");
        match &error {
            Error::Socket { socket_type, reason } => {
                assert_eq!(socket_type, "ROUTER");
                assert_eq!(reason.errno(), Some(libc::EMFILE));
            }
            other => panic!("{other:?}"),
        }
        let text = error.to_string();
        for word in ["cannot make a ROUTER socket", "limit of 3 sockets", "max_sockets"] {
            assert!(text.contains(word), "{word:?} in {text:?}");
        }
    }
    // A place is free as soon as a socket is dropped.
    for _ in 0..500 {
        sockets.pop();
        sockets.push(ctx.pull("").unwrap());
        assert!(matches!(ctx.pull("").unwrap_err(), Error::Socket { .. }));
    }
    sockets.clear();
    let endpoint = inproc("after");
    let pull = ctx.pull(&endpoint).unwrap();
    let push = ctx.push(&endpoint).unwrap();
    push.send("works").unwrap();
    assert_eq!(pull.recv_timeout(LONG).unwrap(), "works".into());
}

#[test]
fn a_hundred_thousand_sockets_leave_nothing_behind() {
    const TEST: &str = "a_hundred_thousand_sockets_leave_nothing_behind";
    if child_role().is_some() {
        let memory = || -> usize {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let none = descriptors();
        let ctx = ZContext::builder().max_sockets(100).signals(false).build().unwrap();
        let make = |number: usize| {
            let types = [SocketType::Dealer, SocketType::Pub, SocketType::Rep, SocketType::Pair];
            drop(ctx.socket(types[number % types.len()]).unwrap());
        };
        (0..5000).for_each(make);
        let before = memory();
        (0..95_000).for_each(make);
        let after = memory();
        assert!(after < before + 20_000, "{before} kB, then {after}");
        // As many sockets as may be open may still be on their way out.
        assert!(descriptors() < none + 2 * 100 + 20, "{none} descriptors, then {}", descriptors());
        drop(ctx);
        assert_eq!(descriptors(), none);
        return;
    }
    child(TEST, "child").end(LONG);
}

#[test]
fn contexts_leave_nothing_behind() {
    const TEST: &str = "contexts_leave_nothing_behind";
    if child_role().is_some() {
        let make = || {
            let ctx = ZContext::new().unwrap();
            let pull = ctx.pull("").unwrap();
            let push = ctx.push(&pull.bind("tcp://127.0.0.1:*").unwrap()).unwrap();
            push.send("hello").unwrap();
            assert_eq!(pull.recv_timeout(LONG).unwrap(), "hello".into());
        };
        make();
        let before = (descriptors(), threads());
        (0..100).for_each(|_| make());
        settles_at(before, || (descriptors(), threads()));
        return;
    }
    child(TEST, "child").end(LONG);
}

/// Takes all descriptors but `left`.
fn take_descriptors(left: usize) -> Vec<File> {
    let mut taken: Vec<File> = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    taken.truncate(taken.len() - left);
    taken
}

fn limit_descriptors() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 100, hard).unwrap();
}

#[test]
fn a_first_socket_without_descriptors_is_an_error() {
    const TEST: &str = "a_first_socket_without_descriptors_is_an_error";
    if let Some(role) = child_role() {
        limit_descriptors();
        let threads = role.parse().unwrap();
        let (mut errors, mut made) = (0, 0);
        for left in 0..30 {
            let taken = take_descriptors(left);
            match ZContext::builder().io_threads(threads).signals(false).build() {
                Ok(ctx) => match ctx.dealer("") {
                    Ok(_) => made += 1,
                    Err(error) => {
                        assert!(matches!(error, Error::Socket { .. }), "{error:?}");
                        assert!(error.to_string().contains("ulimit -n"), "{error}");
                        errors += 1;
                        // With descriptors again, the same context works.
                        drop(taken);
                        ctx.dealer("").unwrap();
                    }
                },
                Err(error) => {
                    assert!(matches!(error, Error::Context { .. }), "{error:?}");
                    errors += 1;
                }
            }
        }
        assert!(errors > 3 && made > 3, "{errors} errors, {made} sockets");
        return;
    }
    for threads in ["0", "1", "4"] {
        child(TEST, threads).end(LONG);
    }
}

#[test]
fn a_later_socket_without_descriptors_is_an_error() {
    const TEST: &str = "a_later_socket_without_descriptors_is_an_error";
    if child_role().is_some() {
        limit_descriptors();
        let ctx = context();
        let mut sockets = Vec::new();
        let start = Instant::now();
        let error = loop {
            match ctx.dealer("") {
                Ok(socket) => sockets.push(socket),
                Err(error) => break error,
            }
        };
        assert!(start.elapsed() < SLACK);
        assert!(matches!(error, Error::Socket { .. }), "{error:?}");
        assert!(error.to_string().contains("no descriptors left"), "{error}");
        assert!(sockets.len() > 20, "{}", sockets.len());
        // Sockets are possible again as they are dropped.
        for _ in 0..200 {
            sockets.pop();
            sockets.push(ctx.dealer("").unwrap());
        }
        return;
    }
    child(TEST, "child").end(LONG);
}

#[test]
fn work_without_descriptors_is_an_error() {
    const TEST: &str = "work_without_descriptors_is_an_error";
    if child_role().is_some() {
        limit_descriptors();
        let (_dir, path) = ipc("socket");
        let ctx = context();
        let endpoint = inproc("before");
        let pull = ctx.pull(&endpoint).unwrap();
        let push = ctx.push(&endpoint).unwrap();
        let listening = pull.bind("tcp://127.0.0.1:*").unwrap();
        let taken = take_descriptors(0);
        for endpoint in ["tcp://127.0.0.1:*", "tcp://127.0.0.1:*[50000-50010]", &path, "ipc://@x"] {
            let error = pull.bind(endpoint).unwrap_err();
            assert!(matches!(error, Error::Bind { .. }), "{error:?}");
            assert!(error.to_string().contains("no descriptors left"), "{error}");
        }
        // What needs no descriptor works.
        push.try_send("inproc").unwrap();
        assert_eq!(pull.try_recv().unwrap(), "inproc".into());
        // A connection waits until there is one.
        push.disconnect(&endpoint).unwrap();
        push.connect(&listening).unwrap();
        push.try_send("patient").unwrap();
        if let Err(error) = pull.recv_timeout(Duration::from_millis(300)) {
            assert!(error.is_timeout() || matches!(error, Error::Io { .. }), "{error:?}");
        }
        drop(taken);
        assert_eq!(pull.recv_timeout(LONG).unwrap(), "patient".into());
        return;
    }
    child(TEST, "child").end(LONG);
}

#[test]
fn a_live_ipc_listener_survives_who_has_no_descriptors() {
    const TEST: &str = "a_live_ipc_listener_survives_who_has_no_descriptors";
    if let Some(endpoint) = child_role() {
        limit_descriptors();
        let pull = context().pull("").unwrap();
        for left in 0..3 {
            let taken = take_descriptors(left);
            let result = pull.bind(&endpoint);
            drop(taken);
            println!("with {left}: {result:?}");
        }
        return;
    }
    let (dir, endpoint) = ipc("live");
    let _listener = UnixListener::bind(dir.path().join("live")).unwrap();
    let output = child(TEST, &endpoint).end(LONG);
    assert!(!output.contains("Ok("), "{output}");
    UnixStream::connect(dir.path().join("live")).expect("it still listens");
}

#[test]
fn shutdown_ends_blocked_calls_in_all_threads() {
    let ctx = context();
    let (sender, ended) = mpsc::channel();
    let mut waiting = Vec::new();
    for number in 0..4 {
        let (ctx, sender) = (ctx.clone(), sender.clone());
        waiting.push(thread::spawn(move || {
            let pull = ctx.pull("").unwrap();
            let push = ctx.push("").unwrap();
            sender.send(None).unwrap();
            let error = match number {
                0 => pull.recv().unwrap_err(),
                1 => pull.recv_timeout(LONG).unwrap_err(),
                2 => push.send("x").unwrap_err().into(),
                _ => pull.wait().unwrap_err(),
            };
            sender.send(Some(error)).unwrap();
            // And every later call.
            assert!(pull.recv().unwrap_err().is_terminated());
            assert!(pull.try_recv().unwrap_err().is_terminated());
            assert!(push.send("x").unwrap_err().error.is_terminated());
        }));
    }
    for _ in 0..4 {
        assert!(ended.recv_timeout(LONG).unwrap().is_none());
    }
    assert!(ended.recv_timeout(Duration::from_millis(60)).is_err(), "they wait");
    ctx.shutdown().unwrap();
    for _ in 0..4 {
        let error = ended.recv_timeout(LONG).unwrap().unwrap();
        assert!(error.is_terminated() && error.is_ending(), "{error:?}");
    }
    within(LONG, "the threads", move || waiting.into_iter().for_each(|t| t.join().unwrap()));

    for result in [ctx.pull(""), ctx.socket(SocketType::Stream), ctx.pair("@inproc://x")] {
        assert!(result.unwrap_err().is_terminated());
    }
    ctx.shutdown().unwrap();
    assert!(time_to_drop(ctx) < SLACK);
}

#[test]
fn shutdown_before_the_first_socket_works() {
    let ctx = context();
    ctx.shutdown().unwrap();
    assert!(ctx.pull("").unwrap_err().is_terminated());
    assert!(time_to_drop(ctx) < SLACK);
}

#[test]
fn a_drop_waits_for_a_peer_that_never_comes_as_long_as_the_linger() {
    let linger = Duration::from_secs(1);
    let ctx = with_linger(Some(linger));
    let push = ctx.push(&nobody()).unwrap();
    push.send(("lost", vec![0; 10_000])).unwrap();
    let start = Instant::now();
    let took = time_to_drop(push);
    assert!(took < linger * 9 / 10, "{took:?}: the socket's drop waits");
    time_to_drop(ctx);
    let took = start.elapsed();
    assert!(took < linger + SLACK, "{took:?}");
    assert!(took > linger * 9 / 10, "{took:?}: it has not waited");
}

#[test]
fn a_drop_waits_for_a_stuck_peer_as_long_as_the_linger() {
    // The peer accepts and never reads: the network is full of what was sent.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let linger = Duration::from_millis(300);
    let ctx = with_linger(Some(linger));
    let stream = ctx.stream(&format!("tcp://{}", listener.local_addr().unwrap())).unwrap();
    let (_peer, _) = listener.accept().unwrap();
    let peer = stream.recv_timeout(LONG).unwrap().pop_front().unwrap();
    for _ in 0..200 {
        stream.send((peer.clone(), vec![0; 100_000])).unwrap();
    }
    let took = time_to_drop((stream, ctx));
    assert!(took < linger + SLACK, "{took:?}");
    assert!(took > linger * 9 / 10, "{took:?}: it has not waited");
}

#[test]
fn a_drop_does_not_wait_for_an_inproc_peer_that_never_comes() {
    let ctx = context();
    let push = ctx.push(&inproc("unbound")).unwrap();
    push.send("to nobody").unwrap();
    let dealer = ctx.dealer(&inproc("unbound")).unwrap();
    dealer.send(("to", "nobody")).unwrap();
    let took = time_to_drop((ctx, push, dealer));
    assert!(took < Duration::from_secs(1) + SLACK, "{took:?}");
}

#[test]
fn a_drop_without_anything_sent_does_not_wait() {
    let ctx = with_linger(None);
    let push = ctx.push(&nobody()).unwrap();
    let sub = ctx.sub(&nobody(), "all").unwrap();
    let pull = ctx.pull("tcp://127.0.0.1:*").unwrap();
    let took = time_to_drop((push, pull, ctx));
    assert!(took < SLACK, "{took:?}");
    drop(sub);
}

#[test]
fn a_linger_of_zero_ends_at_once() {
    let ctx = with_linger(Some(Duration::ZERO));
    let push = ctx.push(&nobody()).unwrap();
    push.send("given up").unwrap();
    let took = time_to_drop((push, ctx));
    assert!(took < Duration::from_millis(900), "{took:?}");

    // The socket's own linger overrides the context's.
    let ctx = context();
    let push = ctx.push(&nobody()).unwrap();
    push.set_linger(Some(Duration::ZERO)).unwrap();
    push.send("given up").unwrap();
    let took = time_to_drop((push, ctx));
    assert!(took < Duration::from_millis(900), "{took:?}");
}

#[test]
fn what_was_sent_before_the_drop_arrives() {
    let receiver = context();
    let (_dir, ipc) = ipc("arrives");
    for endpoint in ["tcp://127.0.0.1:*", &ipc] {
        let pull = receiver.pull("").unwrap();
        pull.set_rcvhwm(None).unwrap();
        let endpoint = pull.bind(endpoint).unwrap();
        let sender = with_linger(Some(LONG));
        let push = sender.push("").unwrap();
        push.set_sndhwm(None).unwrap();
        push.connect(&endpoint).unwrap();
        for number in 0..2000_u64 {
            push.send((number, vec![7; 1000], "end")).unwrap();
        }
        let took = time_to_drop((push, sender));
        assert!(took < LONG, "{took:?}");
        for number in 0..2000_u64 {
            let msg = pull.recv_timeout(LONG).unwrap();
            assert_eq!(msg, (number, vec![7; 1000], "end").into());
        }
    }
}

#[test]
fn what_was_sent_before_the_drop_waits_for_a_late_peer() {
    let endpoint = nobody();
    let sender = with_linger(Some(LONG));
    let push = sender.push(&endpoint).unwrap();
    push.send(("late", "is fine")).unwrap();
    let dropping = thread::spawn(move || drop((push, sender)));
    let receiver = context();
    let pull = receiver.pull(&endpoint).unwrap();
    assert_eq!(pull.recv_timeout(LONG).unwrap(), ("late", "is fine").into());
    within(SLACK, "a drop with nothing left to do", move || dropping.join().unwrap());
}

/// Collects what the library logs.
struct Records(Mutex<Vec<(log::Level, String)>>);

static RECORDS: Records = Records(Mutex::new(Vec::new()));

impl log::Log for Records {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap().push((record.level(), record.args().to_string()));
    }

    fn flush(&self) {}
}

/// Has everything logged from now on.
fn record() {
    // Another test may have done it before.
    let _ = log::set_logger(&RECORDS);
    log::set_max_level(log::LevelFilter::Trace);
}

/// The warnings so far that have to do with `endpoint`.
fn warnings(endpoint: &str) -> Vec<String> {
    let records = RECORDS.0.lock().unwrap();
    let about = records.iter().filter(|(_, text)| text.contains(endpoint));
    about.filter(|(level, _)| *level == log::Level::Warn).map(|(_, text)| text.clone()).collect()
}

/// Drops what lingers for `linger` at the most. Returns whether that was over in time: on a busy
/// machine it may take so much longer that the context cannot know why.
fn lingered_in_time(linger: Duration, value: impl Send + 'static) -> bool {
    time_to_drop(value) < linger + Duration::from_millis(25)
}

#[test]
fn what_is_given_up_is_said() {
    record();
    let linger = Duration::from_millis(100);
    for _ in 0..20 {
        let ctx = with_linger(Some(linger));
        let endpoint = nobody();
        let push = ctx.push(&endpoint).unwrap();
        push.send("lost").unwrap();
        if !lingered_in_time(linger, (push, ctx)) {
            continue;
        }
        let warnings = warnings(&endpoint);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        for word in ["PUSH", "linger", "lost"] {
            assert!(warnings[0].contains(word), "{warnings:?}");
        }
        return;
    }
    println!("skipped: the machine is too busy");
}

#[test]
fn what_is_given_up_is_said_every_time() {
    record();
    let contexts: Vec<_> = (0..40)
        .map(|number| {
            let linger = Duration::from_millis(200 + number);
            let ctx = with_linger(Some(linger));
            let endpoint = nobody();
            let push = ctx.push(&endpoint).unwrap();
            push.send("lost").unwrap();
            (endpoint, thread::spawn(move || lingered_in_time(linger, (push, ctx))))
        })
        .collect();
    let mut silent = 0;
    for (endpoint, dropping) in contexts {
        let in_time = dropping.join().unwrap();
        silent += usize::from(in_time && warnings(&endpoint).is_empty());
    }
    assert_eq!(silent, 0, "of 40");
}

#[test]
fn nothing_is_said_when_all_was_delivered() {
    record();
    let receiver = context();
    let pull = receiver.pull("").unwrap();
    let endpoint = pull.bind("tcp://127.0.0.1:*").unwrap();
    let sender = context();
    let push = sender.push(&endpoint).unwrap();
    push.send("delivered").unwrap();
    assert_eq!(pull.recv_timeout(LONG).unwrap(), "delivered".into());
    time_to_drop((push, sender));
    time_to_drop((pull, receiver));
    assert_eq!(warnings(&endpoint), [""; 0]);
}

#[test]
fn nothing_is_said_of_who_delivered_all_while_another_did_not() {
    record();
    let receiver = context();
    let longer = Duration::from_millis(300);
    for _ in 0..20 {
        let pull = receiver.pull("").unwrap();
        let good = pull.bind("tcp://127.0.0.1:*").unwrap();
        let bad = nobody();
        let ctx = context();
        let [delivered, lost] = [&good, &bad].map(|endpoint| ctx.push(endpoint).unwrap());
        delivered.set_linger(Some(Duration::from_millis(100))).unwrap();
        lost.set_linger(Some(longer)).unwrap();
        for push in [&delivered, &lost] {
            push.send("message").unwrap();
        }
        assert_eq!(pull.recv_timeout(LONG).unwrap(), "message".into());
        let in_time = lingered_in_time(longer, (delivered, lost, ctx));
        assert_eq!(warnings(&good), [""; 0]);
        if in_time {
            return assert_eq!(warnings(&bad).len(), 1, "{:?}", warnings(&bad));
        }
    }
    println!("skipped: the machine is too busy");
}

#[test]
fn a_global_socket_delivers_when_the_process_ends() {
    const TEST: &str = "a_global_socket_delivers_when_the_process_ends";
    if let Some(endpoint) = child_role() {
        // Nobody is there yet.
        let push = ZSock::push(&endpoint).unwrap();
        push.send(("last", "words")).unwrap();
        println!("sent");
        return;
    }
    let (_dir, endpoint) = ipc("global");
    let mut sender = child(TEST, &endpoint);
    sender.wait_for("sent", LONG);
    let ctx = context();
    let pull = ctx.pull(&endpoint).unwrap();
    assert_eq!(pull.recv_timeout(LONG).unwrap(), ("last", "words").into());
    sender.end(SLACK);
}

#[test]
fn a_process_ends_although_a_global_peer_never_comes() {
    const TEST: &str = "a_process_ends_although_a_global_peer_never_comes";
    if let Some(endpoint) = child_role() {
        ZSock::push(&endpoint).unwrap().send("lost").unwrap();
        println!("sent");
        return;
    }
    let start = Instant::now();
    let mut sender = child(TEST, &nobody());
    sender.wait_for("sent", LONG);
    sender.end(Duration::from_secs(1) + SLACK);
    assert!(start.elapsed() > Duration::from_millis(900), "it has waited");
}

#[test]
fn a_process_ends_although_a_thread_holds_a_global_socket() {
    const TEST: &str = "a_process_ends_although_a_thread_holds_a_global_socket";
    if let Some(role) = child_role() {
        let (how, endpoint) = role.split_once(' ').unwrap();
        let how = how.to_owned();
        let (sender, made) = mpsc::channel();
        thread::spawn(move || {
            let pull = ZSock::pull("@tcp://127.0.0.1:*").unwrap();
            sender.send(()).unwrap();
            if how == "receiving" {
                println!("{}", pull.recv().unwrap_err());
            } else {
                thread::sleep(10 * LONG);
            }
        });
        made.recv().unwrap();
        ZSock::push(endpoint).unwrap().send("last words").unwrap();
        println!("sent");
        return;
    }
    for how in ["receiving", "sleeping"] {
        let (_dir, endpoint) = ipc("global");
        let mut sender = child(TEST, &format!("{how} {endpoint}"));
        sender.wait_for("sent", LONG);
        let ctx = context();
        let pull = ctx.pull(&endpoint).unwrap();
        assert_eq!(pull.recv_timeout(LONG).unwrap(), "last words".into(), "{how}");
        let output = sender.end(Duration::from_secs(1) + SLACK);
        let told = output.contains("the context was shut down");
        assert_eq!(told, how == "receiving", "{output}");
    }
}

#[test]
fn a_process_that_exits_in_the_middle_delivers_what_global_sockets_sent() {
    const TEST: &str = "a_process_that_exits_in_the_middle_delivers_what_global_sockets_sent";
    if let Some(endpoint) = child_role() {
        let push = ZSock::push(&endpoint).unwrap();
        push.send("last words").unwrap();
        println!("sent");
        // The socket is never dropped.
        std::process::exit(0);
    }
    let (_dir, endpoint) = ipc("global");
    let mut sender = child(TEST, &endpoint);
    sender.wait_for("sent", LONG);
    let ctx = context();
    let pull = ctx.pull(&endpoint).unwrap();
    assert_eq!(pull.recv_timeout(LONG).unwrap(), "last words".into());
    sender.end(Duration::from_secs(1) + SLACK);
}

#[test]
fn the_global_context_is_one() {
    let endpoint = inproc("global");
    let pull = ZSock::pull(&endpoint).unwrap();
    let push = ZContext::global().unwrap().push(&endpoint).unwrap();
    let from_thread = within(LONG, "a thread", {
        let endpoint = endpoint.clone();
        move || ZSock::push(&endpoint).unwrap()
    });
    push.send("a").unwrap();
    from_thread.send("b").unwrap();
    let mut got = [pull.recv_str_timeout(LONG).unwrap(), pull.recv_str_timeout(LONG).unwrap()];
    got.sort();
    assert_eq!(got, ["a", "b"]);
}

#[test]
fn a_killed_process_takes_no_peer_with_it() {
    const TEST: &str = "a_killed_process_takes_no_peer_with_it";
    if let Some(endpoint) = child_role() {
        let pull = context().pull(&format!(">{endpoint}")).unwrap();
        pull.recv_timeout(LONG).unwrap();
        println!("received");
        return wait_for_parent();
    }
    let ctx = context();
    let push = ctx.push("").unwrap();
    let endpoint = push.bind("tcp://127.0.0.1:*").unwrap();
    let mut victim = child(TEST, &endpoint);
    push.send_timeout("first", LONG).unwrap();
    victim.wait_for("received", LONG);
    drop(victim);
    let start = Instant::now();
    while push.send_timeout("to nobody", Duration::from_millis(20)).is_ok() {
        assert!(start.elapsed() < LONG, "the loss is never noticed");
    }
    let address = endpoint.strip_prefix("tcp://").unwrap();
    TcpStream::connect(address).expect("it still listens");
    let pull = ctx.pull(&format!(">{endpoint}")).unwrap();
    push.send_timeout("next", LONG).unwrap();
    assert_eq!(pull.recv_timeout(LONG).unwrap(), "next".into());
}
