//! The monitor: what it tells of a socket's connections, that its count of peers stays right, and
//! that neither it nor the socket minds the other's end.

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use zkit::{
    Error, EventKind, Exit, MonitorEvent, SocketType, ZContext, ZLoop, ZMonitor, ZSock, interrupt,
};

use common::{alone, unique, within};

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(20);
const HALF: Duration = Duration::from_secs(10);
/// How long to look for what must not come.
const NEVER: Duration = Duration::from_millis(100);
const WILDCARDS: [&str; 2] = ["tcp://127.0.0.1:*", "ipc://*"];

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn bounded(case: impl FnOnce() + Send + 'static) {
    let test = thread::current().name().expect("libtest names its threads").to_owned();
    within(LIMIT, &test, case);
}

fn over_each_transport(case: fn(&'static str)) {
    for wildcard in WILDCARDS {
        within(LIMIT, wildcard, move || case(wildcard));
    }
}

fn context() -> ZContext {
    ZContext::builder().linger(Some(Duration::ZERO)).signals(false).build().unwrap()
}

/// A socket that tries again soon.
fn eager(ctx: &ZContext, kind: SocketType) -> ZSock {
    let socket = ctx.socket(kind).unwrap();
    socket.set_reconnect_ivl(Some(ms(5))).unwrap();
    socket
}

#[track_caller]
fn next(monitor: &ZMonitor) -> MonitorEvent {
    monitor.recv_timeout(HALF).expect("an event").expect("the socket is open")
}

/// Receives up to an event of the kind, which it returns.
#[track_caller]
fn skip_to(monitor: &ZMonitor, kind: EventKind) -> MonitorEvent {
    let mut skipped = Vec::new();
    loop {
        match monitor.recv_timeout(HALF) {
            Ok(Some(event)) if event.kind == kind => return event,
            Ok(Some(event)) => skipped.push(event.kind),
            end => panic!("no {kind:?} but {skipped:?} and {end:?}"),
        }
    }
}

/// What is left when the socket is gone.
#[track_caller]
fn rest(monitor: &ZMonitor) -> Vec<EventKind> {
    let mut kinds = Vec::new();
    while let Some(event) = monitor.recv_timeout(HALF).expect("an event or the end") {
        kinds.push(event.kind);
    }
    for _ in 0..3 {
        assert_eq!(monitor.recv().unwrap(), None);
        assert_eq!(monitor.try_recv().unwrap(), None);
        assert_eq!(monitor.recv_timeout(Duration::ZERO).unwrap(), None);
    }
    kinds
}

#[track_caller]
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + HALF;
    while !condition() {
        assert!(Instant::now() < give_up, "{what}: not in time");
        thread::sleep(ms(1));
    }
}

/// Where a plain TCP client finds a socket.
fn address(endpoint: &str) -> &str {
    endpoint.strip_prefix("tcp://").unwrap()
}

/// A port at which nobody listens.
fn nowhere(ctx: &ZContext) -> String {
    let socket = ctx.pair("").unwrap();
    let endpoint = socket.bind("tcp://127.0.0.1:*").unwrap();
    drop(socket);
    until("it is closed", || TcpStream::connect(address(&endpoint)).is_err());
    endpoint
}

// What it tells.

#[test]
fn both_sides_tell_of_a_connection_from_beginning_to_end() {
    over_each_transport(|wildcard| {
        let ctx = context();
        let server = ctx.pair("").unwrap();
        let at_server = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind(wildcard).unwrap();
        let listening = next(&at_server);
        assert_eq!(listening.kind, EventKind::Listening);
        assert_eq!(listening.endpoint, endpoint);
        assert!(listening.value > 2, "{listening:?}");
        assert_eq!(listening.missed, 0);
        assert!(at_server.try_recv().unwrap_err().is_would_block());
        assert!(at_server.recv_timeout(ms(10)).unwrap_err().is_timeout());

        let client = eager(&ctx, SocketType::Pair);
        let at_client = ZMonitor::new(&client).unwrap();
        client.connect(&endpoint).unwrap();
        let accepted = next(&at_server);
        assert_eq!((accepted.kind, &accepted.endpoint), (EventKind::Accepted, &endpoint));
        assert!(accepted.value > 2 && accepted.value != listening.value, "{accepted:?}");
        let succeeded = next(&at_server);
        assert_eq!(succeeded.kind, EventKind::HandshakeSucceeded);
        assert_eq!((succeeded.value, &succeeded.endpoint), (0, &endpoint));
        assert_eq!(at_server.peers(), 1);

        let mut event = next(&at_client);
        if event.kind == EventKind::ConnectDelayed {
            // Its value is EINPROGRESS.
            assert_eq!((event.value, &event.endpoint), (libc::EINPROGRESS as u32, &endpoint));
            event = next(&at_client);
        }
        assert_eq!((event.kind, &event.endpoint), (EventKind::Connected, &endpoint));
        assert!(event.value > 2 && event.value != accepted.value, "{event:?}");
        let succeeded = next(&at_client);
        assert_eq!(succeeded.kind, EventKind::HandshakeSucceeded);
        assert_eq!((succeeded.value, &succeeded.endpoint), (0, &endpoint));
        assert_eq!(at_client.peers(), 1);

        // The client goes: it has nothing more to tell than that.
        drop(client);
        rest(&at_client);
        let gone = next(&at_server);
        assert_eq!((gone.kind, &gone.endpoint), (EventKind::Disconnected, &endpoint));
        assert_eq!(gone.value, accepted.value);
        assert_eq!(at_server.peers(), 0);

        // The other way round: the server goes, and the client tries again.
        let client = eager(&ctx, SocketType::Pair);
        let at_client = ZMonitor::new(&client).unwrap();
        client.connect(&endpoint).unwrap();
        skip_to(&at_client, EventKind::HandshakeSucceeded);
        skip_to(&at_server, EventKind::HandshakeSucceeded);
        drop(server);
        let gone = next(&at_client);
        assert_eq!((gone.kind, &gone.endpoint), (EventKind::Disconnected, &endpoint));
        assert_eq!(at_client.peers(), 0);
        let retried = skip_to(&at_client, EventKind::ConnectRetried);
        assert_eq!(retried.endpoint, endpoint);
        assert!((5..=15).contains(&retried.value), "{retried:?}");
        rest(&at_server);
    });
}

