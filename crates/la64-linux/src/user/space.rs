//! The guest's address space: which pages exist, with what protection, from what file.
//!
//! Invariants
//! - Areas are disjoint and page-aligned, and neighbours differ; whatever is in no area is reserved
//!   host memory without access, so a stray guest access faults. Checked by
//!   `a_region_that_was_protected_and_back_moves_whole`,
//!   `dontunmap_leaves_an_empty_mapping_behind`, `faults_kill_the_guest_with_linux_signals`.
//! - Guest execute permission is a property of areas only; no host page of a guest is ever
//!   executable, but code of a translator may be. Checked by
//!   `code_that_lost_its_right_or_its_memory_is_not_executed`,
//!   `code_written_between_two_changes_of_protection_is_executed`.
//! - Shared memory counts as writable from its mapping on: it may be written by another mapping, by
//!   a call or by another process. Checked by `code_written_through_another_mapping_is_executed`.
//! - Of a guest whose processors notice written code, writable pages that show memory of which code
//!   was made are watched (see `watch`): the host refuses writes until the code is dropped. Checked
//!   by `code_that_the_program_writes_is_executed`.
//! - The first 64 KiB and the last `GUARD` bytes are never mapped. Checked by
//!   `mremap_refuses_what_the_kernel_refuses`, `faults_kill_the_guest_with_linux_signals`.

mod map;
mod watch;

use super::code::{Changes, Range};
use super::limits::Limits;
use super::raw::{self, Arg, GUARD};
use crate::limits::Resource;
use littoral_base::mutant;
use littoral_la64::memory::Window;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of a page: the host's, which the guest sees too. Kernels of LoongArch have 4 KiB or more.
pub(super) fn page_len() -> u64 {
    #[cfg(target_arch = "x86_64")]
    return 4096;
    #[cfg(not(target_arch = "x86_64"))]
    raw::page_len()
}

const LOW: u64 = 0x1_0000;
/// What the first stack is called.
pub(super) const STACK: &str = "[stack]";

pub(super) const PROT_WRITE: u32 = 2;
pub(super) const PROT_EXEC: u32 = 4;
pub(super) const MAP_PRIVATE: u32 = 2;
pub(super) const MAP_FIXED: u32 = 0x10;
pub(super) const MAP_ANONYMOUS: u32 = 0x20;
const MAP_FIXED_NOREPLACE: u32 = 0x10_0000;
pub(super) const MAP_NORESERVE: u32 = 0x4000;
const REMAP_MAYMOVE: u32 = 1;
const REMAP_FIXED: u32 = 2;
const REMAP_DONTUNMAP: u32 = 4;

/// One mapping.
#[derive(Clone, Debug)]
pub(super) struct Area {
    pub(super) end: u64,
    pub(super) prot: u32,
    pub(super) shared: bool,
    /// Is or ever was writable, or is shared, so that another mapping may be: code there is
    /// compared with memory.
    pub(super) written: bool,
    anonymous: bool,
    /// The host promises no memory for it.
    unreserved: bool,
    /// Where the attached System V segment begins that this is a part of.
    segment: Option<u64>,
    /// By what its memory is known if it is shared: a file's device and number.
    backing: [u64; 2],
    /// File offset of the start.
    pub(super) offset: u64,
    /// Path or bracketed name, empty for anonymous memory.
    pub(super) name: String,
}

/// All mappings.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) window: Window,
    areas: BTreeMap<u64, Area>,
    /// Start and current end of the heap.
    pub(super) brk: (u64, u64),
    pub(super) changes: Arc<Changes>,
    /// How much may be mapped.
    pub(super) limits: Limits,
    /// Where the guest's addresses end.
    end: u64,
    /// Addresses of a translator, which the guest does not have.
    kept: Vec<std::ops::Range<u64>>,
    /// Written code is executed without further ado.
    pub(super) coherent: bool,
    /// Writable pages that the host keeps from being written.
    watched: BTreeSet<u64>,
    /// Pages of shared memory of which code was read.
    read: BTreeSet<u64>,
    /// How many pages were ever watched.
    watches_count: u64,
    /// How often something was mapped, or rights were changed.
    rights_count: u64,
}

