//! Code kept between processes: what another engine reads, elsewhere in the guest's memory, does
//! what the interpreter does; what is damaged, foreign or of other instructions is not used.
#![cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]

use littoral_base::codec::crc;
use littoral_la64::asm::word;
use littoral_la64::bare::Bare;
use littoral_la64::interp::{Identity, Maker, Refused, Store, Tier, Trap};
use std::sync::Arc;

/// Programs are above 4 GiB: code that relies on a short address is not kept.
const LEN: u64 = 12 << 30;
const HOME: u64 = 5 << 30;
const ELSEWHERE: u64 = (9 << 30) + 0x7000;
/// Where the program is in its file.
const OFFSET: u64 = 0x1000;
const DATA: u64 = 0x4000;
const FILE_LEN_MAX: usize = 1 << 20;
/// A file without blocks.
const EMPTY_LEN: usize = 104;

fn identity() -> Identity {
    Identity::of_build_id(&[7; 20])
}

/// Calls, returns, a loop with registers of its own, addresses relative to the program, accesses
/// that take their slow ways, instructions of tier 0, floating point that is invalid.
fn program() -> Vec<u32> {
    let lines: &[(&str, &[i64])] = &[
        ("pcaddu12i", &[12, 0]),
        ("addi.d", &[13, 12, 64]),
        ("st.d", &[13, 4, 0]),
        ("pcalau12i", &[14, 1]),
        ("st.d", &[14, 4, 8]),
        // The second call finds the function's code in its place.
        ("bl", &[68]),
        ("bl", &[64]),
        ("addi.d", &[5, 0, 200]),
        // The loop.
        ("ld.d", &[15, 4, 16]),
        ("add.d", &[16, 16, 15]),
        ("st.d", &[16, 4, 24]),
        ("addi.d", &[5, 5, -1]),
        ("bnez", &[5, -16]),
        ("bitrev.w", &[17, 16]),
        ("crc.w.b.w", &[18, 17, 16]),
        ("movgr2fr.d", &[0, 0]),
        ("fdiv.d", &[1, 0, 0]),
        ("fmul.d", &[2, 1, 1]),
        ("vadd.d", &[3, 1, 2]),
        ("ld.d", &[19, 20, 0]),
        ("pcaddi", &[21, 2]),
        ("break", &[0]),
        // The function: through a register that holds an address of the program.
        ("addi.d", &[6, 6, 1]),
        ("beqz", &[7, 8]),
        ("addi.d", &[6, 6, 5]),
        ("pcaddi", &[23, 3]),
        ("jirl", &[0, 23, 0]),
        ("addi.d", &[6, 6, 100]),
        ("jirl", &[0, 1, 0]),
    ];
    lines.iter().map(|(name, operands)| word(name, operands).expect(name)).collect()
}

fn core(tier: Tier, start: u64, code: &[u32]) -> Bare {
    let mut core = Bare::between_refusals(tier, LEN).expect("memory");
    let bytes: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
    core.write(start + OFFSET, &bytes).expect("inside");
    core.may_write_code(false);
    core
}

/// Runs the program from its beginning to its end with `wild` as an address.
fn run(core: &mut Bare, start: u64, wild: u64) -> Trap {
    let state = core.state_mut();
    let count = state.instructions;
    *state = Default::default();
    state.instructions = count;
    state.pc = start + OFFSET;
    state.x[4] = DATA;
    state.x[20] = wild;
    core.write(DATA, &[3; 32]).expect("inside");
    core.run(100_000)
}

fn maker() -> Maker {
    core(Tier::Blocks, HOME, &[]).maker().expect("a translator")
}

fn store(maker: Maker, bytes: Option<Vec<u8>>) -> (Arc<Store>, Option<Refused>) {
    let store = Store::new(maker, FILE_LEN_MAX);
    let (number, refused) = store.add(identity(), bytes);
    assert_eq!(number, 0);
    (Arc::new(store), refused)
}

/// The file that a process leaves which ran the program.
fn made() -> Vec<u8> {
    let (kept, _) = store(maker(), None);
    let mut core = core(Tier::Blocks, HOME, &program());
    core.keep_code(&kept, 0, HOME);
    for wild in [DATA, 1 << 60] {
        run(&mut core, HOME, wild);
    }
    assert!(core.blocks_read() == 0 && core.translations() > 4 && !kept.grown().is_empty());
    kept.file(0, None)
}

