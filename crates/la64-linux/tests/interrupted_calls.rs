//! What system calls return when signals and other threads interfere, and what is said about them.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;

const WRITE: i64 = 64;
const FUTEX: i64 = 98;
const SETITIMER: i64 = 103;
const SIGACTION: i64 = 134;
const SIGPROCMASK: i64 = 135;
const GETPID: i64 = 172;
const MUNMAP: i64 = 215;
const MMAP: i64 = 222;
const MEMFD_CREATE: i64 = 279;
const CLONE3: i64 = 435;
const TGKILL: i64 = 131;
const GETTID: i64 = 178;
const WAIT4: i64 = 260;
const SIGUSR1: i64 = 10;
const SIGUSR2: i64 = 12;
const SIGCHLD: i64 = 17;
/// A real-time signal.
const REAL_TIME: i64 = 40;
/// LA64: `jirl r0, ra, 0`.
const JIRL_ZERO_RA: u64 = 0x4c00_0020;
/// A number that no kernel has.
const UNKNOWN: i64 = 4000;
const SIGALRM: i64 = 14;
const SA_RESTART: u64 = 0x1000_0000;
/// Shared memory, files, handlers; a thread.
const THREAD_FLAGS: u64 = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000;

fn ok(asm: &Asm) {
    let output = asm.run();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_unknown_system_call_is_named_once() {
    let mut asm = Asm::default();
    for _ in 0..3 {
        asm.call(UNKNOWN).op("addi.d", &[T0, 0, i64::from(-libc::ENOSYS)]);
        asm.expect_equal(A0, T0, 10);
    }
    let output = asm.exit(0).run();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(text.matches("system call 4000 is not supported").count(), 1, "{text}");
}

#[test]
fn strace_shows_as_many_arguments_as_the_call_has() {
    let mut asm = Asm::default();
    asm.call(GETPID);
    asm.op("ori", &[A0, 0, 0]).op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 8]).call(SIGPROCMASK).call(UNKNOWN).exit(0);
    let output = run_file(&asm.file(), &["--strace"]);
    let text = String::from_utf8_lossy(&output.stderr);
    for line in ["getpid() = 0x", "rt_sigprocmask(0x0, 0x0, 0x0, 0x8) = 0x0", "syscall_4000(0x0, "]
    {
        assert!(text.contains(&format!("la64: {line}")), "{line}: {text}");
    }
}

/// A thread maps, runs and unmaps code without end, for which all threads leave what they run; the
/// calls of the other one, which no signal interrupts, neither fail nor are counted twice.
#[test]
fn new_code_of_another_thread_makes_no_call_fail() {
    const CALLS: i64 = 200_000;
    let mut asm = Asm::default();
    asm.address(T0, "birth").address(T1, "stack").op("st.d", &[T1, T0, 40]);
    asm.op("or", &[A0, T0, 0]).op("ori", &[A1, 0, 88]).call(CLONE3).to("beqz", &[A0], "child");
    asm.constant(S0, CALLS);
    // FUTEX_WAKE of a word without waiters: 0.
    asm.label("more").address(A0, "word").op("ori", &[A1, 0, 1]).op("ori", &[A2, 0, 1]);
    asm.call(FUTEX).expect_equal(A0, 0, 10);
    asm.op("addi.d", &[S0, S0, -1]).to("bnez", &[S0], "more").exit(0);
    // Pages that may be executed and never were writable, in a file of one return instruction.
    asm.label("child").address(A0, "word").op("ori", &[A1, 0, 0]).call(MEMFD_CREATE);
    asm.op("or", &[S1, A0, 0]).address(A1, "return").op("ori", &[A2, 0, 8]).call(WRITE);
    asm.label("again").op("ori", &[A0, 0, 0]).constant(A1, 4096).op("ori", &[A2, 0, 5]);
    asm.op("ori", &[A3, 0, 2]).op("or", &[A4, S1, 0]).op("ori", &[A5, 0, 0]).call(MMAP);
    asm.op("or", &[S2, A0, 0]).op("jirl", &[RA, S2, 0]).op("or", &[A0, S2, 0]);
    asm.constant(A1, 4096).call(MUNMAP).to("b", &[], "again");
    asm.data("return", &[JIRL_ZERO_RA])
        .data("birth", &[THREAD_FLAGS, 0, 0, 0, 0, 0, 4096, 0, 0, 0, 0]);
    asm.data("stack", &[0; 512]).data("word", &[0]);
    ok(&asm);
}

