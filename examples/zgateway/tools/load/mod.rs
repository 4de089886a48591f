//! A load generator: many connections whose every reply is checked.
//!
//! Closed loop, it keeps so many messages of each connection in flight; open loop, it sends at a
//! rate, whatever the replies do, and counts a reply's latency from when its message was due.

mod body;
mod client;
mod connect;
mod report;
mod schedule;
mod tally;

use std::convert::Infallible;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{panic, thread};

use anyhow::{Context, Result, ensure};
use zkit::interrupt;

use super::duration;
pub use report::Report;
use tally::Tally;

/// Sends messages over many connections and checks the replies. The exit status is 1 if any was not
/// as it should be.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Where to connect: several take turns.
    #[arg(long, required = true, num_args = 1.., value_parser = resolve, value_name = "ADDRESS")]
    pub connect: Vec<SocketAddr>,
    /// How many connections to open.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: u32,
    /// How many of them send. All, unless told.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub busy: Option<u32>,
    /// The type of messages.
    #[arg(long = "type", default_value_t = 1, value_name = "TYPE")]
    pub kind: u8,
    /// The type that replies should have. The same, unless told.
    #[arg(long, value_name = "TYPE")]
    pub reply_type: Option<u8>,
    /// Bytes of a message's body.
    #[arg(long, default_value_t = 64, value_name = "BYTES",
        value_parser = clap::value_parser!(u32).range(body::LEAST as i64..=64 << 20))]
    pub body: u32,
    /// How long to send.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub duration: Duration,
    /// How many messages of a connection may wait for replies: 16, or 1000 with a rate, unless told.
    #[arg(long, value_name = "MESSAGES", value_parser = clap::value_parser!(u32).range(1..))]
    pub in_flight: Option<u32>,
    /// Messages per second of all connections together, instead of as fast as replies come.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    /// How long to wait for replies after the last message.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub wait: Duration,
    /// How many threads share the connections.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,
    /// Print the summary as one line of JSON.
    #[arg(long)]
    pub json: bool,
}

impl Args {
    fn busy(&self) -> u32 {
        self.busy.unwrap_or(self.connections)
    }

    fn in_flight(&self) -> u32 {
        self.in_flight.unwrap_or(if self.rate.is_some() { 1000 } else { 16 })
    }
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let mut addresses = text.to_socket_addrs().map_err(|error| error.to_string())?;
    addresses.next().ok_or_else(|| "it has no address".into())
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let report = measure(args)?;
    match args.json {
        true => println!("{}", report.json()),
        false => println!("{report}"),
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Puts the load on, until its time is over or the process is interrupted.
pub fn measure(args: &Args) -> Result<Report> {
    let Args { connections, .. } = *args;
    let busy = args.busy();
    ensure!(busy <= connections, "{busy} of {connections} connections cannot be busy");
    reserve_descriptors(connections)?;
    interrupt::catch()?;

    let threads = args.threads.min(connections);
    let progress: Vec<Progress> = (0..threads).map(|_| Progress::default()).collect();
    let start = Start { barrier: Barrier::new(threads as usize), failed: AtomicBool::new(false) };
    let epoch = Instant::now();
    let tallies: Result<Vec<Tally>> = thread::scope(|scope| {
        let (working, ended) = mpsc::channel::<Infallible>();
        let mut workers = Vec::new();
        for (thread, progress) in (0..).zip(&progress) {
            let share = Share { args, thread, threads, epoch, progress };
            let (start, working) = (&start, working.clone());
            workers.push(scope.spawn(move || {
                let _working = working;
                work(&share, start)
            }));
        }
        drop(working);
        watch(&progress, &ended);
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.map(|tally| tally.unwrap_or_else(|panic| panic::resume_unwind(panic))).collect()
    });
    Report::new(args, tallies?)
}

fn reserve_descriptors(connections: u32) -> Result<()> {
    let needed = u64::from(connections) + 64;
    let limit =
        rlimit::increase_nofile_limit(u64::MAX).context("cannot raise the limit of descriptors")?;
    ensure!(
        needed <= limit,
        "{connections} connections need {needed} descriptors, and the process may have {limit}: \
         raise its hard limit (ulimit -Hn)"
    );
    Ok(())
}

/// A thread's share of the work: every connection whose number is its own, counted by the number of
/// threads.
struct Share<'a> {
    args: &'a Args,
    thread: u32,
    threads: u32,
    /// What times are counted from.
    epoch: Instant,
    progress: &'a Progress,
}

impl Share<'_> {
    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
}

/// How all threads start at a time, or none.
struct Start {
    barrier: Barrier,
    failed: AtomicBool,
}

fn work(share: &Share<'_>, start: &Start) -> Result<Tally> {
    let Share { args, thread, threads, progress, .. } = *share;
    let numbers = (thread..args.connections).step_by(threads as usize);
    let addresses: Vec<SocketAddr> =
        numbers.map(|number| args.connect[number as usize % args.connect.len()]).collect();
    let opened = connect::open(&addresses, |open| progress.open.store(open as u64, Relaxed));
    if opened.is_err() {
        start.failed.store(true, Relaxed);
    }
    start.barrier.wait();
    let streams = opened?;
    if start.failed.load(Relaxed) {
        return Tally::new(); // nobody will look at it
    }
    client::run(share, streams)
}

/// How far a thread is, for others to look at.
#[derive(Default)]
struct Progress {
    open: AtomicU64,
    received: AtomicU64,
    outstanding: AtomicU64,
}

/// Says each second how far the threads are, until they end.
fn watch(progress: &[Progress], ended: &mpsc::Receiver<Infallible>) {
    let sum = |which: fn(&Progress) -> &AtomicU64| {
        progress.iter().map(|one| which(one).load(Relaxed)).sum::<u64>()
    };
    let mut before = (Instant::now(), 0);
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(Duration::from_secs(1)) {
        let (time, received) = (Instant::now(), sum(|one| &one.received));
        let rate = (received - before.1) as f64 / (time - before.0).as_secs_f64();
        let (open, outstanding) = (sum(|one| &one.open), sum(|one| &one.outstanding));
        eprintln!("{open} connections, {rate:.0} messages/s, {outstanding} outstanding");
        before = (time, received);
    }
}
