//! The paths: each does an operation so many times within one call of `timed`, in one thread, and what
//! it does depends neither on the clock nor on what another thread has come to. (That leaves out
//! `ZLoop::fd`: a loop with a ready descriptor asks for what else is ready by the clock.)

use std::hint::black_box;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use zkit::{HandlerId, Repeat, ZContext, ZFrame, ZLoop, ZMsg, ZPoller, ZSock, interrupt};

use crate::frames::{self, repeat};
use crate::workload::{Run, Time, timed};
use crate::{loops, messages};

pub(crate) struct Path {
    pub(crate) name: &'static str,
    /// How many of it are counted: enough that the count of one no longer depends on it.
    pub(crate) operations: u64,
    pub(crate) run: Run,
}

pub(crate) const PATHS: &[Path] = &[
    path("frame-slice", 10_000, |count| repeat(count, || ZFrame::new(black_box(BODY)))),
    path("frame-vec-1k", 10_000, |count| repeat(count, || ZFrame::from(vec![b'x'; 1_000]))),
    path("clone-16", 10_000, |count| frames::clone(count, BODY.len())),
    path("clone-1k", 10_000, |count| frames::clone(count, 1_000)),
    path("push-pop", 10_000, frames::push_pop),
    path("wrap-unwrap", 10_000, wrap_unwrap),
    path("encode", 10_000, frames::encode),
    path("decode", 10_000, frames::decode),
    path("push-pull-1-batch", 10_000, messages::push_pull_1_batch),
    path("push-pull-3-batch", 10_000, messages::push_pull_3_batch),
    path("recv-empty", 10_000, recv_empty),
    path("poller-1-of-10", 1_000, poller_one_of::<10>),
    path("dispatch-1", 10_000, dispatch::<1>),
    path("dispatch-1000", 10_000, dispatch::<1_000>),
    path("all-busy-1000", 10_000, all_busy::<1_000>),
    path("timer-insert-cancel", 200_000, timer_insert_cancel),
    path("timer-reset", 100_000, timer_reset),
    path("timer-fire", 10_000, timer_fire),
    path("waker-post", 10_000, waker_post),
    path("source-ready", 10_000, source_ready),
    path("interrupt-check", 100_000, |count| repeat(count, interrupt::is_interrupted)),
];

const fn path(name: &'static str, operations: u64, run: Run) -> Path {
    Path { name, operations, run }
}

const BODY: &[u8] = b"0123456789abcdef";
const BATCH: u64 = 500;
const LIVE_TIMERS: u32 = 100_000;
const MINUTE: Duration = Duration::from_secs(60);

/// A turn of a loop that does not sleep.
const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

fn wrap_unwrap(count: u64) -> Time {
    let mut msg = ZMsg::from(BODY);
    repeat(count, || {
        msg.wrap("worker1");
        msg.unwrap()
    })
}

fn recv_empty(count: u64) -> Time {
    let ctx = ZContext::new().unwrap();
    let pull = ctx.pull("@inproc://empty").unwrap();
    repeat(count, || pull.try_recv().unwrap_err())
}

/// The message stays where it is.
fn poller_one_of<const SOCKETS: usize>(count: u64) -> Time {
    let ctx = ZContext::new().unwrap();
    let (pushes, pulls) = pairs(&ctx, SOCKETS);
    let mut poller = ZPoller::new();
    for (key, pull) in pulls.iter().enumerate() {
        poller.add(key, pull).unwrap();
    }
    pushes[SOCKETS / 2].send(BODY).unwrap();
    repeat(count, || assert_eq!(poller.wait(None).unwrap(), Some(SOCKETS / 2)))
}

/// One busy reader, the others idle.
fn dispatch<const READERS: usize>(count: u64) -> Time {
    loops::raise_descriptors();
    let ctx = ZContext::builder().max_sockets(READERS as u32 + 1).build().unwrap();
    let pull = ctx.pull("@inproc://messages").unwrap();
    let push = ctx.push(">inproc://messages").unwrap();
    let mut zloop = ZLoop::new().unwrap();
    for _ in 1..READERS {
        zloop.reader(ctx.pull("").unwrap(), count_message).unwrap();
    }
    zloop.reader(&pull, count_message).unwrap();
    rounds(count, BATCH, &mut zloop, || (0..BATCH).for_each(|_| push.send(BODY).unwrap()))
}

