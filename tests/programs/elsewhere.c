/* A program that is in another directory by the time it closes a file with a relative name: what is
 * deleted is the file that it opened, not one of that name in the other directory. */
#include "check.h"

#include <fcntl.h>
#include <libgen.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_File file;
    check_init(&argc, &argv);
    char *folder = strdup(argv[1]), *path = strdup(argv[1]), *name = basename(path);
    CHECK(chdir(dirname(folder)) == 0, "chdir");
    if (check_rank == 0) {
        CHECK(mkdir("elsewhere", 0700) == 0 && chdir("elsewhere") == 0, "mkdir");
        int other = open(name, O_CREAT | O_WRONLY, 0600);
        CHECK(other >= 0 && write(other, "another", 7) == 7 && close(other) == 0, "write");
        CHECK(chdir("..") == 0, "chdir");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR |
                     MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    CHECK(chdir("elsewhere") == 0, "chdir");
    OK(MPI_File_write_at(file, check_rank, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(access(name, F_OK) == 0, "the other file is gone");
    CHECK(access(argv[1], F_OK) != 0, "the file is still there");
    MPI_Barrier(MPI_COMM_WORLD);
    return check_finish();
}
