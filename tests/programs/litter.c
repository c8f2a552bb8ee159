/* Uses everything that other implementations keep in files beside the data; with a second argument,
 * rank 1 dies. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Status status;
    MPI_Datatype tile;
    char line[64];

    check_init(&argc, &argv);
    memset(line, 'a' + check_rank, sizeof line);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_write_shared(file, line, sizeof line, MPI_CHAR, &status));
    OK(MPI_File_write_ordered(file, line, sizeof line, MPI_CHAR, &status));
    OK(MPI_File_set_atomicity(file, 1));
    MPI_Type_vector(8, 1, 8, MPI_CHAR, &tile);
    MPI_Type_commit(&tile);
    OK(MPI_File_set_view(file, 4096, MPI_CHAR, tile, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at(file, 64 * check_rank, line, sizeof line, MPI_CHAR, &status));
    OK(MPI_File_write_at_all(file, 64 * check_rank, line, sizeof line, MPI_CHAR, &status));
    OK(MPI_File_read_shared(file, line, 1, MPI_CHAR, &status));
    MPI_Type_free(&tile);
    if (argc > 2) {
        if (check_rank == 1)
            raise(SIGKILL);
        MPI_Barrier(MPI_COMM_WORLD);
        sleep(30);
    }
    OK(MPI_File_close(&file));
    return check_finish();
}
