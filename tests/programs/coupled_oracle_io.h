/* Input and output of the processes of `coupled_oracle.c`. */
#include "coupled_oracle_model.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Makes a call, which must succeed; the error message has its text. */
#define ok(call) check(call, #call)

static void end(const char *what, const char *why) {
    printf("rank %d: %s: %s\n", rank, what, why);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int error, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int len;
    if (error == MPI_SUCCESS) return;
    MPI_Error_string(error, text, &len);
    end(what, text);
}

/* Checks the result of a system call. */
static int system_ok(int result, const char *what) {
    if (result == -1) end(what, strerror(errno));
    return result;
}

static char *buffer(void) {
    static char *made;
    if (!made) made = malloc(limit + 1);
    return made;
}

static void store(struct file *f, const struct piece *all, int count, int how) {
    int lens[PIECES] = {0}, own = 0;
    MPI_Aint places[PIECES] = {0};
    char *bytes = buffer();
    long total = 0;
    for (int i = 0; i < count; i++) {
        if (all[i].rank != rank) continue;
        lens[own] = (int)all[i].len, places[own++] = all[i].offset;
        memcpy(bytes + total, f->bytes + all[i].offset, all[i].len);
        total += all[i].len;
    }
    if (how == 0) {
        MPI_Datatype type;
        MPI_Type_create_hindexed(own, lens, places, MPI_BYTE, &type);
        MPI_Type_commit(&type);
        MPI_Datatype view = own ? type : MPI_BYTE;
        int len = (int)total;
        ok(MPI_File_set_view(f->open, 0, MPI_BYTE, view, "native", MPI_INFO_NULL));
        ok(MPI_File_write_at_all(f->open, 0, bytes, len, MPI_BYTE, MPI_STATUS_IGNORE));
        ok(MPI_File_set_view(f->open, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        MPI_Type_free(&type);
        return;
    }
    int fd = how == 2 && own ? system_ok(open(f->written_as, O_RDWR), "open") : -1;
    total = 0;
    for (int i = 0; i < own; total += lens[i++]) {
        if (fd == -1)
            ok(MPI_File_write_at(f->open, places[i], bytes + total, lens[i], MPI_BYTE,
                                 MPI_STATUS_IGNORE));
        else if (pwrite(fd, bytes + total, lens[i], places[i]) != lens[i])
            end("pwrite", strerror(errno));
    }
    if (fd != -1) system_ok(close(fd), "close");
}

/* One rank appends to a file, without MPI-IO. */
static void append(const struct file *f, const struct piece *piece, int flags) {
    int fd = system_ok(open(f->written_as, O_WRONLY | O_APPEND | flags, 0600), "open to append");
    for (long done = 0; done < piece->len;) {
        long len = 1 + piece->len / 3;
        if (len > piece->len - done) len = piece->len - done;
        if (write(fd, f->bytes + piece->offset + done, len) != len)
            end("write", strerror(errno));
        done += len;
    }
    system_ok(close(fd), "close of what was appended");
}

/* The ranks write in order with the shared pointer, which is at `at`. */
static void write_in_turn(struct file *f, long at, int writes) {
    struct piece all[PIECES];
    for (int i = 0; i < writers; i++) {
        all[i] = (struct piece){at, draw(1 + (limit - at) / writers), i};
        at += all[i].len;
    }
    put(f, all, writers);
    if (!writes) return;
    ok(MPI_File_write_ordered(f->open, f->bytes + all[rank].offset, (int)all[rank].len, MPI_BYTE,
                              MPI_STATUS_IGNORE));
}

/* Renames the file. If another node owns the new name, `rename` fails with `EXDEV`; then copies the
 * bytes to a new file of that name, like `mv`. */
static void publish(const struct file *f) {
    if (!rename(f->written_as, f->name)) return;
    if (errno != EXDEV) end("rename", strerror(errno));
    char *bytes = buffer();
    int from = system_ok(open(f->written_as, O_RDONLY), "open of what is renamed");
    ssize_t len = system_ok((int)read(from, bytes, limit + 1), "read of what is renamed");
    compare(f, bytes, 0, len, "renamed");
    if (len != f->size && is_worth_saying())
        printf("rank %d: %ld bytes are renamed, not %ld\n", rank, (long)len, f->size);
    system_ok(close(from), "close of what is renamed");
    int to = system_ok(open(f->name, O_WRONLY | O_CREAT | O_TRUNC, 0600), "open of the new name");
    if (write(to, bytes, len) != len) end("write under the new name", strerror(errno));
    system_ok(close(to), "close of the new name");
    system_ok(unlink(f->written_as), "unlink of what is renamed");
}

static void synchronise(struct file *f) {
    /* The first synchronisation makes the bytes of all ranks visible to readers. */
    if (f->is_early && !f->count) MPI_Barrier(MPI_COMM_WORLD);
    ok(MPI_File_sync(f->open));
    MPI_Barrier(MPI_COMM_WORLD);
    ok(MPI_File_sync(f->open));
}

/* Reads random pieces of an open file. */
static void look(const struct file *f, int count, const char *what) {
    MPI_Offset found;
    char *bytes = buffer();
    ok(MPI_File_get_size(f->open, &found));
    if (found != f->size && is_worth_saying())
        printf("rank %d, %s: %lld bytes, not %ld\n", rank, what, (long long)found, f->size);
    for (int i = 0; i < count; i++)
        for (int other = 0; other < ranks; other++) {
            long at = draw(f->size), len = 1 + draw(f->size - at);
            if (draw(3)) len = 1 + len / 50;
            if (draw(8) == 0) at = 0, len = f->size;
            /* A process that reads less than 2,048 bytes does not count as a reader. */
            if (rank == 0 && i == 0) at = 0, len = f->size;
            if (other != rank) continue;
            MPI_Status status;
            int got;
            ok(MPI_File_read_at(f->open, at, bytes, (int)len, MPI_BYTE, &status));
            MPI_Get_count(&status, MPI_BYTE, &got);
            if (got == len) compare(f, bytes, at, len, what);
            else if (is_worth_saying())
                printf("rank %d, %s: %d bytes at %ld, not %ld\n", rank, what, got, at, len);
        }
}

static void pause_for(long milliseconds) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000 * milliseconds}, NULL);
}

