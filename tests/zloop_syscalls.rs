//! What a loop asks of the system, counted by strace: a message that is waiting costs no system
//! call. Without strace, or where it may not trace, these tests are skipped; if
//! `ZKIT_REQUIRE_STRACE` is set, only where it may not.

#![cfg(target_os = "linux")]

mod common;

use std::io::ErrorKind;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;
use std::{env, fs, thread};

use nix::unistd::alarm;
use zkit::{SocketType, ZContext, ZLoop, ZSock};

use common::{child_role, unique, within};

/// Tracing makes a system call some hundred times slower.
const LIMIT: Duration = Duration::from_secs(100);
const ROLE: &str = "traced";
/// Where the files are not that are asked for to mark a place in the trace.
const MARK: &str = "/zkit-test-mark/";

/// Why nothing can be traced here.
enum Cannot {
    Find(String),
    Trace(String),
}

static STRACE: LazyLock<Result<(), Cannot>> = LazyLock::new(|| {
    match Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(Cannot::Trace(String::from_utf8_lossy(&output.stderr).into_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Cannot::Find(error.to_string())),
        Err(error) => Err(Cannot::Trace(error.to_string())),
    }
});

/// Whether there is a strace that works; if not, says so.
fn can_trace() -> bool {
    match &*STRACE {
        Ok(()) => return true,
        Err(Cannot::Find(why)) => {
            assert!(env::var_os("ZKIT_REQUIRE_STRACE").is_none(), "strace is missing: {why}");
            eprintln!("skipped: strace is missing: {why}");
        }
        Err(Cannot::Trace(why)) => eprintln!("skipped: strace cannot even trace `true`: {why}"),
    }
    false
}

/// Runs `case` in a process of its own, this test binary again under strace, and returns the trace
/// here; `None` within that process, and where nothing can be traced.
fn traced(case: impl FnOnce()) -> Option<Trace> {
    if child_role().is_some_and(|role| role == ROLE) {
        alarm::set(90);
        case();
        return None;
    }
    if !can_trace() {
        return None;
    }
    let test = thread::current().name().expect("libtest names its threads").to_owned();
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-q", "-s", "80", "-o"])
        .args([file.path(), &env::current_exe().unwrap()])
        .args([&test, "--exact", "--nocapture"])
        .env("ZKIT_TEST_ROLE", ROLE);
    let output = within(LIMIT, &test, move || strace.output().unwrap());
    print!("{}", String::from_utf8_lossy(&output.stdout));
    print!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}", output.status);
    Some(Trace(fs::read_to_string(file.path()).unwrap()))
}

/// Marks a place in the trace, by a system call that no one else makes.
fn mark(name: &str) {
    fs::metadata(format!("{MARK}{name}")).unwrap_err();
}

/// Does `work` between two marks.
fn marked<T>(name: &str, work: impl FnOnce() -> T) -> T {
    mark(&format!("{name}.begin"));
    let result = work();
    mark(&format!("{name}.end"));
    result
}

/// Lines of "thread call(...) = result".
struct Trace(String);

impl Trace {
    /// How many system calls the thread made that did the work `name`, in doing so.
    fn calls(&self, name: &str) -> usize {
        let place = |end: &str| {
            let path = format!("\"{MARK}{name}.{end}\"");
            let found = self.0.lines().enumerate().find(|(_, line)| line.contains(&path));
            let (number, line) = found.unwrap_or_else(|| panic!("no {path} in the trace"));
            (number, line.split_whitespace().next().unwrap())
        };
        let ((begin, thread), (end, ended)) = (place("begin"), place("end"));
        assert_eq!(thread, ended, "the thread of the work");
        let lines = self.0.lines().take(end).skip(begin + 1);
        // A call that another thread's came between has two lines.
        let calls = lines.filter(|line| {
            line.split_whitespace().next() == Some(thread) && !line.contains(" resumed>")
        });
        calls.count()
    }
}

/// PUSH and PULL without a limit, so that everything can be sent before anything is received.
fn unlimited(ctx: &ZContext) -> (ZSock, ZSock) {
    let name = format!("inproc://{}", unique("syscalls"));
    let pull = ctx.socket(SocketType::Pull).unwrap();
    pull.set_rcvhwm(None).unwrap();
    pull.bind(&name).unwrap();
    let push = ctx.socket(SocketType::Push).unwrap();
    push.set_sndhwm(None).unwrap();
    push.connect(&name).unwrap();
    (push, pull)
}

/// Has a loop read `each` messages from each of so many sockets, all sent before, as the work
/// `name`.
fn read_waiting(name: &str, sockets: usize, each: usize) {
    let ctx = ZContext::builder().signals(false).build().unwrap();
    let sockets: Vec<_> = (0..sockets).map(|_| unlimited(&ctx)).collect();
    let mut zloop = ZLoop::<usize>::new().unwrap();
    for (_, pull) in &sockets {
        zloop
            .reader(pull, |received: &mut usize, _, _| {
                *received += 1;
                Ok(())
            })
            .unwrap();
    }
    for _ in 0..each {
        for (push, _) in &sockets {
            push.send("x").unwrap();
        }
    }
    let mut received = 0;
    marked(name, || {
        while received < sockets.len() * each {
            assert_eq!(zloop.turn(&mut received, Some(LIMIT)).unwrap(), None);
        }
    });
    assert_eq!(received, sockets.len() * each);
}

#[test]
fn the_trace_shows_every_call_of_the_thread_and_of_no_other() {
    let trace = traced(|| {
        marked("many", || {
            thread::scope(|scope| {
                let other = scope.spawn(|| (0..1_000).for_each(|_| mark("other thread")));
                (0..100).for_each(|_| mark("this thread"));
                other.join().unwrap();
            });
        });
        marked("none", || ());
    });
    let Some(trace) = trace else { return };
    assert_eq!(trace.calls("none"), 0);
    // A thread costs some too.
    let calls = trace.calls("many");
    assert!((100..200).contains(&calls), "{calls}");
}

/// Ten times the messages, and not even a call more for ten of them.
#[track_caller]
fn costs_no_call_per_message(sockets: usize, each: usize) {
    let trace = traced(|| {
        read_waiting("few", sockets, each);
        read_waiting("many", sockets, 10 * each);
    });
    let Some(trace) = trace else { return };
    let (few, many) = (trace.calls("few"), trace.calls("many"));
    let messages = sockets * each;
    println!("{sockets} sockets: {messages} messages {few} calls, {} {many}", 10 * messages);
    let more = many.saturating_sub(few);
    assert!(more < 9 * messages / 10, "{more} calls more for {} messages", 9 * messages);
}

#[test]
fn messages_that_wait_in_a_busy_socket_cost_no_system_call_each() {
    costs_no_call_per_message(1, 2_000);
}

#[test]
fn messages_that_wait_in_many_sockets_cost_no_system_call_each() {
    costs_no_call_per_message(200, 10);
}
