//! Sending and receiving with `ZSock`.

mod common;

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::{unique, within};
use proptest::prelude::*;
use zkit::{Attach, Error, Events, SocketType, ZContext, ZFrame, ZMsg, ZSock};

/// More than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);
/// How long to watch that nothing happens.
const SHORT: Duration = Duration::from_millis(60);

const TYPES: [(SocketType, &str); 12] = [
    (SocketType::Pair, "PAIR"),
    (SocketType::Pub, "PUB"),
    (SocketType::Sub, "SUB"),
    (SocketType::Req, "REQ"),
    (SocketType::Rep, "REP"),
    (SocketType::Dealer, "DEALER"),
    (SocketType::Router, "ROUTER"),
    (SocketType::Pull, "PULL"),
    (SocketType::Push, "PUSH"),
    (SocketType::XPub, "XPUB"),
    (SocketType::XSub, "XSUB"),
    (SocketType::Stream, "STREAM"),
];

fn context() -> ZContext {
    ZContext::builder().signals(false).build().expect("a context")
}

/// An inproc endpoint of its own.
fn inproc(name: &str) -> String {
    format!("inproc://{}", unique(name))
}

/// Two connected sockets, the first bound.
fn connected(ctx: &ZContext, bound: SocketType, other: SocketType) -> (ZSock, ZSock) {
    let endpoint = inproc("connected");
    let bound = ctx.socket(bound).unwrap();
    bound.bind(&endpoint).unwrap();
    let other = ctx.socket(other).unwrap();
    other.connect(&endpoint).unwrap();
    (bound, other)
}

#[track_caller]
fn recv(socket: &ZSock) -> ZMsg {
    socket.recv_timeout(LONG).expect("a message in time")
}

#[test]
fn every_type_is_made_and_named() {
    let ctx = context();
    for (socket_type, name) in TYPES {
        let socket = ctx.socket(socket_type).unwrap();
        assert_eq!(socket.socket_type(), socket_type);
        assert_eq!(socket_type.name(), name);
        assert_eq!(socket_type.to_string(), name);
        assert!(format!("{socket:?}").contains(name), "{socket:?}");
    }
}

#[test]
fn debug_shows_where_it_is_bound() {
    let ctx = context();
    let socket = ctx.router("@tcp://127.0.0.1:*").unwrap();
    let endpoint = socket.last_endpoint().unwrap().unwrap();
    assert!(format!("{socket:?}").contains(&endpoint), "{socket:?}");
    assert!(format!("{ctx:?}").contains("open_sockets: 1"), "{ctx:?}");
}

/// A constructor of a context or of `ZSock`, by type.
type Constructor = fn(&ZContext, &str) -> zkit::Result<ZSock>;

const CONSTRUCTORS: [(SocketType, Constructor, Attach); 12] = [
    (SocketType::Pair, |ctx, list| ctx.pair(list), Attach::Connect),
    (SocketType::Pub, |ctx, list| ctx.pub_(list), Attach::Bind),
    (SocketType::Sub, |ctx, list| ctx.sub(list, ""), Attach::Connect),
    (SocketType::Req, |ctx, list| ctx.req(list), Attach::Connect),
    (SocketType::Rep, |ctx, list| ctx.rep(list), Attach::Bind),
    (SocketType::Dealer, |ctx, list| ctx.dealer(list), Attach::Connect),
    (SocketType::Router, |ctx, list| ctx.router(list), Attach::Bind),
    (SocketType::Push, |ctx, list| ctx.push(list), Attach::Connect),
    (SocketType::Pull, |ctx, list| ctx.pull(list), Attach::Bind),
    (SocketType::XPub, |ctx, list| ctx.xpub(list), Attach::Bind),
    (SocketType::XSub, |ctx, list| ctx.xsub(list), Attach::Connect),
    (SocketType::Stream, |ctx, list| ctx.stream(list), Attach::Connect),
];

/// A name that is bound cannot be bound again, one that is only connected to can.
fn is_bound(ctx: &ZContext, endpoint: &str) -> bool {
    ctx.socket(SocketType::Pair).unwrap().bind(endpoint).is_err()
}

#[test]
fn constructors_attach_as_usual_for_the_type() {
    let ctx = context();
    for (socket_type, constructor, default) in CONSTRUCTORS {
        for (sign, bound) in [("", default == Attach::Bind), ("@", true), (">", false)] {
            let endpoint = inproc("attach");
            let socket = constructor(&ctx, &format!("{sign}{endpoint}")).unwrap();
            assert_eq!(socket.socket_type(), socket_type);
            assert_eq!(is_bound(&ctx, &endpoint), bound, "{socket_type} {sign:?}");
        }
    }
}

#[test]
fn global_constructors_attach_as_those_of_a_context() {
    type Global = fn(&str) -> zkit::Result<ZSock>;
    let constructors: [(SocketType, Global, Attach); 12] = [
        (SocketType::Pair, ZSock::pair, Attach::Connect),
        (SocketType::Pub, ZSock::pub_, Attach::Bind),
        (SocketType::Sub, |list| ZSock::sub(list, ""), Attach::Connect),
        (SocketType::Req, ZSock::req, Attach::Connect),
        (SocketType::Rep, ZSock::rep, Attach::Bind),
        (SocketType::Dealer, ZSock::dealer, Attach::Connect),
        (SocketType::Router, ZSock::router, Attach::Bind),
        (SocketType::Push, ZSock::push, Attach::Connect),
        (SocketType::Pull, ZSock::pull, Attach::Bind),
        (SocketType::XPub, ZSock::xpub, Attach::Bind),
        (SocketType::XSub, ZSock::xsub, Attach::Connect),
        (SocketType::Stream, ZSock::stream, Attach::Connect),
    ];
    let ctx = ZContext::global().unwrap();
    for (socket_type, constructor, default) in constructors {
        let endpoint = inproc("global");
        let socket = constructor(&endpoint).unwrap();
        assert_eq!(socket.socket_type(), socket_type);
        assert_eq!(is_bound(&ctx, &endpoint), default == Attach::Bind, "{socket_type}");
    }
}

#[test]
fn several_endpoints_are_attached_in_one_go() {
    let ctx = context();
    let (a, b, c) = (inproc("a"), inproc("b"), inproc("c"));
    let sinks = [ctx.pull(&b).unwrap(), ctx.pull(&c).unwrap()];
    let push = ctx.push(&format!("@{a},>{b},{c},@tcp://127.0.0.1:*")).unwrap();
    let tcp = push.last_endpoint().unwrap().unwrap();
    let [third, fourth] = [a, tcp].map(|endpoint| ctx.pull(&format!(">{endpoint}")).unwrap());
    // A PUSH gives each in turn, once all are there.
    for sink in [&sinks[0], &sinks[1], &third, &fourth] {
        while let Err(error) = sink.recv_timeout(Duration::from_millis(10)) {
            assert!(error.is_timeout(), "{error:?}");
            push.send_timeout("job", LONG).unwrap();
        }
    }
}

#[test]
fn no_endpoints_are_fine() {
    let ctx = context();
    for (_, constructor, _) in CONSTRUCTORS {
        let socket = constructor(&ctx, "").unwrap();
        socket.attach("", Attach::Bind).unwrap();
        socket.attach("", Attach::Connect).unwrap();
    }
}

