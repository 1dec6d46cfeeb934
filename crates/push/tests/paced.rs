//! The served device by entries in virtual time: sessions that end with pages under way, hosts that
//! share numbers, data sets that are replaced, hosts that ask for much.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::collections::BTreeMap;

use littoral_base::units::Picos;
use littoral_la64::elf;
use littoral_push::api::{
    About, Cores, DataSet, Engine, HEADER_ADDRESS, Program, Scan, Settings, records_of,
};
use littoral_push::command::{Command, Completion, Opcode, Quotas, Status};
use littoral_push::device::served;
use littoral_push::page::{Column, Format, Record, Schema, Value};
use littoral_push::policy::Policy;
use littoral_push::serve::paced::Paced;

const ROWS: i64 = 100_000;
const LEASE: Picos = Picos::from_micros(1_000_000);
/// LA64: a branch to itself.
const LOOP: u32 = 0x5000_0000;

fn about() -> About {
    let schema = Schema::new(vec![Column::int("n", 0, 99), Column::int("m", 0, 9)]).unwrap();
    About::new(&schema, Format::Columns, 4096)
}

fn records(shift: i64) -> impl Iterator<Item = littoral_push::error::Result<Record>> {
    (0..ROWS).map(move |n| Ok(vec![Value::Int((n + shift) % 100), Value::Int(n % 10)]))
}

/// An answer: the host that got it, the completion and its data.
type Answer = (u32, Completion, Vec<u8>);

struct Bench {
    device: Paced<u32>,
    about: About,
    next_id: u16,
}

impl Bench {
    fn new(policy: Policy) -> Bench {
        Bench::over(300_000_000, policy)
    }

    /// A device with a link of so many bytes per second.
    fn over(link: u64, policy: Policy) -> Bench {
        let set = DataSet::of_records(&about(), records(0)).unwrap();
        let machine = served(link, 4, 400, 4096).unwrap();
        let quotas = Quotas { sessions: 64, tasks: 4, pages: 1 << 32, lease: LEASE };
        let budget = machine.budget;
        let settings = Settings { cores: Cores::Twin, quotas, budget, ..Settings::default() };
        let engine = Engine::new(set, settings);
        let about = engine.set().about().clone();
        assert!(about.pages > 20, "the tests ask for as many: {}", about.pages);
        Bench { device: Paced::new(engine, machine, policy), about, next_id: 0 }
    }

    /// A command with a new number, which is returned.
    fn send(&mut self, host: u32, command: Command, data: Vec<u8>) -> u16 {
        self.next_id += 1;
        let command = Command { id: self.next_id, ..command };
        self.device.request(host, command.encode(), data);
        self.next_id
    }

    fn program(&self, keys: &[&str], sums: &[&str]) -> Program {
        let words = |all: &[&str]| all.iter().map(|w| (*w).to_owned()).collect();
        let filter = Some("n < 50".to_owned());
        let scan = Scan { filter, keys: words(keys), sums: words(sums), columns: vec![] };
        scan.plan(&self.about).unwrap().0
    }

    fn init_with(&mut self, host: u32, session: u32, pages: u64, program: &Program) -> u16 {
        let init = Command { session, page: pages, ..Command::plain(Opcode::Init, 0) };
        self.send(host, init, program.to_bytes())
    }

    fn init(&mut self, host: u32, session: u32, pages: u64) -> u16 {
        let program = self.program(&["m"], &["n * m"]);
        self.init_with(host, session, pages, &program)
    }

    fn ask(&mut self, host: u32, session: u32, page: u64) -> u16 {
        let ask = Command { session, page, attempt: 1, ..Command::plain(Opcode::ReadProc, page) };
        self.send(host, ask, Vec::new())
    }

    fn end(&mut self, host: u32, session: u32, opcode: Opcode) -> u16 {
        self.send(host, Command { session, ..Command::plain(opcode, 0) }, Vec::new())
    }

    fn write(&mut self, host: u32, address: u64, data: Vec<u8>) -> u16 {
        self.send(host, Command::plain(Opcode::Write, address), data)
    }

    /// What has been answered by the present time.
    fn answered(&mut self) -> Vec<Answer> {
        let now = self.device.now();
        assert!(self.device.advance(now).is_empty(), "every entry is a command");
        let mut all = Vec::new();
        while let Some((host, entry, data)) = self.device.response() {
            all.push((host, Completion::decode(&entry).unwrap(), data.into_vec()));
        }
        all
    }

