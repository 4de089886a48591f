//! Least-recently-used queue, frame by frame: what it takes to route messages by hand.
//!
//! REQ clients talk to a ROUTER, REQ workers to another, and the broker between them moves each
//! frame itself. The next example, lruqueue2, does the same with `wrap` and `unwrap`.
//!
//!     cargo run --release --example lruqueue1

use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use clap::Parser;
use zkit::{Error, Result, ZContext, ZFrame, ZMsg, ZPoller, ZSock, orderly};

/// Serves one request of each client.
#[derive(Parser)]
struct Args {
    /// How many clients there are.
    #[arg(default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=500))]
    clients: u32,
    /// How many workers there are.
    #[arg(default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=500))]
    workers: u32,
    /// Where the clients connect.
    #[arg(default_value = "ipc://frontend.ipc")]
    frontend: String,
    /// Where the workers connect.
    #[arg(default_value = "ipc://backend.ipc")]
    backend: String,
}

fn main() -> Result<()> {
    sigpipe::reset();
    rlimit::increase_nofile_limit(u64::MAX)?; // 1,024 descriptors, the usual, are few
    let args = Args::parse();
    // What is not sent when the program ends is for nobody.
    let ctx = ZContext::builder().linger(Some(Duration::ZERO)).build()?;
    let frontend = ctx.router("")?;
    frontend.bind(&args.frontend)?;
    let backend = ctx.router("")?;
    backend.bind(&args.backend)?;

    thread::scope(|scope| {
        let mut clients = Vec::new();
        for _ in 0..args.clients {
            clients.push(scope.spawn(|| finish(&ctx, client(&ctx, &args.frontend))));
        }
        let mut workers = Vec::new();
        for _ in 0..args.workers {
            workers.push(scope.spawn(|| finish(&ctx, worker(&ctx, &args.backend))));
        }
        finish(&ctx, broker(&frontend, &backend, args.clients))?;
        // The last reply is on its way: let the clients have it, then send the workers home.
        clients.into_iter().try_for_each(|client| client.join().expect("it does not panic"))?;
        ctx.shutdown()?;
        workers.into_iter().try_for_each(|worker| worker.join().expect("it does not panic"))
    })
}

/// Gives each request to the worker that has been free for longest, until `clients` are served.
fn broker(frontend: &ZSock, backend: &ZSock, mut clients: u32) -> Result<()> {
    let mut workers = VecDeque::new();
    let mut poller = ZPoller::new();
    poller.add("backend", backend)?;
    poller.add("frontend", frontend)?;
    poller.pause("frontend")?; // until a worker is free

    while clients > 0 {
        match poller.wait(None)? {
            Some("backend") => {
                let mut msg = backend.recv()?;
                // Frame 1: the worker's address, put there by our ROUTER. It is free again.
                workers.push_back(next(&mut msg)?);
                // Frame 2: the delimiter that the worker's REQ sent.
                empty(&mut msg)?;
                // Frame 3: READY, or the address of the client whom the reply is for.
                let client = next(&mut msg)?;
                if client != "READY" {
                    // Frame 4: the delimiter that we sent. Frame 5: the reply.
                    empty(&mut msg)?;
                    let reply = next(&mut msg)?;
                    frontend.send((client, "", reply))?;
                    clients -= 1;
                }
            }
            _ => {
                let mut msg = frontend.recv()?;
                // Frame 1: the client's address. Frame 2: its delimiter. Frame 3: the request.
                let client = next(&mut msg)?;
                empty(&mut msg)?;
                let request = next(&mut msg)?;
                if let Some(worker) = workers.pop_front() {
                    backend.send((worker, "", client, "", request))?;
                }
            }
        }
        if workers.is_empty() { poller.pause("frontend")? } else { poller.resume("frontend")? }
    }
    Ok(())
}

fn next(msg: &mut ZMsg) -> Result<ZFrame> {
    msg.pop_front().ok_or_else(|| Error::other("the message has too few frames"))
}

fn empty(msg: &mut ZMsg) -> Result<()> {
    let delimiter = next(msg)?;
    if delimiter.is_empty() { Ok(()) } else { Err(Error::other("there is no delimiter")) }
}

fn client(ctx: &ZContext, endpoint: &str) -> Result<()> {
    let client = ctx.req("")?;
    client.connect(endpoint)?;
    client.send("HELLO")?;
    println!("Client: {}", client.recv_str()?);
    Ok(())
}

fn worker(ctx: &ZContext, endpoint: &str) -> Result<()> {
    let worker = ctx.req("")?;
    worker.connect(endpoint)?;
    worker.send("READY")?;
    loop {
        // Frame 1: the client's address. Frame 2: the delimiter. Frame 3: the request.
        let mut msg = worker.recv()?;
        let client = next(&mut msg)?;
        empty(&mut msg)?;
        println!("Worker: {}", msg.pop_str()?);
        worker.send((client, "", "OK"))?;
    }
}

/// A thread that fails ends the others, who would wait for it in vain.
fn finish(ctx: &ZContext, ended: Result<()>) -> Result<()> {
    if ended.is_err() {
        ctx.shutdown()?;
    }
    orderly(ended) // so is Ctrl-C
}
