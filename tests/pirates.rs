//! The reliable request-reply examples as systems of processes that are killed, started again, told
//! nonsense and kept waiting.
//!
//! `ZKIT_PIRATES_SECONDS=600 cargo test --test pirates` kills for longer.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use zkit::{SocketType, ZContext, ZMsg, ZSock};

mod common;
use common::{DEADLINE, Example, assert_empty, folder};

/// For a client that is to wait for as long as the test does.
const PATIENT: &str = "600000";
/// For one that is to go on trying for as long as the test does.
const STUBBORN: &str = "1000000";

/// A context for the test's own part in a system.
fn context() -> ZContext {
    let ctx = ZContext::builder().signals(false).linger(Some(Duration::ZERO));
    ctx.build().expect("there is room for a context")
}

/// A socket of the test's own at `name` in the folder, bound or connected as `sign` says.
#[track_caller]
fn socket(ctx: &ZContext, kind: SocketType, sign: char, folder: &Path, name: &str) -> ZSock {
    let socket = ctx.socket(kind).expect("there is room for a socket");
    let endpoint = format!("{sign}ipc://{}", folder.join(name).display());
    socket.attach(&endpoint, zkit::Attach::Connect).expect("there is room in the folder");
    socket
}

#[track_caller]
fn recv(socket: &ZSock) -> ZMsg {
    socket.recv_timeout(DEADLINE).expect("a message")
}

/// Asserts that a client printed nothing but replies from number `first` on, one after the other, and
/// that it tried again; returns the number after the last.
#[track_caller]
fn replies(output: &[String], first: u64) -> u64 {
    let mut next = first;
    for line in output {
        if *line == format!("I: server replied OK ({next})") {
            next += 1;
        } else {
            let other = ["I: connecting to server...", "W: no response from server, retrying..."];
            assert!(other.contains(&&line[..]), "instead of number {next}: {line}");
        }
    }
    next
}

mod lazy {
    use super::*;

    #[test]
    fn client_and_server_say_what_the_guides_say() {
        let folder = folder();
        let args = ["ipc://server", "--work", "0", "--reliable"];
        let server = Example::start("lpserver", &args, &folder);
        assert_eq!(server.line(), "I: listening at ipc://server");
        let args = ["ipc://server", "3", "--timeout", PATIENT];
        assert_eq!(
            Example::start("lpclient", &args, &folder).output(),
            [
                "I: connecting to server...",
                "I: server replied OK (1)",
                "I: server replied OK (2)",
                "I: server replied OK (3)",
            ]
        );
        for number in 1..=3 {
            assert_eq!(server.line(), format!("I: normal request ({number})"));
        }
        server.signal(Signal::SIGINT);
        assert_eq!(server.output(), [""; 0]);
        assert_empty(&folder);
    }

    #[test]
    fn a_client_gets_through_to_a_server_that_was_killed_and_started_again() {
        for endpoint in ["tcp://127.0.0.1:*", "ipc://server"] {
            let folder = folder();
            let serve = |endpoint: &str| {
                let args = [endpoint, "--work", "1", "--reliable"];
                let server = Example::start("lpserver", &args, &folder);
                let listening = server.line();
                let endpoint = listening.strip_prefix("I: listening at ").expect(&listening);
                (server, endpoint.to_owned())
            };
            let (mut server, endpoint) = serve(endpoint);
            let args = [&endpoint, "--timeout", "200", "--retries", STUBBORN];
            let client = Example::start("lpclient", &args, &folder);
            for _ in 0..3 {
                client.line_with("I: server replied OK");
                server.signal(Signal::SIGKILL);
                assert_eq!(server.end().0.signal(), Some(Signal::SIGKILL as i32));
                client.lines();
                client.line_with("W: no response from server, retrying...");
                (server, _) = serve(&endpoint);
            }
            client.line_with("I: server replied OK");
            client.signal(Signal::SIGINT);
            client.output();
            server.signal(Signal::SIGINT);
            server.output();
            assert_empty(&folder);
        }
    }

    #[test]
    fn a_client_without_a_server_gives_up() {
        let folder = folder();
        let args = ["ipc://server", "--timeout", "50", "--retries", "4"];
        let (status, output, errors) = Example::start("lpclient", &args, &folder).outcome();
        assert_eq!(status.code(), Some(1));
        assert_eq!(
            output,
            [
                "I: connecting to server...",
                "W: no response from server, retrying...",
                "W: no response from server, retrying...",
                "W: no response from server, retrying...",
                "E: server seems to be offline, abandoning",
            ]
        );
        assert_eq!(errors, "Error: request 1 got no reply\n");
        assert_empty(&folder);
    }

