//! zkit talks with ZeroMQ in other languages, over TCP and IPC: each pattern, whoever binds and
//! whoever speaks first, and every byte comes back. `docs/interop.md` tells what was run.
//!
//! What is not installed is skipped, unless `ZKIT_REQUIRE_INTEROP` is set. `.ci/run` installs it
//! into `interop` in Cargo's target folder; what is installed otherwise is found as well.
//!
//! # Peers
//!
//! `tests/interop/peer.*` are the same program in several languages. It says in its first line what
//! it is. Then it is told which parts to play, one after the other, each in a line of its input:
//!
//! ```text
//! <role> <bind|connect> <endpoint>
//! ```
//!
//! It answers with `at` and the endpoint that has become of it, plays, and says `done`, or `failed:`
//! and why, and ends. It ends too when its input does, and in any case after a minute. The roles:
//!
//! - `req`, `dealer-asks`, `router-asks`, `pair-asks`: sends each message of the set, and expects
//!   each back. A REQ sends the next when it has the last one back, the others send all at once.
//!   DEALERs have an identity, [`IDENTITY`], and a ROUTER speaks to it as soon as it is there.
//! - `rep`, `dealer-echoes`, `router-echoes`, `pair-echoes`: sends back what it receives, until a
//!   message that ends in a frame `END`.
//! - `push`, `pull`: sends or expects each message of the set.
//! - `pub`: sends `hello` again and again until a line `go` tells it that the subscriber has one;
//!   then each message of the set twice, behind a topic that nobody subscribes to, and behind
//!   [`TOPIC`].
//! - `sub`: expects that; says `ready` when it has a `hello`, and passes over further ones.
//! - `sp-worker`, `pp-worker`: a worker of the Simple and of the Paranoid Pirate, which echoes until
//!   it is killed. The latter says `heartbeat` for each that it receives.
//!
//! The set is [`messages`]. It is the same in each language.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use zkit::{
    Error, EventKind, MonitorEvent, SendError, SocketType, ZAuth, ZCert, ZCertStore, ZContext,
    ZMonitor, ZMsg, ZSock,
};

#[path = "interop/compile.rs"]
mod compile;
#[path = "interop/python.rs"]
mod python;

/// For one message. A peer has the same.
const DEADLINE: Duration = Duration::from_secs(10);
/// For a line from a process, after which it is killed.
const PATIENCE: Duration = Duration::from_secs(20);
/// For the first line of a peer: a JVM takes its time when others want the processor.
const START: Duration = Duration::from_secs(60);

/// Valid UTF-8, for zeromq.js takes nothing else.
const IDENTITY: &[u8] = b"\x01\0\xC3\xBF\0A";
/// Of another socket at the same ROUTER: the same for whoever ends it at a NUL.
const OTHER_IDENTITY: &[u8] = b"\x01\0\xC3\xBF\0B";
const TOPIC: &[u8] = b"\0topic\0";
const OTHER_TOPIC: &[u8] = b"\0topic\x01";
const END: &str = "END";
const HELLO: &str = "hello";

/// The sizes of the frames of each message of the set: one frame, an empty one, empty ones in the
/// middle, in front and at the end, sizes at which ZMTP changes their encoding, and a megabyte.
const SIZES: [&[usize]; 6] = [&[5], &[0], &[3, 0, 7], &[0, 0, 1], &[255, 256, 0], &[1, 1 << 20, 1]];

/// All byte values, and none of it the same when it is shifted.
fn content(size: usize) -> Vec<u8> {
    (0..size).map(|index| (size + 7 * index + (index >> 8)) as u8).collect()
}

fn messages() -> &'static [ZMsg] {
    static MESSAGES: LazyLock<Vec<ZMsg>> = LazyLock::new(|| {
        SIZES.iter().map(|sizes| sizes.iter().copied().map(content).collect()).collect()
    });
    &MESSAGES
}

fn behind(first: &'static [u8], msg: &ZMsg) -> ZMsg {
    let mut msg = msg.clone();
    msg.push_front(first);
    msg
}

