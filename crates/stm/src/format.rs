//! The bytes of a pool: superblock, frontier lines, slab table (docs/design/stm.md has the
//! picture).
//!
//! ```text
//! 0            superblock, 256 bytes, CRC32C in its last four
//! frontier     one 256-byte line per thread slot: frontier, active, 0, 0, dead clocks x 28
//! table        one 64-byte entry per slab: tag, words of payload, CRC32C salted with its index
//! data         slabs of objects; an object is two slots of {stamp, payload words}
//! ```
//!
//! - Everything is little-endian words; the superblock is written last at creation, its first word
//!   after the others, so a pool whose creation was cut short lacks that and is named as such.
//! - A slab entry is durable before any object of the slab is handed out. A slab given back has its
//!   entry marked released by one word; its bytes are zeroed before the next entry is written.
//! - Clocks in a frontier line carry check bits, salted with slot and kind; every word of a line is
//!   one of few legal ones, so a flipped bit is refused.
//! - Format version 2 is the only one this build reads; another is refused by number.

use littoral_base::codec;
use littoral_device::memory::{Domain, LINE_BYTES, MEDIA_LINE_BYTES};
use std::sync::atomic::Ordering::Relaxed;

use crate::error::{Error, Kind, Result, device};
use crate::record::{Record, WORDS_MAX};
use crate::root::{ROOTS_MAX, Root};
use crate::word::{CLOCK_MAX, CLOCK_SHIFT, THREADS_MAX, check};

const _: () = assert!(cfg!(target_endian = "little"), "pools are little-endian");

/// "LITSTM" and two zero bytes.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"LITSTM\0\0");
/// The format version this build reads and writes.
pub const VERSION: u32 = 2;
const SUPER_BYTES: usize = 256;
/// Dead clocks a frontier line holds.
pub(crate) const DEAD_MAX: usize = 28;
const DEAD_WORD: usize = 4;
/// A thread slot's second word while a transaction of it may be under way.
const ACTIVE: u64 = u64::from_le_bytes(*b"ACTIVE\x5a\xa5");
const TYPED: u64 = 1 << 32;
const RELEASED: u64 = 1 << 33;

/// What a new pool is made of.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Thread slots, 1 to [`THREADS_MAX`].
    pub threads_max: usize,
    /// Bytes of a slab, a power of two from 256 on; `None` takes a 1024th of the pool, 4 KiB to 4
    /// MiB.
    pub slab_bytes: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options { threads_max: 64, slab_bytes: None }
    }
}

/// Where a pool's parts lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) bytes: usize,
    pub(crate) threads: usize,
    pub(crate) slab_shift: u32,
    pub(crate) slabs: usize,
    pub(crate) table: usize,
    pub(crate) data: usize,
}

impl Layout {
    pub(crate) fn of(bytes: usize, options: &Options) -> Result<Layout> {
        let usage = |text: String| Err(Error::new(Kind::Usage, text));
        let threads = options.threads_max;
        if !(1..=THREADS_MAX).contains(&threads) {
            return usage(format!("threads_max = {threads}; legal are 1 to {THREADS_MAX}"));
        }
        let fit = (bytes / 1024).next_power_of_two().clamp(4 << 10, 4 << 20);
        let slab = options.slab_bytes.unwrap_or(fit);
        if !slab.is_power_of_two() || !(256..=64 << 20).contains(&slab) {
            return usage(format!("slab_bytes = {slab}; legal are powers of two, 256 to 64 MiB"));
        }
        let table = SUPER_BYTES + threads * MEDIA_LINE_BYTES;
        let room = bytes.saturating_sub(table + slab.min(4096));
        let slabs = room / (slab + LINE_BYTES);
        if slabs < 2 {
            let least = table + slab.min(4096) + 2 * (slab + LINE_BYTES);
            return usage(format!("{bytes} bytes hold no pool; at least {least} are needed"));
        }
        let data = (table + slabs * LINE_BYTES).next_multiple_of(slab.min(4096));
        Ok(Layout { bytes, threads, slab_shift: slab.trailing_zeros(), slabs, table, data })
    }

