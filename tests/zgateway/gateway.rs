//! A gateway to test, and those on either side of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use socket2::{Domain, SockRef, Socket, Type};
use tempfile::TempDir;
use toml::{Table, Value};
use zkit::{Attach, SocketType, ZContext, ZMsg, ZSock};

use crate::common::{DEADLINE, Example, folder};

/// A running `zgateway serve`, and where it is.
pub(crate) struct Gateway {
    pub(crate) process: Example,
    pub(crate) clients: SocketAddr,
    /// Endpoints by name.
    groups: BTreeMap<String, String>,
    /// Endpoints by type.
    replies: BTreeMap<u8, String>,
    metrics: SocketAddr,
    _folder: TempDir,
}

/// The configuration `toml` made whole: whatever it leaves out that is needed is at a port of its own,
/// and there are a group "chat" of type 1, one "scene" of type 2, and replies of both types.
#[track_caller]
pub(crate) fn config(toml: &str) -> String {
    let mut config: Table = toml.parse().expect("a good configuration");
    for key in ["listen", "metrics"] {
        config.entry(key).or_insert("127.0.0.1:0".into());
    }
    let group =
        |name: &str, kind: i64| Table::from_iter([entry("name", name), entry("type", kind)]);
    let reply = |kind: i64| Table::from_iter([entry("type", kind)]);
    for (key, tables) in
        [("group", [group("chat", 1), group("scene", 2)]), ("reply", [reply(1), reply(2)])]
    {
        let tables = config.entry(key).or_insert(Vec::from(tables).into());
        for table in tables.as_array_mut().expect("an array of tables") {
            let table = table.as_table_mut().expect("a table");
            table.entry("bind").or_insert("tcp://127.0.0.1:*".into());
        }
    }
    config.to_string()
}

fn entry(key: &str, value: impl Into<Value>) -> (String, Value) {
    (key.to_owned(), value.into())
}

impl Gateway {
    /// With a configuration that is made whole as [`config`] says.
    #[track_caller]
    pub(crate) fn start(toml: &str) -> Gateway {
        Gateway::start_with(toml, &[])
    }

    /// With more arguments.
    #[track_caller]
    pub(crate) fn start_with(toml: &str, args: &[&str]) -> Gateway {
        let folder = folder();
        fs::write(folder.path().join("zgateway.toml"), config(toml)).expect("there is room");
        let args = [&["serve", "--config", "zgateway.toml"], args].concat();
        let process = Example::start("zgateway", &args, &folder);
        let line = process.line();
        let clients = line.strip_prefix("clients at ").expect(&line).parse().expect(&line);
        let (mut groups, mut replies) = (BTreeMap::new(), BTreeMap::new());
        let metrics = loop {
            let line = process.line();
            let (what, place) = line.rsplit_once(" at ").expect(&line);
            let place = place.to_owned();
            if let Some(name) = what.strip_prefix("group ") {
                groups.insert(name.to_owned(), place);
            } else if let Some(kind) = what.strip_prefix("replies of type ") {
                replies.insert(kind.parse().expect(&line), place);
            } else {
                let place =
                    place.strip_prefix("http://").and_then(|at| at.strip_suffix("/metrics"));
                break place.expect(&line).parse().expect(&line);
            }
        };
        Gateway { process, clients, groups, replies, metrics, _folder: folder }
    }

