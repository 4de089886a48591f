//! Asynchronous client and server: clients send without waiting for replies, and a request gets as
//! many replies as the server likes.
//!
//! Clients, server and workers are threads here, but talk over TCP as separate processes would.
//!
//!     cargo run --release --example asyncsrv
//!     cargo run --release --example asyncsrv 3 5      # clients, seconds

use std::time::Duration;

use clap::Parser;
use zkit::{
    Repeat, Result, SocketType, ZContext, ZLoop, ZMsg, ZProxy, ZSock, ZThread, clock, orderly,
    thread,
};

const WORKERS: usize = 5;

/// Sends requests without waiting for replies, for some seconds.
#[derive(Parser)]
struct Args {
    /// How many clients there are.
    #[arg(default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=300))]
    clients: u32,
    /// How long it all lasts, in seconds.
    #[arg(default_value_t = 5)]
    seconds: u64,
    /// Where the server listens.
    #[arg(long, default_value = "tcp://127.0.0.1:5570")]
    endpoint: String,
}

fn main() -> Result<()> {
    sigpipe::reset();
    rlimit::increase_nofile_limit(u64::MAX)?; // 1,024 descriptors, the usual, are few
    let args = Args::parse();
    // What is not sent when the program ends is for nobody.
    let ctx = ZContext::builder().linger(Some(Duration::ZERO)).build()?;

    // The server deals the requests to its workers and routes their replies to the clients.
    let frontend = ctx.router("")?;
    let endpoint = frontend.bind(&args.endpoint)?;
    let server = ZProxy::spawn(&ctx, frontend, ctx.dealer("@inproc://backend")?)?;

    let mut threads = Vec::new();
    for _ in 0..WORKERS {
        threads.push(thread::fork(&ctx, worker)?);
    }
    for _ in 0..args.clients {
        let endpoint = endpoint.clone();
        threads.push(thread::fork(&ctx, move |ctx, _| client(ctx, &endpoint))?);
    }

    orderly(clock::sleep(Duration::from_secs(args.seconds)))?;
    ctx.shutdown()?;
    server.stop()?;
    threads.into_iter().map(ZThread::join).try_for_each(orderly)
}

/// Sends a request each second and prints replies as they come.
fn client(ctx: &ZContext, endpoint: &str) -> Result<()> {
    let client = ctx.socket(SocketType::Dealer)?;
    let identity = format!("{:04X}", fastrand::u16(..));
    client.set_identity(&identity)?;
    client.connect(endpoint)?;

    let mut requests = 0;
    let mut zloop = ZLoop::new()?;
    zloop.reader(&client, |_, _, mut reply: ZMsg| {
        println!("{identity}: {}", reply.pop_str()?);
        Ok(())
    })?;
    zloop.timer(Duration::from_secs(1), Repeat::Forever, |requests, _| {
        *requests += 1;
        Ok(client.send(format!("request #{requests}"))?)
    })?;
    zloop.run(&mut requests)?;
    Ok(())
}

/// Answers each request zero to four times, when it comes to it.
fn worker(ctx: &ZContext, _pipe: ZSock) -> Result<()> {
    let worker = ctx.dealer(">inproc://backend")?;
    loop {
        let request = worker.recv()?; // the client's identity and its request
        for _ in 0..fastrand::u32(0..=4) {
            clock::sleep(Duration::from_millis(fastrand::u64(1..=1000)))?;
            worker.send(request.clone())?;
        }
    }
}
