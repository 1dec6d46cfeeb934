//! A graph's edges on an opened device, and how one thread gets at them there.
//!
//! - DRAM and mapped files: slices with a prefetch hint, or a ring in a given form;
//! - modelled flash, io_uring and thread pools: a ring of contexts over the thread's handle.
//!
//! No path is opened and no backend chosen here: which device it is, what is modelled and which
//! clock stands behind its times is said by the device. [`Store`] holds an opened device, which
//! threads share; a thread's handle never leaves it. Each kernel is compiled for DRAM, the paced
//! device, the queue pair and io_uring; other devices go through the closed enum.
//!
//! Invariants
//! - The device holds the graph: contents are put there, or its header is compared. Checked by
//!   `a_device_that_holds_something_else_is_refused`.
//! - An interrupt ends a step on a device amid its reads. Checked by
//!   `an_interrupt_ends_a_step_on_a_device_amid_its_reads`.
//! - Frames that hold all edges hold every piece of every list with its weights. Checked by
//!   `frames_hold_every_piece_of_a_long_list_with_its_weights`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use littoral_base::clock::ClockKind;
use littoral_base::mutant;
use littoral_base::units::Bytes;
use littoral_device::flash::any::AnyDevice;
use littoral_device::flash::cached::{Cached, FRAME_BYTES, Frames};
use littoral_device::flash::dram::Dram;
pub use littoral_device::flash::opened::{FlashDevice, Transfer};
use littoral_device::flash::paced::PacedOptions;
use littoral_device::profile::{Interface, Profile};
use littoral_device::region::Region;
use littoral_runtime::{Contexts, RingOptions};

use crate::edges::Edges;
use crate::edges::hint::Hint;
use crate::edges::paged::Paged;
use crate::edges::resident::{Hints, Resident};
use crate::edges::ringed::Ringed;
use crate::edges::verified::Verified;
use crate::error::{Error, Kind, Result};
use crate::format::file::GraphFile;
use crate::format::{HEAD_BLOCK_VERTICES, HEAD_UNIT_BYTES};

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

/// A graph's edges on an opened device.
#[derive(Debug)]
pub struct Store {
    device: FlashDevice,
    /// The form in which edges in DRAM are read, where it is given rather than found by trial.
    form: Option<DramForm>,
    /// Contexts of each ring, where they are given rather than found.
    contexts: Option<u32>,
    /// Bytes of pages that a run keeps, all threads together.
    cache_bytes: Option<u64>,
    /// What is held in DRAM of a modelled device's contents.
    frames: Option<Arc<Frames>>,
    /// What trials of hints have chosen, for all threads.
    hints: Hints,
    /// Which pages have been verified, for all threads.
    verified: Verified,
}

/// Work that runs on whatever form the edges take.
pub(crate) trait Visit {
    type Output;
    fn visit<E: Edges>(self, edges: &E) -> Self::Output;
}

impl Store {
    /// The edges of `graph` on `device`: put there when contents are given to it, found there when
    /// it holds what its file holds.
    ///
    /// # Errors
    /// `Kind::Io`; `Kind::Device` when the device has no room for the graph or holds something
    /// else.
    pub fn new(graph: &GraphFile, device: FlashDevice) -> Result<Store> {
        let is_there = holds(graph, &device)?;
        let device = match (is_there, device.takes_contents()) {
            (true, _) => device,
            (false, true) => device.filled(contents(graph)?).map_err(device_error)?,
            (false, false) => {
                let what = format!(
                    "the device ({}) holds something else than the graph {}; write the graph's \
                     file there, or name the device that holds it",
                    device.describe(),
                    graph.path().display()
                );
                return Err(Error::new(Kind::Device, what));
            }
        };
        log::info!("edges on medium {}", device.name());
        Ok(Store::on(device, None))
    }

    /// The edges of `graph` in DRAM, read with the hints that suit the processor.
    ///
    /// # Errors
    /// `Kind::Io`.
    pub fn in_dram(graph: &GraphFile) -> Result<Store> {
        Store::new(graph, FlashDevice::dram(contents(graph)?))
    }