/// Runs the program at `start` on the interpreter and on code from a store: blocks read, and
/// translated.
fn compare(kept: &Arc<Store>, start: u64, code: &[u32]) -> (u64, u64) {
    let mut cores = [Tier::Interpreter, Tier::Blocks].map(|tier| core(tier, start, code));
    cores[1].keep_code(kept, 0, start);
    for wild in [DATA, 1 << 60, LEN + 16] {
        let traps = cores.each_mut().map(|core| run(core, start, wild));
        assert_eq!(traps[0], traps[1], "{wild:x}");
        let [first, second] = cores.each_ref().map(|core| {
            let mut state = core.state().clone();
            state.fcsr &= !littoral_la64::state::fcsr::CAUSE;
            let mut bytes = [0; 32];
            core.read(DATA, &mut bytes).expect("inside");
            (state, bytes)
        });
        assert_eq!(first, second, "{wild:x}");
    }
    (cores[1].blocks_read(), cores[1].translations())
}

#[test]
fn code_that_was_kept_does_elsewhere_what_the_interpreter_does() {
    let file = made();
    for start in [HOME, ELSEWHERE, 0x10_0000] {
        let (kept, refused) = store(maker(), Some(file.clone()));
        assert_eq!(refused, None);
        let (read, translated) = compare(&kept, start, &program());
        assert!(read > 4 && translated <= 2, "at {start:x}: {read} read, {translated} translated");
    }
}

/// How great the address of an instruction is holds only where the code was made: code that moves
/// checks an access at such an address and another register.
#[test]
fn an_address_that_moves_bounds_no_access() {
    const SLACK: u64 = 6 << 30;
    let lines: &[(&str, &[i64])] =
        &[("ld.d", &[12, 20, 0]), ("pcaddi", &[13, 1]), ("ldx.d", &[14, 13, 20]), ("break", &[0])];
    let words = lines.iter().map(|(name, operands)| word(name, operands).expect(name));
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    let core = |tier: Tier, start: u64| {
        let mut core = Bare::between(tier, LEN, SLACK).expect("memory");
        core.write(start + OFFSET, &bytes).expect("inside");
        core.may_write_code(false);
        core
    };
    let mut first = core(Tier::Blocks, HOME);
    let maker = first.maker().expect("a translator");
    let (kept, _) = store(maker, None);
    first.keep_code(&kept, 0, HOME);
    assert_eq!(run(&mut first, HOME, DATA), Trap::Break(0));
    let (kept, refused) = store(maker, Some(kept.file(0, None)));
    assert_eq!(refused, None);
    // The sum is in the memory behind the bytes that refuse accesses.
    let wild = LEN + SLACK + 0x1000 - (ELSEWHERE + OFFSET + 8);
    let mut cores = [Tier::Interpreter, Tier::Blocks].map(|tier| core(tier, ELSEWHERE));
    cores[1].keep_code(&kept, 0, ELSEWHERE);
    let traps = cores.each_mut().map(|core| run(core, ELSEWHERE, wild));
    assert_eq!(traps[0], traps[1]);
    assert!(cores[1].blocks_read() > 0, "the code was adopted");
}

/// Words of the blocks below from the beginning of their program.
const FIRST: u64 = 0;
const DECOY: u64 = 2;
const BRANCHES: u64 = 4;
const CALLS: u64 = 7;
const RECURS: u64 = 9;

/// A block, another of the same length, two that lead to the first one, and one that calls itself.
fn linked_program() -> Vec<u32> {
    let lines: &[(&str, &[i64])] = &[
        ("addi.d", &[6, 6, 1]),
        ("break", &[0]),
        ("addi.d", &[6, 6, 1000]),
        ("break", &[0]),
        ("addi.d", &[6, 6, 10]),
        ("bnez", &[7, -20]),
        ("break", &[0]),
        ("addi.d", &[6, 6, 20]),
        ("bl", &[-32]),
        ("addi.d", &[5, 5, -1]),
        ("addi.d", &[6, 6, 100]),
        ("beqz", &[5, 8]),
        ("bl", &[-12]),
        ("break", &[0]),
    ];
    lines.iter().map(|(name, operands)| word(name, operands).expect(name)).collect()
}

