//! Authentication: who is let in by address, password and key, that everybody else is not, whatever
//! they send and whoever is gone, and that those who are in do not suffer from it.

mod common;

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::alarm;
use zkit::{
    Error, EventKind, SocketType, ZAuth, ZCert, ZCertStore, ZContext, ZFrame, ZMonitor, ZMsg,
    ZProxy, ZSock,
};

use common::{alone, folder, record, records, unique, within};

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(30);
const HALF: Duration = Duration::from_secs(15);

fn bounded(case: impl FnOnce() + Send + 'static) {
    let test = thread::current().name().expect("libtest names its threads").to_owned();
    within(LIMIT, &test, case);
}

/// The same, where the linked libzmq has CURVE.
fn with_curve(case: impl FnOnce() + Send + 'static) {
    if zkit::engine().curve {
        bounded(case);
    } else {
        println!("skipped: {} has no CURVE", zkit::engine());
    }
}

fn context() -> ZContext {
    ZContext::builder().linger(Some(Duration::ZERO)).signals(false).build().unwrap()
}

/// A socket that peers want to get in to, and what its monitor tells.
struct Server {
    socket: ZSock,
    monitor: ZMonitor,
    endpoint: String,
}

fn server_at(ctx: &ZContext, endpoint: &str, secure: impl FnOnce(&ZSock)) -> Server {
    let socket = ctx.socket(SocketType::Pull).unwrap();
    secure(&socket);
    let monitor = ZMonitor::new(&socket).unwrap();
    let endpoint = socket.bind(endpoint).unwrap();
    Server { socket, monitor, endpoint }
}

fn server(ctx: &ZContext, secure: impl FnOnce(&ZSock)) -> Server {
    server_at(ctx, "tcp://127.0.0.1:*", secure)
}

fn null(domain: &'static str) -> impl Fn(&ZSock) {
    move |socket| socket.set_zap_domain(domain).unwrap()
}

fn plain(domain: &'static str) -> impl Fn(&ZSock) {
    move |socket| {
        socket.set_plain_server(true).unwrap();
        if !domain.is_empty() {
            socket.set_zap_domain(domain).unwrap();
        }
    }
}

fn curve<'a>(domain: &'static str, cert: &'a ZCert) -> impl Fn(&ZSock) + 'a {
    move |socket| {
        cert.apply(socket).unwrap();
        socket.set_curve_server(true).unwrap();
        if !domain.is_empty() {
            socket.set_zap_domain(domain).unwrap();
        }
    }
}

impl Server {
    /// A client from `address`, which says Hello as soon as it is let in. It tries once.
    fn client_from(&self, ctx: &ZContext, address: &str, secure: impl FnOnce(&ZSock)) -> ZSock {
        let socket = ctx.socket(SocketType::Push).unwrap();
        socket.set_reconnect_ivl(None).unwrap();
        secure(&socket);
        let endpoint = match self.endpoint.strip_prefix("tcp://") {
            Some(server) if !address.is_empty() => format!("tcp://{address}:0;{server}"),
            _ => self.endpoint.clone(),
        };
        socket.connect(&endpoint).unwrap();
        // Whoever was refused already has nobody left to send to.
        let _ = socket.try_send("Hello");
        socket
    }

    fn client(&self, ctx: &ZContext, secure: impl FnOnce(&ZSock)) -> ZSock {
        self.client_from(ctx, "", secure)
    }

    /// What the handshake of the next client came to.
    #[track_caller]
    fn next_outcome(&self) -> (EventKind, u32) {
        loop {
            let event = self.monitor.recv_timeout(HALF).expect("an event").expect("it is open");
            match event.kind {
                EventKind::HandshakeSucceeded
                | EventKind::HandshakeFailed
                | EventKind::HandshakeFailedAuth
                | EventKind::HandshakeFailedProtocol => return (event.kind, event.value),
                _ => {}
            }
        }
    }

    /// Expects that the client is let in, and returns what it says.
    #[track_caller]
    fn lets_in(&self, _client: ZSock) -> ZFrame {
        assert_eq!(self.next_outcome(), (EventKind::HandshakeSucceeded, 0));
        let hello = self.socket.recv_timeout(HALF).expect("a message").pop_front().unwrap();
        assert_eq!(hello, "Hello");
        hello
    }

    #[track_caller]
    fn lets_in_as(&self, user: &str, client: ZSock) {
        assert_eq!(self.lets_in(client).metadata("User-Id"), Some(user));
    }

    #[track_caller]
    fn refuses_with(&self, status: u32, _client: ZSock) {
        assert_eq!(self.next_outcome(), (EventKind::HandshakeFailedAuth, status));
        assert!(self.socket.try_recv().unwrap_err().is_would_block());
    }

    #[track_caller]
    fn refuses(&self, client: ZSock) {
        self.refuses_with(400, client);
    }
}

fn anybody(_: &ZSock) {}

fn with_password<'a>(name: &'a str, password: &'a str) -> impl Fn(&ZSock) + 'a {
    move |socket| {
        socket.set_plain_username(Some(name)).unwrap();
        socket.set_plain_password(Some(password)).unwrap();
    }
}

fn with_key<'a>(cert: &'a ZCert, server: &'a ZCert) -> impl Fn(&ZSock) + 'a {
    move |socket| {
        cert.apply(socket).unwrap();
        socket.set_curve_serverkey(server.public_key()).unwrap();
    }
}

