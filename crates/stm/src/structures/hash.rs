//! A chained hash map whose buckets hold their first entry themselves and split when they overflow.
//!
//! - A bucket and a chain node are three words, so both versions of either share one cache line: a
//!   lookup at load one touches one record, an insertion into an empty bucket allocates nothing.
//! - A bucket without an entry of its own has no chain, and zeros for key and value.
//! - Growth is local and incremental: an insertion that finds [`CHAIN_MAX`] nodes splits that one
//!   bucket by the next bit of its keys' hashes (Fagin and others 1979) and no other. It moves that
//!   chain, so its work is bounded; nothing that all insertions share is written; and it is part of
//!   the insertion's transaction, so a crash shows all of it or none.
//! - A split bucket leads to its posts: post number i holds the keys whose hash goes on with i
//!   zeros and a one. The posts, not the directory, lead to new buckets, so handles never go stale.
//!   A map that outgrew its creation n times takes about log2(n) more records to look up.
//! - Buckets are not merged again. The directory of the first buckets is read into memory when the
//!   map is opened: buckets never move.

use std::collections::HashSet;
use std::sync::Arc;

use littoral_base::mutant;
use littoral_base::rng::mix;

use super::audit::{Audit, Checked, Damage};
use super::trail::Trail;
use super::{Map, changing};
use crate::error::{Abort, Error, Kind};
use crate::record::{Look, Record, Ref, Words};
use crate::tx::Access;

const FANOUT: usize = 60;
/// Nodes of a chain at which an insertion splits its bucket.
const CHAIN_MAX: usize = 4;
/// Splits of one bucket; the buckets it led to split on by themselves.
const POSTS_MAX: usize = 13;

crate::record! {
    /// A hash map's root record.
    pub struct HashHead = "littoral.hash.head/2" { buckets: u64, first: Ref<Directory> }
}
crate::record! {
    /// A piece of a hash map's directory.
    pub(super) struct Directory = "littoral.hash.directory/1" {
        buckets: [Ref<Bucket>; 60],
        next: Ref<Directory>,
    }
}
crate::record! {
    /// A bucket: its first entry, whether there is one, and the rest of the chain.
    pub(super) struct Bucket = "littoral.hash.bucket/1" {
        key: u64,
        value: u64,
        /// The offset of the next node or, split, of the posts; and the flags below.
        link: u64,
    }
}
crate::record! {
    /// A further entry of a bucket.
    pub(super) struct Node = "littoral.hash.node/1" { key: u64, value: u64, next: Ref<Node> }
}

crate::record! {
    /// Where a split bucket's keys went, and the chain of those that stayed.
    pub(super) struct Posts = "littoral.hash.posts/1" {
        next: Ref<Node>,
        count: u64,
        buckets: [Ref<Bucket>; 13],
    }
}

const EMPTY: Bucket = Bucket { key: 0, value: 0, link: 0 };
/// The bucket holds an entry.
const HOLDS: u64 = 1;
/// The link is to the bucket's posts.
const SPLIT: u64 = 2;

impl Bucket {
    #[inline(always)]
    fn is_held(&self) -> bool {
        self.link & HOLDS != 0
    }
    #[inline(always)]
    fn is_split(&self) -> bool {
        self.link & SPLIT != 0
    }
    #[inline(always)]
    fn holds(&self, key: u64) -> bool {
        self.is_held() && self.key == key
    }
    /// What the link leads to: a node, or the posts of a split bucket.
    #[inline(always)]
    fn link<T>(&self) -> Ref<T> {
        Ref::from_offset(self.link & !(HOLDS | SPLIT))
    }
    /// The bucket with another entry, or none.
    fn with(self, entry: Option<Entry>) -> Bucket {
        let link = self.link & !HOLDS;
        match entry {
            Some((key, value)) => Bucket { key, value, link: link | HOLDS },
            None => Bucket { key: 0, value: 0, link },
        }
    }
}

/// Looks for a key in a bucket's own entry or in a node: the link on, its lowest bit saying whether
/// the key is here, and the value. Two words, because more would be handed on through memory.
struct Seek<const IN_BUCKET: bool>(u64);

impl<const IN_BUCKET: bool> Look for Seek<IN_BUCKET> {
    type Out = (u64, u64);
    #[inline(always)]
    fn look(&mut self, words: Words<'_>) -> Self::Out {
        let (key, value, link) = (words.get(0), words.get(1), words.get(2));
        let other = u64::from(key != self.0);
        let found = if IN_BUCKET { link & !other } else { link | (other ^ HOLDS) };
        (found, value)
    }
}

