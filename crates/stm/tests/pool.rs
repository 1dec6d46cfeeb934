//! Pools and transactions from the outside: isolation between threads, reopening, bad input.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use littoral_device::memory::Domain;
use littoral_device::pmem::trace::{Enumerate, Tear};
use littoral_device::pmem::{Dram, FlushFence, Msync, Sim};
use littoral_stm::structures::{HashMap, Map};
use littoral_stm::{Abort, Kind, Options, Pool, Record, Ref, Restart, Unfinished, type_name};

littoral_stm::record! {
    struct Cell = "test.cell/1" { value: u64 }
}
littoral_stm::record! {
    struct Wide = "test.wide/1" { words: [u64; 20] }
}

fn tiny() -> Options {
    Options { threads_max: 3, slab_bytes: Some(1024) }
}

#[test]
fn threads_move_money_and_the_sum_never_changes_in_anyones_eyes() {
    let pool = Pool::create(FlushFence::anonymous(1 << 20).unwrap(), &Options::default()).unwrap();
    let mut main = pool.thread().unwrap();
    let cells: Vec<Ref<Cell>> =
        main.atomically(|tx| (0..8).map(|_| tx.alloc(&Cell { value: 100 })).collect()).unwrap();
    let cells = &cells;
    std::thread::scope(|s| {
        for t in 0..2u64 {
            let mut th = pool.thread().unwrap();
            s.spawn(move || {
                for i in 0..20_000u64 {
                    let (a, b) = ((i * 7 + t) as usize % 8, (i * 3 + 1) as usize % 8);
                    if a == b {
                        continue;
                    }
                    let moved = th.atomically(|tx| {
                        let from = tx.read(cells[a])?.value;
                        let n = from.min(i % 5);
                        tx.write(cells[a], &Cell { value: from - n })?;
                        tx.update(cells[b], |c| c.value += n)
                    });
                    moved.unwrap();
                }
            });
        }
        for snapshot in [false, true] {
            let mut th = pool.thread().unwrap();
            s.spawn(move || {
                let mut body = |tx: &mut littoral_stm::Tx<'_, '_, FlushFence>| {
                    let mut sum = 0;
                    for &c in cells {
                        sum += tx.read(c)?.value;
                    }
                    // Inside the closure on purpose: also an attempt that aborts later must see it.
                    assert_eq!(sum, 800);
                    Ok(())
                };
                for _ in 0..5_000 {
                    if snapshot { th.snapshot(&mut body) } else { th.read_only(&mut body) }
                        .unwrap();
                }
            });
        }
    });
    let sum = main.read_only(|tx| {
        cells.iter().map(|&c| tx.read(c).map(|c| c.value)).sum::<Result<u64, Abort>>()
    });
    assert_eq!(sum.unwrap(), 800);
}

#[test]
fn a_named_root_survives_a_file_reopened_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::create(Msync::create(&path, 1 << 20).unwrap(), &Options::default()).unwrap();
    let mut th = pool.thread().unwrap();
    th.atomically(|tx| {
        let wide = tx.alloc(&Wide { words: std::array::from_fn(|i| i as u64) })?;
        tx.set_root("users", wide)
    })
    .unwrap();
    drop(th);
    drop(pool);
    for restart in [Restart::Lazy, Restart::Scan] {
        let pool = Pool::open(Msync::open(&path).unwrap(), restart).unwrap();
        let mut th = pool.thread().unwrap();
        let words = th.atomically(|tx| {
            let at: Ref<Wide> = tx.root("users")?.ok_or_else(|| Abort::cancel("gone"))?;
            tx.update(at, |w| {
                w.words[0] += 1;
                w.words[19]
            })
        });
        assert_eq!(words.unwrap(), 19);
        let other = th.read_only(|tx| tx.root::<Cell>("users")).unwrap_err();
        assert_eq!(other.kind(), Kind::BadReference);
        assert_eq!(th.read_only(|tx| tx.root::<Wide>("absent")).unwrap(), None);
    }
}

