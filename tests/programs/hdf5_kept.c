/* Writes datasets through parallel HDF5 and tells which call has ended how on which rank, for tests
 * that kill ranks or fill the disk.
 *
 * hdf5_kept FILE TOLD SETS SIDE FILL
 *
 * Makes SETS chunked datasets of SIDE by SIDE integers with fill value FILL (`never`: none is
 * written), flushes, then writes one after the other, every second one collectively, and flushes
 * after each. Nothing but data changes after the first flush, so that what was flushed is there
 * whatever comes later. Each rank appends a line `CALL ok` or `CALL failed` to TOLD.RANK when all
 * have ended the call, and stops when it has failed on one of them. TOLD.begun is there once MPI
 * has started.
 */
#include <fcntl.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks, told;

static void make_told(const char *prefix) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", prefix, rank);
    told = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    snprintf(path, sizeof path, "%s.begun", prefix);
    if (told < 0 || (rank == 0 && close(open(path, O_CREAT | O_WRONLY, 0644)))) exit(2);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Tells how a call has ended here; whether it has ended well everywhere. */
static void tell(const char *call, long long result) {
    int ok = result >= 0, all;
    char line[64];
    MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    int length = snprintf(line, sizeof line, "%s %s\n", call, ok ? "ok" : "failed");
    if (write(told, line, length) != length) exit(2);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!all) MPI_Abort(MPI_COMM_WORLD, 3);
}

static hid_t make(hid_t file, int number, hsize_t side, const char *fill) {
    hsize_t lengths[] = {side, side}, chunk[] = {(side + 3) / 4, (side + 1) / 2};
    hid_t space = H5Screate_simple(2, lengths, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);
    char name[16];
    int value = atoi(fill);
    sprintf(name, "d%d", number);
    H5Pset_chunk(properties, 2, chunk);
    if (!strcmp(fill, "never")) H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER);
    else H5Pset_fill_value(properties, H5T_NATIVE_INT, &value);
    hid_t set = H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5Pclose(properties);
    H5Sclose(space);
    return set;
}

/* Each rank writes its rows. */
static herr_t write_rows(hid_t set, int number, hsize_t side) {
    hsize_t first = side * rank / ranks, count = side * (rank + 1) / ranks - first;
    hsize_t start[] = {first, 0}, lengths[] = {count, side};
    hid_t space = H5Dget_space(set), memory = H5Screate_simple(2, lengths, NULL);
    hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
    int *data = malloc((count * side + 1) * sizeof *data);
    for (hsize_t i = 0; i < count * side; i++)
        data[i] = 1000000 * (number + 1) + (int)(first * side + i);
    if (number % 2) H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, lengths, NULL);
    herr_t result = H5Dwrite(set, H5T_NATIVE_INT, memory, space, transfer, data);
    free(data);
    H5Pclose(transfer);
    H5Sclose(memory);
    H5Sclose(space);
    return result;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 6) return 2;
    int count = atoi(argv[3]);
    hsize_t side = atoi(argv[4]);
    hid_t sets[64], access = H5Pcreate(H5P_FILE_ACCESS);
    make_told(argv[2]);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
    tell("create", file);
    for (int i = 0; i < count; i++) tell("dataset", sets[i] = make(file, i, side, argv[5]));
    tell("flush", H5Fflush(file, H5F_SCOPE_GLOBAL));
    for (int i = 0; i < count; i++) {
        tell("write", write_rows(sets[i], i, side));
        tell("flush", H5Fflush(file, H5F_SCOPE_GLOBAL));
    }
    for (int i = 0; i < count; i++) tell("leave", H5Dclose(sets[i]));
    H5Pclose(access);
    tell("close", H5Fclose(file));
    MPI_Finalize();
    return 0;
}
