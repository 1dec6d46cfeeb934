//! A rule that cannot fail is no rule: each is shown to find the breach seeded for it, and a clean
//! tree to pass. The forbidden texts are put together here so that this file does not hold them
//! itself.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the lint does not take for tests.

use std::fs;
use std::path::Path;

use littoral_tidy::{Finding, check};

const METADATA: &str = r#"{"packages":[{"name":"littoral-base","dependencies":[]}]}"#;

const CLEAN: &[(&str, &str)] = &[
    ("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n"),
    ("Cargo.toml", "[workspace.dependencies]\nserde = \"1\"\n"),
    ("crates/base/Cargo.toml", "[dependencies]\nserde.workspace = true\n"),
    ("crates/base/src/lib.rs", "//! A page.\n\nfn f() -> u8 {\n    1\n}\n"),
    ("crates/base/src/data.rs", "//! A page.\n\nuse serde::Serialize;\n"),
    ("docs/dependencies.md", "| `serde` | data |\n"),
    ("docs/book/src/index.md", "# Book\n\nSee [deps](../../dependencies.md) and [this](#book).\n"),
];

/// What the rules say of the clean tree with `changes` written over it.
fn findings(changes: &[(&str, &str)]) -> Vec<Finding> {
    findings_with(changes, METADATA)
}

fn findings_with(changes: &[(&str, &str)], metadata: &str) -> Vec<Finding> {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in CLEAN.iter().chain(changes) {
        write(root.path(), path, text);
    }
    check(root.path(), metadata).unwrap()
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Asserts that the seeded breach is found by `rule`, at `place`, and that nothing else is.
fn assert_found(changes: &[(&str, &str)], rule: &str, place: &str) {
    let found = findings(changes);
    assert!(
        found.iter().any(|f| f.rule == rule && f.place.starts_with(place)),
        "{rule}: {found:?}"
    );
    assert!(found.iter().all(|f| f.rule == rule), "{rule} alone expected: {found:?}");
}

fn source(body: &str) -> String {
    format!("//! A page.\n\n{body}\n")
}

const FILE: &str = "crates/base/src/a.rs";

#[test]
fn a_crate_that_cannot_be_packaged_is_found() {
    let manifest = "crates/store/Cargo.toml";
    let bare = "[package]\nname = \"littoral-store\"\n";
    let found = findings(&[(manifest, bare)]);
    let missing = ["`description`", "`readme`", "`keywords`", "`categories`", "LICENSE-MIT"];
    for word in missing {
        assert!(found.iter().any(|f| f.rule == "package" && f.what.contains(word)), "{found:?}");
    }
    let private = format!("{bare}publish = false\n");
    assert_eq!(findings(&[(manifest, &private)]), []);
    let path = "[workspace.dependencies]\nserde = \"1\"\nlittoral-base = { path = \"x\" }\n";
    assert_found(&[("Cargo.toml", path)], "package", "Cargo.toml:3");
    assert_eq!(findings(&[("Cargo.toml", path), ("x/Cargo.toml", "publish = false\n")]), []);
}

#[test]
fn an_entry_for_a_mutant_whose_line_has_gone_is_found() {
    let list = "scripts/mutants-equivalent.txt";
    let entry = |line: &str, why: &str| format!("{FILE}: replace + with -\n@ {line}\n{why}\n");
    let code = source("fn f(a: u8) -> u8 {\n    a + 1\n}");
    let over = |text: &str| findings(&[(FILE, &code), (list, text)]);
    assert_eq!(over(&entry("a + 1", "  a reason")), []);
    for (line, why) in [("a + 2", "  a reason"), ("a + 1", "")] {
        let text = entry(line, why);
        assert_found(&[(FILE, &code), (list, &text)], "mutants-list", list);
    }
}

#[test]
fn a_clean_tree_passes() {
    assert_eq!(findings(&[]), []);
}

#[test]
fn layers_are_kept() {
    let import = |name: &str, kind: &str| {
        format!(
            r#"{{"packages":[{{"name":"littoral-graph","dependencies":[
            {{"name":"{name}","kind":{kind},"path":"x"}}]}}]}}"#
        )
    };
    let engines_meet = findings_with(&[], &import("littoral-stm", "null"));
    assert_eq!(engines_meet.len(), 1, "{engines_meet:?}");
    assert_eq!(findings_with(&[], &import("littoral-runtime", "null")), []);
    let stranger = findings_with(&[], r#"{"packages":[{"name":"new","dependencies":[]}]}"#);
    assert!(stranger[0].what.contains("no row"), "{stranger:?}");
    assert_eq!(findings_with(&[], r#"{"packages":[]}"#).len(), 1, "nothing seen is a finding");
}

#[test]
fn modules_that_import_each_other_are_found() {
    let both = |lib: &str, a: &str, b: &str| {
        let [lib, a, b] = [lib, a, b].map(source);
        findings(&[("crates/base/src/lib.rs", &lib), (FILE, &a), ("crates/base/src/b.rs", &b)])
    };
    let back = "use super::a::Y;";
    let circles = [
        ("mod a;\nmod b;", "use crate::b::X;", back),
        ("mod a;\nmod b;\npub use b::X;", "use crate::{Z, X as W};", back),
        ("mod a;\nmod b;\npub use b::*;", "use crate::X;", "pub struct X;\nuse crate::a;"),
        ("mod a;\nmod b;", "fn f() {\n    crate::b::g();\n}", back),
        ("mod a;\nmod b;", "fn f() {\n    assert!(vec![crate::b::g()].is_empty());\n}", back),
        ("mod a;\nmod b;", "mod c {\n    fn f() -> super::super::b::X {}\n}", back),
    ];
    for (lib, a, b) in circles {
        let found = both(lib, a, b);
        assert!(matches!(&found[..], [f] if f.rule == "circle"), "{lib} | {a} | {b}: {found:?}");
        assert!(found[0].what.contains("a -> b (crates/base/src/a.rs:"), "{found:?}");
    }
    let lines = [
        ("mod a;\nmod b;\nuse a::Y;", "use crate::Z;", back),
        ("mod a;\nmod b;", "#[cfg(test)]\nmod tests {\n    use crate::b::X;\n}", back),
        ("mod a;\nmod b;", "pub(in super::b) fn f() {}\n// crate::b::X", back),
        ("mod a;\nmod b;", "use b::X;\nuse self::c::X;\nmod c {\n    use super::f;\n}", back),
    ];
    for (lib, a, b) in lines {
        assert_eq!(both(lib, a, b), [], "{lib} | {a} | {b}");
    }
}

#[test]
fn an_engine_that_asks_the_systems_clock_is_found() {
    let at = "crates/index/src/lib.rs";
    let asks = "fn f() {\n    let _ = std::time::Instant::now();\n}";
    assert_found(&[(at, &source(asks))], "clock", at);
    let silent = source("// Instant::now is not called here.\nfn f() {}");
    assert_eq!(findings(&[(at, &silent)]), []);
    let exempt = "crates/dsm/src/launch/run.rs";
    assert_eq!(findings(&[(exempt, &source(asks))]), []);
    assert_found(&[(exempt, &source("fn f() {}"))], "clock", "crates/tidy/src/clocks.rs");
}

#[test]
fn a_circle_of_three_modules_is_one_finding() {
    let root = tempfile::tempdir().unwrap();
    let (a, b, c) = ("use crate::b::B;", "use crate::c::C;", "use crate::a::A;");
    for (name, text) in [("a", a), ("b", b), ("c", c), ("d", a)] {
        write(root.path(), &format!("crates/base/src/{name}.rs"), &source(text));
    }
    let tree = littoral_tidy::Tree::read(root.path()).unwrap();
    let found = littoral_tidy::circles::find(&tree);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].modules, ["a", "b", "c"], "what only leads to a circle is not in it");
    assert_eq!(littoral_tidy::circles::check(&tree).len(), 1);
}

