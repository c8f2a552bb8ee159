/* Writes or reads generations of 8-byte values by collective calls, and checks every value.
 *
 *   coupled_parts write|read LAYOUT random|zeros|integers FILE GENERATIONS KIB [PERCENT]
 *
 * Each generation has KIB KiB. LAYOUT is contiguous: each rank writes one part, and reads that of
 * the next rank; uneven: the same, where the part of the first rank is a sixteenth; or slabs: the
 * values are an array of 64 rows; the writers have blocks of rows and columns, the readers columns;
 * or rows: the same with 4096 rows. With PERCENT, a reader reads only that percentage of its part,
 * from its beginning. PAUSE in the environment makes a writer wait for that many milliseconds
 * before each generation. The reader prints "generation N: right", or the number of wrong values.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;
static uint64_t rows;
static const char *kind;

static void check(int error, const char *what) {
    if (error == MPI_SUCCESS) return;
    int length = 0;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_string(error, text, &length);
    printf("rank %d: %s: %s\n", rank, what, text);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static uint64_t value(int generation, uint64_t at) {
    if (strcmp(kind, "zeros") == 0) return 0;
    if (strcmp(kind, "integers") == 0) {
        double number = (double)(at % 100000 + (uint64_t)generation);
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        return bits;
    }
    uint64_t mixed = at * 0x9e3779b97f4a7c15u + (uint64_t)generation * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

/* A block of rows and columns of the array. */
struct part {
    uint64_t row, rows, column, columns;
};

/* Returns the first value of the part of a rank. */
static uint64_t edge(int one, int uneven, uint64_t all) {
    return uneven && one == 1 ? all / 16 : all * (uint64_t)one / (uint64_t)ranks;
}

static struct part part_of(int reads, const char *layout, uint64_t all, int percent) {
    int slabs = rows > 1, uneven = strcmp(layout, "uneven") == 0 && ranks > 1;
    struct part part = {0, 1, 0, all};
    int me = reads ? (rank + 1) % ranks : rank;
    if (!slabs) {
        part.column = edge(me, uneven, all);
        part.columns = edge(me + 1, uneven, all) - part.column;
    } else {
        int dims[2] = {0, 0};
        if (reads) dims[0] = 1;
        MPI_Dims_create(ranks, 2, dims);
        uint64_t y = (uint64_t)(me / dims[1]), x = (uint64_t)(me % dims[1]), width = all / rows;
        part.row = rows * y / (uint64_t)dims[0];
        part.rows = rows * (y + 1) / (uint64_t)dims[0] - part.row;
        part.column = width * x / (uint64_t)dims[1];
        part.columns = width * (x + 1) / (uint64_t)dims[1] - part.column;
    }
    if (percent && slabs) part.rows = (part.rows * (uint64_t)percent + 99) / 100;
    if (percent && !slabs) part.columns = part.columns * (uint64_t)percent / 100;
    return part;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int reads = strcmp(argv[1], "read") == 0;
    rows = strcmp(argv[2], "slabs") == 0 ? 64 : strcmp(argv[2], "rows") == 0 ? 4096 : 1;
    kind = argv[3];
    const char *pause = getenv("PAUSE");
    uint64_t all = strtoull(argv[6], NULL, 10) * 1024 / 8;
    struct part part = part_of(reads, argv[2], all, argc > 7 ? atoi(argv[7]) : 0);
    uint64_t width = all / rows, count = part.rows * part.columns;
    uint64_t *data = malloc(count * 8 + 8);
    int array[2] = {(int)rows, (int)width};
    int sizes[2] = {(int)part.rows, (int)part.columns};
    int starts[2] = {(int)part.row, (int)part.column};
    MPI_Datatype tile;
    MPI_Type_create_subarray(2, array, sizes, starts, MPI_ORDER_C, MPI_UINT64_T, &tile);
    MPI_Type_commit(&tile);
    for (int generation = 1; generation <= atoi(argv[5]); generation++) {
        if (pause && !reads) usleep(1000 * (useconds_t)atoi(pause));
        MPI_File file;
        int mode = reads ? MPI_MODE_RDONLY : MPI_MODE_CREATE | MPI_MODE_WRONLY;
        check(MPI_File_open(MPI_COMM_WORLD, argv[4], mode, MPI_INFO_NULL, &file), "open");
        if (!reads) check(MPI_File_set_size(file, 0), "set_size");
        check(MPI_File_set_view(file, 0, MPI_UINT64_T, tile, "native", MPI_INFO_NULL), "view");
        uint64_t wrong = 0, at = 0;
        for (uint64_t y = 0; y < part.rows && !reads; y++)
            for (uint64_t x = 0; x < part.columns; x++)
                data[at++] = value(generation, (part.row + y) * width + part.column + x);
        MPI_Status status;
        if (reads) memset(data, 0xa5, count * 8);
        check(reads ? MPI_File_read_at_all(file, 0, data, (int)count, MPI_UINT64_T, &status)
                    : MPI_File_write_at_all(file, 0, data, (int)count, MPI_UINT64_T, &status),
              reads ? "read" : "write");
        for (uint64_t y = 0; y < part.rows && reads; y++)
            for (uint64_t x = 0; x < part.columns; x++)
                wrong += data[at++] != value(generation, (part.row + y) * width + part.column + x);
        check(MPI_File_close(&file), "close");
        uint64_t sum = 0;
        MPI_Reduce(&wrong, &sum, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
        if (reads && rank == 0 && sum == 0) printf("generation %d: right\n", generation);
        if (reads && rank == 0 && sum > 0)
            printf("generation %d: %llu values wrong\n", generation, (unsigned long long)sum);
        fflush(stdout);
    }
    free(data);
    MPI_Type_free(&tile);
    MPI_Finalize();
    return 0;
}
