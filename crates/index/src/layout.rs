//! Page layouts of both trees: sizes, offsets, and searches over raw bytes.
//!
//! Every page begins with 16 bytes: kind u8, level u8, count u16, base count u16 (logs only),
//! zeros. Little-endian; the store's checksum takes the page's last four bytes.
//!
//! | page | after the header |
//! |---|---|
//! | leaf, interior | `count` records, sorted by key: key, then value or child address u64 |
//! | leaf log, interior log | one tag u8 for each slot of a full body, then records at their slots |
//! | head | `count` slots, sorted by key: key, state u8, body address u64, log address u64 |
//!
//! - A log has a body's capacity of slots; slot `i` of the log speaks of slot `i` of the body
//!   (paper 000, fig. 7). The tags replace the paper's `delete_key`, which destroyed the key that
//!   it marked.
//! - Slot 0 of an interior page or a head is *First* by position: searches never compare its key.
//!   The bytes there are the lowest separator the page ever had, so a page can be found from its
//!   own bytes.

use std::ops::Range;

use littoral_base::codec::SEAL_BYTES;
use littoral_base::mutant;
use littoral_base::units::Lba;

use crate::{Error, Kind, Result};

/// Bytes in front of every page's slots.
pub const HEADER_BYTES: usize = 16;
/// Bytes of a page address.
pub const ADDRESS_BYTES: usize = 8;
/// Bytes of a head slot besides its key.
pub(crate) const PTR_BYTES: usize = 1 + 2 * ADDRESS_BYTES;
/// Fewest slots a page may have for the algorithms to work.
const SLOTS_MIN: usize = 4;
/// Most slots a page may have: slot numbers and counts stay in 16 bits with room to spare.
const SLOTS_MAX: usize = 4096;

// Counts fit 16 bits, and an inner page that is half full still has two children.
const _: () = assert!(SLOTS_MAX <= u16::MAX as usize && SLOTS_MIN / 2 >= 2);

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// Records of the user.
    Leaf = 1,
    /// Separators and child pages.
    Interior = 2,
    /// Separators, states and addresses of bodies and logs.
    Head = 3,
    /// Updates and deletions of a body that cannot change.
    Log = 4,
}

impl PageKind {
    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            PageKind::Leaf => "leaf",
            PageKind::Interior => "interior page",
            PageKind::Head => "head",
            PageKind::Log => "log",
        }
    }
}

/// Sizes of records and pages of one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Records in a full leaf.
    pub leaf_slots: usize,
    /// Children of a full interior page.
    pub interior_slots: usize,
    /// Bodies under a full head.
    pub head_slots: usize,
}

impl Shape {
    /// The paper's shape of order `n`: leaves of `n` records, inner pages of `n + 1` children.
    pub const fn paper(n: usize, key_bytes: usize, value_bytes: usize) -> Shape {
        let (leaf_slots, inner) = (n, n + 1);
        Shape { key_bytes, value_bytes, leaf_slots, interior_slots: inner, head_slots: inner }
    }

    /// As many slots as fit pages of `page_bytes`.
    ///
    /// # Errors
    /// `Kind::Usage` naming the size that is too large for the page.
    pub fn fitting(page_bytes: usize, key_bytes: usize, value_bytes: usize) -> Result<Shape> {
        if key_bytes == 0 {
            return Err(Error::new(Kind::Usage, "key size 0: a key has at least one byte"));
        }
        let room = page_bytes.saturating_sub(HEADER_BYTES + SEAL_BYTES);
        // A record larger than the page is refused below with the others that are too large.
        let (key_bytes, value_bytes) = (key_bytes.min(page_bytes), value_bytes.min(page_bytes));
        let slots = |bytes: usize| (room / bytes).min(SLOTS_MAX);
        let shape = Shape {
            key_bytes,
            value_bytes,
            leaf_slots: slots(1 + key_bytes.saturating_add(value_bytes)),
            interior_slots: slots(1 + key_bytes.saturating_add(ADDRESS_BYTES)),
            head_slots: slots(key_bytes.saturating_add(PTR_BYTES)),
        };
        shape.check(page_bytes)?;
        Ok(shape)
    }