    #[test]
    fn a_client_may_start_before_its_server() {
        let folder = folder();
        let args = ["ipc://server", "2", "--timeout", "200", "--retries", STUBBORN];
        let client = Example::start("lpclient", &args, &folder);
        client.line_with("W: no response from server, retrying...");
        let args = ["ipc://server", "--work", "0", "--reliable"];
        let server = Example::start("lpserver", &args, &folder);
        assert_eq!(replies(&client.output(), 1), 3);
        server.signal(Signal::SIGINT);
        server.output();
        assert_empty(&folder);
    }

    #[test]
    fn both_end_on_a_signal_in_the_middle_of_their_work() {
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let folder = folder();
            let args = ["ipc://server", "--work", PATIENT, "--reliable"];
            let server = Example::start("lpserver", &args, &folder);
            let args = ["ipc://server", "--timeout", PATIENT];
            let client = Example::start("lpclient", &args, &folder);
            server.line_with("I: normal request (1)");
            for example in [client, server] {
                example.signal(signal);
                example.output();
            }
            assert_empty(&folder);
        }
    }

    /// A client of a server that replies whatever it is told to, once the client has ended.
    fn deceived(folder: &TempDir, args: &[&str], say: impl Fn(usize) -> ZMsg) -> Example {
        let ctx = context();
        let server = socket(&ctx, SocketType::Rep, '@', folder.path(), "server");
        let args = [&["ipc://server", "1", "--timeout", PATIENT], args].concat();
        let mut client = Example::start("lpclient", &args, folder);
        let give_up = Instant::now() + DEADLINE;
        let mut requests = 0;
        while !client.has_ended() {
            assert!(Instant::now() < give_up, "it goes on for ever");
            if let Ok(request) = server.recv_timeout(Duration::from_millis(10)) {
                assert_eq!(request, "1".into());
                server.send(say(requests)).unwrap();
                requests += 1;
            }
        }
        client
    }

    #[test]
    fn a_client_takes_no_reply_but_its_own() {
        let folder = folder();
        let say = |request| match request {
            0 => "2".into(),
            1 => "".into(),
            2 => b"\xFF\xFE".into(),
            3 => ("1", "1").into(),
            _ => "1".into(),
        };
        assert_eq!(
            deceived(&folder, &["--retries", "5"], say).output(),
            [
                "I: connecting to server...",
                "E: malformed reply from server: 2",
                "E: malformed reply from server: ",
                "E: malformed reply from server",
                "E: malformed reply from server",
                "I: server replied OK (1)",
            ]
        );
        assert_empty(&folder);
    }

    #[test]
    fn a_client_gives_up_on_a_server_that_talks_nonsense() {
        let folder = folder();
        let client = deceived(&folder, &["--retries", "3"], |_| "nonsense".into());
        let (status, output, errors) = client.outcome();
        assert_eq!(status.code(), Some(1));
        assert_eq!(output.len(), 5, "{output:#?}");
        for line in &output[1..4] {
            assert_eq!(line, "E: malformed reply from server: nonsense");
        }
        assert_eq!(output[4], "E: server seems to be offline, abandoning");
        assert_eq!(errors, "Error: request 1 got no reply\n");
    }

    #[test]
    fn a_late_reply_is_not_taken_for_that_of_a_later_request() {
        let folder = folder();
        let ctx = context();
        let server = socket(&ctx, SocketType::Router, '@', folder.path(), "server");
        let args = ["ipc://server", "--timeout", "200", "--retries", STUBBORN];
        let client = Example::start("lpclient", &args, &folder);
        let mut late = recv(&server);
        client.line_with("W: no response from server, retrying...");
        let mut again = recv(&server);
        assert_ne!(late.first(), again.first(), "it is to be a new socket");
        late.last_mut().unwrap().reset("late");
        server.send(late).unwrap();
        let mut output = Vec::new();
        let give_up = Instant::now() + DEADLINE;
        while !output.contains(&"I: server replied OK (2)".to_owned()) {
            assert!(Instant::now() < give_up, "{output:#?}");
            server.send(again).unwrap();
            again = recv(&server);
            output.extend(client.lines());
        }
        client.signal(Signal::SIGINT);
        output.extend(client.output());
        assert!(replies(&output, 1) > 2);
        drop(server);
        assert_empty(&folder);
    }

    /// Gives a server as many requests, or until it has ended; returns what it printed.
    fn wear_out(args: &[&str], requests: u32) -> Vec<String> {
        let folder = folder();
        let args = [&["ipc://server", "--work", "0"], args].concat();
        let mut server = Example::start("lpserver", &args, &folder);
        let ctx = context();
        let client = socket(&ctx, SocketType::Dealer, '>', folder.path(), "server");
        let mut request = 0;
        while request < requests && !server.has_ended() {
            request += 1;
            client.send(("", request.to_string())).unwrap();
            let give_up = Instant::now() + DEADLINE;
            while client.recv_timeout(Duration::from_millis(10)).is_err() && !server.has_ended() {
                assert!(Instant::now() < give_up, "it neither replies nor ends");
            }
        }
        if !server.has_ended() {
            server.signal(Signal::SIGINT);
        }
        server.output()
    }

    #[test]
    fn a_seeded_server_fails_at_the_same_requests_each_time() {
        let runs =
            ["13", "13", "18"].map(|seed| thread::spawn(move || wear_out(&["--seed", seed], 1000)));
        let [one, again, other] = runs.map(|run| run.join().unwrap());
        assert_eq!(one.last().unwrap(), "I: simulating a crash");
        assert!(one.contains(&"I: simulating CPU overload".into()), "{one:#?}");
        for line in &one[1..4] {
            assert!(line.starts_with("I: normal request"), "not before the fourth: {one:#?}");
        }
        assert_eq!(one, again);
        assert_ne!(one, other);
    }

    #[test]
    fn a_reliable_server_never_fails() {
        let output = wear_out(&["--reliable", "--seed", "1"], 300);
        assert_eq!(output.len(), 301);
        for (number, line) in (1..).zip(&output[1..]) {
            assert_eq!(*line, format!("I: normal request ({number})"));
        }
    }
}

