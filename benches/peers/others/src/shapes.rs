//! The shapes of the workloads, on tokio. What in zkit's is a thread is a task here, and all tasks
//! share one thread, which is where they cost least on one core; only where the thread of the
//! receiver alone is timed, the sender has a thread and a runtime of its own.

use std::hint::black_box;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep};

use crate::Stopwatch;

/// An address, an empty delimiter and a body.
pub const THREE: &[&[u8]] = &[b"worker1", b"", BODY];
pub const ONE: &[&[u8]] = &[BODY];
pub const BODY: &[u8] = b"0123456789abcdef";

const BATCH: u64 = 500;
/// Until memory is warm.
const WARM_UP: u64 = 200;
const LIVE_TIMERS: usize = 1_000_000;
const HOUR: Duration = Duration::from_secs(3600);

/// On a runtime of this thread.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().expect("a runtime can be built").block_on(work)
}

fn size(frames: &[&[u8]]) -> usize {
    frames.iter().map(|frame| frame.len()).sum()
}

/// One task sends so many messages, and one receives them: the bytes of each.
pub async fn stream(
    count: u64,
    frames: &[&[u8]],
    sending: impl Future<Output = ()> + Send + 'static,
    mut recv: impl AsyncFnMut() -> usize,
) -> Duration {
    tokio::spawn(sending);
    let watch = Stopwatch::of_process();
    for _ in 0..count {
        assert_eq!(recv().await, size(frames));
    }
    watch.elapsed()
}

/// One task sends 500 messages and receives them, in turn.
pub async fn batch(
    count: u64,
    frames: &[&[u8]],
    mut send: impl AsyncFnMut(),
    mut recv: impl AsyncFnMut() -> usize,
) -> Duration {
    let mut pass = async |count| {
        for _ in 0..count {
            send().await;
        }
        for _ in 0..count {
            assert_eq!(recv().await, size(frames));
        }
    };
    pass(BATCH).await;
    let watch = Stopwatch::of_process();
    for _ in 0..count / BATCH {
        pass(BATCH).await;
    }
    pass(count % BATCH).await;
    watch.elapsed()
}

/// One task asks `BODY`, and one answers it for as long as it is asked.
pub async fn ping_pong(
    count: u64,
    answering: impl Future<Output = ()> + Send + 'static,
    mut ask: impl AsyncFnMut() -> usize,
) -> Duration {
    tokio::spawn(answering);
    for _ in 0..WARM_UP {
        ask().await;
    }
    let watch = Stopwatch::of_process();
    for _ in 0..count {
        assert_eq!(ask().await, BODY.len());
    }
    watch.elapsed()
}

/// One socket receives what another thread sends it, beside tasks that have nothing to do. `sender`
/// makes the socket that sends, and what sends once with it.
pub async fn beside<S: AsyncFnMut()>(
    count: u64,
    idle: impl IntoIterator<Item = impl Future<Output = ()> + Send + 'static>,
    sender: impl AsyncFnOnce() -> S + Send + 'static,
    mut recv: impl AsyncFnMut() -> usize,
) -> Duration {
    begin(idle).await;
    in_a_thread(sender, async move |mut send: S| {
        for _ in 0..count {
            send().await;
        }
    })
    .await;
    let watch = Stopwatch::of_thread();
    for _ in 0..count {
        assert_eq!(recv().await, BODY.len());
    }
    watch.elapsed()
}

/// Timers that have long to go.
pub fn timers(number: usize) -> impl Iterator<Item = Sleep> {
    (0..number).map(|_| sleep(HOUR))
}

/// Starts tasks, and waits until each of them waits.
async fn begin(tasks: impl IntoIterator<Item = impl Future<Output = ()> + Send + 'static>) {
    let begun = Arc::new(AtomicUsize::new(0));
    let mut number = 0;
    for task in tasks {
        number += 1;
        let begun = Arc::clone(&begun);
        tokio::spawn(async move {
            begun.fetch_add(1, Ordering::Relaxed);
            task.await;
        });
    }
    while begun.load(Ordering::Relaxed) < number {
        yield_now().await;
    }
}

/// Returns when the sender is made, and before it sends. It stays until the process ends: some
/// libraries deliver what was sent only while the sender's runtime is there.
async fn in_a_thread<S>(
    sender: impl AsyncFnOnce() -> S + Send + 'static,
    sending: impl AsyncFnOnce(S) + Send + 'static,
) {
    let (tell, told) = oneshot::channel();
    thread::spawn(move || {
        block_on(async {
            let sender = sender().await;
            tell.send(()).expect("the receiver waits for it");
            sending(sender).await;
            std::future::pending::<()>().await;
        });
    });
    told.await.expect("the sender can be made");
}

