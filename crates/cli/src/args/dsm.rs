//! What `littoral dsm` takes.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use littoral::base::units::{Bytes, Picos};
use littoral::dsm::memory::Mechanism;
use littoral::dsm::virtual_time::Compute;
use littoral::machine::fabric::Word;
use littoral_papers::jiajia::choice::What;
use littoral_papers::jiajia::programs::{PROGRAMS, Program};

use super::choice::OneOf;
use super::{MachineFileArgs, ShownArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum DsmCommand {
    /// Start a program as the ranks of one job and wait for its end
    Run(DsmRunArgs),
    /// Measure locks, barriers and the paper's two codes on a fabric
    Bench(DsmBenchArgs),
    /// Say where the time of the paper's programs goes on an interconnect, in virtual time
    Model(DsmModelArgs),
}

/// The operations that can be measured, by the names the library gives them.
fn operation() -> impl TypedValueParser<Value = What> {
    let found = |name: String| What::ALL.into_iter().find(|(n, _)| *n == name);
    PossibleValuesParser::new(What::ALL.map(|(name, _)| name))
        .map(move |name| found(name).expect("invariant: the parser knows these names alone").1)
}

/// The paper's programs.
fn program() -> impl TypedValueParser<Value = Program> {
    PossibleValuesParser::new(PROGRAMS.iter().map(|p| p.name))
        .map(|name| Program::named(&name).expect("invariant: the parser knows these names alone"))
}

#[derive(Debug, Args)]
pub(crate) struct DsmBenchArgs {
    /// What is measured; all of them unless some are named
    #[arg(value_name = "WHAT", value_parser = operation())]
    pub(crate) what: Vec<What>,
    #[command(flatten)]
    pub(crate) on: MachineFileArgs,
    /// What carries the operations: shm, which it is otherwise, pool, tcp, or sim, which is virtual
    /// time
    #[arg(long, value_name = "FABRIC", conflicts_with = "machine")]
    pub(crate) fabric: Option<Word>,
    /// Ranks; with a machine file as many as its fabric has nodes, unless this says fewer; 2
    /// otherwise
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(crate) ranks: Option<u16>,
    /// With sim: the interconnect's profile; loongson-2e:manager otherwise
    #[arg(long, value_name = "PROFILE", conflicts_with = "machine")]
    pub(crate) profile: Option<String>,
    /// Fewer repetitions
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DsmModelArgs {
    /// Programs; all six unless some are named
    #[arg(value_name = "PROGRAM", value_parser = program())]
    pub(crate) programs: Vec<Program>,
    /// Interconnects' profiles, commas between
    #[arg(
        long,
        value_name = "PROFILES",
        value_delimiter = ',',
        default_value = "loongson-2e:cluster,loongson-2e:remote,loongson-2e:manager"
    )]
    pub(crate) profile: Vec<String>,
    /// Numbers of ranks, commas between
    #[arg(short = 'n', long, value_name = "N", value_delimiter = ',', default_value = "4", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) ranks: Vec<u16>,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DsmRunArgs {
    /// The program
    #[arg(value_name = "PROG")]
    pub(crate) program: std::ffi::OsString,
    /// Its arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<std::ffi::OsString>,
    /// Ranks; with a machine file as many as its fabric has nodes, unless this says fewer
    #[arg(short = 'n', long, value_name = "N", required_unless_present = "machine")]
    pub(crate) ranks: Option<u16>,
    #[command(flatten)]
    pub(crate) on: MachineFileArgs,
    /// Without a machine file, what carries the job: shm, shm-pages, pool, pool-pages, tcp, or sim,
    /// which is virtual time; shm unless other options ask for another
    #[arg(long, value_name = "FABRIC", conflicts_with = "machine")]
    pub(crate) fabric: Option<Word>,
    /// The interconnect of sim, which this asks for: a shipped profile's name or a file, and its
    /// configuration; loongson-2e:manager unless given
    #[arg(long, value_name = "PROFILE", conflicts_with = "machine")]
    pub(crate) profile: Option<String>,
    /// With sim alone: what computing takes, by the operations the program declares, which is the
    /// default, or by processor time
    #[arg(long, value_name = "BY", value_enum)]
    pub(crate) compute: Option<OneOf<Compute>>,
    /// With sim alone: where each rank's time went, as JSON in a new file, once the job succeeded
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// A line per rank: ADDRESS:PORT, and the command that starts a program there
    #[arg(long, value_name = "FILE")]
    pub(crate) hosts: Option<PathBuf>,
    /// Where the pool is: a new file, or a DAX device; memory without a name otherwise
    #[arg(long, value_name = "FILE", conflicts_with = "machine")]
    pub(crate) pool: Option<PathBuf>,
    /// Most bytes the job can share
    #[arg(long, value_name = "SIZE", default_value = "64GiB")]
    pub(crate) bytes: Bytes,
    /// Most bytes that a rank's copies of other ranks' pages take, but for those under guards; 4MiB
    /// or more
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub(crate) cache: Bytes,
    /// Where shared memory lies on every rank, in hexadecimal; another address helps where a rank
    /// has something else there
    #[arg(long, value_name = "ADDRESS", default_value = "0x400000000000")]
    pub(crate) address: String,
    /// Begin each line that a rank prints with its number
    #[arg(long)]
    pub(crate) label: bool,
    /// How long a rank of another machine may be silent before it is declared dead; a stopped rank
    /// of this machine is waited for, and named after this time
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub(crate) silence: Picos,
    /// How raw accesses are noticed; the better one that works here otherwise
    #[arg(long, value_name = "HOW", value_enum)]
    pub(crate) faults: Option<OneOf<Mechanism>>,
}
