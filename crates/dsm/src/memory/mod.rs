//! A rank's memory: frames that the protocol fills, and the view a program reads and writes.
//!
//! [`Segment`] is the protocol's [`Frames`] over mapped memory. Its address range is reserved once,
//! as large as the job may ever share; pages cost memory when they are touched.
//!
//! What `allow` asks for is settled when an operation ends ([`Segment::settle`]), not before: a
//! page that a grant invalidates, that is fetched because it was predicted, and that ends up as
//! writable as it was, costs no system call. Permissions are raised lazily: a page that no raw
//! pointer has ever touched is never put into the view, so programs of the safe interface, which go
//! through the frames, make no such call at all.
//!
//! A *pooled* segment ([`PoolLines`]) has neither: every rank reaches lines of a pool in place,
//! through `Domain`, by guards alone.
//!
//! Invariants
//! - `actual[page] <= allowed[page]` whenever the program runs. Checked by
//!   `pages_are_read_only_before_their_diff_where_many_threads_write`,
//!   `race_free_programs_agree_with_one_memory`.
//! - A twin has every byte that the program may have written since it was made. Checked by
//!   `a_twin_has_the_lines_that_guards_may_write_until_a_pointer_comes`,
//!   `race_free_programs_agree_with_one_memory`.
//! - The view is never touched by the library itself, so the library never faults. Checked by
//!   `the_safe_interface_never_faults`, `a_repeated_section_takes_no_fault`.
//!
//! Faults: an access to a page beyond its permission is a signal in the accessing thread
//! ([`raw::handler`]), which asks the protocol and then [`Segment::raise`]s the page. A system call
//! that is handed a pointer into such a page gets EFAULT instead; hand it a guard's slice, or touch
//! the range first.

mod pooled;
mod raw;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

pub use pooled::PoolLines;
pub use raw::protect::Mechanism;

use littoral_base::mutant;
use littoral_device::memory::LINE_BYTES;

use crate::core::diff::{Diff, LINE_BYTES as TWIN_LINE_BYTES, ones, range_of};
use crate::core::frames::{Frames, Permission};
use crate::core::message::{PageId, PageRun};
use crate::error::{Error, Kind, Result};

use pooled::Pooled;
pub(crate) use raw::handler::{OnFault, Registration, end_by};
/// A program's own handlers for the signals that faults of shared memory come by.
pub mod foreign {
    pub use super::raw::handler::{is_ours, replace};
}
pub(crate) use raw::map::Memory;
use raw::map::Twins;
use raw::protect::Protection;

/// Most lines of a page whose twin is kept line by line: a word has a bit for each.
const TWIN_LINES_MAX: usize = 64;
/// Lines of it that are loaded one by one; of more the whole page is.
const TWIN_LINES_FEW: u32 = 8;

/// Bytes of a page on this machine; every rank of a job must have the same.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// What the memory layer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Accesses that were a signal.
    pub faults: u64,
    /// Those of them on pages whose home this rank is.
    pub home_faults: u64,
    /// System calls that changed permissions.
    pub protection_calls: u64,
}

/// A rank's pages in mapped memory; see the module's page.
pub struct Segment {
    memory: Arc<Memory>,
    /// Of pages that only guards have reached, which say what they may write, these lines alone.
    twins: Option<Twins>,
    /// None: a direct segment, which has no protection.
    protection: Option<Protection>,
    /// Lines of a pool take the place of memory of this rank's.
    pooled: Option<Pooled>,
    pages_max: u64,
    page_bytes: usize,
    allowed: Vec<Permission>,
    actual: Vec<Permission>,
    /// Whether a raw pointer has touched the page.
    viewed: Vec<bool>,
    changed: BTreeSet<u32>,
    /// Whether several threads of the program reach the view.
    many_threads: bool,
    /// Byte ranges that the program may be writing now; they are not read for other ranks.
    hidden: Vec<(u64, Range<usize>)>,
    /// Byte ranges that the program may be looking at without asking; their pages stay.
    pinned: Vec<(u64, Range<usize>)>,
    /// A page that is compared with its twin.
    compared: Vec<u8>,
    /// Why memory could not be given back; the next operation fails by it.
    refused: Option<io::Error>,
    counts: MemoryCounts,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mechanism = self.mechanism();
        f.debug_struct("Segment")
            .field("pages", &self.allowed.len())
            .field("by", &mechanism)
            .finish()
    }
}

