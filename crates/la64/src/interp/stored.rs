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
//! - A file that is taken has images that lie inside it and were checked (see `image`). Checked by
//!   `a_file_with_any_bytes_behind_a_right_checksum_is_read`.

#![cfg_attr(
    not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")),
    allow(dead_code, reason = "without a translator nothing is kept")
)]

use super::image::{self, Image};
use super::record::Record;
use super::{Features, Limits};
use crate::memory::Window;
use littoral_base::codec::crc;
use littoral_base::mutant;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const MAGIC: &[u8; 8] = b"LTRL64TC";
const VERSION: u32 = 2;
/// Bytes before the images.
const HEAD: usize = LENS + 8 * KINDS;
/// Where the length of the file stands, and those of the images behind it.
const LEN: usize = 64;
const LENS: usize = 72;
/// Kinds of code by what it relies on in floating point; each has an image.
pub(super) const KINDS: usize = 4;
/// Where what the checksum covers begins.
const COVERED: usize = 16;
/// A file is written again if what it gains is at least this part of what was used of it.
const WORTH_WRITING: usize = 128;

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

/// A block of a guest file: the kind of its code, and its key in that kind's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number {
    pub(super) kind: usize,
    /// Offset of its first instruction in the guest file, plus 1 for plain code.
    pub(super) key: u32,
}

/// A file that was taken.
#[derive(Debug, Default)]
struct Taken {
    len: usize,
    images: [Option<Arc<Image>>; KINDS],
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes[at..at + 8].try_into();
    u64::from_le_bytes(bytes.expect("invariant: eight bytes"))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..at + 4].try_into();
    u32::from_le_bytes(bytes.expect("invariant: four bytes"))
}

/// What stands before the images, behind the checksum.
fn head(maker: Maker, identity: &Identity, lens: [usize; KINDS]) -> Vec<u8> {
    let mut head = maker.revision.to_le_bytes().to_vec();
    head.extend(maker.host.to_le_bytes());
    head.extend(identity.0);
    let len = HEAD + lens.iter().sum::<usize>();
    for len in [len].into_iter().chain(lens) {
        head.extend((len as u64).to_le_bytes());
    }
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
        let lens: [u64; KINDS] = std::array::from_fn(|n| long(&bytes, LENS + 8 * n));
        let sum = lens.iter().try_fold(HEAD as u64, |sum, &len| sum.checked_add(len));
        if sum != Some(bytes.len() as u64) || long(&bytes, LEN) != bytes.len() as u64 {
            return Err(Refused::Damaged);
        }
        let lens = lens.map(|len| len as usize);
        let wanted = head(maker, identity, lens);
        if bytes[COVERED..HEAD] != wanted[..] && !mutant!("la64_stored_engine_ignored") {
            return Err(Refused::Foreign);
        }
        let bytes = Arc::new(bytes);
        let mut taken = Taken { len: bytes.len(), ..Taken::default() };
        let mut from = HEAD;
        for (len, image) in lens.into_iter().zip(&mut taken.images) {
            if len > 0 {
                let found = Image::read(&bytes, from..from + len).ok_or(Refused::Damaged)?;
                *image = Some(Arc::new(found));
            }
            from += len;
        }
        Ok(taken)
    }

    /// The record of a block.
    fn find(&self, number: Number) -> Option<Vec<u8>> {
        self.images[number.kind].as_ref()?.record(number.key)
    }

    /// All records.
    fn records(&self) -> impl Iterator<Item = (Number, Vec<u8>)> {
        let images = self.images.iter().enumerate();
        let images = images.filter_map(|(kind, image)| Some((kind, image.as_ref()?)));
        images.flat_map(|(kind, image)| {
            let keys = image.blocks().map(|block| block.key);
            keys.filter_map(move |key| Some((Number { kind, key }, image.record(key)?)))
        })
    }
}

