//! One code cache for all threads of a process: what one thread translated the others run, a full
//! cache is emptied under running threads, and a forked child goes on with what it inherits.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;
use std::io::Read as _;
use std::process::Stdio;

const FUTEX: i64 = 98;
const GETPID: i64 = 172;
const READ: i64 = 63;
const WRITE: i64 = 64;
const EXIT: i64 = 93;
const TGKILL: i64 = 131;
const SIGACTION: i64 = 134;
const GETTID: i64 = 178;
const WAIT4: i64 = 260;
const CLONE3: i64 = 435;
const SIGUSR1: i64 = 10;
const SIGCHLD: u64 = 17;
/// Shared memory, files, handlers; a thread; its id to the parent, cleared at its end.
const THREAD_FLAGS: u64 = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000 | 0x10_0000 | 0x20_0000;
/// The smallest cache that `la64` makes.
const SMALL: &str = "--code-size=256KiB";

fn ok(asm: &Asm, options: &[&str]) -> String {
    ok_file(&asm.file(), options)
}

fn ok_file(file: &[u8], options: &[&str]) -> String {
    let output = run_file(file, options);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{options:?}: {text}");
    text
}

const NOP: [i64; 3] = [0, 0, 0];
/// Words of a header of a segment.
const HEADER_WORDS: usize = 14;

/// The file of a program that begins with so many words: code that cannot be written, and behind it
/// the data in a segment of their own.
fn with_fixed_code(asm: &mut Asm) -> Vec<u8> {
    const FIRST: usize = 64;
    const SECOND: usize = FIRST + 4 * HEADER_WORDS;
    const LOAD: u32 = 1;
    while !(SECOND + 4 * asm.here()).is_multiple_of(4096) {
        asm.op("andi", &NOP);
    }
    let at = (SECOND + 4 * asm.here()) as u64;
    let mut file = asm.file();
    let len = file.len() as u64 - at;
    let entry = AT + (SECOND + 4 * HEADER_WORDS) as u64;
    file[24..32].copy_from_slice(&entry.to_le_bytes());
    file[56..58].copy_from_slice(&2u16.to_le_bytes());
    file[FIRST + 4] = 5;
    file[FIRST + 32..FIRST + 48].copy_from_slice(&[at, at].map(u64::to_le_bytes).concat());
    let mut header = [LOAD.to_le_bytes(), 6u32.to_le_bytes()].concat();
    header.extend([at, AT + at, AT + at, len, len, 0x1000].map(u64::to_le_bytes).concat());
    file[SECOND..SECOND + 4 * HEADER_WORDS].copy_from_slice(&header);
    file
}

/// The number before a unit in the words of `--stats`.
fn number_before(text: &str, unit: &str) -> u64 {
    let head = text.lines().find_map(|l| l.split_once(unit)).expect("figures").0;
    head.split_whitespace().next_back().and_then(|n| n.parse().ok()).expect("a number")
}

/// A function of `len` instructions that adds half of `len` to a0 and stores each sum.
fn work(asm: &mut Asm, name: &'static str, len: usize) {
    asm.label(name);
    for n in 1..len {
        match n % 2 {
            0 => asm.op("st.d", &[A0, SP, -16]),
            _ => asm.op("addi.d", &[A0, A0, 1]),
        };
    }
    asm.op("jirl", &[0, RA, 0]);
}

/// Calls `work` and ends the process with `status` unless it answers right.
fn call_work(asm: &mut Asm, len: usize, status: i64) {
    asm.op("ori", &[A0, 0, 0]).to("bl", &[], "work");
    asm.constant(T0, len as i64 / 2).expect_equal(A0, T0, status);
}

/// Makes a thread with stack number s1 that goes on at `child`.
fn start_thread(asm: &mut Asm) {
    asm.address(T0, "birth").address(T1, "tids").op("slli.d", &[T2, S1, 3]);
    asm.op("add.d", &[T1, T1, T2]).op("st.d", &[T1, T0, 16]).op("st.d", &[T1, T0, 24]);
    asm.address(T1, "stacks").op("slli.d", &[T2, S1, 10]).op("add.d", &[T1, T1, T2]);
    asm.op("st.d", &[T1, T0, 40]).op("or", &[A0, T0, 0]).op("ori", &[A1, 0, 64]).call(CLONE3);
    asm.to("beqz", &[A0], "child");
}

/// Waits for the end of the thread with stack number s1.
fn join_thread(asm: &mut Asm) {
    asm.label("wait").address(A0, "tids").op("slli.d", &[T2, S1, 3]).op("add.d", &[A0, A0, T2]);
    asm.op("ld.w", &[A2, A0, 0]).to("beqz", &[A2], "joined");
    asm.op("ori", &[A1, 0, 0]).op("ori", &[A3, 0, 0]).call(FUTEX).to("b", &[], "wait");
    asm.label("joined");
}

