/* Every ANL macro. */
#include "check.h"
EXTERN_ENV
MAIN_ENV

struct global {
    LOCKDEC(lock)
    ALOCKDEC(locks, 4)
    BARDEC(barrier)
    PAUSEDEC(pause)
    GSDEC(loop)
    int sum, taken[60], four[4];
};

static struct global *g;

static void body(void)
{
    int i, sub;
    double now;
    CLOCK(now)
    CHECK(now >= 0);
    for (i = 0; i < 20; i++) {
        LOCK(g->lock)
        g->sum += 1;
        UNLOCK(g->lock)
        ALOCK(g->locks, i % 4)
        g->four[i % 4] += 1;
        AULOCK(g->locks, i % 4)
    }
    BARRIER(g->barrier, jiahosts)
    CHECK(g->sum == 20 * jiahosts && g->four[3] == 5 * jiahosts);
    for (i = 0; i < 2; i++) {
        GETSUB(g->loop, sub, 59, jiahosts)
        while (sub >= 0) {
            LOCK(g->lock)
            g->taken[sub] += 1;
            UNLOCK(g->lock)
            GETSUB(g->loop, sub, 59, jiahosts)
        }
        BARRIER(g->barrier, jiahosts)
    }
    for (i = 0; i < 60; i++) CHECK(g->taken[i] == 2);
    if (jiapid == 0) {
        PAUSE_RESET(g->pause)
        PAUSE_SET(g->pause, 1)
    }
    PAUSE_POLL(g->pause)
    PAUSE_ACCEPT(g->pause)
}

int main(int argc, char **argv)
{
    int i, *more;
    MAIN_INITENV(, 0)
    jia_initenv(); /* a second time does nothing */
    jia_init(argc, argv); /* nor does this, once: in JIAJIA the macro is empty */
    g = (struct global *)G_MALLOC(sizeof(struct global))
    more = (int *)G2_MALLOC(4096, jiahosts - 1)
    if (jiapid == 0) {
        LOCKINIT(g->lock)
        ALOCKINIT(g->locks, 4)
        BARINIT(g->barrier)
        PAUSEINIT(g->pause)
        GSINIT(g->loop)
        more[0] = Maxlocks + Maxcvs;
    }
    for (i = 1; i < jiahosts; i++) CREATE(body)
    if (jiahosts == 1) jia_create(body);
    body();
    WAIT_FOR_END(jiahosts - 1)
    CHECK(more[0] == 80 && jia_lock_index == 5 && jia_cv_index == 1 && jia_gs_index == 1);
    if (jiapid == 0) printf("anl agrees with one process\n");
    MAIN_END
    return 0;
}
