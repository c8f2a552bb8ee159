/* Ranks that need the file late, or never.
 *
 *     mpirun -n N deferred FILE [collective]     with the word, no rank accesses the file for
 *                                                itself */
#include "check.h"
#include <libgen.h>
#include <unistd.h>

enum { PIECE = 512, PIECES = 64, MINE = PIECE * PIECES };

static unsigned char buffer[MINE];

static long long place(long at)
{
    return (at / PIECE * check_size + check_rank) * (long long)PIECE + at % PIECE;
}

/* All ranks write and read interleaved pieces together. */
static void together(const char *path)
{
    MPI_File file;
    MPI_Datatype tile;
    MPI_Status status;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_Type_vector(PIECES, PIECE, PIECE * check_size, MPI_BYTE, &tile);
    MPI_Type_commit(&tile);
    OK(MPI_File_set_view(file, (MPI_Offset)check_rank * PIECE, MPI_BYTE, tile, "native",
                         MPI_INFO_NULL));
    for (long i = 0; i < MINE; i++)
        buffer[i] = pattern(place(i));
    OK(MPI_File_write_at_all(file, 0, buffer, MINE, MPI_BYTE, &status));
    COUNT(&status, MPI_BYTE, MINE);
    OK(MPI_File_sync(file));
    memset(buffer, 0, sizeof buffer);
    OK(MPI_File_read_at_all(file, 0, buffer, MINE, MPI_BYTE, &status));
    for (long i = 0; i < MINE && !check_errors; i++)
        CHECK(buffer[i] == pattern(place(i)), "byte %ld", i);
    OK(MPI_File_set_size(file, (MPI_Offset)check_size * MINE));
    OK(MPI_File_close(&file));
    MPI_Type_free(&tile);
}

/* Every rank accesses the file by itself for the first time after it has lost its name, in one way
 * or another. */
static void late(const char *path, int how)
{
    MPI_File file;
    MPI_Status status;
    MPI_Offset size = -1;
    char other[4096], here[4096];
    unsigned char byte = 0, mine = (unsigned char)(how + 7 * check_rank);
    snprintf(other, sizeof other, "%s.%d", path, how);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    if (check_rank == 0 && how == 0)
        CHECK(unlink(path) == 0, "unlink");
    if (check_rank == 0 && how == 1)
        CHECK(rename(path, other) == 0, "rename");
    if (how == 2)
        CHECK(getcwd(here, sizeof here) != NULL && chdir("/") == 0, "chdir");
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_size(file, &size));
    CHECK(size == (MPI_Offset)check_size * MINE, "the size is %lld", (long long)size);
    OK(MPI_File_read_at(file, check_rank * (MPI_Offset)PIECE, &byte, 1, MPI_BYTE, &status));
    CHECK(byte == pattern(check_rank * (long long)PIECE), "%d", byte);
    OK(MPI_File_write_at(file, check_rank, &mine, 1, MPI_BYTE, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_at(file, (check_rank + 1) % check_size, &byte, 1, MPI_BYTE, &status));
    CHECK(byte == how + 7 * ((check_rank + 1) % check_size), "%d", byte);
    if (how == 2)
        CHECK(chdir(here) == 0, "chdir");
    OK(MPI_File_close(&file));
    if (check_rank == 0 && how != 2)
        CHECK((access(path, F_OK) == 0) == 0, "a file has come back under its old name");
}

/* A rank that has no more to do is in the close already when another needs the file for the first
 * time. */
static void during_the_close(const char *path)
{
    MPI_File file;
    MPI_Offset size = -1;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    if (check_rank != 0) {
        usleep(100000);
        OK(MPI_File_get_size(file, &size));
        CHECK(size == (MPI_Offset)check_size * MINE, "the size is %lld", (long long)size);
    }
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    together(argv[1]);
    if (argc > 2)
        return check_finish();
    char *folder = strdup(argv[1]), *name = strdup(argv[1]);
    CHECK(chdir(dirname(folder)) == 0, "chdir");
    for (int how = 0; how < 3; how++) {
        together(argv[1]);
        MPI_Barrier(MPI_COMM_WORLD);
        late(basename(name), how);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    together(argv[1]);
    during_the_close(argv[1]);
    return check_finish();
}