/// A store of the certificates' public halves.
fn store(certs: &[&ZCert]) -> ZCertStore {
    let mut store = ZCertStore::memory();
    for cert in certs {
        store.insert((*cert).clone());
    }
    store
}

// What CZMQ's zauth does.

#[test]
fn a_socket_without_security_and_domain_is_not_asked_about() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.deny(["127.0.0.0/8"]).unwrap();
        let server = server(&ctx, anybody);
        let hello = server.lets_in(server.client(&ctx, anybody));
        assert_eq!(hello.metadata("User-Id"), None);
    });
}

#[test]
fn with_a_domain_and_no_rules_everybody_is_let_in_who_has_nothing_to_show() {
    bounded(|| {
        let ctx = context();
        let _auth = ZAuth::new(&ctx).unwrap();
        let server = server(&ctx, null("global"));
        server.lets_in_as("", server.client(&ctx, anybody));
    });
}

#[test]
fn a_denied_address_is_refused_by_every_mechanism() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.plain("*", [("admin", "Password")]).unwrap();
        auth.deny(["127.0.0.2", "127.1.0.0/16"]).unwrap();
        let (null, plain) = (server(&ctx, null("global")), server(&ctx, plain("global")));
        let admin = with_password("admin", "Password");
        for address in ["127.0.0.2", "127.1.0.0", "127.1.255.1"] {
            null.refuses(null.client_from(&ctx, address, anybody));
            plain.refuses(plain.client_from(&ctx, address, &admin));
        }
        for address in ["127.0.0.1", "127.0.0.3", "127.2.0.0"] {
            null.lets_in(null.client_from(&ctx, address, anybody));
            plain.lets_in(plain.client_from(&ctx, address, &admin));
        }
    });
}

#[test]
fn allowed_addresses_shut_out_all_others_and_what_is_denied_stays_denied() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        let server = server(&ctx, null("global"));
        let from = |address| server.client_from(&ctx, address, anybody);
        auth.deny(["127.0.0.3"]).unwrap();
        server.refuses(from("127.0.0.3"));
        auth.allow(["127.0.0.2/31"]).unwrap();
        server.lets_in(from("127.0.0.2"));
        server.refuses(from("127.0.0.3"));
        server.refuses(from("127.0.0.1"));
        auth.allow(["127.0.0.1"]).unwrap();
        server.lets_in(from("127.0.0.1"));
        server.lets_in(from("127.0.0.2"));
        server.refuses(from("127.0.0.3"));
    });
}

#[test]
fn an_allowed_address_is_not_enough_for_a_password_or_a_key() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.allow(["127.0.0.1"]).unwrap();
        let server = server(&ctx, plain("global"));
        server.refuses(server.client(&ctx, with_password("admin", "Password")));
    });
}

#[test]
fn a_password_file_lets_in_who_is_in_it_and_is_read_again_when_it_changes() {
    bounded(|| {
        let folder = folder();
        let path = folder.path().join("passwords");
        let line =
            |name: &str, password| format!("{name}:{}\n", ZAuth::hash_password(password).unwrap());
        let (admin, other) = (line("admin", "Password"), line("admin", "Changed!"));
        assert_eq!(admin.len(), other.len());
        fs::write(&path, &admin).unwrap();

        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.plain_file("*", &path).unwrap();
        let server = server(&ctx, plain("global"));
        let client = |name, password| server.client(&ctx, with_password(name, password));
        server.lets_in_as("admin", client("admin", "Password"));
        server.refuses(client("admin", "Bogus"));
        server.refuses(client("Bogus", "Password"));

        // As long as before, and within the same second.
        fs::write(&path, &other).unwrap();
        server.refuses(client("admin", "Password"));
        server.lets_in_as("admin", client("admin", "Changed!"));

        for broken in ["admin:Changed!\n", "\u{0}", "nothing of a file"] {
            fs::write(&path, broken).unwrap();
            server.refuses_with(300, client("admin", "Changed!"));
        }
        fs::remove_file(&path).unwrap();
        server.refuses_with(300, client("admin", "Changed!"));
        fs::create_dir(&path).unwrap();
        server.refuses_with(300, client("admin", "Changed!"));
        fs::remove_dir(&path).unwrap();
        fs::write(&path, admin).unwrap();
        server.lets_in_as("admin", client("admin", "Password"));
    });
}

