// Two processes that share a file by mappings, reads and writes; one of them is killed.
//
//   mappers FILE
//
// Prints what each of them sees. Neither opens the file before the other exists.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 20000, PAGE = 4096 };
static const char *path;
static int to_one[2], to_other[2];

static void must(const char *what, int holds) {
  if (!holds) perror(what), exit(9);
}
static void say(int fd) { must("write to a pipe", write(fd, "x", 1) == 1); }
static void await(int fd) {
  char byte;
  must("read of a pipe", read(fd, &byte, 1) == 1);
}
static char *map(int fd) {
  char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  must("mmap", at != MAP_FAILED);
  return at;
}
static void see(const char *who, const char *at, int place) {
  printf("%s at %d: %.7s\n", who, place, at + place);
  fflush(stdout);
}
static void one(void) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  must("open", fd >= 0 && ftruncate(fd, SIZE) == 0);
  must("pwrite", pwrite(fd, "before ", 7, 5000) == 7);
  char *at = map(fd);
  close(fd);
  see("one", at, 5000);
  memcpy(at + 100, "stored ", 7);
  // An exec that fails ends nothing.
  char *nothing[] = {"/nonexistent", NULL};
  must("no exec", execv(nothing[0], nothing) == -1);
  say(to_other[1]);
  await(to_one[0]);
  see("one", at, 4093);
  see("one", at, 9000);
  // The other one has cut the file, and made it longer than it was.
  see("one", at, 20100);
  memcpy(at + 19990, "tail   ", 7);
  memcpy(at + 12000, "last   ", 7);
  say(to_other[1]);
  kill(getpid(), SIGKILL);
}
static void other(void) {
  char room[8] = "";
  await(to_other[0]);
  int fd = open(path, O_RDWR);
  must("open", fd >= 0);
  must("pread", pread(fd, room, 7, 100) == 7);
  see("other", room, 0);
  must("pwrite", pwrite(fd, "written", 7, 4093) == 7);
  char *at = map(fd);
  memcpy(at + 9000, "shared ", 7);
  must("ftruncate", ftruncate(fd, 15000) == 0);
  must("pwrite", pwrite(fd, "grown  ", 7, 20100) == 7);
  say(to_one[1]);
  await(to_other[0]);
  see("other", at, 12000);
  must("pread", pread(fd, room, 7, 12000) == 7);
  see("other", room, 0);
  must("pread", pread(fd, room, 7, 19990) == 7);
  see("other", room, 0);
  memcpy(at + 16000, "alone  ", 7);
  must("msync", msync(at, SIZE, MS_SYNC) == 0 && munmap(at, SIZE) == 0 && close(fd) == 0);
}
int main(int argc, char **argv) {
  if (argc != 2) return 2;
  path = argv[1];
  must("pipe", pipe(to_one) == 0 && pipe(to_other) == 0);
  void (*works[])(void) = {one, other};
  pid_t children[2];
  for (int i = 0; i < 2; i++) {
    children[i] = fork();
    if (children[i] == 0) works[i](), exit(0);
  }
  for (int i = 0; i < 2; i++) {
    int status;
    must("waitpid", waitpid(children[i], &status, 0) == children[i]);
    printf("%s ended: %d %d\n", i ? "other" : "one", WIFSIGNALED(status),
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }
  return 0;
}
