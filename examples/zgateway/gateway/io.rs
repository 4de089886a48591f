//! An I/O thread: the connections of its clients. It reads, cuts the input into messages, queues them
//! for their group, and writes replies; it never waits for anybody.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use mio::Interest;
use mio::net::TcpStream;
use tracing::debug;
use zkit::{Events, Repeat, Result, Waker, ZFrame, ZLoop};

use super::connection::{Connection, Hold, Reason};
use super::ids::Slots;
use super::master::Master;
use super::pull::{PullWorker, Reply};
use super::push::{PushWorker, Request};
use super::queue::{Receiver, Sender};
use super::unless_gone;
use crate::config::Config;
use crate::metrics::IoMetrics;
use crate::protocol::{self, HEADER, ID, Parsed};
use crate::stream;

/// Bytes that are read from a client before it is the others' turn.
const READ: usize = 64 * 1024;
/// Replies that are taken before it is the clients' turn.
const REPLIES: usize = 1024;

pub struct IoThread {
    config: Arc<Config>,
    connections: Slots<Connection>,
    outlet: Outlet,
    replies: Receiver<Reply>,
    pull: Waker<PullWorker>,
    master: Waker<Master>,
    /// Connections of all threads, which the master limits.
    open: Arc<AtomicUsize>,
    scratch: Box<[u8]>,
    /// Whether nothing new is served any more.
    ending: bool,
}

/// What an I/O thread is given by those who start it.
pub struct Links {
    pub queues: Vec<Sender<Request>>,
    pub replies: Receiver<Reply>,
    pub push: Waker<PushWorker>,
    pub pull: Waker<PullWorker>,
    pub master: Waker<Master>,
    pub open: Arc<AtomicUsize>,
}

/// The way of requests to their groups.
struct Outlet {
    /// By type, the group's number.
    groups: [Option<usize>; 256],
    queues: Vec<Sender<Request>>,
    /// By group, who is held for it, and who was the last to fill it.
    waiting: Vec<BTreeSet<u32>>,
    filled: Vec<u32>,
    push: Waker<PushWorker>,
    /// Whether anything was queued in this turn.
    queued: bool,
    body_limit: usize,
    metrics: IoMetrics,
}

impl IoThread {
    pub fn new(
        config: Arc<Config>,
        connections: Slots<Connection>,
        metrics: IoMetrics,
        links: Links,
        zloop: &mut ZLoop<'_, IoThread>,
    ) -> IoThread {
        let mut groups = [None; 256];
        for (number, group) in config.groups.iter().enumerate() {
            groups[usize::from(group.kind)] = Some(number);
        }
        zloop.on_wake(IoThread::on_wake);
        zloop.on_turn_end(IoThread::on_turn_end);
        let outlet = Outlet {
            groups,
            waiting: links.queues.iter().map(|_| BTreeSet::new()).collect(),
            filled: vec![0; links.queues.len()],
            queues: links.queues,
            push: links.push,
            queued: false,
            body_limit: config.limits.body,
            metrics,
        };
        IoThread {
            config,
            connections,
            outlet,
            replies: links.replies,
            pull: links.pull,
            master: links.master,
            open: links.open,
            scratch: vec![0; READ].into(),
            ending: false,
        }
    }

    /// Takes over a client that the master has accepted.
    pub fn adopt(
        &mut self,
        zloop: &mut ZLoop<'_, IoThread>,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> Result<()> {
        let limits = &self.config.limits;
        let Some(id) = self.connections.insert(Connection::new(peer, limits)) else {
            // The master keeps count, so there is a slot for each.
            self.left(Reason::Refused);
            return Ok(());
        };
        self.outlet.metrics.connections.inc();
        debug!(%peer, id, "connected");
        let both = Interest::READABLE | Interest::WRITABLE;
        let source = zloop.source(stream, both, move |io: &mut IoThread, zloop, stream, events| {
            io.serve(zloop, id, stream, events);
            Ok(())
        });
        let Ok(source) = source else {
            self.close(zloop, id, Reason::Refused);
            return Ok(());
        };
        let idle = limits.idle.map(|idle| {
            zloop.timer(idle, Repeat::Forever, move |io: &mut IoThread, zloop| {
                io.on_idle(zloop, id);
                Ok(())
            })
        });
        if let Some(connection) = self.connections.get_mut(id) {
            connection.source = Some(source);
            connection.idle = idle.transpose()?;
        }
        Ok(())
    }

