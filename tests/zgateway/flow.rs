//! More than the gateway can take or pass on: nothing is lost, and nobody suffers for another.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::gateway::{BackEnd, Client, Gateway, message, system_buffer, system_room};

/// One I/O thread, and a group "chat" with a short queue.
const SHORT: &str = r#"
    io_threads = 1
    [[group]]
    name = "chat"
    type = 1
    queue = 4
    [[group]]
    name = "scene"
    type = 2
"#;

const CHAT: [(&str, &str); 1] = [("group", "chat")];

/// Sends a first message for "chat", which the thread that finds nobody to give it to holds: what comes
/// after it fills the queue.
#[track_caller]
fn occupy(gateway: &Gateway) -> Client {
    let mut client = gateway.client();
    client.send(1, "first");
    gateway.wait_for("zgateway_requests_total", &CHAT, 1);
    gateway.wait_for("zgateway_queue_messages", &CHAT, 0);
    client
}

#[track_caller]
fn exchange(client: &mut Client, back_end: &BackEnd, kind: u8, count: u32) {
    for number in 0..count {
        let body = format!("exchange {number}");
        client.send(kind, &body);
        back_end.echo(1);
        client.expect(kind, &body);
    }
}

#[test]
fn a_client_over_the_limit_is_served_when_another_leaves() {
    let gateway = Gateway::start("limits.connections = 2");
    let back_end = gateway.back_end("chat", 1);
    let mut inside = vec![gateway.client(), gateway.client()];
    gateway.wait_for_connections(2);
    let mut outside: Vec<Client> = iter::repeat_with(|| gateway.client()).take(3).collect();
    for (number, client) in outside.iter_mut().enumerate() {
        client.send(1, format!("from outside {number}"));
    }
    for (number, mut client) in outside.into_iter().enumerate() {
        for client in &mut inside {
            exchange(client, &back_end, 1, 3);
        }
        back_end.expect_nothing();
        assert_eq!(gateway.metric("zgateway_accepted_total", &[]), 2 + number as u64);
        inside.remove(0);
        back_end.echo(1);
        client.expect(1, format!("from outside {number}"));
        inside.push(client);
    }
    gateway.wait_for_closed("left", 3);
    assert_eq!(gateway.metric("zgateway_closed_total", &[]), 3);
    let summary = gateway.end();
    assert_eq!((summary.clients, summary.unanswered), (5, 0));
}

/// A client that sends numbered messages as fast as it is read.
struct Feeder {
    written: Arc<AtomicU32>,
    thread: JoinHandle<Client>,
}

impl Feeder {
    fn start(gateway: &Gateway, kind: u8, messages: u32, body: usize) -> Feeder {
        let mut client = gateway.client();
        let written = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&written);
        let thread = thread::spawn(move || {
            let mut bytes = message(kind, &vec![0; body]);
            for number in 0..messages {
                bytes[5..9].copy_from_slice(&number.to_be_bytes());
                client.write(&bytes);
                counter.fetch_add(1, Ordering::SeqCst);
            }
            client
        });
        Feeder { written, thread }
    }

    fn written(&self) -> u32 {
        self.written.load(Ordering::SeqCst)
    }

    /// Its client, when it has written all, and got as many replies.
    #[track_caller]
    fn end(self, kind: u8) {
        let mut client = self.thread.join().expect("it can write all");
        for number in 0..self.written.load(Ordering::SeqCst) {
            client.expect(kind, number.to_be_bytes());
        }
    }
}

/// Receives all messages of `feeders` clients, each client's in order, and replies with their numbers.
#[track_caller]
fn take_all(back_end: &BackEnd, feeders: usize, messages: u32) {
    let mut next = BTreeMap::new();
    for _ in 0..feeders * messages as usize {
        let message = back_end.recv();
        let number = next.entry(message.id).or_insert(0_u32);
        assert_eq!(message.body[..4], number.to_be_bytes());
        back_end.reply(message.id, &message.body[..4]);
        *number += 1;
    }
    assert_eq!(next.len(), feeders);
    assert!(next.values().all(|count| *count == messages), "{next:?}");
}

#[test]
fn a_full_queue_holds_the_clients_that_feed_it_and_nobody_else() {
    const BODY: usize = 65_536;
    let messages = (system_room() / BODY) as u32 + 20;
    let gateway = Gateway::start(SHORT);
    let mut other = occupy(&gateway);
    let feeders = [(); 2].map(|()| Feeder::start(&gateway, 1, messages, BODY));
    let scene = gateway.back_end("scene", 2);
    gateway.wait_for("zgateway_queue_messages", &CHAT, 4);
    gateway.wait_for("zgateway_held_total", &CHAT, 2);
    exchange(&mut other, &scene, 2, 50);
    assert_eq!(gateway.metric("zgateway_requests_total", &CHAT), 1 + 4);
    assert_eq!(gateway.metric("zgateway_queue_messages", &CHAT), 4);
    assert_eq!(gateway.metric("zgateway_queue_bytes", &CHAT), 4 * (4 + BODY as u64));
    assert_eq!(gateway.metric("zgateway_forwarded_total", &CHAT), 0);
    for feeder in &feeders {
        assert!(feeder.written() < messages, "somebody has read it all");
    }

    let chat = gateway.back_end("chat", 1);
    chat.echo(1);
    other.expect(1, "first");
    take_all(&chat, 2, messages);
    feeders.into_iter().for_each(|feeder| feeder.end(1));
    exchange(&mut other, &scene, 2, 1);
    gateway.wait_for("zgateway_queue_messages", &CHAT, 0);
    chat.expect_nothing();
    assert_eq!(gateway.end().unanswered, 0);
}

