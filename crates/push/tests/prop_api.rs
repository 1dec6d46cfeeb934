//! The host API: whatever becomes of each page, a scan gives the answer of a plain program.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::collections::{BTreeMap, VecDeque};

use littoral_base::fault::{FAULTS, Op, Plan as Faults};
use littoral_base::units::Picos;
use littoral_la64::elf;
use littoral_push::api::{
    About, Cores, DataSet, Device, HEADER_ADDRESS, Host, Local, Outcome, Plan, Program, Scan,
    Settings, records_of,
};
use littoral_push::catalogue::Entry;
use littoral_push::command::{COMMAND_BYTES, Command, Completion, Opcode, Quotas, Status};
use littoral_push::device::{Disposition, profiled};
use littoral_push::error::{Error, Kind, Result};
use littoral_push::function::Compiled;
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
    assert!(host.catalogue().unwrap().unwrap().is_empty(), "nothing is loaded yet");
    assert_eq!(rows(&mut host, Plan::Push).unwrap().0, plain(&records));
    let mut large = some_records(5);
    large[4][3] = Value::Text(vec![b'x'; 5000]);
    let error = host.store(&about, large.into_iter().map(Ok)).unwrap_err();
    assert!(error.to_string().contains("larger pages"), "{error}");
    assert!(!host.device().engine().set().has_draft(), "a STORE that failed is given up");
    assert_eq!(rows(&mut host, Plan::Push).unwrap().0, plain(&records));
    let device = Local::new(DataSet::open(&path).unwrap(), Settings::default());
    assert_eq!(rows(&mut Host::new(device, 1, 8), Plan::Push).unwrap().0, plain(&records));
}

#[test]
fn a_data_set_beyond_the_devices_memory_is_refused_and_changes_nothing() {
    let records = some_records(2000);
    let old = set(Format::Columns, &records);
    let store_bytes = old.about().pages * 4096;
    let settings = Settings { store_bytes, ..Settings::default() };
    let mut host = Host::new(Local::new(old, settings.clone()), 1, 8);
    let about = about(Format::Columns);
    let error = host.store(&about, some_records(9000).into_iter().map(Ok)).unwrap_err();
    assert_eq!(error.kind(), Kind::Io, "{error}");
    assert!(error.to_string().contains(&format!("memory for {store_bytes} bytes")), "{error}");
    assert!(!host.device().engine().set().has_draft(), "its memory is given back");
    assert_eq!(rows(&mut host, Plan::Push).unwrap().0, plain(&records));
    host.store(&about, records.iter().cloned().map(Ok)).unwrap();
    assert_eq!(rows(&mut host, Plan::Push).unwrap().0, plain(&records));
    // A data set in a file is bounded by its disk.
    let folder = tempfile::tempdir().unwrap();
    let file = DataSet::absent(&folder.path().join("a.set"), &about);
    let mut host = Host::new(Local::new(file, settings), 1, 8);
    host.store(&about, some_records(9000).into_iter().map(Ok)).unwrap();
}

/// A device that closes the connection of a silent host.
struct Closing {
    inner: Local,
    is_closed: bool,
}

impl Device for Closing {
    fn submit(&mut self, command: &Command, payload: &[u8]) -> Result<()> {
        if self.is_closed {
            return Err(Error::new(Kind::Io, "the connection is closed"));
        }
        self.inner.submit(command, payload)
    }

    fn wait(&mut self) -> Result<(Completion, Vec<u8>)> {
        self.inner.wait()
    }

    fn reconnect(&mut self) -> Result<()> {
        self.is_closed = false;
        self.inner.reconnect()
    }
}

#[test]
fn a_host_that_was_silent_for_a_lease_stores_over_a_new_connection() {
    let records = some_records(500);
    let inner = Local::new(set(Format::Columns, &some_records(9)), Settings::default());
    let mut host = Host::new(Closing { inner, is_closed: true }, 1, 8);
    host.store(&about(Format::Columns), records.iter().cloned().map(Ok)).unwrap();
    assert_eq!(rows(&mut host, Plan::Push).unwrap().0, plain(&records));
}

