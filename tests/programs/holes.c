/* Independent strided writes into an empty file, 512 bytes of each 4096: the gaps must be zero. */
#include "check.h"

enum { PIECE = 512, STRIDE = 4096, PIECES = 4096 };

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Status status;
    MPI_Datatype tile;
    unsigned char *buffer = malloc((size_t)PIECE * PIECES);

    check_init(&argc, &argv);
    MPI_Type_vector(PIECES, PIECE, STRIDE, MPI_BYTE, &tile);
    MPI_Type_commit(&tile);
    memset(buffer, 'a' + check_rank, (size_t)PIECE * PIECES);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_set_view(file, PIECE * check_rank, MPI_BYTE, tile, "native", MPI_INFO_NULL));
    OK(MPI_File_write(file, buffer, PIECE * PIECES, MPI_BYTE, &status));
    COUNT(&status, MPI_BYTE, PIECE * PIECES);
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    long length, wrong = 0;
    unsigned char *all = check_slurp(argv[1], &length);
    for (long i = 0; i < length; i++) {
        long piece = i % STRIDE / PIECE;
        wrong += all[i] != (piece < check_size ? 'a' + piece : 0);
    }
    CHECK(wrong == 0, "%ld of %ld bytes are wrong", wrong, length);
    free(all);
    free(buffer);
    MPI_Type_free(&tile);
    return check_finish();
}
