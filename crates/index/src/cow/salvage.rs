//! A walk over a damaged tree: what cannot be read is missed with its range of keys.

use littoral_base::units::Lba;
use littoral_store::pages::Pages;

use super::{Cow, child};
use crate::layout;
use crate::salvage::{Gathered, Range};

impl<P: Pages> Cow<P> {
    /// Gives every record that can be read to `out`.
    pub(crate) fn salvage(&self, out: &mut Gathered<'_>) {
        let root = self.pages.root();
        self.salvage_page(root.top, root.height as usize, &(None, None), out);
    }

    fn salvage_page(&self, at: Lba, level: usize, range: &Range, out: &mut Gathered<'_>) {
        let page = match out.claim(at).and_then(|()| self.page_of(at, level)) {
            Ok(page) => page,
            Err(e) => return out.miss(range, &e),
        };
        let (body, n) = (self.body(level), layout::count(&page));
        if level == 0 {
            for i in 0..n {
                let (key, value) = body.record(&page, i).split_at(body.key);
                out.take(range, key, value);
            }
            return;
        }
        for i in 0..n {
            let from = if i == 0 { range.0.clone() } else { Some(body.key(&page, i).to_vec()) };
            let next = (i + 1 < n).then(|| body.key(&page, i + 1).to_vec());
            let part = (from, next.or_else(|| range.1.clone()));
            self.salvage_page(child(&body, &page, i), level - 1, &part, out);
        }
    }
}
