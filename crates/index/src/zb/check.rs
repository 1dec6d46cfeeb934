//! Walks a tree: every invariant of the module's page, a census, and the set of reachable pages.

use std::collections::BTreeSet;

use littoral_base::units::Lba;
use littoral_store::pages::{NO_PAGE, Pages};

use super::Zb;
use super::state::{BodyView, HeadView, Ptr, State};
use crate::layout::{self, PageKind};
use crate::{Error, Kind, Result};

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

/// The keys a page may hold: `[low, high)`, open where `None`.
#[derive(Clone, Default)]
struct Bounds {
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

impl Bounds {
    fn holds(&self, key: &[u8]) -> bool {
        let above = self.low.as_deref().is_none_or(|l| key >= l);
        above && self.high.as_deref().is_none_or(|h| key < h)
    }

    /// The bounds of child `i` when `keys` are all separators, the first one being First.
    fn child(&self, keys: &[Vec<u8>], i: usize) -> Bounds {
        let low = if i == 0 { self.low.clone() } else { Some(keys[i].clone()) };
        let high = keys.get(i + 1).cloned().or_else(|| self.high.clone());
        Bounds { low, high }
    }
}

/// A walk: what it counted, and whether it stops above the leaves.
#[derive(Default)]
struct Walk {
    census: Census,
    skips_leaves: bool,
}

fn wrong(at: Lba, what: impl std::fmt::Display) -> Error {
    Error::new(Kind::Corrupt, format!("page {at}: {what}")).at_page(at.0)
}

fn ensure(holds: bool, at: Lba, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(wrong(at, what())) }
}

impl<P: Pages> Zb<P> {
    /// Walks the whole tree and checks every invariant; nothing is changed.
    ///
    /// # Errors
    /// `Kind::Corrupt` naming the first page that breaks a rule and the rule.
    pub fn check(&self) -> Result<Census> {
        let census = self.walk(false)?;
        let (found, known) = (census.records, self.root.records);
        let text = || format!("{found} records found where the root counts {known}");
        ensure(found == known, self.root.top, text)?;
        Ok(census)
    }

    fn walk(&self, skips_leaves: bool) -> Result<Census> {
        let mut walk = Walk { skips_leaves, ..Walk::default() };
        let level = self.root.height as usize;
        self.check_head(self.root.top, level, true, &Bounds::default(), &mut walk)?;
        Ok(walk.census)
    }

    fn claim(walk: &mut Walk, at: Lba) -> Result<()> {
        ensure(walk.census.pages.insert(at), at, || "used twice".to_owned())
    }

    fn check_head(
        &self,
        at: Lba,
        level: usize,
        is_top: bool,
        bounds: &Bounds,
        walk: &mut Walk,
    ) -> Result<()> {
        Self::claim(walk, at)?;
        walk.census.heads += 1;
        ensure(self.pages.is_conventional(at), at, || "a head outside conventional zones".into())?;
        let page = self.pages.peek(at)?;
        let proper =
            layout::kind(&page) == Some(PageKind::Head) && layout::level(&page) as usize == level;
        ensure(proper, at, || format!("not a head of level {level}"))?;
        let view = HeadView::new(&self.shape, &page);
        let count = view.count();
        let within = (1..=self.shape.head_slots).contains(&count);
        ensure(within, at, || format!("{count} slots of {}", self.shape.head_slots))?;
        // One that was alone when it fell below half may have got siblings since, by a merge above.
        walk.census.heads_underfull += u64::from(!is_top && count < self.shape.head_slots / 2);
        let keys: Vec<Vec<u8>> = (0..count).map(|i| view.key(i).to_vec()).collect();
        check_order(at, &keys, 1, bounds)?;
        for i in 0..count {
            let ptr = view.ptr(i).ok_or_else(|| Self::damaged(at, i))?;
            let may_be_empty = is_top && level == 0 && count == 1;
            self.check_body(ptr, level, may_be_empty, &bounds.child(&keys, i), walk)?;
        }
        Ok(())
    }

    fn check_body(
        &self,
        ptr: Ptr,
        level: usize,
        may_be_empty: bool,
        bounds: &Bounds,
        walk: &mut Walk,
    ) -> Result<()> {
        Self::claim(walk, ptr.body)?;
        if level == 0 && walk.skips_leaves {
            return if ptr.has_log() { Self::claim(walk, ptr.log) } else { Ok(()) };
        }
        let view = self.again(level, ptr)?;
        let page = self.pages.peek(ptr.body)?;
        let wanted = if level == 0 { PageKind::Leaf } else { PageKind::Interior };
        let proper = layout::kind(&page) == Some(wanted) && layout::level(&page) as usize == level;
        ensure(proper, ptr.body, || format!("not a body of level {level}"))?;
        self.check_state(ptr, &view, may_be_empty)?;
        let class = usize::from(level > 0);
        walk.census.bodies[class][ptr.state as usize - 1] += 1;
        if ptr.has_log() {
            Self::claim(walk, ptr.log)?;
            walk.census.logs[class] += 1;
        }
        let live: Vec<usize> = (0..view.slots()).filter(|&i| view.is_live(i)).collect();
        let keys: Vec<Vec<u8>> = live.iter().map(|&i| view.key(i).to_vec()).collect();
        check_order(ptr.body, &keys, usize::from(level > 0), bounds)?;
        if level == 0 {
            walk.census.records += live.len() as u64;
            return Ok(());
        }
        for (n, &i) in live.iter().enumerate() {
            self.check_head(view.child(i), level - 1, false, &bounds.child(&keys, n), walk)?;
        }
        Ok(())
    }

    fn check_state(&self, ptr: Ptr, view: &BodyView<'_>, may_be_empty: bool) -> Result<()> {
        let (slots, full) = (view.slots(), view.body.slots);
        let is_conventional = self.pages.is_conventional(ptr.body);
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
            let log = self.pages.peek(ptr.log)?;
            layout::kind(&log) == Some(PageKind::Log) && layout::base_count(&log) == slots
        };
        let placed = ptr.log == NO_PAGE || self.pages.is_conventional(ptr.log);
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

fn check_order(at: Lba, keys: &[Vec<u8>], first: usize, bounds: &Bounds) -> Result<()> {
    let compared = &keys[first.min(keys.len())..];
    ensure(compared.is_sorted_by(|a, b| a < b), at, || "keys out of order".to_owned())?;
    let outside = compared.iter().find(|k| !bounds.holds(k));
    ensure(outside.is_none(), at, || format!("key {outside:02x?} outside the page's range"))
}
