/* Data representations: external32 has known bytes, internal comes back, users bring their own. */
#include "check.h"

static void external(const char *path)
{
    MPI_File file;
    MPI_Status status;
    MPI_Aint extent;
    int out[3] = {0x01020304, -2, check_rank}, in[3] = {0};
    double real = 1.5, back = 0;
    short small[2] = {0x0102, -1}, small_back[2] = {0};
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 100 * check_rank, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(file, MPI_LONG, &extent));
    CHECK(extent == 8 || extent == 4, "the extent of MPI_LONG is %ld", (long)extent);
    OK(MPI_File_get_type_extent(file, MPI_INT, &extent));
    CHECK(extent == 4, "the extent of MPI_INT is %ld", (long)extent);
    OK(MPI_File_write_at(file, 0, out, 3, MPI_INT, &status));
    COUNT(&status, MPI_INT, 3);
    OK(MPI_File_write_at_all(file, 12, &real, 1, MPI_DOUBLE, &status));
    COUNT(&status, MPI_DOUBLE, 1);
    OK(MPI_File_write_at_all(file, 20, small, 2, MPI_SHORT, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_at_all(file, 0, in, 3, MPI_INT, &status));
    COUNT(&status, MPI_INT, 3);
    OK(MPI_File_read_at(file, 12, &back, 1, MPI_DOUBLE, &status));
    OK(MPI_File_read_at(file, 20, small_back, 2, MPI_SHORT, &status));
    CHECK(memcmp(in, out, sizeof in) == 0 && back == real && memcmp(small, small_back, 4) == 0,
          "did not come back");
    OK(MPI_File_close(&file));

    long length;
    unsigned char *all = check_slurp(path, &length);
    static const unsigned char expected[] = {1, 2, 3, 4, 0xff, 0xff, 0xff, 0xfe};
    static const unsigned char one_and_a_half[] = {0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 1, 2, 0xff, 0xff};
    CHECK(length >= 100 * check_rank + 24, "the file has %ld bytes", length);
    if (length >= 100 * check_rank + 24) {
        CHECK(memcmp(all + 100 * check_rank, expected, 8) == 0, "integers are not big endian");
        CHECK(memcmp(all + 100 * check_rank + 12, one_and_a_half, 12) == 0,
              "the double is not big endian IEEE");
    }
    free(all);
}

static void internal(const char *path)
{
    MPI_File file;
    MPI_Status status;
    int out[100], in[100];
    for (int i = 0; i < 100; i++)
        out[i] = check_rank * 1000 + i, in[i] = -1;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "internal", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(file, 100 * check_rank, out, 100, MPI_INT, &status));
    OK(MPI_File_read_at_all(file, 100 * check_rank, in, 100, MPI_INT, &status));
    CHECK(memcmp(in, out, sizeof in) == 0, "did not come back");
    OK(MPI_File_close(&file));
}

/* A user's representation: integers as 8 bytes, the value plus one in the first four of them. */
static int extent_of(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    (void)type;
    ++*(int *)state;
    *extent = 8;
    return MPI_SUCCESS;
}

static int to_memory(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position,
                     void *state) {
    (void)type, (void)state;
    for (int i = 0; i < count; i++) {
        int value;
        memcpy(&value, (char *)file + 8 * i, 4);
        ((int *)user)[position + i] = value - 1;
    }
    return MPI_SUCCESS;
}

static int to_file(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position,
                   void *state) {
    (void)type, (void)state;
    for (int i = 0; i < count; i++) {
        int value[2] = {((int *)user)[position + i] + 1, 0x55555555};
        memcpy((char *)file + 8 * i, value, 8);
    }
    return MPI_SUCCESS;
}

static void user(const char *path)
{
    static int asked;
    MPI_File file;
    MPI_Status status;
    int out[50], in[50];
    for (int i = 0; i < 50; i++)
        out[i] = check_rank * 1000 + i, in[i] = -1;
    OK(MPI_Register_datarep("plus one", to_memory, to_file, extent_of, &asked));
    FAILS(MPI_Register_datarep("plus one", to_memory, to_file, extent_of, &asked),
          MPI_ERR_DUP_DATAREP);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "plus one", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(file, 50 * check_rank, out, 50, MPI_INT, &status));
    COUNT(&status, MPI_INT, 50);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_at(file, 50 * check_rank, in, 50, MPI_INT, &status));
    COUNT(&status, MPI_INT, 50);
    CHECK(memcmp(in, out, sizeof in) == 0, "did not come back");
    CHECK(asked > 0, "the extent function was never called");
    OK(MPI_File_close(&file));
    long length;
    int *all = (int *)check_slurp(path, &length);
    CHECK(length == 400L * check_size, "the file has %ld bytes", length);
    for (int i = 0; i < length / 8; i++)
        CHECK(all[2 * i] == i / 50 * 1000 + i % 50 + 1 && all[2 * i + 1] == 0x55555555,
              "integer %d is %d", i, all[2 * i]);
    free(all);
}

int main(int argc, char **argv)
{
    char path[4096];
    check_init(&argc, &argv);
    void (*parts[])(const char *) = {external, internal, user};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s.%d", argv[1], i);
        parts[i](path);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return check_finish();
}
