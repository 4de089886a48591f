//! What was made before `fork`, used in the child. Each case runs in a process of its own, which
//! forks.

#![allow(unsafe_code, reason = "fork and _exit are unsafe")]

mod common;

use std::os::fd::OwnedFd;
use std::panic::{self, AssertUnwindSafe};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, hint};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, alarm, fork, gettid, pipe, read, write};
use zkit::{
    Error, Events, SendError, SocketType, ZContext, ZFrame, ZMsg, ZPoller, ZSock, interrupt,
};

use common::{alone, assert_forked, more_descriptors};

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(5);
/// To end a child and collect it takes no longer, on a loaded machine either.
const PROMPTLY: Duration = Duration::from_millis(500);

/// The child of a fork.
struct Child(Pid);

/// Forks. The child runs `case` with its copy of `state` and ends; the parent goes on with its own.
fn forked<S>(state: S, case: impl FnOnce(S)) -> (S, Child) {
    // SAFETY: the child goes on in Rust code, which is more than POSIX grants the child of a
    // process with threads, but what is to be tested. The system's allocator allows it.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => (state, Child(child)),
        ForkResult::Child => {
            // An orphan ends, too.
            alarm::set(20);
            let done = panic::catch_unwind(AssertUnwindSafe(|| case(state)));
            // SAFETY: ends this process, whatever its state.
            unsafe { libc::_exit(if done.is_ok() { 0 } else { 101 }) }
        }
    }
}

impl Child {
    /// How it ends, which it must do in time.
    #[track_caller]
    fn end(self) -> WaitStatus {
        let give_up = Instant::now() + LIMIT;
        loop {
            match waitpid(self.0, Some(WaitPidFlag::WNOHANG)).unwrap() {
                WaitStatus::StillAlive if Instant::now() < give_up => {
                    thread::sleep(Duration::from_millis(1));
                }
                WaitStatus::StillAlive => {
                    self.kill();
                    panic!("the child hangs");
                }
                status => return status,
            }
        }
    }

    #[track_caller]
    fn succeed(self) {
        let pid = self.0;
        assert_eq!(self.end(), WaitStatus::Exited(pid, 0));
    }

    fn kill(&self) {
        kill(self.0, Signal::SIGKILL).unwrap();
        while waitpid(self.0, None) == Err(Errno::EINTR) {}
    }
}

/// Starts a thread that makes `call`, and returns once it sleeps there.
fn blocked<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (at_work, started) = mpsc::channel();
    let (done, returned) = mpsc::channel();
    thread::spawn(move || {
        at_work.send(gettid()).unwrap();
        let _ = done.send(call());
    });
    let stat = format!("/proc/self/task/{}/stat", started.recv_timeout(LIMIT).unwrap());
    let give_up = Instant::now() + LIMIT;
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") S ")) {
        assert!(Instant::now() < give_up, "it does not block");
        thread::yield_now();
    }
    returned
}

/// Threads of this process that are blocked in `recv`.
fn sleepers(ctx: &ZContext, count: usize) -> Vec<Receiver<Error>> {
    let sleeper = |index| {
        let pull = ctx.pull(&format!("@inproc://sleeper-{index}")).unwrap();
        blocked(move || pull.recv().unwrap_err())
    };
    (0..count).map(sleeper).collect()
}

/// Whether the interrupt descriptor is readable.
fn sounds() -> bool {
    let descriptor = interrupt::descriptor().unwrap();
    let mut poller = ZPoller::new();
    poller.set_nonstop(true);
    poller.add_fd((), &descriptor, Events::READABLE).unwrap();
    poller.wait(Some(Duration::ZERO)).unwrap().is_some()
}

#[track_caller]
fn assert_unsent(result: Result<(), SendError<ZMsg>>) {
    let failed = result.unwrap_err();
    assert_eq!(failed.message, ("given", "back").into());
    assert_forked::<()>(Err(failed.error));
}

#[track_caller]
fn round_trip(client: &ZSock, server: &ZSock) {
    client.send_timeout("ping", LIMIT).unwrap();
    assert_eq!(server.recv_str_timeout(LIMIT).unwrap(), "ping");
    server.send_timeout(("pong", "pong"), LIMIT).unwrap();
    assert_eq!(client.recv_timeout(LIMIT).unwrap(), ("pong", "pong").into());
}