/// Whether memory counts as data: what a limit of private writable memory bounds.
fn is_data(prot: u32, shared: bool) -> bool {
    prot & PROT_WRITE != 0 && !shared
}

impl Area {
    fn is_data(&self) -> bool {
        is_data(self.prot, self.shared)
    }

    fn is_private_anonymous(&self) -> bool {
        self.anonymous && !self.shared
    }

    /// It is executable, of a file, private, and never was writable.
    pub(super) fn is_file_text(&self) -> bool {
        let is_kept = !self.written && !self.shared && !self.anonymous && self.segment.is_none();
        is_kept && self.prot & PROT_EXEC != 0 && !self.name.is_empty()
    }

    /// Whether the area that begins at `start`, and `next` behind it, are one, as in the kernel.
    fn continues(&self, start: u64, next: &Area) -> bool {
        let kind = |a: &Area| (a.prot, a.anonymous, a.shared, a.unreserved, a.segment, a.backing);
        let offset = self.offset.wrapping_add(self.end - start);
        let is_same_file = self.is_private_anonymous() || offset == next.offset;
        kind(self) == kind(next) && self.name == next.name && is_same_file
    }
}

/// What to move, grow or shrink.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) old: u64,
    pub(super) old_len: u64,
    pub(super) new_len: u64,
    pub(super) flags: u32,
    pub(super) to: u64,
}

impl Move {
    /// Where it would end if it stayed where it is.
    fn new_end(&self) -> Option<u64> {
        match mutant!("la64_mremap_end_overflows") {
            true => Some(self.old + self.new_len),
            false => self.old.checked_add(self.new_len),
        }
    }

    /// Whether the arguments contradict each other, whatever is mapped.
    fn is_malformed(&self) -> bool {
        let has = |flag: u32| self.flags & flag != 0;
        let overlaps = self.to < self.old.saturating_add(self.old_len)
            && self.old < self.to.saturating_add(self.new_len);
        self.flags > REMAP_MAYMOVE | REMAP_FIXED | REMAP_DONTUNMAP
            || !self.old.is_multiple_of(page_len())
            || self.new_len == 0
            || (has(REMAP_FIXED) || has(REMAP_DONTUNMAP)) && !has(REMAP_MAYMOVE)
            || has(REMAP_DONTUNMAP) && self.old_len != self.new_len
            || has(REMAP_FIXED) && (overlaps || !self.to.is_multiple_of(page_len()))
    }
}

/// A System V segment to attach.
pub(super) struct Attach {
    pub(super) id: u64,
    /// 0 for a place of our choice.
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) prot: u32,
    /// Takes the place of what is mapped there.
    pub(super) replaces: bool,
}

/// What to map.
pub(super) struct Request<'a> {
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) prot: u32,
    pub(super) flags: u32,
    pub(super) fd: i64,
    pub(super) offset: u64,
    pub(super) name: &'a str,
}

pub(super) fn page_up(n: u64) -> u64 {
    n.saturating_add(page_len() - 1) & !(page_len() - 1)
}

fn host_prot(prot: u32) -> u64 {
    let readable = if prot & (PROT_EXEC | PROT_WRITE) != 0 { 1 } else { 0 };
    u64::from(prot & 3 | readable)
}

fn err(code: i32) -> i64 {
    -i64::from(code)
}

impl Space {
    /// No mappings below `end`, and none at the `kept` addresses.
    pub(super) fn new(window: Window, end: u64, kept: Vec<std::ops::Range<u64>>) -> Space {
        Space {
            window,
            areas: BTreeMap::new(),
            brk: (0, 0),
            changes: Arc::default(),
            limits: Limits::default(),
            end,
            kept,
            coherent: false,
            watched: BTreeSet::new(),
            read: BTreeSet::new(),
            watches_count: 0,
            rights_count: 0,
        }
    }

