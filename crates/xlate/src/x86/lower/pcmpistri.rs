//! pcmpistri: compares two strings in vector registers, each up to its first zero, and gives a
//! place. glibc's `strspn`, `strcspn`, `strpbrk` and `strcasecmp` of x86-64-v2 consist of it.
//!
//! - A set of places is a general register with one bit per element.
//! - The number that the instruction ends with is described in [`crate::x86::strings`], which
//!   executes the other three comparisons of strings outside translated code.
//! - Each loop goes over the first string from its end, at most 16 times, and accesses no memory.

use super::Lower;
use super::vector::lane;
use crate::x86::decode::Inst;
use crate::x86::isa::flag;
use crate::x86::registers::la64;
use littoral_base::mutant;

/// Guest register that gets the place.
const RCX: u8 = 1;

/// Two strings in vector registers.
struct Strings {
    a: u8,
    b: u8,
    /// Places before the ends, as sets.
    in_a: u8,
    in_b: u8,
    /// The number that the instruction ends with.
    control: i64,
}

impl Strings {
    /// Elements of a vector register.
    fn count(&self) -> i64 {
        16 >> (self.control & 1)
    }

    /// The suffix of LA64 instructions on the elements.
    fn suffix(&self) -> &'static str {
        lane(1 << (self.control & 1))
    }
}

impl Lower {
    pub(super) fn compare_strings(&mut self, inst: &Inst) {
        let (a, control) = (Self::destination(inst), Self::vector_immediate(inst));
        let held = self.temps_used;
        let b = self.vector(inst, inst.operand(1));
        // Of an address nothing is needed behind the load.
        self.temps_used = held;
        let (in_a, in_b) = (self.places_before_end(a, control), self.places_before_end(b, control));
        let strings = Strings { a, b, in_a, in_b, control };
        let found = match control >> 2 & 3 {
            0 => self.places_of_any(&strings),
            1 => self.places_in_ranges(&strings),
            2 => self.equal_places(&strings),
            _ => self.places_of_all(&strings),
        };
        self.negate_places(&strings, found);
        self.flags_of_strings(&strings, found);
        self.give_place(&strings, found);
    }

    /// Elements whose highest bit is set, as a set; the vector is scratch.
    fn set_of(&mut self, v: u8, suffix: &str) -> u8 {
        let t = self.temp();
        self.rr(&format!("vmskltz{suffix}"), v, v);
        self.rri("vpickve2gr.hu", t, v, 0);
        t
    }

    /// The places before the first zero: all bits below the lowest one that is clear.
    fn places_before_end(&mut self, v: u8, control: i64) -> u8 {
        let held = self.vectors_used;
        let x = self.vector_temp();
        self.vectors_used = held;
        let t = if control & 1 == 0 {
            let t = self.temp();
            self.rr("vmsknz.b", x, v);
            self.rri("vpickve2gr.hu", t, x, 0);
            t
        } else {
            self.rri("vseqi.h", x, v, 0);
            let t = self.set_of(x, ".h");
            self.rri("xori", t, t, 0xff);
            t
        };
        let next = self.temp();
        self.rri("addi.d", next, t, 1);
        self.rrr("xor", t, t, next);
        self.rri("srli.d", t, t, 1);
        self.spare.push(next);
        t
    }

    /// Code that goes over the elements of the first string, the last one first: `step` gets a
    /// register with the element's place.
    fn for_each_element(&mut self, of: &Strings, step: impl FnOnce(&mut Lower, u8)) {
        let place = self.temp();
        let done = self.asm.label();
        self.rr("cto.w", place, of.in_a);
        if of.control >> 2 & 3 == 1 {
            // An element without another one is no range.
            self.insert(place, 0, 0, 0);
        }
        self.asm.branch("beqz", &[place.into()], done);
        let top = self.asm.here();
        self.rri("addi.d", place, place, -1);
        step(self, place);
        self.asm.branch("bnez", &[place.into()], top);
        self.asm.bind(done);
        self.spare.push(place);
    }

    /// Elements of the second string that the first one has.
    fn places_of_any(&mut self, of: &Strings) -> u8 {
        let (sum, x, suffix) = (self.vector_temp(), self.vector_temp(), of.suffix());
        self.rrr("vxor.v", sum, sum, sum);
        self.for_each_element(of, |l, place| {
            l.rrr(&format!("vreplve{suffix}"), x, of.a, place);
            l.rrr(&format!("vseq{suffix}"), x, x, of.b);
            l.rrr("vor.v", sum, sum, x);
        });
        self.ended(of, sum)
    }

