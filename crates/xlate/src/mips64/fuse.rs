//! Groups of instructions that become fewer LA64 instructions.
//!
//! A group needs registers that nothing reads behind it (liveness), and leaves what its first
//! instructions would have written to [`Recover`]: an access that faults, and a signal, find the
//! state that the guest's own instructions would have made.

use super::isa::{Field, HI, Inst, LO};
use super::registers::la64;
use crate::ir::RegSet;
use littoral_base::mutant;
use littoral_la64::asm::Asm;

/// How a register that a group does not write gets its value at a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recover {
    /// A sum, the second operand shifted left: target, first, second, amount.
    Sum(u8, u8, u8, u8),
    /// Whether the first operand is less, signed or not: target, first, second.
    Less(u8, u8, u8, bool),
}

/// What becomes LA64 code.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// One instruction as it is.
    One(Inst),
    /// An instruction that needs no code.
    Nothing,
    /// d = (shifted << amount) + other; of 32 bits or of 64.
    ShiftAdd { inst: Inst, shifted: u8, other: u8, amount: u8, wide: bool },
    /// A load or store at the sum of two registers, which the first instruction would have put
    /// into a register.
    Indexed { inst: Inst, base: u8, index: u8, sum: u8 },
    /// Two accesses to the parts of an unaligned word.
    Whole { inst: Inst, code: &'static str, offset: i64 },
    /// A product or quotient straight to general registers: low, high (0 for none).
    Product { inst: Inst, low: u8, high: u8 },
    /// A number that several instructions, the first at `at`, make in one register.
    Constant { at: u64, register: u8, value: i64 },
    /// Bits `low` and above, `high` at most.
    Bits { inst: Inst, source: u8, high: u8, low: u8 },
}

/// A condition that two LA64 registers meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    /// LA64 branch if it holds.
    pub(super) code: &'static str,
    /// First guest register.
    pub(super) a: u8,
    /// Second guest register.
    pub(super) b: u8,
    /// The comparison's register, which the fused branch does not write.
    pub(super) recover: Option<Recover>,
}

/// The work of a block and the condition of the branch at its end.
pub(super) struct Fused {
    /// In order.
    pub(super) work: Vec<Work>,
    /// The condition, if the branch has one on general registers.
    pub(super) condition: Option<Condition>,
}

/// What follows a body.
pub(super) struct Tail {
    /// Branch and delay slot, if the block ends by one.
    pub(super) branch: Option<(Inst, Inst)>,
    /// Live behind the block.
    pub(super) live: RegSet,
}

/// Finds the groups of a block's body.
pub(super) fn fuse(body: &[Inst], tail: &Tail) -> Fused {
    let live = live_behind(body, tail);
    let mut condition = tail.branch.and_then(|(branch, _)| plain_condition(&branch));
    let mut body = body;
    let fused_condition = tail
        .branch
        .zip(body.last())
        .and_then(|((branch, slot), last)| compare_and_branch(&branch, &slot, last, tail.live));
    if fused_condition.is_some() {
        condition = fused_condition;
        body = &body[..body.len() - 1];
    }
    let mut work = Vec::new();
    let mut words = RegSet::default();
    let mut n = 0;
    while n < body.len() {
        let (done, count) = group(&body[n..], &live[n..], words);
        for inst in &body[n..n + count] {
            words = words.minus(inst.writes());
            if inst.makes_word() {
                words = words.union(inst.writes());
            }
        }
        work.push(done);
        n += count;
    }
    Fused { work, condition }
}

fn live_behind(body: &[Inst], tail: &Tail) -> Vec<RegSet> {
    let mut live = tail.live;
    if let Some((branch, slot)) = tail.branch {
        live = live.minus(slot.writes()).union(slot.needs());
        live = live.minus(branch.writes()).union(branch.reads());
        if branch.is_likely() {
            live = live.union(tail.live);
        }
    }
    let mut list = vec![live; body.len()];
    for (n, inst) in body.iter().enumerate().rev() {
        list[n] = live;
        live = live.minus(inst.writes()).union(inst.needs());
    }
    list
}

