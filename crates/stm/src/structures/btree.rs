//! A B+-tree with range scans: nodes of fourteen entries, 256 bytes a version.
//!
//! - Every leaf is at the same depth; keys ascend; the child right of a key holds keys from it on.
//! - An insertion splits full nodes from the leaf upwards. A removal frees nodes that became empty
//!   and lowers the root; nodes are not merged (free-at-empty, Johnson and Shasha 1989).
//! - Keys beyond a node's length are `u64::MAX`, so that a search counts over all fourteen without
//!   a branch; it reads the two lines of the keys and the one word it goes on with, no copy.
//! - A full last leaf (or inner node) that is appended to stays full and a new one begins with the
//!   new key: ascending insertion leaves full nodes.
//! - Leaves are not chained: a scan walks its path, so removing a leaf touches only its parent.

use std::ops::{Bound, RangeBounds};

use littoral_base::mutant;

use super::audit::{Audit, Checked, Damage};
use super::{Map, changing};
use crate::error::{Abort, Error, Kind};
use crate::record::{Look, Ref, Words};
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
    pub(super) struct Leaf = "littoral.btree.leaf/2" { len: u64, keys: [u64; 14], values: [u64; 14] }
}
crate::record! {
    /// Children and the keys between them.
    pub(super) struct Inner = "littoral.btree.inner/2" { len: u64, keys: [u64; 14], children: [u64; 15] }
}

/// The first word of the keys, in either kind of node.
const KEYS_AT: usize = 1;
/// The first word of what a key leads to.
const ENTRIES_AT: usize = KEYS_AT + ENTRIES;

/// How many keys are below `key`.
#[inline(always)]
fn below(key: u64, keys: &[u64; ENTRIES]) -> usize {
    Words::copied(keys).rank::<ENTRIES>(0, key)
}

/// The child of an inner node that holds a key; a node that is being replaced may give any.
struct Step(u64);

impl Look for Step {
    type Out = u64;
    #[inline(always)]
    fn look(&mut self, words: Words<'_>) -> u64 {
        step(self.0, words)
    }
}

/// The value of a key in a leaf.
struct ValueOf(u64);

impl Look for ValueOf {
    type Out = Option<u64>;
    #[inline(always)]
    fn look(&mut self, words: Words<'_>) -> Option<u64> {
        value_of(self.0, words)
    }
}

#[inline(always)]
fn step(key: u64, words: Words<'_>) -> u64 {
    // Keys up to `key` are those below the next; the last key of all has none beyond.
    let at = match key.checked_add(1) {
        Some(beyond) => words.rank::<ENTRIES>(KEYS_AT, beyond),
        None => (words.get(0) as usize).min(ENTRIES),
    };
    words.get(ENTRIES_AT + at)
}

#[inline(always)]
fn value_of(key: u64, words: Words<'_>) -> Option<u64> {
    let at = words.rank::<ENTRIES>(KEYS_AT, key);
    let found = at < (words.get(0) as usize).min(ENTRIES) && words.get(KEYS_AT + at) == key;
    found.then(|| words.get(ENTRIES_AT + at))
}

impl Leaf {
    const EMPTY: Leaf = Leaf { len: 0, keys: [u64::MAX; ENTRIES], values: [0; ENTRIES] };

    fn n(&self) -> usize {
        self.len as usize
    }
    /// The place of the first key not below `key`, and whether it is `key`.
    fn find(&self, key: u64) -> (usize, bool) {
        let at = below(key, &self.keys);
        (at, at < self.n() && self.keys[at] == key)
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
        self.keys[n - 1] = u64::MAX;
        self.len -= 1;
    }
    /// Moves the entries from `from` on into a new leaf.
    fn split(&mut self, from: usize) -> Leaf {
        let (mut upper, n) = (Leaf::EMPTY, self.n() - from);
        upper.keys[..n].copy_from_slice(&self.keys[from..from + n]);
        upper.values[..n].copy_from_slice(&self.values[from..from + n]);
        self.keys[from..].fill(u64::MAX);
        (self.len, upper.len) = (from as u64, n as u64);
        upper
    }
}

impl Inner {
    const EMPTY: Inner = Inner { len: 0, keys: [u64::MAX; ENTRIES], children: [0; ENTRIES + 1] };

