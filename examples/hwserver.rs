//! Hello World server: answers each "Hello" with "World".
//!
//!     cargo run --release --example hwserver
//!     cargo run --release --example hwclient      # in another terminal

use std::time::Duration;

use clap::Parser;
use zkit::{Result, ZContext, clock, orderly};

/// Answers each request with "World", until Ctrl-C.
#[derive(Parser)]
struct Args {
    /// Where to listen.
    #[arg(default_value = "tcp://*:5555")]
    endpoint: String,
    /// How long the work for a reply takes, in milliseconds.
    #[arg(default_value_t = 1000)]
    work: u64,
}

fn main() -> Result<()> {
    sigpipe::reset();
    orderly(serve(&Args::parse())) // Ctrl-C is a way to end
}

fn serve(args: &Args) -> Result<()> {
    let ctx = ZContext::new()?;
    let server = ctx.rep("")?;
    println!("Listening at {}", server.bind(&args.endpoint)?);
    loop {
        let request = server.recv_str()?;
        println!("Received {request}");
        clock::sleep(Duration::from_millis(args.work))?;
        server.send("World")?;
    }
}
