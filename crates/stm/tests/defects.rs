//! The paper's counterexamples and defects, each replayed step by step on one thread: a second
//! handle acts inside the first one's closure or inside its fence. Each test kills one mutant.
#![cfg(not(any(loom, shuttle)))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use littoral_device::pmem::sim::as_actor;
use littoral_device::pmem::trace::{Enumerate, Tear};
use littoral_device::pmem::{Dram, Sim};
use littoral_stm::structures::{BTree, Map};
use littoral_stm::{Abort, Kind, Options, Pool, Ref, Restart, Thread};

littoral_stm::record! {
    struct Cell = "test.cell/1" { value: u64 }
}

fn options() -> Options {
    Options { threads_max: 5, slab_bytes: Some(1024) }
}

fn cells<D: littoral_device::memory::Domain, const N: usize>(pool: &Pool<D>) -> [Ref<Cell>; N] {
    let mut th = pool.thread().expect("a slot");
    let made = th.atomically(|tx| {
        let mut all = [Ref::NULL; N];
        for at in &mut all {
            *at = tx.alloc(&Cell { value: 0 })?;
        }
        Ok(all)
    });
    made.expect("room")
}

fn set(th: &mut Thread<'_, Dram>, writes: &[(Ref<Cell>, u64)]) {
    let done = th.once(|tx| writes.iter().try_for_each(|&(c, value)| tx.write(c, &Cell { value })));
    assert_eq!(done.expect("no error"), Some(()), "nothing is in this writer's way");
}

/// CE-A: a failed extension must not teach the reader the writer's clock.
#[test]
fn ce_a_a_failed_extension_poisons_nothing() {
    let pool = Pool::create(Dram::new(32 << 10), &options()).unwrap();
    let [r, a, b] = cells(&pool);
    let (mut reader, mut writer) = (pool.thread().unwrap(), pool.thread().unwrap());
    set(&mut writer, &[(r, 1), (a, 1), (b, 1)]);
    let mut seen = Vec::new();
    let done = reader.once(|tx| {
        seen.push(tx.read(r)?.value);
        set(&mut writer, &[(r, 2), (a, 2), (b, 2)]);
        seen.push(tx.read(a)?.value);
        seen.push(tx.read(b)?.value);
        Ok(())
    });
    assert!(done.unwrap().is_none() && seen == [1], "one moment's state only: {seen:?}");
}

/// CE-B: a vector of clocks is not causally closed, so old versions cannot be read by it.
#[test]
fn ce_b_an_old_version_is_not_read_beside_its_successors_effects() {
    let pool = Pool::create(Dram::new(32 << 10), &options()).unwrap();
    let [r, a, b, warm] = cells(&pool);
    let mut t = pool.thread().unwrap();
    let (mut w1, mut w2) = (pool.thread().unwrap(), pool.thread().unwrap());
    // T knows the clocks that wrote R, the old A and, after `warm`, everything of W2.
    set(&mut w2, &[(r, 1), (a, 1), (b, 1)]);
    t.once(|tx| tx.read(a)).unwrap();
    set(&mut w1, &[(a, 2)]);
    let copied = w2.once(|tx| {
        let value = tx.read(a)?.value;
        tx.write(b, &Cell { value })?;
        tx.write(warm, &Cell { value })
    });
    assert_eq!(copied.unwrap(), Some(()));
    t.once(|tx| tx.read(warm)).unwrap();
    let mut w4 = pool.thread().unwrap();
    let mut seen = Vec::new();
    let done = t.once(|tx| {
        seen.push(tx.read(r)?.value);
        set(&mut w4, &[(r, 9)]);
        seen.push(tx.read(a)?.value);
        seen.push(tx.read(b)?.value);
        Ok(())
    });
    assert!(done.unwrap().is_none() && seen == [1], "A before W1 beside B after W2: {seen:?}");
}

