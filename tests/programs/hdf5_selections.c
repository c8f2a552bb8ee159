/* Random parallel programs that write chunked datasets: many shapes, selections and modes.
 *
 * hdf5_selections FILE SEED
 *
 * The file is a function of the seed and of the number of ranks. Each rank reads back what it
 * wrote, in another mode, and compares.
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 3 };

static int rank, ranks;

static void ok(int fine, const char *what) {
    if (fine) return;
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define OK(call) ok((call) >= 0, #call)

/* What all ranks draw alike, and what each draws for itself. */
static uint64_t common, own;

static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

static unsigned pick(unsigned limit) { return next(&common) % limit; }
static unsigned own_pick(unsigned limit) { return next(&own) % limit; }

struct shape {
    int dims;
    hsize_t now[MOST], most[MOST], chunk[MOST];
};

static struct shape some_shape(void) {
    static const unsigned lengths[] = {0, 400000, 700, 80};
    struct shape s = {.dims = 1 + (int)pick(MOST)};
    int grows = pick(3) == 0, small = pick(2);
    for (int d = 0; d < s.dims; d++) {
        unsigned length = lengths[s.dims] / (small ? 4 : 1);
        s.now[d] = length / 2 + pick(length / 2);
        s.most[d] = grows && d == 0 ? H5S_UNLIMITED : s.now[d];
        s.chunk[d] = 1 + length / 12 + pick(length / 3);
        if (s.chunk[d] > s.now[d]) s.chunk[d] = s.now[d];
    }
    return s;
}

/* A transfer: independent, linked chunks, chunk by chunk, or as HDF5 chooses by its properties. */
static hid_t some_transfer(void) {
    hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
    unsigned mode = pick(8);
    if (mode > 0) OK(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE));
    if (mode == 1 || mode == 2)
        OK(H5Pset_dxpl_mpio_chunk_opt(transfer, H5FD_MPIO_CHUNK_MULTI_IO));
    if (mode == 3) OK(H5Pset_dxpl_mpio_chunk_opt(transfer, H5FD_MPIO_CHUNK_ONE_IO));
    if (mode == 4) OK(H5Pset_dxpl_mpio_chunk_opt_num(transfer, 1 + pick(30)));
    if (mode == 2 || mode == 4)
        OK(H5Pset_dxpl_mpio_chunk_opt_ratio(transfer, (unsigned[]){0, 30, 60, 100}[pick(4)]));
    return transfer;
}

/* The rows from `start` to `end` of dimension `along` belong to this rank, in unequal shares, some
 * of them empty. */
static void cut(hsize_t length, hsize_t *start, hsize_t *end) {
    hsize_t at = 0;
    unsigned equal = pick(2), idle = pick(4) == 0 ? pick(ranks) : ranks;
    for (int other = 0; other < ranks; other++) {
        hsize_t part = equal ? length * (other + 1) / ranks - length * other / ranks
                             : pick(2 * length / ranks + 1);
        if ((unsigned)other == idle) part = 0;
        if (part > length - at) part = length - at;
        if (other == rank) *start = at, *end = at + part;
        at += part;
    }
}

/* Selects this rank's part of `space`, which no other rank's part overlaps. */
static void select_some(hid_t space, const struct shape *s) {
    hsize_t start[MOST] = {0}, count[MOST], stride[MOST] = {1, 1, 1}, end = 0;
    memcpy(count, s->now, sizeof count);
    int along = pick(s->dims);
    unsigned kind = pick(4);
    OK(H5Sselect_none(space));
    if (kind == 0) {
        /* Rows in turn. */
        start[along] = rank, stride[along] = ranks;
        if (start[along] >= s->now[along]) return;
        count[along] = (s->now[along] - rank + ranks - 1) / ranks;
        OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL));
        return;
    }
    cut(s->now[along], &start[along], &end);
    count[along] = end - start[along];
    if (count[along] == 0) return;
    if (kind < 3) {
        OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
        return;
    }
    /* Boxes in this rank's share, which may overlap each other. */
    for (unsigned box = 1 + own_pick(4); box--;) {
        hsize_t at[MOST], size[MOST];
        for (int d = 0; d < s->dims; d++) {
            at[d] = start[d] + own_pick(count[d]);
            size[d] = 1 + own_pick(start[d] + count[d] - at[d]);
        }
        OK(H5Sselect_hyperslab(space, H5S_SELECT_OR, at, NULL, size, NULL));
    }
}

static void move(hid_t set, const struct shape *s, int step) {
    hid_t space = H5Dget_space(set), transfer = some_transfer(), other = some_transfer();
    select_some(space, s);
    hsize_t count = H5Sget_select_npoints(space), room = 2 * count + 1;
    /* Memory with or without gaps. */
    unsigned gaps = pick(2);
    hid_t memory = H5Screate_simple(1, &room, NULL);
    hsize_t zero = 0, stride = gaps ? 2 : 1;
    if (count) OK(H5Sselect_hyperslab(memory, H5S_SELECT_SET, &zero, &stride, &count, NULL));
    else OK(H5Sselect_none(memory));
    int *data = malloc(room * sizeof *data), *back = malloc(room * sizeof *data);
    for (hsize_t i = 0; i < room; i++) data[i] = (int)(i * 31 + rank * 1000003 + step * 77 + 1);
    memset(back, 0x55, room * sizeof *back);
    OK(H5Dwrite(set, H5T_NATIVE_INT, memory, space, transfer, data));
    MPI_Barrier(MPI_COMM_WORLD);
    if (pick(2)) {
        OK(H5Dread(set, H5T_NATIVE_INT, memory, space, other, back));
        for (hsize_t i = 0; i < count; i++)
            ok(back[i * stride] == data[i * stride], "other data than was written");
        for (hsize_t i = count * stride; i < room; i++) ok(back[i] == 0x55555555, "too much data");
    }
    /* What others write in the next step must not be there before. */
    MPI_Barrier(MPI_COMM_WORLD);
    free(data), free(back);
    H5Sclose(memory), H5Sclose(space), H5Pclose(transfer), H5Pclose(other);
}

static void one_dataset(hid_t file, int number) {
    struct shape s = some_shape();
    hid_t space = H5Screate_simple(s.dims, s.now, s.most);
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    OK(H5Pset_chunk(properties, s.dims, s.chunk));
    int with = pick(1000);
    if (pick(3) == 0) OK(H5Pset_fill_value(properties, H5T_NATIVE_INT, &with));
    char name[16];
    snprintf(name, sizeof name, "d%d", number);
    hid_t set =
        H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    OK(set);
    for (int steps = 1 + pick(3), step = 0; step < steps; step++) {
        if (step && s.most[0] == H5S_UNLIMITED) {
            s.now[0] += pick(s.now[0]);
            OK(H5Dset_extent(set, s.now));
        }
        move(set, &s, step);
        if (pick(4) == 0) OK(H5Fflush(file, H5F_SCOPE_GLOBAL));
    }
    OK(H5Dclose(set));
    H5Pclose(properties), H5Sclose(space);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    ok(argc == 3, "usage: hdf5_selections FILE SEED");
    common = strtoull(argv[2], NULL, 10) * 0x2545F4914F6CDD1D + 1;
    own = common ^ (uint64_t)(rank + 1) << 32;
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    OK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    if (pick(3) == 0) OK(H5Pset_alignment(access, 1, 4096));
    if (pick(2)) OK(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
    OK(file);
    for (int datasets = 1 + pick(2), number = 0; number < datasets; number++)
        one_dataset(file, number);
    OK(H5Fclose(file));
    H5Pclose(access);
    MPI_Finalize();
    return 0;
}
