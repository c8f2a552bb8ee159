/* All sequences of three calls on an open file: none may wait for ever, and what was written is in
 * the file at the end.
 *
 * usage: sequences FILE KINDS FIRST STEP
 *
 * KINDS calls of the table below are tried, as the first, the second and the third of a sequence;
 * of all sequences those with the numbers FIRST, FIRST + STEP, FIRST + 2 * STEP and so on.
 * Operations that are pending are completed before the file is closed. A sequence that takes longer
 * than LIMIT seconds ends the job and is named.
 */
#include "check.h"
#include <signal.h>
#include <unistd.h>

/* A place for each call of a sequence in which each rank has BYTES; the shared file pointer stays
 * below START. */
enum { LIMIT = 20, LENGTH = 3, BYTES = 96, START = 1 << 14, SIZE = 1 << 16 };

typedef struct {
    MPI_File file;
    MPI_Request requests[LENGTH];
    unsigned char out[LENGTH][BYTES], in[LENGTH][BYTES];
    /* The call of this number wrote to its place; and which split operation is to be ended. */
    int wrote[LENGTH], split[LENGTH];
} Job;

static MPI_Offset place(int step, int rank)
{
    return START + (MPI_Offset)(step * check_size + rank) * BYTES;
}

static MPI_Offset mine(int step)
{
    return place(step, check_rank);
}

/* What a read finds at the place of the first call. */
static MPI_Offset first(int step)
{
    (void)step;
    return mine(0);
}

#define CALL(name) static void call_##name(Job *job, int k)
#define OUT job->out[k], BYTES, MPI_BYTE
#define IN job->in[k], BYTES, MPI_BYTE

