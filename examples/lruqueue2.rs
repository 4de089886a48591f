//! Least-recently-used queue with whole messages: a broker between REQ clients and REQ workers.
//!
//! It runs until Ctrl-C, which ends every thread. Given a number of requests it ends by itself,
//! and says how fast it was.
//!
//!     cargo run --release --example lruqueue2
//!     cargo run --release --example lruqueue2 100 10 1000

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use zkit::{Result, ZContext, ZPoller, ZSock, clock, interrupt, orderly};

/// What a worker sends first.
const READY: &[u8] = b"\x01";

/// Passes requests to the worker that has been free for longest.
#[derive(Parser)]
struct Args {
    /// How many clients there are.
    #[arg(default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=10_000))]
    clients: u32,
    /// How many workers there are.
    #[arg(default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    workers: u32,
    /// How many requests each client sends; without it, one a second until Ctrl-C.
    requests: Option<u32>,
    /// Where the clients connect.
    #[arg(long, default_value = "ipc://frontend.ipc")]
    frontend: String,
    /// Where the workers connect.
    #[arg(long, default_value = "ipc://backend.ipc")]
    backend: String,
}

fn main() -> Result<()> {
    sigpipe::reset();
    rlimit::increase_nofile_limit(u64::MAX)?; // 1,024 descriptors, the usual, are few
    let args = Args::parse();
    let sockets = args.clients + args.workers + 2;
    // What is not sent when the program ends is for nobody.
    let ctx = ZContext::builder().max_sockets(sockets).linger(Some(Duration::ZERO)).build()?;
    let frontend = ctx.router("")?;
    frontend.bind(&args.frontend)?;
    let backend = ctx.router("")?;
    backend.bind(&args.backend)?;

    let start = Instant::now();
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for _ in 0..args.clients {
            clients.push(scope.spawn(|| finish(&ctx, client(&ctx, &args))));
        }
        let mut workers = Vec::new();
        for _ in 0..args.workers {
            workers.push(scope.spawn(|| finish(&ctx, worker(&ctx, &args))));
        }
        let replies = args.requests.map(|requests| u64::from(requests) * u64::from(args.clients));
        finish(&ctx, broker(&frontend, &backend, replies))?;
        // The last reply is on its way: let the clients have it, then send the workers home.
        clients.into_iter().try_for_each(|client| client.join().expect("it does not panic"))?;
        if let Some(replies) = replies.filter(|_| !interrupt::is_interrupted()) {
            let time = start.elapsed().as_secs_f64();
            println!("{replies} requests in {time:.3} s, {:.0} requests/s", replies as f64 / time);
        }
        ctx.shutdown()?;
        workers.into_iter().try_for_each(|worker| worker.join().expect("it does not panic"))
    })
}

/// Serves until as many replies have been passed on, or for ever.
fn broker(frontend: &ZSock, backend: &ZSock, mut replies: Option<u64>) -> Result<()> {
    let mut workers = VecDeque::new();
    let mut poller = ZPoller::new();
    poller.add("backend", backend)?;
    poller.add("frontend", frontend)?;
    poller.pause("frontend")?; // until a worker is free

    while replies != Some(0) {
        match poller.wait(None)? {
            Some("backend") => {
                let mut msg = backend.recv()?;
                workers.extend(msg.unwrap());
                if msg.first().is_some_and(|frame| *frame != READY) {
                    frontend.send(msg)?;
                    replies = replies.map(|left| left - 1);
                }
            }
            _ => {
                let mut msg = frontend.recv()?;
                if let Some(worker) = workers.pop_front() {
                    msg.wrap(worker);
                    backend.send(msg)?;
                }
            }
        }
        if workers.is_empty() { poller.pause("frontend")? } else { poller.resume("frontend")? }
    }
    Ok(())
}

fn client(ctx: &ZContext, args: &Args) -> Result<()> {
    let client = ctx.req("")?;
    client.connect(&args.frontend)?;
    if let Some(requests) = args.requests {
        for _ in 0..requests {
            client.send("HELLO")?;
            client.recv_str()?;
        }
        return Ok(());
    }
    loop {
        client.send("HELLO")?;
        println!("Client: {}", client.recv_str()?);
        clock::sleep(Duration::from_secs(1))?;
    }
}

fn worker(ctx: &ZContext, args: &Args) -> Result<()> {
    let worker = ctx.req("")?;
    worker.connect(&args.backend)?;
    worker.send(READY)?;
    loop {
        let mut msg = worker.recv()?;
        if let Some(request) = msg.last_mut() {
            request.reset("OK");
        }
        worker.send(msg)?;
    }
}

/// A thread that fails ends the others, who would wait for it in vain.
fn finish(ctx: &ZContext, ended: Result<()>) -> Result<()> {
    if ended.is_err() {
        ctx.shutdown()?;
    }
    orderly(ended) // so is Ctrl-C
}
