//! The modelled device and its host: figures, workloads, what a run tells.
//!
//! A page travels: host slot, request queue, flash chip, channel, internal bus, device DRAM, then
//! either a core (task queue, page function) or the host link and a host core. [`sim`] moves it.
//!
//! What is charged: cell read and channel ([`littoral_device::nand`]), the internal bus, the link
//! per byte (raw pages, filtered records, completion entries, the partial result), a core per
//! instruction, a host core per page. A host slot is a buffer: it is held from the request until
//! the page is computed on, or until the device answers that it computed.
//!
//! Invariants
//! - A run is a function of its arguments. Checked by `a_run_repeats_bit_for_bit`.
//! - Each page of a run has one disposition. Checked by `Outcome::check`.

pub mod ftl;
pub mod sim;

use littoral_base::mutant;
use littoral_base::units::Picos;
use littoral_device::nand;
use littoral_device::profile::Profile;

use crate::cost::TaskCosts;
use crate::error::{Error, Kind, Result};
use crate::policy::Known;

/// Bytes of a completion entry.
pub const COMPLETION_BYTES: u64 = 16;

/// How the host computes on raw pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostMode {
    /// A page is computed on as soon as it is there, while others are fetched.
    #[default]
    Overlapped,
    /// The host fetches a queue depth of pages, computes on all of them, then fetches the next.
    Batched,
}

/// The figures of a device and its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The flash.
    pub nand: nand::Parameters,
    /// Bytes per second between flash controller and device DRAM.
    pub bus_bytes_per_s: u64,
    /// Bytes per second from device to host.
    pub link_bytes_per_s: u64,
    /// Cores that run page functions and firmware.
    pub cores: u32,
    /// Clock of a core.
    pub core_mhz: u64,
    /// Cycles per instruction in thousandths, one figure for all functions.
    pub cpi_milli: u64,
    /// Instructions that a page function may spend on one page.
    pub budget: u64,
    /// Pages that device DRAM holds for fetched pages.
    pub dram_pages: u32,
    /// Cores of the host.
    pub host_cores: u32,
    /// How the host computes.
    pub host_mode: HostMode,
    /// What the flash translation layer costs; zero where the firmware has cores of its own.
    pub firmware: Firmware,
}

/// Instructions of the firmware, charged to the same cores ahead of page functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Firmware {
    /// Per page read for a host.
    pub read: u64,
    /// Per page written for a host.
    pub write: u64,
    /// Per page moved by garbage collection.
    pub move_page: u64,
}

impl Machine {
    /// The same machine on pages of `page_bytes` bytes. The budget is that of the machine's own
    /// pages: a function may spend it on each of them that such a page is as long as.
    #[must_use]
    pub fn on_pages(mut self, page_bytes: u32) -> Machine {
        self.budget = budget_on(self.budget, self.nand.page_bytes, page_bytes);
        self.nand.page_bytes = page_bytes;
        self
    }

    /// Time of one core for as many instructions.
    pub fn core_time(&self, instructions: u64) -> Picos {
        let cycles = u128::from(instructions) * u128::from(self.cpi_milli);
        let picos = cycles * 1_000 / u128::from(self.core_mhz);
        Picos(u64::try_from(picos).unwrap_or(u64::MAX / 4))
    }

    /// Time of the link for as many bytes.
    pub fn link_time(&self, bytes: u64) -> Picos {
        nand::duration(bytes, self.link_bytes_per_s)
    }

    /// Time of the internal bus for one page.
    pub fn bus_time(&self) -> Picos {
        nand::duration(u64::from(self.nand.page_bytes), self.bus_bytes_per_s)
    }

    /// The machine as late binding knows it where pages are in memory: they take no time to fetch.
    pub(crate) fn known_in_memory(&self) -> Known {
        Known {
            link: self.link_time(u64::from(self.nand.page_bytes) + COMPLETION_BYTES),
            bus: Picos(0),
            fetch: Picos(0),
            cores: self.cores,
            host_cores: self.host_cores,
        }
    }

