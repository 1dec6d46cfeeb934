//! The language of the house: no private reference, few words of a list.
//!
//! - A private reference names a page that the repository does not hold: an item of a
//!   specification, of a design or of a list of work.
//! - [`WORDS`] are words that personify or that no textbook uses. Each has the number of lines that
//!   still hold it; the numbers only fall.

use crate::{Finding, Tree};

/// Beginnings of private references; a digit follows, or a capital and a digit.
const PRIVATE: &[&str] = &["spec ", "Design item ", "design item ", "issue #", "Issue #"];

/// Words, and how many lines of Rust and Markdown may still hold them.
pub const WORDS: &[(&str, usize)] = &[
    ("nobody", 36),
    ("whoever", 8),
    ("everybody", 8),
    ("obituary", 19),
    ("mourn", 2),
    ("bury", 11),
    ("buried", 1),
    ("torment", 2),
    ("sooner or later", 1),
    ("turns round", 4),
    ("is to be had", 0),
];

/// Private references, and words that stand in more lines than [`WORDS`] allows.
pub fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, WORDS)
}

/// As [`check`], with another list.
pub fn check_against(tree: &Tree, words: &[(&str, usize)]) -> Vec<Finding> {
    let mut findings = private(tree);
    for (word, most) in words {
        let lines = lines_with(tree, word);
        if lines > *most {
            let what = format!("`{word}` stands in {lines} lines, at most {most}: say who or what");
            findings.push(Finding::new("word", ".", what));
        }
    }
    findings
}

/// Every private reference.
pub fn private(tree: &Tree) -> Vec<Finding> {
    let found = read(tree).flat_map(|(path, text)| {
        let lines = (1..).zip(text.lines());
        lines.filter_map(move |(n, line)| Some((format!("{path}:{n}"), reference(line)?)))
    });
    let what =
        |reference| format!("refers to \"{reference}\", which no page here explains: link one");
    found.map(|(place, r)| Finding::new("private", place, what(r))).collect()
}

/// Lines that hold `word`, in any case.
pub fn lines_with(tree: &Tree, word: &str) -> usize {
    let holds = |line: &&str| has_word(&line.to_lowercase(), word);
    read(tree).map(|(_, text)| text.lines().filter(holds).count()).sum()
}

/// Rust and Markdown, without the rules themselves.
fn read(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let is_read = |p: &str| p.ends_with(".rs") || p.ends_with(".md");
    tree.files(move |p| is_read(p) && !p.starts_with("crates/tidy/"))
}

fn reference(line: &str) -> Option<String> {
    let starts = PRIVATE.iter().flat_map(|p| line.match_indices(p).map(|(i, m)| (i, i + m.len())));
    let at_word = |i: usize| !line[..i].ends_with(char::is_alphanumeric);
    starts.filter(|(i, _)| at_word(*i)).find_map(|(i, end)| {
        let rest = line[end..].trim_start_matches(|c: char| c.is_ascii_uppercase());
        let short = line[end..].len() - rest.len() <= 1;
        let word: String = rest.chars().take_while(|c| c.is_ascii_digit()).collect();
        (short && !word.is_empty())
            .then(|| line[i..line.len() - rest.len() + word.len()].to_owned())
    })
}

fn has_word(line: &str, word: &str) -> bool {
    let edge = |c: Option<char>| !c.is_some_and(char::is_alphanumeric);
    line.match_indices(word).any(|(i, _)| {
        edge(line[..i].chars().next_back()) && edge(line[i + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_references_are_told_from_plain_words() {
        for (line, wanted) in [
            ("the rules are spec A4.1 (a)", Some("spec A4")),
            ("Design item 1. A device", Some("Design item 1")),
            ("see issue #7", Some("issue #7")),
            ("they issue 7 reads, aspec 4", None),
            ("in spec AB4 or spec", None),
        ] {
            assert_eq!(reference(line).as_deref(), wanted, "{line}");
        }
    }
}
