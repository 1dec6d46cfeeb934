//! Crash images of overlapping transactions, each recovered and held against a serial oracle.
//!
//! The workload: cells with a value and an optional leaf of their own. A transaction reads some
//! cells and gives others values computed from what it read, allocating, replacing or freeing
//! leaves. Actor 2 runs whole transactions inside the fences of actor 1, so commits overlap
//! deterministically.
//!
//! For each image
//! 1. the pool opens (lazily and by scan in turn) and holds the state after the acknowledged
//!    transactions, plus any of the next two in flight, applied in the serial order: a transaction
//!    that ran inside another's fence comes after it, since the other had validated before;
//! 2. as many leaves are alive as cells refer to: nothing leaks, nothing dangles;
//! 3. a further transaction runs, and the pool opened once more holds it (clocks are not reused);
//! 4. on a sample, every image of a crash inside 1 and 3 is opened and holds one of their states;
//! 5. on a sample of that, a process is killed inside 1, so that what it stored and did not fence
//!    is in a cache only; the next one does 1 and 3, and images of power cuts are judged as in 4.
//!
//! A transaction is a function of what it reads, so a lost dependency cannot look like a legal
//! state.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

use littoral_base::fault::Plan;
use littoral_base::rng::{self, Rng};
use littoral_device::memory::Domain;
use littoral_device::pmem::Sim;
use littoral_device::pmem::sim::as_actor;
use littoral_device::pmem::trace::{CrashImage, Enumerate, Failure, Tear, Trace};

use littoral_stm::record::Record;
use littoral_stm::{Abort, Options, Pool, Ref, Restart, Result, Thread, Tx};

const CELLS: usize = 4;
/// The actors of a process that is killed, and of the next.
const KILLED: u32 = 21;
const NEXT: u32 = 22;
/// Operations on memory after which a process is killed: more than a recovery has.
const OPERATIONS_MAX: u64 = 48;
/// Transactions of one workload.
const ROUNDS: usize = 6;

littoral_stm::record! {
    /// A cell: its value, the leaf's value's copy, the leaf.
    pub(super) struct Cell = "littoral.assure.cell/1" { value: u64, leaf: Ref<Leaf> }
}
littoral_stm::record! {
    /// A leaf, four words, so that its versions have lines of their own.
    pub(super) struct Leaf = "littoral.assure.leaf/1" { words: [u64; 4] }
}

/// A cell's value and its leaf's, as the oracle sees them.
type State = [(u64, Option<u64>); CELLS];

/// What a transaction does to one cell.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Mix,
    NewLeaf,
    DropLeaf,
}

/// A transaction as data: reads these cells, does these deeds.
#[derive(Clone, Debug)]
struct Program {
    /// Its place in the serial order.
    number: u64,
    reads: Vec<usize>,
    deeds: Vec<(usize, Deed)>,
}

fn mixed(number: u64, seen: &[u64]) -> u64 {
    seen.iter().fold(rng::mix(number + 1), |h, &v| rng::mix(h ^ v.wrapping_mul(3)))
}

impl Program {
    fn draw(rng: &mut rng::Generator, number: u64) -> Program {
        let mut cells: Vec<usize> = (0..CELLS).collect();
        for i in (1..CELLS).rev() {
            cells.swap(i, rng.random_range(0..=i));
        }
        let deed = |rng: &mut rng::Generator| {
            [Deed::Mix, Deed::NewLeaf, Deed::DropLeaf][rng.random_range(0..3)]
        };
        let n = rng.random_range(1..=2);
        let deeds = cells[..n].iter().map(|&c| (c, deed(rng))).collect();
        let reads = cells[n..n + rng.random_range(0..=CELLS - n)].to_vec();
        Program { number, reads, deeds }
    }

    /// What the transaction does to the oracle's state.
    fn apply(&self, state: &mut State) {
        let seen: Vec<u64> = self.reads.iter().map(|&c| state[c].0).collect();
        let value = mixed(self.number, &seen);
        for &(cell, deed) in &self.deeds {
            state[cell].0 = value;
            match deed {
                Deed::Mix => {}
                Deed::NewLeaf => state[cell].1 = Some(value ^ 1),
                Deed::DropLeaf => state[cell].1 = None,
            }
        }
    }

