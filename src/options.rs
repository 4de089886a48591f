//! The options of a socket: one line of the table below each, typed.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::engine::require;
use crate::error::{Errno, Error, Reason, Result};
use crate::ffi::{self, RawSocket, millis};
use crate::socket::{Timeouts, ZSock};

/// How an option's value goes to libzmq and comes back.
trait Kind<Value> {
    fn get(socket: &RawSocket, option: u32) -> Result<Value, Errno>;
    fn set(socket: &RawSocket, option: u32, value: Value) -> Result<(), Reason>;
}

/// A C `int` of 0 or 1.
struct Flag;

impl Kind<bool> for Flag {
    fn get(socket: &RawSocket, option: u32) -> Result<bool, Errno> {
        socket.get_int(option).map(|value| value != 0)
    }

    fn set(socket: &RawSocket, option: u32, value: bool) -> Result<(), Reason> {
        Ok(socket.set_int(option, value.into())?)
    }
}

/// A C `int` of 0, 1, or -1 for what the system does.
struct FlagOrSystem;

impl Kind<Option<bool>> for FlagOrSystem {
    fn get(socket: &RawSocket, option: u32) -> Result<Option<bool>, Errno> {
        socket.get_int(option).map(|value| (value >= 0).then_some(value != 0))
    }

    fn set(socket: &RawSocket, option: u32, value: Option<bool>) -> Result<(), Reason> {
        Ok(socket.set_int(option, value.map_or(-1, i32::from))?)
    }
}

/// A C `int` that is a number, not negative.
struct Number;

impl Kind<u32> for Number {
    fn get(socket: &RawSocket, option: u32) -> Result<u32, Errno> {
        socket.get_int(option).map(|value| value.max(0) as u32)
    }

    fn set(socket: &RawSocket, option: u32, value: u32) -> Result<(), Reason> {
        Ok(socket.set_int(option, int(value)?)?)
    }
}

/// A C `int` that is a number, or `OFF` for none.
struct NumberOr<const OFF: i32>;

impl<const OFF: i32> Kind<Option<u32>> for NumberOr<OFF> {
    fn get(socket: &RawSocket, option: u32) -> Result<Option<u32>, Errno> {
        socket.get_int(option).map(|value| (value != OFF).then_some(value.max(0) as u32))
    }

    fn set(socket: &RawSocket, option: u32, value: Option<u32>) -> Result<(), Reason> {
        let value = value.map(|value| not_off(int(value)?, OFF)).transpose()?;
        Ok(socket.set_int(option, value.unwrap_or(OFF))?)
    }
}

/// A C `int` of milliseconds.
struct Millis;

impl Kind<Duration> for Millis {
    fn get(socket: &RawSocket, option: u32) -> Result<Duration, Errno> {
        socket.get_int(option).map(|value| Duration::from_millis(value.max(0) as u64))
    }

    fn set(socket: &RawSocket, option: u32, value: Duration) -> Result<(), Reason> {
        Ok(socket.set_int(option, millis(value)?)?)
    }
}

/// A C `int` of milliseconds, or -1 for none. libzmq takes 0 for none as well.
struct MillisNotZero;

impl Kind<Option<Duration>> for MillisNotZero {
    fn get(socket: &RawSocket, option: u32) -> Result<Option<Duration>, Errno> {
        MillisOr::<-1>::get(socket, option)
    }

    fn set(socket: &RawSocket, option: u32, value: Option<Duration>) -> Result<(), Reason> {
        let value = value.map(|value| not_off(millis(value)?, 0)).transpose()?;
        Ok(socket.set_int(option, value.unwrap_or(-1))?)
    }
}

impl Kind<Duration> for MillisNotZero {
    fn get(socket: &RawSocket, option: u32) -> Result<Duration, Errno> {
        Millis::get(socket, option)
    }

    fn set(socket: &RawSocket, option: u32, value: Duration) -> Result<(), Reason> {
        match millis(value)? {
            0 => Err(Reason::new("libzmq takes 0 for a time that never ends")),
            millis => Ok(socket.set_int(option, millis)?),
        }
    }
}

/// A C `int` of milliseconds, or `OFF` for none.
struct MillisOr<const OFF: i32>;

impl<const OFF: i32> Kind<Option<Duration>> for MillisOr<OFF> {
    fn get(socket: &RawSocket, option: u32) -> Result<Option<Duration>, Errno> {
        let value = socket.get_int(option)?;
        Ok((value != OFF).then(|| Duration::from_millis(value.max(0) as u64)))
    }

    fn set(socket: &RawSocket, option: u32, value: Option<Duration>) -> Result<(), Reason> {
        let value = value.map(|value| not_off(millis(value)?, OFF)).transpose()?;
        Ok(socket.set_int(option, value.unwrap_or(OFF))?)
    }
}

/// A C `int` of milliseconds of which libzmq keeps the tenths of a second, or 0 for none.
struct TenthsOrNone;

impl Kind<Option<Duration>> for TenthsOrNone {
    fn get(socket: &RawSocket, option: u32) -> Result<Option<Duration>, Errno> {
        MillisOr::<0>::get(socket, option)
    }

    fn set(socket: &RawSocket, option: u32, value: Option<Duration>) -> Result<(), Reason> {
        let tenths = value.map(|value| {
            let tenths = value.as_nanos().div_ceil(100_000_000);
            Duration::from_millis(u64::try_from(tenths).unwrap_or(u64::MAX).saturating_mul(100))
        });
        MillisOr::<0>::set(socket, option, tenths)
    }
}

/// A C `int` of seconds, or -1 for what the system does.
struct SecondsOrSystem;

