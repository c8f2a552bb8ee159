/* Injects faults into the system calls of any MPI-IO implementation, preloaded beside it.
 *
 * FAULT_FILE=substring    only descriptors of files whose path holds it are touched
 * FAULT_PLAN=rule;rule    rule = key=value,...  with
 *     op=write|read|sync|close|open|size   which call
 *     rank=N      only on that rank (default: every rank)
 *     nth=N       the N-th such call of the process, from 1 (default: every one from the first)
 *     times=N     so many calls from then on (default: 1 with nth, else for ever)
 *     errno=N     the call fails with it
 *     short=N     the call moves at most N bytes
 *     signal=N    the process gets that signal
 *
 * The rank comes from the launcher's environment. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum op { OP_WRITE, OP_READ, OP_SYNC, OP_CLOSE, OP_OPEN, OP_SIZE, OPS };
static const char *const names[OPS] = {"write", "read", "sync", "close", "open", "size"};

struct rule {
    enum op op;
    int rank, error, signal;
    long nth, times, cut;
};

static struct rule rules[16];
static int rule_count = -1;
static long calls[OPS];
static const char *target;

static long field(const char *rule, const char *key, long otherwise) {
    size_t n = strlen(key);
    for (const char *p = rule; p; p = strchr(p, ',')) {
        if (*p == ',') p++;
        if (strncmp(p, key, n) == 0 && p[n] == '=') return strtol(p + n + 1, NULL, 10);
    }
    return otherwise;
}

static void load(void) {
    const char *plan = getenv("FAULT_PLAN");
    target = getenv("FAULT_FILE");
    rule_count = 0;
    if (!plan || !target) return;
    char *copy = strdup(plan), *save = NULL;
    for (char *text = strtok_r(copy, ";", &save); text && rule_count < 16;
         text = strtok_r(NULL, ";", &save)) {
        struct rule *rule = &rules[rule_count];
        const char *op = strstr(text, "op=");
        rule->op = OPS;
        for (int i = 0; op && i < OPS; i++)
            if (strncmp(op + 3, names[i], strlen(names[i])) == 0) rule->op = i;
        if (rule->op == OPS) {
            fprintf(stderr, "fault_shim: bad rule %s\n", text);
            abort();
        }
        rule->rank = field(text, "rank", -1);
        rule->nth = field(text, "nth", 0);
        rule->times = field(text, "times", rule->nth ? 1 : 1L << 60);
        rule->error = field(text, "errno", 0);
        rule->cut = field(text, "short", 0);
        rule->signal = field(text, "signal", 0);
        if (rule->nth == 0) rule->nth = 1;
        rule_count++;
    }
    free(copy);
}

static int my_rank(void) {
    const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
    for (int i = 0; i < 3; i++)
        if (getenv(variables[i])) return atoi(getenv(variables[i]));
    return 0;
}

/* The rule that this call of `op` meets, or NULL. */
static struct rule *meet(enum op op) {
    long n = __atomic_add_fetch(&calls[op], 1, __ATOMIC_RELAXED);
    for (int i = 0; i < rule_count; i++) {
        struct rule *rule = &rules[i];
        if (rule->op == op && (rule->rank < 0 || rule->rank == my_rank()) && n >= rule->nth &&
            n < rule->nth + rule->times) {
            if (rule->signal) raise(rule->signal);
            return rule;
        }
    }
    return NULL;
}

static int concerns(int fd) {
    if (rule_count < 0) load();
    if (rule_count == 0) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return strstr(path, target) != NULL;
}

