//! x86-64 Linux programs through the command `xlate`. They come from the host's C compiler, and
//! the host itself runs the same files: output and status must be equal.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod command;

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A program in a folder of its own, in which it runs.
struct Program {
    folder: TempDir,
    file: PathBuf,
}

impl Program {
    /// The program that `x86_programs/NAME.c` becomes, without a C library.
    fn of(name: &str) -> Program {
        Program::built(name, &["-static", "-fno-pie", "-no-pie"])
    }

    fn built(name: &str, kind: &[&str]) -> Program {
        let mut flags = vec!["-nostdlib", "-ffreestanding", "-mno-sse", "-fno-stack-protector"];
        flags.extend(["-fcf-protection=none", "-fno-asynchronous-unwind-tables"]);
        Program::compiled(name, &flags, kind, &[])
    }

    fn compiled(name: &str, flags: &[&str], kind: &[&str], libraries: &[&str]) -> Program {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join(name);
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/x86_programs");
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compiler.arg("-O2").args(flags).args(kind);
        compiler.arg("-o").arg(&file).arg(sources.join(format!("{name}.c"))).args(libraries);
        let output = compiler.output().expect("a C compiler runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Program { folder, file }
    }

    fn output(&self, mut command: Command, arguments: &[&str]) -> Output {
        command.args(arguments).current_dir(self.folder.path());
        let variables = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let variables: Vec<_> = variables.collect();
        command.env_clear().env("NAME", "value").envs(variables);
        command.output().expect("the command runs")
    }

    /// The command that runs it, to which only the name of a defect is handed on, and not further.
    fn xlate(&self, options: &[&OsStr]) -> Command {
        const MUTANT: &str = "LITTORAL_MUTANT";
        let mut command = command::xlate();
        command.envs(std::env::var_os(MUTANT).map(|name| (MUTANT, name)));
        command.args(["run", "--unset", MUTANT]).args(options).arg(&self.file);
        command
    }

    fn native(&self, arguments: &[&str]) -> Output {
        self.output(Command::new(&self.file), arguments)
    }

    fn translated(&self, arguments: &[&str]) -> Output {
        self.output(self.xlate(&[]), arguments)
    }

    /// Both ways of running it end alike and say the same; what they say.
    fn agrees(&self, arguments: &[&str]) -> String {
        self.agrees_with(&[], arguments)
    }

    fn agrees_with(&self, options: &[&OsStr], arguments: &[&str]) -> String {
        let translated = self.output(self.xlate(options), arguments);
        let native = self.native(arguments);
        let [expected, found] = [&native, &translated].map(|o| String::from_utf8_lossy(&o.stdout));
        let error = String::from_utf8_lossy(&translated.stderr);
        assert_eq!(found, expected, "{arguments:?}: {error}");
        let end = |o: &Output| (o.status.code(), o.status.signal());
        assert_eq!(end(&translated), end(&native), "{arguments:?}: {expected} {error}");
        expected.into_owned()
    }
}

#[test]
fn a_program_writes_and_exits() {
    let said = Program::of("write").agrees(&["one", "two"]);
    assert!(said.starts_with("hello\n") && said.contains("arguments 3"), "{said}");
}

#[test]
fn a_program_finds_its_arguments_and_the_vector() {
    let said = Program::of("start_vector").agrees(&["one", "", "three"]);
    assert!(said.contains("NAME=value\n") && said.ends_with("Linux x86_64\n"), "{said}");
}

#[test]
fn calls_and_errors_are_the_hosts() {
    let program = Program::of("errors");
    let said = program.agrees(&[]);
    assert!(said.contains("open -2\n") && said.contains("low 1\n"), "{said}");
}

/// `int1` is left out: under some hypervisors the processor reports it at its own address.
#[test]
fn faults_become_the_signals_that_the_kernel_gives() {
    let program = Program::of("faults");
    let said = program.agrees(&[]);
    assert!(said.contains("faults 27\n"), "{said}");
    for case in 0..10 {
        let ended = program.native(&[&case.to_string()]).status.signal();
        assert!(ended.is_some(), "case {case} is fatal");
        program.agrees(&[&case.to_string()]);
    }
}

#[test]
fn signals_have_the_kernels_frames() {
    Program::of("signals").agrees(&[]);
}

/// A child in its parent's memory steps on, another program does not.
#[test]
fn children_and_programs_of_a_program_that_steps_trap_as_on_the_host() {
    let said = Program::of("steps").agrees(&["others"]);
    assert_eq!(said, "steps of both by vfork 8\nanother program 512\n");
}

/// A list of traps, each with what its handler sees: behind plain instructions, branches, `popf`,
/// repetitions, system calls, faults; in children and threads. The same without LBT, with barriers,
/// and with instructions that are counted.
#[test]
fn programs_that_step_trap_where_the_host_does() {
    let program = Program::of("steps");
    let said = program.agrees(&[]);
    assert!(said.contains("rep movsb: 4\n 5 2 0 0 256 1 0 2 0 0\n"), "{said}");
    assert!(said.contains("blocked 5\nsteps of a forked child 3\n"), "{said}");
    assert!(said.contains("the same call later: 0\n"), "{said}");
    for option in ["--no-lbt", "--weak=3", "--stats", "--trace"] {
        program.agrees_with(&[OsStr::new(option)], &[]);
    }
}

#[test]
fn a_program_that_is_stopped_anywhere_computes_the_same() {
    let said = Program::of("slices").agrees(&[]);
    assert!(said.starts_with("sum "), "{said}");
}

/// Threads of the program with the barriers that they need; the host decides when each runs.
#[test]
fn programs_do_the_same_in_weak_order() {
    for name in ["write", "signals", "middle", "writes", "processes", "threads"] {
        Program::of(name).agrees_with(&[OsStr::new("--weak=11")], &[]);
    }
}

/// The processor has no LBT then, so an instruction of LBT would end a program.
#[test]
fn programs_do_the_same_without_lbt() {
    let plain = [OsStr::new("--no-lbt")];
    for name in ["write", "signals", "slices", "middle", "writes", "processes", "threads"] {
        Program::of(name).agrees_with(&plain, &[]);
    }
    let faults = Program::of("faults");
    faults.agrees_with(&plain, &[]);
    for case in 0..10 {
        faults.agrees_with(&plain, &[&case.to_string()]);
    }
    Program::compiled("extended", &["-std=gnu11"], &["-static"], &["-lm"]).agrees_with(&plain, &[]);
    let program = Program::of("signals");
    let listing = program.folder.path().join("listing");
    let option = format!("--dump={}", listing.display());
    program.output(program.xlate(&[plain[0], OsStr::new(&option)]), &[]);
    let text = std::fs::read_to_string(&listing).expect("the listing");
    let is_lbt = |line: &&str| {
        let names = [": x86m", ": setx86j", ": movscr2gr", ": movgr2scr", ": adc.", ": sbc."];
        names.iter().any(|name| line.contains(name))
    };
    assert_eq!(text.lines().find(is_lbt), None);
    assert!(text.contains(": movgr2cf "), "flags have their places: {text}");
}

#[test]
fn instructions_begin_in_the_middle_of_others() {
    let said = Program::of("middle").agrees(&[]);
    assert!(said.contains("whole -1866219471\nmiddle 0\n"), "{said}");
}

/// With the C library: `printf` and `strtold`, a signal handler, SIGFPE, a child.
#[test]
fn programs_of_the_c_library_use_80_bits() {
    let said = Program::compiled("extended", &["-std=gnu11"], &["-static"], &["-lm"]).agrees(&[]);
    assert!(said.contains("SIGFPE code 3\nSIGFPE code 7\n"), "{said}");
    assert!(said.contains("kept 7 1 handled 42\ncontrol 1f80 in the handler"), "{said}");
}

/// gcc's `-ffast-math`: denormal numbers count as zeros from the first instruction on. Threads and
/// children inherit that, a signal handler begins without it.
#[test]
fn programs_that_flush_denormal_numbers_do_as_on_the_host() {
    let kind = ["-static", "-pthread"];
    let program = Program::compiled("fast_math", &["-std=gnu11", "-ffast-math"], &kind, &["-lm"]);
    for options in [&[][..], &[OsStr::new("--no-lbt")], &[OsStr::new("--stats")]] {
        let said = program.agrees_with(options, &[]);
        assert!(said.contains("as zeros 0, control 9fb0\n"), "{said}");
        assert!(said.contains("in a handler 400000, control 1f80\n"), "{said}");
        assert!(said.contains("in another thread 0\n"), "{said}");
        assert!(said.contains("as numbers 400000, control 1f80\n"), "{said}");
    }
    // Without the option nothing of it is set before a handler does.
    let program = Program::compiled("fast_math", &["-std=gnu11"], &kind, &["-lm"]);
    let said = program.agrees(&["handler"]);
    assert_eq!(said, "before it 400000\nset by a handler 0\n");
}

/// x86-64-v2: the C library's functions for text, rounding, checksums, shuffles.
#[test]
fn programs_of_the_second_level_do_as_on_the_host() {
    let flags = ["-std=gnu11", "-msse4.2", "-mpopcnt"];
    let program = Program::compiled("level2", &flags, &["-static"], &["-lm"]);
    for options in [&[][..], &[OsStr::new("--no-lbt")]] {
        let said = program.agrees_with(options, &[]);
        assert!(said.starts_with("level 2: 1\nplaces 18 -1\n"), "{said}");
    }
}

#[test]
fn code_that_the_program_writes_is_executed() {
    for options in [&[][..], &[OsStr::new("--stats")]] {
        let said = Program::of("writes").agrees_with(options, &[]);
        assert!(said.contains("again 104\n") && said.contains("itself 8\n"), "{said}");
        assert!(said.contains("written behind 601\n"), "{said}");
    }
}

#[test]
fn code_of_memory_that_is_mapped_twice_is_executed() {
    let said = Program::of("twice").agrees(&[]);
    assert!(said.contains("before 102\n") && said.contains("allowed later 602\n"), "{said}");
    assert!(said.contains("there 732\nand here 732\n") && said.ends_with("902\n"), "{said}");
}

#[test]
fn children_are_translated() {
    let said = Program::of("processes").agrees(&[]);
    assert!(said.contains("a child with ONE=1 TWO=2") && said.contains("status 2304"), "{said}");
}

/// Calls of a child that the first program does not make are named only if the child is translated.
#[test]
fn a_childs_calls_are_named() {
    let program = Program::of("processes");
    let output = program.output(program.xlate(&[OsStr::new("--strace")]), &[]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(error.matches("uname(").count(), 2, "of the child, and of what it becomes: {error}");
}

#[test]
fn threads_have_what_clone_gives_them() {
    let said = Program::of("threads").agrees(&[]);
    assert!(said.contains("locked 80000\nby exchange 120000\nplain 800\n"), "{said}");
    assert!(said.contains("written by another 77\n"), "{said}");
}

/// The interpreter is found by the name that the program has for it, first below the other root.
#[test]
fn the_interpreter_of_a_program_runs_first() {
    let interpreter = Program::built("interpreter", &["-fPIE", "-static-pie"]);
    let path = interpreter.file.to_str().expect("a path in UTF-8");
    let kind = format!("-Wl,--dynamic-linker={path}");
    let said = Program::built("write", &["-fPIE", "-pie", &kind]).agrees(&[]);
    assert!(said.starts_with("interpreter\n") && said.contains("hello\n"), "{said}");

    let program = Program::built("write", &["-fPIE", "-pie", "-Wl,--dynamic-linker=/interpreter"]);
    let command = program.xlate(&[OsStr::new("-L"), interpreter.folder.path().as_os_str()]);
    assert_eq!(program.output(command, &[]).stdout, said.as_bytes());
}

/// Bytes of the file's head that say its class and machine.
fn refused(name: &str, class: u8, machine: u8) -> String {
    let program = Program::of("write");
    let mut bytes = std::fs::read(&program.file).expect("the program");
    (bytes[4], bytes[18]) = (class, machine);
    std::fs::write(&program.file, bytes).expect("another program");
    let output = program.translated(&[]);
    assert_eq!(output.status.code(), Some(5), "{name}: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn programs_of_32_bits_are_refused_by_name() {
    assert!(refused("i386", 1, 3).contains("an i386 program"));
    assert!(refused("x32", 1, 62).contains("an x32 program"));
}

/// A trace, the regions beside what they become, and the file's own instructions.
#[test]
fn instructions_are_listed() {
    let program = Program::of("write");
    let traced = program.output(program.xlate(&[OsStr::new("--trace")]), &[]);
    let text = String::from_utf8_lossy(&traced.stderr);
    assert!(text.lines().any(|line| line.ends_with(": 0f05 syscall")), "{text}");
    let listing = program.folder.path().join("listing");
    let option = format!("--dump={}", listing.display());
    program.output(program.xlate(&[OsStr::new(&option)]), &[]);
    let text = std::fs::read_to_string(&listing).expect("the listing");
    let after = text.split(": syscall\n").nth(1).expect("a system call");
    // Without LBT the flags have places of their own.
    let reads_flags = |line: &str| line.contains(": x86mfflag ") || line.contains(": movcf2gr ");
    assert!(after.lines().take(16).any(reads_flags), "{after}");
    let mut command = command::xlate();
    let output = command.arg("disasm").arg(&program.file).output().expect("the command runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.lines().any(|line| line.contains(": 0f05 ") && line.ends_with("  syscall")),
        "{text}"
    );
}

/// The numbers are those of the instructions in `counted.c`, part by part.
#[test]
fn instructions_are_counted_exactly() {
    const LOOP: u64 = 1 + 4 * 10;
    const STRINGS: u64 = 4 + 2;
    const OUTSIDE: u64 = 4 + 6;
    const CALL: u64 = 6;
    const RETURN: u64 = 2;
    const FAULTS: u64 = 2 * (2 + 2 + RETURN + 2);
    const BREAKPOINT: u64 = 2 + 1 + RETURN + 1;
    const STEPS: u64 = 3 + 4 + 3 + 9 * (1 + RETURN);
    const EXIT: u64 = 3;
    const ALL: u64 = LOOP + STRINGS + OUTSIDE + 3 * CALL + FAULTS + BREAKPOINT + STEPS + EXIT;
    let program = Program::of("counted");
    program.agrees(&[]);
    let output = program.output(program.xlate(&[OsStr::new("--stats")]), &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains(&format!(" {ALL} x86-64 instructions executed")), "not {ALL}: {text}");
    let is_near = command::own_count(&text).is_none_or(|own| (ALL..20 * ALL).contains(&own));
    assert!(is_near, "LA64 instructions without those that count: {text}");
}
