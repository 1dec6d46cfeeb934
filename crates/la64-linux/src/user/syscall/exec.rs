//! Running another program: `execve` and `execveat`.

use super::super::abi;
use super::super::limits;
use super::super::process::{as_path, kept};
use super::super::raw::{self, Arg};
use super::super::signal;
use super::super::thread::Thread;
use super::files::{proc_self, string};
use super::{Args, err};
use crate::limits::Limit;
use crate::options::Options;
use littoral_base::mutant;
use std::ffi::{CStr, CString, OsString};
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

const SCRIPTS_MAX: usize = 4;
/// This command's own file.
const OWN_FILE: &CStr = c"/proc/self/exe";

/// A null-terminated array of guest strings.
fn strings(thread: &Thread, at: u64) -> Result<Vec<Vec<u8>>, i64> {
    let mut list = Vec::new();
    if at == 0 {
        return Ok(list);
    }
    loop {
        let slot = at.wrapping_add(8 * list.len() as u64);
        match thread.cpu.window.load::<u64>(slot).ok_or(err(libc::EFAULT))? {
            0 => return Ok(list),
            string_at => list.push(long_string(thread, string_at)?),
        }
    }
}

/// Arguments may be longer than paths.
fn long_string(thread: &Thread, at: u64) -> Result<Vec<u8>, i64> {
    let mut bytes = Vec::new();
    loop {
        match thread.cpu.window.load::<u8>(at.wrapping_add(bytes.len() as u64)) {
            None => return Err(err(libc::EFAULT)),
            Some(0) => return Ok(bytes),
            Some(byte) => bytes.push(byte),
        }
    }
}

pub(super) fn execve(thread: &mut Thread, args: &Args) -> i64 {
    let path = string(thread, args[0]);
    execute(thread, path, args[1], args[2])
}

/// As `execve`, with a path from an open directory, or of an open file itself.
pub(super) fn execveat(thread: &mut Thread, args: &Args) -> i64 {
    const EMPTY_PATH: u64 = libc::AT_EMPTY_PATH as u64;
    const NOFOLLOW: u64 = libc::AT_SYMLINK_NOFOLLOW as u64;
    let [dir, path, argv, envp, flags, _] = *args;
    if flags & !(EMPTY_PATH | NOFOLLOW) != 0 {
        return err(libc::EINVAL);
    }
    let path = string(thread, path).and_then(|path| match (path.as_slice(), dir as i32) {
        ([], _) if flags & EMPTY_PATH == 0 => Err(err(libc::ENOENT)),
        ([], file) => of_file(thread, file),
        ([b'/', ..], _) | (_, libc::AT_FDCWD) => Ok(path),
        (_, dir) => Ok([of_file(thread, dir)?, b"/".to_vec(), path].concat()),
    });
    let is_link = |path: &Vec<u8>| {
        let host = thread.process.paths.resolve_link(as_path(path));
        std::fs::symlink_metadata(host).is_ok_and(|m| m.is_symlink())
    };
    if flags & NOFOLLOW != 0 && path.as_ref().is_ok_and(is_link) {
        return err(libc::ELOOP);
    }
    execute(thread, path, argv, envp)
}

/// A path of an open file for the new program: its own, or one through the descriptor for a file
/// that has none. The new program then keeps that descriptor, from which it is read.
fn of_file(thread: &Thread, file: i32) -> Result<Vec<u8>, i64> {
    let link = format!("/proc/self/fd/{file}");
    let code = |e: std::io::Error| match e.raw_os_error() {
        Some(libc::ENOENT) | None => err(libc::EBADF),
        Some(code) => err(code),
    };
    let path = std::fs::read_link(&link).map_err(code)?;
    let (by_link, by_path) = (std::fs::metadata(&link).map_err(code)?, std::fs::metadata(&path));
    if by_path.is_ok_and(|m| (m.dev(), m.ino()) == (by_link.dev(), by_link.ino())) {
        return Ok(thread.process.paths.guest(&path).into_os_string().into_vec());
    }
    let copy = &mut [Arg::Int(file as u64)];
    match raw::call_now(&thread.cpu.window, libc::SYS_dup, copy) {
        kept if kept >= 0 => Ok(format!("/proc/self/fd/{kept}").into_bytes()),
        error => Err(error),
    }
}

fn execute(thread: &mut Thread, path: Result<Vec<u8>, i64>, argv: u64, envp: u64) -> i64 {
    let parts = || Ok((path?, strings(thread, argv)?, strings(thread, envp)?));
    raw::set_mask(u64::MAX);
    let result = parts().and_then(|(path, argv, envp)| replace(thread, path, argv, envp));
    signal::apply_mask(thread);
    match result {
        Ok(code) | Err(code) => code,
    }
}

