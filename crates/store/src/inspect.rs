//! What an engine asks of a page before it uses it.
//!
//! - The store asks once, when a page comes from the medium or from the redo log; what is in its
//!   cache has been asked. So an engine's own reads need not ask again.
//! - A checksum says that a page is as it was written, an inspector that it can have been written
//!   by this engine.

use std::fmt::Debug;

use littoral_base::units::Lba;

use crate::error::Result;
use crate::space::Space;

/// What a page may point at.
pub trait Places {
    /// Whether a page that is written in place may lie here.
    fn is_conventional(&self, at: Lba) -> bool;

    /// Whether an appended page may lie here: behind a data zone's pointer.
    fn is_appended(&self, at: Lba) -> bool;
}

impl Places for Space {
    fn is_conventional(&self, at: Lba) -> bool {
        Space::is_conventional(self, at)
    }

    fn is_appended(&self, at: Lba) -> bool {
        !Space::is_conventional(self, at) && self.may_hold_page(at)
    }
}

/// An engine's rules for single pages.
pub trait Inspect: Debug + Send + Sync {
    /// Checks the page at `at`.
    ///
    /// # Errors
    /// `Kind::Corrupt` naming the page and the rule that it breaks.
    fn inspect(&self, at: Lba, page: &[u8], places: &dyn Places) -> Result<()>;
}