/// A wait with a timeout is not begun again after a handler, whatever the handler says: its time
/// would begin again too. One without a timeout is.
#[test]
fn a_futex_wait_with_a_timeout_ends_at_a_signal() {
    let mut asm = Asm::default();
    asm.address(T0, "handler").address(T1, "action").op("st.d", &[T0, T1, 0]);
    asm.op("ori", &[A0, 0, SIGALRM]).op("or", &[A1, T1, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 11);
    asm.op("ori", &[A0, 0, 0]).address(A1, "timer").op("ori", &[A2, 0, 0]).call(SETITIMER);
    asm.expect_equal(A0, 0, 12);
    asm.op("ori", &[S1, 0, 0]);
    asm.address(A0, "word").op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]);
    asm.address(A3, "timeout").call(FUTEX);
    asm.op("addi.d", &[T0, 0, i64::from(-libc::EINTR)]).expect_equal(A0, T0, 13);
    // Without a timeout it begins again after each signal, until the handler ends the program.
    asm.address(T0, "count").op("st.d", &[0, T0, 0]).op("ori", &[S1, 0, 1]);
    asm.address(A0, "word").op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]).op("ori", &[A3, 0, 0]);
    asm.call(FUTEX).exit(14);
    asm.label("handler").address(T0, "count").op("ld.d", &[T1, T0, 0]);
    asm.op("addi.d", &[T1, T1, 1]).op("st.d", &[T1, T0, 0]).op("ori", &[T2, 0, 20]);
    asm.to("blt", &[T1, T2], "back");
    // The twentieth signal: good where the second wait goes on, bad in the first.
    asm.to("bnez", &[S1], "good").exit(15).label("good").exit(0);
    asm.label("back").op("jirl", &[0, RA, 0]);
    asm.data("action", &[0, SA_RESTART, 0]).data("count", &[0]).data("word", &[0]);
    // Every 5 ms; 60 s.
    asm.data("timer", &[0, 5000, 0, 5000]).data("timeout", &[60, 0]);
    ok(&asm);
}

/// Installs the action at `action` for a signal, with `handler` as its first word.
fn install(asm: &mut Asm, signal: i64, action: &'static str, handler: &'static str) {
    asm.address(T0, handler).address(T1, action).op("st.d", &[T0, T1, 0]);
    asm.op("ori", &[A0, 0, signal]).op("or", &[A1, T1, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 20);
}

/// SIG_SETMASK to the word at `mask`.
fn set_mask(asm: &mut Asm, mask: &'static str) {
    asm.op("ori", &[A0, 0, 2]).address(A1, mask).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 8]).call(SIGPROCMASK).expect_equal(A0, 0, 21);
}

/// Sends a signal to this thread; process and thread are in s0 and s1.
fn send(asm: &mut Asm, signal: i64) {
    asm.op("or", &[A0, S0, 0]).op("or", &[A1, S1, 0]).op("ori", &[A2, 0, signal]).call(TGKILL);
    asm.expect_equal(A0, 0, 22);
}

fn own_ids(asm: &mut Asm) {
    asm.call(GETPID).op("or", &[S0, A0, 0]).call(GETTID).op("or", &[S1, A0, 0]);
}

