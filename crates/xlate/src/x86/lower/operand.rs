//! Operands: addresses, loads and stores, parts of registers.

use super::{Lower, suffix};
use crate::x86::decode::{Inst, Mem, Operand, Reg, Segment};
use crate::x86::isa::flag;
use crate::x86::registers::{FAR, FS, TEMPS, la64};

const SIGNED_12: std::ops::Range<i64> = -2048..2048;

/// What a register holds above an operand's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extend {
    /// Anything.
    Any,
    /// Zeros.
    Zero,
    /// Copies of the sign.
    Sign,
}

/// Where an operand in memory lies: a register and a displacement of 12 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) base: u8,
    pub(super) displacement: i64,
}

/// An operand that is read and then written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Reg(Reg),
    Mem(Place, u8),
}

impl Lower {
    /// A register with a guest address, relative to the code where that is shorter.
    pub(super) fn guest_address(&mut self, t: u8, address: u64) {
        let low = self.guest_page(t, address);
        if low != 0 {
            self.rri("addi.d", t, t, low);
        }
    }

    /// A register with a number near a guest address, and what is missing, of 12 bits.
    fn guest_page(&mut self, t: u8, address: u64) -> i64 {
        let here = self.base + 4 * u64::from(self.word());
        let distance = address.wrapping_sub(here) as i64;
        let upper = distance.wrapping_add(0x800) >> 12;
        if (-0x8_0000..0x8_0000).contains(&upper) {
            self.op("pcaddu12i", &[t.into(), upper]);
            distance - (upper << 12)
        } else {
            self.asm.li(t, address as i64);
            0
        }
    }

    /// Sets a register to a number near another; what is missing, of 12 bits, goes with the access.
    fn number_near(&mut self, d: u8, number: i64, is_address: bool) -> i64 {
        if is_address {
            return self.guest_page(d, number as u64);
        }
        let low = number << 52 >> 52;
        self.asm.li(d, number.wrapping_sub(low));
        low
    }

    /// A number near one that a register keeps, and what is missing, of 12 bits. The register is
    /// set where none is near; a guest address is made from that of the code where that is shorter.
    fn far(&mut self, number: i64, is_address: bool) -> Place {
        if !self.keeps_far {
            let base = self.temp();
            let displacement = self.number_near(base, number, is_address);
            return Place { base, displacement };
        }
        let near = |kept: i64| SIGNED_12.contains(&number.wrapping_sub(kept));
        let known = |&n: &usize| self.far_kept[n].is_some_and(near);
        let n = (0..FAR.len()).find(known).unwrap_or_else(|| {
            self.far_last = (self.far_last + 1) % FAR.len();
            let (n, base) = (self.far_last, FAR[self.far_last]);
            let low = self.number_near(base, number, is_address);
            self.far_kept[n] = Some(number.wrapping_sub(low));
            n
        });
        let kept = self.far_kept[n].expect("invariant: it was found or set");
        Place { base: FAR[n], displacement: number.wrapping_sub(kept) }
    }

    /// Whether the far registers may keep what an instruction sets: all of its code is always run,
    /// and it needs few scratch registers.
    pub(super) fn is_straight(&self, inst: &Inst) -> bool {
        const STRAIGHT: [&str; 24] = [
            "mov", "movzx", "movsx", "movsxd", "lea", "add", "sub", "and", "or", "xor", "adc",
            "sbb", "inc", "dec", "neg", "not", "cmp", "test", "imul", "cmov", "set", "push", "pop",
            "nop",
        ];
        let is_shift = matches!(inst.row.stem, "shl" | "shr" | "sar");
        let is_straight = STRAIGHT.contains(&inst.row.stem)
            || is_shift && inst.fixed_count().is_some()
            || inst.writes_only_vectors();
        // Flags without LBT take scratch registers too, beside those of a long address.
        let is_long = |m: Mem| m.short || m.segment.is_some();
        let computes = matches!(inst.row.stem, "adc" | "sbb") || inst.memory().is_some_and(is_long);
        !inst.lock && is_straight && !(self.is_plain() && self.needs(flag::ALL) && computes)
    }

