//! Waiting on sockets and descriptors.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{array, fs};

use nix::sys::signal::{Signal, raise};
use nix::unistd::pipe;
use zkit::{Error, Events, SocketType, ZContext, ZPoller, ZSock, interrupt};

use common::{alone, more_descriptors, within};

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(5);
const PATIENTLY: Option<Duration> = Some(LIMIT);
/// To look without waiting. What came over inproc is there at once.
const NOW: Option<Duration> = Some(Duration::ZERO);

/// PUSH and PULL, connected over inproc.
fn pipeline(ctx: &ZContext, name: &str) -> (ZSock, ZSock) {
    let pull = ctx.pull(&format!("@inproc://{name}")).unwrap();
    let push = ctx.push(&format!(">inproc://{name}")).unwrap();
    (push, pull)
}

#[test]
fn tells_which_socket_has_a_message() {
    let ctx = ZContext::new().unwrap();
    let vent = ctx.push("").unwrap();
    let endpoint = vent.bind("tcp://127.0.0.1:*").unwrap();
    let sink = ctx.socket(SocketType::Pull).unwrap();
    sink.connect(&endpoint).unwrap();
    let (bowl, dish) =
        (ctx.socket(SocketType::Pull).unwrap(), ctx.socket(SocketType::Pull).unwrap());

    let mut poller = ZPoller::new();
    poller.add("bowl", &bowl).unwrap();
    poller.add("dish", &dish).unwrap();
    poller.add("sink", &sink).unwrap();
    vent.send_timeout("Hello, World", LIMIT).unwrap();
    assert_eq!(poller.wait(PATIENTLY).unwrap(), Some("sink"));
    assert_eq!(sink.recv_str_timeout(LIMIT).unwrap(), "Hello, World");
    assert_eq!(poller.wait(NOW).unwrap(), None);

    poller.remove("sink").unwrap();
    let error = poller.remove("sink").unwrap_err();
    assert!(matches!(error, Error::Wait { .. }), "{error}");
    vent.send_timeout("unseen", LIMIT).unwrap();
    assert_eq!(poller.wait(Some(Duration::from_millis(20))).unwrap(), None);
}

#[test]
fn a_sockets_own_descriptor_can_be_watched() {
    let ctx = ZContext::new().unwrap();
    let vent = ctx.push("").unwrap();
    let endpoint = vent.bind("tcp://127.0.0.1:*").unwrap();
    let bowl = ctx.socket(SocketType::Pull).unwrap();
    bowl.connect(&endpoint).unwrap();
    let mut poller = ZPoller::new();
    poller.add_fd("descriptor", &bowl, Events::READABLE).unwrap();
    vent.send_timeout("Hello again, world", LIMIT).unwrap();
    let give_up = Instant::now() + LIMIT;
    // Its edge only means "look": the connection itself makes one, too.
    while !bowl.events().unwrap().is_readable() {
        assert!(Instant::now() < give_up);
        poller.wait(PATIENTLY).unwrap().expect("news of the socket");
    }
    assert_eq!(bowl.try_recv_str().unwrap(), "Hello again, world");
}

#[test]
fn wakes_up_for_a_message_that_comes_while_it_waits() {
    let ctx = ZContext::new().unwrap();
    for endpoint in ["inproc://late", "tcp://127.0.0.1:*"] {
        let pull = ctx.pull("").unwrap();
        let endpoint = pull.bind(endpoint).unwrap();
        let push = ctx.push(&endpoint).unwrap();
        let sender = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            push.send_timeout("late", LIMIT).unwrap();
            push
        });
        let mut poller = ZPoller::new();
        poller.add((), &pull).unwrap();
        assert_eq!(poller.wait(PATIENTLY).unwrap(), Some(()));
        assert_eq!(pull.try_recv_str().unwrap(), "late");
        sender.join().unwrap();
    }
}

#[test]
fn messages_that_came_before_add_are_seen() {
    let ctx = ZContext::new().unwrap();
    let (push, pull) = pipeline(&ctx, "early");
    push.send("early").unwrap();
    // Takes the descriptor's edge away, too.
    while !pull.events().unwrap().is_readable() {}
    let mut poller = ZPoller::new();
    poller.add((), &pull).unwrap();
    assert_eq!(poller.wait(None).unwrap(), Some(()));
    poller.remove(()).unwrap();
    poller.add((), &pull).unwrap();
    assert_eq!(poller.wait(None).unwrap(), Some(()));
}

