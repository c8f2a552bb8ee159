/* Two programs that hand steps to each other: two FIFOs in a directory, `ready` and `done`, tell
 * that a step is complete and that it was read, so that nobody polls. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The directory. */
static const char *place;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int fifo(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", place, name);
    if (mkfifo(path, 0600) && errno != EEXIST) fail(path);
    int fd = open(path, O_RDWR);
    if (fd < 0) fail(path);
    return fd;
}

static void tell(int fd) {
    if (write(fd, "x", 1) != 1) fail("tell");
}

static void hear(int fd) {
    char byte;
    if (read(fd, &byte, 1) != 1) fail("hear");
}
