/* Writes or reads generations of a file with bytes, calls and orders derived from a seed.
 *
 *   coupled_random write FILE SEED GENERATIONS LARGEST
 *   coupled_random read FILE SEED GENERATIONS LARGEST next|latest|late
 *   coupled_random bytes FILE SEED GENERATIONS LARGEST
 *
 * Writer and reader derive the contents of each generation from SEED; the first eight bytes are its
 * number. The reader reads all of each with random calls in random order and compares it: `next`
 * generation after generation, `latest` until it has seen the last one, `late` the same, but some
 * may not have been kept. `bytes` compares a file with the last generation. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRUNCATE, REMOVE, CHANGE, RENAME, STREAM, WAYS };
enum { PIECES = 40 };
static const char *file;
static uint64_t seed, largest;
static unsigned char *wanted, *found;

static void fail(const char *what) {
    fprintf(stderr, "%s: %s: %s\n", file, what, strerror(errno));
    exit(1);
}

static uint64_t next(uint64_t *state) {
    uint64_t word = *state += 0x9e3779b97f4a7c15u;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return word ^ word >> 31;
}

static uint64_t below(uint64_t *state, uint64_t limit) { return next(state) % limit; }

/* The contents and calls of one generation. */
struct plan {
    int way, pieces, forks, cuts, mapped;
    uint64_t size, start[PIECES], len[PIECES], key[PIECES], cut;
};

static struct plan plan(uint64_t generation) {
    uint64_t state = seed * 1000003 + generation;
    struct plan plan = {.way = (int)below(&state, WAYS), .pieces = 1 + (int)below(&state, PIECES)};
    if (generation == 1 && plan.way == CHANGE) plan.way = TRUNCATE;
    uint64_t reach = 8 + below(&state, largest - 8);
    for (int i = 0; i < plan.pieces; i++) {
        plan.start[i] = below(&state, reach);
        uint64_t room = reach - plan.start[i];
        plan.len[i] = 1 + below(&state, below(&state, 3) ? room : room < 5000 ? room : 5000);
        plan.key[i] = next(&state);
    }
    plan.forks = below(&state, 4) == 0;
    plan.cuts = plan.way != STREAM && below(&state, 3) == 0;
    plan.cut = 8 + below(&state, largest - 8);
    plan.mapped = plan.way != STREAM && below(&state, 4) == 0;
    return plan;
}

static unsigned char value(uint64_t key, uint64_t at) {
    return (unsigned char)((key ^ at * 0x9e3779b97f4a7c15u) >> 40);
}

/* Applies a generation to the bytes in `wanted` and returns the size. */
static uint64_t expect(uint64_t generation, uint64_t size) {
    struct plan p = plan(generation);
    if (p.way != CHANGE) {
        memset(wanted, 0, largest + 8);
        size = 0;
    }
    for (int i = 0; i < p.pieces; i++) {
        for (uint64_t at = 0; at < p.len[i]; at++)
            wanted[p.start[i] + at] = value(p.key[i], at);
        if (p.start[i] + p.len[i] > size) size = p.start[i] + p.len[i];
    }
    if (size < 8) size = 8;
    memcpy(wanted, &generation, 8);
    if (p.cuts) {
        if (p.cut < size) memset(wanted + p.cut, 0, size - p.cut);
        size = p.cut;
    }
    return size;
}

static uint64_t expect_all(uint64_t generation) {
    uint64_t size = 0;
    for (uint64_t number = 1; number <= generation; number++) size = expect(number, size);
    return size;
}

static void put(int fd, const unsigned char *bytes, uint64_t len, uint64_t at, int mapped) {
    if (mapped) {
        struct stat facts;
        if (fstat(fd, &facts)) fail("fstat");
        if (facts.st_size < (off_t)(at + len) && ftruncate(fd, (off_t)(at + len))) fail("grow");
        uint64_t page = at & ~(uint64_t)4095;
        size_t bytes_mapped = (size_t)(at + len - page);
        unsigned char *map =
            mmap(NULL, bytes_mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)page);
        if (map == MAP_FAILED) fail("mmap");
        memcpy(map + (at - page), bytes, len);
        munmap(map, bytes_mapped);
        return;
    }
    if (lseek(fd, (off_t)at, SEEK_SET) < 0) fail("lseek");
    for (uint64_t done = 0; done < len;) {
        ssize_t wrote = at % 2 ? write(fd, bytes + done, len - done)
                               : pwrite(fd, bytes + done, len - done, (off_t)(at + done));
        if (wrote <= 0) fail("write");
        done += (uint64_t)wrote;
    }
}

