/* Opening, closing, wrong handles, handle integers, modes, groups, sizes, hints, views, pointers:
 * everything of an open file that moves no data. Usage: handles FILE */
#include "check.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[4096];

static MPI_File open_new(MPI_Comm comm, int amode)
{
    MPI_File fh = MPI_FILE_NULL;
    OK(MPI_File_open(comm, path, amode, MPI_INFO_NULL, &fh));
    return fh;
}

/* Every function must refuse a null or closed handle with MPI_ERR_FILE. */
static void wrong_handle(MPI_File fh)
{
    MPI_Offset offset = 0;
    MPI_Info info;
    MPI_Group group;
    MPI_Datatype etype, filetype;
    MPI_Request request;
    MPI_Errhandler handler;
    MPI_Status status;
    MPI_Aint extent;
    int flag = 0, word = 0;
    char datarep[MPI_MAX_DATAREP_STRING];
    FAILS(MPI_File_get_size(fh, &offset), MPI_ERR_FILE);
    FAILS(MPI_File_set_size(fh, 0), MPI_ERR_FILE);
    FAILS(MPI_File_preallocate(fh, 0), MPI_ERR_FILE);
    FAILS(MPI_File_get_group(fh, &group), MPI_ERR_FILE);
    FAILS(MPI_File_get_amode(fh, &word), MPI_ERR_FILE);
    FAILS(MPI_File_set_info(fh, MPI_INFO_NULL), MPI_ERR_FILE);
    FAILS(MPI_File_get_info(fh, &info), MPI_ERR_FILE);
    FAILS(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_FILE);
    FAILS(MPI_File_get_view(fh, &offset, &etype, &filetype, datarep), MPI_ERR_FILE);
    FAILS(MPI_File_read_at(fh, 0, &word, 1, MPI_INT, &status), MPI_ERR_FILE);
    FAILS(MPI_File_write_all(fh, &word, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_FILE);
    FAILS(MPI_File_iread(fh, &word, 1, MPI_INT, &request), MPI_ERR_FILE);
    FAILS(MPI_File_write_ordered(fh, &word, 1, MPI_INT, &status), MPI_ERR_FILE);
    FAILS(MPI_File_read_all_begin(fh, &word, 1, MPI_INT), MPI_ERR_FILE);
    FAILS(MPI_File_read_all_end(fh, &word, &status), MPI_ERR_FILE);
    FAILS(MPI_File_seek(fh, 0, MPI_SEEK_SET), MPI_ERR_FILE);
    FAILS(MPI_File_get_position(fh, &offset), MPI_ERR_FILE);
    FAILS(MPI_File_get_byte_offset(fh, 0, &offset), MPI_ERR_FILE);
    FAILS(MPI_File_get_type_extent(fh, MPI_INT, &extent), MPI_ERR_FILE);
    FAILS(MPI_File_set_atomicity(fh, 1), MPI_ERR_FILE);
    FAILS(MPI_File_get_atomicity(fh, &flag), MPI_ERR_FILE);
    FAILS(MPI_File_sync(fh), MPI_ERR_FILE);
    if (fh != MPI_FILE_NULL) {
        MPI_File copy = fh;
        FAILS(MPI_File_close(&copy), MPI_ERR_FILE);
        FAILS(MPI_File_get_errhandler(fh, &handler), MPI_ERR_FILE);
    }
}

static void opens(void)
{
    MPI_File fh = (MPI_File)(long)77;
    MPI_Comm inter, half;
    char name[5000];
    FAILS(MPI_File_open(MPI_COMM_WORLD, "/no/such/folder/f", MPI_MODE_RDONLY, MPI_INFO_NULL, &fh),
          MPI_ERR_NO_SUCH_FILE);
    CHECK(fh == MPI_FILE_NULL, "a failed open leaves a handle");
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &fh),
          MPI_ERR_NO_SUCH_FILE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, 0, MPI_INFO_NULL, &fh), MPI_ERR_AMODE);
    FAILS(
        MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &fh),
        MPI_ERR_AMODE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL,
                        &fh),
          MPI_ERR_AMODE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | (1 << 20), MPI_INFO_NULL, &fh),
          MPI_ERR_AMODE);
    FAILS(MPI_File_open(MPI_COMM_NULL, path, MPI_MODE_RDWR, MPI_INFO_NULL, &fh), MPI_ERR_COMM);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh),
          MPI_ERR_BAD_FILE);
    FAILS(MPI_File_delete(path, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    if (check_size > 1) {
        /* One rank alone is wrong: all hear of it and nobody waits. */
        int mode = check_rank ? MPI_MODE_RDWR | MPI_MODE_CREATE : MPI_MODE_WRONLY | MPI_MODE_CREATE;
        FAILS(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &fh), MPI_ERR_NOT_SAME);
        MPI_Comm_split(MPI_COMM_WORLD, check_rank & 1, 0, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - (check_rank & 1), 3, &inter);
        FAILS(MPI_File_open(inter, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh),
              MPI_ERR_COMM);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
    errno = 0;
    fh = open_new(MPI_COMM_WORLD, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR);
    CHECK(errno == 0, "errno %d", errno);
    OK(MPI_File_close(&fh));
    CHECK(fh == MPI_FILE_NULL, "close leaves a handle");
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR,
                        MPI_INFO_NULL, &fh),
          MPI_ERR_FILE_EXISTS);
    fh = open_new(MPI_COMM_WORLD, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    OK(MPI_File_close(&fh));
    CHECK(access(path, F_OK) != 0, "the file was not deleted on close");
    MPI_Barrier(MPI_COMM_WORLD);
}

