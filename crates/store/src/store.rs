//! The store: pages on a zoned device, changed together or not at all.
//!
//! Life of a change: the engine appends, puts and patches pages; [`Pages::commit`] ends the
//! operation and adds its conventional changes to the pending group; [`Store::sync`] makes every
//! committed operation durable: appended pages are flushed, then the group is written to the redo
//! log and flushed. A conventional page is written in place only by a checkpoint (no-steal), so a
//! power cut can tear only pages whose images are in the redo log.
//!
//! [`crate::epoch`] writes groups and checkpoints, [`crate::replay`] reads them back.
//!
//! A checkpoint begins a new epoch: (1) the other redo zone is reset; (2) the images of all dirty
//! pages and the root become its first group; (3) the superblock names the epoch; (4) the dirty
//! pages are written in place. Each step is flushed before the next. Recovery replays the epoch
//! that the superblock names and then is itself a checkpoint; cut anywhere, it begins again from
//! the same state or from the next one (`docs/design/store.md` has the argument).
//!
//! Invariants
//! - The redo zone always has room for the images of all dirty pages. Checked by `write_group`,
//!   `a_store_that_is_killed_again_and_again_opens`.
//! - A zone is reset only when a durable state has no live page in it. Checked by `release`,
//!   `index_power_cuts`.
//! - After a failed durable write the handle is poisoned. Checked by
//!   `a_store_whose_durable_write_failed_refuses_changes`.
//! - After a failed operation [`Store::abort`] undoes what the operation changed in memory. Checked
//!   by `an_aborted_operation_leaves_pages_as_they_were_before_it`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use littoral_base::codec::{SEAL_BYTES, Writer, mend, seal, unseal};
use littoral_base::mutant;
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::refusal::Refusal;
use littoral_device::zoned::{ZoneKind, ZoneReport, ZoneState, ZonedDevice};

use crate::cache::{MEMORY_BYTES, PageCache};
use crate::drafts::Drafts;
use crate::error::{Error, Kind, Result, device};
use crate::inspect::Inspect;
use crate::pages::{Heat, Look, Opening, PageRef, Pages, Patch, Root};
use crate::plan::{self, Plan};
use crate::redo;
use crate::space::{Purpose, Space};
use crate::superblock::{self, Superblock};

/// When committed operations become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// At each commit.
    Operation,
    /// At each [`Store::sync`].
    Batch,
}

/// What a store is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// An operation of the engine's.
    Operation,
    /// Moving pages and resetting zones.
    Collection,
    /// A checkpoint.
    Checkpoint,
}

/// What a store wrote and read, in blocks and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Pages appended for the engine.
    pub tree_blocks: u64,
    /// Blocks of redo groups.
    pub redo_blocks: u64,
    /// Conventional pages written in place, and superblocks.
    pub map_blocks: u64,
    /// Pages moved by the collector.
    pub gc_blocks: u64,
    /// Zones reset by the collector.
    pub gc_resets: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Blocks read from the device.
    pub read_blocks: u64,
}

/// Conventional salt: a page copied between classes does not verify.
pub(crate) const IN_PLACE: u64 = 1 << 63;

/// What the running operation has done, to be undone if it fails.
#[derive(Debug, Default)]
struct Undo {
    pages: BTreeMap<u64, Option<Vec<u8>>>,
    allocated: Vec<Lba>,
    appended: Vec<Lba>,
    freed: Vec<Lba>,
    entries: Writer,
    root: Option<Root>,
}

