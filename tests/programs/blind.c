/* One host sees the file's directory, the others do not: collective calls work for all, through
 * aggregators on that host; calls of one rank for itself give a blind rank MPI_ERR_NO_SUCH_FILE.
 *
 *     mpirun -n N blind FILE [CB_CONFIG_LIST] */
#include "check.h"
#include <libgen.h>
#include <unistd.h>

enum { BLOCK = 1000, COUNT = 40, MINE = BLOCK * COUNT };

static MPI_File file;
static unsigned char buffer[MINE];

/* Where byte `at` of this rank's own data lies in the file. */
static long long place(long at)
{
    return (at / BLOCK * check_size + check_rank) * (long long)BLOCK + at % BLOCK;
}

static void collective(int shift)
{
    MPI_Status status;
    for (long i = 0; i < MINE; i++)
        buffer[i] = pattern(place(i) + shift);
    OK(MPI_File_write_at_all(file, 0, buffer, MINE, MPI_BYTE, &status));
    COUNT(&status, MPI_BYTE, MINE);
    OK(MPI_File_sync(file));
    memset(buffer, 0, sizeof buffer);
    OK(MPI_File_read_at_all(file, 0, buffer, MINE, MPI_BYTE, &status));
    COUNT(&status, MPI_BYTE, MINE);
    for (long i = 0; i < MINE; i++)
        if (buffer[i] != pattern(place(i) + shift)) {
            CHECK(0, "byte %ld is wrong", i);
            break;
        }
}

static void alone(int sees)
{
    MPI_Status status;
    unsigned char mine = pattern(place(0) + 1), found = 0;
    if (sees) {
        OK(MPI_File_write_at(file, 0, &mine, 1, MPI_BYTE, &status));
        OK(MPI_File_read_at(file, 0, &found, 1, MPI_BYTE, &status));
        CHECK(found == mine, "read %d", found);
    } else {
        FAILS(MPI_File_write_at(file, 0, &mine, 1, MPI_BYTE, &status), MPI_ERR_NO_SUCH_FILE);
        FAILS(MPI_File_read_at(file, 0, &found, 1, MPI_BYTE, &status), MPI_ERR_NO_SUCH_FILE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Datatype tile;
    MPI_Info info;
    int seeing = 0;

    check_init(&argc, &argv);
    char *folder = strdup(argv[1]);
    int sees = access(dirname(folder), F_OK) == 0;
    free(folder);
    MPI_Allreduce(&sees, &seeing, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(seeing > 0 && seeing < check_size, "%d ranks see the directory", seeing);
    MPI_Info_create(&info);
    if (argc > 2)
        MPI_Info_set(info, "cb_config_list", argv[2]);
    int code = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file);
    CHECK(code == MPI_SUCCESS, "open gave %s", check_text(code));
    MPI_Info_free(&info);
    if (code != MPI_SUCCESS)
        return check_finish();
    MPI_Type_vector(COUNT, BLOCK, BLOCK * check_size, MPI_BYTE, &tile);
    MPI_Type_commit(&tile);
    OK(MPI_File_set_view(file, (MPI_Offset)check_rank * BLOCK, MPI_BYTE, tile, "native",
                         MPI_INFO_NULL));
    collective(0);
    alone(sees);
    /* An error of one rank alone does no harm to what all do together. */
    collective(1);
    OK(MPI_File_set_size(file, (MPI_Offset)check_size * MINE));
    OK(MPI_File_close(&file));
    CHECK((access(argv[1], F_OK) == 0) == sees, "a blind host has a file of its own");
    MPI_Type_free(&tile);
    return check_finish();
}