/// The first group, and how many instructions it has.
fn group(body: &[Inst], live: &[RegSet], words: RegSet) -> (Work, usize) {
    let inst = body[0];
    let two = |n: usize| body.get(n).copied();
    if let Some(next) = two(1) {
        if let Some((work, count)) = constant(body) {
            return (work, count);
        }
        if let Some(work) = bits(&inst, &next, live[1]) {
            return (work, 2);
        }
        if let Some(work) = shift_add(&inst, &next, live[1]) {
            return (work, 2);
        }
        if let Some(work) = indexed(&inst, &next, live[1]) {
            return (work, 2);
        }
        if let Some(work) = whole(&inst, &next) {
            return (work, 2);
        }
        if let Some((work, count)) = product(body, live) {
            return (work, count);
        }
    }
    if inst.needs_no_code(words) {
        return (Work::Nothing, 1);
    }
    (Work::One(inst), 1)
}

impl Inst {
    fn named(&self, mnemonic: &str) -> bool {
        self.row.mnemonic == mnemonic
    }

    /// Whether what it writes is a sign-extended word.
    fn makes_word(&self) -> bool {
        const WORDS: [&str; 24] = [
            "addu", "subu", "addiu", "sll", "srl", "sra", "sllv", "srlv", "srav", "rotr", "rotrv",
            "lui", "slt", "sltu", "slti", "sltiu", "lw", "lh", "lb", "lbu", "lhu", "mul", "seb",
            "seh",
        ];
        WORDS.contains(&self.row.mnemonic)
    }

    /// Whether it changes nothing: it writes register 0 or what is there already.
    fn needs_no_code(&self, words: RegSet) -> bool {
        if self.is("nothing") {
            return true;
        }
        let to = |field| self.reg(field) == 0;
        match self.row.mnemonic {
            "sll" if self.get(Field::A) == 0 && self.get(Field::D) == self.get(Field::T) => {
                to(Field::D) || words.has(self.reg(Field::T))
            }
            "sll" | "srl" | "sra" | "or" | "addu" | "daddu" | "and" | "xor" | "nor" | "subu"
            | "dsubu" | "slt" | "sltu" | "dsll" | "dsrl" | "dsra" => to(Field::D),
            "addiu" | "daddiu" | "ori" | "andi" | "xori" | "lui" | "slti" | "sltiu" => to(Field::T),
            _ => false,
        }
    }
}

/// The number that an instruction leaves in a register, from another number in the same register or
/// from none: the register, the number, and the LA64 instructions of it alone.
fn number_of(inst: &Inst, known: Option<(u8, i64)>) -> Option<(u8, i64, usize)> {
    let value_of = |field| match (inst.reg(field), known) {
        (0, _) => Some(0),
        (r, Some((register, value))) if r == register => Some(value),
        _ => None,
    };
    let word = |value: i64| match mutant!("mips64_constant_words_wide") {
        true => value,
        false => i64::from(value as i32),
    };
    let (i, u, amount) = (inst.get(Field::I), inst.get(Field::U), inst.get(Field::A));
    let (to, value, code_len) = match inst.row.mnemonic {
        "lui" => (Field::T, i << 16, 1),
        "addiu" | "daddiu" => {
            let sum = value_of(Field::S)?.wrapping_add(i);
            let sum = if inst.row.mnemonic == "addiu" { word(sum) } else { sum };
            let is_first = inst.reg(Field::S) == 0;
            let code_len = match i {
                _ if is_first => li_len(i),
                -4096..4095 => 1 + usize::from(!(-2048..2048).contains(&i)),
                _ => li_len(i) + 1,
            };
            (Field::T, sum, code_len)
        }
        "ori" => {
            let code_len = if u < 4096 { 1 } else { li_len(u) + 1 };
            (Field::T, value_of(Field::S)? | u, code_len)
        }
        "sll" => (Field::D, word(value_of(Field::T)? << amount), 1),
        "dsll" => (Field::D, value_of(Field::T)? << amount, 1),
        "dsll32" => (Field::D, value_of(Field::T)? << (amount + 32), 1),
        _ => return None,
    };
    let register = inst.reg(to);
    let is_same = known.is_none_or(|(before, _)| before == register);
    (is_same && la64(register) != 0).then_some((register, value, code_len))
}

/// How many LA64 instructions make a number.
fn li_len(value: i64) -> usize {
    let mut asm = Asm::default();
    asm.li(1, value);
    asm.len()
}

