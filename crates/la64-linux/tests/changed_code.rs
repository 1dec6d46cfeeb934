//! Programs that write instructions: what was written before `ibar`, or before a change of
//! protection, is executed after it, by every thread; what was taken away is not executed.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;

const SIGACTION: i64 = 134;
const OPENAT: i64 = 56;
const WRITE: i64 = 64;
const PWRITE64: i64 = 68;
const MUNMAP: i64 = 215;
const MREMAP: i64 = 216;
const MMAP: i64 = 222;
const MPROTECT: i64 = 226;
const MEMFD_CREATE: i64 = 279;
const CLONE3: i64 = 435;
/// Shared memory, files, handlers; a thread.
const THREAD_FLAGS: u64 = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000;
const READ: i64 = 1;
const READ_WRITE: i64 = 3;
const READ_EXECUTE: i64 = 5;
const ALL: i64 = 7;
const SHARED: i64 = 1;
const PRIVATE: i64 = 2;
const FIXED: i64 = 0x10;
const ANONYMOUS: i64 = 0x20;
/// Where an immediate of twelve bits stands.
const IMMEDIATE: i64 = 10;

fn ok(asm: &Asm) {
    let output = asm.run();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Makes the instruction at the address in `at` load the low 11 bits of `value` into a0.
fn write_constant(asm: &mut Asm, at: i64, value: i64) {
    asm.constant(T0, i64::from(word("ori", &[A0, 0, 0]) as i32));
    asm.op("bstrpick.d", &[T1, value, 10, 0]).op("slli.d", &[T1, T1, IMMEDIATE]);
    asm.op("or", &[T0, T0, T1]).op("st.w", &[T0, at, 0]);
}

/// Calls the code at the address in `at` and ends the program unless a0 is then `value`'s low 11
/// bits.
fn call_and_expect(asm: &mut Asm, at: i64, value: i64, status: i64) {
    asm.op("jirl", &[RA, at, 0]).op("bstrpick.d", &[T1, value, 10, 0]);
    asm.expect_equal(A0, T1, status);
}

/// Writes `ret` behind the instruction at the address in `at`.
fn write_return(asm: &mut Asm, at: i64) {
    asm.constant(T0, i64::from(word("jirl", &[0, RA, 0]) as i32)).op("st.w", &[T0, at, 4]);
}

/// A private anonymous page; its address in s0.
fn map_page(asm: &mut Asm, protection: i64) {
    asm.op("ori", &[A0, 0, 0]).constant(A1, 4096).op("ori", &[A2, 0, protection]);
    asm.op("ori", &[A3, 0, PRIVATE | ANONYMOUS]).op("addi.d", &[A4, 0, -1]);
    asm.op("ori", &[A5, 0, 0]).call(MMAP).op("or", &[S0, A0, 0]);
}

fn protect(asm: &mut Asm, protection: i64) {
    asm.op("or", &[A0, S0, 0]).constant(A1, 4096).op("ori", &[A2, 0, protection]).call(MPROTECT);
    asm.expect_equal(A0, 0, 30);
}

/// Often enough for stale blocks to be dropped several times.
#[test]
fn each_new_version_of_a_function_is_executed_after_ibar() {
    let mut asm = Asm::default();
    asm.address(S0, "function").constant(S1, 5000);
    asm.label("more");
    write_constant(&mut asm, S0, S1);
    asm.op("ibar", &[0]);
    call_and_expect(&mut asm, S0, S1, 10);
    // Again without a change: the version stays.
    asm.op("ibar", &[0]);
    call_and_expect(&mut asm, S0, S1, 11);
    asm.op("addi.d", &[S1, S1, -1]).to("bnez", &[S1], "more").exit(0);
    asm.label("function").op("ori", &[A0, 0, 0]).op("jirl", &[0, RA, 0]);
    ok(&asm);
}

/// A barrier for all threads takes the place of `ibar` on each. Where the host refuses it, there is
/// nothing to try.
#[test]
fn a_new_version_is_executed_after_a_barrier_for_instructions() {
    const MEMBARRIER: i64 = 283;
    const SYNC_CORE: i64 = 1 << 5;
    const REGISTER_SYNC_CORE: i64 = 1 << 6;
    let barrier = |asm: &mut Asm, command: i64| {
        asm.op("ori", &[A0, 0, command]).op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]);
        asm.call(MEMBARRIER);
    };
    let mut asm = Asm::default();
    barrier(&mut asm, REGISTER_SYNC_CORE);
    asm.to("bnez", &[A0], "end").address(S0, "function").constant(S1, 200).label("more");
    write_constant(&mut asm, S0, S1);
    barrier(&mut asm, SYNC_CORE);
    asm.expect_equal(A0, 0, 10);
    call_and_expect(&mut asm, S0, S1, 11);
    asm.op("addi.d", &[S1, S1, -1]).to("bnez", &[S1], "more").label("end").exit(0);
    asm.label("function").op("ori", &[A0, 0, 0]).op("jirl", &[0, RA, 0]);
    ok(&asm);
}