fn environment(what: &str, e: io::Error) -> Error {
    Error::with_source(Kind::Environment, what, e)
}

/// Why memory was unavailable at `base`: what lies there, by the system's own list.
fn reserving(base: Option<usize>, bytes: usize, e: io::Error) -> Error {
    let Some(base) = base.filter(|_| e.raw_os_error() == Some(libc::EEXIST)) else {
        return environment(&format!("reserving {bytes} bytes of address space"), e);
    };
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let what = maps.lines().find_map(|line| overlaps(line, base..base.saturating_add(bytes)));
    let what = what.unwrap_or_else(|| "another mapping".to_owned());
    let text = format!(
        "shared memory of {bytes} bytes at {base:#x} meets {what}; every rank needs the same \
         address, so choose another one with --address or fewer bytes with --bytes"
    );
    environment(&text, e)
}

/// The mapping of a line of `/proc/self/maps` if it meets `range`.
fn overlaps(line: &str, range: Range<usize>) -> Option<String> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |text| usize::from_str_radix(text, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    let name = words.nth(4).unwrap_or("memory without a name");
    (start < range.end && range.start < end).then(|| format!("{name} at {start:#x}..{end:#x}"))
}

impl Segment {
    /// A segment of at most `bytes_max` bytes (rounded up to pages), protected by `mechanism`, or
    /// by the better one that this machine has.
    ///
    /// # Errors
    /// `Kind::Environment` when the system gives no such memory or protection.
    pub fn private(bytes_max: usize, mechanism: Option<Mechanism>) -> Result<Self> {
        Self::private_at(None, bytes_max, mechanism)
    }

    /// As `private`, with the view at address `base`, where every rank of the job has it.
    ///
    /// # Errors
    /// As `private`; `Kind::Environment` naming what lies at `base` already.
    pub fn private_at(
        base: Option<usize>,
        bytes_max: usize,
        mechanism: Option<Mechanism>,
    ) -> Result<Self> {
        let bytes = bytes_max.max(1).next_multiple_of(page_bytes());
        let memory = Memory::private(bytes, base).map_err(|e| reserving(base, bytes, e))?;
        Self::protected(memory, mechanism)
    }

    /// As `private_at`, in memory that the other ranks map too, from byte `from` of `file` on.
    ///
    /// # Errors
    /// As `private_at`; `Kind::Environment` when the file is too short.
    pub fn reached(
        file: &File,
        from: usize,
        base: Option<usize>,
        bytes_max: usize,
        mechanism: Option<Mechanism>,
    ) -> Result<Self> {
        let bytes = bytes_max.max(1).next_multiple_of(page_bytes());
        let memory =
            Memory::part(file, from, bytes, base).map_err(|e| reserving(base, bytes, e))?;
        Self::protected(memory, mechanism)
    }

    fn protected(memory: Memory, mechanism: Option<Mechanism>) -> Result<Self> {
        let bytes = memory.len();
        let protection = Protection::new(&memory, mechanism)
            .map_err(|e| environment("protecting shared pages", e))?;
        let twins = Twins::new(bytes, page_bytes())
            .map_err(|e| environment("reserving room for twins", e))?;
        Ok(Self::over(memory, Some(twins), Some(protection)))
    }

    /// A segment that is the memory of `file`, which all ranks map: no copies, no faults.
    ///
    /// # Errors
    /// `Kind::Environment` when the file is shorter than `bytes_max` or cannot be mapped.
    pub fn direct(file: &File, bytes_max: usize) -> Result<Self> {
        Self::direct_at(None, file, bytes_max)
    }

    /// As `direct`, at address `base`, where every rank of the job has it.
    ///
    /// # Errors
    /// As `direct`; `Kind::Environment` naming what lies at `base` already.
    pub fn direct_at(base: Option<usize>, file: &File, bytes_max: usize) -> Result<Self> {
        let bytes = bytes_max.max(1).next_multiple_of(page_bytes());
        let memory = Memory::direct(file, bytes, base).map_err(|e| reserving(base, bytes, e))?;
        Ok(Self::over(memory, None, None))
    }

