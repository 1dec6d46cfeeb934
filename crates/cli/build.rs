//! Records which revision of the source this binary was built from, as `git describe` names it,
//! and that revision's date.
//!
//! - A packaged crate carries the revision in `.cargo_vcs_info.json`, without a date.
//! - A source tree without version control builds too; the revision is then empty. A repository
//!   that the tree merely lies in, and that does not track it, does not count.

use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8(out.stdout).ok()?.trim().to_owned()).filter(|s| !s.is_empty())
}

/// The revision that `cargo package` recorded.
fn packaged() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let sha = text.split("\"sha1\"").nth(1)?.split('"').nth(1)?;
    sha.get(..7).map(str::to_owned)
}

fn main() {
    let is_tracked = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let described = || git(&["describe", "--always", "--dirty", "--tags"]).filter(|_| is_tracked);
    let revision = described().or_else(packaged);
    let date = git(&["show", "-s", "--format=%cs", "HEAD"]).filter(|_| is_tracked);
    println!("cargo::rustc-env=LITTORAL_REVISION={}", revision.as_deref().unwrap_or(""));
    println!("cargo::rustc-env=LITTORAL_REVISION_DATE={}", date.as_deref().unwrap_or(""));
    println!("cargo::rerun-if-changed=../");
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
}
