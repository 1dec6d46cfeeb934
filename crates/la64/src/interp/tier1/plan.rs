//! The code of a region before it is written: which paths it has, in which order their instructions
//! stand, and where control goes from each branch.
//!
//! - Of the trees of a trace the nodes that were executed most often are kept, at most
//!   [`INSTRUCTIONS_MAX`]. A kept node's predecessor is kept.
//! - A *segment* is a path without its forks: each instruction's successor on it stands behind it.
//!   Where a path forks, the side that was taken more often goes on, and the other one, if it is
//!   kept, is a segment of its own, with one way in.

use super::trace::{Contexts, Kind, Next, Paths, Stretch};
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

/// Instructions of a region.
pub(in super::super) const INSTRUCTIONS_MAX: usize = 512;
/// Targets of an indirect branch that are compared in turn.
const TARGETS_MAX: usize = 6;

/// Where a path ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// At an anchor of the region.
    Anchor(usize),
    /// Outside, at this address.
    Out(u64),
}

/// The end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) to: To,
    /// The calls that it is inside.
    pub(super) context: usize,
}

/// What follows on one side of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The instruction behind it in the list, or the end of its segment.
    On,
    /// The beginning of another segment.
    Segment(usize),
    /// The path's end.
    End(End),
}

/// What follows a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// One side.
    One(Side),
    /// That of a branch taken, and that of one not taken.
    Two(Side, Side),
    /// By the address in a register.
    Targets(Vec<(u64, Side)>),
    /// The region is left as a block is.
    Leave,
}

/// Instructions of a path, each behind the other.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) list: Range<usize>,
    /// What follows its last instruction, unless that says so itself.
    pub(super) end: Option<End>,
}

/// What a region has beside its instructions.
#[derive(Debug)]
pub(in super::super) struct Plan {
    /// Addresses of its instructions.
    pub(in super::super) list: Vec<u64>,
    pub(super) segments: Vec<Segment>,
    /// Addresses of anchors, by their numbers.
    pub(super) anchors: Vec<u64>,
    /// Of each instruction: itself and those before it on its path.
    pub(super) counts: Vec<u16>,
    /// Of each instruction: how often it was executed.
    pub(super) weights: Vec<u32>,
    /// Of each instruction: the calls that it is inside.
    pub(super) within: Vec<usize>,
    /// What follows each branch.
    ways: Vec<Option<Way>>,
    pub(super) contexts: Contexts,
}

/// How a trace fares in a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Fare {
    /// Instructions on its paths.
    pub(in super::super) inside: u64,
    /// How often it is left.
    pub(in super::super) exits: u64,
}

impl std::ops::Add for Fare {
    type Output = Fare;

    fn add(self, other: Fare) -> Fare {
        Fare { inside: self.inside + other.inside, exits: self.exits + other.exits }
    }
}

/// A plan under construction.
struct Planner<'a> {
    paths: &'a Paths,
    kept: Vec<bool>,
    /// The numbers of kept anchors.
    numbers: Vec<Option<usize>>,
    find: &'a dyn Fn(u64) -> (Kind, u64),
    plan: Plan,
    /// First nodes of segments that have no place in the list yet.
    pending: VecDeque<usize>,
    /// Segments that are planned, those that are pending included.
    segments_count: usize,
}

impl Plan {
    /// The plan of a region with these paths, whose instructions have kinds, and targets if those
    /// are fixed; `None` if it would have no instruction.
    pub(in super::super) fn of(paths: &Paths, find: &dyn Fn(u64) -> (Kind, u64)) -> Option<Plan> {
        let kept = kept(paths);
        let anchors: Vec<usize> = (0..paths.anchors.len()).filter(|&n| kept[n]).collect();
        let number = |n: usize| anchors.iter().position(|&a| a == n);
        let plan = Plan {
            list: Vec::new(),
            segments: Vec::new(),
            anchors: anchors.iter().map(|&n| paths.anchors[n]).collect(),
            counts: Vec::new(),
            weights: Vec::new(),
            within: Vec::new(),
            ways: Vec::new(),
            contexts: paths.contexts.clone(),
        };
        let numbers = (0..paths.anchors.len()).map(number).collect();
        // The first segments are those of the anchors.
        let pending: VecDeque<usize> = anchors.iter().copied().collect();
        let segments_count = pending.len();
        let mut planner = Planner { paths, kept, numbers, find, plan, pending, segments_count };
        while let Some(next) = planner.pending.pop_front() {
            planner.segment(next)?;
        }
        debug_assert_eq!(planner.plan.segments.len(), planner.segments_count);
        (!planner.plan.list.is_empty()).then_some(planner.plan)
    }

