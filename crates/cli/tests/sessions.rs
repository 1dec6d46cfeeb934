//! The command sessions in the documents and under `tests/cmd` are run, so that they cannot drift.
//!
//! They run in a scratch folder that holds the repository's examples.

use std::path::Path;

#[test]
fn sessions_print_what_the_documents_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root.join("examples"), scratch.path().join("examples")).unwrap();
    // The sessions' folder is the process's: this file holds one test.
    std::env::set_current_dir(scratch.path()).unwrap();
    trycmd::TestCases::new()
        .case(root.join("crates/cli/tests/cmd/*.md"))
        .case(root.join("docs/book/src/*.md"))
        .case(root.join("docs/book/src/howto/*.md"))
        .case(root.join("docs/book/src/reference/*.md"));
}
