//! System V shared memory and semaphores, message queues, programs started from descriptors, and
//! calls with lists of addresses. The guests are assembled here.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;

const EVENTFD: i64 = 19;
const EPOLL_CREATE: i64 = 20;
const EPOLL_CTL: i64 = 21;
const OPENAT: i64 = 56;
const WRITE: i64 = 64;
const SIGACTION: i64 = 134;
const GETPID: i64 = 172;
const GETTID: i64 = 178;
const MQ_OPEN: i64 = 180;
const MQ_UNLINK: i64 = 181;
const MQ_SEND: i64 = 182;
const MQ_RECEIVE: i64 = 183;
const SEMGET: i64 = 190;
const SEMCTL: i64 = 191;
const SEMTIMEDOP: i64 = 192;
const SHMGET: i64 = 194;
const SHMCTL: i64 = 195;
const SHMAT: i64 = 196;
const SHMDT: i64 = 197;
const KEYCTL: i64 = 219;
const TGSIGQUEUEINFO: i64 = 240;
const PROCESS_VM_READV: i64 = 270;
const MEMFD_CREATE: i64 = 279;
const EXECVEAT: i64 = 281;
const PREADV2: i64 = 286;
const PWRITEV2: i64 = 287;
const EPOLL_PWAIT2: i64 = 441;
const FUTEX_WAITV: i64 = 449;
const AT_FDCWD: i64 = -100;
const AT_EMPTY_PATH: i64 = 0x1000;
const OWNER_ONLY: i64 = 0o600;
const IPC_RMID: i64 = 0;
const IPC_STAT: i64 = 2;

