//! Answers of a hostile device behind a local socket: an answer or an error for the host, never a
//! panic, and no memory beyond the limit of a message.
//!
//! An input is what the device answers to one command: odd first byte, the bytes as they are; even,
//! a completion with its data, with edits.
//!
//! Canary: before the first input the whole answer must be taken and a length beyond the limit
//! refused.

#![no_main]

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_push::api::{Device, Remote};
use littoral_push::command::{Command, Completion, Opcode, Status};
use littoral_push::error::Result;

struct Bench {
    _folder: tempfile::TempDir,
    path: PathBuf,
    listener: UnixListener,
}

static BENCH: LazyLock<Bench> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("device");
    let listener = UnixListener::bind(&path).expect("a socket");
    let bench = Bench { _folder: folder, path, listener };
    let (completion, data) = ask(&bench, &whole()).expect("canary: the whole answer");
    assert_eq!((completion.status, &data[..]), (Status::Raw, &DATA[..]), "canary");
    let mut long = whole();
    long[..4].copy_from_slice(&(1u32 << 30).to_le_bytes());
    assert!(ask(&bench, &long).is_err(), "canary: a length beyond the limit");
    bench
});

const DATA: [u8; 96] = [0x5a; 96];

/// A message as a device sends it: the length of its data, the completion, the data.
fn whole() -> Vec<u8> {
    let bytes = DATA.len() as u32;
    let answer = Completion { id: 3, attempt: 1, status: Status::Raw, bytes, merged: 0 };
    [&bytes.to_le_bytes()[..], &answer.encode(), &DATA].concat()
}

/// One command to a device that answers `bytes` and ends the stream.
fn ask(bench: &Bench, bytes: &[u8]) -> Result<(Completion, Vec<u8>)> {
    let mut host = Remote::open(&bench.path)?;
    let (mut device, _) = bench.listener.accept().expect("the host has connected");
    // An input is shorter than the socket's buffer.
    device.write_all(bytes).expect("the socket takes an input");
    device.shutdown(std::net::Shutdown::Write).expect("the stream is open");
    host.submit(&Command::plain(Opcode::Read, 0), &[])?;
    let answer = host.wait()?;
    // What follows is another answer, or the end.
    while host.wait().is_ok() {}
    Ok(answer)
}

fuzz_target!(|data: &[u8]| {
    let bench = &*BENCH;
    let Some((first, rest)) = data.split_first() else { return };
    let bytes = match first % 2 {
        1 => rest.to_vec(),
        _ => littoral_fuzz::edited(&whole(), rest),
    };
    if let Ok((_, data)) = ask(bench, &bytes) {
        assert!(data.len() <= bytes.len(), "data that the device did not send");
    }
});
