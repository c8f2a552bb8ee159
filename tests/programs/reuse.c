/* Thousands of types are made, used and freed. Libraries give a freed type's handle to the next
   one, which has as many bytes but other places: what was known of the old type must be forgotten
   with it. */
#include "check.h"

#define PIECES 8 /* of each type, each of 2 ints */
#define INTS (2 * PIECES)
#define ROOM 400
#define ROUNDS 3000

static int memory[ROOM], readback[ROOM], reused;
static MPI_Datatype freed = MPI_DATATYPE_NULL;

/* The place of int i of a type, in ints: pieces of 2 ints, `stride` apart, the first at `start`. */
static int place(int i, int start, int stride)
{
    return start + i / 2 * stride + i % 2;
}

/* The same places by every constructor. */
static MPI_Datatype make(int kind, int start, int stride)
{
    MPI_Datatype pair, inner, type;
    int lengths[PIECES], ints[PIECES], sizes[2] = {PIECES, stride}, part[2] = {PIECES, 2},
                                       from[2] = {0, 0};
    MPI_Aint bytes[PIECES], at = 4 * start;
    int one = 1;
    for (int i = 0; i < PIECES; i++) {
        lengths[i] = 2;
        ints[i] = start + i * stride;
        bytes[i] = 4 * (MPI_Aint)ints[i];
    }
    switch (kind) {
    case 0:
        OK(MPI_Type_indexed(PIECES, lengths, ints, MPI_INT, &type));
        return type;
    case 1:
        OK(MPI_Type_create_hindexed_block(PIECES, 2, bytes, MPI_INT, &type));
        return type;
    case 2: /* contiguous copies of a type whose extent alone says where they are */
        OK(MPI_Type_contiguous(2, MPI_INT, &pair));
        OK(MPI_Type_create_resized(pair, 0, 4 * stride, &inner));
        MPI_Type_free(&pair);
        OK(MPI_Type_contiguous(PIECES, inner, &pair));
        MPI_Type_free(&inner);
        break;
    case 3:
        OK(MPI_Type_create_subarray(2, sizes, part, from, MPI_ORDER_C, MPI_INT, &pair));
        break;
    default: /* a copy whose original is gone, with other bounds */
        OK(MPI_Type_vector(PIECES, 2, stride, MPI_INT, &inner));
        OK(MPI_Type_dup(inner, &pair));
        MPI_Type_free(&inner);
    }
    OK(MPI_Type_create_hindexed(1, &one, &at, pair, &type));
    MPI_Type_free(&pair);
    return type;
}

static void forget(MPI_Datatype *type)
{
    freed = *type;
    OK(MPI_Type_free(type));
}

