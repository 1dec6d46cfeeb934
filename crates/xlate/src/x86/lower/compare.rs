//! Comparisons and what reads them, as one: a condition computed from operands, not from flags.
//!
//! An instruction that sets flags leaves none if every instruction that reads them stands close
//! behind it and is a branch, `setcc` or `cmovcc` of registers whose condition the operands tell.
//!
//! Invariants
//! - Between the instruction and its last reader nothing faults, control enters nowhere, and no
//!   address is exact: a thread stops before the first or behind the last. So no observer sees that
//!   the flags are missing. Checked by `comparisons_and_their_readers_end_as_on_the_host`.

use super::Lower;
use super::operand::Extend;
use crate::x86::decode::{Inst, Operand, Reg};
use crate::x86::isa::flag;
use crate::x86::registers::la64;
use littoral_base::mutant;

/// Most instructions from the one that sets flags to the last that reads them.
const REACH: usize = 6;

/// An operand or a result that is compared.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// A guest register or a part of it.
    Guest(Reg),
    /// A scratch register, with what it holds above the operand.
    Scratch(u8, Extend),
    /// A number, extended with its sign.
    Number(i64),
}

/// What flags are made of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// The difference of two values.
    Difference(Value, Value),
    /// A result; no carry and no overflow.
    Logic(Value),
    /// A result, of which zero and sign are known.
    Result(Value),
    /// Two numbers; each condition that is read has a condition flag, in the order of their codes.
    Floats,
}

/// An instruction whose flags have no place, with those that take a condition from its operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// Instructions of it that are still to come.
    left: usize,
    /// The conditions that are read, one bit each.
    conditions: u16,
    /// What is compared, of so many bytes; none before the first instruction is done.
    source: Option<(Source, u8)>,
    /// Scratch registers that the group keeps; none before the first instruction is done.
    kept: Option<usize>,
}

/// A comparison of LA64 registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    NotLess,
    Below,
    NotBelow,
}

/// How a condition follows from a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    relation: Relation,
    /// The second value comes first.
    is_swapped: bool,
    /// Only the result is compared with zero.
    by_result: bool,
}

/// What kind of source an instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Difference,
    /// A difference with one, which leaves the carry.
    Decrement,
    Logic,
    Result,
    Floats,
}

/// What each condition says of two numbers, as LA64's comparison, and whether they are swapped.
const OF_FLOATS: [(u8, &str, bool); 8] = [
    (2, "ult", false),
    (3, "le", true),
    (4, "ueq", false),
    (5, "ne", false),
    (6, "ule", false),
    (7, "lt", true),
    (10, "un", false),
    (11, "or", false),
];

fn kind(inst: &Inst) -> Option<Kind> {
    match inst.row.stem {
        _ if inst.lock => None,
        "cmp" | "sub" => Some(Kind::Difference),
        "dec" => Some(Kind::Decrement),
        "test" | "and" | "or" | "xor" => Some(Kind::Logic),
        "add" | "inc" | "neg" => Some(Kind::Result),
        "ucomiss" | "ucomisd" | "comiss" | "comisd" => Some(Kind::Floats),
        "shl" | "shr" | "sar" if inst.fixed_count().is_some_and(|c| c != 0) => Some(Kind::Result),
        _ => None,
    }
}

/// The rule of a condition; `None` if the flags are needed.
fn rule(kind: Kind, condition: u8) -> Option<Rule> {
    let is_difference = matches!(kind, Kind::Difference | Kind::Decrement);
    let plain = |relation, is_swapped, by_result| Some(Rule { relation, is_swapped, by_result });
    let relation = match condition {
        // Made by the first instruction; see `compare_floats`.
        _ if kind == Kind::Floats => {
            let is_known = OF_FLOATS.iter().any(|rule| rule.0 == condition);
            return plain(Relation::NotEqual, false, true).filter(|_| is_known);
        }
        4 => return plain(Relation::Equal, false, !is_difference),
        5 => return plain(Relation::NotEqual, false, !is_difference),
        2 | 7 if kind == Kind::Difference => Relation::Below,
        3 | 6 if kind == Kind::Difference => Relation::NotBelow,
        6 if kind == Kind::Logic => return plain(Relation::Equal, false, true),
        7 if kind == Kind::Logic => return plain(Relation::NotEqual, false, true),
        8 if !is_difference => return plain(Relation::Less, false, true),
        9 if !is_difference => return plain(Relation::NotLess, false, true),
        12 | 15 if is_difference || kind == Kind::Logic => Relation::Less,
        13 | 14 if is_difference || kind == Kind::Logic => Relation::NotLess,
        _ => return None,
    };
    let is_swapped = matches!(condition, 6 | 7 | 14 | 15);
    let wrong = mutant!("x86_fused_compare_unsigned");
    let relation = match relation {
        Relation::Less if wrong => Relation::Below,
        Relation::NotLess if wrong => Relation::NotBelow,
        other => other,
    };
    plain(relation, is_swapped, !is_difference)
}

