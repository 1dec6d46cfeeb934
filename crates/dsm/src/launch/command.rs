//! The command that starts a rank: the program itself, or another command that starts it elsewhere.
//!
//! - Here: variables in the environment, then the program.
//! - By a command of a hosts file: `COMMAND env NAME=VALUE ... PROGRAM ARGUMENTS`.
//! - By `ssh` or `rsh`, which hand one line to a shell: each word quoted, in the launcher's folder.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

use super::hosts::Host;
use super::settings;

/// Commands that hand their arguments to a shell.
const SHELLS: [&str; 2] = ["ssh", "rsh"];

/// What starts a rank of this program with these variables.
pub(super) fn of(
    program: &OsStr,
    arguments: &[OsString],
    host: Option<&Host>,
    names: &[(OsString, OsString)],
) -> Command {
    let Some((first, rest)) = host.and_then(|h| h.command.split_first()) else {
        let mut command = own(program);
        command.envs(names.iter().cloned()).args(arguments);
        return command;
    };
    let pairs = names.iter().map(|(name, value)| {
        let mut pair = name.clone();
        pair.push("=");
        pair.push(value);
        pair
    });
    let words = std::iter::once(OsString::from("env")).chain(pairs);
    let words = words.chain([program.to_owned()]).chain(arguments.iter().cloned());
    let mut command = own(OsStr::new(first));
    command.args(rest);
    if is_shell(first) {
        command.arg(line(&words.collect::<Vec<_>>()));
    } else {
        command.args(words);
    }
    command
}

/// A command with this process's environment, but for what it was given as a rank itself.
fn own(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    settings::of_another_job().iter().for_each(|name| _ = command.env_remove(name));
    command
}

/// Whether a command hands its arguments to a shell elsewhere.
fn is_shell(first: &str) -> bool {
    let name = Path::new(first).file_name().unwrap_or_default();
    SHELLS.iter().any(|shell| name == *shell)
}

/// The command that reaches a host, where it is one that hands its arguments to a shell there.
pub(super) fn reaching(host: Option<&Host>) -> Option<String> {
    let command = &host?.command;
    command.first().is_some_and(|first| is_shell(first)).then(|| command.join(" "))
}

/// One line for a shell, which becomes the program there.
fn line(words: &[OsString]) -> OsString {
    let mut line = Vec::new();
    if let Ok(folder) = std::env::current_dir() {
        line.extend(b"cd ");
        line.extend(quoted(folder.as_os_str()));
        line.extend(b" && ");
    }
    line.extend(b"exec");
    for word in words {
        line.push(b' ');
        line.extend(quoted(word));
    }
    OsString::from_vec(line)
}

/// A word as a shell reads it back, whatever its bytes.
fn quoted(word: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The shell itself reads the line back.
    #[test]
    fn a_shell_reads_back_every_word_as_it_was() {
        let words = ["printf", "%s|", "a b", "it's", "$HOME `x` \"y\" \\", "", "*;&|<>\n!"];
        let line = line(&words.map(OsString::from));
        let out = Command::new("sh").arg("-c").arg(line).output().unwrap();
        assert_eq!(String::from_utf8(out.stdout).unwrap(), words[2..].join("|") + "|");
    }
}
