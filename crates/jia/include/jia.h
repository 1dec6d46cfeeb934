/* JIAJIA 2.1's interface, that of its port, the ANL macros and the library of the paper, over littoral's
 * shared memory.
 *
 *   scripts/install-jia.sh PREFIX
 *   cc your_program.c $(pkg-config --cflags --libs jia)
 *   littoral dsm run -n 4 ./a.out        or a file .jiahosts with a line a rank: ./a.out
 *
 * A call that breaks a rule (a size of zero, a host, lock or condition variable that does not exist, a
 * lock taken twice or left by a rank that is not in it, a barrier in a section, a null pointer where bytes
 * are needed, any call but jia_clock outside of jia_init and jia_exit) prints why and ends the whole job; no rank hangs.
 * Locks, sections and barriers belong to the rank: its threads share them. Shared memory lies at one
 * address on every rank, so pointers may be stored in it.
 *
 * A signal's handler may call and may touch shared memory. Where it interrupts a call of the library or a
 * fault of shared memory in its own thread, that ends the job in words. It must not interrupt malloc and
 * its like: a fault allocates, so the thread would wait for itself. A thread that touches shared memory
 * must not block SIGSEGV and SIGBUS by sigprocmask or pthread_sigmask: a fault ends its rank then.
 *
 * A system call does not fault: read(2) into shared memory, or write(2) from it, fails with EFAULT where a page
 * is not there for it, and so do fread and fwrite of long buffers. Since the last lock, unlock or barrier the
 * program must have written a byte of each page that the call writes, and read one of each that it reads. */
#ifndef LITTORAL_JIA_H
#define LITTORAL_JIA_H

