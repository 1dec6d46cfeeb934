//! The Linux ABI N64 of MIPS64, little-endian.

pub(in super::super) mod convert;
mod frame;
pub(in super::super) mod tables;

use super::numbers::{flags_to_guest, flags_to_host, to_guest};
use super::{Abi, Action, Auxiliary, Raised, Registers, Roles, Signals};
use littoral_la64::elf::Machine;
use littoral_la64::front::mips64::THREAD;
use littoral_la64::front::{Architecture, Front};
use littoral_la64::interp::Features;
use littoral_la64::memory::Window;
use tables::NUMBERS;

const V0: u8 = 2;
/// Where `pipe` puts its second descriptor.
pub(in super::super) const V1: u8 = 3;
const A3: u8 = 7;
const T9: u8 = 25;
const SP: u8 = 29;
const RA: u8 = 31;
/// The kernel names no place.
const SI_KERNEL: i32 = 0x80;

/// The ABI.
pub(in super::super) static ABI: Abi = Abi {
    architecture: Some(Architecture::Mips64),
    machine: Machine { number: 8, name: "MIPS64" },
    uname: "mips64",
    refuses,
    roles: Roles { number: V0, args: [4, 5, 6, 7, 8, 9], stack: SP, thread: THREAD },
    answer,
    start,
    numbers: &NUMBERS,
    signals: Signals {
        set_len: 16,
        stack: [0, 1, 2],
        stack_at: frame::STACK,
        stack_len_min: 2048,
        load_action,
        store_action,
        red_zone: 0,
        enter: frame::enter,
        restore: frame::restore,
        info: convert::info,
        // addiu $2, $0, 5211 (rt_sigreturn); syscall
        trampoline: Some([0x2402_145b, 0x0000_000c]),
    },
    stat: convert::stat,
    auxiliary,
    cpuinfo,
    clone,
    on_break,
    beyond,
    // The kernel's force_sig: no place.
    illegal_code: SI_KERNEL,
    guard_code: 2,
    misaligned_code: SI_KERNEL,
    trap: |trap, _, _| trap,
    call_len: 4,
    alignment: 4,
    coherent: false,
};

/// The one signal mask word that is used: the kernel has no signal above 64 to deliver here.
pub(in super::super) const SET_USED_LEN: u64 = 8;

fn refuses(head: &[u8]) -> Option<&'static str> {
    const CLASS_64: u8 = 2;
    const LITTLE: u8 = 1;
    const FLAG_N32: u32 = 0x20;
    const FLAG_NAN_2008: u32 = 0x400;
    const FLAG_MICRO: u32 = 0x0200_0000;
    const RELEASE_6: [u32; 2] = [0x9000_0000, 0xa000_0000];
    if head[5] != LITTLE {
        return Some("a big-endian MIPS program; only little-endian ones (mips64el) run");
    }
    let at = if head[4] == CLASS_64 { 48 } else { 36 };
    let flags = head.get(at..at + 4)?.try_into().map_or(0, u32::from_le_bytes);
    if head[4] != CLASS_64 {
        let is_n32 = flags & FLAG_N32 != 0;
        return Some(match is_n32 {
            true => "a MIPS program of the ABI n32; only n64 runs",
            false => "a MIPS program of the ABI o32; only n64 runs",
        });
    }
    let machine = flags & 0xf000_0000;
    match () {
        () if RELEASE_6.contains(&machine) => Some("a MIPS release 6 program; release 2 runs"),
        () if flags & FLAG_MICRO != 0 => Some("a microMIPS program; only MIPS64 code runs"),
        () if flags & FLAG_NAN_2008 != 0 => {
            Some("a MIPS program with NaNs of IEEE 754-2008; only the legacy encoding runs")
        }
        () => None,
    }
}

fn answer(registers: &mut Registers<'_>, result: i64) {
    let failed = (-4095..0).contains(&result);
    let value = if failed { to_guest(NUMBERS.errors, -result as u64) } else { result as u64 };
    registers.set(V0, value);
    registers.set(A3, failed.into());
}

fn start(registers: &mut Registers<'_>, stack: u64) {
    let entry = registers.state.pc;
    registers.set(SP, stack);
    registers.set(T9, entry);
}

fn load_action(window: &Window, at: u64) -> Option<Action> {
    let [flags, handler, mask] = window.load_words::<3>(at)?;
    let flags = flags_to_host(NUMBERS.action, flags & 0xffff_ffff);
    Some(Action { handler, flags, mask: NUMBERS.host_set(mask), restorer: 0 })
}

fn store_action(window: &Window, at: u64, action: Action) -> Option<()> {
    let flags = flags_to_guest(NUMBERS.action, action.flags);
    window.store_words(at, [flags, action.handler, NUMBERS.guest_set(action.mask), 0])
}

fn auxiliary(_: Features, _: Option<&dyn Front>) -> Auxiliary {
    const AT_BASE_PLATFORM: u64 = 24;
    Auxiliary { capabilities: 0, platform: (AT_BASE_PLATFORM, "mips64r2"), stack_min: None }
}

fn cpuinfo(_: Features, count: usize) -> String {
    let mut text = String::from("system type\t\t: littoral-xlate translator\n");
    for n in 0..count {
        text.push_str(&format!(
            "\nprocessor\t\t: {n}\ncpu model\t\t: MIPS64R2-generic FPU V0.0\n\
             wait instruction\t: no\nisa\t\t\t: mips1 mips2 mips3 mips4 mips5 mips32r1 \
             mips32r2 mips64r1 mips64r2\nASEs implemented\t:\n"
        ));
    }
    text
}

/// The kernel of MIPS takes the thread pointer before the child's id.
fn clone(args: &[u64; 6]) -> [u64; 5] {
    let [flags, stack, parent, thread, child, _] = *args;
    let signal = super::numbers::to_host(NUMBERS.signals, flags & 0xff);
    [flags & !0xff | signal, stack, parent, child, thread]
}

/// An assembler puts the code into the upper half of the field, so the kernel swaps the halves.
fn on_break(code: u32, pc: u64) -> Raised {
    const HALF: u32 = 10;
    const OVERFLOW: u32 = 6;
    const DIVIDE: u32 = 7;
    const BUG: u32 = 12;
    const EMULATOR: u32 = 514;
    const FPE_INTDIV: i32 = 1;
    const FPE_INTOVF: i32 = 2;
    const TRAP_BRKPT: i32 = 1;
    let swapped = (code & ((1 << HALF) - 1)) << HALF | code >> HALF;
    let code = if code >= 1 << HALF { swapped } else { code };
    match code {
        OVERFLOW => (libc::SIGFPE as u32, FPE_INTOVF, pc),
        DIVIDE => (libc::SIGFPE as u32, FPE_INTDIV, pc),
        BUG | EMULATOR => (libc::SIGTRAP as u32, SI_KERNEL, 0),
        _ => (libc::SIGTRAP as u32, TRAP_BRKPT, 0),
    }
}

/// User space ends at 1 TiB: an access behind it is a bus error.
fn beyond(at: u64) -> Option<Raised> {
    (at >= 1 << 40).then_some((libc::SIGBUS as u32, SI_KERNEL, 0))
}