/// Whether an instruction reads flags by a condition and does nothing else that is seen.
fn is_reader(inst: &Inst, kind: Kind) -> bool {
    let only_registers = match inst.row.stem {
        "j" => true,
        "set" | "cmov" => inst.memory().is_none(),
        _ => false,
    };
    only_registers && inst.row.condition.is_some_and(|c| rule(kind, c).is_some())
}

/// Whether an instruction neither faults nor has to do with flags.
fn is_quiet(inst: &Inst) -> bool {
    let is_plain = matches!(inst.row.stem, "mov" | "movzx" | "movsx" | "movsxd" | "lea");
    let no_access = inst.is("lea") || inst.memory().is_none();
    let no_access = no_access || mutant!("x86_flags_dropped_at_faults");
    let is_general = inst.operands().all(|o| !matches!(o, Operand::Xmm(_) | Operand::Mm(_)));
    is_plain && no_access && is_general && !inst.lock
}

/// The guest registers of what is compared behind the instruction, one bit each.
fn compared(inst: &Inst) -> u16 {
    let bit = |o: Operand| match o {
        Operand::Reg(r) => 1 << r.number,
        Operand::Xmm(_) | Operand::Mm(_) | Operand::Mem(_) => 0,
        Operand::Imm(_) | Operand::Target(_) => 0,
    };
    inst.operands().fold(0, |bits, o| bits | bit(o))
}

/// How many of the instructions behind one that sets flags belong to its group, if the flags need
/// no place; `live` holds the flags that are read behind each.
fn group(inst: &Inst, behind: &[(&Inst, u8)]) -> Option<usize> {
    let kind = kind(inst)?;
    let mut registers = compared(inst);
    let mut is_valid = true;
    for (n, (next, live)) in behind.iter().enumerate().take(REACH) {
        let reads = is_reader(next, kind);
        if reads && !is_valid || !reads && !is_quiet(next) {
            return None;
        }
        if *live & flag::ALL == 0 {
            return reads.then_some(n + 1);
        }
        if next.is("j") {
            return None;
        }
        let written = match next.operand(0) {
            Operand::Reg(r) => 1 << r.number,
            _ => 0,
        };
        is_valid &= registers & written == 0;
        registers &= !written;
    }
    None
}

/// Whether an instruction's place in memory takes few scratch registers.
fn is_near(inst: &Inst) -> bool {
    inst.memory().is_none_or(|m| !m.short && m.segment.is_none())
}

impl Lower {
    /// Goes on with a group, or sees whether one begins: then no flags are made. Whether it goes
    /// on is the answer.
    pub(super) fn join(&mut self, inst: &Inst, behind: &[(&Inst, u8)]) -> bool {
        if let Some(group) = self.group.as_mut().filter(|group| group.left > 0) {
            group.left -= 1;
            self.temps_used = group.kept.unwrap_or_default();
            return true;
        }
        self.group = None;
        if self.needs(flag::ALL)
            && is_near(inst)
            && let Some(left) = group(inst, behind)
        {
            let conditions = behind[..left].iter().filter_map(|(next, _)| next.row.condition);
            let conditions = conditions.fold(0, |bits, c| bits | 1 << c);
            self.group = Some(Group { left, conditions, source: None, kept: None });
            self.live = 0;
        }
        false
    }

    /// The instruction is done: its scratch registers are kept for the group that it begins.
    pub(super) fn joined(&mut self) {
        let used = self.temps_used;
        if let Some(group) = &mut self.group {
            group.kept.get_or_insert(used);
        }
    }