    /// Checks that every page of this shape fits `page_bytes`.
    ///
    /// # Errors
    /// `Kind::Usage` naming the sizes.
    pub fn check(&self, page_bytes: usize) -> Result<()> {
        let room = page_bytes.saturating_sub(HEADER_BYTES + SEAL_BYTES);
        // First, so that no product below can overflow.
        let slots = [self.leaf_slots, self.interior_slots, self.head_slots];
        let is_bounded = (1..=page_bytes).contains(&self.key_bytes)
            && self.value_bytes <= page_bytes
            && slots.iter().all(|&n| n <= SLOTS_MAX);
        if !is_bounded {
            let text = format!("{self:?}: no page of {page_bytes} bytes holds such records");
            return Err(Error::new(Kind::Usage, text));
        }
        let least = self.leaf_slots.min(self.interior_slots).min(self.head_slots);
        let (leaf, inner) = (self.leaf().log_bytes(), self.interior(1).log_bytes());
        let most = leaf.max(inner).max(self.head_image_bytes()) - HEADER_BYTES;
        if least >= SLOTS_MIN && most <= room {
            return Ok(());
        }
        let text = format!(
            "keys of {} and values of {} bytes: a page of {page_bytes} bytes holds fewer than \
             {SLOTS_MIN} records; the largest record for it has {} bytes",
            self.key_bytes,
            self.value_bytes,
            (room / SLOTS_MIN).saturating_sub(PTR_BYTES)
        );
        Err(Error::new(Kind::Usage, text))
    }

    /// The layout of leaves.
    pub const fn leaf(&self) -> Body {
        let record = self.key_bytes + self.value_bytes;
        Body { key: self.key_bytes, record, slots: self.leaf_slots, level: 0 }
    }

    /// The layout of interior pages at `level`.
    pub const fn interior(&self, level: u8) -> Body {
        let record = self.key_bytes + ADDRESS_BYTES;
        Body { key: self.key_bytes, record, slots: self.interior_slots, level }
    }

    /// The layout of bodies at `level`: leaves at level 0.
    pub const fn body(&self, level: u8) -> Body {
        if level == 0 { self.leaf() } else { self.interior(level) }
    }

    /// Bytes of a head slot.
    pub const fn head_slot_bytes(&self) -> usize {
        self.key_bytes + PTR_BYTES
    }

    const fn head_image_bytes(&self) -> usize {
        HEADER_BYTES + self.head_slots * self.head_slot_bytes()
    }

    /// An empty head page.
    pub fn new_head(&self, level: u8) -> Vec<u8> {
        header(PageKind::Head, level, self.head_image_bytes())
    }
}

fn header(kind: PageKind, level: u8, len: usize) -> Vec<u8> {
    let mut page = vec![0; len];
    page[0] = kind as u8;
    page[1] = level;
    page
}

/// The kind of a page, if it is one of ours.
pub fn kind(page: &[u8]) -> Option<PageKind> {
    match page.first()? {
        1 => Some(PageKind::Leaf),
        2 => Some(PageKind::Interior),
        3 => Some(PageKind::Head),
        4 => Some(PageKind::Log),
        _ => None,
    }
}

/// The level of a page.
pub fn level(page: &[u8]) -> u8 {
    page[1]
}

fn u16_at(page: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([page[at], page[at + 1]]))
}

/// Where the count of a page is.
pub const COUNT_AT: usize = 2;

/// Slots in use on a page; tagged slots on a log.
#[inline]
pub fn count(page: &[u8]) -> usize {
    u16_at(page, COUNT_AT)
}

/// A count as it is written.
#[inline]
pub fn count_bytes(n: usize) -> [u8; 2] {
    debug_assert!(n <= SLOTS_MAX, "a count of {n} slots, where a page has {SLOTS_MAX} at most");
    (n as u16).to_le_bytes()
}

