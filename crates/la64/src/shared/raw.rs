//! Lists, an index and versioned values that are read without locks.
//!
//! - A [`List`] and an [`Index`] only grow; what they hold lives as long as they do. Elements are
//!   written before the length or the slot that makes them visible.
//! - A [`Current`] frees a replaced version only after it has seen, behind a full fence, that no
//!   [`Reader`] names it. A reader names a version, passes a full fence and then compares it with
//!   the current one, so one of the two sees the other.
//!
//! Unsafe because readers follow pointers that another thread publishes.
#![allow(unsafe_code)]

use littoral_base::mutant;
use littoral_base::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use littoral_base::sync::{Arc, Mutex, MutexGuard, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// The lock, also if a thread panicked while it held it: every section leaves the data sound.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Elements of a list's first chunk; each next chunk has twice as many.
const FIRST_CHUNK: usize = if cfg!(loom) { 1 } else { 64 };
const CHUNKS: usize = if cfg!(loom) { 3 } else { 24 };

type Slot<T> = UnsafeCell<MaybeUninit<T>>;

/// Elements in the order in which they were appended.
pub struct List<T> {
    chunks: [AtomicPtr<Slot<T>>; CHUNKS],
    len: AtomicUsize,
    appending: Mutex<()>,
}

// SAFETY: elements are plain data, written once before others can reach them.
unsafe impl<T: Copy + Send + Sync> Sync for List<T> {}
// SAFETY: as above.
unsafe impl<T: Copy + Send + Sync> Send for List<T> {}

impl<T> std::fmt::Debug for List<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("List").finish_non_exhaustive()
    }
}

/// The chunk of element `n`, and its place there.
fn place(n: usize) -> (usize, usize) {
    let chunk = (n / FIRST_CHUNK + 1).ilog2() as usize;
    (chunk, n - FIRST_CHUNK * ((1 << chunk) - 1))
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        let chunks = std::array::from_fn(|_| AtomicPtr::new(null_mut()));
        List { chunks, len: AtomicUsize::new(0), appending: Mutex::new(()) }
    }
}

impl<T: Copy> List<T> {
    /// Elements.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element `n`; `None` if there are fewer. Takes no lock: a signal handler may call it.
    pub fn get(&self, n: usize) -> Option<T> {
        (n < self.len()).then(|| self.at(n))
    }

    /// Element `n`, below a length that was read before.
    fn at(&self, n: usize) -> T {
        let (chunk, place) = place(n);
        let chunk = self.chunks[chunk].load(Ordering::Acquire);
        // SAFETY: the length was read after the element and its chunk were written, and neither
        // changes again.
        unsafe { (*chunk.add(place)).with(|slot| (*slot).assume_init()) }
    }

    /// The element with this key, in a list that is sorted by it. Takes no lock.
    pub fn find<K: Ord>(&self, key: K, key_of: impl Fn(&T) -> K) -> Option<T> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.at(middle);
            match key_of(&found).cmp(&key) {
                std::cmp::Ordering::Equal => return Some(found),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Appends elements: the place of the first.
    ///
    /// # Panics
    /// With more elements than a list can hold (over 10^9).
    pub fn append(&self, elements: &[T]) -> usize {
        let _only = lock(&self.appending);
        let first = self.len.load(Ordering::Relaxed);
        for (n, &element) in elements.iter().enumerate() {
            let (chunk, place) = place(first + n);
            // SAFETY: the slot is in its chunk; it is behind the length, so nothing reads it, and
            // the lock keeps other writers out.
            unsafe {
                let slot = self.chunk(chunk).add(place);
                (*slot).with_mut(|slot| (*slot).write(element));
            }
        }
        self.len.store(first + elements.len(), Ordering::Release);
        first
    }

    /// A chunk, made if it does not exist; the caller holds the lock.
    fn chunk(&self, n: usize) -> *mut Slot<T> {
        let chunk = self.chunks[n].load(Ordering::Relaxed);
        if !chunk.is_null() {
            return chunk;
        }
        let slots: Box<[Slot<T>]> =
            (0..FIRST_CHUNK << n).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        let chunk = Box::into_raw(slots).cast::<Slot<T>>();
        self.chunks[n].store(chunk, Ordering::Release);
        chunk
    }
}

impl<T> Drop for List<T> {
    fn drop(&mut self) {
        for (n, chunk) in self.chunks.iter_mut().enumerate() {
            let chunk = chunk.load(Ordering::Relaxed);
            if !chunk.is_null() {
                let slots = std::ptr::slice_from_raw_parts_mut(chunk, FIRST_CHUNK << n);
                // SAFETY: made by `chunk` with this length; nothing else owns it.
                drop(unsafe { Box::from_raw(slots) });
            }
        }
    }
}

/// What an [`Index`] finds by its key.
pub trait Keyed {
    /// The key.
    fn key(&self) -> u64;
}

/// Slots of an index's first table.
const FIRST_TABLE: usize = if cfg!(loom) { 2 } else { 256 };

/// A value, and its key beside it, so that a probe that passes by does not read the value. The key
/// is written once, before the first value.
struct Entry<T> {
    key: AtomicU64,
    item: AtomicPtr<T>,
}

struct Table<T>(Box<[Entry<T>]>);

impl<T> Entry<T> {
    /// Lets the entry, which is free or has this key, have a value. The caller keeps other writers
    /// out.
    fn set(&self, key: u64, item: *mut T) {
        self.key.store(key, Ordering::Relaxed);
        self.item.store(item, Ordering::Release);
    }
}

impl<T: Keyed> Table<T> {
    fn new(len: usize) -> Table<T> {
        let entry = |_| Entry { key: AtomicU64::new(0), item: AtomicPtr::new(null_mut()) };
        Table((0..len).map(entry).collect())
    }