    /// A segment that is lines of a pool, shared in place; its pages are lines.
    ///
    /// # Errors
    /// `Kind::Environment` when the pool is too small.
    pub fn pooled(pool: &PoolLines, bytes_max: usize) -> Result<Self> {
        let bytes = bytes_max.max(1).next_multiple_of(LINE_BYTES);
        let memory =
            Memory::private(page_bytes(), None).map_err(|e| environment("reserving a page", e))?;
        let pooled = Some(Pooled::new(pool, bytes)?);
        let pages_max = (bytes / LINE_BYTES) as u64;
        let line = LINE_BYTES;
        Ok(Segment { pooled, pages_max, page_bytes: line, ..Self::over(memory, None, None) })
    }

    fn over(memory: Memory, twins: Option<Twins>, protection: Option<Protection>) -> Self {
        Segment {
            pages_max: (memory.len() / page_bytes()) as u64,
            memory: Arc::new(memory),
            twins,
            protection,
            pooled: None,
            page_bytes: page_bytes(),
            allowed: Vec::new(),
            actual: Vec::new(),
            viewed: Vec::new(),
            changed: BTreeSet::new(),
            many_threads: false,
            hidden: Vec::new(),
            pinned: Vec::new(),
            compared: vec![0; page_bytes()],
            refused: None,
            counts: MemoryCounts::default(),
        }
    }

    /// From now on any thread of the program may reach the view.
    pub(crate) fn let_many_threads_in(&mut self) {
        self.many_threads = true;
    }

    /// Whether ranks share this memory itself.
    pub fn is_direct(&self) -> bool {
        self.protection.is_none()
    }

    /// How the view is protected, if it is.
    pub fn mechanism(&self) -> Option<Mechanism> {
        self.protection.as_ref().map(Protection::mechanism)
    }

    /// Pages that the segment can hold.
    pub fn pages_max(&self) -> u64 {
        self.pages_max
    }

    /// Copies bytes of a pooled segment out, as this rank sees them now.
    pub(crate) fn load(&self, offset: usize, into: &mut [u8]) {
        self.lines().load(offset, into);
    }

    /// Copies bytes into a pooled segment; their lines are writable.
    pub(crate) fn store(&mut self, offset: usize, data: &[u8]) {
        self.lines_mut().store(offset, data);
    }

    /// The beginning of a range of a pooled segment whose bytes are ordinary memory to this rank:
    /// whole lines without private copies.
    pub(crate) fn in_place(&self, offset: usize, len: usize) -> Option<*const u8> {
        self.lines().words(offset, len).map(|words| words.as_ptr().cast())
    }

    /// Clears new lines of a pool that an earlier job may have used.
    pub(crate) fn clear_if_used(&mut self, lines: Range<u32>) {
        if let Some(pooled) = self.pooled.as_mut().filter(|p| p.is_used()) {
            pooled.clear(lines);
        }
    }

    fn lines(&self) -> &Pooled {
        self.pooled.as_ref().expect("invariant: only a pooled segment is asked for lines")
    }

    fn lines_mut(&mut self) -> &mut Pooled {
        self.pooled.as_mut().expect("invariant: only a pooled segment is asked for lines")
    }

    /// What has been done so far.
    pub fn counts(&self) -> MemoryCounts {
        self.counts
    }

    pub(crate) fn memory(&self) -> Arc<Memory> {
        Arc::clone(&self.memory)
    }

    pub(crate) fn count_fault(&mut self, at_home: bool) {
        self.counts.faults += 1;
        self.counts.home_faults += u64::from(at_home);
    }

    /// Whether the program may read the page now.
    pub(crate) fn is_readable(&self, page: PageId) -> bool {
        self.allowed.get(page.0 as usize).is_some_and(|a| *a != Permission::Nothing)
    }