    /// The same on the pool.
    fn run<D: Domain>(
        &self,
        tx: &mut Tx<'_, '_, D>,
        cells: &[Ref<Cell>; CELLS],
    ) -> Result<(), Abort> {
        let seen = self.reads.iter().map(|&c| Ok(tx.read(cells[c])?.value));
        let value = mixed(self.number, &seen.collect::<Result<Vec<_>, Abort>>()?);
        for &(at, deed) in &self.deeds {
            let mut cell = tx.read(cells[at])?;
            cell.value = value;
            if !matches!(deed, Deed::Mix) && !cell.leaf.is_null() {
                tx.free(cell.leaf)?;
                cell.leaf = Ref::NULL;
            }
            if matches!(deed, Deed::NewLeaf) {
                cell.leaf = tx.alloc(&Leaf { words: [value ^ 1; 4] })?;
            }
            tx.write(cells[at], &cell)?;
        }
        Ok(())
    }
}

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Seeds of workloads, from this one on.
    pub seed: u64,
    /// Stop after this many images.
    pub images_max: u64,
    /// Images at one crash point.
    pub images_per_point_max: u64,
    /// One image in this many is crashed again inside its recovery.
    pub nested_one_in: u64,
}

/// What was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Images recovered and checked, those of crashes inside recovery included.
    pub images_count: u64,
    /// Of these, images of crashes inside recovery.
    pub nested_count: u64,
    /// Workloads.
    pub workloads_count: u64,
    /// Workloads in which a transaction committed inside another's fence.
    pub overlapping_count: u64,
    /// The first violation: the workload's seed, how lines tore, and the image.
    pub violation: Option<(u64, Tear, Failure)>,
}

/// Runs workloads and checks their images until `effort.images_max` or a violation.
///
/// # Errors
/// Errors of a pool before any crash; a violation is no error but a finding.
pub fn run(effort: &Effort) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut seed = effort.seed;
    while findings.images_count < effort.images_max && findings.violation.is_none() {
        let tear = if seed.is_multiple_of(2) { Tear::LinePrefix } else { Tear::Words };
        let workload = Workload::play(seed)?;
        findings.workloads_count += 1;
        findings.overlapping_count += u64::from(workload.overlaps);
        workload.check(seed, tear, effort, &mut findings);
        seed += 1;
    }
    Ok(findings)
}

/// A workload after it was run: the record, and the transactions in the order of their commits.
struct Workload {
    trace: Trace,
    cells: [Ref<Cell>; CELLS],
    /// In the order of their acknowledgements.
    committed: Vec<Program>,
    overlaps: bool,
}

/// What actor 2 needs inside a fence of actor 1.
struct Guest {
    pool: Weak<Pool<Shared>>,
    rng: rng::Generator,
    committed: Arc<Mutex<Vec<Program>>>,
    cells: [Ref<Cell>; CELLS],
    serial: Arc<AtomicU64>,
    /// Transactions it committed.
    count: Arc<AtomicU64>,
}

/// The recorded domain, shared with the hook that runs inside its fences.
type Shared = Arc<Sim>;

impl Guest {
    fn visit(&mut self) {
        let Some(pool) = self.pool.upgrade() else { return };
        if self.rng.random_range(0..3u32) == 0 {
            return;
        }
        let program = Program::draw(&mut self.rng, self.serial.fetch_add(1, Relaxed));
        let done = as_actor(2, || {
            pool.thread().and_then(|mut th| attempt(&mut th, &program, &self.cells))
        });
        if let Ok(true) = done {
            self.count.fetch_add(1, Relaxed);
            self.committed.lock().expect("invariant: no panic inside").push(program);
        }
    }
}

fn attempt<D: Domain>(
    th: &mut Thread<'_, D>,
    program: &Program,
    cells: &[Ref<Cell>; CELLS],
) -> Result<bool> {
    Ok(th.once(|tx| program.run(tx, cells))?.is_some())
}

