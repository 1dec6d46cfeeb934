//! Trials of regions by the thread that runs their loops.
//!
//! - Code of a region that is taken away stays where it is: a thread inside leaves it at its next
//!   exit. Doors without code of their own get it before a trial, so that all of a region can be
//!   taken away. Checked by `regions_that_come_and_go_agree`.
//! - A region with a door whose code would be compared with memory is not tried: it stays. Checked
//!   by `a_region_over_compared_code_stays`.
//! - One region of a generation is tried at a time by a thread. A thread that ends meanwhile leaves
//!   the region as it is.

use super::super::code::Filling;
use super::super::tier1::{self, Doors, Floats, Judged, Next, Trial};
use super::super::{Cpu, Fetch, Tier};
use super::{Cache, Run};
use crate::jit::raw::thread_ns;
use littoral_base::mutant;
use std::sync::atomic::AtomicBool;
use std::sync::{PoisonError, TryLockError};

/// The trials of a thread.
#[derive(Debug, Default)]
pub(super) struct Trials {
    /// Regions that there were when none was left to be tried.
    seen: u64,
    now: Option<OnTrial>,
    /// The clock, if it is not the thread's processor time.
    #[cfg(test)]
    clock: Option<fn(bool) -> u64>,
}

impl Trials {
    /// Nanoseconds of this thread, while the tried region is there or not.
    fn ns(&self, is_there: bool) -> u64 {
        #[cfg(test)]
        if let Some(clock) = self.clock {
            return clock(is_there);
        }
        let _ = is_there;
        thread_ns()
    }
}

/// A region that is tried.
#[derive(Debug)]
struct OnTrial {
    generation: u64,
    floats: Floats,
    /// Its number.
    number: u64,
    doors: Doors,
    is_there: bool,
    trial: Trial,
}

impl<F: Fetch> Run<'_, F> {
    /// Begins the trial of a region, if there is one that was not tried.
    pub(super) fn begin_trial(&mut self, engine: &tier1::Engine, cpu: &Cpu) {
        let made = self.code.regions();
        if made == self.own.trials.seen || !self.code.limits.aside {
            return;
        }
        debug_assert_eq!(self.code.tier(), Tier::Regions);
        if self.own.trials.now.is_some() {
            return;
        }
        // The thread that makes regions has the lock for some time.
        let mut filling = match self.generation.filling.try_lock() {
            Ok(filling) => filling,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => return,
        };
        let floats = engine.floats();
        let regions = &mut filling.tier1[floats as usize].regions;
        let Some(n) = regions.iter().position(|kept| kept.judged == Judged::Not) else {
            self.own.trials.seen = made;
            return;
        };
        // Until there is another judgement; no other thread tries it.
        regions[n].judged = Judged::Stays;
        if let Some(doors) = self.whole_doors(engine, &mut filling, cpu, n) {
            let (generation, trial) = (self.generation.number, Trial::default());
            let number = filling.tier1[floats as usize].regions[n].number;
            let is_there = true;
            let now = OnTrial { generation, floats, number, doors, is_there, trial };
            self.own.trials.now = Some(now);
        }
    }

    /// The doors of region `n`, each with code of its own behind it when the region is not there.
    fn whole_doors(
        &mut self,
        engine: &tier1::Engine,
        filling: &mut Filling,
        cpu: &Cpu,
        n: usize,
    ) -> Option<Doors> {
        let floats = engine.floats() as usize;
        let mut list = filling.tier1[floats].regions[n].doors.clone();
        for door in list.iter_mut().filter(|door| door.is_alone()) {
            if engine.is_spent(&filling.tier1[floats], cpu) {
                return None;
            }
            let (words, epoch) = self.decode_for(engine, filling, cpu, door.pc).ok()?;
            if epoch.is_some() {
                return None;
            }
            let journal = &mut self.own.journal;
            let filling = &mut filling.tier1[floats];
            door.lead_aside(engine.translate(filling, (false, None), &words, None, journal).0);
        }
        let mut doors = Doors::of(list);
        let filling = &mut filling.tier1[floats];
        filling.regions[n].doors.clone_from(&doors.list);
        engine.turn(filling, &mut doors, true);
        Some(doors)
    }

    /// Runs code, and times it if a region is tried.
    pub(super) fn stay(
        &mut self,
        engine: &tier1::Engine,
        cpu: &mut Cpu,
        attention: &AtomicBool,
        (at, slice): (tier1::At, u64),
    ) -> tier1::Left {
        let Some(OnTrial { generation, floats, is_there, .. }) = self.own.trials.now else {
            return engine.run(cpu, attention, at, slice);
        };
        if generation != self.generation.number {
            self.own.trials.now = None;
        } else if floats == engine.floats() {
            let (from, before) = (self.own.trials.ns(is_there), cpu.state.instructions);
            let left = engine.run(cpu, attention, at, slice);
            let ns = self.own.trials.ns(is_there).saturating_sub(from);
            self.timed(engine, ns, cpu.state.instructions - before);
            return left;
        }
        engine.run(cpu, attention, at, slice)
    }

    /// A stay took so many nanoseconds for so many instructions.
    fn timed(&mut self, engine: &tier1::Engine, ns: u64, instructions: u64) {
        let Some(tried) = &mut self.own.trials.now else { return };
        let next = tried.trial.note(ns, instructions);
        if next == Next::Stay {
            return;
        }
        let mut filling = self.generation.fill();
        let filling = &mut filling.tier1[engine.floats() as usize];
        let is_it = |kept: &&mut tier1::Kept| kept.number == tried.number;
        let Some(kept) = filling.regions.iter_mut().find(is_it) else {
            // It was made again.
            self.own.trials.now = None;
            return;
        };
        let is_there = match next {
            Next::Stay => return,
            Next::Turn(is_there) => is_there,
            Next::Over(stays) => {
                kept.judged = if stays { Judged::Stays } else { Judged::Away };
                stays || mutant!("la64_region_stays_without_pay")
            }
        };
        tried.is_there = is_there;
        engine.turn(filling, &mut tried.doors, is_there);
        if matches!(next, Next::Over(_)) {
            self.own.trials.now = None;
        }
    }
}

