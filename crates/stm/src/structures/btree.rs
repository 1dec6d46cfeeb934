//! A B+-tree with range scans: nodes of fourteen entries, 256 bytes a version.
//!
//! - Every leaf is at the same depth; keys ascend; the child right of a key holds keys from it on.
//! - An insertion splits full nodes from the leaf upwards. A removal frees nodes that became empty
//!   and lowers the root; nodes are not merged (free-at-empty, Johnson and Shasha 1989).
//! - Leaves are not chained: a scan walks its path, so removing a leaf touches only its parent.

use std::ops::Range;

use super::Map;
use crate::error::Abort;
use crate::record::Ref;
use crate::tx::Access;

const ENTRIES: usize = 14;

crate::record! {
    /// A B+-tree's root record.
    pub struct BTreeHead = "littoral.btree.head/1" {
        /// Offset of the root: a leaf at height zero, an inner node above.
        root: u64,
        height: u64,
    }
}
crate::record! {
    /// Entries of ascending keys.
    pub(super) struct Leaf = "littoral.btree.leaf/1" { len: u64, keys: [u64; 14], values: [u64; 14] }
}
crate::record! {
    /// Children and the keys between them.
    pub(super) struct Inner = "littoral.btree.inner/1" { len: u64, keys: [u64; 14], children: [u64; 15] }
}

impl Leaf {
    const EMPTY: Leaf = Leaf { len: 0, keys: [0; ENTRIES], values: [0; ENTRIES] };

    fn n(&self) -> usize {
        self.len as usize
    }
    /// The place of the first key not below `key`, and whether it is `key`.
    fn find(&self, key: u64) -> (usize, bool) {
        let keys = &self.keys[..self.n()];
        let at = keys.iter().take_while(|&&k| k < key).count();
        (at, keys.get(at) == Some(&key))
    }
    fn insert_at(&mut self, at: usize, key: u64, value: u64) {
        let n = self.n();
        self.keys.copy_within(at..n, at + 1);
        self.values.copy_within(at..n, at + 1);
        (self.keys[at], self.values[at], self.len) = (key, value, self.len + 1);
    }
    fn remove_at(&mut self, at: usize) {
        let n = self.n();
        self.keys.copy_within(at + 1..n, at);
        self.values.copy_within(at + 1..n, at);
        self.len -= 1;
    }
    /// Moves the upper half into a new leaf.
    fn split(&mut self) -> Leaf {
        let mut upper = Leaf::EMPTY;
        let half = ENTRIES / 2;
        upper.keys[..half].copy_from_slice(&self.keys[half..]);
        upper.values[..half].copy_from_slice(&self.values[half..]);
        (self.len, upper.len) = (half as u64, half as u64);
        upper
    }
}

impl Inner {
    const EMPTY: Inner = Inner { len: 0, keys: [0; ENTRIES], children: [0; ENTRIES + 1] };

    fn n(&self) -> usize {
        self.len as usize
    }
    /// Which child holds `key`.
    fn child_of(&self, key: u64) -> usize {
        self.keys[..self.n()].iter().take_while(|&&k| k <= key).count()
    }
    /// Adds `child` right of child `at`, from `key` on.
    fn insert_at(&mut self, at: usize, key: u64, child: u64) {
        let n = self.n();
        self.keys.copy_within(at..n, at + 1);
        self.children.copy_within(at + 1..n + 1, at + 2);
        (self.keys[at], self.children[at + 1], self.len) = (key, child, self.len + 1);
    }
    /// Takes child `at` out, with the key beside it.
    fn remove_child(&mut self, at: usize) {
        let n = self.n();
        let key = at.saturating_sub(1);
        self.keys.copy_within(key + 1..n, key);
        self.children.copy_within(at + 1..n + 1, at);
        self.len -= 1;
    }
    /// Moves the upper half into a new node; answers it and the key between.
    fn split(&mut self) -> (u64, Inner) {
        let mut upper = Inner::EMPTY;
        let half = ENTRIES / 2;
        let n = ENTRIES - half - 1;
        upper.keys[..n].copy_from_slice(&self.keys[half + 1..]);
        upper.children[..n + 1].copy_from_slice(&self.children[half + 1..]);
        (self.len, upper.len) = (half as u64, n as u64);
        (self.keys[half], upper)
    }
}

/// A durable B+-tree.
#[derive(Clone, Copy, Debug)]
pub struct BTree {
    at: Ref<BTreeHead>,
}

/// The inner nodes on the way to a leaf, and which child was taken at each.
type Path = Vec<(Ref<Inner>, Inner, usize)>;

impl BTree {
    /// Makes an empty tree.
    ///
    /// # Errors
    /// `Kind::Full`, a conflict.
    pub fn create<A: Access>(tx: &mut A) -> Result<BTree, Abort> {
        let root = tx.alloc(&Leaf::EMPTY)?.offset();
        Ok(BTree { at: tx.alloc(&BTreeHead { root, height: 0 })? })
    }

    /// The tree at `at`.
    pub fn open(at: Ref<BTreeHead>) -> BTree {
        BTree { at }
    }

    /// The root record.
    pub fn at(&self) -> Ref<BTreeHead> {
        self.at
    }

