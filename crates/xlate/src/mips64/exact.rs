//! An exact interpreter of MIPS64: the oracle of the translator. It decodes by itself, one
//! instruction at a time, and shares no table with the translator.
//!
//! What the manual leaves open is as the translator has it: division by zero gives the dividend and
//! remainder 0, 32-bit operations read the lower half of their operands.

mod floating;

use crate::event::Event;
use littoral_la64::memory::Window;

/// Registers of a MIPS64 thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// General registers.
    pub r: [u64; 32],
    /// Upper half of a product, remainder.
    pub hi: u64,
    /// Lower half of a product, quotient.
    pub lo: u64,
    /// Address of the next instruction.
    pub pc: u64,
    /// What `rdhwr $29` reads.
    pub thread: u64,
    /// Floating-point registers.
    pub f: [u64; 32],
    /// Control and status of floating point.
    pub fcsr: u32,
}

/// A machine on a window's memory below `end`; what `executable` holds may be fetched.
pub struct Exact<'a> {
    /// Registers.
    pub machine: Machine,
    /// Memory.
    pub window: &'a Window,
    /// End of the guest's addresses.
    pub end: u64,
    /// Executable addresses.
    pub executable: std::ops::Range<u64>,
    /// Address of the open load-linked and what it read.
    pub link: Option<(u64, u64)>,
    /// An operation met a signalling NaN, which the translator takes for a quiet one.
    pub met_signalling: bool,
    /// What `ctc1` wrote before the exception that it is itself.
    pub written_control: Option<u32>,
}

type Step<T = ()> = Result<T, Event>;

const fn word(value: u64) -> u64 {
    value as i32 as i64 as u64
}

fn select(condition: bool, yes: u64, no: u64) -> u64 {
    if condition { yes } else { no }
}

/// The fields of an instruction word.
#[derive(Clone, Copy)]
struct Fields(u32);

impl Fields {
    fn at(self, lo: u32, width: u32) -> u32 {
        self.0 >> lo & ((1 << width) - 1)
    }
    fn s(self) -> usize {
        self.at(21, 5) as usize
    }
    fn t(self) -> usize {
        self.at(16, 5) as usize
    }
    fn d(self) -> usize {
        self.at(11, 5) as usize
    }
    fn amount(self) -> u32 {
        self.at(6, 5)
    }
    fn signed(self) -> u64 {
        self.0 as i16 as i64 as u64
    }
    fn unsigned(self) -> u64 {
        u64::from(self.0 as u16)
    }
}

/// Where control goes behind an instruction.
enum Next {
    /// To the following one.
    On,
    /// To this address behind the delay slot.
    To(u64),
    /// Over the delay slot.
    Over,
}

