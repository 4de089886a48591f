//! Binding and connecting: endpoints, and what goes wrong with them.

mod common;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use common::{
    alone, child, child_role, child_with, more_descriptors, nobody, unique, wait_for_parent, within,
};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use tempfile::{TempDir, tempdir};
use zkit::{Error, SocketType, ZContext, ZSock};

/// More than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);

fn context() -> ZContext {
    ZContext::builder().signals(false).build().expect("a context")
}

fn inproc(name: &str) -> String {
    format!("inproc://{}", unique(name))
}

/// A directory for sockets, and the endpoint of one in it.
fn ipc(name: &str) -> (TempDir, String) {
    let dir = tempdir().expect("a directory");
    let endpoint = format!("ipc://{}", dir.path().join(name).display());
    (dir, endpoint)
}

fn path(endpoint: &str) -> &Path {
    Path::new(endpoint.strip_prefix("ipc://").expect("an ipc endpoint"))
}

fn port(endpoint: &str) -> u16 {
    let (_, port) = endpoint.rsplit_once(':').expect("a port");
    port.parse().unwrap_or_else(|_| panic!("{endpoint} ends in a port"))
}

/// Checks that a message gets from a new peer to `pull`.
#[track_caller]
fn reachable(ctx: &ZContext, pull: &ZSock, endpoint: &str) {
    let push = ctx.push(endpoint).unwrap();
    push.send_timeout(("are", "you there"), LONG).unwrap();
    assert_eq!(pull.recv_timeout(LONG).unwrap(), ("are", "you there").into(), "{endpoint}");
}

/// The endpoint and the reason of a failed bind.
#[track_caller]
fn bind_error(socket: &ZSock, endpoint: &str) -> (String, zkit::Reason) {
    match socket.bind(endpoint) {
        Err(Error::Bind { endpoint, reason }) => (endpoint, reason),
        other => panic!("{endpoint:?}: {other:?}"),
    }
}

#[track_caller]
fn cannot_bind(socket: &ZSock, endpoint: &str, words: &[&str]) {
    let (named, reason) = bind_error(socket, endpoint);
    assert_eq!(named, endpoint);
    for word in words {
        assert!(reason.to_string().contains(word), "{endpoint:?}: {word:?} in \"{reason}\"");
    }
}

#[track_caller]
fn cannot_connect(socket: &ZSock, endpoint: &str, words: &[&str]) {
    match socket.connect(endpoint) {
        Err(Error::Connect { endpoint: named, reason }) => {
            assert_eq!(named, endpoint);
            for word in words {
                assert!(
                    reason.to_string().contains(word),
                    "{endpoint:?}: {word:?} in \"{reason}\""
                );
            }
        }
        other => panic!("{endpoint:?}: {other:?}"),
    }
}

#[test]
fn bind_returns_the_endpoint_that_it_got() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    let (_dir, ipc) = ipc("real");
    let inproc = inproc("real");
    for (asked, expected) in [
        ("tcp://127.0.0.1:*", "tcp://127.0.0.1:"),
        ("tcp://127.0.0.1:0", "tcp://127.0.0.1:"),
        ("tcp://127.0.0.1:!", "tcp://127.0.0.1:"),
        ("tcp://127.0.0.1:*[50000-]", "tcp://127.0.0.1:"),
        (&ipc, &ipc),
        (&inproc, &inproc),
    ] {
        let real = pull.bind(asked).unwrap();
        assert!(real.starts_with(expected), "{asked} became {real}");
        assert_eq!(pull.last_endpoint().unwrap(), Some(real.clone()));
        if real.starts_with("tcp") {
            assert!(port(&real) > 0);
        } else {
            assert_eq!(real, expected);
        }
        reachable(&ctx, &pull, &real);
    }
}

#[test]
fn a_given_port_is_taken() {
    let free = nobody();
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    assert_eq!(pull.bind(&free).unwrap(), free);
    reachable(&ctx, &pull, &free);
}

/// Some consecutive ports outside what the system gives away by itself, different from those of
/// other test processes.
fn quiet_ports(count: u16) -> (u16, u16) {
    let first = 61_000 + (std::process::id() % 80) as u16 * 50;
    (first, first + count - 1)
}

