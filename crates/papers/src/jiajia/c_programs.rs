//! Programs in C by JIAJIA's interface: every name of it, and counts beside the port's.
//!
//! The library is one that `scripts/install-jia.sh PREFIX` has installed: the first of
//! `$LITTORAL_JIA`, the folder `jia` beside this program's, `$HOME/.local`, `/usr/local` and `/usr`
//! that has it. It must be of this program's revision. Programs are compiled by `cc` in the scratch
//! folder and start their own two ranks.
//!
//! The port's counts are of its own programs with two processes; ours are programs of the same kind
//! and, where that can be chosen, of the same size. Both count from `jia_startstat` on. A byte of
//! the port's is one of the wire: each message is a datagram of 40,960 bytes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Figures, words};
use littoral_bench::claims::Figure;
use littoral_bench::host::revision;
use littoral_bench::repro::Options;

/// Programs that together use every name.
const GROUPS: [&str; 14] = [
    "alloc", "sync", "message", "system", "anl", "numa", "signals", "sor", "mm", "lu", "is", "tsp",
    "water", "ocean",
];
/// Those of them that send no messages, which virtual time has no model for.
const IN_VIRTUAL_TIME: [&str; 8] = ["sor", "mm", "lu", "is", "tsp", "water", "ocean", "numa"];
/// Numbers of ranks that programs must agree on, and the fabrics; the last is virtual time.
const RANKS: [u16; 4] = [1, 2, 4, 8];
const FABRICS: [&str; 5] = ["shm", "shm-pages", "pool-pages", "tcp", "sim"];
/// Bytes of a datagram of the port.
const DATAGRAM_BYTES: u64 = 40_960;

/// A program with its arguments, and what the port's was counted at.
struct Row {
    name: &'static str,
    arguments: &'static [&'static str],
    messages: u64,
    faults: u64,
}

const ROWS: [Row; 6] = [
    row("sor", &["2046", "1024", "100"], 1996, 399),
    row("mm", &["1024"], 1027, 512),
    row("lu", &["1024", "32"], 3108, 1425),
    row("is", &["1048576", "1024", "10"], 149, 14),
    row("tsp", &["13"], 4885, 2268),
    row("water", &["64", "3"], 563, 205),
];

const fn row(
    name: &'static str,
    arguments: &'static [&'static str],
    messages: u64,
    faults: u64,
) -> Row {
    Row { name, arguments, messages, faults }
}

/// Where the library is installed.
fn prefix() -> Result<PathBuf, String> {
    let named = std::env::var_os("LITTORAL_JIA").map(PathBuf::from);
    let program = std::env::current_exe().ok();
    let beside = program.and_then(|p| Some(p.parent()?.parent()?.join("jia")));
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local"));
    let system = ["/usr/local", "/usr"].map(PathBuf::from);
    let mut all = named.into_iter().chain(beside).chain(home).chain(system);
    let has = |p: &PathBuf| p.join("include/jia.h").exists() && p.join("lib/libjia.a").exists();
    let found = all.find(has).ok_or(
        "no libjia; scripts/install-jia.sh PREFIX installs it, LITTORAL_JIA=PREFIX names it",
    )?;
    check_revision(&found, revision())?;
    Ok(found)
}

/// Refuses a library that was built from another revision than this program.
fn check_revision(prefix: &Path, own: &str) -> Result<(), String> {
    let found = std::fs::read_to_string(prefix.join("share/jia/revision")).unwrap_or_default();
    let found = if found.trim().is_empty() { "an unknown one" } else { found.trim() };
    if found == own {
        return Ok(());
    }
    Err(format!(
        "libjia in {} is of revision {found}, this program of {own}; run scripts/install-jia.sh \
         {0}",
        prefix.display()
    ))
}

fn build(prefix: &Path, name: &str, scratch: &Path) -> Result<PathBuf, String> {
    let program = scratch.join(format!("jia-{name}"));
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-std=gnu89", "-I"]).arg(prefix.join("include"));
    cc.arg(prefix.join("share/jia").join(name).with_extension("c"));
    cc.arg(prefix.join("lib/libjia.a")).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    let done = cc.output().map_err(words)?;
    if done.status.success() {
        return Ok(program);
    }
    Err(format!("cc {name}.c: {}", String::from_utf8_lossy(&done.stderr)))
}

/// Runs a program as two ranks over TCP; what it and the ranks print.
fn run(program: &Path, arguments: &[&str], scratch: &Path) -> Result<String, String> {
    let hosts = scratch.join("jiahosts");
    std::fs::write(&hosts, "localhost\nlocalhost\n").map_err(words)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(scratch).env("JIA_HOSTS", &hosts);
    let out = command.env("JIA_FABRIC", "tcp").env("JIA_STATS", "1").output().map_err(words)?;
    let text = [&out.stdout, &out.stderr].map(|b| String::from_utf8_lossy(b).into_owned()).join("");
    let agrees = out.status.success() && text.contains("agrees with one process");
    if agrees { Ok(text) } else { Err(format!("{}: {text}", program.display())) }
}

