//! What is logged, and where: decisions and long steps, never results.
//!
//! - Without options warnings go to standard error. `-v` adds what was opened and chosen, `-vv`
//!   each recovery, collection and fallback, `-vvv` everything; `-q` leaves errors alone.
//! - `--log LEVEL` sets the level, `--log FILE` appends to a file (level `debug` unless `-v` or
//!   `-q` says otherwise). A file that cannot be opened ends the command before it does anything.
//! - A line is the seconds since the start, the level, the module and the message.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::str::FromStr as _;
use std::time::Instant;

use env_logger::{Builder, Target, WriteStyle};
use littoral::base::error::Class;
use log::LevelFilter;

use crate::args::{Color, GlobalArgs};
use crate::failure::{Failure, Outcome};

/// Starts logging as the options say.
pub(crate) fn install(args: &GlobalArgs) -> Outcome {
    let begun = Instant::now();
    let named = args.log.as_deref().and_then(|log| LevelFilter::from_str(log).ok());
    let file = args.log.as_deref().filter(|_| named.is_none());
    let mut builder = Builder::new();
    builder.filter_level(LevelFilter::Off).filter_module("littoral", level(args, named, file));
    builder.format(move |out, record| {
        let (seconds, level) = (begun.elapsed().as_secs_f64(), record.level());
        let style = out.default_level_style(level);
        writeln!(
            out,
            "{seconds:9.3}s {style}{level:5}{style:#} {}: {}",
            record.target(),
            record.args()
        )
    });
    builder.write_style(style(args.color));
    if let Some(path) = file {
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let opened = opened.map_err(|e| {
            Failure::new(Class::Environment, format!("cannot append to the log {path}: {e}"))
        })?;
        builder.target(Target::Pipe(Box::new(opened))).write_style(WriteStyle::Never);
    }
    // Another logger cannot be there: this is the process's first and only call.
    let _ = builder.try_init();
    Ok(())
}

fn level(args: &GlobalArgs, named: Option<LevelFilter>, file: Option<&str>) -> LevelFilter {
    match (named, args.verbose, args.quiet) {
        (Some(level), _, _) => level,
        (None, _, true) => LevelFilter::Error,
        (None, 0, false) if file.is_some() => LevelFilter::Debug,
        (None, 0, false) => LevelFilter::Warn,
        (None, 1, false) => LevelFilter::Info,
        (None, 2, false) => LevelFilter::Debug,
        (None, _, false) => LevelFilter::Trace,
    }
}

fn style(color: Color) -> WriteStyle {
    match color {
        Color::Auto if std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()) => {
            WriteStyle::Never
        }
        Color::Auto => WriteStyle::Auto,
        Color::Always => WriteStyle::Always,
        Color::Never => WriteStyle::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser as _;

    #[test]
    fn options_decide_the_level() {
        for (line, wanted) in [
            ("littoral machine", LevelFilter::Warn),
            ("littoral machine -v", LevelFilter::Info),
            ("littoral -vv machine", LevelFilter::Debug),
            ("littoral machine -vvv", LevelFilter::Trace),
            ("littoral machine -q", LevelFilter::Error),
            ("littoral machine --log trace", LevelFilter::Trace),
            ("littoral machine --log run.log", LevelFilter::Debug),
            ("littoral machine --log run.log -v", LevelFilter::Info),
        ] {
            let args = Cli::try_parse_from(line.split(' ')).unwrap().global;
            let log = args.log.as_deref();
            let named = log.and_then(|l| LevelFilter::from_str(l).ok());
            assert_eq!(level(&args, named, log.filter(|_| named.is_none())), wanted, "{line}");
        }
    }
}
