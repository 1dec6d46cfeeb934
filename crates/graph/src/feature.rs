//! What the Cargo feature `arrow` decides. It stands below [`crate::import`] and
//! [`crate::columnar`], which both refuse without it; users find it in the latter.

use crate::error::{Error, Kind};

/// Whether this build reads and writes Parquet and Arrow IPC.
pub const HAS_ARROW: bool = cfg!(feature = "arrow");

/// The refusal of a build without the feature `arrow`; `what` is the file and what it is.
#[cold]
pub fn without_arrow(what: &str) -> Error {
    let how = "this program is built without Arrow: use the Python package littoral, which has it, \
               build the program with `--features arrow`, or turn the table into CSV";
    Error::new(Kind::Unsupported, format!("{what}; {how}"))
}
