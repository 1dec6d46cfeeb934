//! What is mapped into the guest's address space and out of it, and the reservation of the host in
//! whose place mappings stand.
//!
//! Invariant: what is in no area is reserved again before the lock on the space is left, also where
//! the host refused a mapping. Checked by `a_refused_mapping_leaves_the_reservation_whole`,
//! `a_refused_mapping_takes_what_the_kernel_unmapped`, `what_no_area_covers_is_reserved_again`.

use super::super::raw::{self, Arg, HUGE_LEN};
use super::{
    Area, Attach, LOW, MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_PRIVATE,
    PROT_WRITE, Request, Space, err, host_prot, is_data, page_len, page_up,
};
use littoral_base::mutant;

const MAP_HUGETLB: u32 = 0x4_0000;

/// Bytes of the pages that flags ask for.
fn unit_len(flags: u32) -> u64 {
    const LOG_SHIFT: u32 = 26;
    match (flags & MAP_HUGETLB, flags >> LOG_SHIFT) {
        _ if mutant!("la64_huge_pages_anywhere") => page_len(),
        (0, _) => page_len(),
        (_, 0) => huge_page_len(),
        (_, log @ 12..=34) => 1 << log,
        // The host refuses those.
        _ => page_len(),
    }
}

/// Bytes of a huge page of which no length is asked for.
fn huge_page_len() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Hugepagesize:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(HUGE_LEN, |kib| kib << 10)
}

/// What the host knows of the file of a mapping without asking another machine or process; nothing
/// of memory without a file.
#[derive(Default)]
struct Status {
    /// Device and number.
    backing: [u64; 2],
    /// Bytes of a block.
    block_len: u64,
}

impl Space {
    fn status(&self, r: &Request<'_>) -> Status {
        const BLOCK_LEN_AT: usize = 4;
        const NUMBER_AT: usize = 32;
        const DEVICE_AT: usize = 136;
        if r.flags & MAP_ANONYMOUS != 0 {
            return Status::default();
        }
        let mut bytes = [0; 256];
        let flags = (libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC) as u64;
        let (path, wanted) = (Arg::In(b"\0"), Arg::Int(libc::STATX_INO.into()));
        let out = Arg::Out(&mut bytes);
        let list = &mut [Arg::Int(r.fd as u64), path, Arg::Int(flags), wanted, out];
        raw::call_now(&self.window, libc::SYS_statx, list);
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
        let block_len = long(BLOCK_LEN_AT) & 0xffff_ffff;
        Status { backing: [long(DEVICE_AT), long(NUMBER_AT)], block_len }
    }

    /// Bytes of the pages of a mapping: those of its file, whose blocks they are, or those that its
    /// flags ask for.
    fn unit(&self, r: &Request<'_>, file: &Status) -> u64 {
        const HUGE_FILES: u64 = 0x9584_58f6;
        if r.flags & MAP_ANONYMOUS != 0 {
            return unit_len(r.flags);
        }
        let is_long = file.block_len > page_len() && file.block_len.is_power_of_two();
        let mut bytes = [0; 120];
        let list = &mut [Arg::Int(r.fd as u64), Arg::Out(&mut bytes)];
        let is_huge = is_long
            && raw::call_now(&self.window, libc::SYS_fstatfs, list) == 0
            && u64::from_le_bytes(std::array::from_fn(|n| bytes[n])) == HUGE_FILES;
        if is_huge { file.block_len } else { page_len() }
    }

    pub(super) fn host_mmap(
        &self,
        at: u64,
        len: u64,
        prot: u64,
        flags: u32,
        fd: i64,
        offset: u64,
    ) -> i64 {
        let args = &mut [
            Arg::Guest(at),
            Arg::Int(len),
            Arg::Int(prot),
            Arg::Int(u64::from(flags)),
            Arg::Int(fd as u64),
            Arg::Int(offset),
        ];
        raw::call_now(&self.window, libc::SYS_mmap, args)
    }

