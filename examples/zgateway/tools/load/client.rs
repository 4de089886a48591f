//! The connections of one thread, in a reactor.

use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result};
use mio::Interest;
use mio::net::TcpStream;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use zkit::{Error, Events, Exit, HandlerId, Repeat, ZLoop};

use super::Share;
use super::body::Stamp;
use super::schedule::Schedule;
use super::tally::{Tally, Unanswered};
use crate::protocol::{self, HEADER, Parsed};
use crate::stream;

/// How much is read or written at a time, if the messages are not longer.
const BUFFER: usize = 64 * 1024;
/// With a rate, how long a message may be late for being sent together with the next ones.
const TICK: Duration = Duration::from_micros(100);

/// Sends and receives on `streams` until the time is over.
pub(super) fn run(share: &Share<'_>, streams: Vec<TcpStream>) -> Result<Tally> {
    let ticks = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK)
        .context("cannot make a timer")?;
    let mut zloop: ZLoop<'_, Client<'_>> = ZLoop::new()?;
    let mut connections = Vec::with_capacity(streams.len());
    let numbers = (share.thread..).step_by(share.threads as usize);
    for (index, (number, stream)) in numbers.zip(streams).enumerate() {
        stream.set_nodelay(true)?;
        // The first event is that there is room to write, which starts a connection.
        let both = Interest::READABLE | Interest::WRITABLE;
        let handler = zloop.source(stream, both, move |client, zloop, stream, events| {
            client.on_stream(zloop, index, stream, events)
        })?;
        connections.push(Connection::new(number, handler));
    }

    let mut client = Client::new(share, connections)?;
    if share.args.rate.is_some() {
        zloop.fd(&ticks, Events::READABLE, |client, zloop, _| client.on_tick(zloop, &ticks))?;
        client.on_tick(&mut zloop, &ticks)?;
    }
    zloop.timer(share.args.duration, Repeat::ONCE, Client::end_sending)?;

    // Ctrl-C is only an earlier end of the duration.
    if zloop.run(&mut client)? == Exit::Interrupted {
        zloop.set_nonstop(true);
        client.end_sending(&mut zloop)?;
        zloop.run(&mut client)?;
    }
    Ok(client.tally)
}

struct Client<'a> {
    share: &'a Share<'a>,
    schedule: Schedule,
    connections: Vec<Connection>,
    open: usize,
    /// What every message starts with.
    header: [u8; HEADER],
    /// What is read, then what is written, of one connection after the other.
    buffer: Vec<u8>,
    tally: Tally,
    /// Messages whose connection is gone: no replies to wait for.
    abandoned: u64,
}

struct Connection {
    number: u32,
    handler: HandlerId,
    unanswered: Unanswered,
    /// The beginning of a reply.
    input: Vec<u8>,
    /// What the system has not taken yet.
    output: Vec<u8>,
}

impl Connection {
    fn new(number: u32, handler: HandlerId) -> Connection {
        let unanswered = Unanswered::default();
        Connection { number, handler, unanswered, input: Vec::new(), output: Vec::new() }
    }
}

