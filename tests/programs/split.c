/* Split collectives of every kind, and what may not happen between begin and end. */
#include "check.h"

enum { LENGTH = 2000 };

static void expect(const int *buffer, int first)
{
    for (int i = 0; i < LENGTH; i++)
        CHECK(buffer[i] == first + i, "element %d is %d, not %d", i, buffer[i], first + i);
}

int main(int argc, char **argv)
{
    static int out[LENGTH], in[LENGTH];
    MPI_File file;
    MPI_Status status;

    check_init(&argc, &argv);
    MPI_Offset mine = (MPI_Offset)check_rank * LENGTH;
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int i = 0; i < LENGTH; i++)
        out[i] = 10000 * check_rank + i;

    OK(MPI_File_write_at_all_begin(file, mine, out, LENGTH, MPI_INT));
    /* One split collective at a time. */
    CHECK(MPI_File_read_at_all_begin(file, mine, in, LENGTH, MPI_INT) != MPI_SUCCESS,
          "two at a time were allowed");
    OK(MPI_File_write_at_all_end(file, out, &status));
    COUNT(&status, MPI_INT, LENGTH);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_at_all_begin(file, mine, in, LENGTH, MPI_INT));
    OK(MPI_File_read_at_all_end(file, in, &status));
    COUNT(&status, MPI_INT, LENGTH);
    expect(in, 10000 * check_rank);

    OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
    for (int i = 0; i < LENGTH; i++)
        out[i] = -10000 * check_rank - LENGTH + i;
    OK(MPI_File_write_all_begin(file, out, LENGTH, MPI_INT));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_write_all_end(file, out, &status));
    COUNT(&status, MPI_INT, LENGTH);
    MPI_Offset position;
    OK(MPI_File_get_position(file, &position));
    CHECK(position == mine + LENGTH, "position is %lld", (long long)position);
    OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
    OK(MPI_File_read_all_begin(file, in, LENGTH, MPI_INT));
    OK(MPI_File_read_all_end(file, in, &status));
    COUNT(&status, MPI_INT, LENGTH);
    expect(in, -10000 * check_rank - LENGTH);

    /* An end without a begin. */
    CHECK(MPI_File_read_all_end(file, in, &status) != MPI_SUCCESS,
          "an end without a begin was allowed");
    OK(MPI_File_close(&file));
    return check_finish();
}
