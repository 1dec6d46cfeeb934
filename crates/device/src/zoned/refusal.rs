//! Why a zoned device refused a request: one name for each rule, the same for models and drives.
//!
//! - A refusal is the source of a [`crate::Error`] whose kind is `IllegalRequest`, `Exhausted` or
//!   `Io`; [`Refusal::of`] finds it again, so a caller matches on the rule and not on words.
//! - [`Refusal::from_errno`] maps what Linux answers for zoned block devices: 109 (too many open
//!   zones), 75 (too many active zones), 28 (no space), 5 (a write away from the pointer, or a zone
//!   that cannot be written).

use std::fmt;

use crate::error::{Error, Kind};

/// A rule of zoned storage that a request broke, or a limit that it met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Address and length are not whole blocks, or the length is zero.
    Misaligned,
    /// The range passes the last zone.
    OutOfRange,
    /// A write touches two zones.
    CrossesZones,
    /// A write to a sequential zone does not begin at its write pointer.
    NotAtWritePointer,
    /// A write passes the zone's capacity.
    PastCapacity,
    /// The zone is full.
    ZoneFull,
    /// The zone can only be read.
    ReadOnly,
    /// The zone is lost.
    Offline,
    /// The command needs a sequential zone.
    Conventional,
    /// The zone's state does not allow the command.
    WrongState,
    /// An append is longer than the device takes.
    AppendTooLong,
    /// The device has no append command.
    NoAppend,
    /// As many zones are open as the device allows (Linux: errno 109).
    OpenLimit,
    /// As many zones are active as the device allows (Linux: errno 75).
    ActiveLimit,
    /// The medium has no room (Linux: errno 28).
    NoSpace,
    /// The drive failed the request without saying why (Linux: errno 5).
    DriveError,
}

impl Refusal {
    /// The kind of error that a request refused for this reason ends with.
    pub const fn kind(self) -> Kind {
        match self {
            Refusal::OpenLimit | Refusal::ActiveLimit | Refusal::NoSpace => Kind::Exhausted,
            Refusal::NoAppend => Kind::Unsupported,
            Refusal::DriveError => Kind::Io,
            Refusal::Misaligned
            | Refusal::OutOfRange
            | Refusal::CrossesZones
            | Refusal::NotAtWritePointer
            | Refusal::PastCapacity
            | Refusal::ZoneFull
            | Refusal::ReadOnly
            | Refusal::Offline
            | Refusal::Conventional
            | Refusal::WrongState
            | Refusal::AppendTooLong => Kind::IllegalRequest,
        }
    }

    /// The refusal behind an error, if it is one.
    pub fn of(error: &Error) -> Option<Refusal> {
        std::error::Error::source(error)?.downcast_ref::<Refusal>().copied()
    }

    /// The refusal that an operating-system error number stands for on a zoned block device.
    pub const fn from_errno(errno: i32) -> Option<Refusal> {
        match errno {
            109 => Some(Refusal::OpenLimit),
            75 => Some(Refusal::ActiveLimit),
            28 => Some(Refusal::NoSpace),
            5 => Some(Refusal::DriveError),
            _ => None,
        }
    }

    /// The error of a request refused for this reason; `context` says which request and where.
    #[cold]
    pub fn error(self, context: impl Into<String>) -> Error {
        Error::with_source(self.kind(), context, self)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Misaligned => "address and length must be whole blocks and not empty",
            Refusal::OutOfRange => "the range passes the end of the device",
            Refusal::CrossesZones => "a write may not touch two zones",
            Refusal::NotAtWritePointer => "a sequential zone is written only at its write pointer",
            Refusal::PastCapacity => "the write passes the zone's capacity",
            Refusal::ZoneFull => "the zone is full; reset it before writing",
            Refusal::ReadOnly => "the zone is READ_ONLY; its data can still be read",
            Refusal::Offline => "the zone is OFFLINE; its data are lost",
            Refusal::Conventional => "a conventional zone has no write pointer",
            Refusal::WrongState => "the zone's state does not allow this command",
            Refusal::AppendTooLong => "longer than the device's longest append",
            Refusal::NoAppend => "the device has no append command; write at the write pointer",
            Refusal::OpenLimit => "the limit of open zones is reached; close or finish one",
            Refusal::ActiveLimit => "the limit of active zones is reached; finish or reset one",
            Refusal::NoSpace => "the medium has no room left",
            Refusal::DriveError => "the drive failed the request; its zone report may say why",
        })
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_found_again_behind_its_error() {
        let e = Refusal::OpenLimit.error("write of block 7");
        assert_eq!((Refusal::of(&e), e.kind()), (Some(Refusal::OpenLimit), Kind::Exhausted));
        assert!(e.to_string().starts_with("write of block 7: the limit of open zones"));
        assert_eq!(Refusal::of(&Error::new(Kind::Io, "other")), None);
        assert_eq!(Refusal::from_errno(75), Some(Refusal::ActiveLimit));
        assert_eq!(Refusal::from_errno(1), None);
    }
}