    #[track_caller]
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.clients)
    }

    /// A process of the group `name` that sends replies of type `kind`.
    #[track_caller]
    pub(crate) fn back_end(&self, name: &str, kind: u8) -> BackEnd {
        BackEnd::connect(self.group(name), &self.replies[&kind])
    }

    /// `zgateway echo` as a process of the group `name` that sends replies of type `kind`.
    #[track_caller]
    pub(crate) fn echo(&self, name: &str, kind: u8) -> Example {
        let args = ["echo", "--pull", self.group(name), "--push", self.replies(kind)];
        Example::start("zgateway", &args, &folder())
    }

    /// The endpoint of a group.
    pub(crate) fn group(&self, name: &str) -> &str {
        &self.groups[name]
    }

    /// The endpoint for replies of a type.
    pub(crate) fn replies(&self, kind: u8) -> &str {
        &self.replies[&kind]
    }

    pub(crate) fn metrics_address(&self) -> SocketAddr {
        self.metrics
    }

    /// All metrics as they are now.
    #[track_caller]
    pub(crate) fn metrics(&self) -> Metrics {
        let agent = ureq::Agent::config_builder().timeout_global(Some(DEADLINE)).proxy(None);
        let url = format!("http://{}/metrics", self.metrics);
        let answer = ureq::Agent::from(agent.build()).get(&url).call();
        let mut answer = answer.unwrap_or_else(|error| panic!("{url}: {error}"));
        Metrics(answer.body_mut().read_to_string().expect("it is text"))
    }

    /// The sum of all values of `name` that have all these labels.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        self.metrics().sum(name, labels)
    }

    /// Waits until a metric has the value.
    #[track_caller]
    pub(crate) fn wait_for(&self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.wait_until(&format!("{name}{labels:?} is {value}"), |metrics| {
            metrics.sum(name, labels) == value
        });
    }

    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&Metrics) -> bool) {
        let give_up = Instant::now() + DEADLINE;
        loop {
            let metrics = self.metrics();
            if is_so(&metrics) {
                break;
            }
            assert!(Instant::now() < give_up, "not so: {what}:\n{}", metrics.0);
            thread::sleep(Duration::from_millis(2));
        }
    }

    #[track_caller]
    pub(crate) fn wait_for_connections(&self, open: u64) {
        self.wait_for("zgateway_connections", &[], open);
    }

    /// Waits until so many connections were closed for this reason.
    #[track_caller]
    pub(crate) fn wait_for_closed(&self, reason: &str, count: u64) {
        self.wait_for("zgateway_closed_total", &[("reason", reason)], count);
    }

    /// Asserts that every connection that was accepted is open or was closed for some reason.
    #[track_caller]
    pub(crate) fn assert_accounted(&self) {
        self.wait_until("accepted = closed + open", |metrics| {
            let [accepted, closed, open] =
                ["zgateway_accepted_total", "zgateway_closed_total", "zgateway_connections"]
                    .map(|name| metrics.sum(name, &[]));
            accepted == closed + open
        });
    }

    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Asserts that all connections are accounted for, and that it ends well when it is told to;
    /// returns its summary.
    #[track_caller]
    pub(crate) fn end(self) -> Summary {
        self.assert_accounted();
        self.signal(Signal::SIGTERM);
        self.ended()
    }

    /// Waits for its end, which is a good one; returns its summary.
    #[track_caller]
    pub(crate) fn ended(self) -> Summary {
        let (status, output, errors) = self.outcome();
        assert!(status.success(), "the gateway ended with {status}: {errors}");
        assert!(!errors.contains("panicked"), "{errors}");
        let [line] = &output[..] else { panic!("{output:#?}") };
        Summary::of(line)
    }

    /// Waits for its end, whatever that is.
    #[track_caller]
    pub(crate) fn outcome(self) -> (ExitStatus, Vec<String>, String) {
        self.process.outcome()
    }
}

/// What Prometheus would get.
pub(crate) struct Metrics(pub(crate) String);

impl Metrics {
    /// The sum of all values of `name` that have all these labels.
    #[track_caller]
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let labels: Vec<_> =
            labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let values = self.0.lines().filter_map(|line| {
            let (sample, value) = line.rsplit_once(' ')?;
            let (sample_name, sample_labels) = sample.split_once('{').unwrap_or((sample, "}"));
            let has = |label: &String| {
                sample_labels.trim_end_matches('}').split(',').any(|one| one == label)
            };
            (sample_name == name && labels.iter().all(has)).then_some(value)
        });
        values.map(|value| value.parse::<u64>().expect(value)).sum()
    }
}

/// What the gateway prints at its end.
#[derive(Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) clients: u64,
    pub(crate) requests: u64,
    pub(crate) forwarded: u64,
    pub(crate) replies: u64,
    pub(crate) unanswered: u64,
}