/// Sets the count of a page image.
pub fn set_count(page: &mut [u8], n: usize) {
    page[COUNT_AT..COUNT_AT + 2].copy_from_slice(&count_bytes(n));
}

/// Slots of the body that a log speaks of.
pub fn base_count(log: &[u8]) -> usize {
    u16_at(log, 4)
}

/// A page address from its eight bytes.
pub fn address(bytes: &[u8]) -> Lba {
    Lba(u64::from_le_bytes(bytes.try_into().expect("invariant: an address has eight bytes")))
}

/// What a log says of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// Nothing: the body's record stands.
    Absent = 0,
    /// The log's record replaces the body's.
    Update = 1,
    /// The record is gone.
    Delete = 2,
}

/// The layout of a body (leaf or interior) and of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    /// Bytes of a key.
    pub key: usize,
    /// Bytes of a record, key included.
    pub record: usize,
    /// Records of a full body.
    pub slots: usize,
    /// Level; leaves are level 0.
    pub level: u8,
}

impl Body {
    /// The kind of its pages.
    pub const fn kind(&self) -> PageKind {
        if self.level == 0 { PageKind::Leaf } else { PageKind::Interior }
    }

    /// The first slot whose key means anything: slot 0 of an interior page is First.
    pub const fn first_compared(&self) -> usize {
        if self.level == 0 { 0 } else { 1 }
    }

    /// An image with the given records, one after the other, sorted.
    pub fn image(&self, records: &[u8]) -> Vec<u8> {
        debug_assert!(records.len().is_multiple_of(self.record), "records are written whole");
        let mut page = header(self.kind(), self.level, HEADER_BYTES + self.slots * self.record);
        set_count(&mut page, records.len() / self.record);
        page[HEADER_BYTES..HEADER_BYTES + records.len()].copy_from_slice(records);
        self.lower_first(&mut page);
        debug_assert!(self.is_ordered(&page), "keys of a level {} page ascend", self.level);
        page
    }

    /// Records in so many parts, none of which has two more than another.
    pub fn split_evenly<'a>(&self, records: &'a [u8], parts: usize) -> Vec<&'a [u8]> {
        let count = records.len() / self.record;
        debug_assert!((1..=count).contains(&parts), "{count} records make {parts} pages");
        let end = |part: usize| count * part / parts * self.record;
        (0..parts).map(|part| &records[end(part)..end(part + 1)]).collect()
    }

    /// Whether the keys of a body ascend; First may equal the separator behind it.
    fn is_ordered(&self, page: &[u8]) -> bool {
        let first = self.first_compared();
        let keys = || (first..count(page)).map(|i| self.key(page, i));
        let is_first_low = first == 0 || keys().next().is_none_or(|k| self.key(page, 0) <= k);
        is_first_low && keys().is_sorted_by(|a, b| a < b)
    }

    /// Keeps the bytes of First within the page's range, so that the page can be found by them: a
    /// page that has just been halved may begin with a separator that now belongs to its right
    /// half.
    fn lower_first(&self, page: &mut [u8]) {
        if self.level > 0 && count(page) > 1 && self.key(page, 0) > self.key(page, 1) {
            let second = self.at(1);
            page.copy_within(second..second + self.key, HEADER_BYTES);
        }
    }

    const fn log_bytes(&self) -> usize {
        HEADER_BYTES + self.slots * (1 + self.record)
    }

    /// An empty log for a body of `base_count` records.
    pub fn new_log(&self, base_count: usize) -> Vec<u8> {
        debug_assert!((1..=self.slots).contains(&base_count), "a log of {base_count} slots");
        let mut page = header(PageKind::Log, self.level, self.log_bytes());
        page[4..6].copy_from_slice(&count_bytes(base_count));
        page
    }

    /// Offset of record `i` of a body.
    #[inline]
    pub fn at(&self, i: usize) -> usize {
        HEADER_BYTES + i * self.record
    }

    /// Record `i` of a body.
    #[inline]
    pub fn record<'a>(&self, page: &'a [u8], i: usize) -> &'a [u8] {
        debug_assert!(i < self.slots, "record {i} of {} slots", self.slots);
        &page[self.at(i)..][..self.record]
    }

    /// Key `i` of a body.
    #[inline]
    pub fn key<'a>(&self, page: &'a [u8], i: usize) -> &'a [u8] {
        debug_assert!(i < self.slots, "key {i} of {} slots", self.slots);
        &page[self.at(i)..][..self.key]
    }

    /// All records of a body.
    pub fn records<'a>(&self, page: &'a [u8]) -> &'a [u8] {
        &page[HEADER_BYTES..self.at(count(page))]
    }

    /// Offset of the tag of slot `i` of a log.
    #[inline]
    pub fn tag_at(&self, i: usize) -> usize {
        debug_assert!(i <= self.slots, "tag {i} of {} slots", self.slots);
        HEADER_BYTES + i
    }

    /// Offset of the record of slot `i` of a log.
    #[inline]
    pub fn log_at(&self, i: usize) -> usize {
        debug_assert!(i < self.slots, "logged record {i} of {} slots", self.slots);
        HEADER_BYTES + self.slots + i * self.record
    }

    /// What a log says of slot `i`.
    #[inline]
    pub fn tag(&self, log: &[u8], i: usize) -> Tag {
        match log[self.tag_at(i)] {
            0 => Tag::Absent,
            1 => Tag::Update,
            _ => Tag::Delete,
        }
    }

    /// The log's record of slot `i`.
    #[inline]
    pub fn log_record<'a>(&self, log: &'a [u8], i: usize) -> &'a [u8] {
        &log[self.log_at(i)..][..self.record]
    }
}

