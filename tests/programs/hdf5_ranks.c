/* Random programs with parallel HDF5: each seed makes a file of a few datasets, which ranks write
 * by parts, extend, shrink, read, flush and open again.
 *
 * hdf5_ranks DIRECTORY FIRST COUNT
 *
 * writes DIRECTORY/SEED.h5 for COUNT seeds. All ranks draw the same numbers, so that each knows
 * what every dataset holds and compares whatever it reads; no two ranks write the same element in
 * one step. The file is a function of the seed and the number of ranks. All datasets are chunked
 * and without filters: HDF5 1.10.8 by itself loses data of filtered chunks where ranks write parts
 * of them in several calls, and fill values of contiguous datasets. With some seeds it loses fill
 * values of chunks, too: what is not as it should be is printed, a line `wrong: seed SEED, ...`.
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SETS 3
#define MOST_SIDE 24
#define MOST_ELEMENTS (40 * 40 * 40)

static int rank, ranks, seed, step;

static void fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fprintf(stderr, "seed %d, step %d, rank %d: ", seed, step, rank);
    vfprintf(stderr, format, list);
    fprintf(stderr, "\n");
    va_end(list);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) < 0) fail("%s", #call);                                                         \
    } while (0)

/* Random numbers, the same on all ranks. */

static unsigned long long state;

static unsigned long long mixed(unsigned long long x) {
    x ^= x >> 33, x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ x >> 33;
}

/* From 0 to below `below`. */
static int draw(int below) {
    state += 0x9e3779b97f4a7c15ULL;
    return (int)(mixed(state) % (unsigned)below);
}

static int chance(int percent) { return draw(100) < percent; }

/* A dataset, and what it holds: `values` in an array of the largest lengths it may get. */
struct set {
    hid_t id, type;
    char name[8];
    int rank, fill;
    hsize_t length[3], most[3], chunk[3];
    int *values;
};

static struct set sets[MOST_SETS];
static int set_count;
static hid_t file, access_list;
static char path[4096];

static size_t place(const struct set *s, const hsize_t *at) {
    size_t place = 0;
    for (int i = 0; i < s->rank; i++) place = place * 40 + at[i];
    return place;
}

static size_t elements(const struct set *s) {
    size_t all = 1;
    for (int i = 0; i < s->rank; i++) all *= s->length[i];
    return all;
}

/* The place of element `number` of the present extent. */
static void locate(const struct set *s, size_t number, hsize_t *at) {
    for (int i = s->rank - 1; i >= 0; i--) at[i] = number % s->length[i], number /= s->length[i];
}

static void forget_outside(struct set *s) {
    for (size_t p = 0; p < MOST_ELEMENTS; p++) {
        size_t rest = p;
        for (int i = s->rank - 1; i >= 0; i--, rest /= 40)
            if (rest % 40 >= s->length[i] || (i == 0 && rest >= 40)) {
                s->values[p] = s->fill;
                break;
            }
    }
}