#[test]
fn queued_real_time_signals_arrive_one_by_one() {
    const SENT: i64 = 100;
    let mut asm = Asm::default();
    own_ids(&mut asm);
    install(&mut asm, REAL_TIME, "action", "handler");
    set_mask(&mut asm, "all");
    asm.op("ori", &[S2, 0, SENT]).label("more");
    send(&mut asm, REAL_TIME);
    asm.op("addi.d", &[S2, S2, -1]).to("bnez", &[S2], "more");
    set_mask(&mut asm, "none");
    asm.address(T0, "count").op("ld.d", &[T0, T0, 0]).op("ori", &[T1, 0, SENT]);
    asm.expect_equal(T0, T1, 10).exit(0);
    asm.label("handler").address(T0, "count").op("ld.d", &[T1, T0, 0]);
    asm.op("addi.d", &[T1, T1, 1]).op("st.d", &[T1, T0, 0]).op("jirl", &[0, RA, 0]);
    asm.data("action", &[0, 0, 0]).data("count", &[0]).data("all", &[u64::MAX]);
    asm.data("none", &[0]);
    ok(&asm);
}

/// By these a C library cancels threads and changes the user in all of them.
#[test]
fn signals_that_c_libraries_keep_for_themselves_arrive() {
    let mut asm = Asm::default();
    own_ids(&mut asm);
    for signal in [32, 33] {
        install(&mut asm, signal, "action", "handler");
        send(&mut asm, signal);
    }
    asm.address(T0, "count").op("ld.d", &[T0, T0, 0]).op("ori", &[T1, 0, 2]);
    asm.expect_equal(T0, T1, 10).exit(0);
    asm.label("handler").address(T0, "count").op("ld.d", &[T1, T0, 0]);
    asm.op("addi.d", &[T1, T1, 1]).op("st.d", &[T1, T0, 0]).op("jirl", &[0, RA, 0]);
    asm.data("action", &[0, 0, 0]).data("count", &[0]);
    ok(&asm);
}

/// The handler changes the word and loads it anew. The interrupted code has the old word, so its
/// store-conditional fails.
#[test]
fn a_handler_ends_the_link_of_what_it_interrupts() {
    let mut asm = Asm::default();
    own_ids(&mut asm);
    install(&mut asm, SIGUSR1, "action", "handler");
    asm.address(FP, "word").op("ll.w", &[S2, FP, 0]);
    send(&mut asm, SIGUSR1);
    asm.op("addi.d", &[S2, S2, 1]).op("sc.w", &[S2, FP, 0]).expect_equal(S2, 0, 10);
    asm.op("ld.w", &[T0, FP, 0]).op("ori", &[T1, 0, 6]).expect_equal(T0, T1, 11).exit(0);
    asm.label("handler").op("ori", &[T0, 0, 6]).op("st.w", &[T0, FP, 0]);
    asm.op("ll.w", &[T0, FP, 0]).op("jirl", &[0, RA, 0]);
    asm.data("action", &[0, 0, 0]).data("word", &[5]);
    ok(&asm);
}

/// Two signals become unblocked together; their handlers block everything, so the lower number runs
/// to its end before the other one begins.
#[test]
fn handlers_that_block_everything_run_in_order_and_not_nested() {
    let mut asm = Asm::default();
    own_ids(&mut asm);
    install(&mut asm, SIGUSR1, "action", "handler");
    install(&mut asm, SIGUSR2, "action", "handler");
    set_mask(&mut asm, "all");
    send(&mut asm, SIGUSR2);
    send(&mut asm, SIGUSR1);
    set_mask(&mut asm, "none");
    // Begin of 10, end of 10, begin of 12, end of 12, in four bytes each.
    asm.address(T0, "log").op("ld.d", &[T1, T0, 0]);
    asm.constant(T2, 0x0a4a_0c4c).expect_equal(T1, T2, 10).exit(0);
    // The log is shifted by a byte for each entry: the number, and the number + 64 at the end.
    asm.label("handler").address(T0, "log").op("ld.d", &[T1, T0, 0]);
    asm.op("slli.d", &[T1, T1, 8]).op("or", &[T1, T1, A0]).op("st.d", &[T1, T0, 0]);
    // A system call in between, at which a nested signal would come.
    asm.op("or", &[S2, A0, 0]).call(GETPID).op("ori", &[T2, S2, 64]);
    asm.address(T0, "log").op("ld.d", &[T1, T0, 0]);
    asm.op("slli.d", &[T1, T1, 8]).op("or", &[T1, T1, T2]).op("st.d", &[T1, T0, 0]);
    asm.op("jirl", &[0, RA, 0]);
    asm.data("action", &[0, 0, u64::MAX]).data("log", &[0]).data("all", &[u64::MAX]);
    asm.data("none", &[0]);
    ok(&asm);
}