fn ok(asm: &Asm) {
    let output = asm.run();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Loads up to six arguments: numbers of 12 bits.
fn numbers(asm: &mut Asm, list: &[(i64, i64)]) {
    for &(register, value) in list {
        asm.op("addi.d", &[register, 0, value]);
    }
}

fn expect_error(asm: &mut Asm, error: i32, status: i64) {
    asm.op("addi.d", &[T0, 0, i64::from(-error)]).expect_equal(A0, T0, status);
}

fn expect(asm: &mut Asm, register: i64, value: i64, status: i64) {
    asm.constant(T3, value).expect_equal(register, T3, status);
}

/// One segment, attached twice: what is stored at one place is read at the other; detached memory
/// is gone.
#[test]
fn a_shared_segment_is_attached_twice_and_detached() {
    let mut asm = Asm::default();
    numbers(&mut asm, &[(A0, 0), (A2, OWNER_ONLY)]);
    asm.constant(A1, 10_000).call(SHMGET).op("or", &[S0, A0, 0]);
    numbers(&mut asm, &[(A1, 0), (A2, 0)]);
    asm.call(SHMAT).op("or", &[S1, A0, 0]);
    asm.op("or", &[A0, S0, 0]);
    numbers(&mut asm, &[(A1, 0), (A2, 0)]);
    asm.call(SHMAT).op("or", &[S2, A0, 0]);
    // Both begin at multiples of 64 KiB; the third page is there.
    asm.op("or", &[T0, S1, S2]).op("bstrpick.d", &[T0, T0, 15, 0]).expect_equal(T0, 0, 10);
    asm.constant(T0, 8192).op("add.d", &[T1, S1, T0]).op("add.d", &[T2, S2, T0]);
    asm.constant(T0, 0x12_3456).op("st.d", &[T0, T1, 0]).op("ld.d", &[T2, T2, 0]);
    asm.expect_equal(T0, T2, 11);
    // Removed when the last one is detached: nothing is left behind.
    asm.op("or", &[A0, S0, 0]);
    numbers(&mut asm, &[(A1, IPC_RMID), (A2, 0)]);
    asm.call(SHMCTL).expect_equal(A0, 0, 12);
    // A place that is not a segment's beginning, and one that is taken.
    asm.constant(T0, 4096).op("add.d", &[A0, S1, T0]).call(SHMDT);
    expect_error(&mut asm, libc::EINVAL, 13);
    asm.op("or", &[A0, S1, 0]).call(SHMDT).expect_equal(A0, 0, 14);
    asm.op("or", &[A0, S1, 0]).call(SHMDT);
    expect_error(&mut asm, libc::EINVAL, 15);
    asm.op("ld.d", &[T0, S2, 0]).op("or", &[A0, S2, 0]).call(SHMDT).expect_equal(A0, 0, 16);
    asm.address(T0, "handler").address(T1, "action").op("st.d", &[T0, T1, 0]);
    numbers(&mut asm, &[(A0, libc::SIGSEGV.into()), (A2, 0), (A3, 8)]);
    asm.op("or", &[A1, T1, 0]).call(SIGACTION).op("ld.d", &[T0, S2, 0]).exit(17);
    asm.label("handler").exit(0).data("action", &[0, 4, 0]);
    ok(&asm);
}

#[test]
fn a_segment_is_attached_where_the_program_says() {
    const READ_ONLY: i64 = 0o10000;
    let mut asm = Asm::default();
    numbers(&mut asm, &[(A0, 0), (A2, OWNER_ONLY)]);
    asm.constant(A1, 4096).call(SHMGET).op("or", &[S0, A0, 0]);
    asm.constant(S1, 0x3000_0000).op("or", &[A1, S1, 0]).constant(A2, READ_ONLY).call(SHMAT);
    asm.expect_equal(A0, S1, 10).op("ld.d", &[T0, S1, 0]);
    // Taken already; not a multiple of 64 KiB.
    asm.op("or", &[A0, S0, 0]).op("or", &[A1, S1, 0]).op("or", &[A2, 0, 0]).call(SHMAT);
    expect_error(&mut asm, libc::EINVAL, 11);
    asm.op("or", &[A0, S0, 0]).constant(A1, 0x3010_1000).op("or", &[A2, 0, 0]).call(SHMAT);
    expect_error(&mut asm, libc::EINVAL, 12);
    asm.op("or", &[A0, S0, 0]);
    numbers(&mut asm, &[(A1, IPC_RMID), (A2, 0)]);
    asm.call(SHMCTL).expect_equal(A0, 0, 13);
    // Attached for reading only.
    asm.address(T0, "handler").address(T1, "action").op("st.d", &[T0, T1, 0]);
    numbers(&mut asm, &[(A0, libc::SIGSEGV.into()), (A2, 0), (A3, 8)]);
    asm.op("or", &[A1, T1, 0]).call(SIGACTION).op("st.d", &[0, S1, 0]).exit(14);
    asm.label("handler").exit(0).data("action", &[0, 4, 0]);
    ok(&asm);
}

#[test]
fn semaphores_are_set_waited_for_and_described() {
    const GETVAL: i64 = 12;
    const SETALL: i64 = 17;
    const SETVAL: i64 = 16;
    let mut asm = Asm::default();
    numbers(&mut asm, &[(A0, 0), (A1, 3), (A2, OWNER_ONLY)]);
    asm.call(SEMGET).op("or", &[S0, A0, 0]);
    let control = |asm: &mut Asm, number, command| {
        asm.op("or", &[A0, S0, 0]);
        numbers(asm, &[(A1, number), (A2, command)]);
    };
    control(&mut asm, 0, SETALL);
    asm.address(A3, "values").call(SEMCTL).expect_equal(A0, 0, 10);
    control(&mut asm, 1, GETVAL);
    asm.call(SEMCTL);
    expect(&mut asm, A0, 8, 11);
    control(&mut asm, 2, SETVAL);
    numbers(&mut asm, &[(A3, 5)]);
    asm.call(SEMCTL).expect_equal(A0, 0, 12);
    // Takes 5 from the third, at once; 1 more is not there within a millisecond.
    for (operation, status) in [("five", 13), ("one", 0)] {
        asm.op("or", &[A0, S0, 0]).address(A1, operation);
        numbers(&mut asm, &[(A2, 1)]);
        asm.address(A3, "millisecond").call(SEMTIMEDOP);
        match status {
            0 => expect_error(&mut asm, libc::EAGAIN, 14),
            status => drop(asm.expect_equal(A0, 0, status)),
        }
    }
    // The generic structure has the count of semaphores at 64, the host's at 80.
    control(&mut asm, 0, IPC_STAT);
    asm.address(A3, "described").call(SEMCTL).expect_equal(A0, 0, 15);
    asm.address(T0, "described").op("ld.d", &[T1, T0, 64]);
    expect(&mut asm, T1, 3, 16);
    asm.op("ld.d", &[T1, T0, 48]).op("sltu", &[T1, 0, T1]);
    expect(&mut asm, T1, 1, 17);
    control(&mut asm, 0, IPC_RMID);
    asm.call(SEMCTL).expect_equal(A0, 0, 18).exit(0);
    asm.data("values", &[7 | 8 << 16 | 9 << 32]).data("millisecond", &[0, 1_000_000]);
    // Number 2, by -5 and -1.
    asm.data("five", &[2 | 0xfffb << 16]).data("one", &[2 | 0xffff << 16]);
    asm.data("described", &[0; 13]);
    ok(&asm);
}

#[test]
fn a_message_goes_through_a_queue() {
    const READ_WRITE_CREATE: i64 = 0o102;
    let name = format!("la64-{:08}\0", std::process::id() % 100_000_000);
    let name: Vec<u64> = string_words(name.as_bytes());
    let mut asm = Asm::default();
    asm.address(A0, "name").address(A3, "attributes");
    numbers(&mut asm, &[(A1, READ_WRITE_CREATE), (A2, OWNER_ONLY)]);
    asm.call(MQ_OPEN).op("or", &[S0, A0, 0]).op("slti", &[T0, A0, 0]).expect_equal(T0, 0, 10);
    asm.address(A0, "name").call(MQ_UNLINK).expect_equal(A0, 0, 11);
    asm.op("or", &[A0, S0, 0]).address(A1, "message");
    numbers(&mut asm, &[(A2, 8), (A3, 3), (A4, 0)]);
    asm.call(MQ_SEND).expect_equal(A0, 0, 12);
    asm.op("or", &[A0, S0, 0]).address(A1, "received").address(A3, "priority");
    numbers(&mut asm, &[(A2, 16), (A4, 0)]);
    asm.call(MQ_RECEIVE);
    expect(&mut asm, A0, 8, 13);
    asm.address(T0, "received").op("ld.d", &[T1, T0, 0]);
    expect(&mut asm, T1, 0x1234_5678, 14);
    asm.address(T0, "priority").op("ld.w", &[T1, T0, 0]);
    expect(&mut asm, T1, 3, 15);
    asm.exit(0).data("name", &name).data("attributes", &[0, 4, 16, 0, 0, 0, 0, 0]);
    asm.data("message", &[0x1234_5678]).data("received", &[0, 0]).data("priority", &[0]);
    ok(&asm);
}

/// Bytes as words of data.
fn string_words(bytes: &[u8]) -> Vec<u64> {
    let word = |c: &[u8]| {
        u64::from_le_bytes(std::array::from_fn(|n| c.get(n).copied().unwrap_or_default()))
    };
    bytes.chunks(8).map(word).collect()
}

/// How `execveat` names the second program.
enum By {
    /// The open file itself.
    File,
    /// Its name in an open directory.
    Directory,
    /// A file without a name, written by the first program.
    Memory,
}

#[test]
fn a_program_starts_from_a_descriptor() {
    for (by, flags) in [(By::File, AT_EMPTY_PATH), (By::Directory, 0), (By::Memory, AT_EMPTY_PATH)]
    {
        let dir = tempfile::tempdir().expect("temporary directory");
        let second = Asm::default().exit(7).file();
        write_program(&dir.path().join("second"), &second);
        let mut opened = dir.path().to_path_buf();
        if matches!(by, By::File) {
            opened.push("second");
        }
        let name = [opened.to_str().expect("UTF-8").as_bytes(), b"\0"].concat();
        let mut asm = Asm::default();
        if matches!(by, By::Memory) {
            const CLOSE_ON_EXEC: i64 = 1;
            asm.address(A0, "path").op("ori", &[A1, 0, CLOSE_ON_EXEC]).call(MEMFD_CREATE);
            asm.op("or", &[S0, A0, 0]).address(A1, "program").constant(A2, second.len() as i64);
            asm.call(WRITE).op("or", &[A0, S0, 0]);
        } else {
            asm.op("addi.d", &[A0, 0, AT_FDCWD]).address(A1, "opened");
            asm.op("ori", &[A2, 0, 0]).call(OPENAT);
        }
        asm.op("slti", &[T0, A0, 3]).expect_equal(T0, 0, 10).address(A1, "path");
        asm.address(A2, "argv").op("st.d", &[A1, A2, 0]).op("ori", &[A3, 0, 0]);
        asm.constant(A4, flags).call(EXECVEAT).exit(11);
        let path: &[u8] = if matches!(by, By::Directory) { b"second\0" } else { b"\0" };
        asm.data("opened", &string_words(&name)).data("path", &string_words(path));
        asm.data("argv", &[0, 0]).data("program", &string_words(&second));
        let output = asm.run();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{text}");
    }
}

#[test]
fn execveat_refuses_what_the_kernel_refuses() {
    // Directory, path, flags: error.
    let cases: [(i64, &str, i64, i32); 4] = [
        (AT_FDCWD, "", 0, libc::ENOENT),
        (77, "", AT_EMPTY_PATH, libc::EBADF),
        (77, "x", 0, libc::EBADF),
        (AT_FDCWD, "/proc/self/exe", 1, libc::EINVAL),
    ];
    for (n, (dir, path, flags, error)) in cases.into_iter().enumerate() {
        let mut asm = Asm::default();
        asm.op("addi.d", &[A0, 0, dir]).address(A1, "path").op("ori", &[A2, 0, 0]);
        asm.op("ori", &[A3, 0, 0]).constant(A4, flags).call(EXECVEAT);
        expect_error(&mut asm, error, 10 + n as i64);
        asm.exit(0).data("path", &string_words(format!("{path}\0").as_bytes()));
        ok(&asm);
    }
}

/// Fills in the address of `buffer` in the vector at `vector`.
fn vector(asm: &mut Asm, vector: &'static str, buffer: &'static str) {
    asm.address(T0, vector).address(T1, buffer).op("st.d", &[T1, T0, 0]);
}

#[test]
fn lists_of_addresses_are_translated() {
    const PWRITE_FLAGS: i64 = 0;
    let mut asm = Asm::default();
    vector(&mut asm, "from", "sent");
    vector(&mut asm, "to", "got");
    asm.address(A0, "sent").op("ori", &[A1, 0, 0]).call(MEMFD_CREATE).op("or", &[S0, A0, 0]);
    for (call, list, status) in [(PWRITEV2, "from", 10), (PREADV2, "to", 12)] {
        asm.op("or", &[A0, S0, 0]).address(A1, list);
        numbers(&mut asm, &[(A2, 1), (A3, 100), (A4, 0), (A5, PWRITE_FLAGS)]);
        asm.call(call);
        expect(&mut asm, A0, 8, status);
    }
    let check = |asm: &mut Asm, status| {
        asm.address(T0, "got").op("ld.d", &[T1, T0, 0]);
        expect(asm, T1, 0x6162_6364, status);
        asm.op("st.d", &[0, T0, 0]);
    };
    check(&mut asm, 13);
    asm.call(GETPID).op("or", &[S1, A0, 0]).address(A1, "to").address(A3, "from");
    numbers(&mut asm, &[(A2, 1), (A4, 1), (A5, 0)]);
    asm.call(PROCESS_VM_READV);
    expect(&mut asm, A0, 8, 14);
    check(&mut asm, 15);
    // Another process's memory is out of reach.
    numbers(&mut asm, &[(A0, 1), (A2, 1), (A4, 1), (A5, 0)]);
    asm.address(A1, "to").address(A3, "from").call(PROCESS_VM_READV);
    expect_error(&mut asm, libc::EPERM, 16);
    // The word at the translated address is not what is waited for.
    asm.address(T0, "waiter").address(T1, "sent").op("st.d", &[T1, T0, 8]);
    asm.address(A0, "waiter");
    numbers(&mut asm, &[(A1, 1), (A2, 0), (A3, 0), (A4, 0)]);
    asm.call(FUTEX_WAITV);
    expect_error(&mut asm, libc::EAGAIN, 17);
    asm.exit(0).data("sent", &[0x6162_6364]).data("got", &[0]);
    asm.data("from", &[0, 8]).data("to", &[0, 8]).data("waiter", &[1, 0, 2]);
    ok(&asm);
}

/// With another error than for a file.
#[test]
fn a_message_of_too_many_buffers_is_refused() {
    const WRITEV: i64 = 66;
    const SOCKETPAIR: i64 = 199;
    const SENDMSG: i64 = 211;
    const TOO_MANY: i64 = 1025;
    let mut asm = Asm::default();
    // AF_UNIX, SOCK_DGRAM.
    numbers(&mut asm, &[(A0, 1), (A1, 2), (A2, 0)]);
    asm.address(A3, "pair").call(SOCKETPAIR).expect_equal(A0, 0, 10);
    asm.address(T0, "pair").op("ld.w", &[S0, T0, 0]);
    asm.op("or", &[A0, S0, 0]).address(A1, "header").op("ori", &[A2, 0, 0]).call(SENDMSG);
    expect_error(&mut asm, libc::EMSGSIZE, 11);
    asm.op("or", &[A0, S0, 0]).address(A1, "header").op("ori", &[A2, 0, TOO_MANY]).call(WRITEV);
    expect_error(&mut asm, libc::EINVAL, 12);
    asm.exit(0).data("pair", &[0]).data("header", &[0, 0, 0, TOO_MANY as u64, 0, 0, 0]);
    ok(&asm);
}

#[test]
fn events_are_waited_for_with_a_time_in_nanoseconds() {
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, 0]).call(EPOLL_CREATE).op("or", &[S0, A0, 0]);
    numbers(&mut asm, &[(A0, 1), (A1, 0)]);
    asm.call(EVENTFD).op("or", &[A2, A0, 0]).op("or", &[A0, S0, 0]).op("ori", &[A1, 0, 1]);
    asm.address(A3, "event").call(EPOLL_CTL).expect_equal(A0, 0, 10);
    asm.op("or", &[A0, S0, 0]).address(A1, "events").address(A3, "time");
    numbers(&mut asm, &[(A2, 2), (A4, 0), (A5, 8)]);
    asm.call(EPOLL_PWAIT2);
    expect(&mut asm, A0, 1, 11);
    asm.address(T0, "events").op("ld.d", &[T1, T0, 8]);
    expect(&mut asm, T1, 0x77, 12);
    asm.exit(0).data("event", &[1, 0x77]).data("events", &[0; 4]).data("time", &[5, 0]);
    ok(&asm);
}

