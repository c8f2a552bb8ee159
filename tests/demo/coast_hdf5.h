/* Reads binned coastlines (a netCDF-4 file is an HDF5 file) with parallel HDF5, and makes and
 * writes datasets; shared by the programs that do. */
#ifndef COAST_HDF5_H
#define COAST_HDF5_H

#include "coast.h"
#include <hdf5.h>

static inline hid_t good(hid_t id, const char *what)
{
    if (id < 0)
        fail(what);
    return id;
}

static inline hid_t parallel(void)
{
    hid_t access = good(H5Pcreate(H5P_FILE_ACCESS), "access list");
    good(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL), "mpio");
    return access;
}

static inline hid_t collective(void)
{
    hid_t transfer = good(H5Pcreate(H5P_DATASET_XFER), "transfer list");
    good(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE), "collective");
    return transfer;
}

/* Reads elements from..to-1 of a one-dimensional dataset; `to` -1 means all. Returns their number.
 */
static inline int read_part(hid_t file, const char *name, hid_t type, size_t bytes, int from,
                            int to, void *into) {
    hid_t data = good(H5Dopen(file, name, H5P_DEFAULT), name),
          space = good(H5Dget_space(data), name);
    hsize_t start = from,
            count = to < 0 ? (hsize_t)H5Sget_simple_extent_npoints(space) : (hsize_t)(to - from);
    hid_t memory = good(H5Screate_simple(1, &count, NULL), name), transfer = collective();
    void *buffer = room(bytes * count);
    good(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL), name);
    good(H5Dread(data, type, memory, space, transfer, buffer), name);
    *(void **)into = buffer;
    H5Pclose(transfer);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(data);
    return (int)count;
}

static inline void read_coast(const char *path, struct coast *coast)
{
    hid_t access = parallel(), file = good(H5Fopen(path, H5F_ACC_RDONLY, access), path);
    hid_t points =
        good(H5Dopen(file, "Relative_longitude_from_SW_corner_of_bin", H5P_DEFAULT), "points");
    hid_t space = H5Dget_space(points);
    int *number;
    coast->points = (int)H5Sget_simple_extent_npoints(space);
    H5Sclose(space);
    H5Dclose(points);
    read_part(file, "Bin_size_in_minutes", H5T_NATIVE_INT, 4, 0, -1, &number);
    coast->bin_minutes = number[0];
    free(number);
    read_part(file, "N_bins_in_360_longitude_range", H5T_NATIVE_INT, 4, 0, -1, &number);
    coast->bins_in_row = number[0];
    free(number);
    coast->bins = read_part(file, "Id_of_first_segment_in_a_bin", H5T_NATIVE_INT, 4, 0, -1,
                            &coast->first_segment);
    read_part(file, "N_segments_in_a_bin", H5T_NATIVE_SHORT, 2, 0, -1, &coast->segments_in_bin);
    coast->segments = read_part(file, "Id_of_first_point_in_a_segment", H5T_NATIVE_INT, 4, 0, -1,
                                &coast->first_point);
    read_part(file, "Embedded_npts_levels_exit_entry_for_a_segment", H5T_NATIVE_INT, 4, 0, -1,
              &coast->header);
    coast->from = share(coast->points, rank, ranks);
    coast->to = share(coast->points, rank + 1, ranks);
    read_part(file, "Relative_longitude_from_SW_corner_of_bin", H5T_NATIVE_SHORT, 2, coast->from,
              coast->to, &coast->x);
    read_part(file, "Relative_latitude_from_SW_corner_of_bin", H5T_NATIVE_SHORT, 2, coast->from,
              coast->to, &coast->y);
    H5Fclose(file);
    H5Pclose(access);
}

/* A dataset without time stamps, so that two runs can be compared byte for byte. */
static inline hid_t create(hid_t file, const char *name, hid_t type, int dimensions,
                           const hsize_t *size, const hsize_t *chunk) {
    hid_t space = good(H5Screate_simple(dimensions, size, NULL), name),
          list = good(H5Pcreate(H5P_DATASET_CREATE), name);
    good(H5Pset_obj_track_times(list, 0), name);
    if (chunk)
        good(H5Pset_chunk(list, dimensions, chunk), name);
    hid_t data = good(H5Dcreate(file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT), name);
    H5Pclose(list);
    H5Sclose(space);
    return data;
}

static inline void write_part(hid_t data, hid_t type, int dimensions, const hsize_t *start,
                              const hsize_t *count, const void *buffer) {
    hid_t space = good(H5Dget_space(data), "space"),
          memory = good(H5Screate_simple(dimensions, count, NULL), "memory");
    hid_t transfer = collective();
    good(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL), "selection");
    good(H5Dwrite(data, type, memory, space, transfer, buffer), "write");
    H5Pclose(transfer);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(data);
}

#endif