/// Two signals that are let through by the mask of a wait alone: both come when it ends, and are
/// blocked again behind their handlers.
#[test]
fn all_signals_that_a_wait_lets_through_come() {
    const PPOLL: i64 = 73;
    const SIGSUSPEND: i64 = 133;
    for call in [SIGSUSPEND, PPOLL] {
        let mut asm = Asm::default();
        own_ids(&mut asm);
        install(&mut asm, SIGUSR1, "action", "handler");
        install(&mut asm, SIGUSR2, "action", "handler");
        set_mask(&mut asm, "all");
        send(&mut asm, SIGUSR2);
        send(&mut asm, SIGUSR1);
        if call == PPOLL {
            asm.op("ori", &[A0, 0, 0]).op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]);
            asm.address(A3, "none").op("ori", &[A4, 0, 8]).call(call);
        } else {
            asm.address(A0, "none").op("ori", &[A1, 0, 8]).call(call);
        }
        asm.op("addi.d", &[T0, 0, i64::from(-libc::EINTR)]).expect_equal(A0, T0, 10);
        for status in [11, 12] {
            asm.address(T0, "count").op("ld.d", &[T0, T0, 0]);
            asm.op("ori", &[T1, 0, SIGUSR1 + SIGUSR2]).expect_equal(T0, T1, status);
            send(&mut asm, SIGUSR1);
        }
        asm.exit(0).label("handler").address(T0, "count").op("ld.d", &[T1, T0, 0]);
        asm.op("add.d", &[T1, T1, A0]).op("st.d", &[T1, T0, 0]).op("jirl", &[0, RA, 0]);
        asm.data("action", &[0, 4, 0]).data("count", &[0]).data("all", &[u64::MAX]);
        ok(asm.data("none", &[0]));
    }
}

/// The x87 stack mode is bit 6 of the FCSR, in a frame as in the register. A handler begins without
/// it, and may take it away.
#[test]
fn the_stack_mode_is_in_the_frame_and_off_in_the_handler() {
    const RECORDS: i64 = 176 + 272;
    const FCSR: i64 = 16 + 256 + 8;
    const STACK_MODE: i64 = 1 << 6;
    let expect_mode = |asm: &mut Asm, value: i64, status: i64| {
        asm.op("movfcsr2gr", &[T0, 0]).op("andi", &[T0, T0, STACK_MODE]);
        asm.op("ori", &[T1, 0, value]).expect_equal(T0, T1, status);
    };
    let mut asm = Asm::default();
    own_ids(&mut asm);
    install(&mut asm, SIGUSR1, "action", "handler");
    asm.op("x86settm", &[]);
    send(&mut asm, SIGUSR1);
    expect_mode(&mut asm, STACK_MODE, 10);
    send(&mut asm, SIGUSR1);
    expect_mode(&mut asm, 0, 11);
    asm.exit(0).label("handler");
    expect_mode(&mut asm, 0, 12);
    // Behind the record of the assists.
    asm.op("addi.d", &[T2, A2, RECORDS]).op("ld.wu", &[T1, T2, 4]).op("add.d", &[T2, T2, T1]);
    asm.op("ld.wu", &[T0, T2, FCSR]).op("ori", &[T1, 0, STACK_MODE]).expect_equal(T0, T1, 13);
    // The second time.
    asm.address(T0, "count").op("ld.d", &[T1, T0, 0]).op("addi.d", &[T3, T1, 1]);
    asm.op("st.d", &[T3, T0, 0]).to("beqz", &[T1], "back").op("st.w", &[0, T2, FCSR]);
    asm.label("back").op("jirl", &[0, RA, 0]);
    ok(asm.data("action", &[0, 4, 0]).data("count", &[0]));
}

