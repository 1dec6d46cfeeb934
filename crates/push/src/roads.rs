//! The roads that a page may take to the answer, and the answer of pages that take different ones.
//!
//! Invariants
//! - Every assignment of pages to roads gives the reference's answer. Checked by
//!   `every_partition_of_pages_gives_one_answer`.
//!
//! Callers: property tests, the reproduction of paper 001.

use crate::error::Result;
use crate::function::{Answer, Compiled, Machine, PageResult, reference};
use crate::page::Format;
use crate::query::Query;

/// Where a page is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Road {
    /// On a device core.
    Device,
    /// On the host, from the raw page, a column at a time where it has columns.
    Host,
    /// Filtered on a device core; the host computes on the records that pass.
    Filtered,
    /// A device core spends its budget first; the host computes on the raw page.
    Error,
    /// A device core spends its budget first; the second run succeeds.
    Retry,
}

/// Every road.
pub const ROADS: [Road; 5] = [Road::Device, Road::Host, Road::Filtered, Road::Error, Road::Retry];

/// A budget that no page function keeps to.
const TOO_FEW: u64 = 10;

/// A query with its cores: one with the whole function, one with the hand-coded split.
struct Cores<'a> {
    query: &'a Query,
    whole: &'a Compiled,
    device: Machine,
    filter: Machine,
}

/// The answer of `pages`, each on its road; the roads repeat when they are fewer.
///
/// # Errors
/// As [`Machine::run`] and [`Compiled::host`].
pub fn answer(query: &Query, format: Format, pages: &[Vec<u8>], roads: &[Road]) -> Result<Answer> {
    let (whole, split) =
        (Compiled::new(&query.whole, format)?, Compiled::new(&query.split, format)?);
    let mut cores = Cores {
        query,
        whole: &whole,
        device: Machine::new(&whole, &query.params)?,
        filter: Machine::new(&split, &query.params)?,
    };
    let mut answer = Answer::default();
    for (page, road) in pages.iter().zip(roads.iter().cycle()) {
        cores.add(&mut answer, page, *road)?;
    }
    Ok(answer)
}

impl Cores<'_> {
    fn add(&mut self, answer: &mut Answer, page: &[u8], road: Road) -> Result<()> {
        let result = match road {
            Road::Device => self.device.run(page, u64::MAX)?.0,
            Road::Retry => {
                self.fail(page);
                self.device.run(page, u64::MAX)?.0
            }
            Road::Host => self.whole.host(&self.query.params, page)?.result,
            Road::Error => {
                self.fail(page);
                self.whole.host(&self.query.params, page)?.result
            }
            Road::Filtered => {
                answer.merge(&self.filtered(page)?);
                return Ok(());
            }
        };
        if result == PageResult::Spilled {
            // A page that spills is raw: the host's table has no limit.
            answer.merge(&reference::answer(&self.query.whole, &self.query.params, page)?);
            return Ok(());
        }
        answer.add(self.whole, &result)
    }

    fn fail(&mut self, page: &[u8]) {
        let run = self.device.run(page, TOO_FEW);
        assert!(run.is_err(), "{TOO_FEW} instructions suffice for a page");
    }

    fn filtered(&mut self, page: &[u8]) -> Result<Answer> {
        let (result, _) = self.filter.run(page, u64::MAX)?;
        let PageResult::Rows(rows) = result else {
            unreachable!("invariant: a split returns records")
        };
        reference::answer_packed(&self.query.rest, &self.query.split, &self.query.params, &rows)
    }
}
