//! `kv.readers`: eight readers beside one writer of a store, each of which opens it, does its work
//! and closes it, again and again.
//!
//! - Every opening is one of its own, as that of a process is; all of them wait.
//! - The writer gives all keys the same new value, durable together. A reader scans all of them:
//!   an answer with two values is torn, and so is one older than what was synced before the reader
//!   asked for the store.
//! - All of them work until each has had a number of sessions, so one that starves does not end.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use littoral::kv::{self, Access, Durability, Engine, Kv, Opening, Options};
use littoral_device::zoned::file::FileDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_index::index::Index;

use super::figures::Measured;
use littoral_bench::claims::Figure;
use littoral_bench::error::{Error, Kind, Result};

/// Readers beside the writer.
pub const READERS: usize = 8;
const KEYS: u64 = 500;

/// What readers and a writer saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Openings refused.
    pub refusals: u64,
    /// Answers of two states, or of a state before the last synced one.
    pub torn: u64,
    /// Sessions of the writer.
    pub writes: u64,
    /// Sessions of each reader.
    pub reads: Vec<u64>,
}

fn failed(e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::with_source(Kind::Environment, "reading beside a writer", e)
}

#[derive(Debug, Default)]
struct State {
    synced: AtomicU64,
    refusals: AtomicU64,
    torn: AtomicU64,
    /// Sessions of the readers, and of the writer behind them.
    sessions: [AtomicU64; READERS + 1],
}

impl State {
    fn is_done(&self, sessions: u64) -> bool {
        self.sessions.iter().all(|s| s.load(Ordering::SeqCst) >= sessions)
    }

    fn opened(&self, dir: &Path) -> Result<Option<Kv>> {
        match kv::open(dir, Opening { waits: true, ..Access::Read.into() }) {
            Ok(kv) => Ok(Some(kv)),
            Err(e) if e.kind() == littoral_index::Kind::Busy => {
                self.refusals.fetch_add(1, Ordering::SeqCst);
                Ok(None)
            }
            Err(e) => Err(failed(e)),
        }
    }

    fn read(&self, dir: &Path) -> Result<()> {
        let earlier = self.synced.load(Ordering::SeqCst);
        let Some(kv) = self.opened(dir)? else { return Ok(()) };
        let mut found = Vec::new();
        let scanned = kv.scan(None, None, |_, value| {
            found.push(value.to_vec());
            true
        });
        scanned.map_err(failed)?;
        let is_whole = found.len() as u64 == KEYS && found.iter().all(|v| *v == found[0]);
        let round = found.first().and_then(|v| v[..].try_into().ok()).map(u64::from_be_bytes);
        let is_torn = !is_whole || round.is_none_or(|r| r < earlier);
        self.torn.fetch_add(u64::from(is_torn), Ordering::SeqCst);
        Ok(())
    }

    fn write(&self, dir: &Path, round: u64) -> Result<()> {
        let opening = Opening { waits: true, ..Access::Write.into() };
        let device = match opening.file(dir, &dir.join("zones")) {
            Ok(device) => device,
            Err(e) if e.kind() == littoral_index::Kind::Busy => {
                self.refusals.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            Err(e) => return Err(failed(e)),
        };
        let mut index = Index::open(device).map_err(failed)?;
        put_all(&mut index, round)?;
        self.synced.store(round, Ordering::SeqCst);
        // Every other session ends as a kill ends it, since an `Index` that is dropped writes
        // nothing: the next session replays the log.
        if !round.is_multiple_of(2) {
            return Ok(());
        }
        index.close().map_err(failed)
    }

    /// Runs `session` until each has had enough sessions, or fails.
    fn run(
        &self,
        who: usize,
        sessions: u64,
        mut session: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let mut round = 0;
        while !self.is_done(sessions) {
            round += 1;
            if let Err(e) = session(round) {
                // The others must not wait for this one.
                self.sessions.iter().for_each(|s| s.store(sessions, Ordering::SeqCst));
                return Err(e);
            }
            self.sessions[who].fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

fn put_all(index: &mut Index<FileDevice>, round: u64) -> Result<()> {
    index.store_mut().set_durability(Durability::Batch);
    for key in 0..KEYS {
        index.put(&key.to_be_bytes(), &round.to_be_bytes()).map_err(failed)?;
    }
    index.sync().map_err(failed)
}

/// Lets readers and a writer share a store until each has had `sessions` sessions.
///
/// # Errors
/// `Kind::Environment` when the store cannot be made, written or read.
pub fn beside(seed: u64, sessions: u64) -> Result<Shared> {
    let folder = tempfile::tempdir().map_err(failed)?;
    let dir = folder.path().join("store");
    let options = Options::new(Engine::Zb, seed);
    let geometry = Geometry {
        conventional_zones: 1,
        sequential_zones: 7,
        zone_blocks: 128,
        capacity_blocks: 128,
        ..options.geometry
    };
    let made = kv::create_file(&dir, &Options { geometry, ..options }).map_err(failed)?;
    made.close().map_err(failed)?;
    let state = State::default();
    state.write(&dir, 0)?;
    let (seen, dir) = (&state, &dir);
    std::thread::scope(|scope| {
        let reader = |who| scope.spawn(move || seen.run(who, sessions, |_| seen.read(dir)));
        let readers: Vec<_> = (0..READERS).map(reader).collect();
        let wrote = seen.run(READERS, sessions, |round| seen.write(dir, round));
        let joined = readers.into_iter().map(|r| r.join().expect("invariant: no reader panics"));
        wrote.and(joined.collect::<Result<Vec<()>>>().map(|_| ()))
    })?;
    let sessions = state.sessions.map(AtomicU64::into_inner);
    Ok(Shared {
        refusals: state.refusals.into_inner(),
        torn: state.torn.into_inner(),
        writes: sessions[READERS],
        reads: sessions[..READERS].to_vec(),
    })
}

/// The claim: what was refused or torn.
///
/// # Errors
/// As [`beside`].
pub fn claim(seed: u64, sessions: u64) -> Result<Vec<Measured>> {
    let found = beside(seed, sessions)?;
    let fewest = found.reads.iter().min().copied().unwrap_or_default();
    let note = format!(
        "{READERS} readers and a writer, all with `--wait`: {} sessions of the writer, {} of the \
         readers, at least {fewest} of each; {} refused, {} torn or old",
        found.writes,
        found.reads.iter().sum::<u64>(),
        found.refusals,
        found.torn
    );
    let bad = found.refusals + found.torn;
    Ok(vec![("kv.readers".to_owned(), Figure::new(bad as f64, note))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_and_a_writer_finish_their_sessions() {
        let found = beside(1, 5).unwrap();
        assert_eq!((found.refusals, found.torn), (0, 0));
        assert!(found.writes >= 5 && found.reads.iter().all(|&n| n >= 5), "{found:?}");
    }
}
