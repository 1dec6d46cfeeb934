//! libpmemobj beside ours and beside the undo baseline: the same updates on the same kind of
//! memory.
//!
//! - The peer is a C program of ours (`peers/pmdk_update.c`), compiled when it is asked for with
//!   the system's compiler against an installed libpmemobj; nothing of it is shipped or linked.
//! - Its pool is a file in shared memory with `PMEM_IS_PMEM_FORCE=1`, so that it flushes and fences
//!   as on persistent memory; ours is anonymous memory under the same instructions.
//! - Rounds in turns: each engine answers processor time for the same number of transactions.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::claims::{Effort, OBJECTS, Objects, POOL_BYTES, Updates};
use super::rivals::{Named, Rivals, Who, named};
use super::work::median;
use littoral_bench::error::{Error, Kind, Result};
use littoral_bench::peers::Peers;
use littoral_bench::repro::{self, Unanswered};

const SOURCE: &str = include_str!("../../peers/pmdk_update.c");

fn missing(why: impl std::fmt::Display) -> Unanswered {
    repro::missing(format!("libpmemobj with its headers and a C compiler ({why})"))
}

/// Compiles the peer's program into `folder`.
fn compile(peers: &Peers, folder: &Path) -> std::result::Result<PathBuf, Unanswered> {
    let (source, program) = (folder.join("pmdk_update.c"), folder.join("pmdk_update"));
    fs::write(&source, SOURCE)
        .map_err(|e| Error::with_source(Kind::Io, source.display().to_string(), e))?;
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-O2", "-o"]).arg(&program).arg(&source);
    if let Some(given) = peers.folder().map(|f| f.join("pmdk")).filter(|f| f.is_dir()) {
        let search = |option: &str, part: &str| format!("{option}{}", given.join(part).display());
        command.arg(search("-I", "include"));
        command.args([search("-L", "lib"), search("-Wl,-rpath,", "lib")]);
    }
    let output = command.args(["-lpmemobj", "-lpmem"]).output().map_err(missing)?;
    if output.status.success() {
        return Ok(program);
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = words.lines().find(|l| l.contains("error") || l.contains("cannot find"));
    Err(missing(line.unwrap_or("it does not compile")))
}

/// The running program and its pool's file, which goes when this does.
struct Peer {
    child: Child,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pool: PathBuf,
}

impl Peer {
    fn start(program: &Path, folder: &Path) -> Result<Peer> {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory } else { folder };
        let pool = folder.join(format!("littoral-peer-{}.pmemobj", std::process::id()));
        let mut child = Command::new(program)
            .arg(&pool)
            .arg(OBJECTS.to_string())
            .env("PMEM_IS_PMEM_FORCE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| Error::with_source(Kind::Environment, "start libpmemobj's program", e))?;
        let (ask, answers) = (child.stdin.take(), child.stdout.take());
        let failed = "libpmemobj's program has no output";
        let answers = answers.ok_or_else(|| Error::new(Kind::Environment, failed))?;
        Ok(Peer { child, ask, answers: BufReader::new(answers), pool })
    }

    /// Transactions of `k` objects a second of processor time.
    fn run(&mut self, k: usize, n: u64) -> Result<f64> {
        let failed = |e| Error::with_source(Kind::Environment, "libpmemobj's program", e);
        if let Some(ask) = &mut self.ask {
            writeln!(ask, "{k} {n}").and_then(|()| ask.flush()).map_err(failed)?;
        }
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(failed)?;
        let ns = line.trim().parse::<f64>().ok().filter(|ns| *ns > 0.0);
        let ns = ns.ok_or_else(|| Error::new(Kind::Environment, "libpmemobj's program failed"))?;
        Ok(n as f64 * 1e9 / ns)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.ask.take());
        drop(self.child.wait());
        drop(fs::remove_file(&self.pool));
    }
}

/// Transactions a second of processor time in one round.
struct Round {
    ours: f64,
    undo: f64,
    peer: f64,
}

/// `sdtm.update.k*.vs_pmdk` and `sdtm.undo.vs_pmdk`.
///
/// # Errors
/// When the peer is missing or fails.
pub fn beside(
    peers: &Peers,
    folder: &Path,
    effort: &Effort,
) -> std::result::Result<Vec<Named>, Unanswered> {
    let mut peer = Peer::start(&compile(peers, folder)?, folder)?;
    let failed = |e| Error::with_source(Kind::Environment, "updates beside libpmemobj", e);
    let rivals = Rivals::new(&[Who::Ours, Who::Undo], POOL_BYTES, &Objects).map_err(failed)?;
    let mut all = Vec::new();
    for k in [1, 4, 16] {
        let load = Updates { k, ops: 2 * effort.ops };
        let mut rounds = Vec::new();
        for _ in 0..=effort.rounds {
            let speed = |who| -> Result<f64> {
                Ok(rivals.run(who, &load).map_err(failed)?.per_cpu_second())
            };
            let (ours, undo) = (speed(Who::Ours)?, speed(Who::Undo)?);
            rounds.push(Round { ours, undo, peer: peer.run(k, load.transactions())? });
        }
        all.extend(judge(k, &rounds[1..]));
    }
    Ok(all)
}

fn judge(k: usize, rounds: &[Round]) -> Vec<Named> {
    let of = |f: fn(&Round) -> f64| median(rounds.iter().map(f).collect());
    let note = format!(
        "a second of CPU: ours {:.3} M, undo {:.3} M, libpmemobj {:.3} M without a lock; undo over \
         libpmemobj {:.2}; median of {} rounds",
        of(|r| r.ours) / 1e6,
        of(|r| r.undo) / 1e6,
        of(|r| r.peer) / 1e6,
        of(|r| r.undo / r.peer),
        rounds.len()
    );
    let mut all =
        vec![named(format!("sdtm.update.k{k}.vs_pmdk"), of(|r| r.ours / r.peer), note.clone())];
    if k == 4 {
        all.push(named("sdtm.undo.vs_pmdk", of(|r| r.undo / r.peer), note));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_or_library_says_so_and_nothing_is_made_up() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent");
        let error = compile(&Peers::default(), &absent).unwrap_err();
        assert!(matches!(error, Unanswered::Failed(_)), "no folder to write to: {error}");
        assert!(missing("why").to_string().starts_with("missing: libpmemobj"));
    }

    #[test]
    fn the_undo_baseline_is_judged_at_four_objects_only() {
        let rounds = || vec![Round { ours: 8.0, undo: 3.0, peer: 2.0 }];
        let ids: Vec<String> = judge(4, &rounds()).into_iter().map(|n| n.0).collect();
        assert_eq!(ids, ["sdtm.update.k4.vs_pmdk", "sdtm.undo.vs_pmdk"]);
        assert_eq!(judge(16, &rounds())[0].1.value, 4.0);
    }
}