    /// The entry of this key, or the free one where it belongs; and its value, or null.
    fn entry(&self, key: u64) -> (&Entry<T>, *mut T) {
        let mask = self.0.len() - 1;
        let mut at = ((key >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            let entry = &self.0[at];
            let item = entry.item.load(Ordering::Acquire);
            if item.is_null() || entry.key.load(Ordering::Relaxed) == key {
                return (entry, item);
            }
            at = (at + 1) & mask;
        }
    }
}

/// What an index owns.
struct Owned<T> {
    /// The latest one is current; readers may still be in earlier ones.
    tables: Vec<*mut Table<T>>,
    items: Vec<*mut T>,
    keys_count: usize,
}

/// One value per key; the latest insertion is found.
pub struct Index<T> {
    table: AtomicPtr<Table<T>>,
    owned: Mutex<Owned<T>>,
}

// SAFETY: values are reached by shared references alone.
unsafe impl<T: Send + Sync> Sync for Index<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Index<T> {}

impl<T> std::fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").finish_non_exhaustive()
    }
}

impl<T: Keyed> Default for Index<T> {
    fn default() -> Index<T> {
        let table = Box::into_raw(Box::new(Table::new(FIRST_TABLE)));
        let owned = Owned { tables: vec![table], items: Vec::new(), keys_count: 0 };
        Index { table: AtomicPtr::new(table), owned: Mutex::new(owned) }
    }
}

impl<T: Keyed> Index<T> {
    /// The value of a key. Takes no lock.
    pub fn find(&self, key: u64) -> Option<&T> {
        // SAFETY: the index owns every table and value to its end.
        unsafe { (*self.table.load(Ordering::Acquire)).entry(key).1.as_ref() }
    }

    /// Adds a value in the place of the one with its key: the new one, and the old one, which
    /// stays alive.
    pub fn insert(&self, value: T) -> (&T, Option<&T>) {
        let item = Box::into_raw(Box::new(value));
        let mut owned = lock(&self.owned);
        owned.items.push(item);
        // SAFETY: as `find`; `item` was made above.
        let (mut table, key) = unsafe { (&*self.table.load(Ordering::Relaxed), (*item).key()) };
        if 4 * (owned.keys_count + 1) > 3 * table.0.len() {
            // SAFETY: as `find`.
            table = unsafe { &*self.grow(&mut owned, 2 * table.0.len()) };
        }
        let (entry, old) = table.entry(key);
        owned.keys_count += usize::from(old.is_null());
        entry.set(key, item);
        // SAFETY: as `find`.
        unsafe { (&*item, old.as_ref()) }
    }

    /// A table of `len` slots with all keys of the current one, which it replaces.
    fn grow(&self, owned: &mut Owned<T>, len: usize) -> *mut Table<T> {
        let table = Table::new(len);
        // SAFETY: as `find`.
        let old = unsafe { &*self.table.load(Ordering::Relaxed) };
        for entry in &old.0 {
            let item = entry.item.load(Ordering::Relaxed);
            if !item.is_null() {
                let key = entry.key.load(Ordering::Relaxed);
                table.entry(key).0.set(key, item);
            }
        }
        let table = Box::into_raw(Box::new(table));
        owned.tables.push(table);
        self.table.store(table, Ordering::Release);
        table
    }

