/* MPI_Finalize with a file left open: what was written is there, nothing hangs and nothing crashes.
 */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_File file, own;
    MPI_Status status;
    char path[4096];
    int value;

    check_init(&argc, &argv);
    value = check_rank;
    snprintf(path, sizeof path, "%s.%d", argv[1], check_rank);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &own));
    OK(MPI_File_write_at_all(file, 4 * check_rank, &value, 1, MPI_INT, &status));
    OK(MPI_File_write_shared(own, &value, 1, MPI_INT, &status));
    return check_finish();
}