#[test]
fn a_name_is_taken_back_by_hand_by_null_and_with_its_object() {
    let pool = Pool::create(Sim::new(64 << 10), &tiny()).unwrap();
    let mut th = pool.thread().unwrap();
    let cell = th.atomically(|tx| tx.alloc(&Cell { value: 1 })).unwrap();
    let name = |th: &mut littoral_stm::Thread<'_, Sim>, name: &str| {
        th.atomically(|tx| tx.set_root(name, cell)).unwrap();
    };
    let names = || pool.roots().unwrap().into_iter().map(|r| r.name).collect::<Vec<_>>();
    ["a", "b", "c", "d"].iter().for_each(|n| name(&mut th, n));
    assert!(th.atomically(|tx| tx.clear_root("b")).unwrap());
    assert!(!th.atomically(|tx| tx.clear_root("b")).unwrap());
    th.atomically(|tx| tx.set_root("c", Ref::<Cell>::NULL)).unwrap();
    assert_eq!(names(), ["a", "d"]);
    assert_eq!(th.read_only(|tx| tx.root::<Cell>("c")).unwrap(), None);
    // Ended and named again in one transaction, and a name that moves.
    th.atomically(|tx| {
        tx.clear_root("a")?;
        tx.set_root("a", cell)?;
        let other = tx.alloc(&Cell { value: 2 })?;
        tx.set_root("d", other)
    })
    .unwrap();
    th.atomically(|tx| tx.free(cell)).unwrap();
    assert_eq!(names(), ["d"], "the object ended and took its name with it");
    // Its memory serves another object, which has no name.
    let again = th.atomically(|tx| tx.alloc(&Cell { value: 3 })).unwrap();
    assert_eq!((again, names()), (cell, vec!["d".to_owned()]));
    let gone = th.atomically(|tx| tx.set_root("e", Ref::<Cell>::from_offset(1 << 40)));
    assert_eq!(gone.unwrap_err().kind(), Kind::BadReference);
    drop(th);
    // A restart knows which objects have names.
    let pool = Pool::open(pool.into_domain(), Restart::Lazy).unwrap();
    let mut th = pool.thread().unwrap();
    let d = th.read_only(|tx| tx.root::<Cell>("d")).unwrap().unwrap();
    th.atomically(|tx| tx.free(d)).unwrap();
    assert_eq!(pool.roots().unwrap(), []);
}

#[test]
fn a_mebibyte_holds_as_many_names_as_it_says_and_one_more_is_refused() {
    let pool = Pool::create(Dram::new(1 << 20), &Options::default()).unwrap();
    let mut th = pool.thread().unwrap();
    let cell = th.atomically(|tx| tx.alloc(&Cell { value: 1 })).unwrap();
    let most = pool.info().unwrap().roots_max;
    assert_eq!(most, 64);
    for round in 0..2 {
        for i in 0..most {
            th.atomically(|tx| tx.set_root(&format!("{round}-{i}"), cell)).unwrap();
        }
        let more = th.atomically(|tx| tx.set_root("more", cell)).unwrap_err();
        assert_eq!(more.kind(), Kind::Full);
        assert_eq!(pool.roots().unwrap().len() as u64, most);
        for i in 0..most {
            assert!(th.atomically(|tx| tx.clear_root(&format!("{round}-{i}"))).unwrap());
        }
    }
}

/// Fills the pool with objects of a type.
fn fill<T: Record, D: Domain>(th: &mut littoral_stm::Thread<'_, D>, value: &T) -> Vec<Ref<T>> {
    let mut all = Vec::new();
    loop {
        match th.atomically(|tx| tx.alloc(value)) {
            Ok(at) => all.push(at),
            Err(full) => {
                assert_eq!(full.kind(), Kind::Full);
                return all;
            }
        }
    }
}

