//! ROUTER to REQ: least-recently-used routing for free.
//!
//! A REQ worker asks for work by saying that it is ready, so whoever waits longest is served next.
//!
//!     cargo run --release --example rtreq

use std::thread;
use std::time::Duration;

use clap::Parser;
use zkit::{Result, ZContext, ZSock, clock, orderly};

/// Shares tasks out among workers, to each as it gets free.
#[derive(Parser)]
struct Args {
    /// How many workers there are.
    #[arg(default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    workers: u32,
    /// How many tasks to share out.
    #[arg(default_value_t = 100)]
    tasks: u32,
    /// Where client and workers meet.
    #[arg(default_value = "ipc://routing.ipc")]
    endpoint: String,
}

fn main() -> Result<()> {
    sigpipe::reset();
    rlimit::increase_nofile_limit(u64::MAX)?; // 1,024 descriptors, the usual, are few
    let args = Args::parse();
    let ctx = ZContext::new()?;
    let client = ctx.router("")?;
    client.bind(&args.endpoint)?;

    thread::scope(|scope| {
        let mut workers = Vec::new();
        for _ in 0..args.workers {
            workers.push(scope.spawn(|| finish(&ctx, worker(&ctx, &args.endpoint))));
        }
        finish(&ctx, share_out(&client, &args))?;
        workers.into_iter().try_for_each(|worker| worker.join().expect("it does not panic"))
    })
}

fn share_out(client: &ZSock, args: &Args) -> Result<()> {
    for _ in 0..args.tasks {
        reply(client, "This is the workload")?;
    }
    for _ in 0..args.workers {
        reply(client, "END")?;
    }
    Ok(())
}

/// Answers the worker that has been ready for longest.
fn reply(client: &ZSock, task: &'static str) -> Result<()> {
    let mut ready = client.recv()?;
    if let Some(worker) = ready.unwrap() {
        client.send((worker, "", task))?;
    }
    Ok(())
}

fn worker(ctx: &ZContext, endpoint: &str) -> Result<()> {
    let worker = ctx.req("")?;
    worker.connect(endpoint)?;

    let mut total = 0;
    loop {
        worker.send("ready")?;
        if worker.recv_str()? == "END" {
            break;
        }
        total += 1;
        clock::sleep(Duration::from_millis(fastrand::u64(1..=10)))?; // "work"
    }
    println!("Processed: {total} tasks");
    Ok(())
}

/// A thread that fails ends the others, who would wait for it in vain.
fn finish(ctx: &ZContext, ended: Result<()>) -> Result<()> {
    if ended.is_err() {
        ctx.shutdown()?;
    }
    orderly(ended) // so is Ctrl-C
}
