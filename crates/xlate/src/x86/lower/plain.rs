//! Flags without LBT: each has a place of its own, and plain instructions compute those that are
//! read from operands and results.
//!
//! | flag | place |
//! |---|---|
//! | carry, zero, sign, overflow, adjust | condition flags 4 to 7 and 3 |
//! | parity | byte 0 of word 1 of vector register [`COUNTS`]: the flag is the byte's even parity |
//!
//! - The direction is word 0 of the same register, the base of gs its doubleword 1.
//! - Flags that the manual leaves undefined stay as they are.
//! - Operands of less than 64 bits are shifted to the top of a register where carry or overflow is
//!   read: there they carry and overflow as 64 bits do.

use super::Lower;
use super::operand::Extend;
use super::shift::Count;
use crate::x86::isa::flag;
use crate::x86::registers::{COUNTS, SCR_DIRECTION, SCR_GS, TEMPS, VECTORS};
use littoral_base::mutant;
use littoral_la64::state::State;

/// Word of [`COUNTS`] that holds the direction.
const DIRECTION_WORD: i64 = 0;
/// Word of it whose low byte has the parity flag.
const PARITY_WORD: i64 = 1;
/// Doubleword of it that holds the base of gs.
const GS_LANE: i64 = 1;
/// Vector register for a count of bits.
const BITS: u8 = VECTORS[3];

/// The condition flag of each flag but parity, and the flag's place in RFLAGS.
const PLACES: [(u8, u8, u8); 5] =
    [(flag::C, 4, 0), (flag::Z, 5, 6), (flag::S, 6, 7), (flag::O, 7, 11), (flag::A, 3, 4)];

/// The condition flag that holds a flag.
fn place(of: u8) -> u8 {
    let found = PLACES.iter().find(|p| p.0 == of);
    found.expect("invariant: parity has another place").1
}

/// The place of a flag in RFLAGS.
fn bit(of: u8) -> u8 {
    flag::PLACES[of.trailing_zeros() as usize]
}

/// Moves flags, direction and the base of gs from the state's places to those of code without LBT.
pub(in crate::x86) fn open(state: &mut State) {
    for (_, place, bit) in PLACES {
        state.fcc[usize::from(place)] = (state.lbt.flags >> bit & 1) as u8;
    }
    let is_odd = u64::from(state.lbt.flags >> bit(flag::P) & 1 == 0);
    let direction = state.lbt.scratch[usize::from(SCR_DIRECTION)] as u32;
    let words = &mut state.v[COUNTS].0;
    words[0] = u64::from(direction) | is_odd << 32;
    words[1] = state.lbt.scratch[usize::from(SCR_GS)];
}

/// Moves them back.
pub(in crate::x86) fn close(state: &mut State) {
    let mut flags = 0;
    for (_, place, bit) in PLACES {
        flags |= u32::from(state.fcc[usize::from(place)] & 1) << bit;
    }
    let words = state.v[COUNTS].0;
    let is_even = (words[0] >> 32 & 0xff).count_ones().is_multiple_of(2);
    state.lbt.flags = flags | u32::from(is_even) << bit(flag::P);
    state.lbt.scratch[usize::from(SCR_DIRECTION)] = words[0] as i32 as i64 as u64;
    state.lbt.scratch[usize::from(SCR_GS)] = words[1];
}

/// A sum or a difference whose flags are made.
#[derive(Clone, Copy)]
struct Sum {
    is_difference: bool,
    carries: bool,
}

impl Lower {
    /// Whether the code uses no LBT instruction.
    pub(super) fn is_plain(&self) -> bool {
        self.conventions.without_lbt
    }

    /// A register with the direction.
    pub(super) fn read_direction(&mut self, t: u8) {
        match self.is_plain() {
            true => self.op("xvpickve2gr.w", &[t.into(), COUNTS as i64, DIRECTION_WORD]),
            false => self.op("movscr2gr", &[t.into(), SCR_DIRECTION.into()]),
        }
    }

