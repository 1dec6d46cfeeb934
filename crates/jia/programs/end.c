/* A main that never calls jia_exit, as pi of JIAJIA 2.1 does: its return leaves the job. */
#include <unistd.h>
#include "check.h"

int main(int argc, char **argv)
{
    int *sums, i, all = 0;
    jia_init(argc, argv);
    sums = (int *)jia_alloc3(4096ul * jiahosts, 4096, 0);
    sums[1024 * jiapid] = jiapid + 1;
    jia_barrier();
    if (jiapid == 0) {
        /* The others have returned by now, and each keeps a page that is read. */
        usleep(100000);
        for (i = 0; i < jiahosts; i++) all += sums[1024 * i];
        CHECK(all == jiahosts * (jiahosts + 1) / 2);
        printf("end agrees with one process\n");
    }
    return 0;
}