    pub(crate) fn slab_bytes(&self) -> usize {
        1 << self.slab_shift
    }
    /// Slabs from the first on that hold named roots: room for [`ROOTS_MAX`] names where that takes
    /// no more than an eighth of the pool.
    pub(crate) fn root_slabs(&self) -> usize {
        let wanted = (ROOTS_MAX * object_bytes(Root::WORDS)).div_ceil(self.slab_bytes());
        wanted.clamp(1, (self.slabs / 8).max(1))
    }
    /// Names the pool has room for.
    pub(crate) fn roots_max(&self) -> usize {
        (self.root_slabs() * (self.slab_bytes() / object_bytes(Root::WORDS))).min(ROOTS_MAX)
    }
    /// The slab that holds offset `at`.
    pub(crate) fn slab_of(&self, at: usize) -> usize {
        (at - self.data) >> self.slab_shift
    }
    pub(crate) fn slab_offset(&self, slab: usize) -> usize {
        self.data + (slab << self.slab_shift)
    }
    pub(crate) fn frontier(&self, tid: usize) -> usize {
        SUPER_BYTES + tid * MEDIA_LINE_BYTES
    }
    fn entry(&self, slab: usize) -> usize {
        self.table + slab * LINE_BYTES
    }

    fn encode(&self) -> [u8; SUPER_BYTES] {
        let mut w = codec::Writer::new();
        w.u64(MAGIC).u32(VERSION).u32(0).u64(self.bytes as u64);
        w.u64(self.slab_bytes() as u64).u64(self.slabs as u64).u64(self.threads as u64);
        w.u64(self.table as u64).u64(self.data as u64).pad_to(SUPER_BYTES);
        let mut block: [u8; SUPER_BYTES] =
            w.finish().try_into().expect("invariant: the superblock fits its block");
        codec::seal(&mut block, 0);
        block
    }

    /// Writes the superblock; the rest of the pool is zero and durable already. Its first word
    /// comes last: without that there is no pool.
    pub(crate) fn write<D: Domain>(&self, domain: &D) -> Result<()> {
        let block = self.encode();
        let (words, _) = block.as_chunks::<8>();
        for part in [1..words.len(), 0..1] {
            for i in part {
                domain.store(8 * i, u64::from_le_bytes(words[i]), Relaxed);
            }
            domain.write_back(0, SUPER_BYTES);
            domain.fence().map_err(device("write the superblock"))?;
        }
        Ok(())
    }

    /// Reads and checks the superblock.
    pub(crate) fn read<D: Domain>(domain: &D) -> Result<Layout> {
        let bad = |kind, text: String| Err(Error::new(kind, text));
        if domain.len() < SUPER_BYTES {
            return bad(Kind::Foreign, format!("{} bytes are too few for a pool", domain.len()));
        }
        let block = superblock(domain);
        let mut r = codec::Reader::new(&block);
        let mut field = || r.u64().expect("invariant: the superblock holds its fields");
        let (magic, version) = (field(), field() as u32);
        if magic != MAGIC {
            let is_unmade = magic == 0;
            let why = match is_unmade {
                true => "its creation was cut short; fill it with zeros and make it anew",
                false => "another program's file",
            };
            return bad(Kind::Foreign, format!("no pool of littoral: {why}; nothing changed"));
        }
        if version != VERSION {
            let text = format!(
                "pool format {version}; this build reads format {VERSION}: read the pool with the \
                 littoral that wrote it (`heap dump` prints it) and fill a new one; nothing changed"
            );
            return bad(Kind::Unsupported, text);
        }
        if codec::unseal(&block, 0).is_none() {
            return bad(Kind::Corrupt, "offset 0: the superblock's checksum is wrong".to_owned());
        }
        let (bytes, slab, slabs, threads) = (field(), field(), field(), field());
        let options = Options { threads_max: threads as usize, slab_bytes: Some(slab as usize) };
        let layout = Layout::of(bytes as usize, &options)
            .map_err(|e| Error::with_source(Kind::Corrupt, "offset 0: superblock", e))?;
        if layout.slabs as u64 != slabs || field() != layout.table as u64 {
            return bad(Kind::Corrupt, "offset 0: the superblock contradicts itself".to_owned());
        }
        if domain.len() != layout.bytes {
            let what_to_do = match domain.len() > layout.bytes {
                true => "cut the file to the pool's bytes",
                false => "its end is lost: take a copy of it",
            };
            let found = domain.len();
            let text = format!("the pool has {bytes} bytes, its file {found}; {what_to_do}");
            return bad(Kind::Corrupt, text);
        }
        Ok(layout)
    }
}

fn superblock<D: Domain>(domain: &D) -> [u8; SUPER_BYTES] {
    let mut block = [0; SUPER_BYTES];
    for (i, chunk) in block.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&domain.word(8 * i, Relaxed).to_le_bytes());
    }
    block
}

