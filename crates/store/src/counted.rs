//! Figure mode: pages in memory, with every block read and write of the medium counted.
//!
//! This is how paper 000 measures: each update of a conventional page is one block write, there is
//! no write-back cache, and no block is stored. Redo bytes are what [`crate::pages::Patch`] lists
//! would take in a redo record; they are counted apart.
//!
//! - Zone placement is the paper's: [`Placement::Dynamic`] puts hot pages in the sequential zone
//!   with the most room and cold pages in the one with the least that still fits (the paper's
//!   Algorithms 1 and 2 say "minimum capacity" where its prose says "most remaining"; the prose is
//!   followed).
//! - [`Placement::Fixed`] fills one zone; when it is full its live pages move to the other zone and
//!   it is reset (section 4.2.5). Addresses are abstract, so a move costs its writes and nothing
//!   else: all of a tree's pages are in the zone, and each is written once with its children's new
//!   addresses.
//! - Virtual time, where a [`Timing`] is given, is the sum of the requests' latencies: one client,
//!   one request at a time. A worn zone is slower as the timing says.

use std::cell::Cell;

use littoral_base::units::{Lba, Picos};
use littoral_device::zoned::timing::Timing;

use crate::error::{Error, Kind, Result};
use crate::pages::{Heat, PageRef, Pages, Patch, Root};

/// Where appended pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Hot pages where there is most room, cold pages where there is least.
    Dynamic,
    /// Every page where there is most room, whatever its heat (the ablation).
    Uniform,
    /// One zone until it is full, then its live pages move on and it is reset.
    Fixed,
}

littoral_base::counters! {
    /// What a medium would have done.
    pub struct PageCounters => PageCounts {
        /// Block reads.
        reads_count,
        /// Block writes at write pointers.
        sequential_writes_count,
        /// Of them, writes of cold pages.
        cold_writes_count,
        /// Block writes in place.
        conventional_writes_count,
        /// Block writes of live pages moved before a reset.
        moved_writes_count,
        /// Zone resets.
        resets_count,
        /// Bytes of redo records.
        redo_bytes,
        /// Operations ended by a commit.
        commits_count,
    }
}

impl PageCounts {
    /// Block writes of all kinds, redo apart.
    pub fn writes_count(&self) -> u64 {
        self.sequential_writes_count + self.conventional_writes_count + self.moved_writes_count
    }

