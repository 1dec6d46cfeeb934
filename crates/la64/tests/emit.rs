//! Every form of the emitter against an independent disassembler: mnemonic, registers, memory
//! operand, width and length, over all registers and address forms.
#![cfg(feature = "jit")]

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};
use littoral_la64::jit::emit::*;
use littoral_la64::jit::flags::*;
use littoral_la64::jit::packed::*;

/// The one instruction that `emit` writes.
fn decode(emit: impl FnOnce(&mut Asm)) -> Instruction {
    let mut asm = Asm::new(0);
    emit(&mut asm);
    let mut decoder = Decoder::with_ip(64, &asm.bytes, 0, DecoderOptions::NONE);
    let instruction = decoder.decode();
    assert!(!instruction.is_invalid(), "{:02x?}", asm.bytes);
    assert_eq!(instruction.len(), asm.bytes.len(), "{:02x?}", asm.bytes);
    instruction
}

fn name(i: &Instruction) -> String {
    format!("{:?}", i.mnemonic()).to_lowercase()
}

/// Base with and without index, with each length of displacement.
fn addresses() -> Vec<Mem> {
    let mut all = Vec::new();
    for base in 0..16 {
        for disp in [0, 1, -128, 127, 128, -129, 0x1234_5678] {
            all.push(Mem::at(Reg(base), disp));
            let indices = (0..16).filter(|&n| n != 4);
            all.extend(indices.map(|n| Mem::indexed(Reg(base), Reg(n), n & 3, disp)));
        }
    }
    all
}

/// A few addresses, for forms by all registers.
fn some_addresses() -> Vec<Mem> {
    addresses().into_iter().step_by(97).collect()
}

fn check_memory(i: &Instruction, m: Mem) {
    assert_eq!(i.memory_base().number(), usize::from(m.base.0));
    assert_eq!(i.memory_displacement64() as i64, i64::from(m.disp));
    match m.index {
        None => assert_eq!(i.memory_index(), Register::None),
        Some((index, scale)) => {
            assert_eq!(i.memory_index().number(), usize::from(index.0));
            assert_eq!(i.memory_index_scale(), 1 << scale);
        }
    }
}

/// Registers of the operands that are registers, in order.
fn registers(i: &Instruction) -> Vec<usize> {
    let is_register = |&n: &u32| i.op_kind(n) == OpKind::Register;
    (0..i.op_count())
        .filter(is_register)
        .map(|n| i.op_register(n).full_register().number())
        .collect()
}

fn sorted(mut list: Vec<usize>) -> Vec<usize> {
    list.sort_unstable();
    list
}

/// `form` with every register field and operand; `write` emits it.
fn check(form: Form, with_registers: bool, write: impl Fn(&mut Asm, u8, Rm)) {
    for reg in 0..16u8 {
        if with_registers {
            for rm in 0..16u8 {
                let i = decode(|a| write(a, reg, Rm::R(rm)));
                assert!(name(&i).starts_with(form.name), "{} is {i:?}", form.name);
                let expected = vec![usize::from(reg), usize::from(rm)];
                if form.digit.is_none() {
                    assert_eq!(sorted(registers(&i)), sorted(expected), "{}", form.name);
                } else {
                    assert_eq!(registers(&i)[0], usize::from(rm), "{}", form.name);
                }
            }
        }
        for m in some_addresses() {
            let i = decode(|a| write(a, reg, Rm::M(m)));
            assert!(name(&i).starts_with(form.name), "{} is {i:?}", form.name);
            check_memory(&i, m);
        }
    }
}

#[test]
fn every_address_is_encoded() {
    for m in addresses() {
        let i = decode(|a| a.op(MOV, true, RDX, m));
        check_memory(&i, m);
        assert_eq!(i.op0_register(), Register::RDX);
    }
}