impl Kind<Option<Duration>> for SecondsOrSystem {
    fn get(socket: &RawSocket, option: u32) -> Result<Option<Duration>, Errno> {
        let value = socket.get_int(option)?;
        Ok(u64::try_from(value).ok().map(Duration::from_secs))
    }

    fn set(socket: &RawSocket, option: u32, value: Option<Duration>) -> Result<(), Reason> {
        let seconds = value.map_or(Ok(-1), SecondsOrSystem::whole)?;
        Ok(socket.set_int(option, seconds)?)
    }
}

impl SecondsOrSystem {
    fn whole(value: Duration) -> Result<i32, Reason> {
        let seconds = value.as_secs().saturating_add((value.subsec_nanos() > 0).into());
        i32::try_from(seconds)
            .map_err(|_| Reason::new(format!("{value:?} is longer than libzmq can hold")))
    }
}

/// A number that the system's TCP keeps, or -1 for what the system does. libzmq takes any, and aborts the
/// process when the system refuses it on a connection; so the system is asked first.
struct OfTcp<const OPTION: i32>;

impl<const OPTION: i32> Kind<Option<u32>> for OfTcp<OPTION> {
    fn get(socket: &RawSocket, option: u32) -> Result<Option<u32>, Errno> {
        NumberOr::<-1>::get(socket, option)
    }

    fn set(socket: &RawSocket, option: u32, value: Option<u32>) -> Result<(), Reason> {
        if let Some(value) = value {
            taken_by_tcp(OPTION, int(value)?)?;
        }
        NumberOr::<-1>::set(socket, option, value)
    }
}

impl<const OPTION: i32> Kind<Option<Duration>> for OfTcp<OPTION> {
    fn get(socket: &RawSocket, option: u32) -> Result<Option<Duration>, Errno> {
        SecondsOrSystem::get(socket, option)
    }

    fn set(socket: &RawSocket, option: u32, value: Option<Duration>) -> Result<(), Reason> {
        if let Some(value) = value {
            taken_by_tcp(OPTION, SecondsOrSystem::whole(value)?)?;
        }
        SecondsOrSystem::set(socket, option, value)
    }
}

fn taken_by_tcp(option: i32, value: i32) -> Result<(), Reason> {
    ffi::try_tcp_option(option, value).map_err(|errno| match errno {
        Errno(libc::EINVAL) => Reason::new(format!("the system's TCP does not take {value}")),
        _ => errno.into(),
    })
}

/// Where each system has its option for the silence before a probe.
#[cfg(target_vendor = "apple")]
const TCP_KEEPIDLE: i32 = libc::TCP_KEEPALIVE;
#[cfg(not(target_vendor = "apple"))]
const TCP_KEEPIDLE: i32 = libc::TCP_KEEPIDLE;

/// A `uint64_t`.
struct Wide;

impl Kind<u64> for Wide {
    fn get(socket: &RawSocket, option: u32) -> Result<u64, Errno> {
        socket.get_u64(option)
    }

    fn set(socket: &RawSocket, option: u32, value: u64) -> Result<(), Reason> {
        Ok(socket.set_u64(option, value)?)
    }
}

/// An `int64_t` of bytes, or -1 for no limit.
struct WideOrUnlimited;

impl Kind<Option<u64>> for WideOrUnlimited {
    fn get(socket: &RawSocket, option: u32) -> Result<Option<u64>, Errno> {
        socket.get_u64(option).map(|value| i64::try_from(value).is_ok().then_some(value))
    }

    fn set(socket: &RawSocket, option: u32, value: Option<u64>) -> Result<(), Reason> {
        if value.is_some_and(|value| i64::try_from(value).is_err()) {
            return Err(Reason::new(format!("the largest value is {}", i64::MAX)));
        }
        Ok(socket.set_u64(option, value.unwrap_or(u64::MAX))?)
    }
}

/// A C `int` that stands for a name.
struct Named;

impl Kind<Mechanism> for Named {
    fn get(socket: &RawSocket, option: u32) -> Result<Mechanism, Errno> {
        socket.get_int(option).map(|value| match value as u32 {
            zmq_sys::ZMQ_NULL => Mechanism::Null,
            zmq_sys::ZMQ_PLAIN => Mechanism::Plain,
            zmq_sys::ZMQ_CURVE => Mechanism::Curve,
            zmq_sys::ZMQ_GSSAPI => Mechanism::Gssapi,
            _ => Mechanism::Unknown(value),
        })
    }

    fn set(_: &RawSocket, _: u32, _: Mechanism) -> Result<(), Reason> {
        Err(Reason::new("libzmq sets it, by the security options that are used"))
    }
}

impl Kind<NameType> for Named {
    fn get(socket: &RawSocket, option: u32) -> Result<NameType, Errno> {
        socket.get_int(option).map(|value| match value {
            1 => NameType::UserName,
            2 => NameType::Krb5Principal,
            _ => NameType::HostBased,
        })
    }

    fn set(socket: &RawSocket, option: u32, value: NameType) -> Result<(), Reason> {
        Ok(socket.set_int(option, value as i32)?)
    }
}

/// How peers prove who they are (`ZMQ_MECHANISM`), as [`ZSock::mechanism`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mechanism {
    /// Not at all: neither proof nor encryption.
    Null,
    /// By name and password, in clear text.
    Plain,
    /// By elliptic-curve keys, encrypted.
    Curve,
    /// By Kerberos.
    Gssapi,
    /// By something that this version of zkit has no name for.
    Unknown(i32),
}

/// How a GSSAPI principal is written (`ZMQ_GSSAPI_NT_...`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameType {
    /// A service at a host.
    HostBased = 0,
    /// A local user.
    UserName = 1,
    /// A Kerberos principal.
    Krb5Principal = 2,
}

