//! A fabric that counts what one node asks of it, operation by operation.
//!
//! Invariants
//! - Operations on the node's own window are not counted: they do not leave the node. Writes and
//!   reads of a board always are, since the board sits on the interconnect.
//! - An operation is counted when it was carried out, not when it was refused.

use std::time::Duration;

use littoral_base::counters::bump;
use littoral_base::units::NodeId;

use super::{Fabric, Liveness, Rmw};
use crate::Result;

littoral_base::counters! {
    /// What one node asked of a fabric.
    pub struct FabricCounters => FabricCounts {
        /// Remote writes.
        puts_count,
        /// Remote reads.
        gets_count,
        /// Remote read-modify-writes.
        rmws_count,
        /// Messages posted to another node.
        posts_count,
        /// Writes to a board.
        board_writes_count,
        /// Reads of a board.
        board_reads_count,
        /// Bytes of all of these.
        operation_bytes,
    }
}

impl FabricCounts {
    /// Operations of every kind.
    pub fn operations(&self) -> u64 {
        self.puts_count
            + self.gets_count
            + self.rmws_count
            + self.posts_count
            + self.board_writes_count
            + self.board_reads_count
    }
}

/// A fabric and the counts of what was asked of it.
#[derive(Debug)]
pub struct Counted<F> {
    fabric: F,
    counters: FabricCounters,
}

impl<F: Fabric> Counted<F> {
    /// Counts what is asked of `fabric`.
    pub fn new(fabric: F) -> Self {
        Counted { fabric, counters: FabricCounters::default() }
    }

    /// The counts so far.
    pub fn counts(&self) -> FabricCounts {
        self.counters.snapshot()
    }

    /// The fabric that is counted.
    pub fn inner(&self) -> &F {
        &self.fabric
    }

    fn count<T>(
        &self,
        node: NodeId,
        counter: &std::cell::Cell<u64>,
        bytes: usize,
        done: Result<T>,
    ) -> Result<T> {
        if done.is_ok() && node != self.fabric.me() {
            bump(counter, 1);
            bump(&self.counters.operation_bytes, bytes as u64);
        }
        done
    }

    fn count_board<T>(
        &self,
        counter: &std::cell::Cell<u64>,
        bytes: usize,
        done: Result<T>,
    ) -> Result<T> {
        if done.is_ok() {
            bump(counter, 1);
            bump(&self.counters.operation_bytes, bytes as u64);
        }
        done
    }
}

impl<F: Fabric> Fabric for Counted<F> {
    fn me(&self) -> NodeId {
        self.fabric.me()
    }
    fn nodes(&self) -> u16 {
        self.fabric.nodes()
    }
    fn window_bytes(&self) -> usize {
        self.fabric.window_bytes()
    }
    fn put(&self, node: NodeId, offset: usize, data: &[u8]) -> Result<()> {
        let done = self.fabric.put(node, offset, data);
        self.count(node, &self.counters.puts_count, data.len(), done)
    }
    fn get(&self, node: NodeId, offset: usize, into: &mut [u8]) -> Result<()> {
        let done = self.fabric.get(node, offset, into);
        self.count(node, &self.counters.gets_count, into.len(), done)
    }
    fn fetch_add(&self, node: NodeId, offset: usize, add: u64) -> Result<u64> {
        let done = self.fabric.fetch_add(node, offset, add);
        self.count(node, &self.counters.rmws_count, 8, done)
    }
    fn flush(&self, node: NodeId) -> Result<()> {
        self.fabric.flush(node)
    }
    fn post(&self, node: NodeId, message: &[u8]) -> Result<()> {
        let done = self.fabric.post(node, message);
        self.count(node, &self.counters.posts_count, message.len(), done)
    }
    fn post_bytes_max(&self) -> usize {
        self.fabric.post_bytes_max()
    }
    fn try_post(&self, node: NodeId, message: &[u8]) -> Result<bool> {
        let sent = self.fabric.try_post(node, message)?;
        if sent {
            return self.count(node, &self.counters.posts_count, message.len(), Ok(true));
        }
        Ok(false)
    }
    fn receive(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.fabric.receive(timeout)
    }
    fn receive_asleep(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.fabric.receive_asleep(timeout)
    }
    fn notify(&self, node: NodeId) -> Result<()> {
        self.fabric.notify(node)
    }
    fn liveness(&self, node: NodeId) -> Liveness {
        self.fabric.liveness(node)
    }
    fn has_delivered(&self, node: NodeId) -> bool {
        self.fabric.has_delivered(node)
    }
    fn rmw(&self, node: NodeId, offset: usize, op: Rmw) -> Result<u64> {
        let done = self.fabric.rmw(node, offset, op);
        self.count(node, &self.counters.rmws_count, 8, done)
    }
    fn signal(&self, node: NodeId, offset: usize, word: u64) -> Result<()> {
        let done = self.fabric.signal(node, offset, word);
        self.count(node, &self.counters.puts_count, 8, done)
    }
    fn wait_word(&self, offset: usize, unlike: u64, timeout: Duration) -> Result<Option<u64>> {
        self.fabric.wait_word(offset, unlike, timeout)
    }
    fn pause(&self, length: Duration) {
        self.fabric.pause(length);
    }
    fn board_write(&self, node: NodeId, data: &[u8]) -> Result<()> {
        let done = self.fabric.board_write(node, data);
        self.count_board(&self.counters.board_writes_count, data.len(), done)
    }
    fn board_read(&self, node: NodeId, question: &[u8]) -> Result<Vec<u8>> {
        let done = self.fabric.board_read(node, question);
        self.count_board(&self.counters.board_reads_count, question.len(), done)
    }
    /// Counted when it is asked; the answer is the same operation's.
    fn board_ask(&self, node: NodeId, question: &[u8]) -> Result<Option<u64>> {
        let asked = self.fabric.board_ask(node, question)?;
        if asked.is_some() {
            return self.count_board(&self.counters.board_reads_count, question.len(), Ok(asked));
        }
        Ok(None)
    }
    fn board_answer(&self, node: NodeId, asked: u64) -> Result<Vec<u8>> {
        self.fabric.board_answer(node, asked)
    }
}
