//! Multithreaded Hello World server: a proxy deals requests out to worker threads.
//!
//!     cargo run --release --example mtserver
//!     cargo run --release --example hwclient      # in other terminals

use std::time::Duration;

use clap::Parser;
use zkit::{Result, ZContext, ZProxy, ZSock, ZThread, clock, interrupt, orderly, thread};

/// Answers requests in several threads, until Ctrl-C.
#[derive(Parser)]
struct Args {
    /// Where to listen.
    #[arg(default_value = "tcp://*:5555")]
    endpoint: String,
    /// How many threads answer.
    #[arg(default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=300))]
    workers: u32,
    /// How long the work for a reply takes, in milliseconds.
    #[arg(default_value_t = 1000)]
    work: u64,
}

fn main() -> Result<()> {
    sigpipe::reset();
    orderly(serve(&Args::parse())) // Ctrl-C is a way to end
}

fn serve(args: &Args) -> Result<()> {
    rlimit::increase_nofile_limit(u64::MAX)?; // 1,024 descriptors, the usual, are few
    let ctx = ZContext::new()?;
    let clients = ctx.router("")?;
    println!("Listening at {}", clients.bind(&args.endpoint)?);
    let backend = ctx.dealer("@inproc://workers")?;

    let work = Duration::from_millis(args.work);
    let fork = |_| thread::fork(&ctx, move |ctx, ready| worker(ctx, &ready, work));
    let workers = (0..args.workers).map(fork).collect::<Result<Vec<_>>>()?;
    // A DEALER deals to those that it knows: all of them, before the first request.
    workers.iter().try_for_each(|worker| worker.wait().map(drop))?;
    let proxy = ZProxy::spawn(&ctx, clients, backend)?;

    interrupt::wait()?;
    workers.into_iter().map(ZThread::join).try_for_each(orderly)?;
    let replies = proxy.stop()?.backward.messages;
    println!("Sent {replies} replies");
    Ok(())
}

fn worker(ctx: &ZContext, ready: &ZSock, work: Duration) -> Result<()> {
    let worker = ctx.rep(">inproc://workers")?;
    ready.signal(0)?;
    loop {
        println!("Received request: [{}]", worker.recv_str()?);
        clock::sleep(work)?;
        worker.send("World")?;
    }
}