#[test]
fn forms_of_general_registers() {
    for &form in REGISTER_FORMS.iter().chain(STORE_FORMS).chain(CARRY_FORMS) {
        check(form, true, |a, reg, rm| a.op(form, false, Reg(reg), rm));
        if form.prefix != 0x66 && !(form.byte && form.map == Map::One) {
            check(form, true, |a, reg, rm| a.op(form, true, Reg(reg), rm));
        }
    }
    for &form in MEMORY_FORMS {
        check(form, false, |a, reg, rm| a.op(form, true, Reg(reg), rm));
        check(form, false, |a, reg, rm| a.op(form, false, Reg(reg), rm));
    }
    for &form in UNARY_FORMS {
        check(form, true, |a, _, rm| a.unary(form, true, rm));
        check(form, true, |a, _, rm| a.unary(form, false, rm));
    }
    for &form in JUMP_FORMS {
        check(form, true, |a, _, rm| a.unary(form, false, rm));
    }
    for &form in IMM8_FORMS {
        check(form, true, |a, _, rm| a.imm8(form, true, rm, 31));
        assert_eq!(decode(|a| a.imm8(form, true, RSI, 31)).immediate8(), 31);
    }
    for &form in ARITHMETIC_FORMS {
        for imm in [0, 1, -1, 127, -128, 128, -129, i32::MIN, i32::MAX] {
            check(form, true, |a, _, rm| a.arith(form, true, rm, imm));
            let i = decode(|a| a.arith(form, true, R9, imm));
            assert_eq!(i.immediate(1) as i64, i64::from(imm), "{}", form.name);
        }
    }
}

#[test]
fn widths_are_those_asked_for() {
    assert_eq!(decode(|a| a.op(ADD, true, RAX, RBX)).op0_register(), Register::RAX);
    assert_eq!(decode(|a| a.op(ADD, false, RAX, RBX)).op0_register(), Register::EAX);
    assert_eq!(
        decode(|a| a.op(MOV8_TO, false, RSI, Mem::at(RBX, 0))).op1_register(),
        Register::SIL
    );
    assert_eq!(decode(|a| a.op(MOVZX8, false, RAX, RDI)).op1_register(), Register::DIL);
    assert_eq!(
        decode(|a| a.op(MOV16_TO, false, RSI, Mem::at(RBX, 0))).op1_register(),
        Register::SI
    );
    assert_eq!(
        decode(|a| a.vex(FMADD231, true, 1, 2, Xmm(3))).mnemonic(),
        iced_x86::Mnemonic::Vfmadd231sd
    );
    assert_eq!(
        decode(|a| a.vex(FMADD231, false, 1, 2, Xmm(3))).mnemonic(),
        iced_x86::Mnemonic::Vfmadd231ss
    );
}

#[test]
fn operations_have_the_size_that_is_asked_for() {
    const FORMS: [Form; 7] = [ADD, SUB, AND, OR, XOR, ADC, SBB];
    for (bytes, form) in [1, 2, 4, 8].into_iter().flat_map(|n| FORMS.map(|f| (n, f))) {
        let bits = 8 * bytes as u32;
        for (reg, rm) in (0..16).flat_map(|reg| (0..16).map(move |rm| (reg, rm))) {
            let i = decode(|a| a.sized(form, bits, Reg(reg), Rm::R(rm)));
            assert_eq!((name(&i).as_str(), i.op0_register().size()), (form.name, bytes));
            assert_eq!(registers(&i), [usize::from(reg), usize::from(rm)], "{}", form.name);
        }
        let i = decode(|a| a.sized(form, bits, RSI, Mem::at(RBP, 8)));
        assert_eq!(i.memory_size().size(), bytes, "{}", form.name);
    }
}

#[test]
fn forms_of_vectors() {
    for &form in SSE_FORMS {
        check(form, true, |a, reg, rm| a.sse(form, Xmm(reg), rm));
    }
    for &form in SSE_STORE_FORMS {
        check(form, false, |a, reg, rm| a.sse(form, Xmm(reg), rm));
    }
    for &form in SSE_IMM_FORMS {
        check(form, true, |a, reg, rm| a.sse_imm(form, Xmm(reg), rm, 4));
    }
    for &form in FROM_GENERAL_FORMS {
        check(form, true, |a, reg, rm| a.from_general(form, false, Xmm(reg), rm));
    }
    for &form in TO_GENERAL_FORMS.iter().chain(&[MOVD_TO]) {
        for (reg, x) in (0..16).flat_map(|r| (0..16).map(move |x| (r, x))) {
            let i = decode(|a| a.to_general(form, false, Reg(reg), Xmm(x)));
            assert!(name(&i).starts_with(form.name));
            assert_eq!(registers(&i), [usize::from(reg), usize::from(x)], "{}", form.name);
        }
    }
    for &form in BMI_FORMS.iter().chain(FMA_FORMS) {
        for (v, wide) in (0..16).flat_map(|v| [(v, false), (v, true)]) {
            for (reg, rm) in (0..16).flat_map(|r| (0..16).map(move |x| (r, x))) {
                let i = decode(|a| a.vex(form, wide, reg, v, Rm::R(rm)));
                assert!(name(&i).starts_with(form.name));
                let all = sorted(vec![reg.into(), v.into(), rm.into()]);
                assert_eq!(sorted(registers(&i)), all, "{}", form.name);
            }
        }
    }
}

