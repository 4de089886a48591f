//! Simple Pirate queue: shares requests out among workers that come and go, to the one that has been
//! free for longest.
//!
//! The queue itself cannot tell a worker that is slow from one that is dead. A worker whose
//! connection is gone it passes over; what was lost with one, its client asks again.
//!
//!     cargo run --release --example spqueue
//!     cargo run --release --example spworker      # as many as you like, in any order
//!     cargo run --release --example lpclient

use std::collections::{HashSet, VecDeque};

use clap::Parser;
use zkit::{Error, HandlerId, Result, SendError, ZContext, ZFrame, ZLoop, ZMsg, ZSock};

/// What a worker sends first.
const READY: &[u8] = b"\x01";

/// Passes requests from clients to workers, until Ctrl-C.
#[derive(Parser)]
struct Args {
    /// Where the clients connect.
    #[arg(default_value = "tcp://*:5555")]
    frontend: String,
    /// Where the workers connect.
    #[arg(default_value = "tcp://*:5556")]
    backend: String,
}

fn main() -> Result<()> {
    sigpipe::reset();
    let args = Args::parse();
    let ctx = ZContext::new()?;
    let frontend = router(&ctx, &args.frontend)?;
    let backend = router(&ctx, &args.backend)?;

    let mut zloop = ZLoop::new()?;
    let requests = zloop.reader(&frontend, Queue::on_request)?;
    zloop.reader(&backend, Queue::on_worker)?;
    zloop.pause(requests); // until a worker is free
    let mut queue = Queue {
        frontend: &frontend,
        backend: &backend,
        free: VecDeque::new(),
        is_free: HashSet::new(),
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
    /// Addresses of the workers that are free, the one that has been for longest first.
    free: VecDeque<ZFrame>,
    is_free: HashSet<ZFrame>,
    /// The frontend's reader: paused while no worker is free.
    requests: HandlerId,
    /// A request that found every worker gone.
    waiting: Option<ZMsg>,
}

impl<'a> Queue<'a> {
    fn on_worker(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> Result<()> {
        let Some(worker) = msg.unwrap().filter(|_| !msg.is_empty()) else {
            println!("W: an empty message from a worker");
            return Ok(());
        };
        if self.is_free.insert(worker.clone()) {
            self.free.push_back(worker);
        } else {
            println!("W: worker {worker:?} was free already");
        }
        if msg != READY.into() {
            self.reply(msg)?;
        }
        match self.waiting.take() {
            Some(request) => self.on_request(zloop, request),
            None => {
                zloop.resume(self.requests);
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
        loop {
            let Some(worker) = self.free.pop_front() else {
                self.waiting = Some(msg);
                break;
            };
            self.is_free.remove(&worker);
            msg.wrap(worker);
            match self.backend.try_send(msg) {
                Ok(()) => break,
                Err(SendError {
                    error: Error::HostUnreachable { .. } | Error::WouldBlock,
                    message,
                }) => {
                    msg = message;
                    println!("W: worker {:?} is gone", msg.unwrap().unwrap_or_default());
                }
                Err(SendError { error, .. }) => return Err(error),
            }
        }
        if self.free.is_empty() {
            zloop.pause(self.requests);
        }
        Ok(())
    }
}
