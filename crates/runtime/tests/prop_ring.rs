//! The ring against a serial oracle, and dropped futures against late answers.
#![allow(clippy::unwrap_used)] // Reason: a test's helpers may fail like the test.

mod support;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use littoral_base::units::Picos;
use littoral_device::flash::paced::{PacedCopy, PacedOptions, PacedPtr};
use littoral_device::flash::pacer::Timing;
use littoral_device::flash::queue_pair::{Batching, Doorbell, QueuePair};
use littoral_device::read::{ReadDevice, Status};
use littoral_device::region::Region;
use littoral_runtime::{Contexts, Cx, Error, Kind, Ring, RingOptions};
use proptest::prelude::*;
use support::{Scripted, content};

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

fn ring<D: ReadDevice>(device: D, contexts: u32) -> Ring<D> {
    Ring::new(device, RingOptions::with_contexts(Contexts::Fixed(contexts))).unwrap()
}

/// Reads every address in `work`; answers what each read brought, in the order of `work`.
fn read_all<D: ReadDevice>(ring: &Ring<D>, work: &[u64]) -> Result<Vec<u64>, Error> {
    let next = Cell::new(0);
    let found = RefCell::new(vec![0; work.len()]);
    ring.run(async |cx| {
        while next.get() < work.len() {
            let i = next.replace(next.get() + 1);
            let bytes = cx.read(work[i], 8).await?;
            found.borrow_mut()[i] = word(&bytes);
            if work[i].is_multiple_of(3) {
                cx.yield_now().await;
            }
        }
        Ok::<(), Error>(())
    })?;
    Ok(found.into_inner())
}

/// Polls `first` and `second` until either is ready and drops the other.
async fn race<T>(first: impl Future<Output = T>, second: impl Future<Output = T>) -> T {
    let (mut first, mut second) = (pin!(first), pin!(second));
    std::future::poll_fn(|cx| match first.as_mut().poll(cx) {
        Poll::Pending => second.as_mut().poll(cx),
        ready => ready,
    })
    .await
}

/// Two reads of which only one is waited for; answers the address that won and its word.
async fn hasty(cx: Cx<'_, Scripted>, a: u64, b: u64) -> Result<(u64, u64), Error> {
    let read = async |addr| Ok::<_, Error>((addr, word(&cx.read(addr, 8).await?)));
    race(read(a), read(b)).await
}

