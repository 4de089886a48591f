//! What the integration tests share: a deadline on everything that may block, names that no other
//! test uses, child processes, and examples.

#![allow(dead_code, reason = "each test crate uses a part of it")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::{self, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{env, fs, panic, thread};

use nix::libc;
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, alarm, fork, gettid};
use tempfile::TempDir;

/// Runs `f` in a thread of its own and returns its result. Panics, naming `name`, when it takes
/// longer than `limit`; a panic of `f` goes on here.
#[track_caller]
pub(crate) fn within<T>(limit: Duration, name: &str, f: impl FnOnce() -> T + Send + 'static) -> T
where
    T: Send + 'static,
{
    let (sender, result) = mpsc::channel();
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _ = sender.send(f());
    });
    let thread = spawned.expect("a thread for the test");
    match result.recv_timeout(limit) {
        Ok(value) => {
            thread.join().expect("it has sent its result");
            value
        }
        Err(RecvTimeoutError::Timeout) => panic!("{name} is not done within {limit:?}"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(cause) => panic::resume_unwind(cause),
            Ok(()) => unreachable!("the sender is dropped unused only by a panic"),
        },
    }
}

/// `name` with something behind it that no other test of any process has: for `inproc` names and
/// the like.
pub(crate) fn unique(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{name}-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// An endpoint where nobody listens, unless the test that asked for it does. Not a port of 127.0.0.1
/// that was free a moment ago: the system might give that to another test.
pub(crate) fn nobody() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let [.., high, low] = process::id().to_be_bytes();
    let host = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(host < 255, "no address is left");
    format!("tcp://127.{}.{low}.{host}:5555", high.max(1))
}

/// Allows the process, and those that it starts, as many descriptors as a test of thousands of sockets
/// may use. Returns how many those are.
pub(crate) fn more_descriptors() -> u64 {
    rlimit::increase_nofile_limit(20_000).expect("a limit may be raised so far")
}

/// Runs `case` in a process of its own, since interrupts, limits and forks belong to the process:
/// in this test binary, started again for nothing but the test that calls this. Fails as it does.
#[track_caller]
pub(crate) fn alone(case: impl FnOnce()) {
    if let Some(status) = ended_alone(case) {
        assert!(status.success(), "{status}");
    }
}

/// As [`alone`], and returns how the process ended, in whatever way; `None` within that process.
/// It bounds its own time with an alarm.
#[track_caller]
pub(crate) fn ended_alone(case: impl FnOnce()) -> Option<ExitStatus> {
    const ROLE: &str = "ZKIT_TEST_ALONE";
    let test = thread::current().name().expect("libtest names its threads").to_owned();
    if env::var(ROLE).is_ok_and(|role| role == test) {
        alarm::set(30);
        case();
        return None;
    }
    let mut process = Command::new(env::current_exe().expect("the test binary"));
    let process = process.args([&test, "--exact", "--nocapture"]).env(ROLE, &test);
    let output = process.output().expect("a process of its own");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    print!("{}", String::from_utf8_lossy(&output.stderr));
    assert_ne!(output.status.signal(), Some(libc::SIGALRM), "{test} hangs");
    Some(output.status)
}

/// What a test that runs as a child process was told to do; `None` in the parent.
pub(crate) fn child_role() -> Option<String> {
    env::var("ZKIT_TEST_ROLE").ok()
}

/// This test binary as a child process that runs the test `name` alone, as `role`. It is killed
/// when the value is dropped.
pub(crate) fn child(name: &str, role: &str) -> Child {
    child_with(name, role, |_| ())
}

