//! Either tree on a store: one face, with room kept and zones collected.
//!
//! - Before an operation changes anything its room is made (`index/room.rs`); when there is none,
//!   the operation is refused with `Kind::Full` and nothing has changed. Reads, overwrites and
//!   deletions go on, and deletions bring room back.
//! - A failed operation is undone in memory; after a failed durable write the store is poisoned.
//! - One writer, many readers: reading takes `&self`, writing `&mut self`; [`Shared`] puts a lock
//!   around.

use std::collections::BTreeSet;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use littoral_base::codec::{Reader, Writer};
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::{ZoneKind, ZonedDevice};
use littoral_store::MEMORY_BYTES;
use littoral_store::gc::{self, Rank, Relocate, Together};
use littoral_store::pages::Pages;
use littoral_store::room::Demand;
use littoral_store::store::Store;

use crate::cow::{Cow, SplitCost};
use crate::gathered::Gathered;
use crate::inspect::PageRules;
use crate::layout::Shape;
use crate::tree::Direction;
use crate::zb::Zb;
use crate::{Error, Kind, Result};

pub use crate::engine::Engine;

mod room;

use room::Room;

/// The version of the trees' page layouts, in the store's label.
const LAYOUT_VERSION: u16 = 1;

fn label(shape: &Shape) -> Vec<u8> {
    let mut w = Writer::new();
    w.u16(LAYOUT_VERSION);
    let sizes = [
        shape.key_bytes,
        shape.value_bytes,
        shape.leaf_slots,
        shape.interior_slots,
        shape.head_slots,
    ];
    for n in sizes {
        w.u32(n as u32);
    }
    w.finish()
}

fn shape_of(label: &[u8]) -> Result<Shape> {
    let mut r = Reader::new(label);
    let version = r.u16().unwrap_or(0);
    if version != LAYOUT_VERSION {
        let text = format!("page layout {version}; this build reads {LAYOUT_VERSION}");
        return Err(Error::new(Kind::Foreign, text));
    }
    let mut size = || r.u32().map(|n| n as usize);
    let found = (|| {
        Some(Shape {
            key_bytes: size()?,
            value_bytes: size()?,
            leaf_slots: size()?,
            interior_slots: size()?,
            head_slots: size()?,
        })
    })();
    found.ok_or_else(|| Error::new(Kind::Corrupt, "the store's label is cut short"))
}

#[derive(Debug)]
enum Tree<D> {
    Zb(Zb<Store<D>>),
    Cow(Cow<Store<D>>),
}

/// An index on a zoned device; see the module's page.
#[derive(Debug)]
pub struct Index<D> {
    tree: Tree<D>,
    room: Room,
}

macro_rules! each {
    ($self:expr, $t:ident => $e:expr) => {
        match $self {
            Tree::Zb($t) => $e,
            Tree::Cow($t) => $e,
        }
    };
}

impl<D: ZonedDevice> Relocate for Index<D> {
    type Device = D;

    fn store(&mut self) -> &mut Store<D> {
        each!(&mut self.tree, t => t.pages_mut())
    }

    fn moved(&mut self, old: Lba, new: Lba) -> Result<()> {
        match &mut self.tree {
            Tree::Zb(t) => t.moved(old, new),
            Tree::Cow(_) => unreachable!("invariant: its pages are moved together"),
        }
    }

    fn copied(&mut self, at: Lba) -> Result<Option<Lba>> {
        match &mut self.tree {
            Tree::Zb(t) => t.copied(at),
            // Zones are emptied in one operation, which is durable as a whole or not at all.
            Tree::Cow(_) => Ok(None),
        }
    }

    fn together(&self) -> Option<Together> {
        match &self.tree {
            Tree::Zb(_) => None,
            Tree::Cow(_) => Some(Together { gain: self.needs().1 }),
        }
    }

    fn costs(&mut self, zones: usize, rank: Rank<'_>) -> Result<Vec<u64>> {
        match &self.tree {
            Tree::Zb(_) => Ok(Vec::new()),
            Tree::Cow(t) => t.costs(zones, rank),
        }
    }

