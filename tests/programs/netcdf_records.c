/* A netCDF file as libraries write it: one rank writes the header, all write records, one tells
 * their number.
 *
 *     mpirun -n N netcdf_records FILE HEADER BEGIN RECORD RECORDS [append]
 *
 * HEADER is a file with the header's bytes, BEGIN where records begin, RECORD the bytes of one.
 * Ranks have pieces of each record in turn. The byte at place p of the file is p * 31 mod 251. With
 * append, FILE has the header already. */
#include "check.h"

#define PIECE 64

static long long number(const char *text)
{
    return strtoll(text, NULL, 10);
}

/* All ranks see bytes, so that one may write to the header. */
static void show_bytes(MPI_File file)
{
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

static void write_header(MPI_File file, const char *name)
{
    char bytes[65536];
    FILE *header = fopen(name, "rb");
    size_t length = header ? fread(bytes, 1, sizeof(bytes), header) : 0;
    CHECK(length > 100, "%s has %zu bytes", name, length);
    /* In two parts. */
    OK(MPI_File_write_at(file, 0, bytes, 40, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_write_at(file, 40, bytes + 40, (int)length - 40, MPI_BYTE, MPI_STATUS_IGNORE));
    fclose(header);
}

static void write_record(MPI_File file, MPI_Offset begin, long long record)
{
    int pieces = (int)(record / PIECE / check_size);
    unsigned char *bytes = malloc((size_t)pieces * PIECE);
    MPI_Datatype type;
    for (int piece = 0; piece < pieces; piece++) {
        for (int i = 0; i < PIECE; i++) {
            MPI_Offset place = begin + ((MPI_Offset)piece * check_size + check_rank) * PIECE + i;
            bytes[piece * PIECE + i] = (unsigned char)(place * 31 % 251);
        }
    }
    OK(MPI_Type_vector(pieces, PIECE, PIECE * check_size, MPI_BYTE, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_File_set_view(file, begin + check_rank * PIECE, MPI_BYTE, type, "native",
                         MPI_INFO_NULL));
    OK(MPI_File_write_at_all(file, 0, bytes, pieces * PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_Type_free(&type));
    free(bytes);
}

/* As libraries do that open a file. */
static void read_header(MPI_File file)
{
    static unsigned char bytes[4096];
    OK(MPI_File_read_at(file, 0, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    if (argc < 6)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Offset begin = number(argv[3]);
    long long record = number(argv[4]), records = number(argv[5]);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    if (argc == 6 && check_rank == 0)
        write_header(file, argv[2]);
    else if (check_rank == 0)
        read_header(file);
    for (long long n = 0; n < records; n++) {
        write_record(file, begin + n * record, record);
        show_bytes(file);
        if (check_rank == 0) {
            unsigned char count[4] = {0, 0, (unsigned char)((n + 1) >> 8), (unsigned char)(n + 1)};
            OK(MPI_File_write_at(file, 4, count, 4, MPI_BYTE, MPI_STATUS_IGNORE));
        }
    }
    OK(MPI_File_close(&file));
    int errors = 0;
    MPI_Reduce(&check_errors, &errors, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (check_rank == 0 && errors == 0)
        printf("ok\n");
    MPI_Finalize();
    return errors != 0;
}