/// REP and REQ, connected.
fn connected(ctx: &ZContext, endpoint: &str) -> (ZSock, ZSock) {
    let server = ctx.rep("").unwrap();
    let endpoint = server.bind(endpoint).unwrap();
    let client = ctx.req(&endpoint).unwrap();
    (server, client)
}

/// Every kind of call on a socket of the parent's.
fn assert_all_forked(socket: &ZSock) {
    let give = || ("given", "back");
    assert_unsent(socket.send(give()));
    assert_unsent(socket.try_send(give()));
    assert_unsent(socket.send_timeout(give(), LIMIT));
    assert_forked(socket.signal(0));
    assert_forked(socket.recv());
    assert_forked(socket.try_recv());
    assert_forked(socket.recv_timeout(LIMIT));
    assert_forked(socket.recv_frame());
    assert_forked(socket.try_recv_frame());
    assert_forked(socket.recv_str());
    assert_forked(socket.try_recv_str());
    assert_forked(socket.recv_str_timeout(LIMIT));
    assert_forked(socket.wait());
    assert_forked(socket.events());
    for endpoint in ["inproc://child", "tcp://127.0.0.1:*", "ipc:///tmp/zkit-never-made"] {
        assert_forked(socket.bind(endpoint));
        assert_forked(socket.connect(endpoint));
        assert_forked(socket.unbind(endpoint));
        assert_forked(socket.disconnect(endpoint));
    }
    assert_forked(socket.bind("tcp://127.0.0.1:*[60000-60010]"));
    assert_forked(socket.attach("@inproc://child,>inproc://child", zkit::Attach::Bind));
    assert_forked(socket.set_linger(None));
    assert_forked(socket.linger());
    assert_forked(socket.set_sndhwm(Some(1)));
    assert_forked(socket.rcvhwm());
    assert_forked(socket.set_maxmsgsize(Some(1)));
    assert_forked(socket.maxmsgsize());
    assert_forked(socket.set_identity("child"));
    assert_forked(socket.identity());
    assert_forked(socket.last_endpoint());
    assert_forked(socket.subscribe(""));
    let mut poller = ZPoller::new();
    poller.add((), socket).unwrap();
    assert_forked(poller.wait(None));
    assert_forked(poller.wait(Some(Duration::ZERO)));
    assert_forked(poller.wait_all(None));
    poller.set_nonstop(true);
    assert_forked(poller.wait(None));
    // What needs no libzmq tells what it always did.
    socket.set_nonstop(true);
    assert!(format!("{socket:?}").contains(socket.socket_type().name()));
}

#[test]
fn every_call_on_the_parents_sockets_says_so() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let (server, client) = connected(&ctx, "tcp://127.0.0.1:*");
        let pair = ctx.pair("@inproc://pair").unwrap();
        let peer = ctx.pair(">inproc://pair").unwrap();
        // Even what waits in memory already.
        peer.send("waiting").unwrap();
        let sub = ctx.sub("inproc://nowhere", "").unwrap();
        let fresh = ctx.socket(SocketType::Router).unwrap();
        let (sockets, child) = forked([server, client, pair, peer, sub, fresh], |sockets| {
            for socket in &sockets {
                assert_all_forked(socket);
            }
        });
        child.succeed();
        let [server, client, pair, ..] = sockets;
        assert_eq!(pair.recv_str_timeout(LIMIT).unwrap(), "waiting");
        round_trip(&client, &server);
    });
}

#[test]
fn every_call_on_the_parents_context_says_so() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let unused = ZContext::new().unwrap();
        let socket = ctx.pull("@inproc://jobs").unwrap();
        let ((ctx, _, socket), child) = forked((ctx, unused, socket), |(ctx, unused, _socket)| {
            for ctx in [&ctx, &unused, &ctx.clone()] {
                assert_forked(ctx.socket(SocketType::Pair));
                assert_forked(ctx.pull("@inproc://jobs"));
                assert_forked(ctx.sub("", ""));
                assert_forked(ctx.shutdown());
            }
        });
        child.succeed();
        let push = ctx.push(">inproc://jobs").unwrap();
        push.send("not shut down").unwrap();
        assert_eq!(socket.recv_str_timeout(LIMIT).unwrap(), "not shut down");
    });
}

