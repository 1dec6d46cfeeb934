//! Other people's programs that ours are measured beside: found, never built or bundled.
//!
//! A peer is looked for in the folder given with `--peers` (and the folders right under it, so that
//! one folder may hold a checkout of each), then in `PATH`. What is absent makes its claims
//! `skipped`.
//!
//! A name is not enough where the system has other programs of that name (`pr` formats text, `cc`
//! compiles): such a peer is recognised by what it prints, and what does not is passed over.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
        self.candidates(peer, name).next()
    }

    /// As [`Peers::find`], of a peer whose folder may have one of several names; each of them comes
    /// before `PATH`.
    pub fn find_in(&self, peers: &[&str], name: &str) -> Option<PathBuf> {
        let folder = self.folder.iter();
        let mut given = folder.flat_map(|f| peers.iter().map(move |p| f.join(p).join(name)));
        given.find(|p| is_program(p)).or_else(|| self.find("", name))
    }

    /// As [`Peers::find`], of those programs whose help says `words`.
    ///
    /// # Errors
    /// Why there is none: no program of that name, or only others.
    pub fn recognise(
        &self,
        peer: &str,
        name: &str,
        words: &str,
    ) -> std::result::Result<PathBuf, String> {
        let mut others = Vec::new();
        for program in self.candidates(peer, name) {
            if help_of(&program).contains(words) {
                return Ok(program);
            }
            others.push(program.display().to_string());
        }
        others.dedup();
        Err(match others.as_slice() {
            [] => format!("{peer}'s `{name}` is neither in --peers nor in PATH"),
            others => format!(
                "{} is not {peer}'s `{name}` (its help does not say \"{words}\"); give a folder with \
                 it by --peers",
                others.join(", ")
            ),
        })
    }

    /// The programs called `name`, the folder's before those of `PATH`.
    fn candidates(&self, peer: &str, name: &str) -> impl Iterator<Item = PathBuf> {
        let given = self.folder.iter().flat_map(|f| [f.join(peer).join(name), f.join(name)]);
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path).map(|f| f.join(name)).collect::<Vec<_>>();
        given.chain(found).filter(|p| is_program(p)).collect::<Vec<_>>().into_iter()
    }
}

/// What a program prints when asked for help; nothing where it cannot be run.
fn help_of(program: &Path) -> String {
    let asked = Command::new(program).arg("-h").stdin(Stdio::null()).output();
    asked.map_or(String::new(), |output| {
        let (out, err) = (&output.stdout, &output.stderr);
        format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
    })
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

    #[test]
    fn each_name_of_a_peers_folder_comes_before_path() {
        let dir = tempfile::tempdir().unwrap();
        let peers = Peers::new(Some(dir.path().to_owned()));
        let elsewhere = peers.find_in(&["python", "bin"], "sh");
        assert!(elsewhere.is_some_and(|p| !p.starts_with(dir.path())), "that of PATH");
        fs::create_dir(dir.path().join("bin")).unwrap();
        let program = dir.path().join("bin/sh");
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(peers.find_in(&["python", "bin"], "sh"), Some(program));
    }

    #[test]
    fn a_program_of_the_same_name_is_passed_over_unless_it_says_the_words() {
        let dir = tempfile::tempdir().unwrap();
        let write = |at: &str, text: &str| {
            let path = dir.path().join(at);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("#!/bin/sh\necho {text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let peers = Peers::new(Some(dir.path().to_owned()));
        let why = peers.recognise("suite", "no-such-program-anywhere", "x").unwrap_err();
        assert!(why.contains("neither in --peers nor in PATH"), "{why}");
        write("suite/kernel", "formats text");
        let why = peers.recognise("suite", "kernel", "generates graphs").unwrap_err();
        assert!(why.contains("is not suite's `kernel`"), "{why}");
        let right = write("kernel", "generates graphs");
        assert_eq!(peers.recognise("suite", "kernel", "generates graphs"), Ok(right));
    }
}
