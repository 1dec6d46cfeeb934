//! The paper's programs as page accesses, locks and barriers.
//!
//! Sizes, iterations, locks and barriers follow the programs as published with JIAJIA; computing
//! time is the paper's own busy part of table 1 (it is an input, not a result). How unevenly ranks
//! compute is fitted, with the constants of the cluster, on table 1's rows of IS, LU, SOR, TSP and
//! Water (`cargo run --example jiajia_fit`). Ocean is held out: it takes the mean unevenness of the
//! others. Its size is not in the paper; the suite's default of 258 x 258 points is taken, and 18
//! operations a point between two exchanges, at the time LU takes for one.
//!
//! Not in the paper: IS's two pages of counters (estimated) and TSP's turns at its queue (fitted).
//! TSP's five pages a turn and SOR's edge rows follow what M-JIAJIA counts on two ranks (2.4
//! fetches a lock, four fetches an iteration).
//!
//! What a rank reads of others in a sweep it meets while it computes, so reads are spread over the
//! computing, for every program alike; only what is read after a barrier for its own sake comes in
//! one piece (IS).
//!
//! Estimated constants are written here once and for all; nothing is adjusted while running.
//!
//! Invariants
//! - A workload depends on its numbers and the seed alone. Checked by
//!   `a_workload_follows_from_its_numbers_and_the_seed`.

use littoral_base::rng::{self, Generator, Rng};
use littoral_base::units::Picos;
use littoral_fabric::timing::Timing;

use super::model::{Step, Workload};
use super::words;

const US: u64 = 1_000_000;

/// The paper's platforms: 100 Mb Ethernet between Loongson 2E machines, the same protocol over
/// TCP/IP on the board's remote memory, and remote memory with the lock manager.
pub const PLATFORMS: [&str; 3] = ["cluster", "remote", "manager"];

/// The constants of one of [`PLATFORMS`].
///
/// # Errors
/// For another name.
pub fn platform(name: &str) -> Result<Timing, String> {
    Timing::open(&format!("loongson-2e:{name}")).map_err(words)
}

/// What a program repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    /// A section that adds to a few shared pages, a barrier, all ranks read them, a barrier.
    Sort { pages: u32 },
    /// Blocks of a matrix dealt over a square of ranks; a factored column and row go to all ranks
    /// who needs them, two barriers a step.
    Factor { blocks: u32 },
    /// Neighbours read each other's edges, two colours, a barrier after each.
    Edges { pages: u32 },
    /// Subgrids of a square deal: neighbours of a row share an edge that crosses so many rows of
    /// the grid, two rows a page; two barriers.
    Columns { rows: u32 },
    /// Work is taken from a shared queue under a lock, so often by all ranks together.
    Queue { pages: u32, turns: u32 },
    /// Each rank reads half of all data, adds forces under locks, barriers.
    Molecules { pages: u32, locks: u32 },
}

/// A program with the paper's figures.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name in claims.
    pub name: &'static str,
    /// Seconds of table 1: total.
    pub total_s: f64,
    /// Shares of table 1 in per cent: data with segv, syn, server.
    pub shares: [f64; 3],
    iterations: u32,
    pattern: Pattern,
    /// How unevenly ranks compute between two barriers: plus and minus so many per cent.
    pub uneven_percent: u32,
}

