//! What was stored, written back and fenced, and every image a power cut could leave of it.
//!
//! Model
//! - Stores to one line reach the medium in program order, so a line's image is a prefix of its
//!   stores ([`Tear::LinePrefix`]); or, stricter than any x86, each word of a line advances on its
//!   own ([`Tear::Words`]).
//! - A line may reach the medium at any time. A write-back of an actor covers the stores made to
//!   the line so far; the actor's next fence makes exactly those durable.
//! - Power is cut after any event. A commit point says how many acknowledgements the user holds
//!   then.
//!
//! Invariants
//! - Each image visited is one the model allows; where the product of choices at a crash point is
//!   at most the limit all of them are visited, otherwise a seeded sample of that size. Checked by
//!   `a_line_leaves_prefixes_and_torn_words_leave_every_subset`,
//!   `sampling_respects_the_limit_and_says_so`.
//! - After a store only images that hold it are visited: the others were visited one event earlier.
//!   Checked by `after_a_store_only_images_that_hold_it_are_visited`.
//!
//! A failing image is named by its event and choices ([`Failure`]), which repeat it.

use std::collections::BTreeMap;

use littoral_base::mutant;
use littoral_base::rng::{self, Rng};

use crate::memory::LINE_BYTES;

/// Who did something: a thread, or a role that a test plays.
pub type Actor = u32;

/// One thing done to the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A word stored (index in words).
    Store {
        /// Word index.
        word: u32,
        /// The value.
        value: u64,
    },
    /// A line's write-back started (index in lines).
    WriteBack {
        /// Line index.
        line: u32,
        /// By whom.
        actor: Actor,
    },
    /// A fence returned.
    Fence {
        /// Whose.
        actor: Actor,
    },
    /// What is fenced so far was acknowledged.
    CommitPoint {
        /// To whom.
        actor: Actor,
    },
}

/// How a line that was not fenced may be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// A prefix of its stores (x86).
    LinePrefix,
    /// Each word a prefix of its own stores (torn lines, weaker processors).
    Words,
}

/// How to enumerate.
#[derive(Clone, Copy, Debug)]
pub struct Enumerate {
    /// How lines tear.
    pub tear: Tear,
    /// The most images visited at one crash point.
    pub images_per_point_max: u64,
    /// Seed of the sampling where there are more.
    pub seed: u64,
}

impl Default for Enumerate {
    fn default() -> Self {
        Enumerate { tear: Tear::LinePrefix, images_per_point_max: 256, seed: 1 }
    }
}

/// One image a power cut can leave.
#[derive(Debug)]
pub struct CrashImage<'a> {
    /// The medium.
    pub words: &'a [u64],
    /// How many events came before the cut.
    pub events_before: usize,
    /// Commit points before the cut, over all actors.
    pub acknowledged: u64,
    /// Stores kept of each unfenced unit, in the order of their addresses.
    pub choice: &'a [u32],
}

/// An image whose check failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How many events came before the cut.
    pub events_before: usize,
    /// Stores kept of each unfenced unit.
    pub choice: Vec<u32>,
    /// What the check said.
    pub message: String,
}

/// What an enumeration covered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Crash points.
    pub points_count: u64,
    /// Images checked.
    pub images_count: u64,
    /// Crash points at which only a sample was checked.
    pub sampled_points_count: u64,
    /// The first failure; enumeration stops there.
    pub failure: Option<Failure>,
}

/// A record of stores, write-backs and fences over a starting image.
#[derive(Clone, Debug)]
pub struct Trace {
    initial: Vec<u64>,
    current: Vec<u64>,
    events: Vec<Event>,
}

impl Trace {
    /// An empty trace over `initial`, all of it durable.
    pub fn new(initial: Vec<u64>) -> Self {
        Trace { current: initial.clone(), initial, events: Vec::new() }
    }

    /// The events so far.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The memory as its own processor sees it.
    pub fn current(&self) -> &[u64] {
        &self.current
    }

    /// Records a store of a word.
    pub fn store_word(&mut self, word: usize, value: u64) {
        self.current[word] = value;
        self.events.push(Event::Store { word: narrow(word), value });
    }

