//! Checks every structure of a pool: order, depth, and that each of its objects is reached once.
//!
//! - Every living root record of a structure is followed, named or not, through all its objects.
//!   What is reached twice, is of another type or is not alive is damage.
//! - An object of a structure's inner types that no structure reaches is damage too: a link was
//!   lost. (A root record ended before its entries leaves such objects as well.)
//! - Objects of types that this crate does not know are not looked into.

use std::collections::HashSet;

use littoral_device::memory::Domain;

use super::{BTreeHead, HashHead, ListHead, QueueHead, TreeHead, known_types};
use crate::error::{Error, Kind, Result};
use crate::pool::{ObjectView, Pool, type_name};
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
}

impl Audit<'_> {
    /// The object of type `T` at `at`, reached for the first time.
    pub(crate) fn enter<T: Record>(&mut self, at: u64) -> Result<T, Damage> {
        let found = (self.object)(at)?.filter(|o| o.tag == T::TAG);
        let Some(object) = found else {
            return Err(self.damage(at, format!("no living '{}' is there", T::NAME)));
        };
        if !self.reached.insert(at) {
            return Err(self.damage(at, format!("the '{}' there is reached twice", T::NAME)));
        }
        Ok(T::load(|i| object.words[i]))
    }

    /// Damage at offset `at`.
    pub(crate) fn damage(&self, at: u64, what: String) -> Damage {
        let found = (self.object)(at).ok().flatten();
        let name = found.and_then(|o| type_name(o.tag)).unwrap_or("structure");
        Error::new(Kind::Corrupt, format!("offset {at:#x}, {name}: {what}; nothing changed"))
            .at_offset(at)
    }
}

/// What was looked over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Structures {
    /// Structures found.
    pub structures_count: u64,
    /// Objects that they consist of, root records included.
    pub objects_count: u64,
}

impl<D: Domain> Pool<D> {
    /// Looks over every structure of this crate: the order of its keys, its depth, and that each of
    /// its objects is alive and reached exactly once. Meant for an idle pool.
    ///
    /// # Errors
    /// `Kind::Corrupt` with the offset for damage, `Kind::Device`.
    pub fn check_structures(&self) -> Result<Structures> {
        let known: HashSet<u64> = known_types().into_iter().map(|k| k.0).collect();
        let mut heads = Vec::new();
        self.walk(|o| {
            heads.extend(check_of(o.tag).map(|check| (o.offset, check)));
            true
        })?;
        let mut ob = Audit { object: &|at| self.object_at(at), reached: HashSet::new() };
        for &(at, check) in &heads {
            check(at, &mut ob)?;
        }
        let (mut lost, mut lost_count) = (None, 0);
        self.walk(|o| {
            if known.contains(&o.tag) && !ob.reached.contains(&o.offset) {
                (lost, lost_count) = (lost.or(Some(o.offset)), lost_count + 1);
            }
            true
        })?;
        if let Some(at) = lost {
            let what = format!("{lost_count} objects belong to no structure, this is the first");
            return Err(ob.damage(at, what));
        }
        let (structures_count, objects_count) = (heads.len() as u64, ob.reached.len() as u64);
        Ok(Structures { structures_count, objects_count })
    }
}

/// Looks over the structure at an offset.
type Check = fn(u64, &mut Audit<'_>) -> Result<(), Damage>;

/// How the structure with a root record of this tag is looked over.
fn check_of(tag: u64) -> Option<Check> {
    match tag {
        t if t == HashHead::TAG => Some(HashHead::check),
        t if t == TreeHead::TAG => Some(TreeHead::check),
        t if t == ListHead::TAG => Some(ListHead::check),
        t if t == BTreeHead::TAG => Some(BTreeHead::check),
        t if t == QueueHead::TAG => Some(QueueHead::check),
        _ => None,
    }
}
