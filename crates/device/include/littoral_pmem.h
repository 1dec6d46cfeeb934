/* Every image a power cut could leave of your persistent-memory structure.
 *
 *   cargo rustc -p littoral-device --release --crate-type staticlib
 *   cc your_check.c -I crates/device/include target/release/liblittoral_device.a -lpthread -ldl -lm
 *
 * Record what your code stores, writes back, fences and acknowledges; then let the enumerator call you
 * with each image. Functions answer 0, or -1 for a bad argument (nothing is recorded then).
 */
#ifndef LITTORAL_PMEM_H
#define LITTORAL_PMEM_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct littoral_pmem littoral_pmem;

/* Answers 0 when the structure recovers from `image` to a state it may be in. */
typedef int (*littoral_pmem_check)(void *user, const uint8_t *image, size_t len,
                                   uint64_t acknowledged);

/* `len` is a multiple of 64; `initial` may be null for zeros. Null on a bad length. */
littoral_pmem *littoral_pmem_new(const uint8_t *initial, size_t len);
void littoral_pmem_free(littoral_pmem *trace);
int littoral_pmem_store(littoral_pmem *trace, size_t offset, const void *bytes, size_t len);
int littoral_pmem_write_back(littoral_pmem *trace, uint32_t actor, size_t offset, size_t len);
int littoral_pmem_fence(littoral_pmem *trace, uint32_t actor);
int littoral_pmem_commit_point(littoral_pmem *trace, uint32_t actor);

/* tear: 0 line prefixes (x86), 1 torn words. Answers 0 all passed, 1 one was refused, -1. */
int littoral_pmem_enumerate(littoral_pmem *trace, int tear, uint64_t per_point_max, uint64_t seed,
                            littoral_pmem_check check, void *user, uint64_t *images);
#ifdef __cplusplus
}
#endif
#endif
