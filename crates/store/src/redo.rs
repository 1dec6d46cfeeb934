//! The redo log: groups of page changes in two sequential zones, one per epoch.
//!
//! A group is a run of blocks at the write pointer, made of *parts*. A part fills a block, or half
//! a block where two parts share one: magic u32, data parts u32, index u32, length of the whole
//! body u32, store id u64, epoch u64, sequence u64, a piece of the body, zeros, and in the last
//! four bytes a CRC32C salted with [`SALT`].
//!
//! - A body that fits half a block is written twice, once into each half of one block: data parts
//!   is 0, index 0 and 1. The first group of an epoch never takes this form.
//! - Any other body is cut into pieces, one block each (index 0 to n-1, data parts n), and one
//!   block of parity (index n) follows: the exclusive or of the pieces, the last one padded with
//!   zeros.
//! - So one damaged block of a group, or one damaged half, is made good from the others, and each
//!   part says by itself to which group it belongs.
//!
//! The body is a list of entries:
//!
//! | tag | entry |
//! |---|---|
//! | 1 | page address u64, count u16, then patches: 0 at u16 length u16 bytes, or 1 from u16 to u16 len u16 |
//! | 2 | page address u64, length u16, image |
//! | 3 | root: top u64, height u32, records u64 |
//!
//! - Entries are physical: replay never reads what it is about to repair.

use littoral_base::codec::{Reader, SEAL_BYTES, Writer, mend, seal, unseal};
use littoral_base::mutant;
use littoral_base::units::Lba;

use crate::pages::{Patch, Root};

const MAGIC: u32 = 0x4f44_4552;
/// What the checksum of a part is salted with: `LOGGROUP`.
pub const SALT: u64 = u64::from_le_bytes(*b"LOGGROUP");
/// Bytes in front of a part's piece of the body.
const HEADER_BYTES: usize = 40;

/// One change, as replay finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// Patches of a page.
    Patches(Lba, Vec<Patch<'a>>),
    /// A whole page.
    Image(Lba, &'a [u8]),
    /// The engine's root.
    Root(Root),
}

/// Appends a list of patches; `None` when an offset does not fit the format.
pub fn put_patches(w: &mut Writer, at: Lba, patches: &[Patch<'_>]) -> Option<()> {
    let small = |n: usize| u16::try_from(n).ok();
    w.u8(1).u64(at.0).u16(small(patches.len())?);
    for p in patches {
        match *p {
            Patch::Put { at, bytes } => {
                w.u8(0).u16(small(at)?).short_bytes(bytes)?;
            }
            Patch::Move { from, to, len } => {
                w.u8(1).u16(small(from)?).u16(small(to)?).u16(small(len)?);
            }
        }
    }
    Some(())
}

/// Appends a page image; `None` when it is too long for the format.
pub fn put_image(w: &mut Writer, at: Lba, image: &[u8]) -> Option<()> {
    w.u8(2).u64(at.0).short_bytes(image).map(|_| ())
}

/// Appends the root.
pub fn put_root(w: &mut Writer, root: Root) {
    w.u8(3).u64(root.top.0).u32(root.height).u64(root.records);
}

/// Reads the next entry; `None` at the end or when the bytes are no entry.
pub fn next_entry<'a>(r: &mut Reader<'a>) -> Option<Entry<'a>> {
    match r.u8()? {
        1 => {
            let at = Lba(r.u64()?);
            let n = r.u16()?;
            (0..n).map(|_| next_patch(r)).collect::<Option<_>>().map(|p| Entry::Patches(at, p))
        }
        2 => Some(Entry::Image(Lba(r.u64()?), r.short_bytes()?)),
        3 => Some(Entry::Root(Root { top: Lba(r.u64()?), height: r.u32()?, records: r.u64()? })),
        _ => None,
    }
}

fn next_patch<'a>(r: &mut Reader<'a>) -> Option<Patch<'a>> {
    let number = |r: &mut Reader<'a>| r.u16().map(usize::from);
    match r.u8()? {
        0 => Some(Patch::Put { at: usize::from(r.u16()?), bytes: r.short_bytes()? }),
        1 => Some(Patch::Move { from: number(r)?, to: number(r)?, len: number(r)? }),
        _ => None,
    }
}

