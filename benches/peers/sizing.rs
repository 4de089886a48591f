//! How many clients, and how much of them, one queue serves: 2,500 DEALERs in the place of REQs that
//! ask on a schedule whatever comes back, the queue of `spqueue.rs`, and REQ workers that answer at
//! once, over tcp. Clients, queue and workers are a process each.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use zkit::{Error, Exit, Repeat, ZContext, ZLoop, ZMsg, ZSock};

use crate::Result;
use crate::loops::raise_descriptors;
use crate::middle::{Middle, free_endpoints, sockets, this, wait_for_parent};
use crate::spqueue::serve;
use crate::workload::{Time, Workload};

const CLIENTS: u64 = 2_500;
const WORKERS: usize = 100;
const SIZE: usize = 1_000;

/// All clients' requests per second: what is asked for first, and what is tried when that is too much.
const RATES: &[u64] = &[25_000, 20_000, 17_500, 15_000, 12_500, 10_000, 7_500, 5_000, 2_500];

/// Requests come due in steps of this.
const STEP: Duration = Duration::from_millis(1);
/// The schedule runs for so long before anything counts.
const SETTLE: Duration = Duration::from_secs(1);
/// All clients have their first reply.
const CONNECTED_WITHIN: Duration = Duration::from_secs(60);
/// A backlog that is more than the requests of this time larger at the end than half-way is one that
/// grows.
const SLACK: Duration = Duration::from_millis(50);

/// What the clients say: that the measurement begins, and how it ended.
const BEGIN: &str = "begin";
const SUSTAINED: &str = "sustained";
const NOT_SUSTAINED: &str = "not-sustained";

/// Not part of a comparison, and slow: `peers --run zkit sizing SECONDS`.
pub(crate) const CHECKS: &[Workload] =
    &[Workload { name: "sizing", count: 5, pinned: true, zkit: highest_rate, raw: None }];

/// Tries one rate after another until one is sustained. The time is that of the last one.
fn highest_rate(seconds: u64) -> Time {
    for rate in RATES {
        let (report, is_sustained, time) = at_rate(*rate, seconds);
        eprintln!("{report}");
        if is_sustained {
            return time;
        }
    }
    panic!("no rate was sustained");
}

/// A line about this many seconds at that rate, and the CPU time of the queue in them.
fn at_rate(rate: u64, seconds: u64) -> (String, bool, Time) {
    let [frontend, backend] = free_endpoints();
    let queue =
        Middle::start(this().args(["--spqueue", "zkit", &frontend, &backend]), Stdio::null());
    let workers = Middle::start(this().args(["--sizing", "workers", &backend]), Stdio::null());
    let [rate, seconds] = [rate, seconds].map(|number| number.to_string());
    let args = ["--sizing", "clients", &frontend, &rate, &seconds];
    let mut clients = Middle::start(this().args(args), Stdio::piped());

    let stdout = clients.take_stdout().expect("it was asked for");
    let mut lines = BufReader::new(stdout).lines();
    let mut line = || lines.next().expect("the clients end only when they are killed").unwrap();
    let processes = [&clients, &queue, &workers];
    let cpu = || processes.map(Middle::cpu_time);
    assert_eq!(line(), BEGIN);
    let (start, idle_before, before) = (Instant::now(), idle(), cpu());
    let report = line();
    let (wall, idle_after, after) = (start.elapsed(), idle(), cpu());

    let cores = |time: Duration| time.as_secs_f64() / wall.as_secs_f64();
    let mut cpu = String::new();
    for (i, name) in ["clients", "broker", "workers"].into_iter().enumerate() {
        cpu += &format!(" {name}={:.2}", cores(after[i] - before[i]));
    }
    if let (Some(before), Some(after)) = (idle_before, idle_after) {
        cpu += &format!(" idle={:.2}", cores(after.saturating_sub(before)));
    }
    let (numbers, verdict) = report.rsplit_once(';').expect("it is of two parts");
    let time = Time { wall, cpu: after[1] - before[1] };
    let report = format!("sizing rate={rate} {numbers} cores:{cpu} {verdict}");
    (report, verdict == SUSTAINED, time)
}

/// What all cores have had to spare since the system's start, where it is told.
fn idle() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let hundredths: u64 = stat.lines().next()?.split_whitespace().nth(4)?.parse().ok()?;
    Some(Duration::from_millis(10 * hundredths))
}

/// A child: `--sizing workers BACKEND`, or `--sizing clients FRONTEND RATE SECONDS`, until it is
/// killed or its parent is gone.
pub(crate) fn run(args: &[String]) -> Result<()> {
    raise_descriptors();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["workers", backend] => {
            let ctx = zmq::Context::new();
            let workers = sockets(&ctx, zmq::REQ, backend, WORKERS);
            thread::spawn(move || serve(&workers));
        }
        ["clients", frontend, rate, seconds] => {
            let (frontend, rate) = (frontend.to_owned(), rate.parse()?);
            let time = Duration::from_secs(seconds.parse()?);
            thread::spawn(move || {
                if let Err(error) = clients(&frontend, rate, time) {
                    eprintln!("{error}");
                    std::process::exit(1);
                }
            });
        }
        _ => return Err("--sizing workers BACKEND | --sizing clients FRONTEND RATE SECONDS".into()),
    }
    wait_for_parent();
    std::process::exit(0);
}