#[test]
fn a_range_gives_its_first_free_port() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    let (first, last) = quiet_ports(20);
    let asked = format!("tcp://127.0.0.1:*[{first}-{last}]");
    let mut before = first - 1;
    for _ in 0..4 {
        let real = pull.bind(&asked).unwrap();
        let port = port(&real);
        assert!((before + 1..=last).contains(&port), "{port} after {before}");
        before = port;
        reachable(&ctx, &pull, &real);
    }
}

#[test]
fn a_range_may_leave_out_its_bounds() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    for (range, expected) in [
        ("*[50000-]", 50_000..=65_535),
        ("*[-50001]", 49_152..=50_001),
        ("*[60000-60500]", 60_000..=60_500),
        ("*[-]", 49_152..=65_535),
        ("!", 49_152..=65_535),
        ("![50000-]", 50_000..=65_535),
        ("![-50001]", 49_152..=50_001),
        ("![60000-60500]", 60_000..=60_500),
        ("*", 1..=65_535),
    ] {
        let real = pull.bind(&format!("tcp://127.0.0.1:{range}")).unwrap();
        assert!(expected.contains(&port(&real)), "{range} gave {real}");
    }
}

#[test]
fn a_random_port_is_random() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    let ports: Vec<u16> = (0..8).map(|_| port(&pull.bind("tcp://127.0.0.1:!").unwrap())).collect();
    let in_a_row = ports.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 3).count();
    assert!(in_a_row < 3, "{ports:?}");
}

#[test]
fn a_range_without_a_free_port_says_so() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for sign in ["*", "!"] {
        let endpoint = format!("tcp://127.0.0.1:{sign}[{port}-{port}]");
        let words = format!("every port from {port} to {port} is in use");
        cannot_bind(&pull, &endpoint, &[&words]);
        assert_eq!(bind_error(&pull, &endpoint).1.errno(), Some(libc::EADDRINUSE));
    }
    drop(taken);
    pull.bind(&format!("tcp://127.0.0.1:*[{port}-{port}]")).unwrap();
}

#[test]
fn a_malformed_range_says_how_to_write_one() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    for port in [
        "*[",
        "*[]",
        "*[1]",
        "*[a-b]",
        "*[2-1]",
        "*[0-10]",
        "*[1-65536]",
        "*[1-2",
        "*[1-2]x",
        "*[1-2-3]",
        "*[ 1-2]",
        "!5",
        "!x",
        "![",
        "![]",
        "![5]",
        "!1-2",
        "![-1-2]",
        "![70000-]",
    ] {
        let endpoint = format!("tcp://127.0.0.1:{port}");
        cannot_bind(&pull, &endpoint, &["is not a range of ports", "[first-last]", &port[1..]]);
    }
}

/// Lets go of an endpoint and takes it again at once, many times.
fn rebind(endpoint: &str, let_go: impl Fn(ZSock, &str) -> Option<ZSock>) {
    more_descriptors(); // libzmq closes in its own time
    let ctx = context();
    let mut pull = ctx.pull("").unwrap();
    let endpoint = pull.bind(endpoint).unwrap();
    for round in 0..200 {
        if round % 10 == 0 {
            reachable(&ctx, &pull, &endpoint);
        }
        pull = let_go(pull, &endpoint).unwrap_or_else(|| ctx.pull("").unwrap());
        let bound = pull.bind(&endpoint);
        assert_eq!(bound.unwrap(), endpoint, "in round {round}");
    }
    reachable(&ctx, &pull, &endpoint);
}

macro_rules! rebind {
    ($($unbound:ident, $dropped:ident: $endpoint:expr;)*) => {$(
        #[test]
        fn $unbound() {
            within(LONG, stringify!($unbound), || {
                let (_dir, _ipc) = ipc("again");
                let make: fn(&str) -> String = $endpoint;
                rebind(&make(&_ipc), |pull, endpoint| {
                    pull.unbind(endpoint).unwrap();
                    Some(pull)
                });
            });
        }

        #[test]
        fn $dropped() {
            within(LONG, stringify!($dropped), || {
                let (_dir, _ipc) = ipc("again");
                let make: fn(&str) -> String = $endpoint;
                rebind(&make(&_ipc), |pull, _| {
                    drop(pull);
                    None
                });
            });
        }
    )*};
}

