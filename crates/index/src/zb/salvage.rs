//! A walk over a damaged tree: what cannot be read is missed with its range of keys.

use littoral_base::units::Lba;
use littoral_store::pages::Pages;

use super::Zb;
use super::state::{HeadView, Ptr};
use crate::Result;
use crate::gathered::Gathered;
use crate::layout::PageKind;
use crate::tree::{Bounds, check_kind};

impl<P: Pages> Zb<P> {
    /// Gives every record that can be read to `out`.
    pub(crate) fn salvage(&self, out: &mut Gathered<'_>) {
        self.salvage_head(
            self.core.root.top,
            self.core.root.height as usize,
            Bounds::default(),
            out,
        );
    }

    fn salvage_head(&self, at: Lba, level: usize, bounds: Bounds<'_>, out: &mut Gathered<'_>) {
        let slots = out.claim(at).and_then(|()| self.slots_of(at, level));
        let (keys, ptrs) = match slots {
            Ok(slots) => slots,
            Err(e) => return out.miss(bounds, &e),
        };
        for (i, ptr) in ptrs.iter().enumerate() {
            self.salvage_body(*ptr, level, bounds.child(keys.len(), i, |i| &keys[i]), out);
        }
    }

    fn slots_of(&self, at: Lba, level: usize) -> Result<(Vec<Vec<u8>>, Vec<Ptr>)> {
        let page = self.core.pages.read(at)?;
        check_kind(at, &page, PageKind::Head, level)?;
        let view = HeadView::new(&self.core.shape, &page);
        let keys = (0..view.count()).map(|i| view.key(i).to_vec()).collect();
        let ptrs = (0..view.count()).map(|i| view.ptr(i).ok_or_else(|| Self::damaged(at, i)));
        Ok((keys, ptrs.collect::<Result<_>>()?))
    }

    fn salvage_body(&self, ptr: Ptr, level: usize, bounds: Bounds<'_>, out: &mut Gathered<'_>) {
        let view = match out.claim(ptr.body).and_then(|()| self.load(level, ptr)) {
            Ok(view) => view,
            Err(e) => return out.miss(bounds, &e),
        };
        let live: Vec<usize> = (0..view.slots()).filter(|&i| view.is_live(i)).collect();
        if level == 0 {
            for &i in &live {
                out.take(bounds, view.key(i), view.payload(i));
            }
            return;
        }
        let keys: Vec<&[u8]> = live.iter().map(|&i| view.key(i)).collect();
        for (n, &i) in live.iter().enumerate() {
            self.salvage_head(
                view.child(i),
                level - 1,
                bounds.child(keys.len(), n, |n| keys[n]),
                out,
            );
        }
    }
}
