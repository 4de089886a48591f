//! A queue between two threads, bounded in messages and in bytes. Nobody else touches it, and
//! neither side waits for the other.
//!
//! Who wakes whom is the callers' affair: the sender wakes the receiver after a batch, and the
//! receiver wakes the sender if that [asked](Sender::is_full) for room and there is some.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use rtrb::RingBuffer;

/// A queue for so many messages, of so many bytes together. One message fits always.
pub fn bounded<T>(messages: usize, bytes: usize) -> (Sender<T>, Receiver<T>) {
    let (producer, consumer) = RingBuffer::new(messages);
    let shared = Arc::new(Shared::default());
    let depth = Depth(Arc::clone(&shared));
    let sender = Sender { producer, limit: bytes as u64, sent: 0, seen: 0, depth };
    (sender, Receiver { consumer, stirred: false, most: messages, limit: bytes as u64, shared })
}

/// Each side writes its own counters only.
#[derive(Default)]
struct Shared {
    sent: Count,
    received: Count,
    asked: AtomicBool,
}

impl Shared {
    fn depth(&self) -> (u64, u64) {
        let left = |count: fn(&Count) -> &AtomicU64| {
            // In this order: what is received meanwhile has been sent.
            let received = count(&self.received).load(Ordering::Acquire);
            count(&self.sent).load(Ordering::Acquire).saturating_sub(received)
        };
        (left(|count| &count.messages), left(|count| &count.bytes))
    }
}

/// On a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Count {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    /// By the one thread that writes it, so that no two additions meet.
    fn add(&self, bytes: u64) {
        self.messages.store(self.messages.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes, Ordering::Release);
    }
}

pub struct Sender<T> {
    producer: rtrb::Producer<(T, u64)>,
    limit: u64,
    sent: u64,
    /// What the receiver had received when that was last looked up.
    seen: u64,
    depth: Depth,
}

impl<T> Sender<T> {
    /// Whether there is no room for a message of so many bytes. The receiver then knows that it is
    /// waited for.
    pub fn is_full(&mut self, bytes: usize) -> bool {
        if self.has_room(bytes) {
            return false;
        }
        let shared = &self.depth.0;
        shared.asked.store(true, Ordering::Relaxed);
        // Either the receiver sees the question, or this thread sees the room.
        fence(Ordering::SeqCst);
        !self.has_room(bytes)
    }

    /// Whether it waits for room since it asked for some.
    pub fn is_owed_a_wake(&self) -> bool {
        self.depth.0.asked.load(Ordering::Relaxed)
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        if self.producer.is_full() {
            return false;
        }
        let fits = |seen| self.sent == seen || self.sent - seen + bytes as u64 <= self.limit;
        if !fits(self.seen) {
            self.seen = self.depth.0.received.bytes.load(Ordering::Acquire);
        }
        fits(self.seen)
    }

    /// Gives the message back if the queue is full.
    pub fn send(&mut self, message: T, bytes: usize) -> Result<(), T> {
        let bytes = bytes as u64;
        match self.producer.push((message, bytes)) {
            Ok(()) => {
                self.sent += bytes;
                self.depth.0.sent.add(bytes);
                Ok(())
            }
            Err(rtrb::PushError::Full((message, _))) => Err(message),
        }
    }

    pub fn depth(&self) -> Depth {
        self.depth.clone()
    }
}

pub struct Receiver<T> {
    consumer: rtrb::Consumer<(T, u64)>,
    /// Whether anything was received since a wake was last thought of.
    stirred: bool,
    most: usize,
    limit: u64,
    shared: Arc<Shared>,
}

impl<T> Receiver<T> {
    pub fn first(&mut self) -> Option<&T> {
        self.consumer.peek().ok().map(|(message, _)| message)
    }

    /// The next message, and its bytes as they were told.
    pub fn receive(&mut self) -> Option<(T, usize)> {
        let (message, bytes) = self.consumer.pop().ok()?;
        self.shared.received.add(bytes);
        self.stirred = true;
        Some((message, bytes as usize))
    }

    /// Whether the sender is to be woken, which is once after it asked: when the queue is half empty, so
    /// that it has something to do.
    pub fn owes_a_wake(&mut self) -> bool {
        // Only what is received makes room, and most queues have nothing to receive.
        if !std::mem::take(&mut self.stirred) {
            return false;
        }
        // The other half of the sender's question.
        fence(Ordering::SeqCst);
        let asked = &self.shared.asked;
        if !asked.load(Ordering::Relaxed) {
            return false;
        }
        let (messages, bytes) = self.shared.depth();
        let half_empty = messages <= self.most as u64 / 2 && bytes <= self.limit / 2;
        half_empty && asked.swap(false, Ordering::Relaxed)
    }
}

/// Tells how full a queue is, about, from any thread.
#[derive(Clone)]
pub struct Depth(Arc<Shared>);

impl Depth {
    /// Messages and bytes.
    pub fn get(&self) -> (u64, u64) {
        self.0.depth()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn it_is_full_by_messages_and_by_bytes_but_never_for_a_first_message() {
        let (mut sender, mut receiver) = bounded(3, 100);
        assert!(!sender.is_full(1000));
        sender.send("long", 1000).unwrap();
        assert!(sender.is_full(1));
        assert_eq!(sender.depth().get(), (1, 1000));
        assert_eq!(receiver.receive(), Some(("long", 1000)));
        for _ in 0..3 {
            assert!(!sender.is_full(10));
            sender.send("short", 10).unwrap();
        }
        assert!(sender.is_full(10));
        assert_eq!(sender.send("one too many", 10), Err("one too many"));
        assert_eq!(sender.depth().get(), (3, 30));
        assert_eq!(receiver.first(), Some(&"short"));
    }

    #[test]
    fn a_wake_is_owed_once_to_who_asked_and_not_before_there_is_room() {
        let (mut sender, mut receiver) = bounded(4, 1000);
        while !sender.is_full(1) {
            assert!(!receiver.owes_a_wake());
            sender.send((), 1).unwrap();
        }
        receiver.receive();
        assert!(!receiver.owes_a_wake(), "one place is not worth a wake");
        assert!(sender.is_owed_a_wake());
        receiver.receive();
        assert!(receiver.owes_a_wake());
        assert!(!receiver.owes_a_wake() && !sender.is_owed_a_wake());
    }

    /// The sender sleeps when the queue is full, and the receiver when it is empty. Nobody oversleeps.
    #[test]
    fn whoever_asked_is_always_woken() {
        const MESSAGES: u32 = 200_000;
        let (mut sender, mut receiver) = bounded(8, 1000);
        let (wake_sender, room) = mpsc::sync_channel(1);
        let (wake_receiver, news) = mpsc::sync_channel(1);
        let sending = thread::spawn(move || {
            for number in 0..MESSAGES {
                while sender.is_full(10) {
                    room.recv().unwrap();
                }
                sender.send(number, 10).unwrap();
                let _ = wake_receiver.try_send(());
            }
        });
        let mut expected = 0;
        while expected < MESSAGES {
            while let Some((number, _)) = receiver.receive() {
                assert_eq!(number, expected);
                expected += 1;
            }
            if receiver.owes_a_wake() {
                let _ = wake_sender.try_send(());
            }
            if expected < MESSAGES {
                news.recv().unwrap();
            }
        }
        sending.join().unwrap();
    }
}
