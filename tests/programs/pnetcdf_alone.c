/* A program of PnetCDF that writes together, then alone over what was written together, and reads
 * alone what others wrote.
 *
 * usage: pnetcdf_alone FILE
 */
#include "check.h"
#include <pnetcdf.h>

enum { ROWS = 12, COLUMNS = 4, ROUNDS = 4 };

#define NC(call)                                                                    \
    do {                                                                            \
        int nc_code = (call);                                                       \
        CHECK(nc_code == NC_NOERR, "%s gave %s", #call, ncmpi_strerror(nc_code));   \
    } while (0)

/* What a rank writes to its column in a round. */
static int value(int rank, int round, int row)
{
    return 1 + rank + 100 * round + 10000 * row;
}

static void check_all(int nc, int variable, int round)
{
    int all[ROWS * COLUMNS * 16];
    memset(all, 0, sizeof all);
    NC(ncmpi_get_var_int_all(nc, variable, all));
    int columns = COLUMNS * check_size, wrong = 0;
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < columns; column++) {
            int wanted = column % COLUMNS == 1 ? value(column / COLUMNS, round, row) : 0;
            wrong += all[row * columns + column] != wanted;
        }
    CHECK(wrong == 0, "round %d: %d of %d values are wrong", round, wrong, ROWS * columns);
}

/* Zeros by rows of all ranks, then each rank a column by itself. */
static void write_columns(int nc, int variable, int round)
{
    int columns = COLUMNS * check_size, zeros[ROWS * COLUMNS * 16], mine[ROWS];
    MPI_Offset start[2] = { ROWS * check_rank / check_size, 0 };
    MPI_Offset count[2] = { ROWS * (check_rank + 1) / check_size - start[0], columns };
    memset(zeros, 0, sizeof zeros);
    NC(ncmpi_put_vara_int_all(nc, variable, start, count, zeros));
    /* The others hear that these have returned. */
    MPI_Barrier(MPI_COMM_WORLD);
    NC(ncmpi_begin_indep_data(nc));
    for (int row = 0; row < ROWS; row++)
        mine[row] = value(check_rank, round, row);
    MPI_Offset corner[2] = { 0, COLUMNS * check_rank + 1 }, column[2] = { ROWS, 1 };
    NC(ncmpi_put_vara_int(nc, variable, corner, column, mine));
    NC(ncmpi_sync(nc));
    MPI_Barrier(MPI_COMM_WORLD);
    /* What the next rank wrote, alone. */
    int next = (check_rank + 1) % check_size, other[ROWS];
    MPI_Offset theirs[2] = { 0, COLUMNS * next + 1 };
    NC(ncmpi_get_vara_int(nc, variable, theirs, column, other));
    for (int row = 0; row < ROWS; row++)
        CHECK(other[row] == value(next, round, row), "round %d row %d: %d", round, row, other[row]);
    MPI_Barrier(MPI_COMM_WORLD);
    NC(ncmpi_end_indep_data(nc));
}

int main(int argc, char **argv)
{
    int nc, again, dimensions[2], records[2], variables[ROUNDS], record, filled;
    check_init(&argc, &argv);
    NC(ncmpi_create(MPI_COMM_WORLD, argv[1], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &nc));
    NC(ncmpi_def_dim(nc, "rows", ROWS, &dimensions[0]));
    NC(ncmpi_def_dim(nc, "columns", COLUMNS * check_size, &dimensions[1]));
    NC(ncmpi_def_dim(nc, "time", NC_UNLIMITED, &records[0]));
    records[1] = dimensions[1];
    NC(ncmpi_def_var(nc, "v0", NC_INT, 2, dimensions, &variables[0]));
    NC(ncmpi_def_var(nc, "record", NC_INT, 2, records, &record));
    NC(ncmpi_enddef(nc));
    write_columns(nc, variables[0], 0);
    for (int round = 1; round < ROUNDS; round++) {
        /* The header grows, what is there moves, and a variable is filled. */
        char name[8], text[4000];
        memset(text, 'x', sizeof text);
        snprintf(name, sizeof name, "v%d", round);
        NC(ncmpi_redef(nc));
        NC(ncmpi_put_att_text(nc, NC_GLOBAL, name, sizeof text, text));
        NC(ncmpi_def_var(nc, name, NC_INT, 2, dimensions, &variables[round]));
        NC(ncmpi_def_var_fill(nc, variables[round], 0, NULL));
        snprintf(name, sizeof name, "f%d", round);
        NC(ncmpi_def_var(nc, name, NC_INT, 2, dimensions, &filled));
        NC(ncmpi_def_var_fill(nc, filled, 0, NULL));
        NC(ncmpi_enddef(nc));
        for (int before = 0; before < round; before++)
            check_all(nc, variables[before], before);
        write_columns(nc, variables[round], round);
        for (int at = 0; at < 3; at++) {
            MPI_Offset start[2] = {3 * (round - 1) + at, COLUMNS * check_rank},
                       count[2] = {1, COLUMNS};
            int data[COLUMNS] = { round, at, check_rank, 5 };
            NC(ncmpi_put_vara_int_all(nc, record, start, count, data));
        }
    }
    NC(ncmpi_close(nc));
    NC(ncmpi_open(MPI_COMM_WORLD, argv[1], NC_NOWRITE, MPI_INFO_NULL, &again));
    for (int round = 0; round < ROUNDS; round++)
        check_all(again, variables[round], round);
    NC(ncmpi_close(again));
    return check_finish();
}
