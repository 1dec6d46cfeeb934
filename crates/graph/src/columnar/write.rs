//! Tables to record batches, and these to files.

use std::io::{Error, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{
    ArrayRef, Float32Array, Float64Array, LargeStringArray, RecordBatch, UInt64Array,
};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::Parts;
use crate::answer::{Cell, Cells, Column, Table, name};
use crate::error::{Kind, Result};
use crate::import::Format;
use crate::names::{Labels, Names};

/// Rows of a batch.
const ROWS: usize = 1 << 16;

/// Writes a table part by part.
pub(super) fn parts(
    format: Format,
    names: &Names,
    out: &mut dyn Write,
    parts: Parts<'_, '_>,
) -> Result<()> {
    let Some(mut part) = parts()? else { return Ok(()) };
    let schema = schema(&part, names);
    let pipe = Pipe::default();
    let mut writer = Writer::new(format, &schema, pipe.clone()).map_err(failed)?;
    loop {
        for rows in ranges(&part) {
            let written = batch(&schema, &part, names, rows).map_err(of_arrow);
            written.and_then(|batch| writer.write(&batch)).map_err(failed)?;
            pipe.drain(out).map_err(failed)?;
        }
        match parts()? {
            Some(next) => part = next,
            None => break,
        }
    }
    writer.finish().and_then(|()| pipe.drain(out)).map_err(failed)
}

fn failed(e: std::io::Error) -> crate::error::Error {
    crate::error::Error::with_source(Kind::Io, "cannot write the table", e)
}

/// What a writer has written and `out` has not got: a writer's target has to be sendable, which a
/// lock of standard output is not.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl Pipe {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drain(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut bytes = self.bytes();
        out.write_all(&bytes)?;
        bytes.clear();
        Ok(())
    }
}

impl Write for Pipe {
    fn write(&mut self, more: &[u8]) -> std::io::Result<usize> {
        self.bytes().extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A writer of either format: Parquet compressed by snappy, as most writers do; Arrow without
/// compression, so that it can be mapped.
enum Writer {
    Parquet(Box<ArrowWriter<Pipe>>),
    Arrow(Box<FileWriter<Pipe>>),
}

impl Writer {
    fn new(format: Format, schema: &SchemaRef, pipe: Pipe) -> std::io::Result<Writer> {
        if format == Format::Arrow {
            let writer = FileWriter::try_new(pipe, schema).map_err(of_arrow)?;
            return Ok(Writer::Arrow(Box::new(writer)));
        }
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = ArrowWriter::try_new(pipe, Arc::clone(schema), Some(properties));
        Ok(Writer::Parquet(Box::new(writer.map_err(of_parquet)?)))
    }

    fn write(&mut self, batch: &RecordBatch) -> std::io::Result<()> {
        match self {
            Writer::Parquet(writer) => writer.write(batch).map_err(of_parquet),
            Writer::Arrow(writer) => writer.write(batch).map_err(of_arrow),
        }
    }

    fn finish(self) -> std::io::Result<()> {
        match self {
            Writer::Parquet(writer) => writer.close().map(drop).map_err(of_parquet),
            Writer::Arrow(mut writer) => writer.finish().map_err(of_arrow),
        }
    }
}

fn ranges(table: &Table) -> impl Iterator<Item = Range<usize>> {
    let rows = table.rows();
    (0..rows).step_by(ROWS).map(move |from| from..rows.min(from + ROWS))
}

fn schema(table: &Table, names: &Names) -> SchemaRef {
    let field = |column: &Column| {
        let data_type = match &column.cells {
            Cells::Vertices(_) if matches!(names.labels(), Labels::Text(_)) => DataType::LargeUtf8,
            Cells::Vertices(_) | Cells::Counts(_) => DataType::UInt64,
            Cells::Singles(_) => DataType::Float32,
            Cells::Doubles(_) => DataType::Float64,
        };
        Field::new(column.name, data_type, false)
    };
    Arc::new(Schema::new(table.columns().iter().map(field).collect::<Vec<Field>>()))
}

fn batch(
    schema: &SchemaRef,
    table: &Table,
    names: &Names,
    rows: Range<usize>,
) -> std::result::Result<RecordBatch, ArrowError> {
    let array = |column: &Column| -> ArrayRef {
        match &column.cells {
            Cells::Vertices(c) => vertices(names, &c[rows.clone()]),
            Cells::Counts(c) => Arc::new(UInt64Array::from(c[rows.clone()].to_vec())),
            Cells::Singles(c) => Arc::new(Float32Array::from(c[rows.clone()].to_vec())),
            Cells::Doubles(c) => Arc::new(Float64Array::from(c[rows.clone()].to_vec())),
        }
    };
    RecordBatch::try_new(Arc::clone(schema), table.columns().iter().map(array).collect())
}

fn vertices(names: &Names, vertices: &[u32]) -> ArrayRef {
    if let Labels::Text(text) = names.labels() {
        let text = |&v: &u32| String::from_utf8_lossy(text.get(v));
        return Arc::new(LargeStringArray::from_iter_values(vertices.iter().map(text)));
    }
    let number = |&v: &u32| match name(names, v) {
        Cell::Number(number) => number,
        other => unreachable!("a vertex called by a number, not {other:?}"),
    };
    Arc::new(UInt64Array::from_iter_values(vertices.iter().map(number)))
}

fn of_arrow(e: ArrowError) -> Error {
    match e {
        ArrowError::IoError(_, e) => e,
        other => Error::other(other),
    }
}

fn of_parquet(e: ParquetError) -> Error {
    Error::other(e)
}
