//! Where memory is, how large it may be, and how it moves: `mmap`, `mprotect`, `mremap`; what
//! `/proc/self/auxv` says; processes that would share memory.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;

const FTRUNCATE: i64 = 46;
const OPENAT: i64 = 56;
const READ: i64 = 63;
const MUNMAP: i64 = 215;
const MREMAP: i64 = 216;
const CLONE: i64 = 220;
const MMAP: i64 = 222;
const MPROTECT: i64 = 226;
const MEMFD_CREATE: i64 = 279;
const PAGE: i64 = 4096;
const NONE: i64 = 0;
const READ_ONLY: i64 = 1;
const READ_WRITE: i64 = 3;
const SHARED: i64 = 1;
const PRIVATE: i64 = 2;
const ANONYMOUS: i64 = 0x20;
const NORESERVE: i64 = 0x4000;
const FIXED_NOREPLACE: i64 = 0x10_0000;
const MAYMOVE: i64 = 1;
const FIXED: i64 = 2;
const DONTUNMAP: i64 = 4;

fn ok(asm: &Asm) {
    let output = asm.run();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Maps private anonymous memory; its address in a0.
fn map(asm: &mut Asm, pages: i64, protection: i64) {
    asm.op("ori", &[A0, 0, 0]).constant(A1, pages * PAGE).op("ori", &[A2, 0, protection]);
    asm.op("ori", &[A3, 0, PRIVATE | ANONYMOUS]).op("addi.d", &[A4, 0, -1]);
    asm.op("ori", &[A5, 0, 0]).call(MMAP);
}

/// A call whose first argument is in `s`: `pages` behind it, then two numbers.
fn on_pages(asm: &mut Asm, call: i64, (s, first): (i64, i64), pages: i64, third: i64) {
    asm.constant(T0, first * PAGE).op("add.d", &[A0, s, T0]).constant(A1, pages * PAGE);
    asm.op("ori", &[A2, 0, third]).call(call);
}

/// mremap of what begins at s0; a target, if any, is in a4 already.
fn remap(asm: &mut Asm, old: i64, new: i64, flags: i64) {
    asm.op("or", &[A0, S0, 0]).constant(A1, old * PAGE).constant(A2, new * PAGE);
    asm.op("ori", &[A3, 0, flags]).call(MREMAP);
}

fn expect(asm: &mut Asm, register: i64, value: i64, status: i64) {
    asm.constant(T3, value).expect_equal(register, T3, status);
}

/// The first doubleword of page `page` behind the address in `s`.
fn expect_word(asm: &mut Asm, (s, page): (i64, i64), value: i64, status: i64) {
    asm.constant(T0, page * PAGE).op("add.d", &[T0, s, T0]).op("ld.d", &[T1, T0, 0]);
    expect(asm, T1, value, status);
}

fn store_word(asm: &mut Asm, (s, page): (i64, i64), value: i64) {
    asm.constant(T0, page * PAGE).op("add.d", &[T0, s, T0]).constant(T1, value);
    asm.op("st.d", &[T1, T0, 0]);
}

/// A place for `pages` pages: mapped and unmapped; its address in s1.
fn free_place(asm: &mut Asm, pages: i64) {
    map(asm, pages, NONE);
    asm.op("or", &[S1, A0, 0]).constant(A1, pages * PAGE).call(MUNMAP);
}

#[test]
fn a_region_that_was_protected_and_back_moves_whole() {
    let mut asm = Asm::default();
    map(&mut asm, 4, READ_WRITE);
    asm.op("or", &[S0, A0, 0]);
    for page in 0..4 {
        store_word(&mut asm, (S0, page), 70 + page);
    }
    on_pages(&mut asm, MPROTECT, (S0, 1), 1, READ_ONLY);
    on_pages(&mut asm, MPROTECT, (S0, 2), 1, NONE);
    // Now it is not one: the kernel refuses too.
    remap(&mut asm, 4, 8, MAYMOVE);
    expect(&mut asm, A0, i64::from(-libc::EFAULT), 10);
    on_pages(&mut asm, MPROTECT, (S0, 1), 2, READ_WRITE);
    free_place(&mut asm, 6);
    asm.op("or", &[A4, S1, 0]);
    remap(&mut asm, 4, 6, MAYMOVE | FIXED);
    asm.expect_equal(A0, S1, 11);
    for page in 0..4 {
        expect_word(&mut asm, (S1, page), 70 + page, 12);
    }
    expect_word(&mut asm, (S1, 5), 0, 13);
    asm.exit(0);
    ok(&asm);
}

#[test]
fn dontunmap_leaves_an_empty_mapping_behind() {
    let mut asm = Asm::default();
    map(&mut asm, 2, READ_WRITE);
    asm.op("or", &[S0, A0, 0]);
    store_word(&mut asm, (S0, 1), 99);
    remap(&mut asm, 2, 2, MAYMOVE | DONTUNMAP);
    asm.op("or", &[S1, A0, 0]).op("sltu", &[T0, S1, S0]).expect_equal(A0, S1, 10);
    expect_word(&mut asm, (S1, 1), 99, 11);
    expect_word(&mut asm, (S0, 1), 0, 12);
    store_word(&mut asm, (S0, 1), 98);
    expect_word(&mut asm, (S1, 1), 99, 13);
    asm.exit(0);
    ok(&asm);
}

#[test]
fn mremap_refuses_what_the_kernel_refuses() {
    // Old and new length in pages, flags, error; the mapping has two pages.
    let cases = [
        (2, 2, 8, libc::EINVAL),
        (2, 2, FIXED, libc::EINVAL),
        (2, 2, DONTUNMAP, libc::EINVAL),
        (2, 3, MAYMOVE | DONTUNMAP, libc::EINVAL),
        (2, 0, MAYMOVE, libc::EINVAL),
        (0, 2, MAYMOVE, libc::EINVAL),
        // Onto itself.
        (2, 2, MAYMOVE | FIXED, libc::EINVAL),
        (3, 4, MAYMOVE, libc::EFAULT),
        // Lengths that no address space has.
        (2, -1, 0, libc::ENOMEM),
        (2, -1, MAYMOVE, libc::ENOMEM),
    ];
    for (n, (old, new, flags, error)) in cases.into_iter().enumerate() {
        let mut asm = Asm::default();
        map(&mut asm, 3, READ_WRITE);
        asm.op("or", &[S0, A0, 0]).op("or", &[A4, S0, 0]);
        on_pages(&mut asm, MUNMAP, (S0, 2), 1, 0);
        asm.op("or", &[A4, S0, 0]);
        remap(&mut asm, old, new, flags);
        expect(&mut asm, A0, i64::from(-error), 10 + n as i64);
        store_word(&mut asm, (S0, 1), 1);
        asm.exit(0);
        ok(&asm);
    }
    // In bytes: rounded up to pages it is 0.
    let mut asm = Asm::default();
    map(&mut asm, 1, READ_WRITE);
    asm.constant(A1, PAGE).op("addi.d", &[A2, 0, -1]).op("ori", &[A3, 0, 0]).call(MREMAP);
    expect(&mut asm, A0, i64::from(-libc::EINVAL), 30);
    asm.exit(0);
    ok(&asm);
}

/// Private anonymous memory, and a shared file, whose second page only the growth shows.
#[test]
fn a_mapping_grows_where_it_is() {
    for is_file in [false, true] {
        let mut asm = Asm::default();
        free_place(&mut asm, 4);
        asm.op("addi.d", &[A4, 0, -1]);
        if is_file {
            asm.address(A0, "name").op("ori", &[A1, 0, 0]).call(MEMFD_CREATE);
            asm.op("or", &[S2, A0, 0]).constant(A1, 4 * PAGE).call(FTRUNCATE);
            asm.op("or", &[A4, S2, 0]);
        }
        let kind = if is_file { SHARED } else { PRIVATE | ANONYMOUS };
        asm.op("or", &[A0, S1, 0]).constant(A1, PAGE).op("ori", &[A2, 0, READ_WRITE]);
        asm.constant(A3, kind | FIXED_NOREPLACE).op("ori", &[A5, 0, 0]).call(MMAP);
        asm.expect_equal(A0, S1, 10).op("or", &[S0, A0, 0]);
        store_word(&mut asm, (S0, 0), 55);
        remap(&mut asm, 1, 3, 0);
        asm.expect_equal(A0, S0, 11);
        expect_word(&mut asm, (S0, 0), 55, 12);
        store_word(&mut asm, (S0, 2), 56);
        // And once more as a whole, to another place.
        free_place(&mut asm, 8);
        asm.op("or", &[A4, S1, 0]);
        remap(&mut asm, 3, 4, MAYMOVE | FIXED);
        asm.expect_equal(A0, S1, 13);
        expect_word(&mut asm, (S1, 0), 55, 14);
        expect_word(&mut asm, (S1, 2), 56, 15);
        store_word(&mut asm, (S1, 3), 57);
        asm.exit(0).data("name", &[0x6e]);
        ok(&asm);
    }
}

#[test]
fn a_shared_mapping_is_mapped_a_second_time() {
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, 0]).constant(A1, PAGE).op("ori", &[A2, 0, READ_WRITE]);
    asm.op("ori", &[A3, 0, SHARED | ANONYMOUS]).op("addi.d", &[A4, 0, -1]);
    asm.op("ori", &[A5, 0, 0]).call(MMAP).op("or", &[S0, A0, 0]);
    remap(&mut asm, 0, 1, MAYMOVE);
    asm.op("or", &[S1, A0, 0]);
    store_word(&mut asm, (S0, 0), 31);
    expect_word(&mut asm, (S1, 0), 31, 10);
    asm.op("sub.d", &[T0, S0, S1]).op("sltu", &[T0, 0, T0]);
    expect(&mut asm, T0, 1, 11);
    asm.exit(0);
    ok(&asm);
}