#[test]
fn a_bad_list_fails_at_the_endpoint_that_is_bad() {
    let ctx = context();
    let good = inproc("good");
    let list = |rest: &str| ctx.dealer(&format!(">{good},{rest}")).unwrap_err();

    for (rest, bad) in [
        ("@nonsense", "nonsense"),
        ("@tcp://127.0.0.1:nonsense", "tcp://127.0.0.1:nonsense"),
        (&format!("@{good}-2,@,>{good}"), ""),
        (&format!("@{good}-3,@txp://127.0.0.1:1"), "txp://127.0.0.1:1"),
    ] {
        match list(rest) {
            Error::Bind { endpoint, .. } => assert_eq!(endpoint, bad),
            other => panic!("{other:?}"),
        }
    }
    for (rest, bad) in
        [("", ""), (" inproc://x", " inproc://x"), (">", ""), (">>inproc://x", ">inproc://x")]
    {
        match list(rest) {
            Error::Connect { endpoint, .. } => assert_eq!(endpoint, bad),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn strings_frames_and_tuples_arrive_as_they_were_sent() {
    let ctx = context();
    let (push, pull) = connected(&ctx, SocketType::Push, SocketType::Pull);

    push.send("text").unwrap();
    assert_eq!(pull.recv_str_timeout(LONG).unwrap(), "text");
    push.send(String::from("owned text")).unwrap();
    assert_eq!(pull.recv_str().unwrap(), "owned text");
    push.send(vec![0, 1, 2]).unwrap();
    assert_eq!(pull.recv_frame_timeout(LONG).unwrap(), &[0, 1, 2]);
    push.send(ZFrame::new(vec![7; 5000])).unwrap();
    assert_eq!(pull.recv_frame().unwrap(), &[7; 5000]);
    push.send(7_u32).unwrap();
    assert_eq!(recv(&pull).pop_u32().unwrap(), 7);
    push.send(("one", 2_u16, vec![3], "")).unwrap();
    let msg = recv(&pull);
    assert_eq!(msg, ("one", 2_u16, vec![3], "").into());
    let more: Vec<bool> = msg.iter().map(ZFrame::more).collect();
    assert_eq!(more, [true, true, true, false]);
    push.send(["a", "b"]).unwrap();
    assert_eq!(recv(&pull), ["a", "b"].into());
    push.send("").unwrap();
    assert_eq!(pull.recv_str().unwrap(), "");
    push.send((0..300_u32).collect::<ZMsg>()).unwrap();
    assert_eq!(recv(&pull), (0..300_u32).collect());
}

#[test]
fn a_received_frame_is_sent_on_alone() {
    let ctx = context();
    let (push, pull) = connected(&ctx, SocketType::Push, SocketType::Pull);
    push.send(("first", vec![9; 1000], "last")).unwrap();
    for frame in recv(&pull) {
        push.send(frame).unwrap();
    }
    assert_eq!(pull.recv_str().unwrap(), "first");
    assert_eq!(pull.recv_frame().unwrap(), &[9; 1000]);
    assert_eq!(pull.recv_str().unwrap(), "last");
}

#[test]
fn a_message_without_frames_is_not_sent() {
    let ctx = context();
    let (push, pull) = connected(&ctx, SocketType::Push, SocketType::Pull);
    push.send(ZMsg::new()).unwrap();
    push.try_send(ZMsg::new()).unwrap();
    push.send("next").unwrap();
    assert_eq!(recv(&pull), "next".into());
    // Not even where a message would have nowhere to go.
    ctx.push("").unwrap().try_send(ZMsg::new()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_message_arrives_as_it_was_sent(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..20),
        connected_by_tcp in any::<bool>(),
    ) {
        let ctx = context();
        let endpoint = if connected_by_tcp { "tcp://127.0.0.1:*".into() } else { inproc("any") };
        let pull = ctx.pull("").unwrap();
        let push = ctx.push(&pull.bind(&endpoint).unwrap()).unwrap();
        let msg: ZMsg = frames.into_iter().collect();
        push.send(msg.clone()).unwrap();
        prop_assert_eq!(recv(&pull), msg);
    }
}

#[test]
fn try_forms_do_not_wait() {
    let ctx = context();
    let (pair, other) = connected(&ctx, SocketType::Pair, SocketType::Pair);
    assert!(pair.try_recv().unwrap_err().is_would_block());
    assert!(pair.try_recv_frame().unwrap_err().is_would_block());
    assert!(pair.try_recv_str().unwrap_err().is_would_block());
    // Whatever the options say.
    pair.set_rcvtimeo(Some(LONG)).unwrap();
    assert!(pair.try_recv().unwrap_err().is_would_block());

    other.try_send(("a", "b")).unwrap();
    assert_eq!(pair.try_recv().unwrap(), ("a", "b").into());
    other.try_send("c").unwrap();
    assert_eq!(pair.try_recv_frame().unwrap(), "c");
    other.try_send("d").unwrap();
    assert_eq!(pair.try_recv_str().unwrap(), "d");

    let push = ctx.push("").unwrap();
    push.set_sndtimeo(Some(LONG)).unwrap();
    let failed = push.try_send("x").unwrap_err();
    assert!(failed.error.is_would_block());
    assert_eq!(failed.into_message(), "x".into());
}

/// Runs `call`, which is to time out after `timeout`, and checks that it took that long.
#[track_caller]
fn times_out<T: std::fmt::Debug + Send + 'static>(
    timeout: Duration,
    call: impl FnOnce() -> Result<T, Error> + Send + 'static,
) {
    let start = Instant::now();
    let error = within(LONG, "a call with a timeout", call).unwrap_err();
    let took = start.elapsed();
    assert!(error.is_timeout(), "{error:?}");
    assert!(took >= timeout, "{took:?} is less than {timeout:?}");
    assert!(took < timeout + Duration::from_secs(5), "{took:?} is far more than {timeout:?}");
}

#[test]
fn a_timeout_takes_its_time_and_never_less() {
    let ctx = context();
    let pull = || ctx.pull("").unwrap();
    let push = || ctx.push("").unwrap();
    for micros in [0, 300, 1_000, 20_500, 70_000] {
        let timeout = Duration::from_micros(micros);
        let millis = Duration::from_micros(micros.next_multiple_of(1000));
        let (a, b, c, d) = (pull(), pull(), pull(), push());
        times_out(timeout, move || a.recv_timeout(timeout));
        times_out(timeout, move || b.recv_frame_timeout(timeout));
        times_out(timeout, move || c.recv_str_timeout(timeout));
        times_out(timeout, move || Ok(d.send_timeout("x", timeout)?));

        // The options, which round up, for the calls that are given no time.
        let (a, b, c, d) = (pull(), pull(), pull(), push());
        for socket in [&a, &b, &c] {
            socket.set_rcvtimeo(Some(timeout)).unwrap();
        }
        d.set_sndtimeo(Some(timeout)).unwrap();
        times_out(millis, move || a.recv());
        times_out(millis, move || b.recv_frame());
        times_out(millis, move || c.recv_str());
        times_out(millis, move || Ok(d.send("x")?));
    }
}

#[test]
fn a_timeout_of_its_own_overrides_the_option() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    pull.set_rcvtimeo(Some(Duration::ZERO)).unwrap();
    times_out(SHORT, move || pull.recv_timeout(SHORT));
    let push = ctx.push("").unwrap();
    push.set_sndtimeo(Some(Duration::ZERO)).unwrap();
    times_out(SHORT, move || Ok(push.send_timeout("x", SHORT)?));
}

#[test]
fn a_timeout_beyond_all_clocks_waits() {
    let ctx = context();
    let (push, pull) = connected(&ctx, SocketType::Push, SocketType::Pull);
    let received = thread::spawn(move || pull.recv_timeout(Duration::MAX).unwrap());
    push.send_timeout("x", Duration::MAX).unwrap();
    let received = within(LONG, "a receive without end", || received.join().unwrap());
    assert_eq!(received, "x".into());
}

#[test]
fn a_blocked_receive_ends_with_the_message() {
    let ctx = context();
    for endpoint in [inproc("wakes"), "tcp://127.0.0.1:*".into()] {
        let pull = ctx.pull("").unwrap();
        let push = ctx.push(&pull.bind(&endpoint).unwrap()).unwrap();
        let (sender, received) = mpsc::channel();
        thread::spawn(move || {
            for _ in 0..2 {
                sender.send(pull.recv()).unwrap();
            }
        });
        for text in ["first", "second"] {
            assert!(received.recv_timeout(SHORT).is_err(), "it waits");
            push.send(text).unwrap();
            assert_eq!(received.recv_timeout(LONG).unwrap().unwrap(), text.into());
        }
    }
}

#[test]
fn a_blocked_send_ends_with_the_room() {
    let ctx = context();
    let push = ctx.socket(SocketType::Push).unwrap();
    let pull = ctx.socket(SocketType::Pull).unwrap();
    push.set_sndhwm(Some(2)).unwrap();
    pull.set_rcvhwm(Some(2)).unwrap();
    let endpoint = inproc("room");
    push.bind(&endpoint).unwrap();
    pull.connect(&endpoint).unwrap();

    let mut sent = 0_u32;
    while let Ok(()) = push.try_send((sent, "second")) {
        sent += 1;
    }
    assert_eq!(sent, 4, "the high-water marks of both sides");

    let (sender, done) = mpsc::channel();
    thread::spawn(move || {
        let result = push.send((sent, "second"));
        sender.send(result).unwrap();
        push // stays open until the test is over
    });
    assert!(done.recv_timeout(SHORT).is_err(), "it waits");
    for number in 0..=sent {
        assert_eq!(recv(&pull), (number, "second").into());
    }
    done.recv_timeout(LONG).unwrap().unwrap();
}

#[test]
fn a_try_send_finds_the_room_that_its_peer_has_just_made() {
    let ctx = context();
    let push = ctx.socket(SocketType::Push).unwrap();
    let pull = ctx.socket(SocketType::Pull).unwrap();
    push.set_sndhwm(Some(1)).unwrap();
    pull.set_rcvhwm(Some(1)).unwrap();
    let endpoint = inproc("room");
    push.bind(&endpoint).unwrap();
    pull.connect(&endpoint).unwrap();
    for _ in 0..100 {
        push.send_timeout("a", LONG).unwrap();
        push.send_timeout("b", LONG).unwrap();
        assert!(push.try_send("c").unwrap_err().error.is_would_block());
        recv(&pull);
        recv(&pull);
        push.try_send("d").unwrap();
        recv(&pull);
    }
}

#[test]
fn a_failed_send_gives_the_whole_message_back() {
    let ctx = context();
    let push = ctx.socket(SocketType::Push).unwrap();
    let large = ZFrame::from(vec![5; 100_000]);
    let mut msg: ZMsg = (0..50_u64).collect();
    msg.push_front("first");
    msg.push_back(large.clone());
    msg.push_back(large.clone());
    msg.push_back("");
    let original = msg.clone();
    let addresses = |msg: &ZMsg| -> Vec<usize> {
        msg.iter().filter(|frame| frame.len() > 1000).map(|frame| frame.as_ptr().addr()).collect()
    };
    let at = addresses(&msg);

    push.set_sndtimeo(Some(Duration::from_millis(1))).unwrap();
    for _ in 0..20 {
        let failed = push.try_send(msg).unwrap_err();
        assert!(failed.error.is_would_block());
        let failed = push.send(failed.message).unwrap_err();
        assert!(failed.error.is_timeout());
        let failed = push.send_timeout(failed.message, Duration::from_micros(1)).unwrap_err();
        assert!(failed.error.is_timeout());
        msg = failed.message;
        assert_eq!(msg, original);
    }
    assert_eq!(addresses(&msg), at, "the content was not copied");

    let endpoint = push.bind("tcp://127.0.0.1:*").unwrap();
    let pull = ctx.pull(&format!(">{endpoint}")).unwrap();
    push.send_timeout(msg, LONG).unwrap();
    assert_eq!(recv(&pull), original);
    assert_eq!(large, &[5; 100_000]);
    push.send_timeout("next", LONG).unwrap();
    assert_eq!(recv(&pull), "next".into(), "and the next message starts afresh");
}

#[test]
fn a_failed_send_gives_the_message_back_whatever_the_error() {
    let ctx = context();
    let sub = ctx.sub("", "").unwrap();
    let failed = sub.send(("a", "b", "c")).unwrap_err();
    assert!(matches!(failed.error, Error::Send { .. }), "{failed:?}");
    assert_eq!(failed.message, ("a", "b", "c").into());

    let push = ctx.push("").unwrap();
    ctx.shutdown().unwrap();
    let failed = push.send(("a", "b", "c")).unwrap_err();
    assert!(failed.error.is_terminated(), "{failed:?}");
    assert_eq!(failed.message, ("a", "b", "c").into());
    assert!(push.try_send("x").unwrap_err().error.is_terminated());
    assert!(push.send_timeout("x", LONG).unwrap_err().error.is_terminated());
    assert_eq!(failed.to_string(), "the context was shut down");
    assert!(Error::from(failed).is_terminated());
}

/// What to send while peers die: thousands of frames each with little room, or few frames each
/// with all the room that there is. The peer's death meets different steps of sending.
#[derive(Clone, Copy)]
enum Load {
    LargeMessages,
    SmallMessages,
}

impl Load {
    fn high_water_mark(self) -> Option<u32> {
        match self {
            Load::LargeMessages => Some(3),
            Load::SmallMessages => None,
        }
    }

    fn peers(self) -> u64 {
        match self {
            Load::LargeMessages => 25,
            Load::SmallMessages => 200,
        }
    }

    fn frames(self, number: u64) -> u64 {
        match self {
            Load::LargeMessages => 2000 + number * 7 % 1000,
            Load::SmallMessages => 2 + number % 3,
        }
    }

    /// A message whose frames all tell where they belong; some are too large to be kept inline.
    fn message(self, number: u64) -> ZMsg {
        let frame = |index: u64| {
            let mut bytes = (number << 32 | index).to_be_bytes().to_vec();
            if index % 64 == 1 {
                bytes.resize(600, 0xAA);
            }
            ZFrame::new(bytes)
        };
        (0..self.frames(number)).map(frame).collect()
    }

    /// The number of a message that has all its frames in their order.
    #[track_caller]
    fn number(self, msg: &ZMsg) -> u64 {
        let first = msg.first().and_then(|frame| frame.get(..8));
        let first = first.unwrap_or_else(|| panic!("no number in front: {msg:?}"));
        let number = u64::from_be_bytes(first.try_into().unwrap()) >> 32;
        assert_eq!(*msg, self.message(number), "message {number}");
        number
    }
}

/// Sends over tcp while one peer after the other dies; whoever comes next sees whole messages
/// only.
fn whole_messages_or_none(sender: SocketType, receiver: SocketType, load: Load) {
    let ctx = context();
    let sender = ctx.socket(sender).unwrap();
    sender.set_sndhwm(load.high_water_mark()).unwrap();
    if sender.socket_type() == SocketType::Req {
        sender.set_req_relaxed(true).unwrap();
    }
    let endpoint = sender.bind("tcp://127.0.0.1:*").unwrap();
    let [enough, done] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));

    let [stop, leave] = [&enough, &done].map(Arc::clone);
    let sending = thread::spawn(move || {
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            match sender.send_timeout(load.message(number), Duration::from_millis(10)) {
                Ok(()) => number += 1,
                Err(failed) => {
                    assert!(failed.error.is_timeout(), "{failed:?}");
                    assert_eq!(load.number(&failed.message), number);
                }
            }
        }
        // More than once: a peer that has just died takes its share.
        while !leave.load(Ordering::Relaxed) {
            let _ = sender.send_timeout("end", Duration::from_millis(10));
        }
    });

    let strip_envelope = |mut msg: ZMsg| {
        if receiver == SocketType::Router {
            msg.pop_front();
            assert_eq!(msg.pop_front().unwrap(), "", "the delimiter in front of {msg:?}");
        }
        msg
    };
    let mut last = None;
    let mut check = |msg: ZMsg| {
        let number = load.number(&strip_envelope(msg));
        assert!(last < Some(number), "{number} after {last:?}");
        last = Some(number);
    };
    // A PAIR that still has its last peer leaves a new one without an answer for ever: libzmq's way.
    let patience = if receiver == SocketType::Pair { Duration::from_millis(100) } else { LONG };
    let mut peer = || loop {
        let ctx = context();
        let peer = ctx.socket(receiver).unwrap();
        peer.set_rcvhwm(load.high_water_mark()).unwrap();
        peer.connect(&endpoint).unwrap();
        match peer.recv_timeout(patience) {
            Ok(msg) => {
                check(msg);
                break peer;
            }
            Err(error) => assert!(error.is_timeout() && patience < LONG, "{error:?}"),
        }
    };
    let peers = if receiver == SocketType::Pair { 15 } else { load.peers() };
    for round in 0..peers {
        let peer = peer();
        for _ in 0..round % 3 {
            load.number(&strip_envelope(recv(&peer)));
        }
    }
    let peer = peer();
    enough.store(true, Ordering::Relaxed);
    loop {
        let msg = strip_envelope(recv(&peer));
        if msg == "end".into() {
            break;
        }
        load.number(&msg);
    }
    done.store(true, Ordering::Relaxed);
    sending.join().unwrap();
}

