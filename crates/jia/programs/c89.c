/* Compiled as strict C of 1989, where signal is System V's: a handler of the program has its own faults,
 * one at a time, and shared memory has the library's. */
#include <setjmp.h>
#include <signal.h>
#include "check.h"

static jmp_buf back;
static int faults;
static volatile int *volatile nowhere;

static void fault(int number)
{
    signal(number, fault);
    faults++;
    longjmp(back, 1);
}

int main(int argc, char **argv)
{
    int *shared;
    volatile int i;
    jia_init(argc, argv);
    CHECK(signal(SIGSEGV, fault) != SIG_ERR);
    shared = (int *)jia_alloc2p(4096, 0);
    for (i = 0; i < 3; i++) {
        if (setjmp(back) == 0) {
            *nowhere = 1;
            CHECK(0);
        }
        jia_lock(1);
        shared[0] += 1;
        jia_unlock(1);
    }
    jia_barrier();
    CHECK(faults == 3 && shared[0] == 3 * jiahosts);
    AGREED("c89");
    return 0;
}
