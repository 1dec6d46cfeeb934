//! Translators to LoongArch (LA64): code of another architecture becomes LA64 code, which the
//! engine of `littoral-la64` runs like any other.
//!
//! - [`mips64`]: the instruction table of MIPS64, its decoder and its translator.
//! - [`x86`]: the instruction table of x86-64, its decoder and its translator.
//! - [`ir`]: sets of registers and liveness over blocks, for any guest.
//! - [`layout`]: where translated code and the table of entries lie in the window.
//! - [`code`]: translated code: placing it, finding it, linking it.
//! - [`event`]: why a guest stopped.
//! - [`guest`]: what the engine asks of a guest architecture.
//! - [`engine`]: enters translated code and answers its exits.
//!
//! Paper 000 calls the translator from MIPS64 LATM; it gives figures (table 8) and no design. The
//! design is in `docs/design/xlate.md`.
//!
//! # What is approximate
//!
//! Tests compare other results bit by bit with the host's x86-64 processor and with QEMU.
//!
//! Programs of both architectures: a wild load or store may reach memory of the translator (code,
//! table of entries) instead of faulting.
//!
//! | MIPS64 | here |
//! |---|---|
//! | NaNs that signal, in the legacy encoding | pass arithmetic as they are and raise nothing |
//! | FCSR | the cause of an operation that does not trap is open; bit 24 (denormal results as zeros) is not kept |
//! | `cfc1`, `ctc1` of other registers than FCSR and FIR | unknown instructions |
//! | k0 and k1 | read as zero |
//! | HI and LO | lost at calls and at `jr $31`, as the ABI N64 says |
//! | `rdhwr` | processor 0; the counter is LA64's constant one, said to count each cycle |
//! | a pair such as `lwl` and `lwr` over the end of mapped memory | faults at its first instruction |
//!
//! | x86-64 | here |
//! |---|---|
//! | flags across calls, returns and jumps by register | hold nothing, as compilers assume (`Conventions::abi_calls`) |
//! | flags and upper parts of vector registers that a signal handler finds | exact where the program reads them (`Conventions::lazy_faults`) |
//! | flags that the manual leaves undefined | those of LBT, or as before |
//! | `pushf` | alignment check, identification, resume flag and the privilege level of input and output are zero, and `popf` does not set them |
//! | flags at a fault inside `rep cmps` and `rep scas` | of the element before |
//! | `rcpps`, `rsqrtps` and their scalar forms | the exact result rounded, not a table's; within the manual's bound |
//! | MXCSR | denormal operands raise nothing; an unmasked underflow needs an inexact result |
//! | transcendental functions of x87 | the last bit may be the neighbour's, and C1 with it |
//! | `fscale` far beyond the range, with overflow or underflow not masked | infinity or zero |
//! | LOCK off the natural alignment | a load and a store, not atomic; of `cmpxchg16b` a fault |
//! | `rdtsc` | LA64's constant counter, not the processor's cycles |
//! | the order of memory between processes of one thread that share memory | LoongArch's, weaker than x86-64's |
//! | code that is written by way of another mapping of its memory | the earlier translation may run on |

#![forbid(unsafe_code)]

pub mod code;
pub mod engine;
pub mod event;
pub mod guest;
pub mod ir;
pub mod layout;
pub mod mips64;
pub mod x86;
