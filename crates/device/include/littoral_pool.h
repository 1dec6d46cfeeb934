/* Pooled memory that forgives nothing: one private, stale, randomly evicting line cache a node.
 *
 *   cargo rustc -p littoral-device --release --crate-type staticlib
 *   cc your_test.c -I crates/device/include target/release/liblittoral_device.a -lpthread -ldl -lm
 *
 * On one machine shared memory is coherent, which hides every missing write-back, fence and
 * invalidation. Here each node of your structure reaches the pool through a view of its own, which
 * behaves as badly as memory that several hosts share without hardware coherence may:
 *   - a cached line stays as it was, however old, until it is invalidated or evicted;
 *   - a store is in the node's cache alone until its line is written back or evicted;
 *   - any access may evict any line; a dirty one goes to the medium whole, stale bytes included;
 *   - a line written back reaches the medium at some time up to the fence.
 * Evictions are drawn from the seed and the node's own accesses, so a run can be repeated.
 *
 * Functions answer 0, or -1 for a null or a range outside the pool (nothing is touched then).
 * A view may be used by several threads; it keeps the pool's memory alive.
 */
#ifndef LITTORAL_POOL_H
#define LITTORAL_POOL_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct littoral_pool littoral_pool;
typedef struct littoral_pool_view littoral_pool_view;

typedef struct littoral_pool_counts {
    uint64_t evictions;     /* lines evicted unasked */
    uint64_t write_backs;   /* lines written back by request */
    uint64_t invalidations; /* lines invalidated by request */
    uint64_t lost_lines;    /* dirty lines invalidated: stores lost by a mistake of the caller */
} littoral_pool_counts;

/* `len` zero bytes, a positive multiple of 64; an access evicts a line with a chance of one in
 * `evict_one_in` (UINT32_MAX: never). Null on a bad argument. */
littoral_pool *littoral_pool_new(size_t len, uint64_t seed, uint32_t evict_one_in);
void littoral_pool_free(littoral_pool *pool);

littoral_pool_view *littoral_pool_view_new(const littoral_pool *pool, uint16_t node);
/* What the view's cache never wrote back is lost, as with a node that died. */
void littoral_pool_view_free(littoral_pool_view *view);

int littoral_pool_load(const littoral_pool_view *view, size_t offset, void *into, size_t len);
int littoral_pool_store(const littoral_pool_view *view, size_t offset, const void *bytes, size_t len);
/* The aligned word at `offset`, in this node's cache alone: between nodes it promises nothing.
 * 1 when it stored; else 0, and `*expected` is what was there. */
int littoral_pool_compare_exchange(const littoral_pool_view *view, size_t offset,
                                   uint64_t *expected, uint64_t desired);

int littoral_pool_write_back(const littoral_pool_view *view, size_t offset, size_t len);
int littoral_pool_invalidate(const littoral_pool_view *view, size_t offset, size_t len);
int littoral_pool_fence(const littoral_pool_view *view);

int littoral_pool_view_counts(const littoral_pool_view *view, littoral_pool_counts *counts);
/* The aligned word at `offset` as it is on the medium, past every cache. */
int littoral_pool_medium_word(const littoral_pool *pool, size_t offset, uint64_t *word);
#ifdef __cplusplus
}
#endif
#endif