/// The instruction behind `ibar` is the one that was rewritten, in the same run of instructions.
#[test]
fn an_instruction_rewritten_just_before_it_runs_is_seen_behind_ibar() {
    let mut asm = Asm::default();
    asm.constant(S1, 100).label("more").address(S0, "next");
    write_constant(&mut asm, S0, S1);
    asm.op("ibar", &[0]).label("next").op("ori", &[A0, 0, 0]);
    asm.op("bstrpick.d", &[T1, S1, 10, 0]).expect_equal(A0, T1, 10);
    asm.op("addi.d", &[S1, S1, -1]).to("bnez", &[S1], "more").exit(0);
    ok(&asm);
}

/// As compilers do that never have memory writable and executable at a time.
#[test]
fn code_written_between_two_changes_of_protection_is_executed() {
    let mut asm = Asm::default();
    map_page(&mut asm, READ_WRITE);
    asm.constant(S1, 200).label("more");
    write_constant(&mut asm, S0, S1);
    write_return(&mut asm, S0);
    protect(&mut asm, READ_EXECUTE);
    call_and_expect(&mut asm, S0, S1, 10);
    protect(&mut asm, READ_WRITE);
    asm.op("addi.d", &[S1, S1, -1]).to("bnez", &[S1], "more").exit(0);
    ok(&asm);
}

/// Installs `handler` for SIGSEGV.
fn handle_faults(asm: &mut Asm) {
    asm.address(T0, "handler").address(T1, "action").op("st.d", &[T0, T1, 0]);
    asm.op("ori", &[A0, 0, libc::SIGSEGV.into()]).op("or", &[A1, T1, 0]);
    asm.op("ori", &[A2, 0, 0]).op("ori", &[A3, 0, 8]).call(SIGACTION).expect_equal(A0, 0, 31);
    asm.data("action", &[0, 4, 0]);
}

#[test]
fn code_that_lost_its_right_or_its_memory_is_not_executed() {
    for takes_memory in [false, true] {
        let mut asm = Asm::default();
        handle_faults(&mut asm);
        map_page(&mut asm, ALL);
        asm.op("ori", &[S1, 0, 77]);
        write_constant(&mut asm, S0, S1);
        write_return(&mut asm, S0);
        asm.op("ibar", &[0]).op("ori", &[S2, 0, 3]).label("more");
        call_and_expect(&mut asm, S0, S1, 10);
        asm.op("addi.d", &[S2, S2, -1]).to("bnez", &[S2], "more");
        if takes_memory {
            asm.op("or", &[A0, S0, 0]).constant(A1, 4096).call(MUNMAP).expect_equal(A0, 0, 11);
        } else {
            protect(&mut asm, READ_WRITE);
        }
        asm.op("jirl", &[RA, S0, 0]).exit(12);
        // The address of the fault is the page's.
        asm.label("handler").op("ld.d", &[T0, A1, 16]).expect_equal(T0, S0, 13).exit(0);
        ok(&asm);
    }
}

/// Opens the program's own file, to be read; its descriptor in a0.
fn open_program(asm: &mut Asm) {
    let name = *b"/proc/self/exe\0\0";
    let [low, high] = [0, 8].map(|n| u64::from_le_bytes(std::array::from_fn(|i| name[n + i])));
    asm.op("addi.d", &[A0, 0, -100]).address(A1, "exe").op("ori", &[A2, 0, 0]).call(OPENAT);
    asm.data("exe", &[low, high]);
}