#ifdef __cplusplus
extern "C" {
#endif

extern int jiapid;   /* this rank's number */
extern int jiahosts; /* ranks of the job */

/* Their names in older headers and in the paper. A program that has names like these of its own
 * defines JIA_NO_OLD_NAMES first. */
#ifndef JIA_NO_OLD_NAMES
#define jia_pid jiapid
#define hostc jiahosts
#endif

/* Joins and leaves the job. jia_exit waits for all ranks; shared memory is gone then. A program that ends
 * with code 0 without it leaves the job so too. */
void jia_init(int argc, char **argv);
void jia_exit(void);

/* Zero bytes at the same address on every rank, in whole pages. Every rank allocates the same in the same
 * order; no call waits for another rank. Who keeps the pages:
 *   jia_alloc         dealt round page by page; JIA_COMPAT=port: all on the next rank
 *   jia_alloc1        all on rank 0
 *   jia_alloc2        blocks dealt round from rank 0
 *   jia_alloc2p       all on one rank
 *   jia_alloc3        blocks dealt round from a rank
 *   jia_alloc4        blocks of the sizes of a list of n, dealt round from a rank, the list again and
 *                     again; JIA_COMPAT=port: a size serves until it is rank 0's turn
 *   jia_alloc_array   as jia_alloc4 from rank 0
 *   jia_alloc_random  all on a rank drawn alike everywhere
 * jia_free takes an allocation's address; the addresses are not used again. */
unsigned long jia_alloc(unsigned long size);
unsigned long jia_alloc1(unsigned long size);
unsigned long jia_alloc2(unsigned long size, unsigned long block);
unsigned long jia_alloc2p(unsigned long size, int host);
unsigned long jia_alloc3(unsigned long size, unsigned long block, int host);
unsigned long jia_alloc4(unsigned long size, int *blocks, int n, int host);
unsigned long jia_alloc_array(unsigned long size, int *blocks, int n);
unsigned long jia_alloc_random(unsigned long size);
void jia_free(unsigned char *address);

/* Locks are 0 to 65535. What a section wrote is seen by the next section of the same lock; a barrier shows
 * everything to all. jia_wait waits for all ranks and shows nothing. */
void jia_lock(int lock);
void jia_unlock(int lock);
void jia_barrier(void);
void jia_wait(void);

/* Condition variables are 0 to 15; they make no memory coherent. When jia_setcv or jia_resetcv returns the
 * variable is so for every rank. In a job of one rank jia_waitcv waits for nothing. */
void jia_setcv(int cv);
void jia_resetcv(int cv);
void jia_waitcv(int cv);

/* Messages. jia_recv takes what came first from this host with this tag, from any host where host is -1 and
 * with any tag where tag is -1, and answers the number of bytes; a message longer than len is an error. */
void jia_send(char *buffer, int len, int host, int tag);
int jia_recv(char *buffer, int len, int host, int tag);
void jia_bcast(char *buffer, int len, int root);
/* op: 0 sum, 1 greatest, 2 least of int; 10 to 12 of float; 20 to 22 of double. */
void jia_reduce(char *from, char *into, int count, int op, int root);

/* jia_get makes the page of an address present; jia_put copies a page from a buffer to the page that
 * begins at an address. */
unsigned char *jia_get(unsigned char *address);
void jia_put(char *buffer, unsigned char *address);

/* ADWD and WVEC are always on. HMIG, BROADCAST and LOADBAL are not built: switching one on says so. */
void jia_config(int option, int value);
/* This rank's part of begin to end, both inclusive. */
void jia_divtask(int *begin, int *end);
void jia_loadcheck(void);

/* Prints as printf does and ends the whole job with code 1. */
void jia_error(const char *format, ...);

/* Microseconds since jia_init, virtual ones in virtual time; with JIA_STATS=1 jia_stopstat prints counts
 * and microseconds since jia_startstat, or else jia_exit does. */
unsigned int jia_startstat(void);
unsigned int jia_stopstat(void);
/* Seconds since the library's first use, also before jia_init and after jia_exit; in virtual time those
 * since jia_init. */
double jia_clock(void);

/* The library of the paper. */
void jia_numa_init(int argc, char **argv);
unsigned long jia_numa_alloc(unsigned long size);
void jia_numa_lock(int lock);
void jia_numa_unlock(int lock);
void jia_numa_barrier(void);
void jia_numa_wait(void);
void jia_numa_exit(void);

/* What the macros below need. */
extern int jia_lock_index;
extern int jia_cv_index;
extern int jia_gs_index;
int jia_getsub(int loop, int last, int ranks);
void jia_create(void (*body)(void));
void jia_initenv(void);

#ifndef ON
#define OFF 0
#define ON 1
#endif

#define HMIG 0
#define ADWD 1
#define BROADCAST 2
#define LOADBAL 3
#define WVEC 4

#define jia_wtnt(a, b)
#define jia_wtntw(a)
#define jia_wtntd(a)
#define jia_errexit jia_error

/* The ANL macros. As in JIAJIA they end in a semicolon. Locks of LOCKINIT and ALOCKINIT repeat after
 * Maxlocks; every rank runs the same initialisations in the same order. */
#define Maxlocks 64
#define Maxcvs 16

#define LOCKDEC(x) int x;
#define LOCKINIT(x) (x) = (jia_lock_index++) % Maxlocks;
#define LOCK(x) jia_lock(x);
#define UNLOCK(x) jia_unlock(x);

#define ALOCKDEC(x, y) int x[y];
#define ALOCKINIT(x, y)                                                                                  \
    {                                                                                                    \
        int jia_i;                                                                                       \
        for (jia_i = 0; jia_i < (y); jia_i++) (x)[jia_i] = (jia_lock_index++) % Maxlocks;                \
    }
#define ALOCK(x, y) jia_lock((x)[y]);
#define AULOCK(x, y) jia_unlock((x)[y]);

#define BARDEC(x) int x;
#define BARINIT(x) (x) = 0;
#define BARRIER(x, y) jia_barrier();

#define EXTERN_ENV
#define MAIN_ENV
#define MAIN_INITENV(x, y) jia_initenv();
#define MAIN_END jia_exit();
#define CREATE(f) jia_create((void (*)(void))(f));
#define WAIT_FOR_END(x) jia_barrier();

/* A pause is a condition variable: set, reset, waited for. */
#define PAUSEDEC(x) int x;
#define PAUSEINIT(x) (x) = (jia_cv_index++) % Maxcvs;
#define PAUSE_POLL(x)
#define PAUSE_SET(x, y) jia_setcv(x);
#define PAUSE_RESET(x) jia_resetcv(x);
#define PAUSE_ACCEPT(x) jia_waitcv(x);

/* GETSUB gives numbers 0 to last, each to one rank, then -1; when all ranks have had -1 it begins again. */
#define GSDEC(x) int x;
#define GSINIT(x) (x) = jia_gs_index++;
#define GETSUB(x, sub, last, ranks) (sub) = jia_getsub(x, last, ranks);

#define G_MALLOC(x) jia_alloc1((x));
#define G2_MALLOC(x, y) jia_alloc2p((x), (y));

#define CLOCK(x) x = jia_clock();

#ifdef __cplusplus
}
#endif

#endif
