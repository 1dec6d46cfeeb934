//! The other implementation as a process that executes records.
//!
//! Lifecycle: [`Peer::start`], any number of [`Peer::execute`]; dropping it closes its input, at
//! which the runner ends.

use super::{BATCH, Case, Cases, Ours, RECORD_LEN, Report, Shape};
use std::io::{self, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Cases that are in flight at once.
const FLIGHT: usize = 16 * BATCH;
/// Words a process executes before a fresh one takes over.
const WORDS_A_PROCESS: u64 = 100_000;

/// A running peer.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
}

impl Peer {
    /// Starts `command`, which must run [`program`](super::runner::program).
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Peer> {
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pipes.spawn()?;
        let gone = || io::Error::other("a pipe to the peer is missing");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        Ok(Peer { child, input, output: output.ok_or_else(gone)? })
    }

    /// The records after execution; as many as a multiple of [`BATCH`].
    ///
    /// # Errors
    /// The peer ended, or wrote fewer records than it was given.
    ///
    /// # Panics
    /// When the number of cases is no multiple of [`BATCH`].
    pub fn execute(&mut self, cases: &[Case]) -> io::Result<Vec<Case>> {
        assert!(cases.len().is_multiple_of(BATCH), "the runner takes whole batches");
        let closed = || io::Error::other("the peer was stopped");
        let (input, output) = (self.input.as_mut().ok_or_else(closed)?, &mut self.output);
        std::thread::scope(|s| {
            let sent = s.spawn(move || cases.iter().try_for_each(|c| input.write_all(&c.0)));
            let mut received = Vec::with_capacity(cases.len());
            for _ in cases {
                let mut record = [0; RECORD_LEN];
                output.read_exact(&mut record)?;
                received.push(Case(record));
            }
            sent.join().map_err(|_| closed())??;
            Ok(received)
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.input = None;
        // A peer that has crashed was reported by `execute`.
        let _ = self.child.wait();
    }
}

/// Compares at least `words` random words, single and in blocks in turn, with what the peer makes
/// of them; `command` starts a peer.
///
/// # Errors
/// The peer cannot be started or ends early.
pub fn soak(seed: u64, words: u64, mut command: impl FnMut() -> Command) -> io::Result<Report> {
    let mut cases = [Cases::new(seed, Shape::Single), Cases::new(seed, Shape::Block)];
    let (mut report, mut ours) = (Report::default(), Ours::default());
    let mut peer = Peer::start(&mut command())?;
    let mut fresh = 0;
    for turn in 0.. {
        if report.words >= words {
            break;
        }
        if report.words - fresh >= WORDS_A_PROCESS {
            (peer, fresh) = (Peer::start(&mut command())?, report.words);
        }
        let flight: Vec<Case> = (0..FLIGHT).map(|_| cases[turn % 2].case()).collect();
        let theirs = std::thread::scope(|s| {
            let theirs = s.spawn(|| peer.execute(&flight));
            let ours: Vec<Case> = flight.iter().map(|case| ours.execute(case)).collect();
            let theirs =
                theirs.join().map_err(|_| io::Error::other("the peer's thread ended"))??;
            io::Result::Ok(ours.into_iter().zip(theirs).collect::<Vec<_>>())
        })?;
        for (before, (ours, theirs)) in flight.iter().zip(&theirs) {
            report.compare(before, ours, theirs);
        }
    }
    Ok(report)
}
