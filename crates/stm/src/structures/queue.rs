//! A queue, first in, first out, whose ends do not disturb each other while it is not nearly empty.
//!
//! A dummy node stands before the first entry: pushers write the tail link and the last node,
//! poppers the head link and read the dummy.

use super::audit::{Audit, Checked, Damage};
use super::changing;
use crate::error::Abort;
use crate::record::Ref;
use crate::tx::Access;

crate::record! {
    /// A queue's root record.
    pub struct QueueHead = "littoral.queue.head/1" { front: Ref<End>, back: Ref<End> }
}
crate::record! {
    /// The link to the dummy node (front) or to the last node (back).
    pub(super) struct End = "littoral.queue.end/1" { node: Ref<Node> }
}
crate::record! {
    /// An entry.
    pub(super) struct Node = "littoral.queue.node/1" { value: u64, next: Ref<Node> }
}

/// A durable queue of words.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    at: Ref<QueueHead>,
    ends: QueueHead,
}

impl Queue {
    /// Makes an empty queue.
    ///
    /// # Errors
    /// `Kind::Full`, a conflict.
    pub fn create<A: Access>(tx: &mut A) -> Result<Queue, Abort> {
        let node = tx.alloc(&Node { value: 0, next: Ref::NULL })?;
        let ends = QueueHead { front: tx.alloc(&End { node })?, back: tx.alloc(&End { node })? };
        Ok(Queue { at: tx.alloc(&ends)?, ends })
    }

    /// Opens the queue at `at`.
    ///
    /// # Errors
    /// `Kind::BadReference` when there is none, a conflict.
    pub fn open<A: Access>(tx: &mut A, at: Ref<QueueHead>) -> Result<Queue, Abort> {
        Ok(Queue { at, ends: tx.read(at)? })
    }

    /// The root record.
    pub fn at(&self) -> Ref<QueueHead> {
        self.at
    }

    /// Appends `value`.
    ///
    /// # Errors
    /// `Kind::Full`, a conflict.
    pub fn push<A: Access>(&self, tx: &mut A, value: u64) -> Result<(), Abort> {
        changing(tx, |tx| {
            let last = tx.read(self.ends.back)?.node;
            let node = tx.alloc(&Node { value, next: Ref::NULL })?;
            let before = tx.read(last)?;
            tx.write(last, &Node { next: node, ..before })?;
            tx.write(self.ends.back, &End { node })
        })
    }

    /// Takes the oldest value, `None` when there is none.
    ///
    /// # Errors
    /// A conflict.
    pub fn pop<A: Access>(&self, tx: &mut A) -> Result<Option<u64>, Abort> {
        changing(tx, |tx| {
            let dummy = tx.read(self.ends.front)?.node;
            let first = tx.read(dummy)?.next;
            if first.is_null() {
                return Ok(None);
            }
            let value = tx.read(first)?.value;
            tx.write(self.ends.front, &End { node: first })?;
            tx.free(dummy)?;
            Ok(Some(value))
        })
    }

    /// Ends the queue with all its entries; its names go with it. The transaction holds as many
    /// objects as the queue has.
    ///
    /// # Errors
    /// A conflict.
    pub fn destroy<A: Access>(self, tx: &mut A) -> Result<(), Abort> {
        changing(tx, |tx| {
            let mut at = tx.read(self.ends.front)?.node;
            while !at.is_null() {
                let next = tx.read(at)?.next;
                tx.free(at)?;
                at = next;
            }
            tx.free(self.ends.front)?;
            tx.free(self.ends.back)?;
            tx.free(self.at)
        })
    }
}

impl Checked for QueueHead {
    fn check(at: u64, ob: &mut Audit<'_>) -> Result<(), Damage> {
        let head: QueueHead = ob.enter(at)?;
        let [front, back]: [End; 2] =
            [ob.enter(head.front.offset())?, ob.enter(head.back.offset())?];
        let (mut at, mut last) = (front.node, Ref::NULL);
        while !at.is_null() {
            let node: Node = ob.enter(at.offset())?;
            (at, last) = (node.next, at);
        }
        if last != back.node {
            return Err(ob.damage(head.back.offset(), "it is not the last node".to_owned()));
        }
        Ok(())
    }
}
