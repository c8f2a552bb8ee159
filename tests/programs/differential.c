/* Random MPI-IO programs against a byte oracle.
 *
 *     mpirun -n N differential DIRECTORY FIRST_SEED CASES [plain|alone]
 *
 * All ranks draw the same random numbers, so every rank knows what every other rank does and can
 * compute the file's expected bytes by itself. A case opens a file with random hints, then takes
 * random steps: views, blocking, nonblocking, split and collective reads and writes through
 * explicit offsets, individual pointers and the ordered mode, seeks, changes of size. After each
 * step the whole file, the read buffers (with the bytes between the pieces), the status counts and
 * the file pointers are compared. `plain` leaves out the atomic mode. With `alone` any part of the
 * ranks makes a call that is not collective, the file is synchronised, and closed and opened again,
 * and one rank in turn reads the whole file through a handle of its own: system calls would end the
 * staging of writes. Prints `N cases, M mismatches`; each mismatch names its seed and step. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILE = 1 << 19, MAX_RUNS = 4096, MAX_BUFFER = 1 << 18, MAX_RANKS = 64, CANARY = 0xc5 };

static int rank, size, mismatches, step, plain, alone;
static MPI_File own;
static uint64_t state, seed;

static uint64_t draw(void) {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static int below(int n) { return (int)(draw() % (uint64_t)n); }
static int between(int low, int high) { return low + below(high - low + 1); }

static void wrong(const char *what, long got, long want) {
    mismatches++;
    printf("MISMATCH seed %llu step %d rank %d of %d: %s: got %ld, want %ld\n",
           (unsigned long long)seed, step, rank, size, what, got, want);
    fflush(stdout);
}

/* A datatype and its type map as runs of bytes. */
struct type {
    MPI_Datatype handle;
    int runs;
    long offset[MAX_RUNS / 16], length[MAX_RUNS / 16];
    long extent, bytes;
};

/* One random pattern of blocks dealt to `parties`; party `mine` gets its type in `type`. Every rank
 * calls this with the same random state and its own `mine`; the draws do not depend on `mine`. */
static void deal(struct type *type, int etype, int parties, int mine) {
    int blocks = between(1, 3 * parties);
    long at = (long)below(3) * etype;
    type->runs = 0;
    type->bytes = 0;
    for (int i = 0; i < blocks; i++) {
        long length = (long)between(1, 1 << below(8)) * etype;
        int owner = below(parties + 1);
        if (owner == mine) {
            type->offset[type->runs] = at;
            type->length[type->runs++] = length;
            type->bytes += length;
        }
        at += length + (below(3) ? 0 : (long)below(20) * etype);
    }
    type->extent = at + (long)below(4) * etype;
}

static void commit_file_type(struct type *type, MPI_Datatype element, int etype, uint64_t shape) {
    int lengths[MAX_RUNS / 16];
    MPI_Aint offsets[MAX_RUNS / 16];
    MPI_Datatype types[MAX_RUNS / 16], inner;
    for (int i = 0; i < type->runs; i++) {
        lengths[i] = (int)(type->length[i] / etype);
        offsets[i] = type->offset[i];
        types[i] = element;
    }
    if (type->runs == 1 && shape % 3 == 0) {
        int sizes = (int)(type->extent / etype), start = (int)(type->offset[0] / etype);
        MPI_Type_create_subarray(1, &sizes, lengths, &start, MPI_ORDER_C, element, &type->handle);
        MPI_Type_commit(&type->handle);
        return;
    }
    if (shape % 2)
        MPI_Type_create_struct(type->runs, lengths, offsets, types, &inner);
    else
        MPI_Type_create_hindexed(type->runs, lengths, offsets, element, &inner);
    MPI_Type_create_resized(inner, 0, type->extent, &type->handle);
    MPI_Type_commit(&type->handle);
    MPI_Type_free(&inner);
}

