//! How a run fails: one message on standard error, one exit code.
//!
//! - The exit code is [`Class::exit_code`] of the error that ended the run.
//! - A closed pipe is no error: the run ends quietly with code 0.

use std::io::Write as _;
use std::process::ExitCode;

use littoral::base::error::{Category, Class, Error};

/// What every command returns.
pub(crate) type Outcome = Result<(), Failure>;

/// Why a run ends early.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// A failure of `class` with what, where and what to do.
    pub(crate) fn new(class: Class, message: impl Into<String>) -> Self {
        Failure { code: class.exit_code(), message: message.into() }
    }

    /// A program that was run has failed: its code is the run's.
    pub(crate) fn of_guest(code: u8, message: impl Into<String>) -> Self {
        Failure { code, message: message.into() }
    }

    /// The reader of our output has gone: stop without a word.
    pub(crate) fn quiet() -> Self {
        Failure { code: 0, message: String::new() }
    }

    /// Says why on standard error and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            // Nothing is left to be done when standard error is closed too.
            let _ = writeln!(std::io::stderr(), "littoral: {}", self.message);
        }
        ExitCode::from(self.code)
    }
}

impl<K: Category> From<Error<K>> for Failure {
    fn from(error: Error<K>) -> Self {
        Failure::new(error.class(), error.to_string())
    }
}
