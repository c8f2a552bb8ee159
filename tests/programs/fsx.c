// Random operations on one file, each compared with a copy of the file in memory.
//
//   fsx SEED OPERATIONS FILE KIND
//
// KIND says which operations are refused, and with which error:
//   plain       none
//   container   a container through the library: copy_file_range
//   mount       a container below a mount point: none
// The first difference ends the program, with the seed and the operations before it. Phases differ
// in what they do, so that in some of them nothing leaves the file to the kernel for good.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST = 256 * 1024, SLOTS = 4, PHASE = 250, FRESH = 40, REMEMBERED = 40, PAGE = 4096 };

enum kind { PLAIN, CONTAINER, MOUNT };
static enum kind kind;
static const char *path;
static uint64_t seed, state;
static long number;

// What the file is to be.
static unsigned char oracle[MOST + PAGE], room[MOST + PAGE], bytes[MOST];
static long size;

// An open file description, shared by descriptors that were duplicated.
struct description { long position; int flags, users; };
static struct description descriptions[SLOTS];
static struct { int fd; struct description *of; } slots[SLOTS];
// A mapping that stays while other operations go on.
static unsigned char *kept;
static long kept_at, kept_len;

static char history[REMEMBERED][160];
static long done[64], refused;

static uint64_t next(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * 0x2545f4914f6cdd1dull;
}
static long below(long n) { return n <= 0 ? 0 : (long)((next() >> 33) % (uint64_t)n); }

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(history[number % REMEMBERED], sizeof history[0], format, arguments);
  va_end(arguments);
}
__attribute__((format(printf, 1, 2), noreturn)) static void differs(const char *format, ...) {
  int error = errno;
  va_list arguments;
  printf("seed %llu, operation %ld: ", (unsigned long long)seed, number);
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf(" (errno %d, size %ld)\n", error, size);
  for (long i = number - REMEMBERED + 1; i <= number; i++)
    if (i >= 0) printf("  %ld %s\n", i, history[i % REMEMBERED]);

  exit(1);
}
static void wants(const char *what, long is, long shall) {
  if (is != shall) differs("%s returns %ld, not %ld", what, is, shall);
}
static void same(const char *what, const unsigned char *is, long at, long n) {
  if (!memcmp(is, oracle + at, n)) return;
  long first = 0;
  while (is[first] == oracle[at + first]) first++;
  differs("%s: byte %ld is %02x, not %02x", what, at + first, is[first], oracle[at + first]);
}
// An operation that must fail, and how.
static void refuses(const char *what, long is, int error) {
  if (is != -1 || errno != error)
    differs("%s returns %ld, and was to be refused with %d", what, is, error);
  refused++;
}

static long place(void) { return below(4) ? below(size + 1) : below(MOST); }
static long length(void) {
  switch (below(24)) {
    case 0: return below(100000);
    case 1: case 2: case 3: return below(20000);
    case 4: return 0;
    default: return 1 + below(3000);
  }
}
// So many bytes that the file can still hold behind `at`.
static long fits(long at, long n) { return n < MOST - at ? n : MOST - at; }
static void fill(long n) {
  unsigned char c = next(), step = 1 + below(8);
  for (long i = 0; i < n; i++) bytes[i] = (c += step) | 1;
}
static void grow(long to) { if (to > size) size = to; }
static void store(long at, const unsigned char *from, long n) {
  if (n == 0) return;
  memmove(oracle + at, from, n);
  grow(at + n);
}
static void cut(long to) {
  if (to < size) memset(oracle + to, 0, size - to);
  size = to;
}
static int vectors(struct iovec *v, unsigned char *data, long n) {
  int count = 1 + below(5);
  long at = 0;
  for (int i = 0; i < count; i++) {
    long len = i == count - 1 ? n - at : below(n - at + 1);
    v[i] = (struct iovec){data + at, len};
    at += len;
  }
  return count;
}

static int may_read(int s) { return (slots[s].of->flags & O_ACCMODE) != O_WRONLY; }
static int may_write(int s) { return (slots[s].of->flags & O_ACCMODE) != O_RDONLY; }