fn thread_data(asm: &mut Asm, threads: usize) {
    asm.data("birth", &[THREAD_FLAGS, 0, 0, 0, 0, 0, 1024, 0]);
    asm.data("tids", &vec![0; threads]).data("stacks", &vec![0; 128 * threads]);
}

/// `threads` threads that all work, or one that works as often.
fn workers(threads: i64, works: i64, len: usize) -> Asm {
    let mut asm = Asm::default();
    asm.op("ori", &[S1, 0, 0]).op("ori", &[S2, 0, threads]).label("more");
    start_thread(&mut asm);
    asm.op("addi.d", &[S1, S1, 1]).to("bne", &[S1, S2], "more");
    asm.label("next").op("addi.d", &[S1, S1, -1]);
    join_thread(&mut asm);
    asm.to("bnez", &[S1], "next").exit(0);
    asm.label("child").op("ori", &[S0, 0, works]).label("again");
    call_work(&mut asm, len, 10);
    asm.op("addi.d", &[S0, S0, -1]).to("bnez", &[S0], "again").op("ori", &[A0, 0, 0]).call(EXIT);
    work(&mut asm, "work", len);
    thread_data(&mut asm, threads as usize);
    asm
}

#[test]
fn many_threads_translate_what_one_does() {
    const LEN: usize = 4000;
    for (options, unit) in
        [(&["--stats"][..], " instructions translated"), (&["--stats", "--tier=0"], " blocks")]
    {
        let made = |asm: &Asm| number_before(&ok(asm, options), unit);
        let (one, many) = (made(&workers(1, 16, LEN)), made(&workers(16, 1, LEN)));
        assert!(one >= LEN as u64 / 64 && 100 * many <= 105 * one, "{options:?}: {one}, {many}");
    }
}