    /// The least time from a request to its page in device DRAM.
    pub fn fetch_time(&self) -> Picos {
        let channel =
            nand::duration(u64::from(self.nand.page_bytes), self.nand.channel_bytes_per_s);
        self.nand.read + channel + self.bus_time()
    }
}

/// Instructions on a page of `page_bytes` bytes where `budget` holds for one of `own` bytes; no
/// fewer on a smaller page.
pub(crate) fn budget_on(budget: u64, own: u32, page_bytes: u32) -> u64 {
    debug_assert!(page_bytes > 0 && own > 0, "pages of {page_bytes} bytes over {own}");
    if mutant!("push_budget_of_small_pages") {
        return budget;
    }
    budget.saturating_mul(page_bytes.div_ceil(own).into())
}

/// A page of a stream: which task's, and its place in that task's table of costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRef {
    /// Index of the task.
    pub task: u16,
    /// Index of the page in the task's scan.
    pub page: u32,
}

/// Pages that one host queue asks for, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// The pages.
    pub order: Vec<PageRef>,
    /// Host slots of the queue.
    pub depth: u32,
    /// Plain reads: no compute bit, no work on the host.
    pub is_plain: bool,
}

/// What is run: tasks and the streams that ask for their pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// The tasks.
    pub tasks: Vec<TaskCosts>,
    /// The host's queues.
    pub streams: Vec<Stream>,
}

impl Workload {
    /// One queue that asks for the pages of all tasks in turn, each task at an even pace.
    pub fn interleaved(tasks: Vec<TaskCosts>, depth: u32) -> Workload {
        let total: u64 = tasks.iter().map(|t| t.pages.len() as u64).sum();
        let mut order = Vec::with_capacity(total as usize);
        let mut sent = vec![0u64; tasks.len()];
        for step in 1..=total {
            // The task that is furthest behind its even pace, the first on a tie.
            let behind = |t: &usize| {
                let all = tasks[*t].pages.len() as i128;
                all * i128::from(step) - i128::from(sent[*t]) * i128::from(total)
            };
            let open = (0..tasks.len()).filter(|&t| sent[t] < tasks[t].pages.len() as u64);
            let task = open.rev().max_by_key(behind).expect("invariant: pages are left");
            order.push(PageRef { task: task as u16, page: sent[task] as u32 });
            sent[task] += 1;
        }
        Workload { tasks, streams: vec![Stream { order, depth, is_plain: false }] }
    }

    /// Pages of all streams.
    pub fn pages(&self) -> usize {
        self.streams.iter().map(|s| s.order.len()).sum()
    }
}

/// What became of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disposition {
    /// A core ran the page function and merged its result.
    Processed,
    /// A core ran the filter; the host computed on what passed.
    Filtered,
    /// The host got the page as it is and computed on it.
    Raw,
    /// A core began, trapped or spent its budget; the host got the page as it is.
    Returned,
    /// A plain read.
    Plain,
}

/// One page of a finished run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The page's number over all streams.
    pub id: u32,
    /// The stream.
    pub stream: u16,
    /// The page.
    pub page: PageRef,
    /// What became of it.
    pub disposition: Disposition,
    /// When the host asked for it.
    pub issued: Picos,
    /// When its slot was free again.
    pub ended: Picos,
}

/// What a run tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When the last page and the partial results had arrived.
    pub total: Picos,
    /// Every page, in order of its end.
    pub pages: Vec<Done>,
    /// Time the link was busy.
    pub link_busy: Picos,
    /// Bytes over the link.
    pub link_bytes: u64,
    /// Time all device cores together ran page functions.
    pub core_busy: Picos,
    /// Time all host cores together computed.
    pub host_busy: Picos,
    /// Time all cores together ran firmware.
    pub firmware_busy: Picos,
    /// From request to end, of every write.
    pub writes: Vec<Picos>,
    /// Commands that hosts sent: INIT, reads, FINAL.
    pub commands: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Pages that garbage collection moved.
    pub moved: u64,
}

