//! Following a structure through its objects: what is reached twice, is of another type or is not
//! alive is damage.

use std::collections::HashSet;

use crate::error::{Error, Kind, Result};
use crate::pool::ObjectView;
use crate::record::Record;

/// What is wrong, and where.
pub(crate) type Damage = Error;

/// A root record whose structure can be looked over.
pub(crate) trait Checked {
    /// Follows the structure whose root record is at `at`.
    fn check(at: u64, ob: &mut Audit<'_>) -> Result<(), Damage>;
}

/// A pool whose structures are followed, and what of them has been reached.
pub(crate) struct Audit<'a> {
    object: &'a dyn Fn(u64) -> Result<Option<ObjectView>>,
    reached: HashSet<u64>,
    name_of: fn(u64) -> Option<&'static str>,
}

impl<'a> Audit<'a> {
    /// Nothing reached yet of a pool whose objects `object` shows; `name_of` tells types by tag.
    pub(super) fn new(
        object: &'a dyn Fn(u64) -> Result<Option<ObjectView>>,
        name_of: fn(u64) -> Option<&'static str>,
    ) -> Self {
        Audit { object, reached: HashSet::new(), name_of }
    }

    /// The offsets reached so far.
    pub(super) fn reached(&self) -> &HashSet<u64> {
        &self.reached
    }

    /// The object of type `T` at `at`, reached for the first time.
    pub(crate) fn enter<T: Record>(&mut self, at: u64) -> Result<T, Damage> {
        let found = (self.object)(at)?.filter(|o| o.tag == T::TAG);
        let Some(object) = found else {
            return Err(self.damage(at, format!("no living '{}' is there", T::NAME)));
        };
        if object.words.len() != T::WORDS {
            let words = object.words.len();
            let text = format!("'{}' has {} words, its slab says {words} words", T::NAME, T::WORDS);
            return Err(self.damage(at, text));
        }
        if !self.reached.insert(at) {
            return Err(self.damage(at, format!("the '{}' there is reached twice", T::NAME)));
        }
        Ok(T::load(|i| object.words[i]))
    }

    /// Damage at offset `at`.
    pub(crate) fn damage(&self, at: u64, what: String) -> Damage {
        let found = (self.object)(at).ok().flatten();
        let name = found.and_then(|o| (self.name_of)(o.tag)).unwrap_or("structure");
        Error::new(Kind::Corrupt, format!("offset {at:#x}, {name}: {what}; nothing changed"))
            .at_offset(at)
    }
}
