//! Bulk load: sorted records into full sequential leaves, then the layers above, bottom up.

use littoral_base::units::Lba;
use littoral_store::pages::Pages;

use super::Zb;
use super::state::Ptr;
use crate::Result;
use crate::tree::Ascending;

/// One page of a finished layer: its lowest key and its page.
type Piece = (Vec<u8>, Ptr);

impl<P: Pages> Zb<P> {
    /// Fills an empty tree from records sorted by key; how many there were. One operation: all of
    /// it is durable, or nothing.
    ///
    /// # Errors
    /// `Kind::Usage` when the tree is not empty or a key does not ascend (naming its number,
    /// counted from one); `Kind::Full`; those of the store.
    pub fn bulk_load<'r>(
        &mut self,
        records: impl IntoIterator<Item = (&'r [u8], &'r [u8])>,
    ) -> Result<u64> {
        let mut order = self.core.check_load()?;
        let mut pieces = self.load_leaves(records, &mut order)?;
        let total = order.count;
        if total == 0 {
            return Ok(0);
        }
        self.free_empty_tree()?;
        for level in 0.. {
            let heads = self.load_heads(level, &pieces)?;
            if let [(_, top)] = heads[..] {
                self.core.root.top = top;
                self.core.root.height = level as u32;
                break;
            }
            pieces = self.load_interiors(level + 1, &heads)?;
        }
        self.core.root.records = total;
        self.core.finish()?;
        Ok(total)
    }

    fn free_empty_tree(&mut self) -> Result<()> {
        let leaf = self.head_ptr(self.core.root.top, 0)?.body;
        self.core.pages.free(leaf);
        self.core.pages.free(self.core.root.top);
        Ok(())
    }

    fn load_leaves<'r>(
        &mut self,
        records: impl IntoIterator<Item = (&'r [u8], &'r [u8])>,
        order: &mut Ascending,
    ) -> Result<Vec<Piece>> {
        let leaf = self.core.shape.leaf();
        let (mut pieces, mut pending) = (Vec::new(), Vec::new());
        for (key, value) in records {
            self.core.check_key(key)?;
            self.core.check_value(value)?;
            order.next(key)?;
            pending.extend_from_slice(key);
            pending.extend_from_slice(value);
            if pending.len() == leaf.slots * leaf.record {
                pieces.push(self.load_body(0, &pending)?);
                pending.clear();
            }
        }
        if !pending.is_empty() {
            pieces.push(self.load_body(0, &pending)?);
        }
        Ok(pieces)
    }

    fn load_body(&mut self, level: usize, records: &[u8]) -> Result<Piece> {
        let body = self.core.body(level);
        let image = body.image(records);
        let first = records[..body.key].to_vec();
        if records.len() == body.slots * body.record {
            return Ok((first, Ptr::steady(self.core.pages.append(Self::heat(level), &image)?)));
        }
        let at = self.core.pages.allocate()?;
        self.core.pages.put(at, &image)?;
        Ok((first, Ptr::change(at)))
    }

    fn load_heads(&mut self, level: usize, pieces: &[Piece]) -> Result<Vec<(Vec<u8>, Lba)>> {
        let mut heads = Vec::new();
        for group in even_groups(pieces, self.core.shape.head_slots) {
            let slot = |(key, ptr): &Piece| [&key[..], &ptr.encode()].concat();
            let slots: Vec<u8> = group.iter().flat_map(slot).collect();
            let at = self.core.pages.allocate()?;
            self.core.pages.put(at, &self.head_image(level, &slots))?;
            heads.push((group[0].0.clone(), at));
        }
        Ok(heads)
    }

    fn load_interiors(&mut self, level: usize, heads: &[(Vec<u8>, Lba)]) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        for group in even_groups(heads, self.core.shape.interior_slots) {
            let record = |(key, at): &(Vec<u8>, Lba)| [&key[..], &at.0.to_le_bytes()].concat();
            let records: Vec<u8> = group.iter().flat_map(record).collect();
            pieces.push(self.load_body(level, &records)?);
        }
        Ok(pieces)
    }
}

/// As few groups of at most `most` as there can be, their sizes differing by at most one: no head
/// is less than half full unless it is alone.
fn even_groups<T>(items: &[T], most: usize) -> impl Iterator<Item = &[T]> {
    let groups = items.len().div_ceil(most);
    debug_assert!(groups <= 1 || items.len() / groups >= most / 2, "groups less than half full");
    (0..groups).map(move |g| &items[g * items.len() / groups..(g + 1) * items.len() / groups])
}
