//! A device in the fabric, as the lock manager in the IO bridge of paper 002: it is written to and
//! read from like memory, and writes into nodes' windows by itself.
//!
//! A fabric without such hardware runs an agent in its place: the TCP fabric's event loop, a thread
//! at a pool ([`super::mailbox`]), an event of the simulator. A device never waits; what it has to
//! tell it writes.
//!
//! Rules
//! - Writes and reads of one node reach the device in program order. A write is posted; a read is a
//!   split transaction and returns when the device has answered.
//! - A [`DmaWrite`] takes effect front to back: a reader that sees its last word sees all of it.
//!   Its offset and length are multiples of eight (`DmaWrite::assert_whole`), and its lines are
//!   written by the device alone.

use littoral_base::units::NodeId;

/// The longest write to a device, question to it, and answer of it, in bytes.
pub const BOARD_BYTES_MAX: usize = 1024;

/// What a device writes into a node's window: one remote write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmaWrite {
    /// Whose window.
    pub node: NodeId,
    /// Where in it.
    pub offset: usize,
    /// What; the last word tells that all of it is there.
    pub data: Vec<u8>,
}

impl DmaWrite {
    /// The rule of devices about what they write: whole words, one of them at least.
    pub(crate) fn assert_whole(&self) {
        let (offset, len) = (self.offset, self.data.len());
        let is_whole = offset.is_multiple_of(8) && len.is_multiple_of(8) && len > 0;
        debug_assert!(is_whole, "a device writes {len} bytes at {offset} of {}", self.node);
    }
}

/// A device; see the module's page.
pub trait Board: Send {
    /// Takes a write of `from`; what the device writes in turn goes to `dma`.
    fn write(&mut self, from: NodeId, data: &[u8], dma: &mut Vec<DmaWrite>);

    /// Answers a read of `from`, at most [`BOARD_BYTES_MAX`] bytes; reading may change the device
    /// (a queue is popped by reading it).
    fn read(&mut self, from: NodeId, question: &[u8], dma: &mut Vec<DmaWrite>) -> Vec<u8>;
}