/// Code of a file is not compared with memory, until it becomes writable.
#[test]
fn code_of_a_file_that_becomes_writable_is_compared_from_then_on() {
    let mut asm = Asm::default();
    open_program(&mut asm);
    asm.op("or", &[A4, A0, 0]).op("ori", &[A0, 0, 0]).constant(A1, 4096);
    asm.op("ori", &[A2, 0, READ_EXECUTE]).op("ori", &[A3, 0, PRIVATE]).op("ori", &[A5, 0, 0]);
    asm.call(MMAP).op("or", &[S0, A0, 0]);
    // The function is as far into the page as in the program's own first page.
    asm.address(T0, "function").op("bstrpick.d", &[T0, T0, 11, 0]).op("add.d", &[S2, S0, T0]);
    asm.op("ori", &[S1, 0, 5]);
    call_and_expect(&mut asm, S2, S1, 10);
    for (new, status) in [(6, 11), (7, 12)] {
        protect(&mut asm, ALL);
        asm.op("ori", &[S1, 0, new]);
        write_constant(&mut asm, S2, S1);
        asm.op("ibar", &[0]);
        call_and_expect(&mut asm, S2, S1, status);
        protect(&mut asm, READ_EXECUTE);
        call_and_expect(&mut asm, S2, S1, status);
    }
    asm.exit(0).label("function").op("ori", &[A0, 0, 5]).op("jirl", &[0, RA, 0]);
    ok(&asm);
}

/// Two mappings, of which the second one refuses the new rights: the first one has them.
#[test]
fn code_that_lost_its_right_before_a_refusal_is_not_executed() {
    let mut asm = Asm::default();
    handle_faults(&mut asm);
    open_program(&mut asm);
    asm.op("or", &[FP, A0, 0]).constant(S0, 0x3000_0000);
    for (page, protection, flags) in [(0, ALL, PRIVATE | ANONYMOUS), (4096, READ, SHARED)] {
        asm.constant(T0, page).op("add.d", &[A0, S0, T0]).constant(A1, 4096);
        asm.op("ori", &[A2, 0, protection]).op("ori", &[A3, 0, FIXED | flags]);
        asm.op("or", &[A4, FP, 0]).op("ori", &[A5, 0, 0]).call(MMAP);
    }
    asm.op("ori", &[S1, 0, 77]);
    write_constant(&mut asm, S0, S1);
    write_return(&mut asm, S0);
    asm.op("ibar", &[0]);
    call_and_expect(&mut asm, S0, S1, 10);
    asm.op("or", &[A0, S0, 0]).constant(A1, 8192).op("ori", &[A2, 0, READ_WRITE]).call(MPROTECT);
    asm.op("addi.d", &[T0, 0, i64::from(-libc::EACCES)]).expect_equal(A0, T0, 11);
    asm.op("jirl", &[RA, S0, 0]).exit(12);
    asm.label("handler").op("ld.d", &[T0, A1, 16]).expect_equal(T0, S0, 13).exit(0);
    ok(&asm);
}

/// One thread writes a version of the function, runs `ibar` and then names the version; the other,
/// which never runs `ibar`, executes at least that version once it has seen the name.
#[test]
fn another_thread_executes_what_was_written_before_ibar() {
    const VERSIONS: i64 = 1500;
    let mut asm = Asm::default();
    asm.address(T0, "birth").address(T1, "stack").op("st.d", &[T1, T0, 40]);
    asm.op("or", &[A0, T0, 0]).op("ori", &[A1, 0, 88]).call(CLONE3).to("beqz", &[A0], "child");
    asm.address(S0, "function").address(S2, "version").op("ori", &[S1, 0, 1]);
    asm.constant(FP, VERSIONS).label("more");
    write_constant(&mut asm, S0, S1);
    asm.op("ibar", &[0]).op("dbar", &[0]).op("st.d", &[S1, S2, 0]);
    asm.op("addi.d", &[S1, S1, 1]).to("blt", &[S1, FP], "more");
    // The child ends the program.
    asm.label("wait").to("b", &[], "wait");
    asm.label("child").address(S0, "function").address(S2, "version").constant(FP, VERSIONS - 1);
    asm.label("again").op("ld.d", &[S1, S2, 0]).op("dbar", &[0]).op("jirl", &[RA, S0, 0]);
    asm.op("slt", &[T0, A0, S1]).expect_equal(T0, 0, 10).to("bne", &[S1, FP], "again").exit(0);
    asm.label("function").op("ori", &[A0, 0, 0]).op("jirl", &[0, RA, 0]);
    asm.data("birth", &[THREAD_FLAGS, 0, 0, 0, 0, 0, 4096, 0, 0, 0, 0]);
    asm.data("stack", &[0; 512]).data("version", &[0]);
    ok(&asm);
}

