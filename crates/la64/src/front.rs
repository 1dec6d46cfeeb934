//! The seam between an owner of guest programs (a Linux process) and a translator from another
//! architecture to LA64: the owner knows calls, signals and memory, the translator instructions.
//!
//! - A [`Front`] makes a [`Translator`] for one program. Both sides name guest registers by the
//!   numbers of the guest's architecture (see [`mips64`], [`x86_64`]).
//! - Between two runs `State::pc` is a guest address and the other registers are the guest's, by
//!   [`Translator::get`] and [`Translator::set`].
//! - The translator's own memory lies in the window behind [`Front::window_len`]'s guest addresses
//!   or in [`Translator::places`]; the owner maps it and keeps it from the guest.

use crate::elf::Machine;
use crate::interp::{Cache, Cpu, Epoch, Fetch, Trap};
use crate::memory::Window;
use crate::native::Processor;
use crate::state::State;
use std::fmt::{Debug, Formatter};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Why a guest stopped: what its owner must answer. The same for every way to run one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A system call; the pc is behind it.
    Syscall,
    /// `break` with its code; the pc is at it, on x86-64 behind it.
    Break(u32),
    /// A trap instruction with its code.
    Trap(u32),
    /// An addition overflowed.
    Overflow,
    /// The word at the pc (or in its delay slot) is no instruction.
    Illegal(u32),
    /// The instruction at this address cannot be fetched.
    Fetch(u64),
    /// A load from this address failed.
    Load(u64),
    /// A store to this address failed.
    Store(u64),
    /// An access off its natural alignment.
    Unaligned(u64),
    /// A division by zero, or a quotient that does not fit.
    Divide,
    /// An instruction that only the system may execute, or an address that no program has.
    Privileged,
    /// A bound check failed.
    Bound(u64),
    /// An enabled floating-point exception.
    Float,
    /// Exceptions of x87 that pend and are not masked, as its status word has them.
    X87(u16),
    /// An instruction was executed with the trap flag of x86-64 set; the pc is at the next one.
    Step,
    /// Code was written: the owner drops the blocks of all threads.
    CodeChanged,
    /// The budget is used up.
    OutOfBudget,
    /// The attention flag was raised.
    Attention,
    /// No room for more translated code, or the thread needs code of another kind: the owner calls
    /// [`Translator::renew`].
    Full,
}

impl From<Trap> for Event {
    fn from(trap: Trap) -> Event {
        match trap {
            Trap::Syscall => Event::Syscall,
            Trap::Break(code) => Event::Break(code),
            Trap::Illegal(word) => Event::Illegal(word),
            Trap::Fetch(at) => Event::Fetch(at),
            Trap::Load(at) => Event::Load(at),
            Trap::Store(at) => Event::Store(at),
            Trap::Unaligned(at) => Event::Unaligned(at),
            Trap::Bound(at) => Event::Bound(at),
            Trap::Float => Event::Float,
            Trap::CodeChanged => Event::CodeChanged,
            Trap::OutOfBudget => Event::OutOfBudget,
            Trap::Attention => Event::Attention,
        }
    }
}

/// An architecture that a front translates, with the Linux ABI of its programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// MIPS64 release 2, little-endian, ABI N64.
    Mips64,
    /// x86-64.
    X86_64,
}

/// Numbers of registers of MIPS64: general registers are 0 to 31.
pub mod mips64 {
    /// Upper half of a product, remainder.
    pub const HI: u8 = 32;
    /// Lower half of a product, quotient.
    pub const LO: u8 = 33;
    /// First of 32 floating-point registers.
    pub const FLOAT: u8 = 34;
    /// Control and status of floating point.
    pub const FCSR: u8 = 66;
    /// What `rdhwr $29` reads.
    pub const THREAD: u8 = 67;
}

/// Numbers of registers of x86-64: general registers are 0 to 15, as instructions encode them.
pub mod x86_64 {
    /// RFLAGS.
    pub const FLAGS: u8 = 16;
    /// Base of fs.
    pub const FS: u8 = 17;
    /// Base of gs.
    pub const GS: u8 = 18;
    /// Control and status of SSE.
    pub const MXCSR: u8 = 19;
    /// First of 32 halves of the registers xmm0 to xmm15, the lower half of each first.
    pub const XMM: u8 = 20;
    /// First of 19 words of x87: what `fxsave` writes up to MXCSR (3), then each register of the
    /// stack from the top, its significand first.
    pub const X87: u8 = XMM + 32;
}

