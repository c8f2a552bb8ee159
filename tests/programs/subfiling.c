/* Writes an HDF5 file with HDF5's subfiling: element (r, c) of /x is 50 r + c.
 *
 * usage: subfiling FILE STRIPE SUBFILES
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 100, COLUMNS = 50 };

static void need(int fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "subfiling: %s failed\n", what);
    H5Eprint2(H5E_DEFAULT, stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define CHECK(call) need((call) >= 0, #call)

int main(int count, char **arguments)
{
    int provided, rank, ranks;
    MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &provided);
    need(count == 4, "usage: subfiling FILE STRIPE SUBFILES");
    need(provided == MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5FD_subfiling_config_t config;
    CHECK(H5Pset_mpi_params(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    CHECK(H5Pget_fapl_subfiling(access, &config));
    config.shared_cfg.stripe_size = atol(arguments[2]);
    config.shared_cfg.stripe_count = atoi(arguments[3]);
    config.shared_cfg.ioc_selection = SELECT_IOC_EVERY_NTH_RANK;
    CHECK(H5Pset_fapl_subfiling(access, &config));
    hid_t file = H5Fcreate(arguments[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
    CHECK(file);
    hsize_t shape[2] = {ROWS * ranks, COLUMNS}, part[2] = {ROWS, COLUMNS};
    hsize_t start[2] = {ROWS * rank, 0};
    hid_t space = H5Screate_simple(2, shape, NULL), memory = H5Screate_simple(2, part, NULL);
    hid_t set = H5Dcreate2(file, "/x", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT,
                           H5P_DEFAULT);
    CHECK(set);
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL));
    static int values[ROWS * COLUMNS];
    for (int at = 0; at < ROWS * COLUMNS; at++)
        values[at] = rank * ROWS * COLUMNS + at;
    CHECK(H5Dwrite(set, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values));
    CHECK(H5Dclose(set));
    CHECK(H5Sclose(space));
    CHECK(H5Sclose(memory));
    CHECK(H5Fclose(file));
    CHECK(H5Pclose(access));
    MPI_Finalize();
    return 0;
}
