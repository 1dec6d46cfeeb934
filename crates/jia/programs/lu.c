/* Blocked LU factors without pivots: lu N BLOCK; blocks are contiguous and dealt round. */
#include "check.h"

static int n, size, count;
static double *blocks, *own;

static double *at(double *matrix, int i, int j)
{
    return matrix + (size_t)(i * count + j) * size * size;
}

static double value(int i, int j)
{
    return i == j ? 2.0 * n : (double)((i * 7 + j * 13) % 10) / 10.0;
}

static void factor(double *d)
{
    int i, j, k;
    for (k = 0; k < size; k++)
        for (i = k + 1; i < size; i++) {
            d[i * size + k] /= d[k * size + k];
            for (j = k + 1; j < size; j++) d[i * size + j] -= d[i * size + k] * d[k * size + j];
        }
}

/* Of a block below the diagonal, x U = a. */
static void below(double *a, const double *d)
{
    int i, j, k;
    for (i = 0; i < size; i++)
        for (k = 0; k < size; k++) {
            a[i * size + k] /= d[k * size + k];
            for (j = k + 1; j < size; j++) a[i * size + j] -= a[i * size + k] * d[k * size + j];
        }
}

/* Of a block right of the diagonal, L x = a. */
static void right(double *a, const double *d)
{
    int i, j, k;
    for (k = 0; k < size; k++)
        for (i = k + 1; i < size; i++)
            for (j = 0; j < size; j++) a[i * size + j] -= d[i * size + k] * a[k * size + j];
}

static void inner(double *a, const double *l, const double *u)
{
    int i, j, k;
    for (i = 0; i < size; i++)
        for (k = 0; k < size; k++)
            for (j = 0; j < size; j++) a[i * size + j] -= l[i * size + k] * u[k * size + j];
}

static int mine(int i, int j, int alone)
{
    return alone || (i * count + j) % jiahosts == jiapid;
}

static void decompose(double *m, int alone)
{
    int i, j, k;
    for (k = 0; k < count; k++) {
        if (mine(k, k, alone)) factor(at(m, k, k));
        if (!alone) jia_barrier();
        for (i = k + 1; i < count; i++) {
            if (mine(i, k, alone)) below(at(m, i, k), at(m, k, k));
            if (mine(k, i, alone)) right(at(m, k, i), at(m, k, k));
        }
        if (!alone) jia_barrier();
        for (i = k + 1; i < count; i++)
            for (j = k + 1; j < count; j++)
                if (mine(i, j, alone)) inner(at(m, i, j), at(m, i, k), at(m, k, j));
    }
}

static void fill(double *m, int alone)
{
    int i, j, x, y;
    for (i = 0; i < count; i++)
        for (j = 0; j < count; j++)
            for (x = 0; mine(i, j, alone) && x < size; x++)
                for (y = 0; y < size; y++) at(m, i, j)[x * size + y] = value(i * size + x, j * size + y);
}

int main(int argc, char **argv)
{
    int i, j;
    size_t block;
    jia_init(argc, argv);
    n = argc > 1 ? atoi(argv[1]) : 96;
    size = argc > 2 ? atoi(argv[2]) : 16;
    count = n / size;
    block = (size_t)size * size * sizeof(double);
    blocks = (double *)jia_alloc3(block * count * count, block, 0);
    own = (double *)malloc(block * count * count);
    fill(blocks, 0);
    fill(own, 1);
    jia_barrier();
    jia_startstat();
    decompose(blocks, 0);
    jia_barrier();
    jia_stopstat();
    decompose(own, 1);
    for (i = 0; i < count; i++)
        for (j = 0; j < count; j++)
            if (mine(i, j, 0)) CHECK(memcmp(at(blocks, i, j), at(own, i, j), block) == 0);
    AGREED("lu");
    return 0;
}
