//! System calls and signal frames that libraries try first or only sometimes: `clone3`, `openat2`,
//! robust lists, `rseq`, the extended context records; and the count of threads that still run when
//! the process ends. The guests are assembled here.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;

const GETTID: i64 = 178;
const EXIT: i64 = 93;
const FUTEX: i64 = 98;
const SET_ROBUST_LIST: i64 = 99;
const GET_ROBUST_LIST: i64 = 100;
const SIGACTION: i64 = 134;
const TGKILL: i64 = 131;
const GETPID: i64 = 172;
const RSEQ: i64 = 293;
const CLONE3: i64 = 435;
const OPENAT2: i64 = 437;
const PAUSE_BY_FUTEX: i64 = FUTEX;

/// Shared memory, files, handlers; a thread; its id to the parent, cleared at its end.
const THREAD_FLAGS: u64 = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000 | 0x10_0000 | 0x20_0000;

fn ok(asm: &Asm) {
    let output = asm.run();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Fills in addresses in the `clone3` arguments at label `birth` and makes the thread; the child
/// continues at label `child`. The parent's result is in a0.
fn start_thread(asm: &mut Asm) {
    asm.address(T0, "birth");
    asm.address(T1, "tid").op("st.d", &[T1, T0, 16]).op("st.d", &[T1, T0, 24]);
    asm.address(T1, "stack").op("st.d", &[T1, T0, 40]);
    asm.op("or", &[A0, T0, 0]).op("ori", &[A1, 0, 88]).call(CLONE3);
    asm.to("beqz", &[A0], "child");
}

/// Flags, pidfd, child tid, parent tid, exit signal, stack, stack length, tls, set_tid and its
/// length, control group.
fn thread_data(asm: &mut Asm) {
    asm.data("birth", &[THREAD_FLAGS, 0, 0, 0, 0, 0, 4096, 0, 0, 0, 0]);
    asm.data("tid", &[0]).data("stack", &[0; 512]);
}

/// Waits until the word at `label` is no longer what it was when it was looked at: the kernel
/// clears it and wakes us when the thread is gone.
fn join(asm: &mut Asm, label: &'static str, top: &'static str, done: &'static str) {
    asm.label(top).address(A0, label).op("ld.w", &[A2, A0, 0]).to("beqz", &[A2], done);
    asm.op("ori", &[A1, 0, 0]).op("ori", &[A3, 0, 0]).call(FUTEX).to("b", &[], top);
    asm.label(done);
}

#[test]
fn a_thread_made_by_clone3_runs_on_its_stack_and_is_joined() {
    let mut asm = Asm::default();
    start_thread(&mut asm);
    // The parent has the child's id, also in memory unless the child is gone.
    asm.op("slti", &[T0, A0, 1]).expect_equal(T0, 0, 10);
    join(&mut asm, "tid", "wait", "joined");
    asm.address(T0, "mark").op("ld.d", &[T1, T0, 0]);
    // The child wrote its stack pointer: the end of its stack.
    asm.address(T2, "stack").constant(T3, 4096).op("add.d", &[T2, T2, T3]);
    asm.expect_equal(T1, T2, 11).exit(0);
    asm.label("child").address(T0, "mark").op("st.d", &[SP, T0, 0]);
    asm.op("ori", &[A0, 0, 0]).call(EXIT);
    asm.data("mark", &[0]);
    thread_data(&mut asm);
    ok(&asm);
}

#[test]
fn clone3_refuses_what_the_kernel_refuses() {
    // Bytes of arguments, flags, exit signal, stack, stack length, beyond: error.
    let cases: [(i64, u64, u64, u64, u64, u64, i32); 7] = [
        (63, 0, 17, 0, 0, 0, libc::EINVAL),
        (88, 0x400_0000_0000, 17, 0, 0, 0, libc::EINVAL),
        (88, 0x1_0000, 0, 0, 0, 0, libc::EINVAL),
        (88, THREAD_FLAGS, 17, 4096, 4096, 0, libc::EINVAL),
        (88, 0, 17, 4096, 0, 0, libc::EINVAL),
        (88, 0, 65, 0, 0, 0, libc::EINVAL),
        (96, 0, 17, 0, 0, 1, libc::E2BIG),
    ];
    for (n, (len, flags, signal, stack, stack_len, beyond, error)) in cases.into_iter().enumerate()
    {
        let mut asm = Asm::default();
        asm.address(A0, "birth").op("ori", &[A1, 0, len]).call(CLONE3);
        asm.op("addi.d", &[T0, 0, i64::from(-error)]).expect_equal(A0, T0, 10 + n as i64).exit(0);
        asm.data("birth", &[flags, 0, 0, 0, signal, stack, stack_len, 0, 0, 0, 0, beyond]);
        ok(&asm);
    }
}

#[test]
fn a_process_made_by_clone3_is_waited_for() {
    let mut asm = Asm::default();
    asm.address(A0, "birth").op("ori", &[A1, 0, 64]).call(CLONE3).to("beqz", &[A0], "child");
    asm.address(A1, "status").op("ori", &[A2, 0, 0]).op("ori", &[A3, 0, 0]).call(260);
    asm.address(T0, "status").op("ld.w", &[T0, T0, 0]).constant(T1, 7 << 8);
    asm.expect_equal(T0, T1, 10).exit(0);
    asm.label("child").exit(7);
    asm.data("birth", &[0, 0, 0, 0, 17, 0, 0, 0]).data("status", &[0]);
    ok(&asm);
}

/// A child that tells its end by no signal is waited for by a flag of its own.
#[test]
fn a_child_without_a_signal_is_waited_for() {
    const CLONE: i64 = 220;
    const WAIT4: i64 = 260;
    const WAITID: i64 = 95;
    const WEXITED: i64 = libc::WEXITED as i64;
    const WCLONE: i64 = i32::MIN as i64;
    let make = |asm: &mut Asm| {
        for register in [A0, A1, A2, A3, A4] {
            asm.op("ori", &[register, 0, 0]);
        }
        asm.call(CLONE).to("beqz", &[A0], "child").op("or", &[S0, A0, 0]);
    };
    let mut asm = Asm::default();
    make(&mut asm);
    asm.op("ori", &[A0, 0, 0]).address(A2, "info").constant(A3, WCLONE | WEXITED).call(WAITID);
    asm.expect_equal(A0, 0, 13).address(T0, "info").op("ld.w", &[T0, T0, 16]);
    asm.expect_equal(T0, S0, 14);
    make(&mut asm);
    asm.address(A1, "status").constant(A2, WCLONE).op("ori", &[A3, 0, 0]).call(WAIT4);
    asm.expect_equal(A0, S0, 10);
    asm.address(T0, "status").op("ld.w", &[T0, T0, 0]).constant(T1, 7 << 8);
    asm.expect_equal(T0, T1, 11);
    // There is no other.
    asm.op("addi.d", &[A0, 0, -1]).op("ori", &[A1, 0, 0]).call(WAIT4);
    asm.op("addi.d", &[T0, 0, i64::from(-libc::ECHILD)]).expect_equal(A0, T0, 12).exit(0);
    asm.label("child").exit(7);
    ok(asm.data("status", &[0]).data("info", &[0; 16]));
}

/// A thread that dies while it holds a lock on its list, another as pending, and lists a third that
/// is another process's.
#[test]
fn robust_locks_of_a_dead_thread_are_given_up() {
    const WAITERS: u64 = 0x8000_0000;
    const OWNER_DIED: i64 = 0x4000_0000;
    let mut asm = Asm::default();
    start_thread(&mut asm);
    join(&mut asm, "tid", "wait", "joined");
    // Held, with waiters: waiters and "owner died". Pending: "owner died". The other: untouched.
    asm.address(T0, "held").op("ld.wu", &[T1, T0, 8]);
    asm.constant(T2, 0xc000_0000_u32 as i32 as i64).op("bstrpick.d", &[T2, T2, 31, 0]);
    asm.expect_equal(T1, T2, 11);
    asm.address(T0, "pending").op("ld.wu", &[T1, T0, 8]).constant(T2, OWNER_DIED);
    asm.expect_equal(T1, T2, 12);
    asm.address(T0, "other").op("ld.wu", &[T1, T0, 8]).op("ori", &[T2, 0, 1]);
    asm.expect_equal(T1, T2, 13).exit(0);

    // The child: head -> held -> other -> head, the futex 8 bytes behind each entry.
    asm.label("child").address(T0, "head");
    asm.address(T1, "held").op("st.d", &[T1, T0, 0]);
    asm.address(T2, "other").op("st.d", &[T2, T1, 0]).op("st.d", &[T0, T2, 0]);
    asm.op("ori", &[T3, 0, 8]).op("st.d", &[T3, T0, 8]);
    asm.address(T3, "pending").op("st.d", &[T3, T0, 16]);
    asm.op("or", &[A0, T0, 0]).op("ori", &[A1, 0, 24]).call(SET_ROBUST_LIST);
    asm.expect_equal(A0, 0, 14);
    asm.op("ori", &[A0, 0, 0]).address(A1, "asked").address(A2, "asked_len");
    asm.call(GET_ROBUST_LIST).expect_equal(A0, 0, 15);
    asm.address(T0, "asked").op("ld.d", &[T0, T0, 0]).address(T1, "head");
    asm.expect_equal(T0, T1, 16);
    asm.call(GETTID).address(T0, "pending").op("st.w", &[A0, T0, 8]);
    asm.address(T0, "held").op("ld.d", &[T1, T0, 8]).op("or", &[T1, T1, A0]);
    asm.op("st.w", &[T1, T0, 8]).op("ori", &[A0, 0, 0]).call(EXIT);

    asm.data("head", &[0; 3]).data("held", &[0, WAITERS]).data("other", &[0, 1]);
    asm.data("pending", &[0, 0]).data("asked", &[0]).data("asked_len", &[0]);
    thread_data(&mut asm);
    ok(&asm);
}

/// In `held` waits the parent, as a lock's waiter does: the thread's death wakes it.
#[test]
fn a_waiter_for_a_robust_lock_is_woken_by_its_owners_death() {
    let mut asm = Asm::default();
    start_thread(&mut asm);
    // Until the owner is dead: wait for the lock itself.
    asm.label("again").address(A0, "held").op("ld.w", &[A2, A0, 8]);
    asm.op("srli.d", &[T0, A2, 30]).op("andi", &[T0, T0, 1]).to("bnez", &[T0], "dead");
    asm.op("addi.d", &[A0, A0, 8]).op("ori", &[A1, 0, 0]).op("ori", &[A3, 0, 0]);
    asm.call(FUTEX).to("b", &[], "again");
    asm.label("dead").exit(0);
    asm.label("child").address(T0, "head");
    asm.address(T1, "held").op("st.d", &[T1, T0, 0]).op("st.d", &[T0, T1, 0]);
    asm.op("ori", &[T3, 0, 8]).op("st.d", &[T3, T0, 8]);
    asm.op("or", &[A0, T0, 0]).op("ori", &[A1, 0, 24]).call(SET_ROBUST_LIST);
    asm.call(GETTID).constant(T1, i64::from(i32::MIN)).op("or", &[A0, A0, T1]);
    asm.address(T0, "held").op("st.w", &[A0, T0, 8]);
    // Give the waiter time to see the word and sleep: 20 ms.
    asm.address(A0, "pause").op("ori", &[A1, 0, 0]).call(101);
    asm.op("ori", &[A0, 0, 0]).call(EXIT);
    asm.data("head", &[0; 3]).data("held", &[0, 0]).data("pause", &[0, 20_000_000]);
    thread_data(&mut asm);
    ok(&asm);
}

/// A lock whose owner has died, and whose next one was woken and died too before it had the lock:
/// another one that waits is woken in its place.
#[test]
fn a_waiter_is_woken_by_the_death_of_one_that_was_to_own() {
    const WAKE: i64 = 1;
    const REQUEUE: i64 = 3;
    let mut asm = Asm::default();
    start_thread(&mut asm);
    asm.address(A0, "word").op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]).address(A3, "limit");
    // The engine may take the thread out of its wait once more; it then waits for what is past.
    asm.call(FUTEX).op("addi.d", &[T0, A0, i64::from(libc::EAGAIN)]).to("beqz", &[T0], "woken");
    asm.expect_equal(A0, 0, 10).label("woken").exit(0);
    // An empty list, and the lock that the thread is taking.
    asm.label("child").address(T0, "head").op("st.d", &[T0, T0, 0]);
    asm.op("ori", &[T3, 0, 8]).op("st.d", &[T3, T0, 8]);
    asm.address(T3, "pending").op("st.d", &[T3, T0, 16]);
    asm.op("or", &[A0, T0, 0]).op("ori", &[A1, 0, 24]).call(SET_ROBUST_LIST);
    // Until the other thread waits for the lock.
    asm.label("again").address(A0, "word").op("ori", &[A1, 0, REQUEUE]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 1]).address(A4, "pending").op("addi.d", &[A4, A4, 8]).call(FUTEX);
    asm.op("ori", &[T0, 0, 1]).to("bne", &[A0, T0], "again");
    asm.address(A0, "word").op("st.w", &[T0, A0, 0]).op("ori", &[A1, 0, WAKE]);
    asm.op("ori", &[A2, 0, 1]).call(FUTEX).op("ori", &[A0, 0, 0]).call(EXIT);
    // Waiters, an owner that died, and no owner.
    asm.data("word", &[0]).data("limit", &[20, 0]).data("head", &[0; 3]);
    asm.data("pending", &[0, 0xc000_0000]);
    thread_data(&mut asm);
    ok(&asm);
}