/// A store on a zoned device; see the module's page.
#[derive(Debug)]
pub struct Store<D> {
    pub(crate) device: D,
    pub(crate) superblock: Superblock,
    /// The generation of the newest superblock on the medium.
    pub(crate) durable_generation: u64,
    pub(crate) redo_zones: [ZoneReport; 2],
    pub(crate) redo_at: u64,
    pub(crate) sequence: u64,
    pub(crate) space: Space,
    pub(crate) dirty: BTreeMap<u64, Vec<u8>>,
    pub(crate) cache: PageCache,
    pub(crate) memory: u64,
    pub(crate) root: Root,
    pub(crate) synced_root: Root,
    pub(crate) pending: Vec<u8>,
    pub(crate) unflushed: bool,
    undo: Undo,
    pub(crate) drafts: Drafts,
    work: Work,
    durability: Durability,
    poisoned: bool,
    read_only: bool,
    /// For repair: single flipped bits are corrected where they are read.
    pub(crate) corrects: bool,
    /// For repair: pages that could not be read when the redo log changed them.
    pub(crate) unchanged: BTreeSet<u64>,
    /// Damage that did not keep the store from being opened.
    pub(crate) notes: Vec<String>,
    is_log_cut: bool,
    /// Sequential pages freed since their room was last given to a full host; none while all
    /// garbage is in question, as before the first time.
    pub(crate) freed: Option<Vec<u64>>,
    inspector: Option<Box<dyn Inspect>>,
    /// The engine has named its pages; what is in memory since is its own.
    is_adopted: bool,
    pub(crate) counts: StoreCounts,
    reads: AtomicU64,
}

impl<D: ZonedDevice> Store<D> {
    pub(crate) fn over(dev: D, plan: Plan, superblock: Superblock) -> Store<D> {
        let block_bytes = dev.limits().block_bytes as usize;
        let mut store = Store {
            device: dev,
            durable_generation: superblock.generation,
            superblock,
            redo_zones: plan.redo,
            redo_at: 0,
            sequence: 0,
            space: plan.space,
            dirty: BTreeMap::new(),
            cache: PageCache::new(0, block_bytes, 0),
            memory: 0,
            root: Root::default(),
            synced_root: Root::default(),
            pending: Vec::new(),
            unflushed: false,
            undo: Undo::default(),
            drafts: Drafts::default(),
            work: Work::Operation,
            durability: Durability::Operation,
            poisoned: false,
            read_only: false,
            corrects: false,
            unchanged: BTreeSet::new(),
            notes: Vec::new(),
            is_log_cut: false,
            freed: None,
            inspector: None,
            is_adopted: false,
            counts: StoreCounts::default(),
            reads: AtomicU64::new(0),
        };
        store.set_memory(MEMORY_BYTES);
        store
    }

    /// Creates a store for the engine named by `engine`, whose own words are `label`; `id` tells
    /// this store from every other. One that was begun and never made is replaced
    /// ([`Store::begin`]).
    ///
    /// # Errors
    /// `Kind::Foreign` when the device holds anything else, which is left untouched;
    /// `Kind::Unsupported` when its zones are too few or too small; `Kind::Io`.
    pub fn create(mut dev: D, engine: [u8; 8], label: &[u8], id: u64) -> Result<Store<D>> {
        let left = Store::ready(&mut dev)?;
        let plan = plan::divide(&dev, left.as_ref())?;
        let report = dev.report(ZoneId(0), dev.limits().zones).map_err(device("zone report"))?;
        let is_home = |zone| left.as_ref().is_some_and(|s| s.homes.contains(&zone));
        let is_written = |z: &ZoneReport| z.write_pointer > z.start && !is_home(z.zone);
        let written = |z: &&ZoneReport| z.kind == ZoneKind::Sequential && is_written(z);
        if let Some(z) = report.iter().find(written) {
            let text = format!("zone {} is written; reset it before creating a store", z.zone);
            return Err(Error::new(Kind::Foreign, text));
        }
        if left.is_none() && !superblock::is_blank(&dev)? {
            return Err(Error::new(Kind::Foreign, "the first conventional blocks are in use"));
        }
        let redo = plan.redo.map(|z| z.zone);
        let label = label.to_vec();
        let homes = plan.homes;
        let generation = left.map_or(0, |s| s.generation);
        let superblock = Superblock { generation, id, engine, epoch: 0, redo, homes, label };
        let mut store = Store::over(dev, plan, superblock);
        store.is_adopted = true;
        store.keep_host_room()?;
        store.checkpoint()?;
        Ok(store)
    }

