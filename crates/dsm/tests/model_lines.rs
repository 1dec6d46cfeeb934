//! Every interleaving of small race-free programs on lines of a pool shared in place, read and
//! written in runs: each rank reaches the medium through a private cache that keeps a line until it
//! is dropped and a store until it is written back and fenced.
//!
//! The oracle is a plain shadow memory, touched in the order in which operations end.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use littoral_base::units::NodeId;
use littoral_dsm::core::diff::Diff;
use littoral_dsm::core::frames::{Frames, Permission};
use littoral_dsm::core::message::{LockId, Message, PageId, PageRun};
use littoral_dsm::core::rank::{Outcome, Rank, Shape};
use stateright::{Checker, Model, Property};

/// A line of two bytes.
type Line = [u8; 2];

/// A rank's cache, and the medium while the rank takes a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Cached {
    medium: Vec<Line>,
    lines: BTreeMap<PageId, Line>,
    dirty: BTreeSet<PageId>,
    pending: BTreeSet<PageId>,
    /// What this rank writes of a line at home elsewhere: as it was, and as it is.
    private: BTreeMap<PageId, (Line, Line)>,
}

impl Cached {
    fn load(&mut self, page: PageId) -> Line {
        let medium = self.medium[page.0 as usize];
        let cached = *self.lines.entry(page).or_insert(medium);
        self.private.get(&page).map_or(cached, |(_, now)| *now)
    }

    fn store(&mut self, page: PageId, line: Line) {
        match self.private.get_mut(&page) {
            Some((_, now)) => *now = line,
            None => {
                self.lines.insert(page, line);
                self.dirty.insert(page);
            }
        }
    }
}

