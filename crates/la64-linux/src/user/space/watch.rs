//! Pages that the host keeps from being written, for a guest whose processors execute what was
//! written without an instruction that says so.
//!
//! A private page is watched when code is read from it while it is writable. Shared memory may show
//! at several addresses: when code is read at one of them, all that are writable are watched, and
//! what is mapped or becomes writable later is too. Writes of other processes and by calls that
//! name the file (`pwrite`) are not noticed.
//!
//! Invariant: a writable page is watched if it shows shared memory of which code was read (`read`),
//! at any address. Both end together, when the code is dropped. Checked by
//! `every_writable_page_that_shows_code_is_watched`,
//! `code_of_memory_that_is_mapped_twice_is_executed`.

use super::super::raw::{self, Arg};
use super::{Area, PROT_WRITE, Space, err, host_prot, page_len};
use littoral_base::mutant;

/// What an assertion says.
const CHANGES: &str = "the host changes the rights of a mapped page";

impl Area {
    /// Whether it is of the same shared memory as another one.
    fn shares_with(&self, other: &Area) -> bool {
        let is_same = self.anonymous == other.anonymous && self.backing == other.backing;
        self.shared && other.shared && is_same
    }

    /// The address of what lies so far into its file.
    fn address_of(&self, start: u64, offset: u64) -> Option<u64> {
        let at = start.checked_add(offset.checked_sub(self.offset)?)?;
        (at < self.end).then_some(at)
    }
}

impl Space {
    /// Lets the host refuse writes to the memory of an address of which code is about to be read.
    pub(in super::super) fn watch(&mut self, at: u64) {
        let page = at & !(page_len() - 1);
        let is_shared = self.area(page).is_some_and(|(_, area)| area.shared);
        if !is_shared {
            return self.watch_page(page);
        }
        if self.read.insert(page) {
            self.showing(&[page]).into_iter().for_each(|page| self.watch_page(page));
        }
    }

    /// A part of a huge page has no rights of its own, so that such a page stays unwatched.
    fn watch_page(&mut self, page: u64) {
        let Some((_, area)) = self.area(page) else { return };
        let is_writable = area.prot & PROT_WRITE != 0;
        let prot = host_prot(area.prot) & !u64::from(PROT_WRITE);
        if !is_writable || mutant!("x86_written_code_stays") || self.watched.contains(&page) {
            return;
        }
        let done = self.host_protect(page, prot);
        assert!([0, err(libc::EINVAL)].contains(&done), "{CHANGES}: {done}");
        if done == 0 {
            self.watched.insert(page);
            self.watches_count += 1;
        }
    }

    /// Watches pages of a range that were mapped or became writable, if they show memory of which
    /// code was read at another address.
    pub(super) fn watch_where_read(&mut self, start: u64, end: u64) {
        if self.read.is_empty() {
            return;
        }
        let first = self.area(start).map_or(start, |(at, _)| at);
        let areas = self.areas.range(first..end);
        let pages = areas.flat_map(|(&at, area)| self.read_of(at, area));
        let pages: Vec<u64> = pages.filter(|page| (start..end).contains(page)).collect();
        for page in pages {
            self.watch_page(page);
        }
    }

    /// The pages of an area that show memory of which code was read, at any address.
    fn read_of(&self, start: u64, area: &Area) -> Vec<u64> {
        let others = self.areas().filter(|(_, other)| other.shares_with(area));
        let offsets = others.flat_map(|(at, other)| {
            self.read.range(at..other.end).map(move |page| other.offset.wrapping_add(page - at))
        });
        offsets.filter_map(|offset| area.address_of(start, offset)).collect()
    }