#[test]
fn of_two_messages_the_second_is_reported_after_the_first_is_read() {
    let ctx = ZContext::new().unwrap();
    for endpoint in ["inproc://two", "tcp://127.0.0.1:*"] {
        let pull = ctx.pull("").unwrap();
        let endpoint = pull.bind(endpoint).unwrap();
        let push = ctx.push(&endpoint).unwrap();
        let mut poller = ZPoller::new();
        poller.add((), &pull).unwrap();
        for round in 0..100 {
            push.send_timeout("first", LIMIT).unwrap();
            push.send_timeout(("second", "frame"), LIMIT).unwrap();
            assert_eq!(poller.wait(PATIENTLY).unwrap(), Some(()), "round {round}");
            assert_eq!(pull.try_recv_str().unwrap(), "first");
            assert_eq!(poller.wait(PATIENTLY).unwrap(), Some(()), "round {round}");
            assert_eq!(pull.try_recv().unwrap(), ("second", "frame").into());
            assert_eq!(poller.wait(NOW).unwrap(), None, "round {round}");
        }
    }
}

#[test]
fn what_is_not_read_stays_ready() {
    let ctx = ZContext::new().unwrap();
    let (push, pull) = pipeline(&ctx, "kept");
    let mut poller = ZPoller::new();
    poller.add(7, &pull).unwrap();
    push.send("kept").unwrap();
    for _ in 0..100 {
        assert_eq!(poller.wait(PATIENTLY).unwrap(), Some(7));
    }
    assert_eq!(pull.try_recv_str().unwrap(), "kept");
    assert_eq!(poller.wait(NOW).unwrap(), None);
}

#[test]
fn two_busy_sockets_alternate_exactly() {
    let ctx = ZContext::new().unwrap();
    let (busy, first) = pipeline(&ctx, "first");
    let (busier, second) = pipeline(&ctx, "second");
    for number in 0..500_u32 {
        busy.send(number).unwrap();
        busier.send(number).unwrap();
    }
    let mut poller = ZPoller::new();
    poller.add(0, &first).unwrap();
    poller.add(1, &second).unwrap();
    for turn in 0..1_000 {
        let key = poller.wait(PATIENTLY).unwrap().expect("messages wait");
        assert_eq!(key, turn % 2, "turn {turn}");
        let number = [&first, &second][key].try_recv().unwrap().pop_u32().unwrap();
        assert_eq!(number as usize, turn / 2);
    }
    assert_eq!(poller.wait(NOW).unwrap(), None);
}

#[test]
fn sockets_and_descriptors_take_turns() {
    let ctx = ZContext::new().unwrap();
    let (push_a, a) = pipeline(&ctx, "a");
    let (push_b, b) = pipeline(&ctx, "b");
    let (_idle, c) = pipeline(&ctx, "c");
    let (mut sender, receiver) = UnixStream::pair().unwrap();
    let (mut writer, reader) = UnixStream::pair().unwrap();
    push_a.send("unread").unwrap();
    push_b.send("unread").unwrap();
    sender.write_all(b"unread").unwrap();
    writer.write_all(b"unread").unwrap();

    let mut poller = ZPoller::new();
    poller.add("a", &a).unwrap();
    poller.add_fd("receiver", &receiver, Events::READABLE).unwrap();
    poller.add("idle", &c).unwrap();
    poller.add("b", &b).unwrap();
    poller.add_fd("reader", &reader, Events::READABLE).unwrap();
    for turn in 0..400 {
        let expected = ["a", "receiver", "b", "reader"][turn % 4];
        assert_eq!(poller.wait(PATIENTLY).unwrap(), Some(expected), "turn {turn}");
    }
    // Those that remain keep their turns.
    poller.pause("b").unwrap();
    let turns: Vec<_> = (0..6).map(|_| poller.wait(PATIENTLY).unwrap().unwrap()).collect();
    assert_eq!(turns, ["a", "receiver", "reader", "a", "receiver", "reader"]);
}

#[test]
fn a_busy_socket_does_not_hide_one_that_gets_a_message_now_and_then() {
    let ctx = ZContext::new().unwrap();
    let (push_busy, busy) = pipeline(&ctx, "busy");
    let (push_calm, calm) = pipeline(&ctx, "calm");
    push_busy.send("unread").unwrap();
    let mut poller = ZPoller::new();
    poller.add("busy", &busy).unwrap();
    poller.add("calm", &calm).unwrap();
    for round in 0..100 {
        push_calm.send("now").unwrap();
        let turns = [poller.wait(PATIENTLY).unwrap(), poller.wait(PATIENTLY).unwrap()];
        assert!(turns.contains(&Some("calm")), "round {round}: {turns:?}");
        calm.try_recv().unwrap();
        assert_eq!(poller.wait(PATIENTLY).unwrap(), Some("busy"));
    }
}