/// Every socket has one message in each round. Rounds are sent and read in turn, so that nobody waits
/// for a message, nor finds two.
pub struct Rounds {
    sockets: u64,
    left: AtomicU64,
    turn: Barrier,
    over: Notify,
}

impl Rounds {
    /// Another message was read.
    pub fn go_on(&self) {
        // No other thread writes it.
        let left = self.left.load(Ordering::Relaxed) - 1;
        self.left.store(left, Ordering::Relaxed);
        if left == 0 {
            self.over.notify_one();
        } else if left.is_multiple_of(self.sockets) {
            self.next();
        }
    }

    fn next(&self) {
        self.turn.wait();
        self.turn.wait();
    }
}

/// Each of these tasks receives on a socket of its own, and tells `Rounds` of each message. What
/// `sender` makes sends one to each.
pub async fn all_busy<T: Future<Output = ()> + Send + 'static, R, S: AsyncFnMut()>(
    count: u64,
    sockets: Vec<R>,
    sender: impl AsyncFnOnce() -> S + Send + 'static,
    receiving: impl Fn(R, Arc<Rounds>) -> T,
) -> Duration {
    let number = sockets.len() as u64;
    let messages = count.next_multiple_of(number);
    let rounds = Arc::new(Rounds {
        sockets: number,
        left: AtomicU64::new(messages),
        turn: Barrier::new(2),
        over: Notify::new(),
    });
    begin(sockets.into_iter().map(|socket| receiving(socket, Arc::clone(&rounds)))).await;
    let theirs = Arc::clone(&rounds);
    in_a_thread(sender, async move |mut send: S| {
        for _ in 0..messages / number {
            theirs.turn.wait();
            send().await;
            theirs.turn.wait();
        }
    })
    .await;
    let watch = Stopwatch::of_thread();
    rounds.next();
    rounds.over.notified().await;
    // The rounds are whole ones: of the time of as many messages as were asked for.
    watch.elapsed().mul_f64(count as f64 / messages as f64)
}

/// Does this again and again; what it results in is dropped within the time.
pub fn repeat<T>(count: u64, mut op: impl FnMut() -> T) -> Duration {
    let watch = Stopwatch::of_process();
    for _ in 0..count {
        black_box(op());
    }
    watch.elapsed()
}

// tokio itself, which is the reactor of all of these libraries.

async fn live_timers() -> Vec<Pin<Box<Sleep>>> {
    let mut live = Vec::with_capacity(LIVE_TIMERS);
    for i in 0..LIVE_TIMERS {
        let mut timer = Box::pin(sleep(HOUR + Duration::from_millis(i as u64 % 977)));
        register(timer.as_mut()).await;
        live.push(timer);
    }
    live
}

/// A timer is among the others from its first poll.
async fn register(mut timer: Pin<&mut Sleep>) {
    std::future::poll_fn(|context| {
        assert!(timer.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// The timer alone, and no task that waits for it.
pub fn insert_cancel(count: u64) -> Duration {
    block_on(async {
        let _live = live_timers().await;
        let watch = Stopwatch::of_process();
        for _ in 0..count {
            register(std::pin::pin!(sleep(HOUR))).await;
        }
        watch.elapsed()
    })
}

/// Not one beside the other, which memory would like.
pub fn reset(count: u64) -> Duration {
    block_on(async {
        let mut live = live_timers().await;
        let watch = Stopwatch::of_process();
        for i in 0..count as usize {
            live[i * 7919 % LIVE_TIMERS].as_mut().reset(Instant::now() + HOUR);
        }
        watch.elapsed()
    })
}

/// Two runtimes in two threads, each of which has the other one wake it.
pub fn wake_up(count: u64) -> Duration {
    let (this, other) = (&Notify::new(), &Notify::new());
    thread::scope(|scope| {
        scope.spawn(move || {
            block_on(async {
                for _ in 0..count {
                    other.notified().await;
                    this.notify_one();
                }
            });
        });
        block_on(async {
            let watch = Stopwatch::of_process();
            for _ in 0..count {
                other.notify_one();
                this.notified().await;
            }
            watch.elapsed()
        })
    })
}
