/* Two processes write records of one file by turns, with pwrite or write, and tell in another file what was acknowledged.
 *
 * usage: two_writers FILE ACKNOWLEDGED RECORDS LENGTH
 *
 * Record i of process p holds bytes of the value 1 + (7 * i + p) % 255 at offset (2 * i + p) * LENGTH.
 * Lines of ACKNOWLEDGED: `w P I` record I is written, `s P I` an fsync after record I, `c P` closed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(int fd, const char *what, int process, int record)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s %d %d\n", what, process, record);
    if (write(fd, line, length) != length)
        _exit(9);
}

static int work(const char *path, const char *acknowledged, int process, int records, int length)
{
    int acks = open(acknowledged, O_CREAT | O_WRONLY | O_APPEND, 0600);
    int fd = open(path, O_CREAT | O_WRONLY, 0644);
    char *data = malloc(length);
    if (acks < 0 || fd < 0 || !data)
        return 2;
    for (int i = 0; i < records; i++) {
        off_t offset = (off_t)(2 * i + process) * length;
        memset(data, 1 + (7 * i + process) % 255, length);
        if (i % 3 == 2 ? lseek(fd, offset, SEEK_SET) != offset || write(fd, data, length) != length
                       : pwrite(fd, data, length, offset) != length)
            return 3;
        tell(acks, "w", process, i);
        if (i == records / 2) {
            if (fsync(fd))
                return 4;
            tell(acks, "s", process, i);
        }
    }
    if (close(fd))
        return 5;
    tell(acks, "c", process, records);
    return 0;
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
