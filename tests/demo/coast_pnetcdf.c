/* Reads binned coastlines with PnetCDF and writes every point's longitude and latitude, and a raster that counts the
 * points of each half degree, with several levels of coarseness: coast_pnetcdf INPUT OUTPUT */
#include "coast.h"
#include <pnetcdf.h>

enum { LEVELS = 4 };

#define NC(call)                                        \
    do {                                                \
        int nc_error = (call);                          \
        if (nc_error != NC_NOERR)                       \
            fail(ncmpi_strerror(nc_error));             \
    } while (0)

static int length_of(int file, const char *dimension)
{
    int id;
    MPI_Offset length;
    NC(ncmpi_inq_dimid(file, dimension, &id));
    NC(ncmpi_inq_dimlen(file, id, &length));
    return (int)length;
}

static int variable(int file, const char *name)
{
    int id;
    NC(ncmpi_inq_varid(file, name, &id));
    return id;
}

static void read_coast(const char *path, struct coast *coast)
{
    int file, request[2], state[2];
    MPI_Offset start, count;
    NC(ncmpi_open(MPI_COMM_WORLD, path, NC_NOWRITE, MPI_INFO_NULL, &file));
    coast->bins = length_of(file, "Dimension_of_bin_arrays");
    coast->segments = length_of(file, "Dimension_of_segment_arrays");
    coast->points = length_of(file, "Dimension_of_point_arrays");
    NC(ncmpi_get_var_int_all(file, variable(file, "Bin_size_in_minutes"), &coast->bin_minutes));
    NC(ncmpi_get_var_int_all(file, variable(file, "N_bins_in_360_longitude_range"), &coast->bins_in_row));
    coast->first_segment = room(sizeof(int) * coast->bins);
    coast->segments_in_bin = room(sizeof(short) * coast->bins);
    coast->first_point = room(sizeof(int) * coast->segments);
    coast->header = room(sizeof(int) * coast->segments);
    NC(ncmpi_get_var_int_all(file, variable(file, "Id_of_first_segment_in_a_bin"), coast->first_segment));
    NC(ncmpi_get_var_short_all(file, variable(file, "N_segments_in_a_bin"), coast->segments_in_bin));
    NC(ncmpi_get_var_int_all(file, variable(file, "Id_of_first_point_in_a_segment"), coast->first_point));
    NC(ncmpi_get_var_int_all(file, variable(file, "Embedded_npts_levels_exit_entry_for_a_segment"), coast->header));
    coast->from = share(coast->points, rank, ranks);
    coast->to = share(coast->points, rank + 1, ranks);
    start = coast->from, count = coast->to - coast->from;
    coast->x = room(sizeof(short) * count);
    coast->y = room(sizeof(short) * count);
    NC(ncmpi_iget_vara_short(file, variable(file, "Relative_longitude_from_SW_corner_of_bin"), &start, &count,
                             (short *)coast->x, &request[0]));
    NC(ncmpi_iget_vara_short(file, variable(file, "Relative_latitude_from_SW_corner_of_bin"), &start, &count,
                             (short *)coast->y, &request[1]));
    NC(ncmpi_wait_all(file, 2, request, state));
    NC(ncmpi_close(file));
}

/* This rank's columns of the raster, each level coarser by two; the levels are records. */
static void write_raster(int file, int id, const int *raster)
{
    int first = share(COLUMNS, rank, ranks), width = share(COLUMNS, rank + 1, ranks) - first;
    int *part = room(sizeof(int) * ROWS * width);
    for (int level = 0; level < LEVELS; level++) {
        MPI_Offset start[3] = {level, 0, first}, count[3] = {1, ROWS, width};
        int step = 1 << level;
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < width; column++) {
                int sum = 0, top = row / step * step, left = (first + column) / step * step;
                for (int r = top; r < top + step && r < ROWS; r++)
                    for (int c = left; c < left + step && c < COLUMNS; c++)
                        sum += raster[r * COLUMNS + c];
                part[row * width + column] = sum;
            }
        NC(ncmpi_put_vara_int_all(file, id, start, count, part));
    }
    free(part);
}

static void write_fields(const char *path, const struct coast *coast, const double *longitude, const double *latitude,
                         const int *raster)
{
    int file, dimensions[4], ids[3], request[2], state[2];
    MPI_Offset start = coast->from, count = coast->to - coast->from;
    NC(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file));
    NC(ncmpi_def_dim(file, "point", coast->points, &dimensions[0]));
    NC(ncmpi_def_dim(file, "level", NC_UNLIMITED, &dimensions[1]));
    NC(ncmpi_def_dim(file, "row", ROWS, &dimensions[2]));
    NC(ncmpi_def_dim(file, "column", COLUMNS, &dimensions[3]));
    NC(ncmpi_def_var(file, "longitude", NC_DOUBLE, 1, &dimensions[0], &ids[0]));
    NC(ncmpi_def_var(file, "latitude", NC_DOUBLE, 1, &dimensions[0], &ids[1]));
    NC(ncmpi_def_var(file, "points_in_cell", NC_INT, 3, &dimensions[1], &ids[2]));
    NC(ncmpi_put_att_text(file, ids[0], "units", 12, "degrees_east"));
    NC(ncmpi_put_att_text(file, ids[1], "units", 13, "degrees_north"));
    NC(ncmpi_enddef(file));
    NC(ncmpi_iput_vara_double(file, ids[0], &start, &count, longitude, &request[0]));
    NC(ncmpi_iput_vara_double(file, ids[1], &start, &count, latitude, &request[1]));
    NC(ncmpi_wait_all(file, 2, request, state));
    write_raster(file, ids[2], raster);
    NC(ncmpi_close(file));
}

int main(int argc, char **argv)
{
    return run(argc, argv, read_coast, write_fields);
}
