//! The master: accepts clients and gives them to the I/O threads in turn, no more than are allowed.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use tracing::{debug, warn};
use zkit::{Events, HandlerId, Repeat, Result, Waker, ZLoop};

use super::io::IoThread;
use super::push::PushWorker;
use super::unless_gone;
use crate::config::Config;
use crate::metrics::MasterMetrics;

/// How long to leave a listener alone that cannot accept.
const PATIENCE: Duration = Duration::from_millis(100);
/// Clients that are accepted before it is the turn of whatever else there is to do.
const BATCH: usize = 64;

pub struct Master {
    config: Arc<Config>,
    accepting: HandlerId,
    io_threads: Vec<Waker<IoThread>>,
    next: usize,
    /// Connections of all threads.
    open: Arc<AtomicUsize>,
    full: bool,
    metrics: MasterMetrics,
    /// I/O threads that still have connections.
    busy: usize,
    push: Waker<PushWorker>,
    /// When the grace time is over.
    deadline: Option<Instant>,
}

impl Master {
    pub fn new(
        config: Arc<Config>,
        listener: TcpListener,
        io_threads: Vec<Waker<IoThread>>,
        push: Waker<PushWorker>,
        open: Arc<AtomicUsize>,
        metrics: MasterMetrics,
        zloop: &mut ZLoop<'_, Master>,
    ) -> Result<Master> {
        // Level-triggered: who is left in the backlog is told of again.
        let listener = Rc::new(listener);
        let backlog = Rc::clone(&listener);
        let accepting =
            zloop.fd(backlog, Events::READABLE, move |master: &mut Master, zloop, _| {
                master.accept(zloop, &listener)
            })?;
        zloop.on_wake(Master::on_wake);
        let busy = io_threads.len();
        Ok(Master {
            config,
            accepting,
            io_threads,
            next: 0,
            open,
            full: false,
            metrics,
            busy,
            push,
            deadline: None,
        })
    }

    fn accept(&mut self, zloop: &mut ZLoop<'_, Master>, listener: &TcpListener) -> Result<()> {
        for _ in 0..BATCH {
            if self.is_full() {
                debug!(limit = self.config.limits.connections, "no more connections");
                zloop.pause(self.accepting);
                break;
            }
            match listener.accept() {
                Ok((stream, peer)) => self.welcome(stream, peer)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The client was faster.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                    ) => {}
                Err(error) => {
                    warn!(%error, "cannot accept a client, trying again soon");
                    return self.rest(zloop);
                }
            }
        }
        Ok(())
    }

    fn is_full(&mut self) -> bool {
        // The I/O threads wake the master after each connection that they close.
        self.full = self.open.load(Ordering::SeqCst) >= self.config.limits.connections;
        self.full
    }

    fn welcome(&mut self, stream: TcpStream, peer: SocketAddr) -> Result<()> {
        self.metrics.accepted.inc();
        if !self.config.allows(peer.ip()) {
            debug!(%peer, "denied");
            self.metrics.denied.inc();
            return Ok(());
        }
        // Replies are small, and are written as soon as they are there.
        let _ = stream.set_nodelay(true);
        self.open.fetch_add(1, Ordering::SeqCst);
        self.next = (self.next + 1) % self.io_threads.len();
        Ok(self.io_threads[self.next].post(move |io, zloop| io.adopt(zloop, stream, peer))?)
    }

    /// Leaves those who want in to wait for a moment: the process has no descriptors left, or the like.
    fn rest(&mut self, zloop: &mut ZLoop<'_, Master>) -> Result<()> {
        zloop.pause(self.accepting);
        zloop.timer(PATIENCE, Repeat::ONCE, |master: &mut Master, zloop| {
            zloop.resume(master.accepting);
            Ok(())
        })?;
        Ok(())
    }

    /// A connection was closed.
    fn on_wake(&mut self, zloop: &mut ZLoop<'_, Master>) -> Result<()> {
        if self.full && !self.is_full() {
            zloop.resume(self.accepting);
        }
        Ok(())
    }

    /// Accepts no more, and has the I/O threads end: when all is done, or the grace time is over.
    pub fn end(&mut self, zloop: &mut ZLoop<'_, Master>) -> Result<()> {
        zloop.cancel(self.accepting);
        self.io_threads.iter().try_for_each(|io| unless_gone(io.post(IoThread::end)))?;
        self.deadline = Some(Instant::now() + self.config.grace);
        zloop.timer(self.config.grace, Repeat::ONCE, Master::on_grace_over)?;
        Ok(())
    }

    fn on_grace_over(&mut self, zloop: &mut ZLoop<'_, Master>) -> Result<()> {
        if self.busy == 0 {
            return self.end_push_worker(zloop);
        }
        self.io_threads.iter().try_for_each(|io| unless_gone(io.post(IoThread::give_up)))
    }

    /// An I/O thread has no connections any more.
    pub fn on_io_thread_done(&mut self, zloop: &mut ZLoop<'_, Master>) -> Result<()> {
        self.busy -= 1;
        if self.busy == 0 { self.end_push_worker(zloop) } else { Ok(()) }
    }

    /// Of clients that are gone there may be requests on their way: they have the rest of the grace time.
    fn end_push_worker(&mut self, zloop: &mut ZLoop<'_, Master>) -> Result<()> {
        let Some(deadline) = self.deadline else { return Ok(()) };
        let master = zloop.waker();
        if deadline <= Instant::now() {
            zloop.stop();
        }
        unless_gone(self.push.post(move |push, _| push.end(master, deadline)))
    }

    /// The PUSH worker has nothing left.
    pub fn on_all_sent(&mut self, zloop: &mut ZLoop<'_, Master>) -> Result<()> {
        zloop.stop();
        Ok(())
    }
}
