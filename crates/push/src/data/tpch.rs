//! TPC-H: lineitem, and the keys of parts whose type begins with PROMO.
//!
//! The generator is the crate `tpchgen`. Comments come from a smaller pool of text than dbgen's;
//! their lengths are dbgen's, and no query here reads them.

use crate::error::{Error, Kind, Result};
use crate::function::Bitmap;
use crate::page::{Column, Record, Schema, Value};
use std::io::BufRead;
use std::sync::OnceLock;
use tpchgen::distribution::Distributions;
use tpchgen::generators::{LineItem, LineItemGenerator, PartGenerator};
use tpchgen::text::TextPool;

const POOL_BYTES: i32 = 4 << 20;
/// Parts at scale factor 1.
const PARTS_PER_SCALE: f64 = 200_000.0;
/// Greatest scale factor of a table from elsewhere: its bitmap of parts has 25 MB.
const SCALE_MAX: f64 = 1000.0;
const KEY_MAX: i64 = i32::MAX as i64;

fn pool() -> &'static TextPool {
    static POOL: OnceLock<TextPool> = OnceLock::new();
    POOL.get_or_init(|| TextPool::new(POOL_BYTES, Distributions::static_default()))
}

/// The columns of lineitem, in dbgen's order.
///
/// # Errors
/// None: the columns are constant.
pub fn lineitem_schema() -> Result<Schema> {
    Schema::new(vec![
        Column::int("l_orderkey", 0, KEY_MAX),
        Column::int("l_partkey", 0, KEY_MAX),
        Column::int("l_suppkey", 0, KEY_MAX),
        Column::int("l_linenumber", 1, 7),
        Column::int("l_quantity", 1, 50),
        Column::decimal("l_extendedprice", 2, 0, 99_999_999),
        Column::decimal("l_discount", 2, 0, 10),
        Column::decimal("l_tax", 2, 0, 8),
        Column::char("l_returnflag", b'A', b'R'),
        Column::char("l_linestatus", b'F', b'O'),
        Column::date("l_shipdate"),
        Column::date("l_commitdate"),
        Column::date("l_receiptdate"),
        Column::text("l_shipinstruct"),
        Column::text("l_shipmode"),
        Column::text("l_comment"),
    ])
}

/// The records of lineitem at a scale factor.
pub fn lineitem(scale: f64) -> impl Iterator<Item = Record> {
    let distributions = Distributions::static_default();
    let generator =
        LineItemGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions, pool());
    generator.iter().map(|item| record(&item))
}

fn record(item: &LineItem<'_>) -> Record {
    let day = |date: tpchgen::dates::TPCHDate| {
        let (year, month, day) = date.to_ymd();
        Value::Int((1900 + i64::from(year)) * 10_000 + i64::from(month) * 100 + i64::from(day))
    };
    let char = |s: &str| Value::Int(s.as_bytes()[0].into());
    let text = |s: &str| Value::Text(s.as_bytes().to_vec());
    vec![
        Value::Int(item.l_orderkey),
        Value::Int(item.l_partkey),
        Value::Int(item.l_suppkey),
        Value::Int(item.l_linenumber.into()),
        Value::Int(item.l_quantity),
        Value::Int(item.l_extendedprice.into_inner()),
        Value::Int(item.l_discount.into_inner()),
        Value::Int(item.l_tax.into_inner()),
        char(item.l_returnflag),
        char(item.l_linestatus),
        day(item.l_shipdate),
        day(item.l_commitdate),
        day(item.l_receiptdate),
        text(item.l_shipinstruct),
        text(item.l_shipmode),
        text(item.l_comment),
    ]
}

fn parts(scale: f64) -> PartGenerator<'static> {
    let distributions = Distributions::static_default();
    PartGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions, pool())
}

/// The keys of parts whose type begins with PROMO, as INIT ships them.
pub fn promo_parts(scale: f64) -> Bitmap {
    let promo = parts(scale).iter().filter(|p| p.p_type.starts_with("PROMO"));
    Bitmap::of(promo.map(|p| p.p_partkey as u64))
}

/// The least scale factor whose table part has every part that a lineitem in dbgen's form names; 0
/// for none and above [`SCALE_MAX`]. A part's type depends on its key alone.
///
/// # Errors
/// [`Kind::Io`] when the table cannot be read.
pub fn tbl_scale(table: impl BufRead) -> Result<f64> {
    let mut greatest = 0u64;
    for line in table.split(b'\n') {
        let line = line.map_err(|e| Error::with_source(Kind::Io, "reading the table", e))?;
        let key = line.split(|byte| *byte == b'|').nth(1);
        let key = key.and_then(|key| std::str::from_utf8(key).ok()?.parse().ok());
        greatest = greatest.max(key.unwrap_or(0));
    }
    // Half a key more, so that rounding loses none.
    let scale = (greatest as f64 + 0.5) / PARTS_PER_SCALE;
    Ok(if greatest > 0 && scale <= SCALE_MAX { scale } else { 0.0 })
}

/// Lines of part as dbgen writes them, for peers that load the table.
pub fn part_line(scale: f64) -> impl Iterator<Item = String> {
    parts(scale).iter().map(|p| format!("{p}\n"))
}

/// Lines of lineitem as dbgen writes them, for peers that load the table.
pub fn tbl_line(scale: f64) -> impl Iterator<Item = String> {
    let distributions = Distributions::static_default();
    let generator =
        LineItemGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions, pool());
    generator.iter().map(|item| format!("{item}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_in_dbgens_form_tells_which_parts_it_names() {
        let text: String = tbl_line(0.01).collect();
        let scale = tbl_scale(text.as_bytes()).unwrap();
        assert!(scale <= 0.010_01 && scale > 0.009_9, "{scale}");
        assert_eq!(promo_parts(scale), promo_parts(0.01));
        let greatest = |key: u64| tbl_scale(format!("1|{key}|9|\n").as_bytes()).unwrap();
        assert_eq!(parts(greatest(1_234)).iter().count(), 1_234);
        assert_eq!((greatest(0), greatest(u64::MAX)), (0.0, 0.0));
    }
}
