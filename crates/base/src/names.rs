//! Names of files: the folder that has one, and when a new name is durable.

use std::fs::File;
use std::io::{ErrorKind, Result};
use std::path::Path;

/// The folder that a file or folder is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the name of a new file or folder durable: its folder is flushed. A file system that names
/// files durably by itself refuses to be told to (shared folders of virtual machines), which is no
/// error.
///
/// # Errors
/// What the system says, of the folder.
pub fn name_durably(path: &Path) -> Result<()> {
    match File::open(folder_of(path)).and_then(|folder| folder.sync_all()) {
        Err(e) if e.kind() == ErrorKind::InvalidInput => Ok(()),
        flushed => flushed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_folder_is_in_this_one() {
        for (path, folder) in [("a", "."), ("a/b", "a"), ("/a", "/"), ("./a", "."), ("/", ".")] {
            assert_eq!(folder_of(Path::new(path)), Path::new(folder), "{path}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_flushed_is_no_error_and_one_that_is_absent_is() {
        name_durably(Path::new("/proc/self/status")).unwrap();
        let absent = name_durably(Path::new("/proc/self/no/such")).unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::NotFound);
    }
}
