//! The ring from outside: answers, guards, errors, foreign futures, panics, nesting.
#![allow(clippy::unwrap_used)] // Reason: a test's helpers may fail like the test.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{Future, pending, poll_fn};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;

use littoral_device::flash::dram::Dram;
use littoral_device::read::Status;
use littoral_device::region::Region;
use littoral_runtime::{Contexts, Error, Kind, Ring, RingOptions};

fn words(n: u64) -> Region {
    let bytes: Vec<u8> = (0..n).flat_map(u64::to_le_bytes).collect();
    Region::from_bytes(&bytes).unwrap()
}

fn ring(slots: u32, contexts: u32) -> Ring<Dram> {
    let options = RingOptions::with_contexts(Contexts::Fixed(contexts));
    Ring::new(Dram::with_slots(words(1000), slots), options).unwrap()
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// Sums the words whose numbers `next` still hands out.
fn sum_all(ring: &Ring<Dram>) -> Result<u64, Error> {
    let (next, sum) = (Cell::new(0), Cell::new(0));
    ring.run(async |cx| {
        while next.get() < 1000 {
            let i = next.replace(next.get() + 1);
            let bytes = cx.read(i * 8, 8).await?;
            sum.set(sum.get() + word(&bytes));
        }
        Ok::<(), Error>(())
    })?;
    Ok(sum.get())
}

const TOTAL: u64 = 999 * 1000 / 2;

#[test]
fn contexts_share_the_work_and_the_counters_say_so() {
    let ring = ring(64, 64);
    assert_eq!(sum_all(&ring).unwrap(), TOTAL);
    let counts = ring.counters();
    assert_eq!((counts.reads_count, counts.runs_count, counts.abandoned_count), (1000, 1, 0));
    assert!(ring.future_bytes() > 0 && ring.future_bytes() <= 128, "{}", ring.future_bytes());
}

#[test]
fn polls_sweeps_and_yields_are_counted_one_by_one() {
    let ring = ring(8, 2);
    // Two contexts, two reads and a yield each: every sweep polls both, the fourth ends them.
    ring.run(async |cx| {
        cx.read(8, 8).await?;
        cx.yield_now().await;
        cx.read(16, 8).await?;
        Ok::<(), Error>(())
    })
    .unwrap();
    let counts = ring.counters();
    assert_eq!((counts.polls_count, counts.sweeps_count, counts.idle_sweeps_count), (8, 4, 0));
    assert_eq!((counts.reads_count, counts.yields_count, counts.waits_count), (4, 2, 0));
    assert_eq!((counts.starved_count, counts.runs_count), (0, 1));
    ring.block_on(async |cx| cx.read_with(8, 8, word).await).unwrap();
    let counts = ring.counters();
    assert_eq!((counts.polls_count, counts.sweeps_count, counts.reads_count), (9, 5, 5));
    assert_eq!((counts.idle_sweeps_count, counts.runs_count), (0, 2));
}

#[test]
fn two_reads_of_one_context_overlap_on_a_spare_slot() {
    let ring = ring(2, 1);
    let sum = ring.block_on(async |cx| {
        let (a, b) = (cx.read(8, 8), cx.read(16, 8));
        let b = b.await?;
        let a = a.await?;
        Ok::<_, Error>(word(&a) * 100 + word(&b))
    });
    assert_eq!(sum.unwrap(), 102);
}

#[test]
fn a_read_that_was_polled_and_dropped_gives_the_first_slot_back() {
    let ring = ring(1, 1);
    let answer = ring.block_on(async |cx| {
        let mut unwanted = Box::pin(cx.read(8, 8));
        let is_pending = poll_fn(|task| Poll::Ready(unwanted.as_mut().poll(task).is_pending()));
        assert!(is_pending.await, "a read gives way once");
        drop(unwanted);
        Ok::<_, Error>(word(&cx.read(16, 8).await?))
    });
    assert_eq!(answer.unwrap(), 2);
}

#[test]
fn a_read_gives_way_once_even_where_its_data_are_there_at_issue() {
    let ring = ring(8, 2);
    let order = RefCell::new(Vec::new());
    ring.run(async |cx| {
        order.borrow_mut().push(cx.context());
        cx.read(8, 8).await?;
        order.borrow_mut().push(cx.context());
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!(*order.borrow(), [0, 1, 0, 1]);
}

#[test]
fn read_with_hands_out_the_bytes_and_yield_gives_way() {
    let ring = ring(8, 2);
    let order = RefCell::new(Vec::new());
    ring.run(async |cx| {
        let me = cx.context();
        for _ in 0..2 {
            order.borrow_mut().push(me);
            cx.yield_now().await;
        }
        assert_eq!(cx.read_with(24, 8, word).await?, 3);
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!(*order.borrow(), [0, 1, 0, 1]);
}

#[test]
fn holding_every_slot_is_an_error_not_a_hang() {
    let ring = ring(3, 3);
    let error = ring
        .run(async |cx| {
            let _held = cx.read(0, 8).await?;
            let _more = cx.read(8, 8).await?;
            Ok::<(), Error>(())
        })
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Exhausted);
    assert!(error.to_string().contains("drop guards"), "{error}");
    assert_eq!(sum_all(&ring).unwrap(), TOTAL, "the ring is whole after the error");
}

#[test]
fn a_starved_read_goes_on_when_a_slot_comes_free() {
    let ring = ring(4, 3);
    let done = Cell::new(0);
    ring.run(async |cx| {
        let first = cx.read(0, 8).await?;
        let second = cx.read(8, 8).await?;
        assert_eq!((word(&first), word(&second)), (0, 1));
        done.set(done.get() + 1);
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!(done.get(), 3);
    assert!(ring.counters().starved_count > 0);
}

#[test]
fn a_refused_read_names_the_place_and_the_limits() {
    let ring = ring(4, 1);
    let error = ring.block_on(async |cx| cx.read(7996, 8).await.map(|_| ())).unwrap_err();
    assert_eq!(error.kind(), Kind::Read(Status::Refused));
    assert!(error.to_string().contains("8 bytes at 7996"), "{error}");
    assert!(error.to_string().contains("8000 bytes"), "{error}");
    assert_eq!(sum_all(&ring).unwrap(), TOTAL);
}

fn foreign_kind(ring: &Ring<Dram>) -> Kind {
    ring.run(async |cx| {
        cx.read(0, 8).await?;
        if cx.context() == 1 {
            pending::<()>().await;
        }
        Ok::<(), Error>(())
    })
    .unwrap_err()
    .kind()
}

#[test]
fn a_foreign_future_is_refused() {
    let ring = ring(64, 4);
    assert_eq!(foreign_kind(&ring), Kind::ForeignFuture);
    let alone = ring.block_on(async |_| {
        pending::<()>().await;
        Ok::<(), Error>(())
    });
    assert_eq!(alone.unwrap_err().kind(), Kind::ForeignFuture);
    assert_eq!(sum_all(&ring).unwrap(), TOTAL);
}

#[test]
fn a_panic_in_a_context_leaves_the_ring_whole() {
    let ring = ring(64, 16);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        ring.run(async |cx| {
            let bytes = cx.read(u64::from(cx.context()) * 8, 8).await?;
            assert_ne!(word(&bytes), 7, "told to");
            cx.read(0, 8).await?;
            Ok::<(), Error>(())
        })
    }));
    assert!(outcome.is_err());
    assert_eq!(sum_all(&ring).unwrap(), TOTAL);
}

#[test]
fn an_interrupt_ends_a_run_after_the_sweep_and_the_ring_goes_on() {
    let stop = Arc::new(AtomicBool::new(false));
    let interrupt = Some(Arc::clone(&stop));
    let options = RingOptions { interrupt, ..RingOptions::with_contexts(Contexts::Fixed(4)) };
    let ring = Ring::new(Dram::with_slots(words(1000), 8), options).unwrap();
    let read = Cell::new(0);
    let ended = ring.run(async |cx| {
        while read.get() < 1000 {
            cx.read(8, 8).await?;
            read.set(read.get() + 1);
            stop.store(read.get() >= 10, Relaxed);
        }
        Ok::<(), Error>(())
    });
    assert_eq!(ended.unwrap_err().kind(), Kind::Interrupted);
    assert_eq!(read.get(), 12, "three sweeps of four contexts");
    stop.store(false, Relaxed);
    assert_eq!(sum_all(&ring).unwrap(), TOTAL);
}

#[test]
fn a_ring_inside_itself_is_refused() {
    let ring = ring(4, 1);
    let inner = ring.block_on(async |_| ring.block_on(async |_| Ok::<(), Error>(())));
    assert_eq!(inner.unwrap_err().kind(), Kind::Reentrant);
    assert_eq!(sum_all(&ring).unwrap(), TOTAL);
}

#[test]
fn options_that_cannot_work_are_refused_with_advice() {
    let with =
        |contexts| Ring::new(Dram::with_slots(words(1), 8), RingOptions::with_contexts(contexts));
    let error = with(Contexts::Fixed(9)).err().unwrap();
    assert_eq!(error.kind(), Kind::Options);
    assert!(error.to_string().contains("fewer contexts"), "{error}");
    assert!(with(Contexts::Fixed(0)).is_err());
    let none = Ring::new(Dram::with_slots(words(1), 0), RingOptions::default());
    assert_eq!(none.err().unwrap().kind(), Kind::Options);
}

#[test]
fn a_future_above_the_limit_is_refused() {
    let mut options = RingOptions::with_contexts(Contexts::Fixed(1));
    options.future_bytes_max = 64;
    let ring = Ring::new(Dram::with_slots(words(100), 4), options).unwrap();
    let error = ring
        .block_on(async |cx| {
            let ballast = std::hint::black_box([1u8; 100]);
            cx.read(0, 8).await?;
            Ok::<_, Error>(std::hint::black_box(ballast)[0])
        })
        .unwrap_err();
    assert_eq!(error.kind(), Kind::FutureTooLarge);
}

#[test]
fn a_context_may_end_with_its_own_error() {
    #[derive(Debug, PartialEq)]
    enum Mine {
        Ring(Kind),
        Found(u64),
    }
    impl From<Error> for Mine {
        fn from(e: Error) -> Mine {
            Mine::Ring(e.kind())
        }
    }
    let ring = ring(16, 16);
    let search = |wanted: u64| {
        ring.run(async |cx| {
            let bytes = cx.read(u64::from(cx.context()) * 8, 8).await?;
            if word(&bytes) == wanted { Err(Mine::Found(wanted)) } else { Ok(()) }
        })
    };
    assert_eq!(search(5), Err(Mine::Found(5)));
    assert_eq!(search(500), Ok(()));
}

/// Reads word 0, and for each word read those that `follow` says; answers how many were read, how
/// many reads were under way at once at most, and how many contexts have begun.
fn read_growing(ring: &Ring<Dram>, follow: impl Fn(u64) -> Range<u64>) -> (u64, u64, u64) {
    let todo = RefCell::new(vec![0u64]);
    let take = || todo.borrow_mut().pop();
    let (read, under_way, most, begun) = (Cell::new(0), Cell::new(0), Cell::new(0), Cell::new(0));
    let numbers = RefCell::new(BTreeSet::new());
    let waiting = || todo.borrow().len() as u64;
    ring.run_on_demand(1, waiting, async |cx| {
        assert!(numbers.borrow_mut().insert(cx.context()), "two contexts of one number");
        begun.set(begun.get() + 1);
        while let Some(i) = take() {
            under_way.set(under_way.get() + 1);
            most.set(most.get().max(under_way.get()));
            let at = word(&cx.read(i * 8, 8).await?);
            under_way.set(under_way.get() - 1);
            read.set(read.get() + 1);
            todo.borrow_mut().extend(follow(at));
        }
        numbers.borrow_mut().remove(&cx.context());
        Ok::<(), Error>(())
    })
    .unwrap();
    assert!(todo.borrow().is_empty(), "a run ended while items waited");
    (read.get(), most.get(), begun.get())
}

#[test]
fn a_run_may_begin_without_a_context() {
    let ring = ring(4, 4);
    let begun = Cell::new(0);
    ring.run_at_most(0, async |_| {
        begun.set(begun.get() + 1);
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!(begun.get(), 0, "no context was to run");
    let (left, sum) = (Cell::new(10u64), Cell::new(0));
    ring.run_on_demand(
        0,
        || left.get(),
        async |cx| {
            while left.get() > 0 {
                let i = left.replace(left.get() - 1);
                let bytes = cx.read(i * 8, 8).await?;
                sum.set(sum.get() + word(&bytes));
            }
            Ok::<(), Error>(())
        },
    )
    .unwrap();
    assert_eq!((left.get(), sum.get()), (0, 55));
}

#[test]
fn contexts_begin_while_items_wait_and_end_while_none_do() {
    let ring = ring(32, 32);
    // One item that becomes 900: the one context that there is must not read them one by one.
    let star = |i: u64| if i == 0 { 1..901 } else { 0..0 };
    assert_eq!(read_growing(&ring, star), (901, 32, 32));
    // A chain keeps one context busy; the others are never made.
    let chain = |i: u64| if i < 500 { i + 1..i + 2 } else { 0..0 };
    let before = ring.counters().polls_count;
    assert_eq!(read_growing(&ring, chain), (501, 1, 1));
    let polls = ring.counters().polls_count - before;
    assert_eq!(polls, 502, "one at the start and one a read, where data are there at once");
    // Stars on a chain: all contexts but one end on the chain and begin again at the next star.
    let stars = |i: u64| match i % 90 {
        _ if i >= 900 => 0..0,
        0 => i + 1..i + 61,
        60.. => i + 1..i + 2,
        _ => 0..0,
    };
    let (read, most, begun) = read_growing(&ring, stars);
    assert_eq!((read, most), (901, 32));
    assert_eq!(begun, 1 + 10 * 31);
}
