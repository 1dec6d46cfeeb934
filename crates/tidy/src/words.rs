//! The language of the house: no private reference, few words of a list.
//!
//! - A private reference names a page that the repository does not hold: an item of a
//!   specification, of a design or of a list of work. A paragraph is read as one line.
//! - [`WORDS`] are words that personify or that no textbook uses. Each has the number of lines that
//!   still hold it; the numbers only fall.

use crate::{Finding, Tree};

/// Beginnings of private references; a digit follows, or a capital and a digit.
const PRIVATE: &[&str] = &[
    "spec ",
    "Design item ",
    "design item ",
    "issue #",
    "Issue #",
    "(row ",
    "(rows ",
    "Deviation from ",
];

/// Words, and how many lines of Rust and Markdown may still hold them; every number is 0 by now. A
/// new word may begin with the lines that hold it.
pub const WORDS: &[(&str, usize)] = &[
    ("nobody", 0),
    ("whoever", 0),
    ("everybody", 0),
    ("anybody", 0),
    ("somebody", 0),
    ("obituary", 0),
    ("obituaries", 0),
    ("mourn", 0),
    ("mourning", 0),
    ("bury", 0),
    ("buries", 0),
    ("buried", 0),
    ("crew", 0),
    ("culprit", 0),
    ("culprits", 0),
    ("struck down", 0),
    ("torment", 0),
    ("torture", 0),
    ("sooner or later", 0),
    ("turns round", 0),
    ("is to be had", 0),
    ("was not to be had", 0),
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

/// Every private reference, in Markdown and in the comments of Rust.
pub fn private(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in read(tree) {
        for paragraph in paragraphs(text, path.ends_with(".rs")) {
            findings.extend(references(&paragraph.text).into_iter().map(|(at, reference)| {
                let what =
                    format!("refers to \"{reference}\", which no page here explains: link one");
                Finding::new("private", format!("{path}:{}", paragraph.line_at(at)), what)
            }));
        }
    }
    findings
}

/// Lines of prose put together, so that a reference over a line break is one.
struct Paragraph {
    text: String,
    /// Where each line begins in `text`, and its number.
    lines: Vec<(usize, usize)>,
}

impl Paragraph {
    fn line_at(&self, at: usize) -> usize {
        self.lines.iter().rev().find(|(from, _)| *from <= at).map_or(0, |(_, n)| *n)
    }
}

/// The paragraphs of a page, or of a source's comments.
fn paragraphs(text: &str, is_code: bool) -> Vec<Paragraph> {
    let mut found = Vec::new();
    let mut open = Paragraph { text: String::new(), lines: Vec::new() };
    for (n, line) in (1..).zip(text.lines()) {
        let body = if is_code { comment(line) } else { Some(line.trim()) };
        if body.is_none_or(str::is_empty) {
            found.push(std::mem::replace(
                &mut open,
                Paragraph { text: String::new(), lines: vec![] },
            ));
        } else if let Some(body) = body {
            open.lines.push((open.text.len(), n));
            open.text.push_str(body);
            open.text.push(' ');
        }
    }
    found.push(open);
    found
}

/// What a line that is a comment says.
fn comment(line: &str) -> Option<&str> {
    let body = line.trim_start().strip_prefix("//")?;
    Some(body.strip_prefix(['/', '!']).unwrap_or(body).trim())
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

/// Where private references begin in a paragraph, and what they say.
fn references(text: &str) -> Vec<(usize, String)> {
    let at_word = |i: usize| !text[..i].ends_with(char::is_alphanumeric);
    let of = |prefix: &'static str| text.match_indices(prefix).map(|(i, m)| (i, i + m.len()));
    let prefixed = PRIVATE.iter().flat_map(|p| of(p)).filter(|(i, _)| at_word(*i));
    let numbered = prefixed.filter_map(|(i, end)| Some((i, end + label(&text[end..])?)));
    let papers = of("specification");
    // "(A4.1)": a section of a specification, A to E.
    let bare = of("(").filter(|(i, end)| {
        let rest = &text[*end..];
        let is_call = text[..*i].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        rest.starts_with(|c| ('A'..='E').contains(&c)) && label(rest).is_some() && !is_call
    });
    let bare = bare.map(|(i, end)| (i, end + 2));
    let range = |c: char| {
        move |(i, _): &(usize, &str)| {
            text[..*i].ends_with(char::is_numeric) && text[i + 4..].starts_with(c)
        }
    };
    let ranges = ['L', 'N'].into_iter().flat_map(|c| text.match_indices(" to ").filter(range(c)));
    let ranges = ranges.filter(|(i, m)| label(&text[i + m.len()..]).is_some());
    let ranges = ranges.map(|(i, m)| (i, i + m.len() + 2));
    let mut all: Vec<_> = numbered.chain(papers).chain(bare).chain(ranges).collect();
    all.sort_unstable();
    all.into_iter().map(|(i, end)| (i, text[i..end].to_owned())).collect()
}

/// Bytes of a label at the beginning: at most one capital, then digits.
fn label(text: &str) -> Option<usize> {
    let digits = text.strip_prefix(|c: char| c.is_ascii_uppercase()).unwrap_or(text);
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < digits.len()).then_some(text.len() - rest.len())
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
            ("the timed ones of the specification", Some("specification")),
            ("a plain load (A4.5)", Some("(A4")),
            ("see (row 10)", Some("(row 10")),
            ("the steps L1 to L5", Some(" to L5")),
            ("f(A0, 1) and (AMD EPYC)", None),
            ("they issue 7 reads, aspec 4", None),
            ("in spec AB4 or spec", None),
        ] {
            let found: Vec<String> = references(line).into_iter().map(|(_, r)| r).collect();
            assert_eq!(found.first().map(String::as_str), wanted, "{line}");
        }
    }

    #[test]
    fn a_reference_over_a_line_break_is_found_at_its_first_line() {
        let text = "//! It wastes space (spec\n//! A4). Here\nlet a = (A4, 1);\n";
        let paragraphs = paragraphs(text, true);
        let found: Vec<(usize, String)> = paragraphs
            .iter()
            .flat_map(|p| references(&p.text).into_iter().map(|(at, r)| (p.line_at(at), r)))
            .collect();
        assert_eq!(found, [(1, "spec A4".to_owned())]);
    }
}