impl Workload {
    fn play(seed: u64) -> Result<Workload> {
        let mut rng = rng::stream(seed, "crash-workload");
        let sim = Arc::new(Sim::new(11 << 10));
        let options = Options { threads_max: 3, slab_bytes: Some(1024) };
        let pool = Arc::new(Pool::create(Arc::clone(&sim), &options)?);
        let cells = as_actor(1, || start(&pool))?;
        sim.settle();
        let committed = Arc::new(Mutex::new(Vec::new()));
        let (serial, count) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut guest = Guest {
            pool: Arc::downgrade(&pool),
            rng: rng::stream(seed, "crash-guest"),
            committed: Arc::clone(&committed),
            cells,
            serial: Arc::clone(&serial),
            count: Arc::clone(&count),
        };
        sim.on_fence(move |_| guest.visit());
        as_actor(1, || -> Result<()> {
            let mut th = pool.thread()?;
            for _ in 0..ROUNDS {
                let program = Program::draw(&mut rng, serial.fetch_add(1, Relaxed));
                if attempt(&mut th, &program, &cells)? {
                    committed.lock().expect("invariant: no panic inside").push(program);
                }
            }
            Ok(())
        })?;
        let committed = committed.lock().expect("invariant: no panic inside").clone();
        let overlaps = count.load(Relaxed) > 0;
        Ok(Workload { trace: sim.trace(), cells, committed, overlaps })
    }

    /// The states an image with `acknowledged` commits may hold: those, and any of the next two.
    fn legal(&self, acknowledged: usize) -> Vec<State> {
        let (sure, rest) = self.committed.split_at(acknowledged);
        let mut sets = vec![sure.to_vec()];
        for program in rest.iter().take(2) {
            let with = |set: &Vec<Program>| [&set[..], std::slice::from_ref(program)].concat();
            sets.extend(sets.iter().map(with).collect::<Vec<_>>());
        }
        sets.into_iter().map(serial_state).collect()
    }

    fn check(&self, seed: u64, tear: Tear, effort: &Effort, findings: &mut Findings) {
        let images_per_point_max = effort.images_per_point_max;
        let how = Enumerate { tear, images_per_point_max, seed };
        let (mut number, mut nested) = (0, 0);
        let mut legal = (0, self.legal(0));
        let coverage = self.trace.enumerate(&how, |image| {
            number += 1;
            let acknowledged = (image.acknowledged as usize).min(self.committed.len());
            if legal.0 != acknowledged {
                legal = (acknowledged, self.legal(acknowledged));
            }
            let deep = number % effort.nested_one_in == 0;
            nested += self.check_image(image, number, &legal.1, deep.then_some(&how))?;
            Ok(())
        });
        findings.images_count += coverage.images_count + nested;
        findings.nested_count += nested;
        findings.violation = coverage.failure.map(|f| (seed, tear, f));
    }

    /// Steps 1 to 5 of the module's page; answers how many nested images it checked.
    fn check_image(
        &self,
        image: &CrashImage,
        number: u64,
        legal: &[State],
        nested: Option<&Enumerate>,
    ) -> Result<u64, String> {
        let restart = if number.is_multiple_of(3) { Restart::Scan } else { Restart::Lazy };
        let sim = Arc::new(Sim::from_image(image.words));
        let found = self.recovered(&sim, restart)?;
        if !legal.contains(&found) {
            return Err(format!("state {found:?} is none of {legal:?}"));
        }
        let further =
            Program { number: 7777 + number, reads: vec![0], deeds: vec![(1, Deed::NewLeaf)] };
        let mut after = found;
        further.apply(&mut after);
        self.continue_with(&sim, restart, &further)?;
        let again = self.recovered(&sim, Restart::Scan)?;
        if again != after {
            return Err(format!("after one more transaction {again:?}, wanted {after:?}"));
        }
        let Some(how) = nested else { return Ok(0) };
        let how = Enumerate { images_per_point_max: 4, ..*how };
        let checked = self.check_between(&sim, [&found, &after], &how)?;
        if !number.is_multiple_of(3) {
            return Ok(checked);
        }
        let sim = self.killed(image.words, number / 3 % OPERATIONS_MAX)?;
        as_actor(NEXT, || {
            let again = self.recovered(&sim, Restart::Scan)?;
            if again != found {
                return Err(format!("after a killed recovery {again:?}, before {found:?}"));
            }
            self.continue_with(&sim, Restart::Lazy, &further)
        })?;
        Ok(checked + self.check_between(&sim, [&found, &after], &how)?)
    }

