//! From one socket to another.

use crate::error::{Errno, Result};
use crate::ffi::{RawMsg, retry};
use crate::frame::ZFrame;
use crate::msg::ZMsg;
use crate::socket::ZSock;
use crate::socket_type::SocketType;

/// What has become of the next message.
pub(crate) enum Moved {
    /// There is none.
    Nothing,
    /// It was sent: so many bytes.
    Sent(u64),
    /// It was received, and not sent. Sent as usual it may go.
    Unsent(ZMsg),
}

impl ZSock {
    /// Receives the next message and sends it with `sink`, both without waiting, and each frame as it
    /// comes: it need not be put together first. For the reactor that watches this socket.
    pub(crate) fn move_to(&self, sink: &ZSock) -> Result<Moved> {
        let recv = |frame: &mut RawMsg| retry(|| self.raw.recv(frame, false));
        let mut frame = RawMsg::empty();
        match recv(&mut frame) {
            Err(Errno::AGAIN | Errno::FSM) => return Ok(Moved::Nothing),
            received => received.map_err(|errno| self.cannot_receive(errno))?,
        }
        let mut more = frame.more_mut();
        let mut accepted = Accepted::none();
        let mut refused = None;
        if sink.sends_frame_by_frame(more) {
            sink.touch();
            let mut bytes = 0;
            loop {
                bytes += frame.len() as u64;
                if more {
                    accepted.push(&mut frame);
                }
                if let Err(errno) = retry(|| sink.raw.send(&mut frame, more)) {
                    refused = Some(errno);
                    break;
                }
                if !more {
                    // libzmq has left it empty: there is nothing to close.
                    std::mem::forget(frame);
                    sink.has_sent.set(true);
                    return Ok(Moved::Sent(bytes));
                }
                recv(&mut frame).map_err(|errno| self.cannot_receive(errno))?;
                more = frame.more_mut();
            }
            if more {
                accepted.pop(); // it was not
            }
        }
        let mut msg = accepted.into_msg();
        let index = msg.len();
        *msg.next_slot().raw_mut() = frame;
        while more {
            let slot = msg.next_slot().raw_mut();
            recv(slot).map_err(|errno| self.cannot_receive(errno))?;
            more = slot.more_mut();
        }
        if let Some(errno) = refused {
            let _ = sink.abandon(&msg, index, false, errno);
        }
        Ok(Moved::Unsent(msg))
    }

    /// Whether a message may be sent before all of it is there: it needs no form, or its first frame
    /// shows that it has it.
    fn sends_frame_by_frame(&self, more: bool) -> bool {
        match self.socket_type {
            SocketType::Req | SocketType::Stream => false,
            SocketType::Router => more && !self.plain_tcp.get(),
            _ => true,
        }
    }
}

/// Copies of the frames that libzmq has accepted: it takes them away, and may still refuse a later one.
struct Accepted {
    /// Where the first frames end in `bytes`, if they are short: an envelope, as most are.
    ends: [u8; 4],
    short: usize,
    bytes: [u8; 64],
    /// The frames behind those.
    rest: Option<ZMsg>,
}

impl Accepted {
    fn none() -> Accepted {
        Accepted { ends: [0; 4], short: 0, bytes: [0; 64], rest: None }
    }

    #[inline]
    fn push(&mut self, frame: &mut RawMsg) {
        let content = frame.bytes();
        let start = self.ends[..self.short].last().map_or(0, |end| usize::from(*end));
        let end = start + content.len();
        if self.short < self.ends.len() && end <= self.bytes.len() && self.rest.is_none() {
            self.bytes[start..end].copy_from_slice(content);
            self.ends[self.short] = end as u8;
            self.short += 1;
        } else {
            frame.copy_to(self.rest.get_or_insert_default().next_slot().raw_mut());
        }
    }

    fn pop(&mut self) {
        match &mut self.rest {
            Some(rest) => drop(rest.pop_back()),
            None => self.short -= 1,
        }
    }

    fn into_msg(self) -> ZMsg {
        let mut msg = ZMsg::new();
        let mut start = 0;
        for end in self.ends[..self.short].iter().map(|end| usize::from(*end)) {
            msg.push_back(ZFrame::new(&self.bytes[start..end]));
            start = end;
        }
        self.rest.into_iter().flatten().for_each(|frame| msg.push_back(frame));
        msg
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::Moved;
    use crate::context::ZContext;
    use crate::msg::ZMsg;
    use crate::socket::ZSock;
    use crate::socket_type::SocketType::{self, Dealer, Pull, Push};

    const LIMIT: Duration = Duration::from_secs(20);

    fn context() -> ZContext {
        ZContext::builder().linger(Some(Duration::ZERO)).signals(false).build().unwrap()
    }

    fn endless(ctx: &ZContext, socket_type: SocketType) -> ZSock {
        let socket = ctx.socket(socket_type).unwrap();
        socket.set_sndhwm(None).unwrap();
        socket.set_rcvhwm(None).unwrap();
        socket
    }

    /// Of thousands of frames, so that a peer dies in the middle of one.
    fn message(number: u64) -> ZMsg {
        (0..2_000 + number * 7 % 1_000).map(|index| number << 32 | index).collect()
    }

    #[test]
    fn what_a_dying_peer_does_not_take_comes_back_whole_and_goes_to_the_next() {
        for (feeding, moved, sending, receiving) in
            [(Push, Pull, Push, Pull), (Dealer, Dealer, Dealer, Dealer)]
        {
            let ctx = context();
            let (feed, source) = (endless(&ctx, feeding), endless(&ctx, moved));
            let name = format!("inproc://moved-{}", sending.name());
            source.bind(&name).unwrap();
            feed.connect(&name).unwrap();
            let sink = endless(&ctx, sending);
            let endpoint = sink.bind("tcp://127.0.0.1:*").unwrap();

            let mut number = 0;
            let mut unsent = message(number);
            for _ in 0..40 {
                let peer = endless(&context(), receiving);
                peer.connect(&endpoint).unwrap();
                sink.send_timeout(unsent, LIMIT).unwrap();
                assert_eq!(peer.recv_timeout(LIMIT).unwrap(), message(number));
                let dying = thread::spawn(move || drop(peer));
                unsent = loop {
                    number += 1;
                    feed.send(message(number)).unwrap();
                    match source.move_to(&sink).unwrap() {
                        Moved::Sent(bytes) => assert_eq!(bytes, 8 * message(number).len() as u64),
                        Moved::Unsent(msg) => break msg,
                        Moved::Nothing => panic!("{number} is not there"),
                    }
                };
                assert_eq!(unsent, message(number));
                dying.join().unwrap();
            }
        }
    }
}