    /// A register for what is made of another: the same, if that is scratch.
    fn scratch_like(&mut self, register: u8) -> u8 {
        let is_scratch = TEMPS.contains(&register) && !FAR.contains(&register);
        if is_scratch { register } else { self.temp() }
    }

    /// The address of an operand, without its segment's base: a register and a displacement.
    pub(super) fn offset(&mut self, m: &Mem) -> Place {
        let is_near = !m.relative && SIGNED_12.contains(&m.displacement);
        let (far, displacement) = match is_near {
            true => (None, m.displacement),
            false => {
                let place = self.far(m.displacement, m.relative);
                (Some(place.base), place.displacement)
            }
        };
        let start = match (m.base.map(la64), far) {
            (Some(base), Some(far)) => {
                let t = self.scratch_like(far);
                self.rrr("add.d", t, far, base);
                Some(t)
            }
            (base, far) => base.or(far),
        };
        let base = match (start, m.index) {
            (start, None) => start.unwrap_or_default(),
            (None, Some((index, 0))) => la64(index),
            (None, Some((index, scale))) => {
                let t = self.temp();
                self.rri("slli.d", t, la64(index), scale.into());
                t
            }
            (Some(start), Some((index, scale))) => {
                let (t, index) = (self.scratch_like(start), la64(index));
                match scale {
                    0 => self.rrr("add.d", t, start, index),
                    _ => self.op("alsl.d", &[t, index, start, scale].map(i64::from)),
                }
                t
            }
        };
        self.shortened(m, Place { base, displacement })
    }

    /// An address of 32 bits where the instruction says so.
    fn shortened(&mut self, m: &Mem, place: Place) -> Place {
        if !m.short {
            return place;
        }
        let t = self.temp();
        self.rri("addi.d", t, place.base, place.displacement);
        self.pick(t, t, 31, 0);
        Place { base: t, displacement: 0 }
    }

    /// Where an operand lies.
    pub(super) fn place(&mut self, m: &Mem) -> Place {
        let place = self.offset(m);
        self.based(m, place)
    }

    /// Where an operand lies, so many bytes (in a register) beyond its address.
    pub(super) fn place_beyond(&mut self, m: &Mem, bytes: u8) -> Place {
        let place = self.offset(m);
        let t = self.temp();
        self.rrr("add.d", t, bytes, place.base);
        let place = self.shortened(m, Place { base: t, ..place });
        self.based(m, place)
    }

    /// A place with its segment's base.
    fn based(&mut self, m: &Mem, place: Place) -> Place {
        let Some(segment) = m.segment else { return place };
        let t = self.temp();
        let base = match segment {
            Segment::Fs => FS,
            Segment::Gs => {
                self.read_gs(t);
                t
            }
        };
        self.rrr("add.d", t, base, place.base);
        Place { base: t, ..place }
    }

    /// The address of a place in one register.
    pub(super) fn exact(&mut self, place: Place) -> u8 {
        if place.displacement == 0 {
            return place.base;
        }
        let t = self.temp();
        self.rri("addi.d", t, place.base, place.displacement);
        t
    }

    pub(super) fn load_to(&mut self, d: u8, place: Place, size: u8, extend: Extend) {
        let unsigned = size < 8 && extend != Extend::Sign;
        let name = format!("ld{}{}", suffix(size), if unsigned { "u" } else { "" });
        self.rri(&name, d, place.base, place.displacement);
    }

    /// Loads an operand; one at the sum of two registers by one instruction.
    pub(super) fn load_operand(&mut self, d: u8, m: &Mem, extend: Extend) {
        let is_plain = !m.short && m.segment.is_none() && m.displacement == 0;
        if let (Some(base), Some((index, 0))) = (m.base, m.index)
            && is_plain
        {
            let unsigned = m.size < 8 && extend != Extend::Sign;
            let name = format!("ldx{}{}", suffix(m.size), if unsigned { "u" } else { "" });
            return self.rrr(&name, d, la64(base), la64(index));
        }
        let place = self.place(m);
        self.load_to(d, place, m.size, extend);
    }