macro_rules! whole_messages_or_none {
    ($($test:ident: $sender:ident to $receiver:ident, $load:ident;)*) => {$(
        #[test]
        fn $test() {
            within(LONG, stringify!($test), || {
                whole_messages_or_none(SocketType::$sender, SocketType::$receiver, Load::$load);
            });
        }
    )*};
}

whole_messages_or_none! {
    a_push_whose_peers_die_sends_large_messages_whole: Push to Pull, LargeMessages;
    a_push_whose_peers_die_sends_small_messages_whole: Push to Pull, SmallMessages;
    a_dealer_whose_peers_die_sends_large_messages_whole: Dealer to Dealer, LargeMessages;
    a_dealer_whose_peers_die_sends_small_messages_whole: Dealer to Dealer, SmallMessages;
    a_pair_whose_peers_die_sends_large_messages_whole: Pair to Pair, LargeMessages;
    a_pair_whose_peers_die_sends_small_messages_whole: Pair to Pair, SmallMessages;
    a_req_whose_peers_die_sends_large_messages_whole: Req to Router, LargeMessages;
    a_req_whose_peers_die_sends_small_messages_whole: Req to Router, SmallMessages;
}

/// What a dying peer makes the socket refuse is sent whole to the next peer, not swallowed as the
/// rest of what came before.
fn refused_and_sent_again(sender: SocketType, receiver: SocketType) {
    let load = Load::LargeMessages;
    let ctx = context();
    let sender = ctx.socket(sender).unwrap();
    sender.set_sndhwm(None).unwrap();
    let endpoint = sender.bind("tcp://127.0.0.1:*").unwrap();
    let connect = || {
        let ctx = context();
        let peer = ctx.socket(receiver).unwrap();
        peer.connect(&endpoint).unwrap();
        peer
    };
    let mut number = 0;
    for _ in 0..8 {
        let mut refused = load.message(number);
        // A PAIR that has its last peer still does not take another.
        let peer = loop {
            let peer = connect();
            match sender.send_timeout(refused, Duration::from_millis(200)) {
                Ok(()) => break peer,
                Err(failed) => refused = failed.message,
            }
        };
        assert_eq!(load.number(&recv(&peer)), number);
        let dying = thread::spawn(move || drop(peer));
        loop {
            number += 1;
            match sender.try_send(load.message(number)) {
                Ok(()) => {}
                Err(failed) => {
                    assert!(failed.error.is_would_block(), "{failed:?}");
                    assert_eq!(load.number(&failed.message), number);
                    break;
                }
            }
        }
        dying.join().unwrap();
    }
}