/// The instructions from the first on that make one number in one register, where the number
/// alone takes less code.
fn constant(body: &[Inst]) -> Option<(Work, usize)> {
    let (register, mut value, mut code_len) = number_of(&body[0], None)?;
    let mut count = 1;
    while let Some(next) = body.get(count)
        && let Some((_, sum, more)) = number_of(next, Some((register, value)))
    {
        (value, code_len, count) = (sum, code_len + more, count + 1);
    }
    let is_shorter = count > 1 && li_len(value) < code_len;
    is_shorter.then_some((Work::Constant { at: body[0].at, register, value }, count))
}

/// The pair dsll, dsrl or dsra: a field of bits.
fn bits(first: &Inst, second: &Inst, live: RegSet) -> Option<Work> {
    let left = match first.row.mnemonic {
        "dsll" => first.get(Field::A),
        "dsll32" => first.get(Field::A) + 32,
        _ => return None,
    };
    let right = match second.row.mnemonic {
        "dsrl" => second.get(Field::A),
        "dsrl32" => second.get(Field::A) + 32,
        _ => return None,
    };
    let (made, d) = (first.reg(Field::D), second.reg(Field::D));
    let same = made != 0 && second.reg(Field::T) == made && d != 0;
    if !same || right < left || (d != made && live.has(made)) {
        return None;
    }
    let (high, low) = ((63 - left) as u8, (right - left) as u8);
    Some(Work::Bits { inst: *second, source: first.reg(Field::T), high, low })
}

fn shift_add(first: &Inst, second: &Inst, live: RegSet) -> Option<Work> {
    let (shift, add) = (first.row.mnemonic, second.row.mnemonic);
    let wide = match (shift, add) {
        ("dsll", "daddu") => true,
        ("sll", "addu") => false,
        _ => return None,
    };
    let amount = first.reg(Field::A);
    let (made, d) = (first.reg(Field::D), second.reg(Field::D));
    let (s, t) = (second.reg(Field::S), second.reg(Field::T));
    let other = match (s == made, t == made) {
        (true, false) => t,
        (false, true) => s,
        _ => return None,
    };
    let fits = (1..=4).contains(&amount) && made != 0 && d != 0;
    if !fits || (d != made && live.has(made)) {
        return None;
    }
    Some(Work::ShiftAdd { inst: *second, shifted: first.reg(Field::T), other, amount, wide })
}

fn indexed(first: &Inst, second: &Inst, live: RegSet) -> Option<Work> {
    let sum = first.reg(Field::D);
    let is_access = matches!(second.special(), Some(("load" | "store", _)));
    let same = first.named("daddu") && is_access && second.reg(Field::S) == sum && sum != 0;
    let stores_sum = second.is("store") && second.reads_value(sum);
    if !same || second.get(Field::I) != 0 || stores_sum {
        return None;
    }
    let overwrites = second.writes().has(sum);
    if !overwrites && live.has(sum) {
        return None;
    }
    let (base, index) = (first.reg(Field::S), first.reg(Field::T));
    if base == 0 || index == 0 {
        return None;
    }
    Some(Work::Indexed { inst: *second, base, index, sum })
}

impl Inst {
    fn reads_value(&self, register: u8) -> bool {
        self.reg(Field::T) == register && !self.is_float()
    }
}

/// The left and the right part of one unaligned access.
fn whole(first: &Inst, second: &Inst) -> Option<Work> {
    const PAIRS: [(&str, &str, i64, &str); 4] = [
        ("lwl", "lwr", 3, "ld.w"),
        ("ldl", "ldr", 7, "ld.d"),
        ("swl", "swr", 3, "st.w"),
        ("sdl", "sdr", 7, "st.d"),
    ];
    let names = [first.row.mnemonic, second.row.mnemonic];
    let &(left, _, distance, code) =
        PAIRS.iter().find(|p| names == [p.0, p.1] || names == [p.1, p.0])?;
    let (upper, lower) = if names[0] == left { (first, second) } else { (second, first) };
    let (base, value) = (first.reg(Field::S), first.reg(Field::T));
    let same = second.reg(Field::S) == base && second.reg(Field::T) == value;
    let offset = lower.get(Field::I);
    let is_load = code.starts_with("ld");
    let fits = same && upper.get(Field::I) == offset + distance && (-2048..2048).contains(&offset);
    if !fits || (is_load && base == value) || value == 0 {
        return None;
    }
    Some(Work::Whole { inst: *first, code, offset })
}

