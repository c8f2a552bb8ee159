/* Error handlers: the default of files, those of one file, user functions, and how long they live.
 */
#include "check.h"

static int called, last_class;
static MPI_File last_file;

static void remember(MPI_File *file, int *code, ...)
{
    called++;
    last_file = *file;
    MPI_Error_class(*code, &last_class);
}

static int other_called;

static void other(MPI_File *file, int *code, ...)
{
    (void)file, (void)code;
    other_called++;
}

static void fail(MPI_File file)
{
    char byte;
    MPI_Status status;
    CHECK(MPI_File_read_at(file, -1, &byte, 1, MPI_BYTE, &status) != MPI_SUCCESS,
          "offset -1 was accepted");
}

int main(int argc, char **argv)
{
    MPI_Errhandler mine, found, second;
    MPI_File file, absent;

    check_init(&argc, &argv);
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &found));
    CHECK(found == MPI_ERRORS_RETURN, "the default handler of files is not MPI_ERRORS_RETURN");
    MPI_Errhandler_free(&found);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_get_errhandler(file, &found));
    CHECK(found == MPI_ERRORS_RETURN, "a new file's handler is not MPI_ERRORS_RETURN");
    MPI_Errhandler_free(&found);
    fail(file);

    OK(MPI_File_create_errhandler(remember, &mine));
    OK(MPI_File_set_errhandler(file, mine));
    OK(MPI_File_get_errhandler(file, &found));
    CHECK(found == mine, "got another handler than was set");
    OK(MPI_Errhandler_free(&found));
    /* The file keeps the handler alive. */
    OK(MPI_Errhandler_free(&mine));
    fail(file);
    CHECK(called == 1, "the handler was called %d times", called);
    CHECK(last_file == file, "the handler got another file");
    CHECK(last_class == MPI_ERR_ARG, "the handler got class %d", last_class);
    OK(MPI_File_call_errhandler(file, MPI_ERR_IO));
    CHECK(called == 2 && last_class == MPI_ERR_IO, "call_errhandler: %d calls, class %d", called,
          last_class);

    /* Errors without a file go to the handler of MPI_FILE_NULL, which new files inherit. */
    OK(MPI_File_create_errhandler(other, &second));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, second));
    CHECK(MPI_File_open(MPI_COMM_SELF, "/no/such/directory/file", MPI_MODE_RDONLY, MPI_INFO_NULL,
                        &absent) != MPI_SUCCESS,
          "opened a file that is not there");
    CHECK(other_called == 1, "the default handler was called %d times", other_called);
    OK(MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &absent));
    fail(absent);
    CHECK(other_called == 2, "the inherited handler was called %d times", other_called);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    fail(absent);
    CHECK(other_called == 3, "a file lost its handler: %d calls", other_called);
    OK(MPI_File_close(&absent));
    OK(MPI_Errhandler_free(&second));
    fail(file);
    CHECK(called == 3, "the first file's handler was called %d times", called);

    /* A nonblocking operation's error goes to its file's handler. */
    char byte;
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_File_iread_at(file, -1, &byte, 1, MPI_BYTE, &request);
    if (code == MPI_SUCCESS)
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(code != MPI_SUCCESS && called == 4, "nonblocking: code %d, %d calls", code, called);
    OK(MPI_File_close(&file));
    return check_finish();
}
