//! Whatever bytes a guest has for code: the translator makes a region of them, or says what cannot
//! be fetched. It never panics and never writes more words than it asked room for.

use littoral_xlate::x86::{Conventions, WORDS_MAX, translate};

const AT: u64 = 0x1000;
const BASE: u64 = 0x200_0000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn one_of(&mut self, from: &[u8]) -> u8 {
        from[(self.next() % from.len() as u64) as usize]
    }
}

/// Words of the region at `AT` of a memory that begins there.
fn words(code: &[u8], conventions: Conventions) -> usize {
    let fetch = |at: u64, bytes: &mut [u8]| {
        let rest = code.get(at.wrapping_sub(AT) as usize..).unwrap_or_default();
        let len = rest.len().min(bytes.len());
        bytes[..len].copy_from_slice(&rest[..len]);
        len
    };
    translate(AT, BASE, conventions, &fetch).map_or(0, |region| region.words.len())
}

fn conventions() -> [Conventions; 7] {
    let bools = [false, true];
    let all = bools.map(|abi_calls| {
        bools.map(|lazy_faults| Conventions { abi_calls, lazy_faults, ..Conventions::default() })
    });
    let [[a, b], [c, d]] = all;
    [a, b, c, d, PLAIN, SINGLE, FLUSHING]
}

const PLAIN: Conventions = Conventions {
    abi_calls: false,
    lazy_faults: false,
    ordered: true,
    counts: false,
    without_lbt: true,
    flushes: false,
    short_regions: false,
    single: false,
};

/// As for a program that steps.
const SINGLE: Conventions = Conventions { without_lbt: false, single: true, ..PLAIN };

/// As for a program that has denormal numbers count as zeros.
const FLUSHING: Conventions = Conventions { flushes: true, ..PLAIN };

#[test]
fn any_bytes_have_a_region() {
    const PREFIXES: [u8; 9] = [0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x64, 0x65, 0x48, 0x4f];
    let mut random = Random(0x5eed);
    let mut translated = 0;
    for _ in 0..60_000 {
        let mut code: Vec<u8> = (0..random.next() % 4).map(|_| random.one_of(&PREFIXES)).collect();
        if random.next().is_multiple_of(2) {
            code.push(0x0f);
            if random.next().is_multiple_of(3) {
                code.push(random.one_of(&[0x38, 0x3a]));
            }
        }
        code.extend((0..24).map(|_| random.next() as u8));
        for conventions in conventions() {
            translated += usize::from(words(&code, conventions) > 0);
        }
    }
    assert!(translated > 100_000, "{translated}");
}

#[test]
fn the_longest_addresses_leave_registers_enough() {
    // lock, 32-bit address, fs, each kind of operand: base, index and displacement.
    for prefixes in [&[0x64, 0x67, 0xf0][..], &[0x66, 0x64, 0x67, 0xf0], &[0x65, 0x67, 0xf0, 0x48]]
    {
        for opcode in 0..=0xffu8 {
            for reg in 0..8u8 {
                for escape in [&[][..], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]] {
                    let mut code = [prefixes, escape].concat();
                    let modrm = 0x84 | reg << 3;
                    code.extend([opcode, modrm, 0x8b, 0x45, 0x23, 1, 0, 0x11, 0, 0, 0]);
                    let with = code.clone();
                    code.remove(prefixes.iter().position(|&b| b == 0xf0).expect("lock"));
                    for conventions in [Conventions::default(), PLAIN, SINGLE, FLUSHING] {
                        words(&with, conventions);
                        words(&code, conventions);
                    }
                }
            }
        }
    }
}

#[test]
fn comparisons_at_long_addresses_leave_registers_enough() {
    // sub of a number from memory at rax + 4 * rcx + 0x12345, in each size; sub of memory from ah;
    // sub of ah from ah.
    const COMPARISONS: [&[u8]; 6] = [
        &[0x80, 0xac, 0x88, 0x45, 0x23, 1, 0, 5],
        &[0x66, 0x83, 0xac, 0x88, 0x45, 0x23, 1, 0, 5],
        &[0x83, 0xac, 0x88, 0x45, 0x23, 1, 0, 5],
        &[0x48, 0x83, 0xac, 0x88, 0x45, 0x23, 1, 0, 5],
        &[0x2a, 0xa4, 0x88, 0x45, 0x23, 1, 0],
        &[0x28, 0xe4],
    ];
    for comparison in COMPARISONS {
        for condition in 0..16u8 {
            // cmov of esi and edi, of si and di; setcc of bh.
            let (cmov, set) = (0x40 | condition, 0x90 | condition);
            for reader in [&[0x0f, cmov, 0xf7][..], &[0x66, 0x0f, cmov, 0xf7], &[0x0f, set, 0xc7]] {
                // xor edx, edx sets the flags again; ret.
                let code = [comparison, reader, &[0x31, 0xd2, 0xc3]].concat();
                for conventions in conventions() {
                    assert!(words(&code, conventions) > 0, "{code:x?}");
                }
            }
        }
    }
}

#[test]
fn overlapping_instructions_do_not_multiply_code() {
    // Jumps to every byte of a long nop, behind which a division and many long instructions stand.
    let mut code = Vec::new();
    let jumps = 14;
    for n in 0..jumps {
        let end = 2 * (n + 1);
        code.extend([0x74, 2 * jumps - end + n + 1]);
    }
    code.extend([0x66; 14]);
    code.push(0x90);
    code.extend([0xf6, 0xf1]);
    for _ in 0..270 {
        code.extend([0xc8, 0, 0, 31]);
    }
    code.push(0xc3);
    for conventions in conventions() {
        let words = words(&code, conventions);
        assert!((1..=WORDS_MAX).contains(&words), "{words} words");
    }
}
