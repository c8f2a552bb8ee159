/* Two processes write records by stores to a mapping and by pwrite; see writers.h. One of the two
 * makes the file longer while the other has it mapped. */
#include "writers.h"

#include <sys/mman.h>

static int work(const char *path, const char *acknowledged, int process, int records, int length)
{
    int acks = open(acknowledged, O_CREAT | O_WRONLY | O_APPEND, 0600);
    int fd = open(path, O_CREAT | O_RDWR, 0644);
    char *data = malloc(length), *at = MAP_FAILED;
    off_t half = (off_t)records * length, total = 2 * half;
    if (acks < 0 || fd < 0 || !data || posix_fallocate(fd, 0, half))
        return 2;
    for (int i = 0; i < records; i++) {
        off_t offset = (off_t)(2 * i + process) * length;
        if (i == records / 2 &&
            (posix_fallocate(fd, 0, total) || (at != MAP_FAILED && munmap(at, half))))
            return 3;
        if (i == 0 || i == records / 2)
            at = mmap(NULL, i ? total : half, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED)
            return 4;
        memset(data, 1 + (7 * i + process) % 255, length);
        if (i % 2 == 0)
            memcpy(at + offset, data, length);
        else if (pwrite(fd, data, length, offset) != length || memcmp(at + offset, data, length))
            return 5;
        tell(acks, "w", process, i);
    }
    if (msync(at, total, MS_ASYNC) || munmap(at, total) || close(fd))
        return 6;
    tell(acks, "c", process, records);
    return 0;
}
