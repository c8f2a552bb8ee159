/* Requests that are freed while their operation goes on: MPI_File_close ends them. Usage: freed
 * FILE */
#include "check.h"

enum { PIECES = 6, PIECE = 3 << 20 };

static void writes(MPI_File fh, int collective)
{
    MPI_Offset block = (MPI_Offset)PIECES * PIECE, start = check_rank * block;
    char *bytes = malloc(block);
    MPI_Request request;
    int piece;
    for (MPI_Offset at = 0; at < block; at++)
        bytes[at] = pattern(start + at);
    for (piece = 0; piece < PIECES; piece++) {
        MPI_Offset at = (MPI_Offset)piece * PIECE;
        if (collective)
            OK(MPI_File_iwrite_at_all(fh, start + at, bytes + at, PIECE, MPI_BYTE, &request));
        else
            OK(MPI_File_iwrite_at(fh, start + at, bytes + at, PIECE, MPI_BYTE, &request));
        OK(MPI_Request_free(&request));
        CHECK(request == MPI_REQUEST_NULL, "not null");
    }
    OK(MPI_File_close(&fh));
    free(bytes);
}

static MPI_File open_file(const char *path, int amode)
{
    MPI_File fh = MPI_FILE_NULL;
    OK(MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &fh));
    return fh;
}

static void verify(const char *path)
{
    long length, at, expected = (long)check_size * PIECES * PIECE, wrong = 0;
    unsigned char *bytes;
    MPI_Barrier(MPI_COMM_WORLD);
    bytes = check_slurp(path, &length);
    CHECK(length == expected, "%ld bytes, not %ld", length, expected);
    for (at = 0; at < length; at++)
        wrong += bytes[at] != pattern(at);
    CHECK(wrong == 0, "%ld wrong bytes", wrong);
    free(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        OK(MPI_File_delete(path, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int collective, amode = MPI_MODE_CREATE | MPI_MODE_WRONLY;
    char byte;
    MPI_Request requests[2];
    MPI_File fh;
    check_init(&argc, &argv);
    for (collective = 0; collective < 2; collective++) {
        writes(open_file(argv[1], amode), collective);
        verify(argv[1]);
    }
    /* One that is freed beside one that is waited for; both fail. */
    fh = open_file(argv[1], amode | MPI_MODE_DELETE_ON_CLOSE);
    OK(MPI_File_iread_at_all(fh, 0, &byte, 1, MPI_BYTE, &requests[0]));
    OK(MPI_File_iread_at_all(fh, 0, &byte, 1, MPI_BYTE, &requests[1]));
    OK(MPI_Request_free(&requests[0]));
    FAILS(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    OK(MPI_File_close(&fh));
    return check_finish();
}
