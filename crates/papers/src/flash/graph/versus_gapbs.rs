//! Our kernels in DRAM beside those of the GAP benchmark suite, on the same graph and sources.
//!
//! - GAPBS reads the graph from its own form (`.sg`): once with the generator's numbering, which is
//!   what it would be given (the ratio that is claimed), and once with ours, so that
//!   the numbering's gain is not taken for the kernels'.
//! - Its shortest paths get the width of bins that the suite's rules set, or of several widths the
//!   one that is best for it, by a trial from the first source.
//! - One thread each, on the same core, in turn; GAPBS's own trial times count. Its build is the
//!   user's.
//! - Our trial times leave out what GAPBS's include: allocating the answer. State is allocated
//!   once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use littoral_graph::builder::Hooks;
use littoral_graph::format::file::GraphFile;
use littoral_graph::import::{SgIds, export_sg};
use littoral_graph::kernels::{Kernel, pick_sources};
use littoral_graph::medium::Store;

use super::{KernelTime, SOURCE_SEED, SOURCES, failed, in_turn};
use crate::flash::media::Outcome;
use littoral_bench::error::{Error, Kind, Result};
use littoral_bench::peers::Peers;

/// Trials of one GAPBS process: the first pays for page faults, the least counts.
const TRIALS_PER_PROCESS: usize = 3;

/// The width of a bin that the suite's own benchmark rules set for Kronecker and uniform graphs.
pub const SUITE_DELTAS: &[u32] = &[2];
/// Widths of bins among which the suite gets its best on road networks, whose weights are 1 to 255
/// here and not the rules' lengths of streets.
pub const ROAD_DELTAS: &[u32] = &[16, 64, 256, 1024, 4096];

/// What the help of each of the suite's programs says, and no other program's.
const HELP_WORDS: &str = "generate 2^scale kronecker graph";

/// A kernel of ours beside the suite's.
#[derive(Clone, Debug)]
pub struct VersusGapbs {
    /// Ours, all in DRAM.
    pub ours: KernelTime,
    /// GAPBS on the generator's numbering: the least time for each source.
    pub gapbs_ns: Vec<u64>,
    /// GAPBS on our numbering.
    pub gapbs_relabelled_ns: Vec<u64>,
    /// The width of bins that its shortest paths got.
    pub delta: u32,
}

impl VersusGapbs {
    /// Ours over GAPBS, sources summed.
    pub fn ratio(&self) -> f64 {
        self.ours.total_ns() / self.gapbs_ns.iter().sum::<u64>() as f64
    }

    /// Ours over GAPBS when it, too, gets ids by degree.
    pub fn ratio_relabelled(&self) -> f64 {
        self.ours.total_ns() / self.gapbs_relabelled_ns.iter().sum::<u64>() as f64
    }
}

/// Measures `kernel` on `graph` beside the suite found among `peers`; its inputs go to `scratch`
/// and are kept there for the next kernel. Shortest paths of the suite get the best of `deltas`.
///
/// # Errors
/// `Kind::Environment` when the suite fails or says what cannot be read.
pub fn measure(
    graph: &GraphFile,
    kernel: Kernel,
    peers: &Peers,
    scratch: &Path,
    (rounds, deltas): (usize, &[u32]),
) -> Result<Outcome<VersusGapbs>> {
    let program = match peers.recognise("gapbs", kernel.name(), HELP_WORDS) {
        Ok(program) => program,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let dram = Store::in_dram(graph).map_err(failed)?;
    let given = export(graph, SgIds::Original, scratch)?;
    let relabelled = export(graph, SgIds::Internal, scratch)?;
    let sources = sources(graph, kernel)?;
    let mut suite = Suite { program: &program, kernel, delta: 0 };
    suite.delta = suite.best_delta(&given, sources.first().map_or(0, |s| s.0), deltas)?;
    let mut found: Option<VersusGapbs> = None;
    for _ in 0..rounds.max(1) {
        let ours = in_turn(graph, &[&dram], kernel, 1)?.remove(0);
        let mut gapbs_ns = Vec::new();
        let mut gapbs_relabelled_ns = Vec::new();
        for &(original, internal) in &sources {
            gapbs_ns.push(suite.trial_ns(&given, original)?);
            gapbs_relabelled_ns.push(suite.trial_ns(&relabelled, internal)?);
        }
        let round = VersusGapbs { ours, gapbs_ns, gapbs_relabelled_ns, delta: suite.delta };
        found = Some(match found {
            Some(before) => least(before, round),
            None => round,
        });
    }
    found.map(Outcome::Measured).ok_or_else(|| Error::new(Kind::Environment, "no rounds"))
}

fn least(a: VersusGapbs, b: VersusGapbs) -> VersusGapbs {
    let min = |a: Vec<u64>, b: &[u64]| a.into_iter().zip(b).map(|(x, &y)| x.min(y)).collect();
    VersusGapbs {
        ours: a.ours.least(b.ours),
        gapbs_ns: min(a.gapbs_ns, &b.gapbs_ns),
        gapbs_relabelled_ns: min(a.gapbs_relabelled_ns, &b.gapbs_relabelled_ns),
        delta: b.delta,
    }
}

/// The sources [`in_turn`] uses, by the name GAPBS knows and by internal id.
fn sources(graph: &GraphFile, kernel: Kernel) -> Result<Vec<(u64, u64)>> {
    if !kernel.spec().has_source {
        return Ok(vec![(0, 0)]);
    }
    let names = graph.names().map_err(failed)?;
    let pick = pick_sources(graph, SOURCES, SOURCE_SEED).into_iter();
    pick.map(|v| {
        let name = names.name(v);
        let number = name.parse().map_err(|e| {
            Error::with_source(Kind::Environment, format!("vertex {name} has no number"), e)
        })?;
        Ok((number, u64::from(v)))
    })
    .collect()
}

fn export(graph: &GraphFile, ids: SgIds, scratch: &Path) -> Result<PathBuf> {
    let stem = graph.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let kind = if ids == SgIds::Original { "given" } else { "relabelled" };
    let generation = graph.header().generation;
    let suffix = if graph.is_weighted() { "wsg" } else { "sg" };
    let path = scratch.join(format!("{stem}-{generation:08x}-{kind}.{suffix}"));
    if !path.exists() {
        fs::create_dir_all(scratch)
            .map_err(|e| Error::with_source(Kind::Io, scratch.display().to_string(), e))?;
        export_sg(graph, ids, &path, &mut Hooks::none()).map_err(failed)?;
    }
    Ok(path)
}

/// The suite's program of one kernel.
struct Suite<'p> {
    program: &'p Path,
    kernel: Kernel,
    delta: u32,
}

