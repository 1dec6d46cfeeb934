//! Which columns of a table are source, target and weight.
//!
//! Rules, the first that applies
//! - The caller names them, by name or by number from one.
//! - The header names one source and one target by the usual words (`source,target`, `src,dst`,
//!   `from,to`; failing these one whole pair of [`PAIRS`]); case, `_`, spaces and endings such as
//!   `_id` do not matter.
//! - Besides a weight there are two columns.
//! - Without a header: two columns, or three whose third is a number in every record and whose
//!   first does not merely count the records.
//!
//! Everything else is refused with what was found: a guess would make a wrong graph.

use littoral_base::mutant;

/// Where source, target and weight stand in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    /// How many fields a record has.
    pub(crate) count: usize,
    pub(crate) source: usize,
    pub(crate) target: usize,
    pub(crate) weight: Option<usize>,
    /// A column that says `Directed` or `Undirected`, as Gephi writes it, and which of the two.
    pub(crate) direction: Option<(usize, bool)>,
}

impl Columns {
    /// The first two of two columns.
    pub(crate) fn pair() -> Columns {
        Columns { count: 2, source: 0, target: 1, weight: None, direction: None }
    }

    /// The columns as a person would point at them: source, target, and weight when there is one.
    pub(crate) fn named(&self, header: Option<&[String]>) -> Vec<String> {
        let name = |i: usize| match header.and_then(|h| h.get(i)) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => (i + 1).to_string(),
        };
        [Some(self.source), Some(self.target), self.weight]
            .into_iter()
            .flatten()
            .map(name)
            .collect()
    }
}

/// Words for a source and a target that go with each other in any combination.
const SOURCES: [&str; 3] = ["source", "src", "from"];
const TARGETS: [&str; 6] = ["target", "tgt", "dst", "dest", "destination", "to"];

/// Pairs of words that mean source and target when both are there.
const PAIRS: [(&str, &str); 20] = [
    ("u", "v"),
    ("head", "tail"),
    ("node1", "node2"),
    ("vertex1", "vertex2"),
    ("v1", "v2"),
    ("n1", "n2"),
    ("id1", "id2"),
    ("i", "j"),
    ("start", "end"),
    ("origin", "dest"),
    ("origin", "destination"),
    ("parent", "child"),
    ("caller", "callee"),
    ("citing", "cited"),
    ("follower", "followee"),
    ("sender", "receiver"),
    ("sender", "recipient"),
    ("subject", "object"),
    ("package", "dependson"),
    ("package", "dependency"),
];

/// Words for a weight; the first one wins over the others.
const WEIGHTS: [&str; 9] =
    ["weight", "weights", "edgeweight", "w", "cost", "distance", "dist", "length", "capacity"];

const ENDINGS: [&str; 8] =
    ["nodeid", "vertexid", "nodename", "id", "node", "vertex", "name", "label"];
const BEGINNINGS: [&str; 2] = ["node", "vertex"];

/// A column's name in lower case, letters and digits alone.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether a column called `name` (plain) goes by `word`.
fn is_called(name: &str, word: &str) -> bool {
    let rest = |ending: &str| name.strip_suffix(ending) == Some(word);
    name == word
        || ENDINGS.iter().any(|e| rest(e))
        || BEGINNINGS.iter().any(|b| name.strip_prefix(b) == Some(word))
}

/// What the words of a header say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// These columns are source and target.
    Pair(usize, usize),
    /// More than one choice is possible.
    Several,
    /// No usual word is there.
    Nothing,
}

/// What the names of columns say about source and target.
pub(crate) fn said(header: &[String]) -> Said {
    let names: Vec<String> = header.iter().map(|n| plain(n)).collect();
    let all = |words: &[&str]| -> Vec<usize> {
        let called = |i: &usize| words.iter().any(|w| is_called(&names[*i], w));
        (0..names.len()).filter(called).collect()
    };
    match (&all(&SOURCES)[..], &all(&TARGETS)[..]) {
        (&[s], &[t]) => return Said::Pair(s, t),
        ([_, ..], [_, ..]) => return Said::Several,
        _ => {}
    }
    let mut found = Said::Nothing;
    for (source, target) in PAIRS {
        let pair = match (&all(&[source])[..], &all(&[target])[..]) {
            ([], _) | (_, []) => continue,
            // In a graph drawn with arrows the tail comes first, in a triple the head.
            (&[s], &[t]) if source != "head" || s < t => Said::Pair(s, t),
            _ => Said::Several,
        };
        found = match found {
            Said::Nothing => pair,
            earlier if earlier == pair => pair,
            _ => Said::Several,
        };
    }
    found
}