/// The program has more code than the cache holds, four threads run it, and a signal comes to one
/// of them again and again.
#[test]
fn a_full_cache_is_emptied_under_running_threads() {
    const LEN: usize = 30_000;
    let mut asm = Asm::default();
    asm.address(T0, "handler").address(T1, "action").op("st.d", &[T0, T1, 0]);
    asm.op("ori", &[A0, 0, SIGUSR1]).op("or", &[A1, T1, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 20);
    asm.op("ori", &[S1, 0, 0]).op("ori", &[S2, 0, 3]).label("more");
    start_thread(&mut asm);
    asm.op("addi.d", &[S1, S1, 1]).to("bne", &[S1, S2], "more");
    asm.call(GETPID).op("or", &[S2, A0, 0]).call(GETTID).op("or", &[FP, A0, 0]);
    asm.op("ori", &[S0, 0, 8]).label("own");
    asm.op("or", &[A0, S2, 0]).op("or", &[A1, FP, 0]).op("ori", &[A2, 0, SIGUSR1]).call(TGKILL);
    call_work(&mut asm, LEN, 11);
    asm.op("addi.d", &[S0, S0, -1]).to("bnez", &[S0], "own");
    asm.label("next").op("addi.d", &[S1, S1, -1]);
    join_thread(&mut asm);
    asm.to("bnez", &[S1], "next");
    asm.address(T0, "signals").op("ld.d", &[T0, T0, 0]).op("ori", &[T1, 0, 8]);
    asm.expect_equal(T0, T1, 12).exit(0);
    asm.label("child").op("ori", &[S0, 0, 8]).label("again");
    call_work(&mut asm, LEN, 10);
    asm.op("addi.d", &[S0, S0, -1]).to("bnez", &[S0], "again").op("ori", &[A0, 0, 0]).call(EXIT);
    asm.label("handler").address(T0, "signals").op("ld.d", &[T1, T0, 0]);
    asm.op("addi.d", &[T1, T1, 1]).op("st.d", &[T1, T0, 0]).op("jirl", &[0, RA, 0]);
    work(&mut asm, "work", LEN);
    asm.data("action", &[0, 0, 0]).data("signals", &[0]);
    thread_data(&mut asm, 3);
    let regions = ["--stats", SMALL, "--tier=2", "--look=5000"];
    for options in [&["--stats", SMALL][..], &["--stats", SMALL, "--wx"], &regions] {
        let translated = number_before(&ok(&asm, options), " instructions translated");
        assert!(translated >= 3 * LEN as u64, "dropped more than once: {translated}");
    }
}

/// Children are forked while another thread adds and drops code; each runs code that exists and
/// code that does not.
#[test]
fn forked_children_go_on_with_the_code_they_inherit() {
    const LEN: usize = 20_000;
    const CHILDREN: i64 = 60;
    let mut asm = Asm::default();
    asm.op("ori", &[S1, 0, 0]);
    start_thread(&mut asm);
    asm.constant(S0, CHILDREN).label("more").address(A0, "fork").op("ori", &[A1, 0, 64]);
    asm.call(CLONE3).to("beqz", &[A0], "forked").op("or", &[A0, A0, 0]);
    asm.address(A1, "status").op("ori", &[A2, 0, 0]).op("ori", &[A3, 0, 0]).call(WAIT4);
    asm.address(T0, "status").op("ld.w", &[T0, T0, 0]).expect_equal(T0, 0, 11);
    asm.op("addi.d", &[S0, S0, -1]).to("bnez", &[S0], "more").exit(0);
    asm.label("forked");
    call_work(&mut asm, LEN, 12);
    asm.op("ori", &[A0, 0, 0]).to("bl", &[], "other");
    asm.op("ori", &[T0, 0, 50]).expect_equal(A0, T0, 13).exit(0);
    asm.label("child").label("again");
    call_work(&mut asm, LEN, 10);
    asm.to("b", &[], "again");
    work(&mut asm, "work", LEN);
    work(&mut asm, "other", 100);
    asm.data("fork", &[0, 0, 0, 0, SIGCHLD, 0, 0, 0]).data("status", &[0]);
    thread_data(&mut asm, 1);
    let regions = [SMALL, "--tier=2", "--look=5000"];
    for options in [&[SMALL][..], &[SMALL, "--wx"], &["--tier=0"], &regions] {
        ok(&asm, options);
    }
}

/// Two threads are in loops, and children are forked meanwhile, which are in loops, too: some are
/// forked while a region is made.
#[test]
fn forked_children_make_regions_of_their_own() {
    const CHILDREN: i64 = 10;
    const ROUNDS: i64 = 1_500_000;
    let mut asm = Asm::default();
    for _ in 0..HEADER_WORDS {
        asm.op("andi", &NOP);
    }
    asm.op("ori", &[S1, 0, 0]);
    start_thread(&mut asm);
    asm.constant(S0, CHILDREN).label("more").to("bl", &[], "spin");
    asm.address(A0, "fork").op("ori", &[A1, 0, 64]);
    asm.call(CLONE3).to("beqz", &[A0], "forked").op("or", &[A0, A0, 0]);
    asm.address(A1, "status").op("ori", &[A2, 0, 0]).op("ori", &[A3, 0, 0]).call(WAIT4);
    asm.address(T0, "status").op("ld.w", &[T0, T0, 0]).expect_equal(T0, 0, 11);
    asm.op("addi.d", &[S0, S0, -1]).to("bnez", &[S0], "more").exit(0);
    asm.label("forked").to("bl", &[], "spin");
    asm.constant(T0, ROUNDS).expect_equal(A0, T0, 12).exit(0);
    asm.label("child").label("again").to("bl", &[], "spin").to("b", &[], "again");
    asm.label("spin").op("ori", &[A0, 0, 0]).constant(T1, ROUNDS).label("round");
    asm.op("addi.d", &[A0, A0, 1]).to("bne", &[A0, T1], "round").op("jirl", &[0, RA, 0]);
    asm.data("fork", &[0, 0, 0, 0, SIGCHLD, 0, 0, 0]).data("status", &[0]);
    thread_data(&mut asm, 1);
    let file = with_fixed_code(&mut asm);
    // Whether the helper comes to run before the program ends is up to the host.
    ok_file(&file, &["--tier=2"]);
    let text = ok_file(&file, &["--stats", "--tier=2", "--look=1000"]);
    assert!(number_before(&text, " regions") > 0);
}

/// Mappings of the process and of its forked child, while both wait.
#[test]
fn with_wx_no_memory_is_writable_and_executable() {
    let mut asm = Asm::default();
    call_work(&mut asm, 100, 10);
    asm.address(A0, "fork").op("ori", &[A1, 0, 64]).call(CLONE3).op("or", &[S1, A0, 0]);
    call_work(&mut asm, 100, 11);
    // Both write a byte and wait for the end of their input.
    asm.op("ori", &[A0, 0, 1]).address(A1, "fork").op("ori", &[A2, 0, 1]).call(WRITE);
    asm.op("ori", &[A0, 0, 0]).address(A1, "byte").op("ori", &[A2, 0, 1]).call(READ).exit(0);
    work(&mut asm, "work", 100);
    asm.data("fork", &[0, 0, 0, 0, SIGCHLD, 0, 0, 0]).data("byte", &[0]);
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("program");
    write_program(&path, &asm.file());
    for (options, expected) in [(&["--wx"][..], false), (&[], true)] {
        let mut command = la64();
        command.args(options).arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn().expect("la64 runs");
        program.stdout.as_mut().expect("piped").read_exact(&mut [0; 2]).expect("two bytes");
        let children = format!("/proc/{0}/task/{0}/children", program.id());
        let child = std::fs::read_to_string(children).expect("one child");
        for id in [program.id().to_string(), child.trim().to_owned()] {
            let maps = std::fs::read_to_string(format!("/proc/{id}/maps")).expect("maps");
            assert!(maps.contains(" r-xs ") || expected, "code is mapped in {maps}");
            assert_eq!(maps.contains(" rwx"), expected, "{options:?}: {maps}");
        }
        drop(program.stdin.take());
        assert!(program.wait().expect("it ends").success());
    }
}