    fn on(device: FlashDevice, form: Option<DramForm>) -> Store {
        let (hints, verified) = (Hints::default(), Verified::default());
        Store { device, form, contexts: None, cache_bytes: None, frames: None, hints, verified }
    }

    /// The same bytes in DRAM, read in one given form.
    ///
    /// # Errors
    /// `Kind::Argument` when the edges are not in DRAM.
    pub fn read_as(&self, form: DramForm) -> Result<Store> {
        match self.device.region() {
            Some(region) => Ok(Store::on(FlashDevice::dram(region.clone()), Some(form))),
            None => Err(Error::new(
                Kind::Argument,
                format!("{} and dram cannot share contents", self.name()),
            )),
        }
    }

    /// The same bytes behind a model of the part that `profile` describes: nothing is loaded again.
    ///
    /// # Errors
    /// `Kind::Argument` when the edges are not in DRAM behind the scenes; `Kind::Device` when the
    /// profile describes no flash.
    pub fn behind(&self, profile: &Profile, transfer: Transfer) -> Result<Store> {
        let interface = profile.flash().map_err(device_error)?.interface;
        self.behind_as(profile, interface, transfer)
    }

    /// As [`Store::behind`], with another interface than the profile's.
    ///
    /// # Errors
    /// As [`Store::behind`].
    pub fn behind_as(
        &self,
        profile: &Profile,
        interface: Interface,
        transfer: Transfer,
    ) -> Result<Store> {
        let Some(region) = self.device.region() else {
            let what = format!("{} and modelled flash cannot share contents", self.name());
            return Err(Error::new(Kind::Argument, what));
        };
        let device = FlashDevice::modelled_as(region.clone(), profile, interface, transfer);
        Ok(Store::on(device.map_err(device_error)?, None))
    }

    /// The same with a given number of contexts in each ring, unless a run asks for another.
    #[must_use]
    pub fn with_contexts(mut self, contexts: u32) -> Store {
        self.contexts = Some(contexts);
        self
    }

    /// The same with a cache of `bytes` bytes of pages in DRAM, shared out among the threads of a
    /// run: lists are read by whole pages then. Contents that loads reach take no notice.
    #[must_use]
    pub fn with_cache(mut self, bytes: u64) -> Store {
        self.cache_bytes = Some(bytes);
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
        Some(self.contexts.unwrap_or(littles(self.device.paced_options()?)))
    }

    /// The device.
    pub fn device(&self) -> &FlashDevice {
        &self.device
    }

