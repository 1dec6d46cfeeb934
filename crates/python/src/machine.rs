//! The machine that work runs on, as Python sees it: devices by name, and what is real of them.

use std::path::PathBuf;

use littoral::Machine as Devices;
use pyo3::prelude::*;

use crate::errors::raised;

/// The memory devices of a machine file, or of a machine emulated in memory.
///
/// >>> import littoral
/// >>> littoral.Machine().devices
/// ['flash', 'memory', 'zoned']
#[pyclass(module = "littoral", frozen)]
pub(crate) struct Machine {
    devices: Devices,
}

#[pymethods]
impl Machine {
    /// The machine described at `path`, or in `machine.toml` of the working folder, or else
    /// everything emulated in memory.
    #[new]
    #[pyo3(signature = (path=None))]
    fn new(py: Python<'_>, path: Option<PathBuf>) -> PyResult<Machine> {
        let devices = Devices::open(path.as_deref()).map_err(|e| raised(py, &e))?;
        Ok(Machine { devices })
    }

    /// The names of its devices.
    #[getter]
    fn devices(&self) -> Vec<String> {
        self.devices.spec().devices.iter().map(|d| d.name.clone()).collect()
    }

    fn __repr__(&self) -> String {
        format!("<littoral.Machine with {}>", self.devices().join(", "))
    }
}
