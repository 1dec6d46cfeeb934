//! `--perf-map`: names of translated blocks for perf, which reads `/tmp/perf-PID.map`.
//!
//! Each line is the host address and the length of a block's code, both hexadecimal, and its name:
//! the guest's function and the distance from its beginning, or the guest address.
//!
//! - Only this process writes the file, which is made anew and is no link.
//! - Its lock comes before that of the address space.
//! - Code that is dropped keeps its lines; code that later takes its place is named by later lines.

use super::path::Paths;
use super::space::Space;
use super::symbols::Symbols;
use super::sync::lock;
use crate::error::{Error, Kind, Result};
use littoral_la64::interp::Placed;
use std::fs::File;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard};

/// The file, and the names that were looked up for it.
pub(super) struct PerfMap(Mutex<(File, Symbols)>);

impl PerfMap {
    /// The file of this process.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn create() -> Result<PerfMap> {
        Ok(PerfMap(Mutex::new((file()?, Symbols::default()))))
    }

    /// Goes on with a file of this process, a forked child. Without one nothing more is written.
    pub(super) fn begin_again(&self) {
        if let Ok(file) = file() {
            self.hold().0 = file;
        }
    }

    /// The file, kept from other threads.
    pub(super) fn hold(&self) -> MutexGuard<'_, (File, Symbols)> {
        lock(&self.0)
    }

    /// Adds blocks.
    pub(super) fn add(&self, space: &Mutex<Space>, paths: &Paths, blocks: &[Placed]) {
        if blocks.is_empty() {
            return;
        }
        let (file, symbols) = &mut *self.hold();
        let space = lock(space);
        let lines: String = (blocks.iter())
            .map(|b| {
                let place = symbols.find(&space, paths, b.guest);
                let name = match place.function {
                    Some((name, 0)) => name,
                    Some((name, behind)) => format!("{name}+{behind:#x}"),
                    None => format!("{:#x}", b.guest),
                };
                format!("{:x} {:x} la64:{name}\n", b.host, b.len)
            })
            .collect();
        // A full disk must not stop the guest.
        let _ = file.write_all(lines.as_bytes());
    }
}

fn file() -> Result<File> {
    let path = format!("/tmp/perf-{}.map", std::process::id());
    // One that an earlier process of this number left behind.
    let _ = std::fs::remove_file(&path);
    File::create_new(&path).map_err(|e| {
        Error::with_source(Kind::Io, format!("cannot make {path}, where perf looks for names"), e)
    })
}
