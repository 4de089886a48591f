//! The queue of `examples/spqueue.rs` between REQ clients and REQ workers, over tcp: it is a process
//! of its own, and everything else is the same for all peers.
//!
//! `spqueue` is timed by the clock, `spqueue-cpu` in the CPU time of the queue's process, and
//! `spqueue-loop-cpu` in that of its first thread, which is all of it but libzmq's I/O thread.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use zkit::{Error, HandlerId, SendError, ZContext, ZFrame, ZLoop, ZMsg, ZSock};

use crate::Result;
use crate::broker::RawBroker;
use crate::loops::raise_descriptors;
use crate::middle::{Middle, free_endpoints, poll_items, sockets, this, wait_for_parent};
use crate::workload::{Time, Workload};

const CLIENTS: usize = 100;
const WORKERS: usize = 100;
/// Threads that the workers share.
const WORKER_THREADS: usize = 2;
const READY: &[u8] = b"\x01";
const BODY: &[u8] = &[b'x'; 100];

/// Requests until everybody is connected.
const WARM_UP: u64 = 50 * CLIENTS as u64;

const COUNT: u64 = 30_000;
const LOOP: &str = "spqueue-loop-cpu";

pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "spqueue",
        count: COUNT,
        pinned: false,
        zkit: |count| this_one("zkit", count, Middle::cpu_time),
        raw: Some(|count| this_one("raw", count, Middle::cpu_time)),
    },
    Workload {
        name: "spqueue-cpu",
        count: COUNT,
        pinned: true,
        zkit: |count| this_one("zkit", count, Middle::cpu_time),
        raw: Some(|count| this_one("raw", count, Middle::cpu_time)),
    },
    Workload {
        name: LOOP,
        count: COUNT,
        pinned: true,
        zkit: |count| this_one("zkit", count, Middle::first_thread_cpu_time),
        raw: Some(|count| this_one("raw", count, Middle::first_thread_cpu_time)),
    },
];

type CpuTime = fn(&Middle) -> Duration;

fn this_one(peer: &str, count: u64, cpu_time: CpuTime) -> Time {
    through(this().args(["--spqueue", peer]), count, cpu_time)
}

/// The program of another peer has the queue, and this the clients and the workers.
pub(crate) fn of_program(program: &Path, name: &str, count: u64) -> Time {
    let cpu_time = if name == LOOP { Middle::first_thread_cpu_time } else { Middle::cpu_time };
    through(Command::new(program).arg("--spqueue"), count, cpu_time)
}

/// Has so many requests answered through the queue that `command` starts.
fn through(command: &mut Command, count: u64, cpu_time: CpuTime) -> Time {
    let [frontend, backend] = free_endpoints();
    let middle = Middle::start(command.args([&frontend, &backend]), Stdio::null());

    let mut at_the_back = zmq::Context::new();
    let workers: Vec<_> = (0..WORKER_THREADS)
        .map(|_| sockets(&at_the_back, zmq::REQ, &backend, WORKERS / WORKER_THREADS))
        .map(|sockets| thread::spawn(move || serve(&sockets)))
        .collect();

    let at_the_front = zmq::Context::new();
    let clients = sockets(&at_the_front, zmq::REQ, &frontend, CLIENTS);
    clients.iter().for_each(|client| client.send(BODY, 0).unwrap());
    requests(&clients, WARM_UP);
    let (wall, cpu) = (Instant::now(), cpu_time(&middle));
    requests(&clients, count);
    let time = Time { wall: wall.elapsed(), cpu: cpu_time(&middle) - cpu };

    drop(clients);
    let ending = thread::spawn(move || at_the_back.destroy().unwrap());
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    ending.join().unwrap();
    time
}

/// Each client sends its next request when it has the reply, until there have been so many replies.
fn requests(clients: &[zmq::Socket], count: u64) {
    let mut items = poll_items(clients);
    let mut reply = zmq::Message::new();
    let mut left = count;
    loop {
        zmq::poll(&mut items, -1).unwrap();
        for (client, _) in clients.iter().zip(&items).filter(|(_, item)| item.is_readable()) {
            client.recv(&mut reply, 0).unwrap();
            assert_eq!(reply.len(), BODY.len());
            client.send(BODY, 0).unwrap();
            left -= 1;
            if left == 0 {
                return;
            }
        }
    }
}

/// REQ workers that send every request back at once, until their context ends.
pub(crate) fn serve(workers: &[zmq::Socket]) {
    let mut items = poll_items(workers);
    workers.iter().for_each(|worker| worker.send(READY, 0).unwrap());
    while zmq::poll(&mut items, -1).is_ok() {
        for (worker, _) in workers.iter().zip(&items).filter(|(_, item)| item.is_readable()) {
            let _ = send_back(worker); // it can only be that the context has ended
        }
    }
}

/// A request is the client's address, an empty frame and the body.
fn send_back(worker: &zmq::Socket) -> zmq::Result<()> {
    let client = worker.recv_msg(0)?;
    let delimiter = worker.recv_msg(0)?;
    let body = worker.recv_msg(0)?;
    worker.send(client, zmq::SNDMORE)?;
    worker.send(delimiter, zmq::SNDMORE)?;
    worker.send(body, 0)
}

/// A child: `--spqueue PEER FRONTEND BACKEND` is the queue, until it is killed or its parent is gone.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let [peer, frontend, backend] = args else {
        return Err("--spqueue PEER FRONTEND BACKEND".into());
    };
    raise_descriptors();
    thread::spawn(|| {
        wait_for_parent();
        std::process::exit(0);
    });
    match peer.as_str() {
        "zkit" => zkit(frontend, backend),
        "raw" => raw(frontend, backend),
        _ => Err("no such queue".into()),
    }
}

/// A bound: a broker that knows of no worker that is gone.
fn raw(frontend: &str, backend: &str) -> Result<()> {
    let ctx = zmq::Context::new();
    let (at_the_front, at_the_back) = (ctx.socket(zmq::ROUTER)?, ctx.socket(zmq::ROUTER)?);
    at_the_front.bind(frontend)?;
    at_the_back.bind(backend)?;
    RawBroker::new(at_the_front, at_the_back).run(u64::MAX);
    Ok(())
}

fn zkit(frontend: &str, backend: &str) -> Result<()> {
    let ctx = ZContext::new()?;
    let (frontend, backend) = (router(&ctx, frontend)?, router(&ctx, backend)?);

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

fn router(ctx: &ZContext, endpoint: &str) -> zkit::Result<ZSock> {
    let router = ctx.router("")?;
    router.set_router_mandatory(true)?;
    router.bind(endpoint)?;
    Ok(router)
}

struct Queue<'a> {
    frontend: &'a ZSock,
    backend: &'a ZSock,
    free: VecDeque<ZFrame>,
    is_free: HashSet<ZFrame>,
    requests: HandlerId,
    waiting: Option<ZMsg>,
}

impl<'a> Queue<'a> {
    fn on_worker(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> zkit::Result<()> {
        let Some(worker) = msg.unwrap().filter(|_| !msg.is_empty()) else { return Ok(()) };
        if self.is_free.insert(worker.clone()) {
            self.free.push_back(worker);
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

    fn reply(&self, msg: ZMsg) -> zkit::Result<()> {
        match self.frontend.try_send(msg) {
            Err(SendError { error, .. }) if error.is_ending() => Err(error),
            Err(SendError { error, .. }) => {
                println!("a reply was dropped: {error}");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn on_request(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> zkit::Result<()> {
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
                    println!("worker {:?} is gone", msg.unwrap().unwrap_or_default());
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
