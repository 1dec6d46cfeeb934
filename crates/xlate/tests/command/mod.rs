//! The command under test.

use std::process::Command;

/// The command `xlate`, or what the variable names instead: words that run a build for another
/// processor, as `scripts/loongarch-host.sh` gives them.
pub(crate) fn xlate() -> Command {
    const OTHER: &str = "LITTORAL_XLATE";
    let Ok(words) = std::env::var(OTHER) else {
        return Command::new(env!("CARGO_BIN_EXE_xlate"));
    };
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().expect("the variable names a command"));
    command.args(words);
    command
}

/// LA64 instructions that `--stats` tells of; `None` where the host's processor executes them.
pub(crate) fn own_count(text: &str) -> Option<u64> {
    if text.contains("executes LA64 code and counts no instructions") {
        return None;
    }
    Some(text.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a count"))
}
