//! Blocks that are read from the cache on disk instead of being translated.
//!
//! - Code of a record runs only where memory has the record's instructions, in memory that never
//!   was writable. The pages are noted before their words are read, as those of a block that is
//!   translated. Checked by `a_program_that_was_replaced_runs_its_own_instructions`.

use super::super::code::Filling;
use super::super::epoch::Origin;
use super::super::stored::Store;
use super::super::tier1::{self, Record};
use super::super::{Cpu, Fetch};
use super::{PAGE_WORDS, Run, announced};
use crate::isa::{self, Group};
use littoral_base::mutant;

const GROUPS: [Group; 3] = [Group::Lsx, Group::Lasx, Group::Lbt];

/// The file and number of a block's record. Addresses of code are multiples of four.
fn number(origin: Origin, plain: bool, floats: usize) -> Option<(usize, u64)> {
    let number = origin.offset.checked_mul(2).filter(|_| origin.offset.is_multiple_of(4))?;
    Some((origin.file, number | (floats as u64) << 1 | u64::from(plain)))
}

impl<F: Fetch> Run<'_, F> {
    /// Where in which file the code at an address is, if that file's code is kept.
    pub(super) fn origin(&self, pc: u64) -> Option<Origin> {
        self.code.store()?;
        // A listing needs to know where instructions begin.
        (!self.own.journal.lists()).then(|| self.fetch.origin(pc)).flatten()
    }

    /// The block of an address from the cache, if it has one with these instructions.
    pub(super) fn read(
        &mut self,
        engine: &tier1::Engine,
        filling: &mut Filling,
        (cpu, key): (&Cpu, tier1::Key),
        (store, origin): (&Store, Origin),
    ) -> Option<tier1::At> {
        let own = engine.floats() as usize;
        store.with_record(number(origin, key.plain, own)?, |bytes| {
            let record = Record::read(bytes)?;
            self.is_in_memory(&record, filling, cpu, key.pc).then_some(())?;
            for (n, group) in GROUPS.into_iter().enumerate() {
                if record.groups >> n & 1 == 1 {
                    self.code.note(group);
                }
            }
            let filling = &mut filling.tier1[own];
            engine.read(filling, &record, key, cpu, &mut self.own.journal)
        })
    }

    /// Whether a record's instructions are in memory that never was writable.
    fn is_in_memory(
        &self,
        record: &Record<'_>,
        filling: &mut Filling,
        cpu: &Cpu,
        start: u64,
    ) -> bool {
        let mut words = record.words();
        record.runs().all(|run| {
            let pc = start.wrapping_add(run.from);
            let end = pc.saturating_add(4 * u64::from(run.count));
            let pages = (pc..end).step_by(4 * PAGE_WORDS as usize).chain([end - 4]);
            pages.for_each(|page| filling.note_text(page));
            let Some(text) = self.fetch.text(pc).filter(|text| !text.written) else { return false };
            let same = |pc| {
                let word = words.next();
                word.is_some() && cpu.window.load::<u32>(pc) == word
                    || mutant!("la64_stored_words_uncompared")
            };
            pc.is_multiple_of(4) && end <= text.end && (pc..end).step_by(4).all(same)
        })
    }

    /// The bits of a record's extensions, if a block of these instructions may be kept: all are of
    /// one file and move together.
    pub(super) fn keeps(
        &self,
        origin: Option<Origin>,
        cpu: &Cpu,
        list: &[tier1::Decoded],
    ) -> Option<u8> {
        let (first, start) = (origin?, list[0].pc);
        let is_with_it = |run: &tier1::RunOf| {
            let last = run.from.wrapping_add(4 * u64::from(run.count - 1));
            [run.from, last].into_iter().all(|from| {
                let wanted = Origin { offset: first.offset.wrapping_add(from), ..first };
                self.fetch.origin(start.wrapping_add(from)) == Some(wanted)
            })
        };
        tier1::runs(list).iter().all(is_with_it).then(|| {
            let has = |group: Group| {
                let rows = list.iter().filter_map(|d| isa::decode(d.word)).map(isa::RowId::row);
                rows.filter(|row| announced(cpu.features, row)).any(|row| row.group == group)
            };
            let bits = GROUPS.into_iter().enumerate().map(|(n, group)| u8::from(has(group)) << n);
            bits.sum()
        })
    }

    /// Keeps the record of a block that was translated.
    pub(super) fn keep(
        &self,
        kept: Option<(&Store, Origin)>,
        engine: &tier1::Engine,
        plain: bool,
        record: Option<Vec<u8>>,
    ) {
        if let (Some((store, origin)), Some(record)) = (kept, record)
            && let Some(place) = number(origin, plain, engine.floats() as usize)
        {
            store.keep(place, record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::stored::{Identity, Maker};
    use super::super::super::{CodeCache, Features, Limits, Text, Tier, Trap};
    use super::super::{Cache, instruction};
    use super::*;
    use crate::asm::word;
    use crate::memory::raw::Fenced;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    const HOME: u64 = 5 << 30;

    struct OfFile;

    impl Fetch for OfFile {
        fn text(&self, _: u64) -> Option<Text> {
            Some(Text { end: u64::MAX, written: false })
        }

        fn origin(&self, pc: u64) -> Option<Origin> {
            Some(Origin { file: 0, offset: pc - HOME })
        }
    }

    /// Each number of each record, and bytes of code, replaced by others.
    #[test]
    fn damaged_records_are_refused_or_whole() {
        let lines: &[(&str, &[i64])] = &[
            ("pcaddi", &[12, 3]),
            ("bl", &[20]),
            ("ld.d", &[13, 4, 0]),
            ("bitrev.w", &[17, 16]),
            ("bnez", &[13, -16]),
            ("break", &[0]),
            ("jirl", &[0, 1, 0]),
        ];
        let memory = Fenced::new(6 << 30, 1 << 16).expect("memory");
        let mut cpu = Cpu::new(memory.window(), Features::ALL);
        for (n, (name, operands)) in lines.iter().enumerate() {
            cpu.window.store(HOME + 4 * n as u64, word(name, operands).expect(name)).expect("in");
        }
        let limits = Limits::default();
        let maker = Maker::this(&cpu.window, cpu.features, limits).expect("a translator");
        let store = Arc::new(Store::new(maker, 1 << 20));
        store.add(Identity::of_build_id(b"a program"), None);
        let code = Arc::new(CodeCache::new(Tier::Blocks, limits).with_store(store.clone()));
        let mut cache = Cache::of(&code);
        cpu.state.pc = HOME;
        let trap = cache.run(&mut cpu, &OfFile, &AtomicBool::new(false), 10_000);
        assert_eq!(trap, Trap::Break(0));
        let held = code.held();
        let engine = held.value().engine(&cpu, limits, instruction).expect("a translator");
        let filling = held.value().fill();
        let filling = &filling.tier1[engine.floats() as usize];
        let (mut whole, mut refused, mut records) = (0, 0, 0);
        for offset in 0..lines.len() as u64 {
            let floats = engine.floats() as usize;
            let at = number(Origin { file: 0, offset: 4 * offset }, false, floats).expect("even");
            let record = store.with_record(at, |bytes| Some(bytes.to_vec()));
            let Some(record) = record else { continue };
            records += 1;
            let key = tier1::Key { pc: HOME + 4 * offset, plain: false };
            let mut places = |bytes: &[u8]| {
                let record = Record::read(bytes);
                let good = record.is_some_and(|r| engine.has_place_for(filling, &r, key, &cpu));
                *if good { &mut whole } else { &mut refused } += 1;
                good
            };
            assert!(places(&record), "as it was written");
            for place in (0..record.len()).step_by(4) {
                for value in [0u32, 1, 2, 7, 0x7fff_fff0, 0xffff_ffff, 1 << 30, 0x0001_ffff] {
                    let mut damaged = record.clone();
                    damaged[place..place + 4].copy_from_slice(&value.to_le_bytes());
                    places(&damaged);
                    places(&damaged[..place]);
                }
            }
        }
        assert!(records > 2 && whole > 50 && refused > 1000, "{records} {whole} {refused}");
    }
}
