//! What `kv`, `machine zones`, `bench kv` and `repro zbtree` take.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use littoral::base::units::{Bytes, PerSecond};
use littoral::index::index::Engine;
use littoral_bench::ycsb::Distribution;

use super::choice::OneOf;
use super::{OnArgs, ShownArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum KvCommand {
    /// Make a store for a directory
    Create(KvCreateArgs),
    /// Put lines of key, tab, value into a store
    Load(KvLoadArgs),
    /// Put one record; durable when the command ends
    Put(KvPutArgs),
    /// Print a key's value; code 1 when there is none
    Get(KvGetArgs),
    /// Delete a key; code 1 when there is none
    Del(KvKeyArgs),
    /// Print the records from FROM on, up to and without TO
    Scan(KvScanArgs),
    /// Print every record, as `kv load` takes them
    Dump(KvAtArgs),
    /// Say what a store holds
    Stats(KvAtArgs),
    /// Walk every invariant of a store, changing nothing
    Check(KvAtArgs),
    /// Write what can be read of a damaged store into a new one; code 1 when records are missing
    Repair(KvRepairArgs),
    /// Write every record of a store into one file
    Backup(KvBackupArgs),
    /// Make a store from a backup
    Restore(KvRestoreArgs),
}

#[derive(Debug, Args)]
pub(crate) struct KvCreateArgs {
    /// The store's directory, made if absent
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The tree: zb (the ZB+-tree; needs conventional zones) or cow (copy-on-write)
    #[arg(long, value_name = "zb|cow", value_enum, default_value_t = OneOf(Engine::Zb))]
    pub(crate) engine: OneOf<Engine>,
    /// Bytes of a key; shorter ones are padded with zeros
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) key_size: usize,
    /// Bytes of a value; shorter ones are padded with zeros
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) value_size: usize,
    #[command(flatten)]
    pub(crate) on: OnArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

/// How a store is opened.
#[derive(Debug, Args)]
pub(crate) struct KvOpenArgs {
    /// Wait while another process has the store, instead of ending with code 3
    #[arg(long)]
    pub(crate) wait: bool,
    /// Memory for pages of the store
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub(crate) cache: Bytes,
    #[command(flatten)]
    pub(crate) on: OnArgs,
}

#[derive(Debug, Args)]
pub(crate) struct KvRepairArgs {
    /// The damaged store's directory; nothing in it is changed
    #[arg(value_name = "SRC")]
    pub(crate) src: PathBuf,
    /// The new store's directory, made if absent
    #[arg(value_name = "DST")]
    pub(crate) dst: PathBuf,
    #[command(flatten)]
    pub(crate) on: OnArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct KvBackupArgs {
    /// The store's directory
    #[arg(value_name = "SRC")]
    pub(crate) src: PathBuf,
    /// The file to write; one that exists is refused
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) opened: KvOpenArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct KvRestoreArgs {
    /// The backup
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The new store's directory, made if absent
    #[arg(value_name = "DST")]
    pub(crate) dst: PathBuf,
    #[command(flatten)]
    pub(crate) on: OnArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct KvLoadArgs {
    /// The store's directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Lines of key, tab, value; `-` reads standard input
    #[arg(value_name = "FILE.tsv")]
    pub(crate) input: PathBuf,
    /// Append each key here once it is durable
    #[arg(long, value_name = "ACKFILE")]
    pub(crate) ack: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
    #[command(flatten)]
    pub(crate) opened: KvOpenArgs,
}

#[derive(Debug, Args)]
pub(crate) struct KvPutArgs {
    /// The store's directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The key
    #[arg(value_name = "K")]
    pub(crate) key: String,
    /// The value
    #[arg(value_name = "V")]
    pub(crate) value: String,
    #[command(flatten)]
    pub(crate) opened: KvOpenArgs,
}

#[derive(Debug, Args)]
pub(crate) struct KvGetArgs {
    #[command(flatten)]
    pub(crate) key: KvKeyArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct KvKeyArgs {
    /// The store's directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The key
    #[arg(value_name = "K")]
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) opened: KvOpenArgs,
}

#[derive(Debug, Args)]
pub(crate) struct KvScanArgs {
    /// The store's directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The first key
    #[arg(value_name = "FROM")]
    pub(crate) from: Option<String>,
    /// The key to stop before
    #[arg(value_name = "TO")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
    #[command(flatten)]
    pub(crate) opened: KvOpenArgs,
}

#[derive(Debug, Args)]
pub(crate) struct KvAtArgs {
    /// The store's directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
    #[command(flatten)]
    pub(crate) opened: KvOpenArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ZonesArgs {
    /// One device of the machine; without it every zoned one
    #[arg(value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// A machine file; without it machine.toml of this folder, or everything emulated
    #[arg(long, value_name = "FILE", visible_alias = "machine")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BenchKvArgs {
    /// The tree: zb or cow
    #[arg(long, value_name = "zb|cow", value_enum, default_value_t = OneOf(Engine::Zb))]
    pub(crate) engine: OneOf<Engine>,
    /// Paper 000's mix of inserts, deletes and searches: 1 is 40/30/30, 2 is 10/10/80, 3 is
    /// 25/25/50, 4 is 50/50/0, 5 is 0/0/100
    #[arg(long, value_name = "1..5", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) workload: u8,
    /// Which records are asked for
    #[arg(long, value_name = "D", value_enum)]
    #[arg(default_value_t = OneOf(Distribution::Zipfian))]
    pub(crate) distribution: OneOf<Distribution>,
    /// Records loaded first
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) records: u64,
    /// Operations measured
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) operations: u64,
    /// Operations that are meant to start in a second
    #[arg(long, value_name = "R", default_value = "1k")]
    pub(crate) rate: PerSecond,
    /// Make changes durable every N operations
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) batch: u64,
    #[command(flatten)]
    pub(crate) on: OnArgs,
    /// Measure a sparse file in this folder, by the wall clock; the file is removed
    #[arg(long, value_name = "DIR", conflicts_with_all = ["machine", "medium", "profile"])]
    pub(crate) dir: Option<PathBuf>,
    /// The requests are a function of this
    #[arg(long, value_name = "N", default_value_t = 20_230_303)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}
