//! Walks a tree: every invariant of the module's page, a census, and the set of reachable pages.

use std::collections::BTreeSet;

use littoral_base::units::Lba;
use littoral_store::pages::{NO_PAGE, Pages};

use super::Zb;
use super::state::{BodyView, HeadView, Ptr, State};
use crate::Result;
use crate::layout::{self, PageKind};
use crate::tree::{Bounds, check_kind, claim, ensure};

/// What a walk counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Records.
    pub records: u64,
    /// Heads of all levels.
    pub heads: u64,
    /// Of them, below half full and not the top.
    pub heads_underfull: u64,
    /// Bodies in state Change, Steady and After; leaves first, then interior pages.
    pub bodies: [[u64; 3]; 2],
    /// Logs of leaves and of interior pages.
    pub logs: [u64; 2],
    /// Every page in use.
    pub pages: BTreeSet<Lba>,
}

/// A walk: what it counted, and whether it stops above the leaves.
#[derive(Default)]
struct Walk {
    census: Census,
    skips_leaves: bool,
}

impl<P: Pages> Zb<P> {
    /// Walks the whole tree and checks every invariant; nothing is changed.
    ///
    /// # Errors
    /// `Kind::Corrupt` naming the first page that breaks a rule and the rule.
    pub fn check(&self) -> Result<Census> {
        let census = self.walk(false)?;
        self.core.check_count(census.records)?;
        Ok(census)
    }

    fn walk(&self, skips_leaves: bool) -> Result<Census> {
        let mut walk = Walk { skips_leaves, ..Walk::default() };
        let level = self.core.root.height as usize;
        self.check_head(self.core.root.top, level, true, Bounds::default(), &mut walk)?;
        Ok(walk.census)
    }

    fn check_head(
        &self,
        at: Lba,
        level: usize,
        is_top: bool,
        bounds: Bounds<'_>,
        walk: &mut Walk,
    ) -> Result<()> {
        claim(&mut walk.census.pages, at)?;
        walk.census.heads += 1;
        ensure(self.core.pages.is_conventional(at), at, || {
            "a head outside conventional zones".into()
        })?;
        let page = self.core.pages.peek(at)?;
        check_kind(at, &page, PageKind::Head, level)?;
        let view = HeadView::new(&self.core.shape, &page);
        let count = view.count();
        let within = (1..=self.core.shape.head_slots).contains(&count);
        ensure(within, at, || format!("{count} slots of {}", self.core.shape.head_slots))?;
        // One that was alone when it fell below half may have got siblings since, by a merge above.
        walk.census.heads_underfull += u64::from(!is_top && count < self.core.shape.head_slots / 2);
        let keys: Vec<&[u8]> = (0..count).map(|i| view.key(i)).collect();
        bounds.check_all(at, &keys, 1)?;
        for i in 0..count {
            let ptr = view.ptr(i).ok_or_else(|| Self::damaged(at, i))?;
            let may_be_empty = is_top && level == 0 && count == 1;
            self.check_body(ptr, level, may_be_empty, bounds.child(count, i, |i| keys[i]), walk)?;
        }
        Ok(())
    }

    fn check_body(
        &self,
        ptr: Ptr,
        level: usize,
        may_be_empty: bool,
        bounds: Bounds<'_>,
        walk: &mut Walk,
    ) -> Result<()> {
        claim(&mut walk.census.pages, ptr.body)?;
        if level == 0 && walk.skips_leaves {
            return if ptr.has_log() { claim(&mut walk.census.pages, ptr.log) } else { Ok(()) };
        }
        let view = self.again(level, ptr)?;
        let page = self.core.pages.peek(ptr.body)?;
        check_kind(ptr.body, &page, view.body.kind(), level)?;
        self.check_state(ptr, &view, may_be_empty)?;
        let class = usize::from(level > 0);
        walk.census.bodies[class][ptr.state as usize - 1] += 1;
        if ptr.has_log() {
            claim(&mut walk.census.pages, ptr.log)?;
            walk.census.logs[class] += 1;
        }
        let live: Vec<usize> = (0..view.slots()).filter(|&i| view.is_live(i)).collect();
        let keys: Vec<&[u8]> = live.iter().map(|&i| view.key(i)).collect();
        bounds.check_all(ptr.body, &keys, view.body.first_compared())?;
        if level == 0 {
            walk.census.records += live.len() as u64;
            return Ok(());
        }
        for (n, &i) in live.iter().enumerate() {
            let part = bounds.child(keys.len(), n, |n| keys[n]);
            self.check_head(view.child(i), level - 1, false, part, walk)?;
        }
        Ok(())
    }

    fn check_state(&self, ptr: Ptr, view: &BodyView<'_>, may_be_empty: bool) -> Result<()> {
        let (slots, full) = (view.slots(), view.body.slots);
        let is_conventional = self.core.pages.is_conventional(ptr.body);
        let state = ptr.state;
        let deleted = slots - view.live_count();
        let tagged = (0..slots).filter(|&i| !view.is_untagged(i)).count();
        // Leaves may be sealed before they are full (repair 18), interior pages never are.
        let is_leaf = view.body.level == 0;
        let sealed = slots == full || (is_leaf && (1..full).contains(&slots));
        let holds = match state {
            State::Change => {
                let least = usize::from(!may_be_empty);
                is_conventional && !ptr.has_log() && (least..full).contains(&slots)
            }
            State::Steady => !is_conventional && sealed && deleted == 0 && tagged < slots,
            State::After => !is_conventional && sealed && ptr.has_log() && tagged < slots,
        };
        let text = || {
            format!(
                "{state:?} with {slots} of {full} slots, {deleted} deleted, {tagged} in its log"
            )
        };
        ensure(holds && tagged == view.tagged(), ptr.body, text)?;
        let log_holds = ptr.log == NO_PAGE || {
            let log = self.core.pages.peek(ptr.log)?;
            layout::kind(&log) == Some(PageKind::Log) && layout::base_count(&log) == slots
        };
        let placed = ptr.log == NO_PAGE || self.core.pages.is_conventional(ptr.log);
        ensure(log_holds && placed, ptr.log, || "not this body's log".into())
    }

    /// Every page in use, read from heads and interior bodies alone: leaves are not read. What is
    /// read is checked as by [`Zb::check`].
    ///
    /// # Errors
    /// `Kind::Corrupt` naming the first page that breaks a rule and the rule.
    pub fn reachable(&self) -> Result<BTreeSet<Lba>> {
        self.walk(true).map(|census| census.pages)
    }
}
