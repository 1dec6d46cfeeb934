//! Options of `la64 run` that change or observe a program: environment, stack, profile, names for
//! perf, figures of the translator.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

const WRITE: i64 = 64;

/// Writes every string of the environment with its final zero byte.
fn environment_writer() -> Asm {
    let mut asm = Asm::default();
    asm.op("ld.d", &[T0, SP, 0]).op("addi.d", &[T0, T0, 2]).op("slli.d", &[T0, T0, 3]);
    asm.op("add.d", &[S0, SP, T0]);
    asm.label("next").op("ld.d", &[A1, S0, 0]).to("beqz", &[A1], "end").op("ori", &[A2, 0, 0]);
    asm.label("length").op("add.d", &[T1, A1, A2]).op("ld.b", &[T2, T1, 0]);
    asm.op("addi.d", &[A2, A2, 1]).to("bnez", &[T2], "length");
    asm.op("ori", &[A0, 0, 1]).call(WRITE).op("addi.d", &[S0, S0, 8]).to("b", &[], "next");
    asm.label("end").exit(0);
    asm
}

fn run(asm: &Asm, options: &[&str]) -> std::process::Output {
    run_file(&asm.file(), options)
}

#[test]
fn the_environment_is_the_hosts_with_what_options_change() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("program");
    write_program(&path, &environment_writer().file());
    let mut command = la64();
    command.env_clear().env("KEPT", "1").env("GONE", "2").env("CHANGED", "3");
    command.args(["-E", "NEW=a=b", "-U", "GONE", "-E", "CHANGED=4", "-E", "CHANGED=5"]);
    let output = command.args(["-U", "ABSENT"]).arg(&path).output().expect("la64 runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut list: Vec<&str> = text.split_terminator('\0').collect();
    list.sort_unstable();
    assert_eq!(list, ["CHANGED=5", "KEPT=1", "NEW=a=b"]);
}

#[test]
fn the_first_stack_has_the_length_that_was_asked_for() {
    let mut asm = Asm::default();
    // A word 1 MiB below the stack pointer.
    asm.op("lu12i.w", &[T0, 256]).op("sub.d", &[T0, SP, T0]).op("st.d", &[SP, T0, 0]).exit(0);
    assert_eq!(run(&asm, &["-s", "2MiB"]).status.code(), Some(0));
    assert_eq!(run(&asm, &[]).status.code(), Some(0));
    assert_eq!(run(&asm, &["-s", "512KiB"]).status.signal(), Some(libc::SIGSEGV));
    let refused = run(&asm, &["-s", "1KiB"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("64KiB to 1TiB"));
}

/// Two functions: `cold` runs a thousandth as long as `hot`.
fn two_functions() -> Vec<u8> {
    let mut asm = Asm::default();
    asm.to("bl", &[], "cold").to("bl", &[], "hot").exit(0);
    let functions = asm.here();
    asm.label("cold").constant(T0, 1000);
    asm.label("cold loop").op("addi.d", &[T0, T0, -1]).to("bnez", &[T0], "cold loop");
    asm.op("jirl", &[0, RA, 0]);
    let hot = asm.here();
    asm.label("hot").constant(T0, 2_000_000);
    asm.label("hot loop").op("addi.d", &[T0, T0, -1]).to("bnez", &[T0], "hot loop");
    asm.op("jirl", &[0, RA, 0]);
    let lens = [(functions, hot - functions), (hot, asm.here() - hot)];
    let [cold, hot] = lens.map(|(at, len)| (place(at), 4 * len as u64));
    with_functions(asm.file(), &[("cold", cold.0, cold.1), ("hot", hot.0, hot.1)])
}

#[test]
fn a_profile_names_the_hottest_function_first_and_repeats() {
    let first = run_file(&two_functions(), &["--profile"]);
    assert_eq!(first.status.code(), Some(0));
    let text = String::from_utf8_lossy(&first.stderr);
    let lines: Vec<&str> = text.lines().collect();
    // 4,002,006 instructions, one sample each 99,991.
    assert!(lines[0].contains("profile: 40 samples"), "{text}");
    assert!(lines[1].contains("100.00 %  hot  /"), "{text}");
    for tier in ["0", "1", "2"] {
        let again = run_file(&two_functions(), &["--profile", "--tier", tier]);
        let head = |o: &std::process::Output| {
            String::from_utf8_lossy(&o.stderr).lines().next().map(str::to_owned)
        };
        assert_eq!(head(&again), head(&first), "tier {tier}");
    }
}

#[test]
fn a_profile_is_written_as_json() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let option = format!("--profile={}", dir.path().join("profile-%p.json").display());
    let output = run_file(&two_functions(), &[&option]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
    let mut files =
        std::fs::read_dir(dir.path()).expect("folder").map(|e| e.expect("entry").path());
    let file = files.next().expect("a profile");
    assert!(!file.to_string_lossy().contains("%p") && files.next().is_none());
    let text = std::fs::read(file).expect("profile");
    let read: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(read["functions"][0]["function"], "hot");
    let option = format!("--profile={}", dir.path().join("missing/x").display());
    let nowhere = run_file(&two_functions(), &[&option]);
    assert_eq!(nowhere.status.code(), Some(0), "the program's own status");
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("the profile is lost"));
}

