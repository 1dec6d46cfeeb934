//! The code of a guest file as one piece: blocks that are linked to each other, with what an engine
//! needs to run them in its arena. `docs/design/la64-jit.md` has the bytes.
//!
//! - An image is adopted as a whole: one copy of its code, then one pass over each list of places
//!   that depend on where the code or the guest's file is. Blocks are found in it when control
//!   comes to them from outside.
//! - It holds each instruction that its code was made of, once. Two blocks that were made of
//!   different instructions at one address are not in one image. Checked by
//!   `blocks_of_other_instructions_are_not_in_one_image`.
//! - [`Image::read`] believes no number: lists lie inside the image, blocks inside its code, and
//!   every instruction of a block is among the image's. Checked by
//!   `an_image_with_any_word_replaced_is_refused_or_whole`.
//! - Its blocks become records again, for a reader whose memory differs somewhere, and for an image
//!   with more blocks. Checked by `an_image_gives_back_the_records_that_it_was_made_of`.

#![cfg_attr(
    not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")),
    allow(dead_code, reason = "without a translator nothing is kept")
)]

mod draft;

use super::record::{self, ExitOf, Lists, RunOf, get, set};
pub(super) use draft::{cost, write};
use littoral_base::mutant;
use std::ops::Range;
use std::sync::Arc;

/// The lists in their order.
const BLOCKS: usize = 0;
const RUNS: usize = 1;
const TEXTS: usize = 2;
const WORDS: usize = 3;
const EXITS: usize = 4;
const FAULTS: usize = 5;
const SLOWS: usize = 6;
const ALONE: usize = 7;
const RELATIVE: usize = 8;
const BEFORE: usize = 9;
const LISTS: usize = 10;
/// Words of an element of each.
const SIZES: [usize; LISTS] = [4, 2, 3, 1, 3, 2, 2, 2, 1, 1];
/// Words before the lists: a count for each, and bytes of code.
const HEAD: usize = LISTS + 1;
/// Bytes of an image without blocks.
pub(super) const HEAD_BYTES: usize = 4 * HEAD;

/// Blocks begin at multiples of this.
const ALIGNMENT: usize = 16;
/// Longest code of a block.
const LEN_MAX: u32 = 1 << 24;
/// In an address of a block: it is plain code.
const PLAIN: u32 = 1;
/// In the place of an exit's number: the exit leads to its own block's code.
const OWN: u32 = 1 << 31;
/// The same: it leads to plain code.
const TO_PLAIN: u32 = 1 << 30;
const NO_SITE: u32 = u32::MAX;

/// An image that was checked.
#[derive(Clone, Debug)]
pub(super) struct Image {
    bytes: Arc<Vec<u8>>,
    lists: [Range<usize>; LISTS],
    code: Range<usize>,
}

/// A block of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockOf {
    /// Offset of its first instruction in the guest file, plus 1 for plain code.
    pub(super) key: u32,
    /// Where its code begins.
    pub(super) start: u32,
    pub(super) len: u32,
    /// Bits of the extensions whose instructions it has.
    pub(super) groups: u8,
    first_run: u32,
}

impl BlockOf {
    fn of(words: [u32; 4]) -> BlockOf {
        let [key, start, len, first_run] = words;
        BlockOf { key, start, len: len & (LEN_MAX - 1), groups: (len >> 24) as u8, first_run }
    }

    fn words(self) -> [u32; 4] {
        [self.key, self.start, self.len | u32::from(self.groups) << 24, self.first_run]
    }

    /// Offset of its first instruction in the guest file.
    fn offset(self) -> u32 {
        self.key & !PLAIN
    }

    fn code(self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

/// Instructions behind each other in the guest file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    /// Offset of the first one.
    pub(super) offset: u32,
    /// Themselves, as in memory.
    pub(super) words: &'a [u8],
}

impl Image {
    /// An image, if these bytes are one.
    pub(super) fn read(bytes: &Arc<Vec<u8>>, place: Range<usize>) -> Option<Image> {
        let all = bytes.get(place.clone())?;
        let mut at = HEAD_BYTES;
        let mut lists = [const { 0..0 }; LISTS];
        for (n, size) in SIZES.into_iter().enumerate() {
            let len = u64::from(get(all, 4 * n as u32)?) * 4 * size as u64;
            let end = at.checked_add(usize::try_from(len).ok()?)?;
            lists[n] = place.start + at..place.start.checked_add(end)?;
            at = end;
        }
        let code_len = get(all, 4 * LISTS as u32)? as usize;
        let is_whole = at.checked_add(code_len) == Some(all.len())
            && code_len < 1 << 30
            && code_len.is_multiple_of(ALIGNMENT);
        let code = place.start + at..place.end;
        let image = Image { bytes: bytes.clone(), lists, code };
        (is_whole && image.is_right()).then_some(image)
    }