#[test]
fn a_size_that_pages_do_not_have_is_refused_by_name() {
    let device = Local::new(set(Format::Columns, &some_records(10)), Settings::default());
    let mut host = Host::new(device, 1, 8);
    let about = About { page_bytes: 5120, ..about(Format::Columns) };
    let error = host.store(&about, some_records(10).into_iter().map(Ok)).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage, "{error}");
    assert!(error.to_string().contains("choose 4, 8, 16, 32 or 64 KiB"), "{error}");
    assert_eq!(host.about().unwrap().rows, 10, "the old data set stays");
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

#[test]
fn a_page_in_anothers_place_is_named_on_every_road() {
    let good = set(Format::Columns, &some_records(3000));
    let mut pages = good.pages().unwrap();
    pages[2] = pages[3].clone();
    for plan in [Plan::Push, Plan::Filter, Plan::Fetch] {
        for cores in [Cores::Interpreter, Cores::Twin] {
            let set = DataSet::of_pages(good.about(), pages.clone());
            let settings = Settings { cores, ..Settings::default() };
            let error = rows(&mut Host::new(Local::new(set, settings), 1, 8), plan).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{plan:?}");
            assert!(error.to_string().contains("page 2 cannot be read"), "{plan:?}: {error}");
        }
    }
}

