//! Snapshots beside writers, step by step: what a snapshot reads is of one moment.
#![cfg(not(any(loom, shuttle)))]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use littoral_device::forward_domain;
use littoral_device::memory::{Domain, Promise};
use littoral_device::pmem::Dram;
use littoral_stm::{Abort, Kind, Options, Pool, Record, Ref, Thread};

littoral_stm::record! {
    struct Account = "test.account/1" { balance: u64 }
}
littoral_stm::record! {
    struct Link = "test.link/1" { to: Ref<Account> }
}
littoral_stm::record! {
    struct Wide = "test.wide/1" { words: [u64; 20] }
}

/// Memory that stops one thread before a chosen store to a shared volatile word.
struct Paused {
    words: Dram,
    /// Stores until the stop; none is planned where it is `usize::MAX`.
    left: AtomicUsize,
    stop: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Domain for Paused {
    fn len(&self) -> usize {
        self.words.len()
    }
    fn promise(&self) -> Promise {
        self.words.promise()
    }
    fn word(&self, offset: usize, order: Ordering) -> u64 {
        self.words.word(offset, order)
    }
    fn store(&self, offset: usize, value: u64, order: Ordering) {
        self.words.store(offset, value, order);
    }
    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.words.compare_exchange(offset, current, new, success, failure)
    }
    fn write_back(&self, offset: usize, len: usize) {
        self.words.write_back(offset, len);
    }
    fn invalidate(&self, offset: usize, len: usize) {
        self.words.invalidate(offset, len);
    }
    fn fence(&self) -> littoral_device::Result<()> {
        self.words.fence()
    }
    fn shadow_stored(&self, _address: usize) {
        let step = |left: usize| left.checked_sub(1).filter(|_| left != usize::MAX);
        let before = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step);
        if before != Ok(1) {
            return;
        }
        self.left.store(usize::MAX, Ordering::SeqCst);
        let stop = self.stop.lock().expect("no panic").take();
        let (reached, go_on) = stop.expect("a stop was planned");
        reached.send(()).expect("the reader waits");
        go_on.recv().expect("the reader goes on");
    }
}

/// A snapshot reads one account, a transfer whose writer was stopped before its store number `stop`
/// goes on and commits, the snapshot reads the other account.
fn sum_beside_a_transfer(stop: usize) -> u64 {
    let (words, left) = (Dram::new(32 << 10), AtomicUsize::new(usize::MAX));
    let domain = Paused { words, left, stop: Mutex::new(None) };
    let pool =
        Pool::create(domain, &Options { threads_max: 3, slab_bytes: Some(1024) }).expect("room");
    let mut reader = pool.thread().expect("a slot");
    let mut writer = pool.thread().expect("a slot");
    let (a, b): (Ref<Account>, Ref<Account>) = reader
        .atomically(|tx| {
            Ok((tx.alloc(&Account { balance: 500 })?, tx.alloc(&Account { balance: 500 })?))
        })
        .expect("room");
    let (reached, is_reached) = channel();
    let (go_on, goes_on) = channel();
    *pool.domain().stop.lock().expect("no panic") = Some((reached, goes_on));
    pool.domain().left.store(stop, Ordering::SeqCst);
    let mut sum = 0;
    std::thread::scope(|s| {
        let transfer = s.spawn(move || {
            writer.atomically(|tx| {
                tx.update(a, |x| x.balance -= 100)?;
                tx.update(b, |x| x.balance += 100)
            })
        });
        is_reached.recv().expect("the writer came as far");
        let mut transfer = Some((go_on, transfer));
        let seen = reader.snapshot(|tx| {
            let first = tx.read(a)?.balance;
            if let Some((go_on, transfer)) = transfer.take() {
                go_on.send(()).expect("the writer waits");
                transfer.join().expect("no panic").expect("no error");
            }
            Ok(first + tx.read(b)?.balance)
        });
        sum = seen.expect("no error");
    });
    sum
}

/// Stores 1 and 2 lock the two records, 3 is the writer's mark, 4 the first announcement. Before it
/// the writer must not have chosen its epoch: a snapshot that begins now finds the records not yet
/// being committed, so the writer's versions must be of a later epoch.
#[test]
fn a_snapshot_that_saw_an_account_before_a_transfer_sees_the_other_before_it_too() {
    for stop in 1..=4 {
        assert_eq!(sum_beside_a_transfer(stop), 1000, "stopped before store {stop}");
    }
}

/// Fills the pool with objects of a type and ends them all.
fn fill_and_empty<T: Record, D: Domain>(th: &mut Thread<'_, D>, value: &T) {
    let mut all = Vec::new();
    let full = loop {
        match th.atomically(|tx| tx.alloc(value)) {
            Ok(at) => all.push(at),
            Err(full) => break full,
        }
    };
    assert_eq!(full.kind(), Kind::Full);
    all.iter().for_each(|&at| th.atomically(|tx| tx.free(at)).expect("it lives"));
}