#[test]
fn a_header_is_asked_for() {
    assert_found(&[(FILE, "fn f() {}\n")], "header", FILE);
}

#[test]
fn long_functions_and_files_are_found_and_tests_do_not_count() {
    let lines = |n: usize| "    let _x = 1;\n".repeat(n);
    let long = source(&format!("fn f() {{\n{}}}", lines(69)));
    let padding = source(&"fn f() {}\n".repeat(30));
    let short = ("crates/base/src/b.rs", padding.as_str());
    assert_found(&[(FILE, &long), short], "fn-length", &format!("{FILE}:3"));
    let just = source(&format!("fn f() {{\n{}}}", lines(68)));
    assert_eq!(findings(&[(FILE, &just), short]), []);
    let file = source(&"type T = u8;\n".repeat(799));
    assert_found(&[(FILE, &file)], "file-length", FILE);
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}", "fn f() {}\n".repeat(900));
    assert_eq!(findings(&[(FILE, &source(&tests))]), []);
}

#[test]
fn the_shape_of_functions_is_checked() {
    let twelve = format!("fn f() {{\n{}}}\n", "    let _x = 1;\n".repeat(10));
    assert_found(&[(FILE, &source(&twelve.repeat(5)))], "fn-shape", ".");
}

#[test]
fn printing_and_leftovers_are_found() {
    assert_found(&[(FILE, &source("fn f() {\n    println!();\n}"))], "printing", FILE);
    let left = source(&format!("fn f() {{\n    {}!();\n}}", concat!("to", "do")));
    assert_found(&[(FILE, &left)], "leftover", FILE);
    let marker = source(&format!("// {}: later", concat!("FIX", "ME")));
    assert_found(&[(FILE, &marker)], "leftover", FILE);
    let cli = source("fn f() {\n    println!();\n}");
    assert_eq!(findings(&[("crates/cli/src/a.rs", &cli)]), []);
}

