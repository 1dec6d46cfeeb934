//! Records which revision of the source this binary was built from, as `git describe` names it.
//!
//! A source tree without version control builds too; the revision then reads `unknown`.

use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8(out.stdout).ok()?.trim().to_owned()).filter(|s| !s.is_empty())
}

fn main() {
    let revision = git(&["describe", "--always", "--dirty", "--tags"]);
    println!("cargo::rustc-env=LITTORAL_REVISION={}", revision.as_deref().unwrap_or("unknown"));
    println!("cargo::rerun-if-changed=../");
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
}