/// An object of the snapshot's moment ends, its slab is given to another type and comes back: where
/// the object was, the slab has none, and the snapshot must start again.
#[test]
fn a_snapshot_whose_slab_went_to_another_type_and_came_back_starts_again() {
    let options = Options { threads_max: 3, slab_bytes: Some(1024) };
    let pool = Pool::create(Dram::new(32 << 10), &options).expect("room");
    let (mut reader, mut writer) = (pool.thread().expect("a slot"), pool.thread().expect("a slot"));
    let make = |th: &mut Thread<'_, Dram>| {
        th.atomically(|tx| tx.alloc(&Account { balance: 1 })).expect("room")
    };
    // Two wide objects of a slab have their epochs where those of its first two accounts are.
    let [first, second, third] = [make(&mut writer), make(&mut writer), make(&mut writer)];
    let mut attempts = 0;
    let seen = reader.snapshot(|tx| {
        attempts += 1;
        if attempts > 1 {
            return Ok(());
        }
        for at in [first, second, third] {
            writer.atomically(|tx| tx.free(at)).expect("it lives");
        }
        fill_and_empty(&mut writer, &Wide { words: [1; 20] });
        assert_eq!(make(&mut writer), first, "the slab has its type again");
        tx.read(third).map(drop)
    });
    seen.expect("a conflict, not a wrong reference");
    assert_eq!(attempts, 2);
}

/// Memory that stops the next thread that begins an attempt.
struct StoppedAtBegin {
    words: Dram,
    stop: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

macro_rules! words {
    ($self:ident, $($call:tt)+) => {
        $self.words.$($call)+
    };
}

impl Domain for StoppedAtBegin {
    forward_domain!(words: len promise word store store_words load_words words store_line
        compare_exchange write_back invalidate fence commit_point shadow_stored);

    /// Asked at the beginning of each attempt; of a snapshot's when its epoch has been drawn.
    fn owner_before_fork(&self) -> Option<u32> {
        let stop = self.stop.lock().expect("no panic").take();
        if let Some((reached, go_on)) = stop {
            reached.send(()).expect("the writer waits");
            go_on.recv().expect("the writer goes on");
        }
        None
    }
}

/// Between the moment of a snapshot and its first read an object ends, the reference to it goes,
/// and its slab is given to another type. The snapshot still finds the reference; what that leads
/// to is gone, and the snapshot must start again.
#[test]
fn a_snapshot_whose_slab_went_to_another_type_before_its_first_read_starts_again() {
    let domain = StoppedAtBegin { words: Dram::new(32 << 10), stop: Mutex::new(None) };
    let options = Options { threads_max: 3, slab_bytes: Some(1024) };
    let pool = Pool::create(domain, &options).expect("room");
    let (mut reader, mut writer) = (pool.thread().expect("a slot"), pool.thread().expect("a slot"));
    let made = writer.atomically(|tx| {
        let account = tx.alloc(&Account { balance: 1 })?;
        Ok((account, tx.alloc(&Link { to: account })?))
    });
    let (account, link) = made.expect("room");
    let ((reached, is_reached), (go_on, goes_on)) = (channel(), channel());
    *pool.domain().stop.lock().expect("no panic") = Some((reached, goes_on));
    let (found, attempts) = std::thread::scope(|s| {
        let reads = s.spawn(move || {
            let mut attempts = 0;
            let found = reader.snapshot(|tx| {
                attempts += 1;
                let Link { to } = tx.read(link)?;
                if to.is_null() { Ok(None) } else { tx.read(to).map(Some) }
            });
            (found, attempts)
        });
        is_reached.recv().expect("the reader begins");
        let ended = writer.atomically(|tx| {
            tx.free(account)?;
            tx.write(link, &Link { to: Ref::NULL })
        });
        ended.expect("it lives");
        fill_and_empty(&mut writer, &Wide { words: [1; 20] });
        go_on.send(()).expect("the reader waits");
        reads.join().expect("no panic")
    });
    assert_eq!(found.expect("a conflict, not a wrong reference"), None);
    assert_eq!(attempts, 2);
}

#[test]
fn snapshots_under_load_see_one_moment() {
    let pool = Pool::create(
        littoral_device::pmem::FlushFence::anonymous(1 << 20).expect("memory"),
        &Options::default(),
    )
    .expect("room");
    let mut main = pool.thread().expect("a slot");
    let all: Vec<Ref<Account>> = main
        .atomically(|tx| (0..4).map(|_| tx.alloc(&Account { balance: 100 })).collect())
        .expect("room");
    let all = &all;
    std::thread::scope(|s| {
        for t in 0..2usize {
            let mut th = pool.thread().expect("a slot");
            s.spawn(move || {
                for i in 0..20_000 {
                    let (from, to) = (all[(i + t) % 4], all[(i + 2 * t + 1) % 4]);
                    if from != to {
                        th.atomically(|tx| {
                            tx.update(from, |x| x.balance -= 1)?;
                            tx.update(to, |x| x.balance += 1)
                        })
                        .expect("no error");
                    }
                }
            });
        }
        for _ in 0..5_000 {
            let sum = main.snapshot(|tx| {
                all.iter().map(|&a| tx.read(a).map(|x| x.balance)).sum::<Result<u64, Abort>>()
            });
            assert_eq!(sum.expect("no error"), 400);
        }
    });
}
