/* Atomic mode: concurrent overlapping writes leave one rank's data whole, reads see all of a write
 * or nothing. */
#include "check.h"

enum { LENGTH = 20000, ROUNDS = 10 };

static void whole(const int *buffer, int count, const char *what)
{
    for (int i = 1; i < count; i++)
        CHECK(buffer[i] == buffer[0], "%s: element %d is %d, the first is %d", what, i, buffer[i],
              buffer[0]);
}

int main(int argc, char **argv)
{
    static int buffer[LENGTH];
    MPI_File file;
    MPI_Status status;
    MPI_Datatype tile, piece;
    int flag = -1;

    check_init(&argc, &argv);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_get_atomicity(file, &flag));
    CHECK(flag == 0, "atomic from the start");
    OK(MPI_File_set_atomicity(file, 1));
    OK(MPI_File_get_atomicity(file, &flag));
    CHECK(flag == 1, "not atomic after set_atomicity");
    /* With a view with gaps as well: every fourth block of ten. */
    MPI_Type_contiguous(10, MPI_INT, &piece);
    MPI_Type_create_resized(piece, 0, 40 * (MPI_Aint)sizeof(int), &tile);
    MPI_Type_commit(&tile);
    for (int strided = 0; strided < 2; strided++) {
        OK(MPI_File_set_view(file, 0, MPI_INT, strided ? tile : MPI_INT, "native", MPI_INFO_NULL));
        int count = strided ? 2000 : LENGTH;
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < count; i++)
                buffer[i] = round * check_size + check_rank;
            if (check_rank % 2 == 0 || round == 0)
                OK(MPI_File_write_at(file, 0, buffer, count, MPI_INT, &status));
            else {
                OK(MPI_File_read_at(file, 0, buffer, count, MPI_INT, &status));
                int got = 0;
                MPI_Get_count(&status, MPI_INT, &got);
                CHECK(got == count || round == 0, "read %d", got);
                if (round > 0)
                    whole(buffer, got, "concurrent read");
            }
            if (round == 0)
                MPI_Barrier(MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_File_read_at_all(file, 0, buffer, count, MPI_INT, &status));
        whole(buffer, count, "after all");
        /* A collective of all ranks on the same bytes is one rank's as well. */
        for (int i = 0; i < count; i++)
            buffer[i] = -1 - check_rank;
        OK(MPI_File_write_at_all(file, 0, buffer, count, MPI_INT, &status));
        OK(MPI_File_read_at_all(file, 0, buffer, count, MPI_INT, &status));
        whole(buffer, count, "after a collective write");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Type_free(&piece);
    MPI_Type_free(&tile);
    OK(MPI_File_close(&file));
    return check_finish();
}
