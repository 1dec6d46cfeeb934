/* Molecules that attract each other: water MOLECULES STEPS; forces are added up under locks. */
#include "check.h"

#define LOCKS 16

static int n;

/* The force of molecule j on i, in whole numbers: sums do not depend on their order. */
static long force(const long *at, int i, int j, int axis)
{
    long d = 0, difference = at[3 * j + axis] - at[3 * i + axis];
    int k;
    for (k = 0; k < 3; k++) d += labs(at[3 * j + k] - at[3 * i + k]);
    return difference * 1000 / (d + 10);
}

static void pairs(const long *at, long *sum, int begin, int end)
{
    int i, j, k;
    for (i = begin; i <= end; i++)
        for (j = i + 1; j < n; j++)
            for (k = 0; k < 3; k++) {
                long f = force(at, i, j, k);
                sum[3 * i + k] += f;
                sum[3 * j + k] -= f;
            }
}

static void move(long *at, long *sum, int begin, int end)
{
    int i;
    for (i = 3 * begin; i < 3 * (end + 1); i++) {
        at[i] += sum[i] / 100;
        sum[i] = 0;
    }
}

int main(int argc, char **argv)
{
    int steps, i, s, l, begin, end;
    long *at, *sum, *part, *own_at, *own_sum;
    jia_init(argc, argv);
    n = argc > 1 ? atoi(argv[1]) : 64;
    steps = argc > 2 ? atoi(argv[2]) : 3;
    at = (long *)jia_alloc3(3 * n * sizeof(long), 3 * n * sizeof(long) / jiahosts, 0);
    sum = (long *)jia_alloc3(3 * n * sizeof(long), 3 * n * sizeof(long) / jiahosts, 0);
    part = (long *)malloc(3 * n * sizeof(long));
    own_at = (long *)malloc(3 * n * sizeof(long));
    own_sum = (long *)calloc(3 * n, sizeof(long));
    begin = 0;
    end = n - 1;
    jia_divtask(&begin, &end);
    for (i = 0; i < 3 * n; i++) own_at[i] = (i * 7919L) % 10007;
    for (i = 3 * begin; i < 3 * (end + 1); i++) at[i] = own_at[i];
    jia_barrier();
    jia_startstat();
    for (s = 0; s < steps; s++) {
        memset(part, 0, 3 * n * sizeof(long));
        pairs(at, part, begin, end);
        for (l = 0; l < LOCKS; l++) {
            int from = 3 * n / LOCKS * l, to = l == LOCKS - 1 ? 3 * n : 3 * n / LOCKS * (l + 1);
            jia_lock(l);
            for (i = from; i < to; i++) sum[i] += part[i];
            jia_unlock(l);
        }
        jia_barrier();
        move(at, sum, begin, end);
        jia_barrier();
    }
    jia_stopstat();
    for (s = 0; s < steps; s++) {
        pairs(own_at, own_sum, 0, n - 1);
        move(own_at, own_sum, 0, n - 1);
    }
    for (i = 0; i < 3 * n; i++) CHECK(at[i] == own_at[i]);
    AGREED("water");
    return 0;
}
