//! Which messages wait for a reply, and what the replies were like.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;

use super::body::Stamp;

/// The messages of one connection that have no reply yet.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    /// A bit for each message from the first that has none.
    words: VecDeque<u64>,
    /// The message of the first bit.
    base: u32,
    next: u32,
    count: u32,
}

const BITS: u32 = u64::BITS;

impl Unanswered {
    /// The sequence number of a new message.
    pub(super) fn add(&mut self) -> u32 {
        let sequence = self.next;
        let bit = 1 << (sequence % BITS);
        match self.words.back_mut() {
            Some(word) if sequence % BITS != 0 => *word |= bit,
            _ => {
                if self.words.is_empty() {
                    self.base = sequence;
                }
                self.words.push_back(bit);
            }
        }
        self.next += 1;
        self.count += 1;
        sequence
    }

    /// Whether `sequence` had no reply; `None` if there was no such message.
    fn answer(&mut self, sequence: u32) -> Option<bool> {
        if sequence >= self.next {
            return None;
        }
        let Some(place) = sequence.checked_sub(self.base) else { return Some(false) };
        let bit = 1 << (sequence % BITS);
        let word = self.words.get_mut((place / BITS) as usize).filter(|word| **word & bit != 0);
        let Some(word) = word else { return Some(false) };
        *word &= !bit;
        self.count -= 1;
        while self.words.front() == Some(&0) && self.next - self.base >= BITS {
            self.words.pop_front();
            self.base += BITS;
        }
        Some(true)
    }

    /// How many messages there were.
    pub(super) fn sent(&self) -> u32 {
        self.next
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }
}

/// What came of the messages of all connections.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) sent: u64,
    /// First replies, right but perhaps for their type.
    pub(super) received: u64,
    /// Replies to the messages of another connection.
    pub(super) crossed: u64,
    /// Replies to nothing that was sent, or with another content.
    pub(super) corrupt: u64,
    pub(super) duplicate: u64,
    /// Of another type than replies should have.
    pub(super) mistyped: u64,
    /// Connections that the peer has ended.
    pub(super) ended_early: u64,
    /// How long messages were sent, and how many replies came in that time.
    pub(super) sending: Duration,
    pub(super) received_sending: u64,
    /// In nanoseconds.
    pub(super) latencies: Histogram<u64>,
}

impl Tally {
    pub(super) fn new() -> Result<Tally> {
        let (least, most) = (100, 600_000_000_000);
        Ok(Tally {
            sent: 0,
            received: 0,
            crossed: 0,
            corrupt: 0,
            duplicate: 0,
            mistyped: 0,
            ended_early: 0,
            sending: Duration::ZERO,
            received_sending: 0,
            latencies: Histogram::new_with_bounds(least, most, 3)?,
        })
    }

    /// Takes in a reply that has come to `connection` at `now`.
    pub(super) fn reply(
        &mut self,
        connection: u32,
        unanswered: &mut Unanswered,
        body: &[u8],
        right_type: bool,
        now: u64,
    ) {
        let Some(stamp) = Stamp::read(body) else {
            self.corrupt += 1;
            return;
        };
        if stamp.connection != connection {
            self.crossed += 1;
            return;
        }
        match unanswered.answer(stamp.sequence) {
            None => self.corrupt += 1,
            Some(false) => self.duplicate += 1,
            Some(true) => {
                self.received += 1;
                self.mistyped += u64::from(!right_type);
                self.latencies.saturating_record(now.saturating_sub(stamp.time));
            }
        }
    }

    /// Messages without a reply.
    pub(super) fn outstanding(&self) -> u64 {
        self.sent - self.received
    }

