//! The programs in C of `programs/`, built as their header says and run as jobs of processes.
//!
//! Setting littoral up needs a C compiler, so a missing one fails the test and does not skip it.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use littoral_dsm::launch::{BASE, Fabric, Plan, run};
use littoral_dsm::virtual_time::Compute;
use littoral_fabric::timing::Timing;

/// Programs that check themselves against one process.
const SELF_CHECKING: [&str; 17] = [
    "alloc", "sync", "message", "system", "anl", "numa", "signals", "c89", "old", "end", "sor",
    "mm", "lu", "is", "tsp", "water", "ocean",
];
/// Those of them that exchange no messages, which virtual time has no model for.
const IN_VIRTUAL_TIME: [&str; 8] = ["sor", "mm", "lu", "is", "tsp", "water", "ocean", "numa"];

/// The test that is a launcher's process when the environment says so.
const LAUNCHER: &str = "process";
const RANKS: &str = "JIA_TEST_RANKS";
const FABRIC: &str = "JIA_TEST_FABRIC";
const WORDS: &str = "JIA_TEST_WORDS";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The static library, which cargo builds beside this very test.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libjia.a")
}

fn build(name: &str, folder: &Path) -> PathBuf {
    let program = folder.join(name);
    let mut cc = Command::new("cc");
    let standard = if name == "c89" { "-std=c89" } else { "-std=gnu89" };
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", standard, "-I"]).arg(root().join("include"));
    cc.arg(root().join("programs").join(name).with_extension("c")).arg(library());
    let done = cc.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program).output();
    let done = done.expect("the C compiler `cc`, which building littoral needs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    program
}

/// The launcher of a job, as a process: ranks end with the thread that started them.
#[test]
fn process() {
    let Ok(words) = std::env::var(WORDS) else { return };
    let mut words = words.split(' ').map(OsString::from);
    let fabric = match std::env::var(FABRIC).unwrap().as_str() {
        "shm" => Fabric::Shm,
        "shm-pages" => Fabric::ShmPages,
        "pool-pages" => Fabric::PoolPages,
        "sim" => {
            let timing = Timing::open("tcp").unwrap();
            Fabric::Sim { timing, compute: Compute::Declared }
        }
        _ => Fabric::Tcp,
    };
    let plan = Plan {
        ranks: std::env::var(RANKS).unwrap().parse().unwrap(),
        fabric,
        hosts: None,
        pool: None,
        program: words.next().unwrap(),
        arguments: words.collect(),
        bytes_max: 1 << 32,
        address: BASE,
        label: false,
        silence: std::time::Duration::from_secs(5),
        variables: vec![],
    };
    let job = run::run(&plan, &|| false).unwrap();
    std::process::exit(i32::from(job.code));
}

fn job(program: &Path, arguments: &str, ranks: u16, fabric: &str) -> Output {
    launcher(program, arguments, ranks, fabric).output().unwrap()
}

fn launcher(program: &Path, arguments: &str, ranks: u16, fabric: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", LAUNCHER, "--nocapture"]).env(RANKS, ranks.to_string());
    let words = format!("{} {arguments}", program.display());
    command.env(FABRIC, fabric).env(WORDS, words.trim_end());
    command.stdin(Stdio::null());
    command
}

fn text(out: &Output) -> String {
    [&out.stdout, &out.stderr].map(|b| String::from_utf8_lossy(b).into_owned()).join("\n")
}

fn agrees(name: &str, out: &Output) {
    let said = text(out);
    assert!(out.status.success(), "{name}: {:?}\n{said}", out.status);
    assert_eq!(said.matches("agrees with one process").count(), 1, "{name}: {said}");
}

fn on(fabric: &str, names: &[&str], ranks: &[u16]) {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let program = build(name, folder.path());
        for ranks in ranks {
            agrees(&format!("{name} {fabric} {ranks}"), &job(&program, "", *ranks, fabric));
        }
    }
}

#[test]
fn every_program_agrees_over_tcp() {
    on("tcp", &SELF_CHECKING, &[1, 2, 4, 8]);
}

#[test]
fn every_program_agrees_in_shared_memory() {
    on("shm", &SELF_CHECKING, &[1, 2, 4, 8]);
    on("shm-pages", &SELF_CHECKING, &[1, 2, 4, 8]);
}

