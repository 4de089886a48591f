//! What the load generator writes into a body, to know a right reply from a wrong one:
//!
//! ```text
//! | connection: 4 | sequence: 4 | time: 8 | pattern: the rest |
//! ```
//!
//! The pattern is made of what is before it and the body's length, so that no part of another body
//! fits.

/// The fields and the first word of the pattern.
pub(super) const LEAST: usize = FIELDS + WORD;
const FIELDS: usize = 16;
const WORD: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) connection: u32,
    /// Counts the messages of a connection.
    pub(super) sequence: u32,
    /// When it was sent, or due to be sent, in nanoseconds.
    pub(super) time: u64,
}

impl Stamp {
    /// Fills `body`, which has at least [`LEAST`] bytes.
    pub(super) fn write(self, body: &mut [u8]) {
        let mut pattern = self.pattern(body.len());
        let (fields, rest) = body.split_at_mut(FIELDS);
        fields.copy_from_slice(&self.fields());
        let mut words = rest.chunks_exact_mut(WORD);
        for (place, word) in words.by_ref().zip(&mut pattern) {
            place.copy_from_slice(&word);
        }
        let end = words.into_remainder();
        if let Some(word) = pattern.next() {
            end.copy_from_slice(&word[..end.len()]);
        }
    }

    /// What `body` was filled with. None if it is not as it was then.
    pub(super) fn read(body: &[u8]) -> Option<Stamp> {
        let (fields, rest) = body.split_first_chunk::<FIELDS>()?;
        if rest.len() < WORD {
            return None;
        }
        let fields = u128::from_be_bytes(*fields);
        let stamp = Stamp {
            connection: (fields >> 96) as u32,
            sequence: (fields >> 64) as u32,
            time: fields as u64,
        };
        let mut words = rest.chunks_exact(WORD);
        let mut pattern = stamp.pattern(body.len());
        // To look at all words is faster than to stop at a wrong one.
        let mut intact = true;
        for (place, word) in words.by_ref().zip(&mut pattern) {
            intact &= *place == word;
        }
        let end = words.remainder();
        intact &= pattern.next().is_some_and(|word| *end == word[..end.len()]);
        intact.then_some(stamp)
    }

    fn fields(self) -> [u8; FIELDS] {
        let Stamp { connection, sequence, time } = self;
        let fields = u128::from(connection) << 96 | u128::from(sequence) << 64 | u128::from(time);
        fields.to_be_bytes()
    }

    /// Words without end, no two the same.
    fn pattern(self, len: usize) -> impl Iterator<Item = [u8; WORD]> {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        let who = u64::from(self.connection) << 32 | u64::from(self.sequence);
        let mixed = who.wrapping_mul(ODD) ^ self.time;
        let mut word = mixed.wrapping_mul(ODD) ^ len as u64;
        std::iter::repeat_with(move || {
            word = word.wrapping_add(ODD);
            word.to_le_bytes()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { connection: 7, sequence: 1_000_000, time: 123_456_789_012 };

    fn body(len: usize) -> Vec<u8> {
        let mut body = vec![0; len];
        STAMP.write(&mut body);
        body
    }

    #[test]
    fn a_body_is_read_as_it_was_written() {
        for len in LEAST..=LEAST + 2 * WORD {
            assert_eq!(Stamp::read(&body(len)), Some(STAMP), "{len} bytes");
        }
    }

    #[test]
    fn no_changed_bit_goes_unnoticed() {
        for len in [LEAST, 61, 64] {
            for bit in 0..len * 8 {
                let mut body = body(len);
                body[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Stamp::read(&body), None, "bit {bit} of {len} bytes");
            }
        }
    }

    #[test]
    fn pieces_of_bodies_do_not_fit_together() {
        let other = Stamp { sequence: STAMP.sequence + 1, ..STAMP };
        let mut mixed = body(64);
        let mut second = vec![0; 64];
        other.write(&mut second);
        mixed[40..].copy_from_slice(&second[40..]);
        assert_eq!(Stamp::read(&mixed), None);

        let mut shifted = body(64);
        shifted[FIELDS..].rotate_left(WORD);
        assert_eq!(Stamp::read(&shifted), None);
        for len in 0..64 {
            assert_eq!(Stamp::read(&body(64)[..len]), None, "the first {len} bytes");
        }
    }
}
