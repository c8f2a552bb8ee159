/* Two processes write records with pwrite or write; see writers.h. */
#include "writers.h"

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
