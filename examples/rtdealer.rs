//! ROUTER to DEALER: addressing each worker by name.
//!
//! "A" gets two thirds of the work. The workers only receive; a DEALER need not reply.
//!
//!     cargo run --release --example rtdealer

use std::thread;

use clap::Parser;
use zkit::{Result, SocketType, ZContext, ZSock, orderly};

/// Gives tasks to two workers at random, twice as many to A as to B.
#[derive(Parser)]
struct Args {
    /// How many tasks to give.
    #[arg(default_value_t = 10)]
    tasks: u32,
    /// Where client and workers meet.
    #[arg(default_value = "ipc://routing.ipc")]
    endpoint: String,
}

fn main() -> Result<()> {
    sigpipe::reset();
    let args = Args::parse();
    let ctx = ZContext::new()?;
    let client = ctx.router("")?;
    client.set_router_mandatory(true)?; // wait for a worker that lags behind, do not drop its task
    client.bind(&args.endpoint)?;

    thread::scope(|scope| {
        let (ctx, endpoint) = (&ctx, &args.endpoint);
        let workers =
            ["A", "B"].map(|name| scope.spawn(move || finish(ctx, worker(ctx, name, endpoint))));
        finish(ctx, give_tasks(&client, args.tasks))?;
        workers.into_iter().try_for_each(|worker| worker.join().expect("it does not panic"))
    })
}

fn give_tasks(client: &ZSock, tasks: u32) -> Result<()> {
    // A ROUTER drops what it cannot route: wait until both workers have announced themselves.
    client.recv()?;
    client.recv()?;
    for _ in 0..tasks {
        let name = if fastrand::u32(..3) < 2 { "A" } else { "B" };
        client.send((name, "This is the workload"))?;
    }
    client.send(("A", "END"))?;
    client.send(("B", "END"))?;
    Ok(())
}

fn worker(ctx: &ZContext, name: &'static str, endpoint: &str) -> Result<()> {
    let worker = ctx.socket(SocketType::Dealer)?;
    worker.set_identity(name)?;
    worker.set_probe_router(true)?; // an empty message tells the ROUTER that it is there
    worker.connect(endpoint)?;

    let mut total = 0;
    while worker.recv_str()? != "END" {
        total += 1;
    }
    println!("{name} received: {total}");
    Ok(())
}

/// A thread that fails ends the others, who would wait for it in vain.
fn finish(ctx: &ZContext, ended: Result<()>) -> Result<()> {
    if ended.is_err() {
        ctx.shutdown()?;
    }
    orderly(ended) // so is Ctrl-C
}
