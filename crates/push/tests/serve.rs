//! The device behind a socket: answers, hosts that misbehave, hosts that are many.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use littoral_base::units::Picos;
use littoral_push::api::{
    About, Cores, DataSet, Device, Engine, HEADER_ADDRESS, Host, Outcome, Plan, Program, Remote,
    Scan, Settings,
};
use littoral_push::command::{Command, Completion, Opcode, Quotas, Status};
use littoral_push::device::profiled;
use littoral_push::error::{Kind, Result};
use littoral_push::page::{Column, Format, Schema, Value};
use littoral_push::policy::Policy;
use littoral_push::serve::Server;
use rustix::event::{PollFd, PollFlags, poll};

const ROWS: i64 = 30_000;

fn set() -> DataSet {
    set_of(0)
}

/// The first column of a record, which is never below `add`.
fn value(n: i64, add: i64) -> i64 {
    (n % 100 + add).min(99)
}

/// Data sets of one shape, whose answers differ.
fn set_of(add: i64) -> DataSet {
    let schema = Schema::new(vec![Column::int("n", 0, 99), Column::int("m", 0, 9)]).unwrap();
    let about = About::new(&schema, Format::Columns, 4096);
    let record = |n: i64| Ok(vec![Value::Int(value(n, add)), Value::Int(n % 10)]);
    DataSet::of_records(&about, (0..ROWS).map(record)).unwrap()
}

struct Running {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<(usize, usize)>>,
    _folder: Option<tempfile::TempDir>,
}

impl Running {
    fn start(policy: Policy, lease: Picos) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let running = Running::start_at(&folder.path().join("device"), policy, lease);
        Running { _folder: Some(folder), ..running }
    }

    fn start_at(path: &Path, policy: Policy, lease: Picos) -> Running {
        Running::start_with(set(), path, policy, lease)
    }

    fn start_with(set: DataSet, path: &Path, policy: Policy, lease: Picos) -> Running {
        let (mut machine, _) = profiled("summarizer-board").unwrap();
        machine.cores = 3;
        let quotas = Quotas { sessions: 64, tasks: 4, pages: 1 << 20, lease };
        let settings = Settings { cores: Cores::Twin, quotas, ..Settings::default() };
        let engine = Engine::new(set, settings);
        let mut server = Server::listen(path, engine, machine, policy, lease).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            server.run(&asked).unwrap();
            (server.engine().sessions(), server.connections())
        });
        Running { path: path.to_owned(), stop, thread: Some(thread), _folder: None }
    }

    /// Sessions and connections at the end.
    fn end(mut self) -> (usize, usize) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

const NEVER: Picos = Picos(u64::MAX / 2);

fn program(about: &About) -> Program {
    let (filter, sums) = (Some("n < 50".to_owned()), vec!["n * m".to_owned()]);
    let scan = Scan { filter, keys: vec!["m".to_owned()], sums, columns: vec![] };
    scan.plan(about).unwrap().0
}

fn scan(path: &Path, session: u32, plan: Plan) -> Result<Outcome> {
    let mut host = Host::new(Remote::open(path)?, session, 16);
    let about = host.about()?;
    host.scan(&program(&about), plan)
}

/// The same in plain Rust.
fn plain() -> Vec<(i64, u64, i128)> {
    plain_of(0)
}

fn plain_of(add: i64) -> Vec<(i64, u64, i128)> {
    let mut groups = [(0u64, 0i128); 10];
    for n in (0..ROWS).filter(|n| value(*n, add) < 50) {
        let group = &mut groups[(n % 10) as usize];
        *group = (group.0 + 1, group.1 + i128::from(value(n, add) * (n % 10)));
    }
    groups.iter().enumerate().map(|(m, g)| (m as i64, g.0, g.1)).collect()
}

fn groups(outcome: &Outcome) -> Vec<(i64, u64, i128)> {
    let row = |(k, g): (&Vec<Option<i64>>, &littoral_push::function::Group)| {
        (k[0].unwrap(), g.count, g.totals[0].sum)
    };
    outcome.answer.groups.iter().map(row).collect()
}

#[test]
fn every_policy_and_plan_gives_the_plain_answer() {
    for policy in [
        Policy::Late,
        Policy::Host,
        Policy::Device,
        Policy::HandCoded,
        Policy::Dynamic { queue: 2 },
    ] {
        let running = Running::start(policy.clone(), NEVER);
        for plan in [Plan::Push, Plan::Filter, Plan::Fetch] {
            let outcome = scan(&running.path, 1, plan).unwrap();
            assert_eq!(groups(&outcome), plain(), "{policy:?} {plan:?}: {outcome:?}");
        }
        assert_eq!(running.end().0, 0, "FINAL ends a session");
    }
}

