//! Lazy Pirate server: answers requests until it, sometimes, crashes or is overloaded.
//!
//!     cargo run --release --example lpserver
//!     cargo run --release --example lpclient      # in another terminal

use std::time::Duration;

use clap::Parser;
use zkit::{Result, ZContext, clock, orderly};

/// Echoes requests; after the third it may simulate an overload or a crash.
#[derive(Parser)]
struct Args {
    /// Where to listen.
    #[arg(default_value = "tcp://*:5555")]
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
    orderly(serve(&Args::parse()))
}

fn serve(args: &Args) -> Result<()> {
    let mut random = args.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
    let ctx = ZContext::new()?;
    let server = ctx.rep("")?;
    println!("I: listening at {}", server.bind(&args.endpoint)?);
    for cycles in 1.. {
        let request = server.recv()?;
        if cycles > 3 && !args.reliable {
            if random.u32(..3) == 0 {
                println!("I: simulating a crash");
                break;
            }
            if random.u32(..3) == 0 {
                println!("I: simulating CPU overload");
                clock::sleep(Duration::from_secs(2))?;
            }
        }
        println!(
            "I: normal request ({})",
            String::from_utf8_lossy(&request.first().cloned().unwrap_or_default())
        );
        clock::sleep(Duration::from_millis(args.work))?;
        server.send(request)?;
    }
    Ok(())
}