    /// Opens a store: finds the newest superblock and replays the redo log in memory. The engine
    /// must then name its pages to [`Store::recovered`] before anything is changed.
    ///
    /// # Errors
    /// `Kind::Foreign` for another medium or format, `Kind::Corrupt`, `Kind::Io`.
    pub fn open(dev: D) -> Result<Store<D>> {
        let (superblock, notes) = superblock::find(&dev, false)?;
        let plan = plan::divide(&dev, Some(&superblock))?;
        let mut store = Store::over(dev, plan, superblock);
        store.notes = notes;
        store.refuse_lost_superblock()?;
        store.refuse_marked()?;
        store.replay()?;
        log::debug!(
            "redo log of epoch {}: {} groups replayed, {} pages changed since the checkpoint",
            store.superblock.epoch,
            store.sequence,
            store.dirty.len()
        );
        Ok(store)
    }

    /// Opens what is left of a damaged store, to be read only: single flipped bits are corrected in
    /// memory, and what follows a damaged part of the redo log is left out. [`Store::notes`] says
    /// so.
    ///
    /// # Errors
    /// `Kind::Foreign`; `Kind::Corrupt` when no superblock can be read; `Kind::Io`.
    pub fn open_damaged(dev: D) -> Result<Store<D>> {
        let (superblock, notes) = superblock::find(&dev, true)?;
        let plan = plan::divide(&dev, Some(&superblock))?;
        let mut store = Store::over(dev, plan, superblock);
        (store.notes, store.corrects, store.read_only) = (notes, true, true);
        store.pass_over_lost_superblock()?;
        store.refuse_marked()?;
        if let Err(e) = store.replay() {
            store.notes.push(e.to_string());
            store.is_log_cut = true;
        }
        store.synced_root = store.root;
        Ok(store)
    }

    /// Damage that was found while the store was opened and did not keep it from opening: the next
    /// checkpoint writes all of it anew.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether part of the redo log is damaged, so that the state is one before the last.
    pub fn is_log_cut(&self) -> bool {
        self.is_log_cut
    }

    /// Sets what is asked of each page before it is given to the engine.
    pub fn set_inspector(&mut self, inspector: Box<dyn Inspect>) {
        // What replay has read was not asked.
        self.cache.clear();
        self.inspector = Some(inspector);
    }

    fn inspect(&self, at: Lba, page: &[u8]) -> Result<()> {
        self.inspector.as_ref().map_or(Ok(()), |i| i.inspect(at, page, &self.space))
    }

    /// Ends an open: `live` are the engine's reachable pages. Writes a checkpoint.
    ///
    /// # Errors
    /// `Kind::Corrupt` when a page lies where none can be; `Kind::Io`, `Kind::PowerCut`.
    pub fn recovered(&mut self, live: &BTreeSet<Lba>) -> Result<()> {
        // The process before may have ended between a write and its flush: what was found may be in
        // a cache only, and the checkpoint empties the redo zone of an older epoch.
        if !mutant!("store_recovery_on_unflushed") {
            self.device.flush().map_err(device("what was found"))?;
        }
        self.adopt(live)?;
        self.keep_room_if_any();
        for zone in self.space.orphans() {
            self.device.finish(zone).map_err(device("finishing a zone"))?;
            self.space.retire(zone, true);
        }
        self.checkpoint()
    }

    /// Ends an open that is for reading only: the medium stays as it is, and changes are refused.
    ///
    /// # Errors
    /// `Kind::Corrupt` when a page lies where none can be.
    pub fn opened_to_read(&mut self, live: &BTreeSet<Lba>) -> Result<()> {
        self.read_only = true;
        self.adopt(live)
    }

    fn adopt(&mut self, live: &BTreeSet<Lba>) -> Result<()> {
        self.space.set_live(live)?;
        // Those that were not read to find the others, leaves, are asked now.
        for (&at, page) in self.dirty.iter().filter(|(at, _)| live.contains(&Lba(**at))) {
            self.inspect(Lba(at), page)?;
        }
        self.is_adopted = true;
        // Replay cannot know what was freed; what no root reaches is not written again. Nor is an
        // image of the last checkpoint whose page is in place, where it cannot be written or there
        // are too many of them.
        self.dirty.retain(|at, _| live.contains(&Lba(*at)));
        let is_crowded = self.exceeds_redo_zone() && !mutant!("store_log_of_restarts_unbounded");
        let is_asked = |at| is_crowded || self.space.check_writable(at).is_err();
        let is_there = |&at: &u64| is_asked(Lba(at)) && self.is_in_place(Lba(at));
        let in_place: BTreeSet<u64> = self.dirty.keys().copied().filter(is_there).collect();
        self.dirty.retain(|at, _| !in_place.contains(at));
        Ok(())
    }

