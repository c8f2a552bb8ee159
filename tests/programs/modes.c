/* The access modes of open: what they refuse, and what is left of the file. */
#include "check.h"
#include <sys/stat.h>

static int exists(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0;
}

static int try_open(const char *path, int amode, MPI_File *file)
{
    *file = MPI_FILE_NULL;
    return MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, file);
}

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Status status;
    MPI_Offset offset;
    int amode, value = check_rank, seen;

    check_init(&argc, &argv);
    const char *path = argv[1];
    value = 1000 + check_rank;

    FAILS(try_open(path, MPI_MODE_RDONLY, &file), MPI_ERR_NO_SUCH_FILE);
    CHECK(!exists(path), "a failed open left a file");
    /* Exactly one of the three accesses, and no creation without writing. */
    FAILS(try_open(path, MPI_MODE_CREATE, &file), MPI_ERR_AMODE);
    FAILS(try_open(path, MPI_MODE_RDONLY | MPI_MODE_RDWR | MPI_MODE_CREATE, &file), MPI_ERR_AMODE);
    FAILS(try_open(path, MPI_MODE_RDONLY | MPI_MODE_CREATE, &file), MPI_ERR_AMODE);
    FAILS(try_open(path, MPI_MODE_RDONLY | MPI_MODE_EXCL, &file), MPI_ERR_AMODE);
    FAILS(try_open(path, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL | MPI_MODE_CREATE, &file),
          MPI_ERR_AMODE);
    CHECK(!exists(path), "a refused open left a file");
    MPI_Barrier(MPI_COMM_WORLD);

    OK(try_open(path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, &file));
    OK(MPI_File_get_amode(file, &amode));
    CHECK(amode == (MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY), "amode is %d", amode);
    OK(MPI_File_write_at(file, 4 * check_rank, &value, 1, MPI_INT, &status));
    FAILS(MPI_File_read_at(file, 0, &seen, 1, MPI_INT, &status), MPI_ERR_ACCESS);
    OK(MPI_File_close(&file));
    FAILS(try_open(path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, &file),
          MPI_ERR_FILE_EXISTS);

    OK(try_open(path, MPI_MODE_RDONLY, &file));
    FAILS(MPI_File_write_at(file, 0, &value, 1, MPI_INT, &status), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_set_size(file, 4), MPI_ERR_READ_ONLY);
    OK(MPI_File_read_at(file, 4 * check_rank, &seen, 1, MPI_INT, &status));
    CHECK(seen == value, "read %d", seen);
    OK(MPI_File_close(&file));

    /* All pointers start at the end of the file. */
    OK(try_open(path, MPI_MODE_RDWR | MPI_MODE_APPEND, &file));
    OK(MPI_File_get_position(file, &offset));
    CHECK(offset == 4 * check_size, "appending starts at %lld", (long long)offset);
    OK(MPI_File_get_position_shared(file, &offset));
    CHECK(offset == 4 * check_size, "shared appending starts at %lld", (long long)offset);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, &status));
    OK(MPI_File_get_size(file, &offset));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_size(file, &offset));
    CHECK(offset == 8 * check_size, "the size is %lld", (long long)offset);
    OK(MPI_File_close(&file));

    /* Sequential: only the shared pointer. */
    OK(try_open(path, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL, &file));
    FAILS(MPI_File_read_at(file, 0, &seen, 1, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_read(file, &seen, 1, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    OK(MPI_File_read_ordered(file, &seen, 1, MPI_INT, &status));
    CHECK(seen == value, "read %d", seen);
    OK(MPI_File_close(&file));

    OK(try_open(path, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, &file));
    CHECK(exists(path), "deleted before it was closed");
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(!exists(path), "still there after delete on close");
    MPI_Barrier(MPI_COMM_WORLD);

    if (check_rank == 0) {
        FAILS(MPI_File_delete(path, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
        OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                         &file));
        OK(MPI_File_close(&file));
        OK(MPI_File_delete(path, MPI_INFO_NULL));
        CHECK(!exists(path), "still there after delete");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    FAILS(try_open("/no/such/directory/file", MPI_MODE_CREATE | MPI_MODE_RDWR, &file),
          MPI_ERR_NO_SUCH_FILE);
    return check_finish();
}