#[test]
fn sixty_four_hosts_at_a_time_get_their_answers() {
    let running = Running::start(Policy::Late, NEVER);
    let path = &running.path;
    std::thread::scope(|scope| {
        let host = |session| scope.spawn(move || scan(path, session, Plan::Push).unwrap());
        let hosts: Vec<_> = (1..=70).map(host).collect();
        for host in hosts {
            assert_eq!(groups(&host.join().unwrap()), plain());
        }
    });
}

/// A host that has begun a task.
fn begun(path: &Path, session: u32) -> Result<Remote> {
    let mut device = Remote::open(path)?;
    device.submit(&Command::plain(Opcode::Read, HEADER_ADDRESS), &[])?;
    let (completion, header) = device.wait()?;
    let (program, _) = Scan::default().plan(&About::parse(&header)?)?;
    let number = completion.merged.into();
    let init = Command { session, page: 9, ..Command::plain(Opcode::Init, number) };
    device.submit(&init, &program.to_bytes())?;
    assert_eq!(device.wait()?.0.status, Status::Processed);
    Ok(device)
}

/// The same by a server whose leases are short: it is tried until no lease has ended meanwhile.
fn begun_in_time(path: &Path, session: u32) -> Remote {
    loop {
        match begun(path, session) {
            Ok(device) => return device,
            Err(e) => assert_eq!(e.kind(), Kind::Io, "{e}"),
        }
    }
}

/// Asks for nine pages, takes an answer and is gone.
fn vanish(mut device: Remote, session: u32) {
    for page in 0..9 {
        let ask = Command { session, page, attempt: 1, ..Command::plain(Opcode::ReadProc, page) };
        // The server may have closed the connection, where leases are short.
        let _ = device.submit(&ask, &[]);
    }
    let _ = device.wait();
}

/// Asks for 2000 pages, of which it reads none; fewer if the connection is closed meanwhile.
fn deaf(path: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    let message = [&[0u8; 4][..], &Command::plain(Opcode::Read, 0).encode()].concat();
    let _ = (0..2000).try_for_each(|_| stream.write_all(&message));
    stream
}

#[test]
fn hosts_that_misbehave_keep_nothing_from_others() {
    let running = Running::start(Policy::Late, NEVER);
    vanish(begun(&running.path, 1).unwrap(), 1);
    let _deaf = deaf(&running.path);
    let mut half = UnixStream::connect(&running.path).unwrap();
    half.write_all(&[0; 30]).unwrap();
    let mut wrong = UnixStream::connect(&running.path).unwrap();
    wrong.write_all(&[0xff; 200]).unwrap();
    assert_eq!(wrong.read(&mut [0]).unwrap_or(0), 0, "the connection is closed");
    let outcome = scan(&running.path, 3, Plan::Push).unwrap();
    assert_eq!(groups(&outcome), plain());
    assert_eq!(running.end().0, 0, "a session ends with its connection");
}

#[test]
fn silent_and_vanished_hosts_are_forgotten() {
    // Every host of this server is to be forgotten: however slow they are, each is.
    let running = Running::start(Policy::Late, Picos::from_micros(300_000));
    vanish(begun_in_time(&running.path, 1), 1);
    let mut silent = begun_in_time(&running.path, 2);
    let mut half = UnixStream::connect(&running.path).unwrap();
    let _ = half.write_all(&[0; 30]);
    assert_eq!(half.read(&mut [0]).unwrap_or(0), 0, "closed when its lease ends");
    // So is the silent host's, and its session with it.
    assert_eq!(silent.wait().unwrap_err().kind(), Kind::Io);
    assert_eq!(running.end(), (0, 0));
}

#[test]
fn a_host_that_does_not_read_is_closed() {
    let running = Running::start(Policy::Host, Picos::from_micros(400_000));
    let stream = deaf(&running.path);
    // It reads nothing: the connection ends with its lease all the same.
    let mut end = [PollFd::new(&stream, PollFlags::empty())];
    while poll(&mut end, None) != Ok(1) {}
    assert!(end[0].revents().contains(PollFlags::HUP), "{:?}", end[0].revents());
    assert_eq!(running.end(), (0, 0));
}

