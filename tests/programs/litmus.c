/* Litmus tests of names and of outsiders: what a rank has written and nobody has synchronised is
 * seen by whom the program tells of it by a message, whatever becomes of the name of the file, as
 * on a local file system with the native library. (programs/visibility.c has those of readers.)
 *
 *     mpirun -n N litmus FILE [blind]
 *
 * 2 ranks or more; with the word bytes may wait where system calls do not see them before the file
 * is closed. */
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 100, PIECES = 10, ALL = PIECE * PIECES };
enum how { TOGETHER, ALONE, STARTED, HOWS };
static const char *const hows[] = {"together", "alone", "started"};

static const char *path, *program;
static char other[4096];
static int is_blind;
static unsigned char buffer[PIECES][PIECE];

static unsigned char byte_of(int round, long at)
{
    return (unsigned char)(1 + (at * 11 + round * 37) % 250);
}

static MPI_File opened(MPI_Comm communicator, const char *name, int mode)
{
    MPI_File file = MPI_FILE_NULL;
    OK(MPI_File_open(communicator, name, mode, MPI_INFO_NULL, &file));
    return file;
}

static MPI_File opened_by_all(void)
{
    return opened(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR);
}

/* This rank alone writes the first `length` bytes of the file. */
static void write_alone(MPI_File file, int round, long length)
{
    for (long at = 0; at < length; at += PIECE) {
        for (int b = 0; b < PIECE; b++)
            buffer[0][b] = byte_of(round, at + b);
        OK(MPI_File_write_at(file, at, buffer[0], PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
    }
}

/* A rank writes its pieces: every check_size-th one of the file. */
static void write_pieces(MPI_File file, int round, enum how how)
{
    MPI_Request requests[PIECES];
    for (int i = 0; i < PIECES; i++) {
        MPI_Offset at = ((MPI_Offset)i * check_size + check_rank) * PIECE;
        for (int b = 0; b < PIECE; b++)
            buffer[i][b] = byte_of(round, at + b);
        if (how == TOGETHER)
            OK(MPI_File_write_at_all(file, at, buffer[i], PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
        else if (how == ALONE)
            OK(MPI_File_write_at(file, at, buffer[i], PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
        else
            OK(MPI_File_iwrite_at(file, at, buffer[i], PIECE, MPI_BYTE, &requests[i]));
    }
    if (how == STARTED)
        OK(MPI_Waitall(PIECES, requests, MPI_STATUSES_IGNORE));
}

static long total(void)
{
    return (long)ALL * check_size;
}

/* This rank alone reads the first `length` bytes, which are those of `round`, and no more follow
 * if the file ends there. */
static void expect(MPI_File file, int round, long length, const char *what, enum how how)
{
    MPI_Status status;
    int count = -1;
    long wrong = -1, room = total() + 7;
    unsigned char *bytes = calloc(1, room);
    OK(MPI_File_read_at(file, 0, bytes, (int)room, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    for (long at = 0; at < length && wrong < 0; at++)
        if (bytes[at] != byte_of(round, at))
            wrong = at;
    CHECK(count == length && wrong < 0, "%s, %s: %d bytes, of which byte %ld is wrong", what,
          hows[how], count, wrong);
    free(bytes);
}

/* Reads the whole file by system calls; 0 if it has the bytes of `round` and no others. */
static int look(const char *name, int round, long size)
{
    struct stat found;
    int fd = open(name, O_RDONLY), wrong = 0;
    unsigned char *bytes = malloc(size + 1);
    if (fd < 0 || fstat(fd, &found) || found.st_size != size)
        return 2;
    if (pread(fd, bytes, size + 1, 0) != size)
        return 3;
    for (long at = 0; at < size; at++)
        wrong |= bytes[at] != byte_of(round, at);
    free(bytes);
    return close(fd) || wrong ? 1 : 0;
}

/* The file is closed; rank 0 finds the bytes of `round` in `name`, and removes it. */
static void is_stored(const char *name, int round, long size, const char *what, enum how how)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        int found = look(name, round, size);
        CHECK(found == 0, "%s, %s: %d in the end", what, hows[how], found);
        CHECK(unlink(name) == 0, "%s: unlink", what);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void put(const char *name, const char *text)
{
    int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s", name);
    CHECK(close(fd) == 0, "close");
}

enum name { RENAMED, REPLACED, DELETED, CHANGES };

/* Rank 0 alone has touched the file when its name changes; then the others need it. */
static void first_need_after(enum name change)
{
    MPI_File file = opened_by_all();
    struct stat found;
    if (check_rank == 0) {
        write_alone(file, 1, ALL);
        if (change == DELETED)
            OK(MPI_File_delete((char *)path, MPI_INFO_NULL));
        else
            CHECK(rename(path, other) == 0, "rename");
        if (change == REPLACED)
            put(path, "new");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == check_size - 1)
        expect(file, 1, ALL, "first need after a change of the name", ALONE);
    MPI_Barrier(MPI_COMM_WORLD);
    write_pieces(file, 2, ALONE);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(file, 2, total(), "written after a change of the name", ALONE);
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        int there = stat(path, &found) == 0;
        CHECK(there == (change == REPLACED), "the old name is %d", there);
        if (change == REPLACED)
            CHECK(found.st_size == 3 && unlink(path) == 0, "the new file was written to");
    }
    if (change != DELETED)
        is_stored(other, 2, total(), "a change of the name", ALONE);
}

/* The file is deleted and made anew while it is open: two files, each with its own bytes. */
static void made_anew(enum how how)
{
    MPI_File old = opened_by_all(), new;
    write_pieces(old, 3, how);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        OK(MPI_File_delete((char *)path, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    new = opened_by_all();
    write_pieces(new, 4, how);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(old, 3, total(), "deleted", how);
    expect(new, 4, total(), "made anew", how);
    MPI_Barrier(MPI_COMM_WORLD);
    write_pieces(old, 5, how);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(new, 4, total(), "made anew, the old one written", how);
    expect(old, 5, total(), "deleted, and written", how);
    OK(MPI_File_close(&old));
    expect(new, 4, total(), "made anew, the old one closed", how);
    OK(MPI_File_close(&new));
    is_stored(path, 4, total(), "made anew", how);
}

/* The name changes while bytes wait: the new name leads to them, the old one to nothing. */
static void renamed(enum how how)
{
    MPI_File file = opened_by_all(), own;
    write_pieces(file, 6, how);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        CHECK(rename(path, other) == 0, "rename");
    MPI_Barrier(MPI_COMM_WORLD);
    FAILS(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &own),
          MPI_ERR_NO_SUCH_FILE);
    if (check_rank == check_size - 1) {
        own = opened(MPI_COMM_SELF, other, MPI_MODE_RDONLY);
        expect(own, 6, total(), "by the new name", how);
        OK(MPI_File_close(&own));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    write_pieces(file, 7, how);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(file, 7, total(), "after the name has changed", how);
    OK(MPI_File_close(&file));
    is_stored(other, 7, total(), "renamed", how);
}

/* One rank cuts the file by its name while bytes wait, and asks for its size by its name. */
static void cut(enum how how)
{
    struct stat found;
    MPI_Offset size = -1;
    MPI_File file = opened_by_all();
    write_pieces(file, 8, how);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == check_size - 1) {
        CHECK(stat(path, &found) == 0 && found.st_size == total(), "size %ld",
              (long)found.st_size);
        CHECK(truncate(path, 150) == 0, "truncate");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_size(file, &size));
    CHECK(size == 150, "%s: cut to %lld", hows[how], (long long)size);
    expect(file, 8, 150, "cut", how);
    MPI_Barrier(MPI_COMM_WORLD);
    write_pieces(file, 9, how);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(file, 9, total(), "written after the cut", how);
    OK(MPI_File_close(&file));
    is_stored(path, 9, total(), "cut", how);
}

/* A process without the library sees what was synchronised. */
static void outsider(enum how how)
{
    MPI_File file = opened_by_all();
    write_pieces(file, 10, how);
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == check_size - 1) {
        char command[9000];
        snprintf(command, sizeof command, "exec env -u LD_PRELOAD '%s' look '%s' 10 %ld", program,
                 path, total());
        int status = system(command);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: an outsider ends with %d",
              hows[how], status);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_close(&file));
    is_stored(path, 10, total(), "an outsider", how);
}

/* What was closed is there for who opens the file next, all together or one alone. */
static void opened_again(enum how how)
{
    MPI_File file = opened_by_all();
    write_pieces(file, 11, how);
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    file = opened(MPI_COMM_SELF, path, MPI_MODE_RDONLY);
    expect(file, 11, total(), "opened alone after the close", how);
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    file = opened_by_all();
    expect(file, 11, total(), "opened again", how);
    MPI_Barrier(MPI_COMM_WORLD);
    write_pieces(file, 12, how);
    OK(MPI_File_close(&file));
    is_stored(path, 12, total(), "opened again", how);
}

/* A file that is to be deleted when it is closed is meant by its name, not one that has this name
 * in the directory in which the program is by then. */
static void in_another_directory(void)
{
    char folder[4096], elsewhere[4200], twin[8400];
    struct stat found;
    snprintf(folder, sizeof folder, "%s", path);
    char *name = strrchr(folder, '/');
    *name++ = 0;
    snprintf(elsewhere, sizeof elsewhere, "%s.d", path);
    snprintf(twin, sizeof twin, "%s/%s", elsewhere, name);
    if (check_rank == 0) {
        CHECK(mkdir(elsewhere, 0700) == 0, "mkdir");
        put(twin, "new");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(chdir(folder) == 0, "chdir");
    MPI_File file = opened(MPI_COMM_WORLD, name,
                           MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    write_pieces(file, 13, ALONE);
    CHECK(chdir(elsewhere) == 0, "chdir");
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(chdir(folder) == 0, "chdir");
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        CHECK(stat(path, &found) != 0, "the file is there still");
        CHECK(stat(twin, &found) == 0 && found.st_size == 3, "another file is deleted");
        CHECK(unlink(twin) == 0 && rmdir(elsewhere) == 0, "rmdir");
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "look"))
        return look(argv[2], atoi(argv[3]), atol(argv[4]));
    check_init(&argc, &argv);
    program = argv[0], path = argv[1], is_blind = argc > 2;
    snprintf(other, sizeof other, "%s.other", path);
    in_another_directory();
    for (enum name change = RENAMED; change < CHANGES; change++)
        first_need_after(change);
    for (enum how how = TOGETHER; how < HOWS; how++) {
        made_anew(how);
        renamed(how);
        if (!is_blind)
            cut(how);
        outsider(how);
        opened_again(how);
    }
    return check_finish();
}
