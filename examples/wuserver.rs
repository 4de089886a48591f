//! Weather update server: publishes random updates, each with its zip code in front.
//!
//!     cargo run --release --example wuserver
//!     cargo run --release --example wuclient      # in another terminal

use clap::Parser;
use zkit::{Result, ZContext, ZSock, orderly};

/// Publishes random weather, until Ctrl-C.
#[derive(Parser)]
struct Args {
    /// Where subscribers connect.
    #[arg(default_value = "tcp://*:5556")]
    endpoint: String,
}

fn main() -> Result<()> {
    sigpipe::reset();
    let ctx = ZContext::new()?;
    let publisher = ctx.pub_("")?;
    println!("Publishing at {}", publisher.bind(&Args::parse().endpoint)?);
    orderly(publish(&publisher))
}

fn publish(publisher: &ZSock) -> Result<()> {
    loop {
        let zipcode = fastrand::u32(..100_000);
        let temperature = fastrand::i32(-80..135);
        let humidity = fastrand::u32(10..60);
        publisher.send(format!("{zipcode:05} {temperature} {humidity}"))?;
    }
}