#[test]
fn openat2_follows_its_rules_of_resolution() {
    let null = u64::from_le_bytes(*b"/dev/nul");
    // Flags and resolution, length of the structure, result: a descriptor or an error.
    let cases: [(u64, i64, Option<i32>); 4] = [
        (0, 24, None),
        (0, 16, Some(libc::EINVAL)),
        // Confined to the directory an absolute path is outside.
        (8, 24, Some(libc::EXDEV)),
        (1 << 40, 24, Some(libc::EINVAL)),
    ];
    for (n, (resolve, len, error)) in cases.into_iter().enumerate() {
        let mut asm = Asm::default();
        asm.op("addi.d", &[A0, 0, -100]).address(A1, "path").address(A2, "how");
        asm.op("ori", &[A3, 0, len]).call(OPENAT2);
        match error {
            None => asm.op("slti", &[T0, A0, 3]).expect_equal(T0, 0, 10),
            Some(e) => {
                asm.op("addi.d", &[T0, 0, i64::from(-e)]).expect_equal(A0, T0, 11 + n as i64)
            }
        };
        asm.exit(0).data("path", &[null, u64::from(b'l')]).data("how", &[0, 0, resolve]);
        ok(&asm);
    }
}

/// A string as words of data, with its terminator.
fn string(path: &std::path::Path) -> Vec<u64> {
    let mut bytes = path.to_str().expect("a path in UTF-8").as_bytes().to_vec();
    bytes.resize((bytes.len() / 8 + 1) * 8, 0);
    let words = bytes.chunks(8).map(|c| u64::from_le_bytes(c.try_into().expect("eight bytes")));
    words.collect()
}

