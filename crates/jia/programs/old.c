/* A main that returns nothing, as in JIAJIA's own programs: before C of 1999 the program's code is what the
 * last call left, which is jia_exit. */
#pragma GCC diagnostic ignored "-Wreturn-type"
#include "check.h"

int main(int argc, char **argv)
{
    int *sum;
    jia_init(argc, argv);
    sum = (int *)jia_alloc1(sizeof(int));
    jia_lock(0);
    *sum += 1;
    jia_unlock(0);
    jia_barrier();
    CHECK(*sum == jiahosts);
    AGREED("old");
}
