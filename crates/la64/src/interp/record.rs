//! A translated block as bytes that another process can use: how it travels from the translator to
//! the cache on disk and, without its image, back.
//!
//! - A record is 32-bit words, then the code. It holds the block's instructions, so its reader
//!   compares them with memory, and each place of the code that depends on where the code or the
//!   guest's program is (`docs/design/la64-jit.md` has the table).
//! - Offsets are from the beginning of the code. Exits to other blocks are not linked. Checked by
//!   `links_to_other_blocks_are_not_kept_and_links_to_itself_are`.
//! - [`Record::read`] believes no number: a record has exactly the length that its counts give, and
//!   no list is longer than the record. Checked by `damaged_records_are_refused_or_whole`.

#![cfg_attr(
    not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")),
    allow(dead_code, reason = "without a translator nothing is kept")
)]

/// Words before the lists.
const HEAD: usize = 14;
/// The flags of an exit, above its offset.
const PLAIN: u32 = 1 << 30;
const LINKED: u32 = 1 << 31;
/// The site of an exit without one.
const NO_SITE: u32 = u32::MAX;

/// The lists of a record in their order, with the words of an element.
const LISTS: [usize; 8] = [3, 1, 4, 2, 2, 2, 1, 1];
/// Their numbers.
pub(super) const RUNS: usize = 0;
pub(super) const WORDS: usize = 1;
pub(super) const EXITS: usize = 2;
pub(super) const FAULTS: usize = 3;
pub(super) const SLOWS: usize = 4;
pub(super) const ALONE: usize = 5;
pub(super) const RELATIVE: usize = 6;
pub(super) const BEFORE: usize = 7;

/// A block's record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    /// Bits of the extensions whose instructions it has.
    pub(super) groups: u8,
    /// Where the block was.
    home: u64,
    lists: [&'a [u8]; 8],
    /// Its code, and some bytes up to a whole word.
    code: &'a [u8],
}

/// Behind each other in the guest's memory: where from the block's beginning, how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunOf {
    pub(super) from: u64,
    pub(super) count: u32,
}

/// An exit of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExitOf {
    /// From the block's beginning to the target.
    pub(super) to: u64,
    pub(super) site: Option<u32>,
    /// Where its number stands.
    pub(super) id: u32,
    pub(super) plain: bool,
    pub(super) linked: bool,
}

/// Word `n`.
fn word(bytes: &[u8], n: usize) -> u32 {
    let at = 4 * n;
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], n: usize) -> u64 {
    u64::from(word(bytes, n)) | u64::from(word(bytes, n + 1)) << 32
}

impl<'a> Record<'a> {
    /// A record, if these bytes are one.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Record<'a>> {
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
    pub(super) fn runs(&self) -> impl Iterator<Item = RunOf> + use<'a> {
        self.list::<3>(RUNS).map(|[low, high, count]| {
            let from = u64::from(low) | u64::from(high) << 32;
            RunOf { from, count }
        })
    }

    /// Its instructions.
    pub(super) fn words(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        self.lists[WORDS].as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
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
        self.list::<4>(EXITS).map(|[low, high, site, id]| ExitOf {
            to: u64::from(low) | u64::from(high) << 32,
            site: (site != NO_SITE).then_some(site),
            id: id & !(PLAIN | LINKED),
            plain: id & PLAIN != 0,
            linked: id & LINKED != 0,
        })
    }

    /// Instructions that may fault, and their landings.
    pub(super) fn faults(&self) -> impl Iterator<Item = [u32; 2]> + use<'a> {
        self.list(FAULTS)
    }

    /// Where calls of slow ways return to, and the places of their instructions.
    pub(super) fn slows(&self) -> impl Iterator<Item = [u32; 2]> + use<'a> {
        self.list(SLOWS)
    }

    /// Addresses of instructions for tier 0, and their places.
    pub(super) fn alone(&self) -> impl Iterator<Item = [u32; 2]> + use<'a> {
        self.list(ALONE)
    }

    /// Numbers that move with the guest's program.
    pub(super) fn relative(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.list::<1>(RELATIVE).map(|[site]| site)
    }

    /// Displacements that lead to routines, which stand in the code as offsets in the arena.
    pub(super) fn before(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.list::<1>(BEFORE).map(|[site]| site)
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

/// Replaces the four bytes of code at an offset by what `f` makes of them; `None` outside the code,
/// or if `f` says so.
#[inline]
pub(super) fn replace(code: &mut [u8], at: u32, f: impl FnOnce(u32) -> Option<u32>) -> Option<()> {
    let place = code.get_mut(at as usize..)?.first_chunk_mut()?;
    *place = f(u32::from_le_bytes(*place))?.to_le_bytes();
    Some(())
}

/// Adds to the eight bytes of code at an offset; `None` outside the code.
pub(super) fn add_long(code: &mut [u8], at: u32, more: u64) -> Option<()> {
    let sum = long(code.get(at as usize..(at as usize).checked_add(8)?)?, 0).wrapping_add(more);
    set(code, at, sum as u32)?;
    set(code, at + 4, (sum >> 32) as u32)
}

/// The parts of a record while it is written.
#[derive(Default)]
pub(super) struct Lists([Vec<u32>; 8]);

impl Lists {
    /// More of a list.
    pub(super) fn extend(&mut self, list: usize, words: impl IntoIterator<Item = u32>) {
        self.0[list].extend(words);
    }

    /// Instructions behind each other.
    pub(super) fn run(&mut self, run: RunOf) {
        self.0[RUNS].extend([run.from as u32, (run.from >> 32) as u32, run.count]);
    }

    /// An exit.
    pub(super) fn exit(&mut self, exit: ExitOf) {
        let ExitOf { to, site, id, plain, linked } = exit;
        let flags = if plain { PLAIN } else { 0 } | if linked { LINKED } else { 0 };
        let site = site.unwrap_or(NO_SITE);
        self.0[EXITS].extend([to as u32, (to >> 32) as u32, site, id | flags]);
    }

    /// The record of a block at `pc`.
    pub(super) fn write(&self, pc: u64, groups: u8, code: &[u8]) -> Vec<u8> {
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
