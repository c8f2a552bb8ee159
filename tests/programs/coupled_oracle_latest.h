/* Readers of the newest complete generations of files (`gen=latest`). */

/* Each rank opens the file without MPI-IO, and may get another generation. Returns its number. */
static int read_one_by_one(struct file *f, int least, int last) {
    char *bytes = buffer();
    int fd = system_ok(open(f->name, O_RDONLY), "open to read");
    long got = system_ok((int)pread(fd, bytes, limit + 1, 0), "pread");
    int number = which_generation(f, bytes, got, least, last);
    compare_all(f, fd, f->name);
    system_ok(close(fd), "close");
    return number;
}

/* All ranks must get the generation of rank 0. Returns its number. */
static int read_together(struct file *f, int least, int last) {
    char *bytes = buffer();
    int number = 0, got;
    MPI_Status status;
    ok(MPI_File_open(MPI_COMM_WORLD, f->name, MPI_MODE_RDONLY, MPI_INFO_NULL, &f->open));
    if (rank == 0) {
        ok(MPI_File_read_at(f->open, 0, bytes, (int)limit + 1, MPI_BYTE, &status));
        MPI_Get_count(&status, MPI_BYTE, &got);
        number = which_generation(f, bytes, got, least, last);
    }
    MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (number < least && is_worth_saying())
        printf("rank %d, %s: generation %d, not %d or later\n", rank, f->name, number, least);
    memcpy(f->bytes, f->finals[number], limit), f->size = f->sizes[number];
    look(f, 3, f->name);
    ok(MPI_File_close(&f->open));
    return number;
}

/* Opens the files again and again until each has its last generation. An open must get the newest
 * one that is complete: at least the one that was complete before, or that this rank got last. */
static void read_latest(struct file *files, int count, int last, const struct marks *marks) {
    int opens = 0, seen = 0;
    for (int is_over = 0; !is_over;) {
        is_over = 1;
        for (int i = 0; i < count; i++) {
            struct file *f = &files[i];
            int sure = (int)marks->sure[i], before = f->known, least, is_last;
            MPI_Bcast(&sure, 1, MPI_INT, 0, MPI_COMM_WORLD);
            least = sure > before ? sure : before;
            int is_alone = draw(4) == 0 && f->was_read;
            f->known = is_alone ? read_one_by_one(f, least, last) : read_together(f, least, last);
            f->was_read = 1, is_last = f->known == last;
            opens++, seen += f->known > before;
            MPI_Allreduce(MPI_IN_PLACE, &is_last, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
            is_over &= is_last;
        }
        if (!is_over) pause_for(2);
    }
    if (rank == 0) printf("%d opens, %d generations of %d\n", opens, seen, count * last);
}
