//! Clients and back ends that mean harm, or have gone mad: whatever they do, the others are served as
//! ever, and the gateway is afterwards what it was before.

use std::env;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fastrand::Rng;
use zkit::{SocketType, ZContext, ZMsg};

use crate::common::{DEADLINE, more_descriptors, within};
use crate::gateway::{Client, Gateway, header, message};
use crate::staff::Worker;

/// What a test makes up is the same for the same seed: ZKIT_TEST_SEED, or any.
fn seed() -> u64 {
    let seed = env::var("ZKIT_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("ZKIT_TEST_SEED={seed}");
    seed
}

/// A client and a back end of the group "scene" that go about their business: each message of the
/// one is answered by the other, as are those of all other clients.
struct Steady {
    over: Arc<AtomicBool>,
    exchanged: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Steady {
    #[track_caller]
    fn start(gateway: &Gateway) -> Steady {
        let (mut client, back_end) = (gateway.client(), gateway.back_end("scene", 2));
        let (over, exchanged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_over, count) = (Arc::clone(&over), Arc::clone(&exchanged));
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let number = count.load(Ordering::Relaxed);
                let body = format!("{number}{}", "-".repeat(number as usize % 200));
                client.send(2, &body);
                loop {
                    let asked = back_end.recv();
                    let ours = asked.body == body.as_bytes();
                    back_end.reply(asked.id, asked.body);
                    if ours {
                        break;
                    }
                }
                client.expect(2, &body);
                count.store(number + 1, Ordering::Relaxed);
            }
        });
        let steady = Steady { over, exchanged, thread };
        steady.goes_on();
        steady
    }

    /// Waits for some more exchanges.
    #[track_caller]
    fn goes_on(&self) {
        let give_up = Instant::now() + DEADLINE;
        let goal = self.exchanged.load(Ordering::Relaxed) + 20;
        while self.exchanged.load(Ordering::Relaxed) < goal {
            assert!(!self.thread.is_finished(), "the steady client is not served any more");
            assert!(Instant::now() < give_up, "the steady client waits");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[track_caller]
    fn end(self) {
        self.goes_on();
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it is served to its end");
    }
}

/// What the gateway takes of the system: descriptors, and kilobytes of memory.
#[derive(Debug, Clone, Copy)]
struct Footprint {
    descriptors: usize,
    memory: u64,
}

impl Footprint {
    fn of(gateway: &Gateway) -> Footprint {
        let folder = format!("/proc/{}", gateway.process.id());
        let descriptors = fs::read_dir(format!("{folder}/fd")).expect("it runs").count();
        let status = fs::read_to_string(format!("{folder}/status")).expect("it runs");
        let memory = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB")?.trim().parse().ok());
        Footprint { descriptors, memory: memory.expect("it has memory") }
    }
}

/// What the allocator may keep of the memory that was needed meanwhile, in kilobytes.
const KEPT: u64 = 8 * 1024;

/// Makes an attack on a gateway, after which all of its clients are gone, or on their way.
#[track_caller]
fn attacked(toml: &str, attack: impl FnOnce(&Gateway)) {
    let gateway = Gateway::start(toml);
    let steady = Steady::start(&gateway);
    let before = Footprint::of(&gateway);
    attack(&gateway);
    steady.goes_on();
    gateway.wait_for_connections(1);
    let give_up = Instant::now() + DEADLINE;
    let after = loop {
        let after = Footprint::of(&gateway);
        if after.descriptors <= before.descriptors {
            break after;
        }
        assert!(Instant::now() < give_up, "descriptors leak: {before:?}, {after:?}");
        thread::sleep(Duration::from_millis(1));
    };
    println!("{before:?}, {after:?}");
    assert!(after.memory < before.memory + KEPT, "memory leaks: {before:?}, {after:?}");
    steady.end();
    gateway.end();
}

#[test]
fn random_bytes_are_messages_or_the_end_of_their_client() {
    let mut random = Rng::with_seed(seed());
    // Some of it is requests of a group that nobody is in.
    attacked("limits.message_time = '300ms'\ngrace = '300ms'", |gateway| {
        let mut silent = Vec::new();
        for _ in 0..300 {
            let mut bytes: Vec<u8> = (0..random.usize(..2000)).map(|_| random.u8(..)).collect();
            // Some begin well.
            for _ in 0..random.u8(..4) {
                let body: Vec<u8> = (0..random.usize(..100)).map(|_| random.u8(..)).collect();
                bytes.splice(..0, message(random.u8(1..=2), &body));
            }
            let mut client = gateway.client();
            // It may be closed before it has sent everything.
            let _ = client.stream.write_all(&bytes);
            match random.u8(..3) {
                0 => silent.push(client),
                1 => client.reset(),
                _ => drop(client),
            }
        }
    });
}

#[test]
fn half_headers_and_half_bodies_have_their_time() {
    attacked("limits.message_time = '300ms'", |gateway| {
        let message = message(1, b"body");
        let cut = (1..message.len()).cycle().take(100);
        let mut clients: Vec<Client> = cut
            .map(|cut| {
                let mut client = gateway.client();
                client.write(&message[..cut]);
                client
            })
            .collect();
        clients.iter_mut().for_each(Client::expect_closed);
        gateway.wait_for_closed("message_time", 100);
    });
}

#[test]
fn giant_lengths_are_believed_by_nobody() {
    attacked("limits.body = 1000", |gateway| {
        let lengths = [u32::MAX, u32::MAX - 4, 1 << 31, 1 << 30, 65536, 1001];
        for _ in 0..20 {
            let mut clients = lengths.map(|length| {
                let mut client = gateway.client();
                client.write(&header(1, length as usize));
                client
            });
            clients.iter_mut().for_each(Client::expect_closed);
        }
        gateway.wait_for_closed("body_too_long", 20 * lengths.len() as u64);
    });
}

#[test]
fn messages_in_any_pieces_are_whole() {
    attacked("", |gateway| {
        let mut client = gateway.client();
        let body = b"in pieces";
        let bytes = [message(2, body), message(2, b""), message(2, body)].concat();
        for first in 0..bytes.len() {
            for second in [first, bytes.len().min(first + 3), bytes.len()] {
                client.write(&bytes[..first]);
                client.write(&bytes[first..second]);
                client.write(&bytes[second..]);
                client.expect(2, body);
                client.expect(2, b"");
                client.expect(2, body);
            }
        }
        for _ in 0..10 {
            bytes.chunks(1).for_each(|byte| client.write(byte));
            client.expect(2, body);
            client.expect(2, b"");
            client.expect(2, body);
        }
    });
}

#[test]
fn resets_in_the_middle_of_a_body_are_noticed() {
    attacked("", |gateway| {
        let half = &message(1, &[7; 1000])[..500];
        for _ in 0..200 {
            let mut client = gateway.client();
            client.write(half);
            client.reset();
        }
        gateway.wait_for_closed("broken", 200);
    });
}

#[test]
fn clients_that_never_read_are_closed() {
    // Little waits for the back end, which has to do for nobody then.
    let toml = "limits.outgoing = 65541
        group = [
            { name = 'chat', type = 1, queue_bytes = 200_000, hwm = 5 },
            { name = 'scene', type = 2 },
        ]";
    attacked(toml, |gateway| {
        let _echo = Worker::echo(gateway.back_end("chat", 1));
        let message = message(1, &[7; 60_000]);
        let floods = [(); 4].map(|()| {
            let (mut client, message) = (Client::connect_small(gateway.clients), message.clone());
            // Its writes fail in the end.
            thread::spawn(move || while client.stream.write_all(&message).is_ok() {})
        });
        gateway.wait_for_closed("not_reading", 4);
        within(DEADLINE, "the end of the floods", || {
            floods.into_iter().for_each(|flood| flood.join().expect("it floods"));
        });
    });
}

#[test]
fn a_storm_of_connections_blows_over() {
    const THREADS: u64 = 4;
    const EACH: u64 = 1_250;

    more_descriptors();
    let seed = seed();
    attacked("", |gateway| {
        let half = &message(1, &[7; 1000])[..500];
        let clients = gateway.clients;
        let kept: Vec<TcpStream> = thread::scope(|scope| {
            let storm = |number| {
                let mut random = Rng::with_seed(seed.wrapping_add(number));
                let mut kept = Vec::new();
                for number in 0..EACH {
                    let mut client = Client::connect(clients);
                    if number % 100 == 0 {
                        // Not so fast that the system drops some before the gateway sees them.
                        client.send(2, "a lull");
                        client.expect(2, "a lull");
                    }
                    match random.u8(..3) {
                        0 => drop(client),
                        1 => kept.push(client.stream),
                        _ => {
                            client.write(half);
                            client.reset();
                        }
                    }
                }
                kept
            };
            let storms = [0, 1, 2, 3].map(|number| scope.spawn(move || storm(number)));
            assert_eq!(storms.len() as u64, THREADS);
            storms.into_iter().flat_map(|storm| storm.join().expect("it blows")).collect()
        });
        // The system may drop one that breaks off before it is accepted.
        gateway.wait_for_connections(1 + kept.len() as u64);
        let accepted = gateway.metric("zgateway_accepted_total", &[]);
        assert!(accepted <= 1 + THREADS * EACH, "{accepted} of {}", THREADS * EACH);
        // They are clients as good as any.
        for mut stream in kept.into_iter().step_by(100) {
            stream.write_all(&message(2, b"")).expect("it is served");
        }
    });
}

/// Ids are used again as fast as they can be, and many replies come when their client is gone.
#[test]
fn no_reply_reaches_another_client() {
    const CLIENTS: u64 = 8;
    const SESSIONS: u64 = 150;

    let seed = seed();
    let gateway = Gateway::start("limits.connections = 4\nlimits.message_time = '100ms'");
    let staff = [1, 2].map(|number| {
        Worker::echo_late(gateway.back_end("chat", 1), 20, seed.wrapping_add(number))
    });
    let clients = gateway.clients;
    let replies: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn(move || {
                    let mut random = Rng::with_seed(seed.wrapping_add(100 + number));
                    (0..SESSIONS)
                        .map(|session| meet(clients, &mut random, number * SESSIONS + session))
                        .sum::<u64>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("its replies are its own")).sum()
    });
    assert!(replies > CLIENTS * SESSIONS / 10, "{replies} replies are few");
    gateway.wait_for_connections(0);
    assert!(gateway.metric("zgateway_replies_dropped_total", &[("reason", "stale")]) > 0);
    drop(staff);
    gateway.end();
}