    pub(super) fn write_direction(&mut self, from: u8) {
        match self.is_plain() {
            true => self.op("xvinsgr2vr.w", &[COUNTS as i64, from.into(), DIRECTION_WORD]),
            false => self.op("movgr2scr", &[SCR_DIRECTION.into(), from.into()]),
        }
    }

    /// A register with the base of gs.
    pub(super) fn read_gs(&mut self, t: u8) {
        match self.is_plain() {
            true => self.op("xvpickve2gr.d", &[t.into(), COUNTS as i64, GS_LANE]),
            false => self.op("movscr2gr", &[t.into(), SCR_GS.into()]),
        }
    }

    /// Sets one flag to bit 0 of a scratch register, which with LBT holds no other bit.
    pub(super) fn set_flag(&mut self, of: u8, from: u8) {
        if self.is_plain() {
            return self.set_plain(of, from);
        }
        let place = bit(of);
        if place > 0 && from > 0 {
            self.rri("slli.d", from, from, place.into());
        }
        self.op("x86mtflag", &[from.into(), of.into()]);
    }

    fn set_plain(&mut self, of: u8, from: u8) {
        if of != flag::P {
            return self.rr("movgr2cf", place(of), from);
        }
        // One bit has odd parity.
        let held = self.temps_used;
        let t = self.temp();
        self.rri("andi", t, from, 1);
        self.rri("xori", t, t, 1);
        self.keep_parity(t);
        self.temps_used = held;
    }

    /// The parity flag is that of a register's low byte.
    fn keep_parity(&mut self, from: u8) {
        self.op("xvinsgr2vr.w", &[COUNTS as i64, from.into(), PARITY_WORD]);
    }

    /// Sets those of some flags to zero that are read.
    pub(super) fn clear_flags(&mut self, flags: u8) {
        for n in 0..6 {
            if flags & 1 << n != 0 && self.needs(1 << n) {
                self.set_plain(1 << n, 0);
            }
        }
    }

    /// Sets one flag, if it is read, to a bit of a register; `t` is scratch.
    fn set_by_bit(&mut self, of: u8, from: u8, bit: u8, t: u8) {
        if !self.needs(of) {
            return;
        }
        match bit {
            0 => self.set_plain(of, from),
            _ => {
                self.rri("srli.d", t, from, bit.into());
                self.set_plain(of, t);
            }
        }
    }

    /// A register that is 1 if a flag is set, else 0.
    fn flag_bit(&mut self, of: u8) -> u8 {
        let t = self.temp();
        if of != flag::P {
            self.rr("movcf2gr", t, place(of));
            return t;
        }
        self.rr("vpcnt.b", BITS, COUNTS as u8);
        self.op("vpickve2gr.bu", &[t.into(), BITS.into(), 4 * PARITY_WORD]);
        self.rri("andi", t, t, 1);
        self.rri("xori", t, t, 1);
        t
    }

    /// A register that holds the carry.
    pub(super) fn carry_bit(&mut self) -> u8 {
        if self.is_plain() {
            return self.flag_bit(flag::C);
        }
        let t = self.temp();
        self.op("x86mfflag", &[t.into(), flag::C.into()]);
        t
    }

    /// Puts flags to their places of RFLAGS in a register of zeros otherwise.
    pub(super) fn flags_to(&mut self, t: u8, flags: u8) {
        if !self.is_plain() {
            return self.op("x86mfflag", &[t.into(), flags.into()]);
        }
        self.copy(t, 0);
        for n in (0..6).filter(|n| flags >> n & 1 == 1) {
            let held = self.temps_used;
            let one = self.flag_bit(1 << n);
            let place = flag::PLACES[n].into();
            self.insert(t, one, place, place);
            self.temps_used = held;
        }
    }

    /// Sets flags from their places of RFLAGS in a register.
    pub(super) fn flags_from(&mut self, from: u8, flags: u8) {
        if !self.is_plain() {
            return self.op("x86mtflag", &[from.into(), flags.into()]);
        }
        let held = self.temps_used;
        let t = self.temp();
        for n in (0..6).filter(|n| flags >> n & 1 == 1) {
            self.rri("srli.d", t, from, flag::PLACES[n].into());
            self.set_plain(1 << n, t);
        }
        self.temps_used = held;
    }