/// A queue, simple or paranoid, in a folder of its own.
struct Queue {
    kind: Kind,
    folder: TempDir,
    broker: Example,
    /// Between heartbeats, in milliseconds.
    heartbeat: &'static str,
    ctx: ZContext,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Simple,
    Paranoid,
}

const KINDS: [Kind; 2] = [Kind::Simple, Kind::Paranoid];

/// What a worker sends first.
const READY: &[u8] = b"\x01";
const HEARTBEAT: &[u8] = b"\x02";

impl Queue {
    /// A queue that is in no hurry to take anybody for dead.
    #[track_caller]
    fn start(kind: Kind) -> Queue {
        Queue::beating(kind, "500")
    }

    #[track_caller]
    fn beating(kind: Kind, heartbeat: &'static str) -> Queue {
        let folder = folder();
        let broker = Queue::broker(kind, &folder, heartbeat);
        Queue { kind, folder, broker, heartbeat, ctx: context() }
    }

    #[track_caller]
    fn broker(kind: Kind, folder: &TempDir, heartbeat: &str) -> Example {
        let places = ["ipc://front", "ipc://back"];
        let broker = match kind {
            Kind::Simple => Example::start("spqueue", &places, folder),
            Kind::Paranoid => {
                let args = [places[0], places[1], "--heartbeat", heartbeat];
                Example::start("ppqueue", &args, folder)
            }
        };
        assert_eq!(broker.line(), "I: listening at ipc://front");
        assert_eq!(broker.line(), "I: listening at ipc://back");
        broker
    }

    /// Kills the broker, and starts it again where it was.
    #[track_caller]
    fn restart(&mut self) {
        self.kill();
        self.broker = Queue::broker(self.kind, &self.folder, self.heartbeat);
    }

    #[track_caller]
    fn kill(&mut self) {
        self.broker.signal(Signal::SIGKILL);
        assert_eq!(self.broker.end().0.signal(), Some(Signal::SIGKILL as i32));
    }

    #[track_caller]
    fn worker(&self, args: &[&str]) -> Example {
        let beats = ["--heartbeat", self.heartbeat, "--reconnect", "50", "--reconnect-max", "200"];
        let (name, beats) = match self.kind {
            Kind::Simple => ("spworker", &[][..]),
            Kind::Paranoid => ("ppworker", &beats[..]),
        };
        Example::start(name, &[&["ipc://back"], beats, args].concat(), &self.folder)
    }

    /// A worker that echoes at once, and never fails.
    #[track_caller]
    fn good_worker(&self) -> Example {
        self.worker(&["--work", "0", "--reliable"])
    }

    #[track_caller]
    fn client(&self, args: &[&str]) -> Example {
        Example::start("lpclient", &[&["ipc://front"], args].concat(), &self.folder)
    }

    /// Asserts that a client who may have to try again gets its replies.
    #[track_caller]
    fn assert_serves(&self) {
        let client = self.client(&["5", "--timeout", "300", "--retries", STUBBORN]);
        assert_eq!(replies(&client.output(), 1), 6);
    }

    /// Has clients ask until this worker replies, which the queue knows then.
    #[track_caller]
    fn put_to_work(&self, worker: &Example) {
        let give_up = Instant::now() + DEADLINE;
        while !worker.lines().iter().any(|line| line.ends_with("normal reply")) {
            assert!(Instant::now() < give_up, "it is given no request");
            self.assert_serves();
        }
    }

    /// Asserts that a client who tries but once gets its replies.
    #[track_caller]
    fn assert_serves_at_once(&self) {
        let client = self.client(&["20", "--timeout", "20000", "--retries", "1"]);
        assert_eq!(replies(&client.output(), 1), 21);
    }

