//! What hosts send to a device that serves at a local socket: answered or the connection is closed,
//! and other hosts are served as before.
//!
//! An input is a list of {how, length, bytes}. Where `how` is even, the bytes go out as they are;
//! where it is odd, they are the fields of a command, whose data are a whole program with edits if
//! it begins a task, and the bytes behind the fields otherwise.
//!
//! Canary: before the first input a host must be told about the data set, and a whole program must
//! begin a task.

#![no_main]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use libfuzzer_sys::fuzz_target;
use littoral_base::units::Picos;
use littoral_push::api::{
    About, Cores, DataSet, Device, Engine, HEADER_ADDRESS, Host, Remote, Scan, Settings,
};
use littoral_push::command::{COMPLETION_BYTES, Command, OPCODES, Opcode, Quotas, Status};
use littoral_push::device::profiled;
use littoral_push::page::{Column, Format, Schema, Value};
use littoral_push::policy::Policy;
use littoral_push::serve::Server;

/// Some 100 pages: no more may be announced than there are.
const ROWS: i64 = 200_000;

struct Bench {
    _folder: tempfile::TempDir,
    path: PathBuf,
    program: Vec<u8>,
    /// The number of the data set, which INIT sends back.
    number: u64,
}

fn set() -> DataSet {
    let columns = vec![Column::int("n", 0, 99), Column::int("m", 0, 9)];
    let schema = Schema::new(columns).expect("a schema");
    let about = About::new(&schema, Format::Columns, 4096);
    let record = |n: i64| Ok(vec![Value::Int(n % 100), Value::Int(n % 10)]);
    DataSet::of_records(&about, (0..ROWS).map(record)).expect("records in range")
}

static BENCH: LazyLock<Bench> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("device");
    let (machine, _) = profiled("summarizer-board").expect("a shipped profile");
    let lease = Picos(u64::MAX / 2);
    let quotas = Quotas { sessions: 4, tasks: 2, pages: 64, lease };
    let settings = Settings { cores: Cores::Twin, quotas, ..Settings::default() };
    let engine = Engine::new(set(), settings);
    let server = Server::listen(&path, engine, machine, Policy::Late, lease);
    let mut server = server.expect("a socket");
    std::thread::spawn(move || server.run(&AtomicBool::new(false)).expect("the server goes on"));
    let mut host = Host::new(Remote::open(&path).expect("the server listens"), 9, 1);
    let about = host.about().expect("canary: a host is told about the data set");
    assert_eq!(about.rows, ROWS as u64);
    let filter = Some("n < 50".to_owned());
    let scan = Scan {
        filter,
        keys: vec!["m".to_owned()],
        sums: vec!["n * m".to_owned()],
        columns: vec![],
    };
    let (program, _) = scan.plan(&about).expect("the scan fits the schema");
    let program = program.to_bytes();
    let mut device = Remote::open(&path).expect("the server listens");
    let header = Command::plain(Opcode::Read, HEADER_ADDRESS);
    device.submit(&header, &[]).expect("the server takes it");
    let number = device.wait().expect("an answer").0.merged.into();
    let init = Command { session: 9, page: 4, ..Command::plain(Opcode::Init, number) };
    device.submit(&init, &program).expect("the server takes it");
    assert_eq!(device.wait().expect("an answer").0.status, Status::Processed, "canary");
    let end = Command { session: 9, ..Command::plain(Opcode::Abort, 0) };
    device.submit(&end, &[]).expect("the server takes it");
    device.wait().expect("an answer");
    Bench { _folder: folder, path, program, number }
});

/// A message: the length of the data, the command, the data.
fn message(command: &Command, data: &[u8]) -> Vec<u8> {
    [&(data.len() as u32).to_le_bytes()[..], &command.encode(), data].concat()
}

/// The command of these fields, each in a small range, and its data.
fn command(how: u8, bytes: &[u8], bench: &Bench) -> Vec<u8> {
    let field = |i: usize| bytes.get(i).copied().unwrap_or(0);
    let opcode = OPCODES[usize::from(how >> 1) % OPCODES.len()];
    let of_header = |n: u8| if n == u8::MAX { u64::MAX } else { u64::from(n) };
    let address =
        if opcode == Opcode::Init && field(8) == 0 { bench.number } else { of_header(field(8)) };
    let command = Command {
        id: field(0).into(),
        session: u32::from(field(1) % 6),
        task: u16::from(field(2) % 3),
        attempt: field(3).into(),
        page: of_header(field(4)),
        bytes: u32::from(field(5)) << 6,
        backlog: u64::from(field(6)) << 20,
        host_page: u64::from(field(7)) << 20,
        ..Command::plain(opcode, address)
    };
    let rest = bytes.get(9..).unwrap_or_default();
    match opcode {
        Opcode::Init => message(&command, &littoral_fuzz::edited(&bench.program, rest)),
        _ => message(&command, rest),
    }
}

fuzz_target!(|data: &[u8]| {
    let bench = &*BENCH;
    let (mut rest, mut all) = (data, Vec::new());
    while let [how, len, after @ ..] = rest {
        let (bytes, after) = after.split_at(usize::from(*len).min(after.len()));
        match how % 2 {
            0 => all.extend_from_slice(bytes),
            _ => all.extend(command(*how, bytes, bench)),
        }
        rest = after;
    }
    let mut stream = UnixStream::connect(&bench.path).expect("the server listens");
    let mut reader = stream.try_clone().expect("a second handle");
    let reading = std::thread::spawn(move || {
        let mut sink = [0; 4096];
        while matches!(reader.read(&mut sink), Ok(n) if n > 0) {}
    });
    // The server may close the connection in the middle of it.
    let _ = stream.write_all(&all);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    reading.join().expect("a reader");
    // Another host is served.
    let mut other = UnixStream::connect(&bench.path).expect("the server listens");
    other.write_all(&message(&Command::plain(Opcode::Catalogue, 0), &[])).expect("it takes it");
    let mut head = [0; 4 + COMPLETION_BYTES];
    other.read_exact(&mut head).expect("an answer to another host");
});
