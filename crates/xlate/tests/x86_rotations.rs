//! `rcl` and `rcr` of each size by each count, with the carry set and clear, beside a rotation one
//! place at a time. LBT takes counts modulo 32 or 64, which is less than such a ring has places.

use littoral_la64::interp::{Cache, Cpu, Features, Tier};
use littoral_la64::memory::{Memory, Window};
use littoral_xlate::engine::Engine;
use littoral_xlate::event::Event;
use littoral_xlate::layout::Layout;
use littoral_xlate::x86::registers::Machine;
use littoral_xlate::x86::{Conventions, X86};
use std::sync::atomic::AtomicBool;

const AT: u64 = 0x1000;
const GUEST_END: u64 = 0x20_0000;
/// Bytes between two programs.
const STEP: u64 = 16;

/// A rotation.
#[derive(Clone, Copy, Debug)]
struct Case {
    left: bool,
    bits: u32,
    count: u8,
    /// Whether the count stands in the code.
    fixed: bool,
}

impl Case {
    /// The rotation of rax by a number or by cl; int3; a byte that ends the region.
    fn code(self) -> Vec<u8> {
        let mut code = match self.bits {
            16 => vec![0x66],
            64 => vec![0x48],
            _ => Vec::new(),
        };
        let opcode = if self.fixed { 0xc0 } else { 0xd2 };
        code.extend([opcode | u8::from(self.bits > 8), if self.left { 0xd0 } else { 0xd8 }]);
        code.extend(self.fixed.then_some(self.count));
        code.extend([0xcc, 0x06]);
        code
    }

    /// rax and the carry behind the rotation.
    fn result(self, rax: u64, carry: bool) -> (u64, bool) {
        let places = self.count & if self.bits == 64 { 63 } else { 31 };
        let mask = u64::MAX >> (64 - self.bits);
        let (mut value, mut carry) = (rax & mask, carry);
        for _ in 0..places {
            let (out, rest, into) = match self.left {
                true => (value >> (self.bits - 1), value << 1 & mask, 0),
                false => (value & 1, value >> 1, self.bits - 1),
            };
            value = rest | u64::from(carry) << into;
            carry = out == 1;
        }
        let above = if self.bits < 32 { rax & !mask } else { 0 };
        (above | value, carry)
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for left in [true, false] {
        for bits in [8, 16, 32, 64] {
            for count in (0..=70).chain([127, 128, 255]) {
                cases.extend([true, false].map(|fixed| Case { left, bits, count, fixed }));
            }
        }
    }
    cases
}

/// rax and the flags behind the program at an address.
fn ended(
    engine: &Engine<X86>,
    (cpu, cache): (&mut Cpu, &mut Cache),
    start: &Machine,
) -> (u64, u64) {
    start.write(&mut cpu.state);
    let (guest, never) = (|pc: u64| (AT..GUEST_END).contains(&pc), AtomicBool::new(false));
    let event = engine.run((&mut *cpu, cache), &guest, &never, 1000);
    assert_eq!(event, Event::Break(3));
    let machine = Machine::read(&cpu.state);
    (machine.gpr[0], machine.flags)
}

fn rotations_end_as_one_place_at_a_time(without_lbt: bool) {
    const CARRY: u64 = 1;
    const OVERFLOW: u64 = 1 << 11;
    let window: Window = Memory::leaked(0x400_0000);
    let layout = Layout { areas: vec![2], entries: 0x300_0000, guest_end: GUEST_END, alignment: 1 };
    let conventions = Conventions { without_lbt, ..Conventions::default() };
    let engine = Engine::new(layout, X86(conventions));
    let features = Features { lbt: !without_lbt, ..Features::ALL };
    let mut cpu = Cpu::new(window, features);
    engine.prepare(&mut cpu.state);
    let mut cache = Cache::new(Tier::Interpreter);
    for (case, pc) in cases().into_iter().zip((AT..).step_by(STEP as usize)) {
        window.write(pc, &case.code()).expect("in the window");
        for rax in [0x8123_4567_89ab_cde1, 0x7edc_ba98_7654_321e, u64::MAX, 0] {
            for carry in [false, true] {
                let mut start = Machine { rip: pc, ..Machine::default() };
                start.flags = 0x202 | u64::from(carry);
                (start.gpr[0], start.gpr[1]) = (rax, case.count.into());
                let (value, carried) = case.result(rax, carry);
                let (ours, flags) = ended(&engine, (&mut cpu, &mut cache), &start);
                assert_eq!(ours, value, "{case:?} of {rax:#x} with {carry}");
                assert_eq!(flags & CARRY == 1, carried, "{case:?} of {rax:#x} with {carry}");
                if case.count == 1 {
                    let (old, new) = (rax >> (case.bits - 1) & 1, value >> (case.bits - 1) & 1);
                    let overflows = flags & OVERFLOW != 0;
                    assert_eq!(overflows, old != new, "{case:?} of {rax:#x} with {carry}");
                }
            }
        }
    }
}

#[test]
fn rotations_by_lbt_end_as_one_place_at_a_time() {
    rotations_end_as_one_place_at_a_time(false);
}

#[test]
fn rotations_without_lbt_end_as_one_place_at_a_time() {
    rotations_end_as_one_place_at_a_time(true);
}
