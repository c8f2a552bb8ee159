/* Files and the life of communicators: opened again and again on one, on many, freed before the
 * file is closed. */
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>

enum { AGAIN = 200, COMMUNICATORS = 30, FILES = 300, ROUNDS = 10 };

static const char *path;

/* Every rank adds its number to the file, in rank order; the file holds nothing else afterwards. */
static void use(MPI_Comm comm, MPI_File file)
{
    int rank, size, out, in = -1;
    MPI_Status status;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    out = 1000 + rank;
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_write_ordered(file, &out, 1, MPI_INT, &status));
    MPI_Barrier(comm);
    OK(MPI_File_read_at(file, 4 * (MPI_Offset)((rank + 1) % size), &in, 1, MPI_INT, &status));
    CHECK(in == 1000 + (rank + 1) % size, "%d", in);
    MPI_Barrier(comm);
}

static MPI_File opened(MPI_Comm comm, const char *name)
{
    MPI_File file;
    OK(MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    return file;
}

static void again_on_one(void)
{
    for (int i = 0; i < AGAIN; i++) {
        MPI_File file = opened(MPI_COMM_WORLD, path);
        if (i % 50 == 0)
            use(MPI_COMM_WORLD, file);
        OK(MPI_File_close(&file));
    }
}

static void freed_before_the_close(void)
{
    MPI_Comm copy, half;
    MPI_File whole, part;
    char name[4096];
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    whole = opened(copy, path);
    MPI_Comm_split(copy, check_rank % 2, -check_rank, &half);
    snprintf(name, sizeof name, "%s.%d", path, check_rank % 2);
    part = opened(half, name);
    MPI_Comm_free(&copy);
    use(MPI_COMM_WORLD, whole);
    use(half, part);
    MPI_Comm_free(&half);
    OK(MPI_File_close(&part));
    OK(MPI_File_close(&whole));
}

/* Communicators made of communicators that have files, and freed. */
static void many_communicators(void)
{
    MPI_Comm copies[3];
    for (int i = 0; i < COMMUNICATORS; i++) {
        for (int j = 0; j < 3; j++) {
            MPI_File file;
            MPI_Comm_dup(j ? copies[j - 1] : MPI_COMM_WORLD, &copies[j]);
            file = opened(copies[j], path);
            OK(MPI_File_close(&file));
        }
        for (int j = 0; j < 3; j++)
            MPI_Comm_free(&copies[j]);
    }
}

/* More files at once than there are separate places for on one communicator. */
static void many_files(void)
{
    MPI_File files[FILES];
    char name[4096];
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "%s.many.%d", path, i % 7);
        files[i] = opened(MPI_COMM_WORLD, name);
    }
    for (int i = 0; i < FILES; i += 37)
        use(MPI_COMM_WORLD, files[i]);
    for (int i = 0; i < FILES; i++)
        OK(MPI_File_close(&files[(i * 7) % FILES]));
}

struct task {
    MPI_Comm comm;
    char name[4096];
};

static void *rounds(void *argument)
{
    struct task *task = argument;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Comm own;
        MPI_File file = opened(task->comm, task->name), other;
        use(task->comm, file);
        MPI_Comm_dup(task->comm, &own);
        other = opened(own, task->name);
        OK(MPI_File_close(&file));
        MPI_Comm_free(&own);
        OK(MPI_File_close(&other));
    }
    return NULL;
}

/* Each thread opens and closes on a communicator of its own; the ranks' threads run in any order.
 */
static void threads(void)
{
    struct task tasks[2];
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &tasks[i].comm);
        snprintf(tasks[i].name, sizeof tasks[i].name, "%s.thread.%d", path, i);
        pthread_create(&thread[i], NULL, rounds, &tasks[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        MPI_Comm_free(&tasks[i].comm);
    }
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Comm left;
    MPI_File file;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    if (argc < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    path = argv[1];
    again_on_one();
    freed_before_the_close();
    many_communicators();
    many_files();
    if (provided == MPI_THREAD_MULTIPLE)
        threads();
    /* Nobody frees this one. */
    MPI_Comm_dup(MPI_COMM_WORLD, &left);
    file = opened(left, path);
    OK(MPI_File_close(&file));
    return check_finish();
}