    /// Whether the images of all pages in memory may be more than a redo zone holds. An epoch's log
    /// names the pages of its checkpoint and those changed since, half a zone of images each; where
    /// the checkpoint was a recovery's, its own are a whole zone. Those are in place by then.
    fn exceeds_redo_zone(&self) -> bool {
        let room = self.redo_zones[0].capacity_blocks.min(self.redo_zones[1].capacity_blocks);
        !self.read_only && self.image_blocks(self.dirty.len() as u64) > room
    }

    /// Whether a page in memory is on the medium as it is here.
    fn is_in_place(&self, at: Lba) -> bool {
        let mut found = vec![0; self.block_bytes()];
        let is_read = self.device.read(at, &mut found).is_ok();
        let body = unseal(&found, at.0 ^ IN_PLACE).filter(|_| is_read);
        let page = &self.dirty[&at.0];
        let len = page.len().min(found.len() - SEAL_BYTES);
        body.is_some_and(|b| b[..len] == page[..len] && b[len..].iter().all(|&x| x == 0))
    }

    /// The engine's tag and words, as given at creation.
    pub fn engine(&self) -> ([u8; 8], &[u8]) {
        (self.superblock.engine, &self.superblock.label)
    }

    /// Sets when operations become durable; durable at each commit at first.
    pub fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    /// When operations become durable.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// The device below.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device below, for its owner (faults, virtual time).
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Gives the device back; what was not synced is gone.
    pub fn into_device(self) -> D {
        self.device
    }

    /// What was written and read.
    pub fn counts(&self) -> StoreCounts {
        StoreCounts { read_blocks: self.reads.load(Ordering::Relaxed), ..self.counts }
    }

    /// Free and all conventional pages.
    pub fn conventional_blocks(&self) -> (u64, u64) {
        (self.space.conventional_free.len(), self.space.conventional_blocks())
    }

    /// Live, written and all blocks of the data zones.
    pub fn sequential_blocks(&self) -> (u64, u64, u64) {
        let zones = self.space.zones.values();
        zones.fold((0, 0, 0), |(l, w, c), z| {
            (l + z.live.len() as u64, w + z.written, c + z.capacity)
        })
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.device.limits().block_bytes as usize
    }

    /// Whether the store takes changes: it was not opened for reading only, and no durable write of
    /// it has failed.
    pub fn is_usable(&self) -> bool {
        self.usable().is_ok()
    }

    pub(crate) fn usable(&self) -> Result<()> {
        if self.poisoned {
            let text = "an earlier durable write failed; reopen the store";
            return Err(Error::new(Kind::Poisoned, text));
        }
        if self.read_only {
            return Err(Error::new(Kind::Usage, "the store was opened for reading only"));
        }
        Ok(())
    }

    pub(crate) fn guard<T>(&mut self, result: Result<T>) -> Result<T> {
        self.poisoned |= result.is_err();
        result
    }

    // --- pages --------------------------------------------------------------------------------

    pub(crate) fn remember(&self, at: Lba, page: Arc<[u8]>) {
        debug_assert_eq!(page.len(), self.block_bytes(), "page {at} is kept with its checksum");
        self.cache.insert(at.0, page);
    }

    fn forget(&self, at: Lba) {
        self.cache.remove(at.0);
    }

    pub(crate) fn read_page(&self, at: Lba) -> Result<Arc<[u8]>> {
        match self.cache.get(at.0) {
            Some(page) => Ok(page),
            None => self.fetch_page(at),
        }
    }

