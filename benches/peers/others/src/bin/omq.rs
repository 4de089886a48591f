//! `omq-tokio`: ZeroMQ in Rust on tokio.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use omq::{Endpoint, Message, Options, Payload, Proxy, Socket, SocketType};
use zkit_other_peers::shapes::{self, BODY, ONE, THREE, block_on};
use zkit_other_peers::{Peer, Workload, free_tcp, version_of};

fn main() -> ExitCode {
    zkit_other_peers::run(&Peer {
        versions: || {
            format!("omq-tokio {}, tokio {}", version_of("omq-tokio"), version_of("tokio"))
        },
        workloads: WORKLOADS,
        proxy: Some(|frontend, backend| block_on(proxy(frontend, backend))),
        queue: Some(|frontend, backend| block_on(queue(frontend, backend))),
    })
}

const WORKLOADS: &[Workload] = &[
    Workload::new("push-pull-3-stream", |count| stream(count, THREE, INPROC)),
    Workload::new("push-pull-3-batch", |count| batch(count, THREE)),
    Workload::new("push-pull-1-stream", |count| stream(count, ONE, INPROC)),
    Workload::new("push-pull-1-batch", |count| batch(count, ONE)),
    Workload::new("push-pull-3-tcp", |count| stream(count, THREE, &free_tcp())),
    Workload::new("req-rep-inproc", |count| {
        ping_pong(count, SocketType::Rep, SocketType::Req, INPROC)
    }),
    Workload::new("req-rep-tcp", |count| {
        ping_pong(count, SocketType::Rep, SocketType::Req, &free_tcp())
    }),
    Workload::new("pair-inproc", |count| {
        ping_pong(count, SocketType::Pair, SocketType::Pair, INPROC)
    }),
    Workload::new("pair-tcp", |count| {
        ping_pong(count, SocketType::Pair, SocketType::Pair, &free_tcp())
    }),
    Workload::new("push-pop", push_pop),
    Workload::new("clone-1k", |count| clone(count, 1_000)),
    Workload::new("clone-1m", |count| clone(count, 1_000_000)),
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
    Workload::elsewhere("spqueue"),
    Workload::elsewhere("spqueue-cpu"),
    Workload::elsewhere("proxy"),
    Workload::elsewhere("proxy-cpu"),
    Workload::elsewhere("proxy-full-cpu"),
];

const INPROC: &str = "inproc://messages";
const LONG: Duration = Duration::from_secs(5);

fn message(frames: &'static [&[u8]]) -> Message {
    match frames {
        [frame] => Message::from(*frame),
        frames => Message::multipart(frames.iter().map(|frame| Bytes::from_static(frame))),
    }
}

/// On the runtime of the thread that calls this.
fn socket(kind: SocketType) -> Socket {
    Socket::new(kind, Options::default())
}

async fn bound(kind: SocketType, endpoint: &str) -> Socket {
    let socket = socket(kind);
    socket.bind(endpoint.parse::<Endpoint>().unwrap()).await.unwrap();
    socket
}

/// Returns when it is there.
async fn connected(kind: SocketType, endpoint: &str) -> Socket {
    let socket = socket(kind);
    socket.connect(endpoint.parse::<Endpoint>().unwrap()).await.unwrap();
    socket.wait_connected(1, LONG).await.unwrap();
    socket
}

async fn recv(socket: &Socket) -> usize {
    socket.recv().await.unwrap().byte_len()
}

