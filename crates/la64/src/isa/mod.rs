//! The LoongArch instruction table and what is generated from it: decoder, encoder, disassembler.
//!
//! The table is `rows/*.txt`, in a layout of our own; `codegen/main.rs` expands it into [`ROWS`]
//! and a decision tree. Mnemonics and operand order are the manual's (binutils'). The encodings are
//! facts of the public project loongson-community/loongarch-opcodes (CC-BY-4.0, see NOTICE).
//!
//! Invariants
//! - `encode(row, operands(word)) == word` for every word that decodes to `row`. Checked by
//!   `every_row_round_trips_through_its_operands`.
//! - No word decodes to two rows; the table is also tested for it when it is built. Checked by
//!   `random_words_decode_exactly_when_a_row_matches`.
//! - Register fields keep one place each: d at bit 0, j at 5, k at 10, a at 15. Checked by
//!   `text_equals_objdump`, `every_row_round_trips_through_its_operands`.
//!
//! The paper's table 2 gives the register names; it has no encodings.

mod text;

pub use text::{disassemble, register_name};

/// Which part of the architecture a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Base integer, atomics, bound checks.
    Base,
    /// Scalar floating point.
    Float,
    /// 128-bit vectors.
    Lsx,
    /// 256-bit vectors.
    Lasx,
    /// Binary translation assists.
    Lbt,
    /// Privileged and virtualisation rows, which user mode never executes.
    System,
}

/// What an operand field names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// General register.
    Gpr,
    /// Floating-point register.
    Fpr,
    /// 128-bit vector register.
    Vr,
    /// 256-bit vector register.
    Xr,
    /// Condition flag.
    Fcc,
    /// LBT scratch register.
    Scratch,
    /// Floating-point control register.
    Fcsr,
    /// Signed immediate.
    Signed,
    /// Unsigned immediate.
    Unsigned,
}

/// One operand of a row: where its bits are and how its value is made from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// What the operand names.
    pub kind: FieldKind,
    /// Lowest bit of the (low part of the) field.
    pub lo: u8,
    /// Width of the low part in bits.
    pub width: u8,
    /// Lowest bit of the high part, if `high_width` is not zero.
    pub high_lo: u8,
    /// Width of the high part in bits.
    pub high_width: u8,
    /// The value is the field shifted left by this many bits.
    pub shift: u8,
    /// ... plus this.
    pub bias: u8,
}

impl Field {
    /// The operand's value in `word`: a register number or the immediate as written in assembly.
    pub const fn extract(&self, word: u32) -> i32 {
        let low = (word >> self.lo) & ones(self.width);
        let high = (word >> self.high_lo) & ones(self.high_width);
        let raw = high << self.width | low;
        let bits = (self.width + self.high_width) as u32;
        let value = match self.kind {
            FieldKind::Signed => ((raw << (32 - bits)) as i32) >> (32 - bits),
            _ => raw as i32,
        };
        (value << self.shift) + self.bias as i32
    }

    /// The word bits of `value`, or `None` when it does not fit.
    pub const fn insert(&self, value: i64) -> Option<u32> {
        let unbiased = value - self.bias as i64;
        let raw = unbiased >> self.shift;
        if raw << self.shift != unbiased {
            return None;
        }
        let bits = (self.width + self.high_width) as u32;
        let fits = match self.kind {
            FieldKind::Signed => raw >> (bits - 1) == 0 || raw >> (bits - 1) == -1,
            _ => raw >> bits == 0,
        };
        if !fits {
            return None;
        }
        let low = (raw as u32 & ones(self.width)) << self.lo;
        let high = ((raw >> self.width) as u32 & ones(self.high_width)) << self.high_lo;
        Some(low | high)
    }

    /// True for immediates.
    pub const fn is_immediate(&self) -> bool {
        matches!(self.kind, FieldKind::Signed | FieldKind::Unsigned)
    }
}

const fn ones(width: u8) -> u32 {
    ((1u64 << width) - 1) as u32
}

/// One instruction of the table.
#[derive(Debug)]
pub struct Row {
    /// The fixed bits.
    pub word: u32,
    /// Which bits are fixed.
    pub mask: u32,
    /// The manual's mnemonic.
    pub mnemonic: &'static str,
    stem_len: u8,
    /// The part of the architecture.
    pub group: Group,
    /// Operands in the manual's order.
    pub fields: &'static [Field],
    /// Added in version 1.1 of the architecture.
    pub v1_1: bool,
}

