//! Invariants are code: what a file's header promises is asserted or checked by name.
//!
//! - An invariant is a bullet under a line that begins with `Invariants` in a file's header, or a
//!   paragraph that begins with `Invariant:`. It ends with the names of its checks: "Checked by
//!   `name`." or "Checked by `a`, `b`."
//! - A check is a function that holds an assertion, a function called `check...`, `validate...`,
//!   `verify...` or `assert...`, a constant assertion by its constant's name, a test, also one in
//!   Python, or a test target (the name of a file under `tests`). Of several of that name one
//!   suffices.
//! - Every bullet names a check.
//! - The density of assertions counts the product's functions, tests excepted. [`FLOORS`] holds it.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::source::{is_product, is_test_only};
use crate::{Finding, Tree};

/// Assertions and functions of one crate, tests excepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Density {
    /// `assert!` and its kin, `debug_assert!` among them, and constant assertions.
    pub assertions: usize,
    /// Functions with a body.
    pub functions: usize,
}

/// What the headers of one crate promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// Bullets.
    pub bullets: usize,
    /// Bullets that name no check.
    pub unchecked: usize,
}

/// Bullets that name no check, and bullets whose check does not exist.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let names = Names::read(tree);
    let mut findings = Vec::new();
    for bullet in bullets(tree) {
        if bullet.checks.is_empty() {
            let what = "names no check; end it with \"Checked by `name`.\", or make it prose";
            findings.push(Finding::new("invariant", &bullet.place, what));
        }
        let absent = bullet.checks.iter().filter(|c| !names.checks.contains(*c));
        findings.extend(absent.map(|name| {
            let what = format!("`{name}` is no check: {}", WHAT_CHECKS);
            Finding::new("invariant", &bullet.place, what)
        }));
    }
    // A crate of a few functions is a tree seeded by a test.
    let grown = |d: &Density| d.functions >= 50;
    let grown = names.densities.into_iter().filter(|(_, d)| grown(d)).collect();
    findings.extend(below_floor(&grown, FLOORS));
    findings
}

/// Least assertions per thousand functions of the crates whose state can break; they only rise. A
/// floor is a little below what the crate has.
pub const FLOORS: &[(&str, usize)] = &[
    ("index", 110),
    ("store", 110),
    ("device", 67),
    ("fabric", 60),
    ("stm", 56),
    ("push", 55),
    ("dsm", 41),
    ("graph", 40),
    ("la64", 32),
    ("runtime", 28),
    ("base", 22),
    ("xlate", 16),
];

/// Crates whose assertions have become fewer than their floor.
pub fn below_floor(
    densities: &BTreeMap<String, Density>,
    floors: &[(&str, usize)],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, least) in floors {
        let Some(d) = densities.get(*package) else { continue };
        if d.assertions * 1000 < least * d.functions {
            let found = d.assertions * 1000 / d.functions.max(1);
            let what = format!(
                "has {found} assertions per thousand functions, at least {least}: assert what an \
                 invariant says where it can break"
            );
            findings.push(Finding::new("assertions", format!("crates/{package}"), what));
        }
    }
    findings
}

const WHAT_CHECKS: &str = "name a function with an assertion, a check_*, a test or a test target";

/// The invariants of every crate's headers.
pub fn promises(tree: &Tree) -> BTreeMap<String, Promises> {
    let mut all = BTreeMap::<String, Promises>::new();
    for bullet in bullets(tree) {
        let of = all.entry(bullet.package).or_default();
        of.bullets += 1;
        of.unchecked += usize::from(bullet.checks.is_empty());
    }
    all
}

/// Assertions per function of every crate.
pub fn densities(tree: &Tree) -> BTreeMap<String, Density> {
    Names::read(tree).densities
}

struct Bullet {
    package: String,
    place: String,
    checks: Vec<String>,
}

/// The crate of a product's file.
fn package_of(path: &str) -> Option<&str> {
    let (package, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    rest.starts_with("src/").then_some(package)
}

fn bullets(tree: &Tree) -> Vec<Bullet> {
    let files = tree.rust().filter_map(|(path, text)| Some((path, package_of(path)?, text)));
    files.flat_map(|(path, package, text)| in_header(path, package, text)).collect()
}

/// Where in a header a line stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    No,
    List,
    Paragraph,
}

/// What a line opens: a list ("Invariants", "Invariants of a header"), a paragraph of one
/// ("Invariant: ..."), or neither.
fn opens(line: &str) -> Option<Inside> {
    let rest = line.strip_prefix("Invariant")?;
    let rest = rest.strip_prefix('s').unwrap_or(rest);
    match rest.chars().next() {
        Some(':') if rest.len() > 1 => Some(Inside::Paragraph),
        None | Some(':') => Some(Inside::List),
        // A sentence about invariants is none.
        Some(' ') if line.starts_with("Invariants") && !line.ends_with('.') => Some(Inside::List),
        _ => None,
    }
}

fn in_header(path: &str, package: &str, text: &str) -> Vec<Bullet> {
    let header = text.lines().map_while(|l| l.strip_prefix("//!")).map(str::trim_end);
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut inside = Inside::No;
    for (n, line) in (1..).zip(header) {
        let body = line.trim_start();
        if let Some(starts) = opens(body.trim_start_matches('#').trim_start()) {
            inside = starts;
            if inside == Inside::Paragraph {
                found.push((n, body.to_owned()));
            }
            continue;
        }
        match inside {
            Inside::No => {}
            Inside::List if body.starts_with("- ") => found.push((n, body.to_owned())),
            Inside::List if body.is_empty() && found.is_empty() => {}
            _ if body.is_empty() => inside = Inside::No,
            _ => {
                if let Some((_, last)) = found.last_mut() {
                    last.push(' ');
                    last.push_str(body);
                }
            }
        }
    }
    let bullet = |(n, text): (usize, String)| Bullet {
        package: package.to_owned(),
        place: format!("{path}:{n}"),
        checks: checks_of(&text),
    };
    found.into_iter().map(bullet).collect()
}

