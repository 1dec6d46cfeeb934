//! The examples in C, built as their headers say: the C compiler's view of the C interface.
//!
//! Setting littoral up needs a C compiler, so a missing one fails the test and does not skip it.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The static library, which cargo builds beside this very test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.with_file_name("liblittoral_capi.a")
}

fn compile(name: &str, folder: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join(name);
    let compiled = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-std=c99"])
        .arg(root.join("examples").join(name).with_extension("c"))
        .arg("-I")
        .arg(root.join("include"))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .expect("the C compiler `cc`, which building littoral needs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    program
}

fn run(program: &Path, argument: Option<&str>) -> (Option<i32>, String) {
    let out = Command::new(program).args(argument).output().unwrap();
    (out.status.code(), String::from_utf8(out.stdout).unwrap())
}

#[test]
fn a_mailbox_that_forgets_a_step_is_caught_and_passes_when_mended() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("pool_mailbox", folder.path());
    let (code, said) = run(&program, Some("careful"));
    assert!(code == Some(0) && said.contains("5000 messages arrived whole"), "{said}");
    assert!(!said.contains(" 0 lines were evicted"), "the pool was hostile: {said}");
    for habit in ["no-write-back", "no-fence", "no-invalidate"] {
        let (code, said) = run(&program, Some(habit));
        assert!(code == Some(1) && said.contains("did not arrive whole"), "{habit}: {said}");
    }
}

#[test]
fn a_log_that_forgets_a_fence_is_caught_over_every_image() {
    let folder = tempfile::tempdir().unwrap();
    let (code, said) = run(&compile("log_check", folder.path()), None);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("careful log: sound over") && said.contains("broken, as it should be"));
}
