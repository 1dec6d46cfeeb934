//! The end of a rank: by an error, or by a program that leaves without `jia_exit`.
//!
//! Invariants
//! - An error names the call, what is wrong and what to do, ends this process by its code and the
//!   others by naming this rank. Checked by `bad_input_ends_in_words`.
//! - A program that ends with another code than 0, and has joined and not left, keeps it and waits
//!   for none; the other ranks name it. Checked by `bad_input_ends_in_words`.

use std::ffi::c_int;
use std::io::Write as _;

use littoral_base::mutant;
use littoral_dsm::Error;
use littoral_dsm::job::member::Inside;
use littoral_dsm::runtime::leave;

use crate::rank::Rank;

fn say(rank: Option<&Rank>, what: &str) {
    let who = rank.map_or(String::new(), |r| format!("rank {}: ", r.member.rank()));
    tell(format!("littoral jia: {who}{what}"));
}

/// Prints a line on standard error, whole.
pub fn tell(mut line: String) {
    line.push('\n');
    // A closed standard error leaves nothing to be done.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Says something that ends nothing, once a job: at rank 0.
pub fn warn(rank: &Rank, what: &str) {
    if rank.member.rank() == 0 {
        say(Some(rank), what);
    }
}

/// Ends the job for this reason.
pub fn die(what: &str, code: i32) -> ! {
    if Inside::is_marked() || Rank::is_child() {
        end_plainly(["", what], code);
    }
    let rank = Rank::current();
    say(rank, what);
    if let Some(rank) = rank {
        let (me, process) = (rank.member.rank(), std::process::id());
        rank.member.abandon(&format!("rank {me} (process {process}): {what}"));
    }
    leave(code)
}

/// The rank that `call` needs.
#[inline]
pub fn need(call: &str) -> &'static Rank {
    Rank::current().unwrap_or_else(|| missing(call))
}

#[cold]
fn missing(call: &str) -> ! {
    const NO_RANK: &str = " in a child made by fork, which is no rank; let the rank itself call it";
    if Rank::is_child() {
        if mutant!("jia_child_allocates") {
            die(&format!("{call}{NO_RANK}"), 2);
        }
        // Another thread of the rank may have been in malloc at the fork: here it stays locked.
        end_plainly([call, NO_RANK], 2);
    }
    die(&format!("{call} outside of jia_init and jia_exit; call jia_init first"), 2)
}

/// Ends the process with a line of these parts, by calls that any state allows: in a signal's
/// handler whose thread is in an operation of the library, or in a forked child. The others see
/// that a rank is gone.
fn end_plainly(parts: [&str; 2], code: i32) -> ! {
    let line = ["littoral jia: ", parts[0], parts[1], "\n"];
    let line = line
        .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    // SAFETY: the vectors are slices, which are read; the calls are safe in a signal's handler.
    unsafe {
        libc::writev(2, line.as_ptr(), line.len() as c_int);
        libc::_exit(code)
    }
}

/// The value of a call, or the job's end.
pub fn settled<T>(call: &str, done: Result<T, Error>) -> T {
    done.unwrap_or_else(|e| die(&format!("{call}: {e}"), i32::from(e.class().exit_code())))
}

/// Ends the job unless `holds`.
pub fn demand(holds: bool, call: &str, what: impl FnOnce() -> String) {
    if !holds {
        die(&format!("{call}: {}", what()), 2);
    }
}

/// Ends the process in words where a signal's handler ends it while its thread is in a call.
pub fn refuse_end_in_a_call() {
    const WHAT: &str = "a signal's handler ended the program while its thread was in a call of the \
                        library; let it set a variable, and end the program elsewhere";
    if Inside::is_marked() {
        end_plainly(["", WHAT], 2);
    }
}
