//! The host API: whatever becomes of each page, a scan gives the answer of a plain program.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::collections::BTreeMap;

use littoral_base::fault::{FAULTS, Op, Plan as Faults};
use littoral_la64::elf;
use littoral_push::api::{
    About, Cores, DataSet, Device, Host, Local, Outcome, Plan, Program, Scan, Settings,
};
use littoral_push::command::{COMMAND_BYTES, Command, Completion, Opcode, Status};
use littoral_push::device::{Disposition, profiled};
use littoral_push::error::{Kind, Result};
use littoral_push::page::{Column, Format, Record, Schema, Value};
use littoral_push::policy::{Commit, Policy};
use proptest::prelude::*;

fn about(format: Format) -> About {
    let schema = Schema::new(vec![
        Column::int("region", 0, 40).or_null(),
        Column::decimal("price", 2, -100_000, 100_000).or_null(),
        Column::int("qty", 0, 50),
        Column::text("note"),
    ]);
    About::new(&schema.unwrap(), format, 4096)
}

fn record() -> impl Strategy<Value = Record> {
    let price = proptest::option::of(-100_000i64..=100_000);
    (proptest::option::of(0i64..=40), price, 0i64..=50).prop_map(|(r, p, q)| {
        let or_null = |v: Option<i64>| v.map_or(Value::Null, Value::Int);
        vec![or_null(r), or_null(p), Value::Int(q), Value::Text(b"abc".to_vec())]
    })
}

fn scan() -> Scan {
    let words = |w: &str| w.split(';').map(str::to_owned).collect();
    Scan {
        filter: Some("price > -500.00 and qty < 30".to_owned()),
        keys: words("region"),
        sums: words("price;price * qty"),
        columns: vec![],
    }
}

/// The same in plain Rust, without pages, functions or devices.
fn plain(records: &[Record]) -> Vec<Vec<Option<String>>> {
    let mut groups = BTreeMap::<Option<i64>, (u64, i128, i128)>::new();
    for record in records {
        let (Some(price), Some(qty)) = (record[1].int(), record[2].int()) else { continue };
        if price > -50_000 && qty < 30 {
            let group = groups.entry(record[0].int()).or_default();
            *group = (group.0 + 1, group.1 + i128::from(price), group.2 + i128::from(price * qty));
        }
    }
    let money = |v: i128| {
        let sign = if v < 0 { "-" } else { "" };
        Some(format!("{sign}{}.{:02}", v.abs() / 100, v.abs() % 100))
    };
    let row = |(key, (count, price, both)): (Option<i64>, (u64, i128, i128))| {
        vec![key.map(|k| k.to_string()), Some(count.to_string()), money(price), money(both)]
    };
    groups.into_iter().map(row).collect()
}

fn set(format: Format, records: &[Record]) -> DataSet {
    DataSet::of_records(&about(format), records.iter().cloned().map(Ok)).unwrap()
}

fn rows(host: &mut Host<impl Device>, plan: Plan) -> Result<(Vec<Vec<Option<String>>>, Outcome)> {
    let about = host.about()?;
    let (program, shown) = scan().plan(&about)?;
    let outcome = host.scan(&program, plan)?;
    assert_eq!(outcome.on_device + outcome.filtered + outcome.raw, about.pages, "{outcome:?}");
    Ok((shown.rows(&about, &program, &outcome.answer)?, outcome))
}

/// A device whose answers come back in another order, twice, or damaged on the way.
struct Rough {
    inner: Local,
    tricks: Vec<u8>,
    at: usize,
    kept: Vec<(Completion, Vec<u8>)>,
}

impl Device for Rough {
    fn submit(&mut self, command: &Command, payload: &[u8]) -> Result<()> {
        self.inner.submit(command, payload)
    }

