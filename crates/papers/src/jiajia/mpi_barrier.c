/* A barrier of MPI, timed in batches: prints the tenth percentile and the median in nanoseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int rank, batches = atoi(argv[1]), batch = atoi(argv[2]);
    double *ns = malloc(sizeof *ns * batches);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < batch; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    for (int b = 0; b < batches; b++) {
        double began = MPI_Wtime();
        for (int i = 0; i < batch; i++)
            MPI_Barrier(MPI_COMM_WORLD);
        ns[b] = (MPI_Wtime() - began) * 1e9 / batch;
    }
    if (rank == 0) {
        qsort(ns, batches, sizeof *ns, by_value);
        printf("%.1f %.1f\n", ns[(batches - 1) / 10], ns[(batches - 1) / 2]);
    }
    MPI_Finalize();
    return 0;
}
