//! Tier 2: which loops become regions.
//!
//! - A thread that has retired enough instructions lets tier 0 run the next few thousand and notes
//!   which: a *look*. The loops that they are in become regions, whose paths are those that were
//!   executed. Code of tier 1 counts nothing for this.
//! - Looks after which there are no new regions become rarer, each half as frequent as before, but
//!   for places where the thread is often and has not looked. What looks and regions cost is a
//!   small part of what the thread retires in between. Checked by `a_place_is_looked_at_once`.
//! - What a region brings is tried by the thread that runs it (see `trials`).
//! - A region that control leaves too often is made again, of this look and those before, if that
//!   helps. Checked by `a_loop_that_changes_its_way_is_made_again`.
//! - A region has instructions of memory alone that never was writable. Their pages are noted
//!   before their words are read, as those of blocks are. Another thread that translates it drops
//!   it if the generation was replaced meanwhile. Checked by `changed_code_is_in_no_region`.

use super::super::branch::Flow;
use super::super::code::{CodeCache, Generation};
use super::super::tier1::{
    self, ByAddress, Decoded, Door, Floats, Judged, Kept, Kind, Paths, Plan, Stretch,
};
use super::super::translation::Journal;
use super::super::{Cpu, Features, Fetch, Tier, Trap};
use super::translated::decoded;
use super::{PAGE_WORDS, Run, Stop};
use littoral_base::mutant;
use std::sync::atomic::{AtomicBool, Ordering};

/// Instructions of a look.
const LOOK: u64 = 4096;
const LOOK_MIN: u64 = 256;
/// Looks become this much rarer at most.
const RARER_MAX: u64 = 64;
/// Regions of one look.
const REGIONS_MAX: u32 = 4;
/// A look ends when so many of its loops were refused. Of a refused loop the head alone is set
/// aside: a loop inside it may be worth a region.
const REFUSED_MAX: usize = 4;
/// What an instruction of a look, a look, and an instruction of a region cost, in instructions that
/// translated code retires in that time; and how many of them are retired for each.
const LOOKED_COST: u64 = 300;
const LOOK_COST: u64 = 50_000;
const MADE_COST: u64 = 2_000;
const PAYBACK: u64 = 64;
/// A place where so many stays of so many instructions ended is worth a look that is paid for, if
/// no look saw it so often. So many places are noted.
const ENDS_MIN: u32 = 8;
const LONG_STAY: u64 = 1 << 14;
const SEEN_MIN: u32 = 16;
const PLACES_MAX: usize = 1024;
/// A region is made again if control leaves it more often than once in so many instructions, at
/// most so often, and if it has this part of a look.
const STAY_MIN: u64 = 64;
const AGAIN_MAX: u32 = 3;
const PART_MIN: u64 = 16;
/// A region is made if control leaves it no more often than once in so many instructions of its
/// look: what enters and leaves it moves many registers. Whether it pays is tried then.
const WORTH_MIN: u64 = 100;

/// When a thread looks next.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The generation of code that it has looked for.
    generation: u64,
    /// At this count of instructions, or from `paid_at` on in a place where it is often.
    next_at: u64,
    paid_at: u64,
    places: Places,
    /// From the last look to that at least, and in fact.
    period: u64,
    wait: u64,
    /// Regions that there were then, and their instructions.
    regions: u64,
    made: u64,
}

/// Where a thread is when its stays in code end.
#[derive(Debug, Default)]
struct Places {
    /// The count of instructions at the latest end.
    at: u64,
    /// Ends of long stays, by address.
    ends: ByAddress<u32>,
    /// Addresses of which a look saw enough: another one would find nothing new there.
    seen: ByAddress<()>,
}

impl Places {
    /// A stay ended at an address; whether that is a place for a look.
    fn note(&mut self, now: u64, pc: u64) -> bool {
        let is_long = now.saturating_sub(self.at) >= LONG_STAY;
        self.at = now;
        if !is_long || self.seen.contains_key(&pc) {
            return false;
        }
        if self.ends.len() >= PLACES_MAX {
            self.ends.clear();
        }
        let ends = self.ends.entry(pc).or_default();
        *ends += 1;
        *ends >= ENDS_MIN && !mutant!("la64_looks_at_no_place")
    }

    /// A look began at an address and saw blocks.
    fn looked(&mut self, from: u64, trace: &[Stretch]) {
        if self.seen.len() >= PLACES_MAX {
            self.seen.clear();
        }
        let mut times: ByAddress<u32> = ByAddress::default();
        trace.iter().for_each(|stretch| *times.entry(stretch.pc).or_default() += 1);
        let often = times.into_iter().filter(|&(_, times)| times >= SEEN_MIN);
        for pc in often.map(|(pc, _)| pc).chain([from]) {
            self.seen.insert(pc, ());
            self.ends.remove(&pc);
        }
    }
}