    /// Records a store of bytes at any offset, as stores of the words they touch, front to back.
    pub fn store_bytes(&mut self, offset: usize, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let (word, at) = ((offset + done) / 8, (offset + done) % 8);
            let n = (8 - at).min(bytes.len() - done);
            let mut value = self.current[word].to_le_bytes();
            value[at..at + n].copy_from_slice(&bytes[done..done + n]);
            self.store_word(word, u64::from_le_bytes(value));
            done += n;
        }
    }

    /// Records the write-back of the lines of a range; an empty one has none.
    pub fn write_back(&mut self, actor: Actor, offset: usize, len: usize) {
        if len == 0 && !mutant!("trace_empty_range_has_a_line") {
            return;
        }
        for line in offset / LINE_BYTES..(offset + len).div_ceil(LINE_BYTES) {
            self.events.push(Event::WriteBack { line: narrow(line), actor });
        }
    }

    /// Records a fence.
    pub fn fence(&mut self, actor: Actor) {
        self.events.push(Event::Fence { actor });
    }

    /// Records an acknowledgement.
    pub fn commit_point(&mut self, actor: Actor) {
        self.events.push(Event::CommitPoint { actor });
    }

    /// Visits the images of every crash point until `check` refuses one.
    pub fn enumerate(
        &self,
        how: &Enumerate,
        mut check: impl FnMut(&CrashImage) -> Result<(), String>,
    ) -> Coverage {
        let mut walk = Walk::new(self, how);
        walk.visit_point(0, None, &mut check);
        for (i, event) in self.events.iter().enumerate() {
            if walk.coverage.failure.is_some() {
                break;
            }
            match walk.apply(event) {
                Step::Quiet => {}
                Step::Point(fixed) => walk.visit_point(i + 1, fixed, &mut check),
            }
        }
        walk.coverage
    }
}

fn narrow(index: usize) -> u32 {
    u32::try_from(index).expect("invariant: a traced memory is below 32 GiB")
}

/// A unit of tearing (a line or a word) with stores that no fence covers yet.
#[derive(Debug, Default)]
struct Unit {
    /// Stores made durable so far, counted from the start of the trace.
    durable: usize,
    pending: Vec<(u32, u64)>,
}

enum Step {
    Quiet,
    /// A crash point; a unit, if any, whose every store is kept.
    Point(Option<u32>),
}

struct Walk<'a> {
    how: &'a Enumerate,
    medium: Vec<u64>,
    scratch: Vec<u64>,
    units: BTreeMap<u32, Unit>,
    started: BTreeMap<Actor, Vec<(u32, usize)>>,
    acknowledged: u64,
    rng: rng::Generator,
    coverage: Coverage,
}

impl<'a> Walk<'a> {
    fn new(trace: &Trace, how: &'a Enumerate) -> Self {
        Walk {
            how,
            medium: trace.initial.clone(),
            scratch: Vec::new(),
            units: BTreeMap::new(),
            started: BTreeMap::new(),
            acknowledged: 0,
            rng: rng::stream(how.seed, "crash-images"),
            coverage: Coverage::default(),
        }
    }

    fn unit_of(&self, word: u32) -> u32 {
        match self.how.tear {
            Tear::LinePrefix => word / (LINE_BYTES as u32 / 8),
            Tear::Words => word,
        }
    }

    fn apply(&mut self, event: &Event) -> Step {
        match *event {
            Event::Store { word, value } => {
                let unit = self.unit_of(word);
                self.units.entry(unit).or_default().pending.push((word, value));
                Step::Point(Some(unit))
            }
            Event::WriteBack { line, actor } => {
                self.start(line, actor);
                Step::Quiet
            }
            Event::Fence { actor } => {
                for (unit, upto) in self.started.remove(&actor).unwrap_or_default() {
                    self.make_durable(unit, upto);
                }
                Step::Quiet
            }
            Event::CommitPoint { .. } => {
                self.acknowledged += 1;
                Step::Point(None)
            }
        }
    }

    fn start(&mut self, line: u32, actor: Actor) {
        let per_line = LINE_BYTES as u32 / 8;
        let units = match self.how.tear {
            Tear::LinePrefix => line..line + 1,
            Tear::Words => line * per_line..(line + 1) * per_line,
        };
        let started = self.started.entry(actor).or_default();
        for (&id, unit) in self.units.range(units) {
            started.push((id, unit.durable + unit.pending.len()));
        }
    }

