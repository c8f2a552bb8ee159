/* Reads binned coastlines with PnetCDF and writes every point's longitude and latitude, and a
 * raster that counts the points of each half degree, with several levels of coarseness:
 * coast_pnetcdf INPUT OUTPUT */
#include "coast_pnetcdf.h"

enum { LEVELS = 4 };

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

static void write_fields(const char *path, const struct coast *coast, const double *longitude,
                         const double *latitude, const int *raster) {
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
