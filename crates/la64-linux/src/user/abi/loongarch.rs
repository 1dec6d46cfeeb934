//! The Linux ABI of LoongArch.
//!
//! Signal frame at the new stack pointer (LoongArch's `rt_sigframe`): siginfo 128 bytes; ucontext
//! with flags, link, stack, mask (128 bytes); sigcontext with pc, 32 registers, flags; extended
//! context records (magic, size, 8 bytes of padding, then registers), placed from the top of the
//! stack down as the kernel does: terminator, then one of FPU, LSX or LASX, the widest that the
//! thread has used, then LBT if the thread has used that.
//!
//! - "Used" means decoded, a little more than executed: a record may be there early, never late.
//! - The x87 stack mode travels in bit 6 of the FCSR, where the hardware shows it; a handler begins
//!   without it, because the kernel turns it off to save the registers.

use super::numbers::SAME;
use super::{Abi, Action, Auxiliary, Delivery, Raised, Registers, Roles, Signals};
use littoral_base::mutant;
use littoral_la64::elf;
use littoral_la64::front::Front;
use littoral_la64::interp::{Features, Used};
use littoral_la64::memory::Window;
use littoral_la64::state::State;

const A0: u8 = 4;
const SP: u8 = 3;
const TP: u8 = 2;

/// The ABI.
pub(in super::super) static ABI: Abi = Abi {
    architecture: None,
    machine: elf::LOONGARCH,
    uname: "loongarch64",
    refuses: |_| None,
    roles: Roles { number: 11, args: [4, 5, 6, 7, 8, 9], stack: SP, thread: TP },
    answer: |registers, result| registers.set(A0, result as u64),
    start: |registers, stack| registers.set(SP, stack),
    numbers: &SAME,
    signals: Signals {
        set_len: 8,
        stack: [0, 2, 1],
        stack_at: STACK,
        stack_len_min: STACK_LEN_MIN,
        load_action: |window, at| {
            let [handler, flags, mask] = window.load_words::<3>(at)?;
            Some(Action { handler, flags, mask, restorer: 0 })
        },
        store_action: |window, at, a| window.store_words(at, [a.handler, a.flags, a.mask]),
        red_zone: 0,
        enter,
        restore,
        info: |info| *info,
        // ori $a7, $zero, 139 (rt_sigreturn); syscall 0
        trampoline: Some([0x0382_2c0b, 0x002b_0000]),
    },
    stat,
    auxiliary,
    cpuinfo,
    clone,
    on_break,
    beyond: |_| None,
    // The kernel's force_sig: no place.
    illegal_code: 0x80,
    guard_code: 2,
    misaligned_code: BUS_ADRERR,
    trap: |trap, _, _| trap,
    call_len: 4,
    alignment: 4,
    coherent: false,
};

