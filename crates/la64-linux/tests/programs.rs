//! Linux programs through the `la64` binary: small static ones from our own encoder always, and
//! Debian's from a sysroot where `LA64_SYSROOT` names one (see scripts/loong64-sysroot.sh; its
//! sibling `amd64` holds the same versions to compare with).

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use littoral_la64::{elf, isa};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const AT: u64 = 0x1_2000_0000;
const A0: i64 = 4;
const A1: i64 = 5;
const A2: i64 = 6;
const A7: i64 = 11;

fn word(mnemonic: &str, operands: &[i64]) -> u32 {
    isa::encode(isa::find(mnemonic).expect(mnemonic), operands).expect("operands fit")
}

fn call(number: i64) -> [u32; 2] {
    [word("ori", &[A7, 0, number]), word("syscall", &[0])]
}

fn la64() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_la64"));
    command.arg("run");
    command
}

fn run(code: &[u32]) -> Output {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("program");
    std::fs::write(&path, elf::executable(AT, code)).expect("write program");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
    la64().arg("--stats").arg(&path).output().expect("la64 runs")
}

#[test]
fn the_exit_status_and_the_count_are_the_guests() {
    let output = run(&[[word("ori", &[A0, 0, 7])].as_slice(), &call(94)].concat());
    assert_eq!(output.status.code(), Some(7));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(" 3 instructions"), "{text}");
}

#[test]
fn a_program_writes_its_own_bytes() {
    let write = [word("ori", &[A0, 0, 1]), word("pcaddi", &[A1, -1]), word("ori", &[A2, 0, 4])];
    let exit = [word("ori", &[A0, 0, 0])];
    let output = run(&[&write[..], &call(64), &exit, &call(94)].concat());
    assert_eq!(output.stdout, word("ori", &[A0, 0, 1]).to_le_bytes());
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn faults_kill_the_guest_with_linux_signals() {
    let cases: [(&str, Vec<u32>, i32); 6] = [
        ("load from nowhere", vec![word("ld.d", &[A0, 0, 8])], libc::SIGSEGV),
        ("jump into nowhere", vec![word("jirl", &[0, 0, 64])], libc::SIGSEGV),
        ("no instruction", vec![0], libc::SIGILL),
        ("privileged", vec![word("csrxchg", &[A0, A1, 0])], libc::SIGILL),
        ("break", vec![word("break", &[0])], libc::SIGTRAP),
        (
            "unaligned atomic",
            vec![word("ori", &[A0, 0, 3]), word("amadd.d", &[A1, A2, A0])],
            libc::SIGBUS,
        ),
    ];
    for (name, code, signal) in cases {
        let output = run(&code);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(signal), "{name}: {text}");
        if signal == libc::SIGILL {
            assert!(text.contains(&format!("{:#010x}", code[0])), "the word is named: {text}");
        }
    }
}

#[test]
fn files_that_are_no_programs_are_named_errors() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("file");
    let cases: [(&[u8], &str); 2] =
        [(b"#!/bin/sh\n", "too short for an ELF"), (&[0; 100], "not an ELF file")];
    for (bytes, text) in cases {
        std::fs::write(&path, bytes).expect("write");
        let output = la64().arg(&path).output().expect("la64 runs");
        assert_eq!(output.status.code(), Some(4));
        assert!(String::from_utf8_lossy(&output.stderr).contains(text), "{output:?}");
    }
    let output = la64().arg(dir.path().join("missing")).output().expect("la64 runs");
    assert_eq!(output.status.code(), Some(3));
}

fn sysroot() -> Option<PathBuf> {
    let root = std::env::var_os("LA64_SYSROOT").map(PathBuf::from);
    if root.is_none() {
        use std::io::Write as _;
        let why = "NOT RUN: no loong64 sysroot (set LA64_SYSROOT); see scripts/loong64-sysroot.sh";
        writeln!(std::io::stderr(), "{why}").expect("stderr");
    }
    root
}

