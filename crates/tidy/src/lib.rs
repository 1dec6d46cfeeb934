//! The house rules, checked by a test instead of by memory.
//!
//! [`check`] walks a source tree and lists every breach as a [`Finding`]; `tests/tidy.rs` runs it
//! over this repository and must get an empty list, `tests/seeded.rs` runs it over trees with one
//! seeded breach a rule and must get exactly that one.
//!
//! - A rule that finds nothing to look at is itself a finding: a check that silently skips would
//!   read as passed.
//! - Rules read the tree only; nothing is written, no network is used.
//!
//! Rules: [`layers`] (who may import whom), [`circles`] (modules of one crate that import each
//! other), [`source`] (lengths, headers, printing, unsafe), [`text`] (ASCII, leftovers, machine
//! paths), [`safety`] (`SAFETY.md` tables), [`links`] (documents' links resolve), [`paths`] (paths
//! that prose names exist), [`listed`] (the
//! list of equivalent mutants), [`packages`] (what a registry wants, no unused dependency),
//! [`book`] (features and claims are documented), [`invariants`] (what a header promises names its
//! check), [`words`] (no private reference, no words of a list).

pub mod book;
pub mod circles;
pub mod clocks;
pub mod invariants;
pub mod layers;
pub mod links;
pub mod listed;
pub mod packages;
pub mod paths;
pub mod safety;
pub mod source;
pub mod text;
mod tree;
pub mod words;

use std::fmt;
use std::path::Path;

pub use tree::Tree;

/// One breach of one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The rule's short name, such as `fn-length`.
    pub rule: &'static str,
    /// Where: a path relative to the root, with a line where there is one.
    pub place: String,
    /// What is wrong and what would be right.
    pub what: String,
}

impl Finding {
    /// A finding of `rule` at `place`.
    pub fn new(rule: &'static str, place: impl fmt::Display, what: impl Into<String>) -> Self {
        Finding { rule, place: place.to_string(), what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: [{}] {}", self.place, self.rule, self.what)
    }
}

/// Every breach under `root`, sorted; `metadata` is what `cargo metadata` printed for it.
///
/// # Errors
/// The words of the failure when the tree cannot be read.
pub fn check(root: &Path, metadata: &str) -> Result<Vec<Finding>, String> {
    let tree = Tree::read(root)?;
    let mut findings = layers::check(metadata);
    findings.extend(circles::check(&tree));
    findings.extend(clocks::check(&tree));
    findings.extend(source::check(&tree));
    findings.extend(text::check(&tree));
    findings.extend(safety::check(&tree));
    findings.extend(links::check(&tree));
    findings.extend(paths::check(&tree));
    findings.extend(listed::check(&tree));
    findings.extend(packages::check(&tree));
    findings.extend(book::check(&tree));
    findings.extend(invariants::check(&tree));
    findings.extend(words::check(&tree));
    findings.sort();
    Ok(findings)
}