impl Exact<'_> {
    fn fetch(&self, pc: u64) -> Step<u32> {
        let may = pc.is_multiple_of(4) && self.executable.contains(&pc);
        may.then(|| self.window.load::<u32>(pc)).flatten().ok_or(Event::Fetch(pc))
    }

    /// Executes one instruction, a branch with its delay slot.
    ///
    /// # Errors
    /// What the owner must do; the pc is at the instruction, behind a system call.
    pub fn step(&mut self) -> Step {
        let pc = self.machine.pc;
        let before = self.machine.clone();
        let result = self.fetch(pc).and_then(|word| self.execute(pc, word, false));
        let result = match result {
            Ok(Next::On) => return self.go(pc + 4),
            Ok(Next::Over) => return self.go(pc + 8),
            Ok(Next::To(target)) => {
                let slot = pc + 4;
                let slot_word = self.fetch(slot);
                match slot_word.and_then(|word| self.execute(slot, word, true)) {
                    Ok(_) => return self.go(target),
                    Err(event) => Err(event),
                }
            }
            Err(event) => Err(event),
        };
        match result {
            Err(Event::Syscall) => self.machine.pc = pc + 4,
            // The branch of such a slot is not begun.
            Err(Event::Illegal(_) | Event::Fetch(_)) => self.machine = before,
            // A fault in a delay slot begins with the branch again, whose link is then written.
            _ => {
                let fcsr = self.written_control.take().unwrap_or(before.fcsr);
                self.machine = Machine { r: self.machine.r, fcsr, ..before };
            }
        }
        result
    }

    fn go(&mut self, pc: u64) -> Step {
        self.machine.pc = pc;
        Ok(())
    }

    fn set(&mut self, register: usize, value: u64) -> Step<Next> {
        // The kernel's registers hold nothing for a user program.
        if ![0, 26, 27].contains(&register) {
            self.machine.r[register] = value;
        }
        Ok(Next::On)
    }

    fn execute(&mut self, pc: u64, word: u32, in_slot: bool) -> Step<Next> {
        let f = Fields(word);
        let opcode = f.at(26, 6);
        let flow = matches!(opcode, 1..=7 | 0x14..=0x17) && !(opcode == 1 && f.at(16, 5) & 8 != 0)
            || opcode == 1 && f.t() == 31
            || opcode == 0 && matches!(f.at(0, 6), 8 | 9 | 12)
            || opcode == 0x11 && f.at(21, 5) == 8;
        if in_slot && flow {
            return Err(Event::Illegal(word));
        }
        match opcode {
            0 => self.special(pc, f),
            1 => self.register_immediate(pc, f),
            2 | 3 => {
                if opcode == 3 {
                    self.machine.r[31] = pc + 8;
                }
                Ok(Next::To((pc + 4) & !0x0fff_ffff | u64::from(f.at(0, 26)) << 2))
            }
            4..=7 | 0x14..=0x17 => self.branch(pc, f, opcode),
            8..=15 | 0x18 | 0x19 => self.immediate(f, opcode),
            0x11 => self.float(pc, f),
            0x13 => self.float_extended(f),
            0x31 | 0x35 | 0x39 | 0x3d => self.float_access(f, opcode),
            0x1c => self.special2(f),
            0x1f => self.special3(f),
            0x33 => Ok(Next::On),
            _ => self.access(f, opcode),
        }
    }

    fn special(&mut self, pc: u64, f: Fields) -> Step<Next> {
        let (s, t) = (self.machine.r[f.s()], self.machine.r[f.t()]);
        let (d, a) = (f.d(), f.amount());
        let rotates = f.at(21, 5) == 1;
        let rotates_by_register = a == 1;
        match f.at(0, 6) {
            0x00 => self.set(d, word(t << a)),
            0x01 => self.move_by_condition(f),
            0x02 if rotates => self.set(d, word(u64::from((t as u32).rotate_right(a)))),
            0x02 => self.set(d, word(u64::from(t as u32 >> a))),
            0x03 => self.set(d, (t as i32 >> a) as i64 as u64),
            0x04 => self.set(d, word(t << (s & 31))),
            0x06 if rotates_by_register => {
                self.set(d, word(u64::from((t as u32).rotate_right(s as u32 & 31))))
            }
            0x06 => self.set(d, word(u64::from(t as u32 >> (s & 31)))),
            0x07 => self.set(d, (t as i32 >> (s & 31)) as i64 as u64),
            0x08 => Ok(Next::To(s)),
            0x09 => {
                self.set(d, pc + 8)?;
                Ok(Next::To(s))
            }
            0x0a => self.set(d, select(t == 0, s, self.machine.r[d])),
            0x0b => self.set(d, select(t != 0, s, self.machine.r[d])),
            0x0c => Err(Event::Syscall),
            0x0d => Err(Event::Break(f.at(6, 20))),
            0x0f => Ok(Next::On),
            0x10 => self.set(d, self.machine.hi),
            0x12 => self.set(d, self.machine.lo),
            0x11 => self.products(self.machine.lo, s),
            0x13 => self.products(s, self.machine.hi),
            0x14 => self.set(d, t << (s & 63)),
            0x16 if rotates_by_register => self.set(d, t.rotate_right(s as u32 & 63)),
            0x16 => self.set(d, t >> (s & 63)),
            0x17 => self.set(d, (t as i64 >> (s & 63)) as u64),
            0x18..=0x1f => self.multiply(f.at(0, 6), s, t),
            0x20..=0x2f => self.arithmetic(f, s, t),
            0x30..=0x36 => {
                let holds = match f.at(0, 6) {
                    0x30 => s as i64 >= t as i64,
                    0x31 => s >= t,
                    0x32 => (s as i64) < t as i64,
                    0x33 => s < t,
                    0x34 => s == t,
                    _ => s != t,
                };
                if holds { Err(Event::Trap(f.at(6, 10))) } else { Ok(Next::On) }
            }
            0x38 => self.set(d, t << a),
            0x3a if rotates => self.set(d, t.rotate_right(a)),
            0x3a => self.set(d, t >> a),
            0x3b => self.set(d, (t as i64 >> a) as u64),
            0x3c => self.set(d, t << (a + 32)),
            0x3e if rotates => self.set(d, t.rotate_right(a + 32)),
            0x3e => self.set(d, t >> (a + 32)),
            0x3f => self.set(d, (t as i64 >> (a + 32)) as u64),
            _ => Err(Event::Illegal(f.0)),
        }
    }

    fn products(&mut self, lo: u64, hi: u64) -> Step<Next> {
        (self.machine.lo, self.machine.hi) = (lo, hi);
        Ok(Next::On)
    }

    fn multiply(&mut self, function: u32, s: u64, t: u64) -> Step<Next> {
        let (sw, tw) = (i64::from(s as i32), i64::from(t as i32));
        let (su, tu) = (u64::from(s as u32), u64::from(t as u32));
        match function {
            0x18 => {
                let product = sw * tw;
                self.products(word(product as u64), (product >> 32) as u64)
            }
            0x19 => {
                let product = su * tu;
                self.products(word(product), word(product >> 32))
            }
            0x1a if tw == 0 => self.products(sw as u64, 0),
            0x1a => self.products(word((sw / tw) as u64), word((sw % tw) as u64)),
            0x1b => {
                let (q, r) = (su.checked_div(tu).unwrap_or(su), su.checked_rem(tu).unwrap_or(0));
                self.products(word(q), word(r))
            }
            0x1c => {
                let product = i128::from(s as i64) * i128::from(t as i64);
                self.products(product as u64, (product >> 64) as u64)
            }
            0x1d => {
                let product = u128::from(s) * u128::from(t);
                self.products(product as u64, (product >> 64) as u64)
            }
            0x1e if t == 0 => self.products(s, 0),
            0x1e => {
                let (s, t) = (s as i64, t as i64);
                self.products(s.wrapping_div(t) as u64, s.wrapping_rem(t) as u64)
            }
            _ => self.products(s.checked_div(t).unwrap_or(s), s.checked_rem(t).unwrap_or(0)),
        }
    }

    fn arithmetic(&mut self, f: Fields, s: u64, t: u64) -> Step<Next> {
        let (sw, tw) = (s as i32, t as i32);
        let trapping = |sum: Option<i64>| sum.map(|v| v as u64).ok_or(Event::Overflow);
        let value = match f.at(0, 6) {
            0x20 => trapping(sw.checked_add(tw).map(i64::from))?,
            0x21 => word(s.wrapping_add(t)),
            0x22 => trapping(sw.checked_sub(tw).map(i64::from))?,
            0x23 => word(s.wrapping_sub(t)),
            0x24 => s & t,
            0x25 => s | t,
            0x26 => s ^ t,
            0x27 => !(s | t),
            0x2a => u64::from((s as i64) < t as i64),
            0x2b => u64::from(s < t),
            0x2c => trapping((s as i64).checked_add(t as i64))?,
            0x2d => s.wrapping_add(t),
            0x2e => trapping((s as i64).checked_sub(t as i64))?,
            0x2f => s.wrapping_sub(t),
            _ => return Err(Event::Illegal(f.0)),
        };
        self.set(f.d(), value)
    }

    fn register_immediate(&mut self, pc: u64, f: Fields) -> Step<Next> {
        let (s, i) = (self.machine.r[f.s()], f.signed());
        let kind = f.at(16, 5);
        if kind == 31 {
            // synci: code is read anew at each step.
            return Ok(Next::On);
        }
        if kind & 8 != 0 {
            let holds = match kind {
                8 => s as i64 >= i as i64,
                9 => s >= i,
                10 => (s as i64) < i as i64,
                11 => s < i,
                12 => s == i,
                _ => s != i,
            };
            return if holds { Err(Event::Trap(0)) } else { Ok(Next::On) };
        }
        if kind & 16 != 0 {
            self.machine.r[31] = pc + 8;
        }
        let taken = if kind & 1 == 0 { (s as i64) < 0 } else { s as i64 >= 0 };
        Ok(branch_to(pc, i, taken, kind & 2 != 0))
    }

    fn branch(&mut self, pc: u64, f: Fields, opcode: u32) -> Step<Next> {
        let (s, t) = (self.machine.r[f.s()], self.machine.r[f.t()]);
        let taken = match opcode & 3 {
            0 => s == t,
            1 => s != t,
            2 => s as i64 <= 0,
            _ => s as i64 > 0,
        };
        Ok(branch_to(pc, f.signed(), taken, opcode & 0x10 != 0))
    }

    fn immediate(&mut self, f: Fields, opcode: u32) -> Step<Next> {
        let (s, i, u) = (self.machine.r[f.s()], f.signed(), f.unsigned());
        let value = match opcode {
            8 => (s as i32).checked_add(i as i32).map(|v| i64::from(v) as u64),
            9 => Some(word(s.wrapping_add(i))),
            10 => Some(u64::from((s as i64) < i as i64)),
            11 => Some(u64::from(s < i)),
            12 => Some(s & u),
            13 => Some(s | u),
            14 => Some(s ^ u),
            15 => Some(word(u << 16)),
            0x18 => (s as i64).checked_add(i as i64).map(|v| v as u64),
            _ => Some(s.wrapping_add(i)),
        };
        self.set(f.t(), value.ok_or(Event::Overflow)?)
    }

    fn special2(&mut self, f: Fields) -> Step<Next> {
        let (s, t) = (self.machine.r[f.s()], self.machine.r[f.t()]);
        let signed = i64::from(s as i32).wrapping_mul(i64::from(t as i32)) as u64;
        let unsigned = u64::from(s as u32) * u64::from(t as u32);
        let both = self.machine.hi << 32 | self.machine.lo & 0xffff_ffff;
        let mut keep = |sum: u64| self.products(word(sum), word(sum >> 32));
        match f.at(0, 6) {
            0 => keep(both.wrapping_add(signed)),
            1 => keep(both.wrapping_add(unsigned)),
            4 => keep(both.wrapping_sub(signed)),
            5 => keep(both.wrapping_sub(unsigned)),
            2 => self.set(f.d(), word(signed)),
            0x20 => self.set(f.d(), u64::from((s as u32).leading_zeros())),
            0x21 => self.set(f.d(), u64::from((s as u32).leading_ones())),
            0x24 => self.set(f.d(), u64::from(s.leading_zeros())),
            0x25 => self.set(f.d(), u64::from(s.leading_ones())),
            _ => Err(Event::Illegal(f.0)),
        }
    }

    fn special3(&mut self, f: Fields) -> Step<Next> {
        let (s, t) = (self.machine.r[f.s()], self.machine.r[f.t()]);
        let (a, b) = (f.amount(), f.at(11, 5));
        match f.at(0, 6) {
            0 if a + b <= 31 => self.set(f.t(), word(pick(s, a + b, a))),
            1 if a + b + 32 <= 63 => self.set(f.t(), pick(s, a + b + 32, a)),
            2 if a + b + 32 <= 63 => self.set(f.t(), pick(s, a + b + 32, a + 32)),
            3 if a + b <= 63 => self.set(f.t(), pick(s, a + b, a)),
            4 if b >= a => self.set(f.t(), word(insert(t, s, b, a))),
            5 if b + 32 >= a => self.set(f.t(), insert(t, s, b + 32, a)),
            6 if b >= a => self.set(f.t(), insert(t, s, b + 32, a + 32)),
            7 if b >= a => self.set(f.t(), insert(t, s, b, a)),
            0x20 => match a {
                0x02 => self.set(f.d(), word(t >> 8 & 0x00ff_00ff | (t & 0x00ff_00ff) << 8)),
                0x10 => self.set(f.d(), t as i8 as i64 as u64),
                0x18 => self.set(f.d(), t as i16 as i64 as u64),
                _ => Err(Event::Illegal(f.0)),
            },
            0x24 => match a {
                0x02 => {
                    let mask = 0x00ff_00ff_00ff_00ff;
                    self.set(f.d(), t >> 8 & mask | (t & mask) << 8)
                }
                0x05 => {
                    let mask = 0x0000_ffff_0000_ffff;
                    self.set(f.d(), (t >> 16 & mask | (t & mask) << 16).rotate_right(32))
                }
                _ => Err(Event::Illegal(f.0)),
            },
            0x3b if f.d() == 29 => self.set(f.t(), self.machine.thread),
            _ => Err(Event::Illegal(f.0)),
        }
    }

    fn load(&self, at: u64, bytes: u64) -> Step<u64> {
        let mut value = [0; 8];
        let inside = at < self.end && at + bytes <= self.end;
        let read = inside.then(|| self.window.read(at, &mut value[..bytes as usize])).flatten();
        read.map(|()| u64::from_le_bytes(value)).ok_or(Event::Load(at))
    }

    fn store(&self, at: u64, bytes: u64, value: u64) -> Step<Next> {
        let inside = at < self.end && at + bytes <= self.end;
        let value = value.to_le_bytes();
        let written = inside.then(|| self.window.write(at, &value[..bytes as usize])).flatten();
        written.map(|()| Next::On).ok_or(Event::Store(at))
    }

    fn access(&mut self, f: Fields, opcode: u32) -> Step<Next> {
        let at = self.machine.r[f.s()].wrapping_add(f.signed());
        let t = self.machine.r[f.t()];
        match opcode {
            0x20 => self.set(f.t(), self.load(at, 1)? as i8 as i64 as u64),
            0x21 => self.set(f.t(), self.load(at, 2)? as i16 as i64 as u64),
            0x23 => self.set(f.t(), word(self.load(at, 4)?)),
            0x24 => self.set(f.t(), self.load(at, 1)?),
            0x25 => self.set(f.t(), self.load(at, 2)?),
            0x27 => self.set(f.t(), self.load(at, 4)?),
            0x37 => self.set(f.t(), self.load(at, 8)?),
            0x28 => self.store(at, 1, t),
            0x29 => self.store(at, 2, t),
            0x2b => self.store(at, 4, t),
            0x3f => self.store(at, 8, t),
            0x22 | 0x26 => self.load_part(f, at, 4, opcode == 0x22),
            0x1a | 0x1b => self.load_part(f, at, 8, opcode == 0x1a),
            0x2a | 0x2e => self.store_part(at, t, 4, opcode == 0x2a),
            0x2c | 0x2d => self.store_part(at, t, 8, opcode == 0x2c),
            0x30 | 0x34 => {
                let bytes = if opcode == 0x30 { 4 } else { 8 };
                if !at.is_multiple_of(bytes) {
                    return Err(Event::Unaligned(at));
                }
                let value = self.load(at, bytes)?;
                self.link = Some((at, value));
                self.set(f.t(), if bytes == 4 { word(value) } else { value })
            }
            0x38 | 0x3c => {
                let bytes = if opcode == 0x38 { 4 } else { 8 };
                if !at.is_multiple_of(bytes) {
                    return Err(Event::Unaligned(at));
                }
                let link = self.link.take().filter(|link| link.0 == at);
                let done = match link {
                    Some((_, read)) => self.load(at, bytes)? == read,
                    None => false,
                };
                if done {
                    self.store(at, bytes, t)?;
                }
                self.set(f.t(), u64::from(done))
            }
            _ => Err(Event::Illegal(f.0)),
        }
    }

    /// Bytes of the word of `width` bytes that `at` lies in.
    fn load_part(&mut self, f: Fields, at: u64, width: u64, left: bool) -> Step<Next> {
        let aligned = at & !(width - 1);
        let mut bytes = self.machine.r[f.t()].to_le_bytes();
        let n = (at - aligned) as usize;
        let memory = self.load(aligned, width)?.to_le_bytes();
        let width = width as usize;
        if left {
            bytes[width - 1 - n..width].copy_from_slice(&memory[..=n]);
        } else {
            bytes[..width - n].copy_from_slice(&memory[n..width]);
        }
        let value = u64::from_le_bytes(bytes);
        self.set(f.t(), if width == 4 { word(value) } else { value })
    }

    fn store_part(&mut self, at: u64, t: u64, width: u64, left: bool) -> Step<Next> {
        let aligned = at & !(width - 1);
        let n = (at - aligned) as usize;
        let (bytes, width) = (t.to_le_bytes(), width as usize);
        let (from, piece) = match left {
            true => (aligned, &bytes[width - 1 - n..width]),
            false => (at, &bytes[..width - n]),
        };
        let inside = aligned < self.end;
        let written = inside.then(|| self.window.write(from, piece)).flatten();
        written.map(|()| Next::On).ok_or(Event::Store(from))
    }
}

fn branch_to(pc: u64, offset: u64, taken: bool, likely: bool) -> Next {
    match taken {
        true => Next::To(pc.wrapping_add(4).wrapping_add(offset << 2)),
        false if likely => Next::Over,
        false => Next::To(pc + 8),
    }
}

fn ones(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

fn pick(value: u64, high: u32, low: u32) -> u64 {
    value >> low & ones(high - low + 1)
}

fn insert(into: u64, value: u64, high: u32, low: u32) -> u64 {
    let mask = ones(high - low + 1) << low;
    into & !mask | value << low & mask
}
