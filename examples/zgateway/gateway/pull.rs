//! The PULL worker: receives the replies of the back-end processes and gives each to the I/O thread
//! whose client it is for.

use std::time::Instant;

use prometheus::IntCounter;
use zkit::{HandlerId, Result, Waker, ZFrame, ZLoop, ZMsg, ZSock};

use super::ids::Layout;
use super::io::IoThread;
use super::queue::Sender;
use super::unless_gone;
use crate::protocol::{self, ID};

/// Replies that are received at one endpoint before it is the next one's turn.
const BURST: usize = 64;

/// A message of the back end on its way to a client.
pub struct Reply {
    /// Whom it is for.
    pub id: u32,
    /// With the id.
    pub frame: ZFrame,
    /// The entry of the configuration by whose endpoint it came.
    pub entry: usize,
    pub received: Instant,
}

pub struct PullWorker {
    layout: Layout,
    queues: Vec<Sender<Reply>>,
    io_threads: Vec<Waker<IoThread>>,
    /// When the first reply of this turn was received.
    now: Option<Instant>,
    /// By I/O thread, whether it was given something in this turn.
    given: Vec<bool>,
    readers: Vec<HandlerId>,
    /// A reply whose I/O thread has to catch up first, and its bytes.
    held: Option<(Reply, usize)>,
    body_limit: usize,
    dropped: Dropped,
}

/// Replies that reach no I/O thread, by what is wrong with them.
pub struct Dropped {
    /// More than a frame, or too short for an id.
    pub malformed: IntCounter,
    pub too_long: IntCounter,
    /// Their ids cannot have been given to anybody.
    pub unknown: IntCounter,
}

impl PullWorker {
    pub fn new(
        layout: Layout,
        sockets: Vec<ZSock>,
        queues: Vec<Sender<Reply>>,
        body_limit: usize,
        dropped: Dropped,
        zloop: &mut ZLoop<'_, PullWorker>,
    ) -> Result<PullWorker> {
        let mut readers = Vec::new();
        for (entry, socket) in sockets.into_iter().enumerate() {
            let reader = zloop.reader(socket, move |pull: &mut PullWorker, zloop, msg| {
                pull.on_reply(zloop, entry, msg)
            })?;
            zloop.set_burst(reader, BURST);
            readers.push(reader);
        }
        zloop.on_wake(PullWorker::on_wake);
        zloop.on_turn_end(PullWorker::on_turn_end);
        let given = vec![false; queues.len()];
        let io_threads = Vec::new();
        Ok(PullWorker {
            layout,
            queues,
            io_threads,
            now: None,
            given,
            readers,
            held: None,
            body_limit,
            dropped,
        })
    }

    /// Learns of the I/O threads, before they have clients.
    pub fn meet(&mut self, io_threads: Vec<Waker<IoThread>>) {
        self.io_threads = io_threads;
    }

    fn on_reply(
        &mut self,
        zloop: &mut ZLoop<'_, PullWorker>,
        entry: usize,
        mut msg: ZMsg,
    ) -> Result<()> {
        let frame = msg.pop_front().filter(|_| msg.is_empty());
        let frame = frame.unwrap_or_default();
        match protocol::addressed(&frame).map(|(id, body)| (id, body.len())) {
            None => self.dropped.malformed.inc(),
            Some((_, len)) if len > self.body_limit => self.dropped.too_long.inc(),
            Some((id, len)) => {
                let received = *self.now.get_or_insert_with(Instant::now);
                self.deliver(zloop, Reply { id, frame, entry, received }, ID + len);
            }
        }
        Ok(())
    }

    /// An I/O thread has room again.
    fn on_wake(&mut self, zloop: &mut ZLoop<'_, PullWorker>) -> Result<()> {
        let Some((reply, bytes)) = self.held.take() else { return Ok(()) };
        self.deliver(zloop, reply, bytes);
        if self.held.is_none() {
            self.readers.iter().for_each(|&reader| _ = zloop.resume(reader));
        }
        Ok(())
    }

    fn deliver(&mut self, zloop: &mut ZLoop<'_, PullWorker>, reply: Reply, bytes: usize) {
        let thread = self.layout.thread(reply.id);
        let to = self.queues.get_mut(thread).zip(self.given.get_mut(thread));
        let Some((queue, given)) = to else {
            self.dropped.unknown.inc();
            return;
        };
        if queue.is_full(bytes) {
            self.readers.iter().for_each(|&reader| _ = zloop.pause(reader));
            self.held = Some((reply, bytes));
            return;
        }
        // There is room, as was seen just now.
        let _ = queue.send(reply, bytes);
        *given = true;
    }

    fn on_turn_end(&mut self, _: &mut ZLoop<'_, PullWorker>) -> Result<()> {
        self.now = None;
        for (given, io_thread) in self.given.iter_mut().zip(&self.io_threads) {
            if std::mem::take(given) {
                unless_gone(io_thread.wake())?;
            }
        }
        Ok(())
    }
}
