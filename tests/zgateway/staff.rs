//! Back ends that are at work while the test does something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fastrand::Rng;

use crate::gateway::{Addressed, BackEnd};

/// How long a back end waits for a message before it does what it has put off.
const LULL: Duration = Duration::from_millis(5);

/// A back end with a thread of its own. It works until the value is dropped.
pub(crate) struct Worker {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Calls `work` with each message, and with none when there is no other for a while.
    pub(crate) fn start(
        back_end: BackEnd,
        mut work: impl FnMut(&BackEnd, Option<Addressed>) + Send + 'static,
    ) -> Worker {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let message = match back_end.pull.recv_frame_timeout(LULL) {
                    Ok(frame) => Some(Addressed::from(&frame)),
                    Err(error) if error.is_timeout() => None,
                    Err(error) => panic!("{error}"),
                };
                work(&back_end, message);
            }
        });
        Worker { over, thread: Some(thread) }
    }

    /// Sends each message back as it is.
    pub(crate) fn echo(back_end: BackEnd) -> Worker {
        Worker::start(back_end, |back_end, message| {
            if let Some(Addressed { id, body }) = message {
                back_end.reply(id, body);
            }
        })
    }

    /// Sends each message back, but in any order: any of those that it keeps, which are `most`.
    pub(crate) fn echo_late(back_end: BackEnd, most: usize, seed: u64) -> Worker {
        let mut random = Rng::with_seed(seed);
        let mut kept: Vec<Addressed> = Vec::new();
        Worker::start(back_end, move |back_end, message| {
            let lull = message.is_none();
            kept.extend(message);
            while kept.len() > most || (lull && !kept.is_empty()) {
                let Addressed { id, body } = kept.swap_remove(random.usize(..kept.len()));
                back_end.reply(id, body);
            }
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if let Some(Err(_)) = ended {
            assert!(thread::panicking(), "a back end has failed");
        }
    }
}
