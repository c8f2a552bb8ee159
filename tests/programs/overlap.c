/* Nonblocking and split operations proceed while the program makes no MPI call at all: each rank
   starts them and then looks at the file behind the back of MPI until the bytes are there. Only
   then it waits. */
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { INTS = 1 << 14, PIECE = 16, MANY = 12 };

static MPI_File file;
static MPI_Datatype tile, type;
static int behind;
static int *data[MANY], *back;

static void fill(int number)
{
    for (int i = 0; i < INTS; i++)
        data[number][i] = (number + 1) * 10000019 + check_rank * INTS + i;
}

/* Where element i of this rank's part of round `number` lies, if the parts are interleaved in
 * pieces. */
static off_t interleaved(int number, int i)
{
    return ((off_t)number * INTS * check_size + (off_t)(i / PIECE) * PIECE * check_size +
            check_rank * PIECE + i % PIECE) *
           (off_t)sizeof(int);
}

/* Whether all of this rank's elements are in the file; no MPI call. */
static int there(int number, int whole)
{
    static int found[INTS * 8];
    size_t ints = (size_t)INTS * (whole ? 1 : check_size);
    off_t start = (off_t)number * INTS * check_size * (off_t)sizeof(int);
    if (whole)
        start += (off_t)check_rank * INTS * (off_t)sizeof(int);
    if (pread(behind, found, ints * sizeof(int), start) != (ssize_t)(ints * sizeof(int)))
        return 0;
    for (int i = 0; i < INTS; i++) {
        off_t at = whole ? i : (interleaved(number, i) - start) / (off_t)sizeof(int);
        if (found[at] != data[number][i])
            return 0;
    }
    return 1;
}

static void appears(const char *what, int number, int whole)
{
    time_t end = time(NULL) + 60;
    int seen = 0;
    while (!(seen = there(number, whole)) && time(NULL) < end)
        usleep(500);
    CHECK(seen, "%s %d: the data is not in the file before the wait", what, number);
}

static void collect(MPI_Request *request)
{
    MPI_Status status;
    OK(MPI_Wait(request, &status));
    COUNT(&status, MPI_INT, INTS);
}

static void view(int plain)
{
    OK(MPI_File_set_view(file, plain ? 0 : (MPI_Offset)(check_rank * PIECE * sizeof(int)), MPI_INT,
                         plain ? MPI_INT : type, "native", MPI_INFO_NULL));
}

static int threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *one; tasks && (one = readdir(tasks));)
        count += one->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void independent(void)
{
    MPI_Request request;
    view(1);
    OK(MPI_File_iwrite_at(file, (MPI_Offset)check_rank * INTS, data[0], INTS, MPI_INT, &request));
    appears("iwrite_at", 0, 1);
    collect(&request);
}

static void collective(void)
{
    MPI_Request request;
    view(0);
    OK(MPI_File_iwrite_at_all(file, INTS, data[1], INTS, MPI_INT, &request));
    appears("iwrite_at_all", 1, 0);
    collect(&request);
}

static void split(void)
{
    MPI_Status status;
    view(0);
    OK(MPI_File_write_at_all_begin(file, 2 * INTS, data[2], INTS, MPI_INT));
    appears("write_at_all_begin", 2, 0);
    OK(MPI_File_write_at_all_end(file, data[2], &status));
    COUNT(&status, MPI_INT, INTS);
}

/* More outstanding operations than there are threads, of both kinds; every rank waits in another
 * order. */
static void several(void)
{
    MPI_Request requests[MANY];
    MPI_Status status;
    view(0);
    for (int number = 0; number < MANY; number++)
        OK((number % 3 == 2 ? MPI_File_iwrite_at : MPI_File_iwrite_at_all)(
            file, (MPI_Offset)number * INTS, data[number], INTS, MPI_INT, &requests[number]));
    for (int number = 0; number < MANY; number++)
        appears("several", number, 0);
    /* A blocking operation between them. */
    OK(MPI_File_read_at_all(file, 0, back, INTS, MPI_INT, &status));
    CHECK(memcmp(back, data[0], INTS * sizeof(int)) == 0, "the blocking read found something else");
    for (int i = 0; i < MANY; i++)
        collect(&requests[(i * 5 + check_rank) % MANY]);
    for (int number = 0; number < MANY; number++) {
        memset(back, 0, INTS * sizeof(int));
        MPI_Request request;
        OK(MPI_File_iread_at_all(file, (MPI_Offset)number * INTS, back, INTS, MPI_INT, &request));
        time_t end = time(NULL) + 60;
        while (((volatile int *)back)[INTS - 1] != data[number][INTS - 1] && time(NULL) < end)
            usleep(500);
        CHECK(time(NULL) < end, "the data is not in memory before the wait");
        collect(&request);
        CHECK(memcmp(back, data[number], INTS * sizeof(int)) == 0, "read something else at %d",
              number);
    }
}

/* What the other ranks wait for must go on while this one sits in a collective call. */
static void beside_barrier(void)
{
    MPI_Request request;
    view(0);
    OK(MPI_File_iwrite_at_all(file, 3 * INTS, data[3], INTS, MPI_INT, &request));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    appears("before a barrier", 3, 0);
    collect(&request);
}