#[test]
fn a_password_file_that_cannot_be_used_is_refused_with_the_reason() {
    bounded(|| {
        let folder = folder();
        let path = folder.path().join("passwords");
        let auth = ZAuth::new(&context()).unwrap();
        let refusal = || {
            let error = auth.plain_file("*", &path).unwrap_err();
            assert!(matches!(error, Error::Auth { .. }));
            error.to_string()
        };
        assert!(refusal().contains("no such file") || refusal().contains("No such file"));
        fs::write(&path, "# our users\nalice:hunter2\n").unwrap();
        let text = refusal();
        assert!(text.contains("line 2") && text.contains("ZAuth::hash_password"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(refusal().contains("no file"));
    });
}

#[test]
fn a_key_is_let_in_by_the_store_only_with_its_certificate() {
    with_curve(|| {
        let folder = folder();
        let (server_cert, ann, bob) = certs();
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        let server = server(&ctx, curve("global", &server_cert));
        let client = |cert| server.client(&ctx, with_key(cert, &server_cert));
        server.refuses(client(&ann));

        auth.curve_any("*").unwrap();
        server.lets_in_as(&ann.public_text(), client(&ann));

        auth.curve("*", ZCertStore::directory(folder.path()).unwrap()).unwrap();
        server.refuses(client(&ann));
        let mut known = ann.clone();
        known.set_meta("name", "Ann").unwrap();
        known.set_meta("email", "ann@example.com").unwrap();
        let path = folder.path().join("ann.cert");
        known.save_public(&path).unwrap();
        let hello = server.lets_in(client(&ann));
        assert_eq!(hello.metadata("User-Id"), Some(&*ann.public_text()));
        assert_eq!(hello.metadata("name"), Some("Ann"));
        assert_eq!(hello.metadata("email"), Some("ann@example.com"));
        assert_eq!(hello.metadata("Peer-Address"), Some("127.0.0.1"));
        server.refuses(client(&bob));

        // Who is taken out does not get in again.
        fs::remove_file(&path).unwrap();
        server.refuses(client(&ann));
    });
}

fn certs() -> (ZCert, ZCert, ZCert) {
    (ZCert::new().unwrap(), ZCert::new().unwrap(), ZCert::new().unwrap())
}

#[test]
fn a_denied_address_is_refused_whatever_its_key() {
    with_curve(|| {
        let (server_cert, ann, _) = certs();
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.curve_any("*").unwrap();
        auth.deny(["127.0.0.2"]).unwrap();
        let server = server(&ctx, curve("", &server_cert));
        let ann = with_key(&ann, &server_cert);
        server.refuses(server.client_from(&ctx, "127.0.0.2", &ann));
        server.lets_in(server.client_from(&ctx, "127.0.0.3", &ann));
    });
}

#[test]
fn a_certificate_with_names_that_are_libzmqs_does_no_harm() {
    with_curve(|| {
        let (server_cert, mut ann, _) = certs();
        for name in ["Identity", "Socket-Type", "User-Id", "Resource"] {
            ann.set_meta(name, "root").unwrap();
        }
        let long = "x".repeat(900);
        ann.set_meta("long", &long).unwrap();
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.curve("*", store(&[&ann])).unwrap();
        let server = server(&ctx, curve("global", &server_cert));
        let hello = server.lets_in(server.client(&ctx, with_key(&ann, &server_cert)));
        assert_eq!(hello.metadata("User-Id"), Some(&*ann.public_text()));
        assert_eq!(hello.metadata("Socket-Type"), Some("PUSH"));
        assert_eq!(hello.metadata("long"), Some(&*long));
    });
}

#[test]
fn who_has_the_wrong_key_of_the_server_or_another_mechanism_does_not_get_in() {
    with_curve(|| {
        let (server_cert, ann, other) = certs();
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.curve_any("*").unwrap();
        auth.plain("*", [("alice", "secret")]).unwrap();
        let server = server(&ctx, curve("global", &server_cert));
        for client in [
            server.client(&ctx, with_key(&ann, &other)),
            server.client(&ctx, anybody),
            server.client(&ctx, with_password("alice", "secret")),
        ] {
            assert_eq!(server.next_outcome().0, EventKind::HandshakeFailedProtocol);
            drop(client);
        }
        assert!(server.socket.try_recv().is_err());
        server.lets_in(server.client(&ctx, with_key(&ann, &server_cert)));
    });
}

#[test]
fn a_password_is_wanted_from_who_comes_without_one() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.plain("*", [("alice", "secret")]).unwrap();
        let server = server(&ctx, plain("global"));
        let _client = server.client(&ctx, anybody);
        assert_eq!(server.next_outcome().0, EventKind::HandshakeFailedProtocol);
        server.lets_in(server.client(&ctx, with_password("alice", "secret")));
    });
}

// Domains and mechanisms.

#[test]
fn each_domain_has_its_own_rule_by_each_mechanism_or_that_for_all() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        let users = [("*", "general"), ("red", "of red"), ("blue", "of blue")];
        for (domain, password) in users {
            auth.plain(domain, [("alice", password)]).unwrap();
        }
        auth.plain("closed", [] as [(&str, &str); 0]).unwrap();
        for (domain, right) in [
            ("", "general"),
            ("red", "of red"),
            ("blue", "of blue"),
            ("green", "general"),
            ("closed", ""),
        ] {
            let server = server(&ctx, plain(domain));
            for password in ["general", "of red", "of blue"] {
                let client = server.client(&ctx, with_password("alice", password));
                if password == right {
                    server.lets_in_as("alice", client);
                } else {
                    server.refuses(client);
                }
            }
        }
    });
}

#[test]
fn each_domain_has_its_own_keys() {
    with_curve(|| {
        let (server_cert, ann, bob) = certs();
        let carl = ZCert::new().unwrap();
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.curve("red", store(&[&ann])).unwrap();
        auth.curve("*", store(&[&bob])).unwrap();
        let is_carl = *carl.public_key();
        auth.curve_with("blue", move |_, key| *key == is_carl).unwrap();
        for (domain, welcome) in [("", &bob), ("red", &ann), ("blue", &carl), ("green", &bob)] {
            let server = server(&ctx, curve(domain, &server_cert));
            for cert in [&ann, &bob, &carl] {
                let client = server.client(&ctx, with_key(cert, &server_cert));
                if cert == welcome {
                    server.lets_in_as(&cert.public_text(), client);
                } else {
                    server.refuses(client);
                }
            }
        }
    });
}

