//! Room for an operation, made before it changes anything: leaves sealed, zones collected.
//!
//! - The store says what is left and for whom ([`littoral_store::room`]); this file gets more.
//! - Conventional pages come back by sealing leaves (repair 18 of `docs/design/zb-tree.md`). A leaf
//!   with a log gives its log back and needs no further block: its old body is garbage. A leaf
//!   without one moves from one class to the other. So overwrites and deletions, which take
//!   nothing but logs, seal leaves with logs, and what inserts leave keeps them going for ever.
//! - Sealing that makes more blocks live stops where inserts would be refused.
//! - An insert is refused only after neighbouring leaves that fit one page were put together, heads
//!   and interior pages made dense, and leaves put together of which several fit one page fewer, as
//!   many as deletions left room for. So it finds room after a third of the records were deleted.
//!   Checked by `deletions_bring_back_room_whatever_order_filled_the_device`.
//! - A page that cannot be read or changed costs the room that it would give: its zone or its head
//!   is passed over. Checked by `a_zone_with_an_unreadable_page_is_left_and_others_are_emptied`,
//!   `leaves_under_other_heads_than_an_unreadable_one_are_sealed`.
//! - Recovery knows nothing of this: each step is an operation like any other.

use std::collections::VecDeque;

use littoral_base::mutant;
use littoral_device::zoned::ZonedDevice;
use littoral_store::gc;
use littoral_store::pages::Pages as _;
use littoral_store::room::Demand;
use littoral_store::store::Store;

use super::{Index, Tree};
use crate::layout::Shape;
use crate::tree::is_damage;
use crate::zb::{Allowance, Made, Rule};
use crate::{Error, Kind, Result};

/// Zones emptied for one operation at most. One gives a block or more, so this many give what an
/// operation and a search for leaves need.
const COLLECT_STEPS: u32 = 64;

/// Pages that one search for leaves to seal gives back at best.
const RELIEF_PAGES: u64 = 32;

/// Pages freed before their room is given to a full host.
const HOST_PAGES: u64 = 128;

/// Bytes of a host's block: holes of fewer give nothing back.
const HOST_BLOCK_BYTES: usize = 4096;

/// Keys remembered whose leaves are likely to have logs.
const TOUCHED_KEYS: usize = 256;

/// What the search for room remembers.
#[derive(Debug)]
pub(super) struct Room {
    /// Where the next search for leaves to seal begins.
    sweep: Vec<u8>,
    /// Keys that were overwritten or deleted of late: where logs are.
    touched: VecDeque<Vec<u8>>,
    /// Whether nothing could be put together since the last deletion.
    is_packed: bool,
    /// Records that deletions may have left room for in leaves, less those of the pages that
    /// [`Index::pack_windows`] has saved; unknown of a store that was opened. Without the bound,
    /// inserts into a full device split what was put together, and each pays for it again.
    sparse: Option<u64>,
    /// Whether the leaves with logs, on a full host, are those of the keys remembered.
    is_unlogged: bool,
    /// Why a head was passed over for the operation at hand: the error where no room is found.
    passed: Option<Error>,
}

impl Room {
    pub(super) fn new(shape: &Shape) -> Room {
        Room {
            sweep: vec![0; shape.key_bytes],
            touched: VecDeque::new(),
            is_packed: false,
            sparse: None,
            is_unlogged: false,
            passed: None,
        }
    }

    /// Takes note that nothing was ever deleted.
    pub(super) fn set_new(&mut self) {
        self.sparse = Some(0);
    }

    /// A page was saved where deletions left room for so many records.
    fn spend(&mut self, records: u64) {
        let records = if mutant!("index_windows_without_end") { 0 } else { records };
        self.sparse = self.sparse.map(|n| n.saturating_sub(records));
    }

    /// Takes note of the key of an operation that is about to run.
    pub(super) fn touch(&mut self, demand: Demand, key: &[u8]) {
        if demand == Demand::Insert {
            return;
        }
        self.is_packed &= demand != Demand::Delete;
        self.sparse = self.sparse.map(|n| n + u64::from(demand == Demand::Delete));
        if self.touched.len() == TOUCHED_KEYS {
            self.touched.pop_front();
        }
        self.touched.push_back(key.to_vec());
    }
}

/// Empty zones that the collector of a copy-on-write tree keeps of `zones` zones. Keeping many
/// shares the inner pages that are written with what is moved; keeping few leaves more for records.
/// The root of the least number of children balances both.
pub(super) fn zones_kept(zones: u64, shape: &Shape) -> u64 {
    let children = (shape.interior_slots / 2).max(2) as f64;
    ((zones as f64 / children.sqrt()).round() as u64).clamp(1, (zones / 4).max(1))
}