static void open_slot(int s, int flags) {
  struct description *d = descriptions;
  while (d->users) d++;
  int fd = open(path, flags, 0644);
  if (fd < 0) differs("open %x", flags);
  if (flags & O_TRUNC) cut(0);
  *d = (struct description){0, flags, 1};
  slots[s].fd = fd;
  slots[s].of = d;
}
static void close_slot(int s) {
  if (slots[s].fd < 0) return;
  slots[s].of->users--;
  int fd = slots[s].fd;
  slots[s].fd = -1;
  wants("close", close(fd), 0);
}
static int random_flags(void) {
  int flags = below(6) ? O_RDWR : below(2) ? O_WRONLY : O_RDONLY;
  if (below(8) == 0 && flags != O_RDONLY) flags |= O_TRUNC;
  return flags;
}

static void reads(int s, int how) {
  int fd = slots[s].fd;
  struct description *d = slots[s].of;
  long at = how < 2 ? d->position : place(), n = length(), got;
  struct iovec v[5];
  say("%s slot %d at %ld length %ld",
      how == 0   ? "read"
      : how == 1 ? "readv"
      : how == 2 ? "pread"
                 : "preadv",
      s, at, n);
  switch (how) {
    case 0: got = read(fd, room, n); break;
    case 1: got = readv(fd, v, vectors(v, room, n)); break;
    case 2: got = pread(fd, room, n, at); break;
    default: got = preadv(fd, v, vectors(v, room, n), at);
  }
  if (!may_read(s)) {
    if (got != -1 || errno != EBADF) differs("a descriptor for writing is read: %ld", got);
    return;
  }
  long shall = at >= size ? 0 : n < size - at ? n : size - at;
  wants("reading", got, shall);
  same("reading", room, at, got);
  if (how < 2) d->position += got;
}
static void writes(int s, int how) {
  int fd = slots[s].fd;
  struct description *d = slots[s].of;
  int at_end = d->flags & O_APPEND;
  long at = at_end ? size : how < 2 ? d->position : place(), n = length(), got;
  if (at > MOST) return say("a position too far away");
  struct iovec v[5];
  n = fits(at, n);
  fill(n);
  say("%s slot %d at %ld length %ld",
      how == 0   ? "write"
      : how == 1 ? "writev"
      : how == 2 ? "pwrite"
                 : "pwritev",
      s, at, n);
  switch (how) {
    case 0: got = write(fd, bytes, n); break;
    case 1: got = writev(fd, v, vectors(v, bytes, n)); break;
    case 2: got = pwrite(fd, bytes, n, at_end ? place() : at); break;
    default: got = pwritev(fd, v, vectors(v, bytes, n), at_end ? place() : at);
  }
  if (!may_write(s)) {
    if (got != -1 || errno != EBADF) differs("a descriptor for reading is written: %ld", got);
    return;
  }
  wants("writing", got, n);
  store(at, bytes, n);
  if (how < 2 && n > 0) d->position = at + n;
}
static void resizes(int s) {
  long to = below(3) ? place() : below(2) ? size + below(3000) : size - below(3000);
  if (to < 0 || to > MOST) to = below(MOST);
  say("truncate slot %d to %ld", s, to);
  if (below(4) == 0) {
    wants("truncate", truncate(path, to), 0);
  } else if (!may_write(s)) {
    if (ftruncate(slots[s].fd, to) != -1 || errno != EINVAL)
      differs("ftruncate of a descriptor for reading");
    return;
  } else {
    wants("ftruncate", ftruncate(slots[s].fd, to), 0);
  }
  cut(to);
}
static void allocates(int s) {
  static const int modes[] = {0,
                              FALLOC_FL_KEEP_SIZE,
                              FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              FALLOC_FL_ZERO_RANGE,
                              FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
                              -1};
  int mode = modes[below(7)];
  long at = place(), n = fits(at, 1 + length());
  say("fallocate slot %d mode %x at %ld length %ld", s, mode, at, n);
  if (n == 0 || !may_write(s)) return;
  int result = mode < 0 ? posix_fallocate(slots[s].fd, at, n) : fallocate(slots[s].fd, mode, at, n);
  // Not every file system can set a range to zero.
  if (result == -1 && errno == EOPNOTSUPP && kind == PLAIN && mode & FALLOC_FL_ZERO_RANGE &&
      mode > 0)
    return;
  wants("fallocate", result, 0);
  if (mode > 0 && mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE) && at < size)
    memset(oracle + at, 0, n < size - at ? n : size - at);
  if (mode < 0 || !(mode & FALLOC_FL_KEEP_SIZE)) grow(at + n);
}
static void maps(int s, int to_write) {
  if (size == 0) return say("no byte to map");
  long from = below(size) & -PAGE, n = 1 + below(size - from);
  int shared = to_write || below(2), fd = slots[s].fd;
  int protection = PROT_READ | (to_write || (!shared && below(2)) ? PROT_WRITE : 0);
  say("map slot %d from %ld length %ld shared %d protection %d", s, from, n, shared, protection);
  unsigned char *at = mmap(NULL, n, protection, shared ? MAP_SHARED : MAP_PRIVATE, fd, from);
  if (!may_read(s) || (to_write && !may_write(s))) {
    if (at != MAP_FAILED || errno != EACCES) differs("mmap of a descriptor that does not allow it");
    return;
  }
  if (at == MAP_FAILED) differs("mmap");
  same("mapping", at, from, n);
  // Behind the end of the file, the rest of its last page is zero.
  for (long i = n; from + n == size && i < ((n + PAGE - 1) & -PAGE); i++)
    if (at[i]) differs("byte %ld behind the end is %02x", i, at[i]);
  if (to_write) {
    long start = below(n), len = 1 + below(n - start);
    fill(len);
    memcpy(at + start, bytes, len);
    store(from + start, bytes, len);
    say("map slot %d from %ld length %ld, writes %ld at %ld", s, from, n, len, from + start);
    if (below(2)) wants("msync", msync(at, n, below(4) ? MS_SYNC : MS_ASYNC), 0);
  } else if (protection & PROT_WRITE) {
    memset(at, 'p', n);
  }
  wants("munmap", munmap(at, n), 0);
}
// A mapping that lives while the file is read and written in other ways.
static void keeps(int s) {
  if (kept) {
    say("end of the mapping that stays, from %ld length %ld", kept_at, kept_len);
    long n = kept_at + kept_len <= size ? kept_len : size - kept_at;
    if (n > 0) same("the mapping that stays", kept, kept_at, n);
    wants("munmap", munmap(kept, kept_len), 0);
    kept = NULL;
    return;
  }
  if (size == 0 || !may_read(s) || !may_write(s)) return say("no mapping");
  kept_at = below(size) & -PAGE, kept_len = 1 + below(size - kept_at);
  say("a mapping that stays, slot %d from %ld length %ld", s, kept_at, kept_len);
  kept = mmap(NULL, kept_len, PROT_READ | PROT_WRITE, MAP_SHARED, slots[s].fd, kept_at);
  if (kept == MAP_FAILED) differs("mmap");
}
static void touches(void) {
  long n = kept_at + kept_len <= size ? kept_len : size - kept_at;
  if (!kept || n <= 0) return say("nothing is mapped");
  long at = below(n), len = 1 + below(n - at);
  fill(len);
  say("the mapping that stays: writes %ld at %ld", len, kept_at + at);
  same("the mapping that stays", kept, kept_at, n);
  memcpy(kept + at, bytes, len);
  store(kept_at + at, bytes, len);
}
static void copies(int s) {
  int t = below(SLOTS), positions = below(3) == 0;
  if (!may_read(s) || !may_write(t) || slots[t].of->flags & O_APPEND) return say("nothing to copy");
  if (positions && slots[s].of == slots[t].of) positions = 0;
  loff_t from = positions ? slots[s].of->position : place(),
         to = positions ? slots[t].of->position : place();
  if (from > MOST || to > MOST) return say("a position too far away");
  long n = fits(to, length());
  // Ranges that overlap are refused, and a copy is not to grow into its own source.
  long shall = from >= size ? 0 : n < size - from ? n : size - from;
  if (from < to + n && to < from + n) return say("overlapping ranges");
  say("copy_file_range slot %d at %ld to slot %d at %ld length %ld", s, (long)from, t, (long)to, n);
  long got = positions ? copy_file_range(slots[s].fd, NULL, slots[t].fd, NULL, n, 0)
                       : copy_file_range(slots[s].fd, &from, slots[t].fd, &to, n, 0);
  if (kind == CONTAINER) return refuses("copy_file_range", got, EXDEV);
  // The kernel may copy less.
  if (got < 0 || got > shall || (got == 0 && shall > 0))
    differs("copy_file_range returns %ld of %ld", got, shall);
  if (!positions) from -= got, to -= got;
  store(to, oracle + from, got);
  if (positions) slots[s].of->position += got, slots[t].of->position += got;
}
static void seeks(int s) {
  struct description *d = slots[s].of;
  long to = place(), got;
  switch (below(6)) {
    case 0: case 1:
      say("seek slot %d to %ld", s, to);
      wants("SEEK_SET", lseek(slots[s].fd, to, SEEK_SET), to);
      d->position = to;
      return;
    case 2:
      to = below(2) ? 0 : below(2000) - 1000;
      say("seek slot %d by %ld", s, to);
      got = lseek(slots[s].fd, to, SEEK_CUR);
      if (d->position + to < 0) {
        if (got != -1 || errno != EINVAL) differs("SEEK_CUR before the first byte: %ld", got);
        return;
      }
      wants("SEEK_CUR", got, d->position + to);
      d->position += to;
      return;
    case 3:
      to = -below(size + 1);
      say("seek slot %d to the end and %ld", s, to);
      wants("SEEK_END", lseek(slots[s].fd, to, SEEK_END), size + to);
      d->position = size + to;
      return;
    case 4:
      say("seek slot %d to data from %ld on", s, to);
      got = lseek(slots[s].fd, to, SEEK_DATA);
      if (got == -1 && errno == ENXIO) got = size;
      else d->position = got;
      if (got < to && to < size) differs("SEEK_DATA goes back to %ld", got);
      for (long i = to; i < got; i++)
        if (oracle[i]) differs("SEEK_DATA passes byte %ld, which is %02x", i, oracle[i]);
      return;
    default:
      say("seek slot %d to a hole from %ld on", s, to);
      got = lseek(slots[s].fd, to, SEEK_HOLE);
      if (to >= size) {
        if (got != -1 || errno != ENXIO) differs("SEEK_HOLE behind the end: %ld", got);
        return;
      }
      if (got < to || got > size || (got < size && oracle[got])) differs("SEEK_HOLE says %ld", got);
      d->position = got;
  }
}
static void looks(int s) {
  struct stat facts;
  int by_name = below(2);
  say("stat %s", by_name ? "by name" : "of the descriptor");
  wants("stat", by_name ? stat(path, &facts) : fstat(slots[s].fd, &facts), 0);
  wants("st_size", facts.st_size, size);
  if (!S_ISREG(facts.st_mode)) differs("no regular file: %o", facts.st_mode);
  wants("the position", lseek(slots[s].fd, 0, SEEK_CUR), slots[s].of->position);
}
static void whole(void) {
  say("reads everything");
  int fd = open(path, O_RDONLY);
  if (fd < 0) differs("open");
  long got = 0, more;
  while ((more = read(fd, room + got, sizeof room - got)) > 0) got += more;
  wants("reading everything", got, size);
  same("reading everything", room, 0, size);
  wants("close", close(fd), 0);
}
static void reopens(int s, int append) {
  close_slot(s);
  int flags = append ? O_WRONLY | O_APPEND : random_flags();
  say("reopens slot %d, flags %x", s, flags);
  open_slot(s, flags);
}
static void duplicates(int s) {
  int t = below(SLOTS);
  say("dup slot %d to slot %d", s, t);
  if (s == t) return;
  if (below(2)) {
    int fd = dup(slots[s].fd);
    if (fd < 0) differs("dup");
    close_slot(t);
    slots[t].fd = fd;
  } else {
    slots[t].of->users--;
    wants("dup2", dup2(slots[s].fd, slots[t].fd), slots[t].fd);
  }
  slots[t].of = slots[s].of;
  slots[t].of->users++;
}
// A buffer that cannot be read: nothing is written. Behind the end, tmpfs itself makes the file
// longer then.
static void unreadable(int s) {
  static void *nothing;
  if (!nothing) nothing = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  say("a write of memory that is not there, slot %d", s);
  long at = below(size + 1), by_position = below(2), position = slots[s].of->position;
  if (!may_write(s) || (by_position && position > size)) return;
  long got = by_position ? write(slots[s].fd, nothing, 1 + below(200))
                         : pwrite(slots[s].fd, nothing, 1 + below(200), at);
  if (got != -1 || errno != EFAULT) differs("a write of memory that is not there returns %ld", got);
  // The first page of a process is never there.
  got = pwrite(slots[s].fd, NULL, 1 + below(5000), at);
  if (got != -1 || errno != EFAULT) differs("a write from nowhere returns %ld", got);
}

