//! A chained hash map whose buckets hold their first entry themselves.
//!
//! - A bucket and a chain node are three words, so both versions of either share one cache line: a
//!   lookup at load one touches one record, an insertion into an empty bucket allocates nothing.
//! - The number of buckets is fixed at creation; chains grow beyond it.
//! - The directory of buckets is read into memory when the map is opened: buckets never move.

use std::sync::Arc;

use littoral_base::rng::mix;

use super::Map;
use crate::error::{Abort, Error, Kind};
use crate::record::Ref;
use crate::tx::Access;

const FANOUT: usize = 60;

crate::record! {
    /// A hash map's root record.
    pub struct HashHead = "littoral.hash.head/1" { buckets: u64, first: Ref<Directory> }
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
        /// The offset of the next node, plus one when the bucket holds an entry.
        link: u64,
    }
}
crate::record! {
    /// A further entry of a bucket.
    pub(super) struct Node = "littoral.hash.node/1" { key: u64, value: u64, next: Ref<Node> }
}

const EMPTY: Bucket = Bucket { key: 0, value: 0, link: 0 };

impl Bucket {
    fn holds(&self, key: u64) -> bool {
        self.link & 1 == 1 && self.key == key
    }
    fn next(&self) -> Ref<Node> {
        Ref::from_offset(self.link & !1)
    }
    fn with_next(self, next: Ref<Node>) -> Bucket {
        Bucket { link: next.offset() | self.link & 1, ..self }
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
    /// `Kind::BadReference` when there is none, a conflict.
    pub fn open<A: Access>(tx: &mut A, at: Ref<HashHead>) -> Result<HashMap, Abort> {
        let head = tx.read(at)?;
        let (mut all, mut piece) = (Vec::new(), head.first);
        while !piece.is_null() {
            let directory = tx.read(piece)?;
            all.extend(directory.buckets);
            piece = directory.next;
        }
        all.truncate(head.buckets as usize);
        Ok(HashMap { at, buckets: all.into() })
    }

    /// The root record.
    pub fn at(&self) -> Ref<HashHead> {
        self.at
    }

    #[inline]
    fn bucket(&self, key: u64) -> Ref<Bucket> {
        let hash = mix(key.wrapping_add(0x9e37_79b9_7f4a_7c15));
        self.buckets[((u128::from(hash) * self.buckets.len() as u128) >> 64) as usize]
    }
}

impl Map for HashMap {
    #[inline]
    fn get<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort> {
        let bucket = tx.read(self.bucket(key))?;
        if bucket.holds(key) {
            return Ok(Some(bucket.value));
        }
        let mut at = bucket.next();
        while !at.is_null() {
            let node = tx.read(at)?;
            if node.key == key {
                return Ok(Some(node.value));
            }
            at = node.next;
        }
        Ok(None)
    }

    fn insert<A: Access>(&self, tx: &mut A, key: u64, value: u64) -> Result<Option<u64>, Abort> {
        let place = self.bucket(key);
        let bucket = tx.read(place)?;
        if bucket.link & 1 == 0 || bucket.holds(key) {
            tx.write(place, &Bucket { key, value, link: bucket.link | 1 })?;
            return Ok(bucket.holds(key).then_some(bucket.value));
        }
        let mut at = bucket.next();
        while !at.is_null() {
            let node = tx.read(at)?;
            if node.key == key {
                tx.write(at, &Node { value, ..node })?;
                return Ok(Some(node.value));
            }
            at = node.next;
        }
        let node = tx.alloc(&Node { key, value, next: bucket.next() })?;
        tx.write(place, &bucket.with_next(node))?;
        Ok(None)
    }

    fn remove<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort> {
        let place = self.bucket(key);
        let bucket = tx.read(place)?;
        let mut at = bucket.next();
        if bucket.holds(key) {
            if at.is_null() {
                tx.write(place, &EMPTY)?;
            } else {
                let Node { key, value, next } = tx.read(at)?;
                tx.write(place, &Bucket { key, value, link: next.offset() | 1 })?;
                tx.free(at)?;
            }
            return Ok(Some(bucket.value));
        }
        let mut before = None;
        while !at.is_null() {
            let node = tx.read(at)?;
            if node.key == key {
                match before {
                    None => tx.write(place, &bucket.with_next(node.next))?,
                    Some((b, n)) => tx.write(b, &Node { next: node.next, ..n })?,
                }
                tx.free(at)?;
                return Ok(Some(node.value));
            }
            before = Some((at, node));
            at = node.next;
        }
        Ok(None)
    }
}
