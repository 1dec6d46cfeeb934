//! What `littoral push` takes.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use littoral::base::units::{Bytes, PerSecond, Picos, Span};
use littoral::push::page::Format;
use littoral::push::policy::STEPS;

use super::choice::OneOf;
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
    Whatif(PushWhatifArgs),
    /// Offer a data set as a device of its own process, paced by a link and cores
    Serve(PushServeArgs),
}

/// How pages are made.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for pages")]
pub(crate) struct PagesArgs {
    /// How records lie in a page: columns, or rows of text
    #[arg(long, value_enum, value_name = "FORM", default_value = Format::Columns.name())]
    pub(crate) pages: OneOf<Format>,
    /// Bytes of a page: 4, 8, 16, 32 or 64 KiB
    #[arg(long, value_name = "SIZE", default_value = "16KiB")]
    pub(crate) page: Bytes,
}

#[derive(Debug, Args)]
pub(crate) struct PushGenArgs {
    /// The data set: a file, or a device as machine files spell it, such as unix:PATH; a data set
    /// that exists is replaced
    #[arg(value_name = "SET", required_unless_present = "machine", conflicts_with = "machine")]
    pub(crate) set: Option<String>,
    #[command(flatten)]
    pub(crate) on: MachineFileArgs,
    /// Scale factor, 0.0001 to 100: 1 is six million records
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

/// Where the data set of a study is.
#[derive(Debug, Args)]
pub(crate) struct GridSetArgs {
    /// The data set: a file, a device as machine files spell it, or a table (.csv, .tsv, .tbl) to
    /// take into memory first
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
    /// A query of TPC-H, on lineitem that `push gen` made or that was loaded from a .tbl
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

/// Who computes on a page, as `--policy` spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// This share of the pages on the device, in fortieths.
    Static(u32),
}

/// The words without a share.
const POLICIES: [(&str, PolicyWord); 5] = [
    ("late", PolicyWord::Late),
    ("host", PolicyWord::Host),
    ("device", PolicyWord::Device),
    ("filter", PolicyWord::Filter),
    ("dynamic", PolicyWord::Dynamic),
];

impl FromStr for PolicyWord {
    type Err = String;

    fn from_str(text: &str) -> Result<PolicyWord, String> {
        if let Some((_, word)) = POLICIES.iter().find(|(name, _)| *name == text) {
            return Ok(*word);
        }
        let share = text.strip_prefix("static:").and_then(|share| share.parse::<f64>().ok());
        match share.filter(|share| (0.0..=1.0).contains(share)) {
            Some(share) => Ok(PolicyWord::Static((share * f64::from(STEPS)).round() as u32)),
            None => {
                let names = POLICIES.map(|(name, _)| name).join(", ");
                Err(format!("use {names} or static:SHARE with a share from 0 to 1"))
            }
        }
    }
}

impl fmt::Display for PolicyWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let PolicyWord::Static(share) = self {
            return write!(f, "static:{}", f64::from(*share) / f64::from(STEPS));
        }
        let name = POLICIES.iter().find(|(_, word)| word == self).map(|(name, _)| *name);
        f.write_str(name.expect("invariant: every word without a share is listed"))
    }
}

/// Cores of a grid of devices, such as 1..16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoresSpan(pub(crate) u32, pub(crate) u32);

impl FromStr for CoresSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<CoresSpan, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let number = |word: &str| word.parse().ok().filter(|n| (1..=256).contains(n));
        match number(from).zip(number(to.trim_start_matches('='))) {
            Some((from, to)) if from <= to => Ok(CoresSpan(from, to)),
            Some(_) | None => Err("use numbers from 1 to 256, such as 2 or 1..16".to_owned()),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct PushRunArgs {
    #[command(flatten)]
    pub(crate) set: SetArgs,
    #[command(flatten)]
    pub(crate) scan: ScanArgs,
    /// Who computes on a page: late, host, device, filter, dynamic or static:SHARE
    #[arg(long, value_name = "P", default_value_t = PolicyWord::Late)]
    pub(crate) policy: PolicyWord,
    /// An ELF file whose function `page` the device runs on a page; it must compute what is asked
    #[arg(long, value_name = "FILE.elf")]
    pub(crate) function: Option<PathBuf>,
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
    pub(crate) set: GridSetArgs,
    #[command(flatten)]
    pub(crate) scan: ScanArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PushWhatifArgs {
    #[command(flatten)]
    pub(crate) scan: PushGridArgs,
    /// Links of the grid in bytes per second, such as 1G..16G, each twice the one before; without
    /// it the profile's internal bandwidth and its half, quarter and eighth
    #[arg(long, value_name = "A..B")]
    pub(crate) link: Option<Span<PerSecond>>,
    /// Numbers of cores of the grid, such as 1..16, each twice the one before; without it the
    /// profile's cores at 1 to 16 times their speed
    #[arg(long, value_name = "A..B")]
    pub(crate) cores: Option<CoresSpan>,
}

#[derive(Debug, Args)]
pub(crate) struct PushServeArgs {
    /// The data set's file; it is taken into memory
    #[arg(value_name = "SET", required_unless_present = "machine", conflicts_with = "machine")]
    pub(crate) set: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) on: MachineFileArgs,
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
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) mhz: u64,
    /// Who computes on a page: late, host, device, filter, dynamic or static:SHARE
    #[arg(long, value_name = "P", default_value_t = PolicyWord::Late)]
    pub(crate) policy: PolicyWord,
    /// Most memory for the pages of a data set that a host stores in place of SET
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    pub(crate) store_max: Bytes,
    /// Silence after which a host is forgotten
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) lease: Picos,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_spelled_as_they_are_shown() {
        for (text, shown) in
            [("late", "late"), ("static:0.4", "static:0.4"), ("static:1", "static:1")]
                .into_iter()
                .chain([("dynamic", "dynamic"), ("static:0.01", "static:0"), ("filter", "filter")])
        {
            assert_eq!(text.parse::<PolicyWord>().unwrap().to_string(), shown);
        }
        for text in ["", "static", "static:", "static:1.5", "static:-1", "static:nan", "Late"] {
            assert!(text.parse::<PolicyWord>().is_err(), "{text}");
        }
    }

    #[test]
    fn spans_of_cores_are_one_number_or_two() {
        assert_eq!("3".parse(), Ok(CoresSpan(3, 3)));
        assert_eq!("1..16".parse(), Ok(CoresSpan(1, 16)));
        for text in ["", "0", "4..2", "1..", "1..257", "a..b"] {
            assert!(text.parse::<CoresSpan>().is_err(), "{text}");
        }
    }
}
