//! Files that are whole or absent.
//!
//! - A file is written under a temporary name in its own folder, flushed to the device and renamed,
//!   so an interrupted run leaves what stood there before.
//! - The temporary file is removed when writing fails.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};

/// Writes `bytes` to `path`, whole or not at all.
///
/// # Errors
/// `Kind::Io` with the path and the operating system's words; the old file is then untouched.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let draft = draft_name(path);
    let written = write_and_rename(&draft, path, bytes);
    if written.is_err() {
        // The draft may never have come to be; the first failure is the one to report.
        let _ = fs::remove_file(&draft);
    }
    written.map_err(|e| Error::with_source(Kind::Io, format!("cannot write {}", path.display()), e))
}

fn draft_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

fn write_and_rename(draft: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = fs::File::create(draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(draft, path)
}

/// Reads a text file.
///
/// # Errors
/// `Kind::Io` when it cannot be read, `Kind::BadResult` when it is not text.
pub fn read_text(path: &Path) -> Result<String> {
    let place = path.display();
    let bytes = fs::read(path)
        .map_err(|e| Error::with_source(Kind::Io, format!("cannot read {place}"), e))?;
    String::from_utf8(bytes)
        .map_err(|e| Error::new(Kind::BadResult, format!("{place}: not text: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_no_draft_and_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        write_whole(&path, b"old").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let error = write_whole(&folder, b"x").unwrap_err();
        assert_eq!(error.kind(), Kind::Io);
        assert!(error.to_string().contains("folder"), "{error}");
        let left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
}
