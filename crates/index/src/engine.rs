//! Which tree an index is, and the tag by which its store names it.

use crate::{Error, Kind, Result};

/// Which tree an index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// The ZB+-tree; needs conventional zones.
    Zb,
    /// The copy-on-write tree.
    Cow,
}

impl Engine {
    /// The name on the command line and in claim ids.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Zb => "zb",
            Engine::Cow => "cow",
        }
    }

    /// The engine of that name.
    ///
    /// # Errors
    /// `Kind::Usage` listing the names.
    pub fn named(name: &str) -> Result<Engine> {
        let unknown =
            || Error::new(Kind::Usage, format!("no engine '{name}'; there are zb and cow"));
        [Engine::Zb, Engine::Cow].into_iter().find(|e| e.name() == name).ok_or_else(unknown)
    }

    /// The engine with this tag.
    pub(crate) fn tagged(tag: [u8; 8]) -> Option<Engine> {
        [Engine::Zb, Engine::Cow].into_iter().find(|e| e.tag() == tag)
    }

    pub(crate) const fn tag(self) -> [u8; 8] {
        match self {
            Engine::Zb => *b"zb\0\0\0\0\0\0",
            Engine::Cow => *b"cow\0\0\0\0\0",
        }
    }
}
