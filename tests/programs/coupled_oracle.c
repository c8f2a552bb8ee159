/* Random programs that write or read coupled files: write|read FILE SEED GENERATIONS BYTES RANKS.
 *
 * All processes of both sides draw the same program from the seed, and know what the file has
 * after each of its steps. RANKS is how many processes write. Writers cut and extend the file,
 * write pieces with holes between them by views, one by one, and by the system's calls, synchronise
 * it, read what others wrote, and open it again; readers read random pieces. What one rank wrote
 * since the last synchronisation no other rank writes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECES = 40 };

static unsigned long state;
static char *model;
static signed char *owner;
static long size, limit;
static int rank, ranks, writers, failures;
static const char *name;

/* The call succeeds; its name is part of what is said if not. */
#define ok(call) check(call, #call)

static unsigned long draw(unsigned long below) {
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    unsigned long x = state;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdul;
    return (x ^ x >> 29) % below;
}

static void check(int error, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int len;
    if (error == MPI_SUCCESS) return;
    MPI_Error_string(error, text, &len);
    printf("rank %d: %s: %s\n", rank, what, text);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void compare(const char *found, long offset, long len, const char *what) {
    for (long i = 0; i < len; i++) {
        if (found[i] == model[offset + i]) continue;
        if (failures++ < 5)
            printf("rank %d, %s: byte %ld of %ld is %d, not %d\n", rank, what, offset + i, size,
                   found[i], model[offset + i]);
        fflush(stdout);
        return;
    }
}

/* Pieces of a range in order, each of a rank; bytes that another rank has written are in none. */
struct piece { long offset, len; int rank; };

static int pieces(struct piece *all, int one) {
    long most = 1 + draw(limit), at = draw(limit - most + 1), end = at + most;
    long about = 1 + most / (1 + draw(PIECES));
    int count = 0;
    while (at < end && count < PIECES) {
        long len = 1 + draw(2 * about);
        if (len > end - at) len = end - at;
        int whose = one >= 0 ? one : (int)draw(writers);
        int is_hole = draw(5) == 0;
        for (long i = at; i < at + len && !is_hole; i++)
            is_hole = owner[i] >= 0 && owner[i] != whose;
        if (!is_hole) all[count++] = (struct piece){at, len, whose};
        at += len;
    }
    return count;
}

/* What the pieces have from now on. */
static void put(const struct piece *all, int count) {
    int kind = draw(3);
    for (int i = 0; i < count; i++)
        for (long at = all[i].offset; at < all[i].offset + all[i].len; at++) {
            char value = kind == 0 ? (char)draw(256) : kind == 1 ? 0 : at % 8 ? 0 : (char)draw(4);
            model[at] = value;
            owner[at] = (signed char)all[i].rank;
            if (at >= size) size = at + 1;
        }
}

static void store(MPI_File file, const struct piece *all, int count, int how) {
    int lens[PIECES] = {0}, own = 0;
    MPI_Aint places[PIECES] = {0};
    static char *buffer;
    long total = 0;
    if (!buffer) buffer = malloc(limit);
    for (int i = 0; i < count; i++) {
        if (all[i].rank != rank) continue;
        lens[own] = (int)all[i].len, places[own++] = all[i].offset;
        memcpy(buffer + total, model + all[i].offset, all[i].len);
        total += all[i].len;
    }
    if (how == 0) {
        MPI_Datatype type;
        MPI_Type_create_hindexed(own, lens, places, MPI_BYTE, &type);
        MPI_Type_commit(&type);
        MPI_Datatype view = own ? type : MPI_BYTE;
        int len = (int)total;
        ok(MPI_File_set_view(file, 0, MPI_BYTE, view, "native", MPI_INFO_NULL));
        ok(MPI_File_write_at_all(file, 0, buffer, len, MPI_BYTE, MPI_STATUS_IGNORE));
        ok(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        MPI_Type_free(&type);
        return;
    }
    int fd = how == 2 && own ? open(name, O_RDWR) : -1;
    if (how == 2 && own && fd == -1) perror("open"), MPI_Abort(MPI_COMM_WORLD, 1);
    total = 0;
    for (int i = 0; i < own; total += lens[i++]) {
        if (fd == -1)
            ok(MPI_File_write_at(file, places[i], buffer + total, lens[i], MPI_BYTE,
                                 MPI_STATUS_IGNORE));
        else if (pwrite(fd, buffer + total, lens[i], places[i]) != lens[i])
            perror("pwrite"), MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (fd != -1 && close(fd)) perror("close"), MPI_Abort(MPI_COMM_WORLD, 1);
}

static void look(MPI_File file, int count, const char *what) {
    MPI_Offset found;
    static char *buffer;
    if (!buffer) buffer = malloc(limit);
    ok(MPI_File_get_size(file, &found));
    if (found != size && failures++ < 5)
        printf("rank %d, %s: %lld bytes, not %ld\n", rank, what, (long long)found, size);
    for (int i = 0; i < count; i++)
        for (int other = 0; other < ranks; other++) {
            long at = draw(size), len = 1 + draw(size - at);
            if (draw(3)) len = 1 + len / 50;
            if (draw(8) == 0) at = 0, len = size;
            /* Who reads less than 2,048 bytes only looks at the type of the file. */
            if (rank == 0 && i == 0) at = 0, len = size;
            if (other != rank) continue;
            MPI_Status status;
            int count_of;
            ok(MPI_File_read_at(file, at, buffer, (int)len, MPI_BYTE, &status));
            MPI_Get_count(&status, MPI_BYTE, &count_of);
            if (count_of == len) compare(buffer, at, len, what);
            else if (failures++ < 5)
                printf("rank %d, %s: %d bytes at %ld, not %ld\n", rank, what, count_of, at, len);
        }
}

static void synchronise(MPI_File file) {
    ok(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    ok(MPI_File_sync(file));
}

/* One generation; readers only follow what it has at its end. */
static void generation(int number, int writes) {
    MPI_File file;
    struct piece all[PIECES];
    char what[40];
    int reads = draw(3) > 0, posix = draw(4) == 0, rounds = 1 + draw(5);
    int mode = MPI_MODE_CREATE | (reads ? MPI_MODE_RDWR : MPI_MODE_WRONLY);
    snprintf(what, sizeof what, "generation %d", number);
    memset(owner, -1, limit);
    if (writes) ok(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file));
    if (number == 1 || draw(2)) {
        memset(model, 0, limit), size = 0;
        if (writes) ok(MPI_File_set_size(file, 0));
    }
    for (int round = 0; round <= rounds; round++) {
        int step = round == 0 ? 0 : (int)draw(8), one = draw(3) ? -1 : (int)draw(writers);
        if (step == 7) {
            long to = draw(limit + 1);
            if (to < size) memset(model + to, 0, limit - to), memset(owner + to, -1, limit - to);
            size = to;
            if (writes) ok(MPI_File_set_size(file, size));
        } else if (step >= 5) {
            if (writes) synchronise(file);
            memset(owner, -1, limit);
            unsigned long before = state;
            if (reads && size > 0 && writes) look(file, 2, what);
            if (writes) MPI_Barrier(MPI_COMM_WORLD);
            state = before + 1;
        } else {
            int count = pieces(all, one), how = posix ? (int)draw(3) : (int)draw(2);
            put(all, count);
            if (writes) store(file, all, count, how);
        }
    }
    struct piece last = {draw(limit), 1, (int)draw(writers)};
    if (owner[last.offset] >= 0) last.rank = owner[last.offset];
    put(&last, 1);
    if (writes) store(file, &last, 1, 1);
    if (writes) ok(MPI_File_close(&file));
    int again = draw(4) == 0;
    unsigned long before = state;
    if (!writes || again) {
        state += 1000003ul * (writes ? 1 : 2);
        if (writes) MPI_Barrier(MPI_COMM_WORLD);
        ok(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
        look(file, 3, what);
        ok(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    state = before;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc != 7) return 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    int writes = !strcmp(argv[1], "write");
    name = argv[2], state = strtoul(argv[3], 0, 10), limit = atol(argv[5]), writers = atoi(argv[6]);
    for (int i = 0; i < 10; i++) draw(2);
    limit = 1 + draw(limit);
    model = calloc(1, limit), owner = malloc(limit);
    for (int number = 1; number <= atoi(argv[4]); number++) generation(number, writes);
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf(failures ? "%d are wrong\n" : "right\n", failures);
    MPI_Finalize();
    return failures > 0;
}
