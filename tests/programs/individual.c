/* Individual file pointers: every call moves them by exactly what it asked for, through a view as
 * well. */
#include "check.h"

enum { COUNT_OF = 50 };

static void expect_position(MPI_File file, long long expected)
{
    MPI_Offset position = -1;
    OK(MPI_File_get_position(file, &position));
    CHECK(position == expected, "position is %lld, not %lld", (long long)position, expected);
}

static void write_one(MPI_File file, int way, int *buffer, MPI_Status *status)
{
    MPI_Request request;
    switch (way) {
    case 0: OK(MPI_File_write(file, buffer, COUNT_OF, MPI_INT, status)); return;
    case 1: OK(MPI_File_write_all(file, buffer, COUNT_OF, MPI_INT, status)); return;
    case 2: OK(MPI_File_iwrite(file, buffer, COUNT_OF, MPI_INT, &request)); break;
    default: OK(MPI_File_iwrite_all(file, buffer, COUNT_OF, MPI_INT, &request));
    }
    OK(MPI_Wait(&request, status));
}

static void read_one(MPI_File file, int way, int *buffer, MPI_Status *status)
{
    MPI_Request request;
    switch (way) {
    case 0: OK(MPI_File_read(file, buffer, COUNT_OF, MPI_INT, status)); return;
    case 1: OK(MPI_File_read_all(file, buffer, COUNT_OF, MPI_INT, status)); return;
    case 2: OK(MPI_File_iread(file, buffer, COUNT_OF, MPI_INT, &request)); break;
    default: OK(MPI_File_iread_all(file, buffer, COUNT_OF, MPI_INT, &request));
    }
    OK(MPI_Wait(&request, status));
}

int main(int argc, char **argv)
{
    int buffer[COUNT_OF];
    MPI_File file;
    MPI_Status status;
    MPI_Datatype column;
    MPI_Offset offset;

    check_init(&argc, &argv);
    /* Ten integers of this rank, then ten of each other rank, and so on, behind a header of 100
     * bytes. */
    MPI_Datatype ten;
    MPI_Type_contiguous(10, MPI_INT, &ten);
    MPI_Type_create_resized(ten, 0, 10 * (MPI_Aint)sizeof(int) * check_size, &column);
    MPI_Type_commit(&column);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_set_view(file, 100 + 10 * (MPI_Offset)sizeof(int) * check_rank, MPI_INT, column,
                         "native", MPI_INFO_NULL));
    for (int way = 0; way < 4; way++) {
        for (int i = 0; i < COUNT_OF; i++)
            buffer[i] = 1000000 * check_rank + way * COUNT_OF + i;
        write_one(file, way, buffer, &status);
        COUNT(&status, MPI_INT, COUNT_OF);
        expect_position(file, (way + 1) * COUNT_OF);
    }
    OK(MPI_File_get_byte_offset(file, 15, &offset));
    CHECK(offset == 100 + (10 * check_rank + 10 * check_size + 5) * (MPI_Offset)sizeof(int),
          "byte offset is %lld", (long long)offset);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    for (int way = 0; way < 4; way++) {
        read_one(file, way, buffer, &status);
        COUNT(&status, MPI_INT, COUNT_OF);
        for (int i = 0; i < COUNT_OF; i++)
            CHECK(buffer[i] == 1000000 * check_rank + way * COUNT_OF + i, "element %d is %d", i,
                  buffer[i]);
        expect_position(file, (way + 1) * COUNT_OF);
    }
    /* Seeks: relative, and relative to the end of the view, which is where this rank's data end. */
    OK(MPI_File_seek(file, -30, MPI_SEEK_CUR));
    expect_position(file, 4 * COUNT_OF - 30);
    OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    FAILS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    expect_position(file, 0);
    /* A new view sets the pointer to its start. */
    OK(MPI_File_seek(file, 7, MPI_SEEK_SET));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    expect_position(file, 0);
    OK(MPI_File_get_size(file, &offset));
    OK(MPI_File_seek(file, -4, MPI_SEEK_END));
    expect_position(file, offset - 4);
    OK(MPI_File_read(file, buffer, 10, MPI_BYTE, &status));
    COUNT(&status, MPI_BYTE, 4);
    /* MPI-4.1 14.4.1: the pointer moves by what was asked for, even where the file ended before. */
    expect_position(file, offset + 6);
    OK(MPI_File_close(&file));
    MPI_Type_free(&column);
    MPI_Type_free(&ten);

    long length;
    int *all = (int *)check_slurp(argv[1], &length);
    CHECK(length == 100 + 4 * COUNT_OF * check_size * (long)sizeof(int), "the file has %ld bytes",
          length);
    for (long i = 0; i < (length - 100) / (long)sizeof(int); i++) {
        int value, rank = (int)(i / 10 % check_size);
        memcpy(&value, (char *)all + 100 + i * sizeof(int), sizeof(int));
        CHECK(value == 1000000 * rank + (int)(i / 10 / check_size * 10 + i % 10),
              "integer %ld is %d", i, value);
    }
    free(all);
    return check_finish();
}
