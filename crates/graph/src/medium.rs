//! Which medium the edges are on, and how one thread gets at them there.
//!
//! - `dram`: the file in memory, read as slices with a prefetch hint, or through a ring; `mmap`:
//!   the same over a mapping of the file;
//! - `nvme`: the same flash behind a queue pair with doorbells, as the paper's baseline has it;
//! - `flash`: paced device behind the lightweight interface, handing out pointers or copying;
//! - `uring`, `pread`: the file itself.
//!
//! Invariants
//! - [`Store`] holds what threads share (the bytes or the path); a device is opened by the thread
//!   that uses it and never leaves it.
//! - [`Store::describe`] says what is modelled; whoever shows a time shows that too.

use std::path::PathBuf;
use std::sync::Arc;

use littoral_base::clock::ClockKind;
use littoral_base::units::PerSecond;
use littoral_device::flash::cached::{Cached, FRAME_BYTES, Frames};
use littoral_device::flash::dram::Dram;
use littoral_device::flash::paced::{Paced, PacedOptions};
use littoral_device::flash::pacer::SharedRate;
use littoral_device::flash::pread::{Pread, PreadOptions};
use littoral_device::flash::queue_pair::{Batching, Doorbell, QueuePair};
use littoral_device::flash::uring::{Uring, UringOptions, available};
use littoral_device::profile::Profile;
use littoral_device::region::Region;
use littoral_runtime::{Contexts, RingOptions};

use crate::edges::Edges;
use crate::edges::hint::Hint;
use crate::edges::raw::Mapped;
use crate::edges::resident::{Hints, Resident};
use crate::edges::ringed::Ringed;
use crate::error::{Error, Kind, Result};
use crate::format::file::GraphFile;
use crate::format::{HEAD_BLOCK_VERTICES, HEAD_UNIT_BYTES};

/// How modelled flash hands its data over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transfer {
    /// As a pointer into its contents: the transfer costs the host nothing.
    #[default]
    Pointer,
    /// Copied into a buffer at the host's expense.
    Copy,
}

/// How edges in DRAM are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DramForm {
    /// As slices, prefetched by one hint.
    Direct(Hint),
    /// Through a ring of so many contexts, as from a device that answers at once, whose issue
    /// prefetches by the hint.
    Ring(u32, Hint),
}

impl DramForm {
    /// Every form worth a trial; which is best depends on processor, graph and kernel.
    pub const ALL: [DramForm; 7] = [
        DramForm::Direct(Hint::None),
        DramForm::Direct(Hint::T0),
        DramForm::Direct(Hint::Nta),
        DramForm::Ring(8, Hint::T0),
        DramForm::Ring(32, Hint::T0),
        DramForm::Ring(32, Hint::Nta),
        DramForm::Ring(128, Hint::T0),
    ];

    /// The form in words.
    pub fn describe(self) -> String {
        match self {
            DramForm::Direct(hint) => format!("read directly, {}", hint.name()),
            DramForm::Ring(contexts, hint) => {
                format!("read through a ring of {contexts} contexts, {}", hint.name())
            }
        }
    }
}

/// Where the edges are.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Medium {
    /// In DRAM, read directly with the hints that suit the processor: nothing modelled.
    Dram,
    /// In DRAM, read in one given form: nothing modelled.
    DramAs(DramForm),
    /// On flash as a profile describes it, modelled.
    Flash {
        /// Latency, rates, link, granule.
        profile: Profile,
        /// How data arrive.
        transfer: Transfer,
    },
    /// On flash behind an NVMe-style queue pair with doorbells, modelled (the paper's baseline).
    Nvme {
        /// Latency, rates, link, granule, and what a doorbell costs.
        profile: Profile,
    },
    /// In a file, by io_uring; by a pool of threads where that is forbidden.
    Uring,
    /// In a file, by a pool of threads that call `pread`.
    Pread,
    /// In a file mapped into memory: page faults fetch what is read.
    Mmap,
}

impl Medium {
    /// The medium's name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Medium::Dram | Medium::DramAs(_) => "dram",
            Medium::Flash { .. } => "flash",
            Medium::Nvme { .. } => "nvme",
            Medium::Uring => "uring",
            Medium::Pread => "pread",
            Medium::Mmap => "mmap",
        }
    }
}

#[derive(Debug)]
enum Contents {
    Region(Region),
    Mapped(Mapped),
    File(PathBuf),
}

/// A graph's edges on a medium, ready for threads to open devices on.
#[derive(Debug)]
pub struct Store {
    medium: Medium,
    contents: Contents,
    /// The rate that all threads' devices share.
    shared: Option<SharedRate>,
    paced: Option<PacedOptions>,
    /// Contexts of each ring, where they are given rather than found.
    contexts: Option<u32>,
    /// What is held in DRAM of a modelled device's contents.
    frames: Option<Arc<Frames>>,
    uring_refused: Option<String>,
    /// What trials of hints have chosen, for all threads.
    hints: Hints,
}

