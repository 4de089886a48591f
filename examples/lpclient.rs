//! Lazy Pirate client: asks again when no reply comes, and gives up in the end.
//!
//! A REQ that waits for a reply can do nothing else, so the client closes it and takes a new one.
//! What still comes for the old one is dropped with it, and so is never taken for a later reply.
//!
//!     cargo run --release --example lpclient

use std::time::Duration;

use clap::Parser;
use zkit::{Error, Result, ZContext, orderly};

/// Sends numbered requests, one after the other, each until it has its reply.
#[derive(Parser)]
struct Args {
    /// Where the server is.
    #[arg(default_value = "tcp://localhost:5555")]
    endpoint: String,
    /// How many requests to send; without it, until Ctrl-C.
    requests: Option<u64>,
    /// How long to wait for a reply, in milliseconds.
    #[arg(long, default_value_t = 2500)]
    timeout: u64,
    /// How often to try a request.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    retries: u32,
}

fn main() -> Result<()> {
    sigpipe::reset();
    orderly(ask(&Args::parse()))
}

fn ask(args: &Args) -> Result<()> {
    // A request that nobody took in time is not to be taken later.
    let ctx = ZContext::builder().linger(Some(Duration::ZERO)).build()?;
    let timeout = Duration::from_millis(args.timeout);

    println!("I: connecting to server...");
    let mut client = ctx.req(&format!(">{}", args.endpoint))?;
    let last = args.requests.unwrap_or(u64::MAX);
    for sequence in 1..=last {
        client.send(sequence.to_string())?;
        let mut tries = 1;
        loop {
            let is_last = tries == args.retries;
            match client.recv_str_timeout(timeout) {
                Ok(reply) if reply == sequence.to_string() => break,
                Ok(reply) => println!("E: malformed reply from server: {reply}"),
                Err(Error::Unexpected { .. }) => println!("E: malformed reply from server"),
                Err(Error::Timeout) if is_last => {}
                Err(Error::Timeout) => println!("W: no response from server, retrying..."),
                Err(error) => return Err(error),
            }
            if is_last {
                println!("E: server seems to be offline, abandoning");
                return Err(Error::other(format!("request {sequence} got no reply")));
            }
            tries += 1;
            client = ctx.req(&format!(">{}", args.endpoint))?;
            client.send(sequence.to_string())?;
        }
        println!("I: server replied OK ({sequence})");
    }
    Ok(())
}
