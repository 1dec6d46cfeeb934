//! `SAFETY.md`: every module with `unsafe` in it has its row, every row names a file that exists
//! and a test that exists.
//!
//! A row reads `| path or path::item | obligation | test |`; the path is relative to the crate, the
//! test is a function name found somewhere in that crate.

use std::collections::BTreeSet;

use crate::{Finding, Tree};

/// Breaches of the rule on `SAFETY.md`.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let crates: BTreeSet<String> =
        tree.rust().filter(|(_, text)| has_unsafe(text)).filter_map(|(p, _)| crate_of(p)).collect();
    crates.iter().flat_map(|c| check_crate(tree, c)).collect()
}

fn crate_of(path: &str) -> Option<String> {
    let rest = path.strip_prefix("crates/")?;
    let (name, inside) = rest.split_once('/')?;
    inside.starts_with("src/").then(|| format!("crates/{name}"))
}

fn has_unsafe(text: &str) -> bool {
    let code = text.lines().map(str::trim_start).filter(|l| !l.starts_with("//"));
    code.into_iter().any(|l| {
        ["unsafe {", "unsafe fn ", "unsafe impl "]
            .iter()
            .any(|w| l.find(w).is_some_and(|i| !l[..i].contains('"') && !l[..i].contains('`')))
    })
}

fn check_crate(tree: &Tree, folder: &str) -> Vec<Finding> {
    let page = format!("{folder}/SAFETY.md");
    let Some(text) = tree.text(&page) else {
        let what = "is missing, and the crate has unsafe code";
        return vec![Finding::new("safety-table", page, what)];
    };
    let prefix = format!("{folder}/src/");
    let with_unsafe = tree.rust().filter(|(p, t)| p.starts_with(&prefix) && has_unsafe(t));
    let unlisted = with_unsafe.map(|(path, _)| &path[prefix.len()..]).filter(|p| !text.contains(p));
    let unlisted = unlisted
        .map(|inside| Finding::new("safety-table", &page, format!("has no row for {inside}")));
    let rows: Vec<Row<'_>> = text.lines().filter_map(Row::parse).collect();
    let none = rows.is_empty().then(|| Finding::new("safety-table", &page, "has no row at all"));
    let broken = rows.iter().filter_map(|row| row.breach(tree, folder, &page));
    unlisted.chain(broken).chain(none).collect()
}

struct Row<'a> {
    block: &'a str,
    obligation: &'a str,
    test: &'a str,
}

impl<'a> Row<'a> {
    /// A table row; headings and rules are not rows.
    fn parse(line: &'a str) -> Option<Row<'a>> {
        let mut cells = line.trim().strip_prefix('|')?.trim_end_matches('|').split('|');
        let block = cells.next()?.trim();
        let (obligation, test) = (cells.next()?.trim(), cells.next()?.trim());
        (!block.starts_with("--") && block != "block").then_some(Row { block, obligation, test })
    }

    fn breach(&self, tree: &Tree, folder: &str, page: &str) -> Option<Finding> {
        let find = |what: String| Some(Finding::new("safety-table", page, what));
        if let Some((file, _)) = self.block.trim_matches('`').split_once(".rs") {
            let held = ["", "src/"].iter().any(|f| tree.holds(&format!("{folder}/{f}{file}.rs")));
            if !held {
                return find(format!("names {file}.rs, which is not in the crate"));
            }
        }
        if self.obligation.is_empty() {
            return find(format!("states no obligation for {}", self.block));
        }
        let known = self.names_test(tree, folder);
        if known { None } else { find(format!("names no test that exists for {}", self.block)) }
    }

    /// Whether the last cell names a test function of the crate or of `assure`, which tests all
    /// engines, a file of tests, or a module with tests in it.
    fn names_test(&self, tree: &Tree, folder: &str) -> bool {
        let prefix = format!("{folder}/");
        let function = words(self.test).any(|name| {
            let defined = format!("fn {name}");
            let is_near = |p: &str| p.starts_with(&prefix) || p.starts_with("crates/assure/tests/");
            let python = format!("def {name}(");
            tree.rust().any(|(p, t)| is_near(p) && t.contains(&defined))
                || tree
                    .files(|p| is_near(p) && p.ends_with(".py"))
                    .any(|(_, t)| t.contains(&python))
        });
        let mut quoted = self.test.split('`').skip(1).step_by(2);
        function
            || quoted.any(|name| {
                let module = name.trim_end_matches("::tests").replace("::", "/");
                let held = |path: &str| tree.text(path).is_some_and(|t| t.contains("#[test]"));
                held(&format!("{folder}/{name}")) || held(&format!("{folder}/src/{module}.rs"))
            })
    }
}

fn words(cell: &str) -> impl Iterator<Item = &str> {
    cell.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| w.len() > 3)
}
