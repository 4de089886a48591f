//! Load balancing: requests queue in the broker as soon as they come, and are matched with workers
//! as those become free.
//!
//!     cargo run --release --example balance
//!     cargo run --release --example balance 10 3 1000     # clients, workers, requests of each

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use clap::Parser;
use zkit::{
    Error, HandlerId, Result, ZContext, ZFrame, ZLoop, ZMsg, ZSock, ZThread, interrupt, orderly,
    thread,
};

/// What a worker sends first.
const READY: &str = "ready";

/// How many requests may queue: who sends without waiting is read from no further.
const MOST_REQUESTS: usize = 10_000;

/// Shares the requests of some clients out among some workers.
#[derive(Parser)]
struct Args {
    /// How many clients there are.
    #[arg(default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=300))]
    clients: u32,
    /// How many workers there are.
    #[arg(default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=300))]
    workers: u32,
    /// How many requests each client sends, each when it has the reply to the one before.
    #[arg(default_value_t = 1000)]
    requests: u32,
    /// Where the clients connect.
    #[arg(long, default_value = "ipc://front")]
    frontend: String,
    /// Where the workers connect.
    #[arg(long, default_value = "ipc://back")]
    backend: String,
}

fn main() -> Result<()> {
    sigpipe::reset();
    rlimit::increase_nofile_limit(u64::MAX)?; // 1,024 descriptors, the usual, are few
    let args = Args::parse();
    let sockets = 3 * (args.clients + args.workers) + 2; // a thread's own and the ends of its pipe
    let ctx = ZContext::builder().max_sockets(sockets).linger(Some(Duration::ZERO)).build()?;
    let frontend = ctx.router("")?;
    frontend.bind(&args.frontend)?;
    let backend = ctx.router("")?;
    backend.bind(&args.backend)?;

    let start = Instant::now();
    let mut workers = Vec::new();
    for _ in 0..args.workers {
        let backend = format!(">{}", args.backend);
        workers.push(thread::fork(&ctx, move |ctx, _| worker(&ctx.req(&backend)?))?);
    }
    let mut clients = Vec::new();
    for _ in 0..args.clients {
        let (frontend, requests) = (format!(">{}", args.frontend), args.requests);
        clients.push(thread::fork(&ctx, move |ctx, pipe| {
            let ended = client(&ctx.req(&frontend)?, requests);
            pipe.send("done")?; // well or not
            ended
        })?);
    }
    Broker::run(&frontend, &backend, &clients)?;
    let time = start.elapsed().as_secs_f64();

    let served = clients.into_iter().map(ZThread::join).try_for_each(orderly);
    ctx.shutdown()?; // sends the workers home
    workers.into_iter().map(ZThread::join).try_for_each(orderly)?;
    if !interrupt::is_interrupted() {
        let requests = u64::from(args.clients) * u64::from(args.requests);
        println!("{requests} requests in {time:.3} s, {:.0} requests/s", requests as f64 / time);
    }
    served
}

struct Broker<'a> {
    frontend: &'a ZSock,
    backend: &'a ZSock,
    workers: VecDeque<ZFrame>,
    requests: VecDeque<ZMsg>,
    /// The frontend's reader: paused while too many requests queue.
    reader: HandlerId,
    /// How many clients are still at work.
    clients: usize,
}

impl<'a> Broker<'a> {
    /// Serves until every client has said on its pipe that it is done.
    fn run(frontend: &'a ZSock, backend: &'a ZSock, clients: &'a [ZThread<()>]) -> Result<()> {
        let mut zloop = ZLoop::new()?;
        let reader = zloop.reader(frontend, Broker::on_request)?;
        zloop.reader(backend, Broker::on_worker)?;
        for client in clients {
            zloop.reader(&**client, Broker::on_client_done)?;
        }
        let (workers, requests) = (VecDeque::new(), VecDeque::new());
        let clients = clients.len();
        let mut broker = Broker { frontend, backend, workers, requests, reader, clients };
        zloop.run(&mut broker)?;
        Ok(())
    }

    fn on_request(&mut self, zloop: &mut ZLoop<'a, Self>, request: ZMsg) -> Result<()> {
        self.requests.push_back(request);
        self.match_up(zloop)
    }

    fn on_worker(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> Result<()> {
        self.workers.extend(msg.unwrap());
        if msg != READY.into() {
            self.frontend.send(msg)?; // a reply, its client's address in front
        }
        self.match_up(zloop)
    }

    fn match_up(&mut self, zloop: &mut ZLoop<'a, Self>) -> Result<()> {
        let pairs = self.workers.len().min(self.requests.len());
        for (worker, mut request) in self.workers.drain(..pairs).zip(self.requests.drain(..pairs)) {
            request.wrap(worker);
            self.backend.send(request)?;
        }
        if self.requests.len() < MOST_REQUESTS {
            zloop.resume(self.reader);
        } else {
            zloop.pause(self.reader);
        }
        Ok(())
    }

    fn on_client_done(&mut self, zloop: &mut ZLoop<'a, Self>, _: ZMsg) -> Result<()> {
        self.clients -= 1;
        if self.clients == 0 {
            zloop.stop();
        }
        Ok(())
    }
}

fn client(client: &ZSock, requests: u32) -> Result<()> {
    for _ in 0..requests {
        client.send("hello")?;
        let reply = client.recv_str()?;
        if reply != "hello fjs" {
            return Err(Error::other(format!("a reply of {reply:?}")));
        }
    }
    Ok(())
}

/// Puts its answer in the place of the request, and sends back the rest untouched: the way home.
fn worker(worker: &ZSock) -> Result<()> {
    worker.send(READY)?;
    loop {
        let mut msg = worker.recv()?;
        if let Some(request) = msg.last_mut() {
            request.reset("hello fjs");
        }
        worker.send(msg)?;
    }
}
