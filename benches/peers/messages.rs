//! Messages from a PUSH to a PULL, over inproc but for `tcp`.
//!
//! `stream` is one thread that sends and one that receives, end to end, and so is `tcp`. `batch` is
//! one thread that sends 500 and receives 500, in turn: nobody waits for anybody, so it shows what a
//! message costs without the luck of scheduling. `unpinned` is `stream` with all of that luck.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use zkit::{ZContext, ZSock};

use crate::workload::{Time, Workload, timed};

/// An address, an empty delimiter and a body: what a broker passes on.
const ADDRESS: &[u8] = b"worker1";
const EMPTY: &[u8] = b"";
const BODY: &[u8] = b"0123456789abcdef";

const BATCH: u64 = 500;

pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "push-pull-3-stream",
        count: 1_000_000,
        pinned: true,
        zkit: |count| stream(count, zkit_ends(INPROC), zkit_send_three, zkit_recv),
        raw: Some(|count| stream(count, raw_ends(INPROC), raw_send_three, raw_recv())),
    },
    Workload {
        name: "push-pull-3-batch",
        count: 1_000_000,
        pinned: true,
        zkit: push_pull_3_batch,
        raw: Some(|count| batch(count, raw_ends(INPROC), raw_send_three, raw_recv())),
    },
    Workload {
        name: "push-pull-1-stream",
        count: 2_000_000,
        pinned: true,
        zkit: |count| stream(count, zkit_ends(INPROC), zkit_send_one, zkit_recv),
        raw: Some(|count| stream(count, raw_ends(INPROC), raw_send_one, raw_recv())),
    },
    Workload {
        name: "push-pull-1-batch",
        count: 2_000_000,
        pinned: true,
        zkit: push_pull_1_batch,
        raw: Some(|count| batch(count, raw_ends(INPROC), raw_send_one, raw_recv())),
    },
    Workload {
        name: "push-pull-3-tcp",
        count: 500_000,
        pinned: true,
        zkit: |count| {
            let ends = connected(zkit_ends(TCP), zkit_send_three, zkit_recv);
            stream(count, ends, zkit_send_three, zkit_recv)
        },
        raw: Some(|count| {
            let ends = connected(raw_ends(TCP), raw_send_three, raw_recv());
            stream(count, ends, raw_send_three, raw_recv())
        }),
    },
    Workload {
        name: "push-pull-3-unpinned",
        count: 1_000_000,
        pinned: false,
        zkit: |count| stream(count, zkit_ends(INPROC), zkit_send_three, zkit_recv),
        raw: Some(|count| stream(count, raw_ends(INPROC), raw_send_three, raw_recv())),
    },
];

const INPROC: &str = "inproc://messages";
const TCP: &str = "tcp://127.0.0.1:*";

pub(crate) fn push_pull_3_batch(count: u64) -> Time {
    batch(count, zkit_ends(INPROC), zkit_send_three, zkit_recv)
}

pub(crate) fn push_pull_1_batch(count: u64) -> Time {
    batch(count, zkit_ends(INPROC), zkit_send_one, zkit_recv)
}

fn zkit_ends(endpoint: &str) -> (ZSock, ZSock) {
    let ctx = ZContext::new().unwrap();
    let (push, pull) = (ctx.push("").unwrap(), ctx.pull("").unwrap());
    pull.connect(&push.bind(endpoint).unwrap()).unwrap();
    (push, pull)
}

fn zkit_send_three(push: &ZSock) {
    push.send((ADDRESS, EMPTY, BODY)).unwrap();
}

fn zkit_send_one(push: &ZSock) {
    push.send(BODY).unwrap();
}

fn zkit_recv(pull: &ZSock) -> usize {
    pull.recv().unwrap().content_size()
}

fn raw_ends(endpoint: &str) -> (zmq::Socket, zmq::Socket) {
    let ctx = zmq::Context::new();
    let (push, pull) = (ctx.socket(zmq::PUSH).unwrap(), ctx.socket(zmq::PULL).unwrap());
    push.bind(endpoint).unwrap();
    pull.connect(&push.get_last_endpoint().unwrap().unwrap()).unwrap();
    (push, pull)
}

fn raw_send_three(push: &zmq::Socket) {
    push.send(ADDRESS, zmq::SNDMORE).unwrap();
    push.send(EMPTY, zmq::SNDMORE).unwrap();
    push.send(BODY, 0).unwrap();
}

fn raw_send_one(push: &zmq::Socket) {
    push.send(BODY, 0).unwrap();
}

/// Receives every frame in the same place, which is as cheap as it gets.
fn raw_recv() -> impl FnMut(&zmq::Socket) -> usize {
    let mut frame = zmq::Message::new();
    move |pull| {
        let mut size = 0;
        loop {
            pull.recv(&mut frame, 0).unwrap();
            size += frame.len();
            if !frame.get_more() {
                return size;
            }
        }
    }
}

/// They are when a message has come through.
fn connected<S>(
    (push, pull): (S, S),
    send: impl Fn(&S),
    mut recv: impl FnMut(&S) -> usize,
) -> (S, S) {
    send(&push);
    recv(&pull);
    (push, pull)
}

pub(crate) fn stream<S: Send>(
    count: u64,
    (push, pull): (S, S),
    send: impl Fn(&S) + Send,
    mut recv: impl FnMut(&S) -> usize,
) -> Time {
    let start = &Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(move || {
            start.wait();
            (0..count).for_each(|_| send(&push));
        });
        start.wait();
        timed(|| (0..count).for_each(|_| _ = black_box(recv(&pull))))
    })
}

fn batch<S>(
    count: u64,
    (push, pull): (S, S),
    send: impl Fn(&S),
    mut recv: impl FnMut(&S) -> usize,
) -> Time {
    let mut pass = |count| {
        (0..count).for_each(|_| send(&push));
        (0..count).for_each(|_| _ = black_box(recv(&pull)));
    };
    pass(BATCH);
    timed(|| {
        (0..count / BATCH).for_each(|_| pass(BATCH));
        pass(count % BATCH);
    })
}