/// The six programs; the last is held out.
pub const PROGRAMS: [Program; 6] = [
    Program {
        name: "is",
        total_s: 3.776,
        shares: [1.3, 24.6, 1.0],
        iterations: 10,
        pattern: Pattern::Sort { pages: 2 },
        uneven_percent: 73,
    },
    Program {
        name: "lu",
        total_s: 37.39,
        shares: [8.0, 17.67, 6.1],
        iterations: 64,
        pattern: Pattern::Factor { blocks: 64 },
        uneven_percent: 33,
    },
    Program {
        name: "sor",
        total_s: 38.41,
        shares: [1.7, 21.6, 1.97],
        iterations: 1000,
        pattern: Pattern::Edges { pages: 1 },
        uneven_percent: 48,
    },
    Program {
        name: "tsp",
        total_s: 29.8,
        shares: [7.65, 10.4, 7.2],
        iterations: 600,
        pattern: Pattern::Queue { pages: 5, turns: 4704 },
        uneven_percent: 100,
    },
    Program {
        name: "water",
        total_s: 44.43,
        shares: [2.7, 17.7, 1.0],
        iterations: 5,
        pattern: Pattern::Molecules { pages: 284, locks: 7 },
        uneven_percent: 37,
    },
    Program {
        name: "ocean",
        total_s: 63.41,
        shares: [50.3, 15.39, 26.5],
        iterations: 855,
        pattern: Pattern::Columns { rows: 258 },
        uneven_percent: 58,
    },
];

impl Program {
    /// The program of that name.
    pub fn named(name: &str) -> Option<Program> {
        PROGRAMS.iter().find(|p| p.name == name).copied()
    }

    /// Turns at a shared queue by all ranks together, where the program has one; the paper does not
    /// say how many.
    pub fn turns(&self) -> Option<u32> {
        match self.pattern {
            Pattern::Queue { turns, .. } => Some(turns),
            _ => None,
        }
    }

    /// The program with another number of turns; itself when it has no queue.
    #[must_use]
    pub fn with_turns(mut self, count: u32) -> Program {
        if let Pattern::Queue { turns, .. } = &mut self.pattern {
            *turns = count;
        }
        self
    }

    /// The program with its ranks computing so unevenly.
    #[must_use]
    pub fn with_unevenness(self, uneven_percent: u32) -> Program {
        Program { uneven_percent, ..self }
    }

    /// Whether nothing was fitted on it.
    pub fn is_held_out(&self) -> bool {
        self.name == "ocean"
    }

    /// Seconds one processor computes: the paper's busy part of four, or for Ocean its speed-up of
    /// 0.288 times the total.
    pub fn serial_s(&self) -> f64 {
        if self.is_held_out() {
            return 0.288 * self.total_s;
        }
        let busy = 100.0 - self.shares.iter().sum::<f64>();
        4.0 * self.total_s * busy / 100.0
    }

    /// The program's accesses on so many ranks.
    pub fn workload(&self, seed: u64, ranks: u16) -> Accesses {
        let stream = |r| rng::stream(seed, &format!("{} {r}", self.name));
        Accesses {
            program: *self,
            rngs: (0..ranks).map(stream).collect(),
            done: vec![0; usize::from(ranks)],
        }
    }
}

/// A program's accesses, stretch by stretch.
pub struct Accesses {
    program: Program,
    rngs: Vec<Generator>,
    done: Vec<u32>,
}

/// Rows and columns of ranks, as square as they can be.
fn deal(ranks: u16) -> (u32, u32) {
    let ranks = u32::from(ranks);
    let rows = (1..=ranks).filter(|r| ranks.is_multiple_of(*r) && r * r <= ranks).max();
    let rows = rows.expect("invariant: one divides every number of ranks");
    (rows, ranks / rows)
}

/// Computing with `touches` spread over it, the first of them at its beginning.
fn spread(length: Picos, touches: Vec<Step>) -> Vec<Step> {
    let Ok(pieces @ 1..) = u64::try_from(touches.len()) else { return vec![Step::Compute(length)] };
    let piece = length.0 / pieces;
    let last = length.0 - piece * (pieces - 1);
    let count = touches.len();
    let steps = touches.into_iter().enumerate().flat_map(|(i, touch)| {
        [touch, Step::Compute(Picos(if i + 1 == count { last } else { piece }))]
    });
    steps.collect()
}

impl Accesses {
    fn iterations(&self, ranks: u16) -> u32 {
        match self.program.pattern {
            Pattern::Queue { turns, .. } => turns.div_ceil(u32::from(ranks)),
            _ => self.program.iterations,
        }
    }

