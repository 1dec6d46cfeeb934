/* A kernel like Ocean's: a multigrid solver of Poisson's equation, V-cycles of damped Jacobi
 * sweeps: ocean N CYCLES, N a power of two. Rows of each level's grids are dealt in blocks; a sweep reads one
 * grid and writes another, so the answer does not depend on the number of ranks. */
#include "check.h"

#define SWEEPS 2
#define DAMPING 0.8
#define COARSEST 4
#define LEVELS 16

struct level {
    int n, first, last; /* cells a side; this rank's rows */
    double *guess, *next, *right, *residual;
};

static int ranks, rank, shared;

static void meet(void)
{
    if (shared) jia_barrier();
}

static double *grid(int n)
{
    size_t bytes = (size_t)(n + 2) * (n + 2) * sizeof(double);
    if (!shared) return (double *)calloc(1, bytes);
    return (double *)jia_alloc3(bytes, (bytes + ranks - 1) / ranks, 0);
}

static int make_levels(struct level *levels, int n)
{
    int count = 0;
    for (; n >= COARSEST; n /= 2, count++) {
        struct level *l = &levels[count];
        l->n = n;
        l->first = n * rank / ranks + 1;
        l->last = n * (rank + 1) / ranks;
        l->guess = grid(n);
        l->next = grid(n);
        l->right = grid(n);
        l->residual = grid(n);
    }
    return count;
}

static void smooth(struct level *l)
{
    int s, i, j, w = l->n + 2;
    for (s = 0; s < SWEEPS; s++) {
        double *swap = l->guess;
        for (i = l->first; i <= l->last; i++)
            for (j = 1; j <= l->n; j++) {
                const double *u = l->guess + (size_t)i * w + j;
                double around = u[-1] + u[1] + u[-w] + u[w];
                l->next[(size_t)i * w + j] =
                    (1.0 - DAMPING) * u[0] + DAMPING * (around + l->right[(size_t)i * w + j]) / 4.0;
            }
        meet();
        l->guess = l->next;
        l->next = swap;
    }
}

static void find_residual(const struct level *l)
{
    int i, j, w = l->n + 2;
    for (i = l->first; i <= l->last; i++)
        for (j = 1; j <= l->n; j++) {
            const double *u = l->guess + (size_t)i * w + j;
            double around = u[-1] + u[1] + u[-w] + u[w];
            l->residual[(size_t)i * w + j] = l->right[(size_t)i * w + j] + around - 4.0 * u[0];
        }
    meet();
}

/* The coarse level's right side from the fine level's residual, and a guess of zero. */
static void restrict_to(const struct level *fine, const struct level *coarse)
{
    int i, j, w = fine->n + 2, cw = coarse->n + 2;
    for (i = coarse->first; i <= coarse->last; i++)
        for (j = 1; j <= coarse->n; j++) {
            const double *r = fine->residual + (size_t)(2 * i - 1) * w + 2 * j - 1;
            coarse->right[(size_t)i * cw + j] = r[0] + r[1] + (r[w] + r[w + 1]);
            coarse->guess[(size_t)i * cw + j] = 0.0;
        }
    meet();
}

static void prolong(const struct level *coarse, const struct level *fine)
{
    int i, j, w = fine->n + 2, cw = coarse->n + 2;
    for (i = fine->first; i <= fine->last; i++)
        for (j = 1; j <= fine->n; j++)
            fine->guess[(size_t)i * w + j] += coarse->guess[(size_t)((i + 1) / 2) * cw + (j + 1) / 2];
    meet();
}

static void cycle(struct level *levels, int count)
{
    smooth(levels);
    if (count > 1) {
        find_residual(levels);
        restrict_to(levels, levels + 1);
        cycle(levels + 1, count - 1);
        prolong(levels + 1, levels);
    }
    smooth(levels);
}

static double *solve(int n, int cycles)
{
    struct level levels[LEVELS];
    int i, j, count = make_levels(levels, n), w = n + 2;
    for (i = levels[0].first; i <= levels[0].last; i++)
        for (j = 1; j <= n; j++) levels[0].right[(size_t)i * w + j] = ((i * 13 + j * 7) % 17) / 17.0 - 0.5;
    meet();
    if (shared) jia_startstat();
    for (i = 0; i < cycles; i++) cycle(levels, count);
    return levels[0].guess;
}

int main(int argc, char **argv)
{
    int n, cycles;
    double *ours, *alone;
    jia_init(argc, argv);
    n = argc > 1 ? atoi(argv[1]) : 64;
    cycles = argc > 2 ? atoi(argv[2]) : 3;
    CHECK(n >= COARSEST && (n & (n - 1)) == 0 && n <= COARSEST << (LEVELS - 1));
    shared = 1;
    ranks = jiahosts;
    rank = jiapid;
    ours = solve(n, cycles);
    shared = 0;
    ranks = 1;
    rank = 0;
    alone = solve(n, cycles);
    CHECK(memcmp(ours, alone, (size_t)(n + 2) * (n + 2) * sizeof(double)) == 0);
    AGREED("ocean");
    return 0;
}