/// Reservations as sanitizers and managed heaps make them.
#[test]
fn two_tebibytes_can_be_reserved_and_addresses_reach_above_2_to_the_46() {
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, 0]).op("ori", &[T0, 0, 1]).op("slli.d", &[A1, T0, 41]);
    asm.op("ori", &[A2, 0, NONE]).constant(A3, PRIVATE | ANONYMOUS | NORESERVE);
    asm.op("addi.d", &[A4, 0, -1]).op("ori", &[A5, 0, 0]).call(MMAP);
    asm.op("slt", &[T0, A0, 0]).expect_equal(T0, 0, 10);
    // 16 TiB from 2^46 on, as a shadow of all addresses.
    asm.op("ori", &[T0, 0, 1]).op("slli.d", &[S0, T0, 46]).op("slli.d", &[A1, T0, 44]);
    asm.op("or", &[A0, S0, 0]).op("ori", &[A2, 0, READ_WRITE]);
    asm.constant(A3, PRIVATE | ANONYMOUS | NORESERVE | FIXED_NOREPLACE);
    asm.op("addi.d", &[A4, 0, -1]).op("ori", &[A5, 0, 0]).call(MMAP).expect_equal(A0, S0, 11);
    store_word(&mut asm, (S0, 1000), 5);
    expect_word(&mut asm, (S0, 1000), 5, 12);
    asm.exit(0);
    ok(&asm);
}

