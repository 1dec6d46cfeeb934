//! A walk over a damaged tree: what cannot be read is missed with its range of keys.

use littoral_base::units::Lba;
use littoral_store::pages::Pages;

use super::Zb;
use super::state::{HeadView, Ptr};
use crate::layout::{self, PageKind};
use crate::salvage::{Gathered, Range};
use crate::{Error, Kind, Result};

/// The bounds of child `i` of a page whose separators are `keys`; the first one is First.
fn part(range: &Range, keys: &[Vec<u8>], i: usize) -> Range {
    let from = if i == 0 { range.0.clone() } else { Some(keys[i].clone()) };
    (from, keys.get(i + 1).cloned().or_else(|| range.1.clone()))
}

impl<P: Pages> Zb<P> {
    /// Gives every record that can be read to `out`.
    pub(crate) fn salvage(&self, out: &mut Gathered<'_>) {
        self.salvage_head(self.root.top, self.root.height as usize, &(None, None), out);
    }

    fn salvage_head(&self, at: Lba, level: usize, range: &Range, out: &mut Gathered<'_>) {
        let slots = out.claim(at).and_then(|()| self.slots_of(at, level));
        let (keys, ptrs) = match slots {
            Ok(slots) => slots,
            Err(e) => return out.miss(range, &e),
        };
        for (i, ptr) in ptrs.iter().enumerate() {
            self.salvage_body(*ptr, level, &part(range, &keys, i), out);
        }
    }

    fn slots_of(&self, at: Lba, level: usize) -> Result<(Vec<Vec<u8>>, Vec<Ptr>)> {
        let page = self.pages.read(at)?;
        if layout::kind(&page) != Some(PageKind::Head) || layout::level(&page) as usize != level {
            let text = format!("page {at}: not a head of level {level}");
            return Err(Error::new(Kind::Corrupt, text).at_page(at.0));
        }
        let view = HeadView::new(&self.shape, &page);
        let keys = (0..view.count()).map(|i| view.key(i).to_vec()).collect();
        let ptrs = (0..view.count()).map(|i| view.ptr(i).ok_or_else(|| Self::damaged(at, i)));
        Ok((keys, ptrs.collect::<Result<_>>()?))
    }

    fn salvage_body(&self, ptr: Ptr, level: usize, range: &Range, out: &mut Gathered<'_>) {
        let view = match out.claim(ptr.body).and_then(|()| self.load(level, ptr)) {
            Ok(view) => view,
            Err(e) => return out.miss(range, &e),
        };
        let live: Vec<usize> = (0..view.slots()).filter(|&i| view.is_live(i)).collect();
        if level == 0 {
            for &i in &live {
                out.take(range, view.key(i), view.payload(i));
            }
            return;
        }
        let keys: Vec<Vec<u8>> = live.iter().map(|&i| view.key(i).to_vec()).collect();
        for (n, &i) in live.iter().enumerate() {
            self.salvage_head(view.child(i), level - 1, &part(range, &keys, n), out);
        }
    }
}
