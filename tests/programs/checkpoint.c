/* A checkpoint as many programs write it: each record of each variable in a collective call of its
 * own.
 *
 * usage: checkpoint FILE VARIABLES RECORDS
 *
 * Variable v of record r is 64 rows at byte (r * VARIABLES + v) * 64 * 16 * P of the file; each
 * rank has 16 bytes of each row, of the value 1 + (v + 3 * r + rank) % 250. At the end rank 0 reads
 * the file by itself.
 */
#include "check.h"

enum { ROWS = 64, PIECE = 16 };

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int variables = atoi(argv[2]), records = atoi(argv[3]);
    unsigned char row[ROWS * PIECE];
    MPI_File file;
    MPI_Datatype rows;
    MPI_Status status;
    OK(MPI_Type_vector(ROWS, PIECE, PIECE * check_size, MPI_BYTE, &rows));
    OK(MPI_Type_commit(&rows));
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    for (int r = 0; r < records; r++)
        for (int v = 0; v < variables; v++) {
            MPI_Offset start =
                (MPI_Offset)(r * variables + v) * ROWS * PIECE * check_size + check_rank * PIECE;
            OK(MPI_File_set_view(file, start, MPI_BYTE, rows, "native", MPI_INFO_NULL));
            memset(row, 1 + (v + 3 * r + check_rank) % 250, sizeof row);
            OK(MPI_File_write_all(file, row, sizeof row, MPI_BYTE, &status));
            COUNT(&status, MPI_BYTE, sizeof row);
        }
    OK(MPI_File_close(&file));
    MPI_Type_free(&rows);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        long length, wrong = 0;
        unsigned char *all = check_slurp(argv[1], &length);
        for (long i = 0; i < length; i++) {
            long block = i / (ROWS * PIECE * check_size), rank = i / PIECE % check_size;
            wrong += all[i] != 1 + (block % variables + 3 * (block / variables) + rank) % 250;
        }
        long whole = (long)records * variables * ROWS * PIECE * check_size;
        CHECK(wrong == 0 && length == whole, "%ld of %ld bytes are wrong", wrong, length);
        free(all);
    }
    return check_finish();
}
