//! Blocks that are read from the cache on disk instead of being translated.
//!
//! - The image of a guest file is adopted as a whole where memory has all its instructions; where
//!   it does not, blocks are read one by one, as records.
//! - Code of an image or a record runs only where memory has its instructions, in memory that never
//!   was writable. The pages are noted before their words are read, as those of a block that is
//!   translated. Checked by `a_program_that_was_replaced_runs_its_own_instructions`,
//!   `pages_of_an_image_are_noted`.

use super::super::code::Filling;
use super::super::epoch::Origin;
use super::super::image::Image;
use super::super::record::{Record, RunOf};
use super::super::stored::{KINDS, Number, Store};
use super::super::tier1;
use super::super::{Cpu, Fetch};
use super::{PAGE_WORDS, Run, announced};
use crate::isa::{self, Group};
use littoral_base::mutant;

/// Bytes of a page: guest files move by whole ones.
const PAGE: u64 = 4 * PAGE_WORDS;

const GROUPS: [Group; 3] = [Group::Lsx, Group::Lasx, Group::Lbt];

/// Images are adopted in so many generations of code at most: a program that drops code again and
/// again would pay for whole images each time, and gets single blocks then.
const GENERATIONS_MAX: u64 = 8;

const _: () = assert!(KINDS == tier1::Floats::COUNT, "an image for each kind of code");

/// The file and number of a block. Addresses of code are multiples of four.
fn number(origin: Origin, plain: bool, kind: usize) -> Option<(usize, Number)> {
    let offset = u32::try_from(origin.offset).ok().filter(|at| at.is_multiple_of(4))?;
    Some((origin.file, Number { kind, key: offset | u32::from(plain) }))
}

