//! Tables as Parquet and Arrow IPC files.
//!
//! They are part of builds with the Cargo feature `arrow`, because the crates behind them take as
//! long to build as everything else. In other builds every function here ends with
//! `Kind::Unsupported` and says how to get the feature.
//!
//! | column | Arrow type |
//! |---|---|
//! | vertices called by numbers, counts | `UInt64` |
//! | vertices called by text | `LargeUtf8` |
//! | numbers of single, of double precision | `Float32`, `Float64` |
//!
//! Invariant: no value is null, and what is written is read back as the same table. Checked by
//! `answers_are_read_back_with_their_types`.

use std::borrow::Cow;
use std::io::Write;

#[cfg(feature = "arrow")]
mod write;

use crate::answer::Table;
use crate::error::{Error, Kind, Result};
pub use crate::feature::{HAS_ARROW, without_arrow};
use crate::import::Format;
use crate::names::Names;

/// Writes a table as `format`, which is [`Format::Parquet`] or [`Format::Arrow`].
///
/// # Errors
/// `Kind::Io` when `out` fails, `Kind::Unsupported` without the feature `arrow`, `Kind::Argument`
/// for another format.
pub fn write(format: Format, table: &Table, names: &Names, out: &mut dyn Write) -> Result<()> {
    let mut whole = Some(Cow::Borrowed(table));
    write_parts(format, names, out, &mut || Ok(whole.take()))
}

/// The next part of a table, until there is none.
pub(crate) type Parts<'p, 't> = &'p mut dyn FnMut() -> Result<Option<Cow<'t, Table>>>;

/// As [`write`], part by part; the first part tells the columns.
pub(crate) fn write_parts(
    format: Format,
    names: &Names,
    out: &mut dyn Write,
    parts: Parts<'_, '_>,
) -> Result<()> {
    if !format.is_columnar() {
        let what = format!("{} is no format of typed columns", format.name());
        return Err(Error::new(Kind::Argument, what));
    }
    written(format, names, out, parts)
}

#[cfg(feature = "arrow")]
use write::parts as written;

#[cfg(not(feature = "arrow"))]
fn written(format: Format, _: &Names, _: &mut dyn Write, _: Parts<'_, '_>) -> Result<()> {
    Err(without_arrow(&format!("cannot write a .{} file", format.name())))
}
