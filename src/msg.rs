use std::borrow::Cow;
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::frame::ZFrame;

/// A whole message: a queue of frames (CZMQ's `zmsg`).
///
/// Pushing and popping at both ends is O(1). Messages are made from anything that is one frame,
/// from tuples of up to eight and arrays of such, and by collecting an iterator. Text and bytes are
/// taken over without copying, so they are owned or `'static`; a borrowed `&str` or `&[u8]` wants
/// [`ZFrame::new`], which makes a copy: libzmq may read a message after the borrow has ended.
///
/// ```
/// use zkit::{ZFrame, ZMsg};
///
/// let mut msg = ZMsg::from(("request", 7_u32, vec![1, 2, 3]));
/// assert_eq!(msg.len(), 3);
/// assert_eq!(msg.pop_str()?, "request");
/// assert_eq!(msg.pop_u32()?, 7);
/// assert_eq!(msg.pop_front(), Some(ZFrame::new([1, 2, 3])));
///
/// let words = "as many as you like";
/// let msg: ZMsg = words.split(' ').map(ZFrame::new).collect();
/// assert_eq!(msg, ["as", "many", "as", "you", "like"].into());
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # Reading
///
/// `pop_...` takes the first frame as what it should be. An [`Error::Frame`] says which frame was
/// not so, counted as it was received, and why; the frame stays in the message.
///
/// ```
/// use zkit::ZMsg;
///
/// let mut msg = ZMsg::from(("temperature", "warm"));
/// assert_eq!(msg.pop_str()?, "temperature");
/// let error = msg.pop_parsed::<i32>().unwrap_err();
/// assert!(error.to_string().starts_with("frame 1: expected a i32 as text, found [004] warm"));
/// assert_eq!(msg.pop_str()?, "warm");
/// # Ok::<(), zkit::Error>(())
/// ```
///
/// # The envelope
///
/// A ROUTER puts the sender's identity in front of what it receives, and a REQ an empty
/// delimiter in front of what it sends. [`unwrap`](ZMsg::unwrap) takes both off and
/// [`wrap`](ZMsg::wrap) puts them back.
///
/// ```
/// use zkit::ZMsg;
///
/// let mut msg = ZMsg::from(("client-7", "", "HELLO"));
/// let client = msg.unwrap().expect("a ROUTER's message starts with an identity");
/// assert_eq!(msg, "HELLO".into());
/// msg.wrap(client);
/// assert_eq!(msg, ("client-7", "", "HELLO").into());
/// ```
#[derive(Clone, Default)]
#[doc(alias = "zmsg")]
pub struct ZMsg {
    /// Kept apart so that a message of one frame needs no allocation. None only if `rest` is
    /// empty.
    first: Option<ZFrame>,
    rest: Rest,
    /// How many frames were taken from the front: errors number a frame as it was received.
    popped: usize,
}

impl ZMsg {
    /// A message of no frames. Sending it does nothing.
    #[doc(alias = "zmsg_new")]
    pub fn new() -> ZMsg {
        ZMsg::default()
    }

    /// A message of no frames with room for `frames` of them.
    pub fn with_capacity(frames: usize) -> ZMsg {
        ZMsg { rest: Rest::with_capacity(frames.saturating_sub(1)), ..ZMsg::default() }
    }

    /// How many frames there are.
    #[doc(alias = "zmsg_size")]
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Whether there is no frame.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// How many bytes all frames hold together.
    #[doc(alias = "zmsg_content_size")]
    pub fn content_size(&self) -> usize {
        self.iter().map(|frame| frame.len()).sum()
    }

    /// Puts a frame in front of the others.
    #[doc(alias("zmsg_push", "zmsg_prepend", "zmsg_pushstr", "zmsg_pushmem"))]
    pub fn push_front(&mut self, frame: impl Into<ZFrame>) {
        if let Some(second) = self.first.replace(frame.into()) {
            self.rest.push_front(second);
        }
        self.popped = self.popped.saturating_sub(1);
    }

