/* Writes or reads generations of a two-dimensional array by MPI-IO, and checks every value.
 *
 *   coupled_mpi write|read blocks|rows|columns FILE GENERATIONS ROWS COLUMNS [touch]
 *
 * The writer opens each generation as HDF5 does: created without truncation, then cut to no bytes.
 * The reader prints one line for each, and at the end the rate of all but the first two: with
 * `touch` it reads one value of each 4 KiB. With LOUD in its environment, the writer prints a line
 * when it has opened a generation. With FEWER, the last rank of the writer dies before it writes
 * its part; with FEWER=unseen its parent, a process of the launcher, is stopped before.
 * If a file cannot be opened or closed, every rank prints the class of the error. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks, size[2], part[2], start[2];

static void check(int error, const char *what) {
    if (error == MPI_SUCCESS) return;
    int class = 0, length = 0;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_class(error, &class);
    MPI_Error_string(error, text, &length);
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    printf("rank %d: %s: %s\n", rank, what, class == MPI_ERR_IO ? "MPI_ERR_IO" : "another error");
    fflush(stdout);
    /* The call may have succeeded in other ranks. */
    if (strcmp(what, "get_size") == 0) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Finalize();
    exit(3);
}

static void die(const char *how) {
    if (strcmp(how, "unseen") == 0) kill(getppid(), SIGSTOP);
    raise(SIGKILL);
}

static void decompose(const char *how) {
    int dims[2] = {0, 0};
    if (strcmp(how, "rows") == 0) dims[1] = 1;
    if (strcmp(how, "columns") == 0) dims[0] = 1;
    MPI_Dims_create(ranks, 2, dims);
    int at[2] = {rank / dims[1], rank % dims[1]};
    for (int d = 0; d < 2; d++) {
        start[d] = (int)((long)size[d] * at[d] / dims[d]);
        part[d] = (int)((long)size[d] * (at[d] + 1) / dims[d]) - start[d];
    }
}

static int value(int generation, int row, int column) {
    return generation * 1000003 + row * 1009 + column;
}

static void fill(int *data, int generation) {
    for (int y = 0; y < part[0]; y++)
        for (int x = 0; x < part[1]; x++)
            data[(size_t)y * part[1] + x] = value(generation, start[0] + y, start[1] + x);
}

static void compare(const int *data, int generation, int step) {
    size_t count = (size_t)part[0] * part[1];
    for (size_t i = 0; i < count; i += step) {
        int y = start[0] + (int)(i / part[1]), x = start[1] + (int)(i % part[1]);
        if (data[i] != value(generation, y, x)) {
            printf("rank %d, generation %d, %d %d: %d\n", rank, generation, y, x, data[i]);
            fflush(stdout);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 7) MPI_Abort(MPI_COMM_WORLD, 2);
    int writes = strcmp(argv[1], "write") == 0, generations = atoi(argv[4]);
    size[0] = atoi(argv[5]), size[1] = atoi(argv[6]);
    decompose(argv[2]);
    size_t count = (size_t)part[0] * part[1];
    int *data = malloc((count + 1) * sizeof *data), touch = argc > 7;
    MPI_Datatype block;
    MPI_Type_create_subarray(2, size, part, start, MPI_ORDER_C, MPI_INT, &block);
    MPI_Type_commit(&block);
    int mode = writes ? MPI_MODE_CREATE | MPI_MODE_RDWR : MPI_MODE_RDONLY;
    double begin = 0;
    if (touch) fill(data, 0);
    for (int generation = 1; generation <= generations; generation++) {
        if (writes && !touch) fill(data, generation);
        if (writes && touch)
            for (size_t i = 0; i < count; i += 1024) {
                int y = start[0] + (int)(i / part[1]), x = start[1] + (int)(i % part[1]);
                data[i] = value(generation, y, x);
            }
        MPI_File file;
        check(MPI_File_open(MPI_COMM_WORLD, argv[3], mode, MPI_INFO_NULL, &file), "open");
        if (writes && rank == 0 && getenv("LOUD")) printf("open %d\n", generation);
        fflush(stdout);
        if (writes) check(MPI_File_set_size(file, 0), "set_size");
        check(MPI_File_set_view(file, 0, MPI_INT, block, "native", MPI_INFO_NULL), "set_view");
        if (writes) {
            if (getenv("FEWER") && rank == ranks - 1) die(getenv("FEWER"));
            check(MPI_File_write_all(file, data, (int)count, MPI_INT, MPI_STATUS_IGNORE), "write");
            if (generation == generations && getenv("HALF")) {
                if (rank == 0) printf("half\n");
                fflush(stdout);
                MPI_Barrier(MPI_COMM_WORLD);
                for (;;) {}
            }
        } else {
            MPI_Offset bytes;
            check(MPI_File_get_size(file, &bytes), "get_size");
            if (bytes != (MPI_Offset)size[0] * size[1] * 4) {
                printf("rank %d: file %d has %lld bytes\n", rank, generation, (long long)bytes);
                fflush(stdout);
                MPI_Abort(MPI_COMM_WORLD, 4);
            }
            check(MPI_File_read_all(file, data, (int)count, MPI_INT, MPI_STATUS_IGNORE), "read");
            compare(data, generation, touch ? 1024 : 1);
            if (rank == 0) printf("generation %d: right\n", generation);
            fflush(stdout);
        }
        check(MPI_File_close(&file), "close");
        if (generation == 2) begin = MPI_Wtime();
    }
    double mebibytes = (double)size[0] * size[1] * 4 * (generations - 2) / (1 << 20);
    if (!writes && rank == 0 && touch && generations > 2)
        printf("%.0f MiB/s\n", mebibytes / (MPI_Wtime() - begin));
    MPI_Type_free(&block);
    free(data);
    MPI_Finalize();
    return 0;
}
