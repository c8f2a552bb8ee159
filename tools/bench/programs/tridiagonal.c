/* The output of a block-tridiagonal solver: a cube of cells with 5 doubles each, of which every
 * rank has several blocks on diagonals (a square number of ranks), appended once a step.
 *
 * usage: tridiagonal FILE collective|structs|independent SIDE STEPS
 *        collective:  one 4-D subarray a block as file type, one write_at_all a step
 *        structs:     the same from memory with borders of two cells around each block
 *        independent: one write_at for each row of each block
 */
#include "timing.h"

enum { CELL = 5, BORDER = 2, MOST_BLOCKS = 64 };

static int side, blocks, first[MOST_BLOCKS][3], length[MOST_BLOCKS][3];
static long long cells;

/* First cell and number of cells of part `part` of `side` cells. */
static void share(int part, int *begin, int *count)
{
    *begin = (int)((long long)side * part / blocks);
    *count = (int)((long long)side * (part + 1) / blocks) - *begin;
}

/* Block `b` of this rank lies on a diagonal of the cube. */
static void partition(void)
{
    while (blocks * blocks < ranks_of_all)
        blocks++;
    if (blocks * blocks != ranks_of_all || blocks > MOST_BLOCKS || side < blocks)
        give_up("the number of ranks is no square, or the cube too small");
    int row = rank_of_mine / blocks, column = rank_of_mine % blocks;
    for (int b = 0; b < blocks; b++) {
        int place[3] = {b, (b + row) % blocks, (b + column) % blocks};
        for (int d = 0; d < 3; d++)
            share(place[d], &first[b][d], &length[b][d]);
        cells += (long long)length[b][0] * length[b][1] * length[b][2];
    }
}

static MPI_Datatype joined(const MPI_Datatype types[], const MPI_Aint places[])
{
    MPI_Datatype type;
    int ones[MOST_BLOCKS];
    for (int b = 0; b < blocks; b++)
        ones[b] = 1;
    MPI(MPI_Type_create_struct(blocks, ones, places, types, &type));
    MPI(MPI_Type_commit(&type));
    return type;
}

/* This rank's blocks in a step of the file. */
static MPI_Datatype in_file(void)
{
    MPI_Datatype types[MOST_BLOCKS], all;
    MPI_Aint places[MOST_BLOCKS] = {0};
    int sizes[4] = {side, side, side, CELL};
    for (int b = 0; b < blocks; b++) {
        int counts[4] = {length[b][0], length[b][1], length[b][2], CELL};
        int starts[4] = {first[b][0], first[b][1], first[b][2], 0};
        MPI(MPI_Type_create_subarray(4, sizes, counts, starts, MPI_ORDER_C, MPI_DOUBLE, &types[b]));
    }
    all = joined(types, places);
    for (int b = 0; b < blocks; b++)
        MPI(MPI_Type_free(&types[b]));
    return all;
}

/* This rank's blocks in memory, each with a border; `*doubles` is the length of that memory. */
static MPI_Datatype in_memory(long long *doubles)
{
    MPI_Datatype types[MOST_BLOCKS], all;
    MPI_Aint places[MOST_BLOCKS];
    *doubles = 0;
    for (int b = 0; b < blocks; b++) {
        int sizes[4] = {0, 0, 0, CELL}, counts[4] = {0, 0, 0, CELL}, starts[4] = {0, 0, 0, 0};
        long long whole = CELL;
        for (int d = 0; d < 3; d++) {
            sizes[d] = length[b][d] + 2 * BORDER, counts[d] = length[b][d], starts[d] = BORDER;
            whole *= sizes[d];
        }
        MPI(MPI_Type_create_subarray(4, sizes, counts, starts, MPI_ORDER_C, MPI_DOUBLE, &types[b]));
        places[b] = *doubles * sizeof(double), *doubles += whole;
    }
    all = joined(types, places);
    for (int b = 0; b < blocks; b++)
        MPI(MPI_Type_free(&types[b]));
    return all;
}

/* Moves every row of this rank's blocks by a call of its own; `step` is where the step begins. */
static void move_rows(MPI_File file, double *data, MPI_Offset step, int writes)
{
    for (int b = 0; b < blocks; b++)
        for (int z = 0; z < length[b][0]; z++)
            for (int y = 0; y < length[b][1]; y++) {
                long long row = (long long)(first[b][0] + z) * side + first[b][1] + y;
                MPI_Offset at = step + (row * side + first[b][2]) * CELL * sizeof(double);
                int count = length[b][2] * CELL;
                if (writes)
                    MPI(MPI_File_write_at(file, at, data, count, MPI_DOUBLE, MPI_STATUS_IGNORE));
                else
                    MPI(MPI_File_read_at(file, at, data, count, MPI_DOUBLE, MPI_STATUS_IGNORE));
                data += count;
            }
}

/* Fills memory with what the rank writes in a step, or counts what is wrong there. */
static long long each(double *data, long long doubles, int step, int fills)
{
    long long wrong = 0;
    for (long long i = 0; i < doubles; i++) {
        double is = value(rank_of_mine * 131 + step, i);
        if (fills)
            data[i] = is;
        else
            wrong += data[i] != is;
    }
    return wrong;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc != 5)
        give_up("usage: tridiagonal FILE collective|structs|independent SIDE STEPS");
    int rows = !strcmp(argv[2], "independent"), structs = !strcmp(argv[2], "structs");
    side = atoi(argv[3]);
    int steps = atoi(argv[4]);
    partition();
    long long doubles = cells * CELL, size = (long long)side * side * side * CELL * sizeof(double);
    MPI_Datatype place = structs ? in_memory(&doubles) : MPI_DOUBLE, view = in_file();
    int count = structs ? 1 : (int)doubles;
    double *data = memory(doubles * sizeof *data), seconds[2];
    MPI_File file;
    long long wrong = 0;
    for (int reads = 0; reads < 2; reads++) {
        double began = now();
        int mode = reads ? MPI_MODE_RDONLY : MPI_MODE_CREATE | MPI_MODE_WRONLY;
        MPI(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file));
        if (!rows)
            MPI(MPI_File_set_view(file, 0, MPI_DOUBLE, view, "native", MPI_INFO_NULL));
        for (int step = 0; step < steps; step++) {
            MPI_Offset at = cells * CELL * (MPI_Offset)step;
            if (!reads)
                each(data, doubles, step, 1);
            if (rows)
                move_rows(file, data, size * step, !reads);
            else if (reads)
                MPI(MPI_File_read_at_all(file, at, data, count, place, MPI_STATUS_IGNORE));
            else
                MPI(MPI_File_write_at_all(file, at, data, count, place, MPI_STATUS_IGNORE));
            if (reads && !structs)
                wrong += each(data, doubles, step, 0);
        }
        MPI(MPI_File_close(&file));
        seconds[reads] = now() - began;
    }
    if (wrong)
        give_up("other data are read than were written");
    tell(seconds[0], seconds[1], (double)size * steps);
    return 0;
}
