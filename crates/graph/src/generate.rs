//! Synthetic graphs of the Graph500 and GAP benchmarks: Kronecker and uniform random.
//!
//! - *kron*: R-MAT with A = 0.57, B = 0.19, C = 0.19, D = 0.05 (Graph500), ids scattered by a
//!   bijection.
//! - *urand*: both ends uniform (GAP).
//! - *road*: a grid in rows, of which 0.85 of the edges are there: a stand-in for road networks.
//! - 2^scale vertices, 16 edges per vertex (road: 2 drawn), undirected; duplicates and self-loops
//!   are drawn too and removed when the file is built, as the benchmarks do.
//!
//! Invariant: edge `i` depends on the model, scale and seed alone. Edges are drawn in blocks with a
//! generator each, so any number of threads draws the same graph. Checked by
//! `threads_draw_the_same_graph_and_seeds_another`.

use littoral_base::rng::{self, RngCore, mix};
use littoral_base::units::Bytes;

use crate::builder::{EdgeList, Hooks, Stage};
use crate::error::{Error, Kind, Result};
use crate::kernels::seeded_weight;

/// Edges a vertex.
pub const EDGE_FACTOR: u64 = 16;
/// The largest scale: 2^30 vertices.
pub const SCALE_MAX: u32 = 30;
/// The seed when none is given.
pub const SEED: u64 = 27_491_095;

const BLOCK_EDGES: usize = 1 << 16;
/// 2^32 times the probability that the source bit is set: C + D.
const P_SOURCE: u64 = share(0.24);
/// ... that the target bit is set when the source bit is not: B / (A + B).
const P_TARGET_0: u64 = share(0.19 / 0.76);
/// ... that the target bit is set when the source bit is: D / (C + D).
const P_TARGET_1: u64 = share(0.05 / 0.24);

/// 2^32 times the probability that a grid has a given edge.
const P_ROAD: u32 = share(0.85) as u32;

const fn share(p: f64) -> u64 {
    (p * 4_294_967_296.0) as u64
}

/// Models of random graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// Kronecker (R-MAT) with Graph500's probabilities.
    Kron,
    /// Uniform random (Erdos-Renyi by edges).
    Urand,
    /// A grid with gaps: at most four neighbours, thousands of levels.
    Road,
}

impl Model {
    /// The model's name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Model::Kron => "kron",
            Model::Urand => "urand",
            Model::Road => "road",
        }
    }

    /// Edges drawn per vertex.
    const fn edge_factor(self) -> u64 {
        match self {
            Model::Kron | Model::Urand => EDGE_FACTOR,
            Model::Road => 2,
        }
    }
}

/// Draws a graph of 2^`scale` vertices.
///
/// # Errors
/// `Kind::Argument` for a scale outside 1..=30, `Kind::Memory` when the edges alone would not fit
/// memory, `Kind::Interrupted`.
pub fn generate(
    model: Model,
    scale: u32,
    seed: u64,
    threads: usize,
    hooks: &mut Hooks<'_>,
) -> Result<EdgeList> {
    if !(1..=SCALE_MAX).contains(&scale) {
        let context = format!("scale {scale}; a scale is 1 to {SCALE_MAX} (2^scale vertices)");
        return Err(Error::new(Kind::Argument, context));
    }
    check_memory(model, scale, available_bytes())?;
    let mut edges = vec![[0; 2]; (model.edge_factor() << scale) as usize];
    let draw = Draw { model, scale, seed, scatter: Scatter::new(scale, seed) };
    let total = edges.len() as u64;
    let (mut done, round) = (0u64, 64 * threads.max(1) * BLOCK_EDGES);
    for (r, part) in edges.chunks_mut(round).enumerate() {
        hooks.step(Stage::Generating, done, total)?;
        draw.fill(r * (round / BLOCK_EDGES), part, threads.max(1));
        done += part.len() as u64;
    }
    hooks.step(Stage::Generating, total, total)?;
    Ok(EdgeList::new(1 << scale, false, edges))
}