    /// Puts a frame behind the others.
    #[doc(alias("zmsg_add", "zmsg_append", "zmsg_addstr", "zmsg_addmem"))]
    pub fn push_back(&mut self, frame: impl Into<ZFrame>) {
        if self.first.is_none() {
            self.first = Some(frame.into());
        } else {
            self.rest.push_back(frame.into());
        }
    }

    /// Takes the first frame; `None` when there is none.
    #[doc(alias = "zmsg_pop")]
    pub fn pop_front(&mut self) -> Option<ZFrame> {
        let frame = self.first.take()?;
        self.first = self.rest.pop_front();
        self.popped += 1;
        Some(frame)
    }

    /// Takes the last frame; `None` when there is none.
    pub fn pop_back(&mut self) -> Option<ZFrame> {
        self.rest.pop_back().or_else(|| self.first.take())
    }

    /// Puts `frame` and an empty delimiter in front: the envelope of a reply to `frame`.
    #[doc(alias = "zmsg_wrap")]
    pub fn wrap(&mut self, frame: impl Into<ZFrame>) {
        self.push_front(ZFrame::empty());
        self.push_front(frame);
    }

    /// Takes the first frame, and drops the one after it if that is empty: the reverse of
    /// [`wrap`](ZMsg::wrap). `None` when there is no frame. It has nothing to do with panics.
    #[doc(alias = "zmsg_unwrap")]
    pub fn unwrap(&mut self) -> Option<ZFrame> {
        let frame = self.pop_front()?;
        if self.first().is_some_and(|delimiter| delimiter.is_empty()) {
            self.pop_front();
        }
        Some(frame)
    }

    /// The first frame; `None` when there is none.
    #[doc(alias = "zmsg_first")]
    pub fn first(&self) -> Option<&ZFrame> {
        self.first.as_ref()
    }

    /// The first frame, to [`reset`](ZFrame::reset) it.
    pub fn first_mut(&mut self) -> Option<&mut ZFrame> {
        self.first.as_mut()
    }

    /// The last frame; `None` when there is none.
    #[doc(alias = "zmsg_last")]
    pub fn last(&self) -> Option<&ZFrame> {
        self.rest.back().or(self.first.as_ref())
    }

    /// The last frame, to [`reset`](ZFrame::reset) it.
    pub fn last_mut(&mut self) -> Option<&mut ZFrame> {
        self.rest.back_mut().or(self.first.as_mut())
    }

    /// The frame at `index`, counted from 0 at the front; `None` behind the last.
    pub fn get(&self, index: usize) -> Option<&ZFrame> {
        match index.checked_sub(1) {
            None => self.first.as_ref(),
            Some(index) => self.rest.get(index),
        }
    }

    /// Takes the frame at `index`, counted from 0 at the front, out of the message; `None` behind
    /// the last.
    #[doc(alias = "zmsg_remove")]
    pub fn remove(&mut self, index: usize) -> Option<ZFrame> {
        match index.checked_sub(1) {
            None => self.pop_front(),
            Some(index) => self.rest.remove(index),
        }
    }

