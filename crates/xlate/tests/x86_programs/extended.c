// With the C library, linked statically: long double through printf, strtold and arithmetic, a
// signal handler that uses x87, and exceptions that are not masked.
#define _GNU_SOURCE
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

static sigjmp_buf back;
static volatile int handled;
static volatile unsigned control;
static volatile long vector;

static void on_float(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    printf("SIGFPE code %d\n", info->si_code);
    fedisableexcept(FE_ALL_EXCEPT);
    siglongjmp(back, 1);
}

static void on_user(int signal) {
    long low;
    __asm__ volatile("movq %%xmm15, %0" : "=r"(low));
    (void)signal;
    vector = low;
    control = _mm_getcsr();
    volatile long double x = 2.0L;
    handled = (int)(x * 21.0L);
}

static void traps_double(int exception, double a, double b) {
    volatile double x = a, y = b, z;
    if (sigsetjmp(back, 1) == 0) {
        feclearexcept(FE_ALL_EXCEPT);
        feenableexcept(exception);
        z = x / y;
        printf("no signal %g\n", z);
    }
    feclearexcept(FE_ALL_EXCEPT);
}

static void traps(int exception, long double a, long double b) {
    volatile long double x = a, y = b, z;
    if (sigsetjmp(back, 1) == 0) {
        feclearexcept(FE_ALL_EXCEPT);
        feenableexcept(exception);
        z = x / y;
        z = z * x;
        printf("no signal %Lg\n", z);
    }
    feclearexcept(FE_ALL_EXCEPT);
}

int main(void) {
    static const char *const numbers[] = {
        "0.1", "1e4932", "3.6e-4951", "1e-4940", "-inf", "0x1.8p-16445", "123456789.123456789",
    };
    for (unsigned n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        volatile long double x = strtold(numbers[n], NULL);
        printf("%Lg %.25Le %La %g\n", x, x, x, (double)x);
        printf("%La %La %La\n", x * x, 1.0L / x, sqrtl(fabsl(x)));
        printf("%lld %La\n", llrintl(fmodl(x, 1e6L)), rintl(x / 3.0L));
    }
    for (int mode = 0; mode < 4; mode++) {
        static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
        fesetround(modes[mode]);
        volatile long double x = 1.0L, y = -3.0L;
        long double z = x / y;
        printf("%La %ld\n", z, lrintl(z * 10.0L));
    }
    fesetround(FE_TONEAREST);
    struct sigaction action = {.sa_sigaction = on_float, .sa_flags = SA_SIGINFO};
    sigaction(SIGFPE, &action, NULL);
    traps(FE_DIVBYZERO, 1.0L, 0.0L);
    traps(FE_INVALID, 0.0L, 0.0L);
    traps(FE_OVERFLOW, 1e4932L, 1e-4000L);
    traps(FE_UNDERFLOW, 1e-4930L, 1e4000L);
    traps(FE_INEXACT, 1.0L, 3.0L);
    traps_double(FE_DIVBYZERO, 1.0, 0.0);
    traps_double(FE_INVALID, 0.0, 0.0);
    traps_double(FE_OVERFLOW, 1e300, 1e-300);
    traps_double(FE_UNDERFLOW, 1e-300, 1e300);
    traps_double(FE_INEXACT, 1.0, 3.0);
    // A flag from before decides too where it is not masked.
    _mm_setcsr(0x1f80 & ~(0x80 | 0x1000) | 1);
    if (sigsetjmp(back, 1) == 0) {
        volatile double one = 1.0, three = 3.0;
        one = one / three;
    }
    _mm_setcsr(0x1f80);
    signal(SIGUSR1, on_user);
    _mm_setcsr(0x5f80);
    long double kept, seven = 7.0L;
    // The top of the stack and a vector register survive a handler, which begins with new ones; a
    // child has the stack too.
    long number = 62, fifteen;
    __asm__ volatile("fldt %3\n\tmovq %%rdi, %%xmm15\n\tsyscall\n\tfstpt %0\n\tmovq %%xmm15, %2"
                     : "=m"(kept), "+a"(number), "=r"(fifteen)
                     : "m"(seven), "D"((long)getpid()), "S"((long)SIGUSR1)
                     : "rcx", "r11", "memory", "xmm15");
    printf("kept %Lg %d handled %d\n", kept, fifteen == getpid(), handled);
    printf("control %x in the handler, %x behind it; vector %ld\n", control, _mm_getcsr(), vector);
    _mm_setcsr(0x1f80);
    fflush(stdout);
    fesetround(FE_UPWARD);
    if (fork() == 0) {
        printf("child %d\n", fegetround() == FE_UPWARD);
        return 0;
    }
    wait(NULL);
    return 0;
}
