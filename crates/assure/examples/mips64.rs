//! Random MIPS64 programs on the translator and on the exact interpreter, in numbers:
//!
//! ```text
//! cargo run --release -p littoral-assure --example mips64 -- 1000000 [SEED]
//! ```
//!
//! The claim `latm.fuzz.unexplained` of `littoral repro latm` is the number of programs that end
//! differently; this program takes another seed.

use littoral_assure::xlate::mips64::judge;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u64>());
    let programs = arguments.next().and_then(Result::ok).unwrap_or(10_000);
    let seed = arguments.next().and_then(Result::ok).unwrap_or(20_211_231);
    let verdict = judge(seed, programs);
    let line = format!(
        "latm.fuzz.unexplained = {} of {} programs ({} instructions, seed {seed}); {} set aside\n{}",
        verdict.different,
        verdict.programs_count,
        verdict.instructions_count,
        verdict.set_aside,
        verdict.first.unwrap_or_default()
    );
    let written = std::io::stdout().write_all(line.as_bytes());
    if written.is_ok() && verdict.different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
