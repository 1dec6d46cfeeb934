//! `--perf-map`: names of translated blocks for perf, which reads `/tmp/perf-PID.map`.
//!
//! Each line is the host address and the length of a block's code, both hexadecimal, and its name:
//! the guest's function and the distance from its beginning, or the guest address.
//!
//! - Only this process writes the file, which is made anew and is no link. It is opened for each
//!   write: a descriptor kept open would be among those of the program, which may close it or put
//!   another file in its place.
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
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Mutex, MutexGuard};

/// The file's name, and the names that were looked up for it.
pub(super) struct PerfMap(Mutex<(String, Symbols)>);

impl PerfMap {
    /// The file of this process.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn create() -> Result<PerfMap> {
        let path = path();
        make(&path)?;
        Ok(PerfMap(Mutex::new((path, Symbols::default()))))
    }

    /// Goes on with a file of this process, a forked child. Without one nothing more is written.
    pub(super) fn begin_again(&self) {
        let path = path();
        let _ = make(&path);
        self.hold().0 = path;
    }

    /// The file, kept from other threads.
    pub(super) fn hold(&self) -> MutexGuard<'_, (String, Symbols)> {
        lock(&self.0)
    }

    /// Adds blocks.
    pub(super) fn add(&self, space: &Mutex<Space>, paths: &Paths, blocks: &[Placed]) {
        if blocks.is_empty() {
            return;
        }
        let (path, symbols) = &mut *self.hold();
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
        let file = File::options().append(true).custom_flags(libc::O_NOFOLLOW).open(path);
        let _ = file.and_then(|mut file| file.write_all(lines.as_bytes()));
    }
}

/// Where perf looks for the names of this process.
fn path() -> String {
    format!("/tmp/perf-{}.map", std::process::id())
}

/// Makes the file anew.
fn make(path: &str) -> Result<()> {
    // One that an earlier process of this number left behind.
    let _ = std::fs::remove_file(path);
    File::create_new(path).map(drop).map_err(|e| {
        Error::with_source(Kind::Io, format!("cannot make {path}, where perf looks for names"), e)
    })
}
