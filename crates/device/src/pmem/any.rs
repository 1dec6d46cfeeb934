//! A closed enum of the persistent memories, for one chosen at run time.
//!
//! - [`AnyDomain::open`] opens a file by the means that promise most there: flush and fence on DAX
//!   memory (a fence alone where the caches survive too), msync everywhere else.
//! - The promise is what the medium was found to be.
//!
//! Invariants
//! - Nothing that exists is overwritten: [`AnyDomain::create`] refuses a file that is there.
//!   Checked by `a_file_is_made_once_has_one_owner_and_is_blank_until_written`.

use std::path::Path;
use std::sync::atomic::Ordering;

use littoral_base::clock::ClockKind;

use super::raw::map::Mapping;
use super::{
    Draft, Dram, Eadr, FileCopy, Flush, FlushFence, Msync, Paced, best_promise, platform_has_eadr,
};
use crate::error::{Kind, Result};
use crate::forward_domain;
use crate::memory::{Domain, Promise};

/// Persistent memory chosen at run time.
#[derive(Debug)]
pub enum AnyDomain {
    /// Memory of this process, gone when it ends.
    Dram(Dram),
    /// Such memory, paced as a profile describes it.
    Paced(Box<Paced<Dram>>),
    /// DAX memory, by write-back and fence.
    Flush(FlushFence),
    /// DAX memory whose caches survive a power loss too.
    Eadr(Eadr),
    /// Any file, by msync.
    Msync(Msync),
    /// A private copy of a file, to look at: the file never changes.
    Copy(FileCopy),
}

macro_rules! each {
    ($self:ident, $($call:tt)+) => {
        match $self {
            AnyDomain::Dram(domain) => domain.$($call)+,
            AnyDomain::Paced(domain) => domain.$($call)+,
            AnyDomain::Flush(domain) => domain.$($call)+,
            AnyDomain::Eadr(domain) => domain.$($call)+,
            AnyDomain::Msync(domain) => domain.$($call)+,
            AnyDomain::Copy(domain) => domain.$($call)+,
        }
    };
}

impl AnyDomain {
    /// Opens the file at `path` by the means that promise most.
    ///
    /// # Errors
    /// `Kind::Busy` when another owner has it, `Kind::Io` when it cannot be opened for writing,
    /// `Kind::Foreign` for a length that no domain has.
    pub fn open(path: &Path) -> Result<AnyDomain> {
        let domain = Self::strongest(path)?;
        log::info!("opened the file {}, durable by {}", path.display(), domain.name());
        Ok(domain)
    }

    fn strongest(path: &Path) -> Result<AnyDomain> {
        match FlushFence::open(path) {
            Ok(dax) if dax.promise() == Promise::PowerLoss && platform_has_eadr() => {
                drop(dax);
                Ok(AnyDomain::Eadr(Eadr::open(path)?))
            }
            Ok(dax) if dax.promise() == Promise::PowerLoss => Ok(AnyDomain::Flush(dax)),
            Err(e) if e.kind() != Kind::Unsupported => Err(e),
            // The file is not DAX memory, or the processor has no write-back: msync does both.
            other => {
                drop(other);
                Ok(AnyDomain::Msync(Msync::open(path)?))
            }
        }
    }

    /// Makes a file of `len` zero bytes and opens it.
    ///
    /// # Errors
    /// `Kind::Exists`, `Kind::IllegalRequest` for a bad length, else as [`AnyDomain::open`].
    pub fn create(path: &Path, len: usize) -> Result<AnyDomain> {
        let (domain, draft) = Self::draft(path, len)?;
        draft.publish()?;
        Ok(domain)
    }

    /// As [`AnyDomain::create`], of a file that gets its name when the draft is published: what an
    /// engine writes first is then there from the first moment.
    ///
    /// # Errors
    /// As [`AnyDomain::create`].
    pub fn draft(path: &Path, len: usize) -> Result<(AnyDomain, Draft)> {
        let (zeroed, draft) = Mapping::draft(path, len)?;
        drop(zeroed);
        // A draft without a name is opened by its descriptor, which says nothing in a message.
        let domain = Self::strongest(draft.at()).map_err(|e| e.in_context(path.display()))?;
        log::info!("made the file {}, durable by {}", path.display(), domain.name());
        Ok((domain, draft))
    }

