//! Arrow streams that Python hands over as capsules (the Arrow PyCapsule interface).
//!
//! Obligations and the tests that would catch a breach are listed in the crate's `SAFETY.md`.
#![allow(unsafe_code)] // Reason: the interface is C structures behind a pointer.

use std::ffi::CStr;

use arrow_array::ArrayRef;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::make_array;
use arrow_schema::{ArrowError, DataType};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

const NAME: &CStr = c"arrow_array_stream";

/// Takes the stream out of a capsule; the capsule is empty afterwards.
fn take(capsule: &Bound<'_, PyCapsule>) -> PyResult<FFI_ArrowArrayStream> {
    let pointer = capsule.pointer_checked(Some(NAME))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a stream (the interface's promise) and the interpreter's
    // lock is held; `from_raw` leaves a released stream behind, which the capsule's destructor then
    // ignores.
    Ok(unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) })
}

/// The batches of a table's stream.
pub(crate) fn stream(
    capsule: &Bound<'_, PyCapsule>,
) -> PyResult<Result<ArrowArrayStreamReader, ArrowError>> {
    Ok(ArrowArrayStreamReader::try_new(take(capsule)?))
}

/// The arrays of a column's stream, whose items are no batches.
pub(crate) fn chunks(
    capsule: &Bound<'_, PyCapsule>,
) -> PyResult<Result<Vec<ArrayRef>, ArrowError>> {
    Ok(all_chunks(take(capsule)?))
}

fn all_chunks(mut stream: FFI_ArrowArrayStream) -> Result<Vec<ArrayRef>, ArrowError> {
    let broken = || ArrowError::CDataInterface("the stream failed or was read before".to_owned());
    let (Some(get_schema), Some(get_next)) = (stream.get_schema, stream.get_next) else {
        return Err(broken());
    };
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the stream is not released, and the schema is an empty structure to be filled.
    if unsafe { get_schema(&raw mut stream, &raw mut schema) } != 0 {
        return Err(broken());
    }
    let kind = DataType::try_from(&schema)?;
    let mut chunks = Vec::new();
    loop {
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: as above; the array is an empty structure to be filled.
        if unsafe { get_next(&raw mut stream, &raw mut array) } != 0 {
            return Err(broken());
        }
        if array.is_released() {
            return Ok(chunks);
        }
        // SAFETY: the array is one of this stream, whose type the schema tells.
        chunks.push(make_array(unsafe { from_ffi_and_data_type(array, kind.clone()) }?));
    }
}
