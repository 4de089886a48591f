//! How the gateway starts and ends: signals, the grace time, and what is wrong with its configuration.

use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};
use std::{fs, iter, thread};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::common::{DEADLINE, Example, folder};
use crate::gateway::{BackEnd, Client, Gateway, config, message};

/// Waits until nobody can connect any more.
#[track_caller]
fn wait_for_the_end_of_listening(gateway: &Gateway) {
    let give_up = Instant::now() + DEADLINE;
    while TcpStream::connect(gateway.clients).is_ok() {
        assert!(Instant::now() < give_up, "it goes on listening");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_is_under_way_is_done_first() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let gateway = Gateway::start("grace = '1h'");
        let back_end = gateway.back_end("chat", 1);
        let (mut client, mut idle) = (gateway.client(), gateway.client());
        for number in 0..10_u32 {
            client.send(1, number.to_be_bytes());
        }
        gateway.wait_for("zgateway_requests_total", &[], 10);
        gateway.wait_for_connections(2);
        back_end.echo(3);
        gateway.signal(signal);
        idle.expect_closed();
        wait_for_the_end_of_listening(&gateway);
        gateway.assert_accounted();
        back_end.echo(7);
        for number in 0..10_u32 {
            client.expect(1, number.to_be_bytes());
        }
        client.expect_closed();
        let summary = gateway.ended();
        assert_eq!((summary.requests, summary.forwarded), (10, 10));
        assert_eq!((summary.replies, summary.unanswered), (10, 0));
        assert!(summary.clients >= 2, "{summary:?}");
    }
}

#[test]
fn what_has_no_reply_when_the_grace_time_is_over_is_counted() {
    let gateway = Gateway::start("grace = '300ms'");
    let mut client = gateway.client();
    client.send(1, "to nobody");
    client.send(2, "to nobody");
    gateway.wait_for("zgateway_requests_total", &[], 2);
    let start = Instant::now();
    gateway.signal(Signal::SIGTERM);
    client.expect_closed();
    let summary = gateway.ended();
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!((summary.requests, summary.forwarded), (2, 0));
    assert_eq!((summary.replies, summary.unanswered), (0, 2));
}

#[test]
fn requests_of_clients_that_are_gone_are_delivered() {
    let gateway = Gateway::start("grace = '1h'");
    let mut client = gateway.client();
    for _ in 0..10 {
        client.send(1, "a last word");
    }
    gateway.wait_for("zgateway_requests_total", &[], 10);
    client.reset();
    gateway.wait_for_closed("broken", 1);
    gateway.signal(Signal::SIGTERM);
    wait_for_the_end_of_listening(&gateway);
    let back_end = gateway.back_end("chat", 1);
    for _ in 0..10 {
        back_end.expect("a last word");
    }
    let summary = gateway.ended();
    assert_eq!((summary.forwarded, summary.unanswered), (10, 10));
}

#[test]
fn what_was_handed_to_zeromq_is_delivered_within_the_grace_time() {
    const BODY: &[u8] = &[7; 60_000];
    const MESSAGES: usize = 500;
    let gateway = Gateway::start(
        "grace = '1h'\n[[group]]\nname = 'chat'\ntype = 1\nqueue_bytes = 100_000_000",
    );
    // It has room for one message, besides what the system has.
    let back_end = BackEnd::with_room(1, gateway.group("chat"), gateway.replies(1));
    let mut client = gateway.client();
    for _ in 0..MESSAGES {
        client.send(1, BODY);
    }
    gateway.wait_for("zgateway_forwarded_total", &[], MESSAGES as u64);
    client.reset();
    gateway.wait_for_closed("broken", 1);
    gateway.signal(Signal::SIGTERM);
    wait_for_the_end_of_listening(&gateway);
    for _ in 0..MESSAGES {
        back_end.expect(BODY);
    }
    gateway.ended();
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let gateway = Gateway::start("grace = '1h'");
        let mut client = gateway.client();
        client.send(1, "to nobody");
        gateway.wait_for("zgateway_requests_total", &[], 1);
        gateway.signal(signal);
        wait_for_the_end_of_listening(&gateway);
        gateway.signal(signal);
        let (status, output, _) = gateway.outcome();
        assert_eq!(status.signal(), Some(signal as i32), "{status}");
        assert_eq!(output, [""; 0]);
        client.expect_closed();
    }
}

