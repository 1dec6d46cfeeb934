//! Room that a device in a sparse file keeps for itself on the host's file system.
//!
//! - Blocks of the file are allocated when they are written, so a full host fails writes. Zones
//!   that are *kept* are allocated at once and stay so, also when they are reset.
//! - The *reserve* is room behind the file's end. A write that the host refuses takes a piece of
//!   it. Its owner asks whether it is whole ([`Host::has_reserve`]) and holds back until it is.
//! - Room given back (holes) refills the reserve before anything else uses it, unless another
//!   process is faster.
//! - A file system that cannot allocate ahead, or writes every block to a new place, keeps nothing.
//!
//! Invariant: the reserve is the `held` bytes from `from` on. Pieces are taken from its end, so the
//! rest that an earlier process left is found again from its beginning. Checked by
//! `a_full_host_is_met_with_the_reserve_and_the_reserve_comes_back`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Error as IoError, Result as IoResult};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// Bytes of the reserve that are taken or refilled at once.
const PIECE_BYTES: u64 = 64 << 10;
/// Unit of allocation of the modelled host.
const UNIT_BYTES: u64 = 4096;

/// A host of a given size, modelled: for tests, which cannot fill a real one.
#[derive(Debug)]
struct Modelled {
    units: u64,
    allocated: BTreeSet<u64>,
}

impl Modelled {
    fn take(&mut self, offset: u64, len: u64) -> IoResult<()> {
        let units = offset / UNIT_BYTES..(offset + len).div_ceil(UNIT_BYTES);
        let fresh: Vec<u64> = units.filter(|u| !self.allocated.contains(u)).collect();
        if self.allocated.len() as u64 + fresh.len() as u64 > self.units {
            return Err(Errno::NOSPC.into());
        }
        self.allocated.extend(fresh);
        Ok(())
    }

    fn give(&mut self, offset: u64, len: u64) {
        let (from, to) = (offset.div_ceil(UNIT_BYTES), (offset + len) / UNIT_BYTES);
        self.allocated.retain(|u| !(from..to).contains(u));
    }
}

/// What a device keeps on its host.
#[derive(Debug)]
pub(super) struct Host {
    from: u64,
    wanted: u64,
    held: u64,
    modelled: Option<Modelled>,
}

fn is_full(e: &IoError) -> bool {
    e.kind() == std::io::ErrorKind::StorageFull
}

impl Host {
    /// Nothing is kept yet; the reserve will begin at `from`, the file's end.
    pub(super) fn new(from: u64) -> Host {
        Host { from: from.next_multiple_of(UNIT_BYTES), wanted: 0, held: 0, modelled: None }
    }

    /// From now on the host has room for `bytes` of this file and no more.
    pub(super) fn limit(&mut self, bytes: u64) {
        self.modelled = Some(Modelled { units: bytes / UNIT_BYTES, allocated: BTreeSet::new() });
    }

    /// Allocates a range of the file.
    pub(super) fn allocate(&mut self, file: &File, offset: u64, len: u64) -> IoResult<()> {
        if let Some(m) = &mut self.modelled {
            m.take(offset, len)?;
        }
        match fallocate(file.as_fd(), FallocateFlags::KEEP_SIZE, offset, len) {
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Gives a range of the file back to the host; it reads as zeros afterwards.
    pub(super) fn give(&mut self, file: &File, offset: u64, len: u64) -> IoResult<()> {
        if let Some(m) = &mut self.modelled {
            m.give(offset, len);
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(file.as_fd(), flags, offset, len) {
            // A file system without holes keeps the bytes; reads hide them behind the pointer.
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Writes, with room of the reserve where the host has none.
    pub(super) fn write(&mut self, file: &File, data: &[u8], offset: u64) -> IoResult<()> {
        loop {
            let taken = match &mut self.modelled {
                Some(m) => m.take(offset, data.len() as u64),
                None => Ok(()),
            };
            match taken.and_then(|()| file.write_all_at(data, offset)) {
                Err(e) if is_full(&e) && self.held > 0 => self.release(file, data.len() as u64)?,
                other => return other,
            }
        }
    }

    fn release(&mut self, file: &File, len: u64) -> IoResult<()> {
        let piece = len.next_multiple_of(PIECE_BYTES).min(self.held);
        self.held -= piece;
        self.give(file, self.from + self.held, piece)
    }

    /// Sets the bytes of the reserve.
    pub(super) fn want(&mut self, bytes: u64) {
        self.wanted = bytes.next_multiple_of(PIECE_BYTES);
    }

    /// Whether the reserve is whole, after an attempt to make it so.
    pub(super) fn has_reserve(&mut self, file: &File) -> IoResult<bool> {
        while self.held < self.wanted {
            let piece = PIECE_BYTES.min(self.wanted - self.held);
            match self.allocate(file, self.from + self.held, piece) {
                Ok(()) => self.held += piece,
                Err(e) if is_full(&e) => {
                    // Part of the piece may have been allocated.
                    self.give(file, self.from + self.held, piece)?;
                    return Ok(false);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_host_is_met_with_the_reserve_and_the_reserve_comes_back() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let mut host = Host::new(1 << 20);
        host.limit(600 << 10);
        host.want(PIECE_BYTES);
        assert!(host.has_reserve(&file).unwrap());
        // 536 KiB are left beside the reserve.
        host.write(&file, &[1; 300 << 10], 0).unwrap();
        assert!(host.has_reserve(&file).unwrap());
        host.write(&file, &[2; 270 << 10], 300 << 10).unwrap();
        assert!(!host.has_reserve(&file).unwrap(), "a piece was taken");
        host.write(&file, &[3; 300 << 10], 0).unwrap();
        let e = host.write(&file, &[4; 400 << 10], 570 << 10).unwrap_err();
        assert!(is_full(&e), "{e}");
        host.give(&file, 0, 200 << 10).unwrap();
        assert!(host.has_reserve(&file).unwrap(), "holes refill the reserve");
        let mut found = [9; 2];
        file.read_exact_at(&mut found, (300 << 10) - 1).unwrap();
        assert_eq!(found, [3, 2]);
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(found, [0, 0], "given back");
    }
}
