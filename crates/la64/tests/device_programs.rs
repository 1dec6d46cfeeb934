//! Programs on a device core: what a run may change, what it leaves behind, relocations, symbols.

use littoral_la64::asm;
use littoral_la64::device::{Core, End};
use littoral_la64::error::Kind;
use littoral_la64::interp::{Features, Trap};

const PAGE: u64 = 4096;
const A0: i64 = 4;
const A1: i64 = 5;
const T0: i64 = 12;
const T1: i64 = 13;

fn word(mnemonic: &str, operands: &[i64]) -> u32 {
    asm::word(mnemonic, operands).expect("an instruction")
}

fn ret() -> u32 {
    word("jirl", &[0, 1, 0])
}

/// A program header: type, flags (R 4, W 2, X 1), address, bytes, bytes in memory.
struct Part {
    kind: u32,
    flags: u32,
    address: u64,
    bytes: Vec<u8>,
    memory_len: u64,
}

fn load(flags: u32, address: u64, bytes: &[u8]) -> Part {
    Part { kind: 1, flags, address, bytes: bytes.to_vec(), memory_len: bytes.len() as u64 }
}

fn code(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// An ELF file of type 2 (fixed) or 3 (position-independent), entered at `entry`, with global
/// symbols.
fn elf(kind: u16, entry: u64, parts: &[Part], symbols: &[(&str, u64)]) -> Vec<u8> {
    let mut body: Vec<u8> = Vec::new();
    let start = 64 + 56 * parts.len();
    let mut headers = Vec::new();
    for p in parts {
        let offset = (start + body.len()) as u64;
        headers.extend(p.kind.to_le_bytes());
        headers.extend(p.flags.to_le_bytes());
        headers.extend(words(&[
            offset,
            p.address,
            p.address,
            p.bytes.len() as u64,
            p.memory_len,
            PAGE,
        ]));
        body.extend(&p.bytes);
    }
    let (mut names, mut entries) = (vec![0u8], vec![0u8; 24]);
    for &(name, at) in symbols {
        entries.extend((names.len() as u32).to_le_bytes());
        entries.extend([0x12, 0, 1, 0]);
        entries.extend(words(&[at, 4]));
        names.extend(name.bytes().chain([0]));
    }
    let names_at = (start + body.len()) as u64;
    let entries_at = names_at + names.len() as u64;
    let sections_at = entries_at + entries.len() as u64;
    let section = |kind: u32, at: u64, len: usize, link: u32| {
        let mut s = words(&[u64::from(kind) << 32, 0, 0, at, len as u64]);
        s.extend(link.to_le_bytes());
        s.resize(64, 0);
        s
    };
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend(kind.to_le_bytes());
    file.extend(258u16.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    file.extend(words(&[entry, 64, sections_at]));
    file.extend(0x43u32.to_le_bytes());
    for half in [64u16, 56, parts.len() as u16, 64, 3, 0] {
        file.extend(half.to_le_bytes());
    }
    file.extend(headers);
    file.extend(body);
    file.extend(&names);
    file.extend(&entries);
    file.extend(section(0, 0, 0, 0));
    file.extend(section(2, entries_at, entries.len(), 2));
    file.extend(section(3, names_at, names.len(), 0));
    file
}

const TEXT: u64 = 0x1_0000;
const DATA: u64 = 0x2_0000;

/// Code in a read-only segment, `data` in a writable one.
fn program(instructions: &[u32], data: &[u64]) -> Vec<u8> {
    let parts = [load(5, TEXT, &code(instructions)), load(6, DATA, &words(data))];
    elf(2, TEXT, &parts, &[])
}

#[test]
fn a_run_begins_with_the_memory_of_the_file() {
    // Adds one to the word at a0 and returns it.
    let count = [
        word("ld.d", &[T0, A0, 0]),
        word("addi.d", &[T0, T0, 1]),
        word("st.d", &[T0, A0, 0]),
        word("or", &[A0, T0, 0]),
        ret(),
    ];
    let mut core = Core::load(&program(&count, &[41]), 1 << 20).unwrap();
    for at in [DATA, core.heap() + 8 * PAGE, (1 << 20) - 64] {
        let first = core.run(core.entry(), &[at], 100);
        assert!(matches!(first.end, End::Done(1 | 42)), "{first:?}");
        for _ in 0..3 {
            assert_eq!(core.run(core.entry(), &[at], 100), first, "word at {at:#x}");
        }
    }
}

#[test]
fn what_a_run_stored_can_be_read_until_the_next_one() {
    let put = [word("st.d", &[A1, A0, 0]), ret()];
    let mut core = Core::load(&program(&put, &[5]), 1 << 20).unwrap();
    let at = core.heap();
    core.write(at, &7u64.to_le_bytes()).unwrap();
    let read = |core: &Core, at| {
        let mut bytes = [0; 8];
        core.read(at, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    };
    assert_eq!(core.run(core.entry(), &[at, 9], 10).end, End::Done(at));
    assert_eq!(read(&core, at), 9);
    core.write(at + 8, &1u64.to_le_bytes()).unwrap();
    assert_eq!((read(&core, at), read(&core, at + 8)), (7, 1), "the owner's words are back");
}

#[test]
fn code_and_constants_cannot_be_stored_to() {
    let put = [word("st.d", &[A1, A0, 0]), ret()];
    let parts = [
        load(4, TEXT - PAGE, &words(&[1, 2])),
        load(5, TEXT, &code(&put)),
        load(6, DATA, &words(&[5])),
    ];
    let mut core = Core::load(&elf(2, TEXT, &parts, &[]), 1 << 20).unwrap();
    for at in [TEXT - PAGE, TEXT + 4, DATA - PAGE * 15 - 4, 0, 8] {
        let outcome = core.run(core.entry(), &[at, 1], 10);
        assert_eq!(outcome.end, End::Trap { trap: Trap::Store(at), pc: TEXT }, "{at:#x}");
        assert_eq!(outcome.instructions, 0);
    }
    for at in [DATA, DATA - PAGE, core.heap(), (1 << 20) - 8] {
        assert_eq!(core.run(core.entry(), &[at, 1], 10).end, End::Done(at), "{at:#x}");
    }
}

#[test]
fn code_that_changes_itself_starts_again_as_it_was() {
    // Code in a segment with all rights: the constant it returns is one more in its own text.
    let own = [
        word("pcaddi", &[T0, 5]),
        word("ld.w", &[T1, T0, 0]),
        word("addi.d", &[T1, T1, 1024]),
        word("st.w", &[T1, T0, 0]),
        word("ibar", &[0]),
        word("ori", &[A0, 0, 6]),
        ret(),
    ];
    let file = elf(2, TEXT, &[load(7, TEXT, &code(&own))], &[]);
    let mut core = Core::load(&file, 1 << 20).unwrap();
    for _ in 0..3 {
        assert_eq!(core.run(core.entry(), &[], 100).end, End::Done(7));
    }
    // The owner replaces code: blocks of the old one are gone.
    let other = code(&[word("ori", &[A0, 0, 99]), ret()]);
    core.write(TEXT, &other).unwrap();
    assert_eq!(core.run(core.entry(), &[], 100).end, End::Done(99));
}

/// Returns the sum of what the two pointers at `DATA` point to, and calls nothing.
fn sum_through_pointers() -> Vec<u32> {
    // 0x1000 bytes lie between the text and the pointers.
    vec![
        word("pcaddu12i", &[T0, 1]),
        word("ld.d", &[T1, T0, 0]),
        word("ld.d", &[A0, T1, 0]),
        word("ld.d", &[T1, T0, 8]),
        word("ld.d", &[T1, T1, 0]),
        word("add.d", &[A0, A0, T1]),
        ret(),
    ]
}

/// A position-independent program: text at 0x1000, at 0x2000 two pointers and the words they point
/// to, at 0x3000 a dynamic section and `table`, which `tags` describe.
fn independent(pointers: [u64; 2], tags: &[(u64, u64)], table: &[u64]) -> Vec<u8> {
    let data = words(&[pointers[0], pointers[1], 40, 2]);
    let dynamic = tags.iter().flat_map(|&(t, v)| [t, v]).chain([0, 0]).collect::<Vec<_>>();
    let mut rest = words(&dynamic);
    rest.resize(0x100, 0);
    rest.extend(words(table));
    let parts = [
        load(5, 0x1000, &code(&sum_through_pointers())),
        load(6, 0x2000, &data),
        load(4, 0x3000, &rest),
        Part { kind: 2, ..load(4, 0x3000, &rest) },
    ];
    elf(3, 0x1000, &parts, &[("sum", 0x1000), ("words", 0x2010)])
}

#[test]
fn position_independent_programs_are_relocated() {
    let rela = [0x2000, 3, 0x2010, 0x2008, 3, 0x2018];
    let file = independent([0, 0], &[(7, 0x3100), (8, 48), (9, 24)], &rela);
    let mut core = Core::load(&file, 1 << 20).unwrap();
    let sum = core.symbol("sum").unwrap();
    assert_eq!((sum, core.symbol("nothing")), (core.entry(), None));
    assert_eq!(core.run(sum, &[], 100).end, End::Done(42));
    // The same through DT_JMPREL, and packed: an address and a bitmap of the word behind it.
    let file = independent([0, 0], &[(23, 0x3100), (2, 48)], &rela);
    assert_eq!(Core::load(&file, 1 << 20).unwrap().run(sum, &[], 100).end, End::Done(42));
    let file = independent([0x2010, 0x2018], &[(36, 0x3100), (35, 16), (37, 8)], &[0x2000, 0b11]);
    assert_eq!(Core::load(&file, 1 << 20).unwrap().run(sum, &[], 100).end, End::Done(42));
}

#[test]
fn other_relocations_are_refused_by_name() {
    let refused = |tags: &[(u64, u64)], table: &[u64]| {
        let error = Core::load(&independent([0, 0], tags, table), 1 << 20).unwrap_err();
        assert_eq!(error.kind(), Kind::BadElf);
        error.to_string()
    };
    let tags = [(7, 0x3100), (8, 24)];
    for (kind, name) in
        [(2, "R_LARCH_64"), (5, "R_LARCH_JUMP_SLOT"), (12, "R_LARCH_IRELATIVE"), (77, "type 77")]
    {
        let text = refused(&tags, &[0x2000, kind, 0]);
        assert!(text.contains(name) && text.contains("0x2000"), "{text}");
    }
    assert!(refused(&tags, &[0x9000, 3, 0]).contains("outside the segments"));
    assert!(refused(&tags, &[u64::MAX - 3, 3, 0]).contains("outside the segments"));
    assert!(refused(&[(7, 0x3100), (8, 1 << 40)], &[]).contains("outside the segments"));
    assert!(refused(&[(7, 0x2f00), (8, 24)], &[]).contains("outside the segments"));
    assert!(refused(&[(36, 0x3100), (35, 8)], &[0x9000]).contains("outside the segments"));
    assert!(refused(&[(1, 3)], &[]).contains("shared library"));
    assert!(refused(&[(17, 0x3100)], &[]).contains("DT_REL"));
}

#[test]
fn functions_are_found_by_name() {
    let two = [word("ori", &[A0, 0, 1]), ret(), word("ori", &[A0, 0, 2]), ret()];
    let names = [("first", TEXT), ("second", TEXT + 8)];
    let file = elf(2, TEXT, &[load(5, TEXT, &code(&two))], &names);
    let mut core = Core::load(&file, 1 << 20).unwrap();
    assert_eq!(core.symbols().collect::<Vec<_>>(), names);
    for (n, (name, at)) in (1..).zip(names) {
        assert_eq!(core.symbol(name), Some(at));
        assert_eq!(core.run(at, &[], 10).end, End::Done(n));
    }
    // Each byte of the tables damaged: a refusal, or symbols that stay harmless.
    for at in 0..file.len() {
        let mut bad = file.clone();
        bad[at] ^= 0x41;
        let _ = Core::load(&bad, 1 << 20).map(|c| c.symbols().count());
    }
}

/// A small file must not take large memory or long time: a name may stand once for many symbols,
/// and each page is looked up among all segments.
#[test]
fn names_that_symbols_share_are_bounded() {
    let long = "x".repeat(4000);
    let names = |others| std::iter::once((long.as_str(), TEXT)).chain(vec![("y", TEXT); others]);
    let file = |others| {
        let names = names(others).collect::<Vec<_>>();
        let mut file = elf(2, TEXT, &[load(5, TEXT, &code(&[ret()]))], &names);
        // Every symbol has the first one's name.
        let entries = file.len() - 3 * 64 - 24 * names.len();
        for n in 0..names.len() {
            file[entries + 24 * n..][..4].copy_from_slice(&1u32.to_le_bytes());
        }
        file
    };
    let core = Core::load(&file(2), 1 << 20).unwrap();
    assert_eq!(core.symbols().collect::<Vec<_>>(), [(long.as_str(), TEXT)]);
    let error = Core::load(&file(999), 1 << 20).unwrap_err();
    assert_eq!(error.kind(), Kind::BadElf);
    assert!(error.to_string().contains("names are longer"), "{error}");
}

#[test]
fn a_program_of_many_segments_is_refused() {
    let part = |n: u64| load(5, TEXT + 16 * n, &code(&[ret()]));
    let of = |count| elf(2, TEXT, &(0..count).map(part).collect::<Vec<_>>(), &[]);
    let mut core = Core::load(&of(64), 1 << 20).unwrap();
    assert_eq!(core.run(TEXT + 16 * 63, &[7], 10).end, End::Done(7));
    let error = Core::load(&of(65), 1 << 20).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory);
    assert!(error.to_string().contains("65 segments"), "{error}");
}

#[test]
fn a_core_announces_what_it_was_loaded_for() {
    let vector = word("vadd.b", &[0, 0, 0]);
    let file = elf(2, TEXT, &[load(5, TEXT, &code(&[vector, ret()]))], &[]);
    let plain = Features { lsx: false, lasx: false, lbt: false, v1_1: false };
    let mut core = Core::load_for(&file, 1 << 20, plain).unwrap();
    let end = core.run(core.entry(), &[3], 10).end;
    assert_eq!(end, End::Trap { trap: Trap::Illegal(vector), pc: TEXT });
    let mut core = Core::load(&file, 1 << 20).unwrap();
    assert_eq!(core.run(core.entry(), &[3], 10).end, End::Done(3));
}

#[test]
fn the_owner_can_answer_a_system_call() {
    let ask = [word("syscall", &[0]), word("ld.d", &[A0, A0, 0]), ret()];
    let mut core = Core::load(&program(&ask, &[5]), 1 << 20).unwrap();
    for answer in [17u64, 18] {
        let asked = core.run(core.entry(), &[DATA], 10);
        assert!(matches!(asked.end, End::Trap { trap: Trap::Syscall, .. }), "{asked:?}");
        assert_eq!(core.store(TEXT, &[0; 4]), None, "not where the program could not");
        core.store(DATA + 16, &answer.to_le_bytes()).unwrap();
        core.state_mut().x[4] = DATA + 16;
        assert_eq!(core.resume(10).end, End::Done(answer));
    }
    core.run(core.entry(), &[DATA], 10);
    let mut bytes = [1; 8];
    core.read(DATA + 16, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 8], "an answer lasts for its run");
}
