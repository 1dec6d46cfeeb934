//! Bulk load: sorted records into leaves of even size, then the layers above, bottom up.
//!
//! Each page is written once, where inserting one by one writes a path a record. Pages of a layer
//! differ by at most one record, so none but the top is less than half full.

use littoral_base::units::Lba;
use littoral_store::pages::{Pages, Root};

use super::{Cow, Pieces};
use crate::Result;

impl<P: Pages> Cow<P> {
    /// Fills an empty tree from records sorted by key; how many there were. One operation: all of
    /// it is durable, or nothing. The records are held in memory once.
    ///
    /// # Errors
    /// `Kind::Usage` when the tree is not empty or a key does not ascend (naming its number,
    /// counted from one); `Kind::Full`; those of the store.
    pub fn bulk_load<'r>(
        &mut self,
        records: impl IntoIterator<Item = (&'r [u8], &'r [u8])>,
    ) -> Result<u64> {
        let mut order = self.core.check_load()?;
        self.reload_root();
        let mut sorted = Vec::new();
        for (key, value) in records {
            self.core.check_key(key)?;
            self.core.check_value(value)?;
            order.next(key)?;
            sorted.extend_from_slice(key);
            sorted.extend_from_slice(value);
        }
        let total = order.count;
        if total == 0 {
            return Ok(0);
        }
        let mut pieces = self.layer(0, &sorted)?;
        let mut height = 0;
        while pieces.len() > 1 {
            height += 1;
            let record = |(key, at): &(Vec<u8>, Lba)| [&key[..], &at.0.to_le_bytes()].concat();
            let records: Vec<u8> = pieces.iter().flat_map(record).collect();
            pieces = self.layer(height, &records)?;
        }
        self.core.pages.free(self.core.root.top);
        self.core.root = Root { top: pieces[0].1, height: height as u32, records: total };
        self.core.finish()?;
        Ok(total)
    }

    /// Writes records as the fewest pages of one level.
    fn layer(&mut self, level: usize, records: &[u8]) -> Result<Pieces> {
        let body = self.core.body(level);
        let n = records.len() / body.record;
        let pages = n.div_ceil(body.slots);
        let mut pieces = Pieces::with_capacity(pages);
        for page in 0..pages {
            let (from, to) = (page * n / pages, (page + 1) * n / pages);
            debug_assert!(pages == 1 || to - from >= body.slots / 2, "a page less than half full");
            let part = &records[from * body.record..to * body.record];
            pieces.push((part[..body.key].to_vec(), self.append(level, part)?));
        }
        Ok(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::cow::SplitCost;
    use crate::layout::Shape;
    use littoral_store::counted::{CountedConfig, CountedPages, Placement};

    fn tree() -> Cow<CountedPages> {
        let pages = CountedPages::new(CountedConfig {
            page_bytes: 512,
            conventional_blocks: 0,
            sequential_zones: 4,
            zone_blocks: 4096,
            placement: Placement::Dynamic,
            timing: None,
            worn_resets: vec![],
        });
        Cow::create(pages, Shape::paper(6, 4, 4), SplitCost::OneWrite).unwrap()
    }

    #[test]
    fn loaded_trees_are_trees_of_every_size() {
        for n in [0u32, 1, 2, 6, 7, 42, 43, 300, 2000] {
            let keys: Vec<[u8; 4]> = (0..n).map(|i| (2 * i).to_be_bytes()).collect();
            let mut tree = tree();
            let before = tree.pages().counts().sequential_writes_count;
            let records = keys.iter().map(|k| (&k[..], &k[..]));
            assert_eq!(tree.bulk_load(records).unwrap(), u64::from(n));
            let written = tree.pages().counts().sequential_writes_count - before;
            assert!(written <= u64::from(n.div_ceil(3)) + 1, "{n} records, {written} pages");
            tree.check().unwrap();
            for i in 0..n {
                let (key, gap) = ((2 * i).to_be_bytes(), (2 * i + 1).to_be_bytes());
                assert_eq!(tree.get(&key).unwrap(), Some(key.to_vec()));
                assert_eq!(tree.get(&gap).unwrap(), None);
            }
            for i in 0..n {
                tree.upsert(&(2 * i + 1).to_be_bytes(), &[7; 4]).unwrap();
            }
            tree.check().unwrap();
            assert_eq!(tree.len(), u64::from(2 * n));
        }
    }

    #[test]
    fn unsorted_records_and_full_trees_are_refused() {
        let mut tree = tree();
        let records = [(&[0, 0, 0, 2][..], &[0; 4][..]), (&[0, 0, 0, 1], &[0; 4])];
        let e = tree.bulk_load(records).unwrap_err();
        assert_eq!((e.kind(), e.place().record), (Kind::Usage, Some(2)), "{e}");
        assert!(tree.is_empty());
        tree.upsert(&[1; 4], &[1; 4]).unwrap();
        assert_eq!(tree.bulk_load([]).unwrap_err().kind(), Kind::Usage);
    }
}
