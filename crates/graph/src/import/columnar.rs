//! Parquet and Arrow IPC tables to edges: columns by name, types as the file says.
//!
//! Lifecycle: schema -> columns of source, target and weight, by the rules of headers
//! ([`super::columns`]) -> batches of these columns alone -> numbers or text -> one numbering, in
//! the order of rows.
//!
//! Ids are whole numbers or text; which of the two, the type of a column says. Where one of the two
//! columns is text, all ids are. A dictionary counts as the type of its values.
//!
//! Invariants
//! - A table and the CSV with the same columns make the same graph file. Checked by
//!   `a_table_and_its_csv_make_the_same_file`.
//! - A null, a negative number and a weight that is none are refused with column and row (from
//!   one); a column of another type, one that is missing and one that is there twice with their
//!   names. Checked by `what_is_no_table_of_edges_is_refused_by_column_and_row`.
//! - With bounded memory, what decoders hold is counted ([`held`]), and a page or batch that does
//!   not fit is refused with what it needs. Checked by
//!   `what_does_not_fit_the_memory_is_refused_before_it_is_read`.
//! - A damaged file is refused: lengths of Arrow files are checked before memory is allocated by
//!   them, and a panic of a decoder is caught. Checked by `damaged_files_are_refused`,
//!   `lengths_that_a_file_does_not_have_are_refused`.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;

use super::columns::{self, Columns};
use super::dialect::{Format, Ids};
use super::fault::{Fault, RECORD_BYTES_MAX};
use super::input::Compression;
use super::intern::Text;
use super::numbering::Numbering;
use super::parse::Edges;
use super::{ImportOptions, Source};
use crate::builder::{EdgeList, EdgeSink, Hooks, Shape, Stage};
use crate::error::{Error, Kind, Result, io};
use held::{Counted, Held};

mod held;
mod ipc;

/// Rows of a batch of a Parquet file; an Arrow file has the batches that its writer made.
const ROWS: usize = 1 << 15;
/// The fewest rows of a batch, the bytes that a row may take while it is numbered, and how often a
/// batch is in memory: decoded, as names, numbered.
const ROWS_MIN: usize = 1 << 10;
const ROW_BYTES: usize = 64;
const BATCHES: usize = 3;
/// Bytes that an edge of an Arrow file takes, about: its footer does not count rows.
const EDGE_BYTES: u64 = 16;

/// Reads a table of edges.
pub(super) fn read(
    path: &Path,
    format: Format,
    options: &ImportOptions,
    sink: &mut dyn EdgeSink,
    hooks: &mut Hooks<'_>,
) -> Result<(EdgeList, Source)> {
    let all = Held::new(None, 0);
    let schema = guarded((path, format), || open(path, format, None, ROWS, &all))?.schema;
    let header: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
    let columns = chosen(path, &header, options)?;
    let types = Types::of(path, &schema, &columns, options)?;
    let mut wanted = types.places();
    wanted.sort_unstable();
    wanted.dedup();
    let within = |bytes: usize| (bytes / ROW_BYTES).clamp(ROWS_MIN, ROWS);
    let rows_at_once = sink.block_bytes(BATCHES).map_or(ROWS, within);
    let held = Held::new(sink.held_max(), wanted.len());
    let opened = guarded((path, format), || open(path, format, Some(&wanted), rows_at_once, &held));
    fits(path, format, &held, &*sink)?;
    let table = opened?;
    let (weighted, directed) = (columns.weight.is_some(), options.directed.unwrap_or(true));
    sink.begin(Shape { directed, weighted, edges_count: table.rows_about }, hooks)?;
    let mut numbering = Numbering::new(sink, weighted);
    let mut rows = 0;
    let mut batches = table.batches;
    loop {
        let batch = guarded((path, format), || batches.next().transpose());
        fits(path, format, &held, numbering.sink())?;
        let Some(batch) = batch? else { break };
        // Batches of an Arrow file are as long as its writer made them.
        for from in (0..batch.num_rows()).step_by(rows_at_once) {
            let batch = batch.slice(from, rows_at_once.min(batch.num_rows() - from));
            held.admit_names(names_beyond(&batch, rows_at_once));
            fits(path, format, &held, numbering.sink())?;
            let part = Part { path, types: &types, wanted: &wanted, batch: &batch, rows };
            let (edges, weights) = part.read()?;
            rows += batch.num_rows() as u64;
            if !numbering.add(edges, weights) {
                let what = Fault::TooManyVertices.describe(&columns);
                return Err(bad(path, format!("row {rows}: {what}")));
            }
            numbering.hand_over(held.bytes(), hooks)?;
            let bytes = |rows: u64| rows.saturating_mul(EDGE_BYTES);
            hooks.step(Stage::Reading, bytes(rows), bytes(table.rows_about))?;
        }
    }
    let empty = || bad(path, "the graph is empty: the table has no rows");
    let (edges, ids) = numbering.finish(directed).ok_or_else(empty)?;
    let source = Source {
        format,
        compression: Compression::None,
        delimiter: None,
        columns: columns.named(Some(&header)),
        header: Some(header),
        ids,
        lines: 0,
    };
    Ok((edges, source))
}

