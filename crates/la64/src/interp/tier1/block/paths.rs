//! Regions: code of many paths with the same pins, which go from anchor to anchor.
//!
//! - Each path begins at an anchor with nothing known of registers, and each fork's sides begin
//!   with what was known there: an instruction has one predecessor, or is an anchor's first.
//! - An instruction's count is that of its path. A path's end retires it, whether it leads to an
//!   anchor or out.
//! - A path goes on through a call without a host address on the host's stack. Where it ends inside
//!   calls, their addresses are pushed, the outermost first: code outside finds what it would have
//!   pushed itself.

use super::super::constants::{Constants, Due, Owed};
use super::super::layout::SLACK_MIN;
use super::super::pins::{Pins, STANDARD};
use super::super::plan::{End, Plan, Side, To, Way};
use super::super::reach::{Line, Reach, Rounds};
use super::anchors::Anchors;
use super::ranges::Ahead;
use super::sums::Sums;
use super::{Block, Cold, Constant, Decoded};
use crate::jit::emit::{CMP, CMP_I, Cond, LEA, Mem, RAX, RCX, RIP};
use littoral_base::mutant;

/// Bytes of code that the host fetches together: paths lead back to where such begin.
const FETCHED: usize = 32;

/// What a region has beside what a block has.
#[derive(Debug)]
pub(super) struct Region<'a> {
    plan: &'a Plan,
    /// Where each anchor is entered from outside, by offsets.
    entries: Vec<usize>,
    /// Where each segment's code begins, once it is written.
    starts: Vec<Option<usize>>,
    /// What is known where segments begin, and the jump that leads there, if one does alone.
    pending: Vec<Pending>,
    /// Jumps to anchors.
    turns: Vec<(usize, usize)>,
    /// Jumps of ends at anchors where the slice is used up.
    spent: Vec<(usize, usize)>,
    /// Jumps to anchors whose sums are to be checked on the way.
    unheld: Vec<(usize, usize)>,
    /// Where calls that paths are inside return to on the host, by their return addresses.
    landings: Vec<(u64, Vec<usize>)>,
    pub(super) anchors: Anchors,
}

/// A segment that is not written yet.
#[derive(Debug)]
struct Pending {
    segment: usize,
    from: Option<usize>,
    known: Knowledge,
}

/// What is known of registers.
#[derive(Clone, Debug)]
struct Knowledge {
    reach: [Option<u64>; 32],
    constants: Constants,
    extended: u32,
    bounds: [Option<u64>; 32],
    sums: Sums,
}

impl Region<'_> {
    /// Instructions of its path up to and including the one of a place.
    pub(super) fn count(&self, at: usize) -> u16 {
        match mutant!("la64_region_count_of_the_list") {
            true => at as u16 + 1,
            false => self.plan.counts[at],
        }
    }

    /// Where an anchor's address is entered from outside.
    pub(super) fn entry_of(&self, target: u64) -> Option<usize> {
        let anchor = self.plan.anchors.iter().position(|&pc| pc == target)?;
        self.entries.get(anchor).copied()
    }

    /// How often the instruction at a place was executed.
    pub(super) fn weight(&self, at: usize) -> i64 {
        self.plan.weights[at].into()
    }

    /// How often the branch at a place led aside, as far as that is known.
    fn weight_aside(&self, at: usize) -> i64 {
        let goes_on =
            self.plan.segments.iter().any(|s| s.list.contains(&(at + 1)) && s.list.start <= at);
        let on = if goes_on { self.weight(at + 1) } else { self.weight(at) };
        self.weight(at) - on
    }

    /// Whether the branch at a place has two sides.
    pub(super) fn forks(&self, at: usize) -> bool {
        matches!(self.plan.way(at), Way::Two(..))
    }
}

impl<'a> Block<'a> {
    /// Makes the block a region: its pins, the checks ahead of it, and where it is entered. Of the
    /// bases of sums and short numbers those in `ahead` are checked ahead.
    pub(in super::super) fn enter_region(&mut self, plan: &'a Plan, ahead: &Ahead) {
        if !self.plain && !self.shape.guarded && self.shape.slack >= SLACK_MIN {
            let lines: Vec<Line> = self.list.iter().map(|d| d.line(0)).collect();
            self.free = Reach::of_rounds(&lines, &Turns(plan), ahead.indexed, self.shape.slack);
            self.short = ahead.short & self.free.staying();
            self.free.host(ahead.hosts);
        }
        let words = self.list.iter().zip(&plan.weights).map(|(d, &times)| (d.word, times));
        let pins = Pins::of_loop(words, &self.free);
        let mut turns = Vec::new();
        let mut entries = vec![0; plan.anchors.len()];
        for (anchor, &pc) in plan.anchors.iter().enumerate().rev() {
            entries[anchor] = self.asm.here();
            let mut from = self.check_ahead();
            self.check_sums(&ahead.near, anchor, &mut from);
            if !from.is_empty() {
                self.cold.push(Cold::Plain { from, target: pc });
            }
            STANDARD.change_to(&mut self.asm, &pins);
            // The first anchor's code follows.
            if anchor > 0 {
                turns.push((anchor, self.asm.jump_near(None)));
            }
        }
        self.has_own_pins = pins != STANDARD;
        self.pins = pins;
        self.region = Some(Region {
            plan,
            entries,
            starts: vec![None; plan.segments.len()],
            pending: Vec::new(),
            turns,
            spent: Vec::new(),
            unheld: Vec::new(),
            landings: Vec::new(),
            anchors: Anchors::new(plan.anchors.len(), ahead.near.clone()),
        });
    }

