/* littoral for C: test code for memory that is not DRAM.
 *
 *   scripts/install-capi.sh PREFIX
 *   cc your_check.c $(pkg-config --cflags --libs littoral)
 *
 * littoral_pmem_*: every image that a power cut could leave of a persistent-memory structure. Record
 * what your code stores, writes back, fences and acknowledges; then let the enumerator call you with
 * each image.
 *
 * littoral_pool_*: pooled memory that several hosts share without hardware coherence. On one machine
 * shared memory is coherent, which hides every missing write-back, fence and invalidation. Here each
 * node of your structure reaches the pool through a view of its own:
 *   - a cached line stays as it was, however old, until it is invalidated or evicted;
 *   - a store is in the node's cache alone until its line is written back or evicted;
 *   - any access may evict any line; a dirty one goes to the medium whole, stale bytes included;
 *   - a line written back reaches the medium at some time up to the fence.
 * Evictions are drawn from the seed and the node's own accesses, so a run can be repeated.
 *
 * Functions answer 0, or -1 for a null or a range outside the memory; nothing is changed then. A
 * pool's view may be used by several threads and keeps the pool's memory alive. A record of
 * littoral_pmem_* is used by one thread at a time. Both are memory of one process: a child that it
 * forks has copies, whose changes the parent does not see, and may use those that no other thread
 * was using at the fork. */


#ifndef LITTORAL_H
#define LITTORAL_H

/* Generated from crates/capi by cbindgen; do not edit. */

#include <stddef.h>
#include <stdint.h>

/*
 Pooled memory of several nodes.
 */
typedef struct littoral_pool littoral_pool;

/*
 What a persistent-memory structure stored, wrote back, fenced and acknowledged.
 */
typedef struct littoral_pmem littoral_pmem;

/*
 One node's way to the pool, through a cache of its own.
 */
typedef struct littoral_pool_view littoral_pool_view;

/*
 Checks one image: `image` holds `len` bytes, `acknowledged` commit points came before the cut.
 Answers 0 when the structure recovers to a state it may be in.
 */
typedef int (*littoral_pmem_check)(void *user,
                                   const uint8_t *image,
                                   size_t len,
                                   uint64_t acknowledged);

/*
 What a view has done.
 */
typedef struct {
  /*
   Lines evicted unasked.
   */
  uint64_t evictions;
  /*
   Lines written back by request.
   */
  uint64_t write_backs;
  /*
   Lines invalidated by request.
   */
  uint64_t invalidations;
  /*
   Dirty lines invalidated: stores lost by a mistake of the caller.
   */
  uint64_t lost_lines;
} littoral_pool_counts;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Starts a record over `len` bytes at `initial` (null: zeros); null when `len` is no positive
 multiple of 64 or more than 16 GiB.

 # Safety
 `initial` is null or points to `len` readable bytes.
 */
littoral_pmem *littoral_pmem_new(const uint8_t *initial, size_t len);

/*
 Ends a record.

 # Safety
 `trace` is null or came from `littoral_pmem_new` and was not freed.
 */
void littoral_pmem_free(littoral_pmem *trace);

/*
 Records a store of `len` bytes.

 # Safety
 `trace` is null or a live handle; `bytes` points to `len` readable bytes.
 */
int littoral_pmem_store(littoral_pmem *trace, size_t offset, const void *bytes, size_t len);

/*
 Records the write-back of the lines of a range by `actor`; an empty range has no line.

 # Safety
 `trace` is null or a live handle.
 */
int littoral_pmem_write_back(littoral_pmem *trace, uint32_t actor, size_t offset, size_t len);

/*
 Records a fence of `actor`.

 # Safety
 `trace` is null or a live handle.
 */
int littoral_pmem_fence(littoral_pmem *trace, uint32_t actor);

/*
 Records that what is fenced so far was acknowledged.

 # Safety
 `trace` is null or a live handle.
 */
