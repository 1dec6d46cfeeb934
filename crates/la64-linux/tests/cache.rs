//! `--cache DIR`: what a second process does with the first one's code, and what nothing may do to
//! it: damage, other programs, other users, processes at once, a folder that cannot be used.

mod guest;

use guest::{A0, A1, A2, A3, A4, A7, Asm, S0, T0, T1, T2, count, la64, write_program};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// A folder with a program and one for the cache.
struct Place(TempDir);

impl Place {
    fn new(program: &Asm) -> Place {
        let place = Place(tempfile::tempdir().expect("temporary directory"));
        place.put(&read_only(program));
        place
    }

    fn put(&self, program: &[u8]) {
        write_program(&self.0.path().join("program"), program);
    }

    fn cache(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    fn start(&self, cache: &Path) -> Child {
        let mut command = la64();
        command.arg("--stats").arg("--cache").arg(cache).arg(self.0.path().join("program"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("la64 starts")
    }

    fn run(&self) -> Output {
        self.start(&self.cache()).wait_with_output().expect("la64 ends")
    }

    /// The only file of the cache.
    fn file(&self) -> PathBuf {
        let files = self.files();
        assert_eq!(files.len(), 1, "{files:?}");
        files.into_iter().next().expect("one")
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache()).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

/// The program's file, whose one segment cannot be written.
fn read_only(program: &Asm) -> Vec<u8> {
    const FLAGS: usize = 64 + 4;
    let mut file = program.file();
    file[FLAGS] = 5;
    file
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Blocks that `--stats` says are from the cache.
fn read(output: &Output) -> u64 {
    let text = text(output);
    let words: Vec<&str> = text.split([' ', ',', '\n']).collect();
    let at = words.windows(4).position(|w| w == ["blocks", "from", "the", "cache"]);
    let at = at.unwrap_or_else(|| panic!("no count: {text}"));
    words[at - 1].parse().expect("a number")
}

/// Calls a function in a loop; the sum of what it returns is the status.
fn summing(step: i64) -> Asm {
    let mut asm = Asm::default();
    asm.op("ori", &[T0, 0, 20]).op("or", &[S0, 0, 0]);
    asm.label("again").to("bl", &[], "function");
    asm.op("add.d", &[S0, S0, A0]).op("addi.d", &[T0, T0, -1]).to("bnez", &[T0], "again");
    asm.op("or", &[A0, S0, 0]).call(94);
    asm.label("function").to("pcaddi", &[T1], "function");
    asm.op("pcaddi", &[T2, -1]).op("sub.d", &[A0, T2, T1]);
    asm.op("addi.d", &[A0, A0, step]).op("jirl", &[0, 1, 0]);
    asm
}

#[test]
fn a_second_process_reads_what_the_first_one_translated() {
    let place = Place::new(&summing(2));
    let (first, second) = (place.run(), place.run());
    assert_eq!((first.status.code(), read(&first)), (Some(40), 0), "{}", text(&first));
    assert_eq!(second.status, first.status);
    assert!(read(&second) >= 3, "{}", text(&second));
    assert!(text(&second).contains(" 0 instructions translated"), "{}", text(&second));
    assert_eq!(count(&first), count(&second));
    let modes = [place.cache(), place.file()]
        .map(|path| fs::metadata(path).expect("there").permissions().mode() & 0o777);
    assert_eq!(modes, [0o700, 0o600]);
    // Other code: that which counts nothing has a file of its own.
    let mut other = la64();
    other.args(["--no-count", "--stats", "--cache"]).arg(place.cache());
    let other = other.arg(place.0.path().join("program")).output().expect("la64 runs");
    assert_eq!((other.status.code(), read(&other)), (Some(40), 0));
    assert_eq!(place.files().len(), 2);
}

/// Calls a function from a loop that is hot enough for a region, and another one through a table
/// at its end.
fn hot() -> Asm {
    let mut asm = Asm::default();
    asm.op("lu12i.w", &[T0, 2000]).op("ori", &[T0, T0, 3]).op("or", &[S0, 0, 0]);
    asm.label("again").op("andi", &[T1, T0, 7]).to("beqz", &[T1], "seldom");
    asm.label("back").to("bl", &[], "function");
    asm.op("addi.d", &[T0, T0, -1]).to("bnez", &[T0], "again");
    asm.op("or", &[A0, S0, 0]).op("andi", &[A0, A0, 127]).call(94);
    asm.label("seldom").op("addi.d", &[S0, S0, 3]).to("b", &[], "back");
    asm.label("function").op("addi.d", &[S0, S0, 1]).op("jirl", &[0, 1, 0]);
    asm
}

/// Images are adopted by every tier that translates, by arenas that are mapped twice and by small
/// ones; whatever is used, a program does the same.
#[test]
fn what_code_is_used_changes_nothing() {
    let place = Place::new(&hot());
    let run = |arguments: &[&str]| {
        let mut command = la64();
        command.arg("--stats").args(arguments).arg(place.0.path().join("program"));
        command.output().expect("la64 runs")
    };
    let cache = format!("--cache={}", place.cache().display());
    let wanted = run(&["--tier", "0"]);
    assert!(wanted.status.code().is_some_and(|code| code > 0), "{}", text(&wanted));
    for options in [&["--tier", "1"][..], &["--tier", "2"], &["--wx"], &["--code-size=256KiB"]] {
        for round in 0..3 {
            let output = run(&[options, &[&cache]].concat());
            assert_eq!(output.status, wanted.status, "{options:?}: {}", text(&output));
            assert_eq!(count(&output), count(&wanted), "{options:?}, round {round}");
            let is_used = read(&output) > 0;
            assert!(is_used || round == 0 && options[0] == "--tier", "{}", text(&output));
        }
    }
}

#[test]
fn a_damaged_file_is_named_and_replaced() {
    let place = Place::new(&summing(2));
    let counted = count(&place.run());
    let (path, whole) = (place.file(), fs::read(place.file()).expect("read"));
    for at in (0..whole.len()).step_by(64) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x20;
        fs::write(&path, damaged).expect("write");
        let output = place.run();
        assert_eq!((output.status.code(), read(&output)), (Some(40), 0), "byte {at}");
        assert_eq!(count(&output), counted);
        // The version is no damage.
        assert!(text(&output).contains("is damaged") || at == 0, "{}", text(&output));
        assert!(read(&place.run()) > 0, "it was replaced");
    }
    for len in [0, 1, 103, 104, whole.len() - 1] {
        fs::write(&path, &whole[..len]).expect("write");
        let output = place.run();
        assert_eq!((output.status.code(), read(&output)), (Some(40), 0), "{len} bytes");
    }
    fs::write(&path, vec![0; 33 << 20]).expect("write");
    let output = place.run();
    assert_eq!((output.status.code(), read(&output)), (Some(40), 0));
    fs::remove_file(&path).expect("remove");
    std::os::unix::fs::symlink("/dev/zero", &path).expect("link");
    assert_eq!(place.run().status.code(), Some(40));
}

#[test]
fn a_folder_or_file_that_others_may_write_is_not_used() {
    let place = Place::new(&summing(2));
    place.run();
    let allow = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("mode");
    };
    allow(&place.file(), 0o620);
    let output = place.run();
    assert_eq!((output.status.code(), read(&output)), (Some(40), 0));
    assert!(text(&output).contains("this user alone"), "{}", text(&output));
    allow(&place.file(), 0o600);
    allow(&place.cache(), 0o702);
    let output = place.run();
    assert_eq!((output.status.code(), read(&output)), (Some(40), 0));
    assert!(text(&output).contains("not this user's alone"), "{}", text(&output));
    allow(&place.cache(), 0o700);
    // Only the superuser can give a file away.
    if std::os::unix::fs::chown(place.file(), Some(1), None).is_ok() {
        let output = place.run();
        assert_eq!((output.status.code(), read(&output)), (Some(40), 0));
    }
    assert!(read(&place.run()) > 0, "{}", text(&place.run()));
}

#[test]
fn a_cache_that_cannot_be_written_is_one_line() {
    let place = Place::new(&summing(2));
    let file = place.0.path().join("program");
    for folder in [file.join("x"), PathBuf::from("/proc/no such folder")] {
        let output = place.start(&folder).wait_with_output().expect("la64 ends");
        assert_eq!(output.status.code(), Some(40));
        let lines = text(&output).lines().filter(|l| l.contains("cache folder")).count();
        assert_eq!(lines, 1, "{}", text(&output));
    }
    // A file where another one is to be renamed to.
    place.run();
    let path = place.file();
    fs::remove_file(&path).expect("remove");
    fs::create_dir(&path).expect("folder");
    let output = place.run();
    assert_eq!(output.status.code(), Some(40));
    assert!(fs::read_dir(place.cache()).expect("a folder").count() == 1, "nothing is left");
}

/// The kernel ends a process that writes a longer file than it may.
#[test]
fn a_limit_on_the_length_of_files_ends_no_program() {
    let place = Place::new(&summing(2));
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 0 && exec \"$@\"", "sh"]).arg(la64().get_program());
    command.arg("run").arg("--cache").arg(place.cache()).arg(place.0.path().join("program"));
    let output = command.output().expect("sh runs");
    assert_eq!(output.status.code(), Some(40), "{}", text(&output));
    assert!(text(&output).contains("cannot write to the cache folder"), "{}", text(&output));
    assert!(place.files().is_empty());
}

#[test]
fn two_processes_at_once_leave_a_file_that_is_taken() {
    let place = Place::new(&summing(2));
    for _ in 0..3 {
        let running: Vec<Child> = (0..6).map(|_| place.start(&place.cache())).collect();
        for child in running {
            let output = child.wait_with_output().expect("la64 ends");
            assert_eq!(output.status.code(), Some(40), "{}", text(&output));
            assert!(!text(&output).contains("damaged"), "{}", text(&output));
        }
    }
    assert!(read(&place.run()) > 0);
    assert_eq!(place.files().len(), 1);
}

/// A process of another container, which shares the folder and has the same id, is writing.
#[test]
fn a_file_that_another_process_writes_is_left_alone() {
    let place = Place::new(&summing(2));
    fs::create_dir(place.cache()).expect("folder");
    fs::set_permissions(place.cache(), Permissions::from_mode(0o700)).expect("mode");
    let mut command = Command::new("sh");
    let script = "cd \"$1\" && echo half >.$$-$$ && cp .$$-$$ .$$-$$.la64code && \
                  shift && exec \"$@\"";
    command.args(["-c", script, "sh"]).arg(place.cache()).arg(la64().get_program());
    command.arg("run").arg("--cache").arg(place.cache()).arg(place.0.path().join("program"));
    let output = command.output().expect("sh runs");
    assert_eq!(output.status.code(), Some(40), "{}", text(&output));
    let is_half = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| bytes == b"half\n");
    assert_eq!(place.files().iter().filter(|path| is_half(path)).count(), 2);
    assert_eq!(place.files().len(), 3, "the program's own code is there");
}