#[test]
fn a_client_that_is_held_at_the_end_is_served_to_its_last_message() {
    let gateway = Gateway::start(
        r#"
            io_threads = 1
            grace = "1h"
            [[group]]
            name = "chat"
            type = 1
            queue = 1
        "#,
    );
    let mut client = gateway.client();
    let bytes: Vec<u8> = (0..20_u32).flat_map(|it| message(1, &it.to_be_bytes())).collect();
    client.write(&bytes);
    gateway.wait_until("it is held", |metrics| metrics.sum("zgateway_held_total", &[]) > 0);
    gateway.signal(Signal::SIGTERM);
    wait_for_the_end_of_listening(&gateway);
    let back_end = gateway.back_end("chat", 1);
    back_end.echo(20);
    for number in 0..20_u32 {
        client.expect(1, number.to_be_bytes());
    }
    client.expect_closed();
    let summary = gateway.ended();
    assert_eq!((summary.requests, summary.replies, summary.unanswered), (20, 20, 0));
}

#[test]
fn a_client_that_is_slowed_down_at_the_end_is_served_to_its_last_message() {
    let gateway = Gateway::start("grace = '1h'\nlimits.messages_per_second = 20");
    let back_end = gateway.back_end("chat", 1);
    let mut client = gateway.client();
    let bytes: Vec<u8> = (0..25_u32).flat_map(|it| message(1, &it.to_be_bytes())).collect();
    client.write(&bytes);
    gateway.wait_until("it is slowed down", |metrics| {
        metrics.sum("zgateway_throttled_total", &[]) > 0
    });
    gateway.signal(Signal::SIGTERM);
    back_end.echo(25);
    for number in 0..25_u32 {
        client.expect(1, number.to_be_bytes());
    }
    client.expect_closed();
    assert_eq!(gateway.ended().unanswered, 0);
}

#[test]
fn a_reply_arrives_whole_although_its_client_goes_on_sending() {
    const BODY: usize = 8 << 20;
    let gateway = Gateway::start(&format!(
        r#"
            grace = "1h"
            io_threads = 1
            limits = {{ body = {BODY}, outgoing = {} }}
        "#,
        BODY + 5
    ));
    let back_end = gateway.back_end("chat", 1);
    let mut client = Client::connect_small(gateway.clients);
    client.send(1, "much, please");
    let id = back_end.expect("much, please");
    gateway.signal(Signal::SIGTERM);
    wait_for_the_end_of_listening(&gateway);
    client.send(1, "nobody reads this");
    back_end.reply(id, vec![7; BODY]);
    // Not read before it has time to be closed.
    client.stream.peek(&mut [0]).expect("a reply");
    thread::sleep(Duration::from_millis(100));
    assert!(client.recv() == (1, vec![7; BODY]), "not as it was sent");
    client.expect_closed();
    assert_eq!(gateway.ended().unanswered, 0);
}

#[test]
fn idle_clients_do_not_delay_the_end() {
    let gateway = Gateway::start("grace = '1h'");
    let clients: Vec<Client> = iter::repeat_with(|| gateway.client()).take(200).collect();
    gateway.wait_for_connections(200);
    gateway.signal(Signal::SIGTERM);
    clients.into_iter().for_each(|mut client| client.expect_closed());
    let summary = gateway.ended();
    assert_eq!((summary.clients, summary.requests, summary.unanswered), (200, 0, 0));
}

#[test]
fn the_log_says_when_it_begins_and_ends() {
    let gateway = Gateway::start("");
    let clients = gateway.clients;
    gateway.assert_accounted();
    gateway.signal(Signal::SIGTERM);
    let (status, _, errors) = gateway.outcome();
    assert!(status.success(), "{status}: {errors}");
    let [serving, ending] = &errors.lines().collect::<Vec<_>>()[..] else { panic!("{errors}") };
    assert!(serving.ends_with(&format!("serving clients={clients}")), "{serving}");
    assert!(ending.ends_with("ending grace=10s"), "{ending}");
}

/// Starts a gateway that cannot serve with this configuration; returns what it says on stderr.
#[track_caller]
fn refused(config: &str, args: &[&str]) -> String {
    let folder = folder();
    fs::write(folder.path().join("zgateway.toml"), config).expect("there is room");
    let args = [&["serve", "--config", "zgateway.toml"], args].concat();
    let (status, output, errors) = Example::start("zgateway", &args, &folder).outcome();
    assert_eq!(status.code(), Some(1), "{errors}");
    assert_eq!(output, [""; 0]);
    errors
}

