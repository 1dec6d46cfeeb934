// With the C library, for -ffast-math: the compiler's start file has denormal numbers count as
// zeros. What arithmetic makes of them then, in threads, in a child and in a signal handler.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

// The flag of denormal operands is left out: a translator need not have it.
#define CONTROL (_mm_getcsr() & ~2u)
#define ZEROS 0x8040u
#define LEAST_NORMAL 0x00800000u
#define HALF 0x3f000000u

static float of(unsigned bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static unsigned bits_of(float value) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

__attribute__((noinline)) static unsigned product(unsigned a, unsigned b) {
    volatile float x = of(a), y = of(b);
    volatile float z = x * y;
    return bits_of(z);
}

enum { COUNT = 67 };
static float singles[COUNT];
static double doubles[COUNT];

static void fill(void) {
    for (unsigned n = 0; n < COUNT; n++) {
        singles[n] = of(0x00700000u + n * 0x00012345u);
        unsigned long sign = (unsigned long)n << 63;
        unsigned long bits = 0x000fff0000000000ul + n * 0x0000000812345678ul;
        bits ^= sign;
        memcpy(&doubles[n], &bits, sizeof bits);
    }
}

// Loops that compilers make vectors of. What is computed under one MXCSR is not kept for another.
__attribute__((noinline)) static void sums(unsigned control) {
    float sum = 0.0f, products[COUNT];
    double total = 0.0;
    _mm_setcsr(0x1f80 | control);
    __asm__ volatile("" ::: "memory");
    for (unsigned n = 0; n < COUNT; n++) {
        products[n] = singles[n] * 0.75f - singles[COUNT - 1 - n] / 3.0f;
        sum += singles[n];
        total += doubles[n];
    }
    unsigned all = 0;
    for (unsigned n = 0; n < COUNT; n++)
        all = all * 31 + bits_of(products[n]);
    unsigned long bits;
    memcpy(&bits, &total, sizeof bits);
    printf("%x: %x %x %lx\n", control, bits_of(sum), all, bits);
}

static volatile unsigned in_handler, handlers_control;

static void on_user(int signal) {
    (void)signal;
    in_handler = product(LEAST_NORMAL, HALF);
    handlers_control = CONTROL;
}

static void *other_thread(void *unused) {
    (void)unused;
    printf("in another thread %x\n", product(LEAST_NORMAL, HALF));
    // This thread has denormal numbers again, the first one not.
    _mm_setcsr(0x1f80);
    printf("in another thread as numbers %x\n", product(LEAST_NORMAL, HALF));
    return NULL;
}

static void on_other(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.fpregs->mxcsr |= 0x8000;
}

// No instruction of the program sets MXCSR then, but the handler's return.
static void set_by_a_handler(void) {
    struct sigaction action = {.sa_sigaction = on_other, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR2, &action, NULL);
    printf("before it %x\n", product(LEAST_NORMAL, HALF));
    raise(SIGUSR2);
    printf("set by a handler %x\n", product(LEAST_NORMAL, HALF));
}

int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1) {
        set_by_a_handler();
        return 0;
    }
    printf("at the start %x\n", _mm_getcsr() & ZEROS);
    fill();
    sums(ZEROS);
    sums(0x40);
    sums(0x8000);
    sums(0);
    _mm_setcsr(0x1f80 | 0x8000);
    unsigned flushed = product(LEAST_NORMAL, HALF);
    printf("as zeros %x, control %x\n", flushed, CONTROL);
    signal(SIGUSR1, on_user);
    raise(SIGUSR1);
    printf("in a handler %x, control %x\n", in_handler, handlers_control);
    printf("behind it %x\n", product(LEAST_NORMAL, HALF));
    pthread_t thread;
    if (pthread_create(&thread, NULL, other_thread, NULL) == 0)
        pthread_join(thread, NULL);
    printf("behind the thread %x\n", product(LEAST_NORMAL, HALF));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        printf("in a child %x\n", product(LEAST_NORMAL, HALF));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    _mm_setcsr(0x1f80);
    unsigned kept = product(LEAST_NORMAL, HALF);
    printf("as numbers %x, control %x\n", kept, CONTROL);
    return 0;
}
