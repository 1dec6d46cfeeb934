//! What the remote protocol calls a LoongArch: registers, their numbers, the target description.
//!
//! - All registers at once are the general ones, the program counter and two that are not kept;
//!   the others travel one by one, because a debugger that does not take the description expects
//!   no more.
//! - A vector register exists under three names, which overlap: `f` is its low quarter, `vr` its
//!   low half, `xr` the whole.

use gdbstub::arch::{Arch, RegId, Registers};
use littoral_la64::state::{State, fcsr};
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::LazyLock;

/// LoongArch, 64 bits.
#[derive(Debug)]
pub(super) struct LoongArch;

impl Arch for LoongArch {
    type Usize = u64;
    type Registers = Bank;
    type BreakpointKind = usize;
    type RegId = Register;

    fn target_description_xml() -> Option<&'static str> {
        static TEXT: LazyLock<String> = LazyLock::new(description);
        Some(&TEXT)
    }
}

/// One register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Register {
    /// A general register.
    General(usize),
    /// The first argument of a restarted call, which is not kept apart: a0.
    OriginalA0,
    /// The program counter.
    Pc,
    /// The address of a fault, which is not kept: 0.
    FaultAddress,
    /// A condition flag.
    Flag(usize),
    /// Control and status of floating point.
    Control,
    /// The low doublewords of a vector register.
    Vector {
        /// Which.
        number: usize,
        /// How many doublewords.
        lanes: usize,
    },
}

impl RegId for Register {
    fn from_raw_id(id: usize) -> Option<(Register, Option<NonZeroUsize>)> {
        let (register, bytes) = match id {
            0..32 => (Register::General(id), 8),
            32 => (Register::OriginalA0, 8),
            33 => (Register::Pc, 8),
            34 => (Register::FaultAddress, 8),
            35..67 => (Register::Vector { number: id - 35, lanes: 1 }, 8),
            67..75 => (Register::Flag(id - 67), 1),
            75 => (Register::Control, 4),
            76..108 => (Register::Vector { number: id - 76, lanes: 2 }, 16),
            108..140 => (Register::Vector { number: id - 108, lanes: 4 }, 32),
            140.. => return None,
        };
        Some((register, NonZeroUsize::new(bytes)))
    }
}

impl Register {
    /// Its bytes.
    pub(super) fn read(self, state: &State) -> Vec<u8> {
        match self {
            Register::General(n) => state.x[n].to_le_bytes().into(),
            Register::OriginalA0 => state.x[4].to_le_bytes().into(),
            Register::Pc => state.pc.to_le_bytes().into(),
            Register::FaultAddress => vec![0; 8],
            Register::Flag(n) => vec![state.fcc[n]],
            Register::Control => state.fcsr.to_le_bytes().into(),
            Register::Vector { number, lanes } => {
                state.v[number].0[..lanes].iter().flat_map(|w| w.to_le_bytes()).collect()
            }
        }
    }

    /// Changes it; `None` for a value of another length. Register 0, and bits that do not exist,
    /// stay zero.
    pub(super) fn write(self, state: &mut State, value: &[u8]) -> Option<()> {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b));
        if value.len() != self.read(state).len() {
            return None;
        }
        match self {
            Register::General(0) | Register::OriginalA0 | Register::FaultAddress => {}
            Register::General(n) => state.x[n] = word(value),
            Register::Pc => state.pc = word(value),
            Register::Flag(n) => state.fcc[n] = value[0] & 1,
            Register::Control => state.fcsr = word(value) as u32 & fcsr::VIEWS[0],
            Register::Vector { number, .. } => {
                let lanes = state.v[number].0.iter_mut().zip(value.chunks(8));
                lanes.for_each(|(lane, bytes)| *lane = word(bytes));
            }
        }
        // What a debugger changes ends a pending load-linked.
        state.link_address = u64::MAX;
        Some(())
    }
}

/// Registers of a [`Bank`].
const BANK: usize = 35;

/// General registers and program counter, by their numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bank([u64; BANK]);

impl Default for Bank {
    fn default() -> Bank {
        Bank([0; BANK])
    }
}

impl Bank {
    /// Those of a thread.
    pub(super) fn of(state: &State) -> Bank {
        let mut bank = Bank::default();
        bank.0[..32].copy_from_slice(&state.x[..32]);
        (bank.0[32], bank.0[33]) = (state.x[4], state.pc);
        bank
    }

    /// Writes them to a thread.
    pub(super) fn store(&self, state: &mut State) {
        state.x[1..32].copy_from_slice(&self.0[1..32]);
        (state.pc, state.link_address) = (self.0[33], u64::MAX);
    }
}

impl Registers for Bank {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.0[33]
    }

    fn gdb_serialize(&self, write_byte: impl FnMut(Option<u8>)) {
        self.0.iter().flat_map(|w| w.to_le_bytes()).map(Some).for_each(write_byte);
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        if bytes.len() != 8 * BANK {
            return Err(());
        }
        for (slot, bytes) in self.0.iter_mut().zip(bytes.as_chunks().0) {
            *slot = u64::from_le_bytes(*bytes);
        }
        Ok(())
    }
}