    /// One part of `parts` of an iteration's computing, unevenly.
    fn compute(&mut self, rank: u16, ranks: u16, parts: f64) -> Picos {
        let serial_ps = self.program.serial_s() * 1e12;
        let mean = serial_ps / f64::from(ranks) / f64::from(self.iterations(ranks)) / parts;
        let span = i64::from(self.program.uneven_percent);
        let percent = self.rngs[usize::from(rank)].random_range(-span..=span);
        Picos((mean * (1.0 + percent as f64 / 100.0)) as u64)
    }

    fn per_rank(&self, ranks: u16) -> u32 {
        let (rows, columns) = deal(ranks);
        match self.program.pattern {
            Pattern::Sort { pages } | Pattern::Queue { pages, .. } => pages,
            // Two pages a block of 32 x 32 doubles.
            Pattern::Factor { blocks } => 2 * blocks.div_ceil(rows) * blocks.div_ceil(columns),
            Pattern::Edges { pages } => 4 * pages,
            Pattern::Columns { rows: grid } => grid.div_ceil(rows).div_ceil(2),
            Pattern::Molecules { pages, .. } => pages.div_ceil(u32::from(ranks)) + 1,
        }
    }

    fn sort(&mut self, rank: u16, ranks: u16, pages: u32) -> Vec<Step> {
        let mut steps = vec![Step::Compute(self.compute(rank, ranks, 1.0)), Step::Lock(1)];
        steps.extend((0..pages).map(|p| Step::Write(p, 4096)));
        steps.extend([Step::Unlock(1), Step::Barrier]);
        steps.extend((0..pages).map(Step::Read));
        steps.push(Step::Barrier);
        steps
    }

    /// The two pages of a block, which lie with the rank the block is dealt to.
    fn block(&self, ranks: u16, row: u32, column: u32, blocks: u32) -> [u32; 2] {
        let (rows, columns) = deal(ranks);
        let owner = row % rows * columns + column % columns;
        let nth = row / rows * blocks.div_ceil(columns) + column / columns;
        let first = owner * self.per_rank(ranks) + 2 * nth;
        [first, first + 1]
    }

    /// One step of the factoring: what is left shrinks, so computing is weighted by its square.
    fn factor(&mut self, rank: u16, ranks: u16, step: u32, blocks: u32) -> Vec<Step> {
        let left = f64::from(blocks - step);
        let weight = 3.0 * left * left / f64::from(blocks).powi(2);
        let (rows, columns) = deal(ranks);
        let (row, column) = (u32::from(rank) / columns, u32::from(rank) % columns);
        let rest = step + 1..blocks;
        let mine: Vec<u32> = rest.clone().filter(|i| i % rows == row).collect();
        let across: Vec<u32> = rest.filter(|j| j % columns == column).collect();
        let at = |row, column| self.block(ranks, row, column, blocks);
        let write = |pages: [u32; 2]| pages.map(|p| Step::Write(p, 4096));
        let (in_row, in_column) = (step % rows == row, step % columns == column);
        let mut steps = Vec::new();
        if in_row && in_column {
            steps.extend(write(at(step, step)));
        }
        steps.push(Step::Barrier);
        if in_row || in_column {
            steps.extend(at(step, step).map(Step::Read));
        }
        let own_column = mine.iter().filter(|_| in_column).map(|i| at(*i, step));
        let own_row = across.iter().filter(|_| in_row).map(|j| at(step, *j));
        steps.extend(own_column.chain(own_row).flat_map(write));
        steps.push(Step::Barrier);
        let columns_read = mine.iter().map(|i| at(*i, step));
        let reads = columns_read.chain(across.iter().map(|j| at(step, *j)));
        let reads: Vec<Step> = reads.flatten().map(Step::Read).collect();
        steps.extend(spread(self.compute(rank, ranks, 1.0 / weight.max(1e-3)), reads));
        steps
    }

