//! A process that runs programs on the host processor.
//!
//! It is an executable of our own, written here byte by byte, so that a program meets nothing but
//! its code, its data and the kernel:
//!
//! | address | what |
//! |---|---|
//! | [`CODE`], [`DATA`] | a page each, of the program; code cannot be written while it runs |
//! | [`STATE`] | registers, vectors too: before a run the program's, behind it what the kernel's signal frame shows |
//! | [`MONITOR`] | reads code, data and state from standard input, loads the registers, jumps |
//!
//! Each program ends with a signal. The handler writes state and data to standard output and waits
//! for the next program. The process ends when its standard input does.
//!
//! A program whose flags have the trap flag stops behind each instruction. The handler then notes
//! the address of the next one and a sum of the registers ([`sum_of`]), up to [`STOPS_MAX`] times,
//! and goes on.

use littoral_xlate::x86::float::Vectors;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Where programs lie.
pub const CODE: u64 = 0x10_0000;
/// What their pointers point to.
pub const DATA: u64 = 0x10_1000;
/// Bytes of either.
pub const PAGE: usize = 0x1000;
/// Bases of the segments fs and gs, which the monitor sets.
pub const BASES: (u64, u64) = (0x40, 0x28);
/// Far from the data, so that a small index does not reach it.
const STATE: u64 = 0x4018_0000;
const STATE_LEN: usize = 1024;
/// The most stops that are noted: behind the state their number, then two words of each.
pub const STOPS_MAX: usize = 120;
const NOTED_LEN: usize = STATE_LEN + 8 + 16 * STOPS_MAX;
/// Where vector registers lie in it, as `fxsave` places them.
const VECTORS: usize = 512;
/// Behind the file's headers.
const MONITOR: u64 = 0x401c_0200;
/// Addresses that the process has for itself.
pub(super) const OWN_ADDRESSES: std::ops::Range<u64> = STATE..MONITOR + PAGE as u64;

