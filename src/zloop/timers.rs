//! Deadlines. Takes the time as an argument and reads no clock: nanoseconds since a point of the
//! caller's choice.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;

use slab::Slab;

/// Timers by key, and whichever is due next.
///
/// The heap is not searched: cancelling a timer, or moving it to a later time, leaves its item where
/// it is. An item that comes up and is not what its timer waits for is discarded, or put back at the
/// time that it should have. When more than half of the items are such, the heap is built anew.
pub(crate) struct Timers<T> {
    timers: Slab<Timer<T>>,
    heap: BinaryHeap<Reverse<Item>>,
    /// How many items of the heap no timer waits for.
    stale: usize,
    /// Of the next scheduling.
    serial: Serial,
}

/// Counts schedulings, so that of two timers due at the same time the older is first.
pub(crate) type Serial = NonZeroU64;

/// Each in one cache line: among a million of them, that is what it costs to reset one.
#[repr(align(64))]
struct Timer<T> {
    /// When it is due; while it is paused, how long it still had.
    deadline: u64,
    /// From one firing to the next.
    interval: u64,
    /// The item in the heap that this timer waits for.
    item: Option<Serial>,
    left: Repeat,
    paused: bool,
    what: T,
}

/// How often a [timer](crate::ZLoop::timer) fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repeat {
    /// So many times; zero is once. (To `zloop_timer` it is for ever.)
    Times(u32),
    /// Until it is cancelled.
    Forever,
}

impl Repeat {
    /// One time.
    pub const ONCE: Repeat = Repeat::Times(1);
}

/// Ordered by deadline, then by age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    deadline: u64,
    serial: Serial,
    key: u32,
}

impl<T> Default for Timers<T> {
    fn default() -> Timers<T> {
        Timers { timers: Slab::new(), heap: BinaryHeap::new(), stale: 0, serial: Serial::MIN }
    }
}

impl<T> Timers<T> {
    /// A timer that fires `interval` from `now`, and again by `repeat`.
    pub(crate) fn insert(&mut self, now: u64, interval: u64, repeat: Repeat, what: T) -> u32 {
        let deadline = now.saturating_add(interval);
        let left = if repeat == Repeat::Times(0) { Repeat::ONCE } else { repeat };
        let timer = Timer { deadline, interval, item: None, left, paused: false, what };
        let key = self.timers.insert(timer) as u32;
        self.schedule(key, deadline);
        key
    }

    /// Takes a timer away.
    pub(crate) fn remove(&mut self, key: u32) -> Option<T> {
        let timer = self.timers.try_remove(key as usize)?;
        self.abandon(timer.item);
        Some(timer.what)
    }

    /// Starts a timer's interval anew, from when it is resumed if it is paused. One that has had its
    /// last firing gets another.
    pub(crate) fn reset(&mut self, now: u64, key: u32) {
        let Some(timer) = self.timers.get_mut(key as usize) else { return };
        if timer.left == Repeat::Times(0) {
            timer.left = Repeat::ONCE;
        }
        let deadline = now.saturating_add(timer.interval);
        if timer.paused {
            timer.deadline = timer.interval;
        } else if timer.item.is_some() {
            // Its item comes up too early, and is put right then.
            timer.deadline = deadline;
        } else {
            self.schedule(key, deadline);
        }
    }

    /// Stops a timer, which keeps the time that it still had.
    pub(crate) fn pause(&mut self, now: u64, key: u32) {
        let timer = self.timers.get_mut(key as usize).filter(|timer| !timer.paused);
        let Some(timer) = timer else { return };
        timer.paused = true;
        timer.deadline = timer.deadline.saturating_sub(now);
        let item = timer.item.take();
        self.abandon(item);
    }

    /// Lets a stopped timer go on.
    pub(crate) fn resume(&mut self, now: u64, key: u32) {
        let timer = self.timers.get_mut(key as usize).filter(|timer| timer.paused);
        let Some(timer) = timer else { return };
        timer.paused = false;
        if timer.left != Repeat::Times(0) {
            let deadline = now.saturating_add(timer.deadline);
            self.schedule(key, deadline);
        }
    }

