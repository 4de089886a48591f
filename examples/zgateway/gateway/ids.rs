//! The 4 bytes by which back-end processes name a client's connection.
//!
//! ```text
//! | generation | slot | I/O thread |
//! ```
//!
//! A slot's generation changes with each owner, and the slot that has been free for longest is
//! reused first, so that a late reply finds that its client is gone instead of reaching another.

use std::collections::VecDeque;

/// Fewer bits of generation would come round too soon.
const LEAST_GENERATION_BITS: u32 = 8;

/// How the bits are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    thread_bits: u32,
    slot_bits: u32,
}

impl Layout {
    /// For so many threads and slots of each; none if 4 bytes are too few.
    pub fn new(threads: usize, slots: usize) -> Option<Layout> {
        let bits = |count: usize| count.checked_next_power_of_two().map(usize::trailing_zeros);
        let (thread_bits, slot_bits) = (bits(threads)?, bits(slots)?);
        let layout = Layout { thread_bits, slot_bits };
        (thread_bits + slot_bits + LEAST_GENERATION_BITS <= u32::BITS).then_some(layout)
    }

    /// How many slots an id has room for with so many threads.
    pub fn most_slots(threads: usize) -> usize {
        let bits = u32::BITS - LEAST_GENERATION_BITS;
        1 << bits.saturating_sub(threads.next_power_of_two().trailing_zeros())
    }

    pub fn thread(self, id: u32) -> usize {
        low_bits(id, self.thread_bits) as usize
    }

    fn slot(self, id: u32) -> usize {
        low_bits(id >> self.thread_bits, self.slot_bits) as usize
    }

    fn id(self, generation: u32, slot: usize, thread: usize) -> u32 {
        (generation << self.slot_bits | slot as u32) << self.thread_bits | thread as u32
    }

    /// Never zero, and so no id is.
    fn next_generation(self, generation: u32) -> u32 {
        let bits = u32::BITS - self.thread_bits - self.slot_bits;
        low_bits(generation.wrapping_add(1), bits).max(1)
    }
}

fn low_bits(number: u32, bits: u32) -> u32 {
    number & 1u32.checked_shl(bits).unwrap_or(0).wrapping_sub(1)
}

/// The connections of one I/O thread by their ids.
pub struct Slots<T> {
    layout: Layout,
    thread: usize,
    most: usize,
    slots: Vec<Slot<T>>,
    /// Slots that were used before, the one that has been free for longest first.
    free: VecDeque<usize>,
    first_generation: u32,
}

struct Slot<T> {
    id: u32,
    owner: Option<T>,
}

impl<T> Slots<T> {
    /// `first_generation` is any number: another in each run, so that replies to the clients of the
    /// last one find nobody.
    pub fn new(layout: Layout, thread: usize, most: usize, first_generation: u32) -> Slots<T> {
        let (slots, free) = (Vec::new(), VecDeque::new());
        Slots { layout, thread, most, slots, free, first_generation }
    }

    /// The id of a new owner; none if all slots are taken.
    pub fn insert(&mut self, owner: T) -> Option<u32> {
        let (slot, last_generation) = if self.slots.len() < self.most {
            self.slots.push(Slot { id: 0, owner: None });
            (self.slots.len() - 1, self.first_generation)
        } else {
            let slot = self.free.pop_front()?;
            (slot, self.slots[slot].id >> (self.layout.thread_bits + self.layout.slot_bits))
        };
        let generation = self.layout.next_generation(last_generation);
        let id = self.layout.id(generation, slot, self.thread);
        self.slots[slot] = Slot { id, owner: Some(owner) };
        Some(id)
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.slot(id)?.owner.as_mut()
    }

    pub fn remove(&mut self, id: u32) -> Option<T> {
        let owner = self.slot(id)?.owner.take()?;
        self.free.push_back(self.layout.slot(id));
        Some(owner)
    }

    pub fn ids(&self) -> Vec<u32> {
        self.slots.iter().filter(|slot| slot.owner.is_some()).map(|slot| slot.id).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    fn slot(&mut self, id: u32) -> Option<&mut Slot<T>> {
        self.slots.get_mut(self.layout.slot(id)).filter(|slot| slot.id == id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_layout_has_room_for_all_or_is_none() {
        assert!(Layout::new(1, 1).is_some());
        assert!(Layout::new(2, 10_000).is_some());
        assert!(Layout::new(16, 1_000_000).is_some());
        assert!(Layout::new(32, 1_000_000).is_none());
        assert!(Layout::new(1, usize::MAX).is_none());
        for threads in 1..=64 {
            let most = Layout::most_slots(threads);
            assert!(Layout::new(threads, most).is_some());
            assert!(Layout::new(threads, most + 1).is_none());
        }
    }

    #[test]
    fn an_id_comes_back_only_when_the_generations_of_all_slots_are_used_up() {
        let layout = Layout { thread_bits: 1, slot_bits: 22 };
        let mut slots = Slots::new(layout, 1, 3, 12345);
        let mut given = HashSet::new();
        // 9 bits of generation without zero, three slots.
        for _ in 0..3 * 511 {
            let id = slots.insert(()).unwrap();
            assert!(given.insert(id));
            assert_ne!(id, 0);
            slots.remove(id).unwrap();
        }
        assert!(given.contains(&slots.insert(()).unwrap()));
    }

    proptest! {
        #[test]
        fn an_id_names_its_owner_and_never_a_later_one(
            (threads, most) in (1usize..=5, 1usize..=20),
            first_generation in any::<u32>(),
            steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..300),
        ) {
            let layout = Layout::new(threads, most).unwrap();
            let thread = threads - 1;
            let mut slots = Slots::new(layout, thread, most, first_generation);
            let mut owners: HashMap<u32, usize> = HashMap::new();
            let mut gone = Vec::new();
            for (step, (insert, which)) in steps.into_iter().enumerate() {
                if insert {
                    match slots.insert(step) {
                        Some(id) => {
                            prop_assert_eq!(layout.thread(id), thread);
                            prop_assert_eq!(owners.insert(id, step), None);
                            prop_assert!(!gone.contains(&id), "used again");
                        }
                        None => prop_assert_eq!(owners.len(), most),
                    }
                } else if !owners.is_empty() {
                    let mut ids: Vec<u32> = owners.keys().copied().collect();
                    ids.sort_unstable();
                    let id = *which.get(&ids);
                    prop_assert_eq!(slots.remove(id), owners.remove(&id));
                    gone.push(id);
                }
                let mut ids = slots.ids();
                ids.sort_unstable();
                let mut expected: Vec<u32> = owners.keys().copied().collect();
                expected.sort_unstable();
                prop_assert_eq!(ids, expected);
                prop_assert_eq!(slots.is_empty(), owners.is_empty());
                for (&id, owner) in &owners {
                    prop_assert_eq!(slots.get_mut(id).copied(), Some(*owner));
                }
                for &id in &gone {
                    prop_assert_eq!(slots.get_mut(id), None);
                    prop_assert_eq!(slots.remove(id), None);
                }
            }
        }

        #[test]
        fn any_number_as_an_id_is_nobody_or_its_owner(id in any::<u32>()) {
            let layout = Layout::new(3, 10).unwrap();
            let mut slots = Slots::new(layout, 2, 10, 0);
            let given: Vec<u32> = (0..5).map(|_| slots.insert(()).unwrap()).collect();
            prop_assert_eq!(slots.get_mut(id).is_some(), given.contains(&id));
        }
    }
}