/// The features that debuggers know LoongArch by, in the order of their numbers.
fn description() -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target>\
         <architecture>loongarch64</architecture><osabi>GNU/Linux</osabi>",
    );
    let mut feature = |name: &str, types: &str, registers: &[(String, u32, &str)]| {
        // Writing to a string cannot fail.
        let _ = write!(text, "<feature name=\"org.gnu.gdb.loongarch.{name}\">{types}");
        for (name, bits, kind) in registers {
            let _ = write!(text, "<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{kind}\"/>");
        }
        text.push_str("</feature>");
    };
    let bank = |letter: &str, count: usize, bits: u32, kind: &'static str| {
        let register = |n| (format!("{letter}{n}"), bits, kind);
        (0..count).map(register).collect::<Vec<_>>()
    };
    let mut base = bank("r", 32, 64, "uint64");
    base.push(("orig_a0".into(), 64, "uint64"));
    base.push(("pc".into(), 64, "code_ptr"));
    base.push(("badv".into(), 64, "code_ptr"));
    feature("base", "", &base);
    let mut float = bank("f", 32, 64, "ieee_double");
    float.extend(bank("fcc", 8, 8, "uint8"));
    float.push(("fcsr".into(), 32, "uint32"));
    feature("fpu", "", &float);
    let half = "<vector id=\"v2u64\" type=\"uint64\" count=\"2\"/>";
    feature("lsx", half, &bank("vr", 32, 128, "v2u64"));
    let whole = "<vector id=\"v4u64\" type=\"uint64\" count=\"4\"/>";
    feature("lasx", whole, &bank("xr", 32, 256, "v4u64"));
    text.push_str("</target>");
    text
}

/// The protocol's number of a Linux signal, which has numbers of its own.
pub(super) fn to_protocol(linux: u32) -> u8 {
    const UNKNOWN: u8 = 143;
    const LOW: [u8; 32] = [
        0, 1, 2, 3, 4, 5, 6, 10, 8, 9, 30, 11, 31, 13, 14, 15, UNKNOWN, 20, 19, 17, 18, 21, 22, 16,
        24, 25, 26, 27, 28, 23, 32, 12,
    ];
    match linux {
        0..32 => LOW[linux as usize],
        32 => 77,
        33..64 => 45 + (linux - 33) as u8,
        64 => 78,
        65.. => UNKNOWN,
    }
}

/// The Linux signal of the protocol's number, 0 for what is none.
pub(super) fn from_protocol(number: u8) -> u32 {
    (1..=64).find(|&linux| to_protocol(linux) == number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_register_is_read_and_written_by_its_number() {
        let mut state = State::default();
        for id in 0..140 {
            let (register, len) = Register::from_raw_id(id).unwrap();
            let value = vec![1; len.unwrap().get()];
            assert_eq!(register.read(&state).len(), value.len(), "{id}");
            register.write(&mut state, &value).unwrap();
            let constant = [0, 32, 34].contains(&id);
            let kept = if id == 75 { vec![1, 1, 1, 1] } else { value.clone() };
            assert_eq!(register.read(&state) == kept, !constant || id == 32, "{id}");
            assert!(register.write(&mut state, &value[1..]).is_none(), "{id}");
        }
        assert!(Register::from_raw_id(140).is_none());
        assert_eq!((state.x[0], state.v[31].0), (0, [0x0101_0101_0101_0101; 4]));
    }

    #[test]
    fn a_bank_of_another_length_is_refused() {
        let good = [7; 8 * BANK];
        let mut bank = Bank::default();
        for len in [0, 1, 8, good.len() - 1] {
            assert!(bank.gdb_deserialize(&good[..len]).is_err(), "{len}");
        }
        bank.gdb_deserialize(&good).unwrap();
        let mut state = State::default();
        bank.store(&mut state);
        assert_eq!((state.x[0], state.x[31], bank), (0, 0x0707_0707_0707_0707, bank_of(7)));
    }

    fn bank_of(byte: u8) -> Bank {
        Bank([u64::from_le_bytes([byte; 8]); BANK])
    }

    #[test]
    fn the_description_has_a_place_for_every_byte() {
        let text = description();
        let bits: usize = (text.split("bitsize=\"").skip(1))
            .map(|s| s.split('"').next().and_then(|n| n.parse::<usize>().ok()).unwrap())
            .sum();
        let bytes = |id| Register::from_raw_id(id).unwrap().1.unwrap().get();
        assert_eq!(bits / 8, (0..140).map(bytes).sum::<usize>());
    }

    #[test]
    fn every_signal_but_one_comes_back() {
        // SIGSTKFLT, which the protocol does not have.
        for linux in (1..=64).filter(|&n| n != 16) {
            assert_eq!(from_protocol(to_protocol(linux)), linux);
        }
        assert_eq!((from_protocol(0), from_protocol(200)), (0, 0));
    }
}