#[test]
fn unbinding_closes_what_listens_and_tells_so() {
    over_each_transport(|wildcard| {
        let ctx = context();
        let server = ctx.pull("").unwrap();
        let monitor = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind(wildcard).unwrap();
        let listening = next(&monitor);
        server.unbind(&endpoint).unwrap();
        let closed = next(&monitor);
        assert_eq!((closed.kind, closed.endpoint), (EventKind::Closed, endpoint));
        assert_eq!(closed.value, listening.value);
    });
}

#[test]
fn connecting_to_nowhere_is_delayed_closed_and_tried_again() {
    bounded(|| {
        let ctx = context();
        let endpoint = nowhere(&ctx);
        let client = eager(&ctx, SocketType::Dealer);
        let monitor = ZMonitor::new(&client).unwrap();
        client.connect(&endpoint).unwrap();
        for _ in 0..3 {
            for kind in [EventKind::ConnectDelayed, EventKind::Closed, EventKind::ConnectRetried] {
                let event = next(&monitor);
                assert_eq!((event.kind, &event.endpoint), (kind, &endpoint));
                if kind == EventKind::ConnectRetried {
                    assert!((5..=15).contains(&event.value), "{event:?}");
                }
            }
        }
        assert_eq!(monitor.peers(), 0);
        let error = monitor.wait_for_peers(1, ms(50)).unwrap_err();
        assert!(error.is_timeout(), "{error}");
        // Somebody comes after all.
        let server = ctx.dealer("").unwrap();
        server.bind(&endpoint).unwrap();
        monitor.wait_for_peers(1, HALF).unwrap();
    });
}

#[test]
fn a_bind_that_fails_is_told_with_its_error_number() {
    bounded(|| {
        let ctx = context();
        let first = ctx.pull("").unwrap();
        let endpoint = first.bind("tcp://127.0.0.1:*").unwrap();
        let second = ctx.pull("").unwrap();
        let monitor = ZMonitor::new(&second).unwrap();
        let error = second.bind(&endpoint).unwrap_err();
        assert_eq!(error.reason().unwrap().errno(), Some(libc::EADDRINUSE));
        let event = skip_to(&monitor, EventKind::BindFailed);
        assert_eq!(event.value, libc::EADDRINUSE as u32);
        // libzmq leaves the transport out here.
        assert!(endpoint.ends_with(&event.endpoint), "{event:?}");
    });
}

/// libzmq's errno is what telling the monitor left in it, now and then.
#[test]
fn why_a_bind_fails_is_known_although_a_monitor_is_told_at_the_same_time() {
    bounded(|| {
        let ctx = context();
        let first = ctx.pull("").unwrap();
        let endpoint = first.bind("tcp://127.0.0.1:*").unwrap();
        let second = ctx.pull("").unwrap();
        let _monitor = ZMonitor::new(&second).unwrap();
        for _ in 0..5_000 {
            let error = second.bind(&endpoint).unwrap_err();
            let errno = error.reason().and_then(|reason| reason.errno());
            assert_eq!(errno, Some(libc::EADDRINUSE), "{error}");
        }
    });
}

#[test]
fn inproc_has_no_events() {
    bounded(|| {
        let ctx = context();
        let name = format!("inproc://{}", unique("monitor"));
        let server = ctx.pair("").unwrap();
        let monitor = ZMonitor::new(&server).unwrap();
        server.bind(&name).unwrap();
        let client = ctx.pair(&name).unwrap();
        client.send("there").unwrap();
        assert_eq!(server.recv_timeout(HALF).unwrap(), "there".into());
        drop(client);
        assert!(monitor.recv_timeout(NEVER).unwrap_err().is_timeout());
        drop(server);
        assert!(rest(&monitor).is_empty());
    });
}

// Who is no peer.

/// The beginning of every connection, with a mechanism's name.
fn greeting(mechanism: &[u8]) -> Vec<u8> {
    let mut greeting = vec![0; 64];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..12 + mechanism.len()].copy_from_slice(mechanism);
    greeting
}

