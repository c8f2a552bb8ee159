/* Overlapping writes around collective calls to which one rank comes late: a later call is later,
 * and what a rank does alone after a collective call comes after all ranks' parts of it.
 *
 *     mpirun -n N latecomers FILE
 *
 * 2 ranks or more. */
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

enum { SMALL = 8, LARGE = 100000, LATE = 30000, FAR = 1 << 20 };
enum next { A_CALL, ALONE, ANOTHER_HANDLE, A_READ, NEXTS };
static const char *const nexts[] = {"a call", "alone", "another handle", "a read"};
static char buffer[LARGE];

/* Rank `who` writes `length` bytes at the beginning, in a call of all ranks. */
static void write_of(MPI_File file, int who, char byte, int length)
{
    memset(buffer, byte, length);
    OK(MPI_File_write_at_all(file, 0, buffer, check_rank == who ? length : 0, MPI_BYTE,
                             MPI_STATUS_IGNORE));
}

/* What rank 0 does next. */
static void go_on(MPI_File file, const char *path, enum next next, int length)
{
    MPI_File other = file;
    if (next == ANOTHER_HANDLE)
        OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR, MPI_INFO_NULL, &other));
    memset(buffer, '2', length);
    if (next == A_READ)
        OK(MPI_File_read_at(file, 0, buffer, length, MPI_BYTE, MPI_STATUS_IGNORE));
    else
        OK(MPI_File_write_at(other, 0, buffer, length, MPI_BYTE, MPI_STATUS_IGNORE));
    if (next == A_READ)
        for (int i = 0; i < length; i++)
            CHECK(buffer[i] == '1', "byte %d of %d is %d when it is read", i, length, buffer[i]);
    if (next == ANOTHER_HANDLE)
        OK(MPI_File_close(&other));
}

/* The file has no names any more: what is staged of it is of no use. */
static void delete_file(const char *path, int how)
{
    char other[4096];
    int fd;
    if (how % 3 == 0) {
        OK(MPI_File_delete(path, MPI_INFO_NULL));
        return;
    }
    if (how % 3 == 1) {
        snprintf(other, sizeof other, "%s.other", path);
        fd = open(other, O_CREAT | O_WRONLY, 0600);
        CHECK(fd >= 0 && close(fd) == 0 && rename(other, path) == 0, "%s", other);
    }
    CHECK(unlink(path) == 0, "unlink");
}

static void scene(const char *path, enum next next, int length)
{
    MPI_File file;
    MPI_Offset far = FAR + (MPI_Offset)check_rank * LARGE;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    /* So that something waits, if writes may. */
    memset(buffer, 'z', length);
    OK(MPI_File_write_at_all(file, far, buffer, length, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == check_size - 1)
        usleep(LATE);
    write_of(file, check_size - 1, '1', length);
    if (next == A_CALL)
        write_of(file, 0, '2', length);
    else if (check_rank == 0)
        go_on(file, path, next, length);
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
        OK(MPI_File_read_at(file, 0, buffer, length, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(MPI_File_close(&file));
        for (int i = 0; i < length; i++)
            CHECK(buffer[i] == (next == A_READ ? '1' : '2'), "%s: byte %d of %d is %d in the end",
                  nexts[next], i, length, buffer[i]);
        delete_file(path, next + length);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    for (int next = 0; next < NEXTS; next++) {
        scene(argv[1], next, SMALL);
        scene(argv[1], next, LARGE);
    }
    return check_finish();
}