    pub(crate) fn get(&self, key: u32) -> Option<&T> {
        self.timers.get(key as usize).map(|timer| &timer.what)
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.timers.get_mut(key as usize).map(|timer| &mut timer.what)
    }

    /// When the next timer is due.
    pub(crate) fn next_deadline(&mut self) -> Option<u64> {
        while let Some(&Reverse(item)) = self.heap.peek() {
            match self.waits_for(item) {
                Some(deadline) if deadline == item.deadline => return Some(deadline),
                waits => self.put_right(item, waits),
            }
        }
        None
    }

    /// A mark in time: timers scheduled from here on are not fired by a [`fire`](Timers::fire) with
    /// this mark.
    pub(crate) fn mark(&self) -> Serial {
        self.serial
    }

    /// The next timer that is due at `now` and was scheduled before `mark`. It is scheduled again, if
    /// it repeats, on its own beat, without the beats that were missed; else it stays, unscheduled.
    pub(crate) fn fire(&mut self, now: u64, mark: Serial) -> Option<u32> {
        self.next_deadline().filter(|deadline| *deadline <= now)?;
        let &Reverse(item) = self.heap.peek().filter(|item| item.0.serial < mark)?;
        self.heap.pop();
        let timer = &mut self.timers[item.key as usize];
        timer.item = None;
        let again = match &mut timer.left {
            Repeat::Forever => true,
            Repeat::Times(left) => {
                *left = left.saturating_sub(1);
                *left > 0
            }
        };
        if again {
            let missed = (now - timer.deadline) / timer.interval.max(1);
            let step = timer.interval.saturating_mul(missed + 1);
            let deadline = timer.deadline.saturating_add(step);
            self.schedule(item.key, deadline);
        }
        Some(item.key)
    }

    /// Whether the timer has had its last firing.
    pub(crate) fn is_done(&self, key: u32) -> bool {
        self.timers.get(key as usize).is_some_and(|timer| timer.left == Repeat::Times(0))
    }

    fn schedule(&mut self, key: u32, deadline: u64) {
        let serial = self.serial;
        self.serial = serial.saturating_add(1); // which takes centuries
        let timer = &mut self.timers[key as usize];
        timer.deadline = deadline;
        timer.item = Some(serial);
        self.heap.push(Reverse(Item { deadline, serial, key }));
    }

    /// When the timer of an item is due, if it waits for this item.
    fn waits_for(&self, item: Item) -> Option<u64> {
        let timer = self.timers.get(item.key as usize)?;
        (timer.item == Some(item.serial)).then_some(timer.deadline)
    }

    /// Takes an item from the top that is not what its timer waits for.
    fn put_right(&mut self, item: Item, waits: Option<u64>) {
        self.heap.pop();
        match waits {
            Some(deadline) => self.heap.push(Reverse(Item { deadline, ..item })),
            None => self.stale -= 1,
        }
    }

