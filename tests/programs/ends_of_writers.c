// Writes small records to FILE, acknowledges each, and ends in the way that its second argument
// says. With SYNC_AFTER=NUMBER it synchronises the file after so many records.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const char *end = argv[2];
  long records = atol(argv[3]);
  const char *sync_after = getenv("SYNC_AFTER");
  int fd = open(argv[1], O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (fd < 0) return 3;
  for (long i = 0; i < records; i++) {
    char record[32];
    snprintf(record, sizeof record, "%015ld\n", i);
    if (write(fd, record, 16) != 16) return 4;
    if (sync_after && atol(sync_after) == i + 1 && fsync(fd)) return 5;
  }
  if (!strcmp(end, "return")) return 0;
  if (!strcmp(end, "exit")) exit(0);
  if (!strcmp(end, "_exit")) _exit(0);
  if (!strcmp(end, "_Exit")) _Exit(0);
  if (!strcmp(end, "quick_exit")) quick_exit(0);
  if (!strcmp(end, "abort")) abort();
  if (!strcmp(end, "close")) return close(fd) ? 5 : (raise(SIGKILL), 6);
  if (!strcmp(end, "fsync")) return fsync(fd) ? 5 : (raise(SIGKILL), 6);
  if (!strcmp(end, "execl")) execl("/bin/true", "true", (char *)NULL);
  if (!strcmp(end, "execv")) execv("/bin/true", (char *[]){"true", NULL});
  if (!strcmp(end, "kill")) {
    // The raise of the C library would be seen.
    __asm__ volatile("syscall" : : "a"(62), "D"(getpid()), "S"(SIGKILL) : "rcx", "r11", "memory");
  }
  if (!strcmp(end, "wait")) {
    printf("written\n");
    fflush(stdout);
    for (;;) pause();
  }
  return 7;
}
