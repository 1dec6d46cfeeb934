//! Answers in files: CSV, TSV, JSON lines, Parquet or Arrow IPC, whole or not at all.
//!
//! Invariants
//! - The target is opened before the work that fills it begins, so a folder that cannot be written
//!   to is found out at once. Checked by `the_target_of_an_answer_is_opened_before_the_graph`.
//! - A regular file appears under its name only once it is whole and synced; until then it has a
//!   temporary name in the same folder, and no failure and no Ctrl-C leaves that behind. Checked by
//!   `an_answer_has_its_name_only_when_it_is_whole`,
//!   `an_answer_that_cannot_be_written_is_named_as_the_user_named_it`.
//! - Devices and pipes are written to directly. A pipe whose reader has gone is no error. Checked
//!   by `an_answer_that_cannot_be_written_is_named_as_the_user_named_it`,
//!   `standard_output_on_a_full_device_is_code_3_and_a_closed_pipe_no_error`.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use littoral::base::error::Class;
use littoral::base::names::folder_of;
use littoral::graph::answer::{self, Cell, Table};
use littoral::graph::columnar;
use littoral::graph::import::Format;
use littoral::graph::names::Names;
use serde_json::{Map, Value};
use tempfile::NamedTempFile;

use crate::args::{AnswerFormat, OutputArgs};
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::out;

/// Where bytes go.
#[derive(Debug)]
enum Place {
    Standard,
    /// A device or a pipe.
    Direct(File),
    Fresh(NamedTempFile),
}

/// An opened target of an answer.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
    place: Place,
    format: AnswerFormat,
    force: bool,
}

impl Target {
    /// Opens the target that was asked for, if any; `input` is the file that the answer is about.
    pub(crate) fn open(args: &OutputArgs, input: &Path) -> Result<Option<Target>, Failure> {
        let Some(path) = &args.output else { return Ok(None) };
        out::apart(input, path)?;
        if path.is_dir() {
            let what = format!("{} is a folder; name a file", path.display());
            return Err(Failure::new(Class::Usage, what));
        }
        let format = format_of(path, args.output_format)?;
        if columns(format).is_some() && !columnar::HAS_ARROW {
            return Err(
                columnar::without_arrow(&format!("{}: cannot be written", path.display())).into()
            );
        }
        let place = place(path, args.force)?;
        Ok(Some(Target { path: path.clone(), place, format, force: args.force }))
    }

    /// Opens the target of rows of text, which have no types to write.
    pub(crate) fn open_text(args: &OutputArgs, input: &Path) -> Result<Option<Target>, Failure> {
        if let Some(path) = &args.output
            && let Some(typed) = columns(format_of(path, args.output_format)?)
        {
            let what = format!(
                "{}: this answer is rows of text, and {} has typed columns; write .csv, .tsv or \
                 .jsonl",
                path.display(),
                typed.name()
            );
            return Err(Failure::new(Class::Usage, what));
        }
        Target::open(args, input)
    }

    /// Whether the answer takes standard output, so that no report can.
    pub(crate) fn is_standard(&self) -> bool {
        matches!(self.place, Place::Standard)
    }

    /// The file's name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the answer and gives the file its name.
    pub(super) fn write(self, table: &Table, names: &Names) -> Outcome {
        self.write_with(|format, out| encode(out, format, table, names))
    }

    /// Writes what `fill` writes in the asked form and gives the file its name.
    pub(crate) fn write_with(
        self,
        fill: impl FnOnce(AnswerFormat, &mut dyn Write) -> std::io::Result<()>,
    ) -> Outcome {
        let failed = |e: std::io::Error| failure(&self.path, &e);
        let format = self.format;
        let whole = |out: &mut dyn Write| fill(format, out).and_then(|()| out.flush());
        match self.place {
            Place::Standard => {
                let out = std::io::stdout().lock();
                whole(&mut BufWriter::new(out)).map_err(failed)
            }
            Place::Direct(file) => whole(&mut BufWriter::new(file)).map_err(failed),
            Place::Fresh(file) => {
                whole(&mut BufWriter::new(file.as_file())).map_err(failed)?;
                file.as_file().sync_all().map_err(failed)?;
                let kept = match self.force {
                    true => file.persist(&self.path),
                    false => file.persist_noclobber(&self.path),
                };
                kept.map(drop).map_err(|e| failed(e.error))
            }
        }
    }
}

fn failure(path: &Path, e: &std::io::Error) -> Failure {
    if e.kind() == ErrorKind::BrokenPipe {
        return Failure::quiet();
    }
    // It was made while the answer was.
    if e.kind() == ErrorKind::AlreadyExists { exists(path) } else { cannot(path, e) }
}

fn exists(path: &Path) -> Failure {
    let what = "exists; choose another name, or overwrite it with --force";
    Failure::new(Class::Usage, format!("{} {what}", path.display()))
}

