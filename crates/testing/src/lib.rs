//! What tests of several crates share: how property tests run, and files of earlier formats
//! ([`fixtures`]).
//!
//! Every `proptest!` block of the workspace begins with `#![proptest_config(cases(N))]` or
//! `#![proptest_config(standard())]`; the tidy test asks for it.
//!
//! Invariants
//! - A test writes no file of the tree. The seeds that are committed in `*.proptest-regressions`
//!   and `proptest-regressions/` are replayed first, as proptest does by itself; a new one is
//!   printed, with the line to commit and the file it belongs into. Checked by
//!   `a_failing_case_is_found_and_writes_no_file`, `committed_seeds_are_replayed`.
//! - `LITTORAL_CASES_TIMES=N` multiplies the cases of every property test: the long run of all of
//!   them is `LITTORAL_CASES_TIMES=50 cargo test --locked prop`. Checked by
//!   `the_number_of_cases_is_multiplied_or_left`.

pub mod fixtures;

use std::any::Any;
use std::fmt::Debug;
use std::io::Write;
use std::path::{Path, PathBuf};

use proptest::test_runner::{Config, FailurePersistence, FileFailurePersistence, PersistedSeed};

/// proptest's own number of cases.
const STANDARD: u32 = 256;

/// A configuration of `cases` cases.
pub fn cases(cases: u32) -> Config {
    let cases = multiplied(cases, std::env::var("LITTORAL_CASES_TIMES").ok().as_deref());
    Config { cases, failure_persistence: Some(Box::new(Printed)), ..Config::default() }
}

/// `cases` as often as `times` says; as they are where it is no number.
fn multiplied(cases: u32, times: Option<&str>) -> u32 {
    cases.saturating_mul(times.and_then(|t| t.parse().ok()).unwrap_or(1))
}

/// A configuration of 256 cases.
pub fn standard() -> Config {
    cases(STANDARD)
}

/// Replays committed seeds and prints new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Printed;

/// The file that proptest reads the seeds of `source` from.
fn seeds_of(source: &Path) -> PathBuf {
    let text = source.to_string_lossy();
    match text.rsplit_once("/src/") {
        Some((folder, module)) => {
            Path::new(folder).join("proptest-regressions").join(module).with_extension("txt")
        }
        None => source.with_extension("proptest-regressions"),
    }
}

impl FailurePersistence for Printed {
    fn load_persisted_failures2(&self, source: Option<&'static str>) -> Vec<PersistedSeed> {
        FileFailurePersistence::default().load_persisted_failures2(source)
    }

    fn save_persisted_failure2(
        &mut self,
        source: Option<&'static str>,
        seed: PersistedSeed,
        shrunken_value: &dyn Debug,
    ) {
        let file = source.map(|s| seeds_of(Path::new(s)).display().to_string());
        let file = file.unwrap_or_else(|| "its file of seeds".to_owned());
        // A closed standard error leaves nothing to be done; the test fails all the same.
        let _ = writeln!(
            std::io::stderr(),
            "to replay this case in each run, append this line to {file}:\ncc {seed} # shrinks to \
             {shrunken_value:?}"
        );
    }

    fn box_clone(&self) -> Box<dyn FailurePersistence> {
        Box::new(*self)
    }

    fn eq(&self, other: &dyn FailurePersistence) -> bool {
        other.as_any().is::<Printed>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::test_runner::{TestError, TestRunner};

    #[test]
    fn seeds_are_read_where_proptest_reads_them() {
        let file = |source| seeds_of(Path::new(source)).display().to_string();
        assert_eq!(file("crates/a/tests/prop_b.rs"), "crates/a/tests/prop_b.proptest-regressions");
        assert_eq!(file("crates/a/src/b/c.rs"), "crates/a/proptest-regressions/b/c.txt");
    }

    #[test]
    fn the_number_of_cases_is_multiplied_or_left() {
        let found = [None, Some("50"), Some("many"), Some("4294967295")].map(|t| multiplied(48, t));
        assert_eq!(found, [48, 2400, 48, u32::MAX]);
    }

    #[test]
    fn a_failing_case_is_found_and_writes_no_file() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let config = Config { source_file: Some(file!()), ..cases(1000) };
        let mut runner = TestRunner::new(config);
        let found = runner.run(&(0..1000u32), |value| {
            proptest::prop_assert!(value < 500);
            Ok(())
        });
        assert!(matches!(found, Err(TestError::Fail(_, 500))), "{found:?}");
        assert!(!folder.join("proptest-regressions").exists());
        assert!(!folder.join("src/lib.proptest-regressions").exists());
    }

    #[test]
    fn committed_seeds_are_replayed() {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/replayed.rs");
        let seeds = Printed.load_persisted_failures2(Some(source));
        assert_eq!(seeds.len(), 1, "tests/replayed.proptest-regressions holds one");
    }
}
