//! What `littoral repro` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ReproZbtreeArgs, ShownArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum ReproCommand {
    /// Microsecond flash for small random reads (paper 003)
    Flash(ReproArgs),
    /// The ZB+-tree on zoned flash (paper 000)
    Zbtree(ReproZbtreeArgs),
    /// Durable transactions on persistent memory (paper 004)
    Sdtm(ReproArgs),
    /// Shared memory coherent by locks and its lock manager (paper 002)
    Jiajia(ReproArgs),
    /// LoongArch: instruction set, interpreter, Linux programs (paper 000's tables)
    Loongarch(ReproArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ReproArgs {
    /// Fewer repetitions, the same sizes
    #[arg(long)]
    pub(crate) quick: bool,
    /// A folder with peers: the GAP suite under gapbs/, fio (both are also looked for in PATH)
    #[arg(long, value_name = "DIR")]
    pub(crate) peers: Option<PathBuf>,
    /// Also write the results here, for `littoral report`
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Go on with an interrupted run: keep the claims of the file of --json, or of its .part
    #[arg(long)]
    pub(crate) resume: bool,
    /// Only claims whose id begins with this, such as flash.ring
    #[arg(long, value_name = "PREFIX")]
    pub(crate) only: Option<String>,
    /// Where graphs and files that are measured on are put; needs about 10 GiB
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// End with code 1 when a claim is short
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}