/// Writing FCSR0 switches the x87 stack mode, in which f0 is the register of the stack's top.
#[test]
fn the_stack_mode_is_written_with_the_fcsr() {
    const STACK_MODE: i64 = 1 << 6;
    const FCSR0: i64 = 0;
    const FCSR1: i64 = 1;
    let mut asm = Asm::default();
    asm.op("ori", &[S2, 0, 200]).label("more");
    asm.op("x86mttop", &[1]).op("ori", &[S0, 0, 5]).op("ori", &[S1, 0, 9]);
    asm.op("ori", &[T2, 0, STACK_MODE]).op("movgr2fr.d", &[0, S0]);
    asm.op("movgr2fcsr", &[FCSR0, T2]).op("movgr2fr.d", &[0, S1]);
    asm.op("movfcsr2gr", &[T3, FCSR0]).expect_equal(T3, T2, 10);
    // The bit is in FCSR0 alone.
    asm.op("movgr2fcsr", &[FCSR1, 0]).op("movfr2gr.d", &[T3, 0]).expect_equal(T3, S1, 11);
    asm.op("movgr2fcsr", &[FCSR0, 0]).op("movfr2gr.d", &[T3, 0]).expect_equal(T3, S0, 12);
    asm.op("movfr2gr.d", &[T3, 1]).expect_equal(T3, S1, 13);
    asm.op("addi.d", &[S2, S2, -1]).to("bnez", &[S2], "more").exit(0);
    ok(&asm);
}

#[test]
fn children_without_a_waiting_parent_leave_nothing() {
    const SA_NOCLDWAIT: u64 = 2;
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, SIGCHLD]).address(A1, "action").op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 20);
    asm.address(A0, "birth").op("ori", &[A1, 0, 64]).call(CLONE3).to("beqz", &[A0], "child");
    asm.op("addi.d", &[A0, 0, -1]).op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 0]).call(WAIT4);
    asm.op("addi.d", &[T0, 0, i64::from(-libc::ECHILD)]).expect_equal(A0, T0, 10).exit(0);
    asm.label("child").exit(0);
    asm.data("action", &[0, SA_NOCLDWAIT, 0]).data("birth", &[0, 0, 0, 0, 17, 0, 0, 0]);
    ok(&asm);
}

/// A signal that the parent sends at once comes before what the parent writes then, so the child
/// has it when it has read that.
#[test]
fn a_signal_sent_to_a_new_child_is_not_lost() {
    const PIPE2: i64 = 59;
    const READ: i64 = 63;
    const KILL: i64 = 129;
    const CHILDREN: i64 = 50;
    let mut asm = Asm::default();
    install(&mut asm, SIGUSR1, "action", "handler");
    asm.address(A0, "pipe").op("ori", &[A1, 0, 0]).call(PIPE2).expect_equal(A0, 0, 23);
    asm.address(T0, "pipe").op("ld.w", &[S0, T0, 0]).op("ld.w", &[S1, T0, 4]);
    asm.op("ori", &[S2, 0, CHILDREN]).label("more");
    asm.address(A0, "birth").op("ori", &[A1, 0, 64]).call(CLONE3).to("beqz", &[A0], "child");
    asm.op("or", &[FP, A0, 0]).op("ori", &[A1, 0, SIGUSR1]).call(KILL).expect_equal(A0, 0, 24);
    asm.op("or", &[A0, S1, 0]).address(A1, "byte").op("ori", &[A2, 0, 1]).call(WRITE);
    asm.op("or", &[A0, FP, 0]).address(A1, "status").op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 0]).call(WAIT4).expect_equal(A0, FP, 25);
    asm.address(T0, "status").op("ld.w", &[T0, T0, 0]).expect_equal(T0, 0, 10);
    asm.op("addi.d", &[S2, S2, -1]).to("bnez", &[S2], "more").exit(0);
    asm.label("child").op("or", &[A0, S0, 0]).address(A1, "byte").op("ori", &[A2, 0, 1]);
    asm.call(READ).op("ori", &[T0, 0, 1]).expect_equal(A0, T0, 26);
    asm.address(T0, "count").op("ld.d", &[T0, T0, 0]).op("ori", &[T1, 0, 1]);
    asm.expect_equal(T0, T1, 27).exit(0);
    asm.label("handler").address(T0, "count").op("ori", &[T1, 0, 1]).op("st.d", &[T1, T0, 0]);
    asm.op("jirl", &[0, RA, 0]);
    asm.data("action", &[0, SA_RESTART, 0]).data("count", &[0]).data("byte", &[0]);
    asm.data("pipe", &[0]).data("status", &[0]).data("birth", &[0, 0, 0, 0, 17, 0, 0, 0]);
    ok(&asm);
}

