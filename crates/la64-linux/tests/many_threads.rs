//! Threads by the thousand, the end of the last ones, and signals that arrive within signals.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;

const EXIT: i64 = 93;
const FUTEX: i64 = 98;
const KILL: i64 = 129;
const TGKILL: i64 = 131;
const SIGACTION: i64 = 134;
const GETPID: i64 = 172;
const GETTID: i64 = 178;
const WAIT4: i64 = 260;
const CLONE3: i64 = 435;
const SIGUSR1: i64 = 10;
const SIGCHLD: i64 = 17;
const SIGCONT: i64 = 18;
const SIGSTOP: i64 = 19;
/// A signal that queues.
const REAL_TIME: i64 = 40;
const SA_NOCLDSTOP: u64 = 1;
const SA_NODEFER: u64 = 0x4000_0000;
/// Shared memory, files, handlers; a thread; its id to the parent, cleared at its end.
const THREAD_FLAGS: u64 = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000 | 0x10_0000 | 0x20_0000;

fn ok(asm: &Asm) {
    let output = asm.run();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The arguments of `clone3`, filled in by `start`.
fn thread_data(asm: &mut Asm) {
    asm.data("birth", &[THREAD_FLAGS, 0, 0, 0, 0, 0, 4096, 0]);
    asm.data("tid", &[0]).data("stack", &[0; 512]);
}

/// Makes a thread that goes on at label `child`; the parent's result is in a0.
fn start(asm: &mut Asm) {
    asm.address(T0, "birth").address(T1, "tid").op("st.d", &[T1, T0, 16]);
    asm.op("st.d", &[T1, T0, 24]).address(T1, "stack").op("st.d", &[T1, T0, 40]);
    asm.op("or", &[A0, T0, 0]).op("ori", &[A1, 0, 64]).call(CLONE3);
    asm.to("beqz", &[A0], "child");
}

/// Installs the action at `action`, with `handler` as its first word.
fn install(asm: &mut Asm, signal: i64) {
    asm.address(T0, "handler").address(T1, "action").op("st.d", &[T0, T1, 0]);
    asm.op("ori", &[A0, 0, signal]).op("or", &[A1, T1, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 20);
}

/// Adds one to the doubleword at `label`.
fn count(asm: &mut Asm, label: &'static str) {
    asm.address(T0, label).op("ori", &[T1, 0, 1]).op("amadd_db.d", &[0, T1, T0]);
}

fn expect_count(asm: &mut Asm, label: &'static str, value: i64, status: i64) {
    asm.address(T0, label).op("ld.d", &[T0, T0, 0]).constant(T1, value);
    asm.expect_equal(T0, T1, status);
}

#[test]
fn ten_thousand_threads_are_born_and_gone() {
    const THREADS: i64 = 10_000;
    let mut asm = Asm::default();
    asm.constant(S0, THREADS).label("more");
    start(&mut asm);
    asm.op("slt", &[T0, 0, A0]).op("ori", &[T1, 0, 1]).expect_equal(T0, T1, 10);
    asm.label("wait").address(A0, "tid").op("ld.w", &[A2, A0, 0]).to("beqz", &[A2], "joined");
    asm.op("ori", &[A1, 0, 0]).op("ori", &[A3, 0, 0]).call(FUTEX).to("b", &[], "wait");
    asm.label("joined").op("addi.d", &[S0, S0, -1]).to("bnez", &[S0], "more");
    expect_count(&mut asm, "count", THREADS, 11);
    asm.exit(0).label("child");
    count(&mut asm, "count");
    asm.op("ori", &[A0, 0, 0]).call(EXIT).data("count", &[0]);
    thread_data(&mut asm);
    ok(&asm);
}

/// Two threads end at the same time, neither by `exit_group`: the process ends, with the status of
/// the first thread.
#[test]
fn a_process_ends_with_its_last_two_threads() {
    let mut asm = Asm::default();
    start(&mut asm);
    let meet = |asm: &mut Asm, label: &'static str| {
        count(asm, "ready");
        asm.label(label).address(T0, "ready").op("ld.d", &[T1, T0, 0]);
        asm.op("addi.d", &[T1, T1, -2]).to("bnez", &[T1], label);
    };
    meet(&mut asm, "first");
    asm.op("ori", &[A0, 0, 5]).call(EXIT);
    asm.label("child");
    meet(&mut asm, "second");
    asm.op("ori", &[A0, 0, 6]).call(EXIT);
    asm.data("ready", &[0]);
    thread_data(&mut asm);
    for _ in 0..40 {
        let output = asm.run();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{text}");
    }
}

/// A handler that may interrupt itself sends the signal again until it is 100 deep; each level
/// finds its own number when it goes on.
#[test]
fn a_handler_is_interrupted_by_its_own_signal() {
    const DEPTH: i64 = 100;
    let mut asm = Asm::default();
    install(&mut asm, SIGUSR1);
    asm.call(GETPID).op("or", &[S0, A0, 0]).call(GETTID).op("or", &[S1, A0, 0]);
    let send = |asm: &mut Asm| {
        asm.op("or", &[A0, S0, 0]).op("or", &[A1, S1, 0]).op("ori", &[A2, 0, SIGUSR1]);
        asm.call(TGKILL).expect_equal(A0, 0, 10);
    };
    send(&mut asm);
    expect_count(&mut asm, "begun", DEPTH, 11);
    expect_count(&mut asm, "ended", DEPTH, 12);
    asm.exit(0).label("handler");
    count(&mut asm, "begun");
    asm.address(T0, "begun").op("ld.d", &[S2, T0, 0]).constant(T1, DEPTH);
    asm.to("beq", &[S2, T1], "deep");
    send(&mut asm);
    // The level that ends next is this one: so many have ended as were deeper.
    asm.label("deep").address(T0, "ended").op("ld.d", &[T1, T0, 0]).op("add.d", &[T1, T1, S2]);
    asm.constant(T2, DEPTH).expect_equal(T1, T2, 13);
    count(&mut asm, "ended");
    asm.op("jirl", &[0, RA, 0]);
    asm.data("action", &[0, SA_NODEFER, 0]).data("begun", &[0]).data("ended", &[0]);
    ok(&asm);
}

/// One thread sends a queueing signal to the other without pause, also while its handler runs and
/// while it is in system calls: each sent one is handled once.
#[test]
fn no_queued_signal_of_another_thread_is_lost() {
    const SENT: i64 = 3000;
    let mut asm = Asm::default();
    install(&mut asm, REAL_TIME);
    asm.call(GETTID).op("or", &[S1, A0, 0]);
    start(&mut asm);
    asm.constant(S2, SENT);
    asm.label("again").call(GETPID).address(T0, "count").op("ld.d", &[T0, T0, 0]);
    asm.to("blt", &[T0, S2], "again");
    // The sender has ended when its id is cleared.
    asm.label("wait").address(A0, "tid").op("ld.w", &[A2, A0, 0]).to("beqz", &[A2], "joined");
    asm.op("ori", &[A1, 0, 0]).op("ori", &[A3, 0, 0]).call(FUTEX).to("b", &[], "wait");
    asm.label("joined");
    expect_count(&mut asm, "count", SENT, 10);
    asm.exit(0).label("child").call(GETPID).op("or", &[S0, A0, 0]).constant(S2, SENT);
    // A full queue refuses: then again.
    asm.label("send").op("or", &[A0, S0, 0]).op("or", &[A1, S1, 0]);
    asm.op("ori", &[A2, 0, REAL_TIME]).call(TGKILL).to("bnez", &[A0], "send");
    asm.op("addi.d", &[S2, S2, -1]).to("bnez", &[S2], "send");
    asm.op("ori", &[A0, 0, 0]).call(EXIT);
    asm.label("handler");
    count(&mut asm, "count");
    asm.op("jirl", &[0, RA, 0]).data("action", &[0, 0, 0]).data("count", &[0]);
    thread_data(&mut asm);
    ok(&asm);
}

/// A process ends while its other thread writes what a robust lock guards: when the lock is given
/// up, that thread writes no more.
#[test]
fn a_lock_is_given_up_when_its_owner_is_stopped() {
    const SET_ROBUST_LIST: i64 = 99;
    const MMAP: i64 = 222;
    const SHARED_ANONYMOUS: i64 = 0x21;
    // In the shared page: the lock, and behind it what it guards.
    const GUARDED: i64 = 16;
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, 0]).constant(A1, 4096).op("ori", &[A2, 0, 3]);
    asm.op("ori", &[A3, 0, SHARED_ANONYMOUS]).op("addi.d", &[A4, 0, -1]);
    asm.op("ori", &[A5, 0, 0]).call(MMAP).op("or", &[S0, A0, 0]);
    asm.address(A0, "fork").op("ori", &[A1, 0, 64]).call(CLONE3).to("beqz", &[A0], "process");
    asm.op("or", &[S1, A0, 0]).label("alive").op("ld.w", &[T0, S0, 0]);
    asm.op("srli.d", &[T0, T0, 30]).op("andi", &[T0, T0, 1]).to("beqz", &[T0], "alive");
    asm.op("dbar", &[0]).op("ld.d", &[S2, S0, GUARDED]);
    asm.op("or", &[A0, S1, 0]).op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 0]).call(WAIT4).expect_equal(A0, S1, 10);
    asm.op("ld.d", &[T0, S0, GUARDED]).expect_equal(T0, S2, 11).exit(0);
    asm.label("process");
    start(&mut asm);
    asm.label("wait").op("ld.d", &[T0, S0, GUARDED]).to("beqz", &[T0], "wait").exit(0);
    // A list of the lock alone, which lies as far behind the entry as it happens to.
    asm.label("child").address(T0, "head").address(T1, "held").op("st.d", &[T1, T0, 0]);
    asm.op("st.d", &[T0, T1, 0]).op("sub.d", &[T2, S0, T1]).op("st.d", &[T2, T0, 8]);
    asm.op("or", &[A0, T0, 0]).op("ori", &[A1, 0, 24]).call(SET_ROBUST_LIST);
    asm.call(GETTID).op("st.w", &[A0, S0, 0]).label("writes").op("ld.d", &[T0, S0, GUARDED]);
    asm.op("addi.d", &[T0, T0, 1]).op("st.d", &[T0, S0, GUARDED]).to("b", &[], "writes");
    asm.data("head", &[0; 3]).data("held", &[0]).data("fork", &[0, 0, 0, 0, 17, 0, 0, 0]);
    thread_data(&mut asm);
    // With `--stats` threads are stopped in any case.
    for options in [&[][..], &["--tier=0"]] {
        let output = run_file(&asm.file(), options);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{options:?}: {text}");
    }
}

