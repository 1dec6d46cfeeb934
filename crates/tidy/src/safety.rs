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
        return vec![Finding::new(
            "safety-table",
            page,
            "is missing, and the crate has unsafe code",
        )];
    };
    let rows: Vec<Row<'_>> = text.lines().filter_map(Row::parse).collect();
    let prefix = format!("{folder}/src/");
    let unlisted = tree.rust().filter(|(p, t)| p.starts_with(&prefix) && has_unsafe(t)).filter_map(
        |(path, _)| {
            let inside = &path[prefix.len()..];
            let listed = rows.iter().any(|r| r.block.contains(inside));
            (!listed)
                .then(|| Finding::new("safety-table", &page, format!("has no row for {inside}")))
        },
    );
    let broken = rows.iter().filter_map(|row| row.breach(tree, folder, &page));
    unlisted.chain(broken).collect()
}

struct Row<'a> {
    block: &'a str,
    obligation: &'a str,
    test: &'a str,
}

impl<'a> Row<'a> {
    /// A table row that names a source file; headings and rules are not rows.
    fn parse(line: &'a str) -> Option<Row<'a>> {
        let mut cells = line.trim().strip_prefix('|')?.trim_end_matches('|').split('|');
        let block = cells.next()?.trim();
        let (obligation, test) = (cells.next()?.trim(), cells.next()?.trim());
        block.contains(".rs").then_some(Row { block, obligation, test })
    }

    fn breach(&self, tree: &Tree, folder: &str, page: &str) -> Option<Finding> {
        let file = self.block.trim_matches('`').split(".rs").next().unwrap_or_default();
        let file = format!("{file}.rs");
        let find = |what: String| Some(Finding::new("safety-table", page, what));
        if !["", "src/"].iter().any(|f| tree.holds(&format!("{folder}/{f}{file}"))) {
            return find(format!("names {file}, which is not in the crate"));
        }
        if self.obligation.is_empty() {
            return find(format!("states no obligation for {}", self.block));
        }
        let prefix = format!("{folder}/");
        let known = words(self.test).any(|name| {
            let defined = format!("fn {name}");
            tree.rust().any(|(p, t)| p.starts_with(&prefix) && t.contains(&defined))
        });
        if known { None } else { find(format!("names no test that exists for {}", self.block)) }
    }
}

fn words(cell: &str) -> impl Iterator<Item = &str> {
    cell.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| w.len() > 3)
}