/// `dsm.abi.surface`.
///
/// # Errors
/// When the library is not installed, or a program cannot be built or fails.
pub fn surface(scratch: &Path) -> Figures {
    let prefix = prefix()?;
    let header = std::fs::read_to_string(prefix.join("include/jia.h")).map_err(words)?;
    let mut used: BTreeSet<String> = BTreeSet::new();
    for name in GROUPS {
        let source = prefix.join("share/jia").join(name).with_extension("c");
        let text = std::fs::read_to_string(source).map_err(words)?;
        used.extend(text.split(|c| !is_word(c)).map(str::to_owned));
        run(&build(&prefix, name, scratch)?, &[], scratch)?;
    }
    // Calls that end the job stand in the program of broken rules and in the check itself.
    let check = std::fs::read_to_string(prefix.join("share/jia/check.h")).map_err(words)?;
    let bad = std::fs::read_to_string(prefix.join("share/jia/bad.c")).map_err(words)?;
    used.extend([check, bad].concat().split(|c| !is_word(c)).map(str::to_owned));
    let names = names(&header);
    let missing: Vec<&str> = names.iter().copied().filter(|n| !used.contains(*n)).collect();
    let note = format!(
        "{} names, {} programs that agree with one process; without one: {missing:?}",
        names.len(),
        GROUPS.len()
    );
    Ok(vec![("dsm.abi.surface".into(), Figure::new(missing.len() as f64, note))])
}

/// `dsm.equal`: every program, with every number of ranks, on every fabric.
///
/// # Errors
/// When the library is not installed, or a program cannot be built.
pub fn equal(options: &Options) -> Figures {
    let (prefix, scratch) = (prefix()?, &options.scratch);
    let (mut runs, mut others) = (0, Vec::new());
    for name in GROUPS {
        let program = build(&prefix, name, scratch)?;
        let is_in = |fabric: &&&str| **fabric != "sim" || IN_VIRTUAL_TIME.contains(&name);
        for fabric in FABRICS.iter().filter(is_in) {
            for ranks in RANKS {
                runs += 1;
                let mut command = Command::new(&options.program);
                command.args(["dsm", "run", "-n", &ranks.to_string(), "--fabric", fabric]);
                let out = command.arg(&program).current_dir(scratch).output().map_err(words)?;
                let said = String::from_utf8_lossy(&out.stdout);
                if !out.status.success() || said.matches("agrees with one process").count() != 1 {
                    others.push(format!("{name} of {ranks} on {fabric}"));
                }
            }
        }
    }
    let note = format!("{runs} runs of {} programs; those that differ: {others:?}", GROUPS.len());
    Ok(vec![("dsm.equal".into(), Figure::new(others.len() as f64, note))])
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Functions, variables and macros of the header.
fn names(header: &str) -> Vec<&str> {
    let name = |line| -> Option<&str> {
        let line: &str = line;
        if let Some(rest) = line.strip_prefix("#define ").or(line.strip_prefix("extern int ")) {
            return rest.split(|c| !is_word(c)).next();
        }
        let declares = line.contains(");") && line.starts_with(|c: char| c.is_ascii_lowercase());
        let before = line.split('(').next().filter(|_| declares)?;
        before.split(|c| !is_word(c)).rfind(|word| !word.is_empty())
    };
    header.lines().filter_map(name).filter(|name| *name != "LITTORAL_JIA_H").collect()
}

/// The sum over the ranks of what follows a word in the lines that `jia_exit` prints.
fn counted(text: &str, what: &str) -> Option<u64> {
    let lines = text.lines().filter(|l| l.starts_with("jia: rank ") && l.contains(" misses "));
    let one = |line: &str| {
        let mut words = line.split(' ').skip_while(|word| *word != what);
        words.nth(1)?.parse::<u64>().ok()
    };
    let all: Vec<u64> = lines.map(one).collect::<Option<_>>()?;
    (all.len() == 2).then(|| all.iter().sum())
}

/// `dsm.jiajia.*`.
///
/// # Errors
/// As [`surface`].
pub fn counts(scratch: &Path) -> Figures {
    let prefix = prefix()?;
    let mut figures = Vec::new();
    for row in ROWS {
        let program = build(&prefix, row.name, scratch)?;
        let text = run(&program, row.arguments, scratch)?;
        let of = |what| counted(&text, what).ok_or_else(|| format!("{}: no {what}", row.name));
        let pairs = [
            ("messages", of("messages")?, row.messages),
            ("bytes", of("bytes")?, row.messages * DATAGRAM_BYTES),
            ("faults", of("remote")?, row.faults),
        ];
        let size = row.arguments.join(" ");
        for (what, ours, theirs) in pairs {
            let note = format!("{ours} of {} {size}, the port's own program {theirs}", row.name);
            let figure = Figure::new(ours as f64 / theirs as f64, note);
            figures.push((format!("dsm.jiajia.{}.{what}", row.name), figure));
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_another_revision_is_refused() {
        let prefix = tempfile::tempdir().unwrap();
        let unknown = check_revision(prefix.path(), "r2").unwrap_err();
        assert!(unknown.contains("an unknown one, this program of r2"), "{unknown}");
        std::fs::create_dir_all(prefix.path().join("share/jia")).unwrap();
        std::fs::write(prefix.path().join("share/jia/revision"), "r1\n").unwrap();
        assert!(check_revision(prefix.path(), "r2").unwrap_err().contains("of revision r1"));
        check_revision(prefix.path(), "r1").unwrap();
    }

    #[test]
    fn names_and_counts_are_read_from_text() {
        let header = "#define LITTORAL_JIA_H\nextern int jiapid; /* x */\nvoid jia_init(int a);\n\
                      unsigned long jia_alloc(unsigned long size);\n#define LOCK(x) jia_lock(x);\n";
        assert_eq!(names(header), ["jiapid", "jia_init", "jia_alloc", "LOCK"]);
        let text = "x\njia: rank 0 messages 5 bytes 6 faults 7 remote 1 misses 2 diffs 3\n\
                    jia: rank 1 messages 10 bytes 60 faults 70 remote 10 misses 2 diffs 3\n";
        assert_eq!(counted(text, "messages"), Some(15));
        assert_eq!(counted(text, "remote"), Some(11));
        assert_eq!(counted("jia: rank 0 misses 2", "remote"), None);
    }
}
