/* One broken rule a run, named by the first argument. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"
#define CASE(name) else if (strcmp(argv[1], name) == 0)

/* A child that the system call makes finds malloc as another thread left it, which may be locked. */
void *__libc_malloc(size_t len);
static volatile int is_child;
void *malloc(size_t len)
{
    if (is_child) _exit(write(2, "a child allocates\n", 18) == 18 ? 9 : 8);
    return __libc_malloc(len);
}

/* Waits for input that never comes, inside the C library. */
static void *read_all(void *ends)
{
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) return ends;
    return fgetc(fdopen(pipe_ends[0], "r")) == EOF ? ends : NULL;
}

/* What a timer's handler does, again and again while the program is in a call. */
#define PAGES 8192
static enum { CALLS, TOUCHES, ENDS } deed;
static char *pages;
static volatile int turn;

/* One ring at a time, so that the program gets on however slow the handler is. */
static void ring(void)
{
    struct itimerval soon = {{0, 0}, {0, 50}};
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void meddle(int number)
{
    (void)number;
    if (deed == CALLS) {
        jia_lock(9);
        jia_unlock(9);
    } else if (deed == TOUCHES) {
        if (turn < PAGES) pages[4096ul * turn++] = 1;
    } else {
        jia_error("ended by a handler");
    }
    ring();
}

/* Ends a process that hangs. */
static void *watch(void *data)
{
    sleep(40);
    _exit(write(2, "it hung\n", 8) == 8 ? 9 : 8);
    return data;
}

static void meddled(int what)
{
    pthread_t watching;
    deed = what;
    /* The first touch of a page faults at its home too. */
    pages = (char *)jia_alloc2p(4096ul * PAGES, jiapid);
    pthread_create(&watching, NULL, watch, NULL);
    signal(SIGALRM, meddle);
    ring();
    while (turn < PAGES) {
        jia_lock(4);
        jia_unlock(4);
    }
}

int main(int argc, char **argv)
{
    int here = 0;
    pthread_t reader;
    char *buffer = (char *)&here;
    unsigned char *page;
    if (argc < 2) return 9;
    if (strcmp(argv[1], "early") == 0) jia_lock(1);
    jia_init(argc, argv);
    page = (unsigned char *)jia_alloc1(4096);
    if (strcmp(argv[1], "ring") == 0) {
        alarm(40);
        jia_recv(buffer, 4, (jiapid + 1) % jiahosts, 3);
    }
    if (strcmp(argv[1], "stuck") == 0 || strcmp(argv[1], "locked") == 0) alarm(40);
    if (jiapid != jiahosts - 1) {
        if (strcmp(argv[1], "death") == 0) atexit(jia_exit);
        if (strcmp(argv[1], "silent") == 0) jia_recv(buffer, 4, jiahosts - 1, 3);
        if (strcmp(argv[1], "unset") == 0) jia_waitcv(jiahosts - 1);
        if (strcmp(argv[1], "stuck") == 0 && jiapid == 0) jia_waitcv(jiahosts + 2);
        if (strcmp(argv[1], "stuck") == 0) jia_recv(buffer, 4, 0, 3);
        if (strcmp(argv[1], "locked") == 0) {
            jia_lock(4);
            jia_waitcv(jiahosts + 2);
        }
        if (strcmp(argv[1], "wait") == 0) jia_wait();
        jia_barrier();
        jia_barrier();
        jia_exit();
        return 0;
    }
    if (strcmp(argv[1], "zero") == 0) jia_alloc(0);
    CASE("huge") jia_alloc(1ul << 50);
    CASE("negative") jia_alloc((unsigned long)-5);
    CASE("host") jia_alloc2p(4096, jiahosts);
    CASE("block") jia_alloc2(4096, 0);
    CASE("list-huge") { here = 1; jia_alloc4(1ul << 50, &here, 1, 0); }
    CASE("list") jia_alloc4(4096, NULL, 3, 0);
    CASE("free") jia_free((unsigned char *)&here);
    CASE("lock") jia_lock(1 << 16);
    CASE("lock-negative") jia_lock(-1);
    CASE("twice") { jia_lock(4); jia_lock(4); }
    CASE("stranger") jia_unlock(4);
    CASE("inside") { jia_lock(4); jia_barrier(); }
    CASE("cv") jia_setcv(16);
    CASE("send-null") jia_send(NULL, 4, 0, 0);
    CASE("send-host") jia_send(buffer, 4, -1, 0);
    CASE("send-length") jia_send(buffer, -4, 0, 0);
    CASE("recv-room") { jia_send(buffer, 4, jiapid, 0); jia_recv(buffer, 2, jiapid, 0); }
    CASE("reduce") jia_reduce(buffer, buffer, 1, 7, 0);
    CASE("get-stack") jia_get((unsigned char *)&here);
    CASE("get-null") jia_get(NULL);
    CASE("put-inside") jia_put(buffer, page + 1);
    CASE("config") jia_config(9, ON);
    CASE("divide") jia_divtask(NULL, &here);
    CASE("loop") jia_getsub(64, 1, 1);
    CASE("create") jia_create(NULL);
    CASE("init") jia_init(argc, argv);
    CASE("error") jia_errexit("%s %d %.1f %d %d %d %d", "as asked", 5, 2.5, 1, 2, 3, 4);
    CASE("exit") exit(0);
    CASE("return") return 0;
    CASE("silent") return 0;
    CASE("unset") return 0;
    CASE("stuck") return 0;
    CASE("locked") return 0;
    CASE("wait") return 0;
    CASE("holding") { jia_lock(4); return 0; }
    CASE("code") exit(7);
    CASE("fork") {
        int status;
        pid_t child = fork();
        if (child == 0) jia_lock(1);
        waitpid(child, &status, 0);
        jia_error("child %d", WEXITSTATUS(status));
    }
    CASE("clone") {
        int status;
        pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) {
            is_child = 1;
            jia_lock(1);
        }
        waitpid(child, &status, 0);
        jia_error("child %d", WEXITSTATUS(status));
    }
    CASE("handler-calls") meddled(CALLS);
    CASE("handler-touches") meddled(TOUCHES);
    CASE("handler-ends") meddled(ENDS);
    CASE("reader") {
        pthread_create(&reader, NULL, read_all, NULL);
        usleep(100000);
        jia_lock(1 << 16);
    }
    CASE("death") { usleep(200000); raise(SIGKILL); }
    CASE("mismatch") { page = (unsigned char *)jia_alloc1(4096); page[0] = 1; jia_barrier(); }
    return 9;
}
