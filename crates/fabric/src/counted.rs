//! A fabric that counts what one node asks of it, operation by operation.
//!
//! Invariants
//! - Operations on the node's own window are not counted: they do not leave the node. Writes and
//!   reads of a board always are, since the board sits on the interconnect. Checked by
//!   `what_stays_on_the_node_and_what_is_refused_is_not_counted`.
//! - An operation is counted when it was carried out, not when it was refused. Checked by
//!   `what_stays_on_the_node_and_what_is_refused_is_not_counted`.

use littoral_base::counters::bump;
use littoral_base::units::NodeId;

use super::{Fabric, Rmw, forward_fabric};
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

macro_rules! through_fabric {
    ($self:ident, $($call:tt)+) => {
        $self.fabric.$($call)+
    };
}

impl<F: Fabric> Fabric for Counted<F> {
    forward_fabric!(through_fabric:
        me nodes window_bytes is_coherent flush post_bytes_max try_post_bytes_max receive receive_asleep attend
        call receive_attending notify
        show_life send_rest liveness has_delivered wait_word pause board_answer);

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
    fn post(&self, node: NodeId, message: &[u8]) -> Result<()> {
        let done = self.fabric.post(node, message);
        self.count(node, &self.counters.posts_count, message.len(), done)
    }
    fn try_post(&self, node: NodeId, message: &[u8]) -> Result<bool> {
        let sent = self.fabric.try_post(node, message)?;
        if sent {
            return self.count(node, &self.counters.posts_count, message.len(), Ok(true));
        }
        Ok(false)
    }
    fn rmw(&self, node: NodeId, offset: usize, op: Rmw) -> Result<u64> {
        let done = self.fabric.rmw(node, offset, op);
        self.count(node, &self.counters.rmws_count, 8, done)
    }
    fn signal(&self, node: NodeId, offset: usize, word: u64) -> Result<()> {
        let done = self.fabric.signal(node, offset, word);
        self.count(node, &self.counters.puts_count, 8, done)
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
}