/// A process and what it prints. It is killed when the value is dropped.
struct Process {
    name: &'static str,
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    #[track_caller]
    fn start(name: &'static str, command: &mut Command) -> Process {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            stdout.lines().map_while(Result::ok).for_each(|line| {
                let _ = sender.send(line);
            });
        });
        Process { name, child, lines }
    }

    /// The next line that it prints.
    #[track_caller]
    fn line(&self) -> String {
        self.lines
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|error| panic!("{} printed nothing more: {error}", self.name))
    }

    /// What is behind `before` in the next line.
    #[track_caller]
    fn line_after(&self, before: &str) -> String {
        let line = self.line();
        line.strip_prefix(before).unwrap_or_else(|| panic!("{}: {line}", self.name)).to_owned()
    }

    #[track_caller]
    fn say(&mut self, line: &str) {
        // At once: to some the first byte is word enough to end, and nobody reads a second.
        let line = format!("{line}\n");
        self.child.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    /// Expects it to end in order, and returns what it still prints.
    #[track_caller]
    fn end(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let give_up = Instant::now() + PATIENCE;
        let mut rest = Vec::new();
        let status: ExitStatus = loop {
            match self.lines.recv_timeout(give_up.saturating_duration_since(Instant::now())) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => break self.child.wait().unwrap(),
                Err(RecvTimeoutError::Timeout) => panic!("{} has not ended: {rest:?}", self.name),
            }
        };
        assert!(status.success(), "{} ended with {status}: {rest:?}", self.name);
        rest
    }

    fn interrupt(self) -> Vec<String> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).expect("it runs");
        self.end()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            self.lines.iter().for_each(|line| eprintln!("{} said: {line}", self.name));
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Language {
    Pyzmq,
    Czmq,
    ZeromqJs,
    Jeromq,
}

/// How a peer is started, or what is missing for it.
type Start = Result<Vec<OsString>, String>;

impl Language {
    fn name(self) -> &'static str {
        match self {
            Language::Pyzmq => "pyzmq",
            Language::Czmq => "CZMQ",
            Language::ZeromqJs => "zeromq.js",
            Language::Jeromq => "JeroMQ",
        }
    }

    fn transports(self) -> &'static [&'static str] {
        match self {
            // Its ipc is TCP by another name.
            Language::Jeromq => &["tcp"],
            _ => &["tcp", "ipc"],
        }
    }

    /// `None`, and said so, where it is not installed.
    fn peer(self) -> Option<Process> {
        static STARTS: [LazyLock<Start>; 4] = [
            LazyLock::new(python),
            LazyLock::new(c),
            LazyLock::new(javascript),
            LazyLock::new(java),
        ];
        match &*STARTS[self as usize] {
            Ok(words) => {
                let peer = Process::start(self.name(), &mut command(words));
                println!("{}", peer.lines.recv_timeout(START).expect("it says what it is"));
                Some(peer)
            }
            Err(why) => {
                let name = self.name();
                assert!(env::var_os("ZKIT_REQUIRE_INTEROP").is_none(), "{name} is missing: {why}");
                eprintln!("skipped: {name} is missing: {why}");
                None
            }
        }
    }
}

/// Where `.ci/run` installs things.
fn installed(path: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("interop").join(path)
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(path)
}

/// `installed`, and what the variable has anyway.
fn with_path(variable: &str, installed: &[PathBuf]) -> OsString {
    let others = env::var_os(variable).unwrap_or_default();
    env::join_paths(installed.iter().cloned().chain(env::split_paths(&others))).unwrap()
}

fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env("NODE_PATH", with_path("NODE_PATH", &[installed("node_modules")]));
    command
}

/// Whether the command says that what is needed is there.
fn probe(words: &[OsString]) -> Result<(), String> {
    match command(words).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(format!("{:?}: {error}", words[0])),
    }
}

fn python() -> Start {
    Ok(vec![python::with_pyzmq()?.into(), source("peer.py").into()])
}

fn c() -> Start {
    Ok(vec![compile::with_czmq("tests/interop/peer.c", "interop-peer")?.into()])
}

fn javascript() -> Start {
    probe(&["node".into(), "-e".into(), "require('zeromq')".into()])?;
    Ok(vec!["node".into(), source("peer.mjs").into()])
}

