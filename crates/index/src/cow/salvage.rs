//! A walk over a damaged tree: what cannot be read is missed with its range of keys.

use littoral_base::units::Lba;
use littoral_store::pages::Pages;

use super::{Cow, child};
use crate::gathered::Gathered;
use crate::layout;
use crate::tree::Bounds;

impl<P: Pages> Cow<P> {
    /// Gives every record that can be read to `out`.
    pub(crate) fn salvage(&self, out: &mut Gathered<'_>) {
        let root = self.core.pages.root();
        self.salvage_page(root.top, root.height as usize, Bounds::default(), out);
    }

    fn salvage_page(&self, at: Lba, level: usize, bounds: Bounds<'_>, out: &mut Gathered<'_>) {
        let page = match out.claim(at).and_then(|()| self.page_of(at, level)) {
            Ok(page) => page,
            Err(e) => return out.miss(bounds, &e),
        };
        let (body, n) = (self.core.body(level), layout::count(&page));
        if level == 0 {
            for i in 0..n {
                let (key, value) = body.record(&page, i).split_at(body.key);
                out.take(bounds, key, value);
            }
            return;
        }
        for i in 0..n {
            let part = bounds.child(n, i, |i| body.key(&page, i));
            self.salvage_page(child(&body, &page, i), level - 1, part, out);
        }
    }
}