static void messages(void)
{
    MPI_File fh;
    char text[MPI_MAX_ERROR_STRING], last[64];
    int length, i, class;
    int code =
        MPI_File_open(MPI_COMM_SELF, "/no/such/folder/f", MPI_MODE_RDONLY, MPI_INFO_NULL, &fh);
    MPI_Error_string(code, text, &length);
    CHECK((int)strlen(text) == length, "length %d of %s", length, text);
    CHECK(strstr(text, "/no/such/folder/f") && strstr(text, "MPI_File_open") &&
              strstr(text, "errno 2"),
          "%s", text);
    /* More errors than codes: the newest texts are right, the class is always right. */
    for (i = 0; i < 100; i++) {
        snprintf(last, sizeof last, "/no/such/folder/%d", i);
        code = MPI_File_open(MPI_COMM_SELF, last, MPI_MODE_RDONLY, MPI_INFO_NULL, &fh);
        MPI_Error_class(code, &class);
        MPI_Error_string(code, text, &length);
        CHECK(class == MPI_ERR_NO_SUCH_FILE && strstr(text, last), "%d %s", class, text);
    }
}

static void integers(MPI_File fh)
{
#if defined(MPI_ABI_VERSION) && MPI_ABI_VERSION > 0
    int null = MPI_File_toint(MPI_FILE_NULL), number = MPI_File_toint(fh);
    CHECK(MPI_File_fromint(null) == MPI_FILE_NULL, "null does not survive");
    CHECK(number != null && MPI_File_fromint(number) == fh, "%d", number);
#else
    MPI_Fint null = MPI_File_c2f(MPI_FILE_NULL), number = MPI_File_c2f(fh);
    CHECK(MPI_File_f2c(null) == MPI_FILE_NULL, "null does not survive");
    CHECK(number != null && MPI_File_f2c(number) == fh, "%d", (int)number);
#endif
}

static void queries(MPI_File fh, int amode)
{
    MPI_Group group, world;
    MPI_Info info, other;
    MPI_Offset size = -1;
    int mode = -1, result = -1, flag = -1, keys = 0, found = 0;
    char value[MPI_MAX_INFO_VAL + 1];
    OK(MPI_File_get_amode(fh, &mode));
    CHECK(mode == amode, "%d", mode);
    OK(MPI_File_get_group(fh, &group));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &result);
    CHECK(result == MPI_IDENT, "%d", result);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    OK(MPI_File_set_size(fh, 1000));
    OK(MPI_File_get_size(fh, &size));
    CHECK(size == 1000, "%lld", (long long)size);
    OK(MPI_File_preallocate(fh, 2000));
    OK(MPI_File_get_size(fh, &size));
    CHECK(size == 2000, "%lld", (long long)size);
    FAILS(MPI_File_set_size(fh, -1), MPI_ERR_ARG);
    if (check_size > 1)
        FAILS(MPI_File_set_size(fh, check_rank), MPI_ERR_ARG);
    OK(MPI_File_get_atomicity(fh, &flag));
    CHECK(flag == 0, "%d", flag);
    OK(MPI_File_set_atomicity(fh, 1));
    OK(MPI_File_get_atomicity(fh, &flag));
    CHECK(flag == 1, "%d", flag);
    OK(MPI_File_set_atomicity(fh, 0));
    OK(MPI_File_sync(fh));
    OK(MPI_File_get_info(fh, &info));
    MPI_Info_get_nkeys(info, &keys);
    CHECK(keys > 5, "%d", keys);
    MPI_Info_get(info, "cb_buffer_size", MPI_MAX_INFO_VAL, value, &found);
    CHECK(found && atoi(value) > 0, "%d", found);
    MPI_Info_free(&info);
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "1048576");
    MPI_Info_set(info, "of_the_program", "kept to itself");
    OK(MPI_File_set_info(fh, info));
    MPI_Info_free(&info);
    OK(MPI_File_get_info(fh, &other));
    MPI_Info_get(other, "cb_buffer_size", MPI_MAX_INFO_VAL, value, &found);
    CHECK(found && atoi(value) == 1048576, "%s", value);
    MPI_Info_free(&other);
}