#[test]
fn adopted_and_global_sockets_say_so_too() {
    alone(|| {
        let old = zmq::Context::new();
        let theirs = old.socket(zmq::PAIR).unwrap();
        theirs.bind("inproc://adopted").unwrap();
        let ours = old.socket(zmq::PAIR).unwrap();
        ours.connect("inproc://adopted").unwrap();
        let adopted = ZSock::adopt(ours).unwrap();
        let server = ZSock::rep("@inproc://global").unwrap();
        let client = ZSock::req(">inproc://global").unwrap();
        let global = ZContext::global().unwrap();
        let (state, child) =
            forked((adopted, server, client, global), |(adopted, server, client, global)| {
                assert_all_forked(&adopted);
                assert_all_forked(&server);
                assert_all_forked(&client);
                assert_forked(global.socket(SocketType::Pair));
                assert_forked(global.shutdown());
                drop((adopted, server, client, global));
            });
        child.succeed();
        let (adopted, server, client, _) = state;
        round_trip(&client, &server);
        adopted.send("still here").unwrap();
        assert_eq!(theirs.recv_string(0).unwrap().unwrap(), "still here");
    });
}

#[test]
fn dropping_what_is_the_parents_returns_at_once() {
    alone(|| {
        // A linger for ever, and something to linger for.
        let ctx = ZContext::builder().linger(None).build().unwrap();
        let push = ctx.push("tcp://127.0.0.1:9").unwrap();
        push.send("never delivered").unwrap();
        let (server, client) = connected(&ctx, "tcp://127.0.0.1:*");
        let bound = ctx.pull("@inproc://bound").unwrap();
        let old = zmq::Context::new();
        let adopted = ZSock::adopt(old.socket(zmq::PULL).unwrap()).unwrap();
        let clone = ctx.clone();
        let (state, child) = forked(
            (push, server, client, bound, adopted, clone, ctx),
            |(push, server, client, bound, adopted, clone, ctx)| {
                let start = Instant::now();
                drop(push);
                // The context first, then the socket that holds it, and the other way round.
                drop((clone, ctx, server));
                drop((bound, adopted, client));
                assert!(start.elapsed() < PROMPTLY, "{:?}", start.elapsed());
            },
        );
        child.succeed();
        let (push, server, client, ..) = &state;
        round_trip(client, server);
        push.set_linger(Some(Duration::ZERO)).unwrap();
    });
}

#[test]
fn a_panic_in_the_child_drops_what_is_the_parents() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let pair = connected(&ctx, "inproc://panic");
        let ((server, client), child) = forked(pair, |(_server, _client)| {
            panic::set_hook(Box::new(|_| {}));
            panic!("with sockets on the stack");
        });
        let pid = child.0;
        assert_eq!(child.end(), WaitStatus::Exited(pid, 101));
        round_trip(&client, &server);
    });
}

#[test]
fn the_child_exits_with_the_parents_sockets_open() {
    alone(|| {
        // The global context ends with the process, by a hook: here it is the parent's.
        let server = ZSock::rep("tcp://127.0.0.1:*").unwrap();
        let client = ZSock::req(&server.last_endpoint().unwrap().unwrap()).unwrap();
        let ctx = ZContext::builder().linger(None).build().unwrap();
        let own = connected(&ctx, "tcp://127.0.0.1:*");
        own.1.send("sent before").unwrap();
        let mut state = (server, client, own, ctx);
        for status in [0, 3] {
            let (kept, child) = forked(state, |_kept| process::exit(status));
            state = kept;
            let (pid, start) = (child.0, Instant::now());
            assert_eq!(child.end(), WaitStatus::Exited(pid, status));
            assert!(start.elapsed() < PROMPTLY, "{:?}", start.elapsed());

            // SAFETY: ends the child.
            let (kept, child) = forked(state, |_kept| unsafe { libc::_exit(status) });
            state = kept;
            let pid = child.0;
            assert_eq!(child.end(), WaitStatus::Exited(pid, status));

            let (kept, child) = forked(state, |kept| {
                drop(kept);
                process::exit(status)
            });
            state = kept;
            let pid = child.0;
            assert_eq!(child.end(), WaitStatus::Exited(pid, status));
        }
        let (server, client, own, _) = &state;
        round_trip(client, server);
        assert_eq!(own.0.recv_str_timeout(LIMIT).unwrap(), "sent before");
    });
}

