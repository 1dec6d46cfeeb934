//! The structures that threads read without locks under loom: every schedule of one that extends
//! or replaces and of those that read.
//!
//! `scripts/schedules.sh loom` runs it.
#![cfg(loom)]

use littoral_base::sync::atomic::{AtomicUsize, Ordering};
use littoral_base::sync::{Arc, thread};
use littoral_la64::shared::{Current, Index, Keyed, List, Reader};

#[test]
fn a_list_shows_whole_elements_in_order() {
    loom::model(|| {
        let list = Arc::new(List::default());
        let other = list.clone();
        let writer = thread::spawn(move || {
            other.append(&[(1u32, 10u32)]);
            other.append(&[(2, 20), (3, 30)]);
        });
        let len = list.len();
        assert!((0..len).all(|n| list.get(n) == Some((n as u32 + 1, 10 * (n as u32 + 1)))));
        // Both came in one piece, so the one before the last is there with it.
        let last = list.find(3, |e| e.0);
        assert!(last.is_none() || list.find(2, |e| e.0) == Some((2, 20)));
        writer.join().unwrap();
        assert_eq!(list.find(3, |e| e.0), Some((3, 30)));
    });
}

#[derive(Debug, PartialEq)]
struct Value(u64, u64);

impl Keyed for Value {
    fn key(&self) -> u64 {
        self.0
    }
}

/// Two threads insert, so that the table grows; a third finds what was there before, and then a
/// newer value or the same.
#[test]
fn an_index_never_loses_a_key() {
    loom::model(|| {
        let index = Arc::new(Index::default());
        index.insert(Value(4, 1));
        let other = index.clone();
        let writer = thread::spawn(move || {
            other.insert(Value(8, 1));
            other.insert(Value(4, 2));
        });
        let first = index.find(4).map(|v| v.1).expect("inserted before");
        let second = index.find(4).map(|v| v.1).expect("inserted before");
        assert!(first <= second);
        writer.join().unwrap();
        assert_eq!(index.find(4).map(|v| v.1), Some(2));
        assert_eq!(index.find(8).map(|v| v.1), Some(1));
    });
}

/// A version that says when it is freed.
struct Version(Arc<AtomicUsize>);

impl Drop for Version {
    fn drop(&mut self) {
        self.0.store(1, Ordering::Relaxed);
    }
}

#[test]
fn a_pinned_version_is_not_freed() {
    loom::model(|| {
        let freed: [Arc<AtomicUsize>; 2] = std::array::from_fn(|_| Arc::new(AtomicUsize::new(0)));
        let current = Arc::new(Current::new(Version(freed[0].clone())));
        let mut reader = Reader::new(&current);
        let (other, second) = (current.clone(), freed[1].clone());
        let writer = thread::spawn(move || other.replace(|| Version(second), |_| true));
        let pinned = reader.pin();
        assert_eq!(pinned.0.load(Ordering::Relaxed), 0, "in use");
        drop(pinned);
        writer.join().unwrap();
        // The next pin finds the new version; leaving it frees the old one.
        assert!(Arc::ptr_eq(&reader.pin().0, &freed[1]));
        drop(reader.pin());
        assert_eq!(freed[0].load(Ordering::Relaxed), 1);
        assert_eq!(freed[1].load(Ordering::Relaxed), 0);
    });
}
