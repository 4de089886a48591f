//! What is in the middle of a workload and a process of its own, between sides that are the same for
//! all peers.

use std::fs;
use std::io::{self, Read};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::time::ClockId;
use nix::unistd::Pid;

/// A process that is killed when this is dropped.
pub(crate) struct Middle(Child);

impl Middle {
    pub(crate) fn start(command: &mut Command, stdout: Stdio) -> Middle {
        Middle(command.stdin(Stdio::piped()).stdout(stdout).spawn().unwrap())
    }

    /// Of all its threads, libzmq's included.
    pub(crate) fn cpu_time(&self) -> Duration {
        let pid = Pid::from_raw(self.0.id() as i32);
        let clock = ClockId::pid_cpu_clock_id(pid).expect("it is not waited for before");
        clock.now().expect("a process has a clock").into()
    }

    /// Of its first thread alone, where the system tells that of another process.
    pub(crate) fn first_thread_cpu_time(&self) -> Duration {
        let pid = self.0.id();
        let times = fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat"));
        let nanos = times.ok().and_then(|times| times.split_whitespace().next()?.parse().ok());
        nanos.map_or_else(|| self.cpu_time(), Duration::from_nanos)
    }

    /// What it prints, if it was started with a pipe for that.
    pub(crate) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This program, as a child.
pub(crate) fn this() -> Command {
    Command::new(std::env::current_exe().expect("it was started from somewhere"))
}

/// In the child. Nobody writes to it: it ends with whoever could.
pub(crate) fn wait_for_parent() {
    let _ = io::stdin().read(&mut [0]);
}

/// Whoever takes these ports in between lets the run fail.
pub(crate) fn free_endpoints() -> [String; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| format!("tcp://{}", listener.local_addr().unwrap()))
}

/// Raw sockets, connected.
pub(crate) fn sockets(
    ctx: &zmq::Context,
    kind: zmq::SocketType,
    endpoint: &str,
    number: usize,
) -> Vec<zmq::Socket> {
    let socket = |_| {
        let socket = ctx.socket(kind).unwrap();
        socket.set_linger(0).unwrap();
        socket.set_reconnect_ivl(10).unwrap(); // the middle may come later
        socket.connect(endpoint).unwrap();
        socket
    };
    (0..number).map(socket).collect()
}

pub(crate) fn poll_items(sockets: &[zmq::Socket]) -> Vec<zmq::PollItem<'_>> {
    sockets.iter().map(|socket| socket.as_poll_item(zmq::POLLIN)).collect()
}
