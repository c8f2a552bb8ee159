/* A time loop: every step makes its view anew, further on in the file, and writes; then all is
 * read.
 *
 *     mpirun -n N steps FILE STEPS PIECES
 *
 * Every rank has PIECES pieces of 1 to 24 bytes in each step, dealt by turns. The file changes its
 * size between two steps. */
#include "check.h"

#define PLACE 24
/* A multiple of all sizes of windows. */
#define STEP (4 << 20)

static MPI_Datatype pieces_type(int pieces, int *bytes)
{
    MPI_Datatype type, step;
    int *lengths = malloc(pieces * sizeof(int));
    MPI_Aint *places = malloc(pieces * sizeof(MPI_Aint));
    *bytes = 0;
    for (int i = 0; i < pieces; i++) {
        lengths[i] = 1 + (i * 7 + i / 5) % PLACE;
        places[i] = ((MPI_Aint)i * check_size + check_rank) * PLACE;
        *bytes += lengths[i];
    }
    MPI_Type_create_hindexed(pieces, lengths, places, MPI_BYTE, &type);
    MPI_Type_create_resized(type, 0, STEP, &step);
    MPI_Type_commit(&step);
    MPI_Type_free(&type);
    free(lengths);
    free(places);
    return step;
}

static void set_view(MPI_File file, int step, int pieces, int *bytes)
{
    MPI_Datatype type = pieces_type(pieces, bytes);
    OK(MPI_File_set_view(file, (MPI_Offset)step * STEP, MPI_BYTE, type, "native", MPI_INFO_NULL));
    MPI_Type_free(&type);
}

static unsigned char own(int step, int at)
{
    return pattern(step * 1000003LL + check_rank * 10007LL + at);
}

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Status status;
    check_init(&argc, &argv);
    int steps = argc == 4 ? atoi(argv[2]) : 1, pieces = argc == 4 ? atoi(argv[3]) : 1, bytes;
    unsigned char *buffer = malloc((size_t)pieces * PLACE);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    for (int step = 0; step < steps; step++) {
        set_view(file, step, pieces, &bytes);
        for (int i = 0; i < bytes; i++)
            buffer[i] = own(step, i);
        OK(MPI_File_write_at_all(file, 0, buffer, bytes, MPI_BYTE, &status));
        COUNT(&status, MPI_BYTE, bytes);
        if (step == 1)
            OK(MPI_File_set_size(file, (MPI_Offset)(steps + 1) * STEP));
    }
    set_view(file, 0, pieces, &bytes);
    for (int step = 0; step < steps; step++) {
        memset(buffer, 0, bytes);
        OK(MPI_File_read_at_all(file, (MPI_Offset)step * bytes, buffer, bytes, MPI_BYTE, &status));
        COUNT(&status, MPI_BYTE, bytes);
        int right = 0;
        while (right < bytes && buffer[right] == own(step, right))
            right++;
        CHECK(right == bytes, "step %d, byte %d is wrong", step, right);
    }
    OK(MPI_File_close(&file));
    free(buffer);
    return check_finish();
}