impl Summary {
    #[track_caller]
    fn of(line: &str) -> Summary {
        let words: Vec<&str> =
            line.split([' ', ':', ',']).filter(|word| !word.is_empty()).collect();
        let [
            _,
            "s",
            clients,
            "clients",
            requests,
            "requests",
            forwarded,
            "of",
            "them",
            "forwarded",
            replies,
            "replies",
            unanswered,
            "unanswered",
        ] = words[..]
        else {
            panic!("{line}")
        };
        let [clients, requests, forwarded, replies, unanswered] =
            [clients, requests, forwarded, replies, unanswered]
                .map(|number| number.parse().expect(line));
        Summary { clients, requests, forwarded, replies, unanswered }
    }
}

/// A client of the gateway. It waits for nothing longer than [`DEADLINE`].
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
}

impl Client {
    #[track_caller]
    pub(crate) fn connect(to: SocketAddr) -> Client {
        Client::new(connected(socket(), to))
    }

    /// From an address of its own.
    #[track_caller]
    pub(crate) fn connect_from(from: IpAddr, to: SocketAddr) -> Client {
        let socket = socket();
        // With thousands of clients that have just left, the system looks for a free port for long.
        socket.bind(&SocketAddr::new(from, 0).into()).expect("an address of this machine");
        Client::new(connected(socket, to))
    }

    /// One that has little room for what it does not read.
    #[track_caller]
    pub(crate) fn connect_small(to: SocketAddr) -> Client {
        let socket = socket();
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        Client::new(connected(socket, to))
    }

    fn new(socket: Socket) -> Client {
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true).expect("it is a TCP stream");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        stream.set_write_timeout(Some(DEADLINE)).expect("a timeout");
        Client { stream }
    }

    /// Sends a message.
    #[track_caller]
    pub(crate) fn send(&mut self, kind: u8, body: impl AsRef<[u8]>) {
        self.write(&message(kind, body.as_ref()));
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the gateway reads");
    }

    /// The next message: its type and its body.
    #[track_caller]
    pub(crate) fn recv(&mut self) -> (u8, Vec<u8>) {
        let mut header = [0; 5];
        self.stream.read_exact(&mut header).expect("a message");
        let [a, b, c, d, kind] = header;
        let mut body = vec![0; u32::from_be_bytes([a, b, c, d]) as usize];
        self.stream.read_exact(&mut body).expect("the body of a message");
        (kind, body)
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, kind: u8, body: impl AsRef<[u8]>) {
        let (got_kind, got) = self.recv();
        let show = |body: &[u8]| String::from_utf8_lossy(&body[..body.len().min(100)]).into_owned();
        let body = body.as_ref();
        assert!(
            got_kind == kind && got == body,
            "{got_kind} {:?} instead of {kind} {:?}",
            show(&got),
            show(body)
        );
    }

    /// Goes without a goodbye: what it has not read, and what the gateway has not, is gone with it.
    #[track_caller]
    pub(crate) fn reset(self) {
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).expect("it is a TCP stream");
    }

    /// Sends no more.
    #[track_caller]
    pub(crate) fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("it is connected");
    }

    /// Reads until the gateway closes the connection; returns what it still got.
    #[track_caller]
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => {}
            // What the gateway did not read makes its end a hard one.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("it is not closed: {error}"),
        }
        rest
    }

    /// Waits until the gateway closes the connection, without a word.
    #[track_caller]
    pub(crate) fn expect_closed(&mut self) {
        assert_eq!(self.read_to_end(), b"");
    }

    /// Asserts that there is nothing to be read for a moment.
    #[track_caller]
    pub(crate) fn expect_nothing(&mut self) {
        self.stream.set_read_timeout(Some(MOMENT)).expect("a timeout");
        let read = self.stream.read(&mut [0]);
        self.stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        let error = read.expect_err("it is served or closed");
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    }
}

/// Long enough to see that something does not happen, if it would on a machine that is not busy.
pub(crate) const MOMENT: Duration = Duration::from_millis(100);

#[track_caller]
fn socket() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket")
}