static void views(MPI_File fh)
{
    MPI_Offset disp = -1, position = -1;
    MPI_Datatype etype, filetype, vector;
    char datarep[MPI_MAX_DATAREP_STRING];
    int integers, addresses, types, combiner, size;
    OK(MPI_File_get_view(fh, &disp, &etype, &filetype, datarep));
    CHECK(disp == 0 && etype == MPI_BYTE && filetype == MPI_BYTE, "%lld", (long long)disp);
    CHECK(!strcmp(datarep, "native"), "%s", datarep);
    MPI_Type_vector(4, 1, 2, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    OK(MPI_File_set_view(fh, 16, MPI_INT, vector, "native", MPI_INFO_NULL));
    MPI_Type_free(&vector);
    OK(MPI_File_get_view(fh, &disp, &etype, &filetype, datarep));
    CHECK(disp == 16 && etype == MPI_INT, "%lld", (long long)disp);
    MPI_Type_get_envelope(filetype, &integers, &addresses, &types, &combiner);
    MPI_Type_size(filetype, &size);
    CHECK(size == 16 && combiner != MPI_COMBINER_NAMED, "%d", size);
    MPI_Type_free(&filetype);
    OK(MPI_File_seek(fh, 3, MPI_SEEK_SET));
    OK(MPI_File_seek(fh, 2, MPI_SEEK_CUR));
    OK(MPI_File_get_position(fh, &position));
    CHECK(position == 5, "%lld", (long long)position);
    OK(MPI_File_get_byte_offset(fh, 5, &disp));
    CHECK(disp == 16 + 28 + 4 + 4, "%lld", (long long)disp);
    FAILS(MPI_File_seek(fh, -6, MPI_SEEK_CUR), MPI_ERR_ARG);
    FAILS(MPI_File_seek(fh, 0, 12345), MPI_ERR_ARG);
    OK(MPI_File_get_position(fh, &position));
    CHECK(position == 5, "%lld", (long long)position);
    OK(MPI_File_seek_shared(fh, 7, MPI_SEEK_SET));
    OK(MPI_File_get_position_shared(fh, &position));
    CHECK(position == 7, "%lld", (long long)position);
    if (check_size > 1) {
        FAILS(MPI_File_seek_shared(fh, check_rank, MPI_SEEK_SET), MPI_ERR_ARG);
        FAILS(MPI_File_seek_shared(fh, 1, check_rank ? 12345 : MPI_SEEK_SET), MPI_ERR_ARG);
        /* A wrong argument on one rank only: an error everywhere, and the view stays. */
        FAILS(
            MPI_File_set_view(fh, check_rank ? 0 : -5, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL),
            MPI_ERR_ARG);
        FAILS(MPI_File_set_view(fh, 0, MPI_BYTE, check_rank ? MPI_BYTE : MPI_DATATYPE_NULL,
                                "native", MPI_INFO_NULL),
              MPI_ERR_TYPE);
    }
    FAILS(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "klingon", MPI_INFO_NULL),
          MPI_ERR_UNSUPPORTED_DATAREP);
    FAILS(MPI_File_set_view(fh, 0, MPI_INT, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    FAILS(MPI_File_set_view(fh, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE, "native",
                            MPI_INFO_NULL),
          MPI_ERR_ARG);
    OK(MPI_File_get_view(fh, &disp, &etype, &filetype, datarep));
    CHECK(disp == 16 && etype == MPI_INT, "%lld", (long long)disp);
    MPI_Type_free(&filetype);
    OK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_get_position(fh, &position));
    CHECK(position == 0, "%lld", (long long)position);
    OK(MPI_File_seek(fh, -10, MPI_SEEK_END));
    OK(MPI_File_get_position(fh, &position));
    CHECK(position == 1990, "%lld", (long long)position);
}

int main(int argc, char **argv)
{
    MPI_File fh, stale, many[50];
    int i;
    check_init(&argc, &argv);
    snprintf(path, sizeof path, "%s", argv[1]);
    wrong_handle(MPI_FILE_NULL);
    fh = MPI_FILE_NULL;
    FAILS(MPI_File_close(&fh), MPI_ERR_FILE);
    opens();
    messages();
    fh = open_new(MPI_COMM_WORLD, MPI_MODE_CREATE | MPI_MODE_RDWR);
    stale = fh;
    integers(fh);
    queries(fh, MPI_MODE_CREATE | MPI_MODE_RDWR);
    views(fh);
    OK(MPI_File_close(&fh));
    wrong_handle(stale);
    /* A file of one rank, several at a time; a closed handle is not mistaken for a new one. */
    for (i = 0; i < 50; i++) {
        snprintf(path, sizeof path, "%s.%d.%d", argv[1], check_rank, i);
        many[i] =
            open_new(MPI_COMM_SELF, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
        CHECK(many[i] != stale, "a closed handle came back");
    }
    for (i = 0; i < 50; i++)
        OK(MPI_File_close(&many[i]));
    return check_finish();
}