rebind! {
    tcp_is_bound_again_right_after_unbind, tcp_is_bound_again_right_after_drop:
        // Of an address of its own, whose ports the system gives to nobody meanwhile.
        |_| nobody().replace(":5555", ":*");
    ipc_is_bound_again_right_after_unbind, ipc_is_bound_again_right_after_drop:
        |ipc| ipc.into();
    inproc_is_bound_again_right_after_unbind, inproc_is_bound_again_right_after_drop:
        |_| inproc("again");
}

#[test]
fn an_inproc_name_is_gone_when_the_drop_returns() {
    let ctx = context();
    let name = inproc("gone");
    for round in 0..200_u32 {
        let pull = ctx.pull(&name).unwrap();
        if round % 2 == 0 {
            drop(pull);
        } else {
            pull.unbind(&name).unwrap();
        }
        // What connects now waits for the next owner, and does not reach the last.
        let push = ctx.push(&name).unwrap();
        push.send_timeout(round, LONG).unwrap();
        let next = ctx.pull(&name).unwrap();
        assert_eq!(next.recv_timeout(LONG).unwrap(), round.into());
    }
}

#[test]
fn an_endpoint_is_bound_again_by_another_thread() {
    let ctx = context();
    let mut endpoint = ctx.pull("").unwrap().bind("tcp://127.0.0.1:*").unwrap();
    for _ in 0..20 {
        let ctx = ctx.clone();
        endpoint = within(LONG, "bind in a thread", move || {
            let pull = ctx.pull("").unwrap();
            pull.bind(&endpoint).unwrap();
            reachable(&ctx, &pull, &endpoint);
            endpoint
        });
    }
}

#[test]
fn unbind_takes_the_endpoint_as_it_was_asked_for_or_returned() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    let other = ctx.pull("").unwrap();
    let (first, last) = quiet_ports(40);
    for asked in ["tcp://127.0.0.1:*", &format!("tcp://127.0.0.1:![{first}-{last}]")] {
        for by_asked in [true, false] {
            let real = pull.bind(asked).unwrap();
            pull.unbind(if by_asked { asked } else { &real }).unwrap();
            assert_eq!(other.bind(&real).unwrap(), real, "{asked} is free again");
            other.unbind(&real).unwrap();
        }
    }
}

#[test]
fn what_is_not_bound_or_connected_says_so() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    let (_dir, ipc) = ipc("none");
    let tcp = pull.bind("tcp://127.0.0.1:*").unwrap();
    pull.unbind(&tcp).unwrap();
    for endpoint in [&tcp, &ipc, "inproc://nothing-here", "nonsense", "", "tcp://a\0b"] {
        match pull.unbind(endpoint) {
            Err(Error::Unbind { endpoint: named, .. }) => assert_eq!(named, *endpoint),
            other => panic!("{endpoint}: {other:?}"),
        }
        match pull.disconnect(endpoint) {
            Err(Error::Disconnect { endpoint: named, .. }) => assert_eq!(named, *endpoint),
            other => panic!("{endpoint}: {other:?}"),
        }
    }
    for endpoint in [&tcp, &ipc, "inproc://nothing-here"] {
        for error in [pull.unbind(endpoint).unwrap_err(), pull.disconnect(endpoint).unwrap_err()] {
            let text = error.to_string();
            assert!(text.contains("not attached"), "{text}");
        }
    }
}

#[test]
fn a_disconnected_peer_gets_no_more() {
    let ctx = context();
    let (_dir, ipc) = ipc("disconnect");
    for endpoint in ["tcp://127.0.0.1:*", &ipc, &inproc("disconnect")] {
        let left = ctx.pull("").unwrap();
        let stays = ctx.pull("").unwrap();
        let left_at = left.bind(endpoint).unwrap();
        let stays_at = stays.bind("tcp://127.0.0.1:*").unwrap();

        let push = ctx.push(&format!("{left_at},{stays_at}")).unwrap();
        // Both are there once each has had something.
        for pull in [&left, &stays] {
            while pull.recv_timeout(Duration::from_millis(5)).is_err() {
                push.send_timeout("hello", LONG).unwrap();
            }
        }
        push.disconnect(&left_at).unwrap();
        for _ in 0..20 {
            push.send_timeout("after", LONG).unwrap();
        }
        for _ in 0..20 {
            while stays.recv_str_timeout(LONG).unwrap() != "after" {}
        }
        while let Ok(text) = left.try_recv_str() {
            assert_eq!(text, "hello", "{endpoint}");
        }
    }
}

