/* The stencil of stencil.rs in MPI: rows in blocks, border rows exchanged before each sweep, a global
 * sum of changes every tenth. Arguments: points a side, sweeps a batch, batches. Prints the tenth
 * percentile and the median of nanoseconds a sweep, and the sum of all points. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double start_value(long i, long j)
{
    return (double)((i * 7 + j * 13) % 101);
}

static void exchange(double *u, long w, long rows, int rank, int ranks)
{
    int above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int below = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(u + w, (int)w, MPI_DOUBLE, above, 0, u + (rows + 1) * w, (int)w, MPI_DOUBLE, below, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(u + rows * w, (int)w, MPI_DOUBLE, below, 1, u, (int)w, MPI_DOUBLE, above, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Rows first..last of `u` into `v`; row r of the arrays is row r - 1 of the block. */
static void sweep(const double *restrict u, double *restrict v, long w, long first, long last)
{
    for (long r = first; r <= last; r++)
        for (long j = 1; j < w - 1; j++) {
            const double *at = u + r * w + j;
            v[r * w + j] = 0.2 * at[0] + 0.2 * ((at[-1] + at[1]) + (at[-w] + at[w]));
        }
}

static double changed(const double *u, const double *v, long w, long first, long last)
{
    double sum = 0, all;
    for (long at = first * w; at < (last + 1) * w; at++) {
        double d = u[at] - v[at];
        sum += d * d;
    }
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    long w = atol(argv[1]), batch = atol(argv[2]), batches = atol(argv[3]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long start = w * rank / ranks, rows = w * (rank + 1) / ranks - start;
    long first = start == 0 ? 2 : 1, last = start + rows == w ? rows - 1 : rows;
    double *u = malloc(sizeof *u * (rows + 2) * w), *v = malloc(sizeof *v * (rows + 2) * w);
    double *ns = malloc(sizeof *ns * batches), rest = 1, sum = 0, all = 0;
    for (long at = 0; at < (rows + 2) * w; at++)
        u[at] = v[at] = start_value(start + at / w - 1, at % w);
    long sweeps = 0;
    for (long b = -1; b < batches; b++) {
        double began = MPI_Wtime();
        for (long i = 0; i < batch; i++) {
            exchange(u, w, rows, rank, ranks);
            sweep(u, v, w, first, last);
            if (++sweeps % 10 == 0)
                rest = changed(u, v, w, first, last);
            double *swap = u;
            u = v;
            v = swap;
        }
        if (b >= 0)
            ns[b] = (MPI_Wtime() - began) * 1e9 / batch;
    }
    for (long at = w; at < (rows + 1) * w; at++)
        sum += u[at];
    MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        qsort(ns, batches, sizeof *ns, by_value);
        printf("%.1f %.1f %.17g %.17g\n", ns[(batches - 1) / 10], ns[(batches - 1) / 2], all, rest);
    }
    MPI_Finalize();
    return 0;
}