    fn wait(&mut self) -> Result<(Completion, Vec<u8>)> {
        self.at += 1;
        let trick = self.tricks[self.at % self.tricks.len()];
        let Ok((completion, mut data)) = self.inner.wait() else {
            if self.kept.is_empty() {
                return self.inner.wait();
            }
            return Ok(self.kept.remove(0));
        };
        match trick {
            0 if data.len() == 4096 => data[2000] ^= 4,
            1 => self.kept.push((completion, data.clone())),
            2 => {
                if let Ok(next) = self.inner.wait() {
                    self.kept.push((completion, data));
                    return Ok(next);
                }
            }
            _ => {}
        }
        Ok((completion, data))
    }

    fn reconnect(&mut self) -> Result<()> {
        self.kept.clear();
        self.inner.reconnect()
    }
}

fn side() -> impl Strategy<Value = Commit> {
    prop_oneof![Just(Commit::Core), Just(Commit::Link), Just(Commit::Filter)]
}

fn faults() -> impl Strategy<Value = Faults> {
    let rates = proptest::collection::vec((0usize..10, 2u64..9), 0..3);
    (any::<u64>(), rates, proptest::option::of(0u64..20)).prop_map(|(seed, rates, cut)| {
        let possible = ["fail", "drop", "duplicate", "delay", "corrupt"];
        let acted = |n: usize| FAULTS.iter().find(|f| f.0 == possible[n % 5]).unwrap().1;
        let plan = Faults::seeded(seed);
        let plan = rates.into_iter().fold(plan, |p, (n, one)| p.rate(Op::Task, acted(n), one));
        cut.map_or(plan.clone(), |at| plan.cut_at(at))
    })
}

proptest! {
    #![proptest_config(littoral_testing::cases(12))]

    #[test]
    fn any_road_of_each_page_gives_the_plain_answer(
        records in proptest::collection::vec(record(), 1..1500),
        sides in proptest::collection::vec(side(), 1..9),
        tricks in proptest::collection::vec(0u8..6, 7..12),
        faults in faults(),
        is_text in any::<bool>(),
        cores in prop_oneof![Just(Cores::Interpreter), Just(Cores::Twin)],
        memory_bytes in prop_oneof![Just(1u64 << 20), Just(500)],
        plan in prop_oneof![Just(Plan::Push), Just(Plan::Filter), Just(Plan::Fetch)],
        depth in 1usize..20,
    ) {
        let format = if is_text { Format::Text } else { Format::Columns };
        // Room for the program, though not for a slot per region where the memory is small.
        let settings = Settings { cores, memory_bytes: memory_bytes.max(420), ..Settings::default() };
        let inner = Local::new(set(format, &records), settings).on_sides(sides).with_faults(faults);
        // One damaged answer in seven at most: no page fails four times in a row.
        let mut tricks = tricks;
        tricks.iter_mut().skip(1).for_each(|t| *t = (*t).max(1));
        let mut host = Host::new(Rough { inner, tricks, at: 0, kept: vec![] }, 7, depth);
        let (found, outcome) = rows(&mut host, plan).unwrap();
        prop_assert_eq!(found, plain(&records), "{:?}", outcome);
    }
}

fn some_records(n: i64) -> Vec<Record> {
    let record = |n: i64| {
        let null = |v: i64| if v % 7 == 3 { Value::Null } else { Value::Int(v) };
        vec![null(n % 41), null(n * 37 % 1000), Value::Int(n % 50), Value::Text(b"x".to_vec())]
    };
    (0..n).map(record).collect()
}

#[test]
fn a_device_that_only_reads_gives_the_same_answer() {
    let records = some_records(3000);
    let settings = Settings { computes: false, ..Settings::default() };
    let mut host = Host::new(Local::new(set(Format::Columns, &records), settings), 1, 8);
    assert_eq!(host.catalogue().unwrap(), None);
    let (found, outcome) = rows(&mut host, Plan::Push).unwrap();
    assert_eq!(found, plain(&records));
    assert!(outcome.refused.is_some() && outcome.on_device == 0, "{outcome:?}");
}