    /// mmap: the guest address or a negative error.
    pub(in super::super) fn map(&mut self, r: &Request<'_>) -> i64 {
        let file = self.status(r);
        let unit = self.unit(r, &file);
        let len = r.len.checked_next_multiple_of(unit).unwrap_or_else(|| page_up(r.len));
        if len == 0
            || !r.at.is_multiple_of(page_len()) && r.flags & MAP_FIXED != 0
            || !r.offset.is_multiple_of(page_len())
        {
            return err(libc::EINVAL);
        }
        let at = match self.place(r, len, unit) {
            Ok(at) => at,
            Err(code) => return err(code),
        };
        let shared = r.flags & 3 != MAP_PRIVATE;
        let replaced = self.bytes_in((at, at + len), |_| true);
        if !self.allows(len - replaced, is_data(r.prot, shared)) {
            return err(libc::ENOMEM);
        }
        let flags = r.flags & !MAP_FIXED_NOREPLACE & !0x100 | MAP_FIXED;
        let got = self.host_mmap(at, len, host_prot(r.prot), flags, r.fd, r.offset);
        if got < 0 {
            self.settle(at, at + len);
            return got;
        }
        self.carve(at, at + len);
        // Shared memory may change by other mappings, by calls and by other processes.
        let changes = shared && !mutant!("la64_shared_code_is_fixed");
        let area = Area {
            end: at + len,
            prot: r.prot,
            shared,
            written: changes || r.prot & PROT_WRITE != 0,
            anonymous: r.flags & MAP_ANONYMOUS != 0,
            unreserved: r.flags & MAP_NORESERVE != 0,
            segment: None,
            backing: file.backing,
            // Of memory without a file the kernel looks at none.
            offset: if r.flags & MAP_ANONYMOUS != 0 { 0 } else { r.offset },
            name: r.name.into(),
        };
        self.insert(at, area);
        self.watch_where_read(at, at + len);
        at as i64
    }

    /// shmat: the address, a multiple of `align`, or a negative error.
    pub(in super::super) fn attach(&mut self, r: &Attach, align: u64) -> i64 {
        let len = page_up(r.len);
        let chosen = || self.find_free(len + align).map(|at| at.next_multiple_of(align));
        let at = match r.at {
            0 => chosen().ok_or(libc::ENOMEM),
            at if at < LOW || at.checked_add(len).is_none_or(|end| end > self.limit()) => {
                Err(libc::EINVAL)
            }
            at if !r.replaces && !self.is_free(at, at + len) => Err(libc::EINVAL),
            at if self.kept_in(at, at + len).is_some() => Err(libc::EINVAL),
            at => Ok(at),
        };
        let at = match at {
            Ok(at) => at,
            Err(code) => return err(code),
        };
        if !self.allows(len - self.bytes_in((at, at + len), |_| true), false) {
            return err(libc::ENOMEM);
        }
        // The reservation is there already; no host page is executable.
        let read_only = if r.prot & PROT_WRITE == 0 { libc::SHM_RDONLY } else { 0 };
        let flags = (libc::SHM_REMAP | read_only) as u64;
        let args = &mut [Arg::Int(r.id), Arg::Guest(at), Arg::Int(flags)];
        let got = raw::call_now(&self.window, libc::SYS_shmat, args);
        if got < 0 {
            self.settle(at, at + len);
            return got;
        }
        self.carve(at, at + len);
        let area = Area {
            end: at + len,
            prot: r.prot,
            shared: true,
            written: true,
            anonymous: false,
            unreserved: false,
            segment: Some(at),
            // No device has this number.
            backing: [u64::MAX, r.id],
            offset: 0,
            name: "/SYSV00000000".into(),
        };
        self.insert(at, area);
        self.watch_where_read(at, at + len);
        at as i64
    }

