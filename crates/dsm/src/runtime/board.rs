//! Who holds what and why the job ended, for the ranks of one machine: memory that all of them map.
//!
//! A lock's manager knows its holder, but a manager may be the rank that died. On one machine each
//! rank therefore writes its process and the locks it holds on its own line, with plain stores; the
//! survivors read it. It takes no part in the protocol.
//!
//! A rank that ends because another one did is as dead to a third as the first, and what it said
//! before may have found no room. So the rank that fails first writes the *verdict* below the
//! lines, and all later ones go by it; the launcher, too.
//!
//! A line is 16 words: {process, how many locks, lock 0, ...}; at most [`SHOWN_MAX`] are shown. The
//! top bit of the first word says that the rank has left the job in good order. The verdict is
//! {state word, length word, suspects u16 each after their count u16, text}.
//!
//! Invariants
//! - A verdict is written once, by the rank that took its state from [`UNSAID`]; it is read only
//!   after that rank has said that it is whole. Checked by
//!   `a_verdict_is_whole_or_none_and_never_too_long`,
//!   `the_first_verdict_stands_and_the_launcher_reads_it`.
//! - A rank that ends because of a verdict ends after it was written: who finds such a rank dead
//!   finds the verdict. Checked by `a_rank_that_died_of_a_death_is_never_named`.
//! - A rank that has left is shown to have, and one that has only joined is not. Checked by
//!   `the_launcher_reads_which_ranks_have_left`.
//! - A rank killed while it writes leaves no verdict; then each rank goes by what it sees. Checked
//!   by `a_verdict_is_whole_or_none_and_never_too_long`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use littoral_base::codec::{Reader, Writer};
use littoral_base::mutant;
use littoral_base::units::NodeId;

use crate::core::message::LockId;
use crate::memory::Memory;

const LINE_BYTES: usize = 128;
/// The bit of a line's first word of a rank that has left.
const LEFT: u64 = 1 << 63;
/// Nested locks that a line has room for.
const SHOWN_MAX: usize = 14;
const VERDICT_BYTES: usize = 4096;
const HEAD_BYTES: usize = 16;
/// Suspects that a verdict has room for, beside a text.
const SUSPECTS_MAX: usize = 512;

/// States of the verdict.
const UNSAID: u64 = 0;
const BEGUN: u64 = 1;
const SAID: u64 = 2;

/// Why a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Ranks that died or did wrong; none when no rank is to blame.
    pub(crate) suspects: Vec<NodeId>,
    /// The sentence that every rank ends with.
    pub(crate) text: String,
}

impl Verdict {
    fn encode(&self) -> Vec<u8> {
        let named = &self.suspects[..self.suspects.len().min(SUSPECTS_MAX)];
        let mut w = Writer::new();
        w.u16(u16::try_from(named.len()).expect("invariant: at most 512"));
        named.iter().for_each(|rank| _ = w.u16(rank.0));
        w.raw(self.text.as_bytes());
        let mut bytes = w.finish();
        bytes.truncate(VERDICT_BYTES - HEAD_BYTES);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Verdict> {
        let mut r = Reader::new(bytes);
        let count = r.u16()?;
        let suspects = (0..count).map(|_| r.u16().map(NodeId)).collect::<Option<_>>()?;
        let text = String::from_utf8_lossy(r.bytes(r.remaining())?).into_owned();
        Some(Verdict { suspects, text })
    }
}

/// The board of a job; see the module's page.
pub(crate) struct Board {
    memory: Memory,
    me: NodeId,
    verdict_at: usize,
}

/// Bytes of the board of a job with `ranks` ranks.
pub(crate) fn board_bytes(ranks: u16) -> usize {
    verdict_at(ranks) + VERDICT_BYTES
}

fn verdict_at(ranks: u16) -> usize {
    usize::from(ranks) * LINE_BYTES
}

/// Whether `rank` has taken its line of the board in `file`; the launcher's look.
pub(crate) fn has_joined(file: &File, rank: u16) -> bool {
    first_word(file, rank) != 0
}

/// Whether `rank` has left the job in good order, by the board in `file`; the launcher's look.
pub(crate) fn has_left(file: &File, rank: u16) -> bool {
    first_word(file, rank) & LEFT != 0
}

fn first_word(file: &File, rank: u16) -> u64 {
    let mut word = [0; 8];
    let read = file.read_exact_at(&mut word, u64::from(rank) * LINE_BYTES as u64);
    read.map_or(0, |()| u64::from_ne_bytes(word))
}

/// The suspects that the board in `file` names; the launcher's look.
pub(crate) fn suspects(file: &File, ranks: u16) -> Vec<NodeId> {
    let mut bytes = vec![0; VERDICT_BYTES];
    let read = file.read_exact_at(&mut bytes, verdict_at(ranks) as u64);
    let word = |at: usize| bytes[at..].first_chunk().map_or(0, |w| u64::from_ne_bytes(*w));
    if read.is_err() || word(0) != SAID {
        return Vec::new();
    }
    let length = usize::try_from(word(8)).unwrap_or(0).min(VERDICT_BYTES - HEAD_BYTES);
    Verdict::decode(&bytes[HEAD_BYTES..HEAD_BYTES + length]).map_or(Vec::new(), |v| v.suspects)
}

impl Board {
    /// Takes this rank's line of the board in `file`.
    ///
    /// # Errors
    /// When the file is too short or cannot be mapped.
    pub(crate) fn open(file: &File, ranks: u16, me: NodeId) -> io::Result<Board> {
        let memory = Memory::direct(file, board_bytes(ranks), None)?;
        let board = Board { memory, me, verdict_at: verdict_at(ranks) };
        board.put(0, u64::from(std::process::id()));
        Ok(board)
    }

