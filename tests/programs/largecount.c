/* The large-count calls of MPI-4, where the MPI's header has them. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
#if MPI_VERSION >= 4
    MPI_File file;
    MPI_Status status;
    MPI_Request request;
    MPI_Count extent = 0;
    int out[8], in[8] = {0};
    MPI_Offset mine = check_rank * 8 * (MPI_Offset)sizeof(int);
    MPI_Count eight = 8;
    for (int i = 0; i < 8; i++)
        out[i] = check_rank * 8 + i;
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_write_at_all_c(file, mine, out, eight, MPI_INT, &status));
    COUNT(&status, MPI_INT, 8);
    OK(MPI_File_read_at_c(file, mine, in, eight, MPI_INT, &status));
    CHECK(memcmp(in, out, sizeof in) == 0, "read_at_c");
    OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
    OK(MPI_File_iwrite_c(file, out, eight, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_File_iread_at_all_c(file, mine, in, eight, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    COUNT(&status, MPI_INT, 8);
    OK(MPI_File_read_at_all_begin_c(file, mine, in, eight, MPI_INT));
    OK(MPI_File_read_at_all_end(file, in, &status));
    CHECK(memcmp(in, out, sizeof in) == 0, "read_at_all_begin_c");
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_write_ordered_c(file, out, eight, MPI_INT, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_at_c(file, mine, in, eight, MPI_INT, &status));
    CHECK(memcmp(in, out, sizeof in) == 0, "write_ordered_c");
    OK(MPI_File_get_type_extent_c(file, MPI_INT, &extent));
    CHECK(extent == 4, "extent %lld", (long long)extent);
    OK(MPI_File_close(&file));

    /* One call of more than 2^31 elements: the same byte again and again, in memory and in nothing
     * but the type. */
    MPI_Datatype many, none;
    MPI_Type_contiguous(0, MPI_BYTE, &none);
    MPI_Type_contiguous(1, none, &many);
    MPI_Type_commit(&many);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_write_at_all_c(file, 0, out, (MPI_Count)1 << 40, many, &status));
    COUNT(&status, MPI_BYTE, 0);
    OK(MPI_File_close(&file));
    MPI_Type_free(&many);
    MPI_Type_free(&none);
#endif
    return check_finish();
}