/// Work that runs on whatever form the edges take.
pub(crate) trait Visit {
    type Output;
    fn visit<E: Edges>(self, edges: &E) -> Self::Output;
}

impl Store {
    /// Puts the edges of `graph` on `medium`: loads them, maps them, or finds the file.
    ///
    /// # Errors
    /// `Kind::Io`; `Kind::Device` when the medium cannot be had; `Kind::Argument` when the profile
    /// describes no flash, or the graph is in memory and the medium needs a file.
    pub fn open(graph: &GraphFile, medium: Medium) -> Result<Store> {
        let contents = match medium {
            Medium::Dram | Medium::DramAs(_) | Medium::Flash { .. } | Medium::Nvme { .. } => {
                Contents::Region(load(graph)?)
            }
            Medium::Mmap => Contents::Mapped(Mapped::open(&path(graph, &medium)?)?),
            Medium::Uring | Medium::Pread => Contents::File(path(graph, &medium)?),
        };
        Store::with_contents(medium, contents)
    }

    /// The same bytes on another modelled medium: nothing is loaded again.
    ///
    /// # Errors
    /// `Kind::Argument` when either medium is not in DRAM behind the scenes.
    pub fn on(&self, medium: Medium) -> Result<Store> {
        match (&self.contents, &medium) {
            (
                Contents::Region(region),
                Medium::Dram | Medium::DramAs(_) | Medium::Flash { .. } | Medium::Nvme { .. },
            ) => Store::with_contents(medium, Contents::Region(region.clone())),
            _ => Err(Error::new(
                Kind::Argument,
                format!("{} and {} cannot share contents", self.medium.name(), medium.name()),
            )),
        }
    }

    fn with_contents(medium: Medium, contents: Contents) -> Result<Store> {
        log::info!("edges on medium {}", medium.name());
        let mut store = Store {
            medium,
            contents,
            shared: None,
            paced: None,
            contexts: None,
            frames: None,
            uring_refused: None,
            hints: Hints::default(),
        };
        if let Medium::Flash { profile, .. } | Medium::Nvme { profile } = &store.medium {
            let flash = profile.flash().map_err(device_error)?;
            let shared = SharedRate::new(PerSecond(flash.reads_total_max as f64));
            store.paced = Some(PacedOptions::of(&flash, None));
            store.shared = Some(shared);
        }
        if matches!(store.medium, Medium::Uring) {
            store.uring_refused = available().err();
            if let Some(why) = &store.uring_refused {
                log::info!("a pool of pread threads stands in for io_uring: {why}");
            }
        }
        Ok(store)
    }

    /// The same with a given number of contexts in each ring, unless a run asks for another.
    #[must_use]
    pub fn with_contexts(mut self, contexts: u32) -> Store {
        self.contexts = Some(contexts);
        self
    }

    /// The same with `frames` of a modelled device's contents held in DRAM: reads that lie in them
    /// are answered at once. Other media, and data that are copied, take no notice.
    #[must_use]
    pub fn with_frames(mut self, frames: Arc<Frames>) -> Store {
        self.frames = Some(frames);
        self
    }

    /// Contexts of a ring on a modelled device, by Little's law or as given; `None` on others.
    pub fn modelled_contexts(&self) -> Option<u32> {
        Some(self.contexts.unwrap_or(littles(self.paced.as_ref()?)))
    }

    /// The medium.
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// The hash of the profile behind a modelled medium.
    pub fn profile_hash(&self) -> Option<String> {
        match &self.medium {
            Medium::Flash { profile, .. } | Medium::Nvme { profile } => Some(profile.hash()),
            _ => None,
        }
    }

    /// Which clock stands behind a time on this medium.
    pub fn clock(&self) -> ClockKind {
        match self.medium {
            Medium::Flash { .. } | Medium::Nvme { .. } => ClockKind::Paced,
            _ => ClockKind::Wall,
        }
    }

    /// What is real and what is modelled, in one line.
    pub fn describe(&self) -> String {
        match &self.medium {
            Medium::Dram => "edges in DRAM, read directly; nothing modelled".to_owned(),
            Medium::DramAs(form) => {
                format!("edges in DRAM, {}; nothing modelled", form.describe())
            }
            Medium::Mmap => "the file mapped into memory; nothing modelled".to_owned(),
            Medium::Pread => "the file read by a pool of threads; nothing modelled".to_owned(),
            Medium::Uring => match &self.uring_refused {
                None => "the file read by io_uring; nothing modelled".to_owned(),
                Some(why) => format!(
                    "the file read by a pool of threads, since io_uring is not to be had ({why}); \
                     nothing modelled"
                ),
            },
            Medium::Flash { profile, transfer } => self.describe_flash(
                profile,
                match transfer {
                    Transfer::Pointer => "data handed out by pointer (transfer free)".to_owned(),
                    Transfer::Copy => "data copied at the host's expense".to_owned(),
                },
            ),
            Medium::Nvme { profile } => {
                let ns = doorbell_ns(profile);
                self.describe_flash(
                    profile,
                    format!("behind a queue pair, doorbells of {ns:.0} ns once a batch"),
                )
            }
        }
    }