/// Code of a file that was executed, and then code in a segment that is attached in its place.
#[test]
fn code_of_a_segment_in_the_place_of_a_file_is_executed() {
    const SHMGET: i64 = 194;
    const SHMCTL: i64 = 195;
    const SHMAT: i64 = 196;
    /// It replaces what is there, and may be executed.
    const REPLACE_EXECUTE: i64 = 0o140000;
    const PLACE: i64 = 0x3000_0000;
    let function = |value: i64| {
        let [load, back] = [word("ori", &[A0, 0, value]), word("jirl", &[0, RA, 0])];
        u64::from(load) | u64::from(back) << 32
    };
    let mut asm = Asm::default();
    asm.address(A0, "name").op("ori", &[A1, 0, 0]).call(MEMFD_CREATE).op("or", &[S1, A0, 0]);
    asm.address(A1, "first").op("ori", &[A2, 0, 8]).call(WRITE);
    asm.constant(A0, PLACE).constant(A1, 4096).op("ori", &[A2, 0, READ_EXECUTE]);
    asm.op("ori", &[A3, 0, PRIVATE | FIXED]).op("or", &[A4, S1, 0]).op("ori", &[A5, 0, 0]);
    asm.call(MMAP).op("or", &[S0, A0, 0]).op("ori", &[S2, 0, 1]);
    call_and_expect(&mut asm, S0, S2, 10);
    asm.op("ori", &[A0, 0, 0]).constant(A1, 4096).op("ori", &[A2, 0, 0o600]).call(SHMGET);
    asm.op("or", &[S1, A0, 0]).op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]).call(SHMAT);
    asm.address(T0, "second").op("ld.d", &[T0, T0, 0]).op("st.d", &[T0, A0, 0]);
    asm.op("or", &[A0, S1, 0]).op("or", &[A1, S0, 0]).constant(A2, REPLACE_EXECUTE).call(SHMAT);
    asm.op("or", &[FP, A0, 0]).op("or", &[A0, S1, 0]).op("ori", &[A1, 0, 0]);
    asm.op("ori", &[A2, 0, 0]).call(SHMCTL).expect_equal(A0, 0, 11).expect_equal(FP, S0, 12);
    asm.op("ori", &[S2, 0, 2]);
    call_and_expect(&mut asm, S0, S2, 13);
    asm.exit(0).data("name", &[0x6e]).data("first", &[function(1)]);
    asm.data("second", &[function(2)]);
    ok(&asm);
}

/// Maps a page of the file whose descriptor is in fp; its address in s2. `at` holds where, or is
/// register 0.
fn map_file(asm: &mut Asm, at: i64, protection: i64, flags: i64) {
    asm.op("or", &[A0, at, 0]).constant(A1, 4096).op("ori", &[A2, 0, protection]);
    asm.op("ori", &[A3, 0, flags]).op("or", &[A4, FP, 0]).op("ori", &[A5, 0, 0]).call(MMAP);
    asm.op("or", &[S2, A0, 0]);
}

/// How a page of shared memory comes to be executable.
#[derive(Clone, Copy, Debug)]
enum Way {
    AtOnce,
    ByProtection,
    ByASecondMapping,
    InThePlaceOfAPrivateOne,
    BySegment,
}

