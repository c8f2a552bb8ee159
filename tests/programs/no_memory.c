/* The library gets no memory on some ranks, by allocations_shim.c: calls end, on all ranks alike,
 * and the process lives. Usage: no_memory FILE */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

enum { PIECES = 3000, PIECE = 40, BLOCKS = 100000 };

static long (*allocations_fail)(int);
static int lengths[BLOCKS], places[BLOCKS];
static char mine[PIECES * PIECE], back[PIECES * PIECE];

/* The call ended on all ranks, with one result. */
static void ended_alike(const char *what, int code)
{
    int class = check_class(code), ends[2] = {class, -class};
    MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    CHECK(ends[0] == -ends[1], "%s gave class %d here", what, class);
    CHECK(class == MPI_SUCCESS || class == MPI_ERR_NO_MEM, "%s gave %s", what, check_text(code));
}

#define ALIKE(call)                                   \
    do {                                              \
        int check_result;                             \
        allocations_fail(short_of_memory);            \
        check_result = (call);                        \
        allocations_fail(0);                          \
        ended_alike(#call, check_result);             \
    } while (0)

static void calls(const char *path, int short_of_memory)
{
    MPI_Datatype scattered, indexed, view;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_File fh;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh));
    MPI_Type_vector(PIECES / 2, PIECE, 2 * PIECE, MPI_BYTE, &scattered);
    MPI_Type_commit(&scattered);
    MPI_Type_vector(PIECES, PIECE, check_size * PIECE, MPI_BYTE, &view);
    MPI_Type_commit(&view);
    ALIKE(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Type_indexed(BLOCKS, lengths, places, MPI_BYTE, &indexed);
    MPI_Type_commit(&indexed);
    ALIKE(MPI_File_set_view(fh, 0, MPI_BYTE, indexed, "native", MPI_INFO_NULL));
    OK(MPI_File_set_view(fh, check_rank * PIECE, MPI_BYTE, view, "native", MPI_INFO_NULL));
    ALIKE(MPI_File_write_at_all(fh, 0, mine, sizeof mine, MPI_BYTE, MPI_STATUS_IGNORE));
    ALIKE(MPI_File_write_at_all(fh, 0, mine, 1, scattered, MPI_STATUS_IGNORE));
    ALIKE(MPI_File_read_at_all(fh, 0, back, sizeof back, MPI_BYTE, MPI_STATUS_IGNORE));
    allocations_fail(short_of_memory);
    MPI_File_iwrite_at_all(fh, 0, mine, sizeof mine, MPI_BYTE, &request);
    ended_alike("MPI_File_iwrite_at_all", MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI_File_write_at(fh, 0, mine, 1, scattered, MPI_STATUS_IGNORE);
    MPI_File_read_at(fh, 0, back, 1, scattered, MPI_STATUS_IGNORE);
    allocations_fail(0);
    /* Whatever failed, with memory it works again. */
    memset(back, 0, sizeof back);
    OK(MPI_File_write_at_all(fh, 0, mine, sizeof mine, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(fh, 0, back, sizeof back, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(memcmp(mine, back, sizeof mine) == 0, "other bytes than were written");
    MPI_Type_free(&scattered);
    MPI_Type_free(&view);
    MPI_Type_free(&indexed);
    OK(MPI_File_close(&fh));
}

int main(int argc, char **argv)
{
    int at;
    long refused;
    check_init(&argc, &argv);
    allocations_fail = (long (*)(int))dlsym(RTLD_DEFAULT, "allocations_fail");
    for (at = 0; at < PIECES * PIECE; at++)
        mine[at] = pattern(at + check_rank);
    for (at = 0; at < BLOCKS; at++) {
        lengths[at] = 1 + at % 3;
        places[at] = 5 * at + at % 2;
    }
    calls(argv[1], 1);
    calls(argv[1], check_rank == 1);
    refused = allocations_fail(0);
    CHECK(refused > 0, "no allocation was refused");
    return check_finish();
}