#[test]
fn stored_records_are_scanned_and_a_record_larger_than_a_page_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.set");
    let records = some_records(2000);
    let about = about(Format::Text);
    let device = Local::new(DataSet::absent(&path, &about), Settings::default());
    let mut host = Host::new(device, 1, 8);
    host.store(&about, records.iter().cloned().map(Ok)).unwrap();
    assert!(host.catalogue().unwrap().unwrap().contains("sessions 64"));
    assert_eq!(rows(&mut host, Plan::Push).unwrap().0, plain(&records));
    let mut large = some_records(5);
    large[4][3] = Value::Text(vec![b'x'; 5000]);
    let error = host.store(&about, large.into_iter().map(Ok)).unwrap_err();
    assert!(error.to_string().contains("larger pages"), "{error}");
    assert_eq!(rows(&mut host, Plan::Push).unwrap().0, plain(&records));
    let device = Local::new(DataSet::open(&path).unwrap(), Settings::default());
    assert_eq!(rows(&mut Host::new(device, 1, 8), Plan::Push).unwrap().0, plain(&records));
}

#[test]
fn a_damaged_page_is_asked_for_again_and_then_named() {
    let good = set(Format::Columns, &some_records(3000));
    let mut pages = good.pages().unwrap();
    pages[2][300] ^= 1;
    for plan in [Plan::Push, Plan::Filter, Plan::Fetch] {
        let set = DataSet::of_pages(good.about(), pages.clone());
        let mut host = Host::new(Local::new(set, Settings::default()), 1, 8);
        let error = rows(&mut host, plan).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(error.to_string().contains("page 2 cannot be read"), "{error}");
    }
}

/// LA64: a branch to itself; a store of zero to address 0.
const LOOP: u32 = 0x5000_0000;
const WILD_STORE: u32 = 0x29c0_0000;

#[test]
fn hostile_programs_give_the_answer_by_another_road() {
    let records = some_records(3000);
    let about = about(Format::Columns);
    let (program, shown) = scan().plan(&about).unwrap();
    let mut huge = elf::executable(0x1_0000, &[LOOP]);
    huge[104..112].copy_from_slice(&(1u64 << 40).to_le_bytes());
    let mut foreign = elf::executable(0x1_0000, &[LOOP]);
    foreign[18] = 62;
    for (name, elf, is_loaded) in [
        ("an endless loop", elf::executable(0x1_0000, &[LOOP]), true),
        ("a wild store", elf::executable(0x1_0000, &[WILD_STORE, LOOP]), true),
        ("a huge allocation", huge, false),
        ("another processor's", foreign, false),
        ("no ELF file", b"#!/bin/sh\n".to_vec(), false),
    ] {
        let settings = Settings { budget: 50_000, ..Settings::default() };
        let mut host = Host::new(Local::new(set(Format::Columns, &records), settings), 1, 8);
        let program = Program { elf: Some(elf), ..program.clone() };
        let outcome = host.scan(&program, Plan::Push).unwrap();
        assert_eq!(outcome.refused.is_none(), is_loaded, "{name}: {outcome:?}");
        assert_eq!((outcome.on_device, outcome.raw > 0), (0, true), "{name}");
        let found = shown.rows(&about, &program, &outcome.answer).unwrap();
        assert_eq!(found, plain(&records), "{name}");
        // The device goes on to serve others.
        let (found, outcome) = rows(&mut host, Plan::Push).unwrap();
        assert_eq!((found, outcome.raw), (plain(&records), 0), "after {name}");
    }
}

#[test]
fn groups_beyond_the_devices_memory_are_computed_by_the_host() {
    let records = some_records(3000);
    let settings = Settings { memory_bytes: 600, ..Settings::default() };
    let mut host = Host::new(Local::new(set(Format::Columns, &records), settings), 1, 8);
    let (found, outcome) = rows(&mut host, Plan::Push).unwrap();
    assert!(outcome.raw > 0 && outcome.refused.is_none(), "{outcome:?}");
    assert_eq!(found, plain(&records));
    let settings = Settings { memory_bytes: 100, ..Settings::default() };
    let mut host = Host::new(Local::new(set(Format::Columns, &records), settings), 1, 8);
    let (found, outcome) = rows(&mut host, Plan::Push).unwrap();
    assert!(outcome.refused.unwrap().contains("Exhausted"), "no room for the program");
    assert_eq!(found, plain(&records));
}