#[test]
fn nobody_starves_though_entries_come_and_go() {
    const TURNS: usize = 600;
    let ctx = ZContext::new().unwrap();
    let pipelines: [_; 3] = array::from_fn(|index| pipeline(&ctx, &format!("turn-{index}")));
    for (push, _) in &pipelines {
        push.send("unread").unwrap();
    }
    // Whoever is served has these taken out and put back: itself, the others, all, one at random.
    type Renewed = fn(usize) -> Vec<usize>;
    let ways: [(&str, Renewed); 5] = [
        ("itself", |served| vec![served]),
        ("the others", |served| vec![(served + 1) % 3, (served + 2) % 3]),
        ("the others, backwards", |served| vec![(served + 2) % 3, (served + 1) % 3]),
        ("all", |_| vec![0, 1, 2]),
        ("one at random", |_| vec![fastrand::usize(..3)]),
    ];
    for (way, renewed) in ways {
        let mut poller = ZPoller::new();
        for (index, (_, pull)) in pipelines.iter().enumerate() {
            poller.add(index, pull).unwrap();
        }
        let mut turns = [0; 3];
        for _ in 0..TURNS {
            let served = poller.wait(PATIENTLY).unwrap().unwrap();
            turns[served] += 1;
            for key in renewed(served) {
                poller.remove(key).unwrap();
                poller.add(key, &pipelines[key].1).unwrap();
            }
        }
        println!("renewing {way}: {turns:?}");
        assert!(turns.iter().all(|turns| *turns >= TURNS / 10), "renewing {way}: {turns:?}");
    }
}

#[test]
fn wait_all_tells_all_with_their_events() {
    let ctx = ZContext::new().unwrap();
    let (push, pull) = pipeline(&ctx, "pull");
    let (_silent, idle) = pipeline(&ctx, "idle");
    let pair = ctx.pair("@inproc://pair").unwrap();
    let peer = ctx.pair(">inproc://pair").unwrap();
    let (mut near, far) = UnixStream::pair().unwrap();
    push.send("x").unwrap();
    peer.send("x").unwrap();
    near.write_all(b"x").unwrap();

    let both = Events::READABLE | Events::WRITABLE;
    let mut poller = ZPoller::new();
    poller.add("pull", &pull).unwrap();
    poller.add("idle", &idle).unwrap();
    poller.add_for("pair", &pair, both).unwrap();
    poller.add_for("push", &push, both).unwrap();
    poller.add_fd("far", &far, both).unwrap();
    poller.add_fd("near", &near, Events::READABLE).unwrap();
    let all =
        [("pull", Events::READABLE), ("pair", both), ("push", Events::WRITABLE), ("far", both)];
    for _ in 0..3 {
        let mut ready = poller.wait_all(PATIENTLY).unwrap().to_vec();
        ready.sort_by_key(|(key, _)| all.iter().position(|(known, _)| known == key));
        assert_eq!(ready, all);
    }
    pull.try_recv().unwrap();
    pair.try_recv().unwrap();
    let ready = poller.wait_all(PATIENTLY).unwrap();
    assert_eq!(ready.len(), 3, "{ready:?}");
}

#[test]
fn wait_all_tells_nothing_when_time_is_over() {
    let ctx = ZContext::new().unwrap();
    let (push, pull) = pipeline(&ctx, "quiet");
    let mut poller = ZPoller::new();
    poller.add((), &pull).unwrap();
    push.send("x").unwrap();
    assert_eq!(poller.wait_all(PATIENTLY).unwrap(), [((), Events::READABLE)]);
    pull.try_recv().unwrap();
    // What was told before is not told again.
    assert_eq!(poller.wait_all(NOW).unwrap(), []);
    assert_eq!(poller.wait_all(Some(Duration::from_millis(5))).unwrap(), []);
}