type Entry = (u64, u64);

/// Where a key belongs.
struct Home {
    place: Ref<Bucket>,
    bucket: Bucket,
    /// The posts of a split bucket.
    posts: Option<(Ref<Posts>, Posts)>,
    /// Bits of the hash that led here from the first bucket.
    bits: u32,
}

impl Home {
    fn next(&self) -> Ref<Node> {
        self.posts.map_or_else(|| self.bucket.link(), |(_, posts)| posts.next)
    }

    fn splits(&self) -> usize {
        self.posts.map_or(0, |(_, posts)| posts.count as usize)
    }

    /// Puts `entry` into the bucket and `next` at the head of its chain.
    fn set<A: Access>(
        &self,
        tx: &mut A,
        entry: Option<Entry>,
        next: Ref<Node>,
    ) -> Result<(), Abort> {
        let mut bucket = self.bucket.with(entry);
        match self.posts {
            Some((at, posts)) if posts.next != next => tx.write(at, &Posts { next, ..posts })?,
            Some(_) => {}
            None => bucket.link = next.offset() | bucket.link & HOLDS,
        }
        if bucket == self.bucket { Ok(()) } else { tx.write(self.place, &bucket) }
    }

    fn entry(&self) -> Option<Entry> {
        self.bucket.is_held().then_some((self.bucket.key, self.bucket.value))
    }
}

/// A durable hash map.
#[derive(Clone, Debug)]
pub struct HashMap {
    at: Ref<HashHead>,
    buckets: Arc<[Ref<Bucket>]>,
}

impl HashMap {
    /// Makes a map of `buckets` buckets.
    ///
    /// # Errors
    /// `Kind::Usage` for no buckets, `Kind::Full`, a conflict.
    pub fn create<A: Access>(tx: &mut A, buckets: usize) -> Result<HashMap, Abort> {
        if buckets == 0 {
            return Err(Error::new(Kind::Usage, "a hash map needs at least one bucket").into());
        }
        let all = (0..buckets).map(|_| tx.alloc(&EMPTY)).collect::<Result<Arc<[_]>, Abort>>()?;
        let mut first = Ref::NULL;
        for chunk in all.chunks(FANOUT).rev() {
            let mut piece = Directory { buckets: [Ref::NULL; FANOUT], next: first };
            piece.buckets[..chunk.len()].copy_from_slice(chunk);
            first = tx.alloc(&piece)?;
        }
        let at = tx.alloc(&HashHead { buckets: buckets as u64, first })?;
        Ok(HashMap { at, buckets: all })
    }

    /// Opens the map at `at`.
    ///
    /// # Errors
    /// `Kind::BadReference` when there is none, `Kind::Corrupt` when its directory has another
    /// length than it says, a conflict.
    pub fn open<A: Access>(tx: &mut A, at: Ref<HashHead>) -> Result<HashMap, Abort> {
        let head = tx.read(at)?;
        let (mut all, mut piece) = (Vec::new(), head.first);
        let mut trail = Trail::new();
        while !piece.is_null() && (all.len() as u64) < head.buckets {
            trail.step(piece)?;
            let directory = tx.read(piece)?;
            all.extend(directory.buckets);
            piece = directory.next;
        }
        let is_whole = head.buckets > 0 && piece.is_null() && all.len() as u64 >= head.buckets;
        if !is_whole {
            let text = format!(
                "offset {:#x}, {}: says it has {} buckets, its directory has another length",
                at.offset(),
                HashHead::NAME,
                head.buckets
            );
            return Err(Error::new(Kind::Corrupt, text).into());
        }
        all.truncate(head.buckets as usize);
        Ok(HashMap { at, buckets: all.into() })
    }

    /// The root record.
    pub fn at(&self) -> Ref<HashHead> {
        self.at
    }

