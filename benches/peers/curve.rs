//! Messages of 100 bytes over TCP from a PUSH to a PULL, encrypted, and the same in the clear.
//!
//! Ciphering is libzmq's, in its I/O threads. One of them serves each side here, as it would in two
//! processes.

use zkit::{SocketType, ZCert, ZContext, ZSock};

use crate::messages::stream;
use crate::workload::{Time, Workload};

const BODY: &[u8] = &[b'x'; 100];

const ENCRYPTED: &str = "curve";

pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        name: ENCRYPTED,
        count: 200_000,
        pinned: true,
        zkit: |count| zkit(count, true),
        raw: Some(|count| raw(count, true)),
    },
    Workload {
        name: "curve-off",
        count: 500_000,
        pinned: true,
        zkit: |count| zkit(count, false),
        raw: Some(|count| raw(count, false)),
    },
];

/// Only some builds of libzmq can do it.
pub(crate) fn is_encrypted(workload: &Workload) -> bool {
    workload.name == ENCRYPTED
}

fn zkit(count: u64, secure: bool) -> Time {
    let (ctx, clients) = (ZContext::new().unwrap(), ZContext::new().unwrap());
    let pull = ctx.socket(SocketType::Pull).unwrap();
    let push = clients.socket(SocketType::Push).unwrap();
    if secure {
        let cert = ZCert::new().unwrap();
        cert.apply(&pull).unwrap();
        pull.set_curve_server(true).unwrap();
        ZCert::new().unwrap().apply(&push).unwrap();
        push.set_curve_serverkey(cert.public_key()).unwrap();
    }
    push.connect(&pull.bind("tcp://127.0.0.1:*").unwrap()).unwrap();
    let send = |push: &ZSock| push.send(BODY).unwrap();
    let recv = |pull: &ZSock| pull.recv().unwrap().content_size();
    // When it is here the handshake is over.
    send(&push);
    recv(&pull);
    stream(count, (push, pull), send, recv)
}

fn raw(count: u64, secure: bool) -> Time {
    let (ctx, clients) = (zmq::Context::new(), zmq::Context::new());
    let (pull, push) = (ctx.socket(zmq::PULL).unwrap(), clients.socket(zmq::PUSH).unwrap());
    if secure {
        let keys = zmq::CurveKeyPair::new().unwrap();
        pull.set_curve_server(true).unwrap();
        pull.set_curve_secretkey(&keys.secret_key).unwrap();
        push.set_curve_serverkey(&keys.public_key).unwrap();
        let keys = zmq::CurveKeyPair::new().unwrap();
        push.set_curve_publickey(&keys.public_key).unwrap();
        push.set_curve_secretkey(&keys.secret_key).unwrap();
    }
    pull.bind("tcp://127.0.0.1:*").unwrap();
    push.connect(&pull.get_last_endpoint().unwrap().unwrap()).unwrap();
    let send = |push: &zmq::Socket| push.send(BODY, 0).unwrap();
    let mut frame = zmq::Message::new();
    let mut recv = move |pull: &zmq::Socket| {
        pull.recv(&mut frame, 0).unwrap();
        frame.len()
    };
    send(&push);
    recv(&pull);
    stream(count, (push, pull), send, recv)
}
