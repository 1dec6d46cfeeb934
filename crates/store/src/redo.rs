//! The redo log: groups of page changes in two sequential zones, one an epoch.
//!
//! A group is a run of whole blocks at the write pointer: magic u32, length of the body u32, store
//! id u64, epoch u64, sequence u64, CRC32C of header and body, the body, zeros to the block's end.
//! The body is a list of entries:
//!
//! | tag | entry |
//! |---|---|
//! | 1 | page address u64, count u16, then patches: 0 at u16 length u16 bytes, or 1 from u16 to u16 len u16 |
//! | 2 | page address u64, length u16, image |
//! | 3 | root: top u64, height u32, records u64 |
//!
//! - Replay reads groups from the zone's start while id, epoch, sequence and checksum are right;
//!   what follows was never acknowledged (a write pointer may lie beyond valid data after a power
//!   cut).
//! - Entries are physical: replay never reads what it is about to repair.

use littoral_base::codec::{Reader, Writer, crc, crc_append};
use littoral_base::units::Lba;

use crate::pages::{Patch, Root};

const MAGIC: u32 = 0x4f44_4552;
/// Bytes in front of a group's body.
pub const GROUP_BYTES: usize = 36;

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

impl GroupId {
    fn header(&self, len: usize) -> Vec<u8> {
        let mut w = Writer::new();
        w.u32(MAGIC).u32(len as u32).u64(self.store).u64(self.epoch).u64(self.sequence);
        w.finish()
    }

    /// The group as blocks.
    pub fn encode(&self, body: &[u8], block_bytes: usize) -> Vec<u8> {
        let mut bytes = self.header(body.len());
        let sum = crc_append(crc(&bytes), body);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes.extend_from_slice(body);
        bytes.resize(bytes.len().next_multiple_of(block_bytes), 0);
        bytes
    }

    /// The body's length if `block` begins this group.
    pub fn body_len(&self, block: &[u8]) -> Option<usize> {
        let len = Reader::new(block.get(4..8)?).u32()? as usize;
        (block.get(..32)? == self.header(len)).then_some(len)
    }

    /// The body of a whole group, if its checksum is right.
    pub fn body<'a>(&self, bytes: &'a [u8], len: usize) -> Option<&'a [u8]> {
        let body = bytes.get(GROUP_BYTES..GROUP_BYTES.checked_add(len)?)?;
        let sum = crc_append(crc(&self.header(len)), body);
        (bytes.get(32..36)? == sum.to_le_bytes()).then_some(body)
    }
}

/// Blocks that a group with a body of `len` bytes takes.
pub fn group_blocks(len: usize, block_bytes: usize) -> u64 {
    ((GROUP_BYTES + len).div_ceil(block_bytes)) as u64
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

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn a_group_verifies_only_whole_and_as_itself(
            body in proptest::collection::vec(any::<u8>(), 0..1500), flip in any::<prop::sample::Index>(),
        ) {
            let id = GroupId { store: 1, epoch: 2, sequence: 3 };
            let bytes = id.encode(&body, 512);
            prop_assert_eq!(bytes.len() as u64, 512 * group_blocks(body.len(), 512));
            prop_assert_eq!(id.body_len(&bytes), Some(body.len()));
            prop_assert_eq!(id.body(&bytes, body.len()), Some(&body[..]));
            prop_assert_eq!(GroupId { sequence: 4, ..id }.body_len(&bytes), None);
            let mut bad = bytes.clone();
            let i = flip.index(GROUP_BYTES + body.len());
            bad[i] ^= 1;
            let found = id.body_len(&bad).and_then(|n| id.body(&bad, n));
            prop_assert_eq!(found, None);
        }

        #[test]
        fn damaged_bodies_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut r = Reader::new(&bytes);
            while next_entry(&mut r).is_some() {}
        }
    }
}
