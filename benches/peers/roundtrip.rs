//! A question and its answer between two threads that wait for each other, on one core.
//!
//! Both peers wait in blocking calls. zkit's can be ended by Ctrl-C in any thread, which takes
//! system calls that raw libzmq does not make.

use std::hint::black_box;
use std::thread;

use zkit::{SocketType, ZContext, ZSock};

use crate::workload::{Time, Workload, timed};

const BODY: &[u8] = b"0123456789abcdef";

/// Until connections are made and memory is warm.
const WARM_UP: u64 = 200;

pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "req-rep-inproc",
        count: 50_000,
        pinned: true,
        zkit: |count| zkit(count, SocketType::Req, SocketType::Rep, INPROC),
        raw: Some(|count| raw(count, zmq::REQ, zmq::REP, INPROC)),
    },
    Workload {
        name: "req-rep-tcp",
        count: 15_000,
        pinned: true,
        zkit: |count| zkit(count, SocketType::Req, SocketType::Rep, TCP),
        raw: Some(|count| raw(count, zmq::REQ, zmq::REP, TCP)),
    },
    Workload {
        name: "pair-inproc",
        count: 50_000,
        pinned: true,
        zkit: |count| zkit(count, SocketType::Pair, SocketType::Pair, INPROC),
        raw: Some(|count| raw(count, zmq::PAIR, zmq::PAIR, INPROC)),
    },
    Workload {
        name: "pair-tcp",
        count: 15_000,
        pinned: true,
        zkit: |count| zkit(count, SocketType::Pair, SocketType::Pair, TCP),
        raw: Some(|count| raw(count, zmq::PAIR, zmq::PAIR, TCP)),
    },
];

const INPROC: &str = "inproc://roundtrip";
const TCP: &str = "tcp://127.0.0.1:*";

fn zkit(count: u64, client: SocketType, server: SocketType, endpoint: &str) -> Time {
    let ctx = ZContext::new().unwrap();
    let (client, server) = (ctx.socket(client).unwrap(), ctx.socket(server).unwrap());
    client.connect(&server.bind(endpoint).unwrap()).unwrap();

    let ask = |client: &ZSock| {
        client.send(BODY).unwrap();
        client.recv().unwrap().content_size()
    };
    let answer = |server: &ZSock| {
        let msg = server.recv().unwrap();
        server.send(msg).unwrap();
    };
    ping_pong(count, (client, server), ask, answer)
}

fn raw(count: u64, client: zmq::SocketType, server: zmq::SocketType, endpoint: &str) -> Time {
    let ctx = zmq::Context::new();
    let (client, server) = (ctx.socket(client).unwrap(), ctx.socket(server).unwrap());
    server.bind(endpoint).unwrap();
    client.connect(&server.get_last_endpoint().unwrap().unwrap()).unwrap();

    let mut reply = zmq::Message::new();
    let ask = |client: &zmq::Socket| {
        client.send(BODY, 0).unwrap();
        client.recv(&mut reply, 0).unwrap();
        reply.len()
    };
    let answer = |server: &zmq::Socket| {
        let msg = server.recv_msg(0).unwrap();
        server.send(msg, 0).unwrap();
    };
    ping_pong(count, (client, server), ask, answer)
}

fn ping_pong<S: Send>(
    count: u64,
    (client, server): (S, S),
    mut ask: impl FnMut(&S) -> usize,
    answer: impl Fn(&S) + Send,
) -> Time {
    thread::scope(|scope| {
        scope.spawn(move || (0..WARM_UP + count).for_each(|_| answer(&server)));
        (0..WARM_UP).for_each(|_| _ = ask(&client));
        timed(|| (0..count).for_each(|_| _ = black_box(ask(&client))))
    })
}
