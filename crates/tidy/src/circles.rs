//! Circles of modules inside one crate: two siblings that import each other, directly or through
//! others.
//!
//! - A module is a file of a crate's `src` or an inline `mod`, tests excepted. What a path names is
//!   found through `crate`, `self`, `super`, child modules, and the `use` items of the modules on
//!   the way, so a re-export leads to where the item is.
//! - A reference joins the two siblings under which the two modules stand. A module and the ones
//!   inside it may name each other: that is no circle.
//! - A circle is a finding: there is no list of exceptions.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{LineColumn, TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::source::is_test_only;
use crate::{Finding, Tree};

/// Re-exports followed for one path; more would be a circle of re-exports.
const HOPS_MAX: usize = 8;

type Path = Vec<String>;

/// Modules that reach each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circle {
    /// The folder under `crates`.
    pub package: String,
    /// The module in which they stand, empty for the crate's root.
    pub above: String,
    /// Their names.
    pub modules: Vec<String>,
    /// One reference for each direct import among them: from, to, file and line.
    pub links: Vec<(String, String, String)>,
}

/// A finding for every circle.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let finding = |c: &Circle| Finding::new("circle", format!("crates/{}", c.package), describe(c));
    find(tree).iter().map(finding).collect()
}

/// Every circle of every crate.
pub fn find(tree: &Tree) -> Vec<Circle> {
    packages(tree).into_iter().flat_map(|p| Package::read(tree, p).circles()).collect()
}

fn describe(circle: &Circle) -> String {
    let above = if circle.above.is_empty() { "its root" } else { &circle.above };
    let links: Vec<_> =
        circle.links.iter().map(|(a, b, at)| format!("{a} -> {b} ({at})")).collect();
    format!("modules in {above} import each other in a circle: {}", links.join(", "))
}

fn packages(tree: &Tree) -> BTreeSet<&str> {
    let sources = tree.rust().filter_map(|(p, _)| p.strip_prefix("crates/")?.split_once("/src/"));
    sources.map(|(package, _)| package).filter(|p| !p.contains('/')).collect()
}

/// What a module says: what it defines, what its `use` items bind, and which paths it names.
#[derive(Default)]
struct Module {
    defined: BTreeSet<String>,
    bindings: BTreeMap<String, Path>,
    globs: Vec<Path>,
    named: Vec<(Path, String)>,
}

struct Package {
    name: String,
    modules: BTreeMap<Path, Module>,
}

impl Package {
    fn read(tree: &Tree, name: &str) -> Package {
        let mut package = Package { name: name.into(), modules: BTreeMap::new() };
        let prefix = format!("crates/{name}/src/");
        let files = tree.rust().filter(|(p, _)| p.starts_with(&prefix));
        let parsed: Vec<_> = files
            .filter_map(|(p, text)| Some((p, module_of(&p[prefix.len()..])?, text)))
            .filter_map(|(p, module, text)| Some((p, module, syn::parse_file(text).ok()?)))
            .collect();
        let tests = tests_of(&parsed);
        for (path, module, file) in &parsed {
            if !tests.iter().any(|t| module.starts_with(t)) {
                let mut walk = Walk { file: path, at: module.clone(), modules: BTreeMap::new() };
                walk.modules.entry(module.clone()).or_default();
                walk.visit_file(file);
                package.modules.extend(walk.modules);
            }
        }
        package
    }

    fn circles(&self) -> Vec<Circle> {
        let mut links: BTreeMap<Path, BTreeMap<(String, String), String>> = BTreeMap::new();
        for (from, module) in &self.modules {
            for (path, at) in &module.named {
                let Some(to) = self.resolve(from, path, HOPS_MAX) else { continue };
                let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if let (Some(a), Some(b)) = (from.get(common), to.get(common)) {
                    let level = links.entry(from[..common].to_vec()).or_default();
                    level.entry((a.clone(), b.clone())).or_insert_with(|| at.clone());
                }
            }
        }
        links.iter().flat_map(|(above, links)| self.circles_of(above, links)).collect()
    }

