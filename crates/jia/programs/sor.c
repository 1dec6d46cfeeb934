/* Red-black relaxation: sor ROWS COLUMNS SWEEPS, each row of each colour homed with its block. */
#include "check.h"

static int rows, columns;

/* One colour from the other in rows first to last; rows 0 and rows + 1 and the ends are the border. */
static void sweep(float **to, float **from, int first, int last, int colour)
{
    int i, k;
    for (i = first; i <= last; i++)
        for (k = 1; k < columns - 1; k++) {
            int side = (i + colour) % 2 ? k - 1 : k + 1;
            to[i][k] = (from[i - 1][k] + from[i + 1][k] + from[i][k] + from[i][side]) * 0.25f;
        }
}

static float begin_at(int i, int k)
{
    return i == 0 || k == 0 ? 1.0f : (float)((i * 31 + k * 17) % 101) / 101.0f;
}

static int owner(int i)
{
    int home = i * jiahosts / (rows + 2);
    return home < jiahosts ? home : jiahosts - 1;
}

int main(int argc, char **argv)
{
    int i, k, n, first = rows, last = 0, sweeps;
    float **red, **black, **own[2];
    jia_init(argc, argv);
    rows = argc > 1 ? atoi(argv[1]) : 30;
    columns = argc > 2 ? atoi(argv[2]) : 64;
    sweeps = argc > 3 ? atoi(argv[3]) : 6;
    red = (float **)malloc((rows + 2) * sizeof(float *));
    black = (float **)malloc((rows + 2) * sizeof(float *));
    own[0] = (float **)malloc((rows + 2) * sizeof(float *));
    own[1] = (float **)malloc((rows + 2) * sizeof(float *));
    first = rows + 1;
    for (i = 0; i < rows + 2; i++) {
        red[i] = (float *)jia_alloc2p(columns * sizeof(float), owner(i));
        black[i] = (float *)jia_alloc2p(columns * sizeof(float), owner(i));
        own[0][i] = (float *)malloc(columns * sizeof(float));
        own[1][i] = (float *)malloc(columns * sizeof(float));
        if (owner(i) == jiapid && i > 0 && i <= rows) {
            first = i < first ? i : first;
            last = i;
        }
        for (k = 0; k < columns; k++) {
            own[0][i][k] = own[1][i][k] = begin_at(i, k);
            if (owner(i) == jiapid) red[i][k] = black[i][k] = begin_at(i, k);
        }
    }
    jia_barrier();
    jia_startstat();
    for (n = 0; n < sweeps; n++) {
        sweep(black, red, first, last, 0);
        jia_barrier();
        sweep(red, black, first, last, 1);
        jia_barrier();
    }
    jia_stopstat();
    for (n = 0; n < sweeps; n++) {
        sweep(own[1], own[0], 1, rows, 0);
        sweep(own[0], own[1], 1, rows, 1);
    }
    for (i = first; i <= last; i++) CHECK(memcmp(red[i], own[0][i], columns * sizeof(float)) == 0);
    AGREED("sor");
    return 0;
}