#[test]
fn a_mechanism_without_a_rule_is_refused_whatever_rules_the_others_have() {
    with_curve(|| {
        let (server_cert, ann, _) = certs();
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        let (plain, curve) = (server(&ctx, plain("")), server(&ctx, curve("", &server_cert)));
        let (alice, ann) = (with_password("alice", "secret"), with_key(&ann, &server_cert));
        plain.refuses(plain.client(&ctx, &alice));
        curve.refuses(curve.client(&ctx, &ann));
        auth.plain("*", [("alice", "secret")]).unwrap();
        plain.lets_in(plain.client(&ctx, &alice));
        curve.refuses(curve.client(&ctx, &ann));
        auth.plain("*", [] as [(&str, &str); 0]).unwrap();
        auth.curve_any("*").unwrap();
        plain.refuses(plain.client(&ctx, &alice));
        curve.lets_in(curve.client(&ctx, &ann));
    });
}

#[test]
fn over_ipc_there_is_no_address_to_allow() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.deny(["127.0.0.0/8"]).unwrap();
        let server = server_at(&ctx, "ipc://*", null("global"));
        server.lets_in(server.client(&ctx, anybody));
        auth.allow(["0.0.0.0/0", "::/0"]).unwrap();
        server.refuses(server.client(&ctx, anybody));
    });
}

#[test]
fn an_address_is_denied_over_ipv6_as_well() {
    if let Err(error) = TcpListener::bind("[::1]:0") {
        println!("skipped: no IPv6 here: {error}");
        return;
    }
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.deny(["127.0.0.1", "::1"]).unwrap();
        let secure = |socket: &ZSock| {
            socket.set_ipv6(true).unwrap();
            null("global")(socket);
        };
        let socket = ctx.socket(SocketType::Pull).unwrap();
        secure(&socket);
        let monitor = ZMonitor::new(&socket).unwrap();
        let endpoint = socket.bind("tcp://*:*").unwrap();
        let port = endpoint.rsplit_once(':').unwrap().1;
        for host in ["127.0.0.1", "[::1]"] {
            let endpoint = format!("tcp://{host}:{port}");
            let (socket, monitor) = (&socket, &monitor);
            let client = ctx.push("").unwrap();
            client.set_ipv6(true).unwrap();
            client.set_reconnect_ivl(None).unwrap();
            client.connect(&endpoint).unwrap();
            loop {
                let event = monitor.recv_timeout(HALF).unwrap().unwrap();
                assert_ne!(event.kind, EventKind::HandshakeSucceeded, "{endpoint}");
                if event.kind == EventKind::HandshakeFailedAuth {
                    break;
                }
            }
            assert!(socket.try_recv().is_err());
        }
    });
}

#[test]
fn each_side_of_a_proxy_has_its_own_security() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.plain("clients", [("alice", "secret")]).unwrap();
        auth.plain("workers", [("bob", "hidden")]).unwrap();
        let side = |kind, domain| {
            let socket = ctx.socket(kind).unwrap();
            plain(domain)(&socket);
            let monitor = ZMonitor::new(&socket).unwrap();
            let endpoint = socket.bind("tcp://127.0.0.1:*").unwrap();
            (socket, monitor, endpoint)
        };
        let (frontend, at_front, front) = side(SocketType::Pull, "clients");
        let (backend, at_back, back) = side(SocketType::Push, "workers");
        let peer = |kind, name, password, endpoint: &str| {
            let socket = ctx.socket(kind).unwrap();
            with_password(name, password)(&socket);
            socket.connect(endpoint).unwrap();
            socket
        };
        let refused = |monitor: &ZMonitor| {
            while monitor.recv_timeout(HALF).unwrap().unwrap().kind
                != EventKind::HandshakeFailedAuth
            {}
        };
        let proxy = ZProxy::spawn(&ctx, frontend, backend).unwrap();
        let _mallory = peer(SocketType::Push, "bob", "hidden", &front);
        let mallory = peer(SocketType::Pull, "alice", "secret", &back);
        refused(&at_front);
        refused(&at_back);
        let worker = peer(SocketType::Pull, "bob", "hidden", &back);
        let client = peer(SocketType::Push, "alice", "secret", &front);
        client.send("work").unwrap();
        let work = worker.recv_frame_timeout(HALF).unwrap();
        // The metadata says who is at the other end of the connection, not who sent it first.
        assert_eq!((&*work, work.metadata("User-Id")), (&b"work"[..], None));
        assert!(mallory.try_recv().unwrap_err().is_would_block());
        assert_eq!(proxy.stop().unwrap().forward.messages, 1);
    });
}

// Callbacks.

#[test]
fn a_callback_decides_by_peer_name_and_password() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        let (sender, asked) = mpsc::channel();
        auth.plain_with("*", move |peer, name, password| {
            let peer = (peer.domain.to_owned(), peer.address.to_owned(), peer.identity.to_vec());
            sender.send((peer, name.to_owned(), password.to_vec())).unwrap();
            name == "alice" && password == b"secret"
        })
        .unwrap();
        let server = server(&ctx, |socket| {
            plain("a domain")(socket);
            socket.set_identity("the server").unwrap();
        });
        server.lets_in_as("alice", server.client(&ctx, with_password("alice", "secret")));
        let peer = ("a domain".to_owned(), "127.0.0.1".to_owned(), b"the server".to_vec());
        assert_eq!(asked.recv().unwrap(), (peer, "alice".to_owned(), b"secret".to_vec()));
        server.refuses(server.client(&ctx, with_password("alice", "other")));
    });
}