/* Regular interleaving: blocks of `block` etypes, one rank after the other. */
static void interleave(struct type *type, MPI_Datatype element, int etype, int mine) {
    int block = between(1, 40), rows = between(1, 4);
    long row = (long)block * etype * size;
    type->runs = rows;
    type->bytes = 0;
    for (int i = 0; i < rows; i++) {
        type->offset[i] = i * row + (long)mine * block * etype;
        type->length[i] = (long)block * etype;
        type->bytes += type->length[i];
    }
    type->extent = rows * row;
    int sizes[2] = {rows, block * size}, parts[2] = {rows, block}, starts[2] = {0, mine * block};
    if (below(2)) {
        MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, element, &type->handle);
    } else {
        int distributions[2] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK};
        int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
        int grid[2] = {1, size};
        MPI_Type_create_darray(size, mine, 2, sizes, distributions, arguments, grid, MPI_ORDER_C,
                               element, &type->handle);
    }
    MPI_Type_commit(&type->handle);
}

/* A random memory layout of `bytes` bytes (a multiple of `unit`) in at most MAX_BUFFER bytes. */
static void memory_type(struct type *type, long bytes, int unit, long *base) {
    int kind = below(5), n = (int)(bytes / unit);
    *base = 0;
    type->extent = type->bytes = bytes;
    if (bytes == 0 || kind == 0) {
        type->runs = bytes > 0;
        type->offset[0] = 0;
        type->length[0] = bytes;
        MPI_Type_contiguous((int)bytes, MPI_BYTE, &type->handle);
        MPI_Type_commit(&type->handle);
        return;
    }
    int blocks = n < 200 ? n : 200;
    if (kind == 1) blocks = 1 + below(blocks);
    long each = bytes / unit / blocks * unit, at = 0;
    int lengths[200];
    MPI_Aint offsets[200];
    type->runs = blocks;
    for (int i = 0; i < blocks; i++) {
        long length = i == blocks - 1 ? bytes - each * (blocks - 1) : each;
        type->length[i] = length;
        type->offset[i] = at;
        at += length + (kind == 1 ? 0 : below(24));
    }
    if (kind == 4) /* from the back to the front, below the address passed to MPI */
        for (int i = 0; i < blocks; i++) type->offset[i] = -type->offset[i] - type->length[i];
    for (int i = 0; i < blocks; i++) {
        lengths[i] = (int)type->length[i];
        offsets[i] = type->offset[i];
    }
    *base = kind == 4 ? at : 0;
    MPI_Type_create_hindexed(blocks, lengths, offsets, MPI_BYTE, &type->handle);
    MPI_Type_commit(&type->handle);
}

static unsigned char model[MAX_FILE], on_disk[MAX_FILE];
static long model_size;

/* What every rank sees of the file, known to all ranks. */
struct view {
    long displacement;
    struct type type;
    int spare; /* shows bytes that other views may show too: only for reading */
};
static struct view views[MAX_RANKS];
static long pointers[MAX_RANKS]; /* individual file pointers in etypes */
static long shared_pointer;
static int etype;
static MPI_Datatype element;

/* The file offset of byte `index` of a view. */
static long place(const struct view *view, long index) {
    long tile = index / view->type.bytes, rest = index % view->type.bytes;
    for (int i = 0; i < view->type.runs; i++) {
        if (rest < view->type.length[i])
            return view->displacement + tile * view->type.extent + view->type.offset[i] + rest;
        rest -= view->type.length[i];
    }
    abort();
}

static unsigned char datum(int writer, long index) {
    uint64_t z = seed * 31 + (uint64_t)step * 7919 + (uint64_t)writer * 104729 + (uint64_t)index;
    z = (z ^ (z >> 15)) * 0x94d049bb133111ebu;
    return (unsigned char)(z >> 40);
}

static void free_views(void) {
    if (views[rank].type.handle != MPI_BYTE) MPI_Type_free(&views[rank].type.handle);
}

static void byte_view(struct view *view) {
    view->displacement = 0;
    view->spare = 0;
    view->type.handle = MPI_BYTE;
    view->type.runs = 1;
    view->type.offset[0] = 0;
    view->type.length[0] = view->type.bytes = view->type.extent = 1;
}