#[test]
fn immediates_take_the_shortest_form_that_keeps_them() {
    for imm in [0u64, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 32, u64::MAX, 1 << 63] {
        for reg in 0..16 {
            let i = decode(|a| a.mov_imm(Reg(reg), imm));
            assert_eq!(i.op0_register().full_register().number(), usize::from(reg));
            if imm == 0 {
                assert_eq!(name(&i), "xor");
                continue;
            }
            let wide = i.op0_register().size() == 8;
            let value = if wide { i.immediate(1) } else { i.immediate(1) & 0xffff_ffff };
            assert_eq!(value, imm);
        }
    }
}

#[test]
fn what_has_a_method_of_its_own() {
    let named = |expected: &str, emit: &dyn Fn(&mut Asm)| {
        let i = decode(emit);
        assert_eq!(name(&i), expected);
        i
    };
    for n in 0..16 {
        let r = Reg(n);
        assert_eq!(
            named("bswap", &|a| a.bswap(true, r)).op0_register().full_register().number(),
            n.into()
        );
        assert_eq!(named("push", &|a| a.push(r)).op0_register().full_register().number(), n.into());
        assert_eq!(named("pop", &|a| a.pop(r)).op0_register().full_register().number(), n.into());
        let shifted = named("shld", &|a| a.shld(true, r, RCX, 8));
        assert_eq!(
            (shifted.op0_register().full_register().number(), shifted.immediate8()),
            (n.into(), 8)
        );
        named("imul", &|a| a.imul_imm(true, r, RAX, 1000));
        named("sete", &|a| a.set(Cond::E, r));
        named("test", &|a| a.test_byte(r, 7));
    }
    named("cdq", &|a| a.sign_to_rdx(false));
    named("cqo", &|a| a.sign_to_rdx(true));
    named("ret", &|a| a.ret());
    named("pushfq", &|a| a.push_flags());
    let m = Mem::at(RBP, 300);
    check_memory(&named("ldmxcsr", &|a| a.ldmxcsr(m)), m);
    check_memory(&named("stmxcsr", &|a| a.stmxcsr(m)), m);
    check_memory(&named("cmp", &|a| a.cmp_byte(m, 0)), m);
    check_memory(&named("mov", &|a| a.mov_byte(m, 1)), m);
    let i = named("cmp", &|a| assert_eq!(a.compare_number(m, 7), 6));
    assert_eq!((i.memory_size().size(), i.immediate32()), (4, 7));
    let i = decode(|a| {
        a.lock();
        a.op(CMPXCHG, true, RCX, m);
    });
    assert!(i.has_lock_prefix());
}

#[test]
fn jumps_lead_where_they_say() {
    use Cond::*;
    for cond in [B, Ae, E, Ne, Be, A, S, Ns, P, Np, L, Ge, Le, G] {
        let i = decode(|a| {
            a.jump(Some(cond), 0x1000);
        });
        assert_eq!(
            (name(&i), i.near_branch_target()),
            (format!("j{cond:?}").to_lowercase(), 0x1000)
        );
        let i = decode(|a| {
            a.jump(Some(cond.opposite()), 0x1000);
        });
        assert_ne!(name(&i), format!("j{cond:?}").to_lowercase());
        assert_eq!(cond.opposite().opposite(), cond);
    }
    let mut asm = Asm::new(0);
    let (short, near) = (asm.jump_short(None), asm.jump_near(Some(E)));
    asm.ret();
    asm.bind_short(short);
    asm.bind_near(near);
    let mut decoder = Decoder::with_ip(64, &asm.bytes, 0, DecoderOptions::NONE);
    let end = asm.bytes.len() as u64;
    assert_eq!(decoder.decode().near_branch_target(), end);
    assert_eq!(decoder.decode().near_branch_target(), end);
}