/// Threads make processes without end while the first one ends the program. They wait for each
/// other, and the end walks the long lists of other threads, so processes are made meanwhile; each
/// of them ends too, or this test would wait for ever for the end of their output.
#[test]
fn a_child_made_while_its_parent_ends_ends_itself() {
    const EXIT: i64 = 93;
    const SET_ROBUST_LIST: i64 = 99;
    const WAITING: i64 = 8;
    const FORKING: i64 = 4;
    let mut asm = Asm::default();
    let start = |asm: &mut Asm, child| {
        asm.address(T0, "birth").address(T1, "stack").op("st.d", &[T1, T0, 40]);
        asm.op("or", &[A0, T0, 0]).op("ori", &[A1, 0, 88]).call(CLONE3).to("beqz", &[A0], child);
    };
    for (count, label, child) in [(WAITING, "more", "waits"), (FORKING, "again", "forks")] {
        asm.op("ori", &[S0, 0, count]).label(label);
        start(&mut asm, child);
        asm.op("addi.d", &[S0, S0, -1]).to("bnez", &[S0], label);
    }
    // Until every thread has its list and there were children.
    asm.label("until").address(T0, "ready").op("ld.w", &[T1, T0, 0]);
    asm.op("ori", &[T2, 0, WAITING + FORKING]).to("bne", &[T1, T2], "until").exit(0);
    let count = |asm: &mut Asm| {
        asm.address(T0, "ready").op("ori", &[T1, 0, 1]).op("amadd_db.w", &[0, T1, T0]);
    };
    // An entry that leads to itself: as many steps as the kernel takes.
    asm.label("waits").address(T0, "head").address(T1, "entry").op("st.d", &[T1, T0, 0]);
    asm.op("st.d", &[T1, T1, 0]).op("or", &[A0, T0, 0]).op("ori", &[A1, 0, 24]);
    asm.call(SET_ROBUST_LIST);
    count(&mut asm);
    asm.label("wait").address(A0, "word").op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 0]).call(FUTEX).to("b", &[], "wait");
    asm.label("forks").op("ori", &[S1, 0, 0]).label("fork");
    asm.address(A0, "process").op("ori", &[A1, 0, 64]).call(CLONE3).to("beqz", &[A0], "child");
    asm.to("bnez", &[S1], "counted").op("ori", &[S1, 0, 1]);
    count(&mut asm);
    asm.label("counted").to("b", &[], "fork");
    asm.label("child").op("ori", &[A0, 0, 0]).call(EXIT);
    asm.data("birth", &[THREAD_FLAGS, 0, 0, 0, 0, 0, 4096, 0, 0, 0, 0]);
    asm.data("process", &[0, 0, 0, 0, 17, 0, 0, 0]).data("stack", &[0; 512]);
    asm.data("head", &[0, 8, 0]).data("entry", &[0, 0]).data("word", &[0]).data("ready", &[0]);
    for _ in 0..20 {
        ok(&asm);
    }
}