/// The first 64 bytes of a thread slot's line: frontier, active, -, -, dead clocks.
pub(crate) type Line = [u64; LINE_BYTES / 8];

/// A thread slot's persistent line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frontier {
    /// Every clock up to this one, dead ones apart, is committed.
    pub(crate) clock: u64,
    /// Whether a transaction of this slot may have been under way.
    pub(crate) active: bool,
    /// Clocks up to `clock` whose transaction never committed.
    pub(crate) dead: Vec<u64>,
}

/// What a word of a frontier line says a clock of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockOf {
    Frontier,
    Dead,
}

impl ClockOf {
    /// The word for `clock`; zero for clock zero, which every line begins with.
    #[inline(always)]
    pub(crate) fn word(self, tid: usize, clock: u64) -> u64 {
        if clock == 0 {
            return 0;
        }
        let salted = clock | (tid as u64) << 46 | (self as u64) << 53;
        clock << CLOCK_SHIFT | check(salted, CLOCK_SHIFT)
    }

    /// The clock of a word, if it is a legal one.
    pub(crate) fn clock(self, tid: usize, word: u64) -> Option<u64> {
        let clock = word >> CLOCK_SHIFT;
        (self.word(tid, clock) == word).then_some(clock)
    }
}

impl Frontier {
    pub(crate) fn read<D: Domain>(domain: &D, layout: &Layout, tid: usize) -> Result<Frontier> {
        let at = layout.frontier(tid);
        Self::of_words(tid, |i| domain.word(at + 8 * i, Relaxed)).ok_or_else(|| {
            let text = format!(
                "offset {at}: the frontier line of thread slot {tid} is damaged; nothing changed"
            );
            Error::new(Kind::Corrupt, text)
        })
    }

    fn of_words(tid: usize, word: impl Fn(usize) -> u64) -> Option<Frontier> {
        let clock = ClockOf::Frontier.clock(tid, word(0))?;
        let active = match word(1) {
            0 => false,
            ACTIVE => true,
            _ => return None,
        };
        let dead = (DEAD_WORD..DEAD_WORD + DEAD_MAX).map(|i| ClockOf::Dead.clock(tid, word(i)));
        let dead: Vec<u64> = dead.collect::<Option<Vec<u64>>>()?;
        let dead: Vec<u64> = dead.into_iter().filter(|&d| d != 0).collect();
        let is_sound = word(2) == 0 && word(3) == 0 && dead.iter().all(|&d| d <= clock + 1);
        is_sound.then_some(Frontier { clock, active, dead })
    }

    /// The clock of the transaction that a crash may have cut short; none where the slot's clock
    /// has ended, since it is not handed out then.
    pub(crate) fn unfinished(&self) -> Option<u64> {
        (self.active && self.clock < CLOCK_MAX).then_some(self.clock + 1)
    }

    pub(crate) fn write_clock<D: Domain>(domain: &D, layout: &Layout, tid: usize, clock: u64) {
        domain.store(layout.frontier(tid), ClockOf::Frontier.word(tid, clock), Relaxed);
        domain.write_back(layout.frontier(tid), 8);
    }

    /// The line that holds the frontier; all but the frontier stays as it is while the slot is in
    /// use.
    pub(crate) fn line<D: Domain>(domain: &D, layout: &Layout, tid: usize) -> Line {
        let mut line = Line::default();
        domain.load_words(layout.frontier(tid), &mut line);
        line
    }

    pub(crate) fn write_active<D: Domain>(domain: &D, layout: &Layout, tid: usize, active: bool) {
        domain.store(layout.frontier(tid) + 8, if active { ACTIVE } else { 0 }, Relaxed);
        domain.write_back(layout.frontier(tid) + 8, 8);
    }

    /// Adds `clock` to the dead ones in the first free word.
    pub(crate) fn write_dead<D: Domain>(domain: &D, layout: &Layout, tid: usize, clock: u64) {
        let at = |i: usize| layout.frontier(tid) + 8 * (DEAD_WORD + i);
        let free = (0..DEAD_MAX).find(|&i| domain.word(at(i), Relaxed) == 0);
        let free = free.expect("invariant: a full list was emptied by a scan first");
        domain.store(at(free), ClockOf::Dead.word(tid, clock), Relaxed);
        domain.write_back(at(free), 8);
    }

