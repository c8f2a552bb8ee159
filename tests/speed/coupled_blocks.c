/* Measures how fast one PnetCDF program hands steps to another one by files: the writer's ranks
 * have blocks of a plane, the reader's have slabs.
 *
 *   coupled_blocks write|read DIRECTORY STEPS MIB
 *
 * As coupled_steps.c: the writer is at most one step ahead; the reader compares one value of each
 * row and prints MiB/s, without the first two steps. */
#include "handing.h"
#include <mpi.h>
#include <pnetcdf.h>
#include <string.h>

static int rank, ranks;

static void check(int error, int line) {
    if (error == NC_NOERR) return;
    fprintf(stderr, "line %d: %s\n", line, ncmpi_strerror(error));
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define OK(call) check(call, __LINE__)

/* Rank 0 tells, or hears, and all go on. */
static void tell_all(int fd) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) tell(fd);
}

static void hear_all(int fd) {
    if (rank == 0) hear(fd);
    MPI_Barrier(MPI_COMM_WORLD);
}

static double value(int step, MPI_Offset y, MPI_Offset x) { return step * 1e8 + y * 1e4 + x; }

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 5) MPI_Abort(MPI_COMM_WORLD, 2);
    int writes = argv[1][0] == 'w', steps = atoi(argv[3]), columns = 1;
    place = argv[2];
    MPI_Offset width = 2048, height = (MPI_Offset)atoi(argv[4]) * 64;
    for (int at = 2; writes && at * at <= ranks; at++)
        if (ranks % at == 0) columns = at;
    int rows = ranks / columns, row = rank / columns, column = rank % columns;
    MPI_Offset start[2] = {height * row / rows, width * column / columns};
    MPI_Offset count[2] = {height * (row + 1) / rows - start[0],
                           width * (column + 1) / columns - start[1]};
    size_t size = (size_t)(count[0] * count[1]);
    double *data = malloc(size * sizeof *data), began = 0;
    if (!data) fail("malloc");
    memset(data, 0, size * sizeof *data);
    int ready = fifo("ready"), done = fifo("done");
    for (int step = 0; step < steps; step++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/step.%d", place, step % 2);
        int nc, dims[2], id;
        if (writes) {
            for (size_t at = 0; at < size; at += 512)
                data[at] = value(step, start[0] + (MPI_Offset)at / count[1],
                                 start[1] + (MPI_Offset)at % count[1]);
            if (step >= 2) hear_all(done);
            OK(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &nc));
            OK(ncmpi_def_dim(nc, "y", height, &dims[0]));
            OK(ncmpi_def_dim(nc, "x", width, &dims[1]));
            OK(ncmpi_def_var(nc, "t", NC_DOUBLE, 2, dims, &id));
            OK(ncmpi_enddef(nc));
            OK(ncmpi_put_vara_double_all(nc, id, start, count, data));
            OK(ncmpi_close(nc));
            tell_all(ready);
            continue;
        }
        if (step == 2) began = MPI_Wtime();
        hear_all(ready);
        OK(ncmpi_open(MPI_COMM_WORLD, path, NC_NOWRITE, MPI_INFO_NULL, &nc));
        OK(ncmpi_inq_varid(nc, "t", &id));
        OK(ncmpi_get_vara_double_all(nc, id, start, count, data));
        OK(ncmpi_close(nc));
        tell_all(done);
        for (MPI_Offset y = 0; y < count[0]; y++)
            if (data[y * count[1]] != value(step, start[0] + y, 0)) {
                fprintf(stderr, "step %d: wrong value in row %lld\n", step, (long long)y);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
    }
    if (!writes && rank == 0)
        printf("%.0f\n", (steps - 2) * atof(argv[4]) / (MPI_Wtime() - began));
    MPI_Finalize();
    return 0;
}