    fn n(&self) -> usize {
        self.len as usize
    }
    /// Which child holds `key`.
    fn child_of(&self, key: u64) -> usize {
        key.checked_add(1).map_or(ENTRIES, |beyond| below(beyond, &self.keys)).min(self.n())
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
        self.keys[n - 1] = u64::MAX;
        self.len -= 1;
    }
    /// Moves the children right of key `at` into a new node; answers it and that key.
    fn split(&mut self, at: usize) -> (u64, Inner) {
        let (mut upper, n) = (Inner::EMPTY, self.n() - at - 1);
        let between = self.keys[at];
        upper.keys[..n].copy_from_slice(&self.keys[at + 1..at + 1 + n]);
        upper.children[..n + 1].copy_from_slice(&self.children[at + 1..at + n + 2]);
        self.keys[at..].fill(u64::MAX);
        (self.len, upper.len) = (at as u64, n as u64);
        (between, upper)
    }
}

impl BTreeHead {
    /// The root record, if the tree has no more levels than any can have.
    #[inline(always)]
    fn sound(self) -> Result<BTreeHead, Abort> {
        if self.height <= HEIGHT_MAX as u64 { Ok(self) } else { Err(too_high(self.height)) }
    }
}

#[cold]
fn too_high(height: u64) -> Abort {
    let text = format!("a tree of {height} levels: its root record is damaged");
    Error::new(Kind::Corrupt, text).into()
}

/// The first and the last key of a range; none of an empty one.
fn ends(keys: &impl RangeBounds<u64>) -> Option<(u64, u64)> {
    let first = match keys.start_bound() {
        Bound::Unbounded => 0,
        Bound::Included(&key) => key,
        Bound::Excluded(&key) => key.checked_add(1)?,
    };
    let last = match keys.end_bound() {
        Bound::Unbounded => u64::MAX,
        Bound::Included(&key) => key,
        Bound::Excluded(&key) => key.checked_sub(1)?,
    };
    (first <= last).then_some((first, last))
}

#[cold]
fn overfull<T>(at: Ref<T>, len: u64) -> Abort {
    let text = format!("the node at {at:?} says it has {len} keys of {ENTRIES}: it is damaged");
    Error::new(Kind::Corrupt, text).into()
}

#[cold]
fn out_of_order(leaf: u64, key: u64) -> Abort {
    let text = format!("key {key} of the leaf at {leaf:#x} is out of order: the tree is damaged");
    Error::new(Kind::Corrupt, text).at_offset(leaf).into()
}

#[cold]
fn overlong<T>(at: Ref<T>) -> Abort {
    let text = format!("the node at {at:?} holds keys beyond its length: it is damaged");
    Error::new(Kind::Corrupt, text).into()
}

fn sound_leaf<A: Access>(tx: &mut A, at: Ref<Leaf>) -> Result<Leaf, Abort> {
    let leaf = tx.read(at)?;
    if leaf.len <= ENTRIES as u64 { Ok(leaf) } else { Err(overfull(at, leaf.len)) }
}

fn sound_inner<A: Access>(tx: &mut A, at: u64) -> Result<Inner, Abort> {
    let at = Ref::from_offset(at);
    let inner: Inner = tx.read(at)?;
    if inner.len <= ENTRIES as u64 { Ok(inner) } else { Err(overfull(at, inner.len)) }
}

/// A durable B+-tree.
#[derive(Clone, Copy, Debug)]
pub struct BTree {
    at: Ref<BTreeHead>,
}

/// Levels a tree can have: half-full nodes of 2^64 entries need fewer.
const HEIGHT_MAX: usize = 24;

/// The inner nodes on the way to a leaf.
struct Path {
    nodes: [Ref<Inner>; HEIGHT_MAX],
    len: usize,
}

