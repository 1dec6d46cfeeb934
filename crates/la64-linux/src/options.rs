//! How a program is run: the options of `la64 run`, defined once for the command line and for the
//! guest's own `execve`, which starts this command again with the same ones.
//!
//! Invariant: the command line that [`Options::arguments`] makes is read back as equal options.

use littoral_la64::interp::Tier;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

const SYSROOT: &str = "sysroot";
const STATS: &str = "stats";
const STRACE: &str = "strace";
const TRACE: &str = "trace";
const ARGV0: &str = "argv0";
const TIER: &str = "tier";

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
    /// What runs the program: 0 interprets, 1 translates blocks
    #[arg(long = TIER, value_name = "N", default_value_t = Tier::default().number())]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=1))]
    pub tier: u8,
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
            argv0: None,
        }
    }
}

impl Options {
    /// The options as a command line, up to and including the `--` before the program.
    pub fn arguments(&self) -> Vec<OsString> {
        let option = |name: &str, value: &OsStr| {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            word
        };
        let flags = [(self.stats, STATS), (self.strace, STRACE), (self.trace, TRACE)];
        let flags = flags.into_iter().filter(|f| f.0).map(|f| OsString::from(format!("--{}", f.1)));
        let sysroot = self.sysroot.iter().map(|root| option(SYSROOT, root.as_os_str()));
        let argv0 = self.argv0.iter().map(|name| option(ARGV0, name));
        let tier = (self.tier != Tier::default().number())
            .then(|| option(TIER, OsStr::new(&self.tier.to_string())));
        sysroot.chain(flags).chain(tier).chain(argv0).chain(["--".into()]).collect()
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
            argv0: Some("-sh".into()),
        };
        let some = Options { sysroot: None, argv0: Some("".into()), ..all.clone() };
        for options in [all, some, Options::default()] {
            let own = std::iter::once("la64".into());
            let program = ["--stats".into(), "x".into()];
            let line = own.chain(options.arguments()).chain(program.clone());
            let read = Line::parse_from(line);
            assert_eq!((read.options, read.program), (options, program.to_vec()));
        }
    }
}