#[test]
fn a_name_is_disconnected_as_it_was_connected() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    let port = port(&pull.bind("tcp://127.0.0.1:*").unwrap());
    let push = ctx.push("").unwrap();
    let endpoint = format!("tcp://localhost:{port}");
    push.connect(&endpoint).unwrap();
    push.send_timeout("hello", LONG).unwrap();
    pull.recv_timeout(LONG).unwrap();
    push.disconnect(&endpoint).unwrap();
    assert!(push.disconnect(&endpoint).is_err());
    assert!(push.try_send("nowhere to go").is_err());
}

#[test]
fn connect_may_name_its_own_address() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    let port = port(&pull.bind("tcp://127.0.0.1:*").unwrap());
    reachable(&ctx, &pull, &format!("tcp://127.0.0.1:0;127.0.0.1:{port}"));
}

#[test]
fn connect_does_not_need_a_peer() {
    let ctx = context();
    let (dir, _) = ipc("later");
    // Not even the directory, which the peer may make.
    let ipc = format!("ipc://{}", dir.path().join("later/peer").display());
    for endpoint in [&ipc, &inproc("later")] {
        let push = ctx.push("").unwrap();
        push.set_reconnect_ivl(Some(Duration::from_millis(5))).unwrap();
        push.connect(endpoint).unwrap();
        push.send_timeout("early", LONG).unwrap();
        let _ = fs::create_dir(dir.path().join("later"));
        let pull = ctx.pull(endpoint).unwrap();
        assert_eq!(pull.recv_str_timeout(LONG).unwrap(), "early");
    }
}

#[test]
fn a_bad_endpoint_is_refused_in_words() {
    let ctx = context();
    let (dir, regular) = ipc("regular");
    fs::write(path(&regular), "content").unwrap();
    let through = format!("{regular}/socket");
    let directory = format!("ipc://{}", dir.path().display());
    let long = format!("ipc:///{}", "x".repeat(107));
    let very_long = format!("ipc:///{}", "x".repeat(5000));

    for (endpoint, words) in [
        ("inproc://a\0b", &["NUL"][..]),
        ("tcp://127.0.0.1:55\x0055", &["NUL"]),
        ("\0", &["transport"]),
        ("", &["names no transport", "tcp://host:port"]),
        ("127.0.0.1:5560", &["names no transport"]),
        ("tcp:127.0.0.1:5560", &["names no transport"]),
        ("tcp://", &["empty"]),
        ("inproc://", &["empty"]),
        ("ipc://", &["empty"]),
        ("://127.0.0.1:5560", &["empty"]),
        ("txp://127.0.0.1:5560", &["no transport", "\"txp\"", "tcp, ipc, inproc"]),
        (" tcp://127.0.0.1:5560", &["no transport", "\" tcp\""]),
        ("TCP://127.0.0.1:5560", &["no transport", "\"TCP\""]),
        ("udp://127.0.0.1:5560", &["does not go with this socket type"]),
        ("tcp://127.0.0.1", &["tcp://host:port"]),
        ("tcp://127.0.0.1:", &["tcp://host:port"]),
        ("tcp://127.0.0.1:port", &["tcp://host:port"]),
        ("ipc://@", &["does not understand", "ipc"]),
        (&long, &["108 bytes", "limit is 107"]),
        (&very_long, &["5001 bytes", "limit is 107"]),
        (&directory, &["a directory"]),
        (&regular, &["not a socket", "leaves alone"]),
        (&through, &["not a directory"]),
    ] {
        let pull = ctx.pull("").unwrap();
        cannot_bind(&pull, endpoint, words);
        cannot_connect(&pull, endpoint, words);
        // The socket is none the worse for it.
        let real = pull.bind("tcp://127.0.0.1:*").unwrap();
        reachable(&ctx, &pull, &real);
    }
    assert_eq!(fs::read(path(&regular)).unwrap(), b"content");
}