    fn serve(
        &mut self,
        zloop: &mut ZLoop<'_, IoThread>,
        id: u32,
        stream: &mut TcpStream,
        events: Events,
    ) {
        let mut served = Ok(());
        if events.is_writable() {
            served = self.write(zloop, id, stream);
        }
        if served.is_ok() && (events.is_readable() || events.is_error()) {
            served = self.read(zloop, id, stream, events);
        }
        if let Err(reason) = served {
            self.close(zloop, id, reason);
        }
    }

    fn read(
        &mut self,
        zloop: &mut ZLoop<'_, IoThread>,
        id: u32,
        stream: &mut TcpStream,
        events: Events,
    ) -> std::result::Result<(), Reason> {
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        connection.half_closed |= events.is_error();
        connection.held.take_if(|hold| *hold == Hold::Over);
        let unread = connection.held.is_some() || connection.finished;
        // Whoever is gone for good is not kept for what it may have sent.
        if (unread || self.ending)
            && events.is_error()
            && stream.take_error().is_ok_and(|error| error.is_some())
        {
            return Err(Reason::Broken);
        }
        if unread {
            return Ok(());
        }
        let now = Instant::now();
        let mut inbox = std::mem::take(&mut connection.inbox);
        // What was held comes first.
        let mut taken = self.outlet.forward(zloop, id, connection, &mut inbox, now)?;
        inbox.drain(..taken);
        if connection.held.is_none() {
            let read = match stream::read(&mut *stream, &mut self.scratch) {
                Ok(Some(0)) => return self.on_end(zloop, id),
                Ok(read) => read.unwrap_or(0),
                Err(_) => return Err(Reason::Broken),
            };
            let input = &mut self.scratch[..read];
            if self.ending {
                // Nobody serves it. Left unread, it would have the system break the connection off,
                // with the replies that are on their way.
                inbox.clear();
            } else if inbox.is_empty() {
                taken = self.outlet.forward(zloop, id, connection, input, now)?;
                inbox.extend_from_slice(&input[taken..]);
            } else {
                inbox.extend_from_slice(input);
                taken = self.outlet.forward(zloop, id, connection, &mut inbox, now)?;
                inbox.drain(..taken);
            }
            // Less than there was room for is all there was, except for the news of the end.
            let more = read == READ || (read > 0 && connection.half_closed);
            if let Some(source) = connection.source.filter(|_| more) {
                zloop.tell(source, Events::READABLE);
            }
            if let Some(idle) = connection.idle {
                zloop.reset(idle);
            }
        }
        if inbox.is_empty() {
            // An idle client keeps no memory.
            inbox = Vec::new();
        }
        connection.inbox = inbox;
        self.watch_message_time(zloop, id, taken > 0);
        Ok(())
    }

    /// The client has sent its last byte. What it has asked for it may still read.
    fn on_end(
        &mut self,
        zloop: &mut ZLoop<'_, IoThread>,
        id: u32,
    ) -> std::result::Result<(), Reason> {
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        if connection.is_done() {
            return Err(Reason::Left);
        }
        connection.finished = true;
        self.watch_message_time(zloop, id, true);
        Ok(())
    }

    /// Has the time run for a message that is not whole, and for the last replies of a client that
    /// sends no more; for nothing else. It runs anew for what is `new`.
    fn watch_message_time(&mut self, zloop: &mut ZLoop<'_, IoThread>, id: u32, new: bool) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let partial = !connection.inbox.is_empty() && connection.held.is_none();
        if !partial && !connection.finished {
            if let Some(timer) = connection.message_time.take() {
                zloop.cancel(timer);
            }
        } else if let Some(timer) = connection.message_time {
            if new {
                zloop.reset(timer);
            }
        } else {
            let time = self.config.limits.message_time;
            let timer = zloop.timer(time, Repeat::ONCE, move |io: &mut IoThread, zloop| {
                io.on_message_time(zloop, id);
                Ok(())
            });
            connection.message_time = timer.ok();
        }
    }

