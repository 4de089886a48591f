//! Identities: what a ROUTER puts in front of a message, from a peer without a name and from one
//! with a name.
//!
//!     cargo run --release --example identity

use zkit::{Result, SocketType, ZContext, orderly};

fn main() -> Result<()> {
    sigpipe::reset();
    orderly(show()) // Ctrl-C is a way to end
}

fn show() -> Result<()> {
    let ctx = ZContext::new()?;
    let sink = ctx.router("@inproc://example")?;

    // The first peer has no identity: the ROUTER makes one up.
    let anonymous = ctx.req(">inproc://example")?;
    anonymous.send("ROUTER uses a generated 5 byte identity")?;
    println!("{}", sink.recv()?.dump());

    // The second names itself, before it connects.
    let identified = ctx.socket(SocketType::Req)?;
    identified.set_identity("Hello")?;
    identified.connect("inproc://example")?;
    identified.send("ROUTER uses REQ's socket identity")?;
    println!("{}", sink.recv()?.dump());
    Ok(())
}
