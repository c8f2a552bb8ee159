/* The program of `coupled_oracle.c`, and the contents of its files after each step: all processes,
 * writers and readers, draw the same numbers. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 40, STATES = 48, GENERATIONS = 64 };

/* A generation is written under the name of the file, or under another name, coupled or on disk,
 * and renamed; or a rank appends to the file without MPI-IO. */
enum { IN_PLACE, RENAMED, FROM_DISK, APPENDED };

/* A file and its expected contents. Bytes behind its end are zeros. */
struct file {
    char name[1000], written_as[1100];
    char *bytes;
    signed char *owner; /* the rank that wrote a byte since the last synchronisation, or -1 */
    long size;
    int is_early; /* readers can read it when it is synchronised */
    int way, reads, posix, was_read;
    MPI_File open;
    /* The states of a generation that readers may see: those since its first synchronisation. */
    char *states[STATES];
    long most;
    int count;
    /* The contents of each generation when it is complete, if readers may skip some. */
    int is_latest, known;
    char *finals[GENERATIONS];
    long sizes[GENERATIONS];
};

/* One of the ordered pieces of a range, for a rank. Bytes of other ranks are left out. */
struct piece { long offset, len; int rank; };

static unsigned long state;
/* Changes the values, so that generations with the same pieces differ. */
static unsigned long salt;
static long limit;
static int rank, ranks, writers, failures;

static unsigned long draw(unsigned long below) {
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    unsigned long x = state;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdul;
    return (x ^ x >> 29) % below;
}

/* Whether to print a difference: true for the first five. */
static int is_worth_saying(void) { return failures++ < 5; }

static void compare(const struct file *f, const char *found, long offset, long len,
                    const char *what) {
    for (long i = 0; i < len; i++) {
        if (found[i] == f->bytes[offset + i]) continue;
        if (is_worth_saying())
            printf("rank %d, %s: byte %ld of %ld is %d, not %d\n", rank, what, offset + i, f->size,
                   found[i], f->bytes[offset + i]);
        fflush(stdout);
        return;
    }
}

/* Checks that each byte has a value that it had since the file could be read. */
static void compare_with_states(const struct file *f, const char *found, long len,
                                const char *what) {
    if (len > f->most && is_worth_saying())
        printf("rank %d, %s: %ld bytes, not %ld at most\n", rank, what, len, f->most);
    for (long i = 0; i < len && i < f->most; i++) {
        int is_known = 0;
        for (int one = f->count - 1; one >= 0 && !is_known; one--)
            is_known = f->states[one][i] == found[i];
        if (is_known) continue;
        if (is_worth_saying())
            printf("rank %d, %s: byte %ld of %ld was never %d, not when it could be read\n", rank,
                   what, i, len, found[i]);
        return;
    }
}

/* Adds the current contents to the states that readers may see. */
static void remember(struct file *f) {
    if (!f->is_early || f->count == STATES) return;
    if (!f->states[f->count]) f->states[f->count] = malloc(limit);
    memcpy(f->states[f->count++], f->bytes, limit);
    if (f->size > f->most) f->most = f->size;
}

/* Keeps the current contents, which are those of the complete generation `number`. */
static void keep_final(struct file *f, int number) {
    f->finals[number] = malloc(limit);
    memcpy(f->finals[number], f->bytes, limit);
    f->sizes[number] = f->size;
}

/* Sets the contents to those of the oldest generation from `least` to `last` that has the bytes in
 * `found`. Returns its number, or `last` if there is none, which is an error. */
static int which_generation(struct file *f, const char *found, long len, int least, int last) {
    int number = least > 0 ? least : 1;
    while (number <= last &&
           (f->sizes[number] != len || memcmp(found, f->finals[number], (size_t)len)))
        number++;
    if (number > last && is_worth_saying())
        printf("rank %d, %s: %ld bytes, not those of a generation from %d to %d\n", rank, f->name,
               len, least, last);
    number = number > last ? last : number;
    memcpy(f->bytes, f->finals[number], limit), f->size = f->sizes[number];
    return number;
}

static void forget_owners(struct file *f) { memset(f->owner, -1, limit); }

static void cut(struct file *f, long to) {
    if (to < f->size) {
        memset(f->bytes + to, 0, limit - to);
        memset(f->owner + to, -1, limit - to);
    }
    f->size = to;
}

static int pieces(const struct file *f, struct piece *all, int one) {
    long most = 1 + draw(limit), at = draw(limit - most + 1), end = at + most;
    long about = 1 + most / (1 + draw(PIECES));
    int count = 0;
    while (at < end && count < PIECES) {
        long len = 1 + draw(2 * about);
        if (len > end - at) len = end - at;
        int whose = one >= 0 ? one : (int)draw(writers);
        int is_hole = draw(5) == 0;
        for (long i = at; i < at + len && !is_hole; i++)
            is_hole = f->owner[i] >= 0 && f->owner[i] != whose;
        if (!is_hole) all[count++] = (struct piece){at, len, whose};
        at += len;
    }
    return count;
}

/* Sets the bytes of the pieces. */
static void put(struct file *f, const struct piece *all, int count) {
    int kind = draw(3);
    for (int i = 0; i < count; i++)
        for (long at = all[i].offset; at < all[i].offset + all[i].len; at++) {
            char value = kind == 0   ? (char)(draw(256) ^ salt)
                         : kind == 1 ? 0
                         : at % 8    ? 0
                                     : (char)(draw(4) ^ (salt & 3));
            f->bytes[at] = value;
            f->owner[at] = (signed char)all[i].rank;
            if (at >= f->size) f->size = at + 1;
        }
}