/// Which group this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupId {
    /// The store.
    pub store: u64,
    /// The epoch.
    pub epoch: u64,
    /// Its number in the epoch, from zero.
    pub sequence: u64,
}

/// How a body is cut into parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Blocks with pieces of the body; zero when the body is in two halves of one block.
    pub data: u32,
    /// Bytes of the body.
    pub len: usize,
}

/// Bytes of the body that a part of `bytes` bytes holds.
const fn piece_bytes(bytes: usize) -> usize {
    bytes.saturating_sub(HEADER_BYTES + SEAL_BYTES)
}

impl Cut {
    /// How a group with this sequence number cuts a body of `len` bytes.
    fn of(sequence: u64, len: usize, block_bytes: usize) -> Cut {
        let is_small = sequence > 0 && len <= piece_bytes(block_bytes / 2);
        let data = if is_small { 0 } else { len.div_ceil(piece_bytes(block_bytes)).max(1) as u32 };
        Cut { data, len }
    }

    /// Blocks of the whole group.
    pub const fn blocks(&self) -> u64 {
        self.data as u64 + 1
    }

    /// Bytes of a part: a block or half of one.
    const fn part_bytes(&self, block_bytes: usize) -> usize {
        if self.data == 0 { block_bytes / 2 } else { block_bytes }
    }
}

/// A part that verifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// Whose it is.
    pub id: GroupId,
    /// How its group is cut.
    pub cut: Cut,
    /// Its place in the group.
    pub index: u32,
    /// Its piece of the body, or the parity, with the zeros behind.
    pub piece: &'a [u8],
}