    /// Bytes of it.
    pub(super) fn len(&self) -> usize {
        HEAD_BYTES + self.code.end - self.lists[0].start
    }

    /// A list's words.
    fn words(&self, list: usize) -> &[[u8; 4]] {
        self.bytes[self.lists[list].clone()].as_chunks().0
    }

    /// A list's elements.
    fn list<const N: usize>(&self, list: usize) -> impl ExactSizeIterator<Item = [u32; N]> + Clone {
        debug_assert_eq!(SIZES[list], N);
        self.words(list).as_chunks::<N>().0.iter().map(|words| words.map(u32::from_le_bytes))
    }

    /// Element `n` of a list.
    fn at<const N: usize>(&self, list: usize, n: usize) -> Option<[u32; N]> {
        debug_assert_eq!(SIZES[list], N);
        let words = self.words(list).as_chunks::<N>().0.get(n)?;
        Some(words.map(u32::from_le_bytes))
    }

    fn count(&self, list: usize) -> usize {
        self.lists[list].len() / (4 * SIZES[list])
    }

    /// How many elements of a sorted list have a first word below `word`.
    fn below(&self, list: usize, word: u32) -> usize {
        let (words, size) = (self.words(list), SIZES[list]);
        partition(words.len() / size, |n| u32::from_le_bytes(words[size * n]) < word)
    }

    /// Its blocks, by their keys.
    pub(super) fn blocks(&self) -> impl ExactSizeIterator<Item = BlockOf> + Clone {
        self.list(BLOCKS).map(BlockOf::of)
    }

    /// The block of a key.
    pub(super) fn find(&self, key: u32) -> Option<BlockOf> {
        let block = BlockOf::of(self.at(BLOCKS, self.below(BLOCKS, key))?);
        (block.key == key).then_some(block)
    }

    /// Runs of a block's instructions: offset in the guest file, and how many. `next` is the block
    /// behind it.
    fn runs(&self, block: BlockOf, next: Option<BlockOf>) -> impl Iterator<Item = [u32; 2]> {
        let end = next.map_or(self.count(RUNS), |next| next.first_run as usize);
        let runs = block.first_run as usize..end;
        runs.filter_map(|n| self.at(RUNS, n))
    }

    fn runs_of(&self, n: usize) -> impl Iterator<Item = [u32; 2]> {
        let block = |n| self.at(BLOCKS, n).map(BlockOf::of);
        block(n).into_iter().flat_map(move |this| self.runs(this, block(n + 1)))
    }

    /// Its code, as it is before it has a place.
    pub(super) fn code(&self) -> &[u8] {
        &self.bytes[self.code.clone()]
    }

    /// Instructions that it was made of.
    pub(super) fn texts(&self) -> impl Iterator<Item = Text<'_>> {
        let words = &self.bytes[self.lists[WORDS].clone()];
        self.list(TEXTS).filter_map(move |[offset, count, first]| {
            let words = words.get(4 * first as usize..4 * (first + count) as usize)?;
            Some(Text { offset, words })
        })
    }

    /// The instructions of a run.
    fn run(&self, [offset, count]: [u32; 2]) -> Option<&[[u8; 4]]> {
        let n = self.text_of([offset, count], 0)?;
        let [from, _, first] = self.at(TEXTS, n)?;
        let place = (first + (offset - from) / 4) as usize;
        self.words(WORDS).get(place..place + count as usize)
    }

    /// The instruction of a place of the block whose code has, or ends at, an offset: where in the
    /// guest file it is, and itself.
    pub(super) fn instruction(&self, at: u32, place: u32) -> Option<(u32, u32)> {
        let n = self.block_at(at)?;
        let mut left = place;
        for [offset, count] in self.runs_of(n) {
            if left < count {
                let word = *self.run([offset, count])?.get(left as usize)?;
                return Some((offset + 4 * left, u32::from_le_bytes(word)));
            }
            left -= count;
        }
        None
    }

    /// The number of the block whose code has, or ends at, an offset.
    fn block_at(&self, at: u32) -> Option<usize> {
        // Blocks are in the order of their code too.
        let is_before = |n| self.at::<4>(BLOCKS, n).is_some_and(|block| block[1] < at);
        partition(self.count(BLOCKS), is_before).checked_sub(1)
    }

