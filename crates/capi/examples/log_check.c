/* A small append-only log in persistent memory, tested by every image a power cut could leave of it.
 * The correct log fences each entry before the length that admits it; the careless one does not.
 *
 *   scripts/install-capi.sh PREFIX
 *   export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig
 *   cc crates/capi/examples/log_check.c $(pkg-config --cflags --libs littoral) -o log_check
 *   ./log_check
 */
#include <stdio.h>
#include <string.h>

#include "littoral.h"

enum { LENGTH_AT = 0, ENTRIES_AT = 64, ENTRIES = 4, BYTES = 64 + ENTRIES * 64 };

static int check(void *user, const uint8_t *image, size_t len, uint64_t acknowledged)
{
    uint64_t length, value, i;
    (void)user;
    (void)len;
    memcpy(&length, image + LENGTH_AT, 8);
    if (length < acknowledged || length > ENTRIES)
        return 1;
    for (i = 0; i < length; i++) {
        memcpy(&value, image + ENTRIES_AT + i * 64, 8);
        if (value != i + 100)
            return 1;
    }
    return 0;
}

static int run(int careful, uint64_t *images)
{
    littoral_pmem *t = littoral_pmem_new(NULL, BYTES);
    uint64_t i;
    int verdict;
    for (i = 0; i < ENTRIES; i++) {
        uint64_t value = i + 100, length = i + 1;
        size_t at = ENTRIES_AT + i * 64;
        littoral_pmem_store(t, at, &value, 8);
        littoral_pmem_write_back(t, 1, at, 8);
        if (careful)
            littoral_pmem_fence(t, 1);
        littoral_pmem_store(t, LENGTH_AT, &length, 8);
        littoral_pmem_write_back(t, 1, LENGTH_AT, 8);
        littoral_pmem_fence(t, 1);
        littoral_pmem_commit_point(t, 1);
    }
    verdict = littoral_pmem_enumerate(t, 1, 1000, 1, check, NULL, images);
    littoral_pmem_free(t);
    return verdict;
}

int main(void)
{
    uint64_t images = 0;
    int careful = run(1, &images);
    printf("careful log: %s over %llu images\n", careful ? "BROKEN" : "sound",
           (unsigned long long)images);
    printf("careless log: %s\n", run(0, &images) ? "broken, as it should be" : "NOT CAUGHT");
    return careful != 0;
}
