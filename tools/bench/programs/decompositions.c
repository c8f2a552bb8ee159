/* Decompositions of simulations, written and read by PnetCDF, one collective call a variable.
 *
 * usage: decompositions FILE checkpoint|ocean|land|atmosphere SIZE RECORDS
 *        checkpoint: a cube of SIZE^3 cells in blocks; two variables with 1 value a cell, 2 with 7
 *        ocean:      52 variables of SIZE cells, each rank runs of 5 to 11 by turns; most have 16
 *                    levels, which vary fastest
 *        land:       560 variables of SIZE columns, a fifth of them nobody's; runs of 1 to 9
 *        atmosphere: 414 variables of SIZE columns in random order; a third has 8 levels, which
 *                    vary slowest
 */
#include "timing.h"
#include <pnetcdf.h>

#define NC(call)                                                                                   \
    do {                                                                                           \
        int nc_code = (call);                                                                      \
        if (nc_code != NC_NOERR)                                                                   \
            give_up(ncmpi_strerror(nc_code));                                                      \
    } while (0)

enum { MOST = 600 };

/* How the elements of one kind of variable are dealt: the runs that this rank has. */
struct deal {
    int runs;
    long long elements, all;
    MPI_Offset **starts, **counts;
};

static unsigned long long random_state = 88172645463325252ULL;

/* The same numbers on all ranks. */
static unsigned draw(unsigned most)
{
    random_state ^= random_state << 13, random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 33) % most;
}

static MPI_Offset **pairs(long long most)
{
    MPI_Offset **rows = memory(most * sizeof *rows), *all = memory(2 * most * sizeof *all);
    for (long long i = 0; i < most; i++)
        rows[i] = &all[2 * i];
    return rows;
}

static void add_run(struct deal *deal, long long start, int length)
{
    if (!length)
        return;
    deal->starts[deal->runs][1] = start;
    deal->counts[deal->runs][0] = 1, deal->counts[deal->runs++][1] = length;
    deal->elements += length;
}

static struct deal empty(long long all, long long most)
{
    struct deal deal = {0, 0, all, pairs(most), pairs(most)};
    return deal;
}

/* Runs of `least` to `most` cells by turns, each cell with `levels` values; `sea` of 10 runs are
 * nobody's. */
static struct deal in_runs(int size, int least, int most, int sea, int levels)
{
    struct deal deal = empty((long long)size * levels, size);
    for (int at = 0, turn = 0; at < size; turn++) {
        int length = least + (int)draw(most - least + 1);
        int owner = (int)draw(10) < sea ? -1 : turn % ranks_of_all;
        length = length < size - at ? length : size - at;
        if (owner == rank_of_mine)
            add_run(&deal, (long long)at * levels, length * levels);
        at += length;
    }
    return deal;
}

/* Columns of random owners, in `levels` layers one behind the other. */
static struct deal at_random(int size, int levels)
{
    struct deal deal = empty((long long)size * levels, (long long)size * levels);
    char *mine = memory(size);
    for (int at = 0; at < size; at++)
        mine[at] = (int)draw(ranks_of_all) == rank_of_mine;
    for (int level = 0; level < levels; level++)
        for (int at = 0, end; at < size; at = end) {
            for (end = at + 1; end < size && mine[end] == mine[at]; end++)
                ;
            add_run(&deal, (long long)level * size + at, mine[at] ? end - at : 0);
        }
    free(mine);
    return deal;
}

/* A block of a cube, `components` cubes one behind the other. */
static struct deal block(int size, int components)
{
    int parts[3] = {0}, place[3], begin[3], count[3];
    MPI(MPI_Dims_create(ranks_of_all, 3, parts));
    place[0] = rank_of_mine / (parts[1] * parts[2]);
    place[1] = rank_of_mine / parts[2] % parts[1], place[2] = rank_of_mine % parts[2];
    for (int d = 0; d < 3; d++) {
        begin[d] = (int)((long long)size * place[d] / parts[d]);
        count[d] = (int)((long long)size * (place[d] + 1) / parts[d]) - begin[d];
    }
    long long cube = (long long)size * size * size;
    struct deal deal = empty(cube * components, (long long)components * count[0] * count[1]);
    for (int c = 0; c < components; c++)
        for (int z = 0; z < count[0]; z++)
            for (int y = 0; y < count[1]; y++) {
                long long row = (long long)(begin[0] + z) * size + begin[1] + y;
                add_run(&deal, c * cube + row * size + begin[2], count[2]);
            }
    return deal;
}