/// CE-C: no transaction reads an object whose writer has validated and not yet released.
#[test]
fn ce_c_a_committing_object_is_not_read() {
    let sim = Arc::new(Sim::new(32 << 10));
    let pool = Arc::new(Pool::create(Arc::clone(&sim), &options()).unwrap());
    let [x, y] = cells(&pool);
    let (seen, inner) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::downgrade(&pool));
    let reported = Arc::clone(&seen);
    let mut w3 = pool.thread().unwrap();
    let mut met = false;
    sim.on_fence(move |_| {
        let Some(pool) = inner.upgrade().filter(|_| !std::mem::replace(&mut met, true)) else {
            return;
        };
        let (mut w1, mut r) = (pool.thread().unwrap(), pool.thread().unwrap());
        as_actor(2, || w1.once(|tx| tx.write(x, &Cell { value: 1 }))).unwrap().unwrap();
        let both = r.once(|tx| Ok(tx.read(x)?.value * 10 + tx.read(y)?.value)).unwrap();
        reported.store(both.unwrap_or(77), Ordering::Relaxed);
    });
    let done = as_actor(1, || {
        w3.once(|tx| {
            let value = tx.read(x)?.value + 1;
            tx.write(y, &Cell { value })
        })
    });
    // W3 precedes W1 (it read the old X), so a reader that sees W1's X must see W3's Y.
    assert_eq!(done.unwrap(), Some(()));
    assert_eq!(seen.load(Ordering::Relaxed), 77, "the reader gave way");
}

/// A write that fails after its lock was taken must not leave the lock behind.
#[test]
fn a_failed_open_for_writing_releases_its_lock() {
    let pool = Pool::create(Dram::new(32 << 10), &options()).unwrap();
    let [a, b] = cells(&pool);
    let (mut one, mut two) = (pool.thread().unwrap(), pool.thread().unwrap());
    let done = one.once(|tx| {
        tx.read(a)?;
        set(&mut two, &[(a, 1), (b, 1)]);
        tx.write(b, &Cell { value: 2 })
    });
    assert!(done.unwrap().is_none(), "A changed under this transaction");
    set(&mut two, &[(b, 3)]);
}