/// The engine's file is removed while it runs: as in another root, its path leads nowhere. The
/// guest's `execve` finds it all the same.
#[test]
fn execve_finds_the_engine_where_its_path_leads_nowhere() {
    const UNLINKAT: i64 = 35;
    const EXECVE: i64 = 221;
    // A link, not a copy: a file just written may still be open for writing in a child of another
    // test, and then cannot be executed.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("temporary directory");
    let [engine, first, second] = ["engine", "first", "second"].map(|name| dir.path().join(name));
    std::fs::hard_link(env!("CARGO_BIN_EXE_la64"), &engine).expect("a link");
    let mut asm = Asm::default();
    // AT_FDCWD; no flags.
    asm.op("addi.d", &[A0, 0, -100]).address(A1, "engine").op("ori", &[A2, 0, 0]).call(UNLINKAT);
    asm.expect_equal(A0, 0, 10);
    asm.address(A0, "second").address(A1, "argv").op("st.d", &[A0, A1, 0]);
    asm.op("ori", &[A2, 0, 0]).call(EXECVE).exit(11);
    asm.data("engine", &string(&engine)).data("second", &string(&second)).data("argv", &[0, 0]);
    write_program(&first, &asm.file());
    write_program(&second, &Asm::default().exit(7).file());
    let output = std::process::Command::new(&engine).arg("run").arg(&first).output();
    let output = output.expect("the engine runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(!engine.exists(), "the guest removed it");
}

/// Variables for a program's loader are not for the engine's: with this one, which `ldd` sets, the
/// host's loader would list the engine's own libraries and run nothing.
#[test]
fn the_engines_loader_leaves_the_programs_variables_alone() {
    const EXECVE: i64 = 221;
    const VARIABLE: &str = "LD_TRACE_LOADED_OBJECTS=1";
    let dir = tempfile::tempdir().expect("temporary directory");
    let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
    let mut asm = Asm::default();
    asm.address(A0, "second").address(A1, "argv").op("st.d", &[A0, A1, 0]);
    asm.address(T0, "variable").address(A2, "envp").op("st.d", &[T0, A2, 0]);
    asm.call(EXECVE).exit(10).data("second", &string(&second)).data("argv", &[0, 0]);
    asm.data("variable", &string(std::path::Path::new(VARIABLE))).data("envp", &[0, 0]);
    write_program(&first, &asm.file());
    // The second program's stack: one argument, one variable.
    let mut asm = Asm::default();
    asm.op("ld.d", &[S0, SP, 24]).op("ld.d", &[T0, SP, 32]).expect_equal(T0, 0, 11);
    asm.address(S1, "variable");
    for at in (0..VARIABLE.len() as i64).step_by(8) {
        asm.op("ld.d", &[T0, S0, at]).op("ld.d", &[T1, S1, at]);
        if VARIABLE.len() as i64 - at < 8 {
            // The last bytes, and the terminator.
            asm.op("bstrpick.d", &[T0, T0, 8 * (VARIABLE.len() as i64 - at) + 7, 0]);
        }
        asm.expect_equal(T0, T1, 12);
    }
    asm.exit(7).data("variable", &string(std::path::Path::new(VARIABLE)));
    write_program(&second, &asm.file());
    let output = la64().arg(&first).output().expect("la64 runs");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn restartable_sequences_are_refused_as_on_a_kernel_without_them() {
    let mut asm = Asm::default();
    asm.address(A0, "area").op("ori", &[A1, 0, 32]).op("ori", &[A2, 0, 0]).op("ori", &[A3, 0, 0]);
    asm.call(RSEQ).op("addi.d", &[T0, 0, i64::from(-libc::ENOSYS)]).expect_equal(A0, T0, 10);
    asm.exit(0).data("area", &[0; 4]);
    ok(&asm);
}

/// Two datagrams by one call through a socket pair, and both back by one call: what glibc asks name
/// servers with.
#[test]
fn several_messages_go_and_come_by_one_call() {
    const SOCKETPAIR: i64 = 199;
    const RECVMMSG: i64 = 243;
    const SENDMMSG: i64 = 269;
    const AF_UNIX: i64 = 1;
    const SOCK_DGRAM: i64 = 2;
    const WAIT_FOR_ONE: i64 = 0x1_0000;
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, AF_UNIX]).op("ori", &[A1, 0, SOCK_DGRAM]).op("ori", &[A2, 0, 0]);
    asm.address(A3, "pair").call(SOCKETPAIR).expect_equal(A0, 0, 10);
    asm.address(T0, "pair").op("ld.w", &[S0, T0, 0]).op("ld.w", &[S1, T0, 4]);
    // Headers of 64 bytes: vectors at 16, how many at 24, the length at 56.
    let headers = |asm: &mut Asm, list, vectors| {
        asm.address(T0, list).address(T1, vectors).op("st.d", &[T1, T0, 16]);
        asm.op("addi.d", &[T1, T1, 16]).op("st.d", &[T1, T0, 64 + 16]);
    };
    headers(&mut asm, "out", "sent");
    headers(&mut asm, "in", "got");
    asm.address(T0, "sent").address(T1, "one").op("st.d", &[T1, T0, 0]);
    asm.address(T1, "two").op("st.d", &[T1, T0, 16]);
    asm.address(T0, "got").address(T1, "first").op("st.d", &[T1, T0, 0]);
    asm.address(T1, "second").op("st.d", &[T1, T0, 16]);
    asm.op("or", &[A0, S0, 0]).address(A1, "out").op("ori", &[A2, 0, 2]).op("ori", &[A3, 0, 0]);
    asm.call(SENDMMSG).op("ori", &[T0, 0, 2]).expect_equal(A0, T0, 11);
    // Room for three: the third is not waited for.
    asm.op("or", &[A0, S1, 0]).address(A1, "in").op("ori", &[A2, 0, 3]);
    asm.constant(A3, WAIT_FOR_ONE).op("ori", &[A4, 0, 0]).call(RECVMMSG);
    asm.op("ori", &[T0, 0, 2]).expect_equal(A0, T0, 12);
    for (at, len) in [(56, 3), (64 + 56, 5)] {
        for (list, status) in [("out", 13), ("in", 15)] {
            asm.address(T0, list).op("ld.wu", &[T1, T0, at]).op("ori", &[T2, 0, len]);
            asm.expect_equal(T1, T2, status);
        }
    }
    asm.address(T0, "second").op("ld.d", &[T1, T0, 0]).constant(T2, 0x7473_6574);
    asm.op("bstrpick.d", &[T1, T1, 31, 0]).expect_equal(T1, T2, 17).exit(0);
    let header = [0, 0, 0, 1, 0, 0, 0, 0];
    let [two, three] = [header.repeat(2), header.repeat(3)];
    asm.data("pair", &[0]).data("out", &two).data("in", &three);
    asm.data("sent", &[0, 3, 0, 5]).data("got", &[0, 8, 0, 8]);
    asm.data("one", &[0x63_6261]).data("two", &[0x73_7473_6574]);
    asm.data("first", &[0]).data("second", &[0]);
    ok(&asm);
}

