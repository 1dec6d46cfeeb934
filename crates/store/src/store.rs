//! The store: pages on a zoned device, changed together or not at all.
//!
//! Life of a change: the engine appends, puts and patches pages; [`Pages::commit`] ends the
//! operation and adds its conventional changes to the pending group; [`Store::sync`] makes every
//! committed operation durable: appended pages are flushed, then the group is written to the redo
//! log and flushed. A conventional page is written in place only by a checkpoint (no-steal), so a
//! power cut can tear only pages whose images are in the redo log.
//!
//! A checkpoint begins a new epoch: (1) the other redo zone is reset; (2) the images of all dirty
//! pages and the root become its first group; (3) the superblock names the epoch; (4) the dirty
//! pages are written in place. Each step is flushed before the next. Recovery replays the epoch
//! that the superblock names and then is itself a checkpoint; cut anywhere, it begins again from
//! the same state or from the next one (`docs/design/store.md` has the argument).
//!
//! Invariants
//! - The redo zone always has room for the images of all dirty pages.
//! - A zone is reset only when a durable state has no live page in it.
//! - After a failed durable write the handle is poisoned; after a failed operation [`Store::abort`]
//!   undoes what the operation changed in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use littoral_base::codec::{Reader, SEAL_BYTES, Writer, seal, unseal};
use littoral_base::mutant;
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::refusal::Refusal;
use littoral_device::zoned::{ZoneKind, ZoneReport, ZoneState, ZonedDevice};

use crate::error::{Error, Kind, Result, device};
use crate::pages::{Heat, PageRef, Pages, Patch, Root};
use crate::redo::{self, Entry, GroupId};
use crate::space::{Purpose, Space};
use crate::superblock::{Home, Superblock};

/// When committed operations become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// At each commit.
    Operation,
    /// At each [`Store::sync`].
    Batch,
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

/// Pages kept in memory besides the dirty ones.
const CACHE_PAGES: usize = 16_384;
/// Conventional salt: a page copied between classes does not verify.
const IN_PLACE: u64 = 1 << 63;
/// Pages that one operation may dirty at most, and that the redo zone keeps room for.
pub(crate) const OPERATION_PAGES: u64 = 24;

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
    device: D,
    home: Home,
    superblock: Superblock,
    redo_zones: [ZoneReport; 2],
    redo_at: u64,
    sequence: u64,
    pub(crate) space: Space,
    dirty: BTreeMap<u64, Vec<u8>>,
    cache: Mutex<HashMap<u64, Arc<[u8]>>>,
    root: Root,
    synced_root: Root,
    pending: Vec<u8>,
    unflushed: bool,
    undo: Undo,
    durability: Durability,
    poisoned: bool,
    read_only: bool,
    counts: StoreCounts,
    reads: AtomicU64,
}

/// Zones and limits of a device as a store divides them.
struct Plan {
    home: Home,
    redo: [ZoneReport; 2],
    space: Space,
}

fn divide(dev: &impl ZonedDevice) -> Result<Plan> {
    let limits = dev.limits();
    let report = dev.report(ZoneId(0), limits.zones).map_err(device("zone report"))?;
    let home = Home::of(dev)?;
    let own = match home {
        Home::Blocks(_) => 0,
        Home::Zones(..) => 2,
    };
    let sequential: Vec<ZoneReport> =
        report.iter().filter(|z| z.kind == ZoneKind::Sequential).copied().collect();
    if sequential.len() < own + 2 + 3 {
        let text = format!(
            "a store needs {} sequential zones here, the device has {}",
            own + 5,
            sequential.len()
        );
        return Err(Error::new(Kind::Unsupported, text));
    }
    let redo = [sequential[own], sequential[own + 1]];
    let block = u64::from(limits.block_bytes);
    if redo[0].capacity_blocks < 4 * OPERATION_PAGES {
        let text = format!(
            "zones of {} blocks are too small; a store needs {}",
            redo[0].capacity_blocks,
            4 * OPERATION_PAGES
        );
        return Err(Error::new(Kind::Unsupported, text));
    }
    debug_assert!(block >= 512);
    let taken: Vec<ZoneId> = sequential[..own + 2].iter().map(|z| z.zone).collect();
    // Two redo zones are active while one epoch hands over to the next.
    let busy = 2 + usize::from(own > 0);
    let most =
        if limits.active_zones_max == 0 { 3 + busy } else { limits.active_zones_max as usize };
    let heads = most.saturating_sub(busy).min(3);
    if heads == 0 {
        let text =
            format!("{most} active zones are too few for a store here: it needs {}", busy + 1);
        return Err(Error::new(Kind::Unsupported, text));
    }
    let space = Space::new(&report, &taken, 2, heads);
    Ok(Plan { home, redo, space })
}

