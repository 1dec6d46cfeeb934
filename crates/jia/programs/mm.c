/* Product of square matrices: mm N; each rank has a block of the rows of the result. */
#include "check.h"

int main(int argc, char **argv)
{
    int n, i, j, k, begin, end;
    int *a, *b, *c;
    jia_init(argc, argv);
    n = argc > 1 ? atoi(argv[1]) : 64;
    a = (int *)jia_alloc3(n * n * sizeof(int), n * n / jiahosts * sizeof(int), 0);
    b = (int *)jia_alloc3(n * n * sizeof(int), n * n / jiahosts * sizeof(int), 0);
    c = (int *)jia_alloc3(n * n * sizeof(int), n * n / jiahosts * sizeof(int), 0);
    begin = 0;
    end = n - 1;
    jia_divtask(&begin, &end);
    for (i = 0; jiapid == 0 && i < n; i++)
        for (j = 0; j < n; j++) {
            a[i * n + j] = i + j;
            b[i * n + j] = i == j ? 2 : (i == j + 1 ? 1 : 0);
        }
    jia_barrier();
    jia_startstat();
    for (i = begin; i <= end; i++) {
        int *row = &c[i * n];
        for (k = 0; k < n; k++) {
            int x = a[i * n + k], *line = &b[k * n];
            for (j = 0; j < n; j++) row[j] += x * line[j];
        }
    }
    jia_barrier();
    jia_stopstat();
    for (i = begin; i <= end; i++)
        for (j = 0; j < n; j++) CHECK(c[i * n + j] == 2 * (i + j) + (j + 1 < n ? i + j + 1 : 0));
    AGREED("mm");
    return 0;
}