/// The guest's capabilities: those that the interpreter executes, not the host's.
#[test]
fn the_auxiliary_vector_in_proc_is_the_guests() {
    const HWCAP: i64 = 16;
    // CPUCFG, LAM, UAL, FPU, LSX, LASX, CRC32, and the three of LBT.
    const ALL: i64 = 0x1c7f;
    let name = *b"/proc/self/auxv\0";
    let [low, high] = [0, 8].map(|n| u64::from_le_bytes(std::array::from_fn(|i| name[n + i])));
    let mut asm = Asm::default();
    asm.op("addi.d", &[A0, 0, -100]).address(A1, "name").op("ori", &[A2, 0, 0]).call(OPENAT);
    asm.address(A1, "vector").op("ori", &[A2, 0, 1024]).call(READ);
    asm.address(T0, "vector").label("next").op("ld.d", &[T1, T0, 0]);
    asm.to("bnez", &[T1], "pair").exit(10);
    asm.label("pair").op("addi.d", &[T0, T0, 16]).op("addi.d", &[T1, T1, -HWCAP]);
    asm.to("bnez", &[T1], "next").op("ld.d", &[T1, T0, -8]);
    expect(&mut asm, T1, ALL, 11);
    asm.exit(0).data("name", &[low, high]).data("vector", &[0; 128]);
    ok(&asm);
}

