/* Writes or reads generations of a netCDF file by PnetCDF, and checks every value.
 *
 *   coupled_pnetcdf write|read blocks|slabs|columns FILE GENERATIONS STEPS
 *
 * The variable t(time, y, x) has records; k(y, x) and l(z, y, x) have none. Each rank has a block
 * of y and x, a slab of y, or a column of x. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { Y = 42, X = 60, Z = 3 };
static int rank, ranks;
static MPI_Offset start[2], count[2];

static void check(int error, int line) {
    if (error == NC_NOERR) return;
    fprintf(stderr, "line %d: %s\n", line, ncmpi_strerror(error));
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define OK(call) check(call, __LINE__)

static void part(MPI_Offset size, int parts, int number, int at) {
    start[at] = size * number / parts;
    count[at] = size * (number + 1) / parts - start[at];
}

static void decompose(const char *how) {
    int rows = 1;
    if (strcmp(how, "blocks") == 0)
        for (rows = 1; (rows + 1) * (rows + 1) <= ranks || ranks % rows; rows++) {}
    if (strcmp(how, "slabs") == 0) rows = ranks;
    int columns = ranks / rows;
    part(Y, rows, rank / columns, 0);
    part(X, columns, rank % columns, 1);
}

static double value(int generation, int step, MPI_Offset y, MPI_Offset x) {
    return generation * 1e6 + step * 1e4 + (double)(y * X + x) + 0.25;
}

static void fill(double *to, int generation, int step) {
    for (MPI_Offset y = 0; y < count[0]; y++)
        for (MPI_Offset x = 0; x < count[1]; x++)
            to[y * count[1] + x] = value(generation, step, start[0] + y, start[1] + x);
}

static void compare(const double *found, const char *what, int generation, int step) {
    size_t size = (size_t)(count[0] * count[1]);
    double *wanted = malloc(size * sizeof *wanted);
    fill(wanted, generation, step);
    for (size_t at = 0; at < size; at++)
        if (found[at] != wanted[at]) {
            fprintf(stderr, "generation %d, rank %d, %s(%d), %zu: %f, not %f\n", generation, rank,
                    what, step, at, found[at], wanted[at]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    free(wanted);
}

static void write_generation(const char *file, int generation, int steps, double *data) {
    int nc, dims[4], t, k, l;
    OK(ncmpi_create(MPI_COMM_WORLD, file, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &nc));
    OK(ncmpi_def_dim(nc, "time", NC_UNLIMITED, &dims[0]));
    OK(ncmpi_def_dim(nc, "y", Y, &dims[1]));
    OK(ncmpi_def_dim(nc, "x", X, &dims[2]));
    OK(ncmpi_def_dim(nc, "z", Z, &dims[3]));
    OK(ncmpi_def_var(nc, "t", NC_DOUBLE, 3, dims, &t));
    OK(ncmpi_def_var(nc, "k", NC_DOUBLE, 2, dims + 1, &k));
    int deep[3] = {dims[3], dims[1], dims[2]};
    OK(ncmpi_def_var(nc, "l", NC_DOUBLE, 3, deep, &l));
    OK(ncmpi_put_att_int(nc, NC_GLOBAL, "generation", NC_INT, 1, &generation));
    OK(ncmpi_enddef(nc));
    fill(data, generation, 90);
    OK(ncmpi_put_vara_double_all(nc, k, start, count, data));
    for (int z = 0; z < Z; z++) {
        MPI_Offset from[3] = {z, start[0], start[1]}, len[3] = {1, count[0], count[1]};
        fill(data, generation, 80 + z);
        OK(ncmpi_put_vara_double_all(nc, l, from, len, data));
    }
    for (int step = 0; step < steps; step++) {
        MPI_Offset from[3] = {step, start[0], start[1]}, len[3] = {1, count[0], count[1]};
        fill(data, generation, step);
        OK(ncmpi_put_vara_double_all(nc, t, from, len, data));
    }
    OK(ncmpi_close(nc));
}

static void read_generation(const char *file, int generation, int steps, double *data) {
    int nc, id, found;
    MPI_Offset records;
    OK(ncmpi_open(MPI_COMM_WORLD, file, NC_NOWRITE, MPI_INFO_NULL, &nc));
    OK(ncmpi_get_att_int(nc, NC_GLOBAL, "generation", &found));
    OK(ncmpi_inq_dimid(nc, "time", &id));
    OK(ncmpi_inq_dimlen(nc, id, &records));
    if (found != generation || records != steps) {
        fprintf(stderr, "generation %d with %lld records, not %d\n", found, (long long)records,
                generation);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    OK(ncmpi_inq_varid(nc, "k", &id));
    OK(ncmpi_get_vara_double_all(nc, id, start, count, data));
    compare(data, "k", generation, 90);
    OK(ncmpi_inq_varid(nc, "l", &id));
    for (int z = 0; z < Z; z++) {
        MPI_Offset from[3] = {z, start[0], start[1]}, len[3] = {1, count[0], count[1]};
        OK(ncmpi_get_vara_double_all(nc, id, from, len, data));
        compare(data, "l", generation, 80 + z);
    }
    OK(ncmpi_inq_varid(nc, "t", &id));
    for (int step = 0; step < steps; step++) {
        MPI_Offset from[3] = {step, start[0], start[1]}, len[3] = {1, count[0], count[1]};
        OK(ncmpi_get_vara_double_all(nc, id, from, len, data));
        compare(data, "t", generation, step);
    }
    OK(ncmpi_close(nc));
    if (rank == 0) printf("generation %d: right\n", generation);
    fflush(stdout);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 6) MPI_Abort(MPI_COMM_WORLD, 2);
    decompose(argv[2]);
    double *data = malloc(sizeof *data * (size_t)(count[0] * count[1] + 1));
    for (int generation = 1; generation <= atoi(argv[4]); generation++)
        if (strcmp(argv[1], "write") == 0)
            write_generation(argv[3], generation, atoi(argv[5]), data);
        else
            read_generation(argv[3], generation, atoi(argv[5]), data);
    free(data);
    MPI_Finalize();
    return 0;
}
