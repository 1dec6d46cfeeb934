//! Ranks that reach each other's frames, step by step: what `runtime::short` does at the end of a
//! scope, and what `runtime::serverless` does with each message, on the thread of the rank that
//! wants it sent.
//!
//! A copy is two steps, the name in the home's ring and the bytes, so that the home may write and
//! look at its rings between them. The end of a scope by the short way is a step for the
//! differences of each home, one for the lock or for the list before a barrier, and one for the
//! barrier.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

use littoral_base::units::NodeId;
use littoral_dsm::core::frames::Frames as _;
use littoral_dsm::core::lock::Log;
use littoral_dsm::core::message::{LockId, Message, Notice, Notices, PageId, PageRun};
use littoral_dsm::core::rank::{Ending, Next, Outcome, Rank, Shelf};
use littoral_dsm::core::shared::Words;

/// A lock in shared memory: its holder and the words of its log, as far as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Held {
    holder: Option<usize>,
    log: Vec<u64>,
}

/// The words of a log; those that were never written are zero.
struct LogWords<'l>(RefCell<&'l mut Vec<u64>>);

impl Words for LogWords<'_> {
    fn load(&self, at: usize, _order: Ordering) -> u64 {
        self.0.borrow().get(at).copied().unwrap_or(0)
    }
    fn store(&self, at: usize, value: u64, _order: Ordering) {
        let mut words = self.0.borrow_mut();
        let len = words.len().max(at + 1);
        words.resize(len, 0);
        words[at] = value;
    }
    fn change(&self, _at: usize, _current: u64, _new: u64, _order: Ordering) -> bool {
        panic!("a log is written by who holds its lock")
    }
}

impl Held {
    fn words(&mut self) -> LogWords<'_> {
        LogWords(RefCell::new(&mut self.log))
    }

    fn news(&mut self, rank: NodeId, seen: u64, generation: u64) -> (Notices, u64) {
        let (words, mut news) = (self.words(), Vec::new());
        let is_whole = Log::news_in(&words, rank, seen, generation, &mut news);
        let notices = if is_whole { Notices::These(news) } else { Notices::Everything };
        (notices, Log::version_in(&words))
    }

    /// Records and forgets what lies behind the entries, which equal logs may differ in.
    fn record(&mut self, capacity: usize, rank: NodeId, generation: u64, pages: &[PageRun]) {
        Log::record_in(&self.words(), capacity, rank, generation, pages);
        let entries = self.log.get(2).copied().unwrap_or(0) as usize;
        self.log.truncate(4 + 4 * entries);
    }
}

/// Which way scopes end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// By the short way where it is open.
    Short,
    /// By messages on ranks of odd number.
    Mixed,
}

/// An operation on the short way, and what it does next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Short {
    shelf: Shelf,
    next: Do,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Do {
    /// Writes the differences on the shelf into this rank's frames.
    Merge(NodeId),
    Follow(Next),
}

/// A rank's side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Side {
    short: Option<Short>,
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
    way: Way,
}

impl Alone {
    pub(crate) fn new(ranks: usize, capacity: usize, way: Way) -> Alone {
        Alone { sides: vec![Side::default(); ranks], locks: BTreeMap::new(), capacity, way }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.sides.iter().all(|side| side.queue.is_empty() && side.short.is_none())
    }

    /// Whether an operation of the rank is on the short way.
    pub(crate) fn is_on_short_way(&self, rank: usize) -> bool {
        self.sides[rank].short.is_some()
    }

    /// Begins the end of a scope by the short way; whether it is open.
    pub(crate) fn begin_short(
        &mut self,
        rank: usize,
        ending: Ending,
        ranks: &mut [Rank],
    ) -> littoral_dsm::Result<bool> {
        if self.way == Way::Mixed && rank % 2 == 1 {
            return Ok(false);
        }
        let mut shelf = Shelf::default();
        let is_open = ranks[rank].begin_short(ending, &mut shelf)?;
        if is_open {
            self.go_on_short(rank, shelf, ranks);
        }
        Ok(is_open)
    }

    /// Finds the next step that other ranks can see; what comes before it changes this one alone.
    fn go_on_short(&mut self, rank: usize, mut shelf: Shelf, ranks: &mut [Rank]) {
        let next = match ranks[rank].next_differences(&mut shelf) {
            Some(home) => Do::Merge(home),
            None => Do::Follow(ranks[rank].end_scope(&mut shelf)),
        };
        self.sides[rank].short = Some(Short { shelf, next });
    }

