//! The options of a socket.

mod common;

use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use common::{child, child_role, nobody, unique};
use tempfile::tempdir;
use zkit::{Error, Mechanism, NameType, Result, SocketType, ZContext, ZFrame, ZMsg, ZSock};

/// More than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);
/// How long to watch that nothing happens.
const SHORT: Duration = Duration::from_millis(60);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// The longest time that fits a C `int` of milliseconds.
const LONGEST: Duration = ms(i32::MAX as u64);

fn context() -> ZContext {
    ZContext::builder().signals(false).build().expect("a context")
}

fn inproc(name: &str) -> String {
    format!("inproc://{}", unique(name))
}

#[track_caller]
fn recv(socket: &ZSock) -> ZMsg {
    socket.recv_timeout(LONG).expect("a message in time")
}

/// A bound socket of one type and one of another connected to it, by tcp.
fn connected(ctx: &ZContext, bound: SocketType, other: SocketType) -> (ZSock, ZSock) {
    let bound = ctx.socket(bound).unwrap();
    let endpoint = bound.bind("tcp://127.0.0.1:*").unwrap();
    let other = ctx.socket(other).unwrap();
    other.connect(&endpoint).unwrap();
    (bound, other)
}

/// Checks that an option was refused by name.
#[track_caller]
fn refused(result: Result<()>, name: &str, socket: &ZSock, words: &[&str]) {
    let error = match result {
        Err(error) => error,
        Ok(()) => panic!("{name} was accepted"),
    };
    let text = error.to_string();
    match error {
        Error::Option { option, socket_type, .. } => {
            assert_eq!(option, name);
            assert_eq!(socket_type, socket.socket_type().name());
        }
        other => panic!("{name}: {other:?}"),
    }
    assert!(text.contains(name) && text.contains(socket.socket_type().name()), "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} in {text:?}");
    }
}

type Get<T> = fn(&ZSock) -> Result<T>;
type Set<T> = fn(&ZSock, T) -> Result<()>;

