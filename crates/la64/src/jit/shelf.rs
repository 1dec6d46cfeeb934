//! A few large values that are added while other threads, and handlers of signals, look through
//! them without a lock.

use std::sync::OnceLock;

/// Values there can be.
const LEN: usize = 64;

/// Values in the order in which they were added.
#[derive(Debug)]
pub(crate) struct Shelf<T>([OnceLock<T>; LEN]);

impl<T> Default for Shelf<T> {
    fn default() -> Shelf<T> {
        Shelf([const { OnceLock::new() }; LEN])
    }
}

impl<T> Shelf<T> {
    /// Adds a value: its place, or `None` if there is no room. One thread at a time adds.
    pub(crate) fn add(&self, value: T) -> Option<usize> {
        let place = self.0.iter().position(|slot| slot.get().is_none())?;
        self.0[place].set(value).ok().map(|()| place)
    }

    /// Whether there is no room.
    pub(crate) fn is_full(&self) -> bool {
        self.0[LEN - 1].get().is_some()
    }

    /// The value of a place. Takes no lock.
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        self.0.get(place)?.get()
    }

    /// All values. Takes no lock.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map_while(OnceLock::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_places_until_there_is_no_room() {
        let shelf = Shelf::default();
        for n in 0..LEN {
            assert!(!shelf.is_full());
            assert_eq!(shelf.add(n), Some(n));
        }
        assert!(shelf.is_full() && shelf.add(0).is_none() && shelf.get(LEN).is_none());
        assert!(shelf.iter().copied().eq(0..LEN) && shelf.get(3) == Some(&3));
    }
}
