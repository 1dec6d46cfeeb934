//! Checks every structure of a pool: order, depth, and that each of its objects is reached once.
//!
//! - Every living root record of a structure is followed, named or not, through all its objects.
//!   What is reached twice, is of another type or is not alive is damage.
//! - An object of a structure's inner types that no structure reaches is damage too: a link was
//!   lost. (A root record ended before its entries leaves such objects as well.)
//! - Objects of types that this crate does not know are not looked into.

use std::collections::HashSet;

use littoral_device::memory::Domain;

use super::audit::{Audit, Checked, Damage};
use super::{BTreeHead, HashHead, ListHead, QueueHead, TreeHead, known_types, type_name};
use crate::error::Result;
use crate::pool::Pool;
use crate::record::Record;

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
        let object = |at| self.object_at(at);
        let mut ob = Audit::new(&object, type_name);
        for &(at, check) in &heads {
            check(at, &mut ob)?;
        }
        let (mut lost, mut lost_count) = (None, 0);
        self.walk(|o| {
            if known.contains(&o.tag) && !ob.reached().contains(&o.offset) {
                (lost, lost_count) = (lost.or(Some(o.offset)), lost_count + 1);
            }
            true
        })?;
        if let Some(at) = lost {
            let what = format!("{lost_count} objects belong to no structure, this is the first");
            return Err(ob.damage(at, what));
        }
        let (structures_count, objects_count) = (heads.len() as u64, ob.reached().len() as u64);
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
