//! Instructions as text, in the manual's order of operands: the destination comes first.

use super::decode::{Inst, Mem, Operand, Reg, Rep, Segment};
use super::isa::Names;

const WIDE: [&str; 8] = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"];
const HIGH: [&str; 4] = ["ah", "ch", "dh", "bh"];

/// The name of a general register of so many bytes.
fn general(number: u8, size: u8) -> String {
    let Some(wide) = WIDE.get(usize::from(number)) else {
        let suffix = match size {
            1 => "b",
            2 => "w",
            4 => "d",
            _ => "",
        };
        return format!("r{number}{suffix}");
    };
    let narrow = &wide[1..];
    match size {
        1 if number < 4 => format!("{}l", &narrow[..1]),
        1 => format!("{narrow}l"),
        2 => narrow.to_string(),
        4 => format!("e{narrow}"),
        _ => (*wide).to_string(),
    }
}

fn register(r: Reg) -> String {
    if r.high { HIGH[usize::from(r.number & 3)].into() } else { general(r.number, r.size) }
}

fn signed(value: i64) -> String {
    if value < 0 { format!("-{:#x}", value.unsigned_abs()) } else { format!("{value:#x}") }
}

fn memory(m: &Mem) -> String {
    let size = match m.size {
        1 => "byte ",
        2 => "word ",
        4 => "dword ",
        8 => "qword ",
        10 => "tbyte ",
        16 => "xmmword ",
        _ => "",
    };
    let segment = match m.segment {
        None => "",
        Some(Segment::Fs) => "fs:",
        Some(Segment::Gs) => "gs:",
    };
    let width = if m.short { 4 } else { 8 };
    let base = m.base.map(|n| general(n, width));
    let index = m.index.map(|(n, scale)| format!("{}*{}", general(n, width), 1 << scale));
    let mut inside: Vec<String> = base.into_iter().chain(index).collect();
    if inside.is_empty() {
        inside.push(format!("{:#x}", m.displacement as u64));
    } else if m.displacement != 0 {
        inside.push(signed(m.displacement));
    }
    format!("{size}{segment}[{}]", inside.join("+").replace("+-", "-"))
}

fn operand(o: Operand) -> String {
    match o {
        Operand::Reg(r) => register(r),
        Operand::Xmm(n) => format!("xmm{n}"),
        Operand::Mm(n) => format!("mm{n}"),
        Operand::Mem(m) => memory(&m),
        Operand::Imm(value) => signed(value),
        Operand::Target(at) => format!("{at:#x}"),
    }
}

/// An instruction as text.
pub(super) fn text(inst: &Inst) -> String {
    let lock = if inst.lock { "lock " } else { "" };
    let repeat = match inst.rep.filter(|_| inst.row.string) {
        None => "",
        Some(Rep::Equal) => "rep ",
        Some(Rep::NotEqual) => "repne ",
    };
    let mut operands: Vec<String> = inst.operands().map(operand).collect();
    // The lowest bits of the ModRM byte name the register that is not the top.
    let names_one = inst.row.names == Names::Register && inst.row.low.is_none();
    if inst.row.x87 && names_one {
        operands.push(format!("st({})", inst.modrm & 7));
    }
    let space = if operands.is_empty() { "" } else { " " };
    format!("{lock}{repeat}{}{space}{}", inst.row.name, operands.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::decode::decode;
    use super::*;

    #[test]
    fn instructions_read_as_in_the_manual() {
        let cases: [(&[u8], &str); 12] = [
            (&[0x48, 0x01, 0xd8], "add rax, rbx"),
            (&[0x00, 0xe1], "add cl, ah"),
            (&[0x40, 0x88, 0xf7], "mov dil, sil"),
            (&[0x66, 0x45, 0x89, 0xc8], "mov r8w, r9w"),
            (&[0xf0, 0xff, 0x44, 0x8b, 0xfc], "lock inc dword [rbx+rcx*4-0x4]"),
            (&[0x64, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], "mov eax, dword fs:[0x28]"),
            (&[0x8b, 0x05, 0x10, 0, 0, 0], "mov eax, dword [0x1016]"),
            (&[0xf3, 0x48, 0xa5], "rep movs qword [rdi], qword [rsi]"),
            (&[0x75, 0xfe], "jne 0x1000"),
            (&[0x66, 0x0f, 0xfc, 0xca], "paddb xmm1, xmm2"),
            (&[0x0f, 0xfc, 0xca], "paddb mm1, mm2"),
            (&[0xdc, 0xc3], "fadd st(3)"),
        ];
        for (bytes, expected) in cases {
            let inst = decode(0x1000, bytes).expect("an instruction");
            assert_eq!(text(&inst), expected, "{bytes:02x?}");
        }
    }
}
