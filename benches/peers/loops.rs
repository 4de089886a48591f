//! A reactor's work: one socket among many, idle timers, timers that come and go, and waking it.
//!
//! Raw `zmq` has no reactor: where there is something to compare with, it is the plainest loop that
//! does the same work, which is a bound and no rival.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use zkit::{Exit, HandlerId, Repeat, ZContext, ZLoop, ZMsg, ZSock};

use crate::workload::{Time, Workload, thread_timed, timed};

const BODY: &[u8] = b"0123456789abcdef";

/// The libzmq that comes with the `zmq` crate takes two descriptors per socket, and 20,000 are what
/// a process may have where this was written: 10,000 sockets would need more.
const MOST_READERS: usize = 9_000;

const LIVE_TIMERS: usize = 1_000_000;
const HOUR: Duration = Duration::from_secs(3600);

pub(crate) const WORKLOADS: &[Workload] = &[
    dispatch::<1>("dispatch-1"),
    dispatch::<10>("dispatch-10"),
    dispatch::<100>("dispatch-100"),
    dispatch::<1_000>("dispatch-1000"),
    dispatch::<MOST_READERS>("dispatch-9000"),
    Workload {
        name: "all-busy-1000",
        count: 60_000,
        pinned: true,
        zkit: all_busy::<1_000>,
        raw: Some(raw_all_busy::<1_000>),
    },
    idle_timers::<0>("idle-timers-0"),
    idle_timers::<100>("idle-timers-100"),
    idle_timers::<10_000>("idle-timers-10000"),
    idle_timers::<1_000_000>("idle-timers-1000000"),
    Workload {
        name: "timer-insert-cancel",
        count: 2_000_000,
        pinned: true,
        zkit: insert_cancel,
        raw: None,
    },
    Workload { name: "timer-reset", count: 2_000_000, pinned: true, zkit: reset, raw: None },
    Workload {
        name: "wake-up",
        count: 50_000,
        pinned: true,
        zkit: wake_up,
        raw: Some(bare_wake_up),
    },
];

/// Not part of a comparison, and slow: `peers --run zkit idle-9000 SECONDS`.
pub(crate) const CHECKS: &[Workload] = &[Workload {
    name: "idle-9000",
    count: 5,
    pinned: true,
    zkit: idle::<MOST_READERS>,
    raw: None,
}];

const fn dispatch<const READERS: usize>(name: &'static str) -> Workload {
    let zkit = |count| among(count, READERS, 0);
    Workload { name, count: 1_000_000, pinned: true, zkit, raw: Some(raw_alone) }
}

const fn idle_timers<const TIMERS: usize>(name: &'static str) -> Workload {
    let zkit = |count| among(count, 1, TIMERS);
    Workload { name, count: 1_000_000, pinned: true, zkit, raw: None }
}

/// The state of a loop that stops after so many messages.
struct Left(u64);

impl Left {
    fn on_message(&mut self, zloop: &mut ZLoop<'_, Self>, msg: ZMsg) -> zkit::Result<()> {
        black_box(msg.content_size());
        self.0 -= 1;
        if self.0 == 0 {
            zloop.stop();
        }
        Ok(())
    }
}

/// One busy reader among idle readers and timers.
fn among(count: u64, readers: usize, timers: usize) -> Time {
    raise_descriptors();
    let ctx = ZContext::builder().max_sockets(readers as u32 + 1).build().unwrap();
    let pull = ctx.pull("@inproc://messages").unwrap();
    let push = ctx.push(">inproc://messages").unwrap();
    let mut zloop = ZLoop::new().unwrap();
    for _ in 1..readers {
        zloop.reader(ctx.pull("").unwrap(), Left::on_message).unwrap();
    }
    for _ in 0..timers {
        zloop.timer(HOUR, Repeat::Forever, |_, _| Ok(())).unwrap();
    }
    zloop.reader(&pull, Left::on_message).unwrap();
    // What is looked at once, when it is added.
    zloop.turn(&mut Left(count), Some(Duration::ZERO)).unwrap();
    let mut left = Left(count);
    fed(
        move || (0..count).for_each(|_| push.send(BODY).unwrap()),
        || assert_eq!(zloop.run(&mut left).unwrap(), Exit::Stopped),
    )
}

