/* Files where the system grants little. Usage: short_of FILE descriptors|sizes
 * "descriptors": as many files are open at a time as there are descriptors, but for a few. "sizes":
 * no file may be larger than 4 KiB (RLIMIT_FSIZE), and shared file pointers, views and atomic mode
 * work all the same. */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FILES = 150, SPARE = 8, BYTES = 64 };

static void limit(int resource, long most)
{
    struct rlimit limit = {most, most};
    CHECK(setrlimit(resource, &limit) == 0, "setrlimit");
}

static int highest_descriptor(void)
{
    int highest = 0, fd;
    for (fd = 0; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            highest = fd;
    return highest;
}

static MPI_File open_file(const char *path, const char *suffix)
{
    char name[4096];
    MPI_File fh = MPI_FILE_NULL;
    int amode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    OK(MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, &fh));
    return fh;
}

static void descriptors(const char *path)
{
    static MPI_File files[FILES];
    int file, value;
    /* What the ranks share is made at the first open. */
    files[0] = open_file(path, "");
    OK(MPI_File_close(&files[0]));
    limit(RLIMIT_NOFILE, highest_descriptor() + FILES + SPARE);
    for (file = 0; file < FILES; file++) {
        char suffix[20];
        snprintf(suffix, sizeof suffix, ".%d", file);
        files[file] = open_file(path, suffix);
    }
    for (file = 0; file < FILES; file++) {
        value = 1000 * file + check_rank;
        OK(MPI_File_write_at(files[file], 4 * check_rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        value = -1;
        OK(MPI_File_read_at(files[file], 4 * check_rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(value == 1000 * file + check_rank, "%d in file %d", value, file);
    }
    for (file = 0; file < FILES; file++)
        OK(MPI_File_close(&files[file]));
}

static void sizes(const char *path)
{
    char mine[BYTES], all[BYTES];
    MPI_Offset position = -1;
    int record, seen = 0;
    MPI_File fh;
    MPI_Barrier(MPI_COMM_WORLD);
    limit(RLIMIT_FSIZE, 4096);
    fh = open_file(path, "");
    memset(mine, 'a' + check_rank, BYTES);
    OK(MPI_File_write_at_all(fh, check_rank * BYTES, mine, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_write_shared(fh, mine, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_sync(fh));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_position_shared(fh, &position));
    CHECK(position == check_size * BYTES, "shared pointer at %lld", (long long)position);
    for (record = 0; record < check_size; record++) {
        OK(MPI_File_read_at(fh, record * BYTES, all, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        seen += all[0] == mine[0] && memcmp(all, mine, BYTES) == 0;
    }
    CHECK(seen == 1, "own record found %d times", seen);
    OK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_get_position_shared(fh, &position));
    CHECK(position == 0, "shared pointer at %lld", (long long)position);
    OK(MPI_File_set_atomicity(fh, 1));
    OK(MPI_File_write_at(fh, check_rank * BYTES, mine, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&fh));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    if (argc > 2 && strcmp(argv[2], "descriptors") == 0)
        descriptors(argv[1]);
    else
        sizes(argv[1]);
    return check_finish();
}
