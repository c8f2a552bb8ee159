/* Writes a file of a land model's shape (E3SM-IO's I case) by PnetCDF: two dimensions of the same
 * length share a decomposition, the decomposed doubles begin in the middle of 8 bytes, and some
 * columns are nobody's.
 *
 * usage: land FILE file|blobs HINT...
 *        file: the file itself, by collective calls; blobs: one blob file FILE.0000, as E3SM-IO
 *        writes it in PnetCDF's layout; HINT is NAME=VALUE
 */
#include "check.h"
#include <pnetcdf.h>

enum { LAT = 24, LON = 36, LEVELS = 15, RECORDS = 2, DIMENSIONS = 6, MAPS = 2, MOST = LAT * LON };
enum { TIME, LEVGRND, LEVDCMP, Y, X, NAME };

static const char *names[DIMENSIONS] = {"time", "levgrnd", "levdcmp", "lat", "lon", "string"};
static const int lengths[DIMENSIONS] = {0, LEVELS, LEVELS, LAT, LON, 5};

/* Which decomposition a variable has: 0 none (rank 0 writes it), 1 lat and lon, 2 levels of them.
 */
static const struct variable {
    const char *name;
    nc_type type;
    int count, dimensions[4], map;
} variables[] = {
    {"levgrnd", NC_FLOAT, 1, {LEVGRND}, 0},
    {"area", NC_FLOAT, 2, {Y, X}, 1},
    {"mcdate", NC_INT, 1, {TIME}, 0},
    {"date_written", NC_CHAR, 2, {TIME, NAME}, 0},
    {"FSH", NC_DOUBLE, 3, {TIME, Y, X}, 1},
    {"TSOI", NC_DOUBLE, 4, {TIME, LEVGRND, Y, X}, 2},
    {"CWDC_vr", NC_DOUBLE, 4, {TIME, LEVDCMP, Y, X}, 2},
    {"TLAI", NC_FLOAT, 3, {TIME, Y, X}, 1},
};
enum { VARIABLES = sizeof variables / sizeof *variables };