    /// Whether the instruction begins a group.
    pub(super) fn begins_group(&self) -> bool {
        self.group.is_some_and(|group| group.source.is_none())
    }

    /// Whether one of some conditions is read in the group.
    fn has_conditions(&self, wanted: u16) -> bool {
        self.group.is_some_and(|group| group.conditions & wanted != 0)
    }

    /// What the group's conditions follow from.
    pub(super) fn set_source(&mut self, source: Source, size: u8) {
        if let Some(group) = &mut self.group {
            group.source = Some((source, size));
        }
    }

    /// The comparisons of `ucomiss` and its kin at the begin of a group, one for each condition
    /// that is read.
    pub(super) fn compare_floats(&mut self, (quiet, suffix): (char, &str), a: u8, b: u8) {
        for (condition, name, is_swapped) in OF_FLOATS {
            if self.has_conditions(1 << condition) {
                let place = self.float_flag(condition);
                let is_swapped = is_swapped && !mutant!("x86_floats_in_order");
                let (x, y) = if is_swapped { (b, a) } else { (a, b) };
                self.rrr(&format!("fcmp.{quiet}{name}{suffix}"), place, x, y);
            }
        }
        self.set_source(Source::Floats, 8);
    }

    /// The condition flag of a condition that the group reads.
    fn float_flag(&self, condition: u8) -> u8 {
        let conditions = self.group.map_or(0, |group| group.conditions);
        (conditions & ((1 << condition) - 1)).count_ones() as u8
    }

    /// Whether the group compares two numbers.
    fn compares_floats(&self) -> bool {
        matches!(self.group, Some(Group { source: Some((Source::Floats, _)), .. }))
    }

    /// The comparison of `cmp` and `test` at the begin of a group.
    pub(super) fn compare(&mut self, inst: &Inst) {
        let size = inst.size_of_first();
        let (first, second) = (inst.operand(0), inst.operand(1));
        if inst.is("test") {
            let value = self.tested(first, second);
            return self.set_source(Source::Logic(value), size);
        }
        let a = self.value_of(first, second);
        let b = self.value_of(second, first);
        self.set_source(Source::Difference(a, b), size);
    }

    fn tested(&mut self, first: Operand, second: Operand) -> Value {
        if let Operand::Reg(r) = first
            && first == second
        {
            return Value::Guest(r);
        }
        let is_zero = matches!(first, Operand::Mem(_)) || self.has_zeros(first);
        let a = self.read(first, Extend::Any);
        let extend = match second {
            Operand::Imm(0..) => Extend::Zero,
            _ if is_zero || self.has_zeros(second) => Extend::Zero,
            _ => Extend::Any,
        };
        let t = self.temp();
        match second {
            Operand::Imm(n @ 0..4096) => self.rri("andi", t, a, n),
            _ => {
                let b = self.read(second, Extend::Any);
                self.rrr("and", t, a, b);
            }
        }
        Value::Scratch(t, extend)
    }

    /// An operand that is compared with another.
    fn value_of(&mut self, operand: Operand, other: Operand) -> Value {
        const SIGNED: u16 = 0xf000;
        match operand {
            Operand::Reg(r) => Value::Guest(r),
            Operand::Mem(m) => {
                let other_open = matches!(other, Operand::Reg(_)) && !self.has_zeros(other);
                let is_signed = self.has_conditions(SIGNED) || m.size == 4 && other_open;
                let extend = if is_signed { Extend::Sign } else { Extend::Zero };
                Value::Scratch(self.read(operand, extend), extend)
            }
            Operand::Imm(n) => Value::Number(n),
            Operand::Target(_) | Operand::Xmm(_) | Operand::Mm(_) => {
                unreachable!("neither is compared")
            }
        }
    }

    /// Whether the instruction begins a group that asks for an order of its operands.
    pub(super) fn needs_operands(&self, inst: &Inst) -> bool {
        const EQUALITY: u16 = 1 << 4 | 1 << 5;
        let is_difference = self.begins_group() && matches!(inst.row.stem, "sub" | "dec");
        is_difference && self.has_conditions(!EQUALITY)
    }