#[test]
fn a_page_of_another_format_is_named_on_every_road() {
    let good = set(Format::Columns, &some_records(3000));
    let mut pages = good.pages().unwrap();
    pages[2] = set(Format::Text, &some_records(3000)).pages().unwrap().remove(2);
    for plan in [Plan::Push, Plan::Filter, Plan::Fetch] {
        for cores in [Cores::Interpreter, Cores::Twin] {
            let set = DataSet::of_pages(good.about(), pages.clone());
            let settings = Settings { cores, ..Settings::default() };
            let error = rows(&mut Host::new(Local::new(set, settings), 1, 8), plan).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{plan:?}");
            assert!(error.to_string().contains("page 2 cannot be read"), "{plan:?}: {error}");
        }
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
fn the_catalogue_tells_what_a_function_took_before() {
    let records = some_records(3000);
    let device = Local::new(set(Format::Columns, &records), Settings::default());
    let mut host = Host::new(device, 1, 8);
    let (_, first) = rows(&mut host, Plan::Push).unwrap();
    assert_eq!(first.instructions_known, None, "the function is new to the device");
    let listed = host.catalogue().unwrap().unwrap();
    let (program, _) = scan().plan(&about(Format::Columns)).unwrap();
    let compiled = Compiled::new(&program.function, program.format).unwrap();
    let own = Entry::of_program(&compiled, None);
    let pages = host.about().unwrap().pages;
    assert_eq!((listed.len(), &listed[0].name, listed[0].pages), (1, &own.name, pages));
    let set = host.device().engine().set();
    let run = |n| compiled.twin(&program.params, set.read(n).unwrap().bytes()).unwrap();
    let exact = |n| run(n).instructions + run(n).merge_instructions;
    assert_eq!(listed[0].instructions, (0..pages).map(exact).sum::<u64>());
    let (_, again) = rows(&mut host, Plan::Push).unwrap();
    assert_eq!(again.instructions_known, listed[0].mean(), "discovery before the second scan");
    // A file that stands for the code is another function.
    let elf = Some(elf::executable(0x1_0000, &[LOOP]));
    host.scan(&Program { elf, ..program }, Plan::Push).unwrap();
    assert_eq!(host.catalogue().unwrap().unwrap().len(), 2);
}

/// A device by whose clock time passes before each answer.
struct Slow {
    inner: Local,
    steps: Vec<u64>,
    at: usize,
}

impl Device for Slow {
    fn submit(&mut self, command: &Command, payload: &[u8]) -> Result<()> {
        self.inner.submit(command, payload)
    }

    fn wait(&mut self) -> Result<(Completion, Vec<u8>)> {
        self.at += 1;
        self.inner.pass(Picos(self.steps[self.at % self.steps.len()]));
        self.inner.wait()
    }

    fn reconnect(&mut self) -> Result<()> {
        self.inner.reconnect()
    }
}

proptest! {
    #![proptest_config(littoral_testing::cases(24))]

    /// Leases end in the middle of a scan, pages go to any side, runs fail and power is cut: each
    /// page is counted once.
    #[test]
    fn a_lease_that_ends_within_a_scan_is_begun_again(
        sides in proptest::collection::vec(side(), 1..9),
        at in 3usize..30, faults in faults(), depth in 1usize..9,
    ) {
        let records = some_records(4000);
        let lease = Picos::from_micros(5_000);
        let settings = Settings { quotas: Quotas { lease, ..Settings::default().quotas },
            cores: Cores::Twin, ..Settings::default() };
        let inner = Local::new(set(Format::Columns, &records), settings).on_sides(sides);
        // One wait of the first thousand takes longer than the lease.
        let mut steps = vec![1_000; 1000];
        steps[at] = 2 * lease.0;
        let mut host = Host::new(Slow { inner: inner.with_faults(faults), steps, at: 0 }, 7, depth);
        let (found, outcome) = rows(&mut host, Plan::Push).unwrap();
        prop_assert_eq!(found, plain(&records), "{:?}", &outcome);
        prop_assert_eq!(outcome.lease_ms, 5);
    }
}

#[test]
fn a_session_past_its_lease_makes_room_and_its_totals_are_not_counted() {
    let records = some_records(3000);
    let lease = Picos::from_micros(5_000);
    let quotas = Quotas { sessions: 1, lease, ..Settings::default().quotas };
    let settings = Settings { quotas, ..Settings::default() };
    let mut device = Local::new(set(Format::Columns, &records), settings);
    let (program, _) = scan().plan(&about(Format::Columns)).unwrap();
    let init = Command { session: 9, page: 5, ..Command::plain(Opcode::Init, 0) };
    device.submit(&init, &program.to_bytes()).unwrap();
    assert_eq!(device.wait().unwrap().0.merged, 5, "the lease in milliseconds");
    let mut host = Host::new(device, 7, 8);
    let (_, outcome) = rows(&mut host, Plan::Push).unwrap();
    assert!(outcome.refused.unwrap().contains("Exhausted"), "the only session is taken");
    let mut device = host.into_device();
    device.pass(Picos(lease.0 + 1));
    let page = Command { session: 9, attempt: 1, ..Command::plain(Opcode::ReadProc, 0) };
    device.submit(&page, &[]).unwrap();
    assert_eq!(device.wait().unwrap().0.status, Status::SessionGone);
    let (found, outcome) = rows(&mut Host::new(device, 7, 8), Plan::Push).unwrap();
    assert_eq!((found, outcome.refused), (plain(&records), None));
}

/// A device whose data set another host replaces when a number of answers have come.
struct Replaced {
    inner: Local,
    left: u32,
    by: Vec<Record>,
    kept: VecDeque<(Completion, Vec<u8>)>,
}

impl Replaced {
    fn replace(&mut self) {
        while let Ok(answer) = self.inner.wait() {
            self.kept.push_back(answer);
        }
        let mut write = |address, data: &[u8]| {
            self.inner.submit(&Command::plain(Opcode::Write, address), data)?;
            assert_eq!(self.inner.wait()?.0.status, Status::Processed);
            Ok(())
        };
        let about = about(Format::Columns);
        write(HEADER_ADDRESS, &about.to_bytes()).unwrap();
        let (pages, rows) =
            records_of(&about, self.by.iter().cloned().map(Ok), &mut write).unwrap();
        write(HEADER_ADDRESS, &About { pages, rows, ..about }.to_bytes()).unwrap();
    }
}

impl Device for Replaced {
    fn submit(&mut self, command: &Command, payload: &[u8]) -> Result<()> {
        self.inner.submit(command, payload)
    }

    fn wait(&mut self) -> Result<(Completion, Vec<u8>)> {
        self.left = self.left.wrapping_sub(1);
        if self.left == 0 {
            self.replace();
        }
        self.kept.pop_front().map_or_else(|| self.inner.wait(), Ok)
    }

    fn reconnect(&mut self) -> Result<()> {
        self.inner.reconnect()
    }
}

#[test]
fn a_data_set_that_is_replaced_in_a_scan_is_scanned_from_its_beginning() {
    let records = some_records(6000);
    for count in [6000, 1000] {
        let mut other = some_records(count);
        other.iter_mut().for_each(|r| r[0] = Value::Int(40));
        for plan in [Plan::Push, Plan::Filter, Plan::Fetch] {
            // The second answer is the header that the scan begins with.
            for left in 2..9 {
                let inner = Local::new(set(Format::Columns, &records), Settings::default());
                let (by, kept) = (other.clone(), VecDeque::new());
                let mut host = Host::new(Replaced { inner, left, by, kept }, 1, 2);
                let about = host.about().unwrap();
                let (program, shown) = scan().plan(&about).unwrap();
                let outcome = host.scan(&program, plan).unwrap();
                let found = shown.rows(&about, &program, &outcome.answer).unwrap();
                let what = format!("{plan:?}, replaced by {count} at answer {left}");
                assert_eq!(found, plain(&other), "{what}");
                assert_eq!(host.about().unwrap().rows, count as u64, "{what}: the header");
            }
        }
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
        let command = Command { session, page: 1, ..Command::decode(&entry).unwrap() };
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

/// A device that answers each command with this header.
struct Boaster {
    header: Vec<u8>,
    asked: u16,
}

impl Device for Boaster {
    fn submit(&mut self, command: &Command, _payload: &[u8]) -> Result<()> {
        self.asked = command.id;
        Ok(())
    }

    fn wait(&mut self) -> Result<(Completion, Vec<u8>)> {
        let (id, bytes) = (self.asked, self.header.len() as u32);
        let completion = Completion { id, attempt: 0, status: Status::Raw, bytes, merged: 0 };
        Ok((completion, self.header.clone()))
    }

    fn reconnect(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_header_of_more_pages_than_commands_count_takes_no_memory() {
    let set = set(Format::Columns, &some_records(100));
    let header = About { pages: u64::MAX / 8, ..set.about().clone() }.to_bytes();
    let (program, _) = Scan::default().plan(set.about()).unwrap();
    let mut host = Host::new(Boaster { header, asked: 0 }, 1, 4);
    let error = host.scan(&program, Plan::Fetch).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("counts 2305843009213693951 pages"), "{error}");
}

/// A device that fails the first answers to page 0, and answers the other pages of that time among
/// the pages that are asked for later.
struct Belated {
    inner: Local,
    /// Answers to page 0 that fail.
    left: u32,
    /// The request for page 0.
    bad: u16,
    ready: VecDeque<(Completion, Vec<u8>)>,
    late: VecDeque<(Completion, Vec<u8>)>,
}

impl Device for Belated {
    fn submit(&mut self, command: &Command, payload: &[u8]) -> Result<()> {
        if command.attempt > 0 && command.page == 0 {
            self.bad = command.id;
        }
        self.inner.submit(command, payload)?;
        while let Ok((completion, data)) = self.inner.wait() {
            let is_page = completion.attempt > 0;
            if is_page && self.left > 0 && completion.id == self.bad {
                self.left -= 1;
                let status = Status::MediaError;
                self.ready.push_back((Completion { status, bytes: 0, ..completion }, vec![]));
            } else if is_page && self.left > 0 {
                self.late.push_back((completion, data));
            } else {
                if is_page {
                    self.ready.append(&mut self.late);
                }
                self.ready.push_back((completion, data));
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(Completion, Vec<u8>)> {
        let found = self.ready.pop_front().or_else(|| self.late.pop_front());
        found.map_or_else(|| self.inner.wait(), Ok)
    }

    fn reconnect(&mut self) -> Result<()> {
        self.inner.reconnect()
    }
}

#[test]
fn late_answers_of_a_scan_that_failed_are_not_taken_for_the_next_ones() {
    let records = some_records(3000);
    for is_same_host in [true, false] {
        let inner = Local::new(set(Format::Columns, &records), Settings::default());
        let inner = inner.on_sides(vec![Commit::Filter]);
        let (ready, late) = (VecDeque::new(), VecDeque::new());
        let mut host = Host::new(Belated { inner, left: 4, bad: 0, ready, late }, 1, 16);
        let about = host.about().unwrap();
        assert!((2..=16).contains(&about.pages), "all of them are under way at a time");
        let other = Scan { filter: Some("qty < 3".to_owned()), ..scan() };
        let (program, _) = other.plan(&about).unwrap();
        let error = host.scan(&program, Plan::Push).unwrap_err();
        assert!(error.to_string().contains("page 0 cannot be read"), "{error}");
        assert_eq!(host.device().late.len() as u64, about.pages - 1, "they are under way");
        assert_eq!(host.device().inner.engine().sessions(), 0, "the task has ended");
        let mut host = if is_same_host { host } else { Host::new(host.into_device(), 1, 16) };
        let (found, outcome) = rows(&mut host, Plan::Push).unwrap();
        assert_eq!(found, plain(&records), "the same host: {is_same_host}, {outcome:?}");
    }
}

#[test]
fn sums_over_records_without_numbers_do_not_wrap() {
    let about =
        About::new(&Schema::new(vec![Column::text("note")]).unwrap(), Format::Columns, 4096);
    let records = (0..70_000).map(|_| Ok(vec![Value::Text(vec![])]));
    let set = DataSet::of_records(&about, records).unwrap();
    // 2^47 - 1: 65,536 of them fit 64 bits.
    let scan = Scan { sums: vec!["140737488355327".to_owned()], ..Scan::default() };
    let (program, _) = scan.plan(&about).unwrap();
    let settings = Settings { cores: Cores::Twin, ..Settings::default() };
    for plan in [Plan::Push, Plan::Fetch] {
        let pages = DataSet::of_pages(set.about(), set.pages().unwrap());
        let local = Local::new(pages, settings.clone());
        let outcome = Host::new(local, 1, 8).scan(&program, plan).unwrap();
        let group = &outcome.answer.groups[&vec![]];
        assert_eq!(group.totals[0].sum, 70_000 * ((1i128 << 47) - 1), "{plan:?}");
    }
}

#[test]
fn records_beyond_a_cores_room_come_as_their_page() {
    let schema = Schema::new(vec![Column::int("n", 0, 99)]).unwrap();
    let about = About::new(&schema, Format::Columns, 4096);
    let records = (0..3000).map(|n| Ok(vec![Value::Int(n % 100)]));
    let pages = DataSet::of_records(&about, records).unwrap().pages().unwrap();
    assert_eq!(pages.len(), 1);
    // 256 columns of 3000 records are 768 KB.
    let scan = Scan { columns: vec!["n".to_owned(); 256], ..Scan::default() };
    let (program, _) = scan.plan(&about).unwrap();
    for cores in [Cores::Interpreter, Cores::Twin] {
        let about = About { rows: 3000, ..about.clone() };
        let set = DataSet::of_pages(&about, pages.clone());
        let settings = Settings { cores, ..Settings::default() };
        let mut host = Host::new(Local::new(set, settings), 1, 8);
        let outcome = host.scan(&program, Plan::Push).unwrap();
        assert_eq!((outcome.raw, outcome.filtered), (1, 0), "{cores:?}: {:?}", outcome.refused);
        assert_eq!(outcome.answer.rows.len(), 3000, "{cores:?}");
    }
}

/// A device that tells its header and is lost before it answers for a page.
struct Silent {
    about: About,
    has_header: bool,
    under_way: usize,
}

impl Device for Silent {
    fn submit(&mut self, command: &Command, _: &[u8]) -> Result<()> {
        self.has_header = command.address == HEADER_ADDRESS;
        self.under_way += usize::from(!self.has_header);
        Ok(())
    }

    fn wait(&mut self) -> Result<(Completion, Vec<u8>)> {
        if !self.has_header {
            return Err(Error::new(Kind::Io, "the device is lost"));
        }
        let data = self.about.to_bytes();
        let (id, attempt, bytes) = (0, 0, data.len() as u32);
        Ok((Completion { id, attempt, status: Status::Raw, bytes, merged: 0 }, data))
    }

    fn reconnect(&mut self) -> Result<()> {
        Err(Error::new(Kind::Io, "the device does not come back"))
    }
}

#[test]
fn pages_under_way_are_bounded_by_their_bytes() {
    for (page_bytes, wanted) in [(65_536, 1024), (32_768, 2048), (4096, 4096)] {
        let about = About { page_bytes, pages: 9000, rows: 9000, ..about(Format::Columns) };
        let (program, _) = scan().plan(&about).unwrap();
        let device = Silent { about, has_header: false, under_way: 0 };
        let mut host = Host::new(device, 1, 4096);
        assert_eq!(host.scan(&program, Plan::Fetch).unwrap_err().kind(), Kind::Io);
        assert_eq!(host.device().under_way, wanted, "pages of {page_bytes} bytes");
    }
}