#[test]
fn every_program_agrees_over_a_pool() {
    on("pool-pages", &SELF_CHECKING, &[2, 4]);
}

#[test]
fn every_program_agrees_in_virtual_time() {
    on("sim", &IN_VIRTUAL_TIME, &[1, 2, 4, 8]);
}

/// Locks of self-scheduled loops lie right behind those that programs may name.
#[test]
fn self_scheduled_loops_need_few_locks_and_say_how_many() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("anl", folder.path());
    for fabric in ["tcp", "shm"] {
        let with = |locks: &str| {
            let mut command = launcher(&program, "", 2, fabric);
            command.env("LITTORAL_DSM_LOCKS", locks).output().unwrap()
        };
        agrees(fabric, &with("65600"));
        let out = with("65536");
        let said = text(&out);
        let why = "jia_getsub: loop 0 takes lock 65536, which the job does not have; leave \
                   LITTORAL_DSM_LOCKS unset, or set it to 65600 or more";
        assert!(!out.status.success() && said.contains(why), "{fabric}: {said}");
    }
}

/// Faults on pages of the other rank: with 2.1's allocation half of each block, with the port's
/// none.
#[test]
fn the_ports_allocation_gives_one_rank_after_another_a_whole_block() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("homes", folder.path());
    std::fs::write(folder.path().join(".jiahosts"), "localhost\nlocalhost\n").unwrap();
    for (compat, wanted) in [("2.1", "2"), ("port", "0")] {
        let mut command = Command::new(&program);
        command.current_dir(folder.path()).env("JIA_COMPAT", compat);
        let out = command.env("JIA_FABRIC", "tcp").env("JIA_STATS", "1").output().unwrap();
        agrees("homes", &out);
        let said = text(&out);
        assert_eq!(remote_faults(&said), [wanted; 2], "{compat}: {said}");
    }
}

/// With 2.1's rules a list's sizes take turns, with the port's one serves a round of the ranks: a
/// program that believes in the rules that hold faults on no page of the other rank.
#[test]
fn lists_of_sizes_are_dealt_by_the_rules_of_the_version() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("sizes", folder.path());
    std::fs::write(folder.path().join(".jiahosts"), "localhost\nlocalhost\n").unwrap();
    for (compat, believed) in [("2.1", "2.1"), ("port", "port"), ("port", "2.1")] {
        let mut command = Command::new(&program);
        command.arg(believed).current_dir(folder.path()).env("JIA_COMPAT", compat);
        let out = command.env("JIA_FABRIC", "tcp").env("JIA_STATS", "1").output().unwrap();
        agrees("sizes", &out);
        let said = text(&out);
        // They differ in one page, which rank 1 believes to be its own.
        let wanted = if compat == believed { ["0", "0"] } else { ["0", "1"] };
        assert_eq!(remote_faults(&said), wanted, "{compat} {believed}: {said}");
    }
}

/// What each rank counts of faults on pages of the other, by rank: each prints its own line, and
/// which of them ends first is chance.
fn remote_faults(said: &str) -> Vec<&str> {
    let counts = said.lines().filter_map(|line| line.split("jia: rank ").nth(1));
    let remote = counts.filter_map(|of| {
        let (rank, rest) = of.split_once(' ')?;
        let count = rest.split(" remote ").nth(1)?.split(' ').next()?;
        Some((rank.parse::<u16>().ok()?, count))
    });
    remote.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// Without a launcher a program is a job of one.
#[test]
fn a_program_started_by_itself_is_a_job_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("sync", folder.path());
    agrees("sync", &Command::new(program).current_dir(folder.path()).output().unwrap());
}

