//! Clients and back ends that do what they should not: who is closed and why, what is dropped, and that
//! nobody is who did nothing wrong.

use std::io::Read;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use std::{iter, panic, thread};

use crate::common::DEADLINE;
use crate::gateway::{Client, Gateway, MOMENT, header, message, system_buffer};

/// Tries a case that may fail on a machine that is busy again: its client may be silent there for longer
/// than it means to be.
#[track_caller]
fn in_time(case: fn()) {
    assert!((0..5).any(|_| panic::catch_unwind(case).is_ok()), "it fails each time");
}

#[track_caller]
fn dropped(gateway: &Gateway, reason: &str, count: u64) {
    gateway.wait_for("zgateway_replies_dropped_total", &[("reason", reason)], count);
}

#[test]
fn a_body_may_have_as_many_bytes_as_the_limit_says() {
    let gateway = Gateway::start("limits.body = 1000");
    let back_end = gateway.back_end("chat", 1);
    let mut client = gateway.client();
    for len in [0, 1, 999, 1000] {
        client.send(1, vec![7; len]);
        back_end.echo(1);
        client.expect(1, vec![7; len]);
    }
    client.write(&header(1, 1001));
    client.expect_closed();
    gateway.wait_for_closed("body_too_long", 1);
    let mut other = gateway.client();
    other.write(&[0xFF; 5]);
    other.expect_closed();
    gateway.wait_for_closed("body_too_long", 2);
    back_end.expect_nothing();
    gateway.end();
}

#[test]
fn an_unknown_type_is_known_by_its_header() {
    let gateway = Gateway::start("");
    let mut client = gateway.client();
    client.write(&header(3, 1000));
    client.expect_closed();
    gateway.wait_for_closed("unknown_type", 1);
    gateway.end();
}

#[test]
fn what_came_before_an_offence_is_forwarded() {
    let gateway = Gateway::start("limits.body = 1000");
    let back_end = gateway.back_end("chat", 1);
    for (offence, reason) in [(header(3, 0), "unknown_type"), (header(1, 1001), "body_too_long")] {
        let mut client = gateway.client();
        client.write(&[&message(1, b"good")[..], &offence].concat());
        client.expect_closed();
        gateway.wait_for_closed(reason, 1);
        back_end.expect("good");
    }
    assert_eq!(gateway.end().unanswered, 2);
}

#[test]
fn types_are_all_of_a_byte() {
    let gateway = Gateway::start(
        r#"
            [[group]]
            name = "first"
            type = 0
            [[group]]
            name = "last"
            type = 255
            [[reply]]
            type = 255
            [[reply]]
            type = 0
        "#,
    );
    let first = gateway.back_end("first", 255);
    let last = gateway.back_end("last", 0);
    let mut client = gateway.client();
    client.send(0, "");
    first.echo(1);
    client.expect(255, "");
    client.send(255, "x");
    last.echo(1);
    client.expect(0, "x");
    gateway.end();
}

#[test]
fn a_message_that_dawdles_closes_its_client() {
    let gateway = Gateway::start("limits.message_time = '200ms'");
    let parts = [&header(1, 4)[..1], &header(1, 4), &message(1, b"body")[..8]];
    let mut clients = parts.map(|part| {
        let start = Instant::now();
        let mut client = gateway.client();
        client.write(part);
        (client, start)
    });
    let mut quiet = gateway.client();
    for (client, start) in &mut clients {
        client.expect_closed();
        assert!(start.elapsed() >= Duration::from_millis(200));
    }
    gateway.wait_for_closed("message_time", 3);
    quiet.expect_nothing();
    let back_end = gateway.back_end("chat", 1);
    quiet.send(1, "at last");
    back_end.echo(1);
    quiet.expect(1, "at last");
    gateway.end();
}

#[test]
fn a_message_may_come_byte_by_byte() {
    let gateway = Gateway::start("");
    let back_end = gateway.back_end("chat", 1);
    let mut client = gateway.client();
    for byte in message(1, b"byte by byte") {
        client.write(&[byte]);
        // They come one by one, or most of them.
        thread::sleep(Duration::from_millis(2));
    }
    back_end.echo(1);
    client.expect(1, "byte by byte");
    gateway.end();
}

#[test]
fn the_time_of_a_message_is_not_that_of_the_one_before() {
    in_time(|| {
        let gateway = Gateway::start("limits.message_time = '1s'");
        let _echo = gateway.echo("chat", 1);
        let mut client = gateway.client();
        let message = message(1, &[7; 100]);
        let (begin, rest) = message.split_at(50);
        let start = Instant::now();
        // Never is there nothing begun.
        client.write(begin);
        while start.elapsed() < Duration::from_millis(1400) {
            client.write(&[rest, begin].concat());
            client.expect(1, [7; 100]);
            thread::sleep(Duration::from_millis(20));
        }
        client.write(rest);
        client.expect(1, [7; 100]);
        gateway.end();
    });
}

