// Ways past the C library's read and write on a container: what each gives, and that no byte is
// wrong after it.
//
//   container_leaks FILE HELPER     HELPER is a static program that copies standard input to
//                                   descriptor 9
//
// Prints a line for each way: "ok" if it was served, with the right bytes, or the error. After each
// way the file must hold what it held, or what the way wrote; this is looked at through another
// open file.
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *file, *helper;
static char shall[200], room[200];
static long len;

// The kernel as a program calls it that has no C library.
static long raw(long number, long a, long b, long c, long d) {
  long result;
#if defined __x86_64__
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
#else
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b,
                   x2 __asm__("x2") = c, x3 __asm__("x3") = d;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  result = x0;
#endif
  if (result >= -4095 && result < 0) return errno = -result, -1;
  return result;
}
static void put(long at, const char *text) {
  memcpy(shall + at, text, strlen(text));
  if (at + (long)strlen(text) > len) len = at + strlen(text);
}
// The errno of a result that failed; -1 if what was got is wrong.
static int failed(long result) { return result < 0 ? errno : 0; }
static int read_right(long result, const char *got, long at, long n) {
  if (result < 0) return errno;
  return result == n && !memcmp(got, shall + at, n) ? 0 : -1;
}
static int wrote(long result, long at, const char *text) {
  if (result < 0) return errno;
  if (result != (long)strlen(text)) return -1;
  put(at, text);
  return 0;
}