    /// Elements of the second string that lie between two neighbours of the first one.
    fn places_in_ranges(&mut self, of: &Strings) -> u8 {
        let (sum, x, y) = (self.vector_temp(), self.vector_temp(), self.vector_temp());
        let suffix = of.suffix();
        let sign = if of.control & 2 == 2 { "" } else { "u" };
        let order = format!("vsle{suffix}{sign}");
        self.rrr("vxor.v", sum, sum, sum);
        self.for_each_element(of, |l, place| {
            l.rrr(&format!("vreplve{suffix}"), x, of.a, place);
            l.rrr(&order, x, of.b, x);
            l.rri("addi.d", place, place, -1);
            l.rrr(&format!("vreplve{suffix}"), y, of.a, place);
            l.rrr(&order, y, y, of.b);
            l.rrr("vand.v", x, x, y);
            l.rrr("vor.v", sum, sum, x);
        });
        self.ended(of, sum)
    }

    /// Places of a mask of elements, without those behind the second string.
    fn ended(&mut self, of: &Strings, mask: u8) -> u8 {
        let found = self.set_of(mask, of.suffix());
        if !mutant!("x86_strings_find_past_end") {
            self.rrr("and", found, found, of.in_b);
        }
        found
    }

    /// Places at which both have the same element or have ended.
    fn equal_places(&mut self, of: &Strings) -> u8 {
        let (x, ended) = (self.vector_temp(), self.temp());
        self.rrr(&format!("vseq{}", of.suffix()), x, of.a, of.b);
        let found = self.set_of(x, of.suffix());
        self.rrr("and", found, found, of.in_a);
        self.rrr("and", found, found, of.in_b);
        self.rrr("nor", ended, of.in_a, of.in_b);
        self.rrr("or", found, found, ended);
        self.pick(found, found, of.count() - 1, 0);
        self.spare.push(ended);
        found
    }

    /// Places at which the first string begins, as far as the vector goes: each of its elements
    /// leaves those that many places before its own. Behind the vector all fit.
    fn places_of_all(&mut self, of: &Strings) -> u8 {
        let (x, suffix) = (self.vector_temp(), of.suffix());
        let (found, behind) = (self.number((1 << of.count()) - 1), self.number(-1 << of.count()));
        self.for_each_element(of, |l, place| {
            l.rrr(&format!("vreplve{suffix}"), x, of.a, place);
            l.rrr(&format!("vseq{suffix}"), x, x, of.b);
            let t = l.ended(of, x);
            l.rrr("or", t, t, behind);
            l.rrr("sra.d", t, t, place);
            l.rrr("and", found, found, t);
            l.spare.push(t);
        });
        self.spare.push(behind);
        found
    }

    /// Negates all places, or those before the second string's end.
    fn negate_places(&mut self, of: &Strings, found: u8) {
        match of.control >> 4 & 3 {
            1 => {
                let all = self.number((1 << of.count()) - 1);
                self.rrr("xor", found, found, all);
                self.spare.push(all);
            }
            3 => self.rrr("xor", found, found, of.in_b),
            _ => {}
        }
    }

    /// Carry: a place was found; zero, sign: the second and the first string end here; overflow:
    /// the first place was found.
    fn flags_of_strings(&mut self, of: &Strings, found: u8) {
        let last = of.count() - 1;
        let mut sum = 0;
        for own in [flag::C, flag::Z, flag::S, flag::O] {
            if !self.needs(own) {
                continue;
            }
            let t = self.temp();
            match own {
                flag::C => self.rrr("sltu", t, 0, found),
                flag::O => self.rri("andi", t, found, 1),
                _ => {
                    let whole = if own == flag::Z { of.in_b } else { of.in_a };
                    self.pick(t, whole, last, last);
                    self.rri("xori", t, t, 1);
                }
            }
            if self.is_plain() {
                self.set_flag(own, t);
                self.spare.push(t);
                continue;
            }
            let place = flag::PLACES[own.trailing_zeros() as usize];
            if place > 0 {
                self.rri("slli.d", t, t, place.into());
            }
            if sum != 0 {
                self.rrr("or", t, t, sum);
                self.spare.push(sum);
            }
            sum = t;
        }
        if self.is_plain() {
            self.clear_flags(flag::P | flag::A);
        } else if self.needs(flag::ALL) {
            self.op("x86mtflag", &[sum.into(), flag::ALL.into()]);
        }
    }

    /// The first or the last place to rcx; the number of elements if there is none.
    fn give_place(&mut self, of: &Strings, found: u8) {
        let rcx = la64(RCX);
        if of.control >> 6 & 1 == 0 {
            let end = self.number(1 << of.count());
            self.rrr("or", end, end, found);
            return self.rr("ctz.w", rcx, end);
        }
        let none = self.number(of.count());
        self.rr("clz.w", rcx, found);
        self.rri("xori", rcx, rcx, 31);
        self.rrr("maskeqz", rcx, rcx, found);
        self.rrr("masknez", none, none, found);
        self.rrr("or", rcx, rcx, none);
    }
}
