//! An actor's life, and a question to it and its answer, on one core.
//!
//! Raw `zmq` has no actors: its side is the least by hand that does the same, a thread and a pair of
//! sockets. It is not told when the other end is gone, and cannot be ended by Ctrl-C.

use std::hint::black_box;
use std::thread::{self, JoinHandle};

use zkit::{ActorPipe, ZActor, ZContext};

use crate::workload::{Time, Workload, timed};

const BODY: &[u8] = b"HELLO";
const READY: &[u8] = b"\x01";
const TERM: &[u8] = b"$TERM";

/// Until libzmq has its threads and memory is warm.
const WARM_UP: u64 = 200;

pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "actor-spawn-stop",
        count: 2_000,
        pinned: true,
        zkit: spawn_stop,
        raw: Some(raw_spawn_stop),
    },
    Workload {
        name: "actor-roundtrip",
        count: 50_000,
        pinned: true,
        zkit: roundtrip,
        raw: Some(raw_roundtrip),
    },
];

fn spawn_stop(count: u64) -> Time {
    fn body(_: &ZContext, pipe: &ActorPipe) -> zkit::Result<()> {
        while pipe.recv()?.is_some() {}
        Ok(())
    }
    let ctx = ZContext::new().unwrap();
    repeated(count, || ZActor::spawn(&ctx, body).unwrap().stop().unwrap())
}

fn raw_spawn_stop(count: u64) -> Time {
    fn body(pipe: &zmq::Socket) {
        let mut msg = zmq::Message::new();
        while *msg != *TERM {
            pipe.recv(&mut msg, 0).unwrap();
        }
    }
    let ctx = zmq::Context::new();
    repeated(count, || RawActor::spawn(&ctx, body).stop())
}

fn roundtrip(count: u64) -> Time {
    let ctx = ZContext::new().unwrap();
    let echo = ZActor::spawn(&ctx, |_, pipe| {
        while let Some(msg) = pipe.recv()? {
            pipe.send(msg)?;
        }
        Ok(())
    });
    let echo = echo.unwrap();
    let time = repeated(count, || {
        echo.send(BODY).unwrap();
        black_box(echo.recv().unwrap().content_size());
    });
    echo.stop().unwrap();
    time
}

fn raw_roundtrip(count: u64) -> Time {
    let ctx = zmq::Context::new();
    let echo = RawActor::spawn(&ctx, |pipe| {
        loop {
            let msg = pipe.recv_msg(0).unwrap();
            if *msg == *TERM {
                return;
            }
            pipe.send(msg, 0).unwrap();
        }
    });
    let mut reply = zmq::Message::new();
    let time = repeated(count, || {
        echo.pipe.send(BODY, 0).unwrap();
        echo.pipe.recv(&mut reply, 0).unwrap();
        black_box(reply.len());
    });
    echo.stop();
    time
}

fn repeated(count: u64, mut op: impl FnMut()) -> Time {
    (0..WARM_UP).for_each(|_| op());
    timed(|| (0..count).for_each(|_| op()))
}

struct RawActor {
    pipe: zmq::Socket,
    thread: JoinHandle<()>,
}

impl RawActor {
    fn spawn(ctx: &zmq::Context, body: impl FnOnce(&zmq::Socket) + Send + 'static) -> RawActor {
        // The name is free again for the next one: libzmq forgets it when its socket is unbound.
        let (pipe, other_end) = (ctx.socket(zmq::PAIR).unwrap(), ctx.socket(zmq::PAIR).unwrap());
        pipe.bind("inproc://actor").unwrap();
        other_end.connect("inproc://actor").unwrap();
        pipe.unbind("inproc://actor").unwrap();
        let thread = thread::spawn(move || {
            other_end.send(READY, 0).unwrap();
            body(&other_end);
        });
        assert_eq!(pipe.recv_bytes(0).unwrap(), READY);
        RawActor { pipe, thread }
    }

    fn stop(self) {
        self.pipe.send(TERM, 0).unwrap();
        self.thread.join().unwrap();
    }
}
