/* The paper's two codes by the names of its library, and the older names of the two variables. */
#include "check.h"

int main(int argc, char **argv)
{
    int i, *p;
    jia_numa_init(argc, argv);
    p = (int *)jia_numa_alloc(sizeof(int));
    jia_numa_wait();
    for (i = 0; i < 1000; i++) {
        jia_numa_lock(0);
        *p += 1;
        jia_numa_unlock(0);
    }
    jia_numa_barrier();
    CHECK(*p == 1000 * hostc && hostc == jiahosts);
    jia_numa_barrier();
    for (i = 0; i < 100; i++) {
        if (jia_pid == 0) *p = i;
        jia_numa_barrier();
        CHECK(*p == i);
        jia_numa_wait();
    }
    jia_numa_barrier();
    if (jiapid == 0) printf("numa agrees with one process\n");
    jia_numa_exit();
    return 0;
}