    /// shmdt: unmaps what is left of the segment attached at `at`.
    pub(in super::super) fn detach(&mut self, at: u64) -> i64 {
        let of_segment = self.areas().filter(|(_, area)| area.segment == Some(at));
        let parts: Vec<(u64, u64)> = of_segment.map(|(start, area)| (start, area.end)).collect();
        if parts.is_empty() {
            return err(libc::EINVAL);
        }
        parts.iter().fold(0, |done, (start, end)| self.unmap(*start, end - start).min(done))
    }

    /// Where a mapping of pages of `unit` bytes goes.
    fn place(&self, r: &Request<'_>, len: u64, unit: u64) -> Result<u64, i32> {
        let fixed = r.flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0;
        let hint = r.at & !(page_len() - 1);
        let end = hint.checked_add(len).filter(|end| *end <= self.limit());
        let fits = hint >= LOW && end.is_some_and(|end| self.kept_in(hint, end).is_none());
        if fixed {
            let replace = r.flags & MAP_FIXED_NOREPLACE == 0;
            return match (fits, fits && (replace || self.is_free(hint, hint + len))) {
                (false, _) => Err(libc::ENOMEM),
                (true, false) => Err(libc::EEXIST),
                (true, true) => Ok(hint),
            };
        }
        if hint != 0 && hint.is_multiple_of(unit) && fits && self.is_free(hint, hint + len) {
            return Ok(hint);
        }
        let room = if unit == page_len() { Some(len) } else { len.checked_add(unit) };
        let at = room.and_then(|room| self.find_free(room)).ok_or(libc::ENOMEM)?;
        Ok(at.next_multiple_of(unit))
    }

    /// munmap.
    pub(in super::super) fn unmap(&mut self, at: u64, len: u64) -> i64 {
        let len = page_up(len);
        if !at.is_multiple_of(page_len())
            || len == 0
            || at.checked_add(len).is_none_or(|end| end > self.end)
            || self.kept_in(at, at + len).is_some()
        {
            return err(libc::EINVAL);
        }
        let done = self.reserve_again(at, len);
        match done < 0 && !mutant!("la64_refused_unmapping_is_forgotten") {
            true => self.settle(at, at + len),
            false => self.carve(at, at + len),
        }
        done
    }

    pub(super) fn reserve_again(&self, at: u64, len: u64) -> i64 {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
        // Address 0 must not turn into a null hint; nothing is ever mapped there.
        let (from, end) = (at.max(page_len()), at + len);
        let end = if mutant!("la64_unmap_from_0_reaches_further") { from + len } else { end };
        match end.checked_sub(from) {
            None | Some(0) => 0,
            Some(len) => self.host_mmap(from, len, 0, flags, -1, 0).min(0),
        }
    }

    /// Makes the areas of a range what a refused mapping has left there, and the rest a
    /// reservation: kernels before 6.12 unmap the place of a mapping before they refuse it, others
    /// leave it.
    fn settle(&mut self, start: u64, end: u64) {
        self.split(start, end);
        let inside = self.areas.range(start..end).map(|(&at, area)| (at, area.end));
        let gone: Vec<(u64, u64)> = inside.filter(|&(at, end)| self.has_hole(at, end)).collect();
        for (at, end) in gone {
            if !mutant!("la64_refused_mapping_changes_nothing") {
                self.carve(at, end);
            }
        }
        self.close_holes(start, end);
        self.merge(start, end);
    }

    /// Whether the host has nothing at some address of a range.
    fn has_hole(&self, start: u64, end: u64) -> bool {
        let args = &mut [Arg::Guest(start), Arg::Int(end - start), Arg::Int(libc::MS_ASYNC as u64)];
        raw::call_now(&self.window, libc::SYS_msync, args) == err(libc::ENOMEM)
    }

