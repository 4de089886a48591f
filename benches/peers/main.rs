//! zkit beside raw `zmq` and CZMQ: each workload in interleaved rounds, each run a process of its
//! own. `run.sh` builds the peers and starts this; `../README.md` says how to read what it prints.

mod actors;
mod balance;
mod broker;
mod curve;
mod frames;
mod handover;
mod loops;
mod messages;
mod middle;
mod proxy;
mod roundtrip;
mod sizing;
mod spqueue;
mod workload;

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use workload::{Pinned, Workload};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: peers [--quick] [--czmq PROGRAM] [PART-OF-A-NAME...]";

fn all() -> impl Iterator<Item = &'static Workload> {
    let tables = [
        messages::WORKLOADS,
        roundtrip::WORKLOADS,
        curve::WORKLOADS,
        frames::WORKLOADS,
        loops::WORKLOADS,
        broker::WORKLOADS,
        spqueue::WORKLOADS,
        balance::WORKLOADS,
        actors::WORKLOADS,
        proxy::WORKLOADS,
        handover::WORKLOADS,
    ];
    tables.into_iter().flatten()
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.first().map(String::as_str) {
        Some("--run") => run_one(&args[1..]),
        Some("--proxy") => proxy::run(&args[1..]),
        Some("--spqueue") => spqueue::run(&args[1..]),
        Some("--sizing") => sizing::run(&args[1..]),
        _ => Plan::from(args).and_then(|plan| compare(&plan)),
    };
    if let Err(error) = done {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A child: `--run PEER NAME COUNT` prints the nanoseconds of one operation, as the CZMQ peer does.
fn run_one(args: &[String]) -> Result<()> {
    let [peer, name, count] = args else { return Err(USAGE.into()) };
    let mut runnable = all().chain(loops::CHECKS).chain(sizing::CHECKS);
    let workload = runnable.find(|one| one.name == name).ok_or("no such workload")?;
    let count: u64 = count.parse()?;
    let time = match peer.as_str() {
        "zkit" => (workload.zkit)(count),
        "raw" => workload.raw.ok_or("raw zmq does not have this workload")?(count),
        program if workload.is_one_of(proxy::WORKLOADS) => {
            proxy::czmq(Path::new(program), name, count)
        }
        program if workload.is_one_of(spqueue::WORKLOADS) => {
            spqueue::czmq(Path::new(program), name, count)
        }
        _ => return Err(USAGE.into()),
    };
    let time = if workload.pinned { time.cpu } else { time.wall };
    println!("{:.2}", time.as_nanos() as f64 / count as f64);
    Ok(())
}

/// What to run and how much of it.
struct Plan {
    rounds: usize,
    /// The part of a workload's usual count that a run does.
    divisor: u64,
    names: Vec<String>,
    czmq: Option<Czmq>,
}

impl Plan {
    fn from(args: Vec<String>) -> Result<Plan> {
        // Run as a test (`cargo test --benches`), it only shows that everything works.
        let mut plan = Plan { rounds: 1, divisor: 1000, names: Vec::new(), czmq: None };
        if !args.iter().any(|arg| arg == "--bench") {
            return Ok(plan);
        }
        (plan.rounds, plan.divisor) = (15, 1);
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--bench" => {}
                "--quick" => (plan.rounds, plan.divisor) = (5, 4),
                "--czmq" => plan.czmq = Some(Czmq::at(args.next().ok_or(USAGE)?.into())?),
                option if option.starts_with('-') => return Err(USAGE.into()),
                _ => plan.names.push(arg),
            }
        }
        Ok(plan)
    }

    fn wants(&self, workload: &Workload) -> bool {
        self.names.is_empty() || self.names.iter().any(|part| workload.name.contains(part.as_str()))
    }
}

/// The program with the CZMQ side.
struct Czmq {
    program: PathBuf,
    version: String,
    workloads: Vec<String>,
}

impl Czmq {
    fn at(program: PathBuf) -> Result<Czmq> {
        let output = output(&mut Command::new(&program))?;
        let mut lines = output.lines().map(str::to_owned);
        let version = lines.next().unwrap_or_default();
        Ok(Czmq { program, version, workloads: lines.collect() })
    }
}