/// The kernel's generic `struct stat`.
fn stat(host: &[u64; 18]) -> Vec<u8> {
    // Host (x86-64): dev, ino, nlink, mode|uid, gid|pad, rdev, size, blksize, blocks, times.
    let [dev, ino, nlink, mode_uid, gid, rdev, size, blksize, blocks, rest @ ..] = *host;
    let (mode, uid) = (mode_uid & 0xffff_ffff, mode_uid >> 32);
    let mut words = vec![dev, ino, mode | nlink << 32, uid | gid << 32, rdev, 0, size];
    words.extend([blksize & 0xffff_ffff, blocks]);
    words.extend(&rest[..6]);
    words.push(0);
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// What the kernel says of an address error, which such a jump raises.
const BUS_ADRERR: i32 = 2;
/// MINSIGSTKSZ.
const STACK_LEN_MIN: u64 = 4096;

/// Only what the interpreter executes.
fn auxiliary(features: Features, _: Option<&dyn Front>) -> Auxiliary {
    const AT_PLATFORM: u64 = 15;
    let bit = |on: bool, place: u32| u64::from(on) << place;
    // CPUCFG, LAM, UAL, FPU and CRC32 are always there.
    let base = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 6;
    let capabilities = base
        | bit(features.lsx, 4)
        | bit(features.lasx, 5)
        | bit(features.lbt, 10)
        | bit(features.lbt, 11)
        | bit(features.lbt, 12);
    Auxiliary { capabilities, platform: (AT_PLATFORM, "loongarch"), stack_min: Some(STACK_LEN_MIN) }
}

fn cpuinfo(features: Features, count: usize) -> String {
    let mut text = String::from("system type\t\t: littoral-la64 interpreter\n");
    let name = |on: bool, s: &'static str| if on { s } else { "" };
    let vectors = [name(features.lsx, " lsx"), name(features.lasx, " lasx")].concat();
    for n in 0..count {
        text.push_str(&format!(
            "\nprocessor\t\t: {n}\ncore\t\t\t: {n}\nCPU Family\t\t: Loongson-64bit\n\
             ISA\t\t\t: loongarch64\nFeatures\t\t: cpucfg lam ual fpu{vectors} crc32\n"
        ));
    }
    text
}

fn clone(args: &[u64; 6]) -> [u64; 5] {
    let [flags, stack, parent, child, thread, _] = *args;
    [flags, stack, parent, child, thread]
}

fn on_break(code: u32, pc: u64) -> Raised {
    match code {
        6 => (libc::SIGFPE as u32, 2, pc),
        7 => (libc::SIGFPE as u32, 1, pc),
        _ => (libc::SIGTRAP as u32, 1, pc),
    }
}

const INFO: u64 = 0;
const UCONTEXT: u64 = 128;
const STACK: u64 = UCONTEXT + 16;
const MASK: u64 = UCONTEXT + 40;
const CONTEXT: u64 = UCONTEXT + 176;
const REGISTERS: u64 = CONTEXT + 8;
const FLAGS: u64 = REGISTERS + 256;
/// Length of what stands before the records.
const EXTENDED: u64 = CONTEXT + 272;
const RECORD_HEAD: u64 = 16;
/// FPU_CSR_TM_SHIFT: the place in FCSR0.
const STACK_MODE_BIT: u32 = 6;

/// A kind of extended context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    /// The low `lanes` doublewords of each vector register, condition flags, FCSR.
    Registers { lanes: u64 },
    /// Scratch registers, flags, stack top.
    Lbt,
}

impl Record {
    fn of(magic: u32) -> Option<Record> {
        Some(match magic {
            0x4650_5501 => Record::Registers { lanes: 1 },
            0x5358_0001 => Record::Registers { lanes: 2 },
            0x4153_5801 => Record::Registers { lanes: 4 },
            0x4254_0001 => Record::Lbt,
            _ => return None,
        })
    }

    fn magic(self) -> u32 {
        match self {
            Record::Registers { lanes: 1 } => 0x4650_5501,
            Record::Registers { lanes: 2 } => 0x5358_0001,
            Record::Registers { .. } => 0x4153_5801,
            Record::Lbt => 0x4254_0001,
        }
    }

    /// Length without the head, and alignment, which is at least 16.
    fn shape(self) -> (u64, u64) {
        match self {
            Record::Registers { lanes } => (256 * lanes + 16, (8 * lanes).max(16)),
            Record::Lbt => (40, 16),
        }
    }
}

fn enter(registers: &mut Registers<'_>, w: &Window, d: &Delivery) -> Option<()> {
    let state = &mut *registers.state;
    let (records, frame) = layout(d.used, d.top)?;
    (frame > d.bottom).then_some(())?;
    write_frame(state, w, frame, d)?;
    records.iter().try_for_each(|r| write_record(state, w, r))?;
    state.x[1] = d.trampoline;
    state.x[usize::from(SP)] = frame;
    state.x[4] = u64::from(d.signal);
    state.x[5] = frame + INFO;
    state.x[6] = frame + UCONTEXT;
    state.pc = d.action.handler;
    state.link_address = u64::MAX;
    if !mutant!("la64_handler_in_stack_mode") {
        // The frame has it; a handler's own code names registers as they are.
        state.lbt.stack_mode = 0;
    }
    Some(())
}

/// A record, or the terminator, in a frame: kind, address of its head, length with head.
type Placed = (Option<Record>, u64, u64);

/// The records below `top` and the address of the frame.
fn layout(used: Used, top: u64) -> Option<(Vec<Placed>, u64)> {
    let lanes = match used {
        _ if used.lasx => 4,
        _ if used.lsx => 2,
        _ => 1,
    };
    let mut base = (top & !15).checked_sub(RECORD_HEAD)?;
    let mut placed = vec![(None, base, 0)];
    let lbt = used.lbt.then_some(Record::Lbt);
    for record in std::iter::once(Record::Registers { lanes }).chain(lbt) {
        let (len, align) = record.shape();
        let at = (base.checked_sub(len)? & !(align - 1)).checked_sub(RECORD_HEAD)?;
        placed.push((Some(record), at, base - at));
        base = at;
    }
    Some((placed, base.checked_sub(EXTENDED)?))
}

