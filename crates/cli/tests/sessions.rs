//! The command sessions in the documents and under `tests/cmd` are run, so that they cannot drift.
//!
//! They run in a scratch folder that holds the repository's examples and one LoongArch program.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use littoral::la64::{elf, isa};

/// A LoongArch program of three instructions that ends with status 42.
fn answer(path: &Path) {
    let word = |name: &str, operands: &[i64]| {
        isa::encode(isa::find(name).expect(name), operands).expect("operands fit")
    };
    let code = [word("ori", &[4, 0, 42]), word("ori", &[11, 0, 94]), word("syscall", &[0])];
    std::fs::write(path, elf::executable(0x1_2000_0000, &code)).expect("write the program");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
}

#[test]
fn sessions_print_what_the_documents_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root.join("examples"), scratch.path().join("examples")).unwrap();
    answer(&scratch.path().join("answer"));
    // The sessions' folder is the process's: this file holds one test.
    std::env::set_current_dir(scratch.path()).unwrap();
    trycmd::TestCases::new()
        .case(root.join("crates/cli/tests/cmd/*.md"))
        .case(root.join("docs/book/src/*.md"))
        .case(root.join("docs/book/src/howto/*.md"))
        .case(root.join("docs/book/src/reference/*.md"));
}
