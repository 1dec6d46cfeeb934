/* The shortest tour by branch and bound: tsp CITIES; prefixes of three are shared out under a lock. */
#include "check.h"

#define CITIES_MAX 20

struct shared {
    int next, best, tour[CITIES_MAX];
};

static struct shared *g;
static int cities, far[CITIES_MAX][CITIES_MAX], bound, alone, tour[CITIES_MAX];

static void found(int length)
{
    if (alone) {
        bound = length < bound ? length : bound;
        return;
    }
    jia_lock(1);
    if (length < g->best) {
        g->best = length;
        memcpy(g->tour, tour, sizeof(tour));
    }
    bound = g->best;
    jia_unlock(1);
}

static void search(int depth, int length, unsigned seen)
{
    int city;
    if (length >= bound) return;
    if (depth == cities) {
        length += far[tour[depth - 1]][0];
        if (length < bound) found(length);
        return;
    }
    for (city = 1; city < cities; city++)
        if (!(seen & (1u << city))) {
            tour[depth] = city;
            search(depth + 1, length + far[tour[depth - 1]][city], seen | (1u << city));
        }
}

/* Prefix number p: cities second and third of the tour. */
static void prefix(int p)
{
    int second = 1 + p / (cities - 1), third = 1 + p % (cities - 1);
    if (second == third) return;
    tour[0] = 0;
    tour[1] = second;
    tour[2] = third;
    search(3, far[0][second] + far[second][third], 1u | (1u << second) | (1u << third));
}

int main(int argc, char **argv)
{
    int i, j, p, length, best;
    jia_init(argc, argv);
    cities = argc > 1 ? atoi(argv[1]) : 9;
    CHECK(cities > 3 && cities <= CITIES_MAX);
    for (i = 0; i < cities; i++)
        for (j = 0; j < cities; j++) {
            int x = (i * 37) % 100 - (j * 37) % 100, y = (i * 61) % 97 - (j * 61) % 97;
            far[i][j] = (int)sqrt((double)(x * x + y * y));
        }
    g = (struct shared *)jia_alloc1(sizeof(struct shared));
    if (jiapid == 0) g->best = 1 << 30;
    jia_barrier();
    jia_startstat();
    bound = 1 << 30;
    for (;;) {
        jia_lock(0);
        p = g->next++;
        jia_unlock(0);
        if (p >= (cities - 1) * (cities - 1)) break;
        jia_lock(1);
        bound = g->best;
        jia_unlock(1);
        prefix(p);
    }
    jia_barrier();
    jia_stopstat();
    best = g->best;
    for (i = 0, length = 0; i < cities; i++) length += far[g->tour[i]][g->tour[(i + 1) % cities]];
    CHECK(length == best);
    if (jiapid == 0) {
        alone = 1;
        bound = 1 << 30;
        for (p = 0; p < (cities - 1) * (cities - 1); p++) prefix(p);
        CHECK(bound == best);
    }
    AGREED("tsp");
    return 0;
}
