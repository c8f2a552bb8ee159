/* A file that is written and closed while MPI_Finalize deletes the attributes of MPI_COMM_SELF, as
 * HDF5 does. */
#include "check.h"

static MPI_File file;

static int at_end(MPI_Comm comm, int keyval, void *value, void *extra)
{
    MPI_Status status;
    int number = check_rank, found = -1;
    (void) comm, (void) keyval, (void) value, (void) extra;
    OK(MPI_File_write_at_all(file, 4 * check_rank, &number, 1, MPI_INT, &status));
    OK(MPI_File_read_at_all(file, 4 * check_rank, &found, 1, MPI_INT, &status));
    CHECK(found == number, "%d", found);
    OK(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL, "the handle is unchanged");
    /* "ok" is said already. */
    if (check_errors)
        _Exit(1);
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int keyval;

    check_init(&argc, &argv);
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &keyval, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL));
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    return check_finish();
}