#[test]
fn a_program_starts_itself_by_its_hosts_file() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("sync", folder.path());
    let start = |hosts: &str, more: &[(&str, &str)]| {
        std::fs::write(folder.path().join(".jiahosts"), hosts).unwrap();
        std::fs::write(folder.path().join(".jiaconf"), "mode = 1\n").unwrap();
        let mut command = Command::new(&program);
        command.current_dir(folder.path()).envs(more.iter().copied()).output().unwrap()
    };
    for fabric in ["shm", "tcp"] {
        let more = [("JIA_FABRIC", fabric), ("JIA_LABEL", "yes")];
        let out = start("localhost\n127.0.0.1 user\nlocalhost # three\n", &more);
        agrees(fabric, &out);
        assert!(text(&out).contains("rank 0: sync agrees"), "{}", text(&out));
    }
    for (hosts, more, why) in [
        ("a b c d\n", ("JIA_FABRIC", "shm"), "line 1"),
        ("localhost\n", ("JIA_FABRIC", "air"), "JIA_FABRIC=air"),
        ("localhost\nno-such-host.invalid\n", ("JIA_PORT", "7000"), "no address"),
        ("localhost\n192.0.2.7\n", ("JIA_PORT", "7000"), "192.0.2.7 cannot reach localhost"),
        ("localhost\n", ("JIA_COMPAT", "3"), "JIA_COMPAT=3"),
    ] {
        let out = start(hosts, &[more]);
        assert!(!out.status.success() && text(&out).contains(why), "{hosts}: {}", text(&out));
    }
}

/// Less than the launcher waits before it kills a rank, and more than any case takes.
const HANG: std::time::Duration = std::time::Duration::from_secs(50);

/// What breaks a rule ends every rank with words; nothing hangs.
fn bad_input_on(fabric: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = build("bad", folder.path());
    let cases = [
        ("early", "jia_lock outside of jia_init and jia_exit"),
        ("zero", "jia_alloc: a size of 0"),
        ("huge", "jia_alloc: "),
        ("negative", "jia_alloc: a size of 18446744073709551611"),
        ("host", "jia_alloc2p: host 2 of a job with 2"),
        ("block", "jia_alloc2: a size of 0"),
        ("list", "jia_alloc4: no list"),
        ("list-huge", "jia_alloc4: "),
        ("free", "is no allocation"),
        ("lock", "lock 65536"),
        ("lock-negative", "lock -1"),
        ("twice", "takes lock 4 twice"),
        ("stranger", "leaves lock 4, not its innermost"),
        ("inside", "reaches a barrier holding lock 4"),
        ("cv", "condition variable 16"),
        ("send-null", "jia_send: a null pointer"),
        ("send-host", "jia_send: host -1"),
        ("send-length", "jia_send: a length of -4"),
        ("recv-room", "jia_recv: 4 bytes for a buffer of 2"),
        ("reduce", "jia_reduce: operation 7"),
        ("get-stack", "is no shared memory"),
        ("get-null", "is no shared memory"),
        ("put-inside", "is inside a page"),
        ("config", "jia_config: option 9"),
        ("divide", "jia_divtask: a null pointer"),
        ("loop", "jia_getsub: loop 64"),
        ("create", "jia_create: no function"),
        ("init", "jia_init: called twice"),
        ("error", "as asked 5 2.5 1 2 3 4"),
        ("exit", "rank 1 leaves the job and rank 0 goes on"),
        ("return", "rank 1 leaves the job and rank 0 goes on"),
        ("silent", "rank 1, which leaves the job and sends nothing more"),
        ("unset", "condition variable 1, and all other ranks leave the job"),
        ("wait", "leaves the job"),
        ("holding", "the program's end without jia_exit: rank 1 reaches a barrier holding lock 4"),
        ("code", "died holding no lock"),
        ("fork", "in a child made by fork"),
        ("mismatch", "allocates the same lengths in the same order"),
        ("clone", "in a child made by fork"),
        ("handler-calls", "a signal's handler called the library"),
        ("handler-touches", "a signal's handler touched shared memory"),
        ("handler-ends", "ended by a handler"),
        ("reader", "lock 65536"),
        ("death", "died"),
    ];
    // Shared in place, pages do not fault.
    let faults = |case: &str| fabric != "shm" || case != "handler-touches";
    for (case, why) in cases.into_iter().filter(|(case, _)| faults(case)) {
        let begun = std::time::Instant::now();
        let out = job(&program, case, 2, fabric);
        let said = text(&out);
        assert!(begun.elapsed() < HANG, "{case}: a rank hung until it was killed");
        assert!(!out.status.success() && said.contains(why), "{case}: {:?} {said}", out.status);
    }
    let code = |case: &str| job(&program, case, 2, fabric).status.code();
    assert_eq!([code("code"), code("exit"), code("error")], [Some(7), Some(2), Some(1)]);
}

#[test]
fn bad_input_ends_in_words() {
    std::thread::scope(|s| {
        for fabric in ["tcp", "shm"] {
            s.spawn(move || bad_input_on(fabric));
        }
    });
}

