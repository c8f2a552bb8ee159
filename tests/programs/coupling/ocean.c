/* A model: every rank has a block of the sea, and the field of each day is a file, sst.nc. */
#include <math.h>
#include <mpi.h>
#include <pnetcdf.h>
#include <stdlib.h>

enum { ROWS = 120, COLUMNS = 180, DAYS = 5 };

#define OK(call) do { if ((call) != NC_NOERR) MPI_Abort(MPI_COMM_WORLD, 1); } while (0)

int main(int argc, char **argv) {
    int rank, ranks, dims[2] = {0, 0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, 2, dims);
    MPI_Offset row = rank / dims[1], column = rank % dims[1];
    MPI_Offset start[2] = {ROWS * row / dims[0], COLUMNS * column / dims[1]};
    MPI_Offset count[2] = {ROWS * (row + 1) / dims[0] - start[0],
                           COLUMNS * (column + 1) / dims[1] - start[1]};
    double *field = malloc(sizeof *field * (size_t)(count[0] * count[1]));
    for (int day = 0; day < DAYS; day++) {
        for (MPI_Offset i = 0; i < count[0] * count[1]; i++) {
            MPI_Offset y = start[0] + i / count[1], x = start[1] + i % count[1];
            field[i] = 15 + 10 * sin(0.05 * (double)y) + 0.01 * (double)x + day;
        }
        int file, dim[2], sst;
        OK(ncmpi_create(MPI_COMM_WORLD, "sst.nc", NC_CLOBBER, MPI_INFO_NULL, &file));
        OK(ncmpi_def_dim(file, "y", ROWS, &dim[0]));
        OK(ncmpi_def_dim(file, "x", COLUMNS, &dim[1]));
        OK(ncmpi_def_var(file, "sst", NC_DOUBLE, 2, dim, &sst));
        OK(ncmpi_put_att_int(file, NC_GLOBAL, "day", NC_INT, 1, &day));
        OK(ncmpi_enddef(file));
        OK(ncmpi_put_vara_double_all(file, sst, start, count, field));
        OK(ncmpi_close(file));
    }
    free(field);
    MPI_Finalize();
    return 0;
}
