/* A set of files is the one file that it stands for.
 *
 * usage: sets SET CANONICAL          its bytes are those of CANONICAL, by every way of reading, and
 *                                    it cannot be changed
 *        sets SET refused WORD       it cannot be opened, and the error has the word
 *        sets SET none               there is nothing of this name
 *        sets SET made               a new file can be made */
#include "check.h"
#include <sys/stat.h>

static char *expected, *found;
static MPI_Offset size;

static void load(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat facts;
    CHECK(file && !stat(path, &facts), "%s cannot be read", path);
    size = file ? facts.st_size : 0;
    expected = malloc(size + 1);
    found = malloc(size + 1);
    CHECK(!file || fread(expected, 1, size, file) == (size_t)size, "%s is short", path);
    if (file)
        fclose(file);
}

/* So many bytes in `found`, those of the file from `from` on. */
static void same(MPI_Offset from, MPI_Offset len, const char *how)
{
    for (MPI_Offset i = 0; i < len; i++)
        if (found[i] != expected[from + i]) {
            CHECK(0, "%s: byte %lld is %d, not %d", how, (long long)(from + i), found[i],
                  expected[from + i]);
            return;
        }
}

static MPI_File opened(const char *path)
{
    MPI_File file;
    MPI_Offset told = -1;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_get_size(file, &told));
    CHECK(told == size, "the size is %lld, not %lld", (long long)told, (long long)size);
    return file;
}

static void contiguous(MPI_File file, const char *how)
{
    MPI_Status status;
    MPI_Offset part = size / check_size + 1, from = part * check_rank;
    MPI_Offset len = from + part > size ? size - from : part;
    memset(found, 1, size);
    OK(MPI_File_read_at_all(file, from, found, (int)part, MPI_BYTE, &status));
    COUNT(&status, MPI_BYTE, (int)len);
    same(from, len, how);
}

/* Pieces of 1000 bytes by turns, beginning at byte 7, which the file ends in the middle of. */
static void views(MPI_File file, int collective)
{
    enum { PIECE = 1000 };
    MPI_Datatype one, pieces;
    MPI_Status status;
    int count = 0, wanted = (int)(size / (PIECE * check_size)) + 2;
    OK(MPI_Type_contiguous(PIECE, MPI_BYTE, &one));
    OK(MPI_Type_create_resized(one, 0, (MPI_Aint)PIECE * check_size, &pieces));
    OK(MPI_Type_commit(&pieces));
    OK(MPI_File_set_view(file, 7 + (MPI_Offset)PIECE * check_rank, MPI_BYTE, pieces, "native",
                         MPI_INFO_NULL));
    memset(found, 1, size);
    if (collective)
        OK(MPI_File_read_all(file, found, wanted * PIECE, MPI_BYTE, &status));
    else
        OK(MPI_File_read(file, found, wanted * PIECE, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    MPI_Offset all = 0;
    for (int i = 0; i < wanted; i++) {
        MPI_Offset from = 7 + (MPI_Offset)PIECE * (check_rank + (MPI_Offset)i * check_size);
        MPI_Offset len = from >= size ? 0 : from + PIECE > size ? size - from : PIECE;
        CHECK(!len || !memcmp(found + all, expected + from, len), "bytes from %lld on differ",
              (long long)from);
        all += len;
    }
    CHECK(count == all, "%d bytes instead of %lld", count, (long long)all);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Type_free(&pieces);
    MPI_Type_free(&one);
}

static void alone(MPI_File file)
{
    MPI_Status status;
    unsigned seed = 17 + check_rank;
    for (int i = 0; i < 200; i++) {
        seed = seed * 1103515245u + 12345u;
        MPI_Offset from = seed % size, len = (seed >> 7) % 5000;
        MPI_Offset there = from + len > size ? size - from : len;
        OK(MPI_File_read_at(file, from, found, (int)len, MPI_BYTE, &status));
        COUNT(&status, MPI_BYTE, (int)there);
        same(from, there, "read_at");
    }
    OK(MPI_File_read_at(file, size + 5, found, 10, MPI_BYTE, &status));
    COUNT(&status, MPI_BYTE, 0);
}

static void others(MPI_File file)
{
    MPI_Status status;
    MPI_Request request;
    MPI_Offset part = size / check_size / 2, from = part * check_rank;
    OK(MPI_File_iread_at(file, from, found, (int)part, MPI_BYTE, &request));
    MPI_Wait(&request, &status);
    same(from, part, "iread_at");
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    OK(MPI_File_read_ordered(file, found, (int)part, MPI_BYTE, &status));
    same(from, part, "read_ordered");
    OK(MPI_File_seek(file, -10, MPI_SEEK_END));
    OK(MPI_File_read(file, found, 100, MPI_BYTE, &status));
    COUNT(&status, MPI_BYTE, 10);
    same(size - 10, 10, "read at the end");
    OK(MPI_File_set_atomicity(file, 1));
    contiguous(file, "read_at_all in atomic mode");
    OK(MPI_File_read_at(file, from, found, (int)part, MPI_BYTE, &status));
    same(from, part, "read_at in atomic mode");
    OK(MPI_File_sync(file));
}

static void changes(const char *path, MPI_File file)
{
    MPI_File other;
    MPI_Status status;
    int modes[] = {MPI_MODE_RDWR, MPI_MODE_WRONLY, MPI_MODE_CREATE | MPI_MODE_RDWR,
                   MPI_MODE_CREATE | MPI_MODE_WRONLY};
    for (int i = 0; i < 4; i++)
        FAILS(MPI_File_open(MPI_COMM_WORLD, path, modes[i], MPI_INFO_NULL, &other),
              MPI_ERR_READ_ONLY);
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR,
                        MPI_INFO_NULL, &other),
          MPI_ERR_FILE_EXISTS);
    FAILS(MPI_File_delete(path, MPI_INFO_NULL), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_write_at(file, 0, found, 1, MPI_BYTE, &status), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_write_at_all(file, 0, found, 1, MPI_BYTE, &status), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_set_size(file, 0), MPI_ERR_READ_ONLY);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_File file;
    if (argc > 3 && !strcmp(argv[2], "refused")) {
        int code = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
        CHECK(check_class(code) == MPI_ERR_IO, "class %d", check_class(code));
        CHECK(strstr(check_text(code), argv[3]), "no %s in: %s", argv[3], check_text(code));
        return check_finish();
    }
    if (argc > 2 && !strcmp(argv[2], "none")) {
        FAILS(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
              MPI_ERR_NO_SUCH_FILE);
        FAILS(MPI_File_delete(argv[1], MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
        return check_finish();
    }
    if (argc > 2 && !strcmp(argv[2], "made")) {
        OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                         &file));
        OK(MPI_File_close(&file));
        return check_finish();
    }
    load(argv[2]);
    file = opened(argv[1]);
    contiguous(file, "read_at_all");
    views(file, 1);
    views(file, 0);
    alone(file);
    others(file);
    changes(argv[1], file);
    OK(MPI_File_close(&file));
    /* One rank needs the file, the others never do. */
    file = opened(argv[1]);
    if (check_rank == check_size - 1)
        alone(file);
    OK(MPI_File_close(&file));
    /* Every rank by itself. */
    OK(MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    alone(file);
    OK(MPI_File_close(&file));
    return check_finish();
}