    /// All pages that show the memory of some pages, these among them.
    pub(in super::super) fn showing(&self, pages: &[u64]) -> Vec<u64> {
        let mut all = pages.to_vec();
        for &page in pages {
            let Some((start, area)) = self.area(page) else { continue };
            let offset = area.offset.wrapping_add(page - start);
            let others = self.areas().filter(|(_, other)| other.shares_with(area));
            if !mutant!("x86_other_mappings_unwatched") {
                all.extend(others.filter_map(|(at, other)| other.address_of(at, offset)));
            }
        }
        all
    }

    /// Lets the host allow writes to the memory of some pages again; the pages that show it, whose
    /// code is to be dropped.
    pub(in super::super) fn unwatch(&mut self, pages: &[u64]) -> Vec<u64> {
        let pages = self.showing(pages);
        for page in &pages {
            self.read.remove(page);
            let was_watched = self.watched.remove(page);
            if was_watched && let Some((_, area)) = self.area(*page) {
                let done = self.host_protect(*page, host_prot(area.prot));
                assert!(done == 0, "{CHANGES}: {done}");
            }
        }
        pages
    }

    fn host_protect(&self, page: u64, prot: u64) -> i64 {
        let args = &mut [Arg::Guest(page), Arg::Int(page_len()), Arg::Int(prot)];
        raw::call_now(&self.window, libc::SYS_mprotect, args)
    }

    /// Watches nothing of a range any more; code of its memory is to be dropped.
    pub(super) fn unwatch_in(&mut self, start: u64, end: u64) {
        let pages: Vec<u64> = self.watched.range(start..end).copied().collect();
        for page in self.unwatch(&pages) {
            self.changes.written_gone(page..page + page_len());
        }
    }

    /// The watched pages.
    pub(in super::super) fn watched(&self) -> Vec<u64> {
        self.watched.iter().copied().collect()
    }

    /// How many pages were ever watched.
    pub(in super::super) fn watches_count(&self) -> u64 {
        self.watches_count
    }
}

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::*;
    use std::collections::BTreeSet;

    /// Page 1 of a file of two pages, which is mapped four times.
    #[test]
    fn every_writable_page_that_shows_code_is_watched() {
        const MAP_SHARED: u32 = 1;
        const READ: u32 = 1;
        const READ_WRITE: u32 = 3;
        const READ_EXECUTE: u32 = 5;
        let window = raw::reserve(&[1 << 32]).unwrap();
        let mut space = Space::new(window, window.len(), Vec::new());
        space.coherent = true;
        let page = page_len();
        let list = &mut [Arg::In(b"code\0"), Arg::Int(0)];
        let fd = raw::call_now(&window, libc::SYS_memfd_create, list);
        let list = &mut [Arg::Int(fd as u64), Arg::Int(2 * page)];
        assert_eq!(raw::call_now(&window, libc::SYS_ftruncate, list), 0);
        let map = |space: &mut Space, prot: u32, offset: u64| {
            let (len, flags) = (2 * page - offset, MAP_SHARED);
            let request = Request { at: 0, len, prot, flags, fd, offset, name: "code" };
            u64::try_from(space.map(&request)).unwrap()
        };
        let written = map(&mut space, READ_WRITE, 0);
        let run = map(&mut space, READ_EXECUTE, 0);
        space.watch(run + page + 8);
        assert_eq!(space.watched, BTreeSet::from([written + page]));
        let later = map(&mut space, READ_WRITE, page);
        let allowed = map(&mut space, READ, 0);
        assert_eq!(space.watched, BTreeSet::from([written + page, later]));
        assert_eq!(space.protect(allowed, 2 * page, READ_WRITE), 0);
        let all = BTreeSet::from([written + page, later, allowed + page]);
        assert_eq!(space.watched, all);
        // What is to be dropped is the code, where it was read.
        let showing = BTreeSet::from_iter(space.unwatch(&[later]));
        assert_eq!(showing, &all | &BTreeSet::from([run + page]));
        assert!(space.watched.is_empty() && space.read.is_empty());
        assert_eq!(raw::call_now(&window, libc::SYS_close, &mut [Arg::Int(fd as u64)]), 0);
    }
}
