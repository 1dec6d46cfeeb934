//! Structures of MIPS64 made from the host's.

use super::super::numbers::{flags_to_guest, flags_to_host, to_host};
use super::tables::{CONTROL_CHARACTERS, LOCAL_MODES, NUMBERS};

/// `struct stat` of the ABI N64.
pub(in super::super::super) fn stat(host: &[u64; 18]) -> Vec<u8> {
    let [dev, ino, nlink, mode_uid, gid, rdev, size, blksize, blocks, times @ ..] = *host;
    let (mode, uid) = (mode_uid as u32, (mode_uid >> 32) as u32);
    let mut bytes = Vec::with_capacity(104);
    let mut put = |words: &[u32]| words.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
    put(&[dev as u32, 0, 0, 0, ino as u32, (ino >> 32) as u32, mode, nlink as u32]);
    put(&[uid, gid as u32, rdev as u32, 0, 0, 0, size as u32, (size >> 32) as u32]);
    times[..6].iter().for_each(|&time| put(&[time as u32]));
    put(&[blksize as u32, 0, blocks as u32, (blocks >> 32) as u32]);
    bytes
}

/// `struct statfs` of MIPS: the fragment's size comes earlier, the free blocks for users later.
pub(in super::super::super) fn statfs(host: &[u64; 15]) -> [u64; 16] {
    let [kind, bsize, blocks, bfree, bavail, files, ffree, id, namelen, frsize, flags, ..] = *host;
    [kind, bsize, frsize, blocks, bfree, files, ffree, bavail, id, namelen, flags, 0, 0, 0, 0, 0]
}

/// The guest's code of a siginfo and the host's: timer, message queue, asynchronous transfer.
const CODES: [(i32, i32); 3] = [(-3, -2), (-4, -3), (-2, -4)];

fn guest_code(host: i32) -> i32 {
    CODES.iter().find(|c| c.1 == host).map_or(host, |c| c.0)
}

fn host_code(guest: i32) -> i32 {
    CODES.iter().find(|c| c.0 == guest).map_or(guest, |c| c.1)
}

/// Whether the status of a siginfo is the signal that ended or stopped a child.
fn has_child_signal(host_signal: u64, code: i32) -> bool {
    const CHILD: u64 = libc::SIGCHLD as u64;
    const EXITED: i32 = 1;
    host_signal == CHILD && code > EXITED
}

const LOW: u64 = 0xffff_ffff;

/// siginfo: the code comes before the error, a few codes and signals differ.
pub(in super::super::super) fn info(host: &[u64; 16]) -> [u64; 16] {
    let mut guest = *host;
    let (signal, error, code) = (host[0] & LOW, host[0] >> 32, guest_code(host[1] as i32));
    guest[0] = u64::from(NUMBERS.guest_signal(signal as u32)) | u64::from(code as u32) << 32;
    guest[1] = error | host[1] & !LOW;
    if has_child_signal(signal, code) {
        // Behind process and user.
        guest[3] = host[3] & !LOW | u64::from(NUMBERS.guest_signal(host[3] as u32));
    }
    guest
}

/// The host's siginfo for the guest's: the inverse of [`info`].
pub(in super::super::super) fn host_info(guest: &[u64; 16]) -> [u64; 16] {
    let mut host = *guest;
    let (error, code) = (guest[1] & LOW, host_code((guest[0] >> 32) as i32));
    let signal = to_host(NUMBERS.signals, guest[0] & LOW);
    host[0] = signal | error << 32;
    host[1] = u64::from(code as u32) | guest[1] & !LOW;
    if has_child_signal(signal, code) {
        host[3] = guest[3] & !LOW | to_host(NUMBERS.signals, guest[3] & LOW);
    }
    host
}

/// Bytes of a record that is read from a descriptor of signals (`struct signalfd_siginfo`).
pub(in super::super::super) const RECORD_LEN: usize = 128;

