/* Every read and write with buffers in device memory of a driver's library that is loaded after
 * MPI_Init. The second argument is the library; others are parts to leave out. */
#define _GNU_SOURCE
#include "check.h"
#include "gpu.h"
#include <dlfcn.h>
#include <unistd.h>

static struct {
    void *(*allocate)(size_t, enum gpu_kind);
    void (*free)(void *);
    void (*put)(void *, const void *, size_t);
    void (*get)(void *, const void *, size_t);
    void (*fail)(int);
    struct gpu_counts (*counts)(void);
    void (*close)(void);
    int (*copies_rows)(void);
    int (*state)(void);
} gpu;

enum { WAYS = 14, LARGE = MPI_VERSION >= 4 ? 2 : 1, SPAN = 1 << 16, FILL = 0xEE };

static MPI_File file;
static MPI_Status status;

static int count_of(MPI_Datatype type)
{
    int count = -1;
    MPI_Get_elements(&status, type, &count);
    return count;
}

/* The ways to write and read at this byte of the file, `place` for this rank and `region` for all.
 * Shared pointers: one rank after the other. */
#define IN_TURN(call)                                      \
    do {                                                   \
        for (int turn = 0; turn < check_size; turn++) {    \
            if (turn == check_rank)                        \
                OK(call);                                  \
            MPI_Barrier(MPI_COMM_WORLD);                   \
        }                                                  \
    } while (0)

