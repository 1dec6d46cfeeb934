//! A sorted singly linked list: the paper's worst case for transactions, each lookup reads half of
//! it.
//!
//! Keys ascend strictly; the root record is the link to the first node.

use super::audit::{Audit, Checked, Damage};
use super::{Map, changing};
use crate::error::{Abort, Error, Kind};
use crate::record::{Look, Ref, Words};
use crate::tx::Access;

crate::record! {
    /// A list's root record.
    pub struct ListHead = "littoral.list.head/1" { first: Ref<Node> }
}
crate::record! {
    /// An entry.
    pub(super) struct Node = "littoral.list.node/1" { key: u64, value: u64, next: Ref<Node> }
}

/// A node's key and the link to the next: what it takes to pass it by.
struct Step;

impl Look for Step {
    type Out = (u64, Ref<Node>);
    #[inline(always)]
    fn look(&mut self, words: Words<'_>) -> Self::Out {
        (words.get(0), Ref::from_offset(words.get(2)))
    }
}

/// A durable sorted list.
#[derive(Clone, Copy, Debug)]
pub struct SortedList {
    at: Ref<ListHead>,
}

/// Where a key is or would be: the node before it, and the first node not below it.
struct Spot {
    before: Ref<Node>,
    at: Ref<Node>,
    node: Option<Node>,
}

#[cold]
fn out_of_order<T>(at: Ref<T>, key: u64) -> Abort {
    let text = format!("key {key} at {at:?} is out of order: the list is damaged");
    Error::new(Kind::Corrupt, text).at_offset(at.offset()).into()
}

impl SortedList {
    /// Makes an empty list.
    ///
    /// # Errors
    /// `Kind::Full`, a conflict.
    pub fn create<A: Access>(tx: &mut A) -> Result<SortedList, Abort> {
        Ok(SortedList { at: tx.alloc(&ListHead { first: Ref::NULL })? })
    }

    /// The list at `at`.
    pub fn open(at: Ref<ListHead>) -> SortedList {
        SortedList { at }
    }

    /// The root record.
    pub fn at(&self) -> Ref<ListHead> {
        self.at
    }

    /// Every entry in key order.
    ///
    /// # Errors
    /// A conflict; `Kind::Corrupt` where keys do not ascend, as in a list that leads back into
    /// itself.
    pub fn entries<A: Access>(&self, tx: &mut A) -> Result<Vec<(u64, u64)>, Abort> {
        let (mut all, mut at) = (Vec::<(u64, u64)>::new(), tx.read(self.at)?.first);
        while !at.is_null() {
            let node = tx.read(at)?;
            if all.last().is_some_and(|before| node.key <= before.0) {
                return Err(out_of_order(at, node.key));
            }
            all.push((node.key, node.value));
            at = node.next;
        }
        Ok(all)
    }

    /// Ends the list with all its entries; its names go with it. The transaction holds as many
    /// objects as the list has.
    ///
    /// # Errors
    /// A conflict.
    pub fn destroy<A: Access>(self, tx: &mut A) -> Result<(), Abort> {
        changing(tx, |tx| {
            let mut at = tx.read(self.at)?.first;
            while !at.is_null() {
                let next = tx.read(at)?.next;
                tx.free(at)?;
                at = next;
            }
            tx.free(self.at)
        })
    }

    #[inline(always)]
    fn find<A: Access>(&self, tx: &mut A, key: u64) -> Result<Spot, Abort> {
        let (mut before, mut at) = (Ref::NULL, tx.read(self.at)?.first);
        // The least key that a sound list has next.
        let mut least = 0;
        while !at.is_null() {
            let (found, next) = tx.look(at, Step)?;
            if found >= key {
                return Ok(Spot { before, at, node: Some(tx.read(at)?) });
            }
            if found < least {
                return Err(out_of_order(at, found));
            }
            (before, at, least) = (at, next, found + 1);
        }
        Ok(Spot { before, at, node: None })
    }

    fn link<A: Access>(&self, tx: &mut A, spot: &Spot, next: Ref<Node>) -> Result<(), Abort> {
        if spot.before.is_null() {
            return tx.write(self.at, &ListHead { first: next });
        }
        let node = tx.read(spot.before)?;
        tx.write(spot.before, &Node { next, ..node })
    }
}

impl Map for SortedList {
    fn get<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort> {
        let found = self.find(tx, key)?.node;
        Ok(found.filter(|n| n.key == key).map(|n| n.value))
    }

    fn insert<A: Access>(&self, tx: &mut A, key: u64, value: u64) -> Result<Option<u64>, Abort> {
        changing(tx, |tx| {
            let spot = self.find(tx, key)?;
            if let Some(node) = spot.node.filter(|n| n.key == key) {
                tx.write(spot.at, &Node { value, ..node })?;
                return Ok(Some(node.value));
            }
            let node = tx.alloc(&Node { key, value, next: spot.at })?;
            self.link(tx, &spot, node)?;
            Ok(None)
        })
    }

    fn remove<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort> {
        changing(tx, |tx| {
            let spot = self.find(tx, key)?;
            let Some(node) = spot.node.filter(|n| n.key == key) else { return Ok(None) };
            self.link(tx, &spot, node.next)?;
            tx.free(spot.at)?;
            Ok(Some(node.value))
        })
    }
}

impl Checked for ListHead {
    fn check(at: u64, ob: &mut Audit<'_>) -> Result<(), Damage> {
        let head: ListHead = ob.enter(at)?;
        let (mut at, mut before) = (head.first, None);
        while !at.is_null() {
            let node: Node = ob.enter(at.offset())?;
            if before.is_some_and(|key| node.key <= key) {
                return Err(ob.damage(at.offset(), format!("key {} is out of order", node.key)));
            }
            (at, before) = (node.next, Some(node.key));
        }
        Ok(())
    }
}
