//! Who may import whom, against what `cargo metadata` says.
//!
//! - Every workspace member is in the table; a crate that is not is a finding, so a new room is
//!   given its floor before it is built.
//! - Dev-dependencies may reach one floor further only where the table says so.
//! - Engines never see each other.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Finding;

/// A crate and the workspace crates it may name in `[dependencies]`.
type Row = (&'static str, &'static [&'static str]);

const FACADE: &[&str] = &[
    "littoral-base",
    "littoral-device",
    "littoral-runtime",
    "littoral-store",
    "littoral-graph",
    "littoral-index",
    "littoral-push",
    "littoral-stm",
    "littoral-fabric",
    "littoral-dsm",
    "littoral-la64",
    "littoral-la64-linux",
    "littoral-xlate",
];

const PAPERS: &[&str] = &[
    "littoral",
    "littoral-assure",
    "littoral-bench",
    "littoral-base",
    "littoral-device",
    "littoral-runtime",
    "littoral-store",
    "littoral-graph",
    "littoral-index",
    "littoral-push",
    "littoral-stm",
    "littoral-fabric",
    "littoral-dsm",
    "littoral-la64",
];

const ALLOWED: &[Row] = &[
    ("littoral-base", &[]),
    ("littoral-testing", &[]),
    ("littoral-tidy", &[]),
    ("littoral-device", &["littoral-base"]),
    ("littoral-la64", &["littoral-base"]),
    ("littoral-la64-linux", &["littoral-base", "littoral-la64"]),
    ("littoral-xlate", &["littoral-base", "littoral-la64", "littoral-la64-linux"]),
    ("littoral-runtime", &["littoral-base", "littoral-device"]),
    ("littoral-store", &["littoral-base", "littoral-device"]),
    ("littoral-graph", &["littoral-base", "littoral-device", "littoral-runtime"]),
    ("littoral-index", &["littoral-base", "littoral-device", "littoral-runtime", "littoral-store"]),
    ("littoral-push", &["littoral-base", "littoral-device", "littoral-runtime", "littoral-la64"]),
    ("littoral-stm", &["littoral-base", "littoral-device"]),
    ("littoral-fabric", &["littoral-base", "littoral-device"]),
    ("littoral-dsm", &["littoral-base", "littoral-device", "littoral-fabric"]),
    (
        "littoral-assure",
        &[
            "littoral-base",
            "littoral-device",
            "littoral-store",
            "littoral-graph",
            "littoral-index",
            "littoral-stm",
            "littoral-la64",
            "littoral-push",
            "littoral-xlate",
        ],
    ),
    ("littoral", FACADE),
    ("littoral-capi", &["littoral"]),
    ("littoral-jia", &["littoral-base", "littoral-dsm"]),
    (
        "littoral-bench",
        &[
            "littoral-base",
            "littoral-device",
            "littoral-runtime",
            "littoral-store",
            "littoral-graph",
            "littoral-index",
            "littoral-stm",
        ],
    ),
    ("littoral-papers", PAPERS),
    ("littoral-cli", &["littoral", "littoral-bench", "littoral-papers"]),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<String>,
}

/// Breaches of the import table; `metadata` is the output of `cargo metadata --no-deps`.
pub fn check(metadata: &str) -> Vec<Finding> {
    let packages = match serde_json::from_str::<Metadata>(metadata) {
        Ok(m) if !m.packages.is_empty() => m.packages,
        Ok(_) => return vec![Finding::new("layers", "cargo metadata", "lists no package at all")],
        Err(e) => return vec![Finding::new("layers", "cargo metadata", e.to_string())],
    };
    let table: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    packages.iter().flat_map(|p| check_package(p, &table)).collect()
}

fn check_package(package: &Package, table: &BTreeMap<&str, &[&str]>) -> Vec<Finding> {
    let Some(allowed) = table.get(package.name.as_str()) else {
        return vec![Finding::new("layers", &package.name, "has no row in tidy's import table")];
    };
    let breach = |d: &&Dependency| d.path.is_some() && !allowed.contains(&d.name.as_str());
    let from_product = package.dependencies.iter().filter(|d| d.kind.is_none());
    from_product
        .filter(breach)
        .map(|d| {
            let what = format!("imports {}; it may import {allowed:?}", d.name);
            Finding::new("layers", &package.name, what)
        })
        .collect()
}