fn native(root: &Path, program: &str) -> Command {
    let amd64 = root.with_file_name("amd64");
    let mut command = Command::new(amd64.join("usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(amd64.join("usr/lib/x86_64-linux-gnu"));
    command.arg(amd64.join("usr/bin").join(program));
    command
}

/// Stands for the path of a file made for the test.
const INPUT: &str = "@";

/// The jobs: deterministic output, no time in it.
const JOBS: [(&str, &[&str]); 14] = [
    ("python3", &["-S", "-c", "print(sum(i * i for i in range(2000)), 1 / 3, 'x'.encode().hex())"]),
    (
        "perl",
        &["-e", "my %h; $h{$_ % 7} += $_ for 1..2000; print join(',', map {$h{$_}} sort keys %h)"],
    ),
    ("lua5.4", &["-e", "local s = 0 for i = 1, 2000 do s = s + i / 3 end print(s, math.pi ^ 0.5)"]),
    ("bash", &["-c", "x=0; for i in {1..200}; do ((x += i)); done; echo $x"]),
    // Traps, pipes, subshells, jobs, and programs that it starts.
    (
        "bash",
        &[
            "-c",
            "trap 'echo caught' USR1; kill -USR1 $$; (echo a; exit 3) | cat; echo ${PIPESTATUS[0]}; \
             for i in 1 2 3; do (exit $i) & wait $!; echo $?; done; \
             seq 1 100 | sort -rn | head -n 3 | tr '\\n' ' '; echo $((2 ** 40)) | wc -c; exit 5",
        ],
    ),
    (
        "sqlite3",
        &[
            ":memory:",
            "create table t(a integer, b text); \
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000) \
             insert into t select i * 7919 % 1009, printf('%05d', i) from n; \
             create index by_a on t(a); \
             select a % 10, count(*), max(b), avg(a) from t group by a % 10 order by 1",
        ],
    ),
    (
        "sqlite3",
        &[
            ":memory:",
            "create table t(a); insert into t values(1),(2.5); select sum(a), avg(a) from t",
        ],
    ),
    ("gawk", &["BEGIN { for (i = 0; i < 1000; i++) s += i / 7; print s, atan2(1, 2) }"]),
    ("openssl", &["dgst", "-sha256", INPUT]),
    ("gzip", &["-6", "-n", "-c", INPUT]),
    ("bzip2", &["-9", "-c", INPUT]),
    ("xz", &["-3", "-c", "-T1", INPUT]),
    ("zstd", &["-9", "-c", "-q", "--single-thread", INPUT]),
    ("sha256sum", &[INPUT]),
];

#[test]
fn debian_programs_print_what_their_amd64_builds_print() {
    let Some(root) = sysroot() else { return };
    let input = tempfile::NamedTempFile::new().expect("temporary file");
    let text: String = (0..5000).map(|n| format!("line {n} {}\n", n * n % 977)).collect();
    std::fs::write(input.path(), text).expect("write input");
    let path = input.path().to_str().expect("a UTF-8 path");
    for (program, arguments) in JOBS {
        let arguments = arguments.iter().map(|&a| if a == INPUT { path } else { a });
        let guest = root.join("usr/bin").join(program);
        let ours = la64()
            .arg("-L")
            .arg(&root)
            .arg(guest)
            .args(arguments.clone())
            .env("LC_ALL", "C")
            .output();
        let theirs = native(&root, program).args(arguments).env("LC_ALL", "C").output();
        let (ours, theirs) = (ours.expect("la64 runs"), theirs.expect("the amd64 build runs"));
        let errors = String::from_utf8_lossy(&ours.stderr);
        assert_eq!(ours.status.code(), theirs.status.code(), "{program}: {errors}");
        assert_eq!(ours.stdout, theirs.stdout, "{program}: {errors}");
    }
}

#[test]
fn python_threads_signals_and_processes_work() {
    let Some(root) = sysroot() else { return };
    let script = "
import threading, signal, os, time
total, lock = 0, threading.Lock()
def work():
    global total
    for _ in range(500):
        with lock: total += 1
ts = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in ts]; [t.join() for t in ts]
hits = []
signal.signal(signal.SIGALRM, lambda s, f: hits.append(s))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while len(hits) < 5: pass
signal.setitimer(signal.ITIMER_REAL, 0)
pid = os.fork()
if pid == 0: os.kill(os.getpid(), signal.SIGSEGV)
print(total, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), os.uname().machine)
";
    let python = root.join("usr/bin/python3");
    let output = la64().arg("-L").arg(&root).arg(python).args(["-S", "-c", script]).output();
    let output = output.expect("la64 runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.trim(), "2000 -11 loongarch64", "{}", String::from_utf8_lossy(&output.stderr));
}

/// Names of hosts come from a socket that the resolver sends two questions to at once.
#[test]
fn python_resolves_names_of_both_families() {
    let Some(root) = sysroot() else { return };
    let script = "
import socket
kinds = {f for f, *_ in socket.getaddrinfo('localhost', 80, socket.AF_UNSPEC, socket.SOCK_STREAM)}
print(socket.AF_INET in kinds or socket.AF_INET6 in kinds)
print(socket.getaddrinfo('127.0.0.1', 80, socket.AF_INET, socket.SOCK_STREAM)[0][4])
try: socket.getaddrinfo('no-such-name.invalid', 80)
except socket.gaierror as e: print(e.errno)";
    let python = root.join("usr/bin/python3");
    let output = la64().arg("-L").arg(&root).arg(&python).args(["-S", "-c", script]).output();
    let output = output.expect("la64 runs");
    let native = native(&root, "python3").args(["-S", "-c", script]).output().expect("python runs");
    let [ours, theirs] = [&output, &native].map(|o| String::from_utf8_lossy(&o.stdout));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(ours, theirs, "{errors}");
    assert!(ours.starts_with("True\n('127.0.0.1', 80)\n"), "{ours} {errors}");
}