static struct deal deals[2];
static int variables, kind_of[MOST], ids[MOST];

/* What is written: two kinds of variables, and which variable is of which kind. */
static void deal_out(const char *name, int size)
{
    if (!strcmp(name, "checkpoint")) {
        deals[0] = block(size, 1), deals[1] = block(size, 7);
        variables = 4, kind_of[2] = kind_of[3] = 1;
    } else if (!strcmp(name, "ocean")) {
        deals[0] = in_runs(size, 5, 11, 0, 1), deals[1] = in_runs(size, 5, 11, 0, 16);
        variables = 52;
        for (int v = 11; v < variables; v++)
            kind_of[v] = 1;
    } else if (!strcmp(name, "land")) {
        deals[0] = in_runs(size, 1, 9, 2, 1), deals[1] = at_random(size, 2);
        variables = 560;
        for (int v = 0; v < variables; v++)
            kind_of[v] = v % 14 == 0;
    } else if (!strcmp(name, "atmosphere")) {
        deals[0] = at_random(size, 1), deals[1] = at_random(size, 8);
        variables = 414;
        for (int v = 0; v < variables; v++)
            kind_of[v] = v % 3 == 0;
    } else {
        give_up("usage: decompositions FILE checkpoint|ocean|land|atmosphere SIZE RECORDS");
    }
}

static void define(int file)
{
    int time, elements[2];
    NC(ncmpi_def_dim(file, "time", NC_UNLIMITED, &time));
    NC(ncmpi_def_dim(file, "few", deals[0].all, &elements[0]));
    NC(ncmpi_def_dim(file, "many", deals[1].all, &elements[1]));
    for (int v = 0; v < variables; v++) {
        char name[16];
        int dimensions[2] = {time, elements[kind_of[v]]};
        snprintf(name, sizeof name, "v%d", v);
        NC(ncmpi_def_var(file, name, NC_DOUBLE, 2, dimensions, &ids[v]));
    }
    NC(ncmpi_enddef(file));
}

/* Fills memory with what the rank has of a variable, or counts what is wrong there. */
static long long each(double *data, long long elements, int record, int v, int fills)
{
    long long wrong = 0;
    for (long long i = 0; i < elements; i++) {
        double is = value(rank_of_mine * 131LL + record * MOST + v, i);
        if (fills)
            data[i] = is;
        else
            wrong += data[i] != is;
    }
    return wrong;
}

/* Writes or reads all records; how many elements are not those that were written. */
static long long move(int file, int records, int reads, double *data)
{
    long long wrong = 0;
    for (int record = 0; record < records; record++)
        for (int v = 0; v < variables; v++) {
            struct deal *deal = &deals[kind_of[v]];
            MPI_Offset **starts = deal->starts, **counts = deal->counts;
            for (int run = 0; run < deal->runs; run++)
                starts[run][0] = record;
            if (reads) {
                NC(ncmpi_get_varn_double_all(file, ids[v], deal->runs, starts, counts, data));
                wrong += each(data, deal->elements, record, v, 0);
            } else {
                each(data, deal->elements, record, v, 1);
                NC(ncmpi_put_varn_double_all(file, ids[v], deal->runs, starts, counts, data));
            }
        }
    return wrong;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc != 5)
        give_up("usage: decompositions FILE checkpoint|ocean|land|atmosphere SIZE RECORDS");
    int records = atoi(argv[4]), file;
    deal_out(argv[2], atoi(argv[3]));
    long long most = deals[0].elements > deals[1].elements ? deals[0].elements : deals[1].elements;
    double *data = memory(most * sizeof *data), seconds[2], bytes = 0;
    for (int v = 0; v < variables; v++)
        bytes += (double)deals[kind_of[v]].all * sizeof(double) * records;
    long long wrong = 0;
    for (int reads = 0; reads < 2; reads++) {
        double began = now();
        if (reads) {
            NC(ncmpi_open(MPI_COMM_WORLD, argv[1], NC_NOWRITE, MPI_INFO_NULL, &file));
        } else {
            int mode = NC_CLOBBER | NC_64BIT_DATA;
            NC(ncmpi_create(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file));
            define(file);
        }
        wrong += move(file, records, reads, data);
        NC(ncmpi_close(file));
        seconds[reads] = now() - began;
    }
    if (wrong)
        give_up("other data are read than were written");
    tell(seconds[0], seconds[1], bytes);
    return 0;
}