fn raw_alone(count: u64) -> Time {
    let ctx = zmq::Context::new();
    let (push, pull) = (ctx.socket(zmq::PUSH).unwrap(), ctx.socket(zmq::PULL).unwrap());
    push.bind("inproc://messages").unwrap();
    pull.connect("inproc://messages").unwrap();
    let mut msg = zmq::Message::new();
    fed(
        move || (0..count).for_each(|_| push.send(BODY, 0).unwrap()),
        || {
            for _ in 0..count {
                pull.recv(&mut msg, 0).unwrap();
                black_box(msg.len());
            }
        },
    )
}

/// The time of the thread that reads, while another one feeds it.
fn fed(feed: impl FnOnce() + Send, read: impl FnOnce()) -> Time {
    thread::scope(|scope| {
        scope.spawn(feed);
        thread_timed(read)
    })
}

/// Every reader has one message in each round. Rounds are sent and read in turn, so that nobody
/// waits for a message, nor finds two.
struct Rounds<'a> {
    readers: u64,
    left: u64,
    turn: &'a Barrier,
}

impl Rounds<'_> {
    /// Another message was read. Whether there is one more.
    fn go_on(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 && self.left % self.readers == 0 {
            self.next();
        }
        self.left > 0
    }

    fn next(&self) {
        self.turn.wait();
        self.turn.wait();
    }

    /// The other side of it.
    fn send<S>(count: u64, pushes: &[S], turn: &Barrier, send: impl Fn(&S)) {
        for _ in 0..count / pushes.len() as u64 {
            turn.wait();
            pushes.iter().for_each(&send);
            turn.wait();
        }
    }
}

fn all_busy<const READERS: usize>(count: u64) -> Time {
    raise_descriptors();
    let count = whole_rounds(count, READERS);
    let ctx = ZContext::builder().max_sockets(2 * READERS as u32).build().unwrap();
    let pulls: Vec<ZSock> =
        (0..READERS).map(|i| ctx.pull(&format!("@inproc://{i}")).unwrap()).collect();
    let pushes: Vec<ZSock> =
        (0..READERS).map(|i| ctx.push(&format!(">inproc://{i}")).unwrap()).collect();
    let turn = &Barrier::new(2);
    let mut zloop = ZLoop::new().unwrap();
    for pull in &pulls {
        let on_message = |rounds: &mut Rounds<'_>, zloop: &mut ZLoop<'_, _>, msg: ZMsg| {
            black_box(msg.content_size());
            if !rounds.go_on() {
                zloop.stop();
            }
            Ok(())
        };
        zloop.reader(pull, on_message).unwrap();
    }
    let mut rounds = Rounds { readers: READERS as u64, left: count, turn };
    fed(
        move || Rounds::send(count, &pushes, turn, |push| push.send(BODY).unwrap()),
        || {
            rounds.next();
            assert_eq!(zloop.run(&mut rounds).unwrap(), Exit::Stopped);
        },
    )
}

fn raw_all_busy<const READERS: usize>(count: u64) -> Time {
    raise_descriptors();
    let count = whole_rounds(count, READERS);
    let (mut pulls, mut pushes) = (Vec::new(), Vec::new());
    // The crate cannot make a context with room for more than 1023 sockets.
    let contexts: Vec<zmq::Context> =
        (0..READERS.div_ceil(500)).map(|_| zmq::Context::new()).collect();
    for i in 0..READERS {
        let ctx = &contexts[i / 500];
        let (pull, push) = (ctx.socket(zmq::PULL).unwrap(), ctx.socket(zmq::PUSH).unwrap());
        pull.bind(&format!("inproc://{i}")).unwrap();
        push.connect(&format!("inproc://{i}")).unwrap();
        pulls.push(pull);
        pushes.push(push);
    }
    let turn = &Barrier::new(2);
    let mut rounds = Rounds { readers: READERS as u64, left: count, turn };
    let mut msg = zmq::Message::new();
    fed(
        move || Rounds::send(count, &pushes, turn, |push| push.send(BODY, 0).unwrap()),
        || {
            rounds.next();
            for pull in pulls.iter().cycle() {
                pull.recv(&mut msg, 0).unwrap();
                black_box(msg.len());
                if !rounds.go_on() {
                    break;
                }
            }
        },
    )
}

fn whole_rounds(count: u64, readers: usize) -> u64 {
    count.next_multiple_of(readers as u64)
}

/// Many systems allow few descriptors until they are asked for more.
pub(crate) fn raise_descriptors() {
    let _ = rlimit::increase_nofile_limit(u64::MAX);
}

