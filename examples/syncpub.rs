//! Synchronized publisher: waits for its subscribers, so that they get every update.
//!
//! A subscriber that says it is there may still be without its subscription. An XPUB sees those
//! come in, so nobody has to sleep and hope.
//!
//!     cargo run --release --example syncpub 2
//!     cargo run --release --example syncsub      # twice, in other terminals

use std::time::Duration;

use clap::Parser;
use zkit::{Result, SocketType, ZContext, ZSock, orderly};

/// Publishes once all its subscribers are there.
#[derive(Parser)]
struct Args {
    /// How many subscribers to wait for.
    #[arg(default_value_t = 10)]
    subscribers: usize,
    /// How many updates to publish.
    #[arg(default_value_t = 1_000_000)]
    updates: u32,
    /// Where subscribers connect.
    #[arg(default_value = "tcp://*:5561")]
    publisher: String,
    /// Where they say that they are there.
    #[arg(default_value = "tcp://*:5562")]
    sync: String,
}

fn main() -> Result<()> {
    sigpipe::reset();
    let args = Args::parse();
    let ctx = ZContext::builder().linger(Some(Duration::from_secs(30))).build()?;
    let publisher = ctx.socket(SocketType::XPub)?;
    publisher.set_xpub_verboser(true)?; // tells of each subscriber, not of each topic
    publisher.set_sndhwm(Some(args.updates.saturating_add(100_000)))?; // for who reads slowly
    publisher.bind(&args.publisher)?;
    let sync = ctx.rep("")?;
    sync.bind(&args.sync)?;
    orderly(publish(&publisher, &sync, &args))
}

fn publish(publisher: &ZSock, sync: &ZSock, args: &Args) -> Result<()> {
    println!("Waiting for subscribers");
    for _ in 0..args.subscribers {
        sync.recv()?;
        sync.send("")?;
    }
    publisher.wait_for_subscribers(args.subscribers, Duration::MAX)?;

    println!("Broadcasting messages");
    for _ in 0..args.updates {
        publisher.send("Rhubarb")?;
    }
    publisher.send("END")?;

    // They unsubscribe when they have it. Over ipc, what is on its way to a slow one when its
    // sender closes is lost.
    for _ in 0..args.subscribers {
        publisher.recv()?;
    }
    Ok(())
}