    /// The next event; its answers, or none at all when nothing is under way.
    fn step(&mut self) -> Option<Vec<Answer>> {
        let mut found = self.answered();
        let at = self.device.next();
        if let Some(at) = at {
            assert!(self.device.advance(at).is_empty());
            found.extend(self.answered());
        }
        (at.is_some() || !found.is_empty()).then_some(found)
    }

    /// Every answer, until nothing is under way.
    fn run(&mut self) -> Vec<Answer> {
        let mut all = Vec::new();
        while let Some(found) = self.step() {
            all.extend(found);
        }
        all
    }

    /// The same by the number of the command.
    fn run_by_id(&mut self) -> BTreeMap<u16, (Completion, Vec<u8>)> {
        let all = self.run();
        let count = all.len();
        let by_id: BTreeMap<_, _> = all.into_iter().map(|(_, c, d)| (c.id, (c, d))).collect();
        assert_eq!(by_id.len(), count, "a command is answered once");
        by_id
    }

    fn status(&mut self, id: u16) -> Status {
        self.run_by_id()[&id].0.status
    }
}

/// The header of an empty data set, its pages and the header that commits them.
fn stored(shift: i64) -> (Vec<u8>, Vec<Vec<u8>>, Vec<u8>) {
    let mut pages = Vec::new();
    let put = |_, page: &[u8]| {
        pages.push(page.to_vec());
        Ok(())
    };
    let (count, rows) = records_of(&about(), records(shift), put).unwrap();
    let whole = About { pages: count, rows, ..about() };
    (about().to_bytes(), pages, whole.to_bytes())
}

#[test]
fn a_task_that_ends_beside_a_running_core_leaves_the_others_theirs() {
    let mut bench = Bench::new(Policy::Late);
    let pages = bench.about.pages;
    let cheap = bench.program(&[], &["n"]);
    let dear = bench.program(&["m"], &["n * m", "n * n", "m * m"]);
    let endless = Program { elf: Some(elf::executable(0x1_0000, &[LOOP])), ..cheap.clone() };
    for (session, program) in [(1, &cheap), (2, &cheap), (3, &dear), (4, &endless), (5, &endless)] {
        let begun = bench.init_with(session, session, pages, program);
        assert_eq!(bench.status(begun), Status::Processed);
    }
    // Both endless functions stand on cores. The first task ends, so that the others' places move,
    // and one of those that run.
    bench.ask(4, 4, 0);
    bench.ask(5, 5, 0);
    bench.answered();
    bench.end(1, 1, Opcode::Abort);
    bench.end(5, 5, Opcode::Abort);
    let mut next = [0, 0, 0, 0];
    let mut done = 0;
    for (session, depth) in [(2, 1), (3, 6)] {
        for _ in 0..depth {
            bench.ask(session, session, next[session as usize]);
            next[session as usize] += 1;
        }
    }
    while let Some(found) = bench.step() {
        for (host, completion, _) in found.into_iter().filter(|a| matches!(a.0, 2 | 3)) {
            assert!(matches!(completion.status, Status::Processed | Status::Raw));
            done += 1;
            let next = &mut next[host as usize];
            if *next < pages {
                bench.ask(host, host, *next);
                *next += 1;
            }
        }
    }
    assert_eq!(done, 2 * pages, "both scans have their pages");
}

#[test]
fn a_page_of_an_ended_task_is_not_merged_into_a_later_one_of_its_number() {
    for policy in [Policy::Late, Policy::Device, Policy::Host] {
        let mut bench = Bench::new(policy.clone());
        // The session has another task, so that it stays.
        let (init, words) = (Command::plain(Opcode::Init, 0), bench.program(&[], &[]).to_bytes());
        bench.send(1, Command { session: 7, task: 1, page: 1, ..init }, words);
        bench.init(1, 7, 20);
        let old: Vec<u16> = (0..20).map(|page| bench.ask(1, 7, page)).collect();
        // Some pages are on cores and on the link, the others wait.
        bench.answered();
        bench.end(1, 7, Opcode::Abort);
        let begun = bench.init(1, 7, 1);
        let own = bench.ask(1, 7, 0);
        let found = bench.run_by_id();
        assert_eq!(found[&begun].0.status, Status::Processed, "{policy:?}");
        for id in &old {
            assert_eq!(found[id].0.status, Status::SessionGone, "{policy:?}: page {id}");
        }
        let merged = u32::from(found[&own].0.status == Status::Processed);
        assert_eq!(merged, u32::from(policy != Policy::Host), "{policy:?}");
        let last = bench.end(1, 7, Opcode::Final);
        let found = bench.run_by_id();
        assert_eq!((found[&last].0.status, found[&last].0.merged), (Status::Result, merged));
    }
}

