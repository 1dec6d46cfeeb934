//! Where the engine's own lines go: standard error, and with `--stats` or `--profile` a copy of its
//! descriptor, because some programs close theirs before they end.
//!
//! - The copy has a high number and is closed by `execve`, whose engine makes its own.
//! - A program may close it, too, and open a file under its number. A line is written to the copy
//!   only while it leads to the file that it led to at first. Checked by
//!   `figures_are_shown_though_the_program_closes_standard_error`.

use super::raw;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;

/// A copy of standard error, with the device and the number of its file.
#[derive(Debug)]
struct Copy {
    file: File,
    first: (u64, u64),
}

impl Copy {
    /// The file that it leads to now.
    fn now(file: &File) -> Option<(u64, u64)> {
        file.metadata().ok().map(|of| (of.dev(), of.ino()))
    }
}

/// Where lines go.
#[derive(Debug, Default)]
pub(super) struct Voice(Option<Copy>);

impl Voice {
    /// One that programs do not silence when they close standard error.
    pub(super) fn kept() -> Voice {
        let copy = raw::copy_of(libc::STDERR_FILENO).map(File::from);
        Voice(copy.and_then(|file| Some(Copy { first: Copy::now(&file)?, file })))
    }

    /// Writes a line; one that cannot be written is lost, since it must not stop the guest.
    pub(super) fn say(&self, line: &str) {
        let mut standard = std::io::stderr().lock();
        let line = format!("la64: {line}\n");
        let _ = match self.0.as_ref().filter(|copy| Copy::now(&copy.file) == Some(copy.first)) {
            Some(copy) => (&copy.file).write_all(line.as_bytes()),
            None => standard.write_all(line.as_bytes()),
        };
    }
}
