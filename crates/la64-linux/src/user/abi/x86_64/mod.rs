//! The Linux ABI of x86-64. Errors, signals, flags and structures are the host's own, so nothing is
//! turned but what lies in registers and in signal frames.

mod frame;

use super::numbers::SAME;
use super::{Abi, Action, Auxiliary, Raised, Roles, Signals, Trap};
use littoral_la64::elf::Machine;
use littoral_la64::front::x86_64::FS;
use littoral_la64::front::{Architecture, Event, Front};
use littoral_la64::interp::Features;
use littoral_la64::memory::Window;

const RAX: u8 = 0;
const RDX: u8 = 2;
const RSP: u8 = 4;
const RSI: u8 = 6;
const RDI: u8 = 7;
/// The kernel names no place.
const SI_KERNEL: i32 = 0x80;
/// MINSIGSTKSZ.
const STACK_LEN_MIN: u64 = 2048;

/// The ABI.
pub(in super::super) static ABI: Abi = Abi {
    architecture: Some(Architecture::X86_64),
    machine: Machine { number: 62, name: "x86-64" },
    uname: "x86_64",
    refuses,
    roles: Roles { number: RAX, args: [RDI, RSI, RDX, 10, 8, 9], stack: RSP, thread: FS },
    answer: |registers, result| registers.set(RAX, result as u64),
    start: |registers, stack| registers.set(RSP, stack),
    numbers: &SAME,
    signals: Signals {
        set_len: 8,
        stack: [0, 2, 1],
        stack_at: frame::STACK,
        stack_len_min: STACK_LEN_MIN,
        load_action,
        store_action,
        red_zone: 128,
        enter: frame::enter,
        restore: frame::restore,
        info: |info| *info,
        trampoline: None,
    },
    stat: |host| host.iter().flat_map(|word| word.to_le_bytes()).collect(),
    auxiliary,
    cpuinfo,
    clone,
    on_break,
    beyond,
    illegal_code: 2,
    guard_code: 1,
    misaligned_code: 1,
    trap,
    call_len: 2,
    alignment: 1,
    coherent: true,
};

/// x32 programs are 32-bit files of this machine.
fn refuses(head: &[u8]) -> Option<&'static str> {
    const CLASS_64: u8 = 2;
    let is_short = head[4] != CLASS_64;
    is_short.then_some("an x32 program (x86-64 with 32-bit addresses); only 64-bit ones run")
}

fn load_action(window: &Window, at: u64) -> Option<Action> {
    let [handler, flags, restorer, mask] = window.load_words::<4>(at)?;
    Some(Action { handler, flags, mask, restorer })
}

fn store_action(window: &Window, at: u64, action: Action) -> Option<()> {
    let Action { handler, flags, mask, restorer } = action;
    window.store_words(at, [handler, flags, restorer, mask])
}

/// AT_HWCAP is what `cpuid` says of the features in edx.
fn auxiliary(_: Features, front: Option<&dyn Front>) -> Auxiliary {
    const AT_PLATFORM: u64 = 15;
    Auxiliary {
        capabilities: front.map_or(0, Front::capabilities),
        platform: (AT_PLATFORM, "x86_64"),
        stack_min: Some(frame::LEN_MAX),
    }
}

fn cpuinfo(_: Features, count: usize) -> String {
    let block = |n: usize| {
        format!(
            "processor\t: {n}\nvendor_id\t: AuthenticAMD\ncpu family\t: 15\n\
             model name\t: littoral-xlate translator\ncpu cores\t: {count}\nfpu\t\t: yes\n\
             flags\t\t: fpu tsc cx8 cmov clflush mmx fxsr sse sse2 syscall lm pni ssse3 cx16 \
             sse4_1 sse4_2 popcnt lahf_lm abm\n\
             clflush size\t: 64\n\n"
        )
    };
    (0..count).map(block).collect()
}

fn clone(args: &[u64; 6]) -> [u64; 5] {
    let [flags, stack, parent, child, thread, _] = *args;
    [flags, stack, parent, child, thread]
}

/// `int1` tells where, `int3` does not.
fn on_break(code: u32, pc: u64) -> Raised {
    const INT1: u32 = 1;
    const TRAP_BRKPT: i32 = 1;
    match code {
        INT1 => (libc::SIGTRAP as u32, TRAP_BRKPT, pc),
        _ => (libc::SIGTRAP as u32, SI_KERNEL, 0),
    }
}

/// Addresses between the two halves of 2^47 bytes are none: the processor's general protection.
fn beyond(at: u64) -> Option<Raised> {
    const HALF: u64 = 1 << 47;
    let is_hole = (HALF..HALF.wrapping_neg()).contains(&at);
    is_hole.then_some((libc::SIGSEGV as u32, SI_KERNEL, 0))
}

/// Numbers of exceptions; the address stays until another access is refused. The bit of the error
/// for a page that is there is set where the address is mapped.
fn trap(before: Trap, event: Event, (_, code, address): Raised) -> Trap {
    const PRESENT: u64 = 1;
    const WRITE: u64 = 2;
    const USER: u64 = 4;
    const FETCH: u64 = 16;
    const SEGV_ACCERR: i32 = 2;
    const PAGE_FAULT: u64 = 14;
    const PROTECTION: u64 = 13;
    let exception = |number| Trap { number, error: 0, ..before };
    let access = |kind| {
        let present = if code == SEGV_ACCERR { PRESENT } else { 0 };
        match code {
            SI_KERNEL => exception(PROTECTION),
            _ => Trap { number: PAGE_FAULT, error: kind | USER | present, address },
        }
    };
    match event {
        Event::Divide => exception(0),
        Event::Step => exception(1),
        Event::Break(number) => exception(number.into()),
        Event::Illegal(_) => exception(6),
        Event::Privileged => exception(PROTECTION),
        Event::X87(_) => exception(16),
        Event::Float => exception(19),
        Event::Load(_) => access(0),
        Event::Store(_) => access(WRITE),
        Event::Fetch(_) => access(FETCH),
        _ => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_between_the_halves_are_no_programs() {
        let none = [0, 0x7fff_ffff_ffff, 0xffff_8000_0000_0000, u64::MAX];
        assert!(none.iter().all(|&at| beyond(at).is_none()));
        let hole = [0x8000_0000_0000, 1 << 63, 0xffff_7fff_ffff_ffff];
        assert!(hole.iter().all(|&at| beyond(at) == Some((11, SI_KERNEL, 0))));
    }

    #[test]
    fn a_refused_access_is_remembered() {
        let at = 0x1234;
        let store = trap(Trap::default(), Event::Store(at), (11, 2, at));
        assert_eq!(store, Trap { number: 14, error: 7, address: at });
        let divide = trap(store, Event::Divide, (8, 1, 0));
        assert_eq!(divide, Trap { number: 0, error: 0, address: at });
    }
}
