//! What structures use of a transaction, so that the baselines measured beside it run them too.

use littoral_device::memory::Domain;

use super::Tx;
use crate::error::Abort;
use crate::record::{By, Look, Record, Ref, Words};

/// What structures need of a transaction; implemented by [`Tx`] and by the baselines measured
/// beside it.
pub trait Access {
    /// Copies a record.
    ///
    /// # Errors
    /// A conflict, or `Kind::BadReference`.
    fn read<T: Record>(&mut self, at: Ref<T>) -> Result<T, Abort>;
    /// Looks at a record's words without copying it all; `look` may run more than once and on words
    /// that are being replaced (see [`Words`]), only what it made of sound ones is answered.
    ///
    /// # Errors
    /// As `read`.
    fn look<T: Record, L: Look>(&mut self, at: Ref<T>, look: L) -> Result<L::Out, Abort>;
    /// The same with a closure.
    ///
    /// # Errors
    /// As `read`.
    #[inline(always)]
    fn inspect<T: Record, R>(
        &mut self,
        at: Ref<T>,
        look: impl FnMut(Words<'_>) -> R,
    ) -> Result<R, Abort> {
        self.look(at, By(look))
    }
    /// Replaces a record.
    ///
    /// # Errors
    /// As `read`; `Kind::ReadOnly`.
    fn write<T: Record>(&mut self, at: Ref<T>, value: &T) -> Result<(), Abort>;
    /// Makes a record.
    ///
    /// # Errors
    /// A conflict, `Kind::Full`, `Kind::ReadOnly`.
    fn alloc<T: Record>(&mut self, value: &T) -> Result<Ref<T>, Abort>;
    /// Ends a record.
    ///
    /// # Errors
    /// As `write`.
    fn free<T: Record>(&mut self, at: Ref<T>) -> Result<(), Abort>;
    /// Ends the transaction for `abort`, also where a closure drops it: for an operation made of
    /// several that failed when some were done. An engine whose closures drop no error need not.
    fn fail(&mut self, abort: Abort) -> Abort {
        abort
    }
}

impl<D: Domain> Access for Tx<'_, '_, D> {
    #[inline(always)]
    fn read<T: Record>(&mut self, at: Ref<T>) -> Result<T, Abort> {
        Tx::read(self, at)
    }
    #[inline(always)]
    fn look<T: Record, L: Look>(&mut self, at: Ref<T>, look: L) -> Result<L::Out, Abort> {
        self.see(at, look)
    }
    #[inline(always)]
    fn write<T: Record>(&mut self, at: Ref<T>, value: &T) -> Result<(), Abort> {
        Tx::write(self, at, value)
    }
    fn alloc<T: Record>(&mut self, value: &T) -> Result<Ref<T>, Abort> {
        Tx::alloc(self, value)
    }
    fn free<T: Record>(&mut self, at: Ref<T>) -> Result<(), Abort> {
        Tx::free(self, at)
    }
    #[cold]
    fn fail(&mut self, abort: Abort) -> Abort {
        Tx::fail(self, abort)
    }
}
