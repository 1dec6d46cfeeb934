/* Updates of k random objects of 24 bytes through libpmemobj, for repro's sdtm.*.vs_pmdk.
 *
 * usage: pmdk_update POOL OBJECTS; then lines "k n" on standard input. Each answers one line: the
 * processor time of n transactions of k objects, in nanoseconds. Objects are allocated one by one;
 * a transaction logs and stores each; the picks are those of the other engines. One thread and no
 * lock around the transactions, in libpmemobj's favour. */
#include <inttypes.h>
#include <libpmemobj.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct object {
    uint64_t words[3];
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int update(PMEMobjpool *pop, struct object **objects, uint64_t count, int k, uint64_t i)
{
    volatile int done = 0;
    TX_BEGIN(pop) {
        for (int n = 0; n < k; n++) {
            uint64_t word = mix(mix(i) ^ (uint64_t)n << 32);
            struct object *o = objects[(uint64_t)(((__uint128_t)word * count) >> 64)];
            pmemobj_tx_add_range_direct(o, sizeof *o);
            o->words[0] = o->words[1] = o->words[2] = i;
        }
    } TX_ONCOMMIT {
        done = 1;
    } TX_END
    return done;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: pmdk_update POOL OBJECTS\n");
        return 2;
    }
    uint64_t count = strtoull(argv[2], NULL, 10);
    PMEMobjpool *pop = pmemobj_create(argv[1], "littoral.bench", (size_t)256 << 20, 0600);
    struct object **objects = calloc(count, sizeof *objects);
    if (pop == NULL || objects == NULL) {
        fprintf(stderr, "pmdk_update: %s\n", pmemobj_errormsg());
        return 3;
    }
    /* Shared memory must not keep the pool of a run that is interrupted. */
    unlink(argv[1]);
    for (uint64_t i = 0; i < count; i++) {
        PMEMoid oid;
        if (pmemobj_zalloc(pop, &oid, sizeof(struct object), 1) != 0) {
            fprintf(stderr, "pmdk_update: %s\n", pmemobj_errormsg());
            return 3;
        }
        objects[i] = pmemobj_direct(oid);
    }
    int k;
    uint64_t n;
    while (scanf("%d %" SCNu64, &k, &n) == 2) {
        uint64_t start = cpu_ns();
        for (uint64_t i = 0; i < n; i++) {
            if (!update(pop, objects, count, k, i)) {
                fprintf(stderr, "pmdk_update: %s\n", pmemobj_errormsg());
                return 3;
            }
        }
        printf("%" PRIu64 "\n", cpu_ns() - start);
        fflush(stdout);
    }
    pmemobj_close(pop);
    return 0;
}