    /// Every entry, in no order.
    ///
    /// # Errors
    /// A conflict; `Kind::Corrupt` where links lead back to what was reached before.
    pub fn entries<A: Access>(&self, tx: &mut A) -> Result<Vec<(u64, u64)>, Abort> {
        let (mut all, mut waiting) = (Vec::new(), self.buckets.to_vec());
        let mut reached = HashSet::new();
        while let Some(at) = waiting.pop() {
            if !reached.insert(at.offset()) {
                return Err(reached_twice(at));
            }
            let bucket: Bucket = tx.read(at)?;
            all.extend(bucket.is_held().then_some((bucket.key, bucket.value)));
            let mut next = bucket.link();
            if bucket.is_split() {
                let posts: Posts = tx.read(bucket.link())?;
                let count = (posts.count as usize).min(POSTS_MAX);
                waiting.extend_from_slice(&posts.buckets[..count]);
                next = posts.next;
            }
            all.extend(chain(tx, next)?.1);
        }
        Ok(all)
    }

    /// Ends the map with all its entries; its names go with it. The transaction holds as many
    /// objects as the map has. Other handles of the map must not be used once it has committed: a
    /// handle knows the buckets, and these may serve another map by then.
    ///
    /// # Errors
    /// A conflict; `Kind::Corrupt`, `Kind::BadReference` for damaged links.
    pub fn destroy<A: Access>(self, tx: &mut A) -> Result<(), Abort> {
        changing(tx, |tx| {
            let mut waiting = self.buckets.to_vec();
            while let Some(at) = waiting.pop() {
                let bucket: Bucket = tx.read(at)?;
                let mut next = bucket.link();
                if bucket.is_split() {
                    let place: Ref<Posts> = bucket.link();
                    let posts = tx.read(place)?;
                    let count = (posts.count as usize).min(POSTS_MAX);
                    waiting.extend_from_slice(&posts.buckets[..count]);
                    next = posts.next;
                    tx.free(place)?;
                }
                let (nodes, _) = chain(tx, next)?;
                nodes.into_iter().try_for_each(|node| tx.free(node))?;
                tx.free(at)?;
            }
            let mut piece = tx.read(self.at)?.first;
            while !piece.is_null() {
                let next = tx.read(piece)?.next;
                tx.free(piece)?;
                piece = next;
            }
            tx.free(self.at)
        })
    }

    /// The first bucket of a key, and the bits of its hash that say where it goes from there.
    #[inline]
    fn first(&self, key: u64) -> (Ref<Bucket>, u64) {
        let hash = mix(key.wrapping_add(0x9e37_79b9_7f4a_7c15));
        let product = u128::from(hash) * self.buckets.len() as u128;
        (self.buckets[(product >> 64) as usize], product as u64)
    }

    fn home<A: Access>(&self, tx: &mut A, key: u64) -> Result<Home, Abort> {
        let (mut place, mut rest) = self.first(key);
        let mut bits = 0;
        loop {
            let bucket = tx.read(place)?;
            if !bucket.is_split() {
                return Ok(Home { place, bucket, posts: None, bits });
            }
            let at = bucket.link();
            let posts: Posts = tx.read(at)?;
            let zeros = rest.leading_zeros();
            match posts.buckets.get(zeros as usize).filter(|_| u64::from(zeros) < posts.count) {
                Some(&to) => place = to,
                None => return Ok(Home { place, bucket, posts: Some((at, posts)), bits }),
            }
            rest <<= zeros + 1;
            bits += zeros + 1;
        }
    }

    /// The value of a key whose first bucket has been split, and does not hold it.
    #[cold]
    fn get_split<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort> {
        let home = self.home(tx, key)?;
        if home.bucket.holds(key) {
            return Ok(Some(home.bucket.value));
        }
        get_chained(tx, home.next(), key)
    }

    /// Splits the bucket at `home`: keys whose hash has a one at the next bit go to a new bucket.
    #[cold]
    fn split<A: Access>(&self, tx: &mut A, home: &Home) -> Result<(), Abort> {
        let (nodes, mut entries) = chain(tx, home.next())?;
        entries.extend(home.entry());
        let bit = home.bits + home.splits() as u32;
        let goes = |&(key, _): &Entry| self.first(key).1.checked_shl(bit).unwrap_or(0) >> 63 == 1;
        let (gone, kept): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(goes);
        let mut spare = nodes.into_iter();
        let (first, next) = relink(tx, &gone, &mut spare)?;
        let new = tx.alloc(&Bucket { link: next.offset(), ..EMPTY }.with(first))?;
        let (first, next) = relink(tx, &kept, &mut spare)?;
        let (at, posts) = home.posts.unzip();
        let none = Posts { next: Ref::NULL, count: 0, buckets: [Ref::NULL; POSTS_MAX] };
        let mut posts = Posts { next, ..posts.unwrap_or(none) };
        posts.buckets[posts.count as usize] = new;
        posts.count += 1;
        let at = match at {
            Some(at) => tx.write(at, &posts).map(|()| at)?,
            None => tx.alloc(&posts)?,
        };
        let split = Bucket { link: at.offset() | SPLIT, ..EMPTY };
        tx.write(home.place, &split.with(first))?;
        spare.try_for_each(|node| tx.free(node))
    }
}