#[test]
fn a_callback_that_panics_refuses_the_peer_and_nobody_else() {
    alone(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.plain_with("*", |_, name, _| match name {
            "alice" => true,
            _ => panic!("who is that?"),
        })
        .unwrap();
        let server = server(&ctx, plain("global"));
        for _ in 0..3 {
            server.refuses_with(500, server.client(&ctx, with_password("mallory", "x")));
            server.lets_in_as("alice", server.client(&ctx, with_password("alice", "x")));
        }
        assert!(auth.is_running());
        auth.stop().unwrap();
    });
}

#[test]
fn a_callback_that_panics_when_it_is_dropped_does_not_end_the_authenticator() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        let bomb = Bomb;
        auth.plain_with("*", move |_, _, _| {
            let _bomb = &bomb;
            true
        })
        .unwrap();
        auth.plain("*", [("alice", "secret")]).unwrap();
        let server = server(&ctx, plain("global"));
        server.lets_in(server.client(&ctx, with_password("alice", "secret")));
        server.refuses(server.client(&ctx, with_password("alice", "other")));
    });
}

// What is not a rule.

#[test]
fn what_is_no_address_or_no_user_is_refused_and_changes_nothing() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        for bad in ["localhost", "127.0.0.1/33", "", "tcp://127.0.0.1"] {
            let error = auth.allow(["10.0.0.1", bad]).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "cannot allow {bad:?}: it is neither an IP address nor a network such as \
                     192.168.0.0/16"
                )
            );
            assert!(auth.deny(["127.0.0.1", bad]).is_err());
        }
        let long = "x".repeat(256);
        assert!(auth.plain("*", [(&*long, "")]).is_err());
        let error = auth.plain("*", [("alice", &*long)]).unwrap_err().to_string();
        assert_eq!(error, "cannot let \"alice\" in: its password is longer than 255 bytes");
        assert!(ZAuth::hash_password(&long).is_err());
        let server = server(&ctx, null("global"));
        server.lets_in(server.client(&ctx, anybody));
    });
}

// One of them, and none.

#[test]
fn a_context_has_one_authenticator_at_a_time() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        let error = ZAuth::new(&ctx).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot bind \"inproc://zeromq.zap.01\": the context has a ZAuth or another ZAP \
             handler, and can have one"
        );
        assert!(ctx.rep("@inproc://zeromq.zap.01").is_err());
        let _of_another_context = ZAuth::new(&context()).unwrap();
        auth.deny(["127.0.0.1"]).unwrap();
        drop(auth);
        for _ in 0..20 {
            drop(ZAuth::new(&ctx).unwrap());
        }

        let ctx = context();
        let handler = ctx.rep("@inproc://zeromq.zap.01").unwrap();
        assert!(matches!(ZAuth::new(&ctx), Err(Error::Bind { .. })));
        drop(handler);
        ZAuth::new(&ctx).unwrap();
    });
}

#[test]
fn only_a_rep_or_a_router_is_bound_where_libzmq_asks() {
    let ctx = context();
    for kind in [SocketType::Pull, SocketType::Pair, SocketType::Dealer, SocketType::XPub] {
        let error = ctx.socket(kind).unwrap().bind("inproc://zeromq.zap.01").unwrap_err();
        assert!(error.to_string().contains("only a REP or a ROUTER"), "{error}");
    }
    ctx.socket(SocketType::Router).unwrap().bind("inproc://zeromq.zap.01").unwrap();
}

/// How long a handshake may go unanswered.
const SHORT: Duration = Duration::from_millis(100);

fn impatient(secure: impl Fn(&ZSock)) -> impl Fn(&ZSock) {
    move |socket| {
        socket.set_handshake_ivl(Some(SHORT)).unwrap();
        secure(socket);
    }
}

/// A client that tries until it is let in.
fn stubborn(server: &Server, ctx: &ZContext, secure: impl Fn(&ZSock)) -> ZSock {
    server.client(ctx, |socket| {
        socket.set_reconnect_ivl(Some(Duration::from_millis(5))).unwrap();
        secure(socket);
    })
}

#[test]
fn with_a_domain_or_passwords_nobody_is_let_in_before_there_is_an_authenticator() {
    bounded(|| {
        let ctx = context();
        for server in [
            server(&ctx, impatient(null("global"))),
            server(&ctx, impatient(plain("global"))),
            server(&ctx, impatient(plain(""))),
        ] {
            let client = if server.socket.plain_server().unwrap() {
                stubborn(&server, &ctx, with_password("alice", "secret"))
            } else {
                stubborn(&server, &ctx, anybody)
            };
            let mut gone = 0;
            while gone < 3 {
                match server.monitor.recv_timeout(HALF).unwrap().unwrap().kind {
                    EventKind::Disconnected => gone += 1,
                    kind => assert_ne!(kind, EventKind::HandshakeSucceeded),
                }
            }
            assert!(server.socket.try_recv().is_err());
            drop(client);
        }
    });
}

