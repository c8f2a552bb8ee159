/* Ends MPI with a file left open on some ranks; nobody may wait for anybody. Usage: left_open FILE
 */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_File fh, own;
    int word = 42;
    char name[4096];
    check_init(&argc, &argv);
    snprintf(name, sizeof name, "%s.%d", argv[1], check_rank);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh));
    OK(MPI_File_open(MPI_COMM_SELF, name,
                     MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &own));
    OK(MPI_File_write_at(own, 0, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_write_at(fh, 4 * check_rank, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
    return check_finish();
}
