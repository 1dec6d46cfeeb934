/* Where jia_alloc4 puts blocks of one page and of two, five pages in all: by 2.1's rules each block has
 * the list's next size, by the port's a size serves until it is rank 0's turn. The last block is whole.
 * The first argument names the rules that this program believes in: no rank then writes a page of the
 * other. */
#include "check.h"

#define PAGE 4096

static const int original[6] = {0, 1, 1, 0, 1, 1}, port[6] = {0, 1, 0, 0, 1, 1};

int main(int argc, char **argv)
{
    int i, sizes[2];
    const int *homes;
    char *pages;
    jia_init(argc, argv);
    homes = argc > 1 && strcmp(argv[1], "port") == 0 ? port : original;
    sizes[0] = PAGE;
    sizes[1] = 2 * PAGE;
    pages = (char *)jia_alloc4(5ul * PAGE, sizes, 2, 0);
    CHECK((char *)jia_alloc1(1) == pages + 6 * PAGE);
    jia_barrier();
    jia_startstat();
    for (i = 0; i < 6; i++)
        if (homes[i] == jiapid) pages[i * PAGE] = 1;
    AGREED("sizes");
    return 0;
}
