//! Standard output: text, tables and JSON, with a closed pipe told apart from failure.

use std::io::{ErrorKind, Write as _};

use littoral::base::error::Class;

use crate::failure::{Failure, Outcome};

/// Writes `bytes` as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Outcome {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Err(Failure::quiet()),
        Err(e) => Err(Failure::new(Class::Environment, format!("cannot write the output: {e}"))),
    }
}
