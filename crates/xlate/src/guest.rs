//! What the engine asks of a guest architecture: its translator, its registers, its rare
//! instructions.

use crate::code::{Mark, Region, Source};
use crate::event::Event;
use littoral_la64::interp::Cpu;
use littoral_la64::memory::Window;
use littoral_la64::native::Leaves;
use littoral_la64::state::State;

/// The first instruction of a region, or its delay slot, cannot be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfetched {
    /// The address that cannot be fetched.
    pub address: u64,
}

/// Reads guest code: fills the buffer from an address on and returns how many bytes may be
/// executed.
pub type Fetch<'a> = &'a dyn Fn(u64, &mut [u8]) -> usize;

/// A guest architecture.
pub trait Architecture: Send + Sync {
    /// LA64 register that holds the address of the table of entries while translated code runs.
    const ENTRIES: u8;
    /// LA64 register in which an indirect jump leaves the address behind itself.
    const LINK: u8;
    /// The most LA64 instructions of a region.
    const WORDS_MAX: usize;

    /// Vector register whose doublewords 2 and 3 count, where the guest's instructions are counted:
    /// LA64 instructions that count, guest instructions.
    const COUNTS: usize = 0;

    /// How code leaves that the host's processor executes. r21 is free at each exact address.
    const LEAVES: Leaves;

    /// Sets what translated code needs in a new thread, besides [`Architecture::ENTRIES`].
    fn prepare(_: &mut State) {}

    /// Before translated code runs: moves registers from the places that the state has for them to
    /// those of translated code, where these are others.
    fn open(&self, _: &mut State) {}

    /// Behind translated code: the contrary of [`Architecture::open`].
    fn close(&self, _: &mut State) {}

    /// The guest instruction at an address in words.
    fn text(_: &Window, _: u64) -> Option<String> {
        None
    }

    /// Completes an LA64 floating-point instruction that trapped; false if the guest wants the
    /// trap.
    fn complete(_: &mut State, _: u32) -> bool {
        false
    }

    /// Translates the region at `entry` for the LA64 address `base`.
    ///
    /// # Errors
    /// The first instruction cannot be fetched.
    fn translate(&self, entry: u64, base: u64, fetch: Fetch<'_>) -> Result<Region, Unfetched>;

    /// Whether the guest stops behind each instruction: the engine then asks for
    /// [`Architecture::translate_one`].
    fn steps(_: &State) -> bool {
        false
    }

    /// Translates the instruction at `entry` alone, for the LA64 address `base`. Its code leaves
    /// behind it by [`Exit::Single`], and looks up no entry.
    ///
    /// # Errors
    /// The instruction cannot be fetched.
    ///
    /// [`Exit::Single`]: crate::code::Exit::Single
    fn translate_one(&self, entry: u64, base: u64, fetch: Fetch<'_>) -> Result<Region, Unfetched> {
        self.translate(entry, base, fetch)
    }

    /// Whether a thread needs the code of [`Architecture::flushing`].
    fn flushes(_: &State) -> bool {
        false
    }

    /// The same architecture in a process of which a thread has denormal numbers count as zeros;
    /// `None` if its code is the same.
    fn flushing(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// The target of an indirect jump.
    fn target(state: &State, source: Source) -> u64;

    /// Makes the registers those of the guest before the instruction that faulted.
    fn repair(state: &mut State, mark: &Mark);

    /// Executes the guest instruction at `pc`, which has no translation ([`Exit::Assist`]), and
    /// returns the address of the next one; `None` if the instruction there is by now another one,
    /// which has.
    ///
    /// # Errors
    /// What the instruction raises; registers are then as before it.
    ///
    /// [`Exit::Assist`]: crate::code::Exit::Assist
    fn assist(&self, cpu: &mut Cpu, pc: u64, fetch: Fetch<'_>) -> Result<Option<u64>, Event>;
}
