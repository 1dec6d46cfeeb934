//! `dsm.job.*`: sections and barriers of launched jobs, beside the same operations of Open MPI.
//!
//! Our runs and the peer's alternate. A figure is the ratio of the medians of the runs' medians;
//! the note has both ranges. Where both sides have a processor for each rank, both are bound.

use littoral_bench::claims::Figure;
use littoral_bench::repro::Options;
use littoral_dsm::launch::Fabric;

use super::Figures;
use super::launched::{Operation, Seen, Start, Work, contend};
use super::openmpi::{IN_MEMORY, Mpi, OVER_TCP};
use super::timed::{Effort, bare_exchange, spread};

/// Runs of each side.
pub(super) fn runs(options: &Options) -> usize {
    if options.quick { 3 } else { 9 }
}

/// What starts the ranks: the program that measures.
pub(super) fn start(options: &Options) -> Start {
    let scratch = options.scratch.clone();
    Start { program: options.program.clone(), arguments: Vec::new(), scratch }
}

/// Medians of runs, in nanoseconds.
#[derive(Default)]
pub(super) struct Runs(Vec<f64>);

impl Runs {
    pub(super) fn median(&self) -> f64 {
        spread(self.0.clone()).median_ns
    }

    pub(super) fn text(&self) -> String {
        let least = self.0.iter().copied().fold(f64::MAX, f64::min);
        let most = self.0.iter().copied().fold(0.0, f64::max);
        format!("{:.0} ns ({least:.0} to {most:.0})", self.median())
    }
}

/// Runs both sides in turn.
pub(super) fn in_turn(
    runs: usize,
    mut ours: impl FnMut() -> Result<f64, String>,
    mut theirs: impl FnMut() -> Result<f64, String>,
) -> Result<(Runs, Runs), String> {
    let (mut first, mut second) = (Runs::default(), Runs::default());
    for _ in 0..runs {
        first.0.push(ours()?);
        second.0.push(theirs()?);
    }
    Ok((first, second))
}

/// The median of our runs over that of Open MPI's.
pub(super) fn ratio(what: &str, runs: usize, (ours, theirs): &(Runs, Runs)) -> Figure {
    let note = format!(
        "medians of {runs} runs of each side in turn: ours {}, Open MPI's {what} {}",
        ours.text(),
        theirs.text()
    );
    Figure::new(ours.median() / theirs.median(), note)
}

/// The slowest rank's median; ranks that timed nothing have none.
fn slowest(seen: &[Seen]) -> f64 {
    seen.iter().map(|s| s.median_ns).fold(0.0, f64::max)
}

/// `dsm.job.{section,barrier}.{shm,pages}.vs_openmpi`: two ranks.
///
/// # Errors
/// When Open MPI is missing, or a job fails.
pub fn in_memory(options: &Options) -> Figures {
    let (mpi, start) = (Mpi::of_operations(&options.peers, &options.scratch)?, start(options));
    let runs = runs(options);
    let mut figures = Vec::new();
    let kinds = [("section", Operation::Section), ("barrier", Operation::Barrier)];
    let fabrics = [("shm", Fabric::Shm, 2000), ("pages", Fabric::ShmPages, 100)];
    for (name, operation) in kinds {
        for (label, fabric, batch) in fabrics {
            let work = Work { operation, batches: 40, batch };
            let ours = || start.run(fabric, 2, work).map(|seen| slowest(&seen));
            let theirs = || {
                let took = mpi.timed(name, 2, ("core", &IN_MEMORY), (40, 2000));
                took.map(|took| took.median_ns)
            };
            let figure = ratio(name, runs, &in_turn(runs, ours, theirs)?);
            figures.push((format!("dsm.job.{name}.{label}.vs_openmpi"), figure));
        }
    }
    Ok(figures)
}

/// `dsm.job.contended.shm`: two ranks, in exchanges of a word.
///
/// # Errors
/// When a job fails.
pub fn contended(options: &Options, effort: Effort) -> Figures {
    let start = start(options);
    let (mut sections, mut exchanges, mut fairness) = (Runs::default(), Runs::default(), vec![]);
    for _ in 0..runs(options) {
        let found = contend(&start, Fabric::Shm, 2)?;
        sections.0.push(found.section_ns);
        fairness.push(found.fairness);
        exchanges.0.push(bare_exchange(effort)?.median_ns);
    }
    let fairness = spread(fairness).median_ns;
    let note = format!(
        "a section of either rank {}, exchanging a word {}; counted for 300 ms in which both ranks \
         run",
        sections.text(),
        exchanges.text()
    );
    let figure = Figure::new(sections.median() / exchanges.median(), note)
        .provided(fairness >= 0.8, format!("fewest over most sections of a rank {fairness:.2}"));
    Ok(vec![("dsm.job.contended.shm".into(), figure)])
}

