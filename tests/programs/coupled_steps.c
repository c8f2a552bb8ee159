/* Writes or reads the records of a netCDF file by PnetCDF, while the other side is at work.
 *
 *   coupled_steps write FILE FORMAT RECORDS WIDTH MILLISECONDS
 *   coupled_steps read|last FILE RECORDS WIDTH
 *
 * FORMAT is 1, 2 or 5. Each record has the variables a and b of WIDTH numbers; each rank writes a
 * part of them. The reader opens the file repeatedly until it has seen all records, checks all of
 * them each time, and prints their number when it has changed. With `last` it checks the last one,
 * and rank 0 reads the header some time after all ranks have opened the file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;
/* Milliseconds that each open takes longer. */
static int late;

static void check(int error, int line) {
    if (error == NC_NOERR) return;
    fprintf(stderr, "line %d: %s\n", line, ncmpi_strerror(error));
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define OK(call) check(call, __LINE__)

int MPI_File_open(MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *file) {
    int (*next)(MPI_Comm, const char *, int, MPI_Info, MPI_File *);
    *(void **)&next = dlsym(RTLD_NEXT, "MPI_File_open");
    int error = next(comm, name, mode, info, file);
    usleep(1000 * late);
    return error;
}

static int value(int variable, long record, long x) {
    return (int)(1000003 * (record + 1) + 17 * x + variable);
}

static void write_all(const char *file, int format, long records, long width, int pause) {
    int id, time, x, dimensions[2], variables[2];
    int mode = NC_CLOBBER | (format == 2 ? NC_64BIT_OFFSET : format == 5 ? NC_64BIT_DATA : 0);
    OK(ncmpi_create(MPI_COMM_WORLD, file, mode, MPI_INFO_NULL, &id));
    OK(ncmpi_def_dim(id, "time", NC_UNLIMITED, &time));
    OK(ncmpi_def_dim(id, "x", width, &x));
    dimensions[0] = time;
    dimensions[1] = x;
    OK(ncmpi_def_var(id, "a", NC_INT, 2, dimensions, &variables[0]));
    OK(ncmpi_def_var(id, "b", NC_INT, 2, dimensions, &variables[1]));
    OK(ncmpi_enddef(id));
    long first = width * rank / ranks, count = width * (rank + 1) / ranks - first;
    int *values = malloc((count + 1) * sizeof *values);
    for (long record = 0; record < records; record++) {
        for (int variable = 0; variable < 2; variable++) {
            MPI_Offset start[2] = {record, first}, counts[2] = {1, count};
            for (long i = 0; i < count; i++) values[i] = value(variable, record, first + i);
            OK(ncmpi_put_vara_int_all(id, variables[variable], start, counts, values));
            usleep(1000 * pause);
        }
    }
    OK(ncmpi_close(id));
    free(values);
}

static void read_all(const char *file, long records, long width) {
    long first = width * rank / ranks, count = width * (rank + 1) / ranks - first;
    int *values = malloc((count + 1) * sizeof *values);
    for (MPI_Offset seen = -1, there = 0; seen < records; seen = there) {
        int id, time, variable;
        OK(ncmpi_open(MPI_COMM_WORLD, file, NC_NOWRITE, MPI_INFO_NULL, &id));
        OK(ncmpi_inq_dimid(id, "time", &time));
        OK(ncmpi_inq_dimlen(id, time, &there));
        for (long record = late && there ? there - 1 : 0; record < there; record++) {
            for (int index = 0; index < 2; index++) {
                MPI_Offset start[2] = {record, first}, counts[2] = {1, count};
                memset(values, 0, count * sizeof *values);
                OK(ncmpi_inq_varid(id, index ? "b" : "a", &variable));
                OK(ncmpi_get_vara_int_all(id, variable, start, counts, values));
                for (long i = 0; i < count; i++)
                    if (values[i] != value(index, record, first + i)) {
                        printf("record %ld of %lld: %c[%ld] is %d\n", record, (long long)there,
                               'a' + index, first + i, values[i]);
                        MPI_Abort(MPI_COMM_WORLD, 2);
                    }
            }
        }
        OK(ncmpi_close(id));
        if (rank == 0 && there != seen) printf("%lld\n", (long long)there), fflush(stdout);
        usleep(3000);
    }
    free(values);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc == 7 && !strcmp(argv[1], "write"))
        write_all(argv[2], atoi(argv[3]), atol(argv[4]), atol(argv[5]), atoi(argv[6]));
    else if (argc == 5 && (!strcmp(argv[1], "read") || !strcmp(argv[1], "last"))) {
        late = strcmp(argv[1], "last") ? 0 : 30;
        read_all(argv[2], atol(argv[3]), atol(argv[4]));
    } else
        return 1;
    MPI_Finalize();
    return 0;
}
