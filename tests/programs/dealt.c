/* dealt FILE PIECE TIMES CALLS FILLED write|read: in each of CALLS collective calls TIMES pieces of
   PIECE bytes a rank, dealt out in turn; of each piece the last PIECE - FILLED bytes are left out.
   The byte at offset n is n * 7 + n / 251. */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Status status;
    MPI_Datatype filled, tile;

    check_init(&argc, &argv);
    int piece = atoi(argv[2]), times = atoi(argv[3]), calls = atoi(argv[4]), part = atoi(argv[5]);
    int writes = strcmp(argv[6], "write") == 0;
    unsigned char *buffer = calloc((size_t)times, (size_t)part);
    MPI_Type_contiguous(part, MPI_BYTE, &filled);
    MPI_Type_create_resized(filled, 0, (MPI_Aint)piece * check_size, &tile);
    MPI_Type_commit(&tile);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, (MPI_Offset)piece * check_rank, MPI_BYTE, tile, "native",
                         MPI_INFO_NULL));
    long wrong = 0;
    for (int call = 0; call < calls; call++) {
        if (!writes) {
            memset(buffer, 0, (size_t)times * (size_t)part);
            OK(MPI_File_read_all(file, buffer, times * part, MPI_BYTE, &status));
        }
        for (long i = 0; i < (long)times * part; i++) {
            long record = ((long)call * times + i / part) * check_size + check_rank;
            long offset = record * piece + i % part;
            unsigned char byte = (unsigned char)(offset * 7 + offset / 251);
            if (writes)
                buffer[i] = byte;
            else
                wrong += buffer[i] != byte;
        }
        if (writes)
            OK(MPI_File_write_all(file, buffer, times * part, MPI_BYTE, &status));
        COUNT(&status, MPI_BYTE, times * part);
    }
    CHECK(wrong == 0, "%ld bytes are wrong", wrong);
    OK(MPI_File_close(&file));
    MPI_Type_free(&tile);
    MPI_Type_free(&filled);
    free(buffer);
    return check_finish();
}