static void step_view(MPI_File file) {
    free_views();
    static const int sizes[] = {1, 2, 4, 8};
    etype = sizes[below(4)];
    element = etype == 1 ? MPI_BYTE : etype == 2 ? MPI_SHORT : etype == 4 ? MPI_INT : MPI_DOUBLE;
    long displacement = below(300);
    int regular = below(2);
    uint64_t before = state, after = state;
    for (int r = 0; r < size; r++) {
        state = before;
        struct type *type = &views[r].type;
        views[r].displacement = displacement;
        if (regular) {
            interleave(type, element, etype, r);
            if (r != rank) MPI_Type_free(&type->handle);
        } else {
            deal(type, etype, size, r);
            uint64_t shape = draw();
            if (type->runs && r == rank) commit_file_type(type, element, etype, shape);
        }
        after = state;
    }
    state = after;
    /* A rank that was dealt nothing sees bytes far behind, but others may come to write there. */
    for (int r = 0; r < size; r++) {
        views[r].spare = views[r].type.runs == 0;
        if (views[r].spare) {
            struct type *type = &views[r].type;
            views[r].displacement = displacement + 200000 + r * 20000;
            type->runs = 1;
            type->offset[0] = 0;
            type->length[0] = type->bytes = type->extent = etype;
            if (r == rank) {
                MPI_Type_contiguous(1, element, &type->handle);
                MPI_Type_commit(&type->handle);
            }
        }
    }
    int code = MPI_File_set_view(file, views[rank].displacement, element, views[rank].type.handle,
                                 "native", MPI_INFO_NULL);
    if (code) wrong("set_view", code, 0);
    for (int r = 0; r < size; r++) pointers[r] = 0;
    shared_pointer = 0;
}

enum how { EXPLICIT, INDIVIDUAL, ORDERED };
enum when { BLOCKING, NONBLOCKING, SPLIT };

static int transfer(MPI_File file, int writing, int collective, enum how how, enum when when,
                    MPI_Offset offset, void *buffer, MPI_Datatype type, MPI_Status *status) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code;
#define GO(call) (code = (call))
    if (how == ORDERED) {
        if (when == SPLIT) {
            if (writing) {
                if (!GO(MPI_File_write_ordered_begin(file, buffer, 1, type)))
                    GO(MPI_File_write_ordered_end(file, buffer, status));
            } else if (!GO(MPI_File_read_ordered_begin(file, buffer, 1, type)))
                GO(MPI_File_read_ordered_end(file, buffer, status));
        } else if (writing) GO(MPI_File_write_ordered(file, buffer, 1, type, status));
        else GO(MPI_File_read_ordered(file, buffer, 1, type, status));
        return code;
    }
    int at = how == EXPLICIT;
    if (when == SPLIT) {
        if (at && writing) {
            if (!GO(MPI_File_write_at_all_begin(file, offset, buffer, 1, type)))
                GO(MPI_File_write_at_all_end(file, buffer, status));
        } else if (at) {
            if (!GO(MPI_File_read_at_all_begin(file, offset, buffer, 1, type)))
                GO(MPI_File_read_at_all_end(file, buffer, status));
        } else if (writing) {
            if (!GO(MPI_File_write_all_begin(file, buffer, 1, type)))
                GO(MPI_File_write_all_end(file, buffer, status));
        } else if (!GO(MPI_File_read_all_begin(file, buffer, 1, type)))
            GO(MPI_File_read_all_end(file, buffer, status));
        return code;
    }
    if (when == BLOCKING) {
        if (at && collective)
            return writing ? MPI_File_write_at_all(file, offset, buffer, 1, type, status)
                           : MPI_File_read_at_all(file, offset, buffer, 1, type, status);
        if (at)
            return writing ? MPI_File_write_at(file, offset, buffer, 1, type, status)
                           : MPI_File_read_at(file, offset, buffer, 1, type, status);
        if (collective)
            return writing ? MPI_File_write_all(file, buffer, 1, type, status)
                           : MPI_File_read_all(file, buffer, 1, type, status);
        return writing ? MPI_File_write(file, buffer, 1, type, status)
                       : MPI_File_read(file, buffer, 1, type, status);
    }
    if (at && collective)
        GO(writing ? MPI_File_iwrite_at_all(file, offset, buffer, 1, type, &request)
                   : MPI_File_iread_at_all(file, offset, buffer, 1, type, &request));
    else if (at)
        GO(writing ? MPI_File_iwrite_at(file, offset, buffer, 1, type, &request)
                   : MPI_File_iread_at(file, offset, buffer, 1, type, &request));
    else if (collective)
        GO(writing ? MPI_File_iwrite_all(file, buffer, 1, type, &request)
                   : MPI_File_iread_all(file, buffer, 1, type, &request));
    else
        GO(writing ? MPI_File_iwrite(file, buffer, 1, type, &request)
                   : MPI_File_iread(file, buffer, 1, type, &request));
    return code ? code : MPI_Wait(&request, status);
}

