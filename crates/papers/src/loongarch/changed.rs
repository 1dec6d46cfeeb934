//! What `ibar` costs a program that writes instructions: a loop in writable memory that calls a
//! function there, without `ibar`, with it, and with the function rewritten before it.
//!
//! The guest reads its own CPU time before and after the loop, so that start-up is not in it.

use super::{Found, Tools, tools};
use littoral_la64::{elf, isa};

/// Where the program is loaded.
const AT: u64 = 0x20_0000;
/// Where code begins behind the file's headers.
const HEADERS_LEN: usize = 120;
/// Code, then two times of two doublewords each.
const CODE_WORDS: usize = 64;

/// What a round of the loop does besides calling the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Nothing.
    Plain,
    /// `ibar`.
    Barrier,
    /// Writes another instruction into the function, then `ibar`.
    Rewritten,
}

const A0: i64 = 4;
const A1: i64 = 5;
const A2: i64 = 6;
const A7: i64 = 11;
const T0: i64 = 12;
const S0: i64 = 23;
const S1: i64 = 24;
const S2: i64 = 25;

fn word(mnemonic: &str, operands: &[i64]) -> u32 {
    let row = isa::find(mnemonic).expect("invariant: a mnemonic of the table");
    isa::encode(row, operands).expect("invariant: operands in range")
}

/// Reads the CPU time of the process into the place `index` words behind the code's beginning.
fn read_clock(code: &mut Vec<u32>, index: usize) {
    const CLOCK_GETTIME: i64 = 113;
    const PROCESS_CPU_TIME: i64 = 2;
    code.push(word("ori", &[A0, 0, PROCESS_CPU_TIME]));
    code.push(word("pcaddi", &[A1, index as i64 - code.len() as i64]));
    code.push(word("ori", &[A7, 0, CLOCK_GETTIME]));
    code.push(word("syscall", &[0]));
}

/// The program: `rounds` rounds, then the two times on standard output.
fn program(round: Round, rounds: u32) -> Vec<u8> {
    const WRITE: i64 = 64;
    const EXIT: i64 = 94;
    const FUNCTION: usize = 60;
    // The doublewords behind the code are aligned to eight bytes.
    const { assert!((HEADERS_LEN / 4 + CODE_WORDS).is_multiple_of(2)) };
    let mut code = vec![
        word("lu12i.w", &[S0, i64::from(rounds >> 12)]),
        word("ori", &[S0, S0, i64::from(rounds & 0xfff)]),
        word("pcaddi", &[S1, FUNCTION as i64 - 2]),
        word("pcaddi", &[T0, FUNCTION as i64 - 3]),
        word("ld.w", &[S2, T0, 0]),
    ];
    read_clock(&mut code, CODE_WORDS);
    let again = code.len();
    if round == Round::Rewritten {
        // The immediate of the function's instruction is the low bits of the count.
        code.push(word("bstrins.d", &[S2, S0, 20, 10]));
        code.push(word("st.w", &[S2, S1, 0]));
    }
    if round != Round::Plain {
        code.push(word("ibar", &[0]));
    }
    code.push(word("bl", &[4 * (FUNCTION as i64 - code.len() as i64)]));
    code.push(word("addi.d", &[S0, S0, -1]));
    code.push(word("bnez", &[S0, 4 * (again as i64 - code.len() as i64)]));
    read_clock(&mut code, CODE_WORDS + 4);
    code.push(word("ori", &[A0, 0, 1]));
    code.push(word("pcaddi", &[A1, CODE_WORDS as i64 - code.len() as i64]));
    code.push(word("ori", &[A2, 0, 32]));
    code.extend([word("ori", &[A7, 0, WRITE]), word("syscall", &[0])]);
    code.extend([word("ori", &[A0, 0, 0]), word("ori", &[A7, 0, EXIT]), word("syscall", &[0])]);
    assert!(code.len() <= FUNCTION, "the code ends before the function");
    code.resize(FUNCTION, 0);
    code.extend([word("ori", &[A0, 0, 0]), word("jirl", &[0, 1, 0])]);
    code.resize(CODE_WORDS + 8, 0);
    elf::executable(AT, &code)
}

/// Microseconds of CPU time that one round of the loop takes.
///
/// # Errors
/// The program failed.
pub fn microseconds(tools: &Tools, round: Round, rounds: u32) -> Found<f64> {
    let path = tools.scratch.join(format!("changed-{round:?}"));
    let io = |e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::write(&path, program(round, rounds)).map_err(io)?;
    let out = tools::success(tools.ours().arg(&path))?.stdout;
    let words: Vec<u64> = (out.chunks_exact(8))
        .map(|c| u64::from_le_bytes(c.try_into().expect("invariant: eight bytes")))
        .collect();
    let [s0, ns0, s1, ns1] = words[..] else {
        let bytes = out.len();
        return Err(format!("{}: {bytes} bytes instead of two times", path.display()).into());
    };
    let nanoseconds = (s1 - s0) * 1_000_000_000 + ns1 - ns0;
    Ok(nanoseconds as f64 / 1e3 / f64::from(rounds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_la64::device::{Core, End};
    use littoral_la64::interp::Trap;

    /// On a core that serves the system calls: what a program executes, and what it returns from
    /// the function last.
    fn executed(round: Round, rounds: u32) -> (u64, u64) {
        const WRITE: u64 = 64;
        const EXIT: u64 = 94;
        let mut core = Core::load(&program(round, rounds), AT + (1 << 20)).unwrap();
        let mut outcome = core.run(core.entry(), &[], 1_000_000);
        let (mut count, mut last) = (outcome.instructions, 0);
        loop {
            let End::Trap { trap: Trap::Syscall, .. } = outcome.end else {
                panic!("{round:?}: {outcome:?}")
            };
            match core.state().x[A7 as usize] {
                EXIT => return (count, last),
                WRITE => last = core.state().x[A0 as usize],
                _ => core.store(core.state().x[A1 as usize], &[7; 16]).unwrap(),
            }
            outcome = core.resume(1_000_000);
            count += outcome.instructions;
        }
    }

    #[test]
    fn the_programs_differ_by_what_a_round_does_besides_its_call() {
        for (round, more) in [(Round::Plain, 0), (Round::Barrier, 1), (Round::Rewritten, 3)] {
            let [one, ten] = [1, 10].map(|rounds| executed(round, rounds));
            assert_eq!(ten.0 - one.0, 9 * (5 + more), "{round:?}");
            assert_eq!((one.1, ten.1), (1, 1), "to standard output");
        }
    }
}