    fn abandon(&mut self, item: Option<Serial>) {
        self.stale += usize::from(item.is_some());
        if self.stale > self.heap.len() / 2 + 64 {
            let items = self.timers.iter().filter_map(|(key, timer)| {
                let serial = timer.item?;
                Some(Reverse(Item { deadline: timer.deadline, serial, key: key as u32 }))
            });
            self.heap = items.collect();
            self.stale = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::{Item, Repeat, Serial, Timer, Timers};

    const ALL: u64 = u64::MAX;

    /// The names of the timers that are due at `now`, in the order of firing.
    fn fired(timers: &mut Timers<u32>, now: u64) -> Vec<u32> {
        let mark = timers.mark();
        let mut names = Vec::new();
        while let Some(key) = timers.fire(now, mark) {
            names.push(*timers.get_mut(key).unwrap());
        }
        names
    }

    #[derive(Debug, Clone)]
    enum Op {
        Insert {
            interval: u64,
            repeat: Repeat,
        },
        Remove(usize),
        Reset(usize),
        Pause(usize),
        Resume(usize),
        Get(usize),
        /// Time passes and up to so many timers fire, under a mark set before or after it.
        Fire {
            passes: u64,
            limit: usize,
        },
        /// A timer fires, and another is inserted, removed or reset before the next one.
        FireAmong {
            passes: u64,
            insert: u64,
            remove: usize,
            reset: usize,
        },
        Deadline,
    }

    fn op() -> impl Strategy<Value = Op> {
        let repeat = prop_oneof![
            (0..4_u32).prop_map(Repeat::Times),
            Just(Repeat::Forever),
            Just(Repeat::ONCE),
        ];
        // Few different times, so that many timers are due at the same one.
        let interval =
            prop_oneof![4 => 1..20_u64, 1 => Just(0), 1 => 100..1_000_u64, 1 => Just(ALL)];
        let one = 0..64_usize;
        prop_oneof![
            6 => (interval, repeat).prop_map(|(interval, repeat)| Op::Insert { interval, repeat }),
            2 => one.clone().prop_map(Op::Remove),
            4 => one.clone().prop_map(Op::Reset),
            3 => one.clone().prop_map(Op::Pause),
            3 => one.clone().prop_map(Op::Resume),
            1 => one.clone().prop_map(Op::Get),
            4 => (0..30_u64, 0..10_usize).prop_map(|(passes, limit)| Op::Fire { passes, limit }),
            2 => (0..30_u64, 0..5_u64, one.clone(), one).prop_map(
                |(passes, insert, remove, reset)| Op::FireAmong { passes, insert, remove, reset }
            ),
            2 => Just(Op::Deadline),
        ]
    }

    /// A timer of the model. It is never moved, so its place in the list is its name.
    #[derive(Debug, Clone)]
    struct Naive {
        key: u32,
        interval: u64,
        left: Repeat,
        /// When it is due, and when it was scheduled.
        due: Option<(u64, Serial)>,
        paused: bool,
        /// What a paused timer still has.
        rest: u64,
        gone: bool,
    }

    /// All timers in a list, searched for the earliest each time.
    #[derive(Debug)]
    struct Model {
        now: u64,
        serial: Serial,
        timers: Vec<Naive>,
    }

    impl Model {
        fn new() -> Model {
            Model { now: 0, serial: Serial::MIN, timers: Vec::new() }
        }

        fn next_serial(&mut self) -> Serial {
            let serial = self.serial;
            self.serial = serial.checked_add(1).unwrap();
            serial
        }

        fn pick(&self, which: usize) -> Option<usize> {
            let living: Vec<usize> =
                (0..self.timers.len()).filter(|name| !self.timers[*name].gone).collect();
            (!living.is_empty()).then(|| living[which % living.len()])
        }

        fn insert(&mut self, timers: &mut Timers<u32>, interval: u64, left: Repeat) {
            let name = self.timers.len() as u32;
            let key = timers.insert(self.now, interval, left, name);
            let taken = self.timers.iter().any(|timer| !timer.gone && timer.key == key);
            assert!(!taken, "a living timer's key given again");
            let due = Some((self.now.saturating_add(interval), self.next_serial()));
            let left = if left == Repeat::Times(0) { Repeat::ONCE } else { left };
            let gone = false;
            self.timers.push(Naive { key, interval, left, due, paused: false, rest: 0, gone });
        }

        fn remove(&mut self, timers: &mut Timers<u32>, which: usize) {
            let Some(name) = self.pick(which) else { return };
            self.timers[name].gone = true;
            assert_eq!(timers.remove(self.timers[name].key), Some(name as u32));
        }

        fn reset(&mut self, timers: &mut Timers<u32>, which: usize) {
            let Some(name) = self.pick(which) else { return };
            timers.reset(self.now, self.timers[name].key);
            let timer = &mut self.timers[name];
            if timer.left == Repeat::Times(0) {
                timer.left = Repeat::ONCE;
            }
            if timer.paused {
                timer.rest = timer.interval;
                return;
            }
            // One that is moved to a later time keeps its age.
            let deadline = self.now.saturating_add(timer.interval);
            let serial = timer.due.map(|(_, serial)| serial);
            let serial = serial.unwrap_or_else(|| self.next_serial());
            self.timers[name].due = Some((deadline, serial));
        }

        fn pause(&mut self, timers: &mut Timers<u32>, which: usize) {
            let Some(name) = self.pick(which) else { return };
            let timer = &mut self.timers[name];
            timers.pause(self.now, timer.key);
            timer.paused = true;
            if let Some((due, _)) = timer.due.take() {
                timer.rest = due.saturating_sub(self.now);
            }
        }

        fn resume(&mut self, timers: &mut Timers<u32>, which: usize) {
            let Some(name) = self.pick(which) else { return };
            let timer = &mut self.timers[name];
            timers.resume(self.now, timer.key);
            if std::mem::take(&mut timer.paused) && timer.left != Repeat::Times(0) {
                let deadline = self.now.saturating_add(timer.rest);
                let serial = self.next_serial();
                self.timers[name].due = Some((deadline, serial));
            }
        }

        fn earliest(&self) -> Option<(u64, Serial, usize)> {
            let timers = self.timers.iter().enumerate().filter(|(_, timer)| !timer.gone);
            timers.filter_map(|(name, timer)| timer.due.map(|due| (due.0, due.1, name))).min()
        }

        /// Fires in both, and compares. Whether one did.
        fn fire(&mut self, timers: &mut Timers<u32>, mark: Serial) -> bool {
            let expected = self
                .earliest()
                .filter(|(due, serial, _)| *due <= self.now && *serial < mark)
                .map(|(_, _, name)| name);
            let actual = timers.fire(self.now, mark);
            assert_eq!(actual, expected.map(|name| self.timers[name].key));
            let (Some(name), Some(key)) = (expected, actual) else { return false };
            assert_eq!(timers.get_mut(key), Some(&mut (name as u32)));
            let (due, _) = self.timers[name].due.take().unwrap();
            let again = match &mut self.timers[name].left {
                Repeat::Forever => true,
                Repeat::Times(left) => {
                    *left = left.saturating_sub(1);
                    *left > 0
                }
            };
            assert_eq!(timers.is_done(key), !again);
            if again {
                // Step by step along the beat, to the first that is still to come.
                let step = self.timers[name].interval.max(1);
                let mut next = due.saturating_add(self.timers[name].interval);
                while next <= self.now && self.timers[name].interval > 0 {
                    next = next.saturating_add(step);
                }
                let serial = self.next_serial();
                self.timers[name].due = Some((next, serial));
            }
            true
        }

        fn check(&mut self, timers: &mut Timers<u32>) {
            assert_eq!(timers.next_deadline(), self.earliest().map(|(due, _, _)| due));
            let scheduled = self.timers.iter().filter(|t| !t.gone && t.due.is_some()).count();
            assert_eq!(timers.heap.len() - timers.stale, scheduled, "stale ones miscounted");
            assert!(timers.stale <= timers.heap.len() / 2 + 64, "{} stale", timers.stale);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn timers_do_what_a_sorted_list_does(ops in vec(op(), 1..200)) {
            let (mut model, mut timers) = (Model::new(), Timers::default());
            for op in ops {
                match op {
                    // Zero and for ever is refused by the loop.
                    Op::Insert { interval: 0, .. } => model.insert(&mut timers, 0, Repeat::ONCE),
                    Op::Insert { interval, repeat } => model.insert(&mut timers, interval, repeat),
                    Op::Remove(which) => model.remove(&mut timers, which),
                    Op::Reset(which) => model.reset(&mut timers, which),
                    Op::Pause(which) => model.pause(&mut timers, which),
                    Op::Resume(which) => model.resume(&mut timers, which),
                    Op::Get(which) => if let Some(name) = model.pick(which) {
                        let timer = &model.timers[name];
                        assert_eq!(timers.get_mut(timer.key), Some(&mut (name as u32)));
                        assert_eq!(timers.get(timer.key), Some(&(name as u32)));
                        assert_eq!(timers.is_done(timer.key), timer.left == Repeat::Times(0));
                    },
                    Op::Fire { passes, limit } => {
                        model.now += passes;
                        let mark = timers.mark();
                        for _ in 0..limit {
                            if !model.fire(&mut timers, mark) {
                                break;
                            }
                        }
                    }
                    Op::FireAmong { passes, insert, remove, reset } => {
                        model.now += passes;
                        let mark = timers.mark();
                        // It ends although timers without a delay are added all the while.
                        for _ in 0..1_000 {
                            if !model.fire(&mut timers, mark) {
                                break;
                            }
                            model.insert(&mut timers, insert, Repeat::ONCE);
                            model.remove(&mut timers, remove);
                            model.reset(&mut timers, reset);
                        }
                        assert!(!model.fire(&mut timers, mark), "no end of firing");
                    }
                    Op::Deadline => model.check(&mut timers),
                }
            }
            model.check(&mut timers);
            model.now += 5_000;
            let mark = timers.mark();
            while model.fire(&mut timers, mark) {}
            model.check(&mut timers);
        }
    }

    #[test]
    fn a_repeating_timer_keeps_its_beat_and_skips_what_it_missed() {
        let mut timers = Timers::default();
        timers.insert(1_000, 20, Repeat::Forever, 7);
        assert_eq!(timers.next_deadline(), Some(1_020));
        assert_eq!(fired(&mut timers, 1_019), []);
        assert_eq!(fired(&mut timers, 1_020), [7]);
        // Late by less than a beat: no drift.
        assert_eq!(fired(&mut timers, 1_055), [7]);
        assert_eq!(timers.next_deadline(), Some(1_060));
        // Ten beats late: once, and no burst after it.
        assert_eq!(fired(&mut timers, 1_265), [7]);
        assert_eq!(timers.next_deadline(), Some(1_280));
        assert_eq!(fired(&mut timers, 1_279), []);
        // Late by whole beats exactly: the beat of now is the one that fires.
        assert_eq!(fired(&mut timers, 1_400), [7]);
        assert_eq!(timers.next_deadline(), Some(1_420));
    }

    #[test]
    fn so_many_times_are_counted_in_firings() {
        for (times, expected) in [(0, 1), (1, 1), (2, 2), (3, 3)] {
            let mut timers = Timers::default();
            let key = timers.insert(0, 10, Repeat::Times(times), 0);
            let count = (1..=10).map(|beat| fired(&mut timers, beat * 10).len()).sum::<usize>();
            assert_eq!(count, expected, "of {times}");
            assert!(timers.is_done(key));
            assert_eq!(timers.next_deadline(), None);
        }
    }

    #[test]
    fn of_two_due_at_the_same_time_the_older_is_first() {
        let mut timers = Timers::default();
        for name in 0..100 {
            timers.insert(0, 5, Repeat::ONCE, name);
        }
        assert_eq!(fired(&mut timers, 5), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_mark_leaves_out_what_is_scheduled_after_it() {
        let mut timers = Timers::default();
        timers.insert(0, 0, Repeat::ONCE, 1);
        let mark = timers.mark();
        timers.insert(0, 0, Repeat::ONCE, 2);
        assert!(timers.fire(0, mark).is_some());
        assert_eq!(timers.fire(0, mark), None);
        assert_eq!(timers.next_deadline(), Some(0));
        assert_eq!(fired(&mut timers, 0), [2]);
    }

    #[test]
    fn a_removed_timer_never_fires_nor_does_its_key_mislead() {
        let mut timers = Timers::default();
        let old = timers.insert(0, 5, Repeat::Forever, 1);
        assert_eq!(timers.remove(old), Some(1));
        assert_eq!(timers.remove(old), None);
        assert_eq!(timers.next_deadline(), None);
        // The key is used again, and the old timer's item is still in the heap.
        let new = timers.insert(0, 50, Repeat::ONCE, 2);
        assert_eq!(new, old);
        assert_eq!(fired(&mut timers, 49), []);
        assert_eq!(fired(&mut timers, 50), [2]);
    }

    #[test]
    fn the_longest_interval_does_not_overflow() {
        let mut timers = Timers::default();
        let key = timers.insert(ALL - 5, ALL, Repeat::Forever, 1);
        assert_eq!(timers.next_deadline(), Some(ALL));
        timers.reset(ALL - 1, key);
        timers.pause(10, key);
        timers.resume(ALL - 1, key);
        assert_eq!(fired(&mut timers, ALL - 1), []);
        assert_eq!(timers.fire(ALL, timers.mark()), Some(key));
    }

    fn bytes(timers: &Timers<u32>) -> usize {
        /// As the slab's entries are.
        #[allow(dead_code, reason = "only its size is asked for")]
        enum Entry {
            Vacant(usize),
            Occupied(Timer<u32>),
        }
        timers.timers.capacity() * size_of::<Entry>() + timers.heap.capacity() * size_of::<Item>()
    }

    #[test]
    fn a_million_timers_take_a_hundred_bytes_each_at_most() {
        const TIMERS: usize = 1_000_000;
        let mut timers = Timers::default();
        let keys: Vec<u32> = (0..TIMERS)
            .map(|name| timers.insert(0, 1 + name as u64 % 977, Repeat::Forever, name as u32))
            .collect();
        let each = bytes(&timers) / TIMERS;
        assert!(each <= 100, "{each} bytes for each timer");

        // Resets, pauses and replacements leave something behind, but not much.
        let mut longest = 0;
        for (now, key) in keys.iter().enumerate() {
            timers.reset(now as u64, *key);
            longest = longest.max(timers.heap.len());
        }
        assert_eq!(longest, TIMERS, "a reset to a later time needs no new item");
        for (now, key) in keys.iter().enumerate() {
            timers.pause(now as u64, *key);
            timers.resume(now as u64, *key);
            longest = longest.max(timers.heap.len());
        }
        assert!(longest <= 2 * TIMERS + 1_000, "{longest} items for {TIMERS} timers");
        for (now, key) in keys.iter().enumerate() {
            timers.remove(*key);
            timers.insert(now as u64, 5, Repeat::ONCE, 0);
            longest = longest.max(timers.heap.len());
        }
        assert!(longest <= 2 * TIMERS + 1_000, "{longest} items for {TIMERS} timers");
    }

    #[test]
    fn a_million_resets_of_few_timers_leave_a_small_heap() {
        const TIMERS: u64 = 10;
        let mut timers = Timers::default();
        let keys: Vec<u32> =
            (0..TIMERS).map(|name| timers.insert(0, 500, Repeat::Forever, name as u32)).collect();
        let mut longest = 0;
        for now in 0..1_000_000_u64 {
            let key = keys[(now % TIMERS) as usize];
            if now % 3 == 0 {
                timers.reset(now, key);
            } else {
                timers.pause(now, key);
                timers.resume(now, key);
            }
            longest = longest.max(timers.heap.len());
        }
        assert!(longest <= 200, "{longest} items for {TIMERS} timers");
        assert!(timers.heap.capacity() <= 512);
        // None is lost by it.
        let mut all = fired(&mut timers, 2_000_000);
        all.sort_unstable();
        assert_eq!(all, (0..TIMERS as u32).collect::<Vec<_>>());
    }
}
