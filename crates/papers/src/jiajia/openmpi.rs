//! Open MPI as the peer: C programs of ours, built with its compiler and run by its launcher
//! ([`Mpi`]), and two claims on barriers beside its own.
//!
//! - [`barrier`]: two bound ranks, over Open MPI's barrier.
//! - [`crowded`]: two ranks per processor, over a change of thread; Open MPI's barrier is in the
//!   note.
//!
//! `stencil_claims` and `beside` build and run their programs by [`Mpi`] too. In both claims here
//! the two sides run one after the other, and medians of their batches are compared.
//!
//! Invariants
//! - `mpicc` and `mpirun` are found in `--peers` or `PATH`; where one is missing the claims read
//!   `skipped` and say so. Checked by
//!   `without_open_mpi_there_is_no_figure_and_the_reason_is_named`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::codes;
use super::launched::Start;
use super::timed::{Effort, Spread, bare_exchange, bare_switch};
use super::{Figures, words};
use littoral_bench::claims::Figure;
use littoral_bench::peers::Peers;
use littoral_bench::repro::{Unanswered, missing};

const PROGRAM: &str = include_str!("mpi_timed.c");
/// What carries messages of one machine.
pub(super) const IN_MEMORY: [&str; 3] = ["--mca", "btl", "self,vader"];
/// The same over sockets.
pub(super) const OVER_TCP: [&str; 3] = ["--mca", "btl", "self,tcp"];
/// Times a job beside MPI's own operations in the same processes.
const BESIDE: &str = "littoral-mpi-beside";
/// A barrier that has not ended by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

fn find(peers: &Peers, name: &str) -> Result<PathBuf, Unanswered> {
    let found = peers.find("openmpi", name);
    let what = || format!("`{name}` of Open MPI is neither in --peers nor in PATH");
    found.ok_or_else(|| missing(what()))
}

fn launcher(peers: &Peers) -> Result<PathBuf, Unanswered> {
    let launcher = find(peers, "mpirun")?;
    let version = Command::new(&launcher).arg("--version").output().map_err(words)?;
    if String::from_utf8_lossy(&version.stdout).contains("Open MPI") {
        return Ok(launcher);
    }
    Err(missing(format!("Open MPI; {} is not Open MPI's", launcher.display())))
}

/// A program of ours that Open MPI's launcher starts.
pub(super) struct Mpi {
    launcher: PathBuf,
    program: PathBuf,
    variables: Vec<(&'static str, &'static str)>,
}

impl Mpi {
    /// Builds `source` as program `name` in `scratch`.
    pub(super) fn build(
        peers: &Peers,
        scratch: &Path,
        name: &str,
        source: &str,
    ) -> Result<Mpi, Unanswered> {
        let (compiler, launcher) = (find(peers, "mpicc")?, launcher(peers)?);
        let program = scratch.join(name);
        let file = program.with_extension("c");
        std::fs::write(&file, source).map_err(words)?;
        let mut compile = Command::new(compiler);
        compile.args(["-std=c99", "-O3", "-ffp-contract=off", "-o"]).arg(&program).arg(&file);
        let built = compile.output().map_err(words)?;
        if !built.status.success() {
            let said = String::from_utf8_lossy(&built.stderr);
            return Err(format!("mpicc: {}", said.trim()).into());
        }
        Ok(Mpi { launcher, program, variables: Vec::new() })
    }

    /// A program of `crates/dsm-mpi`, which is built apart.
    pub(super) fn of_jobs(peers: &Peers) -> Result<Mpi, Unanswered> {
        let launcher = launcher(peers)?;
        let found = peers.find("littoral", BESIDE);
        let program = found.ok_or_else(|| {
            missing(format!(
                "`{BESIDE}` is neither in --peers nor in PATH (crates/dsm-mpi builds it)"
            ))
        })?;
        Ok(Mpi { launcher, program, variables: Vec::new() })
    }

    /// The same with a variable of the environment.
    pub(super) fn with(mut self, name: &'static str, value: &'static str) -> Mpi {
        self.variables.push((name, value));
        self
    }

    /// Runs the program over shared memory; the two figures it prints first, and what follows them.
    pub(super) fn run(
        &self,
        ranks: usize,
        binding: &str,
        arguments: &[String],
    ) -> Result<(Spread, Vec<f64>), String> {
        self.run_with(ranks, binding, &IN_MEMORY, arguments)
    }

    /// The program of [`timed`](Mpi::timed).
    pub(super) fn of_operations(peers: &Peers, scratch: &Path) -> Result<Mpi, Unanswered> {
        Mpi::build(peers, scratch, "mpi_timed", PROGRAM)
    }