impl<'a> Client<'a> {
    fn new(share: &'a Share<'a>, connections: Vec<Connection>) -> Result<Client<'a>> {
        let body = share.args.body as usize;
        Ok(Client {
            share,
            schedule: Schedule::new(share.args, share.now()),
            open: connections.len(),
            connections,
            header: protocol::header(share.args.kind, body).context("bodies are too long")?,
            buffer: vec![0; BUFFER.max(2 * (HEADER + body))],
            tally: Tally::new()?,
            abandoned: 0,
        })
    }

    fn on_stream(
        &mut self,
        zloop: &mut ZLoop<'_, Self>,
        index: usize,
        stream: &mut TcpStream,
        events: Events,
    ) -> zkit::Result<()> {
        let conversed = self.receive(index, stream, events).and_then(|()| self.send(index, stream));
        if conversed.is_err() {
            let connection = &self.connections[index];
            zloop.cancel(connection.handler);
            self.open -= 1;
            self.tally.ended_early += 1;
            self.abandoned += u64::from(connection.unanswered.count());
            if self.open == 0 {
                self.end_sending(zloop)?;
            }
        }
        let progress = self.share.progress;
        progress.open.store(self.open as u64, Relaxed);
        progress.received.store(self.tally.received, Relaxed);
        progress.outstanding.store(self.awaited(), Relaxed);
        self.stop_if_done(zloop);
        Ok(())
    }

    /// Reads and checks all replies that are there.
    fn receive(&mut self, index: usize, stream: &mut TcpStream, events: Events) -> io::Result<()> {
        let closing = events.is_error();
        if !events.is_readable() && !closing {
            return Ok(());
        }
        loop {
            let kept = self.connections[index].input.len();
            let room = &mut self.buffer[kept..];
            let read = match stream::read(&mut *stream, room)? {
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(read) => read,
                None => return Ok(()),
            };
            // Of what comes after a short read there is an event, and of the end there was.
            let last = read < room.len() && !closing;
            self.check_replies(index, kept + read)?;
            if last {
                return Ok(());
            }
        }
    }

    /// Checks the replies in the first so many bytes of the buffer. What the connection has kept
    /// belongs in front of them.
    fn check_replies(&mut self, index: usize, filled: usize) -> io::Result<()> {
        let now = self.share.now();
        let Connection { number, unanswered, input, .. } = &mut self.connections[index];
        self.buffer[..input.len()].copy_from_slice(input);
        let limit = self.share.args.body as usize;
        let reply_type = self.share.args.reply_type.unwrap_or(self.share.args.kind);
        let mut rest = &self.buffer[..filled];
        loop {
            match protocol::parse(rest, limit) {
                Ok(Parsed::Message { kind, len }) => {
                    let body = &rest[HEADER..len];
                    self.tally.reply(*number, unanswered, body, kind == reply_type, now);
                    rest = &rest[len..];
                }
                Ok(_) => break,
                // Whatever this is, what comes after it cannot be read.
                Err(_) => {
                    self.tally.corrupt += 1;
                    return Err(ErrorKind::InvalidData.into());
                }
            }
        }
        input.clear();
        input.extend_from_slice(rest);
        Ok(())
    }

    /// Writes all messages that may be sent now, as far as the system takes them.
    fn send(&mut self, index: usize, stream: &mut TcpStream) -> io::Result<()> {
        let Connection { number, unanswered, output, .. } = &mut self.connections[index];
        if !output.is_empty() {
            let written = stream::write(&mut *stream, output)?;
            output.drain(..written);
        }
        let message = HEADER + self.share.args.body as usize;
        while output.is_empty() {
            let allowed = self.schedule.allowed(*number, unanswered) as usize;
            if allowed == 0 {
                break;
            }
            let now = self.share.now();
            let count = allowed.min(self.buffer.len() / message);
            let batch = &mut self.buffer[..count * message];
            for place in batch.chunks_exact_mut(message) {
                let sequence = unanswered.add();
                let time = self.schedule.time(*number, sequence).unwrap_or(now);
                let (header, body) = place.split_at_mut(HEADER);
                header.copy_from_slice(&self.header);
                Stamp { connection: *number, sequence, time }.write(body);
            }
            self.tally.sent += count as u64;
            let written = stream::write(&mut *stream, batch)?;
            output.extend_from_slice(&batch[written..]);
        }
        Ok(())
    }

    /// Has the connections send whose messages have become due. The reactor's own timers, of
    /// milliseconds, would be most of what is measured.
    fn on_tick(&mut self, zloop: &mut ZLoop<'_, Self>, ticks: &TimerFd) -> zkit::Result<()> {
        let Share { thread, threads, .. } = *self.share;
        let now = self.share.now();
        for number in self.schedule.advance(now) {
            if number % threads == thread {
                let connection = &self.connections[(number / threads) as usize];
                zloop.tell(connection.handler, Events::WRITABLE);
            }
        }
        let Some(next) = self.schedule.next() else { return Ok(()) };
        let left = Duration::from_nanos(next.saturating_sub(now)).max(TICK);
        let once = Expiration::OneShot(TimeSpec::from_duration(left));
        ticks.set(once, TimerSetTimeFlags::empty()).map_err(Error::other)
    }

    /// From here on replies are waited for.
    fn end_sending(&mut self, zloop: &mut ZLoop<'_, Self>) -> zkit::Result<()> {
        if let Some(sending) = self.schedule.end(self.share.now()) {
            self.tally.sending = sending;
            self.tally.received_sending = self.tally.received;
            zloop.timer(self.share.args.wait, Repeat::ONCE, |_, zloop| {
                zloop.stop();
                Ok(())
            })?;
        }
        self.stop_if_done(zloop);
        Ok(())
    }

    fn stop_if_done(&self, zloop: &mut ZLoop<'_, Self>) {
        if self.schedule.is_over() && self.awaited() == 0 {
            zloop.stop();
        }
    }

    /// How many replies may still come.
    fn awaited(&self) -> u64 {
        self.tally.outstanding() - self.abandoned
    }
}