/// A child that stops and goes on makes no SIGCHLD, its end does.
#[test]
fn stopped_children_are_not_told_of_if_the_action_says_so() {
    const WUNTRACED: i64 = 2;
    let mut asm = Asm::default();
    install(&mut asm, SIGCHLD);
    asm.address(A0, "birth").op("ori", &[A1, 0, 64]).call(CLONE3).to("beqz", &[A0], "child");
    asm.op("or", &[S0, A0, 0]);
    let wait = |asm: &mut Asm, low_byte, status| {
        asm.op("or", &[A0, S0, 0]).address(A1, "status").op("ori", &[A2, 0, WUNTRACED]);
        asm.op("ori", &[A3, 0, 0]).call(WAIT4).expect_equal(A0, S0, status);
        asm.address(T0, "status").op("ld.bu", &[T1, T0, 0]).op("ori", &[T2, 0, low_byte]);
        asm.expect_equal(T1, T2, status + 1);
    };
    wait(&mut asm, 0x7f, 10);
    asm.op("or", &[A0, S0, 0]).op("ori", &[A1, 0, SIGCONT]).call(KILL);
    wait(&mut asm, 0, 12);
    expect_count(&mut asm, "count", 1, 14);
    asm.exit(0).label("child").call(GETPID).op("ori", &[A1, 0, SIGSTOP]).call(KILL).exit(0);
    asm.label("handler");
    count(&mut asm, "count");
    asm.op("jirl", &[0, RA, 0]).data("action", &[0, SA_NOCLDSTOP | 0x1000_0000, 0]);
    asm.data("birth", &[0, 0, 0, 0, 17, 0, 0, 0]).data("count", &[0]).data("status", &[0]);
    ok(&asm);
}