    /// Where the guest's addresses end.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    fn limit(&self) -> u64 {
        self.end - GUARD
    }

    /// Maps the kept addresses; `None` if the host refuses.
    pub(super) fn map_kept(&self) -> Option<()> {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
        self.kept.iter().try_for_each(|range| {
            let got = self.host_mmap(range.start, range.end - range.start, 3, flags, -1, 0);
            (got >= 0).then_some(())
        })
    }

    /// Lets the host's processor execute kept addresses; `None` if the host refuses.
    pub(super) fn let_execute(&self, kept: &[std::ops::Range<u64>]) -> Option<()> {
        kept.iter().try_for_each(|range| {
            let len = Arg::Int(range.end - range.start);
            let args = &mut [Arg::Guest(range.start), len, Arg::Int(7)];
            (raw::call_now(&self.window, libc::SYS_mprotect, args) == 0).then_some(())
        })
    }

    /// The kept addresses that a range meets.
    fn kept_in(&self, start: u64, end: u64) -> Option<&std::ops::Range<u64>> {
        self.kept.iter().find(|kept| kept.start < end && start < kept.end)
    }

    /// Every mapping in order, with its start.
    pub(super) fn areas(&self) -> impl Iterator<Item = (u64, &Area)> {
        self.areas.iter().map(|(&start, area)| (start, area))
    }

    /// The mapping that holds an address.
    pub(super) fn area(&self, at: u64) -> Option<(u64, &Area)> {
        let (&start, area) = self.areas.range(..=at).next_back()?;
        (at < area.end).then_some((start, area))
    }

    fn is_free(&self, start: u64, end: u64) -> bool {
        if self.kept_in(start, end).is_some() {
            return false;
        }
        match self.areas.range(..end).next_back() {
            Some((_, area)) => area.end <= start,
            None => true,
        }
    }

    /// The highest free place of `len` bytes.
    fn find_free(&self, len: u64) -> Option<u64> {
        self.find_free_below(self.limit(), len)
    }

    /// The highest free place of `len` bytes below an address.
    pub(super) fn find_free_below(&self, limit: u64, len: u64) -> Option<u64> {
        let len = page_up(len);
        let mut end = limit;
        for (&start, area) in self.areas.iter().rev() {
            if let Some(at) = self.place_between(area.end, end, len) {
                return Some(at);
            }
            end = end.min(start);
        }
        self.place_between(LOW, end, len)
    }

    /// The highest place of `len` bytes between two addresses.
    fn place_between(&self, start: u64, end: u64, len: u64) -> Option<u64> {
        let at = end.checked_sub(len).filter(|&at| at >= start)?;
        match self.kept_in(at, end) {
            Some(kept) => self.place_between(start, kept.start, len),
            None => Some(at),
        }
    }

    /// Bytes between two addresses in areas of a kind.
    fn bytes_in(&self, (start, end): (u64, u64), is_counted: impl Fn(&Area) -> bool) -> u64 {
        let first = self.area(start).map_or(start, |(at, _)| at);
        let areas = self.areas.range(first..end).filter(|(_, area)| is_counted(area));
        areas.map(|(&at, area)| area.end.min(end) - at.max(start)).sum()
    }

    /// Whether the limits allow so many bytes more, which are data or not.
    fn allows(&self, more: u64, is_data: bool) -> bool {
        let is_within = self.is_within(Resource::Addresses, more, |_| true);
        is_within && (!is_data || self.allows_data(more))
    }

    /// Whether the limit of data allows so many bytes more.
    fn allows_data(&self, more: u64) -> bool {
        self.is_within(Resource::Data, more, Area::is_data)
    }

    /// Whether a limit allows so many bytes more than those of a kind. The kernel counts of the
    /// first stack what has been used; it is left out.
    fn is_within(&self, resource: Resource, more: u64, is_counted: fn(&Area) -> bool) -> bool {
        let Some(most) = self.limits.most(resource) else { return true };
        let is_counted = |area: &Area| area.name != STACK && is_counted(area);
        let used = self.bytes_in((0, self.end), is_counted);
        used.saturating_add(more) <= most || mutant!("la64_limits_unchecked")
    }

    /// Splits areas so that `start` and `end` are boundaries.
    fn split(&mut self, start: u64, end: u64) {
        for at in [start, end] {
            let Some((from, area)) = self.area(at).map(|(s, a)| (s, a.clone())) else { continue };
            if from < at {
                let upper = Area { offset: area.offset + (at - from), ..area };
                self.areas.get_mut(&from).expect("invariant: just found").end = at;
                self.areas.insert(at, upper);
            }
        }
    }

    /// Removes what lies between `start` and `end`.
    fn carve(&mut self, start: u64, end: u64) {
        self.watched.retain(|page| !(start..end).contains(page));
        self.read.retain(|page| !(start..end).contains(page));
        self.split(start, end);
        let inside: Vec<u64> = self.areas.range(start..end).map(|(&s, _)| s).collect();
        for at in inside {
            let gone = self.areas.remove(&at).expect("invariant: just listed");
            self.code_gone(at, &gone);
        }
    }

    /// Drops the code of an area that is no longer executable.
    fn code_gone(&self, start: u64, area: &Area) {
        match (area.prot & PROT_EXEC != 0, area.written) {
            (false, _) => {}
            (true, true) => self.changes.written_gone(start..area.end),
            (true, false) => self.changes.fixed_changed(start..area.end),
        }
    }

    /// The executable areas in order.
    pub(super) fn executable(&self) -> impl Iterator<Item = Range> {
        let executable = |(_, area): &(u64, &Area)| area.prot & PROT_EXEC != 0;
        let range = |(start, area): (u64, &Area)| Range {
            start,
            end: area.end,
            written: area.written,
            watches: self.coherent && (area.prot & PROT_WRITE != 0 || area.shared),
        };
        self.areas().filter(executable).map(range)
    }

    fn insert(&mut self, at: u64, area: Area) {
        if area.prot & PROT_EXEC != 0 {
            self.changes.map_changed();
        }
        let end = area.end;
        self.rights_count += 1;
        self.areas.insert(at, area);
        self.merge(at, end);
    }

    /// Makes one area of those that touch within `[start, end]` and do not differ.
    fn merge(&mut self, start: u64, end: u64) {
        if mutant!("la64_areas_stay_apart") {
            return;
        }
        let before = self.areas.range(..start).next_back().map(|(&s, _)| s);
        let mut from = before.unwrap_or(start);
        while let Some((&at, area)) = self.areas.range(from..).next().filter(|a| *a.0 <= end) {
            from = area.end;
            let Some(next) = self.areas.get(&area.end).filter(|next| area.continues(at, next))
            else {
                continue;
            };
            if area.prot & PROT_EXEC != 0 && area.written != next.written {
                // Blocks of the one part have not been compared so far.
                self.changes.fixed_changed(at..next.end);
            }
            let (end, written) = (next.end, area.written | next.written);
            self.areas.remove(&from);
            let area = self.areas.get_mut(&at).expect("invariant: just found");
            (area.end, area.written, from) = (end, written, at);
        }
    }

    /// mprotect.
    pub(super) fn protect(&mut self, at: u64, len: u64, prot: u32) -> i64 {
        let end = at.saturating_add(page_up(len));
        if !at.is_multiple_of(page_len()) {
            return err(libc::EINVAL);
        }
        let mut covered = at;
        while covered < end {
            match self.area(covered) {
                Some((_, area)) => covered = area.end,
                None => return err(libc::ENOMEM),
            }
        }
        let becomes_data = |area: &Area| is_data(prot, area.shared) && !area.is_data();
        let more = self.bytes_in((at, end), becomes_data);
        // The addresses are counted already.
        if more != 0 && !self.allows_data(more) {
            return err(libc::ENOMEM);
        }
        // One by one, as in the kernel: what lies before the mapping that is refused has the new
        // rights.
        let mut from = at;
        while from < end {
            let to = match self.area(from) {
                Some((_, area)) if !mutant!("la64_half_protected_is_forgotten") => {
                    area.end.min(end)
                }
                _ => end,
            };
            let args = &mut [Arg::Guest(from), Arg::Int(to - from), Arg::Int(host_prot(prot))];
            let done = raw::call_now(&self.window, libc::SYS_mprotect, args);
            if done < 0 {
                return done;
            }
            self.set_prot(from, to, prot);
            from = to;
        }
        0
    }

    fn set_prot(&mut self, at: u64, end: u64, prot: u32) {
        self.rights_count += 1;
        self.watched.retain(|page| !(at..end).contains(page));
        if prot & PROT_EXEC == 0 {
            self.read.retain(|page| !(at..end).contains(page));
        }
        if self.coherent && prot & PROT_WRITE != 0 && prot & PROT_EXEC != 0 {
            // Code of pages that were not writable is not watched.
            self.changes.written_gone(at..end);
        }
        self.split(at, end);
        let mut changed = Vec::new();
        for (&start, area) in self.areas.range_mut(at..end) {
            let before = Area { prot: area.prot, name: String::new(), ..area.clone() };
            area.prot = prot;
            area.written |= prot & PROT_WRITE != 0;
            changed.push((start, before, area.written));
        }
        for (start, before, written) in changed {
            let was = before.prot & PROT_EXEC != 0;
            let is = prot & PROT_EXEC != 0;
            // Fixed code that may change from now on has not been compared so far.
            if was && (!is || written != before.written) {
                self.code_gone(start, &before);
            } else if is != was {
                self.changes.map_changed();
            }
        }
        self.merge(at, end);
        self.watch_where_read(at, end);
    }

    /// mremap.
    pub(super) fn remap(&mut self, r: &Move) -> i64 {
        // As in the kernel, a length that is no more than 0 when it is rounded up is none.
        let new_len = r.new_len.wrapping_add(page_len() - 1) & !(page_len() - 1);
        let r = &Move { old_len: page_up(r.old_len), new_len, ..*r };
        if r.is_malformed() {
            return err(libc::EINVAL);
        }
        let Some((start, area)) = self.area(r.old).map(|(s, a)| (s, a.clone())) else {
            return err(libc::EFAULT);
        };
        if r.old_len > area.end - r.old {
            return err(libc::EFAULT);
        }
        let leaves = r.flags & REMAP_DONTUNMAP != 0;
        let more = if leaves { r.new_len } else { r.new_len.saturating_sub(r.old_len) };
        if more != 0 && !self.allows(more, area.is_data()) {
            return err(libc::ENOMEM);
        }
        self.unwatch_in(r.old, r.old + r.old_len);
        let area = Area { offset: area.offset + (r.old - start), ..area };
        let moves = r.flags & (REMAP_FIXED | REMAP_DONTUNMAP) != 0;
        match r.old_len {
            // A second mapping of the same pages.
            0 if !area.shared || r.flags & REMAP_MAYMOVE == 0 => err(libc::EINVAL),
            len if !moves && len != 0 && r.new_len <= len => {
                let done = match r.new_len < len {
                    true => self.unmap(r.old + r.new_len, len - r.new_len),
                    false => 0,
                };
                if done < 0 { done } else { r.old as i64 }
            }
            len if !moves && len != 0 && self.is_free_behind(r.old + len, r.new_end()) => {
                self.grow(r, area)
            }
            _ => self.relocate(r, area),
        }
    }

    fn is_free_behind(&self, end: u64, new_end: Option<u64>) -> bool {
        new_end.is_some_and(|new_end| new_end <= self.limit() && self.is_free(end, new_end))
    }

    /// Grows a mapping in its place, where the host has its reservation. Private anonymous memory
    /// gets pages behind its own; anything else moves to another place and back.
    fn grow(&mut self, r: &Move, area: Area) -> i64 {
        let (end, more) = (r.old + r.old_len, r.new_len - r.old_len);
        if area.is_private_anonymous() {
            let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
            let flags = if area.unreserved { flags | MAP_NORESERVE } else { flags };
            let got = self.host_mmap(end, more, host_prot(area.prot), flags, -1, 0);
            if got < 0 {
                self.reserve_again(end, more);
                return got;
            }
            self.insert(end, Area { end: end + more, ..area });
            return r.old as i64;
        }
        let is_apart = |at: &u64| *at >= r.old + r.new_len || *at + r.new_len <= r.old;
        let place = self.find_free(r.new_len).filter(is_apart);
        let place = place.or_else(|| self.find_free_below(r.old, r.new_len));
        let Some(scratch) = place else { return err(libc::ENOMEM) };
        for (from, from_len, to) in [(r.old, r.old_len, scratch), (scratch, r.new_len, r.old)] {
            let got = self.host_mremap((from, from_len), (to, r.new_len), 0);
            if got < 0 {
                self.reserve_again(to, r.new_len);
                return got;
            }
            self.reserve_again(from, from_len);
        }
        self.carve(r.old, end);
        self.insert(r.old, Area { end: r.old + r.new_len, ..area });
        self.watch_where_read(r.old, r.old + r.new_len);
        r.old as i64
    }

    fn relocate(&mut self, r: &Move, area: Area) -> i64 {
        let to = match r.flags {
            f if f & REMAP_FIXED != 0 => {
                if r.to < LOW
                    || r.to > self.limit().saturating_sub(r.new_len)
                    || self.kept_in(r.to, r.to + r.new_len).is_some()
                {
                    return err(libc::EINVAL);
                }
                self.unmap(r.to, r.new_len);
                Some(r.to)
            }
            f if f & REMAP_MAYMOVE == 0 => None,
            _ => self.find_free(r.new_len),
        };
        let Some(to) = to else { return err(libc::ENOMEM) };
        let keeps = u64::from(r.flags & REMAP_DONTUNMAP);
        let keeps = if mutant!("la64_dontunmap_ignored") { 0 } else { keeps };
        let got = self.host_mremap((r.old, r.old_len), (to, r.new_len), keeps);
        if got < 0 {
            self.reserve_again(to, r.new_len);
            return got;
        }
        if keeps != 0 {
            // The pages are gone from there, though not the mapping.
            self.code_gone(r.old, &area);
        } else if r.old_len != 0 {
            self.carve(r.old, r.old + r.old_len);
            self.reserve_again(r.old, r.old_len);
        }
        self.insert(to, Area { end: to + r.new_len, ..area });
        self.watch_where_read(to, to + r.new_len);
        to as i64
    }

    fn host_mremap(
        &self,
        (from, from_len): (u64, u64),
        (to, to_len): (u64, u64),
        flags: u64,
    ) -> i64 {
        let flags = flags | u64::from(REMAP_MAYMOVE | REMAP_FIXED);
        let args = &mut [
            Arg::Guest(from),
            Arg::Int(from_len),
            Arg::Int(to_len),
            Arg::Int(flags),
            Arg::Guest(to),
        ];
        raw::call_now(&self.window, libc::SYS_mremap, args)
    }

    /// brk: the new end of the heap, or the old one if it cannot be moved.
    pub(super) fn set_brk(&mut self, wanted: u64) -> u64 {
        let (start, now) = self.brk;
        if wanted < start {
            return now;
        }
        let (from, to) = (page_up(now), page_up(wanted));
        if to < from {
            if self.unmap(to, from - to) < 0 {
                return now;
            }
        } else if to > from {
            let request = Request {
                at: from,
                len: to - from,
                prot: 3,
                flags: MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                fd: -1,
                offset: 0,
                name: "[heap]",
            };
            if self.map(&request) < 0 {
                return now;
            }
        }
        self.brk.1 = wanted;
        wanted
    }

    /// How often something was mapped, or rights were changed.
    pub(super) fn rights_count(&self) -> u64 {
        self.rights_count
    }

    /// The text of /proc/self/maps.
    pub(super) fn maps(&self) -> String {
        let mut text = String::new();
        for (start, area) in self.areas() {
            let bit = |on: bool, c: char| if on { c } else { '-' };
            let (r, w, x) =
                (area.prot & 1 != 0, area.prot & PROT_WRITE != 0, area.prot & PROT_EXEC != 0);
            let kind = if area.shared { 's' } else { 'p' };
            let mode: String = [bit(r, 'r'), bit(w, 'w'), bit(x, 'x'), kind].into_iter().collect();
            let (end, offset, name) = (area.end, area.offset, &area.name);
            text.push_str(&format!(
                "{start:012x}-{end:012x} {mode} {offset:08x} 00:00 0 {name:>30}\n"
            ));
        }
        text
    }
}
