//! The broker of `examples/balance.rs` with one client and one worker, in step, over ipc: each part
//! is a thread, and all three are on the same peer.

use std::collections::VecDeque;
use std::thread;

use zkit::{Error, Exit, HandlerId, ZContext, ZFrame, ZLoop, ZMsg, ZSock};

use crate::workload::{Time, Workload, timed};

const READY: &str = "ready";
const REQUEST: &str = "hello";
const REPLY: &str = "hello fjs";
const MOST_REQUESTS: usize = 10_000;

/// Requests until connections are made and memory is warm.
const WARM_UP: u64 = 200;

pub(crate) const WORKLOADS: &[Workload] =
    &[Workload { name: "balance", count: 3_000, pinned: true, zkit, raw: Some(raw) }];

fn endpoints() -> (tempfile::TempDir, [String; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let endpoints = ["front", "back"].map(|name| format!("ipc://{}/{name}", dir.path().display()));
    (dir, endpoints)
}

fn zkit(count: u64) -> Time {
    let (_dir, [front, back]) = endpoints();
    let ctx = ZContext::new().unwrap();
    let (frontend, backend) = (ctx.router("").unwrap(), ctx.router("").unwrap());
    frontend.bind(&front).unwrap();
    backend.bind(&back).unwrap();
    let (client, worker) = (ctx.req("").unwrap(), ctx.req("").unwrap());
    client.connect(&front).unwrap();
    worker.connect(&back).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || until_it_ends(ask(&client)));
        scope.spawn(move || until_it_ends(answer(&worker)));
        let mut zloop = ZLoop::new().unwrap();
        let reader = zloop.reader(&frontend, Broker::on_request).unwrap();
        zloop.reader(&backend, Broker::on_worker).unwrap();
        let (workers, requests) = (VecDeque::new(), VecDeque::new());
        let (frontend, backend) = (&frontend, &backend);
        let mut broker = Broker { frontend, backend, workers, requests, reader, left: WARM_UP };
        assert_eq!(zloop.run(&mut broker).unwrap(), Exit::Stopped);
        broker.left = count;
        let time = timed(|| assert_eq!(zloop.run(&mut broker).unwrap(), Exit::Stopped));
        ctx.shutdown().unwrap();
        time
    })
}

struct Broker<'a> {
    frontend: &'a ZSock,
    backend: &'a ZSock,
    workers: VecDeque<ZFrame>,
    requests: VecDeque<ZMsg>,
    reader: HandlerId,
    /// Replies until the loop stops.
    left: u64,
}

impl<'a> Broker<'a> {
    fn on_request(&mut self, zloop: &mut ZLoop<'a, Self>, request: ZMsg) -> zkit::Result<()> {
        self.requests.push_back(request);
        self.match_up(zloop)
    }

    fn on_worker(&mut self, zloop: &mut ZLoop<'a, Self>, mut msg: ZMsg) -> zkit::Result<()> {
        self.workers.extend(msg.unwrap());
        if msg != READY.into() {
            self.frontend.send(msg)?;
            self.left -= 1;
            if self.left == 0 {
                zloop.stop();
            }
        }
        self.match_up(zloop)
    }

    fn match_up(&mut self, zloop: &mut ZLoop<'a, Self>) -> zkit::Result<()> {
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
}

fn until_it_ends(done: zkit::Result<()>) {
    assert!(done.is_err_and(|error| error.is_ending()));
}

fn ask(client: &ZSock) -> zkit::Result<()> {
    loop {
        client.send(REQUEST)?;
        let reply = client.recv_str()?;
        if reply != REPLY {
            return Err(Error::other(format!("a reply of {reply:?}")));
        }
    }
}

fn answer(worker: &ZSock) -> zkit::Result<()> {
    worker.send(READY)?;
    loop {
        let mut msg = worker.recv()?;
        if let Some(request) = msg.last_mut() {
            request.reset(REPLY);
        }
        worker.send(msg)?;
    }
}

fn raw(count: u64) -> Time {
    let (_dir, [front, back]) = endpoints();
    let ctx = zmq::Context::new();
    let socket = |kind| ctx.socket(kind).unwrap();
    let (frontend, backend) = (socket(zmq::ROUTER), socket(zmq::ROUTER));
    frontend.bind(&front).unwrap();
    backend.bind(&back).unwrap();
    let (client, worker) = (socket(zmq::REQ), socket(zmq::REQ));
    client.connect(&front).unwrap();
    worker.connect(&back).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || raw_ask(&client, WARM_UP + count));
        scope.spawn(move || raw_answer(&worker));
        let (workers, requests) = (VecDeque::new(), VecDeque::new());
        let frame = zmq::Message::new();
        let mut broker = RawBroker { frontend, backend, workers, requests, frame };
        broker.run(WARM_UP).unwrap();
        let time = timed(|| broker.run(count).unwrap());
        broker.end().unwrap();
        time
    })
}

