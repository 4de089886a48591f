//! Paranoid Pirate queue: shares requests out among workers, and knows by their heartbeats which of
//! them live.
//!
//!     cargo run --release --example ppqueue
//!     cargo run --release --example ppworker      # as many as you like, in any order
//!     cargo run --release --example lpclient

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use clap::Parser;
use zkit::{Error, HandlerId, Repeat, Result, SendError, ZContext, ZFrame, ZLoop, ZMsg, ZSock};

const READY: &[u8] = b"\x01";
const HEARTBEAT: &[u8] = b"\x02";
/// How many heartbeats of a worker may be missed.
const LIVENESS: u32 = 3;

/// Passes requests from clients to workers that are alive, until Ctrl-C.
#[derive(Parser)]
struct Args {
    /// Where the clients connect.
    #[arg(default_value = "tcp://*:5555")]
    frontend: String,
    /// Where the workers connect.
    #[arg(default_value = "tcp://*:5556")]
    backend: String,
    /// Time between heartbeats, in milliseconds.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    heartbeat: u64,
}

fn main() -> Result<()> {
    sigpipe::reset();
    let args = Args::parse();
    let heartbeat = Duration::from_millis(args.heartbeat);
    let ctx = ZContext::new()?;
    let frontend = router(&ctx, &args.frontend)?;
    let backend = router(&ctx, &args.backend)?;

    let mut zloop = ZLoop::new()?;
    let requests = zloop.reader(&frontend, Queue::on_request)?;
    zloop.reader(&backend, Queue::on_worker)?;
    zloop.timer(heartbeat, Repeat::Forever, Queue::on_heartbeat)?;
    zloop.pause(requests); // until a worker is free
    let mut queue = Queue {
        frontend: &frontend,
        backend: &backend,
        expiry: heartbeat * LIVENESS,
        workers: HashMap::new(),
        free: VecDeque::new(),
        requests,
        waiting: None,
    };
    zloop.run(&mut queue)?;
    Ok(())
}

fn router(ctx: &ZContext, endpoint: &str) -> Result<ZSock> {
    let router = ctx.router("")?;
    // Else it would drop without a word what is for a peer that is gone.
    router.set_router_mandatory(true)?;
    println!("I: listening at {}", router.bind(endpoint)?);
    Ok(router)
}

struct Queue<'a> {
    frontend: &'a ZSock,
    backend: &'a ZSock,
    /// How long a worker is believed to live without a word.
    expiry: Duration,
    /// All that are known, by address.
    workers: HashMap<ZFrame, Worker>,
    /// Those that are free, the one that has been for longest first.
    free: VecDeque<ZFrame>,
    /// The frontend's reader: paused while no worker is free.
    requests: HandlerId,
    /// A request that found every worker gone.
    waiting: Option<ZMsg>,
}

struct Worker {
    heard: Instant,
    is_free: bool,
}

impl<'a> Queue<'a> {
    fn on_worker(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> Result<()> {
        let Some(address) = msg.unwrap().filter(|_| !msg.is_empty()) else {
            println!("E: an empty message from a worker");
            return Ok(());
        };
        let is_new = !self.workers.contains_key(&address);
        let worker = self
            .workers
            .entry(address.clone())
            .or_insert(Worker { heard: Instant::now(), is_free: false });
        worker.heard = Instant::now();
        // The heartbeat of one that is at work says no more than that it lives; that of an unknown one
        // comes from before this queue was started again.
        let is_heartbeat = msg == HEARTBEAT.into();
        if !worker.is_free && (!is_heartbeat || is_new) {
            worker.is_free = true;
            self.free.push_back(address);
        }
        match msg.len() {
            1 if is_heartbeat || msg == READY.into() => {}
            1 => println!("E: invalid message from worker: {msg:?}"),
            _ => self.reply(msg)?,
        }
        match self.waiting.take() {
            Some(request) => self.on_request(zloop, request),
            None => {
                if !self.free.is_empty() {
                    zloop.resume(self.requests);
                }
                Ok(())
            }
        }
    }

    /// The client's address is in front.
    fn reply(&self, msg: ZMsg) -> Result<()> {
        match self.frontend.try_send(msg) {
            Err(SendError { error, .. }) if error.is_ending() => Err(error),
            Err(SendError { error, .. }) => {
                println!("W: a reply was dropped: {error}");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn on_request(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> Result<()> {
        // Without its envelope a worker would not reply to it, and never be free again.
        if msg.len() < 3 {
            println!("E: invalid message from client: {msg:?}");
            return Ok(());
        }
        loop {
            let Some(address) = self.free.pop_front() else {
                self.waiting = Some(msg);
                break;
            };
            if let Some(worker) = self.workers.get_mut(&address) {
                worker.is_free = false;
            }
            msg.push_front(address);
            match self.backend.try_send(msg) {
                Ok(()) => break,
                Err(SendError {
                    error: Error::HostUnreachable { .. } | Error::WouldBlock,
                    message,
                }) => {
                    msg = message;
                    if let Some(address) = msg.pop_front() {
                        println!("W: worker {address:?} is gone");
                        self.workers.remove(&address);
                    }
                }
                Err(SendError { error, .. }) => return Err(error),
            }
        }
        if self.free.is_empty() {
            zloop.pause(self.requests);
        }
        Ok(())
    }

    /// Tells the workers that the queue lives, and forgets those that have not said that they do.
    fn on_heartbeat(&mut self, zloop: &mut ZLoop<'a, Self>) -> Result<()> {
        let (backend, expiry) = (self.backend, self.expiry);
        self.workers.retain(|address, worker| {
            let lives = worker.heard.elapsed() < expiry
                && backend.try_send((address.clone(), HEARTBEAT)).is_ok();
            if !lives {
                println!("W: worker {address:?} has expired");
            }
            lives
        });
        self.free.retain(|address| self.workers.contains_key(address));
        if self.free.is_empty() {
            zloop.pause(self.requests);
        }
        Ok(())
    }
}