proptest! {
    #![proptest_config(littoral_testing::standard())]
    #[test]
    fn every_read_brings_its_own_bytes_whatever_the_order_of_answers(
        delays in proptest::collection::vec(0u64..20, 1..300),
        contexts in 1u32..40, spare in 0u32..5,
    ) {
        let work: Vec<u64> = (0..delays.len() as u64).map(|i| i * 7).collect();
        let script = delays.into_iter().map(|d| (d, Status::Ok));
        let ring = ring(Scripted::new(contexts + spare, script), contexts);
        let wanted: Vec<u64> = work.iter().map(|&a| content(a)).collect();
        prop_assert_eq!(read_all(&ring, &work).unwrap(), wanted);
        prop_assert_eq!(ring.counters().reads_count, work.len() as u64);
    }

    #[test]
    fn work_that_grows_is_done_once_by_any_number_of_contexts(
        delays in proptest::collection::vec(0u64..20, 301),
        parents in proptest::collection::vec(any::<prop::sample::Index>(), 0..300),
        first in 1u32..9, contexts in 1u32..40, spare in 0u32..5,
    ) {
        // A tree: item `i + 1` is found when its parent, an earlier item, has been read.
        let mut children = vec![Vec::new(); parents.len() + 1];
        for (i, parent) in parents.iter().enumerate() {
            children[parent.index(i + 1)].push(i + 1);
        }
        let script = delays.into_iter().map(|d| (d, Status::Ok));
        let ring = ring(Scripted::new(contexts + spare, script), contexts);
        let todo = RefCell::new(vec![0usize]);
        let times = RefCell::new(vec![0; children.len()]);
        let take = || todo.borrow_mut().pop();
        ring.run_on_demand(first, || todo.borrow().len() as u64, async |cx| {
            while let Some(i) = take() {
                let bytes = cx.read(i as u64, 8).await?;
                assert_eq!(word(&bytes), content(i as u64));
                times.borrow_mut()[i] += 1;
                todo.borrow_mut().extend(&children[i]);
            }
            Ok::<(), Error>(())
        })
        .unwrap();
        prop_assert!(times.borrow().iter().all(|&times| times == 1));
        prop_assert_eq!(ring.counters().reads_count, children.len() as u64);
    }

    #[test]
    fn late_data_of_a_dropped_read_reach_no_other(
        delays in proptest::collection::vec(0u64..40, 50..400), contexts in 1u32..9,
    ) {
        let script = delays.into_iter().map(|d| (d, Status::Ok));
        let mut ring = ring(Scripted::new(3 * contexts, script), contexts);
        let next = Cell::new(0u64);
        ring.run(async |cx| {
            while next.get() < 100 {
                let i = next.replace(next.get() + 1);
                let (addr, found) = hasty(cx, 2 * i, 2 * i + 1).await?;
                assert_eq!(found, content(addr), "bytes of another request");
                let bytes = cx.read(1_000 + i, 8).await?;
                assert_eq!(word(&bytes), content(1_000 + i), "late bytes of a dropped request");
            }
            Ok::<(), Error>(())
        })
        .unwrap();
        let late = ring.device().late_answers.get();
        prop_assert!(late <= ring.counters().abandoned_count);
    }

    #[test]
    fn a_failing_read_ends_the_run_and_the_ring_goes_on(at in 0usize..60, contexts in 1u32..20) {
        let script = (0..60).map(move |i| {
            (i % 5, if i as usize == at { Status::MediaError } else { Status::Ok })
        });
        let ring = ring(Scripted::new(2 * contexts, script), contexts);
        let work: Vec<u64> = (0..60).collect();
        let error = read_all(&ring, &work).unwrap_err();
        prop_assert_eq!(error.kind(), Kind::Read(Status::MediaError));
        let wanted: Vec<u64> = work.iter().map(|&a| content(a)).collect();
        prop_assert_eq!(read_all(&ring, &work).unwrap(), wanted);
    }

    #[test]
    fn models_deliver_what_the_region_holds(
        work in proptest::collection::vec(0u64..500, 1..200), contexts in 1u32..70,
        latency_ns in 0u64..3_000, tuned: bool,
    ) {
        let words: Vec<u8> = (0..500u64).flat_map(|i| content(i).to_le_bytes()).collect();
        let region = Region::from_bytes(&words).unwrap();
        let addrs: Vec<u64> = work.iter().map(|&i| i * 8).collect();
        let wanted: Vec<u64> = work.iter().map(|&i| content(i)).collect();
        let options = PacedOptions {
            timing: Timing { latency: Picos::from_nanos(latency_ns), ..Timing::default() },
            slots: 2 * contexts,
            granule_bytes: 8,
            read_bytes_max: 64,
        };
        let contexts = if tuned { Contexts::Auto } else { Contexts::Fixed(contexts) };
        let with = RingOptions::with_contexts(contexts);
        let ptr = Ring::new(PacedPtr::new(region.clone(), options.clone()), with.clone()).unwrap();
        prop_assert_eq!(&read_all(&ptr, &addrs).unwrap(), &wanted);
        let copy = Ring::new(PacedCopy::new(region.clone(), options.clone()), with.clone()).unwrap();
        prop_assert_eq!(&read_all(&copy, &addrs).unwrap(), &wanted);
        let pair = QueuePair::new(region, options, Doorbell::Plain, Batching::PerKick).unwrap();
        prop_assert_eq!(&read_all(&Ring::new(pair, with).unwrap(), &addrs).unwrap(), &wanted);
    }
}

#[test]
fn a_run_that_ends_early_abandons_what_is_under_way() {
    let script = [(0, Status::MediaError)].into_iter().chain((0..7).map(|_| (1_000, Status::Ok)));
    let ring = ring(Scripted::new(8, script), 8);
    let work: Vec<u64> = (0..8).collect();
    assert_eq!(read_all(&ring, &work).unwrap_err().kind(), Kind::Read(Status::MediaError));
    assert_eq!(ring.counters().abandoned_count, 7);
    assert_eq!(
        read_all(&ring, &work).unwrap(),
        work.iter().map(|&a| content(a)).collect::<Vec<_>>()
    );
    assert!(ring.counters().starved_count > 0, "the abandoned slots were not waited for");
}

#[test]
fn a_foreign_future_beside_busy_neighbours_is_found() {
    let ring = ring(Scripted::new(8, (0..).map(|i| (i % 3, Status::Ok))), 4);
    let error = ring
        .run(async |cx| {
            if cx.context() == 2 {
                std::future::pending::<()>().await;
            }
            for i in 0..1_000 {
                // A context that waits for two reads leaves two marks a poll.
                let _ = race(async { cx.read(i, 8).await.map(|b| word(&b)) }, async {
                    cx.read(i, 8).await.map(|b| word(&b))
                })
                .await?;
            }
            Ok::<(), Error>(())
        })
        .unwrap_err();
    assert_eq!(error.kind(), Kind::ForeignFuture);
    assert!(error.to_string().contains("context 2"), "{error}");
}