impl Outcome {
    /// Pages per second.
    pub fn rate(&self) -> f64 {
        self.pages.len() as f64 / self.total.as_secs_f64()
    }

    /// Pages of a disposition.
    pub fn count(&self, disposition: Disposition) -> usize {
        self.pages.iter().filter(|p| p.disposition == disposition).count()
    }

    /// Checks that every page of the workload is there exactly once.
    ///
    /// # Panics
    /// When one is missing or there twice.
    pub fn check(&self, workload: &Workload) {
        let key = |stream: u16, p: &PageRef| (stream, p.task, p.page);
        let mut done: Vec<_> = self.pages.iter().map(|d| key(d.stream, &d.page)).collect();
        let streams = workload.streams.iter().enumerate();
        let mut asked: Vec<_> =
            streams.flat_map(|(i, s)| s.order.iter().map(move |p| key(i as u16, p))).collect();
        done.sort_unstable();
        asked.sort_unstable();
        assert_eq!(done, asked, "a page is missing or counted twice");
    }

    /// A number that changes with any page's times or disposition.
    pub fn digest(&self) -> u64 {
        let mix = littoral_base::rng::mix;
        self.pages.iter().fold(mix(self.total.0), |h, d| {
            let page = u64::from(d.page.page) | u64::from(d.page.task) << 32;
            mix(h ^ mix(page) ^ mix(d.ended.0 ^ d.issued.0 << 1) ^ d.disposition as u64)
        })
    }
}

/// The board of paper 001 (profile `summarizer-board`), with its host.
///
/// # Errors
/// `Kind::Usage` when the shipped profile does not parse.
pub fn board() -> Result<Machine> {
    Ok(profiled("summarizer-board")?.0)
}

/// The machine that a served device paces: a link, and cores with one cycle per instruction. Its
/// pages are in memory, so that neither flash nor bus takes time, and each host is one thread.
///
/// # Errors
/// As [`board`].
pub fn served(
    link_bytes_per_s: u64,
    cores: u32,
    core_mhz: u64,
    page_bytes: u32,
) -> Result<Machine> {
    let machine = Machine { link_bytes_per_s, cores, core_mhz, ..board()? };
    let mut machine = machine.on_pages(page_bytes);
    (machine.cpi_milli, machine.host_cores) = (1000, 1);
    machine.firmware = Firmware::default();
    (machine.bus_bytes_per_s, machine.nand.channel_bytes_per_s) = (1 << 50, 1 << 50);
    machine.nand.read = Picos(1);
    Ok(machine)
}

/// The machine and the host's queue depth of a profile of kind `push`, by name or path.
///
/// # Errors
/// `Kind::Usage` when there is none or it describes another kind of device.
pub fn profiled(name: &str) -> Result<(Machine, u32)> {
    let refused = |e| Error::with_source(Kind::Usage, format!("taking profile `{name}`"), e);
    modelled_by(&Profile::open(name).map_err(refused)?)
}

/// The machine and the host's queue depth of a profile of kind `push`.
///
/// # Errors
/// `Kind::Usage` when it describes another kind of device.
pub fn modelled_by(profile: &Profile) -> Result<(Machine, u32)> {
    let refused = |e| Error::with_source(Kind::Usage, "taking a profile of kind `push`", e);
    let push = profile.push().map_err(refused)?;
    let [read, write, move_page] = push.firmware;
    let machine = Machine {
        nand: push.nand,
        bus_bytes_per_s: push.bus_bytes_per_s,
        link_bytes_per_s: push.link_bytes_per_s,
        cores: push.cores,
        core_mhz: push.core_mhz,
        cpi_milli: push.cpi_milli,
        budget: push.budget,
        dram_pages: push.dram_pages,
        host_cores: push.host_cores,
        host_mode: HostMode::Overlapped,
        firmware: Firmware { read, write, move_page },
    };
    Ok((machine, push.queue_depth))
}