#[test]
fn a_new_context_in_the_child_works() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let own = connected(&ctx, "inproc://same-name");
        round_trip(&own.1, &own.0);
        let ((own, _), child) = forked((own, ctx), |(own, ctx)| {
            let new = ZContext::new().unwrap();
            for endpoint in ["inproc://same-name", "tcp://127.0.0.1:*"] {
                let (server, client) = connected(&new, endpoint);
                round_trip(&client, &server);
            }
            // With the old ones gone, too, and in threads.
            drop((own, ctx));
            let pull = new.pull("@inproc://threads").unwrap();
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let new = new.clone();
                    thread::spawn(move || new.push(">inproc://threads").unwrap().send("done"))
                })
                .collect();
            for _ in 0..3 {
                assert_eq!(pull.recv_str_timeout(LIMIT).unwrap(), "done");
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
            assert!(new.pull("").unwrap().try_recv().unwrap_err().is_would_block());
            new.shutdown().unwrap();
            assert!(pull.recv().unwrap_err().is_terminated());
            let start = Instant::now();
            drop((pull, new));
            assert!(start.elapsed() < LIMIT);
        });
        child.succeed();
        round_trip(&own.1, &own.0);
    });
}

#[test]
fn parent_and_child_talk_to_each_other() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let server = ctx.rep("").unwrap();
        let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
        let ((ctx, server), child) = forked((ctx, server), |_parents| {
            let new = ZContext::new().unwrap();
            let client = new.req(&endpoint).unwrap();
            client.send("from the child").unwrap();
            assert_eq!(client.recv_str_timeout(LIMIT).unwrap(), "from the parent");
        });
        assert_eq!(server.recv_str_timeout(LIMIT).unwrap(), "from the child");
        server.send("from the parent").unwrap();
        child.succeed();
        drop((server, ctx));
    });
}

#[test]
fn messages_of_the_parent_are_the_childs_too() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://jobs").unwrap();
        let push = ctx.push(">inproc://jobs").unwrap();
        push.send(("received", vec![7; 100_000])).unwrap();
        let received = pull.recv_timeout(LIMIT).unwrap();
        let shared = ZFrame::from(vec![9; 100_000]);
        let ((shared, received), child) = forked((shared, received), |(shared, received)| {
            let new = ZContext::new().unwrap();
            let (server, client) = connected(&new, "tcp://127.0.0.1:*");
            client.send((&shared, "more")).unwrap();
            assert_eq!(server.recv_timeout(LIMIT).unwrap().first(), Some(&shared));
            server.send(received.iter().cloned().collect::<ZMsg>()).unwrap();
            assert_eq!(client.recv_timeout(LIMIT).unwrap(), received);
        });
        child.succeed();
        assert_eq!(shared, vec![9; 100_000][..]);
        assert_eq!(received.len(), 2);
    });
}

#[test]
fn frames_are_cloned_in_the_child_though_threads_of_the_parent_were_cloning_them() {
    alone(|| {
        let frame = ZFrame::from(vec![1; 1_000]);
        let (done, busy) = mpsc::channel();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                let done = done.clone();
                let (frame, stop) = (&frame, &stop);
                scope.spawn(move || {
                    done.send(()).unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        hint::black_box(frame.clone());
                    }
                });
                busy.recv_timeout(LIMIT).unwrap();
            }
            // The other threads have to be let go before a failure can get out of here.
            let result = panic::catch_unwind(|| {
                for _ in 0..100 {
                    let (_, child) = forked((), |()| assert_eq!(frame.clone(), frame));
                    child.succeed();
                }
            });
            stop.store(true, Ordering::Relaxed);
            result.unwrap();
        });
    });
}