#[test]
fn a_second_gateway_in_the_same_place_says_what_is_taken() {
    let gateway = Gateway::start("");
    let (clients, metrics) = (gateway.clients, gateway.metrics_address());
    let (chat, replies) = (gateway.group("chat"), gateway.replies(1));
    for (toml, error) in [
        (format!("listen = '{clients}'"), format!("cannot listen for clients at {clients}: ")),
        (format!("metrics = '{metrics}'"), format!("cannot serve metrics at {metrics}: ")),
        (
            format!("[[group]]\nname = 'chat'\ntype = 1\nbind = '{chat}'"),
            format!("cannot bind {chat:?}: "),
        ),
        (format!("[[reply]]\ntype = 1\nbind = '{replies}'"), format!("cannot bind {replies:?}: ")),
    ] {
        let said = refused(&config(&toml), &[]);
        assert!(said.contains(&error) && said.to_lowercase().contains("in use"), "{toml}: {said}");
    }
    let mut client = gateway.client();
    client.send(1, "still here");
    let back_end = gateway.back_end("chat", 1);
    back_end.echo(1);
    client.expect(1, "still here");
    gateway.end();
}

#[test]
fn a_configuration_can_be_checked() {
    let folder = folder();
    fs::write(folder.path().join("good.toml"), config("listen = '127.0.0.1:8888'")).unwrap();
    let args = ["serve", "--config", "good.toml", "--check"];
    assert_eq!(
        Example::start("zgateway", &args, &folder).output(),
        ["good.toml is good: groups chat, scene; endpoints for replies 2; clients at \
          127.0.0.1:8888, up to 10000, on 2 threads"]
    );
    for args in [&["--check"][..], &[]] {
        let said = refused(&config("limits.body = 0\nio_threads = 2"), args);
        assert!(said.starts_with("zgateway: zgateway.toml: ") && said.contains("body"), "{said}");
        let said = refused("listen =", args);
        assert!(said.starts_with("zgateway: zgateway.toml: "), "{said}");
    }
}

#[test]
fn a_configuration_that_cannot_be_read_is_named() {
    let folder = folder();
    for args in [&["--check"][..], &[]] {
        let args = [&["serve", "--config", "nowhere.toml"], args].concat();
        let (status, output, errors) = Example::start("zgateway", &args, &folder).outcome();
        assert_eq!((status.code(), output), (Some(1), vec![]));
        assert!(
            errors.starts_with("zgateway: cannot read the configuration nowhere.toml: "),
            "{errors}"
        );
    }
}

/// The log as programs read it, an object a line.
#[track_caller]
fn objects(log: &str) -> Vec<Value> {
    let object = |line: &str| match serde_json::from_str(line) {
        Ok(value @ Value::Object(_)) => value,
        other => panic!("{other:?}: {line}"),
    };
    log.lines().map(object).collect()
}

#[test]
fn the_log_may_be_json() {
    for (toml, args) in [
        ("", &["--json", "--log", "debug"][..]),
        ("log = { format = 'json', level = 'debug' }", &[]),
    ] {
        let gateway = Gateway::start_with(toml, args);
        let mut client = gateway.client();
        client.send(1, "hello");
        let back_end = gateway.back_end("chat", 1);
        back_end.echo(1);
        client.expect(1, "hello");
        drop(client);
        gateway.wait_for_closed("left", 1);
        gateway.signal(Signal::SIGTERM);
        let (status, _, errors) = gateway.outcome();
        assert!(status.success(), "{status}: {errors}");
        let objects = objects(&errors);
        for said in ["serving", "connected", "closed", "ending"] {
            let is_it = |object: &&Value| object["message"] == said;
            let object = objects.iter().find(is_it).unwrap_or_else(|| panic!("{said}: {errors}"));
            assert!(object["level"].is_string() && object["timestamp"].is_string(), "{object}");
        }
    }
}

#[test]
fn a_log_in_json_is_json_to_its_end() {
    let gateway = Gateway::start("");
    let listen = format!("listen = '{}'", gateway.clients);
    let objects = objects(&refused(&config(&listen), &["--json"]));
    let last = objects.last().expect("it says why");
    assert_eq!(last["level"], "ERROR");
    assert!(last["message"].as_str().unwrap().starts_with("cannot listen for clients"), "{last}");
    gateway.end();
}