#[test]
fn a_queued_signal_brings_its_value_to_a_thread() {
    const SIGNAL: i64 = 40;
    let mut asm = Asm::default();
    asm.address(T0, "handler").address(T1, "action").op("st.d", &[T0, T1, 0]);
    numbers(&mut asm, &[(A0, SIGNAL), (A2, 0), (A3, 8)]);
    asm.op("or", &[A1, T1, 0]).call(SIGACTION);
    asm.call(GETPID).op("or", &[S0, A0, 0]).call(GETTID).op("or", &[A1, A0, 0]);
    asm.op("or", &[A0, S0, 0]).op("ori", &[A2, 0, SIGNAL]).address(A3, "info");
    asm.call(TGSIGQUEUEINFO).expect_equal(A0, 0, 10).exit(11);
    asm.label("handler").op("ld.d", &[T0, A1, 24]);
    expect(&mut asm, T0, 0x5566, 12);
    asm.exit(0).data("action", &[0, 4, 0]);
    // Code SI_QUEUE, and the value behind process and user.
    let mut info = [0; 16];
    info[1] = u64::from(-1i32 as u32);
    info[3] = 0x5566;
    asm.data("info", &info);
    ok(&asm);
}

#[test]
fn an_absent_call_is_named_once() {
    let mut asm = Asm::default();
    for _ in 0..3 {
        asm.call(KEYCTL);
        expect_error(&mut asm, libc::ENOSYS, 10);
    }
    let output = asm.exit(0).run();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(text.matches("system call keyctl (219) is not supported").count(), 1, "{text}");
}