    /// Keeps `range` out of pages that are sent, until `show`: a thread writes there without
    /// atomics. A rank that may look at those bytes will be told to fetch the page again.
    pub(crate) fn hide(&mut self, id: u64, range: Range<usize>) {
        if !mutant!("dsm_later_guard_without_twin") {
            let pages = range.start / self.page_bytes..range.end.div_ceil(self.page_bytes);
            let twins = self.twins();
            if pages.len() <= twins {
                pages.for_each(|page| self.keep_lines(PageId(page as u32), &range));
            } else if twins > 0 {
                let its = |page: &u32| pages.contains(&(*page as usize));
                let all: Vec<u32> = self.twins.iter().flat_map(Twins::pages).filter(its).collect();
                all.into_iter().for_each(|page| self.keep_lines(PageId(page), &range));
            }
        }
        self.hidden.push((id, range));
    }

    /// Keeps the lines of a range that the program may write from now on, in a page whose twin is
    /// kept line by line.
    fn keep_lines(&mut self, page: PageId, range: &Range<usize>) {
        let start = self.at(page);
        let within = |at: usize| at.clamp(start, start + self.page_bytes) - start;
        let (low, high) = (within(range.start), within(range.end));
        let Some(twins) = self.twins.as_mut().filter(|_| low < high) else { return };
        let Some(kept) = twins.lines(page.0) else { return };
        let twin = twins.of(page.0).expect("invariant: a twin was kept");
        let lines = low / TWIN_LINE_BYTES..high.div_ceil(TWIN_LINE_BYTES);
        let wanted = u64::MAX >> (TWIN_LINES_MAX - lines.len()) << lines.start;
        if kept & wanted == 0 {
            let all = range_of(lines.start).start..range_of(lines.end).start;
            self.memory.load(start + all.start, &mut twin[all]);
        } else {
            for line in ones(wanted & !kept) {
                self.memory.load(start + range_of(line).start, &mut twin[range_of(line)]);
            }
        }
        twins.set_lines(page.0, Some(kept | wanted));
    }

    /// Keeps the rest of a twin that was kept line by line: a pointer may write any byte.
    fn keep_whole(&mut self, page: PageId) {
        let start = self.at(page);
        self.keep_lines(page, &(start..start + self.page_bytes));
        self.twins.iter_mut().for_each(|twins| twins.set_lines(page.0, None));
    }

    /// Keeps the pages of `range` until `show`.
    pub(crate) fn pin(&mut self, id: u64, range: Range<usize>) {
        self.pinned.push((id, range));
    }

    /// Ends `hide` and `pin`.
    pub(crate) fn show(&mut self, id: u64) {
        self.hidden.retain(|(i, _)| *i != id);
        self.pinned.retain(|(i, _)| *i != id);
    }

    /// Puts a page into the view as far as the protocol allows; the end of a fault. Where the view
    /// should have had the page already, the kernel has dropped it, and it is put in again.
    ///
    /// # Errors
    /// `Kind::Environment` when the system refuses.
    pub(crate) fn raise(&mut self, page: PageId) -> Result<()> {
        self.keep_whole(page);
        let at = page.0 as usize;
        let had =
            std::mem::replace(&mut self.viewed[at], true) && !mutant!("dsm_dropped_page_stays");
        if had && self.actual[at] != Permission::Nothing && self.actual[at] == self.allowed[at] {
            let Some(protection) = &self.protection else { return Ok(()) };
            self.counts.protection_calls += 1;
            let restored = protection.restore(&self.memory, self.at(page), self.actual[at]);
            return restored.map_err(|e| environment("putting a dropped page in again", e));
        }
        self.changed.insert(page.0);
        self.settle()
    }

    /// As `raise`, for the pages from `first` on that came together.
    ///
    /// # Errors
    /// As `raise`.
    pub(crate) fn raise_run(&mut self, first: PageId, count: u32) -> Result<()> {
        for page in first.0 + 1..first.0 + count {
            self.keep_whole(PageId(page));
            self.viewed[page as usize] = true;
            self.changed.insert(page);
        }
        self.raise(first)
    }