    fn immovable(&mut self, taken: &BTreeSet<Lba>) -> Result<BTreeSet<Lba>> {
        match &self.tree {
            Tree::Zb(t) => {
                let may = |head: Lba| t.pages().check_change(head).is_ok();
                let is_fixed = |at: &Lba| !t.head_of(*at).is_ok_and(|head| head.is_some_and(may));
                Ok(taken.iter().copied().filter(is_fixed).collect())
            }
            Tree::Cow(t) => t.immovable(taken),
        }
    }

    fn evacuate(&mut self, pages: &BTreeSet<Lba>) -> Result<()> {
        match &mut self.tree {
            Tree::Zb(_) => pages.iter().try_for_each(|&old| gc::move_page(self, old)),
            Tree::Cow(t) => t.evacuate(pages),
        }
    }
}

impl<D: ZonedDevice> Index<D> {
    /// Creates an index on an empty device.
    ///
    /// # Errors
    /// `Kind::Usage` for record sizes that fit no page, `Kind::Unsupported` for a device that
    /// cannot serve the engine, `Kind::Foreign` for a device that holds anything; `Kind::Io`.
    pub fn create(dev: D, engine: Engine, shape: Shape, id: u64) -> Result<Index<D>> {
        Index::create_by(Store::create, dev, engine, shape, id)
    }

    /// As [`Index::create`], of an index that cannot be opened before [`Index::made`].
    ///
    /// # Errors
    /// As [`Index::create`].
    pub fn begin(dev: D, engine: Engine, shape: Shape, id: u64) -> Result<Index<D>> {
        Index::create_by(Store::begin, dev, engine, shape, id)
    }

    /// Makes an index that was begun one that can be opened, with all that it holds.
    ///
    /// # Errors
    /// Those of [`Store::made`].
    pub fn made(&mut self) -> Result<()> {
        self.store_mut().made()
    }

    fn create_by(
        create: impl FnOnce(D, [u8; 8], &[u8], u64) -> Result<Store<D>>,
        dev: D,
        engine: Engine,
        shape: Shape,
        id: u64,
    ) -> Result<Index<D>> {
        shape.check(dev.limits().block_bytes as usize)?;
        if engine == Engine::Zb && !has_conventional(&dev)? {
            return Err(crate::zb::no_conventional());
        }
        let label = label(&shape);
        debug_assert_eq!(shape_of(&label).ok(), Some(shape), "the label says another shape");
        let store = create(dev, engine.tag(), &label, id)?;
        let tree = match engine {
            Engine::Zb => Tree::Zb(Zb::create(store, shape)?),
            Engine::Cow => Tree::Cow(Cow::create(store, shape, SplitCost::OneWrite)?),
        };
        let mut index = Index::over(tree, shape);
        index.room.set_new();
        // How many zones a collection may fill is known only now.
        index.store_mut().keep_host_room()?;
        Ok(index)
    }

    fn over(tree: Tree<D>, shape: Shape) -> Index<D> {
        let mut index = Index { tree, room: Room::new(&shape) };
        if index.engine() == Engine::Cow {
            let kept = room::zones_kept(index.store_ref().writable_zones(), &shape);
            let store = index.store_mut();
            store.keep_zones(kept);
            store.use_drafts(Box::new(move |page| crate::cow::children(&shape, page)));
        }
        index
    }

    /// Opens the index of a device, recovering it if need be.
    ///
    /// # Errors
    /// `Kind::Foreign` for another medium, engine or format; `Kind::Corrupt`; `Kind::Io`.
    pub fn open(dev: D) -> Result<Index<D>> {
        Index::open_within(dev, MEMORY_BYTES)
    }

    /// As [`Index::open`], with a limit on the pages in memory
    /// ([`littoral_store::store::Store::set_memory`]).
    ///
    /// # Errors
    /// As [`Index::open`].
    pub fn open_within(dev: D, memory_bytes: u64) -> Result<Index<D>> {
        let (mut index, live) = Index::find(dev, memory_bytes)?;
        index.store_mut().recovered(&live)?;
        Ok(index)
    }

    /// Opens the index of a device to read it: the medium stays as it is, and changes are refused.
    ///
    /// # Errors
    /// As [`Index::open`].
    pub fn open_to_read(dev: D) -> Result<Index<D>> {
        Index::open_to_read_within(dev, MEMORY_BYTES)
    }