    /// A register that is 1 if a condition holds, else 0.
    pub(super) fn plain_condition(&mut self, condition: u8) -> u8 {
        let t = match condition >> 1 & 7 {
            0 => self.flag_bit(flag::O),
            1 => self.flag_bit(flag::C),
            2 => self.flag_bit(flag::Z),
            3 => self.either(flag::C, flag::Z, "or"),
            4 => self.flag_bit(flag::S),
            5 => self.flag_bit(flag::P),
            less => {
                let t = self.either(flag::S, flag::O, "xor");
                if less == 7 {
                    let zero = self.flag_bit(flag::Z);
                    self.rrr("or", t, t, zero);
                }
                t
            }
        };
        if condition & 1 == 1 {
            self.rri("xori", t, t, 1);
        }
        t
    }

    fn either(&mut self, a: u8, b: u8, how: &str) -> u8 {
        let (a, b) = (self.flag_bit(a), self.flag_bit(b));
        self.rrr(how, a, a, b);
        a
    }

    /// A branch that is taken if a condition holds.
    pub(super) fn plain_branch(&mut self, condition: u8, target: u64) {
        let is_negated = condition & 1 == 1;
        let single = match condition >> 1 & 7 {
            0 => Some(flag::O),
            1 => Some(flag::C),
            2 => Some(flag::Z),
            4 => Some(flag::S),
            _ => None,
        };
        if let Some(of) = single {
            let label = self.label_of(target);
            let name = if is_negated { "bceqz" } else { "bcnez" };
            return self.asm.branch(name, &[place(of).into()], label);
        }
        match condition >> 1 & 7 {
            3 => self.branch_by_two(is_negated, target),
            5 => {
                let c = self.plain_condition(condition);
                let label = self.label_of(target);
                self.asm.branch("bnez", &[c.into()], label);
            }
            less => {
                let (s, o) = (self.flag_bit(flag::S), self.flag_bit(flag::O));
                self.branch_by_order(less == 7, is_negated, (s, o), target);
            }
        }
    }

    /// Carry or zero; neither of them if negated.
    fn branch_by_two(&mut self, is_negated: bool, target: u64) {
        let (carry, zero) = (place(flag::C).into(), place(flag::Z).into());
        if is_negated {
            let over = self.asm.label();
            self.asm.branch("bcnez", &[carry], over);
            let label = self.label_of(target);
            self.asm.branch("bceqz", &[zero], label);
            return self.asm.bind(over);
        }
        for place in [carry, zero] {
            let label = self.label_of(target);
            self.asm.branch("bcnez", &[place], label);
        }
    }

    /// Sign unlike overflow, or zero if that counts; the contrary if negated.
    fn branch_by_order(&mut self, or_zero: bool, is_negated: bool, (s, o): (u8, u8), target: u64) {
        let zero = place(flag::Z).into();
        let over = (or_zero && is_negated).then(|| {
            let over = self.asm.label();
            self.asm.branch("bcnez", &[zero], over);
            over
        });
        if or_zero && !is_negated {
            let label = self.label_of(target);
            self.asm.branch("bcnez", &[zero], label);
        }
        let label = self.label_of(target);
        let name = if is_negated { "beq" } else { "bne" };
        self.asm.branch(name, &[s.into(), o.into()], label);
        if let Some(over) = over {
            self.asm.bind(over);
        }
    }

    /// What makes the flags next may take the instruction's scratch registers from one on, but
    /// those that are kept.
    pub(super) fn spare_temps(&mut self, from: usize, keep: &[u8]) {
        if self.is_plain() && self.needs(flag::ALL) {
            let used = TEMPS[from..self.temps_used].iter().copied();
            self.spare = used.filter(|t| !keep.contains(t)).collect();
        }
    }

