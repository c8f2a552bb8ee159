/* Appends the raster to a chunked dataset, a time step at a time, as simulations do: every rank has
 * a block of columns, and each step is one collective write: coast_steps_hdf5 INPUT OUTPUT */
#include "coast_hdf5.h"

enum { STEPS = 24 };

static void append(hid_t data, int step, int first, int width, const int *part)
{
    hsize_t size[3] = {step + 1, ROWS, COLUMNS}, start[3] = {step, 0, first},
            count[3] = {1, ROWS, width};
    good(H5Dset_extent(data, size), "extent");
    hid_t space = good(H5Dget_space(data), "space"),
          memory = good(H5Screate_simple(3, count, NULL), "memory");
    hid_t transfer = collective();
    good(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL), "selection");
    good(H5Dwrite(data, H5T_NATIVE_INT, memory, space, transfer, part), "write");
    H5Pclose(transfer);
    H5Sclose(memory);
    H5Sclose(space);
}

static void write_fields(const char *path, const struct coast *coast, const double *longitude,
                         const double *latitude, const int *raster) {
    hid_t access = parallel(),
          file = good(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access), path);
    hsize_t size[3] = {0, ROWS, COLUMNS}, most[3] = {H5S_UNLIMITED, ROWS, COLUMNS},
            chunk[3] = {1, 45, 90};
    (void)coast, (void)longitude, (void)latitude;
    hid_t space = good(H5Screate_simple(3, size, most), "space"),
          list = good(H5Pcreate(H5P_DATASET_CREATE), "list");
    good(H5Pset_obj_track_times(list, 0), "times");
    good(H5Pset_chunk(list, 3, chunk), "chunk");
    hid_t data = good(
        H5Dcreate(file, "points_in_cell", H5T_STD_I32LE, space, H5P_DEFAULT, list, H5P_DEFAULT),
        "dataset");
    int first = share(COLUMNS, rank, ranks), width = share(COLUMNS, rank + 1, ranks) - first;
    int *part = room(sizeof(int) * ROWS * width);
    for (int step = 0; step < STEPS; step++) {
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < width; column++)
                part[row * width + column] = raster[row * COLUMNS + first + column] + step;
        append(data, step, first, width, part);
    }
    free(part);
    H5Dclose(data);
    H5Pclose(list);
    H5Sclose(space);
    H5Fclose(file);
    H5Pclose(access);
}

int main(int argc, char **argv)
{
    return run(argc, argv, read_coast, write_fields);
}
