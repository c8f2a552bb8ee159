/* Reads a file of numbered lines of 16 bytes in small pieces, changing it meanwhile, and prints
 * what it saw.
 *
 * usage: small_reads FILE
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned long sum(unsigned long before, const char *data, ssize_t length)
{
    for (ssize_t i = 0; i < length; i++)
        before = before * 31 + (unsigned char)data[i];
    return before;
}

static void show(const char *what, const char *data, ssize_t length)
{
    printf("%s %zd %.*s\n", what, length, length > 15 ? 15 : (int)(length < 0 ? 0 : length), data);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 1;
    char data[200];
    ssize_t length;
    unsigned long all = 0, count = 0;
    int fd = open(argv[1], O_RDWR), other = open(argv[1], O_RDWR), copy = dup(fd);
    while ((length = read(count % 3 ? fd : copy, data, 64)) > 0)
        all = sum(all, data, length), count++;
    printf("in a row %lu %lu, at %ld\n", count, all, (long)lseek(copy, 0, SEEK_CUR));
    for (off_t at = 0; (length = pread(fd, data, 100, at)) > 0; at += 150)
        all = sum(all, data, length);
    printf("with gaps %lu\n", all);

    int blind = open(argv[1], O_WRONLY);
    printf("open for writing %zd %zd\n", read(blind, data, 16), pread(blind, data, 16, 4080));
    close(blind);
    lseek(fd, 0, SEEK_SET);
    for (int i = 0; i < 5; i++)
        length = read(fd, data, 16);
    show("before", data, length);
    if (pwrite(other, "another          ", 16, 80) != 16 ||
        pwrite(other, "and one more   \n", 16, 96) != 16)
        return 2;
    show("another descriptor's", data, read(fd, data, 16));
    if (write(fd, "at the position\n", 16) != 16)
        return 2;
    show("after one's own", data, pread(fd, data, 32, 96));
    if (ftruncate(other, 130))
        return 2;
    show("shorter", data, read(fd, data, 64));
    show("at the end", data, read(fd, data, 64));
    if (pwrite(other, "more\n", 5, 130) != 5)
        return 2;
    show("longer", data, read(fd, data, 64));
    lseek(fd, 0, SEEK_SET);
    for (int i = 0; i < 4; i++)
        length = read(fd, data, 16);
    if (truncate(argv[1], 70) || truncate(argv[1], 100))
        return 2;
    show("zeros", data, read(fd, data, 16));
    printf("%d at %ld\n", data[7], (long)lseek(fd, 0, SEEK_CUR));
    int again = open(argv[1], O_WRONLY | O_TRUNC);
    show("cut by its name", data, read(fd, data, 16));
    return close(again) || close(fd) || close(copy) || close(other);
}