    /// A half sweep reads the other colour's edge rows of both neighbours, the upper one's at its
    /// beginning and the lower one's at its end, and writes its own edge rows.
    fn edges(&mut self, rank: u16, ranks: u16, pages: u32) -> Vec<Step> {
        let (each, me) = (self.per_rank(ranks), u32::from(rank));
        let row = |rank: u32, colour: u32, edge: u32| {
            let first = rank * each + (2 * colour + edge) * pages;
            first..first + pages
        };
        let mut steps = Vec::new();
        for colour in 0..2 {
            let above = me.checked_sub(1).map(|r| row(r, 1 - colour, 1));
            let below = (rank + 1 < ranks).then(|| row(me + 1, 1 - colour, 0));
            steps.extend(above.into_iter().flatten().map(Step::Read));
            steps.push(Step::Compute(self.compute(rank, ranks, 2.0)));
            steps.extend(below.into_iter().flatten().map(Step::Read));
            let own = row(me, colour, 0).chain(row(me, colour, 1));
            steps.extend(own.map(|p| Step::Write(p, 4096)));
            steps.push(Step::Barrier);
        }
        steps
    }

    fn columns(&mut self, rank: u16, ranks: u16) -> Vec<Step> {
        let (each, (_, columns)) = (self.per_rank(ranks), deal(ranks));
        let (me, column) = (u32::from(rank), u32::from(rank) % columns);
        let before = (column > 0).then(|| me - 1);
        let after = (column + 1 < columns).then(|| me + 1);
        let far = before.into_iter().chain(after).flat_map(|r| r * each..(r + 1) * each);
        let mut steps = spread(self.compute(rank, ranks, 1.0), far.map(Step::Read).collect());
        steps.push(Step::Barrier);
        steps.extend((me * each..(me + 1) * each).map(|p| Step::Write(p, 32)));
        steps.push(Step::Barrier);
        steps
    }

    fn queue(&mut self, rank: u16, ranks: u16, pages: u32) -> Vec<Step> {
        let (each, ranks_u32) = (self.per_rank(ranks), u32::from(ranks));
        let mut steps = vec![Step::Lock(1)];
        steps.extend((0..pages).map(|p| Step::Write(p % ranks_u32 * each + p / ranks_u32, 64)));
        steps.extend([Step::Unlock(1), Step::Compute(self.compute(rank, ranks, 1.0))]);
        steps
    }

    fn molecules(&mut self, rank: u16, ranks: u16, pages: u32, locks: u32) -> Vec<Step> {
        let (each, share) = (self.per_rank(ranks), pages.div_ceil(u32::from(ranks)));
        let (me, ranks_u32) = (u32::from(rank), u32::from(ranks));
        let mut steps = Vec::new();
        for phase in 0..locks {
            let length = self.compute(rank, ranks, f64::from(locks));
            let half = (1..=ranks_u32 / 2).map(|d| (me + d) % ranks_u32);
            let far = half.flat_map(|r| (r * each..r * each + share).map(Step::Read));
            steps.extend(spread(length, far.filter(|_| phase % 3 == 0).collect()));
            steps.extend([Step::Lock(phase), Step::Write(phase % ranks_u32 * each + share, 64)]);
            steps.push(Step::Unlock(phase));
            let own = me * each..me * each + share;
            steps.extend(own.map(|p| Step::Write(p, 1024)));
            steps.push(Step::Barrier);
        }
        steps
    }
}

impl Workload for Accesses {
    fn pages(&self, ranks: u16) -> u32 {
        self.per_rank(ranks) * u32::from(ranks)
    }

