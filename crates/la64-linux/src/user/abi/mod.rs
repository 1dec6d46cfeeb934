//! What differs between the Linux ABIs of guests: numbers, structures, frames. Everything else of
//! this crate serves every guest alike.
//!
//! - [`loongarch`]: LoongArch programs, which the interpreter of `littoral-la64` runs itself.
//! - [`mips64`]: MIPS64 programs of the ABI N64, which need a translator.
//! - [`x86_64`]: x86-64 programs, which need a translator; numbers and structures are the host's.
//! - Inside this crate signals, errors and flags have the host's numbers, which are those of the
//!   kernel's generic tables. An [`Abi`] turns the guest's into these and back.
//!
//! Invariants
//! - A number that an ABI does not name has the same meaning on both sides. Checked by
//!   `numbers_are_turned_and_turned_back`.

pub(super) mod loongarch;
pub(super) mod mips64;
pub(super) mod numbers;
pub(super) mod x86_64;

use littoral_base::mutant;
use littoral_la64::elf::{self, Machine};
use littoral_la64::front::{Architecture, Event, Front, Translator};
use littoral_la64::interp::{Features, Used};
use littoral_la64::memory::Window;
use littoral_la64::state::State;
use numbers::Numbers;

/// Translators that the command was given.
pub(super) type Fronts = &'static [&'static dyn Front];

/// Registers of the guest by what the ABI uses them for.
#[derive(Debug)]
pub(super) struct Roles {
    /// Number of a system call.
    pub(super) number: u8,
    /// Its arguments.
    pub(super) args: [u8; 6],
    /// Stack pointer.
    pub(super) stack: u8,
    /// Thread pointer.
    pub(super) thread: u8,
}

/// Registers of a thread by the numbers that the guest's architecture gives them.
pub(super) struct Registers<'a> {
    pub(super) state: &'a mut State,
    /// What runs a guest that is no LoongArch program.
    pub(super) translator: Option<&'a dyn Translator>,
}

impl Registers<'_> {
    pub(super) fn get(&self, number: u8) -> u64 {
        match self.translator {
            Some(translator) => translator.get(self.state, number),
            None => self.state.x[usize::from(number)],
        }
    }

    pub(super) fn set(&mut self, number: u8, value: u64) {
        match self.translator {
            Some(translator) => translator.set(self.state, number, value),
            None => self.state.x[usize::from(number)] = value,
        }
    }
}

/// A guest signal handler.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Action {
    pub(super) handler: u64,
    pub(super) flags: u64,
    pub(super) mask: u64,
    /// Where the handler returns to, of ABIs whose programs say so.
    pub(super) restorer: u64,
}

/// What a processor says of the latest fault of a thread, for frames that show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trap {
    pub(super) number: u64,
    pub(super) error: u64,
    /// The address of the latest refused access.
    pub(super) address: u64,
}

/// The signal for an event: number, code, address.
pub(super) type Raised = (u32, i32, u64);

/// A signal that is delivered, and what its frame says of the interrupted thread.
pub(super) struct Delivery {
    /// The frame lies below.
    pub(super) top: u64,
    /// The alternate stack of the frame begins here; 0 for another stack. A frame that does not end
    /// above it is none.
    pub(super) bottom: u64,
    /// The host's number.
    pub(super) signal: u32,
    /// The guest's siginfo.
    pub(super) info: [u64; 16],
    pub(super) action: Action,
    /// Signals that were blocked, by the host's numbers.
    pub(super) mask: u64,
    /// The words of `stack_t`.
    pub(super) stack: [u64; 3],
    /// Where the code that returns from a handler lies, if there is one.
    pub(super) trampoline: u64,
    pub(super) trap: Trap,
    /// Extensions that the program has used.
    pub(super) used: Used,
}

