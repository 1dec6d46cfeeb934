//! What `littoral push` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use littoral::base::units::{Bytes, PerSecond, Picos};

use super::{MachineFileArgs, OutputArgs, ShownArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum PushCommand {
    /// Make TPC-H's table lineitem as a data set
    Gen(PushGenArgs),
    /// Make a data set of a table in CSV, or of lineitem in dbgen's form
    Load(PushLoadArgs),
    /// Filter a data set and sum or return what passes, near storage where that is sooner
    Run(PushRunArgs),
    /// Time a scan under every policy on a modelled device, in virtual time
    Sweep(PushGridArgs),
    /// Time a scan on modelled devices with other links and cores, in virtual time
    Whatif(PushGridArgs),
    /// Offer a data set as a device of its own process, paced by a link and cores
    Serve(PushServeArgs),
}

/// How pages are made.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for pages")]
pub(crate) struct PagesArgs {
    /// How records lie in a page: columns, or rows of text
    #[arg(long, value_enum, default_value_t = PagesWord::Columns)]
    pub(crate) pages: PagesWord,
    /// Bytes of a page: 4, 8, 16, 32 or 64 KiB
    #[arg(long, value_name = "SIZE", default_value = "16KiB")]
    pub(crate) page: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PagesWord {
    /// One array per column.
    Columns,
    /// Rows of text.
    Text,
}

#[derive(Debug, Args)]
pub(crate) struct PushGenArgs {
    /// The data set's file; one that exists is replaced
    #[arg(value_name = "SET")]
    pub(crate) set: PathBuf,
    /// Scale factor: 1 is six million records
    #[arg(long, value_name = "SF", default_value_t = 0.1)]
    pub(crate) scale: f64,
    #[command(flatten)]
    pub(crate) making: PagesArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PushLoadArgs {
    /// A table whose first line names its columns; .tbl is lineitem as dbgen writes it
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// The data set: a file, or a device as machine files spell it, such as unix:PATH
    #[arg(value_name = "SET", required_unless_present = "machine", conflicts_with = "machine")]
    pub(crate) set: Option<String>,
    #[command(flatten)]
    pub(crate) on: MachineFileArgs,
    #[command(flatten)]
    pub(crate) making: PagesArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

/// Where the data set is.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The data set: a file, or a device as machine files spell it, such as unix:PATH
    #[arg(value_name = "SET", required_unless_present = "machine", conflicts_with = "machine")]
    pub(crate) set: Option<String>,
    #[command(flatten)]
    pub(crate) on: MachineFileArgs,
    /// What the device is modelled by: a shipped profile's name or a file
    #[arg(long, value_name = "P", conflicts_with = "machine")]
    pub(crate) profile: Option<String>,
}

/// What is asked of the records.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for the question")]
pub(crate) struct ScanArgs {
    /// Which records count, such as "price > 10 and region = 'north'"
    #[arg(long = "where", value_name = "TEST", conflicts_with = "query")]
    pub(crate) filter: Option<String>,
    /// Sum this expression, such as "price * qty"; may be repeated
    #[arg(long, value_name = "EXPR", conflicts_with = "query")]
    pub(crate) sum: Vec<String>,
    /// Make groups by these columns
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', conflicts_with = "query")]
    pub(crate) by: Vec<String>,
    /// Return these columns of the records that pass
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["query", "sum", "by"])]
    pub(crate) columns: Vec<String>,
    /// A query of TPC-H, on a data set that `push gen` made
    #[arg(long, value_enum, value_name = "Q")]
    pub(crate) query: Option<QueryWord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueryWord {
    /// Sums per return flag and line status of what was shipped up to a day.
    Q1,
    /// Revenue of a year's small orders with a discount.
    Q6,
    /// Revenue of a month, of promoted parts and of all.
    Q14,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyWord {
    /// Late binding: a page is given to whichever of link and core is free and gains most.
    Late,
    /// Every page to the host.
    Host,
    /// Every page on the device.
    Device,
    /// Every page filtered on the device, the rest on the host.
    Filter,
    /// The paper's dynamic mode with a task queue of four.
    Dynamic,
}

#[derive(Debug, Args)]
pub(crate) struct PushRunArgs {
    #[command(flatten)]
    pub(crate) set: SetArgs,
    #[command(flatten)]
    pub(crate) scan: ScanArgs,
    /// Who computes on a page
    #[arg(long, value_enum, default_value_t = PolicyWord::Late)]
    pub(crate) policy: PolicyWord,
    /// Pages under way at a time
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) depth: u16,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PushGridArgs {
    #[command(flatten)]
    pub(crate) set: SetArgs,
    #[command(flatten)]
    pub(crate) scan: ScanArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PushServeArgs {
    /// The data set's file; it is taken into memory
    #[arg(value_name = "SET")]
    pub(crate) set: PathBuf,
    /// The socket to listen at
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// Bytes per second from device to host
    #[arg(long, value_name = "RATE", default_value = "300M")]
    pub(crate) link: PerSecond,
    /// Cores that run page functions
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) cores: u32,
    /// Clock of a core, one instruction per cycle
    #[arg(long, value_name = "MHZ", default_value_t = 400)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) mhz: u64,
    /// Who computes on a page
    #[arg(long, value_enum, default_value_t = PolicyWord::Late)]
    pub(crate) policy: PolicyWord,
    /// Silence after which a host is forgotten
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) lease: Picos,
}