fn stream(count: u64, frames: &'static [&[u8]], endpoint: &str) -> Duration {
    block_on(async {
        let push = bound(SocketType::Push, endpoint).await;
        let pull = connected(SocketType::Pull, endpoint).await;
        let sending = async move {
            for _ in 0..count {
                push.send(message(frames)).await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        shapes::stream(count, frames, sending, async || recv(&pull).await).await
    })
}

fn batch(count: u64, frames: &'static [&[u8]]) -> Duration {
    block_on(async {
        let push = bound(SocketType::Push, INPROC).await;
        let pull = connected(SocketType::Pull, INPROC).await;
        let send = async || push.send(message(frames)).await.unwrap();
        shapes::batch(count, frames, send, async || recv(&pull).await).await
    })
}

fn ping_pong(count: u64, server: SocketType, client: SocketType, endpoint: &str) -> Duration {
    block_on(async {
        let server = bound(server, endpoint).await;
        let client = connected(client, endpoint).await;
        let answering = async move {
            while let Ok(request) = server.recv().await {
                server.send(request).await.unwrap();
            }
        };
        let ask = async || {
            client.send(message(ONE)).await.unwrap();
            recv(&client).await
        };
        shapes::ping_pong(count, answering, ask).await
    })
}

fn push_pop(count: u64) -> Duration {
    let mut msg = message(THREE);
    shapes::repeat(count, || {
        let rest = std::mem::take(&mut msg);
        msg = Message::with_prefix(Bytes::from_static(THREE[0]), rest);
        msg.pop_front_payload()
    })
}

fn clone(count: u64, size: usize) -> Duration {
    let frame = Payload::from(vec![b'x'; size]);
    shapes::repeat(count, || frame.clone())
}

fn dispatch(count: u64, sockets: usize) -> Duration {
    block_on(async {
        let mut idle = Vec::new();
        for i in 1..sockets {
            let pull = bound(SocketType::Pull, &format!("inproc://{i}")).await;
            idle.push(async move { _ = pull.recv().await });
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
    let pull = bound(SocketType::Pull, INPROC).await;
    let sender = async move || {
        let push = connected(SocketType::Push, INPROC).await;
        async move || push.send(message(ONE)).await.unwrap()
    };
    shapes::beside(count, idle, sender, async || recv(&pull).await).await
}

fn all_busy(count: u64, sockets: usize) -> Duration {
    block_on(async {
        let mut pulls = Vec::new();
        for i in 0..sockets {
            pulls.push(bound(SocketType::Pull, &format!("inproc://{i}")).await);
        }
        let sender = async move || {
            let mut pushes = Vec::new();
            for i in 0..sockets {
                pushes.push(connected(SocketType::Push, &format!("inproc://{i}")).await);
            }
            async move || {
                for push in &pushes {
                    push.send(message(ONE)).await.unwrap();
                }
            }
        };
        let receiving = |pull: Socket, rounds: Arc<shapes::Rounds>| async move {
            loop {
                assert_eq!(recv(&pull).await, BODY.len());
                rounds.go_on();
            }
        };
        shapes::all_busy(count, pulls, sender, receiving).await
    })
}

async fn proxy(frontend: &str, backend: &str) {
    let router = bound(SocketType::Router, frontend).await;
    let dealer = bound(SocketType::Dealer, backend).await;
    Proxy::new(router, dealer).run().await.unwrap();
}

/// Of the guide: both sockets, of which the clients' takes part while there is a free worker, and a
/// message of each that has one.
async fn queue(frontend_at: &str, backend_at: &str) {
    let frontend = bound(SocketType::Router, frontend_at).await;
    let backend = bound(SocketType::Router, backend_at).await;
    let mut workers = VecDeque::new();
    loop {
        tokio::select! {
            msg = backend.recv() => {
                // The worker, an empty frame, and READY or a client, an empty frame and a reply.
                let mut msg = msg.unwrap();
                workers.extend(msg.pop_front_payload());
                msg.pop_front_payload();
                if msg.len() > 1 {
                    frontend.send(msg).await.unwrap();
                }
            }
            msg = frontend.recv(), if !workers.is_empty() => {
                let worker = workers.pop_front().unwrap();
                let request = Message::with_prefix(Bytes::new(), msg.unwrap());
                backend.send_to(worker.as_slice(), request).await.unwrap();
            }
        }
    }
}