    /// Keys, and values that were inserted in all.
    pub fn counts(&self) -> (usize, usize) {
        let owned = lock(&self.owned);
        (owned.keys_count, owned.items.len())
    }
}

impl<T> Drop for Index<T> {
    fn drop(&mut self) {
        let owned = lock(&self.owned);
        // SAFETY: `insert`, `grow` and `default` made them; nothing refers to them any more.
        unsafe {
            owned.items.iter().for_each(|&item| drop(Box::from_raw(item)));
            owned.tables.iter().for_each(|&table| drop(Box::from_raw(table)));
        }
    }
}

/// A pointer that a reader publishes: the version it uses, or null.
type Pin<T> = Arc<AtomicPtr<T>>;

struct Versions<T> {
    readers: Vec<Pin<T>>,
    /// Versions that were replaced and that a reader may use.
    retired: Vec<*mut T>,
}

/// The one current version of a value.
pub struct Current<T> {
    now: AtomicPtr<T>,
    retired_count: AtomicUsize,
    versions: Mutex<Versions<T>>,
}

// SAFETY: versions are reached by shared references, and are freed by any thread.
unsafe impl<T: Send + Sync> Sync for Current<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Current<T> {}

impl<T> std::fmt::Debug for Current<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Current").finish_non_exhaustive()
    }
}

impl<T> Current<T> {
    /// A first version.
    pub fn new(value: T) -> Current<T> {
        Current {
            now: AtomicPtr::new(Box::into_raw(Box::new(value))),
            retired_count: AtomicUsize::new(0),
            versions: Mutex::new(Versions { readers: Vec::new(), retired: Vec::new() }),
        }
    }

    /// Makes `new` the current version, if `is_wanted` says so of the one before.
    pub fn replace(&self, new: impl FnOnce() -> T, is_wanted: impl FnOnce(&T) -> bool) {
        let mut versions = lock(&self.versions);
        let old = self.now.load(Ordering::Acquire);
        // SAFETY: the current version is freed only after it was replaced, under this lock.
        if is_wanted(unsafe { &*old }) {
            let new = Box::into_raw(Box::new(new()));
            self.now.store(new, Ordering::Release);
            versions.retired.push(old);
            self.collect(&mut versions);
        }
    }

    /// Frees what no reader names; whether every replaced version is gone.
    pub fn is_left(&self) -> bool {
        let mut versions = lock(&self.versions);
        self.collect(&mut versions);
        versions.retired.is_empty()
    }

    /// Frees the replaced versions that no reader names.
    fn collect(&self, versions: &mut Versions<T>) {
        if !mutant!("loom_version_freed_without_fence") {
            fence(Ordering::SeqCst);
        }
        let Versions { readers, retired } = versions;
        retired.retain(|&old| {
            let is_used = readers.iter().any(|pin| pin.load(Ordering::Acquire) == old);
            if !is_used {
                // SAFETY: made by `replace` or `new`, no longer current, and named by no reader: a
                // reader that names it from now on sees, behind its fence, that it is not current.
                drop(unsafe { Box::from_raw(old) });
            }
            is_used
        });
        self.retired_count.store(retired.len(), Ordering::Relaxed);
    }

    /// Keeps other threads from replacing the version until the result is dropped.
    pub fn hold(&self) -> Held<'_, T> {
        let versions = lock(&self.versions);
        Held { now: self.now.load(Ordering::Acquire), _versions: versions }
    }
}

impl<T> Drop for Current<T> {
    fn drop(&mut self) {
        let versions = lock(&self.versions);
        let now = self.now.load(Ordering::Relaxed);
        for &old in versions.retired.iter().chain([&now]) {
            // SAFETY: readers own a part of this, so there are none left.
            drop(unsafe { Box::from_raw(old) });
        }
    }
}

/// The current version, which is not replaced meanwhile.
pub struct Held<'a, T> {
    now: *const T,
    _versions: MutexGuard<'a, Versions<T>>,
}

impl<'a, T> Held<'a, T> {
    /// The version.
    pub fn value(&self) -> &T {
        // SAFETY: the current one as long as the lock is held.
        unsafe { &*self.now }
    }
}

impl<T> std::fmt::Debug for Held<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

/// A thread's way to the current version.
pub struct Reader<T> {
    of: Arc<Current<T>>,
    pin: Pin<T>,
}

