//! Equal answers whichever side computes, and counts that the interpreter confirms.
//!
//! - Every query runs on text and on column pages. Pages are assigned to roads at random, once per
//!   seed; a join is compared with brute force over all records, on every road.
//! - Q1, Q6 and Q14 at scale factor 0.1 are compared with DuckDB's rows, where its Python package
//!   is present ([`littoral_assure::push::duckdb`]); elsewhere the claim's note says that they were
//!   not.

use littoral_assure::push::duckdb::{Peer, rows_of};
use littoral_base::rng::{self, Rng};
use littoral_bench::claims::Figure;
use littoral_push::data::{
    JoinData, dblp_like, join_schema, lineitem, lineitem_schema, promo_parts,
};
use littoral_push::error::Result;
use littoral_push::function::{Answer, Compiled, Machine, Query as JoinQuery, reference};
use littoral_push::page::{self, Format};
use littoral_push::query::Query;
use littoral_push::roads::{self, ROADS, Road};

use super::Figures;
use super::data::{PAGE_BYTES, Scan, THRESHOLD, scans};

/// Scale factor of the pages: a tenth of the paper's.
const SCALE: f64 = 0.01;
/// Records of the join.
const RECORDS: usize = 90_000;
/// Partitions of each scan: one per road alone, and as many drawn.
const DRAWN: u64 = 5;
/// Join queries that are compared with brute force, over [`BRUTE_RECORDS`] records.
const BRUTE: usize = 20;
const BRUTE_RECORDS: usize = 5_000;

/// Scale factor of the comparison with DuckDB.
const PEER_SCALE: f64 = 0.1;
/// Bytes of its pages.
const PEER_PAGE_BYTES: usize = 16384;

/// Pages whose counts differ, pages, answers that differ, answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    off: usize,
    pages: usize,
    mismatches: usize,
    answers: usize,
}

/// The claims of answers and counts.
///
/// # Errors
/// When a query or its pages are refused.
pub fn answers() -> Figures {
    let mut figures = measured(SCALE, RECORDS, BRUTE).map_err(|e| e.to_string())?;
    let (rows, note) = beside_duckdb(PEER_SCALE)?;
    for (_, figure) in figures.iter_mut().filter(|(id, _)| id == "push.answers.mismatch") {
        figure.value += rows as f64;
        figure.notes.push(note.clone());
    }
    Ok(figures)
}

/// Rows of Q1, Q6 and Q14 that differ from DuckDB's, in both formats of pages, which take every
/// road in turn; and what was compared.
fn beside_duckdb(scale: f64) -> std::result::Result<(usize, String), String> {
    let failed = |e: std::io::Error| format!("the peer: {e}");
    let folder = tempfile::tempdir().map_err(failed)?;
    let Some(mut peer) = Peer::start(scale, folder.path()).map_err(failed)? else {
        let note = "not compared with DuckDB: its package is not in LITTORAL_PYTHON or python3";
        return Ok((0, note.to_owned()));
    };
    let (mut differing, mut rows) = (0, 0);
    let words = |e: littoral_push::error::Error| e.to_string();
    let schema = lineitem_schema().map_err(words)?;
    for format in [Format::Text, Format::Columns] {
        let pages = page::write_all(&schema, format, PEER_PAGE_BYTES, lineitem(scale));
        let pages = pages.map_err(words)?;
        for query in [Query::q1(), Query::q6(), Query::q14(promo_parts(scale))] {
            let query = query.map_err(words)?;
            let answer = roads::answer(&query, format, &pages, &ROADS).map_err(words)?;
            let theirs = peer.ask(query.name).map_err(failed)?.rows;
            differing += rows_apart(&rows_of(query.name, &answer), &theirs);
            rows += theirs.lines().count();
        }
    }
    let version = peer.version();
    let note =
        format!("{rows} rows compared with those of DuckDB {version} at scale factor {scale}");
    Ok((differing, note))
}

/// Lines of either text that are not the other's at their place.
fn rows_apart(ours: &str, theirs: &str) -> usize {
    let (a, b): (Vec<&str>, Vec<&str>) = (ours.lines().collect(), theirs.lines().collect());
    let places = 0..a.len().max(b.len());
    places.filter(|&n| a.get(n) != b.get(n)).count()
}

