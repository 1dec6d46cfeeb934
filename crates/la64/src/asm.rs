//! An assembler: instructions by mnemonic and operands, labels, constants of any size.
//!
//! Operands stand in the manual's order, registers by number. Branches name a [`Label`], which may
//! be bound before or after them. [`Asm::finish`] resolves labels and reports the first instruction
//! that does not encode.

use crate::error::{Error, Kind, Result};
use crate::isa::{self, RowId};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::OnceLock;

/// Numbers of general registers by their ABI names.
pub mod reg {
    /// Always zero.
    pub const ZERO: u8 = 0;
    /// Return address.
    pub const RA: u8 = 1;
    /// Stack pointer.
    pub const SP: u8 = 3;
    /// First argument and result.
    pub const A0: u8 = 4;
    /// Second argument.
    pub const A1: u8 = 5;
    /// Third argument.
    pub const A2: u8 = 6;
    /// Fourth argument.
    pub const A3: u8 = 7;
    /// First temporary.
    pub const T0: u8 = 12;
    /// Second temporary.
    pub const T1: u8 = 13;
}

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(usize);

/// A branch that waits for its label.
#[derive(Debug)]
struct Fixup {
    at: usize,
    row: RowId,
    operands: Vec<i64>,
    label: Label,
}

/// Code under construction.
///
/// ```
/// use littoral_la64::asm::{Asm, reg::{A0, T0}};
/// use littoral_la64::{device::{Core, End}, elf};
/// // The sum of 1 to a0.
/// let mut asm = Asm::default();
/// asm.op("or", &[T0.into(), A0.into(), 0]);
/// asm.li(A0, 0);
/// let next = asm.here();
/// asm.op("add.d", &[A0.into(), A0.into(), T0.into()]);
/// asm.op("addi.d", &[T0.into(), T0.into(), -1]);
/// asm.branch("bnez", &[T0.into()], next);
/// asm.ret();
/// let mut core = Core::load(&elf::executable(0x10000, &asm.finish()?), 1 << 20)?;
/// assert_eq!(core.run(core.entry(), &[10], 1000).end, End::Done(55));
/// # Ok::<(), littoral_la64::error::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Asm {
    words: Vec<u32>,
    labels: Vec<Option<usize>>,
    fixups: Vec<Fixup>,
    first_error: Option<String>,
}

/// One instruction as a word; `None` for an unknown mnemonic or operands that do not fit.
pub fn word(mnemonic: &str, operands: &[i64]) -> Option<u32> {
    isa::encode(row(mnemonic)?, operands)
}

fn row(mnemonic: &str) -> Option<RowId> {
    static ROWS: OnceLock<HashMap<&'static str, RowId, Names>> = OnceLock::new();
    let rows = || isa::ROWS.iter().enumerate().map(|(i, r)| (r.mnemonic, RowId(i as u16)));
    ROWS.get_or_init(|| rows().collect()).get(mnemonic).copied()
}

type Names = BuildHasherDefault<NameHasher>;

/// Hashes mnemonics, which no input chooses, by one multiplication for eight bytes: a
/// translator looks one up for each word that it makes.
#[derive(Default)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        // Knuth's multiplier.
        const FACTOR: u64 = 6_364_136_223_846_793_005;
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.0 = (self.0.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        }
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

impl Asm {
    /// Number of instructions so far.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there is no instruction yet.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Appends an instruction.
    pub fn op(&mut self, mnemonic: &str, operands: &[i64]) {
        let word = word(mnemonic, operands);
        if word.is_none() {
            self.fail(mnemonic, operands);
        }
        self.words.push(word.unwrap_or_default());
    }

    /// A label that is not bound yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Binds `label` to the next instruction.
    ///
    /// # Panics
    /// If the label is bound already.
    pub fn bind(&mut self, label: Label) {
        let place = &mut self.labels[label.0];
        assert!(place.is_none(), "a label names one place");
        *place = Some(self.words.len());
    }

    /// A label bound to the next instruction.
    pub fn here(&mut self) -> Label {
        let label = self.label();
        self.bind(label);
        label
    }

    /// Appends a branch to `label`; `operands` are those in front of the offset.
    pub fn branch(&mut self, mnemonic: &str, operands: &[i64], label: Label) {
        let at = self.words.len();
        self.words.push(0);
        match row(mnemonic) {
            Some(row) => {
                self.fixups.push(Fixup { at, row, operands: operands.to_vec(), label });
            }
            None => self.fail(mnemonic, operands),
        }
    }