impl Frames for Cached {
    fn extend(&mut self, _pages: u32) {}
    fn bytes(&self, page: PageId) -> Vec<u8> {
        panic!("page {} is asked for", page.0)
    }
    fn fill(&mut self, page: PageId, _bytes: &[u8]) {
        panic!("page {} is fetched", page.0)
    }
    fn apply(&mut self, page: PageId, diff: &Diff) {
        let mut line = *self.lines.entry(page).or_insert(self.medium[page.0 as usize]);
        diff.apply(&mut line);
        self.lines.insert(page, line);
        self.dirty.insert(page);
    }
    fn keep_twin(&mut self, page: PageId) {
        let line = self.load(page);
        self.private.insert(page, (line, line));
    }
    fn take_diff(&mut self, page: PageId) -> Diff {
        let (was, now) = self.private.remove(&page).unwrap();
        Diff::between(&was, &now)
    }
    fn is_twin(&mut self, _page: PageId, _bytes: &[u8]) -> bool {
        false
    }
    fn allow(&mut self, _page: PageId, _permission: Permission) {}
    fn write_back(&mut self, run: PageRun) {
        self.pending.extend(run.pages());
    }
    fn fence(&mut self) {
        for page in std::mem::take(&mut self.pending) {
            if self.dirty.remove(&page) {
                self.medium[page.0 as usize] = self.lines[&page];
            }
        }
    }
    fn refresh(&mut self, run: PageRun) {
        for page in run.pages() {
            assert!(!self.dirty.contains(&page), "stores to line {} are lost", page.0);
            self.lines.remove(&page);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Lock(u32),
    Unlock(u32),
    Barrier,
    /// Reads lines, and compares with the oracle.
    Check(Range<u32>),
    /// As `Check`, of one byte.
    CheckByte(u32, usize),
    /// Writes every byte of lines.
    Fill(Range<u32>, u8),
    /// Writes a byte of a line.
    Set(u32, usize, u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Job {
    ranks: Vec<Rank<Cached>>,
    medium: Vec<Line>,
    channels: BTreeMap<(NodeId, NodeId), VecDeque<Message>>,
    programs: Vec<VecDeque<Step>>,
    shadow: Vec<Line>,
    verdict: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Move {
    Run(usize),
    Deliver(NodeId, NodeId),
}

impl Job {
    fn new(lines: u32, log_capacity: usize, programs: &[&[Step]]) -> Job {
        let ranks = programs.len() as u16;
        let shape =
            Shape { ranks, pages: lines, page_bytes: 2, locks: 2, log_capacity, predict: false };
        let rank = |me| {
            let mut rank = Rank::over(NodeId(me), shape.clone(), Cached::default());
            rank.share_in_place();
            rank
        };
        Job {
            ranks: (0..ranks).map(rank).collect(),
            medium: vec![Line::default(); lines as usize],
            channels: BTreeMap::new(),
            programs: programs.iter().map(|p| p.iter().cloned().collect()).collect(),
            shadow: vec![Line::default(); lines as usize],
            verdict: None,
        }
    }

    fn moves(&self) -> Vec<Move> {
        if self.verdict.is_some() {
            return Vec::new();
        }
        let can_run = |&r: &usize| !self.ranks[r].is_waiting() && !self.programs[r].is_empty();
        let full = self.channels.iter().filter(|(_, queue)| !queue.is_empty());
        let run = (0..self.ranks.len()).filter(can_run).map(Move::Run);
        run.chain(full.map(|((from, to), _)| Move::Deliver(*from, *to))).collect()
    }

    fn is_finished(&self) -> bool {
        self.moves().is_empty()
            && self.programs.iter().all(VecDeque::is_empty)
            && self.ranks.iter().all(|rank| !rank.is_waiting())
    }

    /// A step of rank `r`, which has the medium meanwhile.
    fn step<T>(&mut self, r: usize, act: impl FnOnce(&mut Rank<Cached>) -> T) -> T {
        let medium = std::mem::take(&mut self.medium);
        self.ranks[r].frames_mut().medium = medium;
        let answer = act(&mut self.ranks[r]);
        self.medium = std::mem::take(&mut self.ranks[r].frames_mut().medium);
        answer
    }

    fn apply(&mut self, m: Move) {
        let (r, outcome) = match m {
            Move::Run(r) => {
                let step = self.programs[r].pop_front().unwrap();
                (r, self.run(r, &step))
            }
            Move::Deliver(from, to) => {
                let message = self.channels.get_mut(&(from, to)).unwrap().pop_front().unwrap();
                (to.index(), self.step(to.index(), |rank| rank.receive(from, message)))
            }
        };
        match outcome {
            Ok(out) => {
                for (to, message) in out.send {
                    let channel = (NodeId(r as u16), to);
                    self.channels.entry(channel).or_default().push_back(message);
                }
            }
            Err(e) => self.verdict = Some(e.to_string()),
        }
    }

    fn run(&mut self, r: usize, step: &Step) -> littoral_dsm::Result<Outcome> {
        match step {
            Step::Lock(lock) => self.step(r, |rank| rank.lock(LockId(*lock))),
            Step::Unlock(lock) => self.step(r, |rank| rank.unlock(LockId(*lock))),
            Step::Barrier => self.step(r, Rank::barrier),
            Step::Check(lines) => {
                let count = lines.end - lines.start;
                let out = self.step(r, |rank| rank.want(PageId(lines.start), count, false))?;
                lines.clone().for_each(|line| self.compare(r, line, 0..2));
                Ok(out)
            }
            Step::CheckByte(line, at) => {
                let out = self.step(r, |rank| rank.read(PageId(*line)))?;
                self.compare(r, *line, *at..at + 1);
                Ok(out)
            }
            Step::Fill(lines, value) => {
                let count = lines.end - lines.start;
                let out = self.step(r, |rank| rank.want_whole(PageId(lines.start), count))?;
                for line in lines.clone() {
                    self.step(r, |rank| rank.frames_mut().store(PageId(line), [*value; 2]));
                    self.shadow[line as usize] = [*value; 2];
                }
                Ok(out)
            }
            Step::Set(line, at, value) => {
                let out = self.step(r, |rank| rank.write(PageId(*line)))?;
                self.step(r, |rank| {
                    let mut now = rank.frames_mut().load(PageId(*line));
                    now[*at] = *value;
                    rank.frames_mut().store(PageId(*line), now);
                });
                self.shadow[*line as usize][*at] = *value;
                Ok(out)
            }
        }
    }

    fn compare(&mut self, r: usize, line: u32, bytes: Range<usize>) {
        let found = self.step(r, |rank| rank.frames_mut().load(PageId(line)));
        let wanted = self.shadow[line as usize];
        if found[bytes.clone()] != wanted[bytes] {
            let what = format!("rank {r} read {found:?} in line {line}, wanted {wanted:?}");
            self.verdict.get_or_insert(what);
        }
    }
}

struct Explored(Job);

impl Model for Explored {
    type State = Job;
    type Action = Move;

    fn init_states(&self) -> Vec<Job> {
        vec![self.0.clone()]
    }

    fn actions(&self, state: &Job, actions: &mut Vec<Move>) {
        actions.extend(state.moves());
    }

    fn next_state(&self, state: &Job, action: Move) -> Option<Job> {
        let mut next = state.clone();
        next.apply(action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("reads see what scope consistency promises", |_, job: &Job| {
                job.verdict.is_none()
            }),
            Property::always("no rank is stuck", |_, job: &Job| {
                !job.moves().is_empty() || job.is_finished() || job.verdict.is_some()
            }),
        ]
    }
}

fn explore(job: Job, road: &str) {
    let checker = Explored(job).checker().threads(2).spawn_bfs().join();
    if let Some((name, path)) = checker.discoveries().into_iter().next() {
        let verdict = path.last_state().verdict.clone();
        panic!("{name}, {road}: {verdict:?}\n{:#?}", path.into_actions());
    }
    assert!(checker.unique_state_count() > 20, "the model explored nothing");
}

fn explore_all(lines: u32, programs: &[&[Step]]) {
    for log_capacity in [1, 8] {
        let job = Job::new(lines, log_capacity, programs);
        let mut without = job.clone();
        let is_pair = programs.len() == 2;
        let prepare = if is_pair { Rank::exchange_arrivals } else { Rank::gather_arrivals };
        without.ranks.iter_mut().for_each(prepare);
        explore(without, "without a manager");
        explore(job, "by the manager");
    }
}

use Step::{Barrier, Check, CheckByte, Fill, Lock, Set, Unlock};

#[test]
fn barriers_publish_runs() {
    let a = [Fill(0..3, 1), Barrier, Check(0..5), Barrier, Fill(1..4, 5), Barrier, Check(0..5)];
    let b = [Fill(3..5, 2), Barrier, Check(0..5), Barrier, Fill(4..5, 6), Barrier, Check(0..5)];
    explore_all(5, &[&a, &b]);
    let c = [Barrier, Check(0..5), Barrier, Barrier, Check(1..4)];
    explore_all(5, &[&a, &b, &c]);
}

#[test]
fn sections_publish_runs() {
    let a = [Lock(0), Check(0..4), Fill(0..3, 1), Unlock(0), Lock(0), Check(0..4), Unlock(0)];
    let b = [Lock(0), Check(0..4), Fill(2..4, 7), Unlock(0), Lock(0), Fill(1..2, 9), Unlock(0)];
    explore_all(4, &[&a, &b]);
    let c = [Lock(0), Check(0..4), Unlock(0)];
    explore_all(4, &[&a[..4], &b, &c]);
}

#[test]
fn an_inner_run_is_published_by_the_outer_lock_too() {
    let a = [Lock(0), Fill(0..2, 3), Lock(1), Fill(2..4, 4), Unlock(1), Unlock(0)];
    let b = [Lock(0), Check(0..4), Unlock(0)];
    explore_all(4, &[&a, &b]);
}

/// Each byte of line 1 belongs to a lock; the line lies between two that are written in runs.
#[test]
fn parts_and_runs_meet_in_a_barrier() {
    let own = |lock: u32, at: usize, value| {
        [Lock(lock), CheckByte(1, at), Set(1, at, value), Unlock(lock), Barrier, Check(0..3)]
    };
    let a = [&own(0, 0, 5)[..], &[Barrier, Fill(0..3, 8), Barrier, Check(0..3)]].concat();
    let b = [&own(1, 1, 6)[..], &[Barrier, Barrier, Check(0..3)]].concat();
    explore_all(3, &[&a, &b]);
    explore_all(3, &[&b, &a]);
}

/// The canary: a program with a race must be caught, or the oracle sees nothing.
#[test]
fn a_race_is_caught() {
    let job = Job::new(2, 8, &[&[Fill(0..2, 1), Barrier], &[Check(0..2), Check(0..2), Barrier]]);
    let checker = Explored(job).checker().spawn_bfs().join();
    assert!(checker.discovery("reads see what scope consistency promises").is_some());
}
