//! The extension module behind the Python package `littoral`.
//!
//! - [`graph`]: graphs and their kernels; another engine joins by a file of its own and a line
//!   here.
//! - [`errors`]: which Python class each kind of error becomes; [`work`]: long work with progress
//!   and Ctrl-C; [`columns`]: numbers from numpy and Arrow; [`machine`]: devices.
//!
//! Bindings add types and no behaviour: they stand on the facade `littoral` alone.
//!
//! Invariants
//! - Every name of the extension module is in its stubs. Checked by
//!   `test_every_name_of_the_extension_has_a_stub`.
//! - The interpreter's lock is held while arrays are copied, so that no Python code changes them
//!   meanwhile, and released while a graph is built or a kernel runs. Checked by
//!   `test_ctrl_c_ends_a_kernel_and_other_threads_run_meanwhile`.

mod columns;
mod errors;
mod graph;
mod machine;
mod raw;
mod work;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
fn _littoral(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<machine::Machine>()?;
    graph::register(module)
}