/// Notes the pages of instructions that code is made of.
fn note_pages(filling: &mut Filling, from: u64, end: u64) {
    let pages = (from..end).step_by(PAGE as usize).chain([end - 4]);
    pages.for_each(|page| filling.note_text(page));
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
        let number = number(origin, key.plain, own)?;
        let image = self.image(engine, filling, cpu, (store, number, key.pc));
        if let Some(place) = image
            && let Some(at) = engine.enter(&mut filling.tier1[own], place, key)
        {
            return Some(at);
        }
        store.with_record(number, |bytes| {
            let record = Record::read(bytes)?;
            self.is_in_memory(&record, filling, cpu, key.pc).then_some(())?;
            self.note_groups(record.groups);
            let filling = &mut filling.tier1[own];
            engine.read(filling, &record, key, cpu, &mut self.own.journal)
        })
    }

    /// The place in the engine of the image that has the block of an address. It is adopted if it
    /// was not.
    fn image(
        &mut self,
        engine: &tier1::Engine,
        filling: &mut Filling,
        cpu: &Cpu,
        (store, (file, number), pc): (&Store, (usize, Number), u64),
    ) -> Option<usize> {
        let own = engine.floats() as usize;
        let base = pc.wrapping_sub(u64::from(number.key & !1));
        if let Some(place) = filling.tier1[own].asked(file, base) {
            return place;
        }
        // An image that has nothing for this process is left alone.
        let image = store.image(file, own).filter(|image| image.find(number.key).is_some())?;
        let is_wanted = self.generation.number <= GENERATIONS_MAX && base.is_multiple_of(PAGE);
        let place = (is_wanted && self.image_is_in_memory(&image, filling, cpu, base))
            .then(|| {
                engine.adopt(&mut filling.tier1[own], (&image, base), cpu, &mut self.own.journal)
            })
            .flatten();
        filling.tier1[own].note_image((file, base), place);
        if place.is_some() {
            store.note_used(file, image.len());
            let groups = image.blocks().fold(0, |groups, block| groups | block.groups);
            self.note_groups(groups);
        }
        place
    }

    /// Instructions of these extensions were decoded.
    fn note_groups(&self, groups: u8) {
        for (n, group) in GROUPS.into_iter().enumerate() {
            if groups >> n & 1 == 1 {
                self.code.note(group);
            }
        }
    }

    /// Whether all instructions of an image are in memory that never was writable.
    fn image_is_in_memory(
        &self,
        image: &Image,
        filling: &mut Filling,
        cpu: &Cpu,
        base: u64,
    ) -> bool {
        let mut inside = 0..0;
        let mut found = [0; PAGE as usize];
        image.texts().all(|text| {
            let pc = base.wrapping_add(text.offset.into());
            let end = pc.saturating_add(text.words.len() as u64);
            if !mutant!("la64_image_pages_unnoted") {
                note_pages(filling, pc, end);
            }
            if !inside.contains(&pc) {
                let text = self.fetch.text(pc).filter(|text| !text.written);
                inside = pc..text.map_or(pc, |text| text.end);
            }
            let same = |(at, words): (u64, &[u8])| {
                let found = &mut found[..words.len()];
                cpu.window.read(at, found).is_some() && found == words
                    || mutant!("la64_stored_words_uncompared")
            };
            let parts = text.words.chunks(PAGE as usize);
            end <= inside.end && (pc..).step_by(PAGE as usize).zip(parts).all(same)
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
            note_pages(filling, pc, end);
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
        let is_with_it = |run: &RunOf| {
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
    use super::super::super::record::{Lists, WORDS};
    use super::super::super::stored::{Identity, Maker};
    use super::super::super::translation::Journal;
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

    const LINES: &[(&str, &[i64])] = &[
        ("pcaddi", &[12, 3]),
        ("bl", &[20]),
        ("ld.d", &[13, 4, 0]),
        ("bitrev.w", &[17, 16]),
        ("bnez", &[13, -16]),
        ("break", &[0]),
        ("jirl", &[0, 1, 0]),
    ];

    fn store(maker: Maker, file: Option<Vec<u8>>) -> Arc<Store> {
        let store = Arc::new(Store::new(maker, 1 << 20));
        assert_eq!(store.add(Identity::of_build_id(b"a program"), file).1, None);
        store
    }

    /// Runs the program with a store; its code.
    fn run(cpu: &mut Cpu, store: &Arc<Store>) -> Arc<CodeCache> {
        let code = CodeCache::new(Tier::Blocks, Limits::default()).with_store(store.clone());
        let code = Arc::new(code);
        cpu.state.pc = HOME;
        let mut cache = Cache::of(&code);
        let trap = cache.run(cpu, &OfFile, &AtomicBool::new(false), 10_000);
        assert_eq!(trap, Trap::Break(0));
        code
    }

    /// A thread in memory with the program, and a store that has run it.
    fn prepared() -> (Fenced, Cpu, Arc<Store>, Maker) {
        let memory = Fenced::new(6 << 30, 1 << 16).expect("memory");
        let mut cpu = Cpu::new(memory.window(), Features::ALL);
        for (n, (name, operands)) in LINES.iter().enumerate() {
            cpu.window.store(HOME + 4 * n as u64, word(name, operands).expect(name)).expect("in");
        }
        let maker = Maker::this(&cpu.window, cpu.features, Limits::default());
        let maker = maker.expect("a translator");
        let store = store(maker, None);
        run(&mut cpu, &store);
        (memory, cpu, store, maker)
    }

    /// Code of an image is dropped with its pages, as that of blocks is.
    #[test]
    fn pages_of_an_image_are_noted() {
        let (_memory, mut cpu, made, maker) = prepared();
        let store = store(maker, Some(made.file(0, None)));
        let code = run(&mut cpu, &store);
        assert!(store.grown().is_empty(), "nothing was translated");
        assert!(
            !code.drop_pages(HOME - PAGE..HOME) && !code.drop_pages(HOME + PAGE..HOME + 2 * PAGE)
        );
        assert!(code.drop_pages(HOME..HOME + 4));
        assert_eq!(code.generations(), 2);
    }

    /// Code that is dropped again and again is read block by block.
    #[test]
    fn images_are_for_the_first_generations() {
        let (_memory, mut cpu, made, maker) = prepared();
        let store = store(maker, Some(made.file(0, None)));
        let code = CodeCache::new(Tier::Blocks, Limits::default()).with_store(store);
        let code = Arc::new(code);
        let mut cache = Cache::of(&code);
        for generation in 1..=2 * GENERATIONS_MAX {
            let read = cache.translation().read;
            cpu.state.pc = HOME;
            let trap = cache.run(&mut cpu, &OfFile, &AtomicBool::new(false), 10_000);
            assert_eq!(trap, Trap::Break(0));
            assert!(cache.translation().read > read && cache.translation().blocks == 0);
            let held = code.held();
            let engine = held.value().engine_of(tier1::floats(&cpu)).expect("a translator");
            assert_eq!(engine.blocks_of_images() > 0, generation <= GENERATIONS_MAX);
            drop(held);
            code.clear();
        }
    }

    /// What is left of an arena stays for blocks that are translated, half of it at least.
    #[test]
    fn an_image_takes_half_of_what_is_left_at_most() {
        let (_memory, cpu, _, maker) = prepared();
        let limits = Limits { code_len: Limits::CODE_LEN_MIN, ..Limits::default() };
        let code = CodeCache::new(Tier::Blocks, limits);
        let held = code.held();
        let engine = held.value().engine(&cpu, limits, instruction).expect("a translator");
        let kind = engine.floats() as usize;
        let image = |len: usize| {
            let mut lists = Lists::default();
            lists.run(RunOf { from: 0, count: 1 });
            lists.extend(WORDS, [0]);
            let made = store(maker, None);
            made.keep((0, Number { kind, key: 0 }), lists.write(HOME, 0, &vec![0xcc; len]));
            store(maker, Some(made.file(0, None))).image(0, kind).expect("an image")
        };
        let (long, short) = (image(80 << 10), image(36 << 10));
        let mut filling = held.value().fill();
        let filling = &mut filling.tier1[kind];
        let places = [&long, &short, &short, &short]
            .map(|image| engine.adopt(&mut *filling, (image, HOME), &cpu, &mut Journal::default()));
        assert_eq!(places, [None, Some(0), Some(1), None]);
    }

    /// Each number of an image, replaced by others: none is believed.
    #[test]
    fn damaged_images_are_refused_or_get_a_place() {
        let (_memory, mut cpu, made, maker) = prepared();
        let file = made.file(0, None);
        let code = run(&mut cpu, &made);
        let held = code.held();
        let engine = held.value().engine(&cpu, Limits::default(), instruction);
        let engine = engine.expect("a translator");
        let kind = engine.floats() as usize;
        let taken = store(maker, Some(file.clone())).image(0, kind).expect("an image");
        let start = file.len() - taken.len();
        let settles = |bytes: Vec<u8>| {
            let bytes = Arc::new(bytes);
            let image = Image::read(&bytes, start..bytes.len());
            image.map(|image| engine.settles(&Arc::new(image), HOME, &cpu))
        };
        assert_eq!(settles(file.clone()), Some(true), "as it was written");
        let (mut whole, mut refused) = ([0, 0], 0);
        for place in (start..file.len()).step_by(4) {
            for value in [0u32, 1, 2, 7, 0x7fff_fff0, 0xffff_ffff, 1 << 30, 0x0001_ffff] {
                let mut damaged = file.clone();
                damaged[place..place + 4].copy_from_slice(&value.to_le_bytes());
                match settles(damaged) {
                    Some(settles) => whole[usize::from(settles)] += 1,
                    None => refused += 1,
                }
            }
        }
        assert!(whole[0] > 10 && whole[1] > 500 && refused > 300, "{whole:?} {refused}");
    }

    /// Each number of each record, and bytes of code, replaced by others.
    #[test]
    fn damaged_records_are_refused_or_whole() {
        let (_memory, mut cpu, store, _) = prepared();
        let (limits, lines) = (Limits::default(), LINES);
        let code = run(&mut cpu, &store);
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