static void make_set(int number) {
    static const int chunks_of[] = {1, 2, 3, 5, 8, 24};
    struct set *s = &sets[number];
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    memset(s, 0, sizeof *s);
    sprintf(s->name, "d%d", number);
    s->rank = 1 + draw(3);
    s->values = malloc(MOST_ELEMENTS * sizeof *s->values);
    for (int i = 0; i < s->rank; i++) {
        s->length[i] = 1 + draw(MOST_SIDE);
        s->most[i] = s->length[i];
        if (chance(30)) s->most[i] = chance(50) ? H5S_UNLIMITED : 40;
        s->chunk[i] = chunks_of[draw(6)];
        if (s->chunk[i] > s->most[i]) s->chunk[i] = s->most[i];
    }
    OK(H5Pset_chunk(properties, s->rank, s->chunk));
    s->fill = draw(3) ? draw(100) - 50 : 0;
    OK(H5Pset_fill_value(properties, H5T_NATIVE_INT, &s->fill));
    if (chance(30)) OK(H5Pset_fill_time(properties, H5D_FILL_TIME_ALLOC));
    hid_t types[] = {H5T_NATIVE_INT, H5T_STD_I16BE, H5T_IEEE_F64LE, H5T_NATIVE_INT};
    s->type = types[draw(4)];
    hid_t space = H5Screate_simple(s->rank, s->length, s->most);
    s->id = H5Dcreate2(file, s->name, s->type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    OK(s->id);
    for (size_t p = 0; p < MOST_ELEMENTS; p++) s->values[p] = s->fill;
    H5Sclose(space);
    H5Pclose(properties);
}

/* Who has which elements in this step. */
struct deal {
    enum { SLABS, TURNS, POINTS, CELLS, ALONE, KINDS } kind;
    int dimension, salt, active;
};

static int owner(const struct set *s, const struct deal *d, const hsize_t *at) {
    hsize_t x = at[d->dimension];
    switch (d->kind) {
    case SLABS: return (int)(x * d->active / s->length[d->dimension]);
    case TURNS: return (int)(x % d->active);
    case POINTS: return (int)(mixed(place(s, at) + d->salt) % (2 * d->active));
    case CELLS: {
        unsigned long long cell = d->salt;
        for (int i = 0; i < s->rank; i++) cell = cell * 31 + at[i] / 4;
        return (int)(mixed(cell) % d->active);
    }
    default: return d->salt % ranks;
    }
}

/* Selects in `space` what rank `who` has; how many elements. */
static size_t choose(hid_t space, const struct set *s, const struct deal *d, int who) {
    static hsize_t points[3 * MOST_ELEMENTS];
    hsize_t at[3], one[3] = {1, 1, 1};
    size_t count = 0, all = elements(s);
    OK(H5Sselect_none(space));
    for (size_t n = 0; n < all; n++) {
        locate(s, n, at);
        if (owner(s, d, at) != who) continue;
        memcpy(points + count++ * s->rank, at, s->rank * sizeof *at);
    }
    if (count == 0) return 0;
    if (d->kind == POINTS) {
        OK(H5Sselect_elements(space, H5S_SELECT_SET, count, points));
        return count;
    }
    if (d->kind == CELLS) {
        /* A block for each cell of 4 by 4 by 4. */
        hsize_t block[3], cell[3];
        size_t cells = 1, sides[3];
        for (int i = 0; i < s->rank; i++) cells *= sides[i] = (s->length[i] + 3) / 4;
        for (size_t n = 0; n < cells; n++) {
            size_t rest = n;
            for (int i = s->rank - 1; i >= 0; i--, rest /= sides[i + 1]) {
                cell[i] = rest % sides[i] * 4;
                block[i] = s->length[i] - cell[i] < 4 ? s->length[i] - cell[i] : 4;
                if (i == 0) break;
            }
            if (owner(s, d, cell) == who)
                OK(H5Sselect_hyperslab(space, H5S_SELECT_OR, cell, NULL, one, block));
        }
        return count;
    }
    hsize_t start[3] = {0, 0, 0}, stride[3] = {1, 1, 1}, many[3];
    memcpy(many, s->length, sizeof many);
    if (d->kind != ALONE) {
        start[d->dimension] = points[d->dimension];
        many[d->dimension] = count / (all / s->length[d->dimension]);
        if (d->kind == TURNS) stride[d->dimension] = d->active;
    }
    OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, many, NULL));
    return count;
}

static struct deal some_deal(const struct set *s) {
    struct deal d = {draw(KINDS), draw(s->rank), draw(1 << 20), 1 + draw(ranks)};
    if (chance(60)) d.active = ranks;
    return d;
}

static hid_t some_transfer(const struct deal *d) {
    hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
    /* Collectively, HDF5 1.10.8 puts points of several chunks into wrong places. */
    if (d->kind != POINTS && chance(65)) {
        OK(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE));
        switch (draw(6)) {
        case 0: OK(H5Pset_dxpl_mpio_chunk_opt(transfer, H5FD_MPIO_CHUNK_ONE_IO)); break;
        case 1: OK(H5Pset_dxpl_mpio_chunk_opt(transfer, H5FD_MPIO_CHUNK_MULTI_IO)); break;
        case 2: OK(H5Pset_dxpl_mpio_chunk_opt_num(transfer, draw(12))); break;
        case 3:
            OK(H5Pset_dxpl_mpio_chunk_opt(transfer, H5FD_MPIO_CHUNK_MULTI_IO));
            OK(H5Pset_dxpl_mpio_chunk_opt_ratio(transfer, draw(3) * 50));
            break;
        default: break;
        }
    }
    return transfer;
}

/* Moves one deal: memory is an array of the dataset's shape, or packed. */
static void move(struct set *s, int writes) {
    struct deal d = some_deal(s);
    hid_t space = H5Dget_space(s->id), transfer = some_transfer(&d);
    int shift = writes ? 0 : draw(ranks), who = (rank + shift) % ranks;
    int packed = d.kind == POINTS || chance(50);
    size_t count = choose(space, s, &d, who), all = elements(s), n = 0;
    int *data = malloc((all + 1) * sizeof *data);
    hsize_t at[3], length = count;
    hid_t memory;
    if (packed && count) memory = H5Screate_simple(1, &length, NULL);
    else memory = H5Scopy(space);
    for (size_t i = 0; i < all; i++) {
        locate(s, i, at);
        int mine = owner(s, &d, at) == who, value = (int)(mixed(i + 977 * step + seed) % 30000);
        if (writes && owner(s, &d, at) < ranks) s->values[place(s, at)] = value;
        if (mine || !packed) data[packed ? n++ : i] = writes ? value : -1;
    }
    if (writes) OK(H5Dwrite(s->id, H5T_NATIVE_INT, memory, space, transfer, data));
    else OK(H5Dread(s->id, H5T_NATIVE_INT, memory, space, transfer, data));
    for (size_t i = 0, n = 0; !writes && i < all; i++) {
        locate(s, i, at);
        if (owner(s, &d, at) != who) continue;
        int found = data[packed ? n++ : i], wanted = s->values[place(s, at)];
        if (found != wanted) {
            printf("wrong: seed %d, step %d, %s[%zu] is %d\n", seed, step, s->name, i, found);
            break;
        }
    }
    free(data);
    H5Sclose(memory);
    H5Sclose(space);
    H5Pclose(transfer);
}