/// Refuses what a decoder was refused.
fn fits(path: &Path, format: Format, held: &Held, sink: &dyn EdgeSink) -> Result<()> {
    let what = match format {
        Format::Parquet => "pages of the columns of edges take",
        _ => "a batch of the table takes",
    };
    let too_much = held.refused().map(|bytes| sink.short(bytes, what));
    too_much.map_or(Ok(()), |e| Err(bad_as(e.kind(), path, e)))
}

/// Bytes that numbering these rows takes beyond what is reckoned for a row. Values of dictionaries
/// have been counted with them.
fn names_beyond(batch: &RecordBatch, rows_at_once: usize) -> u64 {
    let columns = batch.columns().iter();
    let plain = columns.filter(|array| !matches!(array.data_type(), DataType::Dictionary(..)));
    let all: usize = plain.map(|a| a.to_data().get_slice_memory_size().unwrap_or(0)).sum();
    (BATCHES * all.saturating_sub(ROW_BYTES * rows_at_once)) as u64
}

fn bad_as(kind: Kind, path: &Path, what: impl Display) -> Error {
    Error::new(kind, format!("{}: {what}", path.display())).at_path(path)
}

fn bad(path: &Path, what: impl Display) -> Error {
    bad_as(Kind::Input, path, what)
}

/// Batches of a table's columns.
struct Batches {
    schema: Schema,
    rows_about: u64,
    batches: Box<dyn Iterator<Item = Decoded<RecordBatch>>>,
}

/// What a decoder answers.
type Decoded<T> = std::result::Result<T, Cause>;

/// Why a decoder has none.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Runs a decoder. Damaged files make some of them panic.
fn guarded<T>((path, format): (&Path, Format), decode: impl FnOnce() -> Decoded<T>) -> Result<T> {
    let named = if format == Format::Parquet { "Parquet" } else { "Arrow" };
    let damaged = format!("damaged, or no {named} file");
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(decoded)) => Ok(decoded),
        Ok(Err(e)) => match io_cause(e) {
            Ok(e) => Err(io("cannot read", path, e)),
            Err(e) if is_left_out(&e.to_string()) => {
                let what = "compressed in a way that this program does not read; write it again \
                            with snappy, gzip, zstd, lz4 or no compression";
                let context = format!("{}: {what}", path.display());
                let source = std::io::Error::other(e);
                Err(Error::with_source(Kind::Unsupported, context, source).at_path(path))
            }
            Err(e) => {
                let context = format!("{}: {damaged}", path.display());
                let source = std::io::Error::other(e);
                Err(Error::with_source(Kind::Input, context, source).at_path(path))
            }
        },
        Err(_) => Err(bad(path, format!("{damaged} (its decoder ended early)"))),
    }
}

/// Whether a decoder's message is about a codec that is not built in, for which it has no kind of
/// error that reaches here through Arrow.
fn is_left_out(message: &str) -> bool {
    message.contains("Disabled feature at compile time")
        || message.contains("The codec type") && message.contains("is not supported yet")
}

/// The failure of the system behind a decoder's, where there is one.
fn io_cause(e: Cause) -> std::result::Result<std::io::Error, Cause> {
    let e = match e.downcast::<ArrowError>().map(|e| *e) {
        Ok(ArrowError::IoError(_, e)) => Box::new(e),
        Ok(e) => return Err(Box::new(e)),
        Err(e) => e,
    };
    let e = match e.downcast::<ParquetError>().map(|e| *e) {
        Ok(ParquetError::External(e)) => e,
        Ok(e) => return Err(Box::new(e)),
        Err(e) => e,
    };
    // The end of a file comes too early where it is damaged.
    let e = e.downcast::<std::io::Error>()?;
    if e.kind() == std::io::ErrorKind::UnexpectedEof { Err(e) } else { Ok(*e) }
}

