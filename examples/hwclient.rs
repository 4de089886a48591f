//! Hello World client: sends "Hello" ten times and waits for "World" each time.
//!
//!     cargo run --release --example hwserver
//!     cargo run --release --example hwclient      # in another terminal

use clap::Parser;
use zkit::{Result, ZContext, orderly};

/// Sends "Hello" and waits for "World", a few times.
#[derive(Parser)]
struct Args {
    /// Where the server listens.
    #[arg(default_value = "tcp://localhost:5555")]
    endpoint: String,
    /// How many requests to send.
    #[arg(default_value_t = 10)]
    requests: u32,
}

fn main() -> Result<()> {
    sigpipe::reset();
    orderly(ask(&Args::parse())) // Ctrl-C is a way to end
}

fn ask(args: &Args) -> Result<()> {
    let ctx = ZContext::new()?;
    println!("Connecting to hello world server...");
    let client = ctx.req("")?;
    client.connect(&args.endpoint)?;
    for request in 0..args.requests {
        println!("Sending Hello {request}...");
        client.send("Hello")?;
        println!("Received {} {request}", client.recv_str()?);
    }
    Ok(())
}