    /// The flags that an LBT instruction of this name would leave.
    pub(super) fn plain_flags(&mut self, name: &str, size: u8, operands: &[u8]) {
        let held = self.temps_used;
        let (a, b) = (operands[0], operands.get(1).copied().unwrap_or_default());
        let sum = |is_difference, carries| Sum { is_difference, carries };
        match name {
            "x86add" => self.flags_of_sum(sum(false, false), size, a, b),
            "x86sub" => self.flags_of_sum(sum(true, false), size, a, b),
            "x86adc" => self.flags_of_sum(sum(false, true), size, a, b),
            "x86sbc" => self.flags_of_sum(sum(true, true), size, a, b),
            "x86inc" => self.flags_of_step(sum(false, false), size, a),
            "x86dec" => self.flags_of_step(sum(true, false), size, a),
            "x86mul" => self.plain_product(true, size, a, b),
            "x86and" | "x86or" | "x86xor" => {
                let r = if a == b && name != "x86xor" { a } else { self.temp() };
                if r != a {
                    self.rrr(&name[3..], r, a, b);
                }
                self.clear_flags(flag::C | flag::O);
                let t = self.temp();
                self.flags_of_result(r, (size, 0, 64 - 8 * size), t);
            }
            _ => unreachable!("{name} has a way of its own"),
        }
        self.temps_used = held;
        self.spare.clear();
    }

    /// Adding or subtracting one leaves the carry.
    fn flags_of_step(&mut self, sum: Sum, size: u8, a: u8) {
        let live = self.live;
        self.live &= !flag::C;
        let one = self.number(1);
        self.flags_of_sum(sum, size, a, one);
        self.live = live;
    }

    /// An operand shifted to the left.
    fn shifted_up(&mut self, a: u8, by: u8) -> u8 {
        if by == 0 || a == 0 {
            return a;
        }
        let t = self.temp();
        self.rri("slli.d", t, a, by.into());
        t
    }

    fn flags_of_sum(&mut self, sum: Sum, size: u8, a: u8, b: u8) {
        let up = if self.needs(flag::C | flag::O) { 64 - 8 * size } else { 0 };
        let (a, b) = (self.shifted_up(a, up), self.shifted_up(b, up));
        let name = if sum.is_difference { "sub" } else { "add" };
        let name = format!("{name}{}", if size == 4 && up == 0 { ".w" } else { ".d" });
        let (r, t) = (self.temp(), self.temp());
        self.rrr(&name, r, a, b);
        if sum.carries {
            self.carried_in(sum, &name, (a, b, r, t), up);
        } else if self.needs(flag::C) {
            let (x, y) = if sum.is_difference { (a, b) } else { (r, a) };
            self.rrr("sltu", t, x, y);
            self.set_plain(flag::C, t);
        }
        let open = if name.ends_with(".w") { 0 } else { 64 - 8 * size - up };
        self.flags_of_result(r, (size, up, open), t);
        if self.needs(flag::A) {
            self.rrr("xor", t, a, b);
            self.rrr("xor", t, t, r);
            self.set_by_bit(flag::A, t, up + 4, t);
        }
        if self.needs(flag::O) {
            // Operands of one sign, or of two, and a result of another sign than the first's.
            let u = self.temp();
            self.rrr("xor", t, a, r);
            let other = if sum.is_difference { a } else { r };
            self.rrr("xor", u, b, other);
            let wrong = mutant!("x86_plain_overflow_of_difference") && sum.is_difference;
            self.rrr(if wrong { "or" } else { "and" }, t, t, u);
            self.set_by_bit(flag::O, t, 63, t);
        }
    }

    /// Adds the carry to the sum r, or subtracts it from the difference, and sets the new one.
    fn carried_in(&mut self, sum: Sum, name: &str, (a, b, r, t): (u8, u8, u8, u8), up: u8) {
        let needs_carry = self.needs(flag::C);
        let carry = self.flag_bit(flag::C);
        if up > 0 {
            self.rri("slli.d", carry, carry, up.into());
        }
        if !needs_carry {
            return self.rrr(name, r, r, carry);
        }
        // It carries where the first operation does, and where the second does.
        if sum.is_difference {
            let u = self.temp();
            self.rrr("sltu", t, a, b);
            self.rrr("sltu", u, r, carry);
            self.rrr(name, r, r, carry);
            self.rrr("or", t, t, u);
        } else {
            self.rrr("sltu", t, r, a);
            self.rrr(name, r, r, carry);
            self.rrr("sltu", carry, r, carry);
            if !mutant!("x86_plain_carry_of_one_sum") {
                self.rrr("or", t, t, carry);
            }
        }
        self.set_plain(flag::C, t);
    }