/// Runs a block of the program of links until it breaks; what it added, and where it ended.
fn run_block(core: &mut Bare, start: u64, block: u64) -> (u64, u64) {
    let state = core.state_mut();
    state.pc = start + OFFSET + 4 * block;
    (state.x[5], state.x[6], state.x[7]) = (3, 0, 1);
    core.run(1000);
    (core.state().x[6], (core.state().pc - start - OFFSET) / 4)
}

/// A block that is translated behind those that it leads to is linked at once. What is kept of it
/// must not lead to where those blocks were: the second engine has other code there.
#[test]
fn links_to_other_blocks_are_not_kept_and_links_to_itself_are() {
    let (kept, _) = store(maker(), None);
    let mut first = core(Tier::Blocks, HOME, &linked_program());
    first.keep_code(&kept, 0, HOME);
    let runs = [FIRST, BRANCHES, CALLS, RECURS].map(|block| run_block(&mut first, HOME, block));
    assert_eq!((runs, first.blocks_read()), ([(1, 1), (11, 1), (21, 1), (300, 13)], 0));
    for start in [HOME, ELSEWHERE] {
        let (kept, refused) = store(maker(), Some(kept.file(0, None)));
        assert_eq!(refused, None);
        let mut second = core(Tier::Blocks, start, &linked_program());
        second.keep_code(&kept, 0, start);
        assert_eq!(run_block(&mut second, start, DECOY), (1000, 3));
        assert_eq!((second.blocks_read(), second.translations()), (0, 1), "it has its place");
        for (block, wanted) in [BRANCHES, CALLS, RECURS, FIRST].into_iter().zip([1, 2, 3, 0]) {
            assert_eq!(run_block(&mut second, start, block), runs[wanted], "{start:x}, {block}");
        }
        assert!(second.blocks_read() >= 4, "{} read", second.blocks_read());
    }
}

/// Blocks of an image lead to each other from the beginning: control leaves for the dispatch loop
/// where it did so because nothing was linked, and nowhere else.
#[test]
fn blocks_of_an_image_are_linked() {
    let (kept, refused) = store(maker(), Some(made()));
    assert_eq!(refused, None);
    let exits = |core: &mut Bare| {
        let before = core.exits();
        run(core, HOME, DATA);
        core.exits() - before
    };
    let [mut with, mut without] = [(); 2].map(|()| core(Tier::Blocks, HOME, &program()));
    with.keep_code(&kept, 0, HOME);
    let [first, second] = [exits(&mut with), exits(&mut with)];
    let [cold, warm] = [exits(&mut without), exits(&mut without)];
    assert_eq!(second, warm);
    assert!(first <= warm + 1 && cold > warm + 3, "{first} and {warm}, {cold} without");
    assert!(with.blocks_read() > 4 && with.translations() == 0);
}

/// Two programs with one identity, as files whose build-id lies: each runs its own instructions.
#[test]
fn two_programs_of_one_identity_stay_apart() {
    let mut other = program();
    other[9] = word("sub.d", &[16, 16, 15]).unwrap();
    other[27] = word("addi.d", &[6, 6, 77]).unwrap();
    let mut file = made();
    for _ in 0..2 {
        for code in [&other, &program()] {
            let (kept, refused) = store(maker(), Some(file));
            assert_eq!(refused, None);
            compare(&kept, HOME, code);
            file = kept.file(0, None);
        }
    }
}

#[test]
fn a_program_that_was_replaced_runs_its_own_instructions() {
    let mut code = program();
    // Another constant, in a block that is otherwise the same.
    code[27] = word("addi.d", &[6, 6, 77]).unwrap();
    code[9] = word("sub.d", &[16, 16, 15]).unwrap();
    let (kept, _) = store(maker(), Some(made()));
    let (read, translated) = compare(&kept, HOME, &code);
    assert!(read > 0 && translated >= 2, "{read} read, {translated} translated");
}

