/* A checkpoint through PnetCDF: 20 variables of 2-D blocks in 5 records, or an irregular
   decomposition like E3SM's.

       checkpoint FILE blocking|nonblocking|limit blocks|cells

   blocks: each rank has a rectangle of every variable (512 x 512 doubles). cells: 40 variables of
   one record over 262,144 columns, of which each rank has runs of 17 in turn, as an atmosphere has
   that is balanced over day and night. limit: as many bytes without PnetCDF, each rank one part of
   the file in requests of 4 MiB. Prints the seconds from the creation to the end of the closing, of
   the slowest rank, and the bytes written. */
#include <fcntl.h>
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    REQUEST = 4 << 20,
    SIDE = 512,
    VARIABLES = 20,
    RECORDS = 5,
    CELLS = 1 << 18,
    RUN = 17,
    FIELDS = 40
};

static int rank, ranks;

static void ok(int code, int line)
{
    if (code == NC_NOERR)
        return;
    fprintf(stderr, "line %d: %s\n", line, ncmpi_strerror(code));
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define OK(call) ok(call, __LINE__)

static double value(long variable, long record, long cell)
{
    return variable * 1e6 + record * 1e5 + cell;
}

/* How many ranks in y: the divisor nearest to the square root. */
static int rows_of_ranks(void)
{
    int rows = 1;
    for (int i = 1; i * i <= ranks; i++)
        if (ranks % i == 0)
            rows = i;
    return rows;
}

/* Defines `count` variables of doubles with these dimensions. */
static void define(int file, int rank_of_variables, const int *dimensions, int count,
                   int *variables) {
    for (int i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "field_%d", i);
        OK(ncmpi_def_var(file, name, NC_DOUBLE, rank_of_variables, dimensions, &variables[i]));
    }
    OK(ncmpi_enddef(file));
}

static void write_blocks(int file, int nonblocking)
{
    int dimensions[3], variables[VARIABLES], rows = rows_of_ranks(), columns = ranks / rows;
    OK(ncmpi_def_dim(file, "time", NC_UNLIMITED, &dimensions[0]));
    OK(ncmpi_def_dim(file, "y", SIDE, &dimensions[1]));
    OK(ncmpi_def_dim(file, "x", SIDE, &dimensions[2]));
    define(file, 3, dimensions, VARIABLES, variables);
    int row = rank / columns, column = rank % columns;
    MPI_Offset start[3] = {0, (long)row * SIDE / rows, (long)column * SIDE / columns},
               count[3] = {1, 0, 0};
    count[1] = (row + 1L) * SIDE / rows - start[1];
    count[2] = (column + 1L) * SIDE / columns - start[2];
    long cells = count[1] * count[2];
    double *data = malloc(VARIABLES * cells * sizeof *data);
    for (int record = 0; record < RECORDS; record++) {
        start[0] = record;
        for (int i = 0; i < VARIABLES; i++) {
            double *part = data + i * cells;
            for (long cell = 0; cell < cells; cell++)
                part[cell] = value(i, record, cell + rank);
            if (nonblocking)
                OK(ncmpi_iput_vara_double(file, variables[i], start, count, part, NULL));
            else
                OK(ncmpi_put_vara_double_all(file, variables[i], start, count, part));
        }
        if (nonblocking)
            OK(ncmpi_wait_all(file, NC_REQ_ALL, NULL, NULL));
    }
    free(data);
}

static void write_cells(int file, int nonblocking)
{
    int dimensions[2], variables[FIELDS], pieces = 0;
    OK(ncmpi_def_dim(file, "time", NC_UNLIMITED, &dimensions[0]));
    OK(ncmpi_def_dim(file, "ncol", CELLS, &dimensions[1]));
    define(file, 2, dimensions, FIELDS, variables);
    int most = CELLS / RUN / ranks + 2;
    MPI_Offset(*places)[4] = malloc(most * sizeof *places),
    **starts = malloc(most * sizeof *starts);
    MPI_Offset **counts = malloc(most * sizeof *counts);
    long cells = 0;
    for (long first = (long)rank * RUN; first < CELLS; first += (long)ranks * RUN, pieces++) {
        long length = first + RUN <= CELLS ? RUN : CELLS - first;
        places[pieces][0] = 0, places[pieces][1] = first, places[pieces][2] = 1,
        places[pieces][3] = length;
        starts[pieces] = places[pieces], counts[pieces] = places[pieces] + 2;
        cells += length;
    }
    double *data = malloc(FIELDS * cells * sizeof *data);
    for (int i = 0; i < FIELDS; i++) {
        double *part = data + i * cells;
        for (long cell = 0; cell < cells; cell++)
            part[cell] = value(i, 0, cell + rank);
        if (nonblocking)
            OK(ncmpi_iput_varn_double(file, variables[i], pieces, starts, counts, part, NULL));
        else
            OK(ncmpi_put_varn_double_all(file, variables[i], pieces, starts, counts, part));
    }
    if (nonblocking)
        OK(ncmpi_wait_all(file, NC_REQ_ALL, NULL, NULL));
    free(data), free(places), free(starts), free(counts);
}

static void write_limit(const char *path, long bytes)
{
    static char data[REQUEST];
    memset(data, rank + 1, sizeof data);
    int file = open(path, O_CREAT | O_WRONLY, 0666);
    long end = bytes / ranks * (rank + 1);
    for (long at = bytes / ranks * rank; at < end; at += REQUEST) {
        long length = end - at < REQUEST ? end - at : REQUEST;
        if (pwrite(file, data, length, at) != length)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    close(file);
}

static void write_netcdf(const char *path, int nonblocking, int cells)
{
    int file;
    OK(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file));
    (cells ? write_cells : write_blocks)(file, nonblocking);
    OK(ncmpi_close(file));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 4)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int cells = !strcmp(argv[3], "cells"), nonblocking = !strcmp(argv[2], "nonblocking");
    long bytes = cells ? (long)FIELDS * CELLS * 8 : (long)VARIABLES * RECORDS * SIDE * SIDE * 8;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    if (!strcmp(argv[2], "limit"))
        write_limit(argv[1], bytes);
    else
        write_netcdf(argv[1], nonblocking, cells);
    double seconds = MPI_Wtime() - begin, slowest;
    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%f %ld\n", slowest, bytes);
    MPI_Finalize();
    return 0;
}