#[test]
fn what_a_dying_peer_refuses_goes_to_the_next_one() {
    within(LONG, "PUSH", || refused_and_sent_again(SocketType::Push, SocketType::Pull));
    within(LONG, "DEALER", || refused_and_sent_again(SocketType::Dealer, SocketType::Dealer));
    within(LONG, "PAIR", || refused_and_sent_again(SocketType::Pair, SocketType::Pair));
}

#[test]
fn a_dealer_and_a_router_whose_peers_die_know_whole_messages_only() {
    // The receiving side: a peer dies in the middle of its message, and nothing is left of it.
    let ctx = context();
    for socket_type in [SocketType::Pull, SocketType::Dealer, SocketType::Router] {
        let socket = ctx.socket(socket_type).unwrap();
        let endpoint = socket.bind("tcp://127.0.0.1:*").unwrap();
        let peer_type = if socket_type == SocketType::Pull { "PUSH" } else { "DEALER" };
        for _ in 0..10 {
            let mut half = zmtp(&endpoint, peer_type);
            half.write_all(b"\x01\x05whole\x00\x03msg").unwrap();
            half.write_all(b"\x01\x01a\x01\x01b\x01\x0Acut").unwrap();
            drop(half);
            let mut whole = recv(&socket);
            if socket_type == SocketType::Router {
                whole.pop_front();
            }
            assert_eq!(whole, ("whole", "msg").into());
        }
        assert!(socket.recv_timeout(SHORT).unwrap_err().is_timeout());
    }
}

/// A plain TCP connection that has done the handshake of ZMTP 3.0.
fn zmtp(endpoint: &str, socket_type: &str) -> TcpStream {
    let address = endpoint.strip_prefix("tcp://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut greeting = [0; 64];
    greeting[..11].copy_from_slice(&[0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0x7F, 3]);
    greeting[12..16].copy_from_slice(b"NULL");
    stream.write_all(&greeting).unwrap();
    stream.read_exact(&mut greeting).unwrap();
    let mut ready = b"\x05READY\x0BSocket-Type\x00\x00\x00".to_vec();
    ready.push(socket_type.len() as u8);
    ready.extend_from_slice(socket_type.as_bytes());
    ready.splice(0..0, [4, ready.len() as u8]);
    stream.write_all(&ready).unwrap();
    let mut header = [0; 2];
    stream.read_exact(&mut header).unwrap();
    stream.read_exact(&mut vec![0; header[1].into()]).unwrap();
    stream
}

#[test]
fn a_stream_takes_messages_of_two_frames_only() {
    let ctx = context();
    let stream = ctx.socket(SocketType::Stream).unwrap();
    let endpoint = stream.bind("tcp://127.0.0.1:*").unwrap();
    let mut plain = TcpStream::connect(endpoint.strip_prefix("tcp://").unwrap()).unwrap();
    plain.set_read_timeout(Some(LONG)).unwrap();
    let peer = recv(&stream).pop_front().unwrap();

    for wrong in [
        ZMsg::from(peer.clone()),
        ZMsg::from((peer.clone(), "a", "b")),
        ZMsg::from((peer.clone(), "a", "b", "c")),
    ] {
        let failed = stream.send_timeout(wrong.clone(), LONG).unwrap_err();
        assert!(matches!(failed.error, Error::Send { .. }), "{failed:?}");
        assert_eq!(failed.message, wrong);
    }
    // What comes next is not taken for the rest of them.
    stream.send((peer, "whole")).unwrap();
    let mut bytes = [0; 5];
    plain.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"whole");
}