/// Structures of signals.
pub(super) struct Signals {
    /// Bytes of a set.
    pub(super) set_len: u64,
    /// Places of base, length and flags in `stack_t`.
    pub(super) stack: [usize; 3],
    /// Where a frame has the `stack_t` of the interrupted thread.
    pub(super) stack_at: u64,
    /// The fewest bytes of an alternate stack (MINSIGSTKSZ).
    pub(super) stack_len_min: u64,
    /// Reads a `struct sigaction`.
    pub(super) load_action: fn(&Window, u64) -> Option<Action>,
    /// Writes one.
    pub(super) store_action: fn(&Window, u64, Action) -> Option<()>,
    /// Bytes below the stack pointer that the interrupted code may use.
    pub(super) red_zone: u64,
    /// Puts a frame below an address and enters a handler.
    pub(super) enter: fn(&mut Registers<'_>, &Window, &Delivery) -> Option<()>,
    /// Restores what the frame at the stack pointer says; the mask of signals, by the host's
    /// numbers.
    pub(super) restore: fn(&mut Registers<'_>, &Window) -> Option<u64>,
    /// The siginfo of the guest for one of the host.
    pub(super) info: fn(&[u64; 16]) -> [u64; 16],
    /// Instructions that return from a handler, unless the program has its own.
    pub(super) trampoline: Option<[u32; 2]>,
}

/// A guest's Linux ABI.
pub(super) struct Abi {
    /// What is translated; `None` for LoongArch.
    pub(super) architecture: Option<Architecture>,
    pub(super) machine: Machine,
    /// What `uname` calls the machine.
    pub(super) uname: &'static str,
    /// Why a file of this machine is refused all the same.
    pub(super) refuses: fn(&[u8]) -> Option<&'static str>,
    pub(super) roles: Roles,
    /// Puts the result of a call, or a negative error of the host, into the registers.
    pub(super) answer: fn(&mut Registers<'_>, i64),
    /// Sets the registers of a program that begins at its first argument.
    pub(super) start: fn(&mut Registers<'_>, u64),
    /// Numbers that differ from the host's.
    pub(super) numbers: &'static Numbers,
    pub(super) signals: Signals,
    /// `struct stat` from the host's.
    pub(super) stat: fn(&[u64; 18]) -> Vec<u8>,
    /// Entries of the auxiliary vector for the machine; a string's address is put in later.
    pub(super) auxiliary: fn(Features, Option<&dyn Front>) -> Auxiliary,
    /// The text of /proc/cpuinfo for this many processors.
    pub(super) cpuinfo: fn(Features, usize) -> String,
    /// Arguments of `clone` in the order flags, stack, parent's id, child's id, thread pointer.
    pub(super) clone: fn(&[u64; 6]) -> [u64; 5],
    /// What a `break` of this code raises at this address.
    pub(super) on_break: fn(u32, u64) -> Raised,
    /// What an access to an address raises that no program can have.
    pub(super) beyond: fn(u64) -> Option<Raised>,
    /// The code of the signal for an illegal instruction, whose address comes with it unless the
    /// kernel names none.
    pub(super) illegal_code: i32,
    /// The code of the signal for an access to a guard that `madvise` made: the kernels of
    /// LoongArch and MIPS say that the page's rights refuse it, that of x86-64 that there is no
    /// page.
    pub(super) guard_code: i32,
    /// The code of the signal for a jump to an address that is no multiple of `alignment`. A kernel
    /// that names no place here names none for an unaligned access either.
    pub(super) misaligned_code: i32,
    /// What the processor says of an event that raised a signal.
    pub(super) trap: fn(Trap, Event, Raised) -> Trap,
    /// Bytes of the instruction for a system call.
    pub(super) call_len: u64,
    /// Instructions begin at multiples of this.
    pub(super) alignment: u64,
    /// Code that is written is executed without further ado.
    pub(super) coherent: bool,
}

/// What the auxiliary vector says of the machine.
pub(super) struct Auxiliary {
    /// AT_HWCAP.
    pub(super) capabilities: u64,
    /// Kind of the entry with the platform's name, and the name.
    pub(super) platform: (u64, &'static str),
    /// AT_MINSIGSTKSZ, if there is one.
    pub(super) stack_min: Option<u64>,
}

/// A way to run a program: its ABI, and the translator that it needs.
pub(super) type Way = (&'static Abi, Option<&'static dyn Front>);

/// The ABI of a file that begins so, and the translator it needs.
///
/// # Errors
/// What the file is, if no way to run it is known. `None` if the bytes begin no ELF file that has
/// an architecture.
pub(super) fn of(head: &[u8], fronts: Fronts) -> Option<Result<Way, String>> {
    let ident = head.get(..20).filter(|h| h.starts_with(b"\x7fELF"))?;
    let machine: [u8; 2] = ident[18..20].try_into().expect("invariant: two bytes");
    let is_big = ident[5] == 2;
    let machine = if is_big { u16::from_be_bytes(machine) } else { u16::from_le_bytes(machine) };
    if machine == I386 {
        return Some(Err("an i386 program (32-bit x86), which no translator here runs".into()));
    }
    let abi = of_machine(machine)?;
    if let Some(what) = (abi.refuses)(head) {
        return Some(Err(what.into()));
    }
    let front = fronts.iter().copied().find(|f| f.machine().number == machine);
    Some(match front {
        Some(front) => Ok((abi, Some(front))),
        None if machine == elf::LOONGARCH.number => Ok((abi, None)),
        None => Err(format!(
            "a program for {}, which needs a translator that this command was built without",
            abi.machine.name
        )),
    })
}

const I386: u16 = 3;

fn of_machine(number: u16) -> Option<&'static Abi> {
    [&loongarch::ABI, &mips64::ABI, &x86_64::ABI]
        .into_iter()
        .find(|abi| abi.machine.number == number)
}

/// Whether `execve` of a guest of the ABI `own` starts this command again for a file that begins
/// so.
/// The host's own programs run on the host, unless the guest is one of them.
pub(super) fn runs(head: &[u8], fronts: Fronts, own: &Abi) -> bool {
    let found = of(head, fronts).and_then(Result::ok);
    let is_host = |abi: &Abi| abi.architecture == Some(Architecture::X86_64);
    let stays = mutant!("x86_children_run_on_the_host");
    found.is_some_and(|(abi, _)| !is_host(abi) || is_host(own) && !stays)
}
