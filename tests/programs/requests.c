/* Several nonblocking operations on one file at once, mixed with messages, completed by every kind
 * of wait and test. */
#include "check.h"

enum { PIECES = 8, LENGTH = 500 };

static int out[PIECES][LENGTH], in[PIECES][LENGTH];

static MPI_Offset place(int rank, int piece)
{
    return ((MPI_Offset)piece * check_size + rank) * LENGTH * (MPI_Offset)sizeof(int);
}

static void complete(int way, int count, MPI_Request *requests, MPI_Status *statuses)
{
    int done = 0, index, flag, some, indices[2 * PIECES + 2];
    MPI_Status few[2 * PIECES + 2];
    switch (way) {
    case 0: OK(MPI_Waitall(count, requests, statuses)); return;
    case 1:
        for (done = 0; done < count; done++) {
            MPI_Status one;
            OK(MPI_Waitany(count, requests, &index, &one));
            CHECK(index != MPI_UNDEFINED, "Waitany found nothing after %d of %d", done, count);
            if (index != MPI_UNDEFINED)
                statuses[index] = one;
        }
        return;
    case 2:
        while (done < count) {
            OK(MPI_Waitsome(count, requests, &some, indices, few));
            CHECK(some > 0, "Waitsome gave %d", some);
            if (some <= 0)
                return;
            for (int i = 0; i < some; i++)
                statuses[indices[i]] = few[i];
            done += some;
        }
        return;
    case 3:
        for (flag = 0; !flag;)
            OK(MPI_Testall(count, requests, &flag, statuses));
        return;
    case 4:
        while (done < count) {
            OK(MPI_Testsome(count, requests, &some, indices, few));
            for (int i = 0; i < some; i++)
                statuses[indices[i]] = few[i];
            done += some > 0 ? some : 0;
        }
        return;
    case 5:
        for (int i = 0; i < count; i++)
            for (flag = 0; !flag;)
                OK(MPI_Test(&requests[i], &flag, &statuses[i]));
        return;
    default:
        for (int i = 0; i < count; i++) {
            for (flag = 0; !flag;)
                OK(MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE));
            OK(MPI_Wait(&requests[i], &statuses[i]));
        }
    }
}

int main(int argc, char **argv)
{
    MPI_File file;

    check_init(&argc, &argv);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    for (int way = 0; way < 7; way++) {
        MPI_Request requests[PIECES + 2];
        MPI_Status statuses[PIECES + 2];
        int sent = check_rank, received = -1, next = (check_rank + 1) % check_size;
        for (int piece = 0; piece < PIECES; piece++)
            for (int i = 0; i < LENGTH; i++)
                out[piece][i] = way * 100000000 + check_rank * 1000000 + piece * LENGTH + i,
                in[piece][i] = -1;
        /* Collective and independent ones in turn; the messages lie between them. */
        OK(MPI_Irecv(&received, 1, MPI_INT, (check_rank + check_size - 1) % check_size, way,
                     MPI_COMM_WORLD, &requests[0]));
        for (int piece = 0; piece < PIECES; piece++)
            OK((piece % 2 ? MPI_File_iwrite_at : MPI_File_iwrite_at_all)(
                file, place(check_rank, piece), out[piece], LENGTH, MPI_INT, &requests[1 + piece]));
        OK(MPI_Isend(&sent, 1, MPI_INT, next, way, MPI_COMM_WORLD, &requests[PIECES + 1]));
        complete(way, PIECES + 2, requests, statuses);
        CHECK(received == (check_rank + check_size - 1) % check_size, "received %d", received);
        for (int piece = 0; piece < PIECES; piece++) {
            CHECK(requests[1 + piece] == MPI_REQUEST_NULL, "request %d is not null", piece);
            COUNT(&statuses[1 + piece], MPI_INT, LENGTH);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (int piece = 0; piece < PIECES; piece++)
            OK((piece % 3 ? MPI_File_iread_at_all : MPI_File_iread_at)(
                file, place(next, piece), in[piece], LENGTH, MPI_INT, &requests[piece]));
        complete(way, PIECES, requests, statuses);
        for (int piece = 0; piece < PIECES; piece++) {
            COUNT(&statuses[piece], MPI_INT, LENGTH);
            for (int i = 0; i < LENGTH; i++)
                CHECK(in[piece][i] == way * 100000000 + next * 1000000 + piece * LENGTH + i,
                      "way %d piece %d: element %d is %d", way, piece, i, in[piece][i]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    /* Waiting with no request and with ignored statuses. */
    MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}, one;
    OK(MPI_Waitall(2, none, MPI_STATUSES_IGNORE));
    OK(MPI_File_iwrite_at(file, place(check_rank, 0), out[0], LENGTH, MPI_INT, &one));
    OK(MPI_Wait(&one, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    return check_finish();
}
