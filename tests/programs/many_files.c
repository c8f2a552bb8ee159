/* Each rank writes blocks of several open files by itself, closes them, and compares what the next
 * rank has written.
 *
 * many_files DATA FILES MEBIBYTES: of each file each rank has so many, every second block of the
 * file is nobody's. */
#include "check.h"

enum { BLOCK = 65536, MOST = 64 };

static unsigned char blocks[BLOCK];

static unsigned char value(int file, int rank, long block)
{
    return (unsigned char)(1 + 3 * file + 7 * rank + block);
}

static void open_all(const char *data, int files, int mode, MPI_File *opened)
{
    for (int file = 0; file < files; file++) {
        char name[4096];
        snprintf(name, sizeof name, "%s.%d", data, file);
        OK(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &opened[file]));
    }
}

int main(int argc, char **argv)
{
    MPI_File opened[MOST];
    check_init(&argc, &argv);
    int files = atoi(argv[2]), other = (check_rank + 1) % check_size;
    long count = atol(argv[3]) * (1 << 20) / BLOCK;
    open_all(argv[1], files, MPI_MODE_RDWR | MPI_MODE_CREATE, opened);
    for (long block = 0; block < count; block++)
        for (int file = 0; file < files; file++) {
            MPI_Offset at = (MPI_Offset)(block * check_size + check_rank) * 2 * BLOCK;
            memset(blocks, value(file, check_rank, block), BLOCK);
            OK(MPI_File_write_at(opened[file], at, blocks, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
        }
    for (int file = 0; file < files; file++)
        OK(MPI_File_close(&opened[file]));
    MPI_Barrier(MPI_COMM_WORLD);
    open_all(argv[1], files, MPI_MODE_RDONLY, opened);
    for (int file = 0; file < files; file++) {
        for (long block = 0; block < count; block++) {
            MPI_Offset at = (MPI_Offset)(block * check_size + other) * 2 * BLOCK;
            OK(MPI_File_read_at(opened[file], at, blocks, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
            int bad = 0;
            for (int i = 0; i < BLOCK; i++)
                bad += blocks[i] != value(file, other, block);
            CHECK(!bad, "%d bytes of block %ld of rank %d in file %d", bad, block, other, file);
        }
        OK(MPI_File_close(&opened[file]));
    }
    return check_finish();
}