    /// How many exits there are.
    pub(super) fn exits_count(&self) -> usize {
        self.count(EXITS)
    }

    /// Exits. A target is its offset in the guest file, other numbers are offsets in the code.
    pub(super) fn exits(&self) -> impl ExactSizeIterator<Item = ExitOf> {
        self.list(EXITS).map(exit_of)
    }

    /// Exit `n`.
    pub(super) fn exit(&self, n: usize) -> Option<ExitOf> {
        self.at(EXITS, n).map(exit_of)
    }

    /// The instructions that may fault, and their landings, as a place in the bytes.
    pub(super) fn faults(&self) -> (Arc<Vec<u8>>, Range<usize>) {
        (self.bytes.clone(), self.lists[FAULTS].clone())
    }

    /// The place in its block of the instruction whose slow way's call returns to an offset.
    pub(super) fn slow(&self, back: u32) -> Option<u32> {
        let [found, place] = self.at(SLOWS, self.below(SLOWS, back))?;
        (found == back).then_some(place)
    }

    /// Addresses of instructions for tier 0, and their places in their blocks.
    pub(super) fn alone(&self) -> impl Iterator<Item = [u32; 2]> {
        self.list(ALONE)
    }

    /// Numbers to which the guest file's address is added.
    pub(super) fn relative(&self) -> impl Iterator<Item = u32> {
        self.list::<1>(RELATIVE).map(|[site]| site)
    }

    /// Displacements that lead to routines, which stand in the code as offsets in the arena.
    pub(super) fn before(&self) -> impl Iterator<Item = u32> {
        self.list::<1>(BEFORE).map(|[site]| site)
    }

    /// The record of a block.
    pub(super) fn record(&self, key: u32) -> Option<Vec<u8>> {
        let n = self.below(BLOCKS, key);
        let block = BlockOf::of(self.at(BLOCKS, n)?);
        if block.key != key {
            return None;
        }
        let mut code = self.code()[block.code()].to_vec();
        let (start, end) = (block.start, block.start + block.len);
        let mut lists = Lists::default();
        for [offset, count] in self.runs_of(n) {
            let from = u64::from(offset).wrapping_sub(block.offset().into());
            lists.run(RunOf { from, count });
            let words = self.run([offset, count])?.iter();
            lists.extend(record::WORDS, words.map(|word| u32::from_le_bytes(*word)));
        }
        for n in self.within_by_id(start, end) {
            let exit = self.exit(n)?;
            let (id, site) = (exit.id - start, exit.site.map(|site| site.wrapping_sub(start)));
            if let Some(site) = site.filter(|_| !exit.linked) {
                set(&mut code, site, id.wrapping_sub(1).wrapping_sub(site.wrapping_add(4)))?;
            }
            let to = exit.to.wrapping_sub(block.offset().into());
            lists.exit(ExitOf { to, site, id, ..exit });
        }
        let pairs = |list, both: bool, more: u32| {
            let range = self.below(list, start + more)..self.below(list, end + more);
            let inside = move |[at, other]: [u32; 2]| {
                [at - start, if both { other.wrapping_sub(start) } else { other }]
            };
            range.filter_map(move |n| self.at(list, n)).flat_map(inside)
        };
        lists.extend(record::FAULTS, pairs(FAULTS, true, 0));
        lists.extend(record::SLOWS, pairs(SLOWS, false, 1));
        lists.extend(record::ALONE, pairs(ALONE, false, 0));
        for (from, to) in [(RELATIVE, record::RELATIVE), (BEFORE, record::BEFORE)] {
            let range = self.below(from, start)..self.below(from, end);
            let sites = range.filter_map(|n| self.at::<1>(from, n));
            lists.extend(to, sites.map(|[site]| site - start));
        }
        Some(lists.write(block.offset().into(), block.groups, &code))
    }

    /// Exits whose numbers stand in a part of the code.
    fn within_by_id(&self, start: u32, end: u32) -> Range<usize> {
        let below = |id: u32| {
            let is_before = |n| self.exit(n).is_some_and(|exit| exit.id < id);
            partition(self.count(EXITS), is_before)
        };
        below(start)..below(end)
    }
}