/* A process made while operations are pending disturbs none of them. */
static void fork_meanwhile(void)
{
    MPI_Request request;
    int status = 0;
    view(0);
    OK(MPI_File_iwrite_at_all(file, 4 * INTS, data[4], INTS, MPI_INT, &request));
    pid_t child = fork();
    if (child == 0)
        _exit(threads() == 1 ? 17 : 1);
    appears("with a child", 4, 0);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 17,
          "the child ended with %x", status);
    collect(&request);
}

/* Pieces so far apart that the ranks send messages instead: the operation comes back to the
 * program's threads. */
static void sparse(void)
{
    MPI_Request request;
    int value = 1000 + check_rank, found = 0;
    MPI_Offset far = ((MPI_Offset)1 << 33) * (check_rank + 1);
    view(1);
    OK(MPI_File_iwrite_at_all(file, far, &value, 1, MPI_INT, &request));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, far, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(found == value, "found %d", found);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_set_size(file, (MPI_Offset)MANY * INTS * check_size * (MPI_Offset)sizeof(int)));
}

/* In atomic mode operations take effect one after the other. */
static void atomic(void)
{
    MPI_Request requests[2];
    view(1);
    OK(MPI_File_set_atomicity(file, 1));
    MPI_Offset mine = (MPI_Offset)(5 * check_size + check_rank) * INTS;
    OK(MPI_File_iwrite_at(file, mine, data[6], INTS, MPI_INT, &requests[0]));
    OK(MPI_File_iwrite_at(file, mine, data[7], INTS, MPI_INT, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    OK(MPI_File_read_at(file, mine, back, INTS, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(memcmp(back, data[6], INTS * sizeof(int)) == 0 ||
              memcmp(back, data[7], INTS * sizeof(int)) == 0,
          "two overlapping atomic writes are mixed");
    OK(MPI_File_set_atomicity(file, 0));
}

/* An error belongs to the operation that it happened to. */
static void errors(void)
{
    MPI_Request requests[6];
    MPI_Status statuses[6];
    MPI_Offset end = 0;
    struct rlimit before, tight;
    OK(MPI_File_get_size(file, &end));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    tight = before;
    tight.rlim_cur = (rlim_t)end;
    setrlimit(RLIMIT_FSIZE, &tight);
    view(1);
    for (int i = 0; i < 6; i++) {
        MPI_Offset place =
            (MPI_Offset)((i == 1 || i == 4 ? MANY + i : i) * check_size + check_rank) * INTS;
        OK((i < 3 ? MPI_File_iwrite_at : MPI_File_iwrite_at_all)(file, place, data[i], INTS,
                                                                 MPI_INT, &requests[i]));
    }
    FAILS(MPI_Waitall(6, requests, statuses), MPI_ERR_IN_STATUS);
    for (int i = 0; i < 6; i++) {
        int fails = i == 1 || i == 4;
        CHECK(check_class(statuses[i].MPI_ERROR) == (fails ? MPI_ERR_NO_SPACE : MPI_SUCCESS),
              "operation %d ended with %s", i, check_text(statuses[i].MPI_ERROR));
        COUNT(&statuses[i], MPI_INT, fails ? 0 : INTS);
        CHECK(fails || there(i, 1), "operation %d did not store its data", i);
    }
    OK(MPI_File_write_at_all_begin(file, (MPI_Offset)((MANY + 2) * check_size + check_rank) * INTS,
                                   data[0], INTS, MPI_INT));
    usleep(20000);
    FAILS(MPI_File_write_at_all_end(file, data[0], statuses), MPI_ERR_NO_SPACE);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    setrlimit(RLIMIT_FSIZE, &before);
}

/* No thread can be made: the program's own do all. */
static void without_threads(void)
{
    struct rlimit before, tight;
    long pages = 0;
    MPI_Request request;
    sleep(3); /* Idle workers are gone. */
    FILE *statm = fopen("/proc/self/statm", "r");
    CHECK(statm && fscanf(statm, "%ld", &pages) == 1, "no statm");
    if (statm)
        fclose(statm);
    getrlimit(RLIMIT_AS, &before);
    tight = before;
    tight.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (1 << 20);
    view(0);
    int had = threads();
    if (setrlimit(RLIMIT_AS, &tight) == 0) {
        OK(MPI_File_iwrite_at_all(file, 8 * INTS, data[8], INTS, MPI_INT, &request));
        CHECK(threads() <= had + 1, "threads were made");
        collect(&request);
        setrlimit(RLIMIT_AS, &before);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        CHECK(there(8, 0), "the data is not in the file");
    }
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int before = threads();
    for (int number = 0; number < MANY; number++) {
        data[number] = calloc(INTS, sizeof(int));
        fill(number);
    }
    back = calloc(INTS, sizeof(int));
    MPI_Type_vector(1, PIECE, PIECE, MPI_INT, &tile);
    MPI_Type_create_resized(tile, 0, PIECE * check_size * (MPI_Aint)sizeof(int), &type);
    MPI_Type_commit(&type);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    behind = open(argv[1], O_RDONLY);
    CHECK(behind >= 0, "cannot look behind MPI");
    OK(MPI_File_write_at_all(file, 0, data[11], INTS, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(threads() == before, "%d threads instead of %d before the first nonblocking operation",
          threads(), before);
    independent();
    collective();
    split();
    several();
    beside_barrier();
    fork_meanwhile();
    sparse();
    atomic();
    errors();
    without_threads();
    close(behind);
    OK(MPI_File_close(&file));
    MPI_Type_free(&tile);
    MPI_Type_free(&type);
    return check_finish();
}
