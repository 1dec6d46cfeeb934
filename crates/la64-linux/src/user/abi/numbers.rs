//! Numbers of a guest's ABI as tables: pairs of the guest's and the host's, only where they differ.
//!
//! Invariants
//! - A number or bit of the guest without a name never becomes one that has another name on the
//!   host. Checked by `what_has_no_name_does_not_become_another`.

use littoral_base::mutant;

/// A pair: the guest's number and the host's.
pub(in super::super) type Pair = (u64, u64);

/// What a letter of a call's row says about an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    /// Nothing.
    Same,
    /// Flags of files and descriptors.
    Open,
    /// Flags of a mapping.
    Map,
    /// A kind of socket, with flags of descriptors.
    Socket,
    /// A signal.
    Signal,
    /// A limit of resources.
    Limit,
    /// What to do with a set of signals.
    How,
}

impl Kind {
    pub(in super::super) fn of(letter: u8) -> Kind {
        match letter {
            b'f' => Kind::Open,
            b'm' => Kind::Map,
            b't' => Kind::Socket,
            b'g' => Kind::Signal,
            b'r' => Kind::Limit,
            b'h' => Kind::How,
            other => {
                assert_eq!(other, b'.', "a letter of this list");
                Kind::Same
            }
        }
    }
}

/// The tables of an ABI.
#[derive(Debug)]
pub(in super::super) struct Numbers {
    /// Errors.
    pub(in super::super) errors: &'static [Pair],
    /// Signals; both sides have the same set of numbers below 32.
    pub(in super::super) signals: &'static [Pair],
    /// Bits of flags of files.
    pub(in super::super) open: &'static [Pair],
    /// Bits of flags of mappings.
    pub(in super::super) map: &'static [Pair],
    /// Kinds of sockets.
    pub(in super::super) sockets: &'static [Pair],
    /// Levels of options and control messages of sockets.
    pub(in super::super) levels: &'static [Pair],
    /// Limits of resources.
    pub(in super::super) limits: &'static [Pair],
    /// What to do with a set of signals.
    pub(in super::super) how: &'static [Pair],
    /// Bits of flags of actions.
    pub(in super::super) action: &'static [Pair],
}

/// The tables of an ABI that has the host's numbers.
pub(in super::super) const SAME: Numbers = Numbers {
    errors: &[],
    signals: &[],
    open: &[],
    map: &[],
    sockets: &[],
    levels: &[],
    limits: &[],
    how: &[],
    action: &[],
};

/// A number of 32 bits that has no meaning on the host.
const NOTHING: u64 = u32::MAX as u64;

/// The host's number for the guest's.
pub(in super::super) fn to_host(pairs: &[Pair], number: u64) -> u64 {
    let named = pairs.iter().find(|p| p.0 == number).map(|p| p.1);
    let is_anothers = || pairs.iter().any(|p| p.1 == number);
    named.unwrap_or_else(|| if is_anothers() { NOTHING } else { number })
}

/// The guest's number for the host's.
pub(in super::super) fn to_guest(pairs: &[Pair], number: u64) -> u64 {
    pairs.iter().find(|p| p.1 == number).map_or(number, |p| p.0)
}

/// Bits that pairs name are moved. The others stay, except for those that would have another name
/// in their new place: these are dropped.
fn move_bits(pairs: impl Iterator<Item = Pair> + Clone, flags: u64) -> u64 {
    let (from, to) = pairs.clone().fold((0, 0), |bits, p| (bits.0 | p.0, bits.1 | p.1));
    let moved = pairs.filter(|p| flags & p.0 == p.0).fold(0, |bits, p| bits | p.1);
    let others = if mutant!("mips64_bits_without_name_stay") { !from } else { !from & !to };
    flags & others | moved
}

/// The guest's flags that the host has no place for.
pub(in super::super) fn flags_without_place(pairs: &[Pair], flags: u64) -> u64 {
    let (from, to) = pairs.iter().fold((0, 0), |bits, p| (bits.0 | p.0, bits.1 | p.1));
    flags & !from & to
}

/// The host's flags for the guest's.
pub(in super::super) fn flags_to_host(pairs: &[Pair], flags: u64) -> u64 {
    move_bits(pairs.iter().copied(), flags)
}

