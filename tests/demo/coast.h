/* The GSHHG coastlines: their arithmetic and the main program, shared by the PnetCDF and the HDF5
 * program.
 *
 * The globe is cut into square bins. Bin b has segments, a segment has points, and a point is a
 * longitude and a latitude relative to the bin's south-west corner, in 1/65535 of the bin's size.
 */
#ifndef COAST_H
#define COAST_H

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

enum { ROWS = 360, COLUMNS = 720 }; /* the raster: half a degree a cell */

struct coast {
    int bin_minutes, bins_in_row, bins, segments, points; /* of the whole data set */
    int *first_segment;                                   /* of each bin, whole data set */
    short *segments_in_bin;
    int *first_point; /* of each segment, whole data set */
    int *header;      /* number of points in its upper bits */
    int from, to;     /* this rank's points */
    unsigned short *x, *y;
};

static inline void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static inline void *room(size_t bytes)
{
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory)
        fail("out of memory");
    return memory;
}

/* The share of `total` things of one of `parts` ranks. */
static inline int share(long long total, int part, int parts)
{
    return (int)(total * part / parts);
}

/* Degrees of this rank's points, and the number of points in each cell of the raster. */
static inline void locate(const struct coast *coast, double *longitude, double *latitude,
                          int *raster) {
    double degrees = coast->bin_minutes / 60.0;
    for (int bin = 0; bin < coast->bins; bin++) {
        double west = bin % coast->bins_in_row * degrees,
               south = 90.0 - (bin / coast->bins_in_row + 1) * degrees;
        for (int segment = 0; segment < coast->segments_in_bin[bin]; segment++) {
            int s = coast->first_segment[bin] + segment, first = coast->first_point[s],
                count = coast->header[s] >> 9;
            for (int point = first; point < first + count; point++) {
                if (point < coast->from || point >= coast->to)
                    continue;
                int i = point - coast->from;
                longitude[i] = west + coast->x[i] * degrees / 65535.0;
                latitude[i] = south + coast->y[i] * degrees / 65535.0;
                int column = (int)(longitude[i] * COLUMNS / 360.0) % COLUMNS;
                int row = (int)((90.0 - latitude[i]) * ROWS / 180.0);
                raster[(row < 0 ? 0 : row >= ROWS ? ROWS - 1 : row) * COLUMNS + column]++;
            }
        }
    }
}

/* What differs between the two libraries: reading this rank's part, writing it and the whole
 * raster. */
typedef void reader(const char *path, struct coast *coast);
typedef void writer(const char *path, const struct coast *coast, const double *longitude,
                    const double *latitude, const int *raster);

/* The whole program: PROGRAM INPUT OUTPUT */
static inline int run(int argc, char **argv, reader *read_coast, writer *write_fields)
{
    struct coast coast;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3)
        fail("two arguments are needed: INPUT OUTPUT");
    double started = MPI_Wtime();
    read_coast(argv[1], &coast);
    double *longitude = room(sizeof(double) * (coast.to - coast.from));
    double *latitude = room(sizeof(double) * (coast.to - coast.from));
    int *raster = room(sizeof(int) * ROWS * COLUMNS);
    locate(&coast, longitude, latitude, raster);
    MPI_Allreduce(MPI_IN_PLACE, raster, ROWS * COLUMNS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    write_fields(argv[2], &coast, longitude, latitude, raster);
    if (rank == 0)
        printf("%d points, %.3f s\n", coast.points, MPI_Wtime() - started);
    MPI_Finalize();
    return 0;
}

/* A program that changes a file: PROGRAM FILE */
static inline int change(int argc, char **argv, void (*work)(const char *path))
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 2)
        fail("one argument is needed: FILE");
    double started = MPI_Wtime();
    work(argv[1]);
    if (rank == 0)
        printf("%d cells, %.3f s\n", ROWS * COLUMNS, MPI_Wtime() - started);
    MPI_Finalize();
    return 0;
}

#endif