#[test]
fn the_parents_ipc_file_stays() {
    alone(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let ctx = ZContext::new().unwrap();
        let (server, client) = connected(&ctx, &format!("ipc://{}", path.display()));
        round_trip(&client, &server);
        let mut state = (server, client, ctx);
        for exits in [false, true] {
            let (kept, child) = forked(state, |kept| {
                drop(kept);
                if exits {
                    process::exit(0);
                }
            });
            state = kept;
            child.succeed();
            assert!(path.exists());
            round_trip(&state.1, &state.0);
        }
        // Others find it, too.
        let late = state.2.req(&format!("ipc://{}", path.display())).unwrap();
        round_trip(&late, &state.0);
        drop(state);
        assert!(!path.exists());
    });
}

#[test]
fn a_fork_leaves_blocked_threads_of_the_parent_alone() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@tcp://127.0.0.1:*").unwrap();
        let push = ctx.push(&pull.last_endpoint().unwrap().unwrap()).unwrap();
        let receiving = blocked(move || pull.recv_str());
        let (ctx, child) = forked(ctx, |ctx| {
            assert_forked(ctx.shutdown());
            drop(ctx);
            let new = ZContext::new().unwrap();
            let (server, client) = connected(&new, "inproc://child");
            round_trip(&client, &server);
        });
        child.succeed();
        push.send("after the fork").unwrap();
        assert_eq!(receiving.recv_timeout(LIMIT).unwrap().unwrap(), "after the fork");
        drop((push, ctx));
    });
}

#[test]
fn forks_in_the_midst_of_traffic_neither_hang_nor_abort() {
    alone(|| {
        more_descriptors(); // what was closed is so a moment later
        let ctx = ZContext::builder().linger(Some(Duration::ZERO)).build().unwrap();
        let (done, busy) = mpsc::channel();
        let threads: Vec<_> = (0..2)
            .map(|index| {
                let (ctx, done) = (ctx.clone(), done.clone());
                thread::spawn(move || {
                    let name = format!("inproc://busy-{index}");
                    let mut rounds = 0;
                    // Opening and closing takes every lock that there is.
                    while let (Ok(pull), Ok(push)) = (ctx.pull(&name), ctx.push(&name)) {
                        if push.send("busy").is_err() || pull.recv().is_err() {
                            break;
                        }
                        rounds += 1;
                        if rounds == 10 {
                            done.send(()).unwrap();
                        }
                    }
                })
            })
            .collect();
        for _ in &threads {
            busy.recv_timeout(LIMIT).unwrap();
        }
        let mut state = ctx;
        for _ in 0..50 {
            let (kept, child) = forked(state, |ctx| {
                assert_forked(ctx.socket(SocketType::Pair));
                assert_forked(ctx.shutdown());
                drop(ctx);
                let new = ZContext::builder().signals(false).build().unwrap();
                let (server, client) = connected(&new, "inproc://new");
                round_trip(&client, &server);
            });
            state = kept;
            child.succeed();
        }
        state.shutdown().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn the_child_is_told_so_though_threads_of_the_parent_were_opening_sockets() {
    alone(|| {
        let ctx = ZContext::builder().max_sockets(1).build().unwrap();
        let socket = ctx.pull("@inproc://only").unwrap();
        let (done, busy) = mpsc::channel();
        for _ in 0..2 {
            let (ctx, done) = (ctx.clone(), done.clone());
            thread::spawn(move || {
                done.send(()).unwrap();
                // Refused at once for the limit, and so in the midst of it nearly always.
                while ctx.socket(SocketType::Pair).is_err() {}
            });
            busy.recv_timeout(LIMIT).unwrap();
        }
        let mut state = (ctx, socket);
        for _ in 0..200 {
            let (kept, child) = forked(state, |(ctx, socket)| {
                assert_forked(ctx.socket(SocketType::Pair));
                drop((ctx, socket));
            });
            state = kept;
            child.succeed();
        }
    });
}

#[test]
fn the_child_exits_though_threads_of_the_parent_were_asking_for_the_global_context() {
    alone(|| {
        let (done, busy) = mpsc::channel();
        for _ in 0..2 {
            let done = done.clone();
            thread::spawn(move || {
                ZContext::global().unwrap();
                done.send(()).unwrap();
                loop {
                    ZContext::global().unwrap();
                }
            });
            busy.recv_timeout(LIMIT).unwrap();
        }
        for _ in 0..100 {
            let (_, child) = forked((), |()| process::exit(0));
            child.succeed();
        }
    });
}

#[test]
fn the_childs_child_counts_as_another_process() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let own = connected(&ctx, "inproc://own");
        let (own, child) = forked(own, |(server, client)| {
            let new = ZContext::new().unwrap();
            let news = connected(&new, "inproc://own");
            let (state, grandchild) =
                forked((server, client, new, news), |(server, client, new, news)| {
                    assert_all_forked(&server);
                    assert_all_forked(&client);
                    assert_all_forked(&news.0);
                    assert_forked(new.socket(SocketType::Pair));
                    let newest = ZContext::new().unwrap();
                    let (server, client) = connected(&newest, "tcp://127.0.0.1:*");
                    round_trip(&client, &server);
                });
            grandchild.succeed();
            let (server, _, _, news) = state;
            round_trip(&news.1, &news.0);
            assert_forked(server.recv());
        });
        child.succeed();
        round_trip(&own.1, &own.0);
    });
}

