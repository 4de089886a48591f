//! The PULL worker: receives the replies of the back-end processes and gives each to the I/O thread
//! whose client it is for.

use std::time::Instant;

use prometheus::IntCounter;
use zkit::{HandlerId, Result, Waker, ZFrame, ZLoop, ZMsg, ZSock};

use super::ids::Layout;
use super::io::IoThread;
use super::queue::Sender;
use crate::protocol::{self, ID};

/// A message of the back end on its way to a client.
pub struct Reply {
    pub frame: ZFrame,
    /// The entry of the configuration by whose endpoint it came.
    pub entry: usize,
    pub received: Instant,
}

pub struct PullWorker {
    layout: Layout,
    queues: Vec<Sender<Reply>>,
    io_threads: Vec<Waker<IoThread>>,
    readers: Vec<HandlerId>,
    /// A reply whose I/O thread has to catch up first.
    held: Option<Reply>,
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
            readers.push(zloop.reader(socket, move |pull: &mut PullWorker, zloop, msg| {
                pull.on_reply(zloop, entry, msg)
            })?);
        }
        zloop.on_wake(PullWorker::on_wake);
        let io_threads = Vec::new();
        Ok(PullWorker { layout, queues, io_threads, readers, held: None, body_limit, dropped })
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
        let frame = msg.pop_front().filter(|frame| msg.is_empty() && frame.len() >= ID);
        let Some(frame) = frame else {
            self.dropped.malformed.inc();
            return Ok(());
        };
        if frame.len() > ID + self.body_limit {
            self.dropped.too_long.inc();
            return Ok(());
        }
        self.deliver(zloop, Reply { frame, entry, received: Instant::now() })
    }

    /// An I/O thread has room again.
    fn on_wake(&mut self, zloop: &mut ZLoop<'_, PullWorker>) -> Result<()> {
        let Some(reply) = self.held.take() else { return Ok(()) };
        self.deliver(zloop, reply)?;
        if self.held.is_none() {
            self.readers.iter().for_each(|&reader| _ = zloop.resume(reader));
        }
        Ok(())
    }

    fn deliver(&mut self, zloop: &mut ZLoop<'_, PullWorker>, reply: Reply) -> Result<()> {
        let thread = protocol::addressed(&reply.frame).map(|(id, _)| self.layout.thread(id));
        let to = thread.and_then(|at| self.queues.get_mut(at).zip(self.io_threads.get(at)));
        let Some((queue, io_thread)) = to else {
            self.dropped.unknown.inc();
            return Ok(());
        };
        let bytes = reply.frame.len();
        if queue.is_full(bytes) {
            self.readers.iter().for_each(|&reader| _ = zloop.pause(reader));
            self.held = Some(reply);
            return Ok(());
        }
        // There is room, as was seen just now.
        let _ = queue.send(reply, bytes);
        io_thread.wake()
    }
}
