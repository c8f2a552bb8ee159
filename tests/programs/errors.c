/* Wrong arguments: the standard's class, through the right handler, and never a crash or a waiting
 * rank. */
#include "check.h"

static void after_close(MPI_File stale)
{
    char byte;
    MPI_Status status;
    MPI_Offset size;
    MPI_File copy = stale;
    CHECK(MPI_File_read_at(copy, 0, &byte, 1, MPI_BYTE, &status) != MPI_SUCCESS,
          "a closed file was read");
    CHECK(MPI_File_get_size(copy, &size) != MPI_SUCCESS, "a closed file has a size");
    CHECK(MPI_File_close(&copy) != MPI_SUCCESS, "a file was closed twice");
    copy = MPI_FILE_NULL;
    FAILS(MPI_File_write_at(copy, 0, &byte, 1, MPI_BYTE, &status), MPI_ERR_FILE);
    CHECK(MPI_File_close(&copy) != MPI_SUCCESS, "MPI_FILE_NULL was closed");
}

static void arguments(MPI_File file)
{
    int buffer[4] = {0};
    MPI_Status status;
    MPI_Datatype raw, overlapping, negative;
    FAILS(MPI_File_read_at(file, -1, buffer, 1, MPI_INT, &status), MPI_ERR_ARG);
    FAILS(MPI_File_write_at(file, 0, buffer, -1, MPI_INT, &status), MPI_ERR_COUNT);
    FAILS(MPI_File_read(file, buffer, -5, MPI_INT, &status), MPI_ERR_COUNT);
    FAILS(MPI_File_write_at(file, 0, buffer, 1, MPI_DATATYPE_NULL, &status), MPI_ERR_TYPE);
    MPI_Type_vector(2, 1, 2, MPI_INT, &raw);
    FAILS(MPI_File_write_at(file, 0, buffer, 1, raw, &status), MPI_ERR_TYPE);
    MPI_Type_commit(&raw);
    OK(MPI_File_write_at(file, 0, buffer, 0, raw, &status));
    COUNT(&status, MPI_INT, 0);

    CHECK(MPI_File_set_view(file, -7, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL) != MPI_SUCCESS,
          "displacement -7");
    CHECK(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_INT, "native", MPI_INFO_NULL) != MPI_SUCCESS,
          "half an etype");
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "no such", MPI_INFO_NULL),
          MPI_ERR_UNSUPPORTED_DATAREP);
    int lengths[2] = {2, 2}, displacements[2] = {0, 1};
    MPI_Type_indexed(2, lengths, displacements, MPI_INT, &overlapping);
    MPI_Type_commit(&overlapping);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, overlapping, "native", MPI_INFO_NULL) != MPI_SUCCESS,
          "an overlapping filetype for writing");
    int backward[2] = {3, 0}, ones[2] = {1, 1};
    MPI_Type_indexed(2, ones, backward, MPI_INT, &negative);
    MPI_Type_commit(&negative);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, negative, "native", MPI_INFO_NULL) != MPI_SUCCESS,
          "a filetype that goes backward");
    /* A failed set_view changed nothing. */
    buffer[0] = 5;
    OK(MPI_File_write_at(file, 4 * check_rank, buffer, 4, MPI_BYTE, &status));
    COUNT(&status, MPI_BYTE, 4);
    FAILS(MPI_File_set_size(file, -1), MPI_ERR_ARG);
    FAILS(MPI_File_preallocate(file, -1), MPI_ERR_ARG);
    CHECK(MPI_File_seek(file, 0, 12345) != MPI_SUCCESS, "whence 12345");
    MPI_Type_free(&raw);
    MPI_Type_free(&overlapping);
    MPI_Type_free(&negative);
}

/* One rank errs in a collective: it gets its error, everybody returns, and the file goes on
 * working. */
static void one_errs(MPI_File file)
{
    int value = 77 + check_rank, seen = 0, last = check_size - 1;
    MPI_Status status;
    int code = MPI_File_write_at_all(file, check_rank == last ? -3 : 4 * check_rank, &value, 4,
                                     MPI_BYTE, &status);
    CHECK(check_rank != last || code != MPI_SUCCESS, "offset -3 was accepted in a collective");
    code = MPI_File_read_at_all(file, 4 * check_rank, &seen, check_rank == 0 ? -4 : 4, MPI_BYTE,
                                &status);
    CHECK(check_rank != 0 || code != MPI_SUCCESS, "count -4 was accepted in a collective");
    OK(MPI_File_write_at_all(file, 4 * check_rank, &value, 4, MPI_BYTE, &status));
    OK(MPI_File_read_at_all(file, 4 * check_rank, &seen, 4, MPI_BYTE, &status));
    CHECK(seen == value, "read %d", seen);
}

/* Unequal arguments where all must be equal: an error on every rank, not a wait. */
static void unequal(const char *path)
{
    MPI_File file = MPI_FILE_NULL;
    int amode = check_rank == 0 ? MPI_MODE_RDWR : MPI_MODE_RDONLY;
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &file) != MPI_SUCCESS,
          "unequal modes");
    CHECK(file == MPI_FILE_NULL, "a failed open left a handle");
}

int main(int argc, char **argv)
{
    MPI_File file, stale;

    check_init(&argc, &argv);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    arguments(file);
    MPI_Barrier(MPI_COMM_WORLD);
    one_errs(file);
    stale = file;
    OK(MPI_File_close(&file));
    after_close(stale);
    if (check_size > 1)
        unequal(argv[1]);
    return check_finish();
}
