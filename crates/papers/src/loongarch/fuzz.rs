//! Random instructions and blocks beside QEMU.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use littoral_assure::la64::{Report, runner, soak};

use super::{Found, Tools};

/// At least `words` random words from `seed` on the interpreter and on QEMU.
///
/// # Errors
/// What is missing, or how QEMU failed.
pub fn beside_qemu(tools: &Tools, seed: u64, words: u64) -> Found<Report> {
    let qemu = tools.qemu_peer()?.0;
    let program = tools.scratch.join("runner");
    let written = std::fs::write(&program, runner::program())
        .and_then(|()| std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)));
    written.map_err(|e| format!("{}: {e}", program.display()))?;
    let command = || {
        let mut command = Command::new(&qemu);
        command.args(["-cpu", "max"]).arg(&program);
        command
    };
    soak(seed, words, command).map_err(|e| format!("{}: {e}", qemu.display()).into())
}
