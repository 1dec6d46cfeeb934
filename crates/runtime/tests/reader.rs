//! Reads of a fixed length: answers, refusals, drops, foreign futures, slots.
#![allow(clippy::unwrap_used)] // Reason: a test's helpers may fail like the test.

mod support;

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use littoral_base::units::Picos;
use littoral_device::flash::dram::Dram;
use littoral_device::flash::paced::{PacedCopy, PacedOptions, PacedPtr};
use littoral_device::flash::pacer::Timing;
use littoral_device::flash::queue_pair::{Batching, Doorbell, QueuePair};
use littoral_device::read::{ReadDevice, Status};
use littoral_device::region::Region;
use littoral_runtime::{Contexts, Error, Kind, Ring, RingOptions};
use proptest::prelude::*;
use support::{Scripted, content};

const WORDS: u64 = 500;

fn region() -> Region {
    let bytes: Vec<u8> = (0..WORDS).flat_map(|i| content(8 * i).to_le_bytes()).collect();
    Region::from_bytes(&bytes).unwrap()
}

fn paced(latency: Picos, slots: u32) -> PacedOptions {
    let timing = Timing { latency, pause_min: Picos::MAX, ..Timing::default() };
    PacedOptions { timing, slots, granule_bytes: 8, read_bytes_max: 64 }
}

fn ring<D: ReadDevice>(device: D, contexts: u32) -> Ring<D> {
    Ring::new(device, RingOptions::with_contexts(Contexts::Fixed(contexts))).unwrap()
}

/// Polls a read once and drops it.
async fn begin_and_drop(mut read: impl Future + Unpin) {
    let is_pending = poll_fn(|task| Poll::Ready(Pin::new(&mut read).poll(task).is_pending()));
    assert!(is_pending.await, "a read gives way once");
}

/// Reads every address by readers; answers what each read brought, in the order of `work`.
fn read_all<D: ReadDevice>(ring: &Ring<D>, work: &[u64]) -> Result<Vec<u64>, Error> {
    let next = Cell::new(0);
    let found = RefCell::new(vec![0; work.len()]);
    ring.run(async |cx| {
        let mut reader = cx.reader::<8>();
        while next.get() < work.len() {
            let i = next.replace(next.get() + 1);
            found.borrow_mut()[i] = u64::from_le_bytes(*reader.read(work[i]).await?);
            if i.is_multiple_of(5) {
                let bytes = cx.read(work[i], 8).await?;
                assert_eq!(bytes[..8], content(work[i]).to_le_bytes());
            }
            if i.is_multiple_of(7) {
                begin_and_drop(reader.read(work[i])).await;
            }
        }
        Ok::<(), Error>(())
    })?;
    Ok(found.into_inner())
}

/// Reads, and reads polled and dropped, of [`read_all`].
fn reads_of(work: usize) -> u64 {
    (work + work.div_ceil(5) + work.div_ceil(7)) as u64
}

proptest! {
    #![proptest_config(littoral_testing::standard())]
    #[test]
    fn every_device_brings_each_read_its_own_bytes(
        work in proptest::collection::vec(0..WORDS, 1..200), contexts in 1u32..40,
        latency_ns in 0u64..3_000, delays in proptest::collection::vec(0u64..20, 1..300),
    ) {
        let work: Vec<u64> = work.into_iter().map(|i| 8 * i).collect();
        let wanted: Vec<u64> = work.iter().map(|&a| content(a)).collect();
        let options = || paced(Picos::from_nanos(latency_ns), 3 * contexts);
        let pointed = ring(PacedPtr::new(region(), options()), contexts);
        prop_assert_eq!(&read_all(&pointed, &work).unwrap(), &wanted);
        prop_assert_eq!(pointed.counters().reads_count, reads_of(work.len()));
        prop_assert_eq!(pointed.into_device().counts().reads_count, reads_of(work.len()));
        let dram = ring(Dram::with_slots(region(), 3 * contexts), contexts);
        prop_assert_eq!(&read_all(&dram, &work).unwrap(), &wanted);
        prop_assert_eq!(dram.counters().reads_count, reads_of(work.len()));
        let copied = ring(PacedCopy::new(region(), options()), contexts);
        prop_assert_eq!(&read_all(&copied, &work).unwrap(), &wanted);
        let pair = QueuePair::new(region(), options(), Doorbell::Plain, Batching::PerKick);
        prop_assert_eq!(&read_all(&ring(pair.unwrap(), contexts), &work).unwrap(), &wanted);
        let script = delays.into_iter().map(|d| (d, Status::Ok));
        let scripted = ring(Scripted::new(3 * contexts, script), contexts);
        prop_assert_eq!(&read_all(&scripted, &work).unwrap(), &wanted);
    }
}