    /// As [`Index::open_to_read`], with a limit on the pages in memory.
    ///
    /// # Errors
    /// As [`Index::open`].
    pub fn open_to_read_within(dev: D, memory_bytes: u64) -> Result<Index<D>> {
        let (mut index, live) = Index::find(dev, memory_bytes)?;
        index.store_mut().opened_to_read(&live)?;
        Ok(index)
    }

    /// The index as the redo log leaves it, and its pages.
    fn find(dev: D, memory_bytes: u64) -> Result<(Index<D>, BTreeSet<Lba>)> {
        let mut store = Store::open(dev)?;
        store.set_memory(memory_bytes);
        let (tree, shape) = Index::tree(store)?;
        let live = match &tree {
            Tree::Zb(t) => t.reachable()?,
            Tree::Cow(t) => t.reachable()?,
        };
        Ok((Index::over(tree, shape), live))
    }

    /// An index of which no page has been read yet: for salvage, which trusts none.
    pub(crate) fn unchecked(store: Store<D>) -> Result<Index<D>> {
        Index::tree(store).map(|(tree, shape)| Index::over(tree, shape))
    }

    /// Gives every record that can be read to `out`.
    pub(crate) fn salvage(&self, out: &mut Gathered<'_>) {
        each!(&self.tree, t => t.salvage(out));
    }

    /// The tree whose pages a store holds.
    fn tree(mut store: Store<D>) -> Result<(Tree<D>, Shape)> {
        let (tag, label) = store.engine();
        let Some(engine) = Engine::tagged(tag) else {
            let name = String::from_utf8_lossy(&tag);
            let text = format!("the store belongs to engine {}", name.trim_end_matches('\0'));
            return Err(Error::new(Kind::Foreign, text));
        };
        let shape = shape_of(label)?;
        let fits = shape.check(store.page_bytes());
        fits.map_err(|e| Error::new(Kind::Corrupt, format!("the store's label: {e}")))?;
        store.set_inspector(Box::new(PageRules { engine, shape }));
        let tree = match engine {
            Engine::Zb => Tree::Zb(Zb::open(store, shape)?),
            Engine::Cow => Tree::Cow(Cow::open(store, shape, SplitCost::OneWrite)?),
        };
        Ok((tree, shape))
    }

    /// The store below.
    pub fn store_ref(&self) -> &Store<D> {
        each!(&self.tree, t => t.pages())
    }

    /// The store below, for its owner.
    pub fn store_mut(&mut self) -> &mut Store<D> {
        each!(&mut self.tree, t => t.pages_mut())
    }

    /// Gives the device back; what was not synced is gone.
    pub fn into_device(self) -> D {
        match self.tree {
            Tree::Zb(t) => t.into_pages().into_device(),
            Tree::Cow(t) => t.into_pages().into_device(),
        }
    }

    /// Which tree this is.
    pub fn engine(&self) -> Engine {
        match self.tree {
            Tree::Zb(_) => Engine::Zb,
            Tree::Cow(_) => Engine::Cow,
        }
    }

    /// Sizes of records and pages.
    pub fn shape(&self) -> &Shape {
        each!(&self.tree, t => t.shape())
    }

    /// Records held.
    pub fn len(&self) -> u64 {
        each!(&self.tree, t => t.len())
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Layers of pages from the top to a leaf.
    pub fn layers(&self) -> u32 {
        each!(&self.tree, t => t.layers())
    }

    fn undo(&mut self) {
        each!(&mut self.tree, t => {
            t.pages_mut().abort();
            t.reload_root();
        });
    }

    fn change<T>(
        &mut self,
        demand: Demand,
        run: impl FnOnce(&mut Tree<D>) -> Result<T>,
    ) -> Result<T> {
        // A collection that failed is undone too: what it appended must not be committed later.
        let result = self.make_room(demand).and_then(|()| run(&mut self.tree));
        if result.is_err() {
            self.undo();
        }
        result
    }

    /// Inserts a record or replaces its value; whether the key is new.
    ///
    /// # Errors
    /// `Kind::Usage` for other sizes, `Kind::Full` before anything is changed; those of the store.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let demand = self.demand_of_put(key)?;
        self.room.touch(demand, key);
        self.change(demand, |tree| each!(tree, t => t.upsert(key, value)))
    }

