//! ROUTER to REP: a reply finds its way home by the addresses on its envelope.
//!
//! The REP worker sees only the content. It keeps the three addresses that came with the request
//! and puts them on the reply. The two meet over inproc: on the network, libzmq 4 does not let a
//! ROUTER and a REP talk directly.
//!
//!     cargo run --release --example rtpapa

use zkit::{Result, SocketType, ZContext, orderly};

fn main() -> Result<()> {
    sigpipe::reset();
    orderly(route()) // Ctrl-C is a way to end
}

fn route() -> Result<()> {
    let ctx = ZContext::new()?;
    let client = ctx.router("@inproc://routing")?;
    let worker = ctx.socket(SocketType::Rep)?;
    worker.set_identity("A")?;
    worker.connect("inproc://routing")?;

    // The ROUTER's own frame first, then what it shall find on the reply, then the delimiter.
    client.send(("A", "address 3", "address 2", "address 1", "", "This is the workload"))?;

    println!("{}", worker.recv()?.dump()); // one frame
    worker.send("This is the reply")?;

    println!("{}", client.recv()?.dump()); // all six
    Ok(())
}
