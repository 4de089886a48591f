use std::borrow::Borrow;
use std::ffi::CString;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use crate::ffi::RawMsg;

/// One part of a message: bytes, as libzmq carries them (CZMQ's `zframe`).
///
/// A frame reads as `&[u8]`. It is never written in place, because its content may be shared:
/// cloning a frame above 33 bytes costs the same whatever its size. Replace the content as a
/// whole with [`reset`](ZFrame::reset).
///
/// Frames are made without copying from what they can keep (`Vec<u8>`, `String`, `&'static str`,
/// `&'static [u8]`), and with [`ZFrame::new`] from bytes that they must copy, which is what a
/// borrowed `&str` or `&[u8]` needs: libzmq may read a frame in its own thread after the borrow has
/// ended. Integers become their big-endian bytes, as ZeroMQ's protocols write them.
///
/// Frames are equal, ordered and hashed as their bytes are, so a map with frames as keys is
/// searched by `&[u8]`, and a frame is compared with text.
///
/// `Debug` shows a frame as the guide dumps it: the length, then text as it is and anything else
/// as hex.
///
/// ```
/// use zkit::ZFrame;
///
/// let frame = ZFrame::from("Hello");
/// assert_eq!(&frame[..], b"Hello");
/// assert!(frame == "Hello");
/// assert_eq!(format!("{frame:?}"), "[005] Hello");
/// assert_eq!(format!("{:?}", ZFrame::from(258_u32)), "[004] 00000102");
/// ```
#[derive(Default)]
#[doc(alias("zframe", "zmq_msg_t"))]
pub struct ZFrame(RawMsg);

impl ZFrame {
    /// A frame with a copy of `bytes`.
    ///
    /// ```
    /// use zkit::ZFrame;
    ///
    /// fn topic(name: &str) -> ZFrame {
    ///     ZFrame::new(name) // ZFrame::from(name) would need a &'static str
    /// }
    /// assert_eq!(&topic("weather")[..], b"weather");
    /// ```
    #[doc(alias = "zframe_new")]
    pub fn new(bytes: impl AsRef<[u8]>) -> ZFrame {
        ZFrame(RawMsg::copied(bytes.as_ref()))
    }

    /// A frame of no bytes, such as the delimiter of an envelope.
    #[doc(alias = "zframe_new_empty")]
    pub fn empty() -> ZFrame {
        ZFrame(RawMsg::empty())
    }

    /// How many bytes there are.
    #[doc(alias("zframe_size", "zmq_msg_size"))]
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts other content in place of the present one. Clones keep theirs.
    #[doc(alias = "zframe_reset")]
    pub fn reset(&mut self, content: impl Into<ZFrame>) {
        *self = content.into();
    }

    /// The content as text, if it is UTF-8.
    ///
    /// # Errors
    /// Says at which byte the content stops being UTF-8. `?` makes it an
    /// [`Error::Other`](crate::Error::Other).
    #[doc(alias("zframe_strdup", "zframe_streq"))]
    pub fn as_str(&self) -> Result<&str, std::str::Utf8Error> {
        std::str::from_utf8(self)
    }

    /// Whether more frames followed this one in the message in which it was received (`ZMQ_MORE`).
    /// False for a frame that was not received. A message knows how many frames it has, so that
    /// this is rarely needed.
    #[doc(alias = "zframe_more")]
    pub fn more(&self) -> bool {
        self.0.more()
    }

    /// Metadata that came with a received frame (`zmq_msg_gets`): `"Socket-Type"`, `"Identity"`,
    /// `"Peer-Address"`, `"User-Id"`, and what the peer or a ZAP handler added. `None` when there
    /// is none by this name, as for frames made here or received over inproc.
    ///
    /// What a peer says of itself is only as true as the peer:
    /// [`ZAuth`](crate::ZAuth#who-is-it) says what is to be believed.
    #[doc(alias("zframe_meta", "zmq_msg_gets"))]
    pub fn metadata(&self, name: &str) -> Option<&str> {
        let name = CString::new(name).ok()?;
        self.0.property(&name)?.to_str().ok()
    }

    pub(crate) fn raw_mut(&mut self) -> &mut RawMsg {
        &mut self.0
    }
}

impl Default for RawMsg {
    fn default() -> RawMsg {
        RawMsg::empty()
    }
}

/// Shares the content (`zmq_msg_copy`), or copies it up to 33 bytes.
impl Clone for ZFrame {
    fn clone(&self) -> ZFrame {
        ZFrame(self.0.copy())
    }
}

