/* What the application patterns have in common: arguments, clocks, and the line that they print. */
#ifndef TIMING_H
#define TIMING_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank_of_mine, ranks_of_all;

/* Ends the job. */
static void give_up(const char *what)
{
    fprintf(stderr, "rank %d: %s\n", rank_of_mine, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

#define MPI(call)                                                                                  \
    do {                                                                                           \
        if ((call) != MPI_SUCCESS)                                                                 \
            give_up(#call);                                                                        \
    } while (0)

static void start(int *argc, char ***argv)
{
    MPI(MPI_Init(argc, argv));
    MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank_of_mine));
    MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks_of_all));
}

static double now(void)
{
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    return MPI_Wtime();
}

static void *memory(size_t bytes)
{
    void *place = malloc(bytes ? bytes : 1);
    if (!place)
        give_up("no memory");
    memset(place, 0, bytes);
    return place;
}

/* The content of element `at` of everything that the job writes as number `which`. */
static double value(long long which, long long at)
{
    return (double)((which * 1000003 + at * 7) % 16777216);
}

/* What the driver of the benchmark reads. */
static void tell(double written, double read, double bytes)
{
    if (rank_of_mine == 0)
        printf("write %.6f read %.6f bytes %.0f\n", written, read, bytes);
    MPI(MPI_Finalize());
}

#endif