/// The columns that a caller named, of a table with `count` columns.
///
/// # Errors
/// Which of them is not there, or not clear.
pub(crate) fn chosen(
    wanted: &[String],
    count: usize,
    header: Option<&[String]>,
) -> Result<Columns, String> {
    if !(2..=3).contains(&wanted.len()) {
        return Err(format!(
            "--columns takes source and target, and perhaps a weight; {} were named",
            wanted.len()
        ));
    }
    let found: Vec<usize> =
        wanted.iter().map(|w| one(w, count, header)).collect::<Result<_, _>>()?;
    if found[0] == found[1] {
        let (source, target) = (&wanted[0], &wanted[1]);
        return Err(format!(
            "--columns {source},{target} names one column as source and target: every edge would \
             lead to where it begins{}",
            list(header)
        ));
    }
    let weight = found.get(2).copied();
    Ok(Columns { count, source: found[0], target: found[1], weight, direction: None })
}

fn one(wanted: &str, count: usize, header: Option<&[String]>) -> Result<usize, String> {
    let names = header.unwrap_or(&[]);
    let number = wanted.parse().ok().filter(|n| (1..=count).contains(n)).map(|n: usize| n - 1);
    for same in [|a: &str, b: &str| a == b, |a: &str, b: &str| plain(a) == plain(b)] {
        let found: Vec<usize> = (0..names.len()).filter(|&i| same(&names[i], wanted)).collect();
        match (&found[..], number) {
            (&[i], None) => return Ok(i),
            (&[i], Some(n)) if i == n => return Ok(i),
            ([], _) => {}
            _ => {
                return Err(format!(
                    "--columns {wanted} may mean more than one column{}",
                    list(header)
                ));
            }
        }
    }
    number.ok_or_else(|| match header {
        Some(_) => format!(
            "no column is called '{wanted}', and it is no number from 1 to {count}{}",
            list(header)
        ),
        None => format!("there is no header, and '{wanted}' is no column number from 1 to {count}"),
    })
}

/// The header, to be shown with a refusal.
pub(crate) fn list(header: Option<&[String]>) -> String {
    header.map_or(String::new(), |h| format!("; the header is: {}", h.join(", ")))
}

/// What to say besides what is wrong with the columns.
const SAY: &str = "say --columns SOURCE,TARGET or SOURCE,TARGET,WEIGHT, by name or number";

/// The columns that a header names.
///
/// # Errors
/// Why they are not clear, with the header.
pub(crate) fn of_header(header: &[String]) -> Result<Columns, String> {
    let names: Vec<String> = header.iter().map(|n| plain(n)).collect();
    let count = header.len();
    let weights: Vec<usize> = (0..count).filter(|&i| WEIGHTS.contains(&&*names[i])).collect();
    let first_word = weights.iter().filter(|&&i| names[i] == WEIGHTS[0]);
    let weight = match (&weights[..], &first_word.copied().collect::<Vec<_>>()[..]) {
        ([], _) => None,
        (&[i], _) | (_, &[i]) => Some(i),
        _ => {
            return Err(format!(
                "more than one column may be the weight; {SAY}{}",
                list(Some(header))
            ));
        }
    };
    let others: Vec<usize> = (0..count).filter(|i| Some(*i) != weight).collect();
    let (source, target) = match (said(header), &others[..]) {
        _ if mutant!("graph_first_two_columns") => (0, 1),
        (Said::Pair(s, t), _) => (s, t),
        (Said::Nothing, &[s, t]) => (s, t),
        _ => {
            return Err(format!("source and target are not clear; {SAY}{}", list(Some(header))));
        }
    };
    Ok(Columns { count, source, target, weight, direction: None })
}