/// Keys that one round of [`search`] looks at. They do not depend on each other, so the processor
/// fetches their lines at once; a binary search would wait for one line after the other.
const PROBES: usize = 15;

/// The first bytes of a key, as a number that sorts as they do.
#[inline]
pub(crate) fn prefix(key: &[u8]) -> Option<u64> {
    key.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

/// Finds `key` among `n` sorted keys of its size: its index, or the index where it belongs.
#[inline]
pub fn search<'a>(
    n: usize,
    key: &[u8],
    key_at: impl Fn(usize) -> &'a [u8],
) -> std::result::Result<usize, usize> {
    search_near(None, n, key, key_at)
}

/// [`search`] that looks in a range first, where there is one and it is not empty.
#[inline]
pub(crate) fn search_near<'a>(
    near: Option<Range<usize>>,
    n: usize,
    key: &[u8],
    key_at: impl Fn(usize) -> &'a [u8],
) -> std::result::Result<usize, usize> {
    let Some(wanted) = prefix(key) else { return search_in(0, n, key, key_at) };
    let is_below = |i: usize| usize::from(prefix(key_at(i)).is_some_and(|p| p < wanted));
    // The first key whose prefix is not below lies in low..=high.
    let (mut low, mut high) = (0, n);
    if let Some(near) = near.filter(|near| near.start < near.end && near.end <= n) {
        let below = near.clone().map(is_below).sum::<usize>();
        let is_behind = below > 0 || mutant!("index_guess_believed");
        low = if is_behind { near.start + below } else { 0 };
        high = if below < near.len() { near.start + below } else { n };
    }
    while high - low > PROBES + 1 {
        let (stride, last) = ((high - low).div_ceil(PROBES + 1), high - low - 1);
        let probe = |j: usize| low + (j * stride).min(last);
        let below: usize = (1..=PROBES).map(|j| is_below(probe(j))).sum();
        high = if below < PROBES { probe(below + 1) } else { high };
        low = if below > 0 { probe(below) + 1 } else { low };
    }
    let at = low + (low..high).map(is_below).sum::<usize>();
    match (at < n).then(|| key_at(at)) {
        Some(found) if found == key => Ok(at),
        Some(found) if prefix(found) == Some(wanted) => search_in(at, n, key, key_at),
        _ => Err(at),
    }
}