impl Suite<'_> {
    /// The width of bins with which shortest paths take the program least.
    fn best_delta(&self, graph: &Path, source: u64, deltas: &[u32]) -> Result<u32> {
        let first = deltas.first().copied().unwrap_or(1);
        if !matches!(self.kernel, Kernel::Sssp(_)) || deltas.len() < 2 {
            return Ok(first);
        }
        let mut best = (u64::MAX, first);
        for &delta in deltas {
            let time_ns = Suite { delta, ..*self }.trial_ns(graph, source)?;
            best = best.min((time_ns, delta));
        }
        Ok(best.1)
    }

    /// The least trial time that the program reports.
    fn trial_ns(&self, graph: &Path, source: u64) -> Result<u64> {
        let (program, kernel) = (self.program, self.kernel);
        let mut command = Command::new("taskset");
        command.args(["-c", &pinned_to()?]).arg(program).arg("-f").arg(graph);
        command.args(["-n", &TRIALS_PER_PROCESS.to_string()]).env("OMP_NUM_THREADS", "1");
        if kernel.spec().has_source {
            command.args(["-r", &source.to_string()]);
        }
        if let Kernel::Sssp(_) = kernel {
            command.args(["-d", &self.delta.to_string()]);
        }
        if let Kernel::PageRank(o) = kernel {
            command.args(["-i", &o.iterations_max.to_string(), "-t", &o.tolerance.to_string()]);
        }
        let output = command.output().map_err(|e| {
            Error::with_source(Kind::Environment, format!("running {}", program.display()), e)
        })?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let what = format!("{} ended with {}: {words}", program.display(), output.status);
            return Err(Error::new(Kind::Environment, what));
        }
        least_trial(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| {
            Error::new(Kind::Environment, format!("{} reports no trial time", program.display()))
        })
    }
}

/// The processor our own runs are pinned to: the first this process may use.
fn pinned_to() -> Result<String> {
    let set = rustix::thread::sched_getaffinity(None)
        .map_err(|e| Error::with_source(Kind::Environment, "asking for processors", e))?;
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| set.is_set(cpu));
    Ok(first.unwrap_or(0).to_string())
}

fn least_trial(output: &str) -> Option<u64> {
    let seconds = output.lines().filter_map(|line| line.strip_prefix("Trial Time:"));
    let seconds = seconds.filter_map(|s| s.trim().parse::<f64>().ok());
    seconds.map(|s| (s * 1e9) as u64).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_trial_counts_and_averages_do_not() {
        let output =
            "Read Time:  0.5\nTrial Time:          0.10662\nTrial Time: 0.09\nAverage Time: 0.01\n";
        assert_eq!(least_trial(output), Some(90_000_000));
        assert_eq!(least_trial("Verification: PASS\n"), None);
    }

    #[test]
    fn the_suite_gets_its_best_width_of_bins() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("sssp");
        // Options are -f GRAPH -n TRIALS -r SOURCE -d DELTA.
        let script = "#!/bin/sh\n[ $8 = 64 ] && echo Trial Time: 0.5 || echo Trial Time: 0.9\n";
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let kernel = Kernel::Sssp(littoral_graph::kernels::Weights::Stored);
        let suite = |kernel| Suite { program: &program, kernel, delta: 0 };
        let best = |kernel, deltas| suite(kernel).best_delta(Path::new("g"), 1, deltas).unwrap();
        assert_eq!((best(kernel, ROAD_DELTAS), best(kernel, SUITE_DELTAS)), (64, 2));
        assert_eq!(best(Kernel::Tc, ROAD_DELTAS), ROAD_DELTAS[0], "no other kernel has bins");
    }

    #[test]
    fn a_missing_suite_is_skipped_with_words() {
        use littoral_graph::builder::{BuildOptions, EdgeList, build_in_memory};
        let edges = EdgeList::new(2, false, vec![[0, 1]]);
        let image = build_in_memory(edges, &BuildOptions::default(), &mut Hooks::none()).unwrap().0;
        let graph = GraphFile::from_image(image).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let peers = Peers::new(Some(dir.path().to_owned()));
        if peers.recognise("gapbs", "cc", HELP_WORDS).is_ok() {
            return; // one is installed here; there is nothing to skip
        }
        let asked = (1, SUITE_DELTAS);
        let outcome = measure(&graph, Kernel::Components, &peers, dir.path(), asked).unwrap();
        assert!(matches!(outcome, Outcome::Skipped(why) if why.contains("cc")));
    }
}
