/* A chunked dataset through parallel HDF5: writes it in one of HDF5's modes, reads it back, and
 * compares. The file is a function of the arguments, but for the number of ranks.
 *
 * hdf5_chunks FILE [NAME=VALUE ...]
 *   mode    independent, collective (linked chunks), multi (chunk by chunk), multi0 (the same, and
 *           each chunk collectively)
 *   layout  rows, columns or blocks of the dataset that each rank has
 *   side    rows and columns of the dataset; chunk: of a chunk; cell: of the part that one call
 *           writes if the mode is independent (0: all)
 *   steps   the dataset grows by `side` rows in each step
 *   shuffle 1 for this filter, deflate 0 to 9, szip 1; fill: early (the default of parallel HDF5),
 *           never, or a number
 *   times   so often everything is written, with other values but for the last time, so that chunks
 *           with filters have other sizes and places
 *   idle    ranks at the end that have no data; metadata: collective if 1
 *   write   0 for none, of a file that is there; read: 0 for none, `whole` if each rank reads
 *           everything, else its part
 *
 * Prints `write S read S bytes N`: seconds between barriers, creation and close included, and bytes
 * of the data.
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef hsize_t pair[2];

static int rank, ranks;

static void fail(const char *what) {
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define OK(call) ok((call) >= 0, #call)
static void ok(int fine, const char *what) {
    if (!fine) fail(what);
}

/* Options */

static int argument_count;
static char **arguments;

static const char *text(const char *name, const char *otherwise) {
    size_t length = strlen(name);
    for (int i = 2; i < argument_count; i++)
        if (!strncmp(arguments[i], name, length) && arguments[i][length] == '=')
            return arguments[i] + length + 1;
    return otherwise;
}

static long number(const char *name, long otherwise) {
    const char *found = text(name, NULL);
    return found ? atol(found) : otherwise;
}

/* The part of this rank in a step: `start` and `count`, both zero for none. */
static void part(int writes, pair start, pair count) {
    hsize_t side = number("side", 2048);
    int working = ranks - (int)number("idle", 0);
    const char *layout = text("layout", "rows");
    memset(start, 0, sizeof(pair));
    memset(count, 0, sizeof(pair));
    if (rank >= working) return;
    if (!writes && !strcmp(text("read", ""), "whole")) {
        count[0] = count[1] = side;
        return;
    }
    int down = working, across = 1;
    if (!strcmp(layout, "columns")) down = 1, across = working;
    if (!strcmp(layout, "blocks"))
        for (down = 1, across = working; across % 2 == 0 && down * 2 <= across;)
            down *= 2, across /= 2;
    int row = rank / across, column = rank % across;
    start[0] = side * row / down, start[1] = side * column / across;
    count[0] = side * (row + 1) / down - start[0];
    count[1] = side * (column + 1) / across - start[1];
}

/* Two bytes that filters make smaller, and two that they do not. */
static int value(hsize_t row, hsize_t column) {
    unsigned noise = (unsigned)(row * 2654435761u + column * 40503u) * 2246822519u;
    return (int)((row * 3 + column) << 16 | (noise >> 11 & 0xffff));
}

static hid_t transfer_properties(void) {
    const char *mode = text("mode", "collective");
    hid_t properties = H5Pcreate(H5P_DATASET_XFER);
    if (strcmp(mode, "independent"))
        OK(H5Pset_dxpl_mpio(properties, H5FD_MPIO_COLLECTIVE));
    if (!strncmp(mode, "multi", 5))
        OK(H5Pset_dxpl_mpio_chunk_opt(properties, H5FD_MPIO_CHUNK_MULTI_IO));
    if (!strcmp(mode, "multi0"))
        OK(H5Pset_dxpl_mpio_chunk_opt_ratio(properties, 0));
    return properties;
}

static hid_t make(hid_t file) {
    hsize_t side = number("side", 2048);
    pair chunk = {number("chunk", 256), number("chunk", 256)};
    pair first = {side, side}, most = {number("steps", 1) > 1 ? H5S_UNLIMITED : side, side};
    const char *fill = text("fill", "early");
    hid_t space = H5Screate_simple(2, first, most), properties = H5Pcreate(H5P_DATASET_CREATE);
    OK(H5Pset_chunk(properties, 2, chunk));
    if (number("shuffle", 0)) OK(H5Pset_shuffle(properties));
    if (number("szip", 0)) OK(H5Pset_szip(properties, H5_SZIP_NN_OPTION_MASK, 16));
    if (number("deflate", 0)) OK(H5Pset_deflate(properties, number("deflate", 0)));
    if (!strcmp(fill, "never")) {
        OK(H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER));
    } else if (strcmp(fill, "early")) {
        int with = atoi(fill);
        OK(H5Pset_fill_value(properties, H5T_NATIVE_INT, &with));
    }
    hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    OK(set);
    H5Pclose(properties);
    H5Sclose(space);
    return set;
}