    /// An operation of `mpi_timed.c`, in batches.
    pub(super) fn timed(
        &self,
        operation: &str,
        ranks: usize,
        (binding, options): (&str, &[&str]),
        (batches, batch): (usize, usize),
    ) -> Result<Spread, String> {
        let arguments = [operation.to_owned(), batches.to_string(), batch.to_string()];
        self.run_with(ranks, binding, options, &arguments).map(|(spread, _)| spread)
    }

    fn run_with(
        &self,
        ranks: usize,
        binding: &str,
        options: &[&str],
        arguments: &[String],
    ) -> Result<(Spread, Vec<f64>), String> {
        let mut run = Command::new("timeout");
        run.arg(PATIENCE.as_secs().to_string()).arg(&self.launcher);
        run.args(["-n", &ranks.to_string(), "--oversubscribe", "--bind-to", binding]);
        run.args(options);
        run.envs(self.variables.iter().copied());
        run.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        run.arg(&self.program).args(arguments);
        let ran = run.output().map_err(words)?;
        let out = String::from_utf8_lossy(&ran.stdout);
        let mut figures = out.split_whitespace().filter_map(|w| w.parse::<f64>().ok());
        match (figures.next(), figures.next()) {
            (Some(p10_ns), Some(median_ns)) if ran.status.success() => {
                Ok((Spread { p10_ns, median_ns }, figures.collect()))
            }
            _ => {
                let said = String::from_utf8_lossy(&ran.stderr);
                Err(format!("mpirun: {}: {}", ran.status, said.trim()))
            }
        }
    }
}

/// `dsm.barrier.vs_openmpi`: two ranks, bound, shared memory.
///
/// # Errors
/// When Open MPI is missing or fails.
pub fn barrier(peers: &Peers, start: &Start, effort: Effort) -> Figures {
    let mpi = Mpi::of_operations(peers, &start.scratch)?;
    let theirs = mpi.timed("barrier", 2, ("core", &IN_MEMORY), (100, 2000))?;
    let ours = codes::barrier(start, 2, effort)?;
    let bare = bare_exchange(effort)?;
    let note = format!(
        "medians: ours {:.0} ns, Open MPI {:.0} ns; tenth percentiles {:.0} and {:.0} ns; two \
         threads that only write each other a word and wait for it take {:.0} ns ({:.2} of Open \
         MPI's), which is a bound for any barrier of these two processors",
        ours.median_ns,
        theirs.median_ns,
        ours.p10_ns,
        theirs.p10_ns,
        bare.median_ns,
        bare.median_ns / theirs.median_ns
    );
    let figure = Figure::new(ours.median_ns / theirs.median_ns, note);
    Ok(vec![("dsm.barrier.vs_openmpi".into(), figure)])
}

/// `dsm.oversubscribed.vs_openmpi`: two ranks a processor, unbound, over changes of thread. Told
/// that there are more ranks than slots, as here, Open MPI gives its processor away while it waits;
/// left to poll, it is slower by far. The note tells both; the figure uses neither.
///
/// # Errors
/// As [`barrier`].
pub fn crowded(peers: &Peers, start: &Start, effort: Effort) -> Figures {
    let mpi = Mpi::of_operations(peers, &start.scratch)?;
    let (_, ours) = codes::oversubscribed(start, effort)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let ranks = 2 * cores;
    let theirs = mpi.timed("barrier", ranks, ("none", &IN_MEMORY), (20, 20))?;
    let polling = [&IN_MEMORY[..], &["--mca", "mpi_yield_when_idle", "0"]].concat();
    let polling = mpi.timed("barrier", ranks, ("none", &polling), (5, 5))?;
    let switch = bare_switch(effort.slower(10))?;
    let note = format!(
        "medians of a barrier: ours {:.1} us, Open MPI {:.1} us ({:.2} of it; {:.0} us when it \
         polls); {ranks} ranks on {cores} processors; giving a processor away once takes {:.2} us, \
         and any barrier of two ranks a processor does",
        ours.median_ns / 1000.0,
        theirs.median_ns / 1000.0,
        ours.median_ns / theirs.median_ns,
        polling.median_ns / 1000.0,
        switch.median_ns / 1000.0,
    );
    let figure = Figure::new(ours.median_ns / switch.median_ns, note);
    Ok(vec![("dsm.oversubscribed.vs_openmpi".into(), figure)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn without_open_mpi_there_is_no_figure_and_the_reason_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["mpicc", "mpirun"] {
            let program = dir.path().join(name);
            std::fs::write(&program, "#!/bin/sh\necho another program\n").unwrap();
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&program, mode).unwrap();
        }
        let peers = Peers::new(Some(dir.path().to_owned()));
        let scratch = dir.path().to_owned();
        let start = Start { program: "none".into(), arguments: Vec::new(), scratch };
        let why = barrier(&peers, &start, Effort::QUICK).map(|_| ()).unwrap_err();
        assert!(why.to_string().contains("is not Open MPI's"), "{why}");
        assert!(matches!(why, Unanswered::Missing(_)), "{why:?}");
    }
}
