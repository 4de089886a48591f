//! The broker of `examples/lruqueue3.rs` between REQ clients and REQ workers, over ipc.
//!
//! Only the broker's thread is timed. The clients and workers are raw `zmq` for both peers, and in a
//! context of their own.

use std::collections::VecDeque;
use std::thread;

use zkit::{Exit, HandlerId, ZContext, ZFrame, ZLoop, ZMsg, ZSock};

use crate::workload::{Time, Workload, thread_timed};

const CLIENTS: u64 = 100;
const WORKERS: usize = 100;
const READY: &[u8] = b"\x01";

pub(crate) const WORKLOADS: &[Workload] =
    &[Workload { name: "broker-cpu", count: 20_000, pinned: true, zkit, raw: Some(raw) }];

/// Where the clients and the workers connect.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    fn endpoint(&self, name: &str) -> String {
        format!("ipc://{}/{name}", self.dir.path().display())
    }

    /// Has `broker` serve so many requests, all in all.
    fn serve(&self, count: u64, broker: impl FnOnce() -> Time) -> Time {
        let ctx = zmq::Context::new();
        let req = |name| {
            let req = ctx.socket(zmq::REQ).unwrap();
            req.connect(&self.endpoint(name)).unwrap();
            req
        };
        thread::scope(|scope| {
            for i in 0..CLIENTS {
                let requests = count / CLIENTS + u64::from(i < count % CLIENTS);
                scope.spawn(move || client(&req("frontend"), requests));
            }
            for _ in 0..WORKERS {
                scope.spawn(move || worker(&req("backend")));
            }
            broker()
        })
    }
}

fn client(req: &zmq::Socket, requests: u64) {
    let mut reply = zmq::Message::new();
    for _ in 0..requests {
        req.send("HELLO", 0).unwrap();
        req.recv(&mut reply, 0).unwrap();
        assert_eq!(&*reply, b"OK");
    }
}

/// Answers until it gets a request without a client.
fn worker(req: &zmq::Socket) {
    let [mut client, mut rest] = [zmq::Message::new(), zmq::Message::new()];
    req.send(READY, 0).unwrap();
    loop {
        req.recv(&mut client, 0).unwrap();
        if !client.get_more() {
            return;
        }
        while rest_of(req, &mut rest) {}
        req.send(&*client, zmq::SNDMORE).unwrap();
        req.send("", zmq::SNDMORE).unwrap();
        req.send("OK", 0).unwrap();
    }
}

/// Whether there is more after this frame.
fn rest_of(socket: &zmq::Socket, frame: &mut zmq::Message) -> bool {
    socket.recv(frame, 0).unwrap();
    frame.get_more()
}

struct Broker<'a> {
    frontend: &'a ZSock,
    backend: &'a ZSock,
    workers: VecDeque<ZFrame>,
    requests: HandlerId,
    left: u64,
}

