//! Frames and messages without a socket. Raw `zmq` has nothing to compare with: it has no queue of
//! frames, no codec, and its messages cannot be cloned.

use std::hint::black_box;

use zkit::{ZFrame, ZMsg};

use crate::workload::{Time, Workload, timed};

pub(crate) const WORKLOADS: &[Workload] = &[
    Workload { name: "push-pop", count: 10_000_000, pinned: true, zkit: push_pop, raw: None },
    Workload {
        name: "clone-1k",
        count: 10_000_000,
        pinned: true,
        zkit: |count| clone(count, 1_000),
        raw: None,
    },
    Workload {
        name: "clone-1m",
        count: 20_000,
        pinned: true,
        zkit: |count| clone(count, 1_000_000),
        raw: None,
    },
    Workload { name: "encode", count: 3_000_000, pinned: true, zkit: encode, raw: None },
    Workload { name: "decode", count: 3_000_000, pinned: true, zkit: decode, raw: None },
];

/// Puts an address in front of a message, and takes it off.
pub(crate) fn push_pop(count: u64) -> Time {
    let mut msg = message();
    repeat(count, || {
        msg.push_front("worker1");
        msg.pop_front()
    })
}

pub(crate) fn clone(count: u64, size: usize) -> Time {
    let frame = ZFrame::from(vec![b'x'; size]);
    repeat(count, || frame.clone())
}

pub(crate) fn encode(count: u64) -> Time {
    let msg = message();
    repeat(count, || msg.encode().unwrap())
}

pub(crate) fn decode(count: u64) -> Time {
    let bytes = message().encode().unwrap();
    repeat(count, || ZMsg::decode(&bytes).unwrap())
}

fn message() -> ZMsg {
    ("worker1", "", "0123456789abcdef").into()
}

/// The results are dropped within the time.
pub(crate) fn repeat<T>(count: u64, mut op: impl FnMut() -> T) -> Time {
    timed(|| (0..count).for_each(|_| _ = black_box(op())))
}
