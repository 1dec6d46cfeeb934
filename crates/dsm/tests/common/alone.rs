//! Ranks that reach each other's frames, step by step: what `runtime::serverless` does with each
//! message, on the thread of the rank that wants it sent.
//!
//! A copy is two steps, the name in the home's ring and the bytes, so that the home may write and
//! look at its rings between them.

use std::collections::{BTreeMap, VecDeque};

use littoral_base::units::NodeId;
use littoral_dsm::core::frames::Frames as _;
use littoral_dsm::core::lock::Log;
use littoral_dsm::core::message::{LockId, Message, Notice, PageId, PageRun};
use littoral_dsm::core::rank::{Outcome, Rank};

/// A lock in shared memory: its holder and its log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held {
    holder: Option<usize>,
    log: Log,
}

/// A rank's side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Side {
    /// What its operation wants sent.
    queue: VecDeque<(NodeId, Message)>,
    /// The first half of its next step is done.
    has_begun: bool,
    /// Pages copied out of its frames since it looked.
    ring: Vec<(NodeId, PageId)>,
    wanted: Vec<PageId>,
    /// What it noticed before each barrier it came to.
    lists: Vec<Vec<PageRun>>,
}

/// See the module's page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Alone {
    sides: Vec<Side>,
    locks: BTreeMap<LockId, Held>,
    capacity: usize,
}

impl Alone {
    pub(crate) fn new(ranks: usize, capacity: usize) -> Alone {
        Alone { sides: vec![Side::default(); ranks], locks: BTreeMap::new(), capacity }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.sides.iter().all(|side| side.queue.is_empty())
    }

    pub(crate) fn send(&mut self, rank: usize, messages: Vec<(NodeId, Message)>) {
        self.sides[rank].queue.extend(messages);
    }

    /// What a rank does before a scope of its ends.
    pub(crate) fn look_at_rings(&mut self, rank: usize, ranks: &mut [Rank]) {
        for (from, page) in std::mem::take(&mut self.sides[rank].ring) {
            ranks[rank].copied(from, page.into()).unwrap();
        }
    }

    /// Whether rank `rank` can take its next step.
    pub(crate) fn can_go_on(&self, rank: usize) -> bool {
        let side = &self.sides[rank];
        match side.queue.front() {
            None => false,
            Some((_, Message::Acquire { lock, .. })) => {
                self.locks.get(lock).is_none_or(|held| held.holder.is_none())
            }
            Some((_, Message::Arrive { .. })) if side.has_begun => {
                self.sides.iter().all(|other| other.lists.len() >= side.lists.len())
            }
            Some(_) => true,
        }
    }

    /// The next step of rank `rank`; what came of it, if its protocol was told something.
    pub(crate) fn step(
        &mut self,
        rank: usize,
        ranks: &mut [Rank],
    ) -> Option<littoral_dsm::Result<Outcome>> {
        let (to, message) = self.sides[rank].queue.front()?.clone();
        let me = NodeId(rank as u16);
        let is_first = !std::mem::replace(&mut self.sides[rank].has_begun, true);
        match &message {
            Message::GetPage { page, .. } if is_first => {
                self.sides[to.index()].ring.push((me, *page));
                return None;
            }
            Message::Arrive { pages, .. } if is_first => {
                self.sides[rank].lists.push(pages.clone());
                return None;
            }
            _ => {}
        }
        self.sides[rank].has_begun = false;
        self.sides[rank].queue.pop_front();
        let answer = self.carry_out(rank, to, message, ranks)?;
        if let Message::Depart { notices, .. } = &answer {
            for page in std::mem::take(&mut self.sides[rank].wanted) {
                let is_news = |n: &Notice| n.writer != me && n.pages.contains(page);
                if notices.iter().any(is_news) {
                    let home = ranks[rank].home(page);
                    self.sides[home.index()].ring.push((me, page));
                    let bytes = ranks[home.index()].frames().bytes(page);
                    if let Err(e) = ranks[rank].receive(home, Message::Page { page, bytes }) {
                        return Some(Err(e));
                    }
                }
            }
        }
        Some(ranks[rank].receive(to, answer))
    }

    fn carry_out(
        &mut self,
        rank: usize,
        to: NodeId,
        message: Message,
        ranks: &mut [Rank],
    ) -> Option<Message> {
        let (me, capacity) = (NodeId(rank as u16), self.capacity);
        let new = || Held { holder: None, log: Log::new(capacity) };
        match message {
            Message::GetPage { page, .. } => {
                let bytes = ranks[to.index()].frames().bytes(page);
                Some(Message::Page { page, bytes })
            }
            Message::Diffs { diffs } => {
                let frames = ranks[to.index()].frames_mut();
                diffs.iter().for_each(|(page, diff)| frames.apply(*page, diff));
                Some(Message::DiffsApplied)
            }
            Message::DiffsAlong { diffs } => {
                let frames = ranks[to.index()].frames_mut();
                diffs.iter().for_each(|(page, diff)| frames.apply(*page, diff));
                None
            }
            Message::Wanted { held, .. } => {
                self.sides[rank].wanted = held;
                None
            }
            Message::Acquire { lock, seen } => {
                let held = self.locks.entry(lock).or_insert_with(new);
                held.holder = Some(rank);
                held.log.forget_before(ranks[rank].generation());
                let (notices, version) = (held.log.news_for(me, seen), held.log.version());
                Some(Message::Grant { lock, notices, version })
            }
            Message::Release { lock, generation, pages } => {
                let held = self.locks.get_mut(&lock).unwrap();
                assert_eq!(held.holder.take(), Some(rank));
                held.log.forget_before(generation);
                held.log.record(me, generation, &pages);
                None
            }
            Message::Arrive { generation, .. } => {
                let list = |(n, side): (usize, &Side)| {
                    let writer = NodeId(n as u16);
                    let runs = side.lists[generation as usize].clone();
                    runs.into_iter().map(move |pages| Notice { pages, writer })
                };
                let notices = self.sides.iter().enumerate().flat_map(list).collect();
                Some(Message::Depart { generation, notices })
            }
            other => panic!("{other:?} needs a server"),
        }
    }
}
