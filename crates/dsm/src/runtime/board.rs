//! Who holds what, for the ranks of one machine: a line a rank in memory that all of them map.
//!
//! A lock's manager knows its holder, but a manager may be the rank that died. On one machine each
//! rank therefore writes its process and the locks it holds on its own line, with plain stores; the
//! survivors read it. It takes no part in the protocol.
//!
//! A line is 16 words: {process, how many locks, lock 0, ...}; at most [`SHOWN_MAX`] are shown.

use std::fs::File;
use std::io;

use littoral_base::units::NodeId;

use crate::core::message::LockId;
use crate::memory::Memory;

const LINE_BYTES: usize = 128;
/// Nested locks that a line has room for.
const SHOWN_MAX: usize = 14;

/// The board of a job; see the module's page.
pub(crate) struct Board {
    memory: Memory,
    me: NodeId,
}

/// Bytes of the board of a job with `ranks` ranks.
pub(crate) fn board_bytes(ranks: u16) -> usize {
    usize::from(ranks) * LINE_BYTES
}

impl Board {
    /// Takes this rank's line of the board in `file`.
    ///
    /// # Errors
    /// When the file is too short or cannot be mapped.
    pub(crate) fn open(file: &File, ranks: u16, me: NodeId) -> io::Result<Board> {
        let board = Board { memory: Memory::direct(file, board_bytes(ranks))?, me };
        board.put(0, u64::from(std::process::id()));
        Ok(board)
    }

    fn put(&self, word: usize, value: u64) {
        self.memory.store(self.me.index() * LINE_BYTES + 8 * word, &value.to_ne_bytes());
    }

    fn get(&self, rank: NodeId, word: usize) -> u64 {
        let mut bytes = [0; 8];
        self.memory.load(rank.index() * LINE_BYTES + 8 * word, &mut bytes);
        u64::from_ne_bytes(bytes)
    }

    /// Shows the locks this rank holds.
    pub(crate) fn show(&self, held: impl Iterator<Item = LockId>) {
        let mut count = 0;
        for lock in held.take(SHOWN_MAX) {
            self.put(2 + count, u64::from(lock.0));
            count += 1;
        }
        self.put(1, count as u64);
    }

    /// The locks that `rank` has shown last.
    pub(crate) fn held(&self, rank: NodeId) -> Vec<LockId> {
        let count = usize::try_from(self.get(rank, 1)).unwrap_or(0).min(SHOWN_MAX);
        let lock = |i| LockId(u32::try_from(self.get(rank, 2 + i)).unwrap_or(u32::MAX));
        (0..count).map(lock).collect()
    }
}