/* A type may be committed only if it is a new one, whatever its handle was. */
static MPI_Datatype committed(MPI_File file, int round, int kind, int start, int stride)
{
    MPI_Datatype type = make(kind, start, stride);
    reused += type == freed;
    if (round % 100 == 7)
        FAILS(MPI_File_write_at(file, 0, memory, 1, type, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    OK(MPI_Type_commit(&type));
    return type;
}

/* Writes from and reads into memory of the type. */
static void as_memory(MPI_File file, int round, MPI_Datatype type, int start, int stride)
{
    int wrong = 0;
    MPI_Status status;
    for (int i = 0; i < ROOM; i++)
        memory[i] = round * ROOM + i;
    OK(MPI_File_write_at(file, 0, memory, 1, type, &status));
    COUNT(&status, type, 1);
    OK(MPI_File_read_at(file, 0, readback, INTS, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < INTS; i++)
        wrong += readback[i] != memory[place(i, start, stride)];
    memset(readback, 0, sizeof readback);
    OK(MPI_File_read_at(file, 0, readback, 1, type, MPI_STATUS_IGNORE));
    for (int i = 0; i < INTS; i++) {
        wrong += readback[place(i, start, stride)] != memory[place(i, start, stride)];
        readback[place(i, start, stride)] = 0;
    }
    for (int i = 0; i < ROOM; i++)
        wrong += readback[i] != 0;
    CHECK(wrong == 0, "round %d: %d wrong ints in memory", round, wrong);
}

/* A view of the type, which is freed at once; its handle goes to others while the view is used. */
static void as_view(MPI_File file, int round, MPI_Datatype *type, int start, int stride)
{
    MPI_Datatype others[3], etype, filetype;
    MPI_Offset disp;
    char name[MPI_MAX_DATAREP_STRING];
    int wrong = 0;
    for (int i = 0; i < ROOM; i++)
        memory[i] = -1;
    OK(MPI_File_write_at(file, 0, memory, ROOM, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_set_view(file, 0, MPI_INT, *type, "native", MPI_INFO_NULL));
    forget(type);
    for (int i = 0; i < 3; i++)
        others[i] = committed(file, 0, (round + i) % 5, start + 1, stride + 1 + i);
    OK(MPI_File_get_view(file, &disp, &etype, &filetype, name));
    for (int i = 0; i < INTS; i++)
        readback[i] = memory[place(i, start + 1, stride + 2)] = round * 100 + i;
    OK(MPI_File_write_at(file, 0, memory, 1, others[1], MPI_STATUS_IGNORE));
    for (int i = 0; i < 3; i++)
        forget(&others[i]);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 0, memory, ROOM, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < INTS; i++) {
        wrong += memory[place(i, start, stride)] != readback[i];
        memory[place(i, start, stride)] = -1;
    }
    for (int i = 0; i < ROOM; i++)
        wrong += memory[i] != -1;
    CHECK(wrong == 0, "round %d: %d wrong ints in a view", round, wrong);
    /* What get_view gave is the program's, and still the old type. */
    OK(MPI_File_set_view(file, 0, MPI_INT, filetype, "native", MPI_INFO_NULL));
    forget(&filetype);
    OK(MPI_File_get_byte_offset(file, INTS - 1, &disp));
    CHECK(disp == 4 * place(INTS - 1, start, stride), "round %d: byte offset %lld", round,
          (long long)disp);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
}

/* A filetype as PnetCDF makes it: the header of the file on rank 0, and columns of a matrix, whose
 * bounds win. */
static void header_and_columns(const char *path, int level)
{
    enum { ROWS = 100 };
    MPI_File file;
    MPI_Info info;
    int sizes[2] = {ROWS, check_size}, part[2] = {ROWS, 1}, from[2] = {0, check_rank},
        lengths[2] = {512, 1};
    int data[ROWS];
    MPI_Aint places[2] = {0, 4096 + (MPI_Aint)level * ROWS * check_size * 4};
    MPI_Datatype types[2] = {MPI_BYTE, MPI_DATATYPE_NULL}, filetype;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_cb_write", "enable"));
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    OK(MPI_Type_create_subarray(2, sizes, part, from, MPI_ORDER_C, MPI_INT, &types[1]));
    if (check_rank)
        lengths[0] = 0;
    OK(MPI_Type_create_struct(2, lengths, places, types, &filetype));
    OK(MPI_Type_commit(&filetype));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    MPI_Type_free(&types[1]);
    MPI_Type_free(&filetype);
    for (int i = 0; i < ROWS; i++)
        data[i] = level * 1000000 + i * check_size + check_rank;
    OK(MPI_File_write_at_all(file, lengths[0], data, ROWS, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    MPI_Info_free(&info);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        long length;
        int *bytes = (int *)check_slurp(path, &length), wrong = 0;
        CHECK(length == places[1] + ROWS * check_size * 4, "%ld bytes", length);
        for (int l = 0; length > 0 && l <= level; l++)
            for (int i = 0; i < ROWS * check_size; i++)
                wrong += bytes[1024 + l * ROWS * check_size + i] != l * 1000000 + i;
        for (int i = 0; length > 0 && i < 1024; i++)
            wrong += bytes[i] != 0;
        CHECK(wrong == 0, "level %d: %d wrong ints in the matrix", level, wrong);
        free(bytes);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    char path[4096];
    MPI_File file;
    check_init(&argc, &argv);
    snprintf(path, sizeof path, "%s.%d", argv[1], check_rank);
    OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int round = 1; round <= ROUNDS; round++) {
        int start = round % 7, stride = 2 + round % 31;
        MPI_Datatype type = committed(file, round, round % 5, start, stride);
        as_memory(file, round, type, start, stride);
        if (round % 3 == 0)
            as_view(file, round, &type, start, stride);
        else
            forget(&type);
    }
    OK(MPI_File_close(&file));
    CHECK(reused > 0, "no handle was given twice: this program tests nothing");
    for (int level = 0; level < 4; level++)
        header_and_columns(argv[1], level);
    return check_finish();
}