/// Memory, and the parent.
#[test]
fn a_process_that_would_share_memory_is_refused_by_name() {
    for shared in [0x100, 0x8000] {
        let mut asm = Asm::default();
        for _ in 0..2 {
            asm.constant(A0, shared | 17);
            for register in [A1, A2, A3, A4] {
                asm.op("ori", &[register, 0, 0]);
            }
            asm.call(CLONE);
            expect(&mut asm, A0, i64::from(-libc::EINVAL), 10);
        }
        let output = asm.exit(0).run();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert_eq!(text.matches("clone: a process that shares").count(), 1, "{text}");
    }
}

/// A program says in its headers whether its stack may be executed, as compilers do for nested
/// functions.
#[test]
fn code_on_the_stack_is_executed_if_the_program_says_so() {
    /// LA64: `jirl r0, ra, 0`.
    const JIRL_ZERO_RA: u64 = 0x4c00_0020;
    const GNU_STACK: u32 = 0x6474_e551;
    const HEADER_LEN: usize = 56;
    for (rights, is_executed) in [(7u32, true), (6, false)] {
        let mut asm = Asm::default();
        // The second program header comes here.
        for _ in 0..HEADER_LEN / 4 {
            asm.op("ori", &[0, 0, 0]);
        }
        asm.address(T0, "code").op("ld.w", &[T1, T0, 0]).op("st.w", &[T1, SP, -64]);
        asm.op("ibar", &[0]).op("addi.d", &[T0, SP, -64]).op("jirl", &[RA, T0, 0]).exit(0);
        let mut file = asm.data("code", &[JIRL_ZERO_RA]).file();
        let entry = AT + 120 + HEADER_LEN as u64;
        file[24..32].copy_from_slice(&entry.to_le_bytes());
        file[56..58].copy_from_slice(&2u16.to_le_bytes());
        file[120..120 + HEADER_LEN].fill(0);
        file[120..124].copy_from_slice(&GNU_STACK.to_le_bytes());
        file[124..128].copy_from_slice(&rights.to_le_bytes());
        for tier in ["0", "1", "2"] {
            let output = run_file(&file, &["--tier", tier]);
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code() == Some(0), is_executed, "tier {tier}: {text}");
        }
    }
}

/// A library that needs an executable stack is loaded: the C library names one page of it.
#[test]
fn the_whole_stack_becomes_executable_by_one_of_its_pages() {
    const JIRL_ZERO_RA: u64 = 0x4c00_0020;
    const GROWS_DOWN: i64 = 0x0100_0000;
    let protect = |asm: &mut Asm, from| {
        asm.constant(T0, -PAGE).op("and", &[A0, from, T0]).constant(A1, PAGE);
        asm.constant(A2, 7 | GROWS_DOWN).call(MPROTECT);
    };
    let mut asm = Asm::default();
    protect(&mut asm, SP);
    asm.expect_equal(A0, 0, 10);
    asm.address(T0, "code").op("ld.w", &[T1, T0, 0]).constant(T2, 16 * PAGE);
    asm.op("sub.d", &[T2, SP, T2]).op("st.w", &[T1, T2, 0]).op("ibar", &[0]);
    asm.op("jirl", &[RA, T2, 0]);
    // Elsewhere it means nothing.
    map(&mut asm, 1, READ_WRITE);
    asm.op("or", &[S0, A0, 0]);
    protect(&mut asm, S0);
    expect(&mut asm, A0, i64::from(-libc::EINVAL), 11);
    ok(asm.exit(0).data("code", &[JIRL_ZERO_RA]));
}

