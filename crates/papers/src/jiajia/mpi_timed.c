/* An operation of MPI, timed in batches: mpi_timed OPERATION BATCHES BATCH. Prints the tenth percentile
 * and the median in nanoseconds, of rank 0, or of the last rank for `section`. Operations: `barrier`;
 * `section`, an exclusive lock of a window of rank 0, get, put, unlock, while rank 0 waits at a barrier;
 * `trip`, eight bytes to the other rank and back. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static MPI_Win window;
static int rank, ranks;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static void section(void)
{
    long value = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
    MPI_Win_flush(0, window);
    value++;
    MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
    MPI_Win_unlock(0, window);
}

static void trip(void)
{
    long word = 0;
    int other = 1 - rank;
    if (rank == 0) {
        MPI_Send(&word, 1, MPI_LONG, other, 0, MPI_COMM_WORLD);
        MPI_Recv(&word, 1, MPI_LONG, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&word, 1, MPI_LONG, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&word, 1, MPI_LONG, other, 0, MPI_COMM_WORLD);
    }
}

static void batch_of(void (*operation)(void), int batch)
{
    for (int i = 0; i < batch; i++)
        operation();
}

int main(int argc, char **argv)
{
    const char *name = argv[1];
    int batches = atoi(argv[2]), batch = atoi(argv[3]);
    int is_section = strcmp(name, "section") == 0;
    void (*operation)(void) = is_section ? section : strcmp(name, "trip") == 0 ? trip : barrier;
    double *ns = malloc(sizeof *ns * batches);
    long *memory;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    *memory = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    int shows = is_section ? rank == ranks - 1 : rank == 0;
    if (!is_section || shows) {
        batch_of(operation, batch);
        for (int b = 0; b < batches; b++) {
            double began = MPI_Wtime();
            batch_of(operation, batch);
            ns[b] = (MPI_Wtime() - began) * 1e9 / batch;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_section && rank == 0 && *memory != (long)batch * (batches + 1)) {
        fprintf(stderr, "the counter is %ld\n", *memory);
        return 1;
    }
    if (shows) {
        qsort(ns, batches, sizeof *ns, by_value);
        printf("%.1f %.1f\n", ns[(batches - 1) / 10], ns[(batches - 1) / 2]);
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