/// The columns of a table without a header, from its first records.
///
/// # Errors
/// Why they are not clear.
pub(crate) fn of_records(records: &[Vec<String>]) -> Result<Columns, String> {
    let count = records.first().map_or(0, Vec::len);
    let is_number = |f: &String| f.parse::<f32>().is_ok_and(f32::is_finite);
    match count {
        2 => Ok(Columns::pair()),
        3 if !records.iter().all(|r| r.get(2).is_some_and(is_number)) => {
            Err(format!("three columns without a header, and the third is no weight; {SAY}"))
        }
        3 if counts(records) => Err(format!(
            "three columns without a header, and the first only counts the records; {SAY}"
        )),
        3 => Ok(Columns { count, weight: Some(2), ..Columns::pair() }),
        _ => Err(format!("{count} columns where 2 were expected, and no header names them; {SAY}")),
    }
}

/// Whether the first fields of three records or more are consecutive numbers.
fn counts(records: &[Vec<String>]) -> bool {
    let first: Option<Vec<u64>> =
        records.iter().map(|r| r.first().and_then(|f| f.parse().ok())).collect();
    let consecutive = |n: Vec<u64>| n.windows(2).all(|w| w[0].checked_add(1) == Some(w[1]));
    records.len() >= 3 && first.is_some_and(consecutive)
}

/// A column called `type`, as Gephi writes it.
pub(crate) fn direction_column(header: &[String]) -> Option<usize> {
    let is_type = |n: &String| n.eq_ignore_ascii_case("type");
    let mut found = (0..header.len()).filter(|&i| is_type(&header[i]));
    found.next().filter(|_| found.next().is_none())
}

/// What a cell of Gephi's type column says.
pub(crate) fn is_undirected(cell: &str) -> Option<bool> {
    let is = |word: &str| cell.eq_ignore_ascii_case(word);
    if is("undirected") { Some(true) } else { is("directed").then_some(false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(header: &str) -> Vec<String> {
        header.split(',').map(str::to_owned).collect()
    }

    fn of(header: &str) -> Option<(usize, usize, Option<usize>)> {
        of_header(&names(header)).ok().map(|c| (c.source, c.target, c.weight))
    }

    #[test]
    fn usual_words_are_known_in_any_case_and_place() {
        for (header, wanted) in [
            ("source,target", (0, 1, None)),
            ("id,Source,Target", (1, 2, None)),
            ("Target,Source,Type,Id,Label,Weight", (1, 0, Some(5))),
            ("year,from,to", (1, 2, None)),
            ("FromNodeId,ToNodeId", (0, 1, None)),
            ("src_ip,dst_ip", (0, 1, None)),
            ("src,dst,cost", (0, 1, Some(2))),
            ("u,v,w", (0, 1, Some(2))),
            ("head,relation,tail", (0, 2, None)),
            ("Node 1,Node 2", (0, 1, None)),
            (":START_ID,:END_ID,:TYPE", (0, 1, None)),
            ("package,depends_on,kind", (0, 1, None)),
            ("alice,bob", (0, 1, None)),
            ("weight,alice,bob", (1, 2, Some(0))),
            ("from,to,weight,distance", (0, 1, Some(2))),
            ("source,target,start,end", (0, 1, None)),
        ] {
            assert_eq!(of(header), Some(wanted), "{header}");
        }
    }

    #[test]
    fn what_is_not_clear_is_refused_with_the_header() {
        for header in [
            "source_id,source_name,target_id,target_name",
            "from,to,source,target",
            "id,name,city",
            "tail,head",
            "u,v,parent,child",
            "a,b,cost,distance",
            "source",
        ] {
            let e = of_header(&names(header)).unwrap_err();
            assert!(e.contains("--columns") && e.contains(&names(header).join(", ")), "{e}");
        }
    }

    #[test]
    fn callers_name_columns_by_name_or_number() {
        let header = names("id,From,to,Weight,2");
        let of = |wanted: &str| chosen(&names(wanted), 5, Some(&header));
        let c = of("From,to,Weight").unwrap();
        assert_eq!((c.source, c.target, c.weight), (1, 2, Some(3)));
        let c = of("3,from").unwrap();
        assert_eq!((c.source, c.target, c.weight), (2, 1, None));
        for bad in ["from", "from,absent", "from,6", "0,1", "1,2", "a,b,c,d", "to,to", "3,to"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert!(of("to,3").unwrap_err().contains("one column as source and target"));
        assert!(chosen(&names("from,to"), 2, None).unwrap_err().contains("no header"));
        assert_eq!(chosen(&names("2,1"), 2, None).unwrap().source, 1);
    }
}
