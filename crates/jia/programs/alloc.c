/* Every way to allocate: zero bytes, one address on all ranks, pointers stored in shared memory. */
#include "check.h"

int main(int argc, char **argv)
{
    unsigned long at[9], seen[9];
    int sizes[2], n, i;
    int **shared;
    jia_init(argc, argv);
    sizes[0] = 5000;
    sizes[1] = 100;
    n = 20000;
    at[0] = jia_alloc(n);
    at[1] = jia_alloc1(n);
    at[2] = jia_alloc2(n, 8192);
    at[3] = jia_alloc2p(n, jiahosts - 1);
    at[4] = jia_alloc3(n, 4096, jiahosts - 1);
    at[5] = jia_alloc4(n, sizes, 2, 0);
    at[6] = jia_alloc_array(n, sizes, 2);
    at[7] = jia_alloc_random(n);
    at[8] = jia_alloc1(sizeof(int *) * 16);
    for (i = 0; i < 8; i++) {
        int *place = (int *)at[i];
        CHECK(place[0] == 0 && place[n / 4 - 1] == 0);
    }
    memcpy(seen, at, sizeof(at));
    jia_bcast((char *)seen, sizeof(seen), 0);
    CHECK(memcmp(seen, at, sizeof(at)) == 0);
    jia_barrier();
    shared = (int **)at[8];
    if (jiapid == 0)
        for (i = 0; i < 8; i++) {
            shared[i] = (int *)at[i] + n / 4 - 1;
            *shared[i] = i + 1;
        }
    jia_barrier();
    for (i = 0; i < 8; i++) CHECK(*shared[i] == i + 1);
    jia_barrier();
    jia_free((unsigned char *)at[0]);
    AGREED("alloc");
    return 0;
}