fn write_frame(state: &State, w: &Window, frame: u64, d: &Delivery) -> Option<()> {
    let put = |at: u64, words: &[u64]| put_words(w, frame + at, words);
    put(INFO, &d.info)?;
    put(UCONTEXT, &[0, 0])?;
    put(STACK, &d.stack)?;
    put(MASK, &[d.mask])?;
    put(CONTEXT, &[state.pc])?;
    put(REGISTERS, &state.x[..32])?;
    const USED_FP: u64 = 1;
    put(FLAGS, &[USED_FP])
}

fn put_words(window: &Window, at: u64, words: &[u64]) -> Option<()> {
    words.iter().enumerate().try_for_each(|(n, &w)| window.store(at + 8 * n as u64, w))
}

fn write_record(state: &State, w: &Window, &(record, at, len): &Placed) -> Option<()> {
    let magic = record.map_or(0, Record::magic);
    put_words(w, at, &[u64::from(magic) | len << 32, 0])?;
    let body = at + RECORD_HEAD;
    match record {
        None => Some(()),
        Some(Record::Registers { lanes }) => {
            for (n, v) in state.v.iter().enumerate() {
                put_words(w, body + 8 * lanes * n as u64, &v.0[..lanes as usize])?;
            }
            let fcc = u64::from_le_bytes(state.fcc);
            let fcsr = state.fcsr | u32::from(state.lbt.stack_mode) << STACK_MODE_BIT;
            put_words(w, body + 256 * lanes, &[fcc, u64::from(fcsr)])
        }
        Some(Record::Lbt) => {
            put_words(w, body, &state.lbt.scratch)?;
            let flags = u64::from(state.lbt.flags) | u64::from(state.lbt.top) << 32;
            put_words(w, body + 32, &[flags])
        }
    }
}

fn restore(registers: &mut Registers<'_>, w: &Window) -> Option<u64> {
    let state = &mut *registers.state;
    let frame = state.x[usize::from(SP)];
    let get = |at: u64| w.load::<u64>(frame.wrapping_add(at));
    let mask = get(MASK)?;
    let pc = get(CONTEXT)?;
    let mut x = [0; 33];
    for (n, x) in x.iter_mut().enumerate().take(32).skip(1) {
        *x = get(REGISTERS + 8 * n as u64)?;
    }
    let mut at = frame.wrapping_add(EXTENDED);
    loop {
        let head = w.load::<u64>(at)?;
        let (magic, len) = (head as u32, head >> 32);
        if magic == 0 {
            break;
        }
        // As in the kernel a record that is unknown or too short spoils the frame.
        let record = Record::of(magic)?;
        (len >= RECORD_HEAD + record.shape().0).then_some(())?;
        match record {
            Record::Registers { lanes } => {
                restore_vectors(state, w, at + RECORD_HEAD, lanes as usize)?
            }
            Record::Lbt => restore_lbt(state, w, at + RECORD_HEAD)?,
        }
        at = at.checked_add(len)?;
    }
    state.x = x;
    state.pc = pc;
    Some(mask)
}

fn restore_lbt(state: &mut State, w: &Window, at: u64) -> Option<()> {
    let [s0, s1, s2, s3, flags] = w.load_words::<5>(at)?;
    let lbt = &mut state.lbt;
    lbt.scratch = [s0, s1, s2, s3];
    lbt.flags = flags as u32;
    lbt.top = (flags >> 32) as u8 & 7;
    Some(())
}

fn restore_vectors(state: &mut State, w: &Window, at: u64, lanes: usize) -> Option<()> {
    for (n, v) in state.v.iter_mut().enumerate() {
        for (lane, word) in v.0.iter_mut().enumerate().take(lanes) {
            *word = w.load(at + (8 * (n * lanes + lane)) as u64)?;
        }
    }
    let tail = at + 256 * lanes as u64;
    state.fcc = w.load::<u64>(tail)?.to_le_bytes().map(|b| b & 1);
    let fcsr = w.load::<u32>(tail + 8)?;
    state.fcsr = fcsr & littoral_la64::state::fcsr::VIEWS[0];
    state.lbt.stack_mode = (fcsr >> STACK_MODE_BIT) as u8 & 1;
    Some(())
}
