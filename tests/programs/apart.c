/* What ranks on different hosts may be unable to share: the shared file pointer and the locks of
 * atomic mode. Each call works or fails with MPI_ERR_UNSUPPORTED_OPERATION, collective ones alike
 * on all ranks, and everything else goes on as if nothing had been asked. */
#include "check.h"

static MPI_File file;

/* The class, which must be one of the two. */
static int possible(int code, const char *what)
{
    int class = check_class(code);
    CHECK(class == MPI_SUCCESS || class == MPI_ERR_UNSUPPORTED_OPERATION, "%s gave %s", what,
          check_text(code));
    return class;
}

static int same_everywhere(int code, const char *what)
{
    int class = possible(code, what), least, most;
    MPI_Allreduce(&class, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&class, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    CHECK(least == most, "%s gave classes %d to %d", what, least, most);
    return class;
}

/* Everybody's numbers, written and read together. */
static void collective(int value)
{
    int numbers[8], seen[8] = {0};
    MPI_Status status;
    for (int i = 0; i < 8; i++)
        numbers[i] = value + 10 * check_rank + i;
    OK(MPI_File_write_at_all(file, check_rank * sizeof numbers, numbers, 8, MPI_INT, &status));
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_sync(file));
    OK(MPI_File_read_at_all(file, check_rank * sizeof numbers, seen, 8, MPI_INT, &status));
    COUNT(&status, MPI_INT, 8);
    CHECK(memcmp(numbers, seen, sizeof seen) == 0, "element 0 is %d", seen[0]);
}

int main(int argc, char **argv)
{
    int record = 1, flag = -1;
    MPI_Offset position;
    MPI_Status status;

    check_init(&argc, &argv);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    int ordered = same_everywhere(MPI_File_write_ordered(file, &record, 1, MPI_INT, &status),
                                  "write_ordered");
    int sought = same_everywhere(MPI_File_seek_shared(file, 3, MPI_SEEK_SET), "seek_shared");
    MPI_Barrier(MPI_COMM_WORLD);
    int asked = possible(MPI_File_get_position_shared(file, &position), "get_position_shared");
    CHECK(ordered == sought && sought == asked, "classes %d, %d, %d", ordered, sought, asked);
    MPI_Barrier(MPI_COMM_WORLD);
    collective(1000);
    int atomic = same_everywhere(MPI_File_set_atomicity(file, 1), "set_atomicity");
    OK(MPI_File_get_atomicity(file, &flag));
    CHECK(flag == (atomic == MPI_SUCCESS), "atomic mode is %d", flag);
    /* A refused access has changed nothing. */
    int code =
        MPI_File_write_at(file, 4096 + check_rank * sizeof record, &record, 1, MPI_INT, &status);
    COUNT(&status, MPI_INT, possible(code, "write_at") == MPI_SUCCESS);
    OK(MPI_File_set_atomicity(file, 0));
    collective(2000);
    OK(MPI_File_close(&file));
    return check_finish();
}
