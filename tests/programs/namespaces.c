/* Ranks with odd numbers leave the network namespace of the others, and the mount namespace, where
 * they have other directories for files of a boot, as jobs of some launchers do. All see what
 * others have written: after a barrier, by a handle of all ranks and by handles of single ones.
 *
 * namespaces DATA. Prints "none" if no rank may leave. */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <sys/mount.h>

enum { ROUNDS = 20 };

static int value(int round, int rank)
{
    return 1000 * round + rank + 1;
}

static void compare(MPI_File file, const char *what, int round)
{
    for (int rank = 0; rank < check_size; rank++) {
        int found = 0;
        MPI_Offset at = (MPI_Offset)(round * check_size + rank) * sizeof found;
        OK(MPI_File_read_at(file, at, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(found == value(round, rank), "%s: %d of rank %d, round %d", what, found, rank, round);
    }
}

static void write_own(MPI_File file, int round)
{
    int mine = value(round, check_rank);
    MPI_Offset at = (MPI_Offset)(round * check_size + check_rank) * sizeof mine;
    OK(MPI_File_write_at(file, at, &mine, 1, MPI_INT, MPI_STATUS_IGNORE));
}

static void share(MPI_Comm comm, const char *name, const char *what)
{
    MPI_File file;
    OK(MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int round = 0; round < ROUNDS; round++) {
        write_own(file, round);
        MPI_Barrier(MPI_COMM_WORLD);
        compare(file, what, round);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    OK(MPI_File_close(&file));
}

/* A rank makes the file and keeps it open; another one opens it and reads, and a third system call
 * asks for its size. */
static void visit(const char *name)
{
    MPI_File file;
    int left = (check_rank + check_size - 1) % check_size;
    char mine[4096], theirs[4096];
    snprintf(mine, sizeof mine, "%s.%d", name, check_rank);
    snprintf(theirs, sizeof theirs, "%s.%d", name, left);
    OK(MPI_File_open(MPI_COMM_SELF, mine, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    int number = value(7, check_rank), found = 0;
    OK(MPI_File_write_at(file, 100, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File other;
    OK(MPI_File_open(MPI_COMM_SELF, theirs, MPI_MODE_RDONLY, MPI_INFO_NULL, &other));
    OK(MPI_File_read_at(other, 100, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(found == value(7, left), "%d in the file of rank %d", found, left);
    OK(MPI_File_close(&other));
    FILE *stream = fopen(theirs, "rb");
    CHECK(stream && !fseek(stream, 0, SEEK_END), "no file of rank %d", left);
    CHECK(stream && ftell(stream) == 104, "%ld bytes of rank %d", ftell(stream), left);
    if (stream)
        fclose(stream);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_close(&file));
}

/* Other directories in place of those that processes of a user share. */
static void hide_directories(void)
{
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return;
    static const char *const hidden[] = {"/dev/shm", "/run"};
    for (int i = 0; i < 2; i++)
        mount("none", hidden[i], "tmpfs", 0, NULL);
}

int main(int argc, char **argv)
{
    char name[4096];
    check_init(&argc, &argv);
    int has_left = check_rank % 2 && !unshare(CLONE_NEWNET), some = 0;
    if (has_left)
        hide_directories();
    MPI_Allreduce(&has_left, &some, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (!some && check_rank == 0)
        printf("none\n");
    snprintf(name, sizeof name, "%s.all", argv[1]);
    share(MPI_COMM_WORLD, name, "all");
    snprintf(name, sizeof name, "%s.each", argv[1]);
    share(MPI_COMM_SELF, name, "each");
    visit(argv[1]);
    return check_finish();
}