/// The monitor's instructions.
const INSTRUCTIONS: &[&[u8]] = &[
    // start:
    &[0xb8, 0x9e, 0x00, 0x00, 0x00], // mov eax,0x9e
    &[0xbf, 0x02, 0x10, 0x00, 0x00], // mov edi,0x1002
    &[0xbe, 0x40, 0x00, 0x00, 0x00], // mov esi,0x40
    &[0x0f, 0x05],                   // syscall
    &[0xb8, 0x9e, 0x00, 0x00, 0x00], // mov eax,0x9e
    &[0xbf, 0x01, 0x10, 0x00, 0x00], // mov edi,0x1001
    &[0xbe, 0x28, 0x00, 0x00, 0x00], // mov esi,0x28
    &[0x0f, 0x05],                   // syscall
    &[0xbc, 0x00, 0x00, 0x1a, 0x40], // mov esp,0x401a0000
    &[0xb8, 0x83, 0x00, 0x00, 0x00], // mov eax,0x83
    &[0xbf, 0x44, 0x04, 0x1c, 0x40], // mov edi,0x401c0444
    &[0x31, 0xf6],                   // xor esi,esi
    &[0x0f, 0x05],                   // syscall
    &[0xbb, 0x7c, 0x04, 0x1c, 0x40], // mov ebx,0x401c047c
    // next_signal:
    &[0x0f, 0xb6, 0x3b],                   // movzx edi,[rbx]
    &[0x85, 0xff],                         // test edi,edi
    &[0x74, 0x19],                         // je 5a
    &[0xb8, 0x0d, 0x00, 0x00, 0x00],       // mov eax,0xd
    &[0xbe, 0x5c, 0x04, 0x1c, 0x40],       // mov esi,0x401c045c
    &[0x31, 0xd2],                         // xor edx,edx
    &[0x41, 0xba, 0x08, 0x00, 0x00, 0x00], // mov r10d,0x8
    &[0x0f, 0x05],                         // syscall
    &[0x48, 0xff, 0xc3],                   // inc rbx
    &[0xeb, 0xe0],                         // jmp 3a
    // again:
    &[0xba, 0x03, 0x00, 0x00, 0x00],                   // mov edx,0x3
    &[0xe8, 0xc5, 0x01, 0x00, 0x00],                   // call 229
    &[0xbe, 0x00, 0x00, 0x10, 0x00],                   // mov esi,0x100000
    &[0xba, 0x00, 0x20, 0x00, 0x00],                   // mov edx,0x2000
    &[0x31, 0xdb],                                     // xor ebx,ebx
    &[0xe8, 0xa0, 0x01, 0x00, 0x00],                   // call 215
    &[0xbe, 0x00, 0x00, 0x18, 0x40],                   // mov esi,0x40180000
    &[0xba, 0x00, 0x04, 0x00, 0x00],                   // mov edx,0x400
    &[0xe8, 0x91, 0x01, 0x00, 0x00],                   // call 215
    &[0xba, 0x05, 0x00, 0x00, 0x00],                   // mov edx,0x5
    &[0xe8, 0x9b, 0x01, 0x00, 0x00],                   // call 229
    &[0x31, 0xc0],                                     // xor eax,eax
    &[0x48, 0x89, 0x04, 0x25, 0x00, 0x04, 0x18, 0x40], // mov 0x40180400,rax
    &[0x0f, 0xae, 0x0c, 0x25, 0x00, 0x02, 0x18, 0x40], // fxrstor 0x40180200
    &[0xbc, 0x80, 0x00, 0x18, 0x40],                   // mov esp,0x40180080
    &[0x9d],                                           // popf
    &[0x48, 0x8b, 0x04, 0x25, 0x00, 0x00, 0x18, 0x40], // mov rax,0x40180000
    &[0x48, 0x8b, 0x0c, 0x25, 0x08, 0x00, 0x18, 0x40], // mov rcx,0x40180008
    &[0x48, 0x8b, 0x14, 0x25, 0x10, 0x00, 0x18, 0x40], // mov rdx,0x40180010
    &[0x48, 0x8b, 0x1c, 0x25, 0x18, 0x00, 0x18, 0x40], // mov rbx,0x40180018
    &[0x48, 0x8b, 0x24, 0x25, 0x20, 0x00, 0x18, 0x40], // mov rsp,0x40180020
    &[0x48, 0x8b, 0x2c, 0x25, 0x28, 0x00, 0x18, 0x40], // mov rbp,0x40180028
    &[0x48, 0x8b, 0x34, 0x25, 0x30, 0x00, 0x18, 0x40], // mov rsi,0x40180030
    &[0x48, 0x8b, 0x3c, 0x25, 0x38, 0x00, 0x18, 0x40], // mov rdi,0x40180038
    &[0x4c, 0x8b, 0x04, 0x25, 0x40, 0x00, 0x18, 0x40], // mov r8,0x40180040
    &[0x4c, 0x8b, 0x0c, 0x25, 0x48, 0x00, 0x18, 0x40], // mov r9,0x40180048
    &[0x4c, 0x8b, 0x14, 0x25, 0x50, 0x00, 0x18, 0x40], // mov r10,0x40180050
    &[0x4c, 0x8b, 0x1c, 0x25, 0x58, 0x00, 0x18, 0x40], // mov r11,0x40180058
    &[0x4c, 0x8b, 0x24, 0x25, 0x60, 0x00, 0x18, 0x40], // mov r12,0x40180060
    &[0x4c, 0x8b, 0x2c, 0x25, 0x68, 0x00, 0x18, 0x40], // mov r13,0x40180068
    &[0x4c, 0x8b, 0x34, 0x25, 0x70, 0x00, 0x18, 0x40], // mov r14,0x40180070
    &[0x4c, 0x8b, 0x3c, 0x25, 0x78, 0x00, 0x18, 0x40], // mov r15,0x40180078
    &[0xff, 0x24, 0x25, 0x88, 0x00, 0x18, 0x40],       // jmp 0x40180088
    // handler:
    &[0x83, 0xff, 0x05],                         // cmp edi,0x5
    &[0x75, 0x71],                               // jne 1a3
    &[0x83, 0x7e, 0x08, 0x02],                   // cmp [rsi+0x8],0x2
    &[0x75, 0x6b],                               // jne 1a3
    &[0x48, 0x8b, 0x82, 0xa8, 0x00, 0x00, 0x00], // mov rax,[rdx+0xa8]
    &[0x48, 0x89, 0xc1],                         // mov rcx,rax
    &[0x48, 0xc1, 0xe9, 0x0c],                   // shr rcx,0xc
    &[0x48, 0x81, 0xf9, 0xc0, 0x01, 0x04, 0x00], // cmp rcx,0x401c0
    &[0x74, 0x3e],                               // je 18d
    &[0x8b, 0x0c, 0x25, 0x00, 0x04, 0x18, 0x40], // mov ecx,0x40180400
    &[0x83, 0xf9, 0x78],                         // cmp ecx,0x78
    &[0x73, 0x3c],                               // jae 197
    &[0xff, 0x04, 0x25, 0x00, 0x04, 0x18, 0x40], // inc 0x40180400
    &[0xc1, 0xe1, 0x04],                         // shl ecx,0x4
    &[0x48, 0x89, 0x81, 0x08, 0x04, 0x18, 0x40], // mov [rcx+0x40180408],rax
    &[0x48, 0x8d, 0x72, 0x28],                   // lea rsi,[rdx+0x28]
    &[0xbf, 0x10, 0x00, 0x00, 0x00],             // mov edi,0x10
    &[0x31, 0xc0],                               // xor eax,eax
    // sum:
    &[0x48, 0xc1, 0xc0, 0x07],                   // rol rax,0x7
    &[0x48, 0x03, 0x06],                         // add rax,[rsi]
    &[0x48, 0x83, 0xc6, 0x08],                   // add rsi,0x8
    &[0xff, 0xcf],                               // dec edi
    &[0x75, 0xf1],                               // jne 177
    &[0x48, 0x89, 0x81, 0x10, 0x04, 0x18, 0x40], // mov [rcx+0x40180410],rax
    // back:
    &[0x48, 0x89, 0xd4],             // mov rsp,rdx
    &[0xb8, 0x0f, 0x00, 0x00, 0x00], // mov eax,0xf
    &[0x0f, 0x05],                   // syscall
    // enough:
    &[0x81, 0xa2, 0xb0, 0x00, 0x00, 0x00, 0xff, 0xfe, 0xff, 0xff], // and [rdx+0xb0],0xfffffeff
    &[0xeb, 0xea],                                                 // jmp 18d
    // ended:
    &[0x48, 0x89, 0x3c, 0x25, 0x90, 0x00, 0x18, 0x40], // mov 0x40180090,rdi
    &[0x48, 0x63, 0x46, 0x08],                         // movsxd rax,[rsi+0x8]
    &[0x48, 0x89, 0x04, 0x25, 0x98, 0x00, 0x18, 0x40], // mov 0x40180098,rax
    &[0x48, 0x8b, 0x46, 0x10],                         // mov rax,[rsi+0x10]
    &[0x48, 0x89, 0x04, 0x25, 0xa0, 0x00, 0x18, 0x40], // mov 0x401800a0,rax
    &[0x48, 0x8d, 0x72, 0x28],                         // lea rsi,[rdx+0x28]
    &[0xbf, 0xa8, 0x00, 0x18, 0x40],                   // mov edi,0x401800a8
    &[0xb9, 0x12, 0x00, 0x00, 0x00],                   // mov ecx,0x12
    &[0xf3, 0x48, 0xa5],                               // rep movs [rdi],[rsi]
    &[0x48, 0x8b, 0xb2, 0xe0, 0x00, 0x00, 0x00],       // mov rsi,[rdx+0xe0]
    &[0xbf, 0x00, 0x02, 0x18, 0x40],                   // mov edi,0x40180200
    &[0xb9, 0x40, 0x00, 0x00, 0x00],                   // mov ecx,0x40
    &[0xf3, 0x48, 0xa5],                               // rep movs [rdi],[rsi]
    &[0xbc, 0x00, 0x00, 0x1a, 0x40],                   // mov esp,0x401a0000
    &[0xbb, 0x01, 0x00, 0x00, 0x00],                   // mov ebx,0x1
    &[0xbe, 0x00, 0x00, 0x18, 0x40],                   // mov esi,0x40180000
    &[0xba, 0x88, 0x0b, 0x00, 0x00],                   // mov edx,0xb88
    &[0xe8, 0x14, 0x00, 0x00, 0x00],                   // call 215
    &[0xbe, 0x00, 0x10, 0x10, 0x00],                   // mov esi,0x101000
    &[0xba, 0x00, 0x10, 0x00, 0x00],                   // mov edx,0x1000
    &[0xe8, 0x05, 0x00, 0x00, 0x00],                   // call 215
    &[0xe9, 0x45, 0xfe, 0xff, 0xff],                   // jmp 5a
    // transfer:
    &[0x89, 0xd8],       // mov eax,ebx
    &[0x89, 0xdf],       // mov edi,ebx
    &[0x0f, 0x05],       // syscall
    &[0x48, 0x85, 0xc0], // test rax,rax
    &[0x7e, 0x1b],       // jle 23b
    &[0x48, 0x01, 0xc6], // add rsi,rax
    &[0x48, 0x29, 0xc2], // sub rdx,rax
    &[0x75, 0xed],       // jne 215
    &[0xc3],             // ret
    // protect:
    &[0xb8, 0x0a, 0x00, 0x00, 0x00], // mov eax,0xa
    &[0xbf, 0x00, 0x00, 0x10, 0x00], // mov edi,0x100000
    &[0xbe, 0x00, 0x10, 0x00, 0x00], // mov esi,0x1000
    &[0x0f, 0x05],                   // syscall
    &[0xc3],                         // ret
    // quit:
    &[0xb8, 0x3c, 0x00, 0x00, 0x00], // mov eax,0x3c
    &[0x31, 0xff],                   // xor edi,edi
    &[0x0f, 0x05],                   // syscall
];

