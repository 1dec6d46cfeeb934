/* Integer sort by buckets: is KEYS BUCKETS ROUNDS; a shared histogram is added up under a lock. */
#include "check.h"

static unsigned key(int i, unsigned buckets)
{
    unsigned x = (unsigned)i * 2654435761u;
    return ((x >> 7) ^ (x >> 17)) % buckets;
}

int main(int argc, char **argv)
{
    int keys, buckets, rounds, i, r, begin, end;
    int *shared, *part, *whole;
    jia_init(argc, argv);
    keys = argc > 1 ? atoi(argv[1]) : 20000;
    buckets = argc > 2 ? atoi(argv[2]) : 512;
    rounds = argc > 3 ? atoi(argv[3]) : 3;
    shared = (int *)jia_alloc1(buckets * sizeof(int));
    part = (int *)calloc(buckets, sizeof(int));
    whole = (int *)calloc(buckets, sizeof(int));
    begin = 0;
    end = keys - 1;
    for (i = 0; i < keys; i++) whole[key(i, buckets)] += 1;
    jia_divtask(&begin, &end);
    jia_barrier();
    jia_startstat();
    for (r = 0; r < rounds; r++) {
        memset(part, 0, buckets * sizeof(int));
        for (i = begin; i <= end; i++) part[key(i, buckets)] += 1;
        jia_lock(0);
        for (i = 0; i < buckets; i++) shared[i] += part[i];
        jia_unlock(0);
        jia_barrier();
        for (i = 0; i < buckets; i++) CHECK(shared[i] == whole[i] * (r + 1));
        jia_barrier();
    }
    jia_stopstat();
    AGREED("is");
    return 0;
}