/// The oldest files go, those that killed processes left among them.
#[test]
fn a_full_folder_loses_its_oldest_files() {
    let place = Place::new(&summing(2));
    place.run();
    let (day, now) = (Duration::from_secs(86_400), SystemTime::now());
    let files: [(&str, u32); 4] =
        [("old.la64code", 3), (".left.la64code", 2), ("new.la64code", 1), ("other", 9)];
    for (name, days) in files {
        let file = fs::File::create(place.cache().join(name)).expect("a file");
        // Without blocks on the disk.
        file.set_len(500 << 20).expect("a length");
        file.set_modified(now - days * day).expect("a time");
    }
    place.put(&read_only(&summing(3)));
    assert_eq!(place.run().status.code(), Some(60));
    let is_there = files.map(|(name, _)| place.cache().join(name).exists());
    assert_eq!(is_there, [false, true, true, true]);
    assert_eq!(place.files().len(), 5, "both programs' code is there");
}

#[test]
fn another_program_of_the_same_name_runs_as_itself() {
    let place = Place::new(&summing(2));
    place.run();
    for step in [3, 4, 2] {
        place.put(&read_only(&summing(step)));
        let output = place.run();
        assert_eq!(output.status.code(), Some(20 * step as i32), "{}", text(&output));
    }
    assert_eq!(place.files().len(), 3);
}

