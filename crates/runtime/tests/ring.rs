//! The ring from outside: answers, guards, errors, foreign futures, panics, nesting.
#![allow(clippy::unwrap_used)] // Reason: a test's helpers may fail like the test.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
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
