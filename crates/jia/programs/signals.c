/* Threads touch shared pages, alarms ring, and the program's own handler has its own faults. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>
#include "check.h"

static sigjmp_buf back;
static volatile sig_atomic_t rung;
static int *shared;

static void fault(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    siglongjmp(back, 1);
}

static void ring(int number)
{
    (void)number;
    rung = rung + 1;
}

static void touch(int number)
{
    (void)number;
    shared[1024 * jiapid] += 1;
}

static char reserve[1 << 17];
static sigjmp_buf out;

static void overflowed(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    siglongjmp(out, 1);
}

static int deep(int n)
{
    volatile char room[4096];
    room[n % 4096] = (char)n;
    return n < 0 ? 0 : deep(n + 1) + room[n % 4096];
}

/* A stack that overflows is the program's own fault, on the stack that it has set aside. */
static void *overflow(void *data)
{
    struct sigaction own;
    stack_t aside;
    memset(&aside, 0, sizeof(aside));
    aside.ss_sp = reserve;
    aside.ss_size = sizeof(reserve);
    memset(&own, 0, sizeof(own));
    own.sa_sigaction = overflowed;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK;
    CHECK(sigaltstack(&aside, NULL) == 0 && sigaction(SIGSEGV, &own, NULL) == 0);
    if (sigsetjmp(out, 1) == 0) {
        deep(0);
        CHECK(0);
    }
    shared[1024 * jiapid] += 1;
    return data;
}

static void *thread(void *data)
{
    int me = *(int *)data, i;
    for (i = 0; i < 500; i++) shared[jiapid * 8 + me + (i % 4) * 1024] += 1;
    return NULL;
}

int main(int argc, char **argv)
{
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    struct sigaction own;
    sigset_t alarms;
    pthread_t threads[4];
    volatile char *closed;
    int numbers[4], i, j;
    jia_init(argc, argv);
    memset(&own, 0, sizeof(own));
    own.sa_sigaction = fault;
    own.sa_flags = SA_SIGINFO | SA_NODEFER;
    CHECK(sigaction(SIGSEGV, &own, NULL) == 0 && signal(SIGALRM, ring) != SIG_ERR);
    closed = (volatile char *)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    shared = (int *)jia_alloc(4 * 4096);
    /* With the signal blocked here no thread is left to take it: the library's own do not. */
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    kill(getpid(), SIGALRM);
    usleep(20000);
    CHECK(rung == 0);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    CHECK(rung == 1);
    setitimer(ITIMER_REAL, &often, NULL);
    for (i = 0; i < 4; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, thread, &numbers[i]) == 0);
    }
    for (i = 0; i < 50; i++) {
        jia_lock(2);
        shared[2048 + 900] += 1;
        jia_unlock(2);
    }
    for (i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    jia_barrier();
    for (i = 0; i < 8 * jiahosts; i++)
        for (j = 0; j < 4; j++) CHECK(shared[i + j * 1024] == (i % 8 < 4 ? 125 : 0));
    CHECK(shared[2048 + 900] == 50 * jiahosts);
    if (sigsetjmp(back, 1) == 0) {
        closed[0] = 1;
        CHECK(0);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    shared = (int *)jia_alloc(4096 * jiahosts);
    jia_barrier();
    CHECK(pthread_create(&threads[0], NULL, overflow, NULL) == 0);
    pthread_join(threads[0], NULL);
    jia_barrier();
    for (i = 0; i < jiahosts; i++) CHECK(shared[1024 * i] == 1);
    /* A handler that asks for all signals to be blocked has its faults all the same. */
    shared = (int *)jia_alloc(4096 * jiahosts);
    memset(&own, 0, sizeof(own));
    own.sa_handler = touch;
    sigfillset(&own.sa_mask);
    CHECK(sigaction(SIGUSR1, &own, NULL) == 0);
    jia_barrier();
    raise(SIGUSR1);
    jia_barrier();
    for (i = 0; i < jiahosts; i++) CHECK(shared[1024 * i] == 1);
    AGREED("signals");
    return 0;
}