fn live_timers() -> (ZLoop<'static, ()>, Vec<HandlerId>) {
    let mut zloop = ZLoop::new().unwrap();
    let mut timer = |i| {
        let delay = HOUR + Duration::from_millis(i as u64 % 977);
        zloop.timer(delay, Repeat::Forever, |_, _| Ok(())).unwrap()
    };
    let ids = (0..LIVE_TIMERS).map(&mut timer).collect();
    (zloop, ids)
}

fn insert_cancel(count: u64) -> Time {
    let (mut zloop, _) = live_timers();
    timed(|| {
        for _ in 0..count {
            let id = zloop.timer(HOUR, Repeat::Forever, |_, _| Ok(())).unwrap();
            assert!(zloop.cancel(id));
        }
    })
}

/// Not one beside the other, which memory would like.
fn reset(count: u64) -> Time {
    let (mut zloop, ids) = live_timers();
    timed(|| {
        for i in 0..count as usize {
            assert!(zloop.reset(ids[i * 7919 % LIVE_TIMERS]));
        }
    })
}

/// Two loops, each of which has the other one call it back.
struct Court {
    other: zkit::Waker<Court>,
    left: u64,
}

impl Court {
    fn play(count: u64, tell: &Sender<zkit::Waker<Court>>) -> ZLoop<'static, Court> {
        let zloop = ZLoop::new().unwrap();
        assert!(count > 0);
        tell.send(zloop.waker()).unwrap();
        zloop
    }

    fn new(count: u64, told: &Receiver<zkit::Waker<Court>>) -> Court {
        Court { other: told.recv().unwrap(), left: count }
    }

    fn hit(&mut self, zloop: &mut ZLoop<'_, Court>) -> zkit::Result<()> {
        self.left -= 1;
        if self.left == 0 {
            zloop.stop();
        }
        // After the last, the other one may be gone.
        let _ = self.other.post(Court::hit);
        Ok(())
    }
}

fn wake_up(count: u64) -> Time {
    let (tell_this, this) = channel();
    let (tell_other, other) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut zloop = Court::play(count, &tell_this);
            let mut court = Court::new(count, &other);
            zloop.run(&mut court).unwrap();
        });
        let mut zloop = Court::play(count, &tell_other);
        let mut court = Court::new(count, &this);
        timed(|| {
            court.other.post(Court::hit).unwrap();
            zloop.run(&mut court).unwrap();
        })
    })
}

/// mio's waker and poll, which are an eventfd and an epoll on Linux.
fn bare_wake_up(count: u64) -> Time {
    fn ends() -> (mio::Poll, mio::Waker) {
        let poll = mio::Poll::new().unwrap();
        let waker = mio::Waker::new(poll.registry(), mio::Token(0)).unwrap();
        (poll, waker)
    }
    fn wait(poll: &mut mio::Poll, events: &mut mio::Events) {
        poll.poll(events, None).unwrap();
        assert!(!events.is_empty());
    }
    let ((mut this, wake_this), (mut other, wake_other)) = (ends(), ends());
    thread::scope(|scope| {
        // Borrowed: a waker that is dropped takes its last event with it.
        let wake_this = &wake_this;
        scope.spawn(move || {
            let mut events = mio::Events::with_capacity(16);
            for _ in 0..count {
                wait(&mut other, &mut events);
                wake_this.wake().unwrap();
            }
        });
        let mut events = mio::Events::with_capacity(16);
        timed(|| {
            for _ in 0..count {
                wake_other.wake().unwrap();
                wait(&mut this, &mut events);
            }
        })
    })
}

/// A second per operation, in which nothing comes but the timer of that second.
fn idle<const READERS: usize>(count: u64) -> Time {
    raise_descriptors();
    let ctx = ZContext::builder().max_sockets(READERS as u32).build().unwrap();
    let mut zloop = ZLoop::new().unwrap();
    for _ in 0..READERS {
        zloop.reader(ctx.pull("").unwrap(), Left::on_message).unwrap();
    }
    zloop.turn(&mut Left(count), Some(Duration::ZERO)).unwrap();
    let beat = |left: &mut Left, zloop: &mut ZLoop<'_, Left>| {
        left.0 -= 1;
        if left.0 == 0 {
            zloop.stop();
        }
        Ok(())
    };
    zloop.timer(Duration::from_secs(1), Repeat::Forever, beat).unwrap();
    timed(|| assert_eq!(zloop.run(&mut Left(count)).unwrap(), Exit::Stopped))
}
