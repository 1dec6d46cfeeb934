//! How a rank joins its job.

use std::fs::File;
use std::time::Duration;

use crate::error::{Error, Kind, Result};
use crate::memory::{Mechanism, PoolLines};

/// Bytes of copies of pages unless the job says otherwise.
pub const CACHE_DEFAULT: usize = 1 << 30;
/// The least limit: an operation and the pages it fetches ahead need room.
pub const CACHE_MIN: usize = 1 << 22;

/// What happens to the process when the job fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// One line on standard error, and the process ends with the failure's exit code, whatever the
    /// program is doing: no rank computes for a job that is lost.
    Exit,
    /// The next operation fails.
    Report,
}

/// How a rank joins its job; equal on every rank but for the files, which are the same memory.
#[derive(Debug)]
pub struct Config {
    /// Most bytes the job can share; address space, not memory.
    pub bytes_max: usize,
    /// Locks.
    pub locks: u32,
    /// Notices that a lock's log can hold.
    pub log_capacity: usize,
    /// Whether pages come before they are asked for: with a grant those that the lock's last
    /// section wrote here, with a departure those fetched lately, and pages in a row together.
    pub predict: bool,
    /// Most bytes that copies of other ranks' pages may take, but for those under guards; the least
    /// accepted is [`CACHE_MIN`].
    pub cache_bytes: usize,
    /// Whether a machine of the job has fewer processors than ranks: its barriers then go through
    /// rank 0, in fewer messages, where more than two ranks have no shared memory for them.
    pub crowded: bool,
    /// How the view is protected; the better one that works when `None`.
    pub mechanism: Option<Mechanism>,
    /// Memory that all ranks map as their shared pages, instead of copies kept coherent.
    pub direct: Option<File>,
    /// Memory of [`super::pages_bytes`] zeros in which the ranks of one machine keep their copies
    /// of pages, so that each reaches the others' without a message.
    pub frames: Option<File>,
    /// Lines of a pool that all ranks share in place; takes the place of `direct`, and the program
    /// reaches them by guards alone.
    pub pool: Option<PoolLines>,
    /// Memory for the board of the ranks of one machine (who holds what).
    pub board: Option<File>,
    /// Whether this rank, when it has left in good order, writes to its standard error what its
    /// launcher takes out there: no board leads from it to its launcher.
    pub tells_launcher: bool,
    /// Where every rank of the job has its view; each where its system likes when `None`.
    pub base: Option<usize>,
    /// Whether any thread of the program may reach the view, not only the one that joined.
    pub many_threads: bool,
    /// What happens when the job fails.
    pub on_loss: OnLoss,
    /// After how long a stopped rank of this machine is named on standard error, once per stop;
    /// never when `None`, as where the launcher does it.
    pub name_stopped: Option<Duration>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            bytes_max: 1 << 36,
            locks: 1 << 20,
            log_capacity: 4096,
            predict: true,
            cache_bytes: CACHE_DEFAULT,
            crowded: false,
            mechanism: None,
            direct: None,
            frames: None,
            pool: None,
            board: None,
            tells_launcher: false,
            base: None,
            many_threads: false,
            on_loss: OnLoss::Report,
            name_stopped: None,
        }
    }
}

impl Config {
    /// The limit of copies, in pages.
    ///
    /// # Errors
    /// `Kind::Misuse` below [`CACHE_MIN`].
    pub(super) fn cache_pages(&self, page_bytes: usize) -> Result<usize> {
        if self.cache_bytes >= CACHE_MIN {
            return Ok(self.cache_bytes / page_bytes);
        }
        let what = format!(
            "a cache of {} bytes is less than the least limit, {CACHE_MIN}; choose a larger one",
            self.cache_bytes
        );
        Err(Error::new(Kind::Misuse, what))
    }
}
