//! A board on a non-coherent pool: a thread with a view of the pool of its own stands for it.
//!
//! Each node has one *mailbox* at each node's board: a request {number and kind line, bytes} that
//! the client alone writes, and a reply {number and length line, bytes} that the agent alone
//! writes. A request is stored, written back and fenced before its number is; the number is what
//! the agent looks for. A reply goes the same way back, and frees the mailbox.
//!
//! Invariants
//! - Every line has one writer; nothing is read-modified-written. Checked by
//!   `every_line_of_a_pool_has_one_writer`.
//! - A request of one node at a time is under way at one board, so requests arrive in program
//!   order. Checked by `Request::place`.
//! - What the agent writes into windows is stored front to back with its last word apart: payload,
//!   fence, last word, fence. Checked by `a_board_on_a_hostile_pool_hears_and_answers_every_byte`,
//!   `a_board_is_heard_though_no_line_is_ever_evicted`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::board::{BOARD_BYTES_MAX, Board, DmaWrite};
use super::pool_layout::PoolLayout;
use crate::{Error, Kind, Result};
use littoral_device::memory::{Domain, LINE_BYTES};

const REPLY: usize = LINE_BYTES + BOARD_BYTES_MAX;
// The length of a body has the lower bits of a header word, its kind the bit above them.
const LENGTH_BITS: u32 = 15;
const _: () = assert!(BOARD_BYTES_MAX < 1 << LENGTH_BITS);
const ORDER: Ordering = Ordering::Relaxed;
const IDLE_SPINS: u32 = 2000;
const IDLE_YIELDS: u32 = 4000;
const NAP: Duration = Duration::from_micros(20);

/// Whether the client wants an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    Write,
    Read,
}

/// Stores words from `at` on, sees them to the medium, then does the same for one last word.
fn publish<D: Domain>(domain: &D, at: usize, body: &[u8], last_at: usize, last: u64) -> Result<()> {
    let words = at..at + body.len().next_multiple_of(8);
    debug_assert!(!words.contains(&last_at), "the last word at {last_at} lies in {words:?}");
    for (i, chunk) in body.chunks(8).enumerate() {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        domain.store(at + 8 * i, u64::from_le_bytes(bytes), ORDER);
    }
    if !body.is_empty() {
        if !mutant!("pool_board_body_not_written_back") {
            domain.write_back(at, body.len());
        }
        domain.fence()?;
    }
    domain.store(last_at, last, Ordering::Release);
    if !mutant!("pool_board_flag_not_written_back") {
        domain.write_back(last_at, 8);
    }
    domain.fence()
}

fn fresh_word<D: Domain>(domain: &D, at: usize) -> u64 {
    if !mutant!("pool_board_flag_not_invalidated") {
        domain.invalidate(at, 8);
    }
    domain.word(at, Ordering::Acquire)
}

fn fresh_bytes<D: Domain>(domain: &D, at: usize, len: usize) -> Vec<u8> {
    if !mutant!("pool_board_body_not_invalidated") {
        domain.invalidate(at, len.max(1));
    }
    let words = (0..len.div_ceil(8)).flat_map(|i| domain.word(at + 8 * i, ORDER).to_le_bytes());
    words.take(len).collect()
}

/// A header word: number, kind, length.
fn header(number: u64, kind: Asking, len: usize) -> u64 {
    let word = number << 16 | u64::from(kind == Asking::Read) << LENGTH_BITS | len as u64;
    debug_assert_eq!(split(word), (number, kind, len), "a header says what it was made of");
    word
}

fn split(header: u64) -> (u64, Asking, usize) {
    let kind = if header >> LENGTH_BITS & 1 == 1 { Asking::Read } else { Asking::Write };
    (header >> 16, kind, (header & ((1 << LENGTH_BITS) - 1)) as usize)
}

/// The client's side of one mailbox.
pub(super) struct Request<'d, D> {
    pub(super) domain: &'d D,
    pub(super) at: usize,
}

