//! Each kind of mistake, and what is said of it.

use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::{Config, Group};

const SAMPLE: &str = include_str!("../zgateway.toml");

const LISTEN: &str = "listen = '127.0.0.1:8888'";
const GROUP: &str = "[[group]]\nname = 'chat'\ntype = 1\nbind = 'tcp://*:1111'";
const REPLY: &str = "[[reply]]\ntype = 1\nbind = 'ipc:///tmp/reply'";

/// The least that there can be, with `more` of the top level on line 2.
fn with(more: &str) -> String {
    [LISTEN, more, GROUP, REPLY, ""].join("\n")
}

fn message(text: &str) -> String {
    Config::parse(text).expect_err(text).to_string()
}

/// That `more` is refused, on line 2, for each of these reasons.
fn refused(more: &str, why: &str) {
    let message = message(&with(more));
    assert!(message.starts_with(&format!("line 2, `{more}`: ")), "{message}");
    assert!(message.contains(why), "{message:?} does not say {why:?}");
}

/// That `to` instead of `from` is refused, on the line where it stands.
fn refused_instead(from: &str, to: &str, why: &str) {
    let text = with("").replacen(from, to, 1);
    let message = message(&text);
    assert!(message.contains(&format!("`{to}`: ")), "{message}");
    assert!(message.contains(why), "{message:?} does not say {why:?}");
}

#[test]
fn the_sample_has_the_defaults() {
    let sample = Config::parse(SAMPLE).expect("the sample is good");
    let least = Config::parse(&with("")).expect("the least is good");
    let defaults = Config {
        listen: sample.listen,
        groups: sample.groups.clone(),
        replies: sample.replies.clone(),
        metrics: sample.metrics,
        ..least.clone()
    };
    assert_eq!(sample, defaults);
    for group in &sample.groups {
        let Group { name, kind, bind, .. } = group.clone();
        assert_eq!(*group, Group { name, kind, bind, ..least.groups[0].clone() });
    }
    assert_eq!(least.metrics, None);
}

#[test]
fn the_sample_has_every_key() {
    let sample = DeTable::parse(SAMPLE).expect("the sample is good");
    let sample = DeValue::Table(sample.into_inner());
    for (path, text) in [
        ("", with("no_key = 1")),
        ("limits.", with("limits.no_key = 1")),
        ("log.", with("log.no_key = 1")),
        ("group.0.", with("").replace("name", "no_key = 1\nname")),
        ("reply.0.", with("").replace("[[reply]]", "[[reply]]\nno_key = 1")),
    ] {
        // Serde lists what it knows.
        let message = message(&text);
        let (_, known) = message.split_once("expected").expect(&message);
        let keys: Vec<_> = known.split('`').skip(1).step_by(2).collect();
        assert!(keys.len() > 1, "{message}");
        for key in keys {
            let path = format!("{path}{key}");
            let value = path.split('.').try_fold(&sample, |value, key| match value {
                DeValue::Table(table) => table.get(key).map(|value| value.get_ref()),
                DeValue::Array(array) => {
                    array.get(key.parse::<usize>().ok()?).map(|value| value.get_ref())
                }
                _ => None,
            });
            assert!(value.is_some(), "the sample has no {path}");
        }
    }
}

#[test]
fn what_is_missing() {
    assert_eq!(message(""), "missing field `listen`");
    assert_eq!(message("# nothing\n[limits]"), "missing field `listen`");
    assert_eq!(
        message(LISTEN),
        "2 problems\n  there is no [[group]]; at least one is needed\n  there is no [[reply]]; at \
         least one is needed"
    );
    assert_eq!(
        message(&with("").replacen("type = 1", "", 1)),
        "line 3, `[[group]]`: missing field `type`"
    );
}

#[test]
fn what_is_unknown() {
    refused("colour = 1", "unknown field `colour`, expected one of `listen`");
    refused("limits.idel = 1", "unknown field `idel`, expected one of `connections`");
    refused("log.file = 'x'", "unknown field `file`, expected `level` or `format`");
    refused_instead("name = 'chat'", "nmae = 'chat'", "unknown field `nmae`");
    refused("log.level = 'loud'", "`loud`, expected one of `error`, `warn`, `info`");
    refused("log.format = 'xml'", "`xml`, expected `text` or `json`");
    refused("hello", "key with no value");
}

#[test]
fn numbers_are_whole_and_in_their_range() {
    let threads = "expected a whole number from 1 to 64";
    for wrong in ["0", "65", "-1", "'2'", "1.5", "true", "[]", "99999999999999999999"] {
        refused(&format!("io_threads = {wrong}"), threads);
    }
    refused("limits.connections = 0", "from 1 to 1000000");
    refused("limits.connections = 1000001", "from 1 to 1000000");
    refused("limits.body = 268435457", "from 1 to 268435456");
    refused("limits.outgoing = 0", "from 1 to 1073741824");
    refused("limits.messages_per_second = 0", "from 1 to 4294967295, or \"off\"");
    refused("limits.bytes_per_second = 'of'", "from 1 to 4294967295, or \"off\"");
    refused_instead("type = 1", "type = 256", "from 0 to 255");
    refused_instead("type = 1", "type = -1", "from 0 to 255");
}

#[test]
fn times_have_a_unit_and_are_above_zero() {
    for wrong in ["10", "'10'", "'0s'", "'-1s'", "'2y'", "'soon'", "'99999999999999y'"] {
        for key in ["grace", "limits.idle", "limits.message_time"] {
            refused(&format!("{key} = {wrong}"), "expected a time from \"1ms\" to \"365d\"");
        }
    }
    refused("grace = 'off'", "expected a time");
    let config = Config::parse(&with("limits.idle = 'off'\ngrace = '1m 30s'")).expect("good");
    assert_eq!((config.limits.idle, config.grace), (None, Duration::from_secs(90)));
}