#[test]
fn memory_of_one_type_serves_another_once_its_objects_have_ended() {
    let (cell, wide) = (Cell { value: 1 }, Wide { words: [2; 20] });
    for restart in [None, Some(Restart::Lazy), Some(Restart::Scan)] {
        let mut pool = Pool::create(Sim::new(32 << 10), &tiny()).unwrap();
        for round in 0..3 {
            let mut th = pool.thread().unwrap();
            let cells = fill(&mut th, &cell);
            assert!(cells.len() > 100, "{} cells, {restart:?}, round {round}", cells.len());
            for &at in &cells {
                th.atomically(|tx| tx.free(at)).unwrap();
            }
            drop(th);
            if let Some(restart) = restart {
                pool = Pool::open(pool.into_domain(), restart).unwrap();
            }
            let mut th = pool.thread().unwrap();
            let wides = fill(&mut th, &wide);
            assert!(wides.len() > 20, "{} wides, {restart:?}, round {round}", wides.len());
            let stale = th.atomically(|tx| tx.read(cells[0])).unwrap_err();
            assert_eq!(stale.kind(), Kind::BadReference);
            let stale = th.atomically(|tx| tx.write(cells[1], &cell)).unwrap_err();
            assert_eq!(stale.kind(), Kind::BadReference);
            for &at in &wides {
                assert_eq!(th.read_only(|tx| tx.read(at)).unwrap(), wide);
                th.atomically(|tx| tx.free(at)).unwrap();
            }
        }
        let again = Pool::open(pool.into_domain(), Restart::Scan).unwrap();
        let types = again.info().unwrap().types;
        assert!(types.iter().all(|t| t.objects_count == 0), "{types:?}");
    }
}

#[test]
fn memory_that_was_another_pools_shows_nothing_of_it() {
    let domain = Arc::new(Dram::new(32 << 10));
    let pool = Pool::create(Arc::clone(&domain), &tiny()).unwrap();
    let mut th = pool.thread().unwrap();
    let cells = fill(&mut th, &Cell { value: 7 });
    drop(th);
    drop(pool);
    // What lies before the first slab behind the names is wiped.
    let front = cells.iter().map(|at| at.offset() as usize).min().unwrap();
    (0..front).step_by(8).for_each(|at| domain.store(at, 0, Ordering::Relaxed));
    domain.store(front - 8, 1, Ordering::Relaxed);
    let refused = Pool::create(Arc::clone(&domain), &tiny()).unwrap_err();
    assert_eq!(refused.kind(), Kind::Foreign, "where names go: {refused}");
    domain.store(front - 8, 0, Ordering::Relaxed);
    let pool = Pool::create(domain, &tiny()).unwrap();
    let mut th = pool.thread().unwrap();
    let wides = fill(&mut th, &Wide { words: [2; 20] });
    assert!(wides.len() > 20, "{} wides", wides.len());
    let types = pool.info().unwrap().types;
    let alive: u64 = types.iter().map(|t| t.objects_count).sum();
    assert_eq!(alive, wides.len() as u64, "{types:?}");
}

#[test]
fn a_slab_with_one_living_object_keeps_its_type() {
    let pool = Pool::create(Dram::new(32 << 10), &tiny()).unwrap();
    let mut th = pool.thread().unwrap();
    let cells = fill(&mut th, &Cell { value: 7 });
    // One object of every slab stays: a slab of 1024 bytes holds sixteen.
    let (kept, ended): (Vec<_>, Vec<_>) = cells
        .iter()
        .partition::<Vec<Ref<Cell>>, _>(|at| at.offset() % 1024 == cells[0].offset() % 1024);
    for at in ended {
        th.atomically(|tx| tx.free(at)).unwrap();
    }
    let full = th.atomically(|tx| tx.alloc(&Wide { words: [1; 20] })).unwrap_err();
    assert_eq!(full.kind(), Kind::Full);
    for at in kept {
        assert_eq!(th.read_only(|tx| tx.read(at)).unwrap().value, 7);
    }
    th.atomically(|tx| tx.alloc(&Cell { value: 8 })).unwrap();
}

