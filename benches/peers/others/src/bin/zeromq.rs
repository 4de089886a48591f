//! `zeromq`: ZeroMQ in Rust on tokio. It has no inproc, and no PAIR.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use zeromq::prelude::*;
use zeromq::{PullSocket, PushSocket, RepSocket, ReqSocket, RouterSocket, ZmqMessage};
use zkit_other_peers::shapes::{self, ONE, THREE, block_on};
use zkit_other_peers::{Peer, Workload, version_of};

fn main() -> ExitCode {
    zkit_other_peers::run(&Peer {
        versions: || format!("zeromq {}, tokio {}", version_of("zeromq"), version_of("tokio")),
        workloads: WORKLOADS,
        proxy: Some(|frontend, backend| block_on(proxy(frontend, backend))),
        queue: Some(|frontend, backend| block_on(queue(frontend, backend))),
    })
}

const WORKLOADS: &[Workload] = &[
    Workload::new("push-pull-3-tcp", stream),
    Workload::new("req-rep-tcp", req_rep),
    Workload::new("push-pop", push_pop),
    Workload::new("clone-1k", |count| clone(count, 1_000)),
    Workload::new("clone-1m", |count| clone(count, 1_000_000)),
    Workload::elsewhere("spqueue"),
    Workload::elsewhere("spqueue-cpu"),
    Workload::elsewhere("proxy"),
    Workload::elsewhere("proxy-cpu"),
    Workload::elsewhere("proxy-full-cpu"),
];

const TCP: &str = "tcp://127.0.0.1:0";

fn message(frames: &'static [&[u8]]) -> ZmqMessage {
    let frames: VecDeque<Bytes> = frames.iter().map(|frame| Bytes::from_static(frame)).collect();
    frames.try_into().unwrap()
}

fn size(msg: &ZmqMessage) -> usize {
    msg.iter().map(|frame| frame.len()).sum()
}

fn stream(count: u64) -> Duration {
    block_on(async {
        let (mut push, mut pull) = (PushSocket::new(), PullSocket::new());
        let endpoint = push.bind(TCP).await.unwrap();
        pull.connect(&endpoint.to_string()).await.unwrap();
        // It fails until there is somebody to send to.
        while push.send(message(THREE)).await.is_err() {
            tokio::task::yield_now().await;
        }
        pull.recv().await.unwrap();
        let sending = async move {
            for _ in 0..count {
                push.send(message(THREE)).await.unwrap();
            }
            // Without it the last ones would not be sent.
            std::future::pending::<()>().await;
        };
        let recv = async || size(&pull.recv().await.unwrap());
        shapes::stream(count, THREE, sending, recv).await
    })
}

fn req_rep(count: u64) -> Duration {
    block_on(async {
        let (mut client, mut server) = (ReqSocket::new(), RepSocket::new());
        let endpoint = server.bind(TCP).await.unwrap();
        client.connect(&endpoint.to_string()).await.unwrap();
        let answering = async move {
            while let Ok(request) = server.recv().await {
                server.send(request).await.unwrap();
            }
        };
        let ask = async || {
            client.send(message(ONE)).await.unwrap();
            size(&client.recv().await.unwrap())
        };
        shapes::ping_pong(count, answering, ask).await
    })
}

/// A message itself gives no frame away, but what is in it does.
fn push_pop(count: u64) -> Duration {
    let mut msg = message(THREE);
    shapes::repeat(count, || {
        msg.push_front(Bytes::from_static(THREE[0]));
        let mut frames =
            std::mem::replace(&mut msg, ZmqMessage::from(Bytes::new())).into_vecdeque();
        let frame = frames.pop_front();
        msg = frames.try_into().unwrap();
        frame
    })
}

fn clone(count: u64, size: usize) -> Duration {
    let frame = Bytes::from(vec![b'x'; size]);
    shapes::repeat(count, || frame.clone())
}

async fn proxy(frontend: &str, backend: &str) {
    let mut router = RouterSocket::new();
    router.bind(frontend).await.unwrap();
    let mut dealer = zeromq::DealerSocket::new();
    dealer.bind(backend).await.unwrap();
    zeromq::proxy(router, dealer, None).await.unwrap();
}

/// Of the guide: both sockets, of which the clients' takes part while there is a free worker, and a
/// message of each that has one.
async fn queue(frontend_at: &str, backend_at: &str) {
    let (mut frontend, mut backend) = (RouterSocket::new(), RouterSocket::new());
    frontend.bind(frontend_at).await.unwrap();
    backend.bind(backend_at).await.unwrap();
    let mut workers = VecDeque::new();
    loop {
        tokio::select! {
            msg = backend.recv() => {
                // The worker, an empty frame, and READY or a client, an empty frame and a reply.
                let mut frames = msg.unwrap().into_vecdeque();
                workers.extend(frames.pop_front());
                frames.pop_front();
                if frames.len() > 1 {
                    // It is an error that a client is gone, as all are at the end.
                    let _ = frontend.send(frames.try_into().unwrap()).await;
                }
            }
            msg = frontend.recv(), if !workers.is_empty() => {
                let mut msg = msg.unwrap();
                msg.push_front(Bytes::new());
                msg.push_front(workers.pop_front().unwrap());
                backend.send(msg).await.unwrap();
            }
        }
    }
}