#define ONE_WAY(verb, way, c, place, region, buffer, n, type)                                     \
    do {                                                                                          \
        MPI_Request request;                                                                      \
        switch (way) {                                                                            \
        case 0: OK(MPI_File_##verb##_at##c(file, place, buffer, n, type, &status)); break;        \
        case 1: OK(MPI_File_##verb##_at_all##c(file, place, buffer, n, type, &status)); break;    \
        case 2:                                                                                   \
            OK(MPI_File_i##verb##_at##c(file, place, buffer, n, type, &request));                 \
            OK(MPI_Wait(&request, &status));                                                      \
            break;                                                                                \
        case 3:                                                                                   \
            OK(MPI_File_i##verb##_at_all##c(file, place, buffer, n, type, &request));             \
            OK(MPI_Wait(&request, &status));                                                      \
            break;                                                                                \
        case 4: OK(MPI_File_##verb##c(file, buffer, n, type, &status)); break;                    \
        case 5: OK(MPI_File_##verb##_all##c(file, buffer, n, type, &status)); break;              \
        case 6:                                                                                   \
            OK(MPI_File_i##verb##c(file, buffer, n, type, &request));                             \
            OK(MPI_Wait(&request, &status));                                                      \
            break;                                                                                \
        case 7:                                                                                   \
            OK(MPI_File_i##verb##_all##c(file, buffer, n, type, &request));                       \
            OK(MPI_Wait(&request, &status));                                                      \
            break;                                                                                \
        case 8: IN_TURN(MPI_File_##verb##_shared##c(file, buffer, n, type, &status)); break;      \
        case 9:                                                                                   \
            for (int turn = 0; turn < check_size; turn++) {                                       \
                if (turn == check_rank) {                                                         \
                    OK(MPI_File_i##verb##_shared##c(file, buffer, n, type, &request));            \
                    OK(MPI_Wait(&request, &status));                                              \
                }                                                                                 \
                MPI_Barrier(MPI_COMM_WORLD);                                                      \
            }                                                                                     \
            break;                                                                                \
        case 10: OK(MPI_File_##verb##_ordered##c(file, buffer, n, type, &status)); break;         \
        case 11:                                                                                  \
            OK(MPI_File_##verb##_at_all_begin##c(file, place, buffer, n, type));                  \
            OK(MPI_File_##verb##_at_all_end(file, buffer, &status));                              \
            break;                                                                                \
        case 12:                                                                                  \
            OK(MPI_File_##verb##_all_begin##c(file, buffer, n, type));                            \
            OK(MPI_File_##verb##_all_end(file, buffer, &status));                                 \
            break;                                                                                \
        case 13:                                                                                  \
            OK(MPI_File_##verb##_ordered_begin##c(file, buffer, n, type));                        \
            OK(MPI_File_##verb##_ordered_end(file, buffer, &status));                             \
            break;                                                                                \
        }                                                                                         \
    } while (0)

static void any_way(int writes, int way, MPI_Offset place, MPI_Offset region, void *buffer, int n,
                    MPI_Datatype type)
{
    OK(MPI_File_seek(file, place, MPI_SEEK_SET));
    OK(MPI_File_seek_shared(file, region, MPI_SEEK_SET));
    if (way < WAYS) {
        if (writes)
            ONE_WAY(write, way, , place, region, buffer, n, type);
        else
            ONE_WAY(read, way, , place, region, buffer, n, type);
    }
#if MPI_VERSION >= 4
    else {
        if (writes)
            ONE_WAY(write, way - WAYS, _c, place, region, buffer, n, type);
        else
            ONE_WAY(read, way - WAYS, _c, place, region, buffer, n, type);
    }
#endif
}

/* A layout of memory within SPAN bytes; its data bytes fit `start` bytes behind the beginning. */
struct layout {
    const char *name;
    MPI_Datatype type;
    int count, start;
};

static int layouts(struct layout *list)
{
    int lengths[] = {3, 1, 900, 20, 7}, at[] = {100, 5000, 40000, 0, 20000};
    MPI_Datatype types[5], type;
    int n = 0;
    list[n++] = (struct layout){"contiguous", MPI_BYTE, 9001, 17};
    MPI_Type_vector(700, 7, 13, MPI_BYTE, &type);
    list[n++] = (struct layout){"vector", type, 1, 3};
    MPI_Type_vector(500, 12, 100, MPI_BYTE, &type);
    list[n++] = (struct layout){"columns", type, 1, 100};
    MPI_Type_indexed(5, lengths, at, MPI_BYTE, &type);
    list[n++] = (struct layout){"indexed", type, 1, 0};
    MPI_Type_vector(3, 2, -5, MPI_INT, &types[0]);
    MPI_Type_create_resized(types[0], -100, 120, &type);
    MPI_Type_free(&types[0]);
    list[n++] = (struct layout){"backwards", type, 50, 1000};
    MPI_Type_vector(1, 1, 1, MPI_BYTE, &types[0]);
    MPI_Aint places[] = {0, 8, 24};
    int some[] = {1, 1, 1};
    MPI_Datatype fields[] = {MPI_INT, MPI_DOUBLE, MPI_SHORT};
    MPI_Type_free(&types[0]);
    MPI_Type_create_struct(3, some, places, fields, &types[0]);
    MPI_Type_create_resized(types[0], 0, 32, &type);
    MPI_Type_free(&types[0]);
    list[n++] = (struct layout){"structure", type, 300, 8};
    for (int i = 0; i < n; i++)
        MPI_Type_commit(&list[i].type);
    return n;
}

/* Fills the data bytes of a layout at `image` with the file's bytes from `offset` on. */
static int fill(unsigned char *image, const struct layout *layout, MPI_Offset offset)
{
    static unsigned char packed[SPAN];
    int size, position = 0;
    MPI_Type_size(layout->type, &size);
    size *= layout->count;
    for (int i = 0; i < size; i++)
        packed[i] = pattern(offset + i);
    MPI_Unpack(packed, size, &position, image + layout->start, layout->count, layout->type,
               MPI_COMM_SELF);
    return size;
}

static void compare(const unsigned char *found, const unsigned char *expected, size_t size,
                    const char *what, int way)
{
    for (size_t i = 0; i < size; i++) {
        if (found[i] != expected[i]) {
            CHECK(0, "%s, way %d: byte %zu is %d, not %d", what, way, i, found[i], expected[i]);
            return;
        }
    }
}

static void open_as(const char *path, int mode)
{
    OK(MPI_File_open(MPI_COMM_WORLD, path, mode | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
}

/* The file has the pattern's bytes from here to there. */
static void expect_file(const char *path, long from, long to, const char *what)
{
    long length;
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank != 0)
        return;
    unsigned char *bytes = check_slurp(path, &length);
    CHECK(length >= to, "%s: the file has %ld bytes, not %ld", what, length, to);
    for (long i = from; i < to && i < length; i++) {
        if (bytes[i] != pattern(i)) {
            CHECK(0, "%s: byte %ld of the file is %d, not %d", what, i, bytes[i], pattern(i));
            break;
        }
    }
    free(bytes);
}

/* The driver copied these bytes and no others, equal rows at once if it can, and the thread is as
 * before. */
static void expect_copied(size_t bytes, const char *what, int way)
{
    struct gpu_counts counts = gpu.counts();
    CHECK(counts.bytes == bytes, "%s, way %d: %zu bytes were copied, not %zu", what, way,
          counts.bytes, bytes);
    CHECK(counts.copies <= 3 || !gpu.copies_rows() || strcmp(what, "columns") != 0,
          "%s, way %d: %zu copies", what, way, counts.copies);
    CHECK(gpu.state() == 0, "%s, way %d: the driver's state is %d", what, way, gpu.state());
}

/* Every way with every layout, or with the first ones. */
static void all_ways(const char *path, enum gpu_kind kind, int most)
{
    struct layout list[8];
    static unsigned char image[SPAN], found[SPAN];
    int n = layouts(list);
    unsigned char *device = gpu.allocate(SPAN, kind);
    size_t copied = 0;
    for (int l = 0; l < n && l < most; l++) {
        int ways = WAYS * LARGE;
        MPI_Offset at = 0;
        open_as(path, MPI_MODE_CREATE);
        for (int way = 0; way < ways; way++) {
            memset(image, FILL, SPAN);
            int size = fill(image, &list[l], 0);
            MPI_Offset place = at + (MPI_Offset)check_rank * size;
            fill(image, &list[l], place);
            gpu.put(device, image, SPAN);
            gpu.counts();
            copied = kind == GPU_DEVICE || kind == GPU_POOL ? size : 0;
            any_way(1, way, place, at, device + list[l].start, list[l].count, list[l].type);
            CHECK(count_of(MPI_BYTE) == size, "%s, way %d: %d bytes were written", list[l].name,
                  way, count_of(MPI_BYTE));
            expect_copied(copied, list[l].name, way);
            at += (MPI_Offset)check_size * size;
        }
        OK(MPI_File_sync(file));
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_File_sync(file));
        at = 0;
        for (int way = 0; way < ways; way++) {
            memset(image, FILL, SPAN);
            gpu.put(device, image, SPAN);
            int size = fill(image, &list[l], 0);
            MPI_Offset place = at + (MPI_Offset)check_rank * size;
            fill(image, &list[l], place);
            gpu.counts();
            any_way(0, way, place, at, device + list[l].start, list[l].count, list[l].type);
            CHECK(count_of(MPI_BYTE) == size, "%s, way %d: %d bytes were read", list[l].name, way,
                  count_of(MPI_BYTE));
            expect_copied(copied, list[l].name, way);
            gpu.get(found, device, SPAN);
            compare(found, image, SPAN, list[l].name, way);
            at += (MPI_Offset)check_size * size;
        }
        OK(MPI_File_close(&file));
        expect_file(path, 0, at, list[l].name);
    }
    for (int l = 1; l < n; l++)
        MPI_Type_free(&list[l].type);
    gpu.free(device);
}

/* Absolute addresses: blocks in two pieces of device memory and in the host's. */
static void absolute(const char *path)
{
    enum { LEN = 3000 };
    unsigned char *device[2] = {gpu.allocate(LEN, GPU_DEVICE), gpu.allocate(LEN, GPU_POOL)};
    static unsigned char host[LEN], bytes[LEN];
    int lengths[] = {1000, 700, 900};
    MPI_Aint places[3];
    MPI_Datatype type;
    MPI_Offset place = 2600 * (MPI_Offset)check_rank;
    for (int order = 0; order < 2; order++) {
        void *blocks[] = {order ? host : device[0], order ? device[0] : host, device[1]};
        for (int i = 0; i < 3; i++)
            MPI_Get_address(blocks[i], &places[i]);
        MPI_Type_create_hindexed(3, lengths, places, MPI_BYTE, &type);
        MPI_Type_commit(&type);
        for (int all = 0; all < 2; all++) {
            MPI_Offset offset = place;
            for (int i = 0; i < 3; i++) {
                for (int b = 0; b < lengths[i]; b++)
                    bytes[b] = pattern(offset++);
                if (blocks[i] == host)
                    memcpy(host, bytes, lengths[i]);
                else
                    gpu.put(blocks[i], bytes, lengths[i]);
            }
            open_as(path, MPI_MODE_CREATE);
            if (all)
                OK(MPI_File_write_at_all(file, place, MPI_BOTTOM, 1, type, &status));
            else
                OK(MPI_File_write_at(file, place, MPI_BOTTOM, 1, type, &status));
            CHECK(count_of(MPI_BYTE) == 2600, "%d bytes", count_of(MPI_BYTE));
            OK(MPI_File_close(&file));
            expect_file(path, 0, 2600 * check_size, "absolute");
            memset(bytes, FILL, LEN);
            memset(host, FILL, LEN);
            gpu.put(device[0], bytes, LEN);
            gpu.put(device[1], bytes, LEN);
            open_as(path, 0);
            if (all)
                OK(MPI_File_read_at_all(file, place, MPI_BOTTOM, 1, type, &status));
            else
                OK(MPI_File_read_at(file, place, MPI_BOTTOM, 1, type, &status));
            OK(MPI_File_close(&file));
            offset = place;
            for (int i = 0; i < 3; i++) {
                if (blocks[i] == host)
                    memcpy(bytes, host, LEN);
                else
                    gpu.get(bytes, blocks[i], LEN);
                for (int b = 0; b < LEN; b++) {
                    int expected = b < lengths[i] ? pattern(offset + b) : FILL;
                    if (bytes[b] != expected) {
                        CHECK(0, "block %d, byte %d is %d", i, b, bytes[b]);
                        break;
                    }
                }
                offset += lengths[i];
            }
        }
        MPI_Type_free(&type);
    }
    gpu.free(device[0]);
    gpu.free(device[1]);
}

/* Calls longer than the pinned buffer, in pieces if they are of one rank alone; the end of the
 * file. */
static void long_calls(const char *path)
{
    enum { LONG = 20 << 20, MORE = 1 << 20, PIECE = 16 << 20 };
    unsigned char *host = malloc(LONG + MORE), *device = gpu.allocate(LONG + MORE, GPU_DEVICE);
    MPI_Offset place = (MPI_Offset)check_rank * LONG, position;
    int integers = LONG / 4;
    struct gpu_counts counts;
    for (int i = 0; i < LONG; i++)
        host[i] = pattern(place + i);
    for (int all = 0; all < 2; all++) {
        gpu.put(device, host, LONG);
        open_as(path, MPI_MODE_CREATE);
        OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        OK(MPI_File_seek(file, place / 4, MPI_SEEK_SET));
        gpu.counts();
        if (all)
            OK(MPI_File_write_all(file, device, integers, MPI_INT, &status));
        else
            OK(MPI_File_write(file, device, integers, MPI_INT, &status));
        counts = gpu.counts();
        CHECK(counts.bytes == LONG, "%zu bytes", counts.bytes);
        CHECK(all || counts.longest <= PIECE, "a copy of %zu bytes", counts.longest);
        CHECK(count_of(MPI_INT) == integers, "%d integers", count_of(MPI_INT));
        OK(MPI_File_get_position(file, &position));
        CHECK(position == (place + LONG) / 4, "position %lld", (long long)position);
        OK(MPI_File_close(&file));
        expect_file(path, 0, (long)check_size * LONG, "long");
        open_as(path, 0);
        OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        unsigned char *image = malloc(LONG + MORE);
        memset(image, FILL, LONG + MORE);
        gpu.put(device, image, LONG + MORE);
        /* The last rank asks for more than there is. */
        OK(MPI_File_seek(file, place / 4, MPI_SEEK_SET));
        int asked = integers + (check_rank == check_size - 1 ? MORE / 4 : 0);
        if (all)
            OK(MPI_File_read_all(file, device, asked, MPI_INT, &status));
        else
            OK(MPI_File_read(file, device, asked, MPI_INT, &status));
        CHECK(count_of(MPI_INT) == integers, "%d integers", count_of(MPI_INT));
        OK(MPI_File_get_position(file, &position));
        CHECK(position == place / 4 + asked, "position %lld", (long long)position);
        OK(MPI_File_close(&file));
        gpu.get(image, device, LONG + MORE);
        CHECK(memcmp(image, host, LONG) == 0, "other bytes were read");
        int rest = 0;
        for (int i = LONG; i < LONG + MORE; i++)
            rest += image[i] != FILL;
        CHECK(rest == 0, "%d bytes behind the end were changed", rest);
        free(image);
    }
    gpu.free(device);
    free(host);
}

static int twice(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    (void)type, (void)state;
    *extent = 8;
    return MPI_SUCCESS;
}

static int to_file(void *memory, MPI_Datatype type, int count, void *in_file, MPI_Offset position,
                   void *state)
{
    (void)type, (void)state;
    for (int i = 0; i < count; i++)
        memcpy((char *)in_file + 8 * i, (int *)memory + 3 * (position + i), 4);
    return MPI_SUCCESS;
}

static int from_file(void *memory, MPI_Datatype type, int count, void *in_file, MPI_Offset position,
                     void *state)
{
    (void)type, (void)state;
    for (int i = 0; i < count; i++)
        memcpy((int *)memory + 3 * (position + i), (char *)in_file + 8 * i, 4);
    return MPI_SUCCESS;
}

/* Representations that are not those of memory; every third integer is data. */
static void representations(const char *path)
{
    enum { COUNT = 500 };
    static int image[3 * COUNT], found[3 * COUNT];
    const char *names[] = {"external32", "internal", "gpu twice"};
    MPI_Datatype type;
    int *device = gpu.allocate(sizeof image, GPU_DEVICE);
    MPI_Type_create_resized(MPI_INT, 0, 12, &type);
    MPI_Type_commit(&type);
    OK(MPI_Register_datarep("gpu twice", from_file, to_file, twice, NULL));
    for (int name = 0; name < 3; name++) {
        for (int i = 0; i < 3 * COUNT; i++)
            image[i] = 1000000 * check_rank + i;
        gpu.put(device, image, sizeof image);
        open_as(path, MPI_MODE_CREATE);
        OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, names[name], MPI_INFO_NULL));
        MPI_Offset place = COUNT * (MPI_Offset)check_rank;
        OK(MPI_File_write_at_all(file, place, device, COUNT, type, &status));
        CHECK(count_of(MPI_INT) == COUNT, "%s: %d integers", names[name], count_of(MPI_INT));
        OK(MPI_File_write_at(file, place, device, COUNT, type, &status));
        OK(MPI_File_sync(file));
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_File_sync(file));
        for (int i = 0; i < 3 * COUNT; i++)
            if (i % 3)
                image[i] = -1;
        for (int all = 0; all < 2; all++) {
            memset(found, 0xFF, sizeof found);
            gpu.put(device, found, sizeof found);
            if (all)
                OK(MPI_File_read_at_all(file, place, device, COUNT, type, &status));
            else
                OK(MPI_File_read_at(file, place, device, COUNT, type, &status));
            CHECK(count_of(MPI_INT) == COUNT, "%s: %d integers", names[name], count_of(MPI_INT));
            gpu.get(found, device, sizeof found);
            compare((unsigned char *)found, (unsigned char *)image, sizeof image, names[name], all);
        }
        OK(MPI_File_close(&file));
    }
    MPI_Type_free(&type);
    gpu.free(device);
}

/* The call fails on the ranks that are told, with the driver's call and code. */
static void expect_failure(int code, int fails, const char *what)
{
    if (!fails) {
        CHECK(code == MPI_SUCCESS, "%s gave %s", what, check_text(code));
        return;
    }
    CHECK(check_class(code) == MPI_ERR_IO, "%s gave class %d (%s)", what, check_class(code),
          check_text(code));
    const char *text = check_text(code);
    CHECK(strstr(text, " failed with 700"), "%s gave \"%s\"", what, text);
}

/* Copies that fail on the last rank. */
static void failures(const char *path)
{
    enum { LEN = 5000 };
    unsigned char *device = gpu.allocate(LEN, GPU_DEVICE);
    static unsigned char bytes[LEN];
    MPI_Offset place = LEN * (MPI_Offset)check_rank;
    MPI_Request request;
    int mine = check_rank == check_size - 1;
    int code;
    open_as(path, MPI_MODE_CREATE);
    for (int i = 0; i < LEN; i++)
        bytes[i] = pattern(place + i);
    gpu.put(device, bytes, LEN);
    OK(MPI_File_write_at_all(file, place, device, LEN, MPI_BYTE, &status));

    /* Of writes, also on the other ranks of a collective one. */
    if (mine)
        gpu.fail(0);
    expect_failure(MPI_File_write_at(file, place, device, LEN, MPI_BYTE, &status), mine,
                   "write_at");
    if (mine)
        gpu.fail(0);
    expect_failure(MPI_File_write_at_all(file, place, device, LEN, MPI_BYTE, &status), 1,
                   "write_at_all");
    if (mine)
        gpu.fail(0);
    code = MPI_File_iwrite_at(file, place, device, LEN, MPI_BYTE, &request);
    expect_failure(code != MPI_SUCCESS ? code : MPI_Wait(&request, &status), mine, "iwrite_at");
    if (mine)
        gpu.fail(0);
    OK(MPI_File_write_at_all_begin(file, place, device, LEN, MPI_BYTE));
    expect_failure(MPI_File_write_at_all_end(file, device, &status), 1, "write_at_all_end");

    /* Of reads, on that rank alone. */
    if (mine)
        gpu.fail(0);
    expect_failure(MPI_File_read_at(file, place, device, LEN, MPI_BYTE, &status), mine, "read_at");
    if (mine)
        gpu.fail(0);
    expect_failure(MPI_File_read_at_all(file, place, device, LEN, MPI_BYTE, &status), mine,
                   "read_at_all");
    if (mine)
        gpu.fail(0);
    OK(MPI_File_iread_at(file, place, device, LEN, MPI_BYTE, &request));
    expect_failure(MPI_Wait(&request, &status), mine, "iread_at");
    if (mine)
        gpu.fail(0);
    OK(MPI_File_read_at_all_begin(file, place, device, LEN, MPI_BYTE));
    expect_failure(MPI_File_read_at_all_end(file, device, &status), mine, "read_at_all_end");

    /* The file still works. */
    memset(bytes, FILL, LEN);
    gpu.put(device, bytes, LEN);
    OK(MPI_File_read_at_all(file, place, device, LEN, MPI_BYTE, &status));
    gpu.get(bytes, device, LEN);
    for (int i = 0; i < LEN; i++)
        if (bytes[i] != pattern(place + i)) {
            CHECK(0, "byte %d is %d", i, bytes[i]);
            break;
        }
    OK(MPI_File_close(&file));
    gpu.free(device);
}

/* Many operations at a time, which the pinned buffer does not hold; memory that is overwritten as
 * soon as the write has ended. */
static void outstanding(const char *path)
{
    enum { OPERATIONS = 20, LEN = 30000 };
    unsigned char *device[OPERATIONS];
    static unsigned char bytes[LEN];
    MPI_Request requests[OPERATIONS];
    MPI_Status statuses[OPERATIONS];
    MPI_Offset place = OPERATIONS * LEN * (MPI_Offset)check_rank;
    open_as(path, MPI_MODE_CREATE);
    for (int n = 0; n < OPERATIONS; n++) {
        device[n] = gpu.allocate(LEN, n % 2 ? GPU_DEVICE : GPU_POOL);
        for (int i = 0; i < LEN; i++)
            bytes[i] = pattern(place + n * LEN + i);
        gpu.put(device[n], bytes, LEN);
        OK(MPI_File_iwrite_at(file, place + n * LEN, device[n], LEN, MPI_BYTE, &requests[n]));
    }
    OK(MPI_Waitall(OPERATIONS, requests, statuses));
    memset(bytes, FILL, LEN);
    for (int n = 0; n < OPERATIONS; n++)
        gpu.put(device[n], bytes, LEN);
    for (int n = 0; n < OPERATIONS; n++)
        OK(MPI_File_iread_at(file, place + n * LEN, device[n], LEN, MPI_BYTE, &requests[n]));
    for (int n = OPERATIONS - 1; n >= 0; n--) {
        int flag = 0;
        while (!flag)
            OK(MPI_Test(&requests[n], &flag, &status));
        gpu.get(bytes, device[n], LEN);
        for (int i = 0; i < LEN; i++)
            if (bytes[i] != pattern(place + n * LEN + i)) {
                CHECK(0, "operation %d: byte %d is %d", n, i, bytes[i]);
                break;
            }
    }
    for (int n = 0; n < OPERATIONS; n++)
        gpu.free(device[n]);
    OK(MPI_File_close(&file));
    expect_file(path, 0, (long)check_size * OPERATIONS * LEN, "outstanding");
}

/* The device's memory may be overwritten or freed after a write, however long its bytes wait. */
static void short_lived(const char *path)
{
    enum { LEN = 2000, WRITES = 30 };
    static unsigned char bytes[LEN];
    open_as(path, MPI_MODE_CREATE);
    for (int n = 0; n < WRITES; n++) {
        unsigned char *device = gpu.allocate(LEN, GPU_DEVICE);
        MPI_Offset place = LEN * (MPI_Offset)(n * check_size + check_rank);
        for (int i = 0; i < LEN; i++)
            bytes[i] = pattern(place + i);
        gpu.put(device, bytes, LEN);
        if (n % 2)
            OK(MPI_File_write_at_all(file, place, device, LEN, MPI_BYTE, &status));
        else
            OK(MPI_File_write_at(file, place, device, LEN, MPI_BYTE, &status));
        gpu.free(device);
    }
    OK(MPI_File_close(&file));
    expect_file(path, 0, (long)check_size * LEN * WRITES, "short lives");
}

/* A write and a read of memory of the host, also before a driver is there. It is neither heap nor
 * stack, about which no driver is asked. */
static void without(const char *path)
{
    static int out, in;
    out = check_rank + 5, in = 0;
    open_as(path, MPI_MODE_CREATE);
    OK(MPI_File_write_at_all(file, 4 * check_rank, &out, 1, MPI_INT, &status));
    OK(MPI_File_read_at_all(file, 4 * check_rank, &in, 1, MPI_INT, &status));
    CHECK(in == out, "%d came back", in);
    CHECK(!gpu.state || gpu.state() == 0, "the driver's state is %d", gpu.state());
    OK(MPI_File_close(&file));
}

static void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    gpu.allocate = dlsym(library, "gpu_allocate");
    gpu.free = dlsym(library, "gpu_free");
    gpu.put = dlsym(library, "gpu_put");
    gpu.get = dlsym(library, "gpu_get");
    gpu.fail = dlsym(library, "gpu_fail");
    gpu.counts = dlsym(library, "gpu_counts");
    gpu.close = dlsym(library, "gpu_close");
    gpu.copies_rows = dlsym(library, "gpu_copies_rows");
    gpu.state = dlsym(library, "gpu_state");
}

/* When the driver has gone, memory of the host is as always, and other memory is an error. */
static void closed(const char *path)
{
    unsigned char *device = gpu.allocate(100, GPU_DEVICE), host[100] = {1};
    open_as(path, MPI_MODE_CREATE);
    gpu.close();
    OK(MPI_File_write_at_all(file, 100 * check_rank, host, 100, MPI_BYTE, &status));
    OK(MPI_File_read_at(file, 100 * check_rank, host, 100, MPI_BYTE, &status));
    FAILS(MPI_File_write_at(file, 0, device, 100, MPI_BYTE, &status), MPI_ERR_IO);
    FAILS(MPI_File_read_at(file, 0, device, 100, MPI_BYTE, &status), MPI_ERR_IO);
    void *mine = check_rank == 0 ? device : host;
    FAILS(MPI_File_write_at_all(file, 100 * check_rank, mine, 100, MPI_BYTE, &status), MPI_ERR_IO);
    OK(MPI_File_close(&file));
}

static int wanted(int argc, char **argv, const char *part)
{
    for (int i = 3; i < argc; i++)
        if (strcmp(argv[i], part) == 0)
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    without(argv[1]);
    load(argv[2]);
    without(argv[1]);
    all_ways(argv[1], GPU_DEVICE, 8);
    all_ways(argv[1], GPU_POOL, 2);
    all_ways(argv[1], GPU_MANAGED, 2);
    all_ways(argv[1], GPU_PINNED, 1);
    absolute(argv[1]);
    representations(argv[1]);
    outstanding(argv[1]);
    short_lived(argv[1]);
    if (wanted(argc, argv, "failures"))
        failures(argv[1]);
    if (wanted(argc, argv, "long"))
        long_calls(argv[1]);
    closed(argv[1]);
    return check_finish();
}
