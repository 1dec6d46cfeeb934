//! Ctrl-C: the run ends with exit code 130 and no half-written file under its final name. SIGTERM
//! does the same.
//!
//! - Work that writes a file looks at [`flag`] and ends by itself, removing its draft; a second
//!   Ctrl-C ends it at once (the draft, under its temporary name, may then stay).
//! - Everything else is ended at once, its scratch folders removed.
//!
//! Invariants
//! - No Ctrl-C is lost: one that comes after the work's last look at the flag ends the run when the
//!   work is over. Checked by `an_interrupt_after_the_last_look_ends_the_run`.

mod raw;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use littoral::base::error::Class;

use crate::failure::{Failure, Outcome};

static WATCH: Watch = Watch::new();
static SCRATCH: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static NOTE: Mutex<Option<(PathBuf, String)>> = Mutex::new(None);

/// What Ctrl-C does to the run.
struct Watch {
    /// Ctrl-C was pressed.
    flag: AtomicBool,
    /// Work that looks at the flag is under way.
    is_watched: AtomicBool,
}

impl Watch {
    const fn new() -> Watch {
        Watch { flag: AtomicBool::new(false), is_watched: AtomicBool::new(false) }
    }

    /// Work that looks at the flag begins.
    fn begin(&self) -> &AtomicBool {
        self.is_watched.store(true, Ordering::SeqCst);
        &self.flag
    }

    /// Ctrl-C: whether it ends the run at once.
    fn interrupt(&self) -> bool {
        let again = self.flag.swap(true, Ordering::SeqCst);
        again || !self.is_watched.load(Ordering::SeqCst)
    }

    /// The work is done. A Ctrl-C after its last look at the flag ends the run here: with this
    /// order of accesses either the handler or this call sees what the other has stored.
    fn end(&self) -> Outcome {
        self.is_watched.store(false, Ordering::SeqCst);
        if self.flag.load(Ordering::SeqCst) {
            return Err(Failure::new(Class::Interrupted, "interrupted"));
        }
        Ok(())
    }
}

/// Takes over Ctrl-C and SIGTERM.
pub(crate) fn install() -> Outcome {
    let failed = |what: &str, e: &dyn std::error::Error| {
        Failure::new(Class::Environment, format!("cannot take over {what}: {e}"))
    };
    ctrlc::set_handler(on_interrupt).map_err(|e| failed("Ctrl-C", &e))?;
    raw::take_termination().map_err(|e| failed("SIGTERM", &e))
}

fn on_interrupt() {
    if WATCH.interrupt() {
        // A results file that is being written is finished first, so that no draft stays.
        let _no_more_writes = littoral_bench::files::no_more_writes();
        for path in SCRATCH.lock().iter().flat_map(|s| s.iter()) {
            // The run is over; what cannot be removed is left where it is.
            let _ = std::fs::remove_dir_all(path).or_else(|_| std::fs::remove_file(path));
        }
        let note = NOTE.lock().ok().and_then(|mut held| held.take());
        if let Some((path, note)) = note.filter(|(path, _)| path.exists()) {
            let path = path.display();
            // Standard error may be closed; the exit code says the same.
            let _ = writeln!(std::io::stderr(), "littoral: interrupted; {path} {note}");
        }
        std::process::exit(i32::from(Class::Interrupted.exit_code()));
    }
}

/// The flag that work which writes a file looks at; from now on Ctrl-C only sets it.
pub(crate) fn flag() -> &'static AtomicBool {
    WATCH.begin()
}

/// The work that looks at the flag is done: from now on Ctrl-C ends the run at once.
///
/// # Errors
/// `Class::Interrupted` after a Ctrl-C that the work no longer noticed.
pub(crate) fn unwatch() -> Outcome {
    WATCH.end()
}

/// A folder or file to be removed when Ctrl-C ends the run at once.
pub(crate) fn remove_at_exit(path: PathBuf) {
    if let Ok(mut scratch) = SCRATCH.lock() {
        scratch.push(path);
    }
}

/// A file, and what to say of it when Ctrl-C ends the run at once, if it is there by then.
pub(crate) fn say_at_exit(note: Option<(PathBuf, String)>) {
    if let Ok(mut held) = NOTE.lock() {
        *held = note;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_after_the_last_look_ends_the_run() {
        let watch = Watch::new();
        let flag = watch.begin();
        assert!(!flag.load(Ordering::SeqCst), "the work's last look");
        assert!(!watch.interrupt(), "work that looks at the flag is not ended at once");
        assert!(watch.end().is_err(), "and what follows it does not start");
        let quiet = Watch::new();
        quiet.begin();
        assert!(quiet.end().is_ok());
        assert!(quiet.interrupt(), "outside of such work a run is ended at once");
        let twice = Watch::new();
        twice.begin();
        assert_eq!([twice.interrupt(), twice.interrupt()], [false, true]);
    }
}