#[test]
fn a_full_socket_becomes_writable_when_its_peer_reads() {
    let ctx = ZContext::builder().linger(Some(Duration::ZERO)).build().unwrap();
    for endpoint in ["inproc://full", "tcp://127.0.0.1:*"] {
        let pull = ctx.socket(SocketType::Pull).unwrap();
        pull.set_rcvhwm(Some(5)).unwrap();
        pull.set_rcvbuf(Some(4096)).unwrap();
        let endpoint = pull.bind(endpoint).unwrap();
        let push = ctx.socket(SocketType::Push).unwrap();
        push.set_sndhwm(Some(5)).unwrap();
        push.set_sndbuf(Some(4096)).unwrap();
        push.connect(&endpoint).unwrap();
        let mut poller = ZPoller::new();
        poller.add_for("push", &push, Events::WRITABLE).unwrap();
        let mut sent = 0;
        // Full is what stays so: over tcp the buffers of both sides fill up first.
        while poller.wait(Some(Duration::from_millis(50))).unwrap() == Some("push") {
            push.try_send(vec![0; 10_000]).unwrap();
            sent += 1;
        }
        assert!(sent >= 5, "{sent}");
        let reader = thread::spawn(move || {
            for _ in 0..sent {
                pull.recv_timeout(LIMIT).unwrap();
            }
            pull
        });
        assert_eq!(poller.wait(PATIENTLY).unwrap(), Some("push"));
        push.try_send("room").unwrap();
        let pull = reader.join().unwrap();
        assert_eq!(pull.recv_str_timeout(LIMIT).unwrap(), "room");
    }
}

#[test]
fn a_socket_becomes_writable_when_its_first_peer_comes() {
    let ctx = ZContext::new().unwrap();
    let dealer = ctx.dealer("@inproc://lonely").unwrap();
    let mut poller = ZPoller::new();
    poller.add_for((), &dealer, Events::WRITABLE).unwrap();
    assert_eq!(poller.wait(NOW).unwrap(), None);
    let peer = thread::spawn({
        let ctx = ctx.clone();
        move || ctx.dealer(">inproc://lonely").unwrap()
    });
    assert_eq!(poller.wait(PATIENTLY).unwrap(), Some(()));
    dealer.try_send("welcome").unwrap();
    assert_eq!(peer.join().unwrap().recv_str_timeout(LIMIT).unwrap(), "welcome");
}

#[test]
fn interest_in_one_direction_leaves_out_the_other() {
    let ctx = ZContext::new().unwrap();
    let pair = ctx.pair("@inproc://pair").unwrap();
    let peer = ctx.pair(">inproc://pair").unwrap();
    peer.send("x").unwrap();
    let mut poller = ZPoller::new();
    poller.add_for((), &pair, Events::WRITABLE).unwrap();
    assert_eq!(poller.wait_all(PATIENTLY).unwrap(), [((), Events::WRITABLE)]);
    poller.remove(()).unwrap();
    poller.add_for((), &pair, Events::READABLE).unwrap();
    assert_eq!(poller.wait_all(PATIENTLY).unwrap(), [((), Events::READABLE)]);
    pair.try_recv().unwrap();
    assert_eq!(poller.wait_all(NOW).unwrap(), []);
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

#[test]
fn descriptors_become_readable_and_writable() {
    fn check<S: Read + Write + std::os::fd::AsFd>(mut near: S, mut far: S) {
        let mut poller = ZPoller::new();
        poller.add_fd("near", &near, Events::READABLE).unwrap();
        assert_eq!(poller.wait(NOW).unwrap(), None);
        far.write_all(b"hello").unwrap();
        assert_eq!(poller.wait_all(PATIENTLY).unwrap(), [("near", Events::READABLE)]);
        // Level-triggered: half-read is still ready.
        drop(poller);
        near.read_exact(&mut [0; 2]).unwrap();
        let mut poller = ZPoller::new();
        poller.add_fd("near", &near, Events::READABLE).unwrap();
        poller.add_fd("far", &far, Events::WRITABLE).unwrap();
        assert_eq!(poller.wait_all(PATIENTLY).unwrap().len(), 2);
        drop(poller);
        near.read_exact(&mut [0; 3]).unwrap();
        let mut poller = ZPoller::new();
        poller.add_fd("near", &near, Events::READABLE).unwrap();
        poller.add_fd("far", &far, Events::WRITABLE).unwrap();
        assert_eq!(poller.wait_all(PATIENTLY).unwrap(), [("far", Events::WRITABLE)]);
    }
    let (near, far) = UnixStream::pair().unwrap();
    check(near, far);
    let (near, far) = tcp_pair();
    check(near, far);
}

#[test]
fn a_full_descriptor_becomes_writable_when_it_is_read() {
    let (near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let mut written = 0;
    while let Ok(count) = (&near).write(&[0; 4096]) {
        written += count;
    }
    let mut poller = ZPoller::new();
    poller.add_fd((), &near, Events::WRITABLE).unwrap();
    assert_eq!(poller.wait(NOW).unwrap(), None);
    let reader = thread::spawn(move || far.read_exact(&mut vec![0; written]).map(|()| far));
    assert_eq!(poller.wait(PATIENTLY).unwrap(), Some(()));
    reader.join().unwrap().unwrap();
}

#[test]
fn a_hang_up_is_told_as_an_error() {
    // A pipe whose writer is gone, whatever one waits for.
    let (reader, writer) = pipe().unwrap();
    let mut poller = ZPoller::new();
    poller.add_fd((), &reader, Events::READABLE).unwrap();
    assert_eq!(poller.wait(NOW).unwrap(), None);
    drop(writer);
    let [((), events)] = poller.wait_all(PATIENTLY).unwrap() else { panic!("nothing told") };
    assert!(events.is_error(), "{events:?}");

    // A pipe whose reader is gone.
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut poller = ZPoller::new();
    poller.add_fd((), &writer, Events::READABLE).unwrap();
    assert_eq!(poller.wait_all(PATIENTLY).unwrap(), [((), Events::ERROR)]);

    let (near, far) = UnixStream::pair().unwrap();
    drop(far);
    let mut poller = ZPoller::new();
    poller.add_fd((), &near, Events::WRITABLE).unwrap();
    until_broken(&mut poller);

    // Half-closed, TCP reads as its end; reset, it is broken.
    let (near, far) = tcp_pair();
    drop(far);
    let mut poller = ZPoller::new();
    poller.add_fd((), &near, Events::READABLE).unwrap();
    assert_eq!(poller.wait_all(PATIENTLY).unwrap(), [((), Events::READABLE)]);
    (&near).write_all(b"into the void").unwrap();
    until_broken(&mut poller);
}

/// Waits for an error. Another test's child process may hold a copy of an end that was closed, until
/// it runs its own program.
fn until_broken(poller: &mut ZPoller<'_, ()>) {
    let give_up = Instant::now() + LIMIT;
    while !poller.wait_all(PATIENTLY).unwrap()[0].1.is_error() {
        assert!(Instant::now() < give_up);
    }
}

#[test]
fn an_error_wakes_a_wait_that_has_begun() {
    let (reader, writer) = pipe().unwrap();
    let closer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        drop(writer);
    });
    let mut poller = ZPoller::new();
    poller.add_fd("reader", &reader, Events::READABLE).unwrap();
    assert_eq!(poller.wait(PATIENTLY).unwrap(), Some("reader"));
    closer.join().unwrap();
}

