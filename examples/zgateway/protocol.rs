//! The bytes on either side of the gateway, all numbers big-endian.
//!
//! Clients speak TCP, the same way in both directions:
//!
//! ```text
//! | len: 4 | type: 1 | body: len bytes |
//! ```
//!
//! Back-end processes speak ZeroMQ, one frame a message, the same way in both directions:
//!
//! ```text
//! | id: 4 | body |
//! ```

use std::fmt;

/// `len` and `type`.
pub const HEADER: usize = 5;
/// The `id` before a body on the side of ZeroMQ.
pub const ID: usize = 4;

/// The first message of some input: a header's type and the length of its body, as far as they are
/// known.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Not even the header is there.
    Nothing,
    /// The header is there, and less than the whole body.
    Header { kind: u8 },
    /// The message is the first so many bytes, header included.
    Message { kind: u8, len: usize },
}

/// A header that announces a longer body than is allowed.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong {
    pub announced: u32,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a body of {} bytes was announced", self.announced)
    }
}

/// Looks at the first message of `input`, whose body may have `limit` bytes.
pub fn parse(input: &[u8], limit: usize) -> Result<Parsed, TooLong> {
    let Some((&[a, b, c, d, kind], body)) = input.split_first_chunk::<HEADER>() else {
        return Ok(Parsed::Nothing);
    };
    let announced = u32::from_be_bytes([a, b, c, d]);
    match usize::try_from(announced) {
        Ok(len) if len <= limit && len <= body.len() => {
            Ok(Parsed::Message { kind, len: HEADER + len })
        }
        Ok(len) if len <= limit => Ok(Parsed::Header { kind }),
        _ => Err(TooLong { announced }),
    }
}

/// What goes before a body on the side of the clients. A body of more than 4 GB has no header.
pub fn header(kind: u8, body: usize) -> Option<[u8; HEADER]> {
    let [a, b, c, d] = u32::try_from(body).ok()?.to_be_bytes();
    Some([a, b, c, d, kind])
}

/// Makes a client's whole message into that for the back end, in place: the id takes the room of
/// the header's end, so that no body is copied for it.
pub fn readdress(message: &mut [u8], id: u32) -> &[u8] {
    let addressed = &mut message[HEADER - ID..];
    addressed[..ID].copy_from_slice(&id.to_be_bytes());
    addressed
}

/// The id and the body of a message of the back end. None if it has no id.
pub fn addressed(frame: &[u8]) -> Option<(u32, &[u8])> {
    let (id, body) = frame.split_first_chunk::<ID>()?;
    Some((u32::from_be_bytes(*id), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 100;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        [&header(kind, body.len()).unwrap(), body].concat()
    }

    /// The messages of input that comes in the given pieces, as the gateway takes it in.
    fn parse_all<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(u8, Vec<u8>)> {
        let (mut inbox, mut messages) = (Vec::new(), Vec::new());
        for piece in pieces {
            inbox.extend_from_slice(piece);
            while let Parsed::Message { kind, len } = parse(&inbox, LIMIT).unwrap() {
                messages.push((kind, inbox[HEADER..len].to_vec()));
                inbox.drain(..len);
            }
        }
        assert!(inbox.is_empty());
        messages
    }

    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        assert_eq!(message(7, b"hi"), [0, 0, 0, 2, 7, b'h', b'i']);
        assert_eq!(readdress(&mut message(7, b"hi"), 0x0102_0304), [1, 2, 3, 4, b'h', b'i']);
        assert_eq!(addressed(&[1, 2, 3, 4, b'h', b'i']), Some((0x0102_0304, &b"hi"[..])));
        assert_eq!(addressed(&[1, 2, 3, 4]), Some((0x0102_0304, &[][..])));
        assert_eq!(addressed(&[1, 2, 3]), None);
        assert_eq!(header(1, u32::MAX as usize + 1), None);
    }

    #[test]
    fn input_in_any_two_or_three_pieces_is_the_same() {
        let expected: Vec<(u8, Vec<u8>)> =
            vec![(1, b"one".into()), (0, vec![]), (255, vec![0; LIMIT]), (1, b"four".into())];
        let input: Vec<u8> =
            expected.iter().flat_map(|(kind, body)| message(*kind, body)).collect();
        for first in 0..=input.len() {
            for second in first..=input.len() {
                let pieces = [&input[..first], &input[first..second], &input[second..]];
                assert_eq!(parse_all(pieces), expected, "cut at {first} and {second}");
            }
        }
        assert_eq!(parse_all(input.chunks(1)), expected, "byte by byte");
    }

    #[test]
    fn a_header_tells_its_type_before_the_body_is_there() {
        let input = message(9, b"body");
        for len in 0..HEADER {
            assert_eq!(parse(&input[..len], LIMIT), Ok(Parsed::Nothing));
        }
        for len in HEADER..input.len() {
            assert_eq!(parse(&input[..len], LIMIT), Ok(Parsed::Header { kind: 9 }));
        }
    }

    #[test]
    fn a_body_over_the_limit_is_refused_by_its_header() {
        let over = [&(LIMIT as u32 + 1).to_be_bytes()[..], &[1]].concat();
        assert_eq!(parse(&over, LIMIT), Err(TooLong { announced: LIMIT as u32 + 1 }));
        assert_eq!(parse(&[0xff; HEADER], LIMIT), Err(TooLong { announced: u32::MAX }));
        assert_eq!(parse(&over[..HEADER - 1], LIMIT), Ok(Parsed::Nothing));
    }
}