#[test]
fn a_raw_router_takes_messages_of_two_frames_only() {
    let ctx = context();
    let router = ctx.socket(SocketType::Router).unwrap();
    router.set_router_raw(true).unwrap();
    let endpoint = router.bind("tcp://127.0.0.1:*").unwrap();
    let mut plain = tcp(&endpoint);
    let peer = recv(&router).pop_front().unwrap();
    for wrong in [ZMsg::from((&peer, "a", "b")), ZMsg::from((&peer, "a", "b", "c"))] {
        let failed = router.send_timeout(&wrong, LONG).unwrap_err();
        assert!(matches!(failed.error, Error::Send { .. }), "{failed:?}");
        assert_eq!(failed.message, wrong);
    }
    router.send((peer, "whole")).unwrap();
    let mut bytes = [0; 5];
    plain.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"whole");
}

#[test]
fn a_message_of_another_form_is_handed_over_and_the_next_one_comes() {
    let ctx = context();
    let (push, pull) = connected(&ctx, SocketType::Push, SocketType::Pull);
    let unexpected = |error: Error, wanted: &str| match error {
        Error::Unexpected { expected, frames } => {
            assert_eq!(expected, wanted);
            frames
        }
        other => panic!("{other:?}"),
    };
    let large = vec![3; 5000];
    let send = || push.send(("a", large.clone(), "")).unwrap();
    let three = [b"a".to_vec(), large.clone(), Vec::new()];

    let frame = "one frame";
    send();
    assert_eq!(unexpected(pull.recv_frame().unwrap_err(), frame), three);
    send();
    assert_eq!(unexpected(pull.recv_frame_timeout(LONG).unwrap_err(), frame), three);
    send();
    assert_eq!(unexpected(pull.try_recv_frame().unwrap_err(), frame), three);
    send();
    assert_eq!(unexpected(pull.recv_str().unwrap_err(), frame), three);

    let text = "one frame of UTF-8 text";
    for call in [ZSock::recv_str, ZSock::try_recv_str, |pull: &ZSock| pull.recv_str_timeout(LONG)] {
        push.send(vec![b'a', 0xFF, 0]).unwrap();
        assert_eq!(unexpected(call(&pull).unwrap_err(), text), [vec![b'a', 0xFF, 0]]);
    }
    send();
    assert_eq!(
        pull.recv_frame().unwrap_err().to_string(),
        "expected one frame, received 3 frame(s)"
    );

    push.send("next").unwrap();
    assert_eq!(pull.recv_str_timeout(LONG).unwrap(), "next");
}

/// Checks that a call was refused in words that help, and with libzmq's number.
#[track_caller]
fn refused(error: &Error, words: &[&str]) {
    let text = error.to_string();
    assert!(matches!(error, Error::Send { .. } | Error::Receive { .. }), "{error:?}");
    assert!(error.reason().unwrap().errno().is_some(), "{error:?}");
    for word in words {
        assert!(text.contains(word), "{word:?} in {text:?}");
    }
}

/// Makes the same call in its three forms.
fn all_sends(socket: &ZSock) -> [Error; 3] {
    let failed = [
        socket.send(("a", "b")).unwrap_err(),
        socket.try_send(("a", "b")).unwrap_err(),
        socket.send_timeout(("a", "b"), LONG).unwrap_err(),
    ];
    failed.map(|failed| {
        assert_eq!(failed.message, ("a", "b").into());
        failed.error
    })
}

fn all_receives(socket: &ZSock) -> [Error; 3] {
    [
        socket.recv().unwrap_err(),
        socket.try_recv().unwrap_err(),
        socket.recv_timeout(LONG).unwrap_err(),
    ]
}

#[test]
fn receiving_on_a_socket_that_only_sends_says_so() {
    let ctx = context();
    let (push, pull) = connected(&ctx, SocketType::Push, SocketType::Pull);
    for error in all_receives(&push) {
        refused(&error, &["cannot receive", "PUSH", "only sends"]);
    }
    push.send("still works").unwrap();
    assert_eq!(recv(&pull), "still works".into());

    let (publisher, sub) = connected(&ctx, SocketType::Pub, SocketType::Sub);
    sub.subscribe("").unwrap();
    for error in all_receives(&publisher) {
        refused(&error, &["cannot receive", "PUB", "only sends"]);
    }
    publisher.send("still works").unwrap();
    assert_eq!(recv(&sub), "still works".into());
}

#[test]
fn sending_on_a_socket_that_only_receives_says_so() {
    let ctx = context();
    let (pull, push) = connected(&ctx, SocketType::Pull, SocketType::Push);
    for error in all_sends(&pull) {
        refused(&error, &["cannot send", "PULL", "only receives"]);
    }
    push.send("still works").unwrap();
    assert_eq!(recv(&pull), "still works".into());

    let (publisher, sub) = connected(&ctx, SocketType::Pub, SocketType::Sub);
    sub.subscribe("").unwrap();
    for error in all_sends(&sub) {
        refused(&error, &["cannot send", "SUB", "only receives"]);
    }
    publisher.send("still works").unwrap();
    assert_eq!(recv(&sub), "still works".into());
}

#[test]
fn a_req_or_rep_out_of_order_says_what_comes_first() {
    let ctx = context();
    let (rep, req) = connected(&ctx, SocketType::Rep, SocketType::Req);
    for error in all_receives(&req) {
        refused(&error, &["cannot receive", "REQ", "a request has to be sent first"]);
    }
    for error in all_sends(&rep) {
        refused(&error, &["cannot send", "REP", "a request has to be received first"]);
    }
    req.send(("request", "1")).unwrap();
    for error in all_sends(&req) {
        refused(&error, &["cannot send", "REQ", "reply", "received first", "set_req_relaxed"]);
    }
    assert_eq!(recv(&rep), ("request", "1").into());
    for error in all_receives(&rep) {
        refused(&error, &["cannot receive", "REP", "reply", "sent first"]);
    }
    rep.send(("reply", "1")).unwrap();
    assert_eq!(recv(&req), ("reply", "1").into());
    for error in all_sends(&rep) {
        refused(&error, &["cannot send", "REP", "received first"]);
    }
    req.send("2").unwrap();
    assert_eq!(recv(&rep), "2".into());
    rep.send("2").unwrap();
    assert_eq!(recv(&req), "2".into());
}

#[test]
fn a_router_drops_what_is_for_nobody() {
    let ctx = context();
    let router = ctx.socket(SocketType::Router).unwrap();
    router.send(("nobody", "hello")).unwrap();
    router.try_send(("nobody", vec![0; 10_000], "hello")).unwrap();
    // What names a peer and has nothing to say is a mistake.
    let failed = router.send("identity only").unwrap_err();
    assert!(matches!(failed.error, Error::Send { socket_type: "ROUTER", .. }), "{failed:?}");
    assert_eq!(failed.message, "identity only".into());
    // And is not thrown off by it.
    let endpoint = inproc("router");
    router.bind(&endpoint).unwrap();
    let dealer = ctx.socket(SocketType::Dealer).unwrap();
    dealer.set_identity("somebody").unwrap();
    dealer.connect(&endpoint).unwrap();
    dealer.send("here").unwrap();
    assert_eq!(recv(&router), ("somebody", "here").into());
    router.send(("somebody", "you", "there")).unwrap();
    assert_eq!(recv(&dealer), ("you", "there").into());
}

