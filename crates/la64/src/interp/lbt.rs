//! Binary translation assists.

use super::bind::Entry;

pub(super) static TABLE: &[Entry] = &[];