    /// Zero, sign and parity of a result that stands so many bits (`up`) above a register's lowest;
    /// so many bits above it are open. `t` is scratch.
    fn flags_of_result(&mut self, r: u8, (size, up, open): (u8, u8, u8), t: u8) {
        let bits = 8 * size;
        if self.needs(flag::Z) {
            let whole = if open > 0 { t } else { r };
            if open > 0 {
                self.rri("slli.d", t, r, open.into());
            }
            self.rri("sltui", t, whole, 1);
            self.set_plain(flag::Z, t);
        }
        self.set_by_bit(flag::S, r, up + bits - 1, t);
        if self.needs(flag::P) {
            let byte = if up > 0 { t } else { r };
            if up > 0 {
                self.rri("srli.d", t, r, up.into());
            }
            self.keep_parity(byte);
        }
    }

    /// Carry and overflow of a product: whether it does not fit. The operands of an unsigned one
    /// have zeros above them.
    pub(super) fn plain_product(&mut self, signed: bool, size: u8, a: u8, b: u8) {
        if !self.needs(flag::C | flag::O) {
            return;
        }
        let held = self.temps_used;
        let (t, u) = (self.temp(), self.temp());
        match (signed, size) {
            (true, 8) => {
                self.rrr("mul.d", t, a, b);
                self.rrr("mulh.d", u, a, b);
                self.rri("srai.d", t, t, 63);
                self.rrr("xor", t, t, u);
            }
            (true, _) => {
                self.extend(t, a, size, Extend::Sign);
                self.extend(u, b, size, Extend::Sign);
                self.rrr("mul.d", t, t, u);
                self.extend(u, t, size, Extend::Sign);
                self.rrr("xor", t, t, u);
            }
            (false, 8) => self.rrr("mulh.du", t, a, b),
            (false, _) => {
                self.rrr("mul.d", t, a, b);
                self.rri("srli.d", t, t, 8 * i64::from(size));
            }
        }
        self.rrr("sltu", t, 0, t);
        self.set_by_bit(flag::C, t, 0, t);
        self.set_by_bit(flag::O, t, 0, t);
        self.temps_used = held;
    }

    /// Flags of shl, shr, sar and shrd with the result r; those of shld are shl's.
    pub(super) fn plain_shift(&mut self, name: &str, (a, r): (u8, u8), count: Count, size: u8) {
        if !self.needs(flag::ALL & !flag::A) {
            return;
        }
        let held = self.temps_used;
        let (skip, t) = (self.unless_zero(count), self.temp());
        let bits = 8 * size;
        if self.needs(flag::C) {
            self.shifted_out(name, a, count, size, t);
            self.set_plain(flag::C, t);
        }
        match name {
            "shl" | "shrd" if self.needs(flag::O) => {
                self.rrr("xor", t, a, r);
                self.set_by_bit(flag::O, t, bits - 1, t);
            }
            "shr" => self.set_by_bit(flag::O, a, bits - 1, t),
            _ => self.clear_flags(flag::O),
        }
        self.flags_of_result(r, (size, 0, 64 - bits), t);
        self.bind_skip(skip);
        self.temps_used = held;
    }

    /// t = the bit of a that was shifted out last, in bit 0.
    fn shifted_out(&mut self, name: &str, a: u8, count: Count, size: u8, t: u8) {
        let bits = 8 * i64::from(size);
        match (name, count.fixed, size) {
            ("shl", Some(c), _) if i64::from(c) <= bits => {
                self.rri("srli.d", t, a, bits - i64::from(c));
            }
            ("shl", Some(_), _) => self.copy(t, 0),
            ("shl", None, 8) => {
                self.rrr("sub.d", t, 0, count.register);
                self.rrr("srl.d", t, a, t);
            }
            ("shl", None, _) => {
                self.rrr("sll.d", t, a, count.register);
                self.rri("srli.d", t, t, bits);
            }
            (_, Some(c), _) => self.rri("srli.d", t, a, i64::from(c) - 1),
            (_, None, _) => {
                self.rri("addi.d", t, count.register, -1);
                self.rrr(if name == "sar" { "sra.d" } else { "srl.d" }, t, a, t);
            }
        }
    }

