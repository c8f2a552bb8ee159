/* Error handlers that change the code: what each failed call returns. Usage: swallowed FILE
 * success|other [native] The handler sets the code to MPI_SUCCESS or to another one. Prints a line
 * for each call: "left" means what the handler left, "kept" the error. With "native" it makes only
 * calls that every MPI library survives and refuses. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int leave, calls, rank;

static void replace(MPI_File *fh, int *code, ...)
{
    (void)fh;
    calls++;
    *code = leave;
}

static void told(const char *what, int code)
{
    if (rank == 0)
        printf("%s: %s, %d called\n", what, code == leave ? "left" : "kept", calls);
    calls = 0;
}

#define TRY(call) told(#call, call)

static void without_a_file(void)
{
    MPI_File fh = MPI_FILE_NULL, null = MPI_FILE_NULL;
    MPI_Offset size;
    TRY(MPI_File_open(MPI_COMM_WORLD, "/no/such/folder/f", MPI_MODE_RDONLY, MPI_INFO_NULL, &fh));
    TRY(MPI_File_delete("/no/such/folder/f", MPI_INFO_NULL));
    TRY(MPI_File_get_size(null, &size));
    TRY(MPI_File_sync(null));
    TRY(MPI_File_close(&null));
}

static void everywhere(MPI_File fh)
{
    MPI_Status status;
    char byte = 0;
    TRY(MPI_File_read_at(fh, 0, &byte, 1, MPI_BYTE, &status));
    TRY(MPI_File_read_at_all(fh, 0, &byte, 1, MPI_BYTE, &status));
    TRY(MPI_File_read(fh, &byte, 1, MPI_BYTE, &status));
    TRY(MPI_File_read_all(fh, &byte, 1, MPI_BYTE, &status));
    TRY(MPI_File_read_shared(fh, &byte, 1, MPI_BYTE, &status));
    TRY(MPI_File_write_at(fh, 0, &byte, -1, MPI_BYTE, &status));
    TRY(MPI_File_write(fh, &byte, -1, MPI_BYTE, &status));
    TRY(MPI_File_write_at(fh, 0, &byte, 1, MPI_DATATYPE_NULL, &status));
    TRY(MPI_File_seek(fh, -1, MPI_SEEK_SET));
    TRY(MPI_File_seek_shared(fh, -1, MPI_SEEK_SET));
    TRY(MPI_File_set_size(fh, -1));
}

/* Calls in which some MPI library crashes, succeeds, ends the job or calls the handler twice. */
static void further(MPI_File fh)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    char bytes[2] = {0, 0};
    int flag = 0;
    TRY(MPI_File_iread_at(fh, 0, bytes, 1, MPI_BYTE, requests));
    TRY(MPI_File_iwrite_at(fh, 0, bytes, -1, MPI_BYTE, requests));
    TRY(MPI_File_preallocate(fh, -1));
    TRY(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "nonsense", MPI_INFO_NULL));
    TRY(MPI_File_set_view(fh, -1, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    TRY(MPI_File_read_all_end(fh, bytes, statuses));
    TRY(MPI_File_set_errhandler(fh, MPI_ERRHANDLER_NULL));
    MPI_File_iread_at_all(fh, 0, bytes, 1, MPI_BYTE, requests);
    TRY(MPI_Wait(requests, statuses));
    MPI_File_iread_at_all(fh, 0, bytes, 1, MPI_BYTE, requests);
    while (!flag) {
        int code = MPI_Test(requests, &flag, statuses);
        if (flag)
            told("MPI_Test", code);
    }
    MPI_File_iread_at_all(fh, 0, bytes, 1, MPI_BYTE, requests);
    MPI_File_iread_at_all(fh, 0, bytes + 1, 1, MPI_BYTE, requests + 1);
    if (leave == MPI_SUCCESS) {
        calls = -1;
        TRY(MPI_Waitall(2, requests, statuses));
    } else {
        int code = MPI_Waitall(2, requests, statuses);
        calls--;
        told("MPI_Waitall", code == MPI_ERR_IN_STATUS ? statuses[1].MPI_ERROR : -1);
    }
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    MPI_File fh;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    leave = strcmp(argv[2], "success") == 0 ? MPI_SUCCESS : MPI_ERR_DUP_DATAREP;
    MPI_File_create_errhandler(replace, &handler);
    MPI_File_set_errhandler(MPI_FILE_NULL, handler);
    without_a_file();
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &fh);
    everywhere(fh);
    if (argc < 4)
        further(fh);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    MPI_File_close(&fh);
    MPI_Finalize();
    return 0;
}
