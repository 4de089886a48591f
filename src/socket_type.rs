use std::fmt;

/// What kind of socket: the messaging pattern that it takes part in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SocketType {
    /// One peer, both ways: how two threads talk.
    Pair,
    /// Sends to all subscribers; drops what a slow one cannot take.
    Pub,
    /// Receives what it subscribed to.
    Sub,
    /// Sends a request, then receives its reply, in turn.
    Req,
    /// Receives a request, then sends its reply, in turn.
    Rep,
    /// Sends round robin and receives fairly from all, without an order.
    Dealer,
    /// Receives with the sender's identity in front, and sends to the peer named in front.
    Router,
    /// Receives from all PUSH peers fairly.
    Pull,
    /// Sends round robin to PULL peers.
    Push,
    /// A PUB that receives its subscribers' subscriptions.
    XPub,
    /// A SUB that sends its subscriptions as messages.
    XSub,
    /// Talks to plain TCP peers, by identity as a ROUTER does.
    Stream,
}

impl SocketType {
    const ALL: [(SocketType, u32, &'static str); 12] = [
        (SocketType::Pair, zmq_sys::ZMQ_PAIR, "PAIR"),
        (SocketType::Pub, zmq_sys::ZMQ_PUB, "PUB"),
        (SocketType::Sub, zmq_sys::ZMQ_SUB, "SUB"),
        (SocketType::Req, zmq_sys::ZMQ_REQ, "REQ"),
        (SocketType::Rep, zmq_sys::ZMQ_REP, "REP"),
        (SocketType::Dealer, zmq_sys::ZMQ_DEALER, "DEALER"),
        (SocketType::Router, zmq_sys::ZMQ_ROUTER, "ROUTER"),
        (SocketType::Pull, zmq_sys::ZMQ_PULL, "PULL"),
        (SocketType::Push, zmq_sys::ZMQ_PUSH, "PUSH"),
        (SocketType::XPub, zmq_sys::ZMQ_XPUB, "XPUB"),
        (SocketType::XSub, zmq_sys::ZMQ_XSUB, "XSUB"),
        (SocketType::Stream, zmq_sys::ZMQ_STREAM, "STREAM"),
    ];

    /// The name as ZeroMQ spells it, such as `"ROUTER"`.
    pub fn name(self) -> &'static str {
        SocketType::ALL[self as usize].2
    }

    pub(crate) fn receives(self) -> bool {
        !matches!(self, SocketType::Push | SocketType::Pub)
    }

    pub(crate) fn sends(self) -> bool {
        !matches!(self, SocketType::Pull | SocketType::Sub)
    }

    /// Whether a socket that is ready for output has room for any message. Others are always
    /// ready, since they drop, or wait, for one of their peers only.
    pub(crate) fn tells_room(self) -> bool {
        let per_peer = [SocketType::Router, SocketType::Stream, SocketType::Pub, SocketType::XPub];
        !per_peer.contains(&self)
    }

    pub(crate) fn raw(self) -> u32 {
        SocketType::ALL[self as usize].1
    }

    pub(crate) fn from_raw(raw: i32) -> Option<SocketType> {
        SocketType::ALL.iter().find(|row| row.1 as i32 == raw).map(|row| row.0)
    }
}

impl fmt::Display for SocketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
