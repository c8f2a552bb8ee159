/* Reads binned coastlines (a netCDF-4 file is an HDF5 file) with parallel HDF5 and writes every
 * point's longitude and latitude, and a chunked raster that counts the points of each half degree:
 * coast_hdf5 INPUT OUTPUT */
#include "coast_hdf5.h"

static void write_fields(const char *path, const struct coast *coast, const double *longitude,
                         const double *latitude, const int *raster) {
    hid_t access = parallel(),
          file = good(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access), path);
    hsize_t points = coast->points, from = coast->from, count = coast->to - coast->from;
    write_part(create(file, "longitude", H5T_IEEE_F64LE, 1, &points, NULL), H5T_NATIVE_DOUBLE, 1,
               &from, &count, longitude);
    write_part(create(file, "latitude", H5T_IEEE_F64LE, 1, &points, NULL), H5T_NATIVE_DOUBLE, 1,
               &from, &count, latitude);

    /* Columns of the raster: every rank touches every chunk. */
    int first = share(COLUMNS, rank, ranks), width = share(COLUMNS, rank + 1, ranks) - first;
    hsize_t size[2] = {ROWS, COLUMNS}, chunk[2] = {60, 240}, start[2] = {0, first},
            part[2] = {ROWS, width};
    int *columns = room(sizeof(int) * ROWS * width);
    for (int row = 0; row < ROWS; row++)
        memcpy(columns + row * width, raster + row * COLUMNS + first, sizeof(int) * width);
    write_part(create(file, "points_in_cell", H5T_STD_I32LE, 2, size, chunk), H5T_NATIVE_INT, 2,
               start, part, columns);
    free(columns);
    H5Fclose(file);
    H5Pclose(access);
}

int main(int argc, char **argv)
{
    return run(argc, argv, read_coast, write_fields);
}