/// A version must be durable before what makes it valid, and no transaction may build on one whose
/// durability is not settled. Every image of an overlapping pair is checked.
#[test]
fn no_image_shows_half_a_transaction_or_one_without_its_cause() {
    for tear in [Tear::LinePrefix, Tear::Words] {
        let sim = Arc::new(Sim::new(11 << 10));
        let pool = Arc::new(Pool::create(Arc::clone(&sim), &options()).unwrap());
        let [x, y, z] = cells(&pool);
        let mut first = pool.thread().unwrap();
        let inner = Arc::downgrade(&pool);
        sim.settle();
        sim.on_fence(move |_| {
            let Some(pool) = inner.upgrade() else { return };
            let copy = |th: &mut Thread<'_, Arc<Sim>>| {
                th.once(|tx| {
                    let value = tx.read(x)?.value;
                    tx.write(z, &Cell { value })
                })
            };
            as_actor(2, || pool.thread().and_then(|mut th| copy(&mut th))).unwrap();
        });
        let both = as_actor(1, || {
            first.once(|tx| {
                tx.write(x, &Cell { value: 5 })?;
                tx.write(y, &Cell { value: 5 })
            })
        });
        assert_eq!(both.unwrap(), Some(()));
        let how = Enumerate { tear, images_per_point_max: 4096, seed: 1 };
        let coverage = sim.trace().enumerate(&how, |image| {
            let pool = Pool::open(Sim::from_image(image.words), Restart::Lazy).unwrap();
            let mut th = pool.thread().unwrap();
            let read = |tx: &mut littoral_stm::Tx<'_, '_, Sim>| {
                Ok([tx.read(x)?.value, tx.read(y)?.value, tx.read(z)?.value])
            };
            match th.read_only(read) {
                Ok([5, 5, _]) | Ok([0, 0, 0]) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        assert_eq!(coverage.failure, None);
        assert!(coverage.images_count > 10 && coverage.sampled_points_count == 0, "{coverage:?}");
    }
}

/// Clocks go on after a restart; one given out twice would revive or hide versions.
#[test]
fn clocks_resume_above_every_stamp() {
    let sim = Arc::new(Sim::new(32 << 10));
    let pool = Pool::create(Arc::clone(&sim), &options()).unwrap();
    let [a, b] = cells(&pool);
    let write = |pool: &Pool<Arc<Sim>>, cell, value| {
        pool.thread().unwrap().atomically(|tx| tx.write(cell, &Cell { value })).unwrap();
    };
    for value in 1..=9 {
        write(&pool, a, value);
    }
    for round in 0..3 {
        let pool = Pool::open(Sim::from_image(sim.trace().current()), Restart::Lazy).unwrap();
        drop(pool);
        let pool = Pool::open(Arc::clone(&sim), Restart::Lazy).unwrap();
        write(&pool, b, round);
        let again = Pool::open(Arc::clone(&sim), Restart::Scan).unwrap();
        let mut th = again.thread().unwrap();
        let both = th.read_only(|tx| Ok((tx.read(a)?.value, tx.read(b)?.value)));
        assert_eq!(both.unwrap(), (9, round));
    }
}

/// Write skew: the second reads an object that the first is committing, and gives way.
#[test]
fn of_two_that_read_what_the_other_writes_at_most_one_commits() {
    let sim = Arc::new(Sim::new(32 << 10));
    let pool = Arc::new(Pool::create(Arc::clone(&sim), &options()).unwrap());
    let [x, y] = cells(&pool);
    let (mut one, inner) = (pool.thread().unwrap(), Arc::downgrade(&pool));
    let other = Arc::new(AtomicU64::new(0));
    let (reported, mut met) = (Arc::clone(&other), false);
    let from_to = |from: Ref<Cell>, to: Ref<Cell>| {
        move |tx: &mut littoral_stm::Tx<'_, '_, Arc<Sim>>| -> Result<(), Abort> {
            let value = tx.read(from)?.value + 1;
            tx.write(to, &Cell { value })
        }
    };
    sim.on_fence(move |_| {
        let Some(pool) = inner.upgrade().filter(|_| !std::mem::replace(&mut met, true)) else {
            return;
        };
        let mut two = pool.thread().unwrap();
        let done = as_actor(2, || two.once(from_to(y, x))).unwrap();
        reported.store(if done.is_some() { 1 } else { 2 }, Ordering::Relaxed);
    });
    let done = as_actor(1, || one.once(from_to(x, y))).unwrap();
    assert_eq!((done, other.load(Ordering::Relaxed)), (Some(()), 2));
}

/// Reads `cells`, lets `between` run, and writes their sum plus one to `to`; attempts it took.
fn sum_into<const N: usize>(
    th: &mut Thread<'_, Dram>,
    cells: [Ref<Cell>; N],
    to: Ref<Cell>,
    mut between: impl FnMut(),
) -> (u64, u64) {
    let mut attempts = 0;
    let sum = th.atomically(|tx| {
        let mut sum = 1;
        for c in cells {
            sum += tx.read(c)?.value;
        }
        attempts += 1;
        if attempts == 1 {
            between();
        }
        tx.write(to, &Cell { value: sum })?;
        Ok(sum)
    });
    (sum.expect("no error"), attempts)
}

/// A long read set is not walked while no peer has committed; a peer that has must be noticed.
#[test]
fn a_long_transaction_notices_a_peer_that_committed_what_it_read() {
    let pool = Pool::create(Dram::new(32 << 10), &options()).unwrap();
    let [a, b, c, d, e, f, to] = cells(&pool);
    let all = [a, b, c, d, e, f];
    let (mut th, mut peer) = (pool.thread().unwrap(), pool.thread().unwrap());
    assert_eq!(sum_into(&mut th, all, to, || ()), (1, 1));
    assert_eq!(sum_into(&mut th, all, to, || set(&mut peer, &[(f, 5)])), (6, 2));
    let elsewhere = || set(&mut peer, &[(to, 9)]);
    assert_eq!(sum_into(&mut th, [a, b, c, d, e], f, elsewhere), (1, 1), "it read none of that");
}

/// A thread that takes a slot while a transaction runs is not in its picture of the peers.
#[test]
fn a_long_transaction_notices_a_newcomer_that_committed_what_it_read() {
    let pool = Pool::create(Dram::new(32 << 10), &options()).unwrap();
    let [a, b, c, d, e, f, to] = cells(&pool);
    let mut th = pool.thread().unwrap();
    let newcomer = || set(&mut pool.thread().unwrap(), &[(f, 5)]);
    assert_eq!(sum_into(&mut th, [a, b, c, d, e, f], to, newcomer), (6, 2));
}

/// A peer that was committing when the transaction began may publish any time later.
#[test]
fn a_long_transaction_that_began_beside_a_commit_walks_what_it_read() {
    let sim = Arc::new(Sim::new(32 << 10));
    let pool = Arc::new(Pool::create(Arc::clone(&sim), &options()).unwrap());
    let [a, b, c, d, e, f, to] = cells(&pool);
    let all = [a, b, c, d, e];
    let (mut th, mut writer) = (pool.thread().unwrap(), pool.thread().unwrap());
    let inner = Arc::downgrade(&pool);
    let found = Arc::new(AtomicU64::new(0));
    let (reported, mut fences) = (Arc::clone(&found), 0);
    sim.on_fence(move |_| {
        let Some(pool) = inner.upgrade() else { return };
        fences += 1;
        if fences != 1 {
            return;
        }
        // The writer's mark is odd now; the reader begins, another commits, the reader must see it.
        let mut other = pool.thread().unwrap();
        let mut reader = pool.thread().unwrap();
        let mut attempts = 0;
        as_actor(2, || {
            reader.atomically(|tx| {
                attempts += 1;
                for c in all {
                    tx.read(c)?;
                }
                if attempts == 1 {
                    as_actor(3, || other.once(|tx| tx.write(e, &Cell { value: 3 })))
                        .unwrap()
                        .unwrap();
                }
                tx.write(to, &Cell { value: 1 })
            })
        })
        .unwrap();
        reported.store(attempts, Ordering::Relaxed);
    });
    as_actor(1, || writer.once(|tx| tx.write(f, &Cell { value: 1 }))).unwrap().unwrap();
    assert_eq!(found.load(Ordering::Relaxed), 2);
    assert_eq!(th.read_only(|tx| tx.read(to)).unwrap().value, 1);
}

/// More writes than are looked through one by one: those that come again are found by an index.
#[test]
fn a_record_read_or_written_again_after_many_writes_is_the_transactions_own() {
    let pool = Pool::create(Dram::new(64 << 10), &options()).unwrap();
    let all: [Ref<Cell>; 40] = cells(&pool);
    let mut th = pool.thread().unwrap();
    let done = th.once(|tx| {
        for (i, &cell) in all.iter().enumerate() {
            tx.write(cell, &Cell { value: i as u64 })?;
            // Asked in between too, so that the index grows in several steps.
            for back in [0, i / 2, i] {
                assert_eq!(tx.read(all[back])?.value, back as u64, "own write {back} of {i}");
            }
        }
        for (i, &cell) in all.iter().enumerate().step_by(3) {
            tx.write(cell, &Cell { value: 1000 + i as u64 })?;
        }
        Ok(())
    });
    assert_eq!(done.unwrap(), Some(()));
    let seen = th.read_only(|tx| {
        all.iter().map(|&c| Ok(tx.read(c)?.value)).collect::<Result<Vec<_>, Abort>>()
    });
    let wanted: Vec<u64> = (0..40).map(|i| if i % 3 == 0 { 1000 + i } else { i }).collect();
    assert_eq!(seen.unwrap(), wanted);
}

/// A handle inside another's closure on the same thread waits for what cannot come.
#[test]
fn two_handles_of_one_thread_on_one_object_are_told_instead_of_waiting_for_ever() {
    let pool = Pool::create(Dram::new(32 << 10), &options()).unwrap();
    let [a, b] = cells(&pool);
    let (mut outer, mut inner) = (pool.thread().unwrap(), pool.thread().unwrap());
    // The outer one holds the record that the inner one wants.
    let done = outer.atomically(|tx| {
        tx.write(a, &Cell { value: 1 })?;
        let error = inner.atomically(|tx| tx.write(a, &Cell { value: 2 })).unwrap_err();
        assert_eq!(error.kind(), Kind::Nested);
        assert!(error.to_string().contains("thread slot 0"), "{error}");
        inner.atomically(|tx| tx.write(b, &Cell { value: 3 }))?;
        Ok(())
    });
    done.unwrap();
    // The inner one writes what the outer one has read, each time anew.
    let mut next = 10;
    let error = outer.atomically(|tx| {
        tx.read(b)?;
        next += 1;
        inner.atomically(|tx| tx.write(b, &Cell { value: next }))?;
        tx.write(a, &Cell { value: 9 })
    });
    assert_eq!(error.unwrap_err().kind(), Kind::Nested);
    let error = outer.read_only(|tx| {
        let before = tx.read(b)?.value;
        next += 1;
        inner.atomically(|tx| tx.write(b, &Cell { value: next }))?;
        Ok(before + tx.read(b)?.value)
    });
    assert_eq!(error.unwrap_err().kind(), Kind::Nested);
    // One after the other is fine, as often as one likes.
    for value in 0..100 {
        set(&mut outer, &[(a, value)]);
        inner.atomically(|tx| tx.update(a, |x| x.value += 1)).unwrap();
    }
    assert_eq!(outer.read_only(|tx| tx.read(a)).unwrap().value, 100);
}

/// What was in the way of a transaction that gave up is not held against the next one's peers.
#[test]
fn a_transaction_that_gave_up_beside_another_handle_does_not_spoil_the_next() {
    let pool = Pool::create(Dram::new(32 << 10), &options()).unwrap();
    let [a, b] = cells(&pool);
    let (mut outer, mut inner) = (pool.thread().unwrap(), pool.thread().unwrap());
    let done = outer.atomically(|tx| {
        tx.write(a, &Cell { value: 1 })?;
        let gave_up = inner.atomically(|tx| {
            drop(tx.write(a, &Cell { value: 2 }));
            Err::<(), _>(Abort::cancel("no"))
        });
        assert_eq!(gave_up.unwrap_err().kind(), Kind::Cancelled);
        Ok(())
    });
    done.unwrap();
    let mut attempts = 0;
    let done = inner.atomically(|tx| {
        tx.read(b)?;
        attempts += 1;
        if attempts == 1 {
            set(&mut outer, &[(b, 7)]);
        }
        tx.write(a, &Cell { value: 3 })
    });
    done.unwrap();
    assert_eq!(attempts, 2, "one loss is no nesting");
}

/// A process is killed between the store of a slab's entry and its fence. The next one finds the
/// entry in the cache and puts its objects there: they must outlive a power cut.
#[test]
fn a_restart_makes_durable_what_it_builds_on() {
    let sim = Arc::new(Sim::new(32 << 10));
    as_actor(1, || {
        let pool = Pool::create(Arc::clone(&sim), &options()).unwrap();
        let mut th = pool.thread().unwrap();
        sim.settle();
        sim.on_fence(|_| panic!("killed"));
        let alloc = || th.atomically(|tx| tx.alloc(&Cell { value: 1 }));
        assert!(catch_unwind(AssertUnwindSafe(alloc)).is_err(), "a slab is claimed with a fence");
        // A dead process tidies nothing up.
        std::mem::forget(th);
        std::mem::forget(pool);
    });
    let acknowledged = as_actor(2, || {
        let pool = Pool::open(Arc::clone(&sim), Restart::Lazy).unwrap();
        let mut th = pool.thread().unwrap();
        let keep = |tx: &mut littoral_stm::Tx<'_, '_, Arc<Sim>>| {
            let cell = tx.alloc(&Cell { value: 7 })?;
            tx.set_root("kept", cell)
        };
        th.atomically(keep).unwrap();
        sim.trace().events().len()
    });
    let how = Enumerate { images_per_point_max: 64, ..Enumerate::default() };
    let mut judged = 0;
    let coverage = sim.trace().enumerate(&how, |image| {
        if image.events_before < acknowledged {
            return Ok(());
        }
        judged += 1;
        let found = (|| {
            let pool = Pool::open(Sim::from_image(image.words), Restart::Lazy)?;
            let mut th = pool.thread()?;
            th.read_only(|tx| match tx.root::<Cell>("kept")? {
                Some(cell) => tx.read(cell).map(|c| c.value),
                None => Err(Abort::cancel("the name is gone")),
            })
        })();
        match found {
            Ok(7) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    assert_eq!(coverage.failure, None);
    assert!(judged > 0, "an image after the acknowledgement");
}

/// A process is killed between scrubbing a version that never committed and the fence after it. The
/// next restart scans and empties the dead lists: a power cut must not bring the version back.
#[test]
fn a_scan_makes_durable_what_an_earlier_restart_scrubbed() {
    let sim = Arc::new(Sim::new(32 << 10));
    let cell = as_actor(1, || {
        let pool = Pool::create(Arc::clone(&sim), &options()).unwrap();
        let [cell] = cells(&pool);
        let mut th = pool.thread().unwrap();
        sim.on_fence(|_| panic!("killed"));
        let write = || th.atomically(|tx| tx.write(cell, &Cell { value: 2 }));
        assert!(catch_unwind(AssertUnwindSafe(write)).is_err(), "a commit has fences");
        std::mem::forget(th);
        std::mem::forget(pool);
        cell
    });
    // Its version reaches the medium, what makes it valid does not.
    sim.settle();
    as_actor(2, || {
        let pool = Pool::open(Arc::clone(&sim), Restart::Lazy).unwrap();
        let mut th = pool.thread().unwrap();
        sim.on_fence(|_| panic!("killed"));
        let read = || th.read_only(|tx| tx.read(cell));
        assert!(catch_unwind(AssertUnwindSafe(read)).is_err(), "a stamp is scrubbed with a fence");
        std::mem::forget(th);
        std::mem::forget(pool);
    });
    as_actor(3, || {
        let pool = Pool::open(Arc::clone(&sim), Restart::Scan).unwrap();
        let mut th = pool.thread().unwrap();
        assert_eq!(th.read_only(|tx| tx.read(cell)).unwrap().value, 0);
    });
    let coverage = sim.trace().enumerate(&Enumerate::default(), |image| {
        let pool = Pool::open(Sim::from_image(image.words), Restart::Lazy).unwrap();
        let found = pool.thread().unwrap().read_only(|tx| tx.read(cell));
        match found {
            Ok(Cell { value: 0 }) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    assert_eq!(coverage.failure, None);
    assert!(coverage.images_count > 10, "{coverage:?}");
}

/// A closure that drops an operation's error must not commit what the operation left half done.
#[test]
fn a_transaction_with_a_failed_operation_does_not_commit_though_its_error_is_dropped() {
    let pool = Pool::create(Dram::new(32 << 10), &options()).unwrap();
    let [a, b, c] = cells(&pool);
    let (mut one, mut two) = (pool.thread().unwrap(), pool.thread().unwrap());
    one.atomically(|tx| tx.free(a)).unwrap();
    // Freed twice, it would be handed out twice.
    let twice = one.atomically(|tx| {
        drop(tx.free(a));
        tx.free(b)
    });
    assert_eq!(twice.unwrap_err().kind(), Kind::BadReference);
    let made =
        one.atomically(|tx| Ok([tx.alloc(&Cell { value: 1 })?, tx.alloc(&Cell { value: 2 })?]));
    let [x, y] = made.unwrap();
    assert_ne!(x, y);
    // What is read may be gone: that changes nothing.
    let left = one.atomically(|tx| {
        let gone = tx.read(Ref::<Cell>::NULL).is_err();
        tx.write(x, &Cell { value: 3 })?;
        Ok((gone, tx.read(b)?.value))
    });
    assert_eq!(left.unwrap(), (true, 0), "the failed transaction has not freed B");
    // A record that was locked and then found too new has no new words yet.
    set(&mut two, &[(c, 7)]);
    one.set_extension(false);
    let lost = one.once(|tx| {
        tx.read(x)?;
        set(&mut two, &[(c, 8)]);
        drop(tx.write(c, &Cell { value: 9 }));
        Ok(())
    });
    assert_eq!(lost.unwrap(), None);
    assert_eq!(two.read_only(|tx| tx.read(c)).unwrap().value, 8);
}

/// A dangling reference leads to an object of the free list. Taken from there by the transaction
/// that followed it, and failed, the object must go back.
#[test]
fn an_object_taken_beside_a_dangling_reference_to_it_is_not_lost() {
    let pool = Pool::create(Dram::new(32 << 10), &options()).unwrap();
    let [a] = cells(&pool);
    let mut th = pool.thread().unwrap();
    th.atomically(|tx| tx.free(a)).unwrap();
    let failed = th.atomically(|tx| {
        drop(tx.write(a, &Cell { value: 1 }));
        tx.alloc(&Cell { value: 2 })
    });
    assert_eq!(failed.unwrap_err().kind(), Kind::BadReference);
    assert_eq!(th.atomically(|tx| tx.alloc(&Cell { value: 3 })).unwrap(), a);
}

/// A tree's insertion that finds no room for the other half of a node has cut that node already.
#[test]
fn a_structure_keeps_its_entries_where_the_error_of_a_full_pool_is_dropped() {
    let pool = Pool::create(Dram::new(32 << 10), &options()).unwrap();
    let mut th = pool.thread().unwrap();
    let tree = th.atomically(|tx| BTree::create(tx)).unwrap();
    let mut held = Vec::new();
    // Descending keys split nodes in the middle.
    for key in (0..10_000).rev() {
        let done = th.atomically(|tx| {
            drop(tree.insert(tx, key, key));
            Ok(())
        });
        match done {
            Ok(()) => held.push(key),
            Err(full) => {
                assert_eq!(full.kind(), Kind::Full, "{full}");
                break;
            }
        }
    }
    assert!((14..10_000).contains(&held.len()), "{} keys", held.len());
    for key in held {
        assert_eq!(th.read_only(|tx| tree.get(tx, key)).unwrap(), Some(key));
    }
}
