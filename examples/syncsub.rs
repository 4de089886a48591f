//! Synchronized subscriber: tells the publisher that it is there, and counts what it gets.
//!
//!     cargo run --release --example syncsub

use clap::Parser;
use zkit::{Result, ZContext, orderly};

/// Counts a publisher's updates.
#[derive(Parser)]
struct Args {
    /// Where the publisher publishes.
    #[arg(default_value = "tcp://localhost:5561")]
    publisher: String,
    /// Where to say that this subscriber is there.
    #[arg(default_value = "tcp://localhost:5562")]
    sync: String,
}

fn main() -> Result<()> {
    sigpipe::reset();
    orderly(count(&Args::parse()))
}

fn count(args: &Args) -> Result<()> {
    let ctx = ZContext::new()?;
    let subscriber = ctx.sub(&format!(">{}", args.publisher), "")?;
    let sync = ctx.req(&format!(">{}", args.sync))?;
    sync.send("")?;
    sync.recv()?;

    let mut updates = 0;
    while subscriber.recv_str()? != "END" {
        updates += 1;
    }
    println!("Received {updates} updates");
    Ok(())
}
