//! Simple Pirate worker: serves what the queue gives it until it, sometimes, crashes or is overloaded.
//!
//! It would wait for ever if the queue were to die and come back: see ppworker for one that notices.
//!
//!     cargo run --release --example spworker

use std::time::Duration;

use clap::Parser;
use zkit::{Result, SocketType, ZContext, clock, orderly};

const READY: &[u8] = b"\x01";

/// Echoes requests; after the third it may simulate an overload or a crash.
#[derive(Parser)]
struct Args {
    /// The queue's backend.
    #[arg(default_value = "tcp://localhost:5556")]
    endpoint: String,
    /// How long the work for a reply takes, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    work: u64,
    /// Never fail.
    #[arg(long)]
    reliable: bool,
    /// Fail at the same requests each time.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> Result<()> {
    sigpipe::reset();
    orderly(work(&Args::parse()))
}

fn work(args: &Args) -> Result<()> {
    let mut random = args.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
    let ctx = ZContext::new()?;
    let worker = ctx.socket(SocketType::Req)?;
    let identity = format!("{:04X}-{:04X}", fastrand::u16(..), fastrand::u16(..));
    worker.set_identity(&identity)?; // to be read in logs
    worker.connect(&args.endpoint)?;
    println!("I: ({identity}) worker ready");
    worker.send(READY)?;

    for cycles in 1.. {
        let request = worker.recv()?;
        if cycles > 3 && !args.reliable {
            if random.u32(..5) == 0 {
                println!("I: ({identity}) simulating a crash");
                break;
            }
            if random.u32(..5) == 0 {
                println!("I: ({identity}) simulating CPU overload");
                clock::sleep(Duration::from_secs(3))?;
            }
        }
        println!("I: ({identity}) normal reply");
        clock::sleep(Duration::from_millis(args.work))?;
        worker.send(request)?;
    }
    Ok(())
}