    /// The medium's name, as the device gives it.
    pub fn name(&self) -> &'static str {
        self.device.name()
    }

    /// Whether a run finds by trial how the edges are read.
    pub(crate) fn is_read_by_trial(&self) -> bool {
        self.device.resident().is_some() && self.form.is_none()
    }

    /// The hash of the profile behind a modelled medium.
    pub fn profile_hash(&self) -> Option<String> {
        self.device.profile().map(Profile::hash)
    }

    /// Which clock stands behind a time on this medium.
    pub fn clock(&self) -> ClockKind {
        self.device.clock()
    }

    /// What is real and what is modelled, in one line.
    pub fn describe(&self) -> String {
        match (self.device.region(), self.device.profile(), self.form) {
            (Some(_), None, None) => "edges in DRAM, read directly; nothing modelled".to_owned(),
            (Some(_), None, Some(form)) => {
                format!("edges in DRAM, {}; nothing modelled", form.describe())
            }
            _ => match self.cache_bytes {
                Some(bytes) => {
                    format!("{}; pages cached in {}", self.device.describe(), Bytes(bytes))
                }
                None => self.device.describe(),
            },
        }
    }

    /// Takes this thread's handle and runs `work` on it. Once `interrupt` is set, reads of a step
    /// from a device end with `Kind::Interrupted`, long as the step may be.
    pub(crate) fn with_edges<V: Visit>(
        &self,
        graph: &GraphFile,
        members: usize,
        (contexts, interrupt): (Option<u32>, Option<Arc<AtomicBool>>),
        work: V,
    ) -> Result<V::Output> {
        if let Some(region) = self.device.resident() {
            return self.with_resident(graph, region, work);
        }
        let handle = self.device.handle(members, FILE_SLOTS).map_err(device_error)?;
        let by_law = self.device.paced_options().map_or(FILE_CONTEXTS, littles);
        let contexts = contexts.or(self.contexts).unwrap_or(by_law);
        let ring =
            RingOptions { interrupt, ..RingOptions::with_contexts(Contexts::Fixed(contexts)) };
        if let Some(bytes) = self.cache_bytes {
            let ringed = Ringed::new(graph, Cached::nothing(handle), ring, &self.verified)?;
            return Ok(work.visit(&Paged::new(graph, ringed, bytes / members as u64)));
        }
        // Kernels are compiled once per arm. The paced device's figures are claims, so it has arms
        // of its own; beside a system call or a queue pair one more branch per call is small.
        match handle {
            AnyDevice::Pointed(device) if self.frames.is_none() => {
                Ok(work.visit(&Ringed::new(graph, *device, ring, &self.verified)?))
            }
            AnyDevice::Paced(device) if self.frames.is_none() => {
                Ok(work.visit(&Ringed::new(graph, *device, ring, &self.verified)?))
            }
            other => self.held_or_read(graph, other, ring, work),
        }
    }

    /// Runs `work` on contents that loads reach.
    fn with_resident<V: Visit>(
        &self,
        graph: &GraphFile,
        region: &Region,
        work: V,
    ) -> Result<V::Output> {
        match self.form {
            Some(DramForm::Ring(contexts, hint)) => {
                through_ring(graph, region, (contexts, hint), &self.verified, work)
            }
            Some(DramForm::Direct(hint)) => Ok(work.visit(&Resident::new(
                graph,
                region,
                Some(hint),
                &self.hints,
                &self.verified,
            )?)),
            None => {
                Ok(work.visit(&Resident::new(graph, region, None, &self.hints, &self.verified)?))
            }
        }
    }

    /// Runs `work` on a modelled device, some of whose contents may be held in DRAM.
    fn held_or_read<V: Visit>(
        &self,
        graph: &GraphFile,
        device: AnyDevice,
        ring: RingOptions,
        work: V,
    ) -> Result<V::Output> {
        // One arm for both: beside a queue pair or a system call the look at a bitmap is small.
        let device = match (self.frames.clone(), self.device.region()) {
            (Some(frames), Some(region)) => Cached::new(device, region.clone(), frames),
            _ => Cached::nothing(device),
        };
        let hits = device.hits();
        Ok(work.visit(&Ringed::new(graph, device, ring, &self.verified)?.with_hits(hits)))
    }
}

/// Bytes of a graph file that tell one graph from another: its header.
const HEADER_BYTES: u64 = 4096;

/// Whether the graph is what the device begins with.
fn holds(graph: &GraphFile, device: &FlashDevice) -> Result<bool> {
    if device.len() < graph.header().file_bytes {
        return Ok(false);
    }
    let mut wanted = vec![0; HEADER_BYTES.min(graph.header().file_bytes) as usize];
    graph.read_at(0, &mut wanted)?;
    match device.region() {
        Some(region) => Ok(region[..wanted.len()] == wanted[..]),
        None => Ok(device.read_prefix(wanted.len() as u64).map_err(device_error)? == wanted),
    }
}

/// The whole graph, to be put on a device.
fn contents(graph: &GraphFile) -> Result<Region> {
    if let Some(region) = graph.as_region() {
        return Ok(region.clone());
    }
    let region = match (graph.as_image(), graph.as_file()) {
        (Some(image), _) => Region::from_bytes(image),
        (None, Some(file)) => Region::read_from(file, graph.path()),
        (None, None) => unreachable!("invariant: a graph is in a file or in memory"),
    };
    region.map_err(device_error)
}

