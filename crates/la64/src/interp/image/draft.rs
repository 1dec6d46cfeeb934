//! Images while they are written, from records.

use super::super::record::{Record, add_long, set};
use super::{
    ALIGNMENT, ALONE, BEFORE, BLOCKS, BlockOf, EXITS, FAULTS, HEAD, LEN_MAX, LISTS, NO_SITE, OWN,
    PLAIN, RELATIVE, RUNS, SIZES, SLOWS, TEXTS, TO_PLAIN, WORDS,
};
use littoral_base::mutant;
use std::collections::BTreeMap;

/// An image while it is written.
#[derive(Default)]
struct Draft {
    lists: [Vec<u32>; LISTS],
    code: Vec<u8>,
}

/// What a record takes in an image, at most: bytes.
pub(in super::super) fn cost(bytes: &[u8]) -> usize {
    let runs = Record::read(bytes).map_or(0, |record| record.runs().count());
    // A block's entry, its code up to a whole place, and what a run and a text have more than a run
    // of a record.
    bytes.len() + 32 + 8 * runs
}

/// The image of records, each with the key of its block. Of those that disagree about an
/// instruction the first one is in it.
pub(in super::super) fn write<'a>(records: impl Iterator<Item = (u32, &'a [u8])>) -> Vec<u8> {
    let mut words = Words::default();
    let mut kept: Vec<(u32, Record<'a>)> = Vec::new();
    for (key, bytes) in records {
        if let Some(record) = Record::read(bytes)
            && fits(key, &record)
            && words.take(key, &record)
        {
            kept.push((key, record));
        }
    }
    kept.sort_by_key(|block| block.0);
    kept.dedup_by_key(|block| block.0);
    let mut draft = Draft::default();
    draft.texts(&words);
    let starts: Vec<(u32, u32)> = draft.begin(&kept);
    for (&(key, start), (_, record)) in starts.iter().zip(&kept) {
        draft.add(key, start, record, &starts);
    }
    draft.finish()
}

/// Whether an image can have the block of a record.
fn fits(key: u32, record: &Record<'_>) -> bool {
    let offset = u64::from(key & !PLAIN);
    let inside = |at: u64| at < 1 << 32 && at.is_multiple_of(4);
    let is_own = record.runs().next().is_some_and(|run| run.from == 0);
    let runs_fit = record.runs().all(|run| {
        let first = offset.wrapping_add(run.from);
        inside(first) && inside(first + 4 * u64::from(run.count - 1))
    });
    let exits_fit = record.exits().all(|exit| inside(offset.wrapping_add(exit.to)));
    is_own && key & 2 == 0 && runs_fit && exits_fit && is_inside(record)
}

/// Instructions in a page of a guest file.
const PAGE: u32 = 1024;

/// Instructions of an image, by the pages of the guest file that they are in.
#[derive(Default)]
struct Words(BTreeMap<u32, Box<[Option<u32>; PAGE as usize]>>);

impl Words {
    /// Adds a record's instructions, unless one is another than is here.
    fn take(&mut self, key: u32, record: &Record<'_>) -> bool {
        let agree = |here: &mut Option<u32>, word| here.is_none_or(|here| here == word);
        let all = self.each(key, record, agree);
        (all || mutant!("la64_image_of_two_programs"))
            && self.each(key, record, |here, word| {
                *here = Some(word);
                true
            })
    }

    /// Whether `f` says so of the places of all of a record's instructions.
    fn each(
        &mut self,
        key: u32,
        record: &Record<'_>,
        f: impl Fn(&mut Option<u32>, u32) -> bool,
    ) -> bool {
        let mut words = record.words();
        record.runs().all(|run| {
            let mut at = (u64::from(key & !PLAIN).wrapping_add(run.from) / 4) as u32;
            let end = at + run.count;
            while at < end {
                let (page, first) = (at / PAGE, at % PAGE);
                let count = (end - at).min(PAGE - first);
                let page = self.0.entry(page).or_insert_with(|| Box::new([None; PAGE as usize]));
                let places = &mut page[first as usize..(first + count) as usize];
                if !places.iter_mut().zip(&mut words).all(|(place, word)| f(place, word)) {
                    return false;
                }
                at += count;
            }
            true
        })
    }

    /// All of them with their offsets, in order.
    fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.iter().flat_map(|(page, words)| {
            let offsets = (page * PAGE..).map(|at| 4 * at);
            words.iter().zip(offsets).filter_map(|(word, offset)| Some((offset, (*word)?)))
        })
    }
}