/* Moves the part of a step, `cell` rows at a time; writes values that differ by `salt`. */
static void move(hid_t set, int step, int writes, int salt, hid_t properties) {
    hsize_t side = number("side", 2048), cell = number("cell", 0);
    pair start, count;
    part(writes, start, count);
    int *data = malloc((count[0] * count[1] + 1) * sizeof *data);
    for (hsize_t i = 0; i < count[0]; i++)
        for (hsize_t j = 0; j < count[1]; j++)
            data[i * count[1] + j] =
                writes ? value(step * side + start[0] + i, start[1] + j) ^ salt * (int)(i * j) : -1;
    hid_t space = H5Dget_space(set);
    hsize_t rows = cell && count[0] ? cell : count[0];
    for (hsize_t done = 0; done == 0 || done < count[0]; done += rows ? rows : 1) {
        pair at = {step * side + start[0] + done, start[1]};
        pair now = {rows < count[0] - done ? rows : count[0] - done, count[1]};
        hid_t memory = H5Screate_simple(2, now, NULL);
        if (now[0] * now[1] == 0) {
            OK(H5Sselect_none(space));
            OK(H5Sselect_none(memory));
        } else {
            OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, now, NULL));
        }
        int *from = data + done * count[1];
        if (writes) OK(H5Dwrite(set, H5T_NATIVE_INT, memory, space, properties, from));
        else OK(H5Dread(set, H5T_NATIVE_INT, memory, space, properties, from));
        H5Sclose(memory);
    }
    for (hsize_t i = 0; i < count[0]; i++)
        for (hsize_t j = 0; j < count[1]; j++)
            if (!salt && data[i * count[1] + j] != value(step * side + start[0] + i, start[1] + j))
                fail("wrong data");
    H5Sclose(space);
    free(data);
}

static hid_t access_properties(void) {
    hid_t properties = H5Pcreate(H5P_FILE_ACCESS);
    OK(H5Pset_fapl_mpio(properties, MPI_COMM_WORLD, MPI_INFO_NULL));
    if (number("metadata", 0)) {
        OK(H5Pset_all_coll_metadata_ops(properties, 1));
        OK(H5Pset_coll_metadata_write(properties, 1));
    }
    return properties;
}

static double seconds(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

static void write_all(hid_t access, hid_t transfer) {
    hid_t file = H5Fcreate(arguments[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
    OK(file);
    hid_t set = make(file);
    for (int step = 0; step < number("steps", 1); step++) {
        pair now = {(hsize_t)number("side", 2048) * (step + 1), number("side", 2048)};
        if (step) OK(H5Dset_extent(set, now));
        for (int again = number("times", 1) - 1; again >= 0; again--)
            move(set, step, 1, again, transfer);
    }
    OK(H5Dclose(set));
    OK(H5Fclose(file));
}

static void read_all(hid_t access, hid_t transfer) {
    hid_t file = H5Fopen(arguments[1], H5F_ACC_RDONLY, access);
    OK(file);
    hid_t set = H5Dopen2(file, "x", H5P_DEFAULT);
    OK(set);
    for (int step = 0; step < number("steps", 1); step++) move(set, step, 0, 0, transfer);
    OK(H5Dclose(set));
    OK(H5Fclose(file));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    argument_count = argc, arguments = argv;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 2) fail("usage: hdf5_chunks FILE [NAME=VALUE ...]");
    hid_t access = access_properties(), transfer = transfer_properties();
    double begin = seconds();
    if (number("write", 1)) write_all(access, transfer);
    double wrote = seconds() - begin;
    begin = seconds();
    if (strcmp(text("read", ""), "0")) read_all(access, transfer);
    double read = seconds() - begin;
    double side = (double)number("side", 2048);
    double bytes = side * side * (double)number("steps", 1) * sizeof(int);
    if (rank == 0) printf("write %.6f read %.6f bytes %.0f\n", wrote, read, bytes);
    H5Pclose(access);
    H5Pclose(transfer);
    MPI_Finalize();
    return 0;
}