impl<D: ZonedDevice> Store<D> {
    fn over(dev: D, plan: Plan, superblock: Superblock) -> Store<D> {
        Store {
            device: dev,
            home: plan.home,
            superblock,
            redo_zones: plan.redo,
            redo_at: 0,
            sequence: 0,
            space: plan.space,
            dirty: BTreeMap::new(),
            cache: Mutex::default(),
            root: Root::default(),
            synced_root: Root::default(),
            pending: Vec::new(),
            unflushed: false,
            undo: Undo::default(),
            durability: Durability::Operation,
            poisoned: false,
            read_only: false,
            counts: StoreCounts::default(),
            reads: AtomicU64::new(0),
        }
    }

    /// Creates a store for the engine named by `engine`, whose own words are `label`; `id` tells
    /// this store from every other.
    ///
    /// # Errors
    /// `Kind::Foreign` when the device holds anything, which is left untouched; `Kind::Unsupported`
    /// when its zones are too few or too small; `Kind::Io`.
    pub fn create(dev: D, engine: [u8; 8], label: &[u8], id: u64) -> Result<Store<D>> {
        let plan = divide(&dev)?;
        let report = dev.report(ZoneId(0), dev.limits().zones).map_err(device("zone report"))?;
        let written = |z: &&ZoneReport| z.kind == ZoneKind::Sequential && z.write_pointer > z.start;
        if let Some(z) = report.iter().find(written) {
            let text = format!("zone {} is written; reset it before creating a store", z.zone);
            return Err(Error::new(Kind::Foreign, text));
        }
        if !plan.home.is_blank(&dev)? {
            return Err(Error::new(Kind::Foreign, "the first conventional blocks are in use"));
        }
        let superblock = Superblock { generation: 0, id, engine, epoch: 0, label: label.to_vec() };
        let mut store = Store::over(dev, plan, superblock);
        store.checkpoint()?;
        Ok(store)
    }

    /// Opens a store: finds the newest superblock and replays the redo log in memory. The engine
    /// must then name its pages to [`Store::recovered`] before anything is changed.
    ///
    /// # Errors
    /// `Kind::Foreign` for another medium or format, `Kind::Corrupt`, `Kind::Io`.
    pub fn open(dev: D) -> Result<Store<D>> {
        let plan = divide(&dev)?;
        let superblock = plan.home.find(&dev)?;
        let mut store = Store::over(dev, plan, superblock);
        store.replay()?;
        log::debug!(
            "redo log of epoch {}: {} groups replayed, {} pages changed since the checkpoint",
            store.superblock.epoch,
            store.sequence,
            store.dirty.len()
        );
        Ok(store)
    }