    /// How a file at `path` would be made durable, in a word, and what that promises; takes no
    /// lock.
    ///
    /// # Errors
    /// As [`best_promise`].
    pub fn means(path: &Path) -> Result<(&'static str, Promise)> {
        Ok(match best_promise(path)? {
            Promise::PowerLoss if Flush::detect().is_none() => ("msync", Promise::DeviceFlush),
            Promise::PowerLoss if platform_has_eadr() => ("fence", Promise::PowerLoss),
            Promise::PowerLoss => ("flush and fence", Promise::PowerLoss),
            promise => ("msync", promise),
        })
    }

    /// How what is on this memory is made durable, in a word.
    pub fn name(&self) -> &'static str {
        match self {
            AnyDomain::Dram(_) | AnyDomain::Paced(_) | AnyDomain::Copy(_) => "nothing",
            AnyDomain::Flush(_) => "flush and fence",
            AnyDomain::Eadr(_) => "fence",
            AnyDomain::Msync(_) => "msync",
        }
    }

    /// Which clock stands behind a time on this memory.
    pub fn clock(&self) -> ClockKind {
        match self {
            AnyDomain::Paced(_) => ClockKind::Paced,
            _ => ClockKind::Wall,
        }
    }

    /// Whether nothing was ever written: every word is zero in the first page.
    pub fn is_blank(&self) -> bool {
        let end = self.len().min(4096);
        (0..end).step_by(8).all(|at| self.word(at, Ordering::Relaxed) == 0)
    }
}

impl Domain for AnyDomain {
    forward_domain!(each: all);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_once_it_is_published_and_replaces_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory");
        let files_count = || std::fs::read_dir(dir.path()).unwrap().count();
        let (domain, draft) = AnyDomain::draft(&path, 8192).unwrap();
        assert!(!path.exists(), "a process that is killed here leaves no file of that name");
        domain.store(1024, 5, Ordering::Relaxed);
        drop((domain, draft));
        assert_eq!(files_count(), 0, "a draft that is given up is removed");
        let (late, late_draft) = AnyDomain::draft(&path, 4096).unwrap();
        let (domain, draft) = AnyDomain::draft(&path, 8192).unwrap();
        domain.store(1024, 5, Ordering::Relaxed);
        draft.publish().unwrap();
        assert_eq!(AnyDomain::open(&path).unwrap_err().kind(), Kind::Busy, "its lock stays");
        assert_eq!(late_draft.publish().unwrap_err().kind(), Kind::Exists);
        drop((late, domain));
        assert_eq!(files_count(), 1);
        assert_eq!(AnyDomain::open(&path).unwrap().word(1024, Ordering::Relaxed), 5);
    }

    #[test]
    fn a_file_is_made_once_has_one_owner_and_is_blank_until_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory");
        let domain = AnyDomain::create(&path, 8192).unwrap();
        assert!(domain.is_blank());
        assert_eq!(domain.clock(), ClockKind::Wall);
        assert_eq!(AnyDomain::open(&path).unwrap_err().kind(), Kind::Busy);
        domain.store(1024, 5, Ordering::Relaxed);
        domain.write_back(1024, 8);
        domain.fence().unwrap();
        assert_eq!((domain.name(), domain.promise()), AnyDomain::means(&path).unwrap());
        drop(domain);
        assert_eq!(AnyDomain::create(&path, 8192).unwrap_err().kind(), Kind::Exists);
        assert!(!AnyDomain::open(&path).unwrap().is_blank());
        let copy = AnyDomain::Copy(FileCopy::open(&path).unwrap());
        assert_eq!((copy.word(1024, Ordering::Relaxed), copy.promise()), (5, Promise::Nothing));
    }
}
