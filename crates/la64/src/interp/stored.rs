//! Translated code kept between processes: the files of the cache on disk as bytes, and what a
//! process has read and made of them. Reading and writing files is the owner's.
//!
//! One file has the code of one guest file. `docs/design/la64-jit.md` has its bytes. A checksum is
//! no signature: a user who may write the files may run code, so their owner keeps others out.
//!
//! Invariants
//! - No number of a file is believed before the whole file's checksum is right and the file is one
//!   of this engine, on this host, with these options. Checked by
//!   `a_file_damaged_anywhere_is_refused`, `files_of_others_are_refused`.
//! - A file that is taken has an index that lies inside it; what its records say is checked when
//!   they are read. Checked by `a_file_with_any_bytes_behind_a_right_checksum_is_read`.

#![cfg_attr(
    not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")),
    allow(dead_code, reason = "without a translator nothing is kept")
)]

use super::{Features, Limits};
use crate::memory::Window;
use littoral_base::codec::crc;
use littoral_base::mutant;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

const MAGIC: &[u8; 8] = b"LTRL64TC";
const VERSION: u32 = 1;
/// Bytes before the index.
const HEAD: usize = 80;
/// Where what the checksum covers begins.
const COVERED: usize = 16;
/// A file is written again if what it gains is at least this part of what was read of it.
const WORTH_WRITING: usize = 32;
/// Bytes of an entry of the index: a block's number, where its record is, the record's length.
const ENTRY: usize = 16;

/// Who made code, and for what: code of another engine, host, window or option differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maker {
    /// A hash of the engine's source, its compiler and its options.
    pub revision: u64,
    /// A hash of what the code relies on: the host's instructions, the window, the guest's
    /// machine, whether code counts.
    pub host: u64,
}

impl Maker {
    /// This engine, for programs in such a window. `None` where there is no translator.
    pub fn this(window: &Window, features: Features, limits: Limits) -> Option<Maker> {
        #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
        {
            let Features { lsx, lasx, lbt, v1_1 } = features;
            let mut facts = super::tier1::relied_on(window, !limits.uncounted);
            facts.extend([lsx, lasx, lbt, v1_1].map(u8::from));
            let revision = hash(env!("LA64_REVISION").as_bytes());
            Some(Maker { revision, host: hash(&facts) })
        }
        #[cfg(not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")))]
        {
            let _ = (window, features, limits);
            None
        }
    }
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Which guest file code was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity([u8; 32]);

impl Identity {
    /// That of a file with a build-id.
    pub fn of_build_id(id: &[u8]) -> Identity {
        Identity::of(1, id)
    }

    /// That of a file without one, by its executable bytes.
    pub fn of_text(offset: u64, text: &[u8]) -> Identity {
        let (len, crc) = (text.len() as u64, crc(text));
        let parts = [&offset.to_le_bytes()[..], &len.to_le_bytes(), &crc.to_le_bytes()];
        Identity::of(2, &parts.concat())
    }

    fn of(kind: u8, bytes: &[u8]) -> Identity {
        let mut identity = [0; 32];
        let len = bytes.len().min(30);
        (identity[0], identity[1]) = (kind, len as u8);
        identity[2..2 + len].copy_from_slice(&bytes[..len]);
        Identity(identity)
    }

    /// Its digits, for the name of a file.
    pub fn digits(&self) -> String {
        let len = usize::from(self.0[1]);
        let kind = if self.0[0] == 1 { "" } else { "text-" };
        let digits = self.0[2..2 + len].iter().map(|byte| format!("{byte:02x}"));
        kind.chars().map(String::from).chain(digits).collect()
    }
}

/// Why a file is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no such file, or was changed: its checksum or its index is wrong.
    Damaged,
    /// Another version, engine, host or option made it, or it is of another guest file.
    Foreign,
}

/// A file that was taken.
#[derive(Debug, Default)]
struct Taken {
    bytes: Vec<u8>,
    /// Entries of the index.
    count: usize,
    /// Of each part of the numbers, how many entries are of lower parts; and how many bits a number
    /// has below that of its part.
    parts: Vec<u32>,
    part_bits: u32,
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes[at..at + 8].try_into();
    u64::from_le_bytes(bytes.expect("invariant: eight bytes"))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..at + 4].try_into();
    u32::from_le_bytes(bytes.expect("invariant: four bytes"))
}