    fn make_durable(&mut self, id: u32, upto: usize) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        let n = upto.saturating_sub(unit.durable);
        for (word, value) in unit.pending.drain(..n) {
            self.medium[word as usize] = value;
        }
        unit.durable += n;
    }

    fn visit_point(
        &mut self,
        events_before: usize,
        fixed: Option<u32>,
        check: &mut impl FnMut(&CrashImage) -> Result<(), String>,
    ) {
        self.coverage.points_count += 1;
        // `most` is what can be kept of each torn unit; a fixed unit keeps all, so its digit is
        // fixed.
        let torn: Vec<u32> =
            self.units.iter().filter(|(_, u)| !u.pending.is_empty()).map(|(&id, _)| id).collect();
        let most: Vec<u32> = torn.iter().map(|id| narrow(self.units[id].pending.len())).collect();
        let least: Vec<u32> =
            torn.iter().zip(&most).map(|(id, &m)| if Some(*id) == fixed { m } else { 0 }).collect();
        let product = most
            .iter()
            .zip(&least)
            .try_fold(1u64, |p, (m, l)| p.checked_mul(u64::from(m - l) + 1))
            .unwrap_or(u64::MAX);
        let all = product <= self.how.images_per_point_max;
        self.coverage.sampled_points_count += u64::from(!all);
        let mut choice = least.clone();
        for n in 0..product.min(self.how.images_per_point_max) {
            if !all {
                draw(&mut self.rng, n, &least, &most, &mut choice);
            }
            self.visit(events_before, &torn, &choice, check);
            if self.coverage.failure.is_some() {
                return;
            }
            if all {
                advance(&least, &most, &mut choice);
            }
        }
    }

    fn visit(
        &mut self,
        events_before: usize,
        torn: &[u32],
        choice: &[u32],
        check: &mut impl FnMut(&CrashImage) -> Result<(), String>,
    ) {
        self.scratch.clone_from(&self.medium);
        for (id, &kept) in torn.iter().zip(choice) {
            for &(word, value) in &self.units[id].pending[..kept as usize] {
                self.scratch[word as usize] = value;
            }
        }
        self.coverage.images_count += 1;
        let acknowledged = self.acknowledged;
        let image = CrashImage { words: &self.scratch, events_before, acknowledged, choice };
        if let Err(message) = check(&image) {
            let choice = choice.to_vec();
            self.coverage.failure = Some(Failure { events_before, choice, message });
        }
    }
}

/// The next choice in odometer order.
fn advance(least: &[u32], most: &[u32], choice: &mut [u32]) {
    for i in 0..choice.len() {
        if choice[i] < most[i] {
            choice[i] += 1;
            return;
        }
        choice[i] = least[i];
    }
}

