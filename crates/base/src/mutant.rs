//! Known defects, kept beside their repair and switched on one at a time to try the test suite.
//!
//! - A repaired defect stays in the source behind [`mutant!`](crate::mutant!); in a build without
//!   `--cfg mutants` the macro is the constant `false` and nothing of it is left.
//! - In a build with it, `LITTORAL_MUTANT` names the one defect that is on; a process never changes
//!   its mind.
//! - `scripts/mutants.sh` builds each crate's suite once and runs it for each of its mutants: the
//!   suite that `scripts/mutants.txt` names must fail.

/// Whether the named defect is switched on; constantly `false` without `--cfg mutants`.
///
/// ```
/// let acknowledged = !littoral_base::mutant!("example_forgets_its_fence");
/// assert!(acknowledged);
/// ```
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        cfg!(mutants) && $crate::mutant::is_on($name)
    };
}

/// Whether `LITTORAL_MUTANT` names this defect.
#[doc(hidden)]
pub fn is_on(name: &str) -> bool {
    use std::sync::OnceLock;
    static ON: OnceLock<Option<String>> = OnceLock::new();
    ON.get_or_init(|| std::env::var("LITTORAL_MUTANT").ok()).as_deref() == Some(name)
}