/// What stands before the index, behind the checksum.
fn head(maker: Maker, identity: &Identity, len: usize, count: usize) -> Vec<u8> {
    let mut head = maker.revision.to_le_bytes().to_vec();
    head.extend(maker.host.to_le_bytes());
    head.extend(identity.0);
    head.extend((len as u64).to_le_bytes());
    head.extend((count as u64).to_le_bytes());
    head
}

impl Taken {
    /// A file's bytes, if they are one of this maker and guest file.
    fn of(bytes: Vec<u8>, maker: Maker, identity: &Identity) -> Result<Taken, Refused> {
        if bytes.len() < HEAD || bytes[..8] != *MAGIC {
            return Err(Refused::Damaged);
        }
        if word(&bytes, 8) != VERSION {
            return Err(Refused::Foreign);
        }
        if word(&bytes, 12) != crc(&bytes[COVERED..]) && !mutant!("la64_stored_damage_believed") {
            return Err(Refused::Damaged);
        }
        let count = long(&bytes, HEAD - 8);
        let fits = count <= ((bytes.len() - HEAD) / ENTRY) as u64;
        if !fits || long(&bytes, HEAD - 16) != bytes.len() as u64 {
            return Err(Refused::Damaged);
        }
        let wanted = head(maker, identity, bytes.len(), count as usize);
        if bytes[COVERED..HEAD] != wanted[..] && !mutant!("la64_stored_engine_ignored") {
            return Err(Refused::Foreign);
        }
        let mut taken = Taken { bytes, count: count as usize, ..Taken::default() };
        let inside = (0..taken.count).all(|n| taken.bytes.get(taken.entry(n).1).is_some());
        let sorted = (1..taken.count).all(|n| taken.entry(n - 1).0 < taken.entry(n).0);
        if !(inside && sorted) {
            return Err(Refused::Damaged);
        }
        taken.part();
        Ok(taken)
    }

    /// Divides the numbers into about as many parts of one length as there are entries: blocks are
    /// spread over a program, so a number is then found with a look or two.
    fn part(&mut self) {
        let Some(last) = self.count.checked_sub(1) else { return };
        let last = self.entry(last).0;
        let parts = (self.count as u64).next_power_of_two();
        self.part_bits = (u64::BITS - last.leading_zeros()).saturating_sub(parts.ilog2()).min(63);
        let mut first = Vec::with_capacity((last >> self.part_bits) as usize + 2);
        for n in 0..self.count {
            let part = (self.entry(n).0 >> self.part_bits) as usize;
            first.resize(first.len().max(part + 1), n as u32);
        }
        first.push(self.count as u32);
        self.parts = first;
    }

    /// A block's number, and where its record is.
    fn entry(&self, n: usize) -> (u64, Range<usize>) {
        let at = HEAD + ENTRY * n;
        let (from, len) = (word(&self.bytes, at + 8) as usize, word(&self.bytes, at + 12));
        (long(&self.bytes, at), from..from.saturating_add(len as usize))
    }