/// Installs `handler` for SIGUSR1 with siginfo and sends it to this thread.
fn signal_self(asm: &mut Asm) {
    asm.address(T0, "handler").address(T1, "action").op("st.d", &[T0, T1, 0]);
    asm.op("ori", &[A0, 0, 10]).op("or", &[A1, T1, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 20);
    asm.call(GETPID).op("or", &[S0, A0, 0]).call(GETTID).op("or", &[A1, A0, 0]);
    asm.op("or", &[A0, S0, 0]).op("ori", &[A2, 0, 10]).call(TGKILL);
}

/// Offset of the extended records from the ucontext that handlers get in a2.
const RECORDS: i64 = 176 + 272;

/// What the records of a frame must be: magic and length of each, the terminator last.
fn expect_records(asm: &mut Asm, records: &[(i64, i64)]) {
    asm.op("addi.d", &[T0, A2, RECORDS]);
    for (n, &(magic, len)) in records.iter().enumerate() {
        asm.op("ld.wu", &[T1, T0, 0]).constant(T2, magic).expect_equal(T1, T2, 30 + n as i64);
        asm.op("ld.wu", &[T1, T0, 4]);
        if magic != 0 {
            // At least so long; alignment may add to it.
            asm.constant(T2, len).op("slt", &[T3, T1, T2]).expect_equal(T3, 0, 40 + n as i64);
        } else {
            asm.expect_equal(T1, 0, 40 + n as i64);
        }
        asm.op("add.d", &[T0, T0, T1]);
    }
}

const FPU: (i64, i64) = (0x4650_5501, 288);
const LSX: (i64, i64) = (0x5358_0001, 544);
const LASX: (i64, i64) = (0x4153_5801, 1056);
const LBT: (i64, i64) = (0x4254_0001, 56);
const END: (i64, i64) = (0, 0);

#[test]
fn a_frame_has_the_records_of_what_the_thread_used() {
    type Case<'a> = (&'a [(&'static str, &'a [i64])], &'a [(i64, i64)]);
    let cases: [Case<'_>; 4] = [
        (&[], &[FPU, END]),
        (&[("vadd.b", &[1, 2, 3])], &[LSX, END]),
        (&[("vadd.b", &[1, 2, 3]), ("xvadd.b", &[1, 2, 3])], &[LASX, END]),
        (&[("movgr2scr", &[0, 5])], &[LBT, FPU, END]),
    ];
    for (used, records) in cases {
        let mut asm = Asm::default();
        for (mnemonic, operands) in used {
            asm.op(mnemonic, operands);
        }
        signal_self(&mut asm);
        asm.exit(0);
        asm.label("handler");
        expect_records(&mut asm, records);
        asm.op("jirl", &[0, RA, 0]);
        asm.data("action", &[0, 4, 0]);
        ok(&asm);
    }
}

/// A handler sees scratch and vector registers, spoils them all, and changes what it returns to.
#[test]
fn extended_registers_travel_through_the_frame_and_back() {
    let mut asm = Asm::default();
    asm.op("ori", &[T0, 0, 0x123]).op("movgr2scr", &[2, T0]);
    asm.op("x86mttop", &[5]);
    asm.op("ori", &[T0, 0, 0x456]).op("xvreplgr2vr.d", &[9, T0]);
    signal_self(&mut asm);
    // scr2 is what the handler put there, the top lane of x9 too, its lowest is as before.
    asm.op("movscr2gr", &[T0, 2]).op("ori", &[T1, 0, 0x777]).expect_equal(T0, T1, 11);
    asm.op("xvpickve2gr.d", &[T0, 9, 3]).op("ori", &[T1, 0, 0x888]).expect_equal(T0, T1, 12);
    asm.op("xvpickve2gr.d", &[T0, 9, 0]).op("ori", &[T1, 0, 0x456]).expect_equal(T0, T1, 13);
    asm.op("x86mftop", &[T0]).op("ori", &[T1, 0, 5]).expect_equal(T0, T1, 14);
    asm.exit(0);

    asm.label("handler");
    expect_records(&mut asm, &[LBT, LASX, END]);
    asm.op("addi.d", &[T0, A2, RECORDS]).op("ld.d", &[T1, T0, 16 + 16]);
    asm.op("ori", &[T2, 0, 0x123]).expect_equal(T1, T2, 15);
    asm.op("ld.wu", &[T1, T0, 16 + 36]).op("ori", &[T2, 0, 5]).expect_equal(T1, T2, 16);
    asm.op("ori", &[T1, 0, 0x777]).op("st.d", &[T1, T0, 16 + 16]);
    // The next record: lane 3 of register 9.
    asm.op("ld.wu", &[T1, T0, 4]).op("add.d", &[T0, T0, T1]);
    asm.op("ori", &[T1, 0, 0x888]).op("st.d", &[T1, T0, 16 + 9 * 32 + 24]);
    asm.op("movgr2scr", &[2, 0]).op("xvreplgr2vr.d", &[9, 0]).op("x86mttop", &[0]);
    asm.op("jirl", &[0, RA, 0]);
    asm.data("action", &[0, 4, 0]);
    ok(&asm);
}

#[test]
fn a_spoilt_frame_kills_as_the_kernel_does() {
    let mut asm = Asm::default();
    signal_self(&mut asm);
    asm.exit(0);
    asm.label("handler").op("addi.d", &[T0, A2, RECORDS]).op("ori", &[T1, 0, 0x99]);
    asm.op("st.w", &[T1, T0, 0]).op("jirl", &[0, RA, 0]);
    asm.data("action", &[0, 4, 0]);
    let output = asm.run();
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(libc::SIGSEGV));
}