fn measured(scale: f64, records: usize, brute: usize) -> Result<Vec<(String, Figure)>> {
    let mut found = Found::default();
    for format in [Format::Text, Format::Columns] {
        for scan in scans(format, scale, records)? {
            count(&scan, format, &mut found)?;
            partition(&scan, format, &mut found)?;
        }
    }
    for format in [Format::Text, Format::Columns] {
        joins(format, brute, &mut found)?;
    }
    let where_from = format!("lineitem at scale factor {scale}, {records} join records");
    let counts = format!(
        "{} runs of whole functions and splits on text and column pages of 8 KiB; {where_from}",
        found.pages
    );
    let compared = format!(
        "{} answers: four queries, two formats, {} partitions each; {brute} joins in two formats \
         on {} roads and their mixture; {where_from}",
        found.answers,
        ROADS.len() as u64 + DRAWN,
        ROADS.len()
    );
    Ok(vec![
        ("push.twin.counts".to_owned(), Figure::new(found.off as f64, counts)),
        ("push.answers.mismatch".to_owned(), Figure::new(found.mismatches as f64, compared)),
    ])
}

/// Twin and interpreter on every page, of the whole function and of the split.
fn count(scan: &Scan, format: Format, found: &mut Found) -> Result<()> {
    for function in [&scan.query.whole, &scan.query.split] {
        let compiled = Compiled::new(function, format)?;
        let mut core = Machine::new(&compiled, &scan.query.params)?;
        for page in scan.pages.iter() {
            let twin = compiled.twin(&scan.query.params, page)?;
            let (result, instructions) = core.run(page, u64::MAX)?;
            let is_equal = twin.instructions == instructions && twin.result == result;
            found.off += usize::from(!is_equal);
            found.pages += 1;
        }
    }
    Ok(())
}

/// Partitions of the pages against the interpreter of the language.
fn partition(scan: &Scan, format: Format, found: &mut Found) -> Result<()> {
    let mut expected = Answer::default();
    for page in scan.pages.iter() {
        expected.merge(&reference::answer(&scan.query.whole, &scan.query.params, page)?);
    }
    let mut partitions: Vec<Vec<Road>> = ROADS.iter().map(|&road| vec![road]).collect();
    for seed in 0..DRAWN {
        let mut random = rng::stream(seed, scan.name);
        let draw = |_| ROADS[random.random_range(0..ROADS.len())];
        partitions.push((0..scan.pages.len()).map(draw).collect());
    }
    for partition in partitions {
        let answer = roads::answer(&scan.query, format, &scan.pages, &partition)?;
        found.mismatches += usize::from(answer != expected);
        found.answers += 1;
    }
    Ok(())
}

/// Joins of spread query records against every pair of token sets, on each road alone and on all of
/// them in turn.
fn joins(format: Format, queries: usize, found: &mut Found) -> Result<()> {
    let data = dblp_like(BRUTE_RECORDS, 9);
    let pages = page::write_all(&join_schema()?, format, PAGE_BYTES, data.records())?;
    let (numerator, denominator) = THRESHOLD;
    for n in (0..queries).map(|n| n * BRUTE_RECORDS / queries) {
        let own = &data.records[n];
        let query = Query::join(JoinQuery::new(own.clone(), numerator, denominator)?)?;
        let expected = similar(&data, own);
        for roads in ROADS.iter().map(std::slice::from_ref).chain([&ROADS[..]]) {
            let answer = roads::answer(&query, format, &pages, roads)?;
            found.mismatches += usize::from(answer.rows != expected);
            found.answers += 1;
        }
    }
    Ok(())
}

/// The rows of every record that is similar to `own`, sorted.
fn similar(data: &JoinData, own: &[u32]) -> Vec<Vec<u8>> {
    let (numerator, denominator) = THRESHOLD;
    let is_similar = |tokens: &Vec<u32>| {
        let shared = tokens.iter().filter(|t| own.contains(t)).count();
        shared * denominator as usize >= numerator as usize * tokens.len().min(own.len())
    };
    let similar = data.records.iter().zip(&data.lines).filter(|(tokens, _)| is_similar(tokens));
    // A line is stored in 64 bits.
    let mut rows: Vec<Vec<u8>> =
        similar.map(|(_, line)| i64::from(*line).to_le_bytes().to_vec()).collect();
    rows.sort_unstable();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_scans_agree_on_every_road() {
        let figures = measured(0.0005, 500, 3).unwrap();
        assert!(figures.iter().all(|(_, figure)| figure.value == 0.0), "{figures:?}");
        assert_eq!(figures.len(), 2);
    }

    #[test]
    fn rows_that_differ_or_are_missing_are_counted() {
        assert_eq!(rows_apart("1 2\n3\n", "1 2\n3\n"), 0);
        assert_eq!(rows_apart("1 2\n4\n", "1 2\n3\n5\n"), 2);
    }

    #[test]
    fn answers_are_compared_with_duckdbs_or_the_note_says_that_they_are_not() {
        let (rows, note) = beside_duckdb(0.002).unwrap();
        assert_eq!(rows, 0, "{note}");
        assert!(note.starts_with("12 rows compared") || note.starts_with("not compared"), "{note}");
    }
}