#[test]
fn a_file_damaged_anywhere_is_refused() {
    let file = made();
    for at in (0..file.len()).step_by(64).chain(0..128) {
        for bit in [1, 0x80] {
            let mut damaged = file.clone();
            damaged[at] ^= bit;
            let (kept, refused) = store(maker(), Some(damaged));
            assert!(refused.is_some(), "byte {at}");
            assert_eq!(kept.file(0, None).len(), EMPTY_LEN, "byte {at}: nothing was taken");
        }
    }
    let at = file.len() / 64 * 32;
    let mut damaged = file;
    damaged[at] ^= 0x10;
    let (kept, _) = store(maker(), Some(damaged));
    assert_eq!(compare(&kept, HOME, &program()).0, 0);
}

#[test]
fn a_file_of_any_other_length_is_refused() {
    let file = made();
    for len in (0..file.len()).step_by(61).chain(0..100) {
        assert!(store(maker(), Some(file[..len].to_vec())).1.is_some(), "{len}");
    }
    let longer = [&file[..], &[0; 64]].concat();
    assert_eq!(store(maker(), Some(longer)).1, Some(Refused::Damaged));
    assert_eq!(store(maker(), Some(file)).1, None);
}

fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    let sum = crc(&file[16..]);
    file[12..16].copy_from_slice(&sum.to_le_bytes());
    file
}

#[test]
fn files_of_others_are_refused() {
    let file = made();
    let this = maker();
    let other_engine = Maker { revision: this.revision ^ 1, ..this };
    let other_host = Maker { host: this.host ^ 1, ..this };
    for maker in [other_engine, other_host] {
        let (kept, refused) = store(maker, Some(file.clone()));
        assert_eq!(refused, Some(Refused::Foreign));
        assert_eq!(compare(&kept, HOME, &program()).0, 0);
    }
    // Another guest file, and another version.
    let elsewhere = Store::new(this, FILE_LEN_MAX);
    let refused = elsewhere.add(Identity::of_build_id(&[8; 20]), Some(file.clone())).1;
    assert_eq!(refused, Some(Refused::Foreign));
    let mut newer = file;
    newer[8] += 1;
    assert_eq!(store(this, Some(newer)).1, Some(Refused::Foreign));
}

#[test]
fn a_file_with_any_bytes_behind_a_right_checksum_is_read() {
    let file = made();
    let mut taken = 0;
    for at in (64..file.len()).step_by(3) {
        for value in [0, 0x7f, 0xff] {
            let mut hostile = file.clone();
            hostile[at..(at + 4).min(file.len())].fill(value);
            let (kept, refused) = store(maker(), Some(sealed(hostile)));
            assert!(matches!(refused, None | Some(Refused::Damaged)));
            taken += u32::from(refused.is_none());
            assert!(kept.file(0, None).len() <= FILE_LEN_MAX);
            assert!(kept.whole_records(0) <= file.len());
        }
    }
    assert!(taken > 100, "{taken}");
}

#[test]
fn a_file_that_is_full_takes_no_more_and_stays_right() {
    let whole = made().len();
    for file_len_max in [0, 80, 400, whole / 2, whole - 1] {
        let kept = Arc::new(Store::new(maker(), file_len_max));
        kept.add(identity(), None);
        compare(&kept, HOME, &program());
        let file = kept.file(0, None);
        assert!(file.len() <= file_len_max.max(EMPTY_LEN), "{} of {file_len_max}", file.len());
        let (kept, refused) = store(maker(), Some(file));
        assert_eq!(refused, None);
        compare(&kept, HOME, &program());
    }
}

#[test]
fn two_files_of_one_program_become_one() {
    let whole = made();
    let parts = [13, 22].map(|first| {
        let (kept, _) = store(maker(), None);
        let mut core = core(Tier::Blocks, HOME, &program());
        core.keep_code(&kept, 0, HOME);
        core.state_mut().x[4] = DATA;
        core.state_mut().pc = HOME + OFFSET + 4 * first;
        core.run(1000);
        kept
    });
    let first = parts[0].file(0, None);
    let both = parts[1].file(0, Some(first.clone()));
    assert!(both.len() > first.len() && both.len() <= whole.len() + 4096);
    assert_eq!(parts[1].file(0, Some(vec![1; 500])), parts[1].file(0, None));
    let (kept, refused) = store(maker(), Some(both));
    assert_eq!(refused, None);
    assert!(compare(&kept, HOME, &program()).0 > 1);
    // What a parent writes its child does not.
    parts[0].forget_made();
    assert!(parts[0].grown().is_empty());
}