#[test]
fn a_full_pool_fails_that_transaction_whole_and_freeing_makes_room() {
    let pool = Pool::create(Dram::new(8 << 10), &tiny()).unwrap();
    let mut th = pool.thread().unwrap();
    let mut held = Vec::new();
    let full = loop {
        match th.atomically(|tx| Ok([tx.alloc(&Cell { value: 1 })?, tx.alloc(&Cell { value: 2 })?]))
        {
            Ok(two) => held.extend(two),
            Err(e) => break e,
        }
    };
    assert_eq!(full.kind(), Kind::Full);
    let alive = |pool: &Pool<Dram>| {
        let info = pool.info().unwrap();
        info.types.iter().find(|t| t.tag == Cell::TAG).map(|t| t.objects_count)
    };
    assert_eq!(alive(&pool), Some(held.len() as u64), "nothing of the failed one is left");
    th.atomically(|tx| tx.free(held[0]).and_then(|()| tx.free(held[1]))).unwrap();
    assert_eq!(alive(&pool), Some(held.len() as u64 - 2));
    th.atomically(|tx| Ok((tx.alloc(&Cell { value: 3 })?, tx.alloc(&Cell { value: 4 })?))).unwrap();
}

#[test]
fn a_panic_or_an_error_in_a_closure_undoes_it_and_releases_its_locks() {
    let pool = Pool::create(Dram::new(64 << 10), &tiny()).unwrap();
    let (mut a, mut b) = (pool.thread().unwrap(), pool.thread().unwrap());
    let cell = a.atomically(|tx| tx.alloc(&Cell { value: 1 })).unwrap();
    let boom = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        a.atomically(|tx| {
            tx.write(cell, &Cell { value: 2 })?;
            if tx.read(cell)?.value == 2 {
                panic!("user code");
            }
            Ok(())
        })
    }));
    assert!(boom.is_err());
    let gave_up = b.once(|tx| {
        tx.write(cell, &Cell { value: 3 })?;
        Err::<(), _>(Abort::cancel("no"))
    });
    assert_eq!(gave_up.unwrap_err().kind(), Kind::Cancelled);
    assert_eq!(a.once(|tx| tx.read(cell)).unwrap(), Some(Cell { value: 1 }));
    drop((a, b));
    // A thread that dies with its handle gives the slot back: three slots serve many threads.
    for _ in 0..10 {
        std::thread::scope(|s| {
            let dying = s.spawn(|| {
                let mut th = pool.thread().unwrap();
                th.atomically(|tx| -> Result<(), Abort> {
                    tx.write(cell, &Cell { value: 9 })?;
                    panic!("thread dies")
                })
            });
            assert!(dying.join().is_err());
        });
    }
    assert_eq!(pool.thread().unwrap().once(|tx| tx.read(cell)).unwrap(), Some(Cell { value: 1 }));
}

#[test]
fn misuse_is_named_and_changes_nothing() {
    let pool = Pool::create(Dram::new(64 << 10), &tiny()).unwrap();
    let mut th = pool.thread().unwrap();
    let cell = th.atomically(|tx| tx.alloc(&Cell { value: 7 })).unwrap();
    let kind = |r: littoral_stm::Result<()>| r.unwrap_err().kind();
    assert_eq!(kind(th.read_only(|tx| tx.write(cell, &Cell { value: 8 }))), Kind::ReadOnly);
    assert_eq!(kind(th.snapshot(|tx| tx.free(cell))), Kind::ReadOnly);
    let wide = Ref::<Wide>::from_offset(cell.offset());
    assert_eq!(kind(th.atomically(|tx| tx.read(wide).map(drop))), Kind::BadReference);
    for offset in [0, 8, cell.offset() + 8, 1 << 40, u64::MAX] {
        let stray = Ref::<Cell>::from_offset(offset);
        assert_eq!(kind(th.atomically(|tx| tx.read(stray).map(drop))), Kind::BadReference);
    }
    th.atomically(|tx| tx.free(cell)).unwrap();
    assert_eq!(kind(th.atomically(|tx| tx.read(cell).map(drop))), Kind::BadReference);
    assert_eq!(kind(th.atomically(|tx| tx.set_root("", cell))), Kind::Usage);
    let _more = (pool.thread().unwrap(), pool.thread().unwrap());
    assert_eq!(pool.thread().unwrap_err().kind(), Kind::Threads);
}