/// The thread counts to 10,000 twice over, tells, and waits for ever in the kernel; then the
/// process ends.
#[test]
fn threads_alive_at_the_end_are_counted() {
    const ROUNDS: i64 = 10_000;
    let mut asm = Asm::default();
    start_thread(&mut asm);
    asm.address(A0, "told").op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 0]).call(FUTEX).exit(0);
    asm.label("child").constant(T0, ROUNDS);
    asm.label("more").op("addi.d", &[T0, T0, -1]).to("bnez", &[T0], "more");
    asm.address(A0, "told").op("ori", &[T1, 0, 1]).op("st.w", &[T1, A0, 0]);
    asm.op("ori", &[A1, 0, 1]).op("ori", &[A2, 0, 1]).call(FUTEX);
    asm.address(A0, "never").op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 0]).call(PAUSE_BY_FUTEX);
    asm.data("told", &[0]).data("never", &[0]);
    thread_data(&mut asm);
    for _ in 0..5 {
        let output = asm.run();
        assert_eq!(output.status.code(), Some(0));
        let counted = count(&output);
        // The parent's 20; the thread up to the store that may release the parent, and the ten
        // instructions from there to its last wait.
        let least = 20 + 1 + 2 + 2 * ROUNDS as u64 + 3;
        let most = least + 10;
        assert!((least..=most).contains(&counted), "{least} <= {counted} <= {most}");
    }
}

