//! What the integration tests share: a deadline on everything that may block, names that no other
//! test uses, and child processes.

#![allow(dead_code, reason = "each test crate uses a part of it")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{env, fs, panic, thread};

use nix::libc;
use nix::unistd::{alarm, gettid};

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
    format!("{name}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
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
    process: std::process::Child,
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