/// Ranks wait for each other, for a lock of one that waits, and where one leaves for it: in three
/// ranks the two that stay see one rank leave and one that may go on. The programs end themselves
/// where no rank sees it.
#[test]
fn ranks_that_wait_when_no_other_goes_on_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("bad", folder.path());
    let cases: [(&str, u16, &[&str]); 4] = [
        ("stuck", 3, &["condition variable 5", "message of rank 0", "rank 2 leaves the job"]),
        ("locked", 3, &["condition variable 5", "waits for lock 4", "rank 2 leaves the job"]),
        ("ring", 3, &["waits for a message of rank"]),
        ("ring", 1, &["rank 0 waits for a message of rank 0"]),
    ];
    for fabric in ["tcp", "shm", "shm-pages"] {
        for (case, ranks, whys) in cases {
            let out = job(&program, case, ranks, fabric);
            let said = text(&out);
            let mut whys = whys.iter().chain(&[", and no other rank goes on"]);
            assert!(
                whys.all(|why| said.contains(*why)),
                "{fabric} {case}: {:?} {said}",
                out.status
            );
            assert!(!out.status.success(), "{fabric} {case}: {said}");
        }
    }
}

/// The header is one of C of 1989 and 2017 and of C++ of 2017, without a warning.
#[test]
fn the_header_is_valid_in_every_language_that_includes_it() {
    let languages = [("cc", "c", "c89"), ("cc", "c", "c17"), ("c++", "c++", "c++17")];
    for (compiler, language, standard) in languages {
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-x", language]);
        command.arg(format!("-std={standard}")).arg("-I").arg(root().join("include")).arg("-");
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let source = b"#include \"jia.h\"\nint main(void) { jia_error(\"x %d\", 1); return ON; }\n";
        child.stdin.take().unwrap().write_all(source).unwrap();
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success(), "{standard}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

/// `dsm.abi.surface` at its source: each name of the header stands in a program, and each function
/// of the header is one that this crate exports, and the other way round.
#[test]
fn every_name_of_the_header_has_a_program_that_uses_it() {
    let header = std::fs::read_to_string(root().join("include/jia.h")).unwrap();
    let sources: String = std::fs::read_dir(root().join("programs"))
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let used: std::collections::BTreeSet<&str> = sources.split(|c| !is_word(c)).collect();
    let (functions, macros) = names(&header);
    assert!(functions.len() > 45 && macros.len() > 35, "{} {}", functions.len(), macros.len());
    let missing: Vec<&&str> =
        functions.iter().chain(&macros).filter(|name| !used.contains(**name)).collect();
    assert!(missing.is_empty(), "no program uses {missing:?}");
    let ours: String = ["calls", "extra", "error"]
        .map(|file| std::fs::read_to_string(root().join(format!("src/raw/{file}.rs"))).unwrap())
        .concat();
    let exported: std::collections::BTreeSet<&str> = ours
        .split(['\n'])
        .filter_map(|line| {
            let line = line.trim().trim_start_matches("pub ").trim_start_matches("unsafe ");
            let line = line.trim_start_matches("extern \"C\" ");
            let rest = line.strip_prefix("fn jia_").or(line.strip_prefix("static jia"))?;
            let at = line.len() - rest.len() - if line.starts_with("fn") { 4 } else { 3 };
            line[at..].split(|c| !is_word(c)).next()
        })
        .collect();
    let declared: std::collections::BTreeSet<&str> = functions.into_iter().collect();
    assert_eq!(declared, exported);
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Functions and variables that the header declares, and macros that it defines.
fn names(header: &str) -> (Vec<&str>, Vec<&str>) {
    let mut functions = Vec::new();
    let mut macros = Vec::new();
    for line in header.lines() {
        if let Some(rest) = line.strip_prefix("#define ") {
            macros.extend(rest.split(|c| !is_word(c)).next());
        } else if line.contains(");") && line.starts_with(|c: char| c.is_ascii_lowercase()) {
            let before = line.split('(').next().unwrap();
            functions.extend(before.split(|c| !is_word(c)).rfind(|word| !word.is_empty()));
        } else if let Some(rest) = line.strip_prefix("extern int ") {
            functions.extend(rest.split(|c| !is_word(c)).next());
        }
    }
    macros.retain(|name| *name != "LITTORAL_JIA_H");
    (functions, macros)
}