/// Inner pages that a copy-on-write tree of `pages` pages has at most, after it has grown by a
/// layer: all but the root are half full at least.
fn inner_pages_max(pages: u64, layers: u32, shape: &Shape) -> u64 {
    let children = (shape.interior_slots / 2).max(2) as u64;
    let layer = |above: u32| pages / children.saturating_pow(above) + 1;
    (1..=layers).map(layer).sum()
}

fn no_room() -> Error {
    Error::new(Kind::Full, "no room for another record; delete some, or use a larger medium")
}

/// `false` for want of room; other errors stay errors.
fn room_or<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(e) if e.kind() == Kind::Full => Ok(None),
        other => other.map(Some),
    }
}

impl<D: ZonedDevice> Index<D> {
    /// Pages that the next operation may need: conventional ones, sequential ones.
    pub(super) fn needs(&self) -> (u64, u64) {
        let layers = u64::from(self.layers());
        match self.tree {
            Tree::Zb(_) => (2 * layers + 2, layers + 1),
            Tree::Cow(_) => (0, 2 * layers + 2),
        }
    }

    /// What a put does: it is looked up only when there is no room for an insert.
    pub(super) fn demand_of_put(&self, key: &[u8]) -> Result<Demand> {
        let (conventional, sequential) = self.needs();
        let store = self.store_ref();
        if mutant!("index_overwrite_as_insert") {
            return Ok(Demand::Insert);
        }
        let plenty = match self.tree {
            Tree::Zb(_) => {
                store.has_conventional_room(conventional, Demand::Insert)
                    && store.has_sequential_room(sequential)
                    && store.spare_blocks(Demand::Insert) >= sequential
            }
            Tree::Cow(_) => self.has_room_to_grow(),
        };
        if plenty || self.get(key)?.is_none() {
            return Ok(Demand::Insert);
        }
        Ok(Demand::Update)
    }

    /// Whether the collector finds zones to empty after one more insert, wherever the pages of the
    /// copy-on-write tree lie: all inner pages but the fewest may be ancestors of what it moves.
    fn has_room_to_grow(&self) -> bool {
        let (need, store) = (self.needs().1, self.store_ref());
        let live = store.live_blocks() + need;
        let inner = inner_pages_max(live, self.layers(), self.shape());
        // Twice the need: what the collection gains, and what it leaves in zones that were open.
        live <= store.live_max_together(inner + 2 * need)
    }

    /// Seals leaves and collects zones until the operation has room.
    pub(super) fn make_room(&mut self, demand: Demand) -> Result<()> {
        self.room.passed = None;
        match self.find_room(demand) {
            Err(e) if e.kind() == Kind::Full => Err(self.room.passed.take().unwrap_or(e)),
            made => made,
        }
    }

    fn find_room(&mut self, demand: Demand) -> Result<()> {
        self.make_host_room(demand)?;
        let (conventional, sequential) = self.needs();
        if matches!(self.tree, Tree::Cow(_)) {
            let may_grow = demand != Demand::Insert || self.has_room_to_grow();
            return if may_grow && self.collect_until(sequential)? {
                Ok(())
            } else {
                Err(no_room())
            };
        }
        self.make_conventional_room(conventional, demand)?;
        if demand == Demand::Insert {
            self.make_spare_blocks(sequential)?;
        }
        self.make_sequential_room(sequential, demand)?;
        let has_both = |store: &Store<D>| {
            store.has_conventional_room(conventional, demand)
                && store.has_sequential_room(sequential)
        };
        debug_assert!(has_both(self.store_ref()), "room that was made is taken");
        Ok(())
    }

    /// While the host is full the room of garbage and of logs is given back to it; only deletions
    /// go on with what the store has kept.
    fn make_host_room(&mut self, demand: Demand) -> Result<()> {
        let is_unmet = mutant!("index_puts_on_a_full_host");
        if is_unmet || self.store_mut().give_dead_pages_back()? {
            return Ok(());
        }
        if demand == Demand::Delete && self.seals_for_host()? {
            return Ok(());
        }
        // Emptying a zone gives the host nothing where its dead blocks were given back one by one.
        if self.store_ref().page_bytes() < HOST_BLOCK_BYTES {
            self.collect(false)?;
        }
        if demand == Demand::Delete || self.gets_host_room()? {
            return Ok(());
        }
        let text = "the host's file system is full; delete records, or make room there";
        Err(Error::new(Kind::Full, text))
    }

