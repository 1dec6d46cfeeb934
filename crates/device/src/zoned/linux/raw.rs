//! The ioctls of Linux zoned block devices, without a library between (`linux/blkzoned.h`).
//!
//! - Sectors are 512 bytes whatever the device's block.
//! - The kernel's structures are read and written as 64-bit words: `blk_zone_report` is a header of
//!   two words and eight words a zone, `blk_zone_range` is two words.

#![allow(unsafe_code)] // ioctls take pointers

use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;

const REPORT_ZONES: u64 = 0xc010_1282;
const RESET_ZONE: u64 = 0x4010_1283;
const GET_ZONE_SIZE: u64 = 0x8004_1284;
const GET_ZONES: u64 = 0x8004_1285;
const OPEN_ZONE: u64 = 0x4010_1286;
const CLOSE_ZONE: u64 = 0x4010_1287;
const FINISH_ZONE: u64 = 0x4010_1288;

const HEADER_WORDS: usize = 2;
const ZONE_WORDS: usize = 8;
/// `BLK_ZONE_REP_CAPACITY`: zones carry their capacity.
const HAS_CAPACITY: u32 = 1;

/// A zone as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawZone {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) write_pointer: u64,
    pub(super) kind: u8,
    pub(super) condition: u8,
    pub(super) capacity: u64,
}

/// A command on one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RawCommand {
    Open,
    Close,
    Finish,
    Reset,
}

impl RawCommand {
    const fn request(self) -> u64 {
        match self {
            RawCommand::Open => OPEN_ZONE,
            RawCommand::Close => CLOSE_ZONE,
            RawCommand::Finish => FINISH_ZONE,
            RawCommand::Reset => RESET_ZONE,
        }
    }
}

/// Two 32-bit fields of a structure in one word.
fn halves(low: u32, high: u32) -> u64 {
    let [a, b] = [low.to_ne_bytes(), high.to_ne_bytes()];
    u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]])
}

fn decode(zone: &[u64], has_capacity: bool) -> RawZone {
    let bytes = zone[3].to_ne_bytes();
    RawZone {
        start: zone[0],
        len: zone[1],
        write_pointer: zone[2],
        kind: bytes[0],
        condition: bytes[1],
        capacity: if has_capacity { zone[4] } else { zone[1] },
    }
}

/// Reports at most `count` zones from the one that holds `sector` on.
pub(super) fn report(file: &File, sector: u64, count: u32) -> Result<Vec<RawZone>> {
    let mut words = vec![0u64; HEADER_WORDS + count as usize * ZONE_WORDS];
    words[0] = sector;
    words[1] = halves(count, 0);
    // SAFETY: the kernel writes at most `count` zones behind the header, which is what `words`
    // has room for; it is 8-byte aligned and lives until the call returns.
    let rc = unsafe { libc::ioctl(file.as_raw_fd(), REPORT_ZONES as _, words.as_mut_ptr()) };
    if rc < 0 {
        return Err(Error::last_os_error());
    }
    let header = words[1].to_ne_bytes();
    let word =
        |i: usize| u32::from_ne_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
    let (found, flags) = (word(0).min(count) as usize, word(4));
    let zones = words[HEADER_WORDS..].chunks_exact(ZONE_WORDS).take(found);
    Ok(zones.map(|z| decode(z, flags & HAS_CAPACITY != 0)).collect())
}

/// Carries out a command on the zone of `len` sectors at `sector`.
pub(super) fn command(file: &File, command: RawCommand, sector: u64, len: u64) -> Result<()> {
    let range = [sector, len];
    // SAFETY: the kernel reads a `blk_zone_range`, two 64-bit words, which `range` is.
    let rc = unsafe { libc::ioctl(file.as_raw_fd(), command.request() as _, range.as_ptr()) };
    if rc < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

fn number(file: &File, request: u64) -> Result<u32> {
    let mut n = 0u32;
    // SAFETY: both requests write one 32-bit number.
    let rc = unsafe { libc::ioctl(file.as_raw_fd(), request as _, &raw mut n) };
    if rc < 0 { Err(Error::last_os_error()) } else { Ok(n) }
}

/// Sectors of a zone; zero when the device is not zoned.
pub(super) fn zone_sectors(file: &File) -> Result<u32> {
    number(file, GET_ZONE_SIZE)
}

/// Zones of the device.
pub(super) fn zones(file: &File) -> Result<u32> {
    number(file, GET_ZONES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_read_where_the_kernel_puts_them() {
        let kind = u64::from_ne_bytes([2, 4, 0, 0, 0, 0, 0, 0]);
        let zone = decode(&[8, 64, 16, kind, 48, 0, 0, 0], true);
        let wanted =
            RawZone { start: 8, len: 64, write_pointer: 16, kind: 2, condition: 4, capacity: 48 };
        assert_eq!(zone, wanted);
        assert_eq!(decode(&[8, 64, 16, kind, 0, 0, 0, 0], false).capacity, 64);
        assert_eq!(halves(7, 1).to_ne_bytes()[..4], 7u32.to_ne_bytes());
    }

    #[test]
    fn an_ordinary_file_is_no_zoned_device() {
        let file = tempfile::tempfile().unwrap();
        assert!(zone_sectors(&file).is_err() && zones(&file).is_err());
        assert!(report(&file, 0, 4).is_err());
        assert!(command(&file, RawCommand::Reset, 0, 8).is_err());
    }
}
