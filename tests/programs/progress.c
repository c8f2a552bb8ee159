/* A rank that blocks in an MPI call while its nonblocking collective operation is pending must not
   stop the ranks that wait for that operation. Nor must a rank that waits in a file operation stop
   messages of the program's. */
#include "check.h"

enum { INTS = 1 << 15 };

static int *data;
static MPI_File file;

static MPI_Request start(void)
{
    MPI_Request request;
    OK(MPI_File_iwrite_at_all(file, 0, data, INTS, MPI_INT, &request));
    return request;
}

static void finish(MPI_Request request)
{
    MPI_Status status;
    OK(MPI_Wait(&request, &status));
    COUNT(&status, MPI_INT, INTS);
}

/* What rank 0 blocks in, and what the others do for it. */
static void receive(int wanted)
{
    int value = -1;
    MPI_Status status;
    for (int from = 1; from < check_size; from++) {
        switch (wanted) {
        case 0: OK(MPI_Recv(&value, 1, MPI_INT, from, 7, MPI_COMM_WORLD, &status)); break;
        case 1:
            OK(MPI_Probe(from, 7, MPI_COMM_WORLD, &status));
            CHECK(status.MPI_SOURCE == from, "probed %d", status.MPI_SOURCE);
            OK(MPI_Recv(&value, 1, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            break;
        case 2: {
            MPI_Message message;
            OK(MPI_Mprobe(from, 7, MPI_COMM_WORLD, &message, &status));
            OK(MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
            break;
        }
        default:
            OK(MPI_Sendrecv(&from, 1, MPI_INT, from, 8, &value, 1, MPI_INT, from, 7, MPI_COMM_WORLD,
                            &status));
        }
        COUNT(&status, MPI_INT, 1);
        CHECK(value == from, "got %d from %d", value, from);
    }
}

static void send(int wanted)
{
    int value;
    OK(MPI_Send(&check_rank, 1, MPI_INT, 0, 7, MPI_COMM_WORLD));
    if (wanted == 3)
        OK(MPI_Recv(&value, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void together(int kind)
{
    int one = 1, sum = 0, all[64];
    switch (kind) {
    case 0: OK(MPI_Barrier(MPI_COMM_WORLD)); break;
    case 1:
        OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK(sum == check_size, "the sum is %d", sum);
        break;
    case 2:
        sum = check_rank;
        OK(MPI_Bcast(&sum, 1, MPI_INT, check_size - 1, MPI_COMM_WORLD));
        CHECK(sum == check_size - 1, "got %d", sum);
        break;
    default:
        OK(MPI_Allgather(&check_rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
        CHECK(all[check_size - 1] == check_size - 1, "got %d", all[check_size - 1]);
    }
}

/* Rank 0 has begun to receive what rank 1 sends before it joins the others in a file operation. */
static void send_before_a_meeting(void)
{
    enum { MANY = 1 << 20 };
    int *large = calloc(MANY, sizeof *large);
    MPI_Request request = MPI_REQUEST_NULL;
    if (check_rank == 0)
        OK(MPI_Irecv(large, MANY, MPI_INT, 1, 9, MPI_COMM_WORLD, &request));
    if (check_rank == 1) {
        large[MANY - 1] = 77;
        OK(MPI_Send(large, MANY, MPI_INT, 0, 9, MPI_COMM_WORLD));
    }
    OK(MPI_File_sync(file));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(check_rank > 1 || large[MANY - 1] == 77, "got %d", large[MANY - 1]);
    free(large);
}

int main(int argc, char **argv)
{
    MPI_Datatype tile, type;
    MPI_Status status;
    check_init(&argc, &argv);
    data = calloc(INTS, sizeof *data);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    MPI_Type_vector(1, 16, 16, MPI_INT, &tile);
    MPI_Type_create_resized(tile, 0, 16 * check_size * sizeof(int), &type);
    MPI_Type_commit(&type);
    OK(MPI_File_set_view(file, 16 * check_rank * sizeof(int), MPI_INT, type, "native",
                         MPI_INFO_NULL));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < INTS; i++)
            data[i] = round * 1000003 + check_rank * INTS + i;
        MPI_Request request = start();
        if (check_rank == 0) {
            receive(round);
            finish(request);
        } else {
            finish(request);
            send(round);
        }
        request = start();
        if (check_rank % 2) {
            together(round);
            finish(request);
        } else {
            finish(request);
            together(round);
        }
        OK(MPI_File_write_at_all_begin(file, 0, data, INTS, MPI_INT));
        if (check_rank % 2)
            together(round);
        OK(MPI_File_write_at_all_end(file, data, &status));
        COUNT(&status, MPI_INT, INTS);
        if (check_rank % 2 == 0)
            together(round);
        int *back = calloc(INTS, sizeof *back);
        OK(MPI_File_read_at_all(file, 0, back, INTS, MPI_INT, &status));
        CHECK(memcmp(back, data, INTS * sizeof *data) == 0, "read something else in round %d",
              round);
        free(back);
    }
    /* Nobody forbids to enter the two collective operations in different orders, as they concern
       different communicators. */
    if (check_rank % 2) {
        MPI_Request request = start();
        together(0);
        finish(request);
    } else {
        together(0);
        finish(start());
    }
    if (check_size > 1)
        send_before_a_meeting();
    OK(MPI_File_close(&file));
    MPI_Type_free(&tile);
    MPI_Type_free(&type);
    free(data);
    return check_finish();
}