    /// Seals leaves with logs and gives the room of the logs' pages to a full host: a deletion may
    /// take such a page, which no garbage makes up for. Whether the host has room then.
    fn seals_for_host(&mut self) -> Result<bool> {
        if matches!(self.tree, Tree::Cow(_)) || mutant!("index_logs_keep_host_room") {
            return Ok(false);
        }
        let (before, written) = self.pages_free_and_written();
        let step = self.store_ref().host_step_blocks();
        let is_enough = |index: &Self| {
            let (free, now) = index.pages_free_and_written();
            free >= before + step.min(HOST_PAGES) || now >= written + step
        };
        self.seal_touched(is_enough)?;
        if !is_enough(self) && !self.room.is_unlogged {
            self.seal(Rule::Logged, Demand::Delete, is_enough)?;
            self.room.is_unlogged = !is_enough(self);
        }
        if self.pages_free_and_written().0 > before {
            self.store_mut().checkpoint()?;
        }
        self.store_mut().give_dead_pages_back()
    }

    /// Conventional pages that are free, and pages appended so far.
    fn pages_free_and_written(&self) -> (u64, u64) {
        let store = self.store_ref();
        (store.conventional_blocks().0, store.counts().tree_blocks)
    }

    /// Puts leaves together and gives the room of the pages that this frees to the host; whether
    /// the host has room then. Not again before a deletion when nothing was found.
    fn gets_host_room(&mut self) -> Result<bool> {
        while !self.store_mut().give_dead_pages_back()? {
            if self.room.is_packed {
                return Ok(false);
            }
            // What is put together takes the spare blocks until its room is given back.
            let step = self.store_ref().host_step_blocks();
            let (before, written) = self.pages_free_and_written();
            self.pack(|index| {
                let (free, now) = index.pages_free_and_written();
                free >= before + HOST_PAGES || now >= written + step
            })?;
            self.store_mut().checkpoint()?;
        }
        Ok(true)
    }

    /// Collects zones, but only when there is no room: a zone that is emptied later holds fewer
    /// live pages, so fewer are copied. For an overwrite one is emptied, by cost-benefit, already
    /// when its pages would else fill up a zone of moved ones: pages that are written often stay
    /// apart from those that are not, which leaves more garbage in fewer zones.
    fn make_sequential_room(&mut self, pages: u64, demand: Demand) -> Result<()> {
        let pages = if mutant!("index_collects_early") { 16 * pages } else { pages };
        let apart = demand == Demand::Update && !mutant!("index_overwrites_fill_moved_zones");
        if apart && self.store_ref().would_fill_moved_zones() {
            match self.collect(false) {
                Err(e) if !is_damage(&e) => return Err(e),
                // Room does not depend on it.
                _ => {}
            }
        }
        if self.collect_until(pages)? { Ok(()) } else { Err(no_room()) }
    }

    /// Collects zones until `pages` can be appended; whether they can.
    fn collect_until(&mut self, pages: u64) -> Result<bool> {
        for _ in 0..COLLECT_STEPS {
            if self.store_ref().has_sequential_room(pages) || !self.collect(true)? {
                break;
            }
        }
        Ok(self.store_ref().has_sequential_room(pages))
    }

    /// Empties one zone, or several together; whether any could be. Zones with pages that cannot be
    /// moved are passed over; where there are no others, the first such page is the error.
    fn collect(&mut self, is_urgent: bool) -> Result<bool> {
        let mut unreadable = None;
        loop {
            let step = room_or(gc::step(self, is_urgent));
            if !matches!(step, Ok(Some(_))) {
                self.undo();
            }
            match step {
                Err(e) if is_damage(&e) => {
                    if !gc::shun(self)? {
                        return Err(e);
                    }
                    unreadable = unreadable.or(Some(e));
                }
                Ok(Some(true)) => return Ok(true),
                step => {
                    let found = step?.unwrap_or(false);
                    return unreadable.map_or(Ok(found), Err);
                }
            }
        }
    }

    /// Puts leaves together until an insert leaves enough blocks that are not live.
    fn make_spare_blocks(&mut self, pages: u64) -> Result<()> {
        let has_spare = |index: &Self| index.store_ref().spare_blocks(Demand::Insert) >= pages;
        if !has_spare(self) && self.sparse_pages() == 0 {
            self.pack(has_spare)?;
        } else if !has_spare(self) {
            self.pack_all(has_spare)?;
        }
        if has_spare(self) { Ok(()) } else { Err(no_room()) }
    }

