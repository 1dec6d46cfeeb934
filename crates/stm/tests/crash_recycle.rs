//! Slabs that change their type, cut off at every store: nothing acknowledged is lost, nothing of
//! the former type shows, and all memory serves either type afterwards.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)]

use littoral_device::pmem::Sim;
use littoral_device::pmem::trace::{Enumerate, Tear};
use littoral_stm::{Options, Pool, Record, Ref, Restart, Thread};

littoral_stm::record! {
    struct Cell = "test.cell/1" { value: u64 }
}
littoral_stm::record! {
    struct Wide = "test.wide/1" { words: [u64; 20] }
}

const CELL: Cell = Cell { value: u64::MAX };
const WIDE: Wide = Wide { words: [7; 20] };

fn fill<T: Record>(th: &mut Thread<'_, Sim>, value: &T) -> Vec<Ref<T>> {
    std::iter::from_fn(|| th.atomically(|tx| tx.alloc(value)).ok()).collect()
}

fn end<T: Record>(th: &mut Thread<'_, Sim>, all: &[Ref<T>]) {
    for some in all.chunks(8) {
        th.atomically(|tx| some.iter().try_for_each(|&at| tx.free(at))).unwrap();
    }
}

/// Cells and wide objects alive, each found sound.
fn alive(pool: &Pool<Sim>) -> Result<(usize, usize), String> {
    let (mut found, mut odd) = ((0, 0), None);
    let walked = pool.walk(|o| {
        let sound = match o.tag {
            Cell::TAG => o.words == [CELL.value],
            Wide::TAG => o.words == WIDE.words,
            _ => true,
        };
        found.0 += usize::from(o.tag == Cell::TAG);
        found.1 += usize::from(o.tag == Wide::TAG);
        odd = odd.take().or((!sound).then(|| format!("{o:?}")));
        true
    });
    walked.map_err(|e| e.to_string())?;
    odd.map_or(Ok(found), Err)
}

#[test]
fn a_slab_that_changes_its_type_is_one_or_the_other_after_any_power_cut() {
    let options = Options { threads_max: 2, slab_bytes: Some(1024) };
    let pool = Pool::create(Sim::new(8 << 10), &options).unwrap();
    let mut th = pool.thread().unwrap();
    let cells = fill(&mut th, &CELL);
    let room = cells.len();
    end(&mut th, &cells);
    pool.domain().settle();
    // What is alive after each acknowledged transaction.
    let mut states = vec![(0, 0)];
    let mut wides = Vec::new();
    for i in 1..=4 {
        wides.push(th.atomically(|tx| tx.alloc(&WIDE)).unwrap());
        states.push((0, i));
    }
    th.atomically(|tx| wides.iter().try_for_each(|&at| tx.free(at))).unwrap();
    states.push((0, 0));
    let back = fill(&mut th, &CELL).len();
    states.extend((1..=back).map(|n| (n, 0)));
    assert_eq!(back, room, "every slab came back to the first type");
    for tear in [Tear::LinePrefix, Tear::Words] {
        let how = Enumerate { tear, images_per_point_max: 2, seed: 3 };
        let trace = pool.domain().trace();
        let mut number = 0;
        let coverage = trace.enumerate(&how, |image| {
            number += 1;
            let restart = if number % 2 == 0 { Restart::Lazy } else { Restart::Scan };
            let sim = Sim::from_image(image.words);
            let pool = Pool::open(sim, restart).map_err(|e| e.to_string())?;
            let sure = image.acknowledged as usize;
            let found = alive(&pool)?;
            if !states[sure..states.len().min(sure + 2)].contains(&found) {
                return Err(format!("{found:?} alive after {sure} transactions"));
            }
            if number % 8 > 0 {
                return Ok(());
            }
            let mut th = pool.thread().map_err(|e| e.to_string())?;
            let before = found.0;
            let more = fill(&mut th, &CELL).len();
            if found.1 == 0 && before + more != room {
                return Err(format!("room for {more} beside {before}, of {room}"));
            }
            Ok(())
        });
        assert_eq!(coverage.failure, None);
        assert!(coverage.images_count > 500, "{coverage:?}");
    }
}