#[cold]
fn reached_twice(at: Ref<Bucket>) -> Abort {
    let text = format!("the bucket at {at:?} is reached twice: the map is damaged");
    Error::new(Kind::Corrupt, text).at_offset(at.offset()).into()
}

/// The value of `key` in the chain from `at` on.
#[inline(always)]
fn get_chained<A: Access>(tx: &mut A, mut at: Ref<Node>, key: u64) -> Result<Option<u64>, Abort> {
    let mut trail = Trail::new();
    while !at.is_null() {
        trail.step(at)?;
        let (next, value) = tx.look(at, Seek::<false>(key))?;
        if next & HOLDS != 0 {
            return Ok(Some(value));
        }
        at = Ref::from_offset(next);
    }
    Ok(None)
}

/// The nodes of a chain and their entries.
fn chain<A: Access>(tx: &mut A, mut at: Ref<Node>) -> Result<(Vec<Ref<Node>>, Vec<Entry>), Abort> {
    let (mut nodes, mut entries) = (Vec::new(), Vec::new());
    let mut trail = Trail::new();
    while !at.is_null() {
        trail.step(at)?;
        let node = tx.read(at)?;
        nodes.push(at);
        entries.push((node.key, node.value));
        at = node.next;
    }
    Ok((nodes, entries))
}

/// Chains all entries but the first over spare nodes; the first and the chain's head.
fn relink<A: Access>(
    tx: &mut A,
    entries: &[Entry],
    spare: &mut impl Iterator<Item = Ref<Node>>,
) -> Result<(Option<Entry>, Ref<Node>), Abort> {
    let Some((&first, rest)) = entries.split_first() else { return Ok((None, Ref::NULL)) };
    let mut next = Ref::NULL;
    for &(key, value) in rest {
        let node = spare.next().expect("invariant: one entry of each part needs no node");
        tx.write(node, &Node { key, value, next })?;
        next = node;
    }
    Ok((Some(first), next))
}

impl Map for HashMap {
    #[inline]
    fn get<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort> {
        let (link, value) = tx.look(self.first(key).0, Seek::<true>(key))?;
        if link & HOLDS != 0 {
            return Ok(Some(value));
        }
        if link & SPLIT != 0 {
            return self.get_split(tx, key);
        }
        get_chained(tx, Ref::from_offset(link), key)
    }

    fn insert<A: Access>(&self, tx: &mut A, key: u64, value: u64) -> Result<Option<u64>, Abort> {
        changing(tx, |tx| {
            let mut home = self.home(tx, key)?;
            let held = home.entry();
            if held.is_none_or(|e| e.0 == key) {
                home.set(tx, Some((key, value)), home.next())?;
                return Ok(held.map(|e| e.1));
            }
            let (mut at, mut nodes) = (home.next(), 0);
            let mut trail = Trail::new();
            while !at.is_null() {
                trail.step(at)?;
                let node = tx.read(at)?;
                if node.key == key {
                    tx.write(at, &Node { value, ..node })?;
                    return Ok(Some(node.value));
                }
                (at, nodes) = (node.next, nodes + 1);
            }
            if nodes >= CHAIN_MAX && home.splits() < POSTS_MAX {
                self.split(tx, &home)?;
                home = self.home(tx, key)?;
            }
            if home.entry().is_none() {
                return home.set(tx, Some((key, value)), home.next()).map(|()| None);
            }
            let node = tx.alloc(&Node { key, value, next: home.next() })?;
            home.set(tx, home.entry(), node).map(|()| None)
        })
    }

    fn remove<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort> {
        changing(tx, |tx| {
            let home = self.home(tx, key)?;
            let mut at = home.next();
            if home.bucket.holds(key) {
                if at.is_null() {
                    home.set(tx, None, at)?;
                } else {
                    let Node { key, value, next } = tx.read(at)?;
                    home.set(tx, Some((key, value)), next)?;
                    tx.free(at)?;
                }
                return Ok(Some(home.bucket.value));
            }
            let (mut before, mut trail) = (None, Trail::new());
            while !at.is_null() {
                trail.step(at)?;
                let node = tx.read(at)?;
                if node.key == key {
                    match before {
                        None => home.set(tx, home.entry(), node.next)?,
                        Some((b, n)) => tx.write(b, &Node { next: node.next, ..n })?,
                    }
                    tx.free(at)?;
                    return Ok(Some(node.value));
                }
                before = Some((at, node));
                at = node.next;
            }
            Ok(None)
        })
    }
}