/// As [`child`], with changes to how it is started.
pub(crate) fn child_with(name: &str, role: &str, change: impl FnOnce(&mut Command)) -> Child {
    let mut command = Command::new(env::current_exe().expect("the test binary"));
    command
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env("ZKIT_TEST_ROLE", role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    change(&mut command);
    let mut process = command.spawn().expect("a child process");
    let output = process.stdout.take().map(BufReader::new);
    Child { process, output }
}

pub(crate) struct Child {
    process: process::Child,
    /// `None` while it is read from.
    output: Option<BufReader<ChildStdout>>,
}

impl Child {
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the line `tell` that the child prints.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, tell: &'static str, limit: Duration) {
        let mut lines = self.output.take().expect("nobody else reads");
        let lines = within(limit, tell, move || {
            let mut line = String::new();
            while !line.trim_end().ends_with(tell) {
                line.clear();
                let read = lines.read_line(&mut line).expect("the child's output");
                assert!(read > 0, "the child has ended without {tell:?}");
            }
            lines
        });
        self.output = Some(lines);
    }

    /// Lets the child go on, waits until it has ended in the ordinary way, and returns what it
    /// still printed.
    #[track_caller]
    pub(crate) fn end(self, limit: Duration) -> String {
        let (status, output) = self.outcome(limit);
        assert!(status.success(), "the child ended with {status}:\n{output}");
        output
    }

    /// As [`end`](Child::end), in whatever way it ended.
    #[track_caller]
    pub(crate) fn outcome(mut self, limit: Duration) -> (ExitStatus, String) {
        drop(self.process.stdin.take());
        let mut rest = self.output.take().expect("nobody else reads");
        let output = within(limit, "the child process", move || {
            let mut output = String::new();
            rest.read_to_string(&mut output).map(|_| output).expect("the child's output")
        });
        (self.process.wait().expect("its status"), output)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// In a child: waits until the parent lets it go on, by [`Child::end`].
pub(crate) fn wait_for_parent() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Longer than any example takes, even on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A running example. It is killed when the value is dropped.
pub(crate) struct Example {
    name: &'static str,
    process: process::Child,
    lines: Receiver<String>,
}

impl Example {
    #[track_caller]
    pub(crate) fn start(name: &'static str, args: &[&str], folder: &TempDir) -> Example {
        let mut process = command(name, args, folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let stdout = BufReader::new(process.stdout.take().expect("it is piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut lines = stdout.lines().map_while(Result::ok);
            // As long as the test is there to receive them.
            let _ = lines.try_for_each(|line| sender.send(line));
        });
        Example { name, process, lines }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The next line that it prints.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.lines
            .recv_timeout(DEADLINE)
            .unwrap_or_else(|error| panic!("{} printed nothing more: {error}", self.name))
    }

    /// The next line that has `part` in it.
    #[track_caller]
    pub(crate) fn line_with(&self, part: &str) -> String {
        let mut others = Vec::new();
        let give_up = Instant::now() + DEADLINE;
        loop {
            match self.lines.recv_timeout(give_up.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => others.push(line),
                Err(error) => panic!("no {part:?} of {}: {error}; {others:#?}", self.name),
            }
        }
    }

    /// What it has printed until now and nobody has asked for.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// Closes the other end of its output, at the next line that it prints.
    pub(crate) fn stop_reading(&mut self) {
        self.lines = mpsc::channel().1;
    }

    /// Closes the other end of its complaints.
    pub(crate) fn stop_reading_errors(&mut self) {
        self.process.stderr = None;
    }

    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id() as i32), signal).expect("it runs");
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.try_wait().expect("it is our child").is_some()
    }

    /// Everything it prints from here to its end, which is a good one.
    #[track_caller]
    pub(crate) fn output(self) -> Vec<String> {
        let name = self.name;
        let (status, output, errors) = self.outcome();
        assert!(status.success(), "{name} ended with {status}: {errors}");
        assert_eq!(errors, "", "{name} complained");
        output
    }

    /// Everything it prints from here to its end, whatever that is.
    #[track_caller]
    pub(crate) fn outcome(mut self) -> (ExitStatus, Vec<String>, String) {
        let mut output = Vec::new();
        let give_up = Instant::now() + DEADLINE;
        loop {
            match self.lines.recv_timeout(give_up.saturating_duration_since(Instant::now())) {
                Ok(line) => output.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{} has not ended; it printed {output:#?}", self.name)
                }
            }
        }
        let (status, errors) = self.end();
        (status, output, errors)
    }

    /// Sends a signal, and expects an orderly end within what a busy machine may take for that; an idle
    /// one needs milliseconds.
    #[track_caller]
    pub(crate) fn interrupt(mut self, signal: Signal) {
        let sent = Instant::now();
        self.signal(signal);
        let (status, errors) = self.end();
        assert!(status.success(), "{} ended with {status} on {signal}: {errors}", self.name);
        assert_eq!(errors, "", "{} complained on {signal}", self.name);
        let took = sent.elapsed();
        assert!(took < Duration::from_secs(5), "{} took {took:?} to end on {signal}", self.name);
    }

    #[track_caller]
    pub(crate) fn end(&mut self) -> (ExitStatus, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().expect("it is our child") {
                break status;
            }
            assert!(start.elapsed() < DEADLINE, "{} has not ended", self.name);
            thread::sleep(Duration::from_millis(1));
        };
        let mut errors = String::new();
        if let Some(stderr) = &mut self.process.stderr {
            stderr.read_to_string(&mut errors).expect("it prints text");
        }
        (status, errors)
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An example as a user starts it in an empty folder: Ctrl-C ends it.
#[allow(unsafe_code, reason = "there is no safe way to change what a child starts with")]
pub(crate) fn command(name: &str, args: &[&str], folder: &TempDir) -> Command {
    let mut command = Command::new(program(name));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    // A shell has its background jobs ignore SIGINT, tests with all that they start.
    // SAFETY: it makes one system call, which sets no handler.
    unsafe { command.pre_exec(|| Ok(signal(Signal::SIGINT, SigHandler::SigDfl).map(drop)?)) };
    command
}

/// Cargo puts examples beside the folder of this test.
fn program(name: &str) -> PathBuf {
    let test = env::current_exe().expect("this program has a path");
    let target = test.parent().and_then(|deps| deps.parent()).expect("it is in target/*/deps");
    let program = target.join("examples").join(name);
    assert!(program.exists(), "build the examples first: cargo build --examples");
    program
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("there is room for a folder")
}

#[track_caller]
pub(crate) fn assert_empty(folder: &TempDir) {
    let left: Vec<_> = folder.path().read_dir().expect("it is a folder").flatten().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// More than it takes a thread to go to sleep on a busy machine.
const DROWSY: Duration = Duration::from_secs(10);

/// Starts a thread that makes `call`, and returns once it sleeps there.
#[track_caller]
pub(crate) fn blocked<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (at_work, started) = mpsc::channel();
    let (done, returned) = mpsc::channel();
    thread::spawn(move || {
        at_work.send(gettid()).expect("the test waits for it");
        let _ = done.send(call());
    });
    let thread = started.recv_timeout(DROWSY).expect("a thread");
    let stat = format!("/proc/self/task/{thread}/stat");
    let give_up = Instant::now() + DROWSY;
    // "pid (name) S ...": sleeping.
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") S ")) {
        assert!(Instant::now() < give_up, "it does not block");
        thread::yield_now();
    }
    returned
}

