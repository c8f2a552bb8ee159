/* While ranks write strided pieces, another process writes the gaps with POSIX calls: nobody's
 * bytes may be lost. */
#include "check.h"
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 100, STRIDE = 1000, PIECES = 2000, ROUNDS = 5 };

/* Fills the last 100 bytes of every stride again and again, counting the rounds in them. */
static int intruder(const char *path, int to_parent)
{
    unsigned char bytes[PIECE];
    int fd = open(path, O_RDWR);
    for (int round = 1; round <= ROUNDS * 4 && fd >= 0; round++) {
        memset(bytes, round, PIECE);
        for (long i = 0; i < PIECES; i++)
            if (pwrite(fd, bytes, PIECE, i * STRIDE + STRIDE - PIECE) != PIECE)
                return 1;
    }
    return fd < 0 || close(fd) != 0 || write(to_parent, "x", 1) != 1;
}

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Status status;
    MPI_Datatype tile;
    static unsigned char buffer[PIECE * PIECES];
    int ends[2], state = 0;
    pid_t child = -1;

    check_init(&argc, &argv);
    MPI_Type_vector(PIECES, PIECE, STRIDE, MPI_BYTE, &tile);
    MPI_Type_commit(&tile);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_set_size(file, (MPI_Offset)PIECES * STRIDE));
    OK(MPI_File_set_view(file, PIECE * check_rank, MPI_BYTE, tile, "native", MPI_INFO_NULL));
    if (check_rank == 0 && pipe(ends) == 0) {
        /* Only system calls in the child; the parent's MPI is none of its business. */
        child = fork();
        if (child == 0)
            _exit(intruder(argv[1], ends[1]));
    }
    for (int round = 0; round < ROUNDS; round++) {
        memset(buffer, 'a' + round, sizeof buffer);
        OK(MPI_File_write_at(file, 0, buffer, sizeof buffer, MPI_BYTE, &status));
        COUNT(&status, MPI_BYTE, sizeof buffer);
    }
    if (check_rank == 0) {
        waitpid(child, &state, 0);
        CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0, "the other process failed");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    long length, wrong = 0;
    unsigned char *all = check_slurp(argv[1], &length);
    for (long i = 0; i < length; i++) {
        int piece = i % STRIDE / PIECE;
        int expected = piece < check_size            ? 'a' + ROUNDS - 1
                       : piece == STRIDE / PIECE - 1 ? ROUNDS * 4
                                                     : 0;
        wrong += all[i] != expected;
    }
    CHECK(wrong == 0 && length == (long)PIECES * STRIDE, "%ld of %ld bytes are wrong", wrong,
          length);
    free(all);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_close(&file));
    MPI_Type_free(&tile);
    return check_finish();
}
