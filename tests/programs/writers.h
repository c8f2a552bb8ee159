/* For two processes that write records of one file by turns and tell in another file what was
 * acknowledged.
 *
 * usage: PROGRAM FILE ACKNOWLEDGED RECORDS LENGTH
 *
 * Record i of process p holds bytes of the value 1 + (7 * i + p) % 255 at offset (2 * i + p) *
 * LENGTH. Lines of ACKNOWLEDGED: `w P I` record I is written, `s P I` an fsync after record I, `c
 * P` closed.
 */
#ifndef WRITERS_H
#define WRITERS_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What each of the two does; 0, or the number of what went wrong. */
static int work(const char *path, const char *acknowledged, int process, int records, int length);

static void tell(int fd, const char *what, int process, int record)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s %d %d\n", what, process, record);
    if (write(fd, line, length) != length)
        _exit(9);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 1;
    int records = atoi(argv[3]), length = atoi(argv[4]), status = 0;
    pid_t child = fork();
    if (child < 0)
        return 1;
    if (!child)
        return work(argv[1], argv[2], 1, records, length);
    int result = work(argv[1], argv[2], 0, records, length);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return result ? result : status ? 6 : 0;
}

#endif
