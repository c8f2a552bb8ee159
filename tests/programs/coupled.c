/* Writes or reads generations of a file by POSIX calls and by streams, and checks every byte.
 *
 *   coupled write HOW FILE GENERATIONS BYTES [MILLISECONDS]
 *   coupled read HOW FILE GENERATIONS BYTES [FIRST]
 *
 * A writer waits MILLISECONDS before it closes each generation, and prints a line when it has
 * opened one if LOUD is set. A reader expects the generations FIRST, FIRST + 1, ... and prints one
 * line for each. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *how, *file;
static size_t bytes;
static unsigned char *buffer;

static void fail(const char *what) {
    fprintf(stderr, "%s %s: %s: %s\n", how, file, what, strerror(errno));
    exit(1);
}

static int is(const char *name) { return strcmp(how, name) == 0; }

/* Whether a byte is in a hole of a file with holes. */
static int is_hole(size_t at) { return is("sparse") && at / 5000 % 2; }

static unsigned char value(unsigned generation, size_t at) {
    return is_hole(at) ? 0 : (unsigned char)(generation * 131 + at * 7 + (at >> 9));
}

static void put(int fd, size_t from, size_t len) {
    for (size_t done = 0; done < len;) {
        ssize_t wrote = pwrite(fd, buffer + from + done, len - done, (off_t)(from + done));
        if (wrote <= 0) fail("pwrite");
        done += (size_t)wrote;
    }
}

static void write_descriptor(int fd) {
    if (is("plain") || is("append") || is("rename") || is("fork")) {
        for (size_t done = 0; done < bytes;) {
            size_t piece = bytes - done < 30011 ? bytes - done : 30011;
            ssize_t wrote = write(fd, buffer + done, piece);
            if (wrote <= 0) fail("write");
            done += (size_t)wrote;
        }
    } else if (is("backwards")) {
        for (size_t end = bytes; end > 0;) {
            size_t piece = end < 4096 ? end : 4096;
            put(fd, end - piece, piece);
            end -= piece;
        }
    } else if (is("sparse")) {
        for (size_t at = 0; at < bytes; at += 10000)
            put(fd, at, bytes - at < 5000 ? bytes - at : 5000);
        if (ftruncate(fd, (off_t)bytes)) fail("ftruncate");
    } else if (is("mapped")) {
        if (ftruncate(fd, (off_t)bytes)) fail("ftruncate");
        void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) fail("mmap");
        memcpy(map, buffer, bytes);
        munmap(map, bytes);
    } else {
        errno = EINVAL;
        fail("no such way to write");
    }
}

static void tell_open(unsigned generation) {
    if (!getenv("LOUD")) return;
    printf("open %u\n", generation);
    fflush(stdout);
}

static void write_generation(unsigned generation, int pause) {
    for (size_t at = 0; at < bytes; at++) buffer[at] = value(generation, at);
    if (is("stdio")) {
        FILE *stream = fopen(file, "w");
        if (!stream) fail("fopen");
        tell_open(generation);
        size_t half = bytes / 2;
        if (fwrite(buffer, 1, half, stream) != half) fail("fwrite");
        /* The child must not write the buffered bytes of the stream: the parent does. */
        pid_t child = fork();
        if (child == 0) _exit(0);
        if (waitpid(child, NULL, 0) != child) fail("waitpid");
        if (fwrite(buffer + half, 1, bytes - half, stream) != bytes - half) fail("fwrite");
        usleep((useconds_t)pause * 1000);
        if (fclose(stream)) fail("fclose");
        return;
    }
    char name[4096];
    snprintf(name, sizeof name, is("rename") ? "%s.tmp" : "%s", file);
    int flags = O_CREAT | O_TRUNC | (is("mapped") ? O_RDWR : O_WRONLY);
    int fd = open(name, flags | (is("append") ? O_APPEND : 0), 0640);
    if (fd < 0) fail("open");
    tell_open(generation);
    if (is("fork")) {
        /* A child writes, and the parent closes the file before the child ends. */
        pid_t child = fork();
        if (child == 0) {
            usleep((useconds_t)pause * 1000);
            write_descriptor(fd);
            _exit(0);
        }
        if (close(fd)) fail("close");
        int status;
        if (waitpid(child, &status, 0) != child || status) fail("the child");
        return;
    }
    write_descriptor(fd);
    usleep((useconds_t)pause * 1000);
    struct stat facts;
    if (fstat(fd, &facts) || facts.st_size != (off_t)bytes) fail("fstat");
    if (close(fd)) fail("close");
    if (is("rename") && rename(name, file)) fail("rename");
}

static size_t read_all(unsigned char *to) {
    size_t done = 0;
    if (is("stdio")) {
        FILE *stream = fopen(file, "r");
        if (!stream) fail("fopen");
        /* Like libraries that read the magic number of a file before they open it again. */
        if (fread(to, 1, 4, stream) != 4) fail("fread");
        if (fclose(stream)) fail("fclose");
        stream = fopen(file, "r");
        if (!stream) fail("fopen");
        done = fread(to, 1, bytes + 1, stream);
        if (ferror(stream)) fail("fread");
        if (fclose(stream)) fail("fclose");
        return done;
    }
    int fd = open(file, O_RDONLY);
    if (fd < 0) fail("open");
    struct stat facts;
    if (fstat(fd, &facts)) fail("fstat");
    if (is("mapped")) {
        void *map = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) fail("mmap");
        done = (size_t)facts.st_size;
        memcpy(to, map, done <= bytes ? done : bytes);
        munmap(map, done);
    } else {
        for (;;) {
            ssize_t got = is("pread") ? pread(fd, to + done, 9973, (off_t)done)
                                      : read(fd, to + done, bytes + 1 - done);
            if (got < 0) fail("read");
            if (got == 0) break;
            done += (size_t)got;
            if (done > bytes) break;
        }
    }
    if ((off_t)done != facts.st_size) fail("another size than fstat tells");
    if (close(fd)) fail("close");
    return done;
}

static void read_generation(unsigned generation, const char *written) {
    memset(buffer, 0xEE, bytes);
    size_t got = read_all(buffer);
    if (got != bytes) {
        fprintf(stderr, "generation %u: %zu bytes, not %zu\n", generation, got, bytes);
        exit(1);
    }
    how = written;
    for (size_t at = 0; at < bytes; at++)
        if (buffer[at] != value(generation, at)) {
            fprintf(stderr, "generation %u: byte %zu is %d\n", generation, at, buffer[at]);
            exit(1);
        }
    printf("generation %u: %zu bytes\n", generation, got);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    how = argv[2];
    file = argv[3];
    unsigned generations = (unsigned)atoi(argv[4]);
    bytes = (size_t)atol(argv[5]);
    buffer = malloc(bytes + 10000);
    if (strcmp(argv[1], "write") == 0) {
        for (unsigned g = 1; g <= generations; g++)
            write_generation(g, argc > 6 ? atoi(argv[6]) : 0);
    } else {
        unsigned first = argc > 6 ? (unsigned)atoi(argv[6]) : 1;
        const char *way = how;
        for (unsigned g = first; g < first + generations; g++) {
            how = way;
            read_generation(g, getenv("WRITTEN") ? getenv("WRITTEN") : way);
        }
    }
    return 0;
}