/// Behind the instructions: the signal stack, the action, the signals it is for.
fn tables() -> Vec<u8> {
    const HANDLER: u64 = MONITOR + 0x12d;
    const QUIT: u64 = MONITOR + 0x23b;
    /// With details, on its own stack, not blocked meanwhile, with a restorer.
    const ACTION_FLAGS: u64 = 4 | 0x0800_0000 | 0x4000_0000 | 0x0400_0000;
    const SIGNAL_STACK: [u64; 3] = [STATE + PAGE as u64, 0, 0x1_e000];
    let words = SIGNAL_STACK.iter().chain(&[HANDLER, ACTION_FLAGS, QUIT, 0]);
    let mut bytes: Vec<u8> = words.flat_map(|w| w.to_le_bytes()).collect();
    bytes.extend([4, 5, 7, 8, 11, 0]);
    bytes
}

/// The executable.
fn file() -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for word in [MONITOR, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
    let code: Vec<u8> = INSTRUCTIONS.concat();
    assert_eq!(code.len(), 0x244, "tables stand behind the instructions");
    let len = 0x200 + code.len() as u64 + tables().len() as u64;
    let (read, write, execute) = (4, 2, 1);
    // Type, rights, bytes in the file, address, bytes in memory.
    for (kind, rights, in_file, at, in_memory) in [
        (1, read | write, 0, CODE, 0x2000),
        (1, read | write, 0, STATE, 0x2_0000),
        (1, read | execute, len, MONITOR - 0x200, len),
        (0x6474_e551, read | write, 0, 0, 0),
    ] {
        file.extend(u32::to_le_bytes(kind));
        file.extend(u32::to_le_bytes(rights));
        for word in [0, at, at, in_file, in_memory, 0x1000] {
            file.extend(u64::to_le_bytes(word));
        }
    }
    file.resize(0x200, 0);
    file.extend(code);
    file.extend(tables());
    file
}

