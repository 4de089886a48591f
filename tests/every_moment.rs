//! Ctrl-C at every moment of a program's start: on the way into each system call of its main thread.
//! Where the system lets nobody trace, these tests are skipped.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "there is no safe way to have a child process traced")]

mod common;

use std::io::{self, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use tempfile::TempDir;

use common::{DEADLINE, assert_empty, command, folder};

/// An example that has done nothing new for so long waits for others: its start is over.
const PATIENCE: Duration = Duration::from_secs(3);

/// How a process ended, and what it complained of.
struct End {
    status: WaitStatus,
    complaints: String,
}

/// Runs an example and has it get a SIGINT while its main thread makes its `call`th system call.
/// `None` when there was none: it has begun to wait.
fn interrupted_in(
    call: usize,
    name: &str,
    args: &[&str],
    folder: &TempDir,
) -> io::Result<Option<End>> {
    let mut command = command(name, args, folder);
    command
        .env_remove("LD_LIBRARY_PATH") // Cargo's, where the loader would search, call by call
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // SAFETY: it makes one system call.
    unsafe { command.pre_exec(|| Ok(ptrace::traceme()?)) };
    let mut process = command.spawn()?;
    let pid = Pid::from_raw(process.id() as i32);
    assert!(matches!(waitpid(pid, None)?, WaitStatus::Stopped(_, Signal::SIGTRAP)), "its exec");
    ptrace::setoptions(pid, Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL)?;

    // Whoever sets this interrupts the process, so that nobody does it again.
    let interrupted = Arc::new(AtomicBool::new(false));
    let (ended, end) = mpsc::channel::<()>();
    let watchdog = thread::spawn({
        let interrupted = Arc::clone(&interrupted);
        move || {
            let goes_on = |time| end.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if goes_on(PATIENCE) && !interrupted.swap(true, Ordering::SeqCst) {
                let _ = kill(pid, Signal::SIGINT);
            }
            if goes_on(DEADLINE) {
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
    });
    // It stops on the way into a call and on the way out.
    let moment = 2 * call - 1;
    let (mut stops, mut in_time) = (0, false);
    let mut deliver = None;
    let status = loop {
        // It fails once the watchdog has killed the process, which is waited for then.
        let _ = ptrace::syscall(pid, deliver);
        deliver = match waitpid(pid, None)? {
            WaitStatus::PtraceSyscall(_) => {
                stops += 1;
                if stops == moment && !interrupted.swap(true, Ordering::SeqCst) {
                    in_time = true;
                    Some(Signal::SIGINT)
                } else {
                    None
                }
            }
            WaitStatus::Stopped(_, signal) => Some(signal),
            status => break status,
        };
    };
    drop(ended);
    watchdog.join().expect("it does not panic");
    if !in_time {
        return Ok(None);
    }
    let mut complaints = String::new();
    process.stderr.take().expect("it is piped").read_to_string(&mut complaints)?;
    Ok(Some(End { status, complaints }))
}

/// Interrupts an example in every `step`th call. From the moment on at which zkit catches signals, it
/// ends in order and leaves nothing behind. Before that the signal kills it.
#[track_caller]
fn ends_in_order(step: usize, name: &str, args: &[&str]) {
    let mut in_order = 0;
    for call in (1..).step_by(step) {
        let folder = folder();
        let end = match interrupted_in(call, name, args, &folder) {
            Ok(Some(end)) => end,
            Ok(None) => break,
            Err(why) if why.kind() == ErrorKind::PermissionDenied => {
                eprintln!("skipped: nobody may trace here: {why}");
                return;
            }
            Err(why) => panic!("{name} at {call}: {why}"),
        };
        match end.status {
            WaitStatus::Exited(_, 0) => in_order += 1,
            WaitStatus::Signaled(_, Signal::SIGINT, _) if in_order == 0 => {}
            status => panic!("{name} at {call}: {status:?} {}", end.complaints),
        }
        assert_eq!(end.complaints, "", "{name} at {call}");
        assert_empty(&folder);
    }
    println!("{name}: {in_order} calls");
    assert!(in_order > 50 / step, "{name}: {in_order}");
}

#[test]
fn a_server_ends_in_order() {
    ends_in_order(1, "hwserver", &["ipc://hello"]);
}

#[test]
fn a_client_ends_in_order() {
    ends_in_order(1, "wuclient", &["10001", "ipc://weather"]);
}

#[test]
fn actors_and_threads_end_in_order() {
    ends_in_order(3, "asyncsrv", &["3", "60", "--endpoint", "ipc://clients"]);
}
