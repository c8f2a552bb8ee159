/* Random programs that write or read coupled files: write|read FILE SEED GENERATIONS BYTES RANKS.
 *
 * All processes of both sides draw the same program from the seed, and compute the contents of the
 * files after each of its steps. RANKS is the number of writing processes. Writers have one or two
 * files open, cut and extend them, write pieces with holes between them by views, one by one, in
 * turn, and by system calls, append, synchronise, read the bytes of others, open the file again,
 * and rename it when it is complete; readers read random pieces. No rank writes bytes that another
 * rank wrote since the last synchronisation. Every other program writes and reads most generations
 * in the same places as the first one. A reader that has read a generation makes the file that
 * BEGAN names.
 *
 * The ending of FILE is that of its rule. Of `.sync`, readers also read while others write; of
 * `.latest`, they get the newest generation that is complete; of `.stored` and `.after`, rank 0
 * tells what must be on disk in the end; `.step` are records of netCDF files. */
#define _GNU_SOURCE
#include "coupled_oracle_io.h"
#include "coupled_oracle_latest.h"
#include "coupled_oracle_steps.h"

enum { FILES = 2 };
static struct file files[FILES];
static struct marks *marks;

static void begin(struct file *f, int number, int writes) {
    static const int ways[] = {IN_PLACE, IN_PLACE, IN_PLACE, IN_PLACE, RENAMED, RENAMED, FROM_DISK,
                               APPENDED};
    static const char *const names[] = {"%s", "%s.new%s", "%s.tmp", "%s"};
    int may_append = draw(4) == 0;
    f->way = ways[draw(8)], f->reads = draw(3) > 0, f->posix = draw(4) == 0;
    f->count = 0, f->most = 0;
    snprintf(f->written_as, sizeof f->written_as, names[f->way], f->name, strrchr(f->name, '.'));
    forget_owners(f);
    if (number == 1 || f->way == RENAMED || f->way == FROM_DISK) cut(f, 0);
    if (f->way == APPENDED) return;
    int mode = MPI_MODE_CREATE | (f->reads ? MPI_MODE_RDWR : MPI_MODE_WRONLY);
    if (may_append) mode |= MPI_MODE_APPEND;
    if (writes) ok(MPI_File_open(MPI_COMM_WORLD, f->written_as, mode, MPI_INFO_NULL, &f->open));
    long at = may_append ? f->size : 0;
    if (draw(2)) {
        cut(f, 0);
        if (writes) ok(MPI_File_set_size(f->open, 0));
    }
    if (may_append) write_in_turn(f, at, writes);
}

/* One rank appends to the bytes of all ranks, or to a generation that began as a copy of the last
 * one. */
static void append_by_one(struct file *f, int writes) {
    int is_open = f->way != APPENDED, flags = is_open ? 0 : O_CREAT;
    if (!is_open && f->size == limit) cut(f, 0), flags |= O_TRUNC;
    struct piece piece = {f->size, limit - f->size, (int)draw(writers)};
    if (piece.len) piece.len = 1 + draw(piece.len);
    forget_owners(f);
    if (writes && is_open) synchronise(f);
    if (is_open && !f->count) remember(f);
    put(f, &piece, 1);
    if (writes) MPI_Barrier(MPI_COMM_WORLD);
    if (writes && rank == piece.rank) append(f, &piece, flags);
    if (writes) MPI_Barrier(MPI_COMM_WORLD);
}

static void see_what_others_wrote(struct file *f, int writes, const char *what) {
    if (writes) synchronise(f);
    if (!f->count) remember(f);
    forget_owners(f);
    unsigned long before = state;
    if (f->reads && f->size > 0 && writes) look(f, 2, what);
    if (writes) MPI_Barrier(MPI_COMM_WORLD);
    state = before + 1;
}

static void one_step(struct file *f, int is_first, int writes, const char *what) {
    struct piece all[PIECES];
    int step = is_first ? 0 : (int)draw(9), one = draw(3) ? -1 : (int)draw(writers);
    if (f->way == APPENDED) {
        if (is_first) append_by_one(f, writes);
        return;
    }
    if (step == 8) {
        append_by_one(f, writes);
    } else if (step == 7) {
        cut(f, draw(limit + 1));
        if (writes) ok(MPI_File_set_size(f->open, f->size));
    } else if (step >= 5) {
        see_what_others_wrote(f, writes, what);
    } else {
        int count = pieces(f, all, one), how = f->posix ? (int)draw(3) : (int)draw(2);
        put(f, all, count);
        if (writes) store(f, all, count, how);
    }
    if (f->count) remember(f);
}

