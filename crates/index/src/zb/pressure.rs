//! Sealing under pressure (repair 18): leaves leave the conventional class before they are full.
//!
//! The paper does not say what happens when its conventional zone is full, and its own tables have
//! nearly every leaf there. Here the leaves under one head are written to sequential zones as they
//! stand and their logs applied, so that the conventional class bounds what is changing and not
//! what is held. A sealed leaf is Steady with fewer records than slots; its next insert takes it
//! back to a conventional page.
//!
//! - One call is one operation on one head: its dirty pages are the head and what its rebalancing
//!   touches.
//! - A leaf with a log is sealed for nothing: its old body was a sequential page too. One without
//!   makes one more sequential page live; the caller says how many may.
//! - Neighbours that fit one page together become one leaf, and up to [`WINDOW`] that fit one page
//!   fewer become one leaf fewer: every record keeps its place in the order, and the leftmost leaf
//!   keeps its separator. A page holds one leaf: several would need a second kind of address.
//! - The layers above are made dense by `zb/dense.rs`.

use std::ops::Range;

use littoral_base::mutant;
use littoral_base::units::Lba;
use littoral_store::pages::Pages;

use super::state::{HeadView, Ptr, State};
use super::{Path, Zb};
use crate::Result;

/// Which leaves are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Rule {
    /// Those with a log.
    Logged,
    /// Those with a log and those at least half full.
    Filled,
    /// Those that have not been, neighbours that fit one page together.
    Every,
    /// Neighbours that fit one page together, sealed before or not.
    Packed,
    /// Up to [`WINDOW`] neighbours that fit one page fewer, sealed before or not.
    Dense,
}

/// What one call may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Pages that may be appended.
    pub appends: usize,
    /// Sequential pages that may become live beyond those that are.
    pub growth: usize,
}

/// Most neighbours that are written anew to save one page of theirs.
const WINDOW: usize = 8;

/// Neighbouring leaves that are written anew together: one leaf, or several that become one fewer.
#[derive(Clone, Debug)]
struct Group {
    slots: Range<usize>,
    records: usize,
    /// Bodies among them in sequential zones.
    sequential: usize,
    /// Whether a conventional page comes back.
    relieves: bool,
}

impl Group {
    fn is_joint(&self) -> bool {
        self.slots.len() > 1
    }

    /// Pages that are written.
    fn pages(&self) -> usize {
        (self.slots.len() - 1).max(1)
    }

    fn growth(&self) -> usize {
        self.pages().saturating_sub(self.sequential)
    }

    fn joined(&self, next: &Group, most: usize) -> Option<Group> {
        let records = self.records + next.records;
        let fits = !self.is_joint() && records <= most && self.records.min(next.records) > 0;
        fits.then(|| self.with(next))
    }

    fn with(&self, next: &Group) -> Group {
        Group {
            slots: self.slots.start..next.slots.end,
            records: self.records + next.records,
            sequential: self.sequential + next.sequential,
            relieves: self.relieves || next.relieves,
        }
    }

    /// The fewest neighbours from the first of these on that fit one page fewer.
    fn window(leaves: &[Group], most: usize, allowed: Allowance) -> Option<Group> {
        let mut window = leaves.first()?.clone();
        for next in leaves[1..].iter().take(WINDOW - 1) {
            window = window.with(next);
            if next.records == 0 {
                return None;
            }
            if window.records <= window.pages() * most {
                let may = window.pages() <= allowed.appends && window.growth() <= allowed.growth;
                return may.then_some(window);
            }
        }
        None
    }
}

impl<P: Pages> Zb<P> {
    /// Seals leaves under the head that covers `from`. Answers where the next head's keys begin:
    /// `from` itself when this one has more to seal, `None` after the last head.
    ///
    /// # Errors
    /// `Kind::Full` when there is no room to seal them in; those of the store.
    pub fn seal_under_pressure(
        &mut self,
        from: &[u8],
        rule: Rule,
        allowed: Allowance,
    ) -> Result<Option<Vec<u8>>> {
        let beyond = self.beyond(from, 0)?;
        let mut path = self.descend(from)?;
        let groups = match rule {
            Rule::Dense => self.window_of(path[0].head, allowed)?.into_iter().collect(),
            _ => self.groups(path[0].head, rule, allowed)?,
        };
        let mut has_more = groups.len() >= allowed.appends;
        for group in groups.iter().rev() {
            has_more |= group.is_joint();
            if !self.seal_group(&mut path, group)? {
                break;
            }
        }
        if !groups.is_empty() {
            self.collapse()?;
            self.core.finish()?;
        }
        Ok(if has_more { Some(from.to_vec()) } else { beyond })
    }

    /// The separator behind the interior page of `level` that covers `key`; at level 0, behind the
    /// head.
    pub(super) fn beyond(&self, key: &[u8], level: usize) -> Result<Option<Vec<u8>>> {
        let mut beyond = None;
        self.find_beyond(key, level, &mut beyond)?;
        Ok(beyond)
    }

    /// The separator behind the head that covers `key`, or behind the first page on the way to it
    /// that cannot be read; `None` after the last.
    pub fn past(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut beyond = None;
        // What was found above a page that cannot be read counts.
        let _ = self.find_beyond(key, 0, &mut beyond);
        beyond
    }

    fn find_beyond(&self, key: &[u8], lowest: usize, beyond: &mut Option<Vec<u8>>) -> Result<()> {
        let mut head = self.core.root.top;
        for level in (1..=self.core.root.height as usize).rev() {
            let page = self.core.pages.read(head)?;
            let view = HeadView::new(&self.core.shape, &page);
            let slot = view.route(None, key);
            if slot + 1 < view.count() {
                *beyond = Some(view.key(slot + 1).to_vec());
            }
            if level == lowest {
                break;
            }
            let ptr = view.ptr(slot).ok_or_else(|| Self::damaged(head, slot))?;
            let body = self.load(level, ptr)?;
            let child = body.route(key);
            if let Some(next) = body.live_after(child) {
                *beyond = Some(body.key(next).to_vec());
            }
            head = body.child(child);
        }
        Ok(())
    }

