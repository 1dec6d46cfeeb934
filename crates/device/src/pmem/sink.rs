//! A record of the instructions and system calls by which real domains persist, for tests.
//!
//! - In a build for unit tests every thread records what it asks the processor or the kernel for.
//!   In any other build [`note`] is empty and costs nothing.
//! - The record is made where the instruction or the call is issued, so a domain that omits one
//!   shows it, although the bytes of a running process look the same.

/// One instruction or call.
#[cfg_attr(not(test), allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A write-back instruction on the line at this address.
    WriteBack(usize),
    /// A line stored past the caches at this address.
    Stream(usize),
    /// The persistence fence.
    Fence,
    /// msync of a range of the mapping, in bytes: offset and length.
    Sync(usize, usize),
    /// fsync of a file and of the directory that names it.
    Named,
    /// The page cache's copy of a file dropped.
    Forgotten,
}

#[cfg(not(test))]
#[inline(always)]
pub(super) fn note(_: Event) {}

#[cfg(test)]
thread_local! {
    static EVENTS: std::cell::RefCell<Vec<Event>> = const { std::cell::RefCell::new(Vec::new()) };
}

#[cfg(test)]
pub(super) fn note(event: Event) {
    EVENTS.with_borrow_mut(|events| events.push(event));
}

/// What this thread has asked for since the last call.
#[cfg(test)]
pub(super) fn taken() -> Vec<Event> {
    EVENTS.take()
}
