//! Any file: the loader refuses it with an error, or loads what then stays inside its memory.
//!
//! An input is either a file as it is, or patches of {place, byte} on a small valid program, so
//! that the checks behind the first ones are reached.
//!
//! Canary: before the first input the valid program must run to its end and its first half must be
//! refused; a loader that accepts everything or nothing is red at once.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_la64::device::{Core, End};
use littoral_la64::{elf, isa};

const MEMORY: u64 = 1 << 20;
const BUDGET: u64 = 200;

static PROGRAM: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let word = |name, operands: &[i64]| {
        isa::encode(isa::find(name).expect("known"), operands).expect("fits")
    };
    let file = elf::executable(0x1_0000, &[word("ori", &[4, 0, 42]), word("jirl", &[0, 1, 0])]);
    let mut core = Core::load(&file, MEMORY).expect("canary: a valid program loads");
    let end = core.run(core.entry(), &[], BUDGET).end;
    assert_eq!(end, End::Done(42), "canary: it runs");
    assert!(Core::load(&file[..file.len() / 2], MEMORY).is_err(), "canary: half of it does not");
    file
});

fn file_of(data: &[u8]) -> Vec<u8> {
    let Some((&kind, rest)) = data.split_first() else { return Vec::new() };
    if kind % 2 == 0 {
        return rest.to_vec();
    }
    let mut file = PROGRAM.clone();
    for patch in rest.chunks_exact(2) {
        let place = usize::from(patch[0]) % file.len();
        file[place] = patch[1];
    }
    file
}

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&PROGRAM);
    let file = file_of(data);
    if let Ok(program) = elf::parse(&file) {
        for s in &program.segments {
            let end = s.offset.checked_add(s.file_len).expect("offsets do not overflow");
            assert!(end <= file.len() as u64, "a segment reads past the file");
            assert!(s.file_len <= s.memory_len, "a segment holds more than its memory");
        }
    }
    if let Ok(mut core) = Core::load(&file, MEMORY) {
        let outcome = core.run(core.entry(), &[], BUDGET);
        assert!(outcome.instructions <= BUDGET, "the budget is kept");
    }
});