/// Registers in the order of their numbers, flags, instruction pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// General registers.
    pub gpr: [u64; 16],
    /// RFLAGS.
    pub flags: u64,
    /// Instruction pointer.
    pub rip: u64,
    /// Vector registers and MXCSR.
    pub vectors: Vectors,
    /// x87, in the order of `fxsave` without MXCSR.
    pub x87: [u64; 19],
}

/// How a program ended.
#[derive(Clone, Debug)]
pub struct End {
    /// The signal.
    pub signal: u64,
    /// Its code.
    pub code: i64,
    /// The address that it names.
    pub address: u64,
    /// Registers in the signal frame.
    pub registers: Registers,
    /// Where it stopped by its trap flag, and the sums of its registers there; where it begins,
    /// first.
    pub stops: Vec<(u64, u64)>,
    /// The data page.
    pub data: Vec<u8>,
}

/// Where a signal frame has each general register: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx,
/// rsp.
const PLACES: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];

/// What is noted of the registers where a program stops.
pub fn sum_of(gpr: &[u64; 16]) -> u64 {
    let mut in_frame = [0; 16];
    PLACES.iter().zip(gpr).for_each(|(&place, &value)| in_frame[place] = value);
    in_frame.iter().fold(0u64, |sum, &value| sum.rotate_left(7).wrapping_add(value))
}

