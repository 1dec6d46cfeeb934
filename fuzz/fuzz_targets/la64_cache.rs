//! Any file of the cache on disk: it is refused or taken, and its records are whole or not; nothing
//! of it is run.
//!
//! An input is edits of a file that an engine wrote, with the checksum as it then is or made right,
//! so that the checks behind it are reached. `{where u16, byte}` edits follow a first byte whose
//! lowest bit says so.
//!
//! Canary: before the first input the file must be taken with its records whole, and be refused
//! with a byte changed.

#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use littoral_base::codec::crc;
use littoral_fuzz::edited;
use littoral_la64::asm::word;
use littoral_la64::bare::Bare;
use littoral_la64::interp::{Identity, Maker, Refused, Store, Tier, Trap};

/// Above 4 GiB: code that relies on a short address is not kept.
const HOME: u64 = 5 << 30;
const FILE_LEN_MAX: usize = 1 << 20;

static WHOLE: LazyLock<(Maker, Vec<u8>)> = LazyLock::new(|| {
    let lines: &[(&str, &[i64])] = &[
        ("pcaddi", &[12, 3]),
        ("bl", &[24]),
        ("ld.d", &[13, 4, 0]),
        ("fdiv.d", &[1, 0, 0]),
        ("bitrev.w", &[17, 16]),
        ("bnez", &[13, -20]),
        ("break", &[0]),
        ("jirl", &[0, 1, 0]),
    ];
    let words = lines.iter().map(|(name, operands)| word(name, operands).expect("a word"));
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    let mut core = Bare::between_refusals(Tier::default(), 6 << 30).expect("memory");
    core.write(HOME, &bytes).expect("inside");
    let maker = core.maker().expect("a translator");
    let store = Arc::new(Store::new(maker, FILE_LEN_MAX));
    store.add(identity(), None);
    core.keep_code(&store, 0, HOME);
    core.state_mut().pc = HOME;
    assert_eq!(core.run(10_000), Trap::Break(0));
    let file = store.file(0, None);
    let (refused, whole) = look(maker, file.clone());
    assert!(refused.is_none() && whole > 2, "canary: the file is taken");
    for at in [100, file.len() / 2, file.len() - 1] {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        assert_eq!(look(maker, damaged).0, Some(Refused::Damaged), "canary: damage");
    }
    (maker, file)
});

fn identity() -> Identity {
    Identity::of_build_id(b"a program")
}

/// Why a file is refused, and how many of its records are whole.
fn look(maker: Maker, file: Vec<u8>) -> (Option<Refused>, usize) {
    let store = Store::new(maker, FILE_LEN_MAX);
    let refused = store.add(identity(), Some(file.clone())).1;
    let whole = store.whole_records(0);
    let again = store.file(0, Some(file));
    assert!(again.len() <= FILE_LEN_MAX);
    assert!(refused.is_none() || whole == 0 && again.len() == 104, "a refused file is none");
    (refused, whole)
}

fuzz_target!(|data: &[u8]| {
    let (maker, file) = &*WHOLE;
    let Some((first, edits)) = data.split_first() else { return };
    let mut file = edited(file, edits);
    if first & 1 == 1 {
        let sum = crc(&file[16..]);
        file[12..16].copy_from_slice(&sum.to_le_bytes());
    }
    look(*maker, file);
});
