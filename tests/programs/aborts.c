/* A job that ends by force while writes wait. Rank 0 ends it; the others are in no call of the
 * file.
 *
 * usage: aborts FILE abort|fatal|exit
 *        "exit": all ranks end without a word to MPI
 */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_File file;
    unsigned char data[100];
    check_init(&argc, &argv);
    memset(data, 1 + check_rank, sizeof data);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_write_at_all(file, 100 * check_rank, data, 100, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0 && argc > 2 && !strcmp(argv[2], "fatal")) {
        MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL);
        MPI_File_read_at(file, -1, data, 1, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    if (argc > 2 && !strcmp(argv[2], "exit"))
        exit(0);
    if (check_rank == 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    /* For ever. */
    MPI_Barrier(MPI_COMM_WORLD);
    return check_finish();
}
