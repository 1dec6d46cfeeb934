//! Against the host's own x86 flags where the host is one, and against identities.

use super::*;

#[cfg(target_arch = "x86_64")]
#[test]
fn flags_of_64_bit_arithmetic_follow_the_integers() {
    for (a, b) in
        [(0, 0), (1, u64::MAX), (i64::MAX as u64, 1), (1 << 63, 1 << 63), (5, 7), (0x18, 8)]
    {
        for bits in [8, 16, 32, 64] {
            let (a, b) = (a & mask(bits), b & mask(bits));
            let (sum, values) = ((u128::from(a) + u128::from(b)), add(a, b, 0, bits).1);
            assert_eq!(values & CF != 0, sum >> bits != 0);
            assert_eq!(values & ZF != 0, sum as u64 & mask(bits) == 0);
            let signed = i128::from(extend(a, bits) as i64) + i128::from(extend(b, bits) as i64);
            let fits = signed << (128 - bits) >> (128 - bits) == signed;
            assert_eq!(values & OF == 0, fits, "{a:x} + {b:x} in {bits} bits");
            let values = sub(a, b, 0, bits).1;
            assert_eq!(values & CF != 0, a < b);
            let signed = i128::from(extend(a, bits) as i64) - i128::from(extend(b, bits) as i64);
            let fits = signed << (128 - bits) >> (128 - bits) == signed;
            assert_eq!(values & OF == 0, fits, "{a:x} - {b:x} in {bits} bits");
        }
    }
}

#[test]
fn shifts_keep_flags_at_zero_and_rotations_write_carry() {
    assert_eq!(sll(0x81, 0, ALL, 8), (0, 0));
    assert_eq!(sll(0x81, 1, 0, 8), (CF | PF | ZF | SF | OF, CF | OF));
    assert_eq!(srl(0x81, 9, 0, 8).1 & CF, 0);
    assert_eq!(sra(0x81, 31, 0, 8).1 & (CF | SF), CF | SF);
    assert_eq!((rotr(0x81, 8, CF, 8).0, rotr(0x81, 8, CF, 8).1 & CF), (CF, 0));
    assert_eq!(rotl(0x81, 8, 0, 8).1 & CF, CF);
    assert_eq!(rcr(0x01, 9, CF, 8), (0, 0));
    assert_eq!(rcr(0x01, 1, CF, 8), (CF | OF, CF | OF));
}

#[test]
fn conditions_come_in_complementary_pairs() {
    for flags in 0..0x1000 {
        for condition in [0u32, 2, 4, 6, 8, 10, 12] {
            assert_ne!(arm_holds(flags, condition), arm_holds(flags, condition + 1));
        }
        assert!(arm_holds(flags, 14) && arm_holds(flags, 15));
        for (a, b) in [(0, 3), (1, 2), (4, 5), (6, 9), (7, 8), (10, 11), (12, 13), (14, 15)] {
            assert_ne!(x86_holds(flags, a), x86_holds(flags, b));
        }
    }
}

#[test]
fn rotation_through_carry_is_a_ring_of_one_bit_more() {
    for bits in [8, 16, 32, 64] {
        let a = 0x1234_5678_9abc_def1 & mask(bits);
        assert_eq!(through_carry(a, u64::from(bits) + 1, 1, bits) & mask(bits), a);
        assert_eq!(through_carry(a, 1, 1, bits) & mask(bits), a >> 1 | 1 << (bits - 1));
        assert_eq!(
            through_carry(a, u64::from(bits), 1, bits) & mask(bits),
            (a << 1 | 1) & mask(bits)
        );
    }
}

/// As the guide's measurements say; the immediate forms cannot hold more.
#[test]
fn rotation_through_carry_takes_a_register_modulo_32_or_64() {
    let memory = crate::memory::Memory::new(4096);
    let mut cpu = Cpu::new(memory.window(), super::super::Features::ALL);
    let names = [("rcr.b", 8, 32), ("rcr.h", 16, 32), ("rcr.w", 32, 32), ("rcr.d", 64, 64)];
    for (name, bits, modulus) in names {
        let id = crate::isa::find(name).unwrap();
        let word = crate::isa::encode(id, &[6, 4, 5]).unwrap();
        for count in [0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 66, 72, u64::MAX] {
            (cpu.state.x[4], cpu.state.x[5]) = (0x1234_5678_9abc_def1, count);
            cpu.state.lbt.flags = CF;
            super::super::block::step(&mut cpu, word);
            let expected = through_carry(cpu.state.x[4] & mask(bits), count % modulus, 1, bits);
            assert_eq!(cpu.state.x[6], extend(expected, bits), "{name} by {count}");
        }
    }
}

#[test]
fn doubles_survive_the_way_through_80_bits() {
    let memory = crate::memory::Memory::new(4096);
    let mut cpu = Cpu::new(memory.window(), super::super::Features::ALL);
    let values =
        [0.0, -0.0, 1.0, -1.5, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1e-310, f64::INFINITY, 0.1];
    for value in values {
        let (sign, exponent, significand) = extended(value.to_bits());
        if value != 0.0 {
            assert_eq!(significand >> 63, 1, "explicit leading one of {value}");
        }
        // fj = f1 holds the significand, fk = f2 sign and exponent; f0 receives the double.
        cpu.state.v[1].0[0] = significand;
        cpu.state.v[2].0[0] = sign << 15 | exponent;
        let id = crate::isa::find("fcvt.d.ld").unwrap();
        let word = crate::isa::encode(id, &[0, 1, 2]).unwrap();
        super::super::block::step(&mut cpu, word);
        assert_eq!(cpu.state.v[0].0[0], value.to_bits(), "{value}");
    }
}

#[test]
fn stack_mode_rotates_the_low_registers() {
    let memory = crate::memory::Memory::new(4096);
    let mut cpu = Cpu::new(memory.window(), super::super::Features::ALL);
    cpu.state.v[3].0[0] = 77;
    cpu.state.lbt.top = 3;
    assert_eq!(cpu.f(Slot::new(0)), 0);
    cpu.state.lbt.stack_mode = 1;
    assert_eq!(cpu.f(Slot::new(0)), 77);
    cpu.set_f(Slot::new(7), 5);
    assert_eq!(cpu.state.v[2].0[0], 5);
    assert_eq!(cpu.f(Slot::new(8)), cpu.state.v[8].0[0]);
}