/// The guest's flags for the host's.
pub(in super::super) fn flags_to_guest(pairs: &[Pair], flags: u64) -> u64 {
    move_bits(pairs.iter().map(|p| (p.1, p.0)), flags)
}

impl Numbers {
    /// An argument as the host takes it.
    pub(in super::super) fn argument(&self, kind: Kind, value: u64) -> u64 {
        match kind {
            Kind::Same => value,
            Kind::Open => flags_to_host(self.open, value),
            Kind::Map => flags_to_host(self.map, value),
            Kind::Socket => {
                flags_to_host(self.open, value & !0xf) | to_host(self.sockets, value & 0xf)
            }
            Kind::Signal => to_host(self.signals, value),
            Kind::Limit => to_host(self.limits, value),
            Kind::How => to_host(self.how, value),
        }
    }

    /// A signal's number of the guest.
    pub(in super::super) fn guest_signal(&self, signal: u32) -> u32 {
        to_guest(self.signals, signal.into()) as u32
    }

    /// A set of signals, bit n for signal n + 1, as the host has it.
    pub(in super::super) fn host_set(&self, set: u64) -> u64 {
        self.signals.iter().fold(self.common(set), |to, p| to | (set >> (p.0 - 1) & 1) << (p.1 - 1))
    }

    /// A set of signals as the guest has it.
    pub(in super::super) fn guest_set(&self, set: u64) -> u64 {
        self.signals.iter().fold(self.common(set), |to, p| to | (set >> (p.1 - 1) & 1) << (p.0 - 1))
    }

    /// The part of a set whose signals have the same numbers on both sides.
    fn common(&self, set: u64) -> u64 {
        self.signals.iter().fold(set, |set, p| set & !(1 << (p.0 - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::mips64;
    use super::*;

    #[test]
    fn what_has_no_name_does_not_become_another() {
        let numbers = mips64::ABI.numbers;
        // MAP_RENAME and MAP_AUTORSRV: the host's MAP_ANONYMOUS and MAP_GROWSDOWN.
        assert_eq!(numbers.argument(Kind::Map, 0x122), 0x2);
        assert_eq!(numbers.argument(Kind::Map, 0x1802), 0x122);
        // The host's O_CREAT and O_SYNC; O_TRUNC is the same.
        assert_eq!(numbers.argument(Kind::Open, 0x10_0242), 0x202);
        assert_eq!(flags_without_place(numbers.open, 0x10_0242), 0x10_0040);
        assert_eq!(numbers.argument(Kind::How, 0), NOTHING);
        assert_eq!([1, 2, 3].map(|how| numbers.argument(Kind::How, how)), [0, 1, 2]);
        for pairs in [mips64::tables::FCNTL, mips64::tables::SOCKET_OPTIONS, mips64::tables::IOCTL]
        {
            for p in pairs.iter().filter(|p| !pairs.iter().any(|other| other.0 == p.1)) {
                assert_eq!(to_host(pairs, p.1), NOTHING, "{:#x}", p.1);
            }
        }
    }

    #[test]
    fn numbers_are_turned_and_turned_back() {
        let numbers = mips64::ABI.numbers;
        for n in 0..2000 {
            assert_eq!(to_guest(numbers.signals, to_host(numbers.signals, n)), n, "signal {n}");
        }
        // The host has no errors 41 and 58.
        for n in (1..134).filter(|n| ![41, 58].contains(n)) {
            assert_eq!(to_host(numbers.errors, to_guest(numbers.errors, n)), n, "error {n}");
        }
        for bit in 0..64 {
            let set = 1 << bit;
            assert_eq!(numbers.guest_set(numbers.host_set(set)), set, "bit {bit}");
        }
        for flags in [numbers.open, numbers.map, numbers.action] {
            let all = flags.iter().fold(0, |bits, p| bits | p.0);
            assert_eq!(flags_to_guest(flags, flags_to_host(flags, all)), all);
        }
        assert_eq!(to_guest(numbers.errors, libc::ENOSYS as u64), 89);
        assert_eq!(to_host(numbers.signals, 16), libc::SIGUSR1 as u64);
        assert_eq!(numbers.argument(Kind::Socket, 2 | 0x80), 1 | libc::SOCK_NONBLOCK as u64);
        assert_eq!(numbers.argument(Kind::Map, 0x802), 0x22);
    }
}
