// Writes three small records to FILE that do not touch each other, and makes them durable.
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  int fd = open(argv[1], O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (fd < 0 || write(fd, "....", 4) != 4) return 3;
  if (pwrite(fd, "aa", 2, 10) != 2 || pwrite(fd, "bb", 2, 20) != 2 || pwrite(fd, "cc", 2, 30) != 2)
    return 4;
  return fsync(fd) || close(fd);
}
