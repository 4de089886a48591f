//! `tmq`: libzmq's sockets as streams and sinks of tokio. It also has the workloads that are tokio
//! alone.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt, Stream, StreamExt};
use tmq::pair::Pair;
use tmq::pull::Pull;
use tmq::push::Push;
use tmq::{AsZmqSocket, Context, Message, Multipart};
use zkit_engine as _;
use zkit_other_peers::shapes::{self, BODY, ONE, THREE, block_on};
use zkit_other_peers::{Peer, Workload, version_of};

fn main() -> ExitCode {
    zkit_other_peers::run(&Peer {
        versions: || {
            let (major, minor, patch) = zmq::version();
            let (tmq, tokio) = (version_of("tmq"), version_of("tokio"));
            format!("tmq {tmq}, libzmq {major}.{minor}.{patch}, tokio {tokio}")
        },
        workloads: WORKLOADS,
        // Its documentation sends whoever wants a fast one to `zmq::proxy`, which is zkit's raw peer.
        proxy: None,
        queue: Some(|frontend, backend| block_on(queue(frontend, backend))),
    })
}

const WORKLOADS: &[Workload] = &[
    Workload::new("push-pull-3-stream", |count| stream(count, THREE, INPROC)),
    Workload::new("push-pull-3-batch", |count| batch(count, THREE)),
    Workload::new("push-pull-1-stream", |count| stream(count, ONE, INPROC)),
    Workload::new("push-pull-1-batch", |count| batch(count, ONE)),
    Workload::new("push-pull-3-tcp", |count| stream(count, THREE, TCP)),
    Workload::new("req-rep-inproc", |count| req_rep(count, INPROC)),
    Workload::new("req-rep-tcp", |count| req_rep(count, TCP)),
    Workload::new("pair-inproc", |count| pair(count, INPROC)),
    Workload::new("pair-tcp", |count| pair(count, TCP)),
    Workload::new("push-pop", push_pop),
    Workload::new("dispatch-1", |count| dispatch(count, 1)),
    Workload::new("dispatch-10", |count| dispatch(count, 10)),
    Workload::new("dispatch-100", |count| dispatch(count, 100)),
    Workload::new("dispatch-1000", |count| dispatch(count, 1_000)),
    Workload::new("dispatch-9000", |count| dispatch(count, 9_000)),
    Workload::new("all-busy-1000", |count| all_busy(count, 1_000)),
    Workload::new("idle-timers-0", |count| idle_timers(count, 0)),
    Workload::new("idle-timers-100", |count| idle_timers(count, 100)),
    Workload::new("idle-timers-10000", |count| idle_timers(count, 10_000)),
    Workload::new("idle-timers-1000000", |count| idle_timers(count, 1_000_000)),
    Workload::new("timer-insert-cancel", shapes::insert_cancel),
    Workload::new("timer-reset", shapes::reset),
    Workload::new("wake-up", shapes::wake_up),
    Workload::elsewhere("spqueue"),
    Workload::elsewhere("spqueue-cpu"),
    Workload::elsewhere("spqueue-loop-cpu"),
];

const INPROC: &str = "inproc://messages";
const TCP: &str = "tcp://127.0.0.1:*";

/// Messages that a PULL reads at once. With 16 to 1,000 a message costs a quarter less than without a
/// buffer.
const BUFFERED: usize = 128;

/// The crate cannot make a context with room for more than 1023 sockets.
const SOCKETS_OF_A_CONTEXT: usize = 500;

fn message(frames: &[&[u8]]) -> Multipart {
    frames.iter().map(|&frame| Message::from(frame)).collect()
}

fn size(msg: &Multipart) -> usize {
    msg.iter().map(|frame| frame.len()).sum()
}

trait Messages: Stream<Item = tmq::Result<Multipart>> + Unpin {}

impl<T: Stream<Item = tmq::Result<Multipart>> + Unpin> Messages for T {}

fn endpoint(bound: &impl AsZmqSocket) -> String {
    bound.get_socket().get_last_endpoint().unwrap().unwrap()
}

fn ends(endpoint_of_push: &str) -> (Push, impl Messages) {
    let ctx = Context::new();
    let push = tmq::push(&ctx).bind(endpoint_of_push).unwrap();
    let pull = tmq::pull(&ctx).connect(&endpoint(&push)).unwrap();
    (push, pull.buffered(BUFFERED))
}

async fn recv(pull: &mut impl Messages) -> usize {
    size(&pull.next().await.unwrap().unwrap())
}

fn stream(count: u64, frames: &'static [&[u8]], endpoint: &str) -> Duration {
    block_on(async {
        let (mut push, mut pull) = ends(endpoint);
        push.send(message(frames)).await.unwrap();
        recv(&mut pull).await; // it is connected
        let sending = async move {
            for _ in 0..count {
                push.send(message(frames)).await.unwrap();
            }
        };
        shapes::stream(count, frames, sending, async || recv(&mut pull).await).await
    })
}

fn batch(count: u64, frames: &[&[u8]]) -> Duration {
    block_on(async {
        let (mut push, mut pull) = ends(INPROC);
        let send = async || push.send(message(frames)).await.unwrap();
        shapes::batch(count, frames, send, async || recv(&mut pull).await).await
    })
}

