//! The claims of the Python package: `scripts/python-claims.py`, run by the Python of a virtual
//! environment in which the wheel is installed.
//!
//! Python is looked for under `--peers` (`python/python3`, `bin/python3`), then in `PATH`. Without
//! it, or without a package that the script imports first, the claims are skipped.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use littoral_bench::claims::Figure;
use littoral_bench::repro::{Answer, Options, Step, Unanswered, missing};

/// The script, as it is in the repository.
const SCRIPT: &str = include_str!("../../../../scripts/python-claims.py");

/// Each part of the script, what it measures, and its claims behind `python.`.
const PARTS: [(&str, &str, &[&str]); 4] = [
    ("ingest", "arrays to a graph in Python", &["ingest.vs_scipy"]),
    ("kernels", "kernels in Python", &["bfs.vs_scipy", "cc.vs_scipy", "pr.vs_igraph"]),
    (
        "networkx",
        "networkx functions on the backend",
        &[
            "networkx.pr.speedup",
            "networkx.pr.speedup.converting",
            "networkx.tc.speedup",
            "networkx.tc.speedup.converting",
            "networkx.bc.speedup",
            "networkx.bc.speedup.converting",
        ],
    ),
    ("import", "an import in Python", &["import.vs_duckdb"]),
];

/// Every step.
pub(super) fn steps() -> Vec<Step> {
    let step = |(part, name, claims): (&'static str, &'static str, &'static [&'static str])| Step {
        name,
        claims: claims.iter().map(|claim| format!("python.{claim}")).collect(),
        measure: Box::new(move |options| match run(options, part) {
            Ok(printed) => claims.iter().map(|claim| figure(&printed, claim)).collect(),
            Err(why) => claims.iter().map(|_| Err(why.clone())).collect(),
        }),
    };
    PARTS.into_iter().map(step).collect()
}

/// The Python that has the package.
fn python(options: &Options) -> Result<PathBuf, Unanswered> {
    let found = options.peers.find_in(&["python", "bin"], "python3");
    found.ok_or_else(|| missing("`python3` is neither in --peers nor in PATH"))
}

/// What the script prints of one of its parts.
fn run(options: &Options, part: &str) -> Result<String, Unanswered> {
    let python = python(options)?;
    let failed = |e: std::io::Error| format!("{}: {e}", python.display());
    let mut child = Command::new(&python)
        .args(["-", "--plain", "--only", part, "--examples", "examples"])
        // What it writes is large, and goes with the folder at Ctrl-C.
        .env("TMPDIR", &options.scratch)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    let written = stdin.write_all(SCRIPT.as_bytes());
    drop(stdin);
    let out = child.wait_with_output().map_err(failed)?;
    let (printed, told) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    // The script ends with 1 when a claim is short; the figures are printed all the same.
    if written.is_err() || !printed.contains("python.") {
        let last = told.lines().last().unwrap_or("it printed no claim");
        return Err(reason(&format!("{}: {last}", python.display()), last));
    }
    Ok(printed.into_owned())
}

/// Why a script whose last words are `last` printed no claim: a package that is not installed is
/// missing, everything else is a failure.
fn reason(what: &str, last: &str) -> Unanswered {
    if last.starts_with("ModuleNotFoundError") { missing(what) } else { what.into() }
}

/// The figure of `python.CLAIM` among lines of id, figure and remark, tabs between.
fn figure(printed: &str, claim: &str) -> Answer {
    let id = format!("python.{claim}");
    let mut lines = printed.lines().map(|line| line.splitn(3, '\t'));
    let found = lines.find_map(|mut fields| {
        (fields.next() == Some(&id)).then(|| (fields.next(), fields.next()))
    });
    match found {
        Some((Some("-"), Some(why))) => Err(missing(why)),
        Some((Some(figure), Some(note))) => match figure.parse() {
            Ok(value) => Ok(Figure::new(value, note)),
            Err(_) => Err(format!("{id}: '{figure}' is no figure").into()),
        },
        Some(_) | None => Err(format!("the script prints no figure of {id}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_bench::peers::Peers;
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn figures_are_read_and_missing_peers_are_reasons() {
        let printed =
            "littoral 0.1.0\npython.a\t1.250\tten edges\npython.b\t-\tigraph is missing\n";
        let found = figure(printed, "a").unwrap();
        assert_eq!((found.value, &found.notes[..]), (1.25, &["ten edges".to_owned()][..]));
        assert!(matches!(figure(printed, "b").unwrap_err(), Unanswered::Missing(_)));
        let why = figure(printed, "c").unwrap_err();
        assert!(why.to_string().contains("no figure of python.c"), "{why}");
        assert!(figure("python.a\tx\t", "a").is_err());
        let last = "ModuleNotFoundError: No module named 'littoral'";
        assert!(matches!(reason("python3", last), Unanswered::Missing(_)));
        assert!(matches!(reason("python3", "MemoryError"), Unanswered::Failed(_)));
    }

    #[test]
    fn the_script_keeps_its_files_in_the_scratch_folder() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let print = "#!/bin/sh\ncat >/dev/null\nprintf 'python.x\\t1\\t%s\\n' \"$TMPDIR\"\n";
        std::fs::write(bin.join("python3"), print).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(bin.join("python3"), mode).unwrap();
        let options = Options {
            quick: true,
            paper: false,
            peers: Peers::new(Some(dir.path().to_owned())),
            scratch: dir.path().join("scratch"),
            program: PathBuf::new(),
            only: None,
            kept: BTreeMap::new(),
        };
        let printed = run(&options, "ingest").unwrap();
        let place = figure(&printed, "x").unwrap().notes.remove(0);
        assert_eq!(place, options.scratch.display().to_string());
    }

    #[test]
    fn the_script_prints_the_claims_of_its_parts() {
        for (part, _, claims) in PARTS {
            assert!(SCRIPT.contains(&format!("\"{part}\":")), "{part}");
            for claim in claims {
                let ends = claim.rsplit('.').next().unwrap_or(claim);
                assert!(SCRIPT.contains(ends), "{claim}");
            }
        }
    }
}