    /// What a subtraction at the begin of a group compares, before its result is written: the
    /// result alone if no order is asked for.
    pub(super) fn difference(&mut self, inst: &Inst, a: u8, b: u8) -> Option<Source> {
        if !self.needs_operands(inst) {
            return None;
        }
        let first = inst.operand(0);
        let a = match first {
            Operand::Reg(_) => Value::Scratch(self.copied(a), Extend::Any),
            _ => Value::Scratch(a, Extend::Zero),
        };
        let b = match (inst.operands().nth(1), first) {
            (Some(Operand::Reg(r)), Operand::Reg(d)) if r.number == d.number => {
                Value::Scratch(self.copied(b), Extend::Any)
            }
            (Some(Operand::Reg(r)), _) => Value::Guest(r),
            (Some(Operand::Imm(n)), _) => Value::Number(n),
            (Some(_), _) => Value::Scratch(b, Extend::Zero),
            (None, _) => Value::Number(1),
        };
        Some(Source::Difference(a, b))
    }

    /// What follows from the result of the instruction that begins a group.
    pub(super) fn result_source(inst: &Inst, d: u8) -> Source {
        let value = match inst.operand(0) {
            Operand::Reg(r) => Value::Guest(r),
            _ => Value::Scratch(d, Extend::Any),
        };
        match inst.row.stem {
            "and" | "or" | "xor" => Source::Logic(value),
            _ => Source::Result(value),
        }
    }

    /// Whether an operand of four bytes has zeros above it.
    pub(super) fn has_zeros(&self, operand: Operand) -> bool {
        match operand {
            Operand::Reg(r) => r.size == 4 && self.zeros >> r.number & 1 == 1,
            Operand::Mem(_) | Operand::Imm(_) | Operand::Target(_) => false,
            Operand::Xmm(_) | Operand::Mm(_) => false,
        }
    }

    /// Whether a value extended with zeros costs nothing.
    fn is_below(&self, value: Value) -> bool {
        match value {
            Value::Guest(r) => self.has_zeros(Operand::Reg(r)),
            Value::Scratch(_, extend) => extend == Extend::Zero,
            Value::Number(_) => true,
        }
    }

    /// A register with a value of so many bytes.
    fn extended(&mut self, value: Value, size: u8, extend: Extend) -> u8 {
        match value {
            Value::Guest(r) => self.part(r, extend),
            Value::Scratch(t, has) if has == extend || size == 8 => t,
            Value::Scratch(t, _) => {
                let wide = self.temp();
                self.extend(wide, t, size, extend);
                wide
            }
            Value::Number(n) if extend == Extend::Zero && size < 8 => {
                self.number(n & ((1 << (8 * size)) - 1))
            }
            Value::Number(n) => {
                let open = 64 - 8 * u32::from(size);
                self.number(n << open >> open)
            }
        }
    }

    /// A register that is zero if two values of four bytes are equal, by one instruction.
    fn narrow_difference(&mut self, a: Value, b: Value) -> Option<u8> {
        let Value::Guest(a) = a else { return None };
        let t = self.temp();
        match b {
            Value::Guest(b) => self.rrr("sub.w", t, la64(a.number), la64(b.number)),
            Value::Number(n @ -2047..2049) => self.rri("addi.w", t, la64(a.number), -n),
            Value::Scratch(..) | Value::Number(_) => return None,
        }
        Some(t)
    }

    /// The comparison that a condition is; `None` where flags tell it.
    fn relation(&mut self, condition: u8) -> Option<(Relation, u8, u8)> {
        let source = self.group?.source;
        let (source, size) = source.expect("invariant: a group's first instruction is compared");
        let kind = match source {
            Source::Difference(..) => Kind::Difference,
            Source::Logic(_) => Kind::Logic,
            Source::Result(_) => Kind::Result,
            Source::Floats => unreachable!("invariant: its condition flags are read"),
        };
        let rule = rule(kind, condition).expect("invariant: a group has no other conditions");
        let (a, b) = match source {
            Source::Difference(a, b) => (a, b),
            Source::Logic(a) | Source::Result(a) => (a, Value::Number(0)),
            Source::Floats => return None,
        };
        let is_signed = matches!(rule.relation, Relation::Less | Relation::NotLess);
        let is_equality = matches!(rule.relation, Relation::Equal | Relation::NotEqual);
        let both_below = self.is_below(a) && self.is_below(b);
        if is_equality
            && size == 4
            && !both_below
            && let Some(t) = self.narrow_difference(a, b)
        {
            return Some((rule.relation, t, 0));
        }
        // The order of numbers extended with their signs is the same without signs.
        let extend = match size {
            _ if is_signed => Extend::Sign,
            4 if !both_below => Extend::Sign,
            _ => Extend::Zero,
        };
        let (x, y) = (self.extended(a, size, extend), self.extended(b, size, extend));
        Some(if rule.is_swapped { (rule.relation, y, x) } else { (rule.relation, x, y) })
    }

