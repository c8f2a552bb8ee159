/* One faulty operation under any MPI-IO implementation, reported rank by rank.
 *
 *     faults MODE PATH        the fault itself comes from outside (a full disk, fault_shim.c)
 *
 * Each rank prints one line:   MODE rank R error CLASS bytes N of M later OK|CLASS
 * where CLASS is the error class by name, N the bytes of the status, and `later` tells whether a
 * following, fault-free exchange of data through the same file handle worked.
 * The file named by FAULT_LIFT, if set, is removed after the faulty call, so that whoever injects
 * the fault can lift it. A run that takes 60 s prints HANG and ends. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE 4096
#define PIECES 64

static int rank, size;
static char buffer[PIECE * PIECES];

static const char *class_name(int code) {
    static const struct {
        int class;
        const char *name;
    } table[] = {{MPI_SUCCESS, "SUCCESS"},
                 {MPI_ERR_NO_SPACE, "NO_SPACE"},
                 {MPI_ERR_QUOTA, "QUOTA"},
                 {MPI_ERR_ACCESS, "ACCESS"},
                 {MPI_ERR_READ_ONLY, "READ_ONLY"},
                 {MPI_ERR_NO_SUCH_FILE, "NO_SUCH_FILE"},
                 {MPI_ERR_FILE_EXISTS, "FILE_EXISTS"},
                 {MPI_ERR_BAD_FILE, "BAD_FILE"},
                 {MPI_ERR_IO, "IO"},
                 {MPI_ERR_FILE, "FILE"},
                 {MPI_ERR_IN_STATUS, "IN_STATUS"},
                 {MPI_ERR_OTHER, "OTHER"}};
    static char text[32];
    int class = -1;
    MPI_Error_class(code, &class);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].class == class) return table[i].name;
    snprintf(text, sizeof text, "CLASS_%d", class);
    return text;
}

static void hang(int signal) {
    (void)signal;
    static const char text[] = "HANG\n";
    if (write(1, text, sizeof text - 1)) {}
    _exit(7);
}

/* Every rank owns every size-th piece. */
static int interleaved_view(MPI_File file) {
    MPI_Datatype piece, filetype;
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, (MPI_Aint)PIECE * size, &filetype);
    MPI_Type_commit(&filetype);
    int code = MPI_File_set_view(file, (MPI_Offset)rank * PIECE, MPI_BYTE, filetype, "native",
                                 MPI_INFO_NULL);
    MPI_Type_free(&piece);
    MPI_Type_free(&filetype);
    return code;
}