#[test]
fn a_mandatory_router_gives_back_what_is_for_nobody() {
    let ctx = context();
    let router = ctx.router("").unwrap();
    router.set_router_mandatory(true).unwrap();
    for (identity, shown) in
        [(&b"nobody"[..], "[006] nobody"), (&b"\0\x80\0\0\x29"[..], "[005] 0080000029")]
    {
        let msg = ZMsg::from((identity, vec![7; 10_000], ""));
        for failed in [
            router.send(msg.clone()).unwrap_err(),
            router.try_send(msg.clone()).unwrap_err(),
            router.send_timeout(msg.clone(), LONG).unwrap_err(),
        ] {
            match &failed.error {
                Error::HostUnreachable { identity } => assert_eq!(identity, shown),
                other => panic!("{other:?}"),
            }
            assert!(failed.to_string().contains(shown), "{failed}");
            assert_eq!(failed.message, msg);
        }
    }

    let endpoint = router.bind("tcp://127.0.0.1:*").unwrap();
    let dealer = ctx.socket(SocketType::Dealer).unwrap();
    dealer.set_identity("nobody").unwrap();
    dealer.connect(&endpoint).unwrap();
    dealer.send("now here").unwrap();
    assert_eq!(recv(&router), ("nobody", "now here").into());
    router.send(("nobody", "welcome")).unwrap();
    assert_eq!(recv(&dealer), "welcome".into());

    drop(dealer);
    let start = Instant::now();
    let failed = loop {
        match router.try_send(("nobody", "gone?")) {
            Ok(()) => assert!(start.elapsed() < LONG, "the peer is never missed"),
            Err(failed) if failed.error.is_would_block() => {}
            Err(failed) => break failed,
        }
    };
    assert!(matches!(failed.error, Error::HostUnreachable { .. }), "{failed:?}");
    assert_eq!(failed.message, ("nobody", "gone?").into());
}

/// A ROUTER whose peer "slow" is at its high-water mark, that peer, and how many messages it has.
fn full_router(ctx: &ZContext, mandatory: bool) -> (ZSock, ZSock, u64) {
    let router = ctx.socket(SocketType::Router).unwrap();
    router.set_router_mandatory(mandatory).unwrap();
    router.set_sndhwm(Some(4)).unwrap();
    let endpoint = inproc("full");
    router.bind(&endpoint).unwrap();
    let slow = ctx.socket(SocketType::Dealer).unwrap();
    slow.set_rcvhwm(Some(4)).unwrap();
    slow.set_identity("slow").unwrap();
    slow.connect(&endpoint).unwrap();
    slow.send("ready").unwrap();
    assert_eq!(recv(&router), ("slow", "ready").into());
    let mut sent = 0_u64;
    while sent < 8 {
        router.try_send(("slow", sent, vec![1; 1000])).unwrap();
        sent += 1;
    }
    (router, slow, sent)
}

#[test]
fn a_router_drops_what_is_beyond_the_high_water_mark() {
    let ctx = context();
    let (router, slow, sent) = full_router(&ctx, false);
    router.send(("slow", "lost")).unwrap();
    for number in 0..sent {
        assert_eq!(recv(&slow), (number, vec![1; 1000]).into());
    }
    assert!(slow.try_recv().unwrap_err().is_would_block());
}

#[test]
fn a_mandatory_router_gives_back_what_is_beyond_the_high_water_mark() {
    let ctx = context();
    let (router, slow, sent) = full_router(&ctx, true);
    let msg = ZMsg::from(("slow", sent, vec![1; 1000]));
    let failed = router.try_send(msg.clone()).unwrap_err();
    assert!(failed.error.is_would_block(), "{failed:?}");
    assert_eq!(failed.message, msg);
    let failed = router.send_timeout(failed.message, SHORT).unwrap_err();
    assert!(failed.error.is_timeout(), "{failed:?}");
    assert_eq!(failed.message, msg);

    for number in 0..sent {
        assert_eq!(recv(&slow), (number, vec![1; 1000]).into());
    }
    router.send_timeout(msg, LONG).unwrap();
    assert_eq!(recv(&slow), (sent, vec![1; 1000]).into());
}

#[test]
fn a_mandatory_router_waits_until_its_peer_has_read() {
    let ctx = context();
    let (router, slow, sent) = full_router(&ctx, true);
    let (sender, done) = mpsc::channel();
    let sending = thread::spawn(move || {
        sender.send(router.send(("slow", sent, vec![1; 1000]))).unwrap();
        router
    });
    assert!(done.recv_timeout(SHORT).is_err(), "it waits");
    for number in 0..=sent {
        assert_eq!(recv(&slow), (number, vec![1; 1000]).into());
    }
    done.recv_timeout(LONG).unwrap().unwrap();
    let router = sending.join().unwrap();
    slow.send("all").unwrap();
    assert_eq!(recv(&router), ("slow", "all").into());
}

#[test]
fn a_mandatory_router_does_not_wait_for_a_peer_that_has_gone() {
    let ctx = context();
    let (router, slow, sent) = full_router(&ctx, true);
    let (sender, done) = mpsc::channel();
    thread::spawn(move || sender.send(router.send(("slow", sent))).unwrap());
    assert!(done.recv_timeout(SHORT).is_err(), "it waits");
    drop(slow);
    let failed = done.recv_timeout(LONG).unwrap().unwrap_err();
    assert!(matches!(failed.error, Error::HostUnreachable { .. }), "{failed:?}");
    assert_eq!(failed.message, ("slow", sent).into());
}

#[test]
fn a_relaxed_and_correlated_req_replaces_a_request_and_drops_its_late_reply() {
    let ctx = context();
    let req = ctx.socket(SocketType::Req).unwrap();
    req.set_req_relaxed(true).unwrap();
    req.set_req_correlate(true).unwrap();
    let server = ctx.router("").unwrap();
    req.connect(&server.bind("tcp://127.0.0.1:*").unwrap()).unwrap();

    let mut envelopes = Vec::new();
    for text in ["first", "second", "third"] {
        req.send_timeout((text, "request"), LONG).unwrap();
        assert!(req.recv_timeout(Duration::from_millis(5)).unwrap_err().is_timeout());
        let mut msg = recv(&server);
        let request = msg.pop_back().unwrap();
        assert_eq!((request, msg.pop_back().unwrap()), ("request".into(), text.into()));
        envelopes.push(msg);
    }
    for (envelope, text) in envelopes.into_iter().zip(["first", "second", "third"]) {
        let mut reply = envelope;
        reply.push_back(text);
        reply.push_back("reply");
        server.send(reply).unwrap();
    }
    assert_eq!(recv(&req), ("third", "reply").into());
    assert!(matches!(req.try_recv().unwrap_err(), Error::Receive { .. }));

    // And goes on from there.
    req.send("fourth").unwrap();
    let mut msg = recv(&server);
    assert_eq!(msg.pop_back().unwrap(), "fourth");
    msg.push_back("reply to the fourth");
    server.send(msg).unwrap();
    assert_eq!(recv(&req), "reply to the fourth".into());
}

#[test]
fn a_signal_carries_its_status() {
    let ctx = context();
    let (left, right) = connected(&ctx, SocketType::Pair, SocketType::Pair);
    for status in [0, 1, 123, 255] {
        left.send("not a signal").unwrap();
        left.send(("nor", "this")).unwrap();
        left.send(0x7766_5544_3322_1100_u64 ^ u64::MAX).unwrap();
        left.signal(status).unwrap();
        assert_eq!(within_wait(&right), status);
    }
    assert!(right.try_recv().unwrap_err().is_would_block());
}

/// `wait`, with the deadline that the socket's option gives it.
fn within_wait(socket: &ZSock) -> u8 {
    socket.set_rcvtimeo(Some(LONG)).unwrap();
    socket.wait().unwrap()
}

#[test]
fn waiting_for_a_signal_waits() {
    let ctx = context();
    let (left, right) = connected(&ctx, SocketType::Pair, SocketType::Pair);
    right.set_rcvtimeo(Some(SHORT)).unwrap();
    let start = Instant::now();
    assert!(right.wait().unwrap_err().is_timeout());
    assert!(start.elapsed() >= SHORT);

    right.set_rcvtimeo(None).unwrap();
    let waiting = thread::spawn(move || right.wait());
    left.send("not a signal").unwrap();
    left.signal(7).unwrap();
    let status = within(LONG, "wait", || waiting.join().unwrap());
    assert_eq!(status.unwrap(), 7);
}

