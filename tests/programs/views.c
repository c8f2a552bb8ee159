/* File views and memory of every constructor: what a view shows is compared with the whole file,
 * byte by byte. */
#include "check.h"

enum { SIDE = 24 };

static unsigned char *all;
static long length;

/* Reads the file behind the back of MPI, once all ranks have written. */
static void look(MPI_File file, const char *path)
{
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    free(all);
    all = check_slurp(path, &length);
    MPI_Barrier(MPI_COMM_WORLD);
}

static int at(long byte)
{
    int value = -1;
    if (byte + (long)sizeof value <= length)
        memcpy(&value, all + byte, sizeof value);
    return value;
}

/* Each rank writes its part of a square of integers, each holding its own index; then reads its
 * right neighbour's. */
static void square(MPI_File file, const char *path, MPI_Datatype *parts, int *counts,
                   const char *what) {
    int *buffer = malloc(sizeof(int) * SIDE * SIDE), next = (check_rank + 1) % check_size;
    MPI_Status status;
    MPI_Datatype whole;
    int position = 0, *index = malloc(sizeof(int) * SIDE * SIDE);
    char *packed = malloc(sizeof(int) * SIDE * SIDE);
    for (int i = 0; i < SIDE * SIDE; i++)
        index[i] = i + 1;
    MPI_Type_contiguous(1, parts[check_rank], &whole);
    MPI_Type_commit(&whole);
    /* Packing by MPI itself tells which indices the part has, in which order. */
    MPI_Pack(index, 1, whole, packed, sizeof(int) * SIDE * SIDE, &position, MPI_COMM_WORLD);
    CHECK(position == counts[check_rank] * (int)sizeof(int), "%s: packed %d bytes", what, position);
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_set_view(file, 64, MPI_INT, parts[check_rank], "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, packed, counts[check_rank], MPI_INT, &status));
    COUNT(&status, MPI_INT, counts[check_rank]);
    look(file, path);
    for (int i = 0; i < SIDE * SIDE; i++)
        CHECK(at(64 + i * 4L) == i + 1, "%s: integer %d is %d", what, i, at(64 + i * 4L));
    /* The same type in memory and in the file: every integer must come back to its own place. */
    OK(MPI_File_set_view(file, 64, MPI_INT, parts[next], "native", MPI_INFO_NULL));
    for (int i = 0; i < SIDE * SIDE; i++)
        buffer[i] = -1;
    OK(MPI_File_read_at_all(file, 0, buffer, 1, parts[next], &status));
    COUNT(&status, MPI_INT, counts[next]);
    int there = 0;
    for (int i = 0; i < SIDE * SIDE; i++) {
        CHECK(buffer[i] == i + 1 || buffer[i] == -1, "%s: memory %d is %d", what, i, buffer[i]);
        there += buffer[i] == i + 1;
    }
    CHECK(there == counts[next], "%s: %d integers came back, not %d", what, there, counts[next]);
    for (int i = 0; i < SIDE * SIDE; i++)
        buffer[i] = -1;
    OK(MPI_File_read_at(file, 0, buffer, 1, parts[next], &status));
    for (int i = 0; i < SIDE * SIDE; i++)
        CHECK(buffer[i] == i + 1 || buffer[i] == -1, "%s, independent: memory %d is %d", what, i,
              buffer[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_free(&whole);
    free(buffer);
    free(index);
    free(packed);
}

static void sizes_of(MPI_Datatype *parts, int *counts)
{
    for (int rank = 0; rank < check_size; rank++) {
        MPI_Type_commit(&parts[rank]);
        MPI_Type_size(parts[rank], &counts[rank]);
        counts[rank] /= sizeof(int);
    }
}

static void distributed(MPI_File file, const char *path, int order, int first, int second,
                        int argument) {
    MPI_Datatype *parts = malloc(sizeof *parts * check_size);
    int *counts = malloc(sizeof(int) * check_size);
    int sizes[2] = {SIDE, SIDE}, kinds[2] = {first, second}, arguments[2] = {argument, argument},
        grid[2] = {0, 0};
    MPI_Dims_create(check_size, 2, grid);
    for (int i = 0; i < 2; i++) {
        if (kinds[i] == MPI_DISTRIBUTE_NONE)
            arguments[i] = MPI_DISTRIBUTE_DFLT_DARG, grid[i] = 1, grid[1 - i] = check_size;
        else if (kinds[i] == MPI_DISTRIBUTE_BLOCK)
            arguments[i] = MPI_DISTRIBUTE_DFLT_DARG;
    }
    for (int rank = 0; rank < check_size; rank++)
        MPI_Type_create_darray(check_size, rank, 2, sizes, kinds, arguments, grid, order, MPI_INT,
                               &parts[rank]);
    sizes_of(parts, counts);
    square(file, path, parts, counts, "darray");
    for (int rank = 0; rank < check_size; rank++)
        MPI_Type_free(&parts[rank]);
    free(parts);
    free(counts);
}

/* Rows or columns in turn, by subarray, vector, indexed block, hindexed and struct. */
static MPI_Datatype stripe(int way, int rank)
{
    MPI_Datatype type = MPI_DATATYPE_NULL, row, piece;
    int rows = SIDE / check_size + (rank < SIDE % check_size), start = 0, list[SIDE], ones[SIDE];
    MPI_Aint bytes[SIDE];
    MPI_Datatype types[SIDE];
    for (int r = 0; r < rank; r++)
        start += SIDE / check_size + (r < SIDE % check_size);
    int sizes[2] = {SIDE, SIDE}, subsizes[2] = {SIDE, rows}, starts[2] = {0, start};
    switch (way) {
    case 0:
        MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type);
        return type;
    case 1:
        MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
        return type;
    case 2: /* every check_size-th row */
        rows = (SIDE - rank + check_size - 1) / check_size;
        for (int i = 0; i < rows; i++)
            list[i] = (rank + i * check_size) * SIDE;
        MPI_Type_create_indexed_block(rows, SIDE, list, MPI_INT, &piece);
        break;
    case 3: /* columns */
        MPI_Type_vector(SIDE, rows, SIDE, MPI_INT, &row);
        bytes[0] = start * (MPI_Aint)sizeof(int), ones[0] = 1, types[0] = row;
        MPI_Type_create_struct(1, ones, bytes, types, &piece);
        MPI_Type_free(&row);
        break;
    default: /* rows of unequal pieces */
        rows = (SIDE - rank + check_size - 1) / check_size;
        for (int i = 0; i < rows; i++) {
            bytes[i] = (rank + i * check_size) * SIDE * (MPI_Aint)sizeof(int);
            ones[i] = SIDE;
        }
        MPI_Type_create_hindexed(rows, ones, bytes, MPI_INT, &piece);
    }
    MPI_Type_create_resized(piece, 0, SIDE * SIDE * (MPI_Aint)sizeof(int), &type);
    MPI_Type_free(&piece);
    return type;
}

static void stripes(MPI_File file, const char *path)
{
    MPI_Datatype *parts = malloc(sizeof *parts * check_size);
    int *counts = malloc(sizeof(int) * check_size);
    static const char *names[] = {"subarray C", "subarray Fortran", "indexed block",
                                  "struct of vector", "hindexed"};
    for (int way = 0; way < 5; way++) {
        for (int rank = 0; rank < check_size; rank++)
            parts[rank] = stripe(way, rank);
        sizes_of(parts, counts);
        square(file, path, parts, counts, names[way]);
        for (int rank = 0; rank < check_size; rank++)
            MPI_Type_free(&parts[rank]);
    }
    free(parts);
    free(counts);
}

/* The etype's own gaps, and a request that starts and ends inside a filetype. */
static void partial(MPI_File file, const char *path)
{
    MPI_Datatype vector, tile;
    int out[30], in[30];
    MPI_Status status;
    MPI_Type_vector(3, 2, 5, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, 20 * (MPI_Aint)sizeof(int), &tile);
    MPI_Type_commit(&tile);
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_set_view(file, check_rank * 4000, MPI_INT, tile, "native", MPI_INFO_NULL));
    for (int i = 0; i < 30; i++)
        out[i] = 100 * check_rank + i + 1;
    OK(MPI_File_write_at(file, 3, out, 11, MPI_INT, &status));
    COUNT(&status, MPI_INT, 11);
    look(file, path);
    /* The view shows integers 0 1 5 6 10 11 of each 20; elements 3..13 are written, all others are
     * zero. */
    static const int shown[] = {0, 1, 5, 6, 10, 11};
    for (int i = 0; i < 60; i++) {
        int expected = 0;
        for (int e = 3; e < 14; e++)
            if (e / 6 * 20 + shown[e % 6] == i)
                expected = 100 * check_rank + e - 2;
        if (check_rank * 4000 + 4 * i + 4 <= length)
            CHECK(at(check_rank * 4000L + 4 * i) == expected, "integer %d is %d, not %d", i,
                  at(check_rank * 4000L + 4 * i), expected);
    }
    memset(in, 0, sizeof in);
    OK(MPI_File_read_at_all(file, 5, in, 9, MPI_INT, &status));
    COUNT(&status, MPI_INT, 9);
    for (int i = 0; i < 9; i++)
        CHECK(in[i] == out[i + 2], "element %d is %d", i, in[i]);
    MPI_Type_free(&vector);
    MPI_Type_free(&tile);
}

/* get_view tells what was set, and a view shows its data in the order of the file. */
static void told(MPI_File file)
{
    MPI_Offset offset;
    MPI_Datatype etype, filetype, mine;
    char representation[MPI_MAX_DATAREP_STRING];
    int integers, addresses, types, combiner;
    MPI_Type_vector(4, 1, 2, MPI_INT, &mine);
    MPI_Type_commit(&mine);
    OK(MPI_File_set_view(file, 12, MPI_INT, mine, "native", MPI_INFO_NULL));
    MPI_Type_free(&mine);
    OK(MPI_File_get_view(file, &offset, &etype, &filetype, representation));
    CHECK(offset == 12 && etype == MPI_INT, "displacement %lld", (long long)offset);
    CHECK(strcmp(representation, "native") == 0, "representation is %s", representation);
    MPI_Type_get_envelope(filetype, &integers, &addresses, &types, &combiner);
    CHECK(combiner == MPI_COMBINER_VECTOR || combiner == MPI_COMBINER_DUP, "combiner is %d",
          combiner);
    MPI_Type_free(&filetype);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

int main(int argc, char **argv)
{
    MPI_File file;

    check_init(&argc, &argv);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    stripes(file, argv[1]);
    distributed(file, argv[1], MPI_ORDER_C, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK, 0);
    distributed(file, argv[1], MPI_ORDER_FORTRAN, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK, 0);
    distributed(file, argv[1], MPI_ORDER_C, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC, 3);
    distributed(file, argv[1], MPI_ORDER_FORTRAN, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK, 2);
    distributed(file, argv[1], MPI_ORDER_C, MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK, 0);
    partial(file, argv[1]);
    told(file);
    OK(MPI_File_close(&file));
    free(all);
    return check_finish();
}
