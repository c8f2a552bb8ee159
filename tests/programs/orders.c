/* Ranks begin a nonblocking collective operation before a collective MPI call, or behind it:
   whoever begins early waits for the operation first, in vain, and must go on to the call that the
   others are in. */
#include "check.h"

enum { INTS = 1 << 12 };

static int data[INTS], back[INTS];

static MPI_Request start(MPI_File file)
{
    MPI_Request request;
    OK(MPI_File_iwrite_at_all(file, 0, data, INTS, MPI_INT, &request));
    return request;
}

static void meet(void)
{
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == check_size, "%d", sum);
}

static void in_order(MPI_File file, int early)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    if (early)
        request = start(file);
    meet();
    if (!early)
        request = start(file);
    OK(MPI_Wait(&request, &status));
    COUNT(&status, MPI_INT, INTS);
}

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Status status;
    MPI_Datatype tile;
    check_init(&argc, &argv);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    MPI_Type_vector(INTS / 16, 16, 16 * check_size, MPI_INT, &tile);
    MPI_Type_commit(&tile);
    OK(MPI_File_set_view(file, (MPI_Offset)check_rank * 16 * sizeof(int), MPI_INT, tile, "native",
                         MPI_INFO_NULL));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < INTS; i++)
            data[i] = (round + 1) * 10000019 + check_rank * INTS + i;
        /* One early rank, then as many as late ones. */
        in_order(file, round == 0 ? check_rank == 0 : check_rank % 2 == 0);
        OK(MPI_File_sync(file));
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_File_read_at_all(file, 0, back, INTS, MPI_INT, &status));
        CHECK(memcmp(back, data, sizeof data) == 0, "round %d", round);
    }
    OK(MPI_File_close(&file));
    MPI_Type_free(&tile);
    return check_finish();
}
