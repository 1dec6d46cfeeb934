//! What translating a guest instruction takes: a program that runs through many blocks once, and
//! once more. The second pass runs the code of the first, so the difference is decoding,
//! translating and linking.
//!
//! The guest reads its own CPU time before, between and after the passes; how much was translated
//! `--stats` says.

use littoral_la64::asm::word;
use littoral_la64::elf;

use super::{Found, Tools, tools};
use littoral_bench::repro::missing;

/// Where the program is loaded, and where its memory is.
const AT: u64 = 0x20_0000;
const DATA: u64 = 0x40_0000;
/// Blocks of a pass.
const BLOCKS: usize = 6_000;
/// Bytes of the three times.
const TIMES_BYTES: i64 = 48;

const RA: i64 = 1;
const A0: i64 = 4;
const A1: i64 = 5;
const A2: i64 = 6;
const A7: i64 = 11;
const T0: i64 = 12;
const T1: i64 = 13;
const T2: i64 = 14;
const S0: i64 = 23;
const S1: i64 = 24;
const S2: i64 = 25;
const S3: i64 = 26;

/// A block as compilers emit for work on an array; `n` varies its immediates.
fn block(n: i64) -> Vec<u32> {
    let at = 8 * (n % 200);
    let list: [(&str, &[i64]); 16] = [
        ("ld.d", &[T0, S0, at]),
        ("slli.d", &[T1, T0, 1 + n % 60]),
        ("add.d", &[T1, T1, S1]),
        ("xor", &[T2, T1, T0]),
        ("ld.w", &[A0, S0, at + 4]),
        ("mul.d", &[A0, A0, T2]),
        ("andi", &[A1, A0, n % 4096]),
        ("bltu", &[0, 0, 16]),
        ("sltu", &[A2, A1, T0]),
        ("add.d", &[S1, S1, A2]),
        ("bstrpick.d", &[T1, S1, 40, 8]),
        ("addi.w", &[T2, T1, n % 2048]),
        ("srai.d", &[T0, T2, 3]),
        ("st.d", &[S1, S0, at]),
        ("sub.d", &[S1, S1, T0]),
        // A call of the next instruction ends the block.
        ("bl", &[4]),
    ];
    list.map(|(name, operands)| encoded(name, operands)).into()
}

fn encoded(mnemonic: &str, operands: &[i64]) -> u32 {
    word(mnemonic, operands).expect("invariant: an instruction of the table")
}

/// Reads the CPU time of the process to S2 and advances S2.
fn read_clock(code: &mut Vec<u32>) {
    const CLOCK_GETTIME: i64 = 113;
    const PROCESS_CPU_TIME: i64 = 2;
    code.extend([
        encoded("ori", &[A0, 0, PROCESS_CPU_TIME]),
        encoded("or", &[A1, S2, 0]),
        encoded("ori", &[A7, 0, CLOCK_GETTIME]),
        encoded("syscall", &[0]),
        encoded("addi.d", &[S2, S2, 16]),
    ]);
}

fn program(blocks: usize) -> Vec<u8> {
    const WRITE: i64 = 64;
    const EXIT: i64 = 94;
    let mut code = vec![
        encoded("lu12i.w", &[S2, (DATA >> 12) as i64]),
        encoded("lu12i.w", &[S0, (DATA >> 12) as i64 + 1]),
        encoded("ori", &[S3, 0, 2]),
    ];
    read_clock(&mut code);
    let pass = code.len();
    (0..blocks).for_each(|n| code.extend(block(n as i64)));
    read_clock(&mut code);
    code.push(encoded("addi.d", &[S3, S3, -1]));
    // The pass is longer than a conditional branch reaches.
    code.push(encoded("beqz", &[S3, 8]));
    code.push(encoded("b", &[4 * (pass as i64 - code.len() as i64)]));
    code.extend([
        encoded("ori", &[A0, 0, 1]),
        encoded("lu12i.w", &[A1, (DATA >> 12) as i64]),
        encoded("ori", &[A2, 0, TIMES_BYTES]),
        encoded("ori", &[A7, 0, WRITE]),
        encoded("syscall", &[0]),
        encoded("ori", &[A0, 0, 0]),
        encoded("ori", &[A7, 0, EXIT]),
        encoded("syscall", &[0]),
        encoded("jirl", &[0, RA, 0]),
    ]);
    elf::executable_with(AT, &code, DATA + (64 << 10) - AT)
}

/// What the two passes took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passes {
    /// Nanoseconds of CPU time.
    pub ns: [u64; 2],
    /// Instructions translated.
    pub translated: u64,
}

/// Runs the program.
///
/// # Errors
/// It failed, or the host has no translator.
pub fn passes(tools: &Tools) -> Found<Passes> {
    let path = tools.scratch.join("translating");
    std::fs::write(&path, program(BLOCKS)).map_err(|e| format!("{}: {e}", path.display()))?;
    let out = tools::success(tools.ours().arg("--stats").arg(&path))?;
    let words: Vec<u64> = (out.stdout.chunks_exact(8))
        .map(|c| u64::from_le_bytes(c.try_into().expect("invariant: eight bytes")))
        .collect();
    let [s0, ns0, s1, ns1, s2, ns2] = words[..] else {
        let bytes = out.stdout.len();
        return Err(format!("{}: {bytes} bytes instead of times", path.display()).into());
    };
    let translated = tools::number_before(&out, " instructions translated")?;
    if translated < (16 * BLOCKS) as u64 {
        return Err(missing(format!("a translator on this host ({translated} instructions)")));
    }
    let times = [s0 * 1_000_000_000 + ns0, s1 * 1_000_000_000 + ns1, s2 * 1_000_000_000 + ns2];
    Ok(Passes { ns: [times[1] - times[0], times[2] - times[1]], translated })
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_la64::device::{Core, End};
    use littoral_la64::interp::Trap;

    #[test]
    fn both_passes_run_every_block() {
        const FEW: usize = 10;
        let mut core = Core::load(&program(FEW), DATA + (1 << 20)).unwrap();
        let mut outcome = core.run(core.entry(), &[], 100_000);
        let mut counts = Vec::new();
        while let End::Trap { trap: Trap::Syscall, .. } = outcome.end {
            counts.push(outcome.instructions);
            outcome = core.resume(100_000);
            if counts.len() > 3 {
                break;
            }
        }
        // From one reading of the clock to the next: the pass, the reading, the turn.
        assert_eq!(counts[1], 16 * FEW as u64 + 5);
        assert_eq!(counts[2], 16 * FEW as u64 + 8);
    }
}
