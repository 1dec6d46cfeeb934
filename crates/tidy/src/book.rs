//! What users can reach is in the book: every Cargo feature of the facade, every shipped profile,
//! every claim of `repro`, every package a dependency row, every design page a line of the index.
//!
//! (That every command and option is in the book is checked beside the command's definition.)

use std::collections::BTreeSet;

use crate::{Finding, Tree};

const FACADE: &str = "crates/littoral/Cargo.toml";
const TARGETS: &str = "crates/papers/targets/";
const DEPENDENCIES: &str = "docs/dependencies.md";
const DESIGN: &str = "docs/design/";
const DESIGN_INDEX: &str = "docs/book/src/design/index.md";

/// Breaches of the rule that public features are documented.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let book: String = tree
        .files(|p| p.starts_with("docs/book/") && p.ends_with(".md"))
        .map(|(_, text)| text)
        .collect();
    if book.is_empty() {
        return vec![Finding::new("book", "docs/book", "holds no page: the rule saw nothing")];
    }
    let mut findings = Vec::new();
    let mut need = |what: &str, name: &str| {
        if !["`", "."].iter().any(|end| book.contains(&format!("`{name}{end}"))) {
            findings.push(Finding::new(
                "book",
                "docs/book",
                format!("never names {what} `{name}`"),
            ));
        }
    };
    for name in features(tree) {
        need("the facade's feature", &name);
    }
    for name in profiles(tree) {
        need("the profile", &name);
    }
    for name in claims(tree).iter().map(|id| family(id)).collect::<BTreeSet<_>>() {
        need("the claim", name);
    }
    findings.extend(check_dependencies(tree));
    findings.extend(check_design(tree));
    findings
}

fn table(tree: &Tree, path: &str) -> toml::Table {
    tree.text(path).and_then(|t| t.parse().ok()).unwrap_or_default()
}

fn features(tree: &Tree) -> Vec<String> {
    let manifest = table(tree, FACADE);
    let features = manifest.get("features").and_then(|f| f.as_table());
    features.into_iter().flat_map(|f| f.keys().cloned()).filter(|k| k != "default").collect()
}

fn profiles(tree: &Tree) -> Vec<String> {
    let is_profile = |p: &str| p.starts_with("crates/device/") && p.contains("profile");
    let files = tree.files(|p| is_profile(p) && p.ends_with(".toml"));
    files
        .filter_map(|(p, _)| Some(p.rsplit('/').next()?.strip_suffix(".toml")?.to_owned()))
        .collect()
}

fn claims(tree: &Tree) -> Vec<String> {
    let files = tree.files(|p| p.starts_with(TARGETS) && p.ends_with(".toml"));
    let lists = files.filter_map(|(_, text)| text.parse::<toml::Table>().ok()?.remove("claim"));
    let claims = lists.filter_map(|list| list.as_array().cloned()).flatten();
    claims.filter_map(|c| Some(c.get("id")?.as_str()?.to_owned())).collect()
}

/// A claim without its cells: the first two words of its name.
fn family(id: &str) -> &str {
    let end = id.match_indices('.').nth(1).map_or(id.len(), |(i, _)| i);
    &id[..end]
}

/// Every design page is linked from the book's index of them.
fn check_design(tree: &Tree) -> Vec<Finding> {
    let index = tree.text(DESIGN_INDEX).unwrap_or_default();
    let pages = tree.files(|p| p.starts_with(DESIGN) && p.ends_with(".md"));
    let absent = pages.filter(|(path, _)| {
        let name = path.strip_prefix(DESIGN).unwrap_or(path);
        !index.contains(&format!("/design/{name})"))
    });
    let what = |path| format!("does not link {path}");
    absent.map(|(path, _)| Finding::new("design-index", DESIGN_INDEX, what(path))).collect()
}

/// Every dependency of the workspace has its row, and every row is still a dependency.
fn check_dependencies(tree: &Tree) -> Vec<Finding> {
    let workspace = table(tree, "Cargo.toml");
    let named = workspace.get("workspace").and_then(|w| w.get("dependencies")?.as_table().cloned());
    let Some(named) = named else { return Vec::new() };
    let page = tree.text(DEPENDENCIES).unwrap_or_default();
    let is_row = |name: &str| page.lines().any(|l| l.starts_with(&format!("| `{name}` ")));
    let used = |name: &str| {
        let mut manifests = tree.files(|p| p.starts_with("crates/") && p.ends_with("/Cargo.toml"));
        manifests.any(|(_, t)| t.lines().any(|l| dependency_of(l) == Some(name)))
    };
    let others = named.keys().filter(|n| !n.starts_with("littoral"));
    let mut findings = Vec::new();
    for name in others {
        match (used(name), is_row(name)) {
            (true, false) => {
                let what = format!("has no row for {name}: say why it is there");
                findings.push(Finding::new("dependency-row", DEPENDENCIES, what));
            }
            (false, true) => {
                let what = format!("has a row for {name}, which no crate uses");
                findings.push(Finding::new("dependency-row", DEPENDENCIES, what));
            }
            _ => {}
        }
    }
    findings
}

fn dependency_of(line: &str) -> Option<&str> {
    let name = line.split(['=', '.', ' ']).next()?;
    (line.contains("workspace = true") && name != "workspace").then_some(name)
}
