/* Measures how fast one program hands steps of bytes to another one by files.
 *
 *   coupled_steps write|read files|memory DIRECTORY STEPS MIB [REST]
 *
 * Start both, in any order. The writer is at most one step ahead. `memory` copies through two
 * mapped files that are used again and again: no file system can be faster. The reader checks every
 * page and prints MiB/s, without the first two steps. It rests REST milliseconds after each step,
 * as one does that computes something, which does not count. */
#define _GNU_SOURCE
#include "handing.h"
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { PIECE = 4 << 20, PAGE = 4096 };
static size_t bytes;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static char *slot(int number) {
    char path[4096];
    snprintf(path, sizeof path, "%s/slot.%d", place, number);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes)) fail(path);
    char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (map == MAP_FAILED) fail("mmap");
    close(fd);
    return map;
}

static int step_file(int step, int flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s/step.%d", place, step % 2);
    int fd = open(path, flags, 0600);
    if (fd < 0) fail(path);
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 6 && argc != 7) return 2;
    int rest = argc == 7 ? atoi(argv[6]) : 0;
    int writes = argv[1][0] == 'w', files = argv[2][0] == 'f', steps = atoi(argv[4]);
    place = argv[3];
    bytes = (size_t)atoi(argv[5]) << 20;
    int ready = fifo("ready"), done = fifo("done");
    char *data = malloc(bytes), *slots[2] = {NULL, NULL};
    if (!data) fail("malloc");
    memset(data, 1, bytes);
    if (!files) slots[0] = slot(0), slots[1] = slot(1);
    double began = 0;
    for (int step = 0; step < steps; step++) {
        if (writes) {
            for (size_t at = 0; at < bytes; at += PAGE) memcpy(data + at, &step, sizeof step);
            if (step >= 2) hear(done);
            int fd = files ? step_file(step, O_WRONLY | O_CREAT | O_TRUNC) : -1;
            for (size_t at = 0; at < bytes; at += PIECE)
                if (!files)
                    memcpy(slots[step % 2] + at, data + at, PIECE);
                else if (write(fd, data + at, PIECE) != PIECE)
                    fail("write");
            if (files && close(fd)) fail("close");
            tell(ready);
            continue;
        }
        if (step == 2) began = now();
        hear(ready);
        int fd = files ? step_file(step, O_RDONLY) : -1;
        for (size_t at = 0; at < bytes; at += PIECE)
            if (!files)
                memcpy(data + at, slots[step % 2] + at, PIECE);
            else if (read(fd, data + at, PIECE) != PIECE)
                fail("read");
        if (files && close(fd)) fail("close");
        tell(done);
        for (size_t at = 0; at < bytes; at += PAGE)
            if (memcmp(data + at, &step, sizeof step)) {
                fprintf(stderr, "step %d: wrong bytes at %zu\n", step, at);
                return 1;
            }
        double resting = now();
        if (rest) usleep((useconds_t)rest * 1000);
        began += now() - resting;
    }
    if (!writes)
        printf("%.0f\n", (double)(steps - 2) * (double)bytes / (1 << 20) / (now() - began));
    return 0;
}