#[test]
fn a_queue_is_full_of_bytes_too() {
    const MESSAGES: u32 = 100;
    let gateway = Gateway::start(
        r#"
            io_threads = 1
            limits.body = 1000
            [[group]]
            name = "chat"
            type = 1
            queue_bytes = 4000
            [[group]]
            name = "scene"
            type = 2
        "#,
    );
    let mut other = occupy(&gateway);
    let scene = gateway.back_end("scene", 2);
    let feeders = [(); 3].map(|()| Feeder::start(&gateway, 1, MESSAGES, 1000));
    gateway.wait_for("zgateway_held_total", &CHAT, 3);
    // There is room for less than they have, which is no reason to look at them again.
    exchange(&mut other, &scene, 2, 20);
    assert_eq!(gateway.metric("zgateway_held_total", &CHAT), 3);
    assert_eq!(gateway.metric("zgateway_requests_total", &CHAT), 1 + 3);
    assert_eq!(gateway.metric("zgateway_queue_bytes", &CHAT), 3 * 1004);
    let chat = gateway.back_end("chat", 1);
    chat.echo(1);
    take_all(&chat, 3, MESSAGES);
    feeders.into_iter().for_each(|feeder| feeder.end(1));
    gateway.end();
}

#[test]
fn a_process_that_takes_nothing_holds_its_group_as_none_does() {
    // More than both connections have room for, on the way to the gateway and from it.
    const BODY: usize = 65_536;
    let messages = (2 * system_room() / BODY) as u32 + 20;
    let gateway = Gateway::start(&SHORT.replace("queue = 4", "queue = 4\nhwm = 1"));
    let chat = BackEnd::with_room(1, gateway.group("chat"), gateway.replies(1));
    let feeder = Feeder::start(&gateway, 1, messages, BODY);
    let scene = gateway.back_end("scene", 2);
    // It is filled up again only when it is half empty.
    gateway.wait_until("it is full", |metrics| {
        metrics.sum("zgateway_held_total", &CHAT) > 0
            && metrics.sum("zgateway_queue_messages", &CHAT) > 2
    });
    exchange(&mut gateway.client(), &scene, 2, 20);
    assert!(feeder.written() < messages);
    take_all(&chat, 1, messages);
    feeder.end(1);
    gateway.end();
}

#[test]
fn a_group_without_a_process_waits_alone() {
    const CLIENTS: u32 = 10;
    let gateway = Gateway::start("");
    let scene = gateway.back_end("scene", 2);
    let mut clients: Vec<Client> =
        iter::repeat_with(|| gateway.client()).take(CLIENTS as usize).collect();
    for client in &mut clients {
        for number in 0..20_u32 {
            client.send(1, number.to_be_bytes());
        }
        exchange(client, &scene, 2, 5);
    }
    gateway.wait_for("zgateway_requests_total", &CHAT, 20 * u64::from(CLIENTS));
    assert_eq!(gateway.metric("zgateway_held_total", &[]), 0);
    let chat = gateway.back_end("chat", 1); // which takes what it has not sent with it
    take_all(&chat, CLIENTS as usize, 20);
    for client in &mut clients {
        (0..20_u32).for_each(|number| client.expect(1, number.to_be_bytes()));
    }
    gateway.end();
}

#[test]
fn a_client_s_messages_go_through_up_to_the_one_that_is_held() {
    let gateway = Gateway::start(&SHORT.replace("queue = 4", "queue = 1"));
    let scene = gateway.back_end("scene", 2);
    let mut client = gateway.client();
    let script = [(2, "a"), (1, "b"), (2, "c"), (1, "d"), (1, "held"), (2, "behind it"), (1, "z")];
    let bytes: Vec<u8> =
        script.iter().flat_map(|(kind, body)| message(*kind, body.as_bytes())).collect();
    client.write(&bytes);
    let id = scene.expect("a");
    scene.expect("c");
    gateway.wait_for("zgateway_requests_total", &CHAT, 2);
    gateway.wait_for("zgateway_queue_messages", &CHAT, 1);
    scene.expect_nothing();
    // It is not read from, but it is written to.
    scene.reply(id, "all the same");
    client.expect(2, "all the same");
    let chat = gateway.back_end("chat", 1);
    for body in ["b", "d", "held", "z"] {
        assert_eq!(chat.expect(body), id);
    }
    scene.expect("behind it");
    for _ in 0..6 {
        chat.reply(id, "done");
        client.expect(1, "done");
    }
    assert_eq!(gateway.end().unanswered, 0);
}

