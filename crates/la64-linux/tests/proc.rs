//! What a program sees of itself in /proc. The guests are assembled here.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;
use std::path::Path;

const OPENAT: i64 = 56;
const READ: i64 = 63;
const WRITE: i64 = 64;
const READLINKAT: i64 = 78;
const AT_FDCWD: i64 = -100;
const BUFFER_LEN: usize = 16 << 10;

/// A string as words of data, with its terminator.
fn string(text: &str) -> Vec<u64> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((bytes.len() / 8 + 1) * 8, 0);
    let words = bytes.chunks(8).map(|c| u64::from_le_bytes(c.try_into().expect("eight bytes")));
    words.collect()
}

/// Writes the bytes in the buffer, whose number is in a0, to standard output, and ends.
fn show(asm: &mut Asm, path: &str) {
    asm.op("slt", &[T0, 0, A0]).to("bnez", &[T0], "good").exit(10);
    asm.label("good").op("or", &[A2, A0, 0]).address(A1, "buffer").op("ori", &[A0, 0, 1]);
    asm.call(WRITE).exit(0).data("path", &string(path)).data("buffer", &[0; BUFFER_LEN / 8]);
}

/// A program that shows a file of /proc.
fn shows_file(path: &str) -> Vec<u8> {
    let mut asm = Asm::default();
    asm.op("addi.d", &[A0, 0, AT_FDCWD]).address(A1, "path").op("ori", &[A2, 0, 0]).call(OPENAT);
    asm.address(A1, "buffer").constant(A2, BUFFER_LEN as i64).call(READ);
    show(&mut asm, path);
    asm.file()
}

/// A program that shows where a link of /proc leads.
fn shows_link(path: &str) -> Vec<u8> {
    let mut asm = Asm::default();
    asm.op("addi.d", &[A0, 0, AT_FDCWD]).address(A1, "path").address(A2, "buffer");
    asm.constant(A3, BUFFER_LEN as i64).call(READLINKAT);
    show(&mut asm, path);
    asm.file()
}

/// What a program shows that is started by a path from a folder.
fn shown(dir: &Path, path: &str) -> String {
    let output = la64().current_dir(dir).arg(path).output().expect("la64 runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("a text")
}

const PRCTL: i64 = 167;
const GET_NAME: i64 = 16;

/// The name in /proc/self/comm, by which tools find processes.
#[test]
fn a_process_has_its_programs_name() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, GET_NAME]).address(A1, "buffer").call(PRCTL).op("ori", &[A0, 0, 15]);
    show(&mut asm, "");
    write_program(&dir.path().join("a-program-with-a-long-name"), &asm.file());
    assert_eq!(shown(dir.path(), "./a-program-with-a-long-name"), "a-program-with-");
}

#[test]
fn a_thread_inherits_the_name_of_its_maker() {
    const EXIT_GROUP: i64 = 94;
    const FUTEX: i64 = 98;
    const CLONE3: i64 = 435;
    const SET_NAME: i64 = 15;
    const THREAD_FLAGS: u64 = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000;
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, SET_NAME]).address(A1, "name").call(PRCTL).expect_equal(A0, 0, 10);
    asm.address(T0, "birth").address(T1, "stack").op("st.d", &[T1, T0, 40]);
    asm.op("or", &[A0, T0, 0]).op("ori", &[A1, 0, 88]).call(CLONE3).to("beqz", &[A0], "child");
    asm.label("wait").address(A0, "never").op("ori", &[A1, 0, 0]).op("ori", &[A2, 0, 0]);
    asm.op("ori", &[A3, 0, 0]).call(FUTEX).to("b", &[], "wait");
    asm.label("child").op("ori", &[A0, 0, GET_NAME]).address(A1, "got").call(PRCTL);
    asm.address(T0, "got").op("ld.d", &[T0, T0, 0]).address(T1, "name").op("ld.d", &[T1, T1, 0]);
    asm.expect_equal(T0, T1, 11).op("ori", &[A0, 0, 0]).call(EXIT_GROUP);
    asm.data("birth", &[THREAD_FLAGS, 0, 0, 0, 0, 0, 4096, 0, 0, 0, 0]).data("never", &[0]);
    asm.data("name", &string("renamed")).data("got", &[0, 0]).data("stack", &[0; 512]);
    let output = asm.run();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_stack_begins_where_proc_says() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut asm = Asm::default();
    asm.address(T0, "buffer").op("st.d", &[SP, T0, 0]);
    asm.op("addi.d", &[A0, 0, AT_FDCWD]).address(A1, "path").op("ori", &[A2, 0, 0]).call(OPENAT);
    asm.address(A1, "buffer").op("addi.d", &[A1, A1, 8]).op("ori", &[A2, 0, 2048]).call(READ);
    asm.op("addi.d", &[A0, A0, 8]);
    show(&mut asm, "/proc/self/stat");
    write_program(&dir.path().join("program"), &asm.file());
    let output = la64().current_dir(dir.path()).arg("program").output().expect("la64 runs");
    let (sp, text) = output.stdout.split_first_chunk::<8>().expect("a stack pointer");
    let text = String::from_utf8_lossy(text);
    assert!(text.contains(" (program) "), "{text}");
    let start = text.split(' ').nth(27).and_then(|field| field.parse::<u64>().ok());
    assert_eq!(start, Some(u64::from_le_bytes(*sp)), "{text}");
}