    fn region(&mut self) -> &mut Region<'a> {
        self.region.as_mut().expect("invariant: it is a region")
    }

    fn knowledge(&self) -> Knowledge {
        let Block { reach, extended, bounds, .. } = *self;
        let (constants, sums) = (self.constants.clone(), self.sums.clone());
        Knowledge { reach, constants, extended, bounds, sums }
    }

    /// Begins a segment's code.
    pub(in super::super) fn begin_segment(&mut self, n: usize) {
        if n < self.region().plan.anchors.len() {
            self.asm.align(FETCHED);
        }
        let here = self.asm.here();
        let region = self.region();
        region.starts[n] = Some(here);
        let segment = &region.plan.segments[n];
        let (end, at) = (segment.list.end, segment.list.start);
        let found = region.pending.iter().position(|p| p.segment == n);
        let pending = found.map(|found| region.pending.swap_remove(found));
        (self.end, self.at) = (end, at);
        (self.flags, self.owed, self.ended) = (None, None, false);
        let first = self.values;
        self.forget();
        if n < self.region().plan.anchors.len() {
            self.begin_anchor(n, first);
        }
        if let Some(Pending { from, known, .. }) = pending {
            let Knowledge { reach, constants, extended, bounds, sums } = known;
            (self.reach, self.constants, self.sums) = (reach, constants, sums);
            (self.extended, self.bounds) = (extended, bounds);
            if let Some(from) = from {
                self.asm.bind_near(from);
            }
        }
    }

    /// Ends a segment's code, unless its last instruction has done so.
    pub(in super::super) fn end_segment(&mut self, n: usize) {
        let end = self.region().plan.segments[n].end;
        if let Some(end) = end.filter(|_| !self.ended) {
            self.at = self.end - 1;
            if !mutant!("la64_region_end_keeps_constants") {
                self.settle_all();
            }
            self.constants = Constants::default();
            let at = self.at;
            let weight = self.region().weight(at);
            let held = self.holds(end.to, weight);
            self.end_path(end, self.count(), held);
        }
    }

    /// Goes on where a path ends; no constant is due. The sums of an anchor there are `held`, or
    /// checked on the way.
    pub(super) fn end_path(&mut self, end: End, count: u16, held: bool) {
        self.push_calls(end.context);
        match end.to {
            To::Out(pc) => self.exit(pc, count, true),
            To::Anchor(anchor) => {
                self.retire(count);
                let turn = self.asm.jump_near(Some(Cond::Ns));
                let held = held || !self.has_sums(anchor);
                let spent = self.asm.jump_near(None);
                let region = self.region();
                if held { &mut region.turns } else { &mut region.unheld }.push((anchor, turn));
                region.spent.push((anchor, spent));
            }
        }
    }

    /// Pushes where calls return to on the host, which the path is inside.
    pub(super) fn push_calls(&mut self, context: usize) {
        for back in self.region().plan.contexts.list(context) {
            self.asm.op(LEA, true, RCX, Mem::at(RIP, 0));
            let site = self.asm.here() - 4;
            self.asm.push(RCX);
            let landings = &mut self.region().landings;
            match landings.iter_mut().find(|l| l.0 == back) {
                Some(landing) => landing.1.push(site),
                None => landings.push((back, vec![site])),
            }
        }
    }

    /// The calls that the current instruction is inside are pushed, if this is a region.
    pub(in super::super) fn push_calls_here(&mut self) {
        if let Some(region) = &self.region {
            let context = region.plan.within[self.at];
            self.push_calls(context);
        }
    }

    /// Whether the path goes on through the current instruction, a jump or call to a fixed address.
    pub(in super::super) fn goes_on(&self) -> bool {
        let region = self.region.as_ref();
        region.is_some_and(|region| *region.plan.way(self.at) == Way::One(Side::On))
    }

    /// The sides of the current branch, which is taken under `cond`.
    pub(super) fn fork(&mut self, cond: Cond) {
        let owed = self.owed.take();
        let (taken, on) = match self.region().plan.way(self.at) {
            Way::Two(taken, on) => (*taken, *on),
            Way::One(_) | Way::Targets(_) | Way::Leave => return,
        };
        // What the comparison left to this branch is 1 on the side that `bnez` takes.
        let name = self.list[self.at].lowering.map(|lowering| lowering.name);
        let is_set = name == Some("bnez");
        let (cond, aside, aside_is_set) = match taken {
            Side::On => (cond.opposite(), on, !is_set),
            Side::Segment(_) | Side::End(_) => (cond, taken, is_set),
        };
        let from = self.asm.jump_near(Some(cond));
        self.settle_owed(owed, aside_is_set);
        self.leave_path(aside, Some(from));
        self.settle_owed(owed, !aside_is_set);
    }

    /// A jump leads to a side of the current branch that is not gone on with.
    fn leave_path(&mut self, side: Side, from: Option<usize>) {
        match (side, from) {
            (Side::On, _) => {}
            (Side::Segment(segment), from) => {
                let mut known = self.knowledge();
                if mutant!("la64_region_fork_forgets_constants") {
                    known.constants = Constants::default();
                }
                self.region().pending.push(Pending { segment, from, known });
            }
            (Side::End(end), Some(from)) => {
                let (count, due) = (self.count(), self.constants.due());
                let at = self.at;
                let weight = self.region().weight_aside(at);
                let held = self.holds(end.to, weight);
                self.cold.push(Cold::End { from, end, count, due, held });
            }
            (Side::End(_), None) => {}
        }
    }

    /// Goes on at the first target of the current branch by register, if that is where it leads;
    /// false if the region is left here.
    pub(in super::super) fn goes_on_by_register(
        &mut self,
        d: &Decoded,
        link: Option<usize>,
    ) -> bool {
        let Some(region) = &self.region else { return false };
        let Way::Targets(sides) = region.plan.way(self.at) else { return false };
        let (first, others) = (sides[0].0, &sides[1..]);
        let known = self.constants.get(d.rj()).map(|c| c.value.wrapping_add(d.imm() as u64));
        let put_link = |block: &mut Self| {
            if let Some(n) = link {
                let back = Constant::relative(d.pc.wrapping_add(4));
                block.put_constant(n, back);
            }
        };
        if let Some(known) = known {
            if known != first {
                return false;
            }
            put_link(self);
            return true;
        }
        let others: Vec<Side> = others.iter().map(|o| o.1).collect();
        self.compare_target(d, first);
        let from = match mutant!("la64_region_targets_unchecked") {
            true => self.asm.jump_near(Some(Cond::P)),
            false => self.asm.jump_near(Some(Cond::Ne)),
        };
        // The register is read in cold code, too: a link in the same one is written there.
        let due = self.constants.due();
        put_link(self);
        let at = self.at;
        let weight = self.region().weight_aside(at) / others.len().max(1) as i64;
        let mut holds = |side: &Side| match *side {
            Side::End(end) => self.holds(end.to, weight),
            Side::On | Side::Segment(_) => true,
        };
        let held = others.iter().map(&mut holds).collect();
        self.cold.push(Cold::Targets { from, at, due, held });
        others.into_iter().for_each(|side| self.leave_path(side, None));
        true
    }

    /// Sets the host flags to whether the branch by register leads to a guest address.
    fn compare_target(&mut self, d: &Decoded, target: u64) {
        let value = target.wrapping_sub(d.imm() as u64);
        let place = self.place(d.rj());
        match i32::try_from(value as i64) {
            Ok(short) => self.asm.arith(CMP_I, true, place, short),
            Err(_) => {
                self.asm.mov_imm_keeping_flags(RCX, value);
                self.asm.op(CMP, true, RCX, place);
            }
        }
    }

    /// Where a branch by register leads if not to its first target.
    pub(super) fn other_targets(&mut self, from: usize, at: usize, due: &Due, held: &[bool]) {
        self.asm.bind_near(from);
        self.at = at;
        let (list, region) = (self.list, self.region());
        let (d, plan) = (&list[at], region.plan);
        let Way::Targets(sides) = plan.way(at) else { return };
        for (&(target, side), &held) in sides[1..].iter().zip(held) {
            self.compare_target(d, target);
            match side {
                Side::On => {}
                Side::Segment(segment) => {
                    let start = self.region().starts[segment];
                    let start = start.expect("invariant: segments come before what is behind them");
                    self.asm.jump(Some(Cond::E), start);
                }
                Side::End(end) => {
                    let past = self.asm.jump_near(Some(Cond::Ne));
                    self.write_due(due);
                    self.put_link_now(d);
                    self.end_path(end, self.count(), held);
                    self.asm.bind_near(past);
                }
            }
        }
        self.sum(RAX, d.rj(), d.imm() as i32);
        self.write_due(due);
        self.put_link_now(d);
        self.push_calls(plan.within[at]);
        match d.rd() {
            0 => self.exit_indirect(),
            _ => self.exit_by_call_indirect(d.pc.wrapping_add(4)),
        }
    }

    /// Writes the return address of a call by register.
    fn put_link_now(&mut self, d: &Decoded) {
        if d.rd() != 0 {
            let back = Constant::relative(d.pc.wrapping_add(4));
            self.write_due(&vec![(d.rd(), Owed::Constant(back))]);
        }
    }

    /// Writes what ends and calls of a region's paths lead to.
    pub(super) fn finish_region(&mut self) {
        if self.region.is_none() {
            return;
        }
        for (back, sites) in std::mem::take(&mut self.region().landings) {
            sites.into_iter().for_each(|site| self.asm.bind_near(site));
            self.returned(back);
        }
        let spent = std::mem::take(&mut self.region().spent);
        let anchors = self.region().plan.anchors.clone();
        for (anchor, pc) in anchors.into_iter().enumerate() {
            let from: Vec<usize> = spent.iter().filter(|s| s.0 == anchor).map(|s| s.1).collect();
            if !from.is_empty() {
                from.into_iter().for_each(|site| self.asm.bind_near(site));
                self.standard_pins();
                self.leave_by(None, pc, false);
            }
        }
        self.finish_anchors();
        for (anchor, turn) in std::mem::take(&mut self.region().turns) {
            let start = self.region().starts[anchor].expect("invariant: anchors come first");
            self.asm.bind_near_to(turn, start);
        }
    }

    /// Writes the checks between ends of paths and anchors.
    fn finish_anchors(&mut self) {
        let unheld = std::mem::take(&mut self.region().unheld);
        let anchors = self.region().plan.anchors.clone();
        for (anchor, pc) in anchors.into_iter().enumerate() {
            let sites: Vec<usize> = unheld.iter().filter(|u| u.0 == anchor).map(|u| u.1).collect();
            if sites.is_empty() {
                continue;
            }
            sites.into_iter().for_each(|site| self.asm.bind_near(site));
            let outside = self.check_own_sums(anchor);
            let turn = self.asm.jump_near(None);
            self.region().turns.push((anchor, turn));
            if !outside.is_empty() {
                outside.into_iter().for_each(|site| self.asm.bind_near(site));
                self.standard_pins();
                self.leave_for_plain(pc);
            }
        }
    }

    /// Where each anchor of a region is entered from outside.
    pub(in super::super) fn entries(&self) -> Vec<usize> {
        self.region.as_ref().map_or_else(Vec::new, |region| region.entries.clone())
    }
}