/// Follows `#!` lines, then runs LoongArch programs and those that can be translated in a new copy
/// of this command and anything else natively. x86-64 programs run natively too, unless the guest
/// is one itself.
fn replace(
    thread: &Thread,
    path: Vec<u8>,
    argv: Vec<Vec<u8>>,
    envp: Vec<Vec<u8>>,
) -> Result<i64, i64> {
    let (mut path, mut argv) = (path, argv);
    for _ in 0..SCRIPTS_MAX {
        let host = match path.as_slice() {
            own if is_own_file(own) => thread.process.paths.resolve(&thread.process.program),
            _ => thread.process.paths.resolve(as_path(&path)),
        };
        let head = head_of(thread, &host)?;
        if abi::runs(&head, thread.process.fronts, thread.process.abi) {
            if is_own_file(&path) {
                path = thread.process.program.as_os_str().as_bytes().to_vec();
            }
            return Ok(again(thread, path, argv, envp));
        }
        let Some(line) = head.strip_prefix(b"#!") else {
            return Ok(native(thread, host, argv, envp, &thread.limits().list()));
        };
        let line = line.split(|&b| b == b'\n').next().unwrap_or(line).trim_ascii();
        let (interpreter, argument) = match line.iter().position(|b| b" \t".contains(b)) {
            Some(n) => (&line[..n], Some(line[n..].trim_ascii().to_vec())),
            None => (line, None),
        };
        let rest = argv.into_iter().skip(1);
        argv =
            [interpreter.to_vec()].into_iter().chain(argument).chain([path]).chain(rest).collect();
        path = interpreter.to_vec();
    }
    Err(err(libc::ELOOP))
}

/// Whether a path of /proc names this process's program, which is this command for the host.
fn is_own_file(path: &[u8]) -> bool {
    match mutant!("la64_own_file_has_one_name") {
        true => path == b"/proc/self/exe",
        false => matches!(proc_self(path), Some(b"exe")),
    }
}

fn head_of(thread: &Thread, host: &std::path::Path) -> Result<Vec<u8>, i64> {
    let code = |e: std::io::Error| err(e.raw_os_error().unwrap_or(libc::ENOEXEC));
    let metadata = std::fs::metadata(host).map_err(code)?;
    if !metadata.is_file() {
        return Err(err(libc::EACCES));
    }
    let name = [host.as_os_str().as_bytes(), b"\0"].concat();
    let list = &mut [Arg::Int(libc::AT_FDCWD as u64), Arg::In(&name), Arg::Int(1)];
    let allowed = raw::call_now(&thread.cpu.window, libc::SYS_faccessat, list);
    if allowed < 0 {
        return Err(allowed);
    }
    let mut head = Vec::new();
    std::fs::File::open(host).map_err(code)?.take(256).read_to_end(&mut head).map_err(code)?;
    Ok(head)
}

fn c_strings(list: Vec<Vec<u8>>) -> Vec<CString> {
    // Guest strings end at their first zero byte, so none is lost here.
    list.into_iter().filter_map(|s| CString::new(s).ok()).collect()
}

/// Runs a program on the host, with these limits.
fn native(
    thread: &Thread,
    host: PathBuf,
    argv: Vec<Vec<u8>>,
    envp: Vec<Vec<u8>>,
    own: &[Limit],
) -> i64 {
    thread.store_code();
    let path = c_strings(vec![host.into_os_string().into_vec()]);
    if path.is_empty() {
        return err(libc::ENOENT);
    }
    thread.left.replace(vec![path, c_strings(argv), c_strings(envp)]);
    let left = thread.left.borrow();
    let mut before = Vec::new();
    let limit = || before = limits::exchange(own);
    let error = raw::execve((&thread.pending, thread.mask), &left[0][0], &left[1], &left[2], limit);
    limits::exchange(&before);
    error
}

/// Starts this command again for another program of a guest's architecture. Its own file is named
/// by the kernel's link first: the path it was started by may lead nowhere from here (another root,
/// a file replaced or removed).
fn again(thread: &Thread, path: Vec<u8>, argv: Vec<Vec<u8>>, envp: Vec<Vec<u8>>) -> i64 {
    let process = &thread.process;
    let by_name = process.paths.resolve(as_path(&path));
    let argv0 = argv.first().map(|name| OsString::from_vec(name.clone()));
    thread.store_code();
    // A forked child is not debugged, so neither is what it becomes.
    let is_debugged = process.debugger.as_ref().is_some_and(|d| d.is_on());
    let gdb = process.options.gdb.filter(|_| is_debugged);
    let limits = thread.limits().list();
    let options = Options { argv0, gdb, limits, ..process.options.clone() }.arguments();
    let words = process.command.iter().cloned().chain(options).map(OsString::into_vec);
    let words = c_strings(words.chain([path]).chain(argv.iter().skip(1).cloned()).collect());
    if words.is_empty() {
        return err(libc::ENOSYS);
    }
    // A child of `vfork` leaves these in its parent's memory: where the parent finds them.
    thread.left.replace(vec![words, c_strings(envp.into_iter().map(kept).collect())]);
    let start = |path: &std::ffi::CStr| {
        let left = thread.left.borrow();
        raw::execve((&thread.pending, thread.mask), path, &left[0], &left[1], || {})
    };
    if !mutant!("la64_execve_by_path_alone") && start(OWN_FILE) == raw::RESTART {
        return raw::RESTART;
    }
    // Without /proc there is only the path; where that leads nowhere either, the kernel may know
    // this command by binfmt_misc.
    let by_path = thread.left.borrow()[0][0].clone();
    match start(&by_path) {
        error if error == err(libc::ENOENT) => {
            let envp = thread.left.take().swap_remove(1);
            let envp = envp.into_iter().map(CString::into_bytes).collect();
            // The host's would limit this command, which the kernel starts.
            native(thread, by_name, argv, envp, &[])
        }
        error => error,
    }
}
