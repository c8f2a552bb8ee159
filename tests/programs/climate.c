/* Writes a netCDF file as climate models do, with nothing but MPI-IO: variables of which each rank
 * has columns, or rows, others that rank 0 writes alone, and records. Every byte of data tells
 * where it stands.
 *
 * usage: climate FILE VERSION [moving|late|gap|unclosed|killed]
 *        VERSION is 1, 2 or 5; "moving": a rank's columns change from record to record; "late": the
 *        last record is written by another open of the file; "gap": nobody writes the last column;
 *        "unclosed": nobody closes the file; "killed": rank 1 is killed before the last record
 */
#include "check.h"
#include <signal.h>

enum { Y = 12, NAME = 8, RECORDS = 3, BORDER = 512 };

/* Columns, CLIMATE_COLUMNS if that is set. */
static int X = 30;

struct variable {
    const char *name;
    int type, size, dimensions[3], count;
    enum { ROOT, COLUMNS, ROWS } parts;
    long begin;
};

/* Dimensions: 0 time, 1 y, 2 x, 3 name. */
static struct variable variables[] = {
    {"lat", 6, 8, {1}, 1, ROOT, 0},          {"area", 5, 4, {1, 2}, 2, COLUMNS, 0},
    {"mask", 1, 1, {1, 2}, 2, ROWS, 0},      {"time", 6, 8, {0}, 1, ROOT, 0},
    {"label", 2, 1, {0, 3}, 2, ROOT, 0},     {"temperature", 6, 8, {0, 1, 2}, 3, COLUMNS, 0},
    {"pressure", 5, 4, {0, 1, 2}, 3, ROWS, 0}, {"wind", 5, 4, {0, 1, 2}, 3, COLUMNS, 0},
};
enum { VARIABLES = sizeof variables / sizeof *variables };

static unsigned char head[4096];
static long used, record_size;
static int version;

static void number(unsigned long value, int bytes)
{
    while (bytes--)
        head[used++] = value >> (8 * bytes);
}

static void count(unsigned long value)
{
    number(value, version == 5 ? 8 : 4);
}

static void text(const char *name)
{
    count(strlen(name));
    memcpy(head + used, name, strlen(name));
    used += (strlen(name) + 3) / 4 * 4;
}

static long up(long value, long to)
{
    return (value + to - 1) / to * to;
}

/* Bytes of a variable, or of its part of a record. */
static long bytes_of(const struct variable *v)
{
    const long lengths[] = {1, Y, X, NAME};
    long bytes = v->size;
    for (int i = 0; i < v->count; i++)
        bytes *= lengths[v->dimensions[i]];
    return bytes;
}

static int has_records(const struct variable *v)
{
    return v->dimensions[0] == 0;
}

/* The header, for the places that the variables have now. */
static void describe(void)
{
    memset(head, 0, sizeof head);
    memcpy(head, "CDF", 3);
    head[3] = version;
    used = 4;
    count(0);
    number(10, 4), count(4);
    text("time"), count(0);
    text("y"), count(Y);
    text("x"), count(X);
    text("name"), count(NAME);
    number(12, 4), count(1);
    text("title"), number(2, 4), text("weather");
    number(11, 4), count(VARIABLES);
    for (struct variable *v = variables; v < variables + VARIABLES; v++) {
        text(v->name), count(v->count);
        for (int i = 0; i < v->count; i++)
            count(v->dimensions[i]);
        number(12, 4), count(1);
        text("units"), number(2, 4), text("furlongs");
        number(v->type, 4), count(up(bytes_of(v), 4)), number(v->begin, version == 1 ? 4 : 8);
    }
}

/* Gives each variable its place, as PnetCDF does. */
static void place(void)
{
    describe();
    long at = up(used, BORDER), begin;
    for (int records = 0; records < 2; records++) {
        begin = at;
        for (struct variable *v = variables; v < variables + VARIABLES; v++)
            if (has_records(v) == records) {
                v->begin = at;
                at += up(bytes_of(v), 4);
            }
    }
    record_size = at - begin;
    describe();
}

/* Writes this rank's part of a variable, or of its part of a record, whose first byte is at
 * `begin`. */
static void write_part(MPI_File file, const struct variable *v, long begin, int shift, int last)
{
    int own = (check_rank + shift) % check_size, sizes[2] = {Y, X}, some[2] = {Y, 0},
        first[2] = {0, 0};
    unsigned char *data = malloc(Y * X * 8L);
    MPI_Datatype element, view;
    long length = bytes_of(v);
    for (long i = 0; i < length; i++)
        data[i] = (begin + i) * 2654435761u >> 13 | 1;
    if (v->parts == ROOT) {
        OK(MPI_File_write_at_all(file, begin, data, check_rank == 0 ? length : 0, MPI_BYTE,
                                 MPI_STATUS_IGNORE));
        free(data);
        return;
    }
    MPI_Type_contiguous(v->size, MPI_BYTE, &element);
    if (v->parts == ROWS) {
        first[0] = own * Y / check_size, some[0] = (own + 1) * Y / check_size - first[0],
        some[1] = X;
    } else {
        first[1] = own * X / check_size, some[1] = (own + 1) * X / check_size - first[1];
        if (first[1] + some[1] > last)
            some[1] = last - first[1];
    }
    if (some[0] > 0 && some[1] > 0)
        MPI_Type_create_subarray(2, sizes, some, first, MPI_ORDER_C, element, &view);
    else
        MPI_Type_contiguous(0, element, &view);
    MPI_Type_commit(&view);
    OK(MPI_File_set_view(file, begin, MPI_BYTE, view, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(file, 0, data, some[0] > 0 && some[1] > 0, view, MPI_STATUS_IGNORE));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Type_free(&view);
    MPI_Type_free(&element);
    free(data);
}

static void write_record(MPI_File file, long record, int shift, int last)
{
    for (struct variable *v = variables; v < variables + VARIABLES; v++)
        if (has_records(v))
            write_part(file, v, v->begin + record * record_size, v->parts == COLUMNS ? shift : 0,
                       last);
    unsigned char told[8] = {0};
    told[version == 5 ? 7 : 3] = record + 1;
    int length = check_rank == 0 ? (version == 5 ? 8 : 4) : 0;
    OK(MPI_File_write_at_all(file, 4, told, length, MPI_BYTE, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    MPI_File file;
    check_init(&argc, &argv);
    if (getenv("CLIMATE_COLUMNS"))
        X = atoi(getenv("CLIMATE_COLUMNS"));
    const char *way = argc > 3 ? argv[3] : "";
    int moving = !strcmp(way, "moving"), late = !strcmp(way, "late"),
        last = strcmp(way, "gap") ? X : X - 1;
    version = atoi(argv[2]);
    place();
    /* A rank that went on after an error would write to the places of the view before. */
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_write_at_all(file, 0, head, check_rank == 0 ? used : 0, MPI_BYTE,
                             MPI_STATUS_IGNORE));
    for (struct variable *v = variables; v < variables + VARIABLES; v++)
        if (!has_records(v))
            write_part(file, v, v->begin, 0, last);
    for (long record = 0; record < RECORDS; record++) {
        if (late && record == RECORDS - 1) {
            OK(MPI_File_close(&file));
            OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR, MPI_INFO_NULL, &file));
        }
        if (!strcmp(way, "killed") && record == RECORDS - 1) {
            MPI_Barrier(MPI_COMM_WORLD);
            if (check_rank == 1)
                raise(SIGKILL);
        }
        write_record(file, record, moving * record, last);
    }
    if (strcmp(way, "unclosed"))
        OK(MPI_File_close(&file));
    return check_finish();
}