#[test]
fn with_a_domain_no_key_is_let_in_before_there_is_an_authenticator() {
    with_curve(|| {
        let (server_cert, ann, _) = certs();
        let ctx = context();
        let with_domain = server(&ctx, impatient(curve("global", &server_cert)));
        let _client = with_domain.client(&ctx, with_key(&ann, &server_cert));
        assert_eq!(with_domain.next_outcome().0, EventKind::HandshakeFailed);
        // The Stonehouse: encryption without authentication.
        let without = server(&ctx, curve("", &server_cert));
        without.lets_in(without.client(&ctx, with_key(&ann, &server_cert)));
    });
}

#[test]
fn when_the_authenticator_is_gone_nobody_new_is_let_in_until_there_is_another() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.plain("*", [("alice", "secret")]).unwrap();
        let alice = with_password("alice", "secret");
        let plain = server(&ctx, impatient(plain("")));
        let null = server(&ctx, impatient(null("global")));
        let inside = plain.client(&ctx, &alice);
        assert_eq!(plain.next_outcome().0, EventKind::HandshakeSucceeded);
        assert_eq!(plain.socket.recv_str_timeout(HALF).unwrap(), "Hello");

        auth.stop().unwrap();
        plain.refuses_with(300, plain.client(&ctx, &alice));
        null.refuses_with(300, null.client(&ctx, anybody));
        // Those who are in stay.
        inside.send("still here").unwrap();
        assert_eq!(plain.socket.recv_str_timeout(HALF).unwrap(), "still here");

        // A restart is over before a peer gives up.
        let mut waiting = stubborn(&plain, &ctx, &alice);
        assert_eq!(plain.next_outcome(), (EventKind::HandshakeFailedAuth, 300));
        let auth = ZAuth::new(&ctx).unwrap();
        auth.plain("*", [("alice", "secret")]).unwrap();
        loop {
            match plain.next_outcome() {
                (EventKind::HandshakeSucceeded, _) => break,
                // It came between the authenticator and the rule, and does not try again.
                (_, 400) => waiting = stubborn(&plain, &ctx, &alice),
                (_, status) => assert_eq!(status, 300),
            }
        }
        assert_eq!(plain.socket.recv_str_timeout(HALF).unwrap(), "Hello");
        drop(waiting);
    });
}

#[test]
fn when_the_authenticator_is_gone_no_key_is_let_in() {
    with_curve(|| {
        let (server_cert, ann, _) = certs();
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.curve_any("*").unwrap();
        let server = server(&ctx, curve("", &server_cert));
        server.lets_in(server.client(&ctx, with_key(&ann, &server_cert)));
        drop(auth);
        server.refuses_with(300, server.client(&ctx, with_key(&ann, &server_cert)));
        let auth = ZAuth::new(&ctx).unwrap();
        server.refuses(server.client(&ctx, with_key(&ann, &server_cert)));
        auth.curve_any("*").unwrap();
        server.lets_in(server.client(&ctx, with_key(&ann, &server_cert)));
    });
}

#[test]
fn contexts_end_promptly_with_an_authenticator_and_after_one() {
    bounded(|| {
        let start = Instant::now();
        for _ in 0..10 {
            let ctx = context();
            let auth = ZAuth::new(&ctx).unwrap();
            drop(ctx);
            auth.deny(["127.0.0.1"]).unwrap();
            drop(auth);

            let ctx = context();
            drop(ZAuth::new(&ctx).unwrap());
            drop(ctx);

            let ctx = context();
            let auth = ZAuth::new(&ctx).unwrap();
            ctx.shutdown().unwrap();
            assert!(auth.deny(["127.0.0.1"]).is_err());
            assert!(ZAuth::new(&ctx).unwrap_err().is_terminated());
        }
        assert!(start.elapsed() < HALF);
    });
}

// What comes over the wire, and from within the process.

/// An asker that is not libzmq.
fn asker(ctx: &ZContext) -> ZSock {
    ctx.dealer(">inproc://zeromq.zap.01").unwrap()
}

#[test]
fn requests_that_are_cut_short_or_garbled_are_refused_and_no_more() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.plain("*", [("alice", "secret")]).unwrap();
        let asker = asker(&ctx);
        let ask = |request: &ZMsg| {
            let mut msg = request.clone();
            msg.push_front("");
            asker.send(msg).unwrap();
            let mut reply = asker.recv_timeout(HALF).expect("an answer");
            assert_eq!(reply.len(), 7, "{reply:?}");
            assert_eq!(reply.pop_str().unwrap(), "");
            assert_eq!(reply.pop_str().unwrap(), "1.0");
            (reply.pop_front().unwrap(), reply.pop_str().unwrap())
        };
        let whole: ZMsg =
            ["1.0", "a number", "d", "127.0.0.1", "", "PLAIN", "alice", "secret"].into();
        assert_eq!(ask(&whole), ("a number".into(), "200".into()));
        for frames in 0..whole.len() {
            let (id, status) = ask(&whole.iter().take(frames).collect());
            assert_eq!((id == "a number", &*status), (frames > 1, "400"), "{frames}");
        }
        for (index, content) in [
            (0, ZFrame::from("2.0")),
            (1, vec![7; 300].into()),
            (2, vec![0xFF; 3].into()),
            (3, vec![b'1'; 1 << 20].into()),
            (5, "GSSAPI".into()),
            (5, "CURVE".into()),
            (5, "NULL".into()),
            (5, "OTHER".into()),
            (6, "alice\0".into()),
            (7, vec![b's'; 256].into()),
        ] {
            let mut garbled = whole.clone();
            garbled.iter_mut().nth(index).unwrap().reset(content);
            assert_eq!(ask(&garbled).1, "400", "{garbled:?}");
        }
        assert_eq!(ask(&(0..10_000_u32).collect()).1, "400");
        // Without a delimiter or anything at all behind it.
        for request in [ZMsg::from(""), ("no", "delimiter").into(), "1.0".into()] {
            asker.send(request).unwrap();
            assert_eq!(*asker.recv_timeout(HALF).unwrap().get(3).unwrap(), "400");
        }
        assert_eq!(ask(&whole), ("a number".into(), "200".into()));
        drop(auth);
        assert_eq!(ask(&whole), ("a number".into(), "300".into()));
        assert_eq!(ask(&ZMsg::new()).1, "300");
    });
}

