//! The decoder of x86-64 against iced-x86, over random bytes: same validity, same length, same
//! operands.
//!
//! - What iced-x86 knows and the table leaves out is told by the processor feature that introduced
//!   it ([`FEATURES`]) and, within these features, by [`LEFT_OUT`].
//! - `LITTORAL_CASES_TIMES` multiplies the number of cases.

use iced_x86::{
    Code, CpuidFeature as F, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register,
};
use littoral_xlate::x86::decode::{Inst, Mem, Operand, Segment, Undecoded, decode};
use littoral_xlate::x86::isa;

/// Features whose instructions the table has.
const FEATURES: &[F] = &[
    F::INTEL8086,
    F::INTEL186,
    F::INTEL286,
    F::INTEL386,
    F::INTEL486,
    F::X64,
    F::CMOV,
    F::CMPXCHG16B,
    F::CPUID,
    F::CX8,
    F::LZCNT,
    F::MULTIBYTENOP,
    F::PAUSE,
    F::POPCNT,
    F::PREFETCHW,
    F::PREFETCHWT1,
    F::SYSCALL,
    F::TSC,
    F::CLFSH,
    F::CET_IBT,
    F::SSE,
    F::SSE2,
    F::SSE3,
    F::SSSE3,
    F::SSE4_1,
    F::SSE4_2,
    F::FXSR,
    F::MMX,
    F::FPU,
    F::FPU287,
    F::FPU387,
];

/// Instructions of features that the table has only in part.
const KNOWN: &[Mnemonic] = &[
    Mnemonic::Tzcnt,
    Mnemonic::Lfence,
    Mnemonic::Mfence,
    Mnemonic::Sfence,
    Mnemonic::Movnti,
    Mnemonic::Prefetchnta,
    Mnemonic::Prefetcht0,
    Mnemonic::Prefetcht1,
    Mnemonic::Prefetcht2,
    Mnemonic::Prefetch,
    Mnemonic::Ud0,
];

