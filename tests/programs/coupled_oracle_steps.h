/* Records of netCDF files that are read while others are written (`ready=step`).
 *
 * All processes draw the bytes of each generation: a header of a classic format, a variable without
 * records, and records of one to three variables. Each writing rank writes a part of each variable.
 * One rank, or MPI-IO, writes the number of records before or after them. Marks are numbers of
 * records, and STEP times the number of the generation; STEP more if it is complete. */

enum { VARIABLES = 3, STEP = 1000, ROOM = 8192 };

/* How a generation is written: with MPI-IO, by one rank without it, or by all without it. */
enum { BY_MPI, BY_ONE, BY_ALL };

struct series {
    struct file file;
    struct marks *marks;
    int number, version, variables, records, way, was_read, known;
    int fd;       /* without MPI-IO, or -1 */
    int announcer; /* the rank that writes the number of records */
    int is_copy;  /* it began as a copy of the last one: it is for readers when it is complete */
    long widths[VARIABLES], begins[VARIABLES], stride, header, fixed;
};

/* Appends a number, which has its highest byte first. */
static void number_at(char *bytes, long *at, unsigned long value, int width) {
    for (int i = width - 1; i >= 0; i--) bytes[(*at)++] = (char)(value >> (8 * i));
}

/* Bytes of counts, of which the number of records is one; it is behind the 4 bytes of the magic. */
static int width_of_count(const struct series *s) { return s->version == 5 ? 8 : 4; }

static void name_at(const struct series *s, char *bytes, long *at, char name) {
    number_at(bytes, at, 1, width_of_count(s));
    bytes[*at] = name, *at += 4;
}

/* Writes the header for all records. The dimensions are `t`, of records, and one for each variable;
 * the last variable has no records. */
static long make_header(const struct series *s, char *bytes) {
    int count = width_of_count(s), place = s->version == 1 ? 4 : 8;
    long at = 4;
    memcpy(bytes, "CDF", 3), bytes[3] = (char)s->version;
    number_at(bytes, &at, (unsigned long)s->records, count);
    number_at(bytes, &at, 10, 4), number_at(bytes, &at, (unsigned long)s->variables + 2, count);
    for (int i = 0; i < s->variables + 2; i++) {
        long len = i == 0 ? 0 : i <= s->variables ? s->widths[i - 1] : 4;
        name_at(s, bytes, &at, (char)("t"[0] + i));
        number_at(bytes, &at, (unsigned long)len, count);
    }
    number_at(bytes, &at, 0, 4), number_at(bytes, &at, 0, count);
    number_at(bytes, &at, 11, 4), number_at(bytes, &at, (unsigned long)s->variables + 1, count);
    for (int i = 0; i < s->variables + 1; i++) {
        int has_records = i < s->variables;
        long len = has_records ? s->widths[i] : 4;
        name_at(s, bytes, &at, (char)('a' + i));
        number_at(bytes, &at, has_records ? 2 : 1, count);
        if (has_records) number_at(bytes, &at, 0, count);
        number_at(bytes, &at, (unsigned long)i + 1, count);
        number_at(bytes, &at, 0, 4), number_at(bytes, &at, 0, count);
        number_at(bytes, &at, 1, 4); /* a byte for each element */
        number_at(bytes, &at, (unsigned long)(len + 3) / 4 * 4, count);
        number_at(bytes, &at, (unsigned long)(has_records ? s->begins[i] : s->fixed), place);
    }
    return at;
}

/* Draws a generation. */
static void draw_series(struct series *s, int number) {
    static const int versions[] = {1, 2, 5};
    struct file *f = &s->file;
    memset(f->bytes, 0, limit);
    s->number = number, s->version = versions[draw(3)], s->way = (int)draw(3);
    s->variables = 1 + (int)draw(VARIABLES), s->records = 1 + (int)draw(8);
    s->announcer = (int)draw(writers), s->known = 0;
    long most = 1 + (limit - ROOM) / (s->variables * s->records);
    long padding = s->variables > 1 ? 3 : 0;
    s->header = make_header(s, f->bytes);
    s->fixed = (s->header + 3) / 4 * 4;
    s->begins[0] = s->fixed + 4 + 4 * draw(1000), s->stride = 0;
    for (int i = 0; i < s->variables; i++) {
        s->widths[i] = 1 + draw(most);
        if (i) s->begins[i] = s->begins[0] + s->stride;
        s->stride += (s->widths[i] + padding) / (padding + 1) * (padding + 1);
    }
    make_header(s, f->bytes);
    for (int i = 0; i < 4; i++) f->bytes[s->fixed + i] = (char)draw(256);
    for (int record = 0; record < s->records; record++)
        for (int i = 0; i < s->variables; i++) {
            long at = s->begins[i] + record * s->stride;
            f->size = at + s->widths[i];
            while (at < f->size) f->bytes[at++] = (char)(1 + draw(255));
        }
}

