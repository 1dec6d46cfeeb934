//! Persistent memory that takes no more writes from any fence on: what was acknowledged is read,
//! further changes are refused, and a restart finds the state before the change that failed or
//! after it, whatever of its stores had reached the medium.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::sync::atomic::{AtomicU64, Ordering};

use littoral_device::memory::Domain;
use littoral_device::pmem::Sim;
use littoral_device::pmem::trace::Enumerate;
use littoral_device::{Error as DeviceError, Kind as DeviceKind, forward_domain};
use littoral_stm::{Kind, Options, Pool, Ref, Restart, Thread};

littoral_stm::record! {
    struct Pair = "test.pair/1" { left: u64, right: u64 }
}

const CHANGES: u64 = 6;

/// Memory that takes `left` fences and no more; what a fence took is durable.
struct Wearing {
    inner: Sim,
    left: AtomicU64,
}

macro_rules! inner {
    ($self:ident, $($call:tt)+) => {
        $self.inner.$($call)+
    };
}

impl Domain for Wearing {
    forward_domain!(inner: len promise word store store_words load_words words store_line
        compare_exchange write_back invalidate commit_point owner_before_fork shadow_stored);

    fn fence(&self) -> littoral_device::Result<()> {
        let taken =
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if taken.is_err() {
            return Err(DeviceError::new(DeviceKind::Io, "the medium takes no more writes"));
        }
        self.inner.fence()?;
        self.inner.settle();
        Ok(())
    }
}

/// The two cells of a pool, of which one's `left` is the other's `right`.
type Cells = [Ref<Pair>; 2];

fn change(th: &mut Thread<'_, Wearing>, cells: Cells, n: u64) -> littoral_stm::Result<()> {
    th.atomically(|tx| {
        tx.write(cells[0], &Pair { left: n, right: 0 })?;
        tx.write(cells[1], &Pair { left: 0, right: n })
    })
}

/// What a restart of any image that the failure can have left finds.
fn check_restarts(pool: Pool<Wearing>, cells: Cells, acknowledged: u64, place: &str) {
    let trace = pool.into_domain().inner.trace();
    let coverage = trace.enumerate(&Enumerate::default(), |image| {
        for restart in [Restart::Lazy, Restart::Scan] {
            let pool = Pool::open(Sim::from_image(image.words), restart);
            let pool = pool.map_err(|e| e.to_string())?;
            let read = |tx: &mut littoral_stm::Tx<'_, '_, Sim>| {
                Ok([tx.read(cells[0])?.left, tx.read(cells[1])?.right])
            };
            let found = pool.thread().and_then(|mut th| th.read_only(read));
            let [first, second] = found.map_err(|e| e.to_string())?;
            let is_known = [acknowledged, acknowledged + 1].contains(&first);
            if !is_known || first != second {
                return Err(format!("{first} and {second} after {acknowledged}"));
            }
        }
        Ok(())
    });
    assert_eq!(coverage.failure, None, "{place}");
    assert!(coverage.images_count > 0, "{place}");
}

/// Runs the changes on memory that takes so many fences; whether it took them all.
fn is_enough(fences: u64) -> bool {
    let place = format!("{fences} fences");
    let domain = Wearing { inner: Sim::new(16 << 10), left: fences.into() };
    let options = Options { threads_max: 2, slab_bytes: Some(1024) };
    let refused = |e: littoral_stm::Error| assert_eq!(e.kind(), Kind::Device, "{place}: {e}");
    let pool = match Pool::create(domain, &options) {
        Ok(pool) => pool,
        Err(e) => {
            refused(e);
            return false;
        }
    };
    let mut th = match pool.thread() {
        Ok(th) => th,
        Err(e) => {
            refused(e);
            return false;
        }
    };
    let nothing = Pair { left: 0, right: 0 };
    let cells = match th.atomically(|tx| Ok([tx.alloc(&nothing)?, tx.alloc(&nothing)?])) {
        Ok(cells) => cells,
        Err(e) => {
            refused(e);
            return false;
        }
    };
    for n in 1..=CHANGES {
        let Err(e) = change(&mut th, cells, n) else { continue };
        refused(e);
        let found = th.read_only(|tx| tx.read(cells[0])).unwrap();
        assert_eq!(found.left, n - 1, "{place}: what failed is not shown");
        let again = change(&mut th, cells, n + 1).unwrap_err();
        assert_eq!(again.kind(), Kind::Poisoned, "{place}: {again}");
        drop(th);
        check_restarts(pool, cells, n - 1, &place);
        return false;
    }
    drop(th);
    check_restarts(pool, cells, CHANGES, &place);
    true
}

#[test]
fn a_fence_that_fails_at_any_moment_loses_nothing() {
    let needed = (0..).find(|&fences| is_enough(fences)).unwrap();
    assert!(needed > 2 * CHANGES, "two fences per change: {needed} in all");
}
