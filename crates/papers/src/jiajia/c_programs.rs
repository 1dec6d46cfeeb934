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

use super::beside;
use super::by_guards::PROGRAMS;
use super::launched::{Operation, Work};
use super::{Figures, words};
use littoral_bench::claims::Figure;
use littoral_bench::host::revision;
use littoral_bench::repro::{Options, Unanswered, missing};
use littoral_dsm::launch::Fabric;

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

/// What a program of the port's was counted at.
struct Row {
    name: &'static str,
    messages: u64,
    faults: u64,
}

const ROWS: [Row; 6] = [
    Row { name: "sor", messages: 1996, faults: 399 },
    Row { name: "mm", messages: 1027, faults: 512 },
    Row { name: "lu", messages: 3108, faults: 1425 },
    Row { name: "is", messages: 149, faults: 14 },
    Row { name: "tsp", messages: 4885, faults: 2268 },
    Row { name: "water", messages: 563, faults: 205 },
];

/// The arguments that a program is measured with.
fn arguments_of(name: &str) -> Vec<String> {
    let row = PROGRAMS.iter().find(|row| row.0 == name);
    row.map_or(Vec::new(), |row| row.2.iter().map(usize::to_string).collect())
}

/// Where the library is installed.
fn prefix() -> Result<PathBuf, Unanswered> {
    let named = std::env::var_os("LITTORAL_JIA").map(PathBuf::from);
    let program = std::env::current_exe().ok();
    let beside = program.and_then(|p| Some(p.parent()?.parent()?.join("jia")));
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local"));
    let system = ["/usr/local", "/usr"].map(PathBuf::from);
    let mut all = named.into_iter().chain(beside).chain(home).chain(system);
    let has = |p: &PathBuf| p.join("include/jia.h").exists() && p.join("lib/libjia.a").exists();
    let what = "libjia; scripts/install-jia.sh PREFIX installs it, LITTORAL_JIA=PREFIX names it";
    let found = all.find(has).ok_or_else(|| missing(what))?;
    check_revision(&found, revision())?;
    Ok(found)
}

/// Refuses a library that was built from another revision than this program.
fn check_revision(prefix: &Path, own: &str) -> Result<(), Unanswered> {
    let found = std::fs::read_to_string(prefix.join("share/jia/revision")).unwrap_or_default();
    let found = if found.trim().is_empty() { "an unknown one" } else { found.trim() };
    if found == own {
        return Ok(());
    }
    Err(missing(format!(
        "libjia in {} is of revision {found}, this program of {own}; run \
         scripts/install-jia.sh {0}",
        prefix.display()
    )))
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
fn run(program: &Path, arguments: &[String], scratch: &Path) -> Result<String, String> {
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

/// `dsm.jiajia.*.vs_job`: the part between `jia_startstat` and `jia_stopstat` in C over the same by
/// guards, two ranks over TCP.
///
/// # Errors
/// As [`surface`]; when a job fails.
pub fn beside_guards(options: &Options) -> Figures {
    let (prefix, start) = (prefix()?, beside::start(options));
    let runs = beside::runs(options);
    let mut figures = Vec::new();
    for (name, program, ..) in PROGRAMS {
        let c = build(&prefix, name, &options.scratch)?;
        let in_c = || {
            let text = run(&c, &arguments_of(name), &options.scratch)?;
            let micros = each(&text, "micros").into_iter().max();
            micros.map(|micros| micros as f64 * 1e3).ok_or(format!("{name}: no micros"))
        };
        let work = Work { operation: Operation::Guards(program), batches: 0, batch: 0 };
        let by_guards = || {
            let seen = start.run(Fabric::Tcp, 2, work)?;
            Ok(seen.iter().map(|seen| seen.median_ns).fold(0.0, f64::max))
        };
        let (c, guards) = beside::in_turn(runs, in_c, by_guards)?;
        let note = format!(
            "medians of {runs} runs of each in turn: C {}, guards {}",
            c.text(),
            guards.text()
        );
        let figure = Figure::new(c.median() / guards.median(), note);
        figures.push((format!("dsm.jiajia.{name}.vs_job"), figure));
    }
    Ok(figures)
}

/// What follows a word in the line of each rank that `jia_stopstat` or `jia_exit` prints.
fn each(text: &str, what: &str) -> Vec<u64> {
    let lines = text.lines().filter(|l| l.starts_with("jia: rank ") && l.contains(" misses "));
    let one = |line: &str| {
        let mut words = line.split(' ').skip_while(|word| *word != what);
        words.nth(1)?.parse::<u64>().ok()
    };
    lines.filter_map(one).collect()
}

/// The sum over the ranks of what follows a word in those lines.
fn counted(text: &str, what: &str) -> Option<u64> {
    let all = each(text, what);
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
        let arguments = arguments_of(row.name);
        let text = run(&program, &arguments, scratch)?;
        let of = |what| counted(&text, what).ok_or_else(|| format!("{}: no {what}", row.name));
        let pairs = [
            ("messages", of("messages")?, row.messages),
            ("bytes", of("bytes")?, row.messages * DATAGRAM_BYTES),
            ("faults", of("remote")?, row.faults),
        ];
        let size = arguments.join(" ");
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
        assert!(unknown.to_string().contains("an unknown one, this program of r2"), "{unknown}");
        assert!(matches!(unknown, Unanswered::Missing(_)), "{unknown:?}");
        std::fs::create_dir_all(prefix.path().join("share/jia")).unwrap();
        std::fs::write(prefix.path().join("share/jia/revision"), "r1\n").unwrap();
        let other = check_revision(prefix.path(), "r2").unwrap_err();
        assert!(other.to_string().contains("of revision r1"), "{other}");
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