fn int(value: u32) -> Result<i32, Reason> {
    i32::try_from(value).map_err(|_| Reason::new(format!("the largest value is {}", i32::MAX)))
}

/// Refuses a value that would mean "off": that is written `None`.
fn not_off(value: i32, off: i32) -> Result<i32, Reason> {
    if value == off {
        return Err(Reason::new(format!("libzmq takes {off} for \"off\", which is None here")));
    }
    Ok(value)
}

/// A getter and a setter per option. `_` stands for what libzmq does not have.
macro_rules! options {
    ($(#[$about:meta])* impl ZSock; $(
        $(#[$doc:meta])*
        $option:ident as $kind:ty: $value:ty => $getter:tt, $setter:tt $(, needs $($capability:literal)or+)?;
    )*) => {
        $(#[$about])*
        impl ZSock {$(
            options!(@get $getter $(#[$doc])* $option $kind, $value, [$($($capability),+)?]);
            options!(@set $setter $(#[$doc])* $option $kind, $value, [$($($capability),+)?]);
        )*}
    };
    (@get _ $($rest:tt)*) => {};
    (@get $getter:ident $(#[$doc:meta])* $option:ident $kind:ty, $value:ty, [$($capability:literal),*]) => {
        #[doc = concat!("Reads `", stringify!($option), "`.\n\n")]
        $(#[$doc])*
        ///
        /// # Errors
        /// [`Error::Option`] when this socket or the linked libzmq does not have the option,
        /// [`Error::Terminated`], [`Error::Forked`].
        $(#[doc = concat!("[`Error::Unsupported`] when there is no `", $capability, "`.")])*
        pub fn $getter(&self) -> Result<$value> {
            require(&[$($capability),*], stringify!($option))?;
            <$kind as Kind<$value>>::get(self.raw(), zmq_sys::$option)
                .map_err(|errno| self.cannot_get(stringify!($option), errno))
        }
    };
    (@set _ $($rest:tt)*) => {};
    (@set $setter:ident $(#[$doc:meta])* $option:ident $kind:ty, $value:ty, [$($capability:literal),*]) => {
        #[doc = concat!("Sets `", stringify!($option), "`.\n\n")]
        $(#[$doc])*
        ///
        /// # Errors
        /// [`Error::Option`] when the value is out of range, or this socket or the linked libzmq
        /// does not have the option, [`Error::Terminated`], [`Error::Forked`].
        $(#[doc = concat!("[`Error::Unsupported`] when there is no `", $capability, "`.")])*
        pub fn $setter(&self, value: $value) -> Result<()> {
            require(&[$($capability),*], stringify!($option))?;
            <$kind as Kind<$value>>::set(self.raw(), zmq_sys::$option, value)
                .map_err(|reason| self.cannot_set(stringify!($option), reason))
        }
    };
}

options! {
    /// # Options
    ///
    /// All stable options of libzmq 4.3.5, without those that it calls deprecated. Times are
    /// `Duration`s, rounded up to libzmq's milliseconds (or, where said, seconds); `None` is "off",
    /// "no limit" or "what the system does", as each says.
    ///
    /// What the linked libzmq or the system cannot do is [`Error::Unsupported`] when it is set, such as an
    /// option of multicast where no transport is one: [`engine()`](crate::engine()) tells.
    ///
    /// Unless an option says otherwise, it acts on connections made after it was set: set it before
    /// `bind` or `connect`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zkit::{SocketType, ZContext};
    ///
    /// let ctx = ZContext::new()?;
    /// let dealer = ctx.socket(SocketType::Dealer)?;
    /// dealer.set_identity("worker-1")?;
    /// dealer.set_sndhwm(Some(10))?;
    /// dealer.set_heartbeat_ivl(Some(Duration::from_secs(1)))?;
    /// dealer.set_linger(None)?; // for ever
    /// dealer.connect("tcp://127.0.0.1:5555")?;
    /// assert_eq!(dealer.sndhwm()?, Some(10));
    /// # dealer.set_linger(Some(Duration::ZERO))?;
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// The methods have libzmq's names without `ZMQ_`, in lower case: `ZMQ_SNDHWM` is
    /// [`sndhwm`](ZSock::sndhwm) and [`set_sndhwm`](ZSock::set_sndhwm). Exceptions are the identity
    /// (`ZMQ_ROUTING_ID`), [`subscribe`](ZSock::subscribe) and [`unsubscribe`](ZSock::unsubscribe).
    /// `ZMQ_FD`, `ZMQ_EVENTS` and `ZMQ_TYPE` are [`as_fd`](std::os::fd::AsFd::as_fd),
    /// [`events`](ZSock::events) and [`socket_type`](ZSock::socket_type).
    impl ZSock;

    /// How long messages not yet sent are kept after the drop of the socket; `None` for ever,
    /// zero not at all. It starts as the context's default, one second, and acts at once.
    ZMQ_LINGER as MillisOr<-1>: Option<Duration> => linger, set_linger;
    /// High-water mark for sending: how many messages are queued for each peer before the socket
    /// blocks or drops, by its type. `None` is no limit. Default 1000; for SUB and XSUB `None`, because
    /// each subscription is a message in this queue, and beyond the limit libzmq loses it without an error.
    ZMQ_SNDHWM as NumberOr<0>: Option<u32> => sndhwm, set_sndhwm;
    /// High-water mark for receiving: how many messages are queued from each peer. `None` is no
    /// limit. Default 1000.
    ZMQ_RCVHWM as NumberOr<0>: Option<u32> => rcvhwm, set_rcvhwm;
    /// The largest frame that is accepted from a peer, in bytes; a peer that sends a larger one is
    /// disconnected. `None` is no limit. Default `None`.
    ZMQ_MAXMSGSIZE as WideOrUnlimited: Option<u64> => maxmsgsize, set_maxmsgsize;
    /// Whether messages are queued only for connections that are complete. Default no.
    ZMQ_IMMEDIATE as Flag: bool => immediate, set_immediate;
    /// Whether to keep only the last message, in and out. Only for sockets of single-frame
    /// patterns (PULL, PUSH, SUB, PUB, DEALER). Default no.
    ZMQ_CONFLATE as Flag: bool => conflate, _;
    /// Which I/O threads serve the socket, a bit each; zero is any. Default zero.
    ZMQ_AFFINITY as Wide: u64 => affinity, set_affinity;
    /// Whether frames of the message received last remain: only for a socket adopted in the
    /// middle of a message, since zkit receives whole ones.
    ZMQ_RCVMORE as Flag: bool => rcvmore, _;
    /// Whether the socket may be used by several threads. No stable socket type may.
    ZMQ_THREAD_SAFE as Flag: bool => thread_safe, _;

    /// ROUTER: whether a message to a peer that is not connected, or is at its high-water mark, is
    /// refused ([`Error::HostUnreachable`], or waiting) and not dropped. Default no.
    ZMQ_ROUTER_MANDATORY as Flag: bool => _, set_router_mandatory;
    /// ROUTER: whether a peer that comes with the identity of another takes its place. Default no.
    ZMQ_ROUTER_HANDOVER as Flag: bool => _, set_router_handover;
    /// REQ, DEALER, ROUTER: whether to send an empty message on each new connection, so that a
    /// ROUTER learns of it. Default no.
    ZMQ_PROBE_ROUTER as Flag: bool => _, set_probe_router;
    /// REQ: whether to number requests and drop replies to others than the last. Default no.
    /// Use it together with [`set_req_relaxed`](ZSock::set_req_relaxed).
    ZMQ_REQ_CORRELATE as Flag: bool => _, set_req_correlate;
    /// REQ: whether a new request may be sent before the reply to the last one came, which is then
    /// given up. Default no.
    ZMQ_REQ_RELAXED as Flag: bool => _, set_req_relaxed;
    /// STREAM: whether connects and disconnects come as empty messages. Default yes.
    ZMQ_STREAM_NOTIFY as Flag: bool => _, set_stream_notify;
    /// XPUB: whether repeated subscriptions are passed on, too. Default no.
    ZMQ_XPUB_VERBOSE as Flag: bool => _, set_xpub_verbose;
    /// XPUB: whether repeated subscriptions and unsubscriptions are passed on, too. Default no.
    ZMQ_XPUB_VERBOSER as Flag: bool => _, set_xpub_verboser;
    /// XPUB, PUB: whether sending waits at the high-water mark instead of dropping. Default no.
    ZMQ_XPUB_NODROP as Flag: bool => _, set_xpub_nodrop;
    /// XPUB: whether the program answers subscriptions itself, with
    /// [`subscribe`](ZSock::subscribe) and [`unsubscribe`](ZSock::unsubscribe). Default no.
    ZMQ_XPUB_MANUAL as Flag: bool => _, set_xpub_manual;
    /// PUB, XPUB, SUB: whether messages go to those that did not subscribe. To be set on both
    /// sides. Default no.
    ZMQ_INVERT_MATCHING as Flag: bool => invert_matching, set_invert_matching;

    /// How long to wait before connecting anew; `None` is never, and has libzmq drop what it has not
    /// read when the peer closes. Zero is refused, which libzmq takes for never, too. Default 100 ms.
    ZMQ_RECONNECT_IVL as MillisNotZero: Option<Duration> => reconnect_ivl, set_reconnect_ivl;
    /// How far that time grows, doubling with each failure; `None` is no growth. Default `None`.
    ZMQ_RECONNECT_IVL_MAX as MillisOr<0>: Option<Duration> => reconnect_ivl_max, set_reconnect_ivl_max;
    /// How long a TCP connect may take; `None` is the system's limit. Default `None`.
    ZMQ_CONNECT_TIMEOUT as MillisOr<0>: Option<Duration> => connect_timeout, set_connect_timeout;
    /// How long ZMTP's handshake may take; `None` is no limit. Default 30 s.
    ZMQ_HANDSHAKE_IVL as MillisOr<0>: Option<Duration> => handshake_ivl, set_handshake_ivl;
    /// How often to send ZMTP heartbeats; `None` is never. Default `None`.
    ZMQ_HEARTBEAT_IVL as MillisOr<0>: Option<Duration> => heartbeat_ivl, set_heartbeat_ivl;
    /// How long to wait for the answer to a heartbeat before the connection is given up; `None`, the
    /// default, is the interval of the heartbeats.
    ZMQ_HEARTBEAT_TIMEOUT as MillisOr<-1>: Option<Duration> => heartbeat_timeout, _;
    /// How long to wait for the answer to a heartbeat before the connection is given up. It cannot
    /// be unset. Zero is refused, by which libzmq never gives up.
    ZMQ_HEARTBEAT_TIMEOUT as MillisNotZero: Duration => _, set_heartbeat_timeout;
    /// After how much silence the peer may give the connection up; `None` is never. Rounded up to
    /// tenths of a second, 6,553.5 s at the most. Default `None`.
    ZMQ_HEARTBEAT_TTL as TenthsOrNone: Option<Duration> => heartbeat_ttl, set_heartbeat_ttl;
    /// How many connections may wait to be accepted. Default 100.
    ZMQ_BACKLOG as Number: u32 => backlog, set_backlog;

    /// Whether TCP can use IPv6. Default no.
    ZMQ_IPV6 as Flag: bool => ipv6, set_ipv6;
    /// TCP keep-alive (`SO_KEEPALIVE`); `None` is what the system does. Default `None`.
    ZMQ_TCP_KEEPALIVE as FlagOrSystem: Option<bool> => tcp_keepalive, set_tcp_keepalive;
    /// Keep-alive probes before a connection is given up; `None` is what the system does.
    ZMQ_TCP_KEEPALIVE_CNT as OfTcp<{ libc::TCP_KEEPCNT }>: Option<u32> => tcp_keepalive_cnt, set_tcp_keepalive_cnt;
    /// Silence before the first keep-alive probe, in whole seconds; `None` is what the system does.
    ZMQ_TCP_KEEPALIVE_IDLE as OfTcp<TCP_KEEPIDLE>: Option<Duration> => tcp_keepalive_idle, set_tcp_keepalive_idle;
    /// Time between keep-alive probes, in whole seconds; `None` is what the system does.
    ZMQ_TCP_KEEPALIVE_INTVL as OfTcp<{ libc::TCP_KEEPINTVL }>: Option<Duration> => tcp_keepalive_intvl, set_tcp_keepalive_intvl;
    /// How long TCP repeats what the peer does not acknowledge (`TCP_USER_TIMEOUT`); `None` is
    /// what the system does. Default `None`.
    ZMQ_TCP_MAXRT as MillisOr<0>: Option<Duration> => tcp_maxrt, set_tcp_maxrt, needs "TCP_USER_TIMEOUT";
    /// The type-of-service field of IP packets. Default 0.
    ZMQ_TOS as Number: u32 => tos, set_tos;
    /// The kernel's send buffer in bytes (`SO_SNDBUF`); `None` is what the system does.
    ZMQ_SNDBUF as NumberOr<-1>: Option<u32> => sndbuf, set_sndbuf;
    /// The kernel's receive buffer in bytes (`SO_RCVBUF`); `None` is what the system does.
    ZMQ_RCVBUF as NumberOr<-1>: Option<u32> => rcvbuf, set_rcvbuf;

    /// Multicast: the rate in kilobits a second. Default 100.
    ZMQ_RATE as Number: u32 => rate, set_rate, needs "pgm" or "norm";
    /// Multicast: how long a receiver that lags behind can still recover. Default 10 s.
    ZMQ_RECOVERY_IVL as Millis: Duration => recovery_ivl, set_recovery_ivl, needs "pgm";
    /// Multicast: how many network hops packets may make. Default 1.
    ZMQ_MULTICAST_HOPS as Number: u32 => multicast_hops, set_multicast_hops, needs "pgm" or "norm";
    /// Multicast: the largest packet in bytes. Default 1500.
    ZMQ_MULTICAST_MAXTPDU as Number: u32 => multicast_maxtpdu, set_multicast_maxtpdu, needs "pgm";

    /// The security mechanism, which follows from the options below.
    ZMQ_MECHANISM as Named: Mechanism => mechanism, _;
    /// PLAIN: whether this is the side that checks passwords. Default no.
    ZMQ_PLAIN_SERVER as Flag: bool => plain_server, set_plain_server;
    /// CURVE: whether this is the side that checks keys. Default no.
    ZMQ_CURVE_SERVER as Flag: bool => curve_server, set_curve_server, needs "curve";
    /// GSSAPI: whether this is the side that checks principals. Default no.
    ZMQ_GSSAPI_SERVER as Flag: bool => gssapi_server, set_gssapi_server, needs "gssapi";
    /// GSSAPI: whether messages go unencrypted once the peer is known. Default no.
    ZMQ_GSSAPI_PLAINTEXT as Flag: bool => gssapi_plaintext, set_gssapi_plaintext, needs "gssapi";
    /// GSSAPI: how this side's principal is written.
    ZMQ_GSSAPI_PRINCIPAL_NAMETYPE as Named: NameType => gssapi_principal_nametype, set_gssapi_principal_nametype, needs "gssapi";
    /// GSSAPI: how the service's principal is written.
    ZMQ_GSSAPI_SERVICE_PRINCIPAL_NAMETYPE as Named: NameType => gssapi_service_principal_nametype, set_gssapi_service_principal_nametype, needs "gssapi";

    /// VMCI: the size of the transport's buffer in bytes.
    ZMQ_VMCI_BUFFER_SIZE as Wide: u64 => vmci_buffer_size, set_vmci_buffer_size, needs "vmci";
    /// VMCI: the smallest size of that buffer in bytes.
    ZMQ_VMCI_BUFFER_MIN_SIZE as Wide: u64 => vmci_buffer_min_size, set_vmci_buffer_min_size, needs "vmci";
    /// VMCI: the largest size of that buffer in bytes.
    ZMQ_VMCI_BUFFER_MAX_SIZE as Wide: u64 => vmci_buffer_max_size, set_vmci_buffer_max_size, needs "vmci";
    /// VMCI: how long a connect may take; `None` is the system's limit.
    ZMQ_VMCI_CONNECT_TIMEOUT as MillisOr<-1>: Option<Duration> => vmci_connect_timeout, set_vmci_connect_timeout, needs "vmci";
}

/// The same for options that are bytes or text, which are lent to the setter and owned by who
/// reads them.
macro_rules! content_options {
    ($(
        $(#[$doc:meta])*
        $option:ident as $content:ident => $getter:tt, $setter:tt $(, needs $($capability:literal)or+)?;
    )*) => {
        /// # Options of text and bytes
        impl ZSock {$(
            content_options!(@get $getter $(#[$doc])* $option $content [$($($capability),+)?]);
            content_options!(@set $setter $(#[$doc])* $option $content [$($($capability),+)?]);
        )*}
    };
    (@get _ $($rest:tt)*) => {};
    (@get $getter:ident $(#[$doc:meta])* $option:ident $content:ident [$($capability:literal),*]) => {
        #[doc = concat!("Reads `", stringify!($option), "`.\n\n")]
        $(#[$doc])*
        ///
        /// # Errors
        /// [`Error::Option`] when this socket or the linked libzmq does not have the option,
        /// [`Error::Terminated`], [`Error::Forked`].
        $(#[doc = concat!("[`Error::Unsupported`] when there is no `", $capability, "`.")])*
        pub fn $getter(&self) -> Result<content_options!(@owned $content)> {
            require(&[$($capability),*], stringify!($option))?;
            content_options!(@read $content)(self.raw(), zmq_sys::$option)
                .map_err(|errno| self.cannot_get(stringify!($option), errno))
        }
    };
    (@set _ $($rest:tt)*) => {};
    (@set $setter:ident $(#[$doc:meta])* $option:ident plain [$($capability:literal),*]) => {
        content_options!(@set $setter $(#[$doc])* $option text [$($capability),*]);
    };
    (@set $setter:ident $(#[$doc:meta])* $option:ident text [$($capability:literal),*]) => {
        #[doc = concat!("Sets `", stringify!($option), "`.\n\n")]
        $(#[$doc])*
        ///
        /// # Errors
        /// [`Error::Option`] when the value is out of range, or this socket or the linked libzmq
        /// does not have the option, [`Error::Terminated`], [`Error::Forked`].
        $(#[doc = concat!("[`Error::Unsupported`] when there is no `", $capability, "`.")])*
        pub fn $setter(&self, value: Option<&str>) -> Result<()> {
            require(&[$($capability),*], stringify!($option))?;
            let set = match value {
                Some(text) if !text.is_empty() => {
                    self.raw().set_bytes(zmq_sys::$option, text.as_bytes())
                }
                _ => self.raw().set_null(zmq_sys::$option),
            };
            set.map_err(|errno| self.cannot_set(stringify!($option), errno.into()))
        }
    };
    (@set $setter:ident $(#[$doc:meta])* $option:ident $content:ident [$($capability:literal),*]) => {
        #[doc = concat!("Sets `", stringify!($option), "`.\n\n")]
        $(#[$doc])*
        ///
        /// # Errors
        /// [`Error::Option`] when the value is out of range, or this socket or the linked libzmq
        /// does not have the option, [`Error::Terminated`], [`Error::Forked`].
        $(#[doc = concat!("[`Error::Unsupported`] when there is no `", $capability, "`.")])*
        pub fn $setter(&self, value: impl AsRef<[u8]>) -> Result<()> {
            require(&[$($capability),*], stringify!($option))?;
            self.raw().set_bytes(zmq_sys::$option, value.as_ref())
                .map_err(|errno| self.cannot_set(stringify!($option), errno.into()))
        }
    };
    (@owned bytes) => { Vec<u8> };
    (@owned text) => { Option<String> };
    (@owned name) => { Option<String> };
    (@owned plain) => { Option<String> };
    (@owned key) => { Vec<u8> };
    (@read bytes) => { get_bytes };
    (@read text) => { get_text };
    (@read name) => { get_text };
    (@read plain) => { get_plain };
    (@read key) => { get_key };
}

content_options! {
    /// The identity by which ROUTERs know this socket (`ZMQ_IDENTITY` in older versions). Empty when
    /// none was set: then a ROUTER invents one.
    ZMQ_ROUTING_ID as bytes => identity, _;
    /// SUB: receive messages that start with these bytes; none of them is all messages. Acts at
    /// once. Also an XPUB's answer under [`set_xpub_manual`](ZSock::set_xpub_manual).
    ZMQ_SUBSCRIBE as bytes => _, subscribe;
    /// SUB: take back one [`subscribe`](ZSock::subscribe) of the same bytes. Acts at once.
    ZMQ_UNSUBSCRIBE as bytes => _, unsubscribe;
    /// XPUB: a message that every new subscriber gets first; empty for none.
    ZMQ_XPUB_WELCOME_MSG as bytes => _, set_xpub_welcome_msg;
    /// The endpoint that the socket was last bound or connected to, as libzmq resolved it.
    ZMQ_LAST_ENDPOINT as text => last_endpoint, _;
    /// A SOCKS5 proxy for TCP connections, `host:port`; `None` for none.
    ZMQ_SOCKS_PROXY as text => socks_proxy, set_socks_proxy;
    /// The network device that TCP and UDP are bound to (`SO_BINDTODEVICE`); `None` for any.
    ZMQ_BINDTODEVICE as text => bindtodevice, set_bindtodevice, needs "SO_BINDTODEVICE";
    /// The domain that a ZAP handler is told; `None` when none was set.
    ZMQ_ZAP_DOMAIN as name => zap_domain, _;
    /// PLAIN: the name to give to a server, up to 255 bytes; `None` turns PLAIN off.
    ZMQ_PLAIN_USERNAME as plain => plain_username, set_plain_username;
    /// PLAIN: the password to give to a server, up to 255 bytes; `None` turns PLAIN off.
    ZMQ_PLAIN_PASSWORD as plain => plain_password, set_plain_password;
    /// CURVE: this side's public key; set from 32 bytes or 40 characters of Z85, read as bytes.
    ZMQ_CURVE_PUBLICKEY as key => curve_publickey, set_curve_publickey, needs "curve";
    /// CURVE: this side's secret key; set from 32 bytes or 40 characters of Z85, read as bytes.
    ZMQ_CURVE_SECRETKEY as key => curve_secretkey, set_curve_secretkey, needs "curve";
    /// CURVE: the server's public key; set from 32 bytes or 40 characters of Z85, read as bytes.
    ZMQ_CURVE_SERVERKEY as key => curve_serverkey, set_curve_serverkey, needs "curve";
    /// GSSAPI: this side's principal; `None` for none.
    ZMQ_GSSAPI_PRINCIPAL as text => gssapi_principal, set_gssapi_principal, needs "gssapi";
    /// GSSAPI: the principal of the service to connect to; `None` for none.
    ZMQ_GSSAPI_SERVICE_PRINCIPAL as text => gssapi_service_principal, set_gssapi_service_principal, needs "gssapi";
}

fn get_bytes(socket: &RawSocket, option: u32) -> Result<Vec<u8>, Errno> {
    socket.get_bytes(option, 255)
}

fn get_key(socket: &RawSocket, option: u32) -> Result<Vec<u8>, Errno> {
    socket.get_bytes(option, 32)
}

/// libzmq refuses to cut text short and does not say how long it is.
fn get_text(socket: &RawSocket, option: u32) -> Result<Option<String>, Errno> {
    let mut text = socket.get_bytes(option, 256);
    if text == Err(Errno(libc::EINVAL)) {
        text = socket.get_bytes(option, 64 * 1024);
    }
    let mut text = text?;
    while text.last() == Some(&0) {
        text.pop();
    }
    Ok((!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned()))
}

/// Turned off, PLAIN keeps its texts without using them.
fn get_plain(socket: &RawSocket, option: u32) -> Result<Option<String>, Errno> {
    match socket.get_int(zmq_sys::ZMQ_MECHANISM)? as u32 {
        zmq_sys::ZMQ_PLAIN => get_text(socket, option),
        _ => Ok(None),
    }
}

/// # Options with rules of their own
impl ZSock {
    /// Reads `ZMQ_SNDTIMEO`.
    ///
    /// How long `send` waits before [`Error::Timeout`]; `None` for ever. Default `None`.
    ///
    /// # Errors
    /// [`Error::Forked`] in the child of a fork.
    pub fn sndtimeo(&self) -> Result<Option<Duration>> {
        Ok(self.timeouts("ZMQ_SNDTIMEO")?.send.get())
    }

    /// Sets `ZMQ_SNDTIMEO`.
    ///
    /// How long [`send`](ZSock::send) waits before [`Error::Timeout`]; `None` for ever. Default
    /// `None`. Acts at once.
    ///
    /// # Errors
    /// [`Error::Option`] when the time is longer than libzmq can hold, [`Error::Forked`].
    pub fn set_sndtimeo(&self, value: Option<Duration>) -> Result<()> {
        let option = "ZMQ_SNDTIMEO";
        self.timeouts(option)?.send.set(self.timeout(option, value)?);
        Ok(())
    }

    /// Reads `ZMQ_RCVTIMEO`.
    ///
    /// How long `recv` waits before [`Error::Timeout`]; `None` for ever. Default `None`.
    ///
    /// # Errors
    /// [`Error::Forked`] in the child of a fork.
    pub fn rcvtimeo(&self) -> Result<Option<Duration>> {
        Ok(self.timeouts("ZMQ_RCVTIMEO")?.recv.get())
    }

    /// Sets `ZMQ_RCVTIMEO`.
    ///
    /// How long [`recv`](ZSock::recv) waits before [`Error::Timeout`]; `None` for ever. Default
    /// `None`. Acts at once.
    ///
    /// # Errors
    /// [`Error::Option`] when the time is longer than libzmq can hold, [`Error::Forked`].
    pub fn set_rcvtimeo(&self, value: Option<Duration>) -> Result<()> {
        let option = "ZMQ_RCVTIMEO";
        self.timeouts(option)?.recv.set(self.timeout(option, value)?);
        Ok(())
    }

    fn timeouts(&self, option: &'static str) -> Result<&Timeouts> {
        self.raw().check_process().map_err(|errno| self.cannot_get(option, errno))?;
        Ok(self.own_timeouts())
    }

    /// A timeout in whole milliseconds, as libzmq would keep it.
    fn timeout(&self, option: &'static str, value: Option<Duration>) -> Result<Option<Duration>> {
        let millis = value.map(millis).transpose();
        let millis = millis.map_err(|reason| self.cannot_set(option, reason))?;
        Ok(millis.map(|millis| Duration::from_millis(millis as u64)))
    }

    /// Sets `ZMQ_ROUTING_ID`.
    ///
    /// The identity by which ROUTERs know this socket (`ZMQ_IDENTITY` in older versions): 1 to 255
    /// bytes, the first not zero.
    ///
    /// # Errors
    /// [`Error::Option`] when it is not such.
    pub fn set_identity(&self, identity: impl AsRef<[u8]>) -> Result<()> {
        self.set_name("ZMQ_ROUTING_ID", zmq_sys::ZMQ_ROUTING_ID, identity.as_ref())
    }

    /// Sets `ZMQ_ZAP_DOMAIN`, and with it `ZMQ_ZAP_ENFORCE_DOMAIN`.
    ///
    /// The domain that a ZAP handler, such as [`ZAuth`](crate::ZAuth), is told: 1 to 255 bytes. It
    /// cannot be unset. A socket without security of another kind (NULL) asks the handler only if it has a
    /// domain. While there is nobody to ask, a socket with a domain lets nobody in; libzmq by itself would let
    /// in everybody, but for PLAIN.
    ///
    /// # Errors
    /// [`Error::Option`] when the value is out of range, or the linked libzmq is older than 4.3.
    pub fn set_zap_domain(&self, domain: impl AsRef<[u8]>) -> Result<()> {
        // A draft of libzmq's that its stable builds have as well.
        const ZMQ_ZAP_ENFORCE_DOMAIN: u32 = 93;
        // In this order: PLAIN that enforces a domain which is not there aborts the process.
        let domain = self.raw().set_bytes(zmq_sys::ZMQ_ZAP_DOMAIN, domain.as_ref());
        domain.map_err(|errno| self.cannot_set("ZMQ_ZAP_DOMAIN", errno.into()))?;
        let enforced = self.raw().set_int(ZMQ_ZAP_ENFORCE_DOMAIN, 1);
        enforced.map_err(|errno| self.cannot_set("ZMQ_ZAP_ENFORCE_DOMAIN", errno.into()))
    }

    /// Sets `ZMQ_CONFLATE`.
    ///
    /// Whether to keep only the last message, in and out. Only for sockets of single-frame patterns (PULL,
    /// PUSH, SUB, PUB, DEALER): libzmq keeps the last frame and not the last message, so a message of
    /// several frames is refused when it is sent ([`Error::Send`]), and comes in parts from a peer that
    /// sends one. Default no.
    ///
    /// # Errors
    /// [`Error::Option`] when this socket does not have the option.
    pub fn set_conflate(&self, conflate: bool) -> Result<()> {
        let set = self.raw().set_int(zmq_sys::ZMQ_CONFLATE, conflate.into());
        set.map_err(|errno| self.cannot_set("ZMQ_CONFLATE", errno.into()))?;
        self.set_conflates(conflate);
        Ok(())
    }

    /// Sets `ZMQ_ROUTER_RAW`.
    ///
    /// ROUTER: whether to speak plain TCP and not ZMTP. STREAM is made for that. Default no.
    ///
    /// # Errors
    /// [`Error::Option`] when this socket does not have the option.
    pub fn set_router_raw(&self, raw: bool) -> Result<()> {
        let set = self.raw().set_int(zmq_sys::ZMQ_ROUTER_RAW, raw.into());
        set.map_err(|errno| self.cannot_set("ZMQ_ROUTER_RAW", errno.into()))?;
        self.set_plain_tcp(raw);
        Ok(())
    }

    /// Sets `ZMQ_CONNECT_ROUTING_ID`.
    ///
    /// ROUTER, STREAM: the identity that the peer of the next `connect` gets here: 1 to 255 bytes,
    /// the first not zero. It must not be that of another peer, because libzmq then aborts the
    /// process. zkit refuses one that it has given before and not disconnected; that of a peer who
    /// connected from its side it cannot know.
    ///
    /// # Errors
    /// [`Error::Option`] when the identity is in use or out of range, or this socket does not have
    /// the option.
    pub fn set_connect_routing_id(&self, identity: impl AsRef<[u8]>) -> Result<()> {
        let (option, identity) = ("ZMQ_CONNECT_ROUTING_ID", identity.as_ref());
        if self.has_given(identity) {
            let reason = Reason::new("a peer of this socket has that identity already");
            return Err(self.option_error(option, reason));
        }
        self.set_name(option, zmq_sys::ZMQ_CONNECT_ROUTING_ID, identity)?;
        self.give_next(identity);
        Ok(())
    }

    fn set_name(&self, option: &'static str, number: u32, identity: &[u8]) -> Result<()> {
        if identity.first() == Some(&0) {
            let reason =
                Reason::new("identities that start with a zero byte are for libzmq to give");
            return Err(self.option_error(option, reason));
        }
        self.raw()
            .set_bytes(number, identity)
            .map_err(|errno| self.cannot_set(option, errno.into()))
    }

    /// Sets `ZMQ_USE_FD`: a listening descriptor, as a service manager passes it, for the next
    /// `bind` to use instead of opening one. It is the socket's from then on.
    ///
    /// # Errors
    /// [`Error::Option`] when the descriptor does not listen.
    pub fn set_use_fd(&self, descriptor: OwnedFd) -> Result<()> {
        let option = "ZMQ_USE_FD";
        // libzmq aborts the process on anything else.
        if !ffi::is_listening(descriptor.as_fd()) {
            let reason = Reason::new("the descriptor is not a listening socket");
            return Err(self.option_error(option, reason));
        }
        self.raw()
            .set_int(zmq_sys::ZMQ_USE_FD, descriptor.as_raw_fd())
            .map_err(|errno| self.cannot_set(option, errno.into()))?;
        self.hand_in(descriptor);
        Ok(())
    }

    /// Reads `ZMQ_USE_FD`: the descriptor that the next `bind` will use.
    ///
    /// # Errors
    /// [`Error::Option`] when the linked libzmq does not have the option.
    pub fn use_fd(&self) -> Result<Option<RawFd>> {
        let fd = self.raw().get_int(zmq_sys::ZMQ_USE_FD);
        let fd = fd.map_err(|errno| self.cannot_get("ZMQ_USE_FD", errno))?;
        Ok((fd >= 0).then_some(fd))
    }

    fn cannot_get(&self, option: &'static str, errno: Errno) -> Error {
        errno.ending().unwrap_or_else(|| self.option_error(option, errno.into()))
    }

    fn cannot_set(&self, option: &'static str, reason: Reason) -> Error {
        let ending = reason.ending();
        ending.unwrap_or_else(|| self.option_error(option, reason))
    }

    fn option_error(&self, option: &'static str, reason: Reason) -> Error {
        let reason = match reason.errno() {
            Some(libc::EINVAL) => Reason::explained(
                Errno(libc::EINVAL),
                "libzmq refuses the value, or this socket type does not have the option",
            ),
            _ => reason,
        };
        Error::Option { option, socket_type: self.socket_type().name(), reason }
    }
}
