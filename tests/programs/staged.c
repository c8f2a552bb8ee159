/* Writes of single ranks that are staged: each rank writes records alone and tells a file of its
 * own, after each call, how many it has written. Then ranks are killed.
 *
 * staged DATA ACKNOWLEDGED RECORDS VICTIM: the rank VICTIM, or all for -1, kills itself.
 * staged DATA ACKNOWLEDGED RECORDS check: compares every record with what it should be. */
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

enum { WORDS = 100 };

static void fill(int *words, int rank, int record)
{
    for (int i = 0; i < WORDS; i++)
        words[i] = rank * 1000003 + record * 1009 + i;
}

int main(int argc, char **argv)
{
    int rank, size, words[WORDS];
    MPI_File file;
    check_init(&argc, &argv);
    rank = check_rank;
    size = check_size;
    int records = atoi(argv[3]), victim = atoi(argv[4]);
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", argv[2], rank);
    int told = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(told >= 0, "no file %s", name);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL,
                       &file));
    if (!strcmp(argv[4], "check")) {
        int count = 0, wanted[WORDS];
        CHECK(pread(told, &count, sizeof count, 0) == sizeof count, "rank %d told nothing", rank);
        for (int record = 0; record < count; record++) {
            MPI_Offset at = ((MPI_Offset)record * size + rank) * sizeof words;
            OK(MPI_File_read_at(file, at, words, WORDS, MPI_INT, MPI_STATUS_IGNORE));
            fill(wanted, rank, record);
            CHECK(!memcmp(words, wanted, sizeof words), "record %d of %d", record, count);
        }
        OK(MPI_File_close(&file));
        return check_finish();
    }
    for (int record = 0; record < records; record++) {
        MPI_Offset at = ((MPI_Offset)record * size + rank) * sizeof words;
        fill(words, rank, record);
        OK(MPI_File_write_at(file, at, words, WORDS, MPI_INT, MPI_STATUS_IGNORE));
        int count = record + 1;
        CHECK(pwrite(told, &count, sizeof count, 0) == sizeof count, "record %d", record);
        /* What a rank has written, its neighbour reads without any synchronisation of the file. */
        if (record % 10 == 0) {
            int left = (rank + size - 1) % size, wanted[WORDS];
            MPI_Barrier(MPI_COMM_WORLD);
            at = ((MPI_Offset)record * size + left) * sizeof words;
            OK(MPI_File_read_at(file, at, words, WORDS, MPI_INT, MPI_STATUS_IGNORE));
            fill(wanted, left, record);
            CHECK(!memcmp(words, wanted, sizeof words), "record %d of rank %d", record, left);
        }
        if (record == records / 2 && (victim == rank || victim == -1))
            kill(getpid(), SIGKILL);
    }
    OK(MPI_File_close(&file));
    return check_finish();
}