#[test]
fn what_is_paused_waits_for_resume() {
    let ctx = ZContext::new().unwrap();
    let (push, pull) = pipeline(&ctx, "paused");
    let (mut near, far) = UnixStream::pair().unwrap();
    let mut poller = ZPoller::new();
    poller.add("pull", &pull).unwrap();
    poller.add_fd("far", &far, Events::READABLE).unwrap();
    poller.pause("pull").unwrap();
    poller.pause("far").unwrap();
    poller.pause("far").unwrap();
    push.send("kept").unwrap();
    near.write_all(b"kept").unwrap();
    let start = Instant::now();
    assert_eq!(poller.wait(Some(Duration::from_millis(20))).unwrap(), None);
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert_eq!(poller.wait_all(NOW).unwrap(), []);

    poller.resume("pull").unwrap();
    assert_eq!(poller.wait(PATIENTLY).unwrap(), Some("pull"));
    assert_eq!(pull.try_recv_str().unwrap(), "kept");
    assert_eq!(poller.wait(NOW).unwrap(), None);
    poller.resume("far").unwrap();
    assert_eq!(poller.wait(PATIENTLY).unwrap(), Some("far"));

    // A hang-up does not get through a pause either.
    poller.pause("far").unwrap();
    drop(near);
    assert_eq!(poller.wait(Some(Duration::from_millis(5))).unwrap(), None);
}