    /// Seals leaves until the operation has conventional pages.
    fn make_conventional_room(&mut self, pages: u64, demand: Demand) -> Result<()> {
        // A tree that writes nothing in place asks for nothing, worn as those zones may be.
        let has_room =
            |index: &Self| pages == 0 || index.store_ref().has_conventional_room(pages, demand);
        if has_room(self) || matches!(self.tree, Tree::Cow(_)) {
            return if has_room(self) { Ok(()) } else { Err(no_room()) };
        }
        let relieved =
            |index: &Self| index.store_ref().has_conventional_room(pages + RELIEF_PAGES, demand);
        if self.store_ref().is_tight() && demand != Demand::Insert {
            self.seal_touched(relieved)?;
        } else {
            self.seal(Rule::Filled, Demand::Insert, relieved)?;
        }
        for rule in [Rule::Logged, Rule::Filled, Rule::Every] {
            if !has_room(self) {
                self.seal(rule, demand, has_room)?;
            }
        }
        if !has_room(self) {
            self.pack_all(has_room)?;
        }
        if has_room(self) { Ok(()) } else { Err(no_room()) }
    }

    /// Seals the leaves with logs where keys were overwritten or deleted of late.
    fn seal_touched(&mut self, is_enough: impl Fn(&Self) -> bool) -> Result<()> {
        while !is_enough(self) {
            let Some(key) = self.room.touched.pop_front() else { return Ok(()) };
            let Some(allowed) = self.allowance(Rule::Logged, Demand::Update)? else {
                return Ok(());
            };
            self.seal_under(&key, Rule::Logged, allowed)?;
        }
        Ok(())
    }

