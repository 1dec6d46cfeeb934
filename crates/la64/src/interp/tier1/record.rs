//! A translated block as bytes that another process can use: the record of the cache on disk.
//!
//! - A record is 32-bit words, then the code. It holds the block's instructions, so its reader
//!   compares them with memory, and each place of the code that depends on where the code or the
//!   guest's program is (`docs/design/la64-jit.md` has the table).
//! - Offsets are from the beginning of the code. Exits to other blocks are not linked. Checked by
//!   `links_to_other_blocks_are_not_kept_and_links_to_itself_are`.
//! - [`Record::read`] believes no number: a record has exactly the length that its counts give, and
//!   no list is longer than the record. Checked by `damaged_records_are_refused_or_whole`.

use super::block::Decoded;
use super::parts::Parts;
use littoral_base::mutant;

/// Words before the lists.
const HEAD: usize = 14;
/// The flags of an exit, above its offset.
const PLAIN: u32 = 1 << 30;
const LINKED: u32 = 1 << 31;
/// The site of an exit without one.
const NO_SITE: u32 = u32::MAX;

/// The lists of a record in their order, with the words of an element.
const LISTS: [usize; 8] = [3, 1, 4, 2, 2, 2, 1, 1];

/// A block's record.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Record<'a> {
    /// Bits of the extensions whose instructions it has.
    pub(in super::super) groups: u8,
    /// Where the block was.
    home: u64,
    lists: [&'a [u8]; 8],
    /// Its code, and some bytes up to a whole word.
    code: &'a [u8],
}

/// Behind each other in the guest's memory: where from the block's beginning, how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct RunOf {
    pub(in super::super) from: u64,
    pub(in super::super) count: u32,
}

/// An exit of a record.
pub(super) struct ExitOf {
    /// From the block's beginning to the target.
    pub(super) to: u64,
    pub(super) site: Option<u32>,
    /// Where its number stands.
    pub(super) id: u32,
    pub(super) plain: bool,
    pub(super) linked: bool,
}

fn word(bytes: &[u8], n: usize) -> u32 {
    let at = 4 * n;
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], n: usize) -> u64 {
    u64::from(word(bytes, n)) | u64::from(word(bytes, n + 1)) << 32
}

impl<'a> Record<'a> {
    /// A record, if these bytes are one.
    pub(in super::super) fn read(bytes: &'a [u8]) -> Option<Record<'a>> {
        let (head, mut rest) = bytes.split_at_checked(4 * HEAD)?;
        let mut lists = [&rest[..0]; 8];
        for (n, words) in LISTS.into_iter().enumerate() {
            let len = u64::from(word(head, 3 + n)) * 4 * words as u64;
            (lists[n], rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        }
        let code_len = word(head, 1) as usize;
        let is_whole = word(head, 0) as usize == bytes.len()
            && code_len > 0
            && code_len.checked_next_multiple_of(4) == Some(rest.len());
        let record = Record {
            groups: word(head, 2) as u8,
            home: long(head, 12),
            lists,
            code: rest.get(..code_len)?,
        };
        let covered: u64 = record.runs().map(|run| u64::from(run.count)).sum();
        let instructions = record.words().len();
        let is_whole = is_whole && record.runs().all(|run| run.count > 0);
        (is_whole && instructions > 0 && covered == instructions as u64).then_some(record)
    }

    fn list<const N: usize>(&self, n: usize) -> impl Iterator<Item = [u32; N]> + use<'a, N> {
        debug_assert_eq!(LISTS[n], N);
        let elements = self.lists[n].chunks_exact(4 * N);
        elements.map(|bytes| {
            let mut list = [0; N];
            for (to, from) in list.iter_mut().zip(bytes.as_chunks().0) {
                *to = u32::from_le_bytes(*from);
            }
            list
        })
    }

    /// Where its instructions are.
    pub(in super::super) fn runs(&self) -> impl Iterator<Item = RunOf> + use<'a> {
        self.list::<3>(0).map(|[low, high, count]| {
            let from = u64::from(low) | u64::from(high) << 32;
            RunOf { from, count }
        })
    }

    /// Its instructions.
    pub(in super::super) fn words(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        self.lists[1].as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
    }

    /// The instruction of this place: from the block's beginning to it, and its word.
    pub(super) fn instruction(&self, at: u32) -> Option<(u64, u32)> {
        let mut left = at;
        for run in self.runs() {
            if left < run.count {
                let word = self.words().nth(at as usize)?;
                return Some((run.from.wrapping_add(4 * u64::from(left)), word));
            }
            left -= run.count;
        }
        None
    }

    pub(super) fn exits(&self) -> impl Iterator<Item = ExitOf> + use<'a> {
        self.list::<4>(2).map(|[low, high, site, id]| ExitOf {
            to: u64::from(low) | u64::from(high) << 32,
            site: (site != NO_SITE).then_some(site),
            id: id & !(PLAIN | LINKED),
            plain: id & PLAIN != 0,
            linked: id & LINKED != 0,
        })
    }

    /// Instructions that may fault, and their landings.
    pub(super) fn faults(&self) -> impl Iterator<Item = [u32; 2]> + use<'a> {
        self.list(3)
    }

    /// Where calls of slow ways return to, and the places of their instructions.
    pub(super) fn slows(&self) -> impl Iterator<Item = [u32; 2]> + use<'a> {
        self.list(4)
    }

    /// Addresses of instructions for tier 0, and their places.
    pub(super) fn alone(&self) -> impl Iterator<Item = [u32; 2]> + use<'a> {
        self.list(5)
    }

    /// Numbers that move with the guest's program.
    pub(super) fn relative(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.list::<1>(6).map(|[site]| site)
    }

    /// Displacements that lead to routines, which stand in the code as offsets in the arena.
    pub(super) fn before(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.list::<1>(7).map(|[site]| site)
    }

    /// How far the block is from where it was.
    pub(super) fn moved(&self, pc: u64) -> u64 {
        pc.wrapping_sub(self.home)
    }

    /// Its code.
    pub(super) fn code(&self) -> &'a [u8] {
        self.code
    }
}

