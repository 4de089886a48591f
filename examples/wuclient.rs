//! Weather update client: subscribes to a zip code and averages its temperature.
//!
//!     cargo run --release --example wuclient
//!     cargo run --release --example wuclient 10001

use clap::Parser;
use zkit::{Error, Result, ZContext, ZSock, orderly};

/// Collects weather updates for a place.
#[derive(Parser)]
struct Args {
    /// The place's zip code: five digits.
    #[arg(default_value = "10001")]
    zipcode: String,
    /// Where the server publishes.
    #[arg(default_value = "tcp://localhost:5556")]
    endpoint: String,
    /// How many updates to collect.
    #[arg(default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    updates: u32,
}

fn main() -> Result<()> {
    sigpipe::reset();
    let args = Args::parse();
    let ctx = ZContext::new()?;
    println!("Collecting updates from weather server...");
    // The blank keeps longer codes with the same start out.
    let subscriber = ctx.sub(&format!(">{}", args.endpoint), format!("{} ", args.zipcode))?;
    orderly(collect(&subscriber, &args))
}

fn collect(subscriber: &ZSock, args: &Args) -> Result<()> {
    let mut total = 0;
    for _ in 0..args.updates {
        let update = subscriber.recv_str()?;
        let temperature = update.split(' ').nth(1).ok_or_else(|| Error::other("no temperature"))?;
        total += temperature.parse::<i64>()?;
    }
    let average = total / i64::from(args.updates);
    println!("Average temperature for zipcode '{}' was {average}F", args.zipcode);
    Ok(())
}
