/* The shared file pointer: each record is written once, whole, and ordered calls go by rank. */
#include "check.h"

enum { RECORD = 16, ROUNDS = 12 };

/* A record is {rank, round, rank, round}: a torn one is seen at once. */
static void make(int *record, int round)
{
    for (int i = 0; i < RECORD; i++)
        record[i] = i % 2 ? round : check_rank;
}

static void expect_position(MPI_File file, long long expected)
{
    MPI_Offset position = -1;
    OK(MPI_File_get_position_shared(file, &position));
    CHECK(position == expected, "shared position is %lld, not %lld", (long long)position, expected);
}

static void write_records(MPI_File file)
{
    int record[RECORD];
    MPI_Status status;
    MPI_Request request;
    for (int round = 0; round < ROUNDS; round++) {
        make(record, round);
        if (round % 2)
            OK(MPI_File_write_shared(file, record, RECORD, MPI_INT, &status));
        else {
            OK(MPI_File_iwrite_shared(file, record, RECORD, MPI_INT, &request));
            OK(MPI_Wait(&request, &status));
        }
        COUNT(&status, MPI_INT, RECORD);
    }
}

/* All records are there, each exactly once. */
static void check_records(const char *path, int ranks)
{
    long length;
    int *all = (int *)check_slurp(path, &length), *seen = calloc(ranks * ROUNDS, sizeof(int));
    CHECK(length == (long)sizeof(int) * RECORD * ROUNDS * ranks, "the file has %ld bytes", length);
    for (long at = 0; at + RECORD <= length / (long)sizeof(int); at += RECORD) {
        int rank = all[at], round = all[at + 1];
        CHECK(rank >= 0 && rank < ranks && round >= 0 && round < ROUNDS, "record %ld is of %d, %d",
              at, rank, round);
        if (rank < 0 || rank >= ranks || round < 0 || round >= ROUNDS)
            break;
        seen[rank * ROUNDS + round]++;
        for (int i = 0; i < RECORD; i++)
            CHECK(all[at + i] == (i % 2 ? round : rank), "record %ld is torn", at / RECORD);
    }
    for (int i = 0; i < ranks * ROUNDS; i++)
        CHECK(seen[i] == 1, "record %d of rank %d is there %d times", i % ROUNDS, i / ROUNDS,
              seen[i]);
    free(all);
    free(seen);
}

/* Every record is read by exactly one rank. */
static void read_records(MPI_File file)
{
    int record[RECORD], *mine = calloc(check_size * ROUNDS, sizeof(int)),
                        *all = calloc(check_size * ROUNDS, sizeof(int));
    MPI_Status status;
    MPI_Request request;
    int count = RECORD;
    for (int round = 0; count == RECORD; round++) {
        if (round % 2)
            OK(MPI_File_read_shared(file, record, RECORD, MPI_INT, &status));
        else {
            OK(MPI_File_iread_shared(file, record, RECORD, MPI_INT, &request));
            OK(MPI_Wait(&request, &status));
        }
        MPI_Get_count(&status, MPI_INT, &count);
        CHECK(count == 0 || count == RECORD, "read %d integers", count);
        if (count == RECORD && record[0] >= 0 && record[0] < check_size)
            mine[record[0] * ROUNDS + record[1] % ROUNDS]++;
    }
    MPI_Allreduce(mine, all, check_size * ROUNDS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < check_size * ROUNDS; i++)
        CHECK(all[i] == 1, "record %d of rank %d was read %d times", i % ROUNDS, i / ROUNDS,
              all[i]);
    free(mine);
    free(all);
}

/* Ranks write blocks of different lengths; they lie in the file in the order of ranks. */
static void ordered(MPI_File file, int split)
{
    int buffer[64];
    MPI_Status status;
    MPI_Offset before = 0;
    int length = 1 + check_rank % 7, total = 0;
    for (int i = 0; i < 64; i++)
        buffer[i] = check_rank * 100 + i;
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    expect_position(file, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (split) {
        OK(MPI_File_write_ordered_begin(file, buffer, length, MPI_INT));
        OK(MPI_File_write_ordered_end(file, buffer, &status));
    } else
        OK(MPI_File_write_ordered(file, buffer, length, MPI_INT, &status));
    COUNT(&status, MPI_INT, length);
    for (int rank = 0; rank < check_size; rank++) {
        before += rank < check_rank ? 1 + rank % 7 : 0;
        total += 1 + rank % 7;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    expect_position(file, total);
    OK(MPI_File_read_at(file, before, buffer, length, MPI_INT, &status));
    for (int i = 0; i < length; i++)
        CHECK(buffer[i] == check_rank * 100 + i, "ordered element %d is %d", i, buffer[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    memset(buffer, 0, sizeof buffer);
    if (split) {
        OK(MPI_File_read_ordered_begin(file, buffer, length, MPI_INT));
        OK(MPI_File_read_ordered_end(file, buffer, &status));
    } else
        OK(MPI_File_read_ordered(file, buffer, length, MPI_INT, &status));
    COUNT(&status, MPI_INT, length);
    for (int i = 0; i < length; i++)
        CHECK(buffer[i] == check_rank * 100 + i, "ordered element %d is %d", i, buffer[i]);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_File file;

    check_init(&argc, &argv);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    expect_position(file, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    write_records(file);
    MPI_Barrier(MPI_COMM_WORLD);
    expect_position(file, (long long)RECORD * ROUNDS * check_size);
    OK(MPI_File_sync(file));
    check_records(argv[1], check_size);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    read_records(file);
    MPI_Barrier(MPI_COMM_WORLD);
    ordered(file, 0);
    ordered(file, 1);
    OK(MPI_File_close(&file));
    return check_finish();
}
