/* Reads that meet the end of the file, through views and in collectives: exact counts, pointers and
 * buffers. */
#include "check.h"

enum { DATA = 70 };

/* The file holds DATA integers, i at position i; a view of every second block of 5 starting with
 * `first`. */
static void through_view(MPI_File file, int first, int collective)
{
    int buffer[DATA], seen = 0, count = -1;
    MPI_Datatype five, tile;
    MPI_Status status;
    MPI_Offset position;
    MPI_Type_contiguous(5, MPI_INT, &five);
    MPI_Type_create_resized(five, 0, 10 * (MPI_Aint)sizeof(int), &tile);
    MPI_Type_commit(&tile);
    OK(MPI_File_set_view(file, 5 * first * (MPI_Offset)sizeof(int), MPI_INT, tile, "native",
                         MPI_INFO_NULL));
    for (int i = 0; i < DATA; i++)
        buffer[i] = -1;
    for (int i = 5 * first; i < DATA; i += 10)
        seen += 5;
    OK((collective ? MPI_File_read_all : MPI_File_read)(file, buffer, DATA, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == seen, "count is %d, not %d", count, seen);
    OK(MPI_File_get_position(file, &position));
    /* MPI-4.1 14.4.1: pointers move by what was asked for. */
    CHECK(position == DATA, "the pointer is at %lld, not %d", (long long)position, DATA);
    for (int i = 0; i < DATA; i++)
        CHECK(buffer[i] == (i < seen ? 5 * first + i / 5 * 10 + i % 5 : -1), "element %d is %d", i,
              buffer[i]);
    /* Nothing is left. */
    OK((collective ? MPI_File_read_all : MPI_File_read)(file, buffer, 1, MPI_INT, &status));
    COUNT(&status, MPI_INT, 0);
    MPI_Type_free(&five);
    MPI_Type_free(&tile);
}

/* A partial element: bytes are counted, elements are not whole. */
static void torn(MPI_File file)
{
    MPI_Status status;
    MPI_Count bytes = -1;
    double pair[2] = {0, 0};
    int count = 0;
    OK(MPI_File_set_view(file, 4, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, (DATA - 4) * (MPI_Offset)sizeof(int), pair, 2, MPI_DOUBLE, &status));
    MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
    CHECK(bytes == 12, "%lld bytes", (long long)bytes);
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    CHECK(count == MPI_UNDEFINED, "one and a half doubles counted as %d", count);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 3, "three integers counted as %d", count);
}

int main(int argc, char **argv)
{
    int data[DATA];
    MPI_File file;
    MPI_Status status;
    MPI_Offset position;

    check_init(&argc, &argv);
    for (int i = 0; i < DATA; i++)
        data[i] = i;
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_write_at_all(file, 0, data, check_rank ? 0 : DATA, MPI_INT, &status));
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int collective = 0; collective < 2; collective++)
        through_view(file, (check_rank + collective) % 2, collective);
    torn(file);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_ordered(file, data, DATA, MPI_INT, &status));
    COUNT(&status, MPI_INT, check_rank ? 0 : DATA);
    OK(MPI_File_seek(file, DATA + 100, MPI_SEEK_SET));
    OK(MPI_File_read(file, data, 3, MPI_INT, &status));
    COUNT(&status, MPI_INT, 0);
    OK(MPI_File_get_position(file, &position));
    CHECK(position == DATA + 103, "the pointer is at %lld", (long long)position);
    OK(MPI_File_close(&file));
    return check_finish();
}
