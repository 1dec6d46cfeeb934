//! Tables that become data sets: CSV with a header, lineitem as dbgen writes it.

use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use littoral::push::api::{About, Table};
use littoral::push::data::{Import, Separator, lineitem_schema, tbl_scale};
use littoral::push::error::{Error, Kind, Result};
use littoral::push::page::{Format, Record};

/// Endings of files that are tables, not data sets.
const ENDINGS: [&str; 3] = ["csv", "tsv", "tbl"];

/// Whether a data set's name is that of a table.
pub(super) fn is_table(name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|e| e.to_str());
    ending.is_some_and(|e| ENDINGS.contains(&e)) && !name.starts_with("unix:")
}

fn open(path: &Path) -> Result<BufReader<File>> {
    let what = || format!("{}: cannot open the table", path.display());
    let file = File::open(path).map_err(|e| Error::with_source(Kind::Io, what(), e))?;
    Ok(BufReader::with_capacity(1 << 20, file))
}

/// Gives `take` what is known of a table, for pages of a format and size, and its records.
///
/// # Errors
/// When the table cannot be read or is none, and what `take` fails with; each names the table.
pub(super) fn read<T>(
    path: &Path,
    (format, page_bytes): (Format, usize),
    take: impl FnOnce(&About, &mut dyn Iterator<Item = Result<Record>>) -> Result<T>,
) -> Result<T> {
    let place = |e: Error| e.in_context(path.display());
    // What it is made of is found out first: a pipe would have nothing left by then.
    if path.metadata().is_ok_and(|m| m.file_type().is_fifo()) {
        let what = "a table is read more than once, which a pipe cannot be; write it to a file";
        return Err(place(Error::new(Kind::Usage, what)));
    }
    if path.extension().is_some_and(|e| e == "tbl") {
        let scale = tbl_scale(open(path)?).map_err(place)?;
        let about = About { scale, ..About::new(&lineitem_schema()?, format, page_bytes) };
        let mut import = Import::new(open(path)?, &about.schema, Separator::Bar).map_err(place)?;
        return take(&about, &mut import).map_err(place);
    }
    let table = Table::detect(|| open(path), format, page_bytes).map_err(place)?;
    let mut records = table.records(open(path)?);
    take(&table.about, &mut records).map_err(place)
}