impl<'a> Broker<'a> {
    fn on_backend(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> zkit::Result<()> {
        self.workers.extend(msg.unwrap());
        if msg.first().is_some_and(|frame| *frame == READY) {
            if self.workers.len() == WORKERS {
                zloop.stop(); // now it begins
            }
            return Ok(());
        }
        zloop.resume(self.requests);
        self.frontend.send(msg)?;
        self.left -= 1;
        if self.left == 0 {
            zloop.stop();
        }
        Ok(())
    }

    fn on_frontend(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> zkit::Result<()> {
        if let Some(worker) = self.workers.pop_front() {
            msg.wrap(worker);
            self.backend.send(msg)?;
        }
        if self.workers.is_empty() {
            zloop.pause(self.requests);
        }
        Ok(())
    }
}

fn zkit(count: u64) -> Time {
    let place = Place::new();
    let ctx = ZContext::new().unwrap();
    let frontend = ctx.router("").unwrap();
    let backend = ctx.router("").unwrap();
    frontend.bind(&place.endpoint("frontend")).unwrap();
    backend.bind(&place.endpoint("backend")).unwrap();
    place.serve(count, || {
        let mut zloop = ZLoop::new().unwrap();
        zloop.reader(&backend, Broker::on_backend).unwrap();
        let requests = zloop.reader(&frontend, Broker::on_frontend).unwrap();
        zloop.pause(requests);
        let workers = VecDeque::new();
        let mut broker =
            Broker { frontend: &frontend, backend: &backend, workers, requests, left: count };
        assert_eq!(zloop.run(&mut broker).unwrap(), Exit::Stopped);
        zloop.resume(requests);
        let time = thread_timed(|| assert_eq!(zloop.run(&mut broker).unwrap(), Exit::Stopped));
        for worker in broker.workers {
            backend.send((worker, "", "END")).unwrap();
        }
        time
    })
}

/// Polls only when both sockets have run dry.
pub(crate) struct RawBroker {
    frontend: zmq::Socket,
    backend: zmq::Socket,
    workers: VecDeque<zmq::Message>,
    frame: zmq::Message,
}

impl RawBroker {
    pub(crate) fn new(frontend: zmq::Socket, backend: zmq::Socket) -> RawBroker {
        RawBroker { frontend, backend, workers: VecDeque::new(), frame: zmq::Message::new() }
    }

    /// Receives the first frame of a message, if there is one.
    fn begin(socket: &zmq::Socket, frame: &mut zmq::Message) -> bool {
        match socket.recv(frame, zmq::DONTWAIT) {
            Ok(()) => true,
            Err(zmq::Error::EAGAIN) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Takes what a worker sent. Whether there was something, and whether that was a reply.
    fn on_backend(&mut self) -> Option<bool> {
        let mut worker = zmq::Message::new();
        if !RawBroker::begin(&self.backend, &mut worker) {
            return None;
        }
        self.workers.push_back(worker);
        rest_of(&self.backend, &mut self.frame);
        let is_reply = rest_of(&self.backend, &mut self.frame);
        if is_reply {
            RawBroker::pass_on(&self.backend, &self.frontend, &mut self.frame);
        }
        Some(is_reply)
    }

    fn on_frontend(&mut self) -> bool {
        if self.workers.is_empty() || !RawBroker::begin(&self.frontend, &mut self.frame) {
            return false;
        }
        let worker = self.workers.pop_front().unwrap();
        self.backend.send(worker, zmq::SNDMORE).unwrap();
        self.backend.send("", zmq::SNDMORE).unwrap();
        RawBroker::pass_on(&self.frontend, &self.backend, &mut self.frame);
        true
    }

    /// Sends the frame that was received, and what comes after it.
    fn pass_on(from: &zmq::Socket, to: &zmq::Socket, frame: &mut zmq::Message) {
        loop {
            let more = frame.get_more();
            // They are short: a copy is cheaper than a new place for each.
            to.send(&**frame, if more { zmq::SNDMORE } else { 0 }).unwrap();
            if !more {
                return;
            }
            from.recv(frame, 0).unwrap();
        }
    }

    fn wait(&self) {
        let mut items =
            [self.backend.as_poll_item(zmq::POLLIN), self.frontend.as_poll_item(zmq::POLLIN)];
        let sockets = if self.workers.is_empty() { 1 } else { 2 };
        zmq::poll(&mut items[..sockets], -1).unwrap();
    }

    pub(crate) fn run(&mut self, replies: u64) {
        let mut left = replies;
        while left > 0 {
            let mut idle = true;
            while let Some(is_reply) = self.on_backend() {
                idle = false;
                left -= u64::from(is_reply);
            }
            while self.on_frontend() {
                idle = false;
            }
            if idle {
                self.wait();
            }
        }
    }
}

fn raw(count: u64) -> Time {
    let place = Place::new();
    let ctx = zmq::Context::new();
    let router = |name| {
        let router = ctx.socket(zmq::ROUTER).unwrap();
        router.bind(&place.endpoint(name)).unwrap();
        router
    };
    let mut broker = RawBroker::new(router("frontend"), router("backend"));
    place.serve(count, || {
        while broker.workers.len() < WORKERS {
            if broker.on_backend().is_none() {
                zmq::poll(&mut [broker.backend.as_poll_item(zmq::POLLIN)], -1).unwrap();
            }
        }
        let time = thread_timed(|| broker.run(count));
        for worker in broker.workers.drain(..) {
            broker.backend.send(worker, zmq::SNDMORE).unwrap();
            broker.backend.send("", zmq::SNDMORE).unwrap();
            broker.backend.send("END", 0).unwrap();
        }
        time
    })
}
