/* Writes fields on the half-degree cells of the raster as climate models do: the cells of a rank
 * lie scattered over the globe, and each field is one collective call: coast_climate_pnetcdf INPUT
 * OUTPUT */
#include "coast_pnetcdf.h"

enum {
    FIELDS = 24,
    BLOCK = 2, /* cells that stay together */
    CELLS = ROWS * COLUMNS,
    BLOCKS = CELLS / BLOCK
};

/* The rank of a block: scattered, and the same in every run. */
static int owner(unsigned block)
{
    return (int)((block * 2654435761u >> 8) % (unsigned)ranks);
}

/* Where this rank's cells lie: a start and a length for each run of blocks. */
static int decompose(MPI_Offset **starts, MPI_Offset **counts)
{
    MPI_Offset(*start)[1] = room(sizeof *start * BLOCKS),
    (*count)[1] = room(sizeof *count * BLOCKS);
    int runs = 0;
    for (int block = 0; block < BLOCKS; block++) {
        if (owner(block) != rank)
            continue;
        if (runs && start[runs - 1][0] + count[runs - 1][0] == (MPI_Offset)block * BLOCK)
            count[runs - 1][0] += BLOCK;
        else {
            start[runs][0] = (MPI_Offset)block * BLOCK;
            count[runs++][0] = BLOCK;
        }
    }
    for (int run = 0; run < runs; run++) {
        starts[run] = start[run];
        counts[run] = count[run];
    }
    return runs;
}

static void write_fields(const char *path, const struct coast *coast, const double *longitude,
                         const double *latitude, const int *raster) {
    int file, cell, ids[FIELDS];
    (void)coast, (void)longitude, (void)latitude;
    NC(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file));
    NC(ncmpi_def_dim(file, "cell", CELLS, &cell));
    for (int field = 0; field < FIELDS; field++) {
        char name[16];
        snprintf(name, sizeof name, "field_%d", field);
        NC(ncmpi_def_var(file, name, NC_FLOAT, 1, &cell, &ids[field]));
    }
    NC(ncmpi_enddef(file));
    MPI_Offset **starts = room(sizeof *starts * BLOCKS), **counts = room(sizeof *counts * BLOCKS);
    int runs = decompose(starts, counts);
    float *values = room(sizeof(float) * CELLS);
    for (int field = 0; field < FIELDS; field++) {
        MPI_Offset used = 0;
        for (int run = 0; run < runs; run++)
            for (MPI_Offset i = 0; i < counts[run][0]; i++)
                values[used++] = raster[starts[run][0] + i] / (field + 1.0f);
        NC(ncmpi_put_varn_float_all(file, ids[field], runs, starts, counts, values));
    }
    NC(ncmpi_close(file));
}

int main(int argc, char **argv)
{
    return run(argc, argv, read_coast, write_fields);
}
