// Error handlers of the C++ bindings (removed from the standard in MPI-3, still built by Debian).
#include "check.h"
#include <cstdarg>

static int calls, last_class;
static bool same_file;
static MPI_File expected;

static void handler(MPI::File &file, int *code, ...)
{
    calls++;
    last_class = MPI::Get_error_class(*code);
    same_file = (MPI_File)file == expected;
}

static void forgive(MPI::File &, int *code, ...)
{
    calls++;
    *code = MPI_SUCCESS;
}

static void called_once(const char *what)
{
    CHECK(calls == 1, "%s: calls of the handler: %d", what, calls);
    calls = 0;
}

// Whatever it leaves of the code, the handler is called once for each error, also where none has a
// file.
static void calls_of(MPI::File &file, MPI::Errhandler &errhandler)
{
    char byte = 0;
    calls = 0;
    file.Set_errhandler(errhandler);
    file.Read_at(0, &byte, 1, MPI::BYTE);
    called_once("a C++ call");
    MPI_File_read_at(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE);
    called_once("a C call");
    MPI::FILE_NULL.Set_errhandler(errhandler);
    MPI::File::Open(MPI::COMM_WORLD, "/no/such/folder/f", MPI_MODE_RDONLY, MPI::INFO_NULL);
    called_once("an open");
    MPI::FILE_NULL.Set_errhandler(MPI::ERRORS_RETURN);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI::Errhandler ours = MPI::File::Create_errhandler(handler);
    MPI::File file = MPI::File::Open(MPI::COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY,
                                     MPI::INFO_NULL);
    expected = file;
    file.Set_errhandler(ours);
    char byte = 0;
    file.Read_at(0, &byte, 1, MPI::BYTE);
    CHECK(calls == 1, "calls of the handler: %d", calls);
    CHECK(last_class == MPI_ERR_ACCESS, "with the class of the error");
    CHECK(same_file, "and the file");
    MPI::Errhandler forgiving = MPI::File::Create_errhandler(forgive);
    calls_of(file, ours);
    calls_of(file, forgiving);
    ours.Free();
    forgiving.Free();
    file.Close();
    return check_finish();
}