    fn circles_of(&self, above: &Path, links: &BTreeMap<(String, String), String>) -> Vec<Circle> {
        let circle = |modules: BTreeSet<&str>| {
            let inside = |name: &str| modules.contains(name);
            let within = links.iter().filter(|((a, b), _)| inside(a) && inside(b));
            Circle {
                package: self.name.clone(),
                above: above.join("::"),
                modules: modules.iter().map(|m| m.to_string()).collect(),
                links: within.map(|((a, b), at)| (a.clone(), b.clone(), at.clone())).collect(),
            }
        };
        components(links.keys()).into_iter().map(circle).collect()
    }

    /// The module in which the item stands that `path` names in the module `from`; `None` where it
    /// leads out of the crate.
    fn resolve(&self, from: &Path, path: &[String], hops: usize) -> Option<Path> {
        let mut here = from.clone();
        for (n, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => here.clear(),
                "self" => {}
                "super" => drop(here.pop()?),
                name => {
                    let child: Path = here.iter().cloned().chain([name.to_string()]).collect();
                    if self.modules.contains_key(&child) {
                        here = child;
                        continue;
                    }
                    let module = self.modules.get(&here)?;
                    return match module.bindings.get(name) {
                        Some(_) if hops == 0 => Some(here),
                        Some(to) => {
                            let rest = [to, &path[n + 1..]].concat();
                            self.resolve(&here, &rest, hops - 1)
                        }
                        None if n == 0 => None,
                        None => Some(self.through_globs(&here, name, hops)),
                    };
                }
            }
        }
        Some(here)
    }

    /// Where `name`, which `here` itself may or may not define, comes from.
    fn through_globs(&self, here: &Path, name: &str, hops: usize) -> Path {
        let globs = self.modules.get(here).map_or(&[][..], |m| &m.globs);
        let bound = globs.iter().filter(|_| hops > 0).find_map(|glob| {
            let module = self.resolve(here, glob, hops - 1)?;
            let said = self.modules.get(&module)?;
            if said.defined.contains(name) {
                return Some(module);
            }
            let path = said.bindings.get(name)?;
            self.resolve(&module, path, hops - 1)
        });
        bound.unwrap_or_else(|| here.clone())
    }
}

/// The module that a file of `src` is; `None` for programs beside the library.
fn module_of(inside: &str) -> Option<Path> {
    let stem = inside.strip_suffix(".rs")?;
    if stem.starts_with("bin/") {
        return None;
    }
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    Some(match stem {
        "lib" | "main" => Vec::new(),
        _ => stem.split('/').map(String::from).collect(),
    })
}

/// Modules in files of their own that exist for tests only.
fn tests_of(parsed: &[(&str, Path, syn::File)]) -> Vec<Path> {
    let declared = parsed.iter().flat_map(|(_, module, file)| {
        let mods = file.items.iter().filter_map(|item| match item {
            syn::Item::Mod(m) if m.content.is_none() && is_test_only(&m.attrs) => Some(m),
            _ => None,
        });
        mods.map(|m| module.iter().cloned().chain([m.ident.to_string()]).collect())
    });
    declared.collect()
}

/// Strongly connected components of more than one module.
fn components<'a>(links: impl Iterator<Item = &'a (String, String)>) -> Vec<BTreeSet<&'a str>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in links {
        next.entry(from).or_default().insert(to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        next.keys().map(|&from| (from, reach(&next, from))).collect();
    let mut done = BTreeSet::new();
    let mut circles = Vec::new();
    for (&module, to) in &reached {
        if to.contains(module) && !done.contains(module) {
            let back = |m: &&&str| reached.get(**m).is_some_and(|r| r.contains(module));
            let circle: BTreeSet<&str> = to.iter().filter(back).copied().collect();
            done.extend(circle.iter().copied());
            circles.push(circle);
        }
    }
    circles
}

