//! `vfork`: the child works in its parent's memory until it runs another program or ends.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;

const EXIT: i64 = 93;
const GETPID: i64 = 172;
const GETTID: i64 = 178;
const TGKILL: i64 = 131;
const SIGACTION: i64 = 134;
const CLONE: i64 = 220;
const EXECVE: i64 = 221;
const WAIT4: i64 = 260;
const SIGUSR1: i64 = 10;
const ENOENT: i64 = 2;
/// `CLONE_VM | CLONE_VFORK | SIGCHLD`.
const VFORK: i64 = 0x4111;

fn ok(asm: &Asm) {
    for options in [&[][..], &["--tier=0"], &["--wx"], &["--tier=2", "--look=300"]] {
        let output = run_file(&asm.file(), options);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{options:?}: {text}");
    }
}

/// Goes on at `child` in the child; the parent's s1 is the child's id.
fn vfork(asm: &mut Asm) {
    asm.constant(A0, VFORK).op("or", &[A1, 0, 0]).op("or", &[A2, 0, 0]).op("or", &[A3, 0, 0]);
    asm.op("or", &[A4, 0, 0]).call(CLONE).to("beqz", &[A0], "child").op("or", &[S1, A0, 0]);
}

/// Ends with `status` unless the child's word is `value`, and unless it ended by `code`.
fn expect(asm: &mut Asm, value: i64, code: i64, status: i64) {
    asm.address(T0, "word").op("ld.d", &[T0, T0, 0]).constant(T1, value);
    asm.expect_equal(T0, T1, status).op("or", &[A0, S1, 0]).address(A1, "status");
    asm.op("or", &[A2, 0, 0]).op("or", &[A3, 0, 0]).call(WAIT4).expect_equal(A0, S1, status + 1);
    asm.address(T0, "status").op("ld.w", &[T0, T0, 0]).constant(T1, code << 8);
    asm.expect_equal(T0, T1, status + 2);
}

fn store_word(asm: &mut Asm, register: i64) {
    asm.address(T0, "word").op("st.d", &[register, T0, 0]);
}

#[test]
fn a_vforked_child_writes_to_its_parents_memory() {
    for exit in [EXIT, 94] {
        let mut asm = Asm::default();
        asm.op("ori", &[S0, 0, 77]);
        vfork(&mut asm);
        // Registers are the parent's own.
        asm.op("ori", &[T0, 0, 77]).expect_equal(S0, T0, 10);
        expect(&mut asm, 5, 9, 20);
        asm.exit(0).label("child").op("ori", &[S0, 0, 5]);
        store_word(&mut asm, S0);
        asm.op("ori", &[A0, 0, 9]).call(exit).data("word", &[0]).data("status", &[0]);
        ok(&asm);
    }
}

/// As `posix_spawn` learns of it.
#[test]
fn the_parent_sees_why_exec_failed() {
    let mut asm = Asm::default();
    vfork(&mut asm);
    expect(&mut asm, -ENOENT, 127, 20);
    asm.exit(0).label("child").address(A0, "name").address(A1, "argv").op("or", &[A2, 0, 0]);
    asm.call(EXECVE);
    store_word(&mut asm, A0);
    asm.op("ori", &[A0, 0, 127]).call(94).data("word", &[0]).data("status", &[0]);
    asm.data("name", &[u64::from_le_bytes(*b"/nothing"), 0]).data("argv", &[0]);
    ok(&asm);
}

#[test]
fn a_program_that_the_child_runs_lets_the_parent_go_on() {
    let mut asm = Asm::default();
    vfork(&mut asm);
    expect(&mut asm, 6, 0, 20);
    asm.exit(0).label("child").op("ori", &[S0, 0, 6]);
    store_word(&mut asm, S0);
    asm.address(A0, "name").address(A1, "argv").op("st.d", &[A0, A1, 0]).op("or", &[A2, 0, 0]);
    asm.call(EXECVE).exit(3).data("word", &[0]).data("status", &[0]);
    asm.data("name", &[u64::from_le_bytes(*b"/bin/tru"), u64::from(b'e')]).data("argv", &[0, 0]);
    ok(&asm);
}

/// Handlers that the child sets are its own; signals that it got do not come to the parent.
#[test]
fn handlers_and_signals_of_the_child_stay_its_own() {
    let mut asm = Asm::default();
    let install = |asm: &mut Asm, handler| {
        asm.address(T0, handler).address(T1, "action").op("st.d", &[T0, T1, 0]);
        asm.op("ori", &[A0, 0, SIGUSR1]).op("or", &[A1, T1, 0]).op("ori", &[A2, 0, 0]);
        asm.op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 30);
    };
    let raise = |asm: &mut Asm| {
        asm.call(GETPID).op("or", &[S2, A0, 0]).call(GETTID).op("or", &[A1, A0, 0]);
        asm.op("or", &[A0, S2, 0]).op("ori", &[A2, 0, SIGUSR1]).call(TGKILL);
        asm.expect_equal(A0, 0, 31);
    };
    install(&mut asm, "parent's");
    vfork(&mut asm);
    expect(&mut asm, 100, 0, 20);
    raise(&mut asm);
    asm.address(T0, "word").op("ld.d", &[T0, T0, 0]).op("ori", &[T1, 0, 101]);
    asm.expect_equal(T0, T1, 32).exit(0).label("child");
    install(&mut asm, "child's");
    raise(&mut asm);
    asm.exit(0);
    for (label, add) in [("parent's", 1), ("child's", 100)] {
        asm.label(label).address(T0, "word").op("ld.d", &[T1, T0, 0]);
        asm.op("addi.d", &[T1, T1, add]).op("st.d", &[T1, T0, 0]).op("jirl", &[0, RA, 0]);
    }
    asm.data("action", &[0, 0, 0]).data("word", &[0]).data("status", &[0]);
    ok(&asm);
}