/// `dsm.job.section.tcp` and `dsm.job.barrier.tcp.vs_openmpi`: two ranks on loopback.
///
/// # Errors
/// As [`in_memory`].
pub fn over_tcp(options: &Options) -> Figures {
    let (mpi, start) = (Mpi::of_operations(&options.peers, &options.scratch)?, start(options));
    let runs = runs(options);
    let rows = [
        ("dsm.job.section.tcp", Operation::Section, "trip", "round trip"),
        ("dsm.job.barrier.tcp.vs_openmpi", Operation::Barrier, "barrier", "barrier"),
    ];
    let mut figures = Vec::new();
    for (id, operation, theirs, what) in rows {
        let work = Work { operation, batches: 40, batch: 100 };
        let ours = || start.run(Fabric::Tcp, 2, work).map(|seen| slowest(&seen));
        let theirs = || {
            let took = mpi.timed(theirs, 2, ("core", &OVER_TCP), (40, 100));
            took.map(|took| took.median_ns)
        };
        figures.push((id.to_owned(), ratio(what, runs, &in_turn(runs, ours, theirs)?)));
    }
    Ok(figures)
}

/// `dsm.mpi.*`: a job that Open MPI's launcher started, beside its operations in the same
/// processes.
///
/// # Errors
/// When Open MPI or the program of `crates/dsm-mpi` is missing, or a run fails.
pub fn by_mpirun(options: &Options) -> Figures {
    let runs = runs(options);
    let mut figures = Vec::new();
    for name in ["section", "barrier"] {
        let arguments = [name.to_owned(), "40".to_owned(), "2000".to_owned()];
        let timed = |mpi: &Mpi, runs| {
            let (mut ours, mut theirs) = (Runs::default(), Runs::default());
            for _ in 0..runs {
                let (took, rest) = mpi.run(2, "core", &arguments)?;
                ours.0.push(took.median_ns);
                theirs.0.push(*rest.last().ok_or("the program gives no time of MPI's")?);
            }
            Ok::<_, String>((ours, theirs))
        };
        let both = timed(&Mpi::of_jobs(&options.peers)?, runs)?;
        let by_messages = Mpi::of_jobs(&options.peers)?.with("LITTORAL_MPI_CARRIER", "messages");
        let messages = timed(&by_messages, 1)?.0;
        let mut figure = ratio(name, runs, &both);
        let text =
            format!("over MPI's messages, as between machines, ours take {}", messages.text());
        figure.notes.push(text);
        figures.push((format!("dsm.mpi.{name}"), figure));
    }
    Ok(figures)
}

/// `dsm.job.switches.tcp`: changes of thread a section, every thread of both ranks.
///
/// # Errors
/// When a job fails.
pub fn switches(options: &Options) -> Figures {
    let start = start(options);
    let work = Work { operation: Operation::Section, batches: 20, batch: 100 };
    let one = |_| {
        let seen = start.run(Fabric::Tcp, 2, work)?;
        let sum = |of: fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>() as f64;
        Ok(sum(|s| s.switches) / sum(|s| s.operations))
    };
    let counts = (0..runs(options)).map(one).collect::<Result<Vec<f64>, String>>()?;
    let note = format!("medians of {} runs of 2,100 sections: {counts:.1?}", counts.len());
    let figure = Figure::new(spread(counts).median_ns, note);
    Ok(vec![("dsm.job.switches.tcp".into(), figure)])
}

/// `dsm.memory`: two ranks over TCP; one writes a gibibyte that is at home at the other.
///
/// # Errors
/// When the job fails.
pub fn memory(options: &Options) -> Figures {
    const MIB: f64 = 1048576.0;
    let (written, cache) = (1024, 64);
    let work = Work { operation: Operation::Written, batches: written, batch: cache };
    let seen = start(options).run(Fabric::Tcp, 2, work)?;
    let homes = [written as f64, 0.0];
    let over: Vec<f64> = seen
        .iter()
        .zip(homes)
        .map(|(seen, home)| seen.answer / MIB - home - cache as f64)
        .collect();
    let most = over.iter().copied().fold(f64::MIN, f64::max);
    let note = format!(
        "peak resident sets of the two ranks {:.0} and {:.0} MiB, 1 GiB written and then read; \
         homes of 1024 and 0 MiB, caches of {cache} MiB",
        seen[0].answer / MIB,
        seen[1].answer / MIB
    );
    Ok(vec![("dsm.memory".into(), Figure::new(most, note))])
}

/// `dsm.job.oversubscribed.vs_openmpi`: barriers of two ranks a processor, unbound; the peer gives
/// its processor away while it waits, as it does where it knows of more ranks than processors.
///
/// # Errors
/// As [`in_memory`].
pub fn oversubscribed(options: &Options) -> Figures {
    let (mpi, start) = (Mpi::of_operations(&options.peers, &options.scratch)?, start(options));
    let runs = runs(options);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let ranks = 2 * cores as u16;
    let work = Work { operation: Operation::Barrier, batches: 20, batch: 200 };
    let ours = || start.run(Fabric::Shm, ranks, work).map(|seen| slowest(&seen));
    let theirs = || {
        let took = mpi.timed("barrier", ranks.into(), ("none", &IN_MEMORY), (20, 200));
        took.map(|took| took.median_ns)
    };
    let figure = ratio("barrier", runs, &in_turn(runs, ours, theirs)?);
    Ok(vec![("dsm.job.oversubscribed.vs_openmpi".into(), figure)])
}