/// What zkit has logged since [`record`].
static RECORDS: Records = Records(Mutex::new(Vec::new()));

struct Records(Mutex<Vec<(log::Level, String)>>);

impl log::Log for Records {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().expect("no panic here").push((record.level(), record.args().to_string()));
    }

    fn flush(&self) {}
}

/// Has warnings and errors kept from now on. The log is the process's: see [`alone`].
pub(crate) fn record() {
    let _ = log::set_logger(&RECORDS);
    log::set_max_level(log::LevelFilter::Warn);
}

/// What was logged since the last call.
pub(crate) fn records() -> Vec<(log::Level, String)> {
    std::mem::take(&mut *RECORDS.0.lock().expect("no panic here"))
}

/// Forks. The child runs `case` with its copy of `state` and ends; the parent gets its own back when
/// the child has succeeded.
#[track_caller]
#[allow(unsafe_code, reason = "fork and _exit are unsafe")]
pub(crate) fn in_a_fork<S>(state: S, case: impl FnOnce(S)) -> S {
    // SAFETY: the child goes on in Rust code, which is more than POSIX grants the child of a
    // process with threads, but what is to be tested. The system's allocator allows it.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
            state
        }
        ForkResult::Child => {
            alarm::set(10);
            let done = panic::catch_unwind(AssertUnwindSafe(|| case(state)));
            // SAFETY: ends this process, whatever its state.
            unsafe { libc::_exit(if done.is_ok() { 0 } else { 101 }) }
        }
    }
}

#[track_caller]
pub(crate) fn assert_forked<T>(result: zkit::Result<T>) {
    match result {
        Err(zkit::Error::Forked) => {}
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it worked"),
    }
}