/// Gives a record of the host the guest's signals and code.
pub(in super::super::super) fn turn_record(record: &mut [u8; RECORD_LEN]) {
    const SIGNAL: usize = 0;
    const CODE: usize = 8;
    const STATUS: usize = 40;
    let signal = word(record, SIGNAL);
    let code = guest_code(word(record, CODE) as i32);
    let mut put = |at: usize, value: u32| record[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(SIGNAL, NUMBERS.guest_signal(signal as u32));
    put(CODE, code as u32);
    if has_child_signal(signal, code) {
        let status = word(record, STATUS) as u32;
        let status = NUMBERS.guest_signal(status).to_le_bytes();
        record[STATUS..STATUS + 4].copy_from_slice(&status);
    }
}

/// The status of a child that `wait4` reports.
pub(in super::super::super) fn wait_status(status: u32) -> u32 {
    const STOPPED: u32 = 0x7f;
    const CONTINUED: u32 = 0xffff;
    let ended_by = status & 0x7f;
    match ended_by {
        _ if status == CONTINUED => status,
        0 => status,
        STOPPED => status & !0xff00 | NUMBERS.guest_signal(status >> 8 & 0xff) << 8,
        signal => status & !0x7f | NUMBERS.guest_signal(signal),
    }
}

/// Bytes of the guest's and of the host's `struct termios`.
pub(in super::super::super) const TERMIOS_GUEST: usize = 40;
pub(in super::super::super) const TERMIOS_HOST: usize = 36;
const LOCAL: usize = 12;
const LINE: usize = 16;
const CHARACTERS: usize = 17;

fn word(bytes: &[u8], at: usize) -> u64 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("invariant: four bytes")).into()
}

/// The guest's `struct termios` from the host's.
pub(in super::super::super) fn termios_to_guest(host: &[u8; TERMIOS_HOST]) -> [u8; TERMIOS_GUEST] {
    let mut guest = [0; TERMIOS_GUEST];
    guest[..=LINE].copy_from_slice(&host[..=LINE]);
    let local = flags_to_guest(LOCAL_MODES, word(host, LOCAL)) as u32;
    guest[LOCAL..LOCAL + 4].copy_from_slice(&local.to_le_bytes());
    for &(to, from) in CONTROL_CHARACTERS {
        guest[CHARACTERS + to] = host[CHARACTERS + from];
    }
    guest
}

/// The host's `struct termios` from the guest's.
pub(in super::super::super) fn termios_to_host(guest: &[u8; TERMIOS_GUEST]) -> [u8; TERMIOS_HOST] {
    let mut host = [0; TERMIOS_HOST];
    host[..=LINE].copy_from_slice(&guest[..=LINE]);
    let local = flags_to_host(LOCAL_MODES, word(guest, LOCAL)) as u32;
    host[LOCAL..LOCAL + 4].copy_from_slice(&local.to_le_bytes());
    for &(from, to) in CONTROL_CHARACTERS {
        host[CHARACTERS + to] = guest[CHARACTERS + from];
    }
    host
}

/// Bytes of the guest's and of the host's `struct termios2`: a `struct termios` and two speeds.
pub(in super::super::super) const TERMIOS2_GUEST: usize = TERMIOS_GUEST + 8;
pub(in super::super::super) const TERMIOS2_HOST: usize = TERMIOS_HOST + 8;

/// The guest's `struct termios2` from the host's.
pub(in super::super::super) fn termios2_to_guest(
    host: &[u8; TERMIOS2_HOST],
) -> [u8; TERMIOS2_GUEST] {
    let (mut guest, mut modes) = ([0; TERMIOS2_GUEST], [0; TERMIOS_HOST]);
    modes.copy_from_slice(&host[..TERMIOS_HOST]);
    guest[..TERMIOS_GUEST].copy_from_slice(&termios_to_guest(&modes));
    guest[TERMIOS_GUEST..].copy_from_slice(&host[TERMIOS_HOST..]);
    guest
}

/// The host's `struct termios2` from the guest's.
pub(in super::super::super) fn termios2_to_host(
    guest: &[u8; TERMIOS2_GUEST],
) -> [u8; TERMIOS2_HOST] {
    let (mut host, mut modes) = ([0; TERMIOS2_HOST], [0; TERMIOS_GUEST]);
    modes.copy_from_slice(&guest[..TERMIOS_GUEST]);
    host[..TERMIOS_HOST].copy_from_slice(&termios_to_host(&modes));
    host[TERMIOS_HOST..].copy_from_slice(&guest[TERMIOS_GUEST..]);
    host
}

