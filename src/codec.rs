//! Messages to and from bytes, in CZMQ's layouts.

use std::io::{self, Read, Write};

use crate::error::{Error, Result};
use crate::frame::ZFrame;
use crate::msg::ZMsg;

/// A frame this long or longer has its size in four bytes behind this one.
const LONG: u8 = 0xFF;

/// # Messages as bytes and in files
///
/// Two layouts, both CZMQ's.
///
/// [`encode`](ZMsg::encode) puts a message into one frame, byte for byte as `zmsg_encode` does:
/// before each frame's content its size, in one byte up to 254, else the byte `0xFF` and four
/// bytes big-endian.
///
/// [`save`](ZMsg::save) writes a message to a file as `zmsg_save` does: before each frame's
/// content its size as a `size_t` of this machine (8 bytes little-endian on most), and nothing at
/// the end, so that a file holds one message. It is meant for the machine that wrote it; to move
/// messages between machines, write what `encode` gives.
///
/// What CZMQ's file format cannot hold, or does not check:
/// - `zmsg_save` fails on a frame without content, and `zmsg_load` on a file with one. zkit writes
///   and reads them. A message without empty frames goes both ways.
/// - `zmsg_load` takes a file that ends inside a size for the end of the message; zkit reports it.
/// - `zmsg_load` believes the size that it reads and allocates as much; zkit allocates as the
///   content arrives.
impl ZMsg {
    /// The message in one frame.
    ///
    /// ```
    /// use zkit::ZMsg;
    ///
    /// let msg = ZMsg::from(("Hello", ""));
    /// let bytes = msg.encode()?;
    /// assert_eq!(bytes, b"\x05Hello\x00");
    /// assert_eq!(ZMsg::decode(&bytes)?, msg);
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Encode`] when a frame is of 4 GiB or more.
    #[doc(alias = "zmsg_encode")]
    pub fn encode(&self) -> Result<ZFrame> {
        if let Some(index) = self.iter().position(|frame| u32::try_from(frame.len()).is_err()) {
            return Err(Error::Encode { index, reason: "the format ends at 4 GiB a frame".into() });
        }
        let mut bytes = Vec::with_capacity(self.content_size() + 5 * self.len());
        for frame in self.iter() {
            match u8::try_from(frame.len()) {
                Ok(size) if size != LONG => bytes.push(size),
                _ => {
                    bytes.push(LONG);
                    bytes.extend((frame.len() as u32).to_be_bytes());
                }
            }
            bytes.extend_from_slice(frame);
        }
        Ok(ZFrame::from(bytes))
    }

    /// The message that [`encode`](ZMsg::encode) or CZMQ's `zmsg_encode` put into `bytes`.
    ///
    /// Nothing is allocated before the whole input is found well-formed. The content takes no
    /// more memory than the input; each frame takes 64 bytes beside it, and some more when it is
    /// too large to be inline.
    ///
    /// # Errors
    /// [`Error::Decode`] with the offset of the first size that the input does not hold.
    #[doc(alias = "zmsg_decode")]
    pub fn decode(bytes: &[u8]) -> Result<ZMsg> {
        let mut frames = 0;
        for frame in Encoded::of(bytes) {
            frame?;
            frames += 1;
        }
        let mut msg = ZMsg::with_capacity(frames);
        for frame in Encoded::of(bytes) {
            msg.push_back(ZFrame::new(frame?));
        }
        Ok(msg)
    }

    /// Puts `msg`, [encoded](ZMsg::encode), behind the other frames, as one frame.
    ///
    /// ```
    /// use zkit::ZMsg;
    ///
    /// let mut job = ZMsg::from("JOB");
    /// job.push_msg(&("resize", "cat.jpg").into())?;
    /// assert_eq!(job.len(), 2);
    /// assert_eq!(job.pop_str()?, "JOB");
    /// assert_eq!(job.pop_msg()?, ("resize", "cat.jpg").into());
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`encode`](ZMsg::encode).
    #[doc(alias = "zmsg_addmsg")]
    pub fn push_msg(&mut self, msg: &ZMsg) -> Result<()> {
        self.push_back(msg.encode()?);
        Ok(())
    }

    /// Takes the first frame as an [encoded](ZMsg::encode) message.
    ///
    /// # Errors
    /// [`Error::Frame`] when there is no frame or it does not decode; it then stays in its place.
    #[doc(alias = "zmsg_popmsg")]
    pub fn pop_msg(&mut self) -> Result<ZMsg> {
        self.pop_with(|frame| ZMsg::decode(frame).map_err(|error| error.to_string().into()))
    }

    /// Writes the message to a file, or to anything else that is written.
    ///
    /// ```
    /// use std::fs::File;
    /// use zkit::ZMsg;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("message");
    /// let msg = ZMsg::from(("one", "", "three"));
    /// msg.save(File::create(&path)?)?;
    /// assert_eq!(ZMsg::load(File::open(&path)?)?, msg);
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] when writing fails.
    #[doc(alias = "zmsg_save")]
    pub fn save(&self, mut writer: impl Write) -> Result<()> {
        let written = self.iter().try_for_each(|frame| {
            writer.write_all(&frame.len().to_ne_bytes())?;
            writer.write_all(frame)
        });
        written
            .and_then(|()| writer.flush())
            .map_err(|source| Error::Io { what: "cannot save a message".into(), source })
    }

    /// Reads the message that [`save`](ZMsg::save) or CZMQ's `zmsg_save` wrote, to the end of the
    /// input. An empty input is a message of no frames.
    ///
    /// # Errors
    /// [`Error::Decode`] with the offset when the input ends inside a frame, [`Error::Io`] when
    /// reading fails.
    #[doc(alias = "zmsg_load")]
    pub fn load(mut reader: impl Read) -> Result<ZMsg> {
        let io = |source| Error::Io { what: "cannot load a message".into(), source };
        let mut msg = ZMsg::new();
        let mut offset = 0;
        loop {
            let mut size = [0; size_of::<usize>()];
            let read = fill(&mut reader, &mut size).map_err(io)?;
            if read == 0 {
                return Ok(msg);
            }
            if read < size.len() {
                return Err(Error::Decode {
                    offset,
                    reason: "the input ends inside a size".into(),
                });
            }
            let size = usize::from_ne_bytes(size) as u64;
            // Grows as the content arrives: a size alone allocates nothing.
            let mut content = Vec::new();
            let read = (&mut reader).take(size).read_to_end(&mut content).map_err(io)? as u64;
            if read < size {
                let reason = format!("a frame of {size} bytes, but only {read} follow").into();
                return Err(Error::Decode { offset, reason });
            }
            msg.push_back(content);
            offset += size_of::<usize>() as u64 + size;
        }
    }
}

/// Reads until `buffer` is full or the input ends.
pub(crate) fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The frames in an encoded message, in place.
struct Encoded<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl Encoded<'_> {
    fn of(bytes: &[u8]) -> Encoded<'_> {
        Encoded { bytes, offset: 0 }
    }
}

impl<'a> Iterator for Encoded<'a> {
    type Item = Result<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&first, rest) = self.bytes[self.offset..].split_first()?;
        let fault = |reason: String| {
            Some(Err(Error::Decode { offset: self.offset as u64, reason: reason.into() }))
        };
        let (size, rest) = if first == LONG {
            let Some((size, rest)) = rest.split_first_chunk() else {
                return fault("the input ends inside a size".into());
            };
            (u32::from_be_bytes(*size) as usize, rest)
        } else {
            (usize::from(first), rest)
        };
        let Some((frame, rest)) = rest.split_at_checked(size) else {
            return fault(format!("a frame of {size} bytes, but only {} follow", rest.len()));
        };
        self.offset = self.bytes.len() - rest.len();
        Some(Ok(frame))
    }
}