#define NC(call)                                                                                   \
    do {                                                                                           \
        int nc_code = (call);                                                                      \
        if (nc_code != NC_NOERR) {                                                                 \
            fprintf(stderr, "%s: %s\n", #call, ncmpi_strerror(nc_code));                           \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

/* The owner of a column: every seventh is the sea. */
static int owner(int column)
{
    return column % 7 == 6 ? -1 : column / 5 % check_size;
}

/* This rank's requests in one level: columns that lie together, in one row. */
static int requests(int rank, int starts[MOST], int counts[MOST])
{
    int count = 0;
    for (int at = 0; at < LAT * LON; at++) {
        if (owner(at) != rank)
            continue;
        if (count && starts[count - 1] + counts[count - 1] == at && at % LON)
            counts[count - 1]++;
        else
            starts[count] = at, counts[count++] = 1;
    }
    return count;
}

static double value(int variable, int record, long element)
{
    return 1000.5 * variable + 1e6 * record + element;
}

static int has_records(const struct variable *v)
{
    return v->dimensions[0] == TIME;
}

static int levels_of(const struct variable *v)
{
    return v->map == 2 ? LEVELS : 1;
}

static void define(int file, int dimensions[DIMENSIONS])
{
    NC(ncmpi_put_att_text(file, NC_GLOBAL, "source", 12, "land surface"));
    for (int i = 0; i < DIMENSIONS; i++)
        NC(ncmpi_def_dim(file, names[i], lengths[i] ? lengths[i] : NC_UNLIMITED, &dimensions[i]));
}

static int open_file(const char *path, MPI_Info info)
{
    int file;
    NC(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, info, &file));
    return file;
}

/* What rank 0 writes for all. */
static void write_whole(int file, int id, int index, int record)
{
    const struct variable *v = &variables[index];
    MPI_Offset start[4] = {record}, count[4] = {1};
    long length = 1;
    double data[64];
    char text[64];
    for (int i = 0; i < v->count; i++)
        if (v->dimensions[i] != TIME)
            start[i] = 0, count[i] = lengths[v->dimensions[i]], length *= count[i];
    for (long i = 0; i < length; i++)
        data[i] = value(index, record, i), text[i] = 'a' + (i + record) % 26;
    if (check_rank)
        memset(count, 0, sizeof count);
    if (v->type == NC_CHAR)
        NC(ncmpi_put_vara_text_all(file, id, start, count, text));
    else
        NC(ncmpi_put_vara_double_all(file, id, start, count, data));
}

static void write_file(const char *path, MPI_Info info)
{
    int dimensions[DIMENSIONS], ids[VARIABLES], own[4], file = open_file(path, info);
    static int starts[MOST], counts[MOST];
    static double data[LEVELS * MOST];
    static MPI_Offset start[LEVELS * MOST][4], count[LEVELS * MOST][4], *start_of[LEVELS * MOST],
        *count_of[LEVELS * MOST];
    define(file, dimensions);
    for (int i = 0; i < VARIABLES; i++) {
        for (int d = 0; d < variables[i].count; d++)
            own[d] = dimensions[variables[i].dimensions[d]];
        NC(ncmpi_def_var(file, variables[i].name, variables[i].type, variables[i].count, own,
                         &ids[i]));
        NC(ncmpi_put_att_text(file, ids[i], "units", 1, "1"));
    }
    NC(ncmpi_enddef(file));
    int columns = requests(check_rank, starts, counts);
    for (int record = 0; record < RECORDS; record++)
        for (int i = 0; i < VARIABLES; i++) {
            const struct variable *v = &variables[i];
            int all = 0, at = 0;
            if (!has_records(v) && record)
                continue;
            if (!v->map) {
                write_whole(file, ids[i], i, record);
                continue;
            }
            for (int level = 0; level < levels_of(v); level++)
                for (int r = 0; r < columns; r++, all++) {
                    MPI_Offset place[4] = {record, level, starts[r] / LON, starts[r] % LON},
                               one[4] = {1, 1, 1, counts[r]};
                    int skip = v->map == 2 ? 1 : 2, shift = has_records(v);
                    for (int d = shift; d < v->count; d++)
                        start[all][d] = place[d - shift + skip],
                        count[all][d] = one[d - shift + skip];
                    if (shift)
                        start[all][0] = record, count[all][0] = 1;
                    start_of[all] = start[all], count_of[all] = count[all];
                    for (int c = 0; c < counts[r]; c++)
                        data[at++] = value(i, record, (long)level * LAT * LON + starts[r] + c);
                }
            NC(ncmpi_put_varn_double_all(file, ids[i], all, start_of, count_of, data));
        }
    NC(ncmpi_close(file));
}

/* The tables of a decomposition; a rank's requests follow one another in its row. */
static void write_tables(int file, const int tables[5], int levels, int columns, const int *starts,
                         const int *counts) {
    static int offsets[LEVELS * MOST], parts[LEVELS * MOST];
    long long own = 0, before = 0;
    int all = 0;
    for (int level = 0; level < levels; level++)
        for (int r = 0; r < columns; r++, all++)
            offsets[all] = level * LAT * LON + starts[r], parts[all] = counts[r], own += counts[r];
    MPI_Exscan(&own, &before, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (!check_rank)
        before = 0;
    MPI_Offset start[2] = {check_rank, 0}, one[2] = {1, all};
    NC(ncmpi_put_vara_int_all(file, tables[0], start, one, &all));
    NC(ncmpi_put_vara_longlong_all(file, tables[1], start, one, &before));
    NC(ncmpi_put_vara_longlong_all(file, tables[2], start, one, &own));
    NC(ncmpi_put_vara_int_all(file, tables[3], start, one, offsets));
    NC(ncmpi_put_vara_int_all(file, tables[4], start, one, parts));
}

static void write_blobs(const char *path, MPI_Info info)
{
    static const char *table_names[] = {"nreqs", "blob_start", "blob_count", "offsets", "lengths"};
    static const int shapes[MAPS][3] = {{Y, X}, {LEVGRND, Y, X}}, ranks_of[MAPS] = {2, 3};
    static int starts[MOST], counts[MOST];
    static double data[LEVELS * MOST];
    int dimensions[DIMENSIONS], blobs, elements[MAPS], most[MAPS], tables[MAPS][5], ids[VARIABLES],
        own[4];
    int numbers[3] = {check_size, MAPS, 1};
    char name[4096];
    snprintf(name, sizeof name, "%s.0000", path);
    int file = open_file(name, info), columns = requests(check_rank, starts, counts), widest;
    long mine = 0, land, before = 0;
    for (int r = 0; r < columns; r++)
        mine += counts[r];
    MPI_Allreduce(&mine, &land, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&columns, &widest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Exscan(&mine, &before, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (!check_rank)
        before = 0;
    NC(ncmpi_put_att_int(file, NC_GLOBAL, "global_nprocs", NC_INT, 1, &numbers[0]));
    NC(ncmpi_put_att_int(file, NC_GLOBAL, "num_decompositions", NC_INT, 1, &numbers[1]));
    NC(ncmpi_put_att_int(file, NC_GLOBAL, "num_subfiles", NC_INT, 1, &numbers[2]));
    define(file, dimensions);
    NC(ncmpi_def_dim(file, "nblobs", check_size, &blobs));
    for (int k = 0; k < MAPS; k++) {
        snprintf(name, sizeof name, "D%d.nelems", k + 1);
        NC(ncmpi_def_dim(file, name, land * (k ? LEVELS : 1), &elements[k]));
    }
    for (int k = 0; k < MAPS; k++) {
        snprintf(name, sizeof name, "D%d.max_nreqs", k + 1);
        NC(ncmpi_def_dim(file, name, widest * (k ? LEVELS : 1), &most[k]));
    }
    for (int k = 0; k < MAPS; k++)
        for (int t = 0; t < 5; t++) {
            int shape[2] = {blobs, most[k]};
            snprintf(name, sizeof name, "D%d.%s", k + 1, table_names[t]);
            NC(ncmpi_def_var(file, name, t == 1 || t == 2 ? NC_INT64 : NC_INT, t < 3 ? 1 : 2, shape,
                             &tables[k][t]));
            if (t == 0)
                NC(ncmpi_put_att_int(file, tables[k][t], "global_dimids", NC_INT, ranks_of[k],
                                     shapes[k]));
        }
    for (int i = 0; i < VARIABLES; i++) {
        const struct variable *v = &variables[i];
        int count = v->count, shift = has_records(v);
        for (int d = 0; d < count; d++)
            own[d] = dimensions[v->dimensions[d]];
        if (v->map)
            own[shift] = elements[v->map - 1], count = shift + 1;
        NC(ncmpi_def_var(file, v->name, v->type, count, own, &ids[i]));
        if (v->map) {
            NC(ncmpi_put_att_int(file, ids[i], "decomposition_ID", NC_INT, 1, &v->map));
            NC(ncmpi_put_att_int(file, ids[i], "global_dimids", NC_INT, v->count, v->dimensions));
        }
        NC(ncmpi_put_att_text(file, ids[i], "units", 1, "1"));
    }
    NC(ncmpi_enddef(file));
    for (int k = 0; k < MAPS; k++)
        write_tables(file, tables[k], k ? LEVELS : 1, columns, starts, counts);
    for (int record = 0; record < RECORDS; record++)
        for (int i = 0; i < VARIABLES; i++) {
            const struct variable *v = &variables[i];
            int shift = has_records(v), levels = levels_of(v), at = 0;
            if (!shift && record)
                continue;
            if (!v->map) {
                write_whole(file, ids[i], i, record);
                continue;
            }
            for (int level = 0; level < levels; level++)
                for (int r = 0; r < columns; r++)
                    for (int c = 0; c < counts[r]; c++)
                        data[at++] = value(i, record, (long)level * LAT * LON + starts[r] + c);
            MPI_Offset start[2] = {record, 0}, count[2] = {1, 1};
            start[shift] = before * levels, count[shift] = mine * levels;
            NC(ncmpi_put_vara_double_all(file, ids[i], start, count, data));
        }
    NC(ncmpi_close(file));
}

int main(int argc, char **argv)
{
    MPI_Info info;
    check_init(&argc, &argv);
    MPI_Info_create(&info);
    for (int i = 3; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        *value++ = 0;
        MPI_Info_set(info, argv[i], value);
    }
    if (!strcmp(argv[2], "blobs"))
        write_blobs(argv[1], info);
    else
        write_file(argv[1], info);
    MPI_Info_free(&info);
    return check_finish();
}
