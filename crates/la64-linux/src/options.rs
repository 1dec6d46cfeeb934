//! How a program is run: the options of `la64 run`, defined once for the command line and for the
//! guest's own `execve`, which starts this command again with the same ones.
//!
//! Invariant: the command line that [`Options::arguments`] makes is read back as equal options,
//! without what concerns the first program alone: changes of the environment, which a guest's
//! `execve` gives whole. Checked by `options_written_as_arguments_read_back_equal`.

use crate::limits::Limit;
use littoral_base::units::Bytes;
use littoral_la64::interp::{Limits, Tier};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

const SYSROOT: &str = "sysroot";
const STATS: &str = "stats";
const STRACE: &str = "strace";
const TRACE: &str = "trace";
const ARGV0: &str = "argv0";
const TIER: &str = "tier";
const LOOK: &str = "look";
/// Instructions before the first look.
pub(crate) const LOOK_DEFAULT: u64 = 1 << 23;
const STACK: &str = "stack";
const LIMIT: &str = "limit";
const PROFILE: &str = "profile";
const PERF_MAP: &str = "perf-map";
const GDB: &str = "gdb";
const SEPARATE: &str = "wx";
const UNCOUNTED: &str = "no-count";
const DUMP: &str = "dump";
const CODE_LEN: &str = "code-size";
const CACHE: &str = "cache";
const MEMORY: &str = "memory";
const NO_LBT: &str = "no-lbt";
const WEAK: &str = "weak";
/// Most memory for translated code unless another length is asked for.
pub const CODE_LEN_DEFAULT: u64 = 64 << 20;
/// The first stack's length unless another is asked for.
pub const STACK_LEN_DEFAULT: u64 = 8 << 20;
/// The shortest stack: what a program needs to get its arguments.
const STACK_LEN_MIN: u64 = 64 << 10;
/// The longest stack.
const STACK_LEN_MAX: u64 = 1 << 40;
const PAGE: u64 = 4096;

/// The order of accesses that threads of x86-64 programs see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Memory {
    /// As x86-64 promises (total store order): barriers from the second thread on.
    #[default]
    Tso,
    /// As LoongArch has it: no barriers.
    Weak,
}

/// The folder that keeps translated code between processes, if one does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheFolder(pub Option<PathBuf>);