fn compare(plan: &Plan) -> Result<()> {
    let (major, minor, patch) = zmq::version();
    let czmq = plan.czmq.as_ref().map_or("no CZMQ", |czmq| &czmq.version);
    println!("# zkit and raw zmq on libzmq {major}.{minor}.{patch}; {czmq}");
    println!("# ns per operation, the median of {} interleaved rounds", plan.rounds);
    println!("# zkit/raw and zkit/czmq are of speed: the other's time / zkit's, more is better");
    let mut workloads = all().filter(|workload| plan.wants(workload)).peekable();
    if workloads.peek().is_none() {
        let names: Vec<_> = all().map(|workload| workload.name).collect();
        return Err(format!("no such workload; there are {}", names.join(", ")).into());
    }
    workloads.try_for_each(|workload| {
        if workload.name == "curve" && !zkit::engine().curve {
            println!("curve is unsupported by {}", zkit::engine());
            return Ok(());
        }
        println!("{}", line(plan, workload)?);
        Ok(())
    })
}

/// Measures a workload.
fn line(plan: &Plan, workload: &Workload) -> Result<String> {
    let count = (workload.count / plan.divisor).max(10);
    let peers = peers(plan, workload)?;
    let _pinned = workload.pinned.then(Pinned::new);

    let mut times = vec![Vec::with_capacity(plan.rounds); peers.len()];
    for round in 0..plan.rounds {
        // Each goes first in its turn.
        for turn in 0..peers.len() {
            let index = (round + turn) % peers.len();
            if let Some(command) = &peers[index] {
                times[index].push(command.measure(workload, count)?);
            }
        }
    }

    let [zkit, raw, czmq] = &times[..] else { return Err("three peers have three times".into()) };
    let time = |times: &[f64]| {
        median(times.to_vec()).map_or_else(|| "-".into(), |time| format!("{time:.1}"))
    };
    let ratio = |over: &[f64], under: &[f64]| {
        let ratios = over.iter().zip(under).map(|(over, under)| over / under).collect();
        median(ratios).map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"))
    };
    let mut line = format!(
        "{} n={count} zkit={} raw={} czmq={} zkit/raw={} zkit/czmq={}",
        workload.name,
        time(zkit),
        time(raw),
        time(czmq),
        ratio(raw, zkit),
        ratio(czmq, zkit)
    );
    if is_one_of(workload, &[roundtrip::WORKLOADS, balance::WORKLOADS, actors::WORKLOADS]) {
        line += &format!(" time:zkit/raw={}", ratio(zkit, raw));
    }
    Ok(line)
}

fn is_one_of(workload: &Workload, tables: &[&[Workload]]) -> bool {
    tables.iter().any(|table| workload.is_one_of(table))
}

/// How to start a peer: the name and the count go behind the arguments.
struct Peer {
    program: PathBuf,
    args: Vec<OsString>,
}

impl Peer {
    fn measure(&self, workload: &Workload, count: u64) -> Result<f64> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).arg(workload.name).arg(count.to_string());
        Ok(output(&mut command)?.trim().parse()?)
    }
}

/// zkit, raw and CZMQ; `None` where one does not have the workload.
fn peers(plan: &Plan, workload: &Workload) -> Result<[Option<Peer>; 3]> {
    let this = std::env::current_exe()?;
    let run =
        |peer: &OsStr| Peer { program: this.clone(), args: vec!["--run".into(), peer.into()] };
    let has = |czmq: &&Czmq| czmq.workloads.iter().any(|name| name == workload.name);
    let czmq = plan.czmq.as_ref().filter(has).map(|czmq| {
        if is_one_of(workload, &[proxy::WORKLOADS, spqueue::WORKLOADS]) {
            return run(czmq.program.as_os_str());
        }
        Peer { program: czmq.program.clone(), args: Vec::new() }
    });
    let raw = workload.raw.map(|_| run("raw".as_ref()));
    Ok([Some(run("zkit".as_ref())), raw, czmq])
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{command:?} ended with {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}