    /// Deletes a key; whether it was there.
    ///
    /// # Errors
    /// As [`Index::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.room.touch(Demand::Delete, key);
        self.change(Demand::Delete, |tree| each!(tree, t => t.delete(key)))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `Kind::Usage` for another size; `Kind::Corrupt`, `Kind::Io`.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        each!(&self.tree, t => t.get(key))
    }

    /// Calls `each` with every record in `[from, to)` until it answers false.
    ///
    /// # Errors
    /// As [`Index::get`].
    pub fn scan(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let mut order = Order { direction, last: None, count: 0, is_broken: false };
        let mut is_whole = from.is_none() && to.is_none();
        each!(&self.tree, t => t.scan(from, to, direction, |key, value| {
            let goes_on = order.takes(key) && visit(key, value);
            is_whole &= goes_on;
            goes_on
        }))?;
        order.check(is_whole.then(|| self.len()))
    }

    /// Ends with a checkpoint, so that nothing rests on the end of the redo log.
    ///
    /// # Errors
    /// Those of the store, which is poisoned then.
    pub fn close(&mut self) -> Result<()> {
        self.store_mut().close()
    }

    /// As [`Index::close`]; nothing where the store is open to be read, or refuses further work.
    pub(crate) fn close_if_writable(&mut self) -> Result<()> {
        if self.store_ref().is_usable() { self.close() } else { Ok(()) }
    }

    /// Makes every operation so far durable.
    ///
    /// # Errors
    /// Those of the store, which is poisoned then.
    pub fn sync(&mut self) -> Result<()> {
        self.store_mut().sync()
    }

    /// Walks every invariant of the tree; pages in use.
    ///
    /// # Errors
    /// `Kind::Corrupt` naming the page and the rule.
    pub fn check(&self) -> Result<u64> {
        match &self.tree {
            Tree::Zb(t) => t.check().map(|c| c.pages.len() as u64),
            Tree::Cow(t) => t.check().map(|p| p.len() as u64),
        }
    }
}

/// What a scan has shown so far: keys in strict order, or else the tree is damaged.
struct Order {
    direction: Direction,
    last: Option<Vec<u8>>,
    count: u64,
    is_broken: bool,
}

impl Order {
    /// Whether the next key follows the last one.
    fn takes(&mut self, key: &[u8]) -> bool {
        let follows = |last: &Vec<u8>| match self.direction {
            Direction::Forward => key > &last[..],
            Direction::Backward => key < &last[..],
        };
        self.is_broken |= !self.last.as_ref().is_none_or(follows);
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        self.count += 1;
        !self.is_broken
    }

    /// Refuses what was out of order, and a whole scan that found more or fewer records than the
    /// root counts.
    fn check(&self, records: Option<u64>) -> Result<()> {
        if self.is_broken {
            let key = self.last.as_deref().unwrap_or_default();
            let text = format!("key {key:02x?} out of order; `kv check` names the page");
            return Err(Error::new(Kind::Corrupt, text));
        }
        match records.filter(|&n| n != self.count) {
            None => Ok(()),
            Some(n) => {
                let text = format!("{} records found where the root counts {n}", self.count);
                Err(Error::new(Kind::Corrupt, text))
            }
        }
    }
}

fn has_conventional(dev: &impl ZonedDevice) -> Result<bool> {
    let report = dev.report(ZoneId(0), dev.limits().zones);
    let report = report.map_err(|e| Error::with_source(Kind::Io, "zone report", e))?;
    Ok(report.iter().any(|z| z.kind == ZoneKind::Conventional))
}

/// An index for one writer and many readers.
#[derive(Debug)]
pub struct Shared<D>(Arc<RwLock<Index<D>>>);

impl<D> Clone for Shared<D> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<D: ZonedDevice> Shared<D> {
    /// Shares an index.
    pub fn new(index: Index<D>) -> Shared<D> {
        Shared(Arc::new(RwLock::new(index)))
    }

    /// A reader: others may read at the same time.
    pub fn read(&self) -> RwLockReadGuard<'_, Index<D>> {
        self.0.read().expect("invariant: no writer panics with the lock held")
    }

    /// The writer: alone.
    pub fn write(&self) -> RwLockWriteGuard<'_, Index<D>> {
        self.0.write().expect("invariant: no writer panics with the lock held")
    }
}