impl<T> std::fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl<T> Reader<T> {
    /// A reader, one per thread.
    pub fn new(of: &Arc<Current<T>>) -> Reader<T> {
        let pin = Arc::new(AtomicPtr::new(null_mut()));
        lock(&of.versions).readers.push(pin.clone());
        Reader { of: of.clone(), pin }
    }

    /// The current version, which is kept until the result is dropped.
    pub fn pin(&mut self) -> Pinned<'_, T> {
        loop {
            let now = self.of.now.load(Ordering::Acquire);
            self.pin.store(now, Ordering::Release);
            fence(Ordering::SeqCst);
            if self.of.now.load(Ordering::Acquire) == now {
                // SAFETY: named and then found current, so nothing frees it until the name is
                // taken back.
                return Pinned { value: unsafe { &*now }, reader: self };
            }
        }
    }

    /// Forgets every other reader and what they used, in a forked child, where their threads do
    /// not exist. Their versions may be in any state and are left as they are.
    pub fn survive_alone(&mut self) {
        let mut versions = lock(&self.of.versions);
        versions.readers.retain(|pin| Arc::ptr_eq(pin, &self.pin));
        versions.retired.clear();
        self.of.retired_count.store(0, Ordering::Relaxed);
    }
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        lock(&self.of.versions).readers.retain(|pin| !Arc::ptr_eq(pin, &self.pin));
    }
}

/// A version in use.
pub struct Pinned<'a, T> {
    value: &'a T,
    reader: &'a Reader<T>,
}

impl<T> std::fmt::Debug for Pinned<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pinned").finish_non_exhaustive()
    }
}

impl<T> Pinned<'_, T> {
    /// Whether no version has replaced this one.
    pub fn is_current(&self) -> bool {
        std::ptr::eq(self.reader.of.now.load(Ordering::Acquire), self.value)
    }

    /// Replaces this version unless another thread has done so.
    pub fn replace(&self, new: impl FnOnce() -> T) {
        self.reader.of.replace(new, |now| std::ptr::eq(now, self.value));
    }
}

impl<T> std::ops::Deref for Pinned<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> Drop for Pinned<'_, T> {
    fn drop(&mut self) {
        self.reader.pin.store(null_mut(), Ordering::Release);
        if self.reader.of.retired_count.load(Ordering::Relaxed) > 0 {
            let current = &self.reader.of;
            current.collect(&mut lock(&current.versions));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Value(u64, u64);

    impl Keyed for Value {
        fn key(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn a_list_finds_what_was_appended() {
        let list = List::default();
        for n in 0..1000u64 {
            assert_eq!(list.append(&[3 * n, 3 * n + 1]), 2 * n as usize);
        }
        assert_eq!((list.len(), list.get(1999), list.get(2000)), (2000, Some(2998), None));
        assert_eq!(list.find(301, |&n| n), Some(301));
        assert_eq!((list.find(302, |&n| n), list.find(9999, |&n| n)), (None, None));
    }

    #[test]
    fn an_index_finds_the_latest_value_of_each_key() {
        let index = Index::default();
        for n in 0..5000 {
            assert_eq!(index.insert(Value(4 * n, 1)), (&Value(4 * n, 1), None));
        }
        let (new, old) = index.insert(Value(400, 2));
        assert_eq!((new.1, old.map(|v| v.1)), (2, Some(1)));
        assert_eq!(index.find(400), Some(&Value(400, 2)));
        assert_eq!((index.find(404).map(|v| v.1), index.find(20_000)), (Some(1), None));
        assert_eq!(index.counts(), (5000, 5001));
    }

    /// Counts how many versions exist.
    struct Version(std::sync::Arc<()>);

    #[test]
    fn a_version_lives_while_it_is_pinned_and_no_longer() {
        let alive = std::sync::Arc::new(());
        let count = || std::sync::Arc::strong_count(&alive) - 1;
        let current = Arc::new(Current::new(Version(alive.clone())));
        let (mut one, mut two) = (Reader::new(&current), Reader::new(&current));
        let (first, other) = (one.pin(), two.pin());
        first.replace(|| Version(alive.clone()));
        assert!(!first.is_current() && count() == 2);
        // Only the current version is replaced.
        first.replace(|| Version(alive.clone()));
        assert_eq!(count(), 2);
        drop(first);
        assert_eq!(count(), 2, "the other reader uses it");
        drop(other);
        assert_eq!(count(), 1);
        {
            let pinned = one.pin();
            assert!(pinned.is_current() && std::sync::Arc::ptr_eq(&pinned.0, &alive));
        }
        drop((one, two, current));
        assert_eq!(count(), 0);
    }
}
