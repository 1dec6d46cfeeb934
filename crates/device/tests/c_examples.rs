//! The examples in C, built as their headers say: the C compiler's view of the two C interfaces.
//!
//! Setting littoral up needs a C compiler, so a missing one fails the test and does not skip it.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The library for C: what cargo built of this crate for this very test, as an archive that C
/// links.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let shim = folder.join("shim.rs");
        std::fs::write(&shim, "pub use littoral_device::fabric::raw::c_abi;").unwrap();
        let archive = folder.join("liblittoral_device.a");
        let own = std::env::current_exe().unwrap();
        let built = own.parent().unwrap();
        let made = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .args(["--edition=2024", "--crate-type=staticlib", "-L"])
            .arg(format!("dependency={}", built.display()))
            .arg("--extern")
            .arg(format!("littoral_device={}", newest_rlib(built).display()))
            .arg("-o")
            .args([&archive, &shim])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        archive
    })
}

fn newest_rlib(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let ours = entries.filter(|e| {
        let name = e.file_name().into_string().unwrap_or_default();
        name.starts_with("liblittoral_device-") && name.ends_with(".rlib")
    });
    let newest = ours.max_by_key(|e| e.metadata().unwrap().modified().unwrap());
    newest.expect("the library this test is linked with").path()
}

fn compile(name: &str, folder: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join(name);
    let compiled = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-std=c99"])
        .arg(root.join("examples/c").join(name).with_extension("c"))
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
