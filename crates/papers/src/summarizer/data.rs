//! What is scanned: text pages of 8 KiB, and what each of them costs each query.
//!
//! - Q1, Q6 and Q14 scan lineitem at the paper's scale factor, made by the crate `tpchgen`; the
//!   join scans as many records as the paper's, drawn like bibliographic ones, for one query.
//! - Costs are counts of the page functions' native twins on every page.
//! - Pages and costs are made once per process: about [`RECORDS`] records take seconds.

use std::sync::{Arc, OnceLock};

use littoral_push::cost::TaskCosts;
use littoral_push::data::{dblp_like, join_schema, lineitem, lineitem_schema, promo_parts};
use littoral_push::error::Result;
use littoral_push::function::Query as JoinQuery;
use littoral_push::page::{self, Format};
use littoral_push::query::Query;

/// The paper's scale factor of TPC-H.
pub const SCALE: f64 = 0.1;
/// The paper's records of the similarity join.
pub const RECORDS: usize = 900_000;
/// Bytes of a page.
pub const PAGE_BYTES: usize = 8192;
/// The join's threshold: four shared tokens of five.
pub const THRESHOLD: (u32, u32) = (4, 5);
/// Seed of the join's records.
const SEED: u64 = 2017;

/// A query and the pages that it scans.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Its name in claims.
    pub name: &'static str,
    /// The query.
    pub query: Query,
    /// The pages, shared by the queries of one table.
    pub pages: Arc<Vec<Vec<u8>>>,
}

/// The paper's four queries on data of a scale factor and a number of join records, in the order of
/// the paper's gains.
///
/// # Errors
/// When a query or its pages are refused.
pub fn scans(format: Format, scale: f64, records: usize) -> Result<[Scan; 4]> {
    let lines = page::write_all(&lineitem_schema()?, format, PAGE_BYTES, lineitem(scale))?;
    let lines = Arc::new(lines);
    let join = dblp_like(records, SEED);
    let pages = page::write_all(&join_schema()?, format, PAGE_BYTES, join.records())?;
    let (numerator, denominator) = THRESHOLD;
    let middle = join.records[records / 2].clone();
    let similar = Query::join(JoinQuery::new(middle, numerator, denominator)?)?;
    let scan = |name, query| Scan { name, query, pages: Arc::clone(&lines) };
    Ok([
        scan("q14", Query::q14(promo_parts(scale))?),
        scan("q6", Query::q6()?),
        scan("q1", Query::q1()?),
        Scan { name: "sj", query: similar, pages: Arc::new(pages) },
    ])
}

/// The paper's four tasks by the names of its claims, and what their text pages cost.
pub type Tasks = Vec<(&'static str, TaskCosts)>;

/// The paper's four tasks at the paper's size.
///
/// # Errors
/// When a query or its pages are refused.
pub fn tasks() -> std::result::Result<&'static Tasks, String> {
    static TASKS: OnceLock<std::result::Result<Tasks, String>> = OnceLock::new();
    let made = TASKS.get_or_init(|| costs(SCALE, RECORDS).map_err(|e| e.to_string()));
    made.as_ref().map_err(Clone::clone)
}

/// Costs of the four queries on text pages.
fn costs(scale: f64, records: usize) -> Result<Tasks> {
    let cost = |scan: &Scan| Ok((scan.name, scan.query.costs(&scan.pages, Format::Text)?));
    scans(Format::Text, scale, records)?.iter().map(cost).collect()
}

/// What the costs come from, in words.
///
/// # Errors
/// As [`tasks`].
pub fn source() -> std::result::Result<String, String> {
    let words = |(name, task): &(&str, TaskCosts)| {
        let sum: u64 = task.pages.iter().map(|p| p.instructions).sum();
        let bytes = task.pages.len() as f64 * PAGE_BYTES as f64;
        format!("{name} {:.2} on {} pages", sum as f64 / bytes, task.pages.len())
    };
    let each: Vec<String> = tasks()?.iter().map(words).collect();
    Ok(format!(
        "instructions per byte, counted on every text page of 8 KiB: {}; lineitem at scale factor \
         {SCALE}, {RECORDS} join records",
        each.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_tasks_have_costs_that_follow_their_pages() {
        let tasks = costs(0.001, 2_000).unwrap();
        assert_eq!(tasks.iter().map(|t| t.0).collect::<Vec<_>>(), ["q14", "q6", "q1", "sj"]);
        let mean = |t: &TaskCosts| {
            t.pages.iter().map(|p| p.instructions).sum::<u64>() / t.pages.len() as u64
        };
        let means: Vec<u64> = tasks.iter().map(|t| mean(&t.1)).collect();
        assert!(means.is_sorted() && means[0] > 2 * 8192, "{means:?}");
        let distinct =
            |t: &TaskCosts| t.pages.iter().any(|p| p.instructions != t.pages[0].instructions);
        assert!(tasks.iter().all(|t| distinct(&t.1)), "pages differ");
    }
}
