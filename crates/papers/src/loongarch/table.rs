//! Every row of the instruction table, tried.

use littoral_assure::la64::executes;
use littoral_la64::isa::{self, Group, ROWS, RowId};

/// What the rows did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Rows that decode to themselves, encode back from their operands, and print their mnemonic,
    /// in every sample.
    pub sound_count: u64,
    /// Rows user mode may execute.
    pub unprivileged_count: u64,
    /// Of those, the ones that the interpreter executed.
    pub executed_count: u64,
    /// Mnemonics that failed.
    pub failed: Vec<&'static str>,
}

/// Random words tried of each row.
const SAMPLES: u32 = 200;

/// Tries every row with operands from `seed`.
pub fn rows(seed: u64) -> Rows {
    let mut found = Rows::default();
    let mut state = seed | 1;
    for (n, row) in ROWS.iter().enumerate() {
        let id = RowId(n as u16);
        let words: Vec<u32> =
            (0..SAMPLES).map(|_| row.word | scramble(&mut state) & !row.mask).collect();
        let is_sound = words.iter().all(|&w| is_sound(id, w));
        let unprivileged = row.group != Group::System;
        let executed = unprivileged && words.iter().any(|&w| executes(w));
        found.sound_count += u64::from(is_sound);
        found.unprivileged_count += u64::from(unprivileged);
        found.executed_count += u64::from(executed);
        if !is_sound || executed != unprivileged {
            found.failed.push(row.mnemonic);
        }
    }
    found
}

fn is_sound(id: RowId, word: u32) -> bool {
    let operands: Vec<i64> = isa::operands(id, word).map(i64::from).collect();
    let text = isa::disassemble(word).unwrap_or_default();
    isa::decode(word) == Some(id)
        && isa::encode(id, &operands) == Some(word)
        && text.split(' ').next().is_some_and(|name| names(name, id.row().mnemonic))
}

/// Whether `printed` is a name of the row: binutils prints `csrxchg` with register 0 or 1, and its
/// guest form, under names of their own.
fn names(printed: &str, mnemonic: &str) -> bool {
    let exchange = mnemonic.strip_suffix("csrxchg");
    let special = |guest: &str| ["csrrd", "csrwr"].iter().any(|n| printed == format!("{guest}{n}"));
    printed == mnemonic || exchange.is_some_and(special)
}

fn scramble(x: &mut u64) -> u32 {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    (*x >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_another_row_is_not_sound() {
        let add = isa::find("add.d").unwrap();
        assert!(is_sound(add, add.row().word));
        assert!(!is_sound(add, isa::find("sub.d").unwrap().row().word));
        assert!(!executes(0) && executes(add.row().word));
    }
}