#[test]
fn addresses_and_endpoints() {
    refused("metrics = 'localhost:9100'", "expected an IP address and a port");
    refused("metrics = '127.0.0.1'", "expected an IP address and a port");
    for wrong in [
        "tcp://*:5555x",
        "tcp://*:65536",
        "tcp://*:-1",
        "tcp://*:+1",
        "tcp://*",
        "tcp://:5555",
        "tcp:// *:5555",
        "ipc://",
        "inproc://chat",
        "udp://*:5555",
        "*:5555",
        "",
    ] {
        let bind = format!("bind = '{wrong}'");
        refused_instead("bind = 'tcp://*:1111'", &bind, "expected an endpoint to bind");
    }
    for right in ["tcp://*:*", "tcp://[::1]:5555", "tcp://eth0:5555", "ipc://@chat", "ipc://*"] {
        Config::parse(&with("").replace("tcp://*:1111", right)).expect(right);
    }
    let long = format!("ipc:///{}", "x".repeat(107));
    message(&with("").replace("tcp://*:1111", &long));
}

#[test]
fn lists() {
    refused("allow = '10.0.0.0/8'", "expected a list");
    refused("allow = ['10.0.0.0']", "expected a network, such as \"10.0.0.0/8\"");
    refused("allow = ['10.0.0.0/33']", "expected a network");
    refused("limits = 5", "expected a table, [limits]");
    refused_instead("[[group]]", "[group]", "expected a list");
}

#[test]
fn who_is_allowed() {
    let allows = |allow: &str, from: &str| {
        let config = Config::parse(&with(allow)).expect(allow);
        config.allows(from.parse().expect(from))
    };
    assert!(allows("", "10.1.2.3") && allows("", "::1"));
    assert!(allows("allow = ['10.0.0.0/8', '::1/128']", "10.1.2.3"));
    assert!(allows("allow = ['10.0.0.0/8', '::1/128']", "::ffff:10.1.2.3"));
    assert!(allows("allow = ['10.0.0.0/8', '::1/128']", "::1"));
    assert!(!allows("allow = ['10.0.0.0/8', '::1/128']", "11.1.2.3"));
    assert!(!allows("allow = ['10.0.0.0/8', '::1/128']", "::2"));
}

#[test]
fn limits_that_do_not_fit_each_other() {
    refused("limits = { body = 100, outgoing = 104 }", "outgoing is 104, but a body of 100 bytes");
    Config::parse(&with("limits = { body = 100, outgoing = 105 }")).expect("room for a header");
    // An id has 24 bits for the thread and the connection.
    for (io_threads, most) in [(1, 1_000_000), (16, 1_000_000), (17, 524_288), (64, 262_144)] {
        let limits = |most| {
            let group = "queue_bytes = 100_000_000\nname";
            with(&format!("limits.connections = {most}\nio_threads = {io_threads}"))
                .replace("name", group)
        };
        Config::parse(&limits(most)).expect("an id has room");
        message(&limits(most + 1));
    }
    let small = with("").replace("name", "queue = 1\nqueue_bytes = 131081\nname");
    assert_eq!(
        message(&small),
        "2 problems\n  line 4, `queue = 1`: queue is 1, but a message for each of 2 I/O threads \
         needs 2 at least\n  line 5, `queue_bytes = 131081`: queue_bytes is 131081, but a body of \
         65536 bytes and its header for each of 2 I/O threads need 131082 at least"
    );
    // A default is wrong where it could have been given.
    let message = message(&with("limits = { body = 10_000_000, outgoing = 20_000_000 }"));
    assert!(message.starts_with("line 3, `[[group]]`: queue_bytes is 16777216, but"), "{message}");
}

#[test]
fn what_must_be_unique() {
    let twice = [LISTEN, GROUP, GROUP, REPLY, REPLY].join("\n");
    assert_eq!(
        message(&twice),
        "4 problems\n  line 7, `name = 'chat'`: another group is named \"chat\" too; names are \
         unique\n  line 8, `type = 1`: group \"chat\" has type 1 too; types are unique\n  line 9, \
         `bind = 'tcp://*:1111'`: *:1111 cannot be bound twice, and bind of [[group]] 1 has \
         it\n  line 15, `bind = 'ipc:///tmp/reply'`: /tmp/reply cannot be bound twice, and bind of \
         [[reply]] 1 has it"
    );
    refused("metrics = '0.0.0.0:8888'", "0.0.0.0:8888 cannot be bound twice, and listen has it");
    let wildcards =
        with("").replace("tcp://*:1111", "tcp://*:*").replace("ipc:///tmp/reply", "tcp://*:*");
    Config::parse(&wildcards).expect("ports of the system's choice do not clash");
}

#[test]
fn lines_are_quoted_without_what_a_terminal_would_obey() {
    let message = message(&format!("x = \"\u{1b}[2J{}", "y".repeat(1_000)));
    assert!(message.starts_with("line 1, `x = \"?[2Jyyy"), "{message}");
    assert!(message.len() < 250, "{message}");
}

#[test]
fn files_that_cannot_be_read() {
    let dir = tempfile::tempdir().expect("a directory");
    for (path, why) in [
        (dir.path().to_path_buf(), "Is a directory"),
        (dir.path().join("none.toml"), "No such file"),
    ] {
        let message = format!("{:#}", Config::load(&path).expect_err("no file"));
        let what = format!("cannot read the configuration {}: {why}", path.display());
        assert!(message.starts_with(&what), "{message}");
    }
}
