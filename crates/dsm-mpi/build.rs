//! Builds the shim by the compiler of the installed MPI: the one that `MPICC` names, else `mpicc`,
//! else `cc` with what pkg-config says of Open MPI or MPICH.

use std::env;
use std::path::Path;
use std::process::{Command, exit};

/// Names of MPI's C interface in pkg-config.
const MODULES: [&str; 3] = ["ompi-c", "ompi", "mpich"];

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let out = Command::new(program).args(arguments).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// A compiler, its options for MPI's header, and the options that link MPI.
fn found() -> Option<(String, String, String)> {
    let compiler = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    // Open MPI's and MPICH's compilers both print the command that they stand for.
    if let Some(command) = output(&compiler, &["-show"]) {
        return Some((compiler, String::new(), command));
    }
    MODULES.iter().find_map(|module| {
        let options = output("pkg-config", &["--cflags", module])?;
        Some(("cc".to_owned(), options, output("pkg-config", &["--libs", module])?))
    })
}

fn failed(what: &str) -> ! {
    println!("cargo::error={what}");
    exit(1)
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        ended => failed(&format!("{command:?}: {ended:?}")),
    }
}

fn main() {
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-env-changed=MPICC");
    let Some((compiler, options, link)) = found() else {
        failed(
            "no MPI: neither MPICC, mpicc nor pkg-config names one; install libopenmpi-dev or \
             libmpich-dev",
        )
    };
    let Some(folder) = env::var_os("OUT_DIR") else { failed("cargo gives no OUT_DIR") };
    let (object, library) =
        (Path::new(&folder).join("shim.o"), Path::new(&folder).join("liblittoral_mpi_shim.a"));
    let mut compile = Command::new(compiler);
    compile.args(["-std=c99", "-O2", "-fPIC", "-Wall", "-Wextra", "-c", "src/shim.c", "-o"]);
    run(compile.arg(&object).args(options.split_whitespace()));
    run(Command::new("ar").arg("crs").arg(&library).arg(&object));
    println!("cargo::rustc-link-search=native={}", Path::new(&folder).display());
    println!("cargo::rustc-link-lib=static=littoral_mpi_shim");
    for word in link.split_whitespace() {
        if let Some(path) = word.strip_prefix("-L") {
            println!("cargo::rustc-link-search=native={path}");
        } else if let Some(name) = word.strip_prefix("-l") {
            println!("cargo::rustc-link-lib=dylib={name}");
        }
    }
}
