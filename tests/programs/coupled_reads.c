/* Reads generations of a coupled file, each in another way, and compares them with the random
 * values of coupled_parts.c: FILE KIB WAY...
 *
 * It prints "WAY: right" for each. Some ways do not use the read calls of the C library. */
#define _GNU_SOURCE
#include <aio.h>
#include <fcntl.h>
#include <stdint.h>
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

static const char *file;
static long size;
static uint64_t *buffer;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t value(int generation, uint64_t at) {
    uint64_t mixed = at * 0x9e3779b97f4a7c15u + (uint64_t)generation * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

/* Checks `len` bytes of a generation from `offset` on, which is the offset of a value. */
static void check(const void *found, int generation, long offset, long len, const char *way) {
    for (long at = 0; at + 8 <= len; at += 8) {
        uint64_t is;
        memcpy(&is, (const char *)found + at, 8);
        if (is == value(generation, (uint64_t)(offset + at) / 8)) continue;
        printf("%s: byte %ld of generation %d is wrong\n", way, offset + at, generation);
        exit(1);
    }
}

static void read_all(int fd, char *to, long len) {
    for (long got = 0, n; got < len; got += n)
        if ((n = read(fd, to + got, (size_t)(len - got < 100000 ? len - got : 100000))) <= 0)
            fail("read");
}

/* Executes a program with the file as its input, as a shell does. */
static void through_program(int fd, int calls_fork) {
    int ends[2];
    if (pipe(ends)) fail("pipe");
    pid_t child = calls_fork ? fork() : vfork();
    if (child == 0) {
        dup2(fd, 0), dup2(ends[1], 1), close(ends[0]), close(ends[1]);
        execlp("cat", "cat", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    read_all(ends[0], (char *)buffer, size);
    close(ends[0]);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) fail("cat");
}

/* A child reads the first half, and its parent the rest: both share the position. */
static void halves(int fd) {
    int how = MAP_SHARED | MAP_ANONYMOUS;
    char *shared = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, how, -1, 0);
    if (fork() == 0) {
        read_all(fd, shared, size / 16 * 8);
        _exit(0);
    }
    int status;
    if (wait(&status) < 0 || status != 0) fail("child");
    memcpy(buffer, shared, (size_t)size);
    read_all(fd, (char *)buffer + size / 16 * 8, size - size / 16 * 8);
    munmap(shared, (size_t)size);
}

/* Passes the descriptor through a socket, and returns the received one. */
static int passed(int fd) {
    int ends[2];
    char byte = 0, room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room,
                             .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET,
                             .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || sendmsg(ends[0], &message, 0) != 1 ||
        recvmsg(ends[1], &message, 0) != 1)
        fail("pass");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    close(ends[0]), close(ends[1]);
    return fd;
}

/* Reads all of a file with calls that bypass the read calls of the C library. */
static void unseen(int fd, long (*call)(int, long)) {
    for (long at = 0, n; at < size; at += n)
        if ((n = call(fd, at)) <= 0) fail("read");
}

static long by_syscall(int fd, long at) {
    return syscall(SYS_pread64, fd, (char *)buffer + at, (size_t)(size - at), at);
}

static long by_aio(int fd, long at) {
    struct aiocb block = {.aio_fildes = fd, .aio_buf = (char *)buffer + at, .aio_offset = at,
                          .aio_nbytes = (size_t)(size - at)};
    const struct aiocb *list[] = {&block};
    if (aio_read(&block) || aio_suspend(list, 1, NULL)) fail("aio_read");
    return aio_return(&block);
}

static void by_sendfile(int fd) {
    int to = memfd_create("to", 0);
    for (long sent = 0, n; sent < size; sent += n)
        if ((n = sendfile(to, fd, NULL, (size_t)(size - sent))) <= 0) fail("sendfile");
    if (pread(to, buffer, (size_t)size, 0) != size) fail("pread");
    close(to);
}

/* Reads one block of 8 KiB of each hundred, in mixed order. */
static void sparse(int fd, int generation) {
    long block = 8192, blocks = size / block;
    for (long i = 0; i < (blocks + 99) / 100; i++) {
        long at = (i * 37 % ((blocks + 99) / 100)) * 100 * block;
        if (pread(fd, buffer, (size_t)block, at) != block) fail("pread");
        check(buffer, generation, at, block, "sparse");
    }
}

static void stream(int generation) {
    FILE *in = fopen(file, "r");
    if (!in) fail("fopen");
    if (fread(buffer, 8, 1000, in) != 1000) fail("fread");
    check(buffer, generation, 0, 8000, "stream");
    if (fseek(in, size / 16 * 8, SEEK_SET)) fail("fseek");
    long rest = size - size / 16 * 8;
    if ((long)fread(buffer, 1, (size_t)rest, in) != rest) fail("fread");
    check(buffer, generation, size / 16 * 8, rest, "stream");
    fclose(in);
}

static void opened(const char *way, int generation) {
    int fd = open(file, O_RDONLY);
    if (fd == -1) fail("open");
    struct stat facts;
    if (fstat(fd, &facts) || facts.st_size != size) fail("fstat");
    int is_sparse = strcmp(way, "sparse") == 0;
    if (is_sparse) sparse(fd, generation);
    if (strcmp(way, "read") == 0) read_all(fd, (char *)buffer, size);
    if (strcmp(way, "readv") == 0) {
        struct iovec two[] = {{buffer, 24}, {buffer + 3, (size_t)size - 24}};
        if (preadv(fd, two, 2, 0) != size) fail("preadv");
    }
    if (strcmp(way, "mmap") == 0) {
        void *map = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) fail("mmap");
        memcpy(buffer, map, (size_t)size);
        munmap(map, (size_t)size);
    }
    if (strcmp(way, "fork") == 0) halves(fd);
    if (strcmp(way, "exec") == 0) through_program(fd, 1);
    if (strcmp(way, "vfork") == 0) through_program(fd, 0);
    if (strcmp(way, "syscall") == 0) unseen(fd, by_syscall);
    if (strcmp(way, "aio") == 0) unseen(fd, by_aio);
    if (strcmp(way, "sendfile") == 0) by_sendfile(fd);
    if (strcmp(way, "passed") == 0) {
        int other = passed(fd);
        if (syscall(SYS_pread64, other, buffer, (size_t)size, 0L) != size) fail("pread");
        close(other);
    }
    if (strcmp(way, "holes") == 0) {
        if (lseek(fd, 0, SEEK_DATA) != 0 || lseek(fd, 0, SEEK_HOLE) != size) fail("lseek");
        if (pread(fd, buffer, (size_t)size, 0) != size) fail("pread");
    }
    if (strcmp(way, "again") == 0) {
        char name[64];
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        int other = open(name, O_RDONLY);
        if (other == -1 || pread(other, buffer, (size_t)size, 0) != size) fail("open again");
        close(other);
    }
    if (!is_sparse) check(buffer, generation, 0, size, way);
    /* Without a read of this program, the next open would get the same generation again. */
    if (pread(fd, buffer, 4096, 0) != 4096) fail("pread");
    close(fd);
}

int main(int argc, char **argv) {
    file = argv[1];
    size = atol(argv[2]) * 1024;
    buffer = malloc((size_t)size);
    for (int i = 3; i < argc; i++) {
        memset(buffer, 0xa5, (size_t)size);
        if (strcmp(argv[i], "stream") == 0)
            stream(i - 2);
        else
            opened(argv[i], i - 2);
        printf("%s: right\n", argv[i]);
        fflush(stdout);
    }
    return 0;
}