static int concerns_path(const char *path) {
    if (rule_count < 0) load();
    return rule_count > 0 && strstr(path, target) != NULL;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL(rule)                                                                                 \
    do {                                                                                           \
        if ((rule) && (rule)->error) {                                                             \
            errno = (rule)->error;                                                                 \
            return -1;                                                                             \
        }                                                                                          \
    } while (0)
#define CUT(rule, count)                                                                           \
    ((rule) && (rule)->cut && (size_t)(rule)->cut < (count) ? (size_t)(rule)->cut : (count))

#define TRANSFER(name, op, pointer)                                                                \
    ssize_t name(int fd, pointer buffer, size_t count) {                                           \
        struct rule *rule = concerns(fd) ? meet(op) : NULL;                                        \
        FAIL(rule);                                                                                \
        return REAL(name)(fd, buffer, CUT(rule, count));                                           \
    }
#define TRANSFER_AT(name, op, pointer, off)                                                        \
    ssize_t name(int fd, pointer buffer, size_t count, off offset) {                               \
        struct rule *rule = concerns(fd) ? meet(op) : NULL;                                        \
        FAIL(rule);                                                                                \
        return REAL(name)(fd, buffer, CUT(rule, count), offset);                                   \
    }
#define VECTOR_AT(name, op, off)                                                                   \
    ssize_t name(int fd, const struct iovec *parts, int count, off offset) {                       \
        struct rule *rule = concerns(fd) ? meet(op) : NULL;                                        \
        FAIL(rule);                                                                                \
        if (rule && rule->cut) {                                                                   \
            struct iovec first = {parts[0].iov_base, CUT(rule, parts[0].iov_len)};                 \
            return REAL(name)(fd, &first, 1, offset);                                              \
        }                                                                                          \
        return REAL(name)(fd, parts, count, offset);                                               \
    }
#define VECTOR(name, op)                                                                           \
    ssize_t name(int fd, const struct iovec *parts, int count) {                                   \
        struct rule *rule = concerns(fd) ? meet(op) : NULL;                                        \
        FAIL(rule);                                                                                \
        return REAL(name)(fd, parts, count);                                                       \
    }
#define ON_DESCRIPTOR(name, op)                                                                    \
    int name(int fd) {                                                                             \
        struct rule *rule = concerns(fd) ? meet(op) : NULL;                                        \
        if (rule && rule->error && op == OP_CLOSE) REAL(close)(fd);                                \
        FAIL(rule);                                                                                \
        return REAL(name)(fd);                                                                     \
    }
#define RESIZE(name, off)                                                                          \
    int name(int fd, off size) {                                                                   \
        struct rule *rule = concerns(fd) ? meet(OP_SIZE) : NULL;                                   \
        FAIL(rule);                                                                                \
        return REAL(name)(fd, size);                                                               \
    }
#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...) {                                                   \
        va_list list;                                                                              \
        va_start(list, flags);                                                                     \
        mode_t mode = va_arg(list, mode_t);                                                        \
        va_end(list);                                                                              \
        struct rule *rule = concerns_path(path) ? meet(OP_OPEN) : NULL;                            \
        FAIL(rule);                                                                                \
        return REAL(name)(path, flags, mode);                                                      \
    }

TRANSFER(write, OP_WRITE, const void *)
TRANSFER(read, OP_READ, void *)
TRANSFER_AT(pwrite, OP_WRITE, const void *, off_t)
TRANSFER_AT(pwrite64, OP_WRITE, const void *, off64_t)
TRANSFER_AT(pread, OP_READ, void *, off_t)
TRANSFER_AT(pread64, OP_READ, void *, off64_t)
VECTOR_AT(pwritev, OP_WRITE, off_t)
VECTOR_AT(pwritev64, OP_WRITE, off64_t)
VECTOR_AT(preadv, OP_READ, off_t)
VECTOR_AT(preadv64, OP_READ, off64_t)
VECTOR(writev, OP_WRITE)
VECTOR(readv, OP_READ)
ON_DESCRIPTOR(fsync, OP_SYNC)
ON_DESCRIPTOR(fdatasync, OP_SYNC)
ON_DESCRIPTOR(close, OP_CLOSE)
RESIZE(ftruncate, off_t)
RESIZE(ftruncate64, off64_t)
OPEN(open)
OPEN(open64)