/// Maps the function a second time, to be executed; its address in s2.
fn map_to_execute(asm: &mut Asm, way: Way) {
    let may_move = 1;
    match way {
        Way::AtOnce => map_file(asm, 0, READ_EXECUTE, SHARED),
        Way::ByProtection => {
            map_file(asm, 0, READ, SHARED);
            asm.op("or", &[A0, S2, 0]).constant(A1, 4096).op("ori", &[A2, 0, READ_EXECUTE]);
            asm.call(MPROTECT).expect_equal(A0, 0, 30);
        }
        Way::ByASecondMapping => {
            map_file(asm, 0, READ_EXECUTE, SHARED);
            asm.op("or", &[A0, S2, 0]).op("ori", &[A1, 0, 0]).constant(A2, 4096);
            asm.op("ori", &[A3, 0, may_move]).call(MREMAP).op("or", &[S2, A0, 0]);
        }
        Way::InThePlaceOfAPrivateOne => {
            map_file(asm, 0, READ_EXECUTE, PRIVATE);
            asm.op("jirl", &[RA, S2, 0]);
            map_file(asm, S2, READ_EXECUTE, SHARED | FIXED);
        }
        Way::BySegment => segment(asm, 0o110000),
    }
}

/// Attaches the segment whose number is in fp; its address in s2.
fn segment(asm: &mut Asm, flags: i64) {
    const SHMAT: i64 = 196;
    asm.op("or", &[A0, FP, 0]).op("ori", &[A1, 0, 0]).constant(A2, flags).call(SHMAT);
    asm.op("or", &[S2, A0, 0]);
}

/// Makes shared memory with the function in it, writable; its address in s0, and what it is known
/// by in fp.
fn share_function(asm: &mut Asm, way: Way) {
    const SHMGET: i64 = 194;
    const SHMCTL: i64 = 195;
    if let Way::BySegment = way {
        asm.op("ori", &[A0, 0, 0]).constant(A1, 4096).op("ori", &[A2, 0, 0o700]).call(SHMGET);
        asm.op("or", &[FP, A0, 0]);
        segment(asm, 0);
        asm.op("or", &[S0, S2, 0]).address(T0, "function");
        for at in [0, 8, 16] {
            asm.op("ld.d", &[T1, T0, at]).op("st.d", &[T1, S0, at]);
        }
        map_to_execute(asm, way);
        // It goes with the last process that has it attached.
        asm.op("or", &[A0, FP, 0]).op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]).call(SHMCTL);
        return;
    }
    asm.address(A0, "name").op("ori", &[A1, 0, 0]).call(MEMFD_CREATE).op("or", &[FP, A0, 0]);
    asm.address(A1, "function").op("ori", &[A2, 0, 24]).call(WRITE);
    map_file(asm, 0, READ_WRITE, SHARED);
    asm.op("or", &[S0, S2, 0]);
    map_to_execute(asm, way);
}

/// Memory that is mapped twice, once to be written and once to be executed, as by runtimes that
/// never have memory writable and executable at one address.
#[test]
fn code_written_through_another_mapping_is_executed() {
    // A loop, of which a region could be made: its second instruction changes.
    let function = [
        word("ori", &[T2, 0, 40]),
        word("ori", &[A0, 0, 0]),
        word("addi.d", &[T2, T2, -1]),
        word("bnez", &[T2, -8]),
        word("jirl", &[0, RA, 0]),
        word("andi", &[0, 0, 0]),
    ];
    let function: [u64; 3] =
        std::array::from_fn(|n| u64::from(function[2 * n]) | u64::from(function[2 * n + 1]) << 32);
    let ways = [
        Way::AtOnce,
        Way::ByProtection,
        Way::ByASecondMapping,
        Way::InThePlaceOfAPrivateOne,
        Way::BySegment,
    ];
    for way in ways {
        let mut asm = Asm::default();
        share_function(&mut asm, way);
        asm.op("addi.d", &[S0, S0, 4]).constant(S1, 500).label("more");
        write_constant(&mut asm, S0, S1);
        asm.op("ibar", &[0]);
        call_and_expect(&mut asm, S2, S1, 10);
        asm.op("addi.d", &[S1, S1, -1]).to("bnez", &[S1], "more");
        if !matches!(way, Way::BySegment) {
            // By a call.
            asm.address(A1, "again");
            write_constant(&mut asm, A1, S2);
            asm.op("or", &[A0, FP, 0]).op("ori", &[A2, 0, 4]).op("ori", &[A3, 0, 4]).call(PWRITE64);
            asm.op("ibar", &[0]);
            call_and_expect(&mut asm, S2, S2, 11);
        }
        asm.exit(0).data("name", &[0x6e]).data("function", &function).data("again", &[0]);
        let output = asm.run();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{way:?}: {text}");
    }
}