    /// Ends an open: `live` are the engine's reachable pages. Writes a checkpoint.
    ///
    /// # Errors
    /// `Kind::Corrupt` when a page lies where none can be; `Kind::Io`, `Kind::PowerCut`.
    pub fn recovered(&mut self, live: &BTreeSet<Lba>) -> Result<()> {
        self.adopt(live)?;
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
        // Replay cannot know what was freed; what nobody can reach is not written again.
        self.dirty.retain(|&at, _| live.contains(&Lba(at)));
        Ok(())
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

    fn block_bytes(&self) -> usize {
        self.device.limits().block_bytes as usize
    }

    fn usable(&self) -> Result<()> {
        if self.poisoned {
            let text = "an earlier durable write failed; reopen the store";
            return Err(Error::new(Kind::Poisoned, text));
        }
        if self.read_only {
            return Err(Error::new(Kind::Usage, "the store was opened for reading only"));
        }
        Ok(())
    }

    fn guard<T>(&mut self, result: Result<T>) -> Result<T> {
        self.poisoned |= result.is_err();
        result
    }

    // --- redo ---------------------------------------------------------------------------------

    fn redo_zone(&self) -> ZoneReport {
        self.redo_zones[(self.superblock.epoch % 2) as usize]
    }

    fn group(&self) -> GroupId {
        GroupId { store: self.superblock.id, epoch: self.superblock.epoch, sequence: self.sequence }
    }

    fn replay(&mut self) -> Result<()> {
        let zone = self.device.report(self.redo_zone().zone, 1).map_err(device("redo zone"))?[0];
        let written = zone.write_pointer.0 - zone.start.0;
        while let Some((body, blocks)) =
            self.read_group(zone.start.0 + self.redo_at, written - self.redo_at)?
        {
            self.apply(&body)?;
            self.redo_at += blocks;
            self.sequence += 1;
        }
        if self.sequence == 0 {
            let text = format!("redo zone {}: the epoch's first group does not verify", zone.zone);
            return Err(Error::new(Kind::Corrupt, text));
        }
        self.synced_root = self.root;
        Ok(())
    }

    fn read_group(&self, at: u64, left: u64) -> Result<Option<(Vec<u8>, u64)>> {
        let block = self.block_bytes();
        if left == 0 {
            return Ok(None);
        }
        let mut bytes = vec![0; block];
        self.device.read(Lba(at), &mut bytes).map_err(device("redo log"))?;
        let Some(len) = self.group().body_len(&bytes) else { return Ok(None) };
        let blocks = redo::group_blocks(len, block);
        if blocks > left {
            return Ok(None);
        }
        bytes.resize(blocks as usize * block, 0);
        self.device.read(Lba(at), &mut bytes).map_err(device("redo log"))?;
        Ok(self.group().body(&bytes, len).map(|b| (b.to_vec(), blocks)))
    }

    fn apply(&mut self, body: &[u8]) -> Result<()> {
        let mut r = Reader::new(body);
        while let Some(entry) = redo::next_entry(&mut r) {
            match entry {
                Entry::Root(root) => self.root = root,
                Entry::Image(at, image) => {
                    self.dirty.insert(at.0, image.to_vec());
                }
                Entry::Patches(at, patches) => {
                    let page = self.page_to_repair(at)?;
                    let fits = patches.iter().try_for_each(|p| p.apply(page));
                    fits.ok_or_else(|| wrong_redo(at))?;
                }
            }
        }
        if r.remaining() == 0 { Ok(()) } else { Err(wrong_redo(Lba(0))) }
    }

    /// A page that replay patches. Its bytes on the medium verify: a page that a checkpoint may
    /// have torn has its image in the epoch's first group.
    fn page_to_repair(&mut self, at: Lba) -> Result<&mut Vec<u8>> {
        if !self.dirty.contains_key(&at.0) {
            let page = self.read_page(at)?.to_vec();
            self.dirty.insert(at.0, page);
        }
        Ok(self.dirty.get_mut(&at.0).expect("invariant: just inserted"))
    }

    fn write_blocks(&mut self, at: Lba, bytes: &[u8], doing: &str) -> Result<()> {
        let ticket = self.device.write(at, bytes).map_err(device(doing))?;
        self.device.wait(ticket).map(|_| ()).map_err(device(doing))
    }

    fn write_group(&mut self, zone: ZoneReport, body: &[u8]) -> Result<()> {
        let bytes = self.group().encode(body, self.block_bytes());
        self.write_blocks(Lba(zone.start.0 + self.redo_at), &bytes, "redo log")?;
        self.device.flush().map_err(device("redo log"))?;
        let blocks = (bytes.len() / self.block_bytes()) as u64;
        self.redo_at += blocks;
        self.sequence += 1;
        self.counts.redo_blocks += blocks;
        Ok(())
    }

    fn image_blocks(&self, pages: u64) -> u64 {
        let bytes = pages as usize * (self.block_bytes() + 11) + 64;
        redo::group_blocks(bytes, self.block_bytes())
    }

    /// Whether the redo zone would not have room for one more operation and then all images.
    fn needs_checkpoint(&self) -> bool {
        let capacity = self.redo_zone().capacity_blocks;
        let dirty = self.dirty.len() as u64 + OPERATION_PAGES;
        let log = redo::group_blocks(self.pending.len(), self.block_bytes())
            + self.image_blocks(OPERATION_PAGES);
        self.redo_at + log > capacity || self.image_blocks(dirty) > capacity / 2
    }

    /// Makes every committed operation durable.
    ///
    /// # Errors
    /// `Kind::Io`, `Kind::PowerCut`; the handle is poisoned then.
    pub fn sync(&mut self) -> Result<()> {
        self.usable()?;
        if self.pending.is_empty() && self.root == self.synced_root {
            return Ok(());
        }
        let result = self.sync_group();
        self.guard(result)
    }

    fn sync_group(&mut self) -> Result<()> {
        if std::mem::take(&mut self.unflushed) && !mutant!("store_group_before_pages") {
            self.device.flush().map_err(device("appended pages"))?;
        }
        let mut w = Writer::new();
        w.raw(&self.pending);
        redo::put_root(&mut w, self.root);
        self.write_group(self.redo_zone(), &w.finish())?;
        self.pending.clear();
        self.synced_root = self.root;
        Ok(())
    }

    /// Writes every dirty page in place and begins a new epoch.
    ///
    /// # Errors
    /// `Kind::Io`, `Kind::PowerCut`; the handle is poisoned then.
    pub fn checkpoint(&mut self) -> Result<()> {
        self.usable()?;
        let result = self.begin_epoch();
        self.guard(result)
    }

    fn begin_epoch(&mut self) -> Result<()> {
        if mutant!("store_in_place_before_images") {
            self.write_in_place()?;
        }
        self.superblock.epoch += 1;
        self.superblock.generation += 1;
        (self.redo_at, self.sequence) = (0, 0);
        let zone = self.redo_zone();
        let found = self.device.report(zone.zone, 1).map_err(device("redo zone"))?[0];
        if found.write_pointer != found.start {
            self.device.reset(zone.zone).map_err(device("redo zone"))?;
        }
        self.device.flush().map_err(device("redo zone"))?;
        let mut w = Writer::new();
        for (&at, page) in &self.dirty {
            let fits = redo::put_image(&mut w, Lba(at), page);
            fits.ok_or_else(|| Error::new(Kind::Usage, "pages of this size are not supported"))?;
        }
        redo::put_root(&mut w, self.root);
        if mutant!("store_superblock_before_group") {
            self.home.write(&mut self.device, &self.superblock)?;
        }
        self.write_group(zone, &w.finish())?;
        self.pending.clear();
        self.unflushed = false;
        self.synced_root = self.root;
        self.home.write(&mut self.device, &self.superblock)?;
        self.write_in_place()?;
        self.counts.checkpoints += 1;
        // The epoch before is history: its zone stops being active.
        let before = self.redo_zones[((self.superblock.epoch + 1) % 2) as usize].zone;
        self.device.reset(before).map_err(device("redo zone"))
    }

    fn write_in_place(&mut self) -> Result<()> {
        let block = self.block_bytes();
        for (at, mut page) in std::mem::take(&mut self.dirty) {
            page.resize(block, 0);
            seal(&mut page, at ^ IN_PLACE);
            self.write_blocks(Lba(at), &page, "page in place")?;
            self.counts.map_blocks += 1;
            self.remember(Lba(at), page.into());
        }
        self.counts.map_blocks += 1;
        self.device.flush().map_err(device("pages in place"))
    }

    // --- pages --------------------------------------------------------------------------------

    fn remember(&self, at: Lba, page: Arc<[u8]>) {
        let mut cache = self.cache.lock().expect("invariant: nothing panics with the cache locked");
        if cache.len() >= CACHE_PAGES {
            cache.clear();
        }
        cache.insert(at.0, page);
    }

    fn forget(&self, at: Lba) {
        self.cache.lock().expect("invariant: nothing panics with the cache locked").remove(&at.0);
    }

    fn read_page(&self, at: Lba) -> Result<Arc<[u8]>> {
        if let Some(page) =
            self.cache.lock().expect("invariant: nothing panics with the cache locked").get(&at.0)
        {
            return Ok(page.clone());
        }
        let mut page = vec![0; self.block_bytes()];
        self.device.read(at, &mut page).map_err(device("reading a page"))?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        let salt = if self.space.is_conventional(at) { at.0 ^ IN_PLACE } else { at.0 };
        if unseal(&page, salt).is_none() {
            return Err(Error::new(Kind::Corrupt, format!("page {at} does not verify")));
        }
        let page: Arc<[u8]> = page.into();
        self.remember(at, page.clone());
        Ok(page)
    }

    /// Notes a conventional page's bytes before the operation's first change of it.
    fn note_undo(&mut self, at: Lba) {
        let before = self.dirty.get(&at.0).cloned();
        self.undo.pages.entry(at.0).or_insert(before);
    }

    fn append_for(&mut self, purpose: Purpose, image: &[u8]) -> Result<Lba> {
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
                Err(e) if self.zone_failed(zone, &e)? => {}
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
            self.space.free(at);
            self.forget(at);
        }
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
        self.counts.gc_blocks += 1;
        self.append_for(Purpose::Collect, image)
    }

