//! Columns of numbers from Python: numpy and whatever becomes a numpy array, and Arrow.
//!
//! Invariants
//! - Every integer type, byte order, stride and alignment gives the same numbers, or an error that
//!   names the argument, the index and the value. Checked by
//!   `test_every_integer_type_and_byte_order`, `test_columns_that_begin_between_words_are_read`,
//!   `test_bad_columns_are_named`.
//! - Entries that are null or masked are errors. Checked by `test_faults_of_tables_are_named`,
//!   `test_masked_entries_are_errors`.
//! - Nothing is rounded: ids of a floating-point type are refused. Checked by
//!   `test_bad_columns_are_named`.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use numpy::{PyReadonlyArray1, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::errors::argument;
use crate::raw;

/// How other names become ids.
pub(crate) const NUMBERING: &str =
    "numbering = numpy.unique(names, return_inverse=True) numbers any names";

/// Appends whole numbers as ids; `first` is the row of the first of them.
fn narrow<T>(
    py: Python<'_>,
    what: &str,
    first: usize,
    numbers: impl ExactSizeIterator<Item = T>,
    ids: &mut Vec<u32>,
) -> PyResult<()>
where
    T: Copy + std::fmt::Display,
    u32: TryFrom<T>,
{
    ids.reserve(numbers.len());
    for (i, number) in numbers.enumerate() {
        match u32::try_from(number) {
            Ok(id) => ids.push(id),
            Err(_) => {
                let at = first + i;
                let what = format!(
                    "{what}[{at}] is {number}; ids are whole numbers from 0 to 2147483645. \
                     {NUMBERING}"
                );
                return Err(argument(py, what));
            }
        }
    }
    Ok(())
}

macro_rules! numpy_ids {
    ($py:ident, $what:ident, $array:ident, $ids:ident, $($kind:ty),+) => {
        $(if let Ok(numbers) = $array.extract::<PyReadonlyArray1<'_, $kind>>() {
            let numbers = numbers.as_slice()?;
            return narrow($py, $what, 0, numbers.iter().copied(), &mut $ids).map(|()| $ids);
        })+
    };
}

/// A one-dimensional numpy array of `column`, contiguous, aligned and in this machine's byte order.
fn native<'py>(
    py: Python<'py>,
    what: &str,
    column: &Bound<'py, PyAny>,
    dtype: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import("numpy")?;
    let array = numpy.call_method1("asarray", (column,))?;
    let untyped = array.cast::<PyUntypedArray>()?;
    if untyped.ndim() != 1 {
        let what = format!("{what} has {} dimensions; a column has one", untyped.ndim());
        return Err(argument(py, what));
    }
    // A plain array has no mask: what lies under it would be read as a number.
    let masks = py.import("numpy.ma")?;
    let is_masked: bool = masks.call_method1("is_masked", (column,))?.extract()?;
    if is_masked {
        let mask = masks.call_method1("getmaskarray", (column,))?;
        let at: usize = mask.call_method0("argmax")?.extract()?;
        return Err(argument(py, format!("{what}[{at}] is masked; remove or fill it")));
    }
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let name = array.getattr("dtype")?.str()?;
    let wanted = match dtype {
        Some(dtype) if "iuf".contains(&kind) => dtype.to_owned(),
        None if "iu".contains(&kind) => {
            let size: usize = array.getattr("dtype")?.getattr("itemsize")?.extract()?;
            format!("={kind}{size}")
        }
        _ if untyped.len() == 0 => dtype.unwrap_or("=i8").to_owned(),
        Some(_) => {
            return Err(argument(py, format!("{what} has type {name}; weights are numbers")));
        }
        None => {
            let what = format!("{what} has type {name}; ids are integers. {NUMBERING}");
            return Err(argument(py, what));
        }
    };
    let options = PyDict::new(py);
    options.set_item("dtype", wanted)?;
    options.set_item("requirements", ["C", "A"])?;
    numpy.call_method("require", (array,), Some(&options))
}

/// The ids in a column.
pub(crate) fn ids(py: Python<'_>, what: &str, column: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    let mut ids = Vec::new();
    if let Some(chunks) = arrow_chunks(column)? {
        let mut first = 0;
        for chunk in chunks {
            arrow_ids(py, what, first, &chunk, &mut ids)?;
            first += chunk.len();
        }
        return Ok(ids);
    }
    let array = native(py, what, column, None)?;
    numpy_ids!(py, what, array, ids, u8, u16, u32, u64, i8, i16, i32, i64);
    Err(argument(py, format!("{what} has a type of integers that is not known here")))
}

/// The weights in a column.
pub(crate) fn weights(py: Python<'_>, column: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    let what = "weight";
    if let Some(chunks) = arrow_chunks(column)? {
        let mut weights = Vec::new();
        for chunk in chunks {
            arrow_weights(py, what, &chunk, &mut weights)?;
        }
        return Ok(weights);
    }
    let array = native(py, what, column, Some("=f4"))?;
    let weights = array.extract::<PyReadonlyArray1<'_, f32>>()?;
    Ok(weights.as_array().to_vec())
}