#[test]
fn a_client_that_says_and_is_told_nothing_is_closed() {
    let gateway = Gateway::start("limits.idle = '300ms'");
    let start = Instant::now();
    gateway.client().expect_closed();
    assert!(start.elapsed() >= Duration::from_millis(300));
    gateway.wait_for_closed("idle", 1);
    gateway.end();
}

#[test]
fn messages_in_either_direction_keep_a_client() {
    in_time(|| {
        let gateway = Gateway::start("limits.idle = '1s'");
        let back_end = gateway.back_end("chat", 1);
        let (mut told, mut telling) = (gateway.client(), gateway.client());
        told.send(1, "who am I?");
        let id = back_end.expect("who am I?");
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(1400) {
            back_end.reply(id, "news");
            told.expect(1, "news");
            telling.send(1, "news");
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(gateway.metric("zgateway_connections", &[]), 2);
        told.expect_closed();
        telling.expect_closed();
        gateway.wait_for_closed("idle", 2);
        gateway.end();
    });
}

#[test]
fn what_a_slow_client_reads_keeps_it() {
    in_time(|| {
        // In a second it reads as much as the system has room for, and so is not done in the end.
        let rate = system_buffer();
        let body = 4 * rate;
        let gateway = Gateway::start(&format!(
            r#"
                io_threads = 1
                limits = {{ idle = "1s", body = {body}, outgoing = {} }}
                [[group]]
                name = "chat"
                type = 1
                queue_bytes = {}
            "#,
            body + 5,
            body + 5
        ));
        let back_end = gateway.back_end("chat", 1);
        let mut client = Client::connect_small(gateway.clients);
        client.send(1, "much, please");
        let id = back_end.expect("much, please");
        back_end.reply(id, vec![7; body]);
        let mut part = vec![0; rate / 64];
        let (start, mut read) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(1400) {
            while read < (start.elapsed().as_secs_f64() * rate as f64) as usize {
                client.stream.read_exact(&mut part).expect("it is not closed");
                read += part.len();
            }
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(gateway.metric("zgateway_connections", &[]), 1);
        gateway.end();
    });
}

#[test]
fn a_client_that_the_gateway_does_not_read_is_neither_idle_nor_slow() {
    in_time(|| {
        let gateway = Gateway::start(
            r#"
                io_threads = 1
                limits = { idle = "500ms", message_time = "500ms" }
                [[group]]
                name = "chat"
                type = 1
                queue = 1
            "#,
        );
        let mut client = gateway.client();
        let bytes: Vec<u8> = iter::repeat_n(message(1, b"chat"), 10).flatten().collect();
        // The last is not whole, and not what the gateway waits for.
        client.write(&bytes[..bytes.len() - 1]);
        gateway.wait_until("it is held", |metrics| metrics.sum("zgateway_held_total", &[]) > 0);
        thread::sleep(Duration::from_millis(1200));
        assert_eq!(gateway.metric("zgateway_closed_total", &[]), 0);
        client.write(&bytes[bytes.len() - 1..]);
        let _echo = gateway.echo("chat", 1);
        (0..10).for_each(|_| client.expect(1, "chat"));
        gateway.end();
    });
}

#[test]
fn a_client_of_another_network_is_closed_at_once() {
    let gateway = Gateway::start("allow = ['127.0.0.1/32', '10.0.0.0/8']");
    let back_end = gateway.back_end("chat", 1);
    let mut denied = Client::connect_from(Ipv4Addr::new(127, 0, 0, 2).into(), gateway.clients);
    denied.expect_closed();
    gateway.wait_for_closed("denied", 1);
    let mut allowed = gateway.client();
    allowed.send(1, "hello");
    back_end.echo(1);
    allowed.expect(1, "hello");
    assert_eq!(gateway.end().clients, 2);
}

#[test]
fn a_client_that_sends_no_more_gets_its_replies() {
    let gateway = Gateway::start("");
    let mut client = gateway.client();
    let messages: Vec<u8> = (0..100_u32).flat_map(|it| message(1, &it.to_be_bytes())).collect();
    client.write(&messages);
    client.finish();
    gateway.client().finish();
    gateway.wait_for_closed("left", 1);
    gateway.wait_for("zgateway_requests_total", &[], 100);
    let back_end = gateway.back_end("chat", 1);
    back_end.echo(100);
    (0..100_u32).for_each(|it| client.expect(1, it.to_be_bytes()));
    client.expect_closed();
    gateway.wait_for_closed("left", 2);
    assert_eq!(gateway.end().unanswered, 0);
}

#[test]
fn a_client_that_sends_no_more_is_not_kept_for_ever() {
    let gateway = Gateway::start("limits.message_time = '200ms'");
    let back_end = gateway.back_end("chat", 1);
    let mut client = gateway.client();
    client.send(1, "no reply, please");
    client.finish();
    back_end.expect("no reply, please");
    client.expect_closed();
    gateway.wait_for_closed("left", 1);
    assert_eq!(gateway.end().unanswered, 1);
}

#[test]
fn a_client_that_was_held_and_sends_no_more_loses_nothing() {
    let gateway = Gateway::start("io_threads = 1\n[[group]]\nname = 'chat'\ntype = 1\nqueue = 1");
    let mut client = gateway.client();
    let messages: Vec<u8> = (0..100_u32).flat_map(|it| message(1, &it.to_be_bytes())).collect();
    client.write(&messages);
    client.finish();
    gateway.wait_until("it is held", |metrics| metrics.sum("zgateway_held_total", &[]) > 0);
    let back_end = gateway.back_end("chat", 1);
    back_end.echo(100);
    (0..100_u32).for_each(|it| client.expect(1, it.to_be_bytes()));
    client.expect_closed();
    gateway.wait_for_closed("left", 1);
    assert_eq!(gateway.end().unanswered, 0);
}

#[test]
fn a_client_that_breaks_off_is_closed() {
    let gateway = Gateway::start("");
    let mut client = gateway.client();
    client.write(&header(1, 10));
    gateway.wait_for_connections(1);
    client.reset();
    gateway.wait_for_closed("broken", 1);
    let mut client = gateway.client();
    client.write(&header(1, 10));
    drop(client);
    gateway.wait_for_closed("left", 1);
    gateway.end();
}

#[test]
fn bad_replies_are_dropped_and_good_ones_delivered() {
    let gateway = Gateway::start("io_threads = 3\nlimits = { body = 1000, outgoing = 5000 }");
    let back_end = gateway.back_end("chat", 1);
    let mut client = gateway.client();
    client.send(1, "who am I?");
    let id = back_end.expect("who am I?");
    let good = |client: &mut Client| {
        back_end.reply(id, "good");
        client.expect(1, "good");
    };
    good(&mut client);

    let mut gone = gateway.client();
    gone.send(1, "gone");
    let gone_id = back_end.expect("gone");
    gone.reset();
    gateway.wait_for_closed("broken", 1);
    back_end.reply(gone_id, "too late");
    dropped(&gateway, "stale", 1);
    good(&mut client);

    // No thread has the number 3 of its last two bits; no connection is of generation 0.
    back_end.reply(3, "to nobody");
    dropped(&gateway, "unknown", 1);
    good(&mut client);
    back_end.reply(0, "to nobody");
    dropped(&gateway, "stale", 2);
    good(&mut client);

    back_end.send((id.to_be_bytes().to_vec(), "body"));
    dropped(&gateway, "malformed", 1);
    good(&mut client);
    for short in ["", "1", "12", "123"] {
        back_end.send(short);
    }
    dropped(&gateway, "malformed", 5);
    good(&mut client);

    back_end.reply(id, [7; 1000]);
    client.expect(1, [7; 1000]);
    back_end.reply(id, [7; 1001]);
    dropped(&gateway, "too_long", 1);
    good(&mut client);
    back_end.reply(id, "");
    client.expect(1, "");
    let replies = gateway.metric("zgateway_replies_total", &[]);
    assert_eq!(replies, 9);
    gateway.end();
}

#[test]
fn a_back_end_that_sends_far_too_much_is_disconnected_and_may_come_back() {
    let gateway = Gateway::start("limits = { body = 1000, outgoing = 5000 }");
    let back_end = gateway.back_end("chat", 1);
    let mut client = gateway.client();
    client.send(1, "who am I?");
    let id = back_end.expect("who am I?");
    back_end.reply(id, vec![7; 100_000]);
    // What is on the way when it is disconnected is lost.
    client.stream.set_read_timeout(Some(MOMENT)).expect("a timeout");
    let give_up = Instant::now() + DEADLINE;
    while client.stream.peek(&mut [0]).is_err() {
        assert!(Instant::now() < give_up, "it is not heard again");
        back_end.reply(id, "good");
    }
    client.stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    client.expect(1, "good");
    gateway.end();
}

#[test]
fn a_restarted_gateway_gives_other_ids() {
    // So that a wrong one is a matter of one in four billions.
    let config = "io_threads = 1\nlimits.connections = 1";
    let [one, other] = [(); 2].map(|()| {
        let gateway = Gateway::start(config);
        let mut client = gateway.client();
        client.send(1, "who am I?");
        gateway.back_end("chat", 1).expect("who am I?")
    });
    assert_ne!(one, other);
}

#[test]
fn the_next_client_has_another_id() {
    let gateway = Gateway::start("io_threads = 1\nlimits.connections = 1");
    let back_end = gateway.back_end("chat", 1);
    let mut last = None;
    for turn in 1..=5 {
        let mut client = gateway.client();
        client.send(1, "who am I?");
        let id = back_end.expect("who am I?");
        if let Some(last) = last.replace(id) {
            assert_ne!(last, id);
            back_end.reply(last, "not for you");
        }
        back_end.reply(id, "for you");
        client.expect(1, "for you");
        drop(client);
        gateway.wait_for_closed("left", turn);
    }
    dropped(&gateway, "stale", 4);
    gateway.end();
}