fn req_rep(count: u64, endpoint_of_rep: &str) -> Duration {
    block_on(async {
        let ctx = Context::new();
        let mut server = tmq::reply(&ctx).bind(endpoint_of_rep).unwrap();
        let client = tmq::request(&ctx).connect(&endpoint(&server)).unwrap();
        let answering = async move {
            while let Ok((request, sender)) = server.recv().await {
                server = sender.send(request).await.unwrap();
            }
        };
        let mut client = Some(client);
        let ask = async || {
            let receiver = client.take().unwrap().send(message(ONE)).await.unwrap();
            let (reply, sender) = receiver.recv().await.unwrap();
            client = Some(sender);
            size(&reply)
        };
        shapes::ping_pong(count, answering, ask).await
    })
}

fn pair(count: u64, endpoint_of_server: &str) -> Duration {
    block_on(async {
        let ctx = Context::new();
        let mut server: Pair = tmq::pair(&ctx).bind(endpoint_of_server).unwrap();
        let mut client = tmq::pair(&ctx).connect(&endpoint(&server)).unwrap();
        let answering = async move {
            while let Some(Ok(request)) = server.next().await {
                server.send(request).await.unwrap();
            }
        };
        let ask = async || {
            client.send(message(ONE)).await.unwrap();
            size(&client.next().await.unwrap().unwrap())
        };
        shapes::ping_pong(count, answering, ask).await
    })
}

fn push_pop(count: u64) -> Duration {
    let mut msg = message(THREE);
    shapes::repeat(count, || {
        msg.push_front(Message::from("worker1"));
        msg.pop_front()
    })
}

fn dispatch(count: u64, sockets: usize) -> Duration {
    block_on(async {
        let mut idle = Vec::new();
        let mut contexts = Vec::new();
        for i in 1..sockets {
            if contexts.len() * SOCKETS_OF_A_CONTEXT < i {
                contexts.push(Context::new());
            }
            let ctx = contexts.last().unwrap();
            let mut pull = tmq::pull(ctx).bind(&format!("inproc://{i}")).unwrap();
            idle.push(async move { _ = pull.next().await });
        }
        one_busy(count, idle).await
    })
}

fn idle_timers(count: u64, timers: usize) -> Duration {
    block_on(async { one_busy(count, shapes::timers(timers)).await })
}

/// One busy socket beside others that are idle.
async fn one_busy(
    count: u64,
    idle: impl IntoIterator<Item = impl Future<Output = ()> + Send + 'static>,
) -> Duration {
    let ctx = Context::new();
    let mut pull = tmq::pull(&ctx).bind(INPROC).unwrap().buffered(BUFFERED);
    let sender = async move || {
        let mut push = tmq::push(&ctx).connect(INPROC).unwrap();
        async move || push.send(message(ONE)).await.unwrap()
    };
    shapes::beside(count, idle, sender, async || recv(&mut pull).await).await
}

fn all_busy(count: u64, sockets: usize) -> Duration {
    block_on(async {
        let contexts: Arc<Vec<Context>> =
            Arc::new((0..sockets.div_ceil(SOCKETS_OF_A_CONTEXT)).map(|_| Context::new()).collect());
        let pulls = (0..sockets).map(|i| {
            let ctx = &contexts[i / SOCKETS_OF_A_CONTEXT];
            tmq::pull(ctx).bind(&format!("inproc://{i}")).unwrap()
        });
        let pulls = pulls.collect();
        let sender = async move || {
            let pushes = (0..sockets).map(|i| {
                let ctx = &contexts[i / SOCKETS_OF_A_CONTEXT];
                tmq::push(ctx).connect(&format!("inproc://{i}")).unwrap()
            });
            let mut pushes: Vec<Push> = pushes.collect();
            async move || {
                for push in &mut pushes {
                    push.send(message(ONE)).await.unwrap();
                }
            }
        };
        let receiving = |mut pull: Pull, rounds: Arc<shapes::Rounds>| async move {
            loop {
                assert_eq!(recv(&mut pull).await, BODY.len());
                rounds.go_on();
            }
        };
        shapes::all_busy(count, pulls, sender, receiving).await
    })
}

/// Of the guide: both sockets, of which the clients' takes part while there is a free worker, and a
/// message of each that has one.
async fn queue(frontend: &str, backend: &str) {
    let ctx = Context::new();
    let mut frontend = tmq::router(&ctx).bind(frontend).unwrap();
    let mut backend = tmq::router(&ctx).bind(backend).unwrap();
    let mut workers = VecDeque::new();
    loop {
        tokio::select! {
            Some(msg) = backend.next() => {
                // The worker, an empty frame, and READY or a client, an empty frame and a reply.
                let mut msg = msg.unwrap();
                workers.extend(msg.pop_front());
                msg.pop_front();
                if msg.len() > 1 {
                    frontend.send(msg).await.unwrap();
                }
            }
            Some(msg) = frontend.next(), if !workers.is_empty() => {
                let mut msg = msg.unwrap();
                msg.push_front(Message::new());
                msg.push_front(workers.pop_front().unwrap());
                backend.send(msg).await.unwrap();
            }
        }
    }
}