    /// Blocks of redo when a group of commits shares its last block.
    pub fn redo_blocks(&self, block_bytes: u64) -> u64 {
        self.redo_bytes.div_ceil(block_bytes)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct ZoneFill {
    written: u64,
    live: u64,
    resets: u64,
}

/// Zone of a page that is not in use.
const NO_ZONE: u32 = u32::MAX;
/// Zone of a conventional page.
const CONVENTIONAL: u32 = u32::MAX - 1;

#[derive(Debug)]
struct Slab {
    bytes: Vec<u8>,
    zone: u32,
}

/// The shape of a counted medium.
#[derive(Clone, Debug)]
pub struct CountedConfig {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Conventional pages; zero means the medium has none.
    pub conventional_blocks: u64,
    /// Sequential zones.
    pub sequential_zones: u32,
    /// Blocks of a sequential zone.
    pub zone_blocks: u64,
    /// Where appended pages go.
    pub placement: Placement,
    /// Latencies, if virtual time is wanted.
    pub timing: Option<Timing>,
    /// Resets each sequential zone has behind it already; a shorter list means none for the rest.
    pub worn_resets: Vec<u64>,
}

/// Pages in memory that count what a medium would have done.
#[derive(Debug)]
pub struct CountedPages {
    config: CountedConfig,
    slabs: Vec<Slab>,
    unused: Vec<u32>,
    zones: Vec<ZoneFill>,
    conventional_live: u64,
    conventional_peak: u64,
    active: usize,
    counters: PageCounters,
    nanos: Cell<u64>,
    root: Root,
}

fn bump(cell: &Cell<u64>, by: u64) {
    littoral_base::counters::bump(cell, by);
}

impl CountedPages {
    /// An empty medium.
    pub fn new(config: CountedConfig) -> CountedPages {
        assert!(config.sequential_zones > 0 && config.zone_blocks > 0, "a medium has a zone");
        let worn = |i: u32| config.worn_resets.get(i as usize).copied().unwrap_or(0);
        let fill = |i| ZoneFill { resets: worn(i), ..ZoneFill::default() };
        let zones = (0..config.sequential_zones).map(fill).collect();
        CountedPages {
            config,
            slabs: Vec::new(),
            unused: Vec::new(),
            zones,
            conventional_live: 0,
            conventional_peak: 0,
            active: 0,
            counters: PageCounters::default(),
            nanos: Cell::new(0),
            root: Root::default(),
        }
    }

    /// Counts so far.
    pub fn counts(&self) -> PageCounts {
        self.counters.snapshot()
    }

    /// Virtual time so far; zero without a timing.
    pub fn now(&self) -> Picos {
        Picos::from_nanos(self.nanos.get())
    }

    /// Blocks behind the write pointers of all sequential zones.
    pub fn sequential_written_blocks(&self) -> u64 {
        self.zones.iter().map(|z| z.written).sum()
    }

    /// Mean share of the sequential zones that is behind their write pointers.
    pub fn sequential_occupancy(&self) -> f64 {
        let blocks = self.zones.len() as u64 * self.config.zone_blocks;
        self.sequential_written_blocks() as f64 / blocks as f64
    }

    /// Share of the conventional pages in use.
    pub fn conventional_occupancy(&self) -> f64 {
        self.conventional_live as f64 / self.config.conventional_blocks.max(1) as f64
    }

    /// The largest share of the conventional pages that was ever in use.
    pub fn conventional_occupancy_peak(&self) -> f64 {
        self.conventional_peak as f64 / self.config.conventional_blocks.max(1) as f64
    }

    /// Pages in use, of both kinds.
    pub fn live_pages(&self) -> u64 {
        self.conventional_live + self.zones.iter().map(|z| z.live).sum::<u64>()
    }

    fn charge(&self, zone: u32, time: impl Fn(&Timing) -> Picos) {
        let Some(t) = &self.config.timing else { return };
        let resets = self.zones.get(zone as usize).map_or(0, |z| z.resets);
        bump(&self.nanos, t.worn(resets, time(t)).as_nanos());
    }

    fn slab(&mut self, zone: u32, image: &[u8]) -> Lba {
        let slot = self.unused.pop().unwrap_or_else(|| {
            self.slabs.push(Slab { bytes: Vec::new(), zone: NO_ZONE });
            (self.slabs.len() - 1) as u32
        });
        let slab = &mut self.slabs[slot as usize];
        assert_eq!(slab.zone, NO_ZONE, "a page is given out once");
        slab.zone = zone;
        slab.bytes.clear();
        slab.bytes.extend_from_slice(image);
        Lba(u64::from(slot))
    }

    fn find(&self, at: Lba) -> Result<&Slab> {
        let found = self.slabs.get(at.index()).filter(|s| s.zone != NO_ZONE);
        found.ok_or_else(|| {
            Error::new(Kind::Corrupt, format!("page {at} is not in use")).at_page(at.0)
        })
    }

    fn choose(&self, heat: Heat) -> Option<usize> {
        let room = |z: &ZoneFill| self.config.zone_blocks - z.written;
        let fits = self.zones.iter().enumerate().filter(|(_, z)| room(z) > 0);
        let cold = heat == Heat::Cold && self.config.placement == Placement::Dynamic;
        let found = if cold {
            fits.min_by_key(|(i, z)| (room(z), *i))
        } else {
            fits.max_by_key(|(i, z)| (room(z), usize::MAX - *i))
        };
        found.map(|(i, _)| i)
    }

    /// The zone to fill when there is only one at a time, moving on when it is full.
    fn fixed_zone(&mut self) -> Option<usize> {
        let blocks = self.config.zone_blocks;
        if self.zones[self.active].written < blocks {
            return Some(self.active);
        }
        let full = self.active;
        let next = (0..self.zones.len()).find(|&z| z != full && self.zones[z].written == 0)?;
        let live = self.zones[full].live;
        self.zones[next] = ZoneFill { written: live, live, resets: self.zones[next].resets };
        self.zones[full] = ZoneFill { resets: self.zones[full].resets + 1, ..ZoneFill::default() };
        for s in self.slabs.iter_mut().filter(|s| s.zone == full as u32) {
            s.zone = next as u32;
        }
        bump(&self.counters.moved_writes_count, live);
        bump(&self.counters.reads_count, live);
        bump(&self.counters.resets_count, 1);
        self.charge(full as u32, |t| Picos(t.reset.0 + live * (t.read.0 + t.program.0)));
        self.active = next;
        (live < blocks).then_some(next)
    }

    fn written_in_place(&self, redo: usize) {
        bump(&self.counters.conventional_writes_count, 1);
        bump(&self.counters.redo_bytes, redo as u64);
        self.charge(CONVENTIONAL, |t| t.conventional);
    }
}

/// Bytes of a redo record's frame: length, sequence and checksum, the root, and the operation.
pub const REDO_FRAME_BYTES: u64 = 40;
/// Bytes in front of a page image or a patch list in a redo record: address, kind and count.
const REDO_PAGE_BYTES: usize = 11;
/// Bytes in front of a patch: kind, two offsets and a length.
const REDO_PATCH_BYTES: usize = 7;

impl Pages for CountedPages {
    fn page_bytes(&self) -> usize {
        self.config.page_bytes
    }

    fn has_conventional(&self) -> bool {
        self.config.conventional_blocks > 0
    }

    fn read(&self, at: Lba) -> Result<PageRef<'_>> {
        let slab = self.find(at)?;
        bump(&self.counters.reads_count, 1);
        self.charge(slab.zone, |t| t.read);
        Ok(PageRef::Borrowed(&slab.bytes))
    }

    fn peek(&self, at: Lba) -> Result<PageRef<'_>> {
        self.find(at).map(|s| PageRef::Borrowed(&s.bytes))
    }