#[test]
fn epoll_refuses_what_the_kernel_refuses() {
    const EPOLL_PWAIT: i64 = 22;
    const ADD: i64 = 1;
    const DELETE: i64 = 2;
    const MODIFY: i64 = 3;
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, 0]).call(EPOLL_CREATE).op("or", &[S0, A0, 0]);
    numbers(&mut asm, &[(A0, 1), (A1, 0)]);
    asm.call(EVENTFD).op("or", &[S1, A0, 0]);
    let control = |asm: &mut Asm, operation, event: Option<&'static str>| {
        match event {
            Some(label) => asm.address(A3, label),
            None => asm.op("ori", &[A3, 0, 8]),
        };
        asm.op("or", &[A0, S0, 0]).op("ori", &[A1, 0, operation]).op("or", &[A2, S1, 0]);
        asm.call(EPOLL_CTL);
    };
    control(&mut asm, ADD, Some("event"));
    asm.expect_equal(A0, 0, 10);
    // Without an event: at address 8 is nothing, and address 0 is no address either.
    control(&mut asm, MODIFY, None);
    expect_error(&mut asm, libc::EFAULT, 11);
    asm.op("or", &[A0, S0, 0]).op("ori", &[A1, 0, MODIFY]).op("or", &[A2, S1, 0]);
    asm.op("ori", &[A3, 0, 0]).call(EPOLL_CTL);
    expect_error(&mut asm, libc::EFAULT, 12);
    control(&mut asm, DELETE, None);
    asm.expect_equal(A0, 0, 13);
    for (count, status) in [(0, 14), (-1, 15)] {
        asm.op("or", &[A0, S0, 0]).address(A1, "event");
        numbers(&mut asm, &[(A2, count), (A3, 0), (A4, 0), (A5, 8)]);
        asm.call(EPOLL_PWAIT);
        expect_error(&mut asm, libc::EINVAL, status);
    }
    asm.exit(0).data("event", &[1, 0x77]);
    ok(&asm);
}
