/* For programs that verify themselves: every rank counts what went wrong, rank 0 prints "ok" if
 * nothing did. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_errors;
static int check_rank;
static int check_size;

/* Checks a condition and says what was found, in the manner of printf. */
#define CHECK(condition, ...)                                                                \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            if (check_errors++ < 20) {                                                       \
                fprintf(stderr, "rank %d, %s:%d: not (%s): ", check_rank, __FILE__, __LINE__, \
                        #condition);                                                         \
                fprintf(stderr, __VA_ARGS__);                                                \
                fprintf(stderr, "\n");                                                       \
            }                                                                                \
        }                                                                                    \
    } while (0)

static inline int check_class(int code)
{
    int found = code;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &found);
    return found;
}

static inline const char *check_text(int code)
{
    static char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (code == MPI_SUCCESS)
        return "MPI_SUCCESS";
    MPI_Error_string(code, text, &length);
    return text;
}

/* The call must return MPI_SUCCESS. */
#define OK(call)                                                                 \
    do {                                                                         \
        int check_code = (call);                                                 \
        CHECK(check_code == MPI_SUCCESS, "%s gave %s", #call, check_text(check_code)); \
    } while (0)

/* The call must fail with this error class. */
#define FAILS(call, expected)                                                        \
    do {                                                                             \
        int check_code = (call);                                                     \
        CHECK(check_class(check_code) == (expected), "%s gave class %d (%s), not %s", \
              #call, check_class(check_code), check_text(check_code), #expected);    \
    } while (0)

/* The status must tell exactly this many elements of the type. */
#define COUNT(status, type, expected)                                                \
    do {                                                                             \
        int check_count = -77;                                                       \
        MPI_Get_count((status), (type), &check_count);                               \
        CHECK(check_count == (expected), "count is %d, not %d", check_count, (int)(expected)); \
    } while (0)

static inline void check_init(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    if (*argc < 2) {
        fprintf(stderr, "usage: %s FILE\n", (*argv)[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

/* Adds up the errors of all ranks; only then is the file's content safe to look at by all. */
static inline int check_finish(void)
{
    int all = 0;
    MPI_Allreduce(&check_errors, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (check_rank == 0) {
        if (all == 0)
            printf("ok\n");
        else
            printf("%d errors\n", all);
    }
    fflush(stdout);
    MPI_Finalize();
    return all != 0;
}

/* The byte expected at an offset of a file that was filled with this pattern. */
static inline unsigned char pattern(long long offset)
{
    unsigned long long x = (unsigned long long)offset * 0x9E3779B97F4A7C15ULL;
    return (unsigned char)((x >> 32) ^ (x >> 56)) | 1;
}

/* Reads a whole file with POSIX calls, behind the back of MPI. The caller frees it. */
static inline unsigned char *check_slurp(const char *path, long *length)
{
    FILE *stream = fopen(path, "rb");
    unsigned char *bytes;
    *length = -1;
    if (!stream)
        return NULL;
    fseek(stream, 0, SEEK_END);
    *length = ftell(stream);
    rewind(stream);
    bytes = (unsigned char *)malloc(*length > 0 ? *length : 1);
    if (fread(bytes, 1, *length, stream) != (size_t)*length)
        *length = -1;
    fclose(stream);
    return bytes;
}

#endif
