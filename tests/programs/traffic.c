/* One interleaved collective write or read, and what each host sent over its network device
 * meanwhile.
 *
 *     mpirun -n N traffic FILE write|read BLOCK COUNT
 *
 * Every rank has COUNT blocks of BLOCK bytes, dealt by turns. One rank of each host prints
 * `host NAME out BYTES packets NUMBER`: what the kernel counted between two barriers around the
 * call. */
#include "check.h"

struct counts { long long bytes, packets; };

static struct counts sent(void)
{
    struct counts counts = {0, 0};
    char line[512];
    FILE *stream = fopen("/proc/net/dev", "r");
    while (stream && fgets(line, sizeof line, stream))
        sscanf(line, " eth0: %*u %*u %*u %*u %*u %*u %*u %*u %lld %lld", &counts.bytes,
               &counts.packets);
    if (stream)
        fclose(stream);
    return counts;
}

/* Every pair of ranks has a connection before anything is counted. */
static void connect_all(void)
{
    int *from = calloc(check_size, sizeof(int)), *to = calloc(check_size, sizeof(int));
    MPI_Alltoall(from, 1, MPI_INT, to, 1, MPI_INT, MPI_COMM_WORLD);
    free(from);
    free(to);
}

/* The byte of this rank at a place in its own data. */
static unsigned char own(long at, int block)
{
    return pattern((at / block * check_size + check_rank) * (long long)block + at % block);
}

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Status status;
    MPI_Datatype tile;
    MPI_Comm host;
    int host_rank, length;
    char name[MPI_MAX_PROCESSOR_NAME];

    check_init(&argc, &argv);
    int writing = argc == 5 && strcmp(argv[2], "write") == 0;
    int block = argc == 5 ? atoi(argv[3]) : 1, count = argc == 5 ? atoi(argv[4]) : 1;
    long mine = (long)block * count;
    unsigned char *buffer = calloc(mine, 1);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &host_rank);
    MPI_Get_processor_name(name, &length);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    MPI_Type_vector(count, block, block * check_size, MPI_BYTE, &tile);
    MPI_Type_commit(&tile);
    OK(MPI_File_set_view(file, (MPI_Offset)check_rank * block, MPI_BYTE, tile, "native",
                         MPI_INFO_NULL));
    for (long i = 0; writing && i < mine; i++)
        buffer[i] = own(i, block);
    connect_all();

    MPI_Barrier(MPI_COMM_WORLD);
    struct counts before = sent();
    MPI_Barrier(MPI_COMM_WORLD);
    if (writing)
        OK(MPI_File_write_at_all(file, 0, buffer, (int)mine, MPI_BYTE, &status));
    else
        OK(MPI_File_read_at_all(file, 0, buffer, (int)mine, MPI_BYTE, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    struct counts after = sent();
    MPI_Barrier(MPI_COMM_WORLD);

    COUNT(&status, MPI_BYTE, mine);
    for (long i = 0; !writing && i < mine; i++)
        if (buffer[i] != own(i, block)) {
            CHECK(0, "byte %ld is wrong", i);
            break;
        }
    if (host_rank == 0)
        printf("host %s out %lld packets %lld\n", name, after.bytes - before.bytes,
               after.packets - before.packets);
    fflush(stdout);
    OK(MPI_File_close(&file));
    MPI_Type_free(&tile);
    MPI_Comm_free(&host);
    free(buffer);
    return check_finish();
}
