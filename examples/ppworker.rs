//! Paranoid Pirate worker: tells the queue that it lives, and notices when the queue does not.
//!
//!     cargo run --release --example ppworker

use std::time::{Duration, Instant};

use clap::Parser;
use zkit::{Error, Result, SocketType, ZContext, ZMsg, ZSock, clock, orderly};

const READY: &[u8] = b"\x01";
const HEARTBEAT: &[u8] = b"\x02";
/// How many heartbeats of the queue may be missed.
const LIVENESS: u32 = 3;

/// Echoes requests; after the third it may simulate an overload or a crash.
#[derive(Parser)]
struct Args {
    /// The queue's backend.
    #[arg(default_value = "tcp://localhost:5556")]
    endpoint: String,
    /// How long the work for a reply takes, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    work: u64,
    /// Time between heartbeats, in milliseconds.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    heartbeat: u64,
    /// How long to wait before the first try to reconnect, in milliseconds. It doubles with each.
    #[arg(long, default_value_t = 1000)]
    reconnect: u64,
    /// How long to wait at most, in milliseconds.
    #[arg(long, default_value_t = 32_000)]
    reconnect_max: u64,
    /// Never fail.
    #[arg(long)]
    reliable: bool,
    /// Fail at the same requests each time.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> Result<()> {
    sigpipe::reset();
    let args = Args::parse();
    let random = args.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
    orderly(Worker { args, random, cycles: 0 }.run())
}

struct Worker {
    args: Args,
    random: fastrand::Rng,
    cycles: u32,
}

/// Why a connection was given up.
enum Over {
    Silent,
    Crashed,
}

impl Worker {
    fn run(&mut self) -> Result<()> {
        // What the queue did not get from one connection is not for the next.
        let ctx = ZContext::builder().linger(Some(Duration::ZERO)).build()?;
        let mut delay = self.args.reconnect;
        loop {
            let worker = self.connect(&ctx)?;
            match self.serve(&worker, &mut delay)? {
                Over::Crashed => return Ok(()),
                Over::Silent => {
                    println!("W: heartbeat failure, can't reach queue");
                    delay = delay.min(self.args.reconnect_max);
                    println!("W: reconnecting in {delay} msec...");
                    clock::sleep(Duration::from_millis(delay))?;
                    delay = delay.saturating_mul(2);
                }
            }
        }
    }

    fn connect(&self, ctx: &ZContext) -> Result<ZSock> {
        let worker = ctx.socket(SocketType::Dealer)?;
        worker.connect(&self.args.endpoint)?;
        println!("I: worker ready");
        worker.send(READY)?;
        Ok(worker)
    }

    /// Serves until the queue falls silent. Any word of it makes the next delay the first again.
    fn serve(&mut self, worker: &ZSock, delay: &mut u64) -> Result<Over> {
        let interval = Duration::from_millis(self.args.heartbeat);
        let silence = interval * LIVENESS;
        let mut heard = Instant::now();
        let mut beat = Instant::now() + interval;
        while heard.elapsed() < silence {
            match worker.recv_timeout(beat.saturating_duration_since(Instant::now())) {
                Ok(msg) => {
                    if msg.len() >= 3 {
                        if self.crashes()? {
                            return Ok(Over::Crashed);
                        }
                        self.reply(worker, msg)?;
                    } else if msg != HEARTBEAT.into() {
                        println!("E: invalid message: {msg:?}");
                    }
                    heard = Instant::now();
                    *delay = self.args.reconnect;
                }
                Err(Error::Timeout) => {}
                Err(error) => return Err(error),
            }
            if Instant::now() >= beat {
                beat = Instant::now() + interval;
                worker.send(HEARTBEAT)?;
            }
        }
        Ok(Over::Silent)
    }

    fn crashes(&mut self) -> Result<bool> {
        self.cycles += 1;
        if self.cycles > 3 && !self.args.reliable {
            if self.random.u32(..5) == 0 {
                println!("I: simulating a crash");
                return Ok(true);
            }
            if self.random.u32(..5) == 0 {
                println!("I: simulating CPU overload");
                clock::sleep(Duration::from_secs(3))?;
            }
        }
        Ok(false)
    }

    fn reply(&self, worker: &ZSock, request: ZMsg) -> Result<()> {
        println!("I: normal reply");
        clock::sleep(Duration::from_millis(self.args.work))?;
        worker.send(request)?;
        Ok(())
    }
}
