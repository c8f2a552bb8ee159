/* Writes of single ranks that are staged: each rank writes records alone and tells a file of its
 * own, after each call, how many it has written. Then ranks are killed.
 *
 * staged DATA ACKNOWLEDGED RECORDS VICTIM: the rank VICTIM, or all for -1, kills itself some time
 * after a synchronisation.
 * staged DATA ACKNOWLEDGED RECORDS check: compares every record with what it should be.
 * staged DATA ACKNOWLEDGED RECORDS show: before anybody synchronises, another program reads DATA.
 * staged DATA ACKNOWLEDGED RECORDS full FILLER: the file system of DATA is full until FILLER goes;
 * "kept" in place of "full": it stays full.
 * With TOGETHER=1 all ranks write a record in one call. With SYNC_EVERY=NUMBER they synchronise
 * after so many records, which they tell as well, and "check" compares what was synchronised only.
 * With DIES=VICTIM,MICROSECONDS that rank, or all for -1, end so long after the start of MPI as if
 * they were killed.
 * staged DATA ACKNOWLEDGED RECORDS once: the first attempt to store fails with EIO, "ever": all. */
#include "check.h"
#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

enum { WORDS = 100 };

static void fill(int *words, int rank, int record)
{
    for (int i = 0; i < WORDS; i++)
        words[i] = rank * 1000003 + record * 1009 + i;
}

static void compare(const int *words, int rank, int record)
{
    int wanted[WORDS];
    fill(wanted, rank, record);
    CHECK(!memcmp(words, wanted, sizeof wanted), "record %d of rank %d", record, rank);
}

/* Another program copies the file, and this one compares what that has seen. */
static void show(const char *data, int records)
{
    char command[8192];
    int words[WORDS];
    snprintf(command, sizeof command, "cat '%s'", data);
    FILE *pipe = popen(command, "r");
    for (int record = 0; record < records * check_size; record++) {
        size_t read = fread(words, 1, sizeof words, pipe);
        CHECK(read == sizeof words, "record %d of the copy", record);
        compare(words, record % check_size, record / check_size);
    }
    CHECK(fgetc(pipe) == EOF && pclose(pipe) == 0, "the copy is longer");
}

/* Draining fails on every rank, and the bytes are there all the same; then it goes on after FILLER
 * is removed, or at once, or never. */
static void not_drained(MPI_File file, int records, const char *how, const char *filler)
{
    int words[WORDS];
    int class = !strcmp(how, "full") || !strcmp(how, "kept") ? MPI_ERR_NO_SPACE : MPI_ERR_IO;
    FAILS(MPI_File_sync(file), class);
    for (int record = 0; record < records; record++) {
        int left = (check_rank + check_size - 1) % check_size;
        MPI_Offset at = ((MPI_Offset)record * check_size + left) * sizeof words;
        OK(MPI_File_read_at(file, at, words, WORDS, MPI_INT, MPI_STATUS_IGNORE));
        compare(words, left, record);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(how, "full") || !strcmp(how, "once")) {
        if (filler && check_rank == 0)
            CHECK(unlink(filler) == 0, "%s stays", filler);
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_File_sync(file));
        OK(MPI_File_close(&file));
    } else {
        int closed = MPI_File_close(&file);
        FAILS(closed, class);
        printf("%s\n", check_text(closed));
    }
}

/* What failed is not acknowledged: another rank may have been killed. */
static void give_up_after_errors(void)
{
    if (check_errors)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The default action of the signal ends the process, wherever it is. */
static void die_later(const char *how)
{
    int victim, microseconds;
    if (!how || sscanf(how, "%d,%d", &victim, &microseconds) != 2)
        return;
    struct itimerval end = {{0, 0}, {microseconds / 1000000, microseconds % 1000000}};
    if (victim == check_rank || victim == -1)
        CHECK(setitimer(ITIMER_REAL, &end, NULL) == 0, "setitimer");
}

int main(int argc, char **argv)
{
    int rank, size, words[WORDS];
    MPI_File file;
    check_init(&argc, &argv);
    die_later(getenv("DIES"));
    rank = check_rank;
    size = check_size;
    int records = atoi(argv[3]), victim = atoi(argv[4]);
    int is_together = getenv("TOGETHER") != NULL;
    int sync_every = getenv("SYNC_EVERY") ? atoi(getenv("SYNC_EVERY")) : 0;
    off_t place = sync_every ? sizeof(int) : 0;
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", argv[2], rank);
    int told = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(told >= 0, "no file %s", name);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL,
                       &file));
    if (!strcmp(argv[4], "check")) {
        int count = 0;
        CHECK(pread(told, &count, sizeof count, place) == sizeof count, "rank %d told nothing",
              rank);
        for (int record = 0; record < count; record++) {
            MPI_Offset at = ((MPI_Offset)record * size + rank) * sizeof words;
            OK(MPI_File_read_at(file, at, words, WORDS, MPI_INT, MPI_STATUS_IGNORE));
            give_up_after_errors();
            compare(words, rank, record);
        }
        OK(MPI_File_close(&file));
        return check_finish();
    }
    for (int record = 0; record < records; record++) {
        MPI_Offset at = ((MPI_Offset)record * size + rank) * sizeof words;
        fill(words, rank, record);
        if (is_together)
            OK(MPI_File_write_at_all(file, at, words, WORDS, MPI_INT, MPI_STATUS_IGNORE));
        else
            OK(MPI_File_write_at(file, at, words, WORDS, MPI_INT, MPI_STATUS_IGNORE));
        give_up_after_errors();
        int count = record + 1;
        CHECK(pwrite(told, &count, sizeof count, 0) == sizeof count, "record %d", record);
        if (sync_every && count % sync_every == 0) {
            OK(MPI_File_sync(file));
            give_up_after_errors();
            CHECK(pwrite(told, &count, sizeof count, place) == sizeof count, "record %d", record);
        }
        /* What a rank has written, its neighbour reads without any synchronisation of the file. */
        if (record % 10 == 0) {
            int left = (rank + size - 1) % size;
            MPI_Barrier(MPI_COMM_WORLD);
            at = ((MPI_Offset)record * size + left) * sizeof words;
            OK(MPI_File_read_at(file, at, words, WORDS, MPI_INT, MPI_STATUS_IGNORE));
            give_up_after_errors();
            compare(words, left, record);
        }
        int is_to_die = isdigit(argv[4][strspn(argv[4], "-")]);
        if (record == records / 4 && is_to_die)
            OK(MPI_File_sync(file));
        int is_last = record == records / 2 && is_to_die;
        if (is_last && (victim == rank || victim == -1))
            kill(getpid(), SIGKILL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (strchr("fkoe", argv[4][0])) {
        not_drained(file, records, argv[4], argc > 5 ? argv[5] : NULL);
        return check_finish();
    }
    if (!strcmp(argv[4], "show")) {
        if (rank == 0)
            show(argv[1], records);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    OK(MPI_File_close(&file));
    return check_finish();
}