/// Finds `key` among the sorted keys from `low` to `high`, one after the other.
fn search_in<'a>(
    mut low: usize,
    mut high: usize,
    key: &[u8],
    key_at: impl Fn(usize) -> &'a [u8],
) -> std::result::Result<usize, usize> {
    while low < high {
        let mid = (low + high) / 2;
        match key_at(mid).cmp(key) {
            std::cmp::Ordering::Less => low = mid + 1,
            std::cmp::Ordering::Equal => return Ok(mid),
            std::cmp::Ordering::Greater => high = mid,
        }
    }
    Err(low)
}

/// The child that covers `key`, looked for in the range first: the last slot whose key is not above
/// it; slot 0 is never compared.
#[inline]
pub(crate) fn route<'a>(
    near: Option<Range<usize>>,
    n: usize,
    key: &[u8],
    key_at: impl Fn(usize) -> &'a [u8],
) -> usize {
    debug_assert!(n > 0, "a page that is searched has a slot");
    match search_near(near, n - 1, key, |i| key_at(i + 1)) {
        Ok(i) => i + 1,
        Err(i) => i,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_fit_their_pages_and_the_paper_fits_4_kib() {
        assert!(Shape::paper(100, 8, 8).check(4096).is_ok());
        let s = Shape::fitting(4096, 8, 8).unwrap();
        assert_eq!((s.leaf_slots, s.interior_slots, s.head_slots), (239, 239, 163));
        let e = Shape::fitting(512, 100, 100).unwrap_err();
        assert!(e.kind() == Kind::Usage && e.to_string().contains("512"), "{e}");
        assert!(Shape::fitting(4096, 0, 8).is_err());
        assert!(Shape::fitting(4096, usize::MAX, usize::MAX).is_err());
    }

    #[test]
    fn searches_agree_with_the_standard_library() {
        let keys: Vec<[u8; 1]> = (0..20).map(|i| [i * 3]).collect();
        for k in 0..70u8 {
            let ours = search(keys.len(), &[k], |i| &keys[i]);
            assert_eq!(ours, keys.binary_search(&[k]));
            let routed = route(None, keys.len(), &[k], |i| &keys[i]);
            assert_eq!(routed, keys.iter().rposition(|x| *x <= [k]).unwrap_or(0));
        }
    }

    #[test]
    fn searches_near_a_place_agree_with_the_standard_library() {
        for stride in [1, 7] {
            // With stride 7 keys of ten bytes in runs that share their first eight.
            let key = |i: u64| [(i / stride).to_be_bytes(), (i % stride).to_be_bytes()].concat();
            let keys: Vec<Vec<u8>> = (0..40).map(|i| key(2 * i + 1)).collect();
            for key in (0..82).map(key) {
                let wanted = keys.binary_search(&key);
                for (start, end) in (0..40).flat_map(|s| (s..42).map(move |e| (s, e))) {
                    let found = search_near(Some(start..end), 40, &key, |i| &keys[i]);
                    assert_eq!(found, wanted, "{start}..{end}");
                }
            }
        }
    }

    #[test]
    fn searches_of_any_number_of_keys_agree_with_the_standard_library() {
        // Keys of eight bytes; keys of ten in runs of seven that share their first eight.
        let long = |i: u64| [&(i / 7).to_be_bytes()[..], &((i % 7) as u16).to_be_bytes()].concat();
        let short = |i: u64| (3 * i).to_be_bytes().to_vec();
        for n in (0..70).chain([239, 240, 255, 256, 257, 1000]) {
            for make in [&long as &dyn Fn(u64) -> Vec<u8>, &short] {
                let keys: Vec<Vec<u8>> = (1..=n).map(make).collect();
                let between = (0..3 * n + 9).map(|i| i.to_be_bytes().to_vec());
                let wanted =
                    (0..n + 2).map(make).chain(between).filter(|k| k.len() == make(0).len());
                for key in wanted {
                    let ours = search(keys.len(), &key, |i| &keys[i]);
                    assert_eq!(ours, keys.binary_search(&key), "{n} keys, {key:?}");
                }
            }
        }
    }
}
