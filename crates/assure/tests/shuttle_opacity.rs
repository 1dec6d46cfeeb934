//! Long random schedules under shuttle: threads hand over at every access to an atomic.
//!
//! Run with `scripts/schedules.sh shuttle`; SCHEDULES says how many (4000). shuttle explores
//! sequentially consistent schedules; weaker orderings are loom's part.
#![cfg(shuttle)]

use std::sync::atomic::AtomicU64;

use littoral_assure::stm::opacity::{OBJECTS, Object, Player, check};
use littoral_base::rng;
use littoral_base::sync::{Arc, thread};
use littoral_device::pmem::Dram;
use littoral_stm::{Abort, Options, Pool, Ref};
use shuttle::rand::{RngCore, thread_rng};

littoral_stm::record! {
    struct Cell = "test.cell/1" { value: u64 }
}

/// Three threads move between three cells; every view, also a doomed one, has the same sum.
#[test]
fn sums_are_constant_in_every_view_of_every_schedule() {
    let body = || {
        let options = Options { threads_max: 4, slab_bytes: Some(512) };
        let pool = Pool::create(Dram::new(8 << 10), &options).expect("room");
        let mut th = pool.thread().expect("a slot");
        let made = th.atomically(|tx| (0..3).map(|_| tx.alloc(&Cell { value: 9 })).collect());
        let cells: Vec<Ref<Cell>> = made.expect("room");
        drop(th);
        let shared = Arc::new((pool, cells));
        let workers: Vec<_> = (0..3usize)
            .map(|t| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (pool, cells) = &*shared;
                    let mut th = pool.thread().expect("a slot");
                    for i in 0..2 {
                        let step = th.once(|tx| {
                            let all = cells.iter().map(|&c| Ok(tx.read(c)?.value));
                            let all: Vec<u64> = all.collect::<Result<_, Abort>>()?;
                            assert_eq!(all.iter().sum::<u64>(), 27);
                            let (from, to) = ((t + i) % 3, (t + i + 1) % 3);
                            tx.write(cells[from], &Cell { value: all[from] - 1 })?;
                            tx.write(cells[to], &Cell { value: all[to] + 1 })
                        });
                        step.expect("no error");
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|w| w.join().expect("no panic"));
    };
    shuttle::check_random(body, schedules());
}

fn schedules() -> usize {
    std::env::var("SCHEDULES").ok().and_then(|s| s.parse().ok()).unwrap_or(4_000)
}

/// Random transactions of three threads: one order explains every read of every attempt.
#[test]
fn the_history_of_every_schedule_is_opaque() {
    let body = || {
        let options = Options { threads_max: 4, slab_bytes: Some(512) };
        let pool = Pool::create(Dram::new(8 << 10), &options).expect("room");
        let mut th = pool.thread().expect("a slot");
        let initial: [u64; OBJECTS] = std::array::from_fn(|i| i as u64);
        let made = th.atomically(|tx| initial.iter().map(|&v| tx.alloc(&Object::of(v))).collect());
        let made: Vec<Ref<Object>> = made.expect("room");
        let objects: [Ref<Object>; OBJECTS] = made.try_into().expect("as many as asked for");
        drop(th);
        let (seed, shared) = (thread_rng().next_u64(), Arc::new((pool, AtomicU64::new(1))));
        let players: Vec<_> = (0..3)
            .map(|t| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (pool, time) = &*shared;
                    let mut th = pool.thread().expect("a slot");
                    let rng = rng::stream(seed, &format!("player-{t}"));
                    Player { rng, time, objects }.play(&mut th, 2).expect("no error")
                })
            })
            .collect();
        let parts = players.into_iter().map(|p| p.join().expect("no panic"));
        let history: Vec<_> = parts.flatten().collect();
        assert!(check(initial, &history).is_some(), "no order explains {history:?}");
    };
    shuttle::check_random(body, schedules());
}