    /// Reads a page from the medium into the cache.
    fn fetch_page(&self, at: Lba) -> Result<Arc<[u8]>> {
        debug_assert!(!self.dirty.contains_key(&at.0), "page {at} is newer in memory");
        if !self.space.may_hold_page(at) {
            let text = format!("page {at} lies where no page was written");
            return Err(Error::new(Kind::Corrupt, text).at_page(at.0));
        }
        if self.unchanged.contains(&at.0) {
            let text = format!("page {at} could not be read for its changes in the redo log");
            return Err(Error::new(Kind::Corrupt, text).at_page(at.0));
        }
        let mut page = vec![0; self.block_bytes()];
        self.device.read(at, &mut page).map_err(device("reading a page"))?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        let salt = if self.space.is_conventional(at) { at.0 ^ IN_PLACE } else { at.0 };
        if self.corrects {
            mend(&mut page, salt);
        }
        if unseal(&page, salt).is_none() && !mutant!("store_page_unverified") {
            return Err(
                Error::new(Kind::Corrupt, format!("page {at} does not verify")).at_page(at.0)
            );
        }
        self.inspect(at, &page)?;
        let page: Arc<[u8]> = page.into();
        self.remember(at, page.clone());
        Ok(page)
    }

    /// A page that was changed since the last checkpoint, or written and not appended yet.
    fn changed_page(&self, at: Lba) -> Result<Option<&[u8]>> {
        let Some(page) = self.dirty.get(&at.0) else { return Ok(self.drafts.get(at)) };
        // What the redo log left is asked until the engine has named its pages: pages that are no
        // longer in use are among them, and may be anything.
        if !self.is_adopted {
            self.inspect(at, page)?;
        }
        Ok(Some(page))
    }

    /// Notes a conventional page's bytes before the operation's first change of it.
    fn note_undo(&mut self, at: Lba) {
        let before = self.dirty.get(&at.0).cloned();
        if mutant!("store_abort_restores_last") {
            self.undo.pages.remove(&at.0);
        }
        self.undo.pages.entry(at.0).or_insert(before);
    }

    pub(crate) fn append_for(&mut self, purpose: Purpose, image: &[u8]) -> Result<Lba> {
        self.usable()?;
        let block = self.block_bytes();
        assert!(
            image.len() <= block - SEAL_BYTES || image.len() == block,
            "an image fits its page"
        );
        loop {
            let zone = self.space.zone_for(purpose)?;
            let z = &self.space.zones[&zone];
            let at = Lba(z.start + z.written);
            let mut page = image.to_vec();
            page.resize(block, 0);
            seal(&mut page, at.0);
            match self.device.write(at, &page).and_then(|t| self.device.wait(t)) {
                Ok(_) => {
                    let landed = self.space.appended(zone);
                    assert_eq!(landed, at, "a page lands at the write pointer");
                    self.unflushed = true;
                    self.undo.appended.push(at);
                    self.remember(at, page.into());
                    return Ok(at);
                }
                Err(e) if self.zone_failed(zone, &e)? || self.leaves_moved(zone, at)? => {}
                Err(e) => return Err(device("appending a page")(e)),
            }
        }
    }

    /// Whether a write failed because its zone can no longer be written: the zone is retired, its
    /// pages stay readable, and another zone is tried.
    fn zone_failed(&mut self, zone: ZoneId, error: &littoral_device::Error) -> Result<bool> {
        let told = matches!(Refusal::of(error), Some(Refusal::ReadOnly | Refusal::Offline));
        let found = told || {
            let report = self.device.report(zone, 1);
            report.is_ok_and(|r| matches!(r[0].state, ZoneState::ReadOnly | ZoneState::Offline))
        };
        if found {
            self.space.retire(zone, false);
        }
        Ok(found)
    }

    /// Whether a write that failed at `at` has moved its zone's pointer all the same: nothing could
    /// be appended there any more, so the zone is finished and another one is tried.
    fn leaves_moved(&mut self, zone: ZoneId, at: Lba) -> Result<bool> {
        let report = self.device.report(zone, 1);
        let has_moved = report.is_ok_and(|found| found[0].write_pointer != at);
        if !has_moved || mutant!("store_moved_zone_kept") {
            return Ok(false);
        }
        self.device.finish(zone).map_err(device("finishing a zone"))?;
        self.space.retire(zone, true);
        Ok(true)
    }