/* How many bytes of `view` from `start` on lie below the end of the file. */
static long readable(const struct view *view, long start, long bytes) {
    long n = 0;
    while (n < bytes && place(view, start + n) < model_size) n++;
    return n;
}

static void step_transfer(MPI_File file) {
    static unsigned char memory[MAX_BUFFER * 2], expected[MAX_BUFFER * 2];
    int writing = below(2);
    enum how how = below(3);
    int collective = how == ORDERED || below(2);
    enum when when = collective ? below(3) : below(2);
    if (how == ORDERED && when == NONBLOCKING) when = BLOCKING;
    long start[MAX_RANKS], bytes[MAX_RANKS], base;
    long next_shared = shared_pointer;
    long common = below(4);
    int mute[MAX_RANKS] = {0};
    for (int r = 0; alone && !collective && r < size; r++) mute[r] = below(2);
    for (int r = 0; r < size; r++) {
        long limit = 6000 / etype;
        bytes[r] = (below(8) == 0 ? 0 : (long)between(1, 1 << below(12)) % limit) * etype;
        if (mute[r] || (writing && views[r].spare)) bytes[r] = 0;
        if (how == EXPLICIT) start[r] = common * (views[r].type.bytes / etype);
        else if (how == INDIVIDUAL) start[r] = pointers[r], pointers[r] += bytes[r] / etype;
        else start[r] = next_shared, next_shared += bytes[r] / etype;
    }
    /* Ordered transfers through views that interleave may reach the same bytes twice; only the
     * single-rank and the byte view are free of that, so others read. */
    if (how == ORDERED && size > 1) writing = writing && views[rank].type.handle == MPI_BYTE;
    for (int r = 0; r < size; r++)
        if (writing && how != ORDERED && views[rank].type.handle == MPI_BYTE && size > 1)
            writing = 0;
    for (int r = 0; r < size; r++)
        if (place(&views[r], (start[r] + 1) * etype + bytes[r]) >= MAX_FILE - 64) {
            if (how == INDIVIDUAL)
                for (int q = 0; q < size; q++) pointers[q] -= bytes[q] / etype;
            for (int q = 0; q < 3 * size; q++) draw();
            return;
        }
    if (how == ORDERED) shared_pointer = next_shared;
    struct type type;
    uint64_t saved = draw();
    state = saved + (uint64_t)rank;
    memory_type(&type, bytes[rank], etype, &base);
    state = saved;
    memset(memory, CANARY, sizeof memory);
    memset(expected, CANARY, sizeof expected);
    long want = bytes[rank];
    unsigned char *buffer = memory + 4096 + base;
    if (!writing) want = readable(&views[rank], start[rank] * etype, bytes[rank]);
    long index = 0;
    for (int i = 0; i < type.runs; i++)
        for (long k = 0; k < type.length[i]; k++, index++) {
            unsigned char *byte = expected + 4096 + base + type.offset[i] + k;
            if (writing) *byte = datum(rank, index);
            else if (index < want) *byte = model[place(&views[rank], start[rank] * etype + index)];
        }
    if (writing) {
        memcpy(memory, expected, sizeof memory);
        for (int r = 0; r < size; r++)
            for (long k = 0; k < bytes[r]; k++) {
                long at = place(&views[r], start[r] * etype + k);
                model[at] = datum(r, k);
                if (at >= model_size) model_size = at + 1;
            }
    }
    MPI_Status status;
    int count = -1;
    if (getenv("DIFFERENTIAL_TRACE"))
        printf("step %d rank %d %s how %d when %d collective %d start %ld bytes %ld: view %ld, %d "
               "runs, "
               "%ld of %ld; memory %d runs, base %ld; file %ld\n",
               step, rank, writing ? "write" : "read", how, when, collective, start[rank],
               bytes[rank], views[rank].displacement, views[rank].type.runs, views[rank].type.bytes,
               views[rank].type.extent, type.runs, base, model_size);
    int code = 0;
    if (mute[rank]) count = 0;
    else
        code = transfer(file, writing, collective, how, when, start[rank], buffer, type.handle,
                        &status);
    if (code) wrong(writing ? "write" : "read", code, 0);
    if (!mute[rank]) MPI_Get_count(&status, MPI_BYTE, &count);
    if (!code && count != want) wrong(writing ? "count written" : "count read", count, want);
    if (memcmp(memory, expected, sizeof memory)) {
        long at = 0;
        while (memory[at] == expected[at]) at++;
        wrong("buffer byte", at - 4096, memory[at] * 1000 + expected[at]);
    }
    MPI_Offset position;
    MPI_File_get_position(file, &position);
    if (position != pointers[rank]) wrong("position", (long)position, pointers[rank]);
    MPI_Type_free(&type.handle);
}