    /// Calls `visit` with the entries whose keys are in `keys`, in order, until it answers false.
    ///
    /// # Errors
    /// A conflict.
    pub fn scan<A: Access>(
        &self,
        tx: &mut A,
        keys: Range<u64>,
        mut visit: impl FnMut(u64, u64) -> bool,
    ) -> Result<(), Abort> {
        let head = tx.read(self.at)?;
        // Nodes still to visit, the next one last.
        let mut waiting = vec![(head.root, head.height)];
        while let Some((at, height)) = waiting.pop() {
            if height > 0 {
                let inner = tx.read(Ref::<Inner>::from_offset(at))?;
                let within = inner.child_of(keys.start)..inner.child_of(keys.end) + 1;
                waiting.extend(inner.children[within].iter().rev().map(|&c| (c, height - 1)));
                continue;
            }
            let leaf = tx.read(Ref::<Leaf>::from_offset(at))?;
            for i in 0..leaf.n() {
                let key = leaf.keys[i];
                if key >= keys.end || (key >= keys.start && !visit(key, leaf.values[i])) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn descend<A: Access>(&self, tx: &mut A, key: u64) -> Result<(Path, Ref<Leaf>, Leaf), Abort> {
        let head = tx.read(self.at)?;
        let (mut path, mut at) = (Path::new(), head.root);
        for _ in 0..head.height {
            let place = Ref::from_offset(at);
            let inner: Inner = tx.read(place)?;
            let child = inner.child_of(key);
            at = inner.children[child];
            path.push((place, inner, child));
        }
        let leaf = Ref::from_offset(at);
        Ok((path, leaf, tx.read(leaf)?))
    }

    /// Puts `child` (keys from `key` on) right of where `path` went, splitting upwards.
    fn insert_child<A: Access>(
        &self,
        tx: &mut A,
        mut path: Path,
        mut key: u64,
        mut child: u64,
    ) -> Result<(), Abort> {
        while let Some((place, mut inner, at)) = path.pop() {
            if inner.n() < ENTRIES {
                inner.insert_at(at, key, child);
                return tx.write(place, &inner);
            }
            let (between, mut upper) = inner.split();
            if at <= inner.n() {
                inner.insert_at(at, key, child);
            } else {
                upper.insert_at(at - inner.n() - 1, key, child);
            }
            tx.write(place, &inner)?;
            (key, child) = (between, tx.alloc(&upper)?.offset());
        }
        let head = tx.read(self.at)?;
        let mut root = Inner { len: 1, ..Inner::EMPTY };
        (root.keys[0], root.children[0], root.children[1]) = (key, head.root, child);
        let root = tx.alloc(&root)?.offset();
        tx.write(self.at, &BTreeHead { root, height: head.height + 1 })
    }

    /// Frees an empty leaf and the inner nodes whose only child went with it.
    fn remove_leaf<A: Access>(
        &self,
        tx: &mut A,
        mut path: Path,
        leaf: Ref<Leaf>,
    ) -> Result<(), Abort> {
        if path.is_empty() {
            return tx.write(leaf, &Leaf::EMPTY);
        }
        tx.free(leaf)?;
        while let Some((place, mut inner, at)) = path.pop() {
            if inner.n() > 0 {
                inner.remove_child(at);
                tx.write(place, &inner)?;
                return if path.is_empty() { self.lower(tx) } else { Ok(()) };
            }
            tx.free(place)?;
        }
        let root = tx.alloc(&Leaf::EMPTY)?.offset();
        tx.write(self.at, &BTreeHead { root, height: 0 })
    }

    /// Takes roots with a single child away.
    fn lower<A: Access>(&self, tx: &mut A) -> Result<(), Abort> {
        let mut head = tx.read(self.at)?;
        while head.height > 0 {
            let place = Ref::from_offset(head.root);
            let inner: Inner = tx.read(place)?;
            if inner.n() > 0 {
                break;
            }
            tx.free(place)?;
            head = BTreeHead { root: inner.children[0], height: head.height - 1 };
            tx.write(self.at, &head)?;
        }
        Ok(())
    }
}

impl Map for BTree {
    fn get<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort> {
        let head = tx.read(self.at)?;
        let mut at = head.root;
        for _ in 0..head.height {
            let inner = tx.read(Ref::<Inner>::from_offset(at))?;
            at = inner.children[inner.child_of(key)];
        }
        let leaf = tx.read(Ref::<Leaf>::from_offset(at))?;
        let (at, found) = leaf.find(key);
        Ok(found.then(|| leaf.values[at]))
    }

    fn insert<A: Access>(&self, tx: &mut A, key: u64, value: u64) -> Result<Option<u64>, Abort> {
        let (path, place, mut leaf) = self.descend(tx, key)?;
        let (at, found) = leaf.find(key);
        if found {
            let before = std::mem::replace(&mut leaf.values[at], value);
            tx.write(place, &leaf)?;
            return Ok(Some(before));
        }
        if leaf.n() < ENTRIES {
            leaf.insert_at(at, key, value);
            tx.write(place, &leaf)?;
            return Ok(None);
        }
        let mut upper = leaf.split();
        if at <= leaf.n() {
            leaf.insert_at(at, key, value);
        } else {
            upper.insert_at(at - leaf.n(), key, value);
        }
        tx.write(place, &leaf)?;
        let (from, child) = (upper.keys[0], tx.alloc(&upper)?.offset());
        self.insert_child(tx, path, from, child)?;
        Ok(None)
    }

    fn remove<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort> {
        let (path, place, mut leaf) = self.descend(tx, key)?;
        let (at, found) = leaf.find(key);
        if !found {
            return Ok(None);
        }
        let value = leaf.values[at];
        leaf.remove_at(at);
        if leaf.n() == 0 {
            self.remove_leaf(tx, path, place)?;
        } else {
            tx.write(place, &leaf)?;
        }
        Ok(Some(value))
    }
}