    fn on_message_time(&mut self, zloop: &mut ZLoop<'_, IoThread>, id: u32) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let reason = if connection.finished { Reason::Left } else { Reason::MessageTime };
        self.close(zloop, id, reason);
    }

    fn on_idle(&mut self, zloop: &mut ZLoop<'_, IoThread>, id: u32) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        // It is the gateway that does not read.
        if connection.held.is_none() || connection.half_closed {
            self.close(zloop, id, Reason::Idle);
        }
    }

    fn write(
        &mut self,
        zloop: &mut ZLoop<'_, IoThread>,
        id: u32,
        stream: &mut TcpStream,
    ) -> std::result::Result<(), Reason> {
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let waiting = connection.outbox.len();
        let written = connection.outbox.write(stream).map_err(|_| Reason::Broken)?;
        if let Some(idle) = connection.idle.filter(|_| connection.outbox.len() < waiting) {
            zloop.reset(idle);
        }
        if let Some((replies, since)) = written {
            let seconds = since.elapsed().as_secs_f64();
            (0..replies).for_each(|_| self.outlet.metrics.reply_seconds.observe(seconds));
        }
        match connection.is_done() {
            true if connection.finished => Err(Reason::Left),
            true if self.ending => Err(Reason::Ending),
            _ => Ok(()),
        }
    }

    /// There are replies, or there is room in a queue.
    fn on_wake(&mut self, zloop: &mut ZLoop<'_, IoThread>) -> Result<()> {
        self.take_replies(zloop)?;
        for group in 0..self.outlet.queues.len() {
            if self.outlet.waiting[group].is_empty() || self.outlet.queues[group].is_owed_a_wake() {
                continue;
            }
            // In turn: whoever has filled it is the last to be let at it again.
            let mut earlier = std::mem::take(&mut self.outlet.waiting[group]);
            let mut later = earlier.split_off(&self.outlet.filled[group]);
            let last = later.take(&self.outlet.filled[group]);
            for id in later.into_iter().chain(earlier).chain(last) {
                self.release(zloop, id, Hold::Group(group));
            }
        }
        Ok(())
    }

    fn take_replies(&mut self, zloop: &mut ZLoop<'_, IoThread>) -> Result<()> {
        for _ in 0..REPLIES {
            let Some(reply) = self.replies.first() else { break };
            let id = reply.id;
            match self.connections.get_mut(id) {
                None => self.outlet.metrics.stale.inc(),
                Some(connection) if connection.outbox.len() > self.config.limits.outgoing => {
                    if !connection.outbox.blocked {
                        // It has not had its turn to write.
                        break;
                    }
                    self.close(zloop, id, Reason::NotReading);
                    continue;
                }
                Some(connection) => {
                    let kind = self.config.replies[reply.entry].kind;
                    // The PULL worker takes none that is too short for an id, or too long for a header.
                    let body = reply.frame.get(ID..).unwrap_or_default();
                    let header = protocol::header(kind, body.len()).unwrap_or_default();
                    if let Some(source) = connection.source.filter(|_| connection.outbox.is_empty())
                    {
                        zloop.tell(source, Events::WRITABLE);
                    }
                    connection.outbox.push(&header, body, reply.received);
                    connection.unanswered = connection.unanswered.saturating_sub(1);
                    self.outlet.metrics.replies[reply.entry].count(HEADER + body.len());
                }
            }
            self.replies.receive();
        }
        if self.replies.owes_a_wake() {
            unless_gone(self.pull.wake())?;
        }
        if self.replies.first().is_some() {
            zloop.waker().wake()?;
        }
        Ok(())
    }

    fn on_turn_end(&mut self, _: &mut ZLoop<'_, IoThread>) -> Result<()> {
        self.outlet.metrics.flush();
        match std::mem::take(&mut self.outlet.queued) {
            true => unless_gone(self.outlet.push.wake()),
            false => Ok(()),
        }
    }