    pub(crate) fn is_live(&self, at: Lba) -> bool {
        self.space.zones.get(&self.space.zone_of(at)).is_some_and(|z| z.live.contains(&at.0))
    }

    /// Resets a zone that a durable state no longer uses; one that has worn out meanwhile is left.
    pub(crate) fn release(&mut self, zone: ZoneId) -> Result<()> {
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

fn wrong_redo(at: Lba) -> Error {
    Error::new(Kind::Corrupt, format!("redo log: an entry for page {at} does not fit"))
}

impl<D: ZonedDevice> Pages for Store<D> {
    fn page_bytes(&self) -> usize {
        self.block_bytes()
    }

    fn has_conventional(&self) -> bool {
        self.space.has_conventional()
    }

    fn read(&self, at: Lba) -> Result<PageRef<'_>> {
        match self.dirty.get(&at.0) {
            Some(page) => Ok(PageRef::Borrowed(page)),
            None => self.read_page(at).map(PageRef::Shared),
        }
    }

    fn peek(&self, at: Lba) -> Result<PageRef<'_>> {
        self.read(at)
    }

    fn append(&mut self, heat: Heat, image: &[u8]) -> Result<Lba> {
        self.counts.tree_blocks += 1;
        self.append_for(Purpose::Engine(heat), image)
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
        self.note_undo(at);
        let fits = redo::put_image(&mut self.undo.entries, at, image);
        fits.ok_or_else(|| Error::new(Kind::Usage, "pages of this size are not supported"))?;
        self.dirty.insert(at.0, image.to_vec());
        Ok(())
    }

    fn patch(&mut self, at: Lba, patches: &[Patch<'_>]) -> Result<()> {
        assert!(self.space.is_conventional(at), "only conventional pages are written in place");
        self.note_undo(at);
        let page = self.page_to_repair(at)?;
        let fits = patches.iter().try_for_each(|p| p.apply(page));
        let logged = fits.and_then(|()| redo::put_patches(&mut self.undo.entries, at, patches));
        logged.ok_or_else(|| Error::new(Kind::Corrupt, format!("patch outside page {at}")))
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
            self.space.free(at);
            // A freed page's bytes matter to nobody: it is not written in place any more.
            self.dirty.remove(&at.0);
            self.forget(at);
        }
        self.pending.extend_from_slice(&undo.entries.finish());
        if self.needs_checkpoint() {
            return self.checkpoint();
        }
        if self.durability == Durability::Operation { self.sync() } else { Ok(()) }
    }
}