/// The header of a message that is sent may lie where the program cannot write.
#[test]
fn a_message_is_sent_by_a_header_that_cannot_be_written() {
    const SOCKETPAIR: i64 = 199;
    const SENDMSG: i64 = 211;
    const MMAP: i64 = 222;
    const MPROTECT: i64 = 226;
    const AF_UNIX: i64 = 1;
    const SOCK_DGRAM: i64 = 2;
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, AF_UNIX]).op("ori", &[A1, 0, SOCK_DGRAM]).op("ori", &[A2, 0, 0]);
    asm.address(A3, "pair").call(SOCKETPAIR).expect_equal(A0, 0, 10);
    asm.op("ori", &[A0, 0, 0]).constant(A1, 4096).op("ori", &[A2, 0, 3]);
    asm.op("ori", &[A3, 0, 0x22]).op("addi.d", &[A4, 0, -1]).op("ori", &[A5, 0, 0]).call(MMAP);
    asm.op("or", &[S0, A0, 0]).address(T1, "vector").op("st.d", &[T1, S0, 16]);
    asm.op("ori", &[T1, 0, 1]).op("st.d", &[T1, S0, 24]);
    asm.address(T0, "vector").address(T1, "pair").op("st.d", &[T1, T0, 0]);
    asm.op("or", &[A0, S0, 0]).constant(A1, 4096).op("ori", &[A2, 0, 1]).call(MPROTECT);
    asm.address(T0, "pair").op("ld.w", &[A0, T0, 0]).op("or", &[A1, S0, 0]);
    asm.op("ori", &[A2, 0, 0]).call(SENDMSG).op("ori", &[T0, 0, 4]).expect_equal(A0, T0, 11);
    // An error is the call's own.
    asm.op("addi.d", &[A0, 0, -1]).op("or", &[A1, S0, 0]).op("ori", &[A2, 0, 0]).call(SENDMSG);
    asm.op("addi.d", &[T0, 0, i64::from(-libc::EBADF)]).expect_equal(A0, T0, 12);
    asm.exit(0).data("pair", &[0]).data("vector", &[0, 4]);
    ok(&asm);
}

