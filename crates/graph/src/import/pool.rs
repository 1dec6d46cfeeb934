//! Blocks of text, parsed by several threads and joined in the order of the file.
//!
//! Invariants
//! - Parts are joined in the order of their blocks, whichever thread parsed them. Checked by
//!   `threads_and_blocks_change_neither_graph_nor_fault`,
//!   `counted_files_of_many_blocks_are_read_alike_by_any_threads`.
//! - At most [`AHEAD`] blocks per thread are in memory and not joined, however unevenly threads
//!   run. Checked by `no_block_is_handed_out_far_ahead_of_the_join`.
//! - A thread that panics ends the others. Checked by `a_thread_that_panics_ends_the_others`.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use littoral_base::mutant;

use super::ImportOptions;
use super::input::{Block, Blocks};
use crate::error::Result;

/// Blocks per thread that may be taken and not joined.
pub(super) const AHEAD: usize = 3;

/// How many threads parse.
pub(super) fn threads_of(options: &ImportOptions) -> usize {
    let available = || std::thread::available_parallelism().map_or(1, usize::from);
    options.threads.unwrap_or_else(available).max(1)
}

/// Parses blocks by `threads` threads; `join` gets what was made of each, in the file's order.
///
/// # Errors
/// What reading the next block or joining ends with.
pub(super) fn parse_in_order<T: Send>(
    mut blocks: Blocks,
    threads: usize,
    parse: impl Fn(Block) -> T + Sync,
    mut join: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    if threads == 1 {
        while let Some(block) = blocks.next()? {
            join(parse(block))?;
        }
        return Ok(());
    }
    let feed = SharedFeed::new(blocks, (threads * AHEAD) as u64);
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(threads * AHEAD);
        for _ in 0..threads {
            let (sender, feed, parse) = (sender.clone(), &feed, &parse);
            scope.spawn(move || work(feed, parse, &sender));
        }
        drop(sender);
        // After an error or a panic threads may wait for room.
        let _closing = Closing(&feed);
        join_in_order(&receiver, &feed, &mut join)
    })
}

fn join_in_order<T>(
    receiver: &Receiver<Numbered<T>>,
    feed: &SharedFeed,
    join: &mut impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let (mut waiting, mut next) = (BTreeMap::new(), 0u64);
    for (number, parsed) in receiver {
        waiting.insert(number, parsed);
        while let Some(parsed) = waiting.remove(&next) {
            join(parsed?)?;
            next += 1;
            feed.joined(next);
        }
    }
    Ok(())
}

/// What was made of a block, and its number; or why there is none.
type Numbered<T> = (u64, Result<T>);

/// A block to parse, why there is none, or that an earlier one has to be joined first.
enum Taken {
    Block(u64, Result<Block>),
    Full,
    End,
}

/// Blocks, the number of the next one, and how many have been joined.
struct Feed {
    blocks: Blocks,
    next: u64,
    joined: u64,
    /// Blocks that may be taken and not joined.
    ahead: u64,
    ended: bool,
}

impl Feed {
    fn take(&mut self) -> Taken {
        if self.ended {
            return Taken::End;
        }
        if self.next >= self.joined + self.ahead && !mutant!("graph_blocks_unbounded") {
            return Taken::Full;
        }
        let number = self.next;
        self.next += 1;
        let block = self.blocks.next().transpose();
        self.ended = !matches!(block, Some(Ok(_)));
        block.map_or(Taken::End, |block| Taken::Block(number, block))
    }
}

/// A feed of several threads.
struct SharedFeed {
    feed: Mutex<Feed>,
    changed: Condvar,
}

impl SharedFeed {
    fn new(blocks: Blocks, ahead: u64) -> Self {
        let feed = Feed { blocks, next: 0, joined: 0, ahead, ended: false };
        SharedFeed { feed: Mutex::new(feed), changed: Condvar::new() }
    }

    /// The next block and its number; waits while too many are not joined.
    fn take(&self) -> Option<(u64, Result<Block>)> {
        let mut feed = self.lock();
        loop {
            match feed.take() {
                Taken::Block(number, block) => return Some((number, block)),
                Taken::End => return None,
                Taken::Full => {
                    feed = self.changed.wait(feed).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Says how many blocks have been joined.
    fn joined(&self, count: u64) {
        self.lock().joined = count;
        self.changed.notify_all();
    }

    /// Hands out nothing more.
    fn close(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Feed> {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes a feed when its holder ends, however it does.
struct Closing<'f>(&'f SharedFeed);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Parses blocks until there are none or the receiver is gone.
fn work<T>(feed: &SharedFeed, parse: &impl Fn(Block) -> T, sender: &SyncSender<Numbered<T>>) {
    let _closing = Closing(feed);
    while let Some((number, block)) = feed.take() {
        if sender.send((number, block.map(parse))).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Delimiter;
    use super::super::input::Input;
    use super::*;

    #[test]
    fn a_thread_that_panics_ends_the_others() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "1 2\n".repeat(100)).unwrap();
        let input = Input::open(file.path()).unwrap();
        let blocks = input.into_blocks(Delimiter::Space, [None, None]);
        let feed = SharedFeed::new(blocks.of_bytes(Some(4)), 1);
        assert!(feed.take().is_some());
        let panicking = std::panic::AssertUnwindSafe(|| {
            let _closing = Closing(&feed);
            panic!("while a block is parsed");
        });
        assert!(std::panic::catch_unwind(panicking).is_err());
        assert!(feed.take().is_none(), "and not waiting for the block to be joined");
    }

    #[test]
    fn no_block_is_handed_out_far_ahead_of_the_join() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "1 2\n".repeat(100)).unwrap();
        let input = Input::open(file.path()).unwrap();
        let blocks = input.into_blocks(Delimiter::Space, [None, None]);
        let feed = SharedFeed::new(blocks.of_bytes(Some(4)), 6);
        let taken =
            || (0..100).take_while(|_| matches!(feed.lock().take(), Taken::Block(..))).count();
        assert_eq!(taken(), 6, "none is joined");
        feed.joined(2);
        assert_eq!(taken(), 2, "two are joined");
        assert!(matches!(feed.lock().take(), Taken::Full));
    }
}