static void write_pieces(const struct plan *p, int from, int to, int fd, FILE *stream) {
    for (int i = from; i < to; i++) {
        for (uint64_t at = 0; at < p->len[i]; at++) found[at] = value(p->key[i], at);
        if (!stream) {
            put(fd, found, p->len[i], p->start[i], p->mapped && i % 2);
            continue;
        }
        if (fseek(stream, (long)p->start[i], SEEK_SET)) fail("fseek");
        if (fwrite(found, 1, p->len[i], stream) != p->len[i]) fail("fwrite");
    }
}

static void write_generation(uint64_t generation) {
    struct plan p = plan(generation);
    char name[4096];
    snprintf(name, sizeof name, p.way == RENAME ? "%s.new" : "%s", file);
    if (p.way == REMOVE && unlink(name) && errno != ENOENT) fail("unlink");
    if (p.way == STREAM) {
        FILE *stream = fopen(name, "w+");
        if (!stream) fail("fopen");
        write_pieces(&p, 0, p.pieces, -1, stream);
        rewind(stream);
        if (fwrite(&generation, 8, 1, stream) != 1 || fclose(stream)) fail("fclose");
        return;
    }
    int truncates = p.way == TRUNCATE || p.way == RENAME ? O_TRUNC : 0;
    int fd = open(name, O_RDWR | (p.way == CHANGE ? 0 : O_CREAT | truncates), 0640);
    if (fd < 0) fail("open");
    int half = p.forks ? p.pieces / 2 : 0;
    if (p.forks) {
        pid_t child = fork();
        if (child == 0) {
            write_pieces(&p, 0, half, fd, NULL);
            exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status) fail("a child");
    }
    write_pieces(&p, half, p.pieces, fd, NULL);
    put(fd, (const unsigned char *)&generation, 8, 0, 0);
    if (p.cuts && ftruncate(fd, (off_t)p.cut)) fail("ftruncate");
    if (close(fd)) fail("close");
    if (p.way == RENAME && rename(name, file)) fail("rename");
}

/* Reads all bytes in pieces of random order. */
static uint64_t read_all(int fd, uint64_t *state) {
    struct stat facts;
    if (fstat(fd, &facts)) fail("fstat");
    uint64_t size = (uint64_t)facts.st_size, piece = 1 + below(state, size);
    uint64_t count = (size + piece - 1) / piece, first = below(state, count);
    if (size > largest + 8) fail("too large");
    memset(found, 0xEE, largest + 8);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = (first + i) % count * piece, end = at + piece < size ? at + piece : size;
        while (at < end) {
            ssize_t got = pread(fd, found + at, end - at, (off_t)at);
            if (got <= 0) fail("pread");
            at += (uint64_t)got;
        }
    }
    return size;
}

static uint64_t compare(uint64_t size) {
    uint64_t generation;
    memcpy(&generation, found, 8);
    if (generation < 1 || generation > 1000) {
        fprintf(stderr, "%s: no generation has the number %#llx\n", file, (long long)generation);
        exit(1);
    }
    uint64_t wanted_size = expect_all(generation);
    for (uint64_t at = 0; at < size && at < wanted_size; at++)
        if (found[at] != wanted[at]) {
            fprintf(stderr, "%s: generation %llu: byte %llu is %d, not %d\n", file,
                    (long long)generation, (long long)at, found[at], wanted[at]);
            exit(1);
        }
    if (size != wanted_size) {
        fprintf(stderr, "%s: generation %llu: %llu bytes, not %llu\n", file,
                (long long)generation, (long long)size, (long long)wanted_size);
        exit(1);
    }
    return generation;
}

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    file = argv[2];
    seed = strtoull(argv[3], NULL, 10);
    uint64_t generations = strtoull(argv[4], NULL, 10), last = 0, state = seed;
    largest = strtoull(argv[5], NULL, 10);
    const char *how = argc > 6 ? argv[6] : "next";
    wanted = calloc(1, largest + 8), found = malloc(largest + 8);
    if (!wanted || !found) fail("malloc");
    if (strcmp(argv[1], "write") == 0) {
        for (uint64_t generation = 1; generation <= generations; generation++)
            write_generation(generation);
        return 0;
    }
    int once = strcmp(argv[1], "bytes") == 0;
    while (last < generations) {
        int fd = open(file, O_RDONLY);
        if (fd < 0 && errno == ESTALE && strcmp(how, "late") == 0) continue;
        if (fd < 0) fail("open");
        uint64_t generation = compare(read_all(fd, &state));
        if (close(fd)) fail("close");
        int follows = strcmp(how, "next") == 0   ? generation == last + 1
                      : strcmp(how, "late") == 0 ? generation > last
                                                 : generation >= last;
        if (once ? generation != generations : !follows) {
            fprintf(stderr, "generation %llu after %llu\n", (long long)generation,
                    (long long)last);
            return 1;
        }
        if (generation != last) printf("%llu\n", (long long)generation);
        if (generation == last) usleep(1000);
        last = generation;
    }
    return 0;
}