impl Cache {
    /// Takes the regions away that code of this thread may enter, or puts them back.
    pub(crate) fn turn_regions(&mut self, cpu: &Cpu, fetch: &impl Fetch, are_there: bool) {
        let generation = &self.reader.pin();
        let floats = tier1::floats(cpu);
        let Some(engine) = generation.engine_of(floats) else { return };
        let mut run = Run { code: &self.code, generation, own: &mut self.own, fetch };
        let mut filling = generation.fill();
        for n in 0..filling.tier1[floats as usize].regions.len() {
            if let Some(mut doors) = run.whole_doors(engine, &mut filling, cpu, n) {
                engine.turn(&mut filling.tier1[floats as usize], &mut doors, are_there);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{CodeCache, Features, Limits, Text, Trap};
    use super::*;
    use crate::asm::word;
    use crate::memory::raw::Fenced;
    use std::cell::Cell;
    use std::sync::Arc;

    const HOME: u64 = 0x1000;

    struct Fixed;

    impl Fetch for Fixed {
        fn text(&self, _: u64) -> Option<Text> {
            Some(Text { end: u64::MAX, written: false })
        }
    }

    thread_local! {
        static NS: Cell<u64> = const { Cell::new(0) };
    }

    /// A clock by which a stay takes so long with the region, and 4 ms without it.
    fn clock<const WITH_MS: u64>(is_there: bool) -> u64 {
        NS.set(NS.get() + 1_000_000 * if is_there { WITH_MS } else { 4 });
        NS.get()
    }

    /// Memory of which all from this address on was writable once.
    struct WrittenFrom(u64);

    impl Fetch for WrittenFrom {
        fn text(&self, pc: u64) -> Option<Text> {
            let written = pc >= self.0;
            Some(Text { end: if written { u64::MAX } else { self.0 }, written })
        }
    }

    /// How the region of a loop at `home` is judged by a clock, and whether control enters it then.
    fn judged(clock: fn(bool) -> u64, home: u64, fetch: &impl Fetch) -> (Judged, bool) {
        let memory = Fenced::new(1 << 18, 1 << 16).expect("memory");
        let mut cpu = Cpu::new(memory.window(), Features::ALL);
        let lines: [(&str, &[i64]); 5] = [
            ("addi.d", &[6, 6, 1]),
            ("andi", &[7, 6, 64]),
            ("beqz", &[7, 8]),
            ("add.d", &[8, 8, 6]),
            ("bnez", &[6, -16]),
        ];
        for (n, (name, operands)) in lines.iter().enumerate() {
            cpu.window.store(home + 4 * n as u64, word(name, operands).expect(name)).expect("in");
        }
        cpu.state.pc = home;
        let limits = Limits { watch: 3_000, ..Limits::default() };
        let code = Arc::new(CodeCache::new(Tier::Regions, limits));
        let mut cache = Cache::of(&code);
        cache.own.trials.clock = Some(clock);
        let judged = |cpu: &Cpu| {
            let (held, floats) = (code.held(), tier1::floats(cpu));
            let filling = held.value().fill();
            let kept = filling.tier1[floats as usize].regions.first()?;
            let key = tier1::Key { pc: kept.doors[0].pc, plain: false };
            let entered = held.value().engine_of(floats)?.find(key, cpu)?;
            Some((kept.judged, kept.doors[0].is_inside(entered)))
        };
        // The region is made on another thread: it comes when it comes.
        loop {
            let trap = cache.run(&mut cpu, fetch, &AtomicBool::new(false), 1 << 20);
            assert_eq!(trap, Trap::OutOfBudget);
            let is_over = cache.own.trials.now.is_none();
            match judged(&cpu) {
                Some(found) if is_over && found.0 != Judged::Not => return found,
                _ => {}
            }
        }
    }

    #[test]
    fn a_region_that_costs_more_is_taken_away_and_one_that_pays_stays() {
        assert_eq!(judged(clock::<6>, HOME, &Fixed), (Judged::Away, false));
        assert_eq!(judged(clock::<3>, HOME, &Fixed), (Judged::Stays, true));
    }

    /// The loop's block goes on in memory that was writable, so it is compared; the loop does not.
    #[test]
    fn a_region_over_compared_code_stays() {
        let written = WrittenFrom(HOME + 0x1000);
        assert_eq!(judged(clock::<6>, HOME + 0x1000 - 20, &written), (Judged::Stays, true));
    }
}