/// Programs find their libraries and data by where their file is, not by the link to it.
#[test]
fn the_path_of_a_program_is_its_files() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let real = std::fs::canonicalize(dir.path()).expect("a path");
    let program = real.join("program");
    write_program(&program, &shows_link("/proc/self/exe"));
    std::os::unix::fs::symlink("program", real.join("link")).expect("a link");
    for path in ["./program", "link"] {
        assert_eq!(Path::new(&shown(&real, path)), program, "{path}");
    }
}

/// A program that locks all its memory locks none of the engine's, and needs no privilege for it.
#[test]
fn a_program_locks_its_own_memory() {
    const MLOCKALL: i64 = 230;
    const CURRENT: i64 = 1;
    let dir = tempfile::tempdir().expect("temporary directory");
    let limits = std::fs::read_to_string("/proc/self/limits").expect("limits");
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let limit = limit.and_then(|line| line.split_whitespace().next()).expect("a limit");
    if limit.parse::<u64>().is_ok_and(|bytes| bytes < 1 << 16) {
        return;
    }
    let mut asm = Asm::default();
    for flags in [0, 4, 8, 9] {
        asm.op("ori", &[A0, 0, flags]).call(MLOCKALL);
        asm.op("addi.d", &[T0, 0, i64::from(-libc::EINVAL)]).expect_equal(A0, T0, 11);
    }
    asm.op("ori", &[A0, 0, CURRENT]).call(MLOCKALL).expect_equal(A0, 0, 12);
    asm.op("addi.d", &[A0, 0, AT_FDCWD]).address(A1, "path").op("ori", &[A2, 0, 0]).call(OPENAT);
    asm.address(A1, "buffer").constant(A2, BUFFER_LEN as i64).call(READ);
    show(&mut asm, "/proc/self/status");
    write_program(&dir.path().join("program"), &asm.file());
    let text = shown(dir.path(), "program");
    let locked = text.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let locked = locked.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    // Of the host's kernel, in KiB.
    assert!(locked.is_none_or(|kib| (4..1024).contains(&kib)), "{text}");
}

/// What the host has there is the engine's memory.
#[test]
fn memory_is_no_file() {
    const OPENAT2: i64 = 437;
    for path in ["/proc/self/mem", "/proc/self/task/1/mem", "/proc/thread-self/mem"] {
        let mut asm = Asm::default();
        asm.op("addi.d", &[S0, 0, i64::from(-libc::EACCES)]);
        asm.op("addi.d", &[A0, 0, AT_FDCWD]).address(A1, "path").op("ori", &[A2, 0, 0]);
        asm.call(OPENAT).expect_equal(A0, S0, 10);
        asm.op("addi.d", &[A0, 0, AT_FDCWD]).address(A1, "path").address(A2, "how");
        asm.op("ori", &[A3, 0, 24]).call(OPENAT2).expect_equal(A0, S0, 11).exit(0);
        asm.data("path", &string(path)).data("how", &[0; 3]);
        let output = asm.run();
        assert_eq!(output.status.code(), Some(0), "{path}");
    }
}

/// A program starts itself again by its number in /proc, as by /proc/self. Started again it has two
/// arguments.
#[test]
fn a_program_starts_itself_by_its_number() {
    const GETPID: i64 = 172;
    const EXECVE: i64 = 221;
    const FOLDER: &str = "/proc/";
    let folder_len = FOLDER.len() as i64;
    let mut asm = Asm::default();
    asm.op("ld.d", &[T0, SP, 0]).op("addi.d", &[T0, T0, -2]).to("beqz", &[T0], "again");
    // The number's digits before the name of the link, from the last one on.
    asm.address(S0, "link").call(GETPID).op("ori", &[T1, 0, 10]);
    asm.label("digit").op("mod.d", &[T2, A0, T1]).op("div.d", &[A0, A0, T1]);
    asm.op("addi.d", &[T2, T2, i64::from(b'0')]).op("addi.d", &[S0, S0, -1]);
    asm.op("st.b", &[T2, S0, 0]).to("bnez", &[A0], "digit").address(T3, "folder");
    for n in 0..folder_len {
        asm.op("ld.b", &[T2, T3, n]).op("st.b", &[T2, S0, n - folder_len]);
    }
    asm.op("addi.d", &[A0, S0, -folder_len]).address(A1, "argv");
    asm.op("st.d", &[A0, A1, 0]).op("st.d", &[A0, A1, 8]).op("ori", &[A2, 0, 0]);
    asm.call(EXECVE).exit(10).label("again").exit(7);
    asm.data("argv", &[0; 3]).data("folder", &string(FOLDER));
    asm.data("room", &[0; 2]).data("link", &string("/exe"));
    let output = asm.run();
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn mappings_of_a_program_have_its_whole_path() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let real = std::fs::canonicalize(dir.path()).expect("a path");
    for path in ["/proc/self/maps", "/proc/thread-self/maps"] {
        write_program(&real.join("program"), &shows_file(path));
        let text = shown(&real, "program");
        let line = text.lines().next().expect("a mapping");
        let name = line.split_whitespace().last().expect("a name");
        assert_eq!(Path::new(name), real.join("program"), "{path}");
    }
}
