//! What the peers share: their command line, which is that of `../czmq.c`, and the clocks. `shapes`
//! has what their workloads have in common.

pub mod shapes;

use std::io::{self, Read};
use std::net::TcpListener;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::ClockId;

/// A library, and what it can do.
pub struct Peer {
    /// Its name and version, and those of what it runs on.
    pub versions: fn() -> String,
    pub workloads: &'static [Workload],
    pub proxy: Option<Middle>,
    /// The queue of the guide's Simple Pirate pattern.
    pub queue: Option<Middle>,
}

/// Runs between the endpoints of a frontend and a backend, and does not return.
pub type Middle = fn(&str, &str);

pub struct Workload {
    name: &'static str,
    /// Does an operation this many times, and says how long that took.
    run: Option<fn(u64) -> Duration>,
}

impl Workload {
    pub const fn new(name: &'static str, run: fn(u64) -> Duration) -> Workload {
        Workload { name, run: Some(run) }
    }

    /// Has this peer in the middle, as a process of its own. zkit's program has the other sides.
    pub const fn elsewhere(name: &'static str) -> Workload {
        Workload { name, run: None }
    }

    fn measure(&self, count: u64) -> Result<f64, &'static str> {
        let run = self.run.ok_or("zkit's program has the other sides of it")?;
        raise_descriptors();
        Ok(run(count).as_nanos() as f64 / count as f64)
    }
}

/// What a peer's `main` does.
pub fn run(peer: &Peer) -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        [] => {
            println!("{}", (peer.versions)());
            peer.workloads.iter().for_each(|workload| println!("{}", workload.name));
            Ok(())
        }
        ["--proxy", frontend, backend] => in_the_middle(peer.proxy, frontend, backend),
        ["--spqueue", frontend, backend] => in_the_middle(peer.queue, frontend, backend),
        [name, count] => measure(peer, name, count).map(|nanos| println!("{nanos:.2}")),
        _ => Err("usage: PEER [NAME COUNT]"),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(peer: &Peer, name: &str, count: &str) -> Result<f64, &'static str> {
    let mut workloads = peer.workloads.iter();
    let workload = workloads.find(|one| one.name == name).ok_or("it has no such workload")?;
    let count = count.parse().ok().filter(|&count| count > 0).ok_or("the count is a number")?;
    workload.measure(count)
}

fn in_the_middle(
    middle: Option<Middle>,
    frontend: &str,
    backend: &str,
) -> Result<(), &'static str> {
    let middle = middle.ok_or("it has nothing of this kind")?;
    raise_descriptors();
    thread::spawn(|| {
        // Nobody writes to it: it ends with whoever could.
        let _ = io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    middle(frontend, backend);
    Err("it ended")
}

/// Of a package that this one is built with.
pub fn version_of(package: &str) -> &'static str {
    let before = format!("name = \"{package}\"\nversion = \"");
    let lock = include_str!("../Cargo.lock").split_once(&before);
    lock.and_then(|(_, rest)| rest.split_once('"')).map_or("?", |(version, _)| version)
}

/// Takes CPU time.
pub struct Stopwatch {
    clock: ClockId,
    start: Duration,
}

impl Stopwatch {
    /// Of all threads of this process.
    pub fn of_process() -> Stopwatch {
        Stopwatch::of(ClockId::CLOCK_PROCESS_CPUTIME_ID)
    }

    /// Of the thread that calls this.
    pub fn of_thread() -> Stopwatch {
        Stopwatch::of(ClockId::CLOCK_THREAD_CPUTIME_ID)
    }

    fn of(clock: ClockId) -> Stopwatch {
        Stopwatch { clock, start: now(clock) }
    }

    pub fn elapsed(&self) -> Duration {
        now(self.clock) - self.start
    }
}

fn now(clock: ClockId) -> Duration {
    clock.now().expect("this process and thread have clocks").into()
}

/// An endpoint that nobody is bound to.
pub fn free_tcp() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    format!("tcp://{}", listener.local_addr().expect("it is bound"))
}

/// Many systems allow few descriptors until they are asked for more.
fn raise_descriptors() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}
