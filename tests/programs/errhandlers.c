/* Error handlers of files: default, inheritance, user functions, life time, calling them. Usage:
 * errhandlers FILE With a second argument the program ends through MPI_ERRORS_ARE_FATAL ("fatal")
 * or MPI_ERRORS_ABORT ("abort"). */
#include "check.h"

static MPI_File last_file;
static int last_code, calls;

static void remember(MPI_File *fh, int *code, ...)
{
    last_file = *fh;
    last_code = *code;
    calls++;
}

static void other(MPI_File *fh, int *code, ...)
{
    (void)fh;
    (void)code;
    calls += 100;
}

/* The handler was called once, for this file and with an error of this class. */
static void called(MPI_File fh, int class)
{
    CHECK(calls == 1, "%d calls", calls);
    CHECK(last_file == fh, "another file");
    CHECK(check_class(last_code) == class, "%s", check_text(last_code));
    calls = 0;
}

static MPI_File open_file(const char *path)
{
    MPI_File fh = MPI_FILE_NULL;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh));
    return fh;
}

static void predefined(const char *path)
{
    MPI_Errhandler handler;
    MPI_File fh;
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &handler));
    CHECK(handler == MPI_ERRORS_RETURN, "another default");
    fh = open_file(path);
    OK(MPI_File_get_errhandler(fh, &handler));
    CHECK(handler == MPI_ERRORS_RETURN, "another default");
    OK(MPI_File_set_errhandler(fh, MPI_ERRORS_ARE_FATAL));
    OK(MPI_File_get_errhandler(fh, &handler));
    CHECK(handler == MPI_ERRORS_ARE_FATAL, "another handler");
    OK(MPI_File_set_errhandler(fh, MPI_ERRORS_RETURN));
    OK(MPI_File_call_errhandler(fh, MPI_ERR_IO));
    FAILS(MPI_File_set_errhandler(fh, MPI_ERRHANDLER_NULL), MPI_ERR_ARG);
    OK(MPI_File_close(&fh));
}

static void of_a_file(const char *path)
{
    MPI_Errhandler handler, again;
    MPI_File fh = open_file(path);
    OK(MPI_File_create_errhandler(remember, &handler));
    OK(MPI_File_set_errhandler(fh, handler));
    /* The object may be freed: the file keeps it. */
    OK(MPI_Errhandler_free(&handler));
    CHECK(handler == MPI_ERRHANDLER_NULL, "not null");
    FAILS(MPI_File_seek(fh, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    called(fh, MPI_ERR_ARG);
    OK(MPI_File_call_errhandler(fh, MPI_ERR_IO));
    called(fh, MPI_ERR_IO);
    OK(MPI_File_get_errhandler(fh, &again));
    OK(MPI_File_set_errhandler(fh, MPI_ERRORS_RETURN));
    FAILS(MPI_File_seek(fh, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    CHECK(calls == 0, "%d calls", calls);
    /* The reference that was got keeps it as well. */
    OK(MPI_File_set_errhandler(fh, again));
    OK(MPI_Errhandler_free(&again));
    FAILS(MPI_File_seek(fh, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    called(fh, MPI_ERR_ARG);
    /* Replaced while it is the only reference. */
    OK(MPI_File_create_errhandler(other, &handler));
    OK(MPI_File_set_errhandler(fh, handler));
    OK(MPI_Errhandler_free(&handler));
    FAILS(MPI_File_seek(fh, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    CHECK(calls == 100, "%d calls", calls);
    calls = 0;
    OK(MPI_File_close(&fh));
}

static void of_no_file(const char *path)
{
    MPI_Errhandler handler, inherited;
    MPI_File fh, stale;
    OK(MPI_File_create_errhandler(remember, &handler));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    FAILS(MPI_File_open(MPI_COMM_WORLD, "/no/such/folder/f", MPI_MODE_RDONLY, MPI_INFO_NULL, &fh),
          MPI_ERR_NO_SUCH_FILE);
    called(MPI_FILE_NULL, MPI_ERR_NO_SUCH_FILE);
    FAILS(MPI_File_delete("/no/such/folder/f", MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    called(MPI_FILE_NULL, MPI_ERR_NO_SUCH_FILE);
    fh = open_file(path);
    CHECK(calls == 0, "%d calls", calls);
    OK(MPI_File_get_errhandler(fh, &inherited));
    CHECK(inherited == handler, "not inherited");
    OK(MPI_Errhandler_free(&inherited));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&handler));
    FAILS(MPI_File_seek(fh, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    called(fh, MPI_ERR_ARG);
    stale = fh;
    OK(MPI_File_close(&fh));
    OK(MPI_File_create_errhandler(remember, &handler));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    OK(MPI_Errhandler_free(&handler));
    FAILS(MPI_File_sync(stale), MPI_ERR_FILE);
    called(MPI_FILE_NULL, MPI_ERR_FILE);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    FAILS(MPI_File_sync(stale), MPI_ERR_FILE);
    CHECK(calls == 0, "%d calls", calls);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    if (argc > 2) {
        MPI_File fh = open_file(argv[1]);
#ifdef MPI_ERRORS_ABORT
        MPI_File_set_errhandler(fh, argv[2][0] == 'a' ? MPI_ERRORS_ABORT : MPI_ERRORS_ARE_FATAL);
#else
        MPI_File_set_errhandler(fh, MPI_ERRORS_ARE_FATAL);
#endif
        MPI_File_seek(fh, -1, MPI_SEEK_SET);
        printf("still here\n");
        MPI_Finalize();
        return 0;
    }
    predefined(argv[1]);
    of_a_file(argv[1]);
    of_no_file(argv[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        OK(MPI_File_delete(argv[1], MPI_INFO_NULL));
    return check_finish();
}