fn cannot(path: &Path, why: impl std::fmt::Display) -> Failure {
    let place = match path == Path::new("-") {
        true => "standard output".to_owned(),
        false => path.display().to_string(),
    };
    Failure::new(Class::Environment, format!("cannot write the answer to {place}: {why}"))
}

fn format_of(path: &Path, asked: Option<AnswerFormat>) -> Result<AnswerFormat, Failure> {
    if let Some(format) = asked {
        return Ok(format);
    }
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    match extension.as_str() {
        _ if path == Path::new("-") => Ok(AnswerFormat::Csv),
        "csv" => Ok(AnswerFormat::Csv),
        "tsv" => Ok(AnswerFormat::Tsv),
        "jsonl" | "ndjson" => Ok(AnswerFormat::Jsonl),
        "parquet" | "pq" => Ok(AnswerFormat::Parquet),
        "arrow" | "feather" | "ipc" => Ok(AnswerFormat::Arrow),
        _ => Err(Failure::new(
            Class::Usage,
            format!(
                "{}: its name tells no form of answer; end it in .csv, .tsv, .jsonl, .parquet or \
                 .arrow, or say --output-format",
                path.display()
            ),
        )),
    }
}

fn place(path: &Path, force: bool) -> Result<Place, Failure> {
    if path == Path::new("-") {
        return Ok(Place::Standard);
    }
    match path.metadata() {
        Ok(meta) if !meta.is_file() => {
            let file = OpenOptions::new().write(true).open(path);
            return file.map(Place::Direct).map_err(|e| failure(path, &e));
        }
        // A link to nothing is there too, and would refuse the answer in the end.
        _ if !force && path.symlink_metadata().is_ok() => {
            return Err(exists(path));
        }
        _ => {}
    }
    let folder = folder_of(path);
    if !folder.is_dir() {
        let shown = folder.display();
        return Err(match folder.exists() {
            true => cannot(path, format!("{shown} is no folder")),
            false => cannot(path, format!("there is no folder {shown}; make it first")),
        });
    }
    let file = tempfile::Builder::new()
        .prefix(".littoral-")
        .suffix(".partial")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        // The error's own words name the temporary file, which the user never wrote.
        .map_err(|e| failure(path, &e.kind().into()))?;
    interrupt::remove_at_exit(file.path().to_path_buf());
    Ok(Place::Fresh(file))
}

fn encode(
    mut out: &mut dyn Write,
    format: AnswerFormat,
    table: &Table,
    names: &Names,
) -> std::io::Result<()> {
    match format {
        AnswerFormat::Csv => separated(&mut out, b',', table, names)?,
        AnswerFormat::Tsv => separated(&mut out, b'\t', table, names)?,
        AnswerFormat::Jsonl => lines(&mut out, table, names)?,
        AnswerFormat::Parquet | AnswerFormat::Arrow => {
            let format = columns(format).expect("invariant: a form of typed columns");
            columnar::write(format, table, names, out).map_err(|e| {
                let below =
                    std::error::Error::source(&e).and_then(|e| e.downcast_ref::<std::io::Error>());
                std::io::Error::new(below.map_or(ErrorKind::Other, std::io::Error::kind), e)
            })?;
        }
    }
    out.flush()
}

/// The form of typed columns that this is, if it is one.
fn columns(format: AnswerFormat) -> Option<Format> {
    match format {
        AnswerFormat::Csv | AnswerFormat::Tsv | AnswerFormat::Jsonl => None,
        AnswerFormat::Parquet => Some(Format::Parquet),
        AnswerFormat::Arrow => Some(Format::Arrow),
    }
}

fn separated(
    out: &mut impl Write,
    delimiter: u8,
    table: &Table,
    names: &Names,
) -> std::io::Result<()> {
    let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(out);
    writer.write_record(table.columns().iter().map(|c| c.name)).map_err(cause)?;
    let mut text = String::new();
    for row in 0..table.rows() {
        for column in 0..table.columns().len() {
            text.clear();
            let cell = table.cell(row, column, names);
            write!(text, "{}", Shown(&cell)).map_err(std::io::Error::other)?;
            writer.write_field(&text).map_err(cause)?;
        }
        writer.write_record(None::<&[u8]>).map_err(cause)?;
    }
    writer.flush()
}

/// What failed below the writer, so that a closed pipe is told from a full disk.
pub(crate) fn cause(e: csv::Error) -> std::io::Error {
    match e.into_kind() {
        csv::ErrorKind::Io(e) => e,
        other => std::io::Error::other(format!("{other:?}")),
    }
}

fn lines(out: &mut impl Write, table: &Table, names: &Names) -> std::io::Result<()> {
    for row in 0..table.rows() {
        serde_json::to_writer(&mut *out, &Value::Object(object(table, row, names)))?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// A cell as text.
struct Shown<'c>(&'c Cell<'c>);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Cell::Number(n) | Cell::Count(n) => write!(f, "{n}"),
            Cell::Text(t) => f.write_str(t),
            Cell::Single(x) => write!(f, "{x}"),
            Cell::Double(x) => write!(f, "{x}"),
            other => write!(f, "{other:?}"),
        }
    }
}