impl Path {
    fn pop(&mut self) -> Option<Ref<Inner>> {
        self.len = self.len.checked_sub(1)?;
        Some(self.nodes[self.len])
    }
}

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

    /// Calls `visit` with the entries whose keys are in `keys`, in order, until it answers false. A
    /// range that ends before it begins holds no key; `a..=u64::MAX` reaches the last.
    ///
    /// # Errors
    /// A conflict; `Kind::Corrupt` for a damaged node.
    pub fn scan<A: Access>(
        &self,
        tx: &mut A,
        keys: impl RangeBounds<u64>,
        mut visit: impl FnMut(u64, u64) -> bool,
    ) -> Result<(), Abort> {
        let Some((first, last)) = ends(&keys) else { return Ok(()) };
        let head = tx.read(self.at)?.sound()?;
        // Nodes still to visit, the next one last.
        let mut waiting = vec![(head.root, head.height)];
        // The key before, of those that are asked for or not.
        let mut before = None;
        while let Some((at, height)) = waiting.pop() {
            if height > 0 {
                let inner = sound_inner(tx, at)?;
                let within = inner.child_of(first)..inner.child_of(last) + 1;
                waiting.extend(inner.children[within].iter().rev().map(|&c| (c, height - 1)));
                continue;
            }
            let leaf = sound_leaf(tx, Ref::from_offset(at))?;
            for i in 0..leaf.n() {
                let key = leaf.keys[i];
                let ascends = before.replace(key).is_none_or(|last| last < key);
                if !ascends && !mutant!("btree_scan_repeats") {
                    return Err(out_of_order(at, key));
                }
                if key > last || (key >= first && !visit(key, leaf.values[i])) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Ends the tree with all its entries; its names go with it. The transaction holds as many
    /// objects as the tree has.
    ///
    /// # Errors
    /// A conflict; `Kind::Corrupt` for a damaged node.
    pub fn destroy<A: Access>(self, tx: &mut A) -> Result<(), Abort> {
        changing(tx, |tx| {
            let head = tx.read(self.at)?.sound()?;
            let mut waiting = vec![(head.root, head.height)];
            while let Some((at, height)) = waiting.pop() {
                if height == 0 {
                    tx.free(Ref::<Leaf>::from_offset(at))?;
                    continue;
                }
                let inner = sound_inner(tx, at)?;
                waiting
                    .extend(inner.children[..=inner.n()].iter().map(|&child| (child, height - 1)));
                tx.free(Ref::<Inner>::from_offset(at))?;
            }
            tx.free(self.at)
        })
    }

    #[inline(always)]
    fn descend<A: Access>(&self, tx: &mut A, key: u64) -> Result<(Path, Ref<Leaf>), Abort> {
        let head = tx.read(self.at)?.sound()?;
        let height = head.height as usize;
        let mut path = Path { nodes: [Ref::NULL; HEIGHT_MAX], len: height };
        let mut at = head.root;
        for place in &mut path.nodes[..height] {
            *place = Ref::from_offset(at);
            at = tx.look(*place, Step(key))?;
        }
        Ok((path, Ref::from_offset(at)))
    }

    /// Puts `child` (keys from `key` on) where `path` leads, splitting upwards.
    fn insert_child<A: Access>(
        &self,
        tx: &mut A,
        mut path: Path,
        mut key: u64,
        mut child: u64,
    ) -> Result<(), Abort> {
        while let Some(place) = path.pop() {
            let mut inner = sound_inner(tx, place.offset())?;
            let at = inner.child_of(key);
            if inner.n() < ENTRIES {
                inner.insert_at(at, key, child);
                return tx.write(place, &inner);
            }
            if at == ENTRIES {
                // Appended: this node stays full, the new one begins with the new child.
                let upper = Inner { children: first(child), ..Inner::EMPTY };
                child = tx.alloc(&upper)?.offset();
                continue;
            }
            let (between, mut upper) = inner.split(ENTRIES / 2);
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
        key: u64,
    ) -> Result<(), Abort> {
        if path.len == 0 {
            return tx.write(leaf, &Leaf::EMPTY);
        }
        tx.free(leaf)?;
        while let Some(place) = path.pop() {
            let mut inner = sound_inner(tx, place.offset())?;
            if inner.n() > 0 {
                inner.remove_child(inner.child_of(key));
                tx.write(place, &inner)?;
                return if path.len == 0 { self.lower(tx) } else { Ok(()) };
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

/// Children of a node that has one.
fn first(child: u64) -> [u64; ENTRIES + 1] {
    let mut children = [0; ENTRIES + 1];
    children[0] = child;
    children
}

impl Map for BTree {
    fn get<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort> {
        let head = tx.read(self.at)?.sound()?;
        let mut at = head.root;
        // A wrong number of levels ends at a leaf or at an inner node, whose types differ.
        for _ in 0..head.height {
            at = tx.look(Ref::<Inner>::from_offset(at), Step(key))?;
        }
        tx.look(Ref::<Leaf>::from_offset(at), ValueOf(key))
    }

    fn insert<A: Access>(&self, tx: &mut A, key: u64, value: u64) -> Result<Option<u64>, Abort> {
        changing(tx, |tx| {
            let (path, place) = self.descend(tx, key)?;
            let mut leaf = sound_leaf(tx, place)?;
            let (at, found) = leaf.find(key);
            if at > leaf.n() {
                return Err(overlong(place));
            }
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
            // At the end the leaf stays full: keys that ascend fill every leaf.
            let mut upper = leaf.split(if at == ENTRIES { ENTRIES } else { ENTRIES / 2 });
            if at <= leaf.n() && at < ENTRIES {
                leaf.insert_at(at, key, value);
            } else {
                upper.insert_at(at - leaf.n(), key, value);
            }
            if at < ENTRIES {
                tx.write(place, &leaf)?;
            }
            let (from, child) = (upper.keys[0], tx.alloc(&upper)?.offset());
            self.insert_child(tx, path, from, child)?;
            Ok(None)
        })
    }

    fn remove<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort> {
        changing(tx, |tx| {
            let (path, place) = self.descend(tx, key)?;
            let mut leaf = sound_leaf(tx, place)?;
            let (at, found) = leaf.find(key);
            if !found {
                return Ok(None);
            }
            let value = leaf.values[at];
            leaf.remove_at(at);
            if leaf.n() == 0 {
                self.remove_leaf(tx, path, place, key)?;
            } else {
                tx.write(place, &leaf)?;
            }
            Ok(Some(value))
        })
    }
}

impl Checked for BTreeHead {
    fn check(at: u64, ob: &mut Audit<'_>) -> Result<(), Damage> {
        let head: BTreeHead = ob.enter(at)?;
        if head.height > HEIGHT_MAX as u64 {
            return Err(ob.damage(at, format!("says it has {} levels", head.height)));
        }
        check_node(ob, (head.root, head.height), (0, u64::MAX))
    }
}

/// Checks the node at `at`, `height` levels above the leaves, whose keys lie in `keys`, both ends
/// included.
fn check_node(
    ob: &mut Audit<'_>,
    (at, height): (u64, u64),
    keys: (u64, u64),
) -> Result<(), Damage> {
    if height == 0 {
        let leaf: Leaf = ob.enter(at)?;
        return check_keys(ob, at, leaf.len, &leaf.keys, keys).map(drop);
    }
    let inner: Inner = ob.enter(at)?;
    let n = check_keys(ob, at, inner.len, &inner.keys, keys)?;
    for child in 0..=n {
        let first = if child == 0 { keys.0 } else { inner.keys[child - 1] };
        let last = if child == n { keys.1 } else { inner.keys[child].saturating_sub(1) };
        check_node(ob, (inner.children[child], height - 1), (first, last))?;
    }
    Ok(())
}

fn check_keys(
    ob: &Audit<'_>,
    at: u64,
    len: u64,
    keys: &[u64; ENTRIES],
    (first, last): (u64, u64),
) -> Result<usize, Damage> {
    let n = usize::try_from(len).ok().filter(|&n| n <= ENTRIES);
    let Some(n) = n else { return Err(ob.damage(at, format!("says it has {len} keys"))) };
    let ascend = keys[..n].windows(2).all(|w| w[0] < w[1]);
    let within = keys[..n].iter().all(|&key| (first..=last).contains(&key));
    if !ascend || !within {
        return Err(ob.damage(at, "its keys do not ascend within its parent's".to_owned()));
    }
    if keys[n..].iter().any(|&key| key != u64::MAX) {
        return Err(ob.damage(at, "it holds keys beyond its length".to_owned()));
    }
    Ok(n)
}