/// Says `bytes` to a socket and leaves when the socket hangs up, or at once.
fn say(endpoint: &str, bytes: &[u8], leave: bool) {
    let mut stream = TcpStream::connect(address(endpoint)).unwrap();
    stream.set_read_timeout(Some(HALF)).unwrap();
    let _ = stream.write_all(bytes);
    if leave {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn what_speaks_garbage_fails_its_handshake_and_is_no_peer() {
    bounded(|| {
        let ctx = context();
        let server = ctx.router("").unwrap();
        let monitor = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
        let client = ctx.dealer(&endpoint).unwrap();
        monitor.wait_for_peers(1, HALF).unwrap();

        let mut nonsense = greeting(b"NULL");
        nonsense.extend(b"\x04\x07\x06NOWAYS");
        let mut not_ready = greeting(b"NULL");
        not_ready.extend(b"\x00\x05Hello");
        let garbage: [(&str, Vec<u8>, bool); 7] = [
            ("nothing", Vec::new(), true),
            ("HTTP", b"GET / HTTP/1.0\r\n\r\n".to_vec(), true),
            ("half a greeting", greeting(b"NULL")[..20].to_vec(), true),
            ("a greeting and no more", greeting(b"NULL"), true),
            ("another mechanism", greeting(b"PLAIN"), false),
            ("a nonsensical command", nonsense, false),
            ("a message for a command", not_ready, false),
        ];
        for (what, bytes, leave) in garbage {
            say(&endpoint, &bytes, leave);
            assert_eq!(next(&monitor).kind, EventKind::Accepted, "{what}");
            let failed = next(&monitor);
            println!("{what}: {failed:?}");
            let expected =
                if leave { EventKind::HandshakeFailed } else { EventKind::HandshakeFailedProtocol };
            assert_eq!(failed.kind, expected, "{what}");
            assert_ne!(failed.value, 0, "{what}");
            assert_eq!(monitor.peers(), 1, "{what}");
            assert_eq!(next(&monitor).kind, EventKind::Disconnected, "{what}");
            assert_eq!(monitor.peers(), 1, "{what}");
        }
        drop(client);
        skip_to(&monitor, EventKind::Disconnected);
        assert_eq!(monitor.peers(), 0);
    });
}

#[test]
fn a_handshake_that_takes_too_long_fails() {
    bounded(|| {
        let ctx = context();
        let server = ctx.pull("").unwrap();
        server.set_handshake_ivl(Some(ms(20))).unwrap();
        let monitor = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
        say(&endpoint, &greeting(b"NULL"), false);
        skip_to(&monitor, EventKind::HandshakeFailed);
        assert_eq!(next(&monitor).kind, EventKind::Disconnected);
        assert_eq!(monitor.peers(), 0);
    });
}

#[test]
fn the_count_of_peers_stays_right_whoever_comes_and_goes() {
    within(2 * LIMIT, "peers", || {
        let ctx = context();
        let server = ctx.router("").unwrap();
        let monitor = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
        let mut clients: Vec<ZSock> = Vec::new();
        for round in 0..150 {
            match fastrand::u32(..4) {
                0 | 1 => clients.push(ctx.dealer(&endpoint).unwrap()),
                2 if !clients.is_empty() => {
                    clients.swap_remove(fastrand::usize(..clients.len()));
                }
                _ => say(&endpoint, [&b"GET /"[..], &greeting(b"FOO")][round % 2], true),
            }
            // Only now and then, so that the events of several are mixed.
            if fastrand::u32(..4) == 0 {
                while monitor.peers() != clients.len() {
                    next(&monitor);
                }
            }
        }
        while monitor.peers() != clients.len() {
            next(&monitor);
        }
        // Nothing that is still to come makes it wrong.
        while monitor.recv_timeout(NEVER).is_ok() {}
        assert_eq!(monitor.peers(), clients.len());
        clients.clear();
        while monitor.peers() != 0 {
            next(&monitor);
        }
    });
}

#[test]
fn who_is_refused_is_told_with_the_status_and_is_no_peer() {
    bounded(|| {
        let ctx = context();
        let zap = ctx.rep("@inproc://zeromq.zap.01").unwrap();
        let authenticator = thread::spawn(move || {
            while let Ok(request) = zap.recv() {
                let user = request.get(6).unwrap().as_str().unwrap().to_owned();
                let id = request.get(1).unwrap().clone();
                let status = if user == "friend" { "200" } else { "400" };
                zap.send(("1.0", id, status, "", "", "")).unwrap();
            }
        });
        let server = ctx.router("").unwrap();
        server.set_plain_server(true).unwrap();
        server.set_zap_domain("test").unwrap();
        let at_server = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
        let client = |user| {
            let client = ctx.socket(SocketType::Dealer).unwrap();
            client.set_plain_username(Some(user)).unwrap();
            client.set_plain_password(Some("secret")).unwrap();
            client.set_reconnect_ivl(None).unwrap();
            let monitor = ZMonitor::new(&client).unwrap();
            client.connect(&endpoint).unwrap();
            (client, monitor)
        };
        let (friend, at_friend) = client("friend");
        at_friend.wait_for_peers(1, HALF).unwrap();
        at_server.wait_for_peers(1, HALF).unwrap();

        let (_stranger, at_stranger) = client("stranger");
        let failed = skip_to(&at_server, EventKind::HandshakeFailedAuth);
        assert_eq!((failed.value, &failed.endpoint), (400, &endpoint));
        let failed = skip_to(&at_stranger, EventKind::HandshakeFailedAuth);
        assert_eq!(failed.value, 400);
        skip_to(&at_stranger, EventKind::Disconnected);
        skip_to(&at_server, EventKind::Disconnected);
        assert_eq!((at_server.peers(), at_stranger.peers()), (1, 0));
        drop((at_friend, friend));
        skip_to(&at_server, EventKind::Disconnected);
        assert_eq!(at_server.peers(), 0);
        ctx.shutdown().unwrap();
        authenticator.join().unwrap();
    });
}

#[test]
fn without_anybody_to_ask_whom_to_let_in_nobody_is() {
    bounded(|| {
        let ctx = context();
        let server = ctx.pull("").unwrap();
        server.set_plain_server(true).unwrap();
        server.set_zap_domain("test").unwrap();
        // libzmq sometimes overlooks its own failure, and closes only by this.
        server.set_handshake_ivl(Some(ms(100))).unwrap();
        let monitor = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
        let client = ctx.socket(SocketType::Push).unwrap();
        client.set_plain_username(Some("anybody")).unwrap();
        client.set_reconnect_ivl(None).unwrap();
        client.connect(&endpoint).unwrap();
        skip_to(&monitor, EventKind::HandshakeFailed);
        skip_to(&monitor, EventKind::Disconnected);
        assert_eq!(monitor.peers(), 0);
    });
}

// How it ends.

#[test]
fn a_socket_that_goes_first_leaves_its_last_events_and_then_none_for_ever() {
    over_each_transport(|wildcard| {
        let ctx = context();
        let server = ctx.pull("").unwrap();
        let monitor = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind(wildcard).unwrap();
        let client = ctx.push(&endpoint).unwrap();
        client.send_timeout("here", HALF).unwrap();
        server.recv_timeout(HALF).unwrap();
        drop(server);
        let kinds = rest(&monitor);
        let expected = [EventKind::Listening, EventKind::Accepted, EventKind::HandshakeSucceeded];
        assert_eq!(kinds[..3], expected);
        let error = monitor.wait_for_peers(100, HALF).unwrap_err();
        assert!(matches!(error, Error::Ended { .. }), "{error}");
        assert!(error.to_string().contains("the socket that is monitored is gone"), "{error}");
    });
}

#[test]
fn a_thread_that_waits_for_an_event_is_told_of_the_end() {
    bounded(|| {
        let ctx = context();
        for _ in 0..50 {
            let socket = ctx.pair("").unwrap();
            let monitor = ZMonitor::new(&socket).unwrap();
            let waits = thread::spawn(move || monitor.recv());
            thread::sleep(Duration::from_micros(fastrand::u64(..500)));
            drop(socket);
            assert_eq!(waits.join().unwrap().unwrap(), None);
        }
    });
}

#[test]
fn a_monitor_that_goes_first_leaves_the_socket_at_work_through_reconnects() {
    over_each_transport(|wildcard| {
        let ctx = context();
        let server = ctx.dealer("").unwrap();
        let at_server = ZMonitor::new(&server).unwrap();
        let asked = match wildcard {
            // Some builds of libzmq make a directory for a wildcard, which goes with the socket.
            "ipc://*" => format!("ipc://{}", std::env::temp_dir().join(unique("ipc")).display()),
            wildcard => wildcard.to_owned(),
        };
        let endpoint = server.bind(&asked).unwrap();
        let client = eager(&ctx, SocketType::Dealer);
        let at_client = ZMonitor::new(&client).unwrap();
        client.connect(&endpoint).unwrap();
        at_server.wait_for_peers(1, HALF).unwrap();
        // With events on their way, and traffic.
        let more: Vec<_> = (0..20).map(|_| ctx.dealer(&endpoint).unwrap()).collect();
        for number in 0..100_u32 {
            client.send_timeout(number, HALF).unwrap();
        }
        drop((at_client, at_server));
        drop(more);
        for number in 0..100_u32 {
            assert_eq!(server.recv_timeout(HALF).unwrap(), number.into());
        }
        // The same threads of libzmq serve these, and a reconnect makes events for nobody.
        for number in 0..20_u32 {
            let more = ctx.dealer(&endpoint).unwrap();
            more.send_timeout(number, HALF).unwrap();
            assert_eq!(server.recv_timeout(HALF).unwrap(), number.into());
        }
        drop(server);
        let server = ctx.dealer("").unwrap();
        server.bind(&endpoint).unwrap();
        // What is sent before the client has seen the old server go is lost with it.
        until("the client is here again", || {
            client.send_timeout("again", HALF).unwrap();
            server.recv_timeout(ms(50)).is_ok()
        });
    });
}

#[test]
fn monitors_and_sockets_end_hundreds_of_times_with_events_on_their_way() {
    within(2 * LIMIT, "ends", || {
        let ctx = context();
        let endpoint = nowhere(&ctx);
        let start = Instant::now();
        for round in 0..400_u32 {
            // It tries again and again, each time with three events.
            let socket = ctx.socket(SocketType::Dealer).unwrap();
            socket.set_reconnect_ivl(Some(ms(1))).unwrap();
            let monitor = ZMonitor::new(&socket).unwrap();
            socket.connect(&endpoint).unwrap();
            if round % 2 == 0 {
                drop(monitor);
                drop(socket);
            } else {
                let other =
                    thread::spawn(
                        move || {
                            while let Some(_event) = monitor.recv_timeout(HALF).unwrap() {}
                        },
                    );
                thread::sleep(Duration::from_micros(fastrand::u64(..2_000)));
                drop(socket);
                other.join().unwrap();
            }
        }
        println!("400 in {:?}", start.elapsed());
        // libzmq's thread is well.
        let pull = ctx.pull("").unwrap();
        let push = ctx.push(&pull.bind("tcp://127.0.0.1:*").unwrap()).unwrap();
        push.send_timeout("well", HALF).unwrap();
        assert_eq!(pull.recv_timeout(HALF).unwrap(), "well".into());
    });
}

#[test]
fn a_second_monitor_ends_the_first_whose_end_does_not_stop_the_second() {
    over_each_transport(|wildcard| {
        let ctx = context();
        let socket = ctx.pull("").unwrap();
        let first = ZMonitor::new(&socket).unwrap();
        let endpoint = socket.bind(wildcard).unwrap();
        let second = ZMonitor::new(&socket).unwrap();
        // What it told before it has still told.
        assert_eq!(rest(&first), [EventKind::Listening]);
        let one = ctx.push(&endpoint).unwrap();
        second.wait_for_peers(1, HALF).unwrap();
        assert_eq!(first.try_recv().unwrap(), None);
        drop(first);
        let two = ctx.push(&endpoint).unwrap();
        second.wait_for_peers(2, HALF).unwrap();
        // And in the same breath.
        let mut monitor = second;
        for _ in 0..50 {
            let next = ZMonitor::new(&socket).unwrap();
            drop(std::mem::replace(&mut monitor, next));
        }
        drop((one, two));
        skip_to(&monitor, EventKind::Disconnected);
        skip_to(&monitor, EventKind::Disconnected);
        // A third one after none.
        drop(monitor);
        let monitor = ZMonitor::new(&socket).unwrap();
        let _three = ctx.push(&endpoint).unwrap();
        monitor.wait_for_peers(1, HALF).unwrap();
    });
}

#[test]
fn the_shutdown_of_the_context_ends_it() {
    bounded(|| {
        let ctx = context();
        let socket = ctx.pull("").unwrap();
        let monitor = ZMonitor::new(&socket).unwrap();
        let idle = ZMonitor::new(&ctx.pull("").unwrap()).unwrap();
        let waits = thread::spawn(move || monitor.recv());
        thread::sleep(ms(20));
        ctx.shutdown().unwrap();
        // The end of the monitor, which is told by it, or that of the context.
        for end in [waits.join().unwrap(), idle.recv()] {
            match end {
                Ok(event) => assert_eq!(event, None),
                Err(error) => assert!(error.is_terminated(), "{error}"),
            }
        }
        let error = ZMonitor::new(&socket).unwrap_err();
        assert!(error.is_terminated(), "{error}");
    });
}

#[test]
fn an_adopted_socket_is_refused_in_words() {
    bounded(|| {
        let of_zmq = zmq::Context::new();
        let socket = ZSock::adopt(of_zmq.socket(zmq::PULL).unwrap()).unwrap();
        let error = ZMonitor::new(&socket).unwrap_err();
        assert!(matches!(error, Error::Wait { .. }), "{error}");
        assert!(error.to_string().contains("an adopted socket cannot be monitored"), "{error}");
        assert_eq!(error.reason().unwrap().errno(), None);
    });
}

#[test]
fn a_context_without_sockets_left_for_it_refuses_and_leaves_the_socket_as_it_is() {
    bounded(|| {
        {
            let ctx = ZContext::builder().max_sockets(1).signals(false).build().unwrap();
            let socket = ctx.pull("").unwrap();
            let error = ZMonitor::new(&socket).unwrap_err();
            assert!(matches!(error, Error::Socket { .. } | Error::Wait { .. }), "{error}");
            let endpoint = socket.bind("tcp://127.0.0.1:*").unwrap();
            drop(TcpStream::connect(address(&endpoint)).unwrap());
            drop(socket);
        }
        let ctx = ZContext::builder().max_sockets(5).signals(false).build().unwrap();
        let socket = ctx.pull("").unwrap();
        let monitor = ZMonitor::new(&socket).unwrap();
        socket.bind("tcp://127.0.0.1:*").unwrap();
        assert_eq!(next(&monitor).kind, EventKind::Listening);
    });
}

// That nobody has to receive.

#[test]
fn what_nobody_receives_holds_nothing_up_and_is_counted() {
    within(3 * LIMIT, "missed", || {
        const CONNECTIONS: u64 = 3_000;
        let ctx = context();
        let server = ctx.pull("").unwrap();
        let monitor = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
        let client = ctx.push(&endpoint).unwrap();
        monitor.wait_for_peers(1, HALF).unwrap();

        // Accepted, failed, disconnected: three events each.
        for number in 0..CONNECTIONS {
            say(&endpoint, &greeting(b"FOO"), false);
            if number % 100 == 0 {
                client.send_timeout(number, HALF).unwrap();
                assert_eq!(server.recv_timeout(HALF).unwrap(), number.into());
            }
        }
        let (mut received, mut missed) = (0, 0);
        let mut note = |event: MonitorEvent| {
            received += 1;
            missed += event.missed;
            (received + missed, event.kind)
        };
        // Those that had room come first, and then what tells how many had not.
        while let Ok(Some(event)) = monitor.recv_timeout(NEVER) {
            note(event);
        }
        say(&endpoint, &greeting(b"FOO"), false);
        let all = 3 * (CONNECTIONS + 1);
        let mut kinds = Vec::new();
        let told = loop {
            let (told, kind) = note(next(&monitor));
            kinds.push(kind);
            if told >= all {
                break told;
            }
        };
        assert_eq!(told, all);
        let one =
            [EventKind::Accepted, EventKind::HandshakeFailedProtocol, EventKind::Disconnected];
        assert!(kinds.ends_with(&one), "{kinds:?}");
        // How many had room depends on how soon the monitor's thread had its turn.
        assert!(received >= 2_000 && missed > 0, "{received} and {missed}");
        drop(client);
        assert_eq!(next(&monitor).kind, EventKind::Disconnected);
    });
}

#[test]
fn a_full_monitor_ends_as_fast_as_an_empty_one() {
    bounded(|| {
        let ctx = context();
        let server = ctx.pull("").unwrap();
        let monitor = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
        for _ in 0..1_000 {
            say(&endpoint, &greeting(b"FOO"), false);
        }
        let start = Instant::now();
        drop(monitor);
        println!("ended in {:?}", start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    });
}

#[test]
fn what_a_full_monitor_holds_comes_before_the_end() {
    bounded(|| {
        let ctx = context();
        let server = ctx.pull("").unwrap();
        let monitor = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
        for _ in 0..1_000 {
            say(&endpoint, &greeting(b"FOO"), false);
        }
        drop(server);
        let kinds = rest(&monitor);
        assert!(kinds.len() >= 2_000, "{}", kinds.len());
        assert_eq!(kinds[0], EventKind::Listening);
        assert_eq!(kinds[1], EventKind::Accepted);
    });
}

// Waiting for others.

#[test]
fn waiting_for_peers_returns_when_there_are_enough() {
    over_each_transport(|wildcard| {
        const PEERS: usize = 10;
        let ctx = context();
        let server = ctx.pub_("").unwrap();
        let monitor = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind(wildcard).unwrap();
        monitor.wait_for_peers(0, Duration::ZERO).unwrap();
        let clients: Vec<_> = (0..PEERS).map(|_| ctx.sub(&endpoint, "").unwrap()).collect();
        monitor.wait_for_peers(PEERS, HALF).unwrap();
        assert_eq!(monitor.peers(), PEERS);
        // They are there already.
        monitor.wait_for_peers(1, Duration::ZERO).unwrap();
        let start = Instant::now();
        assert!(monitor.wait_for_peers(PEERS + 1, ms(50)).unwrap_err().is_timeout());
        assert!(start.elapsed() >= ms(50), "{:?}", start.elapsed());
        drop(clients);
        for _ in 0..PEERS {
            skip_to(&monitor, EventKind::Disconnected);
        }
        assert_eq!(monitor.peers(), 0);
        // One goes while it waits for another.
        let gone = ctx.sub(&endpoint, "").unwrap();
        monitor.wait_for_peers(1, HALF).unwrap();
        drop(gone);
        let (_one, _two) = (ctx.sub(&endpoint, "").unwrap(), ctx.sub(&endpoint, "").unwrap());
        monitor.wait_for_peers(2, HALF).unwrap();
    });
}

#[test]
fn waiting_for_peers_ends_when_the_socket_does() {
    bounded(|| {
        let ctx = context();
        let socket = ctx.pull("").unwrap();
        let monitor = ZMonitor::new(&socket).unwrap();
        let waits = thread::spawn(move || monitor.wait_for_peers(1, HALF));
        thread::sleep(ms(20));
        drop(socket);
        let error = waits.join().unwrap().unwrap_err();
        assert!(matches!(error, Error::Ended { .. }), "{error}");
    });
}

#[test]
fn in_a_loop_each_event_is_a_call_and_the_end_is_one() {
    bounded(|| {
        let ctx = context();
        let server = ctx.pull("").unwrap();
        let monitor = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
        let ended = thread::spawn({
            let ctx = ctx.clone();
            move || {
                let client = ctx.push(&endpoint).unwrap();
                client.send_timeout("here", HALF).unwrap();
                server.recv_timeout(HALF).unwrap();
                drop(client);
                // Till the loop has told of it.
                server
            }
        });
        let mut zloop = ZLoop::<Vec<Option<EventKind>>>::new().unwrap();
        let mut ended = Some(ended);
        monitor
            .reader(&mut zloop, move |events, zloop, event| {
                let kind = event.map(|event| event.kind);
                events.push(kind);
                match kind {
                    Some(EventKind::Disconnected) => {
                        drop(ended.take().map(thread::JoinHandle::join));
                    }
                    Some(_) => {}
                    None => zloop.stop(),
                }
                Ok(())
            })
            .unwrap();
        let mut events = Vec::new();
        assert_eq!(zloop.run(&mut events).unwrap(), Exit::Stopped);
        // Whether the socket's own end is told of is left open.
        events.retain(|event| *event != Some(EventKind::Closed));
        assert_eq!(
            events,
            [
                Some(EventKind::Listening),
                Some(EventKind::Accepted),
                Some(EventKind::HandshakeSucceeded),
                Some(EventKind::Disconnected),
                None
            ]
        );
        // Once.
        assert_eq!(zloop.turn(&mut events, Some(NEVER)).unwrap(), None);
        assert_eq!(events.len(), 5);
        assert_eq!(monitor.peers(), 0);
    });
}

fn publisher(ctx: &ZContext, wildcard: &str, verbose: bool) -> (ZSock, String) {
    let publisher = ctx.socket(SocketType::XPub).unwrap();
    publisher.set_xpub_verbose(verbose).unwrap();
    let endpoint = publisher.bind(wildcard).unwrap();
    (publisher, endpoint)
}

#[test]
fn waiting_for_subscribers_lets_none_of_them_miss_what_is_sent_then() {
    over_each_transport(|wildcard| {
        let ctx = context();
        let (publisher, endpoint) = publisher(&ctx, wildcard, true);
        let subscribers: Vec<_> = (0..10).map(|_| ctx.sub(&endpoint, "").unwrap()).collect();
        publisher.wait_for_subscribers(10, HALF).unwrap();
        publisher.send("extra").unwrap();
        for subscriber in &subscribers {
            assert_eq!(subscriber.recv_str_timeout(HALF).unwrap(), "extra");
        }
        publisher.wait_for_subscribers(0, Duration::ZERO).unwrap();
        assert!(publisher.wait_for_subscribers(1, ms(20)).unwrap_err().is_timeout());
    });
}

#[test]
fn without_verbosity_a_prefix_counts_once() {
    over_each_transport(|wildcard| {
        let ctx = context();
        let (publisher, endpoint) = publisher(&ctx, wildcard, false);
        let _two = [ctx.sub(&endpoint, "a").unwrap(), ctx.sub(&endpoint, "a").unwrap()];
        let error = publisher.wait_for_subscribers(2, NEVER).unwrap_err();
        assert!(error.is_timeout(), "{error}");
        let _other = ctx.sub(&endpoint, "b").unwrap();
        publisher.wait_for_subscribers(1, HALF).unwrap();
    });
}

#[test]
fn an_unsubscription_takes_one_off_and_other_messages_none() {
    bounded(|| {
        let ctx = context();
        let (publisher, endpoint) = publisher(&ctx, "inproc://subscriptions", true);
        let stays = ctx.sub(&endpoint, "a").unwrap();
        let goes = ctx.sub(&endpoint, "b").unwrap();
        goes.unsubscribe("b").unwrap();
        let talks = ctx.xsub(&endpoint).unwrap();
        talks.send("no subscription").unwrap();
        goes.subscribe("c").unwrap();
        // Three subscriptions, one of them taken back.
        let error = publisher.wait_for_subscribers(3, NEVER).unwrap_err();
        assert!(error.is_timeout(), "{error}");
        // It starts to count anew.
        talks.send(b"\x01d").unwrap();
        publisher.wait_for_subscribers(1, HALF).unwrap();
        drop(stays);
    });
}

#[test]
fn only_an_xpub_waits_for_subscribers() {
    bounded(|| {
        let ctx = context();
        for socket in [ctx.pub_("").unwrap(), ctx.xsub("").unwrap(), ctx.router("").unwrap()] {
            let kind = socket.socket_type();
            let error = socket.wait_for_subscribers(0, HALF).unwrap_err();
            assert!(matches!(error, Error::Receive { .. }), "{error}");
            assert!(error.to_string().contains("only an XPUB"), "{error}");
            assert!(error.to_string().contains(kind.name()), "{error}");
        }
    });
}

// Ctrl-C.

#[test]
fn sigint_interrupts_who_waits_for_an_event_and_not_the_monitor() {
    alone(|| {
        let ctx = ZContext::builder().linger(Some(Duration::ZERO)).build().unwrap();
        let server = ctx.xpub("").unwrap();
        let monitor = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
        assert_eq!(next(&monitor).kind, EventKind::Listening);
        let (at_work, waits) = mpsc::channel();
        let waiter = thread::spawn(move || {
            at_work.send(()).unwrap();
            let error = monitor.recv().unwrap_err();
            assert!(error.is_interrupted(), "{error}");
            assert!(monitor.wait_for_peers(1, HALF).unwrap_err().is_interrupted());
            monitor
        });
        waits.recv_timeout(HALF).unwrap();
        thread::sleep(ms(20));
        kill(Pid::this(), Signal::SIGINT).unwrap();
        let monitor = waiter.join().unwrap();
        assert!(server.wait_for_subscribers(1, HALF).unwrap_err().is_interrupted());
        // What happens meanwhile is told afterwards.
        let _stream = TcpStream::connect(address(&endpoint)).unwrap();
        until("the event", || monitor.try_recv().is_ok());
        interrupt::reset();
        let _client = ctx.sub(&endpoint, "").unwrap();
        monitor.wait_for_peers(1, HALF).unwrap();
        server.wait_for_subscribers(1, HALF).unwrap();
    });
}

#[test]
fn socket_and_monitor_may_go_in_any_order_and_at_once() {
    bounded(|| {
        let ctx = context();
        let nowhere = ctx.pair("").unwrap().bind("tcp://127.0.0.1:*").unwrap();
        while TcpStream::connect(&nowhere["tcp://".len()..]).is_ok() {}
        for round in 0..400 {
            let socket = ctx.socket(SocketType::Dealer).unwrap();
            socket.set_reconnect_ivl(Some(Duration::from_millis(1))).unwrap();
            let monitor = ZMonitor::new(&socket).unwrap();
            socket.connect(&nowhere).unwrap();
            match round % 4 {
                0 => drop((monitor, socket)),
                1 => drop((socket, monitor)),
                2 => {
                    let other = thread::spawn(move || drop(monitor));
                    drop(socket);
                    other.join().unwrap();
                }
                _ => {
                    let other = thread::spawn(move || while let Ok(Some(_)) = monitor.recv() {});
                    thread::sleep(Duration::from_micros(fastrand::u64(..2_000)));
                    drop(socket);
                    other.join().unwrap();
                }
            }
        }
    });
}

#[test]
fn a_monitor_dropped_after_its_socket_lets_the_others_go_on() {
    bounded(|| {
        let ctx = ZContext::builder().signals(false).build().unwrap();
        let socket = eager(&ctx, SocketType::Dealer);
        let monitor = ZMonitor::new(&socket).unwrap();
        socket.connect("tcp://127.0.0.1:9").unwrap();
        socket.send("unsent").unwrap(); // it lingers for a second, and goes on having events
        drop(socket);
        drop(monitor);
        thread::sleep(NEVER);
        let pull = ctx.pull("").unwrap();
        let push = ctx.push(&pull.bind("tcp://127.0.0.1:*").unwrap()).unwrap();
        push.send("well").unwrap();
        assert_eq!(pull.recv_str_timeout(HALF).unwrap(), "well");
    });
}

#[test]
fn a_context_that_is_nearly_full_refuses_a_monitor_and_goes_on() {
    for left in 0..4 {
        within(LIMIT, "a full context", move || {
            for _ in 0..20 {
                let builder = ZContext::builder().max_sockets(1 + left).signals(false);
                let ctx = builder.linger(Some(Duration::ZERO)).build().unwrap();
                let socket = ctx.pull("").unwrap();
                assert!(matches!(
                    ZMonitor::new(&socket),
                    Err(Error::Socket { .. } | Error::Wait { .. })
                ));
                socket.bind("tcp://127.0.0.1:*").unwrap();
            }
        });
    }
}

#[test]
fn peers_are_counted_also_in_events_that_nobody_received() {
    bounded(|| {
        let ctx = context();
        let server = ctx.pull("").unwrap();
        let monitor = ZMonitor::new(&server).unwrap();
        let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
        let garbage = || {
            let mut stranger = TcpStream::connect(&endpoint["tcp://".len()..]).unwrap();
            stranger.set_read_timeout(Some(HALF)).unwrap();
            let _ = stranger.write_all(b"GET / HTTP/1.0\r\n\r\n");
            let _ = stranger.shutdown(Shutdown::Write);
            let _ = stranger.read_to_end(&mut Vec::new());
        };
        let mut client = None;
        let mut missed = 0;
        // Again, should the monitor's thread have been as slow as the one that receives here.
        while missed == 0 {
            // The pipe has room for 2,000.
            (0..1_000).for_each(|_| garbage());
            client.get_or_insert_with(|| ctx.push(&endpoint).unwrap()).send("here").unwrap();
            assert_eq!(server.recv_str_timeout(HALF).unwrap(), "here");
            while let Ok(event) = monitor.recv_timeout(NEVER) {
                missed += event.unwrap().missed;
            }
            garbage();
            missed += next(&monitor).missed;
        }
        monitor.wait_for_peers(1, HALF).unwrap();
        assert_eq!(monitor.peers(), 1);
    });
}

#[test]
fn a_handshake_that_fails_twice_is_one_connection() {
    let ctx = context();
    let zap = ctx.rep("@inproc://zeromq.zap.01").unwrap();
    let server = ctx.router("").unwrap();
    server.set_plain_server(true).unwrap();
    server.set_zap_domain("test").unwrap();
    server.set_handshake_ivl(Some(Duration::from_millis(20))).unwrap();
    let monitor = ZMonitor::new(&server).unwrap();
    let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
    let client = || {
        let client = ctx.socket(SocketType::Dealer).unwrap();
        client.set_plain_username(Some("u")).unwrap();
        client.set_reconnect_ivl(None).unwrap();
        client.connect(&endpoint).unwrap();
        client
    };
    let friend = client();
    let request = zap.recv().unwrap();
    zap.send(("1.0", request.get(1).unwrap().clone(), "200", "", "", "")).unwrap();
    monitor.wait_for_peers(1, Duration::from_secs(5)).unwrap();
    drop(zap);
    let (mut failed, mut gone) = (0, 0);
    for _ in 0..200 {
        let _stranger = client();
        loop {
            match monitor.recv_timeout(Duration::from_secs(5)).unwrap().unwrap().kind {
                EventKind::Disconnected => {
                    gone += 1;
                    break;
                }
                EventKind::HandshakeFailed => failed += 1,
                _ => {}
            }
        }
    }
    drop(friend);
    let last = monitor.recv_timeout(Duration::from_secs(5));
    assert!(matches!(last, Ok(Some(_))), "{failed} failures of {gone} connections: {last:?}");
    assert_eq!(monitor.peers(), 0);
}
