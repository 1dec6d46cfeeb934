//! The two-object core under loom: every interleaving, the orderings the code names.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p littoral-stm --release --test loom_core`.
#![cfg(loom)]

use littoral_base::sync::{Arc, thread};
use littoral_device::pmem::Dram;
use littoral_stm::{Options, Pool, Ref};

littoral_stm::record! {
    struct Cell = "test.cell/1" { value: u64 }
}

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 50_000;
    builder.check(body);
}

type Shared = (Pool<Dram>, [Ref<Cell>; 2]);

fn shared() -> Arc<Shared> {
    let pool = Pool::create(Dram::new(1856), &Options { threads_max: 2, slab_bytes: Some(256) });
    let pool = pool.expect("room");
    let mut th = pool.thread().expect("a slot");
    let cells =
        th.atomically(|tx| Ok([tx.alloc(&Cell { value: 0 })?, tx.alloc(&Cell { value: 0 })?]));
    drop(th);
    Arc::new((pool, cells.expect("room")))
}

/// Write skew: both lock, both validate; without the fence neither sees the other.
#[test]
fn of_two_that_read_what_the_other_writes_at_most_one_commits() {
    model(2, || {
        let shared = shared();
        let skew = |shared: &Shared, from: usize, to: usize| {
            let mut th = shared.0.thread().expect("a slot");
            let done = th.once(|tx| {
                let value = tx.read(shared.1[from])?.value + 1;
                tx.write(shared.1[to], &Cell { value })
            });
            done.expect("no error").is_some()
        };
        let other = Arc::clone(&shared);
        let one = thread::spawn(move || skew(&other, 0, 1));
        let two = skew(&shared, 1, 0);
        let one = one.join().expect("no panic");
        let mut th = shared.0.thread().expect("a slot");
        let sum = th.once(|tx| Ok(tx.read(shared.1[0])?.value + tx.read(shared.1[1])?.value));
        let sum = sum.expect("no error").expect("alone now");
        // One after the other gives 0+1 and then 1+1.
        let wanted = match (one, two) {
            (true, true) => 3,
            (false, false) => 0,
            _ => 1,
        };
        assert_eq!(sum, wanted);
    });
}

/// A reader, also one that will abort, sees both of a writer's objects or neither.
#[test]
fn a_reader_sees_both_writes_or_neither() {
    model(2, || {
        let shared = shared();
        let other = Arc::clone(&shared);
        let writer = thread::spawn(move || {
            let mut th = other.0.thread().expect("a slot");
            for value in [1, 2] {
                let write = th.once(|tx| {
                    tx.write(other.1[0], &Cell { value })?;
                    tx.write(other.1[1], &Cell { value })
                });
                write.expect("no error");
            }
        });
        let mut th = shared.0.thread().expect("a slot");
        let seen = th.once(|tx| {
            let (a, b) = (tx.read(shared.1[0])?.value, tx.read(shared.1[1])?.value);
            assert_eq!(a, b, "also inside a doomed attempt");
            Ok(())
        });
        seen.expect("no error");
        writer.join().expect("no panic");
    });
}

/// A read-only transaction, which notes nothing at first, is at one moment too.
#[test]
fn a_read_only_transaction_sees_both_writes_or_neither() {
    model(2, || {
        let shared = shared();
        let other = Arc::clone(&shared);
        let writer = thread::spawn(move || {
            let mut th = other.0.thread().expect("a slot");
            let write = th.once(|tx| {
                tx.write(other.1[0], &Cell { value: 1 })?;
                tx.write(other.1[1], &Cell { value: 1 })
            });
            write.expect("no error");
        });
        let mut th = shared.0.thread().expect("a slot");
        let seen = th.read_only(|tx| {
            let (a, b) = (tx.read(shared.1[0])?.value, tx.read(shared.1[1])?.value);
            assert_eq!(a, b, "also inside a doomed attempt");
            Ok(())
        });
        seen.expect("no error");
        writer.join().expect("no panic");
    });
}

/// Two updates that the engine retries: one after the other, whatever was lost on the way.
#[test]
fn of_two_updates_the_second_builds_on_the_first() {
    model(2, || {
        let shared = shared();
        let step = |shared: &Shared, from: usize, to: usize| {
            let mut th = shared.0.thread().expect("a slot");
            let done = th.atomically(|tx| {
                let value = tx.read(shared.1[from])?.value + 1;
                tx.write(shared.1[to], &Cell { value })
            });
            done.expect("no error");
        };
        let other = Arc::clone(&shared);
        let one = thread::spawn(move || step(&other, 0, 1));
        step(&shared, 1, 0);
        one.join().expect("no panic");
        let mut th = shared.0.thread().expect("a slot");
        let sum = th.once(|tx| Ok(tx.read(shared.1[0])?.value + tx.read(shared.1[1])?.value));
        assert_eq!(sum.expect("no error"), Some(3));
    });
}
