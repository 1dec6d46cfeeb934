//! Where the two blocks of a catalogue are: at an offset of a file or block device, or in memory
//! under a fault plan.
//!
//! Invariants
//! - `write` returns only when the block is durable, or fails.
//! - A [`FileStore`] holds an exclusive advisory lock until it is dropped.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use littoral_base::fault::{Op, Plan, Verdict};
use littoral_base::rng;

use super::BLOCK_BYTES;
use crate::error::{Error, Kind, Result};
use crate::owned_file::OwnedFile;

/// Two blocks of [`BLOCK_BYTES`].
pub trait Store {
    /// Reads block 0 or 1; one never written reads as zeros.
    ///
    /// # Errors
    /// `Kind::Io` when the medium fails.
    fn read(&self, which: usize) -> Result<Vec<u8>>;

    /// Writes block 0 or 1 and makes it durable.
    ///
    /// # Errors
    /// `Kind::Io` when the medium fails, `Kind::PowerCut` under a fault plan.
    fn write(&mut self, which: usize, block: &[u8]) -> Result<()>;

    /// Names a block in messages.
    fn describe(&self, which: usize) -> String;
}

/// The blocks at an offset of a file or block device.
#[derive(Debug)]
pub struct FileStore {
    file: OwnedFile,
    path: PathBuf,
    offset: u64,
}

impl FileStore {
    /// Opens `path`, creating it when it is absent, and locks it; the blocks begin at `offset`.
    ///
    /// # Errors
    /// `Kind::Busy` when another owner has it open, `Kind::Io` when it cannot be opened.
    pub fn open(path: &Path, offset: u64) -> Result<FileStore> {
        let io = |e| Error::with_source(Kind::Io, format!("opening {}", path.display()), e);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(io)?;
        match OwnedFile::exclusive(file) {
            Ok(file) => Ok(FileStore { file, path: path.to_owned(), offset }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let message = format!("{} is in use by another process", path.display());
                Err(Error::new(Kind::Busy, message))
            }
            Err(e) => Err(io(e.into())),
        }
    }

    fn at(&self, which: usize) -> u64 {
        self.offset + (which * BLOCK_BYTES) as u64
    }
}

impl Store for FileStore {
    fn read(&self, which: usize) -> Result<Vec<u8>> {
        let mut block = vec![0; BLOCK_BYTES];
        let mut done = 0;
        while done < block.len() {
            match self.file.read_at(&mut block[done..], self.at(which) + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    let message = format!("reading {}", self.describe(which));
                    return Err(Error::with_source(Kind::Io, message, e));
                }
            }
        }
        Ok(block)
    }

    fn write(&mut self, which: usize, block: &[u8]) -> Result<()> {
        assert_eq!(block.len(), BLOCK_BYTES, "a block is written whole");
        let written = self.file.write_all_at(block, self.at(which));
        written.and_then(|()| self.file.sync_data()).map_err(|e| {
            Error::with_source(Kind::Io, format!("writing {}", self.describe(which)), e)
        })
    }

    fn describe(&self, which: usize) -> String {
        format!("{} at byte {}", self.path.display(), self.at(which))
    }
}

const SECTOR_BYTES: usize = 512;

/// The blocks in memory, written under a fault plan: a torn write leaves any subset of its sectors.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    blocks: [Vec<u8>; 2],
    plan: Plan,
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore { blocks: [vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]], plan: Plan::none() }
    }
}

impl MemoryStore {
    /// Two empty blocks.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same blocks under another plan, as after a restart.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` for a verdict that a written block cannot suffer.
    pub fn with_plan(self, plan: Plan) -> Result<Self> {
        for verdict in plan.verdicts(Op::Write) {
            if !matches!(verdict, Verdict::Pass | Verdict::Fail | Verdict::Cut | Verdict::Torn(_)) {
                let message =
                    format!("fault plan `{plan}`: a catalogue write cannot act on {verdict:?}");
                return Err(Error::new(Kind::IllegalRequest, message));
            }
        }
        Ok(MemoryStore { plan, ..self })
    }

    /// A block's bytes, to be damaged by a test.
    pub fn block_mut(&mut self, which: usize) -> &mut [u8] {
        &mut self.blocks[which]
    }
}

impl Store for MemoryStore {
    fn read(&self, which: usize) -> Result<Vec<u8>> {
        Ok(self.blocks[which].clone())
    }

    fn write(&mut self, which: usize, block: &[u8]) -> Result<()> {
        assert_eq!(block.len(), BLOCK_BYTES, "a block is written whole");
        let cut = |what: &str| Err(Error::new(Kind::PowerCut, format!("power was cut {what}")));
        match self.plan.judge(Op::Write) {
            Verdict::Fail => Err(Error::new(Kind::Io, "a write failed by fault plan")),
            Verdict::Cut => cut("before a write"),
            Verdict::Torn(word) => {
                for (i, sector) in block.chunks(SECTOR_BYTES).enumerate() {
                    if rng::mix(word ^ i as u64) & 1 == 0 {
                        let at = i * SECTOR_BYTES;
                        self.blocks[which][at..at + sector.len()].copy_from_slice(sector);
                    }
                }
                cut("inside a write")
            }
            _ => {
                self.blocks[which].copy_from_slice(block);
                Ok(())
            }
        }
    }

    fn describe(&self, which: usize) -> String {
        format!("block {which} in memory")
    }
}
