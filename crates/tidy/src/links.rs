//! Links in documents resolve: a relative link names a file in the tree, an anchor names a heading.
//!
//! Links to the web are not followed (no network in a test); links inside code blocks are not
//! links.

use crate::{Finding, Tree};

/// Breaches of the link rule.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = 0;
    for (path, text) in tree.files(|p| p.ends_with(".md")) {
        for (line, target) in links(text) {
            seen += 1;
            if let Some(what) = breach(tree, path, target) {
                findings.push(Finding::new("link", format!("{path}:{line}"), what));
            }
        }
    }
    if seen == 0 {
        findings.push(Finding::new("link", ".", "no link found: the rule saw nothing"));
    }
    findings
}

/// Inline links of a Markdown text with their line numbers, code left out.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (i, line) in text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code {
            continue;
        }
        let bare = line.split('`').step_by(2);
        let starts =
            bare.flat_map(|part| part.match_indices("](").map(move |(at, _)| &part[at + 2..]));
        found.extend(starts.filter_map(|rest| Some((i + 1, rest.split_once(')')?.0))));
    }
    found
}

fn breach(tree: &Tree, page: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let resolved = if file.is_empty() { page.to_owned() } else { resolve(page, file)? };
    if !resolved.is_empty() && !tree.holds(&resolved) {
        return Some(format!("link to {target}: there is no {resolved}"));
    }
    let text = tree.text(&resolved)?;
    let known = anchor.is_empty() || text.lines().any(|l| l.starts_with('#') && slug(l) == anchor);
    (!known).then(|| format!("link to {target}: {resolved} has no such heading"))
}

/// `file` as seen from `page`, relative to the root; `None` when it leaves the tree.
fn resolve(page: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn slug(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    words
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}
