//! Where everything lies in a pool: beats, rings, mailboxes, windows. The picture is
//! [`super::pool`]'s.
//!
//! - Every part begins on a cache line, and parts do not overlap: each begins where the one before
//!   ends.

use littoral_base::units::NodeId;
use littoral_device::memory::LINE_BYTES;

use super::board::BOARD_BYTES_MAX;
use crate::{Error, Kind, Result};

/// Bytes of frames that one node can send another ahead of its reading.
pub const RING_BYTES: usize = 1 << 16;

/// Bytes of a mailbox: two header lines and room for a request and a reply.
pub(super) const MAILBOX_BYTES: usize = 2 * (LINE_BYTES + BOARD_BYTES_MAX);

const _: () = assert!(RING_BYTES.is_multiple_of(LINE_BYTES), "rings begin on cache lines");
const _: () = assert!(MAILBOX_BYTES.is_multiple_of(LINE_BYTES), "mailboxes begin on cache lines");

/// Where everything lies in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLayout {
    pub(super) nodes: usize,
    pub(super) window_bytes: usize,
}

impl PoolLayout {
    /// The layout of a job with `nodes` nodes and windows of at least `window_bytes`.
    pub fn new(nodes: u16, window_bytes: usize) -> Self {
        let window_bytes = window_bytes.next_multiple_of(LINE_BYTES);
        PoolLayout { nodes: usize::from(nodes), window_bytes }
    }

    /// Bytes a pool needs.
    pub fn pool_bytes(&self) -> usize {
        self.window(NodeId(0)) + self.nodes * self.window_bytes
    }

    pub(super) fn beat(&self, node: usize) -> usize {
        node * LINE_BYTES
    }

    pub(super) fn ring(&self, from: usize, to: usize) -> usize {
        let ring = from * self.nodes + to;
        self.nodes * LINE_BYTES + ring * (2 * LINE_BYTES + RING_BYTES)
    }

    /// How many nodes the job has.
    pub(super) fn nodes(&self) -> u16 {
        u16::try_from(self.nodes).expect("invariant: a layout is made of a u16")
    }

    /// Where node `from` asks the board of node `board`.
    pub(super) fn mailbox(&self, from: NodeId, board: NodeId) -> usize {
        let mailbox = from.index() * self.nodes + board.index();
        self.ring(self.nodes, 0) + mailbox * MAILBOX_BYTES
    }

    pub(super) fn window(&self, node: NodeId) -> usize {
        let windows = self.ring(self.nodes, 0) + self.nodes * self.nodes * MAILBOX_BYTES;
        windows + node.index() * self.window_bytes
    }

    /// Where a range of a node's window lies in the pool.
    pub(super) fn window_at(&self, node: NodeId, offset: usize, len: usize) -> Result<usize> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.window_bytes);
        if inside && node.index() < self.nodes {
            let at = self.window(node) + offset;
            debug_assert!(at + len <= self.pool_bytes(), "bytes {at}..+{len} of the pool");
            return Ok(at);
        }
        let what = format!(
            "bytes {offset}..+{len} of node {node}'s window of {} bytes",
            self.window_bytes
        );
        Err(Error::new(Kind::IllegalRequest, what).at_peer(node).at_offset(offset as u64))
    }
}
