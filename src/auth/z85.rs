//! Keys as text: Z85 (RFC 32), five characters for four bytes.

use zeroize::Zeroizing;

/// The length of a key of 32 bytes as text.
pub(super) const TEXT: usize = 40;

const ALPHABET: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// The text of a key. It wipes itself, since the key may be secret.
pub(super) fn encode(key: &[u8; 32]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(TEXT));
    for bytes in key.chunks_exact(4) {
        let value = bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
        for place in [85 * 85 * 85 * 85, 85 * 85 * 85, 85 * 85, 85, 1] {
            text.push(char::from(ALPHABET[(value / place % 85) as usize]));
        }
    }
    text
}

/// A key that wipes itself. In a box, because a move leaves a copy behind.
pub(super) type Key = Box<Zeroizing<[u8; 32]>>;

/// The key that a text stands for, if it stands for one.
pub(super) fn decode(text: &[u8]) -> Option<Key> {
    let mut key = Key::default();
    if text.len() != TEXT {
        return None;
    }
    for (characters, bytes) in text.chunks_exact(5).zip(key.chunks_exact_mut(4)) {
        let mut value = 0_u32;
        for character in characters {
            let digit = ALPHABET.iter().position(|digit| digit == character)?;
            value = value.checked_mul(85)?.checked_add(digit as u32)?;
        }
        bytes.copy_from_slice(&value.to_be_bytes());
    }
    Some(key)
}
