//! zkit beside its peers: each workload in interleaved rounds, each run a process of its own.
//! `run.sh` builds the peers and starts this; `../README.md` says how to read what it prints.

mod actors;
mod balance;
mod broker;
mod compare;
mod curve;
mod frames;
mod handover;
mod loops;
mod machine;
mod messages;
mod middle;
mod peer;
mod plot;
mod proxy;
mod report;
mod roundtrip;
mod sizing;
mod spqueue;
mod workload;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use compare::Plan;
use workload::Workload;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: peers [--quick | --rounds N] [--peer PROGRAM]... \
    [--save FILE] [PART-OF-A-NAME...]\n       peers --report FILE FOLDER";

/// What is measured.
const GROUPS: &[Group] = &[
    Group("Messages", &[messages::WORKLOADS]),
    Group("A question and its answer", &[roundtrip::WORKLOADS]),
    Group("Frames and messages without a socket", &[frames::WORKLOADS]),
    Group("The reactor", &[loops::WORKLOADS]),
    Group("Brokers", &[broker::WORKLOADS, spqueue::WORKLOADS, balance::WORKLOADS]),
    Group("Proxies", &[proxy::WORKLOADS]),
    Group("Actors and threads", &[actors::WORKLOADS, handover::WORKLOADS]),
    Group("Encryption", &[curve::WORKLOADS]),
];

/// A heading of the report, and what is under it.
struct Group(&'static str, &'static [&'static [Workload]]);

impl Group {
    fn workloads(&self) -> impl Iterator<Item = &'static Workload> + use<> {
        self.1.iter().copied().flatten()
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    // Run as a test (`cargo test --benches`), it only shows that everything works.
    let is_test = !std::env::args().any(|arg| arg == "--bench");
    let done = match args.first().map(String::as_str) {
        Some("--run") => run_one(&args[1..]),
        Some("--proxy") => proxy::run(&args[1..]),
        Some("--spqueue") => spqueue::run(&args[1..]),
        Some("--sizing") => sizing::run(&args[1..]),
        Some("--report") => report::write(&args[1..]),
        _ if is_test => compare::all(&Plan::once()),
        _ => Plan::from(args).and_then(|plan| compare::all(&plan)),
    };
    if let Err(error) = done {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A child: `--run PEER NAME COUNT` prints the nanoseconds of one operation, as the programs of other
/// peers do. What is a process in the middle is that of a program, if the peer is one.
fn run_one(args: &[String]) -> Result<()> {
    let [peer, name, count] = args else { return Err(USAGE.into()) };
    let workloads = GROUPS.iter().flat_map(Group::workloads);
    let mut runnable = workloads.chain(loops::CHECKS).chain(sizing::CHECKS);
    let workload = runnable.find(|one| one.name == name).ok_or("no such workload")?;
    let count: u64 = count.parse()?;
    let time = match peer.as_str() {
        "zkit" => (workload.zkit)(count),
        "raw" => workload.raw.ok_or("raw zmq does not have this workload")?(count),
        program if workload.is_one_of(proxy::WORKLOADS) => {
            proxy::of_program(Path::new(program), name, count)
        }
        program if workload.is_one_of(spqueue::WORKLOADS) => {
            spqueue::of_program(Path::new(program), name, count)
        }
        _ => return Err(USAGE.into()),
    };
    let time = if workload.pinned { time.cpu } else { time.wall };
    println!("{:.2}", time.as_nanos() as f64 / count as f64);
    Ok(())
}