#[test]
fn an_interrupt_of_the_child_is_not_the_parents() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://jobs").unwrap();
        let (_, child) = forked((), |()| {
            let _new = ZContext::new().unwrap();
            raise(Signal::SIGINT).unwrap();
            assert!(interrupt::is_interrupted() && sounds());
        });
        child.succeed();
        assert!(!interrupt::is_interrupted());
        assert!(!sounds(), "the child's signal is heard in the parent");
        assert!(pull.recv_timeout(Duration::from_millis(5)).unwrap_err().is_timeout());
    });
}

#[test]
fn a_reset_in_the_child_leaves_the_parents_interrupt() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let pull = ctx.pull("@inproc://jobs").unwrap();
        interrupt::raise().unwrap();
        let (_, child) = forked((), |()| interrupt::reset());
        child.succeed();
        assert!(interrupt::is_interrupted());
        assert!(sounds(), "the child's reset silences the parent's descriptor");
        assert!(pull.recv().unwrap_err().is_interrupted());
    });
}

const SLEEPERS: usize = 4;

#[test]
fn a_signal_to_the_child_ends_all_its_threads_and_none_of_the_parents() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let parents = sleepers(&ctx, SLEEPERS);
        for _ in 0..20 {
            let (_, child) = forked((), |()| {
                let new = ZContext::new().unwrap();
                let childs = sleepers(&new, SLEEPERS);
                raise(Signal::SIGINT).unwrap();
                for sleeper in childs {
                    let error = sleeper.recv_timeout(Duration::from_secs(2));
                    assert!(error.expect("every thread returns").is_interrupted());
                }
            });
            child.succeed();
        }
        for sleeper in &parents {
            assert!(sleeper.try_recv().is_err(), "a thread of the parent was ended");
        }
    });
}

#[test]
fn a_signal_to_the_parent_ends_all_its_threads_though_the_child_waits_too() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let (reader, writer): (OwnedFd, OwnedFd) = pipe().unwrap();
        let (_, child) = forked((), |()| {
            let new = ZContext::new().unwrap();
            let _childs = sleepers(&new, SLEEPERS);
            write(&writer, b"!").unwrap();
            thread::sleep(4 * LIMIT);
        });
        read(&reader, &mut [0]).unwrap();
        for round in 0..200 {
            let parents = sleepers(&ctx, SLEEPERS);
            raise(Signal::SIGINT).unwrap();
            for sleeper in parents {
                let error = sleeper.recv_timeout(Duration::from_secs(2));
                let error = error.unwrap_or_else(|_| {
                    child.kill();
                    panic!("round {round}: a thread hangs, descriptor sounds: {}", sounds());
                });
                assert!(error.is_interrupted());
            }
            let heard = sounds();
            interrupt::reset();
            if !heard {
                child.kill();
                panic!("round {round}: the child silences the parent's descriptor");
            }
        }
        child.kill();
    });
}
