/* Reads binned coastlines with PnetCDF; shared by the programs that do. */
#ifndef COAST_PNETCDF_H
#define COAST_PNETCDF_H

#include "coast.h"
#include <pnetcdf.h>

#define NC(call)                                        \
    do {                                                \
        int nc_error = (call);                          \
        if (nc_error != NC_NOERR)                       \
            fail(ncmpi_strerror(nc_error));             \
    } while (0)

static inline int length_of(int file, const char *dimension)
{
    int id;
    MPI_Offset length;
    NC(ncmpi_inq_dimid(file, dimension, &id));
    NC(ncmpi_inq_dimlen(file, id, &length));
    return (int)length;
}

static inline int variable(int file, const char *name)
{
    int id;
    NC(ncmpi_inq_varid(file, name, &id));
    return id;
}

static inline void read_coast(const char *path, struct coast *coast)
{
    int file, request[2], state[2];
    MPI_Offset start, count;
    NC(ncmpi_open(MPI_COMM_WORLD, path, NC_NOWRITE, MPI_INFO_NULL, &file));
    coast->bins = length_of(file, "Dimension_of_bin_arrays");
    coast->segments = length_of(file, "Dimension_of_segment_arrays");
    coast->points = length_of(file, "Dimension_of_point_arrays");
    NC(ncmpi_get_var_int_all(file, variable(file, "Bin_size_in_minutes"), &coast->bin_minutes));
    NC(ncmpi_get_var_int_all(file, variable(file, "N_bins_in_360_longitude_range"),
                             &coast->bins_in_row));
    coast->first_segment = room(sizeof(int) * coast->bins);
    coast->segments_in_bin = room(sizeof(short) * coast->bins);
    coast->first_point = room(sizeof(int) * coast->segments);
    coast->header = room(sizeof(int) * coast->segments);
    NC(ncmpi_get_var_int_all(file, variable(file, "Id_of_first_segment_in_a_bin"),
                             coast->first_segment));
    NC(ncmpi_get_var_short_all(file, variable(file, "N_segments_in_a_bin"),
                               coast->segments_in_bin));
    NC(ncmpi_get_var_int_all(file, variable(file, "Id_of_first_point_in_a_segment"),
                             coast->first_point));
    NC(ncmpi_get_var_int_all(file, variable(file, "Embedded_npts_levels_exit_entry_for_a_segment"),
                             coast->header));
    coast->from = share(coast->points, rank, ranks);
    coast->to = share(coast->points, rank + 1, ranks);
    start = coast->from, count = coast->to - coast->from;
    coast->x = room(sizeof(short) * count);
    coast->y = room(sizeof(short) * count);
    NC(ncmpi_iget_vara_short(file, variable(file, "Relative_longitude_from_SW_corner_of_bin"),
                             &start, &count, (short *)coast->x, &request[0]));
    NC(ncmpi_iget_vara_short(file, variable(file, "Relative_latitude_from_SW_corner_of_bin"),
                             &start, &count, (short *)coast->y, &request[1]));
    NC(ncmpi_wait_all(file, 2, request, state));
    NC(ncmpi_close(file));
}

#endif