/// Opens a table; `wanted` are the places of its columns in ascending order, all without it.
fn open(
    path: &Path,
    format: Format,
    wanted: Option<&[usize]>,
    rows: usize,
    held: &Held,
) -> Decoded<Batches> {
    let mut file = File::open(path)?;
    if format == Format::Parquet {
        return open_parquet(Counted { file, held: held.clone() }, wanted, rows);
    }
    let batch_bytes = ipc::check(&file)?;
    if !held.admit_kept(batch_bytes) {
        return Err("a batch beyond the memory".into());
    }
    let projection = wanted.map(<[usize]>::to_vec);
    let rows_about = file.metadata()?.len() / EDGE_BYTES;
    let mut front = Vec::new();
    Read::by_ref(&mut file).take(6).read_to_end(&mut front)?;
    file.rewind()?;
    if front == b"ARROW1" {
        let reader = FileReader::try_new(BufReader::new(file), projection)?;
        let schema = Schema::clone(&reader.schema());
        let batches = Box::new(reader.map(|batch| Ok(batch?)));
        return Ok(Batches { schema, rows_about, batches });
    }
    let reader = StreamReader::try_new(BufReader::new(file), projection)?;
    let schema = Schema::clone(&reader.schema());
    Ok(Batches { schema, rows_about, batches: Box::new(reader.map(|batch| Ok(batch?))) })
}

fn open_parquet(file: Counted, wanted: Option<&[usize]>, at_once: usize) -> Decoded<Batches> {
    let held = file.held.clone();
    // Without the writer's Arrow schema, columns have the types of Parquet: no dictionaries.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let mut builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)?;
    let schema = Schema::clone(builder.schema());
    let rows = builder.metadata().file_metadata().num_rows();
    held.admit_kept(builder.metadata().memory_size() as u64);
    if let Some(wanted) = wanted {
        let mask = ProjectionMask::roots(builder.parquet_schema(), wanted.iter().copied());
        builder = builder.with_projection(mask);
    }
    let reader = builder.with_batch_size(at_once).build()?;
    let batches = Box::new(reader.map(|batch| Ok(batch?)));
    Ok(Batches { schema, rows_about: u64::try_from(rows).unwrap_or(0), batches })
}

/// The columns of source, target and weight.
fn chosen(path: &Path, header: &[String], options: &ImportOptions) -> Result<Columns> {
    let of_text =
        options.header.is_some() || options.delimiter.is_some() || options.comments.is_some();
    if of_text {
        let what = "options about headers, delimiters and comments go with text; a table of typed \
                    columns has none";
        let context = format!("{}: {what}", path.display());
        return Err(Error::new(Kind::Argument, context).at_path(path));
    }
    let found = match &options.columns {
        Some(wanted) => columns::chosen(wanted, header.len(), Some(header)),
        None => columns::of_header(header),
    };
    let columns = found.map_err(|what| bad(path, what))?;
    if options.directed.is_none()
        && let Some(place) = columns::direction_column(header)
    {
        let name = &header[place];
        let what =
            format!("column '{name}' may tell the direction; say --directed or --undirected");
        return Err(bad(path, what));
    }
    Ok(columns)
}

/// A column that is read.
#[derive(Clone, Debug)]
struct Typed {
    place: usize,
    name: String,
    is_text: bool,
}

/// The columns that are read.
struct Types {
    source: Typed,
    target: Typed,
    weight: Option<Typed>,
    /// Whether ids are text, whatever the columns hold.
    as_text: bool,
}