/* Reads all of a file that may still be written: each byte must have a value that it had at some
 * time, and the file must become complete. */
static void watch(struct file *f, const char *what) {
    char *bytes = buffer();
    int is_there = 0;
    for (int times = 0; !is_there; times++) {
        MPI_Status status;
        int got;
        ok(MPI_File_read_at(f->open, 0, bytes, (int)limit, MPI_BYTE, &status));
        MPI_Get_count(&status, MPI_BYTE, &got);
        compare_with_states(f, bytes, got, what);
        is_there = got == f->size && !memcmp(bytes, f->bytes, got);
        if (times == 4000 && !is_there) end(what, "does not become what was written, not in time");
        MPI_Allreduce(MPI_IN_PLACE, &is_there, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
        if (!is_there) pause_for(10);
    }
}

/* Checks all of a complete file that is open without MPI-IO. */
static void compare_all(const struct file *f, int fd, const char *what) {
    struct stat facts;
    char *bytes = buffer();
    system_ok(fstat(fd, &facts), "fstat");
    ssize_t got = system_ok((int)pread(fd, bytes, limit + 1, 0), "pread");
    if ((facts.st_size != f->size || got != f->size) && is_worth_saying())
        printf("rank %d, %s: %ld bytes, %ld there, not %ld\n", rank, what, (long)facts.st_size,
               (long)got, f->size);
    compare(f, bytes, 0, got < f->size ? got : f->size, what);
}

/* Reads all of a complete file, without MPI-IO. */
static void read_all(const struct file *f, const char *what) {
    int fd = system_ok(open(f->name, O_RDONLY), "open to read");
    compare_all(f, fd, what);
    system_ok(close(fd), "close");
}

/* What writers and readers tell each other, without the library, in a file of the directory SHARED.
 * `sure` is what readers must see, and `begun` the most that they may see. */
struct marks { volatile long sure[2], begun, seen; };

/* The name of a file that belongs to `f`, in the directory SHARED. */
static void shared_name(const struct file *f, const char *ending, char *name, size_t len) {
    const char *directory = getenv("SHARED");
    snprintf(name, len, "%s/%s%s", directory ? directory : ".", strrchr(f->name, '/') + 1, ending);
}

static struct marks *open_marks(const struct file *f) {
    char name[1200];
    shared_name(f, ".marks", name, sizeof name);
    int fd = system_ok(open(name, O_RDWR | O_CREAT, 0600), "open of the marks");
    system_ok(ftruncate(fd, sizeof(struct marks)), "size of the marks");
    void *marks = mmap(NULL, sizeof(struct marks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (marks == MAP_FAILED) end("mmap of the marks", strerror(errno));
    system_ok(close(fd), "close of the marks");
    return marks;
}

/* Whether the rule of the file stores it on disk (`persist`). */
static int is_stored(const struct file *f) {
    const char *ending = strrchr(f->name, '.');
    return !strcmp(ending, ".stored") || !strcmp(ending, ".after");
}

/* Stores the contents, which the file must have on disk in the end. */
static void tell_expected(const struct file *f) {
    char name[1200];
    shared_name(f, ".expected", name, sizeof name);
    int fd = system_ok(creat(name, 0600), "creat of what is expected");
    for (long done = 0, wrote; done < f->size; done += wrote)
        wrote = system_ok((int)write(fd, f->bytes + done, f->size - done), "write");
    system_ok(close(fd), "close of what is expected");
}
