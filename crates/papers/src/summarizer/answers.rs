//! Equal answers whichever side computes, and counts that the interpreter confirms.
//!
//! Every query runs on text and on column pages. Pages are assigned to roads at random, once per
//! seed; a join is compared with brute force over all records.

use littoral_base::rng::{self, Rng};
use littoral_bench::claims::Figure;
use littoral_push::data::{dblp_like, join_schema};
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
    measured(SCALE, RECORDS, BRUTE).map_err(|e| e.to_string())
}

fn measured(scale: f64, records: usize, brute: usize) -> Result<Vec<(String, Figure)>> {
    let mut found = Found::default();
    for format in [Format::Text, Format::Columns] {
        for scan in scans(format, scale, records)? {
            count(&scan, format, &mut found)?;
            partition(&scan, format, &mut found)?;
        }
    }
    joins(brute, &mut found)?;
    let where_from = format!("lineitem at scale factor {scale}, {records} join records");
    let counts = format!(
        "{} runs of whole functions and splits on text and column pages of 8 KiB; {where_from}",
        found.pages
    );
    let compared = format!(
        "{} answers: four queries, two formats, {} partitions each; {brute} joins; {where_from}",
        found.answers,
        ROADS.len() as u64 + DRAWN
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

/// Joins of spread query records against every pair of token sets.
fn joins(queries: usize, found: &mut Found) -> Result<()> {
    let data = dblp_like(BRUTE_RECORDS, 9);
    let pages = page::write_all(&join_schema()?, Format::Columns, PAGE_BYTES, data.records())?;
    let (numerator, denominator) = THRESHOLD;
    for n in (0..queries).map(|n| n * BRUTE_RECORDS / queries) {
        let own = &data.records[n];
        let query = Query::join(JoinQuery::new(own.clone(), numerator, denominator)?)?;
        let answer = roads::answer(&query, Format::Columns, &pages, &[Road::Host])?;
        let is_similar = |tokens: &Vec<u32>| {
            let shared = tokens.iter().filter(|t| own.contains(t)).count();
            shared * denominator as usize >= numerator as usize * tokens.len().min(own.len())
        };
        let similar = data.records.iter().zip(&data.lines).filter(|(tokens, _)| is_similar(tokens));
        // A line is stored in 64 bits.
        let mut rows: Vec<Vec<u8>> =
            similar.map(|(_, line)| i64::from(*line).to_le_bytes().to_vec()).collect();
        rows.sort_unstable();
        found.mismatches += usize::from(rows != answer.rows);
        found.answers += 1;
    }
    Ok(())
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
}