    fn release(&mut self, zloop: &mut ZLoop<'_, IoThread>, id: u32, hold: Hold) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.held == Some(hold) {
            connection.held = Some(Hold::Over);
            if let Some(source) = connection.source {
                zloop.tell(source, Events::READABLE);
            }
        }
    }

    fn close(&mut self, zloop: &mut ZLoop<'_, IoThread>, id: u32, reason: Reason) {
        let Some(connection) = self.connections.remove(id) else { return };
        let Connection { peer, source, idle, message_time, pace, held, unanswered, .. } =
            connection;
        if let Some(Hold::Group(group)) = held {
            self.outlet.waiting[group].remove(&id);
        }
        for handler in [source, idle, message_time, pace].into_iter().flatten() {
            zloop.cancel(handler);
        }
        self.outlet.metrics.connections.dec();
        self.outlet.metrics.unanswered.inc_by(unanswered);
        debug!(%peer, id, reason = reason.name(), "closed");
        self.left(reason);
        if self.ending && self.connections.is_empty() {
            let _ = self.master.post(Master::on_io_thread_done);
        }
    }

    fn left(&mut self, reason: Reason) {
        self.outlet.metrics.closed(reason).inc();
        self.open.fetch_sub(1, Ordering::SeqCst);
        let _ = self.master.wake();
    }

    /// Serves nothing new, and closes each connection when its replies are written.
    pub fn end(&mut self, zloop: &mut ZLoop<'_, IoThread>) -> Result<()> {
        self.ending = true;
        if self.connections.is_empty() {
            return unless_gone(self.master.post(Master::on_io_thread_done));
        }
        for id in self.connections.ids() {
            if self.connections.get_mut(id).is_some_and(|connection| connection.is_done()) {
                self.close(zloop, id, Reason::Ending);
            }
        }
        Ok(())
    }

    /// Closes all connections now.
    pub fn give_up(&mut self, zloop: &mut ZLoop<'_, IoThread>) -> Result<()> {
        for id in self.connections.ids() {
            self.close(zloop, id, Reason::Ending);
        }
        Ok(())
    }
}

impl Outlet {
    /// Queues the whole messages at the front of `input`, as far as their groups and the client's rates
    /// allow. Returns how many bytes those were.
    fn forward(
        &mut self,
        zloop: &mut ZLoop<'_, IoThread>,
        id: u32,
        connection: &mut Connection,
        input: &mut [u8],
        now: Instant,
    ) -> std::result::Result<usize, Reason> {
        let mut taken = 0;
        let end = loop {
            let (kind, len) = match protocol::parse(&input[taken..], self.body_limit) {
                Ok(Parsed::Nothing) => break Ok(()),
                Ok(Parsed::Header { kind }) => (kind, None),
                Ok(Parsed::Message { kind, len }) => (kind, Some(len)),
                Err(_) => break Err(Reason::BodyTooLong),
            };
            let Some(group) = self.groups[usize::from(kind)] else {
                break Err(Reason::UnknownType);
            };
            let Some(len) = len else { break Ok(()) };
            let queue = &mut self.queues[group];
            let wait = connection.rates.wait(now);
            if !wait.is_zero() {
                self.metrics.throttled.inc();
                connection.held = Some(Hold::Rate);
                let release = move |io: &mut IoThread, zloop: &mut ZLoop<'_, IoThread>| {
                    io.release(zloop, id, Hold::Rate);
                    Ok(())
                };
                connection.pace = zloop.timer(wait, Repeat::ONCE, release).ok();
                break Ok(());
            }
            if queue.is_full(len) {
                self.metrics.held[group].inc();
                connection.held = Some(Hold::Group(group));
                self.waiting[group].insert(id);
                if taken > 0 {
                    self.filled[group] = id;
                }
                break Ok(());
            }
            connection.rates.spend(len, now);
            let message = &mut input[taken..taken + len];
            let frame = ZFrame::new(protocol::readdress(message, id));
            let bytes = len - HEADER + ID;
            // There is room, as was seen just now.
            let _ = queue.send(Request { frame, received: now }, bytes);
            connection.unanswered += 1;
            self.metrics.requests[group].count(len);
            taken += len;
        };
        // What came before an offence counts.
        self.queued |= taken > 0;
        end.map(|()| taken)
    }
}