/* Completes the generation, and renames it if necessary. */
static void finish(struct file *f, int writes) {
    int whose = (int)draw(writers);
    if (f->way != APPENDED) {
        struct piece last = {draw(limit), 1, (int)draw(writers)};
        if (f->owner[last.offset] >= 0) last.rank = f->owner[last.offset];
        put(f, &last, 1);
        if (writes) store(f, &last, 1, 1);
        if (writes) ok(MPI_File_close(&f->open));
    }
    remember(f);
    int is_renamed = f->way == RENAMED || f->way == FROM_DISK;
    if (writes && is_renamed && rank == whose) publish(f);
    if (writes && (is_renamed || f->is_latest)) MPI_Barrier(MPI_COMM_WORLD);
}

static void read_generation(struct file *f, int writes, const char *what) {
    int is_early = f->is_early && !writes, is_alone = draw(4) == 0;
    /* The first generation is gone for a rank that others overtake by two generations before it
     * opens the file. With MPI-IO, all ranks open it together. */
    if (is_alone && f->was_read && !is_early) {
        read_all(f, what);
    } else {
        ok(MPI_File_open(MPI_COMM_WORLD, f->name, MPI_MODE_RDONLY, MPI_INFO_NULL, &f->open));
        if (is_early) watch(f, what);
        look(f, 3, what);
        ok(MPI_File_close(&f->open));
    }
    f->was_read = 1;
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Runs a generation of each file; readers only compute the final contents. */
static void generations(int number, int count, int writes) {
    char what[FILES][60];
    int rounds = 1 + (int)draw(5);
    for (int i = 0; i < count; i++) {
        snprintf(what[i], sizeof what[i], "file %d, generation %d", i, number);
        begin(&files[i], number, writes);
        one_step(&files[i], 1, writes, what[i]);
    }
    for (int round = 0; round < rounds * count; round++) {
        int i = (int)draw(count);
        one_step(&files[i], 0, writes, what[i]);
    }
    for (int i = 0; i < count; i++) {
        finish(&files[i], writes);
        if (!files[i].is_latest) continue;
        if (writes) marks->sure[i] = number;
        else keep_final(&files[i], number);
    }
    int again = draw(4) == 0, first = (int)draw(count);
    unsigned long before = state;
    if (writes ? again : !files[0].is_latest) {
        state += 1000003ul * (writes ? 1 : 2);
        if (writes) MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) {
            int one = (first + i) % count;
            read_generation(&files[one], writes, what[one]);
        }
    }
    state = before;
    const char *began = getenv("BEGAN");
    if (!writes && began && rank == 0) system_ok(creat(began, 0600), "creat");
}

/* Names the files, whose rule is that of the ending of `name`. */
static void name_files(const char *name, int count) {
    const char *ending = strrchr(name, '.');
    for (int i = 0; i < count; i++) {
        struct file *f = &files[i];
        const char *form = i ? "%.*s.other%s" : "%.*s%s";
        snprintf(f->name, sizeof f->name, form, (int)(ending - name), name, ending);
        f->bytes = calloc(1, limit), f->owner = malloc(limit);
        f->is_early = !strcmp(ending, ".sync"), f->is_latest = !strcmp(ending, ".latest");
    }
    if (files[0].is_latest) marks = open_marks(&files[0]);
}

static void all_generations(const char *name, int last, int writes) {
    limit = 1 + draw(limit);
    int count = 1 + (int)draw(FILES);
    name_files(name, count);
    int repeats = (int)draw(2);
    unsigned long first = state, seed = state;
    for (int number = 1; number <= last; number++) {
        if (repeats && (seed / 64 + (unsigned long)number) % 4) state = first;
        salt = repeats ? (unsigned long)number * 37 : 0;
        generations(number, count, writes);
    }
    if (writes) return;
    if (files[0].is_latest) read_latest(files, count, last, marks);
    for (int i = 0; i < count && rank == 0; i++)
        if (is_stored(&files[i])) tell_expected(&files[i]);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc != 7 || !strrchr(argv[2], '.')) return 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    int writes = !strcmp(argv[1], "write"), last = atoi(argv[4]);
    state = strtoul(argv[3], 0, 10), limit = atol(argv[5]), writers = atoi(argv[6]);
    if (last >= GENERATIONS) return 2;
    for (int i = 0; i < 10; i++) draw(2);
    if (strcmp(strrchr(argv[2], '.'), ".step")) all_generations(argv[2], last, writes);
    else all_steps(argv[2], last, writes);
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf(failures ? "%d are wrong\n" : "right\n", failures);
    MPI_Finalize();
    return failures > 0;
}