    fn describe_flash(&self, profile: &Profile, hand_over: String) -> String {
        let figures = self.paced.as_ref().map_or(String::new(), |o| {
            let rate = o.timing.reads_per_core_max.map_or(0.0, |r| r.0);
            format!(
                "{} us, {:.0} M reads/s a core, link {:.1} GB/s, granule {} B",
                o.timing.latency.as_nanos() as f64 / 1e3,
                rate / 1e6,
                o.timing.link_bytes_per_s.unwrap_or(0.0) / 1e9,
                o.granule_bytes
            )
        });
        format!("modelled: flash {} ({figures}), {hand_over}; contents are in DRAM", profile.name())
    }

    /// A thread's share of the modelled device.
    fn paced_options(&self, members: usize) -> PacedOptions {
        let mut options = self.paced.clone().expect("invariant: modelled media have options");
        if members > 1 {
            options.timing.shared = self.shared.clone();
        }
        options
    }

    /// Opens this thread's device and runs `work` on it.
    pub(crate) fn with_edges<V: Visit>(
        &self,
        graph: &GraphFile,
        members: usize,
        contexts: Option<u32>,
        work: V,
    ) -> Result<V::Output> {
        let ring = |device_contexts: u32| {
            let contexts = contexts.or(self.contexts).unwrap_or(device_contexts);
            RingOptions::with_contexts(Contexts::Fixed(contexts))
        };
        match (&self.contents, &self.medium) {
            (Contents::Region(region), Medium::Nvme { profile }) => {
                let doorbell = Doorbell::BusyNs(doorbell_ns(profile));
                let options = self.paced_options(members);
                let contexts_by_law = littles(&options);
                let device = QueuePair::new(region.clone(), options, doorbell, Batching::PerKick)
                    .map_err(device_error)?;
                let Some(frames) = self.frames.clone() else {
                    return Ok(work.visit(&Ringed::new(graph, device, ring(contexts_by_law))?));
                };
                let device = Cached::new(device, region.clone(), frames);
                let hits = device.hits();
                let edges = Ringed::new(graph, device, ring(contexts_by_law))?.with_hits(hits);
                Ok(work.visit(&edges))
            }
            (Contents::Region(region), Medium::Flash { transfer, .. }) => {
                let options = self.paced_options(members);
                let contexts_by_law = littles(&options);
                match transfer {
                    Transfer::Pointer => {
                        let device = Paced::<false>::new(region.clone(), options);
                        let Some(frames) = self.frames.clone() else {
                            let edges = Ringed::new(graph, device, ring(contexts_by_law))?;
                            return Ok(work.visit(&edges));
                        };
                        let device = Cached::new(device, region.clone(), frames);
                        let hits = device.hits();
                        let edges = Ringed::new(graph, device, ring(contexts_by_law))?;
                        Ok(work.visit(&edges.with_hits(hits)))
                    }
                    Transfer::Copy => {
                        let device = Paced::<true>::new(region.clone(), options);
                        Ok(work.visit(&Ringed::new(graph, device, ring(contexts_by_law))?))
                    }
                }
            }
            (Contents::Region(region), &Medium::DramAs(DramForm::Ring(contexts, hint))) => {
                through_ring(graph, region, (contexts, hint), work)
            }
            (Contents::Region(region), medium) => {
                let hint = given_hint(medium);
                Ok(work.visit(&Resident::new(graph, region, hint, &self.hints)?))
            }
            (Contents::Mapped(mapped), _) => {
                Ok(work.visit(&Resident::new(graph, mapped.bytes(), None, &self.hints)?))
            }
            (Contents::File(path), Medium::Uring) if self.uring_refused.is_none() => {
                let options = UringOptions { slots: FILE_SLOTS, ..UringOptions::default() };
                let device = Uring::open(path, options).map_err(device_error)?;
                Ok(work.visit(&Ringed::new(graph, device, ring(FILE_CONTEXTS))?))
            }
            (Contents::File(path), _) => {
                let options = PreadOptions { slots: FILE_SLOTS, ..PreadOptions::default() };
                let device = Pread::open(path, options).map_err(device_error)?;
                Ok(work.visit(&Ringed::new(graph, device, ring(FILE_CONTEXTS))?))
            }
        }
    }
}