/// What waits at a socket with a time limit is not begun again after a handler; without a limit it
/// is, until the handler ends the program.
#[test]
fn a_socket_with_a_time_limit_ends_its_wait_at_a_signal() {
    const READ: i64 = 63;
    const SOCKETPAIR: i64 = 199;
    const RECVFROM: i64 = 207;
    const SETSOCKOPT: i64 = 208;
    const SO_RCVTIMEO: i64 = 20;
    let mut asm = Asm::default();
    install(&mut asm, SIGALRM, "action", "handler");
    asm.op("ori", &[A0, 0, 1]).op("ori", &[A1, 0, 1]).op("ori", &[A2, 0, 0]).address(A3, "pair");
    asm.call(SOCKETPAIR).expect_equal(A0, 0, 11).address(T0, "pair").op("ld.w", &[S0, T0, 0]);
    let limit = |asm: &mut Asm, label| {
        asm.op("or", &[A0, S0, 0]).op("ori", &[A1, 0, 1]).op("ori", &[A2, 0, SO_RCVTIMEO]);
        asm.address(A3, label).op("ori", &[A4, 0, 16]).call(SETSOCKOPT).expect_equal(A0, 0, 12);
    };
    limit(&mut asm, "minute");
    asm.op("ori", &[A0, 0, 0]).address(A1, "timer").op("ori", &[A2, 0, 0]).call(SETITIMER);
    asm.op("ori", &[S1, 0, 0]);
    for (call, status) in [(READ, 13), (RECVFROM, 14)] {
        asm.op("or", &[A0, S0, 0]).address(A1, "word").op("ori", &[A2, 0, 8]);
        asm.op("ori", &[A3, 0, 0]).op("ori", &[A4, 0, 0]).op("ori", &[A5, 0, 0]).call(call);
        asm.op("addi.d", &[T0, 0, i64::from(-libc::EINTR)]).expect_equal(A0, T0, status);
    }
    limit(&mut asm, "none");
    asm.address(T0, "count").op("st.d", &[0, T0, 0]).op("ori", &[S1, 0, 1]);
    asm.op("or", &[A0, S0, 0]).address(A1, "word").op("ori", &[A2, 0, 8]).call(READ).exit(15);
    asm.label("handler").address(T0, "count").op("ld.d", &[T1, T0, 0]);
    asm.op("addi.d", &[T1, T1, 1]).op("st.d", &[T1, T0, 0]).op("ori", &[T2, 0, 20]);
    asm.to("blt", &[T1, T2], "back");
    // The twentieth signal: good in the wait without a limit.
    asm.to("bnez", &[S1], "good").exit(16).label("good").exit(0);
    asm.label("back").op("jirl", &[0, RA, 0]);
    asm.data("action", &[0, SA_RESTART, 0]).data("count", &[0]).data("word", &[0]);
    asm.data("pair", &[0]).data("minute", &[60, 0]).data("none", &[0, 0]);
    asm.data("timer", &[0, 5000, 0, 5000]);
    ok(&asm);
}

/// The signals of faults too, if they are sent.
#[test]
fn a_sent_signal_of_a_fault_waits_while_it_is_blocked() {
    const SIGPENDING: i64 = 136;
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE].map(i64::from) {
        let mut asm = Asm::default();
        own_ids(&mut asm);
        install(&mut asm, signal, "action", "handler");
        set_mask(&mut asm, "all");
        send(&mut asm, signal);
        let expect_word = |asm: &mut Asm, label, value, status| {
            asm.address(T0, label).op("ld.d", &[T0, T0, 0]).op("ori", &[T1, 0, value]);
            asm.expect_equal(T0, T1, status);
        };
        expect_word(&mut asm, "count", 0, 10);
        asm.address(A0, "set").op("ori", &[A1, 0, 8]).call(SIGPENDING).expect_equal(A0, 0, 11);
        expect_word(&mut asm, "set", 1 << (signal - 1), 12);
        set_mask(&mut asm, "none");
        expect_word(&mut asm, "count", signal, 13);
        asm.address(A0, "set").op("ori", &[A1, 0, 8]).call(SIGPENDING);
        expect_word(&mut asm, "set", 0, 14);
        // Unblocked, it comes at once.
        send(&mut asm, signal);
        expect_word(&mut asm, "count", 2 * signal, 15);
        asm.exit(0).label("handler").address(T0, "count").op("ld.d", &[T1, T0, 0]);
        asm.op("add.d", &[T1, T1, A0]).op("st.d", &[T1, T0, 0]).op("jirl", &[0, RA, 0]);
        asm.data("action", &[0, 4, 0]).data("count", &[0]).data("all", &[u64::MAX]);
        asm.data("none", &[0]).data("set", &[0]);
        ok(&asm);
    }
}