static void put_bytes(const struct series *s, const char *bytes, long len, long at) {
    if (s->fd == -1)
        ok(MPI_File_write_at(s->file.open, at, bytes, (int)len, MPI_BYTE, MPI_STATUS_IGNORE));
    else if (pwrite(s->fd, bytes, len, at) != len)
        end("pwrite", strerror(errno));
}

/* Writes the number of records. */
static void announce(const struct series *s, int records) {
    char bytes[8];
    long len = 0;
    if (rank != s->announcer) return;
    s->marks->begun = (long)STEP * s->number + records;
    number_at(bytes, &len, (unsigned long)records, width_of_count(s));
    put_bytes(s, bytes, len, 4);
}

/* Opens an empty file, and writes its header. */
static void begin_series(struct series *s) {
    struct file *f = &s->file;
    int is_first = rank == s->announcer, unlinks = s->number > 1 && draw(2);
    s->fd = -1, s->is_copy = s->way == BY_MPI && s->number > 1 && !unlinks;
    if (unlinks && is_first) system_ok(unlink(f->name), "unlink");
    MPI_Barrier(MPI_COMM_WORLD);
    if (s->way == BY_MPI) {
        int mode = MPI_MODE_CREATE | (draw(2) ? MPI_MODE_RDWR : MPI_MODE_WRONLY);
        ok(MPI_File_open(MPI_COMM_WORLD, f->name, mode, MPI_INFO_NULL, &f->open));
        ok(MPI_File_set_size(f->open, 0));
    } else {
        if (is_first)
            s->fd = system_ok(open(f->name, O_RDWR | O_CREAT | O_TRUNC, 0600), "open to write");
        MPI_Barrier(MPI_COMM_WORLD);
        if (!is_first && s->way == BY_ALL) s->fd = system_ok(open(f->name, O_RDWR), "open");
    }
    int is_apart = (int)draw(2);
    if (is_first) {
        char *bytes = buffer();
        long len = is_apart ? s->header : s->fixed + 4;
        memcpy(bytes, f->bytes, s->fixed + 4);
        memset(bytes + 4, 0, width_of_count(s));
        put_bytes(s, bytes, len, 0);
        if (is_apart) put_bytes(s, bytes + s->fixed, 4, s->fixed);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Each rank writes its part of each variable. */
static void write_record(const struct series *s, int record) {
    struct piece all[PIECES];
    int count = 0, parts = s->way == BY_ONE ? 1 : writers;
    for (int i = 0; i < s->variables; i++)
        for (int part = 0; part < parts; part++) {
            long from = s->widths[i] * part / parts, to = s->widths[i] * (part + 1) / parts;
            long at = s->begins[i] + record * s->stride + from;
            int whose = s->way == BY_ONE ? s->announcer : part;
            if (to > from) all[count++] = (struct piece){at, to - from, whose};
        }
    int how = (int)draw(3);
    /* The name is that of the file that is open: another open for writing joins it. */
    if (s->way == BY_MPI) {
        store((struct file *)&s->file, all, count, how);
        return;
    }
    for (int i = 0; i < count; i++)
        if (all[i].rank == rank)
            put_bytes(s, s->file.bytes + all[i].offset, all[i].len, all[i].offset);
}

static void synchronise_series(const struct series *s) {
    if (s->way == BY_MPI) ok(MPI_File_sync(s->file.open));
    else if (s->fd != -1 && rank != s->announcer) system_ok(fsync(s->fd), "fsync");
    MPI_Barrier(MPI_COMM_WORLD);
    if (s->fd != -1 && rank == s->announcer) system_ok(fsync(s->fd), "fsync");
}

/* Readers must see so many records. Waits until they have seen them, if `waits`. */
static void must_be_seen(const struct series *s, int records, int waits) {
    MPI_Barrier(MPI_COMM_WORLD);
    long sure = (long)STEP * s->number + records;
    if (rank == s->announcer && records) {
        s->marks->sure[0] = sure;
        for (int times = 0; waits && s->marks->seen < sure; times++) {
            if (times == 10000) {
                printf("generation %d, record %d of %d, way %d, %d variables, seen %ld\n",
                       s->number, records, s->records, s->way, s->variables, s->marks->seen);
                end(s->file.name, "readers do not see a record that they must see, not in time");
            }
            pause_for(2);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void write_series(struct series *s) {
    begin_series(s);
    for (int record = 0; record < s->records; record++) {
        int is_first = s->way != BY_MPI && draw(2), syncs = (int)draw(2), waits = draw(3) == 0;
        if (is_first) announce(s, record + 1);
        write_record(s, record);
        /* Other nodes have the bytes of a process without MPI-IO when it has synchronised them. */
        if (s->way == BY_ALL) synchronise_series(s);
        MPI_Barrier(MPI_COMM_WORLD);
        if (!is_first) announce(s, record + 1);
        if (syncs) synchronise_series(s);
        int is_all = syncs || (s->way == BY_MPI && s->variables == 1);
        if (!s->is_copy) must_be_seen(s, is_all ? record + 1 : record, waits);
    }
    if (s->way == BY_MPI) ok(MPI_File_close(&s->file.open));
    else if (s->fd != -1) system_ok(close(s->fd), "close");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == s->announcer) s->marks->sure[0] = (long)STEP * (s->number + 1);
}

static void get_bytes(const struct series *s, char *bytes, long len, long at, const char *what) {
    MPI_Status status;
    int got;
    if (s->fd == -1) {
        ok(MPI_File_read_at(s->file.open, at, bytes, (int)len, MPI_BYTE, &status));
        MPI_Get_count(&status, MPI_BYTE, &got);
    } else {
        got = system_ok((int)pread(s->fd, bytes, len, at), "pread");
    }
    if (got != len && is_worth_saying())
        printf("rank %d, %s: %d bytes at %ld, not %ld\n", rank, what, got, at, len);
    compare(&s->file, bytes, at, got, what);
}

/* Reads the number of records: at least `least`, and what is sure. */
static int count_records(const struct series *s, int least, const char *what) {
    long begin = (long)STEP * s->number, sure = s->marks->sure[0] - begin, got = 0;
    char bytes[8];
    int width = width_of_count(s), records = 0, is_posix = s->fd != -1;
    MPI_Status status;
    if (is_posix) got = pread(s->fd, bytes, width, 4);
    else ok(MPI_File_read_at(s->file.open, 4, bytes, width, MPI_BYTE, &status));
    if (is_posix && got != width) end(what, strerror(errno));
    long begun = s->marks->begun - begin;
    for (int i = 0; i < width; i++) records = records << 8 | (unsigned char)bytes[i];
    if (sure > s->records) sure = s->records;
    if (least < sure) least = (int)sure;
    if ((records < least || records > s->records || records > begun) && is_worth_saying())
        printf("rank %d, %s: %d records, not %d to %ld of %d\n", rank, what, records, least, begun,
               s->records);
    if (rank == 0) s->marks->seen = begin + records;
    return records > s->records ? s->records : records;
}

/* Reads the records behind the first `known`, one of these, and the variable without records. */
static void read_records(const struct series *s, int known, int records, const char *what) {
    char *bytes = buffer();
    int again = (int)draw(known + 1);
    get_bytes(s, bytes, 4, s->fixed, what);
    for (int record = again; record < records; record = record < known ? known : record + 1)
        for (int i = 0; i < s->variables; i++)
            get_bytes(s, bytes, s->widths[i], s->begins[i] + record * s->stride, what);
}

/* Reads records of an open file until it is complete, or some `times`. Returns whether the end was
 * seen. */
static int watch_records(struct series *s, int times, const char *what) {
    int known = 0, is_alone = s->fd != -1, all_ask = is_alone || draw(2), is_last = 0;
    for (int time = 0;; time++) {
        int records = 0, least = s->known, most;
        /* An open file has more records when it is asked again, or no more at all. */
        if (time && least < s->records) least++;
        if (rank == 0 || all_ask) records = count_records(s, least, what);
        if (!all_ask) {
            /* The other nodes get the records when the file is synchronised. */
            MPI_Bcast(&records, 1, MPI_INT, 0, MPI_COMM_WORLD);
            ok(MPI_File_sync(s->file.open));
        }
        read_records(s, known, records, what);
        s->known = known = least = most = records;
        if (!is_alone) {
            MPI_Allreduce(&records, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
            MPI_Allreduce(&records, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        }
        if (is_last) return 1;
        /* The next number of records is known when the file is complete. */
        is_last = least == s->records;
        if (!is_alone && time >= times && most < s->records) return 0;
    }
}

/* Reads a generation: an open that has not seen its end is followed by one of the same. */
static void read_series(struct series *s, const char *what) {
    struct file *f = &s->file;
    for (int is_over = 0; !is_over;) {
        int is_alone = draw(4) == 0 && s->was_read, times = draw(2) ? STEP : (int)draw(3);
        s->fd = is_alone ? system_ok(open(f->name, O_RDONLY), "open to read") : -1;
        if (!is_alone)
            ok(MPI_File_open(MPI_COMM_WORLD, f->name, MPI_MODE_RDONLY, MPI_INFO_NULL, &f->open));
        is_over = watch_records(s, times, what);
        if (is_over && is_alone) compare_all(f, s->fd, what);
        if (is_over && !is_alone) look(f, 2, what);
        if (is_alone) system_ok(close(s->fd), "close");
        else ok(MPI_File_close(&f->open));
    }
    s->was_read = 1;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void all_steps(const char *name, int last, int writes) {
    static struct series series;
    struct file *f = &series.file;
    limit = 1 + draw(limit) + ROOM;
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(f->written_as, sizeof f->written_as, "%s", name);
    f->bytes = calloc(1, limit);
    series.marks = open_marks(f);
    for (int number = 1; number <= last; number++) {
        char what[60];
        snprintf(what, sizeof what, "generation %d", number);
        draw_series(&series, number);
        unsigned long before = state;
        state += writes ? 0 : 1000003ul;
        if (writes) write_series(&series);
        else read_series(&series, what);
        state = before;
    }
    const char *began = getenv("BEGAN");
    if (!writes && began && rank == 0) system_ok(creat(began, 0600), "creat");
}
