//! The shared memory of the paper's lightweight interface (paper 003), atomic by atomic.
//!
//! Three parts that host and device both touch, and nothing else: the submission ring, the data
//! lines of each slot, and one completion word a slot. `docs/design/completion.md` has the
//! protocol, `docs/design/emulator.md` the faults.
//!
//! Memory written by a device is read through atomics only: the compiler could hoist a plain load
//! out of the loop that polls.
//!
//! Invariants
//! - **Order of a submission.** The address and the shape are stored first, the live word
//!   `{generation, tag}` last with release; the device loads the live word with acquire. The paper
//!   does not say how the device knows a new entry: the generation does
//!   (`docs/design/emulator.md`). Checked by `what_is_believed_is_there`.
//! - **No overwriting.** The device fetches in order. If entry `k - depth` were unfetched when
//!   entry `k` is written, the `depth` requests `k - depth .. k` would all be outstanding; the host
//!   keeps at most `depth - 1`, so no head pointer is fed back. Checked by
//!   `options_that_break_the_protocol_are_refused_with_the_nearest`.
//! - **A line arrives whole.** The last word of a 64-byte line is stored last, with release; a
//!   reader that loads it with acquire sees the rest of the line. Nothing orders one line with
//!   another. Checked by `a_line_whose_last_word_is_seen_is_whole`.
//! - **The completion word comes after the data** (posted writes stay in order), with release.
//!   Checked by `what_is_believed_is_there`.
//!
//! The atomics come from `base::sync`, so a loom model runs this very file.

use littoral_base::codec;
use littoral_base::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a line: the unit in which data arrive.
pub const LINE_BYTES: usize = 64;
/// Words of a line.
pub const LINE_WORDS: usize = LINE_BYTES / 8;
/// Bits of a tag in a completion word.
pub const TAG_BITS: u32 = 24;
const TAG_MASK: u32 = (1 << TAG_BITS) - 1;

/// One read request as the ring carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// First byte to read.
    pub addr: u64,
    /// Bytes to read.
    pub len: u32,
    /// The slot whose buffer takes the data.
    pub slot: u32,
    /// Tells this request from earlier ones on the slot; [`TAG_BITS`] wide.
    pub tag: u32,
}

struct Entry {
    addr: AtomicU64,
    shape: AtomicU64,
    live: AtomicU64,
}

/// The submission ring; see the module's page for its rules.
pub struct SubmissionRing {
    entries: Box<[Entry]>,
}

impl SubmissionRing {
    /// A ring of `depth` entries.
    ///
    /// # Panics
    /// When `depth` is below two: one entry is always kept free.
    pub fn new(depth: u32) -> Self {
        assert!(depth >= 2, "a submission ring has at least two entries");
        let entry =
            || Entry { addr: AtomicU64::new(0), shape: AtomicU64::new(0), live: AtomicU64::new(0) };
        SubmissionRing { entries: (0..depth).map(|_| entry()).collect() }
    }

    /// Entries.
    pub fn depth(&self) -> u64 {
        self.entries.len() as u64
    }

    fn entry(&self, position: u64) -> (&Entry, u64) {
        let depth = self.depth();
        let generation = (position / depth + 1) & u64::from(u32::MAX);
        (&self.entries[(position % depth) as usize], generation << 32)
    }

    /// Host: writes the request of number `position`, counted from zero over the ring's life.
    pub fn put(&self, position: u64, request: Request) {
        let (entry, generation) = self.entry(position);
        entry.addr.store(request.addr, Ordering::Relaxed);
        let shape = u64::from(request.len) << 32 | u64::from(request.slot);
        entry.shape.store(shape, Ordering::Relaxed);
        entry.live.store(generation | u64::from(request.tag), Ordering::Release);
    }

    /// Device: the request of number `position`, `None` while it has not been written.
    pub fn take(&self, position: u64) -> Option<Request> {
        let (entry, generation) = self.entry(position);
        let live = entry.live.load(Ordering::Acquire);
        if live & !u64::from(u32::MAX) != generation {
            return None;
        }
        let shape = entry.shape.load(Ordering::Relaxed);
        Some(Request {
            addr: entry.addr.load(Ordering::Relaxed),
            len: (shape >> 32) as u32,
            slot: shape as u32,
            tag: live as u32,
        })
    }
}

/// The data lines of every slot.
pub struct Lines {
    words: Box<[AtomicU64]>,
    words_per_slot: usize,
}

impl Lines {
    /// Zeroed lines: `lines_per_slot` for each of `slots` slots.
    pub fn new(slots: u32, lines_per_slot: usize) -> Self {
        let words_per_slot = lines_per_slot * LINE_WORDS;
        let words = (0..slots as usize * words_per_slot).map(|_| AtomicU64::new(0)).collect();
        Lines { words, words_per_slot }
    }

    fn line(&self, slot: u32, line: usize) -> &[AtomicU64] {
        debug_assert!((line + 1) * LINE_WORDS <= self.words_per_slot, "a line of this slot");
        let at = slot as usize * self.words_per_slot + line * LINE_WORDS;
        &self.words[at..at + LINE_WORDS]
    }

    /// Device: delivers a line, its last word last.
    pub fn deliver(&self, slot: u32, line: usize, words: &[u64; LINE_WORDS]) {
        self.deliver_headless(slot, line, words);
        self.line(slot, line)[LINE_WORDS - 1].store(words[LINE_WORDS - 1], Ordering::Release);
    }