fn java() -> Start {
    let classes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop-java");
    let path = with_path("CLASSPATH", &[classes.clone(), installed("jeromq.jar")]);
    let javac = |source: &Path| {
        let output = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let words = ["javac".into(), "-cp".into(), path.clone(), "-d".into()];
        let files = [output.path().as_os_str().to_owned(), source.as_os_str().to_owned()];
        probe(&[&words[..], &files].concat()).map(|()| output)
    };
    let compiled = javac(&source("Peer.java")).or_else(|why| -> Result<TempDir, String> {
        // The least that needs JeroMQ, so that a fault of our own program is no skip.
        let folder = tempfile::tempdir().unwrap();
        let least = folder.path().join("Probe.java");
        fs::write(&least, "class Probe { int version = org.zeromq.ZMQ.getFullVersion(); }")
            .unwrap();
        javac(&least)?;
        panic!("{why}");
    })?;
    fs::create_dir_all(&classes).unwrap();
    for class in compiled.path().read_dir().unwrap().flatten() {
        fs::rename(class.path(), classes.join(class.file_name())).unwrap();
    }
    // For a short life.
    let options = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"];
    let words = options.map(OsString::from);
    Ok([&["java".into()], &words[..], &[path, "Peer".into()]].concat())
}

/// A part of zkit's, to that of a peer.
struct Part {
    /// The peer's.
    role: &'static str,
    socket: SocketType,
    play: fn(&Talk<'_>, &mut Process),
}

struct Talk<'a> {
    zkit: &'a ZSock,
    /// Where a ROUTER is bound, be it zkit's or the peer's: another DEALER of zkit's at it.
    other: Option<ZSock>,
}

const REQ_REP: &[Part] = &[
    Part { role: "req", socket: SocketType::Rep, play: echo },
    Part { role: "rep", socket: SocketType::Req, play: ask },
];

const ROUTER_DEALER: &[Part] = &[
    Part { role: "dealer-asks", socket: SocketType::Router, play: echo_as_router },
    Part { role: "dealer-echoes", socket: SocketType::Router, play: ask_as_router },
    Part { role: "router-asks", socket: SocketType::Dealer, play: echo },
    Part { role: "router-echoes", socket: SocketType::Dealer, play: ask },
];

const PUB_SUB: &[Part] = &[
    Part { role: "pub", socket: SocketType::Sub, play: subscribe },
    Part { role: "sub", socket: SocketType::Pub, play: publish },
];

const PUSH_PULL: &[Part] = &[
    Part { role: "push", socket: SocketType::Pull, play: pull },
    Part { role: "pull", socket: SocketType::Push, play: push },
];

const PAIR: &[Part] = &[
    Part { role: "pair-asks", socket: SocketType::Pair, play: echo },
    Part { role: "pair-echoes", socket: SocketType::Pair, play: ask },
];

#[track_caller]
fn recv(socket: &ZSock) -> ZMsg {
    socket.recv_timeout(DEADLINE).unwrap()
}

#[track_caller]
fn assert_same(received: &ZMsg, msg: &ZMsg) {
    let sizes = |msg: &ZMsg| msg.iter().map(|frame| frame.len()).collect::<Vec<_>>();
    // Not by assert_eq: a megabyte is nothing to read.
    assert!(received == msg, "{:?} bytes came for {:?}", sizes(received), sizes(msg));
}

fn push(talk: &Talk<'_>, _: &mut Process) {
    messages().iter().for_each(|msg| talk.zkit.send_timeout(msg, DEADLINE).unwrap());
}

fn pull(talk: &Talk<'_>, _: &mut Process) {
    messages().iter().for_each(|msg| assert_same(&recv(talk.zkit), msg));
}