int littoral_pmem_commit_point(littoral_pmem *trace, uint32_t actor);

/*
 Calls `check` for the images of every crash point, at most `per_point_max` each (a seeded sample
 beyond). `tear` is 0 for line prefixes, 1 for torn words. Answers 0 when every image passed, 1
 when one was refused, -1 for a bad argument; `images` (if not null) receives how many were
 checked. What `check` asks to be recorded on `trace` is answered -1.

 # Safety
 `trace` is null or a live handle; `check` may be called with `user` and does not free `trace`;
 `images` is null or writable.
 */
int littoral_pmem_enumerate(littoral_pmem *trace,
                            int tear,
                            uint64_t per_point_max,
                            uint64_t seed,
                            littoral_pmem_check check,
                            void *user,
                            uint64_t *images);

/*
 A pool of `len` zero bytes in which each access evicts a line with a chance of one in
 `evict_one_in`; null when `len` is no positive multiple of 64 or more than 16 GiB, or the chance
 is one in none.
 */
littoral_pool *littoral_pool_new(size_t len, uint64_t seed, uint32_t evict_one_in);

/*
 Gives a pool up; its views stay good.

 # Safety
 `pool` is null or came from `littoral_pool_new` and was not freed.
 */
void littoral_pool_free(littoral_pool *pool);

/*
 The view of node `node`, with a cold cache; null for a null pool.

 # Safety
 `pool` is null or a live handle.
 */
littoral_pool_view *littoral_pool_view_new(const littoral_pool *pool, uint16_t node);

/*
 Gives a view up: what its cache held and never wrote back is lost, as with a node that died.

 # Safety
 `view` is null or came from `littoral_pool_view_new` and was not freed.
 */
void littoral_pool_view_free(littoral_pool_view *view);

/*
 Loads `len` bytes as this node sees them, however old its cache is.

 # Safety
 `view` is null or a live handle; `into` is null or points to `len` writable bytes.
 */
int littoral_pool_load(const littoral_pool_view *view, size_t offset, void *into, size_t len);

/*
 Stores `len` bytes into this node's cache.

 # Safety
 `view` is null or a live handle; `bytes` is null or points to `len` readable bytes.
 */
int littoral_pool_store(const littoral_pool_view *view,
                        size_t offset,
                        const void *bytes,
                        size_t len);

/*
 Compares the aligned word at `offset` with `*expected` and stores `desired` if equal, in this
 node's cache alone: between nodes it promises nothing. Answers 1 when it stored; else 0, and
 `*expected` is what was there.

 # Safety
 `view` is null or a live handle; `expected` is null or points to a word.
 */
int littoral_pool_compare_exchange(const littoral_pool_view *view,
                                   size_t offset,
                                   uint64_t *expected,
                                   uint64_t desired);

/*
 Starts moving the lines of a range to the medium; they are there after the next fence.

 # Safety
 `view` is null or a live handle.
 */
int littoral_pool_write_back(const littoral_pool_view *view, size_t offset, size_t len);

/*
 Drops this node's copies of the lines of a range, dirty ones (a mistake, counted) included.

 # Safety
 `view` is null or a live handle.
 */
int littoral_pool_invalidate(const littoral_pool_view *view, size_t offset, size_t len);

/*
 Returns when every line written back before is on the medium.

 # Safety
 `view` is null or a live handle.
 */
int littoral_pool_fence(const littoral_pool_view *view);

/*
 Tells what a view has done.

 # Safety
 `view` is null or a live handle; `counts` is null or writable.
 */
int littoral_pool_view_counts(const littoral_pool_view *view, littoral_pool_counts *counts);

/*
 Tells the aligned word at `offset` as it is on the medium, past every cache.

 # Safety
 `pool` is null or a live handle; `word` is null or writable.
 */
int littoral_pool_medium_word(const littoral_pool *pool, size_t offset, uint64_t *word);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LITTORAL_H */