/// What a thread saw in a look.
struct Look {
    generation: u64,
    floats: Floats,
    features: Features,
    trace: Vec<Stretch>,
    /// Registers that held short numbers at its end.
    short: u32,
    /// Instructions that a region may have.
    words: ByAddress<u32>,
}

/// Instructions, and how control goes on from them.
type Seen = ByAddress<(Decoded, Kind)>;

impl<F: Fetch> Run<'_, F> {
    /// Whether the thread has retired enough instructions for the next look.
    pub(super) fn is_watch_due(&mut self, cpu: &Cpu) -> bool {
        let limits = self.code.limits;
        if self.code.tier() < Tier::Regions || limits.uncounted {
            return false;
        }
        let (now, pc, watch) = (cpu.state.instructions, cpu.state.pc, &mut self.own.watch);
        let generation = self.generation.number;
        // The owner may set the count back.
        let is_over = watch.next_at > now.saturating_add(watch.wait);
        if watch.generation != generation || is_over {
            let (next_at, period) = (now.saturating_add(limits.watch), limits.watch);
            let (regions, made) = (self.code.regions(), self.code.regions_instructions());
            let (paid_at, wait, places) = (next_at, period, Places::default());
            *watch = Watch { generation, next_at, paid_at, places, period, wait, regions, made };
        }
        let is_place = limits.aside && watch.places.note(now, pc);
        now >= watch.next_at || is_place && now >= watch.paid_at
    }

    /// Runs on tier 0 for some instructions, at most to the count `end`, and has the loops
    /// translated that they are in. What stopped the thread meanwhile.
    pub(super) fn watch(
        &mut self,
        engine: &tier1::Engine,
        cpu: &mut Cpu,
        attention: &AtomicBool,
        end: u64,
    ) -> Option<Stop> {
        let limits = self.code.limits;
        let until = cpu.state.instructions + limits.watch.clamp(LOOK_MIN, LOOK);
        self.own.journal.total.interpreted += 1;
        let (from, mut trace) = (cpu.state.pc, Vec::new());
        let stop = loop {
            let before = cpu.state.instructions;
            let is_over = before >= until.min(end) || cpu.state.lbt.stack_mode != 0;
            if is_over || tier1::floats(cpu) != engine.floats() {
                break None;
            }
            if attention.load(Ordering::Relaxed) {
                break Some(Trap::Attention.into());
            }
            let pc = cpu.state.pc;
            if let Some(stop) = self.run_block(cpu) {
                break Some(stop);
            }
            let count = cpu.state.instructions - before;
            trace.push(Stretch { pc, count, next: cpu.state.pc });
        };
        let looked = trace.iter().map(|stretch| stretch.count).sum::<u64>();
        self.own.watch.places.looked(from, &trace);
        let words = self.words(cpu, &trace);
        let (generation, features) = (self.generation.number, cpu.features);
        let is_short = |n: &u32| i32::try_from(cpu.state.x[*n as usize] as i64).is_ok();
        let short = (1..32).filter(is_short).map(|n| 1 << n).sum();
        let look = Look { generation, floats: engine.floats(), features, trace, short, words };
        self.have_made(look);
        self.look_later(cpu.state.instructions, looked);
        stop
    }

    /// Chooses when the thread looks next, after a look of so many instructions.
    fn look_later(&mut self, now: u64, looked: u64) {
        let limits = self.code.limits;
        let (regions, made) = (self.code.regions(), self.code.regions_instructions());
        let watch = &mut self.own.watch;
        if regions == watch.regions {
            watch.period = (2 * watch.period).min(RARER_MAX.saturating_mul(limits.watch));
        }
        // What is made aside is not there yet: it counts when it is.
        let cost = LOOK_COST + LOOKED_COST * looked + MADE_COST * (made - watch.made);
        let paid = if limits.aside { PAYBACK * cost } else { 0 };
        (watch.regions, watch.made) = (regions, made);
        watch.wait = watch.period.max(paid);
        watch.next_at = now + watch.wait;
        watch.paid_at = now + limits.watch.max(paid);
    }

    /// The instructions of a trace that are in memory which never was writable.
    fn words(&self, cpu: &Cpu, trace: &[Stretch]) -> ByAddress<u32> {
        let (mut words, mut inside) = (ByAddress::default(), 0..0);
        let mut filling = self.generation.fill();
        for stretch in trace {
            for pc in (0..stretch.count).map(|n| stretch.pc.wrapping_add(4 * n)) {
                if words.contains_key(&pc) {
                    continue;
                }
                if !inside.contains(&pc) {
                    let is_fixed =
                        |written: bool| !written || mutant!("la64_region_of_writable_code");
                    let text = self.fetch.text(pc).filter(|text| is_fixed(text.written));
                    let Some(text) = text else { continue };
                    // One page at a time is noted.
                    let page_end = (pc | (4 * PAGE_WORDS - 1)).saturating_add(1);
                    filling.note_text(pc);
                    inside = pc..text.end.min(page_end);
                }
                words.extend(cpu.window.load::<u32>(pc).map(|word| (pc, word)));
            }
        }
        words
    }

    /// Translates the loops of a look, or lets the helper do so.
    fn have_made(&mut self, look: Look) {
        let journal = &mut self.own.journal;
        // What is recorded is recorded by its thread.
        let is_recorded = journal.placed.is_some() || journal.listed.is_some();
        if !self.code.limits.aside || is_recorded {
            return look.make(self.code, self.generation, journal);
        }
        let code = self.code.clone();
        self.code.helper().give(Box::new(move || {
            let mut journal = Journal::default();
            look.make(&code, &code.reader().pin(), &mut journal);
            journal.total
        }));
    }
}