    /// Brings the view to what has been allowed since the last time; called before the program
    /// runs on.
    ///
    /// # Errors
    /// `Kind::Environment` when the system refuses; under mprotect, too many alternating pages.
    pub(crate) fn settle(&mut self) -> Result<()> {
        if let Some(pooled) = &mut self.pooled {
            return pooled.check();
        }
        if let Some(e) = self.refused.take() {
            return Err(environment("giving memory of pages back", e));
        }
        if self.changed.is_empty() {
            return Ok(());
        }
        let changed = std::mem::take(&mut self.changed);
        let mut run: Option<(u32, u32, Permission, Permission)> = None;
        for page in changed {
            let (from, to) = (self.actual[page as usize], self.target(page));
            if from == to {
                continue;
            }
            run = match run {
                Some((start, end, f, t)) if end == page && (f, t) == (from, to) => {
                    Some((start, page + 1, f, t))
                }
                before => {
                    before.map_or(Ok(()), |r| self.change(r))?;
                    Some((page, page + 1, from, to))
                }
            };
        }
        run.map_or(Ok(()), |r| self.change(r))
    }

    /// A page is lowered at once and raised only if a raw pointer has touched it.
    fn target(&self, page: u32) -> Permission {
        let (allowed, actual) = (self.allowed[page as usize], self.actual[page as usize]);
        let raised = rank_of(allowed) > rank_of(actual);
        let kept = match allowed {
            Permission::Nothing => mutant!("dsm_view_not_invalidated"),
            Permission::Read => mutant!("dsm_view_not_write_protected"),
            Permission::Write => false,
        };
        if kept && !raised {
            return actual;
        }
        if raised && !self.viewed[page as usize] { actual } else { allowed }
    }

    fn change(&mut self, run: (u32, u32, Permission, Permission)) -> Result<()> {
        let (start, end, from, to) = run;
        let Some(protection) = &self.protection else { return Ok(()) };
        self.counts.protection_calls += 1;
        let (offset, len) = (self.at(PageId(start)), (end - start) as usize * self.page_bytes);
        protection.change(&self.memory, offset, len, from, to).map_err(|e| {
            let many = e.raw_os_error() == Some(libc::ENOMEM);
            let hint = if many { ": raise vm.max_map_count or allow userfaultfd" } else { "" };
            environment(&format!("protecting pages {start}..{end}{hint}"), e).at_page(start)
        })?;
        self.actual[start as usize..end as usize].fill(to);
        Ok(())
    }

    fn at(&self, page: PageId) -> usize {
        page.0 as usize * self.page_bytes
    }
}

/// Whether one of the ranges shares a byte with `with`.
fn meets(ranges: &[(u64, Range<usize>)], with: Range<usize>) -> bool {
    ranges.iter().any(|(_, r)| r.start < with.end && with.start < r.end)
}

fn rank_of(permission: Permission) -> u8 {
    match permission {
        Permission::Nothing => 0,
        Permission::Read => 1,
        Permission::Write => 2,
    }
}

impl Frames for Segment {
    fn extend(&mut self, pages: u32) {
        let len = self.allowed.len() + pages as usize;
        assert!(len as u64 <= self.pages_max(), "the caller has checked the room");
        self.allowed.resize(len, Permission::Nothing);
        self.actual.resize(len, Permission::Nothing);
        self.viewed.resize(len, false);
    }

    fn bytes(&self, page: PageId) -> Vec<u8> {
        let mut bytes = vec![0; self.page_bytes];
        let (start, mut at) = (self.at(page), 0);
        let mut gaps: Vec<Range<usize>> = self
            .hidden
            .iter()
            .map(|(_, r)| r.start.max(start) - start..r.end.saturating_sub(start))
            .map(|r| r.start..r.end.min(self.page_bytes))
            .filter(|r| r.start < r.end)
            .collect();
        gaps.sort_unstable_by_key(|r| r.start);
        for gap in gaps {
            self.memory.load(start + at, &mut bytes[at..gap.start]);
            at = gap.end;
        }
        self.memory.load(start + at, &mut bytes[at..]);
        bytes
    }

    fn is_hidden(&self, page: PageId) -> bool {
        meets(&self.hidden, self.at(page)..self.at(page) + self.page_bytes)
    }