    pub(crate) fn clear_dead<D: Domain>(domain: &D, layout: &Layout, tid: usize) {
        let at = layout.frontier(tid) + 8 * DEAD_WORD;
        for i in 0..DEAD_MAX {
            domain.store(at + 8 * i, 0, Relaxed);
        }
        domain.write_back(at, 8 * DEAD_MAX);
    }
}

/// What a slab holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlabEntry {
    pub(crate) tag: u64,
    pub(crate) words: usize,
}

/// What a slab-table entry says.
pub(crate) enum EntryState {
    Unused,
    Typed(SlabEntry),
    /// Given back by its type; the slab's bytes mean nothing.
    Released,
    Damaged,
}

impl SlabEntry {
    pub(crate) fn of<T: Record>() -> SlabEntry {
        const { assert!(T::WORDS >= 1 && T::WORDS <= WORDS_MAX, "a record has 1 to 255 words") };
        SlabEntry { tag: T::TAG, words: T::WORDS }
    }

    fn crc(&self, slab: usize) -> u64 {
        let mut w = codec::Writer::new();
        w.u64(slab as u64).u64(self.tag).u64(self.words as u64);
        u64::from(codec::crc(&w.finish()))
    }

    pub(crate) fn write<D: Domain>(&self, domain: &D, layout: &Layout, slab: usize) -> Result<()> {
        let at = layout.entry(slab);
        domain.store_words(at, &[self.tag, self.words as u64, self.crc(slab) | TYPED]);
        domain.write_back(at, LINE_BYTES);
        domain.fence().map_err(device("claim a slab"))
    }

    /// Gives the slab back: one word, so no crash shows half of it.
    pub(crate) fn release<D: Domain>(
        &self,
        domain: &D,
        layout: &Layout,
        slab: usize,
    ) -> Result<()> {
        let at = layout.entry(slab) + 16;
        domain.store(at, self.crc(slab) | RELEASED, Relaxed);
        domain.write_back(at, 8);
        domain.fence().map_err(device("give a slab back"))
    }

    pub(crate) fn read<D: Domain>(domain: &D, layout: &Layout, slab: usize) -> EntryState {
        let mut words = [0; 3];
        domain.load_words(layout.entry(slab), &mut words);
        let entry = SlabEntry { tag: words[0], words: words[1] as usize };
        match words {
            [0, 0, 0] => EntryState::Unused,
            [_, n, crc] if n <= WORDS_MAX as u64 && n > 0 => match crc ^ entry.crc(slab) {
                TYPED => EntryState::Typed(entry),
                RELEASED => EntryState::Released,
                _ => EntryState::Damaged,
            },
            _ => EntryState::Damaged,
        }
    }
}

/// Bytes of one slot of an object with `words` of payload: both slots share a line where they can,
/// otherwise each has whole lines of its own, so that a commit flushes one slot only.
pub(crate) const fn slot_bytes(words: usize) -> usize {
    if words <= 3 { LINE_BYTES / 2 } else { (8 * (words + 1)).next_multiple_of(LINE_BYTES) }
}

/// Bytes of an object with `words` of payload.
pub(crate) const fn object_bytes(words: usize) -> usize {
    2 * slot_bytes(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_flipped_bit_of_a_frontier_line_is_a_legal_line() {
        for tid in 0..THREADS_MAX {
            for clock in [0, 77, CLOCK_MAX] {
                let mut line = [0; 32];
                (line[0], line[1]) = (ClockOf::Frontier.word(tid, clock), ACTIVE);
                if clock > 0 {
                    line[DEAD_WORD] = ClockOf::Dead.word(tid, clock);
                }
                assert!(Frontier::of_words(tid, |i| line[i]).is_some());
                for bit in 0..32 * 64 {
                    let flipped = |i: usize| line[i] ^ u64::from(i == bit / 64) << (bit % 64);
                    assert_eq!(Frontier::of_words(tid, flipped), None, "{tid} {clock} {bit}");
                }
            }
        }
    }

    #[test]
    fn a_clock_of_one_slot_or_kind_is_none_of_another() {
        let word = ClockOf::Frontier.word(3, 1000);
        assert_eq!(ClockOf::Frontier.clock(3, word), Some(1000));
        assert_eq!((ClockOf::Dead.clock(3, word), ClockOf::Frontier.clock(4, word)), (None, None));
    }

    #[test]
    fn a_pool_of_a_mebibyte_has_room_for_every_name() {
        let of = |bytes| Layout::of(bytes, &Options::default()).unwrap().roots_max();
        assert_eq!((of(1 << 20), of(1 << 30)), (ROOTS_MAX, ROOTS_MAX));
    }
}