static void step_seek(MPI_File file) {
    long common = below(4);
    for (int r = 0; r < size; r++) pointers[r] = common * (views[r].type.bytes / etype);
    int code = MPI_File_seek(file, pointers[rank], MPI_SEEK_SET);
    if (code) wrong("seek", code, 0);
}

static void step_seek_shared(MPI_File file) {
    shared_pointer = below(50);
    int code = MPI_File_seek_shared(file, shared_pointer, MPI_SEEK_SET);
    if (code) wrong("seek_shared", code, 0);
    MPI_Offset position;
    MPI_File_get_position_shared(file, &position);
    if (position != shared_pointer) wrong("shared position", (long)position, shared_pointer);
}

static void step_size(MPI_File file) {
    long next = below(40000);
    if (next < model_size) memset(model + next, 0, (size_t)(model_size - next));
    model_size = next;
    int code = MPI_File_set_size(file, next);
    if (code) wrong("set_size", code, 0);
}

static void compare_bytes(long n) {
    if (n != model_size) wrong("bytes on disk", n, model_size);
    for (long i = 0; i < n && i < model_size; i++)
        if (on_disk[i] != model[i]) {
            wrong("file byte at", i, model[i] * 1000 + on_disk[i]);
            break;
        }
}

/* By system calls. */
static void compare_on_disk(const char *path) {
    FILE *stream = fopen(path, "rb");
    size_t n = stream ? fread(on_disk, 1, sizeof on_disk, stream) : 0;
    if (stream) fclose(stream);
    compare_bytes((long)n);
}

/* By a handle of this rank. */
static void compare_alone(void) {
    MPI_Status status;
    MPI_Offset now = -1;
    int n = -1;
    int code = MPI_File_read_at(own, 0, on_disk, sizeof on_disk, MPI_BYTE, &status);
    if (code) wrong("read alone", code, 0);
    MPI_Get_count(&status, MPI_BYTE, &n);
    compare_bytes(n);
    MPI_File_get_size(own, &now);
    if (now != model_size) wrong("file size alone", (long)now, model_size);
}

static void compare_file(MPI_File file, const char *path) {
    MPI_Offset now;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_size(file, &now);
    if (now != model_size) wrong("file size", (long)now, model_size);
    if (alone && rank == (int)((seed + (uint64_t)step) % (uint64_t)size)) compare_alone();
    if (!alone && rank == 0) compare_on_disk(path);
    MPI_Barrier(MPI_COMM_WORLD);
}