fn ask(talk: &Talk<'_>, _: &mut Process) {
    let sockets: Vec<&ZSock> = [talk.zkit].into_iter().chain(&talk.other).collect();
    if talk.zkit.socket_type() == SocketType::Req {
        for msg in messages() {
            talk.zkit.send_timeout(msg, DEADLINE).unwrap();
            assert_same(&recv(talk.zkit), msg);
        }
    } else {
        for msg in messages() {
            sockets.iter().for_each(|socket| socket.send_timeout(msg, DEADLINE).unwrap());
        }
        for socket in sockets {
            messages().iter().for_each(|msg| assert_same(&recv(socket), msg));
        }
    }
    talk.zkit.send_timeout(END, DEADLINE).unwrap();
}

fn echo(talk: &Talk<'_>, _: &mut Process) {
    for msg in messages() {
        let received = recv(talk.zkit);
        assert_same(&received, msg);
        talk.zkit.send_timeout(received, DEADLINE).unwrap();
    }
    if let Some(other) = &talk.other {
        assert!(other.try_recv().unwrap_err().is_would_block(), "it was for another identity");
    }
}

fn ask_as_router(talk: &Talk<'_>, _: &mut Process) {
    for msg in messages() {
        send_when_there(talk.zkit, behind(IDENTITY, msg));
        if talk.other.is_some() {
            send_when_there(talk.zkit, behind(OTHER_IDENTITY, msg));
        }
    }
    for msg in messages() {
        assert_same(&recv(talk.zkit), &behind(IDENTITY, msg));
        if let Some(other) = &talk.other {
            assert_same(&recv(other), msg);
        }
    }
    talk.zkit.send_timeout((IDENTITY, END), DEADLINE).unwrap();
}

/// To the peer of a ROUTER that may not be connected yet.
#[track_caller]
fn send_when_there(router: &ZSock, mut msg: ZMsg) {
    let give_up = Instant::now() + DEADLINE;
    while let Err(SendError { error, message }) = router.send_timeout(msg, DEADLINE) {
        assert!(matches!(error, Error::HostUnreachable { .. }), "{error}");
        assert!(Instant::now() < give_up, "{error}");
        msg = message;
        thread::sleep(Duration::from_millis(1));
    }
}

fn echo_as_router(talk: &Talk<'_>, peer: &mut Process) {
    let mut expected = HashMap::from([(IDENTITY, messages().iter())]);
    if let Some(other) = &talk.other {
        push(&Talk { zkit: other, other: None }, peer);
        expected.insert(OTHER_IDENTITY, messages().iter());
    }
    for _ in 0..messages().len() * expected.len() {
        let mut received = recv(talk.zkit);
        let sender = received.pop_front().unwrap();
        let expected = expected.get_mut(&sender[..]).expect("one of the identities");
        assert_same(&received, expected.next().unwrap());
        received.push_front(sender);
        talk.zkit.send_timeout(received, DEADLINE).unwrap();
    }
    if let Some(other) = &talk.other {
        pull(&Talk { zkit: other, other: None }, peer);
    }
}

fn publish(talk: &Talk<'_>, peer: &mut Process) {
    let give_up = Instant::now() + DEADLINE;
    loop {
        talk.zkit.send_timeout(HELLO, DEADLINE).unwrap();
        match peer.lines.recv_timeout(Duration::from_millis(10)) {
            Ok(line) => break assert_eq!(line, "ready"),
            Err(_) => assert!(Instant::now() < give_up, "the subscriber receives nothing"),
        }
    }
    for msg in messages() {
        talk.zkit.send_timeout(behind(OTHER_TOPIC, msg), DEADLINE).unwrap();
        talk.zkit.send_timeout(behind(TOPIC, msg), DEADLINE).unwrap();
    }
}

fn subscribe(talk: &Talk<'_>, peer: &mut Process) {
    assert_same(&recv(talk.zkit), &HELLO.into());
    peer.say("go");
    for msg in messages() {
        let mut received = recv(talk.zkit);
        while received == HELLO.into() {
            received = recv(talk.zkit);
        }
        assert_same(&received, &behind(TOPIC, msg));
    }
}

fn context() -> ZContext {
    ZContext::builder().signals(false).linger(Some(DEADLINE)).build().unwrap()
}

