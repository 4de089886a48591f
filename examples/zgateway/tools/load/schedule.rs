//! Which messages may be sent, and when they are due.

use std::time::Duration;

use super::Args;
use super::tally::Unanswered;

const SECOND: u64 = Duration::from_secs(1).as_nanos() as u64;

/// With a rate, the messages of all connections of all threads are one row in time, and the busy
/// connections take turns at it.
pub(super) struct Schedule {
    busy: u32,
    in_flight: u32,
    rate: Option<u32>,
    start: u64,
    /// How many of the row are due.
    due: u64,
    over: bool,
}

impl Schedule {
    /// Starts at `start`, in nanoseconds.
    pub(super) fn new(args: &Args, start: u64) -> Schedule {
        let (busy, in_flight) = (args.busy(), args.in_flight());
        Schedule { busy, in_flight, rate: args.rate, start, due: 0, over: false }
    }

    /// How many messages a connection may send now.
    pub(super) fn allowed(&self, connection: u32, unanswered: &Unanswered) -> u32 {
        if self.over || connection >= self.busy {
            return 0;
        }
        let sent = unanswered.sent();
        let due = match self.rate {
            Some(_) => {
                let turns = self.due.saturating_sub(connection.into()).div_ceil(self.busy.into());
                u32::try_from(turns).unwrap_or(u32::MAX)
            }
            None => u32::MAX,
        };
        self.in_flight.saturating_sub(unanswered.count()).min(due - sent)
    }

    /// When a message is due, if that is not whenever it may be sent.
    pub(super) fn time(&self, connection: u32, sequence: u32) -> Option<u64> {
        self.row(u64::from(connection) + u64::from(sequence) * u64::from(self.busy))
    }

    /// When the next message of the row is due.
    pub(super) fn next(&self) -> Option<u64> {
        self.row(self.due)
    }

    fn row(&self, message: u64) -> Option<u64> {
        let after = u128::from(message) * u128::from(SECOND) / u128::from(self.rate?);
        Some(self.start + after as u64)
    }

    /// Takes in that it is `now`. Returns the connections whose turn has come.
    pub(super) fn advance(&mut self, now: u64) -> impl Iterator<Item = u32> + use<> {
        let before = self.due;
        if let Some(rate) = self.rate {
            let passed = u128::from(now.saturating_sub(self.start));
            self.due = (passed * u128::from(rate) / u128::from(SECOND)) as u64 + 1;
        }
        let busy = u64::from(self.busy);
        (before..self.due.min(before + busy)).map(move |message| (message % busy) as u32)
    }

    /// Nothing is sent any more. Returns how long it was, if it is news.
    pub(super) fn end(&mut self, now: u64) -> Option<Duration> {
        let news = !std::mem::replace(&mut self.over, true);
        news.then(|| Duration::from_nanos(now - self.start))
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(busy: u32, rate: Option<u32>) -> Schedule {
        Schedule { busy, in_flight: 4, rate, start: 1000, due: 0, over: false }
    }

    #[test]
    fn a_closed_loop_sends_while_few_are_in_flight() {
        let (mut schedule, mut unanswered) = (schedule(1, None), Unanswered::default());
        assert_eq!(schedule.allowed(0, &unanswered), 4);
        unanswered.add();
        assert_eq!(schedule.allowed(0, &unanswered), 3);
        assert_eq!(schedule.allowed(1, &unanswered), 0, "it is not busy");
        assert_eq!(schedule.time(0, 0), None);
        assert_eq!(schedule.end(3000), Some(Duration::from_nanos(2000)));
        assert_eq!((schedule.allowed(0, &unanswered), schedule.end(4000)), (0, None));
    }

    #[test]
    fn a_rate_is_one_row_at_which_connections_take_turns() {
        let (mut schedule, mut unanswered) = (schedule(3, Some(1_000_000)), Unanswered::default());
        assert_eq!(schedule.advance(1000).collect::<Vec<_>>(), [0]);
        assert_eq!(schedule.advance(1999).count(), 0);
        assert_eq!(schedule.advance(5000).collect::<Vec<_>>(), [1, 2, 0, 1].split_at(3).0);
        assert_eq!(schedule.next(), Some(6000));
        let allowed = [0, 1, 2].map(|connection| schedule.allowed(connection, &unanswered));
        assert_eq!(allowed, [2, 2, 1]);
        let times = [(0, 0), (1, 0), (2, 0), (0, 1)].map(|(one, nth)| schedule.time(one, nth));
        assert_eq!(times, [1000, 2000, 3000, 4000].map(Some));

        unanswered.add();
        assert_eq!(schedule.allowed(0, &unanswered), 1);
        assert_eq!(schedule.advance(1_001_000).count(), 3);
        assert_eq!(schedule.allowed(0, &unanswered), 3, "the limit of what is in flight");
    }
}