#[test]
fn forms_of_packed_vectors() {
    for &form in PACKED_FORMS {
        check_three(form, |a, reg, v, rm| a.packed(form, Xmm(reg), Xmm(v), rm));
    }
    for &form in PACKED_WIDTH_FORMS {
        check_three(form, |a, reg, v, rm| a.vex(form, false, reg, v, rm));
        check_three(form, |a, reg, v, rm| a.vex(form, true, reg, v, rm));
    }
    for &form in PACKED_IMM_FORMS {
        check_three(form, |a, reg, v, rm| a.packed_imm(form, Xmm(reg), Xmm(v), rm, 1));
    }
    for &form in PACKED_INSERT_FORMS {
        check_three(form, |a, reg, v, rm| {
            a.packed_insert(form, false, Xmm(reg), Xmm(v), rm, 1);
        });
    }
    for &form in PACKED_UNARY_FORMS {
        check(form, true, |a, reg, rm| a.packed_unary(form, Xmm(reg), rm));
    }
    for &form in PACKED_UNARY_IMM_FORMS {
        check(form, true, |a, reg, rm| a.packed_unary_imm(form, Xmm(reg), rm, 1));
    }
    for &form in PACKED_EXTRACT_FORMS {
        check(form, true, |a, reg, rm| a.packed_extract(form, false, rm, Xmm(reg), 1));
    }
    check(V_MOVDQU_TO, true, |a, reg, rm| a.packed_unary(V_MOVDQU_TO, Xmm(reg), rm));
    for (to, from) in (0..16).flat_map(|to| (0..16).map(move |from| (to, from))) {
        for &form in PACKED_SHIFT_FORMS {
            let i = decode(|a| a.packed_shift(form, Xmm(to), Xmm(from), 5));
            assert_eq!((name(&i).as_str(), i.immediate8()), (form.name, 5));
            assert_eq!(registers(&i), [usize::from(to), usize::from(from)], "{}", form.name);
        }
        for &form in PACKED_MASK_FORMS {
            let i = decode(|a| a.packed_mask(form, Reg(to), Xmm(from)));
            assert_eq!(name(&i), form.name);
            assert_eq!(registers(&i), [usize::from(to), usize::from(from)], "{}", form.name);
        }
        let i = decode(|a| a.packed_blend(Xmm(to), Xmm(from), Xmm(3), Xmm(9)));
        assert_eq!((name(&i).as_str(), registers(&i)[3]), ("vpblendvb", 9));
        let i = decode(|a| a.packed_from_general(Xmm(to), Reg(from)));
        assert_eq!((name(&i).as_str(), registers(&i)), ("vmovq", vec![to.into(), from.into()]));
        let i = decode(|a| a.join_halves(Xmm(to), Xmm(from), Xmm(7)));
        assert_eq!((name(&i).as_str(), i.immediate8()), ("vinserti128", 1));
        let i = decode(|a| a.store_both(Xmm(to), Mem::at(Reg(from), 300)));
        assert_eq!((name(&i).as_str(), i.memory_size().size()), ("vmovdqu", 32));
    }
    assert_eq!(name(&decode(Asm::zero_upper)), "vzeroupper");
}

/// As `check`, for a form with one more register between both operands.
fn check_three(form: Form, write: impl Fn(&mut Asm, u8, u8, Rm)) {
    for v in 0..16u8 {
        for (reg, rm) in (0..16).flat_map(|r| (0..16).map(move |x| (r, x))) {
            let i = decode(|a| write(a, reg, v, Rm::R(rm)));
            assert!(name(&i).starts_with(form.name), "{} is {i:?}", form.name);
            assert_eq!(registers(&i), [reg.into(), v.into(), rm.into()], "{}", form.name);
        }
    }
    check(form, false, |a, reg, rm| write(a, reg, 5, rm));
}

#[test]
fn addresses_behind_the_instruction() {
    for n in 0..16 {
        for disp in [-7, 0, 0x1234_5678] {
            let general = decode(|a| a.op(LEA, true, Reg(n), Mem::at(RIP, disp)));
            let vector = decode(|a| a.packed_unary(V_BROADCASTQ, Xmm(n), Mem::at(RIP, disp)));
            for (i, register) in [(general, n), (vector, n)] {
                let target = i.len() as u64;
                assert!(i.is_ip_rel_memory_operand(), "{i:?}");
                assert_eq!(i.ip_rel_memory_address(), target.wrapping_add(disp as i64 as u64));
                assert_eq!(registers(&i), [usize::from(register)]);
            }
        }
    }
}
