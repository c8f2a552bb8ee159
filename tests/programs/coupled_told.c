/* Writes or reads the records of a netCDF file by MPI-IO alone, while the other side is at work.
 *
 *   coupled_told write FILE RECORDS WIDTH MILLISECONDS
 *   coupled_told read FILE RECORDS WIDTH
 *
 * A record is WIDTH numbers of one variable. The second half of each is there some time before the
 * first one is. The writer waits some time for a reader to read each record. Only rank 0 of the
 * reader asks for the number of records; it tells the others, which read the new ones at once, each
 * alone and then together. */
#include <arpa/inet.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NUMBER = 4, BEGIN = 512 };
static int rank, ranks;
static MPI_File file;

static void check(int error, int line) {
    char text[MPI_MAX_ERROR_STRING];
    int len;
    if (error == MPI_SUCCESS) return;
    MPI_Error_string(error, text, &len);
    fprintf(stderr, "rank %d, line %d: %s\n", rank, line, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define OK(call) check(call, __LINE__)

/* The file on disk with a byte for each record that the reader has read. */
static const char *sign(const char *name) {
    static char all[4096];
    snprintf(all, sizeof all, "%s.read", name);
    return all;
}

static int32_t value(long record, long x) { return (int32_t)(1000003 * (record + 1) + 17 * x); }

static long have_read(const char *name) {
    struct stat found;
    return stat(sign(name), &found) == 0 ? (long)found.st_size : 0;
}

static void put_header(long width) {
    uint32_t words[BEGIN / 4] = {0}, *at = words;
    const uint32_t all[] = {0x43444601, 0, 10, 2, 4, 0x74696d65, 0, 1, 0x78000000, (uint32_t)width,
                            0, 0, 11, 1, 1, 0x61000000, 2, 0, 1, 0, 0, 4, (uint32_t)(4 * width),
                            BEGIN};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) *at++ = htonl(all[i]);
    OK(MPI_File_write_at(file, 0, words, BEGIN, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void write_all(const char *name, long records, long width, int pause) {
    long half = width / 2;
    int32_t *values = malloc((size_t)width * sizeof *values);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_set_size(file, 0));
    if (rank == 0) put_header(width);
    for (long record = 0; record < records; record++) {
        MPI_Offset start = BEGIN + 4 * width * record;
        for (long x = 0; x < width; x++) values[x] = value(record, x);
        if (rank == ranks - 1)
            OK(MPI_File_write_at(file, start + 4 * half, values + half, (int)(width - half),
                                 MPI_INT32_T, MPI_STATUS_IGNORE));
        OK(MPI_File_sync(file));
        usleep(1000 * pause);
        if (rank == 0) {
            uint32_t count = htonl((uint32_t)record + 1);
            OK(MPI_File_write_at(file, start, values, (int)half, MPI_INT32_T, MPI_STATUS_IGNORE));
            OK(MPI_File_write_at(file, NUMBER, &count, 4, MPI_BYTE, MPI_STATUS_IGNORE));
        }
        for (int i = 0; i < 20000 && rank == 0 && have_read(name) <= record; i++) usleep(1000);
    }
    if (rank == 0) unlink(sign(name));
    OK(MPI_File_close(&file));
    free(values);
}

static void compare(const int32_t *found, long record, long first, long count, const char *how) {
    for (long x = first; x < first + count; x++)
        if (found[x - first] != value(record, x)) {
            printf("rank %d, record %ld, %s: value %ld is %d\n", rank, record, how, x,
                   (int)found[x - first]);
            fflush(stdout);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
}

static void read_record(int32_t *values, long record, long width) {
    long first = width * rank / ranks, count = width * (rank + 1) / ranks - first;
    MPI_Offset start = BEGIN + 4 * width * record;
    memset(values, 0, (size_t)width * sizeof *values);
    OK(MPI_File_read_at(file, start, values, (int)width, MPI_INT32_T, MPI_STATUS_IGNORE));
    compare(values, record, 0, width, "alone");
    memset(values, 0, (size_t)width * sizeof *values);
    OK(MPI_File_read_at_all(file, start + 4 * first, values, (int)count, MPI_INT32_T,
                            MPI_STATUS_IGNORE));
    compare(values, record, first, count, "together");
}

static void read_all(const char *name, long records, long width) {
    int32_t *values = malloc((size_t)width * sizeof *values);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    FILE *have_seen = rank == 0 ? fopen(sign(name), "w") : NULL;
    for (long seen = 0; seen < records;) {
        uint32_t count = 0;
        if (rank == 0)
            OK(MPI_File_read_at(file, NUMBER, &count, 4, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(MPI_Bcast(&count, 4, MPI_BYTE, 0, MPI_COMM_WORLD));
        count = ntohl(count);
        // Others than rank 0 need the last record first.
        for (long record = count; record-- > seen;) read_record(values, record, width);
        if (rank == 0) {
            printf("%u\n", (unsigned)count);
            for (; seen < count; seen++) fputc('.', have_seen);
            fflush(NULL);
        }
        seen = count;
    }
    if (have_seen) fclose(have_seen);
    OK(MPI_File_close(&file));
    free(values);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc == 6 && !strcmp(argv[1], "write"))
        write_all(argv[2], atol(argv[3]), atol(argv[4]), atoi(argv[5]));
    else if (argc == 5 && !strcmp(argv[1], "read"))
        read_all(argv[2], atol(argv[3]), atol(argv[4]));
    else
        return 1;
    MPI_Finalize();
    return 0;
}