#[test]
fn what_is_no_socket_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.set");
    std::fs::write(&path, b"records").unwrap();
    let (machine, _) = profiled("summarizer-board").unwrap();
    let engine = Engine::new(set(), Settings { cores: Cores::Twin, ..Settings::default() });
    let error = Server::listen(&path, engine, machine, Policy::Late, NEVER).err().unwrap();
    assert_eq!(error.kind(), Kind::Usage, "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"records");
}

#[test]
fn a_server_that_ends_leaves_the_socket_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    let first = Running::start_at(&path, Policy::Late, NEVER);
    std::fs::remove_file(&path).unwrap();
    let second = Running::start_at(&path, Policy::Late, NEVER);
    first.end();
    assert_eq!(groups(&scan(&path, 1, Plan::Push).unwrap()), plain());
    second.end();
    assert!(!path.exists(), "a server removes its own");
}

/// A device that loses its server when a number of answers have come.
struct Losing<F> {
    device: Remote,
    left: u32,
    lose: Option<F>,
}

impl<F: FnOnce()> Device for Losing<F> {
    fn submit(&mut self, command: &Command, payload: &[u8]) -> Result<()> {
        self.device.submit(command, payload)
    }

    fn wait(&mut self) -> Result<(Completion, Vec<u8>)> {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.lose.take().into_iter().for_each(|lose| lose()),
        }
        self.device.wait()
    }

    fn reconnect(&mut self) -> Result<()> {
        self.device.reconnect()
    }
}

#[test]
fn a_server_that_vanishes_under_a_scan_and_returns_gives_the_answer() {
    // The header twice, the catalogue and INIT are four answers, then the pages come.
    for left in [4, 6, 9] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let first = Running::start_at(&path, Policy::Late, NEVER);
        let mut second = None;
        let lose = || {
            first.end();
            second = Some(Running::start_at(&path, Policy::Late, NEVER));
        };
        let device = Losing { device: Remote::open(&path).unwrap(), left, lose: Some(lose) };
        let mut host = Host::new(device, 1, 4);
        let about = host.about().unwrap();
        let outcome = host.scan(&program(&about), Plan::Push).unwrap();
        drop(host);
        assert_eq!(groups(&outcome), plain(), "lost after {left} answers");
        assert_eq!(outcome.losses, 1, "lost after {left} answers");
        assert_eq!(second.unwrap().end().0, 0);
    }
}

#[test]
fn a_server_that_returns_with_other_data_is_scanned_from_its_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    let first = Running::start_at(&path, Policy::Host, NEVER);
    let mut second = None;
    // As many records as before, in as many pages.
    let lose = || {
        first.end();
        second = Some(Running::start_with(set_of(7), &path, Policy::Host, NEVER));
    };
    // The header twice, then pages.
    let device = Losing { device: Remote::open(&path).unwrap(), left: 5, lose: Some(lose) };
    let mut host = Host::new(device, 1, 4);
    let about = host.about().unwrap();
    let outcome = host.scan(&program(&about), Plan::Fetch).unwrap();
    drop(host);
    assert_eq!(groups(&outcome), plain_of(7));
    assert_eq!((outcome.losses, outcome.raw), (1, about.pages), "every page is another");
    second.unwrap().end();
}

#[test]
fn a_server_that_ends_in_a_scan_is_an_error_and_one_that_returns_is_not() {
    let running = Running::start(Policy::Late, NEVER);
    let path = running.path.clone();
    let mut host = Host::new(Remote::open(&path).unwrap(), 1, 4);
    let about = host.about().unwrap();
    let (program, _) = Scan::default().plan(&about).unwrap();
    running.end();
    let error = host.scan(&program, Plan::Push).unwrap_err();
    assert_eq!(error.kind(), Kind::Io, "{error}");
    // Another server at the same place: the host connects again and starts over.
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let (machine, _) = profiled("summarizer-board").unwrap();
    let settings = Settings { cores: Cores::Twin, ..Settings::default() };
    let listen = || {
        let engine = Engine::new(set(), settings.clone());
        Server::listen(&path, engine, machine, Policy::Late, NEVER)
    };
    let mut server = listen().unwrap();
    assert!(listen().err().unwrap().to_string().contains("another server"));
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&stop).unwrap());
        let outcome = host.scan(&program, Plan::Push).unwrap();
        assert_eq!(outcome.answer.groups[&vec![]].count, ROWS as u64);
        assert_eq!(outcome.losses, 1);
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap();
    });
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}