impl Look {
    /// Translates the loops that it shows, the one that is most frequent first.
    fn make(&self, code: &CodeCache, generation: &Generation, journal: &mut Journal) {
        let engine = generation.engine_of(self.floats);
        let Some(engine) = engine.filter(|_| generation.number == self.generation) else { return };
        let seen = self.seen(code, &self.words);
        let kind = |pc: u64| seen.get(&pc).map_or(Kind::Stop, |found| found.1);
        let mut filling = generation.fill();
        for n in 0..filling.tier1[self.floats as usize].regions.len() {
            self.make_again(code, engine, &mut filling.tier1[self.floats as usize], n, journal);
        }
        drop(filling);
        let (mut made, mut refused) = (0, Vec::new());
        while made < REGIONS_MAX && refused.len() < REFUSED_MAX {
            let mut filling = generation.fill();
            let filling = &mut filling.tier1[self.floats as usize];
            if engine.is_full(filling) {
                return;
            }
            let is_new = |pc: u64| !refused.contains(&pc) && !filling.is_in_region(pc);
            let Some(head) = tier1::head(&self.trace, &kind, &is_new) else { return };
            match self.region_of(code, engine, filling, (head, &seen), journal) {
                Some(kept) => {
                    filling.regions.push(kept);
                    made += 1;
                }
                None if mutant!("la64_look_ends_at_a_refused_loop") => return,
                None => refused.push(head),
            }
        }
    }

    /// The region of the loop at `head`; `None` if it would not be worth it, or cannot be.
    fn region_of(
        &self,
        code: &CodeCache,
        engine: &tier1::Engine,
        filling: &mut tier1::Filling,
        (head, seen): (u64, &Seen),
        journal: &mut Journal,
    ) -> Option<Kept> {
        let plan = plan_of(&self.trace, head, seen)?;
        // A short look tells too little.
        let fare = plan.fare(&self.trace);
        if fare.exits * WORTH_MIN > fare.inside && self.looked() >= LOOK / 2 {
            return None;
        }
        let doors = self.translate(engine, filling, (&plan, seen), None, journal)?;
        let (trace, words) = (self.trace.clone(), self.words.clone());
        let number = code.note_region(plan.list.len() as u64);
        let judged = Judged::Not;
        Some(Kept { head, plan, trace, words, times: 0, doors, judged, number })
    }

    /// Makes region `n` again if control left it often in the look, and would not if it had the
    /// look's paths.
    fn make_again(
        &self,
        code: &CodeCache,
        engine: &tier1::Engine,
        filling: &mut tier1::Filling,
        n: usize,
        journal: &mut Journal,
    ) {
        let kept = &filling.regions[n];
        if kept.judged == Judged::Away {
            return;
        }
        let fare = kept.plan.fare(&self.trace);
        let is_part = fare.inside * PART_MIN >= self.looked();
        let is_well = fare.exits * STAY_MIN <= fare.inside || !is_part;
        let stays = is_well || mutant!("la64_region_stays_as_it_was");
        if stays || kept.times >= AGAIN_MAX || engine.is_full(filling) {
            return;
        }
        let trace = [&kept.trace[..], &self.trace].concat();
        let mut words = kept.words.clone();
        words.extend(&self.words);
        let (seen, head) = (self.seen(code, &words), kept.head);
        let before = kept.plan.fare(&trace);
        filling.regions[n].times += 1;
        let Some(plan) = plan_of(&trace, head, &seen) else { return };
        let after = plan.fare(&trace);
        let helps = 2 * after.exits <= before.exits && after.inside >= before.inside;
        if !helps {
            return;
        }
        if let Some(mut doors) = self.translate(engine, filling, (&plan, &seen), Some(n), journal) {
            let older = std::mem::take(&mut filling.regions[n].doors);
            engine.renew_doors(filling, &older, &mut doors);
            let times = filling.regions[n].times;
            let number = code.note_region(plan.list.len() as u64);
            let judged = Judged::Not;
            filling.regions[n] = Kept { head, plan, trace, words, times, doors, judged, number };
        }
    }

