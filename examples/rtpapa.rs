//! ROUTER to REP: a reply finds its way home by the addresses on its envelope.
//!
//! The REP worker sees only the content. It keeps the three addresses that came with the request
//! and puts them on the reply.
//!
//!     cargo run --release --example rtpapa

use clap::Parser;
use zkit::{Result, ZContext};

/// Sends a request with three addresses to a REP, and shows what each end receives.
#[derive(Parser)]
struct Args {
    /// Where client and worker meet.
    #[arg(default_value = "ipc://routing.ipc")]
    endpoint: String,
}

fn main() -> Result<()> {
    match route(&Args::parse()) {
        Err(error) if error.is_ending() => Ok(()), // Ctrl-C
        ended => ended,
    }
}

fn route(args: &Args) -> Result<()> {
    let ctx = ZContext::new()?;
    let worker = ctx.rep("")?;
    worker.bind(&args.endpoint)?;

    // A REP does not tell its identity, so the ROUTER gives it one when it connects.
    let client = ctx.router("")?;
    client.set_connect_routing_id("A")?;
    client.connect(&args.endpoint)?;

    // The ROUTER's own frame first, then what it shall find on the reply, then the delimiter.
    client.send(("A", "address 3", "address 2", "address 1", "", "This is the workload"))?;

    println!("{}", worker.recv()?.dump()); // one frame
    worker.send("This is the reply")?;

    println!("{}", client.recv()?.dump()); // all six
    Ok(())
}