/// The child resets a handler, as `posix_spawn` does, and then another thread of the parent gets
/// the signal: it runs the parent's handler.
#[test]
fn handlers_of_the_child_are_not_those_of_the_parents_threads() {
    /// Shared memory, files, handlers; a thread.
    const THREAD: i64 = 0x50f00;
    let mut asm = Asm::default();
    asm.address(T0, "parent's").address(T1, "action").op("st.d", &[T0, T1, 0]);
    let install = |asm: &mut Asm| {
        asm.op("ori", &[A0, 0, SIGUSR1]).op("or", &[A1, T1, 0]).op("ori", &[A2, 0, 0]);
        asm.op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 30);
    };
    install(&mut asm);
    asm.constant(A0, THREAD).address(A1, "stack").op("addi.d", &[A1, A1, 1024]);
    asm.op("or", &[A2, 0, 0]).op("or", &[A3, 0, 0]).op("or", &[A4, 0, 0]).call(CLONE);
    asm.to("beqz", &[A0], "thread").op("or", &[S2, A0, 0]).call(GETPID).op("or", &[S0, A0, 0]);
    vfork(&mut asm);
    expect(&mut asm, 1, 0, 20);
    asm.exit(0).label("child").address(T1, "action").op("st.d", &[0, T1, 0]);
    install(&mut asm);
    asm.op("or", &[A0, S0, 0]).op("or", &[A1, S2, 0]).op("ori", &[A2, 0, SIGUSR1]).call(TGKILL);
    asm.expect_equal(A0, 0, 31).constant(T2, 1 << 30).address(T0, "word").label("wait");
    asm.op("ld.d", &[T1, T0, 0]).to("bnez", &[T1], "seen").op("addi.d", &[T2, T2, -1]);
    asm.to("bnez", &[T2], "wait").exit(32).label("seen").exit(0);
    asm.label("thread").to("b", &[], "thread");
    asm.label("parent's").address(T0, "word").op("ld.d", &[T1, T0, 0]);
    asm.op("addi.d", &[T1, T1, 1]).op("st.d", &[T1, T0, 0]).op("jirl", &[0, RA, 0]);
    asm.data("action", &[0, 0, 0]).data("word", &[0]).data("status", &[0]).data("stack", &[0; 160]);
    ok(&asm);
}

/// The child sets a handler and forks: all threads of the new process have it.
#[test]
fn handlers_of_the_child_are_those_of_a_process_that_it_forks() {
    /// Shared memory, files, handlers; a thread.
    const THREAD: i64 = 0x50f00;
    const SIGCHLD: i64 = 17;
    let mut asm = Asm::default();
    let install = |asm: &mut Asm, handler| {
        asm.address(T0, handler).address(T1, "action").op("st.d", &[T0, T1, 0]);
        asm.op("ori", &[A0, 0, SIGUSR1]).op("or", &[A1, T1, 0]).op("ori", &[A2, 0, 0]);
        asm.op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 30);
    };
    let clone = |asm: &mut Asm, flags, label| {
        asm.constant(A0, flags).op("or", &[A2, 0, 0]).op("or", &[A3, 0, 0]);
        asm.op("or", &[A4, 0, 0]).call(CLONE).to("beqz", &[A0], label);
    };
    install(&mut asm, "parent's");
    vfork(&mut asm);
    expect(&mut asm, 0, 0, 20);
    asm.exit(0).label("child");
    install(&mut asm, "child's");
    asm.op("or", &[A1, 0, 0]);
    clone(&mut asm, SIGCHLD, "forked");
    asm.address(A1, "status").op("or", &[A2, 0, 0]).op("or", &[A3, 0, 0]).call(WAIT4);
    asm.address(T0, "status").op("ld.w", &[A0, T0, 0]).op("srli.d", &[A0, A0, 8]).call(94);
    asm.label("forked").address(A1, "stack").op("addi.d", &[A1, A1, 1024]);
    clone(&mut asm, THREAD, "thread");
    asm.op("or", &[S2, A0, 0]).call(GETPID).op("or", &[A1, S2, 0]);
    asm.op("ori", &[A2, 0, SIGUSR1]).call(TGKILL).expect_equal(A0, 0, 31);
    asm.address(T0, "word").label("wait").op("ld.d", &[T1, T0, 0]).to("beqz", &[T1], "wait");
    asm.op("ori", &[T0, 0, 100]).expect_equal(T1, T0, 32).exit(0);
    asm.label("thread").to("b", &[], "thread");
    for (label, add) in [("parent's", 1), ("child's", 100)] {
        asm.label(label).address(T0, "word").op("ld.d", &[T1, T0, 0]);
        asm.op("addi.d", &[T1, T1, add]).op("st.d", &[T1, T0, 0]).op("jirl", &[0, RA, 0]);
    }
    asm.data("action", &[0, 0, 0]).data("word", &[0]).data("status", &[0]).data("stack", &[0; 160]);
    ok(&asm);
}