#[test]
fn foreign_damaged_and_misfit_media_are_refused_by_name() {
    let sim = |edit: &dyn Fn(&Sim)| {
        let pool = Pool::create(Sim::new(16 << 10), &tiny()).unwrap();
        pool.thread().unwrap().atomically(|tx| tx.alloc(&Cell { value: 7 })).unwrap();
        let sim = pool.into_domain();
        edit(&sim);
        Pool::open(sim, Restart::Scan).err().map(|e| e.kind())
    };
    let poke = |at: usize, xor: u64| {
        move |s: &Sim| s.store(at, s.word(at, Ordering::Relaxed) ^ xor, Ordering::Relaxed)
    };
    assert_eq!(sim(&|_| ()), None);
    assert_eq!(sim(&poke(0, 1)), Some(Kind::Foreign), "magic");
    assert_eq!(sim(&poke(8, 3)), Some(Kind::Unsupported), "version");
    assert_eq!(sim(&poke(24, 64)), Some(Kind::Corrupt), "slab size without its checksum");
    assert_eq!(sim(&poke(256 + 8, 2)), Some(Kind::Corrupt), "frontier line");
    assert_eq!(sim(&poke(1024 + 8, 1)), Some(Kind::Corrupt), "slab table entry of the roots");
    assert_eq!(sim(&poke(1088 + 8, 1)), Some(Kind::Corrupt), "slab table entry over a used slab");
    assert_eq!(Pool::open(Sim::new(4096), Restart::Lazy).unwrap_err().kind(), Kind::Foreign);
    let taken = Dram::new(64 << 10);
    taken.store(512, 1, Ordering::Relaxed);
    assert_eq!(Pool::create(taken, &tiny()).unwrap_err().kind(), Kind::Foreign);
    let none = Options { threads_max: 0, slab_bytes: None };
    assert_eq!(Pool::create(Dram::new(1 << 20), &none).unwrap_err().kind(), Kind::Usage);
    assert_eq!(Pool::create(Dram::new(256), &tiny()).unwrap_err().kind(), Kind::Usage);
}

#[test]
fn a_creation_cut_off_anywhere_leaves_a_pool_or_is_named_as_cut_short() {
    let sim = Arc::new(Sim::new(16 << 10));
    drop(Pool::create(Arc::clone(&sim), &tiny()).unwrap());
    for tear in [Tear::LinePrefix, Tear::Words] {
        let how = Enumerate { tear, images_per_point_max: 64, seed: 2 };
        let mut whole = 0;
        let coverage = sim.trace().enumerate(&how, |image| {
            match Pool::open(Sim::from_image(image.words), Restart::Lazy) {
                Ok(_) => whole += 1,
                Err(e) if e.kind() == Kind::Foreign && e.to_string().contains("cut short") => {}
                Err(e) => return Err(e.to_string()),
            }
            Ok(())
        });
        assert_eq!(coverage.failure, None);
        assert!(whole > 0 && coverage.images_count > whole + 60, "{whole} of {coverage:?}");
    }
}