#[track_caller]
fn connected(socket: Socket, to: SocketAddr) -> Socket {
    socket.connect(&to.into()).expect("the gateway listens");
    socket
}

/// Bytes that the system takes of what is written to a connection before its peer has room for
/// them, at most.
pub(crate) fn system_buffer() -> usize {
    largest("tcp_wmem")
}

/// Bytes that the system holds of one direction of a connection, at most: of both ends together.
pub(crate) fn system_room() -> usize {
    largest("tcp_wmem") + largest("tcp_rmem")
}

fn largest(buffer: &str) -> usize {
    let limits = fs::read_to_string(format!("/proc/sys/net/ipv4/{buffer}")).expect("it is Linux");
    limits.split_whitespace().last().and_then(|most| most.parse().ok()).expect("three numbers")
}

/// As clients send and get it.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&header(kind, body.len()), body].concat()
}

pub(crate) fn header(kind: u8, body: usize) -> [u8; 5] {
    let [a, b, c, d] = (body as u32).to_be_bytes();
    [a, b, c, d, kind]
}

/// A back-end process in this one.
pub(crate) struct BackEnd {
    pub(crate) pull: ZSock,
    pub(crate) push: ZSock,
    _ctx: ZContext,
}

/// A client's message, or a reply to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Addressed {
    pub(crate) id: u32,
    pub(crate) body: Vec<u8>,
}

impl Addressed {
    #[track_caller]
    pub(crate) fn from(frame: &[u8]) -> Addressed {
        let (id, body) = frame.split_first_chunk().expect("an id");
        Addressed { id: u32::from_be_bytes(*id), body: body.to_vec() }
    }
}

impl BackEnd {
    #[track_caller]
    pub(crate) fn connect(messages: &str, replies: &str) -> BackEnd {
        BackEnd::with_room(1000, messages, replies)
    }

    /// With room for so many messages that it does not receive.
    #[track_caller]
    pub(crate) fn with_room(room: u32, messages: &str, replies: &str) -> BackEnd {
        let ctx = ZContext::builder().signals(false).linger(Some(Duration::ZERO));
        let ctx = ctx.build().expect("there is room for a context");
        let socket = |kind, endpoint: &str| {
            let socket = ctx.socket(kind).expect("there is room for a socket");
            socket.set_rcvhwm(Some(room)).expect("a good number");
            socket.attach(endpoint, Attach::Connect).expect("a good endpoint");
            socket
        };
        let (pull, push) = (socket(SocketType::Pull, messages), socket(SocketType::Push, replies));
        BackEnd { pull, push, _ctx: ctx }
    }

    #[track_caller]
    pub(crate) fn recv(&self) -> Addressed {
        let frame = self.pull.recv_frame_timeout(DEADLINE).expect("a message of a client");
        Addressed::from(&frame)
    }

    /// Receives a message that is to be this one; returns whose it is.
    #[track_caller]
    pub(crate) fn expect(&self, body: impl AsRef<[u8]>) -> u32 {
        let message = self.recv();
        assert_eq!(String::from_utf8_lossy(&message.body), String::from_utf8_lossy(body.as_ref()));
        message.id
    }

    /// Asserts that there is no message for a moment.
    #[track_caller]
    pub(crate) fn expect_nothing(&self) {
        let error = self.pull.recv_timeout(MOMENT).expect_err("nothing");
        assert!(error.is_timeout(), "{error}");
    }

    #[track_caller]
    pub(crate) fn reply(&self, id: u32, body: impl AsRef<[u8]>) {
        self.send([&id.to_be_bytes(), body.as_ref()].concat());
    }

    /// Sends anything.
    #[track_caller]
    pub(crate) fn send(&self, msg: impl Into<ZMsg>) {
        self.push.send_timeout(msg, DEADLINE).expect("the gateway receives");
    }

    /// Sends the next `count` messages back as they are.
    #[track_caller]
    pub(crate) fn echo(&self, count: usize) {
        for _ in 0..count {
            let message = self.recv();
            self.reply(message.id, message.body);
        }
    }
}
