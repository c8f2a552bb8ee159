// Random operations on several descriptors, and what each of them returned.
//
//   descriptors SEED CASES OPERATIONS DIRECTORY [file|container]
//
// With `file` and `container` what a container refuses is not done to a file, and must fail for a
// container with an error that is documented (docs/containers.md). Where its holes are is its own
// affair.
//
// The same arguments give the same operations; whatever differs between two runs, apart from times,
// is the system's doing. The account is kept in memory that children share and written at the end,
// so that writing it changes nothing.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 7, FILES = 3, ROOM = 1 << 30, BIG = 300 * 1024 };

static char *account;
static size_t *used;
static uint64_t state;
static int fds[SLOTS];
static char data[BIG];
static int in_child;
// A calm case has no child and nothing that a file of its own rule would be left to the kernel for.
static int calm;
// What is done about operations that containers refuse.
static enum { DONE, LEFT_OUT, REFUSED } refusals;
extern char **environ;

static uint64_t next(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * 0x2545f4914f6cdd1dull;
}
static uint64_t below(uint64_t n) { return (next() >> 33) % n; }

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  *used += vsnprintf(account + *used, ROOM - *used, format, arguments);
  va_end(arguments);
}
static void result(const char *what, int fd, long value) {
  int error = value < 0 ? errno : 0;
  tell("%s%s(%d) = %ld %d\n", in_child ? "child " : "", what, fd, value, error);
}
static unsigned hash(const char *bytes, size_t n) {
  unsigned h = 2166136261u;
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)bytes[i]) * 16777619u;
  return h;
}
static void got(const char *what, int fd, long value) {
  result(what, fd, value);
  if (value > 0) tell("  %08x\n", hash(data, value));
}

// Whether an operation that containers refuse is not to be done.
static int left_out(const char *what) {
  if (refusals == LEFT_OUT) tell("%s refused\n", what);
  return refusals == LEFT_OUT;
}
// Whether it was refused, as it must be by a container.
static int refused(const char *what, long value, const int *errors) {
  if (refusals != REFUSED) return 0;
  while (*errors && (value != -1 || errno != *errors)) errors++;
  if (*errors) tell("%s refused\n", what);
  else tell("%s = %ld %d, and was to be refused\n", what, value, errno);
  return 1;
}

static const char *name(int file) {
  static const char *names[FILES] = {"f0", "f1", "f2"};
  return names[file];
}
static int slot(void) { return below(SLOTS); }
static size_t size(void) {
  switch (below(16)) {
    case 0: return 0;
    case 1: return 4000 + below(9000);
    case 2: return below(8) == 0 ? BIG - below(1000) : 8192;
    default: return 1 + below(300);
  }
}
static void fill(size_t n) {
  unsigned char c = next();
  for (size_t i = 0; i < n; i++) data[i] = c + i * 7;
}
static off_t place(void) {
  switch (below(12)) {
    case 0: return -(off_t)below(100) - 1;
    case 1: return below(1 << 20);
    default: return below(6000);
  }
}
static int vectors(struct iovec *v, size_t n) {
  int count = 1 + below(4);
  size_t at = 0;
  for (int i = 0; i < count; i++) {
    size_t len = i == count - 1 ? n - at : below(n - at + 1);
    v[i] = (struct iovec){data + at, len};
    at += len;
  }
  return count;
}

static void open_one(int s) {
  static const int access[] = {O_RDWR, O_WRONLY, O_RDONLY, O_RDWR};
  int flags = access[below(4)] | (below(4) ? O_CREAT : 0);
  if (below(5) == 0) flags |= O_TRUNC;
  if (!calm && below(8) == 0) flags |= O_APPEND;
  if (below(12) == 0) flags |= O_EXCL;
  if (!calm && below(20) == 0) flags |= O_SYNC;
  if (below(3) == 0) flags |= O_CLOEXEC;
  const char *path = name(below(FILES));
  int fd;
  switch (below(4)) {
    case 0: fd = openat(AT_FDCWD, path, flags, 0644); break;
    case 1: fd = below(4) ? open(path, flags, 0644) : creat(path, 0600); break;
    case 2: fd = syscall(SYS_openat, AT_FDCWD, path, flags, 0644); break;
    default: fd = open64(path, flags, 0644);
  }
  tell("%s %x ", path, flags);
  result("open", -1, fd);
  fds[s] = fd;
}

