//! Limits of resources that a program sets: they are held against what it maps, reported back and
//! inherited, and the engine goes on. The guests are assembled here.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;

const BRK: i64 = 214;
const MUNMAP: i64 = 215;
const MREMAP: i64 = 216;
const CLONE: i64 = 220;
const EXECVE: i64 = 221;
const MMAP: i64 = 222;
const MPROTECT: i64 = 226;
const WAIT4: i64 = 260;
const PRLIMIT: i64 = 261;
const SIGCHLD: i64 = 17;
const DATA: i64 = 2;
const STACK: i64 = 3;
const ADDRESSES: i64 = 9;
const NONE: i64 = 0;
const READ_WRITE: i64 = 3;
const SHARED: i64 = 1;
const PRIVATE: i64 = 2;
const ANONYMOUS: i64 = 0x20;
const MAYMOVE: i64 = 1;
const MIB: i64 = 1 << 20;

/// prlimit64 of this process with the words at `limit`, new or old ones.
fn prlimit(asm: &mut Asm, resource: i64, is_new: bool) {
    let (used, other) = if is_new { (A2, A3) } else { (A3, A2) };
    asm.op("ori", &[A0, 0, 0]).op("ori", &[A1, 0, resource]);
    asm.address(used, "limit").op("ori", &[other, 0, 0]).call(PRLIMIT);
}

/// Sets a soft limit and leaves the hard one.
fn limit_to(asm: &mut Asm, resource: i64, bytes: i64) {
    prlimit(asm, resource, false);
    asm.expect_equal(A0, 0, 90).address(T0, "limit").constant(T1, bytes);
    asm.op("st.d", &[T1, T0, 0]);
    prlimit(asm, resource, true);
    asm.expect_equal(A0, 0, 91);
}

/// Ends with `status` unless the soft limit is that.
fn expect_limit(asm: &mut Asm, resource: i64, bytes: i64, status: i64) {
    prlimit(asm, resource, false);
    asm.expect_equal(A0, 0, status).address(T0, "limit").op("ld.d", &[T0, T0, 0]);
    asm.constant(T1, bytes).expect_equal(T0, T1, status);
}

/// Maps anonymous memory; its address in a0.
fn map(asm: &mut Asm, bytes: i64, protection: i64, kind: i64) {
    asm.op("ori", &[A0, 0, 0]).constant(A1, bytes).op("ori", &[A2, 0, protection]);
    asm.op("ori", &[A3, 0, kind | ANONYMOUS]).op("addi.d", &[A4, 0, -1]);
    asm.op("ori", &[A5, 0, 0]).call(MMAP);
}

fn expect_error(asm: &mut Asm, error: i32, status: i64) {
    asm.op("addi.d", &[T0, 0, i64::from(-error)]).expect_equal(A0, T0, status);
}

/// Ends with `status` if a0 is an error.
fn expect_done(asm: &mut Asm, status: i64) {
    asm.op("slt", &[T0, A0, 0]).expect_equal(T0, 0, status);
}

