//! Floor 4 of littoral: the papers' systems, each with its baselines, figures and targets file.
//!
//! A system is one module (`translators` holds two), one file under `targets/` and one line of
//! [`SYSTEMS`].
//!
//! Invariants
//! - A figure is measured by the function that returns it or it is absent; nothing is extrapolated
//!   and no expected value is ever printed in place of a measured one. Checked by
//!   `every_claim_gets_a_verdict_and_nothing_is_made_up`.
//! - Every claim of a system belongs to exactly one of its steps, and no claim to two systems.
//!   Checked by `every_claim_belongs_to_exactly_one_step`.

pub mod flash;
pub mod jiajia;
pub mod loongarch;
pub mod sdtm;
pub mod summarizer;
pub mod translators;
pub mod zbtree;

use littoral_bench::repro::System;

/// Every system that `repro` runs, in the order of its help.
pub const SYSTEMS: [System; 8] = [
    flash::SYSTEM,
    zbtree::SYSTEM,
    sdtm::SYSTEM,
    jiajia::SYSTEM,
    loongarch::SYSTEM,
    translators::LATM,
    translators::LATX,
    summarizer::SYSTEM,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_claim_belongs_to_exactly_one_step() {
        let mut all = BTreeSet::new();
        for system in &SYSTEMS {
            let steps = (system.steps)().unwrap();
            let mut answered: Vec<String> = steps.into_iter().flat_map(|s| s.claims).collect();
            let claims = system.targets().unwrap().claims;
            let mut targets: Vec<String> = claims.into_iter().map(|t| t.id).collect();
            answered.sort();
            targets.sort();
            assert_eq!(answered, targets, "{}", system.name);
            for id in targets {
                assert!(all.insert(id.clone()), "{id} is a claim of two systems");
            }
        }
    }

    /// The ids of `repro` in the table whose head names a crate and `littoral repro`.
    fn ids_in_table(page: &str) -> Vec<String> {
        let text = std::fs::read_to_string(page).unwrap();
        let mut rows = text.lines().skip_while(|l| !l.contains("| crate | `littoral repro` |"));
        assert!(rows.next().is_some(), "{page} has no table of engines");
        let cells = rows.skip(1).take_while(|l| l.starts_with('|'));
        cells.map(|l| l.split('|').nth(4).unwrap().trim().trim_matches('`').to_owned()).collect()
    }

    #[test]
    fn the_tables_of_engines_name_every_system() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let systems: BTreeSet<&str> = SYSTEMS.iter().map(|s| s.name).collect();
        for page in ["ARCHITECTURE.md", "docs/book/src/index.md"] {
            let ids = ids_in_table(&format!("{root}/{page}"));
            assert_eq!(ids.len(), SYSTEMS.len(), "{page}");
            assert_eq!(ids.iter().map(String::as_str).collect::<BTreeSet<_>>(), systems, "{page}");
        }
    }

    #[test]
    fn names_and_profiles_are_told_apart() {
        let names: BTreeSet<&str> = SYSTEMS.iter().flat_map(|s| [s.name, s.id]).collect();
        assert_eq!(names.len(), SYSTEMS.len() + 2, "two systems have another name in results");
        for system in &SYSTEMS {
            for name in system.profiles {
                assert!(littoral_device::profile::Profile::named(name).is_ok(), "{name}");
            }
        }
    }
}