    /// Judges the images of a record that leads from one state to another; answers how many.
    fn check_between(
        &self,
        sim: &Shared,
        [found, after]: [&State; 2],
        how: &Enumerate,
    ) -> Result<u64, String> {
        let coverage = sim.trace().enumerate(how, |inner| {
            let state = self.recovered(&Arc::new(Sim::from_image(inner.words)), Restart::Lazy)?;
            let fine = state == *after || (state == *found && inner.acknowledged == 0);
            if fine { Ok(()) } else { Err(format!("crash in recovery: {state:?} from {found:?}")) }
        });
        coverage.failure.map_or(Ok(coverage.images_count), |f| Err(f.message))
    }

    /// Memory whose owner was killed after so many operations of its recovery.
    fn killed(&self, words: &[u64], operations: u64) -> Result<Shared, String> {
        let said = |e: littoral_device::Error| e.to_string();
        let plan = Plan::none().cut_at(operations);
        let dying = Arc::new(Sim::from_image(words).with_plan(plan).map_err(said)?);
        // It finds its memory gone, or was through before that.
        drop(as_actor(KILLED, || self.recovered(&dying, Restart::Lazy)));
        let sim = Arc::into_inner(dying).ok_or("the killed process still has its pool")?;
        Ok(Arc::new(sim.with_plan(Plan::none()).map_err(said)?))
    }

    fn recovered(&self, sim: &Shared, restart: Restart) -> Result<State, String> {
        let pool = Pool::open(Arc::clone(sim), restart).map_err(|e| e.to_string())?;
        self.state(&pool).map_err(|e| e.to_string())?
    }

    fn state(&self, pool: &Pool<Shared>) -> Result<Result<State, String>> {
        let mut th = pool.thread()?;
        let state = th.read_only(|tx| {
            let mut state = BLANK;
            for (s, &at) in state.iter_mut().zip(&self.cells) {
                let cell = tx.read(at)?;
                let leaf = if cell.leaf.is_null() { None } else { Some(tx.read(cell.leaf)?) };
                if leaf.is_some_and(|l| l.words != [l.words[0]; 4]) {
                    return Err(Abort::cancel(format!("torn leaf {leaf:?}")));
                }
                *s = (cell.value, leaf.map(|l| l.words[0]));
            }
            Ok(state)
        })?;
        drop(th);
        let wanted = state.iter().filter(|s| s.1.is_some()).count() as u64;
        let types = pool.info()?.types;
        let alive = types.iter().find(|t| t.tag == Leaf::TAG).map_or(0, |t| t.objects_count);
        if alive != wanted {
            return Ok(Err(format!("{alive} leaves alive, {wanted} referred to")));
        }
        Ok(Ok(state))
    }

    fn continue_with(
        &self,
        sim: &Shared,
        restart: Restart,
        further: &Program,
    ) -> Result<(), String> {
        let run = || {
            let pool = Pool::open(Arc::clone(sim), restart)?;
            let mut th = pool.thread()?;
            th.atomically(|tx| further.run(tx, &self.cells))
        };
        run().map_err(|e| format!("after recovery: {e}"))
    }
}

/// The state after these transactions, one after the other in the serial order.
fn serial_state(mut programs: Vec<Program>) -> State {
    let mut state = BLANK;
    programs.sort_by_key(|p| p.number);
    programs.iter().for_each(|p| p.apply(&mut state));
    state
}

const BLANK: State = [(0, None); CELLS];

/// Makes the cells, and a slab of leaves: a slab claimed inside a fence's hook would wait for
/// itself.
fn start(pool: &Pool<Shared>) -> Result<[Ref<Cell>; CELLS]> {
    let mut th = pool.thread()?;
    let leaf = th.atomically(|tx| tx.alloc(&Leaf { words: [0; 4] }))?;
    th.atomically(|tx| tx.free(leaf))?;
    th.atomically(|tx| {
        let mut cells = [Ref::NULL; CELLS];
        for at in &mut cells {
            *at = tx.alloc(&Cell { value: 0, leaf: Ref::NULL })?;
        }
        Ok(cells)
    })
}
