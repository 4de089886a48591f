//! Back-end processes: they die and come back, share a group's messages, stall, answer in any order
//! and are written in Python.
//!
//! `ZKIT_ZGATEWAY_SECONDS=20 cargo test --test zgateway` puts the load on for longer.

use std::collections::BTreeSet;
use std::env;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use zkit::{SocketType, ZContext, ZSock};

#[path = "../interop/python.rs"]
mod python;

use crate::common::{DEADLINE, Example, folder, within};
use crate::gateway::{Addressed, Client, Gateway};
use crate::staff::Worker;

/// `zgateway echo` as a process of the group "chat".
fn echo(gateway: &Gateway, folder: &TempDir) -> Example {
    let args = ["echo", "--pull", gateway.group("chat"), "--push", gateway.replies(1)];
    Example::start("zgateway", &args, folder)
}

/// A client that always has some messages under way, and gets its replies in order.
struct Window {
    client: Client,
    sent: usize,
}

impl Window {
    const SIZE: usize = 8;

    #[track_caller]
    fn goes_on(&mut self) {
        for _ in 0..4 * Window::SIZE {
            self.client.send(2, self.sent.to_string());
            if let Some(due) = self.sent.checked_sub(Window::SIZE) {
                self.client.expect(2, due.to_string());
            }
            self.sent += 1;
        }
    }

    #[track_caller]
    fn end(mut self) {
        for due in self.sent - Window::SIZE..self.sent {
            self.client.expect(2, due.to_string());
        }
    }
}

/// With a process that is killed are lost: what ZeroMQ and TCP had handed to it, what the gateway's
/// ZeroMQ holds for it (`hwm`), and what it is given until its end is noticed. Here the process has
/// answered everything when it is killed, and what is sent until then, the probes, may be lost. From
/// when one of them waits in the gateway, because there is no process, nothing is.
#[test]
fn messages_wait_for_a_process_that_is_started_again() {
    const MESSAGES: usize = 100;

    let folder = folder();
    // There are more messages than there is room for: the rest waits with the client.
    let gateway = Gateway::start(
        "group = [{ name = 'chat', type = 1, queue = 20 }, { name = 'scene', type = 2 }]",
    );
    let scene = Worker::echo(gateway.back_end("scene", 2));
    let mut other = Window { client: gateway.client(), sent: 0 };
    let mut client = gateway.client();
    let mut chat = echo(&gateway, &folder);
    for life in 1..=3 {
        client.send(1, "hello");
        client.expect(1, "hello");
        chat.signal(Signal::SIGKILL);
        drop(chat);
        let chats = |name| gateway.metric(name, &[("group", "chat")]);
        for probes in chats("zgateway_requests_total").. {
            client.send(1, "probe");
            gateway.wait_for("zgateway_requests_total", &[("group", "chat")], probes + 1);
            // The worker that sends to this group sends to that one after it.
            other.goes_on();
            if chats("zgateway_forwarded_total") <= probes {
                break;
            }
        }
        for number in 0..MESSAGES {
            client.send(1, format!("{life}, {number}"));
        }
        gateway.wait_until("the queue is full", |metrics| {
            metrics.sum("zgateway_queue_messages", &[("group", "chat")]) >= 10
        });
        other.goes_on();
        chat = echo(&gateway, &folder);
        let mut first = client.recv();
        while first == (1, "probe".into()) {
            first = client.recv();
        }
        assert_eq!(first, (1, format!("{life}, 0").into()));
        for number in 1..MESSAGES {
            client.expect(1, format!("{life}, {number}"));
        }
        other.goes_on();
    }
    other.end();
    drop((chat, scene));
    // Some of its probes may have no reply, which it does not wait for.
    client.reset();
    gateway.wait_for_connections(0);
    gateway.end();
}