#[test]
fn unknown_and_duplicate_keys_are_errors() {
    let ctx = ZContext::new().unwrap();
    let (push, pull) = pipeline(&ctx, "keys");
    let (near, _far) = UnixStream::pair().unwrap();
    let mut poller = ZPoller::new();
    let refused = |result: zkit::Result<()>| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Wait { .. }), "{error:?}");
        assert!(error.to_string().contains("key"), "{error}");
    };
    refused(poller.remove(1));
    refused(poller.pause(1));
    refused(poller.resume(1));
    poller.add(1, &pull).unwrap();
    refused(poller.add(1, &push));
    refused(poller.add_for(1, &pull, Events::WRITABLE));
    refused(poller.add_fd(1, &near, Events::READABLE));
    refused(poller.remove(2));
    // The first is as it was.
    push.send("x").unwrap();
    assert_eq!(poller.wait_all(PATIENTLY).unwrap(), [(1, Events::READABLE)]);
    // One socket under two keys is two entries.
    poller.add(2, &pull).unwrap();
    assert_eq!(poller.wait_all(PATIENTLY).unwrap().len(), 2);
    poller.remove(1).unwrap();
    refused(poller.pause(1));
    poller.add(1, &pull).unwrap();
    assert_eq!(poller.wait_all(PATIENTLY).unwrap().len(), 2);
}

#[test]
fn a_poller_of_nothing_waits_for_time_to_pass() {
    let mut poller = ZPoller::<()>::new();
    let start = Instant::now();
    assert_eq!(poller.wait(Some(Duration::from_millis(10))).unwrap(), None);
    assert!(start.elapsed() >= Duration::from_millis(10));
    assert_eq!(poller.wait(NOW).unwrap(), None);
}

#[test]
fn a_wait_lasts_at_least_as_long_as_asked() {
    let ctx = ZContext::new().unwrap();
    let (_push, pull) = pipeline(&ctx, "quiet");
    let (_near, far) = UnixStream::pair().unwrap();
    let mut poller = ZPoller::new();
    poller.add("pull", &pull).unwrap();
    poller.add_fd("far", &far, Events::READABLE).unwrap();
    for micros in [0, 1, 300, 999, 1_000, 1_001, 5_500, 20_000, 50_000] {
        let asked = Duration::from_micros(micros);
        let start = Instant::now();
        assert_eq!(poller.wait(Some(asked)).unwrap(), None);
        let taken = start.elapsed();
        assert!(taken >= asked, "{asked:?} took {taken:?}");
        assert!(taken < asked + Duration::from_millis(500), "{asked:?} took {taken:?}");
    }
}

/// News of a socket that are no event that is waited for must neither end the wait nor keep it
/// from ending.
#[test]
fn other_news_of_a_socket_does_not_change_the_timeout() {
    let ctx = ZContext::builder().linger(Some(Duration::ZERO)).build().unwrap();
    let router = ctx.router("").unwrap();
    let endpoint = router.bind("tcp://127.0.0.1:*").unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let dealer = ctx.dealer(&endpoint).unwrap();
                thread::sleep(Duration::from_millis(1));
                drop(dealer);
            }
        });
        let mut poller = ZPoller::new();
        poller.add((), &router).unwrap();
        let asked = Duration::from_millis(100);
        let start = Instant::now();
        let told = poller.wait(Some(asked));
        let taken = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(told.unwrap(), None);
        assert!(taken >= asked, "{taken:?}");
        assert!(taken < asked + Duration::from_millis(500), "{taken:?}");
    });
}

#[test]
fn the_longest_timeout_is_no_timeout() {
    let ctx = ZContext::new().unwrap();
    let (push, pull) = pipeline(&ctx, "for-ever");
    let told = within(LIMIT, "a wait for Duration::MAX", move || {
        let sender = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            push.send("at last").unwrap();
        });
        let mut poller = ZPoller::new();
        poller.add((), &pull).unwrap();
        let told = poller.wait(Some(Duration::MAX)).unwrap();
        sender.join().unwrap();
        told
    });
    assert_eq!(told, Some(()));
}

#[test]
fn shutdown_ends_a_wait() {
    let ctx = ZContext::new().unwrap();
    let (_push, pull) = pipeline(&ctx, "ended");
    let (at_work, started) = std::sync::mpsc::channel();
    let other = ctx.clone();
    let ender = thread::spawn(move || {
        started.recv().unwrap();
        thread::sleep(Duration::from_millis(20));
        other.shutdown().unwrap();
    });
    let (first, again) = within(LIMIT, "a poller of an ended context", move || {
        let (_near, far) = UnixStream::pair().unwrap();
        let mut poller = ZPoller::new();
        poller.add_fd("far", &far, Events::READABLE).unwrap();
        poller.add("pull", &pull).unwrap();
        at_work.send(()).unwrap();
        (poller.wait(None).unwrap_err(), poller.wait_all(NOW).unwrap_err())
    });
    assert!(first.is_terminated() && first.is_ending(), "{first}");
    assert!(again.is_terminated(), "{again}");
    ender.join().unwrap();
}