static MPI_Info hints(void) {
    MPI_Info info;
    char text[32];
    static const char *const switches[] = {"automatic", "enable", "disable"};
    MPI_Info_create(&info);
    snprintf(text, sizeof text, "%d", 1 << between(6, 20));
    if (below(3)) MPI_Info_set(info, "cb_buffer_size", text);
    snprintf(text, sizeof text, "%d", between(1, size));
    if (below(2)) MPI_Info_set(info, "cb_nodes", text);
    if (below(2)) MPI_Info_set(info, "cb_config_list", "*:*");
    const char *choice = switches[below(3)];
    if (below(2)) MPI_Info_set(info, "romio_cb_write", choice);
    choice = switches[below(3)];
    if (below(2)) MPI_Info_set(info, "romio_cb_read", choice);
    choice = switches[below(3)];
    if (below(2)) MPI_Info_set(info, "romio_ds_read", choice);
    return info;
}

static void start_anew(void) {
    for (int r = 0; r < size; r++) byte_view(&views[r]), pointers[r] = 0;
    shared_pointer = 0;
    etype = 1;
    element = MPI_BYTE;
}

static void step_again(MPI_File *file, const char *path) {
    free_views();
    int code = MPI_File_close(file);
    if (code) wrong("close", code, 0);
    code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, file);
    if (code) MPI_Abort(MPI_COMM_WORLD, 4);
    start_anew();
}

static void open_alone(const char *path) {
    int code = MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &own);
    if (code) wrong("open alone", code, 0);
}

static void run_case(const char *directory) {
    char path[4096];
    snprintf(path, sizeof path, "%s/case-%llu", directory, (unsigned long long)seed);
    state = seed * 0x2545f4914f6cdd1du + (uint64_t)size;
    memset(model, 0, sizeof model);
    model_size = below(3) ? below(30000) : 0;
    for (long i = 0; i < model_size; i++) model[i] = (unsigned char)(draw() >> 8);
    if (rank == 0) {
        FILE *stream = fopen(path, "wb");
        if (!stream || fwrite(model, 1, (size_t)model_size, stream) != (size_t)model_size)
            MPI_Abort(MPI_COMM_WORLD, 3);
        fclose(stream);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Info info = hints();
    MPI_File file;
    step = 0;
    int code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | (below(2) ? MPI_MODE_CREATE : 0),
                             info, &file);
    MPI_Info_free(&info);
    if (code) {
        wrong("open", code, 0);
        return;
    }
    if (below(4) == 0 && !plain) MPI_File_set_atomicity(file, 1);
    start_anew();
    if (alone) open_alone(path);
    int steps = between(3, 12);
    for (step = 1; step <= steps; step++) {
        int kind = below(10);
        if (kind < 2 || (kind < 5 && views[rank].type.handle == MPI_BYTE && step > 2))
            step_view(file);
        else if (kind == 8 && alone && below(2)) {
            if (below(2)) step_again(&file, path);
            else if (MPI_File_sync(file)) wrong("sync", 1, 0);
        } else if (kind == 8) step_seek(file);
        else if (kind == 9) { if (below(2)) step_size(file); else step_seek_shared(file); }
        else step_transfer(file);
        compare_file(file, path);
    }
    free_views();
    if (alone && seed % 2) MPI_File_close(&own);
    code = MPI_File_close(&file);
    if (code) wrong("close", code, 0);
    if (alone && seed % 2 == 0) MPI_File_close(&own);
    MPI_Barrier(MPI_COMM_WORLD);
    if (alone && rank == 0) compare_on_disk(path);
    if (rank == 0) unlink(path);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    plain = argc == 5 && strcmp(argv[4], "plain") == 0;
    alone = argc == 5 && strcmp(argv[4], "alone") == 0;
    if (argc != 4 + plain + alone || size > MAX_RANKS) MPI_Abort(MPI_COMM_WORLD, 2);
    long first = atol(argv[2]), cases = atol(argv[3]);
    for (long i = 0; i < cases; i++) {
        seed = (uint64_t)(first + i);
        run_case(argv[1]);
    }
    int total;
    MPI_Allreduce(&mismatches, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%ld cases, %d mismatches\n", cases, total);
    MPI_Finalize();
    return total ? 1 : 0;
}