    /// The frames from first to last.
    #[doc(alias = "zmsg_next")]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &ZFrame> {
        self.into_iter()
    }

    /// The frames from first to last, to [`reset`](ZFrame::reset) them.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut ZFrame> {
        self.first.iter_mut().chain(&mut *self.rest)
    }

    /// Takes all frames out.
    pub fn clear(&mut self) {
        self.first = None;
        self.rest.clear();
        self.popped = 0;
    }

    /// Takes the first frame as text.
    ///
    /// # Errors
    /// [`Error::Frame`] when there is no frame or it is not UTF-8; the frame then stays in its
    /// place.
    #[doc(alias = "zmsg_popstr")]
    pub fn pop_str(&mut self) -> Result<String> {
        self.pop_with(|frame| match frame.as_str() {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(format!("expected UTF-8 text, found {frame:?} ({error})").into()),
        })
    }

    /// Takes the first frame as text and parses it: how CZMQ's `zsock_send` writes its numbers.
    ///
    /// ```
    /// use zkit::ZMsg;
    ///
    /// let mut msg = ZMsg::from(("42", "192.168.0.1"));
    /// let count: u32 = msg.pop_parsed()?;
    /// let address: std::net::IpAddr = msg.pop_parsed()?;
    /// assert_eq!((count, address.is_ipv4()), (42, true));
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Frame`] when there is no frame or it does not parse; the frame then stays in its
    /// place.
    pub fn pop_parsed<T>(&mut self) -> Result<T>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        self.pop_with(|frame| {
            let text = frame.as_str().map_err(|error| error.to_string());
            text.and_then(|text| text.parse().map_err(|error: T::Err| error.to_string())).map_err(
                |error| {
                    let wanted = std::any::type_name::<T>();
                    format!("expected a {wanted} as text, found {frame:?} ({error})").into()
                },
            )
        })
    }

    /// Takes the first frame as one byte.
    ///
    /// # Errors
    /// [`Error::Frame`] when there is no frame or it is not of one byte; the frame then stays in
    /// its place.
    pub fn pop_u8(&mut self) -> Result<u8> {
        self.pop_array().map(u8::from_be_bytes)
    }

    /// Takes the first frame as two bytes, big-endian.
    ///
    /// # Errors
    /// [`Error::Frame`] when there is no frame or it is not of two bytes; the frame then stays in
    /// its place.
    pub fn pop_u16(&mut self) -> Result<u16> {
        self.pop_array().map(u16::from_be_bytes)
    }

    /// Takes the first frame as four bytes, big-endian.
    ///
    /// # Errors
    /// [`Error::Frame`] when there is no frame or it is not of four bytes; the frame then stays
    /// in its place.
    pub fn pop_u32(&mut self) -> Result<u32> {
        self.pop_array().map(u32::from_be_bytes)
    }

    /// Takes the first frame as eight bytes, big-endian.
    ///
    /// # Errors
    /// [`Error::Frame`] when there is no frame or it is not of eight bytes; the frame then stays
    /// in its place.
    pub fn pop_u64(&mut self) -> Result<u64> {
        self.pop_array().map(u64::from_be_bytes)
    }

    fn pop_array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.pop_with(|frame| {
            <[u8; N]>::try_from(&frame[..])
                .map_err(|_| format!("expected {N} byte(s), found {frame:?}").into())
        })
    }

    /// Reads the first frame, and takes it if that succeeds.
    pub(crate) fn pop_with<T>(
        &mut self,
        read: impl FnOnce(&ZFrame) -> Result<T, Cow<'static, str>>,
    ) -> Result<T> {
        let index = self.popped;
        let value = match self.first() {
            Some(frame) => read(frame),
            None => Err("the message ends before it".into()),
        };
        let value = value.map_err(|reason| Error::Frame { index, reason })?;
        self.pop_front();
        Ok(value)
    }

    /// A message that is nothing but a status, in CZMQ's form: one frame of 8 bytes, as
    /// `zsock_signal` sends. [`ZSock::wait`](crate::ZSock::wait) waits for it.
    #[doc(alias = "zmsg_new_signal")]
    pub fn signal(status: u8) -> ZMsg {
        ZMsg::from(ZFrame::new((SIGNAL | u64::from(status)).to_ne_bytes()))
    }

    /// The status, if the message is a [`signal`](ZMsg::signal).
    #[doc(alias = "zmsg_signal")]
    pub fn signal_status(&self) -> Option<u8> {
        let frame = self.first.as_ref().filter(|_| self.rest.is_empty())?;
        let value = u64::from_ne_bytes((**frame).try_into().ok()?);
        (value & !0xFF == SIGNAL).then_some(value as u8)
    }

    /// The message as the guide dumps it: a line of 40 dashes, then a line per frame, its length
    /// in three digits and its content.
    ///
    /// ```
    /// use zkit::ZMsg;
    ///
    /// let msg = ZMsg::from(("Hello", ""));
    /// assert_eq!(
    ///     msg.dump().to_string(),
    ///     "----------------------------------------\n\
    ///      [005] Hello\n\
    ///      [000] "
    /// );
    /// ```
    #[doc(alias("zmsg_dump", "zmsg_print", "s_dump"))]
    pub fn dump(&self) -> impl fmt::Display + '_ {
        Dump(self)
    }

    /// The frames as they are kept, for a socket to send.
    #[inline]
    pub(crate) fn parts_mut(&mut self) -> (Option<&mut ZFrame>, &mut VecDeque<ZFrame>) {
        (self.first.as_mut(), &mut self.rest)
    }

    /// Forgets the last frame, which libzmq has taken and left empty: there is nothing to close.
    #[inline]
    pub(crate) fn last_sent(&mut self) {
        std::mem::forget(self.pop_back());
    }

    /// Where to receive the first frame.
    #[inline]
    pub(crate) fn first_slot(&mut self) -> &mut ZFrame {
        self.first.get_or_insert_default()
    }

    /// Where to receive the frames behind the first.
    #[inline]
    pub(crate) fn rest_slots(&mut self) -> &mut VecDeque<ZFrame> {
        self.rest = Rest::with_capacity(1);
        &mut self.rest
    }

    /// Where to put the next frame.
    #[inline]
    pub(crate) fn next_slot(&mut self) -> &mut ZFrame {
        if self.first.is_none() {
            return self.first_slot();
        }
        if self.rest.capacity() == 0 {
            self.rest = Rest::with_capacity(1);
        }
        self.rest.push_back(ZFrame::empty());
        self.rest.back_mut().expect("it was just pushed")
    }
}

