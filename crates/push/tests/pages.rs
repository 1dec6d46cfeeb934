//! Pages: what was written reads back, damage is refused, records that do not fit are named.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_push::error::Kind;
use littoral_push::page::{self, Column, Format, Record, Schema, Value};
use proptest::prelude::*;

fn schema() -> Schema {
    Schema::new(vec![
        Column::int("small", -100, 100).or_null(),
        Column::int("wide", i64::MIN, i64::MAX),
        Column::decimal("price", 2, -1_000_000, 1_000_000),
        Column::date("day").or_null(),
        Column::char("flag", b'A', b'Z'),
        Column::list("tokens"),
        Column::text("note"),
    ])
    .unwrap()
}

fn record() -> impl Strategy<Value = Record> {
    let day = (1992i64..1999, 1i64..13, 1i64..32).prop_map(|(y, m, d)| y * 10_000 + m * 100 + d);
    (
        proptest::option::of(-100i64..=100),
        any::<i64>(),
        -1_000_000i64..=1_000_000,
        proptest::option::of(day),
        b'A'..=b'Z',
        proptest::collection::btree_set(any::<u32>(), 0..8),
        "[ -{}~]{0,20}",
    )
        .prop_map(|(a, b, c, d, e, f, g)| {
            let or_null = |v: Option<i64>| v.map_or(Value::Null, Value::Int);
            vec![
                or_null(a),
                Value::Int(b),
                Value::Int(c),
                or_null(d),
                Value::Int(e.into()),
                Value::List(f.into_iter().collect()),
                Value::Text(g.into_bytes()),
            ]
        })
}

/// What a page keeps of a record: column pages drop text.
fn kept(format: Format, record: &Record) -> Record {
    let mut record = record.clone();
    if format == Format::Columns {
        record[6] = Value::Text(Vec::new());
    }
    record
}

proptest! {
    #![proptest_config(littoral_testing::cases(64))]

    #[test]
    fn records_read_back_from_pages(
        records in proptest::collection::vec(record(), 0..200),
        size in 12u32..16,
    ) {
        for format in [Format::Text, Format::Columns] {
            let pages = page::write_all(&schema(), format, 1 << size, records.clone()).unwrap();
            let mut back = Vec::new();
            for (n, page) in pages.iter().enumerate() {
                let header = page::check(page, &schema()).unwrap();
                prop_assert_eq!((header.number, header.page_bytes), (n as u64, 1usize << size));
                back.extend(page::read(page, &schema()).unwrap());
            }
            let kept: Vec<_> = records.iter().map(|r| kept(format, r)).collect();
            prop_assert_eq!(back, kept);
        }
    }

    #[test]
    fn damaged_pages_are_refused(
        records in proptest::collection::vec(record(), 1..40),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        for format in [Format::Text, Format::Columns] {
            let mut page = page::write_all(&schema(), format, 8192, records.clone()).unwrap().remove(0);
            let valid = page::check(&page, &schema()).unwrap().valid_bytes;
            page[at.index(valid)] ^= 1 << bit;
            prop_assert_eq!(page::check(&page, &schema()).unwrap_err().kind(), Kind::Corrupt);
        }
    }
}

#[test]
fn a_valid_checksum_does_not_excuse_a_wrong_directory() {
    let schema = Schema::new(vec![Column::int("a", 0, 9).or_null(), Column::list("b")]).unwrap();
    let records =
        (0..50).map(|n| vec![Value::Int(n % 10), Value::List((n as u32..n as u32 + 3).collect())]);
    let page = page::write_all(&schema, Format::Columns, 4096, records).unwrap().remove(0);
    let refused = |at: usize, value: u32| {
        let mut page = page.clone();
        page[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let valid = u32::from_le_bytes(page[12..16].try_into().unwrap()) as usize;
        let crc = littoral_base::codec::crc(&page[..28]);
        let crc = littoral_base::codec::crc_append(crc, &page[32..valid.min(4096)]);
        page[28..32].copy_from_slice(&crc.to_le_bytes());
        page::check(&page, &schema).unwrap_err().kind() == Kind::Corrupt
    };
    for at in [32, 36, 40, 44] {
        for value in [8, 33, 4096, u32::MAX] {
            assert!(refused(at, value), "offset {at} = {value}");
        }
    }
    assert!(refused(8, 5000), "rows");
    // Texts take no byte of a column page, so that the page has room for any number.
    let notes = Schema::new(vec![Column::text("note")]).unwrap();
    let records = (0..70_000).map(|_| vec![Value::Text(vec![])]);
    let pages = page::write_all(&notes, Format::Columns, 4096, records).unwrap();
    let rows = |page: &Vec<u8>| page::check(page, &notes).unwrap().rows;
    assert_eq!(
        pages.iter().map(rows).collect::<Vec<_>>(),
        [page::ROWS_MAX, 70_000 - page::ROWS_MAX]
    );
    assert!(refused(4, 0x0002_0c03), "format");
}

#[test]
fn records_that_cannot_be_stored_are_named() {
    let schema = schema();
    let good = vec![
        Value::Null,
        Value::Int(1),
        Value::Int(2),
        Value::Int(19_980_902),
        Value::Int(65),
        Value::List(vec![]),
        Value::Text(vec![]),
    ];
    let refused = |n: usize, value: Value| {
        let mut record = good.clone();
        record[n] = value;
        page::write_all(&schema, Format::Columns, 4096, [record]).unwrap_err().to_string()
    };
    assert!(refused(0, Value::Int(101)).contains("small int -100 100 null"));
    assert!(refused(1, Value::Null).contains("wide"));
    assert!(refused(3, Value::Int(19_981_302)).contains("day"));
    assert!(refused(6, Value::Text(b"a|b".to_vec())).contains("note"));
    assert!(refused(5, Value::List((0..2000).collect())).contains("exceeds a page of 4096"));
    let long = || vec![vec![Value::Text(vec![b'x'; 5000])]];
    let notes = Schema::new(vec![Column::text("note")]).unwrap();
    assert!(page::write_all(&notes, Format::Text, 4096, long()).is_err());
    assert!(page::write_all(&notes, Format::Text, 8192, long()).is_ok());
    assert!(page::write_all(&notes, Format::Text, 5000, long()).is_err());
}
