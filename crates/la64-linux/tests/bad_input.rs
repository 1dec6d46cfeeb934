//! Bad programs through `la64 run`: a clear error and exit status for what cannot be started, the
//! signal Linux would give for what goes wrong while it runs. Never a crash of the host's side, of
//! which the tests would see SIGABRT or a Rust panic's words.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Output;

const MMAP: i64 = 222;
const MUNMAP: i64 = 215;
const SIGACTION: i64 = 134;
const SIGALTSTACK: i64 = 132;

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn refused(bytes: &[u8], status: i32, words: &str) {
    let output = run_file(bytes, &[]);
    let interpreted = run_file(bytes, &["--tier", "0"]);
    assert_eq!(interpreted.status, output.status, "on tier 0");
    let text = text(&output);
    assert_eq!(output.status.code(), Some(status), "{words}: {text}");
    assert!(text.contains(words), "{words}: {text}");
    assert!(!text.contains("panicked"), "{text}");
}

fn killed(asm: &Asm, signal: i32) {
    let output = asm.run();
    let text = text(&output);
    assert_eq!(output.status.signal(), Some(signal), "{text}");
    assert!(!text.contains("panicked"), "{text}");
}

fn passes(asm: &Asm) {
    let output = asm.run();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn files_for_other_machines_and_broken_ones_are_refused() {
    let own = std::fs::read(env!("CARGO_BIN_EXE_la64")).expect("our own program");
    refused(&own, 5, "a program for x86-64");
    // The machine is Arm's, of 64 bits.
    let mut other = own;
    other[18] = 183;
    refused(&other, 4, "LoongArch");
    refused(b"", 4, "ELF");
    refused(b"#!/bin/sh\nexit 0\n", 4, "ELF");
    let good = elf(&[word("break", &[0])]);
    // The file's end is cut off, so is the program header, so is the header.
    for len in [good.len() - 1, 100, 40] {
        refused(&good[..len], 4, "program");
    }
    // The entry is odd: the first fetch faults, as after an exec in Linux.
    let mut odd = good.clone();
    odd[24] |= 1;
    assert_eq!(run_file(&odd, &[]).status.signal(), Some(libc::SIGBUS));
    // A segment that claims more than the address space.
    let mut huge = good;
    huge[64 + 40..64 + 48].copy_from_slice(&(1u64 << 60).to_le_bytes());
    let output = run_file(&huge, &[]);
    assert!(output.status.code().is_some_and(|c| c != 0 && c < 126), "{}", text(&output));
}

/// It is refused by its first bytes and not read: no machine has memory for it.
#[test]
fn a_long_file_that_is_no_program_is_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("image");
    write_program(&path, b"no program");
    let file = std::fs::File::options().write(true).open(&path).expect("the file");
    file.set_len(1 << 42).expect("a file with a hole");
    let output = la64().arg(&path).output().expect("la64 runs");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(text(&output).contains("not an ELF file"), "{}", text(&output));
}

fn elf(code: &[u32]) -> Vec<u8> {
    littoral_la64::elf::executable(AT, code)
}

#[test]
fn a_missing_interpreter_is_named() {
    refused(&with_interpreter("/lib64/no-such-loader.so"), 3, "/lib64/no-such-loader.so");
    // One that is no program either.
    refused(&with_interpreter("/etc/passwd"), 4, "/etc/passwd");
}

#[test]
fn a_missing_library_ends_as_the_loader_decides() {
    let Some(root) = std::env::var_os("LA64_SYSROOT").map(PathBuf::from) else {
        use std::io::Write as _;
        let why = "NOT RUN: no loong64 sysroot (set LA64_SYSROOT); see scripts/loong64-sysroot.sh";
        return writeln!(std::io::stderr(), "{why}").expect("stderr");
    };
    // A sysroot that has the loader and nothing else.
    let dir = tempfile::tempdir().expect("temporary directory");
    std::fs::create_dir(dir.path().join("lib64")).expect("folder");
    let loader = "lib64/ld-linux-loongarch-lp64d.so.1";
    let from = [root.join(loader), root.join("usr").join(loader)];
    let from = from.iter().find(|p| p.exists()).expect("the sysroot has a loader");
    std::fs::copy(from, dir.path().join(loader)).expect("copy");
    let output = la64().arg("-L").arg(dir.path()).arg(root.join("usr/bin/bash")).output();
    let output = output.expect("la64 runs");
    assert_eq!(output.status.code(), Some(127), "{}", text(&output));
    assert!(text(&output).contains("cannot open shared object file"), "{}", text(&output));
}