static int sendfile_from(int fd) {
  int s[2];
  off_t at = 3;
  socketpair(AF_UNIX, SOCK_STREAM, 0, s);
  long sent = sendfile(s[0], fd, &at, 10);
  if (sent > 0) sent = read(s[1], room, sent);
  close(s[0]), close(s[1]);
  return read_right(sent, room, 3, 10);
}
static int sendfile_to(int fd) {
  char bytes[11] = "";
  int from = open("/etc/passwd", O_RDONLY);
  if (pread(from, bytes, 10, 0) != 10) return -1;
  int r = failed(sendfile(fd, from, NULL, 10));
  close(from);
  put(50, bytes);
  return r;
}
static int splice_from(int fd) {
  int p[2];
  loff_t at = 3;
  if (pipe(p)) exit(9);
  long n = splice(fd, &at, p[1], NULL, 10, 0);
  if (n > 0) n = read(p[0], room, n);
  close(p[0]), close(p[1]);
  return read_right(n, room, 3, 10);
}
static int splice_to(int fd) {
  int p[2];
  loff_t at = 5;
  if (pipe(p) || write(p[1], "spliced", 7) != 7) exit(9);
  int r = wrote(splice(p[0], NULL, fd, &at, 7, 0), 5, "spliced");
  close(p[0]), close(p[1]);
  return r;
}
static int tee_to(int fd) {
  int p[2];
  if (pipe(p) || write(p[1], "teed", 4) != 4) exit(9);
  int r = failed(tee(p[0], fd, 4, 0));
  close(p[0]), close(p[1]);
  return r;
}
static int vmsplice_to(int fd) {
  struct iovec v = {"vmspliced", 9};
  return failed(vmsplice(fd, &v, 1, 0));
}
static int copy_from(int fd) {
  char other[4200];
  loff_t at = 0, there = 0;
  snprintf(other, sizeof other, "%s.other", file);
  int to = open(other, O_CREAT | O_RDWR, 0600);
  int r = failed(copy_file_range(fd, &at, to, &there, 10, 0));
  close(to), unlink(other);
  return r;
}
static int copy_to(int fd) {
  int from = open("/etc/passwd", O_RDONLY);
  int r = failed(copy_file_range(from, NULL, fd, NULL, 10, 0));
  close(from);
  return r;
}
static int ring(int fd, int code, void *data, unsigned n, long at) {
  struct io_uring_params p = {0};
  int ring = syscall(SYS_io_uring_setup, 2, &p);
  // Where there are no rings, nothing can be wrong with them.
  if (ring < 0) return code == IORING_OP_READ ? EBADF : EPERM;
  unsigned char *sq =
      mmap(NULL, p.sq_off.array + 8, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
  unsigned char *cq = mmap(NULL, p.cq_off.cqes + 4 * sizeof(struct io_uring_cqe),
                           PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
  struct io_uring_sqe *e =
      mmap(NULL, 2 * sizeof *e, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
  memset(e, 0, sizeof *e);
  e->opcode = code, e->fd = fd, e->addr = (unsigned long)data, e->len = n, e->off = at;
  *(unsigned *)(sq + p.sq_off.array) = 0;
  __atomic_store_n((unsigned *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
  if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1) exit(9);
  int result = ((struct io_uring_cqe *)(cq + p.cq_off.cqes))->res;
  close(ring);
  return result < 0 ? -result : -1;
}
static int ring_write(int fd) { return ring(fd, IORING_OP_WRITE, "ring", 4, 0); }
static int ring_read(int fd) { return ring(fd, IORING_OP_READ, room, 10, 0); }
static int queue(int fd, int code, void *data, long n) {
  aio_context_t context = 0;
  struct iocb block = {
      .aio_lio_opcode = code, .aio_fildes = fd, .aio_buf = (unsigned long)data, .aio_nbytes = n};
  struct iocb *list[] = {&block};
  struct io_event event;
  if (syscall(SYS_io_setup, 2, &context)) return code == IOCB_CMD_PREAD ? EBADF : EPERM;
  int r = failed(syscall(SYS_io_submit, context, 1, list));
  if (!r) {
    if (syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1) exit(9);
    r = (long)event.res < 0 ? -(long)event.res : -1;
  }
  syscall(SYS_io_destroy, context);
  return r;
}
static int queue_write(int fd) { return queue(fd, IOCB_CMD_PWRITE, "queue", 5); }
static int queue_read(int fd) { return queue(fd, IOCB_CMD_PREAD, room, 10); }
static int ask(int fd, int to_write) {
  char text[10] = "asked";
  struct aiocb block = {.aio_fildes = fd, .aio_buf = text, .aio_nbytes = 5, .aio_offset = 7};
  const struct aiocb *list[] = {&block};
  if (to_write ? aio_write(&block) : aio_read(&block)) return errno;
  while (aio_error(&block) == EINPROGRESS) aio_suspend(list, 1, NULL);
  if (aio_error(&block)) return aio_error(&block);
  return to_write ? wrote(aio_return(&block), 7, "asked")
                  : read_right(aio_return(&block), text, 7, 5);
}
static int ask_write(int fd) { return ask(fd, 1); }
static int ask_read(int fd) { return ask(fd, 0); }

static int number_write(int fd) {
  lseek(fd, 12, SEEK_SET);
  int r = wrote(syscall(SYS_write, fd, "called", 6), 12, "called");
  return !r && lseek(fd, 0, SEEK_CUR) != 18 ? -1 : r;
}
static int number_pwrite(int fd) {
  return wrote(syscall(SYS_pwrite64, fd, "placed", 6, 20L), 20, "placed");
}
static int number_writev(int fd) {
  struct iovec v[] = {{"vec", 3}, {"tors", 4}};
  lseek(fd, 30, SEEK_SET);
  return wrote(syscall(SYS_writev, fd, v, 2), 30, "vectors");
}
static int number_read(int fd) {
  return read_right(syscall(SYS_pread64, fd, room, 20, 4L), room, 4, 20);
}
static int number_seek(int fd) { return syscall(SYS_lseek, fd, 0L, SEEK_END) == len ? 0 : -1; }
static int number_stat(int fd) {
  struct stat facts;
  if (syscall(SYS_fstat, fd, &facts)) return errno;
  return facts.st_size == len && S_ISREG(facts.st_mode) ? 0 : -1;
}
static int number_truncate(int fd) {
  if (syscall(SYS_ftruncate, fd, len - 1)) return errno;
  len--;
  return 0;
}
static int number_dup(int fd) {
  int other = syscall(SYS_dup, fd);
  if (other < 0) return errno;
  int r = wrote(pwrite(other, "dup", 3, 2), 2, "dup");
  return syscall(SYS_close, other) ? -1 : r;
}
// A number that was closed unseen must not be taken for the container afterwards.
static int number_close(int fd) {
  int other = open(file, O_RDWR);
  if (syscall(SYS_close, other)) return errno;
  int p[2];
  if (pipe(p) || write(p[1], "pipe", 4) != 4) return -1;
  int r = read(p[0], room, 10) == 4 && !memcmp(room, "pipe", 4) ? 0 : -1;
  close(p[0]), close(p[1]);
  (void)fd;
  return r;
}
static int number_open(int fd) {
  int other = syscall(SYS_openat, AT_FDCWD, file, O_RDONLY);
  int r = other < 0 ? errno : read_right(read(other, room, len), room, 0, len);
  close(other);
  (void)fd;
  return r;
}
static int raw_write(int fd) { return failed(raw(SYS_write, fd, (long)"raw", 3, 0)); }
static int raw_pwrite(int fd) { return failed(raw(SYS_pwrite64, fd, (long)"raw", 3, 1)); }
static int raw_read(int fd) { return failed(raw(SYS_read, fd, (long)room, 10, 0)); }
static int raw_pread(int fd) { return failed(raw(SYS_pread64, fd, (long)room, 10, 0)); }
static int raw_truncate(int fd) { return failed(raw(SYS_ftruncate, fd, 1, 0, 0)); }
static int raw_fallocate(int fd) { return failed(raw(SYS_fallocate, fd, 3, 0, 10)); }
static int raw_child(int fd) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    int one = failed(raw(SYS_write, fd, (long)"raw", 3, 0)),
        other = failed(raw(SYS_pread64, fd, (long)room, 10, 0));
    _exit(other == EBADF ? one : 255);
  }
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}
static int map_shared(int fd) {
  char *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return errno;
  // What is stored is in the file at once, and what is written is in memory.
  char seen = 0, kept = at[3];
  int wrong = memcmp(at, shall, len);
  at[3] = 'M';
  wrong |=
      pread(fd, &seen, 1, 3) != 1 || seen != 'M' || pwrite(fd, &kept, 1, 3) != 1 || at[3] != kept;
  wrong |= msync(at, len, MS_SYNC) || munmap(at, len);
  return wrong ? -1 : 0;
}
static int map_to_read(int fd) {
  char *at = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return errno;
  int r = memcmp(at, shall, len) ? -1 : 0;
  munmap(at, len);
  return r;
}
static int map_and_protect(int fd) {
  char *at = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
  int r = failed(mprotect(at, len, PROT_READ | PROT_WRITE));
  munmap(at, len);
  char *other = mmap(at, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (other == MAP_FAILED || mprotect(other, len, PROT_READ | PROT_WRITE)) return -1;
  munmap(other, len);
  return r;
}
static int map_privately(int fd) {
  char *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (at == MAP_FAILED) return errno;
  int r = memcmp(at, shall, len) ? -1 : 0;
  memset(at, 'p', len);
  munmap(at, len);
  return r;
}
static int map_by_number(int fd) {
  char *at = (char *)syscall(SYS_mmap, NULL, len, PROT_READ, MAP_PRIVATE, fd, 0L);
  if (at == MAP_FAILED) return errno;
  int r = memcmp(at, shall, len) ? -1 : 0;
  munmap(at, len);
  return r;
}
static int raw_map(int fd) {
#if defined __x86_64__
  long result;
  register long r10 __asm__("r10") = MAP_PRIVATE;
  register long r8 __asm__("r8") = fd;
  register long r9 __asm__("r9") = 0;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(SYS_mmap), "D"(0), "S"(len), "d"(PROT_READ), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result < 0 ? -result : -1;
#else
  (void)fd;
  return EACCES;
#endif
}
// A static program that writes to the descriptor, and one that reads from it: what it says when
// that fails.
static int in_helper(int to, int from) {
  int p[2], status;
  if (pipe(p)) exit(9);
  pid_t child = fork();
  if (child == 0) {
    dup2(to < 0 ? p[1] : to, 9), dup2(from < 0 ? p[0] : from, 0), close(p[1]);
    execl(helper, helper, (char *)NULL);
    _exit(99);
  }
  close(p[0]);
  if (from < 0 && write(p[1], "static", 6) != 6) exit(9);
  close(p[1]);
  waitpid(child, &status, 0);
  return WEXITSTATUS(status) == 1 ? 0 : -1;
}
static int static_writes(int fd) { return in_helper(fd, -1) ? -1 : EPERM; }
static int static_reads(int fd) { return in_helper(-1, fd) ? -1 : EBADF; }
static int passes(int fd) {
  int s[2], got = -1, status;
  char byte = 'x', space[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec v = {&byte, 1};
  struct msghdr m = {
      .msg_iov = &v, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  socketpair(AF_UNIX, SOCK_DGRAM, 0, s);
  pid_t child = fork();
  if (child == 0) {
    if (recvmsg(s[1], &m, 0) != 1) _exit(255);
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof got);
    int one = failed(pread(got, room, 10, 0)), other = failed(write(got, "passed", 6));
    _exit(one == EBADF ? other : 255);
  }
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(c), &fd, sizeof fd);
  if (sendmsg(s[0], &m, 0) != 1) exit(9);
  waitpid(child, &status, 0);
  close(s[0]), close(s[1]);
  return WEXITSTATUS(status);
}
static int again(int fd, const char *folder, int flags) {
  char name[60];
  snprintf(name, sizeof name, "%s/%d", folder, fd);
  return open(name, flags);
}
static int reopen_to_read(int fd) {
  int other = again(fd, "/proc/self/fd", O_RDONLY);
  int r = other < 0 ? errno : read_right(read(other, room, len), room, 0, len);
  close(other);
  return r;
}
static int reopen_to_write(int fd) {
  int other = again(fd, "/dev/fd", O_WRONLY | O_APPEND | O_CREAT);
  int r = other < 0 ? errno : wrote(write(other, "again", 5), len, "again");
  close(other);
  return r;
}
static int reopen_to_cut(int fd) {
  char name[60];
  snprintf(name, sizeof name, "/proc/%d/fd/%d", getpid(), fd);
  int other = open(name, O_WRONLY | O_TRUNC);
  if (other < 0) return errno;
  len = 0;
  int r = wrote(write(other, "new content, longer than the old", 32), 0,
                "new content, longer than the old");
  close(other);
  return r;
}
static int reopen_stream(int fd) {
  char name[60];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  FILE *f = fopen(name, "r");
  if (!f) return errno;
  int r = read_right(fread(room, 1, len, f), room, 0, len);
  fclose(f);
  return r;
}
static int reopen_removed(int fd) {
  char other[4200];
  snprintf(other, sizeof other, "%s.gone", file);
  int gone = open(other, O_CREAT | O_RDWR, 0600);
  if (write(gone, shall, len) != len || unlink(other)) return -1;
  int r = reopen_to_read(gone);
  close(gone);
  (void)fd;
  return r;
}
// Another container has the name now: the descriptor must not lead to it.
static int reopen_replaced(int fd) {
  char one[4200], other[4200], name[60];
  snprintf(one, sizeof one, "%s.one", file), snprintf(other, sizeof other, "%s.other", file);
  int first = open(one, O_CREAT | O_RDWR, 0600), second = open(other, O_CREAT | O_RDWR, 0600);
  if (write(first, shall, len) != len || write(second, "other", 5) != 5) return -1;
  close(second);
  if (rename(one, other)) return -1;
  second = open(one, O_CREAT | O_RDWR, 0600);
  if (write(second, "wrong", 5) != 5) return -1;
  snprintf(name, sizeof name, "/proc/self/fd/%d", first);
  int got = open(name, O_RDONLY);
  int r = got < 0 ? errno : read_right(read(got, room, len), room, 0, len);
  close(first), close(second), close(got), unlink(one), unlink(other);
  (void)fd;
  return r;
}
static int executes(int fd) {
  char *arguments[] = {"x", NULL};
  int status;
  pid_t child = fork();
  if (child == 0) {
    fexecve(fd, arguments, arguments + 1);
    _exit(errno);
  }
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}
static int prints(int fd) {
  put(50, "12345");
  return failed(dprintf(fd, "%d", 12345));
}
static int prints_list(int fd, ...) {
  va_list list;
  va_start(list, fd);
  int r = failed(vdprintf(fd, "text", list));
  put(50, "text");
  va_end(list);
  return r;
}
static int prints_v(int fd) { return prints_list(fd); }
static int unread(int fd) {
  int n = -1;
  lseek(fd, 4, SEEK_SET);
  if (ioctl(fd, FIONREAD, &n)) return errno;
  return n == len - 4 ? 0 : -1;
}
static int clones(int fd) { return failed(ioctl(fd, 0x40049409 /* FICLONE */, fd)); }
static int appends(int fd) {
  struct iovec v = {"flag", 4};
  return failed(pwritev2(fd, &v, 1, 0, RWF_APPEND));
}
static int durably(int fd) {
  struct iovec v = {"flag", 4};
  return wrote(pwritev2(fd, &v, 1, 3, RWF_DSYNC), 3, "flag");
}
static int locks(int fd) { return failed(flock(fd, LOCK_EX)); }
static int locks_a_range(int fd) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
  return failed(fcntl(fd, F_SETLK, &lock));
}
static int locks_further(int fd) { return failed(lockf(fd, F_TLOCK, 1)); }
static int links(int fd) {
  char other[4200];
  snprintf(other, sizeof other, "%s.link", file);
  (void)fd;
  return failed(link(file, other));
}
static int may_execute(int fd) {
  (void)fd;
  if (access(file, R_OK | W_OK)) return -1;
  return failed(access(file, X_OK));
}
static int dates(int fd) {
  struct timeval times[2] = {{1000, 0}, {2000, 500000}};
  struct stat facts;
  if (utimes(file, times)) return errno;
  if (fstat(fd, &facts) || facts.st_mtim.tv_sec != 2000 || facts.st_mtim.tv_nsec != 500000000)
    return -1;
  times[1].tv_sec = 3000;
  if (futimes(fd, times)) return errno;
  return stat(file, &facts) || facts.st_mtim.tv_sec != 3000 ? -1 : 0;
}
static int bad_memory(int fd) {
  void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pread(fd, nothing, 10, 0) != -1 || errno != EFAULT) return -1;
  // A hole is filled without the kernel's help.
  if (ftruncate(fd, 100000) || pread(fd, nothing, 10, 90000) != -1 || errno != EFAULT ||
      ftruncate(fd, len))
    return -1;
  if (open(nothing, O_RDONLY) != -1 || errno != EFAULT) return -1;
  if (lchown(nothing, 0, 0) != -1 || errno != EFAULT) return -1;
  // Nor can anybody know whether the descriptor is meant.
  struct stat facts;
  if (fstatat(fd, nothing, &facts, AT_EMPTY_PATH) != -1 || errno != EFAULT) return -1;
  if (fchownat(fd, nothing, -1, -1, AT_EMPTY_PATH) != -1 || errno != EFAULT) return -1;
  char *const none[] = {NULL};
  if (execveat(fd, nothing, none, none, AT_EMPTY_PATH) != -1 || errno != EFAULT) return -1;
  return failed(pwrite(fd, nothing, 10, 0));
}

static int right(void) {
  char got[300];
  int fd = open(file, O_RDONLY);
  long n = read(fd, got, sizeof got);
  close(fd);
  return n == len && !memcmp(got, shall, len);
}

#define WAY(f) {#f, f}
int main(int argc, char **argv) {
  static const struct { const char *name; int (*run)(int);
  } ways[] = {WAY(sendfile_from),   WAY(sendfile_to),     WAY(splice_from),   WAY(splice_to),
              WAY(tee_to),          WAY(vmsplice_to),     WAY(copy_from),     WAY(copy_to),
              WAY(ring_write),      WAY(ring_read),       WAY(queue_write),   WAY(queue_read),
              WAY(ask_write),       WAY(ask_read),        WAY(number_write),  WAY(number_pwrite),
              WAY(number_writev),   WAY(number_read),     WAY(number_seek),   WAY(number_stat),
              WAY(number_truncate), WAY(number_dup),      WAY(number_close),  WAY(number_open),
              WAY(raw_write),       WAY(raw_pwrite),      WAY(raw_read),      WAY(raw_pread),
              WAY(raw_truncate),    WAY(raw_fallocate),   WAY(raw_child),     WAY(map_shared),
              WAY(map_to_read),     WAY(map_and_protect), WAY(map_privately), WAY(map_by_number),
              WAY(raw_map),         WAY(static_writes),   WAY(static_reads),  WAY(passes),
              WAY(reopen_to_read),  WAY(reopen_to_write), WAY(reopen_to_cut), WAY(reopen_stream),
              WAY(reopen_removed),  WAY(reopen_replaced), WAY(executes),      WAY(prints),
              WAY(prints_v),        WAY(unread),          WAY(clones),        WAY(appends),
              WAY(durably),         WAY(locks),           WAY(locks_a_range), WAY(locks_further),
              WAY(links),           WAY(may_execute),     WAY(dates),         WAY(bad_memory)};
  if (argc != 3) return 2;
  file = argv[1], helper = argv[2];
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    unlink(file);
    int fd = open(file, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
    memset(shall, 0, sizeof shall), len = 0;
    for (int k = 0; k < 5; k++) {
      if (write(fd, "0123456789", 10) != 10) return 9;
      put(10 * k, "0123456789");
    }
    int r = ways[i].run(fd);
    printf("%s %s%s\n", ways[i].name,
           r == 0  ? "ok"
           : r > 0 ? strerrorname_np(r)
                   : "WRONG",
           right() ? "" : ", WRONG BYTES");
    if (close(fd)) printf("%s: close %d\n", ways[i].name, errno);
    fflush(stdout);
  }
  unlink(file);
  return 0;
}