/// An option that may be off: name, getter, setter, default, whether zero is a value of its own.
type Optional<T> = (&'static str, Get<Option<T>>, Set<Option<T>>, Option<T>, bool);

const OPTIONAL_TIMES: [Optional<Duration>; 9] = [
    ("ZMQ_LINGER", ZSock::linger, ZSock::set_linger, Some(secs(1)), true),
    ("ZMQ_SNDTIMEO", ZSock::sndtimeo, ZSock::set_sndtimeo, None, true),
    ("ZMQ_RCVTIMEO", ZSock::rcvtimeo, ZSock::set_rcvtimeo, None, true),
    ("ZMQ_RECONNECT_IVL", ZSock::reconnect_ivl, ZSock::set_reconnect_ivl, Some(ms(100)), false),
    ("ZMQ_RECONNECT_IVL_MAX", ZSock::reconnect_ivl_max, ZSock::set_reconnect_ivl_max, None, false),
    ("ZMQ_CONNECT_TIMEOUT", ZSock::connect_timeout, ZSock::set_connect_timeout, None, false),
    ("ZMQ_HANDSHAKE_IVL", ZSock::handshake_ivl, ZSock::set_handshake_ivl, Some(secs(30)), false),
    ("ZMQ_HEARTBEAT_IVL", ZSock::heartbeat_ivl, ZSock::set_heartbeat_ivl, None, false),
    ("ZMQ_TCP_MAXRT", ZSock::tcp_maxrt, ZSock::set_tcp_maxrt, None, false),
];

#[test]
fn optional_times_are_set_and_read() {
    let ctx = context();
    let socket = ctx.dealer("").unwrap();
    for (name, get, set, default, zero) in OPTIONAL_TIMES {
        assert_eq!(get(&socket).unwrap(), default, "the default of {name}");
        for time in [ms(1), ms(1500), secs(1), secs(3600), LONGEST] {
            set(&socket, Some(time)).unwrap();
            assert_eq!(get(&socket).unwrap(), Some(time), "{name}");
        }
        // Rounded up, so that a short time is never none.
        for (time, rounded) in [
            (Duration::from_nanos(1), ms(1)),
            (Duration::from_micros(999), ms(1)),
            (Duration::from_micros(1001), ms(2)),
            (Duration::from_nanos(5_000_001), ms(6)),
        ] {
            set(&socket, Some(time)).unwrap();
            assert_eq!(get(&socket).unwrap(), Some(rounded), "{name}: {time:?}");
        }
        for time in [Duration::MAX, LONGEST + Duration::from_nanos(1), LONGEST + ms(1)] {
            refused(set(&socket, Some(time)), name, &socket, &["longer than libzmq can hold"]);
        }
        assert_eq!(get(&socket).unwrap(), Some(ms(6)), "{name} is as it was");
        if zero {
            set(&socket, Some(Duration::ZERO)).unwrap();
            assert_eq!(get(&socket).unwrap(), Some(Duration::ZERO), "{name}");
        } else {
            refused(set(&socket, Some(Duration::ZERO)), name, &socket, &["None"]);
        }
    }
}

#[test]
fn none_turns_every_optional_time_off() {
    let ctx = context();
    let socket = ctx.dealer("").unwrap();
    let mut stuck = Vec::new();
    for (name, get, set, ..) in OPTIONAL_TIMES {
        set(&socket, Some(ms(77))).unwrap();
        match set(&socket, None) {
            Ok(()) => assert_eq!(get(&socket).unwrap(), None, "{name}"),
            Err(error) => stuck.push(error.to_string()),
        }
    }
    assert!(stuck.is_empty(), "{stuck:#?}");
}

#[test]
fn what_libzmq_cannot_unset_is_set_and_read() {
    let ctx = context();
    let socket = ctx.dealer("").unwrap();
    assert_eq!(socket.heartbeat_timeout().unwrap(), None);
    let endless = socket.set_heartbeat_timeout(Duration::ZERO);
    refused(endless, "ZMQ_HEARTBEAT_TIMEOUT", &socket, &["never ends"]);
    for time in [ms(1), LONGEST] {
        socket.set_heartbeat_timeout(time).unwrap();
        assert_eq!(socket.heartbeat_timeout().unwrap(), Some(time));
    }
    refused(socket.set_heartbeat_timeout(Duration::MAX), "ZMQ_HEARTBEAT_TIMEOUT", &socket, &[]);

    assert_eq!(socket.zap_domain().unwrap(), None);
    let longest = "x".repeat(255);
    for domain in ["global", &longest] {
        socket.set_zap_domain(domain).unwrap();
        assert_eq!(socket.zap_domain().unwrap().as_deref(), Some(domain));
    }
    for domain in ["", &"x".repeat(256)] {
        refused(socket.set_zap_domain(domain), "ZMQ_ZAP_DOMAIN", &socket, &["refuses the value"]);
    }
}

#[test]
fn a_time_to_live_is_kept_in_tenths_of_a_second() {
    let ctx = context();
    let socket = ctx.dealer("").unwrap();
    let get = || socket.heartbeat_ttl().unwrap();
    assert_eq!(get(), None);
    for time in [ms(100), ms(1500), ms(6_553_500)] {
        socket.set_heartbeat_ttl(Some(time)).unwrap();
        assert_eq!(get(), Some(time));
    }
    for time in [Duration::MAX, ms(6_553_600), LONGEST] {
        refused(socket.set_heartbeat_ttl(Some(time)), "ZMQ_HEARTBEAT_TTL", &socket, &[]);
    }
    refused(
        socket.set_heartbeat_ttl(Some(Duration::ZERO)),
        "ZMQ_HEARTBEAT_TTL",
        &socket,
        &["None"],
    );
    socket.set_heartbeat_ttl(None).unwrap();
    assert_eq!(get(), None);
    // Rounded up like every other time, and above all not to none.
    for (time, rounded) in [(ms(1), ms(100)), (ms(99), ms(100)), (ms(101), ms(200))] {
        socket.set_heartbeat_ttl(Some(time)).unwrap();
        assert_eq!(get(), Some(rounded), "{time:?}");
    }
}

#[test]
fn a_time_that_is_never_off_is_set_and_read() {
    let ctx = context();
    let socket = ctx.dealer("").unwrap();
    if !zkit::engine().pgm {
        unsupported(socket.set_recovery_ivl(secs(1)), "ZMQ_RECOVERY_IVL", &["libzmq"]);
        unsupported(socket.recovery_ivl().map(drop), "ZMQ_RECOVERY_IVL", &["libzmq"]);
        return;
    }
    assert_eq!(socket.recovery_ivl().unwrap(), secs(10));
    for time in [Duration::ZERO, ms(1), secs(3), LONGEST] {
        socket.set_recovery_ivl(time).unwrap();
        assert_eq!(socket.recovery_ivl().unwrap(), time);
    }
    socket.set_recovery_ivl(Duration::from_micros(1)).unwrap();
    assert_eq!(socket.recovery_ivl().unwrap(), ms(1));
    refused(socket.set_recovery_ivl(Duration::MAX), "ZMQ_RECOVERY_IVL", &socket, &["longer"]);
}

#[test]
fn times_in_seconds_are_set_read_and_left_to_the_system() {
    const SECONDS: [Optional<Duration>; 2] = [
        (
            "ZMQ_TCP_KEEPALIVE_IDLE",
            ZSock::tcp_keepalive_idle,
            ZSock::set_tcp_keepalive_idle,
            None,
            true,
        ),
        (
            "ZMQ_TCP_KEEPALIVE_INTVL",
            ZSock::tcp_keepalive_intvl,
            ZSock::set_tcp_keepalive_intvl,
            None,
            true,
        ),
    ];
    let ctx = context();
    let socket = ctx.dealer("").unwrap();
    for (name, get, set, default, _) in SECONDS {
        assert_eq!(get(&socket).unwrap(), default, "{name}");
        for (time, kept) in [
            (secs(1), secs(1)),
            (secs(7200), secs(7200)),
            (ms(1), secs(1)),
            (ms(1001), secs(2)),
            (Duration::from_nanos(1), secs(1)),
            (secs(32_767), secs(32_767)),
        ] {
            set(&socket, Some(time)).unwrap();
            assert_eq!(get(&socket).unwrap(), Some(kept), "{name}: {time:?}");
        }
        for time in [Duration::MAX, secs(i32::MAX as u64 + 1)] {
            refused(set(&socket, Some(time)), name, &socket, &["longer"]);
        }
        set(&socket, None).unwrap();
        assert_eq!(get(&socket).unwrap(), None, "{name}");
    }
}

#[test]
fn optional_numbers_are_set_read_and_turned_off() {
    const NUMBERS: [Optional<u32>; 4] = [
        ("ZMQ_SNDHWM", ZSock::sndhwm, ZSock::set_sndhwm, Some(1000), false),
        ("ZMQ_RCVHWM", ZSock::rcvhwm, ZSock::set_rcvhwm, Some(1000), false),
        ("ZMQ_SNDBUF", ZSock::sndbuf, ZSock::set_sndbuf, None, true),
        ("ZMQ_RCVBUF", ZSock::rcvbuf, ZSock::set_rcvbuf, None, true),
    ];
    let ctx = context();
    let socket = ctx.dealer("").unwrap();
    for (name, get, set, default, zero) in NUMBERS {
        assert_eq!(get(&socket).unwrap(), default, "the default of {name}");
        for number in [1, 7, 100_000, i32::MAX as u32] {
            set(&socket, Some(number)).unwrap();
            assert_eq!(get(&socket).unwrap(), Some(number), "{name}");
        }
        for number in [u32::MAX, i32::MAX as u32 + 1] {
            refused(set(&socket, Some(number)), name, &socket, &["largest value is 2147483647"]);
        }
        if zero {
            set(&socket, Some(0)).unwrap();
            assert_eq!(get(&socket).unwrap(), Some(0), "{name}");
        } else {
            refused(set(&socket, Some(0)), name, &socket, &["None"]);
        }
        set(&socket, None).unwrap();
        assert_eq!(get(&socket).unwrap(), None, "{name}");
    }
}

#[test]
fn numbers_are_set_and_read() {
    /// Name, getter, setter, default, smallest value.
    type Number = (&'static str, Get<u32>, Set<u32>, u32, u32);
    const NUMBERS: [Number; 5] = [
        ("ZMQ_BACKLOG", ZSock::backlog, ZSock::set_backlog, 100, 0),
        ("ZMQ_TOS", ZSock::tos, ZSock::set_tos, 0, 0),
        ("ZMQ_RATE", ZSock::rate, ZSock::set_rate, 100, 1),
        ("ZMQ_MULTICAST_HOPS", ZSock::multicast_hops, ZSock::set_multicast_hops, 1, 1),
        ("ZMQ_MULTICAST_MAXTPDU", ZSock::multicast_maxtpdu, ZSock::set_multicast_maxtpdu, 1500, 1),
    ];
    let ctx = context();
    let socket = ctx.dealer("").unwrap();
    let engine = zkit::engine();
    for (name, get, set, default, smallest) in NUMBERS {
        let has = match name {
            "ZMQ_RATE" | "ZMQ_MULTICAST_HOPS" => engine.pgm || engine.norm,
            "ZMQ_MULTICAST_MAXTPDU" => engine.pgm,
            _ => true,
        };
        if !has {
            unsupported(set(&socket, 5), name, &["libzmq"]);
            unsupported(get(&socket).map(drop), name, &["libzmq"]);
            continue;
        }
        assert_eq!(get(&socket).unwrap(), default, "the default of {name}");
        for number in [smallest, 5, i32::MAX as u32] {
            set(&socket, number).unwrap();
            assert_eq!(get(&socket).unwrap(), number, "{name}");
        }
        refused(set(&socket, u32::MAX), name, &socket, &["largest value is 2147483647"]);
        if smallest > 0 {
            refused(set(&socket, 0), name, &socket, &["refuses the value"]);
        }
    }
}

#[test]
fn flags_are_set_and_read() {
    const FLAGS: [(&str, Get<bool>, Set<bool>); 5] = [
        ("ZMQ_IMMEDIATE", ZSock::immediate, ZSock::set_immediate),
        ("ZMQ_CONFLATE", ZSock::conflate, ZSock::set_conflate),
        ("ZMQ_INVERT_MATCHING", ZSock::invert_matching, ZSock::set_invert_matching),
        ("ZMQ_IPV6", ZSock::ipv6, ZSock::set_ipv6),
        ("ZMQ_PLAIN_SERVER", ZSock::plain_server, ZSock::set_plain_server),
    ];
    let ctx = context();
    let socket = ctx.sub("", "").unwrap();
    for (name, get, set) in FLAGS {
        assert!(!get(&socket).unwrap(), "{name} is off by default");
        for on in [true, false, true] {
            set(&socket, on).unwrap();
            assert_eq!(get(&socket).unwrap(), on, "{name}");
        }
    }
    assert_eq!(socket.tcp_keepalive().unwrap(), None);
    for keepalive in [Some(true), Some(false), None] {
        socket.set_tcp_keepalive(keepalive).unwrap();
        assert_eq!(socket.tcp_keepalive().unwrap(), keepalive);
    }
}

#[test]
fn wide_numbers_are_set_and_read() {
    let ctx = context();
    let socket = ctx.dealer("").unwrap();
    assert_eq!(socket.affinity().unwrap(), 0);
    for affinity in [1, 0xFFFF_0000_FFFF, u64::MAX, 0] {
        socket.set_affinity(affinity).unwrap();
        assert_eq!(socket.affinity().unwrap(), affinity);
    }
    assert_eq!(socket.maxmsgsize().unwrap(), None);
    for size in [Some(0), Some(1), Some(5 << 30), Some(i64::MAX as u64), None] {
        socket.set_maxmsgsize(size).unwrap();
        assert_eq!(socket.maxmsgsize().unwrap(), size);
    }
    for size in [u64::MAX, i64::MAX as u64 + 1] {
        let largest = "largest value is 9223372036854775807";
        refused(socket.set_maxmsgsize(Some(size)), "ZMQ_MAXMSGSIZE", &socket, &[largest]);
    }
}

#[test]
fn what_can_only_be_read_is_read() {
    let ctx = context();
    let socket = ctx.pull("").unwrap();
    assert!(!socket.rcvmore().unwrap());
    assert!(!socket.thread_safe().unwrap());
    assert_eq!(socket.mechanism().unwrap(), Mechanism::Null);
}

#[test]
fn the_last_endpoint_is_the_real_one() {
    let ctx = context();
    let socket = ctx.pull("").unwrap();
    assert_eq!(socket.last_endpoint().unwrap(), None);
    let name = inproc("last");
    for endpoint in ["tcp://127.0.0.1:*", &name] {
        let real = socket.bind(endpoint).unwrap();
        assert_eq!(socket.last_endpoint().unwrap(), Some(real));
    }
    let push = ctx.push(&name).unwrap();
    assert_eq!(push.last_endpoint().unwrap(), Some(name));
}

#[test]
fn the_linger_starts_as_the_contexts() {
    let linger = |ctx: &ZContext| ctx.dealer("").unwrap().linger().unwrap();
    assert_eq!(linger(&context()), Some(secs(1)));
    for time in [Some(Duration::ZERO), Some(ms(250)), Some(secs(60)), None] {
        let ctx = ZContext::builder().signals(false).linger(time).build().unwrap();
        assert_eq!(linger(&ctx), time);
    }
    let ctx = ZContext::builder().signals(false).linger(Some(Duration::from_nanos(1))).build();
    assert_eq!(linger(&ctx.unwrap()), Some(ms(1)));
}

#[test]
fn texts_are_set_read_and_turned_off() {
    type GetText = fn(&ZSock) -> Result<Option<String>>;
    type SetText = fn(&ZSock, Option<&str>) -> Result<()>;
    /// Name, getter, setter, the longest text, if there is a limit.
    const TEXTS: [(&str, GetText, SetText, Option<usize>); 4] = [
        ("ZMQ_SOCKS_PROXY", ZSock::socks_proxy, ZSock::set_socks_proxy, None),
        ("ZMQ_BINDTODEVICE", ZSock::bindtodevice, ZSock::set_bindtodevice, Some(16)),
        ("ZMQ_PLAIN_USERNAME", ZSock::plain_username, ZSock::set_plain_username, Some(255)),
        ("ZMQ_PLAIN_PASSWORD", ZSock::plain_password, ZSock::set_plain_password, Some(255)),
    ];
    let ctx = context();
    let mut faults = Vec::new();
    for (name, get, set, longest) in TEXTS {
        let socket = ctx.dealer("").unwrap();
        assert_eq!(get(&socket).unwrap(), None, "{name}");
        let longest_text = "x".repeat(longest.unwrap_or(3000));
        for text in ["a", "host:1080", "übung", &longest_text] {
            set(&socket, Some(text)).unwrap();
            assert_eq!(get(&socket).unwrap().as_deref(), Some(text), "{name}");
        }
        if longest.is_some() {
            let text = longest_text.clone() + "x";
            refused(set(&socket, Some(&text)), name, &socket, &["refuses the value"]);
            assert_eq!(get(&socket).unwrap(), Some(longest_text), "{name} is as it was");
        }
        for none in [None, Some("")] {
            set(&socket, Some("text")).unwrap();
            match set(&socket, none).and_then(|()| get(&socket)) {
                Ok(None) => {}
                other => faults.push(format!("{name} set to {none:?} gives {other:?}")),
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn none_is_accepted_for_a_text_that_was_never_set() {
    let ctx = context();
    let socket = ctx.dealer("").unwrap();
    socket.set_socks_proxy(None).unwrap();
    socket.set_bindtodevice(None).unwrap();
    socket.set_plain_username(None).unwrap();
    socket.set_plain_password(None).unwrap();
}

#[test]
fn the_mechanism_follows_from_the_options_of_plain() {
    let ctx = context();
    let socket = ctx.dealer("").unwrap();
    let mechanism = || socket.mechanism().unwrap();
    socket.set_plain_server(true).unwrap();
    assert_eq!(mechanism(), Mechanism::Plain);
    socket.set_plain_server(false).unwrap();
    assert_eq!(mechanism(), Mechanism::Null);
    socket.set_plain_username(Some("name")).unwrap();
    assert_eq!(mechanism(), Mechanism::Plain);
    socket.set_plain_username(None).unwrap();
    assert_eq!(mechanism(), Mechanism::Null);
    socket.set_plain_password(Some("word")).unwrap();
    assert_eq!(mechanism(), Mechanism::Plain);
    socket.set_plain_password(None).unwrap();
    assert_eq!(mechanism(), Mechanism::Null);
}

#[test]
fn an_identity_is_1_to_255_bytes() {
    let ctx = context();
    let socket = ctx.dealer("").unwrap();
    assert_eq!(socket.identity().unwrap(), b"");
    for identity in [&b"A"[..], b"a\0b\0", b"\xFF\xFE", &[7; 255]] {
        socket.set_identity(identity).unwrap();
        assert_eq!(socket.identity().unwrap(), identity);
    }
    for identity in [&b""[..], &[7; 256], &[7; 5000]] {
        refused(socket.set_identity(identity), "ZMQ_ROUTING_ID", &socket, &["refuses the value"]);
    }
    assert_eq!(socket.identity().unwrap(), [7; 255]);
}

#[test]
fn an_identity_that_only_libzmq_may_give_is_refused() {
    let ctx = context();
    let socket = ctx.dealer("").unwrap();
    refused(socket.set_identity(b"\0mine"), "ZMQ_ROUTING_ID", &socket, &[]);
}

#[test]
fn an_option_of_another_socket_type_is_refused_by_name() {
    let flags: [(&str, Set<bool>, &[SocketType]); 12] = {
        use SocketType::*;
        [
            ("ZMQ_ROUTER_MANDATORY", ZSock::set_router_mandatory, &[Router, Rep]),
            ("ZMQ_ROUTER_HANDOVER", ZSock::set_router_handover, &[Router, Rep]),
            ("ZMQ_ROUTER_RAW", ZSock::set_router_raw, &[Router, Rep]),
            ("ZMQ_PROBE_ROUTER", ZSock::set_probe_router, &[Router, Rep, Dealer, Req]),
            ("ZMQ_REQ_CORRELATE", ZSock::set_req_correlate, &[Req]),
            ("ZMQ_REQ_RELAXED", ZSock::set_req_relaxed, &[Req]),
            ("ZMQ_STREAM_NOTIFY", ZSock::set_stream_notify, &[Stream]),
            ("ZMQ_XPUB_VERBOSE", ZSock::set_xpub_verbose, &[XPub, Pub]),
            ("ZMQ_XPUB_VERBOSER", ZSock::set_xpub_verboser, &[XPub, Pub]),
            ("ZMQ_XPUB_NODROP", ZSock::set_xpub_nodrop, &[XPub, Pub]),
            ("ZMQ_XPUB_MANUAL", ZSock::set_xpub_manual, &[XPub, Pub]),
            ("ZMQ_XPUB_WELCOME_MSG", |s, _| s.set_xpub_welcome_msg("hi"), &[XPub, Pub]),
        ]
    };
    let bytes: [(&str, Get<()>, &[SocketType]); 3] = {
        use SocketType::*;
        [
            (
                "ZMQ_CONNECT_ROUTING_ID",
                |s| s.set_connect_routing_id("peer"),
                &[Router, Rep, Stream],
            ),
            ("ZMQ_SUBSCRIBE", |s| s.subscribe("topic"), &[Sub]),
            ("ZMQ_UNSUBSCRIBE", |s| s.unsubscribe("topic"), &[Sub]),
        ]
    };
    let ctx = context();
    for socket_type in [
        SocketType::Pair,
        SocketType::Pub,
        SocketType::Sub,
        SocketType::Req,
        SocketType::Rep,
        SocketType::Dealer,
        SocketType::Router,
        SocketType::Pull,
        SocketType::Push,
        SocketType::XPub,
        SocketType::XSub,
        SocketType::Stream,
    ] {
        let socket = ctx.socket(socket_type).unwrap();
        let elsewhere = ["this socket type does not have the option"];
        for (name, set, has) in flags {
            for on in [true, false] {
                if has.contains(&socket_type) {
                    set(&socket, on).unwrap();
                } else {
                    refused(set(&socket, on), name, &socket, &elsewhere);
                }
            }
        }
        for (name, set, has) in bytes {
            if has.contains(&socket_type) {
                set(&socket).unwrap();
            } else {
                refused(set(&socket), name, &socket, &elsewhere);
            }
        }
    }
    // The socket is none the worse for it.
    let (pull, push) = connected(&ctx, SocketType::Pull, SocketType::Push);
    for socket in [&pull, &push] {
        refused(socket.subscribe("x"), "ZMQ_SUBSCRIBE", socket, &[]);
        refused(socket.set_router_mandatory(true), "ZMQ_ROUTER_MANDATORY", socket, &[]);
    }
    push.send("still works").unwrap();
    assert_eq!(recv(&pull), "still works".into());
}

#[test]
fn an_option_error_reads_as_a_sentence() {
    let ctx = context();
    let socket = ctx.pull("").unwrap();
    assert_eq!(
        socket.set_sndhwm(Some(0)).unwrap_err().to_string(),
        "option ZMQ_SNDHWM of a PULL socket: libzmq takes 0 for \"off\", which is None here"
    );
    assert_eq!(
        socket.set_tos(u32::MAX).unwrap_err().to_string(),
        "option ZMQ_TOS of a PULL socket: the largest value is 2147483647"
    );
    let error = socket.subscribe("topic").unwrap_err();
    assert_eq!(error.reason().unwrap().errno(), Some(libc::EINVAL));
}

#[test]
fn options_are_terminated_with_the_context() {
    let ctx = context();
    let socket = ctx.sub("", "").unwrap();
    ctx.shutdown().unwrap();
    // What libzmq needs no answer for may go on working.
    for result in [socket.subscribe("x"), socket.set_linger(None), socket.linger().map(drop)] {
        if let Err(error) = result {
            assert!(error.is_terminated(), "{error:?}");
        }
    }
}

/// Checks that what the linked libzmq lacks is refused with the way to get it.
#[track_caller]
fn unsupported(result: Result<()>, name: &str, words: &[&str]) {
    let error = result.expect_err(name);
    let text = error.to_string();
    match error {
        Error::Unsupported { what, remedy } => {
            assert_eq!(what, name);
            assert!(remedy.contains("link a libzmq"), "{remedy}");
        }
        other => panic!("{name}: {other:?}"),
    }
    for word in words {
        assert!(text.contains(word), "{word:?} in {text:?}");
    }
}

#[test]
fn curve_works_or_says_how_to_get_it() {
    let ctx = context();
    let server = ctx.rep("").unwrap();
    let client = ctx.req("").unwrap();
    if zmq::has("curve") != Some(true) {
        let get = |result: Result<Vec<u8>>| result.map(drop);
        for (result, name) in [
            (server.set_curve_server(true), "ZMQ_CURVE_SERVER"),
            (server.curve_server().map(drop), "ZMQ_CURVE_SERVER"),
            (server.set_curve_publickey([1; 32]), "ZMQ_CURVE_PUBLICKEY"),
            (get(server.curve_publickey()), "ZMQ_CURVE_PUBLICKEY"),
            (server.set_curve_secretkey([1; 32]), "ZMQ_CURVE_SECRETKEY"),
            (get(server.curve_secretkey()), "ZMQ_CURVE_SECRETKEY"),
            (server.set_curve_serverkey([1; 32]), "ZMQ_CURVE_SERVERKEY"),
            (get(server.curve_serverkey()), "ZMQ_CURVE_SERVERKEY"),
        ] {
            unsupported(result, name, &["linked libzmq", "libsodium"]);
        }
        // And the socket goes on as one without security.
        assert_eq!(server.mechanism().unwrap(), Mechanism::Null);
        client.connect(&server.bind("tcp://127.0.0.1:*").unwrap()).unwrap();
        client.send("hello").unwrap();
        assert_eq!(recv(&server), "hello".into());
        return;
    }
    let [server_keys, client_keys] = [(); 2].map(|()| zmq::CurveKeyPair::new().unwrap());
    assert!(!server.curve_server().unwrap());
    server.set_curve_server(true).unwrap();
    assert!(server.curve_server().unwrap());
    server.set_curve_secretkey(server_keys.secret_key).unwrap();
    assert_eq!(server.curve_secretkey().unwrap(), server_keys.secret_key);
    // As bytes or as text.
    let text = zmq::z85_encode(&server_keys.public_key).unwrap();
    client.set_curve_serverkey(text).unwrap();
    assert_eq!(client.curve_serverkey().unwrap(), server_keys.public_key);
    client.set_curve_publickey(client_keys.public_key).unwrap();
    assert_eq!(client.curve_publickey().unwrap(), client_keys.public_key);
    client.set_curve_secretkey(client_keys.secret_key).unwrap();
    for socket in [&server, &client] {
        assert_eq!(socket.mechanism().unwrap(), Mechanism::Curve);
        refused(socket.set_curve_publickey([1; 31]), "ZMQ_CURVE_PUBLICKEY", socket, &[]);
    }
    client.connect(&server.bind("tcp://127.0.0.1:*").unwrap()).unwrap();
    client.send("secret").unwrap();
    assert_eq!(recv(&server), "secret".into());
    server.send("also secret").unwrap();
    assert_eq!(recv(&client), "also secret".into());

    // Somebody without keys is not let in.
    let stranger = ctx.req(&server.last_endpoint().unwrap().unwrap()).unwrap();
    stranger.send("let me in").unwrap();
    assert!(server.recv_timeout(SHORT).unwrap_err().is_timeout());
}

#[test]
fn gssapi_works_or_says_how_to_get_it() {
    let ctx = context();
    let socket = ctx.rep("").unwrap();
    let results = [
        (socket.gssapi_server().map(drop), "ZMQ_GSSAPI_SERVER"),
        (socket.gssapi_plaintext().map(drop), "ZMQ_GSSAPI_PLAINTEXT"),
        (socket.set_gssapi_plaintext(true), "ZMQ_GSSAPI_PLAINTEXT"),
        (socket.gssapi_principal().map(drop), "ZMQ_GSSAPI_PRINCIPAL"),
        (socket.set_gssapi_principal(Some("zmqtest")), "ZMQ_GSSAPI_PRINCIPAL"),
        (socket.gssapi_service_principal().map(drop), "ZMQ_GSSAPI_SERVICE_PRINCIPAL"),
        (socket.set_gssapi_service_principal(Some("zmqtest")), "ZMQ_GSSAPI_SERVICE_PRINCIPAL"),
        (socket.gssapi_principal_nametype().map(drop), "ZMQ_GSSAPI_PRINCIPAL_NAMETYPE"),
        (socket.set_gssapi_principal_nametype(NameType::UserName), "ZMQ_GSSAPI_PRINCIPAL_NAMETYPE"),
        (
            socket.gssapi_service_principal_nametype().map(drop),
            "ZMQ_GSSAPI_SERVICE_PRINCIPAL_NAMETYPE",
        ),
        (
            socket.set_gssapi_service_principal_nametype(NameType::Krb5Principal),
            "ZMQ_GSSAPI_SERVICE_PRINCIPAL_NAMETYPE",
        ),
        (socket.set_gssapi_server(true), "ZMQ_GSSAPI_SERVER"),
    ];
    if zmq::has("gssapi") != Some(true) {
        for (result, name) in results {
            unsupported(result, name, &["linked libzmq", "GSSAPI"]);
        }
        return;
    }
    for (result, name) in results {
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert!(socket.gssapi_server().unwrap());
    assert!(socket.gssapi_plaintext().unwrap());
    assert_eq!(socket.gssapi_principal().unwrap().as_deref(), Some("zmqtest"));
    assert_eq!(socket.gssapi_service_principal().unwrap().as_deref(), Some("zmqtest"));
    assert_eq!(socket.gssapi_principal_nametype().unwrap(), NameType::UserName);
    assert_eq!(socket.gssapi_service_principal_nametype().unwrap(), NameType::Krb5Principal);
    assert_eq!(socket.mechanism().unwrap(), Mechanism::Gssapi);
}

#[test]
fn vmci_works_or_says_how_to_get_it() {
    let ctx = context();
    let socket = ctx.rep("").unwrap();
    let results = [
        (socket.set_vmci_buffer_size(4096), "ZMQ_VMCI_BUFFER_SIZE"),
        (socket.vmci_buffer_size().map(drop), "ZMQ_VMCI_BUFFER_SIZE"),
        (socket.set_vmci_buffer_min_size(4096), "ZMQ_VMCI_BUFFER_MIN_SIZE"),
        (socket.vmci_buffer_min_size().map(drop), "ZMQ_VMCI_BUFFER_MIN_SIZE"),
        (socket.set_vmci_buffer_max_size(4096), "ZMQ_VMCI_BUFFER_MAX_SIZE"),
        (socket.vmci_buffer_max_size().map(drop), "ZMQ_VMCI_BUFFER_MAX_SIZE"),
        (socket.set_vmci_connect_timeout(Some(secs(1))), "ZMQ_VMCI_CONNECT_TIMEOUT"),
        (socket.vmci_connect_timeout().map(drop), "ZMQ_VMCI_CONNECT_TIMEOUT"),
    ];
    for (result, name) in results {
        if zmq::has("vmci") != Some(true) {
            unsupported(result, name, &["linked libzmq"]);
        } else {
            result.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

/// Answers the next question about a name and a password, and says what was asked.
fn answer_zap(handler: &ZSock) -> (String, String, String) {
    let mut request = recv(handler);
    let [version, id, domain] = [(); 3].map(|()| request.pop_front().unwrap());
    let _address = request.pop_front().unwrap();
    let _identity = request.pop_front().unwrap();
    assert_eq!((version, request.pop_str().unwrap().as_str()), ("1.0".into(), "PLAIN"));
    let (name, password) = (request.pop_str().unwrap(), request.pop_str().unwrap());
    let status = if password == "right" { "200" } else { "400" };
    handler.send(("1.0", id, status, "", name.clone(), "")).unwrap();
    (String::from_utf8(domain.to_vec()).unwrap(), name, password)
}

#[test]
fn plain_lets_in_who_has_the_password() {
    let ctx = context();
    let handler = ctx.rep("@inproc://zeromq.zap.01").unwrap();
    let server = ctx.pull("").unwrap();
    server.set_plain_server(true).unwrap();
    server.set_zap_domain("of tests").unwrap();
    let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
    for password in ["wrong", "right"] {
        let client = ctx.push("").unwrap();
        client.set_plain_username(Some("alice")).unwrap();
        client.set_plain_password(Some(password)).unwrap();
        client.connect(&endpoint).unwrap();
        client.send(password).unwrap();
        assert_eq!(answer_zap(&handler), ("of tests".into(), "alice".into(), password.to_owned()));
        if password == "right" {
            let msg = recv(&server);
            assert_eq!(msg, "right".into());
            assert_eq!(msg.first().unwrap().metadata("User-Id"), Some("alice"));
        } else {
            assert!(server.recv_timeout(SHORT).unwrap_err().is_timeout());
        }
    }
}

#[test]
fn a_descriptor_is_used_for_the_next_bind() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    assert_eq!(pull.use_fd().unwrap(), None);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let number = listener.as_raw_fd();
    pull.set_use_fd(OwnedFd::from(listener)).unwrap();
    assert_eq!(pull.use_fd().unwrap(), Some(number));
    assert_eq!(pull.bind("tcp://127.0.0.1:*").unwrap(), endpoint);
    let push = ctx.push(&endpoint).unwrap();
    push.send("through the descriptor").unwrap();
    assert_eq!(recv(&pull), "through the descriptor".into());
}

#[test]
fn an_ipc_descriptor_is_used_for_the_next_bind() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("activated");
    let listener = UnixListener::bind(&path).unwrap();
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    pull.set_use_fd(OwnedFd::from(listener)).unwrap();
    let endpoint = format!("ipc://{}", path.display());
    pull.bind(&endpoint).unwrap();
    let push = ctx.push(&endpoint).unwrap();
    push.send("through the descriptor").unwrap();
    assert_eq!(recv(&pull), "through the descriptor".into());
}

#[test]
fn a_descriptor_is_used_for_one_bind_only() {
    const TEST: &str = "a_descriptor_is_used_for_one_bind_only";
    if child_role().is_some() {
        let ctx = context();
        let pull = ctx.pull("").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        pull.set_use_fd(OwnedFd::from(listener)).unwrap();
        let first = pull.bind("tcp://127.0.0.1:*").unwrap();
        // Its own port, or an error; not the same descriptor, which would be closed twice.
        if let Ok(second) = pull.bind("tcp://127.0.0.1:*") {
            assert_ne!(first, second);
        }
        drop((pull, ctx));
        return;
    }
    // In a process of its own: libzmq aborts when it closes a descriptor a second time.
    child(TEST, "child").end(LONG);
}

#[test]
fn a_descriptor_that_is_not_used_is_closed() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    const TEST: &str = "a_descriptor_that_is_not_used_is_closed";
    if child_role().is_some() {
        let ctx = context();
        drop(ctx.pull("").unwrap());
        let before = descriptors();
        for _ in 0..50 {
            let pull = ctx.pull("").unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            pull.set_use_fd(OwnedFd::from(listener)).unwrap();
        }
        let start = std::time::Instant::now();
        while descriptors() > before + 5 {
            assert!(start.elapsed() < secs(3), "{before}, then {}", descriptors());
            thread::yield_now();
        }
        return;
    }
    // In a process of its own, whose descriptors nobody else opens and closes.
    child(TEST, "child").end(LONG);
}

#[test]
fn the_high_water_marks_limit_what_is_queued() {
    let ctx = context();
    let pull = ctx.socket(SocketType::Pull).unwrap();
    let push = ctx.socket(SocketType::Push).unwrap();
    pull.set_rcvhwm(Some(3)).unwrap();
    push.set_sndhwm(Some(4)).unwrap();
    let endpoint = inproc("hwm");
    pull.bind(&endpoint).unwrap();
    push.connect(&endpoint).unwrap();
    let sent = (0..1000).take_while(|_| push.try_send("x").is_ok()).count();
    assert_eq!(sent, 7);

    let (pull, push) = (ctx.pull("").unwrap(), ctx.push("").unwrap());
    pull.set_rcvhwm(None).unwrap();
    push.set_sndhwm(None).unwrap();
    let endpoint = inproc("hwm");
    pull.bind(&endpoint).unwrap();
    push.connect(&endpoint).unwrap();
    (0..5000).for_each(|_| push.try_send("no limit").unwrap());
}

#[test]
fn immediate_queues_for_complete_connections_only() {
    let ctx = context();
    let nobody = nobody();
    let push = ctx.push("").unwrap();
    push.set_immediate(true).unwrap();
    push.connect(&nobody).unwrap();
    assert!(push.try_send("x").unwrap_err().error.is_would_block());
    let push = ctx.push(&nobody).unwrap();
    push.set_linger(Some(Duration::ZERO)).unwrap();
    push.try_send("x").unwrap();
}

#[test]
fn conflate_keeps_the_last_message() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    pull.set_conflate(true).unwrap();
    let push = ctx.push(&pull.bind("tcp://127.0.0.1:*").unwrap()).unwrap();
    for number in 0..1000_u64 {
        push.send(number).unwrap();
    }
    let mut last = None;
    let mut received = 0;
    while last != Some(999) {
        let number = recv(&pull).pop_u64().unwrap();
        assert!(Some(number) > last);
        last = Some(number);
        received += 1;
        thread::sleep(ms(2));
    }
    assert!(received < 500, "{received} of 1000 came");
}

#[test]
fn a_larger_frame_than_is_accepted_disconnects_its_sender() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    pull.set_maxmsgsize(Some(1000)).unwrap();
    let endpoint = pull.bind("tcp://127.0.0.1:*").unwrap();
    let push = ctx.push(&endpoint).unwrap();
    push.send(vec![1; 1000]).unwrap();
    assert_eq!(recv(&pull).content_size(), 1000);
    push.send(vec![1; 1001]).unwrap();
    assert!(pull.recv_timeout(SHORT).unwrap_err().is_timeout());
    drop(push);
    ctx.push(&endpoint).unwrap().send("next").unwrap();
    assert_eq!(recv(&pull), "next".into());
}

#[test]
fn an_affinity_to_no_thread_says_so() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    pull.set_affinity(1 << 5).unwrap();
    let error = pull.bind("tcp://127.0.0.1:*").unwrap_err();
    assert!(error.to_string().contains("no I/O thread"), "{error}");
    let error = pull.connect("tcp://127.0.0.1:5560").unwrap_err();
    assert!(error.to_string().contains("no I/O thread"), "{error}");
    pull.set_affinity(1).unwrap();
    pull.bind("tcp://127.0.0.1:*").unwrap();
}

#[test]
fn handover_gives_an_identity_to_who_comes_last() {
    for handover in [false, true] {
        let ctx = context();
        let router = ctx.router("").unwrap();
        router.set_router_handover(handover).unwrap();
        let endpoint = router.bind("tcp://127.0.0.1:*").unwrap();
        let dealer = || {
            let dealer = ctx.dealer("").unwrap();
            dealer.set_identity("same").unwrap();
            dealer.connect(&endpoint).unwrap();
            dealer
        };
        let first = dealer();
        first.send("first").unwrap();
        assert_eq!(recv(&router), ("same", "first").into());
        let second = dealer();
        second.send("second").unwrap();
        if handover {
            assert_eq!(recv(&router), ("same", "second").into());
            router.send(("same", "to you")).unwrap();
            assert_eq!(recv(&second), "to you".into());
        } else {
            assert!(router.recv_timeout(SHORT).unwrap_err().is_timeout());
            router.send(("same", "to you")).unwrap();
            assert_eq!(recv(&first), "to you".into());
        }
    }
}

#[test]
fn a_probe_tells_a_router_of_a_connection() {
    let ctx = context();
    let router = ctx.router("").unwrap();
    let endpoint = router.bind("tcp://127.0.0.1:*").unwrap();
    let dealer = ctx.dealer("").unwrap();
    dealer.set_probe_router(true).unwrap();
    dealer.set_identity("probing").unwrap();
    dealer.connect(&endpoint).unwrap();
    assert_eq!(recv(&router), ("probing", "").into());
    router.send(("probing", "welcome")).unwrap();
    assert_eq!(recv(&dealer), "welcome".into());
}

#[test]
fn a_connect_routing_id_names_the_peer() {
    let ctx = context();
    let server = ctx.router("").unwrap();
    server.set_identity("server's own").unwrap();
    let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();
    let router = ctx.router("").unwrap();
    router.set_connect_routing_id("server").unwrap();
    router.set_identity("client").unwrap();
    router.connect(&endpoint).unwrap();
    router.send(("server", "hello")).unwrap();
    assert_eq!(recv(&server), ("client", "hello").into());
}

#[test]
fn a_connect_routing_id_that_is_taken_is_refused() {
    const TEST: &str = "a_connect_routing_id_that_is_taken_is_refused";
    if let Some(role) = child_role() {
        let ctx = context();
        let socket_type = if role == "ROUTER" { SocketType::Router } else { SocketType::Stream };
        let (server, other) = (ctx.router("").unwrap(), ctx.router("").unwrap());
        let socket = ctx.socket(socket_type).unwrap();
        for peer in [&server, &other] {
            let endpoint = peer.bind("tcp://127.0.0.1:*").unwrap();
            let result =
                socket.set_connect_routing_id("same").and_then(|()| socket.connect(&endpoint));
            println!("{result:?}");
        }
        return;
    }
    // In processes of their own: libzmq aborts.
    for role in ["ROUTER", "STREAM"] {
        let output = child(TEST, role).end(LONG);
        assert!(output.contains("Ok(())") && output.contains("Err("), "{output}");
    }
}

#[test]
fn a_raw_router_and_a_stream_without_notices_speak_plain_tcp() {
    use std::io::{Read, Write};
    let ctx = context();
    let router = ctx.router("").unwrap();
    router.set_router_raw(true).unwrap();
    let stream = ctx.stream("").unwrap();
    stream.set_stream_notify(false).unwrap();
    for socket in [router, stream] {
        let endpoint = socket.bind("tcp://127.0.0.1:*").unwrap();
        let address = endpoint.strip_prefix("tcp://").unwrap();
        let mut plain = std::net::TcpStream::connect(address).unwrap();
        plain.set_read_timeout(Some(LONG)).unwrap();
        plain.write_all(b"hello").unwrap();
        let mut msg = recv(&socket);
        while msg.last().unwrap().is_empty() {
            // A raw ROUTER tells of connections, too.
            assert_eq!(socket.socket_type(), SocketType::Router);
            msg = recv(&socket);
        }
        let peer = msg.pop_front().unwrap();
        assert_eq!(msg, "hello".into());
        socket.send((peer, "world")).unwrap();
        let mut bytes = [0; 5];
        plain.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"world");
    }
}

/// An XPUB and what it is told when two SUBs subscribe to the same and one takes it back.
fn told(set: impl FnOnce(&ZSock)) -> Vec<ZFrame> {
    let ctx = context();
    let publisher = ctx.socket(SocketType::XPub).unwrap();
    set(&publisher);
    let endpoint = inproc("told");
    publisher.bind(&endpoint).unwrap();
    // It takes its news one at a time, as they come.
    let first = ctx.sub(&endpoint, "A").unwrap();
    publisher.events().unwrap();
    let _second = ctx.sub(&endpoint, "A").unwrap();
    publisher.events().unwrap();
    first.unsubscribe("A").unwrap();
    first.subscribe("last").unwrap();
    let mut told = Vec::new();
    loop {
        let frame = publisher.recv_frame_timeout(LONG).unwrap();
        if frame == b"\x01last"[..] {
            return told;
        }
        told.push(frame);
    }
}

#[test]
fn a_verbose_xpub_is_told_of_repeated_subscriptions() {
    let (on, off) = (ZFrame::new(b"\x01A"), ZFrame::new(b"\0A"));
    assert_eq!(told(|_| ()), vec![on.clone()]);
    assert_eq!(told(|s| s.set_xpub_verbose(true).unwrap()), [on.clone(), on.clone()]);
    assert_eq!(told(|s| s.set_xpub_verboser(true).unwrap()), [on.clone(), on, off]);
}

#[test]
fn an_xpub_that_drops_nothing_blocks_at_the_high_water_mark() {
    let ctx = context();
    let publisher = ctx.socket(SocketType::XPub).unwrap();
    publisher.set_xpub_nodrop(true).unwrap();
    publisher.set_sndhwm(Some(2)).unwrap();
    let endpoint = inproc("nodrop");
    publisher.bind(&endpoint).unwrap();
    let sub = ctx.socket(SocketType::Sub).unwrap();
    sub.set_rcvhwm(Some(2)).unwrap();
    sub.subscribe("").unwrap();
    sub.connect(&endpoint).unwrap();
    recv(&publisher);
    let sent = (0..1000_u64).take_while(|n| publisher.try_send((*n, "rest")).is_ok()).count();
    assert_eq!(sent, 4);
    let failed = publisher.send_timeout(("a", "b"), ms(5)).unwrap_err();
    assert!(failed.error.is_timeout(), "{failed:?}");
    assert_eq!(failed.message, ("a", "b").into());
    for number in 0..sent as u64 {
        assert_eq!(recv(&sub), (number, "rest").into());
    }
    publisher.send_timeout(("a", "b"), LONG).unwrap();
    assert_eq!(recv(&sub), ("a", "b").into());
}

#[test]
fn a_manual_xpub_answers_subscriptions_itself() {
    let ctx = context();
    let publisher = ctx.socket(SocketType::XPub).unwrap();
    publisher.set_xpub_manual(true).unwrap();
    let endpoint = inproc("manual");
    publisher.bind(&endpoint).unwrap();
    let sub = ctx.sub(&endpoint, "A").unwrap();
    assert_eq!(recv(&publisher), b"\x01A".into());
    publisher.subscribe("XA").unwrap();
    publisher.send("A is not sent").unwrap();
    publisher.send("XA is").unwrap();
    sub.subscribe("XA").unwrap();
    assert_eq!(recv(&publisher), b"\x01XA".into());
    publisher.unsubscribe("XA").unwrap();
    publisher.send("XA is not, any more").unwrap();
    publisher.subscribe("").unwrap();
    publisher.send("XA end").unwrap();
    // What it has not subscribed to, a SUB drops.
    let first = recv(&sub);
    if first != "XA end".into() {
        assert_eq!(first, "XA is".into());
        assert_eq!(recv(&sub), "XA end".into());
    }
}

#[test]
fn a_welcome_message_comes_first() {
    let ctx = context();
    let publisher = ctx.socket(SocketType::XPub).unwrap();
    publisher.set_xpub_welcome_msg("W").unwrap();
    let endpoint = publisher.bind("tcp://127.0.0.1:*").unwrap();
    let sub = ctx.sub(&endpoint, "").unwrap();
    recv(&publisher);
    assert_eq!(recv(&sub), "W".into());
    publisher.send("news").unwrap();
    assert_eq!(recv(&sub), "news".into());

    publisher.set_xpub_welcome_msg("").unwrap();
    let sub = ctx.sub(&endpoint, "x").unwrap();
    recv(&publisher);
    publisher.send("x").unwrap();
    assert_eq!(recv(&sub), "x".into(), "and none when it is empty");
}

#[test]
fn inverted_matching_selects_the_others() {
    let ctx = context();
    let publisher = ctx.socket(SocketType::XPub).unwrap();
    publisher.set_invert_matching(true).unwrap();
    let endpoint = inproc("inverted");
    publisher.bind(&endpoint).unwrap();
    let sub = ctx.socket(SocketType::Sub).unwrap();
    sub.set_invert_matching(true).unwrap();
    sub.connect(&endpoint).unwrap();
    sub.subscribe("A").unwrap();
    recv(&publisher);
    publisher.send("A").unwrap();
    publisher.send("B").unwrap();
    assert_eq!(recv(&sub), "B".into());
}

#[test]
fn timeouts_may_change_at_any_time() {
    let ctx = context();
    let (pull, push) = connected(&ctx, SocketType::Pull, SocketType::Push);
    for time in [ms(1), ms(10), Duration::ZERO] {
        pull.set_rcvtimeo(Some(time)).unwrap();
        assert!(pull.recv().unwrap_err().is_timeout());
    }
    pull.set_rcvtimeo(None).unwrap();
    push.send("x").unwrap();
    assert_eq!(pull.recv().unwrap(), "x".into());
}

/// libzmq would keep the last frame of each.
#[test]
fn a_socket_that_conflates_refuses_messages_of_several_frames() {
    let ctx = context();
    let plain = zmq::Context::new().socket(zmq::PUSH).unwrap();
    plain.set_conflate(true).unwrap();
    plain.set_linger(0).unwrap();
    let adopted = ZSock::adopt(plain).unwrap();
    let mut sockets = vec![adopted];
    for kind in [SocketType::Push, SocketType::Dealer, SocketType::Pub] {
        let socket = ctx.socket(kind).unwrap();
        socket.set_conflate(true).unwrap();
        sockets.push(socket);
    }
    for socket in sockets {
        socket.bind("tcp://127.0.0.1:*").unwrap();
        let failed = socket.try_send(("one", "two", "three")).unwrap_err();
        assert!(matches!(failed.error, Error::Send { .. }), "{}", failed.error);
        assert!(failed.error.to_string().contains("one frame"), "{}", failed.error);
        assert_eq!(failed.message, ("one", "two", "three").into());
    }
    let socket = ctx.push("@tcp://127.0.0.1:*").unwrap();
    socket.set_conflate(true).unwrap();
    socket.set_conflate(false).unwrap();
    let peer = ctx.pull(&format!(">{}", socket.last_endpoint().unwrap().unwrap())).unwrap();
    socket.send(("one", "two")).unwrap();
    assert_eq!(recv(&peer), ("one", "two").into());
}

/// libzmq takes any number, and ends the process when the system refuses it.
#[test]
fn what_the_systems_tcp_does_not_take_is_refused() {
    let ctx = context();
    let socket = ctx.dealer("").unwrap();
    socket.set_tcp_keepalive(Some(true)).unwrap();
    for count in [0, 128, 1_000_000] {
        let refusal = socket.set_tcp_keepalive_cnt(Some(count));
        refused(refusal, "ZMQ_TCP_KEEPALIVE_CNT", &socket, &["TCP does not take"]);
    }
    type Setter = fn(&ZSock, Option<Duration>) -> Result<()>;
    let setters: [(&str, Setter); 2] = [
        ("ZMQ_TCP_KEEPALIVE_IDLE", ZSock::set_tcp_keepalive_idle),
        ("ZMQ_TCP_KEEPALIVE_INTVL", ZSock::set_tcp_keepalive_intvl),
    ];
    for (name, set) in setters {
        for time in [Duration::ZERO, secs(32_768), secs(1 << 30)] {
            refused(set(&socket, Some(time)), name, &socket, &["TCP does not take"]);
        }
        for time in [Some(ms(1)), Some(secs(32_767)), None] {
            set(&socket, time).unwrap();
        }
    }
    // And what was accepted does not end the process.
    socket.set_tcp_keepalive_cnt(Some(127)).unwrap();
    socket.set_tcp_keepalive_idle(Some(secs(32_767))).unwrap();
    let peer = ctx.dealer("").unwrap();
    peer.connect(&socket.bind("tcp://127.0.0.1:*").unwrap()).unwrap();
    peer.send("through").unwrap();
    assert_eq!(recv(&socket), "through".into());
}

/// An XPUB that has received so many subscriptions, all different.
fn receives_subscriptions(xpub: &ZSock, count: u32) {
    let mut topics: Vec<u32> = (0..count)
        .map(|_| {
            let mut told = recv(xpub);
            let frame = told.pop_front().unwrap();
            assert_eq!(frame[0], 1);
            u32::from_be_bytes(frame[1..].try_into().unwrap())
        })
        .collect();
    topics.sort_unstable();
    assert!(topics.into_iter().eq(0..count));
}

const SUBSCRIPTIONS: u32 = 3_000;

#[test]
fn more_subscriptions_than_a_queue_has_places_arrive_whenever_they_are_made() {
    let ctx = context();
    for kind in ["tcp://127.0.0.1:*", &inproc("topics")] {
        let xpub = ctx.xpub("").unwrap();
        let endpoint = xpub.bind(kind).unwrap();
        let before = ctx.sub("", "").unwrap();
        assert_eq!(before.sndhwm().unwrap(), None);
        (0..SUBSCRIPTIONS).for_each(|topic| before.subscribe(topic.to_be_bytes()).unwrap());
        before.unsubscribe("").unwrap();
        before.connect(&endpoint).unwrap();
        receives_subscriptions(&xpub, SUBSCRIPTIONS);
        drop(before);
        (0..SUBSCRIPTIONS).for_each(|_| assert_eq!(recv(&xpub).pop_front().unwrap()[0], 0));

        let after = ctx.socket(SocketType::Sub).unwrap();
        after.connect(&endpoint).unwrap();
        (0..SUBSCRIPTIONS).for_each(|topic| after.subscribe(topic.to_be_bytes()).unwrap());
        receives_subscriptions(&xpub, SUBSCRIPTIONS);
    }
}

#[test]
fn subscriptions_arrive_again_at_a_publisher_that_comes_back() {
    let ctx = context();
    let xpub = ctx.xpub("").unwrap();
    let endpoint = xpub.bind("tcp://127.0.0.1:*").unwrap();
    let sub = ctx.socket(SocketType::Sub).unwrap();
    sub.connect(&endpoint).unwrap();
    (0..SUBSCRIPTIONS).for_each(|topic| sub.subscribe(topic.to_be_bytes()).unwrap());
    receives_subscriptions(&xpub, SUBSCRIPTIONS);
    drop(xpub);
    // libzmq subscribes again in a call of the SUB's.
    let receiving = common::blocked(move || sub.recv().map(drop));
    let again = ctx.xpub("").unwrap();
    again.bind(&endpoint).unwrap();
    receives_subscriptions(&again, SUBSCRIPTIONS);
    ctx.shutdown().unwrap();
    assert!(receiving.recv_timeout(secs(10)).unwrap().unwrap_err().is_ending());
}
