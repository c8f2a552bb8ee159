/* Changes the file that coast_hdf5 wrote: every other column of its raster becomes negative, and a
 * new dataset holds the raster per square degree: coast_density_hdf5 FILE */
#include "coast.h"
#include <hdf5.h>

static hid_t good(hid_t id, const char *what)
{
    if (id < 0)
        fail(what);
    return id;
}

/* A new dataset like `cells`, without time stamps, so that two runs can be compared byte for byte.
 */
static hid_t create(hid_t file, hid_t space)
{
    hid_t list = good(H5Pcreate(H5P_DATASET_CREATE), "list");
    good(H5Pset_obj_track_times(list, 0), "times");
    hid_t data =
        good(H5Dcreate(file, "density", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT),
             "density");
    H5Pclose(list);
    return data;
}

static void work(const char *path)
{
    hid_t access = good(H5Pcreate(H5P_FILE_ACCESS), "access list"),
          transfer = good(H5Pcreate(H5P_DATASET_XFER), "list");
    good(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL), "mpio");
    good(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE), "collective");
    hid_t file = good(H5Fopen(path, H5F_ACC_RDWR, access), path);
    hid_t cells = good(H5Dopen(file, "points_in_cell", H5P_DEFAULT), "cells"),
          space = good(H5Dget_space(cells), "space");
    hid_t density = create(file, space);

    /* Columns of a rank lie `ranks` apart. */
    hsize_t start[2] = {0, rank}, stride[2] = {1, ranks},
            count[2] = {ROWS, share(COLUMNS - rank + ranks - 1, 1, ranks)};
    hid_t memory = good(H5Screate_simple(2, count, NULL), "memory");
    int *part = room(sizeof(int) * count[0] * count[1]);
    good(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL), "columns");
    good(H5Dread(cells, H5T_NATIVE_INT, memory, space, transfer, part), "read");
    float *dense = room(sizeof(float) * count[0] * count[1]);
    for (hsize_t i = 0; i < count[0] * count[1]; i++) {
        dense[i] = part[i] * 4.0f;
        part[i] = rank % 2 ? part[i] : -part[i];
    }
    good(H5Dwrite(cells, H5T_NATIVE_INT, memory, space, transfer, part), "cells");
    good(H5Dwrite(density, H5T_NATIVE_FLOAT, memory, space, transfer, dense), "density");
    free(part);
    free(dense);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(density);
    H5Dclose(cells);
    H5Fclose(file);
    H5Pclose(transfer);
    H5Pclose(access);
}

int main(int argc, char **argv)
{
    return change(argc, argv, work);
}
