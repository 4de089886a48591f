//! `rzmq`: ZeroMQ in Rust on tokio, with actors behind its sockets. It has no PAIR and no proxy.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rzmq::socket::{AUTO_DELIMITER, LAST_ENDPOINT};
use rzmq::{Context, Msg, MsgFlags, Socket, SocketType};
use zkit_other_peers::shapes::{self, BODY, ONE, THREE, block_on};
use zkit_other_peers::{Peer, Workload, version_of};

fn main() -> ExitCode {
    zkit_other_peers::run(&Peer {
        versions: || format!("rzmq {}, tokio {}", version_of("rzmq"), version_of("tokio")),
        workloads: WORKLOADS,
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
    Workload::new("clone-1k", |count| clone(count, 1_000)),
    Workload::new("clone-1m", |count| clone(count, 1_000_000)),
    Workload::new("dispatch-1", |count| dispatch(count, 1)),
    Workload::new("dispatch-10", |count| dispatch(count, 10)),
    Workload::new("dispatch-100", |count| dispatch(count, 100)),
    Workload::new("dispatch-1000", |count| dispatch(count, 1_000)),
    Workload::new("all-busy-1000", |count| all_busy(count, 1_000)),
    Workload::new("idle-timers-0", |count| idle_timers(count, 0)),
    Workload::new("idle-timers-100", |count| idle_timers(count, 100)),
    Workload::new("idle-timers-10000", |count| idle_timers(count, 10_000)),
    Workload::new("idle-timers-1000000", |count| idle_timers(count, 1_000_000)),
    Workload::elsewhere("spqueue"),
    Workload::elsewhere("spqueue-cpu"),
];

const INPROC: &str = "inproc://messages";
const TCP: &str = "tcp://127.0.0.1:0";

/// All sockets of a context hear of each one that is made, bound or connected: 2,000 in one context
/// took 20 seconds.
const SOCKETS_OF_A_CONTEXT: usize = 20;

async fn send(socket: &Socket, frames: &'static [&[u8]]) {
    match frames {
        [frame] => socket.send(Msg::from_static(frame)).await,
        frames => {
            let frames = frames.iter().map(|frame| Msg::from_static(frame)).collect();
            socket.send_multipart(frames).await
        }
    }
    .unwrap();
}

async fn recv(socket: &Socket, frames: &[&[u8]]) -> usize {
    match frames {
        [_] => socket.recv().await.unwrap().size(),
        _ => socket.recv_multipart().await.unwrap().iter().map(Msg::size).sum(),
    }
}

/// A socket that is bound, and one that is connected to it.
async fn ends(bound: SocketType, connected: SocketType, endpoint: &str) -> (Socket, Socket) {
    let ctx = Context::new().unwrap();
    let (bound, connected) = (ctx.socket(bound).unwrap(), ctx.socket(connected).unwrap());
    bound.bind(endpoint).await.unwrap();
    let endpoint = if endpoint == TCP {
        String::from_utf8(bound.get_option(LAST_ENDPOINT).await.unwrap()).unwrap()
    } else {
        endpoint.to_owned()
    };
    connected.connect(&endpoint).await.unwrap();
    (bound, connected)
}

fn stream(count: u64, frames: &'static [&[u8]], endpoint: &str) -> Duration {
    block_on(async {
        let (push, pull) = ends(SocketType::Push, SocketType::Pull, endpoint).await;
        send(&push, frames).await;
        recv(&pull, frames).await; // it is connected
        let sending = async move {
            for _ in 0..count {
                send(&push, frames).await;
            }
            std::future::pending::<()>().await;
        };
        shapes::stream(count, frames, sending, async || recv(&pull, frames).await).await
    })
}

fn batch(count: u64, frames: &'static [&[u8]]) -> Duration {
    block_on(async {
        let (push, pull) = ends(SocketType::Push, SocketType::Pull, INPROC).await;
        let send = async || send(&push, frames).await;
        shapes::batch(count, frames, send, async || recv(&pull, frames).await).await
    })
}

fn req_rep(count: u64, endpoint: &str) -> Duration {
    block_on(async {
        let (server, client) = ends(SocketType::Rep, SocketType::Req, endpoint).await;
        let answering = async move {
            while let Ok(request) = server.recv().await {
                server.send(request).await.unwrap();
            }
        };
        let ask = async || {
            send(&client, ONE).await;
            recv(&client, ONE).await
        };
        shapes::ping_pong(count, answering, ask).await
    })
}

fn clone(count: u64, size: usize) -> Duration {
    let frame = Msg::from_vec(vec![b'x'; size]);
    shapes::repeat(count, || frame.clone())
}

fn contexts(sockets: usize) -> Vec<Context> {
    let contexts = sockets.div_ceil(SOCKETS_OF_A_CONTEXT);
    (0..contexts).map(|_| Context::new().unwrap()).collect()
}

/// Each bound to an endpoint of its own.
async fn pulls(contexts: &[Context], number: usize) -> Vec<Socket> {
    let mut pulls = Vec::new();
    for i in 0..number {
        let pull = contexts[i / SOCKETS_OF_A_CONTEXT].socket(SocketType::Pull).unwrap();
        pull.bind(&format!("inproc://{i}")).await.unwrap();
        pulls.push(pull);
    }
    pulls
}

fn dispatch(count: u64, sockets: usize) -> Duration {
    block_on(async {
        let mut idle = Vec::new();
        for pull in pulls(&contexts(sockets - 1), sockets - 1).await {
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
    let ctx = Context::new().unwrap();
    let pull = ctx.socket(SocketType::Pull).unwrap();
    pull.bind(INPROC).await.unwrap();
    let sender = async move || {
        let push = ctx.socket(SocketType::Push).unwrap();
        push.connect(INPROC).await.unwrap();
        async move || send(&push, ONE).await
    };
    shapes::beside(count, idle, sender, async || recv(&pull, ONE).await).await
}

fn all_busy(count: u64, sockets: usize) -> Duration {
    block_on(async {
        let contexts = contexts(sockets);
        let pulls = pulls(&contexts, sockets).await;
        let sender = async move || {
            let mut pushes = Vec::new();
            for i in 0..sockets {
                let ctx = &contexts[i / SOCKETS_OF_A_CONTEXT];
                let push = ctx.socket(SocketType::Push).unwrap();
                push.connect(&format!("inproc://{i}")).await.unwrap();
                pushes.push(push);
            }
            async move || {
                for push in &pushes {
                    send(push, ONE).await;
                }
            }
        };
        let receiving = |pull: Socket, rounds: Arc<shapes::Rounds>| async move {
            loop {
                assert_eq!(recv(&pull, ONE).await, BODY.len());
                rounds.go_on();
            }
        };
        shapes::all_busy(count, pulls, sender, receiving).await
    })
}

/// Of the guide: both sockets, of which the clients' takes part while there is a free worker, and a
/// message of each that has one.
async fn queue(frontend_at: &str, backend_at: &str) {
    let ctx = Context::new().unwrap();
    let router = async |endpoint| {
        let router = ctx.socket(SocketType::Router).unwrap();
        // The frames as they come and go on the wire.
        router.set_option(AUTO_DELIMITER, false).await.unwrap();
        router.bind(endpoint).await.unwrap();
        router
    };
    let (frontend, backend) = (router(frontend_at).await, router(backend_at).await);
    let mut workers = VecDeque::new();
    loop {
        tokio::select! {
            msg = backend.recv_multipart() => {
                // The worker, an empty frame, and READY or a client, an empty frame and a reply.
                let mut msg = msg.unwrap();
                let rest = msg.split_off(2);
                workers.extend(msg.into_iter().next());
                if rest.len() > 1 {
                    frontend.send_multipart(rest).await.unwrap();
                }
            }
            msg = frontend.recv_multipart(), if !workers.is_empty() => {
                let mut msg = msg.unwrap();
                let mut delimiter = Msg::new();
                delimiter.set_flags(MsgFlags::MORE); // a ROUTER does not see to that
                msg.splice(..0, [workers.pop_front().unwrap(), delimiter]);
                backend.send_multipart(msg).await.unwrap();
            }
        }
    }
}