/// A sampled choice: the two extremes first, then uniform draws.
fn draw(rng: &mut rng::Generator, n: u64, least: &[u32], most: &[u32], choice: &mut [u32]) {
    for i in 0..choice.len() {
        choice[i] = match n {
            0 => least[i],
            1 => most[i],
            _ => rng.random_range(least[i]..=most[i]),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn images(trace: &Trace, tear: Tear) -> BTreeSet<(u64, Vec<u64>)> {
        let mut seen = BTreeSet::new();
        let how = Enumerate { tear, images_per_point_max: 1 << 20, seed: 1 };
        let coverage = trace.enumerate(&how, |image| {
            seen.insert((image.acknowledged, image.words.to_vec()));
            Ok(())
        });
        assert_eq!((coverage.sampled_points_count, coverage.failure), (0, None));
        seen
    }

    #[test]
    fn a_line_leaves_prefixes_and_torn_words_leave_every_subset() {
        let mut t = Trace::new(vec![0; 8]);
        t.store_word(0, 1);
        t.store_word(1, 2);
        let first = |words: &[u64]| (words[0], words[1]);
        let kept = |tear| images(&t, tear).iter().map(|(_, w)| first(w)).collect::<BTreeSet<_>>();
        assert_eq!(kept(Tear::LinePrefix), BTreeSet::from([(0, 0), (1, 0), (1, 2)]));
        assert_eq!(kept(Tear::Words), BTreeSet::from([(0, 0), (1, 0), (0, 2), (1, 2)]));
    }

    #[test]
    fn after_a_store_only_images_that_hold_it_are_visited() {
        let mut t = Trace::new(vec![0; 16]);
        for (word, value) in [(0, 1), (8, 2), (1, 3)] {
            t.store_word(word, value);
        }
        let mut images = Vec::new();
        let how = Enumerate { images_per_point_max: 1 << 20, ..Enumerate::default() };
        let coverage = t.enumerate(&how, |image| {
            if let Some(Event::Store { word, value }) =
                image.events_before.checked_sub(1).map(|at| t.events()[at])
                && image.words[word as usize] != value
            {
                return Err(format!("word {word} does not hold {value}"));
            }
            images.push(image.events_before);
            Ok(())
        });
        assert_eq!(coverage.failure, None);
        // One image before and after the first store, two after the second, two after the third.
        assert_eq!(images, [0, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn only_the_actors_own_fence_after_its_write_back_makes_a_line_durable() {
        let mut t = Trace::new(vec![0; 16]);
        t.store_word(0, 7);
        t.write_back(1, 0, 8);
        t.store_word(0, 8);
        t.fence(2);
        t.commit_point(2);
        let early: BTreeSet<u64> =
            images(&t, Tear::LinePrefix).iter().filter(|i| i.0 == 1).map(|i| i.1[0]).collect();
        assert_eq!(
            early,
            BTreeSet::from([0, 7, 8]),
            "another actor's fence covers nothing of ours"
        );
        t.fence(1);
        t.commit_point(1);
        let late: BTreeSet<u64> =
            images(&t, Tear::LinePrefix).iter().filter(|i| i.0 == 2).map(|i| i.1[0]).collect();
        assert_eq!(late, BTreeSet::from([7, 8]), "the store after the write-back stays free");
    }

    #[test]
    fn an_empty_range_writes_no_line_back() {
        let mut t = Trace::new(vec![0; 16]);
        t.store_word(1, 7);
        t.write_back(1, 8, 0);
        t.fence(1);
        t.commit_point(1);
        let acknowledged = images(&t, Tear::LinePrefix).into_iter().filter(|i| i.0 == 1);
        let left: BTreeSet<u64> = acknowledged.map(|i| i.1[1]).collect();
        assert_eq!(left, BTreeSet::from([0, 7]), "the store is not durable");
    }

    #[test]
    fn a_missing_fence_is_found_and_its_image_named() {
        // Data and its valid mark in different lines, the mark not fenced after the data.
        let mut t = Trace::new(vec![0; 16]);
        t.store_word(0, 42);
        t.store_word(8, 1);
        t.write_back(1, 0, 128);
        t.fence(1);
        let check = |image: &CrashImage| match (image.words[0], image.words[8]) {
            (0, 1) => Err("mark without data".to_owned()),
            _ => Ok(()),
        };
        let coverage = t.enumerate(&Enumerate::default(), check);
        let failure = coverage.failure.expect("the bug is reachable");
        assert_eq!((failure.events_before, failure.choice), (2, vec![0, 1]));
    }

    #[test]
    fn unaligned_bytes_become_stores_of_their_words() {
        let mut t = Trace::new(vec![u64::MAX; 8]);
        t.store_bytes(6, &[1, 2, 3]);
        assert_eq!(t.current()[0].to_le_bytes()[6..], [1, 2]);
        assert_eq!(t.current()[1].to_le_bytes()[..2], [3, 255]);
        assert_eq!(t.events().len(), 2);
    }

    #[test]
    fn sampling_respects_the_limit_and_says_so() {
        let mut t = Trace::new(vec![0; 80]);
        for word in 0..80 {
            t.store_word(word, 1);
        }
        let how = Enumerate { images_per_point_max: 10, ..Enumerate::default() };
        let coverage = t.enumerate(&how, |_| Ok(()));
        assert!(coverage.sampled_points_count > 0 && coverage.images_count <= 10 * 81);
    }
}
