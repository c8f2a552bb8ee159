/* Collective writes to several HDF5 datasets at a time (H5Dwrite_multi, HDF5 1.14): contiguous,
 * chunked, and compressed; every rank has a band of rows, every second column, or scattered points.
 *
 * usage: hdf5_multi FILE
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

enum { SETS = 6, ROWS = 48, COLUMNS = 40 };

static void need(int fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "hdf5_multi: %s failed\n", what);
    H5Eprint2(H5E_DEFAULT, stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define CHECK(call) need((call) >= 0, #call)

static int rank, ranks;

/* The part of a rank, by the number of the dataset. */
static void choose(hid_t space, int number)
{
    hsize_t start[2] = {ROWS / ranks * rank, 0}, count[2] = {ROWS / ranks, COLUMNS};
    hsize_t stride[2] = {1, 1}, points[20][2];
    if (number % 3 == 1) {
        start[0] = 0, count[0] = ROWS;
        start[1] = rank, stride[1] = ranks, count[1] = (COLUMNS - rank + ranks - 1) / ranks;
    }
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL));
    if (number % 3 == 2) {
        for (int n = 0; n < 20; n++) {
            points[n][0] = (rank + ranks * (n * 7 % (ROWS / ranks)));
            points[n][1] = n * 3 % COLUMNS;
        }
        CHECK(H5Sselect_elements(space, H5S_SELECT_SET, 20, &points[0][0]));
    }
    /* One rank has nothing of one dataset. */
    if (number == 4 && rank == ranks - 1)
        CHECK(H5Sselect_none(space));
}

int main(int count, char **arguments)
{
    MPI_Init(&count, &arguments);
    need(count == 2, "usage: hdf5_multi FILE");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    CHECK(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE));
    hid_t file = H5Fcreate(arguments[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
    CHECK(file);
    hsize_t shape[2] = {ROWS, COLUMNS}, chunk[2] = {7, 11};
    hid_t sets[SETS], types[SETS], memories[SETS], spaces[SETS];
    static int values[SETS][ROWS * COLUMNS], back[SETS][ROWS * COLUMNS];
    const void *from[SETS];
    void *to[SETS];
    for (int number = 0; number < SETS; number++) {
        char name[8];
        snprintf(name, sizeof name, "d%d", number);
        hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
        if (number > 1)
            CHECK(H5Pset_chunk(plist, 2, chunk));
        if (number == 5)
            CHECK(H5Pset_deflate(plist, 3));
        spaces[number] = H5Screate_simple(2, shape, NULL);
        sets[number] = H5Dcreate2(file, name, H5T_STD_I32LE, spaces[number], H5P_DEFAULT, plist,
                                  H5P_DEFAULT);
        CHECK(sets[number]);
        CHECK(H5Pclose(plist));
        choose(spaces[number], number);
        hsize_t mine = H5Sget_select_npoints(spaces[number]), one = ROWS * COLUMNS;
        memories[number] = H5Screate_simple(1, &one, NULL);
        hsize_t begin = 0;
        if (mine)
            CHECK(H5Sselect_hyperslab(memories[number], H5S_SELECT_SET, &begin, NULL, &mine,
                                      NULL));
        else
            CHECK(H5Sselect_none(memories[number]));
        for (int at = 0; at < ROWS * COLUMNS; at++)
            values[number][at] = number * 1000000 + rank * 10000 + at;
        types[number] = H5T_NATIVE_INT;
        from[number] = values[number];
        to[number] = back[number];
    }
    CHECK(H5Dwrite_multi(SETS, sets, types, memories, spaces, transfer, from));
    CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL));
    CHECK(H5Dread_multi(SETS, sets, types, memories, spaces, transfer, to));
    for (int number = 0; number < SETS; number++) {
        hssize_t mine = H5Sget_select_npoints(spaces[number]);
        for (hssize_t at = 0; at < mine; at++)
            need(back[number][at] == values[number][at], "reading what was written");
        CHECK(H5Dclose(sets[number]));
        CHECK(H5Sclose(spaces[number]));
        CHECK(H5Sclose(memories[number]));
    }
    CHECK(H5Fclose(file));
    MPI_Finalize();
    return 0;
}
