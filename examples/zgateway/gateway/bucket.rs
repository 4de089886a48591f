//! A token bucket: how fast a client may go on, with a second's worth at once.

use std::time::{Duration, Instant};

/// What a client may do at once after it has done nothing for a while.
const BURST: Duration = SECOND;
const SECOND: Duration = Duration::from_secs(1);

/// It keeps no tokens but the time at which all that was spent is earned again.
pub struct Bucket {
    per_second: u32,
    earned: Instant,
}

impl Bucket {
    pub fn new(per_second: u32, now: Instant) -> Bucket {
        Bucket { per_second, earned: now }
    }

    /// How long to wait for the next token. A debt counts, so that what costs more than a second's
    /// worth goes through, and is paid for afterwards.
    pub fn wait(&self, now: Instant) -> Duration {
        self.earned.saturating_duration_since(now).saturating_sub(BURST)
    }

    pub fn spend(&mut self, tokens: usize, now: Instant) {
        let price = (SECOND.as_nanos() as u64).saturating_mul(tokens as u64);
        let time = Duration::from_nanos(price / u64::from(self.per_second));
        self.earned = self.earned.max(now) + time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend_all(bucket: &mut Bucket, now: Instant) -> u32 {
        let mut spent = 0;
        while bucket.wait(now).is_zero() {
            bucket.spend(1, now);
            spent += 1;
        }
        spent
    }

    #[test]
    fn a_second_s_worth_may_be_spent_at_once_and_then_as_it_is_earned() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, start);
        assert_eq!(spend_all(&mut bucket, start), 11);
        let wait = bucket.wait(start);
        assert_eq!(wait, Duration::from_millis(100));
        assert_eq!(spend_all(&mut bucket, start + wait), 1);
        assert_eq!(spend_all(&mut bucket, start + wait + Duration::from_millis(500)), 5);
    }

    #[test]
    fn what_is_not_spent_in_a_second_is_gone() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, start);
        assert_eq!(spend_all(&mut bucket, start + Duration::from_secs(3600)), 11);
    }

    #[test]
    fn what_costs_more_than_a_second_s_worth_is_paid_for_afterwards() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, start);
        bucket.spend(50, start);
        assert_eq!(bucket.wait(start), Duration::from_secs(4));
        bucket.spend(usize::MAX, start);
        assert!(bucket.wait(start) > Duration::from_secs(1000));
    }
}
