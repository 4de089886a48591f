//! Message queue: clients and services that come and go meet at two fixed endpoints.
//!
//!     cargo run --release --example msgqueue
//!     cargo run --release --example hwclient tcp://localhost:5559     # in another terminal
//!
//! A service is a REP that connects to the backend.

use clap::Parser;
use zkit::{Result, ZContext, ZProxy, interrupt};

/// Passes requests from clients to services, until Ctrl-C.
#[derive(Parser)]
struct Args {
    /// Where clients connect.
    #[arg(default_value = "tcp://*:5559")]
    frontend: String,
    /// Where services connect.
    #[arg(default_value = "tcp://*:5560")]
    backend: String,
}

fn main() -> Result<()> {
    sigpipe::reset();
    let args = Args::parse();
    let ctx = ZContext::new()?;
    let frontend = ctx.router("")?;
    println!("Clients connect to {}", frontend.bind(&args.frontend)?);
    let backend = ctx.dealer("")?;
    println!("Services connect to {}", backend.bind(&args.backend)?);

    let queue = ZProxy::spawn(&ctx, frontend, backend)?;
    interrupt::wait()?;
    let done = queue.stop()?;
    println!("Passed on {} requests and {} replies", done.forward.messages, done.backward.messages);
    Ok(())
}
