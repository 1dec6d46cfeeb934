//! Ctrl-C: the run ends with exit code 130 and no half-written file under its final name.
//!
//! - Work that writes a file looks at [`flag`] and ends by itself, removing its draft; a second
//!   Ctrl-C ends it at once (the draft, under its temporary name, may then stay).
//! - Everything else is ended at once, its scratch folders removed.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use littoral::base::error::Class;

use crate::failure::{Failure, Outcome};

static FLAG: AtomicBool = AtomicBool::new(false);
static IS_WATCHED: AtomicBool = AtomicBool::new(false);
static SCRATCH: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static NOTE: Mutex<String> = Mutex::new(String::new());

/// Takes over Ctrl-C.
pub(crate) fn install() -> Outcome {
    ctrlc::set_handler(on_interrupt)
        .map_err(|e| Failure::new(Class::Environment, format!("cannot take over Ctrl-C: {e}")))
}

fn on_interrupt() {
    let again = FLAG.swap(true, Ordering::Relaxed);
    if again || !IS_WATCHED.load(Ordering::Relaxed) {
        // A results file that is being written is finished first, so that no draft stays.
        let _no_more_writes = littoral_bench::files::no_more_writes();
        for path in SCRATCH.lock().iter().flat_map(|s| s.iter()) {
            // The run is over; what cannot be removed is left where it is.
            let _ = std::fs::remove_dir_all(path).or_else(|_| std::fs::remove_file(path));
        }
        if let Some(note) = NOTE.lock().ok().filter(|n| !n.is_empty()) {
            // Standard error may be closed; the exit code says the same.
            let _ = writeln!(std::io::stderr(), "littoral: interrupted; {note}");
        }
        std::process::exit(i32::from(Class::Interrupted.exit_code()));
    }
}

/// The flag that work which writes a file looks at; from now on Ctrl-C only sets it.
pub(crate) fn flag() -> &'static AtomicBool {
    IS_WATCHED.store(true, Ordering::Relaxed);
    &FLAG
}

/// The file is written: from now on Ctrl-C ends the run at once.
pub(crate) fn unwatch() {
    IS_WATCHED.store(false, Ordering::Relaxed);
}

/// A folder or file to be removed when Ctrl-C ends the run at once.
pub(crate) fn remove_at_exit(path: PathBuf) {
    if let Ok(mut scratch) = SCRATCH.lock() {
        scratch.push(path);
    }
}

/// What to say when Ctrl-C ends the run at once; nothing when it is empty.
pub(crate) fn say_at_exit(note: String) {
    if let Ok(mut held) = NOTE.lock() {
        *held = note;
    }
}
