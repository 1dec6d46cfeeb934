//! Zoned block devices of a real Linux kernel beside the model, in a virtual machine.
//!
//! - `littoral-guest pack OUT MODULES` writes an initial file system: this program as `/init`, the
//!   kernel modules it loads and those that they need, nothing else.
//! - As the first process of a machine it loads them, makes devices (null_blk with a conventional
//!   zone, scsi_debug as a host-managed disk, an NVMe namespace of zones with an ordinary one
//!   beside it), runs the same seeded requests on each device and on a model of its geometry, says
//!   what it found on the console and restarts, which ends the machine.
//! - Everything must be equal: each request's outcome, the rule behind each refusal, what is read,
//!   the zone reports, the contents at the end. A device that is not there is a failure.
//!
//! The last line is `GUEST PASSED` or `GUEST FAILED`; `scripts/zoned-guest.sh` looks for it.

mod machine;
mod pack;
mod trace;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if std::process::id() == 1 {
        machine::boot();
    }
    let done = match &args[1..] {
        [verb, out, modules] if verb == "pack" => pack::pack(Path::new(out), Path::new(modules)),
        _ => Err("usage: littoral-guest pack OUT MODULES".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            machine::say(&format!("littoral-guest: {e}"));
            ExitCode::FAILURE
        }
    }
}