/// Instructions that no compiler and no C library emits, or that only the system uses.
const LEFT_OUT: &[Mnemonic] = &[
    Mnemonic::In,
    Mnemonic::Out,
    Mnemonic::Insb,
    Mnemonic::Insw,
    Mnemonic::Insd,
    Mnemonic::Outsb,
    Mnemonic::Outsw,
    Mnemonic::Outsd,
    Mnemonic::Iret,
    Mnemonic::Iretd,
    Mnemonic::Iretq,
    Mnemonic::Retf,
    Mnemonic::Jmp,
    Mnemonic::Call,
    Mnemonic::Lss,
    Mnemonic::Lfs,
    Mnemonic::Lgs,
    Mnemonic::Lar,
    Mnemonic::Lsl,
    Mnemonic::Sldt,
    Mnemonic::Str,
    Mnemonic::Lldt,
    Mnemonic::Ltr,
    Mnemonic::Verr,
    Mnemonic::Verw,
    Mnemonic::Sgdt,
    Mnemonic::Sidt,
    Mnemonic::Lgdt,
    Mnemonic::Lidt,
    Mnemonic::Smsw,
    Mnemonic::Lmsw,
    Mnemonic::Invlpg,
    Mnemonic::Swapgs,
    Mnemonic::Sysret,
    Mnemonic::Sysretq,
    Mnemonic::Mov,
    Mnemonic::Push,
    Mnemonic::Pop,
    Mnemonic::Ffreep,
    Mnemonic::Fneni,
    Mnemonic::Fndisi,
    Mnemonic::Fnsetpm,
    Mnemonic::Fstpnce,
    Mnemonic::Reservednop,
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

const AT: u64 = 0x7f12_3456_7890;

/// Bytes that are an instruction more often than chance: prefixes, an opcode, a tail.
fn bytes(random: &mut Random) -> Vec<u8> {
    const PREFIXES: [u8; 11] = [0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x64, 0x65, 0x2e, 0x40, 0x48, 0x4d];
    let mut bytes = Vec::new();
    let prefixes = [0, 0, 0, 1, 1, 2, 3, 14][random.below(8) as usize];
    for _ in 0..prefixes {
        bytes.push(PREFIXES[random.below(11) as usize]);
    }
    if random.below(2) == 0 {
        bytes.push(0x40 | random.below(16) as u8);
    }
    if random.below(2) == 0 {
        bytes.push(0x0f);
        // Of the opcodes behind 0F 38 and 0F 3A nearly all ask for a prefix.
        if random.below(3) == 0 {
            bytes.insert(0, [0x66, 0x66, 0xf2][random.below(3) as usize]);
            bytes.push([0x38, 0x3a][random.below(2) as usize]);
        }
    }
    bytes.extend((0..16).map(|_| random.next() as u8));
    bytes.truncate(if random.below(8) == 0 { 1 + random.below(15) as usize } else { 16 });
    bytes
}

/// What iced-x86 makes of the bytes, if the table should know it.
fn theirs(bytes: &[u8]) -> Option<Instruction> {
    let mut decoder = Decoder::with_ip(64, bytes, AT, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        return None;
    }
    Some(instruction)
}

fn is_ours(i: &Instruction) -> bool {
    KNOWN.contains(&i.mnemonic()) || i.cpuid_features().iter().all(|f| FEATURES.contains(f))
}

/// The name that the table gives an instruction of iced-x86.
fn name(i: &Instruction) -> String {
    let name = format!("{:?}", i.mnemonic()).to_lowercase();
    let is_string = i
        .op_kinds()
        .any(|k| k != OpKind::Register && k >= OpKind::MemorySegSI && k < OpKind::Memory);
    let stem = name.trim_end_matches(['b', 'w', 'd', 'q']);
    match name.as_str() {
        "cwde" | "cdqe" => "cbw".into(),
        "cdq" | "cqo" => "cwd".into(),
        "sal" => "shl".into(),
        "retn" => "ret".into(),
        "cmpxchg16b" => "cmpxchg8b".into(),
        "imul" if i.op_count() == 1 => "imul1".into(),
        "jecxz" | "jcxz" => "jrcxz".into(),
        "pushfq" | "pushfd" => "pushf".into(),
        "popfq" | "popfd" => "popf".into(),
        "xlatb" => "xlat".into(),
        "wait" | "fwait" => "wait".into(),
        // A doubleword or a quadword by the width of the general register.
        "pinsrq" => "pinsrd".into(),
        "pextrq" => "pextrd".into(),
        "pcmpestri64" => "pcmpestri".into(),
        "pcmpestrm64" => "pcmpestrm".into(),
        "fxsave64" => "fxsave".into(),
        "fxrstor64" => "fxrstor".into(),
        // A doubleword or a quadword between kinds of registers.
        "movq" if matches!(i.code(), Code::Movq_xmm_rm64 | Code::Movq_rm64_xmm) => "movd".into(),
        "movq" if matches!(i.code(), Code::Movq_mm_rm64 | Code::Movq_rm64_mm) => "movd".into(),
        // With F3; it is wbinvd where it does not exist.
        "wbnoinvd" => "wbinvd".into(),
        _ if is_string && ["movs", "cmps", "stos", "lods", "scas"].contains(&stem) => stem.into(),
        _ => name,
    }
}

/// A register's number and size in bytes, and whether it is one of ah, ch, dh, bh.
fn register(r: Register) -> (u8, u8, bool) {
    let high = matches!(r, Register::AH | Register::CH | Register::DH | Register::BH);
    let number = if high { r as u8 - Register::AH as u8 } else { r.full_register().number() as u8 };
    (number, r.size() as u8, high)
}

fn number(r: Register) -> Option<u8> {
    (r != Register::None && r != Register::RIP && r != Register::EIP).then(|| r.number() as u8)
}

/// Whether an operand in memory is the same.
fn same_memory(ours: &Mem, i: &Instruction) -> bool {
    let segment = match i.memory_segment() {
        Register::FS => Some(Segment::Fs),
        Register::GS => Some(Segment::Gs),
        _ => None,
    };
    let scale = [1, 2, 4, 8].iter().position(|&s| s == i.memory_index_scale()).unwrap_or(9) as u8;
    let index = number(i.memory_index()).map(|n| (n, scale));
    let short =
        [i.memory_base(), i.memory_index()].iter().any(|r| r.is_gpr32() || *r == Register::EIP);
    let no_register = i.memory_base() == Register::None && i.memory_index() == Register::None;
    let mask = if ours.short { 0xffff_ffff } else { u64::MAX };
    ours.segment == segment
        && ours.base == number(i.memory_base())
        && ours.index == index
        && ours.displacement as u64 & mask == i.memory_displacement64() & mask
        && (ours.short == short || no_register)
        && ours.relative == i.is_ip_rel_memory_operand()
}

/// Whether the n-th operand of iced-x86 is this one of ours.
fn same(ours: Operand, i: &Instruction, n: u32) -> bool {
    match (ours, i.op_kind(n)) {
        (Operand::Reg(r), OpKind::Register) => {
            (r.number, r.size, r.high) == register(i.op_register(n))
        }
        (Operand::Xmm(number), OpKind::Register) => {
            let r = i.op_register(n);
            r.is_xmm() && u32::from(number) == r as u32 - Register::XMM0 as u32
        }
        (Operand::Mm(number), OpKind::Register) => {
            let r = i.op_register(n);
            r.is_mm() && u32::from(number) == r as u32 - Register::MM0 as u32
        }
        (Operand::Target(target), OpKind::NearBranch64) => target == i.near_branch_target(),
        (Operand::Mem(m), OpKind::Memory) => {
            let size = i.memory_size().size() as u8;
            same_memory(&m, i)
                && (m.size == size
                    || size == 0
                    || i.mnemonic() == Mnemonic::Lea
                    || i.mnemonic() == Mnemonic::Nop)
        }
        (Operand::Mem(m), OpKind::MemorySegRSI | OpKind::MemorySegESI) => {
            m.base == Some(6) && m.short == (i.op_kind(n) == OpKind::MemorySegESI)
        }
        (Operand::Mem(m), OpKind::MemoryESRDI | OpKind::MemoryESEDI) => {
            m.base == Some(7) && m.short == (i.op_kind(n) == OpKind::MemoryESEDI)
        }
        (Operand::Imm(value), _) => i.try_immediate(n).is_ok_and(|theirs| {
            let bits = 8 * immediate_bytes(i.op_kind(n));
            (value as u64 ^ theirs) << (64 - bits) == 0
        }),
        _ => false,
    }
}

/// Bytes of an immediate that are compared: iced-x86 extends some and not others.
fn immediate_bytes(kind: OpKind) -> u32 {
    match kind {
        OpKind::Immediate8 | OpKind::Immediate8_2nd => 1,
        OpKind::Immediate16 | OpKind::Immediate8to16 => 2,
        OpKind::Immediate32 | OpKind::Immediate8to32 => 4,
        _ => 8,
    }
}

/// Whether an instruction is the same in both.
fn compare(ours: &Inst, theirs: &Instruction) -> Result<(), String> {
    if usize::from(ours.len) != theirs.len() {
        return Err(format!("{} bytes, not {}", ours.len, theirs.len()));
    }
    let is_nop = ours.row.name == "xchg" && theirs.mnemonic() == Mnemonic::Nop;
    if is_nop || ours.row.name == "nop" || ours.row.name.starts_with("prefetch") {
        return Ok(());
    }
    if ours.row.name != name(theirs) {
        return Err(format!("{}, not {}", ours.row.name, name(theirs)));
    }
    let is_stack = (0..theirs.op_count()).any(|n| theirs.op_register(n).is_st());
    if ours.row.x87 && (is_stack || ours.is("fnstsw")) && ours.memory().is_none() {
        // The lowest bits of the ModRM byte name the one register that is not the top.
        let is = |r: Register| u32::from(ours.modrm & 7) == r as u32 - Register::ST0 as u32;
        let st = (0..theirs.op_count()).map(|n| theirs.op_register(n)).filter(|r| r.is_st());
        let others: Vec<_> = st.filter(|&r| r != Register::ST0).collect();
        return match others.iter().all(|&r| is(r)) {
            true => Ok(()),
            false => Err(format!("{} {:x}, not {theirs:?}", ours.row.name, ours.modrm)),
        };
    }
    let operands: Vec<Operand> = ours.operands().collect();
    // The table names no operand where there is no choice.
    let count = if ours.row.name == "xlat" { 0 } else { theirs.op_count() };
    let text = || format!("{} {operands:x?}, not {theirs:?}", ours.row.name);
    // The place in memory of a store under a mask stands first.
    let first = u32::from(ours.row.name.starts_with("maskmov"));
    if operands.len() as u32 != count - first {
        return Err(text());
    }
    let all = operands.iter().zip(first..).all(|(&o, n)| same(o, theirs, n));
    if all && ours.lock == theirs.has_lock_prefix() { Ok(()) } else { Err(text()) }
}

/// Near branches with 66 have 16 bits in iced-x86; they are told apart by their operands.
fn is_left_out(i: &Instruction, bytes: &[u8]) -> bool {
    let short_branch = i.op_kinds().any(|k| matches!(k, OpKind::NearBranch16));
    LEFT_OUT.contains(&i.mnemonic()) || short_branch || i.is_privileged() || bytes.is_empty()
}

#[test]
fn the_decoder_agrees_with_iced() {
    let times = std::env::var("LITTORAL_CASES_TIMES").ok().and_then(|t| t.parse().ok());
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut seen = std::collections::BTreeSet::new();
    let mut wrong = std::collections::BTreeMap::<String, String>::new();
    for _ in 0..4_000_000 * times.unwrap_or(1u64) {
        let bytes = bytes(&mut random);
        let result = match (decode(AT, &bytes), theirs(&bytes)) {
            (Ok(ours), Some(theirs)) => {
                seen.insert(ours.row.name.clone());
                compare(&ours, &theirs)
            }
            (Ok(ours), None) => Err(format!("{} is invalid", ours.row.name)),
            (Err(Undecoded::Unknown | Undecoded::TooLong), None) => Ok(()),
            (Err(Undecoded::Truncated), None) => Ok(()),
            (Err(_), Some(i)) if !is_ours(&i) || is_left_out(&i, &bytes) => Ok(()),
            (Err(why), Some(i)) => Err(format!("{:?} is {why:?}", i.code())),
        };
        if let Err(what) = result {
            let key = what.split(' ').next().unwrap_or_default().to_string();
            wrong.entry(key).or_insert_with(|| format!("{bytes:02x?}: {what}"));
        }
    }
    assert!(wrong.is_empty(), "{} kinds: {wrong:#?}", wrong.len());
    let missing: Vec<_> = isa::rows().iter().filter(|r| !seen.contains(&r.name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn an_instruction_that_ends_early_asks_for_more() {
    // add qword [rip + 1], 1
    let whole = [0x48, 0x83, 0x05, 1, 0, 0, 0, 1];
    assert_eq!(decode(AT, &whole).expect("an instruction").len, 8);
    for len in 0..whole.len() {
        assert_eq!(decode(AT, &whole[..len]).unwrap_err(), Undecoded::Truncated);
    }
    let mut long = vec![0x66; 15];
    assert_eq!(decode(AT, &long).unwrap_err(), Undecoded::TooLong);
    long[14] = 0x90;
    assert_eq!(decode(AT, &long).expect("15 bytes").len, 15);
}