    /// A branch that is taken if a condition of the group holds.
    pub(super) fn branch_if(&mut self, condition: u8, target: u64) -> bool {
        if self.compares_floats() {
            let place = self.float_flag(condition);
            let label = self.label_of(target);
            self.asm.branch("bcnez", &[place.into()], label);
            return true;
        }
        let Some((relation, a, b)) = self.relation(condition) else { return false };
        let name = match relation {
            Relation::Equal => "beq",
            Relation::NotEqual => "bne",
            Relation::Less => "blt",
            Relation::NotLess => "bge",
            Relation::Below => "bltu",
            Relation::NotBelow => "bgeu",
        };
        let label = self.label_of(target);
        match (name, b) {
            ("beq", 0) => self.asm.branch("beqz", &[a.into()], label),
            ("bne", 0) => self.asm.branch("bnez", &[a.into()], label),
            _ => self.asm.branch(name, &[a.into(), b.into()], label),
        }
        true
    }

    /// A register that is zero, or not zero (the second answer), exactly if a condition holds.
    pub(super) fn truth(&mut self, condition: u8) -> (u8, bool) {
        if self.compares_floats() {
            let t = self.temp();
            let place = self.float_flag(condition);
            self.rr("movcf2gr", t, place);
            return (t, true);
        }
        let held = self.temps_used;
        let Some((relation, a, b)) = self.relation(condition) else {
            return (self.condition(condition), true);
        };
        let (name, if_set) = match relation {
            Relation::Equal | Relation::NotEqual if b == 0 => {
                return (a, relation == Relation::NotEqual);
            }
            Relation::Equal => ("xor", false),
            Relation::NotEqual => ("xor", true),
            Relation::Less => ("slt", true),
            Relation::NotLess => ("slt", false),
            Relation::Below => ("sltu", true),
            Relation::NotBelow => ("sltu", false),
        };
        if !mutant!("x86_compared_parts_are_kept") {
            // What was made of the operands is needed no more: a long address leaves few.
            self.temps_used = held;
        }
        let t = self.temp();
        self.rrr(name, t, a, b);
        (t, if_set)
    }

    /// A register that is 1 if a condition holds, else 0.
    pub(super) fn bit_if(&mut self, condition: u8) -> u8 {
        if self.group.is_none() {
            return self.condition(condition);
        }
        let (c, if_set) = self.truth(condition);
        if self.compares_floats() {
            return c;
        }
        let t = self.temp();
        if if_set {
            self.rrr("sltu", t, 0, c);
        } else {
            self.rri("sltui", t, c, 1);
        }
        t
    }

    /// Which registers have zeros above their lower half behind an instruction: a result of 32
    /// bits clears what is above it.
    pub(super) fn follow_zeros(&mut self, inst: &Inst) {
        const KNOWN: [&str; 20] = [
            "mov", "movzx", "movsx", "movsxd", "lea", "add", "sub", "and", "or", "xor", "inc",
            "dec", "neg", "not", "shl", "shr", "sar", "imul", "cmov", "set",
        ];
        match (inst.row.stem, inst.operands().next()) {
            ("cmp" | "test" | "nop" | "endbr64", _) => {}
            (name, Some(Operand::Reg(r))) if KNOWN.contains(&name) => match r.size {
                4 => self.zeros |= 1 << r.number,
                8 if mutant!("x86_wide_results_have_zeros") => self.zeros |= 1 << r.number,
                8 => self.zeros &= !(1 << r.number),
                _ => {}
            },
            (name, Some(Operand::Mem(_))) if KNOWN.contains(&name) => {}
            _ => self.zeros = 0,
        }
    }
}