/// Plays all parts of a pattern with one peer: over each transport, whoever binds.
fn converse(language: Language, parts: &[Part]) {
    let Some(mut peer) = language.peer() else { return };
    let folder = tempfile::tempdir().unwrap();
    let ctx = context();
    for transport in language.transports() {
        for zkit_binds in [true, false] {
            for part in parts {
                let binds = if zkit_binds { "zkit" } else { "the peer" };
                println!("{} over {transport}, {binds} binds", part.role);
                play(&ctx, &mut peer, part, transport, zkit_binds, &folder);
            }
        }
    }
    assert_eq!(peer.end(), [""; 0]);
}

fn play(
    ctx: &ZContext,
    peer: &mut Process,
    part: &Part,
    transport: &str,
    zkit_binds: bool,
    folder: &TempDir,
) {
    let zkit = ctx.socket(part.socket).unwrap();
    match part.socket {
        SocketType::Dealer => zkit.set_identity(IDENTITY).unwrap(),
        SocketType::Router => zkit.set_router_mandatory(true).unwrap(),
        SocketType::Sub => {
            // It would wait to subscribe again at a publisher that has gone before it.
            zkit.set_linger(Some(Duration::ZERO)).unwrap();
            zkit.subscribe(TOPIC).unwrap();
            zkit.subscribe(HELLO).unwrap();
        }
        _ => {}
    }
    let place = match transport {
        "tcp" => "tcp://127.0.0.1:*".to_owned(),
        _ => format!("ipc://{}/{}-{zkit_binds}", folder.path().display(), part.role),
    };
    let endpoint = if zkit_binds {
        let endpoint = zkit.bind(&place).unwrap();
        peer.say(&format!("{} connect {endpoint}", part.role));
        assert_eq!(peer.line_after("at "), endpoint);
        endpoint
    } else {
        peer.say(&format!("{} bind {place}", part.role));
        let endpoint = peer.line_after("at ");
        zkit.connect(&endpoint).unwrap();
        endpoint
    };
    let router_binds = match part.socket {
        SocketType::Router => zkit_binds,
        SocketType::Dealer => !zkit_binds,
        _ => false,
    };
    let other = router_binds.then(|| {
        let other = ctx.socket(SocketType::Dealer).unwrap();
        other.set_identity(OTHER_IDENTITY).unwrap();
        other.connect(&endpoint).unwrap();
        other
    });
    (part.play)(&Talk { zkit: &zkit, other }, peer);
    assert_eq!(peer.line(), "done");
}

macro_rules! converse {
    ($($name:ident: $language:expr,)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn req_and_rep() {
                converse($language, REQ_REP);
            }

            #[test]
            fn router_and_dealer() {
                converse($language, ROUTER_DEALER);
            }

            #[test]
            fn pub_and_sub() {
                converse($language, PUB_SUB);
            }

            #[test]
            fn push_and_pull() {
                converse($language, PUSH_PULL);
            }

            #[test]
            fn pair() {
                converse($language, PAIR);
            }
        }
    )*};
}

converse! {
    pyzmq: Language::Pyzmq,
    czmq: Language::Czmq,
    zeromq_js: Language::ZeromqJs,
    jeromq: Language::Jeromq,
}

/// A queue of the examples, with its endpoints for clients and for workers.
struct Queue {
    process: Process,
    frontend: String,
    backend: String,
}

impl Queue {
    fn start(name: &'static str, options: &[&str]) -> Queue {
        let anywhere = ["tcp://127.0.0.1:*"; 2];
        let process = Process::start(name, example(name).args(anywhere).args(options));
        let frontend = process.line_after("I: listening at ");
        let backend = process.line_after("I: listening at ");
        Queue { process, frontend, backend }
    }

    /// A worker in another language.
    fn worker(&self, language: Language, role: &str) -> Option<Process> {
        let mut worker = language.peer()?;
        worker.say(&format!("{role} connect {}", self.backend));
        assert_eq!(worker.line_after("at "), self.backend);
        Some(worker)
    }