/// A guest file whose code is kept.
#[derive(Debug)]
struct Kept {
    identity: Identity,
    taken: Taken,
    /// Records made since, by the numbers of their blocks.
    made: BTreeMap<Number, Vec<u8>>,
    /// Bytes that a file with all of them has at most.
    len: usize,
    /// Bytes of the images and records that were read.
    used: usize,
}

impl Kept {
    /// Bytes of the file before anything was made.
    fn len_before(&self) -> usize {
        self.taken.len.max(EMPTY_LEN)
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

/// A file whose images have no blocks.
const EMPTY_LEN: usize = HEAD + KINDS * image::HEAD_BYTES;

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

    /// Keeps other threads from what is kept until the result is dropped: a fork at another time
    /// may copy the lock of a thread that reads a record, and no thread of the child would release
    /// it.
    pub fn hold(&self) -> impl Sized {
        self.kept()
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
        let len = taken.len.max(EMPTY_LEN);
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

    /// The bytes of a file with all blocks: those made since, those that were read, and those of
    /// `other`, which another process may have written since, as far as a file may have them.
    pub fn file(&self, file: usize, other: Option<Vec<u8>>) -> Vec<u8> {
        let kept = self.kept();
        let kept = &kept[file];
        let other = other.map(|bytes| Taken::of(bytes, self.maker, &kept.identity));
        let other = other.and_then(Result::ok).unwrap_or_default();
        let made = kept.made.iter().map(|(&number, record)| (number, Cow::Borrowed(&record[..])));
        // What this process found in memory goes before what others did.
        let read = kept.taken.records().chain(other.records());
        let all = made.chain(read.map(|(number, record)| (number, Cow::Owned(record))));
        let mut lists: [Records<'_>; KINDS] = Default::default();
        let (mut seen, mut len) = (BTreeSet::new(), EMPTY_LEN);
        for (number, record) in all {
            let more = image::cost(&record);
            if len + more <= self.file_len_max && seen.insert(number) {
                len += more;
                lists[number.kind].push((number.key, record));
            }
        }
        whole(self.maker, &kept.identity, &lists)
    }

    /// How many records of a guest file are whole. Nothing of them is run.
    pub fn whole_records(&self, file: usize) -> usize {
        let kept = self.kept();
        let made = kept[file].made.values().cloned();
        let records = kept[file].taken.records().map(|(_, record)| record).chain(made);
        records.filter(|record| Record::read(record).is_some()).count()
    }

    /// The image of a guest file's code of a kind, if an earlier process left one.
    pub(super) fn image(&self, file: usize, kind: usize) -> Option<Arc<Image>> {
        self.kept().get(file)?.taken.images[kind].clone()
    }

    /// So many bytes of a guest file's images were used.
    pub(super) fn note_used(&self, file: usize, len: usize) {
        if let Some(kept) = self.kept().get_mut(file) {
            kept.used += len;
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
        (file, number): (usize, Number),
        f: impl FnOnce(&[u8]) -> Option<R>,
    ) -> Option<R> {
        let mut kept = self.kept();
        let kept = kept.get_mut(file)?;
        let taken = kept.taken.find(number);
        let record = taken.as_ref().or_else(|| kept.made.get(&number))?;
        let result = f(record)?;
        kept.used += record.len();
        Some(result)
    }

    /// Keeps the record of a block, unless the file is full.
    pub(super) fn keep(&self, (file, number): (usize, Number), record: Vec<u8>) {
        let mut kept = self.kept();
        let Some(kept) = kept.get_mut(file) else { return };
        let more = image::cost(&record);
        if kept.len + more <= self.file_len_max && kept.made.insert(number, record).is_none() {
            kept.len += more;
        }
    }
}

/// Records of one kind of code, with the keys of their blocks.
type Records<'a> = Vec<(u32, Cow<'a, [u8]>)>;

/// A whole file.
fn whole(maker: Maker, identity: &Identity, lists: &[Records<'_>; KINDS]) -> Vec<u8> {
    let images = lists.each_ref().map(|list| match list.is_empty() {
        true => Vec::new(),
        false => image::write(list.iter().map(|(key, record)| (*key, &record[..]))),
    });
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(head(maker, identity, images.each_ref().map(Vec::len)));
    images.iter().for_each(|image| bytes.extend_from_slice(image));
    let crc = crc(&bytes[COVERED..]);
    bytes[12..COVERED].copy_from_slice(&crc.to_le_bytes());
    let taken = || Taken::of(bytes.clone(), maker, identity);
    debug_assert!(taken().is_ok(), "a file is taken as it was written");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::record::{Lists, RunOf, WORDS};

    const MAKER: Maker = Maker { revision: 1, host: 2 };

    fn number(key: u32) -> Number {
        Number { kind: key as usize % KINDS, key: 4 * key }
    }

    /// The record of a block of one instruction.
    fn record(key: u32) -> Vec<u8> {
        let mut lists = Lists::default();
        lists.run(RunOf { from: 0, count: 1 });
        lists.extend(WORDS, [key]);
        lists.write(u64::from(4 * key), 0, &[key as u8; 40])
    }

    fn records(store: &Store, keys: impl Iterator<Item = u32>) {
        keys.for_each(|key| store.keep((0, number(key)), record(key)));
    }

    fn found(store: &Store, key: u32) -> Option<Vec<u8>> {
        store.with_record((0, number(key)), |bytes| Some(bytes.to_vec()))
    }

    fn again(bytes: Vec<u8>) -> Store {
        let store = Store::new(MAKER, 1 << 20);
        assert_eq!(store.add(Identity::of_build_id(b"file"), Some(bytes)), (0, None));
        store
    }

    fn file_of(keys: impl Iterator<Item = u32>) -> Vec<u8> {
        let store = Store::new(MAKER, 1 << 20);
        store.add(Identity::of_build_id(b"file"), None);
        records(&store, keys);
        store.file(0, None)
    }

    /// Blocks behind each other, spread, at the ends of the range, one and none.
    #[test]
    fn every_block_is_found_and_no_other() {
        const LAST: u32 = u32::MAX / 4;
        let lists: [Vec<u32>; 6] = [
            (0..300).collect(),
            (0..500).map(|n| n * n * 8).collect(),
            vec![0, 1, LAST],
            vec![LAST - 1],
            vec![0],
            Vec::new(),
        ];
        for list in lists {
            let store = again(file_of(list.iter().copied()));
            let beside = list.iter().flat_map(|n| [n.saturating_sub(1), (n + 1).min(LAST)]);
            for key in beside.chain(list.iter().copied()).chain([0, 1 << 20, LAST]) {
                let wanted = list.contains(&key).then(|| record(key));
                assert_eq!(found(&store, key), wanted, "{key}");
            }
        }
    }

    /// What this process found in memory is kept, not what a file says of the same block.
    #[test]
    fn what_was_made_goes_before_what_was_read() {
        let store = again(file_of(0..8));
        let mut other = record(5);
        *other.last_mut().expect("code") ^= 1;
        store.keep((0, number(5)), other.clone());
        let file = store.file(0, Some(file_of(3..12)));
        let store = again(file);
        assert_eq!(found(&store, 5), Some(other));
        assert!((0..12).filter(|&key| key != 5).all(|key| found(&store, key) == Some(record(key))));
    }

    #[test]
    fn a_file_that_gains_little_is_not_written() {
        let store = again(file_of(0..400));
        assert!(store.grown().is_empty(), "nothing was made");
        records(&store, 400..401);
        assert_eq!(store.grown().len(), 1, "all that is used is new");
        (0..400).for_each(|key| assert!(found(&store, key).is_some()));
        assert!(store.grown().is_empty(), "a 400th of what is used");
        records(&store, 401..405);
        assert_eq!(store.grown().len(), 1);
        store.forget_made();
        assert!(store.grown().is_empty());
    }
}
