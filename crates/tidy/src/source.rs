//! Rules on Rust source that need its syntax: header, lengths, printing, where `unsafe` may stand.
//!
//! - A file's length and its functions' lengths are counted without `#[cfg(test)]` items.
//! - The house's shape (median, 90 % and longest function) is checked over the whole tree, files
//!   under a `tests`, `benches`, `examples` or `fuzz` folder excepted.
//! - `unsafe` may stand only in a module called `raw`: a file `raw.rs`, a file under `raw/`, or an
//!   inline `mod raw`.

use proc_macro2::LineColumn;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::{Finding, Tree};

/// Most lines a file may have without its tests.
pub const FILE_LINES_MAX: usize = 800;
/// Most lines a function may have.
pub const FN_LINES_MAX: usize = 70;
/// Most lines a function may have for nine in ten of them.
pub const FN_LINES_P90_MAX: usize = 25;
/// The median function is shorter than this.
pub const FN_LINES_MEDIAN_BELOW: usize = 10;

const PRINTING: &[&str] = &["print", "println", "eprint", "eprintln", "dbg"];
const LEFTOVER_MACROS: &[&str] = &["dbg", "todo", "unimplemented"];
const MAY_PRINT: &[&str] = &["crates/bench/", "crates/cli/", "crates/papers/"];

/// Breaches of the source rules.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut lengths = Vec::new();
    let mut seen = 0;
    for (path, text) in tree.rust() {
        seen += 1;
        match syn::parse_file(text) {
            Ok(file) => check_file(path, text, &file, &mut findings, &mut lengths),
            Err(e) => findings.push(Finding::new("syntax", path, e.to_string())),
        }
    }
    if seen == 0 {
        findings.push(Finding::new("source", ".", "no Rust file found: the rule saw nothing"));
    }
    findings.extend(check_shape(&mut lengths));
    findings
}

fn check_file(
    path: &str,
    text: &str,
    file: &syn::File,
    findings: &mut Vec<Finding>,
    lengths: &mut Vec<usize>,
) {
    if !text.trim_start_matches("#![cfg(loom)]").trim_start().starts_with("//!") {
        findings.push(Finding::new("header", path, "does not open with a `//!` page"));
    }
    let mut walk = Walk::new(path);
    walk.visit_file(file);
    let lines = text.lines().count().saturating_sub(walk.test_lines);
    if lines > FILE_LINES_MAX {
        let what = format!("{lines} lines without tests; at most {FILE_LINES_MAX}");
        findings.push(Finding::new("file-length", path, what));
    }
    if is_product(path) {
        lengths.extend(walk.fn_lines);
    }
    findings.extend(walk.findings);
}

/// Whether a file is no test, benchmark, example or fuzz target.
pub(crate) fn is_product(path: &str) -> bool {
    !["tests/", "benches/", "examples/", "fuzz/"]
        .iter()
        .any(|f| path.starts_with(f) || path.contains(&format!("/{f}")))
}

fn check_shape(lengths: &mut [usize]) -> Option<Finding> {
    lengths.sort_unstable();
    let at = |percent: usize| lengths.get(lengths.len() * percent / 100).copied().unwrap_or(0);
    let (median, p90) = (at(50), at(90));
    let good = median < FN_LINES_MEDIAN_BELOW && p90 <= FN_LINES_P90_MAX;
    (!good).then(|| {
        let what = format!(
            "median function {median} lines (below {FN_LINES_MEDIAN_BELOW}), 90 % within {p90} \
             (at most {FN_LINES_P90_MAX})"
        );
        Finding::new("fn-shape", ".", what)
    })
}

struct Walk<'a> {
    path: &'a str,
    in_raw: bool,
    in_test: bool,
    test_lines: usize,
    fn_lines: Vec<usize>,
    findings: Vec<Finding>,
}

impl<'a> Walk<'a> {
    fn new(path: &'a str) -> Self {
        let in_raw = path.ends_with("/raw.rs") || path.contains("/raw/");
        let in_test = path.contains("/tests/") || path.starts_with("tests/");
        let (test_lines, fn_lines, findings) = (0, Vec::new(), Vec::new());
        Walk { path, in_raw, in_test, test_lines, fn_lines, findings }
    }

    fn find(&mut self, rule: &'static str, at: LineColumn, what: impl Into<String>) {
        self.findings.push(Finding::new(rule, format!("{}:{}", self.path, at.line), what));
    }

    fn function(&mut self, name: &syn::Ident, whole: proc_macro2::Span) {
        let lines = span_lines(whole);
        if lines > FN_LINES_MAX {
            let what = format!("fn {name} has {lines} lines; at most {FN_LINES_MAX}");
            self.find("fn-length", whole.start(), what);
        }
        if !self.in_test {
            self.fn_lines.push(lines);
        }
    }

    fn unsafety(&mut self, at: proc_macro2::Span) {
        if !self.in_raw {
            self.find("unsafe-place", at.start(), "`unsafe` outside a module called `raw`");
        }
    }

    fn inside_tests(&mut self, span: proc_macro2::Span, go: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.in_test, true);
        if !outer {
            self.test_lines += span_lines(span);
        }
        go(self);
        self.in_test = outer;
    }
}

fn span_lines(span: proc_macro2::Span) -> usize {
    span.end().line + 1 - span.start().line
}

/// Lines of a function without its attributes and documentation.
fn fn_span(
    vis: Option<&syn::Visibility>,
    sig: &syn::Signature,
    block: &syn::Block,
) -> proc_macro2::Span {
    let start = vis.map_or_else(|| sig.span(), |v| v.span());
    let start = if start.start().line == 0 { sig.span() } else { start };
    start.join(block.span()).unwrap_or_else(|| block.span())
}

/// Whether an item is compiled for tests alone.
pub(crate) fn is_test_only(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|a| {
        let list = a.meta.require_list().map(|l| l.tokens.to_string()).unwrap_or_default();
        a.path().is_ident("test") || (a.path().is_ident("cfg") && list == "test")
    })
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let outer = self.in_raw;
        self.in_raw |= item.ident == "raw";
        if is_test_only(&item.attrs) {
            self.inside_tests(item.span(), |w| visit::visit_item_mod(w, item));
        } else {
            visit::visit_item_mod(self, item);
        }
        self.in_raw = outer;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let whole = fn_span(Some(&item.vis), &item.sig, &item.block);
        self.function(&item.sig.ident, whole);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let whole = fn_span(Some(&item.vis), &item.sig, &item.block);
        self.function(&item.sig.ident, whole);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig.ident, fn_span(None, &item.sig, block));
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_signature(&mut self, sig: &'ast syn::Signature) {
        if let Some(word) = &sig.unsafety {
            self.unsafety(word.span());
        }
        visit::visit_signature(self, sig);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.unsafety(block.unsafe_token.span());
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Some(word) = &item.unsafety {
            self.unsafety(word.span());
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        let name = mac.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        let at = mac.path.span().start();
        if LEFTOVER_MACROS.contains(&name.as_str()) {
            self.find("leftover", at, format!("{name}! was left behind"));
        }
        let free = MAY_PRINT.iter().any(|p| self.path.starts_with(p));
        let example = ["/examples/", "/build/", "/build.rs"].iter().any(|f| self.path.contains(f));
        if PRINTING.contains(&name.as_str()) && !(free || example || self.in_test) {
            self.find(
                "printing",
                at,
                format!("{name}! outside crates/cli, crates/bench and crates/papers"),
            );
        }
        visit::visit_macro(self, mac);
    }
}