#[test]
fn shutdown_ends_a_nonstop_wait_too() {
    let ctx = ZContext::new().unwrap();
    let (_push, pull) = pipeline(&ctx, "ended-nonstop");
    let other = ctx.clone();
    let error = within(LIMIT, "a nonstop poller of an ended context", move || {
        let mut poller = ZPoller::new();
        poller.set_nonstop(true);
        poller.add((), &pull).unwrap();
        let ender = thread::spawn(move || other.shutdown());
        let error = poller.wait(None).unwrap_err();
        ender.join().unwrap().unwrap();
        error
    });
    assert!(error.is_terminated(), "{error}");
}

#[test]
fn a_signal_ends_a_wait_unless_nonstop() {
    alone(|| {
        let ctx = ZContext::new().unwrap();
        let (push, pull) = pipeline(&ctx, "signal");
        push.send("waiting").unwrap();
        let mut poller = ZPoller::new();
        poller.add((), &pull).unwrap();
        raise(Signal::SIGINT).unwrap();
        assert!(poller.wait(None).unwrap_err().is_interrupted());
        assert!(poller.wait(NOW).unwrap_err().is_interrupted());
        assert!(poller.wait_all(None).unwrap_err().is_interrupted());

        poller.set_nonstop(true);
        assert_eq!(poller.wait(NOW).unwrap(), Some(()));
        assert_eq!(poller.wait_all(NOW).unwrap(), [((), Events::READABLE)]);
        assert_eq!(pull.try_recv_str().unwrap(), "waiting");
        assert_eq!(poller.wait(NOW).unwrap(), None);

        interrupt::reset();
        poller.set_nonstop(false);
        assert_eq!(poller.wait(NOW).unwrap(), None);

        // Sleeping already, in another thread.
        let signaller = thread::spawn(|| {
            thread::sleep(Duration::from_millis(20));
            raise(Signal::SIGTERM).unwrap();
        });
        assert!(poller.wait(PATIENTLY).unwrap_err().is_interrupted());
        signaller.join().unwrap();
    });
}

/// Each handler sends on the socket that the other serves, which can swallow the news of it.
fn echo(endpoint: &str) {
    const MESSAGES: usize = 20_000;
    let ctx = ZContext::builder().linger(Some(Duration::ZERO)).build().unwrap();
    let a = ctx.pair("").unwrap();
    let endpoint = a.bind(endpoint).unwrap();
    let b = ctx.pair(&endpoint).unwrap();
    let mut poller = ZPoller::new();
    poller.add("a", &a).unwrap();
    poller.add("b", &b).unwrap();
    // Three in each direction: what arrives at `a` is sent on `b`, and so arrives there again.
    for _ in 0..3 {
        a.send_timeout("to b", LIMIT).unwrap();
        b.send_timeout("to a", LIMIT).unwrap();
    }
    let mut served = [0, 0];
    while served[0] + served[1] < MESSAGES {
        let key = poller.wait(PATIENTLY).unwrap().unwrap_or_else(|| panic!("stalls at {served:?}"));
        let (index, this, other) = if key == "a" { (0, &a, &b) } else { (1, &b, &a) };
        let msg = this.try_recv().unwrap();
        other.send_timeout(msg, LIMIT).unwrap();
        served[index] += 1;
    }
    assert!(served[0] > MESSAGES / 4 && served[1] > MESSAGES / 4, "{served:?}");
}

#[test]
fn two_sockets_that_send_on_each_other_do_not_stall_over_inproc() {
    within(Duration::from_secs(20), "echo over inproc", || echo("inproc://echo"));
}

#[test]
fn two_sockets_that_send_on_each_other_do_not_stall_over_tcp() {
    within(Duration::from_secs(20), "echo over tcp", || echo("tcp://127.0.0.1:*"));
}