#[test]
fn more_pages_than_the_data_set_has_are_refused_in_words() {
    let mut bench = Bench::new(Policy::Late);
    let stored = bench.about.pages;
    for pages in [stored + 1, 1 << 32, u64::MAX] {
        let begun = bench.init(1, 7, pages);
        let (completion, words) = bench.run_by_id().remove(&begun).unwrap();
        let words = String::from_utf8(words).unwrap();
        assert_eq!(completion.status, Status::Refused, "{pages} pages: {words}");
        assert!(words.contains(&format!("{pages} pages")), "{words}");
        assert!(words.contains(&format!("has {stored}")), "{words}");
    }
    let begun = bench.init(1, 7, stored);
    assert_eq!(bench.status(begun), Status::Processed);
}

#[test]
fn the_cores_of_a_session_are_part_of_its_memory() {
    let mut bench = Bench::new(Policy::Late);
    let program = bench.program(&["m"], &["n * m"]);
    let file = Program { elf: Some(elf::executable(0x1_0000, &[LOOP])), ..program.clone() };
    let mut begin = |session, task, program: &Program| {
        let init = Command { session, task, page: 1, ..Command::plain(Opcode::Init, 0) };
        let begun = bench.send(session, init, program.to_bytes());
        let (completion, words) = bench.run_by_id().remove(&begun).unwrap();
        (completion.status, String::from_utf8(words).unwrap())
    };
    // A core each; a session may have four tasks, and cores of three.
    for task in 0..3 {
        assert_eq!(begin(7, task, &file).0, Status::Processed, "task {task}");
    }
    let (status, words) = begin(7, 3, &file);
    assert_eq!(status, Status::Exhausted, "{words}");
    assert!(words.contains("its session has"), "{words}");
    assert_eq!(begin(7, 2, &file).0, Status::Processed, "in place of the same task");
    assert_eq!(begin(7, 3, &program).0, Status::Processed, "a task without a core");
    assert_eq!(begin(8, 0, &file).0, Status::Processed, "another session");
    bench.end(7, 7, Opcode::Abort);
    bench.run();
    let init = Command { session: 7, task: 4, page: 1, ..Command::plain(Opcode::Init, 0) };
    let begun = bench.send(7, init, file.to_bytes());
    assert_eq!(bench.status(begun), Status::Processed, "a task that ends gives its memory back");
}

#[test]
fn a_draft_is_its_hosts_and_no_others() {
    let mut bench = Bench::new(Policy::Late);
    let (begin, pages, commit) = stored(1);
    let (_, others, _) = stored(2);
    let begun = bench.write(1, HEADER_ADDRESS, begin.clone());
    assert_eq!(bench.status(begun), Status::Processed);
    for (address, data) in
        [(0, &others[0]), (HEADER_ADDRESS, &commit), (HEADER_ADDRESS, &begin), (0, &others[0])]
    {
        let written = bench.write(2, address, data.clone());
        let (completion, words) = bench.run_by_id().remove(&written).unwrap();
        let words = String::from_utf8(words).unwrap();
        assert_eq!(completion.status, Status::Refused, "another host wrote: {words}");
        assert!(words.contains("another host"), "{words}");
    }
    for (n, page) in pages.iter().enumerate() {
        let written = bench.write(1, n as u64, page.clone());
        assert_eq!(bench.status(written), Status::Processed, "page {n}");
    }
    let committed = bench.write(1, HEADER_ADDRESS, commit);
    assert_eq!(bench.status(committed), Status::Processed);
    assert_eq!(bench.device.engine().set().read(0).unwrap().bytes(), pages[0]);
    // A host that is gone leaves the place to others.
    for host in [1, 2] {
        let begun = bench.write(host, HEADER_ADDRESS, begin.clone());
        assert_eq!(bench.status(begun), Status::Processed, "host {host}");
        bench.device.drop_host(host);
    }
}

