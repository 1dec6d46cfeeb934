//! JIAJIA's programs by guards: what the programs in C of `crates/jia/programs` do between
//! `jia_startstat` and `jia_stopstat`, step by step and at the same sizes, by the safe interface.
//!
//! Two ranks. After the timed part rank 0 computes the same alone and compares.

use std::time::{Duration, Instant};

use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job, SharedSlice, block_of};

use super::words;

type Outcome = Result<Duration, String>;

/// A program and its numbers, as its arguments in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Red-black relaxation.
    Sor,
    /// Product of matrices.
    Mm,
    /// Factors of a matrix in blocks.
    Lu,
    /// Integer sort by buckets.
    Is,
    /// The shortest tour.
    Tsp,
    /// Molecules.
    Water,
}

/// A program's name in C, the numbers that it is measured with, and fewer for tests.
pub type Row = (&'static str, Program, &'static [usize], &'static [usize]);
/// Every program.
pub const PROGRAMS: [Row; 6] = [
    ("sor", Program::Sor, &[2046, 1024, 100], &[30, 1024, 4]),
    ("mm", Program::Mm, &[1024], &[64]),
    ("lu", Program::Lu, &[1024, 32], &[96, 32]),
    ("is", Program::Is, &[1_048_576, 1024, 10], &[5000, 64, 3]),
    ("tsp", Program::Tsp, &[13], &[8]),
    ("water", Program::Water, &[64, 3], &[64, 3]),
];

/// Takes part in a program whose numbers are `arguments`; how long it took.
///
/// # Errors
/// When the job fails, or ends with something else than one process.
pub fn take_part(job: &mut Job, program: Program, arguments: &[usize]) -> Outcome {
    let number = |n: usize| arguments.get(n).copied().ok_or("too few numbers".to_owned());
    match program {
        Program::Sor => sor::run(job, number(0)?, number(1)?, number(2)?),
        Program::Mm => mm(job, number(0)?),
        Program::Lu => lu::run(job, number(0)?, number(1)?),
        Program::Is => is(job, number(0)?, number(1)?, number(2)?),
        Program::Tsp => tsp::run(job, number(0)?),
        Program::Water => water::run(job, number(0)?, number(1)?),
    }
}

fn must(holds: bool, program: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{program} by guards differs from one process")) }
}

/// Runs `act` between two barriers; its time on this rank.
fn timed(job: &mut Job, act: impl FnOnce(&mut Job) -> Result<(), String>) -> Outcome {
    job.barrier().map_err(words)?;
    let begun = Instant::now();
    act(job)?;
    job.barrier().map_err(words)?;
    Ok(begun.elapsed())
}

mod sor {
    use super::*;

    /// One colour from the other; `to` begins with row `first`, `from` one row before.
    fn sweep(to: &mut [f32], from: &[f32], columns: usize, first: usize, colour: usize) {
        for (r, row) in to.chunks_exact_mut(columns).enumerate() {
            let at = |row: usize| &from[(r + row) * columns..(r + row + 1) * columns];
            let (above, here, below) = (at(0), at(1), at(2));
            let shift = if (first + r + colour) % 2 == 1 { 0 } else { 2 };
            for k in 1..columns - 1 {
                row[k] = (above[k] + below[k] + here[k] + here[k + shift - 1]) * 0.25;
            }
        }
    }

    fn begin(i: usize, k: usize) -> f32 {
        if i == 0 || k == 0 { 1.0 } else { ((i * 31 + k * 17) % 101) as f32 / 101.0 }
    }

    pub(super) fn run(job: &mut Job, rows: usize, columns: usize, sweeps: usize) -> Outcome {
        let len = (rows + 2) * columns;
        let slice = |job: &mut Job| job.alloc_slice::<f32>(len, Homes::Blocks).map_err(words);
        let (red, black) = (slice(job)?, slice(job)?);
        let homes = block_of(rows + 2, job.rank(), job.ranks());
        let mine = homes.start.max(1)..homes.end.min(rows + 1);
        let grid: Vec<f32> = (0..len).map(|at| begin(at / columns, at % columns)).collect();
        let phase = job.phase().map_err(words)?;
        for colour in [red, black] {
            let part = homes.start * columns..homes.end * columns;
            phase.write(colour.part(part.clone())).map_err(words)?.copy_from_slice(&grid[part]);
        }
        phase.end().map_err(words)?;
        let half = |job: &mut Job, to: SharedSlice<f32>, from: SharedSlice<f32>, colour| {
            let phase = job.phase().map_err(words)?;
            let target = to.part(mine.start * columns..mine.end * columns);
            let around = from.part((mine.start - 1) * columns..(mine.end + 1) * columns);
            let mut target = phase.write(target).map_err(words)?;
            let around = phase.read(around).map_err(words)?;
            sweep(&mut target, &around, columns, mine.start, colour);
            drop((target, around));
            phase.end().map_err(words)
        };
        let took = timed(job, |job| {
            (0..sweeps).try_for_each(|_| {
                half(job, black, red, 0)?;
                half(job, red, black, 1)
            })
        })?;
        let (mut first, mut second) = (grid.clone(), grid);
        for _ in 0..sweeps {
            sweep(&mut second[columns..len - columns], &first, columns, 1, 0);
            sweep(&mut first[columns..len - columns], &second, columns, 1, 1);
        }
        let phase = job.phase().map_err(words)?;
        let same = phase.read(red).map_err(words)?[..] == first[..];
        phase.end().map_err(words)?;
        must(same, "sor").map(|()| took)
    }
}

fn mm(job: &mut Job, n: usize) -> Outcome {
    let slice = |job: &mut Job| job.alloc_slice::<i32>(n * n, Homes::Blocks).map_err(words);
    let (a, b, c) = (slice(job)?, slice(job)?, slice(job)?);
    let rows = block_of(n, job.rank(), job.ranks());
    let phase = job.phase().map_err(words)?;
    if phase.rank() == 0 {
        let (mut a, mut b) = (phase.write(a).map_err(words)?, phase.write(b).map_err(words)?);
        for (at, (a, b)) in a.iter_mut().zip(b.iter_mut()).enumerate() {
            let (i, j) = (at / n, at % n);
            *a = (i + j) as i32;
            *b = if i == j { 2 } else { i32::from(i == j + 1) };
        }
    }
    phase.end().map_err(words)?;
    let mine = c.part(rows.start * n..rows.end * n);
    let took = timed(job, |job| {
        let phase = job.phase().map_err(words)?;
        let a = phase.read(a.part(rows.start * n..rows.end * n)).map_err(words)?;
        let b = phase.read(b).map_err(words)?;
        let mut c = phase.write(mine).map_err(words)?;
        for (row, a) in c.chunks_exact_mut(n).zip(a.chunks_exact(n)) {
            for (x, line) in a.iter().zip(b.chunks_exact(n)) {
                row.iter_mut().zip(line).for_each(|(c, b)| *c += x * b);
            }
        }
        Ok(())
    })?;
    let phase = job.phase().map_err(words)?;
    let same = phase.read(mine).map_err(words)?.iter().enumerate().all(|(at, found)| {
        let (i, j) = (rows.start + at / n, at % n);
        *found == (2 * (i + j) + if j + 1 < n { i + j + 1 } else { 0 }) as i32
    });
    phase.end().map_err(words)?;
    must(same, "mm").map(|()| took)
}

mod lu {
    use super::*;

    fn value(n: usize, i: usize, j: usize) -> f64 {
        if i == j { 2.0 * n as f64 } else { ((i * 7 + j * 13) % 10) as f64 / 10.0 }
    }

    fn factor(d: &mut [f64], size: usize) {
        for k in 0..size {
            for i in k + 1..size {
                d[i * size + k] /= d[k * size + k];
                for j in k + 1..size {
                    d[i * size + j] -= d[i * size + k] * d[k * size + j];
                }
            }
        }
    }

    fn below(a: &mut [f64], d: &[f64], size: usize) {
        for row in a.chunks_exact_mut(size) {
            for k in 0..size {
                row[k] /= d[k * size + k];
                for j in k + 1..size {
                    row[j] -= row[k] * d[k * size + j];
                }
            }
        }
    }

    fn right(a: &mut [f64], d: &[f64], size: usize) {
        for k in 0..size {
            for i in k + 1..size {
                let (before, rest) = a.split_at_mut(i * size);
                let (from, factor) = (&before[k * size..(k + 1) * size], d[i * size + k]);
                rest[..size].iter_mut().zip(from).for_each(|(a, b)| *a -= factor * b);
            }
        }
    }

    fn inner(a: &mut [f64], l: &[f64], u: &[f64], size: usize) {
        for (row, l) in a.chunks_exact_mut(size).zip(l.chunks_exact(size)) {
            for (l, u) in l.iter().zip(u.chunks_exact(size)) {
                row.iter_mut().zip(u).for_each(|(a, u)| *a -= l * u);
            }
        }
    }

    /// Blocks dealt round: those of a rank lie one behind the other at its home.
    struct Blocks {
        of_ranks: Vec<SharedSlice<f64>>,
        count: usize,
        size: usize,
    }

    impl Blocks {
        fn owner(&self, i: usize, j: usize) -> usize {
            (i * self.count + j) % self.of_ranks.len()
        }

        fn at(&self, i: usize, j: usize) -> SharedSlice<f64> {
            let (number, bytes) = ((i * self.count + j) / self.of_ranks.len(), self.size.pow(2));
            self.of_ranks[self.owner(i, j)].part(number * bytes..(number + 1) * bytes)
        }
    }

    /// Changes a block with the help of others.
    fn change(
        job: &mut Job,
        target: SharedSlice<f64>,
        helpers: &[SharedSlice<f64>],
        act: impl FnOnce(&mut [f64], &[&[f64]]),
    ) -> Result<(), String> {
        let phase = job.phase().map_err(words)?;
        let mut target = phase.write(target).map_err(words)?;
        let helpers: Vec<_> =
            helpers.iter().map(|h| phase.read(*h)).collect::<Result<_, _>>().map_err(words)?;
        act(&mut target, &helpers.iter().map(|h| &h[..]).collect::<Vec<_>>());
        Ok(())
    }

    fn decompose(job: &mut Job, m: &Blocks) -> Result<(), String> {
        let (count, size, me) = (m.count, m.size, usize::from(job.rank()));
        let mine = |i, j| m.owner(i, j) == me;
        for k in 0..count {
            if mine(k, k) {
                change(job, m.at(k, k), &[], |d, _| factor(d, size))?;
            }
            job.barrier().map_err(words)?;
            for i in k + 1..count {
                if mine(i, k) {
                    change(job, m.at(i, k), &[m.at(k, k)], |a, d| below(a, d[0], size))?;
                }
                if mine(k, i) {
                    change(job, m.at(k, i), &[m.at(k, k)], |a, d| right(a, d[0], size))?;
                }
            }
            job.barrier().map_err(words)?;
            for (i, j) in (k + 1..count).flat_map(|i| (k + 1..count).map(move |j| (i, j))) {
                if mine(i, j) {
                    let helpers = [m.at(i, k), m.at(k, j)];
                    change(job, m.at(i, j), &helpers, |a, b| inner(a, b[0], b[1], size))?;
                }
            }
        }
        Ok(())
    }

    /// The same in one process, block by block.
    fn alone(blocks: &mut [Vec<f64>], count: usize, size: usize) {
        for k in 0..count {
            factor(&mut blocks[k * count + k], size);
            let d = blocks[k * count + k].clone();
            for i in k + 1..count {
                below(&mut blocks[i * count + k], &d, size);
                right(&mut blocks[k * count + i], &d, size);
            }
            for (i, j) in (k + 1..count).flat_map(|i| (k + 1..count).map(move |j| (i, j))) {
                let (l, u) = (blocks[i * count + k].clone(), blocks[k * count + j].clone());
                inner(&mut blocks[i * count + j], &l, &u, size);
            }
        }
    }

    pub(super) fn run(job: &mut Job, n: usize, size: usize) -> Outcome {
        let count = n / size;
        let ranks = job.ranks();
        let len = (count * count).div_ceil(usize::from(ranks)) * size * size;
        let slice = |rank| job.alloc_slice::<f64>(len, Homes::At(rank)).map_err(words);
        let of_ranks = (0..ranks).map(slice).collect::<Result<_, _>>()?;
        let m = Blocks { of_ranks, count, size };
        let fill = |block: &mut [f64], number: usize| {
            let (i, j) = (number / count * size, number % count * size);
            let each = block.iter_mut().enumerate();
            each.for_each(|(at, v)| *v = value(n, i + at / size, j + at % size));
        };
        let me = usize::from(job.rank());
        let mine: Vec<usize> =
            (0..count * count).filter(|b| m.owner(b / count, b % count) == me).collect();
        for b in &mine {
            change(job, m.at(b / count, b % count), &[], |block, _| fill(block, *b))?;
        }
        let took = timed(job, |job| decompose(job, &m))?;
        let mut own = vec![vec![0.0; size * size]; count * count];
        own.iter_mut().enumerate().for_each(|(b, block)| fill(block, b));
        alone(&mut own, count, size);
        let mut same = true;
        for b in mine {
            let compare = |block: &mut [f64], _: &[&[f64]]| same &= *block == own[b][..];
            change(job, m.at(b / count, b % count), &[], compare)?;
        }
        job.barrier().map_err(words)?;
        must(same, "lu").map(|()| took)
    }
}

fn key(i: usize, buckets: usize) -> usize {
    let x = (i as u32).wrapping_mul(2_654_435_761);
    ((x >> 7 ^ x >> 17) % buckets as u32) as usize
}

fn is(job: &mut Job, keys: usize, buckets: usize, rounds: usize) -> Outcome {
    let shared = job.alloc_slice::<i32>(buckets, Homes::At(0)).map_err(words)?;
    let mine = block_of(keys, job.rank(), job.ranks());
    let (mut whole, mut part) = (vec![0i32; buckets], vec![0i32; buckets]);
    (0..keys).for_each(|i| whole[key(i, buckets)] += 1);
    let mut same = true;
    let took = timed(job, |job| {
        for round in 1..=rounds as i32 {
            part.fill(0);
            mine.clone().for_each(|i| part[key(i, buckets)] += 1);
            let section = job.enter(LockId(0)).map_err(words)?;
            let mut sums = section.write(shared).map_err(words)?;
            sums.iter_mut().zip(&part).for_each(|(sum, part)| *sum += part);
            drop(sums);
            section.leave().map_err(words)?;
            job.barrier().map_err(words)?;
            let phase = job.phase().map_err(words)?;
            let sums = phase.read(shared).map_err(words)?;
            same &= sums.iter().zip(&whole).all(|(sum, whole)| *sum == whole * round);
            drop(sums);
            phase.end().map_err(words)?;
        }
        Ok(())
    })?;
    must(same, "is").map(|()| took)
}

mod tsp {
    use super::*;

    /// Is told of a better tour and its length; answers the best length.
    type Found<'f> = dyn FnMut(i32, &[i32]) -> Result<i32, String> + 'f;

    const CITIES_MAX: usize = 20;
    /// Words of the shared state: the next prefix, the best length, its tour.
    const NEXT: usize = 0;
    const BEST: usize = 1;
    const TOUR: usize = 2;

    struct Search<'f> {
        cities: usize,
        far: &'f [[i32; CITIES_MAX]; CITIES_MAX],
        bound: i32,
        tour: [i32; CITIES_MAX],
    }

    impl Search<'_> {
        /// Searches behind a prefix; `found` is told of better tours and answers the best length.
        fn behind(
            &mut self,
            depth: usize,
            length: i32,
            seen: u32,
            found: &mut Found<'_>,
        ) -> Result<(), String> {
            if length >= self.bound {
                return Ok(());
            }
            let last = self.tour[depth - 1] as usize;
            if depth == self.cities {
                let whole = length + self.far[last][0];
                if whole < self.bound {
                    self.bound = found(whole, &self.tour)?;
                }
                return Ok(());
            }
            for city in (1..self.cities).filter(|city| seen & 1 << city == 0) {
                self.tour[depth] = city as i32;
                self.behind(depth + 1, length + self.far[last][city], seen | 1 << city, found)?;
            }
            Ok(())
        }

        fn prefix(&mut self, p: usize, found: &mut Found<'_>) -> Result<(), String> {
            let (second, third) = (1 + p / (self.cities - 1), 1 + p % (self.cities - 1));
            if second == third {
                return Ok(());
            }
            self.tour[..3].copy_from_slice(&[0, second as i32, third as i32]);
            let length = self.far[0][second] + self.far[second][third];
            self.behind(3, length, 1 | 1 << second | 1 << third, found)
        }
    }

    fn distances(cities: usize) -> [[i32; CITIES_MAX]; CITIES_MAX] {
        let mut far = [[0; CITIES_MAX]; CITIES_MAX];
        let place = |c: usize, factor: usize, size: usize| (c * factor % size) as f64;
        for (i, j) in (0..cities).flat_map(|i| (0..cities).map(move |j| (i, j))) {
            let x = place(i, 37, 100) - place(j, 37, 100);
            let y = place(i, 61, 97) - place(j, 61, 97);
            far[i][j] = (x * x + y * y).sqrt() as i32;
        }
        far
    }

    fn better(
        job: &mut Job,
        shared: SharedSlice<i32>,
        length: i32,
        tour: &[i32],
    ) -> Result<i32, String> {
        let section = job.enter(LockId(1)).map_err(words)?;
        let mut state = section.write(shared.part(BEST..TOUR + CITIES_MAX)).map_err(words)?;
        if length < state[0] {
            state[0] = length;
            state[1..].copy_from_slice(tour);
        }
        let best = state[0];
        drop(state);
        section.leave().map_err(words)?;
        Ok(best)
    }

    fn share(
        job: &mut Job,
        shared: SharedSlice<i32>,
        search: &mut Search<'_>,
    ) -> Result<(), String> {
        let prefixes = (search.cities - 1).pow(2);
        loop {
            let section = job.enter(LockId(0)).map_err(words)?;
            let mut next = section.write(shared.part(NEXT..NEXT + 1)).map_err(words)?;
            let p = next[0] as usize;
            next[0] += 1;
            drop(next);
            section.leave().map_err(words)?;
            if p >= prefixes {
                return Ok(());
            }
            let section = job.enter(LockId(1)).map_err(words)?;
            search.bound = section.read(shared.part(BEST..BEST + 1)).map_err(words)?[0];
            section.leave().map_err(words)?;
            search.prefix(p, &mut |length, tour| better(job, shared, length, tour))?;
        }
    }

    pub(super) fn run(job: &mut Job, cities: usize) -> Outcome {
        if !(4..=CITIES_MAX).contains(&cities) {
            return Err(format!("tsp has 4 to {CITIES_MAX} cities"));
        }
        let far = distances(cities);
        let shared = job.alloc_slice::<i32>(TOUR + CITIES_MAX, Homes::At(0)).map_err(words)?;
        let phase = job.phase().map_err(words)?;
        if phase.rank() == 0 {
            phase.write(shared.part(BEST..BEST + 1)).map_err(words)?[0] = 1 << 30;
        }
        phase.end().map_err(words)?;
        let mut search = Search { cities, far: &far, bound: 1 << 30, tour: [0; CITIES_MAX] };
        let took = timed(job, |job| share(job, shared, &mut search))?;
        let phase = job.phase().map_err(words)?;
        let best = phase.read(shared).map_err(words)?[BEST];
        phase.end().map_err(words)?;
        search.bound = 1 << 30;
        let prefixes = if job.rank() == 0 { (cities - 1).pow(2) } else { 0 };
        for p in 0..prefixes {
            search.prefix(p, &mut |length, _| Ok(length))?;
        }
        must(prefixes == 0 || search.bound == best, "tsp").map(|()| took)
    }
}

