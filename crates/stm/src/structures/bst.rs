//! A binary search tree without balancing, as the paper measures one: fine on random keys.
//!
//! - A node with two children is removed by taking over its successor's entry.
//! - Both links of a node share a word (offsets are multiples of 32, so 32 bits reach 128 GiB): a
//!   node is three words, and both its versions lie in one cache line. A node beyond is refused.

use std::hint::select_unpredictable;

use super::audit::{Audit, Checked, Damage};
use super::trail::Trail;
use super::{Map, changing};
use crate::error::{Abort, Error, Kind};
use crate::record::{Field, Look, Ref, Words};
use crate::tx::Access;

crate::record! {
    /// A tree's root record.
    pub struct TreeHead = "littoral.bst.head/1" { root: Ref<Node> }
}
crate::record! {
    /// An entry and its two subtrees.
    pub(super) struct Node = "littoral.bst.node/2" {
        key: u64,
        value: u64,
        sides: Sides,
    }
}

/// The links to a node's left and right subtrees, 32 bits each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sides(u64);

const UNIT: u32 = 5;

/// A node's key and links: what it takes to pass it by.
struct Step;

impl Look for Step {
    type Out = (u64, Sides);
    #[inline(always)]
    fn look(&mut self, words: Words<'_>) -> Self::Out {
        (words.get(0), Sides(words.get(2)))
    }
}

impl Sides {
    const NONE: Sides = Sides(0);

    #[inline(always)]
    fn get(self, side: usize) -> Ref<Node> {
        self.choose(side != 0)
    }

    /// The link to the right or to the left. Both are made, so that choosing is all that waits for
    /// the comparison of keys.
    #[inline(always)]
    fn choose(self, right: bool) -> Ref<Node> {
        let (l, r) = ((self.0 & u64::from(u32::MAX)) << UNIT, self.0 >> 32 << UNIT);
        Ref::from_offset(select_unpredictable(right, r, l))
    }

    fn with(self, side: usize, to: Ref<Node>) -> Result<Sides, Abort> {
        let link = to.offset() >> UNIT;
        if link > u64::from(u32::MAX) || link << UNIT != to.offset() {
            let text = format!("a search tree's nodes lie below 128 GiB, {to:?} does not");
            return Err(Error::new(Kind::Full, text).into());
        }
        let others = self.0 & !(u64::from(u32::MAX) << (32 * side));
        Ok(Sides(others | link << (32 * side)))
    }
}

impl Field for Sides {
    const WORDS: usize = 1;
    #[inline(always)]
    fn load(word: &mut impl FnMut(usize) -> u64, at: usize) -> Self {
        Sides(word(at))
    }
    #[inline(always)]
    fn store(&self, word: &mut impl FnMut(usize, u64), at: usize) {
        word(at, self.0);
    }
}

/// A durable binary search tree.
#[derive(Clone, Copy, Debug)]
pub struct SearchTree {
    at: Ref<TreeHead>,
}

/// Who links to a node: the head where the reference is null, or a node by one of its sides.
type Parent = (Ref<Node>, usize);

impl SearchTree {
    /// Makes an empty tree.
    ///
    /// # Errors
    /// `Kind::Full`, a conflict.
    pub fn create<A: Access>(tx: &mut A) -> Result<SearchTree, Abort> {
        Ok(SearchTree { at: tx.alloc(&TreeHead { root: Ref::NULL })? })
    }

    /// The tree at `at`.
    pub fn open(at: Ref<TreeHead>) -> SearchTree {
        SearchTree { at }
    }

    /// The root record.
    pub fn at(&self) -> Ref<TreeHead> {
        self.at
    }

    /// Ends the tree with all its entries; its names go with it. The transaction holds as many
    /// objects as the tree has.
    ///
    /// # Errors
    /// A conflict.
    pub fn destroy<A: Access>(self, tx: &mut A) -> Result<(), Abort> {
        changing(tx, |tx| {
            // A tree without balancing may be as deep as it is large: no recursion.
            let mut waiting = vec![tx.read(self.at)?.root];
            while let Some(at) = waiting.pop() {
                if at.is_null() {
                    continue;
                }
                let sides = tx.read(at)?.sides;
                waiting.extend([sides.get(0), sides.get(1)]);
                tx.free(at)?;
            }
            tx.free(self.at)
        })
    }

