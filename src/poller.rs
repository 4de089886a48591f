use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::clock;
use crate::error::{Error, Reason, Result};
use crate::events::Events;
use crate::ffi::{self, retry};
use crate::interrupt::{self, Stop};
use crate::socket::ZSock;

/// Waits on a few sockets and descriptors at once (CZMQ's `zpoller`).
///
/// Each is added with a key of the program's choice, by which [`wait`](ZPoller::wait) tells which
/// one is ready. When several are, they take turns, however busy the first is. What is ready
/// stays ready until it is received or read.
///
/// A wait costs a system call for each socket that it looks at: fine for a few, not for hundreds,
/// which want a [`ZLoop`](crate::ZLoop).
///
/// ```
/// use std::time::Duration;
/// use zkit::{ZContext, ZPoller};
///
/// let ctx = ZContext::new()?;
/// let jobs = ctx.pull("@inproc://jobs")?;
/// let control = ctx.pair("@inproc://control")?;
/// let boss = ctx.pair(">inproc://control")?;
/// boss.send("STOP")?;
///
/// let mut poller = ZPoller::new();
/// poller.add("jobs", &jobs)?;
/// poller.add("control", &control)?;
/// match poller.wait(Some(Duration::from_secs(1)))? {
///     Some("control") => assert_eq!(control.recv_str()?, "STOP"),
///     other => panic!("{other:?}"),
/// }
/// assert_eq!(poller.wait(Some(Duration::ZERO))?, None);
/// # Ok::<(), zkit::Error>(())
/// ```
#[derive(Debug)]
#[doc(alias("zpoller", "zmq_poll"))]
pub struct ZPoller<'a, K> {
    entries: Vec<Entry<'a, K>>,
    /// Where the next look starts, so that all get their turn.
    next: usize,
    stop: Stop,
    ready: Vec<(K, Events)>,
    slots: Vec<libc::pollfd>,
}

#[derive(Debug)]
struct Entry<'a, K> {
    key: K,
    /// None once it is removed: until the next wait it keeps its place in the turn, for whoever
    /// adds it again.
    source: Option<Source<'a>>,
    interest: Events,
    paused: bool,
}

#[derive(Debug)]
enum Source<'a> {
    Socket(&'a ZSock),
    Descriptor(BorrowedFd<'a>),
}

impl<K> Default for ZPoller<'_, K> {
    fn default() -> Self {
        ZPoller {
            entries: Vec::new(),
            next: 0,
            stop: Stop::OnInterrupt,
            ready: Vec::new(),
            slots: Vec::new(),
        }
    }
}

impl<'a, K: Copy + PartialEq> ZPoller<'a, K> {
    /// A poller of nothing: it only waits for time to pass and for interrupts.
    #[doc(alias = "zpoller_new")]
    pub fn new() -> Self {
        ZPoller::default()
    }

    /// Has the poller wait for messages on `socket` from now on. It may be added twice, by two
    /// keys.
    ///
    /// # Errors
    /// [`Error::Wait`] when the key is in use.
    #[doc(alias = "zpoller_add")]
    pub fn add(&mut self, key: K, socket: &'a ZSock) -> Result<()> {
        self.add_for(key, socket, Events::READABLE)
    }

    /// Has the poller wait for any of `interest` on `socket` from now on.
    ///
    /// # Errors
    /// [`Error::Wait`] when the key is in use.
    pub fn add_for(&mut self, key: K, socket: &'a ZSock, interest: Events) -> Result<()> {
        self.insert(key, Source::Socket(socket), interest)
    }

    /// Has the poller wait for any of `interest` on a descriptor from now on. An error or a hang-up
    /// of it counts as well.
    ///
    /// ```
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    /// use zkit::{Events, ZPoller};
    ///
    /// let (mut ours, theirs) = UnixStream::pair()?;
    /// ours.write_all(b"Hello")?;
    /// let mut poller = ZPoller::new();
    /// poller.add_fd("theirs", &theirs, Events::READABLE)?;
    /// assert_eq!(poller.wait_all(None)?, [("theirs", Events::READABLE)]);
    /// # Ok::<(), zkit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Wait`] when the key is in use.
    pub fn add_fd(&mut self, key: K, descriptor: &'a impl AsFd, interest: Events) -> Result<()> {
        self.insert(key, Source::Descriptor(descriptor.as_fd()), interest)
    }