fn tcp(endpoint: &str) -> TcpStream {
    let stream = TcpStream::connect(endpoint.strip_prefix("tcp://").unwrap()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Collects what arrives from `peer` until it is `wanted`.
fn expect_bytes(stream: &ZSock, peer: &ZFrame, wanted: &[u8]) {
    let mut bytes = Vec::new();
    while bytes.len() < wanted.len() {
        let mut msg = recv(stream);
        assert_eq!(msg.len(), 2, "{msg:?}");
        assert_eq!(msg.pop_front().unwrap(), *peer);
        bytes.extend_from_slice(&msg.pop_front().unwrap());
    }
    assert_eq!(bytes, wanted);
}

#[test]
fn a_stream_serves_plain_tcp_clients() {
    let ctx = context();
    let stream = ctx.stream("").unwrap();
    let endpoint = stream.bind("tcp://127.0.0.1:*").unwrap();
    let mut clients = Vec::new();
    for _ in 0..3 {
        let client = tcp(&endpoint);
        let mut hello = recv(&stream);
        assert_eq!((hello.len(), hello.last().unwrap().len()), (2, 0), "{hello:?}");
        let peer = hello.pop_front().unwrap();
        assert_eq!((peer.len(), peer[0]), (5, 0), "{peer:?}");
        assert!(clients.iter().all(|(_, known)| *known != peer));
        clients.push((client, peer));
    }
    for (client, peer) in &mut clients {
        client.write_all(b"GET /\n\n").unwrap();
        expect_bytes(&stream, peer, b"GET /\n\n");
        let response = vec![b'x'; 200_000];
        stream.send((peer.clone(), response.clone())).unwrap();
        let mut read = vec![0; response.len()];
        client.read_exact(&mut read).unwrap();
        assert!(read == response);
        // An empty frame closes the connection, once libzmq has its answers to that.
        stream.send((peer.clone(), "")).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let start = Instant::now();
        while client.read(&mut read).ok() != Some(0) {
            assert!(start.elapsed() < LONG, "it is still open");
            stream.events().unwrap();
        }
    }
    let failed = stream.send((b"\0none", "x")).unwrap_err();
    assert!(matches!(failed.error, Error::HostUnreachable { .. }), "{failed:?}");
    assert_eq!(failed.message, (b"\0none", "x").into());
}

#[test]
fn a_stream_is_a_plain_tcp_client() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ctx = context();
    let stream = ctx.stream(&format!("tcp://{}", listener.local_addr().unwrap())).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(LONG)).unwrap();
    let hello = recv(&stream);
    let peer = hello.first().unwrap().clone();
    assert_eq!(hello, (peer.clone(), "").into());
    assert_eq!(stream.identity().unwrap(), *peer, "its own name for its last peer");
    stream.send((peer.clone(), "ping")).unwrap();
    let mut bytes = [0; 4];
    server.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"ping");
    server.write_all(b"pong").unwrap();
    expect_bytes(&stream, &peer, b"pong");
    drop(server);
    assert_eq!(recv(&stream), (peer, "").into(), "the end of the connection");
}

#[test]
fn frames_above_two_gibibytes_arrive() {
    let available = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = available.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: u64 = available
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse().ok())
        .unwrap_or_default();
    if kib < 8 << 20 {
        return println!("skipped: only {kib} KiB of memory are available");
    }
    let ctx = context();
    let (push, pull) = connected(&ctx, SocketType::Push, SocketType::Pull);
    let size = (2 << 30) + 5;
    // Fresh memory is zero without being touched, and inproc does not copy.
    let frame = ZFrame::from(vec![0; size]);
    let at = frame.as_ptr().addr();
    push.send((frame.clone(), "behind it")).unwrap();
    push.send(frame).unwrap();
    let msg = recv(&pull);
    assert_eq!(msg.len(), 2);
    let frame = msg.first().unwrap();
    assert_eq!((frame.len(), frame.as_ptr().addr()), (size, at));
    assert_eq!(msg.content_size(), size + "behind it".len());
    assert_eq!((frame[size - 1], frame[1 << 30]), (0, 0));
    assert_eq!(*msg.last().unwrap(), "behind it");
    assert_eq!(pull.recv_frame_timeout(LONG).unwrap().len(), size);
}

#[test]
fn an_adopted_socket_sends_and_receives() {
    let old_ctx = zmq::Context::new();
    let endpoint = inproc("adopted");
    let bound = old_ctx.socket(zmq::PAIR).unwrap();
    bound.bind(&endpoint).unwrap();
    let connected = old_ctx.socket(zmq::PAIR).unwrap();
    connected.connect(&endpoint).unwrap();
    // What was sent before is still there.
    bound.send_multipart(["before", "adoption"], 0).unwrap();

    let adopted = ZSock::adopt(connected).unwrap();
    assert_eq!(adopted.socket_type(), SocketType::Pair);
    assert_eq!(recv(&adopted), ("before", "adoption").into());
    adopted.send(("from", "zkit")).unwrap();
    assert_eq!(bound.recv_multipart(0).unwrap(), [b"from".to_vec(), b"zkit".to_vec()]);
    bound.send("from zmq", 0).unwrap();
    assert_eq!(adopted.recv_str_timeout(LONG).unwrap(), "from zmq");

    // The other end, too; and the context is only in the sockets from now on.
    drop(old_ctx);
    let other = ZSock::adopt(bound).unwrap();
    other.send("both").unwrap();
    assert_eq!(recv(&adopted), "both".into());
    let tcp = other.bind("tcp://127.0.0.1:*").unwrap();
    other.unbind(&tcp).unwrap();
    drop(adopted);
    within(LONG, "closing an adopted socket", move || drop(other));
}

#[test]
fn an_adopted_socket_keeps_its_options() {
    let old_ctx = zmq::Context::new();
    for linger in [-1, 0, 1234] {
        let old = old_ctx.socket(zmq::DEALER).unwrap();
        old.set_linger(linger).unwrap();
        old.set_identity(b"\0old").unwrap();
        old.set_rcvtimeo(77).unwrap();
        old.set_sndhwm(5).unwrap();
        let adopted = ZSock::adopt(old).unwrap();
        let expected = u64::try_from(linger).ok().map(Duration::from_millis);
        assert_eq!(adopted.linger().unwrap(), expected);
        assert_eq!(adopted.identity().unwrap(), b"\0old");
        assert_eq!(adopted.rcvtimeo().unwrap(), Some(Duration::from_millis(77)));
        assert_eq!(adopted.sndhwm().unwrap(), Some(5));
        let start = Instant::now();
        assert!(adopted.recv().unwrap_err().is_timeout());
        assert!(start.elapsed() >= Duration::from_millis(77));
    }
}

#[test]
fn a_socket_adopted_in_the_middle_of_a_message_gives_the_rest() {
    let old_ctx = zmq::Context::new();
    let endpoint = inproc("middle");
    let pull = old_ctx.socket(zmq::PULL).unwrap();
    pull.bind(&endpoint).unwrap();
    let push = old_ctx.socket(zmq::PUSH).unwrap();
    push.connect(&endpoint).unwrap();
    push.send_multipart(["one", "two", "three"], 0).unwrap();
    push.send("next", 0).unwrap();
    assert_eq!(pull.recv_bytes(0).unwrap(), b"one");

    let adopted = ZSock::adopt(pull).unwrap();
    assert!(adopted.rcvmore().unwrap());
    assert_eq!(recv(&adopted), ("two", "three").into());
    assert!(!adopted.rcvmore().unwrap());
    assert_eq!(recv(&adopted), "next".into());
}