#[test]
fn a_failed_fence_poisons_updates_and_leaves_reads() {
    let sim = Sim::new(16 << 10).with_plan("seed=5 fence:fail=1/16".parse().unwrap()).unwrap();
    let pool = Pool::create(sim, &tiny()).unwrap();
    let mut th = pool.thread().unwrap();
    let cell = th.atomically(|tx| tx.alloc(&Cell { value: 0 })).unwrap();
    let mut last = 0;
    let failed = loop {
        match th.atomically(|tx| tx.write(cell, &Cell { value: last + 1 })) {
            Ok(()) => last += 1,
            Err(e) => break e,
        }
        assert!(last < 100, "the plan's fault came");
    };
    assert_eq!(failed.kind(), Kind::Device);
    assert_eq!(th.read_only(|tx| tx.read(cell)).unwrap().value, last);
    let after = th.atomically(|tx| tx.write(cell, &Cell { value: 1 })).unwrap_err();
    assert_eq!(after.kind(), Kind::Poisoned);
}

#[test]
fn a_pool_shows_its_roots_its_objects_and_what_a_crash_left() {
    let pool = Pool::create(Sim::new(64 << 10), &tiny()).unwrap();
    let mut th = pool.thread().unwrap();
    let map = th
        .atomically(|tx| {
            let map = HashMap::create(tx, 3)?;
            tx.set_root("map", map.at())?;
            map.insert(tx, 7, 70)?;
            Ok(map)
        })
        .unwrap();
    let cell = th.atomically(|tx| tx.alloc(&Cell { value: 41 })).unwrap();
    th.atomically(|tx| tx.write(cell, &Cell { value: 42 })).unwrap();
    let gone = th.atomically(|tx| tx.alloc(&Cell { value: 1 })).unwrap();
    th.atomically(|tx| tx.free(gone)).unwrap();
    std::mem::forget(th);
    let roots = pool.roots().unwrap();
    assert_eq!((roots[0].name.as_str(), roots[0].offset), ("map", map.at().offset()));
    assert_eq!(type_name(roots[0].tag), Some("littoral.hash.head/2"));
    let (mut cells, mut others) = (Vec::new(), 0);
    pool.walk(|o| {
        if o.tag == Cell::TAG {
            cells.push((o.offset, o.words.clone()));
        } else {
            others += u64::from(type_name(o.tag).is_some());
        }
        true
    })
    .unwrap();
    assert_eq!(cells, [(cell.offset(), vec![42])], "the newest version, and no freed object");
    assert_eq!(others, 1 + 1 + 1 + 3, "root, head, directory, buckets");
    let found = Unfinished::read(pool.domain()).unwrap();
    assert_eq!((found.threads_count, found.dead_count), (1, 0));
    let again = Pool::open(pool.into_domain(), Restart::Lazy).unwrap();
    assert_eq!(Unfinished::read(again.domain()).unwrap().dead_count, 1);
}

#[test]
fn a_pool_has_one_owner_and_a_second_one_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::create(Msync::create(&path, 1 << 20).unwrap(), &tiny()).unwrap();
    let cell = pool.thread().unwrap().atomically(|tx| tx.alloc(&Cell { value: 4 })).unwrap();
    let busy = littoral_device::Kind::Busy;
    assert_eq!(Msync::open(&path).map(drop).unwrap_err().kind(), busy);
    let taken = littoral_device::Kind::Exists;
    assert_eq!(Msync::create(&path, 1 << 20).map(drop).unwrap_err().kind(), taken);
    drop(pool);
    let pool = Pool::open(Msync::open(&path).unwrap(), Restart::Lazy).unwrap();
    assert_eq!(pool.thread().unwrap().read_only(|tx| tx.read(cell)).unwrap().value, 4);
}

/// The words of a slot's dead list that hold a clock (docs/design/stm.md, "Bytes").
fn dead(sim: &Sim, slot: usize) -> usize {
    let at = 256 + 256 * slot;
    let word = |i: usize| sim.word(at + 8 * i, Ordering::Relaxed);
    (4..32).filter(|&i| word(i) != 0).count()
}

