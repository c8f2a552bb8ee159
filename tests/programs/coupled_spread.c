/* Ranks on several hosts write one file at the same time and read the bytes of other ranks.
 *
 *   coupled_spread FILE
 *
 * If a rank writes a byte twice, alone and with the others, the later value remains; after a
 * collective MPI_File_sync all ranks see all bytes and the size; MPI_File_set_size cuts on all
 * hosts, and MPI_File_preallocate extends on all. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EACH = 5003, ROUNDS = 3 };
static int rank, ranks;

static void expect(int right, int line) {
    if (right) return;
    printf("rank %d, line %d: wrong\n", rank, line);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define EXPECT(what) expect(what, __LINE__)
#define OK(call) expect((call) == MPI_SUCCESS, __LINE__)

/* Bytes are dealt to the ranks one by one, so that all ranks share each page; some are zeros. */
static char value(int round, int owner, int at) {
    return (char)((round * 31 + owner * 7 + at) % 5);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Datatype dealt;
    MPI_Type_create_resized(MPI_CHAR, 0, ranks, &dealt);
    MPI_Type_commit(&dealt);
    char *own = malloc(EACH), *all = malloc((size_t)EACH * ranks);
    for (int generation = 1; generation <= 2; generation++) {
        MPI_File file;
        int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
        OK(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file));
        EXPECT(MPI_File_set_atomicity(file, 1) != MPI_SUCCESS);
        OK(MPI_File_set_size(file, 0));
        for (int round = 1; round <= ROUNDS; round++) {
            int who = (rank + round) % ranks;
            OK(MPI_File_set_view(file, who, MPI_CHAR, dealt, "native", MPI_INFO_NULL));
            memset(own, 'x', EACH);
            OK(MPI_File_write_at(file, 0, own, EACH, MPI_CHAR, MPI_STATUS_IGNORE));
            for (int at = 0; at < EACH; at++) own[at] = value(round, who, at);
            OK(MPI_File_write_at_all(file, 0, own, EACH, MPI_CHAR, MPI_STATUS_IGNORE));
            memset(own, 'y', EACH);
            OK(MPI_File_read_at_all(file, 0, own, EACH, MPI_CHAR, MPI_STATUS_IGNORE));
            for (int at = 0; at < EACH; at++) EXPECT(own[at] == value(round, who, at));
            OK(MPI_File_sync(file));
            MPI_Barrier(MPI_COMM_WORLD);
            OK(MPI_File_sync(file));
            MPI_Offset size;
            OK(MPI_File_get_size(file, &size));
            EXPECT(size == (MPI_Offset)EACH * ranks);
            OK(MPI_File_set_view(file, 0, MPI_CHAR, MPI_CHAR, "native", MPI_INFO_NULL));
            OK(MPI_File_read_at(file, 0, all, EACH * ranks, MPI_CHAR, MPI_STATUS_IGNORE));
            for (int at = 0; at < EACH * ranks; at++)
                EXPECT(all[at] == value(round, at % ranks, at / ranks));
            /* Do not write bytes that other ranks still read. */
            MPI_Barrier(MPI_COMM_WORLD);
        }
        OK(MPI_File_set_size(file, 100));
        MPI_Offset size;
        OK(MPI_File_get_size(file, &size));
        EXPECT(size == 100);
        OK(MPI_File_set_size(file, 300));
        OK(MPI_File_read_at(file, 0, all, 300, MPI_CHAR, MPI_STATUS_IGNORE));
        for (int at = 0; at < 300; at++)
            EXPECT(all[at] == (at < 100 ? value(ROUNDS, at % ranks, at / ranks) : 0));
        OK(MPI_File_preallocate(file, 200));
        OK(MPI_File_get_size(file, &size));
        EXPECT(size == 300);
        OK(MPI_File_preallocate(file, 500));
        OK(MPI_File_get_size(file, &size));
        EXPECT(size == 500);
        OK(MPI_File_close(&file));
        OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
        OK(MPI_File_read_at_all(file, 0, all, 300, MPI_CHAR, MPI_STATUS_IGNORE));
        for (int at = 0; at < 300; at++)
            EXPECT(all[at] == (at < 100 ? value(ROUNDS, at % ranks, at / ranks) : 0));
        OK(MPI_File_close(&file));
    }
    if (rank == 0) OK(MPI_File_delete(argv[1], MPI_INFO_NULL));
    MPI_Type_free(&dealt);
    free(own);
    free(all);
    MPI_Finalize();
    return 0;
}