    fn step_short(
        &mut self,
        rank: usize,
        short: Short,
        ranks: &mut [Rank],
    ) -> Option<littoral_dsm::Result<Outcome>> {
        let (me, capacity) = (NodeId(rank as u16), self.capacity);
        let generation = ranks[rank].generation();
        let Short { shelf, next } = short;
        match next {
            Do::Merge(home) => {
                let frames = ranks[home.index()].frames_mut();
                shelf.differences().iter().for_each(|(page, diff)| frames.apply(*page, diff));
                self.go_on_short(rank, shelf, ranks);
                None
            }
            Do::Follow(Next::Take(lock, seen)) => {
                let held = self.locks.entry(lock).or_default();
                assert_eq!(held.holder.replace(rank), None);
                let (notices, version) = held.news(me, seen, generation);
                Some(ranks[rank].granted(lock, &notices, version))
            }
            Do::Follow(Next::Leave(lock)) => {
                let held = self.locks.get_mut(&lock).unwrap();
                held.record(capacity, me, generation, &shelf.told);
                assert_eq!(held.holder.take(), Some(rank));
                Some(Ok(Outcome { done: true, ..Outcome::default() }))
            }
            Do::Follow(Next::Meet(wanted))
                if self.sides[rank].lists.len() == generation as usize =>
            {
                self.sides[rank].lists.push(shelf.told.clone());
                let next = Do::Follow(Next::Meet(wanted));
                self.sides[rank].short = Some(Short { shelf, next });
                None
            }
            Do::Follow(Next::Meet(wanted)) => {
                let notices = self.notices(generation);
                let brought = self.bring(rank, wanted, &notices, ranks);
                Some(brought.and_then(|()| ranks[rank].departed(&notices)))
            }
        }
    }

    /// What all ranks noticed before a barrier.
    fn notices(&self, generation: u64) -> Vec<Notice> {
        let list = |(n, side): (usize, &Side)| {
            let writer = NodeId(n as u16);
            let runs = side.lists[generation as usize].clone();
            runs.into_iter().map(move |pages| Notice { pages, writer })
        };
        self.sides.iter().enumerate().flat_map(list).collect()
    }

    /// Copies the pages that were wanted with a departure and that it names.
    fn bring(
        &mut self,
        rank: usize,
        wanted: Vec<PageId>,
        notices: &[Notice],
        ranks: &mut [Rank],
    ) -> littoral_dsm::Result<()> {
        let me = NodeId(rank as u16);
        for page in wanted {
            if notices.iter().any(|n| n.writer != me && n.pages.contains(page)) {
                let home = ranks[rank].home(page);
                self.sides[home.index()].ring.push((me, page));
                let bytes = ranks[home.index()].frames().bytes(page);
                ranks[rank].receive(home, Message::Page { page, bytes })?;
            }
        }
        Ok(())
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
        let is_free = |lock: &LockId| self.locks.get(lock).is_none_or(|l| l.holder.is_none());
        let have_come = || self.sides.iter().all(|other| other.lists.len() >= side.lists.len());
        match (&side.short, side.queue.front()) {
            (Some(Short { next: Do::Follow(Next::Take(lock, _)), .. }), _) => is_free(lock),
            (Some(Short { next: Do::Follow(Next::Meet(_)), .. }), _) => have_come(),
            (Some(_), _) => true,
            (None, None) => false,
            (None, Some((_, Message::Acquire { lock, .. }))) => is_free(lock),
            (None, Some((_, Message::Arrive { .. }))) if side.has_begun => have_come(),
            (None, Some(_)) => true,
        }
    }

    /// The next step of rank `rank`; what came of it, if its protocol was told something.
    pub(crate) fn step(
        &mut self,
        rank: usize,
        ranks: &mut [Rank],
    ) -> Option<littoral_dsm::Result<Outcome>> {
        if let Some(short) = self.sides[rank].short.take() {
            return self.step_short(rank, short, ranks);
        }
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
            let wanted = std::mem::take(&mut self.sides[rank].wanted);
            if let Err(e) = self.bring(rank, wanted, notices, ranks) {
                return Some(Err(e));
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
                let held = self.locks.entry(lock).or_default();
                held.holder = Some(rank);
                let (notices, version) = held.news(me, seen, ranks[rank].generation());
                Some(Message::Grant { lock, notices, version })
            }
            Message::Release { lock, generation, pages } => {
                let held = self.locks.get_mut(&lock).unwrap();
                assert_eq!(held.holder.take(), Some(rank));
                held.record(capacity, me, generation, &pages);
                None
            }
            Message::Arrive { generation, .. } => {
                Some(Message::Depart { generation, notices: self.notices(generation) })
            }
            other => panic!("{other:?} needs a server"),
        }
    }
}