/// The frames behind the first. A thread keeps the memory of the last one that it dropped for the
/// next: messages of several frames come and go all the time.
#[derive(Clone, Default, PartialEq)]
struct Rest(VecDeque<ZFrame>);

thread_local! {
    static SPARE: Cell<VecDeque<ZFrame>> = const { Cell::new(VecDeque::new()) };
}

impl Rest {
    /// Most messages of several frames have no more than this behind the first.
    const TYPICAL: usize = 4;
    /// More memory than this is not kept.
    const KEPT: usize = 64;

    #[inline]
    fn with_capacity(frames: usize) -> Rest {
        if frames == 0 {
            return Rest::default();
        }
        let mut rest = SPARE.try_with(Cell::take).unwrap_or_default();
        rest.reserve(frames.max(Rest::TYPICAL));
        Rest(rest)
    }
}

impl Drop for Rest {
    #[inline]
    fn drop(&mut self) {
        if (1..=Rest::KEPT).contains(&self.0.capacity()) {
            self.0.clear();
            // Too late in the life of the thread, the memory is freed as usual.
            let _ = SPARE.try_with(|spare| spare.set(std::mem::take(&mut self.0)));
        }
    }
}

impl Deref for Rest {
    type Target = VecDeque<ZFrame>;

    fn deref(&self) -> &VecDeque<ZFrame> {
        &self.0
    }
}

impl DerefMut for Rest {
    fn deref_mut(&mut self) -> &mut VecDeque<ZFrame> {
        &mut self.0
    }
}

/// The frames of a message by reference.
type Iter<'a> =
    std::iter::Chain<std::option::Iter<'a, ZFrame>, std::collections::vec_deque::Iter<'a, ZFrame>>;

/// The frames of a message by value.
type IntoIter =
    std::iter::Chain<std::option::IntoIter<ZFrame>, std::collections::vec_deque::IntoIter<ZFrame>>;

/// CZMQ's mark of a signal; the last byte is the status. The 8 bytes are in the machine's order.
const SIGNAL: u64 = 0x7766_5544_3322_1100;