impl Types {
    fn of(
        path: &Path,
        schema: &Schema,
        columns: &Columns,
        options: &ImportOptions,
    ) -> Result<Types> {
        let typed = |place: usize, what: &str, may_be_text: bool| {
            let field = schema.field(place);
            let is_text = match data_type(field.data_type()) {
                Holds::Whole => Some(false),
                Holds::Real => (!may_be_text).then_some(false),
                Holds::Text => may_be_text.then_some(true),
                Holds::Other => None,
            };
            let (name, found) = (field.name(), field.data_type());
            let refused = || bad(path, format!("column '{name}' is of type {found}; {what}"));
            Ok(Typed { place, name: name.clone(), is_text: is_text.ok_or_else(refused)? })
        };
        let ids = "ids are whole numbers or text in a plain column";
        let source = typed(columns.source, ids, true)?;
        let target = typed(columns.target, ids, true)?;
        let of_weight = |place| typed(place, "weights are numbers in a plain column", false);
        let weight = columns.weight.map(of_weight).transpose()?;
        if let Some(text) = [&source, &target].into_iter().find(|c| c.is_text)
            && options.ids == Some(Ids::Numbers)
        {
            let what = "is text, and `--ids numbers` asks for numbers: leave it out, or write the \
                        column as whole numbers";
            return Err(bad(path, format!("column '{}' {what}", text.name)));
        }
        let as_text = options.ids == Some(Ids::Text) || source.is_text || target.is_text;
        Ok(Types { source, target, weight, as_text })
    }

    fn places(&self) -> Vec<usize> {
        let weight = self.weight.as_ref().map(|w| w.place);
        [Some(self.source.place), Some(self.target.place), weight].into_iter().flatten().collect()
    }
}

/// What a type can be read as.
enum Holds {
    Whole,
    Real,
    Text,
    Other,
}

fn data_type(of: &DataType) -> Holds {
    match of {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Holds::Whole,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => Holds::Whole,
        DataType::Float32 | DataType::Float64 => Holds::Real,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Holds::Text,
        DataType::Dictionary(_, values) => data_type(values),
        _ => Holds::Other,
    }
}

/// One batch of a table.
struct Part<'a> {
    path: &'a Path,
    types: &'a Types,
    /// The places of the batch's columns in the file, ascending.
    wanted: &'a [usize],
    batch: &'a RecordBatch,
    /// Rows of earlier batches.
    rows: u64,
}

/// What is wrong in a row of a batch.
type Wrong = (usize, String);

impl Part<'_> {
    fn read(&self) -> Result<(Edges, Vec<f32>)> {
        let (source, target) = (&self.types.source, &self.types.target);
        let edges = if self.types.as_text {
            let (sources, targets) = (self.column(source, names)?, self.column(target, names)?);
            let mut local = Text::new();
            let mut id = |name: &str| local.id(name).expect("invariant: a batch is small");
            let both = sources.iter().zip(&targets);
            let pairs = both.map(|(s, t)| [id(s), id(t)]).collect();
            Edges::Text(local, pairs)
        } else {
            let sources = self.column(source, numbers)?;
            let targets = self.column(target, numbers)?;
            Edges::Numbers(sources.into_iter().zip(targets).map(|(s, t)| [s, t]).collect())
        };
        let weights = self.types.weight.as_ref().map(|weight| self.column(weight, weights));
        Ok((edges, weights.transpose()?.unwrap_or_default()))
    }

    /// The values of a column, which has no nulls.
    fn column<'b, T>(
        &'b self,
        column: &Typed,
        values: fn(&'b dyn Array) -> std::result::Result<Vec<T>, Wrong>,
    ) -> Result<Vec<T>> {
        let at = self.wanted.partition_point(|&place| place < column.place);
        let array: &dyn Array = self.batch.column(at).as_ref();
        let found = match first_null(array) {
            Some(row) => Err((row, "is empty (null), where an edge needs a value".to_owned())),
            None if array.is_empty() => Ok(Vec::new()),
            None => values(array),
        };
        found.map_err(|(row, what)| {
            let row = self.rows + row as u64 + 1;
            bad(self.path, format!("row {row}, column '{}': {what}", column.name))
        })
    }
}

fn first_null(array: &dyn Array) -> Option<usize> {
    let nulls = array.logical_nulls()?;
    (0..nulls.len()).find(|&row| nulls.is_null(row))
}

/// Each value of a column, or what is wrong with it.
type Each<T> = Vec<std::result::Result<T, String>>;

