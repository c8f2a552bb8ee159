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

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI::Errhandler ours = MPI::File::Create_errhandler(handler);
    MPI::File file = MPI::File::Open(MPI::COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI::INFO_NULL);
    expected = file;
    file.Set_errhandler(ours);
    ours.Free();
    char byte = 0;
    file.Read_at(0, &byte, 1, MPI::BYTE);
    CHECK(calls == 1, "calls of the handler: %d", calls);
    CHECK(last_class == MPI_ERR_ACCESS, "with the class of the error");
    CHECK(same_file, "and the file");
    file.Close();
    return check_finish();
}
