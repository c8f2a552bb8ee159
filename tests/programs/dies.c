/* A rank is killed while the others wait for it in a collective write.
 *
 *     mpirun -n N dies FILE RANK */
#include "check.h"
#include <signal.h>

enum { BLOCK = 1024, COUNT = 512 };

int main(int argc, char **argv)
{
    static char buffer[BLOCK * COUNT];
    MPI_File file;
    MPI_Request request;
    MPI_Datatype tile;

    check_init(&argc, &argv);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    MPI_Type_vector(COUNT, BLOCK, BLOCK * check_size, MPI_BYTE, &tile);
    MPI_Type_commit(&tile);
    OK(MPI_File_set_view(file, (MPI_Offset)check_rank * BLOCK, MPI_BYTE, tile, "native",
                         MPI_INFO_NULL));
    /* It has joined, so the others count on its data. */
    OK(MPI_File_iwrite_at_all(file, 0, buffer, sizeof buffer, MPI_BYTE, &request));
    if (argc > 2 && check_rank == atoi(argv[2]))
        raise(SIGKILL);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    MPI_Type_free(&tile);
    return check_finish();
}
