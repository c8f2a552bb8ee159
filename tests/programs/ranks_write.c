/* Ranks write records of one file by turns, alone and together, and tell in another file what was
 * acknowledged.
 *
 * usage: ranks_write FILE ACKNOWLEDGED RECORDS LENGTH
 *
 * Record i of rank p of P holds bytes of the value 1 + (7 * i + p) % 255 at offset (P * i + p) *
 * LENGTH. Every third record is written by all ranks together. Lines of ACKNOWLEDGED: `w P I`
 * record I is written, `s P I` it was synchronised, `c P` closed.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int acks;

static void tell(const char *what, int rank, int record)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s %d %d\n", what, rank, record);
    if (write(acks, line, length) != length)
        MPI_Abort(MPI_COMM_WORLD, 9);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks, records = atoi(argv[3]), length = atoi(argv[4]), failed = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    acks = open(argv[2], O_CREAT | O_WRONLY | O_APPEND, 0600);
    char *data = malloc(length);
    MPI_File file;
    if (MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                      &file))
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < records; i++) {
        MPI_Offset offset = (MPI_Offset)(ranks * i + rank) * length;
        memset(data, 1 + (7 * i + rank) % 255, length);
        if (i % 3 == 2)
            failed |=
                MPI_File_write_at_all(file, offset, data, length, MPI_BYTE, MPI_STATUS_IGNORE);
        else
            failed |= MPI_File_write_at(file, offset, data, length, MPI_BYTE, MPI_STATUS_IGNORE);
        if (!failed)
            tell("w", rank, i);
        if (i == records / 2 && !(failed |= MPI_File_sync(file)))
            tell("s", rank, i);
    }
    if (!(failed |= MPI_File_close(&file)))
        tell("c", rank, records);
    MPI_Finalize();
    return failed != 0;
}