    /// Appends the shortest load of a constant: one to four instructions.
    pub fn li(&mut self, rd: u8, value: i64) {
        let rd = i64::from(rd);
        if (-2048..2048).contains(&value) {
            return self.op("addi.d", &[rd, 0, value]);
        }
        if (0..4096).contains(&value) {
            return self.op("ori", &[rd, 0, value]);
        }
        // lu12i.w sets bits 31..12 and copies bit 31 upwards.
        self.op("lu12i.w", &[rd, i64::from(value as i32) >> 12]);
        if value & 0xfff != 0 {
            self.op("ori", &[rd, rd, value & 0xfff]);
        }
        if i64::from(value as i32) != value {
            self.op("lu32i.d", &[rd, value << 12 >> 44]);
            if value << 12 >> 12 != value {
                self.op("lu52i.d", &[rd, rd, value >> 52]);
            }
        }
    }

    /// Appends a return to the caller.
    pub fn ret(&mut self) {
        self.op("jirl", &[0, i64::from(reg::RA), 0]);
    }

    /// The code.
    ///
    /// # Errors
    /// [`Kind::Assembly`] for the first instruction that does not encode, a label without a place,
    /// or a branch whose target is out of reach.
    pub fn finish(mut self) -> Result<Vec<u32>> {
        for fixup in std::mem::take(&mut self.fixups) {
            let Some(target) = self.labels[fixup.label.0] else {
                let what = format!("the branch at instruction {} has no target", fixup.at);
                return Err(Error::new(Kind::Assembly, what));
            };
            let mut operands = fixup.operands;
            operands.push((target as i64 - fixup.at as i64) * 4);
            match isa::encode(fixup.row, &operands) {
                Some(word) => self.words[fixup.at] = word,
                None => self.fail(fixup.row.row().mnemonic, &operands),
            }
        }
        match self.first_error {
            Some(what) => Err(Error::new(Kind::Assembly, what)),
            None => Ok(self.words),
        }
    }

    fn fail(&mut self, mnemonic: &str, operands: &[i64]) {
        let what = || format!("{mnemonic} {operands:?} does not encode; see the instruction table");
        self.first_error.get_or_insert_with(what);
    }
}

#[cfg(test)]
mod tests {
    use super::reg::A0;
    use super::*;
    use crate::device::{Core, End};
    use crate::elf;

    fn run(asm: Asm) -> End {
        let file = elf::executable(0x1_0000, &asm.finish().unwrap());
        let mut core = Core::load(&file, 1 << 20).unwrap();
        core.run(core.entry(), &[], 1000).end
    }

    #[test]
    fn constants_of_every_width_load_exactly() {
        let mut values = vec![0, i64::MAX, i64::MIN, 0xfff, 0x1000, 0x8000_0000, -0x8000_0001];
        for bit in 0..64 {
            for near in [-1i64, 0, 1] {
                let value = (1i64 << bit).wrapping_add(near);
                values.extend([value, value.wrapping_neg(), value ^ 0x0123_4567_89ab_cdef]);
            }
        }
        for value in values {
            let mut asm = Asm::default();
            asm.li(A0, value);
            asm.ret();
            assert!(asm.len() <= 5);
            assert_eq!(run(asm), End::Done(value as u64), "{value:#x}");
        }
    }

    #[test]
    fn labels_reach_forward_and_back() {
        let mut asm = Asm::default();
        let (end, middle) = (asm.label(), asm.label());
        asm.li(A0, 1);
        asm.branch("b", &[], middle);
        let back = asm.here();
        asm.op("addi.d", &[4, 4, 40]);
        asm.branch("b", &[], end);
        asm.bind(middle);
        asm.op("addi.d", &[4, 4, 1]);
        asm.branch("b", &[], back);
        asm.bind(end);
        asm.ret();
        assert_eq!(run(asm), End::Done(42));
    }

    #[test]
    fn what_does_not_encode_is_named() {
        let error = |make: fn(&mut Asm)| {
            let mut asm = Asm::default();
            make(&mut asm);
            let error = asm.finish().unwrap_err();
            assert_eq!(error.kind(), Kind::Assembly);
            error.to_string()
        };
        assert!(error(|a| a.op("addi.d", &[4, 4, 2048])).contains("addi.d [4, 4, 2048]"));
        assert!(error(|a| a.op("nonsense", &[])).contains("nonsense"));
        assert!(
            error(|a| {
                let l = a.label();
                a.branch("b", &[], l);
            })
            .contains("no target")
        );
        assert!(
            error(|a| {
                let l = a.here();
                (0..40_000).for_each(|_| a.op("andi", &[0, 0, 0]));
                a.branch("beq", &[4, 5], l);
            })
            .contains("beq")
        );
    }
}
