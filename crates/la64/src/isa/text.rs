//! The disassembler: the text of one instruction, as GNU objdump prints it with `-M no-aliases`.
//!
//! - Registers carry their ABI names (the paper's table 2), immediates are decimal when signed and
//!   hexadecimal when unsigned, branch offsets are bytes relative to the instruction.

use super::{Field, FieldKind, decode};
use std::fmt::Write as _;

const GPR: [&str; 32] = [
    "zero", "ra", "tp", "sp", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "t0", "t1", "t2",
    "t3", "t4", "t5", "t6", "t7", "t8", "r21", "fp", "s0", "s1", "s2", "s3", "s4", "s5", "s6",
    "s7", "s8",
];

/// The ABI name of general register `n` without its dollar sign: `a0` for 4.
///
/// # Panics
/// If `n` is 32 or more.
pub fn register_name(n: usize) -> &'static str {
    GPR[n]
}

/// One instruction as text, or `None` if `word` is no instruction.
///
/// ```
/// use littoral_la64::isa::disassemble;
/// assert_eq!(disassemble(0x02ff_c0a4).as_deref(), Some("addi.d $a0, $a1, -16"));
/// ```
pub fn disassemble(word: u32) -> Option<String> {
    let row = decode(word)?.row();
    if let Some(text) = csr_read_or_write(row.mnemonic, word) {
        return Some(text);
    }
    let mut text = row.mnemonic.to_string();
    for (i, field) in row.fields.iter().enumerate() {
        text.push_str(if i == 0 { " " } else { ", " });
        operand(field, field.extract(word), &mut text);
    }
    Some(text)
}

/// Registers 0 and 1 in the mask place of `csrxchg` make other instructions of it.
fn csr_read_or_write(mnemonic: &str, word: u32) -> Option<String> {
    let prefix = mnemonic.strip_suffix("csrxchg")?;
    let verb = match word >> 5 & 31 {
        0 => "rd",
        1 => "wr",
        _ => return None,
    };
    Some(format!("{prefix}csr{verb} ${}, {:#x}", GPR[(word & 31) as usize], word >> 10 & 0x3fff))
}

fn operand(field: &Field, value: i32, text: &mut String) {
    let n = value as usize;
    match field.kind {
        FieldKind::Gpr => write!(text, "${}", GPR[n]),
        FieldKind::Fpr => write!(text, "${}", fpr_name(n)),
        FieldKind::Vr => write!(text, "$vr{n}"),
        FieldKind::Xr => write!(text, "$xr{n}"),
        FieldKind::Fcc => write!(text, "$fcc{n}"),
        FieldKind::Scratch => write!(text, "$scr{n}"),
        FieldKind::Fcsr => write!(text, "$fcsr{n}"),
        FieldKind::Signed => write!(text, "{value}"),
        FieldKind::Unsigned => write!(text, "{value:#x}"),
    }
    .expect("invariant: a String takes any text");
}

fn fpr_name(n: usize) -> String {
    match n {
        0..=7 => format!("fa{n}"),
        8..=23 => format!("ft{}", n - 8),
        _ => format!("fs{}", n - 24),
    }
}