    /// How a trace fares in the region: instructions that its paths have, and how often control
    /// leaves them.
    pub(in super::super) fn fare(&self, trace: &[Stretch]) -> Fare {
        let (mut fare, mut place) = (Fare::default(), None);
        let of: Vec<usize> = (0..self.segments.len())
            .flat_map(|n| self.segments[n].list.clone().map(move |_| n))
            .collect();
        for stretch in trace {
            if place.is_some_and(|at: usize| self.list[at] != stretch.pc) {
                place = None;
            }
            for n in 0..stretch.count {
                let pc = stretch.pc.wrapping_add(4 * n);
                place = place.or_else(|| self.anchor(pc));
                let Some(at) = place else { continue };
                let next = if n + 1 < stretch.count { pc.wrapping_add(4) } else { stretch.next };
                fare.inside += 1;
                place = self.behind((at, of[at]), next);
                fare.exits += u64::from(place.is_none());
            }
        }
        fare
    }

    /// The place where the paths of the anchor at an address begin.
    fn anchor(&self, pc: u64) -> Option<usize> {
        let anchor = self.anchors.iter().position(|&a| a == pc)?;
        Some(self.segments[anchor].list.start)
    }

    /// The place behind that at `at` of a segment where control goes to an address, if it is on a
    /// path.
    fn behind(&self, (at, segment): (usize, usize), pc: u64) -> Option<usize> {
        let segment = &self.segments[segment];
        let is_here = |&at: &usize| self.list[at] == pc;
        let to_end = |end: End| match end.to {
            To::Anchor(n) => Some(self.segments[n].list.start),
            To::Out(_) => None,
        };
        let side = |side: &Side| match *side {
            Side::On if at + 1 < segment.list.end => Some(at + 1),
            Side::On => segment.end.and_then(to_end),
            Side::Segment(n) => Some(self.segments[n].list.start),
            Side::End(end) => to_end(end),
        };
        match self.way(at) {
            Way::One(one) => side(one).filter(is_here),
            Way::Two(taken, on) => [taken, on].into_iter().filter_map(side).find(is_here),
            Way::Targets(sides) => sides.iter().filter_map(|s| side(&s.1)).find(is_here),
            Way::Leave => None,
        }
    }

    /// What follows the branch at a place of the list.
    pub(super) fn way(&self, at: usize) -> &Way {
        self.ways[at].as_ref().unwrap_or(&Way::Leave)
    }
}

/// The nodes that are executed most often.
fn kept(paths: &Paths) -> Vec<bool> {
    let mut kept = vec![false; paths.nodes.len()];
    let mut heap = BinaryHeap::from([(paths.nodes[0].count, std::cmp::Reverse(0))]);
    let mut left = INSTRUCTIONS_MAX;
    while let Some((count, std::cmp::Reverse(n))) = heap.pop() {
        if left == 0 {
            break;
        }
        if count < 2 || std::mem::replace(&mut kept[n], true) {
            continue;
        }
        left -= 1;
        for &(_, next) in &paths.nodes[n].next {
            let (Next::Node(next) | Next::Root(next)) = next;
            heap.push((paths.nodes[next].count, std::cmp::Reverse(next)));
        }
    }
    kept
}

