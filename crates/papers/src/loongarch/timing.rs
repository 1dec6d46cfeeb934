//! CPU time and memory of a program's processes.
//!
//! - CPU time is user and system time of the process and of the children it waited for, as bash's
//!   `time` gives it, in milliseconds; a program that takes a few is started many times.
//! - Memory is the largest resident set of a process that has done its work and waits for the end
//!   of its input.

use std::ffi::OsString;
use std::io::Read as _;
use std::process::{Command, Stdio};

use super::{Found, Tools};

/// Runs its arguments, and times all of it.
const SCRIPT: &str = "TIMEFORMAT='cpu %3U %3S'; times=$1; shift
time for ((n = 0; n < times; n++)); do
    \"$@\" </dev/null >/dev/null || { echo \"status $?\" >&2; exit 1; }
done";

/// Seconds of CPU time of one of `times` runs of a command.
///
/// # Errors
/// bash is missing, or the command failed.
pub fn cpu_seconds(tools: &Tools, command: &Command, times: u32) -> Found<f64> {
    let mut bash = Command::new(tools.bash()?);
    bash.args(["-c", SCRIPT, "bash", &times.to_string()]).args(words(command)).env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            bash.env(name, value);
        }
    }
    let out = super::tools::output(&mut bash)?;
    let text = String::from_utf8_lossy(&out.stderr);
    let failed = || format!("{:?}: {}: {}", command.get_program(), out.status, text.trim());
    if !out.status.success() {
        return Err(failed().into());
    }
    let line = text.lines().rev().find_map(|line| line.strip_prefix("cpu "));
    let numbers: Option<Vec<f64>> =
        line.and_then(|line| line.split(' ').map(|n| n.parse().ok()).collect());
    match numbers.as_deref() {
        Some([user, system]) => Ok((user + system) / f64::from(times)),
        Some(_) | None => Err(failed().into()),
    }
}

fn words(command: &Command) -> Vec<OsString> {
    let program = std::iter::once(command.get_program());
    program.chain(command.get_args()).map(ToOwned::to_owned).collect()
}

/// Medians of the CPU seconds of several commands that take turns.
///
/// # Errors
/// As [`cpu_seconds`].
pub fn medians(
    tools: &Tools,
    commands: &[Command],
    times: u32,
    repetitions: usize,
) -> Found<Vec<f64>> {
    let mut seconds = vec![Vec::with_capacity(repetitions); commands.len()];
    for _ in 0..repetitions {
        for (command, seconds) in commands.iter().zip(&mut seconds) {
            seconds.push(cpu_seconds(tools, command, times)?);
        }
    }
    Ok(seconds.into_iter().map(median).collect())
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Largest resident set, in KiB, of a command that writes a byte when it has done its work and then
/// waits for the end of its input.
///
/// # Errors
/// The command failed or ended early.
pub fn resident_kib(command: &mut Command) -> Found<u64> {
    let program = format!("{:?}", command.get_program());
    let failed = |e: std::io::Error| format!("{program}: {e}");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let mut ready = [0];
    let written = child.stdout.take().map(|mut out| out.read_exact(&mut ready).map(|()| out));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    drop(child.stdin.take());
    let ended = child.wait().map_err(failed)?;
    written.transpose().map_err(|e| format!("{program}: {e}, {ended}"))?;
    let status = status.map_err(failed)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.filter(|_| ended.success()).ok_or_else(|| format!("{program}: {ended}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_bench::peers::Peers;
    use std::path::Path;

    fn tools() -> Tools {
        Tools::new(Path::new("/dev/null/missing"), &Peers::default(), Path::new("/tmp"))
    }

    #[test]
    fn cpu_time_is_that_of_the_command() {
        let shell = |script: &str| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]);
            command
        };
        let Ok(nothing) = cpu_seconds(&tools(), &shell(":"), 2) else {
            assert!(tools().bash().is_err(), "bash is there, and fails");
            return;
        };
        let count = "n=0; while [ $n -lt 300000 ]; do n=$((n + 1)); done";
        let busy = cpu_seconds(&tools(), &shell(count), 1).unwrap();
        assert!(busy > nothing, "{busy} s for counting, {nothing} s for nothing");
        let error = cpu_seconds(&tools(), &shell("exit 3"), 1).unwrap_err();
        assert!(error.to_string().contains("status 3"), "{error}");
    }

    #[test]
    fn memory_is_read_while_the_process_waits() {
        let mut cat = Command::new("/bin/sh");
        cat.args(["-c", "echo; cat"]);
        assert!(resident_kib(&mut cat).unwrap() > 100);
        let mut mute = Command::new("/bin/sh");
        mute.args(["-c", "exit 3"]);
        assert!(resident_kib(&mut mute).is_err());
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(vec![3.0, 1.0, 2.0, 9.0, 0.0]), 2.0);
    }
}
