//! What system calls return when signals and other threads interfere, and what is said about them.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;

const FUTEX: i64 = 98;
const SETITIMER: i64 = 103;
const SIGACTION: i64 = 134;
const SIGPROCMASK: i64 = 135;
const GETPID: i64 = 172;
const CLONE3: i64 = 435;
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

/// A thread rewrites code without end; the calls of the other one, which no signal interrupts,
/// neither fail nor are counted twice.
#[test]
fn new_code_of_another_thread_makes_no_call_fail() {
    const CALLS: i64 = 200_000;
    let mut asm = Asm::default();
    asm.address(T0, "birth").address(T1, "stack").op("st.d", &[T1, T0, 40]);
    asm.op("or", &[A0, T0, 0]).op("ori", &[A1, 0, 88]).call(CLONE3).to("beqz", &[A0], "child");
    asm.constant(S0, CALLS);
    // FUTEX_WAKE of a word on which nobody waits: 0.
    asm.label("more").address(A0, "word").op("ori", &[A1, 0, 1]).op("ori", &[A2, 0, 1]);
    asm.call(FUTEX).expect_equal(A0, 0, 10);
    asm.op("addi.d", &[S0, S0, -1]).to("bnez", &[S0], "more").exit(0);
    asm.label("child").op("ibar", &[0]).to("b", &[], "child");
    asm.data("birth", &[THREAD_FLAGS, 0, 0, 0, 0, 0, 4096, 0, 0, 0, 0]);
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
