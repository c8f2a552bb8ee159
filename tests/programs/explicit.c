/* Explicit offsets: blocking, nonblocking and collective, with exact counts at the end of the file.
 */
#include "check.h"

enum { BLOCK = 1000, BLOCKS = 8 };

static void fill(unsigned char *buffer, long long offset, int length)
{
    for (int i = 0; i < length; i++)
        buffer[i] = pattern(offset + i);
}

static void compare(const unsigned char *buffer, long long offset, int length)
{
    for (int i = 0; i < length; i++)
        CHECK(buffer[i] == pattern(offset + i), "byte %lld is %d", offset + i, buffer[i]);
}

/* Blocks of all ranks interleave; `way` chooses the call. */
static void write_block(MPI_File file, int way, long long offset, unsigned char *buffer)
{
    MPI_Status status;
    MPI_Request request;
    fill(buffer, offset, BLOCK);
    switch (way % 4) {
    case 0: OK(MPI_File_write_at(file, offset, buffer, BLOCK, MPI_BYTE, &status)); break;
    case 1: OK(MPI_File_write_at_all(file, offset, buffer, BLOCK, MPI_BYTE, &status)); break;
    case 2:
        OK(MPI_File_iwrite_at(file, offset, buffer, BLOCK, MPI_BYTE, &request));
        OK(MPI_Wait(&request, &status));
        break;
    default:
        OK(MPI_File_iwrite_at_all(file, offset, buffer, BLOCK, MPI_BYTE, &request));
        OK(MPI_Wait(&request, &status));
    }
    COUNT(&status, MPI_BYTE, BLOCK);
}

static void read_block(MPI_File file, int way, long long offset, unsigned char *buffer, int count)
{
    MPI_Status status;
    MPI_Request request;
    memset(buffer, 0, BLOCK);
    switch (way % 4) {
    case 0: OK(MPI_File_read_at(file, offset, buffer, BLOCK, MPI_BYTE, &status)); break;
    case 1: OK(MPI_File_read_at_all(file, offset, buffer, BLOCK, MPI_BYTE, &status)); break;
    case 2:
        OK(MPI_File_iread_at(file, offset, buffer, BLOCK, MPI_BYTE, &request));
        OK(MPI_Wait(&request, &status));
        break;
    default:
        OK(MPI_File_iread_at_all(file, offset, buffer, BLOCK, MPI_BYTE, &request));
        OK(MPI_Wait(&request, &status));
    }
    COUNT(&status, MPI_BYTE, count);
    compare(buffer, offset, count);
    for (int i = count; i < BLOCK; i++)
        CHECK(buffer[i] == 0, "byte %d behind the end of the file was touched", i);
}

int main(int argc, char **argv)
{
    unsigned char buffer[BLOCK];
    MPI_File file;
    MPI_Offset size;

    check_init(&argc, &argv);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    for (int block = 0; block < BLOCKS; block++)
        write_block(file, block, ((long long)block * check_size + check_rank) * BLOCK, buffer);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int block = 0; block < BLOCKS; block++)
        read_block(file, block,
                   ((long long)block * check_size + (check_rank + 1) % check_size) * BLOCK, buffer,
                   BLOCK);
    OK(MPI_File_get_size(file, &size));
    CHECK(size == (MPI_Offset)BLOCKS * check_size * BLOCK, "size is %lld", (long long)size);
    for (int way = 0; way < 4; way++) {
        read_block(file, way, size - 300, buffer, 300);
        read_block(file, way, size, buffer, 0);
        read_block(file, way, size + 5000, buffer, 0);
    }
    /* A collective call in which some ranks ask for nothing. */
    for (int i = 0; i < BLOCK; i++)
        buffer[i] = 0;
    MPI_Status status;
    int mine = check_rank % 2 ? 0 : BLOCK;
    OK(MPI_File_read_at_all(file, 0, buffer, mine, MPI_BYTE, &status));
    COUNT(&status, MPI_BYTE, mine);
    compare(buffer, 0, mine);
    OK(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL, "close did not reset the handle");

    long length;
    unsigned char *all = check_slurp(argv[1], &length);
    CHECK(length == size, "the file has %ld bytes", length);
    if (length == size)
        compare(all, 0, (int)length);
    free(all);
    return check_finish();
}
