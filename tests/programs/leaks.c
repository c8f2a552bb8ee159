// Ways around write(2): whoever looks at a file, or writes to it, by any of them sees what was
// written before.
//
//   leaks FILE HELPER [one name]     HELPER is a program that appends standard input's bytes to
//                                    descriptor 9
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int wrong;
static const char *file;
static const char *helper;
static const char *what;

static int fresh(void) {
  unlink(file);
  int fd = open(file, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
  for (int i = 0; i < 5; i++) if (write(fd, "0123456789", 10) != 10) exit(9);
  return fd;
}
static void expect(int good, const char *text) {
  if (!good) {
    printf("%s: %s (%s)\n", what, text, strerror(errno));
    wrong = 1;
  }
}
// The file has `n` bytes as another program sees it.
static void holds(long n, const char *tail) {
  char command[4200], line[4200] = "";
  snprintf(command, sizeof command, "stat -c %%s '%s'; tail -c %zu '%s'", file, strlen(tail), file);
  FILE *f = popen(command, "r");
  size_t got = fread(line, 1, sizeof line - 1, f);
  pclose(f);
  line[got] = 0;
  char wanted[200];
  snprintf(wanted, sizeof wanted, "%ld\n%s", n, tail);
  if (strcmp(line, wanted)) {
    printf("%s: file is \"%s\", not \"%s\"\n", what, line, wanted);
    wrong = 1;
  }
}

static void sends(int fd) {
  int s[2];
  char got[100];
  off_t at = 0;
  socketpair(AF_UNIX, SOCK_STREAM, 0, s);
  expect(sendfile(s[0], fd, &at, 100) == 50, "50 bytes are sent");
  expect(read(s[1], got, 100) == 50 && !memcmp(got, "0123456789", 10), "the bytes are right");
  close(s[0]), close(s[1]);
}
static void splices(int fd) {
  int p[2];
  char got[100];
  loff_t at = 0;
  if (pipe(p)) exit(9);
  expect(splice(fd, &at, p[1], NULL, 100, 0) == 50, "50 bytes are spliced out");
  expect(read(p[0], got, 100) == 50, "50 bytes arrive");
  if (write(p[1], "spliced", 7) != 7) exit(9);
  expect(splice(p[0], NULL, fd, NULL, 7, 0) == 7, "7 bytes are spliced in, at the position");
  holds(57, "9spliced");
  close(p[0]), close(p[1]);
}
static void tees(int fd) {
  int p[2], q[2];
  struct iovec v = {"vmspliced", 9};
  if (pipe(p) || pipe(q)) exit(9);
  expect(vmsplice(p[1], &v, 1, 0) == 9, "9 bytes are in the pipe");
  expect(tee(p[0], q[1], 9, 0) == 9, "and in another one");
  expect(splice(q[0], NULL, fd, NULL, 9, 0) == 9, "9 bytes are spliced in, at the position");
  expect(write(fd, "!", 1) == 1, "a write after it");
  holds(60, "9vmspliced!");
  close(p[0]), close(p[1]), close(q[0]), close(q[1]);
}
static void copies(int fd) {
  loff_t from = 40, to = 50;
  expect(copy_file_range(fd, &from, fd, &to, 10, 0) == 10, "10 bytes are copied");
  expect(write(fd, "!", 1) == 1, "the position has not moved");
  holds(60, "!123456789");
}
static void maps(int fd) {
  char *at = mmap(NULL, 50, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  expect(at != MAP_FAILED && !memcmp(at + 40, "0123456789", 10), "the bytes are mapped");
  at[49] = 'm';
  expect(write(fd, "after", 5) == 5, "a write after it");
  holds(55, "8mafter");
  munmap(at, 50);
}
static void maps_privately(int fd) {
  char *at = mmap(NULL, 50, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  expect(at != MAP_FAILED && !memcmp(at + 40, "0123456789", 10), "the bytes are mapped");
  at[49] = 'p';
  expect(write(fd, "after", 5) == 5, "a write after it");
  holds(55, "89after");
  munmap(at, 50);
}
static void calls(int fd) {
  char got[20];
  expect(syscall(SYS_write, fd, "called", 6) == 6, "write by its number");
  expect(syscall(SYS_pread64, fd, got, 10, 46L) == 10 && !memcmp(got, "6789called", 10),
         "pread by its number");
  expect(write(fd, "and", 3) == 3, "a write after it");
  holds(59, "9calledand");
}
static void rings(int fd) {
  struct io_uring_params p = {0};
  int ring = syscall(SYS_io_uring_setup, 2, &p);
  if (ring < 0) return;
  unsigned char *sq =
      mmap(NULL, p.sq_off.array + 8, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
  struct io_uring_sqe *e =
      mmap(NULL, 2 * sizeof *e, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
  if (write(fd, "before", 6) != 6) exit(9);
  memset(e, 0, sizeof *e);
  e->opcode = IORING_OP_WRITE, e->fd = fd, e->addr = (unsigned long)"ring", e->len = 4, e->off = 56;
  *(unsigned *)(sq + p.sq_off.array) = 0;
  __atomic_store_n((unsigned *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
  expect(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1,
         "a request is taken");
  holds(60, "beforering");
  close(ring);
}
static void queues(int fd) {
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, 2, &context)) return;
  if (write(fd, "before", 6) != 6) exit(9);
  struct iocb block = {.aio_lio_opcode = IOCB_CMD_PWRITE,
                       .aio_fildes = fd,
                       .aio_buf = (unsigned long)"queue",
                       .aio_nbytes = 5,
                       .aio_offset = 56};
  struct iocb *list[] = {&block};
  struct io_event event;
  expect(syscall(SYS_io_submit, context, 1, list) == 1, "a request is taken");
  expect(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1, "it ends");
  holds(61, "beforequeue");
  syscall(SYS_io_destroy, context);
}
static void asks(int fd) {
  char text[] = "asked";
  struct aiocb block = {.aio_fildes = fd, .aio_buf = text, .aio_nbytes = 5, .aio_offset = 50};
  const struct aiocb *list[] = {&block};
  expect(aio_write(&block) == 0, "a request is taken");
  while (aio_error(&block) == EINPROGRESS) aio_suspend(list, 1, NULL);
  holds(55, "89asked");
}
static void helps(int fd) {
  int p[2], status;
  if (pipe(p)) exit(9);
  pid_t child = fork();
  if (child == 0) {
    dup2(p[0], 0), dup2(fd, 9), close(p[1]);
    execl(helper, helper, (char *)NULL);
    _exit(1);
  }
  close(p[0]);
  if (write(p[1], "static", 6) != 6) exit(9);
  close(p[1]);
  waitpid(child, &status, 0);
  expect(status == 0, "the helper ends well");
  expect(write(fd, "back", 4) == 4, "a write after it");
  holds(60, "9staticback");
}
// As a program does that has no C library.
static long raw(long number, long a, long b, long c, long d) {
#if defined __x86_64__
  long result;
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
#else
  return syscall(number, a, b, c, d);
#endif
}
static void raw_child(int fd) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    char got[10];
    if (raw(SYS_pread64, fd, (long)got, 10, 40) != 10 || memcmp(got, "0123456789", 10)) _exit(1);
    _exit(raw(SYS_write, fd, (long)"raw", 3, 0) != 3);
  }
  waitpid(child, &status, 0);
  expect(status == 0, "the child reads and writes");
  expect(write(fd, "back", 4) == 4, "a write after it");
  holds(57, "9rawback");
}
static void reopens(int fd) {
  char name[60], got[60];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  int other = open(name, O_RDWR);
  expect(other >= 0 && read(other, got, 60) == 50 && !memcmp(got + 40, "0123456789", 10),
         "the bytes are read");
  expect(write(other, "again", 5) == 5 && pread(fd, got, 10, 45) == 10 &&
             !memcmp(got, "56789again", 10),
         "a write through it");
  expect(write(fd, "b", 1) == 1, "the position is not shared");
  holds(55, "9bgain");
  close(other);
}
static void executes(int fd) {
  static const char script[] = "#!/bin/sh\necho executed\n";
  char *arguments[] = {"script", NULL}, name[60], line[60] = "";
  int p[2], closed[2];
  if (pipe(p) || pipe(closed) || ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET)) exit(9);
  for (const char *at = script; *at; at++) if (write(fd, at, 1) != 1) exit(9);
  fchmod(fd, 0755);
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  pid_t child = fork();
  if (child == 0) {
    // Nobody may have it open for writing, and the script is read by its interpreter.
    int own = open(name, O_RDONLY);
    close(fd), close(closed[1]), dup2(p[1], 1), fcntl(own, F_SETFD, 0);
    // The parent has closed it when the pipe ends.
    if (read(closed[0], line, 1) != 0) _exit(2);
    fexecve(own, arguments, arguments + 1);
    _exit(1);
  }
  close(closed[0]), close(p[1]), close(fd), close(closed[1]);
  expect(read(p[0], line, 59) == 9 && !strcmp(line, "executed\n"), "the script runs");
  close(p[0]);
  waitpid(child, NULL, 0);
  expect(open(file, O_RDWR) == fd, "the number is the lowest free one");
}
static void passes(int fd) {
  int s[2], got = -1, status;
  socketpair(AF_UNIX, SOCK_DGRAM, 0, s);
  pid_t child = fork();
  char byte = 'x', room[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec v = {&byte, 1};
  struct msghdr m = {
      .msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  if (child == 0) {
    if (recvmsg(s[1], &m, 0) != 1) _exit(1);
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof got);
    _exit(write(got, "passed", 6) != 6);
  }
  int other = open(file, O_WRONLY);
  for (int i = 0; i < 3; i++) if (pwrite(other, "abc", 3, 50 + 3 * i) != 3) exit(9);
  lseek(other, 59, SEEK_SET);
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(c), &other, sizeof other);
  expect(sendmsg(s[0], &m, 0) == 1, "a descriptor is sent");
  waitpid(child, &status, 0);
  expect(status == 0, "the child writes");
  holds(65, "abcpassed");
  close(other), close(s[0]), close(s[1]);
  (void)fd;
}
static void streams(int fd) {
  FILE *f = fopen(file, "r+");
  char line[20] = "";
  expect(f && fread(line, 1, 12, f) == 12 && !strcmp(line, "012345678901"),
         "a stream reads what was written");
  fseek(f, 0, SEEK_END);
  fputs("streamed", f);
  fclose(f);
  expect(pread(fd, line, 8, 50) == 8 && !memcmp(line, "streamed", 8),
         "what a stream wrote is read");
  holds(58, "9streamed");
}
static void links(int fd) {
  char other[4200];
  struct stat facts;
  snprintf(other, sizeof other, "%s.link", file);
  expect(link(file, other) == 0, "a second name");
  if (write(fd, "linked", 6) != 6) exit(9);
  int second = open(other, O_RDONLY);
  expect(fstat(second, &facts) == 0 && facts.st_size == 56, "its size under the other name");
  expect(lseek(second, 0, SEEK_END) == 56, "its end under the other name");
  close(second);
  unlink(other);
}

int main(int argc, char **argv) {
  static const struct { const char *name; void (*run)(int);
  } ways[] = {{"sendfile", sends},
              {"splice", splices},
              {"copy_file_range", copies},
              {"mmap", maps},
              {"syscall", calls},
              {"tee and vmsplice", tees},
              {"private mmap", maps_privately},
              {"child without the library", raw_child},
              {"/proc/self/fd", reopens},
              {"fexecve", executes},
              {"aio", asks},
              {"static child", helps},
              {"descriptor in a message", passes},
              {"stream", streams},
              {"hard link", links},
              {"libaio", queues},
              {"io_uring", rings}};
  if (argc < 3) return 2;
  file = argv[1], helper = argv[2];
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    what = ways[i].name;
    // A container has one name.
    if (argc > 3 && ways[i].run == links) continue;
    int fd = fresh();
    ways[i].run(fd);
    expect(close(fd) == 0, "close");
  }
  if (!wrong) printf("ok\n");
  return wrong;
}