    pub(super) fn add(&mut self, other: &Tally) -> Result<()> {
        self.sent += other.sent;
        self.received += other.received;
        self.crossed += other.crossed;
        self.corrupt += other.corrupt;
        self.duplicate += other.duplicate;
        self.mistyped += other.mistyped;
        self.ended_early += other.ended_early;
        self.sending = self.sending.max(other.sending);
        self.received_sending += other.received_sending;
        Ok(self.latencies.add(&other.latencies)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONNECTION: u32 = 3;

    /// A connection that has sent `messages`, at times that are their numbers.
    fn sent(messages: u32) -> (Tally, Unanswered) {
        let (mut tally, mut unanswered) = (Tally::new().expect("bounds"), Unanswered::default());
        for expected in 0..messages {
            assert_eq!(unanswered.add(), expected);
            tally.sent += 1;
        }
        (tally, unanswered)
    }

    fn body(connection: u32, sequence: u32) -> [u8; 64] {
        let mut body = [0; 64];
        Stamp { connection, sequence, time: sequence.into() }.write(&mut body);
        body
    }

    #[test]
    fn replies_may_come_in_any_order() {
        let (mut tally, mut unanswered) = sent(1000);
        let mut order: Vec<u32> = (0..1000).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut order);
        for sequence in order {
            tally.reply(CONNECTION, &mut unanswered, &body(CONNECTION, sequence), true, 2000);
        }
        assert_eq!((tally.received, tally.outstanding(), unanswered.count()), (1000, 0, 0));
        assert_eq!((tally.crossed, tally.corrupt, tally.duplicate, tally.mistyped), (0, 0, 0, 0));
        assert_eq!((tally.latencies.len(), tally.latencies.max() / 1000), (1000, 2));
        assert!(unanswered.words.len() <= 1);
    }

    #[test]
    fn a_second_reply_is_a_duplicate_however_late() {
        let (mut tally, mut unanswered) = sent(1);
        for late in [0, 1, 62, 1, 200] {
            tally.reply(CONNECTION, &mut unanswered, &body(CONNECTION, 0), true, 1);
            for _ in 0..late {
                let sequence = unanswered.add();
                tally.reply(CONNECTION, &mut unanswered, &body(CONNECTION, sequence), true, 1);
            }
        }
        assert_eq!((tally.received, tally.duplicate), (1 + 264, 4));
        assert_eq!((tally.crossed, tally.corrupt, unanswered.count()), (0, 0, 0));
    }

    #[test]
    fn a_message_without_reply_is_told_from_those_after_it() {
        let (mut tally, mut unanswered) = sent(500);
        for sequence in (0..500).filter(|sequence| *sequence != 70) {
            tally.reply(CONNECTION, &mut unanswered, &body(CONNECTION, sequence), true, 1);
        }
        assert_eq!((tally.outstanding(), unanswered.count()), (1, 1));
        tally.reply(CONNECTION, &mut unanswered, &body(CONNECTION, 70), true, 1);
        assert_eq!((tally.outstanding(), tally.duplicate), (0, 0));
    }

    #[test]
    fn a_reply_to_another_connection_is_crossed() {
        let (mut tally, mut unanswered) = sent(1);
        tally.reply(CONNECTION, &mut unanswered, &body(CONNECTION + 1, 0), true, 1);
        assert_eq!((tally.crossed, tally.received, tally.outstanding()), (1, 0, 1));
    }

    #[test]
    fn a_reply_to_nothing_or_with_another_content_is_corrupt() {
        let (mut tally, mut unanswered) = sent(1);
        tally.reply(CONNECTION, &mut unanswered, &body(CONNECTION, 1), true, 1);
        let mut changed = body(CONNECTION, 0);
        changed[63] ^= 1;
        tally.reply(CONNECTION, &mut unanswered, &changed, true, 1);
        assert_eq!((tally.corrupt, tally.received, tally.outstanding()), (2, 0, 1));
    }

    #[test]
    fn a_reply_of_another_type_is_a_reply() {
        let (mut tally, mut unanswered) = sent(1);
        tally.reply(CONNECTION, &mut unanswered, &body(CONNECTION, 0), false, 1);
        assert_eq!((tally.mistyped, tally.received, tally.outstanding()), (1, 1, 0));
    }
}