/// A multiplication or division and the moves behind it.
fn product(body: &[Inst], live: &[RegSet]) -> Option<(Work, usize)> {
    let inst = body[0];
    let moved = |n: usize| {
        let next = body.get(n)?;
        let (low, high) = (next.is("mflo"), next.is("mfhi"));
        (low || high).then_some((low, next.reg(Field::D)))
    };
    if !inst.is("mul") {
        return None;
    }
    let (first_is_low, first) = moved(1)?;
    let pair = |low: bool, a: u8, b: u8| if low { (a, b) } else { (b, a) };
    let unread = |n: usize| !live[n].has(HI) && !live[n].has(LO);
    if let Some((second_is_low, second)) = moved(2)
        && second_is_low != first_is_low
        && unread(2)
        && first != second
        && ![inst.reg(Field::S), inst.reg(Field::T)].contains(&first)
        && first != 0
        && second != 0
        && first_is_low
    {
        return Some((Work::Product { inst, low: first, high: second }, 3));
    }
    let (low, high) = pair(first_is_low, first, 0);
    (unread(1) && first != 0).then_some((Work::Product { inst, low, high }, 2))
}

/// The condition of a branch as it stands.
fn plain_condition(branch: &Inst) -> Option<Condition> {
    let (kind, words) = branch.special()?;
    let (s, t) = (branch.reg(Field::S), branch.reg(Field::T));
    let (code, a, b) = match (kind, *words.first()?) {
        ("branch", code @ ("beq" | "bne")) => (code, s, t),
        ("branch", code @ ("blt" | "bge")) => (code, s, 0),
        ("branch", "ble") => ("bge", 0, s),
        ("branch", "bgt") => ("blt", 0, s),
        _ => return None,
    };
    Some(Condition { code, a, b, recover: None })
}

fn compare_and_branch(
    branch: &Inst,
    slot: &Inst,
    compare: &Inst,
    live: RegSet,
) -> Option<Condition> {
    let (kind, words) = branch.special()?;
    let is_equal = match (kind, *words.first()?) {
        ("branch", "beq") => true,
        ("branch", "bne") => false,
        _ => return None,
    };
    let unsigned = match compare.row.mnemonic {
        "slt" => false,
        "sltu" => true,
        _ => return None,
    };
    let made = compare.reg(Field::D);
    let tested = [branch.reg(Field::S), branch.reg(Field::T)];
    let fits = made != 0 && (tested == [made, 0] || tested == [0, made]);
    let still_read = live.minus(slot.writes()).union(slot.reads()).has(made)
        || (branch.is_likely() && live.has(made));
    let (a, b) = (compare.reg(Field::S), compare.reg(Field::T));
    if !fits || still_read || branch.is_call() {
        return None;
    }
    let code = match (is_equal, unsigned) {
        (true, false) => "bge",
        (true, true) => "bgeu",
        (false, false) => "blt",
        (false, true) => "bltu",
    };
    Some(Condition { code, a, b, recover: Some(Recover::Less(made, a, b, unsigned)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn works(words: &[u32]) -> Vec<Work> {
        let body = words.iter().enumerate();
        let body: Vec<Inst> =
            body.map(|(n, &w)| Inst::decode(4 * n as u64, w).expect("an instruction")).collect();
        fuse(&body, &Tail { branch: None, live: RegSet::ALL }).work
    }

    #[test]
    fn a_number_of_several_instructions_is_made_at_once() {
        // lui, daddiu, dsll 16, daddiu, dsll 18, ori, all of $1.
        let words = [0x3c01_2fd6, 0x6421_11db, 0x0001_0c38, 0x6421_4739, 0x0001_0cb8, 0x3421_e5b9];
        let number = 0xbf58_476d_1ce4_e5b9_u64 as i64;
        let made = works(&words);
        let [Work::Constant { at: 0, register: 1, value }] = made[..] else { panic!("{made:x?}") };
        assert_eq!(value, number);
        // The last into $2: the first five are one.
        let mut other = words;
        other[5] = 0x3422_e5b9;
        assert_eq!(works(&other).len(), 2);
        // lui $1; daddiu $1,$2: another register.
        assert_eq!(works(&[0x3c01_2fd6, 0x6441_11db]).len(), 2);
        // lui $1; ori $1,$1,1: no shorter.
        assert_eq!(works(&[0x3c01_2fd6, 0x3421_0001]).len(), 2);
    }
}