/// Runs `work` through a ring over DRAM, whose issue prefetches by the hint.
fn through_ring<V: Visit>(
    graph: &GraphFile,
    region: &Region,
    (contexts, hint): (u32, Hint),
    work: V,
) -> Result<V::Output> {
    let options = RingOptions::with_contexts(Contexts::Fixed(contexts));
    let device = Dram::new(region.clone());
    Ok(match hint {
        Hint::Nta => work.visit(&Ringed::new(graph, device.once(), options)?),
        _ => work.visit(&Ringed::new(graph, device, options)?),
    })
}

/// The frames of the graph's edges that `bytes` of DRAM hold: those with lists of the vertices of
/// highest degree first, which searches read most.
pub fn hottest_frames(graph: &GraphFile, bytes: u64) -> Frames {
    let file_bytes = graph.header().file_bytes;
    // The highest degree of a list, or of a vertex of a head block, in each frame.
    let mut heat = vec![0u32; file_bytes.div_ceil(FRAME_BYTES) as usize];
    for &direction in graph.header().directions() {
        let lists = graph.lists(direction);
        let mut warm = |from: u64, len: u64, degree: u32| {
            for frame in from / FRAME_BYTES..(from + len).div_ceil(FRAME_BYTES) {
                if let Some(heat) = heat.get_mut(frame as usize) {
                    *heat = (*heat).max(degree);
                }
            }
        };
        for v in 0..graph.vertices() {
            let list = lists.locate(v);
            if list.degree > 0 {
                let from = lists.pages().offset + list.addr * 4;
                warm(from, u64::from(list.degree) * 4, list.degree);
            }
        }
        let units = lists.head_index().windows(2).enumerate();
        for (block, unit) in units {
            let first = (block * HEAD_BLOCK_VERTICES) as u32;
            let last = (first + HEAD_BLOCK_VERTICES as u32).min(graph.vertices());
            let degree = (first..last).map(|v| lists.degree(v)).max().unwrap_or(0);
            let bytes = HEAD_UNIT_BYTES as u64;
            let from = lists.heads().offset + u64::from(unit[0]) * bytes;
            warm(from, u64::from(unit[1] - unit[0]) * bytes, degree);
        }
    }
    let mut order: Vec<u32> = (0u32..).take(heat.len()).collect();
    order.retain(|&frame| heat[frame as usize] > 0);
    order.sort_by_key(|&frame| std::cmp::Reverse(heat[frame as usize]));
    let mut frames = Frames::none(file_bytes);
    for frame in order.into_iter().take((bytes / FRAME_BYTES) as usize) {
        frames.hold(u64::from(frame) * FRAME_BYTES);
    }
    frames
}

/// The hint that a medium asks for.
fn given_hint(medium: &Medium) -> Option<Hint> {
    match medium {
        Medium::DramAs(DramForm::Direct(hint)) => Some(*hint),
        _ => None,
    }
}

/// How many contexts a modelled device needs by Little's law, its latency times its rate, and a
/// quarter more, since contexts also compute; between 64 and what its slots allow. A search is too
/// short and too mixed for the ring's own tuning by trial.
fn littles(options: &PacedOptions) -> u32 {
    let rate = options.timing.reads_per_core_max.map_or(f64::INFINITY, |r| r.0);
    let seconds = options.timing.latency.as_secs_f64();
    let wanted = (1.25 * rate * seconds).min(2048.0) as u32;
    wanted.next_power_of_two().max(64).min(options.slots / 2).max(1)
}

/// What a doorbell costs; zero where the profile says nothing of one.
fn doorbell_ns(profile: &Profile) -> f64 {
    let flash = profile.flash().ok();
    flash.and_then(|f| f.doorbell).map_or(0.0, |d| d.0 as f64 / 1e3)
}

/// Slots of a device over a file: two for each of [`FILE_CONTEXTS`].
const FILE_SLOTS: u32 = 256;
/// Contexts over a file: ordinary drives are saturated by far fewer.
const FILE_CONTEXTS: u32 = 128;

fn device_error(e: littoral_device::Error) -> Error {
    Error::with_source(Kind::Device, "cannot open the medium", e)
}

fn load(graph: &GraphFile) -> Result<Region> {
    let region = match graph.as_image() {
        Some(image) => Region::from_bytes(image),
        None => Region::load(graph.path()),
    };
    region.map_err(device_error)
}

fn path(graph: &GraphFile, medium: &Medium) -> Result<PathBuf> {
    if graph.as_file().is_some() {
        return Ok(graph.path().to_path_buf());
    }
    let what = format!("a graph in memory cannot be read by {}: write it to a file", medium.name());
    Err(Error::new(Kind::Argument, what))
}
