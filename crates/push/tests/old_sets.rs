//! Data sets of version 1 of the format, as small committed files: this build reads every record,
//! and writes the same records to the same bytes.
//!
//! - `tests/fixtures/v1/text.blocks` and `columns.blocks`: the file of a data set in either format,
//!   packed (`littoral_testing::fixtures`).
//! - `LITTORAL_FIXTURES=DIR cargo test -p littoral-push --test old_sets` writes those of this
//!   version to `DIR`. A new version gets a new folder; the old ones stay.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::path::Path;

use littoral_push::api::{About, DataSet, Dictionary, records_of};
use littoral_push::error::Kind;
use littoral_push::page::{self, Column, Format, Record, Schema, Value};
use littoral_testing::fixtures::{Fixtures, offer, pack};

const ROWS: i64 = 150;
const FORMATS: [(Format, &str); 2] =
    [(Format::Text, "text.blocks"), (Format::Columns, "columns.blocks")];

fn fixtures() -> Fixtures {
    Fixtures::of(env!("CARGO_MANIFEST_DIR"), "v1")
}

/// A column of each kind and width, with and without NULL.
fn schema() -> Schema {
    let columns = vec![
        Column::int("small", -5, 100),
        Column::int("wide", i64::from(i32::MIN), i64::from(i32::MAX)).or_null(),
        Column::decimal("price", 2, 0, 9_999_999).or_null(),
        Column::date("day"),
        Column::char("flag", b'A', b'Z'),
        Column::list("tokens"),
        Column::int("town", 0, 2),
        Column::text("note"),
    ];
    Schema::new(columns).unwrap()
}

fn record(n: i64) -> Record {
    let or_null = |every: i64, value: i64| match n % every {
        0 => Value::Null,
        _ => Value::Int(value),
    };
    vec![
        Value::Int(n % 106 - 5),
        or_null(3, n * -1_000_003 % i64::from(i32::MAX)),
        or_null(7, n * 6_661),
        Value::Int(20_240_101 + n % 28),
        Value::Int(i64::from(b'A') + n % 26),
        Value::List((0..n as u32 % 4).map(|i| i * 70_000 + n as u32).collect()),
        Value::Int(n % 3),
        Value::Text(format!("note {n}").into_bytes()),
    ]
}

/// What this build reads of a record: a page of columns does not keep text.
fn kept(n: i64, format: Format) -> Record {
    let mut record = record(n);
    if format == Format::Columns {
        record[7] = Value::Text(Vec::new());
    }
    record
}

fn about(format: Format) -> About {
    let words = ["bergen", "oslo", "vadsoe"].map(str::to_owned).to_vec();
    let dictionaries = vec![Dictionary { column: 6, words }];
    About { scale: 0.25, dictionaries, ..About::new(&schema(), format, 4096) }
}

fn make(path: &Path, format: Format) {
    let about = about(format);
    let mut set = DataSet::absent(path, &about);
    set.begin(&about).unwrap();
    let records = (0..ROWS).map(|n| Ok(record(n)));
    let (pages, rows) = records_of(&about, records, |n, page| set.put(n, page)).unwrap();
    set.commit(&About { pages, rows, ..about }).unwrap();
}

#[test]
fn data_sets_of_version_1_are_read_record_by_record() {
    let folder = tempfile::tempdir().unwrap();
    for (format, name) in FORMATS {
        let path = folder.path().join(name);
        std::fs::write(&path, fixtures().unpacked(name)).unwrap();
        let set = DataSet::open(&path).unwrap();
        let found = set.about();
        let wanted = About { pages: found.pages, rows: ROWS as u64, ..about(format) };
        assert_eq!(found, &wanted, "{name}");
        assert!(found.pages > 1 || format == Format::Columns, "{name} has several pages");
        let mut records = Vec::new();
        for (number, bytes) in (0..).zip(set.pages().unwrap()) {
            assert_eq!(page::check(&bytes, &found.schema).unwrap().number, number, "{name}");
            records.extend(page::read(&bytes, &found.schema).unwrap());
        }
        let wanted: Vec<Record> = (0..ROWS).map(|n| kept(n, format)).collect();
        assert_eq!(records, wanted, "{name}");
    }
}

#[test]
fn data_sets_are_written_as_their_page_says_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    for (format, name) in FORMATS {
        let path = folder.path().join(name);
        make(&path, format);
        let file = std::fs::read(&path).unwrap();
        offer(name, &pack(&file));
        assert!(file == fixtures().unpacked(name), "the bytes of {name} changed");
    }
}

#[test]
fn a_data_set_of_a_later_version_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set");
    let mut file = fixtures().unpacked("columns.blocks");
    file[7] = b'2';
    std::fs::write(&path, &file).unwrap();
    let e = DataSet::open(&path).unwrap_err();
    assert!(e.kind() == Kind::Corrupt && e.to_string().contains("LITPUSH1"), "{e}");
    assert!(std::fs::read(&path).unwrap() == file);
}
