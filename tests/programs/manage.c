/* Size, space, group, hints: what a file tells about itself. */
#include "check.h"
#include <sys/stat.h>

static long long size_of(const char *path)
{
    struct stat found;
    return stat(path, &found) ? -1 : (long long)found.st_size;
}

static void expect_size(MPI_File file, const char *path, long long expected)
{
    MPI_Offset size = -1;
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_size(file, &size));
    CHECK(size == expected, "get_size gives %lld, not %lld", (long long)size, expected);
    CHECK(size_of(path) == expected, "the file has %lld bytes, not %lld", size_of(path), expected);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void hints(MPI_File file)
{
    MPI_Info info;
    int count = 0, flag = 0, found = 0;
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    OK(MPI_File_get_info(file, &info));
    CHECK(info != MPI_INFO_NULL, "no info");
    MPI_Info_get_nkeys(info, &count);
    for (int i = 0; i < count; i++) {
        MPI_Info_get_nthkey(info, i, key);
        MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &flag);
        CHECK(flag, "key %s has no value", key);
        if (strcmp(key, "cb_buffer_size") == 0) {
            found = 1;
            CHECK(atoi(value) == 1048576, "cb_buffer_size is %s", value);
        }
        CHECK(strcmp(key, "no_such_hint") != 0, "an unknown hint was kept");
    }
    CHECK(found, "the hint that was given is not told");
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Info info;
    MPI_Group group, world;
    MPI_Comm reversed;
    MPI_Status status;
    int result, mine = check_rank;
    unsigned char buffer[100];

    check_init(&argc, &argv);
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "1048576");
    MPI_Info_set(info, "no_such_hint", "7");
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    hints(file);
    expect_size(file, argv[1], 0);
    OK(MPI_File_set_size(file, 12345));
    expect_size(file, argv[1], 12345);
    OK(MPI_File_preallocate(file, 100000));
    expect_size(file, argv[1], 100000);
    OK(MPI_File_preallocate(file, 10));
    expect_size(file, argv[1], 100000);
    memset(buffer, 1, sizeof buffer);
    OK(MPI_File_read_at_all(file, 90000 + 100 * check_rank, buffer, 100, MPI_BYTE, &status));
    for (int i = 0; i < 100; i++)
        CHECK(buffer[i] == 0, "new space holds %d", buffer[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_set_size(file, 5));
    expect_size(file, argv[1], 5);
    OK(MPI_File_get_group(file, &group));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &result);
    CHECK(result == MPI_IDENT, "the group is another");
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    OK(MPI_File_sync(file));
    OK(MPI_File_close(&file));

    /* A communicator of other order, freed while the file is open. */
    mine = check_rank;
    MPI_Comm_split(MPI_COMM_WORLD, 0, check_size - mine, &reversed);
    OK(MPI_File_open(reversed, argv[1], MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_Comm_free(&reversed);
    OK(MPI_File_write_ordered(file, &mine, 1, MPI_INT, &status));
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    long length;
    int *all = (int *)check_slurp(argv[1], &length);
    for (int i = 0; i < check_size && length >= (i + 1) * 4; i++)
        CHECK(all[i] == check_size - 1 - i, "rank %d wrote at %d", all[i], i);
    CHECK(length >= 4 * check_size, "the file has %ld bytes", length);
    free(all);
    return check_finish();
}