impl Row {
    /// The mnemonic up to its first dot: `vadd` of `vadd.b`.
    pub fn stem(&self) -> &'static str {
        &self.mnemonic[..usize::from(self.stem_len)]
    }

    /// The mnemonic after its first dot, empty if there is none: `b` of `vadd.b`.
    pub fn suffix(&self) -> &'static str {
        self.mnemonic.get(usize::from(self.stem_len) + 1..).unwrap_or("")
    }

    /// The n-th immediate operand of `word` in the manual's order, 0 if there is none.
    pub fn immediate(&self, word: u32, n: usize) -> i32 {
        self.fields.iter().filter(|f| f.is_immediate()).nth(n).map_or(0, |f| f.extract(word))
    }
}

/// The place of a row in [`ROWS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowId(pub u16);

impl RowId {
    /// The row itself.
    pub fn row(self) -> &'static Row {
        &ROWS[usize::from(self.0)]
    }
}

include!(concat!(env!("OUT_DIR"), "/rows.rs"));

const LEAF: u32 = 0x8000_0000;
const NONE: u32 = 0xffff_ffff;

/// The row that `word` is an instance of, or `None` if it is no instruction.
///
/// ```
/// use littoral_la64::isa;
/// let id = isa::decode(0x0010_a4c4).expect("add.d");
/// assert_eq!(id.row().mnemonic, "add.d");
/// ```
pub fn decode(word: u32) -> Option<RowId> {
    let mut node = 0;
    while node < LEAF {
        let head = TREE[node as usize];
        let (lo, width) = (head & 0xff, (head >> 8) as u8);
        node = TREE[node as usize + 1 + (word >> lo & ones(width)) as usize];
    }
    if node == NONE {
        return None;
    }
    let id = RowId((node - LEAF) as u16);
    (word & id.row().mask == id.row().word).then_some(id)
}

/// The row with this mnemonic.
pub fn find(mnemonic: &str) -> Option<RowId> {
    ROWS.iter().position(|r| r.mnemonic == mnemonic).map(|i| RowId(i as u16))
}

/// The operands of `word`, which must decode to `id`, in the manual's order.
pub fn operands(id: RowId, word: u32) -> impl Iterator<Item = i32> {
    id.row().fields.iter().map(move |f| f.extract(word))
}

/// The word of `id` with `operands` in the manual's order; `None` when their number is wrong or one
/// does not fit.
///
/// ```
/// use littoral_la64::isa;
/// let id = isa::find("addi.d").expect("known");
/// assert_eq!(isa::encode(id, &[4, 5, -16]), Some(0x02ff_c0a4));
/// ```
pub fn encode(id: RowId, operands: &[i64]) -> Option<u32> {
    let row = id.row();
    if operands.len() != row.fields.len() {
        return None;
    }
    row.fields.iter().zip(operands).try_fold(row.word, |w, (f, &v)| Some(w | f.insert(v)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scramble(x: &mut u64) -> u32 {
        *x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*x >> 32) as u32
    }

    #[test]
    fn the_table_has_every_row_of_the_manual_once() {
        assert_eq!(ROWS.len(), 2032);
        let mut names: Vec<_> = ROWS.iter().map(|r| r.mnemonic).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 2032);
        let count = |g| ROWS.iter().filter(|r| r.group == g).count();
        let groups =
            [Group::Base, Group::Float, Group::Lsx, Group::Lasx, Group::Lbt, Group::System];
        assert_eq!(groups.map(count), [225, 151, 716, 734, 176, 30]);
    }

    #[test]
    fn every_row_round_trips_through_its_operands() {
        let mut seed = 1;
        for (i, row) in ROWS.iter().enumerate() {
            for _ in 0..200 {
                let word = row.word | scramble(&mut seed) & !row.mask;
                let id = decode(word).expect(row.mnemonic);
                assert_eq!(usize::from(id.0), i, "{}", row.mnemonic);
                let ops: Vec<i64> = operands(id, word).map(i64::from).collect();
                assert_eq!(encode(id, &ops), Some(word), "{} {ops:?}", row.mnemonic);
            }
        }
    }

    #[test]
    fn random_words_decode_exactly_when_a_row_matches() {
        let mut seed = 2;
        for _ in 0..20_000 {
            let word = scramble(&mut seed);
            let slow = ROWS.iter().position(|r| word & r.mask == r.word);
            assert_eq!(decode(word).map(|id| usize::from(id.0)), slow, "{word:08x}");
        }
    }

    #[test]
    fn operands_out_of_range_do_not_encode() {
        let id = find("addi.d").unwrap();
        assert_eq!(encode(id, &[4, 5, 2048]), None);
        assert_eq!(encode(id, &[4, 5, -2049]), None);
        assert_eq!(encode(id, &[32, 5, 0]), None);
        assert_eq!(encode(id, &[4, 5]), None);
        assert_eq!(encode(find("b").unwrap(), &[2]), None);
        assert_eq!(encode(find("alsl.d").unwrap(), &[4, 5, 6, 0]), None);
    }
}
