/* Collective calls as files describe them: each description is carried out as writes, then as
 * reads.
 *
 *     mpirun -n N described FOLDER NAME ...
 *
 * FOLDER/NAME.RANK holds numbers: displacement and extent of the view, the number of blocks of its
 * filetype and the offset and length of each, the number of calls and the position in the view and
 * the length of each, all in bytes. The data is in FOLDER/NAME.data, which is opened once for the
 * writes and once for the reads. */
#include "check.h"

struct description {
    long long displacement, extent, bytes;
    long blocks, calls;
    MPI_Aint *offsets;
    int *lengths;
    long long *positions, *sizes;
};

static long long number(FILE *stream)
{
    long long value = 0;
    CHECK(fscanf(stream, "%lld", &value) == 1, "a number is missing");
    return value;
}

static struct description description(const char *folder, const char *name)
{
    struct description of = {0};
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%d", folder, name, check_rank);
    FILE *stream = fopen(path, "r");
    if (!stream) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    of.displacement = number(stream);
    of.extent = number(stream);
    of.blocks = (long)number(stream);
    of.offsets = malloc(of.blocks * sizeof *of.offsets);
    of.lengths = malloc(of.blocks * sizeof *of.lengths);
    for (long i = 0; i < of.blocks; i++) {
        of.offsets[i] = number(stream);
        of.lengths[i] = (int)number(stream);
        of.bytes += of.lengths[i];
    }
    of.calls = (long)number(stream);
    of.positions = malloc(of.calls * sizeof *of.positions);
    of.sizes = malloc(of.calls * sizeof *of.sizes);
    for (long i = 0; i < of.calls; i++) {
        of.positions[i] = number(stream);
        of.sizes[i] = number(stream);
    }
    fclose(stream);
    return of;
}

static void forget(struct description of)
{
    free(of.offsets);
    free(of.lengths);
    free(of.positions);
    free(of.sizes);
}

/* What a call moves, as the file has it; block by block. */
static void expected(struct description of, long call, unsigned char *bytes)
{
    long long skip = of.positions[call] % of.bytes,
              base = of.displacement + of.positions[call] / of.bytes * of.extent;
    long long done = 0;
    while (done < of.sizes[call]) {
        for (long i = 0; i < of.blocks && done < of.sizes[call]; i++)
            for (long long at = 0; at < of.lengths[i] && done < of.sizes[call]; at++)
                if (skip > 0)
                    skip--;
                else
                    bytes[done++] = pattern(base + of.offsets[i] + at);
        base += of.extent;
    }
}

static void one_call(MPI_File file, struct description of, long call, int writing)
{
    MPI_Status status;
    size_t size = (size_t)of.sizes[call];
    unsigned char *wanted = malloc(size + 1), *found = calloc(size + 1, 1);
    expected(of, call, wanted);
    if (writing)
        OK(MPI_File_write_at_all(file, of.positions[call], wanted, (int)size, MPI_BYTE, &status));
    else
        OK(MPI_File_read_at_all(file, of.positions[call], found, (int)size, MPI_BYTE, &status));
    COUNT(&status, MPI_BYTE, size);
    CHECK(writing || memcmp(wanted, found, size) == 0, "call %ld read other bytes", call);
    free(wanted);
    free(found);
}

static void all_calls(const char *folder, const char *name, struct description of, int writing)
{
    MPI_File file;
    MPI_Datatype blocks, filetype;
    char path[4096];
    int amode = writing ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY;
    snprintf(path, sizeof path, "%s/%s.data", folder, name);
    OK(MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &file));
    MPI_Type_create_hindexed((int)of.blocks, of.lengths, of.offsets, MPI_BYTE, &blocks);
    MPI_Type_create_resized(blocks, 0, (MPI_Aint)of.extent, &filetype);
    MPI_Type_commit(&filetype);
    OK(MPI_File_set_view(file, of.displacement, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    for (long call = 0; call < of.calls; call++)
        one_call(file, of, call, writing);
    OK(MPI_File_close(&file));
    MPI_Type_free(&filetype);
    MPI_Type_free(&blocks);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    for (int i = 2; i < argc; i++) {
        struct description of = description(argv[1], argv[i]);
        all_calls(argv[1], argv[i], of, 1);
        all_calls(argv[1], argv[i], of, 0);
        forget(of);
    }
    return check_finish();
}