/// How to run a program.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Options {
    /// Look absolute paths up here first
    #[arg(short = 'L', long = SYSROOT, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Report retired instructions at exit
    #[arg(long = STATS)]
    pub stats: bool,
    /// Name each system call on standard error
    #[arg(long = STRACE)]
    pub strace: bool,
    /// Name each instruction on standard error
    #[arg(long = TRACE)]
    pub trace: bool,
    /// What runs the program: 0 interprets, 1 translates blocks, 2 translates the loops that it is
    /// in most as regions besides
    #[arg(long = TIER, value_name = "N", default_value_t = Tier::default().number())]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=2))]
    pub tier: u8,
    /// Instructions of a thread before tier 2 looks which loop it is in; with another number than
    /// the default, it translates that loop at once and not on a thread of its own
    #[arg(long = LOOK, value_name = "N", default_value_t = LOOK_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub look: u64,
    /// Set a variable of the program's environment (may be repeated)
    #[arg(short = 'E', long = "env", value_name = "VAR=VALUE", value_parser = setting)]
    pub set: Vec<OsString>,
    /// Remove a variable from the program's environment (may be repeated; before any is set)
    #[arg(short = 'U', long = "unset", value_name = "VAR")]
    pub unset: Vec<OsString>,
    /// Length of the first stack, 64KiB to 1TiB
    #[arg(short = 's', long = STACK, value_name = "SIZE", value_parser = stack_len)]
    #[arg(default_value = "8MiB")]
    pub stack_len: u64,
    /// Limit the program and not this command (may be repeated): NAME is as, data or stack, SOFT
    /// and HARD are bytes or unlimited, one value stands for both; a limit of the stack is the
    /// first stack's length
    #[arg(long = LIMIT, value_name = "NAME=SOFT:HARD")]
    pub limits: Vec<Limit>,
    /// Count where the program spends its instructions and show the hottest functions at exit;
    /// with a FILE as JSON there, in whose name %p stands for the process
    #[arg(long = PROFILE, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub profile: Option<Option<PathBuf>>,
    /// Write /tmp/perf-PID.map, by which perf names translated blocks
    #[arg(long = PERF_MAP)]
    pub perf_map: bool,
    /// Append each translated block to FILE: guest instructions beside the code they became
    #[arg(long = DUMP, value_name = "FILE")]
    pub dump: Option<PathBuf>,
    /// Wait for a debugger on this port of this machine (0: any that is free) before the program
    /// starts
    #[arg(long = GDB, value_name = "PORT")]
    pub gdb: Option<u16>,
    /// Never have memory writable and executable: translated code is written through a mapping of
    /// its own
    #[arg(long = SEPARATE)]
    pub separate: bool,
    /// Memory for translated code, 256KiB to 1GiB; when it is full, all code is dropped
    #[arg(long = CODE_LEN, value_name = "SIZE", value_parser = code_len)]
    #[arg(default_value = "64MiB")]
    pub code_len: u64,
    /// Keep translated code of LoongArch programs in DIR, where later processes find it; off keeps
    /// none
    #[arg(long = CACHE, value_name = "DIR|off", value_parser = cache_folder)]
    #[arg(default_value = "off")]
    pub cache: CacheFolder,
    /// Do not count instructions in translated code, to measure what counting costs: signals do not
    /// end a loop then
    #[arg(long = UNCOUNTED)]
    pub uncounted: bool,
    /// Order of accesses that threads of x86-64 programs see: tso has barriers from the second
    /// thread on, weak has none
    #[arg(long = MEMORY, value_name = "ORDER", default_value = "tso")]
    pub memory: Memory,
    /// A machine without the binary translation assists (LBT): x86-64 programs compute their flags
    /// by plain instructions, MIPS64 programs are refused
    #[arg(long = NO_LBT)]
    pub no_lbt: bool,
    /// Interpret, with loads and stores in an order that LoongArch allows, which SEED decides
    #[arg(long = WEAK, value_name = "SEED")]
    pub weak: Option<u64>,
    /// The program's own name for itself
    #[arg(long = ARGV0, value_name = "NAME")]
    pub argv0: Option<OsString>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sysroot: None,
            stats: false,
            strace: false,
            trace: false,
            tier: Tier::default().number(),
            look: LOOK_DEFAULT,
            set: Vec::new(),
            unset: Vec::new(),
            stack_len: STACK_LEN_DEFAULT,
            limits: Vec::new(),
            profile: None,
            perf_map: false,
            dump: None,
            gdb: None,
            separate: false,
            code_len: CODE_LEN_DEFAULT,
            cache: CacheFolder::default(),
            uncounted: false,
            memory: Memory::Tso,
            no_lbt: false,
            weak: None,
            argv0: None,
        }
    }
}

/// `VAR=VALUE` with a name.
fn setting(text: &str) -> Result<OsString, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.into()),
        _ => Err("not VAR=VALUE; -U removes a variable".into()),
    }
}

/// A length that a stack may have, in whole pages.
fn stack_len(text: &str) -> Result<u64, String> {
    let len = text.parse::<Bytes>().map_err(|e| e.to_string())?.0;
    if !(STACK_LEN_MIN..=STACK_LEN_MAX).contains(&len) {
        return Err("a stack has 64KiB to 1TiB".into());
    }
    Ok(len.next_multiple_of(PAGE))
}

/// A folder by a path that stays its own when the program changes its working directory, or `off`.
fn cache_folder(text: &str) -> Result<CacheFolder, String> {
    match text {
        "off" => Ok(CacheFolder(None)),
        "" => Err("a folder, or off".into()),
        _ => std::path::absolute(text).map(|p| CacheFolder(Some(p))).map_err(|e| e.to_string()),
    }
}

/// A length that translated code may have, in whole pages.
fn code_len(text: &str) -> Result<u64, String> {
    let len = text.parse::<Bytes>().map_err(|e| e.to_string())?.0;
    if !(Limits::CODE_LEN_MIN..=Limits::CODE_LEN_MAX).contains(&len) {
        return Err("translated code has 256KiB to 1GiB".into());
    }
    Ok(len.next_multiple_of(PAGE))
}