    /// The lowest head that covers `key`.
    ///
    /// # Errors
    /// Those of the store.
    pub fn head_over(&self, key: &[u8]) -> Result<Lba> {
        Ok(self.descend(key)?[0].head)
    }

    /// Reads the leaves under one of the lowest heads.
    ///
    /// # Errors
    /// Those of the store.
    pub fn read_leaves(&self, head: Lba) -> Result<()> {
        let page = self.core.pages.read(head)?;
        let view = HeadView::new(&self.core.shape, &page);
        for slot in 0..view.count() {
            let ptr = view.ptr(slot).ok_or_else(|| Self::damaged(head, slot))?;
            self.load(0, ptr)?;
        }
        Ok(())
    }

    /// What is sealed under a head, in the order of its slots.
    fn groups(&self, head: Lba, rule: Rule, allowed: Allowance) -> Result<Vec<Group>> {
        let page = self.core.pages.read(head)?;
        let view = HeadView::new(&self.core.shape, &page);
        let most = self.core.shape.leaf_slots;
        let (mut chosen, mut growth) = (Vec::new(), allowed.growth);
        let mut last: Option<Group> = None;
        let mut choose = |group: Option<Group>| {
            let group = group.filter(|g| is_worth(g, rule) && g.growth() <= growth);
            growth -= group.as_ref().map_or(0, Group::growth);
            chosen.extend(group);
            chosen.len() >= allowed.appends
        };
        for slot in 0..view.count() {
            let ptr = view.ptr(slot).ok_or_else(|| Self::damaged(head, slot))?;
            let Some(group) = self.leaf_group(slot, ptr, rule)? else { continue };
            let pair = last.as_ref().filter(|_| rule >= Rule::Every);
            if let Some(pair) = pair.and_then(|l| l.joined(&group, most)) {
                last = Some(pair);
            } else if choose(last.replace(group)) {
                return Ok(chosen);
            }
        }
        choose(last);
        Ok(chosen)
    }

    /// The first neighbours under a head that fit one page fewer.
    fn window_of(&self, head: Lba, allowed: Allowance) -> Result<Option<Group>> {
        let page = self.core.pages.read(head)?;
        let view = HeadView::new(&self.core.shape, &page);
        let mut leaves = Vec::new();
        for slot in 0..view.count() {
            let ptr = view.ptr(slot).ok_or_else(|| Self::damaged(head, slot))?;
            leaves.extend(self.leaf_group(slot, ptr, Rule::Dense)?);
        }
        let most = self.core.shape.leaf_slots;
        Ok((0..leaves.len()).find_map(|from| Group::window(&leaves[from..], most, allowed)))
    }

    /// A leaf by itself, if the rule may choose it.
    fn leaf_group(&self, slot: usize, ptr: Ptr, rule: Rule) -> Result<Option<Group>> {
        let is_sealed = ptr.state != State::Change;
        let may = match rule {
            Rule::Logged => ptr.has_log(),
            Rule::Filled => ptr.has_log() || !is_sealed,
            Rule::Every | Rule::Packed | Rule::Dense => true,
        };
        if !may {
            return Ok(None);
        }
        let view = self.load(0, ptr)?;
        let records = view.live_count();
        let is_filled = ptr.has_log() || records * 2 >= view.body.slots;
        let group = Group {
            slots: slot..slot + 1,
            records,
            sequential: usize::from(is_sealed),
            relieves: !is_sealed || ptr.has_log(),
        };
        Ok(Some(group).filter(|_| rule != Rule::Filled || is_filled))
    }

    /// Writes a group anew at a sequential write pointer, logs applied, and frees what it replaces;
    /// whether the head is as it was otherwise.
    fn seal_group(&mut self, path: &mut Path, group: &Group) -> Result<bool> {
        let head = path[0].head;
        let (mut records, mut old) = (Vec::new(), Vec::new());
        for slot in group.slots.clone() {
            let ptr = self.head_ptr(head, slot)?;
            let view = self.again(0, ptr)?;
            records.extend(match mutant!("zb_seal_without_log") {
                true => view.body.records(&self.core.pages.peek(ptr.body)?).to_vec(),
                false => view.live_records(),
            });
            old.push(ptr);
        }
        let parts = self.core.body(0).split_evenly(&records, group.pages());
        for (n, part) in parts.into_iter().enumerate() {
            let image = self.core.body(0).image(part);
            let sealed = Ptr::steady(self.core.pages.append(Self::heat(0), &image)?);
            path[0].slot = group.slots.start + n;
            self.set_ptr(path, 0, sealed)?;
            if n > 0 {
                self.set_key(path, 0, &part[..self.core.shape.key_bytes])?;
            }
        }
        for ptr in old {
            self.core.pages.free(ptr.body);
            if ptr.has_log() {
                self.core.pages.free(ptr.log);
            }
        }
        if !group.is_joint() {
            return Ok(true);
        }
        self.remove_slot(path, 0, group.slots.end - 1)?;
        // A head that fell below half has been rebalanced, and its slots lie elsewhere.
        Ok(path.len() == 1 || path[0].head_count >= self.core.shape.head_slots / 2)
    }
}

fn is_worth(group: &Group, rule: Rule) -> bool {
    // An empty leaf is the last one of an empty tree.
    group.records > 0
        && match rule {
            Rule::Packed | Rule::Dense => group.is_joint(),
            _ => group.relieves || group.is_joint(),
        }
}