#[test]
fn unsafe_stands_in_raw_only_and_has_its_row() {
    let body = source("fn f() {\n    unsafe { g() }\n}\nunsafe fn g() {}");
    let outside = findings(&[(FILE, &body)]);
    assert_eq!(outside.iter().filter(|f| f.rule == "unsafe-place").count(), 2, "{outside:?}");
    let raw = "crates/base/src/raw.rs";
    assert_found(&[(raw, &body)], "safety-table", "crates/base/SAFETY.md");
    let page = |row: &str| format!("| block | obligation | test |\n|---|---|---|\n{row}\n");
    let table = "crates/base/SAFETY.md";
    let good = page("| `src/raw.rs` f | g is there | calls_g |");
    let test = ("crates/base/tests/t.rs", "//! Tests.\nfn calls_g() {}\n");
    assert_eq!(findings(&[(raw, &body), (table, &good), test]), []);
    assert_found(&[(raw, &body), (table, &good)], "safety-table", table);
    let stale = page("| `src/raw.rs` f | g | calls_g |\n| `src/gone.rs` h | g | calls_g |");
    assert_found(&[(raw, &body), (table, &stale), test], "safety-table", table);
    let by_file = page("| `src/raw.rs` f | g is there | `tests/t.rs` |");
    let tests = ("crates/base/tests/t.rs", "//! Tests.\n#[test]\nfn x() {}\n");
    assert_eq!(findings(&[(raw, &body), (table, &by_file), tests]), []);
    let idle = page("| `src/raw.rs` f | | calls_g |");
    assert_found(&[(raw, &body), (table, &idle), test], "safety-table", table);
}

#[test]
fn text_rules_find_their_breaches() {
    assert_found(&[(FILE, &source("// caf\u{e9}"))], "ascii", FILE);
    assert_eq!(findings(&[(FILE, &source("// 4 \u{b5}s"))]), []);
    assert_found(&[(FILE, &source(&format!("// {}", "a".repeat(98))))], "columns", FILE);
    let block = |first: &str| source(&format!("proptest! {{\n    {first}\n}}"));
    assert_found(&[(FILE, &block("#[test]"))], "proptest-config", FILE);
    let other = "#![proptest_config(ProptestConfig::with_cases(3))]";
    assert_found(&[(FILE, &block(other))], "proptest-config", FILE);
    let good = block("#![proptest_config(littoral_testing::cases(3))]");
    assert_eq!(findings(&[(FILE, &good)]), []);
    let path = format!("kept in {}somewhere\n", concat!("/wo", "rk/"));
    assert_found(&[("README.md", &path)], "machine-path", "README.md:1");
    let lock = [("Cargo.lock", "source = \"registry+https://mirror.example/index\"\n")];
    assert_found(&lock, "registry", "Cargo.lock:1");
}

#[test]
fn dead_links_are_found() {
    assert_found(&[("README.md", "[x](docs/gone.md)\n")], "link", "README.md:1");
    assert_found(&[("README.md", "[x](docs/dependencies.md#gone)\n")], "link", "README.md:1");
    assert_eq!(findings(&[("README.md", "```\n[x](gone)\n```\n`[y](gone)` [z](docs)\n")]), []);
}

#[test]
fn what_is_public_is_in_the_book() {
    let feature = ("crates/littoral/Cargo.toml", "[features]\ndefault = []\ngraph = []\n");
    assert_found(&[feature], "book", "docs/book");
    let claim = ("crates/papers/targets/a.toml", "[[claim]]\nid = \"a.b\"\n");
    assert_found(&[claim], "book", "docs/book");
    let profile = ("crates/device/src/profile/fast.toml", "name = \"fast\"\n");
    assert_found(&[profile], "book", "docs/book");
    let page = ("docs/book/src/ref.md", "`graph`, `a.b` and `fast`\n");
    assert_eq!(findings(&[feature, claim, profile, page]), []);
}

#[test]
fn a_design_page_outside_the_index_is_found() {
    let page = ("docs/design/zones.md", "# Zones\n");
    let index = "docs/book/src/design/index.md";
    assert_found(&[page], "design-index", index);
    let linked = (index, "[zones](../../../design/zones.md)\n");
    assert_eq!(findings(&[page, linked]), []);
}

