//! Ctrl-C as a value: a blocked receive returns it, and the program tidies up.
//!
//!     cargo run --release --example interrupt

use clap::Parser;
use zkit::{Error, Result, ZContext, ZSock};

/// Answers requests until Ctrl-C, and says what it did.
#[derive(Parser)]
struct Args {
    /// Where to listen.
    #[arg(default_value = "tcp://*:5555")]
    endpoint: String,
}

fn main() -> Result<()> {
    sigpipe::reset();
    let ctx = ZContext::new()?; // catches Ctrl-C
    let server = ctx.rep("")?;
    println!("Listening at {}, until Ctrl-C", server.bind(&Args::parse().endpoint)?);

    let mut requests = 0;
    let ended = serve(&server, &mut requests);
    if let Err(Error::Interrupted) = ended {
        println!("Interrupted after {requests} requests, cleaning up");
        return Ok(());
    }
    ended
}

fn serve(server: &ZSock, requests: &mut u32) -> Result<()> {
    loop {
        server.recv()?;
        *requests += 1;
        server.send("World")?;
    }
}