    fn fill(&mut self, page: PageId, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.page_bytes, "a whole page");
        self.memory.store(self.at(page), bytes);
    }

    fn apply(&mut self, page: PageId, diff: &Diff) {
        if let Some(pooled) = &self.pooled {
            return pooled.apply(page, diff);
        }
        let start = self.at(page);
        diff.runs().for_each(|(at, bytes)| self.memory.store(start + at, bytes));
    }

    fn keep_twin(&mut self, page: PageId) {
        if let Some(pooled) = &mut self.pooled {
            return pooled.keep_twin(page);
        }
        let at = self.at(page);
        let twins = self.twins.as_mut().expect("invariant: nothing is written by protocol there");
        let twin = twins.keep(page.0);
        let is_small = twin.len() <= TWIN_LINES_MAX * TWIN_LINE_BYTES;
        if !is_small || self.viewed[page.0 as usize] {
            self.memory.load(at, twin);
            return twins.set_lines(page.0, None);
        }
        twins.set_lines(page.0, Some(0));
        let hidden = std::mem::take(&mut self.hidden);
        hidden.iter().for_each(|(_, range)| self.keep_lines(page, range));
        self.hidden = hidden;
    }

    fn take_diff(&mut self, page: PageId) -> Diff {
        if let Some(pooled) = &mut self.pooled {
            return pooled.take_diff(page);
        }
        let mut diff = Diff::default();
        self.take_diff_into(page, &mut diff);
        diff.shrink();
        diff
    }

    fn take_diff_into(&mut self, page: PageId, diff: &mut Diff) {
        if let Some(pooled) = &mut self.pooled {
            *diff = pooled.take_diff(page);
            return;
        }
        let at = self.at(page);
        let twins = self.twins.as_mut().expect("invariant: a twin was kept");
        let kept = twins.lines(page.0);
        match kept.filter(|lines| lines.count_ones() <= TWIN_LINES_FEW) {
            Some(lines) => ones(lines).map(range_of).for_each(|line| {
                self.memory.load(at + line.start, &mut self.compared[line]);
            }),
            None => self.memory.load(at, &mut self.compared),
        }
        let twin = twins.of(page.0).expect("invariant: a twin was kept");
        match kept {
            Some(lines) => diff.set_between_lines(twin, &self.compared, lines),
            None => *diff = Diff::between(twin, &self.compared),
        }
        if let Err(e) = twins.free(page.0) {
            self.refused.get_or_insert(e);
        }
    }

    fn is_twin(&mut self, page: PageId, bytes: &[u8]) -> bool {
        let kept = self.twins.as_ref().and_then(|twins| twins.lines(page.0));
        let twin = self.twins.as_mut().and_then(|twins| twins.of(page.0));
        twin.is_some_and(|twin| match kept {
            Some(lines) => ones(lines).map(range_of).all(|l| twin[l.clone()] == bytes[l]),
            None => *twin == *bytes,
        })
    }

    fn twins(&self) -> usize {
        self.twins.as_ref().map_or(0, Twins::len)
    }

    fn is_pinned(&self, page: PageId) -> bool {
        meets(&self.pinned, self.at(page)..self.at(page) + self.page_bytes)
    }

    fn drop_pages(&mut self, pages: &[PageId]) {
        let neighbours = |a: &PageId, b: &PageId| a.0 + 1 == b.0;
        for run in pages.chunk_by(neighbours) {
            let (offset, len) = (self.at(run[0]), run.len() * self.page_bytes);
            if let Err(e) = self.memory.release(offset, len) {
                self.refused.get_or_insert(e);
            }
        }
    }

    fn allow(&mut self, page: PageId, permission: Permission) {
        if self.pooled.is_some() {
            return;
        }
        let at = page.0 as usize;
        self.allowed[at] = permission;
        // What no pointer has touched is never raised, so nothing is to be settled there.
        let is_lowered = rank_of(permission) < rank_of(self.actual[at]);
        if self.actual[at] != permission && (is_lowered || self.viewed[at]) {
            self.changed.insert(page.0);
        }
    }

    fn allow_run(&mut self, run: PageRun, permission: Permission) {
        // Lines of a pool have no view.
        if self.pooled.is_none() {
            run.pages().for_each(|page| self.allow(page, permission));
        }
    }

    fn lower(&mut self) -> Result<()> {
        let late = !self.many_threads || self.pooled.is_some();
        if late || mutant!("dsm_lowered_after_the_diff") { Ok(()) } else { self.settle() }
    }

    fn write_back(&mut self, run: PageRun) {
        self.lines_mut().write_back(run);
    }

    fn fence(&mut self) {
        self.lines_mut().fence();
    }

    fn refresh(&mut self, run: PageRun) {
        self.lines_mut().refresh(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of another thread between the diff and the protection would be in no diff at all.
    #[test]
    fn pages_are_read_only_before_their_diff_where_many_threads_write() {
        let page = PageId(0);
        for (many, then) in [(false, Permission::Write), (true, Permission::Read)] {
            let mut segment = Segment::private(page_bytes(), Some(Mechanism::Mprotect)).unwrap();
            if many {
                segment.let_many_threads_in();
            }
            segment.extend(1);
            segment.allow(page, Permission::Write);
            segment.raise(page).unwrap();
            assert_eq!(segment.actual, [Permission::Write]);
            segment.allow(page, Permission::Read);
            segment.lower().unwrap();
            assert_eq!(segment.actual, [then], "many threads: {many}");
        }
    }

    /// Stores that no guard covers stand for what a program cannot do before its pointer has come.
    #[test]
    fn a_twin_has_the_lines_that_guards_may_write_until_a_pointer_comes() {
        if page_bytes() > TWIN_LINES_MAX * TWIN_LINE_BYTES {
            return;
        }
        let page = PageId(1);
        let mut segment = Segment::private(2 * page_bytes(), Some(Mechanism::Mprotect)).unwrap();
        segment.extend(2);
        let store = |segment: &Segment, at: usize| {
            segment.memory.store(page_bytes() + at, &[9]);
        };
        let changed = |segment: &mut Segment| -> Vec<usize> {
            segment.take_diff(page).runs().map(|(at, bytes)| at + bytes.len() - 1).collect()
        };
        // One guard over the border of two pages before the twin is made, two after it.
        segment.hide(1, page_bytes() - 8..page_bytes() + 8);
        segment.keep_twin(page);
        store(&segment, 7);
        segment.hide(2, page_bytes() + 130..page_bytes() + 140);
        store(&segment, 135);
        segment.hide(3, page_bytes() + 140..page_bytes() + 260);
        for at in [150, 199, 259, 1000] {
            store(&segment, at);
        }
        let mut bytes = vec![0; page_bytes()];
        segment.memory.load(page_bytes(), &mut bytes);
        assert!(!segment.is_twin(page, &bytes));
        bytes[..260].fill(0);
        assert!(segment.is_twin(page, &bytes), "its other lines are not compared");
        assert_eq!(changed(&mut segment), [7, 135, 150, 199, 259]);
        (1..4).for_each(|id| segment.show(id));

        segment.keep_twin(page);
        segment.allow(page, Permission::Write);
        segment.raise(page).unwrap();
        store(&segment, 2000);
        assert_eq!(changed(&mut segment), [2000]);
        segment.keep_twin(page);
        store(&segment, 2000);
        store(&segment, 3000);
        assert_eq!(changed(&mut segment), [3000], "a pointer has come once");
    }

    #[test]
    fn a_protection_that_the_system_refuses_is_named_and_can_be_taken_back() {
        let page = PageId(0);
        let mut segment = Segment::private(page_bytes(), Some(Mechanism::Mprotect)).unwrap();
        segment.let_many_threads_in();
        segment.extend(1);
        segment.allow(page, Permission::Write);
        segment.raise(page).unwrap();
        // No userfaultfd, so the system refuses what is asked of it.
        let other = Protection::Userfaultfd(File::open("/dev/null").unwrap().into());
        let own = segment.protection.replace(other);
        segment.allow(page, Permission::Read);
        let e = segment.lower().unwrap_err();
        assert!(e.to_string().starts_with("protecting pages 0..1"), "{e}");
        assert_eq!(segment.actual, [Permission::Write]);
        segment.allow(page, Permission::Write);
        segment.protection = own;
        segment.settle().unwrap();
        segment.allow(page, Permission::Read);
        segment.lower().unwrap();
        assert_eq!(segment.actual, [Permission::Read]);
    }
}