impl<'a> Part<'a> {
    /// The part in these bytes, if they verify.
    fn of(bytes: &'a [u8]) -> Option<Part<'a>> {
        let mut r = Reader::new(unseal(bytes, SALT)?);
        if r.u32()? != MAGIC {
            return None;
        }
        let (data, index, len) = (r.u32()?, r.u32()?, r.u32()? as usize);
        let id = GroupId { store: r.u64()?, epoch: r.u64()?, sequence: r.u64()? };
        let piece = r.bytes(r.remaining())?;
        let room = u64::from(data.max(1)) * piece.len() as u64;
        let is_legal = index <= data.max(1) && len as u64 <= room;
        is_legal.then_some(Part { id, cut: Cut { data, len }, index, piece })
    }

    /// The parts in a block that verify: one that fills it, or up to two halves.
    pub fn all_in(block: &'a [u8]) -> impl Iterator<Item = Part<'a>> {
        let (left, right) = block.split_at(block.len() / 2);
        let whole = Part::of(block).filter(|p| p.cut.data > 0);
        let halves = [left, right].map(|half| Part::of(half).filter(|p| p.cut.data == 0));
        whole.into_iter().chain(halves.into_iter().flatten())
    }
}

impl GroupId {
    fn part(&self, cut: Cut, index: u32, piece: &[u8], bytes: usize) -> Vec<u8> {
        debug_assert!(cut.len as u64 <= u64::from(u32::MAX), "a checkpoint comes before");
        let mut w = Writer::new();
        w.u32(MAGIC).u32(cut.data).u32(index).u32(cut.len as u32);
        w.u64(self.store).u64(self.epoch).u64(self.sequence).raw(piece).pad_to(bytes);
        let mut part = w.finish();
        seal(&mut part, SALT);
        part
    }

    /// The group as blocks.
    pub fn encode(&self, body: &[u8], block_bytes: usize) -> Vec<u8> {
        let cut = Cut::of(self.sequence, body.len(), block_bytes);
        let bytes = cut.part_bytes(block_bytes);
        if cut.data == 0 {
            return [0, 1].map(|i| self.part(cut, i, body, bytes)).concat();
        }
        let piece = piece_bytes(bytes);
        let mut group = Vec::with_capacity(cut.blocks() as usize * block_bytes);
        let mut parity = vec![0; piece];
        for index in 0..cut.data {
            let from = body.len().min(index as usize * piece);
            let bytes_of = &body[from..body.len().min(from + piece)];
            exclusive_or(&mut parity, bytes_of);
            group.extend(self.part(cut, index, bytes_of, bytes));
        }
        if mutant!("store_redo_without_parity") {
            parity.fill(0);
        }
        group.extend(self.part(cut, cut.data, &parity, bytes));
        group
    }

    /// How this group is cut, if a part of it can be read in either of its first two blocks.
    pub fn cut(&self, blocks: &[u8], block_bytes: usize) -> Option<Cut> {
        let mut first = blocks.chunks_exact(block_bytes).take(2).enumerate().flat_map(|(i, b)| {
            Part::all_in(b).filter(move |p| p.cut.data == 0 && i == 0 || p.index as usize == i)
        });
        first.find(|p| p.id == *self).map(|p| p.cut)
    }

    /// The body of a group whose blocks these are, the last of them perhaps missing, and whether
    /// one of those that are there was damaged.
    pub fn body(&self, cut: Cut, blocks: &[u8], block_bytes: usize) -> Option<(Vec<u8>, bool)> {
        let own = |p: &Part<'_>| p.id == *self && p.cut == cut;
        if cut.data == 0 {
            let halves: Vec<Part<'_>> =
                Part::all_in(blocks.get(..block_bytes)?).filter(own).collect();
            let body = halves.first()?.piece.get(..cut.len)?;
            return Some((body.to_vec(), halves.len() < 2));
        }
        let data = cut.data as usize;
        // A count that the blocks cannot hold must not become an allocation.
        if blocks.len() / block_bytes < data {
            return None;
        }
        let found: Vec<Option<Part<'_>>> = blocks
            .chunks_exact(block_bytes)
            .take(data + 1)
            .enumerate()
            .map(|(i, b)| Part::all_in(b).find(|p| own(p) && p.index as usize == i))
            .collect();
        let is_damaged = found.iter().any(Option::is_none);
        let mut pieces: Vec<Option<&[u8]>> =
            found.iter().map(|p| p.as_ref().map(|p| p.piece)).collect();
        pieces.resize(data + 1, None);
        let made_good = missing_piece(&pieces)?;
        let (pieces, _) = pieces.split_at(data);
        let mut body: Vec<u8> =
            pieces.iter().flat_map(|p| p.unwrap_or(&made_good).iter().copied()).collect();
        body.truncate(cut.len);
        Some((body, is_damaged))
    }
}

fn exclusive_or(sum: &mut [u8], piece: &[u8]) {
    sum.iter_mut().zip(piece).for_each(|(s, b)| *s ^= b);
}

/// The one piece that is missing, out of the others; nothing when none is, `None` when two are.
fn missing_piece(pieces: &[Option<&[u8]>]) -> Option<Vec<u8>> {
    match pieces.iter().filter(|p| p.is_none()).count() {
        0 => Some(Vec::new()),
        1 => {
            let mut sum = vec![0; pieces.iter().flatten().next()?.len()];
            pieces.iter().flatten().for_each(|p| exclusive_or(&mut sum, p));
            Some(sum)
        }
        _ => None,
    }
}

/// Corrects a single flipped bit of a block of the log, or of either half: for repair.
pub(crate) fn mend_block(block: &mut [u8]) {
    if Part::all_in(block).next().is_none() {
        mend(block, SALT);
    }
    if Part::all_in(block).all(|p| p.cut.data == 0) {
        let half = block.len() / 2;
        block.chunks_mut(half).for_each(|half| _ = mend(half, SALT));
    }
}

/// Blocks that a group with a body of `len` bytes takes at most.
#[inline]
pub fn group_blocks(len: usize, block_bytes: usize) -> u64 {
    Cut::of(0, len, block_bytes).blocks()
}

/// Blocks of a group that may hold its longest body: a part gives the length as u32.
///
/// A body for which [`group_blocks`] says no more than this has a length that fits.
#[inline]
pub const fn group_blocks_max(block_bytes: usize) -> u64 {
    u32::MAX as u64 / piece_bytes(block_bytes) as u64
}

/// The most blocks that the images of a checkpoint may take in a redo zone of `capacity_blocks`:
/// half of it, and no longer a group than a part can say.
#[inline]
pub(crate) const fn image_blocks_max(capacity_blocks: u64, block_bytes: usize) -> u64 {
    let (half, most) = (capacity_blocks / 2, group_blocks_max(block_bytes));
    if half < most { half } else { most }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_come_back() {
        let mut w = Writer::new();
        let patches = [Patch::Put { at: 3, bytes: b"xy" }, Patch::Move { from: 1, to: 2, len: 9 }];
        let root = Root { top: Lba(9), height: 1, records: 77 };
        put_patches(&mut w, Lba(5), &patches).unwrap();
        put_image(&mut w, Lba(6), b"image").unwrap();
        put_root(&mut w, root);
        let bytes = w.finish();
        let mut r = Reader::new(&bytes);
        assert_eq!(next_entry(&mut r), Some(Entry::Patches(Lba(5), patches.to_vec())));
        assert_eq!(next_entry(&mut r), Some(Entry::Image(Lba(6), b"image")));
        assert_eq!(next_entry(&mut r), Some(Entry::Root(root)));
        assert_eq!((next_entry(&mut r), r.remaining()), (None, 0));
    }

    #[test]
    fn groups_of_the_most_blocks_have_a_length_that_a_part_can_say() {
        for block_bytes in [512, 4096, 65_536] {
            let most = group_blocks_max(block_bytes);
            let longest = (most - 1) * piece_bytes(block_bytes) as u64;
            assert_eq!(group_blocks(longest as usize, block_bytes), most);
            assert!(longest <= u64::from(u32::MAX), "{longest} at {block_bytes}");
            assert!(group_blocks(u32::MAX as usize + 1, block_bytes) > most, "{block_bytes}");
        }
    }

    #[test]
    fn images_are_bounded_by_half_of_the_redo_zone_and_by_the_longest_group() {
        for block_bytes in [512, 4096, 65_536] {
            let most = group_blocks_max(block_bytes);
            assert_eq!(image_blocks_max(100, block_bytes), 50);
            assert_eq!(image_blocks_max(2 * most - 2, block_bytes), most - 1);
            assert_eq!(image_blocks_max(1 << 40, block_bytes), most, "{block_bytes}");
        }
    }

    fn read(id: &GroupId, blocks: &[u8]) -> Option<(Vec<u8>, bool)> {
        id.body(id.cut(blocks, 512)?, blocks, 512)
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn a_group_is_read_as_itself_and_one_damaged_block_is_made_good(
            body in proptest::collection::vec(any::<u8>(), 0..3000), sequence in 0u64..3,
            flip in any::<prop::sample::Index>(), other in any::<prop::sample::Index>(),
        ) {
            let id = GroupId { store: 1, epoch: 2, sequence };
            let bytes = id.encode(&body, 512);
            prop_assert!(bytes.len() as u64 <= 512 * group_blocks(body.len(), 512));
            prop_assert_eq!(read(&id, &bytes), Some((body.clone(), false)));
            prop_assert_eq!(read(&GroupId { epoch: 3, ..id }, &bytes), None);
            // Without the parity of a torn write.
            if bytes.len() > 512 {
                let torn = &bytes[..bytes.len() - 512];
                prop_assert_eq!(read(&id, torn), Some((body.clone(), false)));
            }
            let mut bad = bytes.clone();
            let i = flip.index(bytes.len());
            bad[i] ^= 1;
            prop_assert_eq!(read(&id, &bad), Some((body.clone(), true)));
            // A second damaged block, or half, is one too many.
            let unit = if bytes.len() == 512 { 256 } else { 512 };
            let j = other.index(bytes.len());
            if i / unit != j / unit {
                bad[j] ^= 1;
                prop_assert_eq!(read(&id, &bad), None);
            }
        }

        #[test]
        fn damaged_bodies_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut r = Reader::new(&bytes);
            while next_entry(&mut r).is_some() {}
        }
    }
}
