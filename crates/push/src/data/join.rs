//! Records of a similarity join: token lists from any text, or drawn like bibliographic records.
//!
//! As the paper prepares its data: records are cut into tokens at white space and punctuation, the
//! tokens of a record are ordered by their frequency in all records, rare first, and records by
//! their number of tokens. A token is stored as its rank in that order.

use crate::error::Result;
use crate::page::{Column, Record, Schema, Value};
use littoral_base::rng::{self, Rng};
use std::collections::{BTreeSet, HashMap};

/// Tokens of the vocabulary of [`dblp_like`], per record.
const WORDS_PER_RECORD: f64 = 0.4;

/// Prepared records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinData {
    /// Ranks of each record's tokens, ascending; records in ascending order of length.
    pub records: Vec<Vec<u32>>,
    /// The line of the input that each record was.
    pub lines: Vec<u32>,
}

impl JoinData {
    /// The records as pages store them.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        let both = self.lines.iter().zip(&self.records);
        both.map(|(&line, tokens)| vec![Value::Int(line.into()), Value::List(tokens.clone())])
    }
}

/// Columns: the record's line, its tokens.
///
/// # Errors
/// None: the columns are constant.
pub fn join_schema() -> Result<Schema> {
    Schema::new(vec![Column::int("line", 0, u32::MAX.into()), Column::list("tokens")])
}

/// Prepares one record per line of text.
pub fn join_data(text: &str) -> JoinData {
    let mut ids = HashMap::new();
    let mut records = Vec::new();
    for line in text.lines() {
        let words = line.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
        let mut id = |word: &str| {
            let next = ids.len() as u32;
            *ids.entry(word.to_lowercase()).or_insert(next)
        };
        records.push(words.map(&mut id).collect());
    }
    prepare(records, ids.len())
}

/// `count` records whose lengths and word frequencies resemble bibliographic ones: 5 to 24 tokens,
/// frequencies by Zipf's law; one in twenty repeats most of an earlier record.
pub fn dblp_like(count: usize, seed: u64) -> JoinData {
    let mut random = rng::stream(seed, "join records");
    let words = ((count as f64 * WORDS_PER_RECORD) as usize).max(64);
    let mut records: Vec<BTreeSet<u32>> = Vec::with_capacity(count);
    for n in 0..count {
        let len = random.random_range(5..25);
        let mut record = BTreeSet::new();
        if n > 0 && random.random_range(0..20) == 0 {
            let other = random.random_range(0..n);
            record.extend(records[other].iter().filter(|_| random.random_range(0..10) > 0));
        }
        while record.len() < len {
            // The inverse of Zipf's cumulative distribution, with exponent 1.
            let u: f64 = random.random_range(0.0..1.0);
            record.insert((words as f64).powf(u) as u32 - 1);
        }
        records.push(record);
    }
    prepare(records, words)
}

fn prepare(records: Vec<BTreeSet<u32>>, words: usize) -> JoinData {
    let mut frequency = vec![0u32; words];
    records.iter().flatten().for_each(|&w| frequency[w as usize] += 1);
    let mut order: Vec<u32> = (0..words as u32).collect();
    order.sort_by_key(|&w| (frequency[w as usize], w));
    let mut rank = vec![0; words];
    (0..).zip(&order).for_each(|(n, &w)| rank[w as usize] = n);
    let ranked = |record: &BTreeSet<u32>| {
        let mut tokens: Vec<u32> = record.iter().map(|&w| rank[w as usize]).collect();
        tokens.sort_unstable();
        tokens
    };
    let mut lines: Vec<u32> = (0..records.len() as u32).collect();
    lines.sort_by_key(|&n| (records[n as usize].len(), n));
    let records = lines.iter().map(|&n| ranked(&records[n as usize])).collect();
    JoinData { records, lines }
}