#[test]
fn dependencies_and_their_rows_agree() {
    let none = ("docs/dependencies.md", "# none\n");
    assert_found(&[none], "dependency-row", "docs/dependencies.md");
    let unused = ("crates/base/Cargo.toml", "[dependencies]\n");
    assert_found(&[unused], "dependency-row", "docs/dependencies.md");
}

#[test]
fn a_dependency_that_no_source_names_is_found() {
    let bare = ("crates/base/src/data.rs", "//! A page.\n");
    assert_found(&[bare], "unused-dependency", "crates/base/Cargo.toml");
    let feature = "[features]\nf = [\"dep:serde\"]\n[dependencies]\nserde.workspace = true\n";
    assert_eq!(findings(&[bare, ("crates/base/Cargo.toml", feature)]), []);
}

#[test]
fn an_invariant_without_its_check_is_found() {
    let promised = "//! A page.\n//!\n//! Invariants\n//! - Keys stand\n//!   in order.";
    let checked = |name: &str| format!("{promised} Checked by `{name}`.\n");
    let found = |text: &str| {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), FILE, text);
        write(root.path(), "crates/base/tests/order.rs", "//! A page.\n");
        let tree = littoral_tidy::Tree::read(root.path()).unwrap();
        littoral_tidy::invariants::check(&tree).len()
    };
    assert_eq!(found(promised), 1, "no check is named");
    let body = |f: &str| format!("{}\n{f}\n", checked("in_order"));
    assert_eq!(found(&body("fn in_order() {}")), 1, "it asserts nothing");
    assert_eq!(found(&body("fn in_order() { debug_assert!(true) }")), 0);
    assert_eq!(found(&body("#[test]\nfn in_order() {}")), 0);
    assert_eq!(found(&checked("order")), 0, "a test target");
    assert_eq!(found(&checked("gone")), 1);
    assert_eq!(found("//! A page.\n//!\n//! Invariant: keys stand in\n//! order.\n"), 1);
    let paragraph = "//! A page.\n//!\n//! Invariant: keys stand in order. Checked by `order`.\n";
    assert_eq!(found(paragraph), 0);
    let titled = "//! A page.\n//!\n//! Invariants of a page\n//! - One.\n//! - Two.\n";
    assert_eq!(found(titled), 2, "a title with more words");
    assert_eq!(found("//! Invariants are code.\n"), 0, "a sentence is no title");
}

#[test]
fn private_references_and_words_of_the_list_are_found() {
    let private = source(&format!("// By {} A4.1.", "spec"));
    assert_found(&[(FILE, &private)], "private", "crates/base/src/a.rs:3");
    let broken = source(&format!("// By {}\n// A4.1.", "spec"));
    assert_found(&[(FILE, &broken)], "private", "crates/base/src/a.rs:3");
    let word = (1..200).map(|_| format!("// {}\n", concat!("who", "ever"))).collect::<String>();
    assert_found(&[(FILE, &source(&word))], "word", ".");
}

#[test]
fn a_path_that_prose_names_exists() {
    let gone = "see `crates/base/src/gone.rs`";
    assert_found(&[(FILE, &source(&format!("// {gone}")))], "path", "crates/base/src/a.rs:3");
    let page = ("docs/book/src/a.md", gone);
    assert_found(&[page], "path", "docs/book/src/a.md:1");
    assert_eq!(findings(&[("CHANGELOG.md", gone)]), [], "what was once there");
    let named = "`crates/NAME/src/x.rs`, `crates/base/src/lib.rs:3`, `docs/book/*.md`";
    assert_eq!(findings(&[("README.md", named)]), []);
}

#[test]
fn the_versions_of_a_format_are_those_with_fixtures() {
    let table = |versions: &str| {
        format!("| format | crate, test | versions |\n| x | `base`, `old` | {versions} |\n")
    };
    let held = ("crates/base/tests/fixtures/v2/a.txt", "a\n");
    let over = |versions: &str| findings(&[("CONTRIBUTING.md", &table(versions)), held]);
    assert_eq!(over("2"), []);
    for versions in ["1", "1, 2", "2; 1"] {
        let found = over(versions);
        assert!(matches!(&found[..], [f] if f.rule == "format"), "{versions}: {found:?}");
    }
}

#[test]
fn a_watched_path_exists() {
    let script = |path: &str| {
        format!("//! A page.\n\nfn f() {{\n    say(\"{}{path}\");\n}}\n", "rerun-if-changed=")
    };
    let file = "crates/base/codegen/main.rs";
    assert_found(&[(file, &script("build"))], "watched", file);
    assert_eq!(findings(&[(file, &script("codegen"))]), []);
}