/// One thread writes to a page whose rights the other one takes and gives back. The handler of
/// SIGSEGV lets the access be made again; it is never beyond the end of a file.
#[test]
fn a_right_that_comes_back_during_a_fault_is_no_bus_error() {
    const MPROTECT: i64 = 226;
    const MMAP: i64 = 222;
    const SIGSEGV: i64 = 11;
    const ROUNDS: i64 = 20_000;
    let mut asm = Asm::default();
    install(&mut asm, SIGSEGV);
    asm.op("ori", &[A0, 0, 0]).constant(A1, 4096).op("ori", &[A2, 0, 3]).op("ori", &[A3, 0, 0x22]);
    asm.op("addi.d", &[A4, 0, -1]).op("ori", &[A5, 0, 0]).call(MMAP).op("or", &[S1, A0, 0]);
    start(&mut asm);
    asm.constant(S0, ROUNDS).label("more");
    for rights in [0, 3] {
        asm.op("or", &[A0, S1, 0]).constant(A1, 4096).op("ori", &[A2, 0, rights]);
        asm.call(MPROTECT).expect_equal(A0, 0, 10);
    }
    asm.op("addi.d", &[S0, S0, -1]).to("bnez", &[S0], "more").exit(0);
    asm.label("child").op("st.d", &[S0, S1, 0]).to("b", &[], "child");
    // The code: the page is there, its rights are not.
    asm.label("handler").op("ld.w", &[T0, A1, 8]).op("ori", &[T1, 0, 2]).expect_equal(T0, T1, 11);
    asm.op("jirl", &[0, RA, 0]).data("action", &[0, 0, 0]);
    thread_data(&mut asm);
    ok(&asm);
}