    /// A bad worker, or one with something to hide.
    #[track_caller]
    fn stranger(&self) -> ZSock {
        socket(&self.ctx, SocketType::Dealer, '>', self.folder.path(), "back")
    }

    /// A client that does not do what a REQ does.
    #[track_caller]
    fn strange_client(&self) -> ZSock {
        socket(&self.ctx, SocketType::Dealer, '>', self.folder.path(), "front")
    }

    /// Ends the queue in order; returns what it printed since.
    #[track_caller]
    fn end(self) -> Vec<String> {
        self.broker.signal(Signal::SIGINT);
        let output = self.broker.output();
        assert_empty(&self.folder);
        output
    }
}

/// How long to kill.
fn time() -> Duration {
    let seconds = env::var("ZKIT_PIRATES_SECONDS")
        .map_or(2, |seconds| seconds.parse().expect("ZKIT_PIRATES_SECONDS is a number"));
    Duration::from_secs(seconds)
}

/// What the test's own clients have done.
#[derive(Debug, Default)]
struct Asked {
    replies: [AtomicU64; 4],
    is_over: AtomicBool,
}

impl Asked {
    /// The client `name` asks until it is over, again whenever no reply comes in time, and looks
    /// whether each reply is its own.
    fn ask(&self, name: usize, ctx: &ZContext, folder: &Path) {
        for request in 1_u64.. {
            let request = format!("client {name}, request {request}");
            loop {
                if self.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let client = socket(ctx, SocketType::Req, '>', folder, "front");
                client.send(request.clone()).unwrap();
                if let Ok(reply) = client.recv_timeout(Duration::from_millis(500)) {
                    assert_eq!(reply, request.into(), "it is another's");
                    self.replies[name].fetch_add(1, Ordering::Relaxed);
                    break;
                }
            }
        }
    }
}

