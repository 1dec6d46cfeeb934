//! Names of files that are being made: a draft's, beside the final one, and the final one itself,
//! which no file loses to another.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Keeps drafts of one process apart.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A new name for a draft of `path`, `NAME.PROCESS.N.new` in its folder.
pub fn draft_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(format!(".{}.{}.new", std::process::id(), NEXT.fetch_add(1, Relaxed)));
    path.with_file_name(name)
}

/// Whether a file's name is one that [`draft_of`] gives drafts of `path`, in any process.
pub fn is_draft_of(path: &Path, left: &Path) -> bool {
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let (Some(path), Some(left)) = (name(path), name(left)) else { return false };
    let between = left.strip_prefix(&path).and_then(|rest| rest.strip_suffix(".new"));
    let Some(numbers) = between.and_then(|rest| rest.strip_prefix('.')) else { return false };
    let is_number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    numbers.split_once('.').is_some_and(|(process, n)| is_number(process) && is_number(n))
}

/// Gives a file a name that no file has. Whether its old name is gone.
///
/// # Errors
/// `AlreadyExists` where a file has the name; what else the system says.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<bool> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system can refuse to replace: a second name is refused by all.
        Err(Errno::INVAL | Errno::NOSYS) => std::fs::hard_link(from, to).map(|()| false),
        renamed => renamed.map(|()| true).map_err(io::Error::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_are_told_by_their_names_and_replace_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zones");
        let drafts = [draft_of(&path), draft_of(&path)];
        assert_ne!(drafts[0], drafts[1]);
        for draft in &drafts {
            assert!(is_draft_of(&path, draft) && !is_draft_of(draft, &path), "{draft:?}");
            std::fs::write(draft, b"whole").unwrap();
        }
        for other in ["zones.new", "zones.1.new", "zones.a.1.new", "zones.1.2.old", "z.1.2.new"] {
            assert!(!is_draft_of(&path, Path::new(other)), "{other}");
        }
        rename_new(&drafts[0], &path).unwrap();
        let refused = rename_new(&drafts[1], &path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    }
}