#[test]
fn a_port_that_no_machine_has_is_refused() {
    let ctx = context();
    cannot_connect(&ctx.pull("").unwrap(), "tcp://127.0.0.1:0", &["tcp://host:port"]);
    for port in ["-1", "5560x", "+5560", " 5560", "65536", "65537", "4294967297", "99999999999"] {
        let pull = ctx.pull("").unwrap();
        let endpoint = format!("tcp://127.0.0.1:{port}");
        cannot_bind(&pull, &endpoint, &["tcp://host:port", "65535"]);
        cannot_connect(&pull, &endpoint, &["tcp://host:port", "65535"]);
    }
}

#[test]
fn an_endpoint_that_cannot_be_bound_is_refused_in_words() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    let (dir, _) = ipc("dir");
    let missing = format!("ipc://{}", dir.path().join("missing/socket").display());
    cannot_bind(&pull, &missing, &["directory does not exist"]);
    cannot_bind(&pull, "tcp://nosuchif0:5560", &["no network interface or address"]);
    // An address of documentation, which no machine has.
    cannot_bind(&pull, "tcp://192.0.2.1:5560", &["address"]);
    cannot_connect(&pull, "tcp://127.0.0.1:*", &["tcp://host:port"]);
    cannot_connect(&pull, "tcp://*:5560", &["tcp://host:port"]);
    cannot_connect(&pull, "tcp://127.0.0.1:*[50000-50010]", &["tcp://host:port"]);
}

/// Since libzmq 4.3.5; before, an address or an interface was wanted.
#[test]
fn a_name_of_a_host_is_bound_at_its_address() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    if zkit::engine().version < (4, 3, 5) {
        cannot_bind(&pull, "tcp://localhost:*", &["no network interface or address"]);
        return;
    }
    let endpoint = pull.bind("tcp://localhost:*").unwrap();
    assert!(endpoint.starts_with("tcp://127.0.0.1:"), "{endpoint}");
    reachable(&ctx, &pull, &endpoint);
    // RFC 6761: a name that nobody has.
    cannot_bind(&pull, "tcp://nobody.invalid:*", &["no network interface or address"]);
}

#[test]
fn an_interface_is_bound_by_its_name() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    let endpoint = pull.bind("tcp://lo:*").unwrap();
    assert!(endpoint.starts_with("tcp://127.0.0.1:"), "{endpoint}");
    reachable(&ctx, &pull, &endpoint);
}

/// A link-local address means nothing without the interface that it is of.
#[test]
fn a_zone_may_be_named_in_an_ipv6_address() {
    let interfaces = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    // "address index prefix scope flags name"; scope 20 is the link's.
    let local = interfaces.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [address, _, _, "20", _, name] = fields[..] else { return None };
        let groups: Vec<&str> = (0..8).map(|group| &address[4 * group..4 * group + 4]).collect();
        Some((groups.join(":"), name.to_owned()))
    });
    let Some((address, interface)) = local else {
        eprintln!("skipped: no interface has a link-local address");
        return;
    };
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    pull.set_ipv6(true).unwrap();
    let bound = pull.bind(&format!("tcp://[{address}%{interface}]:*")).unwrap();
    let push = ctx.push("").unwrap();
    push.set_ipv6(true).unwrap();
    push.connect(&format!("tcp://[{address}%{interface}]:{}", port(&bound))).unwrap();
    push.send("through the link").unwrap();
    assert_eq!(pull.recv_timeout(Duration::from_secs(10)).unwrap(), "through the link".into());
}

#[test]
fn errors_read_as_sentences() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("tcp://{}", listener.local_addr().unwrap());
    for (result, text) in [
        (pull.bind(&taken).map(drop), format!("cannot bind {taken:?}: address already in use")),
        (
            pull.bind("inproc://a\0b").map(drop),
            r#"cannot bind "inproc://a\0b": it contains a NUL character"#.into(),
        ),
        (
            pull.connect("ipc://"),
            r#"cannot connect to "ipc://": its transport or its address is empty"#.into(),
        ),
        (
            pull.unbind("inproc://x"),
            r#"cannot unbind "inproc://x": the socket is not attached to it"#.into(),
        ),
        (
            pull.disconnect("inproc://x"),
            r#"cannot disconnect from "inproc://x": the socket is not attached to it"#.into(),
        ),
    ] {
        assert_eq!(result.unwrap_err().to_string(), text);
    }
}