    fn put(&self, word: usize, value: u64) {
        let word = self.memory.word(self.me.index() * LINE_BYTES + 8 * word);
        word.store(value, Ordering::Relaxed);
    }

    fn get(&self, rank: NodeId, word: usize) -> u64 {
        self.memory.word(rank.index() * LINE_BYTES + 8 * word).load(Ordering::Relaxed)
    }

    /// Shows that this rank has left the job in good order.
    pub(crate) fn leave(&self) {
        self.put(0, u64::from(std::process::id()) | LEFT);
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

    fn state(&self) -> &AtomicU64 {
        self.memory.word(self.verdict_at)
    }

    /// Writes the verdict unless a rank has; the one that stands. `None` when another rank has
    /// begun to write and not ended.
    pub(crate) fn pronounce(&self, verdict: &Verdict) -> Option<Verdict> {
        if mutant!("dsm_verdict_unread") {
            return None;
        }
        let (order, failed) = (Ordering::AcqRel, Ordering::Acquire);
        if self.state().compare_exchange(UNSAID, BEGUN, order, failed).is_ok() {
            let bytes = verdict.encode();
            let length = (bytes.len() as u64).to_ne_bytes();
            self.memory.store(self.verdict_at + 8, &length);
            self.memory.store(self.verdict_at + HEAD_BYTES, &bytes);
            self.state().store(SAID, Ordering::Release);
        }
        self.verdict()
    }

    pub(crate) fn verdict(&self) -> Option<Verdict> {
        if self.state().load(Ordering::Acquire) != SAID {
            return None;
        }
        let mut length = [0; 8];
        self.memory.load(self.verdict_at + 8, &mut length);
        let length = usize::try_from(u64::from_ne_bytes(length)).unwrap_or(0);
        let mut bytes = vec![0; length.min(VERDICT_BYTES - HEAD_BYTES)];
        self.memory.load(self.verdict_at + HEAD_BYTES, &mut bytes);
        Verdict::decode(&bytes)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Memory for the board of `ranks` ranks.
    pub(in crate::runtime) fn blank(ranks: u16) -> File {
        let made = rustix::fs::memfd_create("board", rustix::fs::MemfdFlags::CLOEXEC);
        let file = File::from(made.unwrap());
        file.set_len(board_bytes(ranks) as u64).unwrap();
        file
    }

    fn verdict(rank: u16, text: &str) -> Verdict {
        Verdict { suspects: vec![NodeId(rank)], text: text.to_owned() }
    }

    #[test]
    fn the_first_verdict_stands_and_the_launcher_reads_it() {
        let file = blank(3);
        let boards = [0, 2].map(|me| Board::open(&file, 3, NodeId(me)).unwrap());
        let joined: Vec<bool> = (0..3).map(|rank| has_joined(&file, rank)).collect();
        assert_eq!(joined, [true, false, true]);
        assert_eq!((boards[0].verdict(), suspects(&file, 3)), (None, vec![]));
        let first = verdict(1, "one");
        assert_eq!(boards[0].pronounce(&first), Some(first.clone()));
        assert_eq!(boards[1].pronounce(&verdict(0, "another")), Some(first));
        assert_eq!(suspects(&file, 3), [NodeId(1)]);
    }

    #[test]
    fn the_launcher_reads_which_ranks_have_left() {
        let file = blank(3);
        let boards = [0, 2].map(|me| Board::open(&file, 3, NodeId(me)).unwrap());
        boards[1].leave();
        let seen = |look: fn(&File, u16) -> bool| [0, 1, 2].map(|rank| look(&file, rank));
        assert_eq!(seen(has_left), [false, false, true]);
        assert_eq!(seen(has_joined), [true, false, true]);
    }

    #[test]
    fn a_verdict_is_whole_or_none_and_never_too_long() {
        let file = blank(2);
        let board = Board::open(&file, 2, NodeId(0)).unwrap();
        board.state().store(BEGUN, Ordering::Release);
        assert_eq!(board.pronounce(&verdict(1, "one")), None, "its writer was killed");
        assert_eq!(suspects(&file, 2), []);
        board.state().store(UNSAID, Ordering::Release);
        let many = Verdict { suspects: (0..900).map(NodeId).collect(), text: "x".repeat(9000) };
        let read = board.pronounce(&many).unwrap();
        assert_eq!(read.suspects, many.suspects[..SUSPECTS_MAX]);
        assert!(!read.text.is_empty() && many.text.starts_with(&read.text));
    }
}