impl<D: Domain> Request<'_, D> {
    /// Whether the last request has been replied to.
    pub(super) fn is_free(&self) -> bool {
        let (asked, ..) = split(self.domain.word(self.at, ORDER));
        let (replied, ..) = split(fresh_word(self.domain, self.at + REPLY));
        asked == replied
    }

    /// Places a request in a free mailbox.
    pub(super) fn place(&self, kind: Asking, body: &[u8]) -> Result<()> {
        if body.len() > BOARD_BYTES_MAX {
            let what = format!("{} bytes for a board; at most {BOARD_BYTES_MAX}", body.len());
            return Err(Error::new(Kind::IllegalRequest, what));
        }
        let (number, ..) = split(self.domain.word(self.at, ORDER));
        let (replied, ..) = split(self.domain.word(self.at + REPLY, ORDER));
        debug_assert_eq!(number, replied, "one request at a time is under way at a board");
        let word = header(number + 1, kind, body.len());
        publish(self.domain, self.at + LINE_BYTES, body, self.at, word)
    }

    /// The reply to the last request; call when the mailbox is free.
    pub(super) fn reply(&self) -> Vec<u8> {
        let (_, _, len) = split(self.domain.word(self.at + REPLY, Ordering::Acquire));
        fresh_bytes(self.domain, self.at + REPLY + LINE_BYTES, len.min(BOARD_BYTES_MAX))
    }
}

/// The agent that stands for the board of one node of a pool.
pub struct PoolAgent<D> {
    domain: D,
    layout: PoolLayout,
    node: NodeId,
    board: Box<dyn Board>,
}

impl<D: Domain> PoolAgent<D> {
    /// The agent of node `node`'s board; `domain` is a view of the pool for this agent alone.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` when the pool is too small.
    pub fn new(domain: D, layout: PoolLayout, node: NodeId, board: Box<dyn Board>) -> Result<Self> {
        if domain.len() < layout.pool_bytes() {
            let what = format!("a board on a pool of {} bytes", domain.len());
            return Err(Error::new(Kind::IllegalRequest, what).at_rank(node));
        }
        Ok(PoolAgent { domain, layout, node, board })
    }

    /// Serves requests until `stop` is set: spins, then yields, then naps while there are none.
    ///
    /// # Errors
    /// As [`Domain::fence`].
    pub fn serve(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut idle = 0u32;
        while !stop.load(Ordering::Acquire) {
            idle = if self.turn()? { 0 } else { idle.saturating_add(1) };
            match idle {
                0..IDLE_SPINS => std::hint::spin_loop(),
                IDLE_SPINS..IDLE_YIELDS => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
        }
        Ok(())
    }

    /// Serves every request that is there; whether there was one.
    ///
    /// # Errors
    /// As [`Domain::fence`].
    pub fn turn(&mut self) -> Result<bool> {
        let mut moved = false;
        for from in 0..self.layout.nodes() {
            moved |= self.serve_one(NodeId(from))?;
        }
        Ok(moved)
    }

    fn serve_one(&mut self, from: NodeId) -> Result<bool> {
        let at = self.layout.mailbox(from, self.node);
        let (asked, kind, len) = split(fresh_word(&self.domain, at));
        let (replied, ..) = split(self.domain.word(at + REPLY, ORDER));
        if asked == replied {
            return Ok(false);
        }
        let body = fresh_bytes(&self.domain, at + LINE_BYTES, len.min(BOARD_BYTES_MAX));
        let mut dma = Vec::new();
        let mut answer = match kind {
            Asking::Read => self.board.read(from, &body, &mut dma),
            Asking::Write => {
                self.board.write(from, &body, &mut dma);
                Vec::new()
            }
        };
        answer.truncate(BOARD_BYTES_MAX);
        let word = header(asked, kind, answer.len());
        let reply = at + REPLY;
        publish(&self.domain, reply + LINE_BYTES, &answer, reply, word)?;
        // A rank that named a variable outside of its window gets no grant; the others do.
        for write in &dma {
            match self.deliver(write) {
                Err(e) if e.kind() == Kind::IllegalRequest => {}
                done => done?,
            }
        }
        Ok(true)
    }

    fn deliver(&self, write: &DmaWrite) -> Result<()> {
        write.assert_whole();
        let at = self.layout.window_at(write.node, write.offset, write.data.len())?;
        let (body, last) = write.data.split_at(write.data.len() - 8);
        let last = u64::from_le_bytes(last.try_into().expect("invariant: split at eight bytes"));
        publish(&self.domain, at, body, at + body.len(), last)
    }
}
