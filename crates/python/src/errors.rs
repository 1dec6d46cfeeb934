//! Errors of the libraries as Python exceptions, by kind and class.
//!
//! The classes are defined in `littoral/errors.py`: one per kind, with a base per class of error.
//! A kind without a class of its own becomes its base, so that an engine joins without a change
//! here.

use littoral::base::error::{Category, Class, Error};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;

/// The exception for an error of any engine.
pub(crate) fn raised<K: Category>(py: Python<'_>, error: &Error<K>) -> PyErr {
    let kind = format!("{:?}", error.kind());
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let words = cause.to_string();
        // An error of ours says its causes, one of the system only itself.
        if !message.contains(&words) {
            message += &format!(": {words}");
        }
        source = cause.source();
    }
    let message = in_python(&message);
    if error.class() == Class::Interrupted {
        return PyKeyboardInterrupt::new_err(message);
    }
    raised_as(py, &kind, &format!("{:?}", error.class()), message)
}

/// A message that names options of the command line, with Python's keywords in their place.
fn in_python(message: &str) -> String {
    let mut parts = message.split("--");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(part.len());
        let (option, rest) = part.split_at(end);
        let begins_word = text.is_empty() || text.ends_with([' ', '`', '(', '\'']);
        match option {
            // A file's name may hold the same characters.
            _ if !begins_word || option.is_empty() => text += &format!("--{option}"),
            "force" => text += "overwrite=True",
            "no-header" => text += "header=False",
            "iterations" => text += "max_iter",
            "tolerance" => text += "tol",
            _ => text += &option.replace('-', "_"),
        }
        text += rest;
    }
    text
}

/// An exception for an argument that is refused before a library sees it.
pub(crate) fn argument(py: Python<'_>, message: String) -> PyErr {
    raised_as(py, "Argument", "Usage", message)
}

fn raised_as(py: Python<'_>, kind: &str, class: &str, message: String) -> PyErr {
    let make = || -> PyResult<Bound<'_, PyAny>> {
        let module = py.import("littoral.errors")?;
        module.getattr("_of")?.call1((kind, class, &message))
    };
    match make() {
        Ok(exception) => PyErr::from_value(exception),
        Err(e) => PyRuntimeError::new_err(format!("{message} (and its class is missing: {e})")),
    }
}