/// A pool whose slot 0 crashed `times` times, each time after one more committed write.
fn crashed(times: u64) -> (Arc<Sim>, Ref<Cell>) {
    let sim = Arc::new(Sim::new(16 << 10));
    let pool = Pool::create(Arc::clone(&sim), &tiny()).expect("sound");
    let cell =
        pool.thread().expect("sound").atomically(|tx| tx.alloc(&Cell { value: 0 })).expect("sound");
    for value in 1..=times {
        let pool = Pool::open(Arc::clone(&sim), Restart::Lazy).expect("sound");
        let mut th = pool.thread().expect("sound");
        th.atomically(|tx| tx.write(cell, &Cell { value })).expect("sound");
        // A handle that never ends leaves its slot active: to the medium that is a crash.
        std::mem::forget(th);
    }
    (sim, cell)
}

#[test]
fn a_full_dead_list_makes_one_restart_scan_and_then_holds_again() {
    let mut most = 0;
    for times in [1, 27, 28, 29, 30, 60] {
        let (sim, cell) = crashed(times);
        let listed = dead(&sim, 0);
        most = most.max(listed);
        let pool = Pool::open(Arc::clone(&sim), Restart::Lazy).unwrap();
        let mut th = pool.thread().unwrap();
        assert_eq!(th.read_only(|tx| tx.read(cell)).unwrap().value, times);
        th.atomically(|tx| tx.write(cell, &Cell { value: 99 })).unwrap();
        drop(th);
        let again = Pool::open(pool.into_domain(), Restart::Scan).unwrap();
        let found = again.thread().unwrap().read_only(|tx| tx.read(cell)).unwrap();
        assert_eq!((found.value, dead(&sim, 0)), (99, 0), "a scan empties the list");
    }
    assert_eq!(most, 28, "the list was full before it was emptied");
}

