//! Travelling salesman by branch and bound: prefixes of tours are handed out under one lock, the
//! best length so far is kept under another. SIZE is the number of cities.

use littoral_dsm::Result;
use littoral_dsm::core::message::LockId;
use littoral_dsm::job::Job;

const QUEUE: LockId = LockId(0);
const BEST: LockId = LockId(1);

fn distance(a: usize, b: usize) -> u64 {
    let place = |c: usize| ((c * 37 % 101) as i64, (c * 61 % 97) as i64);
    let ((ax, ay), (bx, by)) = (place(a), place(b));
    ((ax - bx).abs() + (ay - by).abs()) as u64
}

struct Search {
    cities: usize,
    bound: u64,
    /// Prefixes looked at.
    looked: u64,
}

impl Search {
    fn explore(&mut self, last: usize, visited: u32, length: u64) {
        self.looked += 1;
        if length >= self.bound {
            return;
        }
        if visited.count_ones() as usize == self.cities {
            self.bound = self.bound.min(length + distance(last, 0));
            return;
        }
        for city in (1..self.cities).filter(|c| visited & 1 << c == 0) {
            self.explore(city, visited | 1 << city, length + distance(last, city));
        }
    }
}

pub(crate) fn run(job: &mut Job, cities: usize, _steps: usize) -> Result<Vec<f64>> {
    assert!((3..=16).contains(&cities), "3 to 16 cities");
    let next = job.alloc::<u64>()?;
    let best = job.alloc::<u64>()?;
    let section = job.enter(BEST)?;
    section.write(best.whole())?[0] = u64::MAX;
    section.leave()?;
    job.barrier()?;
    let prefixes = (cities - 1) * (cities - 2);
    loop {
        let section = job.enter(QUEUE)?;
        let taken = {
            let mut next = section.write(next.whole())?;
            next[0] += 1;
            next[0] as usize - 1
        };
        section.leave()?;
        if taken >= prefixes {
            break;
        }
        let first = 1 + taken / (cities - 2);
        let others: Vec<usize> = (1..cities).filter(|c| *c != first).collect();
        let second = others[taken % (cities - 2)];
        let section = job.enter(BEST)?;
        let bound = section.read(best.whole())?[0];
        section.leave()?;
        let mut search = Search { cities, bound, looked: 0 };
        let length = distance(0, first) + distance(first, second);
        search.explore(second, 1 | 1 << first | 1 << second, length);
        job.work(10 * search.looked);
        if search.bound < bound {
            let section = job.enter(BEST)?;
            let mut best = section.write(best.whole())?;
            best[0] = best[0].min(search.bound);
            drop(best);
            section.leave()?;
        }
    }
    job.barrier()?;
    let phase = job.phase()?;
    let length = phase.read(best.whole())?[0];
    phase.end()?;
    Ok(vec![length as f64])
}