/// A handler of crashes passes the signal on with what the kernel said of it. Behind it real faults
/// come as before.
#[test]
fn a_signal_that_a_thread_sends_itself_may_have_the_code_of_a_fault() {
    const TGSIGQUEUEINFO: i64 = 240;
    const SIGSEGV: i64 = 11;
    const SEGV_MAPERR: i64 = 1;
    const PLACE: i64 = 0x123;
    let mut asm = Asm::default();
    own_ids(&mut asm);
    install(&mut asm, SIGSEGV, "action", "handler");
    asm.op("or", &[A0, S0, 0]).op("or", &[A1, S1, 0]).op("ori", &[A2, 0, SIGSEGV]);
    asm.address(A3, "info").call(TGSIGQUEUEINFO).expect_equal(A0, 0, 10);
    asm.address(T0, "count").op("ld.d", &[T0, T0, 0]).op("ori", &[T1, 0, 1]);
    asm.expect_equal(T0, T1, 11).op("ld.d", &[T0, 0, PLACE]).exit(12);
    asm.label("handler").op("ld.w", &[T0, A1, 8]).op("ori", &[T1, 0, SEGV_MAPERR]);
    asm.expect_equal(T0, T1, 13).op("ld.d", &[T0, A1, 16]).op("ori", &[T1, 0, PLACE]);
    asm.expect_equal(T0, T1, 14).address(T0, "count").op("ld.d", &[T1, T0, 0]);
    asm.to("beqz", &[T1], "first").exit(0).label("first").op("addi.d", &[T1, T1, 1]);
    asm.op("st.d", &[T1, T0, 0]).op("jirl", &[0, RA, 0]);
    asm.data("action", &[0, 4, 0]).data("count", &[0]);
    let mut info = [0; 16];
    info[..3].copy_from_slice(&[SIGSEGV as u64, SEGV_MAPERR as u64, PLACE as u64]);
    ok(asm.data("info", &info));
}

/// A timer sends SIGFPE, which is ignored, while a call waits; the handler of another timer ends
/// the program.
#[test]
fn an_ignored_signal_of_a_fault_interrupts_no_call() {
    const TIMER_CREATE: i64 = 107;
    const TIMER_SETTIME: i64 = 110;
    const MONOTONIC: i64 = 1;
    const SIGFPE: i64 = 8;
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, SIGFPE]).address(A1, "ignore").op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 10);
    install(&mut asm, SIGALRM, "action", "handler");
    asm.op("ori", &[A0, 0, 0]).address(A1, "end").op("ori", &[A2, 0, 0]).call(SETITIMER);
    asm.expect_equal(A0, 0, 11).op("ori", &[A0, 0, MONOTONIC]).address(A1, "event");
    asm.address(A2, "timer").call(TIMER_CREATE).expect_equal(A0, 0, 12);
    asm.address(T0, "timer").op("ld.w", &[A0, T0, 0]).op("ori", &[A1, 0, 0]);
    asm.address(A2, "often").op("ori", &[A3, 0, 0]).call(TIMER_SETTIME).expect_equal(A0, 0, 13);
    asm.address(A0, "word").op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 0]).call(FUTEX).exit(14);
    asm.label("handler").exit(0);
    asm.data("ignore", &[1, 0, 0]).data("action", &[0, 0, 0]).data("word", &[0]);
    // Signal and kind; after 300 ms; every 5 ms.
    asm.data("event", &[0, SIGFPE as u64, 0, 0, 0, 0, 0, 0]).data("timer", &[0]);
    asm.data("end", &[0, 0, 0, 300_000]).data("often", &[0, 5_000_000, 0, 5_000_000]);
    ok(&asm);
}