static int operation(const char *mode, MPI_File file, MPI_Status *status) {
    int n = sizeof buffer;
    MPI_Offset mine = (MPI_Offset)rank * n;
    MPI_Request request;
    if (strstr(mode, "strided") || strstr(mode, "collective")) interleaved_view(file);
    if (!strcmp(mode, "write_independent"))
        return MPI_File_write_at(file, mine, buffer, n, MPI_BYTE, status);
    if (!strcmp(mode, "read_independent"))
        return MPI_File_read_at(file, mine, buffer, n, MPI_BYTE, status);
    if (!strcmp(mode, "write_strided"))
        return MPI_File_write_at(file, 0, buffer, n, MPI_BYTE, status);
    if (!strcmp(mode, "read_strided"))
        return MPI_File_read_at(file, 0, buffer, n, MPI_BYTE, status);
    if (!strcmp(mode, "write_collective"))
        return MPI_File_write_at_all(file, 0, buffer, n, MPI_BYTE, status);
    if (!strcmp(mode, "read_collective"))
        return MPI_File_read_at_all(file, 0, buffer, n, MPI_BYTE, status);
    if (!strcmp(mode, "write_shared"))
        return MPI_File_write_shared(file, buffer, n, MPI_BYTE, status);
    if (!strcmp(mode, "read_shared"))
        return MPI_File_read_shared(file, buffer, n, MPI_BYTE, status);
    if (!strcmp(mode, "write_ordered"))
        return MPI_File_write_ordered(file, buffer, n, MPI_BYTE, status);
    if (!strcmp(mode, "read_ordered"))
        return MPI_File_read_ordered(file, buffer, n, MPI_BYTE, status);
    if (!strcmp(mode, "iwrite")) {
        int code = MPI_File_iwrite_at(file, mine, buffer, n, MPI_BYTE, &request);
        return code ? code : MPI_Wait(&request, status);
    }
    if (!strcmp(mode, "iread")) {
        int code = MPI_File_iread_at(file, mine, buffer, n, MPI_BYTE, &request);
        return code ? code : MPI_Wait(&request, status);
    }
    if (!strcmp(mode, "iwrite_collective")) {
        int code = MPI_File_iwrite_at_all(file, 0, buffer, n, MPI_BYTE, &request);
        return code ? code : MPI_Wait(&request, status);
    }
    if (!strcmp(mode, "iread_collective")) {
        int code = MPI_File_iread_at_all(file, 0, buffer, n, MPI_BYTE, &request);
        return code ? code : MPI_Wait(&request, status);
    }
    if (!strcmp(mode, "split_write_collective")) {
        int code = MPI_File_write_at_all_begin(file, 0, buffer, n, MPI_BYTE);
        return code ? code : MPI_File_write_at_all_end(file, buffer, status);
    }
    if (!strcmp(mode, "sync")) {
        int code = MPI_File_write_at(file, mine, buffer, 1, MPI_BYTE, MPI_STATUS_IGNORE);
        return code ? code : MPI_File_sync(file);
    }
    if (!strcmp(mode, "set_size")) return MPI_File_set_size(file, 1 << 20);
    if (!strcmp(mode, "preallocate")) return MPI_File_preallocate(file, 64 << 20);
    fprintf(stderr, "faults: unknown mode %s\n", mode);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return MPI_ERR_ARG;
}

/* A small collective write and read through the same handle. */
static int later(MPI_File file) {
    char out[16], in[16];
    MPI_Status status;
    int code = MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    if (code) return code;
    memset(out, 'a' + rank, sizeof out);
    code = MPI_File_write_at_all(file, (MPI_Offset)rank * 16, out, 16, MPI_BYTE, &status);
    if (code) return code;
    code = MPI_File_read_at_all(file, (MPI_Offset)rank * 16, in, 16, MPI_BYTE, &status);
    if (code) return code;
    return memcmp(in, out, 16) ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void lift(void) {
    const char *name = getenv("FAULT_LIFT");
    MPI_Barrier(MPI_COMM_WORLD);
    if (name && rank == 0) unlink(name);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    signal(SIGALRM, hang);
    alarm(60);
    if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
    const char *mode = argv[1];
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "65536");
    MPI_Info_set(info, "cb_config_list", "*:*");
    char nodes[16];
    snprintf(nodes, sizeof nodes, "%d", size);
    MPI_Info_set(info, "cb_nodes", nodes);
    MPI_File file;
    memset(buffer, 'A' + rank, sizeof buffer);
    int code = MPI_File_open(MPI_COMM_WORLD, argv[2], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file);
    MPI_Info_free(&info);
    if (code || !strcmp(mode, "open")) {
        printf("%s rank %d error %s bytes 0 of 0 later -\n", mode, rank, class_name(code));
        if (!code) MPI_File_close(&file);
        fflush(stdout);
        MPI_Finalize();
        return 0;
    }
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int bytes = 0;
    if (strcmp(mode, "close")) {
        MPI_Status status;
        memset(&status, 0, sizeof status);
        code = operation(mode, file, &status);
        if (strstr(mode, "write") || strstr(mode, "read")) MPI_Get_count(&status, MPI_BYTE, &bytes);
        lift();
        int after = later(file);
        printf("%s rank %d error %s bytes %d of %d later %s\n", mode, rank, class_name(code), bytes,
               (int)sizeof buffer, after ? class_name(after) : "OK");
        MPI_File_close(&file);
    } else {
        char byte = 'x';
        MPI_File_write_at(file, rank, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE);
        code = MPI_File_close(&file);
        printf("%s rank %d error %s bytes 0 of 0 later -\n", mode, rank, class_name(code));
    }
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
