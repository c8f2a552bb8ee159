/* All ranks open and close one file again and again, and nobody accesses it.
 *
 *     mpirun -n N reopen FILE TIMES */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_File file;
    check_init(&argc, &argv);
    int times = argc > 2 ? atoi(argv[2]) : 1;
    for (int i = 0; i < times; i++) {
        OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                         &file));
        OK(MPI_File_close(&file));
    }
    return check_finish();
}
