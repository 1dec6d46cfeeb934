//! The interpreter of the language: textbook three-valued logic over records, with no plan and no
//! cost. The oracle of both back ends, and the host's road for pages that spill.

use super::answer::{Answer, Group, Total};
use super::ir::{Expr, Function, Output, Test};
use super::packed::{pack, unpack};
use super::params::Params;
use crate::error::Result;
use crate::page::{self, Record, Value};

/// The answer of one page.
///
/// # Errors
/// As [`page::check`].
pub fn answer(function: &Function, params: &Params, page: &[u8]) -> Result<Answer> {
    let mut answer = Answer::default();
    for record in page::read(page, &function.schema)? {
        if passes(&function.filter, &record, params) == Some(true) {
            add(function, &record, params, &mut answer);
        }
    }
    answer.rows.sort_unstable();
    Ok(answer)
}

/// The answer of packed records that passed `filter`, another function's, with columns `columns`.
///
/// # Errors
/// [`Kind::Corrupt`](crate::error::Kind::Corrupt) for bytes that end inside a record.
pub fn answer_packed(
    function: &Function,
    filter: &Function,
    params: &Params,
    bytes: &[u8],
) -> Result<Answer> {
    let mut answer = Answer::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (record, len) = unpack(filter, rest)?;
        rest = &rest[len..];
        if passes(&function.filter, &record, params) == Some(true) {
            add(function, &record, params, &mut answer);
        }
    }
    answer.rows.sort_unstable();
    Ok(answer)
}

fn add(function: &Function, record: &Record, params: &Params, answer: &mut Answer) {
    match &function.output {
        Output::Rows(columns) => answer.rows.push(pack(function, columns, record)),
        Output::Aggregate { keys, sums } => {
            let key = keys.iter().map(|&k| record[k].int()).collect();
            let group: &mut Group = answer.groups.entry(key).or_default();
            group.count += 1;
            group.totals.resize(sums.len(), Total::default());
            for (total, sum) in group.totals.iter_mut().zip(sums) {
                if let Some(value) = eval(sum, record, params) {
                    total.sum += i128::from(value);
                    total.present += 1;
                }
            }
        }
    }
}

fn eval(e: &Expr, record: &Record, params: &Params) -> Option<i64> {
    let pair = |a: &Expr, b: &Expr| Some((eval(a, record, params)?, eval(b, record, params)?));
    match e {
        Expr::Column(c) => record[*c].int(),
        Expr::Constant(v) => Some(*v),
        Expr::Param(p) => Some(params.values[*p]),
        Expr::Add(a, b) => pair(a, b).map(|(a, b)| a.wrapping_add(b)),
        Expr::Sub(a, b) => pair(a, b).map(|(a, b)| a.wrapping_sub(b)),
        Expr::Mul(a, b) => pair(a, b).map(|(a, b)| a.wrapping_mul(b)),
        Expr::Member(bitmap, a) => {
            let key = eval(a, record, params)?;
            Some(params.bitmaps.get(*bitmap).is_some_and(|b| b.holds(key)).into())
        }
    }
}

/// True, false, or unknown.
fn passes(test: &Test, record: &Record, params: &Params) -> Option<bool> {
    match test {
        Test::Compare(op, a, b) => {
            Some(op.holds(eval(a, record, params)?, eval(b, record, params)?))
        }
        Test::IsNull(c) => Some(record[*c] == Value::Null),
        Test::Probe(bitmap, e) => {
            let key = eval(e, record, params)?;
            Some(params.bitmaps.get(*bitmap).is_some_and(|b| b.holds(key)))
        }
        Test::Candidate(c) => Some(shares_prefix(record[*c].list(), params)),
        Test::Similar(c) => Some(is_similar(record[*c].list(), params)),
        Test::And(tests) => {
            let mut known = true;
            for test in tests {
                match passes(test, record, params) {
                    Some(false) => return Some(false),
                    Some(true) => {}
                    None => known = false,
                }
            }
            known.then_some(true)
        }
        Test::Or(tests) => {
            let mut known = true;
            for test in tests {
                match passes(test, record, params) {
                    Some(true) => return Some(true),
                    Some(false) => {}
                    None => known = false,
                }
            }
            known.then_some(false)
        }
        Test::Not(test) => passes(test, record, params).map(|holds| !holds),
    }
}

/// Whether the prefixes share a token; lists in ascending order.
fn shares_prefix(list: &[u32], params: &Params) -> bool {
    let Some(query) = params.query.as_ref().filter(|_| !list.is_empty()) else { return false };
    let (record_len, query_len) = query.prefixes(list.len());
    let prefix = &query.tokens()[..query_len];
    list[..record_len].iter().any(|t| prefix.contains(t))
}

/// Whether the lists share enough tokens.
fn is_similar(list: &[u32], params: &Params) -> bool {
    let Some(query) = params.query.as_ref().filter(|_| !list.is_empty()) else { return false };
    let shared = list.iter().filter(|t| query.tokens().contains(t)).count();
    shared >= query.overlap(list.len())
}