#[test]
fn a_data_set_of_larger_pages_brings_a_larger_budget() {
    let mut bench = Bench::new(Policy::Late);
    let first = bench.device.engine().budget();
    for (page_bytes, times) in [(65536, 16), (8192, 2), (4096, 1)] {
        let about = About { page_bytes, ..about() };
        let mut pages = Vec::new();
        let put = |_, page: &[u8]| {
            pages.push(page.to_vec());
            Ok(())
        };
        let (count, rows) = records_of(&about, records(1), put).unwrap();
        bench.write(1, HEADER_ADDRESS, about.to_bytes());
        for (n, page) in pages.iter().enumerate() {
            bench.write(1, n as u64, page.clone());
        }
        let whole = About { pages: count, rows, ..about };
        let committed = bench.write(1, HEADER_ADDRESS, whole.to_bytes());
        assert_eq!(bench.status(committed), Status::Processed, "{page_bytes}");
        assert_eq!(bench.device.engine().budget(), times * first, "{page_bytes}");
    }
}

#[test]
fn a_refused_write_leaves_the_place_to_other_hosts() {
    let (begin, pages, commit) = stored(1);
    // A page out of order, a page of another size, a header that counts other pages, no header.
    let other = About { pages: 3, rows: 9, ..about() }.to_bytes();
    for (address, data) in [
        (7, pages[0].clone()),
        (0, vec![0; 8192]),
        (HEADER_ADDRESS, other),
        (HEADER_ADDRESS, vec![]),
    ] {
        let mut bench = Bench::new(Policy::Late);
        bench.write(1, HEADER_ADDRESS, begin.clone());
        let wrong = bench.write(1, address, data);
        assert_eq!(bench.status(wrong), Status::Refused);
        assert!(!bench.device.engine().set().has_draft(), "address {address:#x}");
        bench.write(2, HEADER_ADDRESS, begin.clone());
        for (n, page) in pages.iter().enumerate() {
            bench.write(2, n as u64, page.clone());
        }
        let committed = bench.write(2, HEADER_ADDRESS, commit.clone());
        assert_eq!(bench.status(committed), Status::Processed, "address {address:#x}");
    }
}

#[test]
fn a_host_that_lies_about_its_backlog_keeps_no_page_from_others() {
    let mut bench = Bench::new(Policy::Late);
    let program = bench.program(&["m"], &["n * m"]);
    for host in [1, 2] {
        bench.init_with(host, host, 40, &program);
    }
    let ask = |host: u32, page: u64, backlog: u64| Command {
        session: host,
        page,
        attempt: 1,
        backlog,
        host_page: 1_000,
        ..Command::plain(Opcode::ReadProc, page)
    };
    for page in 0..40 {
        bench.send(1, ask(1, page, u64::MAX), Vec::new());
        bench.send(2, ask(2, page, 0), Vec::new());
    }
    let raw = |answers: &[Answer], host| {
        answers.iter().filter(|a| a.0 == host && a.1.status == Status::Raw).count()
    };
    let answers = bench.run();
    assert!(raw(&answers, 2) > 0, "the link carries the honest host's pages");
    assert!(raw(&answers, 1) < raw(&answers, 2), "a host that is behind is sent fewer");
}

#[test]
fn a_scan_of_a_data_set_that_was_replaced_begins_again() {
    for policy in [Policy::Late, Policy::Device] {
        let mut bench = Bench::new(policy.clone());
        bench.init(1, 7, 20);
        let first = bench.ask(1, 7, 0);
        assert_eq!(bench.status(first), Status::Processed);
        let (begin, pages, commit) = stored(1);
        bench.write(2, HEADER_ADDRESS, begin);
        for (n, page) in pages.iter().enumerate() {
            bench.write(2, n as u64, page.clone());
        }
        // Pages are under way when the old data set ends.
        let under_way: Vec<u16> = (1..12).map(|page| bench.ask(1, 7, page)).collect();
        let committed = bench.write(2, HEADER_ADDRESS, commit);
        let later = bench.ask(1, 7, 12);
        let last = bench.end(1, 7, Opcode::Final);
        let found = bench.run_by_id();
        assert_eq!(found[&committed].0.status, Status::Processed, "{policy:?}");
        for id in under_way.iter().chain([&later, &last]) {
            assert_eq!(found[id].0.status, Status::SessionGone, "{policy:?}: command {id}");
        }
    }
}

