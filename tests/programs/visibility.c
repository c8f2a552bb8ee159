/* What a rank sees of bytes that another rank has written and that may wait, where the program has
 * ordered the two by messages: the same as on a local file system with the native library.
 *
 *     mpirun -n N visibility FILE [alone]
 *
 * 2 ranks or more; with the word nobody reads the file or cuts it off by POSIX calls before it is
 * closed. */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 100, PIECES = 20, ALL = PIECE * PIECES };

static const char *path, *program;
static unsigned char buffer[ALL];

/* Byte `at` of the file in round `round`. */
static unsigned char byte_of(int round, long at)
{
    return (unsigned char)(1 + (at * 7 + round * 31) % 250);
}

static MPI_File opened(void)
{
    MPI_File file;
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    OK(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file));
    return file;
}

/* How a rank writes its pieces: every check_size-th one of the file. */
enum { TOGETHER, ALONE, HOWS };

static void write_pieces(MPI_File file, int round, int how)
{
    for (int i = 0; i < PIECES; i++) {
        MPI_Offset at = ((MPI_Offset)i * check_size + check_rank) * PIECE;
        for (int b = 0; b < PIECE; b++)
            buffer[b] = byte_of(round, at + b);
        if (how == TOGETHER)
            OK(MPI_File_write_at_all(file, at, buffer, PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
        else
            OK(MPI_File_write_at(file, at, buffer, PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
    }
}

static void expect(int round, long at, long length, const char *what, int how)
{
    for (long b = 0; b < length; b++)
        if (buffer[b] != byte_of(round, at + b)) {
            CHECK(0, "%s, %s: byte %ld is %d", what, how ? "alone" : "together", at + b, buffer[b]);
            return;
        }
}

static void read_all_of(MPI_File file, int round, const char *what, int how)
{
    MPI_Status status;
    int count;
    for (long at = 0; at < (long)ALL * check_size; at += ALL) {
        memset(buffer, 0, sizeof buffer);
        OK(MPI_File_read_at(file, at, buffer, ALL, MPI_BYTE, &status));
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == ALL, "%s: %d bytes at %ld", what, count, at);
        expect(round, at, ALL, what, how);
    }
}

/* Everybody writes; after a barrier one rank, or all at once, read. */
static void after_a_barrier(int how, int all)
{
    MPI_File file = opened();
    for (int round = 0; round < 3; round++) {
        write_pieces(file, round, how);
        MPI_Barrier(MPI_COMM_WORLD);
        if (all || check_rank == round % check_size)
            read_all_of(file, round, "after a barrier", how);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    OK(MPI_File_close(&file));
}

/* A message goes round: each rank reads what the one before has written, and writes over it. */
static void after_a_message(int how)
{
    MPI_File file = opened();
    int token = 0, next = (check_rank + 1) % check_size;
    int previous = (check_rank + check_size - 1) % check_size;
    write_pieces(file, 9, how);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank)
        MPI_Recv(&token, 1, MPI_INT, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    OK(MPI_File_read_at(file, 50, buffer, ALL, MPI_BYTE, MPI_STATUS_IGNORE));
    expect(check_rank ? token : 9, 50, ALL, "after a message", how);
    token = 10 + check_rank;
    for (long b = 0; b < ALL; b++)
        buffer[b] = byte_of(token, 50 + b);
    for (long b = 0; b < ALL; b += PIECE)
        OK(MPI_File_write_at(file, 50 + b, buffer + b, PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
    if (next)
        MPI_Send(&token, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_at(file, 50, buffer, ALL, MPI_BYTE, MPI_STATUS_IGNORE));
    expect(10 + check_size - 1, 50, ALL, "after all messages", how);
    OK(MPI_File_close(&file));
    file = opened();
    OK(MPI_File_read_at(file, 50, buffer, ALL, MPI_BYTE, MPI_STATUS_IGNORE));
    expect(10 + check_size - 1, 50, ALL, "in the file", how);
    OK(MPI_File_close(&file));
}

/* The size, asked for by every rank after a barrier, and cut off by all. */
static void size_of(int how)
{
    MPI_File file = opened();
    MPI_Offset size = -1, end = (MPI_Offset)ALL * check_size;
    OK(MPI_File_set_size(file, 0));
    write_pieces(file, 5, how);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_size(file, &size));
    CHECK(size == end, "size %lld", (long long)size);
    OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &size));
    CHECK(size == end, "end %lld", (long long)size);
    MPI_Barrier(MPI_COMM_WORLD);
    write_pieces(file, 6, how);
    OK(MPI_File_set_size(file, 150));
    OK(MPI_File_get_size(file, &size));
    CHECK(size == 150, "cut size %lld", (long long)size);
    OK(MPI_File_close(&file));
    CHECK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file) == 0, "open");
    OK(MPI_File_get_size(file, &size));
    CHECK(size == 150, "size after the close %lld", (long long)size);
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* What lies before the bytes that a rank has written, in a file that is shorter without them. */
static void in_a_hole(int how)
{
    MPI_Status status;
    int count = -1, wrong = 0;
    MPI_File file = opened();
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_set_view(file, 2 * ALL, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    write_pieces(file, 2, how);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    memset(buffer, 1, sizeof buffer);
    OK(MPI_File_read_at(file, 10, buffer, ALL, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    for (int b = 0; b < ALL; b++)
        wrong |= buffer[b];
    CHECK(count == ALL && !wrong, "%d bytes of a hole", count);
    OK(MPI_File_close(&file));
}

/* Another handle of one rank, of MPI_COMM_SELF and under another name. */
static void another_handle(int how)
{
    char other[4096];
    MPI_File file = opened(), own;
    snprintf(other, sizeof other, "%s.link", path);
    if (check_rank == 0)
        CHECK(link(path, other) == 0, "link");
    write_pieces(file, 3, how);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_open(MPI_COMM_SELF, other, MPI_MODE_RDONLY, MPI_INFO_NULL, &own));
    read_all_of(own, 3, "another handle", how);
    OK(MPI_File_close(&own));
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        CHECK(unlink(other) == 0, "unlink");
    OK(MPI_File_close(&file));
}

/* Reads the whole file by `how_read` and expects round `round`; the exit status of a program. */
static int look(const char *name, int mapped, int round, long size)
{
    int fd = open(name, O_RDONLY), wrong = 0;
    struct stat found;
    unsigned char *bytes = malloc(size);
    if (fd < 0 || fstat(fd, &found) || found.st_size != size)
        return 2;
    if (mapped) {
        void *place = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (place == MAP_FAILED)
            return 3;
        memcpy(bytes, place, size);
        munmap(place, size);
    } else if (pread(fd, bytes, size, 0) != size) {
        return 4;
    }
    for (long at = 0; at < size; at++)
        wrong |= bytes[at] != byte_of(round, at);
    free(bytes);
    close(fd);
    return wrong;
}

/* One rank looks by POSIX calls, in its own process or in another one. */
static void by_posix(int how, int mapped, int other_process)
{
    MPI_File file = opened();
    long size = (long)ALL * check_size;
    OK(MPI_File_set_size(file, 0));
    write_pieces(file, 4, how);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == check_size - 1) {
        int status;
        if (other_process) {
            char command[9000];
            snprintf(command, sizeof command, "'%s' look '%s' %d %ld", program, path, mapped, size);
            status = system(command);
            status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        } else {
            status = look(path, mapped, 4, size);
        }
        CHECK(status == 0, "%s, %s%s: %d", how ? "alone" : "together", mapped ? "mmap" : "pread",
              other_process ? " in another process" : "", status);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_close(&file));
}

/* The file is cut off, renamed, or deleted and made anew by one rank, by POSIX calls. */
static void changed_by_name(int how, int what)
{
    char other[4096];
    struct stat found;
    MPI_File file = opened();
    long size = (long)ALL * check_size;
    snprintf(other, sizeof other, "%s.other", path);
    OK(MPI_File_set_size(file, 0));
    write_pieces(file, 8, how);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0 && what == 0)
        CHECK(truncate(path, 150) == 0, "truncate");
    if (check_rank == 0 && what == 1)
        CHECK(rename(path, other) == 0, "rename");
    if (check_rank == 0 && what == 2) {
        CHECK(unlink(path) == 0, "unlink");
        int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
        CHECK(fd >= 0 && write(fd, "new", 3) == 3 && close(fd) == 0, "a new file");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        int there = stat(path, &found) == 0;
        if (what == 0)
            CHECK(there && found.st_size == 150, "cut to %ld", (long)found.st_size);
        if (what == 1) {
            CHECK(!there, "the old name is back");
            CHECK(look(other, 0, 8, size) == 0, "what waited is not in the renamed file");
            unlink(other);
        }
        if (what == 2)
            CHECK(there && found.st_size == 3, "the new file has %ld bytes", (long)found.st_size);
        unlink(path);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "look"))
        return look(argv[2], atoi(argv[3]), 4, atol(argv[4]));
    check_init(&argc, &argv);
    program = argv[0], path = argv[1];
    for (int how = TOGETHER; how < HOWS; how++) {
        after_a_barrier(how, 0);
        after_a_barrier(how, 1);
        after_a_message(how);
        size_of(how);
        in_a_hole(how);
        another_handle(how);
        for (int what = argc < 3 ? 0 : 1; what < 3; what++)
            changed_by_name(how, what);
        for (int mapped = 0; mapped < 2 && argc < 3; mapped++)
            for (int other = 0; other < 2; other++)
                by_posix(how, mapped, other);
    }
    return check_finish();
}