    /// Undoes what the running operation changed in memory, after one of its calls failed.
    pub fn abort(&mut self) {
        let undo = std::mem::take(&mut self.undo);
        if !mutant!("store_abort_keeps_root") {
            self.root = undo.root.unwrap_or(self.root);
        }
        for (at, before) in undo.pages {
            match before {
                Some(page) => self.dirty.insert(at, page),
                None => self.dirty.remove(&at),
            };
        }
        for at in undo.allocated.into_iter().chain(undo.appended) {
            self.give_back(at);
        }
    }

    /// Frees a page, a draft or one on the medium.
    fn give_back(&mut self, at: Lba) {
        if !self.drafts.remove(at) {
            self.space.free(at);
            self.note_freed(at);
            self.forget(at);
        }
    }

    /// The pages appended so far are part of a state that is kept.
    pub(crate) fn forget_undo(&mut self) {
        self.undo.appended.clear();
    }

    /// What the store is doing, or was doing when a durable write failed.
    pub fn work(&self) -> Work {
        self.work
    }

    pub(crate) fn begin_work(&mut self, work: Work) {
        self.work = work;
    }

    // --- the collector's side -----------------------------------------------------------------

    /// The zone to collect next and its live pages; one that is being filled is finished first. A
    /// zone that was lost meanwhile is left: its pages are missed when they are asked for, and no
    /// other operation fails for it.
    pub(crate) fn victim(&mut self, is_urgent: bool) -> Result<Option<(ZoneId, BTreeSet<Lba>)>> {
        while let Some(zone) = self.space.victim(is_urgent) {
            if !self.is_worn_out(zone)? {
                return Ok(Some((zone, self.seize(zone)?)));
            }
        }
        Ok(None)
    }

    /// Whether a zone can be written no more; it is not filled or emptied then.
    pub(crate) fn is_worn_out(&mut self, zone: ZoneId) -> Result<bool> {
        let found = self.device.report(zone, 1).map_err(device("zone report"))?[0];
        let is_worn_out = matches!(found.state, ZoneState::ReadOnly | ZoneState::Offline);
        if is_worn_out {
            self.space.retire(zone, false);
        }
        Ok(is_worn_out)
    }

    /// The live pages of a zone that is to be emptied; it is not filled any more.
    pub(crate) fn seize(&mut self, zone: ZoneId) -> Result<BTreeSet<Lba>> {
        if self.space.is_open(zone) {
            self.device.finish(zone).map_err(device("finishing a zone"))?;
            self.space.retire(zone, true);
        }
        self.space.seized.push(zone);
        Ok(self.space.zones[&zone].live.iter().map(|&at| Lba(at)).collect())
    }

    /// Whether the collector has no empty zone to move pages into.
    pub(crate) fn has_no_empty_zone(&self) -> bool {
        self.space.empty_zones() == 0
    }

    /// Takes an unused page, whose bytes the running operation wants, into use.
    pub(crate) fn use_copy(&mut self, at: Lba) {
        self.space.adopt(at);
        self.undo.appended.push(at);
        self.unflushed = true;
    }

    /// Copies a live page for the collector.
    pub(crate) fn copy_page(&mut self, old: Lba) -> Result<Lba> {
        let image = self.read_page(old)?;
        self.append_moved(&image)
    }

    /// Appends a page that an engine writes anew for the collector.
    ///
    /// # Errors
    /// As [`Pages::append`].
    pub fn append_moved(&mut self, image: &[u8]) -> Result<Lba> {
        let at = self.append_for(Purpose::Collect, image)?;
        self.counts.gc_blocks += 1;
        Ok(at)
    }

    pub(crate) fn is_live(&self, at: Lba) -> bool {
        self.space.zones.get(&self.space.zone_of(at)).is_some_and(|z| z.live.contains(&at.0))
    }

    /// Resets a zone that a durable state no longer uses; one that has worn out meanwhile is left.
    pub(crate) fn release(&mut self, zone: ZoneId) -> Result<()> {
        debug_assert!(self.pending.is_empty(), "what emptied a zone is durable before its reset");
        debug_assert!(self.space.zones[&zone].live.is_empty(), "zone {zone} has live pages");
        match self.device.reset(zone) {
            Ok(()) => {
                self.space.was_reset(zone);
                self.counts.gc_resets += 1;
                Ok(())
            }
            Err(e) if self.zone_failed(zone, &e)? => Ok(()),
            Err(e) => Err(device("resetting a collected zone")(e)),
        }
    }
}