#[test]
fn hosts_that_use_one_session_number_have_sessions_of_their_own() {
    let mut bench = Bench::new(Policy::Device);
    for host in [1, 2] {
        let begun = bench.init(host, 77, 4);
        let page = bench.ask(host, 77, 0);
        let found = bench.run_by_id();
        assert_eq!(found[&begun].0.status, Status::Processed, "host {host}");
        assert_eq!(found[&page].0.status, Status::Processed, "host {host}");
    }
    let page = bench.ask(1, 77, 1);
    assert_eq!(bench.status(page), Status::Processed);
    for (host, merged) in [(2, 1), (1, 2)] {
        let last = bench.end(host, 77, Opcode::Final);
        let found = bench.run_by_id();
        let (status, count) = (found[&last].0.status, found[&last].0.merged);
        assert_eq!((status, count), (Status::Result, merged), "host {host}");
    }
    // A host that is gone leaves no session behind, because no host could reach it.
    bench.init(1, 77, 4);
    bench.run();
    bench.device.drop_host(1);
    assert_eq!(bench.device.engine().sessions(), 0);
}

#[test]
fn an_end_that_ends_nothing_leaves_the_policy_what_it_knows() {
    // Half of the pages go to the cores, every other one; a new policy begins with the link.
    for opcode in [Opcode::Abort, Opcode::Final] {
        let mut bench = Bench::new(Policy::Static(vec![20]));
        bench.init(1, 7, 4);
        let first = bench.ask(1, 7, 0);
        assert_eq!(bench.status(first), Status::Raw);
        bench.end(2, 8, opcode);
        let second = bench.ask(1, 7, 1);
        assert_eq!(bench.status(second), Status::Processed, "{opcode:?}");
    }
}

#[test]
fn a_task_has_one_final_which_is_answered_however_it_ends() {
    for policy in [Policy::Late, Policy::Device, Policy::Host] {
        let mut bench = Bench::new(policy.clone());
        bench.init(1, 7, 20);
        let pages: Vec<u16> = (0..12).map(|page| bench.ask(1, 7, page)).collect();
        let [first, second] = [0; 2].map(|_| bench.end(1, 7, Opcode::Final));
        let found = bench.run_by_id();
        assert_eq!(found[&first].0.status, Status::Result, "{policy:?}");
        assert_eq!(found[&second].0.status, Status::Refused, "{policy:?}: one waits already");
        assert!(pages.iter().all(|id| found.contains_key(id)), "{policy:?}");
        // The end of the task under its waiting FINAL.
        bench.init(1, 7, 20);
        let pages: Vec<u16> = (0..12).map(|page| bench.ask(1, 7, page)).collect();
        let last = bench.end(1, 7, Opcode::Final);
        let abort = bench.end(1, 7, Opcode::Abort);
        let found = bench.run_by_id();
        assert_eq!(found[&abort].0.status, Status::Processed, "{policy:?}");
        assert_eq!(found[&last].0.status, Status::SessionGone, "{policy:?}");
        assert!(pages.iter().all(|id| found.contains_key(id)), "{policy:?}");
    }
}

#[test]
fn a_task_that_is_begun_anew_is_one_task() {
    // The second task's pages go to the cores; there is no third.
    let mut bench = Bench::new(Policy::Static(vec![0, 40]));
    for _ in 0..2 {
        bench.init(1, 7, 4);
        bench.run();
    }
    bench.init(2, 8, 4);
    let page = bench.ask(2, 8, 0);
    assert_eq!(bench.status(page), Status::Processed);
}

#[test]
fn a_host_that_is_gone_leaves_the_link_to_others() {
    // 200 pages of a host that is gone would take the link 0.2 s.
    let mut bench = Bench::over(4_000_000, Policy::Host);
    bench.init(1, 7, 20);
    for page in 0..20 {
        bench.ask(1, 7, page);
        (0..9).for_each(|_| {
            bench.send(1, Command::plain(Opcode::Read, page), Vec::new());
        });
    }
    bench.answered();
    bench.device.drop_host(1);
    let began = bench.device.now();
    let read = bench.send(2, Command::plain(Opcode::Read, 0), Vec::new());
    assert_eq!(bench.status(read), Status::Raw);
    let took = bench.device.now().saturating_sub(began);
    assert!(took < Picos::from_micros(3_000), "a page behind the one on the link: {took}");
    assert_eq!(bench.device.engine().sessions(), 0);
}

