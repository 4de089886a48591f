use std::fmt;
use std::ops::BitOr;

/// What a socket or descriptor is ready for, or is waited on for.
///
/// ```
/// use zkit::Events;
///
/// let both = Events::READABLE | Events::WRITABLE;
/// assert!(both.contains(Events::READABLE));
/// assert!(both.is_writable() && !both.is_error());
/// assert_eq!(format!("{both:?}"), "Events(READABLE | WRITABLE)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Events(u8);

impl Events {
    /// There is a message to receive, or input to read.
    #[doc(alias = "ZMQ_POLLIN")]
    pub const READABLE: Events = Events(zmq_sys::ZMQ_POLLIN as u8);
    /// There is room to send, or to write.
    #[doc(alias = "ZMQ_POLLOUT")]
    pub const WRITABLE: Events = Events(zmq_sys::ZMQ_POLLOUT as u8);
    /// A descriptor is broken or its other end has hung up. It need not be asked for and is always
    /// told. Sockets have none.
    #[doc(alias = "ZMQ_POLLERR")]
    pub const ERROR: Events = Events(zmq_sys::ZMQ_POLLERR as u8);

    pub(crate) const NONE: Events = Events(0);

    /// Whether all of `events` are among these, not just one of them.
    pub fn contains(self, events: Events) -> bool {
        self.0 & events.0 == events.0
    }

    /// Whether there is something to receive or read.
    pub fn is_readable(self) -> bool {
        self.contains(Events::READABLE)
    }

    /// Whether there is room to send or write.
    pub fn is_writable(self) -> bool {
        self.contains(Events::WRITABLE)
    }

    /// Whether a descriptor is broken or its other end has hung up.
    pub fn is_error(self) -> bool {
        self.contains(Events::ERROR)
    }

    /// From libzmq's `ZMQ_EVENTS`.
    pub(crate) fn from_zmq(events: i32) -> Events {
        Events(events as u8).and(Events::READABLE | Events::WRITABLE)
    }

    pub(crate) fn and(self, events: Events) -> Events {
        Events(self.0 & events.0)
    }

    pub(crate) fn from_mio(event: &mio::event::Event) -> Events {
        let when = |is, events| if is { events } else { Events::NONE };
        when(event.is_readable(), Events::READABLE)
            | when(event.is_writable(), Events::WRITABLE)
            | when(event.is_error() || event.is_read_closed(), Events::ERROR)
    }

    pub(crate) fn to_poll(self) -> i16 {
        let bit = |event, poll| if self.contains(event) { poll } else { 0 };
        bit(Events::READABLE, libc::POLLIN) | bit(Events::WRITABLE, libc::POLLOUT)
    }

    pub(crate) fn from_poll(poll: i16) -> Events {
        let event = |bits, event| if poll & bits != 0 { event } else { Events::NONE };
        event(libc::POLLIN, Events::READABLE)
            | event(libc::POLLOUT, Events::WRITABLE)
            | event(libc::POLLERR | libc::POLLHUP | libc::POLLNVAL, Events::ERROR)
    }
}

impl BitOr for Events {
    type Output = Events;

    fn bitor(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = [
            (Events::READABLE, "READABLE"),
            (Events::WRITABLE, "WRITABLE"),
            (Events::ERROR, "ERROR"),
        ]
        .into_iter()
        .filter(|(event, _)| self.contains(*event))
        .map(|(_, name)| name)
        .collect();
        write!(f, "Events({})", names.join(" | "))
    }
}