#[test]
fn contexts_give_way_to_each_other_at_every_read() {
    let ring = ring(Dram::with_slots(region(), 4), 2);
    let order = RefCell::new(Vec::new());
    ring.run(async |cx| {
        let mut reader = cx.reader::<8>();
        for _ in 0..2 {
            order.borrow_mut().push(cx.context());
            reader.read(8).await?;
        }
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!(*order.borrow(), [0, 1, 0, 1]);
    let counts = ring.counters();
    assert_eq!((counts.reads_count, counts.waits_count, counts.starved_count), (4, 0, 0));
}

#[test]
fn a_dropped_fixed_read_keeps_the_reader_from_reading_until_its_answer_is_due() {
    let ring = ring(PacedPtr::new(region(), paced(Picos::from_micros(300), 1)), 1);
    ring.run(async |cx| {
        let mut reader = cx.reader::<8>();
        begin_and_drop(reader.read(0)).await;
        assert_eq!(ring.counters().abandoned_count, 1);
        let before = ring.counters();
        begin_and_drop(reader.read(8)).await;
        let after = ring.counters();
        assert_eq!(after.waits_count, before.waits_count + 1, "a second read was issued at once");
        assert_eq!(after.reads_count, before.reads_count);
        assert_eq!(*reader.read(16).await?, content(16).to_le_bytes());
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!(ring.counters().abandoned_count, 1);
}

#[test]
fn the_slot_of_a_dropped_reader_is_free_once_its_read_is_due() {
    let ring = ring(PacedPtr::new(region(), paced(Picos::from_micros(300), 1)), 1);
    ring.run(async |cx| {
        let mut reader = cx.reader::<8>();
        begin_and_drop(reader.read(0)).await;
        drop(reader);
        assert_eq!(cx.read(8, 8).await?[..], content(8).to_le_bytes());
        assert!(ring.counters().starved_count > 0, "the slot was not waited for");
        Ok::<(), Error>(())
    })
    .unwrap();
}

#[test]
fn a_foreign_future_among_fixed_reads_is_refused() {
    let ring = ring(Dram::with_slots(region(), 8), 4);
    let error = ring
        .run(async |cx| {
            let mut reader = cx.reader::<8>();
            for i in 0..1_000 {
                reader.read(8 * (i % WORDS)).await?;
                if cx.context() == 1 && i == 3 {
                    pending::<()>().await;
                }
            }
            Ok::<(), Error>(())
        })
        .unwrap_err();
    assert_eq!(error.kind(), Kind::ForeignFuture);
    assert!(error.to_string().contains("context 1"), "{error}");
    let alone = ring.block_on(async |cx| {
        cx.reader::<8>().read(0).await?;
        pending::<()>().await;
        Ok::<(), Error>(())
    });
    assert_eq!(alone.unwrap_err().kind(), Kind::ForeignFuture);
}

/// How a read of `N` bytes at an address ends.
fn outcome<const N: usize>(addr: u64) -> Result<(), Error> {
    let ring = ring(PacedPtr::new(region(), paced(Picos::ZERO, 4)), 1);
    ring.block_on(async |cx| cx.reader::<N>().read(addr).await.map(|_| ()))
}

#[test]
fn a_length_or_a_place_that_the_device_does_not_take_is_refused() {
    assert!(outcome::<8>(8 * WORDS - 8).is_ok() && outcome::<64>(0).is_ok());
    let refused = [
        outcome::<8>(8 * WORDS),
        outcome::<8>(4),
        outcome::<8>(u64::MAX - 7),
        outcome::<12>(0),
        outcome::<72>(0),
        outcome::<0>(0),
    ];
    for error in refused.map(Result::unwrap_err) {
        assert_eq!(error.kind(), Kind::Read(Status::Refused), "{error}");
        assert!(error.to_string().contains("4000 bytes, granule 8"), "{error}");
    }
}

#[test]
fn a_reader_waits_for_a_slot_and_an_endless_wait_is_an_error() {
    let ring = ring(Dram::with_slots(region(), 2), 2);
    let found = Cell::new(0u64);
    ring.run(async |cx| {
        let (mut first, mut second) = (cx.reader::<8>(), cx.reader::<8>());
        for reader in [&mut first, &mut second] {
            found.set(found.get() ^ u64::from_le_bytes(*reader.read(8).await?));
        }
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!(found.get(), 0, "four reads of one word");
    assert!(ring.counters().starved_count > 0, "the second context found both slots held");
    let error = ring.block_on(async |cx| {
        let mut readers = [cx.reader::<8>(), cx.reader::<8>(), cx.reader::<8>()];
        readers[2].read(8).await.map(|_| ())
    });
    assert_eq!(error.unwrap_err().kind(), Kind::Exhausted);
}