/// How many of the numbers below `count` come before the others.
fn partition(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        match is_before(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

fn exit_of([to, site, id]: [u32; 3]) -> ExitOf {
    ExitOf {
        to: to.into(),
        site: (site != NO_SITE).then_some(site),
        id: id & !(OWN | TO_PLAIN),
        plain: id & TO_PLAIN != 0,
        linked: id & OWN != 0,
    }
}

/// What is checked before an image is believed.
impl Image {
    fn is_right(&self) -> bool {
        self.texts_are_right() && self.blocks_are_right().is_some() && self.places_are_right()
    }

    /// Whether texts are behind each other and have all words.
    fn texts_are_right(&self) -> bool {
        let (mut end, mut words) = (0u64, 0u64);
        let mut texts = self.list::<3>(TEXTS);
        let right = texts.all(|[offset, count, first]| {
            let right = count > 0
                && offset.is_multiple_of(4)
                && u64::from(offset) >= end
                && u64::from(first) == words;
            (end, words) = (u64::from(offset) + 4 * u64::from(count), words + u64::from(count));
            right && end <= 1 << 32
        });
        right && words == self.count(WORDS) as u64
    }

    /// Whether blocks are behind each other, inside the code, and of instructions that are here.
    fn blocks_are_right(&self) -> Option<()> {
        let (mut end, mut key, mut run_end) = (0, None, 0);
        let (len, runs, slows) = (self.code.len() as u64, self.count(RUNS), self.count(SLOWS));
        let (mut slow, mut near) = (0, 0);
        let blocks = self.words(BLOCKS).as_chunks::<4>().0;
        for (n, block) in blocks.iter().enumerate() {
            let block = BlockOf::of(block.map(u32::from_le_bytes));
            let first = block.first_run as usize;
            // The first run of the next block.
            let next = blocks.get(n + 1).map_or(runs, |next| u32::from_le_bytes(next[3]) as usize);
            let is_right = key < Some(block.key)
                && block.key & 2 == 0
                && block.start >= end
                && (block.start as usize).is_multiple_of(ALIGNMENT)
                && block.len > 0
                && u64::from(block.start) + u64::from(block.len) <= len
                && (first, next.max(first + 1)) == (run_end, next)
                && next <= runs;
            is_right.then_some(())?;
            (key, end, run_end) = (Some(block.key), block.start + block.len, next);
            self.at::<2>(RUNS, first).filter(|run| run[0] == block.offset())?;
            let mut instructions = 0u64;
            for n in first..next {
                let run = self.at(RUNS, n)?;
                near = self.text_of(run, near)?;
                instructions += u64::from(run[1]);
            }
            while let Some([back, place]) = self.at(SLOWS, slow).filter(|found| found[0] <= end) {
                (back > block.start && u64::from(place) < instructions).then_some(())?;
                slow += 1;
            }
        }
        (run_end == runs && slow == slows).then_some(())
    }

    /// The number of the text that has a run, which is probably the one of number `near`.
    fn text_of(&self, [offset, count]: [u32; 2], near: usize) -> Option<usize> {
        let is_in = |n: &usize| {
            let text = self.at::<3>(TEXTS, *n);
            text.is_some_and(|[from, words, _]| {
                let place = offset.wrapping_sub(from) / 4;
                offset >= from && place < words && count <= words - place
                    || mutant!("la64_image_instructions_left_out")
            })
        };
        let search = || self.below(TEXTS, offset.checked_add(1)?).checked_sub(1).filter(is_in);
        let found = Some(near).filter(is_in).or_else(search)?;
        (offset.is_multiple_of(4) && count > 0).then_some(found)
    }

    /// Whether what stands in lists of places is sorted and inside the code.
    fn places_are_right(&self) -> bool {
        let len = self.code.len() as u32;
        let sites = self.list(EXITS).fold(true, |right, [_, site, _]| {
            right & (site == NO_SITE || site <= len.saturating_sub(4) && site % 8 <= 4)
        });
        sites
            && self.list(FAULTS).fold(true, |right, [_, landing]| right & (landing < len))
            && self.is_sorted::<3>(EXITS, 2, !(OWN | TO_PLAIN), 4)
            && self.is_sorted::<2>(FAULTS, 0, !0, 1)
            && self.is_sorted::<2>(SLOWS, 0, !0, 0)
            && self.is_sorted::<2>(ALONE, 0, !0, 8)
            && self.is_sorted::<1>(RELATIVE, 0, !0, 8)
            && self.is_sorted::<1>(BEFORE, 0, !0, 4)
    }

    /// Whether each of a list's places is behind the one before it, and so many bytes before the
    /// end of the code. A place is the masked word `word` of an element.
    fn is_sorted<const N: usize>(&self, list: usize, word: usize, mask: u32, room: usize) -> bool {
        let Some(most) = self.code.len().checked_sub(room) else { return self.count(list) == 0 };
        let (mut right, mut least) = (true, 0);
        for words in self.words(list).as_chunks::<N>().0 {
            let at = u32::from_le_bytes(words[word]) & mask;
            right &= at >= least && at as usize <= most;
            least = at.wrapping_add(1);
        }
        right
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Record;
    use super::*;

    fn next(seed: &mut u64) -> u32 {
        *seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (*seed >> 33) as u32
    }

    /// The instruction at an offset of a guest file.
    fn instruction(offset: u32) -> u32 {
        offset.wrapping_mul(0x9e37_79b9) >> 3
    }

    /// A record of the block of a key, with something in each list, whose home is so far from where
    /// it is in the guest file.
    fn record(key: u32, base: u64, seed: &mut u64) -> Vec<u8> {
        let offset = key & !PLAIN;
        let mut lists = Lists::default();
        let mut instructions = 0;
        let mut from = 0u64;
        for _ in 0..1 + next(seed) % 3 {
            let count = 1 + next(seed) % 5;
            lists.run(RunOf { from, count });
            let first = u64::from(offset).wrapping_add(from) as u32;
            lists.extend(record::WORDS, (0..count).map(|n| instruction(first + 4 * n)));
            instructions += count;
            // Forward, or back to the beginning of the file.
            from = match next(seed) % 2 {
                0 => from.wrapping_add(u64::from(4 * count + 8)),
                _ => u64::from(offset).wrapping_neg(),
            };
        }
        // Places of eight bytes each, in ascending order.
        let (mut at, mut code) = (0, Vec::new());
        let mut place = |words: u32| {
            let here = at;
            at += 8 * words;
            here
        };
        for n in 0..next(seed) % 4 {
            let (site, id) = (place(1) + 4 * (n % 2), place(1));
            let to = u64::from(16 * (next(seed) % 40)).wrapping_sub(offset.into());
            let (plain, linked) = (next(seed).is_multiple_of(4), next(seed).is_multiple_of(3));
            let site = (n != 2).then_some(site);
            lists.exit(ExitOf { to, site, id, plain, linked });
        }
        lists.extend(record::FAULTS, [place(1), 0]);
        lists.extend(record::ALONE, [place(1), next(seed) % instructions]);
        lists.extend(record::RELATIVE, [place(1)]);
        lists.extend(record::BEFORE, [place(1)]);
        lists.extend(record::SLOWS, [place(1) + 3, next(seed) % instructions]);
        code.resize(at as usize + 1 + next(seed) as usize % 20, 7);
        let bytes = lists.write(base.wrapping_add(offset.into()), next(seed) as u8 & 7, &code);
        let read = Record::read(&bytes).expect("a record");
        let mut code = code.clone();
        for exit in read.exits() {
            let Some(site) = exit.site.filter(|_| !exit.linked) else { continue };
            set(&mut code, site, (exit.id.wrapping_sub(1)).wrapping_sub(site + 4)).expect("inside");
        }
        lists.write(base.wrapping_add(offset.into()), read.groups, &code)
    }

    fn records(seed: &mut u64, base: u64) -> Vec<(u32, Vec<u8>)> {
        let keys = (0..40).filter(|n| n % 3 != 2).flat_map(|n| [16 * n, (16 * n) | PLAIN]);
        let keys: Vec<u32> = keys.filter(|key| key & PLAIN == 0 || key % 5 == 0).collect();
        keys.into_iter().map(|key| (key, record(key, base, seed))).collect()
    }

    fn image(list: &[(u32, Vec<u8>)]) -> Image {
        let bytes = Arc::new(write(list.iter().map(|(key, record)| (*key, &record[..]))));
        assert!(bytes.len() <= HEAD_BYTES + list.iter().map(|r| cost(&r.1)).sum::<usize>());
        let len = bytes.len();
        Image::read(&bytes, 0..len).expect("an image")
    }

    #[test]
    fn an_image_gives_back_the_records_that_it_was_made_of() {
        for seed in 1..20 {
            let list = records(&mut u64::clone(&seed), 0);
            let image = image(&list);
            assert!(image.blocks().map(|block| block.key).eq(list.iter().map(|block| block.0)));
            for (key, record) in &list {
                assert_eq!(image.record(*key).as_ref(), Some(record), "block {key:x}");
                assert!(image.record(key + 4).is_none() && image.find(key + 4).is_none());
            }
            let again = write(list.iter().rev().map(|(key, record)| (*key, &record[..])));
            assert_eq!(again[..], image.bytes[..], "the order of records does not count");
        }
    }

    #[test]
    fn exits_lead_to_the_blocks_of_the_image() {
        let (mut linked, mut left) = (0, 0);
        for seed in 1..20 {
            let image = image(&records(&mut u64::clone(&seed), 0));
            for exit in image.exits() {
                let Some(site) = exit.site.filter(|_| !exit.linked) else { continue };
                let to = get(image.code(), site).expect("inside").wrapping_add(site + 4);
                let block = image.find(exit.to as u32 | u32::from(exit.plain));
                assert_eq!(to, block.map_or(exit.id - 1, |block| block.start));
                *if block.is_some() { &mut linked } else { &mut left } += 1;
            }
        }
        assert!(linked > 50 && left > 50, "{linked} linked, {left} not");
    }

    #[test]
    fn slow_ways_are_found_by_where_their_calls_return_to() {
        let list = records(&mut 9, 0);
        let image = image(&list);
        for [back, place] in image.list::<2>(SLOWS) {
            assert_eq!(image.slow(back), Some(place));
            assert_eq!((image.slow(back - 1), image.slow(back + 1)), (None, None));
            let (offset, word) = image.instruction(back, place).expect("an instruction");
            assert_eq!(word, instruction(offset));
        }
        assert_eq!(image.count(SLOWS), list.len());
    }

    /// The same blocks from processes in which the guest file was elsewhere.
    #[test]
    fn constants_move_with_the_guest_file() {
        let at = |base| image(&records(&mut 5, base));
        let (home, elsewhere) = (at(0), at(0x5_0000_3000));
        for site in home.relative() {
            let long = |image: &Image| {
                let [low, high] = [0, 4].map(|n| get(image.code(), site + n).expect("inside"));
                u64::from(low) | u64::from(high) << 32
            };
            assert_eq!(long(&home).wrapping_sub(0x5_0000_3000), long(&elsewhere));
        }
        assert!(home.relative().eq(elsewhere.relative()) && home.relative().count() > 10);
    }

    #[test]
    fn blocks_of_other_instructions_are_not_in_one_image() {
        let mut list = records(&mut 3, 0);
        let all = image(&list).blocks().len();
        // The plain code of a block that is before it, made of another first instruction; words
        // stand behind the runs.
        let n = list.iter().position(|(key, _)| key & PLAIN != 0).expect("plain code");
        let (key, record) = &mut list[n];
        let runs = get(record, 12).expect("a count") as usize;
        record[4 * (14 + 3 * runs)] ^= 1;
        let (key, wanted) = (*key, record.clone());
        let last = image(&list);
        assert!(last.find(key).is_none() && last.find(key & !PLAIN).is_some());
        assert_eq!(last.blocks().len(), all - 1);
        list.swap(0, n);
        let first = image(&list);
        assert_eq!(first.record(key), Some(wanted), "the first one stays");
        assert!(first.find(key & !PLAIN).is_none());
    }

    #[test]
    fn an_image_with_any_word_replaced_is_refused_or_whole() {
        let whole = image(&records(&mut 7, 0));
        let (mut taken, mut refused) = (0, 0);
        for place in (0..whole.len() - whole.code().len()).step_by(4) {
            for value in [0u32, 1, 2, 7, 16, 0x7fff_fff0, 0xffff_ffff, 1 << 30, 0x0001_ffff] {
                let mut bytes = whole.bytes.to_vec();
                bytes[place..place + 4].copy_from_slice(&value.to_le_bytes());
                let bytes = Arc::new(bytes);
                let len = bytes.len();
                let Some(image) = Image::read(&bytes, 0..len) else {
                    refused += 1;
                    continue;
                };
                taken += 1;
                image.blocks().for_each(|block| drop(image.record(block.key)));
                for [back, _] in image.list::<2>(SLOWS) {
                    let place = image.slow(back).expect("it is sorted");
                    assert!(image.instruction(back, place).is_some());
                }
                let words: usize = image.texts().map(|text| text.words.len() / 4).sum();
                assert_eq!(words, image.count(WORDS));
            }
        }
        assert!(taken > 1000 && refused > 1000, "{taken} taken, {refused} refused");
        for len in 0..whole.len() {
            assert!(Image::read(&whole.bytes, 0..len).is_none());
        }
    }
}