fn object(table: &Table, row: usize, names: &Names) -> Map<String, Value> {
    let cell = |(column, c): (usize, &littoral::graph::answer::Column)| {
        (c.name.to_owned(), value(&table.cell(row, column, names)))
    };
    table.columns().iter().enumerate().map(cell).collect()
}

/// A cell as JSON: numbers as numbers, in the digits that a file gets.
fn value(cell: &Cell<'_>) -> Value {
    match cell {
        Cell::Number(n) | Cell::Count(n) => (*n).into(),
        Cell::Single(x) => x.to_string().parse::<f64>().map_or(Value::Null, Value::from),
        Cell::Double(x) => (*x).into(),
        other => Shown(other).to_string().into(),
    }
}

/// A vertex's name for a report.
pub(super) fn name_value(names: &Names, v: u32, format: out::Format) -> Value {
    match answer::name(names, v) {
        cell if format == out::Format::Text => Shown(&cell).to_string().into(),
        cell => value(&cell),
    }
}

/// The rows of a table as JSON objects for a report; as text, a vertex's name is never a number, so
/// that its digits are not grouped.
pub(super) fn rows(table: &Table, names: &Names, format: out::Format) -> Vec<Value> {
    let row = |row: usize| {
        let mut object = object(table, row, names);
        for (column, c) in table.columns().iter().enumerate() {
            let cell = table.cell(row, column, names);
            if format == out::Format::Text && matches!(cell, Cell::Number(_)) {
                object.insert(c.name.to_owned(), Shown(&cell).to_string().into());
            }
        }
        Value::Object(object)
    };
    (0..table.rows()).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral::graph::answer::{Cells, Column};
    use littoral::graph::names::{Labels, TextNames};

    fn table() -> Table {
        Table::new(vec![
            Column { name: "vertex", cells: Cells::Vertices(vec![1, 0, 2]) },
            Column { name: "level", cells: Cells::Counts(vec![0, 1, 1234]) },
            Column { name: "rank", cells: Cells::Singles(vec![0.1, 2.5e-8, 1.0]) },
        ])
    }

    fn written(format: AnswerFormat, names: &Names) -> String {
        let mut out = Vec::new();
        encode(&mut out, format, &table(), names).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_link_to_nothing_is_refused_before_the_work() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("a.csv");
        std::os::unix::fs::symlink(folder.path().join("nothing"), &link).unwrap();
        assert!(place(&link, false).is_err());
        assert!(place(&link, true).is_ok() && place(&folder.path().join("b.csv"), false).is_ok());
    }

    #[test]
    fn a_name_that_is_taken_meanwhile_is_refused_as_one_that_was_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let fresh = place(&path, false).unwrap();
        std::fs::write(&path, "of another program").unwrap();
        let target =
            Target { path: path.clone(), place: fresh, format: AnswerFormat::Csv, force: false };
        let taken = target.write_with(|_, out| out.write_all(b"1")).unwrap_err();
        assert_eq!(format!("{taken:?}"), format!("{:?}", place(&path, false).unwrap_err()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "of another program");
    }

    #[test]
    fn awkward_names_are_written_so_that_they_can_be_read_back() {
        let mut text = TextNames::new();
        ["a,b", "say \"hi\"", "two\nlines\tor more"].iter().for_each(|n| text.push(n));
        let names = Names::new(Labels::Text(text), 3);
        let csv = "vertex,level,rank\n\"say \"\"hi\"\"\",0,0.1\n\"a,b\",1,0.000000025\n\
                   \"two\nlines\tor more\",1234,1\n";
        assert_eq!(written(AnswerFormat::Csv, &names), csv);
        let tsv = "vertex\tlevel\trank\n\"say \"\"hi\"\"\"\t0\t0.1\na,b\t1\t0.000000025\n\
                   \"two\nlines\tor more\"\t1234\t1\n";
        assert_eq!(written(AnswerFormat::Tsv, &names), tsv);
        let jsonl = "{\"vertex\":\"say \\\"hi\\\"\",\"level\":0,\"rank\":0.1}\n\
                     {\"vertex\":\"a,b\",\"level\":1,\"rank\":2.5e-8}\n\
                     {\"vertex\":\"two\\nlines\\tor more\",\"level\":1234,\"rank\":1.0}\n";
        assert_eq!(written(AnswerFormat::Jsonl, &names), jsonl);
    }

    #[test]
    fn numbers_are_numbers() {
        let names = Names::new(Labels::Numbers(vec![7, u64::MAX, 1]), 3);
        let first = written(AnswerFormat::Jsonl, &names);
        assert!(first.starts_with("{\"vertex\":18446744073709551615,\"level\":0"), "{first}");
        let shown = rows(&table(), &names, out::Format::Text);
        assert_eq!(shown[0]["vertex"], "18446744073709551615");
        assert_eq!(rows(&table(), &names, out::Format::Json)[1]["vertex"], 7);
    }
}