#[test]
fn a_taken_endpoint_is_refused_at_once() {
    let ctx = context();
    let (_dir, ipc) = ipc("taken");
    let owner = ctx.pull("").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let foreign = format!("tcp://{}", listener.local_addr().unwrap());
    for endpoint in ["tcp://127.0.0.1:*", &ipc, &inproc("taken"), &foreign] {
        let real =
            if endpoint == foreign { foreign.clone() } else { owner.bind(endpoint).unwrap() };
        let other = ctx.pull("").unwrap();
        let start = Instant::now();
        for socket in [&owner, &other] {
            cannot_bind(socket, &real, &["address already in use"]);
            assert_eq!(bind_error(socket, &real).1.errno(), Some(libc::EADDRINUSE));
        }
        assert!(start.elapsed() < Duration::from_millis(900), "there is nothing to wait for");
        if endpoint != foreign {
            reachable(&ctx, &owner, &real);
        }
    }
}

#[test]
fn terminated_is_terminated_here_too() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    ctx.shutdown().unwrap();
    assert!(pull.bind("tcp://127.0.0.1:*").unwrap_err().is_terminated());
    assert!(pull.bind("tcp://127.0.0.1:![50000-50010]").unwrap_err().is_terminated());
    assert!(pull.connect("tcp://127.0.0.1:5560").unwrap_err().is_terminated());
    assert!(pull.unbind("tcp://127.0.0.1:5560").unwrap_err().is_terminated());
    assert!(pull.disconnect("tcp://127.0.0.1:5560").unwrap_err().is_terminated());
}