fn ok(asm: &Asm) {
    let output = asm.run();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_limit_of_addresses_is_held_against_the_programs_own() {
    let mut asm = Asm::default();
    limit_to(&mut asm, ADDRESSES, 16 * MIB);
    map(&mut asm, 32 * MIB, NONE, PRIVATE);
    expect_error(&mut asm, libc::ENOMEM, 10);
    map(&mut asm, 8 * MIB, NONE, PRIVATE);
    expect_done(&mut asm, 11);
    asm.op("or", &[S0, A0, 0]);
    map(&mut asm, 8 * MIB, NONE, SHARED);
    expect_error(&mut asm, libc::ENOMEM, 12);
    asm.op("or", &[A0, S0, 0]).constant(A1, 8 * MIB).constant(A2, 16 * MIB);
    asm.op("ori", &[A3, 0, MAYMOVE]).call(MREMAP);
    expect_error(&mut asm, libc::ENOMEM, 13);
    asm.op("ori", &[A0, 0, 0]).call(BRK).op("or", &[S1, A0, 0]);
    asm.constant(T0, 16 * MIB).op("add.d", &[A0, S1, T0]).call(BRK).expect_equal(A0, S1, 14);
    // What is unmapped counts no more.
    asm.op("or", &[A0, S0, 0]).constant(A1, 8 * MIB).call(MUNMAP).expect_equal(A0, 0, 15);
    map(&mut asm, 12 * MIB, READ_WRITE, PRIVATE);
    expect_done(&mut asm, 16);
    expect_limit(&mut asm, ADDRESSES, 16 * MIB, 17);
    asm.exit(0).data("limit", &[0, 0]);
    ok(&asm);
}

#[test]
fn a_limit_of_data_bounds_private_writable_memory() {
    let mut asm = Asm::default();
    limit_to(&mut asm, DATA, 4 * MIB);
    map(&mut asm, 8 * MIB, READ_WRITE, PRIVATE);
    expect_error(&mut asm, libc::ENOMEM, 10);
    map(&mut asm, 8 * MIB, READ_WRITE, SHARED);
    expect_done(&mut asm, 11);
    map(&mut asm, 8 * MIB, NONE, PRIVATE);
    expect_done(&mut asm, 12);
    asm.constant(A1, 8 * MIB).op("ori", &[A2, 0, READ_WRITE]).call(MPROTECT);
    expect_error(&mut asm, libc::ENOMEM, 13);
    map(&mut asm, MIB, READ_WRITE, PRIVATE);
    expect_done(&mut asm, 14);
    asm.exit(0).data("limit", &[0, 0]);
    ok(&asm);
}

#[test]
fn limits_that_contradict_themselves_are_refused() {
    for resource in [DATA, STACK, ADDRESSES] {
        let mut asm = Asm::default();
        prlimit(&mut asm, resource, true);
        expect_error(&mut asm, libc::EINVAL, 10);
        asm.exit(0).data("limit", &[2, 1]);
        ok(&asm);
    }
}

/// A child, and the next program with the stack that the limit gives it.
#[test]
fn limits_are_inherited() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
    let check = |asm: &mut Asm, status| {
        expect_limit(asm, ADDRESSES, 64 * MIB, status);
        expect_limit(asm, STACK, 32 * MIB, status + 1);
        map(asm, 64 * MIB, NONE, PRIVATE);
        expect_error(asm, libc::ENOMEM, status + 2);
    };
    let mut asm = Asm::default();
    limit_to(&mut asm, STACK, 32 * MIB);
    limit_to(&mut asm, ADDRESSES, 64 * MIB);
    asm.op("ori", &[A0, 0, SIGCHLD]);
    for register in [A1, A2, A3, A4] {
        asm.op("ori", &[register, 0, 0]);
    }
    asm.call(CLONE).to("beqz", &[A0], "child").address(A1, "status").op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 0]).call(WAIT4).address(T0, "status").op("ld.w", &[T0, T0, 0]);
    asm.expect_equal(T0, 0, 20);
    asm.address(A0, "second").address(A1, "argv").op("st.d", &[A0, A1, 0]);
    asm.op("ori", &[A2, 0, 0]).call(EXECVE).exit(21);
    asm.label("child");
    check(&mut asm, 30);
    asm.exit(0).data("limit", &[0, 0]).data("status", &[0]).data("argv", &[0, 0]);
    asm.data("second", &string(&second));
    write_program(&first, &asm.file());
    let mut asm = Asm::default();
    check(&mut asm, 40);
    asm.constant(T0, 20 * MIB).op("sub.d", &[T0, SP, T0]).op("st.d", &[T0, T0, 0]);
    write_program(&second, &asm.exit(7).data("limit", &[0, 0]).file());
    let output = la64().arg(&first).output().expect("la64 runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{text}");
}

/// A program of the host gets the limit as the host's.
#[test]
fn a_program_of_the_host_has_the_limits() {
    const KIB: i64 = 1 << 20;
    let shell = std::path::Path::new("/bin/sh");
    let mut asm = Asm::default();
    limit_to(&mut asm, ADDRESSES, 1024 * MIB);
    for (n, label) in ["shell", "dash_c", "line"].into_iter().enumerate() {
        asm.address(T0, label).address(T1, "argv").op("st.d", &[T0, T1, 8 * n as i64]);
    }
    asm.address(A0, "shell").address(A1, "argv").op("ori", &[A2, 0, 0]).call(EXECVE).exit(10);
    let line = format!("test $(ulimit -v) = {KIB} && exit 7");
    asm.data("shell", &string(shell)).data("dash_c", &[u64::from_le_bytes(*b"-c\0\0\0\0\0\0")]);
    asm.data("line", &string(std::path::Path::new(&line))).data("argv", &[0; 4]);
    let output = asm.data("limit", &[0, 0]).run_once();
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
}

/// From the command line, in place of the program itself.
#[test]
fn limits_can_be_given_to_a_program() {
    let mut asm = Asm::default();
    expect_limit(&mut asm, ADDRESSES, 16 * MIB, 10);
    map(&mut asm, 32 * MIB, NONE, PRIVATE);
    expect_error(&mut asm, libc::ENOMEM, 11);
    asm.constant(T0, 20 * MIB).op("sub.d", &[T0, SP, T0]).op("st.d", &[T0, T0, 0]);
    asm.exit(0).data("limit", &[0, 0]);
    let output =
        run_file(&asm.file(), &["--limit", "as=16MiB:unlimited", "--limit", "stack=32MiB"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A string as words of data, with its terminator.
fn string(path: &std::path::Path) -> Vec<u64> {
    let mut bytes = path.to_str().expect("a path in UTF-8").as_bytes().to_vec();
    bytes.resize((bytes.len() / 8 + 1) * 8, 0);
    let words = bytes.chunks(8).map(|c| u64::from_le_bytes(c.try_into().expect("eight bytes")));
    words.collect()
}