    fn stretch(&mut self, rank: u16, ranks: u16) -> Option<Vec<Step>> {
        let at = self.done[usize::from(rank)];
        if at == self.iterations(ranks) {
            return None;
        }
        self.done[usize::from(rank)] += 1;
        Some(match self.program.pattern {
            Pattern::Sort { pages } => self.sort(rank, ranks, pages),
            Pattern::Factor { blocks } => self.factor(rank, ranks, at, blocks),
            Pattern::Edges { pages } => self.edges(rank, ranks, pages),
            Pattern::Columns { .. } => self.columns(rank, ranks),
            Pattern::Queue { pages, .. } => self.queue(rank, ranks, pages),
            Pattern::Molecules { pages, locks } => self.molecules(rank, ranks, pages, locks),
        })
    }
}

/// The paper's Code 1 or Code 2, so many iterations a rank.
pub struct Basic {
    /// A section of Code 1 each, else an iteration of Code 2.
    pub locks: bool,
    /// Iterations left, a rank.
    pub left: Vec<u32>,
}

impl Workload for Basic {
    fn pages(&self, ranks: u16) -> u32 {
        u32::from(ranks)
    }

    fn stretch(&mut self, rank: u16, _ranks: u16) -> Option<Vec<Step>> {
        let left = &mut self.left[usize::from(rank)];
        *left = left.checked_sub(1)?;
        let few = Step::Compute(Picos(US / 10));
        Some(match (self.locks, rank) {
            (true, _) => vec![Step::Lock(1), Step::Write(0, 8), few, Step::Unlock(1)],
            (false, 0) => vec![few, Step::Write(0, 8), Step::Barrier, Step::Read(0), Step::Barrier],
            (false, _) => vec![few, Step::Barrier, Step::Read(0), Step::Barrier],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_dealt_as_a_square_or_nearly() {
        let dealt = [1, 2, 4, 8, 16, 32, 64, 6, 7].map(deal);
        let square = [(1, 1), (1, 2), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (2, 3), (1, 7)];
        assert_eq!(dealt, square);
    }

    #[test]
    fn blocks_have_pages_of_their_own_with_the_rank_they_are_dealt_to() {
        let lu = PROGRAMS[1].workload(1, 8);
        let mut seen = std::collections::BTreeSet::new();
        for (row, column) in (0..64).flat_map(|r| (0..64).map(move |c| (r, c))) {
            for page in lu.block(8, row, column, 64) {
                assert!(seen.insert(page) && page < lu.pages(8));
                assert_eq!(page / lu.per_rank(8), row % 2 * 4 + column % 4);
            }
        }
    }

    #[test]
    fn spreading_loses_no_time() {
        for count in [0, 1, 3, 7] {
            let steps = spread(Picos(100), (0..count).map(Step::Read).collect());
            let time = |s: &Step| if let Step::Compute(p) = s { p.0 } else { 0 };
            assert_eq!(steps.iter().map(time).sum::<u64>(), 100);
            assert_eq!(steps.len(), 1.max(2 * count as usize));
        }
    }

    #[test]
    fn a_workload_follows_from_its_numbers_and_the_seed() {
        let stretches = |program: &Program, seed| {
            let mut workload = program.workload(seed, 4);
            let next = |n: u16| workload.stretch(n % 4, 4);
            (0..40).map(next).collect::<Vec<_>>()
        };
        for program in &PROGRAMS {
            assert_eq!(stretches(program, 3), stretches(program, 3), "{}", program.name);
        }
        assert!(PROGRAMS.iter().any(|p| stretches(p, 3) != stretches(p, 4)), "the seed is used");
    }

    #[test]
    fn every_program_ends_on_any_number_of_ranks() {
        let cluster = platform("cluster").unwrap();
        for program in &PROGRAMS[..5] {
            for ranks in [1, 3, 8] {
                let mut small = program.workload(1, ranks);
                let done = small.iterations(ranks).saturating_sub(3);
                small.done.fill(done);
                let ended = super::super::model::run(&mut small, ranks, cluster).unwrap();
                assert!(ended.total > Picos::ZERO, "{}", program.name);
            }
        }
    }
}
