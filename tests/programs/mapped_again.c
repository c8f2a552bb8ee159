/* A file that is mapped, closed, and opened again while the mapping is there: stores and writes are
 * one file. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define REQUIRE(condition, what) \
    if (!(condition))            \
    return printf("not so: %s\n", what), 1

int main(int argc, char **argv) {
    (void)argc;
    char seen[16] = "";
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    REQUIRE(write(fd, "0123456789abcdef", 16) == 16, "the first bytes are written");
    char *map = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(map != MAP_FAILED, "the file is mapped");
    close(fd);

    fd = open(argv[1], O_RDWR);
    for (int i = 0; i < 7; i++)
        REQUIRE(pwrite(fd, "WRITTEN" + i, 1, i) == 1, "bytes are written, one after the other");
    REQUIRE(memcmp(map, "WRITTEN789abcdef", 16) == 0, "the mapping has what was written");
    memcpy(map + 8, "STORED", 6);
    REQUIRE(pread(fd, seen, 16, 0) == 16, "bytes are read");
    REQUIRE(memcmp(seen, "WRITTEN7STOREDef", 16) == 0, "a read has what was stored");
    memcpy(map + 8, "stored", 6);
    REQUIRE(pread(fd, seen, 8, 8) == 8, "bytes are read again");
    REQUIRE(memcmp(seen, "storedef", 8) == 0, "a second read has what was stored since");
    REQUIRE(close(fd) == 0, "the file is closed");
    REQUIRE(munmap(map, 16) == 0, "the mapping ends");
    return 0;
}
