//! Broker peering, part 1: brokers tell each other how many of their workers are free.
//!
//!     cargo run --release --example peering1 DC1 DC2 DC3
//!     cargo run --release --example peering1 DC2 DC1 DC3      # in another terminal
//!     cargo run --release --example peering1 DC3 DC1 DC2      # in a third

use std::time::Duration;

use clap::Parser;
use zkit::{Error, Result, ZContext, orderly};

/// Publishes a broker's state, and prints its peers'.
#[derive(Parser)]
struct Args {
    /// The name of this broker.
    me: String,
    /// The names of its peers.
    peers: Vec<String>,
}

fn main() -> Result<()> {
    sigpipe::reset();
    orderly(run(&Args::parse()))
}

fn run(args: &Args) -> Result<()> {
    println!("I: preparing broker at {}...", args.me);
    // News that was not sent when the broker ends is news no more.
    let ctx = ZContext::builder().linger(Some(Duration::ZERO)).build()?;
    let statebe = ctx.pub_("")?;
    statebe.bind(&format!("ipc://{}-state.ipc", args.me))?;
    let statefe = ctx.sub("", "")?;
    for peer in &args.peers {
        println!("I: connecting to state backend at '{peer}'");
        statefe.connect(&format!("ipc://{peer}-state.ipc"))?;
    }
    loop {
        match statefe.recv_timeout(Duration::from_secs(1)) {
            Ok(mut state) => {
                let (peer, free) = (state.pop_str()?, state.pop_str()?);
                println!("{peer} - {free} workers free");
            }
            // A second without news: tell ours.
            Err(Error::Timeout) => {
                let free = fastrand::u32(..10).to_string();
                statebe.send((args.me.clone(), free))?;
            }
            Err(error) => return Err(error),
        }
    }
}
