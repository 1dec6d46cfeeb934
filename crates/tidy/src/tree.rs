//! The files a rule may look at, read once.
//!
//! - Build outputs (`target`, `target-*`), version control and hidden folders other than `.ci` are
//!   left out; everything else that is text is in.
//! - Paths are relative to the root and use `/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Text files by path relative to the root.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
    binaries: Vec<String>,
}

impl Tree {
    /// Reads every text file under `root`.
    ///
    /// # Errors
    /// The words of the failure when a folder or file cannot be read.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> Result<(), String> {
        let words = |e: std::io::Error| format!("{}: {e}", folder.display());
        for entry in fs::read_dir(folder).map_err(words)? {
            let entry = entry.map_err(words)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if is_hidden(&name) {
                continue;
            }
            if entry.file_type().map_err(words)?.is_dir() {
                if is_looked_into(&path) {
                    self.read_folder(&entry.path(), &format!("{path}/"))?;
                }
            } else {
                self.add(path, fs::read(entry.path()).map_err(words)?);
            }
        }
        Ok(())
    }

    fn add(&mut self, path: String, bytes: Vec<u8>) {
        match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => drop(self.files.insert(path, text)),
            _ => self.binaries.push(path),
        }
    }

    /// Text files whose path passes `keep`.
    pub fn files(&self, keep: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter(move |(p, _)| keep(p)).map(|(p, t)| (p.as_str(), t.as_str()))
    }

    /// Rust sources of the workspace and its excluded packages.
    pub fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files(|p| p.ends_with(".rs"))
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Files that are not text and whose path begins with `prefix`.
    pub fn binaries<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.binaries.iter().map(String::as_str).filter(move |p| p.starts_with(prefix))
    }

    /// Whether `path` is a file, text or not, or a folder with a file in it.
    pub fn holds(&self, path: &str) -> bool {
        let inside = format!("{}/", path.trim_end_matches('/'));
        self.files.contains_key(path)
            || self.binaries.iter().any(|b| b == path || b.starts_with(&inside))
            || self
                .files
                .range(inside.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&inside))
    }
}

fn is_looked_into(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let built = name == "target" || name.starts_with("target-");
    !(built || ["fuzz/corpus", "fuzz/artifacts", "docs/book/book"].contains(&path))
}

fn is_hidden(name: &str) -> bool {
    name.starts_with('.') && name != ".ci"
}