/// A signal that is blocked and pending stays so in the next program.
#[test]
fn a_pending_signal_waits_across_execve() {
    const SIGPROCMASK: i64 = 135;
    const SIGPENDING: i64 = 136;
    const EXECVE: i64 = 221;
    const SIGUSR1: i64 = 10;
    let dir = tempfile::tempdir().expect("temporary directory");
    let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, 0]).address(A1, "set").op("ori", &[A2, 0, 0]).op("ori", &[A3, 0, 8]);
    asm.call(SIGPROCMASK).expect_equal(A0, 0, 10);
    asm.call(GETPID).op("or", &[S0, A0, 0]).call(GETTID).op("or", &[A1, A0, 0]);
    asm.op("or", &[A0, S0, 0]).op("ori", &[A2, 0, SIGUSR1]).call(TGKILL).expect_equal(A0, 0, 11);
    asm.address(A0, "second").address(A1, "argv").op("st.d", &[A0, A1, 0]);
    asm.op("ori", &[A2, 0, 0]).call(EXECVE).exit(12);
    asm.data("set", &[1 << (SIGUSR1 - 1)]).data("second", &string(&second));
    write_program(&first, &asm.data("argv", &[0, 0]).file());
    let mut asm = Asm::default();
    asm.address(A0, "set").op("ori", &[A1, 0, 8]).call(SIGPENDING).expect_equal(A0, 0, 13);
    asm.address(T0, "set").op("ld.d", &[T0, T0, 0]).op("ori", &[T1, 0, 1 << (SIGUSR1 - 1)]);
    write_program(&second, &asm.expect_equal(T0, T1, 14).exit(0).data("set", &[0]).file());
    let output = la64().arg(&first).output().expect("la64 runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

const SIGALTSTACK: i64 = 132;
/// Bytes of the smallest alternate stack.
const STACK_LEN_MIN: u64 = 4096;

/// sigaltstack with what is at two labels, or nothing.
fn alternate_stack(asm: &mut Asm, new: Option<&'static str>, old: Option<&'static str>) {
    for (register, label) in [(A0, new), (A1, old)] {
        match label {
            Some(label) => asm.address(register, label),
            None => asm.op("ori", &[register, 0, 0]),
        };
    }
    asm.call(SIGALTSTACK);
}

/// Ends with `status` unless word `n` at a label is `value`.
fn expect_word(asm: &mut Asm, (label, n): (&'static str, i64), value: i64, status: i64) {
    asm.address(T0, label).op("ld.d", &[T0, T0, 8 * n]).constant(T1, value);
    asm.expect_equal(T0, T1, status);
}

#[test]
fn sigaltstack_refuses_what_the_kernel_refuses() {
    const DISABLE: u64 = 2;
    const AUTODISARM: u64 = 1 << 31;
    let cases = [
        (0, STACK_LEN_MIN, 0),
        (1, STACK_LEN_MIN, 0),
        (AUTODISARM, STACK_LEN_MIN, 0),
        (DISABLE, 0, 0),
        (0, STACK_LEN_MIN - 1, libc::ENOMEM),
        (3, STACK_LEN_MIN, libc::EINVAL),
        (4, STACK_LEN_MIN, libc::EINVAL),
    ];
    for (n, (flags, len, error)) in cases.into_iter().enumerate() {
        let mut asm = Asm::default();
        alternate_stack(&mut asm, Some("new"), Some("old"));
        asm.op("addi.d", &[T0, 0, i64::from(-error)]).expect_equal(A0, T0, 10 + n as i64);
        // What was before is told if the call did what was asked.
        let told = if error == 0 { DISABLE as i64 } else { 77 };
        expect_word(&mut asm, ("old", 1), told, 20 + n as i64);
        asm.exit(0).data("new", &[0x1000_0000, flags, len]).data("old", &[77, 77, 77]);
        ok(&asm);
    }
}

#[test]
fn the_new_stack_is_read_before_the_old_one_is_written_in_its_place() {
    const BASES: [i64; 2] = [0x1000_0000, 0x2000_0000];
    let mut asm = Asm::default();
    alternate_stack(&mut asm, Some("first"), None);
    alternate_stack(&mut asm, Some("both"), Some("both"));
    asm.expect_equal(A0, 0, 10);
    expect_word(&mut asm, ("both", 0), BASES[0], 11);
    alternate_stack(&mut asm, None, Some("both"));
    expect_word(&mut asm, ("both", 0), BASES[1], 12);
    asm.exit(0).data("first", &[BASES[0] as u64, 0, 8192]);
    asm.data("both", &[BASES[1] as u64, 0, 8192]);
    ok(&asm);
}

/// A handler on the stack cannot take it away, unless it is disarmed meanwhile; behind the handler
/// it is armed again.
#[test]
fn a_handler_on_its_stack_sees_it_held_or_disarmed() {
    const SA_ONSTACK: u64 = 0x0800_0000;
    const AUTODISARM: u64 = 1 << 31;
    for (flags, error, seen) in [(0, libc::EPERM, 1), (AUTODISARM, 0, 2)] {
        let mut asm = Asm::default();
        asm.address(T0, "stack").address(T1, "new").op("st.d", &[T0, T1, 0]);
        alternate_stack(&mut asm, Some("new"), None);
        signal_self(&mut asm);
        alternate_stack(&mut asm, None, Some("old"));
        asm.address(T0, "old").op("ld.d", &[T1, T0, 0]).address(T2, "stack");
        asm.expect_equal(T1, T2, 10);
        asm.address(T0, "old").op("ld.d", &[T1, T0, 8]).address(T0, "new");
        asm.op("ld.d", &[T2, T0, 8]).expect_equal(T1, T2, 11).exit(0);
        asm.label("handler").address(T0, "stack").op("sltu", &[T1, SP, T0]);
        asm.expect_equal(T1, 0, 12);
        alternate_stack(&mut asm, None, Some("old"));
        expect_word(&mut asm, ("old", 1), seen, 13);
        alternate_stack(&mut asm, Some("other"), None);
        asm.op("addi.d", &[T0, 0, i64::from(-error)]).expect_equal(A0, T0, 14);
        asm.op("jirl", &[0, RA, 0]);
        asm.data("new", &[0, flags, 8192]).data("old", &[0; 3]);
        asm.data("other", &[0x1000_0000, 0, 8192]).data("action", &[0, SA_ONSTACK | 4, 0]);
        asm.data("stack", &[0; 1024]);
        ok(&asm);
    }
}

/// Frames of a handler that is interrupted again and again do not leave its stack: the one that has
/// no room raises SIGSEGV.
#[test]
fn frames_stay_on_the_alternate_stack() {
    const SA_ONSTACK: u64 = 0x0800_0000;
    const SA_NODEFER: u64 = 0x4000_0000;
    const WORDS: usize = 1024;
    // More frames than the stack has room for; what is below it has room for the rest.
    const FRAMES: i64 = 14;
    let mut asm = Asm::default();
    asm.address(T0, "stack").address(T1, "new").op("st.d", &[T0, T1, 0]);
    alternate_stack(&mut asm, Some("new"), None);
    signal_self(&mut asm);
    asm.exit(10);
    asm.label("handler").address(T0, "count").op("ld.d", &[T1, T0, 0]).op("addi.d", &[T1, T1, 1]);
    asm.op("st.d", &[T1, T0, 0]).op("ori", &[T2, 0, FRAMES]).to("beq", &[T1, T2], "enough");
    asm.call(GETPID).op("or", &[S0, A0, 0]).call(GETTID).op("or", &[A1, A0, 0]);
    asm.op("or", &[A0, S0, 0]).op("ori", &[A2, 0, 10]).call(TGKILL).exit(11);
    asm.label("enough").exit(0);
    asm.data("new", &[0, 0, 8 * WORDS as u64]).data("action", &[0, SA_ONSTACK | SA_NODEFER | 4, 0]);
    asm.data("count", &[0]).data("room", &[0; WORDS]).data("stack", &[0; WORDS]);
    let output = asm.run();
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(libc::SIGSEGV), "{output:?}");
}

/// What the first program ignores the second one ignores, and nothing else.
#[test]
fn ignored_signals_stay_ignored_in_the_next_program() {
    const EXECVE: i64 = 221;
    const SIGUSR2: i64 = 12;
    const SIGPIPE: i64 = 13;
    for ignored in [Some(SIGPIPE), Some(SIGUSR2), None] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
        let mut asm = Asm::default();
        if let Some(signal) = ignored {
            asm.op("ori", &[A0, 0, signal]).address(A1, "ignore").op("ori", &[A2, 0, 0]);
            asm.op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 10);
        }
        asm.address(A0, "second").address(A1, "argv").op("st.d", &[A0, A1, 0]);
        asm.op("ori", &[A2, 0, 0]).call(EXECVE).exit(11);
        asm.data("second", &string(&second)).data("argv", &[0, 0]).data("ignore", &[1, 0, 0]);
        write_program(&first, &asm.file());
        let mut asm = Asm::default();
        for signal in [SIGUSR2, SIGPIPE] {
            asm.op("ori", &[A0, 0, signal]).op("ori", &[A1, 0, 0]).address(A2, "action");
            asm.op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 12);
            expect_word(&mut asm, ("action", 0), i64::from(ignored == Some(signal)), signal);
        }
        write_program(&second, &asm.exit(0).data("action", &[0; 3]).file());
        let output = la64().arg(&first).output().expect("la64 runs");
        assert_eq!(output.status.code(), Some(0), "{ignored:?}: {output:?}");
    }
}

