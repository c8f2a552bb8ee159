/* Measures what pages of a memory file cost: new ones, ones that were allocated before they are
 * written, and ones that are used again.
 *
 *   memory_pages [ROUNDS] [MIB] [DIRECTORY]
 *
 * Prints milliseconds for MIB mebibytes, medians of ROUNDS rounds in which all follow each other.
 * With DIRECTORY, a mounted tmpfs, its files are used, to try its options, such as `huge=always`.
 * Bytes are moved by calls of 4 MiB, as coupled_steps.c moves them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 4 << 20, MOST = 1001 };
enum { NEW, ALLOCATE, ALLOCATED, USED, READ, FREE, KINDS };
static const char *const names[KINDS] = {
    "write to new pages", "allocate pages", "write to allocated pages",
    "write to used pages", "read", "free pages",
};
static double took[KINDS][MOST];
static size_t bytes;
static const char *directory;
static char *data;

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

static int memory(void) {
    int fd = directory ? open(directory, O_TMPFILE | O_RDWR, 0600)
                       : memfd_create("pages", MFD_CLOEXEC);
    if (fd < 0) fail("a memory file");
    return fd;
}

static void move(int fd, int writes) {
    for (size_t at = 0; at < bytes; at += PIECE) {
        ssize_t moved = writes ? pwrite(fd, data + at, PIECE, (off_t)at)
                               : pread(fd, data + at, PIECE, (off_t)at);
        if (moved != PIECE) fail("move");
    }
}

static int compare(const void *one, const void *other) {
    double left = *(const double *)one, right = *(const double *)other;
    return (left > right) - (left < right);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 21;
    bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 64) << 20;
    directory = argc > 3 ? argv[3] : NULL;
    if (rounds < 1 || rounds > MOST || bytes < PIECE) return 2;
    data = malloc(bytes);
    if (!data) fail("malloc");
    memset(data, 1, bytes);
    for (int round = 0; round < rounds; round++) {
        double start = now();
#define TOOK(kind) took[kind][round] = now() - start, start = now()
        int fd = memory();
        move(fd, 1);
        TOOK(NEW);
        move(fd, 1);
        TOOK(USED);
        move(fd, 0);
        TOOK(READ);
        close(fd);
        TOOK(FREE);
        fd = memory();
        if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes)) fail("fallocate");
        TOOK(ALLOCATE);
        move(fd, 1);
        TOOK(ALLOCATED);
        close(fd);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        qsort(took[kind], (size_t)rounds, sizeof took[kind][0], compare);
        printf("%-26s %8.2f ms\n", names[kind], took[kind][rounds / 2]);
    }
    return 0;
}
