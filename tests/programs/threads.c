/* MPI_THREAD_MULTIPLE: threads of a rank use one file, and files of their own, at once. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 50, LENGTH = 3000 };

static MPI_File common;
static const char *path;

static void *work(void *argument)
{
    int thread = (int)(long)argument, out[LENGTH], in[LENGTH];
    char name[4096];
    MPI_File own;
    MPI_Status status;
    MPI_Request request;
    snprintf(name, sizeof name, "%s.%d.%d", path, check_rank, thread);
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &own));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Offset place =
            (((MPI_Offset)round * check_size + check_rank) * THREADS + thread) * LENGTH * 4;
        for (int i = 0; i < LENGTH; i++)
            out[i] = round * 100000 + check_rank * 10000 + thread * 1000 + i, in[i] = -1;
        OK(MPI_File_write_at(common, place, out, LENGTH, MPI_INT, &status));
        OK(MPI_File_iwrite(own, out, LENGTH, MPI_INT, &request));
        OK(MPI_File_read_at(common, place, in, LENGTH, MPI_INT, &status));
        CHECK(memcmp(in, out, sizeof in) == 0, "thread %d, round %d", thread, round);
        OK(MPI_Wait(&request, &status));
        COUNT(&status, MPI_INT, LENGTH);
        OK(MPI_File_write_shared(own, out, 1, MPI_INT, &status));
    }
    OK(MPI_File_close(&own));
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    path = argv[1];
    CHECK(provided == MPI_THREAD_MULTIPLE, "provided level is %d", provided);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &common));
    for (long i = 0; i < THREADS && provided == MPI_THREAD_MULTIPLE; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS && provided == MPI_THREAD_MULTIPLE; i++)
        pthread_join(threads[i], NULL);
    OK(MPI_File_close(&common));
    return check_finish();
}