/// A ZMTP 3.0 client written by hand.
struct Raw(TcpStream);

impl Raw {
    fn connect(endpoint: &str, mechanism: &str) -> Raw {
        let address = endpoint.strip_prefix("tcp://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(HALF)).unwrap();
        let mut greeting = [0; 64];
        (greeting[0], greeting[9], greeting[10]) = (0xFF, 0x7F, 3);
        greeting[12..][..mechanism.len()].copy_from_slice(mechanism.as_bytes());
        stream.write_all(&greeting).unwrap();
        Raw(stream)
    }

    fn command(&mut self, name: &str, content: &[u8]) {
        let body = [&[name.len() as u8], name.as_bytes(), content].concat();
        // In the long form, whatever its length.
        let len = (body.len() as u64).to_be_bytes();
        self.0.write_all(&[&[6], &len[..], &body].concat()).unwrap();
    }

    fn hello(&mut self, name: &[u8], password: &[u8]) {
        let texts = [&[name.len() as u8], name, &[password.len() as u8], password];
        self.command("HELLO", &texts.concat());
    }

    fn message(&mut self, content: &str) {
        self.0.write_all(&[&[0, content.len() as u8], content.as_bytes()].concat()).unwrap();
    }

    /// Waits until the server has said this last.
    fn hears(&mut self, last: &[u8]) {
        let mut received = Vec::new();
        let mut buffer = [0; 256];
        while !received.ends_with(last) {
            let size = self.0.read(&mut buffer).expect("the server's answer");
            assert!(size > 0, "it has hung up after {received:?}");
            received.extend_from_slice(&buffer[..size]);
        }
    }

    /// Waits for the server's refusal. It leaves it to the peer to hang up. (libzmq's command by PLAIN is
    /// not quite ERROR.)
    fn hears_no(mut self) {
        self.hears(b"RROR\x03400");
    }
}

fn properties(properties: &[(&str, &str)]) -> Vec<u8> {
    let encode = |(name, value): &(&str, &str)| {
        let value_len = (value.len() as u32).to_be_bytes();
        [&[name.len() as u8], name.as_bytes(), &value_len, value.as_bytes()].concat()
    };
    properties.iter().flat_map(encode).collect()
}

#[test]
fn a_peer_cannot_say_who_it_is_in_place_of_the_authenticator() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.plain("*", [("alice", "secret")]).unwrap();
        let claims =
            properties(&[("Socket-Type", "PUSH"), ("User-Id", "root"), ("email", "root@")]);

        let with_password = server(&ctx, plain("global"));
        let mut peer = Raw::connect(&with_password.endpoint, "PLAIN");
        peer.hello(b"alice", b"secret");
        peer.hears(b"\x07WELCOME");
        peer.command("INITIATE", &claims);
        peer.message("Hello");
        let hello = with_password.socket.recv_frame_timeout(HALF).unwrap();
        assert_eq!(hello.metadata("User-Id"), Some("alice"));

        let without = server(&ctx, null("global"));
        let mut peer = Raw::connect(&without.endpoint, "NULL");
        peer.command("READY", &claims);
        peer.hears(b"PULL");
        peer.message("Hello");
        let hello = without.socket.recv_frame_timeout(HALF).unwrap();
        assert_eq!(hello.metadata("User-Id"), Some(""));

        // What ZAuth's documentation warns of: a socket that does not ask.
        let open = server(&ctx, anybody);
        let mut peer = Raw::connect(&open.endpoint, "NULL");
        peer.command("READY", &claims);
        peer.hears(b"PULL");
        peer.message("Hello");
        let hello = open.socket.recv_frame_timeout(HALF).unwrap();
        assert_eq!(hello.metadata("User-Id"), Some("root"));
    });
}

#[test]
fn names_and_passwords_of_any_bytes_are_refused_over_the_wire() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.plain("*", [("alice", "secret")]).unwrap();
        let server = server(&ctx, plain("global"));
        for (name, password) in [
            (&b"alice\0"[..], &b"secret"[..]),
            (b"alice", b"secret\0"),
            (b"\xFF\xFE", b"secret"),
            (b"alice", &[0xFF; 255]),
            (&[b'a'; 255], b""),
        ] {
            let mut peer = Raw::connect(&server.endpoint, "PLAIN");
            peer.hello(name, password);
            assert_eq!(server.next_outcome(), (EventKind::HandshakeFailedAuth, 400));
            peer.hears_no();
        }
        server.lets_in(server.client(&ctx, with_password("alice", "secret")));
    });
}

