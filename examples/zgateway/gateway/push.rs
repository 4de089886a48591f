//! The PUSH worker: hands what the I/O threads queued for a group to its back-end processes.

use std::rc::Rc;
use std::time::Instant;

use tracing::debug;
use zkit::{Error, HandlerId, Result, SendError, Waker, ZFrame, ZLoop, ZSock};

use super::io::IoThread;
use super::master::Master;
use super::queue::Receiver;
use super::unless_gone;
use crate::metrics::GroupMetrics;

/// Messages of one I/O thread that are sent before it is the next one's turn.
const BATCH: usize = 64;
/// Rounds of batches before it is the next group's turn.
const ROUNDS: usize = 16;

/// A client's message on its way to the back end.
pub struct Request {
    pub frame: ZFrame,
    pub received: Instant,
}

pub struct PushWorker {
    groups: Vec<Outlet>,
    io_threads: Vec<Waker<IoThread>>,
    /// Who waits for all to be sent.
    ending: Option<Waker<Master>>,
}

/// The PUSH socket of one group, and the queues that lead to it, one of each I/O thread.
pub struct Group {
    pub name: String,
    pub socket: ZSock,
    pub queues: Vec<Receiver<Request>>,
    pub metrics: GroupMetrics,
}

struct Outlet {
    name: String,
    socket: Rc<ZSock>,
    queues: Vec<Receiver<Request>>,
    metrics: GroupMetrics,
    /// A message that no process has room for, until one has, and its bytes.
    held: Option<(Request, usize)>,
    writable: Option<HandlerId>,
}

impl Outlet {
    fn new(Group { name, socket, queues, metrics }: Group) -> Outlet {
        Outlet { name, socket: Rc::new(socket), queues, metrics, held: None, writable: None }
    }

    /// Sends a message. Holds it, and returns false, when there is no process with room for it.
    fn send(&mut self, request: Request, bytes: usize, now: Instant) -> Result<bool> {
        let Request { frame, received } = request;
        match self.socket.try_send(frame) {
            Ok(()) => {
                self.metrics.forwarded.count(bytes);
                self.metrics
                    .request_seconds
                    .observe(now.saturating_duration_since(received).as_secs_f64());
                Ok(true)
            }
            Err(SendError { error: Error::WouldBlock, mut message }) => {
                let frame = message.pop_front();
                self.held = frame.map(|frame| (Request { frame, received }, bytes));
                Ok(false)
            }
            Err(failed) => Err(failed.into()),
        }
    }

    fn is_done(&mut self) -> bool {
        self.held.is_none() && self.queues.iter_mut().all(|queue| queue.first().is_none())
    }

    /// Sends what there is. Whether there is more after this turn, and room for it.
    fn forward(&mut self) -> Result<bool> {
        for _ in 0..ROUNDS {
            let now = Instant::now();
            if let Some((request, bytes)) = self.held.take() {
                if !self.send(request, bytes, now)? {
                    return Ok(false);
                }
            }
            let mut idle = true;
            for queue in 0..self.queues.len() {
                for _ in 0..BATCH {
                    let Some((request, bytes)) = self.queues[queue].receive() else { break };
                    idle = false;
                    if !self.send(request, bytes, now)? {
                        return Ok(false);
                    }
                }
            }
            if idle {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl PushWorker {
    pub fn new(groups: Vec<Group>, zloop: &mut ZLoop<'_, PushWorker>) -> PushWorker {
        zloop.on_wake(PushWorker::on_wake);
        let groups = groups.into_iter().map(Outlet::new).collect();
        PushWorker { groups, io_threads: Vec::new(), ending: None }
    }

    /// Learns of the I/O threads, before they have clients.
    pub fn meet(&mut self, io_threads: Vec<Waker<IoThread>>) {
        self.io_threads = io_threads;
    }

    /// Tells the master when all is sent, and lets ZeroMQ deliver it until `deadline`.
    pub fn end(&mut self, master: Waker<Master>, deadline: Instant) -> Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.groups.iter().try_for_each(|group| group.socket.set_linger(Some(left)))?;
        self.ending = Some(master);
        self.tell_the_end()
    }

    fn tell_the_end(&mut self) -> Result<()> {
        let groups = &mut self.groups;
        match self.ending.take_if(|_| groups.iter_mut().all(Outlet::is_done)) {
            Some(master) => unless_gone(master.post(Master::on_all_sent)),
            None => Ok(()),
        }
    }

    fn on_wake(&mut self, zloop: &mut ZLoop<'_, PushWorker>) -> Result<()> {
        for number in 0..self.groups.len() {
            if self.groups[number].held.is_none() {
                self.forward(zloop, number)?;
            }
        }
        Ok(())
    }

    fn forward(&mut self, zloop: &mut ZLoop<'_, PushWorker>, number: usize) -> Result<()> {
        let group = &mut self.groups[number];
        if group.forward()? {
            zloop.waker().wake()?;
        }
        group.metrics.flush();
        for (queue, io_thread) in group.queues.iter_mut().zip(&self.io_threads) {
            if queue.owes_a_wake() {
                unless_gone(io_thread.wake())?;
            }
        }
        match (group.held.is_some(), group.writable) {
            (true, None) => {
                debug!(group = group.name, "no process has room");
                let on_room =
                    move |push: &mut PushWorker, zloop: &mut ZLoop<'_, PushWorker>, _: &ZSock| {
                        push.forward(zloop, number)
                    };
                group.writable = Some(zloop.writable(Rc::clone(&group.socket), on_room)?);
            }
            (false, Some(writable)) => {
                debug!(group = group.name, "a process has room");
                zloop.cancel(writable);
                group.writable = None;
            }
            _ => {}
        }
        self.tell_the_end()
    }
}