/// Gives every edge a whole weight from 1 to 255 that depends on the numbers of its two ends alone.
pub fn weigh(edges: &mut EdgeList) {
    let weights = edges.edges.iter().map(|&[a, b]| seeded_weight(a, b));
    edges.weights = Some(weights.collect());
}

/// Refuses a scale whose drawing and building would not fit `have` bytes, where they are known.
fn check_memory(model: Model, scale: u32, have: Option<u64>) -> Result<()> {
    let need = build_bytes(model.edge_factor() << scale);
    let Some(have) = have.filter(|&have| have < need) else { return Ok(()) };
    let context = format!(
        "scale {scale} takes about {} of memory to build, {} are free; choose a smaller scale",
        Bytes(need),
        Bytes(have)
    );
    Err(Error::new(Kind::Memory, context))
}

/// What drawing and building `edges` undirected edges takes: edges, arcs, and arcs in buckets.
fn build_bytes(edges: u64) -> u64 {
    edges * (8 + 2 * 4) + (edges * 2 * 8).min(2 << 30)
}

/// Memory the system says it could give, where it says so.
fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

struct Draw {
    model: Model,
    scale: u32,
    seed: u64,
    scatter: Scatter,
}

impl Draw {
    /// Fills whole blocks from number `first` on, blocks dealt out to threads in runs.
    fn fill(&self, first: usize, edges: &mut [[u32; 2]], threads: usize) {
        let blocks = edges.len().div_ceil(BLOCK_EDGES);
        let run = blocks.div_ceil(threads);
        std::thread::scope(|scope| {
            for (t, part) in edges.chunks_mut(run * BLOCK_EDGES).enumerate() {
                scope.spawn(move || {
                    for (b, block) in part.chunks_mut(BLOCK_EDGES).enumerate() {
                        self.fill_block((first + t * run + b) as u64, block);
                    }
                });
            }
        });
    }

    fn fill_block(&self, number: u64, block: &mut [[u32; 2]]) {
        let mut rng = rng::seeded(mix(self.seed ^ mix(number + 1)));
        let mask = (1u32 << self.scale) - 1;
        match self.model {
            Model::Kron => block.iter_mut().for_each(|e| {
                *e = kron_edge(self.scale, &mut rng).map(|v| self.scatter.id(v));
            }),
            Model::Urand => block.iter_mut().for_each(|e| {
                let r = rng.next_u64();
                *e = [r as u32 & mask, (r >> 32) as u32 & mask];
            }),
            Model::Road => (number * BLOCK_EDGES as u64..).zip(block).for_each(|(i, e)| {
                *e = road_edge(self.scale, i, rng.next_u64() as u32);
            }),
        }
    }
}

/// Edge `i` of a grid: from a vertex to the right or down; a self-loop, which building removes, at
/// the border and where `draw` leaves a gap.
fn road_edge(scale: u32, i: u64, draw: u32) -> [u32; 2] {
    let width = 1u32 << scale.div_ceil(2);
    let (v, is_down) = ((i / 2) as u32, i % 2 == 1);
    let has_next = if is_down { v + width < 1 << scale } else { (v + 1) % width != 0 };
    match has_next && draw < P_ROAD {
        true => [v, if is_down { v + width } else { v + 1 }],
        false => [v, v],
    }
}

/// One edge: a quadrant of the matrix for each bit of the scale, without a branch.
#[inline(always)]
fn kron_edge(scale: u32, rng: &mut rng::Generator) -> [u32; 2] {
    let (mut a, mut b) = (0, 0);
    for _ in 0..scale {
        let r = rng.next_u64();
        let source = (r & 0xffff_ffff) < P_SOURCE;
        let target = (r >> 32) < if source { P_TARGET_1 } else { P_TARGET_0 };
        a = a << 1 | u32::from(source);
        b = b << 1 | u32::from(target);
    }
    [a, b]
}