    /// Reserves again what is in no area, which the host would give to the engine.
    fn close_holes(&self, start: u64, end: u64) {
        let mut from = start;
        let areas = self.areas().map(|(at, area)| (at, area.end));
        for (at, area_end) in areas.filter(|&(_, end)| end > start).chain([(end, end)]) {
            let hole_end = at.min(end);
            if from < hole_end {
                self.reserve_again(from, hole_end - from);
            }
            from = from.max(area_end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    /// A socket refuses to be mapped when the kernel has prepared the place. Kernels from 6.12 on
    /// leave the place as it was, so that this cannot fail there.
    #[test]
    fn a_refused_mapping_leaves_the_reservation_whole() {
        const PAGES: usize = 16;
        const MAP_SHARED: u32 = 1;
        let window = raw::reserve(&[1 << 32]).unwrap();
        let mut space = Space::new(window, window.len(), Vec::new());
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let (len, fd) = (PAGES as u64 * page_len(), socket.as_raw_fd().into());
        let request =
            Request { at: 0, len, prot: 1, flags: MAP_SHARED, fd, offset: 0, name: "socket" };
        assert_eq!(space.map(&request), err(libc::ENODEV));
        let at = space.find_free(len).unwrap();
        let mut pages = [0; PAGES];
        let args = &mut [Arg::Guest(at), Arg::Int(len), Arg::Out(&mut pages)];
        assert_eq!(raw::call_now(&window, libc::SYS_mincore, args), 0, "a hole");
    }

    /// What a kernel before 6.12 does to the place of a mapping that it refuses. A page alone is
    /// too small a hole for what other threads map.
    #[test]
    fn a_refused_mapping_takes_what_the_kernel_unmapped() {
        let window = raw::reserve(&[1 << 32]).unwrap();
        let mut space = Space::new(window, window.len(), Vec::new());
        let (page, flags) = (page_len(), MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
        let start = LOW + 16 * page;
        let request =
            Request { at: start, len: 3 * page, prot: 7, flags, fd: -1, offset: 0, name: "" };
        assert_eq!(space.map(&request), start as i64);
        window.store::<u64>(start, 7).unwrap();
        space.changes.take();
        let args = &mut [Arg::Guest(start + page), Arg::Int(page)];
        assert_eq!(raw::call_now(&window, libc::SYS_munmap, args), 0);
        space.settle(start + page, start + 2 * page);
        assert!(space.area(start + page).is_none(), "a mapping that is gone");
        assert!(!space.has_hole(start, start + 3 * page), "no reservation in its place");
        let [_, written] = space.changes.take();
        let gone = start + page..start + 2 * page;
        assert_eq!(written, [gone], "its code goes too");
        for at in [start, start + 2 * page] {
            assert_eq!(space.area(at).map(|(from, area)| area.end - from), Some(page));
        }
        // A kernel that leaves the place leaves the mapping.
        space.settle(start, start + page);
        assert_eq!(window.load::<u64>(start), Some(7));
    }

    /// A page at the end of all addresses is in the way.
    #[test]
    fn huge_pages_lie_at_multiples_of_their_length() {
        const FLAGS: u32 = MAP_PRIVATE | MAP_ANONYMOUS;
        let window = raw::reserve(&[1 << 32]).unwrap();
        let mut space = Space::new(window, window.len(), Vec::new());
        let request = |flags: u32| Request {
            at: 0,
            len: 1,
            prot: 3,
            flags: FLAGS | flags,
            fd: -1,
            offset: 0,
            name: "",
        };
        assert!(space.map(&request(0)) > 0);
        let flags = MAP_HUGETLB | 21 << 26;
        let unit = unit_len(FLAGS | flags);
        let at = space.place(&request(flags), unit, unit).unwrap();
        let host = window.host(at, 1).unwrap().addr() as u64;
        assert_eq!((at % HUGE_LEN, host % HUGE_LEN), (0, 0), "{at:#x}");
        // The host may have no such page. If it has one, all of it is the mapping's.
        let got = space.map(&request(flags));
        let found = u64::try_from(got).ok().and_then(|at| space.area(at));
        assert!(found.is_none_or(|(start, area)| area.end - start == HUGE_LEN));
    }

    /// A page at the end of all addresses is in the way. The host may know no such files.
    #[test]
    fn files_of_huge_pages_lie_at_multiples_of_their_length() {
        const MFD_HUGETLB: u64 = 4;
        const MFD_HUGE_2MB: u64 = 21 << 26;
        let window = raw::reserve(&[1 << 32]).unwrap();
        let mut space = Space::new(window, window.len(), Vec::new());
        let flags = MAP_PRIVATE | MAP_ANONYMOUS;
        let page = Request { at: 0, len: 1, prot: 3, flags, fd: -1, offset: 0, name: "" };
        assert!(space.map(&page) > 0);
        let list = &mut [Arg::In(b"huge\0"), Arg::Int(MFD_HUGETLB | MFD_HUGE_2MB)];
        let fd = raw::call_now(&window, libc::SYS_memfd_create, list);
        if fd < 0 {
            return;
        }
        let request = Request { flags: 1, fd, name: "huge", ..page };
        let unit = space.unit(&request, &space.status(&request));
        assert_eq!(unit, HUGE_LEN);
        let at = space.place(&request, unit, unit).unwrap();
        assert_eq!(at % HUGE_LEN, 0, "{at:#x}");
        let file = std::env::current_exe().and_then(std::fs::File::open).unwrap();
        let request = Request { fd: file.as_raw_fd().into(), ..request };
        assert_eq!(space.unit(&request, &space.status(&request)), page_len());
        assert_eq!(raw::call_now(&window, libc::SYS_close, &mut [Arg::Int(fd as u64)]), 0);
    }

    /// A sealed page stands for what the host does not unmap: one more mapping than it has at most,
    /// or a part of a huge page. Kernels before 6.10 seal nothing, so that this cannot fail there.
    #[test]
    fn what_the_host_does_not_unmap_stays_mapped() {
        const MSEAL: i64 = 462;
        let window = raw::reserve(&[1 << 32]).unwrap();
        let mut space = Space::new(window, window.len(), Vec::new());
        let (page, flags) = (page_len(), MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
        let start = LOW + 16 * page;
        let request =
            Request { at: start, len: 3 * page, prot: 3, flags, fd: -1, offset: 0, name: "" };
        assert_eq!(space.map(&request), start as i64);
        window.store::<u64>(start + page, 7).unwrap();
        let args = &mut [Arg::Guest(start + page), Arg::Int(page), Arg::Int(0)];
        if raw::call_now(&window, MSEAL, args) != 0 {
            return;
        }
        assert_eq!(space.unmap(start + page, page), err(libc::EPERM));
        assert_eq!(window.load::<u64>(start + page), Some(7));
        assert_eq!(space.area(start + page).map(|(from, area)| area.end - from), Some(3 * page));
        assert_eq!(space.unmap(start, page), 0);
        assert!(space.area(start).is_none(), "an unmapping beside it");
    }

    /// Pages that no area has stand for holes, so that no other thread gets them meanwhile.
    #[test]
    fn what_no_area_covers_is_reserved_again() {
        let window = raw::reserve(&[1 << 32]).unwrap();
        let mut space = Space::new(window, window.len(), Vec::new());
        let (page, flags) = (page_len(), MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
        let start = LOW + 16 * page;
        let at = start + page;
        let request = Request { at, len: page, prot: 3, flags, fd: -1, offset: 0, name: "" };
        assert_eq!(space.map(&request), at as i64);
        for at in [start, start + 2 * page] {
            assert!(space.host_mmap(at, page, 3, flags, -1, 0) >= 0);
        }
        (0..3).for_each(|n| window.store::<u64>(start + n * page, 7).unwrap());
        space.close_holes(start, start + 3 * page);
        let mut pages = [0; 3];
        let args = &mut [Arg::Guest(start), Arg::Int(3 * page), Arg::Out(&mut pages)];
        assert_eq!(raw::call_now(&window, libc::SYS_mincore, args), 0, "a hole");
        assert_eq!((pages[0] & 1, pages[2] & 1), (0, 0), "memory where there is no area");
        assert_eq!(window.load::<u64>(at), Some(7), "the mapping is left alone");
    }
}
