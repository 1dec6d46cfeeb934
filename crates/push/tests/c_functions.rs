//! Page functions in C: the committed ELF files run on a device core and give the compiled
//! function's answer. `scripts/push-functions.sh` builds them again and compares the bytes.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use littoral_base::units::Picos;
use littoral_la64::device::{Core, End};
use littoral_la64::interp::Features;
use littoral_push::api::{
    About, Cores, DataSet, Device, Engine, Host, Local, Plan, Program, Remote, Settings,
};
use littoral_push::data::{lineitem, lineitem_schema};
use littoral_push::device::{profiled, served};
use littoral_push::function::{Answer, Compiled};
use littoral_push::page::{self, Format};
use littoral_push::policy::Policy;
use littoral_push::query::Query;
use littoral_push::serve::Server;

const Q6: &[u8] = include_bytes!("../functions/q6.elf");

#[test]
fn q6_in_c_gives_the_answer_of_the_compiled_function() {
    let schema = lineitem_schema().unwrap();
    let pages = page::write_all(&schema, Format::Columns, 16384, lineitem(0.003)).unwrap();
    let query = Query::q6().unwrap();
    let compiled = Compiled::new(&query.whole, Format::Columns).unwrap();
    let plain = Features { lsx: false, lasx: false, lbt: false, v1_1: false };
    let mut core = Core::load_for(Q6, 1 << 20, plain).unwrap();
    assert_eq!(core.symbol("page"), Some(core.entry()));
    assert!(core.symbol("memset").is_some() && core.symbol("memcpy").is_some());
    let (params, at) = (core.heap(), core.heap() + 8192);
    let scratch = at + 65536;
    core.write(params, &query.params.to_bytes()).unwrap();
    let (mut expected, mut count, mut sum) = (Answer::default(), 0, 0);
    let (mut in_c, mut generated) = (0, 0);
    for page in &pages {
        core.write(at, page).unwrap();
        let outcome = core.run(core.entry(), &[params, at, scratch, scratch], 1 << 20);
        assert_eq!(outcome.end, End::Done(0));
        let mut words = [0; 16];
        core.read(scratch, &mut words).unwrap();
        count += u64::from_le_bytes(words[..8].try_into().unwrap());
        sum += i128::from(i64::from_le_bytes(words[8..].try_into().unwrap()));
        let run = compiled.twin(&query.params, page).unwrap();
        in_c += outcome.instructions;
        generated += run.instructions;
        expected.add(&compiled, &run.result).unwrap();
    }
    let group = &expected.groups[&vec![]];
    assert_eq!((count, sum), (group.count, group.totals[0].sum));
    println!("instructions: {in_c} in C, {generated} generated");
}

#[test]
fn an_endless_function_and_a_wild_store_end_with_an_error() {
    // A page whose row count is a lie takes the function out of its memory or its budget.
    let schema = lineitem_schema().unwrap();
    let pages = page::write_all(&schema, Format::Columns, 4096, lineitem(0.001)).unwrap();
    let mut bad = pages[0].clone();
    bad[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(page::check(&bad, &schema).is_err(), "the device runs nothing on such a page");
    let query = Query::q6().unwrap();
    let mut core = Core::load(Q6, 1 << 20).unwrap();
    let (params, at) = (core.heap(), core.heap() + 8192);
    core.write(params, &query.params.to_bytes()).unwrap();
    core.write(at, &bad).unwrap();
    let outcome = core.run(core.entry(), &[params, at, 1 << 40, 0], 100_000_000);
    assert!(matches!(outcome.end, End::Trap { .. }), "{outcome:?}");
    let outcome = core.run(core.entry(), &[params, at, at + 65536, 0], 1000);
    assert_eq!(outcome.end, End::OutOfBudget);
    // A store outside its memory.
    core.write(at, &pages[0]).unwrap();
    let outcome = core.run(core.entry(), &[params, at, 1 << 40, 0], 1 << 20);
    assert!(matches!(outcome.end, End::Trap { .. }), "{outcome:?}");
}

fn set() -> DataSet {
    let about = About::new(&lineitem_schema().unwrap(), Format::Columns, 16384);
    DataSet::of_records(&about, lineitem(0.003).map(Ok)).unwrap()
}

fn program(elf: Option<Vec<u8>>) -> Program {
    let query = Query::q6().unwrap();
    Program { function: query.whole, params: query.params, format: Format::Columns, elf }
}

/// A scan with the function in C through INIT, READ_PROC and FINAL; every page must be computed on
/// the device.
fn scanned(host: &mut Host<impl Device>) -> Answer {
    let outcome = host.scan(&program(Some(Q6.to_vec())), Plan::Push).unwrap();
    assert_eq!(outcome.refused, None);
    let pages = set().about().pages;
    assert_eq!((outcome.on_device, outcome.raw, outcome.retries), (pages, 0, 0));
    outcome.answer
}

fn fetched() -> Answer {
    let mut host = Host::new(Local::new(set(), Settings::default()), 1, 8);
    let outcome = host.scan(&program(None), Plan::Fetch).unwrap();
    assert_eq!(outcome.on_device, 0);
    outcome.answer
}

#[test]
fn a_scan_with_q6_in_c_is_computed_on_a_device_in_this_process() {
    let mut host = Host::new(Local::new(set(), Settings::default()), 1, 8);
    assert_eq!(scanned(&mut host), fetched());
}

#[test]
fn a_scan_with_q6_in_c_is_computed_on_a_simulated_device_and_charged_its_own_instructions() {
    let (machine, depth) = profiled("summarizer-board").unwrap();
    let device = Local::new(set(), Settings::default()).modelled(machine, depth, Policy::Device);
    let mut host = Host::new(device, 1, 8);
    assert_eq!(scanned(&mut host), fetched());
    let busy = |host: &Host<Local>| host.device().outcome().unwrap().core_busy;
    let in_c = busy(&host);
    let entries = host.catalogue().unwrap().unwrap();
    assert_eq!(entries.len(), 1);
    let counted = machine.core_time(entries[0].instructions);
    let off = (in_c.0 as f64 / counted.0 as f64 - 1.0).abs();
    assert!(off < 1e-6, "simulated {in_c}, counted {counted}");
    host.scan(&program(None), Plan::Push).unwrap();
    assert_ne!(busy(&host), in_c, "the compiled function takes other instructions");
}

#[test]
fn a_scan_with_q6_in_c_is_computed_on_a_served_device() {
    let machine = served(300_000_000, 4, 400, 16384).unwrap();
    let settings = Settings { cores: Cores::Twin, ..Settings::default() };
    let engine = Engine::new(set(), settings);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    let lease = Picos(u64::MAX / 2);
    let mut server = Server::listen(&path, engine, machine, Policy::Device, lease).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let thread = std::thread::spawn(move || server.run(&asked).unwrap());
    let answer = scanned(&mut Host::new(Remote::open(&path).unwrap(), 1, 16));
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    assert_eq!(answer, fetched());
}