impl Deref for ZFrame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl AsRef<[u8]> for ZFrame {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for ZFrame {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for ZFrame {
    fn eq(&self, other: &ZFrame) -> bool {
        **self == **other
    }
}

impl Eq for ZFrame {}

impl PartialEq<[u8]> for ZFrame {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[u8]> for ZFrame {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for ZFrame {
    fn eq(&self, other: &&[u8; N]) -> bool {
        **self == other[..]
    }
}

impl PartialEq<str> for ZFrame {
    fn eq(&self, other: &str) -> bool {
        **self == *other.as_bytes()
    }
}

impl PartialEq<&str> for ZFrame {
    fn eq(&self, other: &&str) -> bool {
        **self == *other.as_bytes()
    }
}

impl PartialOrd for ZFrame {
    fn partial_cmp(&self, other: &ZFrame) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ZFrame {
    fn cmp(&self, other: &ZFrame) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

/// As the bytes hash, so that a map keyed by frames is searched by `&[u8]`.
impl Hash for ZFrame {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

/// The guide's dump form: the length, then text or hex, of which the first 70 characters or 35
/// bytes are shown.
impl fmt::Debug for ZFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const TEXT_SHOWN: usize = 70;
        const BINARY_SHOWN: usize = 35;

        let printable = |byte: &u8| (b' '..=b'~').contains(byte);
        write!(f, "[{:03}] ", self.len())?;
        let shown = if let Some(text) = self.as_str().ok().filter(|_| self.iter().all(printable)) {
            let shown = text.len().min(TEXT_SHOWN);
            f.write_str(&text[..shown])?;
            shown
        } else {
            let shown = self.len().min(BINARY_SHOWN);
            self[..shown].iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
            shown
        };
        if shown < self.len() { f.write_str("...") } else { Ok(()) }
    }
}

/// Takes the bytes over without a copy.
impl From<Vec<u8>> for ZFrame {
    fn from(bytes: Vec<u8>) -> ZFrame {
        ZFrame(RawMsg::owned(bytes))
    }
}

/// Takes the bytes over without a copy.
impl From<Box<[u8]>> for ZFrame {
    fn from(bytes: Box<[u8]>) -> ZFrame {
        ZFrame::from(bytes.into_vec())
    }
}

/// Takes the text over without a copy.
impl From<String> for ZFrame {
    fn from(text: String) -> ZFrame {
        ZFrame::from(text.into_bytes())
    }
}

/// Refers to the bytes without a copy. Bytes that are borrowed for a time want [`ZFrame::new`].
impl From<&'static [u8]> for ZFrame {
    fn from(bytes: &'static [u8]) -> ZFrame {
        ZFrame(RawMsg::constant(bytes))
    }
}

/// Refers to the bytes without a copy. Bytes that are borrowed for a time want [`ZFrame::new`].
impl<const N: usize> From<&'static [u8; N]> for ZFrame {
    fn from(bytes: &'static [u8; N]) -> ZFrame {
        ZFrame::from(&bytes[..])
    }
}

/// Refers to the text without a copy. Text that is borrowed for a time wants [`ZFrame::new`].
impl From<&'static str> for ZFrame {
    fn from(text: &'static str) -> ZFrame {
        ZFrame::from(text.as_bytes())
    }
}

/// Copies the bytes.
impl<const N: usize> From<[u8; N]> for ZFrame {
    fn from(bytes: [u8; N]) -> ZFrame {
        ZFrame::new(bytes)
    }
}

/// A clone, which shares the content of a larger frame.
impl From<&ZFrame> for ZFrame {
    fn from(frame: &ZFrame) -> ZFrame {
        frame.clone()
    }
}

/// Copies the bytes.
impl From<&Vec<u8>> for ZFrame {
    fn from(bytes: &Vec<u8>) -> ZFrame {
        ZFrame::new(bytes)
    }
}

/// Copies the text.
impl From<&String> for ZFrame {
    fn from(text: &String) -> ZFrame {
        ZFrame::new(text)
    }
}

macro_rules! from_integer {
    ($($integer:ty),*) => {$(
        impl From<$integer> for ZFrame {
            /// The big-endian bytes.
            fn from(number: $integer) -> ZFrame {
                ZFrame::new(number.to_be_bytes())
            }
        }
    )*};
}

from_integer!(u16, u32, u64);