/// Runs `work` through a ring over DRAM, whose issue prefetches by the hint.
fn through_ring<V: Visit>(
    graph: &GraphFile,
    region: &Region,
    (contexts, hint): (u32, Hint),
    verified: &Verified,
    work: V,
) -> Result<V::Output> {
    let options = RingOptions::with_contexts(Contexts::Fixed(contexts));
    let device = Dram::new(region.clone());
    Ok(match hint {
        Hint::Nta => work.visit(&Ringed::new(graph, device.once(), options, verified)?),
        _ => work.visit(&Ringed::new(graph, device, options, verified)?),
    })
}

/// The frames of the graph's edges that `bytes` of DRAM hold: those with lists of the vertices of
/// highest degree first, which searches read most. A list longer than a page lies in pieces, one
/// per page, and the weights of its neighbours lie behind each piece, or in pages of their own in
/// files of version 1.
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
        let layout = graph.layout();
        let arc_bytes = 4 * layout.arc_words() as u64;
        for v in 0..graph.vertices() {
            let list = lists.locate(v);
            let most = if mutant!("graph_frames_end_early") { 1 } else { usize::MAX };
            for piece in layout.pieces(list.addr, list.degree).take(most) {
                let (at, len) = (piece.addr * 4, u64::from(piece.len));
                warm(lists.pages().offset + at, len * arc_bytes, list.degree);
                if let Some(weights) = lists.weight_pages() {
                    warm(weights.offset + at, len * 4, list.degree);
                }
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

/// How many contexts a modelled device needs by Little's law, its latency times its rate, and a
/// quarter more, since contexts also compute; between 64 and what its slots allow. A search is too
/// short and too mixed for the ring's own tuning by trial.
fn littles(options: &PacedOptions) -> u32 {
    let rate = options.timing.reads_per_core_max.map_or(f64::INFINITY, |r| r.0);
    let seconds = options.timing.latency.as_secs_f64();
    let wanted = (1.25 * rate * seconds).min(2048.0) as u32;
    wanted.next_power_of_two().max(64).min(options.slots / 2).max(1)
}

/// Slots of a device over a file: two for each of [`FILE_CONTEXTS`].
const FILE_SLOTS: u32 = 256;
/// Contexts over a file: ordinary drives are saturated by far fewer.
const FILE_CONTEXTS: u32 = 128;

fn device_error(e: littoral_device::Error) -> Error {
    Error::with_source(Kind::Device, "cannot open the medium", e)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::builder::{BuildOptions, EdgeList, Hooks, build_in_memory};
    use crate::edges::{PageWork, Verdict};
    use crate::format::Direction;
    use crate::format::page::PageView;

    /// Reads every page and does nothing with it.
    struct AllPages {
        next: Cell<u32>,
        count: u32,
    }

    impl PageWork for AllPages {
        fn next(&self) -> Option<u32> {
            let number = self.next.replace(self.next.get() + 1);
            (number < self.count).then_some(number)
        }

        fn page(&self, _: PageView<'_>) -> Verdict {
            Verdict::More
        }
    }

    impl Visit for AllPages {
        type Output = Result<()>;

        fn visit<E: Edges>(self, edges: &E) -> Result<()> {
            edges.pages(Direction::Out, &self)
        }
    }

    #[test]
    fn an_interrupt_ends_a_step_on_a_device_amid_its_reads() {
        let list = EdgeList::new(5000, true, (1..5000).map(|v| [v - 1, v]).collect());
        let options = BuildOptions::default();
        let (image, _) = build_in_memory(list, &options, &mut Hooks::none()).unwrap();
        let graph = GraphFile::from_image(image).unwrap();
        let count = (graph.outgoing().pages().bytes / graph.layout().page_bytes() as u64) as u32;
        let flash = Profile::named("xlfdd").unwrap();
        let store = Store::in_dram(&graph).unwrap().behind(&flash, Transfer::Pointer).unwrap();
        let ended = |is_interrupted: bool| {
            let how = (None, Some(Arc::new(AtomicBool::new(is_interrupted))));
            let work = AllPages { next: Cell::new(0), count };
            store.with_edges(&graph, 1, how, work).unwrap()
        };
        assert!(ended(false).is_ok());
        assert_eq!(ended(true).unwrap_err().kind(), Kind::Interrupted);
    }
}