/// The paths of a plan.
struct Turns<'a>(&'a Plan);

impl Turns<'_> {
    /// Goes over each path from its beginning: from what is known before an instruction to what is
    /// known behind it. Tells `end` of that at the ends.
    fn walk<S: Clone>(&self, new: &S, step: &dyn Fn(&mut S, usize), end: &mut dyn FnMut(&S, To)) {
        let plan = self.0;
        let mut starts: Vec<Option<S>> = vec![None; plan.segments.len()];
        for (n, segment) in plan.segments.iter().enumerate() {
            let mut state = starts[n].take().unwrap_or_else(|| new.clone());
            for at in segment.list.clone() {
                step(&mut state, at);
                let mut side = |side: &Side| match *side {
                    Side::On => {}
                    Side::Segment(to) => starts[to] = Some(state.clone()),
                    Side::End(to) => end(&state, to.to),
                };
                match plan.way(at) {
                    Way::One(one) => side(one),
                    Way::Two(taken, on) => [taken, on].into_iter().for_each(side),
                    Way::Targets(sides) => sides.iter().for_each(|s| side(&s.1)),
                    Way::Leave => end(&state, To::Out(plan.list[at])),
                }
            }
            if let Some(last) = segment.end {
                end(&state, last.to);
            }
        }
    }
}

impl Rounds for Turns<'_> {
    fn most(&self, of: &dyn Fn(usize) -> u64) -> u64 {
        let mut most = 0;
        self.walk(&0u64, &|sum, at| *sum += of(at), &mut |&sum, _| most = most.max(sum));
        most
    }

    fn hold(&self, moves: &dyn Fn(usize) -> bool, holds: &dyn Fn(usize) -> bool) -> bool {
        let mut all = true;
        let step = |state: &mut (bool, bool), at| {
            state.0 |= moves(at);
            state.1 |= holds(at);
        };
        self.walk(&(false, false), &step, &mut |&(moved, held), to| {
            all &= !(moved && !held && matches!(to, To::Anchor(_)));
        });
        all
    }
}