static void resize(struct set *s) {
    int may_change = 0;
    for (int i = 0; i < s->rank; i++) {
        if (s->most[i] == s->length[i] && chance(80)) continue;
        hsize_t most = s->most[i] == H5S_UNLIMITED ? 40 : s->most[i];
        hsize_t length = 1 + draw((int)most);
        /* HDF5 1.10.8 loses data if ranks cut a chunk. */
        if (length < s->length[i]) length -= length % s->chunk[i];
        if (length > 0) s->length[i] = length;
        may_change = 1;
    }
    if (!may_change) return;
    OK(H5Dset_extent(s->id, s->length));
    forget_outside(s);
}

static void attribute(struct set *s) {
    char name[32];
    hsize_t length = 1 + draw(30);
    sprintf(name, "step %d", step);
    hid_t space = H5Screate_simple(1, &length, NULL);
    hid_t id = H5Acreate2(s->id, name, H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT);
    OK(id);
    int values[30];
    for (int i = 0; i < 30; i++) values[i] = i * seed;
    OK(H5Awrite(id, H5T_NATIVE_INT, values));
    H5Aclose(id);
    H5Sclose(space);
}

static void open_again(int writable) {
    for (int i = 0; i < set_count; i++) OK(H5Dclose(sets[i].id));
    OK(H5Fclose(file));
    file = H5Fopen(path, writable ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access_list);
    OK(file);
    for (int i = 0; i < set_count; i++) OK(sets[i].id = H5Dopen2(file, sets[i].name, H5P_DEFAULT));
}

static void some_step(void) {
    struct set *s = &sets[draw(set_count)];
    /* A step begins when the step before has ended everywhere. */
    MPI_Barrier(MPI_COMM_WORLD);
    switch (draw(12)) {
    case 0: resize(s); break;
    case 1: attribute(s); break;
    case 2: OK(H5Fflush(file, H5F_SCOPE_GLOBAL)); break;
    case 3: if (chance(40)) open_again(1); break;
    case 4:
    case 5:
    case 6: move(s, 0); break;
    case 7:
        if (set_count < MOST_SETS) make_set(set_count++);
        break;
    default: move(s, 1);
    }
}

static void run(const char *directory) {
    state = (unsigned long long)seed * 1000003;
    step = 0;
    snprintf(path, sizeof path, "%s/%d.h5", directory, seed);
    access_list = H5Pcreate(H5P_FILE_ACCESS);
    OK(H5Pset_fapl_mpio(access_list, MPI_COMM_WORLD, MPI_INFO_NULL));
    if (chance(50)) OK(H5Pset_libver_bounds(access_list, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
    if (chance(30)) OK(H5Pset_coll_metadata_write(access_list, 1));
    hid_t creation = H5Pcreate(H5P_FILE_CREATE);
    if (chance(20)) OK(H5Pset_userblock(creation, 512 << draw(3)));
    else if (chance(40)) OK(H5Pset_alignment(access_list, 100, 1 << draw(13)));
    file = H5Fcreate(path, H5F_ACC_TRUNC, creation, access_list);
    OK(file);
    set_count = 1 + draw(2);
    for (int i = 0; i < set_count; i++) make_set(i);
    int steps = 3 + draw(14);
    for (step = 1; step <= steps; step++) some_step();
    MPI_Barrier(MPI_COMM_WORLD);
    if (chance(50)) {
        open_again(0);
        for (int i = 0; i < set_count; i++) move(&sets[i], 0);
    }
    for (int i = 0; i < set_count; i++) {
        OK(H5Dclose(sets[i].id));
        free(sets[i].values);
    }
    OK(H5Fclose(file));
    H5Pclose(creation);
    H5Pclose(access_list);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 4) fail("usage: hdf5_ranks DIRECTORY FIRST COUNT");
    int first = atoi(argv[2]), count = atoi(argv[3]);
    for (seed = first; seed < first + count; seed++) run(argv[1]);
    MPI_Finalize();
    return 0;
}
