//! What ranks get, and do not get, of the launcher's own environment.
//!
//! A command such as `ssh` hands no variable on, so ranks on other hosts get settings with their
//! command. Ranks of this machine have the launcher's environment, without what the launcher itself
//! was given as a rank of another job.
//!
//! Invariants
//! - A rank of a hosts file has the settings that a rank of this machine would have: those of
//!   [`NAMES`] and every variable whose name begins with [`OF_PROGRAMS`]. Checked by
//!   `settings_reach_ranks_that_another_command_starts`.
//! - A rank has no variable of another job, in which the launcher is a rank: that job's memory
//!   would be taken for this one's. Checked by
//!   `what_a_rank_was_given_reaches_no_rank_of_a_job_that_it_starts`.

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

/// Names of the variables that this process has as a rank of another job.
pub(super) fn of_another_job() -> Vec<OsString> {
    if mutant!("dsm_ranks_inherit_a_job") {
        return Vec::new();
    }
    let names = std::env::vars_os().map(|(name, _)| name);
    let is_given = |name: &[u8]| name.starts_with(PREFIX.as_bytes()) && !is_one(name);
    names.filter(|name| is_given(name.as_bytes())).collect()
}

fn is_one(name: &[u8]) -> bool {
    let known = name.strip_prefix(PREFIX.as_bytes());
    name.starts_with(OF_PROGRAMS.as_bytes())
        || known.is_some_and(|rest| NAMES.iter().any(|one| one.as_bytes() == rest))
}