impl Options {
    /// The options as a command line, up to and including the `--` before the program.
    pub fn arguments(&self) -> Vec<OsString> {
        let option = |name: &str, value: &OsStr| {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            word
        };
        let flags = [
            (self.stats, STATS),
            (self.strace, STRACE),
            (self.trace, TRACE),
            (self.perf_map, PERF_MAP),
            (self.separate, SEPARATE),
            (self.uncounted, UNCOUNTED),
            (self.no_lbt, NO_LBT),
            (self.profile == Some(None), PROFILE),
        ];
        let flags = flags.into_iter().filter(|f| f.0).map(|f| OsString::from(format!("--{}", f.1)));
        let sysroot = self.sysroot.iter().map(|root| option(SYSROOT, root.as_os_str()));
        let argv0 = self.argv0.iter().map(|name| option(ARGV0, name));
        let tier = (self.tier != Tier::default().number())
            .then(|| option(TIER, OsStr::new(&self.tier.to_string())));
        let look =
            (self.look != LOOK_DEFAULT).then(|| option(LOOK, OsStr::new(&self.look.to_string())));
        let stack = (self.stack_len != STACK_LEN_DEFAULT)
            .then(|| option(STACK, OsStr::new(&self.stack_len.to_string())));
        let limits = self.limits.iter().map(|limit| option(LIMIT, OsStr::new(&limit.to_string())));
        let profile = self.profile.iter().flatten().map(|file| option(PROFILE, file.as_os_str()));
        let dump = self.dump.iter().map(|file| option(DUMP, file.as_os_str()));
        let gdb = self.gdb.map(|port| option(GDB, OsStr::new(&port.to_string())));
        let code = (self.code_len != CODE_LEN_DEFAULT)
            .then(|| option(CODE_LEN, OsStr::new(&self.code_len.to_string())));
        let cache = self.cache.0.iter().map(|folder| option(CACHE, folder.as_os_str()));
        let memory = (self.memory == Memory::Weak).then(|| option(MEMORY, OsStr::new("weak")));
        let weak = self.weak.map(|seed| option(WEAK, OsStr::new(&seed.to_string())));
        let valued = tier
            .into_iter()
            .chain(look)
            .chain(weak)
            .chain(memory)
            .chain(stack)
            .chain(limits)
            .chain(profile)
            .chain(dump)
            .chain(code)
            .chain(cache)
            .chain(gdb);
        sysroot.chain(flags).chain(valued).chain(argv0).chain(["--".into()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<OsString>,
    }

    #[test]
    fn options_written_as_arguments_read_back_equal() {
        let all = Options {
            sysroot: Some("/a root".into()),
            stats: true,
            strace: true,
            trace: true,
            tier: 0,
            look: 5,
            set: Vec::new(),
            unset: Vec::new(),
            stack_len: 1 << 20,
            limits: ["as=4096:unlimited", "stack=1"]
                .map(|text| text.parse::<Limit>().unwrap())
                .to_vec(),
            profile: Some(Some("a file".into())),
            perf_map: true,
            dump: Some("another file".into()),
            gdb: Some(1234),
            separate: true,
            code_len: 1 << 20,
            cache: CacheFolder(Some("/a cache".into())),
            uncounted: true,
            memory: Memory::Weak,
            no_lbt: true,
            weak: Some(u64::MAX),
            argv0: Some("-sh".into()),
        };
        let some =
            Options { sysroot: None, profile: Some(None), argv0: Some("".into()), ..all.clone() };
        for options in [all, some, Options::default()] {
            let own = std::iter::once("la64".into());
            let program = ["--stats".into(), "x".into()];
            let line = own.chain(options.arguments()).chain(program.clone());
            let read = Line::parse_from(line);
            assert_eq!((read.options, read.program), (options, program.to_vec()));
        }
    }

    #[test]
    fn the_environment_is_changed_for_the_first_program_alone() {
        let words = ["la64", "-E", "A=1", "-U", "B", "-E", "C=a=b", "-s", "100000", "x"];
        let read = Line::try_parse_from(words).unwrap();
        assert_eq!(read.options.set, ["A=1", "C=a=b"]);
        assert_eq!((read.options.unset.len(), read.options.stack_len), (1, 102_400));
        assert_eq!(read.options.arguments(), ["--stack=102400", "--"]);
    }

    #[test]
    fn what_is_no_setting_and_no_stack_is_refused() {
        for bad in [["-E", "A"], ["-E", "=1"], ["-s", "63KiB"], ["-s", "2TiB"], ["-s", "x"]] {
            let words = ["la64"].into_iter().chain(bad).chain(["x"]);
            assert!(Line::try_parse_from(words).is_err(), "{bad:?}");
        }
    }
}