    /// Seals leaves by one rule, head by head from where the last search ended, until it is enough
    /// or every head was seen.
    fn seal(
        &mut self,
        rule: Rule,
        demand: Demand,
        is_enough: impl Fn(&Self) -> bool,
    ) -> Result<()> {
        let begin = self.room.sweep.clone();
        let mut wrapped = false;
        while !(is_enough(self) || wrapped && self.room.sweep > begin) {
            let Some(allowed) = self.allowance(rule, demand)? else { return Ok(()) };
            let from = self.room.sweep.clone();
            match self.seal_under(&from, rule, allowed)? {
                Some(Some(next)) => self.room.sweep = next,
                Some(None) if wrapped => return Ok(()),
                Some(None) => {
                    wrapped = true;
                    self.room.sweep.fill(0);
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Puts neighbouring leaves together where that makes no further block live, until it is enough
    /// or every head was seen; not again before a deletion when nothing was found.
    fn pack(&mut self, is_enough: impl Fn(&Self) -> bool) -> Result<()> {
        if !self.room.is_packed {
            self.seal(Rule::Packed, Demand::Update, &is_enough)?;
            self.room.is_packed = !is_enough(self);
        }
        Ok(())
    }

    /// Puts leaves together as [`Self::pack`] does, then heads and interior pages, which makes more
    /// leaves neighbours; after deletions also leaves of which several fit one page fewer, as many
    /// as the deletions left room for: that step does not slow down a device that is only filled.
    fn pack_all(&mut self, is_enough: impl Fn(&Self) -> bool) -> Result<()> {
        loop {
            self.pack(&is_enough)?;
            if is_enough(self) {
                return Ok(());
            }
            let is_changed = self.make_dense(&is_enough)? || self.pack_windows(&is_enough)?;
            if !is_changed {
                self.room.sparse = Some(0);
                return Ok(());
            }
            self.room.is_packed = false;
        }
    }

    /// Pages that are saved at most where deletions left leaves sparse.
    fn sparse_pages(&mut self) -> u64 {
        let slots = self.shape().leaf_slots as u64;
        let unknown = || (self.live_pages() * slots).saturating_sub(self.len());
        let sparse = self.room.sparse.unwrap_or_else(unknown);
        self.room.sparse = Some(sparse);
        sparse / slots
    }

    /// Pages that hold something.
    fn live_pages(&self) -> u64 {
        let (free, conventional) = self.store_ref().conventional_blocks();
        conventional - free + self.store_ref().sequential_blocks().0
    }

    /// Puts leaves together of which several fit one page fewer, if deletions may have left such;
    /// whether there were any.
    fn pack_windows(&mut self, is_enough: impl Fn(&Self) -> bool) -> Result<bool> {
        let mut is_changed = false;
        while self.sparse_pages() > 0
            && !is_enough(self)
            && !mutant!("index_leaves_packed_in_pairs_only")
        {
            let before = self.live_pages();
            let is_saved = |index: &Self| index.live_pages() < before;
            self.seal(Rule::Dense, Demand::Update, is_saved)?;
            if !is_saved(self) {
                break;
            }
            is_changed = true;
            self.room.spend(self.shape().leaf_slots as u64);
        }
        Ok(is_changed)
    }

    /// Makes heads and interior pages dense, until it is enough or there is nothing to gain;
    /// whether anything was changed.
    fn make_dense(&mut self, is_enough: impl Fn(&Self) -> bool) -> Result<bool> {
        let mut is_changed = false;
        if mutant!("index_heads_stay_half_full") {
            return Ok(is_changed);
        }
        for level in 1.. {
            let mut from = Some(vec![0; self.shape().key_bytes]);
            while let Some(key) = from.take() {
                if is_enough(self) || 2 * (level as u32 + 1) > self.layers() {
                    return Ok(is_changed);
                }
                let Some(made) = self.make_dense_under(&key, level)? else {
                    return Ok(is_changed);
                };
                is_changed |= made.is_changed;
                from = if made.is_changed { Some(key) } else { made.next };
            }
        }
        unreachable!("invariant: a tree has finitely many layers")
    }

    /// Makes one interior page or the heads under it dense; `None` for want of room.
    fn make_dense_under(&mut self, from: &[u8], level: usize) -> Result<Option<Made>> {
        let (conventional, sequential) = self.needs();
        self.collect_until(sequential)?;
        let store = self.store_ref();
        let has_room = store.has_conventional_room(conventional, Demand::Delete)
            && store.has_sequential_room(sequential);
        let Tree::Zb(tree) = &mut self.tree else { return Ok(None) };
        let made = if has_room { room_or(tree.make_dense(from, level))? } else { None };
        if made.is_none() && has_room {
            self.undo();
        }
        Ok(made)
    }

    /// What one search may use, once zones were collected for it; `None` when that is nothing.
    fn allowance(&mut self, rule: Rule, demand: Demand) -> Result<Option<Allowance>> {
        self.collect_until(RELIEF_PAGES)?;
        let store = self.store_ref();
        let appends = store.appendable_blocks().min(RELIEF_PAGES) as usize;
        let growth = store.spare_blocks(demand).min(RELIEF_PAGES) as usize;
        let allowed = match rule {
            Rule::Logged | Rule::Packed | Rule::Dense => Allowance { appends, growth: 0 },
            Rule::Filled | Rule::Every => Allowance { appends: appends.min(growth), growth },
        };
        Ok((allowed.appends > 0).then_some(allowed))
    }

    /// Seals leaves under one head; where the next head begins, or `None` for want of room.
    fn seal_under(
        &mut self,
        from: &[u8],
        rule: Rule,
        allowed: Allowance,
    ) -> Result<Option<Option<Vec<u8>>>> {
        let Tree::Zb(tree) = &mut self.tree else { return Ok(None) };
        // Asked first: what is appended for a head that cannot be changed is garbage.
        let refused = match tree.pages().has_worn_pages() {
            true => tree.head_over(from).and_then(|head| tree.pages().check_change(head)).err(),
            false => None,
        };
        let seal = || room_or(tree.seal_under_pressure(from, rule, allowed));
        let sealed = refused.map_or_else(seal, Err);
        if !matches!(sealed, Ok(Some(_))) {
            self.undo();
        }
        match sealed {
            Err(e) if is_damage(&e) => self.pass_over(from, e).map(Some),
            sealed => sealed,
        }
    }

    /// Passes over a head that cannot be changed, or of which a leaf or the way there cannot be
    /// read, so that leaves under others are sealed. Where their keys begin.
    fn pass_over(&mut self, from: &[u8], error: Error) -> Result<Option<Vec<u8>>> {
        debug_assert!(is_damage(&error), "passed over for another reason: {error}");
        let Tree::Zb(tree) = &self.tree else { return Err(error) };
        let check = |head| tree.pages().check_change(head).and_then(|()| tree.read_leaves(head));
        let is_whole = tree.head_over(from).and_then(check).is_ok();
        if is_whole || mutant!("index_sealing_ends_at_damage") {
            return Err(error);
        }
        let next = tree.past(from);
        if self.room.passed.is_none() {
            self.room.passed = Some(error);
        }
        Ok(next)
    }
}
