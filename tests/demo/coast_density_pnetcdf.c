/* Changes the file that coast_pnetcdf wrote: a new variable, for which PnetCDF moves the others,
 * holds the raster per square degree, and another record holds the sums of all coarser levels:
 * coast_density_pnetcdf FILE */
#include "coast.h"
#include <pnetcdf.h>

#define NC(call)                             \
    do {                                     \
        int nc_error = (call);               \
        if (nc_error != NC_NOERR)            \
            fail(ncmpi_strerror(nc_error));  \
    } while (0)

static const char note[] =
    "points of the coast in a square degree, from the finest level of points_in_cell";

/* Adds the variable, with a note that makes the header longer. */
static int define(int file)
{
    int dimensions[2], id;
    NC(ncmpi_redef(file));
    NC(ncmpi_inq_dimid(file, "row", &dimensions[0]));
    NC(ncmpi_inq_dimid(file, "column", &dimensions[1]));
    NC(ncmpi_def_var(file, "density", NC_FLOAT, 2, dimensions, &id));
    for (int copy = 0; copy < 20; copy++) {
        char name[16];
        snprintf(name, sizeof name, "note_%d", copy);
        NC(ncmpi_put_att_text(file, id, name, sizeof note - 1, note));
    }
    NC(ncmpi_enddef(file));
    return id;
}

static void work(const char *path)
{
    int file, cells, density, level_id;
    MPI_Offset levels;
    NC(ncmpi_open(MPI_COMM_WORLD, path, NC_WRITE, MPI_INFO_NULL, &file));
    density = define(file);
    NC(ncmpi_inq_varid(file, "points_in_cell", &cells));
    NC(ncmpi_inq_dimid(file, "level", &level_id));
    NC(ncmpi_inq_dimlen(file, level_id, &levels));
    int first = share(COLUMNS, rank, ranks), width = share(COLUMNS, rank + 1, ranks) - first;
    int *level = room(sizeof(int) * ROWS * width), *sum = room(sizeof(int) * ROWS * width);
    float *part = room(sizeof(float) * ROWS * width);
    MPI_Offset count[3] = {1, ROWS, width};
    for (MPI_Offset record = 0; record < levels; record++) {
        MPI_Offset start[3] = {record, 0, first};
        NC(ncmpi_get_vara_int_all(file, cells, start, count, level));
        for (int i = 0; i < ROWS * width; i++) {
            sum[i] += level[i];
            if (record == 0)
                part[i] = level[i] * 4.0f;
        }
    }
    MPI_Offset start[3] = {levels, 0, first};
    NC(ncmpi_put_vara_float_all(file, density, start + 1, count + 1, part));
    NC(ncmpi_put_vara_int_all(file, cells, start, count, sum));
    NC(ncmpi_close(file));
    free(level);
    free(sum);
    free(part);
}

int main(int argc, char **argv)
{
    return change(argc, argv, work);
}
