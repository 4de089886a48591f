use std::fmt;

/// What kind of socket: the messaging pattern that it takes part in.
///
/// | type | `send` takes | `recv` gives | without a peer or room, `send` |
/// |---|---|---|---|
/// | PAIR | the message | the message | waits |
/// | PUB | the message; its first frame begins with the topic | – | drops it for who has no room |
/// | SUB | – | the message | – |
/// | REQ | the request | the reply | waits |
/// | REP | the reply | the request | drops it |
/// | DEALER | the message | the message | waits |
/// | ROUTER | the peer's identity, the message | the peer's identity, the message | drops it, unless [told not to](crate::ZSock::set_router_mandatory) |
/// | PUSH | the message | – | waits |
/// | PULL | – | the message | – |
/// | XPUB | as PUB | one frame: the byte 1 (subscribed) or 0 (no more), and the prefix | as PUB |
/// | XSUB | one frame: the byte 1 or 0, and the prefix | the message | keeps it for peers to come |
/// | STREAM | the peer's identity, bytes | the peer's identity, bytes; none when it comes or goes | fails without a peer, waits without room |
///
/// Between a REQ and a ROUTER there is an empty delimiter before the message, which the REQ puts on
/// and takes off and the ROUTER leaves to the program: see [`ZMsg::unwrap`](crate::ZMsg::unwrap).
/// Who may talk to whom is in [the guide](crate::guide::choosing#who-may-talk-to-whom).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SocketType {
    /// One peer, both ways: how two threads talk (RFC 31).
    #[doc(alias = "ZMQ_PAIR")]
    Pair,
    /// Sends to all subscribers; drops what a slow one cannot take (RFC 29).
    #[doc(alias = "ZMQ_PUB")]
    Pub,
    /// Receives what it subscribed to (RFC 29).
    #[doc(alias = "ZMQ_SUB")]
    Sub,
    /// Sends a request, then receives its reply, in turn (RFC 28).
    #[doc(alias = "ZMQ_REQ")]
    Req,
    /// Receives a request, then sends its reply, in turn (RFC 28).
    #[doc(alias = "ZMQ_REP")]
    Rep,
    /// Sends round robin and receives fairly from all, not in turn (RFC 28).
    #[doc(alias = "ZMQ_DEALER")]
    Dealer,
    /// Receives with the sender's identity in front, and sends to the peer named in front (RFC 28).
    #[doc(alias = "ZMQ_ROUTER")]
    Router,
    /// Receives from all PUSH peers fairly (RFC 30).
    #[doc(alias = "ZMQ_PULL")]
    Pull,
    /// Sends round robin to PULL peers (RFC 30).
    #[doc(alias = "ZMQ_PUSH")]
    Push,
    /// A PUB that receives its subscribers' subscriptions (RFC 29).
    #[doc(alias = "ZMQ_XPUB")]
    XPub,
    /// A SUB that sends its subscriptions as messages (RFC 29).
    #[doc(alias = "ZMQ_XSUB")]
    XSub,
    /// Talks to plain TCP peers, by identity as a ROUTER does.
    #[doc(alias = "ZMQ_STREAM")]
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

    /// The name as ZeroMQ spells it, such as `"ROUTER"`. `Display` writes it, too.
    #[doc(alias("zsock_type_str", "zsocket_type_str"))]
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