/// Takes a translated region as text.
pub type Shower = Arc<dyn Fn(&str) + Send + Sync>;

/// How a translator works.
#[derive(Clone, Default)]
pub struct Settings {
    /// Guest instructions are counted, by LA64 instructions that are counted apart.
    pub counts: bool,
    /// Gets each region as it is made, guest and LA64 instructions side by side.
    pub dump: Option<Shower>,
    /// The LA64 code has no instruction of the binary translation assists (LBT).
    pub without_lbt: bool,
    /// What executes the LA64 code, where that is not tier 0.
    pub native: Option<Arc<dyn Processor>>,
}

impl Debug for Settings {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Settings { counts, dump, without_lbt, native } = self;
        let mut shown = f.debug_struct("Settings");
        shown.field("counts", counts).field("dump", &dump.is_some());
        shown.field("without_lbt", without_lbt).field("native", native).finish()
    }
}

/// What a translator did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Guest instructions translated.
    pub guest_count: u64,
    /// Regions.
    pub regions_count: u64,
    /// Bytes of LA64 code.
    pub code_bytes: u64,
    /// Returns from translated code that were answered by the translator.
    pub exits_count: u64,
}

/// Instructions that a thread has executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Of the guest; 0 unless they are counted.
    pub guest_count: u64,
    /// LA64 instructions that only count.
    pub counting_count: u64,
}

/// A translator's maker.
pub trait Front: Debug + Sync {
    /// What it translates.
    fn architecture(&self) -> Architecture;

    /// How ELF files name that.
    fn machine(&self) -> Machine;

    /// Length of a window whose first `guest_end` bytes are for the guest.
    fn window_len(&self, guest_end: u64) -> u64;

    /// A translator for one program, without code.
    fn translator(&self, guest_end: u64, settings: Settings) -> Arc<dyn Translator>;

    /// Whether a LoongArch host's processor, with LBT or without, can execute the code that it
    /// makes.
    fn runs_on(&self, _has_lbt: bool) -> bool {
        false
    }

    /// What the architecture says of itself in AT_HWCAP.
    fn capabilities(&self) -> u64 {
        0
    }

    /// The most bytes of an instruction, and of what a listing shows of no instruction.
    fn lengths(&self) -> (usize, usize) {
        (4, 4)
    }

    /// The instruction at `pc` that begins with these bytes as the architecture's manual writes it,
    /// and how many of them it has.
    fn text(&self, pc: u64, bytes: &[u8]) -> Option<(String, usize)>;
}

/// The translated code of one program, for all its threads.
pub trait Translator: Debug + Send + Sync {
    /// Memory of its own: readable, writable, zero before the first run.
    fn places(&self) -> Vec<Range<u64>>;

    /// Where the host's processor executes its code: memory that must be executable too.
    fn executed_places(&self) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// Sets what translated code needs in a new thread.
    fn prepare(&self, state: &mut State);

    /// The value of a guest register.
    fn get(&self, state: &State, register: u8) -> u64;

    /// Sets a guest register.
    fn set(&self, state: &mut State, register: u8, value: u64);

    /// Runs a thread from `State::pc` until something happens; about `budget` LA64 instructions.
    fn run(
        &self,
        thread: (&mut Cpu, &mut Cache),
        fetch: &dyn Fetch,
        attention: &AtomicBool,
        budget: u64,
    ) -> Event;

    /// Forgets code made of instructions in these addresses.
    fn drop_pages(&self, window: &Window, epoch: &Epoch, addresses: Range<u64>);

    /// Forgets all code and gives its memory free, when no thread runs any more. `interrupt` raises
    /// the attention of all threads.
    fn renew(&self, window: &Window, epoch: &Epoch, interrupt: &dyn Fn());

    /// The only thread is about to begin another one: from now on accesses must be seen in the
    /// order that the guest's architecture promises.
    fn begin_threads(&self, _: &Window, _: &Epoch) {}

    /// Does something, as forking the process, while no thread changes the translator's data.
    fn still(&self, f: &mut dyn FnMut());

    /// In a forked child: the other threads are gone.
    fn survive_alone(&self);

    /// The thread with this processor runs no code, whatever was noted: a child of `vfork` went on
    /// with it, and may have been killed in code.
    fn is_outside(&self, cpu: &Cpu);

    /// What was translated.
    fn figures(&self) -> Figures;

    /// What a thread has executed.
    fn executed(&self, state: &State) -> Executed;
}
