//! Output of ranks: each line marked by the rank that printed it, or as it comes.
//!
//! Invariants
//! - A line is written whole, by one call, so lines of several ranks never mix; a last line without
//!   an end gets one. Checked by `lines_are_marked_and_the_last_one_is_ended`.
//! - The mark of a rank that has left is taken out of its standard error, however it is cut in
//!   pieces, and every other byte is handed on in order, at once unless it may begin a mark.
//!   Checked by `the_mark_of_a_rank_that_has_left_is_taken_out_in_any_pieces`.

use std::io::{BufRead as _, BufReader, ErrorKind, Read, Result, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::runtime::MARK;

/// What a pipe holds.
const PIECE_BYTES: usize = 1 << 16;

/// Has a command's output come to this process: all of it, or its standard error.
pub(super) fn capture(command: &mut Command, all: bool) {
    if all {
        command.stdout(Stdio::piped());
    }
    command.stderr(Stdio::piped());
}

/// Copies what a rank prints until it closes the outputs that come here, with each line marked by
/// `label`, or as it is. Notes in `left` that it has left the job.
pub(super) fn forward(
    label: Option<u16>,
    child: &mut Child,
    left: &Arc<AtomicBool>,
) -> Vec<JoinHandle<()>> {
    let out = child.stdout.take().map(|from| copy(label, from, std::io::stdout()));
    let errors = child.stderr.take().map(|from| {
        let from = Unmarked::new(from, Arc::clone(left));
        copy(label, from, std::io::stderr())
    });
    out.into_iter().chain(errors).collect()
}

fn copy(
    label: Option<u16>,
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
) -> JoinHandle<()> {
    std::thread::spawn(move || match label {
        Some(rank) => mark(rank, from, &mut to),
        None => pass(from, &mut to),
    })
}

fn pass(mut from: impl Read, to: &mut impl Write) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return,
            // A closed output leaves nothing to be done; the rank must not block on a full pipe.
            Ok(count) => _ = to.write_all(&piece[..count]).and_then(|()| to.flush()),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// What comes from a rank, without the mark of one that has left.
struct Unmarked<R> {
    from: R,
    left: Arc<AtomicBool>,
    piece: Vec<u8>,
    /// What has come and was not handed on.
    held: Vec<u8>,
    is_over: bool,
}

impl<R: Read> Unmarked<R> {
    fn new(from: R, left: Arc<AtomicBool>) -> Self {
        Unmarked { from, left, piece: vec![0; PIECE_BYTES], held: Vec::new(), is_over: false }
    }

    /// Bytes that may be handed on, once marks are taken out: all but a beginning of a mark.
    fn ready(&mut self) -> usize {
        while let Some(at) = self.held.windows(MARK.len()).position(|part| part == MARK) {
            self.held.drain(at..at + MARK.len());
            self.left.store(true, Ordering::Release);
        }
        let begins = |length: &usize| !self.is_over && self.held.ends_with(&MARK[..*length]);
        self.held.len() - (1..MARK.len()).rev().find(begins).unwrap_or(0)
    }
}

impl<R: Read> Read for Unmarked<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let mut ready = self.ready();
        while ready == 0 && !self.is_over {
            let count = self.from.read(&mut self.piece)?;
            self.held.extend_from_slice(&self.piece[..count]);
            self.is_over = count == 0;
            ready = self.ready();
        }
        debug_assert!(ready <= self.held.len(), "what is handed on has come");
        let count = ready.min(into.len());
        into[..count].copy_from_slice(&self.held[..count]);
        self.held.drain(..count);
        Ok(count)
    }
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Brings so many bytes at once.
    struct Pieces<'t>(&'t [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> Result<usize> {
            let count = self.1.min(self.0.len()).min(into.len());
            let (now, later) = self.0.split_at(count);
            into[..count].copy_from_slice(now);
            self.0 = later;
            Ok(count)
        }
    }

    #[test]
    fn the_mark_of_a_rank_that_has_left_is_taken_out_in_any_pieces() {
        let nearly = &MARK[..MARK.len() - 1];
        let begun = &b"two\x1b"[..];
        let text = [begun, nearly, MARK, b"three", nearly].concat();
        let rest = [begun, nearly, b"three", nearly].concat();
        for size in 1..=text.len() {
            let left = Arc::new(AtomicBool::new(false));
            let (mut all, mut marked) = (Vec::<u8>::new(), Vec::<u8>::new());
            pass(unmarked(b"one\n", size, &left), &mut all);
            assert!(all == b"one\n" && !left.load(Ordering::Acquire));
            pass(unmarked(&text, size, &left), &mut all);
            assert!(left.load(Ordering::Acquire), "{size}");
            assert_eq!(all[4..], rest, "{size}");
            let line = [MARK, b"one\n"].concat();
            mark(3, unmarked(&line, size, &left), &mut marked);
            assert_eq!(marked, b"rank 3: one\n");
        }
    }

    fn unmarked<'t>(text: &'t [u8], size: usize, left: &Arc<AtomicBool>) -> Unmarked<Pieces<'t>> {
        Unmarked::new(Pieces(text, size), Arc::clone(left))
    }

    #[test]
    fn lines_are_marked_and_the_last_one_is_ended() {
        let mut to = Vec::new();
        super::mark(3, &b"one\n\nlast"[..], &mut to);
        assert_eq!(to, b"rank 3: one\nrank 3: \nrank 3: last\n");
    }
}
