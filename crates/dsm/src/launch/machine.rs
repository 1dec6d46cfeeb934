//! What the ranks of one machine share, for launchers other than [`super::run`].
//!
//! One rank creates the memory ([`OneMachine::create`]) and tells the others where it is
//! ([`OneMachine::place`]). They open it ([`OneMachine::open`]), and then every rank joins
//! ([`OneMachine::join`]). The memory has no name: it is reached through the descriptors of the
//! rank that created it, so nothing is left behind however the job ends.
//!
//! Invariants
//! - A place is opened only where its files are those that were created: in another process
//!   namespace the same path leads to other files or to none. Checked by
//!   `a_place_of_other_files_is_refused`, `ranks_join_by_the_place_of_the_first`.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use littoral_base::codec::{Reader, Writer};
use littoral_base::units::NodeId;
use littoral_fabric::shm::ShmFabric;

use super::run::memory;
use super::{START_MAX, shared_file, shm_layout};
use crate::error::{Error, Kind, Result};
use crate::runtime::carrier::{Carrier, Shared};
use crate::runtime::{Config, board_bytes};

/// Bytes of a place.
pub const PLACE_BYTES: usize = 8 + FILES.len() * 24;
const FILES: [&str; 3] = ["MEMORY", "DIRECT", "BOARD"];

/// The memory that ranks of one machine share: the fabric's, the pages, and the board that says
/// which rank holds what.
#[derive(Debug)]
pub struct OneMachine {
    files: [File; 3],
}

impl OneMachine {
    /// Makes the memory of a job with `ranks` ranks that share at most `bytes_max` bytes.
    ///
    /// # Errors
    /// `Kind::Environment` when the system refuses memory.
    pub fn create(ranks: u16, bytes_max: usize) -> Result<OneMachine> {
        let fabric = memory(0)?;
        let made = shm_layout(ranks).create(&fabric);
        made.map_err(|e| Error::over(Kind::Environment, "making shared memory", e))?;
        let files = [fabric, memory(bytes_max)?, memory(board_bytes(ranks))?];
        Ok(OneMachine { files })
    }

    /// Where the memory is: {process u64, {descriptor, device, inode: u64} a file}.
    ///
    /// # Errors
    /// `Kind::Environment` when the system does not describe its own files.
    pub fn place(&self) -> Result<[u8; PLACE_BYTES]> {
        let mut w = Writer::new();
        w.u64(u64::from(std::process::id()));
        for file in &self.files {
            let (device, inode) = identity(file)?;
            let descriptor = u64::try_from(file.as_raw_fd()).unwrap_or(u64::MAX);
            w.u64(descriptor).u64(device).u64(inode);
        }
        let bytes = w.finish();
        Ok(bytes.try_into().expect("invariant: a place has one length"))
    }

    /// Opens the memory that another rank has made.
    ///
    /// # Errors
    /// `Kind::Environment` when it cannot be reached from here.
    pub fn open(place: &[u8; PLACE_BYTES]) -> Result<OneMachine> {
        let mut r = Reader::new(place);
        let mut next = || r.u64().expect("invariant: a place has one length");
        let process = next();
        let mut one = |name| {
            let (descriptor, device, inode) = (next(), next(), next());
            let file = shared_file(name, &format!("/proc/{process}/fd/{descriptor}"))?;
            if identity(&file)? == (device, inode) {
                return Ok(file);
            }
            let what = format!("descriptor {descriptor} of process {process} is another file here");
            Err(Error::new(Kind::Environment, what))
        };
        let [fabric, direct, board] = FILES;
        Ok(OneMachine { files: [one(fabric)?, one(direct)?, one(board)?] })
    }

    /// This rank's way to the others, when all have come, and how it joins. The job's bytes must be
    /// those that the memory was made for.
    ///
    /// # Errors
    /// `Kind::Environment` when another rank does not come, or memory is refused.
    pub fn join(
        self,
        me: NodeId,
        ranks: u16,
        silence: Duration,
        mut config: Config,
    ) -> Result<(Box<dyn Carrier>, Config)> {
        let [memory, direct, board] = self.files;
        let failed = |e| {
            Error::over(Kind::Environment, format!("rank {me} joining over shm"), e).at_rank(me)
        };
        let layout = shm_layout(ranks);
        let fabric = ShmFabric::attach_with_silence(&memory, layout, me, silence);
        let fabric = fabric.map_err(failed)?;
        fabric.wait_for_all(START_MAX).map_err(failed)?;
        (config.direct, config.board) = (Some(direct), Some(board));
        Ok((Box::new(Shared(fabric)), config))
    }
}

fn identity(file: &File) -> Result<(u64, u64)> {
    let found = file.metadata().map(|m| (m.dev(), m.ino()));
    found.map_err(|e| Error::with_source(Kind::Environment, "asking for a shared file", e))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::message::LockId;
    use crate::job::Job;

    const BYTES: usize = 1 << 20;

    #[test]
    fn ranks_join_by_the_place_of_the_first() {
        let first = OneMachine::create(2, BYTES).unwrap();
        let second = OneMachine::open(&first.place().unwrap()).unwrap();
        let rank = |shared: OneMachine, me| {
            let config = Config { bytes_max: BYTES, ..Config::default() };
            let silence = littoral_fabric::SILENCE_DEFAULT;
            let (carrier, config) = shared.join(NodeId(me), 2, silence, config).unwrap();
            let mut job = Job::start(carrier, config).unwrap();
            let sum = job.alloc::<u64>().unwrap();
            for _ in 0..100 {
                let section = job.enter(LockId(3)).unwrap();
                section.write(sum.whole()).unwrap()[0] += 1;
                section.leave().unwrap();
            }
            let phase = job.phase().unwrap();
            phase.end().unwrap();
            let phase = job.phase().unwrap();
            let found = phase.read(sum.whole()).unwrap()[0];
            phase.end().unwrap();
            job.finish().unwrap();
            found
        };
        let found = std::thread::scope(|s| {
            let other = s.spawn(|| rank(second, 1));
            [rank(first, 0), other.join().unwrap()]
        });
        assert_eq!(found, [200, 200]);
    }

    #[test]
    fn a_place_of_other_files_is_refused() {
        let made = OneMachine::create(2, BYTES).unwrap();
        let mut place = made.place().unwrap();
        // The inode of the pages.
        place[8 + 24 + 16] ^= 1;
        let refused = OneMachine::open(&place).unwrap_err();
        assert_eq!(refused.kind(), Kind::Environment);
        assert!(refused.to_string().contains("another file"), "{refused}");
    }
}