impl Planner<'_> {
    /// Puts a path behind the list; `None` if it has an instruction that is in no region.
    fn segment(&mut self, from: usize) -> Option<()> {
        let start = self.plan.list.len();
        let mut node = Some(from);
        let mut end = None;
        while let Some(n) = node {
            let of = &self.paths.nodes[n];
            let (kind, target) = (self.find)(of.pc);
            if kind == Kind::Stop {
                return None;
            }
            self.plan.counts.push(of.before + 1);
            self.plan.weights.push(of.count);
            self.plan.within.push(of.context);
            self.plan.ways.push(None);
            self.plan.list.push(of.pc);
            (node, end) = self.behind(n, kind, target);
        }
        let list = start..self.plan.list.len();
        self.plan.segments.push(Segment { list, end });
        Some(())
    }

    /// The kept node behind `n` at `pc`, if there is one.
    fn child(&self, n: usize, pc: u64) -> Option<usize> {
        let found = self.paths.nodes[n].next.iter().find(|next| next.0 == pc)?;
        match found.1 {
            Next::Node(next) if self.kept[next] => Some(next),
            Next::Node(_) | Next::Root(_) => None,
        }
    }

    /// A path's end at an address.
    fn end(&self, pc: u64, context: usize) -> End {
        let anchor = self.paths.anchors.iter().position(|&a| a == pc);
        let to = anchor.and_then(|n| self.numbers[n]).map_or(To::Out(pc), To::Anchor);
        End { to, context }
    }

    /// A side that is not gone on with.
    fn aside(&mut self, n: usize, pc: u64, context: usize) -> Side {
        match self.child(n, pc) {
            Some(node) => {
                self.pending.push_back(node);
                self.segments_count += 1;
                Side::Segment(self.segments_count - 1)
            }
            None => Side::End(self.end(pc, context)),
        }
    }

    /// What follows node `n`, which is the last of the list: the next node, or the end.
    fn behind(&mut self, n: usize, kind: Kind, target: u64) -> (Option<usize>, Option<End>) {
        let (pc, context) = (self.paths.nodes[n].pc, self.paths.nodes[n].context);
        let (on, at) = (pc.wrapping_add(4), self.plan.list.len() - 1);
        let one = |planner: &mut Self, to: u64, context: usize| {
            planner.plan.ways[at] = Some(Way::One(Side::On));
            match planner.child(n, to) {
                Some(next) => (Some(next), None),
                None => (None, Some(planner.end(to, context))),
            }
        };
        match kind {
            Kind::Straight | Kind::Stop => one(self, on, context),
            Kind::Jump => one(self, target, context),
            Kind::Conditional if target == on => one(self, on, context),
            Kind::Conditional => self.fork(n, at, target),
            Kind::Call => {
                let inside = self.plan.contexts.inside(context, on);
                let next = one(self, target, inside);
                if let (None, Some(End { to: To::Out(_), .. })) = next {
                    self.plan.ways[at] = Some(Way::Leave);
                    return (None, None);
                }
                next
            }
            Kind::Return => {
                let back = self.plan.contexts.back(context);
                let targets = back.map(|(back, outer)| vec![(back, outer)]);
                self.targets(n, at, targets.unwrap_or_default())
            }
            Kind::Indirect => {
                let targets = self.observed(n).into_iter().map(|pc| (pc, context)).collect();
                self.targets(n, at, targets)
            }
            Kind::IndirectCall => {
                let inside = self.plan.contexts.inside(context, on);
                let targets = self.observed(n).into_iter().map(|pc| (pc, inside)).collect();
                self.targets(n, at, targets)
            }
        }
    }

    /// Where control went from `n`, most often first.
    fn observed(&self, n: usize) -> Vec<u64> {
        let node = &self.paths.nodes[n];
        let count = |next: Next| match next {
            Next::Node(n) if self.kept[n] => self.paths.nodes[n].count,
            Next::Node(_) | Next::Root(_) => 0,
        };
        let mut list = node.next.clone();
        list.sort_by_key(|next| std::cmp::Reverse(count(next.1)));
        let is_inside = |to: &(u64, Next)| match to.1 {
            Next::Node(n) => self.kept[n],
            Next::Root(n) => self.numbers[n].is_some(),
        };
        list.into_iter().filter(is_inside).map(|next| next.0).take(TARGETS_MAX).collect()
    }

    /// What follows a branch by register, with the contexts of its targets.
    fn targets(
        &mut self,
        n: usize,
        at: usize,
        targets: Vec<(u64, usize)>,
    ) -> (Option<usize>, Option<End>) {
        let Some(&(first, context)) = targets.first() else {
            self.plan.ways[at] = Some(Way::Leave);
            return (None, None);
        };
        let next = self.child(n, first);
        let end = self.end(first, context);
        if next.is_none() && matches!(end.to, To::Out(_)) {
            self.plan.ways[at] = Some(Way::Leave);
            return (None, None);
        }
        let mut sides = vec![(first, Side::On)];
        for (pc, context) in targets.into_iter().skip(1) {
            sides.push((pc, self.aside(n, pc, context)));
        }
        self.plan.ways[at] = Some(Way::Targets(sides));
        (next, next.is_none().then_some(end))
    }

    /// What follows a conditional branch.
    fn fork(&mut self, n: usize, at: usize, target: u64) -> (Option<usize>, Option<End>) {
        let (pc, context) = (self.paths.nodes[n].pc, self.paths.nodes[n].context);
        let on = pc.wrapping_add(4);
        let count = |planner: &Self, pc| {
            let next = planner.child(n, pc)?;
            Some((planner.paths.nodes[next].count, next))
        };
        let sides = [count(self, target), count(self, on)];
        let ends_at_anchor = |pc| matches!(self.end(pc, context).to, To::Anchor(_));
        let takes = match sides {
            [Some(a), Some(b)] => a.0 > b.0,
            [Some(_), None] => true,
            [None, Some(_)] => false,
            // Back to an anchor goes on in line.
            [None, None] => ends_at_anchor(target),
        };
        let (inline, other) = if takes { (target, on) } else { (on, target) };
        let aside = self.aside(n, other, context);
        self.plan.ways[at] = Some(match takes {
            true => Way::Two(Side::On, aside),
            false => Way::Two(aside, Side::On),
        });
        match sides[usize::from(!takes)] {
            Some((_, next)) => (Some(next), None),
            None => (None, Some(self.end(inline, context))),
        }
    }
}