/// The chunks of a column that offers itself by the Arrow interface.
fn arrow_chunks(column: &Bound<'_, PyAny>) -> PyResult<Option<Vec<ArrayRef>>> {
    if !column.hasattr("__arrow_c_stream__")? || column.hasattr("__array_interface__")? {
        return Ok(None);
    }
    let capsule = column.call_method0("__arrow_c_stream__")?;
    let py = column.py();
    let chunks = raw::chunks(capsule.cast::<PyCapsule>()?)?;
    chunks.map(Some).map_err(|e| argument(py, format!("the Arrow column cannot be read: {e}")))
}

macro_rules! arrow_each {
    ($chunk:ident, $numbers:ident => $done:expr, $($kind:ty),+) => {
        $(if let Some($numbers) = $chunk.as_primitive_opt::<$kind>() {
            return $done;
        })+
    };
}

fn arrow_ids(
    py: Python<'_>,
    what: &str,
    first: usize,
    chunk: &ArrayRef,
    ids: &mut Vec<u32>,
) -> PyResult<()> {
    no_nulls(py, what, first, chunk)?;
    arrow_each!(chunk, n => narrow(py, what, first, n.values().iter().copied(), ids),
        UInt8Type, UInt16Type, UInt32Type, UInt64Type, Int8Type, Int16Type, Int32Type, Int64Type);
    let what =
        format!("{what} has Arrow type {}; ids are integers. {NUMBERING}", chunk.data_type());
    Err(argument(py, what))
}

fn arrow_weights(
    py: Python<'_>,
    what: &str,
    chunk: &ArrayRef,
    weights: &mut Vec<f32>,
) -> PyResult<()> {
    no_nulls(py, what, weights.len(), chunk)?;
    if let Some(n) = chunk.as_primitive_opt::<Float32Type>() {
        weights.extend_from_slice(n.values());
        return Ok(());
    }
    arrow_each!(chunk, n => { weights.extend(n.values().iter().map(|&w| w as f32)); Ok(()) },
        Float64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
        Int8Type, Int16Type, Int32Type, Int64Type);
    Err(argument(py, format!("{what} has Arrow type {}; weights are numbers", chunk.data_type())))
}

fn no_nulls(py: Python<'_>, what: &str, first: usize, chunk: &ArrayRef) -> PyResult<()> {
    match (0..chunk.len()).find(|&i| chunk.is_null(i)) {
        None => Ok(()),
        Some(i) => Err(argument(py, format!("{what}[{}] is null; remove or fill it", first + i))),
    }
}

/// Columns of a table that offers itself by the Arrow interface: source, target, perhaps weight.
pub(crate) struct Columns {
    /// Ids of sources.
    pub(crate) source: Vec<u32>,
    /// Ids of targets.
    pub(crate) target: Vec<u32>,
    /// One weight an edge.
    pub(crate) weight: Option<Vec<f32>>,
}

/// Reads the named columns of a table.
pub(crate) fn table(
    table: &Bound<'_, PyAny>,
    source: &str,
    target: &str,
    weight: Option<&str>,
) -> PyResult<Columns> {
    let py = table.py();
    if !table.hasattr("__arrow_c_stream__")? {
        let kind = table.getattr("__class__")?.getattr("__name__")?;
        let what = format!(
            "{kind} offers no Arrow stream, as tables of pyarrow, polars and pandas 2.2 do; \
             from_arrays takes columns"
        );
        return Err(argument(py, what));
    }
    let bad = |e: arrow_schema::ArrowError| argument(py, format!("the table cannot be read: {e}"));
    let capsule = table.call_method0("__arrow_c_stream__")?;
    let reader = raw::stream(capsule.cast::<PyCapsule>()?)?.map_err(bad)?;
    let schema = reader.schema();
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    let place = |name: &str| match names.iter().filter(|n| **n == name).count() {
        1 => Ok(names.iter().position(|n| *n == name).unwrap_or(0)),
        0 => {
            let known = names.join(", ");
            Err(argument(py, format!("the table has no column {name}; it has {known}")))
        }
        n => Err(argument(py, format!("the table has {n} columns called {name}"))),
    };
    let places = (place(source)?, place(target)?, weight.map(place).transpose()?);
    let mut columns =
        Columns { source: Vec::new(), target: Vec::new(), weight: places.2.map(|_| Vec::new()) };
    for batch in reader {
        let batch: RecordBatch = batch.map_err(bad)?;
        let first = columns.source.len();
        arrow_ids(py, source, first, batch.column(places.0), &mut columns.source)?;
        arrow_ids(py, target, first, batch.column(places.1), &mut columns.target)?;
        if let (Some(at), Some(weights)) = (places.2, &mut columns.weight) {
            arrow_weights(py, weight.unwrap_or(""), batch.column(at), weights)?;
        }
    }
    Ok(columns)
}
