//! What only the crate itself can set up.

use std::sync::Arc;

use littoral_device::pmem::{Dram, Sim};

use super::*;
use crate::word::EPOCHS_MAX;

crate::record! {
    struct Cell = "test.cell/1" { value: u64 }
}

const OPTIONS: Options = Options { threads_max: 2, slab_bytes: Some(1024) };

#[test]
fn a_slot_at_the_end_of_its_clock_is_not_handed_out_while_others_are_free() {
    let sim = Arc::new(Sim::new(16 << 10));
    let pool = Pool::create(Arc::clone(&sim), &OPTIONS).unwrap();
    let cell = pool.thread().unwrap().atomically(|tx| tx.alloc(&Cell { value: 0 })).unwrap();
    let layout = pool.layout;
    drop(pool);
    for tid in 0..2 {
        Frontier::write_clock(&sim, &layout, tid, CLOCK_MAX - 3);
    }
    sim.fence().unwrap();
    let mut value = 0;
    for round in 0..6 {
        // Each session ends without a word: to the medium that is a crash.
        let pool = Pool::open(Arc::clone(&sim), Restart::Lazy).unwrap();
        let mut th = match pool.thread() {
            Ok(th) => th,
            Err(ended) => {
                assert_eq!(ended.kind(), Kind::ClockExhausted, "round {round}: {ended}");
                assert!(round >= 2, "two slots, two transactions each: {ended}");
                continue;
            }
        };
        loop {
            match th.atomically(|tx| tx.write(cell, &Cell { value: value + 1 })) {
                Ok(()) => value += 1,
                Err(ended) => {
                    assert_eq!(ended.kind(), Kind::ClockExhausted);
                    break;
                }
            }
        }
        std::mem::forget(th);
    }
    assert_eq!(value, 4, "all that the two clocks held");
    let pool = Pool::open(Arc::clone(&sim), Restart::Scan).unwrap();
    let found = pool.object_at(cell.offset()).unwrap().unwrap();
    assert_eq!(found.words, [4]);
}

#[test]
fn the_last_snapshots_of_a_session_are_refused_and_leave_the_epoch_as_it_is() {
    let pool = Pool::create(Dram::new(16 << 10), &OPTIONS).unwrap();
    let mut th = pool.thread().unwrap();
    let cell = th.atomically(|tx| tx.alloc(&Cell { value: 7 })).unwrap();
    pool.calm.epoch.store(EPOCHS_MAX - 1, Ordering::SeqCst);
    assert_eq!(th.snapshot(|tx| tx.read(cell)).unwrap().value, 7);
    for _ in 0..3 {
        assert_eq!(th.snapshot(|tx| tx.read(cell)).unwrap_err().kind(), Kind::Usage);
        assert_eq!(pool.calm.epoch.load(Ordering::SeqCst), EPOCHS_MAX);
    }
}

/// Memory of a process that may have forked.
struct OfParent(Dram, AtomicBool);

macro_rules! inner {
    ($self:ident, $($call:tt)+) => {
        $self.0.$($call)+
    };
}

impl Domain for OfParent {
    littoral_device::forward_domain!(inner: len promise word store compare_exchange write_back
        invalidate fence);

    fn owner_before_fork(&self) -> Option<u32> {
        self.1.load(Ordering::Relaxed).then_some(4711)
    }
}

#[test]
fn a_handle_that_a_forked_child_drops_asks_for_no_lock() {
    let domain = OfParent(Dram::new(16 << 10), AtomicBool::new(false));
    let pool = Pool::create(domain, &OPTIONS).unwrap();
    let mut th = pool.thread().unwrap();
    let cell = th.atomically(|tx| tx.alloc(&Cell { value: 0 })).unwrap();
    th.atomically(|tx| tx.free(cell)).unwrap();
    let slab = pool.layout.slab_of(cell.offset() as usize);
    let spare = pool.spare.lock().unwrap().count(slab);
    pool.domain.1.store(true, Ordering::Relaxed);
    drop(th);
    // Both lie behind locks that another thread may have held at the fork.
    assert_eq!(pool.slots.lock().unwrap().taken, 1);
    assert_eq!(pool.spare.lock().unwrap().count(slab), spare);
}

#[test]
fn the_other_slot_is_taken_where_the_first_has_ended() {
    let pool = Pool::create(Dram::new(16 << 10), &OPTIONS).unwrap();
    pool.slots.lock().unwrap().clocks[0] = CLOCK_MAX - 1;
    let th = pool.thread().unwrap();
    assert_eq!(th.tid, 1);
    let none = pool.thread().unwrap_err();
    assert_eq!(none.kind(), Kind::ClockExhausted);
    drop(th);
    assert_eq!(pool.thread().unwrap().tid, 1);
}
