/* Messages, broadcast, reductions, one-sided pages. */
#include "check.h"

int main(int argc, char **argv)
{
    static char page[65536];
    double part[2], sum[2];
    int next, before, number, got, ints[1], most[1];
    float least[1], part_f[1];
    unsigned char *shared;
    jia_init(argc, argv);
    next = (jiapid + 1) % jiahosts;
    before = (jiapid + jiahosts - 1) % jiahosts;
    number = jiapid * 10;
    jia_send((char *)&number, sizeof(number), next, 4);
    CHECK(jia_recv((char *)&got, sizeof(got), before, 4) == (int)sizeof(got) && got == before * 10);
    /* From any host, with any tag, and both: -1, as in JIAJIA. */
    for (number = 0; jiapid != 0 && number < 3; number++)
        jia_send((char *)&jiapid, sizeof(jiapid), 0, number == 0 ? 100 + jiapid : 200);
    if (jiapid == 0) {
        for (number = 1; number < jiahosts; number++)
            CHECK(jia_recv((char *)&got, sizeof(got), -1, 100 + number) == (int)sizeof(got) && got == number);
        for (number = 1; number < jiahosts; number++)
            CHECK(jia_recv((char *)&got, sizeof(got), number, -1) == (int)sizeof(got) && got == number);
        for (number = 1, most[0] = 0; number < jiahosts; number++, most[0] += got)
            CHECK(jia_recv((char *)&got, sizeof(got), -1, -1) == (int)sizeof(got));
        CHECK(most[0] == jiahosts * (jiahosts - 1) / 2);
    }
    number = jiapid == 0 ? 1234 : 0;
    jia_bcast((char *)&number, sizeof(number), 0);
    CHECK(number == 1234);
    part[0] = jiapid + 0.5;
    part[1] = -jiapid;
    jia_reduce((char *)part, (char *)sum, 2, 20, 0);
    if (jiapid == 0) CHECK(sum[0] == jiahosts * jiahosts / 2.0 && sum[1] == -jiahosts * (jiahosts - 1) / 2);
    ints[0] = 3 + jiapid;
    jia_reduce((char *)ints, (char *)most, 1, 1, 0);
    if (jiapid == 0) CHECK(most[0] == 2 + jiahosts);
    part_f[0] = (float)(10 - jiapid);
    jia_reduce((char *)part_f, (char *)least, 1, 12, 0);
    if (jiapid == 0) CHECK(least[0] == (float)(11 - jiahosts));
    shared = (unsigned char *)jia_alloc2p(65536, jiahosts - 1);
    memset(page, 9, sizeof(page));
    if (jiapid == 0) jia_put(page, shared);
    jia_barrier();
    CHECK(jia_get(shared + 100) == shared + 100 && shared[100] == 9);
    /* A buffer in shared memory may be one that faults. */
    if (jiapid == 0) jia_send((char *)shared, 10, jiahosts - 1, 1);
    if (jiapid == jiahosts - 1) {
        CHECK(jia_recv((char *)shared + 8192, 10, 0, 1) == 10);
        CHECK(shared[8192 + 9] == 9);
    }
    AGREED("message");
    return 0;
}