#[test]
fn a_client_that_is_held_may_leave() {
    let gateway = Gateway::start(SHORT);
    let mut client = occupy(&gateway);
    (0..20).for_each(|_| client.send(1, "a"));
    gateway.wait_for("zgateway_held_total", &CHAT, 1);
    let mut patient = gateway.client();
    patient.send(1, "of the other");
    gateway.wait_for("zgateway_held_total", &CHAT, 2);
    client.reset();
    gateway.wait_for_closed("broken", 1);
    let chat = gateway.back_end("chat", 1);
    chat.expect("first");
    (0..4).for_each(|_| _ = chat.expect("a"));
    let id = chat.expect("of the other");
    chat.reply(id, "reply");
    patient.expect(1, "reply");
    assert_eq!(gateway.end().unanswered, 5);
}

/// Sends so many messages of so many bytes at once and gets them all back; returns how long that took.
#[track_caller]
fn flood(gateway: &Gateway, count: u32, len: usize) -> Duration {
    let back_end = gateway.back_end("chat", 1);
    let (mut client, mut other) = (gateway.client(), gateway.client());
    let start = Instant::now();
    let body = |number: u32| {
        let mut body = vec![0; len - 5];
        body[..4].copy_from_slice(&number.to_be_bytes());
        body
    };
    let bytes: Vec<u8> = (0..count).flat_map(|number| message(1, &body(number))).collect();
    client.write(&bytes);
    gateway
        .wait_until("it is throttled", |metrics| metrics.sum("zgateway_throttled_total", &[]) > 0);
    other.send(1, "of the other");
    let mut next = 0;
    let mut took = Duration::ZERO;
    for _ in 0..count + 1 {
        let message = back_end.recv();
        if message.body != b"of the other" {
            assert_eq!(message.body, body(next));
            next += 1;
            took = start.elapsed();
        }
        back_end.reply(message.id, message.body);
    }
    other.expect(1, "of the other");
    (0..count).for_each(|number| client.expect(1, body(number)));
    back_end.expect_nothing();
    took
}

#[test]
fn a_client_is_read_at_its_rate_of_messages() {
    let gateway = Gateway::start("limits.messages_per_second = 20");
    // A second's worth and one at once.
    let took = flood(&gateway, 30, 10);
    assert!(took >= Duration::from_millis((30 - 21) * 1000 / 20), "{took:?}");
    assert_eq!(gateway.end().unanswered, 0);
}

#[test]
fn a_client_is_read_at_its_rate_of_bytes() {
    let gateway = Gateway::start("limits.bytes_per_second = 10_000");
    let took = flood(&gateway, 15, 1000);
    assert!(took >= Duration::from_millis((15 - 11) * 100), "{took:?}");
    assert_eq!(gateway.end().unanswered, 0);
}

#[test]
fn a_message_of_more_than_a_second_s_bytes_is_paid_for_by_the_next() {
    let gateway = Gateway::start("limits.bytes_per_second = 10_000");
    let took = flood(&gateway, 2, 15_000);
    assert!(took >= Duration::from_millis(500), "{took:?}");
    assert_eq!(gateway.end().unanswered, 0);
}

#[test]
fn a_client_that_does_not_read_is_dropped_and_others_are_served() {
    const BODY: usize = 65_536;
    const OUTGOING: usize = 100_000;
    let gateway = Gateway::start(&format!("io_threads = 1\nlimits = {{ outgoing = {OUTGOING} }}"));
    let back_end = gateway.back_end("chat", 1);
    let mut deaf = Client::connect_small(gateway.clients);
    let mut other = gateway.client();
    deaf.send(1, "tell me");
    let id = back_end.expect("tell me");
    let body = vec![7; BODY];
    let mut sent = 0_u64;
    while gateway.metric("zgateway_closed_total", &[("reason", "not_reading")]) == 0 {
        assert!(sent < 2000, "it is not dropped");
        (0..10).for_each(|_| back_end.reply(id, &body));
        sent += 10;
        exchange(&mut other, &back_end, 1, 1);
    }
    exchange(&mut other, &back_end, 1, 1);
    let taken = gateway.metric("zgateway_reply_bytes_total", &[]);
    // What the system takes of one connection, on either side, and what may wait.
    let most = (system_buffer() + (1 << 20) + OUTGOING + BODY) as u64;
    assert!(taken <= most, "{taken} bytes for one client");
    let stale = gateway.metric("zgateway_replies_dropped_total", &[("reason", "stale")]);
    let replies = gateway.metric("zgateway_replies_total", &[]);
    let exchanged = sent / 10 + 1;
    assert_eq!(replies + stale, sent + exchanged, "each is written or dropped");
    assert!((deaf.read_to_end().len() as u64) < taken);
    assert_eq!(gateway.metric("zgateway_connections", &[]), 1);
    gateway.end();
}
