/* Locks, nested locks, barriers, jia_wait, condition variables. */
#include <unistd.h>
#include "check.h"

int main(int argc, char **argv)
{
    int *sum, *box, i;
    jia_init(argc, argv);
    sum = (int *)jia_alloc1(4096);
    box = (int *)jia_alloc2p(4096, jiahosts - 1);
    for (i = 0; i < 50; i++) {
        jia_lock(3);
        sum[0] += 1;
        jia_lock(70);
        box[0] += 2;
        jia_unlock(70);
        jia_unlock(3);
    }
    jia_barrier();
    CHECK(sum[0] == 50 * jiahosts && box[0] == 100 * jiahosts);
    jia_wait();
    if (jiapid == 0) {
        jia_lock(1);
        sum[1] = 77;
        jia_unlock(1);
        jia_setcv(5);
    }
    jia_waitcv(5);
    jia_lock(1);
    CHECK(sum[1] == 77);
    jia_unlock(1);
    jia_wait();
    if (jiapid == 0) {
        jia_resetcv(5);
        jia_setcv(5);
    }
    jia_waitcv(5);
    /* A job of one waits for nothing: no other rank is there that would set the variable. */
    if (jiahosts == 1) {
        alarm(30);
        jia_waitcv(6);
        alarm(0);
    }
    AGREED("sync");
    return 0;
}