#[test]
fn a_crash_inside_the_scan_of_a_full_dead_list_is_one_more_crash() {
    let (sim, cell) = crashed(29);
    assert_eq!(dead(&sim, 0), 28);
    let sim = Arc::new(Sim::from_image(sim.trace().current()));
    drop(Pool::open(Arc::clone(&sim), Restart::Lazy).unwrap());
    assert_eq!(dead(&sim, 0), 0, "this restart was the one that scans");
    let how = Enumerate { images_per_point_max: 256, ..Enumerate::default() };
    let coverage = sim.trace().enumerate(&how, |image| {
        let pool =
            Pool::open(Sim::from_image(image.words), Restart::Lazy).map_err(|e| e.to_string())?;
        let mut th = pool.thread().map_err(|e| e.to_string())?;
        let value = th.atomically(|tx| tx.update(cell, |c| std::mem::replace(&mut c.value, 7)));
        match (value, th.read_only(|tx| tx.read(cell))) {
            (Ok(29), Ok(Cell { value: 7 })) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    assert_eq!(coverage.failure, None);
    assert!(coverage.images_count > 30, "{coverage:?}");
}

/// Every word of the medium.
fn words(sim: &Sim) -> Vec<u64> {
    (0..sim.len()).step_by(8).map(|at| sim.word(at, Ordering::Relaxed)).collect()
}

#[test]
fn more_threads_than_slots_are_refused_and_an_ended_or_dead_thread_makes_room() {
    let pool = Pool::create(Sim::new(64 << 10), &tiny()).unwrap();
    let mut all: Vec<_> = (0..3).map(|_| pool.thread().unwrap()).collect();
    let cell = all[0].atomically(|tx| tx.alloc(&Cell { value: 5 })).unwrap();
    let before = words(pool.domain());
    for _ in 0..2 {
        let refused = pool.thread().unwrap_err();
        assert_eq!(refused.kind(), Kind::Threads);
        assert!(refused.to_string().contains("all 3 thread slots are taken"), "{refused}");
    }
    assert_eq!(words(pool.domain()), before, "a refusal writes nothing");
    assert_eq!(all[0].read_only(|tx| tx.read(cell)).unwrap().value, 5, "the others go on");
    all.pop();
    let mut dying = pool.thread().unwrap();
    assert_eq!(pool.thread().unwrap_err().kind(), Kind::Threads);
    let died = std::thread::scope(|s| {
        let body = move || {
            dying.atomically(|tx| -> Result<(), Abort> {
                tx.write(cell, &Cell { value: 6 })?;
                tx.alloc(&Cell { value: 7 })?;
                panic!("thread dies with a record locked and an object made")
            })
        };
        s.spawn(body).join()
    });
    assert!(died.is_err());
    let mut after = pool.thread().expect("the dead thread's slot");
    let seen = after.once(|tx| tx.update(cell, |c| std::mem::replace(&mut c.value, 8))).unwrap();
    assert_eq!(seen, Some(5), "its lock is gone, its write undone");
    let types = pool.info().unwrap().types;
    let cells = types.iter().find(|t| t.tag == Cell::TAG).unwrap();
    assert_eq!(cells.objects_count, 1, "what it made is not there");
}

/// Memory of a process that has forked: the child does not have it, so a touch is its end.
struct OfParent {
    words: Dram,
    is_child: std::sync::atomic::AtomicBool,
}

impl OfParent {
    fn words(&self) -> &Dram {
        assert!(!self.is_child.load(Ordering::SeqCst), "the child touched the parent's memory");
        &self.words
    }
}

impl Domain for OfParent {
    fn len(&self) -> usize {
        self.words.len()
    }
    fn promise(&self) -> littoral_device::memory::Promise {
        self.words.promise()
    }
    fn word(&self, offset: usize, order: Ordering) -> u64 {
        self.words().word(offset, order)
    }
    fn store(&self, offset: usize, value: u64, order: Ordering) {
        self.words().store(offset, value, order);
    }
    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.words().compare_exchange(offset, current, new, success, failure)
    }
    fn write_back(&self, offset: usize, len: usize) {
        self.words().write_back(offset, len);
    }
    fn invalidate(&self, offset: usize, len: usize) {
        self.words().invalidate(offset, len);
    }
    fn fence(&self) -> littoral_device::Result<()> {
        self.words().fence()
    }
    fn owner_before_fork(&self) -> Option<u32> {
        self.is_child.load(Ordering::SeqCst).then_some(4711)
    }
}

/// That a real child is told is littoral-device's to show (`map::tests`).
#[test]
fn a_forked_child_is_refused_before_it_touches_the_medium() {
    let domain = OfParent { words: Dram::new(64 << 10), is_child: false.into() };
    let pool = Pool::create(domain, &tiny()).unwrap();
    let mut th = pool.thread().unwrap();
    let cell = th.atomically(|tx| tx.alloc(&Cell { value: 1 })).unwrap();
    pool.domain().is_child.store(true, Ordering::SeqCst);
    let all = [
        th.atomically(|tx| tx.write(cell, &Cell { value: 2 })).unwrap_err(),
        th.once(|tx| tx.write(cell, &Cell { value: 2 })).unwrap_err(),
        th.read_only(|tx| tx.read(cell)).unwrap_err(),
        th.snapshot(|tx| tx.read(cell)).unwrap_err(),
        pool.thread().map(drop).unwrap_err(),
        pool.info().unwrap_err(),
        pool.roots().unwrap_err(),
        pool.walk(|_| true).unwrap_err(),
        pool.check_structures().unwrap_err(),
    ];
    for refused in all {
        assert_eq!(refused.kind(), Kind::Forked, "{refused}");
        assert!(refused.to_string().contains("process 4711 opened this pool"), "{refused}");
    }
    // A handle that the child drops leaves the slot to the parent.
    drop(th);
    pool.domain().is_child.store(false, Ordering::SeqCst);
    let found = pool.thread().unwrap().read_only(|tx| tx.read(cell)).unwrap();
    assert_eq!(found.value, 1);
}