mod water {
    use super::*;

    const LOCKS: usize = 16;

    fn force(at: &[i64], i: usize, j: usize, axis: usize) -> i64 {
        let difference = at[3 * j + axis] - at[3 * i + axis];
        let d: i64 = (0..3).map(|k| (at[3 * j + k] - at[3 * i + k]).abs()).sum();
        difference * 1000 / (d + 10)
    }

    fn pairs(at: &[i64], sum: &mut [i64], mine: std::ops::Range<usize>) {
        for i in mine {
            for j in i + 1..at.len() / 3 {
                for k in 0..3 {
                    let f = force(at, i, j, k);
                    sum[3 * i + k] += f;
                    sum[3 * j + k] -= f;
                }
            }
        }
    }

    fn moved(at: &mut [i64], sum: &mut [i64]) {
        for (at, sum) in at.iter_mut().zip(sum) {
            *at += std::mem::take(sum) / 100;
        }
    }

    pub(super) fn run(job: &mut Job, n: usize, steps: usize) -> Outcome {
        let slice = |job: &mut Job| job.alloc_slice::<i64>(3 * n, Homes::Blocks).map_err(words);
        let (at, sum) = (slice(job)?, slice(job)?);
        let mine = block_of(n, job.rank(), job.ranks());
        let words_of_mine = 3 * mine.start..3 * mine.end;
        let begin: Vec<i64> = (0..3 * n as i64).map(|i| i * 7919 % 10007).collect();
        let phase = job.phase().map_err(words)?;
        let part = at.part(words_of_mine.clone());
        phase.write(part).map_err(words)?.copy_from_slice(&begin[words_of_mine.clone()]);
        phase.end().map_err(words)?;
        let mut part = vec![0; 3 * n];
        let took = timed(job, |job| {
            (0..steps).try_for_each(|_| {
                part.fill(0);
                let phase = job.phase().map_err(words)?;
                pairs(&phase.read(at).map_err(words)?, &mut part, mine.clone());
                for lock in 0..LOCKS {
                    let each = 3 * n / LOCKS;
                    let end = if lock == LOCKS - 1 { 3 * n } else { each * (lock + 1) };
                    let some = each * lock..end;
                    let section = job.enter(LockId(lock as u32)).map_err(words)?;
                    let mut sums = section.write(sum.part(some.clone())).map_err(words)?;
                    sums.iter_mut().zip(&part[some]).for_each(|(sum, part)| *sum += part);
                    drop(sums);
                    section.leave().map_err(words)?;
                }
                job.barrier().map_err(words)?;
                let phase = job.phase().map_err(words)?;
                let mut at = phase.write(at.part(words_of_mine.clone())).map_err(words)?;
                let mut sum = phase.write(sum.part(words_of_mine.clone())).map_err(words)?;
                moved(&mut at, &mut sum);
                drop((at, sum));
                phase.end().map_err(words)
            })
        })?;
        let (mut own, mut sums) = (begin, vec![0; 3 * n]);
        for _ in 0..steps {
            pairs(&own.clone(), &mut sums, 0..n);
            moved(&mut own, &mut sums);
        }
        let phase = job.phase().map_err(words)?;
        let same = phase.read(at).map_err(words)?[..] == own[..];
        phase.end().map_err(words)?;
        must(same, "water").map(|()| took)
    }
}