/// One thread blocks a signal and lets it through in turn, another one sends it. What came before
/// it was blocked is handled before: no handler finds its signal blocked where it interrupts.
#[test]
fn no_handler_runs_where_its_signal_is_blocked() {
    const SIGPROCMASK: i64 = 135;
    const SENT: i64 = 20_000;
    const BIT: i64 = 1 << (SIGUSR1 - 1);
    let mut asm = Asm::default();
    install(&mut asm, SIGUSR1);
    asm.call(GETPID).op("or", &[S0, A0, 0]).call(GETTID).op("or", &[S1, A0, 0]);
    start(&mut asm);
    asm.label("more");
    // SIG_BLOCK, SIG_UNBLOCK.
    for how in [0, 1] {
        asm.op("ori", &[A0, 0, how]).address(A1, "set").op("ori", &[A2, 0, 0]);
        asm.op("ori", &[A3, 0, 8]).call(SIGPROCMASK).expect_equal(A0, 0, 10);
    }
    asm.address(T0, "tid").op("ld.w", &[T0, T0, 0]).to("bnez", &[T0], "more").exit(0);
    asm.label("child").constant(S2, SENT).label("again");
    asm.op("or", &[A0, S0, 0]).op("or", &[A1, S1, 0]).op("ori", &[A2, 0, SIGUSR1]).call(TGKILL);
    asm.op("addi.d", &[S2, S2, -1]).to("bnez", &[S2], "again").op("ori", &[A0, 0, 0]).call(EXIT);
    // The mask of the interrupted code.
    asm.label("handler").op("ld.d", &[T0, A2, 40]).op("andi", &[T0, T0, BIT]);
    asm.expect_equal(T0, 0, 11).op("jirl", &[0, RA, 0]);
    asm.data("action", &[0, 0, 0]).data("set", &[BIT as u64]);
    thread_data(&mut asm);
    ok(&asm);
}

/// Signals of the process come to threads that are about to end, which alone do not block them.
/// Each one is handled: by such a thread, or by the first one at the end.
#[test]
fn a_thread_that_ends_takes_no_signal_with_it() {
    const SIGPROCMASK: i64 = 135;
    const SENT: i64 = 5_000;
    let mut asm = Asm::default();
    // SIG_BLOCK, SIG_UNBLOCK.
    let mask = |asm: &mut Asm, how: i64| {
        asm.op("ori", &[A0, 0, how]).address(A1, "set").op("ori", &[A2, 0, 0]);
        asm.op("ori", &[A3, 0, 8]).call(SIGPROCMASK);
    };
    install(&mut asm, REAL_TIME);
    mask(&mut asm, 0);
    asm.call(GETPID).op("or", &[S1, A0, 0]).constant(S0, SENT).label("more");
    start(&mut asm);
    asm.op("or", &[A0, S1, 0]).op("ori", &[A1, 0, REAL_TIME]).call(KILL).expect_equal(A0, 0, 10);
    asm.label("wait").address(A0, "tid").op("ld.w", &[A2, A0, 0]).to("beqz", &[A2], "joined");
    asm.op("ori", &[A1, 0, 0]).op("ori", &[A3, 0, 0]).call(FUTEX).to("b", &[], "wait");
    asm.label("joined").op("addi.d", &[S0, S0, -1]).to("bnez", &[S0], "more");
    mask(&mut asm, 1);
    expect_count(&mut asm, "count", SENT, 11);
    asm.exit(0).label("child");
    mask(&mut asm, 1);
    asm.op("ori", &[A0, 0, 0]).call(EXIT).label("handler");
    count(&mut asm, "count");
    asm.op("jirl", &[0, RA, 0]).data("action", &[0, 0, 0]).data("count", &[0]);
    asm.data("set", &[1u64 << (REAL_TIME - 1)]);
    thread_data(&mut asm);
    ok(&asm);
}
