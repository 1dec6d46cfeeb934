//! Settings that ranks on other hosts get with their command: a command such as `ssh` hands no
//! variable of the launcher's environment on.
//!
//! Invariants
//! - A rank of a hosts file has the settings that a rank of this machine would have: those of
//!   [`NAMES`] and every variable whose name begins with [`OF_PROGRAMS`]. Checked by
//!   `settings_reach_ranks_that_another_command_starts`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use littoral_base::mutant;

use super::PREFIX;

/// Settings of a rank, after `LITTORAL_DSM_`.
const NAMES: [&str; 5] = ["LOCKS", "LOG", "PREDICT", "CACHE", "FAULTS"];
/// How the names of JIAJIA's settings begin, those of programs too.
const OF_PROGRAMS: &str = "JIA_";

/// These settings, as this process has them.
pub(super) fn handed_on() -> Vec<(OsString, OsString)> {
    if mutant!("dsm_settings_stay_here") {
        return Vec::new();
    }
    let all = std::env::vars_os();
    let mut found: Vec<_> = all.filter(|(name, _)| is_one(name.as_bytes())).collect();
    found.sort();
    found
}

fn is_one(name: &[u8]) -> bool {
    let known = name.strip_prefix(PREFIX.as_bytes());
    name.starts_with(OF_PROGRAMS.as_bytes())
        || known.is_some_and(|rest| NAMES.iter().any(|one| one.as_bytes() == rest))
}