impl Checked for HashHead {
    fn check(at: u64, ob: &mut Audit<'_>) -> Result<(), Damage> {
        let head: HashHead = ob.enter(at)?;
        let (mut buckets, mut piece) = (Vec::new(), head.first);
        while !piece.is_null() {
            let directory: Directory = ob.enter(piece.offset())?;
            buckets.extend(directory.buckets);
            piece = directory.next;
        }
        let pieces = buckets.len().div_ceil(FANOUT) as u64;
        if head.buckets == 0 || head.buckets.div_ceil(FANOUT as u64) != pieces {
            return Err(ob.damage(at, format!("says it has {} buckets", head.buckets)));
        }
        let (used, beyond) = buckets.split_at(head.buckets as usize);
        if beyond.iter().any(|b| !b.is_null()) {
            return Err(ob.damage(at, "its directory has buckets beyond its length".to_owned()));
        }
        let map = HashMap { at: Ref::from_offset(at), buckets: used.into() };
        // Buckets to check, each with the bits of a hash that lead there from the first bucket.
        let firsts = used.iter().enumerate().map(|(i, &b)| (b, i, Vec::new()));
        let mut waiting: Vec<(Ref<Bucket>, usize, Vec<u32>)> = firsts.collect();
        while let Some((at, first, steps)) = waiting.pop() {
            for (i, bucket) in map.check_bucket(ob, at, first, &steps)?.into_iter().enumerate() {
                waiting.push((bucket, first, [&steps[..], &[i as u32]].concat()));
            }
        }
        Ok(())
    }
}

impl HashMap {
    /// Checks a bucket and its chain; the buckets that its posts lead to.
    fn check_bucket(
        &self,
        ob: &mut Audit<'_>,
        at: Ref<Bucket>,
        first: usize,
        steps: &[u32],
    ) -> Result<Vec<Ref<Bucket>>, Damage> {
        let bucket: Bucket = ob.enter(at.offset())?;
        let (mut next, mut onwards) = (bucket.link(), Vec::new());
        if bucket.is_split() {
            let posts: Posts = ob.enter(bucket.link::<Posts>().offset())?;
            let count = usize::try_from(posts.count).ok().filter(|c| (1..=POSTS_MAX).contains(c));
            let Some(count) = count else {
                return Err(ob.damage(at.offset(), format!("says it has {} posts", posts.count)));
            };
            onwards = posts.buckets[..count].to_vec();
            next = posts.next;
        }
        let mut keys: Vec<u64> = bucket.is_held().then_some(bucket.key).into_iter().collect();
        while !next.is_null() {
            let node: Node = ob.enter(next.offset())?;
            keys.push(node.key);
            next = node.next;
        }
        // The flag's bit may be what changed: an entry that is not there has left zeros.
        let is_left = !keys.is_empty() || (bucket.key, bucket.value) != (0, 0);
        if !bucket.is_held() && is_left && !mutant!("hash_lost_entry_unseen") {
            return Err(ob.damage(at.offset(), "it does not show the entry it has".to_owned()));
        }
        let total = keys.len();
        let stray = keys.iter().find(|&&k| !self.belongs(k, first, steps, onwards.len()));
        if let Some(key) = stray {
            return Err(ob.damage(at.offset(), format!("key {key} does not belong there")));
        }
        keys.sort_unstable();
        keys.dedup();
        if keys.len() < total {
            return Err(ob.damage(at.offset(), "it holds a key twice".to_owned()));
        }
        Ok(onwards)
    }

    /// Whether a key is led to the bucket reached from the first one by `steps`, and stays there,
    /// past its `splits` posts.
    fn belongs(&self, key: u64, first: usize, steps: &[u32], splits: usize) -> bool {
        let (found, mut rest) = self.first(key);
        for &zeros in steps {
            if rest.leading_zeros() != zeros {
                return false;
            }
            rest = rest.checked_shl(zeros + 1).unwrap_or(0);
        }
        found == self.buckets[first] && rest.leading_zeros() >= splits as u32
    }
}