/// A short life of a client, which waits for some of its replies, all of them or none. Returns how
/// many it got.
#[track_caller]
fn meet(gateway: std::net::SocketAddr, random: &mut Rng, session: u64) -> u64 {
    let mut client = Client::connect(gateway);
    let messages = random.u64(1..=4);
    for number in 0..messages {
        client.send(1, format!("{session} {number}"));
    }
    let replies = random.u64(0..=messages);
    let mut missing: Vec<u64> = (0..messages).collect();
    for _ in 0..replies {
        let (kind, body) = client.recv();
        let body = String::from_utf8_lossy(&body).into_owned();
        let mine = missing.iter().position(|number| body == format!("{session} {number}"));
        missing.swap_remove(mine.unwrap_or_else(|| panic!("client {session} got {body:?}")));
        assert_eq!(kind, 1);
    }
    if random.bool() {
        client.reset();
    }
    replies
}

#[test]
fn replies_for_nobody_and_without_sense_are_dropped() {
    const FLOOD: u64 = 5_000;

    let mut random = Rng::with_seed(seed());
    // With three threads, an id can name a fourth.
    attacked("io_threads = 3\nlimits.body = 1000", |gateway| {
        let back_end = gateway.back_end("chat", 1);
        for _ in 0..FLOOD {
            back_end.reply(random.u32(..), b"for nobody");
            match random.u8(..3) {
                0 => back_end.send(&[0; 3]),
                1 => back_end.send(("two", "frames")),
                _ => back_end.send(""),
            }
            if random.u8(..10) == 0 {
                back_end.reply(random.u32(..), [0; 1001]);
            }
        }
        gateway.wait_for("zgateway_replies_dropped_total", &[("reason", "malformed")], FLOOD);
        gateway.wait_until("all ids name nobody", |metrics| {
            let [unknown, stale, too_long] = ["unknown", "stale", "too_long"]
                .map(|reason| metrics.sum("zgateway_replies_dropped_total", &[("reason", reason)]));
            unknown + stale == FLOOD && unknown > 0 && stale > 0 && too_long > 0
        });
    });
}

