//! The example `one_machine` on a file-backed and on a modelled machine: killed at random moments
//! and opened again, it gives the answers of a plain in-memory program.
//!
//! The test's own binary is the program and its ranks: `process` is an ordinary test that passes at
//! once unless the environment says what to be. `LITTORAL_ONE_MACHINE_KILLS=N` kills N times
//! instead of 6, over as many more members.

#![allow(clippy::unwrap_used)]

#[path = "../examples/one_machine.rs"]
#[allow(dead_code)]
mod one_machine;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use littoral::base::rng::{self, Rng as _};
use one_machine::{Step, Task, be_a_rank, in_memory, run};

const TASK: &str = "ONE_MACHINE_TASK";
const OWN: [&str; 3] = ["--exact", "process", "--nocapture"];

/// The task that the environment names: machine file, folder, members, lines between.
fn task() -> Option<Task> {
    let text = std::env::var(TASK).ok()?;
    let words: Vec<&str> = text.split('\n').collect();
    let own = std::env::current_exe().unwrap().display().to_string();
    Some(Task {
        machine: words[0].into(),
        folder: words[1].into(),
        members: words[2].parse().unwrap(),
        command: [own].into_iter().chain(OWN.map(str::to_owned)).collect(),
    })
}

#[test]
fn process() {
    let Some(task) = task() else { return };
    if std::env::var_os("LITTORAL_DSM_RANK").is_some() {
        be_a_rank(&task).unwrap();
        std::process::exit(0);
    }
    // A reader that has gone is about to kill this process: what it says is not needed.
    let say = |line: &str| drop(writeln!(std::io::stdout(), "{line}"));
    let found = run(&task, &mut |step| match step {
        Step::Joined(member) => say(&format!("joined {member}")),
        stage => say(&format!("stage {stage:?}")),
    });
    let found = found.unwrap();
    std::fs::write(task.folder.join("answers"), found).unwrap();
    std::process::exit(0);
}

fn command(machine: &Path, folder: &Path, members: u32) -> Command {
    let task = format!("{}\n{}\n{members}", machine.display(), folder.display());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(OWN).env(TASK, task).stdout(Stdio::piped());
    command
}

/// Starts the program and kills it once it has said `word` in so many lines, or at once; whether it
/// was killed before it ended.
fn kill_after(command: &mut Command, (word, lines_wanted): (&str, u32), spins: u32) -> bool {
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = lines.map_while(Result::ok).filter(|l| l.contains(word));
    let heard = said.by_ref().take(lines_wanted as usize).count();
    (0..spins).for_each(|_| std::hint::spin_loop());
    child.kill().unwrap();
    let status = child.wait().unwrap();
    heard == lines_wanted as usize && status.signal() == Some(9)
}

const FILES: &str = r#"schema = "littoral.machine/1"
[device.members]
kind = "zoned"
medium = "file:FOLDER/members.zones"
block_bytes = 4096
zones = 20
conventional_zones = 4
zone_size = "1MiB"
[device.edges]
kind = "flash"
medium = "uring:FOLDER/edges.lg"
[device.visits]
kind = "memory"
medium = "file:FOLDER/visits.pool"
capacity = "1MiB"
[device.ranks]
kind = "fabric"
medium = "ram"
nodes = 2
window = "4KiB"
"#;

const MODELS: &str = r#"schema = "littoral.machine/1"
[device.members]
kind = "zoned"
medium = "ram"
profile = "zns-paper"
zones = 20
conventional_zones = 4
zone_size = "1MiB"
zone_capacity = "1MiB"
[device.edges]
kind = "flash"
medium = "ram"
profile = "xlfdd"
capacity = "64MiB"
[device.visits]
kind = "memory"
medium = "ram"
profile = "optane-dcpmm"
capacity = "1MiB"
[device.ranks]
kind = "fabric"
medium = "ram"
profile = "rdma"
nodes = 2
window = "4KiB"
"#;

/// What follows the joining: the graph's file is made, walked, and its members are ranked.
const STAGES: [&str; 3] = ["stage Building", "stage Walking", "stage Ranking"];

fn kills() -> u32 {
    std::env::var("LITTORAL_ONE_MACHINE_KILLS").map_or(6, |n| n.parse().unwrap())
}

/// Kills the program at `kills` random moments of the joining and at one of each later stage, then
/// lets it end.
fn survives(machine: &str, kills: u32, seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("machine.toml");
    std::fs::write(&file, machine.replace("FOLDER", &dir.path().display().to_string())).unwrap();
    let members = 40 + 12 * kills;
    let mut random = rng::stream(seed, "one machine");
    let (mut log, mut arrived) = (String::new(), 0);
    let mut kill = |at: (&str, u32), spins| {
        let killed = kill_after(&mut command(&file, dir.path(), members), at, spins);
        writeln!(log, "after {at:?}, {spins} turns: killed {killed}").unwrap();
        arrived += u32::from(killed);
        arrived
    };
    for _ in 0..kills {
        kill(("joined ", random.random_range(0..12)), random.random_range(0..200_000));
    }
    for stage in STAGES {
        kill((stage, 1), random.random_range(0..2_000_000));
    }
    // On a busy machine the program may end before a kill arrives: then it is killed at its start.
    let is_killed = (0..20).any(|_| kill(("joined ", 0), 0) > 0);
    assert!(is_killed, "seed {seed}: no kill arrived\n{log}");
    let ended = command(&file, dir.path(), members).output().unwrap();
    let [said, why] = [&ended.stdout, &ended.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(ended.status.success(), "seed {seed}\n{log}{said}{why}");
    let found = std::fs::read_to_string(dir.path().join("answers")).unwrap();
    assert_eq!(found, in_memory(members), "seed {seed}\n{log}");
}

#[test]
fn killed_on_files_it_goes_on_and_gives_the_plain_programs_answers() {
    survives(FILES, kills(), 7);
}

#[test]
fn killed_on_models_it_begins_again_and_gives_the_plain_programs_answers() {
    survives(MODELS, 2, 11);
}

#[test]
fn the_plain_program_tells_members_apart() {
    let text = in_memory(50);
    assert_eq!(text.lines().count(), 50);
    let distinct: std::collections::BTreeSet<&str> = text.lines().collect();
    assert_eq!(distinct.len(), 50);
    assert!(text.lines().all(|l| !l.contains("level -")), "every member knows an earlier one");
}