/// The process.
#[derive(Debug)]
pub struct Host {
    child: Child,
    folder: PathBuf,
}

impl Host {
    /// Starts it.
    ///
    /// # Errors
    /// The executable cannot be written or started.
    pub fn start() -> std::io::Result<Host> {
        // A process that another thread starts meanwhile would keep the file open to be written
        // until it executes its own, and Linux executes no file that is open so.
        static ONE_AT_A_TIME: Mutex<u32> = Mutex::new(0);
        let mut number = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        let name = format!("littoral-x86-{}-{}", std::process::id(), *number);
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder)?;
        let path = folder.join("monitor");
        std::fs::write(&path, file())?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))?;
        let child = Command::new(&path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        if child.is_err() {
            let _ = std::fs::remove_dir_all(&folder);
        }
        Ok(Host { child: child?, folder })
    }

    /// Runs a program.
    ///
    /// # Panics
    /// The process has ended.
    pub fn run(&mut self, code: &[u8], data: &[u8], registers: &Registers) -> End {
        let mut input = code.to_vec();
        input.resize(PAGE, 0xcc);
        input.extend(data);
        let words = registers.gpr.iter().chain([&registers.flags, &registers.rip]);
        input.extend(words.flat_map(|w| w.to_le_bytes()));
        input.resize(2 * PAGE + VECTORS, 0);
        input.extend(registers.x87[..3].iter().flat_map(|w| w.to_le_bytes()));
        input.extend(registers.vectors.mxcsr.to_le_bytes());
        input.resize(2 * PAGE + VECTORS + 32, 0);
        input.extend(registers.x87[3..].iter().flat_map(|w| w.to_le_bytes()));
        input.extend(registers.vectors.xmm.iter().flatten().flat_map(|w| w.to_le_bytes()));
        input.resize(2 * PAGE + STATE_LEN, 0);
        let mut output = vec![0; NOTED_LEN + PAGE];
        let stdin = self.child.stdin.as_mut().expect("its input is a pipe");
        stdin.write_all(&input).expect("the monitor reads");
        let stdout = self.child.stdout.as_mut().expect("its output is a pipe");
        stdout.read_exact(&mut output).expect("the monitor answers");
        let word = |at: usize| {
            let bytes = output[at..at + 8].try_into().expect("8 bytes");
            u64::from_le_bytes(bytes)
        };
        // rip and flags stand behind the general registers.
        let frame = |n: usize| word(168 + 8 * n);
        let gpr = std::array::from_fn(|n| frame(PLACES[n]));
        let xmm = |n: usize| [0, 8].map(|half| word(VECTORS + 160 + 16 * n + half));
        let mxcsr = word(VECTORS + 24) as u32;
        let vectors = Vectors { xmm: std::array::from_fn(xmm), mxcsr };
        let x87 = std::array::from_fn(|n| word(VECTORS + 8 * n + if n < 3 { 0 } else { 8 }));
        let registers = Registers { gpr, rip: frame(16), flags: frame(17), vectors, x87 };
        let count = word(STATE_LEN) as usize;
        let stop = |n: usize| [8, 16].map(|at| word(STATE_LEN + at + 16 * n)).into();
        let stops = (0..count.min(STOPS_MAX)).map(stop).collect();
        let data = output[NOTED_LEN..].to_vec();
        let (signal, code, address) = (word(144), word(152) as i64, word(160));
        End { signal, code, address, registers, stops, data }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