CALL(write_at) {
    job->wrote[k] = 1;
    OK(MPI_File_write_at(job->file, mine(k), OUT, MPI_STATUS_IGNORE));
}
CALL(write_at_all) {
    job->wrote[k] = 1;
    OK(MPI_File_write_at_all(job->file, mine(k), OUT, MPI_STATUS_IGNORE));
}
CALL(iwrite_at) {
    job->wrote[k] = 1;
    OK(MPI_File_iwrite_at(job->file, mine(k), OUT, &job->requests[k]));
}
CALL(iwrite_at_all) {
    job->wrote[k] = 1;
    OK(MPI_File_iwrite_at_all(job->file, mine(k), OUT, &job->requests[k]));
}
CALL(read_at) { OK(MPI_File_read_at(job->file, first(k), IN, MPI_STATUS_IGNORE)); }
CALL(read_at_all) { OK(MPI_File_read_at_all(job->file, first(k), IN, MPI_STATUS_IGNORE)); }
CALL(iread_at) { OK(MPI_File_iread_at(job->file, first(k), IN, &job->requests[k])); }
CALL(iread_at_all) { OK(MPI_File_iread_at_all(job->file, first(k), IN, &job->requests[k])); }
CALL(write_ordered) { OK(MPI_File_write_ordered(job->file, OUT, MPI_STATUS_IGNORE)); }
CALL(read_ordered) { OK(MPI_File_read_ordered(job->file, IN, MPI_STATUS_IGNORE)); }
CALL(sync) { (void)k; OK(MPI_File_sync(job->file)); }
CALL(set_size) { (void)k; OK(MPI_File_set_size(job->file, SIZE)); }
CALL(set_view) {
    (void)k;
    OK(MPI_File_set_view(job->file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}
CALL(get_size) { MPI_Offset size; (void)k; OK(MPI_File_get_size(job->file, &size)); }
CALL(split_write)
{
    job->wrote[k] = 1;
    job->split[k] = 1;
    OK(MPI_File_write_at_all_begin(job->file, mine(k), OUT));
}
CALL(split_read)
{
    job->split[k] = 2;
    OK(MPI_File_read_at_all_begin(job->file, first(k), IN));
}
CALL(write_shared) { OK(MPI_File_write_shared(job->file, OUT, MPI_STATUS_IGNORE)); }
CALL(iwrite_shared) { OK(MPI_File_iwrite_shared(job->file, OUT, &job->requests[k])); }
CALL(preallocate) { (void)k; OK(MPI_File_preallocate(job->file, SIZE)); }
CALL(atomicity) { OK(MPI_File_set_atomicity(job->file, k % 2)); }
CALL(seek_shared) { (void)k; OK(MPI_File_seek_shared(job->file, 0, MPI_SEEK_SET)); }
CALL(seek_end) { (void)k; OK(MPI_File_seek(job->file, 0, MPI_SEEK_END)); }
CALL(barrier) { (void)job; (void)k; MPI_Barrier(MPI_COMM_WORLD); }

static const struct {
    const char *name;
    void (*call)(Job *, int);
} CALLS[] = {
#define ROW(name) { #name, call_##name }
    ROW(iread_at_all),  ROW(sync),         ROW(write_at_all),  ROW(iread_at),    ROW(iwrite_at_all),
    ROW(read_at_all),   ROW(read_at),      ROW(write_at),      ROW(iwrite_at),   ROW(set_size),
    ROW(write_ordered), ROW(read_ordered), ROW(split_write),   ROW(split_read),  ROW(set_view),
    ROW(get_size),      ROW(write_shared), ROW(iwrite_shared), ROW(preallocate), ROW(atomicity),
    ROW(seek_shared),   ROW(seek_end),     ROW(barrier),
};
enum { ALL = sizeof CALLS / sizeof *CALLS };

static const char *names[LENGTH];

static void stuck(int signal)
{
    char text[256];
    int length = snprintf(text, sizeof text, "rank %d waits for ever: %s, %s, %s\n", check_rank,
                          names[0], names[1], names[2]);
    (void)signal;
    if (write(2, text, length) != length)
        _exit(4);
    _exit(3);
}

static void end_split(Job *job, int k)
{
    if (job->split[k] == 1)
        OK(MPI_File_write_at_all_end(job->file, job->out[k], MPI_STATUS_IGNORE));
    else if (job->split[k] == 2)
        OK(MPI_File_read_at_all_end(job->file, job->in[k], MPI_STATUS_IGNORE));
    job->split[k] = 0;
}

static void look(const char *path, const Job *job)
{
    unsigned char all[LENGTH * BYTES * 64];
    MPI_Offset length = (MPI_Offset)LENGTH * BYTES * check_size;
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL, "%s cannot be opened", path);
    if (!file)
        return;
    memset(all, 0, sizeof all);
    if (fseek(file, START, SEEK_SET) == 0)
        length = fread(all, 1, length, file);
    fclose(file);
    for (int k = 0; k < LENGTH; k++)
        for (int at = 0; job->wrote[k] && at < BYTES * check_size; at++) {
            int found = all[k * BYTES * check_size + at], wanted = 1 + k + 10 * (at / BYTES);
            if (found != wanted) {
                CHECK(found == wanted, "%s, %s, %s: byte %d of call %d is %d, not %d", names[0],
                      names[1], names[2], at, k, found, wanted);
                return;
            }
        }
}

static void sequence(const char *path, const int *calls)
{
    Job job;
    memset(&job, 0, sizeof job);
    for (int k = 0; k < LENGTH; k++) {
        names[k] = CALLS[calls[k]].name;
        job.requests[k] = MPI_REQUEST_NULL;
        memset(job.out[k], 1 + k + 10 * check_rank, BYTES);
    }
    alarm(LIMIT);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &job.file));
    OK(MPI_File_set_size(job.file, 0));
    for (int k = 0; k < LENGTH; k++) {
        /* There is one split operation of a file at a time, and no other collective call may come
         * between its halves. */
        for (int before = 0; before < k; before++)
            end_split(&job, before);
        CALLS[calls[k]].call(&job, k);
    }
    for (int k = 0; k < LENGTH; k++)
        end_split(&job, k);
    OK(MPI_Waitall(LENGTH, job.requests, MPI_STATUSES_IGNORE));
    for (int k = 1; k < LENGTH; k++) {
        /* What a blocking or split call has written before is read. */
        const char *reader = names[k], *writer = names[0];
        int reads = strstr(reader, "read") && !strstr(reader, "ordered");
        if (reads && job.wrote[0] && writer[0] != 'i')
            CHECK(job.in[k][0] == job.out[0][0] && job.in[k][BYTES - 1] == job.out[0][0],
                  "%s, %s, %s: read %d, not %d", names[0], names[1], names[2], job.in[k][0],
                  job.out[0][0]);
    }
    OK(MPI_File_close(&job.file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        look(path, &job);
    MPI_Barrier(MPI_COMM_WORLD);
    alarm(0);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int kinds = argc > 2 ? atoi(argv[2]) : ALL;
    int start = argc > 3 ? atoi(argv[3]) : 0, step = argc > 4 ? atoi(argv[4]) : 1;
    kinds = kinds < ALL ? kinds : ALL;
    signal(SIGALRM, stuck);
    long tried = 0;
    for (long number = start; number < (long)kinds * kinds * kinds; number += step, tried++) {
        int calls[LENGTH] = { number / kinds / kinds, number / kinds % kinds, number % kinds };
        sequence(argv[1], calls);
    }
    alarm(0);
    if (check_rank == 0)
        fprintf(stderr, "%ld sequences\n", tried);
    return check_finish();
}