/// How many of this process's descriptors are open.
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// How much of its memory is in use, in KiB.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// `ZKIT_BAD_HANDSHAKES` sets how many.
#[test]
fn thousands_of_bad_handshakes_are_refused_counted_and_leave_nothing_behind() {
    alone(|| {
        // Seconds, or much more on a busy machine.
        alarm::set(120);
        let many = env::var("ZKIT_BAD_HANDSHAKES");
        let many: usize = many.map_or(2_000, |many| many.parse().expect("a number"));
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.plain("*", [("alice", "secret")]).unwrap();
        let server = server(&ctx, plain("global"));
        let alice = server.client(&ctx, with_password("alice", "secret"));
        assert_eq!(server.next_outcome().0, EventKind::HandshakeSucceeded);

        let storm = |count: usize| {
            thread::scope(|scope| {
                // So that the monitor, whose events nobody waits for, misses none.
                let (at_the_door, seen) = mpsc::sync_channel(100);
                for half in 0..2 {
                    let (server, at_the_door) = (&server.endpoint, at_the_door.clone());
                    scope.spawn(move || {
                        for number in (half..count).step_by(2) {
                            let mut peer = Raw::connect(server, "PLAIN");
                            match number % 4 {
                                0 | 1 => peer.hello(b"alice", b"wrong"),
                                _ => peer.hello(b"mallory", b"secret"),
                            }
                            peer.hears_no();
                            at_the_door.send(()).unwrap();
                        }
                    });
                }
                for number in 0..count {
                    assert_eq!(server.next_outcome(), (EventKind::HandshakeFailedAuth, 400));
                    seen.recv().unwrap();
                    if number % 100 == 0 {
                        alice.send("still here").unwrap();
                    }
                }
            });
            while server.monitor.peers() > 1 {
                server.monitor.recv_timeout(HALF).unwrap();
            }
            // Good peers are served meanwhile, and new ones let in.
            assert_eq!(server.socket.recv_str_timeout(HALF).unwrap(), "Hello");
            for _ in (0..count).step_by(100) {
                assert_eq!(server.socket.recv_str_timeout(HALF).unwrap(), "still here");
            }
            alice.send("Hello").unwrap();
            let welcome = server.client(&ctx, with_password("alice", "secret"));
            assert_eq!(server.next_outcome().0, EventKind::HandshakeSucceeded);
            assert_eq!(server.socket.recv_str_timeout(HALF).unwrap(), "Hello");
            assert_eq!(server.socket.recv_str_timeout(HALF).unwrap(), "Hello");
            alice.send("Hello").unwrap();
            drop(welcome);
        };
        storm(500);
        let (descriptors_before, resident_before) = (descriptors(), resident());
        storm(many);
        let give_up = Instant::now() + HALF;
        while descriptors() > descriptors_before {
            assert!(Instant::now() < give_up, "{descriptors_before} then {}", descriptors());
            thread::sleep(Duration::from_millis(5));
        }
        let grown = resident().saturating_sub(resident_before);
        assert!(grown < 8 << 10, "{grown} KiB more than before");
        assert!(auth.is_running());
    });
}

// What is said about it.

#[test]
fn the_log_tells_who_was_let_in_or_refused_and_why_and_no_secret() {
    alone(|| {
        record();
        log::set_max_level(log::LevelFilter::Trace);
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        auth.plain("*", [("alice", "hunter2"), ("bob", "opensesame")]).unwrap();
        let server = server(&ctx, plain("global"));
        server.lets_in(server.client(&ctx, with_password("alice", "hunter2")));
        server.refuses(server.client(&ctx, with_password("bob", "hunter3")));
        auth.deny(["127.0.0.1"]).unwrap();
        server.refuses(server.client(&ctx, with_password("bob", "opensesame")));
        let records = records();
        let texts: Vec<&str> = records.iter().map(|(_, text)| &**text).collect();
        for expected in [
            "let in PLAIN peer at \"127.0.0.1\" as \"alice\" for domain \"global\"",
            "refused PLAIN peer at \"127.0.0.1\" as \"bob\" for domain \"global\": its name or its \
             password is wrong",
            "refused PLAIN peer at \"127.0.0.1\" as \"bob\" for domain \"global\": its address is denied",
        ] {
            assert!(texts.contains(&expected), "{texts:#?}");
        }
        for secret in ["hunter", "opensesame"] {
            assert!(!texts.iter().any(|text| text.contains(secret)), "{texts:#?}");
        }
        assert!(!format!("{auth:?}").contains("hunter"));
    });
}

#[test]
fn an_authenticator_may_move_to_another_thread() {
    bounded(|| {
        let ctx = context();
        let auth = ZAuth::new(&ctx).unwrap();
        let endpoint = format!("inproc://{}", unique("not-asked"));
        let moved = thread::spawn(move || {
            auth.deny(["127.0.0.1"]).unwrap();
            auth
        });
        let _auth = moved.join().unwrap();
        let server = ctx.pull(&format!("@{endpoint}")).unwrap();
        server.set_zap_domain("global").unwrap();
        ctx.push(&endpoint).unwrap().send("inproc is not asked about").unwrap();
        assert_eq!(server.recv_str_timeout(HALF).unwrap(), "inproc is not asked about");
    });
}