/// Runs of instructions behind each other.
pub(in super::super) fn runs(list: &[Decoded]) -> Vec<RunOf> {
    let mut runs: Vec<RunOf> = Vec::new();
    for d in list {
        let from = d.pc.wrapping_sub(list[0].pc);
        match runs.last_mut() {
            Some(run) if run.from.wrapping_add(4 * u64::from(run.count)) == from => run.count += 1,
            _ => runs.push(RunOf { from, count: 1 }),
        }
    }
    runs
}

/// The four bytes of code at an offset become a number; `None` outside the code.
pub(super) fn set(code: &mut [u8], at: u32, number: u32) -> Option<()> {
    let place = code.get_mut(at as usize..(at as usize).checked_add(4)?)?;
    place.copy_from_slice(&number.to_le_bytes());
    Some(())
}

/// The four bytes of code at an offset; `None` outside the code.
pub(super) fn get(code: &[u8], at: u32) -> Option<u32> {
    let bytes = code.get(at as usize..(at as usize).checked_add(4)?)?;
    Some(word(bytes, 0))
}

/// Adds to the eight bytes of code at an offset; `None` outside the code.
pub(super) fn add_long(code: &mut [u8], at: u32, more: u64) -> Option<()> {
    let sum = long(code.get(at as usize..(at as usize).checked_add(8)?)?, 0).wrapping_add(more);
    set(code, at, sum as u32)?;
    set(code, at + 4, (sum >> 32) as u32)
}

/// The parts of a record while it is written.
#[derive(Default)]
struct Lists([Vec<u32>; 8]);

impl Parts {
    /// The block's record; `None` if its code is right only where it is.
    pub(super) fn record(&self, list: &[Decoded], groups: u8) -> Option<Vec<u8>> {
        if self.sites.fixed {
            return None;
        }
        assert_eq!(self.exits.len(), self.sites.exits.len(), "each exit has its number");
        let inside = |offset: usize| (offset - self.start) as u32;
        let mut code = self.bytes.clone();
        let mut lists = Lists::default();
        let pc = list[0].pc;
        for run in runs(list) {
            lists.0[0].extend([run.from as u32, (run.from >> 32) as u32, run.count]);
        }
        lists.0[1].extend(list.iter().map(|d| d.word));
        let mut sites = Vec::new();
        for (exit, &id) in self.exits.iter().zip(&self.sites.exits) {
            let site = exit.site.map(|site| site - self.start as u32);
            // Only a way to the block's own beginning stays.
            let leads_to = |site| Some(get(&code, site)?.wrapping_add(site + 4) as usize);
            let is_own = |site| leads_to(site).is_some_and(|to| to < code.len());
            let stays = |site| is_own(site) || mutant!("la64_stored_links_stay");
            let linked = exit.linked && site.is_none_or(stays);
            lists.exit(exit.target.wrapping_sub(pc), site, inside(id), (exit.plain, linked));
            set(&mut code, inside(id), 0)?;
            let Some(site) = site else { continue };
            sites.push(site as usize + self.start);
            if !linked {
                // To the instruction that loads the exit's number.
                set(&mut code, site, (inside(id) - 1).wrapping_sub(site + 4))?;
            }
        }
        let pair = |&(a, b): &(u32, u32)| [a - self.start as u32, b - self.start as u32];
        lists.0[3].extend(self.faults.iter().flat_map(pair));
        let slow = |s: &super::slow::Slow| [s.back - self.start as u32, s.before.into()];
        lists.0[4].extend(self.slows.iter().flat_map(slow));
        let alone = |&(at, n): &(usize, u16)| [inside(at), n.into()];
        lists.0[5].extend(self.sites.alone.iter().flat_map(alone));
        lists.0[6].extend(self.sites.relative.iter().map(|&at| inside(at)));
        for &at in self.before.iter().filter(|at| !sites.contains(at)) {
            let to = get(&code, inside(at))?.wrapping_add(at as u32 + 4);
            set(&mut code, inside(at), to)?;
            lists.0[7].push(inside(at));
        }
        Some(lists.write(pc, groups, &code))
    }
}

impl Lists {
    fn exit(&mut self, to: u64, site: Option<u32>, id: u32, (plain, linked): (bool, bool)) {
        let flags = if plain { PLAIN } else { 0 } | if linked { LINKED } else { 0 };
        let site = site.unwrap_or(NO_SITE);
        self.0[2].extend([to as u32, (to >> 32) as u32, site, id | flags]);
    }

    fn write(&self, pc: u64, groups: u8, code: &[u8]) -> Vec<u8> {
        let words: usize = self.0.iter().map(Vec::len).sum();
        let len = 4 * (HEAD + words) + code.len().next_multiple_of(4);
        let mut bytes = Vec::with_capacity(len);
        let mut put = |word: u32| bytes.extend_from_slice(&word.to_le_bytes());
        [len as u32, code.len() as u32, groups.into()].into_iter().for_each(&mut put);
        let counts = self.0.iter().zip(LISTS).map(|(list, words)| (list.len() / words) as u32);
        counts.for_each(&mut put);
        [0, pc as u32, (pc >> 32) as u32].into_iter().for_each(&mut put);
        self.0.iter().flatten().copied().for_each(&mut put);
        bytes.extend_from_slice(code);
        bytes.resize(len, 0);
        bytes
    }
}
