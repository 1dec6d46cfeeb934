//! Packages: what a registry wants of every crate that is to be published.
//!
//! - A workspace crate has a description, a readme, keywords, categories and both licences' texts
//!   in its folder, or says `publish = false`.
//! - A path dependency of the workspace names a version, or cargo cannot package what uses it;
//!   one on a crate that is never published names none.
//! - A crate uses every dependency that its manifest names, development dependencies in its tests,
//!   examples or benches; one that only a feature names is the feature's business.
//! - A path that a build script watches exists: cargo takes a missing one for a change, and builds
//!   the crate and all above it again at each command.

use crate::{Finding, Tree};

/// Crates that could not be packaged.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files(|p| p.starts_with("crates/") && p.ends_with("/Cargo.toml"));
    let mut findings: Vec<Finding> = manifests.flat_map(|(p, t)| check_crate(tree, p, t)).collect();
    let workspace = tree.text("Cargo.toml").unwrap_or_default();
    let paths = (1..).zip(workspace.lines()).filter(|(_, l)| is_unversioned(tree, l));
    findings.extend(paths.map(|(n, _)| {
        let what = "a path dependency without a version cannot be packaged";
        Finding::new("package", format!("Cargo.toml:{n}"), what)
    }));
    let manifests = tree.files(|p| p.starts_with("crates/") && p.ends_with("/Cargo.toml"));
    findings.extend(manifests.flat_map(|(path, text)| unused(tree, path, text)));
    let scripts = tree.files(|p| p.starts_with("crates/") && p.ends_with(".rs"));
    findings.extend(scripts.flat_map(|(path, text)| watched(tree, path, text)));
    findings
}

/// Paths that the build script in `path` watches and that are not there.
fn watched(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let folder = path.splitn(3, '/').take(2).collect::<Vec<_>>().join("/");
    let is_there = |watched: &str| {
        let whole = format!("{folder}/{}", watched.trim_end_matches('/'));
        tree.files(|p| p.starts_with(&whole)).next().is_some()
    };
    // A path put together at run time, or above the crate, is the script's own business.
    let is_plain = |watched: &str| !watched.contains('{') && !watched.starts_with("..");
    let lines = (1..).zip(text.lines()).filter_map(|(n, line)| {
        let (_, rest) = line
            .split_once("\"rerun-if-changed=")
            .or_else(|| line.split_once("cargo::rerun-if-changed="))?;
        Some((n, rest.split('"').next()?))
    });
    let missing = lines.filter(|(_, watched)| is_plain(watched) && !is_there(watched));
    let what = |watched: &str| format!("a build script watches {watched}, which does not exist");
    missing
        .map(|(n, watched)| Finding::new("watched", format!("{path}:{n}"), what(watched)))
        .collect()
}

/// Dependencies that no source of the crate names.
pub fn unused(tree: &Tree, manifest: &str, text: &str) -> Vec<Finding> {
    let folder = manifest.trim_end_matches("Cargo.toml");
    let Ok(table) = text.parse::<toml::Table>() else { return Vec::new() };
    let of = |key: &str| table.get(key).and_then(|t| t.as_table()).cloned().unwrap_or_default();
    let features = of("features");
    let by_feature = |name: &str| {
        let all = features.values().filter_map(|list| list.as_array()).flatten();
        all.filter_map(|v| v.as_str())
            .any(|v| v.trim_start_matches("dep:").split(['/', '?']).next() == Some(name))
    };
    let is_named = |name: &str| {
        let word = name.replace('-', "_");
        let mut sources = tree.files(|p| p.starts_with(folder) && p.ends_with(".rs"));
        sources.any(|(_, t)| t.contains(&format!("{word}::")) || t.contains(&format!("use {word}")))
    };
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let names = kinds.iter().flat_map(|kind| of(kind).keys().cloned().collect::<Vec<_>>());
    let idle = names.filter(|name| !by_feature(name) && !is_named(name));
    let what = |name: String| format!("no source names the dependency {name}: remove it");
    idle.map(|name| Finding::new("unused-dependency", manifest, what(name))).collect()
}

/// A path dependency without a version. A crate that is never published may have none: cargo drops
/// such a development dependency from a package.
fn is_unversioned(tree: &Tree, line: &str) -> bool {
    let Some((_, rest)) = line.split_once("{ path = \"") else { return false };
    let folder = rest.split('"').next().unwrap_or_default();
    let manifest = tree.text(&format!("{folder}/Cargo.toml")).unwrap_or_default();
    !manifest.lines().any(|l| l.starts_with("publish = false"))
}

fn check_crate(tree: &Tree, manifest: &str, text: &str) -> Vec<Finding> {
    let has = |start: &str| text.lines().any(|l| l.starts_with(start));
    if !has("[package]") || has("publish = false") {
        return Vec::new();
    }
    let folder = manifest.trim_end_matches("Cargo.toml");
    let keys = ["description = ", "readme = ", "keywords = ", "categories = "];
    let lacks =
        keys.iter().filter(|k| !has(k)).map(|k| format!("has no `{}`", k.trim_end_matches(" = ")));
    let files = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];
    let absent = files.iter().filter(|f| !tree.holds(&format!("{folder}{f}")));
    let absent = absent.map(|f| format!("is to be published without {folder}{f}"));
    lacks.chain(absent).map(|what| Finding::new("package", manifest, what)).collect()
}
