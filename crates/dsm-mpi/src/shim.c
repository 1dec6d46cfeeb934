/* MPI as src/raw.rs calls it. MPI's handles and constants are not the same in every MPI, so they stay here;
 * numbers and pointers cross. Calls are made one at a time. A negative answer is a failure unless said otherwise. */
#include <mpi.h>
#include <stdlib.h>

static MPI_Comm comm = MPI_COMM_NULL;
static int initialised_here;
static MPI_Win window = MPI_WIN_NULL;
static long *word;

enum { TAG = 1 };

static const int levels[] = { MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE };

/* Initialises MPI unless the program has. `wanted` and the answer are levels of threads, 0 to 3. */
int littoral_mpi_start(int wanted, int *by_program)
{
    int given = MPI_THREAD_SINGLE, level;
    if (MPI_Initialized(by_program)) return -1;
    if (*by_program) {
        if (MPI_Query_thread(&given)) return -1;
    } else {
        if (MPI_Init_thread(NULL, NULL, levels[wanted], &given)) return -1;
        initialised_here = 1;
    }
    for (level = 3; level > 0 && given < levels[level]; level--) {}
    return level;
}

/* A communicator of our own, whose errors are answers. */
int littoral_mpi_join(int *rank, int *ranks)
{
    if (MPI_Comm_dup(MPI_COMM_WORLD, &comm)) return -1;
    if (MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN)) return -1;
    return MPI_Comm_rank(comm, rank) || MPI_Comm_size(comm, ranks) ? -1 : 0;
}

/* For each rank the first one of its machine. */
int littoral_mpi_machines(int *firsts)
{
    MPI_Comm near;
    int rank, first, failed;
    MPI_Comm_rank(comm, &rank);
    if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &near)) return -1;
    failed = MPI_Allreduce(&rank, &first, 1, MPI_INT, MPI_MIN, near);
    MPI_Comm_free(&near);
    return failed || MPI_Allgather(&first, 1, MPI_INT, firsts, 1, MPI_INT, comm) ? -1 : 0;
}

/* Rank 0's bytes at every rank. */
int littoral_mpi_broadcast(void *bytes, int length)
{
    return MPI_Bcast(bytes, length, MPI_BYTE, 0, comm) ? -1 : 0;
}

/* The least of the ranks' numbers, none of which is negative. */
int littoral_mpi_least(int own)
{
    int least;
    return MPI_Allreduce(&own, &least, 1, MPI_INT, MPI_MIN, comm) ? -1 : least;
}

/* Begins to send; the bytes stay where they are until littoral_mpi_sent says 1. */
void *littoral_mpi_post(int to, const void *bytes, int length)
{
    MPI_Request *request = malloc(sizeof *request);
    if (request && MPI_Isend(bytes, length, MPI_BYTE, to, TAG, comm, request)) {
        free(request);
        return NULL;
    }
    return request;
}

/* 1: sent, and `post` is gone; 0: not yet; else it failed and is gone. */
int littoral_mpi_sent(void *post)
{
    int done = 0, failed = MPI_Test(post, &done, MPI_STATUS_IGNORE);
    if (failed || done) free(post);
    return failed ? -1 : done;
}

/* Bytes of the next message and its sender; -1 when there is none. */
int littoral_mpi_next(int *from)
{
    MPI_Status status;
    int found, length;
    if (MPI_Iprobe(MPI_ANY_SOURCE, TAG, comm, &found, &status)) return -2;
    if (!found) return -1;
    *from = status.MPI_SOURCE;
    return MPI_Get_count(&status, MPI_BYTE, &length) ? -2 : length;
}

int littoral_mpi_take(int from, void *bytes, int length)
{
    return MPI_Recv(bytes, length, MPI_BYTE, from, TAG, comm, MPI_STATUS_IGNORE) ? -1 : 0;
}

int littoral_mpi_finish(void)
{
    if (window != MPI_WIN_NULL && MPI_Win_free(&window)) return -1;
    if (MPI_Comm_free(&comm)) return -1;
    return initialised_here && MPI_Finalize() ? -1 : 0;
}

/* MPI's own operations, to measure beside: a barrier, and an exclusive section of a window of rank 0 that adds one to
 * its word. */
int littoral_mpi_barrier(void)
{
    return MPI_Barrier(comm) ? -1 : 0;
}

int littoral_mpi_open_window(void)
{
    if (MPI_Win_allocate(sizeof *word, sizeof *word, MPI_INFO_NULL, comm, &word, &window)) return -1;
    *word = 0;
    return littoral_mpi_barrier();
}

int littoral_mpi_section(void)
{
    long value = 0;
    int failed = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    failed = failed || MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
    failed = failed || MPI_Win_flush(0, window);
    value++;
    failed = failed || MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
    return failed || MPI_Win_unlock(0, window) ? -1 : 0;
}

/* What the window's word holds at this rank. */
long littoral_mpi_word(void)
{
    return word ? *word : -1;
}