/// The lowest page that there is stays, and so do its bytes.
#[test]
fn unmapping_the_addresses_below_a_page_leaves_the_page() {
    const LOWEST: i64 = 0x1_0000;
    const MAP_FIXED: i64 = 0x10;
    let mut asm = Asm::default();
    asm.constant(A0, LOWEST).constant(A1, PAGE).op("ori", &[A2, 0, READ_WRITE]);
    asm.op("ori", &[A3, 0, PRIVATE | ANONYMOUS | MAP_FIXED]).op("addi.d", &[A4, 0, -1]);
    asm.op("ori", &[A5, 0, 0]).call(MMAP).op("or", &[S0, A0, 0]);
    expect(&mut asm, S0, LOWEST, 10);
    store_word(&mut asm, (S0, 0), 77);
    for len in [PAGE, LOWEST] {
        asm.op("ori", &[A0, 0, 0]).constant(A1, len).call(MUNMAP).expect_equal(A0, 0, 11);
        expect_word(&mut asm, (S0, 0), 77, 12);
    }
    asm.exit(0);
    ok(&asm);
}

/// Beside a mapping, and behind all addresses that the program has.
#[test]
fn calls_on_addresses_without_a_mapping_are_refused() {
    const MSYNC: i64 = 227;
    const MLOCK: i64 = 228;
    const MUNLOCK: i64 = 229;
    const MINCORE: i64 = 232;
    const MADVISE: i64 = 233;
    const MBIND: i64 = 235;
    const MLOCK2: i64 = 284;
    const SYNC: i64 = 4;
    let calls: [(i64, i64, i32); 7] = [
        (MSYNC, SYNC, libc::ENOMEM),
        (MLOCK, 0, libc::ENOMEM),
        (MUNLOCK, 0, libc::ENOMEM),
        (MINCORE, 0, libc::ENOMEM),
        (MADVISE, 0, libc::ENOMEM),
        (MBIND, 0, libc::EFAULT),
        (MLOCK2, 0, libc::ENOMEM),
    ];
    let mut asm = Asm::default();
    map(&mut asm, 2, READ_WRITE);
    asm.op("or", &[S0, A0, 0]);
    on_pages(&mut asm, MUNMAP, (S0, 1), 1, 0);
    for (n, (call, third, error)) in calls.into_iter().enumerate() {
        for far in [false, true] {
            asm.op("or", &[A0, S0, 0]).constant(A1, 2 * PAGE).op("ori", &[A2, 0, third]);
            if call == MINCORE {
                asm.address(A2, "vector");
            }
            if far {
                // The rest of all addresses: from the mapping to the end.
                asm.op("sub.d", &[A1, 0, S0]).constant(T0, PAGE).op("sub.d", &[A1, A1, T0]);
            }
            asm.op("ori", &[A3, 0, 0]).op("ori", &[A4, 0, 0]).op("ori", &[A5, 0, 0]).call(call);
            expect(&mut asm, A0, i64::from(-error), 10 + n as i64);
        }
    }
    // What is mapped is looked at.
    for call in [MINCORE, MSYNC, MUNLOCK] {
        asm.op("or", &[A0, S0, 0]).constant(A1, PAGE).op("ori", &[A2, 0, SYNC]);
        if call == MINCORE {
            asm.address(A2, "vector");
        }
        asm.call(call).expect_equal(A0, 0, 30);
    }
    asm.exit(0).data("vector", &[0]);
    ok(&asm);
}
