//! Output of ranks, each line marked by the rank that printed it.
//!
//! Invariants
//! - A line is written whole, by one call, so lines of several ranks never mix; a last line without
//!   an end gets one. Checked by `lines_are_marked_and_the_last_one_is_ended`.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// Has a command's output come to this process.
pub(super) fn capture(command: &mut Command) {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
}

/// Copies what a rank prints, marked, until it closes both outputs.
pub(super) fn forward(rank: u16, child: &mut Child) -> Vec<JoinHandle<()>> {
    let out = child.stdout.take().map(|from| copy(rank, from, std::io::stdout()));
    let errors = child.stderr.take().map(|from| copy(rank, from, std::io::stderr()));
    out.into_iter().chain(errors).collect()
}

fn copy(
    rank: u16,
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
) -> JoinHandle<()> {
    std::thread::spawn(move || mark(rank, from, &mut to))
}

fn mark(rank: u16, from: impl Read, to: &mut impl Write) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let marked = [format!("rank {rank}: ").as_bytes(), text, b"\n"].concat();
        // A closed output leaves nothing to be done; the rank must not block on a full pipe.
        let _ = to.write_all(&marked).and_then(|()| to.flush());
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_are_marked_and_the_last_one_is_ended() {
        let mut to = Vec::new();
        super::mark(3, &b"one\n\nlast"[..], &mut to);
        assert_eq!(to, b"rank 3: one\nrank 3: \nrank 3: last\n");
    }
}