/// Of several buffers those before one without memory are transferred; where no user space is,
/// nothing is.
#[test]
fn buffers_before_a_bad_one_are_transferred() {
    const WRITEV: i64 = 66;
    const PREADV: i64 = 69;
    const MEMFD_CREATE: i64 = 279;
    const FAR: u64 = 0x7000_0000_0000;
    let mut asm = Asm::default();
    asm.address(A0, "text").op("ori", &[A1, 0, 0]).call(MEMFD_CREATE).op("or", &[S0, A0, 0]);
    asm.address(T0, "list").address(T1, "text").op("st.d", &[T1, T0, 0]);
    // The file is longer than the first buffer when it is read.
    for (call, error) in [(WRITEV, 10), (WRITEV, 11), (PREADV, 12)] {
        asm.op("or", &[A0, S0, 0]).address(A1, "list").op("ori", &[A2, 0, 2]);
        asm.op("ori", &[A3, 0, 0]).op("ori", &[A4, 0, 0]).call(call);
        asm.op("ori", &[T0, 0, 4]).expect_equal(A0, T0, error);
    }
    asm.address(T0, "list").op("lu52i.d", &[T1, 0, -2048]).op("st.d", &[T1, T0, 16]);
    asm.op("or", &[A0, S0, 0]).address(A1, "list").op("ori", &[A2, 0, 2]).call(WRITEV);
    asm.op("addi.d", &[T0, 0, i64::from(-libc::EFAULT)]).expect_equal(A0, T0, 13).exit(0);
    ok(asm.data("text", &[u64::from_le_bytes(*b"text\0\0\0\0")]).data("list", &[0, 4, FAR, 4]));
}

/// Requests of `ioctl` whose argument is a descriptor, or flags, and no address.
#[test]
fn numbers_for_ioctl_stay_numbers() {
    const FCNTL: i64 = 25;
    const IOCTL: i64 = 29;
    const OPENAT: i64 = 56;
    const MEMFD_CREATE: i64 = 279;
    const F_GETFL: i64 = 3;
    const FICLONE: i64 = 0x4004_9409;
    let mut asm = Asm::default();
    for register in [S0, S1] {
        asm.address(A0, "name").op("ori", &[A1, 0, 0]).call(MEMFD_CREATE);
        asm.op("or", &[register, A0, 0]);
    }
    // Files in memory share no blocks; a descriptor that is none is another error.
    asm.op("or", &[A0, S0, 0]).constant(A1, FICLONE).op("or", &[A2, S1, 0]).call(IOCTL);
    asm.op("addi.d", &[T0, 0, i64::from(-libc::EOPNOTSUPP)]).expect_equal(A0, T0, 10);
    if std::fs::File::open("/dev/ptmx").is_ok() {
        const O_RDWR_NOCTTY: i64 = 0x102;
        const TIOCSPTLCK: i64 = 0x4004_5431;
        const TIOCGPTPEER: i64 = 0x5441;
        asm.op("addi.d", &[A0, 0, -100]).address(A1, "terminal").op("ori", &[A2, 0, O_RDWR_NOCTTY]);
        asm.call(OPENAT).op("or", &[S0, A0, 0]);
        asm.constant(A1, TIOCSPTLCK).address(A2, "zero").call(IOCTL).expect_equal(A0, 0, 11);
        asm.op("or", &[A0, S0, 0]).constant(A1, TIOCGPTPEER).op("ori", &[A2, 0, O_RDWR_NOCTTY]);
        asm.call(IOCTL).op("ori", &[A1, 0, F_GETFL]).call(FCNTL).op("ori", &[T0, 0, 2]);
        asm.expect_equal(A0, T0, 12);
    }
    asm.exit(0).data("name", &[u64::from(b'm')]).data("zero", &[0]);
    let terminal = string(std::path::Path::new("/dev/ptmx"));
    ok(asm.data("terminal", &terminal));
}

/// A link in the last place of a path is followed or not as the flags say, also in the sysroot.
#[test]
fn a_link_in_the_sysroot_is_not_followed_if_the_flags_say_so() {
    use std::os::unix::fs::MetadataExt as _;
    const OPENAT: i64 = 56;
    const UTIMENSAT: i64 = 88;
    const AT_SYMLINK_NOFOLLOW: i64 = 0x100;
    let root = tempfile::tempdir().expect("temporary directory");
    std::fs::create_dir(root.path().join("x")).expect("a folder");
    let [link, target] = ["x/link", "x/target"].map(|name| root.path().join(name));
    std::fs::write(&target, "").expect("a file");
    std::os::unix::fs::symlink("target", &link).expect("a link");
    let mut asm = Asm::default();
    asm.op("addi.d", &[A0, 0, -100]).address(A1, "link").address(A2, "times");
    asm.op("ori", &[A3, 0, AT_SYMLINK_NOFOLLOW]).call(UTIMENSAT).expect_equal(A0, 0, 10);
    asm.op("addi.d", &[A0, 0, -100]).address(A1, "link").constant(A2, libc::O_NOFOLLOW.into());
    asm.op("ori", &[A3, 0, 0]).call(OPENAT);
    asm.op("addi.d", &[T0, 0, i64::from(-libc::ELOOP)]).expect_equal(A0, T0, 11).exit(0);
    let path = string(std::path::Path::new("/x/link"));
    asm.data("times", &[1, 0, 1, 0]).data("link", &path);
    let output = run_file(&asm.file(), &["--sysroot", root.path().to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::symlink_metadata(&link).expect("the link").mtime(), 1);
    assert_ne!(std::fs::metadata(&target).expect("the file").mtime(), 1);
}
