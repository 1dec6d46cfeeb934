//! What can go wrong with a store, by kind.

use littoral_base::error::{Category, Class};
use littoral_device::Kind as DeviceKind;

/// Kinds of store error. Exhaustive, so that a crate that translates them lists every kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A size, option or argument is out of range.
    Usage,
    /// The medium has no room for the change; nothing of it was done.
    Full,
    /// The device failed.
    Io,
    /// What is on the medium does not verify.
    Corrupt,
    /// The medium belongs to something else, or to another format version.
    Foreign,
    /// Another owner has the medium open.
    Busy,
    /// The name of what is to be made is taken; nothing is overwritten.
    Exists,
    /// The medium cannot serve this engine.
    Unsupported,
    /// Power was cut by a fault plan.
    PowerCut,
    /// An earlier durable write failed; the handle refuses further work until it is reopened.
    Poisoned,
}

impl Category for Kind {
    fn class(self) -> Class {
        match self {
            Kind::Usage | Kind::Exists => Class::Usage,
            Kind::Full | Kind::Io | Kind::Busy | Kind::PowerCut | Kind::Poisoned => {
                Class::Environment
            }
            Kind::Corrupt | Kind::Foreign => Class::Corrupt,
            Kind::Unsupported => Class::Unsupported,
        }
    }
}

/// A store error.
pub type Error = littoral_base::error::Error<Kind>;

/// A store result.
pub type Result<T> = std::result::Result<T, Error>;

/// A device's error as the store reports it: the same kind, what the store was doing in front.
pub fn device(doing: &str) -> impl FnOnce(littoral_device::Error) -> Error + '_ {
    move |e| {
        let kind = match e.kind() {
            DeviceKind::Exhausted => Kind::Full,
            DeviceKind::Corrupt => Kind::Corrupt,
            DeviceKind::Foreign => Kind::Foreign,
            DeviceKind::Busy => Kind::Busy,
            DeviceKind::Exists => Kind::Exists,
            DeviceKind::Unsupported => Kind::Unsupported,
            DeviceKind::PowerCut => Kind::PowerCut,
            DeviceKind::Poisoned => Kind::Poisoned,
            DeviceKind::Profile => Kind::Usage,
            // The store made the request: to its user a refused one is a failed device.
            DeviceKind::Io | DeviceKind::IllegalRequest => Kind::Io,
        };
        Error::over(kind, doing, e)
    }
}