    /// Has clients in all languages served, one after another.
    fn serves(&self) {
        for language in [Language::Pyzmq, Language::Czmq] {
            let Some(mut client) = language.peer() else { continue };
            client.say(&format!("req connect {}", self.frontend));
            assert_eq!(client.line_after("at "), self.frontend);
            assert_eq!(client.line(), "done");
            assert_eq!(client.end(), [""; 0]);
        }
        let client = Process::start("lpclient", example("lpclient").args([&self.frontend, "10"]));
        let replies = (1..=10).map(|number| format!("I: server replied OK ({number})"));
        let expected: Vec<_> =
            ["I: connecting to server...".to_owned()].into_iter().chain(replies).collect();
        assert_eq!(client.end(), expected);
    }
}

/// Cargo puts examples beside the folder of this test.
fn example(name: &str) -> Command {
    let test = env::current_exe().unwrap();
    let program = test.parent().unwrap().with_file_name("examples").join(name);
    assert!(program.exists(), "build the examples first: cargo build --examples");
    Command::new(program)
}

fn simple_pirate(language: Language) {
    let queue = Queue::start("spqueue", &[]);
    let Some(_worker) = queue.worker(language, "sp-worker") else { return };
    queue.serves();
    assert_eq!(queue.process.interrupt(), [""; 0]);
}

fn paranoid_pirate(language: Language) {
    let queue = Queue::start("ppqueue", &["--heartbeat", "500"]);
    let Some(worker) = queue.worker(language, "pp-worker") else { return };
    queue.serves();
    // Each would by now take the other for dead, were it not for their heartbeats.
    thread::sleep(Duration::from_millis(2000));
    queue.serves();
    assert_eq!(worker.line(), "heartbeat");
    assert_eq!(queue.process.lines.try_recv(), Err(TryRecvError::Empty));

    drop(worker);
    queue.process.line_after("W: worker ");
    assert_eq!(queue.process.interrupt(), [""; 0]);
}

mod pirates {
    use super::*;

    #[test]
    fn spqueue_gives_work_to_pyzmq() {
        simple_pirate(Language::Pyzmq);
    }

    #[test]
    fn spqueue_gives_work_to_czmq() {
        simple_pirate(Language::Czmq);
    }

    #[test]
    fn ppqueue_gives_work_to_pyzmq() {
        paranoid_pirate(Language::Pyzmq);
    }

    #[test]
    fn ppqueue_gives_work_to_czmq() {
        paranoid_pirate(Language::Czmq);
    }

    #[test]
    fn spqueue_passes_work_of_others_to_spworker() {
        let queue = Queue::start("spqueue", &[]);
        let options = [&queue.backend, "--reliable", "--work", "0"];
        let worker = Process::start("spworker", example("spworker").args(options));
        queue.serves();
        worker.interrupt();
        assert_eq!(queue.process.interrupt(), [""; 0]);
    }

    #[test]
    fn ppqueue_passes_work_of_others_to_ppworker() {
        let queue = Queue::start("ppqueue", &["--heartbeat", "500"]);
        let options = [&queue.backend, "--reliable", "--work", "0", "--heartbeat", "500"];
        let worker = Process::start("ppworker", example("ppworker").args(options));
        queue.serves();
        worker.interrupt();
        queue.process.interrupt();
    }
}

// CURVE, where the linked libzmq has it. `tests/interop/curve.*` are the peers.