/// Whether all places of a record are inside its code.
fn is_inside(record: &Record<'_>) -> bool {
    let len = record.code().len();
    let instructions = record.words().len();
    let has = |at: u32, room: usize| (at as usize).checked_add(room).is_some_and(|end| end <= len);
    len < LEN_MAX as usize
        && record.exits().all(|exit| exit.site.is_none_or(|site| has(site, 4)) && has(exit.id, 4))
        && record.faults().all(|[at, landing]| has(at, 1) && has(landing, 1))
        && record.slows().all(|[back, at]| has(back, 0) && (at as usize) < instructions)
        && record.alone().all(|[site, at]| has(site, 8) && (at as usize) < instructions)
        && record.relative().all(|site| has(site, 8))
        && record.before().all(|site| has(site, 4))
}

impl Draft {
    /// All instructions.
    fn texts(&mut self, words: &Words) {
        let mut behind = None;
        for (n, (offset, word)) in words.iter().enumerate() {
            if behind != Some(offset) {
                self.lists[TEXTS].extend([offset, 0, n as u32]);
            }
            let count = self.lists[TEXTS].len() - 2;
            self.lists[TEXTS][count] += 1;
            self.lists[WORDS].push(word);
            behind = offset.checked_add(4);
        }
    }

    /// Gives blocks their places: keys and where code begins.
    fn begin(&mut self, kept: &[(u32, Record<'_>)]) -> Vec<(u32, u32)> {
        let mut start = 0;
        let place = |(key, record): &(u32, Record<'_>)| {
            let here = (*key, start as u32);
            start = (start + record.code().len()).next_multiple_of(ALIGNMENT);
            here
        };
        kept.iter().map(place).collect()
    }

    /// Adds a block.
    fn add(&mut self, key: u32, start: u32, record: &Record<'_>, starts: &[(u32, u32)]) {
        let offset = u64::from(key & !PLAIN);
        let first_run = (self.lists[RUNS].len() / SIZES[RUNS]) as u32;
        let len = record.code().len() as u32;
        let block = BlockOf { key, start, len, groups: record.groups, first_run };
        self.lists[BLOCKS].extend(block.words());
        for run in record.runs() {
            self.lists[RUNS].extend([offset.wrapping_add(run.from) as u32, run.count]);
        }
        let mut code = record.code().to_vec();
        // What the constants would be if the guest file began at address 0.
        let moved = record.moved(offset);
        let relative = sorted(record.relative().map(|site| [site]));
        for &[site] in &relative {
            let _ = add_long(&mut code, site, moved);
        }
        for exit in record.exits() {
            let to = offset.wrapping_add(exit.to) as u32;
            let flags = if exit.plain { TO_PLAIN } else { 0 } | if exit.linked { OWN } else { 0 };
            let target = to | if exit.plain { PLAIN } else { 0 };
            if let Some(site) = exit.site.filter(|_| !exit.linked)
                && !mutant!("la64_image_links_left_out")
                && let Ok(n) = starts.binary_search_by_key(&target, |block| block.0)
            {
                let to = starts[n].1.wrapping_sub(start + site + 4);
                let _ = set(&mut code, site, to);
            }
            let site = exit.site.map_or(NO_SITE, |site| start + site);
            self.lists[EXITS].extend([to, site, (start + exit.id) | flags]);
        }
        let pair = |[at, landing]: [u32; 2]| [start + at, start + landing];
        self.lists[FAULTS].extend(record.faults().flat_map(pair));
        let placed = |[at, place]: [u32; 2]| [start + at, place];
        self.lists[SLOWS].extend(record.slows().flat_map(placed));
        self.lists[ALONE].extend(sorted(record.alone()).into_iter().flat_map(placed));
        self.lists[RELATIVE].extend(relative.iter().map(|[site]| start + site));
        let before = sorted(record.before().map(|site| [site]));
        self.lists[BEFORE].extend(before.iter().map(|[site]| start + site));
        self.code.resize(start as usize, 0);
        self.code.extend_from_slice(&code);
    }

    fn finish(mut self) -> Vec<u8> {
        self.code.resize(self.code.len().next_multiple_of(ALIGNMENT), 0);
        let counts = self.lists.iter().zip(SIZES).map(|(list, size)| (list.len() / size) as u32);
        let head: Vec<u32> = counts.chain([self.code.len() as u32]).collect();
        let words: usize = self.lists.iter().map(Vec::len).sum();
        let mut bytes = Vec::with_capacity(4 * (HEAD + words) + self.code.len());
        for list in [head].iter().chain(&self.lists) {
            list.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        }
        bytes.extend_from_slice(&self.code);
        bytes
    }
}

fn sorted<const N: usize>(list: impl Iterator<Item = [u32; N]>) -> Vec<[u32; N]> {
    let mut list: Vec<[u32; N]> = list.collect();
    list.sort_unstable();
    list
}