#[test]
fn the_file_of_an_ipc_socket_goes_with_it() {
    let ctx = context();
    let (dir, endpoint) = ipc("socket");
    let there = || path(&endpoint).symlink_metadata().is_ok();
    let pull = ctx.pull(&endpoint).unwrap();
    assert!(path(&endpoint).metadata().unwrap().file_type().is_socket());
    pull.unbind(&endpoint).unwrap();
    assert!(!there(), "after unbind");

    pull.bind(&endpoint).unwrap();
    drop(pull);
    assert!(!there(), "after drop");

    let pull = ctx.pull(&endpoint).unwrap();
    ctx.shutdown().unwrap();
    drop(pull);
    assert!(!there(), "after shutdown and drop");
    within(LONG, "the end of a context", move || drop(ctx));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_has_taken_the_place_of_an_ipc_socket_stays() {
    let ctx = context();
    let (_dir, endpoint) = ipc("socket");
    let pull = ctx.pull(&endpoint).unwrap();
    fs::remove_file(path(&endpoint)).unwrap();
    fs::write(path(&endpoint), "somebody else's").unwrap();
    drop(pull);
    assert_eq!(fs::read(path(&endpoint)).unwrap(), b"somebody else's");
}

#[test]
fn a_wildcard_ipc_socket_works_and_leaves_nothing_behind() {
    const TEST: &str = "a_wildcard_ipc_socket_works_and_leaves_nothing_behind";
    if child_role().is_some() {
        let ctx = context();
        let pull = ctx.pull("").unwrap();
        let endpoints = [(); 2].map(|()| pull.bind("ipc://*").unwrap());
        assert_ne!(endpoints[0], endpoints[1]);
        for endpoint in &endpoints {
            reachable(&ctx, &pull, endpoint);
        }
        drop((pull, ctx));
        for endpoint in &endpoints {
            assert!(!path(endpoint).exists(), "{endpoint}");
        }
        return;
    }
    // libzmq makes the file where one of these says, or in the current directory.
    let places = ["TMPDIR", "TEMPDIR", "TMP"];
    for place in places.map(Some).into_iter().chain([None]) {
        let dir = tempdir().unwrap();
        let child = child_with(TEST, "child", |command| {
            for name in places {
                command.env_remove(name);
            }
            match place {
                Some(name) => command.env(name, dir.path()),
                None => command.current_dir(dir.path()),
            };
        });
        child.end(LONG);
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert!(left.is_empty(), "{place:?}: {left:?}");
    }
}

#[test]
fn an_abstract_ipc_socket_works() {
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    let endpoint = format!("ipc://@{}", unique("zkit"));
    assert_eq!(pull.bind(&endpoint).unwrap(), endpoint);
    reachable(&ctx, &pull, &endpoint);
    cannot_bind(&ctx.pull("").unwrap(), &endpoint, &["in use"]);
    pull.unbind(&endpoint).unwrap();
    pull.bind(&endpoint).unwrap();
    reachable(&ctx, &pull, &endpoint);
}

#[test]
fn an_ipc_path_may_be_as_long_as_the_system_allows() {
    let ctx = context();
    let (dir, _) = ipc("dir");
    let room = 107 - dir.path().as_os_str().len() - 1;
    let endpoint = format!("ipc://{}", dir.path().join("x".repeat(room)).display());
    assert_eq!(path(&endpoint).as_os_str().len(), 107);
    let pull = ctx.pull(&endpoint).unwrap();
    reachable(&ctx, &pull, &endpoint);
    cannot_bind(&pull, &format!("{endpoint}y"), &["108 bytes"]);
    cannot_connect(&pull, &format!("{endpoint}y"), &["108 bytes"]);
}

#[test]
fn a_stale_socket_file_is_taken_over() {
    // Between `fork` and `exec`, a process that another test starts would listen as well.
    alone(|| {
        let ctx = context();
        let (_dir, endpoint) = ipc("stale");
        for _ in 0..3 {
            // The standard library leaves the file as a process does that is killed.
            drop(UnixListener::bind(path(&endpoint)).unwrap());
            assert!(path(&endpoint).exists());
            let pull = ctx.pull(&endpoint).unwrap();
            reachable(&ctx, &pull, &endpoint);
            drop(pull);
        }
    });
}

#[test]
fn a_file_that_is_not_a_socket_is_left_alone() {
    let ctx = context();
    let (dir, regular) = ipc("regular");
    fs::write(path(&regular), "precious").unwrap();
    let fifo = format!("ipc://{}", dir.path().join("fifo").display());
    mkfifo(path(&fifo), Mode::S_IRWXU).unwrap();
    let link = format!("ipc://{}", dir.path().join("link").display());
    std::os::unix::fs::symlink(path(&regular), path(&link)).unwrap();
    for endpoint in [&regular, &fifo, &link] {
        let pull = ctx.pull("").unwrap();
        cannot_bind(&pull, endpoint, &["a file that is not a socket"]);
        cannot_connect(&pull, endpoint, &["a file that is not a socket"]);
    }
    assert_eq!(fs::read(path(&regular)).unwrap(), b"precious");
    assert!(path(&fifo).metadata().unwrap().file_type().is_fifo());
    assert!(path(&link).symlink_metadata().unwrap().is_symlink());
}

#[test]
fn a_live_listener_of_another_context_is_not_displaced() {
    let ctx = context();
    let (_dir, endpoint) = ipc("live");
    let owner = ctx.pull(&endpoint).unwrap();
    let other_ctx = context();
    let other = other_ctx.pull("").unwrap();
    for _ in 0..3 {
        cannot_bind(&other, &endpoint, &["address already in use"]);
        reachable(&other_ctx, &owner, &endpoint);
    }
    drop(owner);
    other.bind(&endpoint).unwrap();
    reachable(&ctx, &other, &endpoint);
}

#[test]
fn a_live_listener_of_another_process_is_not_displaced() {
    const TEST: &str = "a_live_listener_of_another_process_is_not_displaced";
    if let Some(endpoint) = child_role() {
        let ctx = context();
        let rep = ctx.rep("").unwrap();
        rep.set_backlog(1).unwrap();
        rep.bind(&endpoint).unwrap();
        println!("bound");
        rep.recv_timeout(LONG).unwrap();
        rep.send("alive").unwrap();
        return wait_for_parent();
    }
    let (_dir, endpoint) = ipc("live");
    let mut owner = child(TEST, &endpoint);
    owner.wait_for("bound", LONG);
    let ctx = context();
    let pull = ctx.pull("").unwrap();
    cannot_bind(&pull, &endpoint, &["address already in use"]);

    // Nor when it cannot answer, and its queue of connections is full.
    let owner_id = Pid::from_raw(owner.id() as i32);
    kill(owner_id, Signal::SIGSTOP).unwrap();
    let mut queue = Vec::new();
    while let Ok(stream) = mio::net::UnixStream::connect(path(&endpoint)) {
        queue.push(stream);
        assert!(queue.len() < 1000, "the queue has no end");
    }
    let start = Instant::now();
    cannot_bind(&pull, &endpoint, &["address already in use"]);
    assert!(start.elapsed() < LONG);
    drop(queue);
    kill(owner_id, Signal::SIGCONT).unwrap();

    let req = ctx.req(&endpoint).unwrap();
    req.send_timeout("who is there?", LONG).unwrap();
    assert_eq!(req.recv_str_timeout(LONG).unwrap(), "alive");
    owner.end(LONG);
    assert!(!path(&endpoint).exists());
    pull.bind(&endpoint).unwrap();
}

#[test]
fn the_socket_file_of_a_killed_process_is_taken_over() {
    const TEST: &str = "the_socket_file_of_a_killed_process_is_taken_over";
    if let Some(endpoint) = child_role() {
        let _pull = context().pull(&endpoint).unwrap();
        println!("bound");
        return wait_for_parent();
    }
    let (_dir, endpoint) = ipc("killed");
    let mut owner = child(TEST, &endpoint);
    owner.wait_for("bound", LONG);
    drop(owner);
    assert!(path(&endpoint).exists(), "SIGKILL leaves it");
    let ctx = context();
    let pull = ctx.pull(&endpoint).unwrap();
    reachable(&ctx, &pull, &endpoint);
}

#[test]
fn a_live_socket_of_another_kind_is_not_displaced() {
    let ctx = context();
    let (_dir, endpoint) = ipc("datagrams");
    // As a logger's socket is.
    let logger = UnixDatagram::bind(path(&endpoint)).unwrap();
    cannot_bind(&ctx.pull("").unwrap(), &endpoint, &["in use"]);
    let client = UnixDatagram::unbound().unwrap();
    client.send_to(b"hello", path(&endpoint)).unwrap();
    let mut bytes = [0; 5];
    logger.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(logger.recv(&mut bytes).unwrap(), 5);
}

#[test]
fn an_abstract_name_leaves_files_alone() {
    const TEST: &str = "an_abstract_name_leaves_files_alone";
    if child_role().is_some() {
        let dir = tempdir().unwrap();
        std::env::set_current_dir(dir.path()).unwrap();
        let name = format!("@{}", unique("zkit"));
        fs::write(&name, "precious").unwrap();
        let ctx = context();
        // libzmq deletes whatever has the name that it binds.
        cannot_bind(&ctx.pull("").unwrap(), &format!("ipc://{name}"), &["a file of this name"]);
        assert_eq!(fs::read_to_string(&name).ok().as_deref(), Some("precious"));
        return;
    }
    // In a process of its own, because the current directory belongs to all threads.
    child(TEST, "child").end(LONG);
}

#[test]
fn a_change_of_directory_does_not_keep_the_file() {
    const TEST: &str = "a_change_of_directory_does_not_keep_the_file";
    if child_role().is_some() {
        let dir = tempdir().unwrap();
        std::env::set_current_dir(dir.path()).unwrap();
        let ctx = context();
        let pull = ctx.pull("ipc://relative").unwrap();
        assert!(dir.path().join("relative").exists());
        std::env::set_current_dir("/").unwrap();
        drop(pull);
        assert!(!dir.path().join("relative").exists());
        return;
    }
    child(TEST, "child").end(LONG);
}

/// Lets several threads bind `endpoint` at a time; one is to get it.
fn race(endpoint: &str) {
    let ctx = context();
    let start = Arc::new(Barrier::new(4));
    let racers: Vec<_> = (0..4)
        .map(|_| {
            let (ctx, start, endpoint) = (ctx.clone(), Arc::clone(&start), endpoint.to_owned());
            thread::spawn(move || {
                let pull = ctx.socket(SocketType::Pull).unwrap();
                start.wait();
                pull.bind(&endpoint).map(|_| pull)
            })
        })
        .collect();
    let bound: Vec<_> = racers.into_iter().filter_map(|racer| racer.join().unwrap().ok()).collect();
    assert_eq!(bound.len(), 1, "{endpoint}");
    reachable(&ctx, &bound[0], endpoint);
}

#[test]
fn one_of_many_that_bind_the_same_port_or_name_gets_it() {
    for _ in 0..30 {
        race(&inproc("race"));
        let tcp = context().pull("").unwrap().bind("tcp://127.0.0.1:*").unwrap();
        race(&tcp);
    }
}

#[test]
fn one_of_many_that_bind_the_same_path_gets_it() {
    for _ in 0..30 {
        let (_dir, ipc) = ipc("race");
        race(&ipc);
    }
}