#[test]
fn code_that_may_be_written_is_not_kept() {
    let place = Place::new(&summing(2));
    place.put(&summing(2).file());
    let output = place.run();
    assert_eq!((output.status.code(), read(&output)), (Some(40), 0));
    assert!(place.files().is_empty());
}

#[test]
fn children_and_the_next_program_keep_theirs() {
    const CLONE: i64 = 220;
    const WAIT: i64 = 260;
    const EXECVE: i64 = 221;
    const SIGCHLD: i64 = 17;
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, SIGCHLD]);
    for register in [A1, A2, A3, A4] {
        asm.op("or", &[register, 0, 0]);
    }
    asm.call(CLONE).to("bnez", &[A0], "parent");
    // The child does what its parent does not.
    asm.op("ori", &[T0, 0, 9]).label("loop").op("addi.d", &[T0, T0, -1]).to("bnez", &[T0], "loop");
    asm.exit(7);
    asm.label("parent").op("addi.d", &[A1, 3, -64]);
    asm.op("or", &[A2, 0, 0]).op("or", &[A3, 0, 0]).call(WAIT);
    asm.address(A0, "name").op("or", &[A1, 0, 0]).op("or", &[A2, 0, 0]);
    asm.op("ori", &[A7, 0, EXECVE]).op("syscall", &[0]).exit(99);
    asm.data("name", &[u64::from_le_bytes(*b"/bin/tru"), u64::from(b'e')]);
    let place = Place::new(&asm);
    let first = place.run();
    assert_eq!(first.status.code(), Some(0), "{}", text(&first));
    // The child's figures are on the same standard error.
    let second = place.run();
    assert_eq!(second.status.code(), Some(0), "{}", text(&second));
    assert!(text(&second).contains(" 0 instructions translated"), "{}", text(&second));
    assert_eq!(place.files().len(), 1);
}

#[test]
fn off_is_no_folder() {
    let place = Place::new(&summing(2));
    let run = |cache: &[&str]| {
        let mut command = la64();
        command.current_dir(place.0.path()).arg("--stats").args(cache).arg("./program");
        command.output().expect("la64 runs")
    };
    for cache in [&[][..], &["--cache", "off"]] {
        let output = run(cache);
        assert!(!text(&output).contains("from the cache"), "{}", text(&output));
    }
    assert!(!place.0.path().join("off").exists());
    assert_eq!(read(&run(&["--cache", "./off"])), 0);
    assert!(read(&run(&["--cache=./off"])) > 0);
    assert_eq!(run(&["--cache="]).status.code(), Some(2));
}