    /// Translates a region, in the place of number `own`; `None` if its code would be too long.
    fn translate(
        &self,
        engine: &tier1::Engine,
        filling: &mut tier1::Filling,
        (plan, seen): (&Plan, &Seen),
        own: Option<usize>,
        journal: &mut Journal,
    ) -> Option<Vec<Door>> {
        let instruction = |pc: &u64| Some(seen.get(pc)?.0.clone());
        let list: Vec<Decoded> = plan.list.iter().filter_map(instruction).collect();
        engine.translate_region(filling, (plan, &list, self.short), own, journal)
    }

    /// Instructions of the look.
    fn looked(&self) -> u64 {
        self.trace.iter().map(|stretch| stretch.count).sum()
    }

    fn seen(&self, code: &CodeCache, words: &ByAddress<u32>) -> Seen {
        let seen = |(&pc, &word): (&u64, &u32)| {
            let read = |at: u64| words.get(&at).copied();
            let (decoded, flow) = decoded(code, self.floats, self.features, (word, pc), read);
            let kind = kind(&decoded, flow);
            (pc, (decoded, kind))
        };
        words.iter().map(seen).collect()
    }
}

/// The plan of the region of a loop.
fn plan_of(trace: &[Stretch], head: u64, seen: &Seen) -> Option<Plan> {
    let kind = |pc: u64| seen.get(&pc).map_or(Kind::Stop, |found| found.1);
    let find = |pc: u64| seen.get(&pc).map_or((Kind::Stop, 0), |(d, kind)| (*kind, d.target()));
    Plan::of(&Paths::of(trace, head, &kind), &find)
}

/// How control goes on from an instruction.
fn kind(d: &Decoded, flow: Flow) -> Kind {
    const JIRL: u32 = 0x13;
    const B: u32 = 0x14;
    const BL: u32 = 0x15;
    const LINK: u32 = 1;
    let (opcode, rd, rj) = (d.word >> 26, d.word & 31, d.word >> 5 & 31);
    match (flow, opcode) {
        _ if d.last => Kind::Stop,
        (Flow::Straight, _) => Kind::Straight,
        (Flow::Conditional, _) => Kind::Conditional,
        (Flow::Direct, B) => Kind::Jump,
        (Flow::Direct, BL) => Kind::Call,
        (Flow::End, JIRL) => match (rd, rj, d.target()) {
            (0, LINK, 0) => Kind::Return,
            (0, ..) => Kind::Indirect,
            (LINK, ..) => Kind::IndirectCall,
            _ => Kind::Stop,
        },
        (Flow::Direct | Flow::End, _) => Kind::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place counts when stays have ended there often, until a look has seen it.
    #[test]
    fn a_place_is_looked_at_once() {
        let mut places = Places::default();
        let mut now = 0;
        let mut note = |places: &mut Places, pc: u64, stay: u64| {
            now += stay;
            places.note(now, pc)
        };
        assert!((0..100).all(|_| !note(&mut places, 4, LONG_STAY - 1)), "short stays");
        let often = |places: &mut Places, note: &mut dyn FnMut(&mut Places, u64, u64) -> bool| {
            (0..ENDS_MIN).map(|_| note(places, 8, LONG_STAY)).collect::<Vec<_>>()
        };
        let ends = often(&mut places, &mut note);
        assert_eq!(ends.iter().filter(|&&is_place| is_place).count(), 1);
        assert_eq!(ends.last(), Some(&true));
        let stretch = |pc: u64| Stretch { pc, count: 4, next: pc };
        // Another look saw the place in passing; then one saw it often.
        places.looked(64, &[stretch(8)]);
        assert!(note(&mut places, 8, LONG_STAY));
        places.looked(64, &vec![stretch(8); SEEN_MIN as usize]);
        assert!(!often(&mut places, &mut note).contains(&true));
        assert!((0..100).all(|_| !note(&mut places, 64, LONG_STAY)), "a look began there");
    }
}