struct Dump<'a>(&'a ZMsg);

impl fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("----------------------------------------")?;
        self.0.iter().try_for_each(|frame| write!(f, "\n{frame:?}"))
    }
}

/// A list of the frames in dump form: `[[005] Hello, [000] ]`.
impl fmt::Debug for ZMsg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl PartialEq for ZMsg {
    fn eq(&self, other: &ZMsg) -> bool {
        self.first == other.first && self.rest == other.rest
    }
}

impl Eq for ZMsg {}

impl<T: Into<ZFrame>> FromIterator<T> for ZMsg {
    fn from_iter<I: IntoIterator<Item = T>>(frames: I) -> ZMsg {
        // An iterator may go on after its end, which would leave a message without a first frame.
        let mut frames = frames.into_iter().fuse();
        let first = frames.next().map(Into::into);
        let mut rest = Rest::with_capacity(frames.size_hint().0);
        for frame in frames {
            rest.push_back(frame.into());
        }
        ZMsg { first, rest, popped: 0 }
    }
}

impl<T: Into<ZFrame>> Extend<T> for ZMsg {
    fn extend<I: IntoIterator<Item = T>>(&mut self, frames: I) {
        frames.into_iter().for_each(|frame| self.push_back(frame));
    }
}

impl IntoIterator for ZMsg {
    type Item = ZFrame;
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        self.first.into_iter().chain(std::mem::take(&mut { self.rest }.0))
    }
}

impl<'a> IntoIterator for &'a ZMsg {
    type Item = &'a ZFrame;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.first.iter().chain(&*self.rest)
    }
}

impl<T: Into<ZFrame>, const N: usize> From<[T; N]> for ZMsg {
    /// A frame from each element.
    fn from(frames: [T; N]) -> ZMsg {
        frames.into_iter().collect()
    }
}

macro_rules! from_one_frame {
    ($($type:ty),*) => {$(
        impl From<$type> for ZMsg {
            /// A message of one frame, made as [`ZFrame`] is made of the same.
            fn from(content: $type) -> ZMsg {
                ZMsg { first: Some(content.into()), ..ZMsg::default() }
            }
        }
    )*};
}

from_one_frame!(ZFrame, Vec<u8>, Box<[u8]>, String, &'static str, &'static [u8], u16, u32, u64);
from_one_frame!(&ZFrame, &Vec<u8>, &String);

impl From<&ZMsg> for ZMsg {
    /// A clone, which shares the content of larger frames.
    fn from(msg: &ZMsg) -> ZMsg {
        msg.clone()
    }
}

impl<const N: usize> From<&'static [u8; N]> for ZMsg {
    /// A message of one frame, made as [`ZFrame`] is made of the same.
    fn from(content: &'static [u8; N]) -> ZMsg {
        ZMsg::from(ZFrame::from(content))
    }
}

macro_rules! from_tuple {
    ($first:ident $($rest:ident)*) => {
        impl<$first: Into<ZFrame>, $($rest: Into<ZFrame>),*> From<($first, $($rest,)*)> for ZMsg {
            /// A frame from each element.
            #[inline]
            #[allow(non_snake_case, unused_mut, reason = "the elements are named as their types")]
            fn from(($first, $($rest,)*): ($first, $($rest,)*)) -> ZMsg {
                let count = <[&str]>::len(&[$(stringify!($rest)),*]);
                let mut rest = Rest::with_capacity(count);
                let first = Some($first.into());
                $(rest.push_back($rest.into());)*
                ZMsg { first, rest, popped: 0 }
            }
        }
    };
}

from_tuple!(A);
from_tuple!(A B);
from_tuple!(A B C);
from_tuple!(A B C D);
from_tuple!(A B C D E);
from_tuple!(A B C D E F);
from_tuple!(A B C D E F G);
from_tuple!(A B C D E F G H);