/// The names behind "Checked by" at a bullet's end.
fn checks_of(bullet: &str) -> Vec<String> {
    let named = bullet.rsplit_once("Checked by ").map(|(_, names)| names.trim_end_matches('.'));
    let ticked = named.into_iter().flat_map(|names| names.split(", "));
    ticked
        .filter_map(|n| n.trim().strip_prefix('`')?.strip_suffix('`'))
        .map(|n| n.rsplit("::").next().unwrap_or(n).to_owned())
        .collect()
}

/// What may check an invariant, and how dense assertions are.
#[derive(Default)]
struct Names {
    checks: BTreeSet<String>,
    densities: BTreeMap<String, Density>,
}

impl Names {
    fn read(tree: &Tree) -> Names {
        let mut names = Names::default();
        for (path, text) in tree.rust().filter(|(p, _)| p.starts_with("crates/")) {
            let target = path.split_once("/tests/").and_then(|(_, file)| file.strip_suffix(".rs"));
            names.checks.extend(target.filter(|t| !t.contains('/')).map(str::to_owned));
            // A file that does not parse is a finding of another rule.
            let Ok(file) = syn::parse_file(text) else { continue };
            let mut walk = Walk::default();
            walk.visit_file(&file);
            names.checks.extend(walk.checks);
            if let Some(package) = package_of(path).filter(|_| is_product(path)) {
                let of = names.densities.entry(package.to_owned()).or_default();
                of.assertions += walk.density.assertions;
                of.functions += walk.density.functions;
            }
        }
        for (_, text) in tree.files(|p| p.starts_with("crates/") && p.ends_with(".py")) {
            names.checks.extend(python_tests(text).map(str::to_owned));
        }
        names
    }
}

/// The test functions of a file of Python.
fn python_tests(text: &str) -> impl Iterator<Item = &str> {
    let defined = text.lines().filter_map(|line| line.strip_prefix("def "));
    let names = defined.filter_map(|rest| rest.split('(').next());
    names.filter(|name| name.starts_with("test_"))
}

#[derive(Default)]
struct Walk {
    checks: Vec<String>,
    density: Density,
    /// Assertions seen so far, those of tests among them.
    seen: usize,
    in_test: usize,
}

impl Walk {
    fn function(&mut self, name: &syn::Ident, is_test: bool, walk: impl FnOnce(&mut Self)) {
        self.in_test += usize::from(is_test);
        self.density.functions += usize::from(self.in_test == 0);
        let before = self.seen;
        walk(self);
        self.in_test -= usize::from(is_test);
        let name = name.to_string();
        let prefixes = ["check", "validate", "verify", "assert"];
        if self.seen > before || is_test || prefixes.iter().any(|p| name.starts_with(p)) {
            self.checks.push(name);
        }
    }
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        self.function(&f.sig.ident, is_test_only(&f.attrs), |w| visit::visit_item_fn(w, f));
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        self.function(&f.sig.ident, is_test_only(&f.attrs), |w| visit::visit_impl_item_fn(w, f));
    }

    fn visit_item_const(&mut self, c: &'ast syn::ItemConst) {
        let before = self.seen;
        visit::visit_item_const(self, c);
        if self.seen > before {
            self.checks.push(c.ident.to_string());
        }
    }

    fn visit_item_mod(&mut self, m: &'ast syn::ItemMod) {
        let is_test = is_test_only(&m.attrs);
        self.in_test += usize::from(is_test);
        visit::visit_item_mod(self, m);
        self.in_test -= usize::from(is_test);
    }

    fn visit_macro(&mut self, m: &'ast syn::Macro) {
        let name = m.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        let body = m.tokens.to_string();
        // Property tests and other macros hold functions that no syntax tree shows.
        let inside = name == "proptest" || name == "prop_assert";
        if inside {
            let tests = body.split("fn ").skip(1);
            let names = tests.filter_map(|t| t.split(['(', ' ', '<']).next());
            self.checks.extend(names.map(str::to_owned));
        }
        let bare = name.trim_start_matches("debug_");
        if matches!(bare, "assert" | "assert_eq" | "assert_ne") {
            self.seen += 1;
            self.density.assertions += usize::from(self.in_test == 0);
        }
        visit::visit_macro(self, m);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_below_its_floor_is_found() {
        let of = |assertions| Density { assertions, functions: 100 };
        let found =
            |assertions| below_floor(&[("a".to_owned(), of(assertions))].into(), &[("a", 50)]);
        assert_eq!((found(5).len(), found(4).len()), (0, 1));
    }

    #[test]
    fn names_behind_checked_by_are_read() {
        assert_eq!(
            checks_of("- Keys stand in order. Checked by `check_order`, `a::b`."),
            ["check_order", "b"]
        );
        assert_eq!(checks_of("- Keys stand in order."), [""; 0]);
        let python = "def test_order(a):\n    pass\n\ndef helper():\n    def test_in(): pass\n";
        assert_eq!(python_tests(python).collect::<Vec<_>>(), ["test_order"]);
    }
}
