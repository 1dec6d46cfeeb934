//! Files that are whole or absent.
//!
//! - A file is written under a temporary name in its own folder, flushed to the device and renamed,
//!   so an interrupted run leaves what stood there before.
//! - The temporary file is removed when writing fails.
//! - A symbolic link is followed. What is no regular file (a device, a pipe) is written in place:
//!   renaming would replace it.
//! - After [`no_more_writes`] no file is being made, so that a process may end and leave no draft.
//!   What is written in place has no draft, and may wait for the reader of a pipe.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use littoral_base::mutant;

use crate::error::{Error, Kind, Result};

static WRITING: Mutex<()> = Mutex::new(());

/// Waits for a file that is being made and keeps others from beginning while the guard is held.
pub fn no_more_writes() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a file of that name is made by renaming: there is none, or a regular one.
pub fn is_replaceable(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |m| m.is_file())
}

/// Finds out whether [`write_whole`] would succeed, short of a full device; changes nothing. A pipe
/// with a name is not tried: opened and closed again it would end its reader's input.
///
/// # Errors
/// `Kind::Io` with the path and the operating system's words.
pub fn prove_writable(path: &Path) -> Result<()> {
    let is_pipe = fs::metadata(path).is_ok_and(|m| m.file_type().is_fifo());
    let tried = if is_pipe && !mutant!("bench_pipe_tried") {
        Ok(())
    } else if is_replaceable(path) {
        let _guard = no_more_writes();
        let draft = draft_name(&followed(path));
        fs::File::create(&draft).and_then(|_| fs::remove_file(&draft))
    } else {
        fs::OpenOptions::new().write(true).open(path).map(drop)
    };
    tried.map_err(|e| cannot_write(path, e))
}

/// The file that a symbolic link leads to; the path itself when there is no such file yet.
fn followed(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn cannot_write(path: &Path, e: std::io::Error) -> Error {
    Error::with_source(Kind::Io, format!("cannot write {}", path.display()), e)
}

/// Writes `bytes` to `path`, whole or not at all.
///
/// # Errors
/// `Kind::Io` with the path and the operating system's words; the old file is then untouched.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    if !is_replaceable(path) {
        let opened = fs::OpenOptions::new().write(true).open(path);
        let written = opened.and_then(|mut file| file.write_all(bytes).and_then(|()| file.flush()));
        return written.map_err(|e| cannot_write(path, e));
    }
    let _guard = no_more_writes();
    let path = &followed(path);
    let draft = draft_name(path);
    let written = write_and_rename(&draft, path, bytes);
    if written.is_err() {
        // The draft may never have come to be; the first failure is the one to report.
        let _ = fs::remove_file(&draft);
    }
    written.map_err(|e| cannot_write(path, e))
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

    #[test]
    fn a_pipe_is_opened_once_and_keeps_no_process_from_ending() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        // Without a reader, opening it would wait.
        prove_writable(&pipe).unwrap();
        std::thread::scope(|s| {
            let writer = s.spawn(|| write_whole(&pipe, b"x"));
            // Whether or not the other thread waits by now.
            drop(no_more_writes());
            assert_eq!(fs::read(&pipe).unwrap(), b"x");
            writer.join().unwrap().unwrap();
        });
    }

    #[test]
    fn devices_are_written_in_place_and_links_are_followed() {
        use std::os::unix::fs::symlink;
        let error = write_whole(Path::new("/dev/full"), b"x").unwrap_err();
        assert_eq!(error.kind(), Kind::Io, "{error}");
        assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
        prove_writable(Path::new("/dev/null")).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("real.json"), dir.path().join("link.json"));
        fs::write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
        write_whole(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn what_cannot_be_written_is_known_beforehand() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().to_owned(), dir.path().join("absent/r.json")] {
            assert_eq!(prove_writable(&path).unwrap_err().kind(), Kind::Io, "{path:?}");
        }
        fs::write(dir.path().join("r.json"), "old").unwrap();
        prove_writable(&dir.path().join("r.json")).unwrap();
        assert_eq!(fs::read(dir.path().join("r.json")).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
