/* What a rank has read once, it reads anew after a rank of another host has changed it.
 *
 *     mpirun -n N stale FILE ROUNDS close|sync|atomic
 *
 * In each round another rank writes the whole file. Its size stays: the client of GlusterFS itself
 * keeps sizes and names for a second, and no program can ask it not to. Before the others read,
 *     close     the file is closed, and opened anew by all, or (odd rounds) by one rank alone;
 *     sync      all ranks synchronise, meet, and synchronise;
 *     atomic    all ranks meet, and the file is in atomic mode. */
#include "check.h"
#include <unistd.h>

enum { LENGTH = 100000 };

static MPI_File file;
static char *data;
static const char *name;

/* Each byte tells its round and its place. */
static char byte_at(int round, int i)
{
    return (char)(round * 31 + i % 101 + 1);
}

static void store(int round)
{
    MPI_Status status;
    for (int i = 0; i < LENGTH; i++)
        data[i] = byte_at(round, i);
    OK(MPI_File_write_at(file, 0, data, LENGTH, MPI_BYTE, &status));
    COUNT(&status, MPI_BYTE, LENGTH);
}

static void look(MPI_File from, int round)
{
    MPI_Status status;
    int wrong = 0;
    memset(data, 0, LENGTH);
    OK(MPI_File_read_at(from, 0, data, LENGTH, MPI_BYTE, &status));
    COUNT(&status, MPI_BYTE, LENGTH);
    for (int i = 0; i < LENGTH; i++)
        wrong += data[i] != byte_at(round, i);
    CHECK(wrong == 0, "%d of %d bytes are old in round %d", wrong, LENGTH, round);
}

static void open_file(void)
{
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
}

static void close_round(int round)
{
    open_file();
    if (check_rank == round % check_size)
        store(round);
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (round % 2 == 0) {
        open_file();
        look(file, round);
        OK(MPI_File_close(&file));
    } else if (check_rank == (round + check_size / 2) % check_size) {
        MPI_File alone;
        OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &alone));
        look(alone, round);
        OK(MPI_File_close(&alone));
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void kept_round(int round, int synchronises)
{
    if (check_rank == round % check_size)
        store(round);
    if (synchronises)
        OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (synchronises)
        OK(MPI_File_sync(file));
    look(file, round);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The file as long as it will be, and sizes that were seen before forgotten. */
static void first(int closes)
{
    if (closes)
        open_file();
    if (check_rank == 0)
        store(-1);
    if (closes)
        OK(MPI_File_close(&file));
    else
        OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    sleep(2);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int rounds = argc > 2 ? atoi(argv[2]) : 4;
    const char *how = argc > 3 ? argv[3] : "close";
    int closes = strcmp(how, "close") == 0;
    name = argv[1];
    data = malloc(LENGTH);
    if (!closes) {
        open_file();
        OK(MPI_File_set_atomicity(file, strcmp(how, "atomic") == 0));
    }
    first(closes);
    for (int round = 0; round < rounds; round++) {
        if (closes)
            close_round(round);
        else
            kept_round(round, strcmp(how, "sync") == 0);
    }
    if (!closes)
        OK(MPI_File_close(&file));
    free(data);
    return check_finish();
}
