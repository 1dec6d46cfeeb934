/* Configuration, division of work, statistics, the clock. */
#include "check.h"

int main(int argc, char **argv)
{
    int begin = 1, end = 103, all, mine;
    double first, before, after;
    /* Programs of the port read the clock before they join. */
    CLOCK(first)
    jia_init(argc, argv);
    before = jia_clock();
    CHECK(first >= 0 && before >= first && before < 1e6);
    jia_startstat();
    jia_config(WVEC, ON);
    jia_config(ADWD, ON);
    jia_config(HMIG, ON);
    jia_config(BROADCAST, ON);
    jia_config(LOADBAL, OFF);
    jia_divtask(&begin, &end);
    jia_loadcheck();
    mine = end - begin + 1;
    all = 0;
    jia_reduce((char *)&mine, (char *)&all, 1, 0, 0);
    if (jiapid == 0) CHECK(all == 103 && begin == 1);
    if (jiapid == jiahosts - 1) CHECK(end == 103);
    jia_wtnt(&all, 4);
    jia_wtntw(&all);
    jia_wtntd(&all);
    jia_stopstat();
    CHECK(jia_clock() >= before);
    before = jia_clock();
    AGREED("system");
    after = jia_clock();
    if (after < before) {
        fprintf(stderr, "the clock went back from %g to %g\n", before, after);
        return 1;
    }
    return 0;
}
