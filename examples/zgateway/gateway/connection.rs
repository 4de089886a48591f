//! One client: what has come of it and is not forwarded yet, what is to be written to it, and why it
//! may not be read from at the moment.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use zkit::HandlerId;

use super::bucket::Bucket;
use crate::config::Limits;
use crate::stream;

pub struct Connection {
    pub peer: SocketAddr,
    /// The stream's handler, and the timers of its silence, of a message that is not whole, and of a
    /// rate that it keeps.
    pub source: Option<HandlerId>,
    pub idle: Option<HandlerId>,
    pub message_time: Option<HandlerId>,
    pub pace: Option<HandlerId>,
    /// Input of which no more can be forwarded now.
    pub inbox: Vec<u8>,
    pub outbox: Outbox,
    /// Why it is not read from.
    pub held: Option<Hold>,
    /// Whether it has closed its side, and whether all that it sent before was read.
    pub half_closed: bool,
    pub finished: bool,
    /// Requests that have no reply yet, as far as one can tell: a reply does not say what it is for.
    pub unanswered: u64,
    pub rates: Rates,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The queue of this group is full.
    Group(usize),
    /// It is too fast.
    Rate,
    /// Nothing any more, but what was held has not had its turn.
    Over,
}

/// Why a connection was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Left,
    Broken,
    Denied,
    BodyTooLong,
    UnknownType,
    MessageTime,
    Idle,
    NotReading,
    Ending,
    Refused,
}

impl Reason {
    pub const ALL: [Reason; 10] = [
        Reason::Left,
        Reason::Broken,
        Reason::Denied,
        Reason::BodyTooLong,
        Reason::UnknownType,
        Reason::MessageTime,
        Reason::Idle,
        Reason::NotReading,
        Reason::Ending,
        Reason::Refused,
    ];

    /// As it is counted and logged.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Left => "left",
            Reason::Broken => "broken",
            Reason::Denied => "denied",
            Reason::BodyTooLong => "body_too_long",
            Reason::UnknownType => "unknown_type",
            Reason::MessageTime => "message_time",
            Reason::Idle => "idle",
            Reason::NotReading => "not_reading",
            Reason::Ending => "ending",
            Reason::Refused => "refused",
        }
    }
}

impl Connection {
    pub fn new(peer: SocketAddr, limits: &Limits) -> Connection {
        Connection {
            peer,
            source: None,
            idle: None,
            message_time: None,
            pace: None,
            inbox: Vec::new(),
            outbox: Outbox::default(),
            held: None,
            half_closed: false,
            finished: false,
            unanswered: 0,
            rates: Rates::new(limits, Instant::now()),
        }
    }

    /// Whether nothing of it is in the gateway or in the back end.
    pub fn is_done(&self) -> bool {
        self.unanswered == 0 && self.held.is_none() && self.outbox.is_empty()
    }
}

/// What one client may send in a second.
pub struct Rates {
    messages: Option<Bucket>,
    bytes: Option<Bucket>,
}

impl Rates {
    fn new(limits: &Limits, now: Instant) -> Rates {
        let bucket = |per_second: Option<u32>| per_second.map(|rate| Bucket::new(rate, now));
        Rates {
            messages: bucket(limits.messages_per_second),
            bytes: bucket(limits.bytes_per_second),
        }
    }

    /// How long the next message has to wait.
    pub fn wait(&self, now: Instant) -> Duration {
        let buckets = [&self.messages, &self.bytes].into_iter().flatten();
        buckets.map(|bucket| bucket.wait(now)).max().unwrap_or_default()
    }

    /// Pays for a message of so many bytes.
    pub fn spend(&mut self, bytes: usize, now: Instant) {
        for (bucket, tokens) in [(&mut self.messages, 1), (&mut self.bytes, bytes)] {
            if let Some(bucket) = bucket {
                bucket.spend(tokens, now);
            }
        }
    }
}

/// Bytes of memory that a connection may keep between two replies.
const KEPT: usize = 2048;

/// Replies to be written to a client.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    written: usize,
    replies: u32,
    /// When the one that has waited for longest was received.
    since: Option<Instant>,
    /// Whether the client has no room for more until it reads.
    pub blocked: bool,
}

impl Outbox {
    pub fn push(&mut self, header: &[u8], body: &[u8], received: Instant) {
        self.bytes.extend_from_slice(header);
        self.bytes.extend_from_slice(body);
        self.replies += 1;
        self.since.get_or_insert(received);
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Writes what the client has room for. When nothing is left it tells how many replies those
    /// were, and when the first of them was received.
    pub fn write(&mut self, to: impl Write) -> io::Result<Option<(u32, Instant)>> {
        self.written += stream::write(to, &self.bytes[self.written..])?;
        self.blocked = self.written < self.bytes.len();
        if self.blocked {
            // A slow reader must not have its buffer grow by what it has read.
            if self.written > self.bytes.len() / 2 {
                self.bytes.drain(..self.written);
                self.written = 0;
            }
            return Ok(None);
        }
        let done = self.since.take().map(|since| (self.replies, since));
        self.replies = 0;
        self.written = 0;
        self.bytes.clear();
        // An idle client keeps little memory.
        self.bytes.shrink_to(KEPT);
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    /// Takes a few bytes at each call, and no more than it has room for.
    #[derive(Default)]
    struct Client {
        read: Vec<u8>,
        room: usize,
    }

    impl Write for Client {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let some = bytes.len().min(self.room).min(3);
            if some == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.room -= some;
            self.read.extend_from_slice(&bytes[..some]);
            Ok(some)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn replies_are_written_as_there_is_room_and_counted_when_all_are() {
        let mut outbox = Outbox::default();
        let mut client = Client::default();
        let first = Instant::now();
        outbox.push(b"head", b"body", first);
        outbox.push(b"HEAD", b"BODY", Instant::now());
        let mut left = 16;
        while left > 5 {
            assert_eq!(outbox.write(&mut client).unwrap(), None);
            assert!(outbox.blocked);
            assert_eq!(outbox.len(), left);
            client.room = 5;
            left -= 5;
        }
        outbox.push(b"last", b"", Instant::now());
        client.room = 100;
        assert_eq!(outbox.write(&mut client).unwrap(), Some((3, first)));
        assert_eq!(client.read, b"headbodyHEADBODYlast");
        assert!(outbox.is_empty() && !outbox.blocked);
        assert_eq!(outbox.write(&mut client).unwrap(), None);
    }

    #[test]
    fn a_client_that_was_sent_much_keeps_little() {
        let mut outbox = Outbox::default();
        outbox.push(b"head", &[0; 100_000], Instant::now());
        outbox.write(io::sink()).unwrap();
        assert!(outbox.bytes.capacity() <= KEPT);
        assert!(size_of::<Connection>() <= 256);
    }
}