#[test]
fn a_process_that_stalls_holds_up_its_own_share_only() {
    const MESSAGES: usize = 300;
    /// So long that the system does not hold many of them.
    const BODY: usize = 60_000;

    let gateway = Gateway::start("group = [{ name = 'chat', type = 1, hwm = 3 }]");
    let ctx = ZContext::builder().signals(false).linger(Some(Duration::ZERO)).build();
    let ctx = ctx.expect("there is room for a context");
    let stalled = ctx.socket(SocketType::Pull).expect("there is room for a socket");
    stalled.set_rcvhwm(Some(1)).expect("a mark");
    stalled.set_rcvbuf(Some(4096)).expect("a buffer");
    stalled.connect(gateway.group("chat")).expect("a good endpoint");
    let answered = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let workers = answered.each_ref().map(|answered| {
        let answered = Arc::clone(answered);
        Worker::start(gateway.back_end("chat", 1), move |back_end, message| {
            if let Some(Addressed { id, body }) = message {
                back_end.reply(id, &body[..4]);
                answered.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let answered = || answered.each_ref().map(|answered| answered.load(Ordering::Relaxed));

    let mut client = gateway.client();
    let mut hellos = 0;
    let give_up = Instant::now() + DEADLINE;
    while stalled.recv_timeout(Duration::from_millis(5)).is_err() {
        client.send(1, [0; 4]);
        hellos += 1;
        assert!(Instant::now() < give_up, "it has no share");
    }
    let mut message = vec![0; BODY];
    for number in 1..=MESSAGES as u32 {
        message[..4].copy_from_slice(&number.to_be_bytes());
        client.send(1, &message);
    }
    // Nothing waits in the gateway, though the one process takes no more.
    gateway.wait_for("zgateway_forwarded_total", &[], (hellos + MESSAGES) as u64);

    let (mut numbers, mut hellos_stalled) = (BTreeSet::new(), 1);
    while answered().iter().sum::<usize>() + hellos_stalled + numbers.len() < hellos + MESSAGES {
        assert!(Instant::now() < give_up, "messages are lost");
        match number(&stalled) {
            Some(0) => hellos_stalled += 1,
            Some(number) => assert!(numbers.insert(number), "{number} came twice"),
            None => {}
        }
    }
    let share = numbers.len();
    for _ in 0..hellos + MESSAGES - hellos_stalled - share {
        let (_, body) = client.recv();
        let number = u32::from_be_bytes(body.try_into().expect("a number"));
        assert!(number == 0 || numbers.insert(number), "{number} came twice");
    }
    assert_eq!(numbers.len(), MESSAGES);
    let answered = answered();
    println!("the process that stalled had {share}, the others {answered:?}");
    assert!((1..MESSAGES / 4).contains(&share), "{share}");
    assert!(answered.iter().all(|&answered| answered > MESSAGES / 5), "{answered:?}");
    drop(workers);
    // Some of its messages have no reply, which it does not wait for.
    client.reset();
    gateway.wait_for_connections(0);
    gateway.end();
}

/// The number of the next message, if there is one.
fn number(pull: &ZSock) -> Option<u32> {
    let frame = pull.recv_frame_timeout(Duration::from_millis(5)).ok()?;
    let (number, _) = frame.get(4..)?.split_first_chunk()?;
    Some(u32::from_be_bytes(*number))
}

/// Three groups, whose names, types of messages and types of replies are all different.
const THREE: &str = "
    group = [
        { name = 'chat', type = 1 },
        { name = 'scene', type = 2 },
        { name = 'fight', type = 3 },
    ]
    reply = [{ type = 11 }, { type = 12 }, { type = 13 }]
";
const GROUPS: [(&str, u8, u8); 3] = [("chat", 1, 11), ("scene", 2, 12), ("fight", 3, 13)];

#[test]
fn python_is_a_back_end_and_a_client() {
    let python = match python::with_pyzmq() {
        Ok(python) => python,
        Err(why) => {
            assert!(env::var_os("ZKIT_REQUIRE_INTEROP").is_none(), "pyzmq is missing: {why}");
            eprintln!("skipped: pyzmq is missing: {why}");
            return;
        }
    };
    let start = |args: &[&str]| {
        Command::new(&python)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/zgateway.py"))
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts")
    };
    let gateway = Gateway::start(THREE);
    let back_ends = GROUPS.map(|(group, _, reply)| {
        let name = format!(" by {group}");
        start(&["back-end", gateway.group(group), gateway.replies(reply), &name])
    });
    let clients = GROUPS.map(|(group, kind, reply)| {
        let (kind, reply) = (kind.to_string(), reply.to_string());
        let address = gateway.clients.to_string();
        start(&["client", &address, &kind, &reply, &format!(" by {group}")])
    });
    for client in clients {
        let output = within(DEADLINE, "a client in Python", || client.wait_with_output());
        let output = output.expect("it ends");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "104 replies\n");
    }
    for (group, kind, reply) in GROUPS {
        let mut client = gateway.client();
        client.send(kind, "from Rust");
        client.expect(reply, format!("from Rust by {group}"));
    }
    for mut back_end in back_ends {
        back_end.kill().and_then(|()| back_end.wait()).expect("it runs");
    }
    gateway.wait_for_connections(0);
    let summary = gateway.end();
    assert_eq!((summary.requests, summary.replies, summary.unanswered), (315, 315, 0));
}

#[test]
fn a_load_on_three_groups_whose_processes_answer_in_any_order() {
    let seconds = env::var("ZKIT_ZGATEWAY_SECONDS").ok().and_then(|text| text.parse().ok());
    let seconds: u64 = seconds.unwrap_or(2);
    let folder = folder();
    let gateway = Gateway::start(THREE);
    let staff = GROUPS.map(|(group, _, reply)| {
        [1, 2, 3].map(|seed| Worker::echo_late(gateway.back_end(group, reply), 30, seed))
    });
    let clients = gateway.clients.to_string();
    let loads = GROUPS.map(|(_, kind, reply)| {
        let (kind, reply, duration) = (kind.to_string(), reply.to_string(), format!("{seconds}s"));
        let args = ["load", "--connect", &clients, "--connections", "100", "--type", &kind];
        let more = ["--reply-type", &reply, "--duration", &duration, "--wait", "20s"];
        Example::start("zgateway", &[&args[..], &more].concat(), &folder)
    });
    // What it printed says what was lost, crossed or came twice.
    for load in loads {
        let (status, output, errors) = load.outcome();
        println!("{}", output.join("\n"));
        assert!(status.success(), "{output:#?} {errors}");
    }
    drop(staff);
    gateway.wait_for_connections(0);
    let summary = gateway.end();
    assert_eq!(summary.unanswered, 0);
    assert_eq!((summary.forwarded, summary.replies), (summary.requests, summary.requests));
    assert!(summary.clients == 300 && summary.requests > 1_000, "{summary:?}");
}
