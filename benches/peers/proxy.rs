//! A proxy between clients and workers, over tcp: what is in the middle is a process of its own, and
//! everything else is the same for all peers.
//!
//! `proxy` is timed by the clock, the others in the CPU time of the process in the middle.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use zkit::{ZContext, ZProxy};

use crate::Result;
use crate::middle::{Middle, free_endpoints, poll_items, sockets, this, wait_for_parent};
use crate::workload::{Time, Workload};

const CLIENTS: usize = 100;
/// Requests that each client has on the way.
const IN_FLIGHT: usize = 100;
/// So many that all requests fit below the high-water marks.
const WORKERS: usize = 16;
/// So few that the backend is always full. What a proxy does then makes the batches larger or smaller
/// that libzmq reads and writes, and these are most of its cost.
const FEW_WORKERS: usize = 4;
const FULL: &str = "proxy-full-cpu";
const BODY: &[u8] = &[b'x'; 100];

/// Round trips until everybody is connected and every queue has what it has in the long run.
const WARM_UP: u64 = 3 * (CLIENTS * IN_FLIGHT) as u64;

pub(crate) const WORKLOADS: &[Workload] =
    &[workload("proxy", false), workload("proxy-cpu", true), workload_full()];

const fn workload(name: &'static str, pinned: bool) -> Workload {
    let zkit = |count| through_this("zkit", count, WORKERS);
    let raw = |count| through_this("raw", count, WORKERS);
    Workload { name, count: 100_000, pinned, zkit, raw: Some(raw) }
}

const fn workload_full() -> Workload {
    let zkit = |count| through_this("zkit", count, FEW_WORKERS);
    let raw = |count| through_this("raw", count, FEW_WORKERS);
    Workload { name: FULL, count: 100_000, pinned: true, zkit, raw: Some(raw) }
}

fn through_this(peer: &str, count: u64, workers: usize) -> Time {
    through(this().args(["--proxy", peer]), count, workers)
}

/// The program of another peer has the proxy, and this the clients and the workers.
pub(crate) fn of_program(program: &Path, name: &str, count: u64) -> Time {
    let workers = if name == FULL { FEW_WORKERS } else { WORKERS };
    through(Command::new(program).arg("--proxy"), count, workers)
}

/// A child: `--proxy PEER FRONTEND BACKEND` passes messages on until it is killed, or its parent is
/// gone.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let [peer, frontend, backend] = args else {
        return Err("--proxy PEER FRONTEND BACKEND".into());
    };
    match peer.as_str() {
        "zkit" => {
            let ctx = ZContext::new()?;
            let (router, dealer) = (ctx.router("")?, ctx.dealer("")?);
            router.bind(frontend)?;
            dealer.bind(backend)?;
            let _proxy = ZProxy::spawn(&ctx, router, dealer)?;
            wait_for_parent();
            Ok(())
        }
        "raw" => {
            let ctx = zmq::Context::new();
            let (router, dealer) = (ctx.socket(zmq::ROUTER)?, ctx.socket(zmq::DEALER)?);
            router.bind(frontend)?;
            dealer.bind(backend)?;
            thread::spawn(move || zmq::proxy(&router, &dealer));
            wait_for_parent();
            // The proxy knows no end but that of its context.
            std::process::exit(0);
        }
        _ => Err("no such proxy".into()),
    }
}

/// Has so many round trips made through the proxy that `command` starts.
fn through(command: &mut Command, count: u64, workers: usize) -> Time {
    let [frontend, backend] = free_endpoints();
    let middle = Middle::start(command.args([&frontend, &backend]), Stdio::null());

    let mut at_the_back = zmq::Context::new();
    let workers = sockets(&at_the_back, zmq::DEALER, &backend, workers);
    let serving = thread::spawn(move || serve(&workers));

    let at_the_front = zmq::Context::new();
    let mut clients = Clients::new(sockets(&at_the_front, zmq::DEALER, &frontend, CLIENTS));
    clients.round_trips(WARM_UP);
    let (wall, cpu) = (Instant::now(), middle.cpu_time());
    clients.round_trips(count);
    let time = Time { wall: wall.elapsed(), cpu: middle.cpu_time() - cpu };

    drop(clients);
    let ending = thread::spawn(move || at_the_back.destroy().unwrap());
    serving.join().unwrap();
    ending.join().unwrap();
    time
}

/// Sends everything back, until the context ends.
fn serve(workers: &[zmq::Socket]) {
    let mut items = poll_items(workers);
    while zmq::poll(&mut items, -1).is_ok() {
        for (worker, _) in workers.iter().zip(&items).filter(|(_, item)| item.is_readable()) {
            while send_back(worker).is_ok() {}
        }
    }
}

fn send_back(worker: &zmq::Socket) -> zmq::Result<()> {
    let client = worker.recv_msg(zmq::DONTWAIT)?;
    let body = worker.recv_msg(0)?;
    worker.send(client, zmq::SNDMORE)?;
    worker.send(body, 0)
}

struct Clients {
    sockets: Vec<zmq::Socket>,
    reply: zmq::Message,
}

impl Clients {
    fn new(sockets: Vec<zmq::Socket>) -> Clients {
        for client in &sockets {
            (0..IN_FLIGHT).for_each(|_| client.send(BODY, 0).unwrap());
        }
        Clients { sockets, reply: zmq::Message::new() }
    }

    /// Sends the next request for each reply, until there have been so many.
    fn round_trips(&mut self, count: u64) {
        let mut items = poll_items(&self.sockets);
        let mut left = count;
        loop {
            zmq::poll(&mut items, -1).unwrap();
            for (client, _) in self.sockets.iter().zip(&items).filter(|(_, one)| one.is_readable())
            {
                // One that is answered as fast as it asks must not keep the others from it.
                for _ in 0..IN_FLIGHT {
                    if client.recv(&mut self.reply, zmq::DONTWAIT).is_err() {
                        break;
                    }
                    assert_eq!(self.reply.len(), BODY.len());
                    client.send(BODY, 0).unwrap();
                    left -= 1;
                    if left == 0 {
                        return;
                    }
                }
            }
        }
    }
}