fn reach<'a>(next: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for &to in next.get(module).into_iter().flatten() {
            if seen.insert(to) {
                open.push(to);
            }
        }
    }
    seen
}

struct Walk<'a> {
    file: &'a str,
    at: Path,
    modules: BTreeMap<Path, Module>,
}

impl Walk<'_> {
    fn module(&mut self) -> &mut Module {
        self.modules.entry(self.at.clone()).or_default()
    }

    fn names(&mut self, path: Path, line: LineColumn) {
        let at = format!("{}:{}", self.file, line.line);
        self.module().named.push((path, at));
    }

    fn uses(&mut self, tree: &syn::UseTree, before: &[String]) {
        let joined = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(p) => self.uses(&p.tree, &joined(&p.ident)),
            syn::UseTree::Group(g) => g.items.iter().for_each(|t| self.uses(t, before)),
            syn::UseTree::Name(n) if n.ident == "self" => {
                let name = before.last().cloned().unwrap_or_default();
                self.bind(name, before.to_vec(), n.ident.span().start());
            }
            syn::UseTree::Name(n) => {
                self.bind(n.ident.to_string(), joined(&n.ident), n.ident.span().start());
            }
            syn::UseTree::Rename(r) => {
                self.bind(r.rename.to_string(), joined(&r.ident), r.ident.span().start());
            }
            syn::UseTree::Glob(g) => {
                self.names(before.to_vec(), g.star_token.spans[0].start());
                self.module().globs.push(before.to_vec());
            }
        }
    }

    fn bind(&mut self, name: String, path: Path, line: LineColumn) {
        self.names(path.clone(), line);
        // A binding that names itself (`use raw;`) says nothing.
        if path != [name.clone()] {
            self.module().bindings.insert(name, path);
        }
    }

    /// Paths in what a macro is given, which is not parsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let list: Vec<TokenTree> = tokens.into_iter().collect();
        let ident = |n: usize| match list.get(n) {
            Some(TokenTree::Ident(i)) => Some(i),
            _ => None,
        };
        let colon =
            |n: usize| matches!(list.get(n), Some(TokenTree::Punct(p)) if p.as_char() == ':');
        let mut n = 0;
        while n < list.len() {
            if let TokenTree::Group(group) = &list[n] {
                self.tokens(group.stream());
            }
            let start = ident(n).filter(|i| leads(&i.to_string()));
            let Some(start) = start else {
                n += 1;
                continue;
            };
            let mut path = vec![start.to_string()];
            n += 1;
            while let (true, true, Some(next)) = (colon(n), colon(n + 1), ident(n + 2)) {
                path.push(next.to_string());
                n += 3;
            }
            self.names(path, start.span().start());
        }
    }
}

/// Whether a path that begins so is this crate's for certain.
fn leads(first: &str) -> bool {
    ["crate", "self", "super"].contains(&first)
}

/// The name that an item defines, other than a module.
fn defines(item: &syn::Item) -> Option<&syn::Ident> {
    Some(match item {
        syn::Item::Const(i) => &i.ident,
        syn::Item::Enum(i) => &i.ident,
        syn::Item::Fn(i) => &i.sig.ident,
        syn::Item::Static(i) => &i.ident,
        syn::Item::Struct(i) => &i.ident,
        syn::Item::Trait(i) => &i.ident,
        syn::Item::Type(i) => &i.ident,
        syn::Item::Union(i) => &i.ident,
        _ => return None,
    })
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if let Some(name) = defines(item) {
            self.module().defined.insert(name.to_string());
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_none() || is_test_only(&item.attrs) {
            return;
        }
        self.at.push(item.ident.to_string());
        self.module();
        visit::visit_item_mod(self, item);
        self.at.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test_only(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test_only(&item.attrs) {
            self.uses(&item.tree, &[]);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Path = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if names.len() > 1 && leads(&names[0]) {
            self.names(names, path.segments[0].ident.span().start());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.tokens(mac.tokens.clone());
        visit::visit_macro(self, mac);
    }

    // `pub(in super::super)` and attributes import nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}