    /// Device, as a fault: delivers a line without its last word, so that it looks as if it had not
    /// arrived.
    pub fn deliver_headless(&self, slot: u32, line: usize, words: &[u64; LINE_WORDS]) {
        let cells = self.line(slot, line);
        for (cell, word) in cells.iter().zip(&words[..LINE_WORDS - 1]) {
            cell.store(*word, Ordering::Relaxed);
        }
    }

    /// Host: marks a line as not arrived.
    pub fn mark(&self, slot: u32, line: usize, sentinel: u64) {
        self.line(slot, line)[LINE_WORDS - 1].store(sentinel, Ordering::Relaxed);
    }

    /// Host: the last word of a line; with what it shows of the line being there.
    pub fn tail(&self, slot: u32, line: usize) -> u64 {
        self.line(slot, line)[LINE_WORDS - 1].load(Ordering::Acquire)
    }

    /// Host: copies the first `len` bytes of the slot into `out`, whose old contents go.
    pub fn copy_out(&self, slot: u32, len: usize, out: &mut Vec<u8>) {
        let at = slot as usize * self.words_per_slot;
        let words = &self.words[at..at + len.div_ceil(8)];
        out.resize(words.len() * 8, 0);
        for (bytes, word) in out.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        out.truncate(len);
    }
}

/// A completion word: `{crc32c:32, status:8, tag:24}`.
///
/// The CRC covers the request as the device understood it, the status and the data, so a word that
/// answers another request, or comes with other data, does not verify. The paper has no error
/// channel; the status byte is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionWord(pub u64);

impl CompletionWord {
    /// The word that answers `request` with `status` and `data`.
    pub fn new(request: &Request, status: u8, data: &[u8]) -> Self {
        let crc = u64::from(completion_crc(request, status, data));
        let tag = u64::from(request.tag & TAG_MASK);
        CompletionWord(crc << 32 | u64::from(status) << TAG_BITS | tag)
    }

    /// The tag it answers.
    pub fn tag(self) -> u32 {
        self.0 as u32 & TAG_MASK
    }

    /// The status it carries.
    pub fn status(self) -> u8 {
        (self.0 >> TAG_BITS) as u8
    }

    /// Whether it answers `request` with exactly `data`.
    pub fn verifies(self, request: &Request, data: &[u8]) -> bool {
        self == CompletionWord::new(request, self.status(), data)
    }
}

fn completion_crc(request: &Request, status: u8, data: &[u8]) -> u32 {
    let mut head = [0u8; 21];
    head[..8].copy_from_slice(&request.addr.to_le_bytes());
    head[8..12].copy_from_slice(&request.len.to_le_bytes());
    head[12..16].copy_from_slice(&request.slot.to_le_bytes());
    head[16..20].copy_from_slice(&request.tag.to_le_bytes());
    head[20] = status;
    codec::crc_append(codec::crc(&head), data)
}

/// One completion word a slot.
pub struct CompletionWords {
    words: Box<[AtomicU64]>,
}

impl CompletionWords {
    /// Words that answer no request: tag zero is never used.
    pub fn new(slots: u32) -> Self {
        CompletionWords { words: (0..slots).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Device: answers, after the data.
    pub fn answer(&self, slot: u32, word: CompletionWord) {
        self.words[slot as usize].store(word.0, Ordering::Release);
    }

    /// Host: the latest answer.
    pub fn latest(&self, slot: u32) -> CompletionWord {
        CompletionWord(self.words[slot as usize].load(Ordering::Acquire))
    }
}

/// The tag after `tag` on a slot: [`TAG_BITS`] wide and never zero.
pub fn next_tag(tag: u32) -> u32 {
    let next = (tag + 1) & TAG_MASK;
    next.max(1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn request(addr: u64, tag: u32) -> Request {
        Request { addr, len: 64, slot: 3, tag }
    }

    #[test]
    fn requests_come_out_in_order_and_only_once_written() {
        let ring = SubmissionRing::new(4);
        for position in 0..40 {
            assert_eq!(ring.take(position), None);
            let r = request(position * 64, position as u32);
            ring.put(position, r);
            assert_eq!(ring.take(position), Some(r));
            assert_eq!(ring.take(position + 1), None, "an old generation is no new request");
        }
    }

    #[test]
    fn a_completion_word_fits_one_request_and_one_payload() {
        let r = request(128, 7);
        let word = CompletionWord::new(&r, 2, b"data");
        assert_eq!((word.tag(), word.status()), (7, 2));
        assert!(word.verifies(&r, b"data"));
        assert!(!word.verifies(&r, b"dbta"));
        assert!(!word.verifies(&request(192, 7), b"data"));
        assert!(!word.verifies(&Request { slot: 4, ..r }, b"data"));
        for bit in 0..64 {
            assert!(!CompletionWord(word.0 ^ 1 << bit).verifies(&r, b"data"), "bit {bit}");
        }
    }

    #[test]
    fn lines_keep_to_their_slot() {
        let lines = Lines::new(2, 2);
        lines.deliver(1, 0, &[9; 8]);
        lines.mark(1, 1, u64::MAX);
        let mut out = vec![1; 500];
        lines.copy_out(0, 128, &mut out);
        assert_eq!(out, vec![0; 128]);
        lines.copy_out(1, 128, &mut out);
        assert_eq!((out[0], out[64], out[127]), (9, 0, 255));
        lines.deliver_headless(1, 1, &[4; 8]);
        assert_eq!(lines.tail(1, 1), u64::MAX);
    }

    #[test]
    fn tags_wrap_past_zero() {
        assert_eq!(next_tag(0), 1);
        assert_eq!(next_tag(TAG_MASK), 1);
    }
}