/// All readers have one message each in every round.
fn all_busy<const READERS: usize>(count: u64) -> Time {
    loops::raise_descriptors();
    let ctx = ZContext::builder().max_sockets(2 * READERS as u32).build().unwrap();
    let (pushes, pulls) = pairs(&ctx, READERS);
    let mut zloop = ZLoop::new().unwrap();
    for pull in &pulls {
        zloop.reader(pull, count_message).unwrap();
    }
    rounds(count, READERS as u64, &mut zloop, || {
        pushes.iter().for_each(|push| push.send(BODY).unwrap());
    })
}

fn pairs(ctx: &ZContext, count: usize) -> (Vec<ZSock>, Vec<ZSock>) {
    let pair = |i| {
        let pull = ctx.pull(&format!("@inproc://{i}")).unwrap();
        (ctx.push(&format!(">inproc://{i}")).unwrap(), pull)
    };
    (0..count).map(pair).unzip()
}

fn count_message(read: &mut u64, _: &mut ZLoop<'_, u64>, msg: ZMsg) -> zkit::Result<()> {
    black_box(msg.content_size());
    *read += 1;
    Ok(())
}

/// `send` sends the messages of a round, which are read before the next one. The first, in which
/// everything is looked at for the first time, does not count.
fn rounds(count: u64, round: u64, zloop: &mut ZLoop<'_, u64>, send: impl Fn()) -> Time {
    let mut pass = || {
        send();
        let mut read = 0;
        while read < round {
            zloop.turn(&mut read, AT_ONCE).unwrap();
        }
    };
    pass();
    timed(|| (0..count.div_ceil(round)).for_each(|_| pass()))
}

fn timer_insert_cancel(count: u64) -> Time {
    let (mut zloop, ids) = live_timers();
    repeat(count, || {
        let id = live_timer(&mut zloop, ids.len() as u32 / 2);
        assert!(zloop.cancel(id));
    })
}

fn timer_reset(count: u64) -> Time {
    let (mut zloop, ids) = live_timers();
    let mut ids = ids.iter().cycle();
    repeat(count, || assert!(zloop.reset(*ids.next().unwrap())))
}

fn live_timers() -> (ZLoop<'static, u64>, Vec<HandlerId>) {
    let mut zloop = ZLoop::new().unwrap();
    let ids = (0..LIVE_TIMERS).map(|i| live_timer(&mut zloop, i)).collect();
    (zloop, ids)
}

/// Never due here, and so far from others that their order does not depend on when each was made.
fn live_timer(zloop: &mut ZLoop<'static, u64>, i: u32) -> HandlerId {
    let delay = MINUTE * (1_000 + i * 7919 % 977);
    zloop.timer(delay, Repeat::Forever, count_call).unwrap()
}

/// A turn in which a repeating timer is due, as it always is.
fn timer_fire(count: u64) -> Time {
    let mut zloop = ZLoop::new().unwrap();
    zloop.timer(Duration::from_nanos(1), Repeat::Forever, count_call).unwrap();
    turns(count, &mut zloop, || {})
}

fn waker_post(count: u64) -> Time {
    let mut zloop = ZLoop::new().unwrap();
    let waker = zloop.waker();
    turns(count, &mut zloop, || waker.post(count_call).unwrap())
}

fn source_ready(count: u64) -> Time {
    let (mut near, far) = mio::net::UnixStream::pair().unwrap();
    let mut zloop = ZLoop::new().unwrap();
    let on_byte = |called: &mut u64, _: &mut ZLoop<'_, u64>, far: &mut mio::net::UnixStream, _| {
        while far.read(&mut [0; 8]).map_err(|error| error.kind()) != Err(ErrorKind::WouldBlock) {
            *called += 1;
        }
        Ok(())
    };
    zloop.source(far, mio::Interest::READABLE, on_byte).unwrap();
    turns(count, &mut zloop, || near.write_all(b"x").unwrap())
}

fn count_call(called: &mut u64, _: &mut ZLoop<'_, u64>) -> zkit::Result<()> {
    *called += 1;
    Ok(())
}

/// A handler is called once in every turn, after `prepare`.
fn turns(count: u64, zloop: &mut ZLoop<'_, u64>, mut prepare: impl FnMut()) -> Time {
    let mut called = 0;
    let mut turn = || {
        prepare();
        zloop.turn(&mut called, AT_ONCE).unwrap();
    };
    turn();
    let time = timed(|| (0..count).for_each(|_| turn()));
    assert_eq!(called, count + 1);
    time
}