    fn append(&mut self, heat: Heat, image: &[u8]) -> Result<Lba> {
        assert!(image.len() <= self.config.page_bytes, "an image fits its page");
        let zone = match self.config.placement {
            Placement::Fixed => self.fixed_zone(),
            _ => self.choose(heat),
        };
        let full = || Error::new(Kind::Full, "every sequential zone is full");
        let zone = zone.ok_or_else(full)?;
        self.zones[zone].written += 1;
        self.zones[zone].live += 1;
        bump(&self.counters.sequential_writes_count, 1);
        bump(&self.counters.cold_writes_count, u64::from(heat == Heat::Cold));
        bump(&self.counters.redo_bytes, REDO_PAGE_BYTES as u64);
        self.charge(zone as u32, |t| t.program);
        Ok(self.slab(zone as u32, image))
    }

    fn allocate(&mut self) -> Result<Lba> {
        if self.conventional_live >= self.config.conventional_blocks {
            return Err(Error::new(Kind::Full, "every conventional page is in use"));
        }
        self.conventional_live += 1;
        self.conventional_peak = self.conventional_peak.max(self.conventional_live);
        Ok(self.slab(CONVENTIONAL, &[]))
    }

    fn put(&mut self, at: Lba, image: &[u8]) -> Result<()> {
        assert!(image.len() <= self.config.page_bytes, "an image fits its page");
        assert!(self.is_conventional(at), "only conventional pages are written in place");
        let slab = &mut self.slabs[at.index()];
        slab.bytes.clear();
        slab.bytes.extend_from_slice(image);
        self.written_in_place(REDO_PAGE_BYTES + image.len());
        Ok(())
    }

    fn patch(&mut self, at: Lba, patches: &[Patch<'_>]) -> Result<()> {
        assert!(self.is_conventional(at), "only conventional pages are written in place");
        let slab = &mut self.slabs[at.index()];
        let mut redo = REDO_PAGE_BYTES;
        for p in patches {
            let fits = p.apply(&mut slab.bytes);
            fits.ok_or_else(|| {
                Error::new(Kind::Corrupt, format!("patch outside page {at}")).at_page(at.0)
            })?;
            redo += REDO_PATCH_BYTES;
            if let Patch::Put { bytes, .. } = p {
                redo += bytes.len();
            }
        }
        self.written_in_place(redo);
        Ok(())
    }

    fn free(&mut self, at: Lba) {
        let slab = &mut self.slabs[at.index()];
        match slab.zone {
            NO_ZONE => panic!("invariant: page {at} is freed once"),
            CONVENTIONAL => self.conventional_live -= 1,
            zone => self.zones[zone as usize].live -= 1,
        }
        slab.zone = NO_ZONE;
        self.unused.push(at.0 as u32);
    }

    fn is_conventional(&self, at: Lba) -> bool {
        self.slabs.get(at.index()).is_some_and(|s| s.zone == CONVENTIONAL)
    }

    fn root(&self) -> Root {
        self.root
    }

    fn set_root(&mut self, root: Root) {
        self.root = root;
    }

    fn commit(&mut self) -> Result<()> {
        bump(&self.counters.commits_count, 1);
        bump(&self.counters.redo_bytes, REDO_FRAME_BYTES);
        Ok(())
    }
}