#[test]
fn jumps_into_nowhere_kill() {
    type Code<'a> = &'a [(&'static str, &'a [i64])];
    let jumps: [(Code<'_>, i32); 4] = [
        (&[("jirl", &[0, 0, 64])], libc::SIGSEGV),
        (&[("jirl", &[RA, 0, -4])], libc::SIGSEGV),
        (&[("ori", &[T0, 0, 2]), ("jirl", &[0, T0, 0])], libc::SIGBUS),
        // Into memory that may not be executed.
        (&[("addi.d", &[T0, SP, 0]), ("jirl", &[0, T0, 0])], libc::SIGSEGV),
    ];
    for (code, signal) in jumps {
        let mut asm = Asm::default();
        for (mnemonic, operands) in code {
            asm.op(mnemonic, operands);
        }
        killed(&asm, signal);
    }
}

/// Calls itself for ever, storing at each depth.
fn recursion(asm: &mut Asm) {
    asm.label("deeper").op("addi.d", &[SP, SP, -256]).op("st.d", &[RA, SP, 0]);
    asm.to("bl", &[], "deeper");
}

#[test]
fn a_stack_overflow_is_a_segmentation_fault() {
    let mut asm = Asm::default();
    recursion(&mut asm);
    killed(&asm, libc::SIGSEGV);
}

/// A handler of SIGSEGV at the label `handler`, with a stack of its own.
fn handle_overflow(asm: &mut Asm) {
    asm.address(T0, "alternate").address(T1, "space").op("st.d", &[T1, T0, 0]);
    asm.op("or", &[A0, T0, 0]).op("ori", &[A1, 0, 0]).call(SIGALTSTACK).expect_equal(A0, 0, 10);
    asm.address(T0, "handler").address(T1, "action").op("st.d", &[T0, T1, 0]);
    asm.op("ori", &[A0, 0, libc::SIGSEGV.into()]).op("or", &[A1, T1, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 11);
    // SA_SIGINFO | SA_ONSTACK.
    asm.data("action", &[0, 4 | 0x0800_0000, 0]).data("alternate", &[0, 0, 8192]);
    asm.data("space", &[0; 1024]);
}

#[test]
fn a_stack_overflow_can_be_handled_on_another_stack() {
    let mut asm = Asm::default();
    handle_overflow(&mut asm);
    asm.op("or", &[S0, SP, 0]);
    recursion(&mut asm);
    // The fault is just below the stack, more than a megabyte from where it began.
    asm.label("handler").op("ld.d", &[T0, A1, 16]).op("sub.d", &[T1, S0, T0]);
    asm.op("srli.d", &[T1, T1, 20]).op("sltui", &[T1, T1, 1]).expect_equal(T1, 0, 12).exit(0);
    passes(&asm);
}

/// A signal for whose frame the stack has no room becomes SIGSEGV, whose handler has its own stack.
#[test]
fn a_signal_without_room_for_its_frame_becomes_a_segmentation_fault() {
    const TGKILL: i64 = 131;
    const GETPID: i64 = 172;
    const GETTID: i64 = 178;
    const SIGUSR1: i64 = 10;
    let mut asm = Asm::default();
    handle_overflow(&mut asm);
    asm.address(T0, "wrong").address(T1, "plain").op("st.d", &[T0, T1, 0]);
    asm.op("ori", &[A0, 0, SIGUSR1]).op("or", &[A1, T1, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 12);
    asm.call(GETPID).op("or", &[S0, A0, 0]).call(GETTID).op("or", &[A1, A0, 0]);
    asm.op("or", &[A0, S0, 0]).op("ori", &[SP, 0, 16]).op("ori", &[A2, 0, SIGUSR1]).call(TGKILL);
    asm.exit(13).label("wrong").exit(14);
    asm.label("handler").op("ori", &[T0, 0, libc::SIGSEGV.into()]).expect_equal(A0, T0, 15);
    asm.exit(0).data("plain", &[0, 0, 0]);
    passes(&asm);
}

/// The next mapping lies below the stack, and an overflow does not reach it.
#[test]
fn a_stack_overflow_leaves_the_mapping_below_alone() {
    let mut asm = Asm::default();
    handle_overflow(&mut asm);
    asm.op("ori", &[A0, 0, 0]).constant(A1, 4096).op("ori", &[A2, 0, 3]).op("ori", &[A3, 0, 0x22]);
    asm.op("addi.d", &[A4, 0, -1]).op("ori", &[A5, 0, 0]).call(MMAP).op("or", &[S1, A0, 0]);
    recursion(&mut asm);
    // All of its words are zero.
    asm.label("handler").op("or", &[T0, S1, 0]).constant(T1, 4096).op("add.d", &[T1, T1, S1]);
    asm.op("ori", &[T2, 0, 0]).label("look").op("ld.d", &[T3, T0, 0]).op("or", &[T2, T2, T3]);
    asm.op("addi.d", &[T0, T0, 8]).to("bne", &[T0, T1], "look");
    asm.expect_equal(T2, 0, 12).exit(0);
    passes(&asm);
}

/// Maps two pages, unmaps the second: the address of the boundary is then in s1.
fn half_mapped(asm: &mut Asm) {
    asm.op("ori", &[A0, 0, 0]).constant(A1, 8192).op("ori", &[A2, 0, 3]).op("ori", &[A3, 0, 0x22]);
    asm.op("addi.d", &[A4, 0, -1]).op("ori", &[A5, 0, 0]).call(MMAP);
    asm.constant(T0, 4096).op("add.d", &[S1, A0, T0]).op("or", &[A0, S1, 0]);
    asm.op("or", &[A1, T0, 0]).call(MUNMAP).expect_equal(A0, 0, 10);
}

#[test]
fn unaligned_accesses_work_also_across_pages() {
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, 0]).constant(A1, 8192).op("ori", &[A2, 0, 3]).op("ori", &[A3, 0, 0x22]);
    asm.op("addi.d", &[A4, 0, -1]).op("ori", &[A5, 0, 0]).call(MMAP);
    asm.constant(T0, 4096).op("add.d", &[S1, A0, T0]).constant(T1, 0x1234_5678);
    asm.op("st.d", &[T1, S1, -3]).op("ld.d", &[T2, S1, -3]).expect_equal(T1, T2, 11);
    asm.op("st.h", &[T1, S1, -1]).op("ld.hu", &[T2, S1, -1]);
    asm.op("bstrpick.d", &[T3, T1, 15, 0]).expect_equal(T2, T3, 12);
    asm.op("xvreplgr2vr.d", &[1, T1]).op("xvst", &[1, S1, -11]).op("xvld", &[2, S1, -11]);
    asm.op("xvpickve2gr.d", &[T2, 2, 3]).expect_equal(T1, T2, 13);
    asm.op("vst", &[1, S1, -5]).op("vld", &[2, S1, -5]).op("vpickve2gr.d", &[T2, 2, 1]);
    asm.expect_equal(T1, T2, 14).exit(0);
    passes(&asm);
}

/// A store half of which is nowhere: SIGSEGV at the boundary, and nothing of it is stored.
#[test]
fn a_store_half_outside_stores_nothing() {
    let stores: [(&'static str, i64, i64); 5] =
        [("st.d", T1, -4), ("st.w", T1, -2), ("st.h", T1, -1), ("vst", 1, -8), ("xvst", 1, -24)];
    for (mnemonic, register, offset) in stores {
        let mut asm = Asm::default();
        half_mapped(&mut asm);
        asm.address(T0, "handler").address(T1, "action").op("st.d", &[T0, T1, 0]);
        asm.op("ori", &[A0, 0, libc::SIGSEGV.into()]).op("or", &[A1, T1, 0]);
        asm.op("ori", &[A2, 0, 0]).op("ori", &[A3, 0, 8]).call(SIGACTION);
        asm.op("addi.d", &[T1, 0, -1]).op("xvreplgr2vr.d", &[1, T1]);
        asm.label("fault").op(mnemonic, &[register, S1, offset]).exit(11);
        // Where it happened, which address, and the bytes before the boundary.
        asm.label("handler").op("ld.d", &[T0, A2, 176]).address(T1, "fault");
        asm.expect_equal(T0, T1, 12).op("ld.d", &[T0, A1, 16]).expect_equal(T0, S1, 13);
        for at in [-8, -16, -24, -32] {
            asm.op("ld.d", &[T0, S1, at]).expect_equal(T0, 0, 14);
        }
        asm.exit(0).data("action", &[0, 4, 0]);
        passes(&asm);
    }
}

#[test]
fn a_load_half_outside_kills_and_so_does_a_read_only_page() {
    for mnemonic in ["ld.d", "ld.w", "vld", "xvld"] {
        let mut asm = Asm::default();
        half_mapped(&mut asm);
        asm.op(mnemonic, &[T1, S1, -2]).exit(0);
        killed(&asm, libc::SIGSEGV);
    }
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, 0]).constant(A1, 4096).op("ori", &[A2, 0, 1]).op("ori", &[A3, 0, 0x22]);
    asm.op("addi.d", &[A4, 0, -1]).op("ori", &[A5, 0, 0]).call(MMAP);
    asm.op("ld.d", &[T0, A0, 0]).op("st.d", &[T0, A0, 0]).exit(0);
    killed(&asm, libc::SIGSEGV);
}

/// An empty file is mapped; its page may be read and has no memory.
#[test]
fn an_access_beyond_the_end_of_a_file_is_a_bus_error() {
    const MEMFD_CREATE: i64 = 279;
    let mut asm = Asm::default();
    asm.address(A0, "name").op("ori", &[A1, 0, 0]).call(MEMFD_CREATE).op("or", &[A4, A0, 0]);
    asm.op("ori", &[A0, 0, 0]).constant(A1, 4096).op("ori", &[A2, 0, 3]).op("ori", &[A3, 0, 1]);
    asm.op("ori", &[A5, 0, 0]).call(MMAP).op("slti", &[T0, A0, 0]).expect_equal(T0, 0, 10);
    asm.op("ld.d", &[T0, A0, 0]).exit(11).data("name", &[u64::from(b'm')]);
    killed(&asm, libc::SIGBUS);
}

/// Code and address of the signals, by the kernel's traps of LoongArch.
#[test]
fn signals_of_bad_instructions_say_what_the_kernel_says() {
    const SI_KERNEL: i64 = 0x80;
    const BUS_ADRERR: i64 = 2;
    let cases: [(i32, &'static str, [i64; 3], i64, i64); 2] = [
        (libc::SIGILL, "csrxchg", [A0, A1, 0], SI_KERNEL, 0),
        (libc::SIGBUS, "jirl", [0, T1, 4], BUS_ADRERR, 6),
    ];
    for (signal, mnemonic, operands, code, address) in cases {
        let mut asm = Asm::default();
        asm.address(T0, "handler").address(T1, "action").op("st.d", &[T0, T1, 0]);
        asm.op("ori", &[A0, 0, signal.into()]).op("or", &[A1, T1, 0]);
        asm.op("ori", &[A2, 0, 0]).op("ori", &[A3, 0, 8]).call(SIGACTION);
        asm.op("ori", &[T1, 0, 2]).op(mnemonic, &operands).exit(11);
        asm.label("handler").op("ld.w", &[T0, A1, 8]).op("ori", &[T1, 0, code]);
        asm.expect_equal(T0, T1, 12).op("ld.d", &[T0, A1, 16]).op("ori", &[T1, 0, address]);
        asm.expect_equal(T0, T1, 13).exit(0).data("action", &[0, 4, 0]);
        passes(&asm);
    }
}

/// A guard inside memory that may be written, as C libraries put one below the stack of a thread.
/// Kernels before 6.13 have none.
#[test]
fn an_access_to_a_guard_is_no_bus_error() {
    const MADVISE: i64 = 233;
    const GUARD_INSTALL: i64 = 102;
    const HAS_NONE: i32 = 77;
    const RIGHTS_REFUSE: i64 = 2;
    let meet_guard = |asm: &mut Asm| {
        asm.op("ori", &[A0, 0, 0]).constant(A1, 4096).op("ori", &[A2, 0, 3]);
        asm.op("ori", &[A3, 0, 0x22]).op("addi.d", &[A4, 0, -1]).op("ori", &[A5, 0, 0]);
        asm.call(MMAP).op("or", &[S0, A0, 0]);
        asm.constant(A1, 4096).op("ori", &[A2, 0, GUARD_INSTALL]).call(MADVISE);
        asm.to("beqz", &[A0], "guarded").exit(HAS_NONE.into());
        asm.label("guarded").op("st.d", &[S0, S0, 0]).exit(11);
    };
    let mut asm = Asm::default();
    meet_guard(&mut asm);
    if asm.run().status.code() == Some(HAS_NONE) {
        return;
    }
    killed(&asm, libc::SIGSEGV);
    let mut asm = Asm::default();
    asm.address(T0, "handler").address(T1, "action").op("st.d", &[T0, T1, 0]);
    asm.op("ori", &[A0, 0, libc::SIGSEGV.into()]).op("or", &[A1, T1, 0]);
    asm.op("ori", &[A2, 0, 0]).op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 10);
    meet_guard(&mut asm);
    asm.label("handler").op("ld.w", &[T0, A1, 8]).op("ori", &[T1, 0, RIGHTS_REFUSE]);
    asm.expect_equal(T0, T1, 12).op("ld.d", &[T0, A1, 16]).expect_equal(T0, S0, 13).exit(0);
    passes(asm.data("action", &[0, 4, 0]));
}

#[test]
fn unaligned_atomics_kill_with_a_bus_error() {
    for mnemonic in ["amadd.d", "amswap.w"] {
        let mut asm = Asm::default();
        asm.op("addi.d", &[T0, SP, -13]).op(mnemonic, &[T1, T2, T0]).exit(0);
        killed(&asm, libc::SIGBUS);
    }
    let mut asm = Asm::default();
    asm.op("addi.d", &[T0, SP, -13]).op("ll.d", &[T1, T0, 0]).exit(0);
    killed(&asm, libc::SIGBUS);
}