/// The values of a column by row; `each` reads the values of a plain array. What is wrong with a
/// value of a dictionary matters in rows that use it.
fn values<'a, T: Clone>(
    array: &'a dyn Array,
    each: impl Fn(&'a dyn Array) -> Each<T>,
) -> std::result::Result<Vec<T>, Wrong> {
    let at = |(row, value): (usize, std::result::Result<T, String>)| value.map_err(|w| (row, w));
    let Some(dictionary) = array.as_any_dictionary_opt() else {
        return each(array).into_iter().enumerate().map(at).collect();
    };
    let values = each(dictionary.values().as_ref());
    let keys = dictionary.normalized_keys();
    keys.iter().map(|&key| values[key].clone()).enumerate().map(at).collect()
}

/// Calls `$whole::<T>` for a column of whole numbers, `$real::<T>` for one of real numbers.
macro_rules! by_type {
    ($array:expr, $whole:ident, $real:expr) => {
        match $array.data_type() {
            DataType::Int8 => $whole::<Int8Type>($array),
            DataType::Int16 => $whole::<Int16Type>($array),
            DataType::Int32 => $whole::<Int32Type>($array),
            DataType::Int64 => $whole::<Int64Type>($array),
            DataType::UInt8 => $whole::<UInt8Type>($array),
            DataType::UInt16 => $whole::<UInt16Type>($array),
            DataType::UInt32 => $whole::<UInt32Type>($array),
            DataType::UInt64 => $whole::<UInt64Type>($array),
            other => $real(other),
        }
    };
}

fn numbers(array: &dyn Array) -> std::result::Result<Vec<u64>, Wrong> {
    values(array, |array| {
        let other = |t: &DataType| unreachable!("invariant: a column of ids, not of {t}");
        by_type!(array, whole, other)
    })
}

fn whole<T: ArrowPrimitiveType>(array: &dyn Array) -> Each<u64>
where
    T::Native: TryInto<u64> + Display,
{
    let number = |&value: &T::Native| {
        let fault = || Fault::NotAnId(value.to_string()).describe(&Columns::pair());
        value.try_into().map_err(|_| fault())
    };
    array.as_primitive::<T>().values().iter().map(number).collect()
}

fn names(array: &dyn Array) -> std::result::Result<Vec<String>, Wrong> {
    values(array, each_name)
}

fn each_name(array: &dyn Array) -> Each<String> {
    let all = |names: &mut dyn Iterator<Item = Option<&str>>| {
        let name = |name: Option<&str>| match name.unwrap_or("") {
            "" => Err(Fault::EmptyId.describe(&Columns::pair())),
            name if name.contains('\0') => Err("a NUL character in an id".to_owned()),
            name if name.len() > RECORD_BYTES_MAX => {
                Err(format!("an id longer than {RECORD_BYTES_MAX} bytes"))
            }
            name => Ok(name.to_owned()),
        };
        names.map(name).collect()
    };
    match array.data_type() {
        DataType::Utf8 => all(&mut array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => all(&mut array.as_string::<i64>().iter()),
        DataType::Utf8View => all(&mut array.as_string_view().iter()),
        _ => by_type!(array, printed, |t: &DataType| unreachable!("invariant: ids, not {t}")),
    }
}

fn printed<T: ArrowPrimitiveType>(array: &dyn Array) -> Each<String>
where
    T::Native: Display,
{
    array.as_primitive::<T>().values().iter().map(|value| Ok(value.to_string())).collect()
}

fn weights(array: &dyn Array) -> std::result::Result<Vec<f32>, Wrong> {
    values(array, |array| {
        let real = |t: &DataType| match t {
            DataType::Float32 => {
                let singles = array.as_primitive::<Float32Type>().values();
                singles.iter().map(|&w| weight(w)).collect()
            }
            _ => {
                let doubles = array.as_primitive::<Float64Type>().values();
                doubles.iter().map(|&w| weight(w as f32)).collect()
            }
        };
        by_type!(array, singles, real)
    })
}

/// A weight as text import has it: minus zero is zero.
fn weight(value: f32) -> std::result::Result<f32, String> {
    let is_weight = value.is_finite() && value >= 0.0;
    let fault = || Fault::Weight(value.to_string()).describe(&Columns::pair());
    if is_weight { Ok(value + 0.0) } else { Err(fault()) }
}

/// Whole numbers as the nearest numbers of single precision, as they are read from text.
fn singles<T: ArrowPrimitiveType>(array: &dyn Array) -> Each<f32>
where
    T::Native: Display,
{
    let single = |value: &T::Native| weight(value.to_string().parse().unwrap_or(f32::NAN));
    array.as_primitive::<T>().values().iter().map(single).collect()
}