/// A peer, the folder that it shares with zkit, and their certificates, each known to the other.
fn curve_peer(language: Language) -> Option<(Process, TempDir, ZCert, ZCert)> {
    if !zkit::engine().curve {
        eprintln!("skipped: {} has no CURVE", zkit::engine());
        return None;
    }
    let start = match language {
        Language::Pyzmq => python().map(|words| vec![words[0].clone(), source("curve.py").into()]),
        Language::ZeromqJs => {
            javascript().map(|words| vec![words[0].clone(), source("curve.mjs").into()])
        }
        _ => compile::with_czmq("tests/interop/curve.c", "interop-curve")
            .map(|program| vec![program.into()]),
    };
    let words = match start {
        Ok(words) => words,
        Err(why) => {
            let name = language.name();
            assert!(env::var_os("ZKIT_REQUIRE_INTEROP").is_none(), "{name} is missing: {why}");
            eprintln!("skipped: {name} is missing: {why}");
            return None;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let ours = ZCert::new().unwrap();
    ours.save(folder.path().join("zkit.key")).unwrap();
    let peer = Process::start(language.name(), command(&words).arg(folder.path()));
    assert_eq!(peer.line(), "ready");
    let theirs = ZCert::load_public(folder.path().join("peer.key")).unwrap();
    let known = folder.path().join("known");
    fs::create_dir(&known).unwrap();
    for cert in ["zkit.key", "peer.key"] {
        fs::copy(folder.path().join(cert), known.join(cert)).unwrap();
    }
    Some((peer, folder, ours, theirs))
}

fn curve_client(ctx: &ZContext, cert: &ZCert, server: &ZCert, endpoint: &str) -> ZSock {
    let client = ctx.socket(SocketType::Req).unwrap();
    client.set_linger(Some(Duration::ZERO)).unwrap();
    cert.apply(&client).unwrap();
    client.set_curve_serverkey(server.public_key()).unwrap();
    client.connect(endpoint).unwrap();
    // A stranger may have been refused already.
    let _ = client.try_send("Hello");
    client
}

fn lets_in_by_curve(language: Language) {
    let Some((mut peer, folder, ours, theirs)) = curve_peer(language) else { return };
    let ctx = context();
    let auth = ZAuth::new(&ctx).unwrap();
    auth.curve("*", ZCertStore::directory(folder.path().join("known")).unwrap()).unwrap();
    let server = ctx.socket(SocketType::Rep).unwrap();
    ours.apply(&server).unwrap();
    server.set_curve_server(true).unwrap();
    let monitor = ZMonitor::new(&server).unwrap();
    let endpoint = server.bind("tcp://127.0.0.1:*").unwrap();

    peer.say(&format!("ask {endpoint}"));
    let question = server.recv_frame_timeout(DEADLINE).unwrap();
    assert_eq!(question, "Hello");
    assert_eq!(question.metadata("User-Id"), Some(&*theirs.public_text()));
    // pyzmq writes metadata into its secret file only.
    let name = (language != Language::Pyzmq).then_some("Peer");
    assert_eq!(question.metadata("name"), name);
    server.send("World").unwrap();
    assert_eq!(peer.line(), "World");
    assert_eq!(peer.end(), [""; 0]);

    let _stranger = curve_client(&ctx, &ZCert::new().unwrap(), &ours, &endpoint);
    let refused = |event: MonitorEvent| event.kind == EventKind::HandshakeFailedAuth;
    while !refused(monitor.recv_timeout(DEADLINE).unwrap().unwrap()) {}
    assert!(server.try_recv().unwrap_err().is_would_block());
}

fn is_let_in_by_curve(language: Language) {
    let Some((mut peer, _folder, ours, theirs)) = curve_peer(language) else { return };
    let ctx = context();
    peer.say("serve");
    let endpoint = peer.line_after("at ");
    // It answers one question, which is not this one's.
    let stranger = curve_client(&ctx, &ZCert::new().unwrap(), &theirs, &endpoint);
    let friend = curve_client(&ctx, &ours, &theirs, &endpoint);
    let answer = friend.recv_str_timeout(DEADLINE).unwrap();
    assert_eq!(answer, format!("Hello of {}", ours.public_text()));
    assert!(stranger.try_recv().unwrap_err().is_would_block());
    peer.say("enough");
    assert_eq!(peer.end(), [""; 0]);
}

#[test]
fn pyzmq_is_let_in_by_its_certificate() {
    lets_in_by_curve(Language::Pyzmq);
}

#[test]
fn pyzmq_lets_in_by_zkits_certificate() {
    is_let_in_by_curve(Language::Pyzmq);
}

#[test]
fn zeromq_js_is_let_in_by_its_certificate() {
    lets_in_by_curve(Language::ZeromqJs);
}

#[test]
fn zeromq_js_lets_in_by_zkits_certificate() {
    is_let_in_by_curve(Language::ZeromqJs);
}

#[test]
fn czmq_is_let_in_by_its_certificate() {
    lets_in_by_curve(Language::Czmq);
}

#[test]
fn czmq_lets_in_by_zkits_certificate() {
    is_let_in_by_curve(Language::Czmq);
}