#[test]
fn a_lease_lasts_while_pages_end() {
    // The link takes 0.4 s for a page; the host asks for eight and is silent.
    let mut bench = Bench::over(10_000, Policy::Host);
    bench.init(1, 7, 8);
    (0..8).for_each(|page| {
        bench.ask(1, 7, page);
    });
    let mut raw = 0;
    while let Some(found) = bench.step() {
        bench.device.expire();
        raw += found.iter().filter(|a| a.1.status == Status::Raw).count();
    }
    let now = bench.device.now();
    assert!(now.0 > 2 * LEASE.0, "the pages take more than two leases: {now}");
    assert_eq!((raw, bench.device.engine().sessions()), (8, 1));
    let last = bench.end(1, 7, Opcode::Final);
    assert_eq!(bench.status(last), Status::Result);
    // Silence behind the last page ends the lease.
    bench.init(1, 7, 8);
    bench.run();
    let now = bench.device.now();
    bench.device.advance(Picos(now.0 + LEASE.0 + 1));
    bench.device.expire();
    assert_eq!(bench.device.engine().sessions(), 0);
}

#[test]
fn a_lease_lasts_while_one_page_takes_longer() {
    // The link takes 4 s for a page, which is four leases.
    let mut bench = Bench::over(1_000, Policy::Host);
    bench.init(1, 7, 2);
    let pages = [0, 1].map(|page| bench.ask(1, 7, page));
    bench.answered();
    let mut raw = 0;
    while let Some(at) = bench.device.next() {
        let now = bench.device.now();
        bench.device.advance(Picos(at.0.min(now.0 + LEASE.0 / 2)));
        bench.device.expire();
        assert_eq!(bench.device.engine().sessions(), 1, "{raw} of {} pages", pages.len());
        raw += bench.answered().iter().filter(|a| a.1.status == Status::Raw).count();
    }
    assert_eq!(raw, pages.len());
    assert!(bench.device.now().0 > 8 * LEASE.0);
    let last = bench.end(1, 7, Opcode::Final);
    assert_eq!(bench.status(last), Status::Result);
}

#[test]
fn a_device_that_stands_still_ends_no_session() {
    let mut bench = Bench::new(Policy::Device);
    bench.init(1, 7, 4);
    bench.run();
    // The device hears no host for ten leases; a command waits when it goes on.
    let (now, stall) = (bench.device.now(), Picos(10 * LEASE.0));
    let page = bench.ask(1, 7, 0);
    bench.device.stall(stall);
    bench.device.advance(Picos(now.0 + stall.0 + LEASE.0 / 2));
    bench.device.expire();
    assert_eq!(bench.status(page), Status::Processed);
    // Silence that it can hear counts as before.
    let now = bench.device.now();
    bench.device.advance(Picos(now.0 + LEASE.0 + 1));
    bench.device.expire();
    assert_eq!(bench.device.engine().sessions(), 0);
}

#[test]
fn functions_run_beside_a_link_of_any_rate() {
    for link in [100, 10_000] {
        let mut bench = Bench::over(link, Policy::Device);
        bench.init(1, 7, 4);
        let page = bench.ask(1, 7, 0);
        assert_eq!(bench.status(page), Status::Processed, "{link} B/s");
    }
}

#[test]
fn a_queue_beyond_the_clock_of_a_slow_link_is_an_end_far_away() {
    let mut bench = Bench::over(1, Policy::Late);
    // 5000 pages take longer at a byte per second than 64 bits of picoseconds count.
    for _ in 0..5000 {
        bench.send(2, Command::plain(Opcode::Read, 0), Vec::new());
    }
    bench.init(1, 7, 20);
    for page in 0..3 {
        bench.ask(1, 7, page);
    }
    assert!(bench.answered().is_empty() && bench.answered().is_empty());
}

#[test]
fn failures_of_sessions_that_ended_are_forgotten() {
    let mut bench = Bench::new(Policy::Device);
    let program = bench.program(&["m"], &["n * m"]);
    let endless = Program { elf: Some(elf::executable(0x1_0000, &[LOOP])), ..program };
    for (round, opcode) in [Opcode::Final, Opcode::Abort, Opcode::Catalogue].iter().enumerate() {
        bench.init_with(1, 7, 4, &endless);
        let page = bench.ask(1, 7, 0);
        assert_eq!(bench.status(page), Status::Raw, "round {round}");
        assert_eq!(bench.device.struck(), 1, "round {round}");
        bench.end(1, 7, *opcode);
        bench.run();
        if *opcode == Opcode::Catalogue {
            // The session's lease ends instead.
            let now = bench.device.now();
            bench.device.advance(Picos(now.0 + LEASE.0 + 1));
            bench.device.expire();
        }
        assert_eq!(bench.device.struck(), 0, "{opcode:?}");
    }
}
