//! Who is worth looking at.

use std::collections::VecDeque;

/// Something that may be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// A watched socket, by its number.
    Socket(usize),
    /// The handler of a source or a descriptor, by its number.
    Handler(usize),
}

/// First come, first served. An entry's owner keeps the number of its place, so that it is there
/// only once, and that a place whose owner is gone is not taken for that of who came after it.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    queue: VecDeque<(Ready, u64)>,
    places: u64,
}

impl ReadyQueue {
    /// Queues `ready`, unless it has a place.
    pub(crate) fn push(&mut self, ready: Ready, place: &mut Option<u64>) {
        if place.is_none() {
            self.places += 1;
            *place = Some(self.places);
            self.queue.push_back((ready, self.places));
        }
    }

    /// Takes the first with its place, which its owner must give up, or have given up.
    pub(crate) fn pop(&mut self) -> Option<(Ready, u64)> {
        self.queue.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