    pub(super) fn load(&mut self, place: Place, size: u8, extend: Extend) -> u8 {
        let t = self.temp();
        self.load_to(t, place, size, extend);
        t
    }

    pub(super) fn store(&mut self, value: u8, place: Place, size: u8) {
        let name = format!("st{}", suffix(size));
        self.rri(&name, value, place.base, place.displacement);
    }

    /// A register with an operand; not to be written.
    pub(super) fn read(&mut self, operand: Operand, extend: Extend) -> u8 {
        match operand {
            Operand::Reg(r) => self.part(r, extend),
            Operand::Mem(m) => {
                let t = self.temp();
                self.load_operand(t, &m, extend);
                t
            }
            Operand::Imm(value) => self.number(value),
            Operand::Target(address) => self.number(address as i64),
            Operand::Xmm(_) | Operand::Mm(_) => unreachable!("vectors are read as such"),
        }
    }

    /// A register with a part of a guest register.
    pub(super) fn part(&mut self, r: Reg, extend: Extend) -> u8 {
        let from = la64(r.number);
        if r.high {
            let t = self.temp();
            self.pick(t, from, 15, 8);
            if extend == Extend::Sign {
                self.rr("ext.w.b", t, t);
            }
            return t;
        }
        let has_zeros = extend == Extend::Zero && self.has_zeros(Operand::Reg(r));
        if r.size == 8 || extend == Extend::Any || has_zeros {
            return from;
        }
        let t = self.temp();
        self.extend(t, from, r.size, extend);
        t
    }

    /// Extends the low `size` bytes of a register.
    pub(super) fn extend(&mut self, d: u8, a: u8, size: u8, extend: Extend) {
        match (extend, size) {
            (Extend::Any, _) | (_, 8) => self.copy(d, a),
            (Extend::Zero, _) => self.pick(d, a, 8 * i64::from(size) - 1, 0),
            (Extend::Sign, 4) => self.rri("addi.w", d, a, 0),
            (Extend::Sign, 2) => self.rr("ext.w.h", d, a),
            (Extend::Sign, _) => self.rr("ext.w.b", d, a),
        }
    }

    /// Writes the low bits of a register to a guest register; `extend` says what is above them.
    pub(super) fn write(&mut self, r: Reg, value: u8, extend: Extend) {
        let d = la64(r.number);
        match (r.size, r.high) {
            (8, _) => self.copy(d, value),
            (4, _) if extend == Extend::Zero => self.copy(d, value),
            (4, _) => self.pick(d, value, 31, 0),
            (2, _) => self.insert(d, value, 15, 0),
            (_, true) => self.insert(d, value, 15, 8),
            (_, false) => self.insert(d, value, 7, 0),
        }
    }

    /// An operand that will be written: its register, or its address computed once.
    pub(super) fn target(&mut self, operand: Operand) -> Target {
        match operand {
            Operand::Reg(r) => Target::Reg(r),
            Operand::Mem(m) => Target::Mem(self.place(&m), m.size),
            Operand::Xmm(_) | Operand::Mm(_) | Operand::Imm(_) | Operand::Target(_) => {
                unreachable!("neither a vector nor a number is such a destination")
            }
        }
    }

    pub(super) fn read_target(&mut self, target: Target, extend: Extend) -> u8 {
        match target {
            Target::Reg(r) => self.part(r, extend),
            Target::Mem(place, size) => self.load(place, size, extend),
        }
    }

    /// The store of a result; a register is written later, behind the flags.
    pub(super) fn store_target(&mut self, target: Target, value: u8) {
        if let Target::Mem(place, size) = target {
            self.store(value, place, size);
        }
    }

    /// The write of a result to a register, behind the flags.
    pub(super) fn write_target(&mut self, target: Target, value: u8, extend: Extend) {
        if let Target::Reg(r) = target {
            self.write(r, value, extend);
        }
    }

    /// Writes an operand that nothing of the instruction reads afterwards.
    pub(super) fn assign(&mut self, operand: Operand, value: u8, extend: Extend) {
        let target = self.target(operand);
        self.store_target(target, value);
        self.write_target(target, value, extend);
    }
}