fn clients(frontend: &str, rate: u64, time: Duration) -> zkit::Result<()> {
    let ctx = ZContext::builder().max_sockets(CLIENTS as u32).build()?;
    let sockets: zkit::Result<Vec<ZSock>> =
        (0..CLIENTS).map(|_| ctx.dealer(&format!(">{frontend}"))).collect();
    let sockets = sockets?;
    let mut zloop = ZLoop::new()?;
    for socket in &sockets {
        zloop.reader(socket, Clients::on_reply)?;
    }

    // One of each first, to have everybody connected.
    sockets.iter().try_for_each(|socket| socket.send(request(u64::MAX)))?;
    let start = Instant::now();
    let mut clients = Clients {
        sockets: &sockets,
        rate,
        time,
        start,
        sent: 0,
        received: 0,
        begun: None,
        half: None,
        latencies: Vec::with_capacity((rate * time.as_secs()) as usize),
    };
    while clients.received < CLIENTS {
        if start.elapsed() > CONNECTED_WITHIN {
            return Err(Error::other(format!("only {} clients connected", clients.received)));
        }
        zloop.turn(&mut clients, Some(STEP))?;
    }

    (clients.start, clients.received) = (Instant::now(), 0);
    zloop.timer(STEP, Repeat::Forever, Clients::on_step)?;
    assert_eq!(zloop.run(&mut clients)?, Exit::Stopped);
    Ok(())
}

/// The body begins with when it was due, in microseconds.
fn request(due: u64) -> (&'static str, Vec<u8>) {
    let mut body = vec![b'x'; SIZE];
    body[..8].copy_from_slice(&due.to_le_bytes());
    ("", body)
}

struct Clients<'a> {
    sockets: &'a [ZSock],
    rate: u64,
    /// That of the measurement, after what it takes to settle.
    time: Duration,
    /// Of the schedule.
    start: Instant,
    sent: u64,
    received: u64,
    /// What had been received when the measurement began.
    begun: Option<u64>,
    /// The backlog half-way.
    half: Option<u64>,
    /// Microseconds, of what came due in the measurement and was answered in it.
    latencies: Vec<u64>,
}

impl<'a> Clients<'a> {
    /// Sends what has come due by now.
    fn on_step(&mut self, zloop: &mut ZLoop<'a, Self>) -> zkit::Result<()> {
        let now = self.start.elapsed();
        if now >= SETTLE && self.begun.is_none() {
            self.begun = Some(self.received);
            self.say(BEGIN);
        }
        if now >= SETTLE + self.time / 2 && self.half.is_none() {
            self.half = Some(self.backlog(now));
        }
        if now >= SETTLE + self.time {
            self.report(now);
            zloop.stop();
            return Ok(());
        }
        while self.sent < self.due(now) {
            // Of the step that it came due in, which may be a while ago.
            let step = ((self.sent + 1) * 1_000).div_ceil(self.rate);
            self.sockets[(self.sent % CLIENTS) as usize].send(request(step * 1_000))?;
            self.sent += 1;
        }
        Ok(())
    }

    /// How many requests, by whole steps.
    fn due(&self, now: Duration) -> u64 {
        now.as_millis() as u64 * self.rate / 1_000
    }

    fn backlog(&self, now: Duration) -> u64 {
        self.due(now).saturating_sub(self.received)
    }

    fn on_reply(&mut self, _: &mut ZLoop<'a, Self>, msg: ZMsg) -> zkit::Result<()> {
        self.received += 1;
        let body = msg.last().ok_or_else(|| Error::other("an empty reply"))?;
        let due = body.first_chunk().map_or(u64::MAX, |due| u64::from_le_bytes(*due));
        if due != u64::MAX && due >= SETTLE.as_micros() as u64 {
            self.latencies.push((self.start.elapsed().as_micros() as u64).saturating_sub(due));
        }
        Ok(())
    }

    fn report(&mut self, now: Duration) {
        let received = self.received - self.begun.unwrap_or(0);
        let achieved = received as f64 / (now - SETTLE).as_secs_f64();
        let (half, end) = (self.half.unwrap_or(0), self.backlog(now));
        let slack = (self.rate as f64 * SLACK.as_secs_f64()) as u64;
        let is_sustained = end <= half + slack && achieved >= 0.99 * self.rate as f64;
        self.latencies.sort_unstable();
        let percentile = |percent: usize| {
            let index = (self.latencies.len() * percent / 100).min(self.latencies.len() - 1);
            self.latencies[index] as f64 / 1_000.0
        };
        let (p50, p99) = match self.latencies.len() {
            0 => (f64::NAN, f64::NAN),
            _ => (percentile(50), percentile(99)),
        };
        self.say(&format!(
            "achieved={achieved:.0} p50={p50:.2}ms p99={p99:.2}ms backlog={half}..{end};{}",
            if is_sustained { SUSTAINED } else { NOT_SUSTAINED }
        ));
    }

    fn say(&self, line: &str) {
        let mut stdout = std::io::stdout();
        let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    }
}
