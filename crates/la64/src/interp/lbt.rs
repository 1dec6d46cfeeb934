//! placeholder
use super::bind::Entry;
pub(super) static TABLE: &[Entry] = &[];