/// A request of `ioctl` with direction and size in its number: three bits for the direction above
/// 13 of the size, where the host has two above 14.
pub(in super::super::super) fn request(number: u64) -> u64 {
    const NONE: u64 = 1;
    let (direction, size) = (number >> 29 & 7, number >> 16 & 0x1fff);
    match direction {
        0 => number,
        NONE => number & 0xffff,
        // Reading is 2 on both sides, writing 4 and 1.
        both => (number & 0xffff) | size << 16 | (both & 2) << 30 | (both >> 2) << 30,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_keeps_its_settings_both_ways() {
        let mut guest = [0; TERMIOS_GUEST];
        for (n, byte) in guest.iter_mut().enumerate() {
            *byte = n as u8 + 1;
        }
        let back = termios_to_guest(&termios_to_host(&guest));
        for &(at, _) in CONTROL_CHARACTERS {
            assert_eq!(back[CHARACTERS + at], guest[CHARACTERS + at]);
        }
        assert_eq!(back[..=LINE], guest[..=LINE]);
    }

    #[test]
    fn a_terminal_keeps_its_speeds_both_ways() {
        let guest: [u8; TERMIOS2_GUEST] = std::array::from_fn(|n| n as u8 + 1);
        let host = termios2_to_host(&guest);
        assert_eq!(host[TERMIOS_HOST..], guest[TERMIOS_GUEST..]);
        // VMIN is the fifth character of the guest and the seventh of the host.
        assert_eq!(host[CHARACTERS + 6], guest[CHARACTERS + 4]);
        let back = termios2_to_guest(&host);
        assert_eq!(back[TERMIOS_GUEST..], guest[TERMIOS_GUEST..]);
        assert_eq!(back[..=LINE], guest[..=LINE]);
    }

    #[test]
    fn what_a_signal_says_is_turned_and_turned_back() {
        const STATUS: u64 = libc::SIGUSR1 as u64;
        let low = |signal: i32, error: u64| signal as u64 | error << 32;
        for code in [-60, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 0x80] {
            for signal in 1..65 {
                let mut host = std::array::from_fn(|n| 0x1_0000_0001 * n as u64);
                host[0] = low(signal, 5);
                host[1] = u64::from(code as u32) | 9 << 32;
                assert_eq!(host_info(&info(&host)), host, "signal {signal}, code {code}");
            }
        }
        let mut guest = [0; 16];
        // The guest's SIGUSR1 from a timer.
        guest[0] = 16 | u64::from(-3i32 as u32) << 32;
        guest[1] = 4;
        let host = host_info(&guest);
        assert_eq!((host[0], host[1] as i32), (low(libc::SIGUSR1, 4), -2));
        // A child that a signal has killed (code 2) and one that has exited (code 1).
        for (code, status) in [(2, 16), (1, STATUS)] {
            let mut host = [0; 16];
            (host[0], host[1], host[3]) = (libc::SIGCHLD as u64, code, STATUS);
            assert_eq!(info(&host)[3], status);
            let mut record = [0; RECORD_LEN];
            (record[0], record[8], record[40]) = (libc::SIGCHLD as u8, code as u8, STATUS as u8);
            turn_record(&mut record);
            assert_eq!([0, 8, 40].map(|at| word(&record, at)), [18, code, status]);
        }
    }

    #[test]
    fn requests_and_statuses_are_the_hosts() {
        // FIOGETOWN-like numbers without a size stay; TUNSETIFF is _IOW('T', 202, int).
        assert_eq!(request(0x8915), 0x8915);
        assert_eq!(request(0x8004_54ca), 0x4004_54ca);
        assert_eq!(request(0x4004_5430), 0x8004_5430);
        assert_eq!(wait_status(10), 16);
        assert_eq!(wait_status(0x300), 0x300);
        assert_eq!(wait_status(0x137f), 0x177f);
    }
}