#[test]
fn a_device_that_vanishes_and_returns_gives_the_answer() {
    let records = some_records(6000);
    for cut in 0..9 {
        let device = Local::new(set(Format::Columns, &records), Settings::default());
        let mut host = Host::new(device.with_faults(Faults::none().cut_at(cut)), 1, 4);
        let (found, outcome) = rows(&mut host, Plan::Push).unwrap();
        assert_eq!((found, outcome.losses), (plain(&records), 1), "cut at {cut}");
    }
}

#[test]
fn a_device_that_stays_away_is_an_error() {
    let device = Local::new(set(Format::Columns, &some_records(3000)), Settings::default());
    let device = device.with_faults(Faults::none().cut_at(3)).that_stays_away();
    let error = rows(&mut Host::new(device, 1, 4), Plan::Push).unwrap_err();
    assert_eq!(error.kind(), Kind::Io);
    assert!(error.to_string().contains("does not come back"), "{error}");
}

#[test]
fn a_host_beyond_the_sixty_fourth_fetches_its_pages() {
    let records = some_records(2000);
    let mut device = Local::new(set(Format::Columns, &records), Settings::default());
    let (program, _) = scan().plan(&about(Format::Columns)).unwrap();
    let payload = program.to_bytes();
    for session in 1..=64 {
        let mut entry = [0; COMMAND_BYTES];
        entry[0] = Opcode::Init as u8;
        let command = Command { session, page: 5, ..Command::decode(&entry).unwrap() };
        device.submit(&command, &payload).unwrap();
        assert_eq!(device.wait().unwrap().0.status, Status::Processed);
    }
    let mut host = Host::new(device, 1000, 8);
    let (found, outcome) = rows(&mut host, Plan::Push).unwrap();
    assert!(outcome.refused.unwrap().contains("Exhausted"));
    assert_eq!(found, plain(&records));
}

#[test]
fn a_modelled_scan_takes_the_simulated_time_and_sides() {
    let records = some_records(20_000);
    let (machine, depth) = profiled("summarizer-board").unwrap();
    let mut totals = Vec::new();
    for policy in [Policy::Host, Policy::Device, Policy::Static(vec![13]), Policy::Late] {
        let device = Local::new(set(Format::Text, &records), Settings::default());
        let mut host = Host::new(device.modelled(machine, depth, policy.clone()), 1, 16);
        let (found, outcome) = rows(&mut host, Plan::Push).unwrap();
        assert_eq!(found, plain(&records), "{policy:?}");
        let run = host.device().outcome().unwrap();
        assert_eq!(run.count(Disposition::Processed) as u64, outcome.on_device, "{policy:?}");
        assert_eq!(run.count(Disposition::Raw) as u64, outcome.raw, "{policy:?}");
        totals.push(run.total);
    }
    assert!(totals[3] <= totals[0] && totals[3] < totals[1], "{totals:?}");
}

#[test]
fn columns_of_records_come_back_wherever_they_are_filtered() {
    let records = some_records(3000);
    let columns = vec!["region".to_owned(), "price".to_owned()];
    let filter = Some("qty = 7 and region is not null".to_owned());
    let scan = Scan { filter, columns, ..Scan::default() };
    let mut all = Vec::new();
    for sides in [vec![Commit::Core], vec![Commit::Link], vec![Commit::Filter, Commit::Link]] {
        let set = set(Format::Columns, &records);
        let mut host = Host::new(Local::new(set, Settings::default()).on_sides(sides), 1, 8);
        let about = host.about().unwrap();
        let (program, shown) = scan.plan(&about).unwrap();
        let outcome = host.scan(&program, Plan::Push).unwrap();
        all.push(shown.rows(&about, &program, &outcome.answer).unwrap());
    }
    assert_eq!((&all[0], &all[0]), (&all[1], &all[2]));
    let wanted = records.iter().filter(|r| r[2].int() == Some(7) && r[0].int().is_some()).count();
    assert_eq!(all[0].len(), wanted);
}
