//! What the gateway tells of itself, and the tools that come with it.

use std::fs;

use nix::sys::signal::Signal;

use crate::common::{Example, folder};
use crate::gateway::{Client, Gateway, config};

/// A gateway with one I/O thread, after an exchange of two requests and two replies.
#[track_caller]
fn after_an_exchange() -> (Gateway, Client) {
    let gateway = Gateway::start("io_threads = 1");
    let (chat, scene) = (gateway.back_end("chat", 1), gateway.back_end("scene", 2));
    let mut client = gateway.client();
    client.send(1, "hello");
    chat.echo(1);
    client.expect(1, "hello");
    client.send(2, "");
    let id = scene.expect("");
    scene.reply(id, "abc");
    client.expect(2, "abc");
    scene.send("bad");
    gateway.wait_for("zgateway_replies_dropped_total", &[], 1);
    gateway.client().finish();
    gateway.wait_for_closed("left", 1);
    gateway.wait_for("zgateway_reply_seconds_count", &[], 2);
    gateway.wait_for("zgateway_request_seconds_count", &[], 2);
    (gateway, client)
}

#[test]
fn metrics_have_what_happened() {
    let (gateway, _client) = after_an_exchange();
    let metrics = gateway.metrics().0;
    // Times differ.
    let values = |line: &&str| {
        !line.starts_with('#') && !line.contains("_bucket{") && !line.contains("_seconds_sum")
    };
    let values: Vec<&str> = metrics.lines().filter(values).collect();
    let expected = "\
zgateway_accepted_total 2
zgateway_closed_total{reason=\"body_too_long\"} 0
zgateway_closed_total{reason=\"broken\"} 0
zgateway_closed_total{reason=\"denied\"} 0
zgateway_closed_total{reason=\"ending\"} 0
zgateway_closed_total{reason=\"idle\"} 0
zgateway_closed_total{reason=\"left\"} 1
zgateway_closed_total{reason=\"message_time\"} 0
zgateway_closed_total{reason=\"not_reading\"} 0
zgateway_closed_total{reason=\"refused\"} 0
zgateway_closed_total{reason=\"unknown_type\"} 0
zgateway_connections{thread=\"0\"} 1
zgateway_forwarded_bytes_total{group=\"chat\"} 9
zgateway_forwarded_bytes_total{group=\"scene\"} 4
zgateway_forwarded_total{group=\"chat\"} 1
zgateway_forwarded_total{group=\"scene\"} 1
zgateway_held_total{group=\"chat\"} 0
zgateway_held_total{group=\"scene\"} 0
zgateway_queue_bytes{group=\"chat\"} 0
zgateway_queue_bytes{group=\"scene\"} 0
zgateway_queue_messages{group=\"chat\"} 0
zgateway_queue_messages{group=\"scene\"} 0
zgateway_replies_dropped_total{reason=\"malformed\"} 1
zgateway_replies_dropped_total{reason=\"stale\"} 0
zgateway_replies_dropped_total{reason=\"too_long\"} 0
zgateway_replies_dropped_total{reason=\"unknown\"} 0
zgateway_replies_total{thread=\"0\",type=\"1\"} 1
zgateway_replies_total{thread=\"0\",type=\"2\"} 1
zgateway_reply_bytes_total{thread=\"0\",type=\"1\"} 10
zgateway_reply_bytes_total{thread=\"0\",type=\"2\"} 8
zgateway_reply_seconds_count 2
zgateway_request_bytes_total{group=\"chat\",thread=\"0\"} 10
zgateway_request_bytes_total{group=\"scene\",thread=\"0\"} 5
zgateway_request_seconds_count 2
zgateway_requests_total{group=\"chat\",thread=\"0\"} 1
zgateway_requests_total{group=\"scene\",thread=\"0\"} 1
zgateway_throttled_total 0
zgateway_unanswered_total 0";
    assert_eq!(values, expected.lines().collect::<Vec<_>>());
    let types = metrics.lines().filter(|line| line.starts_with("# TYPE "));
    let helps = metrics.lines().filter(|line| line.starts_with("# HELP "));
    assert_eq!((types.count(), helps.count()), (17, 17));
    assert_eq!(gateway.end().replies, 2);
}

#[test]
fn status_shows_them_as_a_table() {
    let (gateway, _client) = after_an_exchange();
    let metrics = gateway.metrics_address();
    let folder = folder();
    let toml = config(&format!("metrics = '{metrics}'"));
    fs::write(folder.path().join("zgateway.toml"), toml).expect("there is room");
    for args in
        [["status", "--metrics", &metrics.to_string()], ["status", "--config", "zgateway.toml"]]
    {
        let output = Example::start("zgateway", &args, &folder).output();
        let [table @ .., _, request, reply] = &output[..] else { panic!("{output:#?}") };
        let expected = "\
group  in  bytes  forwarded  bytes  queued  bytes  held
chat    1   10 B          1    9 B       0    0 B     0
scene   1    5 B          1    4 B       0    0 B     0

reply type  out  bytes
1             1   10 B
2             1    8 B

connections      1  by thread: 0 = 1
accepted         2
closed           1  by reason: left = 1
throttled        0
replies dropped  1  by reason: malformed = 1

";
        assert_eq!(table, expected.lines().map(str::to_owned).collect::<Vec<_>>());
        assert!(request.starts_with("request") && reply.starts_with("reply"), "{output:#?}");
    }
    gateway.end();
}

#[test]
fn the_demo_ends_by_itself() {
    let folder = folder();
    let args = ["demo", "--duration", "500ms", "--connections", "10"];
    let (status, output, errors) = Example::start("zgateway", &args, &folder).outcome();
    assert!(status.success(), "{status}: {errors}");
    for part in ["Clients connect to ", "connections  10, 0 ended early", "10 clients"] {
        assert!(output.iter().any(|line| line.contains(part)), "{part}: {output:#?}");
    }
}

#[test]
fn the_load_finds_nothing_wrong() {
    let gateway = Gateway::start("");
    // Two processes, so that replies come out of order, of another type.
    let echoes = [gateway.echo("chat", 2), gateway.echo("chat", 2)];
    let clients = gateway.clients.to_string();
    let args = ["load", "--connect", &clients, "--connections", "20", "--duration", "500ms"];
    for (reply_type, code) in [("2", 0), ("1", 1)] {
        let args = [&args[..], &["--reply-type", reply_type, "--json"]].concat();
        let (status, output, errors) = Example::start("zgateway", &args, &folder()).outcome();
        assert_eq!(status.code(), Some(code), "{output:?} {errors}");
        let [line] = &output[..] else { panic!("{output:#?}") };
        let report: serde_json::Value = serde_json::from_str(line).expect(line);
        assert_eq!((&report["connections"], &report["ended_early"]), (&20.into(), &0.into()));
        assert_eq!(report["mistyped"] != 0, code == 1, "{line}");
        assert!(report["received"].as_u64() > Some(0), "{line}");
    }
    gateway.wait_for_closed("left", 40);
    let summary = gateway.end();
    assert_eq!(summary.clients, 40);
    assert_eq!((summary.requests, summary.unanswered), (summary.replies, 0));
    for echo in echoes {
        echo.signal(Signal::SIGTERM);
        let output = echo.output();
        assert!(output[1].ends_with(" messages sent back"), "{output:?}");
    }
}

#[test]
fn the_load_finds_a_gateway_that_dies() {
    let gateway = Gateway::start("");
    let _echo = gateway.echo("chat", 1);
    let clients = gateway.clients.to_string();
    let args = ["load", "--connect", &clients, "--connections", "20", "--duration", "1h", "--json"];
    let load = Example::start("zgateway", &args, &folder());
    gateway.wait_until("it is at work", |metrics| metrics.sum("zgateway_replies_total", &[]) > 100);
    gateway.signal(Signal::SIGKILL);
    let (status, output, errors) = load.outcome();
    assert_eq!(status.code(), Some(1), "{errors}");
    let report: serde_json::Value = serde_json::from_str(&output[0]).expect(&output[0]);
    assert_eq!(report["ended_early"], 20);
}

#[test]
fn it_goes_on_when_nobody_reads_its_log() {
    let mut gateway = Gateway::start_with("", &["--log", "trace"]);
    gateway.process.stop_reading_errors();
    let back_end = gateway.back_end("chat", 1);
    for _ in 0..10 {
        let mut client = gateway.client();
        client.send(1, "hello");
        back_end.echo(1);
        client.expect(1, "hello");
    }
    gateway.wait_for_closed("left", 10);
    assert_eq!(gateway.end().replies, 10);
}
