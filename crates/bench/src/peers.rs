//! Other people's programs that ours are measured beside: found, never built or bundled.
//!
//! A peer is looked for in the folder given with `--peers` (and the folders right under it, so that
//! one folder may hold a checkout of each), then in `PATH`. What is absent makes its claims
//! `skipped`.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Where peers are looked for.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    folder: Option<PathBuf>,
}

impl Peers {
    /// Looks in `folder` first, when there is one, then in `PATH`.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Peers { folder }
    }

    /// The folder given by the user.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The program called `name`, of the peer called `peer` (a folder's name, such as `gapbs`).
    pub fn find(&self, peer: &str, name: &str) -> Option<PathBuf> {
        let given = self.folder.iter().flat_map(|f| [f.join(peer).join(name), f.join(name)]);
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path).map(|f| f.join(name)).collect::<Vec<_>>();
        given.chain(found).find(|p| is_program(p))
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_given_folder_comes_before_path_and_plain_files_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let peers = Peers::new(Some(dir.path().to_owned()));
        assert_eq!(peers.find("gapbs", "no-such-program-anywhere"), None);
        fs::create_dir(dir.path().join("suite")).unwrap();
        let program = dir.path().join("suite/sh");
        fs::write(&program, "").unwrap();
        let elsewhere = peers.find("suite", "sh");
        assert!(elsewhere.is_some_and(|p| p != program), "not executable, so not a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(peers.find("suite", "sh"), Some(program));
    }
}