/// Kills workers at random, and the queue as well if it `dies`, and starts them again all the while.
/// Every client gets each of its replies or says that it did not.
#[track_caller]
fn survive(kind: Kind, dies: bool) {
    let seed = env::var("ZKIT_PIRATES_SEED").map_or_else(
        |_| fastrand::u64(..),
        |seed| seed.parse().expect("ZKIT_PIRATES_SEED is a number"),
    );
    println!("ZKIT_PIRATES_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut queue = Queue::beating(kind, "100");
    let start = |queue: &Queue, random: &mut fastrand::Rng| {
        let (work, seed) = (random.u32(0..=5).to_string(), random.u32(..).to_string());
        let fails = if random.bool() { &["--seed", &seed][..] } else { &["--reliable"] };
        queue.worker(&[&["--work", &work], fails].concat())
    };
    let mut workers: Vec<_> = (0..4).map(|_| start(&queue, &mut random)).collect();
    let clients: Vec<_> =
        (0..6).map(|_| queue.client(&["--timeout", "500", "--retries", STUBBORN])).collect();
    let hurried = |queue: &Queue| queue.client(&["20", "--timeout", "100", "--retries", "2"]);
    let mut hurried_ones: Vec<_> = (0..2).map(|_| hurried(&queue)).collect();
    let asked = Arc::new(Asked::default());
    let askers: Vec<_> = (0..asked.replies.len())
        .map(|name| {
            let (asked, folder) = (Arc::clone(&asked), queue.folder.path().to_owned());
            thread::spawn(move || asked.ask(name, &context(), &folder))
        })
        .collect();

    let (mut gave_up, mut got_all) = (0, 0);
    let end = Instant::now() + time();
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(random.u64(20..150)));
        let one = random.usize(..workers.len());
        workers[one] = start(&queue, &mut random); // kills the one that was there
        for worker in &mut workers {
            if worker.has_ended() {
                *worker = start(&queue, &mut random);
            }
        }
        if dies && random.u32(..10) == 0 {
            queue.restart();
        }
        for client in &mut hurried_ones {
            if client.has_ended() {
                let (status, mut output, errors) =
                    std::mem::replace(client, hurried(&queue)).outcome();
                if status.success() {
                    assert_eq!(replies(&output, 1), 21);
                    got_all += 1;
                } else {
                    assert_eq!(output.pop().unwrap(), "E: server seems to be offline, abandoning");
                    let number = replies(&output, 1);
                    assert_eq!(errors, format!("Error: request {number} got no reply\n"));
                    gave_up += 1;
                }
            }
        }
    }

    // The queue has not stopped, for anybody.
    workers = (0..4).map(|_| queue.good_worker()).collect();
    queue.assert_serves();
    let before = asked.replies.each_ref().map(|replies| replies.load(Ordering::Relaxed));
    let give_up = Instant::now() + DEADLINE;
    for (replies, before) in asked.replies.iter().zip(before) {
        while replies.load(Ordering::Relaxed) == before {
            assert!(Instant::now() < give_up, "a client is served no more: {asked:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }
    asked.is_over.store(true, Ordering::Relaxed);
    askers.into_iter().for_each(|asker| asker.join().expect("only its own replies"));
    let mut served = 0;
    for client in clients {
        let mut output = client.lines();
        output.push(client.line_with("I: server replied OK"));
        client.signal(Signal::SIGINT);
        output.extend(client.output());
        served += replies(&output, 1) - 1;
    }
    println!("{served} replies and {asked:?}, {got_all} got all, {gave_up} gave up");
    for worker in workers {
        worker.signal(Signal::SIGINT);
        worker.output();
    }
    for line in queue.end() {
        let known = ["is gone", "has expired", "W: a reply was dropped: "];
        assert!(known.iter().any(|known| line.contains(known)), "{line}");
    }
}

#[test]
fn clients_survive_the_deaths_of_the_workers_of_a_simple_queue() {
    survive(Kind::Simple, false);
}

#[test]
fn clients_survive_the_deaths_of_the_workers_of_a_paranoid_queue() {
    survive(Kind::Paranoid, false);
}

#[test]
fn clients_survive_the_death_of_the_queue_itself() {
    survive(Kind::Paranoid, true);
}

/// Nonsense from a peer is a line in the log, and no more than that.
#[track_caller]
fn assert_ignores(kind: Kind, nonsense: Vec<ZMsg>, line: &str) {
    let queue = Queue::start(kind);
    let _worker = queue.good_worker();
    let bad = queue.stranger();
    for message in nonsense {
        bad.send(message).unwrap();
    }
    queue.broker.line_with(line);
    queue.assert_serves();
    drop(bad);
    queue.assert_serves();
    queue.end();
}

#[test]
fn an_empty_message_from_a_worker_is_ignored() {
    for kind in KINDS {
        assert_ignores(kind, vec!["".into()], "an empty message from a worker");
    }
}

#[test]
fn a_message_of_a_worker_that_means_nothing_is_ignored() {
    let lines = ["W: a reply was dropped: ", "E: invalid message from worker: "];
    for (kind, line) in KINDS.into_iter().zip(lines) {
        assert_ignores(kind, vec!["garbage".into()], line);
        assert_ignores(kind, vec![("", "").into()], line);
    }
}

#[test]
fn a_reply_for_nobody_is_ignored() {
    for kind in KINDS {
        for reply in [("nobody", "", "reply"), ("", "", ""), ("garbage", "more", "most")] {
            assert_ignores(kind, vec![reply.into()], "W: a reply was dropped: ");
        }
    }
}

#[test]
fn a_worker_that_is_ready_twice_is_free_but_once() {
    assert_ignores(Kind::Simple, vec![READY.into(), READY.into()], "was free already");

    let queue = Queue::beating(Kind::Paranoid, PATIENT);
    let worker = queue.stranger();
    worker.send(READY).unwrap();
    worker.send(READY).unwrap();
    // Should it get a request in between, then it is right to think it free again.
    worker.send("garbage").unwrap();
    queue.broker.line_with("invalid message from worker");
    let clients = [(); 2].map(|()| queue.client(&["1", "--timeout", PATIENT]));
    let request = next_request(&worker);
    let early = worker.recv_timeout(Duration::from_millis(300));
    assert!(early.is_err_and(|error| error.is_timeout()), "it is at work");
    worker.send(request).unwrap();
    worker.send(next_request(&worker)).unwrap();
    for client in clients {
        assert_eq!(replies(&client.output(), 1), 2);
    }
    queue.end();
}

#[test]
fn queues_workers_and_clients_end_on_a_signal_in_the_middle_of_their_work() {
    for (kind, signal) in KINDS.into_iter().zip([Signal::SIGINT, Signal::SIGTERM]) {
        let queue = Queue::start(kind);
        let worker = queue.worker(&["--work", PATIENT, "--reliable"]);
        let client = queue.client(&["--timeout", PATIENT]);
        worker.line_with("normal reply"); // which is said before
        for example in [client, worker] {
            example.signal(signal);
            example.output();
        }
        queue.end();
    }
}

#[test]
fn a_request_without_an_envelope_takes_no_worker_away() {
    for kind in KINDS {
        let queue = Queue::start(kind);
        let _worker = queue.good_worker();
        let bad = queue.strange_client();
        for message in [ZMsg::from("no delimiter"), "".into(), ("", "").into(), HEARTBEAT.into()] {
            bad.send(message).unwrap();
        }
        queue.assert_serves_at_once();
        queue.end();
    }
}

/// What a worker of the test's own is given.
#[track_caller]
fn next_request(worker: &ZSock) -> ZMsg {
    loop {
        let msg = recv(worker);
        if msg != HEARTBEAT.into() {
            return msg;
        }
    }
}

#[test]
fn a_client_that_vanishes_leaves_a_reply_to_drop() {
    for kind in KINDS {
        let queue = Queue::beating(kind, PATIENT);
        let worker = queue.stranger();
        worker.send(READY).unwrap();
        let give_up = Instant::now() + DEADLINE;
        // Whether the queue knows already that the client is gone is a matter of time.
        let mut output = Vec::new();
        while !output.iter().any(|line: &String| line.starts_with("W: a reply was dropped: ")) {
            assert!(Instant::now() < give_up, "{output:#?}");
            let client = queue.client(&["--timeout", PATIENT]);
            let request = next_request(&worker);
            drop(client); // kills it
            thread::sleep(Duration::from_millis(10));
            worker.send(request).unwrap();
            thread::sleep(Duration::from_millis(10));
            output.extend(queue.broker.lines());
        }
        let _worker = queue.good_worker();
        drop(worker);
        queue.assert_serves();
        queue.end();
    }
}

#[test]
fn what_a_worker_replies_to_a_queue_that_died_is_for_nobody() {
    for kind in KINDS {
        let mut queue = Queue::start(kind);
        let worker = queue.stranger();
        worker.send(READY).unwrap();
        let client = socket(&queue.ctx, SocketType::Req, '>', queue.folder.path(), "front");
        client.send("of before").unwrap();
        let request = next_request(&worker);
        drop(client);
        queue.restart();
        let client = socket(&queue.ctx, SocketType::Req, '>', queue.folder.path(), "front");
        client.send("of now").unwrap();
        thread::sleep(Duration::from_millis(300)); // for the client to be known first
        worker.send(request).unwrap();
        worker.send(next_request(&worker)).unwrap();
        assert_eq!(recv(&client), "of now".into());
        drop(worker);
        queue.end();
    }
}

#[test]
fn a_client_that_never_reads_holds_up_nobody() {
    for kind in KINDS {
        let queue = Queue::start(kind);
        let _worker = queue.good_worker();
        let deaf = queue.ctx.socket(SocketType::Dealer).unwrap();
        deaf.set_rcvhwm(Some(1)).unwrap();
        deaf.attach(
            &format!("ipc://{}", queue.folder.path().join("front").display()),
            zkit::Attach::Connect,
        )
        .unwrap();
        let talks = thread::spawn(move || {
            for _ in 0..3000 {
                deaf.send_timeout(("", vec![0; 1024]), DEADLINE).unwrap();
            }
            deaf
        });
        queue.broker.line_with("W: a reply was dropped: ");
        queue.assert_serves();
        drop(talks.join().unwrap());
        queue.assert_serves();
        queue.end();
    }
}

#[test]
fn without_a_worker_clients_give_up_and_with_the_first_they_are_served() {
    for kind in KINDS {
        let queue = Queue::start(kind);
        let client = queue.client(&["1", "--timeout", "50"]);
        let (status, output, errors) = client.outcome();
        assert_eq!(status.code(), Some(1));
        assert_eq!(output.last().unwrap(), "E: server seems to be offline, abandoning");
        assert_eq!(errors, "Error: request 1 got no reply\n");
        let client = queue.client(&["1", "--timeout", PATIENT]);
        let _worker = queue.good_worker();
        assert_eq!(replies(&client.output(), 1), 2);
        queue.end();
    }
}

#[test]
fn all_may_start_in_the_wrong_order() {
    for kind in KINDS {
        let folder = folder();
        let args = ["ipc://front", "2", "--timeout", "300", "--retries", STUBBORN];
        let client = Example::start("lpclient", &args, &folder);
        let name = if kind == Kind::Simple { "spworker" } else { "ppworker" };
        let args = ["ipc://back", "--work", "0", "--reliable"];
        let worker = Example::start(name, &args, &folder);
        assert!(worker.line().ends_with("worker ready"));
        client.line_with("W: no response from server, retrying...");
        let broker = Queue::broker(kind, &folder, "100");
        assert_eq!(replies(&client.output(), 1), 3);
        for example in [worker, broker] {
            example.signal(Signal::SIGINT);
            example.output();
        }
        assert_empty(&folder);
    }
}

#[test]
fn a_second_queue_on_a_taken_endpoint_is_told_why_it_cannot_start() {
    for kind in KINDS {
        let queue = Queue::start(kind);
        let name = if kind == Kind::Simple { "spqueue" } else { "ppqueue" };
        for (places, taken) in [
            (["ipc://front", "ipc://other"], "ipc://front"),
            (["ipc://other", "ipc://back"], "ipc://back"),
        ] {
            let (status, _, errors) = Example::start(name, &places, &queue.folder).outcome();
            assert_eq!(status.code(), Some(1));
            assert_eq!(errors, format!("Error: cannot bind {taken:?}: address already in use\n"));
        }
        let _worker = queue.good_worker();
        queue.assert_serves_at_once();
        queue.end();
    }
}

#[test]
fn nonsense_arguments_get_a_usage_message() {
    let folder = folder();
    for name in ["lpserver", "lpclient", "spqueue", "spworker", "ppqueue", "ppworker", "balance"] {
        let (status, output, errors) = Example::start(name, &["--nonsense"], &folder).outcome();
        assert_eq!(status.code(), Some(2), "{name}");
        assert!(errors.contains("Usage:") && output.is_empty(), "{name}: {errors}");
    }
    for (name, args) in [
        ("lpclient", &["ipc://server", "x"][..]),
        ("lpclient", &["--retries", "0"]),
        ("lpserver", &["--work", "-1"]),
        ("ppqueue", &["--heartbeat", "0"]),
        ("ppworker", &["--heartbeat", "0"]),
        ("spworker", &["--seed", "x"]),
        ("balance", &["0"]),
        ("balance", &["1", "1", "1", "1"]),
    ] {
        let (status, output, errors) = Example::start(name, args, &folder).outcome();
        assert_eq!(status.code(), Some(2), "{name} {args:?}");
        assert!(errors.starts_with("error: ") && output.is_empty(), "{name} {args:?}: {errors}");
    }
    for name in ["lpserver", "lpclient", "spqueue", "spworker", "ppqueue", "ppworker"] {
        let (status, _, errors) = Example::start(name, &["nowhere"], &folder).outcome();
        assert_eq!(status.code(), Some(1), "{name}");
        assert!(errors.contains("\"nowhere\": it names no transport"), "{name}: {errors}");
    }
    assert_empty(&folder);
}

mod paranoid {
    use super::*;

    #[test]
    fn workers_look_for_a_queue_that_died_ever_more_seldom() {
        let mut queue = Queue::beating(Kind::Paranoid, "100");
        let worker = queue.good_worker();
        let client = queue.client(&["--timeout", "300", "--retries", STUBBORN]);
        for _ in 0..2 {
            client.line_with("I: server replied OK");
            queue.kill();
            // There may be some before these: on a busy machine a queue seems to be silent.
            let mut delays = Vec::new();
            while !delays.ends_with(&[50, 100, 200, 200]) {
                worker.line_with("W: heartbeat failure, can't reach queue");
                let line = worker.line();
                let delay = line.strip_prefix("W: reconnecting in ").expect(&line);
                let delay: u32 = delay.strip_suffix(" msec...").expect(&line).parse().expect(&line);
                if let Some(last) = delays.last() {
                    let double = (last * 2).min(200);
                    assert!([50, double].contains(&delay), "{delay} after {delays:?}");
                }
                delays.push(delay);
                assert_eq!(worker.line(), "I: worker ready");
            }
            queue.broker = Queue::broker(queue.kind, &queue.folder, queue.heartbeat);
            client.lines();
        }
        client.line_with("I: server replied OK");
        queue.end();
    }

    #[test]
    fn the_first_delay_is_no_longer_than_the_longest() {
        let folder = folder();
        let args = ["ipc://back", "--heartbeat", "10", "--reconnect", PATIENT];
        let args = [&args[..], &["--reconnect-max", "10"]].concat();
        let worker = Example::start("ppworker", &args, &folder);
        for _ in 0..2 {
            assert_eq!(worker.line(), "I: worker ready");
            assert_eq!(worker.line(), "W: heartbeat failure, can't reach queue");
            assert_eq!(worker.line(), "W: reconnecting in 10 msec...");
        }
        worker.signal(Signal::SIGINT);
        worker.output();
    }

    #[test]
    fn a_worker_that_fell_silent_is_given_no_requests_until_it_is_heard_again() {
        let queue = Queue::beating(Kind::Paranoid, "300");
        let silent = queue.good_worker();
        queue.put_to_work(&silent);
        silent.signal(Signal::SIGSTOP);
        queue.broker.line_with("has expired"); // no other could be meant
        let other = queue.good_worker();
        queue.assert_serves_at_once();
        silent.signal(Signal::SIGCONT);
        drop(other);
        queue.assert_serves();
        queue.end();
    }

    #[test]
    fn a_worker_that_died_is_forgotten() {
        let queue = Queue::start(Kind::Paranoid);
        let dies = queue.good_worker();
        queue.put_to_work(&dies);
        drop(dies);
        queue.broker.line_with("has expired"); // no other could be meant
        let _other = queue.good_worker();
        queue.assert_serves_at_once();
        queue.end();
    }

    #[test]
    fn a_worker_that_is_slow_is_waited_for_and_left_alone_while_it_beats() {
        let queue = Queue::beating(Kind::Paranoid, "1000");
        let worker = queue.stranger();
        worker.send(READY).unwrap();
        let clients = [(); 2].map(|()| queue.client(&["1", "--timeout", PATIENT]));
        let request = next_request(&worker);
        let start = Instant::now();
        // Longer than it would be believed to live without a word.
        while start.elapsed() < Duration::from_secs(4) {
            worker.send(HEARTBEAT).unwrap();
            match worker.recv_timeout(Duration::from_millis(20)) {
                Ok(msg) => assert_eq!(msg, HEARTBEAT.into()),
                Err(error) => assert!(error.is_timeout(), "{error}"),
            }
        }
        worker.send(request).unwrap();
        worker.send(next_request(&worker)).unwrap();
        for client in clients {
            assert_eq!(replies(&client.output(), 1), 2);
        }
        assert_eq!(queue.end(), [""; 0]);
    }
}

/// Gives a worker as many requests, or until it has ended; returns what it printed.
fn wear_out(kind: Kind, args: &[&str], requests: u32) -> Vec<String> {
    let folder = folder();
    let ctx = context();
    let queue = socket(&ctx, SocketType::Router, '@', folder.path(), "back");
    let (name, beats) = match kind {
        Kind::Simple => ("spworker", &[][..]),
        Kind::Paranoid => ("ppworker", &["--heartbeat", PATIENT][..]),
    };
    let args = [&["ipc://back", "--work", "0"], beats, args].concat();
    let mut worker = Example::start(name, &args, &folder);
    let mut msg = recv(&queue);
    let address = msg.unwrap().unwrap();
    assert_eq!(msg, READY.into());
    'requests: for request in 1..=requests {
        let request = ZMsg::from(("client", "", request.to_string()));
        let mut msg = request.clone();
        match kind {
            Kind::Simple => msg.wrap(address.clone()),
            Kind::Paranoid => msg.push_front(address.clone()),
        }
        queue.send(msg).unwrap();
        let give_up = Instant::now() + DEADLINE;
        loop {
            assert!(Instant::now() < give_up, "{name} neither replies nor ends");
            if let Ok(mut reply) = queue.recv_timeout(Duration::from_millis(10)) {
                reply.unwrap();
                assert_eq!(reply, request);
                break;
            }
            if worker.has_ended() {
                break 'requests;
            }
        }
    }
    if !worker.has_ended() {
        worker.signal(Signal::SIGINT);
    }
    // What a simple worker calls itself is its own.
    worker.output().iter().map(|line| line.rsplit(") ").next().unwrap().to_owned()).collect()
}

#[test]
fn seeded_workers_fail_at_the_same_requests_each_time() {
    for kind in KINDS {
        let runs = ["59", "59", "15"]
            .map(|seed| thread::spawn(move || wear_out(kind, &["--seed", seed], 1000)));
        let [one, again, other] = runs.map(|run| run.join().unwrap());
        assert!(one.last().unwrap().ends_with("simulating a crash"), "{one:#?}");
        assert!(one.iter().any(|line| line.ends_with("simulating CPU overload")), "{one:#?}");
        for line in &one[1..4] {
            assert!(line.ends_with("normal reply"), "not before the fourth request: {one:#?}");
        }
        assert_eq!(one, again);
        assert_ne!(one, other);
    }
}

#[test]
fn reliable_workers_never_fail() {
    for kind in KINDS {
        let output = wear_out(kind, &["--reliable", "--seed", "1"], 300);
        assert_eq!(output.len(), 301);
        assert!(output[1..].iter().all(|line| line.ends_with("normal reply")), "{output:#?}");
    }
}

mod balance {
    use super::*;

    #[track_caller]
    fn summary(args: &[&str]) -> String {
        let folder = folder();
        let output = Example::start("balance", args, &folder).output();
        assert_empty(&folder);
        let [summary] = &output[..] else { panic!("{output:#?}") };
        summary.to_owned()
    }

    #[test]
    fn every_request_of_every_client_is_served() {
        for (args, requests) in [
            (&[][..], "1000"),
            (&["1", "30", "50"], "50"),
            (&["30", "1", "50"], "1500"),
            (&["60", "60", "20"], "1200"),
            (&["300", "300", "2"], "600"),
            (&["2", "2", "0"], "0"),
        ] {
            let summary = summary(args);
            assert!(
                summary.starts_with(&format!("{requests} requests in ")),
                "{args:?}: {summary}"
            );
        }
    }

    #[test]
    fn it_ends_in_order_in_the_middle_of_its_work() {
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let folder = folder();
            let example = Example::start("balance", &["30", "10", "10000000"], &folder);
            let give_up = Instant::now() + DEADLINE;
            while !folder.path().join("back").exists() {
                assert!(Instant::now() < give_up, "it has not bound its endpoints");
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(200));
            example.interrupt(signal);
            assert_empty(&folder);
        }
    }
}