/// Round trips with a thread that answers: now what is swallowed comes from outside.
#[test]
fn a_send_between_two_waits_loses_no_readiness() {
    const MESSAGES: usize = 10_000;
    let ctx = ZContext::builder().linger(Some(Duration::ZERO)).build().unwrap();
    let here = [ctx.pair("").unwrap(), ctx.pair("").unwrap()];
    let there =
        [0, 1].map(|index| ctx.pair(&here[index].bind("tcp://127.0.0.1:*").unwrap()).unwrap());
    let echo = thread::spawn(move || {
        let mut poller = ZPoller::new();
        poller.add(0, &there[0]).unwrap();
        poller.add(1, &there[1]).unwrap();
        let mut turn = || -> zkit::Result<()> {
            let key: usize = poller.wait(None)?.expect("it has no deadline");
            let msg = there[key].recv_timeout(LIMIT)?;
            Ok(there[1 - key].send_timeout(msg, LIMIT)?)
        };
        loop {
            if let Err(error) = turn() {
                return error;
            }
        }
    });
    let mut poller = ZPoller::new();
    poller.add(0, &here[0]).unwrap();
    poller.add(1, &here[1]).unwrap();
    for round in 0..4 {
        here[round % 2].send_timeout("ball", LIMIT).unwrap();
    }
    for message in 0..MESSAGES {
        let key: usize = poller
            .wait(PATIENTLY)
            .unwrap()
            .unwrap_or_else(|| panic!("stalls at message {message}"));
        let msg = here[key].try_recv().unwrap();
        here[1 - key].send_timeout(msg, LIMIT).unwrap();
    }
    ctx.shutdown().unwrap();
    let end = within(LIMIT, "the end of the echo", move || echo.join().unwrap());
    assert!(end.is_terminated(), "{end}");
}

/// Whether the process may have so many descriptors; if not, says so.
fn allows_descriptors(count: u64) -> bool {
    let limit = more_descriptors();
    if limit < count {
        eprintln!("skipped: the system allows {limit} descriptors, and this needs {count}");
    }
    limit >= count
}

#[test]
fn descriptors_above_1024_work() {
    alone(|| {
        if !allows_descriptors(2_000) {
            return;
        }
        let files: Vec<_> = (0..1_500).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let ctx = ZContext::new().unwrap();
        let (push, pull) = pipeline(&ctx, "high");
        let tcp = ctx.pull("").unwrap();
        let tcp_push = ctx.push(&tcp.bind("tcp://127.0.0.1:*").unwrap()).unwrap();
        let (mut near, far) = tcp_pair();
        let (reader, writer): (OwnedFd, OwnedFd) = pipe().unwrap();
        for descriptor in [pull.as_raw_fd(), tcp.as_raw_fd(), far.as_raw_fd(), reader.as_raw_fd()] {
            assert!(descriptor > 1_024, "{descriptor}");
        }
        let mut poller = ZPoller::new();
        poller.add("pull", &pull).unwrap();
        poller.add("tcp", &tcp).unwrap();
        poller.add_fd("far", &far, Events::READABLE).unwrap();
        poller.add_fd("reader", &reader, Events::READABLE).unwrap();
        assert_eq!(poller.wait(Some(Duration::from_millis(5))).unwrap(), None);
        push.send("x").unwrap();
        assert_eq!(poller.wait(PATIENTLY).unwrap(), Some("pull"));
        pull.try_recv().unwrap();
        tcp_push.send_timeout("x", LIMIT).unwrap();
        assert_eq!(poller.wait(PATIENTLY).unwrap(), Some("tcp"));
        tcp.try_recv().unwrap();
        drop(writer);
        assert_eq!(poller.wait(PATIENTLY).unwrap(), Some("reader"));
        poller.remove("reader").unwrap();
        near.write_all(b"x").unwrap();
        assert_eq!(poller.wait(PATIENTLY).unwrap(), Some("far"));
        drop(files);
    });
}

#[test]
fn twelve_hundred_sockets_work() {
    alone(|| {
        const SOCKETS: usize = 1_200;
        if !allows_descriptors(5_500) {
            return;
        }
        let ctx = ZContext::builder().max_sockets(3_000).build().unwrap();
        let pipelines: Vec<_> =
            (0..SOCKETS).map(|index| pipeline(&ctx, &format!("many-{index}"))).collect();
        let mut poller = ZPoller::new();
        for (index, (_, pull)) in pipelines.iter().enumerate() {
            poller.add(index, pull).unwrap();
        }
        assert_eq!(poller.wait(NOW).unwrap(), None);
        for index in [0, 1_023, 1_024, SOCKETS - 1] {
            pipelines[index].0.send("x").unwrap();
            assert_eq!(poller.wait(PATIENTLY).unwrap(), Some(index));
            pipelines[index].1.try_recv().unwrap();
        }
        for (push, _) in &pipelines {
            push.send("x").unwrap();
        }
        assert_eq!(poller.wait_all(PATIENTLY).unwrap().len(), SOCKETS);
        let mut told = vec![0; SOCKETS];
        for _ in 0..SOCKETS {
            told[poller.wait(PATIENTLY).unwrap().unwrap()] += 1;
        }
        assert!(told.iter().all(|turns| *turns == 1), "one turn each");
        drop(poller);
    });
}