static const struct { const char *name; int weight;
} table[] = {{"read", 8},         {"readv", 4},
             {"pread", 8},        {"preadv", 3},
             {"write", 20},       {"writev", 5},
             {"pwrite", 12},      {"pwritev", 4},
             {"truncate", 4},     {"fallocate", 4},
             {"seek", 8},         {"stat", 4},
             {"everything", 1},   {"reopen", 2},
             {"dup", 2},          {"fsync", 1},
             {"unreadable", 1},   {"map", 4},
             {"map to write", 4}, {"mapping that stays", 1},
             {"touch it", 3},     {"copy_file_range", 4},
             {"append", 2}};
enum { KINDS = sizeof table / sizeof *table, ALWAYS = 17 };

// A phase without mappings and appends lets small writes be kept back.
static void act(int calm) {
  int total = 0, choice = 0;
  for (int i = 0; i < (calm ? ALWAYS : KINDS); i++) total += table[i].weight;
  for (int left = below(total); left >= table[choice].weight; choice++)
    left -= table[choice].weight;
  int s = below(SLOTS);
  done[choice]++;
  switch (choice) {
    case 0: case 1: case 2: case 3: return reads(s, choice);
    case 4: case 5: case 6: case 7: return writes(s, choice - 4);
    case 8: return resizes(s);
    case 9: return allocates(s);
    case 10: return seeks(s);
    case 11: return looks(s);
    case 12: return whole();
    case 13: return reopens(s, 0);
    case 14: return duplicates(s);
    case 15:
      say("fsync slot %d", s);
      return wants("fsync", below(2) ? fsync(slots[s].fd) : fdatasync(slots[s].fd), 0);
    case 16: return unreadable(s);
    case 17: return maps(s, 0);
    case 18: return maps(s, 1);
    case 19: return keeps(s);
    case 20: return touches();
    case 21: return copies(s);
    default: return reopens(s, 1);
  }
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  seed = strtoull(argv[1], NULL, 0);
  long operations = atol(argv[2]);
  path = argv[3];
  kind = !strcmp(argv[4], "plain") ? PLAIN : !strcmp(argv[4], "container") ? CONTAINER : MOUNT;
  state = seed * 0x9e3779b97f4a7c15ull | 1;
  for (int s = 0; s < SLOTS; s++) slots[s].fd = -1;
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (long phase = 0; number < operations; phase++) {
    if (phase % FRESH == 0) {
      if (unlink(path) && phase > 0) differs("unlink");
      cut(0);
      int fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0644);
      if (fd < 0) differs("open");
      wants("close", close(fd), 0);
    }
    for (int s = 0; s < SLOTS; s++) say("opens"), open_slot(s, s == 0 ? O_RDWR : random_flags());
    int calm = phase % 2;
    for (int i = 0; i < PHASE && number < operations; i++, number++) act(calm);
    if (kept) keeps(0);
    for (int s = 0; s < SLOTS; s++) close_slot(s);
    whole();
  }
  printf("%ld operations, %ld refused:", number, refused);
  for (int i = 0; i < KINDS; i++)
    printf(" %s %ld%s", table[i].name, done[i], i < KINDS - 1 ? "," : "\n");
  return 0;
}
