/* Where jia_alloc puts pages: two allocations, each written by one of two ranks. With
 * JIA_COMPAT=port an allocation is at one rank whole, so neither rank writes a page of the other. */
#include "check.h"

#define PAGES 4

int main(int argc, char **argv)
{
    int i, page;
    char *blocks[2];
    jia_init(argc, argv);
    page = 4096;
    for (i = 0; i < 2; i++) blocks[i] = (char *)jia_alloc((unsigned long)PAGES * page);
    jia_barrier();
    jia_startstat();
    for (i = 0; i < PAGES && jiapid < 2; i++) blocks[jiapid][i * page] = 1;
    AGREED("homes");
    return 0;
}
