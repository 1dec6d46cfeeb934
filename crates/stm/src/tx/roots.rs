//! Names: set, looked up and taken back inside a transaction.
//!
//! - A name leads to a living object. Naming locks the object and notes its offset in
//!   [`crate::root::Named`] before the lock ends; ending an object locks it first and asks there.
//!   So of a transaction that names an object and one that ends it the later one sees the other.
//! - A name that is taken back makes room for another.

use std::marker::PhantomData;

use littoral_device::memory::Domain;

use super::Tx;
use crate::error::{Abort, Error, Kind};
use crate::format::object_bytes;
use crate::record::{Record, Ref, Whole};
use crate::root::{Root, packed};

impl<'p, D: Domain> Tx<'_, 'p, D> {
    /// What `name` leads to.
    ///
    /// # Errors
    /// A conflict; `Kind::BadReference` when it is of another type; `Kind::Usage` for a bad name;
    /// `Kind::Corrupt` for a damaged root.
    pub fn root<T: Record>(&mut self, name: &str) -> Result<Option<Ref<T>>, Abort> {
        match self.find_root(&packed(name)?).map_err(|abort| self.lose(abort))? {
            Ok((_, root)) => root.target().map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Makes `name` lead to `to`, replacing what it led to; a null reference takes the name back.
    ///
    /// # Errors
    /// A conflict; `Kind::BadReference` when `to` is no living object; `Kind::Full` when there are
    /// too many names; `Kind::Usage` for a bad name.
    pub fn set_root<T: Record>(&mut self, name: &str, to: Ref<T>) -> Result<(), Abort> {
        if to.is_null() {
            return self.clear_root(name).map(drop);
        }
        self.name(name, to).map_err(|abort| self.fail(abort))
    }

    fn name<T: Record>(&mut self, name: &str, to: Ref<T>) -> Result<(), Abort> {
        let value = Root::new(name, to)?;
        // The object is locked, unchanged, so that no other transaction ends it meanwhile.
        let object = self.read(to)?;
        self.write(to, &object)?;
        self.pool.named.add(to.offset());
        let spare = match self.find_root(&packed(name)?)? {
            Ok((at, _)) => return self.write(at, &value),
            Err(spare) => spare,
        };
        let Some(at) = spare else {
            let text = format!(
                "no room for another name: the pool holds {}; take one back first",
                self.pool.layout.roots_max()
            );
            return Err(Error::new(Kind::Full, text).into());
        };
        let place = self.pool.locate(at)?;
        let entry = self.open::<Root>(place, true)?;
        self.th.writes[entry].fresh = false;
        self.th.writes[entry].live = true;
        self.th.writes[entry].len = Root::WORDS as u32;
        self.put(entry, &value);
        Ok(())
    }

    /// Takes `name` back; whether it was there. What it led to stays.
    ///
    /// # Errors
    /// A conflict; `Kind::Usage` for a bad name.
    pub fn clear_root(&mut self, name: &str) -> Result<bool, Abort> {
        self.unname(name).map_err(|abort| self.fail(abort))
    }

    fn unname(&mut self, name: &str) -> Result<bool, Abort> {
        match self.find_root(&packed(name)?)? {
            Ok((at, _)) => self.end_root(at).map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// Takes back every name of the object at `offset`, which this transaction ends.
    #[cold]
    #[inline(never)]
    pub(super) fn end_names(&mut self, offset: u64) -> Result<(), Abort> {
        for at in self.roots() {
            if self.root_at(at)?.is_some_and(|root| root.at() == offset) {
                self.end_root(at)?;
            }
        }
        Ok(())
    }

    /// The root of a name, or a place for another.
    #[allow(clippy::type_complexity)]
    fn find_root(
        &mut self,
        name: &[u64; 4],
    ) -> Result<Result<(Ref<Root>, Root), Option<Ref<Root>>>, Abort> {
        let mut spare = None;
        for at in self.roots() {
            match self.root_at(at)? {
                Some(root) if root.is(name) => return Ok(Ok((at, root))),
                Some(_) => {}
                None => spare = spare.or(Some(at)),
            }
        }
        Ok(Err(spare))
    }

    fn end_root(&mut self, at: Ref<Root>) -> Result<(), Abort> {
        let place = self.pool.locate(at)?;
        let entry = self.open::<Root>(place, false)?;
        let entry = &mut self.th.writes[entry];
        (entry.live, entry.len) = (false, 0);
        Ok(())
    }

    fn roots(&self) -> impl Iterator<Item = Ref<Root>> + use<D> {
        let layout = self.pool.layout;
        let step = const { object_bytes(Root::WORDS) };
        let per_slab = layout.slab_bytes() / step;
        let at = move |i: usize| layout.slab_offset(i / per_slab) + i % per_slab * step;
        (0..layout.roots_max()).map(move |i| Ref::from_offset(at(i) as u64))
    }

    fn root_at(&mut self, at: Ref<Root>) -> Result<Option<Root>, Abort> {
        let place = self.pool.locate(at)?;
        let root = self.inspect_slowly::<Root, _>(place, &mut Whole::<Root>(PhantomData))?;
        Ok(root.map(|root| root.checked(at.offset())).transpose()?)
    }
}
