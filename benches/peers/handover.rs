//! Frames from one thread to a loop in another: through a pair of inproc sockets, or through a
//! bounded queue and a wake of the loop, as a gateway's threads may do it.

use std::thread;

use zkit::{Result, ZContext, ZFrame, ZLoop};

use crate::workload::{Time, Workload, timed};

/// What is on its way at most: libzmq's own two high-water marks together.
const ROOM: usize = 2000;
/// Frames that are there at once, before the loop is woken.
const BATCH: u64 = 16;
const BODY: &[u8] = &[b'x'; 64];

pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "handover-pipe",
        count: 1_000_000,
        pinned: true,
        zkit: |count| pipe(count).expect("inproc sockets work"),
        raw: None,
    },
    Workload {
        name: "handover-queue",
        count: 1_000_000,
        pinned: true,
        zkit: |count| queue(count).expect("a queue works"),
        raw: None,
    },
];

fn pipe(count: u64) -> Result<Time> {
    let ctx = ZContext::new()?;
    let near = ctx.pair("@inproc://handover")?;
    let far = ctx.pair(">inproc://handover")?;
    let mut zloop = ZLoop::new()?;
    zloop.reader(&near, move |left: &mut u64, zloop, _| {
        *left -= 1;
        if *left == 0 {
            zloop.stop();
        }
        Ok(())
    })?;
    let giving = move || (0..count).try_for_each(|_| Ok(far.send(ZFrame::new(BODY))?));
    take(count, zloop, giving)
}

fn queue(count: u64) -> Result<Time> {
    let (mut producer, mut consumer) = rtrb::RingBuffer::new(ROOM);
    let mut zloop = ZLoop::new()?;
    zloop.on_wake(move |left: &mut u64, zloop| {
        while consumer.pop().is_ok() {
            *left -= 1;
        }
        if *left == 0 {
            zloop.stop();
        }
        Ok(())
    });
    let waker = zloop.waker();
    let giving = move || {
        for number in 1..=count {
            let mut frame = ZFrame::new(BODY);
            while let Err(rtrb::PushError::Full(back)) = producer.push(frame) {
                frame = back;
                thread::yield_now();
            }
            if number % BATCH == 0 || number == count {
                waker.wake()?;
            }
        }
        Ok(())
    };
    take(count, zloop, giving)
}

fn take(
    count: u64,
    mut zloop: ZLoop<'_, u64>,
    give: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<Time> {
    let mut left = count;
    let mut ended = Ok(());
    let time = timed(|| {
        let giving = thread::spawn(give);
        ended = zloop.run(&mut left).map(drop);
        let given = giving.join().expect("it does not panic");
        if let Err(error) = given {
            ended = Err(error);
        }
    });
    ended.map(|()| time)
}