    /// The record of a block.
    fn find(&self, number: u64) -> Option<&[u8]> {
        let part = usize::try_from(number >> self.part_bits).ok()?;
        let [low, high] = *self.parts.get(part..)?.first_chunk::<2>()?;
        let (mut low, mut high) = (low as usize, high as usize);
        while low < high {
            let middle = low.midpoint(high);
            let (found, place) = self.entry(middle);
            match found.cmp(&number) {
                std::cmp::Ordering::Equal => return self.bytes.get(place),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn records(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let entries = (0..self.count).map(|n| self.entry(n));
        entries.filter_map(|(number, place)| Some((number, self.bytes.get(place)?)))
    }
}

/// A guest file whose code is kept.
#[derive(Debug)]
struct Kept {
    identity: Identity,
    taken: Taken,
    /// Records made since, by the numbers of their blocks.
    made: BTreeMap<u64, Vec<u8>>,
    /// Bytes that a file with all of them has.
    len: usize,
    /// Bytes of the records that were read.
    used: usize,
}

impl Kept {
    /// Bytes of the file before anything was made.
    fn len_before(&self) -> usize {
        self.taken.bytes.len().max(HEAD)
    }

    /// Whether a file with what was made is worth its price. To write one, all of it is read,
    /// checked and written; to translate again what is not kept is cheap where that is little
    /// beside what was read.
    fn is_worth_writing(&self) -> bool {
        let made = self.len - self.len_before();
        !self.made.is_empty()
            && (made * WORTH_WRITING >= self.used || mutant!("la64_stored_little_is_written"))
    }
}

/// What a process keeps of translated code.
#[derive(Debug)]
pub struct Store {
    maker: Maker,
    kept: Mutex<Vec<Kept>>,
    file_len_max: usize,
}

impl Store {
    /// Nothing yet; no file becomes longer than `file_len_max` bytes.
    pub fn new(maker: Maker, file_len_max: usize) -> Store {
        Store { maker, kept: Mutex::default(), file_len_max }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        // A panic leaves no record half added.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who makes the code.
    pub fn maker(&self) -> Maker {
        self.maker
    }

    /// The longest file.
    pub fn file_len_max(&self) -> usize {
        self.file_len_max
    }

    /// The number of a guest file that was added.
    pub fn find(&self, identity: &Identity) -> Option<usize> {
        self.kept().iter().position(|kept| kept.identity == *identity)
    }

    /// Adds a guest file, with what an earlier process has written of it, and gives its number. A
    /// file that is refused counts as none.
    pub fn add(&self, identity: Identity, bytes: Option<Vec<u8>>) -> (usize, Option<Refused>) {
        let taken = bytes.map(|bytes| Taken::of(bytes, self.maker, &identity));
        let refused = taken.as_ref().and_then(|taken| taken.as_ref().err().copied());
        let taken = taken.and_then(Result::ok).unwrap_or_default();
        let len = taken.bytes.len().max(HEAD);
        let mut kept = self.kept();
        kept.push(Kept { identity, taken, made: BTreeMap::new(), len, used: 0 });
        (kept.len() - 1, refused)
    }

    /// The guest files whose files are to have the blocks that this process has made: those that
    /// gain more than a little.
    pub fn grown(&self) -> Vec<(usize, Identity)> {
        let kept = self.kept();
        let grown = kept.iter().enumerate().filter(|(_, kept)| kept.is_worth_writing());
        grown.map(|(number, kept)| (number, kept.identity)).collect()
    }

    /// The bytes of a file with all blocks: those of `other`, which another process may have
    /// written since, those that were read, and those made since, as far as a file may have them.
    pub fn file(&self, file: usize, other: Option<Vec<u8>>) -> Vec<u8> {
        let kept = self.kept();
        let kept = &kept[file];
        let other = other.map(|bytes| Taken::of(bytes, self.maker, &kept.identity));
        let other = other.and_then(Result::ok).unwrap_or_default();
        let made = kept.made.iter().map(|(&number, record)| (number, &record[..]));
        let (mut all, mut len) = (BTreeMap::new(), HEAD);
        // A block that is there twice is the same twice.
        for (number, record) in other.records().chain(kept.taken.records()).chain(made) {
            let more = ENTRY + record.len();
            if len + more <= self.file_len_max && all.insert(number, record).is_none() {
                len += more;
            }
        }
        whole(self.maker, &kept.identity, &all)
    }

    /// How many records of a guest file are whole. Nothing of them is run.
    pub fn whole_records(&self, file: usize) -> usize {
        #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
        {
            let kept = self.kept();
            let made = kept[file].made.values().map(|record| &record[..]);
            let records = kept[file].taken.records().map(|(_, record)| record).chain(made);
            records.filter(|record| super::tier1::Record::read(record).is_some()).count()
        }
        #[cfg(not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")))]
        {
            let _ = file;
            0
        }
    }

    /// Forgets what was made since: another process, the parent, writes it.
    pub fn forget_made(&self) {
        for kept in self.kept().iter_mut() {
            kept.made.clear();
            kept.len = kept.len_before();
        }
    }

    /// Does something with the record of a block; `None` if there is none.
    pub(super) fn with_record<R>(
        &self,
        (file, number): (usize, u64),
        f: impl FnOnce(&[u8]) -> Option<R>,
    ) -> Option<R> {
        let mut kept = self.kept();
        let kept = kept.get_mut(file)?;
        let made = || kept.made.get(&number).map(|record| &record[..]);
        let record = kept.taken.find(number).or_else(made)?;
        let result = f(record)?;
        kept.used += record.len();
        Some(result)
    }

    /// Keeps the record of a block, unless the file is full.
    pub(super) fn keep(&self, (file, number): (usize, u64), record: Vec<u8>) {
        let mut kept = self.kept();
        let Some(kept) = kept.get_mut(file) else { return };
        let more = ENTRY + record.len();
        if kept.len + more <= self.file_len_max && kept.made.insert(number, record).is_none() {
            kept.len += more;
        }
    }
}

/// A whole file.
fn whole(maker: Maker, identity: &Identity, records: &BTreeMap<u64, &[u8]>) -> Vec<u8> {
    let len = HEAD + records.values().map(|record| ENTRY + record.len()).sum::<usize>();
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(head(maker, identity, len, records.len()));
    let mut from = HEAD + ENTRY * records.len();
    for (number, record) in records {
        bytes.extend(number.to_le_bytes());
        bytes.extend((from as u32).to_le_bytes());
        bytes.extend((record.len() as u32).to_le_bytes());
        from += record.len();
    }
    records.values().for_each(|record| bytes.extend_from_slice(record));
    let crc = crc(&bytes[COVERED..]);
    bytes[12..COVERED].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKER: Maker = Maker { revision: 1, host: 2 };

    fn records(store: &Store, numbers: impl Iterator<Item = u64>) {
        numbers.for_each(|n| store.keep((0, n), vec![n as u8; 100]));
    }

    fn found(store: &Store, number: u64) -> Option<Vec<u8>> {
        store.with_record((0, number), |bytes| Some(bytes.to_vec()))
    }

    fn again(bytes: Vec<u8>) -> Store {
        let store = Store::new(MAKER, 1 << 20);
        assert_eq!(store.add(Identity::of_build_id(b"file"), Some(bytes)), (0, None));
        store
    }

    fn file_of(numbers: impl Iterator<Item = u64>) -> Vec<u8> {
        let store = Store::new(MAKER, 1 << 20);
        store.add(Identity::of_build_id(b"file"), None);
        records(&store, numbers);
        store.file(0, None)
    }

    /// Numbers behind each other, spread, at the ends of the range, one and none.
    #[test]
    fn every_number_is_found_and_no_other() {
        let spread = (0..500).map(|n: u64| n * n * 8);
        let lists: [Vec<u64>; 6] = [
            (0..300).collect(),
            spread.collect(),
            vec![0, 1, u64::MAX],
            vec![u64::MAX - 1],
            vec![0],
            Vec::new(),
        ];
        for list in lists {
            let store = again(file_of(list.iter().copied()));
            let beside = list.iter().flat_map(|n| [n.wrapping_sub(1), n.wrapping_add(1)]);
            for number in beside.chain(list.iter().copied()).chain([0, 1 << 40, u64::MAX]) {
                let wanted = list.contains(&number).then(|| vec![number as u8; 100]);
                assert_eq!(found(&store, number), wanted, "{number}");
            }
        }
    }

    #[test]
    fn a_file_that_gains_little_is_not_written() {
        let store = again(file_of(0..100));
        assert!(store.grown().is_empty(), "nothing was made");
        records(&store, 100..101);
        assert_eq!(store.grown().len(), 1, "all that is used is new");
        (0..100).for_each(|number| assert!(found(&store, number).is_some()));
        assert!(store.grown().is_empty(), "a hundredth of what is used");
        records(&store, 101..104);
        assert_eq!(store.grown().len(), 1);
        store.forget_made();
        assert!(store.grown().is_empty());
    }
}