    #[inline(always)]
    fn find<A: Access>(
        &self,
        tx: &mut A,
        key: u64,
    ) -> Result<(Parent, Ref<Node>, Option<Node>), Abort> {
        let (mut parent, mut at) = ((Ref::NULL, 0), tx.read(self.at)?.root);
        let mut trail = Trail::new();
        while !at.is_null() {
            trail.step(at)?;
            let (found, sides) = tx.look(at, Step)?;
            if found == key {
                return Ok((parent, at, Some(tx.read(at)?)));
            }
            let right = key > found;
            parent = (at, usize::from(right));
            at = sides.choose(right);
        }
        Ok((parent, at, None))
    }

    fn link<A: Access>(&self, tx: &mut A, parent: Parent, to: Ref<Node>) -> Result<(), Abort> {
        let (at, side) = parent;
        if at.is_null() {
            return tx.write(self.at, &TreeHead { root: to });
        }
        let node = tx.read(at)?;
        tx.write(at, &Node { sides: node.sides.with(side, to)?, ..node })
    }

    /// Puts the successor's entry into the node at `at` and takes the successor out.
    fn take_successor<A: Access>(tx: &mut A, at: Ref<Node>, node: Node) -> Result<(), Abort> {
        let (mut above, mut next) = (None, node.sides.get(1));
        let mut least = tx.read(next)?;
        let mut trail = Trail::new();
        while !least.sides.get(0).is_null() {
            trail.step(next)?;
            above = Some((next, least));
            next = least.sides.get(0);
            least = tx.read(next)?;
        }
        let mut kept = Node { key: least.key, value: least.value, sides: node.sides };
        let orphan = least.sides.get(1);
        match above {
            None => kept.sides = kept.sides.with(1, orphan)?,
            Some((above, n)) => tx.write(above, &Node { sides: n.sides.with(0, orphan)?, ..n })?,
        }
        tx.write(at, &kept)?;
        tx.free(next)
    }
}

impl Map for SearchTree {
    fn get<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort> {
        Ok(self.find(tx, key)?.2.map(|n| n.value))
    }

    fn insert<A: Access>(&self, tx: &mut A, key: u64, value: u64) -> Result<Option<u64>, Abort> {
        changing(tx, |tx| match self.find(tx, key)? {
            (_, at, Some(node)) => {
                tx.write(at, &Node { value, ..node })?;
                Ok(Some(node.value))
            }
            (parent, _, None) => {
                let node = tx.alloc(&Node { key, value, sides: Sides::NONE })?;
                self.link(tx, parent, node)?;
                Ok(None)
            }
        })
    }

    fn remove<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort> {
        changing(tx, |tx| {
            let (parent, at, Some(node)) = self.find(tx, key)? else { return Ok(None) };
            match [node.sides.get(0), node.sides.get(1)] {
                [left, right] if !left.is_null() && !right.is_null() => {
                    Self::take_successor(tx, at, node)?;
                }
                [left, right] => {
                    self.link(tx, parent, if left.is_null() { right } else { left })?;
                    tx.free(at)?;
                }
            }
            Ok(Some(node.value))
        })
    }
}

impl Checked for TreeHead {
    fn check(at: u64, ob: &mut Audit<'_>) -> Result<(), Damage> {
        let head: TreeHead = ob.enter(at)?;
        // A tree without balancing may be as deep as it is large: no recursion.
        let mut waiting = vec![(head.root, 0, u64::MAX)];
        while let Some((at, first, last)) = waiting.pop() {
            if at.is_null() {
                continue;
            }
            let node: Node = ob.enter(at.offset())?;
            let key = node.key;
            if !(first..=last).contains(&key) {
                return Err(ob.damage(at.offset(), format!("key {key} is out of order")));
            }
            let [left, right] = [node.sides.get(0), node.sides.get(1)];
            let beside = |side: &Ref<Node>, end: u64| side.is_null() || key != end;
            if !beside(&left, first) || !beside(&right, last) {
                return Err(ob.damage(at.offset(), "it has a subtree without room".to_owned()));
            }
            waiting.push((left, first, key.saturating_sub(1)));
            waiting.push((right, key.saturating_add(1), last));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_links_share_a_word_and_a_link_too_far_is_refused() {
        let to = |offset| Ref::<Node>::from_offset(offset);
        let both = Sides::NONE.with(0, to(64)).and_then(|s| s.with(1, to(96))).unwrap();
        assert_eq!((both.get(0), both.get(1)), (to(64), to(96)));
        assert_eq!(both.with(0, Ref::NULL).unwrap().get(0), Ref::NULL);
        for bad in [1u64 << 37, 33] {
            assert!(matches!(both.with(1, to(bad)), Err(a) if !a.is_conflict()), "{bad:#x}");
        }
    }
}