/// Takes one message of each socket that has some, and moves frames where it has no more use for them.
struct RawBroker {
    frontend: zmq::Socket,
    backend: zmq::Socket,
    workers: VecDeque<zmq::Message>,
    /// A client's address, and its body.
    requests: VecDeque<[zmq::Message; 2]>,
    frame: zmq::Message,
}

impl RawBroker {
    fn run(&mut self, replies: u64) -> zmq::Result<()> {
        let mut left = replies;
        while left > 0 {
            let mut items =
                [&self.backend, &self.frontend].map(|socket| socket.as_poll_item(zmq::POLLIN));
            zmq::poll(&mut items, -1)?;
            let [worker, request] = items.map(|item| item.is_readable());
            if worker && self.on_worker()? {
                left -= 1;
            }
            if request {
                self.on_request()?;
            }
            self.match_up()?;
        }
        Ok(())
    }

    fn on_request(&mut self) -> zmq::Result<()> {
        let client = self.frontend.recv_msg(0)?;
        self.frontend.recv(&mut self.frame, 0)?;
        self.requests.push_back([client, self.frontend.recv_msg(0)?]);
        Ok(())
    }

    /// Whether it was a reply.
    fn on_worker(&mut self) -> zmq::Result<bool> {
        self.workers.push_back(self.backend.recv_msg(0)?);
        self.backend.recv(&mut self.frame, 0)?;
        self.backend.recv(&mut self.frame, 0)?;
        if !self.frame.get_more() {
            return Ok(false); // it is ready
        }
        loop {
            let more = self.frame.get_more();
            // They are short: a copy is cheaper than a new place for each.
            self.frontend.send(&*self.frame, if more { zmq::SNDMORE } else { 0 })?;
            if !more {
                return Ok(true);
            }
            self.backend.recv(&mut self.frame, 0)?;
        }
    }

    fn match_up(&mut self) -> zmq::Result<()> {
        let pairs = self.workers.len().min(self.requests.len());
        let requests = self.requests.drain(..pairs);
        for (worker, [client, body]) in self.workers.drain(..pairs).zip(requests) {
            self.backend.send(worker, zmq::SNDMORE)?;
            self.backend.send("", zmq::SNDMORE)?;
            self.backend.send(client, zmq::SNDMORE)?;
            self.backend.send("", zmq::SNDMORE)?;
            self.backend.send(body, 0)?;
        }
        Ok(())
    }

    /// Sends the workers home, with a request that has no client.
    fn end(&mut self) -> zmq::Result<()> {
        for worker in self.workers.drain(..) {
            self.backend.send(worker, zmq::SNDMORE)?;
            self.backend.send("", zmq::SNDMORE)?;
            self.backend.send("END", 0)?;
        }
        Ok(())
    }
}

fn raw_ask(client: &zmq::Socket, requests: u64) {
    let mut reply = zmq::Message::new();
    for _ in 0..requests {
        client.send(REQUEST, 0).unwrap();
        client.recv(&mut reply, 0).unwrap();
        assert_eq!(&*reply, REPLY.as_bytes());
    }
}

fn raw_answer(worker: &zmq::Socket) {
    let [mut client, mut rest] = [zmq::Message::new(), zmq::Message::new()];
    worker.send(READY, 0).unwrap();
    loop {
        worker.recv(&mut client, 0).unwrap();
        if !client.get_more() {
            return;
        }
        worker.recv(&mut rest, 0).unwrap();
        worker.recv(&mut rest, 0).unwrap();
        worker.send(&*client, zmq::SNDMORE).unwrap();
        worker.send("", zmq::SNDMORE).unwrap();
        worker.send(REPLY, 0).unwrap();
    }
}