    /// r = a of 8 or 16 bits rotated to the right.
    pub(super) fn rotated_narrow(&mut self, r: u8, a: u8, count: u8, size: u8) {
        let t = self.temp();
        self.rrr("or", t, a, 0);
        if size == 1 {
            self.insert(t, t, 15, 8);
        }
        self.insert(t, t, 31, 16);
        self.rrr("rotr.w", r, t, count);
    }

    /// Carry and overflow of a rotation with the result r; `carry` holds what went round last.
    pub(super) fn plain_rotation(
        &mut self,
        left: bool,
        (r, carry): (u8, u8),
        count: Count,
        size: u8,
    ) {
        if !self.needs(flag::C | flag::O) {
            return;
        }
        let held = self.temps_used;
        let (skip, bits) = (self.unless_zero(count), 8 * size);
        if self.needs(flag::O) {
            let (t, u) = (self.temp(), self.temp());
            self.rri("srli.d", t, r, i64::from(bits) - 1);
            let other = if left { carry } else { u };
            if !left {
                self.rri("srli.d", u, r, i64::from(bits) - 2);
            }
            self.rrr("xor", t, t, other);
            self.set_plain(flag::O, t);
        }
        self.set_by_bit(flag::C, carry, 0, carry);
        self.bind_skip(skip);
        self.temps_used = held;
    }

    /// r = a rotated with the carry as one ring, to the right or left; the new carry is bit 0 of
    /// the answer. The bits of a above its size are zeros.
    pub(super) fn rotated_by_carry(
        &mut self,
        left: bool,
        (r, a): (u8, u8),
        count: Count,
        size: u8,
    ) -> u8 {
        let carry = self.flag_bit(flag::C);
        if size == 8 {
            return self.rotated_wide(left, (r, a, carry), count);
        }
        let bits = 8 * i64::from(size);
        let (n, t) = (self.temp(), self.temp());
        self.rri("slli.d", t, carry, bits);
        self.rrr("or", carry, t, a);
        self.asm.li(t, bits + 1);
        self.rrr("mod.d", n, count.register, t);
        self.rrr("sub.d", t, t, n);
        let (own, other) = if left { ("sll.d", "srl.d") } else { ("srl.d", "sll.d") };
        self.rrr(other, t, carry, t);
        self.rrr(own, r, carry, n);
        self.rrr("or", r, r, t);
        self.rri("srli.d", t, r, bits);
        t
    }

    /// The same of 64 bits.
    fn rotated_wide(&mut self, left: bool, (r, a, carry): (u8, u8, u8), count: Count) -> u8 {
        let (n, t) = (self.temp(), self.temp());
        let c = count.register;
        let done = self.asm.label();
        self.rrr("or", r, a, 0);
        self.asm.branch("beqz", &[c.into()], done);
        let (own, other, one) =
            if left { ("sll.d", "srl.d", "srli.d") } else { ("srl.d", "sll.d", "slli.d") };
        // The carry stands beside the end that comes in.
        self.rrr("sub.d", n, 0, c);
        self.rrr(other, t, a, n);
        self.rri(one, r, t, 1);
        if left {
            self.rri("addi.d", n, c, -1);
        }
        self.rrr("sll.d", carry, carry, n);
        self.rrr("or", r, r, carry);
        // What comes out last.
        if left {
            self.copy(carry, t);
        } else {
            self.rri("addi.d", n, c, -1);
            self.rrr("srl.d", carry, a, n);
        }
        self.rrr(own, t, a, c);
        self.rrr("or", r, r, t);
        self.asm.bind(done);
        carry
    }
}
