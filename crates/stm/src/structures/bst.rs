//! A binary search tree without balancing, as the paper measures one: fine on random keys.
//!
//! A node with two children is removed by taking over its successor's entry.

use super::Map;
use crate::error::Abort;
use crate::record::Ref;
use crate::tx::Access;

crate::record! {
    /// A tree's root record.
    pub struct TreeHead = "littoral.bst.head/1" { root: Ref<Node> }
}
crate::record! {
    /// An entry and its two subtrees.
    pub(super) struct Node = "littoral.bst.node/1" {
        key: u64,
        value: u64,
        sides: [Ref<Node>; 2],
    }
}

/// A durable binary search tree.
#[derive(Clone, Copy, Debug)]
pub struct SearchTree {
    at: Ref<TreeHead>,
}

/// Who links to a node: the head, or a node by one of its sides.
#[derive(Clone, Copy)]
enum Parent {
    Head,
    Side(Ref<Node>, Node, usize),
}

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

    fn find<A: Access>(
        &self,
        tx: &mut A,
        key: u64,
    ) -> Result<(Parent, Ref<Node>, Option<Node>), Abort> {
        let (mut parent, mut at) = (Parent::Head, tx.read(self.at)?.root);
        while !at.is_null() {
            let node = tx.read(at)?;
            if node.key == key {
                return Ok((parent, at, Some(node)));
            }
            let side = usize::from(key > node.key);
            parent = Parent::Side(at, node, side);
            at = node.sides[side];
        }
        Ok((parent, at, None))
    }

    fn link<A: Access>(&self, tx: &mut A, parent: Parent, to: Ref<Node>) -> Result<(), Abort> {
        match parent {
            Parent::Head => tx.write(self.at, &TreeHead { root: to }),
            Parent::Side(at, mut node, side) => {
                node.sides[side] = to;
                tx.write(at, &node)
            }
        }
    }

    /// Puts the successor's entry into the node at `at` and takes the successor out.
    fn take_successor<A: Access>(tx: &mut A, at: Ref<Node>, node: Node) -> Result<(), Abort> {
        let (mut parent, mut next) = (None, node.sides[1]);
        let mut least = tx.read(next)?;
        while !least.sides[0].is_null() {
            parent = Some((next, least));
            next = least.sides[0];
            least = tx.read(next)?;
        }
        let mut kept = Node { key: least.key, value: least.value, sides: node.sides };
        match parent {
            None => kept.sides[1] = least.sides[1],
            Some((above, mut n)) => {
                n.sides[0] = least.sides[1];
                tx.write(above, &n)?;
            }
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
        match self.find(tx, key)? {
            (_, at, Some(node)) => {
                tx.write(at, &Node { value, ..node })?;
                Ok(Some(node.value))
            }
            (parent, _, None) => {
                let node = tx.alloc(&Node { key, value, sides: [Ref::NULL; 2] })?;
                self.link(tx, parent, node)?;
                Ok(None)
            }
        }
    }

    fn remove<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort> {
        let (parent, at, Some(node)) = self.find(tx, key)? else { return Ok(None) };
        match node.sides {
            [left, right] if !left.is_null() && !right.is_null() => {
                Self::take_successor(tx, at, node)?;
            }
            [left, right] => {
                self.link(tx, parent, if left.is_null() { right } else { left })?;
                tx.free(at)?;
            }
        }
        Ok(Some(node.value))
    }
}