#[test]
fn perf_learns_the_names_of_translated_blocks() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("program");
    write_program(&path, &two_functions());
    let mut child =
        la64().arg("--perf-map").arg(&path).stdout(Stdio::null()).spawn().expect("la64 runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let map = format!("/tmp/perf-{}.map", child.id());
    let text = std::fs::read_to_string(&map).expect(&map);
    std::fs::remove_file(&map).expect("its file");
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words.len(), 3, "{line}");
        assert!(words[..2].iter().all(|w| u64::from_str_radix(w, 16).is_ok_and(|n| n > 0)));
    }
    assert!(text.lines().any(|l| l.ends_with(" la64:hot")), "{text}");
    assert!(text.lines().any(|l| l.contains(" la64:hot+0x")), "{text}");
}

/// The program ends with the number of its first descriptor.
#[test]
fn the_file_for_perf_has_none_of_the_programs_descriptors() {
    const MEMFD_CREATE: i64 = 279;
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("program");
    let mut asm = Asm::default();
    asm.address(A0, "name").op("ori", &[A1, 0, 0]).call(MEMFD_CREATE).call(94);
    write_program(&path, &asm.data("name", &[u64::from(b'm')]).file());
    let [plain, mapped] = [None, Some("--perf-map")].map(|option| {
        let mut child = la64().args(option).arg(&path).spawn().expect("la64 runs");
        let status = child.wait().expect("it ends").code();
        let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", child.id()));
        status
    });
    assert!(plain.is_some_and(|first| first > 2), "{plain:?}");
    assert_eq!(mapped, plain);
}

#[test]
fn figures_of_the_translator_count_every_thread_once() {
    let output = run_file(&two_functions(), &["--stats"]);
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|l| l.contains("instructions translated")).expect("a line");
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    // The last word is a number, too, that of tier 0.
    let [instructions, blocks, code, maps, exits, interpreted, slow, alone, _] = numbers[..] else {
        panic!("{line}")
    };
    assert!((10..200).contains(&instructions) && blocks > 3, "{line}");
    assert!(code > 4 * instructions && maps > 0, "{line}");
    // A slice of translated code is 262,144 instructions, of 4 million.
    assert!((15..60).contains(&exits), "{line}");
    assert!(interpreted < 5 && slow < 5 && (1..5).contains(&alone), "{line}");
    let none = run_file(&two_functions(), &["--stats", "--tier", "0"]);
    let text = String::from_utf8_lossy(&none.stderr);
    assert!(text.contains("0 instructions translated in 0 blocks: 0 bytes of code"), "{text}");
}

#[test]
fn translated_blocks_are_dumped() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = dir.path().join("dump");
    let option = format!("--dump={}", file.display());
    assert_eq!(run_file(&two_functions(), &[&option]).status.code(), Some(0));
    let text = std::fs::read_to_string(&file).expect("the dump");
    let blocks = text.lines().filter(|l| l.starts_with("block 0x")).count();
    assert!(blocks > 3 && text.contains("(exits, slow ways)"), "{text}");
    assert!(text.lines().any(|l| l.contains(" addi.d ")), "{text}");
    let option = format!("--dump={}", dir.path().join("missing/x").display());
    let nowhere = run_file(&two_functions(), &[&option]);
    assert_ne!(nowhere.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("where --dump writes"));
}

#[test]
fn a_program_runs_without_the_count() {
    assert_eq!(run_file(&two_functions(), &["--no-count"]).status.code(), Some(0));
    // Calls that never return, as programs read their own address, leave nothing on a stack.
    let mut asm = Asm::default();
    asm.constant(S0, 3_000_000).label("again").to("bl", &[], "here");
    asm.label("here").op("addi.d", &[S0, S0, -1]).to("bnez", &[S0], "again").exit(0);
    assert_eq!(run(&asm, &["--no-count"]).status.code(), Some(0));
}

#[test]
fn a_thread_alone_is_the_same_in_weak_order() {
    for seed in 0..2 {
        let output = run_file(&two_functions(), &[&format!("--weak={seed}"), "--stats"]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains("0 instructions translated"), "it is interpreted: {text}");
    }
}

#[test]
fn a_machine_without_lbt_has_none_of_its_instructions() {
    const SIGILL: i32 = 4;
    let mut asm = Asm::default();
    asm.op("movgr2scr", &[0, 0]).exit(7);
    assert_eq!(run(&asm, &[]).status.code(), Some(7));
    assert_eq!(run(&asm, &["--no-lbt"]).status.signal(), Some(SIGILL));
}

#[test]
fn figures_are_shown_though_the_program_closes_standard_error() {
    const CLOSE: i64 = 57;
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, 2]).call(CLOSE).expect_equal(A0, 0, 1).exit(7);
    let output = run(&asm, &["--stats", "--profile"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(text.contains("instructions retired") && text.contains("blocks:"), "{text}");
    assert!(text.contains("profile: 0 samples"), "{text}");
    // Nothing is written to a file that the program opens under the number of the copy.
    const DUP3: i64 = 24;
    let mut asm = Asm::default();
    asm.op("ori", &[S0, 0, 1000]);
    asm.op("ori", &[A0, 0, 1]).op("or", &[A1, S0, 0]).op("ori", &[A2, 0, 0]).call(DUP3);
    asm.expect_equal(A0, S0, 1).exit(7);
    let output = run(&asm, &["--stats"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    assert!(String::from_utf8_lossy(&output.stderr).contains("instructions retired"));
}
