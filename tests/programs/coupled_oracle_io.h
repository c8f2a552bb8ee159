/* Input and output of the processes of `coupled_oracle.c`. */
#include "coupled_oracle_model.h"
#include <errno.h>
#include <fcntl.h>
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
        if (!is_there) nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

/* Reads all of a complete file, without MPI-IO. */
static void read_all(const struct file *f, const char *what) {
    struct stat facts;
    char *bytes = buffer();
    int fd = system_ok(open(f->name, O_RDONLY), "open to read");
    system_ok(fstat(fd, &facts), "fstat");
    ssize_t got = system_ok((int)pread(fd, bytes, limit + 1, 0), "pread");
    if ((facts.st_size != f->size || got != f->size) && is_worth_saying())
        printf("rank %d, %s: %ld bytes, %ld there, not %ld\n", rank, what, (long)facts.st_size,
               (long)got, f->size);
    compare(f, bytes, 0, got < f->size ? got : f->size, what);
    system_ok(close(fd), "close");
}