impl<D: ZonedDevice> Pages for Store<D> {
    fn page_bytes(&self) -> usize {
        self.block_bytes()
    }

    fn has_conventional(&self) -> bool {
        self.space.has_conventional()
    }

    fn read(&self, at: Lba) -> Result<PageRef<'_>> {
        match self.changed_page(at)? {
            Some(page) => Ok(PageRef::Borrowed(page)),
            None => self.read_page(at).map(PageRef::Shared),
        }
    }

    fn read_for(&self, at: Lba, look: &dyn Fn(Opening) -> Look) -> Result<PageRef<'_>> {
        if let Some(page) = self.changed_page(at)? {
            return Ok(PageRef::Borrowed(page));
        }
        let page = match self.cache.get_for(at.0, look) {
            Some(page) => page,
            None => self.fetch_page(at)?,
        };
        Ok(PageRef::Shared(page))
    }

    fn peek(&self, at: Lba) -> Result<PageRef<'_>> {
        self.read(at)
    }

    fn append(&mut self, heat: Heat, image: &[u8]) -> Result<Lba> {
        if self.is_drafting() {
            self.usable()?;
            let at = self.drafts.add(heat, image);
            self.undo.appended.push(at);
            return Ok(at);
        }
        let at = self.append_for(Purpose::Engine(heat), image)?;
        self.counts.tree_blocks += 1;
        Ok(at)
    }

    fn allocate(&mut self) -> Result<Lba> {
        self.usable()?;
        if !self.space.has_conventional() {
            return Err(Error::new(Kind::Unsupported, "the medium has no conventional zones"));
        }
        let at = self.space.conventional_free.pop_first();
        let at = Lba(at.ok_or_else(|| Error::new(Kind::Full, "no conventional page is free"))?);
        self.undo.allocated.push(at);
        self.forget(at);
        Ok(at)
    }

    fn put(&mut self, at: Lba, image: &[u8]) -> Result<()> {
        assert!(self.space.is_conventional(at), "only conventional pages are written in place");
        self.space.check_writable(at)?;
        self.note_undo(at);
        let fits = redo::put_image(&mut self.undo.entries, at, image);
        fits.ok_or_else(|| Error::new(Kind::Usage, "pages of this size are not supported"))?;
        self.dirty.insert(at.0, image.to_vec());
        Ok(())
    }

    fn patch(&mut self, at: Lba, patches: &[Patch<'_>]) -> Result<()> {
        assert!(self.space.is_conventional(at), "only conventional pages are written in place");
        self.space.check_writable(at)?;
        self.note_undo(at);
        let page = self.page_to_repair(at)?;
        let fits = patches.iter().try_for_each(|p| p.apply(page));
        let logged = fits.and_then(|()| redo::put_patches(&mut self.undo.entries, at, patches));
        logged.ok_or_else(|| {
            Error::new(Kind::Corrupt, format!("patch outside page {at}")).at_page(at.0)
        })
    }

    fn free(&mut self, at: Lba) {
        self.undo.freed.push(at);
    }

    fn is_conventional(&self, at: Lba) -> bool {
        self.space.is_conventional(at)
    }

    fn root(&self) -> Root {
        self.root
    }

    fn set_root(&mut self, root: Root) {
        self.undo.root.get_or_insert(self.root);
        self.root = root;
    }

    fn commit(&mut self) -> Result<()> {
        self.usable()?;
        let undo = std::mem::take(&mut self.undo);
        for at in undo.freed {
            // The bytes of a freed page are not written in place any more.
            self.dirty.remove(&at.0);
            self.give_back(at);
        }
        self.pending.extend_from_slice(&undo.entries.finish());
        if self.needs_checkpoint() {
            return self.checkpoint();
        }
        if self.drafts.len() > self.drafts_max() {
            let written = self.write_drafts();
            self.guard(written)?;
        }
        if self.durability == Durability::Operation { self.sync() } else { Ok(()) }
    }
}