#[test]
fn every_type_can_be_adopted() {
    let old_ctx = zmq::Context::new();
    for (old, socket_type) in [
        (zmq::PAIR, SocketType::Pair),
        (zmq::PUB, SocketType::Pub),
        (zmq::SUB, SocketType::Sub),
        (zmq::REQ, SocketType::Req),
        (zmq::REP, SocketType::Rep),
        (zmq::DEALER, SocketType::Dealer),
        (zmq::ROUTER, SocketType::Router),
        (zmq::PULL, SocketType::Pull),
        (zmq::PUSH, SocketType::Push),
        (zmq::XPUB, SocketType::XPub),
        (zmq::XSUB, SocketType::XSub),
        (zmq::STREAM, SocketType::Stream),
    ] {
        let adopted = ZSock::adopt(old_ctx.socket(old).unwrap()).unwrap();
        assert_eq!(adopted.socket_type(), socket_type);
    }
}

#[test]
fn events_follow_what_the_socket_can_do() {
    let ctx = context();
    let pull = ctx.socket(SocketType::Pull).unwrap();
    let push = ctx.socket(SocketType::Push).unwrap();
    push.set_sndhwm(Some(1)).unwrap();
    pull.set_rcvhwm(Some(1)).unwrap();
    let endpoint = inproc("events");
    pull.bind(&endpoint).unwrap();

    assert_eq!(format!("{:?}", push.events().unwrap()), "Events()", "nobody to send to");
    push.connect(&endpoint).unwrap();
    assert_eq!(push.events().unwrap(), Events::WRITABLE);
    assert!(!pull.events().unwrap().is_readable());

    push.send(("a", "b")).unwrap();
    assert!(pull.events().unwrap().is_readable());
    assert_eq!(pull.events().unwrap(), Events::READABLE, "until it is received");
    assert_eq!(recv(&pull), ("a", "b").into());
    assert!(!pull.events().unwrap().is_readable());

    while push.events().unwrap().is_writable() {
        push.try_send("x").unwrap();
    }
    assert!(push.try_send("x").unwrap_err().error.is_would_block());
    while pull.try_recv().is_ok() {}
    assert!(push.events().unwrap().is_writable(), "room again");
    push.try_send("x").unwrap();

    let (left, right) = connected(&ctx, SocketType::Pair, SocketType::Pair);
    right.send("x").unwrap();
    assert_eq!(left.events().unwrap(), Events::READABLE | Events::WRITABLE);
    ctx.shutdown().unwrap();
    assert!(push.events().unwrap_err().is_terminated());
}

#[test]
fn the_descriptor_drives_an_event_loop() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    let push = ctx.push(&pull.bind("tcp://127.0.0.1:*").unwrap()).unwrap();
    let descriptor = pull.as_fd().try_clone_to_owned().expect("it is open");
    assert_eq!(pull.as_fd().as_raw_fd(), pull.as_raw_fd());

    let mut poll = mio::Poll::new().unwrap();
    let mut happened = mio::Events::with_capacity(8);
    let descriptor = descriptor.as_raw_fd();
    let mut source = mio::unix::SourceFd(&descriptor);
    poll.registry().register(&mut source, mio::Token(0), mio::Interest::READABLE).unwrap();

    let sending = thread::spawn(move || {
        for number in 0..2000_u64 {
            push.send((number, "of many")).unwrap();
            if number % 100 == 0 {
                thread::yield_now();
            }
        }
        push
    });
    let mut next = 0_u64;
    while next < 2000 {
        // The rule for an edge: look after every operation and before every sleep.
        if pull.events().unwrap().is_readable() {
            assert_eq!(pull.try_recv().unwrap(), (next, "of many").into());
            next += 1;
            continue;
        }
        poll.poll(&mut happened, Some(LONG)).unwrap();
        assert!(!happened.is_empty(), "the descriptor is silent after {next} messages");
    }
    sending.join().unwrap();
}

#[test]
fn identities_are_bytes() {
    let ctx = context();
    let router = ctx.router("").unwrap();
    let endpoint = router.bind("tcp://127.0.0.1:*").unwrap();
    // libzmq's own identities start with NUL; programs may choose any bytes behind another.
    let chosen: [&[u8]; 4] = [b"\x01", b"a\0", b"a\0\0", b"\xFF\xFE\0"];
    let mut dealers: Vec<ZSock> = Vec::new();
    for number in 0..8_usize {
        let dealer = ctx.socket(SocketType::Dealer).unwrap();
        if let Some(identity) = chosen.get(number) {
            dealer.set_identity(identity).unwrap();
            assert_eq!(dealer.identity().unwrap(), *identity);
        }
        dealer.connect(&endpoint).unwrap();
        dealer.send(number as u64).unwrap();
        dealers.push(dealer);
    }

    let mut numbers: HashMap<ZFrame, u64> = HashMap::new();
    for _ in 0..dealers.len() {
        let mut msg = recv(&router);
        let identity = msg.pop_front().unwrap();
        let number = msg.pop_u64().unwrap();
        match chosen.get(number as usize) {
            Some(chosen) => assert_eq!(identity, *chosen),
            None => assert_eq!((identity.len(), identity[0]), (5, 0)),
        }
        assert_eq!(numbers.insert(identity, number), None, "each is its own");
    }
    for identity in chosen {
        assert!(numbers.contains_key(identity), "found by its bytes");
    }
    for (identity, number) in numbers {
        router.send((identity, number)).unwrap();
    }
    for (number, dealer) in dealers.iter().enumerate() {
        assert_eq!(recv(dealer), (number as u64).into());
    }
}

#[test]
fn subscriptions_select_messages() {
    let ctx = context();
    let publisher = ctx.xpub("").unwrap();
    let endpoint = publisher.bind("tcp://127.0.0.1:*").unwrap();
    let sub = ctx.sub(&endpoint, "A").unwrap();
    let all = ctx.sub(&endpoint, "").unwrap();
    let subscriptions = [recv(&publisher), recv(&publisher)];
    assert!(subscriptions.contains(&b"\x01A".into()), "{subscriptions:?}");
    assert!(subscriptions.contains(&b"\x01".into()), "{subscriptions:?}");

    publisher.send(("B", "not for everybody")).unwrap();
    publisher.send(("A", "for both")).unwrap();
    assert_eq!(recv(&sub), ("A", "for both").into());
    assert_eq!(recv(&all), ("B", "not for everybody").into());
    assert_eq!(recv(&all), ("A", "for both").into());

    sub.unsubscribe("A").unwrap();
    assert_eq!(recv(&publisher), b"\0A".into());
    publisher.send(("A", "not any more")).unwrap();
    assert_eq!(recv(&all), ("A", "not any more").into());
    assert!(sub.try_recv().unwrap_err().is_would_block());
}

#[test]
fn an_xsub_subscribes_by_message() {
    let ctx = context();
    let (publisher, sub) = connected(&ctx, SocketType::XPub, SocketType::XSub);
    sub.send(b"\x01topic").unwrap();
    assert_eq!(recv(&publisher), b"\x01topic".into());
    publisher.send(("topic", "news")).unwrap();
    assert_eq!(recv(&sub), ("topic", "news").into());
    sub.send("a message of its own").unwrap();
    assert_eq!(recv(&publisher), "a message of its own".into());
}

#[test]
fn sockets_move_between_threads() {
    let ctx = context();
    let (mut near, far) = connected(&ctx, SocketType::Pair, SocketType::Pair);
    for number in 0..20_u32 {
        near = within(LONG, "a thread with a socket", move || {
            near.send(number).unwrap();
            near
        });
        assert_eq!(recv(&far), number.into());
        far.send(number).unwrap();
    }
    for number in 0..20_u32 {
        assert_eq!(recv(&near), number.into());
    }
}