/// A seeded bijection of `scale` bits, so that a vertex's id says nothing about its degree.
struct Scatter {
    keys: [u32; 3],
    scale: u32,
    mask: u32,
}

impl Scatter {
    fn new(scale: u32, seed: u64) -> Self {
        let mut rng = rng::stream(seed, "graph.gen.scatter");
        let keys = std::array::from_fn(|_| rng.next_u64() as u32);
        Scatter { keys, scale, mask: (1 << scale) - 1 }
    }

    /// Three rounds of: multiply by an odd number, add, fold the high half onto the low.
    #[inline(always)]
    fn id(&self, v: u32) -> u32 {
        let fold = self.scale.div_ceil(2);
        self.keys.iter().fold(v, |v, &key| {
            let v = v.wrapping_mul(key | 1).wrapping_add(key >> 16) & self.mask;
            v ^ v >> fold
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(model: Model, scale: u32, seed: u64, threads: usize) -> Vec<[u32; 2]> {
        generate(model, scale, seed, threads, &mut Hooks::none()).unwrap().edges
    }

    #[test]
    fn scattering_is_a_bijection_at_every_scale() {
        for scale in 1..=14 {
            let s = Scatter::new(scale, 3);
            let mut ids: Vec<u32> = (0..1 << scale).map(|v| s.id(v)).collect();
            ids.sort_unstable();
            assert!(ids.iter().zip(0..).all(|(&a, b)| a == b), "scale {scale}");
        }
    }

    #[test]
    fn threads_draw_the_same_graph_and_seeds_another() {
        for model in [Model::Kron, Model::Urand, Model::Road] {
            let one = draw(model, 14, 7, 1);
            assert_eq!(one.len() as u64, model.edge_factor() << 14);
            assert!(one == draw(model, 14, 7, 3), "{model:?}");
            assert!(one != draw(model, 14, 8, 1), "{model:?}");
        }
    }

    #[test]
    fn roads_have_at_most_four_neighbours_and_lead_to_the_next_row_or_column() {
        let mut degree = [0u32; 1 << 10];
        for [a, b] in draw(Model::Road, 10, 1, 2) {
            assert!([0, 1, 32].contains(&(b - a)) && (b - a != 1 || a % 32 != 31), "{a} to {b}");
            if a != b {
                degree[a as usize] += 1;
                degree[b as usize] += 1;
            }
        }
        let ends: u32 = degree.iter().sum();
        assert!(degree.iter().all(|&d| d <= 4) && (3_000..3_700).contains(&ends), "{ends}");
    }

    #[test]
    fn quadrants_have_graph500_shares() {
        let mut rng = rng::seeded(1);
        let mut counts = [0f64; 4];
        for _ in 0..200_000 {
            let [a, b] = kron_edge(1, &mut rng);
            counts[(2 * a + b) as usize] += 1.0 / 200_000.0;
        }
        for (got, want) in counts.iter().zip([0.57, 0.19, 0.19, 0.05]) {
            assert!((got - want).abs() < 0.01, "{got} for {want}");
        }
    }

    #[test]
    fn a_graph_larger_than_memory_is_refused_before_it_is_drawn() {
        let e = check_memory(Model::Kron, SCALE_MAX, Some(64 << 30)).unwrap_err();
        assert_eq!((e.kind(), e.class().exit_code()), (Kind::Memory, 3), "{e}");
        assert!(e.to_string().contains("scale 30") && e.to_string().contains("64 GiB"), "{e}");
        assert!(
            check_memory(Model::Kron, 22, Some(6 << 30)).is_ok()
                && check_memory(Model::Kron, SCALE_MAX, None).is_ok()
        );
    }

    #[test]
    fn scales_outside_the_range_are_refused() {
        for scale in [0, 31, u32::MAX] {
            let e = generate(Model::Kron, scale, 1, 1, &mut Hooks::none()).unwrap_err();
            assert_eq!(e.kind(), Kind::Argument);
        }
    }
}