static void write_one(int fd) {
  struct iovec v[4];
  size_t n = size();
  fill(n);
  switch (below(10)) {
    case 0: result("writev", fd, writev(fd, v, vectors(v, n))); break;
    case 1: result("pwrite", fd, pwrite(fd, data, n, place())); break;
    case 2: { int c = vectors(v, n); result("pwritev", fd, pwritev(fd, v, c, place())); break; }
    case 3: result("syscall write", fd, syscall(SYS_write, fd, data, n)); break;
    case 4: result("dprintf", fd, dprintf(fd, "%d and %d", (int)n, fd)); break;
    case 5: {
      int c = vectors(v, n);
      result("pwritev2", fd, pwritev2(fd, v, c, below(2) ? -1 : (off_t)below(5000), 0));
      break;
    }
    default: result("write", fd, write(fd, data, n));
  }
}
static void read_one(int fd) {
  struct iovec v[4];
  size_t n = size();
  switch (below(6)) {
    case 0: got("readv", fd, readv(fd, v, vectors(v, n))); break;
    case 1: got("pread", fd, pread(fd, data, n, place())); break;
    case 2: { int c = vectors(v, n); got("preadv", fd, preadv(fd, v, c, place())); break; }
    case 3: got("syscall read", fd, syscall(SYS_read, fd, data, n)); break;
    default: got("read", fd, read(fd, data, n));
  }
}
static void seek_one(int fd) {
  static const int whence[] = {SEEK_SET, SEEK_SET,  SEEK_CUR,  SEEK_CUR,
                               SEEK_END, SEEK_DATA, SEEK_HOLE, 99};
  int w = whence[below(8)];
  if (refusals && (w == SEEK_DATA || w == SEEK_HOLE)) return;
  off_t to = w == SEEK_CUR || w == SEEK_END ? (off_t)below(400) - 200 : place();
  tell("%ld %d ", (long)to, w);
  result("lseek", fd, below(4) ? lseek(fd, to, w) : syscall(SYS_lseek, fd, to, w));
}
static void duplicate(int fd) {
  int s = slot();
  switch (below(4)) {
    case 0: case 1: {
      int new = below(2) ? dup(fd) : fcntl(fd, F_DUPFD, (int)below(12));
      result("dup", fd, new);
      if (new < 0) break;
      if (fds[s] >= 0) result("close", fds[s], close(fds[s]));
      fds[s] = new;
      break;
    }
    case 2:
      if (fds[s] >= 0) result("dup2", fd, dup2(fd, fds[s]));
      break;
    default:
      if (fds[s] >= 0) result("dup3", fd, dup3(fd, fds[s], below(2) ? O_CLOEXEC : 0));
  }
}
static void facts_of(int fd) {
  struct stat facts;
  struct statx more;
  const char *path = name(below(FILES));
  int r;
  switch (below(4)) {
    case 0: r = fstat(fd, &facts); result("fstat", fd, r); break;
    case 1: r = stat(path, &facts); result("stat", -1, r); break;
    case 2: r = fstatat(AT_FDCWD, path, &facts, 0); result("fstatat", -1, r); break;
    default:
      r = statx(fd, "", AT_EMPTY_PATH, STATX_SIZE | STATX_NLINK, &more);
      result("statx", fd, r);
      facts.st_size = more.stx_size;
      facts.st_nlink = more.stx_nlink;
  }
  if (r == 0) tell("  size %ld links %d\n", (long)facts.st_size, (int)facts.st_nlink);
}
static void resize(int fd) {
  switch (below(6)) {
    case 0: result("truncate", -1, truncate(name(below(FILES)), place())); break;
    case 1:
      result(
          "fallocate", fd,
          fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, below(5000), 1 + below(5000)));
      break;
    case 2: result("fallocate", fd, fallocate(fd, 0, below(5000), below(5000))); break;
    case 3:
      tell("posix_fallocate(%d) = %d\n", fd, posix_fallocate(fd, below(5000), below(5000)));
      break;
    default: result("ftruncate", fd, ftruncate(fd, place()));
  }
}
static int same_file(int one, int two) {
  struct stat a, b;
  return !fstat(one, &a) && !fstat(two, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}
static void between(int one, int two) {
  static const int errors[] = {EBADF, EPERM, EXDEV, EINVAL, 0};
  off_t at = below(3000), there = below(3000);
  size_t n = 1 + below(5000);
  int p[2], with = below(2), r, kind = below(4);
  if (kind % 2 == 0 && left_out("between")) return;
  switch (kind) {
    case 0:
      r = copy_file_range(one, with ? &at : NULL, two, with ? &there : NULL, n, 0);
      if (!refused("between", r, errors)) result("copy_file_range", one, r);
      break;
    case 1:
      // Within a file the kernel copies pages that the copy changes meanwhile.
      if (refusals && same_file(one, two)) return;
      r = sendfile(two, one, with ? &at : NULL, n);
      result("sendfile", one, r);
      break;
    case 2:
      if (pipe(p)) exit(9);
      if (refusals && write(p[1], "to be spliced", 13) != 13) exit(9);
      r = splice(one, NULL, p[1], NULL, n, SPLICE_F_NONBLOCK);
      if (refusals == DONE) result("splice", one, r);
      else if (r != -1) tell("splice from a container: %d\n", r);
      r = splice(p[0], NULL, two, NULL, n, SPLICE_F_NONBLOCK);
      if (!refused("between", r, errors)) result("splice", two, r);
      close(p[0]);
      close(p[1]);
      break;
    default:
      if (socketpair(AF_UNIX, SOCK_STREAM, 0, p)) exit(9);
      r = sendfile(p[0], one, NULL, n);
      result("sendfile", one, r);
      close(p[0]);
      close(p[1]);
  }
}
static void map(int fd) {
  struct stat facts;
  if (fstat(fd, &facts) || facts.st_size == 0) return;
  int writes = below(2);
  char *at = mmap(NULL, facts.st_size, PROT_READ | (writes ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
  result("mmap", fd, at == MAP_FAILED ? -1 : 0);
  if (at == MAP_FAILED) return;
  tell("  %08x\n", hash(at, facts.st_size));
  if (writes) at[below(facts.st_size)] = 'm';
  munmap(at, facts.st_size);
}
static void control(int fd) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_len = 10};
  switch (below(7)) {
    case 0: result("F_SETFL", fd, fcntl(fd, F_SETFL, below(2) ? O_APPEND : 0)); break;
    case 1: result("F_GETFL", fd, fcntl(fd, F_GETFL)); break;
    case 2: result("F_SETLK", fd, fcntl(fd, F_SETLK, &lock)); break;
    case 3: result("flock", fd, flock(fd, LOCK_SH | LOCK_NB)); break;
    case 4: result("lockf", fd, lockf(fd, F_TLOCK, 10)); break;
    case 5: result("posix_fadvise", fd, posix_fadvise(fd, 0, 100, POSIX_FADV_WILLNEED)); break;
    default: result("fsync", fd, below(2) ? fsync(fd) : fdatasync(fd));
  }
}
static void names(void) {
  const char *one = name(below(FILES)), *two = name(below(FILES));
  // A container that another process removes is gone.
  if (in_child && refusals) return;
  switch (below(4)) {
    case 0: result("rename", -1, rename(one, two)); break;
    case 1: result("unlink", -1, unlink(one)); break;
    case 2: {
      if (left_out("link")) break;
      int r = link(one, two);
      if (!refused("link", r, (int[]){EPERM, ENOENT, EEXIST, 0})) result("link", -1, r);
      break;
    }
    default: result("renameat2", -1, renameat2(AT_FDCWD, one, AT_FDCWD, two, RENAME_EXCHANGE));
  }
}
static void asynchronous(int fd) {
  fill(200);
  struct aiocb block = {
      .aio_fildes = fd, .aio_buf = data, .aio_nbytes = 200, .aio_offset = below(3000)};
  const struct aiocb *list[] = {&block};
  if (left_out("aio")) return;
  int r = block.aio_offset % 2 ? aio_write(&block) : aio_read(&block);
  if (refusals == DONE) result("aio", fd, r);
  while (!r && aio_error(&block) == EINPROGRESS) aio_suspend(list, 1, NULL);
  if (refusals && !r) errno = aio_error(&block), r = aio_return(&block);
  if (refused("aio", r, (int[]){EPERM, EBADF, 0}) || r) return;
  tell("  aio_error %d %ld\n", aio_error(&block), (long)aio_return(&block));
}
// A stream on a file of its own: how much of a file a stream reads ahead is not ours to compare.
static void stream(void) {
  FILE *f = fopen("stream", below(2) ? "w+" : below(2) ? "r+" : "a+");
  result("fopen", -1, f ? fileno(f) : -1);
  for (int i = below(6); f && i > 0; i--) {
    size_t n = 1 + below(600);
    fill(n);
    switch (below(6)) {
      case 0: result("fseek", 0, fseek(f, place(), below(2) ? SEEK_SET : SEEK_END)); break;
      case 1: fseek(f, 0, SEEK_CUR); result("fwrite", 0, fwrite(data, 1, n, f)); break;
      case 2: fseek(f, 0, SEEK_CUR); got("fread", 0, fread(data, 1, n, f)); break;
      case 3: result("ftell", 0, ftell(f)); break;
      case 4: fseek(f, 0, SEEK_CUR); result("fprintf", 0, fprintf(f, "%zu %d\n", n, i)); break;
      default: result("fflush", 0, fflush(f));
    }
  }
  if (f) result("fclose", -1, fclose(f));
}
// A stream over a descriptor, which it closes.
static void over(int s) {
  FILE *f = fdopen(fds[s], below(2) ? "w" : "r+");
  result("fdopen", fds[s], f ? fileno(f) : -1);
  if (!f) return;
  if (below(2)) setvbuf(f, NULL, _IONBF, 0);
  result("fputs", fds[s], fputs("over the stream", f));
  result("fclose", fds[s], fclose(f));
  fds[s] = -1;
}
static void act(int depth);
static void family(void) {
  uint64_t seed = next();
  int quick = below(3), status;
  pid_t child = fork();
  if (child == 0) {
    in_child = 1;
    state = seed | 1;
    for (int i = 0; i < 5; i++) act(1);
    if (quick == 0) exit(0);
    _exit(0);
  }
  waitpid(child, &status, 0);
  tell("fork: %x\n", status);
}
static void program(int fd) {
  int status = 0;
  pid_t child;
  char *arguments[] = {"sh", "-c", "cat f0 f1 f2 2>/dev/null | cksum; printf x 2>/dev/null >&9",
                       NULL};
  char line[100] = "";
  int p[2];
  if (pipe(p)) exit(9);
  switch (below(3)) {
    case 0: {
      posix_spawn_file_actions_t actions;
      posix_spawn_file_actions_init(&actions);
      posix_spawn_file_actions_adddup2(&actions, p[1], 1);
      posix_spawn_file_actions_adddup2(&actions, fd, 9);
      int r = posix_spawn(&child, "/bin/sh", &actions, NULL, arguments, environ);
      posix_spawn_file_actions_destroy(&actions);
      tell("posix_spawn %d\n", r);
      break;
    }
    case 1:
      child = vfork();
      if (child == 0) {
        dup2(p[1], 1);
        dup2(fd, 9);
        execv("/bin/sh", arguments);
        _exit(1);
      }
      break;
    default:
      child = fork();
      if (child == 0) {
        dup2(p[1], 1);
        dup2(fd, 9);
        execl("/bin/sh", arguments[0], arguments[1], arguments[2], NULL);
        _exit(1);
      }
  }
  close(p[1]);
  long n = 0;
  for (long more; (more = read(p[0], line + n, sizeof line - 1 - n)) > 0;) n += more;
  close(p[0]);
  waitpid(child, &status, 0);
  tell("program: %ld %x %s", n, status, line);
}
static void act(int depth) {
  int s = slot(), fd = fds[s];
  if (fd < 0 && below(10) < 8) {
    open_one(s);
    return;
  }
  unsigned kind = below(calm ? 860 : 1000);
  if (kind < 450) for (int n = calm ? below(8) : 0; n >= 0; n--) write_one(fd);
  else if (kind < 560) read_one(fd);
  else if (kind < 690) seek_one(fd);
  else if (kind < 740) { if (fd >= 0) { result("close", fd, close(fd)); fds[s] = -1; } }
  else if (kind < 790) duplicate(fd);
  else if (kind < 830) facts_of(fd);
  else if (kind < 860) resize(fd);
  else if (kind < 880) between(fd, fds[slot()]);
  else if (kind < 890) map(fd);
  else if (kind < 920) control(fd);
  else if (kind < 935) names();
  else if (kind < 940) { if (!in_child) asynchronous(fd); } // its threads do not survive a fork
  else if (kind < 960) stream();
  else if (kind < 965) { if (fd >= 0) over(s); }
  else if (kind < 975) { if (depth == 0) family(); }
  else if (kind < 977) { if (depth == 0) program(fd); }
  else if (kind < 980) {
    int from = 3 + below(8);
    result("close_range", from, close_range(from, from + 1, 0));
    for (int i = 0; i < SLOTS; i++) if (fds[i] == from || fds[i] == from + 1) fds[i] = -1;
  } else {
    int look = open(name(below(FILES)), O_RDONLY);
    got("look", look, look < 0 ? -1 : read(look, data, BIG));
    if (look >= 0) close(look);
  }
}
static void dump(const char *path) {
  int fd = open(path, O_RDONLY);
  long n, total = 0;
  unsigned h = 0;
  while (fd >= 0 && (n = read(fd, data, BIG)) > 0) {
    h = h * 31 + hash(data, n);
    total += n;
  }
  tell("%s: %ld bytes %08x\n", path, fd < 0 ? -1 : total, h);
  if (fd >= 0) close(fd);
  unlink(path);
}

int main(int argc, char **argv) {
  if (argc < 5 || chdir(argv[4])) return 2;
  if (argc > 5) refusals = strcmp(argv[5], "file") ? REFUSED : LEFT_OUT;
  account =
      mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  used = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (account == MAP_FAILED || used == MAP_FAILED) return 3;
  uint64_t seed = strtoull(argv[1], NULL, 0);
  long cases = atol(argv[2]), operations = atol(argv[3]);
  for (long i = 0; i < cases; i++) {
    state = (seed + i) * 0x9e3779b97f4a7c15ull | 1;
    calm = i % 2;
    tell("case %llu\n", (unsigned long long)(seed + i));
    for (int s = 0; s < SLOTS; s++) fds[s] = -1;
    for (long k = 0; k < operations; k++) act(0);
    for (int s = 0; s < SLOTS; s++) if (fds[s] >= 0) {
      result("position", fds[s], lseek(fds[s], 0, SEEK_CUR));
      result("close", fds[s], close(fds[s]));
    }
    for (int f = 0; f < FILES; f++) dump(name(f));
    dump("stream");
  }
  for (size_t at = 0; at < *used;) {
    ssize_t n = write(1, account + at, *used - at);
    if (n <= 0) return 4;
    at += n;
  }
  return 0;
}