    fn insert(&mut self, key: K, source: Source<'a>, interest: Events) -> Result<()> {
        let entry = Entry { key, source: Some(source), interest, paused: false };
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(removed) if removed.source.is_none() => *removed = entry,
            Some(_) => {
                return Err(Error::Wait { reason: Reason::new("the poller has this key already") });
            }
            None => self.entries.push(entry),
        }
        Ok(())
    }

    /// Forgets what was added under `key`.
    ///
    /// # Errors
    /// [`Error::Wait`] when there is nothing under it.
    #[doc(alias = "zpoller_remove")]
    pub fn remove(&mut self, key: K) -> Result<()> {
        let index = self.index(key)?;
        self.entries[index].source = None;
        Ok(())
    }

    /// Leaves out what was added under `key` until [`resume`](ZPoller::resume). Its messages wait.
    ///
    /// # Errors
    /// [`Error::Wait`] when there is nothing under it.
    pub fn pause(&mut self, key: K) -> Result<()> {
        let index = self.index(key)?;
        self.entries[index].paused = true;
        Ok(())
    }

    /// Waits for what was added under `key` again.
    ///
    /// # Errors
    /// [`Error::Wait`] when there is nothing under it.
    pub fn resume(&mut self, key: K) -> Result<()> {
        let index = self.index(key)?;
        self.entries[index].paused = false;
        Ok(())
    }

    fn index(&self, key: K) -> Result<usize> {
        let index =
            self.entries.iter().position(|entry| entry.key == key && entry.source.is_some());
        index.ok_or_else(|| Error::Wait { reason: Reason::new("the poller has no such key") })
    }

    /// Whether to go on waiting when the process is [interrupted](interrupt). Default no.
    #[doc(alias = "zpoller_set_nonstop")]
    pub fn set_nonstop(&mut self, nonstop: bool) {
        self.stop = if nonstop { Stop::Never } else { Stop::OnInterrupt };
    }

    /// Waits until something is ready and returns its key, or `None` when `timeout` is over
    /// first; without one it waits as long as it takes.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Terminated`] when a socket's context was shut down,
    /// [`Error::Forked`], [`Error::Wait`] when the system cannot wait, [`Error::Io`] when the
    /// process has no descriptors left.
    #[doc(alias("zpoller_wait", "zpoller_expired", "zpoller_terminated"))]
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<K>> {
        self.wait_for(timeout, 1)?;
        Ok(self.ready.first().map(|(key, _)| *key))
    }

    /// As [`wait`](ZPoller::wait), but returns everything that is ready, and for what; nothing when
    /// `timeout` is over first.
    ///
    /// # Errors
    /// As [`wait`](ZPoller::wait).
    pub fn wait_all(&mut self, timeout: Option<Duration>) -> Result<&[(K, Events)]> {
        self.wait_for(timeout, usize::MAX)?;
        Ok(&self.ready)
    }

    fn wait_for(&mut self, timeout: Option<Duration>, most: usize) -> Result<()> {
        let deadline = timeout.and_then(clock::deadline);
        self.forget_removed();
        loop {
            if self.stop == Stop::OnInterrupt && interrupt::is_interrupted() {
                return Err(Error::Interrupted);
            }
            self.look(most)?;
            if !self.ready.is_empty() {
                return Ok(());
            }
            self.slots.clear();
            self.slots.extend(self.entries.iter().map(Entry::slot));
            self.slots.push(interrupt::readable(-1));
            if !interrupt::wait_on(&mut self.slots, deadline, self.stop)? {
                return Ok(());
            }
        }
    }

    fn forget_removed(&mut self) {
        let removed = |entry: &Entry<'_, K>| entry.source.is_none();
        self.next -= self.entries[..self.next].iter().filter(|entry| removed(entry)).count();
        self.entries.retain(|entry| !removed(entry));
    }

    /// Collects what is ready now, `most` at the most, from where the last look ended.
    fn look(&mut self, most: usize) -> Result<()> {
        self.ready.clear();
        let count = self.entries.len();
        for step in 0..count {
            let index = (self.next + step) % count;
            let entry = &self.entries[index];
            let events = entry.events()?;
            if events != Events::NONE {
                self.ready.push((entry.key, events));
                if self.ready.len() == most {
                    self.next = index + 1;
                    break;
                }
            }
        }
        Ok(())
    }
}

impl<K> Entry<'_, K> {
    /// What it is ready for now, of what it is waited on for.
    fn events(&self) -> Result<Events> {
        if self.paused {
            return Ok(Events::NONE);
        }
        match self.source {
            None => Ok(Events::NONE),
            Some(Source::Socket(socket)) => Ok(socket.events()?.and(self.interest)),
            Some(Source::Descriptor(_)) => {
                let mut slot = [self.slot()];
                retry(|| ffi::poll(&mut slot, Some(Duration::ZERO)))
                    .map_err(|errno| Error::Wait { reason: errno.into() })?;
                Ok(Events::from_poll(slot[0].revents))
            }
        }
    }

    /// How to sleep until it may be ready. A socket's descriptor is readable for any news.
    fn slot(&self) -> libc::pollfd {
        let (fd, events) = match self.source {
            None => (-1, 0),
            Some(Source::Socket(socket)) => (socket.as_raw_fd(), libc::POLLIN),
            Some(Source::Descriptor(fd)) => (fd.as_raw_fd(), self.interest.to_poll()),
        };
        libc::pollfd { fd: if self.paused { -1 } else { fd }, events, revents: 0 }
    }
}