/// One whose replies are longer than the gateway receives at all is disconnected each time.
#[test]
fn endless_replies_end_their_sender_only() {
    attacked("limits.body = 1000\nlimits.outgoing = 2000", |gateway| {
        for _ in 0..20 {
            let mad = gateway.back_end("chat", 1);
            mad.push.set_linger(Some(DEADLINE)).expect("it is not sent yet");
            mad.reply(1, vec![0; 1_000_000]);
        }
        let ctx = ZContext::builder().signals(false).linger(Some(DEADLINE)).build();
        let many: ZMsg = (0..1000).map(|_| [0; 100]).collect();
        let push = ctx.expect("there is room").push(&format!(">{}", gateway.replies(1)));
        push.and_then(|push| Ok(push.send(many)?)).expect("it is sent");
    });
}

#[test]
fn those_who_do_not_speak_zeromq_are_let_talk() {
    let mut random = Rng::with_seed(seed());
    attacked("", |gateway| {
        let chat = gateway.back_end("chat", 1);
        let places = [gateway.group("chat"), gateway.group("scene"), gateway.replies(1)];
        let greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let mut silent = Vec::new();
        for place in places.iter().cycle().take(150) {
            let place = place.strip_prefix("tcp://").expect("it is TCP");
            let mut stream = TcpStream::connect(place).expect("it listens");
            let mut bytes: Vec<u8> = (0..random.usize(..500)).map(|_| random.u8(..)).collect();
            if random.bool() {
                bytes.splice(..0, greeting[..random.usize(..=greeting.len())].iter().copied());
            }
            // It may be closed before it has sent everything.
            let _ = stream.write_all(&bytes);
            if random.bool() {
                silent.push(stream);
            }
        }
        // Nor do these, though their sockets are ZeroMQ's.
        let ctx = ZContext::builder().signals(false).linger(Some(Duration::ZERO)).build();
        let ctx = ctx.expect("there is room");
        let wrong: Vec<_> = [SocketType::Dealer, SocketType::Push, SocketType::Req]
            .into_iter()
            .map(|kind| {
                let socket = ctx.socket(kind).expect("there is room");
                socket.connect(places[0]).expect("a good endpoint");
                let _ = socket.try_send("hello");
                socket
            })
            .collect();
        let mut client = gateway.client();
        for _ in 0..10 {
            client.send(1, "hello");
            chat.echo(1);
            client.expect(1, "hello");
        }
        drop(wrong);
    });
}
